"""What a plan buys, against uniform and proportional polling."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from unstale.cli.shared.printing import has_own_cost, print_table, say, show_cost
from unstale.cli.shared.problem import Task
from unstale.quantities import show_share

if TYPE_CHECKING:
    from rich.console import Console

    from unstale.planning import Plan

__all__ = ["Bought", "Report"]


@dataclass
class Bought:
    """What one policy buys; times in the unit of the rates."""

    freshness: float = 0.0
    age: float = 0.0
    spent: float = 0.0
    never_polled: int = 0
    cost: float = 0.0
    """Mean cost of the objective."""

    @classmethod
    def by(cls, plan: Plan) -> Bought:
        """Return what a plan buys."""
        never = int((plan.frequencies == 0).sum())
        return cls(plan.freshness, plan.age, plan.spent, never, plan.cost)

    def as_json(self) -> dict[str, Any]:
        """Return what the contract promises."""
        return {
            "freshness": self.freshness,
            "age": self.age,
            "cost": self.cost,
            "spent": self.spent,
            "never_polled": self.never_polled,
        }


@dataclass
class Report:
    """The answer of ``unstale plan``, but for the frequencies."""

    task: Task
    policy: str
    price: float
    gap: float
    bought: Bought
    out: str | None
    against: dict[str, Bought] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return what the contract promises."""
        return {
            **self.task.as_json(),
            "policy": self.policy,
            **self.bought.as_json(),
            "price": self.price,
            "gap": self.gap,
            "against": {name: one.as_json() for name, one in self.against.items()},
            "out": self.out,
        }

    def print_bought(self, screen: Console) -> None:
        """Print what the plan buys."""
        task, goal = self.task, self.task.goal
        best = f"{self.policy} for {goal}" if self.policy == "optimal" else self.policy
        with_cost = has_own_cost(goal)
        columns = ["policy", "fresh", "mean age", "never polled"]
        rows = []
        for name, one in {best: self.bought, **self.against}.items():
            row = [
                name,
                show_share(one.freshness),
                task.show_time(one.age),
                f"{one.never_polled:,} of {task.count:,}",
            ]
            rows.append([*row, show_cost(goal, one.cost)[1]] if with_cost else row)
        screen.print(f"{task}\n")
        print_table(screen, [*columns, show_cost(goal, 0.0)[0]] if with_cost else columns, rows)
        if self.bought.spent < task.amount * (1 - 1e-6):
            say(
                screen,
                f"The limits leave {task.show(task.amount - self.bought.spent)} of the budget unspent.",
            )

    def print_next(self, screen: Console) -> None:
        """Print where the frequencies are, and what to do next."""
        if self.out is None:
            say(screen, "--out plan.csv writes all frequencies to a file.")
            return
        file = "FILE" if self.task.file == "-" else shlex.quote(self.task.file)
        say(
            screen,
            f"{self.out} has the frequencies, in polls/{self.task.unit.name}. "
            f"What would another budget buy? unstale whatif {file}",
        )
