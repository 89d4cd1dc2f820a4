"""Replicas: several mirrors of the same elements that take turns, each with a budget of its own.

Readers may ask any of them, so what counts is the freshest copy. Replicas that poll each for itself often
poll at about the same time; if they take turns, their polls are as good as those of one mirror with all their
budgets. So the worth of a poll counts from the last poll that any replica made, and the one whose turn it is,
the next by number after the one that polled last, values it in full. For others it is worth half: they step
in, somewhat later, if that one does not come.

Reference: Li, Cline & Loguinov (INFOCOM 2015), section VI-D.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unstale.arguments import Floats

from .element_table import ElementTable, Places

_OUT_OF_TURN_FACTOR = 0.5
"""Share of the worth of a poll for a replica whose turn it is not."""


@dataclass
class ReplicaTurns:
    """Which of several replicas this one is; polls of the others are in columns of the table."""

    table: ElementTable
    number: int = 1
    """From 1 on."""
    count: int = 1

    def heard(self, element: int, time: float, number: int) -> None:
        """Take in that another replica has polled an element."""
        if not self.table.has([element])[0]:
            return
        place = int(self.table.places([element])[0])
        if time > self.table["elsewhere"][place]:
            self.table["elsewhere", place], self.table["replica", place] = time, number
            self.table.touch(np.array([place]))

    def since(self, places: Places, since: Floats, now: float) -> Floats:
        """Return the time since the last poll that any replica made."""
        if self.count == 1:
            return since
        return np.minimum(since, np.maximum(now - self.table["elsewhere"][places], 0.0))

    def factors(self, places: Places) -> Floats | float:
        """Return by what worths of polls are multiplied: 1 where it is the turn of this replica."""
        if self.count == 1:
            return 1.0
        elsewhere, last = self.table["elsewhere"][places], self.table["last"][places]
        next_one = self.table["replica"][places] % self.count + 1 == self.number
        turn = np.isneginf(elsewhere) | ((elsewhere > last) & next_one)
        return np.where(turn, 1.0, _OUT_OF_TURN_FACTOR)
