"""What plans buy: one beside uniform and proportional polling, all policies, other budgets, and targets."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass, field, fields
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from unstale.cli.shared.printing import has_own_cost, print_table, say, show_cost
from unstale.cli.shared.problem import LoadedProblem, Task
from unstale.quantities import show_share
from unstale.tables import mean_costs

if TYPE_CHECKING:
    from rich.console import Console

    from unstale.arguments import Floats
    from unstale.planning import Plan


@dataclass
class PlanValue:
    """What one plan buys; times in the unit of the rates."""

    freshness: float = 0.0
    age: float = 0.0
    cost: float = 0.0
    """Mean cost of the objective of the task."""
    spent: float = 0.0
    never_polled: int = 0

    @classmethod
    def of(cls, plan: Plan) -> PlanValue:
        """Return what a plan buys."""
        never = int((plan.frequencies == 0).sum())
        return cls(plan.freshness, plan.age, plan.cost, plan.spent, never)

    def as_json(self) -> dict[str, Any]:
        """Return the answer as ``--json`` prints it."""
        return asdict(self)


@dataclass
class PlanReport:
    """The answer of ``unstale plan``, but for the frequencies."""

    task: Task
    policy: str
    price: float
    gap: float
    bought: PlanValue
    out: str | None
    against: dict[str, PlanValue] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the answer as ``--json`` prints it."""
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


@dataclass(frozen=True, eq=False)
class ComparedPolicy:
    """One policy of a comparison."""

    policy: str
    objective: str | None
    """What the policy makes best; None if it has no such aim."""
    bought: PlanValue
    tenths: Floats
    """Shares of the budget for the slowest tenth of the elements up to the fastest."""

    @property
    def label(self) -> str:
        """Name in tables and plots."""
        return f"{self.policy} for {self.objective}" if self.objective else self.policy

    def as_json(self) -> dict[str, Any]:
        """Return the answer as ``--json`` prints it."""
        return {
            "policy": self.policy,
            "objective": self.objective,
            **self.bought.as_json(),
            "budget_on_fastest_tenth": float(self.tenths[-1]),
        }


def tenths(spent: Floats) -> Floats:
    """Return what share of the whole each tenth of a list has; an element on a border belongs to both sides.

    >>> import numpy as np
    >>> tenths(np.array([1.0, 3.0])).round(3).tolist()
    [0.05, 0.05, 0.05, 0.05, 0.05, 0.15, 0.15, 0.15, 0.15, 0.15]
    """
    import numpy as np

    sums = np.concatenate([[0.0], np.cumsum(spent)])
    borders = np.linspace(0.0, len(spent), 11)
    at = np.interp(borders, np.arange(len(sums)), sums)
    return np.diff(at) / sums[-1] if sums[-1] > 0 else np.zeros(10)


def compare_policies(problem: LoadedProblem) -> list[ComparedPolicy]:
    """Plan with every policy."""
    import numpy as np

    rates, weights, sizes = problem.elements.rates, problem.elements.weights, problem.elements.sizes
    by_rate = np.argsort(rates, kind="stable")
    goals = ["freshness", "age"]
    if problem.task.goal not in goals:
        goals.append(problem.task.goal)
    policies: list[tuple[str, str | None]] = [("uniform", None)]
    if np.any(rates if weights is None else rates * weights):  # something to share out by
        policies += [("proportional", None), ("square-root", None), ("random-optimal", None)]
    policies += [("optimal", goal) for goal in goals]
    compared = []
    for policy, goal in policies:
        plan = problem.plan(policy, goal)
        bought = PlanValue.of(plan)
        if goal not in {None, problem.task.goal}:
            bought.cost = _cost(problem, plan.frequencies)
        spent = plan.frequencies if sizes is None else plan.frequencies * sizes
        compared.append(ComparedPolicy(policy, goal, bought, tenths(spent[by_rate])))
    return compared


def _cost(problem: LoadedProblem, frequencies: Floats) -> float:
    """Return the mean cost of the task's objective under frequencies that are meant for another."""
    import numpy as np

    goal, weights = problem.options("optimal")["objective"], problem.elements.weights
    costs = mean_costs(problem.elements, goal, frequencies, problem.task.order)
    if weights is None:
        return float(costs.mean())
    return float(np.sum(weights * np.where(weights > 0, costs, 0.0)) / np.sum(weights))


@dataclass(frozen=True, eq=False)
class BudgetCurve:
    """What budgets buy: the best freshness, age and cost, and what uniform polling gets."""

    budget: Floats
    freshness: Floats
    age: Floats
    cost: Floats
    """Mean cost of the objective of the task."""
    uniform_freshness: Floats
    uniform_age: Floats
    uniform_cost: Floats

    @property
    def rows(self) -> list[dict[str, float]]:
        """One entry for each budget."""
        names = [field.name for field in fields(self)]
        columns = [getattr(self, name).tolist() for name in names]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


@dataclass(frozen=True)
class BudgetTarget:
    """What is wanted, and what it costs; None if no budget buys it."""

    kind: str
    value: float
    objective: str
    budget: float | None
    uniform: float | None
    proportional: float | None


def show_target(share: float) -> str:
    """Return a share as it was given, with all its digits.

    >>> show_target(0.8), show_target(0.9999999999), show_target(1e-9)
    ('80%', '99.99999999%', '1e-07%')
    """
    return f"{100 * share:g}%" if share < 1e-6 else f"{(100 * Decimal(str(share))).normalize():f}%"
