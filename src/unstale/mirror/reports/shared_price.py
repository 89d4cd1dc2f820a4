"""What budgets buy where elements have several objectives, or promises, under one price.

At a price each element is polled when a poll of it, by its own objective, is worth it; what all of them spend
falls as the price rises. So a curve of demand says what each budget buys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats, Order
from unstale.objectives import Objective
from unstale.planning import DemandCurve
from unstale.policy.terms import Aim
from unstale.polling import interval, mean_cost
from unstale.processes import UncertainPoisson

_PRICES = 61
"""Prices of the curve of demand."""
_DECADES = 4.0
"""How far it reaches to both sides, in powers of ten."""


@dataclass(frozen=True, eq=False)
class ElementsWithAim:
    """Elements that have one aim."""

    aim: Aim
    which: NDArray[np.intp]
    most: float = np.inf
    """The highest price at which they are polled: what is promised of them asks for it."""


@dataclass(frozen=True, eq=False)
class SharedPrice:
    """Elements with their aims; columns have an entry for each."""

    law: UncertainPoisson
    weights: Floats
    sizes: Floats
    groups: NDArray[np.int64]
    limits: Floats
    """What groups may spend."""
    parts: Sequence[ElementsWithAim]
    order: Order = "fixed"
    """How polls are spread over time."""

    def frequencies(self, price: float) -> Floats:
        """Return how often elements are polled at a price."""
        found = np.zeros(self.weights.size)
        for part in self.parts:
            own = part.which
            at = min(price, part.most) * self.sizes[own] / (self.weights[own] * part.aim.factor)
            with np.errstate(divide="ignore"):
                found[own] = 1.0 / interval(part.aim.objective, self.law.take(own), at, self.order)
        spent = np.bincount(self.groups, self.sizes * found, self.limits.size)
        with np.errstate(divide="ignore", invalid="ignore"):
            part_left = np.where(spent > self.limits, self.limits / spent, 1.0)
        return found * part_left[self.groups]

    @cached_property
    def demand(self) -> DemandCurve:
        """What is spent at prices."""
        middle = self._middle
        prices = np.geomspace(middle * 10.0**_DECADES, middle * 10.0**-_DECADES, _PRICES)
        spent = [float(self.frequencies(price) @ self.sizes) for price in prices]
        return DemandCurve(prices, np.maximum.accumulate(spent))

    @cached_property
    def _middle(self) -> float:
        """A price that is asked for, more or less: of polls in the mean time between changes."""
        found = []
        for part in self.parts:
            law, unit = self.law.take(part.which), part.aim.factor / self.sizes[part.which]
            t = 1.0 / np.maximum(np.asarray(law.rate), 1e-300)
            found.append(np.median(self.weights[part.which] * unit * part.aim.objective.worth(law, t)))
        return float(np.clip(np.nanmedian(found), 1e-200, 1e200))

    def at_budget(self, budget: float) -> tuple[float, Floats]:
        """Return the price at which a budget is spent, and how often elements are polled then."""
        price = self.demand.price(budget)
        return price, self.frequencies(price)

    def cost(self, objective: str | Objective, frequencies: Floats) -> float:
        """Return the weighted mean cost by an objective."""
        with np.errstate(all="ignore"):
            costs = mean_cost(objective, self.law, frequencies, self.order)
        return float(self.weights @ costs / self.weights.sum())
