"""How fresh one copy is, told in a moment.

The mirror knows that from what polls of the element saw and from what was learned of all elements together.
The first is one row of the store; the second is small, changes slowly, and is kept for some seconds. So a
reader of one copy does not wait until a million elements are read.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from math import nan
from typing import cast

import numpy as np

from unstale.mirror.engine.load_policy import MirrorPolicy, new_policy
from unstale.mirror.engine.planner_state import PlannerState
from unstale.mirror.mirror import Mirror
from unstale.mirror.reports.freshness import ages
from unstale.policy import ElementColumns, ElementTable
from unstale.policy.element_table import GONE

_ONE = np.zeros(1, np.intp)


@dataclass(frozen=True, slots=True)
class CopyFreshness:
    """How fresh a copy is."""

    fresh: float
    """Probability that it is fresh; nan if that cannot be told."""
    age: float
    """Expected age, in seconds; nan if that cannot be told."""
    rate: float = nan
    """Changes per second, if that was asked for."""


class FreshnessEstimator:
    """What was learned of all elements together."""

    def __init__(self, mirror: Mirror) -> None:
        with mirror.store.begin() as t:
            state = PlannerState.read(t.state())
        self._settings = state.in_force(mirror.settings)
        self._state, self._channels = state, state.channels
        self._hints = {one.element: (one.channel, one.hints) for one in state.hints}
        for channel, _ in self._hints.values():
            self._channels.number(channel)  # now: it is used by many threads
        self._local = threading.local()

    def of_one(self, columns: ElementColumns | None, now: float) -> CopyFreshness:
        """Tell how fresh the copy of an element is, by its row."""
        if columns is None or columns.id.size != 1 or not np.isfinite(columns.last[0]):
            return CopyFreshness(nan, nan)
        if columns.state[0] == "gone":  # the copy is the last there was
            return CopyFreshness(nan, nan)
        policy = self._one()
        policy.table.learner.evidence[:] = 0.0
        self._fill(policy.table, 0, columns)
        return CopyFreshness(float(policy.known.fresh(_ONE, now)[0]), float(ages(policy, _ONE, now)[0]))

    def of_many(self, parts: Iterable[ElementColumns], now: float) -> dict[int, CopyFreshness]:
        """Tell of some elements how fresh their copies are and how often they change, by number."""
        parts = list(parts)
        policy = self._for(sum(columns.id.size for columns in parts))
        table, start = policy.table, 0
        for columns in parts:
            self._fill(table, start, columns)
            start += columns.id.size
        if not start:
            return {}
        places = np.flatnonzero(~np.isnan(table["last"]))
        there = np.where(table["state"][places] == GONE, nan, 1.0)  # the copy of what is gone is the last
        law, _ = policy.known.outlook(places, now)
        told = zip(
            table["id"][places].tolist(), (there * policy.known.fresh(places, now)).tolist(),
            (there * ages(policy, places, now)).tolist(),
            (np.asarray(law.shape) * np.asarray(law.scale)).tolist(), strict=True,
        )  # fmt: skip
        return {number: CopyFreshness(fresh, age, rate) for number, fresh, age, rate in told}

    def _fill(self, table: ElementTable, start: int, columns: ElementColumns) -> None:
        """Take up elements, with the hints that there are."""
        table.fill(start, columns)
        for place, element in enumerate(columns.id.tolist(), start):
            channel, hints = self._hints.get(element, ("", 0))
            table["channel", place], table["hints", place] = self._channels.number(channel), hints

    def _for(self, elements: int) -> MirrorPolicy:
        """Return what has room for so many."""
        table = ElementTable()
        table.reserve(elements, self._state.learner, self._state.classes)
        return new_policy(self._settings, table, self._channels, self._state)

    def _one(self) -> MirrorPolicy:
        """Return one for this thread, with room for one element."""
        if not hasattr(self._local, "policy"):
            self._local.policy = self._for(1)
        return cast("MirrorPolicy", self._local.policy)
