"""Compiled: what elements ask for at a price, what they then spend, and the steps of a search for prices.

A pass goes through the elements once, in pieces that stay in the cache. Each column has one entry for each
element, or a single one for all; an element has the price of its group, or the one price there is. A pass
adds to the four sums of each group (of the only group, where ``codes`` has a single entry):

    SPENT      what the elements spend
    SLOPE      how that changes with the logarithm of the price (a fine pass leaves it out)
    FREE       what would be spent more, relatively, if frequencies inside their bounds were scaled up
    RESIDUAL   the sum of what each of these pays times the relative distance of its worth from the price

A rough pass only adds up; a fine one writes the frequencies, each with all its digits.
"""

import math

import numpy as np
from numba import njit

from ...exponential_kernels import _decay, _horner
from ...kernels import AGE, FIXED, _freshness, _inverse_worth
from ..lookup import PIECE_BITS

SPENT, SLOPE, FREE, RESIDUAL = 0, 1, 2, 3

CHUNK_ELEMENTS = 1024
"""Elements that are worked on at once; what comes between stays in the first cache."""
# sums may be taken in any order and products fused; infinities and nan keep their meaning
FAST_MATH = {"contract", "reassoc", "nsz"}

_PIECE_SHIFT = 52 - PIECE_BITS
_MEAN_SURVIVAL = tuple((-1) ** k / math.factorial(k + 1) for k in range(12))
_LONGEST_STEP = 8.0
"""Largest step of a logarithm of a price."""
_NEAR_CUTOFF = 0.02
"""Relative distance of a price from the one that cuts an element off, from which on it is near."""
_JUMP_WIDTH = 1e-10
"""Two prices that are as close, relatively, have a jump of demand between them."""


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST_MATH)
def copied(column, out):
    """Copy a column; return how many entries are below 0 or nan, how many 0, how many inf, and their sum."""
    below = zeros = infinite = 0
    total = 0.0
    for start in range(0, column.size, CHUNK_ELEMENTS):
        given, place = column[start:][:CHUNK_ELEMENTS], out[start:][:CHUNK_ELEMENTS]
        part = 0.0
        for j in range(given.size):
            value = given[j]
            place[j] = value
            below += not value >= 0.0
            zeros += value == 0.0
            infinite += value == math.inf
            part += value
        total += part
    return below, zeros, infinite, total


@njit
def _piece(column, start, m, fill):
    """The entries of some elements: a view, or the entry of all, repeated in ``fill``."""
    if column.size > 1:
        return column[start:][:m]
    return fill[:m]


@njit
def _filled(columns):
    """A row for each column, with its entry if there is only one."""
    fills = np.empty((len(columns), CHUNK_ELEMENTS))
    for i in range(len(columns)):
        fills[i] = columns[i][0]
    return fills


@njit(error_model="numpy", fastmath=FAST_MATH)
def _priced(prices, codes, start, m, fill):
    """The prices of some elements."""
    if codes.size == 1:
        return fill[:m]
    own = codes[start:][:m].view(np.uint64)
    for j in range(m):
        fill[j] = prices[own[j]]
    return fill[:m]


@njit(error_model="numpy", fastmath=FAST_MATH)
def _add_up(codes, start, paid, change, inside, off, sums):
    """Add elements to the sums of their groups."""
    if codes.size == 1:
        spent = slope = free = residual = 0.0
        for j in range(paid.size):
            spent += paid[j]
            slope += change[j]
            free += inside[j]
            residual += off[j]
        sums[0, 0] += spent
        sums[0, 1] += slope
        sums[0, 2] += free
        sums[0, 3] += residual
        return
    own = codes[start:][: paid.size].view(np.uint64)
    for j in range(paid.size):
        h = own[j]
        a, b, c, d = sums[h, 0], sums[h, 1], sums[h, 2], sums[h, 3]  # all at once: nothing waits
        sums[h, 0], sums[h, 1] = a + paid[j], b + change[j]
        sums[h, 2], sums[h, 3] = c + inside[j], d + off[j]


@njit(error_model="numpy", fastmath=FAST_MATH)
def settle(asked, change, off, cost, low, high, free_cost, codes, start, out, sums):
    """Keep frequencies within their bounds and add up.

    ``asked`` is overwritten; ``change`` is its derivative by the logarithm of the price, ``off`` how far
    worths are from the price, ``free_cost`` what one more poll costs, found changes included.
    """
    for j in range(asked.size):
        ask = asked[j]
        f = min(max(ask, low[j]), high[j])
        free = (low[j] < ask) & (ask < high[j])
        asked[j] = cost[j] * f
        change[j] = free_cost[j] * change[j] if free else 0.0
        inside = free_cost[j] * f if free else 0.0
        off[j] = inside * off[j] if free else 0.0
        free_cost[j] = inside
        if out.size:
            out[j] = f
    _add_up(codes, start, asked, change, free_cost, off, sums)


@njit(error_model="numpy", fastmath=FAST_MATH)
def _add_changes(f, rate, more, count, codes, start, order, sums):
    """Add to SPENT what is paid for the changes that polls find, for a chunk of elements."""
    paid = np.empty(f.size)
    if order == FIXED:
        for j in range(f.size):  # freshness is (1 - exp(-r)) / r
            r = rate[j] / f[j]
            share = _horner(_MEAN_SURVIVAL, r) if r < 0.1 else (1.0 - _decay(r)) / r
            paid[j] = count[j] * more[j] * rate[j] * share if (f[j] > 0.0) & (rate[j] > 0.0) else 0.0
    else:
        for j in range(f.size):
            paid[j] = 0.0
            if f[j] > 0.0 and rate[j] > 0.0:
                paid[j] = count[j] * more[j] * rate[j] * _freshness(order, rate[j] / f[j])
    nothing = np.zeros(f.size)
    _add_up(codes, start, paid, nothing, nothing, nothing, sums)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST_MATH)
def changes_paid(f, columns, codes, order, sums):
    """Likewise for all elements; ``columns`` are rate, what a found change costs, and count."""
    fills = _filled(columns)
    for start in range(0, f.size, CHUNK_ELEMENTS):
        m = min(CHUNK_ELEMENTS, f.size - start)
        rate = _piece(columns[0], start, m, fills[0])
        more = _piece(columns[1], start, m, fills[1])
        count = _piece(columns[2], start, m, fills[2])
        _add_changes(f[start:][:m], rate, more, count, codes, start, order, sums)


# --- elements with known rates -----------------------------------------------------------------------


@njit(inline="always")
def _place(x, turn, first, second, last):
    """What to look up for x, and in which row: the last, of zeros, where x is not in the table."""
    below = x < turn
    z = x if below else 1.0 - x
    k = (np.float64(z).view(np.int64) >> _PIECE_SHIFT) + (-first if below else second)
    known = (k >= 0) & (k < last)
    return (z if known else 0.0), (k if known else last)


@njit(inline="always")
def lowest(marks, first):
    """The smallest of sixteen."""
    low = marks[first]
    for i in range(1, 16):
        low = min(low, marks[first + i])
    return low


@njit(inline="always")
def note_cutoff(x, start, near, count):
    """Write the places of elements about to be cut off (at x = 1) after others; return how many."""
    for j in range(x.size):  # without a jump, as none could be foreseen
        near[count] = start + j
        count += np.uint64(abs(x[j] - 1.0) < _NEAR_CUTOFF)
    return count


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST_MATH)
def ask_known(n, columns, prices, codes, table, blur, fine, out, sums, near):
    """Pass over elements with Poisson changes; ``columns`` are those of `demand.Known`.

    Polls may cost more if they find a change, for freshness only. The changes that polls find are
    proportional to freshness, so paying for them is like a lower weight.

    Where freshness saturates, frequencies fall to zero within few rounding errors, which no derivative sees.
    Within ``blur`` of there the mean slope over the fall takes its place. The places of elements near there
    are written to ``near``, if there is room; returns how many there are.
    """
    rows, turn, first, second, kind, order, error = table
    last = rows.shape[0] - 1
    fills, price_fill = _filled(columns), np.full(CHUNK_ELEMENTS, prices[0])
    more_size, low, high = columns[3], columns[4], columns[5]
    conditional = more_size.size > 1 or more_size[0] > 0.0
    simple = low.size == high.size == 1 and low[0] == 0.0 and high[0] == math.inf
    simple &= not conditional
    # the rows of one array would not be known to be contiguous
    x, z, phi = np.empty(CHUNK_ELEMENTS), np.empty(CHUNK_ELEMENTS), np.empty(CHUNK_ELEMENTS)
    bend, cost, off = np.empty(CHUNK_ELEMENTS), np.empty(CHUNK_ELEMENTS), np.empty(CHUNK_ELEMENTS)
    row = np.empty(CHUNK_ELEMENTS, np.int64)
    index = row.view(np.uint64)  # spares the code for negative ones
    edge = 2.0 * turn - blur
    fall = 0.0
    if turn < math.inf and blur > 0.0:
        fall = -0.5 / (blur * _inverse_worth(kind, order, 1.0 - blur))
    spare = np.empty(CHUNK_ELEMENTS if conditional else 0)
    totals = np.zeros((sums.shape[0], 2))
    cut_off = np.uint64(0)
    for start in range(0, n, CHUNK_ELEMENTS):
        m = min(CHUNK_ELEMENTS, n - start)
        # indices that begin at 0 spare the code for negative ones, and so the loops can be vectorised
        rate = _piece(columns[0], start, m, fills[0])
        weight = _piece(columns[1], start, m, fills[1])
        size = _piece(columns[2], start, m, fills[2])
        more, count = _piece(more_size, start, m, fills[3]), _piece(columns[6], start, m, fills[6])
        price = _priced(prices, codes, start, m, price_fill)
        if conditional:
            for j in range(m):
                left = weight[j] - price[j] * more[j] * rate[j]
                at = price[j] * size[j] * rate[j] / left
                x[j] = at if (left > 0.0) & (rate[j] > 0.0) else math.inf
                off[j] = weight[j] / left
        else:
            for j in range(m):
                at = price[j] * (size[j] * rate[j] / weight[j])
                x[j] = at if rate[j] > 0.0 else math.inf
        if kind == AGE:
            for j in range(m):
                x[j] *= rate[j]
        far = 0
        for j in range(m):
            z[j], row[j] = _place(x[j], turn, first, second, last)
            far += (row[j] == last) & (x[j] < 2.0 * turn)
        if fine:
            for j in range(m):
                k = index[j]
                u = z[j] - rows[k, 0]
                phi[j] = rows[k, 1] + u * (rows[k, 2] + u * (rows[k, 3] + u * (rows[k, 4] + u * rows[k, 5])))
        else:
            for j in range(m):
                k = index[j]
                u = z[j] - rows[k, 0]
                a, b = rows[k, 2], rows[k, 3]  # three of the five coefficients give six digits
                phi[j] = rows[k, 1] + u * (a + u * b)
                tangent = a + u * (2.0 * b)
                bend[j] = x[j] * (tangent if x[j] < turn else -tangent)
            if fall < 0.0:
                for j in range(m):
                    bend[j] = fall * x[j] if (x[j] > edge) & (x[j] < edge + 2.0 * blur) else bend[j]
        if near.size and turn < math.inf:
            cut_off = note_cutoff(x[:m], start, near, cut_off)
        if far:
            for j in range(m):
                if row[j] == last and x[j] < 2.0 * turn:
                    phi[j] = 1.0 / _inverse_worth(kind, order, x[j])
                    bend[j] = phi[j] * (-0.5 if x[j] < turn else -1.0)
        if simple and fine:
            given = out[start:][:m]
            if codes.size == 1:
                spent = 0.0
                for j in range(m):
                    given[j] = rate[j] * phi[j]
                    spent += count[j] * size[j] * rate[j] * phi[j]
                totals[0, 0] += spent
            else:
                own = codes[start:][:m].view(np.uint64)
                for j in range(m):
                    given[j] = rate[j] * phi[j]
                    totals[own[j], 0] += count[j] * size[j] * given[j]
        elif simple and codes.size == 1:
            spent = slope = 0.0
            for j in range(m):
                mass = count[j] * size[j] * rate[j]
                spent += mass * phi[j]
                slope += mass * bend[j] if bend[j] < 0.0 else 0.0
            totals[0, 0] += spent
            totals[0, 1] += slope
        elif simple:
            own = codes[start:][:m].view(np.uint64)
            for j in range(m):
                mass = count[j] * size[j] * rate[j]
                a, b = totals[own[j], 0], totals[own[j], 1]
                totals[own[j], 0] = a + mass * phi[j]
                totals[own[j], 1] = b + (mass * bend[j] if bend[j] < 0.0 else 0.0)
        else:
            for j in range(m):
                phi[j] *= rate[j]
                bend[j] = rate[j] * bend[j] * (off[j] if conditional else 1.0) if phi[j] > 0.0 else 0.0
                cost[j] = count[j] * size[j]
                z[j] = cost[j] + count[j] * more[j] * min(x[j], 1.0)  # the worth of freshness is x
                off[j] = error
            given = out[start:][:m] if fine else spare[:m]
            lows = _piece(low, start, m, fills[4])
            highs = _piece(high, start, m, fills[5])
            settle(phi[:m], bend[:m], off[:m], cost[:m], lows, highs, z[:m], codes, start, given, sums)
            if conditional:
                _add_changes(given, rate, more, count, codes, start, order, sums)
    if simple:  # all that is spent is free
        for h in range(sums.shape[0]):
            sums[h, 0] += totals[h, 0]
            sums[h, 1] += totals[h, 1]
            sums[h, 2] += totals[h, 0]
            sums[h, 3] += error * totals[h, 0] if fine else 0.0
    return cut_off


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST_MATH)
def ask_given(n, columns, codes, asked, change, off, fine, out, sums):
    """Pass over elements whose frequencies are known already; what they ask for is overwritten."""
    fills = _filled(columns)
    nowhere, free_cost = np.empty(0), np.empty(CHUNK_ELEMENTS)
    for start in range(0, n, CHUNK_ELEMENTS):
        m = min(CHUNK_ELEMENTS, n - start)
        low = _piece(columns[0], start, m, fills[0])
        high = _piece(columns[1], start, m, fills[1])
        cost = _piece(columns[2], start, m, fills[2])
        for i in range(m):  # a slice takes a second more to compile
            free_cost[i] = cost[i]
        settle(
            asked[start:][:m],
            change[start:][:m],
            off[start:][:m],
            cost,
            low,
            high,
            free_cost[:m],
            codes,
            start,
            out[start:][:m] if fine else nowhere,
            sums,
        )


# --- scaling -----------------------------------------------------------------------------------------


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST_MATH)
def scale_within(f, columns, factors, codes, sums):
    """Scale frequencies inside their bounds as far as these allow; add to SPENT and FREE of their groups."""
    fills = _filled(columns)
    factor_fill = np.full(CHUNK_ELEMENTS, factors[0])
    paid, inside, nothing = np.empty(CHUNK_ELEMENTS), np.empty(CHUNK_ELEMENTS), np.zeros(CHUNK_ELEMENTS)
    for start in range(0, f.size, CHUNK_ELEMENTS):
        m = min(CHUNK_ELEMENTS, f.size - start)
        low = _piece(columns[0], start, m, fills[0])
        high = _piece(columns[1], start, m, fills[1])
        cost = _piece(columns[2], start, m, fills[2])
        scale, own = _priced(factors, codes, start, m, factor_fill), f[start:][:m]
        for j in range(m):
            free = (low[j] < own[j]) & (own[j] < high[j])
            scaled = min(max(own[j] * scale[j], low[j]), high[j])
            own[j] = scaled if free else own[j]
            paid[j] = cost[j] * own[j]
            inside[j] = paid[j] if free else 0.0
        _add_up(codes, start, paid[:m], nothing[:m], inside[:m], nothing[:m], sums)


# --- steps of a search -------------------------------------------------------------------------------


@njit(inline="always")
def _newton(price, spent, slope, goal, low, high):
    """A step of Newton's method on logarithms, kept inside a bracket."""
    new = 0.0
    if spent > 0.0 > slope:
        step = math.log(goal / spent) * spent / slope
        new = price * math.exp(min(max(step, -_LONGEST_STEP), _LONGEST_STEP))
    if low < new < high:
        return new
    if low == 0.0:
        return high / 16.0
    return low * 16.0 if high == math.inf else math.sqrt(low) * math.sqrt(high)


@njit(cache=True, nogil=True, error_model="numpy")
def step_prices(sums, goals, prices, bounds, close, state):
    """Step the price of each group towards the one at which it spends its goal.

    ``bounds`` are the prices around it: columns low and high. ``state`` of a group is 0 while it is searched
    for; then 1, where it spends its goal to a relative ``close``; or 2, where demand jumps, and the price is
    the upper one.
    """
    for h in range(goals.size):
        if state[h] != 0:
            continue
        spent, slope, goal = sums[h, SPENT], sums[h, SLOPE], goals[h]
        bounds[h, 0 if spent > goal else 1] = prices[h]
        low, high = bounds[h, 0], bounds[h, 1]
        if high <= low * (1.0 + _JUMP_WIDTH):
            prices[h], state[h] = high, 2
            continue
        if abs(spent - goal) <= close * goal:
            state[h] = 1
            continue
        prices[h] = _newton(prices[h], spent, slope, goal, low, high)
