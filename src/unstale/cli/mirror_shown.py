"""How the commands of the mirror write moments, spans, rates, shares and bytes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from unstale.quantities import TimeUnit, show_duration, show_flow, show_number, show_share, time_unit

from .times import show_moment

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "as_moment", "distance", "in_json", "plural", "print_item", "print_pairs", "show_budget", "show_interval",
    "show_outcomes", "show_polls", "show_rate", "show_size", "show_time",
]  # fmt: skip

_RATE_UNITS = tuple(
    time_unit("unit", name) for name in ("second", "minute", "hour", "day", "week", "month", "year")
)
_MOMENTS = frozenset({"added", "blocked_until", "last", "modified", "next_poll", "not_before", "now", "time"})
"""Names of fields that are seconds since 1970."""
_OUTCOMES = ("new", "changed", "unchanged", "gone", "refused", "failed")


def plural(count: int, noun: str) -> str:
    """Return so many of something.

    >>> plural(1, "element"), plural(1234, "element")
    ('1 element', '1,234 elements')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def show_time(seconds: float) -> str:
    """Return a moment, in UTC.

    >>> show_time(0.0), show_time(float("nan"))
    ('1970-01-01 00:00:00 UTC', 'never')
    """
    if not math.isfinite(seconds):
        return "never"
    try:
        return show_moment(datetime.fromtimestamp(seconds, UTC))
    except (OverflowError, OSError, ValueError):
        return "never"


def as_moment(seconds: float | None) -> str | None:
    """Return a moment for JSON, or None.

    >>> as_moment(0.5), as_moment(float("inf"))
    ('1970-01-01T00:00:00.500000Z', None)
    """
    if seconds is None or not math.isfinite(seconds):
        return None
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return None
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


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
    span = show_duration(float(round(abs(gap))) if abs(gap) < 120 else abs(gap))
    return f"in {span}" if gap > 0 else f"{span} ago"


def show_size(size: float) -> str:
    """Return a number of bytes.

    >>> show_size(0), show_size(1234), show_size(5e6), show_size(float("nan"))
    ('0 B', '1.23 kB', '5 MB', 'unknown')
    """
    if not math.isfinite(size):
        return "unknown"
    return show_flow(size, "bytes", TimeUnit("x", 1.0)).removesuffix("/x")


def show_rate(per_second: float, low: float | None = None, high: float | None = None) -> str:
    """Return a change rate in the unit that suits it, with its interval.

    >>> show_rate(2 / 86400), show_rate(1 / 86400, 0.5 / 86400, 3 / 86400), show_rate(0.0)
    ('2 changes/day', '1 change/day (0.5 to 3)', '0 changes/year')
    """
    unit = next((one for one in _RATE_UNITS if per_second * one.seconds >= 0.9995), _RATE_UNITS[-1])
    number = show_number(per_second * unit.seconds)
    text = f"{number} change{'' if number == '1' else 's'}/{unit.name}"
    if low is None or high is None:
        return text
    return f"{text} ({show_number(low * unit.seconds)} to {show_number(high * unit.seconds)})"


def show_budget(polls: float | None, traffic: float | None) -> str:
    """Return a budget per day, from what it is per second.

    >>> show_budget(1000 / 86400, None), show_budget(None, None)
    ('1,000 polls/day', 'no limit')
    """
    day = time_unit("unit", "day")
    parts = [] if polls is None else [show_flow(polls * day.seconds, "polls", day)]
    parts += [] if traffic is None else [show_flow(traffic * day.seconds, "bytes", day)]
    return " and ".join(parts) or "no limit"


def show_polls(per_second: float) -> str:
    """Return how many polls are possible, in the unit that suits it.

    >>> show_polls(0.8), show_polls(1.0), show_polls(1 / 7200)
    ('48 polls/minute', '1 poll/second', '12 polls/day')
    """
    units = [time_unit("unit", name) for name in ("second", "minute", "hour", "day")]
    unit = next((one for one in units if per_second * one.seconds >= 0.9995), units[-1])
    number = show_number(per_second * unit.seconds)
    return f"{number} poll{'' if number == '1' else 's'}/{unit.name}"


def show_interval(value: float, low: float, high: float) -> str:
    """Return a share with its interval.

    >>> show_interval(0.8, 0.75, 0.84), show_interval(float("nan"), 0.0, 1.0)
    ('80.0% (75.0% to 84.0%)', 'unknown')
    """
    if not math.isfinite(value):
        return "unknown"
    return f"{show_share(value)} ({show_share(low)} to {show_share(high)})"


def show_outcomes(counts: Mapping[str, int]) -> str:
    """Return how many polls saw what.

    >>> show_outcomes({"unchanged": 5, "changed": 1}), show_outcomes({})
    ('6 polls: 1 changed, 5 unchanged', 'no polls')
    """
    known = {name: counts[name] for name in (*_OUTCOMES, *counts) if counts.get(name)}
    if not known:
        return "no polls"
    parts = ", ".join(f"{count:,} {name}" for name, count in known.items())
    return f"{plural(sum(known.values()), 'poll')}: {parts}"


def print_pairs(out: Console, pairs: Iterable[tuple[str, str]]) -> None:
    """Print names and values, aligned; a long value goes on below itself."""
    import textwrap

    pairs = list(pairs)
    margin = max(len(name) for name, _ in pairs) + 2
    room = max(min(out.width, 100) - margin, 20)
    for name, value in pairs:
        lines = textwrap.wrap(value, room, break_long_words=False, break_on_hyphens=False) or [""]
        out.print(f"{name:{margin}}" + f"\n{' ' * margin}".join(lines), soft_wrap=True)


def print_item(out: Console, text: str, indent: int = 2) -> None:
    """Print an entry of a list; where it does not fit, it goes on below, a little further in."""
    import textwrap

    lines = textwrap.wrap(
        text,
        min(out.width, 100),
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + 2),
        break_long_words=False,
        break_on_hyphens=False,
    )
    out.print("\n".join(lines), soft_wrap=True)


def in_json(value: object) -> object:
    """Return a record as JSON has it: dataclasses are objects, keys are texts, moments are in UTC."""
    from dataclasses import fields, is_dataclass

    if is_dataclass(value) and not isinstance(value, type):
        entries = {field.name: getattr(value, field.name) for field in fields(value)}
        return {
            name: as_moment(entry) if name in _MOMENTS else in_json(entry) for name, entry in entries.items()
        }
    if isinstance(value, Mapping):
        return {str(key): in_json(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [in_json(entry) for entry in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return value.item() if hasattr(value, "item") else str(value)
