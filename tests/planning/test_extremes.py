"""Plans at the ends: one element and a million, ties, many decades, bounds and limits that bind."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from unstale import InvalidInput, SourcePenalty, UpdatePenalty, currency, mean_cost, penalties, plan, worth
from unstale.planning import allocation, market

from .instances import EVERYTHING, ORDERS, Instance, assert_feasible, assert_optimal, decades, instances

COMPILED = ("freshness", "age", "harmonic")
OBJECTIVES = (*COMPILED, "missed-updates")
SOME = max(2, settings().max_examples // 4)
rng = np.random.default_rng


# --- few --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "objective",
    [*OBJECTIVES, currency(0.1), UpdatePenalty("log(1+x)"), UpdatePenalty(penalties.decay(2.0))],
    ids=lambda objective: objective if isinstance(objective, str) else objective.name,
)
def test_one_element_gets_everything(objective, order):
    found = plan([2.0], 3.0, sizes=1.5, weights=[4.0], objective=objective, order=order)
    assert found.frequencies == pytest.approx([2.0], rel=1e-15)
    assert found.spent == pytest.approx(3.0, rel=1e-15)
    assert found.price == pytest.approx(4.0 * worth(objective, 2.0, 0.5, order) / 1.5, rel=1e-9)
    assert found.cost == pytest.approx(mean_cost(objective, 2.0, 2.0, order), rel=1e-12)


def test_one_element_with_a_smooth_penalty():
    found = plan([2.0], 3.0, objective=SourcePenalty("log(1+x)"))
    assert found.frequencies == pytest.approx([3.0], rel=1e-15)


@given(
    decades(-12, 12), decades(-12, 12), decades(-12, 12), st.sampled_from(OBJECTIVES), st.sampled_from(ORDERS)
)
def test_one_element_of_any_size(rate, weight, budget, objective, order):
    found = plan([rate], budget * rate, weights=[weight], objective=objective, order=order)
    assert found.frequencies == pytest.approx([budget * rate], rel=1e-14)
    assert 0 <= found.gap <= 1e-9 * (found.cost + found.price * found.budget / weight)


@pytest.mark.every(4)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("objective", COMPILED)
@pytest.mark.parametrize("budget", [1e-6, 0.01, 10.0])
def test_a_million_equal_elements_get_the_same(objective, order, budget):
    n = 1_000_000
    found = plan(np.full(n, 2.0), budget * n, objective=objective, order=order)
    assert_allclose(found.frequencies, budget, rtol=1e-12)
    assert found.spent == pytest.approx(budget * n, rel=1e-12)
    assert found.price == pytest.approx(worth(objective, 2.0, 1.0 / budget, order), rel=1e-9)
    assert 0 <= found.gap <= 1e-9 * (found.cost + found.price * budget)


# --- ties -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 7, 100, 9000])
@pytest.mark.parametrize("share", [1e-9, 1e-3, 0.02, 0.3])
def test_a_budget_that_cuts_through_a_tie(count, share):
    """In fixed order a poll of the slow elements is worth 1 at first, and 1 still at an interval of 40.

    So no price asks for less than a fortieth, and the rest comes from a mix of two prices.
    """
    rates = np.tile([1.0, 2.0, 3.0], count)
    found = plan(rates, share * count)
    assert_allclose(found.frequencies[::3], share, rtol=1e-9)
    assert not found.frequencies[1::3].any()
    assert found.spent == pytest.approx(share * count, rel=1e-12)
    assert found.price == pytest.approx(worth("freshness", 1.0, 1.0 / share), rel=1e-9)
    assert 0 <= found.gap <= 1e-9


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_equal_elements_get_the_same(objective, order):
    choice = rng(1).integers(0, 4, 500)
    rates, weights = np.array([0.1, 1.0, 5.0, 100.0])[choice], np.array([1.0, 2.0, 1.0, 300.0])[choice]
    for budget in (1e-5, 0.1, 10.0, 1e5):
        found = plan(rates, budget, weights=weights, objective=objective, order=order)
        for k in range(4):
            same = found.frequencies[choice == k]
            assert np.ptp(same) <= 1e-14 * same.max()
        assert found.spent == pytest.approx(budget, rel=1e-12)


@settings(max_examples=SOME)
@given(instances(OBJECTIVES, ("ties", "weights", "sizes", "groups"), most=12, budgets=(-8.0, -2.0)))
def test_ties_in_groups_at_small_budgets(instance):
    found = instance.plan()
    assert_feasible(instance, found)
    assert_optimal(instance, found)


# --- many decades -----------------------------------------------------------------------------------


@settings(max_examples=SOME)
@given(instances(OBJECTIVES, ("weights",), span=6.0, budgets=(-12.0, 12.0), most=12))
def test_budgets_over_24_decades_and_rates_and_weights_over_12(instance):
    found = instance.plan()
    assert_feasible(instance, found)
    assert_optimal(instance, found)
    assert found.gap >= 0


@pytest.mark.every(5)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("objective", COMPILED)
@pytest.mark.parametrize("n", [50, 9000])
def test_the_price_falls_as_the_budget_grows(objective, order, n):
    rates, weights = 10.0 ** rng(2).uniform(-6, 6, (2, n))
    before = np.inf, np.inf
    for budget in rates.sum() * 10.0 ** np.arange(-12.0, 13.0, 3.0):
        instance = Instance(rates, budget, objective, order, {"weights": weights})
        found = instance.plan()
        assert_feasible(instance, found)
        assert_optimal(instance, found, equal=1e-4)  # for many elements frequencies are scaled at the end
        assert 0 <= found.gap <= 1e-8 * (found.cost + found.price * budget / weights.sum())
        assert (found.price, found.cost) < before
        before = found.price, found.cost


# --- elements that no poll helps ----------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 3000])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_idle_elements_get_nothing_while_others_ask(objective, n):
    rates, weights = np.tile([0.0, 1.0, 2.0, 0.0], n), np.tile([1.0, 0.0, 1.0, 0.0], n)
    found = plan(rates, 3.0 * n, weights=weights, objective=objective)
    assert_allclose(found.frequencies, np.tile([0.0, 0.0, 3.0, 0.0], n), rtol=1e-12)
    assert found.spent == pytest.approx(3.0 * n)
    assert found.cost == pytest.approx(0.5 * mean_cost(objective, 2.0, 3.0))
    assert found.gap <= 1e-9 * found.cost


@pytest.mark.parametrize("n", [3, 9000])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_nothing_changes(objective, n):
    found = plan(np.zeros(n), 3.0, objective=objective)
    assert_allclose(found.frequencies, 3.0 / n, rtol=1e-12)
    assert (found.cost, found.gap, found.price) == (0, 0, 0)
    assert found.freshness == 1


def test_what_bounds_leave_over_goes_to_idle_elements():
    found = plan([1.0, 2.0, 0.0, 0.0], 10.0, max_frequency=[1.0, 2.0, 3.0, np.inf])
    assert found.frequencies == pytest.approx([1.0, 2.0, 3.0, 4.0])
    assert (found.price, found.gap) == (0, 0)
    limited = plan([1.0, 2.0, 0.0, 0.0], 10.0, max_frequency=1.0, groups=[0, 0, 0, 1], limits=[2.5, 0.25])
    assert limited.frequencies == pytest.approx([1.0, 1.0, 0.5, 0.25])
    assert limited.spent == pytest.approx(2.75)


def test_what_can_not_be_spent_is_not():
    found = plan([1.0, 2.0], 10.0, max_frequency=[1.0, 2.0])
    assert found.frequencies.tolist() == [1.0, 2.0]
    assert (found.spent, found.budget, found.price, found.gap) == (3.0, 10.0, 0.0, 0.0)


def test_polls_beyond_the_threshold_of_currency_help_nobody():
    found = plan([1.0, 2.0], 5.0, objective=currency(1.0))
    assert found.spent == pytest.approx(5.0)
    assert (found.frequencies >= 1.0).all()
    assert (found.cost, found.price, found.gap) == (0, 0, 0)


# --- bounds and limits at their ends --------------------------------------------------------------------


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_budget_that_the_lower_bounds_take_up(objective):
    low = np.array([0.25, 0.5, 0.25])
    found = plan([1.0, 2.0, 3.0], 1.0, min_frequency=low, objective=objective)
    assert found.frequencies.tolist() == low.tolist()
    assert found.price == pytest.approx(worth(objective, [1.0, 2.0, 3.0], 1.0 / low).max())
    assert found.gap == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(
        InvalidInput, match=r"budget must be at least 1, which min_frequency needs; budget is 0\.9"
    ):
        plan([1.0, 2.0, 3.0], 0.9, min_frequency=low, objective=objective)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_no_budget(objective):
    found = plan([0.5, 4.0], 0.0, objective=objective, weights=[1.0, 10.0])
    assert found.frequencies.tolist() == [0.0, 0.0]
    assert found.price == pytest.approx(2.5 if objective == "freshness" else np.inf)
    assert found.gap == 0


def test_equal_bounds_leave_no_choice():
    found = plan([1.0, 2.0], 3.0, min_frequency=[1.0, 0.0], max_frequency=[1.0, 9.0])
    assert found.frequencies == pytest.approx([1.0, 2.0])


@pytest.mark.parametrize("n", [4, 400, 40_000])
@pytest.mark.parametrize("objective", ["freshness", "age"])
def test_a_group_that_may_spend_nothing(n, objective):
    rates, groups = np.linspace(1.0, 3.0, n), np.arange(n) % 2
    found = plan(rates, 1.0 * n, objective=objective, groups=groups, limits=[0.0, np.inf])
    alone = plan(rates[1::2], 1.0 * n, objective=objective)
    assert not found.frequencies[::2].any()
    assert_allclose(found.frequencies[1::2], alone.frequencies, rtol=1e-4)
    assert found.price == pytest.approx(alone.price, rel=1e-6)


@pytest.mark.parametrize("n", [4, 400, 40_000])
def test_groups_without_limits_change_nothing(n):
    rates = np.linspace(1.0, 3.0, n)
    free = plan(rates, 0.5 * n)
    letters = np.array(["a", "b"])[np.arange(n) % 2]
    for groups, limits in (
        (np.arange(n) % 3, np.full(3, np.inf)),
        (np.arange(n) % 3, np.full(3, float(n))),
        (letters, {"a": np.inf}),
    ):
        found = plan(rates, 0.5 * n, groups=groups, limits=limits)
        assert found.spent == pytest.approx(free.spent)
        assert found.cost == pytest.approx(free.cost, rel=1e-9)
        assert found.price == pytest.approx(free.price, rel=1e-4)
        # at the cutoff frequencies fall steeply, and a tenth more or less costs next to nothing
        assert_allclose(found.frequencies, free.frequencies, rtol=1e-4, atol=0.15)


@pytest.mark.parametrize("n", [4, 400, 40_000])
def test_limits_that_add_up_to_less_than_the_budget(n):
    rates, groups = np.linspace(1.0, 3.0, n), np.arange(n) % 2
    found = plan(rates, 10.0 * n, groups=groups, limits=[0.2 * n, 0.3 * n])
    assert np.bincount(groups, found.frequencies) == pytest.approx([0.2 * n, 0.3 * n], rel=1e-12)
    assert found.spent == pytest.approx(0.5 * n)
    assert found.price == 0
    assert 0 <= found.gap <= 1e-9


def test_lower_bounds_beyond_a_limit():
    message = (
        r"min_frequency needs 2 in group 'a', whose limit is 1\.5; raise the limit or lower min_frequency"
    )
    with pytest.raises(InvalidInput, match=message):
        plan([1.0, 1.0, 1.0], 9.0, min_frequency=1.0, groups=["a", "a", "b"], limits={"a": 1.5})
    met = plan([1.0, 1.0, 1.0], 9.0, min_frequency=1.0, groups=["a", "a", "b"], limits={"a": 2.0})
    assert met.frequencies == pytest.approx([1.0, 1.0, 7.0])


# --- many elements take another way -------------------------------------------------------------------


@pytest.mark.every(2)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("objective", COMPILED)
def test_ten_thousand_copies_of_a_small_plan(objective, order):
    """400,000 elements go through compiled passes, in several blocks; 40 are solved one by one."""
    copies = 10_000
    rates, weights, sizes = 10.0 ** rng(3).uniform(-2, 2, (3, 40))
    for budget in (0.01, 30.0, 1e4):
        small = plan(rates, budget, weights=weights, sizes=sizes, objective=objective, order=order)
        large = plan(
            np.tile(rates, copies),
            budget * copies,
            weights=np.tile(weights, copies),
            sizes=np.tile(sizes, copies),
            objective=objective,
            order=order,
        )
        each = np.tile(small.frequencies, copies)
        assert_allclose(large.frequencies, each, rtol=1e-5, atol=1e-9)
        assert large.price == pytest.approx(small.price, rel=1e-6)
        assert large.cost == pytest.approx(small.cost, rel=1e-9)
        assert large.spent == pytest.approx(budget * copies, rel=1e-12)
        assert 0 <= large.gap <= 1e-8 * large.cost


@pytest.mark.every(4)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("objective", COMPILED)
@pytest.mark.parametrize("options", ["plain", "bounds", "groups", "idle", "changes"])
def test_tables_agree_with_solving_one_by_one(objective, order, options, monkeypatch):
    n = 9000
    rates, weights, sizes = 10.0 ** rng(4).uniform(-2, 2, (3, n))
    budget = 0.2 * float(np.sum(rates * sizes))
    given_too = {
        "plain": {},
        "bounds": {"min_frequency": 0.01 * rates, "max_frequency": 2.0 * rates},
        "groups": {"groups": np.arange(n) % 50, "limits": np.linspace(0.0, 0.05, 50) * budget},
        "idle": {"weights": np.where(np.arange(n) % 3, weights, 0.0)},
        "changes": {"change_sizes": 1.0},
    }[options]
    arguments = {"weights": weights, "sizes": sizes, "objective": objective, "order": order, **given_too}
    quick = plan(rates, budget, **arguments)
    for module in (allocation, market):
        monkeypatch.setattr(module, "EXACTLY_SOLVED_ELEMENTS", 10 * n)
    exact = plan(rates, budget, **arguments)
    assert_allclose(quick.frequencies, exact.frequencies, rtol=1e-4, atol=1e-9 * budget)
    assert quick.price == pytest.approx(exact.price, rel=1e-6)
    assert quick.cost == pytest.approx(exact.cost, rel=1e-9)
    assert quick.spent == pytest.approx(budget, rel=1e-12)
    assert quick.cost - quick.gap <= exact.cost * (1.0 + 1e-12)
    assert 0 <= exact.gap <= 1e-9 * (exact.cost + exact.price * budget / weights.sum())
    assert 0 <= quick.gap <= 1e-8 * (quick.cost + quick.price * budget / weights.sum())


@settings(max_examples=max(2, SOME // 2))
@given(instances(COMPILED, EVERYTHING, most=5, budgets=(-2.0, 1.0)))
def test_copies_of_any_plan(instance):
    """Every option, for enough elements to leave the exact way."""
    copies = 8192 // instance.rates.size + 1
    options = {
        name: np.repeat(value, copies) if np.ndim(value) else value
        for name, value in instance.options.items()
    }
    if "limits" in options:
        limits = instance.options["limits"]
        scaled = {k: v * copies for k, v in limits.items()} if isinstance(limits, dict) else limits * copies
        options["limits"] = scaled
    many = Instance(
        np.repeat(instance.rates, copies),
        instance.budget * copies,
        instance.objective,
        instance.order,
        options,
    )
    small, large = instance.plan(), many.plan()
    assert large.spent == pytest.approx(small.spent * copies, rel=1e-9)
    assert large.cost == pytest.approx(small.cost, rel=1e-8)
    allowed = instance.options.get("limits", {})
    most = sum(allowed.values() if isinstance(allowed, dict) else allowed)
    if most != pytest.approx(instance.budget, rel=1e-9):  # else any price up to those of the groups is right
        assert large.price == pytest.approx(small.price, rel=1e-6)
    assert_feasible(many, large)
