"""Worlds: changes come by the laws that were asked for, and depend on nothing but seed, law and element."""

import numpy as np
import pytest
from example_counts import percent
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from unstale import (
    Empirical,
    Gamma,
    InvalidInput,
    Lognormal,
    Pareto,
    Periodic,
    Poisson,
    RandomOrder,
    UncertainPoisson,
    Weibull,
    World,
)
from unstale.processes import Superposed
from unstale.simulation import align, zipf
from unstale.simulation.events import Events

LAWS = {  # all with rate 1
    "Poisson": Poisson(1.0),
    "Pareto": Pareto(3.0, 2.0),
    "heavy-Pareto": Pareto(1.8, 0.8),
    "bursty-Weibull": Weibull(0.6, 1.0).at_rate(1.0),
    "regular-Weibull": Weibull(2.5, 1.0).at_rate(1.0),
    "bursty-gamma": Gamma(0.4, 2.5),
    "regular-gamma": Gamma(3.5, 1.0 / 3.5),
    "lognormal": Lognormal(-0.5, 1.0),
    "periodic": Periodic(1.0),
    "uncertain": UncertainPoisson(3.0, 1.0 / 3.0),
    "very-uncertain": UncertainPoisson(0.5, 2.0),
    "random-order": RandomOrder(1.0),
    "observed": Empirical([0.25, 0.5, 0.75, 2.5]),
    "superposed-gamma": Superposed(Gamma(3.0, 1.0), 3),
    "superposed-periodic": Superposed(Periodic(2.0), 2),
}
SLOW = {"random-order", "observed"}  # drawn gap by gap


def many(law, n):
    """The law of n elements, all alike, as one process if it can be."""
    if isinstance(law, Empirical | Superposed):
        return [law] * n
    return law.take(np.zeros(n, int)) if law.shape_of else type(law)(*(np.full(n, v) for v in law._values()))


def histories(world, seed, *ends):
    """Changes of each element, drawn in pieces."""
    source = world.changes(seed)
    parts = [by_element(source.until(end), len(world)) for end in ends]
    return [np.concatenate(own) for own in zip(*parts, strict=True)]


def by_element(events, n):
    assert events.offsets.shape == (n + 1,)
    assert events.offsets[0] == 0
    assert events.offsets[-1] == events.times.size
    return np.split(events.times, events.offsets[1:-1])


# --- laws ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LAWS)
def test_changes_come_at_the_rate_of_the_law_from_the_beginning(name):
    """A process that has been going on for ever has rate * T changes in any stretch of length T."""
    n, law = (800 if name in SLOW else 4000), LAWS[name]
    source = World(many(law, n)).changes(3)
    for end in (0.5, 2.0, 8.0):
        counts = np.diff(source.until(end).offsets)
        length = {0.5: 0.5, 2.0: 1.5, 8.0: 6.0}[end]
        error = max(counts.std() / np.sqrt(n), 1e-9)
        assert abs(counts.mean() - length) < 4.0 * error


@pytest.mark.parametrize("name", LAWS)
def test_the_first_change_comes_as_from_a_random_moment(name):
    n, law = (800 if name in SLOW else 4000), LAWS[name]
    first = np.array([own[0] if own.size else np.inf for own in histories(World(many(law, n)), 4, 100.0)])
    seen, within = first[first < 100.0], float(law.residual_cdf(100.0))
    assert abs(seen.size - n * within) <= 4.0 * np.sqrt(n * within * (1.0 - within)) + 1e-6
    assert stats.kstest(seen, lambda t: law.residual_cdf(t) / within).pvalue > 1e-3


RENEWAL = [name for name in LAWS if "uncertain" not in name and "superposed" not in name]


@pytest.mark.parametrize("name", RENEWAL)
def test_gaps_are_those_of_the_law(name):
    """The gaps after the first change of each element, of which few are cut off."""
    n, law = (800 if name in SLOW else 4000), LAWS[name]
    gaps = [np.diff(own)[:4] for own in histories(World(many(law, n)), 5, 400.0)]
    whole = np.array([own for own in gaps if own.size == 4])
    assert len(whole) > 0.98 * n
    if name == "periodic":
        assert_allclose(whole, 1.0, rtol=1e-12)
        return
    for k in range(4):
        if name == "observed":
            values, seen = np.unique(whole[:, k].round(9), return_counts=True)
            assert_allclose(values, law.gaps)
            assert stats.chisquare(seen).pvalue > 1e-3
        else:
            assert stats.kstest(whole[:, k], lambda y: 1.0 - law.survival(y)).pvalue > 1e-3
    rank = stats.rankdata(whole, axis=0)
    for k in range(3):
        assert abs(np.corrcoef(rank[:, k], rank[:, k + 1])[0, 1]) < 4.0 / np.sqrt(len(rank))
    assert abs(np.corrcoef(rank[1:, 0], rank[:-1, 0])[0, 1]) < 4.0 / np.sqrt(len(rank))  # neighbours


@pytest.mark.parametrize("name", ["superposed-gamma", "superposed-periodic"])
def test_gaps_of_superposed_processes(name):
    """In the long run, over all changes; far apart, they hardly depend on each other."""
    law = LAWS[name]
    gaps = np.concatenate([np.diff(own)[::40][:9] for own in histories(World(many(law, 800)), 6, 400.0)])
    if name == "superposed-periodic":  # gaps alternate, as phases never change: the first is |U - V|
        gaps = np.array([np.diff(own)[0] for own in histories(World(many(law, 800)), 6, 5.0)])
        assert stats.kstest(gaps, lambda y: 1.0 - (1.0 - y / 2.0) ** 2).pvalue > 1e-3
    else:
        assert stats.kstest(gaps, lambda y: 1.0 - law.survival(y)).pvalue > 1e-3


@pytest.mark.parametrize("name", ["uncertain", "very-uncertain"])
def test_each_element_has_a_rate_of_its_own_if_rates_are_uncertain(name):
    law, n, length = LAWS[name], 4000, 50.0
    found = histories(World(many(law, n)), 7, length)
    counts = np.array([own.size for own in found])
    # numbers are negative binomial: Poisson with a gamma mean
    edges = [0, *np.unique(np.quantile(counts, np.linspace(0.1, 0.9, 9)).astype(int)), np.inf]
    tail = stats.nbinom.cdf(np.array(edges[1:-1]) - 1, law.shape, 1.0 / (1.0 + law.scale * length))
    expected = n * np.diff(np.concatenate([[0.0], tail, [1.0]]))
    assert stats.chisquare(np.histogram(counts, edges)[0], expected).pvalue > 1e-3
    # and those of one element are as likely to be anywhere
    places = np.concatenate([own for own in found if own.size])[::5] / length
    assert stats.kstest(places, "uniform").pvalue > 1e-3


def test_superposed_uncertain_rates_add_up():
    """Each copy has one rate for ever: numbers are sums of two that are negative binomial."""
    law, n = Superposed(UncertainPoisson(0.5, 2.0), 2), 2000
    counts = np.array([own.size for own in histories(World([law] * n), 12, 20.0)])
    expected = stats.nbinom(1.0, 1.0 / 41.0)  # the sum of two gamma numbers of shape 1/2 has shape 1
    assert abs(counts.mean() - expected.mean()) < 4.0 * expected.std() / np.sqrt(n)
    assert (
        stats.ks_1samp(counts + np.random.default_rng(1).random(n), lambda x: smoothed(expected, x)).pvalue
        > 1e-3
    )


def smoothed(law, x):
    """Distribution of a whole number plus a uniform one."""
    k = np.floor(x)
    return law.cdf(k - 1) + (x - k) * law.pmf(k)


def test_processes_superposed_twice_are_superposed():
    """Nearly periodic copies: numbers hardly vary, however the copies are put together."""
    each = Gamma(50.0, 1.0 / 50.0)
    once, twice = Superposed(each, 4), Superposed(Superposed(each, 2), 2)
    spreads = []
    for law in (once, twice):
        counts = np.array([own.size for own in histories(World([law] * 1500), 13, 20.0)])
        assert abs(counts.mean() - 80.0) < 4.0 * counts.std() / np.sqrt(1500)
        spreads.append(counts.var())
    assert spreads[1] == pytest.approx(spreads[0], rel=0.15)


def test_rates_and_scales_of_each_element_are_its_own():
    for law in (Poisson([0.2, 5.0]), Gamma([0.5, 4.0], [10.0, 0.05]), Pareto([3.0, 4.0], [10.0, 0.6])):
        counts = np.array([[own.size for own in histories(World(law), seed, 200.0)] for seed in range(40)])
        error = counts.std(axis=0) / np.sqrt(40)
        assert np.all(np.abs(counts.mean(axis=0) - 200.0 * law.rate) < 4.0 * error)


def test_a_list_of_laws_gives_each_element_its_own():
    laws = [
        Periodic(0.5),
        Poisson(0.0),
        Empirical([2.0]),
        Periodic(0.25),
        Superposed(Periodic(1.0), 5),
        Poisson(3.0),
    ]
    found = histories(World(laws), 1, 1000.0)
    assert_allclose(np.diff(found[0]), 0.5)
    assert found[1].size == 0
    assert_allclose(np.diff(found[2]), 2.0)
    assert_allclose(np.diff(found[3]), 0.25)
    assert found[4].size == pytest.approx(5000, abs=5)
    assert_allclose(found[4][5:] - found[4][:-5], 1.0)
    assert found[5].size == pytest.approx(3000, abs=250)
    assert World(laws).mean_rates.tolist() == [2.0, 0.0, 0.5, 4.0, 5.0, 3.0]


def test_what_never_changes_never_changes():
    found = histories(World([0.0, 1.0, 0.0]), 1, 1e6)
    assert [own.size > 0 for own in found] == [False, True, False]
    assert histories(World(Poisson(0.0)), 1, 1e300)[0].size == 0


def test_changes_of_different_elements_do_not_depend_on_each_other():
    for law in (Poisson(1.0), Gamma(0.4, 2.5), Weibull(0.6, 1.0).at_rate(1.0)):
        found = histories(World(many(law, 2)), 8, 20_000.0)
        counts = [np.histogram(own, 10_000, (0.0, 20_000.0))[0] for own in found]
        assert abs(np.corrcoef(*counts)[0, 1]) < 4.0 / 100.0


def test_requests_and_changes_have_luck_of_their_own():
    world = World(np.full(50, 1.0), accesses=50.0)
    changes, requests = (source.until(400.0) for source in (world.changes(2), world.asked(2)))
    both = [np.histogram(events.times, 8000, (0.0, 400.0))[0] for events in (changes, requests)]
    assert abs(np.corrcoef(*both)[0, 1]) < 4.0 / np.sqrt(8000)
    first = [np.array([own[0] for own in by_element(events, 50)]) for events in (changes, requests)]
    assert abs(np.corrcoef(*first)[0, 1]) < 0.6


# --- the same history, however it is asked for --------------------------------------------------------------

EVERY = {
    **{name: (lambda n, law=law: many(law, n)) for name, law in LAWS.items()},
    "different-rates": lambda n: Poisson(np.arange(1.0, n + 1.0)),
    "different-gammas": lambda n: Gamma(np.arange(1.0, n + 1.0) / 2.0, 1.0),
    "mixed": lambda n: list(LAWS.values())[:n],
}


@pytest.mark.parametrize("name", EVERY)
@settings(max_examples=percent(12))
@given(cuts=st.lists(st.floats(0.0, 40.0), max_size=6), seed=st.integers(0, 2**64))
def test_pieces_of_time_do_not_matter(name, cuts, seed):
    world = World(EVERY[name](5))
    whole, pieces = histories(world, seed, 40.0), histories(world, seed, *sorted(cuts), 40.0)
    for one, other in zip(whole, pieces, strict=True):
        assert_array_equal(one, other)
        assert np.all(np.diff(one) > 0)
        assert np.all((one >= 0.0) & (one < 40.0))


@pytest.mark.parametrize("name", EVERY)
def test_a_longer_world_goes_on_from_a_shorter_one(name):
    world = World(EVERY[name](5))
    for short, long in zip(histories(world, 9, 20.0), histories(world, 9, 60.0), strict=True):
        assert_array_equal(short, long[: short.size])
        assert np.all(long[short.size :] >= 20.0)


@pytest.mark.parametrize("name", EVERY)
def test_other_elements_do_not_matter(name):
    few, more = World(EVERY[name](3)), World(EVERY[name](8))
    for one, other in zip(histories(few, 10, 30.0), histories(more, 10, 30.0)[:3], strict=True):
        assert_array_equal(one, other)


def test_an_element_has_the_same_history_whatever_the_others_are():
    plain = histories(World([Gamma(2.0, 1.0)] * 4), 11, 50.0)
    mixed = histories(
        World([Poisson(1.0), Gamma(2.0, 1.0), Empirical([1.0, 2.0]), Gamma(2.0, 1.0)]), 11, 50.0
    )
    for i in (1, 3):
        assert_array_equal(plain[i], mixed[i])
    rates = histories(World([1.0, 2.0]), 11, 50.0)
    laws = histories(World([Poisson(1.0), Poisson(2.0)]), 11, 50.0)
    for one, other in zip(rates, laws, strict=True):
        assert_array_equal(one, other)


def test_seeds_reproduce_and_differ():
    for name, law in EVERY.items():
        world = World(law(3))
        one, again, other = (histories(world, seed, 30.0) for seed in (1, 1, 2))
        for a, b, c in zip(one, again, other, strict=True):
            assert_array_equal(a, b)
            assert not np.array_equal(a, c), name


def test_a_seed_gives_the_same_history_for_ever():
    """A run can be repeated with a later version only if these never change."""
    found = histories(World([Poisson(1.0), Gamma(0.5, 1.0)]), 1, 3.0)
    assert [own.round(12).tolist() for own in found] == PINNED


PINNED = [
    [0.671933627794, 0.798724053692, 1.479743095674, 2.185425670613],
    [
        0.274081955432,
        0.547598743146,
        0.548946324338,
        0.548950465142,
        0.651469194787,
        1.08250927267,
        1.318370976411,
        1.716054031913,
        1.864448218881,
        2.261624841639,
        2.272013436577,
    ],
]


def test_two_sources_of_one_world_do_not_disturb_each_other():
    world = World(Gamma(np.ones(4), 1.0))
    first, second = world.changes(1), world.changes(1)
    first.until(10.0)
    assert_array_equal(first.until(20.0).times, histories_flat(second, 10.0, 20.0))


def histories_flat(source, begin, end):
    source.until(begin)
    return source.until(end).times


# --- records ------------------------------------------------------------------------------------------------

records = st.lists(st.tuples(st.integers(0, 4), st.floats(0.0, 50.0)), min_size=1, max_size=40)


@given(records, st.lists(st.floats(0.0, 60.0), max_size=5), st.data())
def test_a_record_gives_back_what_was_recorded(record, cuts, data):
    elements, times = (list(column) for column in zip(*record, strict=True))
    at = data.draw(st.lists(st.sampled_from(times), max_size=3))
    world = World.recorded(elements, times, end=60.0, count=5)
    found = histories(world, 0, *sorted([*cuts, *at]), 60.0)
    for i, own in enumerate(found):
        assert own.tolist() == sorted(t for e, t in record if e == i)
    assert world.mean_rates.tolist() == [own.size / 60.0 for own in found]
    other = histories(world, 77, 60.0)
    assert [own.tolist() for own in found] == [own.tolist() for own in other]  # a record needs no luck


@given(records, records)
def test_recorded_requests(record, asked):
    elements, times = zip(*record, strict=True)
    world = World.recorded(elements, times, end=50.0, count=5, requests=tuple(zip(*asked, strict=True)))
    found = by_element(world.asked(1).until(50.5), 5)
    for i, own in enumerate(found):
        assert own.tolist() == sorted(t for e, t in asked if e == i)


def test_a_record_says_how_many_elements_there_are():
    assert len(World.recorded([0, 3], [1.0, 2.0])) == 4
    assert len(World.recorded([0, 3], [1.0, 2.0], count=7)) == 7
    assert World.recorded([0, 3], [1.0, 2.0]).end == 2.0


# --- weights, sizes, requests -------------------------------------------------------------------------------


def test_requests_come_by_the_profile():
    world = World(np.ones(4), weights=[4.0, 3.0, 0.0, 1.0], accesses=80.0)
    assert world.profile.tolist() == [40.0, 30.0, 0.0, 10.0]
    events = world.asked(5).until(200.0)
    counts = np.diff(events.offsets)
    assert counts[2] == 0
    assert stats.chisquare(counts[[0, 1, 3]], counts.sum() * np.array([0.5, 0.375, 0.125])).pvalue > 1e-3
    assert counts.sum() == pytest.approx(16_000, abs=4 * np.sqrt(16_000))
    gaps = np.diff(by_element(events, 4)[0])
    assert stats.kstest(gaps * 40.0, "expon").pvalue > 1e-3
    assert World([1.0]).asked(1).until(1e6).times.size == 0


def test_one_number_stands_for_all():
    world = World([1.0, 2.0], weights=3.0, sizes=2, change_sizes=0)
    assert world.weights.tolist() == [3.0, 3.0]
    assert world.sizes.tolist() == [2.0, 2.0]
    assert world.change_sizes.tolist() == [0.0, 0.0]
    assert World([1.0, 2.0]).weight.tolist() == [1.0, 1.0]


def test_a_world_is_a_value():
    rates, weights = np.array([1.0, 2.0]), np.array([1.0, 1.0])
    world = World(rates, weights=weights)
    rates[:] = 100.0
    weights[:] = 5.0
    assert world.mean_rates.tolist() == [1.0, 2.0]
    assert world.weight.tolist() == [1.0, 1.0]
    assert histories(world, 1, 50.0)[0].size < 200


@given(st.integers(1, 200), st.floats(0.0, 4.0))
def test_zipf_profiles(count, skew):
    profile = zipf(count, skew)
    assert profile.sum() == pytest.approx(1.0)
    assert_allclose(profile * np.arange(1.0, count + 1.0) ** skew, profile[0], rtol=1e-9)


def test_alignments():
    """Carney, Lee & Zdonik (2003), section 3."""
    rng = np.random.default_rng(1)
    rates, profile = rng.gamma(1.0, size=30), zipf(30, 1.0)
    aligned, reverse = (align(profile, rates, how) for how in ("aligned", "reverse"))
    assert stats.spearmanr(aligned, rates).statistic == pytest.approx(1.0)
    assert stats.spearmanr(reverse, rates).statistic == pytest.approx(-1.0)
    shuffled = align(profile, rates, "shuffled", rng)
    for dealt in (aligned, reverse, shuffled):
        assert_allclose(np.sort(dealt), np.sort(profile))
    assert abs(stats.spearmanr(shuffled, rates).statistic) < 0.8
    assert (
        align(profile, rates, "shuffled", np.random.default_rng(2)).tolist()
        == align(profile, rates, "shuffled", np.random.default_rng(2)).tolist()
    )


NO_EVENTS = Events(np.zeros(2, np.int64), np.empty(0))
MISTAKES = [
    (lambda: World([]), "rates must not be empty"),
    (lambda: World([1.0, -1.0]), "rates must be finite and >= 0; rates[1] is -1.0"),
    (lambda: World([[1.0]]), "rates must be one-dimensional"),
    (lambda: World([1.0], weights=[0.0]), "weights must not all be 0"),
    (lambda: World([1.0, 2.0], weights=[1.0]), "one for each of the 2 elements; it has shape (1,)"),
    (lambda: World([1.0], weights=[-1.0]), "weights must be finite and >= 0; weights[0] is -1.0"),
    (lambda: World([1.0], sizes=[0.0]), "sizes must be finite and > 0; sizes[0] is 0.0"),
    (lambda: World([1.0], change_sizes=[np.nan]), "change_sizes[0] is nan"),
    (lambda: World([1.0], accesses=-1.0), "accesses must be finite and >= 0; accesses is -1.0"),
    (lambda: World([1.0, 2.0], history=NO_EVENTS), "history must be the Events of 2 elements"),
    (lambda: World([1.0, 2.0], requests=NO_EVENTS), "requests must be the Events of 2 elements"),
    (lambda: World([1.0], history=3), "history must be the Events of 1 elements"),
    (lambda: World.recorded([], []), "times must not be empty; a record has at least one change"),
    (lambda: World.recorded([0], [1.0, 2.0]), "their shapes are (1,) and (2,)"),
    (lambda: World.recorded([0], [-1.0]), "times must be finite and >= 0; times[0] is -1.0"),
    (lambda: World.recorded([0, -1], [1.0, 2.0]), "elements[1] is -1"),
    (lambda: World.recorded([0.5], [1.0]), "elements must be whole numbers"),
    (lambda: World.recorded(["a"], [1.0]), "elements[0] is 'a'"),
    (lambda: World.recorded([0, 2], [1.0, 2.0], count=2), "elements[1] is 2"),
    (lambda: World.recorded([0], [1.0], count=0), "count must be a whole number >= 1; count is 0"),
    (lambda: World.recorded([0], [1.0], end=0.5), "end must not be before the last change, at 1; end is 0.5"),
    (lambda: World.recorded([0], [1.0], end=np.nan), "end must be finite and > 0; end is nan"),
    (lambda: World.recorded([0], [1.0], requests=3), "requests must be a pair"),
    (lambda: World.recorded([0], [1.0], requests=([4], [1.0])), "requests[0][0] is 4"),
    (lambda: World.recorded([0], [1.0], requests=([0], [-1.0])), "requests[1][0] is -1.0"),
    (lambda: zipf(0, 1.0), "count must be a whole number >= 1; count is 0"),
    (lambda: zipf(3, -1.0), "skew must be finite and >= 0; skew is -1.0"),
    (lambda: align([1.0], [1.0, 2.0], "aligned"), "their shapes are (1,) and (2,)"),
    (lambda: align([1.0], [1.0], "sideways"), "alignment must be one of 'aligned', 'reverse', 'shuffled'"),
    (lambda: align([1.0], [1.0], "shuffled"), "rng must be a numpy Generator"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "words"), MISTAKES, ids=[words for _, words in MISTAKES])
def test_a_mistake_is_named(call, words):
    with pytest.raises(InvalidInput) as caught:
        call()
    assert words in str(caught.value)
