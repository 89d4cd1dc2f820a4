"""Plans that must agree: in other units, in another order, at other budgets, and backwards; and policies."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from unstale import NoAnswer, Partitioning, budget_for, currency, plan
from unstale.planning import POLICIES
from unstale.processes import Pareto, UncertainPoisson, Weibull

from .instances import EVERYTHING, ORDERS, SPENT, Instance, assert_feasible, decades, instances

OBJECTIVES = ("freshness", "age", "harmonic", "missed-updates")
SOME = max(2, settings().max_examples // 3)
DIMENSION = {"freshness": 0, "age": 1, "harmonic": 0, "missed-updates": 0}  # of the cost, in units of time
rng = np.random.default_rng


def changed(instance, **changes):
    """The same instance with other columns."""
    parts = {"rates": instance.rates, "budget": instance.budget, **changes}
    options = {**instance.options, **parts.pop("options", {})}
    return Instance(parts["rates"], parts["budget"], instance.objective, instance.order, options)


def assert_same_price(instance, found, expected):
    """Prices agree, unless the budget is just what limits or bounds allow: then two are right."""
    most = np.sum(instance.spending(np.minimum(instance.column("max_frequency"), 1e300))[instance.wanted])
    limits = [most, *(limit for _, limit in instance.members)]
    if not np.any(np.isclose(limits, instance.budget, rtol=1e-9)):
        assert found == pytest.approx(expected, rel=1e-9)


# --- units and order --------------------------------------------------------------------------------


@settings(max_examples=SOME)
@given(instances(OBJECTIVES, EVERYTHING), st.sampled_from([2.0**-40, 60.0, 86400.0]))
def test_the_unit_of_time_does_not_matter(instance, unit):
    per_unit = {
        name: instance.options[name] * unit
        for name in ("min_frequency", "max_frequency")
        if name in instance.options
    }
    if "limits" in instance.options:
        limits = instance.options["limits"]
        per_unit["limits"] = (
            {k: v * unit for k, v in limits.items()} if isinstance(limits, dict) else limits * unit
        )
    other = changed(instance, rates=instance.rates * unit, budget=instance.budget * unit, options=per_unit)
    found, same = instance.plan(), other.plan()
    assert_allclose(
        same.frequencies, unit * found.frequencies, rtol=1e-7, atol=1e-12 * unit * instance.budget
    )
    scale = unit ** -DIMENSION[instance.objective]
    assert same.cost == pytest.approx(found.cost * scale, rel=1e-9)
    assert_same_price(instance, same.price * unit, found.price * scale)


@settings(max_examples=SOME)
@given(instances(OBJECTIVES, EVERYTHING), decades(-9, 9))
def test_only_the_ratios_of_weights_matter(instance, factor):
    other = changed(instance, options={"weights": instance.column("weights") * factor})
    found, same = instance.plan(), other.plan()
    assert_same_price(instance, same.price, found.price * factor)
    assert same.cost == pytest.approx(found.cost, rel=1e-9)
    assert_allclose(same.frequencies, found.frequencies, rtol=1e-7, atol=1e-12 * instance.budget)


@settings(max_examples=SOME)
@given(instances(OBJECTIVES, EVERYTHING), st.data())
def test_the_order_of_the_elements_does_not_matter(instance, data):
    turn = np.array(data.draw(st.permutations(range(instance.rates.size))))
    options = {
        name: np.asarray(value)[turn]
        for name, value in instance.options.items()
        if name != "limits" and np.ndim(value)
    }
    found, same = instance.plan(), changed(instance, rates=instance.rates[turn], options=options).plan()
    assert_allclose(same.frequencies, found.frequencies[turn], rtol=1e-7, atol=1e-12 * instance.budget)
    assert_same_price(instance, same.price, found.price)


@settings(max_examples=SOME)
@given(instances(OBJECTIVES, ("weights", "sizes", "change_sizes", "max_frequency", "groups")), st.data())
def test_an_element_can_be_split_in_halves(instance, data):
    """Two elements of half the weight and half the size are as good as one."""
    n = instance.rates.size
    i = data.draw(st.integers(0, n - 1))
    index = np.append(np.arange(n), i)
    half = np.ones(n + 1)
    half[[i, n]] = 0.5
    options = {name: instance.column(name)[index] * half for name in ("weights", "sizes", "change_sizes")} | {
        "max_frequency": instance.column("max_frequency")[index]
    }
    options["groups"] = np.asarray(instance.options["groups"])[index]
    found, split = instance.plan(), changed(instance, rates=instance.rates[index], options=options).plan()
    both = found.frequencies[index]
    assert split.cost == pytest.approx(found.cost, rel=1e-9)
    assert_same_price(instance, split.price, found.price)
    assert_allclose(split.frequencies, both, rtol=1e-7, atol=1e-12 * instance.budget)


@settings(max_examples=SOME)
@given(instances(OBJECTIVES, EVERYTHING))
def test_bounds_and_limits_do_not_make_it_cheaper(instance):
    free = {"min_frequency": 0.0, "max_frequency": np.inf}
    options = {name: value for name, value in instance.options.items() if name not in {"groups", "limits"}}
    loose = Instance(
        instance.rates, instance.budget, instance.objective, instance.order, {**options, **free}
    ).plan()
    bound = instance.plan()
    assert loose.cost - loose.gap <= bound.cost * (1.0 + 1e-12)


# --- policies ---------------------------------------------------------------------------------------


@settings(max_examples=SOME)
@given(instances(OBJECTIVES, ("weights", "sizes", "min_frequency", "max_frequency", "groups"), most=6))
def test_every_policy_spends_the_budget_and_none_beats_the_optimal_one(instance):
    best = instance.plan()
    for policy in POLICIES:
        found = instance.plan(policy=policy)
        assert_feasible(instance, found)
        assert best.cost - best.gap <= found.cost * (1.0 + 1e-12)
        assert found.gap >= 0


@pytest.mark.parametrize("n", [7, 9000])
def test_policies_share_out_as_they_say(n):
    rates, weights, sizes = 10.0 ** rng(5).uniform(-1, 1, (3, n))
    for policy, share in (
        ("uniform", np.ones(n)),
        ("proportional", rates),
        ("square-root", np.sqrt(rates * weights / sizes)),
    ):
        found = plan(rates, 3.0, weights=weights, sizes=sizes, policy=policy)
        assert_allclose(found.frequencies, 3.0 * share / np.sum(sizes * share), rtol=1e-12)
        assert np.isnan(found.price)
    random = plan(rates, 3.0 * n, weights=weights, sizes=sizes, policy="random-optimal")
    best = plan(rates, 3.0 * n, weights=weights, sizes=sizes, order="purely-random")
    assert_allclose(random.frequencies, best.frequencies, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("key", ["p", "rate", "p/rate", "pf", "pfs", "size"])
def test_partitions_spend_the_budget(key):
    rates, weights, sizes = 10.0 ** rng(6).uniform(-1, 1, (3, 500))
    best = plan(rates, 100.0, weights=weights, sizes=sizes)
    for partitions, iterations in ((1, 0), (20, 0), (20, 5), (500, 0)):
        policy = Partitioning(key=key, partitions=partitions, iterations=iterations)
        found = plan(rates, 100.0, weights=weights, sizes=sizes, policy=policy)
        assert found.spent == pytest.approx(100.0, rel=SPENT)
        rounding = 1e-14  # of a mean of 500 numbers below 1, computed in another way
        assert found.freshness <= best.freshness + best.gap + rounding
        assert found.gap >= best.freshness - found.freshness - rounding
        if partitions == 500:
            assert found.freshness == pytest.approx(best.freshness, rel=1e-12)


# --- other budgets ------------------------------------------------------------------------------------


def assert_foreseen(instance, policy="optimal", rel=1e-9):
    """What a plan says about another budget is what a plan with that budget says."""
    found = instance.plan(policy=policy)
    for factor in (0.1, 0.9, 1.0, 3.0):
        budget = max(factor * instance.budget, np.sum(instance.spending(instance.column("min_frequency"))))
        outlook, other = found.outlook(budget), instance.plan(budget=budget, policy=policy)
        assert outlook.budget == budget
        assert outlook.cost == pytest.approx(other.cost, rel=rel)
        assert outlook.freshness == pytest.approx(other.freshness, rel=rel, abs=1e-15)
        assert outlook.age == pytest.approx(other.age, rel=rel)
        if policy == "optimal" and budget > instance.budget * 0.95:
            assert outlook.price == pytest.approx(other.price, rel=rel)


@settings(max_examples=SOME)
@given(instances(OBJECTIVES, EVERYTHING, most=6))
def test_outlooks_agree_with_plans(instance):
    assert_foreseen(instance)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("order", ORDERS)
def test_outlooks_of_policies(policy, order):
    rates, weights = 10.0 ** rng(7).uniform(-1, 1, (2, 30))
    for options in ({}, {"max_frequency": 1.0, "min_frequency": 0.1}):
        assert_foreseen(Instance(rates, 8.0, "age", order, {"weights": weights, **options}), policy)


@pytest.mark.every(5)
@pytest.mark.parametrize("objective", ["freshness", "age"])
@pytest.mark.parametrize("order", ORDERS)
def test_outlooks_of_many_elements(objective, order):
    n = 50_000
    rates, weights, sizes = 10.0 ** rng(8).uniform(-3, 3, (3, n))
    columns = {"weights": weights, "sizes": sizes}
    budget = 0.5 * float(np.sum(rates * sizes))
    for options in (
        {},
        {"weights": np.where(np.arange(n) % 4, weights, 0.0)},
        {"groups": np.arange(n) % 5, "limits": budget * np.array([0.01, 0.1, 0.2, 1.0, np.inf])},
    ):
        assert_foreseen(Instance(rates, budget, objective, order, {**columns, **options}), rel=2e-4)


def test_curves():
    found = plan([1.0, 2.0, 3.0], 2.0)
    curve = found.curve([0.5, 2.0, 8.0])
    assert curve.budgets.tolist() == [0.5, 2.0, 8.0]
    assert (curve.prices[1], curve.costs[1]) == pytest.approx((found.price, found.cost))
    assert (curve.freshness[1], curve.age[1]) == pytest.approx((found.freshness, found.age))
    default = found.curve()
    assert default.budgets[[0, 16, -1]] == pytest.approx([0.002, 2.0, 2000.0])
    assert (
        np.diff(default.prices) <= 1e-12 * default.prices[:-1]
    ).all()  # the first few polls are worth the same
    assert (np.diff(default.costs) < 0).all()
    assert (np.diff(default.freshness) > 0).all()
    assert found.curve([]).budgets.size == 0
    bounded = plan([1.0, 2.0, 3.0], 2.0, min_frequency=0.1, max_frequency=2.0).curve()
    assert np.isfinite(bounded.freshness).all()
    assert bounded.budgets.min() >= 0.3 * (1.0 - 1e-12)


# --- backwards ----------------------------------------------------------------------------------------


@settings(max_examples=SOME)
@given(
    instances(
        ("freshness", "age"), ("weights", "sizes", "max_frequency", "min_frequency"), budgets=(-2.0, 2.0)
    ),
    st.sampled_from(POLICIES),
)
def test_the_budget_for_what_a_plan_buys_is_that_of_the_plan(instance, policy):
    found = instance.plan(policy=policy)
    reached = found.freshness if instance.objective == "freshness" else found.age
    assume(np.isfinite(reached) and found.spent >= instance.budget * (1.0 - SPENT))
    wanted = {instance.objective: reached}
    budget = budget_for(instance.rates, order=instance.order, policy=policy, **wanted, **instance.options)
    again = instance.plan(policy=policy, budget=budget * (1.0 + 1e-12))
    assert budget <= instance.budget * (1.0 + 1e-6)
    if instance.objective == "freshness":
        assert 1.0 - again.freshness == pytest.approx(1.0 - reached, rel=1e-9, abs=1e-12)
    else:
        assert again.age == pytest.approx(reached, rel=1e-9)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_budget_for_freshness_and_one_for_age(policy):
    rates = [1.0, 2.0, 3.0, 0.0]
    for order in ORDERS:
        fresh = budget_for(rates, freshness=0.9, order=order, policy=policy)
        assert plan(rates, fresh, order=order, policy=policy).freshness == pytest.approx(0.9, rel=1e-12)
        old = budget_for(rates, age=0.01, order=order, policy=policy)
        objective = "age" if policy == "optimal" else "freshness"
        assert plan(rates, old, order=order, policy=policy, objective=objective).age == pytest.approx(
            0.01, rel=1e-12
        )


def test_a_budget_for_other_laws_groups_and_objectives():
    for law in (Pareto([2.0, 3.0], 1.0), Weibull([0.7, 2.0], 1.0), UncertainPoisson([0.7, 2.0], 1.0)):
        assert plan(law, budget_for(law, freshness=0.7)).freshness == pytest.approx(0.7, rel=1e-12)
    rates = [1.0, 2.0, 3.0]
    limits = {"groups": ["a", "a", "b"], "limits": {"a": 2.0}}
    assert plan(rates, budget_for(rates, freshness=0.5, **limits), **limits).freshness == pytest.approx(0.5)
    by_age = budget_for(rates, freshness=0.8, objective="age")
    assert plan(rates, by_age, objective="age").freshness == pytest.approx(0.8)
    assert by_age > budget_for(rates, freshness=0.8)
    current = budget_for(rates, freshness=0.4, objective=currency(0.2))
    assert plan(rates, current, objective=currency(0.2)).freshness == pytest.approx(0.4)
    costly = budget_for(rates, freshness=0.8, change_sizes=2.0)
    assert plan(rates, costly, change_sizes=2.0).freshness == pytest.approx(0.8)


def test_what_needs_no_budget():
    assert budget_for([1.0, 2.0], freshness=0.0) == 0
    assert budget_for([0.0, 0.0], freshness=0.99) == 0
    assert budget_for([0.0, 1.0], freshness=0.5) == 0
    assert budget_for([1.0], freshness=0.1, min_frequency=2.0) == 2


def test_what_no_budget_buys():
    with pytest.raises(
        NoAnswer, match=r"no budget buys .*freshness above 0\.632121; relax the target, or max_frequency"
    ):
        budget_for([1.0], freshness=0.9, max_frequency=1.0)
    with pytest.raises(NoAnswer, match=r"no budget buys .*age below 0\.13"):
        budget_for([1.0], age=0.1, max_frequency=1.0)
    with pytest.raises(NoAnswer, match="no budget buys"):
        budget_for([1.0, 1.0], freshness=0.9, groups=[0, 1], limits=[1.0, np.inf])
    assert budget_for([1.0], freshness=1.0 - np.exp(-1.0), max_frequency=1.0) == pytest.approx(1.0)


@pytest.mark.parametrize("n", [100, 20_000])
def test_a_budget_for_many(n):
    rates, weights = 10.0 ** rng(9).uniform(-2, 2, (2, n))
    found = plan(rates, 0.3 * n, weights=weights)
    assert budget_for(rates, freshness=found.freshness, weights=weights) == pytest.approx(0.3 * n, rel=1e-6)
