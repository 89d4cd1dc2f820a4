"""Polls in turn, while what worths are computed by is compiled, which takes seconds after an installation.

Meanwhile elements have turns: those without a copy come first, then those that were polled longest ago, as
many as the budget pays for on average. The reserve is kept for polls of which the worth is known. What these
polls see is kept, and learned from as soon as that is possible.
"""

from __future__ import annotations

from functools import partial
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats

from .candidates import Candidates, Chosen, Turn
from .discovered import ListShares
from .knowledge import Knowledge

Ids = NDArray[np.int64]


class PollsSeen(NamedTuple):
    """What polls saw that is to be learned from: columns, as in `LearningPolicy.learn`."""

    element: Ids
    elapsed: Floats
    changed: NDArray[np.bool_]
    time: Floats
    ages: Floats | None


class PollsInTurn:
    """Whose turn it is, and what is to be learned later."""

    def __init__(self, known: Knowledge) -> None:
        self._known = known
        self.on = False
        """Whether nobody may be asked yet what polls are worth."""
        self._seen: list[PollsSeen] = []
        self._paid = -inf
        """Up to when the budget has been spent on polls in turn."""

    def choose(
        self, candidates: Candidates, shares: ListShares, turn: Turn, most: int, room: int
    ) -> tuple[Chosen, bool]:
        """Return what to poll, and whether there are more elements without a copy.

        Parameters
        ----------
        candidates, shares
            Elements that may be polled, and the turns of those without a copy.
        turn
            When.
        most, room
            Polls that the budget pays for, and for which there is room.
        """
        table, limits, now, end = self._known.table, self._known.limits, turn.now, turn.end
        new, old, since = candidates.find(turn, 0.0)
        if new.size:
            free = partial(limits.free, now=now, end=end)
            wanted = shares.first_polls(new, 4 * most + 64, free)
        else:
            wanted = old[self._next(since, now, end, limits.rate(self._known.mean_size))]
        slots = limits.assign(table["group"][wanted], self._known.sizes(wanted), now=now, end=end, room=room)
        chosen = wanted[slots.which]
        shares.chose(chosen[np.isnan(table["last"][chosen])])
        table["busy", chosen] = True
        return Chosen(chosen, slots.start, slots.late), chosen.size < new.size

    def _next(self, since: Floats, now: float, end: float, rate: float) -> NDArray[np.intp]:
        """Return whose turn it is of those that were polled so long ago: as many as a rate pays for."""
        if not 0 < rate < inf:
            return np.empty(0, np.intp)
        start = max(self._paid, now - 1.0 / rate) if self._paid > -inf else now
        order = np.argsort(-since, kind="stable")[: int(max((end - start) * rate, 0.0))]
        self._paid = start + order.size / rate
        return order

    def keep(self, seen: PollsSeen) -> None:
        """Keep what polls saw, to be learned from later."""
        if seen.element.size:
            self._seen.append(seen)

    @property
    def waiting(self) -> bool:
        """Whether there is something to be learned from."""
        return bool(self._seen)

    def take(self) -> list[PollsSeen]:
        """Return what is to be learned from, once it can be."""
        if self.on:
            return []
        seen, self._seen = self._seen, []
        return seen
