"""What a poll is worth under a rhythm, compiled.

A rhythm is piecewise constant: ``levels[k]`` between ``edges[k]`` and ``edges[k + 1]`` of each period, with
mean 1; ``passed[k]`` is its integral up to ``edges[k]``. The rate of changes is a gamma law per unit of that
integral, with ``shape`` and ``time`` (1/scale). Costs per unit of real time are

    freshness   c = 1 - (1 + y/time)^-shape, y the operational time since the last poll
    age         c = the integral of that over real time

With ``shape`` inf there is one change in each ``time``, at a moment that is not known: c is y/time, up to 1.

See `unstale.operational_time` for what the worth is, and docs/theory.md for why.
"""

import math

import numpy as np
from numba import njit

from unstale.kernels import AGE, FRESHNESS

_QUIET_LEVEL = 1e-9
"""A rhythm below this stands still."""
_EXACT_PERIODS = 3
"""Periods since the last poll that are followed piece by piece; before, costs are those without rhythm."""
_SKIPPED_PARTS = 16
_EDGE_PERIODS = 1e-9
"""A moment that is so close before the next piece is in it."""
_AGE_PARTS = 16
"""Parts of a piece in which one change is expected."""
_BISECTIONS = 30


@njit(cache=True, nogil=True, error_model="numpy")
def piece_of(edges, phase):
    """Return the number of the piece that holds a phase; a moment between two is in the later."""
    low, high = 0, edges.size - 1
    while high - low > 1:
        middle = (low + high) // 2
        if edges[middle] <= phase:
            low = middle
        else:
            high = middle
    return low


@njit(cache=True, nogil=True, error_model="numpy")
def passed_at(edges, levels, passed, t):
    """Return the operational time that has passed since time 0."""
    period = edges[edges.size - 1]
    turns = math.floor(t / period)
    phase = t - turns * period
    k = piece_of(edges, phase)
    return turns * period + passed[k] + levels[k] * (phase - edges[k])


@njit(cache=True, nogil=True, error_model="numpy")
def _stale(shape, time, y):
    """Return the probability of a change, and its integral, up to an operational time."""
    if shape == math.inf:  # one change in each `time`, at a moment that is not known
        if y < time:
            return y / time, 0.5 * y * y / time
        return 1.0, y - 0.5 * time
    log = math.log1p(y / time)
    power = 1.0 - shape
    grown = math.expm1(power * log)
    if y > 1e-4 * time / (1.0 + shape):
        stale = 1.0 - (grown + 1.0) / (1.0 + y / time)
    else:
        stale = -math.expm1(-shape * log)
    mean = grown / power if abs(power) > 1e-12 else log
    total = y - time * mean
    if y * shape < 1e-3 * time:  # the first terms, where the difference has lost its digits
        total = shape * y * y / (2.0 * time) * (1.0 - (shape + 1.0) * y / (3.0 * time))
    return stale, total


@njit(cache=True, nogil=True, error_model="numpy")
def _pass_piece(kind, shape, time, level, dt, now):
    """Move ``now`` on by a piece: operational time, stale, its integral by that, cost rate, cost."""
    y = now[0] + level * dt
    stale, total = _stale(shape, time, y)
    if level * dt > 1e-9 * y and level > _QUIET_LEVEL and level * dt * shape > 1e-3 * (time + y):
        spent = (total - now[2]) / level
    else:
        spent = 0.5 * (now[1] + stale) * dt
    if kind == AGE:
        halfway, _ = _stale(shape, time, now[0] + 0.5 * level * dt)
        now[4] += now[3] * dt + dt * dt * (now[1] + 2.0 * halfway) / 6.0  # Simpson's rule
        now[3] += spent
    else:
        now[4] += spent
        now[3] = stale
    now[0], now[1], now[2] = y, stale, total


@njit(cache=True, nogil=True, error_model="numpy")
def _pass(kind, shape, time, level, dt, now):
    """Move ``now`` on by a piece, of which age needs parts in which few changes are expected."""
    parts = 1
    if kind == AGE:
        parts = int(min(1.0 + _AGE_PARTS * level * dt * shape / (time + now[0]), 4.0 * _AGE_PARTS))
    for _ in range(parts):
        _pass_piece(kind, shape, time, level, dt / parts, now)


@njit(cache=True, nogil=True, error_model="numpy")
def _pass_to(kind, edges, levels, shape, time, last, at, now):
    """Set ``now`` to what it is at a moment, after a poll at ``last``; return the piece and the phase."""
    period = edges[edges.size - 1]
    now[:] = 0.0
    turns = math.floor(last / period)
    phase, left = last - turns * period, max(at - last, 0.0)
    skipped = math.floor(left / period) - _EXACT_PERIODS
    if skipped > 0:
        for _ in range(_SKIPPED_PARTS):
            _pass(kind, shape, time, 1.0, skipped * period / _SKIPPED_PARTS, now)
        left -= skipped * period
    k = piece_of(edges, phase)
    while left > 0.0:
        dt = edges[k + 1] - phase
        if dt > left + _EDGE_PERIODS * period:
            _pass(kind, shape, time, levels[k], left, now)
            return k, phase + left
        _pass(kind, shape, time, levels[k], dt, now)
        left -= dt
        k = k + 1 if k + 2 < edges.size else 0
        phase = edges[k]
    return k, phase


@njit(cache=True, nogil=True, error_model="numpy")
def worth_at(kind, edges, levels, shape, time, last, at, ahead):
    """Return what a poll at a moment is worth; 0 if waiting is better at any price.

    It looks as far ahead as the last poll is back, and ``ahead`` at least, but no further than a period; and
    on to the next piece in which anything can change.
    """
    now = np.empty(5)
    k, phase = _pass_to(kind, edges, levels, shape, time, last, at, now)
    y, rate, cost = now[0], now[3], now[4]
    least = rate / levels[k] if levels[k] > _QUIET_LEVEL else math.inf
    left = min(max(at - last, ahead) if shape < math.inf else math.inf, edges[edges.size - 1])
    for _ in range(levels.size + 1):
        if left <= 0.0 and least < math.inf:
            break
        dt = edges[k + 1] - phase
        if 0.0 < left < dt:
            dt = left
        _pass(kind, shape, time, levels[k], dt, now)
        if now[0] - y > 1e-12 * y:
            least = min(least, (now[4] - cost) / (now[0] - y))
        left -= dt
        k = k + 1 if k + 2 < edges.size else 0
        phase = edges[k]
    return max(least * y - cost, 0.0) if least < math.inf else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def next_moment(kind, edges, levels, shape, time, last, since, price, horizon, ahead):
    """Return the first moment from ``since`` on at which the worth reaches a price; inf if none before.

    Worths are looked at where pieces end, and in the piece where they reach the price by halving.
    """
    if worth_at(kind, edges, levels, shape, time, last, since, ahead) >= price:
        return since
    period = edges[edges.size - 1]
    now = np.empty(5)
    k, phase = _pass_to(kind, edges, levels, shape, time, last, since, now)
    most = (int(horizon / period) + 4) * levels.size + 2
    moment, y, cost, slope = np.empty(most), np.empty(most), np.empty(most), np.empty(most)
    at = since
    for j in range(most):
        moment[j], y[j], cost[j] = at, now[0], now[4]
        slope[j] = now[3] / levels[k] if levels[k] > _QUIET_LEVEL else math.inf
        dt = edges[k + 1] - phase
        _pass(kind, shape, time, levels[k], dt, now)
        at += dt
        k = k + 1 if k + 2 < edges.size else 0
        phase = edges[k]
    for j in range(1, most):
        if moment[j] - since > horizon:
            break
        reach = max(moment[j] - last, ahead) if shape < math.inf else math.inf
        least, end = slope[j], moment[j] + min(reach, period)
        for u in range(j + 1, most):
            if (moment[u] > end and least < math.inf) or not least * y[j] - cost[j] >= price:
                break
            if y[u] - y[j] > 1e-12 * y[j]:
                least = min(least, (cost[u] - cost[j]) / (y[u] - y[j]))
        if not least * y[j] - cost[j] >= price:
            continue
        if not worth_at(kind, edges, levels, shape, time, last, moment[j], ahead) >= price:
            continue
        low, high = moment[j - 1], moment[j]
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            if worth_at(kind, edges, levels, shape, time, last, middle, ahead) >= price:
                high = middle
            else:
                low = middle
        return high
    return math.inf


@njit(cache=True, nogil=True, error_model="numpy")
def costs_between(kind, edges, levels, shape, time, last, at, found):
    """Write the cost between moments of polls and those of the polls after them."""
    now = np.empty(5)
    for i in range(last.size):
        _pass_to(kind, edges, levels, shape, time, last[i], at[i], now)
        found[i] = now[4]


@njit(cache=True, nogil=True, error_model="numpy")
def next_moment_within(kind, edges, levels, shape, time, last, price, horizon):
    """Return the first moment after a poll at which the next is worth a price; looks near first."""
    period = edges[edges.size - 1]
    reach = 2.0 * period
    while True:
        found = next_moment(kind, edges, levels, shape, time, last, last, price, min(reach, horizon), 0.0)
        if found < math.inf or reach >= horizon:
            return found
        reach *= 8.0


@njit(cache=True, nogil=True, error_model="numpy")
def run_long(kind, edges, levels, shape, time, price, settling, counted, most):
    """Return polls per unit time, and the share of time stale, of an element polled at a constant price.

    ``settling`` and ``counted`` are periods that pass before, and for which, polls are counted; there are
    ``most`` polls at most.
    """
    period = edges[edges.size - 1]
    now = np.empty(5)
    last, polls, first, stale, count = 0.0, 0, 0.0, 0.0, 0
    while polls < most and last < (settling + counted) * period:
        following = next_moment_within(kind, edges, levels, shape, time, last, price, 100.0 * period)
        if not following < math.inf:
            break
        following = max(following, last + 1e-12 * (period + last))
        if last >= settling * period or 2 * polls >= most:
            first = last if count == 0 else first
            _pass_to(FRESHNESS, edges, levels, shape, time, last, following, now)
            stale += now[4]
            count += 1
        last = following
        polls += 1
    if count == 0:
        return 0.0, 1.0
    return count / (last - first), stale / (last - first)
