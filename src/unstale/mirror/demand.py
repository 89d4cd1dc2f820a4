"""What elements ask of a budget, by what is known of them: the plan for a mirror, quickly.

At a price each element asks for the polls that are worth it. A group that would ask for more than its limit
allows pays a price of its own, at which it asks for just that; so an element pays the higher of the two. The
library's `unstale.plan` says the same, for any law; here all laws are those of the learner, and what is
wanted is the sum over elements, at many prices.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, isfinite, nan

import numpy as np
from numpy.typing import NDArray

from ..arguments import Floats
from ..policy.element_table import Places
from .compiled_demand import add_asked, kept_up
from .policy import MirrorPolicy

__all__ = ["SAMPLE", "Demand", "bought", "demand_of"]

SAMPLE = 20_000
"""Elements from which is told what a plan buys, if there are more."""
_SURE = 1e6
"""Shape beyond which a rate counts as known."""
_STEPS = 9
"""Prices that are tried together."""
_EVALUATIONS = 1_300_000
"""Elements times prices that a curve goes through: about 0.3 seconds."""
_SOME = 300
"""Elements that tell about where prices are."""
_CLOSE = 1e-4
"""Between amounts no further apart than this, relatively, a straight line is good to nine digits."""


@dataclass(frozen=True, eq=False)
class _Floors:
    """What limited groups pay, by group."""

    price: Floats
    """The least that its elements pay; 0: nothing but the price of all."""
    spare: Floats
    """What they leave of their limit at this price, and would take at any lower.

    An element that changes many times between two polls is worth the same at any number of them, in all
    digits of a float. So it asks for nothing at one price, and for as much as there is at the next.
    """

    @classmethod
    def none(cls, groups: int) -> _Floors:
        """Return those of groups that are not limited."""
        return cls(np.zeros(groups), np.zeros(groups))


@dataclass(frozen=True, eq=False)
class Demand:
    """Elements among which a budget is divided, for freshness or for age."""

    age: bool
    shape: Floats
    scale: Floats
    weight: Floats
    cost: Floats
    group: NDArray[np.int64]
    """Which limit each keeps to; 0: none."""
    limits: Floats
    rate: float
    """What the present budget pays for, in a second, as far as it is for these."""
    hope: float
    """Weight of what can be fresh at all, as a share of all weight."""

    def worthy(self, value: Floats | float) -> Floats:
        """Return the mean over all elements: what is hopeless is never fresh, and not counted for age."""
        return np.asarray(value if self.age else np.multiply(value, self.hope))

    def asked(self, prices: Floats, floors: _Floors) -> tuple[Floats, Floats]:
        """Return what is spent at prices, which rise, by group; and the mean of what that buys."""
        spent, value = np.zeros((2, self.limits.size, prices.size))
        floor = floors.price[self.group]
        add_asked(
            self.age, self.shape, self.scale, self.weight, self.cost, floor, self.group, prices, spent, value
        )
        if floors.spare.any():
            more = np.where(prices <= floors.price[:, None], floors.spare[:, None], 0.0)
            spent += more
            value += (-more if self.age else more) * floors.price[:, None]
        return spent, value.sum(axis=0) / self.weight.sum()

    def _bracket(self, low: float, high: float) -> tuple[float, float]:
        """Return prices at which more than ``high`` and less than ``low`` is spent, by some elements."""
        every = slice(None, None, -(-self.shape.size // _SOME))
        some, share = self._part(every), float(self.cost.sum() / self.cost[every].sum())
        free, unit = _Floors.none(self.limits.size), float(np.median(self.weight / (self.cost * self.scale)))
        ends = []
        for wanted in (high, low):
            under, over = np.log(unit) - 90.0, np.log(unit) + 90.0
            for _ in range(9):
                prices = np.exp(np.linspace(under, over, _STEPS))
                spent = some.asked(prices, free)[0].sum(axis=0) * share
                k = min(max(int(np.count_nonzero(spent >= wanted)) - 1, 0), _STEPS - 2)
                under, over = np.log(prices[k]), np.log(prices[k + 1])
            ends.append(float(np.exp(under)))
        return ends[0] / 4.0, ends[1] * 4.0

    def _part(self, which: slice | Places) -> Demand:
        """Return some of the elements."""
        return replace(
            self,
            shape=self.shape[which],
            scale=self.scale[which],
            weight=self.weight[which],
            cost=self.cost[which],
            group=self.group[which],
        )

    def _floors(self, bottom: float, top: float) -> _Floors:
        """Return what groups pay that would ask for more than they may have."""
        free = _Floors.none(self.limits.size)
        spent, _ = self.asked(np.array([bottom]), free)
        over = spent[:, 0] > self.limits
        if not over.any():
            return free
        part = self._part(np.flatnonzero(over[self.group]))
        low, high = np.full(self.limits.size, np.log(bottom)), np.full(self.limits.size, np.log(top) + 60.0)
        for _ in range(38):
            middle = 0.5 * (low + high)
            spent, _ = part.asked(np.zeros(1), replace(free, price=np.exp(middle)))
            more = spent[:, 0] > self.limits
            low, high = np.where(more, middle, low), np.where(more, high, middle)
        found = replace(free, price=np.where(over, np.exp(high), 0.0))
        spent, _ = part.asked(np.zeros(1), found)
        return replace(found, spare=np.where(over, self.limits, 0.0) - np.where(over, spent[:, 0], 0.0))

    def _all_limited(self, floors: _Floors) -> bool:
        """Tell whether no element could take more at any price."""
        return bool((floors.price[self.group] > 0).all())

    def curve(self, rates: Floats) -> Floats:
        """Return what rates buy, by the optimal plan: mean freshness or age of what is worthy."""
        bottom, top = self._bracket(float(rates.min()), float(rates.max()))
        for _ in range(12):
            floors = self._floors(bottom, top)
            most = self.asked(np.array([bottom]), floors)[0].sum()
            if most >= rates.max() or self._all_limited(floors):
                break
            bottom *= 1e-2  # others get what limited groups may not have
        points = int(np.clip(_EVALUATIONS // self.shape.size, 65, 2001))
        prices = np.geomspace(bottom, top, points)
        columns, value = self.asked(prices, floors)
        spent = np.maximum(columns.sum(axis=0), 1e-300)
        spent, value = spent[::-1], value[::-1]
        if self.age:
            return np.exp(np.interp(np.log(rates), np.log(spent), np.log(value)))
        return np.interp(np.log(rates), np.log(spent), value)

    def best(self, rate: float) -> float:
        """Return what a rate buys, by the optimal plan, to about nine digits."""
        return self._at(rate, by_value=False)[1]

    def needed(self, value: float) -> float:
        """Return the smallest rate that buys this; inf if none does."""
        return self._at(value, by_value=True)[0]

    def _at(self, target: float, *, by_value: bool) -> tuple[float, float]:
        """Return what is spent and what that buys, where one of them is as wanted."""
        guess = self.rate if by_value else target
        bottom, top = self._bracket(guess, guess)
        for _ in range(12):
            floors = self._floors(bottom, top)
            spent, value = self.asked(np.array([bottom, top]), floors)
            goal = value if by_value else spent.sum(axis=0)
            if self._reached(goal[0], target, by_value=by_value) or self._all_limited(floors):
                break
            bottom *= 1e-2
        if not self._reached(goal[0], target, by_value=by_value):  # it is more than limits allow
            return (inf if by_value else float(spent[:, 0].sum())), float(value[0])
        while self._reached(goal[-1], target, by_value=by_value) and top < 1e100 * bottom:
            top *= 100.0
            spent, value = self.asked(np.array([bottom, top]), floors)
            goal = value if by_value else spent.sum(axis=0)
        low, high = bottom, top
        for _ in range(40):
            prices = np.geomspace(low, high, _STEPS)
            columns, value = self.asked(prices, floors)
            spent = columns.sum(axis=0)
            goal = value if by_value else spent
            enough = [self._reached(one, target, by_value=by_value) for one in goal]
            k = min(max(sum(enough) - 1, 0), _STEPS - 2)
            low, high = float(prices[k]), float(prices[k + 1])
            if abs(goal[k] - goal[k + 1]) <= _CLOSE * target or high < low * (1.0 + 1e-12):
                break
        apart = goal[k] - goal[k + 1]
        share = float(np.clip((goal[k] - target) / apart, 0.0, 1.0)) if apart else 0.0
        mixed = (float(a[k] + (a[k + 1] - a[k]) * share) for a in (spent, value))
        return next(mixed), next(mixed)

    def _reached(self, goal: float, target: float, *, by_value: bool) -> bool:
        """Tell whether it is enough: of age, less is more."""
        return bool(goal <= target if by_value and self.age else goal >= target)

    def plain(self, rates: Floats, share: Floats) -> Floats:
        """Return what rates buy if they are divided in proportion to ``share``, as far as limits allow."""
        asks = np.bincount(self.group, self.cost * share, minlength=self.limits.size)
        with np.errstate(divide="ignore", invalid="ignore"):
            full = np.where(asks > 0, self.limits / asks, inf)
        order = np.argsort(full)
        found = np.empty(rates.size)
        for k, rate in enumerate(rates.tolist()):
            left, open_asks = rate, float(asks.sum())
            level = left / open_asks
            for g in order.tolist():
                if full[g] >= level or open_asks <= 0:
                    break
                left -= float(self.limits[g])
                open_asks -= float(asks[g])
                level = left / open_asks if open_asks > 1e-12 * asks.sum() else inf
            level = min(level, 1e300)
            frequency = share * np.minimum(level, full)[self.group]
            found[k] = np.average(kept_up(self.age, self.shape, self.scale, frequency), weights=self.weight)
        return found


def demand_of(
    policy: MirrorPolicy, places: Places, now: float, *, age: bool = False, most: int = SAMPLE
) -> Demand | None:
    """Return what a plan starts from, by ``most`` elements if there are more; None if there is nothing."""
    table = policy.table
    weights = table["weight"][places].astype(float) * table["reads"][places]
    rate = policy.limits.rate(policy.mean_size)
    if not (places.size and weights.sum() > 0 and isfinite(rate)):
        return None
    share = 1.0
    if places.size > most:
        chosen = np.random.default_rng(0).choice(places.size, most, replace=False)
        share, places, weights = most / places.size, places[chosen], weights[chosen]
    law, hope = table.learner.outlook(table.since(places, now), places)
    worthy = weights * hope
    able = worthy > 0
    cost = np.ones(places.size)
    if policy.limits.byte_budget is not None:
        cost = policy.sizes(places) / policy.mean_size
    group, limits = _limits(policy, table["group"][places], share)
    shape = np.asarray(law.shape)
    sure = np.minimum(shape, _SURE)
    scale = np.asarray(law.scale) * (shape / sure)
    columns = (sure[able], scale[able], worthy[able], cost[able], group[able])
    return Demand(age, *columns, limits, rate * share, float(worthy.sum()) / float(weights.sum()))


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


def bought(policy: MirrorPolicy, places: Places, now: float, most: int = SAMPLE) -> float:
    """Return the freshness that the budget buys on average, by the plan for what is known."""
    demand = demand_of(policy, places, now, most=most)
    if demand is None:
        return nan
    return demand.best(demand.rate) * demand.hope if demand.hope > 0 else 0.0
