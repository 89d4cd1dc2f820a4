"""What elements ask of a budget, by what is known of them: where a plan for a mirror starts."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite, nan
from typing import Any

import numpy as np

from .. import planning
from .agenda import Agenda
from .rows import Places

__all__ = ["SAMPLE", "Demand", "bought", "demand_of"]

SAMPLE = 20_000
"""Elements from which is told what a plan buys, if there are more."""


@dataclass(frozen=True, eq=False)
class Demand:
    """What is known of the elements that a budget is divided among."""

    law: Any
    options: dict[str, Any]
    """Of a plan: weights, sizes, groups and limits."""
    rate: float
    """Polls of mean size per second that the present budget pays for, as far as they are for these."""
    hope: float
    """Weight of what can be fresh at all, as a share."""

    def plan(self, rate: float, objective: str, policy: Any = "optimal") -> planning.Plan:  # noqa: ANN401
        """Divide another budget."""
        return planning.plan(self.law, rate, objective=objective, policy=policy, **self.options)


def demand_of(agenda: Agenda, places: Places, now: float) -> Demand | None:
    """Return what a plan starts from; None if there is nothing to plan."""
    weights = agenda.rows["weight"][places].astype(float) * agenda.rows["reads"][places]
    rate = agenda.pace.rate(agenda.mean_size)
    if not (places.size and weights.sum() > 0 and isfinite(rate)):
        return None
    share = 1.0
    if places.size > SAMPLE:
        chosen = np.random.default_rng(0).choice(places.size, SAMPLE, replace=False)
        share, places, weights = SAMPLE / places.size, places[chosen], weights[chosen]
    rows = agenda.rows
    law, hope = rows.learner.outlook(rows.since(places, now), places)
    options: dict[str, Any] = {"weights": weights * hope}
    if agenda.pace.byte_budget is not None:
        options["sizes"] = agenda.sizes(places) / agenda.mean_size
    limits = np.full(int(rows["group"][places].max()) + 1, inf)
    for number, group in agenda.pace.groups.items():
        if number < limits.size:
            limits[number] = share * group.fastest
    if np.isfinite(limits).any():
        options |= {"groups": rows["group"][places], "limits": limits}
    return Demand(law, options, rate * share, float((weights * hope).sum()) / float(weights.sum()))


def bought(agenda: Agenda, places: Places, now: float) -> float:
    """Return the freshness that the budget buys on average, by the plan for what is known."""
    demand = demand_of(agenda, places, now)
    if demand is None:
        return nan
    return demand.plan(demand.rate, "freshness").freshness * demand.hope if demand.hope > 0 else 0.0
