"""What a plan cannot be made of is refused with a message that names the argument and its value."""

import numpy as np
import pytest

from unstale import (
    InvalidInput,
    Pareto,
    Partitioning,
    Periodic,
    Poisson,
    SourcePenalty,
    UncertainPoisson,
    UpdatePenalty,
    budget_for,
    penalties,
    plan,
    plan_shards,
)
from unstale.planning import summary_of

TWO = [1.0, 2.0]
ORDERS = "'fixed', 'random', 'purely-random'"
POLICIES = "'uniform', 'proportional', 'square-root', 'random-optimal', 'optimal'"


def refused(call, *words):
    with pytest.raises(InvalidInput) as caught:
        call()
    for word in words:
        assert word in str(caught.value)


def asked(**options):
    """The questions that take the same options."""
    return [lambda: plan(TWO, 1.0, **options), lambda: budget_for(TWO, freshness=0.5, **options)]


# --- words ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "argument", "allowed"),
    [
        (lambda word: plan(TWO, 1.0, policy=word), "policy", POLICIES),
        (lambda word: plan(TWO, 1.0, order=word), "order", ORDERS),
        (lambda word: plan(TWO, 1.0, objective=word), "objective", "'freshness', 'age', 'missed-updates'"),
        (lambda word: budget_for(TWO, age=1.0, policy=word), "policy", POLICIES),
        (lambda word: budget_for(TWO, age=1.0, order=word), "order", ORDERS),
        (lambda word: plan_shards([{"rates": TWO}], 1.0, order=word), "order", ORDERS),
        (lambda word: plan_shards([{"rates": TWO}], 1.0, objective=word), "objective", "'freshness', 'age'"),
        (lambda word: summary_of(TWO, order=word), "order", ORDERS),
        (lambda word: summary_of(TWO, objective=word), "objective", "'freshness', 'age'"),
        (lambda word: Partitioning(key=word), "key", "'p', 'rate', 'p/rate', 'pf', 'pfs', 'size'"),
        (lambda word: Partitioning(division=word), "division", "'bandwidth', 'frequency'"),
    ],
)
def test_a_wrong_word_lists_the_allowed_ones(call, argument, allowed):
    refused(lambda: call("fixd"), f"{argument} must be one of", allowed, f"{argument} is 'fixd'")
    for value in (3, ["fixed"]):
        refused(lambda value=value: call(value), f"{argument} must be", repr(value))


def test_a_word_for_the_objective_of_a_budget():
    refused(lambda: budget_for(TWO, age=1.0, objective="fixd"), "objective must be one of", "'fixd'")


# --- columns ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["weights", "sizes", "change_sizes", "min_frequency", "max_frequency"])
@pytest.mark.parametrize("shape", [(1,), (3,), (2, 1), (2, 2), (0,)])
def test_columns_fit_the_elements(name, shape):
    for call in asked(**{name: np.ones(shape)}):
        refused(call, f"{name} must be one number or one for each element", f"{name} has shape {shape}")
    refused(lambda: plan_shards([{"rates": TWO, name: np.ones(shape)}], 1.0), f"{name} has shape {shape}")


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (2.0, 1.0, "min_frequency is 2, max_frequency is 1"),
        ([0.0, 2.0], 1.0, "min_frequency[1] is 2, max_frequency[1] is 1"),
        (0.5, [1.0, 0.25], "min_frequency[1] is 0.5, max_frequency[1] is 0.25"),
        ([3.0, 0.0], [2.0, 1.0], "min_frequency[0] is 3, max_frequency[0] is 2"),
    ],
)
def test_bounds_must_not_cross(low, high, words):
    for call in asked(min_frequency=low, max_frequency=high):
        refused(call, "min_frequency must not exceed max_frequency", words)


def test_sizes_must_not_be_0():
    for call in asked(sizes=[1.0, 0.0]):
        refused(call, "sizes must be finite and > 0; sizes[1] is 0.0")


def test_weights_must_not_all_be_0():
    for weights in (0.0, [0.0, 0.0]):
        for call in asked(weights=weights):
            refused(call, "weights must not all be 0")


@pytest.mark.parametrize("n", [2, 9000])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rates", -1.0),
        ("rates", np.nan),
        ("weights", np.inf),
        ("weights", -1.0),
        ("sizes", 0.0),
        ("sizes", np.nan),
    ],
)
@pytest.mark.parametrize("groups", [False, True])
def test_a_bad_number_is_found_in_the_quick_way_too(n, name, value, groups):
    columns = {name: np.ones(n) for name in ("rates", "weights", "sizes")}
    columns[name][n - 1] = value
    more = {"groups": np.zeros(n, int), "limits": [1.0]} if groups else {}
    refused(
        lambda: plan(**columns, budget=1.0, **more), f"{name} must be finite", f"{name}[{n - 1}] is {value}"
    )


def test_budgets_below_the_lower_bounds():
    message = "budget must be at least 4, which min_frequency needs; budget is 3"
    refused(lambda: plan(TWO, 3.0, min_frequency=2.0), message)
    refused(lambda: plan(TWO, 9.0, min_frequency=2.0).outlook(3.0), message)
    refused(lambda: plan(TWO, 9.0, min_frequency=2.0).curve([9.0, 3.0]), message)
    refused(lambda: plan_shards([{"rates": TWO, "min_frequency": 2.0}], 3.0), message)


# --- laws -------------------------------------------------------------------------------------------


def test_laws_that_do_not_fit():
    refused(lambda: plan([Poisson(1.0), 2.0], 1.0), "rates[1] must be a process", "rates[1] is 2.0")
    refused(lambda: plan([Poisson(1.0), Poisson(TWO)], 1.0), "rates[1]", "shape (2,)")
    refused(lambda: plan(Poisson([TWO]), 1.0), "rates must be a process", "shape is (1, 2)")
    refused(lambda: plan(Poisson, 1.0), "rates must be", "Poisson")
    refused(lambda: plan(5.0, 1.0), "rates must be one-dimensional", "shape ()")
    refused(lambda: plan([TWO], 1.0), "rates must be one-dimensional", "shape (1, 2)")
    refused(lambda: plan([], 1.0), "rates must not be empty")


@pytest.mark.parametrize(
    ("law", "order"),
    [
        (Pareto([2.0], 1.0), "fixed"),
        (Periodic([2.0]), "fixed"),
        (UncertainPoisson([2.0], 1.0), "random"),
        ([Poisson(1.0), Pareto(2.0, 1.0)], "fixed"),
    ],
)
def test_costly_changes_need_a_law_that_says_how_many_are_found(law, order):
    refused(
        lambda: plan(law, 1.0, change_sizes=1.0, order=order), "change_sizes needs Poisson changes", order
    )


def test_objectives_that_fall_as_lags_grow():
    refused(lambda: plan(TWO, 1.0, objective=SourcePenalty(penalties.decay(1.0))), "falls as lags grow")
    falling = UpdatePenalty(penalties.decay(1.0))
    refused(lambda: plan(TWO, 1.0, objective=falling, change_sizes=1.0), "change_sizes needs")


# --- groups -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("groups", "limits", "words"),
    [
        ([0, 1], None, ("groups and limits go together", "limits is missing")),
        (None, [1.0], ("groups and limits go together", "groups is missing")),
        ([0], [1.0], ("groups must have one label for each element", "shape (1,)")),
        ([[0, 1]], [1.0, 1.0], ("groups must have one label for each element", "shape (1, 2)")),
        (0, [1.0], ("groups must have one label for each element", "shape ()")),
        ([0, 2], [1.0, 1.0], ("groups must index limits", "2 entries", "groups[1] is 2")),
        ([-1, 0], [1.0, 1.0], ("groups must index limits", "groups[0] is -1")),
        ([0, 10**13], [1.0, 1.0], ("groups must index limits", "groups[1] is 10000000000000")),
        (["a", "b"], [1.0, 1.0], ("limits must be a mapping", "'a'")),
        ([0.5, 1.5], [1.0, 1.0], ("groups[0] is 0.5",)),
        (["a", None], {"a": 1.0}, ("groups must be", "groups[1] is None")),
        ([0, 1], 1.0, ("limits must be", "shape ()")),
        ([0, 1], [[1.0, 1.0]], ("limits must be", "shape (1, 2)")),
        ([0, 1], "abc", ("limits must be", "'abc'")),
        ([0, 1], [1.0, np.nan], ("limits must be", "limits[1] is nan")),
        ([0, 1], [1.0, -2.0], ("limits must be", "limits[1] is -2.0")),
        ([0, 1], [1.0, "2"], ("limits must be", "limits[")),
        (["a", "b"], {"a": -1.0}, ("limits['a'] must be", "-1.0")),
        (["a", "b"], {"a": np.nan}, ("limits['a'] must be", "nan")),
        (["a", "b"], {"a": "1"}, ("limits['a'] must be", "'1'")),
        (["a", "b"], {"a": None}, ("limits['a'] must be", "None")),
        (["a", "b"], {"a": [1.0, 2.0]}, ("limits['a'] must be a single number", "(2,)")),
        (["1", "2"], {1: 0.1}, ("limits must name groups", "1")),
    ],
)
def test_groups_and_limits(groups, limits, words):
    for call in asked(groups=groups, limits=limits):
        refused(call, *words)


def test_groups_are_not_for_shards_or_partitions():
    refused(
        lambda: plan_shards([{"rates": TWO, "groups": [0, 1], "limits": [1.0, 1.0]}], 1.0),
        "a shard must be a mapping with rates",
        "groups",
    )
    for options in (
        {"groups": [0, 1], "limits": [1.0, 1.0]},
        {"max_frequency": 1.0},
        {"change_sizes": 1.0},
        {"objective": "age"},
    ):
        refused(
            lambda options=options: plan(TWO, 1.0, policy=Partitioning(), **options), "a partitioning takes"
        )
    refused(lambda: plan(Pareto([2.0], 1.0), 1.0, policy=Partitioning()), "a partitioning takes")


# --- the other questions --------------------------------------------------------------------------------


def test_partitionings():
    for name in ("partitions", "iterations"):
        for value in (-1, 1.5, "2", True, None):
            refused(
                lambda name=name, value=value: Partitioning(**{name: value}),
                f"{name} must be a whole number",
                repr(value),
            )
    refused(lambda: Partitioning(partitions=0), "partitions must be a whole number >= 1; partitions is 0")
    refused(lambda: Partitioning(frequency=0.0), "frequency must be finite and > 0; frequency is 0.0")


def test_policies_with_nothing_to_go_by():
    refused(lambda: plan([0.0, 0.0], 1.0, policy="proportional"), "rates must not all be 0", "'uniform'")
    refused(
        lambda: plan([0.0, 1.0], 1.0, weights=[1.0, 0.0], policy="square-root"), "square-root", "'uniform'"
    )


def test_budget_for_takes_one_target():
    refused(lambda: budget_for(TWO), "give either freshness or age", "freshness is None, age is None")
    refused(
        lambda: budget_for(TWO, freshness=0.5, age=1.0),
        "give either freshness or age",
        "freshness is 0.5, age is 1.0",
    )
    refused(
        lambda: budget_for(TWO, freshness=1.0), "freshness must be finite and >= 0 and < 1; freshness is 1.0"
    )
    refused(lambda: budget_for(TWO, age=0.0), "age must be finite and > 0; age is 0.0")
    refused(lambda: budget_for(TWO, age=1.0, policy=Partitioning()), "policy must be one of", "Partitioning")


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0, "abc", [[1.0, 2.0]], [1.0, None], [1.0, np.nan]])
def test_budgets_of_a_curve(value):
    refused(lambda: plan(TWO, 1.0).curve(value), "budget")


def test_executors_that_are_none():
    refused(lambda: plan_shards([{"rates": TWO}], 1.0, executor=3), "executor must be", "3")


def test_elements_that_no_mapping_names():
    refused(lambda: summary_of(TWO, foo=1.0), "foo")
    refused(lambda: summary_of(TWO, groups=[0, 1]), "groups")


def test_weights_without_a_sum_are_refused():
    refused(lambda: plan([1, 1], 2, weights=[1e308, 1e308]), "weights must have a finite sum", "divide")
    refused(lambda: plan([1, 1], 2, weights=[0, 0]), "weights must not all be 0")
