"""From values to places in a chart, and where its ticks are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from math import ceil, floor, log10

_LARGEST_DRAWN = 1e290
"""What is larger is not drawn."""
_STEPS_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200)
_STEPS_DAYS = (1, 2, 7, 14, 30, 60, 90, 180, 365, 730, 1825, 3650, 36500)
_SPANS_SECONDS = (1e-9, 1e-6, 1e-3, 0.01, 0.1, 1.0, 10.0, 60.0, 600.0, 3600.0, 36000.0)
_LONG_SPANS_SECONDS = tuple(86400.0 * 10.0**n for n in range(8))
"""Seconds that people would choose on a logarithmic scale, about ten times apart."""
_MORE_SPANS_SECONDS = (
    *(0.02, 0.05, 0.2, 0.5, 2.0, 5.0, 30.0, 120.0, 300.0, 1800.0, 7200.0, 18000.0),
    *(2 * 86400.0, 5 * 86400.0),
)
"""More of them, for scales on which there is room."""
_TIME_STEPS_SECONDS = (*_STEPS_SECONDS, *(86400 * days for days in _STEPS_DAYS))


@dataclass(frozen=True)
class Scale:
    """Where a value is between two ends, as a share of the way.

    >>> Scale(0.0, 50.0)(20.0), Scale(1.0, 100.0, log=True)(10.0), Scale(3.0, 3.0)(3.0)
    (0.4, 0.5, 0.5)
    """

    low: float
    high: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return the share, between 0 and 1 whatever the value; a scale without extent has one place."""
        low, high = self.low, self.high
        if not high > low:
            return 0.5
        if self.log:
            low, high, value = log10(low), log10(high), log10(max(value, self.low))
        middle = 0.5 * low + 0.5 * high
        half = 0.5 * high - 0.5 * low  # the difference of two huge numbers may be beyond all numbers
        if not half > 0:  # nor is half of the least number there is above 0
            return 0.5
        return min(max(0.5 + 0.5 * ((value - middle) / half), 0.0), 1.0)


def fitting(
    values: Iterable[float], *, least: float = 0.0, floor_at: float | None = None, top: float | None = None
) -> Scale:
    """Return a scale with some air around values, of an extent of at least ``least``.

    >>> fitting([0.62, 0.71], least=0.1, floor_at=0.0, top=1.0)
    Scale(low=0.6, high=0.725, log=False)
    >>> fitting([])
    Scale(low=0.0, high=1.0, log=False)
    """
    known = [value for value in values if abs(value) < _LARGEST_DRAWN]
    if not known:
        return Scale(0.0, 1.0)
    low, high = min(known), max(known)
    short = max(least, 1e-9 * max(abs(low), abs(high)), 1e-300) - (high - low)
    if short > 0:
        low, high = low - short / 2, high + short / 2
    step = _step(high / 4 - low / 4) / 2
    low, high = floor(low / step) * step, ceil(high / step) * step
    if floor_at is not None:
        low = max(low, floor_at)
    if top is not None:
        high = min(high, top)
    return Scale(_tidy(low), _tidy(high)) if high > low else Scale(low - 0.5, low + 0.5)


def log_fitting(values: Iterable[float]) -> Scale:
    """Return a logarithmic scale with some air around the values that are above 0.

    >>> log_fitting([1.0, 100.0, 0.0])
    Scale(low=0.8, high=125.0, log=True)
    >>> log_fitting([])
    Scale(low=1.0, high=10.0, log=True)
    """
    known = [value for value in values if 1.0 / _LARGEST_DRAWN < value < _LARGEST_DRAWN]
    if not known:
        return Scale(1.0, 10.0, log=True)
    return Scale(_tidy(0.8 * min(known)), _tidy(1.25 * max(known)), log=True)


def _step(about: float) -> float:
    """Return 1, 2, 2.5 or 5 times a power of ten, no less than this (as far as there are such numbers)."""
    power = 10.0 ** max(floor(log10(max(about, 1e-300))), -300)
    return next(
        (factor * power for factor in (1.0, 2.0, 2.5, 5.0) if factor * power >= about * 0.9999), 10 * power
    )


def _tidy(value: float) -> float:
    return float(f"{value:.15g}")


def ticks(scale: Scale, count: int = 4) -> list[float]:
    """Return round values on a scale, in order.

    >>> ticks(Scale(0.0, 1.0)), ticks(Scale(0.6, 0.75), 3)
    ([0.0, 0.25, 0.5, 0.75, 1.0], [0.6, 0.65, 0.7, 0.75])
    """
    if not scale.high > scale.low:
        return [scale.low]
    about = scale.high / count - scale.low / count
    if not about > 1e-12 * max(abs(scale.low), abs(scale.high)):  # no room for a number between them
        return [scale.low, scale.high]
    step = _step(about)
    first, last = ceil(scale.low / step - 1e-6), floor(scale.high / step + 1e-6)
    if last - first > 10 * count:  # too far from 0 for steps that small
        return [scale.low, scale.high]
    return [_tidy(number * step) for number in range(first, last + 1)]


def log_ticks(scale: Scale, count: int = 5) -> list[float]:
    """Return round values on a logarithmic scale: powers of ten, with 2 and 5 times them if they are few.

    >>> log_ticks(Scale(80.0, 3000.0, log=True)), log_ticks(Scale(1.0, 1e9, log=True), 4)
    ([100.0, 200.0, 500.0, 1000.0, 2000.0], [1.0, 1000.0, 1000000.0, 1000000000.0])
    """
    low, high = floor(log10(scale.low)), ceil(log10(scale.high))
    for factors in ((1.0, 2.0, 5.0), (1.0, 3.0), (1.0,)):
        found = [_tidy(f * 10.0**p) for p in range(low, high + 1) for f in factors]
        found = [value for value in found if scale.low * 0.9999 <= value <= scale.high * 1.0001]
        if len(found) <= count + 1:
            return found or [scale.low, scale.high]
    return found[:: ceil((len(found) - 1) / (count - 1))]


def duration_ticks(scale: Scale, count: int = 5) -> list[float]:
    """Return spans on a logarithmic scale of seconds that people would choose: 10 seconds, 1 minute, 1 hour.

    >>> duration_ticks(Scale(0.5, 100.0, log=True))
    [0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0]
    >>> duration_ticks(Scale(0.5, 100000.0, log=True))
    [1.0, 10.0, 60.0, 600.0, 3600.0, 36000.0, 86400.0]
    """
    wide = [*_SPANS_SECONDS, *_LONG_SPANS_SECONDS]
    for some in (sorted((*wide, *_MORE_SPANS_SECONDS)), wide):
        found = [value for value in some if scale.low * 0.9999 <= value <= scale.high * 1.0001]
        if len(found) <= count + 2:
            break
    if len(found) < 2:
        return log_ticks(scale, count)
    return found[:: ceil(len(found) / (count + 2))]


def time_ticks(scale: Scale, count: int = 5) -> list[float]:
    """Return moments on a scale of time that people would choose: whole minutes, hours, days (in UTC).

    >>> time_ticks(Scale(1e9, 1e9 + 4 * 3600))
    [1000000800.0, 1000004400.0, 1000008000.0, 1000011600.0]
    """
    span = scale.high - scale.low
    if not span > 0:
        return [scale.low]
    if span < 2:
        return ticks(scale, count)
    step = next((step for step in _TIME_STEPS_SECONDS if span / step <= count), None)
    if step is None:
        return ticks(scale, count)
    return [float(n * step) for n in range(ceil(scale.low / step), floor(scale.high / step) + 1)]


def clock_labels(moments: list[float]) -> list[str]:
    """Return what stands beside moments: as much as tells them apart.

    >>> clock_labels([0.0, 3600.0]), clock_labels([0.0, 86400.0]), clock_labels([0.0, 10.0])
    (['1 Jan', '01:00'], ['1 Jan', '2 Jan'], ['00:00:00', '00:00:10'])
    """
    gap = min((b - a for a, b in pairwise(moments)), default=60.0)
    labels = []
    for moment in moments:
        try:
            at = datetime.fromtimestamp(moment, UTC)
        except (OverflowError, OSError, ValueError):
            labels.append("")
            continue
        if gap >= 300 * 86400:
            labels.append(f"{at:%Y}")
        elif gap >= 86400 or (gap >= 3600 and at.hour == at.minute == 0):
            labels.append(f"{at.day} {at:%b}")
        else:
            labels.append(f"{at:%H:%M}" if gap >= 60 else f"{at:%H:%M:%S}")
    return labels
