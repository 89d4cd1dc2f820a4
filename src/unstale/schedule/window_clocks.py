"""Clocks that run inside windows only: from time to time worked, and back.

Worked time stands still outside windows and runs faster inside, by as much as makes up for it: in the long
run it goes as fast as time. It jumps at the starts of windows if some polls come there. What is worked at
``t`` is what was worked before it, so that points in [worked(a), worked(b)) are those that come in [a, b).

A time of day is the first moment at which clocks on the wall show it or a later one. So a time that clocks
skip in spring is the moment at which they skip it, and of a time that they show twice in autumn the first
counts. A window of which all is skipped is missing on that day.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from difflib import get_close_matches
from functools import cached_property
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unstale.arguments import Floats, numbers, unwrap
from unstale.errors import InvalidInput, NoAnswer

WEEK_MINUTES = 7 * 24 * 60
"""Minutes."""

Spans = tuple[tuple[float, float], ...]
"""Openings and closings."""

_EPOCH = datetime(1970, 1, 5)  # noqa: DTZ001  (a Monday, on the wall)
_SECOND, _MICROSECOND = timedelta(seconds=1), timedelta(microseconds=1)
_VALUES_PER_BLOCK = 1 << 15
"""Values that are mapped at once: all steps stay in the cache."""


class _Table(NamedTuple):
    """Windows in the order of time, and the time worked before and in each."""

    opens: Floats
    closes: Floats
    before: Floats
    """Worked before each window, and after the last."""
    started: Floats
    """Worked when what comes at the start of each window is done."""
    slope: float
    """Worked per unit of time, inside windows."""

    def worked(self, t: Floats) -> Floats:
        k = np.searchsorted(self.opens, t) - 1  # the last window that opened before t
        most = self.before[k + 1]
        inside = np.minimum(self.started[k] + self.slope * (t - self.opens[k]), most)
        return np.where(t < self.closes[k], inside, most)

    def when(self, v: Floats) -> Floats:
        k = np.minimum(np.searchsorted(self.before, v, "right"), self.opens.size) - 1
        stretch = 1.0 / self.slope if self.slope else 0.0
        t = self.opens[k] + np.maximum(v - self.started[k], 0.0) * stretch
        return np.minimum(t, np.nextafter(self.closes, -np.inf)[k])

    def is_open(self, t: Floats) -> NDArray[np.bool_]:
        k = np.searchsorted(self.opens, t, "right") - 1
        return (k >= 0) & (t < self.closes[k])

    @classmethod
    def of(cls, opens: Floats, closes: Floats, worked: Floats, slope: float, at_start: float) -> _Table:
        """Make one; ``worked`` is the time worked before each window, and after the last."""
        started = worked[:-1] + at_start * np.diff(worked)
        return cls(opens, closes, worked, started, (1.0 - at_start) * slope)


def _mapped(function: Callable[[Floats], NDArray[Any]], name: str, value: ArrayLike) -> NDArray[Any]:
    """Apply a function of finite numbers to an array, block by block; what is infinite stays as it is."""
    x = numbers(name, value, infinite=True)
    flat = np.ravel(x)
    parts = []
    for first in range(0, max(flat.size, 1), _VALUES_PER_BLOCK):
        block = flat[first : first + _VALUES_PER_BLOCK]
        if (finite := np.isfinite(block)).all():
            parts.append(function(block))
        else:
            found = function(np.where(finite, block, 0.0))
            parts.append(np.where(finite, found, block if found.dtype.kind == "f" else False))
    return unwrap(np.concatenate(parts).reshape(x.shape))


_Place = tuple[Floats, NDArray[np.intp]]
"""Windows of a cycle: the number of the period, and that in the period."""


@dataclass(frozen=True)
class CycleClock:
    """The clock of windows that come again in each period; ``spans`` do not overlap.

    >>> from unstale.schedule.windows import Windows
    >>> clock = Windows.every(24, 22, 30).clock()
    >>> clock.worked([0.0, 3.0, 6.0, 22.0, 30.0]).tolist()
    [0.0, 9.0, 18.0, 18.0, 42.0]
    >>> clock.when([9.0, 18.0]).tolist()
    [3.0, 22.0]
    """

    period: float
    spans: Spans
    at_start: float

    def worked(self, t: ArrayLike) -> Floats:
        """Time worked before t, from t = 0 on."""
        return _mapped(self._worked, "t", t)

    def when(self, v: ArrayLike) -> Floats:
        """First moment after which more than ``v`` is worked; it is always inside a window."""

        def moment(v: Floats) -> Floats:
            at = self._holding(v)
            stretch = 1.0 / self.pace if self.pace else 0.0
            t = self._opening(at) + np.maximum(v - self._started(at), 0.0) * stretch
            return np.minimum(t, np.nextafter(self._closing(at), -np.inf))

        return _mapped(moment, "v", v)

    def is_open(self, t: ArrayLike) -> NDArray[np.bool_]:
        """Whether polls are allowed at t."""
        return _mapped(lambda t: t < self._closing(self._opened(t)), "t", t)

    def opens_after(self, t: ArrayLike) -> Floats:
        """First opening of a window at t or later."""
        return _mapped(lambda t: self._opening(self._next(self._opened(t, before=True))), "t", t)

    # --- for `effects` ---

    @property
    def cycle(self) -> CycleClock:
        """The clock itself."""
        return self

    @cached_property
    def pace(self) -> float:
        """Time worked per unit of time, inside windows and after their starts."""
        return (1.0 - self.at_start) * self.period / sum(b - a for a, b in self.spans)

    @cached_property
    def edges(self) -> tuple[Floats, Floats]:
        """Times worked, and moments, at which the windows of one period open, have started and close."""
        k = np.arange(len(self.spans))
        at = np.zeros(k.size), k
        worked = self._before(at), self._started(at), self._before(self._next(at))
        return np.concatenate(worked), np.concatenate(
            [self._opening(at), self._opening(at), self._closing(at)]
        )

    def at_once(self, v: ArrayLike) -> NDArray[np.bool_]:
        """Whether the points at ``v`` come all at the start of a window."""
        return _mapped(lambda v: v < self._started(self._holding(v)), "v", v)

    # --- windows: all is compared with their edges as rounded, so that the methods agree ---

    @cached_property
    def _columns(self) -> tuple[Floats, Floats, Floats, NDArray[np.bool_]]:
        """Openings from the first on, lengths, what is worked before, and whether the next window touches."""
        opens, closes = np.array(self.spans, float).T - self.spans[0][0]
        lengths = closes - opens
        share = lengths / lengths.sum()
        worked = self.period * np.concatenate([[0.0], np.cumsum(share)[:-1]])
        return opens, lengths, worked, closes == np.append(opens[1:], self.period)

    @cached_property
    def _shift(self) -> float:
        """What is worked from the first opening of the first period to t = 0."""
        opens, lengths, worked, _ = self._columns
        periods, since = divmod(-self.spans[0][0], self.period)
        if since == 0.0:
            return periods * self.period
        k = int(np.searchsorted(opens, since)) - 1
        within = lengths[k] * self.period / lengths.sum()
        inside = self.at_start * within + self.pace * (since - opens[k])
        return float(periods * self.period + worked[k] + min(inside, within))

    def _opening(self, at: _Place) -> Floats:
        return self.spans[0][0] + at[0] * self.period + self._columns[0][at[1]]

    def _closing(self, at: _Place) -> Floats:
        following = self._opening(self._next(at))
        closes = np.minimum(self._opening(at) + self._columns[1][at[1]], following)
        return np.where(self._columns[3][at[1]], following, closes)

    def _before(self, at: _Place) -> Floats:
        return at[0] * self.period - self._shift + self._columns[2][at[1]]

    def _started(self, at: _Place) -> Floats:
        before = self._before(at)
        if self.at_start == 0.0:
            return before
        return before + self.at_start * (self._before(self._next(at)) - before)

    def _next(self, at: _Place) -> _Place:
        wraps = at[1] == len(self.spans) - 1
        return at[0] + wraps, np.where(wraps, 0, at[1] + 1)

    def _previous(self, at: _Place) -> _Place:
        wraps = at[1] == 0
        return at[0] - wraps, np.where(wraps, len(self.spans) - 1, at[1] - 1)

    def _last(self, x: Floats, column: Floats, base: float, edge: Callable[[_Place], Floats]) -> _Place:
        """The last window whose edge is at or before x."""
        n = np.floor((x - base) / self.period)
        k = np.zeros(x.shape, np.intp)
        if column.size > 1:
            k += np.maximum(np.searchsorted(column, x - base - n * self.period, "right") - 1, 0)
        at = _moved((n, k), x < edge((n, k)), self._previous)
        return _moved(at, x >= edge(self._next(at)), self._next)

    def _opened(self, t: Floats, *, before: bool = False) -> _Place:
        """The last window that opened at t or before; not at t, if asked."""
        at = self._last(t, self._columns[0], self.spans[0][0], self._opening)
        return _moved(at, t == self._opening(at), self._previous) if before else at

    def _holding(self, v: Floats) -> _Place:
        return self._last(v, self._columns[2], -self._shift, self._before)

    def _worked(self, t: Floats) -> Floats:
        at = self._opened(t, before=True)  # what comes at the start of a window is not yet done then
        most = self._before(self._next(at))
        inside = np.minimum(self._started(at) + self.pace * (t - self._opening(at)), most)
        return np.where(t < self._closing(at), inside, most)


def _moved(at: _Place, some: NDArray[np.bool_], other: Callable[[_Place], _Place]) -> _Place:
    """Exchange some windows for others."""
    if not some.any():
        return at
    there = other(at)
    return np.where(some, there[0], at[0]), np.where(some, there[1], at[1])


@dataclass(frozen=True)
class CalendarClock:
    """The clock of windows in a time zone; ``spans`` are in minutes of the week and do not overlap.

    t = 0 is the ``origin``. Worked time goes as fast as time over years in which as many hours are skipped as
    are shown twice. Openings and closings are looked up as far as they are asked for.

    >>> from unstale.schedule.windows import Windows
    >>> early = Windows.daily("02:00-04:00", zone="Europe/Berlin")
    >>> clock = early.clock(datetime(2024, 3, 30, tzinfo=UTC), unit_seconds=3600)
    >>> clock.opens_after([0.0, 2.0]).tolist()     # on the second day clocks skip from 02:00 to 03:00
    [1.0, 25.0]
    >>> clock.worked([1.0, 3.0, 25.0, 26.0]).tolist()
    [0.0, 24.0, 24.0, 36.0]
    """

    spans: Spans
    zone: str
    at_start: float
    origin: datetime
    unit_seconds: float
    _known: list[tuple[int, int, _Table]] = field(default_factory=list, repr=False, compare=False)

    def __reduce__(self) -> tuple[object, ...]:
        return CalendarClock, (self.spans, self.zone, self.at_start, self.origin, self.unit_seconds)

    def worked(self, t: ArrayLike) -> Floats:
        """Time worked before t, from t = 0 on."""
        return _mapped(lambda t: self._around(t, "opens").worked(t), "t", t)

    def when(self, v: ArrayLike) -> Floats:
        """First moment after which more than ``v`` is worked; it is always inside a window."""
        return _mapped(lambda v: self._around(v, "before").when(v), "v", v)

    def is_open(self, t: ArrayLike) -> NDArray[np.bool_]:
        """Whether polls are allowed at t."""
        return _mapped(lambda t: self._around(t, "opens").is_open(t), "t", t)

    def opens_after(self, t: ArrayLike) -> Floats:
        """First opening of a window at t or later."""

        def opening(t: Floats) -> Floats:
            opens = self._around(t, "opens").opens
            return opens[np.searchsorted(opens, t)]

        return _mapped(opening, "t", t)

    @cached_property
    def cycle(self) -> CycleClock:
        """The clock of a week in which no hour is skipped or shown twice; of a day if all days are alike."""
        spans, count, period = self.spans, len(self.spans), float(WEEK_MINUTES)
        for shorter in range(1, count):
            step = WEEK_MINUTES * shorter / count
            again = [(a + step, b + step) for a, b in spans[: count - shorter]]
            if count % shorter == 0 and tuple(again) == spans[shorter:]:
                spans, period = spans[:shorter], step
                break
        minutes = 60.0 / self.unit_seconds
        return CycleClock(
            period * minutes, tuple((a * minutes, b * minutes) for a, b in spans), self.at_start
        )

    def _around(self, x: Floats, what: str) -> _Table:
        """Return a table that covers these openings, or times worked before windows."""
        low, high = (float(x.min()), float(x.max())) if x.size else (0.0, 0.0)
        first, last, table = self._known[0] if self._known else (0, 0, None)
        week = 7 * 86400 / self.unit_seconds
        while table is None or not getattr(table, what)[0] < low or not high < getattr(table, what)[-1]:
            wanted = np.floor(low / week) - 2, np.ceil(high / week) + 2
            least, most = self._weeks
            if not (least <= wanted[0] and wanted[1] <= most):
                far = low if wanted[0] < least else high
                raise NoAnswer(f"t = {far:g} is beyond the years 2 to 9998; t = 0 is {self.origin:%Y-%m-%d}")
            reach = last - first  # grown by as much as there is, so that many small steps are cheap
            if table is None or not getattr(table, what)[0] < low:
                first = max(least, min(first - reach, int(wanted[0])) - 2)
            if table is None or not high < getattr(table, what)[-1]:
                last = min(most, max(last + reach, int(wanted[1])) + 2)
            table = self._table(first, last)
            self._known[:] = [(first, last, table)]
        return table

    @property
    def _monday(self) -> datetime:
        """The beginning of the week of the origin, on the wall."""
        there = self.origin.astimezone(time_zone(self.zone)).replace(tzinfo=None)
        return there.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=there.weekday())

    @property
    def _weeks(self) -> tuple[int, int]:
        """The first and the last week of the calendar, counted from that of the origin."""
        ends = (datetime(1, 6, 1), datetime(9999, 6, 1))  # noqa: DTZ001  (on the wall)
        least, most = ((end - self._monday).days // 7 for end in ends)
        return least, most

    def _table(self, first: int, last: int) -> _Table:
        """Make the table for some weeks.

        All is counted in whole microseconds from the origin, so that the numbers do not depend on how much
        of the calendar is known.
        """
        zone, monday = time_zone(self.zone), self._monday
        moments = [
            [_moment(monday + timedelta(weeks=week, minutes=minute), zone) for minute in span]
            for week in range(first, last)
            for span in self.spans
        ]
        start = (self.origin.replace(tzinfo=None) - _EPOCH) // _MICROSECOND
        edges = np.array(moments, np.int64) * 1_000_000 - start
        edges = edges[edges[:, 0] < edges[:, 1]]  # some are skipped
        total = np.concatenate([[0], np.cumsum(np.diff(edges, axis=1))])
        total -= total[np.searchsorted(edges[:, 1], 0, "right")]  # from the first window that closes after 0
        share = sum(b - a for a, b in self.spans) / WEEK_MINUTES
        unit = self.unit_seconds * 1e6
        opens, closes = (edges / unit).T
        raw = _Table.of(opens, closes, total / (unit * share), 1.0 / share, self.at_start)
        shift = raw.worked(np.zeros(1))[0]
        return _Table.of(opens, closes, raw.before - shift, 1.0 / share, self.at_start)


def _moment(wall: datetime, zone: tzinfo) -> int:
    """Return the seconds to the first moment at which clocks show this time or a later one."""
    shown = (wall - _EPOCH) // _SECOND
    early, late = (_offset(wall.replace(tzinfo=zone, fold=fold)) for fold in (0, 1))
    if late <= early:  # shown once, or twice and then first with the earlier offset
        return shown - early

    def clocks(second: int) -> int:
        return second + _offset((_EPOCH + second * _SECOND).replace(tzinfo=UTC).astimezone(zone))

    skipped = range(shown - late, shown - early + 1)
    return skipped[bisect_left(skipped, shown, key=clocks)]


def _offset(moment: datetime) -> int:
    return (moment.utcoffset() or timedelta()) // _SECOND


def time_zone(name: str) -> tzinfo:
    """Return the time zone of a name.

    >>> time_zone("Europe/Berlim")
    Traceback (most recent call last):
    unstale.errors.InvalidInput: zone must be a time zone such as 'Europe/Berlin'; zone is 'Europe/Berlim'
    """
    if name == "UTC":
        return UTC  # known without a database
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, not a name, or a directory of names
        known = available_timezones()
    if not known:
        raise InvalidInput(
            f"zone {name!r} cannot be looked up, as there is no database of time zones; pip install tzdata"
        )
    close = get_close_matches(name, sorted(known), 1) or ["Europe/Berlin"]
    raise InvalidInput(f"zone must be a time zone such as {close[0]!r}; zone is {name!r}")
