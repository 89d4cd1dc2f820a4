"""Compiled: what elements with uncertain rates ask for at a price (see `compiled.demand`).

In fixed order a table says where to begin, and a step or two of Halley's give all digits; in random orders
the table says it all, mostly to 3e-6, and residuals say what that may miss. Elements that a table
does not have, or whose polls cost more if they find a change, are solved for one by one.
"""

import math

import numpy as np
from numba import njit

from ...exponential_kernels import _decay, _horner, _log1p
from ...kernels import AGE, FIXED, FRESHNESS
from ...uncertain_kernels import (
    _conditional_interval,
    _inverse_worth,
    _steps,
    _worth,
    _worth_and_growth,
)
from ..uncertain_lookup import COLUMNS, PIECE_BITS, RANDOM_BITS
from .demand import (
    _MEAN_SURVIVAL,
    CHUNK_ELEMENTS,
    FAST_MATH,
    _add_up,
    _filled,
    _piece,
    _priced,
    lowest,
    note_cutoff,
    settle,
)

_SHIFT, _RANDOM_SHIFT = 52 - PIECE_BITS, 52 - RANDOM_BITS
_INSIDE = (1 << _SHIFT) - 1
_UNIT = 2.0 ** (1 - _SHIFT)
_MANTISSA = (1 << 52) - 1
_ONE = 1023 << 52
_STEEP = 2.0 * (1 << PIECE_BITS)
_SERIES_CHANGES, _SERIES_INTERVAL = 0.05, 0.02
"""Changes expected within an interval, and intervals, below which eight terms of a series are enough."""
_NEAR_ONE = 0.1
"""Logarithm by which the tail differs from that of shape 1, below which ten terms of a series are enough."""
_LAST_STEP, _TRUSTED_STEP = 2e-5, 0.02
"""After a shorter step, relatively, nothing is left to improve; a longer one is not trusted."""
_GOOD_ENOUGH_RELATIVE = 3e-5
"""Relative error of an interval in random order: what it costs is a square of that."""
_CLOSE_STEP = 1e-6
"""and where a step leaves as little, no other one follows."""
_CLOSE_COST, _NEAR_COST = 1e-11, 1e-4
"""How far the cost of a poll may be from the one that was looked for, in a fine pass and in a rough one."""
_LONGEST_LOG = 690.0
"""Logarithm of an interval that is as good as none."""
_LONGEST_STEP = 1.0
"""Largest step of the logarithm of an interval."""
_LONG_INTERVAL = 4.0
"""From here on intervals are long: what an element has not seen by then hardly matters."""


@njit(error_model="numpy")
def _worth_near(kind, a, v):
    """Worth at v, with the first two derivatives of its logarithm by that of v."""
    value = _worth(kind, a, v)
    first, bend = _steps(kind, a, v, value)
    return value, first, bend


@njit(error_model="numpy")
def _stepped(kind, a, level, v):
    """Improve the interval at which a poll is worth ``level``; return also how far from it worth may be."""
    for _ in range(3 if v > 0.0 else 0):
        value, steep, curve = _worth_near(kind, a, v)
        miss = (level - value) / value
        step = miss * (1.0 - 0.5 * miss) / steep
        if not (abs(step) < _TRUSTED_STEP and abs(step * curve) < 0.1 and steep > 1e-6):
            break
        v *= 1.0 + step * (1.0 + 0.5 * step * (1.0 - curve))
        if abs(step) < _LAST_STEP:
            return v, steep, steep * abs(curve) * step * step + 1e-15
    v = _inverse_worth(kind, FIXED, a, level)
    if not 0.0 < v < math.inf:
        return v, 1.0, 0.0
    value, steep, _ = _worth_near(kind, a, v)
    return v, (max(1e-09, steep)), abs(1.0 - value / level)


_THIRD, _SIXTH, _SEVENTH = 1.0 / 3.0, 1.0 / 6.0, 1.0 / 7.0  # to multiply is quicker than to divide


@njit(inline="always")
def _near_zero(a, z, c1, c2, c3, c4, c5, c6, c7, c8):
    """Sum of c_n (a)_n (-z)^(n-1) / n!, for n from 1, divided by a z: the start of a worth."""
    sum7 = c7 - (a + 7.0) * z * 0.125 * c8
    sum5 = c5 - (a + 5.0) * z * _SIXTH * (c6 - (a + 6.0) * z * _SEVENTH * sum7)
    sum3 = c3 - (a + 3.0) * z * 0.25 * (c4 - (a + 4.0) * z * 0.2 * sum5)
    return c1 - (a + 1.0) * z * 0.5 * (c2 - (a + 2.0) * z * _THIRD * sum3)


_GROWTH = tuple(1.0 / math.factorial(k + 1) for k in range(10))


@njit(inline="always")
def _first_moment(a, z, log, tail, changed):
    """The worth of freshness, but for short intervals."""
    near = (1.0 - a) * log  # where that is small, the usual form divides two small numbers
    close = a * log * _horner(_GROWTH, near) - changed
    return close if max(a * _NEAR_ONE, 1.0) * abs(near) < _NEAR_ONE else (changed - a * z * tail) / (a - 1.0)


@njit(inline="always")
def _freshness_near(a, z, level):
    """What one step of Halley's needs to know of the worth of freshness at z.

    Returns the level over the worth, less 1; the derivative of the logarithm of the worth by that of z; the
    second one divided by it; whether these have their digits; the chance that nothing has changed; and
    ``z / (1+z)``.
    """
    log, share = _log1p(z), z / (1.0 + z)
    tail = _decay(a * log)
    start = a * z * z * _near_zero(a, z, 1 / 2, 2 / 3, 3 / 4, 4 / 5, 5 / 6, 6 / 7, 7 / 8, 8 / 9)
    small = ((1.0 + a) * z < _SERIES_CHANGES) & (z < _SERIES_INTERVAL)
    value = start if small else _first_moment(a, z, log, tail, 1.0 - tail)
    sure = (z > 0.0) & (z < math.inf)
    inverse = 1.0 / value
    growth = z * share * a * tail * inverse
    return (level - value) * inverse, growth, 2.0 - (a + 1.0) * share - growth, sure, tail, share


@njit(inline="always")
def _age_near(a, z, level):
    """Likewise, of age."""
    tail, share = _decay(a * _log1p(z)), z / (1.0 + z)
    small = (1.0 + a) * z < _SERIES_CHANGES
    start = a * z * z * _near_zero(a, z, 1 / 3, 1 / 4, 1 / 5, 1 / 6, 1 / 7, 1 / 8, 1 / 9, 1 / 10)
    changed = 1.0 - tail
    near = (a - 1.0) * (a - 2.0)
    second = (changed - a * z * (1.0 + 0.5 * (a - 1.0) * z) * tail) / (near * z)
    value = start if small else 0.5 * z * changed - second
    sure = (z > 0.0) & (small | (abs(near) * level > 1e-4))
    changed = a * z * _near_zero(a, z, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0) if small else changed
    inverse = 1.0 / value  # z over the worth
    growth = z * changed * inverse
    miss = (level / z - value) * inverse
    return miss, growth, 2.0 + share * a * tail / changed - growth, sure, tail, share


@njit(inline="always")
def _harmonic_near(a, z, level):
    """Likewise, of harmonic."""
    log, share = _log1p(z), z / (1.0 + z)
    tail = _decay(a * log)
    small = ((1.0 + a) * z < _SERIES_CHANGES) & (z < _SERIES_INTERVAL)
    start = a * z * z * _near_zero(a, z, 1 / 2, 1 / 3, 1 / 4, 1 / 5, 1 / 6, 1 / 7, 1 / 8, 1 / 9)
    changed = 1.0 - tail
    value = start if small else z * changed - _first_moment(a, z, log, tail, changed)
    sure = (z > 0.0) & (z < math.inf)
    changed = a * z * _near_zero(a, z, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0) if small else changed
    inverse = 1.0 / value
    growth = z * changed * inverse
    return (level - value) * inverse, growth, 1.0 + share * a * tail / changed - growth, sure, tail, share


@njit(inline="always")
def _halley(z, near):
    """The interval after a step towards the level, and how far off worth is after it; -1 if unsure."""
    miss, growth, curve, sure, _, _ = near
    step = miss * (1.0 - 0.5 * miss) / growth
    good = sure & (abs(step) < _LAST_STEP) & (growth > 1e-3)
    off = growth * abs(curve) * step * step + 1e-15
    better = z * (1.0 + (step * (1.0 + 0.5 * step * (1.0 - curve)) if good else 0.0))
    return better, (off if good else (-1.0 if z < math.inf else 0.0))


@njit(inline="always")
def _next_found_near(a, z, tail, share):
    """Changes that one more poll finds at intervals z, and the derivative of that by the logarithm of z."""
    few = a * (a + 1.0) * z * z * (0.5 - (a + 2.0) * z * (1.0 / 3.0 - (a + 3.0) * z * 0.125))
    found = few if (1.0 + a) * z < 1e-3 else 1.0 - tail - a * share * tail
    return found, a * (a + 1.0) * share * share * tail


@njit(inline="always")
def _next_found(a, z):
    """Likewise."""
    return _next_found_near(a, z, _decay(a * _log1p(z)), z / (1.0 + z))


@njit(inline="always")
def _conditional_halley(a, more, z, near):
    """Likewise where found changes cost ``more`` times a poll: towards the level times the cost of a poll.

    Returns also the elasticity of the frequency, and by how much the interval was stepped.
    """
    miss, growth, curve, sure, tail, share = near
    found, rise = _next_found_near(a, z, tail, share)
    cost = 1.0 + more * found
    rise *= more / cost  # of the cost, as growth is that of the worth
    steep = growth - rise
    bow = (growth * curve - rise * (2.0 - (a + 2.0) * share - rise)) / steep
    ratio = (1.0 + miss) * cost  # of what a poll is to be worth to what it is
    miss = (miss + more * found * (1.0 + miss)) / (ratio + 1.0)
    step = 2.0 * miss * (1.0 + miss * miss * (1.0 / 3.0)) / steep
    step = min(max(step, -_LONGEST_STEP), _LONGEST_STEP)
    slower = 1.0 + 0.5 * step * bow
    step = step / slower if slower > 0.5 else step
    half, even = 0.5 * step, 1.0 + step * step * (1.0 / 12.0)
    good = sure & (steep > 1e-3)
    return (
        z * (even + half) / (even - half) if good else z,
        steep * (abs(bow) + abs(step)) * step * step + 1e-15 if good else math.inf,
        -1.0 / steep if good else -1.0,
    )


@njit(error_model="numpy", fastmath=FAST_MATH)
def _refine_freshness(shapes, level, v, off):
    """Improve intervals by one step of Halley's; where that is not enough, say so by ``off < 0``."""
    for j in range(v.size):
        v[j], off[j] = _halley(v[j], _freshness_near(shapes[j], v[j], level[j]))


@njit(error_model="numpy", fastmath=FAST_MATH)
def _refine_age(shapes, level, v, off):
    """Likewise."""
    for j in range(v.size):
        v[j], off[j] = _halley(v[j], _age_near(shapes[j], v[j], level[j]))


@njit(error_model="numpy", fastmath=FAST_MATH)
def _refine_harmonic(shapes, level, v, off):
    """Likewise."""
    for j in range(v.size):
        v[j], off[j] = _halley(v[j], _harmonic_near(shapes[j], v[j], level[j]))


@njit(error_model="numpy", fastmath=FAST_MATH)
def _step_conditional(kind, shapes, level, more, v, bend, off):
    """Improve intervals by one step of Halley's where found changes cost ``more`` times a poll."""
    if kind == FRESHNESS:
        for j in range(v.size):
            near = _freshness_near(shapes[j], v[j], level[j])
            v[j], off[j], bend[j] = _conditional_halley(shapes[j], more[j], v[j], near)
    elif kind == AGE:
        for j in range(v.size):
            near = _age_near(shapes[j], v[j], level[j])
            v[j], off[j], bend[j] = _conditional_halley(shapes[j], more[j], v[j], near)
    else:
        for j in range(v.size):
            near = _harmonic_near(shapes[j], v[j], level[j])
            v[j], off[j], bend[j] = _conditional_halley(shapes[j], more[j], v[j], near)


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
        n += (v[j] < 0.0) | ((off[j] < 0.0) & (v[j] >= _LONG_INTERVAL) & (v[j] < math.inf))
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
        if u[i] > _LONGEST_LOG and abs(step[i]) < 1.0:
            v[j] = math.inf
            off[j] = bend[j] = 0.0
        elif abs(step[i]) < _LAST_STEP and long >= _LONG_INTERVAL and growth > 1e-9:
            v[j], bend[j] = long, -1.0 / growth
            off[j] = growth * ((1.0 + a) * step[i] * step[i] / long + 1e-16 * u[i]) + 1e-15


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST_MATH)
def refine(kind, shapes, level, v, off):
    """Improve intervals by one step of Halley's; where that is not enough, say so by ``off < 0``."""
    if kind == FRESHNESS:
        _refine_freshness(shapes, level, v, off)
    elif kind == AGE:
        _refine_age(shapes, level, v, off)
    else:
        _refine_harmonic(shapes, level, v, off)


@njit(error_model="numpy", fastmath=FAST_MATH)
def levels_of(kind, price, scale, weight, size, level):
    """The worths that polls are to have, in units of the scale."""
    for j in range(level.size):
        lev = price[j] * (size[j] * scale[j] / weight[j])
        level[j] = lev * scale[j] if kind == AGE else lev


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST_MATH)
def locate(shape, level, table, v, bend):
    """Look up the intervals ``v`` that are worth ``level``, and elasticities, for a chunk of elements.

    Where the table has no answer, ``v`` is -1; where there are no polls, inf.
    """
    rows, first, count, second, rest, kind = table
    last = rows.shape[0] - 1
    saturates = rest > 0
    m = shape.size
    place = np.empty(m, np.int64)
    index = place.view(np.uint64)
    x, y, z, unit, share = np.empty(m), np.empty(m), np.empty(m), np.empty(m), np.empty(m)
    bits, unit_bits = z.view(np.int64), unit.view(np.int64)
    for j in range(m):
        a, lev = shape[j], level[j]
        more = 1.0 + a  # 1/b; divisions are what takes time here
        inverse = 1.0 / (a * more)
        q = lev * (more * more * more * inverse)
        x[j] = q * more if kind == AGE else q
        share[j] = lev * (a - 1.0) if saturates else 0.0
        y[j] = a * inverse * COLUMNS
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
    for j in range(m):
        k = index[j]
        t, u = x[j], y[j]
        c0 = rows[k, 0] + u * (rows[k, 1] + u * (rows[k, 2] + u * rows[k, 3]))
        c1 = rows[k, 4] + u * (rows[k, 5] + u * (rows[k, 6] + u * rows[k, 7]))
        c2 = rows[k, 8] + u * (rows[k, 9] + u * (rows[k, 10] + u * rows[k, 11]))
        c3 = rows[k, 12] + u * (rows[k, 13] + u * (rows[k, 14] + u * rows[k, 15]))
        v[j] = c0 + t * (c1 + t * (c2 + t * c3))
        bend[j] = _STEEP * unit[j] * (c1 + t * (2.0 * c2 + t * (3.0 * c3)))
    for j in range(m):
        psi, main, more = v[j], share[j] < 0.5, 1.0 + shape[j]
        left = 1.0 if main else z[j]
        inverse = 1.0 / (more * psi * left)
        never = (share[j] >= 1.0) | (level[j] == math.inf)
        bend[j] *= inverse * (more if main else -share[j] * more)
        bend[j] = 0.0 if never else bend[j]
        interval = inverse * left
        v[j] = math.inf if never else (interval if psi > 0.0 else -1.0)


@njit(error_model="numpy")
def _solve_rest(kind, shape, level, v, bend, off, fine):
    """Solve for intervals that are not known well enough."""
    for first in range(0, shape.size, 16):
        end = min(first + 16, shape.size)
        if end == first + 16 and lowest(v, first) >= 0.0 and not (fine and lowest(off, first) < 0.0):
            continue
        for j in range(first, end):
            if v[j] < 0.0 or (fine and off[j] < 0.0):
                v[j], steep, off[j] = _stepped(kind, shape[j], level[j], v[j])
                bend[j] = -1.0 / steep if v[j] < math.inf else 0.0


@njit(error_model="numpy")
def look_up_random(table, a, level):
    """The interval at which a poll in random order is worth ``level``, from the table; -1 where it has none.

    Returns also the elasticity of the frequency, and how far the interval may be off, relatively.
    """
    rows, first, count, second, rest, kind = table
    b = 1.0 / (1.0 + a)
    q = level / (b * (1.0 - b)) / (b if kind == AGE else 1.0)
    share = level * (a - 1.0) if rest > 0 else 0.0
    if share >= 1.0:
        return math.inf, 0.0, 0.0
    main = share < 0.5
    z = q if main else 1.0 - share
    bits = np.float64(z).view(np.int64)
    k = (bits >> _RANDOM_SHIFT) - (first if main else second)
    if k < 0 or k >= (count if main else rest):
        return -1.0, 0.0, 0.0
    c = np.int64(min(b * COLUMNS, COLUMNS - 1.0))
    row = rows[(k if main else k + count) * COLUMNS + c]
    if row[16] == 0.0:
        return -1.0, 0.0, 0.0
    unit = np.int64((bits & _MANTISSA) | _ONE).view(np.float64)  # z over the power of two below it
    t = np.float64(bits & ((1 << _RANDOM_SHIFT) - 1)) * 2.0 ** (1 - _RANDOM_SHIFT) - 1.0
    u = 2.0 * (b * COLUMNS - c) - 1.0
    c0 = row[0] + u * (row[1] + u * (row[2] + u * row[3]))
    c1 = row[4] + u * (row[5] + u * (row[6] + u * row[7]))
    c2 = row[8] + u * (row[9] + u * (row[10] + u * row[11]))
    c3 = row[12] + u * (row[13] + u * (row[14] + u * row[15]))
    steep = 2.0 * (1 << RANDOM_BITS) * unit * (c1 + t * (2.0 * c2 + t * (3.0 * c3)))
    root = math.sqrt(z)
    psi = math.exp(c0 + t * (c1 + t * (c2 + t * c3))) * (1.0 / root if main else root)
    bend = steep - 0.5 if main else -(steep + 0.5) * share / z
    return b / psi, bend, row[16]


@njit(error_model="numpy")
def _solve_random(table, order, shape, level, v, bend, off, fine):
    """Look up all intervals in a random order; solve for those that the table does not have well enough.

    An interval that is off by ``e`` has a worth that is off by less than ``3 e``, as none grows faster than
    the third power, and misses less than the product. Twice as much and more covers what scaling adds.
    """
    kind = table[5]
    for j in range(shape.size):
        a, lev = shape[j], level[j]
        if not lev < math.inf:
            v[j], bend[j], off[j] = math.inf, 0.0, 0.0
            continue
        v[j], bend[j], error = look_up_random(table, a, lev)
        off[j] = 8.0 * error * error
        if v[j] < 0.0:
            v[j], bend[j] = _inverse_worth(kind, order, a, lev), 0.0
        elif not (fine and error > _GOOD_ENOUGH_RELATIVE):
            continue
        for _ in range(2 if 0.0 < v[j] < math.inf else 0):
            value, growth = _worth_and_growth(kind, order, a, v[j])
            step = math.log(lev / value) / max(growth, 1e-9)
            v[j] *= math.exp(step)
            left = min((1.0 + a) * step * step, abs(step))  # of the interval's error, after the step
            bend[j], off[j] = -1.0 / max(growth, 1e-9), 8.0 * left * left
            if left < _CLOSE_STEP:
                break


@njit(error_model="numpy", fastmath=FAST_MATH)
def _solve_fixed(table, shape, level, v, bend, off, fine):
    """Look up all intervals in fixed order, and improve them if ``fine``."""
    locate(shape, level, table, v, bend)
    off[:] = 0.0
    if fine:
        refine(table[5], shape, level, v, off)
    if table[5] == FRESHNESS:
        lengthen_freshness(shape, level, v, bend, off)
    _solve_rest(table[5], shape, level, v, bend, off, fine)


@njit(error_model="numpy", fastmath=FAST_MATH)
def _solve_conditional(table, shape, level, more, v, bend, off, fine):
    """Solve for all intervals in fixed order where found changes cost ``more`` times a poll.

    A poll is to be worth ``level`` times its cost, which is 1 plus ``more`` times the changes that it finds.
    Two looks at the table, the second at the cost that the first leads to, say where to begin; a few steps of
    Halley's do the rest. The few that these do not lead to are solved for one by one.
    """
    kind, raised = table[5], np.empty(v.size)
    for j in range(v.size):
        raised[j] = level[j] * math.sqrt(1.0 + more[j])
    for look in range(2):
        locate(shape, raised, table, v, bend)
        if kind == FRESHNESS:
            off[:] = 0.0
            lengthen_freshness(shape, raised, v, bend, off)
        for j in range(v.size if look == 0 else 0):  # a step of Newton's, of the logarithm of the cost
            a, z = shape[j], v[j]
            polled = (z > 0.0) & (z < math.inf)
            found, rise = _next_found(a, z)
            cost = 1.0 + more[j] * (found if polled else 1.0)
            elastic = min(-bend[j] * more[j] * rise / cost, 0.9) if polled else 0.0
            ratio = level[j] * cost / raised[j]
            up = ratio > 1.0
            factor = _decay(_log1p((ratio if up else 1.0 / ratio) - 1.0) / (1.0 - elastic))
            aim = raised[j] / factor if up else raised[j] * factor
            raised[j] = min(max(aim, level[j]), level[j] * (1.0 + more[j]))
    for _ in range(3 if fine else 2):
        _step_conditional(kind, shape, level, more, v, bend, off)
    most = _CLOSE_COST if fine else _NEAR_COST
    for j in range(v.size):
        never = kind == FRESHNESS and level[j] * (1.0 + more[j]) * (shape[j] - 1.0) >= 1.0
        if never or not level[j] < math.inf:
            v[j], bend[j], off[j] = math.inf, 0.0, 0.0
        elif not (off[j] < most and 0.0 < v[j] < math.inf):
            v[j], steep, off[j] = _conditional_interval(kind, shape[j], level[j], more[j])
            bend[j] = -1.0 / steep if v[j] < math.inf else 0.0


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST_MATH)
def ask_uncertain(n, columns, prices, codes, table, order, fine, out, sums, near):
    """Pass over elements with uncertain rates; ``columns`` are those of `demand.Uncertain`.

    As in `ask_known`, the places of elements near their cutoff are written to ``near``.
    """
    kind = table[5]
    fills, price_fill = _filled(columns), np.full(CHUNK_ELEMENTS, prices[0])
    conditional = columns[4].size > 1 or columns[4][0] > 0.0
    level, v, bend, off = (
        np.empty(CHUNK_ELEMENTS),
        np.empty(CHUNK_ELEMENTS),
        np.empty(CHUNK_ELEMENTS),
        np.empty(CHUNK_ELEMENTS),
    )
    more, cost, free_cost = np.empty(CHUNK_ELEMENTS), np.empty(CHUNK_ELEMENTS), np.empty(CHUNK_ELEMENTS)
    simple = columns[5].size == columns[6].size == codes.size == 1 and not conditional
    simple &= columns[5][0] == 0.0 and columns[6][0] == math.inf
    spare = np.empty(CHUNK_ELEMENTS)
    cut_off = np.uint64(0)
    for start in range(0, n, CHUNK_ELEMENTS):
        m = min(CHUNK_ELEMENTS, n - start)
        shape = _piece(columns[0], start, m, fills[0])
        scale = _piece(columns[1], start, m, fills[1])
        weight = _piece(columns[2], start, m, fills[2])
        size, change_size = _piece(columns[3], start, m, fills[3]), _piece(columns[4], start, m, fills[4])
        count = _piece(columns[7], start, m, fills[7])
        price = _priced(prices, codes, start, m, price_fill)
        levels_of(kind, price, scale, weight, size, level[:m])
        if near.size and kind == FRESHNESS:
            for j in range(m):
                off[j] = level[j] * (shape[j] - 1.0)
            cut_off = note_cutoff(off[:m], start, near, cut_off)
        if order == FIXED and not conditional:
            _solve_fixed(table, shape, level[:m], v[:m], bend[:m], off[:m], fine)
        elif order != FIXED:
            _solve_random(table, order, shape, level[:m], v[:m], bend[:m], off[:m], fine)
        else:
            for j in range(m):
                more[j] = change_size[j] / size[j]
            _solve_conditional(table, shape, level[:m], more[:m], v[:m], bend[:m], off[:m], fine)
        given = out[start:][:m] if fine else spare[:m]
        if simple:
            spent = slope = residual = 0.0
            for j in range(m):
                given[j] = scale[j] / v[j]
                paid = count[j] * size[j] * given[j]
                spent += paid
                slope += paid * bend[j] if paid > 0.0 else 0.0
                residual += paid * off[j] if paid > 0.0 else 0.0
            sums[0, 0] += spent
            sums[0, 1] += slope
            sums[0, 2] += spent
            sums[0, 3] += residual
            continue
        for j in range(m):
            cost[j] = free_cost[j] = count[j] * size[j]
        if conditional:
            for j in range(m):
                found, _ = _next_found(shape[j], v[j])
                free_cost[j] += count[j] * change_size[j] * (found if v[j] < math.inf else 1.0)
        for j in range(m):
            v[j] = scale[j] / v[j]
        for j in range(m):
            bend[j] = v[j] * bend[j] if (v[j] > 0.0) & (not fine) else 0.0
        low = _piece(columns[5], start, m, fills[5])
        high = _piece(columns[6], start, m, fills[6])
        settle(v[:m], bend[:m], off[:m], cost[:m], low, high, free_cost[:m], codes, start, given, sums)
        if conditional:
            _add_found(shape, scale, change_size, count, given, codes, start, fine, sums)
    return cut_off


@njit(error_model="numpy", fastmath=FAST_MATH)
def _add_found(shape, scale, change_size, count, f, codes, start, fine, sums):
    """Add to SPENT what is paid for the changes that polls find, for a chunk of elements.

    A fine pass writes to SLOPE how that bends if frequencies are scaled; see `plain.ask_conditional`.
    """
    paid, bow, nothing = np.empty(f.size), np.zeros(f.size), np.zeros(f.size)
    for j in range(f.size):
        a, z, polled = shape[j], scale[j] / f[j], f[j] > 0.0
        log = a * _log1p(z)
        tail, share = _decay(log), z / (1.0 + z)
        changed = log * _horner(_MEAN_SURVIVAL, log) if log < 0.1 else 1.0 - tail
        cost = count[j] * change_size[j] * f[j]
        paid[j] = cost * changed if polled else 0.0
        bow[j] = -cost * a * (a + 1.0) * share * share * tail if polled & fine else 0.0
    _add_up(codes, start, paid, bow, nothing, nothing, sums)
