"""Compiled passes over the elements: each touches the memory once.

The planner's work on many elements with Poisson changes is two such passes. `gather` adds elements up in
cells, from which the price is found; `allocate` gives each element its frequency at that price, and measures
how far its worth is from the price on the way. Work is done in pieces that stay in the cache, in loops that
the compiler can vectorise.

An element is ``rate`` (of change), ``weight`` and ``mass`` (size times rate). Its number in the table of
`lookup` is ``x = price * unit`` with ``unit = mass / weight``, for age times another ``rate``.
"""

import math

import numpy as np
from numba import njit

from ..kernels import AGE, FIXED, FRESHNESS, _horner, _inverse_worth, _worth
from .lookup import PIECE_BITS

__all__ = [
    "CELL_BITS",
    "COARSE_CELLS",
    "FINE_CELLS",
    "allocate",
    "cap",
    "gather",
    "group_prices",
    "label",
    "look_up",
    "price_of_all",
    "sort_groups",
    "survey",
]

CELL_BITS = 8
"""Cells for each power of two of the unit, as a power of two."""

COARSE_CELLS = 2048 << CELL_BITS
FINE_CELLS = 1 << 14
"""Cells inside the window, where the price is expected to cut elements off."""

_CELL_SHIFT = 52 - CELL_BITS
_FINE_SHIFT = 52 - 16
_PIECE_SHIFT = 52 - PIECE_BITS
_CHUNK = 1024
_MOST = np.finfo(np.float64).max
_INFINITE = np.float64(np.inf).view(np.int64)
_PER_LOG2 = 1.0 / math.log(2.0)
_LOG2_HIGH, _LOG2_LOW = 0.6931471803691238, 1.9082149292705877e-10  # log(2), so that k * high is exact
_EXP = tuple(1.0 / math.factorial(k) for k in range(12))  # complete for |u| <= log(2)/2
_SMALL = 0.02
_P2 = tuple((-1) ** k * (k - 1) / math.factorial(k) for k in range(2, 9))  # complete below _SMALL

# sums may be taken in any order and products fused; infinities and nan keep their meaning
_FAST = {"contract", "reassoc", "nsz"}


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def gather(mass, weight, rate, kind, window, cells, span):
    """Add elements to the cells of their units; stop with 1 if a number is not positive and finite, else 0.

    A cell has the sums of mass, weight, weight/rate and mass*unit. Units inside the window go to finer cells,
    which follow the others. ``span`` keeps the bits of the smallest and the largest unit.
    """
    units = np.empty(_CHUNK)
    bits = units.view(np.int64)
    shares = np.empty(_CHUNK)
    cell = np.empty(_CHUNK, np.int64)
    index = cell.view(np.uint64)  # spares the code for negative ones
    low, high = window
    first = np.float64(low).view(np.int64)
    wide = min(np.float64(high).view(np.int64) - first, FINE_CELLS << _FINE_SHIFT)
    odd = 0
    smallest, largest = span[0], span[1]
    for start in range(0, mass.size, _CHUNK):
        size = min(_CHUNK, mass.size - start)
        # indices that begin at 0 spare the code for negative ones, and so the loops can be vectorised
        masses, weights, rates = mass[start:][:size], weight[start:][:size], rate[start:][:size]
        for j in range(size):
            m, w, r = masses[j], weights[j], rates[j]
            units[j] = m / w
            shares[j] = w / r
            odd += not ((m > 0.0) & (m <= _MOST) & (w > 0.0) & (w <= _MOST) & (r > 0.0) & (r <= _MOST))
        if kind == AGE:
            for j in range(size):
                units[j] *= rates[j]
        for j in range(size):  # the bits of positive floats are in the order of the floats
            smallest, largest = min(smallest, bits[j]), max(largest, bits[j])
        if odd or not 0 < smallest <= largest < _INFINITE:
            return 1
        for j in range(size):
            inside = bits[j] - first
            fine = COARSE_CELLS + (inside >> _FINE_SHIFT)
            cell[j] = fine if 0 <= inside < wide else bits[j] >> _CELL_SHIFT
        for j in range(size):
            k = index[j]
            m, w, share, spread = masses[j], weights[j], shares[j], masses[j] * units[j]
            a, b, c, d = cells[k, 0], cells[k, 1], cells[k, 2], cells[k, 3]  # all at once: nothing waits
            cells[k, 0], cells[k, 1], cells[k, 2], cells[k, 3] = a + m, b + w, c + share, d + spread
    span[0], span[1] = smallest, largest
    return 0


@njit(inline="always")
def _place(x, turn, first, second, last):
    """What to look up for x, and in which row: the last, of zeros, where x is not in the table."""
    below = x < turn
    z = x if below else 1.0 - x
    k = (np.float64(z).view(np.int64) >> _PIECE_SHIFT) + (-first if below else second)
    known = (k >= 0) & (k < last)
    return (z if known else 0.0), (k if known else last)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def allocate(mass, weight, rate, price, table, out):
    """Write the frequencies at a price; return what they spend, and their residual.

    The residual is the sum of what each element spends times the relative distance of its worth from the
    price: it is zero if every frequency is exactly the one that the price asks for.
    """
    rows, turn, first, second, kind, order = table
    last = rows.shape[0] - 1
    x = np.empty(_CHUNK)
    z = np.empty(_CHUNK)
    row = np.empty(_CHUNK, np.int64)
    index = row.view(np.uint64)  # spares the code for negative ones
    phi = np.empty(_CHUNK)
    quick = kind == FRESHNESS and order == FIXED
    spent, residual = 0.0, 0.0
    for start in range(0, mass.size, _CHUNK):
        size = min(_CHUNK, mass.size - start)
        masses, weights, rates = mass[start:][:size], weight[start:][:size], rate[start:][:size]
        given = out[start:][:size]
        for j in range(size):
            x[j] = price * (masses[j] / weights[j])
        if kind == AGE:
            for j in range(size):
                x[j] *= rates[j]
        far = 0
        for j in range(size):
            z[j], row[j] = _place(x[j], turn, first, second, last)
            far += (row[j] == last) & (x[j] < 2.0 * turn)
        for j in range(size):
            k = index[j]
            u = z[j] - rows[k, 0]
            phi[j] = rows[k, 1] + u * (rows[k, 2] + u * (rows[k, 3] + u * (rows[k, 4] + u * rows[k, 5])))
        if far:
            for j in range(size):
                if row[j] == last:
                    phi[j] = 1.0 / _inverse_worth(kind, order, x[j])
        paid, part = 0.0, 0.0
        if quick:
            for j in range(size):  # exp(-r) = 2^-k exp(u)
                given[j] = rates[j] * phi[j]
                paid += masses[j] * phi[j]
                r = min(1.0 / phi[j], 700.0)
                k = math.floor(r * _PER_LOG2 + 0.5)
                u = (k * _LOG2_HIGH - r) + k * _LOG2_LOW
                power = np.int64((1023 - np.int64(k)) << 52).view(np.float64)
                found = 1.0 - (1.0 + r) * power * _horner(_EXP, u)
                small = r * r * _horner(_P2, r)
                part += weights[j] * phi[j] * abs(x[j] - (small if r < _SMALL else found))
            part /= price  # mass is weight * x / price
        else:
            for j in range(size):
                given[j] = rates[j] * phi[j]
                paid += masses[j] * phi[j]
                if phi[j] > 0.0:
                    part += masses[j] * phi[j] * abs(1.0 - _worth(kind, order, 1.0 / phi[j]) / x[j])
        spent += paid
        residual += part
    return spent, residual


@njit
def _find(x, table):
    """Return phi(x) from the table."""
    rows, turn, first, second, kind, order = table
    last = rows.shape[0] - 1
    z, k = _place(x, turn, first, second, last)
    if k == last and x < 2.0 * turn:
        return 1.0 / _inverse_worth(kind, order, x)
    u = z - rows[k, 0]
    return rows[k, 1] + u * (rows[k, 2] + u * (rows[k, 3] + u * (rows[k, 4] + u * rows[k, 5])))


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def look_up(x, rate, table, out):
    """Write rate * phi(x)."""
    for i in range(x.size):
        out[i] = rate[i] * _find(x[i], table)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def cap(start, member, rate, unit, size, low, high, limit, table, guess, out):
    """Find the price at which each group alone meets its limit, and what its elements are then given.

    Group ``h`` has the elements ``member[start[h]:start[h+1]]``. Its price is 0 if it never asks for so much.
    Frequencies that meet the limit are written to ``out``: no element is given more at any price. The search
    is false position on the logarithms, where demand is nearly straight.
    """
    prices = np.empty(limit.size)
    for h in range(limit.size):
        members = member[start[h] : start[h + 1]]
        under, over, mix = _clear(members, rate, unit, size, low, high, limit[h], table, guess)
        prices[h] = over
        for i in members:
            if over == 0.0:
                out[i] = high[i]
                continue
            frequency = low[i]
            if over < math.inf:
                frequency = min(max(rate[i] * _find(over * unit[i], table), low[i]), high[i])
            if mix > 0.0:
                more = min(max(rate[i] * _find(under * unit[i], table), low[i]), high[i])
                frequency += mix * (more - frequency)
            out[i] = frequency
    return prices


@njit
def _demand(members, rate, unit, size, low, high, price, table):
    total = 0.0
    for i in members:
        total += size[i] * min(max(rate[i] * _find(price * unit[i], table), low[i]), high[i])
    return total


@njit
def _clear(members, rate, unit, size, low, high, limit, table, guess):
    """Two prices between which demand falls to the limit, and the share of the lower that meets it."""
    most, least = 0.0, 0.0
    for i in members:
        most += size[i] * (high[i] if unit[i] < math.inf else low[i])
        least += size[i] * low[i]
    if most <= limit:
        return 0.0, 0.0, 0.0
    if least >= limit:
        return math.inf, math.inf, 0.0
    price, step = guess, 4.0
    under, over = 0.0, math.inf
    at_under, at_over = math.inf, 0.0
    while under == 0.0 or over == math.inf:
        at = _demand(members, rate, unit, size, low, high, price, table)
        if at > limit:
            under, at_under = price, at
            price *= step
        else:
            over, at_over = price, at
            price /= step
        step = min(step * step, 1e30)
        if not 0.0 < price < math.inf:
            return over, over, 0.0
    goal = math.log(limit)
    more = math.log(at_under) - goal
    less = math.log(at_over) - goal if at_over > 0.0 else -math.inf
    u, v = math.log(under), math.log(over)
    for i in range(200):
        if v - u < 1e-15 * max(abs(u), abs(v)) or at_over >= limit * (1.0 - 1e-14):
            break
        middle = 0.5 * (u + v)
        if less > -math.inf and i % 6 != 5:
            aim = (u * less - v * more) / (less - more)
            if u < aim < v:
                middle = aim
        price = math.exp(middle)
        if not under < price < over:
            break
        at = _demand(members, rate, unit, size, low, high, price, table)
        if at > limit:
            under, u, at_under, more = price, middle, at, math.log(at) - goal
            less *= 0.5
        else:
            over, v, at_over, less = price, middle, at, math.log(at) - goal if at > 0.0 else -math.inf
            more *= 0.5
    return under, over, (limit - at_over) / (at_under - at_over)


@njit(cache=True, nogil=True)
def label(keys, most, out):
    """Number the distinct keys as they appear; return how many, or -1 if there are more than ``most``."""
    mask = 1
    while mask < 4 * most:
        mask *= 2
    slots = np.full(mask, -1, np.int64)
    known = np.empty(most, np.int64)
    mask -= 1
    count = 0
    for i in range(keys.size):
        key = keys[i]
        spot = ((key * np.int64(-7046029254386353131)) >> 29) & mask
        while True:
            number = slots[spot]
            if number < 0:
                if count == most:
                    return -1
                slots[spot] = count
                known[count] = key
                out[i] = count
                count += 1
                break
            if known[number] == key:
                out[i] = number
                break
            spot = (spot + 1) & mask
    return count


@njit(cache=True, nogil=True, error_model="numpy")
def sort_groups(group, mass, weight, rate, kind, places, masses, units):
    """Put masses and units in the places of their groups; ``places`` are the next free ones."""
    codes = group.view(np.uint64)
    for i in range(codes.size):
        k = np.uint64(places[codes[i]])
        places[codes[i]] += 1
        masses[k] = mass[i]
        units[k] = mass[i] / weight[i] * (rate[i] if kind == AGE else 1.0)


@njit(nogil=True, error_model="numpy", fastmath=_FAST)
def _spending(masses, units, price, table):
    """What elements spend at a price, and how that changes with the logarithm of the price."""
    rows, turn, first, second, _, _ = table
    last = rows.shape[0] - 1
    total, slope = 0.0, 0.0
    for j in range(masses.size):
        x = price * units[j]
        z, k = _place(x, turn, first, second, last)
        row = rows[np.uint64(k)]
        u = z - row[0]
        a, b, c, d = row[2], row[3], row[4], row[5]
        total += masses[j] * (row[1] + u * (a + u * (b + u * (c + u * d))))
        bend = a + u * (2.0 * b + u * (3.0 * c + u * (4.0 * d)))
        slope += masses[j] * x * (bend if x < turn else -bend)
    return total, slope


@njit(nogil=True, error_model="numpy")
def _step(price, total, slope, goal, low, high):
    """A step of Newton's method on logarithms, kept inside a bracket."""
    new = 0.0
    if total > 0.0 > slope:
        new = price * math.exp(min(max(math.log(goal / total) * total / slope, -8.0), 8.0))
    if low < new < high:
        return new
    if low == 0.0:
        return high / 16.0
    return low * 16.0 if high == math.inf else math.sqrt(low) * math.sqrt(high)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def survey(starts, masses, units, price, table, totals, slopes):
    """What each group spends at a price, and how that changes with the logarithm of the price."""
    rows, turn, first, second, _, _ = table
    last = rows.shape[0] - 1
    x = np.empty(_CHUNK)
    z = np.empty(_CHUNK)
    row = np.empty(_CHUNK, np.int64)
    index = row.view(np.uint64)
    spent = np.empty(_CHUNK)
    change = np.empty(_CHUNK)
    h, total, slope = 0, 0.0, 0.0
    for start in range(0, masses.size, _CHUNK):
        size = min(_CHUNK, masses.size - start)
        mass, unit = masses[start:][:size], units[start:][:size]
        for j in range(size):
            x[j] = price * unit[j]
            z[j], row[j] = _place(x[j], turn, first, second, last)
        for j in range(size):
            k = index[j]
            u = z[j] - rows[k, 0]
            a, b, c, d = rows[k, 2], rows[k, 3], rows[k, 4], rows[k, 5]
            spent[j] = mass[j] * (rows[k, 1] + u * (a + u * (b + u * (c + u * d))))
            bend = a + u * (2.0 * b + u * (3.0 * c + u * (4.0 * d)))
            change[j] = mass[j] * x[j] * (bend if x[j] < turn else -bend)
        j = 0
        while j < size:
            stop = min(size, starts[h + 1] - start)
            for i in range(j, stop):
                total += spent[i]
                slope += change[i]
            j = stop
            if start + j == starts[h + 1]:
                totals[h], slopes[h] = total, slope
                h, total, slope = h + 1, 0.0, 0.0
                while h < totals.size and starts[h + 1] == starts[h]:
                    totals[h], slopes[h] = 0.0, 0.0
                    h += 1


@njit(cache=True, nogil=True, error_model="numpy")
def price_of_all(starts, masses, units, limits, budget, guess, close, table, totals, slopes):
    """Find the price at which groups, each up to its limit, spend the budget; inf if it is not found."""
    price, low, high = guess, 0.0, math.inf
    for _ in range(100):
        survey(starts, masses, units, price, table, totals, slopes)
        held, free, slope = 0.0, 0.0, 0.0
        for h in range(limits.size):
            if totals[h] > limits[h]:
                held += limits[h]
            else:
                free += totals[h]
                slope += slopes[h]
        if abs(held + free - budget) <= close * budget:
            return price
        if held + free > budget:
            low = price
        else:
            high = price
        price = _step(price, free, slope, max(budget - held, 1e-3 * free), low, high)
    return math.inf


@njit(cache=True, nogil=True, error_model="numpy")
def group_prices(starts, masses, units, limits, price, close, table, totals, slopes, prices, unders, mixes):
    """Raise the price of each group that spends more than its limit until it meets it.

    ``totals`` and ``slopes`` are those at the price of all; a total ends within the relative distance
    ``close`` of the limit. Where demand jumps over the limit, it is met by a mix of what is asked for at two
    prices, of which ``unders`` is the lower, and ``mixes`` its share.
    """
    for h in range(limits.size):
        goal = limits[h]
        prices[h], unders[h], mixes[h] = price, price, 0.0
        if totals[h] <= goal:
            continue
        own, ours = masses[starts[h] : starts[h + 1]], units[starts[h] : starts[h + 1]]
        total, slope = totals[h], slopes[h]
        low, high, more, less = price, math.inf, total, 0.0
        for _ in range(200):
            prices[h] = _step(prices[h], total, slope, goal, low, high)
            total, slope = _spending(own, ours, prices[h], table)
            if abs(total - goal) <= close * goal:
                break
            if total > goal:
                low, more = prices[h], total
            else:
                high, less = prices[h], total
            if high <= low * (1.0 + 1e-10):
                prices[h], unders[h], mixes[h] = high, low, (goal - less) / (more - less)
                total = goal
                break
        totals[h] = total
