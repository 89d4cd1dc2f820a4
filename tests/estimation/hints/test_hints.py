"""What hints are worth, and how reliable they are."""

from itertools import combinations

import mpmath as mp
import numpy as np
import pytest
from example_counts import percent
from hypothesis import given, settings
from hypothesis import strategies as st

import unstale
from unstale.errors import InvalidInput
from unstale.estimation import HintedChanges, estimate_hints, plan_hinted
from unstale.estimation.hints.compiled.hint_worth import cycles, worths
from unstale.estimation.hints.hinted_polls import HintedPolls
from unstale.estimation.hints.reliability import _p_value, chance_of_fewer

RATES = st.floats(0.01, 100.0)
SHARES = st.just(0.0) | st.floats(1e-9, 1.0)
ALARMS = st.just(0.0) | st.floats(1e-9, 100.0)


def exact(u, a, gam, k):
    """Mean length and worth of a cycle, from the sums over the number of hints."""
    u, a, gam, k = map(mp.mpf, (u, a, gam, k))
    false = gam * mp.e**-k

    def late(i, z):
        return 1 - mp.e**-z * mp.fsum(z**j / mp.factorial(j) for j in range(i + 1))

    count = range(int(mp.floor(u / k)) + 1)
    length = mp.fsum(late(i, gam * (u - i * k) / a) for i in count) / gam
    both = a + gam
    fresh = mp.fsum((false / both) ** i * late(i, both * (u - i * k) / a) for i in count) / both
    return length, fresh - mp.e**-u * length


def kernels(*values):
    columns = [np.array([float(value)]) for value in values]
    return cycles(*columns)[0], worths(*columns)[0]


@pytest.mark.parametrize(
    ("values", "digits"),
    [
        *((values, 60) for values in [(1.0, 1.0, 1.0, 0.7), (1e-5, 1.0, 3.0, 0.5), (12.0, 0.3, 2.0, 0.4)]),
        *((values, 60) for values in [(1e-6, 1e4, 1e-3, 9.0), (0.3, 1.0, 1e-6, 0.1), (20.0, 2.0, 1.0, 15.0)]),
        *((values, 300) for values in [(2.0, 1.0, 40.0, 0.3), (0.9, 1.0, 200.0, 1.0), (3.0, 1e-2, 1.0, 1.1)]),
        # so many hints in a cycle that they are a stream
        *(
            (values, 400)
            for values in [(1.0, 1.0, 60.0, 0.02), (0.02, 1.0, 3e3, 1e-4), (4e-7, 1.0, 1e9, 1e-8)]
        ),
    ],
)
def test_cycles_and_worths_are_exact(values, digits):
    with mp.workdps(digits):
        length, worth = exact(*values)
        got = kernels(*values)
        assert abs(got[0] / length - 1) < 1e-12
        assert abs(got[1] / worth - 1) < 2e-12


def test_the_worth_grows_with_the_evidence_as_the_length_of_a_cycle_says():
    with mp.workdps(40):
        for values in [(1.3, 0.8, 2.0, 0.5), (0.2, 1.0, 5.0, 1.0), (4.0, 3.0, 0.5, 2.5)]:
            slope = mp.diff(lambda u, rest=values[1:]: exact(u, *rest)[1], values[0])
            assert float(slope) == pytest.approx(np.exp(-values[0]) * kernels(*values)[0], rel=1e-10)


# --- limits -------------------------------------------------------------------------------------------------


@given(rate=RATES, elapsed=st.floats(1e-4, 1e3), hints=st.integers(0, 50), false=st.floats(0.0, 100.0))
def test_hints_that_say_nothing_leave_the_worth_of_plain_changes(rate, elapsed, hints, false):
    useless = HintedChanges(rate, recall=0.0, false_alarms=false)
    assert useless.worth(elapsed, hints) == pytest.approx(
        unstale.worth("freshness", rate, elapsed), rel=1e-12
    )


@given(rate=RATES, elapsed=st.floats(0.0, 1e3), hints=st.integers(1, 50))
def test_perfect_hints_are_worth_all_at_once(rate, elapsed, hints):
    perfect = HintedChanges(rate, recall=1.0, false_alarms=0.0)
    assert perfect.worth(elapsed, 0) == 0.0
    assert perfect.worth(elapsed, hints) == pytest.approx(1.0 / rate, rel=1e-14)
    assert perfect.due(0, 0.5 / rate) == np.inf
    assert perfect.due(1, 0.5 / rate) == 0.0
    assert perfect.due(1, 1.5 / rate) == np.inf


@given(rate=RATES, recall=SHARES, false=ALARMS, elapsed=st.floats(1e-3, 100.0))
def test_the_worth_is_between_nothing_and_all_and_grows(rate, recall, false, elapsed):
    changes = HintedChanges(rate, recall, false)
    worth = changes.worth(np.array([[elapsed], [1.5 * elapsed]]), [0, 1, 2, 7])
    assert (worth >= 0).all()
    assert (worth <= (1 + 1e-12) / rate).all()
    assert (np.diff(worth, axis=0) >= -1e-9 / rate).all()
    assert (np.diff(worth, axis=1) >= -1e-9 / rate).all()


@given(rate=RATES, recall=SHARES, false=ALARMS, factor=st.floats(1e-3, 1e3))
def test_the_unit_of_time_is_irrelevant(rate, recall, false, factor):
    here, there = HintedChanges(rate, recall, false), HintedChanges(rate * factor, recall, false * factor)
    assert there.worth(2.0 / factor, 1) * factor == pytest.approx(here.worth(2.0, 1), rel=1e-8)
    price = 0.4 / rate
    assert there.due(1, price / factor) * factor == pytest.approx(here.due(1, price), rel=1e-6, abs=1e-12)


@given(rate=RATES, recall=st.floats(0.0, 0.99), false=st.floats(0.0, 10.0), part=st.floats(0.001, 0.98))
def test_who_is_due_is_worth_the_price(rate, recall, false, part):
    changes = HintedChanges(rate, recall, false)
    price = part / rate
    due = changes.due([0, 1, 2, 3], price)
    assert (np.diff(due) <= 1e-9 * due[0]).all()
    assert changes.worth(due[0], 0) == pytest.approx(price, rel=1e-6)
    assert (changes.worth(due, [0, 1, 2, 3]) >= price * (1 - 1e-6)).all()
    assert changes.effective(due[0], 0) == pytest.approx(due[0])


def test_an_element_that_does_not_change_is_never_due():
    still = HintedChanges(0.0, 0.5, 1.0)
    assert still.worth(5.0, 3) == 0.0
    assert still.due(3, 0.1) == np.inf
    assert still.frequency(0.1) == 0.0
    assert still.freshness(0.1) == 1.0


# --- against simulation -------------------------------------------------------------------------------------


def play(rng, changes, level, count=40_000, most=60):
    """Poll when the evidence reaches a level; return freshness, its error, and polls per unit time."""
    a, gam, k = (float(value) for value in (changes.unhinted, changes.hint_rate, changes.evidence))
    hints = np.cumsum(rng.exponential(1 / gam, (count, most)), axis=1) if gam else np.empty((count, 0))
    numbers = np.arange(hints.shape[1] + 1)
    seen = np.concatenate([np.zeros((count, 1)), hints], axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        left = np.maximum(level - np.where(numbers > 0, k * numbers, 0.0), 0.0)
        alone = np.where(left > 0, left / a, 0.0)
    polled = np.maximum(seen, alone).min(axis=1)
    true = rng.random(hints.shape) < float(changes.precision)
    hinted = np.where(true, hints, np.inf).min(axis=1, initial=np.inf)
    unhinted = rng.exponential(1 / a, count) if a else np.full(count, np.inf)
    fresh = np.minimum(np.minimum(hinted, unhinted), polled)
    share = fresh.sum() / polled.sum()
    error = np.std(fresh - share * polled) / polled.mean() / np.sqrt(count)
    return share, error, 1 / polled.mean()


CASES = [
    (1.0, 0.8, 0.2),
    (1.0, 0.5, 1.0),
    (2.0, 0.95, 0.0),
    (0.5, 1.0, 0.3),
    (1.0, 0.0, 2.0),
    (1.0, 0.2, 0.05),
]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("part", [0.2, 0.6, 0.9])
def test_freshness_and_frequency_are_those_of_a_simulation(case, part):
    changes = HintedChanges(*case)
    price = part / case[0]
    share, error, frequency = play(np.random.default_rng(7), changes, float(changes.threshold(price)))
    assert share == pytest.approx(float(changes.freshness(price)), abs=5 * error)
    assert frequency == pytest.approx(float(changes.frequency(price)), rel=0.03)


def test_at_an_equal_budget_good_hints_help_as_much_as_said_and_useless_ones_do_not():
    rng = np.random.default_rng(3)
    plain = HintedChanges(1.0, 0.0, 0.0)
    for other, least in ((HintedChanges(1.0, 0.9, 0.1), 0.1), (HintedChanges(1.0, 0.0, 3.0), None)):
        said = plan_hinted(other, 0.7).freshness - plan_hinted(plain, 0.7).freshness
        seen, errors = [], []
        for one in (plain, other):
            level = float(one.threshold(plan_hinted(one, 0.7).price))
            share, error, frequency = play(rng, one, level)
            assert frequency == pytest.approx(0.7, rel=0.02)
            seen.append(share)
            errors.append(error)
        assert seen[1] - seen[0] == pytest.approx(said, abs=5 * np.hypot(*errors))
        assert said == pytest.approx(0.0, abs=1e-12) if least is None else said > least


def test_no_other_level_of_evidence_is_better_than_the_one_of_the_price():
    changes = HintedChanges(1.0, 0.7, 0.4)
    price = 0.5
    level = float(changes.threshold(price))

    def gain(u):  # freshness less what polls cost
        length, worth = kernels(u, changes.unhinted, changes.hint_rate, changes.evidence)
        return worth / length + np.exp(-u) - price / length

    assert gain(level) == pytest.approx(np.exp(-level), rel=1e-9)
    assert all(gain(level) > gain(level * factor) for factor in (0.5, 0.9, 1.1, 2.0))


# --- plans --------------------------------------------------------------------------------------------------


def test_without_hints_the_plan_is_the_plain_one():
    rng = np.random.default_rng(5)
    rates, weights, sizes = rng.gamma(1.0, 1.0, 50), rng.random(50), rng.uniform(0.5, 2.0, 50)
    plain = unstale.plan(rates, 20.0, weights=weights, sizes=sizes)
    hinted = plan_hinted(HintedChanges(rates, 0.0, 0.0), 20.0, weights=weights, sizes=sizes)
    np.testing.assert_allclose(hinted.frequencies, plain.frequencies, rtol=1e-6, atol=1e-9)
    assert hinted.price == pytest.approx(plain.price, rel=1e-9)
    assert hinted.freshness == pytest.approx(plain.freshness, rel=1e-9)


@settings(max_examples=percent(20))
@given(seed=st.integers(0, 1000), budget=st.floats(0.1, 50.0))
def test_a_plan_spends_the_budget_and_hints_do_no_harm(seed, budget):
    rng = np.random.default_rng(seed)
    rates, recall, false = rng.gamma(1.0, 1.0, 12) + 1e-3, rng.random(12), rng.gamma(0.5, 1.0, 12)
    recall[:3] = 0.0, 1.0, 1.0
    hinted = plan_hinted(HintedChanges(rates, recall, false), budget)
    assert hinted.spent == pytest.approx(budget, rel=1e-6)
    assert hinted.freshness >= plan_hinted(HintedChanges(rates, 0.0, 0.0), budget).freshness - 1e-9


def test_perfect_hints_are_acted_on_as_far_as_the_budget_goes():
    perfect = HintedChanges([1.0, 1.0], 1.0, 0.0)
    plan = plan_hinted(perfect, 1.4)
    assert plan.freshness == pytest.approx(0.7)
    plenty = plan_hinted(perfect, 5.0)  # there is nothing to spend more on
    assert plenty.spent == pytest.approx(2.0)
    assert plenty.freshness == pytest.approx(1.0)


def follow(rng, changes, plan, time):
    """Follow a plan from hint to hint, as its words have it; return freshness and polls per unit time."""
    fresh, polls = 0.0, 0
    for rate in np.atleast_1d(changes.rate):
        recall, false = float(changes.recall), float(changes.false_alarms)
        one = HintedChanges(float(rate), recall, false)
        true = np.sort(rng.uniform(0, time, rng.poisson(recall * rate * time)))
        missed = np.sort(rng.uniform(0, time, rng.poisson((1 - recall) * rate * time)))
        hints = np.sort(np.append(true, rng.uniform(0, time, rng.poisson(false * time))))
        changed = np.append(np.sort(np.append(true, missed)), np.inf)
        dues = np.array([one.due(np.arange(60), price) for price in (plan.price, plan.price_above)])
        last, n, now, place = 0.0, 0, 0.0, 0
        while now < time:
            due = last + dues[0 if rng.random() < plan.share else 1, n]  # 0 hints, or another one
            come = hints[place] if place < hints.size else time
            if max(due, now) <= come and due < time:
                now = max(due, now)
                first = changed[np.searchsorted(changed, last, "right")]
                fresh += min(first, now) - last
                last, n, polls = now, 0, polls + 1
            else:
                now, n, place = come, min(n + 1, 59), place + 1
        fresh += min(changed[np.searchsorted(changed, last, "right")], time) - last
    return fresh / time / np.size(changes.rate), polls / time


@pytest.mark.parametrize(
    ("changes", "budget"),
    [
        ((np.array([0.2, 0.8, 3.0]), 1.0, 0.0), 2.0),
        ((np.array([1.0, 1.0]), 1.0, 0.0), 1.4),
        ((np.array([1.0]), 1.0, 0.5), 0.9),  # between one hint and two
        ((np.array([1.0]), 0.5, 0.0), 0.3),
        ((np.array([1.0, 3.0]), 0.7, 0.3), 1.0),
    ],
)
def test_who_follows_a_plan_spends_the_budget_also_where_hints_tie(changes, budget):
    changes = HintedChanges(*changes)
    plan = plan_hinted(changes, budget)
    assert plan.spent == pytest.approx(budget, rel=1e-9)
    fresh, polls = follow(np.random.default_rng(3), changes, plan, 8000.0)
    assert polls == pytest.approx(budget, rel=0.03)
    assert fresh == pytest.approx(plan.freshness, abs=0.015)


# --- estimates ----------------------------------------------------------------------------------------------


def history(rng, rate, recall, false, elapsed):
    """Return hints and changes of polls."""
    true, missed = rng.poisson(recall * rate * elapsed), rng.poisson((1 - recall) * rate * elapsed)
    return true + rng.poisson(false * elapsed), true + missed > 0


def test_recall_and_precision_are_found():
    rng = np.random.default_rng(1)
    elapsed = rng.exponential(1.0, 20_000) + 0.1
    hints, changed = history(rng, 0.8, 0.7, 0.3, elapsed)
    found = estimate_hints(elapsed, hints, changed)
    for interval, truth in ((found.recall, 0.7), (found.precision, 0.56 / 0.86), (found.mean_rate, 0.8)):
        assert interval.low < interval.value < interval.high
        assert interval.value == pytest.approx(truth, rel=0.03)
        assert interval.high - interval.low < 0.1
    assert found.p_value < 1e-6
    law = found.law
    assert (law.rate, law.recall) == (found.rate, found.recall.value)
    assert float(law.precision) == pytest.approx(found.precision.value)
    assert float(law.hint_rate) == pytest.approx(float(found.hint_rate), rel=1e-9)


def test_many_elements_share_the_reliability_of_their_hints():
    rng = np.random.default_rng(2)
    rates = rng.gamma(1.0, 0.5, 300) + 0.02
    elements = np.repeat(np.arange(300), 8)
    elapsed = rng.exponential(1.0, elements.size) + 0.1
    rate = rates[elements]
    hints, changed = history(rng, rate, 0.7, 0.7 * rate * 2 / 3, elapsed)
    found = estimate_hints(elapsed, hints, changed, elements=elements)
    assert found.recall.low < 0.7 < found.recall.high
    assert found.precision.low < 0.6 < found.precision.high
    assert found.recall.high - found.recall.low < 0.2
    assert np.corrcoef(found.rate, rates)[0, 1] > 0.8
    assert found.p_value < 1e-6
    np.testing.assert_allclose(found.law.precision, found.precision.value)
    shuffled = rng.permutation(elements.size)
    again = estimate_hints(elapsed[shuffled], hints[shuffled], changed[shuffled], elements=elements[shuffled])
    assert again.recall.value == pytest.approx(found.recall.value, rel=1e-3)


@pytest.mark.parametrize("elements", [None, [0, 0, 1, 1, 2, 2]])
@pytest.mark.parametrize(
    ("hints", "changed"),
    [
        ([0] * 6, [0, 1, 0, 1, 0, 0]),
        ([0] * 6, [0] * 6),
        ([0] * 6, [1] * 6),
        ([1] * 6, [0] * 6),
        ([1] * 6, [1] * 6),
        ([0, 1, 0, 1, 0, 1], [0, 1, 0, 1, 0, 1]),
        ([0, 1, 0, 1, 0, 1], [1, 0, 1, 0, 1, 0]),
        ([9, 0, 0, 0, 0, 0], [0, 1, 1, 1, 1, 1]),
    ],
)
def test_histories_without_much_in_them_have_finite_answers(hints, changed, elements):
    found = estimate_hints([1.0, 2.0, 0.5, 1.0, 3.0, 0.1], hints, changed, elements=elements)
    for interval in (found.precision, found.recall):
        assert 0 <= interval.low <= interval.value <= interval.high <= 1
    assert np.isfinite(found.rate).all()
    assert 0 <= found.mean_rate.low <= found.mean_rate.value <= found.mean_rate.high < np.inf
    assert 0 <= found.p_value <= 1
    assert np.isfinite(found.law.worth(1.0, 1)).all()


def test_hints_that_say_nothing_are_found_to():
    rng = np.random.default_rng(4)
    tested = []
    for _ in range(100):
        elapsed = rng.exponential(1.0, 100) + 0.1
        hints, changed = history(rng, 0.4, 0.0, 0.6, elapsed)
        tested.append(estimate_hints(elapsed, hints, changed).p_value)
    assert np.mean(np.array(tested) < 0.1) < 0.2
    assert np.mean(np.array(tested) > 0.4) > 0.4


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("rate", "count", "regular", "false"),
    [
        (3.0, 20, True, 2.0),
        (3.0, 20, False, 2.0),
        (5.0, 50, True, 2.0),
        (10.0, 100, True, 2.0),
        (3.0, 100, True, 0.3),
    ],
)
def test_useless_hints_do_not_seem_to_say_something_where_nearly_all_polls_see_a_change(
    rate, count, regular, false
):
    rng = np.random.default_rng(9)
    tested = []
    for _ in range(300):
        elapsed = np.ones(count) if regular else rng.exponential(1.0, count)
        polls = HintedPolls.of(elapsed, *history(rng, rate, 0.0, false, elapsed), None)
        tested.append(_p_value(polls.pooled()))
    assert np.mean(np.array(tested) < 0.1) < 0.12
    assert np.mean(np.array(tested) < 0.05) < 0.07


def test_good_hints_are_known_from_few_unchanged_polls():
    found = estimate_hints([1.0] * 40, [0] * 8 + [2] * 32, [0] * 6 + [1] * 34)
    assert found.p_value < 1e-4


@pytest.mark.parametrize("elements", [None, [0, 1] * 50])
@pytest.mark.parametrize("changed", [[1] * 100, [1, 0, 1, 0] * 25])
def test_hints_that_never_varied_say_nothing(changed, elements):
    for elapsed in (np.ones(100), np.linspace(0.1, 3.0, 100)):
        found = estimate_hints(elapsed, [5] * 100, changed, elements=elements)
        assert found.p_value == 1.0
        assert found.recall.low == found.precision.low == 0.0
        assert found.recall.high > 0.99


def test_all_polls_may_have_seen_a_change():
    assert estimate_hints([1.0, 2.0] * 9, [0, 3] * 9, [1] * 18).p_value == 1.0


def test_chances_of_fewer_hints_are_those_of_all_choices():
    rng = np.random.default_rng(2)
    chances, hints = rng.random(9), rng.integers(0, 5, 9).astype(float)
    sets = list(combinations(range(9), 3))
    odds = np.array([np.prod([chances[i] / (1 - chances[i]) for i in one]) for one in sets])
    sums = np.array([hints[list(one)].sum() for one in sets])
    for false in (0.0, 3.0, 6.0, 12.0):
        expected = odds[sums <= false].sum() / odds.sum()
        assert chance_of_fewer(chances, hints, 3, false) == pytest.approx(expected, rel=1e-12)


def test_many_polls_and_many_hints_have_nearly_the_same_chances():
    rng = np.random.default_rng(2)
    hints, chances = rng.poisson(3.0, 4000).astype(float), np.full(4000, 1e-3)
    few = chance_of_fewer(chances, hints, 4, 7.0)
    assert chance_of_fewer(np.tile(chances, 2), np.tile(hints, 2), 4, 7.0) == pytest.approx(few, rel=0.01)
    assert chance_of_fewer(chances, 1e6 * hints, 4, 7e6) == pytest.approx(few, rel=0.01)


EXTREME = st.sampled_from([1e-100, 1e-50, 1e-9, 1.0, 1e9, 1e50, 1e100])
COUNTS = st.sampled_from([0, 1, 2, 10**6, 10**15])


@settings(max_examples=percent(20))
@given(polls=st.lists(st.tuples(EXTREME, COUNTS, st.booleans(), st.integers(0, 2)), min_size=1, max_size=6))
def test_extreme_histories_have_finite_answers(polls):
    elapsed, hints, changed, elements = zip(*polls, strict=True)
    for several in (None, elements):
        found = estimate_hints(elapsed, hints, changed, elements=several)
        for interval in (found.precision, found.recall, found.mean_rate):
            assert 0 <= interval.low <= interval.value <= interval.high < np.inf
        assert np.isfinite(found.rate).all()
        assert np.isfinite(found.hint_rate).all()
        assert 0 <= found.p_value <= 1
        assert np.isfinite(found.law.worth(1.0, 1)).all()


@given(
    rate=EXTREME,
    recall=st.sampled_from([0.0, 1e-300, 1e-9, 0.3, 1 - 1e-16, 1.0]),
    false=EXTREME | st.sampled_from([0.0, 5e-324, 1e-300]),
    elapsed=EXTREME | st.just(0.0) | st.just(np.inf),
    hints=COUNTS,
    price=st.sampled_from([0.0, 1e-300, 1e-9, 1.0, 1e300, np.inf]),
)
def test_extreme_changes_have_finite_answers(rate, recall, false, elapsed, hints, price):  # noqa: PLR0917
    changes = HintedChanges(rate, recall, false)
    assert 0 <= changes.worth(elapsed, hints) <= 1.000001 / rate
    assert 0 <= changes.fresh(elapsed, hints) <= 1
    for answer in (changes.due(hints, price), changes.frequency(price), changes.effective(elapsed, hints)):
        assert answer >= 0
    assert 0 <= changes.freshness(price) <= 1.000001


@settings(max_examples=percent(20))
@given(seed=st.integers(0, 10_000), power=st.integers(-20, 20), several=st.booleans())
def test_estimates_do_not_depend_on_the_unit_of_time(seed, power, several):
    rng = np.random.default_rng(seed)
    elapsed = rng.exponential(1.0, 60) + 0.1
    hints, changed = history(rng, 0.5, 0.6, 0.3, elapsed)
    elements = np.arange(60) % 6 if several else None
    here = estimate_hints(elapsed, hints, changed, elements=elements)
    there = estimate_hints(elapsed * 2.0**power, hints, changed, elements=elements)
    np.testing.assert_allclose(there.rate * 2.0**power, here.rate, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(there.precision, here.precision, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(there.recall, here.recall, rtol=1e-4, atol=1e-6)


@pytest.mark.long
@pytest.mark.parametrize(
    ("rate", "recall", "false", "count"),
    [
        (1.0, 0.8, 0.2, 50),
        (1.0, 0.8, 0.2, 500),
        (0.3, 0.5, 0.5, 100),
        (2.0, 0.95, 0.05, 100),
        (0.1, 0.9, 2.0, 300),
    ],
)
def test_intervals_are_true(rate, recall, false, count):
    rng = np.random.default_rng(6)
    inside = np.zeros(3)
    for _ in range(400):
        elapsed = rng.exponential(1.0, count) + 0.1
        found = estimate_hints(elapsed, *history(rng, rate, recall, false, elapsed))
        truths = (
            (found.precision, recall * rate / (recall * rate + false)),
            (found.recall, recall),
            (found.mean_rate, rate),
        )
        inside += [interval.low <= truth <= interval.high for interval, truth in truths]
    assert ((inside / 400 > 0.82) & (inside / 400 < 0.98)).all()


GOOD = {"elapsed": [1.0, 2.0], "hints": [0, 1], "changed": [True, False]}


@pytest.mark.parametrize(
    ("spoilt", "message"),
    [
        ({"elapsed": []}, "elapsed must not be empty"),
        (
            {"elapsed": [1.0, 0.0]},
            r"elapsed must be finite and >= 1e-100 and <= 1e\+100; elapsed\[1\] is 0.0",
        ),
        ({"elapsed": [1e-300, 1.0]}, r"elapsed must be .* elapsed\[0\] is 1e-300"),
        ({"hints": [0, -1]}, r"hints must be finite and >= 0 and <= 1e\+15; hints\[1\] is -1"),
        ({"hints": [0, 1.5]}, r"hints must be whole numbers; hints\[1\] is 1.5"),
        ({"hints": [0]}, r"hints must have one entry for each poll; hints has shape \(1,\), elapsed \(2,\)"),
        ({"changed": [0, 2]}, r"changed must be true or false; changed\[1\] is 2.0"),
        ({"changed": "yes"}, "changed must be a number"),
        ({"elements": [0, 0.5]}, r"elements must be whole numbers; elements\[1\] is 0.5"),
        ({"level": 1.0}, "level must be finite and > 0 and < 1; level is 1.0"),
    ],
)
def test_polls_that_cannot_be(spoilt, message):
    with pytest.raises(InvalidInput, match=message):
        estimate_hints(**{**GOOD, **spoilt})


@pytest.mark.parametrize(
    ("spoilt", "message"),
    [
        ({"rate": -1.0}, r"rate must be finite and >= 0 and <= 1e\+120; rate is -1.0"),
        ({"rate": 1e-300}, "rate must be 0, or from 1e-120 to 1e\\+120; rate is 1e-300"),
        ({"recall": 1.5}, "recall must be finite and >= 0 and <= 1; recall is 1.5"),
        (
            {"false_alarms": float("nan")},
            r"false_alarms must be finite and >= 0 and <= 1e\+120; false_alarms is nan",
        ),
        ({"rate": [1.0, 2.0], "recall": [0.5, 0.5, 0.5]}, "shapes do not fit together"),
    ],
)
def test_changes_that_cannot_be(spoilt, message):
    with pytest.raises(InvalidInput, match=message):
        HintedChanges(**{"rate": 1.0, "recall": 0.5, "false_alarms": 0.5, **spoilt})


def test_questions_that_cannot_be():
    changes = HintedChanges([1.0, 2.0], 0.5, 0.5)
    with pytest.raises(InvalidInput, match=r"hints must be finite and >= 0 and <= 1e\+15; hints is -1"):
        changes.worth(1.0, -1)
    with pytest.raises(InvalidInput, match=r"hints must be whole numbers; hints is 0.5"):
        changes.worth(1.0, 0.5)
    with pytest.raises(InvalidInput, match=r"hints must be whole numbers; hints\[1\] is 1.5"):
        changes.due([1, 1.5], 0.5)
    with pytest.raises(InvalidInput, match=r"elapsed must be a number and >= 0"):
        changes.fresh(-1.0)
    with pytest.raises(InvalidInput, match=r"price must be a number and >= 0"):
        changes.due(1, -0.5)
    with pytest.raises(InvalidInput, match="shapes do not fit together"):
        changes.worth([1.0, 2.0, 3.0])
    with pytest.raises(InvalidInput, match="budget must be finite and >= 0"):
        plan_hinted(changes, -1.0)
    with pytest.raises(InvalidInput, match="weights must be one number or one for each of the 2 elements"):
        plan_hinted(changes, 1.0, weights=[1.0, 2.0, 3.0])


@pytest.mark.parametrize("recall", [0.5, 1e-12, 1e-197])
@pytest.mark.parametrize("budget", [1e-3, 1e-13, 1e-38, 1e-290])
def test_a_budget_that_is_next_to_nothing_is_spent(budget, recall):
    plan = plan_hinted(HintedChanges([0.1, 1.0, 3.0], recall, 0.0), budget)
    assert plan.spent == pytest.approx(budget, rel=1e-9)
