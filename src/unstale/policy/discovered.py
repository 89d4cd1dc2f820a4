"""What lists have discovered: its share of the budget, and whose turn it is.

A list (a feed, a sitemap, a folder) may name more elements than the budget can ever poll, and may do so on
purpose. So polls of elements without a copy are shared out by the list that a user named: each has as many
turns as each other, and those that users named themselves count as one list. While a list has many elements
that nobody has seen yet, all that it named stands back behind the others: a poll of them is worth a
millionth. They live on the turns for new elements then, and on what the others leave, however many they are
and however often they change. When nearly all of them have been seen, they are worth what any element is.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats

from .element_table import NEW, ElementTable, Places
from .ranking import leading_within

_CHOICES_BETWEEN_COUNTS = 12
"""Choices for which one count of the elements of each list serves."""
_FEW_UNSEEN_ELEMENTS = 10
"""Elements without a poll that a list may always have."""
_UNSEEN_SHARE = 0.1
"""Share of the elements of a list that may be without a poll, besides."""
STANDING_BACK_FACTOR = 1e-6
"""What the worth of a poll is multiplied by."""

Free = Callable[[NDArray[np.integer]], NDArray[np.int64]]


class ListShares:
    """How many turns lists have had, and which of them stand back."""

    def __init__(self, table: ElementTable) -> None:
        self._table = table
        self._counted = (0, 0)
        """Choices since elements were counted, and how many elements there were."""
        self._back = np.zeros(0, np.bool_)
        """Of each list, whether what it named stands back."""
        self.back_count = 0
        """How many elements do."""
        self._lists = np.empty(0, np.intp)
        """Places of the lists that stand back: they do so themselves."""
        self._turns = np.zeros(0)
        """First polls that each list has had."""
        self._least = 0.0
        """The fewest that one had of those that waited last."""

    def count(self) -> None:
        """Count anew, before a choice, how many elements of each list nobody has seen, if it is time to."""
        table, (choices, size) = self._table, self._counted
        lists = len(table.lists)
        if lists == 1:  # users have named all there is
            return
        if size == len(table) and 0 < choices < _CHOICES_BETWEEN_COUNTS and self._back.size == lists:
            self._counted = choices + 1, size
            return
        self._counted = 1, len(table)
        total = np.bincount(table["list"][table.present], minlength=lists)
        unseen = np.bincount(table["list"][(table["state"] == NEW) & table.wanted], minlength=lists)
        before, self._back = self._back, unseen > _FEW_UNSEEN_ELEMENTS + _UNSEEN_SHARE * total
        self._back[0] = False
        numbers = np.array(list(table.lists))[self._back]
        self._lists = table.places(table.known(numbers.tolist()))
        if not (total[~self._back].sum() > self._lists.size):
            self._back[:] = False  # there is nobody for whom to stand back
        self.back_count = int(total[self._back].sum())
        if not np.array_equal(before, self._back):
            table.look_again()

    def stand_back(self, places: Places) -> NDArray[np.bool_]:
        """Tell which elements stand back."""
        if not self._back.any():
            return np.zeros(places.size, np.bool_)
        return self._back[self._table["list"][places]] | np.isin(places, self._lists)

    def others(self) -> Places:
        """Return the elements that do not stand back."""
        wanted = np.flatnonzero(self._table.wanted)
        return wanted[~self.stand_back(wanted)]

    def first_polls(self, new: Places, count: int, free: Free) -> Places:
        """Return elements without a copy in the order in which lists take turns; about ``count`` of them.

        Of each list those with most weight come first, then those that have been there longest, and of no
        group more than are ``free``.
        """
        table = self._table
        if len(table.lists) == 1 or not new.size:
            return new[self._leading(new, count, free)]
        waiting, which, counts = np.unique(table["list"][new], return_inverse=True, return_counts=True)
        if waiting.size == 1:
            return new[self._leading(new, count, free)]
        had = self._turns_of(waiting)
        self._least = float(had.min())
        parts = np.split(np.argsort(which, kind="stable"), np.cumsum(counts)[:-1])
        several = count if waiting.size <= 8 else max(16, 4 * count // waiting.size)
        chosen, turn = [], []
        for k in np.argsort(had, kind="stable")[:count].tolist():
            best = new[parts[k]][self._leading(new[parts[k]], several, free)]
            chosen.append(best)
            turn.append(had[k] + np.arange(best.size))
        return np.concatenate(chosen)[np.argsort(np.concatenate(turn), kind="stable")]

    def chose(self, places: Places) -> None:
        """Take in which elements without a copy are polled now."""
        if len(self._table.lists) > 1 and places.size:
            lists = self._table["list"][places]
            self._turns_of(lists)
            np.add.at(self._turns, lists, 1.0)

    def _turns_of(self, lists: NDArray[np.integer]) -> Floats:
        """Return how many turns lists that wait have had, not fewer than anybody had who waited before."""
        if (more := len(self._table.lists) - self._turns.size) > 0:
            self._turns = np.concatenate([self._turns, np.zeros(more)])
        self._turns[lists] = np.maximum(self._turns[lists], self._least)
        return self._turns[lists]

    def _leading(self, new: Places, count: int, free: Free) -> Places:
        table = self._table
        weight = table["weight"][new].astype(np.float64)
        return leading_within(weight, table["added"][new], table["group"][new], count, free)
