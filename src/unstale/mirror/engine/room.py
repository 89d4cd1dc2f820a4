"""Room for copies: what is dropped if they may have only so many bytes, and what comes back (step 9).

Old versions are deleted first: they are not fresh. Then copies are dropped that are worth least for their
bytes, by the plan for what is known of the elements (`unstale.planning.space`). They lose their part of the
budget until there is room for them, or a reader asks.

Reference: Carney, Lee & Zdonik (ICDE 2003), section 7.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite

import numpy as np

from unstale.arguments import Floats
from unstale.mirror.store.contract import Transaction
from unstale.planning.space import copies_worth_keeping, plan_within, worth_of_copies
from unstale.policy.element_table import DROPPED, FAILING, NEW, OK, REFUSED, Places
from unstale.processes import UncertainPoisson

from .load_policy import MirrorPolicy

__all__ = ["Room", "RoomKeeper"]

_MOST_PLANNED = 20_000
"""Elements by which the price of polls is found; of more, a random sample."""
_CERTAIN_SHAPE = 1e15
"""Shape of the gamma law of a rate that is certain."""
_STAY_FACTOR = 1.2
"""How much more a copy is worth that is there: what is worth about the same does not come and go."""
_FULL_SHARE = 0.97
"""Share of the space that is filled: copies come between two looks."""
_REFETCH_PAUSE_SECONDS = 6 * 3600.0
"""Between two looks at what could come back."""


@dataclass(frozen=True)
class Room:
    """What was done to make room."""

    dropped: int
    """Elements whose copies were dropped."""
    orphans: list[str]
    """Digests of copies that no version has any more."""


class RoomKeeper:
    """Sees to it that copies have no more than so many bytes."""

    def __init__(self, space: int | None) -> None:
        self._space = space
        self._come_back_at = -inf

    def make_room(self, policy: MirrorPolicy, t: Transaction, now: float) -> Room:
        """Drop what there is no room for; let come back what there is room for again."""
        table = policy.table
        dropped = np.flatnonzero(table["state"] == DROPPED)
        if self._space is None:
            self._come_back(policy, t, dropped)
            return Room(0, [])
        excess = t.room_taken() - self._space
        if excess <= 0 and (not dropped.size or now < self._come_back_at):
            return Room(0, [])
        self._come_back_at = now + _REFETCH_PAUSE_SECONDS
        orphans = t.drop_old_versions(excess) if excess > 0 else []
        ids, sizes = t.room_of_copies()
        there = table.has(ids)
        others = float(sizes[~there].sum())  # of what was removed
        places, sizes = table.places(ids[there]), sizes[there]
        choice = np.isin(table["state"][places], (NEW, OK, FAILING, REFUSED, DROPPED))
        others += float(sizes[~choice].sum())  # of what is gone
        places, sizes = places[choice], sizes[choice]
        away = table["state"][places] == DROPPED
        kept = self._worth_keeping(policy, places, sizes, max(self._space - others, 0.0), now)
        gone = places[~kept & ~away & ~table["busy"][places] & ~np.isnan(table["last"][places])]
        self._come_back(policy, t, places[kept & away])
        if gone.size:
            orphans += t.drop_copies(table["id"][gone].tolist())
            table["state", gone] = DROPPED
            policy.hinted.forget(gone)
            self._changed(policy, t, gone)
        return Room(int(gone.size), orphans)

    def _worth_keeping(
        self, policy: MirrorPolicy, places: Places, sizes: Floats, space: float, now: float
    ) -> np.ndarray:
        """Return which copies to keep."""
        if sizes.sum() <= space or not places.size:
            return np.ones(places.size, np.bool_)
        table, known = policy.table, policy.known
        law, hope = known.outlook(places, now)
        shape = np.minimum(np.asarray(law.shape), _CERTAIN_SHAPE)
        law = UncertainPoisson(shape, np.asarray(law.scale) * (np.asarray(law.shape) / shape))
        weights = table["weight"][places].astype(float) * table["reads"][places] * hope
        weights += table["composed"][places]
        costs = policy.limits.costs(known.sizes(places))
        mean = float(policy.limits.costs(np.array([known.mean_size]))[0])
        rate = policy.limits.rate(known.mean_size) * mean
        price, room = 0.0, _FULL_SHARE * space
        if isfinite(rate) and weights.sum() > 0:
            some = np.arange(places.size)
            if some.size > _MOST_PLANNED:
                some = np.random.default_rng(0).choice(some, _MOST_PLANNED, replace=False)
            part = some.size / places.size
            price = plan_within(
                law.take(some), rate * part, room=sizes[some], space=room * part, weights=weights[some],
                sizes=costs[some],
            ).price  # fmt: skip
        values, _ = worth_of_copies(law, weights, costs, price)
        stay = np.where(table["state"][places] == DROPPED, 1.0, _STAY_FACTOR)
        return copies_worth_keeping(values * stay, sizes, room)

    def _come_back(self, policy: MirrorPolicy, t: Transaction, places: Places) -> None:
        """Let elements wait for a poll as new ones do."""
        if places.size:
            policy.table["state", places], policy.table["last", places] = NEW, np.nan
            self._changed(policy, t, places)

    def _changed(self, policy: MirrorPolicy, t: Transaction, places: Places) -> None:
        policy.table.touch(places)
        policy.table.recount()
        t.save(policy.table.columns(places))
