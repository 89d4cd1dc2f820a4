"""Compiled: elements with known rates for freshness in fixed order, by polynomials.

Nothing in a pass is slower than to look up, so up to ``x = 0.98`` a polynomial takes the place of the table
of `compiled.demand`: with ``t = sqrt(x / (1-x))``, ``phi * t`` is smooth in ``t / (t + FIT_CENTRE)``. The few
elements beyond, which are about to be cut off, are looked up. So are asked many elements without options, and
elements whose polls cost more if they find a change.
"""

import math

import numpy as np
from numba import njit

from ...exponential_kernels import _horner
from ...kernels import FIXED, FRESHNESS, _inverse_worth
from ..lookup import FIT_CENTRE, FIT_END, fitted_freshness
from .demand import _NEAR_CUTOFF, CHUNK_ELEMENTS, FAST_MATH, _add_up, _filled, _piece, _place, _priced, lowest

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


@njit(error_model="numpy")
def _ask_marked(marks, rates, weights, unit, table, blur, fall, start, near, count, bends):
    """Ask the elements of a chunk whose marks are negative, by the table, and write what they ask for there.

    If there is room, writes the slopes of frequencies over rates as well. Returns the sum of what is asked
    for, its slope, and how many elements are near their cutoff so far.
    """
    asked = slope = 0.0
    for first in range(0, rates.size, 16):
        end = min(first + 16, rates.size)
        if end == first + 16 and lowest(marks, first) >= 0.0:
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
            if bends.size:
                bends[j] = bend
            asked += rates[j] * phi
            slope += rates[j] * bend
    return asked, slope, count


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST_MATH)
def ask_plain_roughly(rate, weight, size, price, table, blur, sums, near):
    """Pass over elements as `ask_known` does, to seven digits."""
    xs, vs = np.empty(CHUNK_ELEMENTS, np.float32), np.empty(CHUNK_ELEMENTS, np.float32)
    nowhere = np.empty(0)
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
        some, bend, count = _ask_marked(
            vs, rates, weights, unit, table, blur, fall, start, near, count, nowhere
        )
        total += asked / (scale * unit) + some
        steep += bend - slope / (scale * unit)
    sums[0, 0] += size * total
    sums[0, 1] += size * steep
    sums[0, 2] += size * total
    return count


@njit(inline="always")
def _fitted(x, y):
    """``phi(x / (x+y)) x``, and whether that is known; with ``s = sqrt(x y)``, ``t`` is ``x / s``."""
    s = math.sqrt(x * y)
    z = _FIT[0] - _FIT[1] * s / (x + FIT_CENTRE * s)
    square = z * z
    known = (x < FIT_END * y) & (s > 1.0 / _MIDDLE) & (s < _MIDDLE)
    return (_horner(_EVEN, square) + z * _horner(_ODD, square)) * s, known


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST_MATH)
def ask_plain(rate, weight, size, price, table, out, sums):
    """Likewise, finely."""
    fill, unit, nobody = np.full(CHUNK_ELEMENTS, weight[0]), price * size, np.empty(0, np.int64)
    back, nowhere = 1.0 / unit, np.empty(0)
    total = 0.0
    for start in range(0, rate.size, CHUNK_ELEMENTS):
        rates, given = rate[start:][:CHUNK_ELEMENTS], out[start:][:CHUNK_ELEMENTS]
        weights = _piece(weight, start, rates.size, fill)
        asked = 0.0
        for j in range(rates.size):
            x = unit * rates[j]
            y = weights[j] - x
            own, known = _fitted(x, y)
            f = own * back
            asked += f if known else 0.0
            given[j] = f if known else (-1.0 if (y > 0.0) & (x > 0.0) else 0.0)
        some, _, _ = _ask_marked(given, rates, weights, unit, table, 0.0, 0.0, start, nobody, 0, nowhere)
        total += asked + some
    sums[0, 0] += size * total
    sums[0, 2] += size * total
    sums[0, 3] += table[6] * size * total
    return 0


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST_MATH)
def ask_conditional(n, columns, prices, codes, table, blur, fine, out, sums, near):
    """Pass over elements whose polls cost more if they find a change; see `compiled.demand.ask_known`.

    ``columns`` are those of `demand.KnownRates`; there are no bounds. As the worth of freshness is ``x`` at
    intervals of ``1 / phi`` changes, freshness is ``phi (1 + x phi) / (1 + phi)``: changes that polls find
    cost no exponential. A fine pass writes to SLOPE how spending bends if frequencies are scaled: half of it,
    times the square of the scaling, is what is spent more than FREE tells.
    """
    fills, price_fill = _filled(columns), np.full(CHUNK_ELEMENTS, prices[0])
    x, left, found = np.empty(CHUNK_ELEMENTS), np.empty(CHUNK_ELEMENTS), np.empty(CHUNK_ELEMENTS)
    asked, bends = np.empty(CHUNK_ELEMENTS), np.empty(CHUNK_ELEMENTS)
    inside, off, spare = np.empty(CHUNK_ELEMENTS), np.empty(CHUNK_ELEMENTS), np.empty(CHUNK_ELEMENTS)
    fall = -0.5 / (blur * _inverse_worth(FRESHNESS, FIXED, 1.0 - blur)) if blur > 0.0 else 0.0
    cut_off, error = 0, table[6]
    for start in range(0, n, CHUNK_ELEMENTS):
        m = min(CHUNK_ELEMENTS, n - start)
        rate, weight = _piece(columns[0], start, m, fills[0]), _piece(columns[1], start, m, fills[1])
        size, more = _piece(columns[2], start, m, fills[2]), _piece(columns[3], start, m, fills[3])
        price, given = _priced(prices, codes, start, m, price_fill), out[start:][:m] if fine else spare[:m]
        for j in range(m):
            found[j] = more[j] * rate[j]
            left[j] = weight[j] - price[j] * found[j]
            x[j] = price[j] * (size[j] * rate[j])
        for j in range(m):
            y = left[j] - x[j]
            own, known = _fitted(x[j], y)
            phi = own / x[j]
            near_or_below = (x[j] > 0.0) & (x[j] < (1.0 + 2.0 * _NEAR_CUTOFF) * left[j])
            asked[j] = own if known else (-1.0 if near_or_below else 0.0)
            bends[j] = -phi * phi * (1.0 + phi) * x[j] / y if known else 0.0
        _, _, cut_off = _ask_marked(asked, x[:m], left, 1.0, table, blur, fall, start, near, cut_off, bends)
        for j in range(m):
            polled = asked[j] > 0.0
            phi, inverse = asked[j] / x[j] if polled else 0.0, 1.0 / left[j]
            share = min(x[j] * inverse, 1.0) if polled else 1.0
            rest = 1.0 / (1.0 + phi)
            f = rate[j] * phi
            paid = size[j] * f
            inside[j] = paid + found[j] * (share * phi)
            asked[j] = paid + found[j] * (phi * (1.0 + share * phi) * rest)
            off[j], given[j] = error * inside[j], f
            slope = (size[j] * rate[j] + found[j] * share) * bends[j] * (weight[j] * inverse)
            bow = -found[j] * (1.0 - share) * rest if polled else 0.0
            bends[j] = bow if fine else (slope if bends[j] < 0.0 else 0.0)
        _add_up(codes, start, asked[:m], bends[:m], inside[:m], off[:m], sums)
    return cut_off
