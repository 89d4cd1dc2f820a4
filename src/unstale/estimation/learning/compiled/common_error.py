"""Sums of residuals by class and cell of time: compiled."""

import math

from numba import njit

CELL, RESIDUAL, VARIANCE, MOVES, EXCESS, SQUARED_MOVES = range(6)
"""Columns of the sums: three of the present cell, and two that add up what cells had beyond chance."""
_LEAST_VARIANCE = 2.0
"""Of the sum of residuals of a cell, before it is counted; until then the next one is joined to it."""
_FADE = 0.995
"""What earlier cells count for, with each that is counted."""


@njit(cache=True, nogil=True, error_model="numpy")
def hear_residuals(cell, classes, time, fresh, moves, changed, sums):
    """Take in polls; ``sums`` has a row for each class."""
    for j in range(time.size):
        row = sums[classes[j]]
        now = math.floor(time[j] / cell)
        if now > row[CELL]:
            if row[VARIANCE] >= _LEAST_VARIANCE:
                row[EXCESS] = _FADE * row[EXCESS] + row[RESIDUAL] * row[RESIDUAL] - row[VARIANCE]
                row[SQUARED_MOVES] = _FADE * row[SQUARED_MOVES] + row[MOVES] * row[MOVES]
                row[RESIDUAL] = row[VARIANCE] = row[MOVES] = 0.0
            row[CELL] = now
        row[RESIDUAL] += (0.0 if changed[j] else 1.0) - fresh[j]
        row[VARIANCE] += fresh[j] * (1.0 - fresh[j])
        row[MOVES] += moves[j]
