"""What other budgets would buy, for the elements of a mirror and what is known of them."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ..arguments import Floats, choice, scalar, whole
from ..errors import InvalidInput
from .agenda import Agenda
from .demand import Demand, demand_of
from .planner import load_agenda
from .settings import Settings
from .store import Transaction

__all__ = ["Prospect", "budget_for", "prospect"]

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


def prospect(
    settings: Settings,
    t: Transaction,
    now: float,
    *,
    objective: str | None = None,
    budgets: ArrayLike | None = None,
    points: int = 41,
) -> Prospect:
    """Return what other budgets would buy: those given, or some around that of today."""
    measure = choice("objective", objective or settings.objective, ("freshness", "age"))
    agenda, demand, present = _present(settings, t, now, age=measure == "age")
    if budgets is None:
        wanted = present * np.geomspace(1.0 / _SPAN, _SPAN, whole("points", points, at_least=2))
    else:
        wanted = np.atleast_1d(np.asarray(budgets, float))
        if not (wanted.ndim == 1 and wanted.size and np.isfinite(wanted).all() and (wanted > 0).all()):
            raise InvalidInput(f"budgets must be finite numbers above 0; they are {budgets!r}")
    rates = demand.rate / present * wanted
    uniform = demand.plain(rates, np.ones(demand.shape.size))
    proportional = demand.plain(rates, demand.shape * demand.scale)
    better = np.minimum if demand.age else np.maximum  # the curve is good to four digits
    optimal = better(demand.curve(rates), better(uniform, proportional))
    return Prospect(
        budgets=wanted,
        optimal=demand.worthy(optimal),
        uniform=demand.worthy(uniform),
        proportional=demand.worthy(proportional),
        present=present,
        present_value=float(demand.worthy(demand.best(demand.rate))),
        objective=measure,
        unit="bytes" if agenda.settings.budget is None else "polls",
        byte_budget=None if agenda.settings.budget is None else agenda.settings.byte_budget,
    )


def budget_for(settings: Settings, t: Transaction, now: float, freshness: float) -> float:
    """Return the smallest budget, per second, that buys this freshness; inf if none does."""
    target = scalar("freshness", freshness, at_least=0, below=1)
    _, demand, present = _present(settings, t, now)
    if target >= demand.hope:
        return inf
    return demand.needed(target / demand.hope) / demand.rate * present


def _present(
    settings: Settings, t: Transaction, now: float, *, age: bool = False
) -> tuple[Agenda, Demand, float]:
    """Return what is known, and the budget of today."""
    agenda, _ = load_agenda(settings, t)
    places = np.flatnonzero(agenda.rows.wanted)
    demand = demand_of(agenda, places, now, age=age)
    if demand is None or not demand.hope > 0:
        raise InvalidInput("there is nothing to plan yet: add elements first, with weights above 0")
    present = agenda.settings.budget if agenda.settings.budget is not None else agenda.settings.byte_budget
    assert present is not None  # noqa: S101  (checked when the mirror was opened)
    return agenda, demand, present
