"""Operational time: P(fresh) and costs against quadrature and simulation, and the worth of polls."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate

import unstale
from unstale import InvalidInput, UncertainPoisson
from unstale.operational_time import OperationalClock, freshness_of_polls, long_run, poll_times

levels = st.lists(st.floats(0.0, 10.0), min_size=1, max_size=12).filter(lambda found: max(found) > 0.1)
moments = st.floats(0.0, 5.0)


def random_clock(rng, pieces=7, period=2.0):
    edges = np.concatenate([[0.0], np.sort(rng.uniform(0.0, period, pieces - 1)), [period]])
    return OperationalClock(rng.uniform(0.0, 3.0, pieces), period=period, edges=edges)


@given(levels, moments, st.floats(0.01, 30.0))
def test_a_period_of_operational_time_is_a_period_of_time(found, t, period):
    clock = OperationalClock(found, period=period)
    assert float(clock.at(t + period) - clock.at(t)) == pytest.approx(period, rel=1e-9)
    assert np.diff(clock.at(np.linspace(0.0, 3.0 * period, 50))).min() >= -1e-9 * period


def test_costs_of_given_polls_against_quadrature():
    rng = np.random.default_rng(1)
    for law in (0.7, UncertainPoisson(0.8, 0.9)):
        clock = random_clock(rng)
        times = np.cumsum(rng.uniform(0.1, 3.0, 6))
        lost = 0.0
        for last, following in pairwise(times):
            cuts = np.linspace(last, following, 3000)
            lost += integrate.simpson(1.0 - clock.fresh(law, last, cuts), x=cuts)
        found = freshness_of_polls(clock, law, times)
        assert found == pytest.approx(1.0 - lost / (times[-1] - times[0]), abs=2e-6)


def test_freshness_of_given_polls_against_simulated_changes():
    rng = np.random.default_rng(2)
    clock = OperationalClock([0.2, 3.0, 0.5, 0.3], period=1.0)
    polls, rate, days = np.array([0.5, 0.8]), 1.3, 20_000
    # changes are Poisson in operational time, where a period is as long as it is
    passed = np.sort(rng.uniform(0.0, days, rng.poisson(rate * days)))
    inside = np.interp(passed % 1.0, clock.passed, clock.edges)
    changes = np.floor(passed) + inside
    times = (np.arange(days)[:, None] + polls).ravel()
    nearest = np.searchsorted(changes, times[:-1])
    first_change = np.append(changes, np.inf)[nearest]
    fresh = np.minimum(first_change, times[1:]) - times[:-1]
    seen = fresh.sum() / (times[-1] - times[0])
    assert seen == pytest.approx(freshness_of_polls(clock, rate, polls, repeat=1.0), abs=0.006)


@given(st.floats(0.05, 5.0), st.floats(0.05, 6.0), st.floats(0.4, 20.0))
def test_without_a_rhythm_it_is_the_worth_as_ever(rate, since, shape):
    clock = OperationalClock([1.0, 1.0, 1.0, 1.0], period=1.0)
    for law in (rate, UncertainPoisson(shape, rate / shape)):
        for objective, close in (("freshness", 1e-6), ("age", 2e-3)):
            found = clock.worth(law, 0.3, 0.3 + since, objective=objective)
            assert float(found) == pytest.approx(float(unstale.worth(objective, law, since)), rel=close)


@given(levels, st.floats(0.1, 3.0), moments, st.floats(0.01, 3.0), st.floats(0.1, 100.0))
def test_the_unit_of_time_does_not_matter(found, rate, last, since, unit):
    clock = OperationalClock(found, period=1.0)
    other = OperationalClock(found, period=unit)
    worth = float(clock.worth(rate, last, last + since))
    scaled = float(other.worth(rate / unit, last * unit, (last + since) * unit))
    assert worth >= 0.0
    # a moment on an edge may fall on either side of it
    if abs(((last + since) * len(found)) % 1.0 - 0.5) < 0.49 and abs((last * len(found)) % 1.0 - 0.5) < 0.49:
        assert scaled == pytest.approx(unit * worth, rel=1e-4, abs=1e-7 * unit)


def test_the_next_poll_is_after_the_rush():
    clock = OperationalClock([0.3] * 9 + [2.5] * 8 + [0.3] * 7, period=24.0)
    for rate in (0.02, 0.05, 0.1):
        price = float(unstale.worth("freshness", rate, 24.0))
        polls = poll_times(clock, rate, price, start=0.0, end=240.0)[2:] % 24.0
        assert polls.min() >= 17.0 - 1e-6
        assert polls.max() <= 19.0


def test_at_a_price_its_polls_cost_less_than_those_without_rhythm():
    clock = OperationalClock([0.2] * 2 + [6.0] * 3 + [0.2] * 19, period=1.0)
    for rate, interval in ((0.5, 1.0), (1.0, 1.0), (1.0, 2.0), (2.0, 0.5)):
        price = float(unstale.worth("freshness", rate, interval))
        found = long_run(clock, rate, price)
        flat = np.mean(
            [freshness_of_polls(clock, rate, phase + interval * np.arange(200)) for phase in (0.0, 0.3, 0.6)]
        )
        assert found.freshness - price * found.frequency > flat - price / interval + 0.05


def test_the_next_poll_is_the_first_moment_that_is_worth_it():
    rng = np.random.default_rng(3)
    for _ in range(20):
        clock = random_clock(rng, pieces=24, period=1.0)
        rate, last = rng.uniform(0.2, 3.0), rng.uniform(0.0, 1.0)
        price = float(unstale.worth("freshness", rate, rng.uniform(0.1, 3.0)))
        moment = clock.next_poll(rate, last, price, horizon=20.0)
        if moment == np.inf:
            continue
        assert float(clock.worth(rate, last, moment)) >= price * (1 - 1e-9)
        edges = (np.arange(0, 20)[:, None] + clock.edges[:-1]).ravel()
        earlier = edges[(edges > last) & (edges < moment - 1e-6)]
        assert (clock.worth(rate, last, earlier) < price).all()


def test_what_cannot_be_is_told():
    with pytest.raises(InvalidInput, match="levels must be a list with one above 0"):
        OperationalClock([0.0, 0.0], period=1.0)
    with pytest.raises(InvalidInput, match="edges must rise"):
        OperationalClock([1.0, 2.0], period=1.0, edges=[0.0, 0.6, 0.9])
    with pytest.raises(InvalidInput, match="law must be rates"):
        OperationalClock([1.0], period=1.0).fresh(unstale.Periodic(1.0), 0.0, 1.0)
    with pytest.raises(InvalidInput, match="objective must be"):
        OperationalClock([1.0], period=1.0).worth(1.0, 0.0, 1.0, objective="harmonic")
    with pytest.raises(InvalidInput, match="times must be moments"):
        freshness_of_polls(OperationalClock([1.0], period=1.0), 1.0, [2.0, 1.0])
