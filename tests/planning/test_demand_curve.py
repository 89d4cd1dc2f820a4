"""Curves of demand: parts of a budget add up, follow the plan for all elements, and never run away."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstale import plan
from unstale.errors import InvalidInput
from unstale.planning import DemandCurve, share_budget, summary_of

ROUNDING = 1e-9


@st.composite
def curves(draw):
    n = draw(st.integers(2, 8))
    prices = np.sort(draw(st.lists(st.floats(1e-6, 1e6), min_size=n, max_size=n, unique=True)))[::-1]
    spent = np.sort(draw(st.lists(st.floats(0.0, 1e6), min_size=n, max_size=n)))
    return DemandCurve(prices, spent)


@given(st.lists(curves(), min_size=1, max_size=5), st.floats(0.0, 1e7))
def test_parts_add_up_to_the_budget(given_curves, budget):
    price, parts = share_budget(given_curves, budget)
    assert price > 0
    assert (parts >= 0).all()
    assert parts.sum() == pytest.approx(budget, rel=ROUNDING, abs=1e-300)


@given(st.lists(curves(), min_size=1, max_size=5), st.floats(1e-3, 1e6), st.floats(1.0, 10.0))
def test_more_budget_never_takes_from_a_set(given_curves, budget, factor):
    low, less = share_budget(given_curves, factor * budget)
    high, few = share_budget(given_curves, budget)
    assert low <= high * (1.0 + ROUNDING)
    assert (less >= few * (1.0 - 1e-6) - 1e-9 * budget).all()


@given(curves(), st.floats(1e-6, 1e6), st.floats(1e-3, 1e6))
def test_a_curve_goes_through_what_was_seen_within_a_factor_of_eight(curve, price, spent):
    before = float(curve.at(price))
    after = float(curve.through(price, spent).at(price))
    if before > 1e-6:
        expected = np.clip(spent, before / 8.0, before * 8.0)
        assert after == pytest.approx(expected, rel=ROUNDING)
    elif before == 0.0:
        assert after == 0.0


@given(curves(), st.floats(1e-3, 1e6))
def test_the_price_of_a_budget_spends_it(curve, budget):
    if curve.spent[0] < budget < curve.spent[-1] and curve.spent[0] > 1e-3:
        assert float(curve.at(curve.price(budget))) == pytest.approx(budget, rel=1e-6)


@pytest.mark.parametrize("objective", ["freshness", "age"])
@pytest.mark.parametrize("polls", [0.1, 1.0, 10.0])
def test_parts_are_those_of_the_plan_for_all(objective, polls):
    """Curves are made around prices of which some are far off."""
    rng = np.random.default_rng(4)
    paces, scales = 10.0 ** rng.uniform(-2, 2, 8), 10.0 ** rng.uniform(-1, 1, 8)
    rates = [pace * rng.gamma(0.6, 1.0, 150) + 1e-6 for pace in paces]
    weights = [scale * (rng.pareto(2.0, 150) + 0.01) for scale in scales]
    budget = polls * 8 * 150
    best = plan(np.concatenate(rates), budget, weights=np.concatenate(weights), objective=objective)
    given_curves = [
        DemandCurve.of(summary_of(r, weights=w, objective=objective), best.price * 10.0 ** rng.uniform(-2, 2))
        for r, w in zip(rates, weights, strict=True)
    ]
    price, parts = share_budget(given_curves, budget)
    assert price == pytest.approx(best.price, rel=0.04)
    spent = best.frequencies.reshape(8, 150).sum(axis=1)
    assert np.abs(parts - spent).max() < 0.03 * budget
    own = [
        plan(r, part, weights=w, objective=objective)
        for r, w, part in zip(rates, weights, parts, strict=True)
    ]
    cost = np.average([one.cost for one in own], weights=[w.sum() for w in weights])
    assert cost == pytest.approx(best.cost, rel=1e-3)


def test_nobody_asks_for_anything():
    idle = DemandCurve([2.0, 1.0], [0.0, 0.0])
    assert share_budget([idle, idle], 10.0)[1].tolist() == [5.0, 5.0]
    assert share_budget([idle, DemandCurve([2.0, 1.0], [1.0, 2.0])], 10.0)[1].tolist() == [0.0, 10.0]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: DemandCurve([1.0, 2.0], [1.0, 2.0]), "prices must fall"),
        (lambda: DemandCurve([2.0, 1.0], [2.0, 1.0]), "spent must never fall"),
        (lambda: DemandCurve([2.0, 0.0], [1.0, 2.0]), "prices must be finite and > 0"),
        (lambda: DemandCurve([2.0], [1.0]), "at least 2"),
        (lambda: share_budget([], 1.0), "must not be empty"),
        (lambda: share_budget([DemandCurve([2.0, 1.0], [1.0, 2.0])], -1.0), "budget must be"),
    ],
)
def test_refusals(make, text):
    with pytest.raises(InvalidInput, match=text):
        make()
