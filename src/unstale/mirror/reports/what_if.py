"""What a budget buys, and what others would, for the elements of a mirror and what is known of them.

It is the library's plan: for the laws of the learner, the weights, the sizes and the limits of the groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf, isfinite, nan
from typing import Any, Literal, TypeGuard, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unstale.arguments import Floats, Order, scalar, whole
from unstale.errors import InvalidInput, NoAnswer
from unstale.mirror.engine.load_policy import MirrorPolicy
from unstale.mirror.json_values import fields_json
from unstale.mirror.source import Json
from unstale.objectives import Objective
from unstale.planning import Plan, budget_for, plan
from unstale.policy.element_table import DROPPED, OpeningHours, Places
from unstale.policy.terms import Aim, aim_of
from unstale.polling import mean_cost
from unstale.processes import UncertainPoisson
from unstale.schedule.element_clocks import WindowClock
from unstale.schedule.window_costs import windowed_cost

from .promised_times import PromisedTimes
from .shared_price import ElementsWithAim, SharedPrice

Policy = Literal["optimal", "uniform", "proportional"]
MOST_ELEMENTS = 20_000
"""Elements that are planned for; of more, a random sample."""
_CERTAIN_SHAPE = 1e15
"""Shape of the gamma law of a rate that is certain."""
_MOST_WINDOWED = 300
"""Elements of each window for which it is worked out what the window costs."""
_PROMISE_TURNS = 4
"""Turns in which it is found how often elements are polled that are promised to stay as they are."""
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
    aim: Aim
    """What the mirror as a whole is for."""
    parts: Sequence[ElementsWithAim]
    """Elements by what each is for; empty if all are for the same, and nothing is promised."""
    windows: Sequence[tuple[WindowClock, NDArray[np.bool_]]] = ()
    """Windows of elements, and which elements have them."""
    policy: Policy = "optimal"
    """How the mirror shares its budget."""
    order: Order = "fixed"
    """How its polls are spread over time."""
    ids: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """Their numbers."""
    hopes: Floats = field(default_factory=lambda: np.ones(1))
    """How probably each can be fresh at all."""
    share: float = 1.0
    """Part of all elements that they are, if they are a sample."""
    promised: PromisedTimes | None = None
    """For how long elements are promised to stay as they are, where that is believed."""

    @property
    def count(self) -> int:
        """How many elements they stand for."""
        return max(round(self.weights.size / self.share), 1)

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of the planner beside laws and budget."""
        limited = {"groups": self.groups, "limits": self.limits} if self.limits.size > 1 else {}
        return {"weights": self.weights, "sizes": self.sizes, **limited}

    @cached_property
    def together(self) -> SharedPrice:
        """The elements at one price, each for its own objective."""
        return SharedPrice(
            self.law, self.weights, self.sizes, self.groups, self.limits, self.parts, self.order
        )

    @cached_property
    def bought(self) -> Floats:
        """How often elements are polled, at the present budget, by what each is for."""
        if self.promised is not None:
            return self._bought_under_promises(self.promised)
        if self.parts:
            return self.together.at_budget(self.rate)[1]
        return self.plan(self.aim.objective, self.policy).frequencies

    def _bought_under_promises(self, promised: PromisedTimes) -> Floats:
        """Return the same where promises slow time down: by how much depends on intervals, so in turns."""
        often = replace(self, promised=None).bought
        for _ in range(_PROMISE_TURNS):
            slowed = replace(self, promised=None, law=promised.slowed(self.law, often))
            often = 0.5 * (often + slowed.bought)
        return often

    def freshness(self, frequencies: Floats) -> float:
        """Return the mean freshness of elements that can be fresh, without what windows cost."""
        if self.promised is None or self.order != "fixed":
            return 1.0 - self.together.cost("freshness", frequencies)
        return float(np.average(self.promised.fresh(self.law, frequencies), weights=self.weights))

    def effective_law(self, frequencies: Floats) -> UncertainPoisson:
        """Return how elements change between polls of these frequencies, on average."""
        return self.law if self.promised is None else self.promised.slowed(self.law, frequencies)

    def plan(
        self,
        objective: str | Objective = "freshness",
        policy: Policy = "optimal",
    ) -> Plan:
        """Return the plan for the present budget."""
        return plan(self.law, self.rate, objective=objective, policy=policy, order=self.order, **self.options)

    def lost_to_windows(self, frequencies: Floats) -> float:
        """Return the share of freshness that is lost as polls are made in windows, by rates as they seem."""
        lost = 0.0
        for clock, own in self.windows:
            which = np.flatnonzero(own)[:: max(int(own.sum()) // _MOST_WINDOWED, 1)]
            rate, often = np.asarray(self.law.rate)[which], frequencies[which]
            loss = windowed_cost("freshness", rate, often, clock) - mean_cost("freshness", rate, often)
            lost += float(self.weights[own].sum()) * float(np.average(loss, weights=self.weights[which]))
        return lost / float(self.weights.sum())


def planner_input(
    policy: MirrorPolicy, places: Places, now: float, most: int = MOST_ELEMENTS, *, dropped: bool = False
) -> PlannerInput | None:
    """Return what a plan starts from, by ``most`` elements if there are more; None if there is nothing.

    Elements whose copies were ``dropped`` for want of room are among them if that is asked for.
    """
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
    if not dropped:
        worthy = worthy * (table["state"][places] != DROPPED)
    able = worthy > 0
    sizes = np.ones(places.size)
    if policy.limits.byte_budget is not None:
        sizes = policy.known.sizes(places) / policy.known.mean_size
    groups, limits = _limits(policy, table["group"][places], share)
    parts = _parts(policy, table["terms"][places[able]], now)
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
        aim=policy.known.aim,
        parts=parts,
        windows=tuple((hours, own) for hours, own in table.windowed(places[able]) if _has_cycle(hours)),
        policy=cast("Policy", policy.known.policy),
        order=policy.known.order,
        ids=table["id"][places[able]].astype(np.int64),
        hopes=np.asarray(hope, float)[able],
        share=share,
        promised=_promised(policy, places[able]),
    )


def _promised(policy: MirrorPolicy, places: Places) -> PromisedTimes | None:
    """Return what is promised of elements, if anything is that is believed."""
    expiries = policy.known.expiries
    if not expiries.believed(places).any():
        return None
    return PromisedTimes(expiries.speeds(places), policy.table["stays"][places].astype(np.float64))


def _parts(policy: MirrorPolicy, terms: NDArray[np.int16], now: float) -> list[ElementsWithAim]:
    """Return elements by what they are for; nothing if that is the same for all, and nothing is promised."""
    numbers = np.unique(terms).tolist()
    if numbers in ([], [0]):
        return []
    promises = policy.promises.made or policy.promises.look(now)
    prices = {policy.table.terms.index(one.terms): one.price for one in promises}
    return [
        ElementsWithAim(policy.known.aim_of(number), np.flatnonzero(terms == number), prices.get(number, inf))
        for number in numbers
    ]


def _has_cycle(hours: OpeningHours) -> TypeGuard[WindowClock]:
    """Tell whether it is known what windows cost."""
    return hasattr(hours, "cycle")


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
    if not elements.hope > 0:
        return 0.0
    often = elements.bought
    return (elements.freshness(often) - elements.lost_to_windows(often)) * elements.hope


@dataclass(frozen=True, eq=False)
class WhatIf:
    """What budgets buy: by the optimal plan, and by two others."""

    budgets: Floats
    """Per second."""
    optimal: Floats
    """Freshness, age in seconds, or another cost, whichever is the objective; as the following."""
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
    objective: str
    """What is shown, and what the budget is spent for."""
    present: float
    unit: Literal["polls", "bytes"]
    byte_budget: float | None
    mean_size: float = 1.0
    """Bytes of a poll, on average."""

    @cached_property
    def plan(self) -> Plan:
        """The library's plan for the present budget."""
        return self.elements.plan(self._goal)

    @property
    def _goal(self) -> Objective:
        return aim_of(self.objective).objective

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
        others = [self.elements.plan(self._goal, policy) for policy in ("uniform", "proportional")]
        optimal, uniform, proportional = (self._values(one, rates) for one in (self.plan, *others))
        present = float(self._values(self.plan, np.array([self.elements.rate]))[0])
        if self.elements.policy != "optimal":
            own = others[("uniform", "proportional").index(self.elements.policy)]
            present = float(self._values(own, np.array([self.elements.rate]))[0])
        elif self.elements.parts:
            optimal = np.array([self._together(rate) for rate in rates.tolist()])
            present = self._together(self.elements.rate)
        return WhatIf(
            budgets=tried,
            optimal=optimal,
            uniform=uniform,
            proportional=proportional,
            present=self.present,
            present_value=present,
            objective=self.objective,
            unit=self.unit,
            byte_budget=self.byte_budget,
        )

    def _values(self, plan: Plan, rates: Floats) -> Floats:
        """Return what budgets buy: freshness, of which what is hopeless has none; age; or another cost."""
        curve = plan.curve(rates)
        if self.objective == "freshness":
            return np.asarray(curve.freshness * self.elements.hope)
        return np.asarray(curve.age if self.objective == "age" else curve.costs * self._factor)

    @property
    def _factor(self) -> float:
        """In which unit costs are shown: as in `unstale.policy.terms`, but ages in seconds."""
        return 1.0 if self.objective == "age" else aim_of(self.objective).factor

    def _together(self, rate: float) -> float:
        """Return what a budget buys if each element is polled for what it is for."""
        elements = self.elements
        cost = elements.together.cost(self._goal, elements.together.at_budget(rate)[1])
        return (1.0 - cost) * elements.hope if self.objective == "freshness" else cost * self._factor

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
    """Return what elements ask for, for an objective."""
    aim_of(objective)
    elements = planner_input(policy, np.flatnonzero(policy.table.present), now)
    if elements is None or not elements.hope > 0:
        raise InvalidInput("there is nothing to plan yet: add elements first, with weights above 0")
    polls, traffic = policy.limits.budget, policy.limits.byte_budget
    present = traffic if polls is None else polls
    assert present is not None  # noqa: S101  (checked when the mirror was opened)
    unit: Literal["polls", "bytes"] = "bytes" if polls is None else "polls"
    both = None if polls is None else traffic
    return MirrorDemand(elements, objective, present, unit, both, policy.known.mean_size)
