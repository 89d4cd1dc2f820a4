"""Dates that documents, folders and tables tell: when something changed, as the other side writes it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime

_SHORT = re.compile(r"(\d{4})(?:-(\d{2}))?")
_MOST_CHANGES, _CHANGE_SECONDS = 50, 60.0
"""Changes that are told of, at most; what has changed within so many seconds is one change."""
_DAY_SECONDS = 86400.0


def moment_of(text: str) -> float | None:
    """Return the time of a date in seconds since 1970; None if it is not a date. Without a zone it is UTC.

    >>> moment_of("2024-05-01T12:00:00+02:00"), moment_of("1970"), moment_of("yesterday")
    (1714557600.0, 0.0, None)
    """
    text = text.strip()
    if short := _SHORT.fullmatch(text):
        text = f"{short[1]}-{short[2] or '01'}-01"
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def to_the_minute(moment: float | None) -> float | None:
    """Return a moment, unless it is that of a day: such a date does not say when on that day.

    >>> to_the_minute(1714557600.0), to_the_minute(1714521600.0)
    (1714557600.0, None)
    """
    return moment if moment and moment > 0 and moment % _DAY_SECONDS else None


def change_times(times: Iterable[float | None]) -> tuple[float, ...]:
    """Return when a whole changed, the last time first, by the times at which its parts changed last.

    >>> change_times([100.0, None, 90.0, 500.0])
    (500.0, 100.0)
    """
    found: list[float] = []
    for time in sorted({time for time in times if time is not None and time > 0}, reverse=True):
        if not found or found[-1] - time >= _CHANGE_SECONDS:
            found.append(time)
    return tuple(found[:_MOST_CHANGES])
