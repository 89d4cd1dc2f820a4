"""Costs of any objective, added up from events: weights of the lags of copies, or of all missed changes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats
from unstale.objectives import SourcePenalty, UpdatePenalty

from .compiled.tracking import cleared
from .events import Events
from .poll_execution import Visits

Segments = tuple[NDArray[np.int64], Floats, Floats]
"""Element, and lag at the beginning and at the end, of each stretch for which a copy lags."""


def lag_costs(objective: SourcePenalty, segments: Segments, n: int) -> Floats:
    """Add up the weights of lags, for each of ``n`` elements."""
    elements, begin, last = segments
    once = objective.penalty.once
    return np.bincount(elements, once(last) - once(begin), n).astype(np.float64, copy=False)


class Missed:
    """Changes that copies lack, each with the time until which they do."""

    def __init__(self) -> None:
        self._elements, self._times, self._until = np.empty(0, np.int64), np.empty(0), np.empty(0)
        self._spells: tuple[NDArray[np.int64], Floats, Floats] = self._elements, self._times, self._until

    def follow(self, start: float, end: float, changes: Events, visits: Visits) -> None:
        """Take up the changes of a span, and let go of those that polls have seen."""
        n = changes.offsets.size - 1
        new = np.repeat(np.arange(n), np.diff(changes.offsets))
        elements = np.concatenate([self._elements, new])
        known = np.concatenate([self._until, np.full(new.size, np.inf)])
        times = np.concatenate([self._times, changes.times])
        order = np.lexsort((times, elements))
        elements, times, known = elements[order], times[order], known[order]
        until = np.full(times.size, np.inf)
        cleared(elements, times, *visits.columns, until)
        until = np.minimum(until, known)
        self._spells = elements, np.maximum(start - times, 0.0), np.minimum(until, end) - times
        left = until > end
        self._elements, self._times, self._until = elements[left], times[left], until[left]

    def costs(self, objective: UpdatePenalty, n: int) -> Floats:
        """Add up the weights of missed changes over the last span, for each of ``n`` elements."""
        elements, begin, last = self._spells
        once = objective.penalty.once
        return np.bincount(elements, once(last) - once(begin), n).astype(np.float64, copy=False)
