"""Many small groups with limits, of elements with known rates and no options: sorted by group, once.

1. Samples of groups suggest the price of all.
2. There, each group that would spend more than its limit finds its own price while its elements are in the
   cache (see `compiled.grouped`). The slope of what the others spend, and a sample that says how that slope
   changes, lead to the price of all.
3. A second pass asks the others, and those whose own price turns out to be below that of all.
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
_LONGEST_STEP, _SMALL_STEP = 0.1, 1e-4
"""Largest step of the logarithm of the price of all between two passes, and one that changes no slope."""
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
    """As `compiled.demand` adds them up."""
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
        columns = self.starts, self.units, self.masses, self.limits
        for stride in self._strides:
            found = _loops().common_price(*columns, budget, price, _SAMPLE_DISTANCE, stride, self.table)
            price = found if 0.0 < found < np.inf else price
        paid, sums = np.empty(self.units.size), np.zeros((self.limits.size, 4))
        prices, odd, last = np.zeros(self.limits.size), np.empty((2, self.units.size)), False
        for _ in range(_MOST_PASSES):
            if not 0.0 < price < np.inf:
                return None
            good, allowed, spent, slope, near, count = _loops().settle_groups(
                *columns, price, close, self.table, last, paid, sums, prices, odd
            )
            room = budget - allowed
            if not (good and 0.0 < spent < np.inf and room > 0.0):
                return None
            few, far = self._few(price, odd[:, :count]), _CUTOFF_BLUR
            steep = slope + (few(far) - few(-far)) / (2.0 * far)
            miss = abs(spent - room)
            if last and miss <= close * spent:
                return SettledGroups(price, steep / spent, paid, sums, prices)
            new = self._stepped(price, (room - spent + near, 0.1 * close * spent), slope, steep, few)
            if last and miss <= _JUMP_SCALING * spent and abs(new - price) <= 1e-12 * price:
                return SettledGroups(price, steep / spent, paid, sums, prices)  # demand jumps a little here
            price, last = new, True
        return None

    def _few(self, price: float, elements: Floats) -> Callable[[float], float]:
        """What some elements, given by units and masses, spend some logarithms away from a price."""

        def spent(step: float) -> float:
            return float(_loops().ask_few(*elements, price * float(np.exp(step)), self.table))

        return spent

    @property
    def _strides(self) -> list[int]:
        """Which parts of the groups are samples: none, if these would be small."""
        return [stride for stride in _STRIDES if self.units.size >= stride * _SMALLEST_SAMPLE] or [1]

    def _stepped(
        self,
        price: float,
        aim: tuple[float, float],
        slope: float,
        steep: float,
        few: Callable[[float], float],
    ) -> float:
        """A step towards the price at which groups spend more, by the first of ``aim``, to the second of it.

        What elements near their cutoff spend is left out of that. These, which no slope knows, are asked anew
        by ``few``; a sample says how the slope of the others changes.
        """
        stride, (more, close) = self._strides[-1], aim

        def sampled(step: float) -> tuple[float, float]:
            allowed, free, steep, near, near_slope, asked = _loops().ask_groups(
                self.starts, self.units, self.masses, self.limits, price * float(np.exp(step)), price,
                stride, self.table,
            )  # fmt: skip
            share = self.units.size / max(asked, 1)
            return share * (allowed + free - near), share * (steep - near_slope)

        step, bow, (before, foreseen) = 0.0, 0.0, sampled(0.0)
        for turn in range(2):
            low, high = -_LONGEST_STEP, _LONGEST_STEP
            for _ in range(_MOST_STEPS):
                miss = more - (slope * step + 0.5 * bow * step**2 + few(step))
                if abs(miss) <= close:
                    break
                low, high = (low, step) if miss > 0.0 else (step, high)
                step += miss / steep
                step = step if low < step < high else 0.5 * (low + high)
            if turn == 0 and abs(step) > _SMALL_STEP:
                bow = 2.0 * (sampled(step)[0] - before - foreseen * step) / step**2
        return price * float(np.exp(step))

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


def _loops() -> ModuleType:
    """Return the compiled loops, which fit polynomials when they are loaded; few problems need them."""
    from .compiled import grouped

    return grouped
