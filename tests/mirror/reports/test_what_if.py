"""What other budgets would buy: laws of the curve, and the library's plans of the same elements."""

from math import inf

import numpy as np
import pytest

from mirror.engine.worlds import DAY, add, make, run
from unstale import InvalidInput
from unstale.mirror.reports.what_if import WhatIf
from unstale.mirror.settings import GroupLimit
from unstale.planning import budget_for, plan


@pytest.fixture(scope="module")
def mirror(tmp_path_factory):
    rng = np.random.default_rng(4)
    periods = {f"python:{'ab'[i % 2]}/{i}": 10 ** rng.uniform(3.5, 6) for i in range(40)}
    content = {key: (lambda now, p=p: str(int(now // p)).encode()) for key, p in periods.items()}
    limits = (GroupLimit("group:a", spacing=600.0), GroupLimit("*", concurrency=1000))
    made, _ = make(
        tmp_path_factory.mktemp("mirror"), budget=300 / DAY, content=content, groups=limits, tick=1800.0
    )
    with made:
        add(made, *(key.removeprefix("python:") for key in periods))
        run(made, 3 * DAY)
        yield made


@pytest.mark.parametrize("objective", ["freshness", "age"])
def test_it_is_what_the_library_says(mirror, objective):
    demand = mirror.demand(objective)
    elements, given = demand.elements, demand.elements.options
    assert given["limits"].size > 1  # a group that may not be polled as often as it would be
    budgets = demand.present * np.array([0.2, 1.0, 5.0])
    found = demand.what_if(budgets)
    share = elements.hope if objective == "freshness" else 1.0
    for k, budget in enumerate(budgets.tolist()):
        rate = budget / demand.present * elements.rate
        for policy in ("optimal", "uniform", "proportional"):
            told = plan(elements.law, rate, policy=policy, objective=objective, **given)
            assert getattr(found, policy)[k] == pytest.approx(getattr(told, objective) * share, rel=1e-9)
    needed = budget_for(elements.law, freshness=0.4 / elements.hope, **given)
    assert demand.budget_for(0.4) == pytest.approx(needed / elements.rate * demand.present, rel=1e-9)


def test_the_present_point_is_what_the_status_predicts(mirror):
    found = mirror.what_if()
    assert found.present == pytest.approx(300 / DAY)
    assert found.present_value == pytest.approx(mirror.status().predicted, rel=1e-9)
    assert (found.objective, found.unit, found.budgets.size) == ("freshness", "polls", 41)
    assert found.budgets[20] == pytest.approx(found.present)
    assert found.optimal[20] == pytest.approx(found.present_value, rel=1e-9)
    assert (np.diff(found.optimal) >= -1e-9).all()
    assert (found.optimal >= np.maximum(found.uniform, found.proportional) - 1e-9).all()
    assert found.split(0.5) == (0.5, None)
    age = mirror.what_if(objective="age", budgets=[0.001, 0.01, 0.1])
    assert age.objective == "age"
    assert (np.diff(age.optimal) < 0).all()
    assert (age.optimal <= np.minimum(age.uniform, age.proportional) * (1 + 1e-9)).all()


def test_the_budget_for_a_freshness_buys_it(mirror):
    for freshness in (0.3, 0.6):
        budget = mirror.budget_for(freshness)
        assert mirror.what_if(budgets=[budget]).optimal[0] == pytest.approx(freshness, abs=1e-9)
        mirror.set_budget(budget)
        assert mirror.status().predicted == pytest.approx(freshness, abs=1e-6)
    assert mirror.budget_for(0.9999) == inf  # a group may not be polled that often
    mirror.set_budget(300 / DAY)


def test_budgets_of_bytes(tmp_path):
    mirror, _ = make(tmp_path, budget=None, byte_budget=1.0)
    with mirror:
        add(mirror, *(f"a/{i}" for i in range(10)))
        run(mirror, DAY)
        found = mirror.what_if()
        assert (found.unit, found.present, found.byte_budget) == ("bytes", 1.0, None)
        assert found.present_value == pytest.approx(mirror.status().predicted, rel=1e-9)
        assert found.split(3.0) == (None, 3.0)
    both = WhatIf(*[np.empty(0)] * 4, 2.0, 0.5, "freshness", "polls", 10.0)
    assert both.split(4.0) == (4.0, 20.0)


def test_what_cannot_be_is_refused(tmp_path):
    mirror, _ = make(tmp_path)
    with mirror:
        with pytest.raises(InvalidInput, match="nothing to plan"):
            mirror.what_if()
        add(mirror, "a")
        for wrong in ({"budgets": [0.0]}, {"budgets": [np.nan]}, {"objective": "joy"}, {"points": 1}):
            with pytest.raises(InvalidInput, match=next(iter(wrong))):
                mirror.what_if(**wrong)
        for freshness in (-0.1, 1.0, np.nan):
            with pytest.raises(InvalidInput, match="freshness"):
                mirror.budget_for(freshness)
        assert mirror.what_if().optimal.size == 41  # of elements that were never polled
