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
from ..processes import Poisson
from . import passes
from .elements import BLOCK, Elements, Goal
from .limits import Groups, limited
from .lookup import lookup
from .market import Market
from .plain import Columns, Solution, sampled_price

__all__ = ["solved_groups"]

_CLOSE = 1e-5


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
    totals, slopes, prices = np.zeros(count), np.zeros(count), np.empty(count)
    market = (starts, masses, units, limits)
    price = passes.price_of_all(*market, budget, guess, _CLOSE, table, totals, slopes)
    if price == np.inf:
        return None
    bound = totals > limits
    passes.group_prices(*market, price, _CLOSE, table, totals, slopes, prices)
    with np.errstate(divide="ignore", invalid="ignore"):
        lost = bound & ~(np.abs(totals / limits - 1.0) <= _CLOSE)
    f = np.empty(n)
    totals[:] = 0.0
    paid = residual = 0.0
    for part, mass, weight, rate in columns.blocks():
        # masses times the prices of their groups, at a price of 1: the pass then adds up what is paid
        codes = groups.codes[part]
        more, off = passes.allocate(mass * prices[codes], weight, rate, 1.0, table, f[part])
        paid, residual = paid + more, residual + off
        totals += np.bincount(codes, f[part] if columns.size is None else f[part] * columns.size[part], count)
    totals[lost] = limits[lost]
    scales = _scales(totals, limits, bound, budget)
    for part in (slice(start, start + BLOCK) for start in range(0, n, BLOCK)):
        f[part] *= scales[groups.codes[part]]
    if np.abs(scales - 1.0).max() > 1e-3:
        return None
    missed = 2.02 * residual + 4.0 * float(np.sum((scales - 1.0) ** 2 * prices * totals))
    if lost.any():
        missed += _jumping(columns, goal, groups, lost, price=price, f=f)
    return Solution(f, price, budget, missed, None)


def _jumping(
    columns: Columns, goal: Goal, groups: Groups, lost: NDArray[np.bool_], *, price: float, f: Floats
) -> float:
    """Give groups whose demand jumps over their limit a mix of two prices; return what that misses."""
    index = np.flatnonzero(lost[groups.codes])
    some = columns.take(index)
    ones = np.asarray(1.0)
    elements = Elements(
        n=index.size,
        law=Poisson(some.rate),
        weight=ones if some.weight is None else some.weight,
        size=ones if some.size is None else some.size,
        change_size=np.asarray(0.0),
        low=np.asarray(0.0),
        high=np.asarray(np.inf),
        count=ones,
    )
    names = np.flatnonzero(lost)
    inside = Groups(np.searchsorted(names, groups.codes[index]), range(names.size), groups.limits[names])
    capped, prices = limited(Market((elements,), goal), inside, price)
    f[index] = capped.column("high")
    over, short, paid = elements.slack(goal, f[index], prices[inside.codes])
    return short + over * paid


def _scales(totals: Floats, limits: Floats, bound: NDArray[np.bool_], budget: float) -> Floats:
    """What to scale the frequencies of each group by, so that limits and budget are met."""
    while True:
        free = (budget - limits[bound].sum()) / totals[~bound].sum()
        crossed = ~bound & (totals * free > limits)
        if not crossed.any():
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.where(totals > 0, np.where(bound, limits / totals, free), 1.0)
        bound = bound | crossed
