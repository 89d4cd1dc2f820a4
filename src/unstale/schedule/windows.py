"""Windows: when polls are allowed, by the hours of a day, the days of a week or any other period.

Windows become a clock, which maps time to *time worked* and back; a schedule of points in worked time
polls inside windows only, and as often as was asked (see `unstale.schedule.window_clocks`).

``at_start`` is the share of a window's polls that come all at its start; the others are spread evenly over
the window. These are the options of Cho & Garcia-Molina (1999), section 3, item 4: Figure 5 has a day with
all polls at its start, with most of them at its start, and with none.

Windows that overlap are one. Windows that only touch are two, each with its own start.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from unstale.arguments import numbers, scalar
from unstale.errors import InvalidInput

from .element_clocks import AllHours
from .window_clocks import WEEK_MINUTES, CalendarClock, CycleClock, Spans, time_zone

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY_MINUTES = 24 * 60
_EXAMPLE_WINDOWS = "mon-fri 22:00-06:00 Europe/Berlin"


@dataclass(frozen=True)
class Windows:
    """When polls are allowed; made by `daily`, `every` or `parse`.

    ``spans`` are the openings and closings within a ``period``: in minutes of the week if there is a time
    zone, else in the caller's unit of time.

    >>> nights = Windows.daily("22:00-06:00", days="mon-fri", zone="Europe/Berlin")
    >>> str(nights), round(nights.share, 3)
    ('mon-fri 22:00-06:00 Europe/Berlin', 0.238)
    >>> clock = nights.clock(datetime(2024, 1, 1, tzinfo=UTC), unit_seconds=3600.0)    # a Monday
    >>> float(clock.when(0.0))     # 22:00 in Berlin
    21.0
    """

    spans: Spans
    period: float
    zone: str | None = None
    at_start: float = 0.0

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "period", scalar("period", self.period, above=0))
        put(self, "at_start", scalar("at_start", self.at_start, at_least=0, at_most=1))
        if not self.spans:
            raise InvalidInput(
                "windows must not be empty; give at least one, or none at all for polls at any time"
            )
        for opens, closes in self.spans:
            if not (0.0 <= opens < self.period and opens < closes <= opens + self.period):
                raise InvalidInput(
                    f"a window must open in [0, {self.period:g}) and close later, within {self.period:g}; "
                    f"it opens at {opens:g} and closes at {closes:g}"
                )
        put(self, "spans", tuple(sorted(set(self.spans))))
        if self.at_start > 0 and self._merged is None:
            raise InvalidInput(
                f"at_start must be 0 if windows overlap all the time; at_start is {self.at_start:g}"
            )
        if self.zone is not None:
            time_zone(self.zone)

    @classmethod
    def daily(cls, hours: str, *, zone: str, days: str = "all", at_start: float = 0.0) -> Windows:
        """Return windows at certain hours, on certain days, in a time zone.

        Parameters
        ----------
        hours
            Such as "22:00-06:00, 12:00-13:00". Hours over midnight belong to the day on which they begin.
        zone
            The name of a time zone.
        days
            Such as "mon-fri" or "sat,sun".
        at_start
            The share of the polls of a window that come all at once when it opens.

        Examples
        --------
        >>> str(Windows.daily("22:00-06:00, 12:00-13:00", zone="UTC", days="sat,sun"))
        'sat,sun 12:00-13:00,22:00-06:00 UTC'
        """
        return cls(tuple(_spans(days, hours)), WEEK_MINUTES, _text("zone", zone), at_start)

    @classmethod
    def every(cls, period: float, opens: ArrayLike, closes: ArrayLike, *, at_start: float = 0.0) -> Windows:
        """Return windows without a calendar, in the caller's unit of time.

        Parameters
        ----------
        period
            The time after which windows repeat.
        opens, closes
            When windows open and close within the period; there may be several.
        at_start
            The share of the polls of a window that come all at once when it opens.

        Examples
        --------
        >>> str(Windows.every(24, 22, 30))
        'every 24 from 22 to 30'
        """
        first, last = (np.atleast_1d(numbers(*each)) for each in (("opens", opens), ("closes", closes)))
        if first.ndim != 1 or first.shape != last.shape:
            raise InvalidInput(
                f"opens and closes must be of one length; they have shapes {first.shape} and {last.shape}"
            )
        return cls(tuple(zip(first.tolist(), last.tolist(), strict=True)), period, None, at_start)

    @classmethod
    def parse(cls, text: str) -> Windows:
        """Return windows from their text, for one line of a command or a file.

        >>> Windows.parse("mon-fri 22:00-06:00; sat,sun 00:00-24:00 Europe/Berlin at_start=0.5").at_start
        0.5
        >>> Windows.parse("mon-fri 22:00-06:00")
        Traceback (most recent call last):
        unstale.errors.InvalidInput: windows must be like 'mon-fri 22:00-06:00 Europe/Berlin';
            in 'mon-fri 22:00-06:00' there is no time zone
        """
        try:
            return _parsed(_text("text", text))
        except InvalidInput as error:
            raise InvalidInput(f"windows must be like {_EXAMPLE_WINDOWS!r}; in {text!r} {error}") from None

    def __str__(self) -> str:
        ending = f" at_start={_short(self.at_start)}" if self.at_start else ""
        if self.zone is None:
            spans = "".join(f" from {_short(opens)} to {_short(closes)}" for opens, closes in self.spans)
            return f"every {_short(self.period)}{spans}{ending}"
        days: dict[str, list[str]] = {}
        for day, name in enumerate(_DAYS):
            own = (span for span in self.spans if span[0] // _DAY_MINUTES == day)
            if hours := ",".join(
                f"{_hour(a % _DAY_MINUTES)}-{_hour(b - a // _DAY_MINUTES * _DAY_MINUTES)}" for a, b in own
            ):
                days.setdefault(hours, []).append(name)
        rules = (f"{_joined_days(names)} {hours}" for hours, names in days.items())
        return f"{'; '.join(rules)} {self.zone}{ending}"

    @property
    def share(self) -> float:
        """Share of time that is inside windows, in the long run."""
        return min(1.0, sum(b - a for a, b in self._merged or [(0.0, self.period)]) / self.period)

    @cached_property
    def _merged(self) -> Spans | None:
        """The windows of one period, none of which overlap; None if they overlap all the time."""
        found: list[tuple[float, float]] = []
        for opens, closes in self.spans:
            if found and opens < found[-1][1]:
                found[-1] = found[-1][0], max(closes, found[-1][1])
            else:
                found.append((opens, closes))
        while found[-1][1] - self.period > found[0][0]:  # the last one runs into the first of the next period
            opens, closes = found.pop()
            if not found:
                return None
            found[0] = opens - self.period, max(closes - self.period, found[0][1])
        return tuple(found)

    def clock(
        self, origin: datetime | None = None, unit_seconds: float | None = None
    ) -> AllHours | CycleClock | CalendarClock:
        """Return the clock of these windows.

        With a time zone it must be told which moment t = 0 is, and how many seconds the caller's unit of time
        has. Without one, t = 0 is the beginning of a period, and neither is needed.
        """
        if self.zone is not None:
            origin = _origin(origin)
            unit_seconds = scalar("unit_seconds", unit_seconds, above=0)  # type: ignore[arg-type]  # refuses None
        if self._merged is None or (self.share == 1.0 and self.at_start == 0.0):
            return AllHours()
        if self.zone is None or origin is None or unit_seconds is None:
            return CycleClock(self.period, self._merged, self.at_start)
        return CalendarClock(self._merged, self.zone, self.at_start, origin, unit_seconds)


def _origin(origin: datetime | None) -> datetime:
    if not isinstance(origin, datetime) or origin.utcoffset() is None:
        shown = origin.isoformat() if isinstance(origin, datetime) else repr(origin)
        raise InvalidInput(
            "origin must be the moment of t = 0, with a time zone, such as datetime(2024, 1, 1, tzinfo=UTC); "
            f"origin is {shown}"
        )
    return origin.astimezone(UTC)


# --- text ---------------------------------------------------------------------------------------------------


def _parsed(text: str) -> Windows:
    words = re.sub(r"\s*,\s*", ",", text).replace(";", " ; ").split()
    at_start = 0.0
    if words and words[-1].startswith("at_start="):
        at_start = _number("at_start", words.pop().removeprefix("at_start="))
    if words[:1] == ["every"]:
        given: dict[str, tuple[float, ...]] = {"from": (), "to": ()}
        period = _number("period", words[1]) if len(words) > 1 else 0.0
        for word, value in zip(words[2::2], words[3::2], strict=False):
            given[word] = (*given.get(word, ()), _number(word, value))
        if len(words) % 2 or len(given) != 2:
            raise InvalidInput("there is something else than 'every PERIOD from OPENING to CLOSING'")
        return Windows.every(period, given["from"], given["to"], at_start=at_start)
    zone = "" if not words or ":" in words[-1] or _are_days(words[-1]) else words.pop()
    if not zone:
        raise InvalidInput("there is no time zone")
    spans: list[tuple[float, float]] = []
    for rule in " ".join(words).split(";"):
        days, _, hours = rule.strip().rpartition(" ")
        spans += _spans(days or "all", hours)
    return Windows(tuple(spans), WEEK_MINUTES, zone, at_start)


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput(
            f"{name} must be a text; it is {value!r}" if value != "" else f"{name} must not be empty"
        )
    return value.strip()


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"{name} must be a number; it is {text!r}") from None


def _spans(days: str, hours: str) -> list[tuple[float, float]]:
    """Openings and closings in minutes of the week."""
    own = _hours(_text("hours", hours))
    return [
        (day * _DAY_MINUTES + a, day * _DAY_MINUTES + b)
        for day in _numbers_of(_text("days", days))
        for a, b in own
    ]


def _hours(text: str) -> list[tuple[int, int]]:
    found = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d\d?):(\d\d)\s*-\s*(\d\d?):(\d\d)\s*", part, re.ASCII)
        times = [int(number) for number in match.groups()] if match else [99] * 4
        opens, closes = times[0] * 60 + times[1], times[2] * 60 + times[3]
        if max(times[1], times[3]) > 59 or opens >= _DAY_MINUTES or closes > _DAY_MINUTES or opens == closes:
            rest = "; the whole day is 00:00-24:00" if match and opens == closes else ""
            raise InvalidInput(
                f"hours must be like '22:00-06:00' or '22:00-06:00, 12:00-13:00'; they are {text!r}{rest}"
            )
        found.append((opens, closes if closes > opens else closes + _DAY_MINUTES))
    return found


def _are_days(text: str) -> bool:
    return all(part.split("-")[0].lower() in (*_DAYS, "all") for part in text.split(","))


def _numbers_of(days: str) -> list[int]:
    if days.lower() == "all":
        return list(range(7))
    found = []
    for part in days.lower().split(","):
        ends = [name.strip() for name in part.split("-")]
        if len(ends) > 2 or any(name not in _DAYS for name in ends):
            raise InvalidInput(f"days must be like 'mon-fri', 'sat,sun' or 'all'; they are {days!r}")
        first, last = _DAYS.index(ends[0]), _DAYS.index(ends[-1])
        found += [(first + i) % 7 for i in range((last - first) % 7 + 1)]
    return found


def _joined_days(names: Sequence[str]) -> str:
    if len(names) == 7:
        return "all"
    first, last = _DAYS.index(names[0]), _DAYS.index(names[-1])
    if len(names) > 2 and last - first + 1 == len(names):
        return f"{names[0]}-{names[-1]}"
    return ",".join(names)


def _hour(minute: float) -> str:
    day, rest = divmod(int(minute), _DAY_MINUTES)
    return "24:00" if day and not rest else f"{rest // 60:02}:{rest % 60:02}"


def _short(number: float) -> str:
    return repr(number).removesuffix(".0")
