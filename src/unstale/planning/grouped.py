"""Many small groups with limits, of elements with known rates and no options: sorted by group, once.

1. Samples of groups suggest the price of all.
2. There, each group that would spend more than its limit finds its own price to six digits, sixteen groups at
   once (see `compiled.lanes`). What the others spend, with two derivatives, leads to the price of all.
3. A pass asks all groups at that price or their own, finely. Those that miss their limits go on searching,
   most of them because an element is about to be cut off (see `compiled.grouped`).
4. Groups are scaled to meet their limits and the budget to the last digit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arguments import Floats
from .demand import Codes, Demand, KnownRates
from .lookup import Lookup

LARGE_GROUP = 1000
"""Elements per group from which on groups are not small."""
_STRIDES, _SAMPLE_DISTANCE = (64, 8), 0.02
"""Which parts of the groups are samples; relative distance from the budget from which the last step of a
search is made on these."""
_SMALLEST_SAMPLE = 1 << 13
"""Elements of a sample, at least."""
_GUESSED_FROM = 1 << 12
"""Elements whose units give the first guess."""
_CUTOFF_BLUR = 0.01
"""Logarithms of a price, to both sides, over which the slope of elements near their cutoff is averaged."""
_LONGEST_STEP, _SMALL_STEP = 0.1, 0.01
"""Largest step of the logarithm of the price of all between two passes, and one after which guesses hold."""
_JUMP_SCALING = 1e-5
"""Largest relative correction by scaling where demand jumps at the price of all."""
_MOST_PASSES, _MOST_STEPS = 6, 60
"""Passes over all groups; steps between two of them."""


class SettledGroups(NamedTuple):
    """What elements spend at the price of all or of their group, in the order of groups."""

    price: float
    power: float
    """Relative change of what groups spend that are not held, over that of the price."""
    paid: Floats
    sums: Floats
    """What groups spend, and what that misses of the best at their prices."""
    prices: Floats


@dataclass(frozen=True, eq=False)
class SortedGroups:
    """Elements in the order of their groups."""

    limits: Floats
    """What groups may spend, by how many elements they have."""
    codes: Codes
    size: float
    table: Lookup
    order: NDArray[np.int64]
    """Which of the groups that were given is which of these."""
    starts: NDArray[np.int64]
    place: NDArray[np.uint32]
    units: Floats
    masses: Floats

    @classmethod
    def of(cls, demand: Demand, codes: Codes, limits: Floats) -> SortedGroups | None:
        """Sort elements by group; None if they have options, or large groups."""
        if not isinstance(demand, KnownRates) or not demand.optionless:
            return None
        if not limits.size * LARGE_GROUP > demand.n or demand.n >= 1 << 31:
            return None
        rate, weight, size, *_ = demand.columns
        starts, order = np.empty(limits.size + 1, np.int64), np.empty(limits.size, np.int64)
        place, units, masses = np.empty(demand.n, np.uint32), np.empty(demand.n), np.empty(demand.n)
        _loops().sort_by_group((rate, weight), size[0], codes, starts, order, place, units, masses)
        return cls(limits[order], codes, float(size[0]), demand.table, order, starts, place, units, masses)

    def settled(self, budget: float, close: float) -> SettledGroups | None:
        """Spend a budget and meet limits to a relative ``close``; None if the search ends nowhere."""
        some = self.units[:: max(1, self.units.size // _GUESSED_FROM)]
        some = some[(some > 0.0) & (some < np.inf)]
        price = float(np.exp(-np.log(some).mean())) if some.size else np.nan
        limits = np.minimum(self.limits, 2.0 * budget)  # so that none is infinite
        columns = self.starts, self.units, self.masses, limits
        for stride in self._strides:
            found = _loops().common_price(*columns, budget, price, _SAMPLE_DISTANCE, stride, self.table)
            price = found if 0.0 < found < np.inf else price
        guesses, odd = np.zeros(limits.size), np.empty((2, self.units.size))
        for _ in range(_MOST_PASSES):
            allowed, spent, slope, bow, count = _lanes().guess_prices(
                *columns, price, self.table, guesses, odd
            )
            near, far = self._near_cutoff(odd[:, :count]), _CUTOFF_BLUR
            freed = limits[(guesses > price) & (guesses < price * (1.0 + far))].sum()
            bow += freed / far * slope / spent  # groups that a price as much higher holds no more
            steep = slope + (near(price * np.exp(far)) - near(price * np.exp(-far))) / (2.0 * far)
            last, more = price, budget - allowed - spent
            price = _stepped(price, more, close * spent, slope, bow, steep, near)
            if abs(price - last) <= _SMALL_STEP * last:
                break
        paid, sums, prices = np.empty(self.units.size), np.zeros((limits.size, 2)), np.zeros(limits.size)
        for _ in range(_MOST_PASSES):
            good, allowed, spent = _loops().settle_groups(
                *columns, price, close, self.table, guesses, paid, sums, prices
            )
            if not (good and 0.0 < spent < np.inf and budget > allowed and steep < 0.0):
                return None
            more, settled = budget - allowed - spent, SettledGroups(price, steep / spent, paid, sums, prices)
            if abs(more) <= close * spent:
                return settled
            new = _stepped(price, more, close * spent, slope, bow, steep, near)
            if abs(more) <= _JUMP_SCALING * spent and abs(new - price) <= 1e-12 * price:
                return settled  # demand jumps a little here
            price = new
        return None

    def _near_cutoff(self, elements: Floats) -> Callable[[float], float]:
        """What some elements, given by units and masses, spend at a price."""

        def spent(price: float) -> float:
            return float(_loops().ask_few(*elements, price, self.table))

        return spent

    @property
    def _strides(self) -> list[int]:
        """Which parts of the groups are samples: none, if these would be small."""
        return [stride for stride in _STRIDES if self.units.size >= stride * _SMALLEST_SAMPLE] or [1]

    def frequencies(self, paid: Floats, factors: Floats) -> Floats:
        """Frequencies in the order of the market, scaled by the factors of groups."""
        f, given = np.empty(self.units.size), np.empty(factors.size)
        given[self.order] = factors
        _loops().spread(self.size, self.codes, self.place, paid, given, f)
        return f

    def factors(
        self, settled: SettledGroups, budget: float
    ) -> tuple[Floats, float, float, float, float, float]:
        """By which factors groups are to be scaled, and the sums of `compiled.grouped.meet_limits`."""
        factors = np.empty(self.limits.size)
        price, _, _, sums, prices = settled
        return factors, *_loops().meet_limits(self.limits, budget, price, prices, sums, factors)


def _stepped(
    price: float,
    more: float,
    close: float,
    slope: float,
    bow: float,
    steep: float,
    near: Callable[[float], float],
) -> float:
    """The price at which so much more is spent, to a tenth of ``close``.

    No slope knows elements near their cutoff, which are asked anew. ``slope`` and ``bow`` are the derivatives
    of what the others spend, by the logarithm of the price; ``steep`` is roughly the slope of all.
    """
    step, low, high, before = 0.0, -_LONGEST_STEP, _LONGEST_STEP, near(price)
    for _ in range(_MOST_STEPS):
        foreseen = slope * step + 0.5 * bow * step**2 + near(price * float(np.exp(step))) - before
        if abs(more - foreseen) <= 0.1 * close:
            break
        low, high = (low, step) if more > foreseen else (step, high)
        step += (more - foreseen) / steep
        step = step if low < step < high else 0.5 * (low + high)
    return price * float(np.exp(step))


def _loops() -> ModuleType:
    """Return the compiled loops, which fit polynomials when they are loaded; few problems need them."""
    from .compiled import grouped

    return grouped


def _lanes() -> ModuleType:
    """Return those that guess, likewise."""
    from .compiled import lanes

    return lanes
