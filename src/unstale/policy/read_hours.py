"""At what hours copies are read, so that polls come before the readers.

A weight with a rhythm: how stale a copy is matters when it is read. By the clock of the readers, whose hand
moves as fast as they read, every moment counts alike again; in that time, changes come by a rhythm that is
theirs over that of the reads, and what a poll is worth under a rhythm holds as it is (docs/theory.md).

Whether there are such hours is tested: the hours must differ from each other by more than one day, or one
week, differs from the next. Reads come in bursts, so they are no independent witnesses, and no hour counts
for more than a few.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from unstale.arguments import Floats, numbers, scalar
from unstale.errors import InvalidInput
from unstale.estimation.laws.rhythm import Rhythm, rhythm_of_changes
from unstale.operational_time.clock import OperationalClock

DAY_HOURS, WEEK_HOURS = 24, 168
_FEWEST_PERIODS = 3
"""Days, or weeks, of reads that are needed."""
_SURE = 1e-4
"""The test must be as sure as this that hours differ: it is made again and again."""
_MOST_OF_MEAN = 3.0
"""An hour counts at most so many times the mean of hours with reads: somebody may read everything once."""
_MOST_COUNTED = 10_000
"""Reads that are told apart; of more, each stands for several."""
_TYPICAL_PERIODS = 2.0
"""An hour of the week is drawn to its hour of the day, and that to the mean, as if by so many periods."""
_LEAST_LEVEL = 0.02
"""At no hour does a read matter less, beside the mean: hours without readers may have some later."""


def clock_of_readers(levels: ArrayLike, hour: float) -> OperationalClock:
    """Return the clock of the readers.

    Parameters
    ----------
    levels
        How much is read in each hour of the day, 24 numbers, or of the week, 168; only their ratios matter.
    hour
        The length of an hour. Time 0 is the first moment of a day, and of a week.

    Examples
    --------
    >>> clock = clock_of_readers(np.where(np.arange(24) < 12, 3.0, 1.0), hour=1.0)
    >>> clock.at([6.0, 12.0, 24.0]).tolist()
    [9.0, 18.0, 24.0]
    """
    found = np.asarray(numbers("readers", levels, at_least=0), float)
    if found.shape not in {(DAY_HOURS,), (WEEK_HOURS,)} or not found.sum() > 0:
        raise InvalidInput(
            f"readers must be reads in {DAY_HOURS} hours of the day or {WEEK_HOURS} of the week, "
            f"some above 0; it has shape {found.shape}"
        )
    found = np.maximum(np.tile(found / found.mean(), WEEK_HOURS // found.size), _LEAST_LEVEL)
    return OperationalClock(found, period=WEEK_HOURS * scalar("hour", hour, above=0))


def hours_of_reads(hours: ArrayLike, counts: ArrayLike, *, until: float, hour: float) -> Floats:
    """Return how much is read in each hour of the week, beside the mean; empty if hours do not tell.

    Parameters
    ----------
    hours
        When hours with reads began.
    counts
        How many reads there were in each.
    until
        Reads are known until then.
    hour
        The length of an hour.

    Examples
    --------
    >>> days = np.arange(20)
    >>> levels = hours_of_reads(days * 24.0 + 9.0, np.full(20, 50), until=480.0, hour=1.0)
    >>> levels.size, int(np.argmax(levels)), bool(levels[9] > 5.0)
    (168, 9, True)
    >>> hours_of_reads(np.arange(480.0), np.full(480, 50), until=480.0, hour=1.0).size   # all alike
    0
    """
    start, count = np.asarray(hours, float), np.asarray(counts, float)
    if not count.sum() > 0:
        return np.empty(0)
    count = np.minimum(count, _MOST_OF_MEAN * float(count.mean()))
    count = np.ceil(count * min(_MOST_COUNTED / float(count.sum()), 1.0)).astype(int)
    times, first = np.repeat(start + 0.5 * hour, count), float(start.min())
    end = max(until, first + hour)
    by_day, by_week = (
        rhythm_of_changes(times, period=bins * hour, bins=bins, start=first, end=end)
        if end - first >= _FEWEST_PERIODS * bins * hour
        else None
        for bins in (DAY_HOURS, WEEK_HOURS)
    )
    weekly = by_week is not None and by_week.has_rhythm(_SURE)
    if by_day is None or not (weekly or by_day.has_rhythm(_SURE)):
        return np.empty(0)
    typical = np.tile(_drawn(by_day, np.ones(DAY_HOURS)), WEEK_HOURS // DAY_HOURS)
    return _drawn(by_week, typical) if by_week is not None and weekly else typical


def _drawn(rhythm: Rhythm, typical: Floats) -> Floats:
    """Return the levels of a rhythm, drawn to what is typical by so much as is not known of them."""
    periods = rhythm.exposure / (rhythm.period / typical.size)
    levels = (periods * rhythm.relative + _TYPICAL_PERIODS * typical) / (periods + _TYPICAL_PERIODS)
    return np.asarray(levels / levels.mean())
