"""Compiled: what elements ask for at a price, within bounds, for known and for uncertain rates.

Each pass goes through columns of elements and returns

    spent      what the elements spend
    slope      how that changes with the logarithm of the price
    free       what would be spent more, relatively, if frequencies inside their bounds were scaled up
    residual   the sum of what each of these pays times the relative distance of its worth from the price

A rough pass only adds up; a fine one writes the frequencies, each with all
its digits, and measures the residual.
"""

import math

import numpy as np
from numba import njit

from ..kernels import AGE, FIXED, FRESHNESS, _freshness, _horner
from ..kernels import _inverse_worth as _inverse_known
from ..kernels import _worth as _worth_known
from ..uncertain_kernels import _inverse_worth as _inverse_uncertain
from ..uncertain_kernels import _steps
from ..uncertain_kernels import _worth as _worth_uncertain
from .passes import _EXP, _LOG2_HIGH, _LOG2_LOW, _P2, _PER_LOG2, _SMALL, _place
from .uncertain_lookup import COLUMNS, PIECE_BITS

__all__ = [
    "changes_paid",
    "lengthen_freshness",
    "locate",
    "look_up_known",
    "refine_age",
    "refine_freshness",
    "refine_harmonic",
    "scale_within",
    "settle",
    "settle_known",
]

_CHUNK = 1024
_SHIFT = 52 - PIECE_BITS
_INSIDE = (1 << _SHIFT) - 1
_UNIT = 2.0 ** (1 - _SHIFT)
_MANTISSA = (1 << 52) - 1
_ONE = 1023 << 52
_STEEP = 2.0 * (1 << PIECE_BITS)
_NEAR = 0.05
"""Changes expected within an interval, below which eight terms of a series are enough."""
_SHORT, _LONG = 2e-5, 0.02
"""After a shorter step nothing is left to improve; a longer one is not trusted."""
_ATANH = tuple(1.0 / (2 * k + 1) for k in range(11))
_MEAN_SURVIVAL = tuple((-1) ** k / math.factorial(k + 1) for k in range(12))
_LOG2 = math.log(2.0)
_ROOT_HALF = np.float64(math.sqrt(0.5)).view(np.uint64)
_FAST = {"contract", "reassoc", "nsz"}
_LONGEST = 690.0
"""Logarithm of an interval that is as good as none."""
_FAR = 4.0
"""From here on intervals are long: what an element has not seen by then hardly matters."""


@njit(error_model="numpy")
def _worth_near(kind, a, v):
    """Worth at v, with the first two derivatives of its logarithm by that of v."""
    value = _worth_uncertain(kind, a, v)
    first, bend = _steps(kind, a, v, value)
    return value, first, bend


@njit(error_model="numpy")
def _stepped(kind, a, level, v):
    """Improve the interval at which a poll is worth ``level``; return also how far from it worth may be."""
    for _ in range(3 if v > 0.0 else 0):
        value, steep, curve = _worth_near(kind, a, v)
        miss = (level - value) / value
        step = miss * (1.0 - 0.5 * miss) / steep
        if not (abs(step) < _LONG and abs(step * curve) < 0.1 and steep > 1e-6):
            break
        v *= 1.0 + step * (1.0 + 0.5 * step * (1.0 - curve))
        if abs(step) < _SHORT:
            return v, steep, steep * abs(curve) * step * step + 1e-15
    v = _inverse_uncertain(kind, a, level)
    if not 0.0 < v < math.inf:
        return v, 1.0, 0.0
    value, steep, _ = _worth_near(kind, a, v)
    return v, (max(1e-09, steep)), abs(1.0 - value / level)


@njit(inline="always")
def _log1p(v):
    """Logarithm of 1 + v for v >= 0, so that the compiler can vectorise it."""
    y = 1.0 + v
    lost = (v - (y - 1.0)) / y
    bits = np.float64(y).view(np.uint64)
    k = (bits - _ROOT_HALF) >> np.uint64(52)
    f = np.uint64(bits - (k << np.uint64(52))).view(np.float64) - 1.0
    s = f / (2.0 + f)
    return np.float64(np.int64(k)) * _LOG2 + (2.0 * s * _horner(_ATANH, s * s) + lost)


@njit(inline="always")
def _decay(t):
    """exp(-t) for t >= 0, likewise: 2^-k exp(u)."""
    t = min(t, 700.0)
    k = math.floor(t * _PER_LOG2 + 0.5)
    u = (k * _LOG2_HIGH - t) + k * _LOG2_LOW
    return np.int64((1023 - np.int64(k)) << 52).view(np.float64) * _horner(_EXP, u)


@njit(inline="always")
def _near_zero(a, z, c1, c2, c3, c4, c5, c6, c7, c8):
    """Sum of c_n (a)_n (-z)^(n-1) / n!, for n from 1, divided by a z: the start of a worth."""
    return c1 - (a + 1.0) * z * 0.5 * (
        c2
        - (a + 2.0)
        * z
        / 3.0
        * (
            c3
            - (a + 3.0)
            * z
            * 0.25
            * (
                c4
                - (a + 4.0)
                * z
                * 0.2
                * (c5 - (a + 5.0) * z / 6.0 * (c6 - (a + 6.0) * z / 7.0 * (c7 - (a + 7.0) * z * 0.125 * c8)))
            )
        )
    )


@njit(inline="always")
def _halley(value, level, growth, curve, sure):
    """A step towards the level, in parts of the interval, and how far off worth is after it; -1 if unsure."""
    miss = (level - value) / value
    step = miss * (1.0 - 0.5 * miss) / growth
    good = sure & (abs(step) < _SHORT) & (growth > 1e-3)
    off = growth * abs(curve) * step * step + 1e-15
    return (step * (1.0 + 0.5 * step * (1.0 - curve)) if good else 0.0), (off if good else -1.0)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def refine_freshness(shapes, level, v, off):
    """Improve intervals by one step of Halley's; where that is not enough, say so by ``off < 0``."""
    for j in range(v.size):
        a, z, lev = shapes[j], v[j], level[j]
        tail = _decay(a * _log1p(z))
        small = (1.0 + a) * z < _NEAR
        start = a * z * z * _near_zero(a, z, 1 / 2, 2 / 3, 3 / 4, 4 / 5, 5 / 6, 6 / 7, 7 / 8, 8 / 9)
        value = start if small else (1.0 - (1.0 + a * z) * tail) / (a - 1.0)
        sure = small | (abs(a - 1.0) * lev > 1e-4)
        share = z / (1.0 + z)
        growth = z * share * a * tail / value
        step, off[j] = _halley(value, lev, growth, 2.0 - (a + 1.0) * share - growth, sure)
        v[j] = z * (1.0 + step)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def refine_age(shapes, level, v, off):
    """Likewise."""
    for j in range(v.size):
        a, z, lev = shapes[j], v[j], level[j]
        tail = _decay(a * _log1p(z))
        small = (1.0 + a) * z < _NEAR
        start = a * z * z * _near_zero(a, z, 1 / 3, 1 / 4, 1 / 5, 1 / 6, 1 / 7, 1 / 8, 1 / 9, 1 / 10)
        changed = 1.0 - tail
        near = (a - 1.0) * (a - 2.0)
        second = (changed - a * z * (1.0 + 0.5 * (a - 1.0) * z) * tail) / (near * z)
        value = start if small else 0.5 * z * changed - second  # worth over z
        sure = small | (abs(near) * lev > 1e-4)
        changed = a * z * _near_zero(a, z, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0) if small else changed
        growth = z * changed / value
        curve = 2.0 + z / (1.0 + z) * a * tail / changed - growth
        step, off[j] = _halley(value, lev / z, growth, curve, sure)
        v[j] = z * (1.0 + step)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def refine_harmonic(shapes, level, v, off):
    """Likewise."""
    for j in range(v.size):
        a, z, lev = shapes[j], v[j], level[j]
        tail = _decay(a * _log1p(z))
        small = (1.0 + a) * z < _NEAR
        start = a * z * z * _near_zero(a, z, 1 / 2, 1 / 3, 1 / 4, 1 / 5, 1 / 6, 1 / 7, 1 / 8, 1 / 9)
        changed = 1.0 - tail
        value = start if small else z * changed - (changed - a * z * tail) / (a - 1.0)
        sure = small | (abs(a - 1.0) * lev > 1e-4)
        changed = a * z * _near_zero(a, z, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0) if small else changed
        growth = z * changed / value
        curve = 1.0 + z / (1.0 + z) * a * tail / changed - growth
        step, off[j] = _halley(value, lev, growth, curve, sure)
        v[j] = z * (1.0 + step)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def lengthen_freshness(shapes, level, v, bend, off):
    """Solve for long intervals that the table does not have, or that one step does not make good enough.

    With ``tail = (1+v)^-a`` the worth is ``level`` where ``u = log(1+v)`` solves

        u = log(1 + (1-a) y) / (1-a),   y = (1 + level - tail) / a.

    The right side depends on u by the tail alone: its slope is about ``1 / (1+v)``, so Newton's steps from no
    tail at all are good from the first on. Where they are not, nothing is changed.
    """
    n = 0
    place = np.empty(v.size, np.int64)
    for j in range(v.size):  # without a jump, as none could be foreseen
        place[n] = j
        n += (v[j] < 0.0) | ((off[j] < 0.0) & (v[j] >= _FAR) & (v[j] < math.inf))
    shape, goal, u, step = np.empty(n), np.empty(n), np.full(n, 1e4), np.empty(n)
    for i in range(n):
        shape[i], goal[i] = shapes[place[i]], level[place[i]]
    for _ in range(4):
        for i in range(n):
            a, lev = shape[i], goal[i]
            tail = _decay(a * u[i])
            y = (1.0 + lev - tail) / a
            above = (a - 1.0) * y
            left = (1.0 - (a - 1.0) * lev + (a - 1.0) * tail) / a  # 1 - above, with all its digits
            log = _log1p(above / left if above > 0.0 else -above)
            new = log / abs(a - 1.0) if a != 1.0 else y
            step[i] = (new - u[i]) / (1.0 - tail / left)
            u[i] += step[i]
    for i in range(n):
        a, j = shape[i], place[i]
        long = 1.0 / _decay(u[i]) - 1.0
        growth = long * (long / (1.0 + long)) * a * _decay(a * u[i]) / goal[i]
        if u[i] > _LONGEST and abs(step[i]) < 1.0:
            v[j] = math.inf
            off[j] = bend[j] = 0.0
        elif abs(step[i]) < _SHORT and long >= _FAR and growth > 1e-9:
            v[j], bend[j] = long, -1.0 / growth
            off[j] = growth * ((1.0 + a) * step[i] * step[i] / long + 1e-16 * u[i]) + 1e-15


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def locate(shape, scale, weight, size, price, table, level, v, bend):
    """Look up the intervals ``v`` at a price, the worth ``level`` that they are to have, and elasticities.

    Where the table has no answer, ``v`` is -1; where there are no polls, inf.
    """
    rows, first, count, second, rest, kind = table
    last = rows.shape[0] - 1
    saturates = rest > 0
    place = np.empty(_CHUNK, np.int64)
    index = place.view(np.uint64)
    x, y, z, unit, share = np.empty((5, _CHUNK))
    bits, unit_bits = z.view(np.int64), unit.view(np.int64)
    for start in range(0, shape.size, _CHUNK):
        m = min(_CHUNK, shape.size - start)
        shapes, scales, weights, sizes = (
            shape[start:][:m],
            scale[start:][:m],
            weight[start:][:m],
            size[start:][:m],
        )
        levels, found, bends = level[start:][:m], v[start:][:m], bend[start:][:m]
        for j in range(m):
            a, s, w, h = shapes[j], scales[j], weights[j], sizes[j]
            b = 1.0 / (1.0 + a)
            lev = price * (h * s / w)
            lev = lev * s if kind == AGE else lev
            q = lev / (b * (1.0 - b))
            levels[j] = lev
            x[j] = q / b if kind == AGE else q
            share[j] = lev * (a - 1.0) if saturates else 0.0
            y[j] = b * COLUMNS
        for j in range(m):
            z[j] = x[j] if share[j] < 0.5 else max(1.0 - share[j], 0.0)
        for j in range(m):
            main = share[j] < 0.5
            k = (bits[j] >> _SHIFT) - (first if main else second)
            known = (k >= 0) & (k < (count if main else rest))
            c = np.int64(min(y[j], COLUMNS - 1.0))
            place[j] = (k + (0 if main else count)) * COLUMNS + c if known else last
            x[j] = np.float64(bits[j] & _INSIDE) * _UNIT - 1.0
            y[j] = 2.0 * (y[j] - np.float64(c)) - 1.0
            unit_bits[j] = (bits[j] & _MANTISSA) | _ONE
            bends[j] = _STEEP if main else -_STEEP * share[j] / z[j]
        for j in range(m):
            k = index[j]
            t, u = x[j], y[j]
            c0 = rows[k, 0] + u * (rows[k, 1] + u * (rows[k, 2] + u * rows[k, 3]))
            c1 = rows[k, 4] + u * (rows[k, 5] + u * (rows[k, 6] + u * rows[k, 7]))
            c2 = rows[k, 8] + u * (rows[k, 9] + u * (rows[k, 10] + u * rows[k, 11]))
            c3 = rows[k, 12] + u * (rows[k, 13] + u * (rows[k, 14] + u * rows[k, 15]))
            psi = c0 + t * (c1 + t * (c2 + t * c3))
            bends[j] *= unit[j] * (c1 + t * (2.0 * c2 + t * (3.0 * c3))) / psi
            found[j] = psi
        for j in range(m):
            known = found[j] > 0.0
            never = (share[j] >= 1.0) | (levels[j] == math.inf)
            interval = 1.0 / ((1.0 + shapes[j]) * found[j])
            found[j] = math.inf if never else (interval if known else -1.0)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def settle(kind, shape, scale, size, low, high, level, v, bend, off, fine, out):
    """Solve for intervals that are not known well enough, and add up; if ``fine``, write frequencies."""
    spent = slope = free = residual = 0.0
    for j in range(shape.size):
        if v[j] < 0.0 or (fine and off[j] < 0.0):
            if v[j] < math.inf:
                v[j], steep, off[j] = _stepped(kind, shape[j], level[j], v[j])
                bend[j] = -1.0 / steep
            else:
                off[j] = bend[j] = 0.0
    for j in range(shape.size):
        asked = scale[j] / v[j]
        f = min(max(asked, low[j]), high[j])
        paid = size[j] * f
        inside = paid if (low[j] < asked) & (asked < high[j]) else 0.0
        spent += paid
        free += inside
        slope += inside * bend[j] if inside > 0.0 else 0.0
        residual += inside * off[j] if inside > 0.0 else 0.0
        v[j] = f
    if fine:
        out[:] = v
    return spent, slope, free, residual


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def look_up_known(rate, weight, size, change_size, price, table, x, phi, bend):
    """Look up what elements with known rates ask for: frequencies over rates, and elasticities.

    Polls may cost more if they find a change, for freshness only. The changes that polls find are
    proportional to freshness, so paying for them is like a lower weight.
    """
    rows, turn, first, second, kind, order = table
    last = rows.shape[0] - 1
    place = np.empty(_CHUNK, np.int64)
    index = place.view(np.uint64)
    z = np.empty(_CHUNK)
    for start in range(0, rate.size, _CHUNK):
        m = min(_CHUNK, rate.size - start)
        rates, weights, sizes, more = (
            rate[start:][:m],
            weight[start:][:m],
            size[start:][:m],
            change_size[start:][:m],
        )
        xs, phis, bends = x[start:][:m], phi[start:][:m], bend[start:][:m]
        for j in range(m):
            r, w = rates[j], weights[j]
            left = w - price * more[j] * r
            at = price * sizes[j] * r / left
            xs[j] = at if (left > 0.0) & (r > 0.0) else math.inf
            bends[j] = w / left
        if kind == AGE:
            for j in range(m):
                xs[j] *= rates[j]
        far = 0
        for j in range(m):
            z[j], place[j] = _place(xs[j], turn, first, second, last)
            far += (place[j] == last) & (xs[j] < 2.0 * turn)
        for j in range(m):
            k = index[j]
            u = z[j] - rows[k, 0]
            c1, c2, c3, c4 = rows[k, 2], rows[k, 3], rows[k, 4], rows[k, 5]
            phis[j] = rows[k, 1] + u * (c1 + u * (c2 + u * (c3 + u * c4)))
            tangent = c1 + u * (2.0 * c2 + u * (3.0 * c3 + u * (4.0 * c4)))
            bends[j] *= xs[j] * (tangent if xs[j] < turn else -tangent) / phis[j]
        if far:
            for j in range(m):
                if place[j] == last and xs[j] < 2.0 * turn:
                    phis[j] = 1.0 / _inverse_known(kind, order, xs[j])
                    bends[j] = -0.5 if xs[j] < turn else -1.0


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def settle_known(rate, size, change_size, low, high, table, x, phi, bend, fine, out):
    """Keep frequencies within their bounds, and add up."""
    _, _, _, _, kind, order = table
    spent = slope = free = residual = 0.0
    for j in range(rate.size):
        asked = rate[j] * phi[j]
        f = min(max(asked, low[j]), high[j])
        inside = (low[j] < asked) & (asked < high[j])
        paid = (size[j] + change_size[j] * min(x[j], 1.0)) * f if inside else 0.0
        spent += size[j] * f
        free += paid
        slope += paid * bend[j] if inside else 0.0
        bend[j] = paid
        out[j] = f
    if fine and kind == FRESHNESS and order == FIXED:
        for j in range(rate.size):
            r = 1.0 / phi[j]
            large = 1.0 - (1.0 + r) * _decay(r)
            worth = r * r * _horner(_P2, r) if r < _SMALL else large
            residual += bend[j] * abs(1.0 - worth / x[j]) if bend[j] > 0.0 else 0.0
    elif fine:
        for j in range(rate.size):
            if bend[j] > 0.0:
                residual += bend[j] * abs(1.0 - _worth_known(kind, order, 1.0 / phi[j]) / x[j])
    return spent, slope, free, residual


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def changes_paid(rate, change_size, f, order):
    """What is paid for the changes that polls find."""
    paid = 0.0
    if order == FIXED:
        for j in range(rate.size):  # freshness is (1 - exp(-r)) / r
            r = rate[j] / f[j]
            share = _horner(_MEAN_SURVIVAL, r) if r < 0.1 else (1.0 - _decay(r)) / r
            paid += change_size[j] * rate[j] * share if (f[j] > 0.0) & (rate[j] > 0.0) else 0.0
    else:
        for j in range(rate.size):
            if f[j] > 0.0 and rate[j] > 0.0:
                paid += change_size[j] * rate[j] * _freshness(order, rate[j] / f[j])
    return paid


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def scale_within(f, size, low, high, scale):
    """Scale frequencies inside their bounds, as far as these allow; return what all spend, and these."""
    spent = free = 0.0
    for j in range(f.size):
        inside = (low[j] < f[j]) & (f[j] < high[j])
        scaled = min(max(f[j] * scale, low[j]), high[j])
        f[j] = scaled if inside else f[j]
        free += size[j] * scaled if inside else 0.0
        spent += size[j] * f[j]
    return spent, free
