"""Lines of access logs: what they say, or why they cannot be read.

Lines that cannot be read are not fatal: a reader gets accesses and complaints, each of a line and a reason.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple

from unstale.tables.schema import moment

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Requests:
    """Which requests count, and what the key of an element is."""

    methods: frozenset[str] = frozenset({"GET", "HEAD"})
    """None for any."""
    statuses: frozenset[int] = frozenset({2, 3})
    """First digits; none for any."""
    queries: bool = True
    """Keep what follows a question mark."""
    prefix: str = ""
    """To be put before each key."""

    def counts(self, method: str, status: str) -> bool:
        """Tell whether a request counts; what is not known does."""
        if method and self.methods and method not in self.methods:
            return False
        return not (status[:1].isdigit() and self.statuses) or int(status[0]) in self.statuses

    def key_of(self, target: str) -> str:
        """Return the key of what was asked for."""
        return self.prefix + (target if self.queries else target.partition("?")[0])

    def for_kernel(self) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """Return methods and statuses as `compiled_logs.scan` takes them."""
        import numpy as np

        names = sorted(name.encode() for name in self.methods)
        methods = np.zeros((len(names), max(map(len, names), default=0) + 1), np.uint8)
        for row, name in zip(methods, names, strict=True):
            row[: len(name)] = np.frombuffer(name, np.uint8)
        return methods, np.isin(np.arange(1000) // 100, list(self.statuses or range(10)))


class Access(NamedTuple):
    """One access, or several at once."""

    key: str
    time: float
    user: str = ""
    times: float = 1.0


class Complaint(NamedTuple):
    """Why a line cannot be read."""

    line: int
    reason: str


# --- the common and combined log format ---------------------------------------------------------------------

_LINE = re.compile(
    rb'(?P<who>.*?) \[(?P<time>[^\]]{0,100})\] "(?P<request>(?:[^"\\]++|\\.)*+)" (?P<status>\d{3})(?: |$)',
    re.DOTALL,
)
_CLOCK = re.compile(
    r"(\d{2})/([A-Z][a-z]{2})/(\d{4}):(\d{2}):(\d{2}):(\d{2})(\.\d+)?(?: ([+-])(\d{2}):?(\d{2}))?", re.ASCII
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def said_by(line: bytes, requests: Requests) -> Access | str | None:
    """Return the access of a line in common or combined format, a reason why it has none, or None.

    None is for a request that does not count.

    >>> line = b'192.0.2.7 - - [31/Jan/2026:12:00:00 +0100] "GET /page?id=7 HTTP/1.1" 200 5120 "-" "agent"'
    >>> said_by(line, Requests(queries=False))
    Access(key='/page', time=1769857200.0, user='192.0.2.7', times=1.0)
    >>> said_by(b"hello", Requests())
    'no time in brackets'
    """
    found = _LINE.match(line)
    if not found:
        return _missing(line)
    time = instant(found["time"].decode("ascii", "replace"))
    if time is None:
        return f"{shown(found['time'])} is no time"
    method, target = request_parts(found["request"])
    if not target or not requests.counts(method or "-", found["status"].decode()):
        return None
    who = found["who"].split(b" ")
    user = who[-1] if who[-1] != b"-" else who[max(len(who) - 3, 0)]
    return Access(requests.key_of(text_of(target)), time, text_of(user))


def _missing(line: bytes) -> str:
    bracket = line.find(b" [")
    if bracket < 0 or b"]" not in line[bracket:]:
        return "no time in brackets"
    if line.find(b'] "', bracket) < 0 or line.count(b'"', bracket) < 2:
        return "no request in quotes"
    return "no status of three digits after the request"


def request_parts(request: bytes) -> tuple[str, bytes]:
    """Return the method and the target of a request.

    >>> request_parts(b"GET /a page HTTP/1.1"), request_parts(b"GET /page"), request_parts(b"-")
    (('GET', b'/a page'), ('GET', b'/page'), ('-', b''))
    """
    method, _, rest = request.partition(b" ")
    last = rest.rfind(b" ", 0, max(len(rest) - 5, 0))
    if last >= 0 and rest.startswith(b" HTTP/", last):
        rest = rest[:last]
    elif rest.startswith(b"HTTP/"):
        rest = b""
    return text_of(method), rest


def text_of(text: bytes) -> str:
    """Return text; bytes that are not UTF-8 are written as logs write them, with a backslash."""
    return text.decode("utf-8", "backslashreplace")


def shown(text: object) -> str:
    """Return some text for a complaint, shortened."""
    said = repr(text_of(text)) if isinstance(text, bytes) else repr(text)
    return said if len(said) <= 40 else f"{said[:30]}...{said[-5:]}"


# --- times --------------------------------------------------------------------------------------------------


def instant(value: object) -> float | None:
    """Return the seconds from 1970 to a time of a log, or None.

    Numbers beyond 1e11 are milliseconds, and so on: seconds would be in a distant future.

    >>> instant("31/Jan/2026:12:00:00 +0100") == instant("2026-01-31T11:00:00Z") == instant(1769857200000)
    True
    """
    if isinstance(value, bool):
        return None
    try:
        seconds = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return _clock(value.strip()) if isinstance(value, str) else None
    if not isfinite(seconds) or abs(seconds) >= 1e20:
        return None
    for unit in (1e17, 1e14, 1e11):
        if abs(seconds) >= unit:
            return seconds / (unit / 1e8)
    return seconds


def _clock(text: str) -> float | None:
    found = _CLOCK.fullmatch(text)
    if not found:
        return moment(text)
    day, month, year, hour, minute, second, part, sign, ahead, past = found.groups()
    if month not in _MONTHS:
        return None
    zone = UTC
    try:
        if sign:
            shift = timedelta(hours=int(ahead), minutes=int(past))
            zone = timezone(shift if sign == "+" else -shift)
        leap = int(second) == 60
        date = int(year), _MONTHS.index(month) + 1, int(day)
        time = datetime(*date, int(hour), int(minute), 59 if leap else int(second), tzinfo=zone)
    except ValueError:
        return None
    return time.timestamp() + leap + float(part or 0)
