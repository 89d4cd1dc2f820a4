"""Compiled: many small groups with limits, of elements with known rates and no options (see `plain`).

Elements are sorted by group, each as the two numbers by which it asks: its unit, which times the price is
``x``, and its mass, which times ``phi`` is what it spends. So groups are in the first cache while their own
prices are searched for, and all groups are done in one pass.
"""

import math

import numpy as np
from numba import njit

from ...kernels import _horner
from ..lookup import FIT_CENTRE, FIT_END
from .demand import _JUMP_WIDTH, CHUNK_ELEMENTS, FAST_MATH, _filled, _newton, _piece
from .plain import _EVEN, _FIT, _ODD, _look_up, _lowest

_MOST_STEPS = 200
"""Prices that are tried for a group."""
_MOST_COMMON_STEPS = 40
"""Prices of all that are tried."""
_SMOOTH_STEPS = 3
"""Steps after which a group is taken to be where an element is cut off,"""
_FARTHEST = 30.0
"""and the largest step there, of the logarithm of a distance."""
_SMALL_STEP = 0.5
"""Steps of a logarithm that are small."""
_FIT_START, _FIT_LAST = 1e-30, FIT_END / (1.0 + FIT_END)
"""Where the polynomial is good."""


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST_MATH)
def sort_by_group(columns, size, codes, starts, place, units, masses):
    """Sort elements by group; ``columns`` are rate and weight.

    Writes where each group starts, and the last one ends; the place of each element; and there its unit and
    its mass.
    """
    fills, unit = _filled(columns), np.empty(CHUNK_ELEMENTS)
    own = codes.view(np.uint64)  # spares the code for negative ones
    starts[:] = 0
    for i in range(own.size):
        starts[own[i] + np.uint64(1)] += 1
    for h in range(1, starts.size):
        starts[h] += starts[h - 1]
    ends = starts.copy()
    for start in range(0, own.size, CHUNK_ELEMENTS):
        m = min(CHUNK_ELEMENTS, own.size - start)
        rate = _piece(columns[0], start, m, fills[0])
        weight = _piece(columns[1], start, m, fills[1])
        some, places = own[start:][:m], place[start:][:m]
        for j in range(m):
            unit[j] = size * rate[j] / weight[j] if rate[j] > 0.0 else math.inf
        for j in range(m):
            k = np.uint64(ends[some[j]])
            ends[some[j]] = k + np.uint64(1)
            places[j] = k
            units[k], masses[k] = unit[j], size * rate[j]


@njit(error_model="numpy", fastmath=FAST_MATH)
def _ask(units, masses, prices, table, paid, bends, turns):
    """Write what elements spend at their prices, with two derivatives by the logarithm of the price."""
    m = units.size
    for j in range(m):
        x = prices[j] * units[j]
        known = (x > _FIT_START) & (x < _FIT_LAST)
        inside = x if known else 0.5
        rest = 1.0 - inside
        s = math.sqrt(inside * rest)
        z = _FIT[0] - _FIT[1] * s / (inside + FIT_CENTRE * s)
        square = z * z
        phi = (_horner(_EVEN, square) + z * _horner(_ODD, square)) * s / inside
        asked = masses[j] * phi
        odds = inside / rest
        bend = -asked * phi * (1.0 + phi) * odds
        bends[j] = bend if known else 0.0
        turns[j] = bend * (1.0 + odds - odds * phi * (2.0 + 3.0 * phi)) if known else 0.0
        paid[j] = asked if known else (-1.0 if x < 1.0 else 0.0)
    for first in range(0, m, 16):
        end = min(first + 16, m)
        if end == first + 16 and _lowest(paid, first) >= 0.0:
            continue
        for j in range(first, end):
            if paid[j] < 0.0:
                phi, bend = _look_up(prices[j] * units[j], table)
                paid[j], bends[j] = masses[j] * phi, masses[j] * min(bend, 0.0)


@njit(inline="always")
def _sums(paid, bends, turns, first, end, shift):
    """What a group spends, with two derivatives; ``shift`` is how far these are to the left."""
    spent = slope = turn = 0.0
    for j in range(np.uint64(first), np.uint64(end)):
        k = j - np.uint64(shift)
        spent += paid[j]
        slope += bends[k]
        turn += turns[k]
    return spent, slope, turn


@njit(inline="always")
def _stepped(price, spent, slope, turn, goal, low, high):
    """A step of Halley's method on logarithms, or where that fails one of Newton's."""
    off = (goal - spent) / (goal + spent)
    newton = 2.0 * off * (1.0 + off * off * (1.0 / 3.0)) * spent / slope
    step = newton / (1.0 + 0.5 * newton * (turn / slope - slope / spent))
    if abs(off) < _SMALL_STEP and abs(step) < 2.0 * abs(newton) < 4.0 * _SMALL_STEP:
        even = 1.0 + step * step * (1.0 / 12.0)
        new = price * (even + 0.5 * step) / (even - 0.5 * step)
        if low < new < high:
            return new
    return _newton(price, spent, slope, goal, low, high)


@njit(error_model="numpy")
def _stepped_by_cutoff(units, price, spent, slope, goal, low, high):
    """A step for a group whose goal is where an element is about to be cut off, which no slope foresees.

    There, demand is smooth in the logarithm of the distance from the cutoff, in which this is a step of
    Newton's; cutoffs inside the bracket are tried themselves.
    """
    above, below = 0.0, math.inf  # units of the next elements to be cut off and to return
    for j in range(units.size):
        if units[j] * price < 1.0:
            above = max(above, units[j])
        else:
            below = min(below, units[j])
    if spent <= goal and low < _past(below) <= price:
        cutoff = _past(below)
        if cutoff < price * (1.0 - 1e-14):
            return cutoff
        new = cutoff - math.sqrt((cutoff - low) * cutoff * _JUMP_WIDTH)
    else:
        cutoff = _past(above)
        step = (goal - spent) / (slope * (cutoff - price) / price)
        new = cutoff - (cutoff - price) * math.exp(-min(max(step, -_FARTHEST), _FARTHEST))
        if not new < cutoff * (1.0 - 0.5 * _JUMP_WIDTH):
            new = cutoff if cutoff < high else cutoff * (1.0 - 0.5 * _JUMP_WIDTH)
    return new if low < new < high else math.sqrt(low) * math.sqrt(min(high, 4.0 * low))


@njit(inline="always")
def _past(unit):
    """The price at which an element is surely cut off."""
    return (1.0 + 4e-16) / unit


@njit(error_model="numpy")
def _several(starts, h, count):
    """The group after so many from this one on that their elements fill a chunk, or the last."""
    last = h + 1
    while last < count and starts[last + 1] - starts[h] <= CHUNK_ELEMENTS:
        last += 1
    return last


@njit(error_model="numpy")
def _room(starts):
    """The most elements that are worked on at once."""
    most = CHUNK_ELEMENTS
    for h in range(starts.size - 1):
        most = max(most, starts[h + 1] - starts[h])
    return most


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST_MATH)
def ask_groups(starts, units, masses, limits, price, stride, table):
    """Ask one in ``stride`` chunks of groups at the price of all.

    Returns what the limits of those allow that would spend more, what the others spend, the slope of that,
    and how many elements were asked.
    """
    room = _room(starts)
    paid, bends, turns, prices = np.empty(room), np.empty(room), np.empty(room), np.full(room, price)
    allowed = free = steep = 0.0
    asked = turn = h = 0
    while h < limits.size:
        last = _several(starts, h, limits.size)
        a, b = starts[h], starts[last]
        if turn % stride == 0:
            _ask(units[a:b], masses[a:b], prices, table, paid, bends, turns)
            asked += b - a
            for g in range(h, last):
                spent, slope, _ = _sums(paid, bends, turns, starts[g] - a, starts[g + 1] - a, 0)
                if spent > limits[g]:
                    allowed += limits[g]
                else:
                    free += spent
                    steep += slope
        turn += 1
        h = last
    return allowed, free, steep, asked


@njit(cache=True, nogil=True, error_model="numpy")
def common_price(starts, units, masses, limits, budget, price, close, stride, table):
    """The price of all that spends the budget, by Newton's method from a guess; nan if it finds none.

    The last step is made from a price at which spending is ``close`` to the budget, relatively. One in
    ``stride`` chunks of groups stand for all.
    """
    low, high = 0.0, math.inf
    for _ in range(_MOST_COMMON_STEPS):
        allowed, free, steep, asked = ask_groups(starts, units, masses, limits, price, stride, table)
        room = budget * (asked / units.size) - allowed
        if free >= room:
            low = price
        else:
            high = price
        new = _newton(price, free, steep, max(room, 1e-3 * free), low, high)
        if abs(free - room) <= close * free:
            return new
        if not 0.0 < new < math.inf:
            return math.nan
        price = new
    return math.nan


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST_MATH)
def settle_groups(starts, units, masses, limits, price, close, table, paid, sums, prices):
    """Write what each element spends at the price of all, or at that of its group, which meets its limit.

    A group meets its limit to a relative ``close``; where demand jumps there, two prices are mixed. Writes
    the prices of groups, and to ``sums`` what they spend, with the slope at the price of all, and the
    residual. Returns whether all prices were found.
    """
    error, room = table[6], _room(starts)
    every, given, bends, turns = np.full(room, price), np.empty(room), np.empty(room), np.empty(room)
    own_units, own_masses, own_prices = np.empty(room), np.empty(room), np.empty(room)
    # of the groups that are searched for: which, where their elements begin, what is known of their prices
    which, begins = np.empty(room + 1, np.int64), np.empty(room + 2, np.int64)
    lows, highs, at = np.empty(room + 1), np.empty(room + 1), np.empty(room + 1)
    h = 0
    while h < limits.size:
        last = _several(starts, h, limits.size)
        a, b = starts[h], starts[last]
        _ask(units[a:b], masses[a:b], every, table, paid[a:b], bends, turns)
        left = m = 0
        for g in range(h, last):
            spent, slope, turn = _sums(paid, bends, turns, starts[g], starts[g + 1], a)
            sums[g, 0], sums[g, 1], sums[g, 2], sums[g, 3] = spent, slope, spent, error * spent
            prices[g] = price
            if spent > limits[g]:
                which[left], begins[left], lows[left], highs[left] = g, m, price, math.inf
                at[left] = _stepped(price, spent, slope, turn, limits[g], price, math.inf)
                new, to, few = at[left], np.uint64(m), np.uint64(starts[g + 1] - starts[g])
                for j in range(few):
                    k = np.uint64(starts[g]) + j
                    own_units[to + j], own_masses[to + j], own_prices[to + j] = units[k], masses[k], new
                m += starts[g + 1] - starts[g]
                left += 1
        begins[left] = m
        for tries in range(_MOST_STEPS):
            if left == 0:
                break
            _ask(own_units[:m], own_masses[:m], own_prices, table, given, bends, turns)
            kept = m = 0
            for i in range(left):
                g, first, end, tried = which[i], begins[i], begins[i + 1], at[i]
                goal, low, high = limits[g], lows[i], highs[i]
                spent, slope, turn = _sums(given, bends, turns, first, end, 0)
                if spent > goal:
                    low = tried
                else:
                    high = tried
                if abs(spent - goal) <= close * goal:
                    for j in range(np.uint64(end - first)):
                        paid[np.uint64(starts[g]) + j] = given[np.uint64(first) + j]
                    sums[g, 0], sums[g, 2], sums[g, 3], prices[g] = spent, spent, error * spent, tried
                elif high <= low * (1.0 + _JUMP_WIDTH):
                    _mix(units, masses, starts[g], starts[g + 1], low, high, goal, table, paid, sums[g])
                    prices[g] = high
                else:
                    if tries < _SMOOTH_STEPS or tries % 8 == 0:
                        new = _stepped(tried, spent, slope, turn, goal, low, high)
                    else:
                        new = _stepped_by_cutoff(own_units[first:end], tried, spent, slope, goal, low, high)
                    begins[kept], which[kept], lows[kept], highs[kept], at[kept] = m, g, low, high, new
                    to = np.uint64(m)
                    for j in range(np.uint64(first), np.uint64(end)):  # to the left, over what is done
                        own_units[to], own_masses[to], own_prices[to] = own_units[j], own_masses[j], new
                        to += np.uint64(1)
                    m += end - first
                    kept += 1
            left = kept
            begins[left] = m
        if left:
            return False
        h = last
    return True


@njit(error_model="numpy")
def _mix(units, masses, first, end, low, high, goal, table, paid, sums):
    """Mix what a group spends at two prices, between which its demand jumps, so that it meets its goal."""
    some = units[first:end].size
    above, nothing, given = np.empty(some), np.empty(some), paid[first:end]
    _ask(units[first:end], masses[first:end], np.full(some, low), table, above, nothing, nothing)
    _ask(units[first:end], masses[first:end], np.full(some, high), table, given, nothing, nothing)
    more, less = above.sum(), given.sum()
    mix = (goal - less) / (more - less)
    for j in range(some):
        given[j] += mix * (above[j] - given[j])
    sums[0] = less + mix * (more - less)
    sums[2] = max(more, less)
    sums[3] = table[6] * (more + less) + 1e-10 * more


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST_MATH)
def spread(size, codes, place, paid, factors, out):
    """Write frequencies: what elements spend, scaled with their groups, over the size."""
    own, index = codes.view(np.uint64), place.view(np.uint32)
    for i in range(own.size):
        out[i] = paid[index[i]] * factors[own[i]] / size
