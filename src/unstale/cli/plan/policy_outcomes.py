"""What each policy buys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unstale.cli.shared.problem import Problem
from unstale.tables import mean_costs

if TYPE_CHECKING:
    from unstale.arguments import Floats

__all__ = ["Outcome", "tenths", "what_policies_buy"]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a policy buys; times in the unit of the rates."""

    policy: str
    objective: str | None
    """What the policy makes best; None if it has no such aim."""
    freshness: float
    age: float
    cost: float
    """Mean cost of the objective of the task."""
    spent: float
    never_polled: int
    tenths: Floats
    """Shares of the budget for the slowest tenth of the elements up to the fastest."""

    @property
    def label(self) -> str:
        """Name in tables and plots."""
        return f"{self.policy} for {self.objective}" if self.objective else self.policy

    def as_json(self) -> dict[str, Any]:
        """Return what the contract promises."""
        return {
            "policy": self.policy,
            "objective": self.objective,
            "freshness": self.freshness,
            "age": self.age,
            "cost": self.cost,
            "spent": self.spent,
            "never_polled": self.never_polled,
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


def what_policies_buy(problem: Problem) -> list[Outcome]:
    """Play every policy."""
    import numpy as np

    rates, weights, sizes = problem.elements.rates, problem.elements.weights, problem.elements.sizes
    by_rate = np.argsort(rates, kind="stable")
    goals = ["freshness", "age"]
    if problem.task.goal not in goals:
        goals.append(problem.task.goal)
    players: list[tuple[str, str | None]] = [("uniform", None)]
    if np.any(rates if weights is None else rates * weights):  # something to share out by
        players += [("proportional", None), ("square-root", None), ("random-optimal", None)]
    players += [("optimal", goal) for goal in goals]
    outcomes = []
    for policy, goal in players:
        got = problem.plan(policy, goal)
        spent = got.frequencies if sizes is None else got.frequencies * sizes
        outcomes.append(
            Outcome(
                policy=policy,
                objective=goal,
                freshness=got.freshness,
                age=got.age,
                cost=got.cost if goal in {None, problem.task.goal} else _cost(problem, got.frequencies),
                spent=got.spent,
                never_polled=int(np.count_nonzero(got.frequencies == 0)),
                tenths=tenths(spent[by_rate]),
            )
        )
    return outcomes


def _cost(problem: Problem, frequencies: Floats) -> float:
    """Return the mean cost of the task's objective under frequencies that are meant for another."""
    import numpy as np

    goal, weights = problem.options("optimal")["objective"], problem.elements.weights
    costs = mean_costs(problem.elements, goal, frequencies, problem.task.order)
    if weights is None:
        return float(costs.mean())
    return float(np.sum(weights * np.where(weights > 0, costs, 0.0)) / np.sum(weights))
