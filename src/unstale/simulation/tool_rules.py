"""How today's tools decide when to poll again: closed-loop policies, each with its tool's numbers.

A rule keeps an interval for each element, and changes it after each poll by what that poll saw: whether the
element changed since the last poll that succeeded, or for a feed the dates of its entries. It has no budget;
how much it polls is what comes out. A rule that multiplies the interval by a when there was no change, and by
b when there was one, settles where P(change seen) = ln a / (ln a - ln b), so it polls about in proportion to
the change rate. That is worse than polling all elements equally often (Cho & Garcia-Molina 1999, section 5).

The rules are those of the tools' sources; parameters are in seconds, and the defaults are the tools'. Left
out is what belongs to their machinery: rounding to seconds, politeness, what HTTP headers ask for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats, choice, numbers, scalar, whole
from unstale.draws import FATES, PHASES, key_of
from unstale.errors import InvalidInput

from .compiled.tool_rules import (
    HERITRIX,
    NUTCH,
    STORMCRAWLER,
    Feeds,
    PageColumns,
    Readers,
    by_element,
    first_polls,
    follow,
    follow_entries,
    follow_ticks,
    joined,
    phases,
)

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0
_WEEK = 7 * _DAY

_Offsets = NDArray[np.int64]
_Columns = tuple[Floats, Floats, NDArray[np.bool_]]
"""Of visits: when each starts; when it is done; whether it succeeds."""
_Visits = tuple[_Offsets, Floats, Floats, NDArray[np.bool_]]
"""The same, and before them where the visits of each element begin."""


def _check(rule: Rule, *others: str) -> None:
    """Refuse times with which a rule would stand still."""
    for name in ("shortest", "longest", *others):
        scalar(name, getattr(rule, name), above=0)
    if rule.shortest > rule.longest:
        raise InvalidInput(
            f"shortest must be <= longest; shortest is {rule.shortest:g} and longest {rule.longest:g}"
        )
    whole("errors", rule.errors, at_least=1)


@dataclass(frozen=True, kw_only=True)
class Nutch:
    """Apache Nutch: ``AdaptiveFetchSchedule``, with the numbers of nutch-default.xml.

    A change makes the interval ``1 - shrink`` times as long, no change ``1 + grow`` times; the first poll
    leaves it as it is. With delta the time since the last change that was detected, the interval is at least
    delta, and the wait is the interval less ``sync`` times delta; but at least ``1 - sync`` times
    ``shortest``, which matters only if delta is above ``longest``.

    An interval above ``limit`` (Nutch's db.fetch.interval.max) becomes 0.9 ``limit`` after that wait, and the
    next poll cannot tell a change, because what it would compare with is forgotten.

    A poll that fails is repeated after ``retry``. From the ``errors``-th failure in a row on the page counts
    as gone: it is tried again after an interval 1.5 times as long, or 0.9 ``limit`` if that is too long.

    ``DefaultFetchSchedule`` is the same without growing, shrinking and synchronising.

    >>> Nutch(grow=0.0, shrink=0.0, sync=None) == RULES["nutch-default"]
    True
    """

    first: float = 30 * _DAY
    shortest: float = _MINUTE
    longest: float = 365 * _DAY
    grow: float = 0.4
    shrink: float = 0.2
    sync: float | None = 0.3
    limit: float = 90 * _DAY
    retry: float = _DAY
    errors: int = 3

    def __post_init__(self) -> None:
        _check(self, "first", "limit", "retry")
        scalar("grow", self.grow, at_least=0)
        scalar("shrink", self.shrink, at_least=0, below=1)
        if self.sync is not None:
            scalar("sync", self.sync, at_least=0, below=1)

    def in_units(self, unit: float) -> tuple[int, tuple[float, ...]]:
        """Return the number of the rule, and its parameters for units of so many seconds."""
        sync = -1.0 if self.sync is None else self.sync
        return NUTCH, (
            self.first / unit, self.shortest / unit, self.longest / unit, 1.0 + self.grow, 1.0 - self.shrink,
            self.retry / unit, float(self.errors), sync, self.limit / unit,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class StormCrawler:
    """Apache StormCrawler: ``AdaptiveScheduler``, in whole minutes.

    A change makes the interval floor((1 - shrink) interval + shrink shortest), no change floor((1 + grow)
    interval) up to ``longest``; after the first poll it is ``first``. A poll that fails erases the interval
    and what the next poll would be compared with; the next one follows after ``retry``. With the
    ``errors``-th failure in a row the page is never polled again.

    Common Crawl's news-crawl is this rule with other numbers; its elements are feeds, so it starts with the
    interval for feeds.

    >>> RULES["news-crawl"].first / 60
    720.0
    """

    first: float = 1440 * _MINUTE
    shortest: float = 60 * _MINUTE
    longest: float = 20160 * _MINUTE
    grow: float = 0.5
    shrink: float = 0.5
    retry: float = 120 * _MINUTE
    errors: int = 3

    def __post_init__(self) -> None:
        _check(self, "first", "retry")
        scalar("grow", self.grow, at_least=0)
        scalar("shrink", self.shrink, at_least=0, at_most=1)
        for name in ("first", "shortest", "longest"):
            minutes = getattr(self, name) / _MINUTE
            if minutes != int(minutes):
                raise InvalidInput(f"{name} must be whole minutes; {name} is {getattr(self, name)!r} seconds")

    def in_units(self, unit: float) -> tuple[int, tuple[float, ...]]:
        """Return the number of the rule, and its parameters: intervals in minutes, the rest in units."""
        return STORMCRAWLER, (
            self.first / _MINUTE, self.shortest / _MINUTE, self.longest / _MINUTE, 1.0 + self.grow,
            self.shrink, self.retry / unit, float(self.errors), _MINUTE / unit, 0.0,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Heritrix:
    """Heritrix 1: ``WaitEvaluator`` of the adaptive revisit frontier.

    A change divides the interval by ``changed``, no change multiplies it by ``unchanged``, between
    ``shortest`` and ``longest``. A poll that fails changes nothing and is repeated after ``retry``; with the
    ``errors``-th failure in a row the page is never polled again.
    """

    first: float = _DAY
    shortest: float = _HOUR
    longest: float = 28 * _DAY
    unchanged: float = 1.5
    changed: float = 1.5
    retry: float = 15 * _MINUTE
    errors: int = 30

    def __post_init__(self) -> None:
        _check(self, "first", "retry")
        scalar("unchanged", self.unchanged, at_least=1)
        scalar("changed", self.changed, at_least=1)

    def in_units(self, unit: float) -> tuple[int, tuple[float, ...]]:
        """Return the number of the rule, and its parameters for units of so many seconds."""
        return HERITRIX, (
            self.first / unit, self.shortest / unit, self.longest / unit, self.unchanged, self.changed,
            self.retry / unit, float(self.errors), 0.0, 0.0,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Miniflux:
    """Miniflux: ``entry_frequency``, or with ``interval`` its default, ``round_robin``.

    Every ``tick`` the feeds that have been due longest are polled, ``batch`` of them at most; a feed due at a
    tick is taken by it. With n entries dated in the last seven days, those that this poll brings not counted,
    c = ceil(7 d (n - 1) / (newest - oldest)) are expected in a week, and the feed is due again after
    7 d / (c factor), between ``shortest`` and ``longest``; after ``longest`` if n < 2 or the dates are the
    same. A change of an element is an entry of a feed. After ``errors`` failures in a row a feed is never
    polled again.

    The interval is counted from the end of a poll. So as soon as polls take time or come late, a feed with an
    interval of one tick misses the next one and is polled at every second: round_robin with Miniflux's own
    numbers takes two hours (miniflux/v2, issue 2201).
    """

    interval: float | None = None
    factor: float = 1.0
    shortest: float = 5 * _MINUTE
    longest: float = _DAY
    tick: float = _HOUR
    batch: int = 100
    errors: int = 3

    def __post_init__(self) -> None:
        _check(self, "tick")
        scalar("factor", self.factor, above=0)
        whole("batch", self.batch, at_least=1)
        if self.interval is not None:
            scalar("interval", self.interval, above=0)

    @property
    def first(self) -> float:
        """The interval of a feed of which nothing is known."""
        return self.longest if self.interval is None else self.interval

    def in_units(self, unit: float) -> tuple[float, ...]:
        """Return the parameters for units of so many seconds."""
        interval = -1.0 if self.interval is None else self.interval / unit
        return (
            self.tick / unit, float(self.batch), interval, self.shortest / unit, self.longest / unit,
            self.factor, _WEEK / unit, float(self.errors),
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class CommaFeed:
    """CommaFeed: ``FeedRefreshIntervalCalculator``, with empirical intervals.

    The mean gap between the ``entries`` that a feed shows, over ``factor``, from ``shortest`` to a quarter of
    ``longest``; if the newest is a week old, that quarter; two weeks, the half; 30 days, or if there are
    not two entries, ``longest``. How many entries are shown is up to the feed; 10 is what many do. A change
    of an element is an entry of a feed. A poll that fails is repeated after ``shortest``, and from the
    ``errors``-th in a row on after ``backoff``, twice that, and so on.
    """

    shortest: float = 5 * _MINUTE
    longest: float = 4 * _HOUR
    factor: float = 2.0
    entries: int = 10
    errors: int = 3
    backoff: float = _HOUR

    def __post_init__(self) -> None:
        _check(self, "backoff")
        scalar("factor", self.factor, above=0)
        whole("entries", self.entries, at_least=2)

    @property
    def first(self) -> float:
        """The interval of a feed of which nothing is known."""
        return self.longest

    def in_units(self, unit: float) -> tuple[float, ...]:
        """Return the parameters for units of so many seconds."""
        return (
            self.shortest / unit, self.longest / unit, self.factor, _DAY / unit, float(self.errors),
            self.backoff / unit,
        )  # fmt: skip


Rule = Nutch | StormCrawler | Heritrix | Miniflux | CommaFeed

RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "nutch": Nutch(),
        "nutch-default": Nutch(grow=0.0, shrink=0.0, sync=None),
        "stormcrawler": StormCrawler(),
        "news-crawl": StormCrawler(
            first=720 * _MINUTE, shortest=90 * _MINUTE, longest=129600 * _MINUTE, shrink=0.2
        ),
        "heritrix": Heritrix(),
        "miniflux": Miniflux(),
        "miniflux-round-robin": Miniflux(interval=60 * _MINUTE),
        "commafeed": CommaFeed(),
    }
)
"""The rules of tools in use, by name."""


class Following:
    """Elements that a rule polls, from ``start`` on.

    One unit of time lasts ``unit_seconds``. ``conditions`` are how late polls start and how long they take,
    both on average and in units, and the share that fails; a wait begins when the poll before it is done.
    ``first`` says when elements are polled for the first time: after a random share of their first interval
    ("spread"), or all "at-once". Tools do the latter; in the long run it makes no difference.

    >>> following = Following(RULES["heritrix"], 1, unit_seconds=86400, first="at-once")
    >>> offsets, start, done, ok = following.visits(np.array([0, 2]), np.array([0.5, 4.0]), 4.5)
    >>> start                             # unchanged at 1.67 and 2.67, so the wait grows
    array([0.  , 1.  , 1.67, 2.67, 4.17])
    """

    def __init__(
        self,
        rule: Rule,
        count: int,
        *,
        unit_seconds: float,
        conditions: tuple[float, float, float] = (0.0, 0.0, 0.0),
        seed: int = 0,
        first: Literal["spread", "at-once"] = "spread",
        start: float = 0.0,
    ) -> None:
        if not isinstance(rule, Rule):
            raise InvalidInput(f"rule must be a rule, such as one of RULES; rule is {rule!r}")
        n = whole("count", count)
        unit = scalar("unit_seconds", unit_seconds, above=0)
        late, takes, fails = numbers("conditions", conditions, at_least=0).tolist()
        met = (late, takes, scalar("the share that fails", fails, at_most=1))
        seed = whole("seed", seed)
        now = scalar("start", start)
        due = np.zeros(n)
        if choice("first", first, ("spread", "at-once")) == "spread":
            phases(key_of(seed, PHASES), due)
        due = now + due * (rule.first / unit)
        fates = key_of(seed, FATES)
        self._now, self._count = now, n
        self._run: _Ticking | _ElementByElement
        if isinstance(rule, Miniflux):
            self._run = _Ticking(rule, unit, met, fates, due, now)
        elif isinstance(rule, CommaFeed):
            self._run = _following_entries(rule, unit, met, fates, due)
        else:
            self._run = _following_pages(rule, unit, met, fates, due)

    @property
    def now(self) -> float:
        """The moment up to which visits have been made."""
        return self._now

    def __len__(self) -> int:
        return self._count

    def visits(self, offsets: _Offsets, times: Floats, end: float) -> _Visits:
        """Go on to ``end``, which is now afterwards; return the visits that start before it.

        ``times[offsets[i]:offsets[i + 1]]`` are all changes of element i from now on to just before ``end``,
        ascending. The visits come in the same form: offsets, start, done, ok. How time is cut into spans
        makes no difference to them.
        """
        if not end >= self._now:
            raise InvalidInput(f"end must not be before now, which is {self._now:g}; end is {end:g}")
        visits = self._run.visits(offsets, times, self._now, float(end))
        self._now = float(end)
        return visits


class _ElementByElement:
    """A rule that looks at one element at a time; ``follow`` is its compiled loop over all elements."""

    def __init__(self, n: int, follow: Callable[..., tuple[int, int, int]]) -> None:
        self._count, self._follow, self._rate = n, follow, 0.0

    def visits(self, offsets: _Offsets, times: Floats, now: float, end: float) -> _Visits:
        done = partial(self._follow, offsets, times, end)
        visits = _all_of(done, self._count, _room(self._rate, now, end, self._count))
        self._rate = _rate(visits[1].size, now, end)
        return visits


def _following_pages(
    rule: Nutch | StormCrawler | Heritrix,
    unit: float,
    conditions: tuple[float, float, float],
    key: np.uint64,
    due: Floats,
) -> _ElementByElement:
    """Return a rule at work that looks at whether pages changed."""
    n = due.size
    code, constants = rule.in_units(unit)
    pages = PageColumns(
        start=np.empty(n),
        polls=np.zeros(n, np.int64),
        interval=np.full(n, constants[0]),
        changed=np.zeros(n),
        errors=np.zeros(n, np.int32),
        known=np.zeros(n, np.bool_),
        unseen=np.zeros(n, np.bool_),
    )
    first_polls(key, conditions, due, pages.start)
    return _ElementByElement(n, partial(follow, code, constants, conditions, key, pages))


def _following_entries(
    rule: CommaFeed,
    unit: float,
    conditions: tuple[float, float, float],
    key: np.uint64,
    due: Floats,
) -> _ElementByElement:
    """Return CommaFeed at work, which looks at the dates of entries."""
    n = due.size
    readers = Readers(
        start=np.empty(n),
        polls=np.zeros(n, np.int64),
        errors=np.zeros(n, np.int32),
        seen=np.zeros(n, np.int64),
        dates=np.zeros((n, rule.entries)),
        unseen=np.zeros(n, np.int64),
        coming=np.zeros((n, rule.entries)),
    )
    first_polls(key, conditions, due, readers.start)
    return _ElementByElement(n, partial(follow_entries, rule.in_units(unit), conditions, key, readers))


class _Ticking:
    """Miniflux, which takes feeds from one queue."""

    def __init__(
        self,
        rule: Miniflux,
        unit: float,
        conditions: tuple[float, float, float],
        key: np.uint64,
        due: Floats,
        origin: float,
    ) -> None:
        n = due.size
        self._numbers = rule.in_units(unit)
        self._conditions, self._key = conditions, key
        # changes of the week before the last span and of that span, which are the entries that count
        self._week = _WEEK / unit if rule.interval is None else 0.0
        self._kept = np.zeros(n + 1, np.int64), np.empty(0)
        self._feeds = Feeds(
            due=due,
            start=np.full(n, np.inf),
            polls=np.zeros(n, np.int64),
            seen=np.full(n, -np.inf),
            errors=np.zeros(n, np.int32),
        )
        self._origin, self._tick = origin, 1  # the first tick comes one period after the start
        self._rate = 0.0

    def visits(self, offsets: _Offsets, times: Floats, now: float, end: float) -> _Visits:
        n = self._feeds.due.size
        if self._week:
            offsets, times = joined(*self._kept, offsets, times, now - self._week)
        self._tick, elements, *columns = follow_ticks(
            self._numbers, self._conditions, self._key, self._feeds, offsets, times, end, self._tick,
            self._origin, _room(self._rate, now, end, n),
        )  # fmt: skip
        self._kept = offsets, times
        self._rate = _rate(elements.size, now, end)
        begins, order = by_element(elements, n)
        start, done, ok = (column[order] for column in columns)
        return begins, start, done, ok


def _all_of(follow: Callable[..., tuple[int, int, int]], n: int, room: int) -> _Visits:
    """Follow elements to the end of the span, in as much room as it takes."""
    begins = np.empty(n + 1, np.int64)
    out: _Columns = (np.empty(room), np.empty(room), np.empty(room, np.bool_))
    at = (0, -1, 0)
    while True:
        at = follow(begins, out, at)
        reached, _, used = at
        if reached == n:
            start, done, ok = out
            return begins, start[:used], done[:used], ok[:used]
        out = _larger(out, max(int(1.05 * used * n / (reached + 1)), used + used // 2))


def _larger(columns: _Columns, room: int) -> _Columns:
    """Return the columns with more room."""
    start, done, ok = np.empty(room), np.empty(room), np.empty(room, np.bool_)
    used = columns[0].size
    start[:used], done[:used], ok[:used] = columns
    return start, done, ok


def _room(rate: float, now: float, end: float, elements: int) -> int:
    """Guess how many visits there will be, from the rate of the last ones."""
    return int(1.1 * rate * (end - now)) + elements + 64


def _rate(visits: int, now: float, end: float) -> float:
    return visits / (end - now) if end > now else 0.0
