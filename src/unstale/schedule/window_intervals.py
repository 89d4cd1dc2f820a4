"""What windows make of the distances between polls: intervals, and what accrues in them.

An element polled at ``v`` and at ``v + V``, in worked time, is polled at an interval ``D = when(v + V) -
when(v)``. With v anywhere in a period of the windows,

    P(D > x) = E[P(V > worked(when(v) + x) - v)],

which is a sum over pieces of v on which what V has to exceed is constant or linear.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import pairwise

import numpy as np
from scipy.linalg import eigh_tridiagonal

from unstale import kernels
from unstale.arguments import Floats
from unstale.errors import NoAnswer

from .window_clocks import CycleClock

Gaps = tuple[tuple[float, float, int], ...]
"""P(V > u) = sum of a (c - u)_+^k over all (a, c, k), V in mean distances; nothing stands for exp(-u)."""

_SCALES = np.array([0.1, 0.3, 1.0, 3.0, 10.0, 25.0])
_NEAR_PERIODS = 4.0
"""Periods after a poll in which the phase matters most."""

_NUMBERS_PER_CHUNK = 1 << 17
"""Numbers that are worked on at once: they stay in the cache."""


def gaps_of(order: int, jitter: float) -> Gaps:
    """Return the law of the distances between points: random order, purely random order, or jitter > 0.

    >>> gaps_of(kernels.FIXED, 0.5)
    ((1.0, 1.5, 1), (-1.0, 0.5, 1))
    """
    if order == kernels.PURELY_RANDOM:
        return ()
    if order == kernels.RANDOM:
        return (0.5, 2.0, 2), (-1.0, 1.0, 2)
    return (0.5 / jitter, 1.0 + jitter, 1), (-0.5 / jitter, 1.0 - jitter, 1)


def cost_of_intervals(
    cycle: CycleClock,
    gaps: Gaps,
    frequency: float,
    cost: Callable[[Floats], Floats],
    *,
    kinks: Floats,
    scales: Floats,
) -> float:
    """Return f * integral of cost(x) P(D > x) dx, which is f E[accrued(D)].

    ``kinks`` are the x at which the cost bends or jumps, ``scales`` those between which it is smooth. The
    integral is split by how many periods of the windows lie between a poll and x later. If they are few, or
    if something bends there, it runs over x between all bends. Over the others, where all is smooth, it runs
    over v and over the moment x later, and a rule for sums takes the place of most of the periods.

    >>> from unstale.schedule.windows import Windows
    >>> clock, none = Windows.every(1.0, 0.0, 0.5).clock(), np.empty(0)
    >>> round(cost_of_intervals(clock, (), 0.01, np.ones_like, kinks=none, scales=none), 12)
    1.0
    """
    period = cycle.period
    turns = [end / frequency for _, end, _ in gaps]
    farthest = max(turns, default=45.0 / frequency)  # exp(-45) is beyond the last digit
    count = np.floor(farthest / period) + 2.0
    bent = np.floor(np.append(kinks, turns) / period)
    single = np.unique(np.concatenate([np.arange(_NEAR_PERIODS), bent, bent + 1.0]))
    single = single[(single >= 0.0) & (single < count)]
    smooth = np.concatenate([scales, _SCALES / frequency])
    near = _near(cycle, gaps, frequency, single, np.append(kinks, smooth))

    def found(nodes: int, halvings: int) -> float:
        total = near(cost, nodes, halvings)
        cuts = np.floor(smooth / period)
        numbers, counts = _runs(single, cuts[cuts < count], int(count), nodes, halvings)
        if numbers.size:
            total += _far(cycle, gaps, frequency, cost, (numbers, counts), ((nodes + 1) // 2, halvings))
        return total

    for halvings in range(5):
        rough, fine = (found(nodes, halvings) for nodes in (4, 8))
        if abs(rough - fine) <= 1e-6 * abs(fine):  # the error of the fine one is about the square of that
            return frequency * fine
    raise NoAnswer(
        f"the cost of polls inside windows did not converge at frequency {frequency:g}: {fine:g}, {rough:g}"
    )


def _near(
    cycle: CycleClock, gaps: Gaps, frequency: float, single: Floats, bends: Floats
) -> Callable[[Callable[[Floats], Floats], int, int], float]:
    """Return the integral over x, as far as x later is in one of some periods, by its rule."""
    period = cycle.period
    moments = np.unique(cycle.edges[1])
    phases = np.unique(np.append((moments[:, None] - moments) % period, [0.0, period]))
    inside = np.unique(np.append(single, np.maximum(single - 1.0, 0.0)))
    decades = period * np.logspace(-10.0, -1.0, 10)  # a cost may begin as steeply as a logarithm
    bends = np.concatenate([bends, decades, *_turns(cycle, gaps, frequency)])
    bends = bends[np.isin(np.floor(bends / period), inside)]
    ends = np.unique(np.append(inside[:, None] * period + phases, bends))

    def integral(cost: Callable[[Floats], Floats], nodes: int, halvings: int) -> float:
        x, weight = _points(ends, nodes, halvings)
        held = np.isin(np.floor(x / period), inside)
        x, weight = x[held], weight[held]
        total = 0.0
        room = max(1, _NUMBERS_PER_CHUNK // (2 * cycle.edges[0].size))
        for first in range(0, x.size, room):
            some = slice(first, first + room)
            share, low, high, number = _reach(cycle, x[some])
            share = np.where(np.isin(number, single), share, 0.0)
            exceeded = np.sum(share * _surviving(gaps, frequency * low, frequency * high), axis=0)
            total += float(np.sum(weight[some] * exceeded * cost(x[some])))
        return total

    return integral


def _far(
    cycle: CycleClock,
    gaps: Gaps,
    frequency: float,
    cost: Callable[[Floats], Floats],
    periods: tuple[Floats, Floats],
    rule: tuple[int, int],
) -> float:
    """Return the integral over v in the first period and moments in later ones, given with their weights."""
    period, (worked, moments) = cycle.period, cycle.edges
    v, v_weight = _points(np.unique(np.append(worked, worked[0] + period)), *rule)
    t, t_weight = _points(np.unique(np.append(moments, moments[0] + period)), *rule)
    ahead = (cycle.worked(t) - v[:, None]).ravel()
    after = (t - cycle.when(v)[:, None]).ravel()
    weight = (t_weight * v_weight[:, None]).ravel() / period
    total, room = 0.0, max(1, _NUMBERS_PER_CHUNK // weight.size)
    for first in range(0, periods[0].size, room):
        later = periods[0][first : first + room, None] * period
        u = frequency * (ahead + later)
        each = (cost(after + later) * _surviving(gaps, u, u)) @ weight
        total += float(periods[1][first : first + room] @ each)
    return total


def _turns(cycle: CycleClock, gaps: Gaps, frequency: float) -> Iterator[Floats]:
    """Intervals at which P(D > x) bends, or bends sharply, within its pieces."""
    worked, moments = cycle.edges
    for _, end, _ in gaps:
        yield cycle.when(worked + end / frequency) - moments
        yield moments - cycle.when(worked - end / frequency)
    if not gaps and frequency * cycle.period > 1.0 and cycle.pace > 0.0:
        opens, _, closes = moments.reshape(3, -1)  # from the end of a window, polls are many at an opening
        first = np.append((opens[:, None] - closes) % cycle.period, 0.0)
        yield np.ravel(np.unique(first)[:, None] + _SCALES / (frequency * cycle.pace))


def _surviving(gaps: Gaps, low: Floats, high: Floats) -> Floats:
    """Mean of P(V > u) over u from low to high."""
    width = high - low
    spread = width > 0.0
    unit = np.where(spread, width, 1.0)
    if not gaps:
        return np.exp(-low) * np.where(spread, kernels.p1(width) / unit, 1.0)
    total = np.zeros(low.shape)
    for factor, end, power in gaps:
        a, b = np.maximum(end - low, 0.0), np.maximum(end - high, 0.0)
        part = np.where(spread, (a - b) / unit, a > 0.0)  # a^k - b^k over a - b, times that over the width
        total += factor * part * (0.5 * (a + b) if power == 1 else (a * a + a * b + b * b) / 3.0)
    return total


def _reach(cycle: CycleClock, x: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Split a period of v by what x later is.

    Returns the shares of the pieces, from where to where the time worked from v to x later ranges in each,
    and how many periods later that is.
    """
    period, (worked, moments) = cycle.period, cycle.edges
    base = worked[0]
    edges = np.unique(np.append(worked, base + period))
    met = base + (cycle.worked(np.unique(moments)[:, None] - x) - base) % period
    breaks = np.sort(np.concatenate([np.broadcast_to(edges[:, None], (edges.size, x.size)), met]), axis=0)
    length, middle = np.diff(breaks, axis=0), 0.5 * (breaks[1:] + breaks[:-1])
    then = cycle.when(middle) + x
    ahead = np.maximum(cycle.worked(then) - middle, 0.0)
    # inside windows, the time worked x later keeps pace with v
    half = np.where(cycle.is_open(then) & ~cycle.at_once(middle), 0.0, 0.5 * length)
    return (
        length / period,
        np.maximum(ahead - half, 0.0),
        ahead + half,
        np.floor((then - moments[0]) / period),
    )


def _points(ends: Floats, nodes: int, halvings: int) -> tuple[Floats, Floats]:
    """Points and weights of a Gauss rule on each piece between the ends, cut in halves some times."""
    parts = 1 << halvings
    width = np.diff(ends)[:, None, None] / parts
    points, weights = np.polynomial.legendre.leggauss(nodes)
    x = ends[:-1, None, None] + width * (np.arange(parts)[:, None] + 0.5 + 0.5 * points)
    return x.ravel(), (0.5 * width * np.broadcast_to(weights, (parts, nodes))).ravel()


def _runs(single: Floats, cuts: Floats, count: int, nodes: int, halvings: int) -> tuple[Floats, Floats]:
    """Numbers and weights that stand for all periods below a count but for single ones, cut at some."""
    found = [(np.empty(0), np.empty(0))]
    starts = np.unique(np.concatenate([single, single + 1.0, cuts, [count]])).astype(int).tolist()
    alone = set(single.astype(int).tolist())
    for n, after in pairwise(starts):
        while n not in alone and n < after:
            size = 1 << (min(after - n, max(1, n >> halvings)).bit_length() - 1)
            numbers, weights = _sum_rule(size, nodes) if size > nodes else (np.arange(size), np.ones(size))
            found.append((n + numbers, weights))
            n += size  # noqa: PLW2901
    numbers, weights = (np.concatenate(column) for column in zip(*found, strict=True))
    return numbers, weights


@lru_cache(maxsize=256)
def _sum_rule(count: int, nodes: int) -> tuple[Floats, Floats]:
    """Numbers and weights that give sums over 0, ..., count - 1 of polynomials of degree < 2 nodes.

    The Gauss rule of the discrete Chebyshev polynomials, from their recurrence.

    >>> numbers, weights = _sum_rule(1000, 4)
    >>> round(float(weights @ numbers**7) / sum(n**7 for n in range(1000)), 12)
    1.0
    """
    k = np.arange(1.0, nodes)
    beside = 0.5 * k * np.sqrt((count - k) * (count + k) / (4.0 * k * k - 1.0))
    numbers, vectors = eigh_tridiagonal(np.full(nodes, 0.5 * (count - 1.0)), beside)
    return np.asarray(numbers, np.float64), count * vectors[0] ** 2
