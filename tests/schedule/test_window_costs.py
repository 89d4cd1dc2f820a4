"""What windows and jitter cost: against simulated polls, closed forms, and limits that are known."""

import itertools
from datetime import UTC, datetime
from fractions import Fraction

import numpy as np
import pytest
from example_counts import percent
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate

from unstale import penalties
from unstale.errors import InvalidInput
from unstale.objectives import SourcePenalty, currency, objective_named
from unstale.polling import average_cost, mean_cost
from unstale.processes import Empirical, Gamma, Pareto, Periodic, Poisson, RandomOrder, Weibull
from unstale.schedule import Schedule
from unstale.schedule.window_costs import (
    _kinks,
    _scales,
    jitter_loss,
    jittered_cost,
    phase_lock,
    windowed_cost,
)
from unstale.schedule.window_intervals import cost_of_intervals
from unstale.schedule.windows import Windows

ORDERS = ("fixed", "random", "purely-random")
NIGHT = Windows.every(1.0, 0.9, 1.25).clock()
CLOCKS = {
    "night": NIGHT,
    "night, most at start": Windows.every(1.0, 0.9, 1.25, at_start=0.7).clock(),
    "all at start": Windows.every(1.0, 0.2, 0.4, at_start=1.0).clock(),
    "whole day, most at start": Windows.every(1.0, 0.0, 1.0, at_start=0.7).clock(),
    "three": Windows.every(1.0, [0.1, 0.3, 0.55], [0.2, 0.35, 0.9], at_start=0.3).clock(),
    "weekdays": Windows.parse("mon-fri 22:00-06:00 Europe/Berlin").clock(
        datetime(2024, 1, 1, tzinfo=UTC), 7 * 86400.0
    ),
}
COSTS = [
    ("freshness", Poisson(1.3)),
    ("age", Poisson(1.3)),
    ("missed-updates", Pareto(3.0, 1.0)),
    ("freshness", Periodic(0.7)),
    (currency(0.35), Weibull(2.0, 0.8)),
]

# --- windows ------------------------------------------------------------------------------------------------


def points(order, rng, elements, polls, jitter=0.0):
    """Points in an element's own time, of rate 1, with a random phase; one row for each element."""
    phase = rng.random((elements, 1))
    if order == "fixed":
        gaps = 1.0 + jitter * (2.0 * rng.random((elements, polls)) - 1.0)
        return phase + np.cumsum(gaps, axis=1)
    if order == "random":
        return phase + np.arange(polls) + rng.random((elements, polls))
    return np.cumsum(rng.exponential(size=(elements, polls)), axis=1)


def simulated(objective, law, frequency, clock, order, *, jitter=0.0, elements=2000, polls=100):
    """Mean cost and its standard error, from polls mapped by the clock; costs of intervals are exact."""
    rng = np.random.default_rng([ord(letter) for letter in f"{order} {jitter} {frequency}"])
    # points are worked times after a start anywhere in a period
    v = (
        points(order, rng, elements, polls, jitter) / frequency
        + rng.random((elements, 1)) * clock.cycle.period
    )
    intervals = np.diff(clock.cycle.when(v), axis=1)
    cost = objective_named(objective).accrued(law, intervals).sum(axis=1)
    mean = cost.sum() / intervals.sum()
    rest = cost - mean * intervals.sum(axis=1)
    return mean, rest.std() * np.sqrt(elements) / intervals.sum()


@pytest.mark.every(7)
@pytest.mark.parametrize(("objective", "law"), COSTS, ids=str)
@pytest.mark.parametrize("clock", CLOCKS.values(), ids=CLOCKS)
def test_cost_agrees_with_simulated_polls(clock, objective, law):
    for frequency in (0.13, 0.9, 3.7):
        for order, jitter in (*((order, 0.0) for order in ORDERS), ("fixed", 0.4)):
            mean, error = simulated(objective, law, frequency, clock, order, jitter=jitter)
            found = float(windowed_cost(objective, law, frequency, clock, order, jitter=jitter))
            assert abs(found - mean) < 4.5 * error + 1e-3 * mean, (frequency, order, jitter)


@pytest.mark.parametrize("order", ORDERS)
def test_cost_agrees_with_a_schedule(order):
    clock = CLOCKS["three"]
    frequency, law, horizon = 1.7, Poisson(1.3), 400.0
    schedule = Schedule(np.full(500, frequency), order=order, windows=clock, seed=3)
    polls = schedule.until(horizon)
    assert clock.is_open(polls.times).all()
    assert len(polls) == pytest.approx(500 * frequency * horizon, rel=0.01)
    total = 0.0
    for element in range(500):
        intervals = np.diff(polls.times[polls.elements == element])
        total += objective_named("freshness").accrued(law, intervals).sum() / intervals.sum()
    assert total / 500 == pytest.approx(
        float(windowed_cost("freshness", law, frequency, clock, order)), rel=0.01
    )


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("objective", "law"), COSTS, ids=str)
def test_windows_that_are_always_open_cost_nothing(order, objective, law):
    f = np.array([0.0, 0.07, 1.0, 7.3])
    plain = mean_cost(objective, law, f, order)
    for clock in (
        None,
        Windows.every(1.0, 0.0, 1.0).clock(),
        Windows.every(1.0, 0.0, 1.0, at_start=1e-12).clock(),
    ):
        found = windowed_cost(objective, law, f, clock, order)
        np.testing.assert_allclose(found, plain, rtol=1e-9)


def test_ten_pages_a_day():
    """Figure 5: all polls at the start of the day (a), most of them (b), spread evenly (c).

    A page that is polled once a day in fixed order is as fresh in all three. Polls of one page at the same
    moment are wasted, and so is a day without a poll: for other frequencies and orders (c) is best.
    """
    a, b, c = (Windows.every(1.0, 0.0, 1.0, at_start=share).clock() for share in (1.0, 0.7, 0.0))
    rate = 1.5
    once = [float(windowed_cost("freshness", rate, 1.0, clock)) for clock in (a, b, c)]
    np.testing.assert_allclose(once, float(mean_cost("freshness", rate, 1.0)), rtol=1e-12)
    cases = [*itertools.product([0.7, 1.5, 10.0], ORDERS), (1.0, "random"), (1.0, "purely-random")]
    for (frequency, order), objective in itertools.product(cases, ("freshness", "age")):
        costs = [float(windowed_cost(objective, rate, frequency, clock, order)) for clock in (a, b, c)]
        assert costs[0] > costs[1] > costs[2], (frequency, order)
    # ten polls of one page: in (a) they are as good as one
    assert float(windowed_cost("freshness", rate, 10.0, a)) == pytest.approx(once[0], rel=1e-12)
    assert float(windowed_cost("freshness", rate, 10.0, c)) == pytest.approx(
        float(mean_cost("freshness", rate, 10.0)), rel=1e-12
    )
    # in (b) seven come at midnight, and three in the rest of the day: as good as four, not quite even
    four, three = (float(mean_cost("freshness", rate, count)) for count in (4.0, 3.0))
    assert four < float(windowed_cost("freshness", rate, 10.0, b)) < three


def test_all_at_the_start_in_closed_form():
    """Purely random polls at the start of each day: one or more with probability 1 - exp(-f), else none."""
    clock = Windows.every(1.0, 0.3, 0.4, at_start=1.0).clock()
    for frequency, rate in itertools.product((0.01, 0.4, 2.0, 30.0), (0.02, 1.3, 50.0)):
        chance = -np.expm1(-frequency)
        # D is n with probability chance (1 - chance)^(n - 1)
        stays = chance * np.exp(-rate) / (1.0 - (1.0 - chance) * np.exp(-rate))  # E[exp(-rate D)]
        stale = 1.0 - chance * (1.0 - stays) / rate
        squares = (2.0 - chance) / chance**2
        age = chance * 0.5 * squares - stale / rate
        found = windowed_cost("freshness", rate, frequency, clock, "purely-random")
        assert float(found) == pytest.approx(stale, rel=1e-10)
        general = windowed_cost(SourcePenalty(penalties.power(1.0)), rate, frequency, clock, "purely-random")
        assert float(general) == pytest.approx(age, rel=1e-8)


def test_one_poll_a_period_comes_at_constant_intervals():
    for clock in CLOCKS.values():
        interval = np.array([1.0, 2.0, 5.0])
        found = windowed_cost("age", 1.3, 1.0 / interval, clock)
        np.testing.assert_allclose(found, mean_cost("age", 1.3, 1.0 / interval), rtol=1e-10)


@pytest.mark.parametrize("clock", CLOCKS.values(), ids=CLOCKS)
def test_memoryless_polls_by_two_ways(clock):
    objective, rates = objective_named("freshness"), (1e-3, 1.3, 300.0)
    for rate, frequency in itertools.product(rates, (1e-3, 0.2, 4.0, 900.0)):
        law = Poisson(rate)
        cuts = {"kinks": _kinks(objective, law)[:, 0], "scales": _scales(objective, law)[:, 0]}
        by_intervals = cost_of_intervals(
            clock.cycle, (), frequency, lambda x, law=law: objective.cost(law, x), **cuts
        )
        found = float(windowed_cost("freshness", law, frequency, clock, "purely-random"))
        assert by_intervals == pytest.approx(found, rel=1e-9)


@pytest.mark.every(5)
@pytest.mark.parametrize("clock", CLOCKS.values(), ids=CLOCKS)
@pytest.mark.parametrize("objective", ["freshness", "age"])
def test_fixed_order_agrees_with_an_integral(clock, objective):
    """f E[accrued(when(v + V) - when(v))], by the midpoint rule in v."""
    v = (np.arange(600_001) + 0.5) / 600_001
    law, accrued, when = Poisson(1.3), objective_named(objective).accrued, clock.cycle.when
    for frequency in (0.04, 0.9, 6.1):
        expected = frequency * float(accrued(law, when(v + 1.0 / frequency) - when(v)).mean())
        assert float(windowed_cost(objective, law, frequency, clock)) == pytest.approx(expected, rel=1e-5)


GAPS = {
    ("random", 0.0): (0.0, 2.0, lambda x: np.minimum(x, 2.0 - x)),
    ("fixed", 0.4): (0.6, 1.4, lambda x: np.full(x.size, 1.25)),
    ("purely-random", 0.0): (0.0, 40.0, lambda x: np.exp(-x)),
}


@pytest.mark.every(5)
@pytest.mark.parametrize("clock", CLOCKS.values(), ids=CLOCKS)
@pytest.mark.parametrize(("order", "jitter"), GAPS)
def test_other_orders_are_means_over_intervals_in_worked_time(clock, order, jitter):
    """A distance V costs what fixed order at frequency 1/V does, in proportion to its length."""
    begin, end, density = GAPS[order, jitter]
    x = begin + (np.arange(20_000) + 0.5) * ((end - begin) / 20_000)
    for frequency, objective in ((0.11, "age"), (1.3, "age"), (7.7, "freshness")):
        each = windowed_cost(objective, 1.3, frequency / x, clock)
        expected = float(np.sum(density(x) * x * each) * (end - begin) / x.size)
        found = float(windowed_cost(objective, 1.3, frequency, clock, order, jitter=jitter))
        assert found == pytest.approx(expected, rel=2e-6)


@settings(max_examples=percent(60))
@given(
    st.floats(-3.0, 3.0),
    st.floats(-3.0, 3.0),
    st.floats(0.0, 1.0),
    st.lists(st.floats(0.05, 1.0), min_size=2, max_size=6),
    st.sampled_from(["freshness", "age", "missed-updates", "harmonic"]),
)
def test_windows_never_help_at_constant_intervals(log_rate, log_frequency, at_start, lengths, objective):
    """Constant intervals are best of all with the same mean, whatever the changes (Li et al., theorem 9)."""
    ends = np.cumsum(lengths)
    ends = np.concatenate([[0.0], ends]) / ends[-1] * 0.999
    windows = Windows.every(
        1.0, ends[:-1:2], ends[1::2] if len(lengths) % 2 else ends[1:-1:2], at_start=at_start
    )
    rate, frequency = 10.0**log_rate, 10.0**log_frequency
    found = float(windowed_cost(objective, rate, frequency, windows.clock()))
    assert found >= float(mean_cost(objective, rate, frequency)) * (1.0 - 1e-9)
    # and the unit of time does not matter
    hours = Windows.every(24.0, *(24.0 * np.array(windows.spans).T), at_start=at_start).clock()
    unit = 24.0 if objective == "age" else 1.0
    assert float(windowed_cost(objective, rate / 24.0, frequency / 24.0, hours)) == pytest.approx(
        unit * found, rel=1e-9
    )


@pytest.mark.parametrize("clock", CLOCKS.values(), ids=CLOCKS)
@pytest.mark.parametrize("order", ORDERS)
def test_rare_and_frequent_polls(clock, order):
    # rare ones do not feel the windows
    for frequency in (1e-12, 2e-7, 1e-5):
        for objective, rate in (("freshness", frequency), ("age", 3.0 * frequency)):
            found = float(windowed_cost(objective, rate, frequency, clock, order))
            assert found == pytest.approx(float(mean_cost(objective, rate, frequency, order)), rel=1e-6)
    # the frequent ones leave what happens outside
    worked, moments = clock.cycle.edges
    opens, _, closes = moments.reshape(3, -1)
    starts = opens if clock.cycle.pace == 0.0 else closes
    rests = np.append(opens[1:], opens[0] + clock.cycle.period) - starts
    outside = sum(objective_named("age").accrued(Poisson(1.3), rest) for rest in rests) / clock.cycle.period
    for frequency in (9e8, 1e12):
        found = float(windowed_cost("age", 1.3, frequency, clock, order))
        assert found == pytest.approx(outside, rel=1e-6, abs=1e-8)
    assert worked.size == moments.size


def test_no_jump_where_formulas_change():
    for order in ORDERS:
        for frequency in (1e-7, 1e8):
            around = frequency * np.array([0.999, 1.001])
            rate = min(frequency, 1.0)
            costs = windowed_cost("freshness", rate, around, NIGHT, order)
            middle = float(mean_cost("freshness", rate, frequency, order)) if frequency < 1.0 else costs[0]
            assert costs[0] == pytest.approx(middle, rel=1.1e-3)
            assert costs[0] == pytest.approx(costs[1], rel=2e-3 if frequency < 1.0 else 1e-6)


def test_arrays_and_elements_that_are_never_polled_or_never_change():
    rates, frequencies = np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 1.0, 3.0, 7.0])
    for order, objective in itertools.product(ORDERS, ("freshness", "age")):
        found = windowed_cost(objective, rates, frequencies, NIGHT, order)
        assert found.shape == (3, 4)
        assert (found[0] == 0.0).all()
        assert (found[1:, 0] == (1.0 if objective == "freshness" else np.inf)).all()
        one = windowed_cost(objective, 2.0, 3.0, NIGHT, order)
        assert one.shape == ()
        assert found[2, 2] == pytest.approx(float(one), rel=1e-14)
    laws = Pareto(3.0, [1.0, 2.0])
    found = windowed_cost("freshness", laws, [1.0, 2.0], NIGHT)
    single = [windowed_cost("freshness", Pareto(3.0, s), f, NIGHT) for s, f in ((1.0, 1.0), (2.0, 2.0))]
    np.testing.assert_allclose(found, single, rtol=1e-14)
    assert windowed_cost("freshness", [], [], NIGHT).shape == (0,)
    many = np.random.default_rng(1).lognormal(0.0, 1.0, (2, 5000))
    found = windowed_cost("freshness", many[0], many[1], NIGHT)
    assert found[4321] == pytest.approx(float(windowed_cost("freshness", *many[:, 4321], NIGHT)), rel=1e-13)


# --- jitter -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("objective", "law"), [*COSTS, ("harmonic", Poisson(20.0))], ids=str)
def test_no_jitter_costs_nothing(objective, law):
    f = np.array([0.0, 1e-300, 0.1, 2.0])
    np.testing.assert_array_equal(jittered_cost(objective, law, f, 0.0), mean_cost(objective, law, f))
    assert (jitter_loss(objective, law, f, 0.0) == 0.0).all()


@pytest.mark.parametrize(
    ("objective", "law"), [*COSTS, ("harmonic", Poisson(20.0)), ("age", Gamma(50.0, 0.02))], ids=str
)
@pytest.mark.parametrize("jitter", [0.05, 0.6, 1.0])
def test_jitter_is_the_mean_over_uniform_intervals(objective, law, jitter):
    goal = objective_named(objective)
    for frequency in (0.08, 0.7, 1.6, 40.0):
        low, high = (1.0 - jitter) / frequency, (1.0 + jitter) / frequency
        cuts = [x for x in (0.35, 0.7, 1.4) if low < x < high] or None
        area = integrate.quad(
            lambda t: float(goal.accrued(law, t)), low, high, points=cuts, epsabs=0.0, limit=500
        )[0]
        expected = frequency * area / (high - low)
        assert float(jittered_cost(objective, law, frequency, jitter)) == pytest.approx(expected, rel=1e-9)


def test_small_jitter_costs_its_square():
    """f h^2 g'(D) / 6."""
    rate, f = 1.3, np.array([0.5, 1.0, 3.0])
    for jitter in (1e-2, 1e-5, 1e-7):
        expected = jitter**2 / (6.0 * f) * rate * np.exp(-rate / f)
        close = 3.0 * jitter**2 + 1e-15 / jitter
        np.testing.assert_allclose(jitter_loss("freshness", rate, f, jitter), expected, rtol=close)


def test_jitter_lies_between_constant_and_random_intervals():
    f = np.geomspace(0.01, 100.0, 30)
    for objective in ("freshness", "age", "missed-updates", "harmonic"):
        rows = [jittered_cost(objective, 1.0, f, jitter) for jitter in (0.0, 0.1, 0.5, 1.0)]
        rows.append(mean_cost(objective, 1.0, f, "purely-random"))
        assert (np.diff(rows, axis=0) >= -1e-12 * np.abs(rows[:-1])).all()
        assert (np.diff(rows, axis=0)[:, 10:] > 0.0).all()  # before, all are as stale as can be


def test_jitter_inside_windows_has_its_limits():
    for order_clock in CLOCKS.values():
        # a little of it changes little
        found = float(windowed_cost("age", 1.3, 0.77, order_clock, jitter=1e-5))
        assert found == pytest.approx(float(windowed_cost("age", 1.3, 0.77, order_clock)), rel=1e-4)
    almost = Windows.every(1.0, 0.0, 1.0, at_start=1e-12).clock()
    found = windowed_cost("age", Gamma(2.0, 0.5), [0.3, 4.0], almost, jitter=0.5)
    np.testing.assert_allclose(found, jittered_cost("age", Gamma(2.0, 0.5), [0.3, 4.0], 0.5), rtol=1e-9)
    np.testing.assert_array_equal(
        windowed_cost("age", 1.3, [0.3, 4.0], None, jitter=0.5), jittered_cost("age", 1.3, [0.3, 4.0], 0.5)
    )


@pytest.mark.parametrize("phase", [0.0, 0.3, 0.999])
@pytest.mark.parametrize("every", [1.0, 0.5, 1.5])
def test_jitter_forgets_the_phase_of_a_periodic_source(phase, every):
    """One long run each: constant intervals keep their phase for ever, and with jitter all are alike."""
    rng = np.random.default_rng(5)
    gaps = every * (1.0 + 0.2 * (2.0 * rng.random(1_000_000) - 1.0))
    polls = np.cumsum(gaps)[:-1]
    due = np.ceil(polls - phase) + phase - polls  # to the next change
    stale = np.maximum(gaps[1:] - due, 0.0).sum() / gaps[1:].sum()
    formula = float(jittered_cost("freshness", Periodic(1.0), 1.0 / every, 0.2))
    assert stale == pytest.approx(formula, abs=0.004)
    locked = phase_lock(Periodic(1.0), 1.0 / every)
    assert locked.possible
    assert locked.worst - locked.best > 0.3


# --- falling into step --------------------------------------------------------------------------------------


def staleness_of(law_gaps, every, phase, polls=20_000):
    """Share of time that copies are stale, with changes at given gaps and polls from a phase on."""
    changes = np.cumsum(law_gaps)
    at = phase + every * np.arange(polls)
    at = at[at < changes[-1] - every]
    following = changes[np.searchsorted(changes, at, "right")]
    return float(np.maximum(at[1:] - following[:-1], 0.0).sum() / (at[-1] - at[0]))


@pytest.mark.parametrize(
    ("p", "q"), [(1, 1), (1, 2), (2, 1), (2, 3), (3, 2), (7, 5), (3, 10), (1, 7), (12, 1), (99, 100)]
)
def test_phases_in_step_with_a_periodic_source(p, q):
    period = 24.0
    every = period * p / q
    lock = phase_lock(Periodic(period), 1.0 / every)
    assert lock.possible
    assert str(q) in lock.reason
    mean = float(mean_cost("freshness", Periodic(period), 1.0 / every))
    assert lock.mean == pytest.approx(mean)
    assert (lock.best, lock.worst) == pytest.approx(
        (mean - 0.5 / max(p, q), mean + 0.5 / max(p, q)), abs=1e-12
    )
    changes = np.full(p * 2000 // q + 3000, period)
    step = period / q
    seen = [staleness_of(changes, every, shift * step) for shift in (0.001, 0.25, 0.5, 0.75, 0.999)]
    assert min(seen) == pytest.approx(lock.best, abs=2e-3)
    assert max(seen) == pytest.approx(lock.worst, abs=2e-3)


@pytest.mark.parametrize(
    ("gaps", "every"), [([1.0, 2.0], 1.0), ([1.0, 2.0], 3.5), ([2.0, 6.0], 0.8), ([3.0, 5.0], 2.0)]
)
def test_phases_in_step_with_gaps_of_whole_multiples(gaps, every):
    law = Empirical(gaps)
    lock = phase_lock(law, 1.0 / every)
    assert lock.possible
    rng = np.random.default_rng(7)
    drawn = rng.choice(gaps, 150_000)
    step = law.span / Fraction(every / law.span).limit_denominator(100).denominator
    seen = [
        staleness_of(drawn, every, 1000 * law.span + shift * step, polls=400_000)
        for shift in (1e-6, 0.5, 1 - 1e-6)
    ]
    assert seen == pytest.approx([lock.best, lock.mean, lock.worst], abs=0.004)
    if every == 1.0:
        # changes at two of three multiples of 1: two of three copies are stale if polls come just before
        assert (lock.best, lock.worst) == pytest.approx((0.0, 2.0 / 3.0))


def test_no_phase_where_nothing_is_in_step():
    for law, frequency in (
        (Poisson(1.0), 1.0),
        (Periodic(1.0), 2.0**0.5),
        (Periodic(1.0), 1.0 / 1.0001),
        (Gamma(2.0, 1.0), 0.5),
    ):
        lock = phase_lock(law, frequency)
        assert not lock.possible
        assert (
            lock.best
            == lock.mean
            == lock.worst
            == pytest.approx(float(mean_cost("freshness", law, frequency)))
        )
    assert phase_lock(Periodic(1.0), 1.0 / 1.0001, denominator=10_001).possible


# --- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: windowed_cost("fresh", 1.0, 1.0, NIGHT), "objective must be one of"),
        (lambda: windowed_cost("age", -1.0, 1.0, NIGHT), "rate must be finite and >= 0"),
        (lambda: windowed_cost("age", 1.0, -1.0, NIGHT), "frequency must be finite and >= 0"),
        (lambda: windowed_cost("age", 1.0, 1.0, NIGHT, "fixd"), "order must be one of"),
        (lambda: windowed_cost("age", 1.0, 1.0, "night"), "clock must be that of Windows.*'night'"),
        (
            lambda: windowed_cost("age", 1.0, 1.0, Windows.every(1.0, 0.0, 0.5)),
            "clock must be that of Windows",
        ),
        (
            lambda: windowed_cost("age", 1.0, 1.0, NIGHT, jitter=1.5),
            "jitter must be finite and >= 0 and <= 1",
        ),
        (lambda: windowed_cost("age", 1.0, 1.0, NIGHT, "random", jitter=0.5), "jitter is for fixed order"),
        (lambda: windowed_cost("age", [1.0, 2.0], [1.0, 2.0, 3.0], NIGHT), "shapes do not fit"),
        (lambda: jitter_loss("age", 1.0, 1.0, -0.1), "jitter must be finite and >= 0"),
        (lambda: jitter_loss("age", [1.0, 2.0], [1.0, 2.0, 3.0], 0.1), "shapes do not fit"),
        (lambda: phase_lock(Periodic(1.0), 0.0), "frequency must be finite and > 0"),
        (lambda: phase_lock(Periodic([1.0, 2.0]), 1.0), "must be one process"),
        (lambda: phase_lock(Periodic(1.0), 1.0, denominator=0), "denominator must be a whole number >= 1"),
    ],
)
def test_refused(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


def test_random_rounds_without_windows_are_those_of_polling():
    polls = RandomOrder(0.5)
    assert float(windowed_cost("age", 1.3, 2.0, None, "random")) == float(average_cost("age", 1.3, polls))
