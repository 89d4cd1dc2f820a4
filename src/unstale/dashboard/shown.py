"""How pages write moments, spans, amounts and shares: each with its unit, and short."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from urllib.parse import quote

from markupsafe import Markup

from ..quantities import TimeUnit, show_duration, show_flow, show_number, show_share, time_unit

__all__ = [
    "FILTERS", "ago", "amount_unit", "budget", "bytes_of", "coded", "copy_address", "count", "duration",
    "moment", "number", "per_time", "percent", "plural", "rate", "rate_interval", "stamp",
]  # fmt: skip

_RATE_UNITS = tuple(
    time_unit("unit", name) for name in ("second", "minute", "hour", "day", "week", "month", "year")
)
_SECOND, _DAY = time_unit("unit", "second"), time_unit("unit", "day")
_FAST = 200_000.0
"""Polls a day from which on a budget reads better per second."""


def stamp(seconds: float) -> str:
    """Return a moment in UTC.

    >>> stamp(0.0), stamp(float("nan")), stamp(1e300)
    ('1970-01-01 00:00:00 UTC', 'never', 'never')
    """
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, OSError, ValueError):
        return "never"


def ago(seconds: float, now: float) -> str:
    """Return how far a moment is from now.

    >>> ago(100.0, 160.0), ago(280.0, 100.0), ago(float("nan"), 0.0), ago(5.0, 5.1)
    ('1 minute ago', 'in 3 minutes', 'never', 'now')
    """
    if not math.isfinite(seconds):
        return "never"
    gap = seconds - now
    if abs(gap) < 1:
        return "now"
    span = _about(abs(gap))
    return f"in {span}" if gap > 0 else f"{span} ago"


def _about(seconds: float) -> str:
    """Return a span as one would say it, in two digits or so.

    >>> [_about(x) for x in (59.6, 60.0, 5000.0, 8000.0, 2e5, 1e7, 1e9)]
    ['60 seconds', '1 minute', '83 minutes', '2.2 hours', '2.3 days', '116 days', '32 years']
    """
    for unit, seconds_of in (("year", 31557600.0), ("day", 86400.0), ("hour", 3600.0), ("minute", 60.0)):
        value = seconds / seconds_of
        if value >= 2.0 or abs(value - 1.0) < 0.005:
            text = f"{value:.1f}".removesuffix(".0") if value < 9.95 else f"{value:,.0f}"
            return f"{text} {unit}{'' if text == '1' else 's'}"
    return f"{seconds:.0f} second{'' if round(seconds) == 1 else 's'}"


def moment(seconds: float | None, now: float | None = None) -> Markup:
    """Return a moment as an element: how far it is from now, and when that was.

    >>> moment(0.0, 60.0)
    Markup('<time datetime="1970-01-01T00:00:00Z" title="1970-01-01 00:00:00 UTC">1 minute ago</time>')
    """
    if seconds is None or stamp(seconds) == "never":
        return Markup("never")
    text = stamp(seconds) if now is None else ago(seconds, now)
    iso = f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(iso, stamp(seconds), text)


def percent(value: float, digits: int = 1) -> str:
    """Return a share in per cent.

    >>> percent(0.7134), percent(1.0), percent(float("nan")), percent(0.5, 0)
    ('71.3 %', '100 %', 'unknown', '50 %')
    """
    if not math.isfinite(value):
        return "unknown"
    if value in {0.0, 1.0}:
        return f"{100 * value:.0f} %"
    if digits == 1 and 0.9995 <= value < 1:
        return show_share(value).replace("%", " %")
    return f"{100 * value:.{digits}f} %"


def number(value: float) -> str:
    """Return a number, or that there is none.

    >>> number(12.345), number(float("nan"))
    ('12.3', 'unknown')
    """
    return "unknown" if math.isnan(value) else show_number(value)


def duration(seconds: float) -> str:
    """Return a span of time.

    >>> duration(90.0), duration(float("nan")), duration(0.0)
    ('90 seconds', 'unknown', '0 seconds')
    """
    return "unknown" if math.isnan(seconds) else show_duration(max(seconds, 0.0))


def bytes_of(size: float) -> str:
    """Return a number of bytes.

    >>> bytes_of(1234), bytes_of(float("nan"))
    ('1.23 kB', 'unknown')
    """
    return (
        show_flow(size, "bytes", TimeUnit("x", 1.0)).removesuffix("/x") if math.isfinite(size) else "unknown"
    )


def rate(per_second: float) -> str:
    """Return a change rate in the unit that suits it.

    >>> rate(2 / 86400), rate(0.0), rate(float("nan"))
    ('2 changes/day', '0 changes/year', 'unknown')
    """
    if not math.isfinite(per_second):
        return "unknown"
    unit = next((one for one in _RATE_UNITS if per_second * one.seconds >= 0.9995), _RATE_UNITS[-1])
    text = show_number(per_second * unit.seconds)
    return f"{text} change{'' if text == '1' else 's'}/{unit.name}"


def rate_interval(per_second: float, low: float, high: float) -> str:
    """Return the interval of a change rate, in the unit of the rate.

    >>> rate_interval(2 / 86400, 1 / 86400, 4 / 86400)
    '1 to 4'
    """
    if not math.isfinite(per_second):
        return "unknown"
    unit = next((one for one in _RATE_UNITS if per_second * one.seconds >= 0.9995), _RATE_UNITS[-1])
    return f"{show_number(low * unit.seconds)} to {show_number(high * unit.seconds)}"


def amount_unit(per_second: float) -> TimeUnit:
    """Return the unit of time in which polls at such a rate are told.

    >>> amount_unit(1.0).name, amount_unit(50.0).name
    ('day', 'second')
    """
    return _SECOND if math.isfinite(per_second) and per_second * _DAY.seconds > _FAST else _DAY


def per_time(per_second: float, kind: str = "polls", unit: TimeUnit | None = None) -> str:
    """Return polls or bytes per time.

    >>> per_time(1000 / 86400), per_time(50.0), per_time(float("nan"))
    ('1,000 polls/day', '50 polls/second', 'unknown')
    """
    if math.isnan(per_second):
        return "unknown"
    if math.isinf(per_second):
        return "no limit"
    if kind == "bytes":
        return show_flow(per_second * _DAY.seconds, "bytes", _DAY)
    unit = amount_unit(per_second) if unit is None else unit
    return show_flow(per_second * unit.seconds, "polls", unit)


def budget(polls: float | None, traffic: float | None) -> str:
    """Return a budget from what it is per second.

    >>> budget(1000 / 86400, None), budget(None, None)
    ('1,000 polls/day', 'no limit')
    """
    parts = [] if polls is None else [per_time(polls)]
    parts += [] if traffic is None else [per_time(traffic, "bytes")]
    return " and ".join(parts) or "no limit"


def count(value: int) -> str:
    """Return a whole number.

    >>> count(1234567)
    '1,234,567'
    """
    return f"{value:,}"


def plural(value: int, noun: str) -> str:
    """Return so many of something.

    >>> plural(1, "poll"), plural(2000, "poll")
    ('1 poll', '2,000 polls')
    """
    return f"{value:,} {noun}{'' if value == 1 else 's'}"


def copy_address(key: str) -> str:
    """Return where the copy of an element is read.

    >>> copy_address("https://example.org/?a=b")
    '/copies/https%3A%2F%2Fexample.org%2F%3Fa%3Db'
    """
    return f"/copies/{quote(key, safe='')}"


def coded(text: str) -> Markup:
    """Return text with what is between backticks as code.

    >>> coded("a `<b>`")
    Markup('a <code>&lt;b&gt;</code>')
    """
    parts = text.split("`")
    wraps = (Markup("{}"), Markup("<code>{}</code>"))
    return Markup().join(wraps[n % 2].format(part) for n, part in enumerate(parts))


FILTERS = {
    "moment": moment, "ago": ago, "percent": percent, "number": number, "duration": duration,
    "bytes": bytes_of, "rate": rate, "rate_interval": rate_interval, "per_time": per_time, "count": count,
    "plural": plural, "copy_address": copy_address, "coded": coded,
}  # fmt: skip
"""By the names that templates use."""
