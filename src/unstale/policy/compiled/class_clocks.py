"""Operational time, worths and next moments of elements, by clocks of classes or their own; compiled.

Where an element has a clock of its own, polls are placed as if its phase were the latest of three that are
drawn by what is known of it (Thompson sampling): each night's poll then says something of a phase that is not
known well, and one that is known well is met. The draws depend on the number of the element and the moment of
its last poll.
"""

import math

import numpy as np
from numba import njit

from unstale.draws import MOMENTS, key_of, uniform
from unstale.estimation.learning.compiled.clockwork import (
    BINS,
    PERIOD_DAYS,
    REACH,
    change_probability,
    phase_after,
    profile_about,
    regularity,
)
from unstale.estimation.learning.compiled.rhythm import passed_at
from unstale.operational_time.compiled.rhythm_worth import next_moment, worth_at

_KEY = key_of(0, MOMENTS)
_MOMENTS_PER_PERIOD = 1440.0
"""Of a poll, no more counts for draws than the minute: a clock's last digits are nobody's."""
_DRAWS = 3
"""Phases that are drawn, of which the latest counts: a poll that is late loses its delay, one that is early
the whole period."""


@njit(cache=True, nogil=True, error_model="numpy")
def elapsed_of(classes, start, end, hour, bins, levels, passed, found):
    """Write the operational time between moments, where a class has a rhythm."""
    for i in range(classes.size):
        g = classes[i]
        if bins[g] > 0 and end[i] > start[i]:
            gone = passed_at(levels[g], passed[g], hour, end[i]) - passed_at(
                levels[g], passed[g], hour, start[i]
            )
            found[i] = max(gone, 0.0)


@njit(cache=True, nogil=True, error_model="numpy")
def worths_of(kind, classes, shape, time, last, at, edges, bins, levels, ahead, found):
    """Write what polls at moments are worth, where a class has a rhythm; ``edges`` are those of hours."""
    for i in range(classes.size):
        g = classes[i]
        if bins[g] > 0:
            n = bins[g]
            pieces, level = edges[: n + 1], levels[g, :n]
            found[i] = worth_at(kind, pieces, level, shape[i], time[i], last[i], at[i], ahead)


@njit(cache=True, nogil=True, error_model="numpy")
def moments_of(kind, classes, shape, time, last, since, price, horizon, edges, bins, levels, ahead, found):
    """Write when polls are worth their prices, at the latest after a horizon, where a class has a rhythm."""
    for i in range(classes.size):
        g = classes[i]
        if bins[g] > 0:
            n = bins[g]
            moment = next_moment(
                kind, edges[: n + 1], levels[g, :n], shape[i], time[i], last[i], since[i], price[i], horizon,
                ahead,
            )  # fmt: skip
            found[i] = moment if moment < math.inf else since[i] + horizon


@njit(cache=True, nogil=True, error_model="numpy")
def own_changes(rows, phases, numbers, day, start, end, found):
    """Write the probabilities that elements with clocks of their own have changed between moments."""
    for i in range(rows.size):
        period = day * numbers[rows[i], PERIOD_DAYS]
        found[i] = change_probability(phases, numbers, rows[i], period, start[i], end[i])


@njit(cache=True, nogil=True, error_model="numpy")
def _placed(row, phases, numbers, period, element, last, edges, levels):
    """Write the profile about a phase that is drawn; return the moment at which its first period begins."""
    poll = np.uint64(np.int64(math.floor(last / period * _MOMENTS_PER_PERIOD + 0.5)))
    draw = uniform(_KEY, element, poll) ** (1.0 / _DRAWS)
    phase = phase_after(phases, row, period, last, draw)
    profile_about(numbers, row, period, edges, levels)
    return (phase - REACH - 0.5) * period / BINS


@njit(cache=True, nogil=True, error_model="numpy")
def own_worths(kind, rows, phases, numbers, day, element, last, at, found):
    """Write what polls at moments are worth, of elements that have clocks of their own."""
    edges, levels = np.empty(2 * REACH + 3), np.empty(2 * REACH + 2)
    for i in range(rows.size):
        row = rows[i]
        period = day * numbers[row, PERIOD_DAYS]
        shift = _placed(row, phases, numbers, period, element[i], last[i], edges, levels)
        time = period / regularity(numbers, row)
        found[i] = worth_at(kind, edges, levels, math.inf, time, last[i] - shift, at[i] - shift, 0.0)


@njit(cache=True, nogil=True, error_model="numpy")
def own_moments(kind, rows, phases, numbers, day, element, last, since, price, horizon, found):
    """Write when polls of such elements are worth their prices, at the latest after a horizon."""
    edges, levels = np.empty(2 * REACH + 3), np.empty(2 * REACH + 2)
    for i in range(rows.size):
        row = rows[i]
        period = day * numbers[row, PERIOD_DAYS]
        shift = _placed(row, phases, numbers, period, element[i], last[i], edges, levels)
        time = period / regularity(numbers, row)
        moment = next_moment(
            kind, edges, levels, math.inf, time, last[i] - shift, since[i] - shift, price[i], horizon, 0.0
        )
        found[i] = moment + shift if moment < math.inf else since[i] + horizon
