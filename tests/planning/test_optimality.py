"""A plan is optimal: no other allocation within budget, bounds and limits costs less, and the gap says so."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unstale import SourcePenalty, UpdatePenalty, currency, mean_cost, penalties, plan, worth
from unstale.processes import Gamma, Lognormal, Pareto, Periodic, UncertainPoisson, Weibull

from .instances import (
    EQUAL,
    EVERYTHING,
    ORDERS,
    SPENT,
    Instance,
    assert_feasible,
    assert_optimal,
    decades,
    instances,
)

COMPILED = ("freshness", "age", "harmonic")
QUICK = ("missed-updates", UpdatePenalty(penalties.power(1.5)))
OTHERS = (
    currency(0.5),
    SourcePenalty("log(1+x)"),
    UpdatePenalty("log(1+x)"),
    UpdatePenalty("1/(1+x)"),
    UpdatePenalty(penalties.decay(1.0)),
)
CONSTRAINTS = {
    "none": (),
    "ties": ("ties",),
    "idle elements": ("idle", "weights"),
    "weights": ("weights",),
    "sizes": ("weights", "sizes"),
    "lower bounds": ("min_frequency", "weights"),
    "upper bounds": ("max_frequency", "sizes"),
    "both bounds": ("min_frequency", "max_frequency"),
    "groups": ("groups", "weights"),
    "groups and bounds": ("groups", "min_frequency", "max_frequency", "ties"),
    "costly changes": ("change_sizes", "weights"),
    "groups and costly changes": ("groups", "change_sizes", "sizes", "weights"),
    "everything": EVERYTHING,
}
SOME = max(2, settings().max_examples // 8)  # examples of a test that is run for many constraints
FEW = max(1, settings().max_examples // 50)  # examples of what takes quadrature
generators = st.integers(0, 2**32 - 1).map(np.random.default_rng)


def scale(instance, found):
    """What errors are relative to: what polled elements cost, and what their polls save."""
    f, weights = found.frequencies, instance.column("weights")
    polled = (f > 0) & instance.wanted
    costs = mean_cost(instance.objective, instance.rates, np.where(polled, f, 1.0), instance.order)
    saved = np.where(polled, instance.returns(f), 0.0) * instance.spending(f)
    return float(np.sum(np.where(polled, weights * costs + saved, 0.0)) / np.sum(weights))


def assert_good(instance):
    found = instance.plan()
    assert_feasible(instance, found)
    assert_optimal(instance, found)
    assert found.cost == pytest.approx(instance.cost(found.frequencies), rel=1e-12)
    assert 0.0 <= found.gap <= 1e-9 * scale(instance, found)
    return found


@pytest.mark.parametrize("constraints", CONSTRAINTS.values(), ids=CONSTRAINTS)
@settings(max_examples=3 * SOME)
@given(st.data())
def test_worth_equals_price_wherever_there_is_a_choice(constraints, data):
    assert_good(data.draw(instances(COMPILED + QUICK, constraints)))


@pytest.mark.parametrize("weight", [1.0, 10.0])
def test_groups_whose_intervals_are_searched_for_meet_their_limits_closely(weight):
    """A price of the group that rough passes find is good for 3e-9 only."""
    instance = Instance(np.array([1.0, 10.0, 1.0, 0.1]), 3.1832776601683794, "missed-updates", "random")
    instance.options = {
        "weights": np.array([1.0, 1.0, weight, 100.0]),
        "sizes": np.array([1.0, 31.6227766, 1.0, 1.0]),
        "change_sizes": 10.0,
        "max_frequency": 0.2957810382415441,
        "groups": np.array(["south", "north", "south", "south"]),
        "limits": {"south": 0.03183277660168379},
    }
    assert_good(instance)


@pytest.mark.parametrize("objective", OTHERS, ids=lambda objective: objective.name)
@settings(max_examples=2 * FEW)
@given(st.data())
def test_worth_equals_price_for_other_objectives(objective, data):
    falls = objective.name in {"update penalty 1/(1+x)", "update penalty exp(-1x)"}
    slow = isinstance(objective, SourcePenalty) and objective.penalty.threshold is None
    constraints = data.draw(st.sets(st.sampled_from(EVERYTHING)))
    if falls:  # such elements may find it too dear to be polled at any interval but a short one
        constraints -= {"change_sizes"}
    assert_good(
        data.draw(
            instances(
                (objective,),
                constraints,
                ("fixed",) if slow else ORDERS,
                most=3,
                span=0.5,
                budgets=(-1.0, 0.0),
            )
        )
    )


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("objective", COMPILED)
@pytest.mark.parametrize("span", [1.0, 6.0])
def test_many_elements_in_groups(objective, order, span):
    """Enough elements for the compiled search of the prices of groups."""
    rng = np.random.default_rng(7)
    n, count = 300, 12
    rates, weights = 10.0 ** rng.uniform(-span, span, (2, n))
    sizes = 10.0 ** rng.uniform(-1, 1, n)
    groups = rng.integers(0, count, n)
    budget = 0.3 * float(np.sum(rates * sizes))
    limits = budget * rng.choice([0.0, 1e-6, 0.01, 0.1, 1.0, np.inf], count)
    options = {"weights": weights, "sizes": sizes, "groups": groups, "limits": limits}
    for bounds in ({}, {"max_frequency": rates}, {"max_frequency": 10.0 * rates.max()}):
        assert_good(Instance(rates, budget, objective, order, {**options, **bounds}))


# --- the gap ------------------------------------------------------------------------------------


def rivals(instance, f, rng):
    """Feasible allocations: small steps away from one, its mixes with others, and some far from it."""
    n = f.size
    low = instance.column("min_frequency")
    each = instance.budget / (n * (instance.column("sizes") + instance.column("change_sizes")))
    for step in (1e-6, 1e-3, 0.1):
        yield instance.shrunk(f * np.exp(step * rng.normal(size=n)))
        i, j = rng.integers(0, n, 2)
        moved = f.copy()
        moved[i] += step * each[i]
        moved[j] = max(low[j], moved[j] - step * each[j])
        yield instance.shrunk(moved)
    for spread in (0.5, 3.0):
        far = instance.shrunk(low + each * np.exp(spread * rng.normal(size=n)))
        yield far
        yield instance.shrunk(0.9 * f + 0.1 * far)
    yield instance.shrunk(low + each)
    alone = low.copy()
    alone[rng.integers(0, n)] = instance.budget
    yield instance.shrunk(alone)


def assert_unbeaten(instance, found, rng):
    for rival in rivals(instance, found.frequencies, rng):
        # limits are met to rounding, which is worth much where polls are rare and age is large
        assert instance.cost(rival) >= found.cost * (1.0 - 1e-10) - found.gap


@settings(max_examples=4 * SOME)
@given(instances(COMPILED + QUICK, EVERYTHING), generators)
def test_no_allocation_beats_the_plan_by_more_than_its_gap(instance, rng):
    assert_unbeaten(instance, instance.plan(), rng)


@settings(max_examples=4 * SOME)
@given(instances(COMPILED, ("weights", "sizes", "ties")), st.floats(0.0, 1.0), generators)
def test_no_allocation_beats_other_policies_by_more_than_their_gap(instance, share, rng):
    for policy in ("uniform", "proportional", "square-root"):
        found = instance.plan(policy=policy)
        assert found.gap >= 0
        assert_unbeaten(instance, found, rng)
        best = instance.plan()
        mixed = share * found.frequencies + (1.0 - share) * best.frequencies
        assert instance.cost(mixed) >= found.cost * (1.0 - 1e-12) - found.gap


@pytest.mark.parametrize("objective", OTHERS, ids=lambda objective: objective.name)
@settings(max_examples=FEW)
@given(st.data())
def test_no_allocation_beats_a_plan_for_other_objectives(objective, data):
    instance = data.draw(
        instances((objective,), ("weights", "sizes"), ("fixed",), most=3, span=0.5, budgets=(-1.0, 0.0))
    )
    assert_unbeaten(instance, instance.plan(), data.draw(generators))


@given(decades(-3, 3), st.floats(0.05, 0.5), st.floats(1e-9, 0.02))
def test_the_gap_is_small_where_a_bound_meets_a_jump_of_demand(unit, most, spare):
    """In fixed order nobody asks for a few polls only: the last of the budget buys a mix of two prices."""
    instance = Instance(
        np.array([1.0, 5.0]) * unit, (most + spare) * unit, options={"max_frequency": most * unit}
    )
    found = assert_good(instance)
    assert found.frequencies == pytest.approx(np.array([most, spare]) * unit, rel=1e-6)


# --- the price ----------------------------------------------------------------------------------


@settings(max_examples=4 * SOME)
@given(
    instances(
        COMPILED + QUICK, ("weights", "sizes", "max_frequency", "change_sizes"), most=5, budgets=(-1.0, 1.0)
    )
)
def test_the_price_is_what_one_more_unit_of_budget_saves(instance):
    step = 1e-4
    total = np.sum(instance.column("weights"))
    found, less, more = (instance.plan(budget=instance.budget * k) for k in (1.0, 1.0 - step, 1.0 + step))
    if more.spent < more.budget * (1.0 - SPENT):  # all that ask for polls are at their bounds
        return
    # the cost is convex in the budget, so the price lies between the two slopes
    before, after = (
        total * abs(found.cost - other.cost) / (step * instance.budget) for other in (less, more)
    )
    rounding = 1e-11 * total * found.cost / (step * instance.budget)
    assert after - rounding <= found.price * (1.0 + EQUAL)
    assert found.price * (1.0 - EQUAL) <= before + rounding
    assert after == pytest.approx(before, rel=0.1, abs=2.0 * rounding + 1e-3 * found.price)  # it bends


# --- other laws ---------------------------------------------------------------------------------

LAWS = [
    Pareto(np.array([1.5, 2.5, 3.0, 8.0]), np.array([1.0, 2.0, 0.5, 3.0])),
    Weibull(np.array([0.5, 1.0, 2.0, 4.0]), np.array([1.0, 2.0, 0.5, 3.0])),
    Gamma(np.array([0.5, 1.0, 2.0, 8.0]), np.array([1.0, 2.0, 0.5, 0.3])),
    Lognormal(np.array([-1.0, 0.0, 0.5, 1.0]), np.array([0.3, 1.0, 1.5, 0.5])),
    UncertainPoisson(np.array([0.5, 1.0, 2.0, 8.0]), np.array([1.0, 2.0, 0.5, 0.3])),
    Periodic(np.array([0.5, 1.0, 2.0, 8.0])),
]
CASES = [("fixed", objective) for objective in (*COMPILED, "missed-updates", currency(0.3))]
CASES += [("random", "freshness"), ("purely-random", "age"), ("random", "missed-updates")]


@pytest.mark.every(5)
@pytest.mark.parametrize(
    ("order", "objective"), CASES, ids=lambda value: value if isinstance(value, str) else value.name
)
@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
def test_worth_equals_price_for_other_laws(law, order, objective):
    weights, sizes = np.array([1.0, 2.0, 0.5, 1.0]), np.array([1.0, 0.5, 2.0, 1.0])
    every = (
        (2.5, {"max_frequency": 1.5, "min_frequency": 0.1}),
        (0.7, {}),
        (1.0, {"groups": [0, 0, 1, 1], "limits": [0.3, 5.0]}),
    )
    for budget, options in every if order == "fixed" else every[:1]:
        found = plan(law, budget, weights=weights, sizes=sizes, objective=objective, order=order, **options)
        f = found.frequencies
        assert found.spent == pytest.approx(budget, rel=SPENT)
        assert found.spent == pytest.approx(np.sum(sizes * f), rel=1e-12)
        with np.errstate(divide="ignore"):
            worths = weights * worth(objective, law, 1.0 / f, order) / sizes
        free = np.array([False, False, True, True]) if "groups" in options else np.ones(4, bool)
        if "groups" in options:
            assert np.sum((sizes * f)[~free]) <= 0.3 * (1.0 + 1e-12)
        inside = free & (f > 0.1 * (1.0 + 1e-9)) & (f < 1.5) if "max_frequency" in options else free & (f > 0)
        assert worths[inside] == pytest.approx(np.full(inside.sum(), found.price), rel=EQUAL)
        unpolled = (f == 0) & free
        assert (worths[unpolled] <= found.price * (1.0 + EQUAL)).all()
        cost = np.sum(weights * mean_cost(objective, law, f, order)) / np.sum(weights)
        assert found.cost == pytest.approx(cost, rel=1e-12)
        assert 0 <= found.gap <= 1e-9 * (found.cost + found.price * budget)
