"""Operational time, worths and next moments of many elements, each by the clock of its class; compiled."""

import math

import numpy as np
from numba import njit

from unstale.estimation.learning.compiled.rhythm import passed_at
from unstale.operational_time.compiled.rhythm_worth import next_moment, worth_at


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
def worths_of(kind, classes, shape, time, last, at, hour, bins, levels, found):
    """Write what polls at moments are worth, where a class has a rhythm."""
    edges = np.arange(levels.shape[1] + 1) * hour
    for i in range(classes.size):
        g = classes[i]
        if bins[g] > 0:
            n = bins[g]
            found[i] = worth_at(kind, edges[: n + 1], levels[g, :n], shape[i], time[i], last[i], at[i])


@njit(cache=True, nogil=True, error_model="numpy")
def moments_of(kind, classes, shape, time, last, since, price, horizon, hour, bins, levels, found):
    """Write when polls are worth their prices, at the latest after a horizon, where a class has a rhythm."""
    edges = np.arange(levels.shape[1] + 1) * hour
    for i in range(classes.size):
        g = classes[i]
        if bins[g] > 0:
            n = bins[g]
            moment = next_moment(
                kind, edges[: n + 1], levels[g, :n], shape[i], time[i], last[i], since[i], price[i], horizon
            )
            found[i] = moment if moment < math.inf else since[i] + horizon
