"""Demand curves: what a set of elements would spend at each of some prices, in a kilobyte.

Sets of elements that share a budget share nothing but its price. Each says by its curve what it would spend;
the price at which that adds up to the budget gives each set its part. Where a set has been polled for a
while, its curve is made to go `through` the price that was paid and what was spent: whatever a model of its
elements leaves out, such as hints, hours and delays, is made good, and the prices of all sets meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, log

import numpy as np
from numpy.typing import ArrayLike

from ..arguments import Floats, numbers, scalar
from ..errors import InvalidInput
from .summary import Summary

_OCTAVES = 16
"""How far a curve reaches from the price that it is made around, to both sides, in powers of two."""
_PRICES_PER_OCTAVE = 4
_TINY = 1e-300
_LARGEST_CORRECTION = 8.0
"""A curve is believed to be off by this factor at most: beyond, the price is one of another time."""


@dataclass(frozen=True, eq=False)
class DemandCurve:
    """What a set of elements spends at prices.

    Between two prices what is spent is a power of the price; beyond the first and the last it stays the same.

    Examples
    --------
    >>> curve = DemandCurve(prices=[4.0, 2.0, 1.0], spent=[0.0, 10.0, 40.0])
    >>> float(curve.at(1.0)), curve.price(20.0)
    (40.0, 1.4142)
    """

    prices: Floats
    """From the highest down."""
    spent: Floats
    """What is spent at each: never less at a lower price."""

    def __post_init__(self) -> None:
        """Check both columns."""
        prices, spent = numbers("prices", self.prices, above=0.0), numbers("spent", self.spent, at_least=0)
        if prices.ndim != 1 or prices.shape != spent.shape or prices.size < 2:
            raise InvalidInput(
                f"prices and spent must be two lists of equal length, of at least 2; they have shapes "
                f"{prices.shape} and {spent.shape}"
            )
        if not (np.diff(prices) < 0).all() or (np.diff(spent) < 0).any():
            raise InvalidInput("prices must fall from entry to entry, and spent must never fall")
        object.__setattr__(self, "prices", prices)
        object.__setattr__(self, "spent", spent)

    @classmethod
    def of(cls, summary: Summary, price: float, *, octaves: int = _OCTAVES) -> DemandCurve:
        """Return the curve of elements around a price, by what each price makes them ask for.

        It reaches so many powers of two to both sides.
        """
        middle = scalar("price", price, above=0)
        steps = np.arange(_PRICES_PER_OCTAVE * octaves, -_PRICES_PER_OCTAVE * octaves - 1, -1)
        prices = middle * 2.0 ** (steps / _PRICES_PER_OCTAVE)
        spent = [summary.cells.spent(summary.cells.frequencies(each)) for each in prices]
        return cls(prices, np.maximum.accumulate(spent))

    def at(self, price: ArrayLike) -> Floats:
        """Return what is spent at a price."""
        found = np.interp(
            np.log(price), np.log(self.prices[::-1]), np.log(np.maximum(self.spent[::-1], _TINY))
        )
        return np.where(found > log(_TINY), np.exp(found), 0.0)

    def price(self, budget: float) -> float:
        """Return the price at which a budget is spent; the lowest one if that spends less."""
        logs = np.log(np.maximum(self.spent, _TINY)), np.log(self.prices)
        return exp(float(np.interp(log(max(budget, _TINY)), *logs)))

    def through(self, price: float, spent: float) -> DemandCurve:
        """Return the curve, in proportion, of a set that has spent so much at a price."""
        expected = float(self.at(scalar("price", price, above=0)))
        if not (expected > 0 and scalar("spent", spent, at_least=0) > 0):
            return self
        factor = min(max(spent / expected, 1.0 / _LARGEST_CORRECTION), _LARGEST_CORRECTION)
        return replace(self, spent=factor * self.spent)


def share_budget(curves: Sequence[DemandCurve], budget: float) -> tuple[float, Floats]:
    """Return the price at which sets of elements spend a budget together, and the part of each.

    The parts add up to the budget. If no price is low enough to spend it, or high enough to save it, all sets
    have more, or less, in proportion.

    Parameters
    ----------
    curves
        What each set of elements spends at prices.
    budget
        What they spend together.

    Examples
    --------
    >>> slow = DemandCurve(prices=[4.0, 2.0, 1.0], spent=[0.0, 10.0, 40.0])
    >>> fast = DemandCurve(prices=[4.0, 2.0, 1.0], spent=[10.0, 20.0, 20.0])
    >>> price, parts = share_budget([slow, fast], 60.0)
    >>> price, parts.tolist()
    (1.0, [40.0, 20.0])
    """
    total = scalar("budget", budget, at_least=0)
    if not curves:
        raise InvalidInput("curves must not be empty; give the demand of at least one set of elements")
    prices = np.unique(np.concatenate([one.prices for one in curves]))[::-1]
    parts = np.stack([one.at(prices) for one in curves])
    all_spend = parts.sum(axis=0)
    if all_spend[0] < total < all_spend[-1]:
        low, high = prices[np.searchsorted(all_spend, total) - 1 :][:2][::-1]
        for _ in range(60):
            middle = float(np.sqrt(low * high))
            low, high = (middle, high) if sum(one.at(middle) for one in curves) > total else (low, middle)
        price = float(np.sqrt(low * high))
    else:
        price = float(prices[0] if total <= all_spend[0] else prices[-1])
    asked = np.array([float(one.at(price)) for one in curves])
    if not asked.any():
        return price, np.full(len(curves), total / len(curves))
    return price, asked * (total / asked.sum())
