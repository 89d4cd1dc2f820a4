"""What polls saw beside what was said of them, by class and cell of time: compiled."""

import math

import numpy as np
from numba import njit

TERMS = 3
"""Of a correction: a constant, the logarithm of the rate, and whether the poll before saw a change."""
CORRECTION, INFORMATION, SCORE, OPEN = slice(0, 3), slice(3, 12), slice(12, 15), slice(15, 24)
WEIGHT, SQUARED_WEIGHT, GAIN, SQUARED_RESIDUALS, WINDOWS, RESIDUAL, VARIANCE, CELL, WINDOW, CREDENCE = range(
    24, 34
)
"""Columns of what is kept of a class. A score and information are open until their cell is over."""
COLUMNS = 34
CELLS_PER_ROUND, PRECISION = 16, 20.0
"""Before any poll, each term of a correction is about 0, with this precision."""
NEVER = -1e300
"""The cell of a class of which nothing was heard."""
_MEMORY_ROUNDS, _BET_MEMORY_ROUNDS, _WEIGHT_MEMORY_CELLS = 30.0, 50.0, 500.0
_MOST_RATE = 3.0
"""Logarithms of rates beyond it, either way, count as that."""
_MOST_WEIGHT, _MOST_RATIO = 30.0, 4.0
_MOST_STEP, _MOST_CORRECTION = 0.5, 3.0
_SURE = 1e-6
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(6)
_AGES, _SHARES = 0.5 * (1.0 + _NODES), 0.5 * _WEIGHTS
"""Ages, as shares of that of a poll, and how they count in a mean over all ages up to it."""


@njit(cache=True, nogil=True, error_model="numpy")
def _solve(matrix, vector):
    """Return the solution of three equations, whose matrix is symmetric and positive; both are changed."""
    for i in range(TERMS):
        for j in range(i + 1, TERMS):
            part = matrix[j, i] / matrix[i, i]
            for k in range(i, TERMS):
                matrix[j, k] -= part * matrix[i, k]
            vector[j] -= part * vector[i]
    for i in range(TERMS - 1, -1, -1):
        for k in range(i + 1, TERMS):
            vector[i] -= matrix[i, k] * vector[k]
        vector[i] /= matrix[i, i]
    return vector


@njit(cache=True, nogil=True, error_model="numpy")
def _close(row, cells):
    """Take what polls of a cell told into the correction of a class, so many cells later."""
    fade = math.exp(-cells / (CELLS_PER_ROUND * _MEMORY_ROUNDS))
    over = max(row[SQUARED_RESIDUALS] / row[WINDOWS], 1.0) * row[SQUARED_WEIGHT] / row[WEIGHT]
    correction, score, information = row[CORRECTION], row[SCORE], row[INFORMATION]
    matrix, vector = np.empty((TERMS, TERMS)), np.empty(TERMS)
    for i in range(TERMS):
        vector[i] = score[i] / over - (1.0 - fade) * PRECISION * correction[i]
        for j in range(TERMS):
            at = TERMS * i + j
            information[at] = fade * information[at] + row[OPEN][at] / over
            matrix[i, j] = information[at] + (PRECISION if i == j else 0.0)
    move = _solve(matrix, vector)
    for i in range(TERMS):
        correction[i] += min(max(move[i], -_MOST_STEP), _MOST_STEP)
        score[i] = 0.0
    row[OPEN] = 0.0
    row[CREDENCE] = 1.0 / (1.0 + math.exp(-min(max(row[GAIN] / over, -30.0), 30.0)))
    row[GAIN] *= math.exp(-cells / (CELLS_PER_ROUND * _BET_MEMORY_ROUNDS))
    faded = math.exp(-cells / _WEIGHT_MEMORY_CELLS)
    row[WEIGHT], row[SQUARED_WEIGHT] = faded * row[WEIGHT], faded * row[SQUARED_WEIGHT]


@njit(cache=True, nogil=True, error_model="numpy")
def _close_window(row, rounds):
    """Compare the sum of the residuals of a round with what chance explains."""
    fade, part = math.exp(-rounds / _MEMORY_ROUNDS), min(row[VARIANCE], 1.0)
    found = row[RESIDUAL] * row[RESIDUAL] / max(row[VARIANCE], 1e-9)
    row[SQUARED_RESIDUALS] = fade * row[SQUARED_RESIDUALS] + part * found
    row[WINDOWS] = fade * row[WINDOWS] + part
    row[RESIDUAL] = row[VARIANCE] = 0.0


@njit(inline="always")
def _correction(row, rate, stirred):
    """Return the logarithm of how much more an element changes than is known, if all of it is believed."""
    by = row[0] + row[1] * rate + row[2] * (0.5 if stirred else -0.5)
    return min(max(by, -_MOST_CORRECTION), _MOST_CORRECTION)


@njit(inline="always")
def _in_between(shape, passed, log, fresh):
    """Return the mean of H exp(-H) over all ages up to that of a poll, over what it is at the poll.

    H = shape log(1 + x), and ``log`` is log(1 + passed). The mean is that of the integral of u exp(c u) from
    0 to ``log``, with c = 1 - shape.
    """
    c = (1.0 - shape) * log
    if abs(c) < 0.3:
        found = 0.5 + c * (1.0 / 3.0 + c * (0.125 + c * (1.0 / 30.0 + c / 144.0)))
    else:
        found = (fresh * (1.0 + passed) * (c - 1.0) + 1.0) / (c * c)
    return found * log / (passed * fresh)


@njit(cache=True, nogil=True, error_model="numpy")
def _hear(row, weight, shares, hazards, fresh, by, terms):
    """Take in at which ages, with their shares of the weight, a copy was fresh, and what had been said of it.

    Ages rise, and hazards are those before the correction. What is fresh at an age is so at all lower ones.
    """
    residual = slope = curve = variance = spread = 0.0
    said, steep = np.empty(hazards.size), np.empty(hazards.size)
    for k in range(hazards.size):
        before = min(max(math.exp(-hazards[k]), _SURE), 1.0 - _SURE)
        hazard = hazards[k] * math.exp(by)
        said[k] = min(max(math.exp(-hazard), _SURE), 1.0 - _SURE)
        steep[k] = hazard / (1.0 - said[k])
        off = (1.0 if fresh[k] else 0.0) - said[k]
        gain = math.log(said[k] / before) if fresh[k] else math.log((1.0 - said[k]) / (1.0 - before))
        row[GAIN] += weight * shares[k] * gain
        residual += shares[k] * off
        slope -= shares[k] * off * steep[k]
        curve += shares[k] * hazard * steep[k] * said[k]
        for i in range(k + 1):
            common = (1.0 if i == k else 2.0) * shares[i] * shares[k] * said[k] * (1.0 - said[i])
            variance += common
            spread += common * steep[i] * steep[k]
    row[WEIGHT] += weight * curve
    row[SQUARED_WEIGHT] += weight * weight * spread
    row[RESIDUAL] += weight * residual
    row[VARIANCE] += weight * weight * variance
    score, information = row[SCORE], row[OPEN]
    for i in range(TERMS):
        score[i] += weight * slope * terms[i]
        for k in range(TERMS):
            information[TERMS * i + k] += weight * curve * terms[i] * terms[k]


@njit(cache=True, nogil=True, error_model="numpy")
def hear_outcomes(round_, classes, time, elapsed, lived, shape, scale, hope, stirred, counts, changed, quiet,
                  rows, factors):  # fmt: skip
    """Take in polls; write the factors by which hazards were corrected before each."""
    one, said, unchanged = np.ones(1), np.empty(1), np.empty(1, np.bool_)
    for j in range(time.size):
        row = rows[classes[j]]
        cell = math.floor(time[j] / round_ * CELLS_PER_ROUND)
        if cell > row[CELL]:
            if row[CELL] > NEVER:
                window = math.floor(cell / CELLS_PER_ROUND)
                if window > row[WINDOW]:
                    _close_window(row, window - row[WINDOW])
                    row[WINDOW] = window
                _close(row, cell - row[CELL])
            else:
                row[WINDOW] = math.floor(cell / CELLS_PER_ROUND)
            row[CELL] = cell
        rate = min(max(math.log(shape[j] / scale[j] * round_), -_MOST_RATE), _MOST_RATE)
        by = _correction(row, rate, stirred[j])
        factors[j] = math.exp(row[CREDENCE] * by)
        if not (counts[j] and lived[j] > 0.0 and elapsed[j] > 0.0):
            continue
        terms = (1.0, rate, 0.5 if stirred[j] else -0.5)
        passed, looked = lived[j] / scale[j], 2.0 * elapsed[j] / round_
        if quiet[j] >= 0.0:  # of all ages up to that of the poll it is known whether the copy was fresh
            hazards = shape[j] * np.log1p(_AGES * passed) - math.log(max(hope[j], 1e-9))
            fresh = _AGES * lived[j] < quiet[j]
            _hear(row, min(looked, _MOST_WEIGHT), _SHARES, hazards, fresh, by, terms)
            continue
        log = math.log1p(passed)
        likely = min(max(hope[j] * math.exp(-shape[j] * log), 1e-9), 1.0 - 1e-9)
        ratio = min(_in_between(shape[j], passed, log, likely), _MOST_RATIO)
        said[0], unchanged[0] = -math.log(likely), not changed[j]
        _hear(row, min(looked * ratio, _MOST_WEIGHT), one, said, unchanged, by, terms)


@njit(cache=True, nogil=True, error_model="numpy")
def correct(round_, classes, shape, scale, stirred, rows, factors):
    """Write the factors by which hazards are corrected now."""
    for j in range(classes.size):
        row = rows[classes[j]]
        rate = min(max(math.log(shape[j] / scale[j] * round_), -_MOST_RATE), _MOST_RATE)
        factors[j] = math.exp(row[CREDENCE] * _correction(row, rate, stirred[j]))
