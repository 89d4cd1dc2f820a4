"""How moments, spans, amounts and rates are written for people: each with its unit, and short."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from .quantities import PerSecond, TimeUnit, show_flow, show_number, time_unit

_UNITS = tuple(
    time_unit("unit", name) for name in ("second", "minute", "hour", "day", "week", "month", "year")
)
_SECOND, _DAY = time_unit("unit", "second"), time_unit("unit", "day")
_FAST_POLLS_PER_DAY = 200_000.0
"""Polls a day from which on a budget reads better per second."""


def plural(count: float, noun: str) -> str:
    """Return a count with its noun.

    >>> plural(1, "element"), plural(1234, "element"), plural(0.5, "access")
    ('1 element', '1,234 elements', '0.5 accesses')
    """
    shown = f"{count:,.0f}" if count == round(count) else show_number(count)
    return f"{shown} {noun_after(count, noun)}"


def noun_after(count: float, noun: str) -> str:
    """Return a noun as it stands after a number.

    >>> noun_after(1, "change"), noun_after(0.5, "change"), noun_after(2, "access"), noun_after(3, "copy")
    ('change', 'changes', 'accesses', 'copies')
    """
    if count == 1:
        return noun
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith("s") else f"{noun}s"


def show_time(seconds: float) -> str:
    """Return a moment, in UTC.

    >>> show_time(0.0), show_time(float("nan")), show_time(1e300)
    ('1970-01-01 00:00:00 UTC', 'never', 'never')
    """
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, OSError, ValueError):
        return "never"


def distance(seconds: float, now: float) -> str:
    """Return how far a moment is from now.

    >>> distance(100.0, 160.0), distance(280.0, 100.0), distance(float("nan"), 0.0), distance(5.0, 5.1)
    ('1 minute ago', 'in 3 minutes', 'never', 'now')
    """
    if not math.isfinite(seconds):
        return "never"
    gap = seconds - now
    if abs(gap) < 1:
        return "now"
    return f"in {_about(gap)}" if gap > 0 else f"{_about(-gap)} ago"


def _about(seconds: float) -> str:
    """Return a span in the unit that suits it, in about two digits.

    >>> [_about(x) for x in (59.6, 60.0, 5000.0, 8000.0, 2e5, 1e7, 1e9)]
    ['60 seconds', '1 minute', '83 minutes', '2.2 hours', '2.3 days', '116 days', '32 years']
    """
    for unit, seconds_of in (("year", 31557600.0), ("day", 86400.0), ("hour", 3600.0), ("minute", 60.0)):
        value = seconds / seconds_of
        if value >= 2.0 or abs(value - 1.0) < 0.005:
            text = f"{value:.1f}".removesuffix(".0") if value < 9.95 else f"{value:,.0f}"
            return f"{text} {unit}{'' if text == '1' else 's'}"
    return f"{seconds:.0f} second{'' if round(seconds) == 1 else 's'}"


def show_first_copies(done: int, total: int, seconds: float) -> str:
    """Return how far it is with first copies.

    >>> show_first_copies(16, 60, 40.0), show_first_copies(0, 1200, math.inf), show_first_copies(3, 4, 0.2)
    ('16 of 60, about 40 seconds left', '0 of 1,200', '3 of 4, about 1 second left')
    """
    left = f", about {_about(max(seconds, 1.0))} left" if math.isfinite(seconds) else ""
    return f"{done:,} of {total:,}{left}"


def show_reserve(level: float, polls: float, traffic: float) -> str:
    """Return what is in reserve: polls, bytes or both (nan: none of these), and the share of it that is left.

    >>> show_reserve(0.94, 940.2, math.nan), show_reserve(0.5, math.nan, 5e6)
    ('940 polls (94 % of it)', '5 MB (50 % of it)')
    """
    parts = [] if math.isnan(polls) else [plural(math.floor(polls), "poll")]
    parts += [] if math.isnan(traffic) else [show_size(traffic)]
    return f"{' and '.join(parts)} ({level:.0%} of it)".replace("% of", " % of")


def show_size(size: float) -> str:
    """Return a number of bytes.

    >>> show_size(0), show_size(1234), show_size(5e6), show_size(float("nan"))
    ('0 B', '1.23 kB', '5 MB', 'unknown')
    """
    if not math.isfinite(size):
        return "unknown"
    return show_flow(size, "bytes", TimeUnit("x", 1.0)).removesuffix("/x")


def show_rate(per_second: float, noun: str = "change") -> str:
    """Return how often something happens, in the unit that suits it.

    >>> show_rate(2 / 86400), show_rate(0.0), show_rate(float("nan")), show_rate(0.8, "poll")
    ('2 changes/day', '0 changes/year', 'unknown', '48 polls/minute')
    """
    if not math.isfinite(per_second):
        return "unknown"
    unit = _unit(per_second)
    text = show_number(per_second * unit.seconds)
    return f"{text} {noun}{'' if text == '1' else 's'}/{unit.name}"


def show_rate_interval(per_second: float, low: float, high: float) -> str:
    """Return the interval of a rate, in the unit of the rate.

    >>> show_rate_interval(2 / 86400, 1 / 86400, 4 / 86400)
    '1 to 4'
    """
    if not math.isfinite(per_second):
        return "unknown"
    unit = _unit(per_second)
    return f"{show_number(low * unit.seconds)} to {show_number(high * unit.seconds)}"


def _unit(per_second: float) -> TimeUnit:
    return next((one for one in _UNITS if per_second * one.seconds >= 0.9995), _UNITS[-1])


def amount_unit(per_second: float, *others: float) -> TimeUnit:
    """Return per what time polls or bytes are shown: as the first was written that remembers it.

    >>> amount_unit(1.0).name, amount_unit(50.0).name
    ('day', 'second')
    >>> from unstale.quantities import flow
    >>> amount_unit(flow("budget", "3600/h").per_second).name, amount_unit(0.1, 50.0).name
    ('hour', 'second')
    """
    amounts = (per_second, *others)
    for one in amounts:
        if isinstance(one, PerSecond):
            return one.unit
    most = max(amounts)
    return _SECOND if math.isfinite(most) and most * _DAY.seconds > _FAST_POLLS_PER_DAY else _DAY


def byte_unit(*per_second: float) -> TimeUnit:
    """Return per what time bytes are shown: as the first was written that remembers it, or a day."""
    return next((one.unit for one in per_second if isinstance(one, PerSecond)), _DAY)


def show_amount(per_second: float, kind: str = "polls", unit: TimeUnit | None = None) -> str:
    """Return polls or bytes per time.

    >>> show_amount(1000 / 86400), show_amount(50.0), show_amount(float("nan"))
    ('1,000 polls/day', '50 polls/second', 'unknown')
    >>> from unstale.quantities import flow
    >>> show_amount(flow("budget", "3600/h").per_second), show_amount(flow("x", "20MB/h").per_second, "bytes")
    ('3,600 polls/hour', '20 MB/hour')
    """
    if math.isnan(per_second):
        return "unknown"
    if math.isinf(per_second):
        return "no limit"
    if kind == "bytes":
        unit = byte_unit(per_second) if unit is None else unit
        return show_flow(per_second * unit.seconds, "bytes", unit)
    unit = amount_unit(per_second) if unit is None else unit
    return show_flow(per_second * unit.seconds, "polls", unit)


def show_budget(polls: float | None, traffic: float | None) -> str:
    """Return a budget from what it is per second.

    >>> show_budget(1000 / 86400, None), show_budget(None, None)
    ('1,000 polls/day', 'no limit')
    """
    parts = [] if polls is None else [show_amount(polls)]
    parts += [] if traffic is None else [show_amount(traffic, "bytes")]
    return " and ".join(parts) or "no limit"


def show_price(price: float, objective: str) -> str:
    """Return what a poll must be worth: time that copies are fresh, times weight; or time times days of age.

    If polls are shared by a policy that has no objective, its name stands for one.

    >>> show_price(2510.0, "freshness"), show_price(35.0, "age"), show_price(float("nan"), "age")
    ('2,510 s', '35 s\u00b7day', 'unknown')
    >>> show_price(3.0, "proportional")
    '3 expected changes'
    """
    unit = {"age": "s\u00b7day", "proportional": "expected changes"}.get(objective, "s")
    return "unknown" if math.isnan(price) else f"{show_number(price)} {unit}"
