"""What other budgets would buy, for the elements of a mirror and what is known of them."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ..arguments import Floats, choice, scalar, whole
from ..errors import InvalidInput
from .demand import Demand, demand_of
from .policy import MirrorPolicy

__all__ = ["Market", "Prospect", "market"]

_SPAN = 16.0
"""How many times the present budget the largest of the curve is, and how many times less the smallest."""


@dataclass(frozen=True, eq=False)
class Prospect:
    """What budgets buy: by the optimal plan, and by two others."""

    budgets: Floats
    """Per second."""
    optimal: Floats
    """Freshness, or age in seconds, whichever is the objective; as the following."""
    uniform: Floats
    proportional: Floats
    present: float
    """The budget of today, per second."""
    present_value: float
    """What it buys."""
    objective: str
    unit: Literal["polls", "bytes"]
    """What the budgets count. If there is a budget of bytes too, it grows with that of polls."""
    byte_budget: float | None = None
    """That of today, if there is one beside a budget of polls."""

    def split(self, budget: float) -> tuple[float | None, float | None]:
        """Return what to set for this budget: polls and bytes per second, for `Mirror.set_budget`."""
        if self.unit == "bytes":
            return None, budget
        return budget, None if self.byte_budget is None else self.byte_budget * budget / self.present


@dataclass(frozen=True, eq=False)
class Market:
    """What elements ask for: it tells what budgets buy, without another look at the elements."""

    demand: Demand
    present: float
    unit: Literal["polls", "bytes"]
    byte_budget: float | None

    def prospect(self, budgets: ArrayLike | None = None, points: int = 41) -> Prospect:
        """Return what other budgets would buy: those given, or some around that of today."""
        if budgets is None:
            wanted = self.present * np.geomspace(1.0 / _SPAN, _SPAN, whole("points", points, at_least=2))
        else:
            wanted = np.atleast_1d(np.asarray(budgets, float))
            if not (wanted.ndim == 1 and wanted.size and np.isfinite(wanted).all() and (wanted > 0).all()):
                raise InvalidInput(f"budgets must be finite numbers above 0; they are {budgets!r}")
        demand = self.demand
        rates = demand.rate / self.present * wanted
        uniform = demand.plain(rates, np.ones(demand.shape.size))
        proportional = demand.plain(rates, demand.shape * demand.scale)
        better = np.minimum if demand.age else np.maximum  # the curve is good to four digits
        optimal = better(demand.curve(rates), better(uniform, proportional))
        return Prospect(
            budgets=wanted,
            optimal=demand.worthy(optimal),
            uniform=demand.worthy(uniform),
            proportional=demand.worthy(proportional),
            present=self.present,
            present_value=float(demand.worthy(demand.best(demand.rate))),
            objective="age" if demand.age else "freshness",
            unit=self.unit,
            byte_budget=self.byte_budget,
        )

    def budget_for(self, freshness: float) -> float:
        """Return the smallest budget, per second, that buys this freshness; inf if none does."""
        demand, target = self.demand, scalar("freshness", freshness, at_least=0, below=1)
        if target >= demand.hope:
            return inf
        return demand.needed(target / demand.hope) / demand.rate * self.present


def market(policy: MirrorPolicy, now: float, objective: str) -> Market:
    """Return what elements ask for, for freshness or for age."""
    age = choice("objective", objective, ("freshness", "age")) == "age"
    demand = demand_of(policy, np.flatnonzero(policy.table.wanted), now, age=age)
    if demand is None or not demand.hope > 0:
        raise InvalidInput("there is nothing to plan yet: add elements first, with weights above 0")
    polls, traffic = policy.limits.budget, policy.limits.byte_budget
    present = traffic if polls is None else polls
    assert present is not None  # noqa: S101  (checked when the mirror was opened)
    return Market(demand, present, "bytes" if polls is None else "polls", None if polls is None else traffic)
