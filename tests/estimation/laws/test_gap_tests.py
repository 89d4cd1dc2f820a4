"""Are changes Poisson: tests keep their level, find what is not, and are the same in every unit of time."""

import itertools

import numpy as np
import pytest
from example_counts import percent
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from estimation.poll_histories import polled
from unstale.errors import InvalidInput
from unstale.estimation import burstiness, examine_gaps, examine_polls, gap_shares, memory
from unstale.estimation.laws.gap_tests import _uniform
from unstale.processes import Gamma, Periodic, Poisson, Weibull

gap_lists = st.lists(st.floats(1e-6, 1e6), min_size=3, max_size=60)
powers_of_two = st.integers(-40, 40).map(lambda k: 2.0**k)


def share_below(p_values, level=0.05):
    return float(np.mean(np.array(p_values) < level))


@pytest.mark.parametrize(("elements", "each"), [(1, 5), (1, 40), (60, 3), (20, 12)])
def test_the_tests_keep_their_level_whatever_the_rates(elements, each):
    rng = np.random.default_rng(elements)
    owner = np.repeat(np.arange(elements), each)
    found = []
    for _ in range(600):
        gaps = rng.exponential(size=owner.size) * np.repeat(rng.lognormal(0.0, 3.0, elements), each)
        found.append(examine_gaps(gaps, owner))
    assert 0.03 < share_below([one.exponential.p_value for one in found]) < 0.075
    assert share_below([one.independent.p_value for one in found]) < 0.075
    assert share_below([one.p_value for one in found]) < 0.07
    assert abs(np.mean([one.burstiness for one in found])) < 0.15


@pytest.mark.parametrize(
    ("law", "words"),
    [(Weibull(0.6, 1.0), "bursty"), (Gamma(3.0, 1.0), "regular"), (Periodic(1.0), "regular")],
)
def test_other_laws_are_told_apart(law, words):
    rng = np.random.default_rng(1)
    found = examine_gaps(law.sample(rng, 300))
    assert words in found.verdict
    assert not found.is_poisson
    assert (found.burstiness > 0) == (words == "bursty")


def test_gaps_that_depend_on_the_last_are_found_though_each_is_exponential():
    rng = np.random.default_rng(2)
    noise = rng.normal(size=2000)
    for i in range(1, noise.size):
        noise[i] = 0.4 * noise[i - 1] + np.sqrt(1 - 0.16) * noise[i]
    found = examine_gaps(-np.log(special.ndtr(noise)))
    assert found.exponential.p_value > 0.001
    assert found.independent.p_value < 1e-9
    assert "gaps depend on those before" in found.verdict
    assert found.memory > 0.2


def test_one_element_is_as_powerful_as_the_test_with_tables():
    rng = np.random.default_rng(3)
    ours, tables = [], []
    for _ in range(150):
        gaps = rng.weibull(0.7, size=50)
        ours.append(examine_gaps(gaps).exponential.p_value < 0.05)
        ordered = np.sort(gaps / gaps.mean())
        cdf = -np.expm1(-ordered)
        weights = 2 * np.arange(1, 51) - 1
        statistic = -50 - (weights * (np.log(cdf) - ordered[::-1])).sum() / 50
        tables.append(statistic * (1 + 0.6 / 50) > 1.321)  # of Stephens, at 5 %
    assert np.mean(ours) > np.mean(tables) - 0.07


@pytest.mark.parametrize(
    ("z", "p"), [(0.5, 0.7468), (1.248, 0.25), (1.933, 0.1), (2.492, 0.05), (3.878, 0.01)]
)
def test_the_statistic_of_anderson_and_darling_has_its_known_points(z, p):
    """Find numbers with that statistic: regular ones, pushed to one side."""
    n = 400
    even = (np.arange(n) + 0.5) / n
    low, high = 0.3, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if _uniform(even**middle).statistic < z else (middle, high)
    found = _uniform(even**low)
    assert found.statistic == pytest.approx(z, rel=1e-6)
    assert found.p_value == pytest.approx(p, rel=0.01)


def test_p_values_fall_smoothly_to_nothing():
    n = 300
    even = (np.arange(n) + 0.5) / n
    p = [_uniform(even**power).p_value for power in np.linspace(1.0, 4.0, 200)]
    assert all(b < a * 1.03 for a, b in itertools.pairwise(p))
    assert p[-1] < 1e-30


def test_rank_autocorrelations_have_the_moments_that_are_used():
    rng = np.random.default_rng(4)
    n, k = 12, 2
    ranks = np.array([rng.permutation(n) - (n - 1) / 2 for _ in range(40_000)])
    r = (ranks[:, k:] * ranks[:, :-k]).sum(axis=1) / (ranks[0] ** 2).sum()
    mean = -(n - k) / (n * (n - 1))
    variance = (5 * n**4 - (5 * k + 9) * n**3 + 9 * (k - 2) * n**2 + 2 * k * (5 * k + 8) * n + 16 * k**2) / (
        5 * (n - 1) ** 2 * n**2 * (n + 1)
    )
    assert r.mean() == pytest.approx(mean, abs=4 * np.sqrt(variance / r.size))
    assert r.var() == pytest.approx(variance, rel=0.03)


@given(gap_lists, powers_of_two)
def test_the_unit_of_time_does_not_matter(gaps, unit):
    one, other = examine_gaps(gaps), examine_gaps(np.array(gaps) * unit)
    assert one == other


@given(gap_lists)
def test_burstiness_and_memory_are_bounded(gaps):
    assert -1.0 - 1e-12 <= burstiness(gaps) <= 1.0 + 1e-12
    assert -1.0 <= memory(gaps) <= 1.0


def test_burstiness_of_exponential_gaps_is_none_for_any_number():
    """Where the variance is what it is in the mean: r^2 = (n-1)/(n+1)."""
    for n in (2, 5, 50):
        r = np.sqrt((n - 1) / (n + 1))
        gaps = np.concatenate([[1 + r * np.sqrt(n - 1)], np.full(n - 1, 1 - r / np.sqrt(n - 1))])
        assert gaps.std() / gaps.mean() == pytest.approx(r)
        assert burstiness(gaps) == pytest.approx(0.0, abs=1e-12)
    assert burstiness([]) == burstiness([1.0]) == burstiness([0.0, 0.0]) == 0.0


@pytest.mark.parametrize("gaps", [[], [1.0], [0.0, 0.0, 0.0], [1.0, 2.0]])
def test_too_few_gaps_tell_nothing(gaps):
    found = examine_gaps(gaps)
    assert found.p_value == 1.0
    assert found.verdict == "too few gaps to tell"


def test_equal_and_vanishing_gaps_are_no_trouble():
    assert examine_gaps([5.0] * 100).verdict.startswith("regular")
    assert examine_gaps([0.0] * 50 + [7.0] * 50).exponential.p_value < 1e-6


@settings(max_examples=percent(30))
@given(st.integers(0, 2**32 - 1), st.integers(2, 8))
def test_the_order_of_elements_does_not_matter(seed, count):
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(count), 10)
    gaps = rng.exponential(size=owner.size)
    new = rng.permutation(count)
    moved = np.argsort(new[owner], kind="stable")
    one, other = examine_gaps(gaps, owner), examine_gaps(gaps[moved], new[owner][moved])
    assert one.exponential.statistic == pytest.approx(other.exponential.statistic)
    assert one.independent.statistic == pytest.approx(other.independent.statistic)


@pytest.mark.parametrize("regular", [True, False])
@pytest.mark.parametrize(
    ("elements", "polls", "rate"), [(1, 200, 0.7), (100, 10, 0.3), (100, 10, 2.0), (40, 40, 1.0)]
)
def test_tests_of_polls_keep_their_level(elements, polls, rate, regular):
    rng = np.random.default_rng(polls)
    owner = np.repeat(np.arange(elements), polls)
    z = []
    for _ in range(150):
        spans = np.ones(owner.size) if regular else rng.gamma(2.0, 0.5, size=owner.size)
        own = np.repeat(rate * rng.lognormal(0.0, 0.5, elements), polls)
        found = examine_polls(spans, rng.random(owner.size) < -np.expm1(-own * spans), owner)
        z.append((found.elapsed.statistic, found.independent.statistic))
    elapsed, independent = np.transpose(z)
    assert np.isnan(elapsed).all() if regular else abs(elapsed.mean()) < 0.5
    assert abs(independent.mean()) < 0.5
    assert 0.6 < independent.std() < 1.2


@pytest.mark.parametrize("regular", [True, False])
@pytest.mark.parametrize(
    ("law", "words"),
    [(Weibull(0.5, 0.5), "bursty"), (Gamma(4.0, 0.25), "regular"), (Poisson(1.0), "as if Poisson")],
)
def test_polls_alone_tell_other_laws(law, words, regular):
    rng = np.random.default_rng(5)
    stretch = rng.lognormal(0.0, 0.5, size=60)
    owner, spans, seen = polled(law, rng, elements=60, polls=60, rate=2.0, regular=regular, stretch=stretch)
    assert examine_polls(spans, seen, owner).verdict == words


@given(powers_of_two)
def test_tests_of_polls_know_no_unit(unit):
    rng = np.random.default_rng(6)
    spans, seen = rng.exponential(size=80), rng.random(80) < 0.5
    one, other = examine_polls(spans, seen), examine_polls(spans * unit, seen)
    assert other.independent.statistic == pytest.approx(one.independent.statistic, rel=1e-9)
    assert other.elapsed.statistic == pytest.approx(one.elapsed.statistic, rel=1e-6)


@pytest.mark.parametrize("seen", [np.zeros(20), np.ones(20), np.zeros(0)])
def test_polls_that_all_saw_the_same_tell_nothing(seen):
    found = examine_polls(np.ones(seen.size), seen)
    assert found.verdict == "too few polls to tell"
    assert found.p_value == 1.0


def test_shares_of_gaps_are_those_of_figure_eleven():
    rng = np.random.default_rng(7)
    owner = np.repeat(np.arange(400), 50)
    means = np.repeat(np.where(np.arange(400) % 2, 10.0, 30.0), 50)
    shown = gap_shares(rng.exponential(means), owner, mean_gap=10.0, within=0.3, bins=8, longest=40.0)
    assert 190 <= shown.elements <= 200
    assert shown.mean_gap == pytest.approx(10.0, rel=0.03)
    assert shown.shares == pytest.approx(shown.exponential, abs=0.02)
    assert shown.exponential.sum() == pytest.approx(1 - np.exp(-40.0 / shown.mean_gap))
    logs = np.log(shown.exponential)
    assert np.diff(logs) == pytest.approx(np.full(7, np.diff(logs)[0]))  # a straight line


def test_shares_without_a_mean_gap_are_in_units_of_each_elements_own():
    gaps, owner = [1.0, 3.0, 10.0, 30.0], [0, 0, 1, 1]
    shown = gap_shares(gaps, owner, bins=2, longest=2.0)
    assert shown.shares.tolist() == [0.5, 0.5]
    assert shown.mean_gap == 1.0


def test_independent_test_agrees_with_the_chi_square_of_scipy():
    assert examine_gaps(np.random.default_rng(8).exponential(size=99)).independent.p_value == pytest.approx(
        stats.chi2.sf(examine_gaps(np.random.default_rng(8).exponential(size=99)).independent.statistic, 5)
    )


@pytest.mark.parametrize("seconds", [None, 86400.0])
def test_the_picture_shows_gaps_beside_laws(tmp_path, seconds):
    pytest.importorskip("matplotlib")
    from unstale.cli.estimate.plot import gap_figure

    shown = gap_shares(np.random.default_rng(9).exponential(size=500))
    for name in ("one.svg", "two.svg"):
        gap_figure(str(tmp_path / name), shown, seconds=seconds, laws={"regular": Periodic(1.0)})
    text = (tmp_path / "one.svg").read_text(encoding="utf-8")
    assert text == (tmp_path / "two.svg").read_text(encoding="utf-8")
    for label in ("500 gaps of 1 element", "Poisson: exponential gaps", "regular", "share of the gaps"):
        assert label in text


BAD = [
    (examine_gaps, {"gaps": [1.0, -2.0]}, r"gaps must be .*gaps\[1\] is -2"),
    (examine_gaps, {"gaps": [1.0, np.nan]}, r"gaps\[1\] is nan"),
    (examine_gaps, {"gaps": [[1.0]]}, "gaps must be a list"),
    (examine_gaps, {"gaps": "abc"}, "gaps must be a number"),
    (examine_gaps, {"gaps": [1.0, 2.0], "elements": [0]}, "elements must be one number for each of the 2"),
    (examine_gaps, {"gaps": [1.0], "elements": [0.5]}, r"elements\[0\] is 0.5"),
    (examine_gaps, {"gaps": [1.0], "level": 0.0}, "level must be"),
    (burstiness, {"gaps": [np.inf]}, "gaps must be finite"),
    (memory, {"gaps": [-1.0]}, r"gaps\[0\] is -1"),
    (examine_polls, {"elapsed": [0.0], "changed": [True]}, r"elapsed must be .*elapsed\[0\] is 0"),
    (
        examine_polls,
        {"elapsed": [1.0], "changed": [0.5]},
        r"changed must be True or False.*changed\[0\] is 0.5",
    ),
    (examine_polls, {"elapsed": [1.0], "changed": [True, False]}, "changed must be one for each of the 1"),
    (examine_polls, {"elapsed": [1.0], "changed": [True], "level": 1.0}, "level must be"),
    (gap_shares, {"gaps": []}, "gaps must not be empty"),
    (gap_shares, {"gaps": [1.0], "mean_gap": 5.0}, "no element has a mean gap within 0.1 of 5"),
    (gap_shares, {"gaps": [1.0], "bins": 0}, "bins must be a whole number >= 1"),
    (gap_shares, {"gaps": [1.0], "longest": -1.0}, "longest must be"),
    (gap_shares, {"gaps": [0.0]}, "no element has a mean gap above 0"),
]


@pytest.mark.parametrize(("function", "arguments", "words"), BAD)
def test_what_cannot_be_used_is_named(function, arguments, words):
    with pytest.raises(InvalidInput, match=words):
        function(**arguments)
