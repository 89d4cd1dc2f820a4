"""Simulations that cannot be, or would mislead, are refused at the door."""

import pytest

from unstale import InvalidInput, Periodic, Poisson, World, simulate
from unstale.schedule import Windows


class WithoutStep:
    def polls(self, end):  # noqa: ARG002  (it is never asked)
        raise AssertionError

    def learn(self, outcomes):  # noqa: ARG002
        raise AssertionError


@pytest.mark.parametrize("name", ["index", "estimated-proportional"])
def test_policies_that_would_overspend_are_refused(name):
    world = World([1.0, 2.0], change_sizes=[3.0, 3.0])
    with pytest.raises(InvalidInput, match=f"{name}.*change_sizes"):
        simulate(world, 1.0, policies=[name], horizon=10.0)
    for other in ("uniform", "optimal", "edf"):
        assert simulate(world, 4.0, policies=[other], horizon=3000.0)[other].spent == pytest.approx(
            4.0, rel=0.6
        )


def test_a_list_of_laws_is_refused_by_the_index():
    with pytest.raises(InvalidInput, match=r"index.*list of processes"):
        simulate([Poisson(1.0), Periodic(1.0)], 1.0, policies=["index"], horizon=10.0)


@pytest.mark.parametrize(("rates", "horizon"), [([1e300], 10.0), ([1.0], 1e300), ([1.0], 1e14)])
def test_a_simulation_without_end_is_refused(rates, horizon):
    with pytest.raises(InvalidInput, match="horizon must be shorter"):
        simulate(rates, 1.0, policies=["nutch"], horizon=horizon)


def test_more_batches_than_anyone_needs_are_refused():
    with pytest.raises(InvalidInput, match="batches must be at most"):
        simulate([1.0], 1.0, horizon=10.0, batches=10**7)


def test_a_policy_without_a_step_is_refused():
    with pytest.raises(InvalidInput, match="step, polls and learn"):
        simulate([1.0], 1.0, policies={"it": WithoutStep()}, horizon=10.0)


def test_numbers_of_elements_beyond_all_bounds_are_refused():
    with pytest.raises(InvalidInput, match=r"elements\[0\] is 1000000000000"):
        World.recorded([10**12], [1.0])


def test_windows_that_are_always_open_have_a_formula():
    clock = Windows.every(1.0, 0.0, 1.0).clock()
    result = simulate([1.0], 1.0, policies=["uniform"], horizon=50.0, windows=clock)
    assert result["uniform"].expected is not None
