"""Compiled: many elements with known rates and no options, for freshness in fixed order.

Nothing in a pass is slower than to look up, so up to ``x = 0.98`` a polynomial takes the place of the table
of `compiled.demand`: with ``t = sqrt(x / (1-x))``, ``phi * t`` is smooth in ``t / (t + FIT_CENTRE)``. The few
elements beyond, which are about to be cut off, are looked up.
"""

import math

import numpy as np
from numba import njit

from ...kernels import FIXED, FRESHNESS, _horner, _inverse_worth
from ..lookup import FIT_CENTRE, FIT_END, fitted_freshness
from .demand import _NEAR_CUTOFF, CHUNK_ELEMENTS, FAST_MATH, _piece, _place

_FIT, _EVEN, _ODD = fitted_freshness()
_F32 = np.float32
_FIT_32, _EVEN_32, _ODD_32 = (tuple(map(_F32, part)) for part in fitted_freshness(15))
_NONE, _ONE, _SMALLEST = _F32(0.0), _F32(1.0), _F32(1e-30)
_CENTRE, _END = _F32(FIT_CENTRE), _F32(FIT_END)
_MIDDLE = 1e140
"""Numbers from one over this to this can be squared and multiplied."""


@njit(inline="always")
def _horner_32(coefficients, x):
    total = coefficients[len(coefficients) - 1]
    for i in range(len(coefficients) - 2, -1, -1):
        total = total * x + coefficients[i]
    return total


@njit(inline="always")
def _look_up(x, table):
    """Frequency over rate of one element, and its slope by log(x), where freshness saturates."""
    rows, turn, first, second, kind, order, _ = table
    last = rows.shape[0] - 1
    z, k = _place(x, turn, first, second, last)
    if k == last:
        phi = 1.0 / _inverse_worth(kind, order, x)
        return phi, phi * (-0.5 if x < turn else -1.0)
    u, a, b, c, d = z - rows[k, 0], rows[k, 2], rows[k, 3], rows[k, 4], rows[k, 5]
    tangent = a + u * (2.0 * b + u * (3.0 * c + u * (4.0 * d)))
    return rows[k, 1] + u * (a + u * (b + u * (c + u * d))), x * (tangent if x < turn else -tangent)


@njit(inline="always")
def _lowest(marks, first):
    """The smallest of sixteen."""
    low = marks[first]
    for i in range(1, 16):
        low = min(low, marks[first + i])
    return low


@njit(error_model="numpy")
def _ask_marked(marks, rates, weights, unit, table, blur, fall, start, near, count):
    """Ask the elements of a chunk whose marks are negative, by the table, and write what they ask for there.

    Returns the sum of that, its slope, and how many elements are near their cutoff so far.
    """
    asked = slope = 0.0
    for first in range(0, rates.size, 16):
        end = min(first + 16, rates.size)
        if end == first + 16 and _lowest(marks, first) >= 0.0:
            continue
        for j in range(first, end):
            if marks[j] >= 0.0:
                continue
            x = unit * rates[j] / weights[j]
            phi, bend = (0.0, 0.0) if x >= 1.0 else _look_up(x, table)
            if abs(x - 1.0) < _NEAR_CUTOFF:
                bend = fall * x if abs(x - 1.0) < blur else bend
                if near.size:
                    near[count] = start + j
                    count += 1
            marks[j] = rates[j] * phi
            asked += rates[j] * phi
            slope += rates[j] * bend
    return asked, slope, count


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST_MATH)
def ask_plain_roughly(rate, weight, size, price, table, blur, sums, near):
    """Pass over elements as `ask_known` does, to seven digits."""
    xs, vs = np.empty(CHUNK_ELEMENTS, np.float32), np.empty(CHUNK_ELEMENTS, np.float32)
    fall = -0.5 / (blur * _inverse_worth(FRESHNESS, FIXED, 1.0 - blur))
    fill, unit, scale = (
        np.full(CHUNK_ELEMENTS, weight[0]),
        price * size,
        1.0 / max(weight[:CHUNK_ELEMENTS].max(), 1e-300),
    )
    total = steep = 0.0
    count = 0
    for start in range(0, rate.size, CHUNK_ELEMENTS):
        rates = rate[start:][:CHUNK_ELEMENTS]
        weights = _piece(weight, start, rates.size, fill)
        for j in range(rates.size):
            x = unit * rates[j]
            xs[j] = x * scale
            v = np.float32(x * scale) / np.float32((weights[j] - x) * scale)
            vs[j] = v if x > 0.0 else -_ONE
        asked = slope = _NONE
        for j in range(rates.size):
            v = vs[j]
            known = (v > _SMALLEST) & (v < _END)
            t = math.sqrt(v if known else _ONE)
            part = _ONE / (t * (t + _CENTRE))
            z = _FIT_32[0] - _FIT_32[1] * (t * part)
            square = z * z
            phi = (_horner_32(_EVEN_32, square) + z * _horner_32(_ODD_32, square)) * ((t + _CENTRE) * part)
            own = xs[j] * phi if known else _NONE
            asked += own
            slope += own * phi * (_ONE + phi) * v if known else _NONE
            vs[j] = _NONE if known | ((v < _NONE) & (v > -_END)) else -_ONE
        some, bend, count = _ask_marked(vs, rates, weights, unit, table, blur, fall, start, near, count)
        total += asked / (scale * unit) + some
        steep += bend - slope / (scale * unit)
    sums[0, 0] += size * total
    sums[0, 1] += size * steep
    sums[0, 2] += size * total
    return count


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST_MATH)
def ask_plain(rate, weight, size, price, table, out, sums):
    """Likewise, finely; with ``s = sqrt(x (1-x))``, ``t`` is ``x / s``."""
    fill, unit, nobody = np.full(CHUNK_ELEMENTS, weight[0]), price * size, np.empty(0, np.int64)
    back = 1.0 / unit
    total = 0.0
    for start in range(0, rate.size, CHUNK_ELEMENTS):
        rates, given = rate[start:][:CHUNK_ELEMENTS], out[start:][:CHUNK_ELEMENTS]
        weights = _piece(weight, start, rates.size, fill)
        asked = 0.0
        for j in range(rates.size):
            x = unit * rates[j]
            y = weights[j] - x
            s = math.sqrt(x * y)
            z = _FIT[0] - _FIT[1] * s / (x + FIT_CENTRE * s)
            square = z * z
            f = (_horner(_EVEN, square) + z * _horner(_ODD, square)) * s * back
            known = (x < FIT_END * y) & (s > 1.0 / _MIDDLE) & (s < _MIDDLE)
            asked += f if known else 0.0
            given[j] = f if known else (-1.0 if (y > 0.0) & (x > 0.0) else 0.0)
        some, _, _ = _ask_marked(given, rates, weights, unit, table, 0.0, 0.0, start, nobody, 0)
        total += asked + some
    sums[0, 0] += size * total
    sums[0, 2] += size * total
    sums[0, 3] += table[6] * size * total
    return 0
