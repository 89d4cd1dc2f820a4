"""What a command is asked to plan, with units for showing it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from unstale.quantities import Flow, TimeUnit, show_duration, show_flow, show_number
from unstale.tables import Elements, law_of

if TYPE_CHECKING:
    from unstale.arguments import Order
    from unstale.planning import Plan

__all__ = ["Problem", "Task"]


@dataclass(frozen=True)
class Task:
    """What is asked. Numbers are in the unit of time of the rates, but shown in that of the budget."""

    file: str
    """Name for messages."""
    count: int
    changes: float
    unit: TimeUnit
    budget: Flow
    """An amount of 0 if none is given."""
    order: Order
    objective: str | None
    """As given on the command line; None if not."""
    uncertain: int = 0
    """How many of the rates are known only as a law."""

    @property
    def goal(self) -> str:
        """The objective of a plan."""
        return self.objective or "freshness"

    @property
    def amount(self) -> float:
        """The budget."""
        return self.budget.per(self.unit)

    @property
    def budget_as_typed(self) -> str:
        """The budget as one types it."""
        amount = f"{self.budget.amount:.12g}{'B' if self.budget.kind == 'bytes' else ''}"
        return f"{amount}/{self.budget.unit.name}"

    def show(self, amount: float) -> str:
        """Return an amount of budget with its unit."""
        return show_flow(
            amount * (self.budget.unit.seconds / self.unit.seconds), self.budget.kind, self.budget.unit
        )

    def show_time(self, span: float) -> str:
        """Return a time with its unit."""
        return show_duration(span * self.unit.seconds)

    def __str__(self) -> str:
        """Return the line that says what is planned."""
        changes = (
            f"about {show_number(self.changes)} change{'s' if self.changes != 1 else ''}/{self.unit.name}"
        )
        budget = f", a budget of {self.budget}" if self.budget.amount else ""
        elements = f"{self.count:,} element{'s' if self.count != 1 else ''}"
        if self.uncertain:
            rates = "an uncertain rate" if self.uncertain == 1 else "uncertain rates"
            elements += (
                f" with {rates}" if self.uncertain == self.count else f" ({self.uncertain:,} with {rates})"
            )
        return f"{elements}, {changes}{budget}"

    def as_json(self) -> dict[str, Any]:
        """Return what the JSON of all commands starts with."""
        return {
            "file": self.file,
            "elements": self.count,
            "uncertain": self.uncertain,
            "time_unit": self.unit.name,
            "budget_unit": f"{self.budget.kind}/{self.unit.name}",
            "budget": self.amount,
            "objective": self.goal,
            "order": self.order,
        }


@dataclass(frozen=True, eq=False)
class Problem:
    """A task with its elements in memory."""

    task: Task
    elements: Elements
    limits: dict[str, Any]
    """Groups and bounds, as arguments of `unstale.plan`."""

    @cached_property
    def law(self) -> Any:  # noqa: ANN401  (rates, a law, or one for each)
        """How the elements change, as `unstale.plan` takes it."""
        return law_of(self.elements)

    def plan(self, policy: str, objective: str | None = None, budget: float | None = None) -> Plan:
        """Plan; the objective and the budget are those of the task if not given here."""
        from unstale import planning

        options, amount = self.options(policy, objective), self.task.amount if budget is None else budget
        if policy != "random-optimal" or not self.task.uncertain:
            return planning.plan(self.law, amount, **options)
        # This policy is one for known rates. It goes by the mean ones, and the laws say what that buys.
        known = planning.plan(self.elements.rates, amount, **options)
        judged = planning.plan(self.law, amount, **options | {"policy": "uniform"})
        return replace(
            judged, frequencies=known.frequencies, spent=known.spent, policy="random-optimal", _summary=None
        )

    def options(self, policy: str, objective: str | None = None) -> dict[str, Any]:
        """Return the arguments of `unstale.plan`; the objective is the task's if not given here."""
        from .options import as_objective

        return {
            "policy": policy,
            "weights": self.elements.weights,
            "sizes": self.elements.sizes,
            "order": self.task.order,
            "objective": as_objective(objective or self.task.goal, self.task.unit),
            **self.limits,
        }
