"""Rhythms from polls: sums by hour of the week and bets, compiled.

Exposure is added up by differences, so that a poll costs the same however far it looked back: ``part`` has
what falls into the hours at the ends of intervals, ``whole`` the weight of those that cover the hours from
one on.
"""

import math

import numpy as np
from numba import njit

BINS = 168
"""Hours of a week."""
DAY_BINS = 24
LEAST_LEVEL = 0.02
"""A rhythm never stands still: something may always change."""
_FEW_CHANGES = 6.0
"""Changes expected between two polls below which the one that is told is taken for the only one. Of what
changes once a night, that is true; to count no quiet time before it would move its hours ahead."""
_PRIOR_CHANGES = 4.0
"""Changes that each hour has seen beforehand, as its neighbours have, and those as the whole."""


@njit(cache=True, nogil=True, error_model="numpy")
def passed_at(levels, passed, hour, t):
    """Return the operational time since time 0: levels and their sums by the hour of the week."""
    week = BINS * hour
    turns = math.floor(t / week)
    rest = (t - turns * week) / hour
    k = min(int(rest), BINS - 1)
    return turns * week + passed[k] + levels[k] * (rest - k) * hour


@njit(cache=True, nogil=True, error_model="numpy")
def _bin(hour, t):
    week = BINS * hour
    return min(int((t - math.floor(t / week) * week) / hour), BINS - 1)


@njit(cache=True, nogil=True, error_model="numpy")
def _cover(part, whole, hour, weight, start, end):
    """Add an interval to the exposure of the hours that it covers."""
    week = BINS * hour
    turns = math.floor((end - start) / week)
    if turns > 0:
        whole[0] += weight * turns
        whole[BINS] -= weight * turns
    low = start - math.floor(start / week) * week
    high = low + (end - start) - turns * week
    first, last = min(int(low / hour), BINS - 1), int(high / hour)
    if first == last:
        part[first] += weight * (high - low)
        return
    part[first] += weight * ((first + 1) * hour - low)
    part[last % BINS] += weight * (high - last * hour)
    whole[first + 1] += weight
    whole[last] -= weight


@njit(cache=True, nogil=True, error_model="numpy")
def _unfold(part, whole, hour):
    """Return the exposure of each hour of the week."""
    found, open_weight = part.copy(), 0.0
    for k in range(2 * BINS):
        open_weight += whole[k]
        found[k % BINS] += open_weight * hour
    return found


@njit(cache=True, nogil=True, error_model="numpy")
def hear_rhythm(
    hour, last, time, shape, scale_time, hope, changed, ages, levels, passed, counts, exposure, surprise,
):  # fmt: skip
    """Take in polls of one class.

    ``levels`` and ``passed`` are (way of forgetting, model, hour of the week), of which the models are those
    of the day and of the week; ``counts`` and ``exposure`` are (way of forgetting, hour). ``surprise`` adds
    up -log of the probability that was given to what was seen: without rhythm, then by way and model.

    A change that lies somewhere between two polls is shared among hours as their levels say; one of known
    age is in its hour, and says that nothing has changed since.
    """
    ways = counts.shape[0]
    part, whole = np.zeros((2, BINS)), np.zeros((2, 2 * BINS + 1))
    for j in range(last.size):
        start, end, a, b = last[j], time[j], shape[j], scale_time[j]
        if not end > start:
            continue
        told = changed[j] and ages.size > 0 and ages[j] >= 0.0
        since = max(end - ages[j], start) if told else start
        place, log = _bin(hour, since), 0.0
        for k in range(1 + 2 * ways):
            x, level = end - since, 1.0
            if k > 0:
                level_of, sums = levels[(k - 1) // 2, (k - 1) % 2], passed[(k - 1) // 2, (k - 1) % 2]
                x = passed_at(level_of, sums, hour, end) - passed_at(level_of, sums, hour, since)
                level = level_of[place]
            log = math.log1p(x / b)
            if told:
                surprise[k] += (a + 1.0) * log - math.log(level)
            elif changed[j]:
                surprise[k] -= math.log(1.0 - hope[j] * math.exp(-a * log))
            else:
                surprise[k] += a * log
        # the sums follow the last model: the week, slowly forgotten
        if told:
            for w in range(ways):  # here and below loops: slices of arrays take a second more to compile
                counts[w, place] += hope[j]
            rate = (a + 1.0) / (b * math.exp(log))
            if a * (end - start) < _FEW_CHANGES * b:
                since, rate = start, (a + 1.0) / (b + end - start)
        elif changed[j]:
            stir = max(-math.expm1(-a * log), 1e-300)
            _cover(part[0], whole[0], hour, hope[j] * a / b / stir, since, end)
            rate = a / b * max(-math.expm1(-(a + 1.0) * log), 1e-300) / stir
        else:
            rate = a / (b * math.exp(log))
        _cover(part[1], whole[1], hour, hope[j] * rate, since, end)
    shared, offered = _unfold(part[0], whole[0], hour), _unfold(part[1], whole[1], hour)
    for w in range(ways):
        for k in range(BINS):
            counts[w, k] += levels[w, 1, k] * shared[k]
            exposure[w, k] += offered[k]


@njit(cache=True, nogil=True, error_model="numpy")
def set_levels(hour, counts, exposure, levels, passed):
    """Set the levels of the models of the day and of the week from sums.

    An hour of the day is drawn to its neighbours, and they to the mean; an hour of the week to its hour of
    the day times its day of the week.
    """
    for w in range(counts.shape[0]):
        changes, total = 0.0, 0.0
        for k in range(BINS):
            changes += counts[w, k]
            total += exposure[w, k]
        mean = (changes + _PRIOR_CHANGES) / (total + _PRIOR_CHANGES)
        seen, offered = np.zeros(DAY_BINS), np.zeros(DAY_BINS)
        days_seen, days_offered = np.zeros(7), np.zeros(7)
        for k in range(BINS):
            seen[k % DAY_BINS] += counts[w, k]
            offered[k % DAY_BINS] += exposure[w, k]
            days_seen[k // DAY_BINS] += counts[w, k]
            days_offered[k // DAY_BINS] += exposure[w, k]
        day = np.empty(DAY_BINS)
        for h in range(DAY_BINS):
            back, ahead = (h - 1) % DAY_BINS, (h + 1) % DAY_BINS
            near_seen = 0.25 * seen[back] + 0.5 * seen[h] + 0.25 * seen[ahead]
            near_offered = 0.25 * offered[back] + 0.5 * offered[h] + 0.25 * offered[ahead]
            near = (near_seen + _PRIOR_CHANGES * mean) / (near_offered + _PRIOR_CHANGES)
            day[h] = (seen[h] + _PRIOR_CHANGES * near) / (offered[h] + _PRIOR_CHANGES)
        for k in range(BINS):
            d = k // DAY_BINS
            of_day = (days_seen[d] + 2.0 * _PRIOR_CHANGES * mean) / (days_offered[d] + 2.0 * _PRIOR_CHANGES)
            expected = day[k % DAY_BINS] * of_day / mean
            levels[w, 0, k] = day[k % DAY_BINS]
            levels[w, 1, k] = (counts[w, k] + _PRIOR_CHANGES * expected) / (exposure[w, k] + _PRIOR_CHANGES)
        for m in range(2):
            for turn in range(3):
                total = 0.0
                for k in range(BINS):
                    total += levels[w, m, k]
                least = LEAST_LEVEL if turn < 2 else 0.0
                for k in range(BINS):
                    levels[w, m, k] = max(levels[w, m, k] / (total / BINS), least)
            passed[w, m, 0] = 0.0
            for k in range(BINS):
                passed[w, m, k + 1] = passed[w, m, k] + levels[w, m, k] * hour
