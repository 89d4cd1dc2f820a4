"""What other budgets would buy: laws of the curve, and the library's plans of the same elements."""

from math import inf

import numpy as np
import pytest
from example_counts import percent
from hypothesis import given, settings
from hypothesis import strategies as st

from unstale import InvalidInput
from unstale.mirror.demand import Demand
from unstale.mirror.prospect import Prospect
from unstale.mirror.settings import GroupLimit
from unstale.planning import budget_for, plan
from unstale.processes import UncertainPoisson

from .worlds import DAY, add, make, run


def instance(seed, n, groups, *, age):
    """Return elements, and the same as the library takes them."""
    rng = np.random.default_rng(seed)
    shape, rate = 10 ** rng.uniform(-0.5, 2, n), 10 ** rng.uniform(-6, -3, n)
    weight, cost = rng.uniform(0.1, 5.0, n), rng.uniform(0.5, 2.0, n)
    group = rng.integers(0, groups + 1, n) if groups else np.zeros(n, np.int64)
    limits = np.concatenate([[inf], rng.uniform(0.1, 2.0, groups) * n / DAY / max(groups, 1)])
    demand = Demand(age, shape, rate / shape, weight, cost, group.astype(np.int64), limits, n / DAY, 1.0)
    options = {"weights": weight, "sizes": cost, "objective": "age" if age else "freshness"}
    options |= {"groups": group, "limits": limits} if groups else {}
    return demand, UncertainPoisson(shape, rate / shape), options


@pytest.mark.parametrize("age", [False, True])
@pytest.mark.parametrize("groups", [0, 4])
def test_it_is_what_the_library_says(age, groups):
    demand, law, options = instance(1, 80, groups, age=age)
    name = options["objective"]
    rates = demand.rate * np.array([0.2, 1.0, 5.0])
    curve = demand.curve(rates)
    for k, rate in enumerate(rates.tolist()):
        best = getattr(plan(law, rate, **options), name)
        assert demand.best(rate) == pytest.approx(best, rel=1e-6)
        assert curve[k] == pytest.approx(best, rel=1e-3)
        for policy, share in (("uniform", np.ones(80)), ("proportional", demand.shape * demand.scale)):
            other = getattr(plan(law, rate, policy=policy, **options), name)
            assert demand.plain(np.array([rate]), share)[0] == pytest.approx(other, rel=1e-9)


def test_the_budget_for_a_target_is_what_the_library_says():
    demand, law, options = instance(2, 60, 0, age=False)
    for freshness in (0.2, 0.8, 0.99):
        assert demand.needed(freshness) == pytest.approx(
            budget_for(law, freshness=freshness, **options), rel=1e-6
        )
    demand, *_ = instance(3, 60, 1, age=False)
    assert demand.needed(0.9) == inf or demand.best(demand.needed(0.9)) == pytest.approx(0.9, abs=1e-6)


@settings(max_examples=percent(25))
@given(st.integers(0, 10_000), st.integers(1, 60), st.integers(0, 3), st.booleans())
def test_more_budget_is_never_worse_and_nothing_beats_the_optimum(seed, n, groups, age):
    demand, *_ = instance(seed, n, groups, age=age)
    rates = demand.rate * np.geomspace(0.05, 20.0, 15)
    sign = -1.0 if age else 1.0
    best = sign * np.array([demand.best(rate) for rate in rates.tolist()])
    slack = 1e-6 * np.abs(best)
    assert (np.diff(best) >= -slack[1:]).all()
    assert (np.diff(sign * demand.curve(rates)) >= -slack[1:]).all()
    for share in (np.ones(n), demand.shape * demand.scale):
        assert (sign * demand.plain(rates, share) <= best + slack).all()


@pytest.fixture
def mirror(tmp_path):
    rng = np.random.default_rng(4)
    periods = {f"python:{'ab'[i % 2]}/{i}": 10 ** rng.uniform(3.5, 6) for i in range(40)}
    content = {key: (lambda now, p=p: str(int(now // p)).encode()) for key, p in periods.items()}
    limits = (GroupLimit("group:a", spacing=600.0), GroupLimit("*", concurrency=1000))
    made, _ = make(tmp_path, budget=300 / DAY, content=content, groups=limits, tick=1800.0)
    with made:
        add(made, *(key.removeprefix("python:") for key in periods))
        run(made, 3 * DAY)
        yield made


def test_the_present_point_is_what_the_status_predicts(mirror):
    found = mirror.prospect()
    assert found.present == 300 / DAY
    assert found.present_value == mirror.status().predicted
    assert (found.objective, found.unit, found.budgets.size) == ("freshness", "polls", 41)
    assert found.budgets[20] == pytest.approx(found.present)
    assert found.optimal[20] == pytest.approx(found.present_value, abs=1e-4)
    assert (np.diff(found.optimal) >= -1e-9).all()
    assert (found.optimal >= np.maximum(found.uniform, found.proportional) - 1e-9).all()
    assert found.split(0.5) == (0.5, None)
    age = mirror.prospect(objective="age", budgets=[0.001, 0.01, 0.1])
    assert age.objective == "age"
    assert (np.diff(age.optimal) < 0).all()
    assert (age.optimal <= np.minimum(age.uniform, age.proportional) * (1.0 + 1e-9)).all()


def test_the_budget_for_a_freshness_buys_it(mirror):
    for freshness in (0.3, 0.6):
        budget = mirror.budget_for(freshness)
        assert mirror.prospect(budgets=[budget]).optimal[0] == pytest.approx(freshness, abs=1e-3)
        mirror.set_budget(budget)
        assert mirror.status().predicted == pytest.approx(freshness, abs=1e-6)
    assert mirror.budget_for(0.9999) == inf  # a group may not be polled that often


def test_budgets_of_bytes(tmp_path):
    mirror, _ = make(tmp_path, budget=None, byte_budget=1.0)
    with mirror:
        add(mirror, *(f"a/{i}" for i in range(10)))
        run(mirror, DAY)
        found = mirror.prospect()
        assert (found.unit, found.present, found.byte_budget) == ("bytes", 1.0, None)
        assert found.present_value == mirror.status().predicted
        assert found.split(3.0) == (None, 3.0)
    both = Prospect(*[np.empty(0)] * 4, 2.0, 0.5, "freshness", "polls", 10.0)
    assert both.split(4.0) == (4.0, 20.0)


def test_what_cannot_be_is_refused(tmp_path):
    mirror, _ = make(tmp_path)
    with mirror:
        with pytest.raises(InvalidInput, match="nothing to plan"):
            mirror.prospect()
        add(mirror, "a")
        for wrong in ({"budgets": [0.0]}, {"budgets": [np.nan]}, {"objective": "joy"}, {"points": 1}):
            with pytest.raises(InvalidInput, match=next(iter(wrong))):
                mirror.prospect(**wrong)
        for freshness in (-0.1, 1.0, np.nan):
            with pytest.raises(InvalidInput, match="freshness"):
                mirror.budget_for(freshness)
        assert mirror.prospect().optimal.size == 41  # of elements that were never polled
