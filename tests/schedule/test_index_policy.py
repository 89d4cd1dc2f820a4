"""The index policy: the exact argmax in each slot, and next to nothing lost against the bound."""

import io
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from unstale import Pareto, Poisson, UncertainPoisson, Weibull, currency, plan, worth
from unstale.errors import InvalidInput
from unstale.schedule.earliest_deadline import EarliestDeadline
from unstale.schedule.index_policy import Index

KINDS = ["freshness", "age", "harmonic", "missed-updates"]
seeds = st.integers(0, 2**32 - 1)


def last_polls(schedule):
    return schedule.state()["last"]


def polls_of(schedule, count):
    """Draw so many polls, a few at a time."""
    times, elements = np.empty(0), np.empty(0, np.int64)
    while times.size < count:
        polls = schedule.until(schedule.now + 30.0 / schedule.rate)
        times, elements = np.append(times, polls.times), np.append(elements, polls.elements)
    return times[:count], elements[:count]


def check_argmax(schedule, law, *, weights=1.0, sizes=1.0, objective="freshness", count=200):
    """Every poll goes to the highest worth per cost by the plain formula; ties to the smallest number."""
    n = len(schedule)
    weights, sizes = np.broadcast_to(weights, n), np.broadcast_to(sizes, n)
    last, start, budget = last_polls(schedule), schedule.now, schedule.state()["budget"]
    times, elements = polls_of(schedule, count)
    assert_allclose(times, start + np.append(0.0, np.cumsum(sizes[elements])[:-1]) / budget)
    for now, k in zip(times, elements, strict=True):
        each = weights * worth(objective, law, now - last) / sizes
        assert each[k] >= each.max() * (1 - 1e-12)
        assert k == np.argmax(each) or each[k] != each.max()
        last[k] = now


def random_elements(seed, most=300):
    rng = np.random.default_rng(seed)
    n = rng.integers(1, most)
    rates = 10.0 ** rng.uniform(-2, 2, n)
    budget = n * 10.0 ** rng.uniform(-2, 1)
    return rng, n, rates, budget


# --- the argmax -------------------------------------------------------------------------------------


@given(seeds, st.sampled_from(KINDS), st.booleans(), st.booleans())
def test_each_slot_goes_to_the_highest_worth(seed, objective, weighted, sized):
    rng, n, rates, budget = random_elements(seed)
    weights = 10.0 ** rng.uniform(-2, 2, n) if weighted else 1.0
    sizes = 0.1 + rng.pareto(1.5, n) if sized else 1.0
    schedule = Index(rates, budget, weights=weights, sizes=sizes, objective=objective)
    check_argmax(schedule, rates, weights=weights, sizes=sizes, objective=objective)


@pytest.mark.parametrize(
    ("law", "objective"),
    [
        (lambda rates: Pareto(1.4, 0.4 / rates), "freshness"),
        (lambda rates: Pareto(3.0, 2.0 / rates), "age"),
        (lambda rates: Pareto(1.4, 0.4 / rates), "missed-updates"),
        (lambda rates: UncertainPoisson(2.0, 2.0 / rates), "freshness"),
        (lambda rates: rates, currency(0.3)),
        (Poisson, "harmonic"),
    ],
)
def test_each_slot_goes_to_the_highest_worth_for_other_laws_and_objectives(law, objective):
    for seed in range(3):
        rng, n, rates, budget = random_elements(seed, 100)
        weights, sizes = rng.random(n), 0.1 + rng.pareto(1.5, n)
        changes = law(rates)
        schedule = Index(changes, budget, weights=weights, sizes=sizes, objective=objective)
        check_argmax(schedule, changes, weights=weights, sizes=sizes, objective=objective, count=150)


@given(seeds, st.sampled_from(KINDS))
def test_many_equal_elements(seed, objective):
    rng, n, _, budget = random_elements(seed)
    rates = rng.choice([1.0, 2.0], n)
    check_argmax(Index(rates, budget, objective=objective), rates, objective=objective)


@pytest.mark.parametrize("cut", [1e-6, 1e-3, 0.1, 10.0, 1000.0])
@pytest.mark.parametrize("objective", KINDS)
def test_another_budget(objective, cut):
    """After a cut the worths of all come close to each other; after a rise only few have any."""
    rng = np.random.default_rng(1)
    rates, weights = rng.random((2, 2000))
    schedule = Index(rates, 100.0, weights=weights, objective=objective)
    polls_of(schedule, 3000)
    schedule.swap(budget=100.0 * cut)
    schedule.until(schedule._begin)
    check_argmax(schedule, rates, weights=weights, objective=objective, count=300)


def test_equal_elements_take_turns():
    _, elements = polls_of(Index(np.ones(50), 7.0), 150)
    assert sorted(elements[:50]) == list(range(50))
    assert_array_equal(elements[:50], elements[50:100])


def test_the_general_way_finds_the_same_elements():
    """Poisson changes, once as such and once as a Weibull law of shape 1."""
    rng = np.random.default_rng(3)
    rates, weights = 1.0 - rng.random((2, 1000))
    for objective in KINDS[:2]:
        quick = Index(rates, 20.0, weights=weights, objective=objective)
        general = Index(Weibull(1.0, 1.0 / rates), 20.0, weights=weights, objective=objective)
        assert quick._goal.kind is not None
        assert general._goal.kind is None
        assert_array_equal(polls_of(quick, 1500)[1], polls_of(general, 1500)[1])


# --- what it buys -----------------------------------------------------------------------------------


def freshness_bought(rates, weights, polls, begin, end):
    """Weighted mean freshness from begin to end, expected for these polls and Poisson changes.

    An element polled at t is fresh at s > t with probability exp(-rate*(s-t)); no poll before, never fresh.
    """
    order = np.argsort(polls.elements, kind="stable")
    element, time = polls.elements[order], polls.times[order]
    following = np.where(np.append(element[1:] != element[:-1], True), end, np.append(time[1:], end))
    since, until = np.maximum(time, begin), np.maximum(following, begin)
    rate = rates[element]
    fresh = (np.exp(-rate * (since - time)) - np.exp(-rate * (until - time))) / rate
    return np.dot(weights[element], fresh) / weights.sum() / (end - begin)


def test_index_comes_within_a_ten_thousandth_of_the_bound():
    """1000 elements, rates and weights uniform, 100 polls per unit of time."""
    rng = np.random.default_rng(1)
    rates, weights = 1.0 - rng.random((2, 1000))
    best = plan(rates, 100.0, weights=weights)
    random = plan(rates, 100.0, weights=weights, order="purely-random")
    schedules = (
        Index(rates, 100.0, weights=weights),
        EarliestDeadline(best),
        EarliestDeadline(random),
    )
    index, deadlines, azar = (
        freshness_bought(rates, weights, schedule.until(5000.0), 1000.0, 5000.0) / best.freshness
        for schedule in schedules
    )
    assert 0.9999 < index < 1.0
    assert 0.9998 < deadlines < index
    assert azar == pytest.approx(0.989, abs=1e-3)


@pytest.mark.every(3)
@pytest.mark.parametrize("utilities", ["uniform", "zipf"])
@pytest.mark.parametrize("budget", [100.0, 1000.0])
def test_index_on_the_pages_of_azar(utilities, budget):
    """Azar et al. (2018), Figure 1: 1000 pages; better than the earliest deadline of the best frequencies."""
    rng = np.random.default_rng(1)
    rates, weights = 1.0 - rng.random((2, 1000))
    if utilities == "zipf":
        ranks = np.arange(1.0, 10_001.0)
        weights = rng.choice(ranks, 1000, p=ranks**-2.0 / np.sum(ranks**-2.0))
    best = plan(rates, budget, weights=weights)
    begin, end = 2e5 / budget, 5e5 / budget
    index, deadlines = (
        freshness_bought(rates, weights, schedule.until(end), begin, end) / best.freshness
        for schedule in (Index(rates, budget, weights=weights), EarliestDeadline(best))
    )
    assert 0.9999 < index < 1.0
    assert 0.9998 < deadlines < index


@pytest.mark.parametrize("objective", KINDS)
def test_polls_settle_at_the_frequencies_of_the_plan(objective):
    rng = np.random.default_rng(2)
    rates, weights, sizes = rng.uniform(0.1, 2.0, (3, 200))
    best = plan(rates, 40.0, weights=weights, sizes=sizes, objective=objective)
    schedule = Index(rates, 40.0, weights=weights, sizes=sizes, objective=objective)
    schedule.until(200.0)
    polls = schedule.until(1200.0)
    made = np.bincount(polls.elements, minlength=200) / 1000.0
    assert np.dot(made, sizes) == pytest.approx(40.0, rel=1e-4)  # the budget, in units of size
    assert np.abs(made - best.frequencies).mean() < 0.05 * best.frequencies.mean()
    assert schedule.rate == pytest.approx(best.frequencies.sum(), rel=0.02)


def test_burn_in_is_short():
    """Within two rounds of polls the polls of each span are what they are later."""
    rng = np.random.default_rng(4)
    rates, weights = 1.0 - rng.random((2, 5000))
    best = plan(rates, 500.0, weights=weights)
    schedule = Index(rates, 500.0, weights=weights)
    schedule.until(20.0)
    polls = schedule.until(60.0)
    made = np.bincount(polls.elements, minlength=5000) / 40.0
    assert np.abs(made - best.frequencies).mean() < 0.1 * best.frequencies.mean()


# --- the stream -------------------------------------------------------------------------------------


@given(seeds, st.booleans(), st.lists(st.floats(0.0, 100.0), max_size=6))
def test_polls_are_the_same_however_they_are_drawn(seed, sized, ends):
    rng, n, rates, budget = random_elements(seed)
    sizes = rng.uniform(0.5, 2.0, n) if sized else None
    whole, parts = (Index(rates, budget, sizes=sizes, start=1.0) for _ in range(2))
    drawn = [parts.until(1.0 + end / budget) for end in [*sorted(ends), 100.0]]
    polls = whole.until(1.0 + 100.0 / budget)
    assert_array_equal(np.concatenate([part.elements for part in drawn]), polls.elements)
    assert_array_equal(np.concatenate([part.times for part in drawn]), polls.times)


def test_slots_begin_at_the_start():
    polls = Index([1.0, 1.0], 4.0, start=10.0).until(11.0)
    assert polls.times.tolist() == [10.0, 10.25, 10.5, 10.75]


def test_a_poll_is_paid_by_its_size():
    schedule = Index([1.0, 1.0], 2.0, sizes=[1.0, 3.0])
    times, elements = polls_of(schedule, 50)
    assert_array_equal(np.diff(times), np.array([0.5, 1.5])[elements[:-1]])


def test_polls_one_by_one():
    polls = Index([1.0, 2.0, 3.0], 2.0).until(10.0)
    expected = list(zip(polls.times, polls.elements, strict=True))
    assert list(islice(Index([1.0, 2.0, 3.0], 2.0), 20)) == expected


@pytest.mark.parametrize(
    "schedule",
    [
        lambda: Index([1.0, 2.0], 0.0),
        lambda: Index([0.0, 0.0], 3.0),
        lambda: Index([1.0, 2.0], 3.0, weights=0.0),
        lambda: Index([], 3.0),
        lambda: Index([0.0], 3.0, objective=currency(1.0)),
    ],
)
def test_nothing_to_poll(schedule):
    schedule = schedule()
    assert schedule.rate == 0.0
    assert len(schedule.until(1e9)) == 0
    assert schedule.now == 1e9
    assert list(schedule) == []


def test_one_element():
    assert Index([2.0], 0.5).until(10.0).times.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0]
    assert Index(Pareto(2.0, 1.0), 0.5).until(10.0).times.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0]


def test_elements_that_do_not_change_or_are_not_wanted_are_never_polled():
    schedule = Index([1.0, 0.0, 2.0, 3.0], 5.0, weights=[1.0, 1.0, 0.0, 1.0], objective="age")
    assert set(schedule.until(50.0).elements) == {0, 3}


def test_rates_over_thirty_decades():
    rates = 10.0 ** np.arange(-15.0, 16.0)
    for objective in KINDS:
        check_argmax(Index(rates, 3.0, objective=objective), rates, objective=objective, count=300)


# --- to be continued, and other elements ------------------------------------------------------------


def saved(state):
    file = io.BytesIO()
    np.savez(file, **state)
    file.seek(0)
    with np.load(file) as loaded:
        return dict(loaded)


@pytest.mark.parametrize("objective", KINDS)
@pytest.mark.parametrize("sizes", [None, [1.0, 2.0, 0.5, 3.0, 1.0]])
def test_a_schedule_goes_on_where_it_was(objective, sizes):
    schedule = Index([0.1, 0.5, 1.0, 3.0, 0.2], 4.0, sizes=sizes, objective=objective, start=-2.0)
    schedule.until(17.3)
    again = Index.resume(saved(schedule.state()))
    assert (again.now, again.rate, len(again)) == (schedule.now, schedule.rate, len(schedule))
    polls, others = schedule.until(60.0), again.until(60.0)
    assert_array_equal(polls.elements, others.elements)
    assert_array_equal(polls.times, others.times)


def test_a_process_and_an_objective_are_given_again():
    law = Pareto(1.5, np.array([1.0, 2.0, 3.0]))
    schedule = Index(law, 2.0, objective=currency(0.5))
    schedule.until(9.0)
    state = saved(schedule.state())
    again = Index.resume(state, rates=law, objective=currency(0.5))
    assert_array_equal(schedule.until(30.0).elements, again.until(30.0).elements)
    with pytest.raises(InvalidInput, match="rates must be the process of the 3 elements"):
        Index.resume(state, objective=currency(0.5))
    with pytest.raises(InvalidInput, match="objective must be one of"):
        Index.resume(state, rates=law)


def test_a_swap_keeps_the_moments_of_the_last_polls():
    rng = np.random.default_rng(5)
    rates, weights = rng.random((2, 100))
    schedule = Index(rates, 20.0, weights=weights)
    schedule.until(31.0)
    last = last_polls(schedule)
    schedule.swap(rates[::-1].copy(), weights=weights * 2, objective="age")
    assert_array_equal(last_polls(schedule), last)
    check_argmax(schedule, rates[::-1], weights=weights, objective="age")


def test_slots_go_on_without_a_gap():
    schedule = Index([1.0, 1.0], 2.0)
    assert schedule.until(1.2).times.tolist() == [0.0, 0.5, 1.0]
    schedule.swap(budget=6.0)  # the next was due at 1.5: 0.6 of a poll is left to pay
    assert_allclose(schedule.until(1.7).times, [1.3, 1.3 + 1 / 6, 1.3 + 2 / 6])


def test_the_rate_follows_the_sizes():
    schedule = Index(np.ones(10), 10.0)
    schedule.until(50.0)
    schedule.swap(sizes=100.0)
    assert schedule.rate == pytest.approx(0.1)
    assert_allclose(np.diff(schedule.until(150.0).times), 10.0)


def test_elements_come_and_go():
    schedule = Index(np.ones(10), 10.0)
    schedule.until(5.0)
    schedule.swap(np.ones(15), weights=np.append(np.zeros(5), np.ones(10)))
    assert len(schedule) == 15
    assert set(schedule.until(6.05).elements) == set(range(5, 15))
    assert np.bincount(schedule.until(26.05).elements)[5:].tolist() == [20] * 10


def test_from_nothing_to_something_and_back():
    schedule = Index([1.0, 1.0], 0.0)
    schedule.until(5.0)
    schedule.swap(budget=1.0)
    assert schedule.until(7.0).times.tolist() == [5.0, 6.0]
    schedule.swap(budget=0.0)
    assert len(schedule.until(100.0)) == 0
    schedule.swap(budget=4.0)
    assert schedule.until(101.0).times.tolist() == [100.0, 100.25, 100.5, 100.75]


# --- what cannot be ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Index([1.0, -2.0], 1.0), r"rates must be finite and >= 0; rates\[1\] is -2.0"),
        (lambda: Index(np.ones((2, 2)), 1.0), r"one entry for each element; its shape is \(2, 2\)"),
        (lambda: Index([1.0], -1.0), "budget must be finite and >= 0; budget is -1.0"),
        (lambda: Index([1.0], 1.0, weights=[-1.0]), r"weights\[0\] is -1.0"),
        (lambda: Index([1.0], 1.0, sizes=0.0), "sizes must be finite and > 0; sizes is 0.0"),
        (lambda: Index([1.0], 1.0, weights=[1.0, 2.0]), r"weights has shape \(2,\), rates \(1,\)"),
        (lambda: Index([1.0], 1.0, objective="fresh"), "objective must be one of 'freshness'"),
        (lambda: Index([1.0], 1.0, start=2.0).until(1.0), "end must not be before now, which is 2"),
        (lambda: Index([1.0, 2.0], 1.0).swap([1.0]), "each of the 2 elements; there are 1. Give weight 0"),
        (
            lambda: Index([1.0], 1.0, weights=[1.0]).swap([1.0, 2.0]),
            r"weights has shape \(1,\), rates \(2,\)",
        ),
        (lambda: Index.resume({"rates": [1]}), "it has no 'weights'"),
    ],
)
def test_what_cannot_be_is_refused(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()
