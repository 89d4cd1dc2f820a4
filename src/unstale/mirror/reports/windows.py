"""Whether windows leave time for the budget: what cannot be spent in them, and what would fit."""

from __future__ import annotations

import numpy as np

from unstale.mirror.engine.load_policy import MirrorPolicy
from unstale.quantities import show_duration, show_number

_WEEK_SECONDS = 7 * 86400.0
_LOOK_SECONDS = 300.0
"""Between two looks at whether any window is open."""
_LEAST_LOST_SHARE = 0.02
"""Share of the budget that must be lost for that to be told."""


def window_trouble(policy: MirrorPolicy, now: float) -> list[str]:
    """Say what share of the budget is lost as there are windows, and what to do about it.

    It is told if all elements have windows: else there is always something to poll.
    """
    table, limits = policy.table, policy.limits
    windows = np.unique(table["window"][table.present])
    if not windows.size or (windows == 0).any() or policy.others:
        return []
    moments = now + np.arange(0.0, _WEEK_SECONDS, _LOOK_SECONDS)
    is_open = np.zeros(moments.size, np.bool_)
    for number in windows.tolist():
        if (hours := table.hours[number]) is not None:
            is_open |= np.asarray(hours.is_open(moments))
    if is_open.all() or not is_open.any():
        return []
    closed = _closed_runs(is_open) * _LOOK_SECONDS
    share = float(is_open.mean())
    kept = float(np.minimum(closed, limits.reserve).sum()) / _WEEK_SECONDS
    rate = limits.rate(policy.known.mean_size) if limits.budget is None else limits.budget
    hours_open = f"their windows are open for {show_number(24 * share)} hours a day on average"
    if (lost := 1.0 - share - kept) > _LEAST_LOST_SHARE:
        longest = show_duration(float(np.ceil(closed.max() / 3600.0)) * 3600.0)
        told = f"{100 * lost:.0f} % of the budget is lost, as all elements have windows and {hours_open}"
        return [f'{told}: [mirror] reserve = "{longest}" would keep it until they open']
    fastest = _fastest(policy)
    if fastest * share >= rate * (1.0 - _LEAST_LOST_SHARE):
        return []
    fits, wanted = show_number(86400.0 * fastest * share), show_number(86400.0 * rate)
    told = f"windows are too short for the budget: {hours_open}, in which max_rate and the spacing of groups"
    needed = 24.0 * rate / fastest
    enough = f"{show_number(needed)} hours a day would be enough" if needed <= 24.0 else "no window is enough"
    return [f"{told} allow {fits} polls a day, not {wanted}; {enough}"]


def _closed_runs(is_open: np.ndarray) -> np.ndarray:
    """Return how long windows are closed, time after time, in looks; what begins last goes on at the start.

    >>> _closed_runs(np.array([False, True, False, False, True, False])).tolist()
    [2, 2]
    """
    turned = np.roll(is_open, -int(np.flatnonzero(is_open)[0]))
    starts = np.flatnonzero(turned & ~np.roll(turned, -1))
    ends = np.flatnonzero(~turned & np.roll(turned, -1))
    return np.asarray(ends - starts[: ends.size])


def _fastest(policy: MirrorPolicy) -> float:
    """Return the polls per second that the limits allow while all windows are open."""
    groups = np.unique(policy.table["group"][policy.table.present])
    fastest = sum(policy.limits.group(int(number)).fastest for number in groups.tolist())
    return min(fastest, np.inf if policy.limits.max_rate is None else policy.limits.max_rate)
