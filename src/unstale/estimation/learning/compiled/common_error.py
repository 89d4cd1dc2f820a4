"""Sums of residuals by class, and cell or window of time: compiled."""

import math

from numba import njit

CELL, RESIDUAL, VARIANCE, MOVES, EXCESS, SQUARED_MOVES = range(6)
"""Columns of the sums: three of the present cell, and two that add up what cells had beyond chance."""
CELLS = 64
"""Cells of the past over which falls of a window are spread; what is older counts as if it were not."""
END, FALLS = 0, 6
"""Columns of a window besides those: the cell that it ends with, and falls by cell, as differences."""
WINDOW_COLUMNS = FALLS + CELLS + 1
NEVER = -1e300
"""The end of a window of which nothing was heard."""
_LEAST_VARIANCE = 2.0
"""Of the sum of residuals of a cell, before it is counted; until then the next one is joined to it."""
_FADE = 0.995
"""What earlier cells count for, with each that is counted."""
_FIRST_CELLS = 32.0
"""Cells that no window counts: in the first rounds, predictions are off as priors are not known."""
_WINDOW_MEMORY_ROUNDS = 30.0
_CELLS_PER_ROUND = 16.0


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


@njit(cache=True, nogil=True, error_model="numpy")
def hear_windows(cell, lengths, classes, time, elapsed, fresh, falls, changed, windows):
    """Take in polls; ``windows`` has a row for each class and length, in cells.

    A fall is by how much a unit of the level, all the time since the poll before, would have lowered what was
    said. Spread over that time, and summed over the polls of a window, it is squared and integrated.
    """
    for j in range(time.size):
        now = math.floor(time[j] / cell)
        for k in range(lengths.size):
            row = windows[classes[j], k]
            if now >= row[END]:
                first = row[END] == NEVER
                if not first and row[VARIANCE] > 0.0:
                    _close(row, lengths[k])
                row[END] = (math.floor(now / lengths[k]) + 1.0) * lengths[k]
                if first:
                    row[END] += _FIRST_CELLS
                    row[MOVES] = -1.0
            begin = row[END] - CELLS
            last = min(max(int(now - begin), 0), CELLS - 1)
            start = min(max(int(math.floor((time[j] - elapsed[j]) / cell) - begin), 0), last)
            density = falls[j] * _CELLS_PER_ROUND / (last - start + 1.0)
            row[FALLS + start] += density
            row[FALLS + last + 1] -= density
            row[RESIDUAL] += (0.0 if changed[j] else 1.0) - fresh[j]
            row[VARIANCE] += fresh[j] * (1.0 - fresh[j])


@njit(cache=True, nogil=True, error_model="numpy")
def _close(row, length):
    """Add what a window had beyond chance."""
    if row[MOVES] < 0.0:
        row[MOVES] = row[RESIDUAL] = row[VARIANCE] = 0.0
        row[FALLS:] = 0.0
        return
    fade, fall, shared = math.exp(-length / (_CELLS_PER_ROUND * _WINDOW_MEMORY_ROUNDS)), 0.0, 0.0
    for k in range(CELLS):
        fall += row[FALLS + k]
        shared += fall * fall / _CELLS_PER_ROUND
    row[EXCESS] = fade * row[EXCESS] + row[RESIDUAL] * row[RESIDUAL] - row[VARIANCE]
    row[SQUARED_MOVES] = fade * row[SQUARED_MOVES] + shared
    row[MOVES] = fade * row[MOVES] + 1.0
    row[RESIDUAL] = row[VARIANCE] = 0.0
    row[FALLS:] = 0.0
