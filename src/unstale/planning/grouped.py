"""Many small groups with limits, of elements with known rates and no options: sorted by group, once.

The price of all is searched for on ever more groups; then each group that would spend more than its limit
finds its own price while its elements are in the cache (see `compiled.grouped`).
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from ..arguments import Floats
from .compiled.demand import SLOPE, SPENT
from .demand import Codes, Demand, KnownRates
from .lookup import Lookup

LARGE_GROUP = 1000
"""Elements per group from which on groups are not small."""
_STRIDES, _SAMPLE_DISTANCE, _LAST_DISTANCE = (64, 8), 0.02, 2e-3
"""Which parts of the groups are samples; relative distance from the budget from which the last step of a
search is made, on these and on all."""
_GUESSED_FROM = 1 << 12
"""Elements whose units give the first guess."""
_MOST_PASSES = 6


@dataclass(frozen=True, eq=False)
class SettledGroups:
    """What elements spend at the price of all or of their group, in the order of groups."""

    price: float
    power: float
    """Relative change of what groups spend that are not held, over that of the price."""
    paid: Floats
    sums: Floats
    """As `compiled.demand` adds them up."""
    prices: Floats
    held: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class SortedGroups:
    """Elements in the order of their groups."""

    limits: Floats
    codes: Codes
    size: float
    table: Lookup
    starts: NDArray[np.int64]
    place: NDArray[np.int32]
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
        starts, place = np.empty(limits.size + 1, np.int64), np.empty(demand.n, np.int32)
        units, masses = np.empty(demand.n), np.empty(demand.n)
        _loops().sort_by_group((rate, weight), size[0], codes, starts, place, units, masses)
        return cls(limits, codes, float(size[0]), demand.table, starts, place, units, masses)

    def settled(self, budget: float, close: float) -> SettledGroups | None:
        """Spend a budget and meet limits to a relative ``close``; None if the search ends nowhere."""
        some = self.units[:: max(1, self.units.size // _GUESSED_FROM)]
        some = some[(some > 0.0) & (some < np.inf)]
        price = float(np.exp(-np.log(some).mean())) if some.size else np.nan
        columns = self.starts, self.units, self.masses, self.limits
        for stride in _STRIDES:
            found = _loops().common_price(*columns, budget, price, _SAMPLE_DISTANCE, stride, self.table)
            price = found if 0.0 < found < np.inf else price
        price = _loops().common_price(*columns, budget, price, _LAST_DISTANCE, 1, self.table)
        paid, sums, prices = (
            np.empty(self.units.size),
            np.empty((self.limits.size, 4)),
            np.empty(self.limits.size),
        )
        for _ in range(_MOST_PASSES):
            if not 0.0 < price < np.inf:
                return None
            if not _loops().settle_groups(*columns, price, close, self.table, paid, sums, prices):
                return None
            held = prices > price
            room = budget - float(np.where(held, self.limits, 0.0).sum())
            spent, slope = (float(np.where(held, 0.0, sums[:, k]).sum()) for k in (SPENT, SLOPE))
            if not (slope < 0.0 < spent < np.inf and room > 0.0):
                return None
            if abs(spent - room) <= close * spent:
                return SettledGroups(price, slope / spent, paid, sums, prices, held)
            price *= float(np.exp(np.clip(np.log(room / spent) * spent / slope, -0.1, 0.1)))
        return None

    def frequencies(self, paid: Floats, factors: Floats) -> Floats:
        """Frequencies in the order of the market, scaled by the factors of groups."""
        f = np.empty(self.units.size)
        _loops().spread(self.size, self.codes, self.place, paid, factors, f)
        return f


def _loops() -> ModuleType:
    """Return the compiled loops, which fit polynomials when they are loaded; few problems need them."""
    from .compiled import grouped

    return grouped
