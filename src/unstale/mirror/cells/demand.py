"""What a cell would spend at prices, as it tells the others: a curve of a kilobyte.

What is known of its elements says what they would ask for at each price. What that leaves out, such as hints
and hours, is made good by a factor: what the cell has spent, by what it was to spend at the prices that it
has paid, both over some rounds of its elements. The factor moves slowly for a reason: a cell that is given
less pays the old price on, until its elements have become older. If a curve went through that price and what
is spent now, the cell would seem to need still less, and parts would swing.
"""

from __future__ import annotations

from math import exp, inf

import numpy as np

from unstale.errors import InvalidInput
from unstale.mirror.engine.load_policy import MirrorPolicy
from unstale.mirror.engine.planner import Planner
from unstale.mirror.settings import Settings
from unstale.planning import DemandCurve, Summary, summary_of

__all__ = ["DemandTeller"]

_MOST_ELEMENTS = 50_000
"""Elements that the curve is made from; of more, a random sample."""
_ROUNDS_AVERAGED = 4.0
"""Time over which means are taken, in rounds: a new price is paid only after about one."""
_SHORTEST_MEAN_SECONDS, _LONGEST_MEAN_SECONDS = 600.0, 30 * 86400.0
_KNOWN_AFTER_ROUNDS = 4.0
"""After so many polls of each element a cell that is taken up spends its budget at its price."""
_OCTAVES = 5
"""How far curves reach to both sides of the price, in powers of two: cells meet step by step."""
_TINY = 1e-300


class DemandTeller:
    """Says what a cell would spend at prices; it is asked now and then."""

    def __init__(self, settings: Settings) -> None:
        self._whole = _whole(settings)
        self._planner: Planner | None = None
        self._time, self._spent = -inf, 0.0
        self._expected = self._paid = 0.0
        """What was to be spent per second by what is known of elements, and what was: means over time."""

    def curve(self, planner: Planner, now: float) -> tuple[DemandCurve, float] | None:
        """Return the curve, in parts of the budget of all cells, and the price; None: nobody knows yet."""
        policy = planner.policy
        found = _summary(policy, now)
        if found is None:
            return None
        summary, factor = found
        size = policy.known.mean_size
        budget = policy.limits.rate(size) * float(policy.limits.costs(np.array([size]))[0])
        if not policy.price > 0:
            price = max(summary.outlook(budget / factor).price, _TINY)
            return _times(DemandCurve.of(summary, price, octaves=_OCTAVES), factor / self._whole), price
        curve = _times(DemandCurve.of(summary, policy.price, octaves=_OCTAVES), factor)
        self._follow(planner, now, float(curve.at(policy.price)), budget)
        if self._expected > 0:
            off = self._paid / self._expected
            curve = curve.through(policy.price, off * float(curve.at(policy.price)))
        return _times(curve, 1.0 / self._whole), policy.price

    def _follow(self, planner: Planner, now: float, expected: float, budget: float) -> None:
        """Take in what was spent since the last time, beside what was to be spent at the price."""
        before, policy = self._time, planner.policy
        if not self._expected > 0:
            self._expected = expected
            known = planner.last_poll > _KNOWN_AFTER_ROUNDS * len(policy.table)
            self._paid = budget if known else expected
        elif planner is self._planner and now > before:
            seconds = now - before
            mean = min(max(_ROUNDS_AVERAGED * policy.round, _SHORTEST_MEAN_SECONDS), _LONGEST_MEAN_SECONDS)
            keep = exp(-seconds / mean)
            self._paid = keep * self._paid + (1.0 - keep) * (planner.spent - self._spent) / seconds
            self._expected = keep * self._expected + (1.0 - keep) * expected
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
