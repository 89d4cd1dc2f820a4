"""When to poll an element that keeps a rhythm.

Let changes be Poisson with a rate that repeats, and polls come at the same moments t_j of each period. The
mean number of missed changes, of which one counts from when it happens to the next poll, is least where

    rate(t_j) (t_{j+1} - t_j) = integral of the rate from t_{j-1} to t_j:

a little later, and what is caught at t_j grows by as much as what waits for t_{j+1} shrinks. Where the rate
falls at once (at the end of a bin) the two sides may cross there instead. Of staleness the same holds as long
as a second change between two polls is rare.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from unstale.arguments import Floats, scalar, whole
from unstale.errors import InvalidInput
from unstale.estimation.poll_columns import column

_GRID_POINTS = 480
_MOST_POLLS_PER_PERIOD = 10_000
_MOST_POLLS_ON_GRID = 60  # polls per period for which the grid is fine enough


def best_moments(rates: ArrayLike, polls: int, *, period: float = 1.0) -> Floats:
    """Return the moments in a period at which to poll, so that as few changes as possible are missed.

    ``rates`` are those of equal bins of the period, as of a `Rhythm`; only their ratios matter. Up to 60
    polls the best on a grid is found by dynamic programming, and then moved to the exact moments nearby. Of
    more, the start is their limit: polls as dense as the square root of the rate.

    >>> best_moments([1.0, 1.0, 4.0, 1.0], 1).tolist()
    [0.75]
    >>> moments = best_moments([1.0, 2.0], 2)
    >>> moments.round(3).tolist()
    [0.0, 0.625]
    """
    values = column("rates", rates, at_least=0, nonempty=True)
    count, period = whole("polls", polls, at_least=1), scalar("period", period, above=0)
    if count > _MOST_POLLS_PER_PERIOD:
        raise InvalidInput(f"polls must be at most {_MOST_POLLS_PER_PERIOD} in a period; polls is {count}")
    if not values.max() > 0:
        raise InvalidInput("rates must not all be 0; at least one must be above")
    clock = _Clock(values / values.max())
    starts = [_dense(clock, count), *([_searched(clock, count)] if count <= _MOST_POLLS_ON_GRID else [])]
    ways = [np.sort(_moved(clock, times, count) % 1.0) for times in starts]
    return period * min(
        ways, key=lambda times: clock.missed(times, np.append(times[1:], times[0] + 1.0)).sum()
    )


class _Clock:
    """A rate that repeats with period 1, and its integrals."""

    def __init__(self, rates: Floats) -> None:
        self.rates, self.bins = rates, rates.size
        width = 1.0 / rates.size
        self._one = np.concatenate([[0.0], np.cumsum(rates) * width])
        steps = self._one[:-1] * width + 0.5 * rates * width**2
        self._two = np.concatenate([[0.0], np.cumsum(steps)])

    def _split(self, t: Floats) -> tuple[Floats, Floats, Floats]:
        """Return whole periods, the bin, and the time in it; a moment between two bins is in the later."""
        turns = np.floor(t)
        place = np.clip(np.floor((t - turns) * self.bins).astype(int), 0, self.bins - 1)
        return turns, place, t - turns - place / self.bins

    def rate(self, t: Floats, side: int) -> Floats:
        """Rate just before (-1) or just after (1) a moment."""
        near = t * self.bins
        edge = np.abs(near - np.round(near)) < 1e-9
        place = np.where(edge, np.round(near) - (side < 0), np.floor(near)).astype(int)
        return self.rates[place % self.bins]

    def changes(self, t: Floats) -> Floats:
        """Integral of the rate from 0."""
        turns, place, rest = self._split(t)
        return turns * self._one[-1] + self._one[place] + self.rates[place] * rest

    def waiting(self, t: Floats) -> Floats:
        """Integral of `changes` from 0."""
        turns, place, rest = self._split(t)
        inside = self._two[place] + self._one[place] * rest + 0.5 * self.rates[place] * rest**2
        whole_turns = turns * self._two[-1] + 0.5 * self._one[-1] * turns * (turns - 1.0)
        return whole_turns + turns * self._one[-1] * (t - turns) + inside

    def missed(self, a: Floats, b: Floats) -> Floats:
        """Changes after a poll at ``a``, each times how long it waits for the one at ``b``."""
        return self.waiting(b) - self.waiting(a) - self.changes(a) * (b - a)


def _searched(clock: _Clock, count: int) -> Floats:
    """Return the best moments on a grid: the best round trip from one, then from one of those on it."""
    if count == 1:  # best at the end of a bin: the cost is linear in between
        ends = np.arange(clock.bins) / clock.bins
        return ends[[int(np.argmin(clock.missed(ends, ends + 1.0)))]]
    fine = -(-max(_GRID_POINTS, 10 * count) // clock.bins)
    size = clock.bins * fine
    best, times, start = np.inf, np.empty(0), 0
    for _ in range(10):
        grid = (start + np.arange(size + 1)) / size
        cost, path = _round_trip(clock.missed(grid[:, None], grid[None, :]), count)
        if cost >= best * (1.0 - 1e-12):
            break
        best, times = cost, grid[path]
        start = (start + int(path[count // 2])) % size
    return times


def _round_trip(costs: Floats, count: int) -> tuple[float, list[int]]:
    """Return the cost of the cheapest way from the first point to the last in so many steps, and the way."""
    size = costs.shape[0]
    costs = np.where(np.arange(size)[:, None] < np.arange(size)[None, :], costs, np.inf)
    total, came = costs[0], []
    for _ in range(count - 1):
        ways = total[:, None] + costs
        came.append(ways.argmin(axis=0))
        total = ways.min(axis=0)
    path = [size - 1]
    for step in reversed(came):
        path.append(int(step[path[-1]]))
    return float(total[-1]), [0, *reversed(path[1:])]


def _dense(clock: _Clock, count: int) -> Floats:
    roots = np.concatenate([[0.0], np.cumsum(np.sqrt(clock.rates))])
    return np.interp(
        (np.arange(count) + 0.5) / count, roots / roots[-1], np.arange(clock.bins + 1) / clock.bins
    )


def _moved(clock: _Clock, times: Floats, count: int) -> Floats:
    """Move each moment to the best place between its neighbours, in turns, until none moves."""
    if count == 1:
        return times  # its neighbours move with it, and the best is at the end of a bin
    turns = [np.arange(0, count - count % 2, 2), np.arange(1, count, 2)]
    if count % 2:
        turns.append(np.array([count - 1]))
    times = times.copy()
    for _ in range(4000):
        before = times.copy()
        for which in turns:
            last = np.where(which > 0, times[which - 1], times[which - 1] - 1.0)
            following = np.where(which < count - 1, times[(which + 1) % count], times[0] + 1.0)
            times[which] = _between(clock, times[which], last, following)
        if np.abs(times - before).max() < 1e-13:
            break
    return times


def _between(clock: _Clock, t: Floats, last: Floats, following: Floats) -> Floats:
    """Return the best moment within the bins beside ``t``, between those of the polls before and after."""

    def excess(at: Floats, side: int) -> Floats:
        return clock.changes(at) - clock.changes(last) - clock.rate(at, side) * (following - at)

    back, ahead = excess(t, -1) > 0, excess(t, 1) < 0
    near = t * clock.bins
    edge = np.abs(near - np.round(near)) < 1e-9
    low = np.where(
        back, np.maximum((np.where(edge, np.round(near), np.ceil(near)) - 1.0) / clock.bins, last), t
    )
    step = np.where(edge, np.round(near), np.floor(near)) + 1.0
    high = np.where(ahead & ~back, np.minimum(step / clock.bins, following), t)
    inside = clock.rate(0.5 * (low + high), 1)
    # in one bin the excess is linear: where is it 0?
    twice = inside * (following + low) - clock.changes(low) + clock.changes(last)
    with np.errstate(over="ignore"):  # beyond all numbers is beyond the end of the bin
        root = np.where(inside > 0, 0.5 * twice / np.where(inside > 0, inside, 1.0), low)
    return np.where(back | ahead, np.clip(root, low, high), t)
