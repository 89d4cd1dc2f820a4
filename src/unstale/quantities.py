"""Quantities with their units, read from text and written for people.

    1000/day   50/s   1.5/min   1/6h   20MB/h   500KiB/s       an amount of polls or bytes per time
    6h   90s   2 weeks                                         a time
    80%   0.8                                                  a share

Multipliers k, M, G and T are decimal, KiB, MiB, GiB and TiB binary. A year has 365.25 days, and a month is a
twelfth of it.
"""

from __future__ import annotations

import math
import re
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, NoReturn, Self

from .errors import InvalidInput

Kind = Literal["polls", "bytes"]


@dataclass(frozen=True)
class TimeUnit:
    """A unit of time."""

    name: str
    seconds: float


_UNITS = {
    TimeUnit("second", 1.0): ("s", "sec", "secs"),
    TimeUnit("minute", 60.0): ("m", "min", "mins"),
    TimeUnit("hour", 3600.0): ("h", "hr", "hrs"),
    TimeUnit("day", 86400.0): ("d",),
    TimeUnit("week", 604800.0): ("w",),
    TimeUnit("month", 2629800.0): (),
    TimeUnit("year", 31557600.0): ("y", "yr"),
}
_TIME = {
    word: unit for unit, short in _UNITS.items() for word in (unit.name, f"{unit.name}s", *short)
}  # "h", "hour", "hours", ...
_DECIMAL = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_BYTES = {f"{prefix}B": factor for prefix, factor in (_DECIMAL | _BINARY).items()}
_BYTES |= {"byte": 1.0, "bytes": 1.0}
_POLLS = {
    f"{prefix}{noun}": factor for prefix, factor in _DECIMAL.items() for noun in ("", "poll", "polls")
}  # "10k polls" loses its space

LEAST, MOST = 1e-100, 1e100
"""Amounts are 0 or between these, so that their sums and products are finite and not 0."""

_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_FLOW = re.compile(
    rf"({_NUMBER})\s*([A-Za-z]*(?:\s+polls?)?)\s*(?:/|per\b)\s*({_NUMBER})?\s*([A-Za-z]+)", re.ASCII
)
_DURATION = re.compile(rf"({_NUMBER})\s*([A-Za-z]+)", re.ASCII)
_SHARE = re.compile(rf"({_NUMBER})\s*(%?)", re.ASCII)


@dataclass(frozen=True)
class Flow:
    """Polls or bytes per time.

    >>> flow("--budget", "60/h").per(time_unit("--rate-unit", "day"))
    1440.0
    """

    amount: float
    kind: Kind
    unit: TimeUnit

    def per(self, unit: TimeUnit) -> float:
        """Return the amount per another unit of time."""
        return self.amount * (unit.seconds / self.unit.seconds)

    @property
    def per_second(self) -> PerSecond:
        """The amount per second, which remembers its unit."""
        return PerSecond(self.amount / self.unit.seconds, self.unit)

    def __str__(self) -> str:
        """Return it with its unit."""
        return show_flow(self.amount, self.kind, self.unit)


class PerSecond(float):
    """An amount per second that remembers per what time it was written, to be shown like that.

    It is a plain number in every other way; what is computed from it remembers nothing.

    >>> hourly = flow("budget", "3600/h").per_second
    >>> hourly, hourly.unit.name, type(hourly * 2.0).__name__
    (1.0, 'hour', 'float')
    """

    unit: TimeUnit

    def __new__(cls, amount: float, unit: TimeUnit) -> Self:
        """Keep an amount per second, and the unit."""
        self = super().__new__(cls, amount)
        self.unit = unit
        return self

    def __reduce__(self) -> tuple[type[Self], tuple[float, TimeUnit]]:
        """Copy the unit, too."""
        return type(self), (float(self), self.unit)


def flow(name: str, text: str) -> Flow:
    """Read polls or bytes per time.

    >>> flow("--budget", "20MB/h").kind
    'bytes'
    >>> flow("--budget", "20")
    Traceback (most recent call last):
    unstale.errors.InvalidInput: --budget must be an amount per time, such as 1000/day or 20MB/h; it is '20'
    """
    rule = "an amount per time, such as 1000/day or 20MB/h"
    found = _FLOW.fullmatch(text.strip())
    if not found:
        _reject(name, rule, text)
    number, what, count, unit = found.groups()
    what = "".join(what.split())
    if what not in _POLLS and what not in _BYTES:
        _reject(name, rule, text, f"{what!r} is neither polls nor bytes")
    if unit not in _TIME:
        _reject(name, rule, text, f"{unit!r} is no unit of time")
    factor = _POLLS.get(what) or _BYTES[what]
    span = float(count or 1)
    amount = float(number) * factor / span if span else math.inf
    if not math.isfinite(amount):
        _reject(name, rule, text, "it must be finite")
    if not (LEAST <= amount <= MOST or float(number) == 0.0):
        _reject(name, rule, text, "it must be 0, or between 1e-100 and 1e100")
    return Flow(amount, "polls" if what in _POLLS else "bytes", _TIME[unit])


def frequency(name: str, text: str) -> Flow:
    """Read polls per time.

    >>> frequency("--min-frequency", "1/week").amount
    1.0
    """
    got = flow(name, text)
    if got.kind == "bytes":
        _reject(name, "polls per time, such as 1/week or 4/day", text)
    return got


def duration(name: str, text: str) -> float:
    """Read a time, in seconds.

    >>> duration("--age", "6h")
    21600.0
    """
    rule = "a time, such as 90s, 6h, 1.5 days or 2 weeks"
    found = _DURATION.fullmatch(text.strip())
    if not found:
        _reject(name, rule, text)
    number, unit = found.groups()
    if unit not in _TIME:
        _reject(name, rule, text, f"{unit!r} is no unit of time")
    seconds = float(number) * _TIME[unit].seconds
    if not 0 < seconds < math.inf:
        _reject(name, rule, text, "it must be finite and > 0")
    if not LEAST <= seconds <= MOST:
        _reject(name, rule, text, "it must be between 1e-100 and 1e100 seconds")
    return seconds


def share(name: str, text: str) -> float:
    """Read a share of a whole, strictly between nothing and all.

    >>> share("--freshness", "80%")
    0.8
    """
    rule = "a share between 0% and 100%, such as 80% or 0.8"
    found = _SHARE.fullmatch(text.strip())
    if not found:
        _reject(name, rule, text)
    number = 0.0
    with suppress(ArithmeticError):  # an exponent of seventy digits
        number = float(Decimal(found[1]) / (100 if found[2] else 1))  # 99.9% is 0.999, not a little more
    if not 0 < number < 1:
        _reject(name, rule, text)
    return number


def time_unit(name: str, text: str) -> TimeUnit:
    """Read a unit of time.

    >>> time_unit("--rate-unit", "h").name
    'hour'
    """
    if text.strip() not in _TIME:
        _reject(name, f"a unit of time ({', '.join(unit.name for unit in _UNITS)})", text)
    return _TIME[text.strip()]


def _reject(name: str, rule: str, text: str, why: str = "") -> NoReturn:
    raise InvalidInput(f"{name} must be {rule}; it is {text!r}" + (f", and {why}" if why else ""))


def show_number(value: float) -> str:
    """Return a number with three digits or more, as people write it.

    >>> [show_number(x) for x in (0.0, 0.01234, 12.345, 1234567.8, 1e20, float("inf"))]
    ['0', '0.0123', '12.3', '1,234,568', '1e+20', 'unbounded']
    """
    if math.isinf(value):
        return "unbounded"
    return f"{value:,.0f}" if 999.5 <= abs(value) < 1e15 else f"{value:.3g}"


def show_flow(amount: float, kind: Kind, unit: TimeUnit) -> str:
    """Return an amount per time with its unit.

    >>> day = time_unit("--rate-unit", "day")
    >>> show_flow(1000.0, "polls", day), show_flow(2e7, "bytes", day)
    ('1,000 polls/day', '20 MB/day')
    """
    if kind == "polls":
        return f"{show_number(amount)} {'poll' if amount == 1 else 'polls'}/{unit.name}"
    for prefix, factor in reversed(list(_DECIMAL.items())):
        if prefix != "K" and (amount >= factor or not prefix):
            return f"{show_number(amount / factor)} {prefix}B/{unit.name}"
    raise AssertionError  # pragma: no cover


def show_duration(seconds: float) -> str:
    """Return a time in the unit that suits it.

    >>> [show_duration(x) for x in (0.25, 90.0, 3600.0, 1e4, 1e6, 1e9, float("inf"))]
    ['250 ms', '90 seconds', '1 hour', '2.78 hours', '11.6 days', '31.7 years', 'unbounded']
    """
    if math.isinf(seconds):
        return "unbounded"
    if 0 < seconds < 1:
        return f"{show_number(seconds * 1e3)} ms"
    for unit in (_TIME["year"], _TIME["day"], _TIME["hour"], _TIME["minute"]):
        if show_number(seconds / unit.seconds) == "1":
            return f"1 {unit.name}"
        if seconds >= 1.9995 * unit.seconds:
            return f"{show_number(seconds / unit.seconds)} {unit.name}s"
    return f"{show_number(seconds)} second" + ("s" if seconds != 1 else "")


def show_share(value: float) -> str:
    """Return a share in per cent.

    >>> show_share(0.8), show_share(0.99996), show_share(1 - 1e-16)
    ('80.0%', '99.996%', '99.999999999999%')
    """
    if 0.9995 <= value < 1:  # not yet all
        digits = min(1 - math.floor(math.log10(100 * (1 - value))), 12)
        return f"{min(100 * value, 99.999999999999):.{digits}f}".rstrip("0") + "%"
    return f"{value:.1%}"
