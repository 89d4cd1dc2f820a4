"""A calendar of when elements are worth looking at: what is due costs something, what is not costs nothing.

Days of the calendar are spans of time; the further ahead, the longer they are. When a span begins whose days
are long, what is in it is entered anew, into shorter ones. So each element is touched a few times between two
looks at it, however far apart they are, and never in between.

An element may be entered again while it is in the calendar. What counts is the moment that the column says:
an entry that lies on another day than that is left out when its day comes.
"""

from __future__ import annotations

from math import isfinite

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats

_Places = NDArray[np.intp]
_BITS = 6
"""Days of the next length are 2 to this power times as long; so many of each length lie ahead."""
_LENGTHS = 8
_MOST = 2.0 ** (_BITS * _LENGTHS - 2)
"""Shortest days from the beginning on; what lies beyond is never looked at."""
_STALE_SHARE = 2.0
"""Entries for each element, from which on those that count no more are cleared out."""


class LookCalendar:
    """When elements are looked at again.

    Parameters
    ----------
    start
        The moment at which it begins.
    day
        The shortest span of time that it tells apart.

    >>> calendar, look = LookCalendar(0.0, day=1.0), np.array([0.5, 3.0, 1e6])
    >>> calendar.enter(np.arange(3), look)
    >>> calendar.turn(2.0, look).tolist(), calendar.turn(4.0, look).tolist()
    ([0], [1])
    """

    def __init__(self, start: float, day: float) -> None:
        self.day = day
        self.start = start
        self._today = 0
        """Days up to this one, counted in the shortest, have been turned."""
        self._days: list[dict[int, list[NDArray[np.int32]]]] = [{} for _ in range(_LENGTHS)]
        """By length, and by number: the elements that are entered there."""
        self._count = 0

    def is_full(self, elements: int) -> bool:
        """Tell whether most of its entries may count no more."""
        return self._count > _STALE_SHARE * elements + 1000

    @property
    def until(self) -> float:
        """The moment up to which what is due has been taken out."""
        return self.start + self.day * self._today

    def enter(self, places: _Places, look: Floats) -> None:
        """Enter elements, which are looked at again at these moments; inf: never."""
        ever = look < self.start + _MOST * self.day
        if not ever.all():
            places, look = places[ever], look[ever]
        if not places.size:
            return
        number = self._number(look)
        length = self._length(number)
        number >>= _BITS * length
        code = number * _LENGTHS + length
        order = np.argsort(code, kind="stable")
        starts = np.flatnonzero(np.diff(code[order], prepend=-1))
        for some in np.split(order, starts[1:]):
            days = self._days[int(length[some[0]])]
            days.setdefault(int(number[some[0]]), []).append(places[some].astype(np.int32))
        self._count += places.size

    def turn(self, end: float, look: Floats) -> _Places:
        """Return elements that are due before a moment, some of them twice; they are entered no more.

        ``look``: of all elements the moments that count now.
        """
        if not isfinite(end):
            return np.empty(0, np.intp)
        today = int(self._number(np.array([end]))[0]) + 1
        if today <= self._today:
            return np.empty(0, np.intp)
        self._today = today
        due = []
        for length in reversed(range(_LENGTHS)):
            days, last = self._days[length], (today - 1) >> _BITS * length
            begun = [number for number in days if number <= last]
            for number in begun:
                places = np.concatenate(days.pop(number)).astype(np.intp)
                self._count -= places.size
                moments = look[places]
                places = places[(self._number(moments) >> _BITS * length) == number]
                later = self._number(look[places]) >= today
                due.append(places[~later])
                self.enter(places[later], look[places[later]])
        return np.concatenate(due) if due else np.empty(0, np.intp)

    def _number(self, look: Floats) -> NDArray[np.int64]:
        """Return the numbers of the shortest days on which moments lie; -1 before the first."""
        with np.errstate(invalid="ignore", over="ignore"):
            found = np.floor((look - self.start) / self.day)
        return np.clip(found, -1.0, _MOST).astype(np.int64)

    def _length(self, number: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return which length the days have on which elements are entered that are looked at then."""
        ahead = np.maximum(number - self._today, 1)
        return np.minimum(np.log2(ahead).astype(np.int64) // _BITS, _LENGTHS - 1)
