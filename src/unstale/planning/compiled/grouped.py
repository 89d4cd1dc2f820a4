"""Compiled: many small groups with limits, of elements with known rates and no options (see `plain`).

Elements are sorted by group, each as the two numbers by which it asks: its unit, which times the price is
``x``, and its mass, which times ``phi`` is what it spends. So groups are in the first cache while their own
prices are searched for. Groups come in the order of how many elements they have, so that loops over their
elements end where the processor expects it; they are numbered in that order.
"""

import math

import numpy as np
from numba import njit

from ...kernels import _decay, _horner, _log1p
from ..lookup import FIT_CENTRE, FIT_END
from .demand import (
    _JUMP_WIDTH,
    _LONGEST_STEP,
    _NEAR_CUTOFF,
    CHUNK_ELEMENTS,
    FAST_MATH,
    _filled,
    _newton,
    _piece,
    lowest,
)
from .plain import _EVEN, _FIT, _ODD, _look_up

_MOST_STEPS = 200
"""Prices that are tried for a group."""
_MOST_COMMON_STEPS = 40
"""Prices of all that are tried."""
_SMOOTH_STEPS = 3
"""Steps after which a group is taken to be where an element is cut off,"""
_CLOSE_CUTOFF, _CLOSE_PHI, _JUMP_PHI = 0.9, 0.3, 1.0 / 26.0
"""if that is as close: the price over the cutoff from which on it is; frequencies over rates from which down
it is, and where nothing is left but a jump."""
_MOST_IN_PLACE = 0.6
"""Share of elements that are still searched for, below which they are moved together."""
_FIT_START, _FIT_LAST = 1e-30, FIT_END / (1.0 + FIT_END)
"""Where the polynomial is good."""


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST_MATH)
def sort_by_group(columns, size, codes, starts, order, place, units, masses):
    """Sort elements by group; ``columns`` are rate and weight.

    Writes where each group starts, and the last one ends; which group is which of those that were given; the
    place of each element; and there its unit and its mass.
    """
    fills, unit = _filled(columns), np.empty(CHUNK_ELEMENTS)
    own = codes.view(np.uint64)  # spares the code for negative ones
    ends = np.zeros(order.size, np.uint32)
    for i in range(own.size):
        ends[own[i]] += np.uint32(1)
    _order_by_size(ends, starts, order)
    for start in range(0, own.size, CHUNK_ELEMENTS):
        m = min(CHUNK_ELEMENTS, own.size - start)
        rate = _piece(columns[0], start, m, fills[0])
        weight = _piece(columns[1], start, m, fills[1])
        some, places = own[start:][:m], place[start:][:m]
        for j in range(m):
            unit[j] = size * rate[j] / weight[j] if rate[j] > 0.0 else math.inf
        for j in range(m):
            k = ends[some[j]]
            ends[some[j]] = k + np.uint32(1)
            places[j] = k
        for j in range(m):  # each loop waits for one place only
            units[places[j]] = unit[j]
        for j in range(m):
            masses[places[j]] = size * rate[j]


@njit(error_model="numpy")
def _order_by_size(sizes, starts, order):
    """Order groups by their sizes, of which each is replaced by the place where the group starts."""
    count = np.zeros(np.int64(sizes.max()) + 2, np.int64)
    for g in range(sizes.size):
        count[np.int64(sizes[g]) + 1] += 1
    for k in range(1, count.size):
        count[k] += count[k - 1]
    for g in range(sizes.size):
        order[count[sizes[g]]] = g
        count[sizes[g]] += 1
    starts[0] = 0
    for h in range(order.size):
        g = order[h]
        starts[h + 1] = starts[h] + np.int64(sizes[g])
        sizes[g] = starts[h]


@njit(error_model="numpy", fastmath=FAST_MATH)
def _ask(units, masses, prices, table, paid, bends, turns, centre, near):
    """Write what elements spend at their prices, with two derivatives by the logarithm of the price.

    If there is room, writes which of them are near their cutoff at another price, the ``centre``; returns
    how many there are.
    """
    m, count = units.size, 0
    beyond = 1.0 + 2.0 * _NEAR_CUTOFF if near.size else 1.0
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
        paid[j] = asked if known else (-1.0 if x < beyond else 0.0)
    for first in range(0, m, 16):
        end = min(first + 16, m)
        if end == first + 16 and lowest(paid, first) >= 0.0:
            continue
        for j in range(first, end):
            if paid[j] < 0.0:
                x = prices[j] * units[j]
                phi, bend = _look_up(x, table) if x < 1.0 else (0.0, 0.0)
                paid[j], bends[j] = masses[j] * phi, masses[j] * min(bend, 0.0)
                if near.size and abs(centre * units[j] - 1.0) < _NEAR_CUTOFF:
                    near[count] = j
                    count += 1
    return count


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


@njit(error_model="numpy", fastmath=FAST_MATH)
def _step_all(count, at, spent, slope, turn, goal, low, high, new):
    """Step the prices of groups by Halley's method on logarithms, or Newton's; write 0 where both fail."""
    for i in range(count):
        up = spent[i] > goal[i]
        log = _log1p((spent[i] / goal[i] if up else goal[i] / spent[i]) - 1.0)
        newton = (-log if up else log) * spent[i] / slope[i]
        slower = 1.0 + 0.5 * newton * (turn[i] / slope[i] - slope[i] / spent[i])
        step = newton / slower if slower > 0.5 else newton
        factor = _decay(min(abs(step), _LONGEST_STEP))
        price = at[i] / factor if step > 0.0 else at[i] * factor
        new[i] = price if (low[i] < price) & (price < high[i]) else 0.0


@njit(error_model="numpy")
def _stepped_by_cutoff(units, masses, price, spent, slope, goal, low, high, table):
    """A step for a group whose goal is where an element is about to be cut off, which no slope foresees.

    What the other elements spend is foreseen by their slope, and what that leaves to the one says how close
    to its cutoff the price is. Returns 0 where no element is close.
    """
    above, below, mass, other = 0.0, math.inf, 0.0, 0.0  # the next elements to be cut off and to return
    for j in range(units.size):
        if units[j] * price < 1.0:
            mass = masses[j] if units[j] > above else mass
            above = max(above, units[j])
        else:
            other = masses[j] if units[j] < below else other
            below = min(below, units[j])
    unit, phi = above, 0.0
    if spent <= goal and low < _past(below) <= price:
        unit, mass = below, other
        phi = (goal - spent + slope * (unit * price - 1.0)) / mass
    elif above * price > _CLOSE_CUTOFF:
        phi, bend = _look_up(above * price, table)
        spent -= mass * phi
        slope -= mass * bend
    else:
        return 0.0
    new, cutoff, phi = 1.0 / unit, _past(unit), max(phi, _JUMP_PHI)
    for _ in range(3):  # Newton's steps
        phi = min(phi, 1.0)
        r = 1.0 / phi
        left = (1.0 + r) * _decay(r)
        new = (1.0 - left) / unit
        miss = phi - (goal - spent - slope * (2.0 * (new - price) / (new + price))) / mass
        phi -= miss / (1.0 - slope / mass * r * r * r / (1.0 + r) * left / (1.0 - left))
        phi = max(phi, 0.5 * _JUMP_PHI)
    if not phi > _JUMP_PHI:
        new = cutoff if cutoff < high else cutoff * (1.0 - 0.5 * _JUMP_WIDTH)
    return new if low < new < high and phi < _CLOSE_PHI else 0.0


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


@njit(error_model="numpy")
def _first_filled(starts):
    """The first group that has elements; those without come before it."""
    h = 0
    while h + 1 < starts.size and starts[h + 1] == 0:
        h += 1
    return h


@njit(error_model="numpy")
def _without(starts, first, free, near, count, paid, bends):
    """What elements near their cutoff spend, with the slope, in those groups from ``first`` on that are free.

    Leaves only these in ``near``, and returns also how many they are.
    """
    spent, slope, kept, h = 0.0, 0.0, 0, first
    for i in range(count):
        j = near[i]
        while starts[h + 1] <= starts[first] + j:
            h += 1
        if free[h - first]:
            spent += paid[j]
            slope += bends[j]
            near[kept] = j
            kept += 1
    return spent, slope, kept


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST_MATH)
def ask_groups(starts, units, masses, limits, price, centre, stride, table):
    """Ask one in ``stride`` chunks of groups at the price of all.

    Returns what the limits of those allow that would spend more, what the others spend, the slope of that,
    the same two for those of their elements that are near their cutoff at the ``centre``, and how many
    elements were asked.
    """
    room = _room(starts)
    paid, bends, turns, prices = np.empty(room), np.empty(room), np.empty(room), np.full(room, price)
    near, free = np.empty(room, np.int64), np.empty(room, np.bool_)
    allowed = spending = steep = odd = odd_slope = 0.0
    asked, turn, h = 0, stride // 2, _first_filled(starts)
    while h < limits.size:
        last = _several(starts, h, limits.size)
        a, b = starts[h], starts[last]
        if turn % stride == 0:
            count = _ask(units[a:b], masses[a:b], prices, table, paid, bends, turns, centre, near)
            asked += b - a
            for g in range(h, last):
                spent, slope, _ = _sums(paid, bends, turns, starts[g] - a, starts[g + 1] - a, 0)
                free[g - h] = not spent > limits[g]
                if free[g - h]:
                    spending += spent
                    steep += slope
                else:
                    allowed += limits[g]
            spent, slope, _ = _without(starts, h, free, near, count, paid, bends)
            odd += spent
            odd_slope += slope
        turn += 1
        h = last
    return allowed, spending, steep, odd, odd_slope, asked


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST_MATH)
def ask_few(units, masses, price, table):
    """What elements spend at a price."""
    room, nobody = units.size, np.empty(0, np.int64)
    paid, bends, turns = np.empty(room), np.empty(room), np.empty(room)
    _ask(units, masses, np.full(room, price), table, paid, bends, turns, price, nobody)
    return paid.sum()


@njit(cache=True, nogil=True, error_model="numpy")
def common_price(starts, units, masses, limits, budget, price, close, stride, table):
    """The price of all that spends the budget, by Newton's method from a guess; nan if it finds none.

    The last step is made from a price at which spending is ``close`` to the budget, relatively. One in
    ``stride`` chunks of groups stand for all.
    """
    low, high = 0.0, math.inf
    for _ in range(_MOST_COMMON_STEPS):
        allowed, free, steep, _, _, asked = ask_groups(
            starts, units, masses, limits, price, price, stride, table
        )
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


@njit(error_model="numpy")
def _mix(units, masses, price, missing, paid):
    """Give what is missing to the elements of a group that are cut off at a price, where its demand jumps.

    If it is less than nothing, what they spend is lowered in proportion. Returns the residual, or -1 where
    no elements can take it; the worth of those that do is as close to the price as they are to their cutoff.
    """
    for width in (4.0 * _JUMP_WIDTH, 1e-8, 1e-6):
        given = asked = 0.0
        for j in range(paid.size):
            near = abs(price * units[j] - 1.0) < width
            given += paid[j] if near else 0.0
            asked += masses[j] if near else 0.0
        if asked > 0.0 and given + missing >= 0.0:
            for j in range(paid.size):
                if abs(price * units[j] - 1.0) < width:
                    paid[j] += missing * (masses[j] / asked if missing > 0.0 else paid[j] / given)
            return width * (given + abs(missing))
    return -1.0


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST_MATH)
def settle_groups(starts, units, masses, limits, price, close, table, last, paid, sums, prices, odd):
    """Find the prices of groups that would spend more than their limits at the price of all.

    A group whose price is above that of all already, from an earlier pass, is settled. Others are asked at
    the price of all, and those that would spend too much get a price of their own, at which they meet their
    limits to a relative ``close``; where demand jumps there, two prices are mixed. Writes the prices of
    groups, and to ``sums`` what they spend, with the slope at the price of all, and the residual; to ``paid``
    what each element spends, in the ``last`` pass for groups at the price of all too.

    Returns whether all prices were found, what the limits of groups allow that are held at them, what the
    others spend, the slope of that without their elements near a cutoff, what these spend, and how many they
    are; their units and masses are written to ``odd``. The price of a group at the price of all is 0.
    """
    error, room = table[6], _room(starts)
    every, given, bends, turns = np.full(room, price), np.empty(room), np.empty(room), np.empty(room)
    room_units, room_masses, own_prices = np.empty(room), np.empty(room), np.empty(room)
    # of the groups that are searched for: which, where their elements begin, what is known of their prices
    which, begins = np.empty(room + 1, np.int64), np.empty(room + 2, np.int64)
    lows, highs, at, new = np.empty(room + 1), np.empty(room + 1), np.empty(room + 1), np.empty(room + 1)
    spents, slopes, bows, goals = (
        np.empty(room + 1),
        np.empty(room + 1),
        np.empty(room + 1),
        np.empty(room + 1),
    )
    near, free, nobody = np.empty(room, np.int64), np.empty(room, np.bool_), np.empty(0, np.int64)
    allowed = spending = steep = near_cutoff = 0.0
    odds = 0
    h = _first_filled(starts)
    while h < limits.size:
        end = _several(starts, h, limits.size)
        a, b = starts[h], starts[end]
        count = _ask(units[a:b], masses[a:b], every, table, given, bends, turns, price, near)
        left = searched = 0
        for g in range(h, end):
            free[g - h] = False
            if prices[g] > price:
                allowed += limits[g]
                continue
            spent, slope, turn = _sums(given, bends, turns, starts[g] - a, starts[g + 1] - a, 0)
            sums[g, 0], sums[g, 1], sums[g, 2], sums[g, 3] = spent, slope, spent, error * spent
            prices[g] = 0.0
            if spent > limits[g]:
                which[left], begins[left], lows[left], highs[left] = g, starts[g] - a, price, math.inf
                searched += starts[g + 1] - starts[g]
                at[left], spents[left], slopes[left], bows[left] = price, spent, slope, turn
                goals[left] = limits[g]
                left += 1
            else:
                free[g - h] = True
                spending += spent
                steep += slope
                for j in range(np.uint64(starts[g + 1] - starts[g]) if last else np.uint64(0)):
                    paid[np.uint64(starts[g]) + j] = given[np.uint64(starts[g] - a) + j]
        spent, slope, count = _without(starts, h, free, near, count, given, bends)
        steep -= slope
        near_cutoff += spent
        for i in range(count):
            odd[0, odds + i], odd[1, odds + i] = units[a + near[i]], masses[a + near[i]]
        odds += count
        # in place as long as most elements are searched for
        own_units, own_masses, m, kept_elements = units[a:b], masses[a:b], b - a, searched
        own_prices[:m] = price
        for tries in range(_MOST_STEPS):
            if left == 0:
                break
            _step_all(left, at, spents, slopes, bows, goals, lows, highs, new)
            for i in range(left):
                if tries >= _SMOOTH_STEPS and tries % 8 != 0:
                    first, after = begins[i], begins[i] + starts[which[i] + 1] - starts[which[i]]
                    cut = _stepped_by_cutoff(
                        own_units[first:after],
                        own_masses[first:after],
                        at[i],
                        spents[i],
                        slopes[i],
                        goals[i],
                        lows[i],
                        highs[i],
                        table,
                    )
                    new[i] = cut if cut > 0.0 else new[i]
                if new[i] == 0.0:
                    new[i] = _newton(at[i], spents[i], slopes[i], goals[i], lows[i], highs[i])
                at[i] = new[i]
            if kept_elements < _MOST_IN_PLACE * m:
                m = 0
                for i in range(left):
                    first, to = np.uint64(begins[i]), np.uint64(m)
                    few = starts[which[i] + 1] - starts[which[i]]
                    begins[i] = m
                    for j in range(np.uint64(few)):  # to the left, over what is done
                        room_units[to + j], room_masses[to + j] = own_units[first + j], own_masses[first + j]
                    m += few
                own_units, own_masses = room_units[:m], room_masses[:m]
            for i in range(left):
                first, tried = np.uint64(begins[i]), at[i]
                for j in range(np.uint64(starts[which[i] + 1] - starts[which[i]])):
                    own_prices[first + j] = tried
            _ask(own_units, own_masses, own_prices, table, given, bends, turns, price, nobody)
            kept_elements = 0
            kept = 0
            for i in range(left):
                g, first, tried, goal = which[i], begins[i], at[i], goals[i]
                after = first + starts[g + 1] - starts[g]
                spent, slope, turn = _sums(given, bends, turns, first, after, 0)
                low, high = (tried, highs[i]) if spent > goal else (lows[i], tried)
                done, residual = abs(spent - goal) <= close * goal, error * spent
                if not done and high <= low * (1.0 + _JUMP_WIDTH):
                    own = own_units[first:after], own_masses[first:after], given[first:after]
                    more = _mix(own[0], own[1], tried, goal - spent, own[2])
                    done = more >= 0.0
                    spent, residual = (goal, error * goal + more) if done else (spent, residual)
                if done:
                    for j in range(np.uint64(after - first)):
                        paid[np.uint64(starts[g]) + j] = given[np.uint64(first) + j]
                    sums[g, 0], sums[g, 2], sums[g, 3], prices[g] = spent, spent, residual, tried
                    allowed += goal
                else:
                    which[kept], begins[kept], lows[kept], highs[kept] = g, first, low, high
                    at[kept], spents[kept], slopes[kept], bows[kept] = tried, spent, slope, turn
                    goals[kept] = goal
                    kept += 1
                    kept_elements += after - first
            left = kept
        if left:
            return False, 0.0, 0.0, 0.0, 0.0, 0
        h = end
    return True, allowed, spending, steep, near_cutoff, odds


@njit(cache=True, nogil=True, error_model="numpy")
def meet_limits(limits, budget, price, prices, sums, factors):
    """By which factors groups are to be scaled to meet their limits, and together the budget.

    Groups that no limit holds share one factor; a group that it would lead beyond its limit is held there.
    Returns that factor, what frequencies miss before scaling, what scaling misses at most, what is paid in
    all, and the largest correction.
    """
    held = prices > price
    crossed = True
    common = 0.0
    while crossed:
        kept = spent = 0.0
        for h in range(limits.size):
            if held[h]:
                kept += limits[h]
            else:
                spent += sums[h, 0]
        common = (budget - kept - spent) / spent
        crossed = False
        for h in range(limits.size):
            if not held[h] and sums[h, 0] * (1.0 + common) > limits[h]:
                held[h] = crossed = True
    residual = squares = paid = worst = 0.0
    for h in range(limits.size):
        off = common
        if held[h]:
            off = limits[h] / sums[h, 0] - 1.0 if sums[h, 0] > 0.0 else 0.0
        factors[h], own = 1.0 + off, max(prices[h], price)
        residual += own * sums[h, 3]
        squares += own * (off * off) * sums[h, 2]
        paid += own * sums[h, 0]
        worst = max(worst, abs(off) if sums[h, 2] > 0.0 else 0.0)
    return 1.0 + common, residual, squares, paid, worst


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST_MATH)
def spread(size, codes, place, paid, factors, out):
    """Write frequencies: what elements spend, scaled with their groups, over the size."""
    own = codes.view(np.uint64)
    for i in range(own.size):
        out[i] = paid[place[i]] * factors[own[i]] / size
