"""Compiled: many small groups with limits, of elements with known rates and no options (see `plain`).

Elements are sorted by group, each as the two numbers by which it asks: its unit, which times the price is
``x``, and its mass, which times ``phi`` is what it spends. So groups are in the first cache while their own
prices are searched for. Groups come in the order of how many elements they have, so that loops over their
elements end where the processor expects it; they are numbered in that order.
"""

import math

import numpy as np
from numba import njit

from ...exponential_kernels import _decay, _horner, _log1p
from ..lookup import FIT_CENTRE, FIT_END
from .demand import (
    _JUMP_WIDTH,
    _LONGEST_STEP,
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
_CLOSE_CUTOFF, _CLOSE_PHI, _JUMP_PHI = 0.9, 0.3, 1.0 / 26.0
"""When an element is close to its cutoff: the price over the cutoff from which on it is; frequencies over
rates from which down it is, and where nothing is left but a jump."""
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
def _ask(units, masses, prices, table, paid, bends=None, turns=None):
    """Write what elements spend at their prices; if asked for, with two derivatives by its logarithm."""
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
        if bends is not None:
            odds = inside / rest
            bend = -asked * phi * (1.0 + phi) * odds
            bends[j] = bend if known else 0.0
            turns[j] = bend * (1.0 + odds - odds * phi * (2.0 + 3.0 * phi)) if known else 0.0
        paid[j] = asked if known else (-1.0 if x < 1.0 else 0.0)
    for first in range(0, m, 16):
        end = min(first + 16, m)
        if end == first + 16 and lowest(paid, first) >= 0.0:
            continue
        for j in range(first, end):
            if paid[j] < 0.0:
                phi, bend = _look_up(prices[j] * units[j], table)
                paid[j] = masses[j] * phi
                if bends is not None:
                    bends[j] = masses[j] * min(bend, 0.0)


@njit(inline="always")
def _sums(paid, bends, turns, first, end):
    """What a group spends, with two derivatives."""
    spent = slope = turn = 0.0
    for j in range(np.uint64(first), np.uint64(end)):
        spent += paid[j]
        slope += bends[j]
        turn += turns[j]
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
def _next_cutoff(units, masses, price, spent, slope, goal, low, table):
    """The element of a group that is about to be cut off, or to return, where its goal may be.

    Returns its unit, or 0 where none is close, its mass, roughly its frequency over its rate at the goal, and
    what the others spend, with the slope.
    """
    above, below = 0.0, math.inf
    for j in range(units.size):
        inside = units[j] * price < 1.0
        above = max(above, units[j] if inside else 0.0)
        below = min(below, math.inf if inside else units[j])
    returns = spent <= goal and max(low, _CLOSE_CUTOFF * price) < _past(below) <= price
    unit, mass = below if returns else above, 0.0
    for j in range(units.size):
        mass += masses[j] if units[j] == unit else 0.0
    if returns:
        return unit, mass, (goal - spent + slope * (unit * price - 1.0)) / mass, spent, slope
    if above * price > _CLOSE_CUTOFF:
        phi, bend = _look_up(above * price, table)
        return unit, mass, phi, spent - mass * phi, slope - mass * bend
    return 0.0, 1.0, 1.0, spent, slope


@njit(error_model="numpy", fastmath=FAST_MATH)
def _step_by_cutoffs(count, at, goals, lows, highs, units, masses, phis, spents, slopes, new):
    """Step prices of groups whose goal is where an element is about to be cut off, which no slope foresees.

    What the other elements spend is foreseen by their slope, and what that leaves to the one says how close
    to its cutoff the price is. Leaves prices as they are where no element is that close.
    """
    for i in range(count):
        unit, mass, price, slope = units[i], masses[i], at[i], slopes[i]
        phi, tried = max(phis[i], _JUMP_PHI), 0.0
        for _ in range(3):  # Newton's steps
            phi = min(phi, 1.0)
            r = 1.0 / phi
            left = (1.0 + r) * _decay(r)
            tried = (1.0 - left) / unit
            miss = phi - (goals[i] - spents[i] - slope * (2.0 * (tried - price) / (tried + price))) / mass
            phi -= miss / (1.0 - slope / mass * r * r * r / (1.0 + r) * left / (1.0 - left))
            phi = max(phi, 0.5 * _JUMP_PHI)
        cutoff = _past(unit)
        jump = cutoff if cutoff < highs[i] else cutoff * (1.0 - 0.5 * _JUMP_WIDTH)
        tried = tried if phi > _JUMP_PHI else jump
        good = (lows[i] < tried) & (tried < highs[i]) & (phi < _CLOSE_PHI) & (unit > 0.0)
        new[i] = tried if good else new[i]


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


@njit(error_model="numpy", fastmath=FAST_MATH)
def _ask_groups(starts, units, masses, limits, price, stride, table):
    """Ask one in ``stride`` chunks of groups at the price of all.

    Returns what the limits of those allow that would spend more, what the others spend, the slope of that,
    and how many elements were asked.
    """
    room = _room(starts)
    paid, bends, turns, prices = np.empty(room), np.empty(room), np.empty(room), np.full(room, price)
    allowed = spending = steep = 0.0
    asked, turn, h = 0, stride // 2, _first_filled(starts)
    while h < limits.size:
        last = _several(starts, h, limits.size)
        a, b = starts[h], starts[last]
        if turn % stride == 0:
            _ask(units[a:b], masses[a:b], prices, table, paid, bends, turns)
            asked += b - a
            for g in range(h, last):
                spent, slope, _ = _sums(paid, bends, turns, starts[g] - a, starts[g + 1] - a)
                if spent > limits[g]:
                    allowed += limits[g]
                else:
                    spending += spent
                    steep += slope
        turn += 1
        h = last
    return allowed, spending, steep, asked


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST_MATH)
def ask_few(units, masses, price, table):
    """What elements spend at a price."""
    paid = np.empty(units.size)
    _ask(units, masses, np.full(units.size, price), table, paid)
    return paid.sum()


@njit(cache=True, nogil=True, error_model="numpy")
def common_price(starts, units, masses, limits, budget, price, close, stride, table):
    """The price of all that spends the budget, by Newton's method from a guess; nan if it finds none.

    The last step is made from a price at which spending is ``close`` to the budget, relatively. One in
    ``stride`` chunks of groups stand for all.
    """
    low, high = 0.0, math.inf
    for _ in range(_MOST_COMMON_STEPS):
        allowed, free, steep, asked = _ask_groups(starts, units, masses, limits, price, stride, table)
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


@njit(error_model="numpy", fastmath=FAST_MATH)
def _search(which, starts, units, masses, limits, price, close, table, guesses, paid, sums, prices):
    """Find the prices at which some groups meet their limits, from the price of all or a guess above it.

    Where demand jumps there, two prices are mixed. A group whose price is not above that of all spends what
    it does there. Returns as `settle_groups` does, and writes likewise.
    """
    error, left, m = table[6], which.size, 0
    which, begins = which.copy(), np.empty(left, np.int64)
    lows, highs, goals = np.zeros(left), np.full(left, math.inf), np.empty(left)
    at, new, spents, slopes, bows = (
        np.empty(left),
        np.empty(left),
        np.empty(left),
        np.empty(left),
        np.empty(left),
    )
    for i in range(left):
        g = which[i]
        begins[i], goals[i] = m, limits[g]
        at[i] = guesses[g] if price < guesses[g] < math.inf else price
        m += starts[g + 1] - starts[g]
    own_units, own_masses, own_prices = np.empty(m), np.empty(m), np.empty(m)
    given, bends, turns = np.empty(m), np.empty(m), np.empty(m)
    for i in range(left):
        first, to = np.uint64(starts[which[i]]), np.uint64(begins[i])
        for j in range(np.uint64(starts[which[i] + 1]) - first):
            own_units[to + j], own_masses[to + j] = units[first + j], masses[first + j]
    cut = np.empty(left), np.empty(left), np.empty(left), np.empty(left), np.empty(left)
    allowed = spending = 0.0
    for tries in range(_MOST_STEPS):
        for i in range(left):
            first, tried = np.uint64(begins[i]), at[i]
            for j in range(np.uint64(starts[which[i] + 1] - starts[which[i]])):
                own_prices[first + j] = tried
        _ask(own_units[:m], own_masses[:m], own_prices, table, given, bends, turns)
        kept = m = 0
        for i in range(left):
            g, first, tried, goal = which[i], begins[i], at[i], goals[i]
            after = first + starts[g + 1] - starts[g]
            spent, slope, turn = _sums(given, bends, turns, first, after)
            low, high = (tried, highs[i]) if spent > goal else (lows[i], tried)
            done = abs(spent - goal) <= close * goal or (tried == price and spent < goal)
            residual = error * spent
            if not done and high <= low * (1.0 + _JUMP_WIDTH):
                more = _mix(
                    own_units[first:after], own_masses[first:after], tried, goal - spent, given[first:after]
                )
                done = more >= 0.0
                spent, residual = (goal, error * goal + more) if done else (spent, residual)
            if done:
                for j in range(np.uint64(after - first)):
                    paid[np.uint64(starts[g]) + j] = given[np.uint64(first) + j]
                sums[g, 0], sums[g, 1] = spent, residual
                if tried > price:
                    prices[g] = tried
                    allowed += goal
                else:
                    spending += spent
                continue
            which[kept], begins[kept], lows[kept], highs[kept] = g, m, low, high
            at[kept], spents[kept], slopes[kept], bows[kept], goals[kept] = tried, spent, slope, turn, goal
            for j in range(np.uint64(after - first)):  # to the left, over what is done
                own_units[np.uint64(m) + j] = own_units[np.uint64(first) + j]
                own_masses[np.uint64(m) + j] = own_masses[np.uint64(first) + j]
            kept, m = kept + 1, m + after - first
        left = kept
        if left == 0:
            return True, allowed, spending
        _step_all(left, at, spents, slopes, bows, goals, lows, highs, new)
        halve = tries % 4 == 3  # as other steps may go to and fro
        if not halve:
            for i in range(left):
                first, after = begins[i], begins[i] + starts[which[i] + 1] - starts[which[i]]
                cut[0][i], cut[1][i], cut[2][i], cut[3][i], cut[4][i] = _next_cutoff(
                    own_units[first:after], own_masses[first:after], at[i], spents[i], slopes[i], goals[i],
                    lows[i], table
                )  # fmt: skip
            _step_by_cutoffs(left, at, goals, lows, highs, cut[0], cut[1], cut[2], cut[3], cut[4], new)
        for i in range(left):
            if halve and lows[i] > 0.0 and highs[i] < math.inf:
                new[i] = math.sqrt(lows[i]) * math.sqrt(highs[i])
            elif lows[i] == 0.0 and not new[i] > price:  # the price of all may be high enough
                new[i] = price
            elif new[i] == 0.0:
                new[i] = _newton(at[i], spents[i], slopes[i], goals[i], lows[i], highs[i])
            at[i] = new[i]
    return False, 0.0, 0.0


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST_MATH)
def settle_groups(starts, units, masses, limits, price, close, table, guesses, paid, sums, prices):
    """Find the prices of groups that would spend more than their limits at the price of all.

    A group whose price is above that of all already, from an earlier pass, is settled. Others are asked at
    the price of all, or at a guess above it. Those that miss their limits by more than a relative ``close``
    are searched for. Writes the prices of groups; to ``sums`` what they spend, and the residual; to ``paid``
    what each element spends. The price of a group at the price of all is 0.

    Returns whether all prices were found, what the limits of groups allow that are held at them, and what the
    others spend.
    """
    error, room = table[6], _room(starts)
    given, own = np.empty(room), np.empty(room)
    which, missed = np.empty(limits.size, np.int64), 0
    allowed = spending = 0.0
    h = _first_filled(starts)
    while h < limits.size:
        end = _several(starts, h, limits.size)
        a, b = starts[h], starts[end]
        for g in range(h, end):
            tried = guesses[g] if price < guesses[g] < math.inf else price
            for j in range(np.uint64(starts[g] - a), np.uint64(starts[g + 1] - a)):
                own[j] = tried
        _ask(units[a:b], masses[a:b], own, table, given)
        for g in range(h, end):
            if prices[g] > price:
                allowed += limits[g]
                continue
            first, to, few = (
                np.uint64(starts[g] - a),
                np.uint64(starts[g]),
                np.uint64(starts[g + 1] - starts[g]),
            )
            spent = 0.0
            for j in range(few):
                spent += given[first + j]
                paid[to + j] = given[first + j]
            sums[g, 0], sums[g, 1], prices[g] = spent, error * spent, 0.0
            if own[first] > price:
                if abs(spent - limits[g]) <= close * limits[g]:
                    prices[g] = guesses[g]
                    allowed += limits[g]
                    continue
            elif not spent > limits[g]:
                spending += spent
                continue
            which[missed] = g
            missed += 1
        h = end
    begin = 0
    while begin < missed:
        end, m = begin, 0
        while end < missed and m + starts[which[end] + 1] - starts[which[end]] <= room:
            m += starts[which[end] + 1] - starts[which[end]]
            end += 1
        good, more_allowed, more_spent = _search(
            which[begin:end], starts, units, masses, limits, price, close, table, guesses, paid, sums, prices
        )
        if not good:
            return False, 0.0, 0.0
        allowed, spending, begin = allowed + more_allowed, spending + more_spent, end
    return True, allowed, spending


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
        residual += own * sums[h, 1]
        squares += own * (off * off) * sums[h, 0]
        paid += own * sums[h, 0]
        worst = max(worst, abs(off) if sums[h, 0] > 0.0 else 0.0)
    return 1.0 + common, residual, squares, paid, worst


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST_MATH)
def spread(size, codes, place, paid, factors, out):
    """Write frequencies: what elements spend, scaled with their groups, over the size."""
    own = codes.view(np.uint64)
    for i in range(own.size):
        out[i] = paid[place[i]] * factors[own[i]] / size
