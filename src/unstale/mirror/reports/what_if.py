"""What a budget buys, and what others would, for the elements of a mirror and what is known of them.

It is the library's plan: for the laws of the learner, the weights, the sizes and the limits of the groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf, isfinite, nan
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unstale.arguments import Floats, choice, scalar, whole
from unstale.errors import InvalidInput, NoAnswer
from unstale.mirror.engine.load_policy import MirrorPolicy
from unstale.mirror.json_values import fields_json
from unstale.mirror.source import Json
from unstale.planning import Plan, budget_for, plan
from unstale.policy.element_table import Places
from unstale.processes import UncertainPoisson

MOST_ELEMENTS = 20_000
"""Elements that are planned for; of more, a random sample."""
_CERTAIN_SHAPE = 1e15
"""Shape of the gamma law of a rate that is certain."""
_CURVE_FACTOR = 16.0
"""How many times the present budget the largest of the curve is, and how many times less the smallest."""


@dataclass(frozen=True, eq=False)
class PlannerInput:
    """Elements among which a budget is divided, as the library's planner takes them."""

    law: UncertainPoisson
    weights: Floats
    sizes: Floats
    groups: NDArray[np.int64]
    """Which limit each keeps to; 0: none."""
    limits: Floats
    rate: float
    """What the present budget pays for, in a second, as far as it is for these."""
    hope: float
    """Weight of what can be fresh at all, as a share of all weight."""

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of the planner beside laws and budget."""
        limited = {"groups": self.groups, "limits": self.limits} if self.limits.size > 1 else {}
        return {"weights": self.weights, "sizes": self.sizes, **limited}

    def plan(
        self, objective: str = "freshness", policy: Literal["optimal", "uniform", "proportional"] = "optimal"
    ) -> Plan:
        """Return the plan for the present budget."""
        return plan(self.law, self.rate, objective=objective, policy=policy, **self.options)


def planner_input(
    policy: MirrorPolicy, places: Places, now: float, most: int = MOST_ELEMENTS
) -> PlannerInput | None:
    """Return what a plan starts from, by ``most`` elements if there are more; None if there is nothing."""
    table = policy.table
    weights = table["weight"][places].astype(float) * table["reads"][places]
    rate = policy.limits.rate(policy.known.mean_size)
    if not (places.size and weights.sum() > 0 and isfinite(rate)):
        return None
    share = places.size / (places.size + policy.others)
    if places.size > most:
        chosen = np.random.default_rng(0).choice(places.size, most, replace=False)
        share, places, weights = share * most / places.size, places[chosen], weights[chosen]
    law, hope = policy.known.outlook(places, now)
    worthy = weights * hope
    able = worthy > 0
    sizes = np.ones(places.size)
    if policy.limits.byte_budget is not None:
        sizes = policy.known.sizes(places) / policy.known.mean_size
    groups, limits = _limits(policy, table["group"][places], share)
    shape = np.asarray(law.shape)
    sure = np.minimum(shape, _CERTAIN_SHAPE)
    scale = np.asarray(law.scale) * (shape / sure)
    return PlannerInput(
        law=UncertainPoisson(sure[able], scale[able]),
        weights=worthy[able],
        sizes=sizes[able],
        groups=groups[able],
        limits=limits,
        rate=rate * share,
        hope=float(worthy.sum()) / float(weights.sum()),
    )


def _limits(
    policy: MirrorPolicy, groups: NDArray[np.int32], share: float
) -> tuple[NDArray[np.int64], Floats]:
    """Return which limit elements keep to, and what each allows."""
    fastest = np.full(int(groups.max()) + 1, inf)
    for number, group in policy.limits.groups():
        if number < fastest.size:
            fastest[number] = share * group.fastest
    limited = np.flatnonzero(np.isfinite(fastest))
    place = np.zeros(fastest.size, np.int64)
    place[limited] = 1 + np.arange(limited.size)
    return place[groups], np.concatenate([[inf], fastest[limited]])


def freshness_bought(policy: MirrorPolicy, places: Places, now: float, most: int = MOST_ELEMENTS) -> float:
    """Return the freshness that the budget buys on average, by the plan for what is known."""
    elements = planner_input(policy, places, now, most)
    if elements is None:
        return nan
    return elements.plan().freshness * elements.hope if elements.hope > 0 else 0.0


@dataclass(frozen=True, eq=False)
class WhatIf:
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

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON, as `unstale.mirror.json_values` says: the columns are a list of ``points``."""
        told = fields_json(self)
        columns = {
            "budget": told.pop("budgets"),
            **{name: told.pop(name) for name in ("optimal", "uniform", "proportional")},
        }
        rows = zip(*columns.values(), strict=True)
        return told | {"points": [dict(zip(columns, row, strict=True)) for row in rows]}

    def split(self, budget: float) -> tuple[float | None, float | None]:
        """Return what to set for this budget: polls and bytes per second, for `Mirror.set_budget`."""
        if self.unit == "bytes":
            return None, budget
        return budget, None if self.byte_budget is None else self.byte_budget * budget / self.present


@dataclass(frozen=True, eq=False)
class MirrorDemand:
    """What elements ask for at a moment: it says what budgets buy, without another look at the elements."""

    elements: PlannerInput
    objective: Literal["freshness", "age"]
    present: float
    unit: Literal["polls", "bytes"]
    byte_budget: float | None

    @cached_property
    def plan(self) -> Plan:
        """The library's plan for the present budget."""
        return self.elements.plan(self.objective)

    def what_if(self, budgets: ArrayLike | None = None, points: int = 41) -> WhatIf:
        """Return what other budgets would buy: those given, or some around that of today."""
        if budgets is None:
            tried = self.present * np.geomspace(
                1.0 / _CURVE_FACTOR, _CURVE_FACTOR, whole("points", points, at_least=2)
            )
        else:
            tried = np.atleast_1d(np.asarray(budgets, float))
            if not (tried.ndim == 1 and tried.size and np.isfinite(tried).all() and (tried > 0).all()):
                raise InvalidInput(f"budgets must be finite numbers above 0; they are {budgets!r}")
        rates = self.elements.rate / self.present * tried
        others = [self.elements.plan(self.objective, policy) for policy in ("uniform", "proportional")]
        optimal, uniform, proportional = (
            self._worthy(getattr(one.curve(rates), self.objective)) for one in (self.plan, *others)
        )
        return WhatIf(
            budgets=tried,
            optimal=optimal,
            uniform=uniform,
            proportional=proportional,
            present=self.present,
            present_value=float(self._worthy(getattr(self.plan, self.objective))),
            objective=self.objective,
            unit=self.unit,
            byte_budget=self.byte_budget,
        )

    def _worthy(self, value: Floats | float) -> Floats:
        """Return the mean over all elements: what is hopeless is never fresh, and not counted for age."""
        return np.asarray(value if self.objective == "age" else np.multiply(value, self.elements.hope))

    def budget_for(self, freshness: float) -> float:
        """Return the smallest budget, per second, that buys this freshness; inf if none does."""
        elements, target = self.elements, scalar("freshness", freshness, at_least=0, below=1)
        if target >= elements.hope:
            return inf
        try:
            needed = budget_for(elements.law, freshness=target / elements.hope, **elements.options)
        except NoAnswer:
            return inf
        return needed / elements.rate * self.present


def demand_of(policy: MirrorPolicy, now: float, objective: str) -> MirrorDemand:
    """Return what elements ask for, for freshness or for age."""
    choice("objective", objective, ("freshness", "age"))
    chosen: Literal["freshness", "age"] = "age" if objective == "age" else "freshness"
    elements = planner_input(policy, np.flatnonzero(policy.table.present), now)
    if elements is None or not elements.hope > 0:
        raise InvalidInput("there is nothing to plan yet: add elements first, with weights above 0")
    polls, traffic = policy.limits.budget, policy.limits.byte_budget
    present = traffic if polls is None else polls
    assert present is not None  # noqa: S101  (checked when the mirror was opened)
    unit: Literal["polls", "bytes"] = "bytes" if polls is None else "polls"
    return MirrorDemand(elements, chosen, present, unit, None if polls is None else traffic)
