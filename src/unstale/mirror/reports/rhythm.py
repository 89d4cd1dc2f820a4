"""The rhythm of an element in words: at which hours of the day or of the week it changes."""

from __future__ import annotations

import numpy as np

from unstale.arguments import Floats
from unstale.estimation.learning.clockwork_learner import Clockwork
from unstale.mirror.engine.load_policy import MirrorPolicy
from unstale.policy.element_table import Places

_DAYS = ("Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday")
"""Days of a week of time, which began on a Thursday in 1970."""
_WEEKDAYS = frozenset({"Monday", "Tuesday", "Wednesday", "Thursday", "Friday"})
_MOST_CHANGES = 0.6
"""Share of the changes that the hours see that are named."""
_BUSY_LEVEL = 1.5
"""An hour is busy if so many times as many changes come in it as on average."""
_MOST_SPANS = 3
_DAILY_MINUTES, _WEEKLY_MINUTES = 5, 60
"""To how many minutes the moment is told at which an element changes each day, or each week."""


def rhythm_of(policy: MirrorPolicy, place: Places) -> Floats:
    """Return how many times the mean as often an element changes in each hour; empty without a rhythm.

    There are 24 hours of the day, or 168 of the week, which begins on Thursday, as time did in 1970; UTC.
    """
    if policy.known.clocks is None:
        return np.empty(0)
    if (own := own_clock(policy, place)) is not None:
        hours = round(24 * own.period_days)
        share, middles = own.probabilities, (np.arange(own.probabilities.size) + 0.5) / own.probabilities.size
        return np.asarray(np.bincount((middles * hours).astype(int), share * hours, hours), float)
    rhythms = policy.known.clocks.rhythms
    one = int(policy.table.learner.classes_of(place)[0])
    return rhythms.levels[one, : rhythms.bins[one]].copy() if one < rhythms.bins.size else np.empty(0)


def own_clock(policy: MirrorPolicy, place: Places) -> Clockwork | None:
    """Return the clock of its own that an element follows; None if it has none."""
    clocks = policy.known.clocks
    if clocks is None or not clocks.have_own(policy.table, place)[0]:
        return None
    return clocks.clockworks.clock(int(policy.table["clockwork"][place][0]))


def own_words(own: Clockwork) -> str:
    """Say when an element changes that has a clock of its own.

    >>> own_words(Clockwork(1.0, 0.0903, np.ones(96), 10.0, 1.0))
    'once a day at about 02:10 UTC'
    >>> own_words(Clockwork(7.0, 0.7272, np.ones(96), 10.0, 1.0))
    'once a week, on Tuesdays at about 02:00 UTC'
    """
    weekly = own.period_days > 1.0
    step = _WEEKLY_MINUTES if weekly else _DAILY_MINUTES
    minutes = step * round(own.period_days * own.phase * 1440 / step)
    hours, rest = divmod(minutes % 1440, 60)
    at = f"at about {hours:02d}:{rest:02d} UTC"
    return f"once a week, on {_DAYS[minutes // 1440 % 7]}s {at}" if weekly else f"once a day {at}"


def rhythm_words(levels: Floats) -> str:
    """Say at which hours most changes come; nothing without a rhythm.

    >>> rhythm_words(np.where(np.arange(24) == 14, 20.0, 0.2))
    'mostly at 14:00 to 15:00 UTC'
    >>> week = np.where(np.arange(168) % 24 == 14, 20.0, 0.2)
    >>> week[48:96] = 0.1
    >>> rhythm_words(week)
    'mostly on weekdays at 14:00 to 15:00 UTC'
    """
    if not levels.size:
        return ""
    by_hour = levels.reshape(-1, 24).sum(axis=0)
    hours = _spans(_busy(by_hour))
    days = ""
    if levels.size > 24:
        by_day = levels.reshape(-1, 24).mean(axis=1)
        days = _days([_DAYS[k] for k in np.flatnonzero(by_day > 0.5 * by_day.max())])
    return " ".join(part for part in ("mostly", days, hours) if part) if days or hours else ""


def _busy(by_hour: Floats) -> list[int]:
    """Return the busiest hours that see most changes together."""
    order = np.argsort(-by_hour, kind="stable")
    share = np.cumsum(by_hour[order]) / by_hour.sum()
    few = order[: int(np.searchsorted(share, _MOST_CHANGES)) + 1]
    return sorted(h for h in few.tolist() if by_hour[h] >= _BUSY_LEVEL * by_hour.mean())


def _spans(hours: list[int]) -> str:
    """Say which hours: those that follow each other in one."""
    if not hours:
        return ""
    named, busy = [], set(hours)
    for first in (h for h in hours if (h - 1) % 24 not in busy):
        end = first
        while end % 24 in busy:
            end += 1
        named.append(f"{first:02d}:00 to {end % 24:02d}:00")
    if not named or len(named) > _MOST_SPANS:
        return ""
    return f"at {' and '.join(named)} UTC"


def _days(days: list[str]) -> str:
    """Say which days; nothing if all of them."""
    if len(days) == len(_DAYS):
        return ""
    if set(days) == _WEEKDAYS:
        return "on weekdays"
    return f"on {' and '.join(f'{day}s' for day in days)}"
