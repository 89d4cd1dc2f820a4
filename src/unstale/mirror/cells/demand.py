"""What a cell would spend at prices, as it tells the others: a curve of a kilobyte.

It goes through the price that the cell has paid lately and what it has spent at that price. With a reserve
neither is that of the moment: both are means over the time of some thousand polls.
"""

from __future__ import annotations

from math import exp, inf, log

import numpy as np

from unstale.errors import InvalidInput
from unstale.mirror.engine.load_policy import MirrorPolicy
from unstale.mirror.engine.planner import Planner
from unstale.mirror.settings import Settings
from unstale.planning import DemandCurve, Summary, summary_of

__all__ = ["DemandTeller"]

_MOST_ELEMENTS = 50_000
"""Elements that the curve is made from; of more, a random sample."""
_POLLS_AVERAGED = 2000.0
"""Polls whose time means are taken over, if that is not too short or too long."""
_SHORTEST_MEAN_SECONDS, _LONGEST_MEAN_SECONDS = 600.0, 86400.0
_OCTAVES = 5
"""How far curves reach to both sides of the price, in powers of two: cells meet step by step."""
_TINY = 1e-300


class DemandTeller:
    """Says what a cell would spend at prices; it is asked now and then."""

    def __init__(self, settings: Settings) -> None:
        self._whole = _whole(settings)
        self._planner: Planner | None = None
        self._time, self._spent = -inf, 0.0
        self._rate = self._log_price = self._weight = 0.0

    def curve(self, planner: Planner, now: float) -> tuple[DemandCurve, float] | None:
        """Return the curve, in parts of the budget of all cells, and the price; None: nobody knows yet."""
        policy = planner.policy
        self._follow(planner, now)
        found = _summary(policy, now)
        if found is None:
            return None
        summary, factor = found
        price = exp(self._log_price / self._weight) if self._weight > 0 else policy.price
        if price > 0:
            curve = _times(DemandCurve.of(summary, price, octaves=_OCTAVES), factor / self._whole)
            if self._weight > 0:
                curve = curve.through(price, self._rate / self._weight / self._whole)
            return curve, price
        budget = planner.policy.limits.rate(policy.known.mean_size)
        price = max(summary.outlook(budget / factor).price, _TINY)
        return _times(DemandCurve.of(summary, price, octaves=_OCTAVES), factor / self._whole), price

    def _follow(self, planner: Planner, now: float) -> None:
        """Take in what was spent since the last time, and at what price."""
        price, before = planner.policy.price, self._time
        if planner is self._planner and now > before and price > 0:
            seconds, spent = now - before, planner.spent - self._spent
            rate = planner.policy.limits.rate(planner.policy.known.mean_size)
            mean = min(max(_POLLS_AVERAGED / max(rate, _TINY), _SHORTEST_MEAN_SECONDS), _LONGEST_MEAN_SECONDS)
            keep = exp(-seconds / mean)
            self._rate = keep * self._rate + (1.0 - keep) * spent / seconds
            self._log_price = keep * self._log_price + (1.0 - keep) * log(price)
            self._weight = keep * self._weight + (1.0 - keep)
        self._planner, self._time, self._spent = planner, now, planner.spent


def _whole(settings: Settings) -> float:
    """Return the budget of all cells, in the unit in which polls are charged."""
    if settings.budget is None:
        assert settings.byte_budget is not None  # noqa: S101  (one of both is given)
        return settings.byte_budget
    return settings.budget if settings.byte_budget is None else 2.0 * settings.budget


def _summary(policy: MirrorPolicy, now: float) -> tuple[Summary, float] | None:
    """Return a summary of what elements ask for, and how many each of them stands for."""
    table, known = policy.table, policy.known
    places = np.flatnonzero(table.present)
    if not places.size:
        return None
    count = places.size
    if count > _MOST_ELEMENTS:
        places = np.random.default_rng(0).choice(places, _MOST_ELEMENTS, replace=False)
    weights = known.aim.factor * table["weight"][places].astype(float) * table["reads"][places]
    try:
        summary = summary_of(
            known.outlook(places, now)[0],
            objective=known.aim.objective,
            weights=weights,
            sizes=policy.limits.costs(known.sizes(places)),
        )
    except InvalidInput:  # nothing has a weight
        return None
    return summary, count / places.size


def _times(curve: DemandCurve, factor: float) -> DemandCurve:
    return DemandCurve(curve.prices, factor * curve.spent)
