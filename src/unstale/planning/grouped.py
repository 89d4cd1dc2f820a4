"""Many groups with limits, in a few passes over the elements.

The price of all is the one at which groups, each up to its limit, spend the budget; a group that would spend
more has a higher price of its own, at which it meets its limit. With the elements in order of their groups,
each search runs in the cache. It brings a group within a relative 1e-5 of what it may spend, and scaling its
frequencies does the rest. Where that fails, `limits` has a slower and surer way.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..arguments import Floats
from . import passes
from .elements import BLOCK, Goal
from .limits import Groups
from .lookup import Lookup, lookup
from .market import mixed
from .plain import Columns, Solution, sampled_price

__all__ = ["solved_groups"]

_CLOSE = 1e-5
"""Relative distance from its limit at which the search for the price of a group ends."""
_SCALED = 1e-4
"""Largest correction by scaling. Elements that the table does not know are taken to ask for nothing during
the search; if that mattered, the correction would be larger."""
_MISSED = 5e-10
"""Largest bound on what the plan misses, relative to what is paid."""
_SAMPLE = 2000
"""Groups that the first guess is made from."""


def solved_groups(columns: Columns, goal: Goal, budget: float, groups: Groups) -> Solution | None:
    """Spend a budget within the limits of the groups; None where this way does not lead to a proven plan."""
    limits = groups.limits
    if goal.objective.kernel is None or not 0.0 < budget < limits.sum() or not (limits > 0).all():
        return None
    guess = sampled_price(columns, goal, budget)
    if guess is None or not columns.positive():
        return None
    kernel = goal.objective.kernel
    table = lookup(kernel, goal.code)
    n, count = columns.rate.size, limits.size
    starts = np.concatenate([[0], np.cumsum(np.bincount(groups.codes, minlength=count))])
    places, masses, units = starts.copy(), np.empty(n), np.empty(n)
    for part, mass, weight, rate in columns.blocks():
        passes.sort_groups(groups.codes[part], mass, weight, rate, kernel, places, masses, units)
    totals, slopes = np.zeros(count), np.zeros(count)
    market = (starts, masses, units, limits)
    guess = _of_some_groups(*market, budget, guess, table)
    price = passes.price_of_all(*market, budget, guess, _CLOSE, table, totals, slopes)
    if price == np.inf:
        return None
    bound = totals > limits
    if not totals[~bound].any():  # limits alone spend the budget, so there is no price of all
        return None
    power = float(slopes[~bound].sum() / totals[~bound].sum())  # of the price that spending falls with
    prices, unders, mixes = np.empty(count), np.empty(count), np.empty(count)
    passes.group_prices(*market, price, _CLOSE, table, totals, slopes, prices, unders, mixes)
    f = np.empty(n)
    totals[:] = 0.0
    paid = residual = 0.0
    for part, mass, weight, rate in columns.blocks():
        # masses times the prices of their groups, at a price of 1: the pass then adds up what is paid
        codes = groups.codes[part]
        more, off = passes.allocate(mass * prices[codes], weight, rate, 1.0, table, f[part])
        paid, residual = paid + more, residual + off
        split = np.flatnonzero(mixes[codes])
        if split.size:
            chosen, other = codes[split], np.empty(split.size)
            at = mass[split] * unders[chosen]
            more, off = passes.allocate(at, weight[split], rate[split], 1.0, table, other)
            paid, residual = paid + more, residual + off + 1e-10 * more
            f[part][split] = mixed(other, f[part][split], mixes[chosen])
        totals += np.bincount(codes, f[part] if columns.size is None else f[part] * columns.size[part], count)
    with np.errstate(divide="ignore", invalid="ignore"):
        scales = _scales(totals, limits, bound, budget)
    # as in `plain`, for each group
    missed = 2.02 * residual + 4.0 * float(np.sum((scales - 1.0) ** 2 * prices * totals))
    if not (np.abs(scales - 1.0).max() <= _SCALED and missed <= _MISSED * paid):
        return None
    for part in (slice(start, start + BLOCK) for start in range(0, n, BLOCK)):
        f[part] *= scales[groups.codes[part]]
    free = (budget - limits[bound].sum()) / totals[~bound].sum()
    return Solution(f, float(price * free ** (1.0 / min(power, -1e-3))), budget, missed, None)


def _of_some_groups(
    starts: NDArray[np.int64],
    masses: Floats,
    units: Floats,
    limits: Floats,
    budget: float,
    guess: float,
    table: Lookup,
) -> float:
    """The price of all, as the first groups suggest it."""
    count = min(limits.size, _SAMPLE)
    stop = starts[count]
    if not 0 < stop < masses.size:
        return guess
    some = (starts[: count + 1], masses[:stop], units[:stop], limits[:count])
    share = budget * float(stop) / masses.size
    price = passes.price_of_all(*some, share, guess, 0.01, table, np.zeros(count), np.zeros(count))
    return price if price < np.inf else guess


def _scales(totals: Floats, limits: Floats, bound: NDArray[np.bool_], budget: float) -> Floats:
    """What to scale the frequencies of each group by, so that limits and budget are met."""
    while True:
        free = (budget - limits[bound].sum()) / totals[~bound].sum()
        crossed = ~bound & (totals * free > limits)
        if not crossed.any():
            return np.where(totals > 0, np.where(bound, limits / totals, free), 1.0)
        bound = bound | crossed
