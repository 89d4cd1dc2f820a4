"""Uncertain rates in the planner: the quick way against the sure one, groups, shards, mixtures of laws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from unstale import (
    Empirical,
    Poisson,
    UncertainPoisson,
    budget_for,
    currency,
    interval,
    kernels,
    plan,
    plan_shards,
    uncertain_kernels,
    worth,
)
from unstale.objectives import objective_named
from unstale.planning import allocation, demand, fast_path, market, summary_of
from unstale.planning.compiled import uncertain as compiled_uncertain
from unstale.planning.elements import Goal
from unstale.planning.problem import Problem
from unstale.planning.uncertain_lookup import uncertain_lookup
from unstale.processes import Observed

N = 9_000
OBJECTIVES = ["freshness", "age", "harmonic", "missed-updates"]


def instance(seed=1, n=N):
    rng = np.random.default_rng(seed)
    shape, rate, weights, sizes = 10.0 ** rng.uniform(
        [[-0.7], [-2], [-1], [-1]], [[2.5], [2], [1], [1]], (4, n)
    )
    return UncertainPoisson(shape, rate / shape), {"weights": weights, "sizes": sizes}


def surely(monkeypatch, *args, **kwargs):
    """Plan by solving for each element."""
    with monkeypatch.context() as patch:
        for module in (allocation, market):
            patch.setattr(module, "EXACTLY_SOLVED_ELEMENTS", 10 * N)
        return plan(*args, **kwargs)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("options", ["plain", "lean", "rich", "bounds", "groups", "idle"])
def test_the_quick_way_agrees_with_solving_one_by_one(objective, options, monkeypatch):
    law, given_too = instance()
    budget = {"lean": 0.01, "rich": 100.0}.get(options, 1.0) * float(np.sum(given_too["sizes"]))
    given_too |= {
        "bounds": {"min_frequency": 0.01 * law.rate, "max_frequency": 2.0 * law.rate},
        "groups": {"groups": np.arange(N) % 50, "limits": np.linspace(0.001, 0.05, 50) * budget},
        "idle": {"weights": np.where(np.arange(N) % 3, given_too["weights"], 0.0)},
    }.get(options, {})
    fast = plan(law, budget, objective=objective, **given_too)
    sure = surely(monkeypatch, law, budget, objective=objective, **given_too)
    assert fast.price == pytest.approx(sure.price, rel=1e-7)
    assert_allclose(fast.frequencies, sure.frequencies, rtol=1e-4, atol=1e-6 * budget / N)
    assert fast.cost == pytest.approx(sure.cost, rel=1e-9)
    assert fast.spent == pytest.approx(budget, rel=1e-12)
    assert 0 <= fast.gap <= 1e-9 * (fast.cost + fast.price * budget / np.sum(given_too["weights"]))
    assert fast.cost - fast.gap <= sure.cost * (1 + 1e-12)


def test_long_intervals_have_the_worth_that_is_asked_for():
    """Shapes around 1, where worth grows like a logarithm or saturates slowly."""
    rng = np.random.default_rng(3)
    shape = np.concatenate(
        [np.full(100, 1.0), 1.0 + rng.choice([-1, 1], 4000) * 10.0 ** rng.uniform(-12, -0.4, 4000)]
    )
    long = 10.0 ** rng.uniform(0.7, 20, shape.size)
    level = uncertain_kernels.worth(kernels.FRESHNESS, kernels.FIXED, shape, long)
    v, bend, off = np.full(shape.size, -1.0), np.zeros(shape.size), np.zeros(shape.size)
    compiled_uncertain.lengthen_freshness(shape, level, v, bend, off)
    solved = v > 0
    assert solved.mean() > 0.8
    found = uncertain_kernels.worth(kernels.FRESHNESS, kernels.FIXED, shape, v)
    assert_allclose(found[solved], level[solved], rtol=1e-13)
    more = uncertain_kernels.worth(kernels.FRESHNESS, kernels.FIXED, shape, v * (1 + 1e-4))
    growing = solved & (np.abs(bend) < 100)
    assert_allclose((np.log(more / found) / 1e-4)[growing], -1.0 / bend[growing], rtol=1e-3)
    assert (off[solved] < 1e-11).all()


def test_shape_one_never_saturates_and_divides_by_nothing():
    with np.errstate(all="raise"):
        assert uncertain_kernels.worth(kernels.FRESHNESS, kernels.FIXED, 1.0, np.inf) == np.inf


def test_intervals_that_are_not_long_are_left_to_others():
    shape = np.array([0.5, 1.0, 2.0, 50.0])
    level = uncertain_kernels.worth(kernels.FRESHNESS, kernels.FIXED, shape, np.array([1e-9, 0.1, 1.0, 3.0]))
    v, bend, off = np.full(4, -1.0), np.zeros(4), np.zeros(4)
    compiled_uncertain.lengthen_freshness(shape, level, v, bend, off)
    assert (v == -1.0).all()


@pytest.mark.parametrize("kind", [kernels.FRESHNESS, kernels.AGE, kernels.HARMONIC])
def test_a_wrong_table_does_no_harm(kind, monkeypatch):
    """Where a step from the table is too long, the element is solved for; the residual sees what is left."""
    law, given_too = instance(2)
    name = {kernels.FRESHNESS: "freshness", kernels.AGE: "age", kernels.HARMONIC: "harmonic"}[kind]
    right = plan(law, float(N), objective=name, **given_too)
    table = uncertain_lookup(kind, kernels.FIXED)
    for wrong in (1 + 1e-5, 1 + 1e-2):
        monkeypatch.setattr(
            demand, "uncertain_lookup", lambda *_, by=wrong: table._replace(rows=table.rows * by)
        )
        found = plan(law, float(N), objective=name, **given_too)
        assert found.cost == pytest.approx(right.cost, rel=1e-9)
        assert found.gap <= 1e-8 * found.cost


def test_other_budgets():
    law, given_too = instance(3, 40_000)
    for objective in ("freshness", "age"):
        one = plan(law, 4e4, objective=objective, **given_too)
        for budget in (4e3, 4e5):
            other, told = plan(law, budget, objective=objective, **given_too), one.outlook(budget)
            assert told.price == pytest.approx(other.price, rel=2e-3)
            assert told.cost == pytest.approx(other.cost, rel=5e-5)
    few, options = instance(4, 3_000)
    one = plan(few, 3e3, **options)
    needed = budget_for(few, freshness=one.freshness, **options)
    assert needed == pytest.approx(3e3, rel=1e-9)
    assert one.outlook(3e3).freshness == pytest.approx(one.freshness, rel=1e-9)
    assert (np.diff(one.curve(np.geomspace(30, 3e5, 9)).freshness) > 0).all()


def test_shards_are_one_plan():
    law, options = instance(5, 12_000)
    pieces = [slice(start, start + 4_000) for start in range(0, 12_000, 4_000)]
    shards = [{"rates": law.take(piece), **{k: v[piece] for k, v in options.items()}} for piece in pieces]
    found, whole = plan_shards(shards, 1e4), plan(law, 1e4, **options)
    together = np.concatenate([found.frequencies(shard) for shard in shards])
    assert found.price == pytest.approx(whole.price, rel=1e-8)
    assert_allclose(np.sum(together * options["sizes"]), 1e4, rtol=1e-9)
    assert_allclose(together, whole.frequencies, rtol=1e-3, atol=1e-5)
    assert found.gap <= 1e-9
    total = sum(summary_of(**shard) for shard in shards)
    assert total.outlook(1e4).cost == pytest.approx(whole.cost, rel=1e-4)


def test_a_mixture_of_laws(monkeypatch):
    rng = np.random.default_rng(6)
    kinds = [
        Poisson,
        lambda rate: UncertainPoisson(2.0, rate / 2.0),
        lambda rate: Empirical(rng.lognormal(0, 1, 8) / rate),
    ]
    laws = [kinds[0 if i % 5 else 1 + (i // 5) % 2](rng.lognormal()) for i in range(N)]
    weights = rng.lognormal(size=N)
    for each in (0.3, 3.0):
        fast = plan(laws, each * N, weights=weights)
        sure = surely(monkeypatch, laws, each * N, weights=weights)
        assert fast.price == pytest.approx(sure.price, rel=1e-6)
        assert fast.cost == pytest.approx(sure.cost, rel=1e-9)
        assert fast.gap <= 1e-8 * fast.cost


@given(
    st.lists(st.lists(st.floats(0.01, 100.0), min_size=1, max_size=6), min_size=1, max_size=5),
    st.lists(st.floats(0.0, 300.0), min_size=5, max_size=5),
)
def test_many_observed_laws_are_each_of_them(gaps, times):
    laws = [Empirical(one) for one in gaps]
    joint, t = Observed.of(laws), np.array(times[: len(laws)])
    assert joint.shape_of == (len(laws),)
    for k in (0, 1, 2):
        each = [float(law.moment(k, at)) for law, at in zip(laws, t, strict=True)]
        assert_allclose(joint.moment(k, t), each, rtol=1e-12)
        assert_allclose(joint.moment(k, np.inf), [float(law.moment(k, np.inf)) for law in laws], rtol=1e-12)
    assert_allclose(
        joint.survival(t), [float(law.survival(at)) for law, at in zip(laws, t, strict=True)], rtol=1e-12
    )
    left = [float(law.residual_survival(at)) for law, at in zip(laws, t, strict=True)]
    assert_allclose(joint.residual_survival(t), left, rtol=1e-12)
    assert joint.element((0,)) == laws[0]
    assert joint.take(np.array([0])).rate.tolist() == [float(laws[0].rate)]


def test_observed_laws_plan_as_one_by_one():
    rng = np.random.default_rng(7)
    laws = [Empirical(rng.lognormal(0, 1, 9)) for _ in range(30)]
    found = plan(laws, 20.0)
    with np.errstate(divide="ignore"):
        worths = np.array(
            [float(worth("freshness", law, 1 / f)) for law, f in zip(laws, found.frequencies, strict=True)]
        )
    polled = found.frequencies > 0
    assert_allclose(worths[polled], found.price, rtol=1e-9)
    assert (worths[~polled] <= found.price * (1 + 1e-9)).all()
    assert found.spent == pytest.approx(20.0, rel=1e-12)


@given(st.floats(-8, 2), st.floats(-6, 3), st.floats(-9, 2))
def test_the_interval_of_currency_has_its_worth(delay, rate, beyond):
    tau, rate = 10.0**delay, 10.0**rate
    price = worth(currency(tau), rate, tau + 10.0**beyond)
    found = interval(currency(tau), rate, price)
    if price < worth(currency(tau), rate, np.inf) * (1 - 1e-12):
        assert_allclose(worth(currency(tau), rate, found), price, rtol=1e-12)
        assert found > tau


def test_the_fast_path_takes_what_entries_stand_for():
    """Cells of a summary stand for many elements: they ask for as much as these."""
    rate, shape = np.array([1.0, 2.0, 3.0]), np.array([0.5, 2.0, 30.0])
    goal = Goal(objective_named("freshness"), "fixed")
    one = Problem.of(UncertainPoisson(shape, rate / shape), goal=goal).market
    parts = (allocation.replace(one.parts[0], count=np.array([4.0, 1.0, 2.0])),)
    some = fast_path.fast_plan(allocation.replace(one, parts=parts), 5.0)
    repeated = np.repeat(np.arange(3), [4, 1, 2])
    all_of_them = plan(UncertainPoisson(shape[repeated], (rate / shape)[repeated]), 5.0)
    assert_allclose(some.frequencies[repeated], all_of_them.frequencies, rtol=1e-6)
    assert some.price == pytest.approx(all_of_them.price, rel=1e-9)


@pytest.mark.parametrize("order", [kernels.RANDOM, kernels.PURELY_RANDOM])
@pytest.mark.parametrize("kind", [kernels.FRESHNESS, kernels.AGE, kernels.HARMONIC])
def test_random_orders_are_looked_up_as_well_as_the_table_says(kind, order):
    """The error beside a piece proves plans; the slope only guides the search."""
    rng = np.random.default_rng(8)
    shape, t = 10.0 ** rng.uniform(-1.5, 6, 2_000), 10.0 ** rng.uniform(-4, 1, 2_000)
    level = uncertain_kernels.worth(kind, order, shape, t / shape)
    table = uncertain_lookup(kind, order)
    found = np.array(
        [compiled_uncertain.look_up_random(table, *one) for one in zip(shape, level, strict=True)]
    )
    known = (found[:, 0] > 0) & np.isfinite(found[:, 0])
    v, bend, error = found[known].T
    assert known.mean() > 0.8
    exact = uncertain_kernels.inverse_worth(kind, order, shape, level)[known]
    assert (np.abs(v / exact - 1.0) <= 2.0 * error + 1e-12).all()
    assert np.median(error) < 5e-6
    more = uncertain_kernels.inverse_worth(kind, order, shape, level * 1.0001)[known]
    sure = (error < 1e-5) & np.isfinite(more)
    assert_allclose(bend[sure], -np.log(more / exact)[sure] / np.log(1.0001), rtol=2e-3)


@pytest.mark.parametrize("order", ["random", "purely-random"])
@pytest.mark.parametrize("objective", ["freshness", "age", "harmonic"])
def test_the_gap_in_random_orders_is_no_smaller_than_what_is_missed(objective, order):
    """Against frequencies that are solved for, one element after the other, at the price of the plan."""
    law, given_too = instance(9)
    found = plan(law, float(N), objective=objective, order=order, **given_too)
    level = found.price * given_too["sizes"] / given_too["weights"]
    exact = 1.0 / interval(objective, law, level, order)
    assert_allclose(
        found.frequencies, exact, rtol=1e-3, atol=1e-3
    )  # near a cutoff, digits of the price count
    cost = found.problem.market.cost(exact)
    spent = float(np.sum(exact * given_too["sizes"]))
    best = cost + found.price * (spent - found.spent) / np.sum(given_too["weights"])
    assert found.cost - best <= found.gap + 1e-13 * found.cost
    assert found.gap <= 1e-9 * (found.cost + found.price * found.spent / np.sum(given_too["weights"]))


@pytest.mark.parametrize("objective", ["freshness", "age", "harmonic"])
@pytest.mark.parametrize("more", [0.01, 3.0, 1e4])
def test_polls_that_pay_for_changes_agree_with_solving_one_by_one(objective, more, monkeypatch):
    law, given_too = instance(10)
    given_too["change_sizes"] = more * np.random.default_rng(11).lognormal(size=N)
    budget = 0.3 * float(np.sum(given_too["sizes"] + given_too["change_sizes"]))
    fast = plan(law, budget, objective=objective, **given_too)
    sure = surely(monkeypatch, law, budget, objective=objective, **given_too)
    assert fast.price == pytest.approx(sure.price, rel=1e-7)
    assert fast.spent == pytest.approx(budget, rel=1e-12)
    assert abs(fast.cost - sure.cost) <= fast.gap + sure.gap + 1e-12 * sure.cost
    assert fast.gap <= 1e-9 * (fast.cost + fast.price * budget / np.sum(given_too["weights"]))
