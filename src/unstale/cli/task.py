"""What a command is asked to plan, with units for showing it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unstale.quantities import Flow, TimeUnit, show_duration, show_flow, show_number
from unstale.tables import Elements

if TYPE_CHECKING:
    from unstale.arguments import Order

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
        return f"{self.count:,} element{'s' if self.count != 1 else ''}, {changes}{budget}"

    def as_json(self) -> dict[str, Any]:
        """Return what the JSON of all commands starts with."""
        return {
            "file": self.file,
            "elements": self.count,
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
