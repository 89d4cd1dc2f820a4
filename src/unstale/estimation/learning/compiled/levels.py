"""Levels of classes from polls: a filter over cells of time, compiled.

A class's level is the factor by which all its elements change more, or less, than each is known to. Time is
cut into cells. What polls saw is shared among the cells that they looked back over: expected changes
(``counts``) and what would have been expected at level 1 (``exposure``), an EM algorithm as for rhythms. The
level of a cell is a trend, which wanders, times a shock of the cell's own.

Sums over cells go by differences and integrals, so that a poll costs the same however far it looked back.
"""

import math

import numpy as np
from numba import njit

CELLS = 64
"""Cells that are kept; what came before has the level of the trend at that time."""
NEVER = -(1 << 62)
"""The first cell of a class that has not been polled."""
_SURE = 1e-12
_SURE_SURPRISE = -math.log(_SURE)
"""The least probability that a model gives to anything, and minus its logarithm."""
_LARGEST_STEP, _LARGEST_TREND = 8.0, 1e3
"""Factors by which the trend moves at most in a cell, and in all."""
RETURN = math.exp(-1.0 / 320.0)
"""Factor of the logarithm of the trend in a cell: it returns to 0 in 20 rounds, to 1/e."""


@njit(cache=True, nogil=True, error_model="numpy")
def passed_at(levels, passed, before, after, first, width, t):
    """Return the operational time from the first cell to a moment: levels and their sums by the cell."""
    place = t / width - first
    if place < 0.0:
        return before * place * width
    if place >= CELLS:
        return passed[CELLS] + after * (place - CELLS) * width
    k = int(place)
    return passed[k] + levels[k] * (place - k) * width


@njit(cache=True, nogil=True, error_model="numpy")
def elapsed_by(classes, start, end, chosen, first, width, levels, passed, before, after, found):
    """Write the operational times between moments, of classes that follow a model."""
    for j in range(start.size):
        c = classes[j]
        k = chosen[c] - 1
        if k >= 0 and first[c] == NEVER:
            found[j] = after[c, k] * (end[j] - start[j])
        elif k >= 0:
            found[j] = passed_at(
                levels[c, k], passed[c, k], before[c, k], after[c, k], first[c], width, end[j]
            ) - passed_at(levels[c, k], passed[c, k], before[c, k], after[c, k], first[c], width, start[j])
        else:
            found[j] = end[j] - start[j]


@njit(cache=True, nogil=True, error_model="numpy")
def hear_levels(
    first, width, last, time, shape, scale_time, hope, changed, ages, levels, passed, before, after, counts,
    exposure, surprise,
):  # fmt: skip
    """Take in polls of one class.

    ``levels`` are (model, cell), ``counts`` and ``exposure`` likewise. ``surprise`` adds up -log of the
    probability that was given to what was seen, by model.
    """
    models = levels.shape[0]
    part, whole = np.zeros((models, 2, CELLS)), np.zeros((models, 2, CELLS + 1))
    for j in range(last.size):
        start, end, a, b = last[j], time[j], shape[j], scale_time[j]
        if not end > start:
            continue
        told = changed[j] and ages.size > 0 and ages[j] >= 0.0
        since = max(end - ages[j], start) if told else start
        low, high = since / width - first, end / width - first
        # the cells that it covers, of the first and the last the parts; and all in between
        from_, to = max(low, 0.0), min(high, CELLS - 1e-9)
        covers, one, other = to > from_, int(max(min(low, CELLS - 1.0), 0.0)), int(max(to, 0.0))
        head, tail = (to - from_, 0.0) if one == other else (one + 1 - from_, to - other)
        for k in range(models):  # without a call: that would take as long as the rest
            x = before[k] * (min(high, 0.0) - min(low, 0.0))
            x += after[k] * (max(high - CELLS, 0.0) - max(low - CELLS, 0.0))
            x += levels[k, other] * max(min(high, CELLS) - other, 0.0)
            x -= levels[k, one] * max(min(low, CELLS) - one, 0.0)
            x = max(passed[k, other] - passed[k, one] + width * x, 0.0)
            log = math.log1p(x / b)
            counted = 0.0
            if told:
                level = before[k] if low < 0.0 else levels[k, one]
                surprise[k] += (a + 1.0) * log - math.log(max(level, _SURE))
                rate = hope[j] * (a + 1.0) / (b + x)
                if low >= 0.0:
                    part[k, 0, one] += hope[j] / (max(level, _SURE) * width)
            elif changed[j]:
                stir = max(-math.expm1(-a * log), _SURE)
                surprise[k] -= math.log(max(1.0 - hope[j] * (1.0 - stir), _SURE))
                counted = hope[j] * a / b / stir
                # 1 - (1 + x/b)^-(a + 1), as that of the power a is known
                rate = hope[j] * a / b * max((stir * b + x) / (b + x), _SURE) / stir
            else:
                surprise[k] += min(a * log, _SURE_SURPRISE)
                rate = hope[j] * a / (b + x)
            if not covers:
                continue
            part[k, 1, one] += rate * head
            part[k, 1, other] += rate * tail
            part[k, 0, one] += counted * head
            part[k, 0, other] += counted * tail
            if other > one:
                whole[k, 1, one + 1] += rate
                whole[k, 1, other] -= rate
                whole[k, 0, one + 1] += counted
                whole[k, 0, other] -= counted
    for m in range(models):
        open_counts = open_exposure = 0.0
        for k in range(CELLS):
            open_counts += whole[m, 0, k]
            open_exposure += whole[m, 1, k]
            counts[m, k] += (part[m, 0, k] + open_counts) * levels[m, k] * width
            exposure[m, k] += (part[m, 1, k] + open_exposure) * width


@njit(cache=True, nogil=True, error_model="numpy")
def _step(trend, spread, wander, shock, counts, exposure):
    """Take the trend, and its relative variance, through a cell; return both."""
    trend = math.exp(RETURN * math.log(trend))
    spread = RETURN * RETURN * spread + wander
    expected = trend * exposure
    if expected > 0.0:
        gain = spread / (spread + shock + 1.0 / expected)
        factor = 1.0 + gain * (counts / expected - 1.0)
        trend *= min(max(factor, 1.0 / _LARGEST_STEP), _LARGEST_STEP)
        trend = min(max(trend, 1.0 / _LARGEST_TREND), _LARGEST_TREND)
        spread *= 1.0 - gain
    return trend, spread


@njit(cache=True, nogil=True, error_model="numpy")
def set_cells(
    width, wanders, shocks, counts, exposure, before, before_spread, levels, spreads, passed, after,
    after_spread,
):  # fmt: skip
    """Set the levels of cells from sums, for each model of a class."""
    for m in range(levels.shape[0]):
        trend, spread = before[m], before_spread[m]
        passed[m, 0] = 0.0
        for k in range(CELLS):
            own = spread + wanders[m] + shocks[m]
            expected = trend * exposure[m, k]
            levels[m, k] = trend * (1.0 + own * counts[m, k]) / (1.0 + own * expected)
            spreads[m, k] = own / (1.0 + own * counts[m, k])
            passed[m, k + 1] = passed[m, k] + levels[m, k] * width
            trend, spread = _step(trend, spread, wanders[m], shocks[m], counts[m, k], exposure[m, k])
        after[m], after_spread[m] = trend, spread


@njit(cache=True, nogil=True, error_model="numpy")
def let_go(cells, wanders, shocks, counts, exposure, before, before_spread):
    """Let the oldest cells of a class go, so many: the trend is taken through them."""
    for m in range(counts.shape[0]):
        for k in range(min(cells, CELLS)):
            before[m], before_spread[m] = _step(
                before[m], before_spread[m], wanders[m], shocks[m], counts[m, k], exposure[m, k]
            )
        for k in range(CELLS):
            counts[m, k] = counts[m, k + cells] if k + cells < CELLS else 0.0
            exposure[m, k] = exposure[m, k + cells] if k + cells < CELLS else 0.0
        rest = RETURN ** max(cells - CELLS, 0)
        before[m] = math.exp(rest * math.log(before[m]))
        settled = wanders[m] / (1.0 - RETURN * RETURN)
        before_spread[m] = settled + rest * rest * (before_spread[m] - settled)
