"""Options that say when: moments, spans of time that may be nothing, and windows."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from unstale import quantities
from unstale.errors import InvalidInput
from unstale.quantities import TimeUnit
from unstale.tables import moment

from .options import Quantity

if TYPE_CHECKING:
    from unstale.schedule import WindowClock

_NOTHING = re.compile(r"0+(\.0*)?\s*[a-z]*", re.ASCII)


def span_or_nothing(name: str, text: str) -> float:
    """Read a time in seconds, which may be 0.

    >>> span_or_nothing("--burn-in", "0"), span_or_nothing("--burn-in", "2 days")
    (0.0, 172800.0)
    """
    return 0.0 if _NOTHING.fullmatch(text.strip()) else quantities.duration(name, text)


def read_moment(name: str, text: str) -> datetime:
    """Read a moment, in UTC unless it says otherwise.

    >>> read_moment("--start", "2026-01-31T12:00+01:00").isoformat()
    '2026-01-31T11:00:00+00:00'
    """
    seconds = moment(text)
    if seconds is None:
        raise InvalidInput(
            f"{name} must be a moment, such as 2026-01-31 or 2026-01-31T12:00Z; it is {text!r}"
        )
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        raise InvalidInput(
            f"{name} must be a moment in the years 1 to 9999, in UTC; it is {text!r}"
        ) from None


MOMENT = Quantity("MOMENT", read_moment)


def moment_or_seconds(name: str, text: str) -> float:
    """Read a moment as in a history: seconds, or a timestamp."""
    try:
        seconds = float(text)
    except ValueError:
        return read_moment(name, text).timestamp()
    if not -1e11 <= seconds <= 1e11:
        raise InvalidInput(f"{name} must be from -1e11 to 1e11 seconds, or a timestamp; it is {text!r}")
    return seconds


def show_moment(when: datetime) -> str:
    """Return a moment to the second.

    >>> show_moment(datetime(2026, 1, 31, 12, 0, 0, 5, UTC))
    '2026-01-31 12:00:00 UTC'
    """
    return f"{when:%Y-%m-%d %H:%M:%S} UTC"


def check_jitter(order: str, jitter: float | None) -> None:
    """Refuse jitter where polls come at random times anyway."""
    if jitter is not None and order != "fixed":
        raise InvalidInput(f"--jitter cannot be combined with --order {order}, which needs none")


def window_clock(text: str, begin: datetime | None, unit: TimeUnit) -> WindowClock:
    """Return the clock of windows, for a time 0 at ``begin`` and this unit of time."""
    from unstale.schedule.windows import Windows

    try:
        windows = Windows.parse(text)
    except InvalidInput as error:
        raise InvalidInput(str(error).replace("windows", "--window", 1)) from None
    return windows.clock(begin, unit.seconds)
