"""Spending a budget: the price at which the polls add up to it, and the allocation that follows.

An element is polled when its worth reaches the price, so its frequency is one over the interval at which a
poll is worth the price. The polls that all elements ask for fall as the price rises; the price of the plan is
where they meet the budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from . import kernels
from .arguments import Floats, Order, choice, numbers, order_code, scalar
from .errors import InvalidInput
from .objectives import Objective, objective_named
from .poisson import age, freshness
from .polling import interval

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["POLICIES", "Plan", "plan"]

Policy = Literal["optimal", "uniform", "proportional"]
POLICIES = ("uniform", "proportional", "optimal")


@dataclass(frozen=True, eq=False)
class Plan:
    """An allocation, with what it costs and what it buys."""

    frequencies: Floats
    price: float
    """Worth of one more poll per unit time; nan for a policy that knows no price."""
    spent: float
    freshness: float
    """Weighted mean freshness."""
    age: float
    """Weighted mean age."""


def plan(
    rates: ArrayLike,
    budget: float,
    *,
    weights: ArrayLike | None = None,
    objective: str | Objective = "freshness",
    policy: Policy = "optimal",
    order: Order = "fixed",
) -> Plan:
    """Divide a budget of polls per unit time among elements with these change rates.

    The price is bisected to the last bit, in some sixty passes over the elements.

    >>> plan([1, 2, 3, 4, 5], 5).frequencies.round(2).tolist()    # Cho & Garcia-Molina, Table 5
    [1.15, 1.36, 1.35, 1.14, 0.0]
    """
    rate = numbers("rates", rates, at_least=0, nonempty=True)
    if rate.ndim != 1:
        msg = f"rates must be one-dimensional; it has shape {rate.shape}"
        raise InvalidInput(msg)
    total = scalar("budget", budget, at_least=0)
    weight = np.ones(rate.shape) if weights is None else numbers("weights", weights, at_least=0)
    if weight.shape not in {(), rate.shape}:
        shapes = f"weights has shape {weight.shape}, rates {rate.shape}"
        msg = f"weights must be one number or as many as rates; {shapes}"
        raise InvalidInput(msg)
    weight = np.broadcast_to(weight, rate.shape)
    if not weight.any():
        msg = "weights must not all be 0"
        raise InvalidInput(msg)
    goal = objective_named(objective)
    choice("policy", policy, POLICIES)
    price = np.nan
    if policy == "uniform":
        frequencies = np.full(rate.shape, total / rate.size)
    elif policy == "proportional":
        if not rate.sum() > 0:
            msg = "rates must not all be 0 for the proportional policy; use policy='uniform'"
            raise InvalidInput(msg)
        frequencies = total * (rate / rate.sum())
    else:
        frequencies, price = _optimal(rate, weight, total, goal, order)
    share = weight / weight.max()
    share = share / share.sum()
    with np.errstate(invalid="ignore"):  # weight 0 times an infinite age
        ages = np.where(share > 0, share * age(rate, frequencies, order), 0.0)
    return Plan(
        frequencies=frequencies,
        price=price,
        spent=float(frequencies.sum()),
        freshness=float(np.sum(share * freshness(rate, frequencies, order))),
        age=float(np.sum(ages)),
    )


def _optimal(
    rate: Floats, weight: Floats, budget: float, goal: Objective, order: Order
) -> tuple[Floats, float]:
    """Bisect on the bits of the price; a mix of the last two plans meets the budget exactly."""
    wanted = (rate > 0) & (weight > 0)
    if budget == 0 or not wanted.any():
        # nothing to spend, or nothing that a poll would help: polling all alike is as good as any plan
        return np.full(rate.shape, budget / rate.size), 0.0

    rates, weights = rate[wanted], weight[wanted]
    # divided before the price comes in, so that equal elements stay equal to the last bit
    unit = rates / weights * rates if goal.kernel == kernels.AGE else rates / weights

    def frequencies(price: float) -> Floats:
        out = np.zeros(rate.shape)
        with np.errstate(divide="ignore", over="ignore"):
            if goal.kernel is None:
                out[wanted] = 1.0 / interval(goal, rates, price / weights, order)
            else:
                out[wanted] = rates / kernels.inverse_worth(goal.kernel, order_code(order), price * unit)
        return out

    low, high = _bits(np.finfo(float).tiny), _bits(np.finfo(float).max)
    while high - low > 1:
        middle = (low + high) // 2
        if frequencies(_price(middle)).sum() >= budget:
            low = middle
        else:
            high = middle
    more, less = frequencies(_price(low)), frequencies(_price(high))
    spare = more.sum() - less.sum()
    mix = (budget - less.sum()) / spare if spare > 0 else 1.0
    chosen = mix * more + (1.0 - mix) * less
    return chosen * (budget / chosen.sum()), _price(low)


def _bits(price: float) -> int:
    return int(np.float64(price).view(np.int64))


def _price(bits: int) -> float:
    return float(np.int64(bits).view(np.float64))
