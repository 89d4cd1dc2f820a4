"""The compiled passes: table against kernels, cells against elements, the fast path against the sure one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from unstale import UncertainPoisson, kernels, plan
from unstale.objectives import objective_named
from unstale.planning import allocation, fast_path
from unstale.planning.compiled import cells as compiled_cells
from unstale.planning.compiled.demand import RESIDUAL, SLOPE, SPENT
from unstale.planning.demand import ALONE, MANY_PLAIN_ELEMENTS, demand_of
from unstale.planning.elements import Goal
from unstale.planning.lookup import lookup
from unstale.planning.problem import Problem
from unstale.planning.summary import summarise

KINDS = [kernels.FRESHNESS, kernels.AGE, kernels.HARMONIC]
ORDERS = [kernels.FIXED, kernels.RANDOM, kernels.PURELY_RANDOM]


def points(kind):
    """Numbers over the whole table and beyond it, with the edges of pieces and of the table itself."""
    rng = np.random.default_rng(3)
    edges = np.concatenate([2.0 ** np.arange(-60, 60), (1 + np.arange(64) / 64) / 4])
    x = np.concatenate([np.exp(rng.uniform(-60, 60, 20_000)), edges, np.nextafter(edges, 0)])
    if kind == kernels.FRESHNESS:
        near = np.concatenate([np.exp(-rng.uniform(0, 37, 20_000)), 2.0 ** -np.arange(1.0, 54.0)])
        x = np.concatenate([x, 1.0 - near])
    return x[x > 0]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_table_has_the_frequencies_of_the_kernels(kind, order):
    x = points(kind)
    found, spent, residual = asked(x, kind, order)
    with np.errstate(divide="ignore"):
        exact = 1.0 / kernels.inverse_worth(kind, order, x)
    assert_allclose(found, exact, rtol=2e-12)
    assert_allclose(spent, np.sum(x * exact), rtol=1e-12)
    assert 0 <= residual <= 4e-12 * spent


@pytest.mark.parametrize(("unit", "spread"), [(1.0, 9), (1e-30, 9), (1e30, 9), (1.0, None)])
def test_many_elements_without_options_get_the_frequencies_of_the_kernels(unit, spread):
    """They are asked by polynomials: with all digits in a fine pass, to six in a rough one."""
    goal = Goal(objective_named("freshness"), "fixed")
    x = np.concatenate([[0.0], points(kernels.FRESHNESS)])
    x = np.tile(x, MANY_PLAIN_ELEMENTS // x.size + 1)
    rng = np.random.default_rng(4)
    weights = 3.0 if spread is None else np.exp(rng.uniform(-spread, spread, x.size))
    rates = unit * x * weights
    (part,) = Problem.of(rates, weights=weights, goal=goal).market.parts
    demand, fine, rough = demand_of(part, goal), np.zeros((1, 4)), np.zeros((1, 4))
    assert demand.plain
    found, price = np.empty(x.size), np.array([1.0 / unit])
    demand(price, ALONE, fine, found)
    with np.errstate(divide="ignore", invalid="ignore"):
        exact = np.where(rates > 0, rates / kernels.inverse_worth(0, 0, x), 0.0)
    sure = (x < 0.999) | (x > 1.001)  # close to 1, the rounding of x decides
    assert_allclose(found[sure], exact[sure], rtol=2e-12)
    assert_allclose(fine[0, SPENT], np.sum(found), rtol=1e-12)
    demand(price, ALONE, rough)
    assert_allclose(rough[0, SPENT], fine[0, SPENT], rtol=1e-6)
    assert set(np.flatnonzero(np.abs(x - 1.0) < 0.0199)) <= set(demand.near)
    assert set(demand.near) <= set(np.flatnonzero(np.abs(x - 1.0) < 0.0201))


def test_the_slope_of_many_elements_without_options():
    goal = Goal(objective_named("freshness"), "fixed")
    rates, weights = np.random.default_rng(5).lognormal(size=(2, MANY_PLAIN_ELEMENTS))
    rates *= np.where(np.abs(rates / weights - 1.0) < 0.05, 1.2, 1.0)  # no element is near its cutoff
    (part,) = Problem.of(rates, weights=weights, goal=goal).market.parts
    demand, sums = demand_of(part, goal), np.zeros((3, 1, 4))
    for price, own in zip((1.0, 0.999, 1.001), sums, strict=True):
        demand(np.array([price]), ALONE, own, None if price == 1.0 else np.empty(rates.size))
    low, high = sums[1:, 0, SPENT]
    assert_allclose(sums[0, 0, SLOPE], (high - low) / np.log(1.001 / 0.999), rtol=1e-4)


def asked(x, kind, order):
    """What elements of rate 1 and these sizes ask for at a price of 1, through the compiled pass."""
    name = {kernels.FRESHNESS: "freshness", kernels.AGE: "age", kernels.HARMONIC: "harmonic"}[kind]
    goal = Goal(objective_named(name), ("fixed", "random", "purely-random")[order])
    (part,) = Problem.of(np.ones(x.size), sizes=x, goal=goal).market.parts
    sums, found = np.zeros((1, 4)), np.empty(x.size)
    demand_of(part, goal)(np.ones(1), ALONE, sums, found)
    return found, sums[0, SPENT], sums[0, RESIDUAL]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_table_knows_its_error(kind, order):
    """The error proves plans: no worth is further from what was looked up, and it is not much too large."""
    x = points(kind)
    x = x[(x > 2.0**-40) & (x < (1 - 1e-15 if kind == kernels.FRESHNESS else 2.0**40))]
    found, _, _ = asked(x, kind, order)
    off = np.abs(kernels.worth(kind, order, 1.0 / found) / x - 1.0).max()
    error = lookup(kind, order).error
    assert off <= 1.05 * error + 1e-15
    assert error <= 4e-12


@given(st.integers(0, 2**32), st.sampled_from(["freshness", "age", "harmonic"]), st.floats(0.01, 3.0))
def test_cells_have_the_sums_of_their_elements(seed, objective, spread):
    rng = np.random.default_rng(seed)
    goal = Goal(objective_named(objective), "fixed")
    rate, weight, size = rng.lognormal(0, spread, (3, 20_000))
    (part,) = summarise(Problem.of(rate, weights=weight, sizes=size, goal=goal).market).cells.parts
    assert part.n < rate.size
    kernel = goal.objective.kernel
    for column, total in [
        (part.size * part.law.rate, np.sum(size * rate)),
        (part.weight, np.sum(weight)),
        (part.weight / part.law.rate, np.sum(weight / rate)),
        (
            part.size * part.law.rate * part.unit(kernel),
            np.sum(size * rate * (size * rate / weight) * (rate if objective == "age" else 1)),
        ),
    ]:
        assert_allclose(column.sum(), total, rtol=1e-9)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_cells_refuse_what_is_not_positive_and_finite(bad):
    good = np.ones(3_000)
    odd = good.copy()
    odd[1_500] = bad
    for columns in ((odd, good, good), (good, odd, good), (good, good, odd)):
        for column in columns:
            column.flags.writeable = False
        cells, span = np.zeros((compiled_cells.CELLS, 4)), np.array([np.iinfo(np.int64).max, 0])
        with np.errstate(all="ignore"):
            assert compiled_cells.gather(3_000, columns, kernels.FRESHNESS, cells, span) == 1


def with_the_sure_way(monkeypatch, *args, **kwargs):
    with monkeypatch.context() as patch:
        patch.setattr(allocation, "_fast", lambda *_: None)
        return plan(*args, **kwargs)


@pytest.mark.parametrize("order", ["fixed", "random", "purely-random"])
@pytest.mark.parametrize("objective", ["freshness", "age", "harmonic"])
@pytest.mark.parametrize("polls", [1e-3, 0.3, 30.0])
def test_the_fast_path_agrees_with_the_sure_one(objective, order, polls, monkeypatch):
    rng = np.random.default_rng(5)
    n = 20_000
    rates, weights, sizes = rng.lognormal(0, 1.5, (3, n))
    options = {"weights": weights, "sizes": sizes, "objective": objective, "order": order}
    fast = plan(rates, polls * n, **options)
    sure = with_the_sure_way(monkeypatch, rates, polls * n, **options)
    assert_allclose(fast.price, sure.price, rtol=1e-8)
    assert_allclose(fast.frequencies, sure.frequencies, rtol=1e-4, atol=1e-5 * polls)
    assert abs(fast.cost - sure.cost) <= fast.gap + sure.gap + 1e-13 * sure.cost


@pytest.mark.parametrize("objective", ["freshness", "age"])
@pytest.mark.parametrize("tight", [0.02, 1.0, 5.0])
def test_groups_agree_with_the_sure_way(objective, tight, monkeypatch):
    """From limits that hold all groups to limits that hold few; some hold a single element, which jumps."""
    rng = np.random.default_rng(6)
    n, count = 9_000, 1_350
    rates, weights = rng.lognormal(0, 1.5, (2, n))
    groups, limits = rng.integers(count, size=n), rng.lognormal(0, 1, count) * tight * n / count
    limits[::7] = np.inf
    budget = 0.8 * min(n, limits[np.isfinite(limits)].sum() * 2)
    options = {"weights": weights, "objective": objective, "groups": groups, "limits": limits}
    fast = plan(rates, budget, **options)
    sure = with_the_sure_way(monkeypatch, rates, budget, **options)
    for found in (fast, sure):
        spent = np.bincount(groups, found.frequencies, count)
        assert (spent <= limits * (1 + 1e-12)).all()
        assert_allclose(found.spent, budget, rtol=1e-9)
        assert found.gap <= 1e-9 * found.cost
    assert_allclose(fast.price, sure.price, rtol=1e-6)
    assert abs(fast.cost - sure.cost) <= fast.gap + sure.gap + 1e-12 * sure.cost


@pytest.mark.parametrize(
    "case", ["plain", "zeros", "alike", "empty groups", "one large group", "sizes", "far"]
)
@pytest.mark.parametrize("tight", [0.3, 1.1, 3.0])
def test_sorted_groups_agree_with_unsorted_ones(case, tight, monkeypatch):
    """Elements without options are sorted by group; whatever is among them, the plan is the same."""
    rng = np.random.default_rng(7)
    n, count = 12_000, 900
    rates, weights = rng.lognormal(0, 3.0 if case == "far" else 1.0, (2, n))
    groups, sizes = rng.integers(count, size=n), 1.0
    if case == "zeros":
        rates[::5], weights[::7] = 0.0, 0.0
    elif case == "alike":
        rates, weights = np.round(rates, 1), np.ones(n)
    elif case == "empty groups":
        groups //= 3
    elif case == "one large group":
        groups[groups == 17], groups[: n // 2 + int(tight)] = 16, 17  # of an even and of odd sizes
    elif case == "sizes":
        sizes = 3e-4
    limits = np.full(count, tight * n / count * sizes)
    limits[::11] = np.inf
    options = {"weights": weights, "sizes": sizes, "groups": groups, "limits": limits}
    budget = 0.8 * sizes * min(n, np.minimum(limits[np.unique(groups)], 1.5 * limits.min()).sum() / sizes)
    quick = plan(rates, budget, **options)
    with monkeypatch.context() as patch:
        patch.setattr(fast_path, "_sorted", lambda *_: None)
        other = plan(rates, budget, **options)
    for found in (quick, other):
        spent = np.bincount(groups, sizes * found.frequencies, count)
        assert (spent <= limits * (1 + 1e-12)).all()
        assert_allclose(spent.sum(), budget, rtol=1e-12)
        assert found.gap <= 1e-9 * found.cost
    assert_allclose(quick.price, other.price, rtol=1e-6)
    assert abs(quick.cost - other.cost) <= quick.gap + other.gap + 1e-12 * other.cost


@pytest.mark.parametrize("case", ["even limits", "uneven limits", "limits far apart", "near ties"])
@pytest.mark.parametrize("share", [0.2, 1.1, 1.53, 4.0])
def test_sorting_by_group_leads_to_a_plan(share, case):
    """Most elements of most plans are such: the quick way must not leave them to another one."""
    rng = np.random.default_rng(8)
    rates, weights = rng.lognormal(size=(2, 20_000))
    groups, limits = rng.integers(2_000, size=20_000), np.full(2_000, share * 10.0)
    if case == "limits far apart":  # some steps to the prices of groups would go to and fro
        groups, limits = (
            rng.integers(8_000, size=20_000),
            max(share, 1.0) * rng.lognormal(sigma=2.0, size=8_000),
        )
    elif case != "even limits":
        limits *= rng.lognormal(size=2_000)
    if case == "near ties":  # their cutoffs are nearly the same
        rates, weights, groups = (np.repeat(column[:10_000], 2) for column in (rates, weights, groups))
        rates *= 1.0 + rng.uniform(-3e-10, 3e-10, rates.size)
    market = Problem.of(
        rates, weights=weights, goal=Goal(objective_named("freshness"), "fixed"), groups=groups, limits=limits
    )
    asking = fast_path._Asking.of(market.market, groups, limits)
    for scaling in (fast_path.LARGEST_SCALING, fast_path.CHEAP_SCALING):
        budget = min(20_000.0, 0.6 * limits.sum())
        found = fast_path._sorted(asking, budget, scaling)
        assert found is not None
        assert found.missed <= 1e-9 * found.price * found.spent
        spent = np.bincount(groups, found.frequencies, limits.size)
        assert (found.frequencies >= 0.0).all()
        assert (spent <= limits * (1 + 1e-12)).all()
        assert_allclose(spent.sum(), budget, rtol=1e-12)


def test_labels_are_numbered_as_they_appear():
    keys = np.array([7, -3, 7, 9, -3])
    out = np.empty(5, np.int64)
    assert compiled_cells.label(keys, 3, out) == 3
    assert out.tolist() == [0, 1, 0, 2, 1]
    assert compiled_cells.label(keys, 2, out) == -1


@pytest.mark.parametrize("budget", [1e-6, 1.0, 298.9, 299.0, 299.5, 1e4])
def test_groups_when_limits_alone_could_spend_the_budget(budget):
    """299 groups with a limit of 1, and one without: the last takes what is left, if there is any."""
    rng = np.random.default_rng(0)
    rates, weights = rng.lognormal(size=(2, 9_000))
    groups, limits = rng.integers(300, size=9_000), np.array([np.inf] + 299 * [1.0])
    found = plan(rates, budget, weights=weights, groups=groups, limits=limits)
    assert (np.bincount(groups, found.frequencies, 300) <= limits * (1 + 1e-12)).all()
    assert_allclose(found.spent, budget, rtol=1e-9)
    assert found.gap <= 1e-9 * found.cost


@pytest.mark.parametrize("more", [1e-2, 2.0, 300.0])
@pytest.mark.parametrize(
    ("uncertain", "objective"),
    [(False, "freshness"), (True, "freshness"), (True, "age"), (True, "harmonic")],
)
def test_polls_that_pay_for_changes(uncertain, objective, more):
    """A fine pass has the frequencies, and foresees what scaling them costs; a rough one has the slope."""
    n, goal = 3_000, Goal(objective_named(objective), "fixed")
    rng = np.random.default_rng(11)
    rates, weights, sizes = 10.0 ** rng.uniform(-1.5, 1.5, (3, n))
    shape = 10.0 ** rng.uniform(-0.5, 1.5, n)
    law = UncertainPoisson(shape, rates / shape) if uncertain else rates
    (part,) = Problem.of(law, weights=weights, sizes=sizes, change_sizes=more * sizes, goal=goal).market.parts
    demand, price = demand_of(part, goal), np.array([0.05])
    sums, found = np.zeros((2, 1, 4)), np.empty(n)
    demand(price, ALONE, sums[0], found)
    assert demand.bowed
    exact = part.frequencies(goal, price[0], exact=True)
    sure = (exact > 0.02 * rates) | (exact == 0.0)  # close to a cutoff, the rounding of numbers decides
    assert_allclose(found[sure], exact[sure], rtol=1e-9)
    assert_allclose(sums[0, 0, SPENT], part.spending(goal, found).sum(), rtol=1e-13)
    scaled = part.spending(goal, found * (1.0 + 1e-4)).sum()
    spent, bow, free, _ = sums[0, 0]
    assert_allclose(scaled, spent + 1e-4 * free + 0.5e-8 * bow, rtol=3e-12)
    demand(price, ALONE, sums[1])
    assert_allclose(sums[1, 0, SPENT], spent, rtol=1e-6)
    low, high = (part.frequencies(goal, factor * price[0], exact=True) for factor in (0.99, 1.01))
    far = part.take(np.flatnonzero((high > 0.3 * rates) | (low == 0.0)))  # no slope sees a cutoff
    demand, sums = demand_of(far, goal), np.zeros((3, 1, 4))
    demand(price, ALONE, sums[0])
    for factor, own in zip((0.999, 1.001), sums[1:], strict=True):
        demand(factor * price, ALONE, own, np.empty(far.n))
    slope = (sums[2, 0, SPENT] - sums[1, 0, SPENT]) / np.log(1.001 / 0.999)
    assert_allclose(sums[0, 0, SLOPE], slope, rtol=5e-3)
