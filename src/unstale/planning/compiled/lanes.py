"""Compiled: rough prices of many small groups with limits, sixteen groups at once (see `grouped`).

Elements of sixteen groups lie side by side, as many in a row as there are groups, so that each group has a
lane of the processor to itself: what it spends, with two derivatives, adds up down its lane. A large group
has all lanes. Numbers are of single precision: units are times the price of all, masses over the limit of
their group. What is found is good to six digits where no element is about to be cut off;
`grouped.settle_groups` goes on from there.
"""

import math

import numpy as np
from numba import njit

from ..lookup import FIT_END
from .demand import _NEAR_CUTOFF, FAST_MATH
from .grouped import _first_filled, _room, _step_all
from .plain import _CENTRE, _EVEN_32, _F32, _FIT_32, _NONE, _ODD_32, _ONE, _SMALLEST, _horner_32, _look_up

LANES = 16
LARGE_LANE = 64
"""Elements from which on a group has all lanes."""
_MOST_STEPS = 2
"""Prices that are tried for a group after the price of all."""
_CLOSE = _F32(2e-3)
"""Relative distance from its limit from which the last step of a group is made."""
_HALF, _TWO, _THREE = _F32(0.5), _F32(2.0), _F32(3.0)
_FIT_LAST, _BEYOND = _F32(FIT_END / (1.0 + FIT_END)), _F32(1.0 + _NEAR_CUTOFF)
_ACROSS = np.uint64(LANES)
_PAIRS, _OTHER_PAIRS = np.uint64(8), tuple(np.uint64(k) for k in range(1, 8))
_SIGNS, _ZERO = np.uint64(0x8000_0000_8000_0000), np.uint64(0)


@njit(inline="always")
def _put(units, masses, first, last, price, limit, lane, across, x, m):
    """Write elements to a lane, or one after the other ``across`` all lanes."""
    to, scale = np.uint64(lane), 1.0 / limit
    for j in range(np.uint64(first), np.uint64(last)):
        x[to] = _F32(price * units[j])
        m[to] = _F32(scale * masses[j])
        to += np.uint64(across)


@njit(error_model="numpy", fastmath=FAST_MATH)
def _ask_lanes(x, m, rows, whole, prices, end, table, sums, paid, near, steeps):
    """Write to ``sums`` what lanes spend at their prices, with two derivatives; to ``paid`` that of elements.

    Elements close to their cutoff, up to an ``end``, are looked up; writes where they are, with their slopes,
    and returns how many.
    """
    spent, slope, turn = sums
    for lane in range(_ACROSS):
        spent[lane] = slope[lane] = turn[lane] = _NONE
    for row in range(np.uint64(rows)):
        i = row * _ACROSS
        for lane in range(_ACROSS):
            k = i + lane
            at = x[k] * prices[lane]
            known = (at > _SMALLEST) & (at < _FIT_LAST)
            inside = at if known else _HALF
            odds = inside / (_ONE - inside)
            t = math.sqrt(odds)
            part = _ONE / (t * (t + _CENTRE))
            z = _FIT_32[0] - _FIT_32[1] * (t * part)
            square = z * z
            phi = (_horner_32(_EVEN_32, square) + z * _horner_32(_ODD_32, square)) * ((t + _CENTRE) * part)
            asked = m[k] * phi if known else _NONE
            bend = -asked * phi * (_ONE + phi) * odds
            spent[lane] += asked
            slope[lane] += bend
            turn[lane] += bend * (_ONE + odds - odds * phi * (_TWO + _THREE * phi))
            paid[k] = -_ONE if (not known) & (at < end) else asked
    count, pairs = 0, paid.view(np.uint64)
    for row in range(np.uint64(rows)):
        i, j = row * _ACROSS, row * _PAIRS
        signs = pairs[j]
        for k in _OTHER_PAIRS:
            signs |= pairs[j + k]
        if signs & _SIGNS == _ZERO:
            continue
        for lane in range(_ACROSS):
            k = i + lane
            if paid[k] < 0.0:
                at = np.float64(x[k]) * prices[lane]
                phi, bend = _look_up(at, table) if at < 1.0 else (0.0, 0.0)
                paid[k] = m[k] * phi
                spent[lane] += paid[k]
                near[count], steeps[count] = k, m[k] * min(bend, 0.0)
                slope[lane] += steeps[count]
                count += 1
    if whole:
        for values in sums:
            values[:] = values.sum()
    return count


@njit(error_model="numpy", fastmath=FAST_MATH)
def _search(x, m, rows, at, sums, table, room, whole):
    """Step the prices of lanes, of which the ``sums`` are known, towards those at which they spend 1."""
    paid, near, steeps, prices, (goals, lows, highs, new) = room
    spent, slope, turn = sums
    goals[:], lows[:], highs[:] = 1.0, 1.0, math.inf
    for tries in range(_MOST_STEPS + 1):
        _step_all(LANES, at, spent, slope, turn, goals, lows, highs, new)
        done = True
        for lane in range(LANES):
            close = abs(spent[lane] - _ONE) < _CLOSE
            done &= close
            if new[lane] > 0.0:
                at[lane] = new[lane]
            elif highs[lane] < math.inf and not close:
                at[lane] = math.sqrt(lows[lane] * highs[lane])
            prices[lane] = at[lane]
        if done or tries == _MOST_STEPS:
            return
        _ask_lanes(x, m, rows, whole, prices, _ONE, table, sums, paid, near, steeps)
        for lane in range(LANES):
            more = spent[lane] > _ONE
            lows[lane] = at[lane] if more else lows[lane]
            highs[lane] = highs[lane] if more else at[lane]


@njit(inline="always")
def _three():
    return np.ones(LANES, _F32), np.ones(LANES, _F32), np.ones(LANES, _F32)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST_MATH)
def guess_prices(starts, units, masses, limits, price, table, guesses, odd):
    """Write roughly the prices of groups that would spend more than their limits at the price of all, else 0.

    Returns what the limits of those allow; what the others spend, with two derivatives by the logarithm of
    the price, without those of elements near a cutoff; and how many these are. Writes their units and masses
    to ``odd``.
    """
    h, size = _first_filled(starts), LANES * max(LARGE_LANE, _room(starts) // LANES + 1)
    x, m, paid = np.empty(size, _F32), np.empty(size, _F32), np.empty(size, _F32)
    near, steeps, prices = np.empty(size, np.int64), np.empty(size, _F32), np.ones(LANES, _F32)
    bounds = np.empty(LANES), np.empty(LANES), np.empty(LANES), np.empty(LANES)
    room = paid, near, steeps, prices, bounds
    held_x, held_m = np.full(size, _HALF), np.zeros(size, _F32)
    sums, held_sums, at = _three(), _three(), np.ones(LANES)
    held, waiting, held_rows, odds = np.empty(LANES, np.int64), 0, 0, 0  # groups, as many as there are lanes
    allowed = spending = steep = bow = 0.0
    while h < limits.size:
        end, whole = h + 1, starts[h + 1] - starts[h] > LARGE_LANE
        while end < min(h + LANES, limits.size) and starts[end + 1] - starts[end] <= LARGE_LANE:
            end += 1
        rows, across = starts[end] - starts[end - 1], LANES
        if whole:
            rows, across = (rows + LANES - 1) // LANES, 1
        x[: rows * LANES], m[: rows * LANES], prices[:] = _HALF, _NONE, _ONE
        for g in range(h, end):
            _put(units, masses, starts[g], starts[g + 1], price, limits[g], g - h, across, x, m)
        count = _ask_lanes(x, m, rows, whole, prices, _BEYOND, table, sums, paid, near, steeps)
        for i in range(count):
            k = near[i]
            lane, place = (0, k) if whole else (k % LANES, k // LANES)
            g, j = h + lane, starts[h + lane] + place
            if not sums[0][lane] > _ONE and abs(price * units[j] - 1.0) < _NEAR_CUTOFF:
                odd[0, odds], odd[1, odds] = units[j], masses[j]
                odds += 1
                steep -= limits[g] * steeps[i]
        for g in range(h, end):
            spent, slope, turn = sums[0][g - h], sums[1][g - h], sums[2][g - h]
            guesses[g] = 0.0
            if not spent > _ONE:
                spending += limits[g] * spent
                steep += limits[g] * slope
                bow += limits[g] * turn
                continue
            allowed += limits[g]
            if whole:
                at[:] = 1.0
                _search(x, m, rows, at, sums, table, room, whole)
                guesses[g] = price * at[0]
                at[:] = 1.0
                continue
            _put(units, masses, starts[g], starts[g + 1], price, limits[g], waiting, LANES, held_x, held_m)
            held_sums[0][waiting], held_sums[1][waiting], held_sums[2][waiting] = spent, slope, turn
            held[waiting] = g
            waiting, held_rows = waiting + 1, starts[g + 1] - starts[g]
            if waiting == LANES:
                _search(held_x, held_m, held_rows, at, held_sums, table, room, whole=False)
                for lane in range(LANES):
                    guesses[held[lane]] = price * at[lane]
                held_m[: held_rows * LANES], at[:], waiting = _NONE, 1.0, 0
        h = end
    if waiting > 0:
        _search(held_x, held_m, held_rows, at, held_sums, table, room, whole=False)
        for lane in range(waiting):
            guesses[held[lane]] = price * at[lane]
    return allowed, spending, steep, bow, odds
