"""Plans by a rhythm: the budget holds, polls come after the rush, and simulations find what is promised."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unstale import InvalidInput, UncertainPoisson, World, plan, simulate
from unstale.operational_time import OperationalClock, freshness_of_polls

HOUR = np.arange(24)
OFFICE = OperationalClock(np.where((HOUR >= 9) & (HOUR < 17), 2.5, 0.25), period=1.0)
NIGHT = OperationalClock(np.where((HOUR >= 2) & (HOUR < 5), 20.0, 0.3), period=1.0)
FLAT = OperationalClock([1.0], period=1.0)


@pytest.mark.parametrize("objective", ["freshness", "age"])
def test_without_a_rhythm_it_is_the_plan_as_ever(objective):
    rates, weights = np.array([0.3, 1.0, 2.0]), np.array([1.0, 2.0, 1.0])
    plain = plan(rates, 3.0, weights=weights, objective=objective)
    timed = plan(rates, 3.0, weights=weights, objective=objective, rhythm=FLAT)
    np.testing.assert_allclose(timed.frequencies, plain.frequencies, rtol=0.02)
    assert timed.freshness == pytest.approx(plain.freshness, abs=0.003)
    assert timed.price == pytest.approx(plain.price, rel=0.02)


@settings(max_examples=3)
@given(st.lists(st.floats(0.1, 3.0), min_size=1, max_size=4), st.floats(0.3, 3.0))
def test_the_budget_holds_and_more_of_it_buys_more(rates, budget):
    less, more = (plan(rates, part * len(rates), rhythm=OFFICE) for part in (budget, 1.5 * budget))
    for one in (less, more):
        assert one.spent <= one.budget * (1.0 + 1e-9)
        assert 0.0 <= one.freshness <= 1.0
    assert more.freshness >= less.freshness - 0.01


def test_unit_of_time_does_not_matter():
    days = plan([0.5, 1.5], 2.0, rhythm=OFFICE)
    hours = plan([0.5 / 24, 1.5 / 24], 2.0 / 24, rhythm=OperationalClock(OFFICE.levels, period=24.0))
    np.testing.assert_allclose(hours.frequencies * 24.0, days.frequencies, rtol=1e-6)
    assert hours.freshness == pytest.approx(days.freshness, abs=1e-6)


def test_freshness_is_that_of_its_polls_and_beats_equal_distances():
    made = plan([1.0], 1.0, rhythm=NIGHT)
    polls = made.schedule().until(60.0)
    after = polls.times[20:]
    assert freshness_of_polls(NIGHT, 1.0, after) == pytest.approx(made.freshness, abs=0.005)
    assert np.median(after % 1.0) == pytest.approx(5.0 / 24.0, abs=0.05)
    even = np.mean([freshness_of_polls(NIGHT, 1.0, [phase], repeat=1.0) for phase in np.arange(0, 1, 0.05)])
    assert made.freshness > even + 0.15


@pytest.mark.parametrize("rhythm", [pytest.param(OFFICE, marks=pytest.mark.long), NIGHT])
def test_a_simulation_finds_what_is_promised(rhythm):
    rates = np.array([0.3, 0.7, 1.0, 2.0] * 10)
    made = plan(rates, 40.0, rhythm=rhythm)
    world = World(rates, rhythm=rhythm)
    policies = {"rhythm": made, "by name": "by-the-clock", "optimal": "optimal"}
    found = simulate(world, 40.0, policies=policies, horizon=300.0)
    timed = found["rhythm"]
    assert abs(timed.freshness - made.freshness) < 4.0 * timed.freshness_error + 0.003
    assert timed.freshness == found["by name"].freshness > found["optimal"].freshness + 0.04


def test_uncertain_rates_sizes_and_elements_that_do_not_matter():
    law = UncertainPoisson(np.array([2.0, 2.0, 2.0]), np.array([0.5, 0.5, 0.5]))
    made = plan(law, 2.0, rhythm=OFFICE, weights=[1.0, 0.0, 1.0], sizes=[1.0, 1.0, 2.0])
    assert made.frequencies[1] == 0.0
    assert made.schedule().until(30.0).elements.tolist().count(1) == 0
    assert made.frequencies[0] >= made.frequencies[2]


def test_what_it_does_not_know_is_refused():
    with pytest.raises(InvalidInput, match="groups cannot be combined with a rhythm"):
        plan([1.0], 1.0, rhythm=OFFICE, groups=["a"])
    with pytest.raises(InvalidInput, match="policy cannot"):
        plan([1.0], 1.0, rhythm=OFFICE, policy="uniform")
    with pytest.raises(InvalidInput, match="objective must be"):
        plan([1.0], 1.0, rhythm=OFFICE, objective="harmonic")
    with pytest.raises(InvalidInput, match="rhythm must be an OperationalClock"):
        plan([1.0], 1.0, rhythm="office")
    with pytest.raises(InvalidInput, match="rhythm must be an OperationalClock"):
        World([1.0], rhythm=[1.0, 2.0])
    with pytest.raises(InvalidInput, match="the world has none"):
        simulate([1.0], 1.0, policies=["by-the-clock"], horizon=10.0)
    with pytest.raises(InvalidInput, match="must be a plan for the 1 elements; it is one for 2"):
        simulate([1.0], 1.0, policies={"a": plan([1.0, 2.0], 1.0, rhythm=OFFICE)}, horizon=10.0)
    with pytest.raises(InvalidInput, match="rhythm belong to the World"):
        simulate(World([1.0]), 1.0, rhythm=OFFICE, horizon=10.0)
    with pytest.raises(InvalidInput, match="element must be"):
        plan([1.0], 1.0, rhythm=OFFICE).next_poll(1, 0.0)


@given(st.lists(st.floats(0.0, 5.0), min_size=1, max_size=6).filter(any), st.floats(0.0, 40.0))
def test_moments_are_the_inverse_of_operational_time(levels, passed):
    clock = OperationalClock(levels, period=7.0)
    moment = clock.moments(passed)
    assert clock.at(moment) == pytest.approx(passed, abs=1e-9)
    assert clock.at(moment - 1e-3) < passed or passed == 0.0 or moment < 1e-3
