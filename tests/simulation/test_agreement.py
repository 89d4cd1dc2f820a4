"""The two modes of the evaluator agree: what formulas expect, and what happens event by event.

Carney, Lee & Zdonik (2003) call them analytic and tracking mode. Seeds are fixed, so a failure is no chance;
that three standard errors are three standard errors is checked over many seeds.
"""

import json
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from unstale import (
    Empirical,
    Gamma,
    Lognormal,
    Pareto,
    Periodic,
    Poisson,
    RandomOrder,
    SourcePenalty,
    UncertainPoisson,
    UpdatePenalty,
    Weibull,
    Windows,
    World,
    currency,
    mean_cost,
    penalties,
    plan,
    renewal,
    simulate,
)
from unstale.polling import average_cost
from unstale.processes import Superposed
from unstale.schedule import Polls, Schedule, Together, replicas
from unstale.simulation import expect, zipf
from unstale.simulation.compiled.tracking import AGE, FRESH, MEASURES, MISSED

ORDERS = ("fixed", "random", "purely-random")
ALLOCATIONS = ("uniform", "proportional", "optimal", "square-root", "random-optimal")
RATES = np.geomspace(0.3, 4.0, 12)
BUDGET = 24.0
LIMIT = 3.0
"""Standard errors."""
GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "golden.json").read_text(encoding="utf-8"))


def expected_costs(world, objective, frequencies, order):
    """Mean cost of each element by formula."""
    costs = np.empty(len(world))
    for law, places in world.laws:
        at = slice(None) if places is None else places
        costs[at] = mean_cost(objective, law, frequencies[at], order)
    return costs


def scores(outcome, world, frequencies, order, objectives=()):
    """By how many standard errors each measure is off."""
    formula = expect(world, frequencies, order)
    found = {
        "freshness": (outcome.freshness - formula.freshness) / outcome.freshness_error,
        "age": (outcome.age - formula.age) / outcome.age_error,
        "missed": (outcome.missed_updates - formula.missed_updates) / outcome.missed_updates_error,
    }
    share = world.weight / world.weight.sum()
    for objective in objectives:
        cost = float(share @ expected_costs(world, objective, frequencies, order))
        found[getattr(objective, "name", objective)] = (outcome.cost(objective) - cost) / outcome.cost_error(
            objective
        )
    return found


def agree(found):
    wrong = {name: round(float(z), 2) for name, z in found.items() if not abs(z) <= LIMIT}
    assert not wrong, f"more than {LIMIT:g} standard errors from the formula: {wrong}"


# --- Poisson changes: every order and allocation ------------------------------------------------------------

PENALTIES = (
    "harmonic",
    SourcePenalty("log(1+x)"),
    SourcePenalty("1/(1+x)"),
    currency(0.4),
    UpdatePenalty("x"),
    UpdatePenalty("1/(1+x)"),
    UpdatePenalty(penalties.decay(2.0)),
)


@cache
def every_allocation(order):
    weights = np.linspace(1.0, 2.0, RATES.size)
    world = World(RATES, weights=weights)
    result = simulate(
        world, BUDGET, policies=ALLOCATIONS, horizon=5000.0, order=order, seed=5, objectives=PENALTIES
    )
    return world, result


@pytest.mark.every(4)
@pytest.mark.parametrize("allocation", ALLOCATIONS)
@pytest.mark.parametrize("order", ORDERS)
def test_poisson_changes(order, allocation):
    world, result = every_allocation(order)
    outcome = result[allocation]
    best = plan(RATES, BUDGET, weights=world.weights, policy=allocation, order=order).frequencies
    assert np.all(best > 0)
    agree(scores(outcome, world, best, order, PENALTIES if order != "random" else PENALTIES[:1]))
    assert outcome.expected.freshness == pytest.approx(expect(world, best, order).freshness, rel=1e-12)
    assert outcome.expected.age == pytest.approx(expect(world, best, order).age, rel=1e-12)
    # element by element, with errors of their own
    each = outcome.elements
    z = (each.freshness - outcome.expected.elements["freshness"]) / each.freshness_error
    assert np.sqrt(np.mean(z**2)) < 1.6
    z = (each.age - outcome.expected.elements["age"]) / each.age_error
    assert np.sqrt(np.mean(z**2)) < 1.6
    assert_allclose(each.polls / outcome.duration, best, rtol=0.1)
    assert outcome.spent == pytest.approx(BUDGET, rel=0.02)


def test_a_wrong_formula_is_noticed():
    world, result = every_allocation("fixed")
    uniform = np.full(RATES.size, BUDGET / RATES.size)
    for wrong in (
        World(1.05 * RATES, weights=world.weights),
        World(RATES[::-1].copy(), weights=world.weights),
    ):
        with pytest.raises(AssertionError, match="standard errors"):
            agree(scores(result["uniform"], wrong, uniform, "fixed"))
    with pytest.raises(AssertionError, match="standard errors"):
        agree(scores(result["uniform"], world, uniform, "random"))


@pytest.mark.parametrize("order", ORDERS)
def test_bins_of_lags_are_currencies(order):
    _, result = every_allocation(order)
    outcome = result["uniform"]
    assert outcome.within(0.4) == pytest.approx(1.0 - outcome.cost(currency(0.4)), abs=2e-3)


# --- other processes ----------------------------------------------------------------------------------------

GOLDEN_RATIO = (1.0 + 5.0**0.5) / 2.0
LAWS = {
    "Pareto": Pareto(4.0, 3.0),
    "bursty-Weibull": Weibull(0.6, 1.0).at_rate(1.0),
    "regular-Weibull": Weibull(2.5, 1.0).at_rate(1.0),
    "bursty-gamma": Gamma(0.4, 2.5),
    "regular-gamma": Gamma(3.5, 1.0 / 3.5),
    "lognormal": Lognormal(-0.32, 0.8),
    "random-order": RandomOrder(1.0),
    "observed": Empirical([0.25, 0.5, 0.75, 2.5]),
    "superposed": Superposed(Gamma(3.0, 1.0), 3),
    "periodic": Periodic(1.0),
}
FREQUENCIES = np.array([0.4, 0.9, 1.6, 3.0]) * GOLDEN_RATIO  # never in step with a period


@pytest.mark.every(7)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", LAWS)
def test_other_processes(name, order):
    law = LAWS[name]
    world = World([law] * 4)
    schedule = Schedule(FREQUENCIES, order=order, seed=2)
    extra = [SourcePenalty("log(1+x)"), UpdatePenalty("1/(1+x)")] if order == "fixed" else []
    result = simulate(world, 1.0, policies={"it": schedule}, horizon=2500.0, seed=3, objectives=extra)
    if name == "periodic" and order == "fixed":  # nothing is left to chance but the phase, which wanders
        formula = expect(world, FREQUENCIES, order)
        assert result["it"].freshness == pytest.approx(formula.freshness, abs=2e-3)
        assert result["it"].age == pytest.approx(formula.age, abs=2e-3)
        assert result["it"].missed_updates == pytest.approx(formula.missed_updates, abs=4e-3)
        return
    agree(scores(result["it"], world, FREQUENCIES, order, extra))


@pytest.mark.parametrize("order", ORDERS)
def test_uncertain_rates(order):
    """Each element has one rate for ever, so that only many elements tell: errors are over elements."""
    law, n = UncertainPoisson(3.0, 0.5), 3000
    schedule = Schedule(np.full(n, 1.3), order=order, seed=4)
    world = World(UncertainPoisson(np.full(n, 3.0), 0.5))
    outcome = simulate(world, 1.0, policies={"it": schedule}, horizon=40.0, seed=5)["it"]
    formula = expect(World(law), [1.3], order)
    for name in ("freshness", "age", "missed_updates", "harmonic"):
        own = getattr(outcome.elements, name)
        if name == "harmonic":
            expected = float(expected_costs(World(law), "harmonic", np.array([1.3]), order)[0])
        else:
            expected = float(formula.elements[name][0])
        assert abs(own.mean() - expected) < LIMIT * own.std() / np.sqrt(n), name


# --- errors are what they are called ------------------------------------------------------------------------


def check_errors(runs, order, *, law=None, horizon):
    """Over many runs, measures are right on average, and off by about as much as their errors say."""
    world = World([0.4, 1.0, 2.5]) if law is None else World([law] * 3)
    frequencies = np.array([0.8, 1.3, 1.9])
    formula = expect(world, frequencies, order)
    names = ("freshness", "age", "missed_updates")
    off, errors = np.empty((2, runs, 3))
    for seed in range(runs):
        schedule = Schedule(frequencies, order=order, seed=seed)
        outcome = simulate(world, 1.0, policies={"it": schedule}, horizon=horizon, seed=seed)["it"]
        off[seed] = [getattr(outcome, name) - getattr(formula, name) for name in names]
        errors[seed] = [getattr(outcome, f"{name}_error") for name in names]
    assert np.all(np.abs(off.mean(axis=0)) < 3.5 * off.std(axis=0) / np.sqrt(runs))
    assert np.all((np.std(off / errors, axis=0) > 0.6) & (np.std(off / errors, axis=0) < 1.25))
    assert_allclose(np.sqrt(np.mean(errors**2, axis=0)), off.std(axis=0), rtol=0.35)


@pytest.mark.parametrize("order", ORDERS)
def test_errors_are_neither_too_small_nor_too_large(order):
    check_errors(200, order, horizon=150.0)


@pytest.mark.long
@pytest.mark.parametrize(
    ("law", "order"),
    [*((None, order) for order in ORDERS), (LAWS["bursty-gamma"], "fixed"), (LAWS["regular-gamma"], "fixed")],
    ids=str,
)
def test_errors_over_many_long_runs(law, order):
    check_errors(1000, order, law=law, horizon=600.0)


def test_a_difference_is_known_better_than_from_changes_of_their_own():
    _, result = every_allocation("fixed")
    gain, error = result.ahead("optimal", "square-root")
    assert gain == pytest.approx(result["optimal"].freshness - result["square-root"].freshness)
    assert error < 0.9 * np.hypot(result["optimal"].freshness_error, result["square-root"].freshness_error)
    expected = result["optimal"].expected.freshness - result["square-root"].expected.freshness
    assert abs(gain - expected) < LIMIT * error
    assert result.ahead("square-root", "optimal")[0] == -gain
    assert result.ahead("optimal", "optimal") == (0.0, 0.0)


# --- Cho & Garcia-Molina, Figure 6, and Table 2 -------------------------------------------------------------


def test_orders_rank_as_in_figure_6():
    """Fixed order is freshest, then random order, then purely random; for age as well, at any ratio."""
    for ratio in (0.1, 0.5, 1.0, 2.0, 4.0):
        fresh, age = [], []
        for order in ORDERS:
            outcome = simulate(
                np.full(50, ratio), 50.0, policies=["uniform"], horizon=1000.0, order=order, seed=6
            )["uniform"]
            fresh.append((outcome.freshness, outcome.freshness_error))
            age.append((-outcome.age, outcome.age_error))
        for column in (fresh, age):
            for (better, one), (worse, other) in pairwise(column):
                assert better - worse > 2.0 * np.hypot(one, other)


@pytest.mark.parametrize("order", ORDERS)
def test_orders_against_the_simulation_of_record(order):
    """Freshness, and age in intervals, of 2e7 cycles."""
    cases = [case for case in GOLDEN["checked"]["C-sim-orders"]["value"] if case[0] == order]
    assert len(cases) == 3
    for _, ratio, fresh, _, age, _ in cases:
        outcome = simulate(
            np.full(40, ratio), 40.0, policies=["uniform"], horizon=1500.0, order=order, seed=7
        )["uniform"]
        assert abs(outcome.freshness - fresh) < LIMIT * outcome.freshness_error + 1.2e-4
        assert abs(outcome.age - age) < LIMIT * outcome.age_error + 3e-4


# --- windows and jitter -------------------------------------------------------------------------------------


@pytest.mark.every(4)
@pytest.mark.parametrize("at_start", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("order", ORDERS)
def test_polls_in_windows(order, at_start):
    """Frequencies that are in step with the windows are a case of their own: here none is."""
    clock = Windows.every(1.0, 0.7, 1.1, at_start=at_start).clock()
    best = plan(np.ones(40), 40.0 * GOLDEN_RATIO, policy="uniform")
    outcome = simulate(
        np.ones(40), best.budget, policies=["uniform"], horizon=1000.0, order=order, windows=clock, seed=21
    )["uniform"]
    for name in ("freshness", "age", "missed_updates"):
        found, formula = getattr(outcome, name), getattr(outcome.expected, name)
        assert abs(found - formula) < LIMIT * getattr(outcome, f"{name}_error") + 1e-3 * formula, name
    assert outcome.freshness < float(expect(World([1.0]), best.frequencies[:1], order).freshness)


@pytest.mark.parametrize("jitter", [0.1, 0.5, 1.0])
def test_jittered_intervals(jitter):
    outcome = simulate(RATES, BUDGET, policies=["optimal"], horizon=3000.0, jitter=jitter, seed=22)["optimal"]
    for name in ("freshness", "age", "missed_updates"):
        found, formula = getattr(outcome, name), getattr(outcome.expected, name)
        assert abs(found - formula) < LIMIT * getattr(outcome, f"{name}_error"), name


# --- several replicas of one source -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("coordinated", "order"), [(True, "fixed"), *((False, order) for order in ORDERS)], ids=str
)
def test_the_freshest_of_several_replicas(coordinated, order):
    """Phases of constant polls never change, so errors are over elements."""
    n, count, f = 2000, 3, 0.4
    together = Together(replicas(np.full(n, f), count, coordinated=coordinated, order=order, seed=23))
    outcome = simulate(np.ones(n), 1.0, policies={"it": together}, horizon=60.0, seed=24)["it"]
    each = {"fixed": Periodic(1.0 / f), "random": RandomOrder(1.0 / f), "purely-random": Poisson(f)}[order]
    polls = renewal.replicas(each, count, coordinated=coordinated)
    for name, own in (("freshness", 1.0 - outcome.elements.freshness), ("age", outcome.elements.age)):
        formula = float(average_cost(name, 1.0, polls))
        assert abs(own.mean() - formula) < LIMIT * own.std() / np.sqrt(n), name
    assert outcome.polls == pytest.approx(n * count * f * outcome.duration, rel=0.02)


# --- perceived freshness ------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
def test_perceived_freshness_is_freshness_by_weight(order):
    """Requests come at random, so they see what the average moment sees."""
    world = World(RATES, weights=zipf(12, 1.0), accesses=300.0)
    outcome = simulate(world, BUDGET, policies=["optimal"], horizon=600.0, order=order, seed=8)["optimal"]
    error = np.hypot(outcome.perceived_freshness_error, outcome.freshness_error)
    assert abs(outcome.perceived_freshness - outcome.freshness) < LIMIT * error
    assert abs(outcome.perceived_freshness - outcome.expected.freshness) < LIMIT * error
    assert 0.0 < outcome.perceived_freshness_error < 0.02
    assert outcome.accesses == pytest.approx(300.0 * 480.0, rel=0.02)
    each = outcome.elements
    asked = each.accesses > 100
    assert_allclose(each.fresh_accesses[asked] / each.accesses[asked], each.freshness[asked], atol=0.1)


# --- numbers of the papers that are simulations -------------------------------------------------------------


class Renewals:
    """Polls of each element at the points of a renewal process: a stream of its own making."""

    def __init__(self, law, n, seed):
        rng = np.random.default_rng(seed)
        self.now, self.rate, self._n, self._law = 0.0, float(law.rate) * n, n, law
        self._rng, self._next = rng, law.sample_residual(rng, n)

    def __len__(self):
        return self._n

    def until(self, end):
        gaps = self._law.sample(self._rng, (int(3 * (end - self.now) * self._law.rate) + 60, self._n))
        points = np.cumsum(np.concatenate([self._next[None], gaps]), axis=0)
        assert np.all(points[-1] >= end)
        self._next = np.where(points >= end, points, np.inf).min(axis=0)
        at, elements = np.nonzero(points < end)
        times = points[at, elements]
        order = np.argsort(times, kind="stable")
        self.now = end
        return Polls(times[order], elements[order])


def over_elements(world, stream, tau, seed, horizon=40.0):
    """Staleness, lag, share tau behind, missed updates and their age: means and errors over elements."""
    outcome = simulate(
        world,
        1.0,
        policies={"it": stream},
        horizon=horizon,
        seed=seed,
        objectives=[currency(tau), UpdatePenalty("x")],
    )["it"]
    sums = outcome._tracker.sums / outcome.duration
    columns = 1.0 - sums[:, FRESH], sums[:, AGE], sums[:, MEASURES], sums[:, MISSED], sums[:, MEASURES + 1]
    return [(own.mean(), own.std() / np.sqrt(own.size)) for own in columns]


def same(found, expected, others=None):
    for k, ((mean, error), value) in enumerate(zip(found, expected, strict=False)):
        assert abs(mean - value) < LIMIT * error + 6e-7, k
        if others is not None:
            assert abs(mean - others[k]) < LIMIT * error + 1e-3 * others[k], k


def test_bursty_updates_at_constant_intervals():
    """Li, Cline & Loguinov (2015), Figures 3 to 5 (a)."""
    record, n = GOLDEN["checked"]["li-sim-a"], 8000
    world = World(Pareto(np.full(n, 3.0), 1.0))
    found = over_elements(world, Schedule(np.full(n, 2.0)), 0.4, seed=11)
    same(found, record["value"], record["given"]["simulated"])


def test_periodic_updates_under_bursty_downloads():
    """Figures 3 to 5 (b); at shape 3 the lag has infinite variance, at shape 6 it has not."""
    n = 3000
    world = World(Periodic(np.full(n, 0.5)))
    record = GOLDEN["checked"]["li-sim-b"]
    found = over_elements(world, Renewals(Pareto(3.0, 1.0), n, 1), 0.4, seed=12)
    same(found[::2][:2], record["value"][::2], record["given"]["simulated"][::2])
    assert found[1][0] == pytest.approx(record["value"][1], rel=0.2)
    record = GOLDEN["checked"]["li-sim-b6"]
    found = over_elements(world, Renewals(Pareto(6.0, 1.0).at_rate(2.0), n, 2), 0.4, seed=13)
    same(found[:2], record["value"], record["given"]["simulated"])


TEN = {
    "Pareto(1.4,.93)": Pareto(1.4, 0.93),
    "Pareto(2,1)": Pareto(2.0, 1.0),
    "Pareto(3,1)": Pareto(3.0, 1.0),
    "Weibull(.6,1)": Weibull(0.6, 1.0),
    "Weibull(2,1)": Weibull(2.0, 1.0),
    "Gamma(.5,1)": Gamma(0.5, 1.0),
    "Gamma(3,.4)": Gamma(3.0, 0.4),
    "Lognormal(0,1)": Lognormal(0.0, 1.0),
    "Deterministic(.8)": Periodic(0.8),
    "Exponential(1.25)": Poisson(1.25),
}


@pytest.mark.parametrize("name", TEN)
def test_ten_laws_at_constant_intervals(name):
    """Renewal changes polled at a constant interval, as simulated with 2e7 updates for the record."""
    record, n, law = GOLDEN["checked"]["C-6-renewal"], 4000, TEN[name]
    assert set(TEN) == set(record["value"])
    world = World(type(law)(*(np.full(n, value) for value in law._values())))
    schedule = Schedule(np.full(n, 1.0 / record["given"]["interval"]))
    same(over_elements(world, schedule, record["given"]["tau"], seed=14), record["value"][name])


# --- phase lock ---------------------------------------------------------------------------------------------


def test_constant_intervals_can_fall_into_step_with_a_periodic_source():
    """Li, Cline & Loguinov (2015), section IV-B; jitter brings back the long-run formula."""
    n = 400
    world = World(Periodic(np.ones(n)))
    formula = float(expect(World(Periodic(1.0)), [1.0]).freshness)
    assert formula == pytest.approx(0.5)

    def fresh(**options):
        schedule = Schedule(np.ones(n), phases=np.zeros(n), seed=1, **options)
        return simulate(world, 1.0, policies={"it": schedule}, horizon=2000.0, seed=2)[
            "it"
        ].elements.freshness

    locked = fresh()
    phases = np.array([own[0] for own in np.split(*first_changes(world))])
    assert_allclose(locked, phases, atol=1e-3)  # fresh from the poll, on the hour, to the change
    assert locked.min() < 0.01
    assert locked.max() > 0.99
    jittered = fresh(jitter=0.2)
    longer = np.linspace(0.8, 1.2, 40_001)  # fresh from a poll to the next change, a uniform time away
    formula = np.mean(np.where(longer < 1.0, longer - longer**2 / 2.0, 0.5))
    assert formula == pytest.approx(0.5, abs=0.004)  # what so much jitter costs
    assert abs(jittered.mean() - formula) < LIMIT * jittered.std() / np.sqrt(n)
    assert 0.3 < jittered.min() < jittered.max() < 0.7


def first_changes(world):
    events = world.changes(2).until(1.0)
    return events.times, events.offsets[1:-1]
