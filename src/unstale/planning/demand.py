"""What elements of each kind ask for at a price: known rates, uncertain ones, other laws, other policies.

`demand_of` finds the kind of some elements. What it returns adds, at the prices of their groups, what they
spend to the sums of these (see `compiled.demand`), and writes their frequencies if there is a place for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from ..arguments import Floats
from ..kernels import FIXED, FRESHNESS
from ..objectives import UpdatePenalty
from ..polling import interval_moment, worth
from ..processes import Poisson, UncertainPoisson
from .compiled import demand as compiled_demand
from .compiled import uncertain as compiled_uncertain
from .lookup import lookup
from .uncertain_lookup import uncertain_lookup

if TYPE_CHECKING:
    from .elements import Elements, Goal

__all__ = ["ALONE", "MANY_PLAIN_ELEMENTS", "Codes", "Demand", "columns_of", "demand_of"]

Codes = NDArray[np.int64]
ALONE: Codes = np.zeros(1, np.int64)
"""Group codes of elements that are all in one group."""

MANY_PLAIN_ELEMENTS = 1 << 17
"""Elements without options from which on polynomials are quicker than a table, which is good for fewer."""

_NOWHERE: Floats = np.empty(0)
_NOBODY: NDArray[np.int64] = np.empty(0, np.int64)
_CUTOFF_BLUR = 0.01
"""Relative distance from the price at which elements are cut off, within which slopes are averaged."""
_ROUGH_ERROR, _FINE_ERROR = 1e-5, 2e-15
"""How far worths may be from the price in a rough pass, and how far they should be in a fine one."""
_MOST_STEPS = 80
"""Evaluations of a worth until an interval must be found."""


class Demand(Protocol):
    """What some elements ask for."""

    dear: bool
    """Whether a pass takes microseconds for an element."""
    near: NDArray[np.int64]
    """Places of elements that the last price cut off, or nearly did, if there was one price for all."""
    bowed: bool
    """Whether a fine pass writes to SLOPE how spending bends if frequencies are scaled."""

    def __call__(self, prices: Floats, codes: Codes, sums: Floats, out: Floats | None = None) -> None:
        """Add what the elements spend at the prices of their groups; write frequencies to ``out``."""


def demand_of(part: Elements, goal: Goal) -> Demand | None:
    """What elements ask for; None if it has no price."""
    kernel, conditional = goal.objective.kernel, part.conditional
    if part.share is not None or (isinstance(goal.objective, UpdatePenalty) and not conditional):
        return None if conditional else Proportional.of(part, goal)
    if isinstance(part.law, Poisson) and part.tabled(goal):
        return KnownRates(part, goal)
    if isinstance(part.law, UncertainPoisson) and kernel is not None:
        return Uncertain(part, goal)
    return Searched(part, goal)


def columns_of(part: Elements, *names: str) -> tuple[Floats, ...]:
    """Columns as compiled code takes them: one entry for each element, or one for all."""
    columns = []
    for name in names:
        value = getattr(part.law if name in {"rate", "shape", "scale"} else part, name)
        column = np.ascontiguousarray(np.ravel(value)).view()
        column.flags.writeable = False  # those of laws are, and compiled code takes one kind
        columns.append(column)
    return tuple(columns)


class KnownRates:
    """Elements with Poisson changes."""

    dear = False
    NAMES = ("rate", "weight", "size", "change_size", "low", "high", "count")

    def __init__(self, part: Elements, goal: Goal) -> None:
        self.n, self.columns = part.n, columns_of(part, *self.NAMES)
        self.near = self.place = np.empty(part.n + 1, np.int64)
        self.table = lookup(goal.objective.kernel or 0, goal.code)
        rate, _, *others, count = self.columns
        alone = rate.size == part.n and all(column.size == 1 for column in others)
        self.optionless = alone and not (part.bounded or part.conditional) and count.size == count[0] == 1
        self.optionless &= goal.objective.kernel == FRESHNESS and goal.code == FIXED
        self.plain = self.optionless and part.n >= MANY_PLAIN_ELEMENTS
        self.bowed = part.conditional and not part.bounded and goal.code == FIXED
        self.bowed &= count.size == count[0] == 1

    def __call__(self, prices: Floats, codes: Codes, sums: Floats, out: Floats | None = None) -> None:
        blur = _CUTOFF_BLUR if codes.size == 1 else 0.0  # small groups are not smooth
        fine, target = out is not None, _NOWHERE if out is None else out
        place = _NOBODY if fine or codes.size > 1 else self.place
        rate, weight, size, *_ = self.columns
        if self.bowed or (self.plain and codes.size == 1):
            from .compiled import plain as compiled_plain  # it fits polynomials, which only many need

        if self.plain and codes.size == 1 and fine:
            near = compiled_plain.ask_plain(rate, weight, size[0], prices[0], self.table, target, sums)
        elif self.plain and codes.size == 1:
            near = compiled_plain.ask_plain_roughly(
                rate, weight, size[0], prices[0], self.table, blur, sums, place
            )
        else:
            ask = compiled_plain.ask_conditional if self.bowed else compiled_demand.ask_known
            near = ask(self.n, self.columns, prices, codes, self.table, blur, fine, target, sums, place)
        self.near = place[:near]


class Uncertain:
    """Elements with uncertain rates."""

    NAMES = ("shape", "scale", "weight", "size", "change_size", "low", "high", "count")

    def __init__(self, part: Elements, goal: Goal) -> None:
        self.n, self.columns = part.n, columns_of(part, *self.NAMES)
        self.near = self.place = np.empty(part.n + 1, np.int64)
        self.table, self.order = uncertain_lookup(goal.objective.kernel or 0, goal.code), goal.code
        self.dear = part.conditional or goal.code != FIXED
        self.bowed = part.conditional and not part.bounded

    def __call__(self, prices: Floats, codes: Codes, sums: Floats, out: Floats | None = None) -> None:
        fine, target = out is not None, _NOWHERE if out is None else out
        place = _NOBODY if fine or codes.size > 1 else self.place
        near = compiled_uncertain.ask_uncertain(
            self.n, self.columns, prices, codes, self.table, self.order, fine, target, sums, place
        )
        self.near = place[:near]


class Proportional:
    """Elements whose frequencies are all proportional to one power of the price."""

    dear, bowed, near = False, False, _NOBODY

    def __init__(self, part: Elements, root: Floats, power: float) -> None:
        self.part, self.root, self.power = part, root, power
        self.columns = bounds_and_costs(part)

    @classmethod
    def of(cls, part: Elements, goal: Goal) -> Proportional | None:
        """Elements that share alike, or whose missed changes count."""
        if part.share is not None:
            return cls(part, part.share, -1.0)
        exponent = getattr(getattr(goal.objective, "penalty", None), "exponent", None)
        if exponent is None:
            return None
        k = exponent + 2.0
        with np.errstate(all="ignore"):
            worths = part.weight * part.law.rate / part.size * (interval_moment(k, goal.code) / k)
            return cls(part, np.sqrt(worths) if k == 2.0 else worths ** (1.0 / k), -1.0 / k)

    def __call__(self, prices: Floats, codes: Codes, sums: Floats, out: Floats | None = None) -> None:
        factor = prices**self.power
        asked = np.broadcast_to(self.root, (self.part.n,)) * (factor if codes.size == 1 else factor[codes])
        settle(self.columns, codes, asked, self.power * asked, np.full(asked.shape, 1e-15), sums, out)


class Searched:
    """Elements whose intervals are searched for, beginning where the last search ended."""

    dear, bowed, near = False, False, _NOBODY

    def __init__(self, part: Elements, goal: Goal) -> None:
        self.part, self.goal = part, goal
        self.columns = bounds_and_costs(part)
        with np.errstate(all="ignore"):
            self.log = -np.log(np.broadcast_to(part.law.rate, (part.n,)))
            self.limit = self._log_worth(np.full(part.n, np.inf), np.arange(part.n))
        self.steep = np.full(part.n, 1.5)

    def _log_worth(self, t: Floats, index: NDArray[np.intp]) -> Floats:
        """Logarithm of what a poll is worth over what it costs, at these intervals."""
        part = self.part if index.size == self.part.n else self.part.take(index)
        goal = self.goal
        value = worth(goal.objective, part.law, t, goal.order) * part.weight / part.next_cost(goal, t)
        return np.broadcast_to(np.log(value), t.shape)

    def __call__(self, prices: Floats, codes: Codes, sums: Floats, out: Floats | None = None) -> None:
        part = self.part
        with np.errstate(all="ignore"):
            goal = np.log(prices[0] if codes.size == 1 else prices[codes])
            asked, off = self._asked(np.broadcast_to(goal, (part.n,)), out is not None)
            change = np.where(asked > 0.0, -asked / self.steep, 0.0)
        if not part.conditional:
            settle(self.columns, codes, asked, change, off, sums, out)
            return
        low, high, _ = self.columns
        free = (asked > low) & (asked < high)
        f = np.clip(asked, low, high)
        with np.errstate(all="ignore"):
            more = np.where(free, part.count * part.next_cost(self.goal, 1.0 / f), 0.0)
        rows = (part.spending(self.goal, f), more * change, more * f, more * f * off)
        for k, row in enumerate(rows):
            sums[:, k] += np.bincount(np.broadcast_to(codes, (part.n,)), row, sums.shape[0])
        if out is not None:
            out[:] = f

    def _asked(self, goal: Floats, fine: bool) -> tuple[Floats, Floats]:  # noqa: FBT001
        """Frequencies at which log-worths reach their goals, and how far they are from these.

        Each step is a secant's on logarithms; where it would leave what is known to hold the solution, that
        is halved.
        """
        n = self.part.n
        close = _FINE_ERROR if fine else _ROUGH_ERROR
        found, off = np.zeros(n), np.zeros(n)
        index = np.flatnonzero(np.broadcast_to(self.part.wanted, (n,)) & (goal < self.limit))
        u, steep, aim = self.log[index], self.steep[index], goal[index]
        low, high = np.full(index.size, -np.inf), np.full(index.size, np.inf)
        before = np.full((2, index.size), np.nan)
        for _ in range(_MOST_STEPS):
            value = self._log_worth(np.exp(u), index)
            miss = aim - np.where(np.isnan(value), np.inf, value)  # nan: beyond the floats
            low, high = np.where(miss > 0.0, u, low), np.where(miss > 0.0, high, u)
            secant = (value - before[1]) / (u - before[0])
            steep = np.where((secant > 1e-6) & (secant < 1e3), secant, steep)
            step = np.clip(miss / steep, -4.0, 4.0)
            new = u + step
            outside = ~((new > low) & (new < high))
            new = np.where(outside & np.isfinite(low) & np.isfinite(high), 0.5 * (low + high), new)
            done = (np.abs(miss) <= close) | (high - low <= 4e-16 * np.maximum(1.0, np.abs(u)))
            done |= np.abs(step) <= 2e-16 * np.maximum(1.0, np.abs(u))
            done |= ~np.isfinite(miss) | (np.abs(new) > 690.0)
            place = index[done]
            self.log[place], self.steep[place] = u[done], steep[done]
            found[place] = np.where(np.abs(new[done]) > 690.0, 0.0, np.exp(-u[done]))
            off[place] = np.abs(np.expm1(miss[done]))
            kept = ~done
            if not kept.any():
                return found, off
            before = np.stack([u, value])[:, kept]
            index, u, steep, aim, low, high = (column[kept] for column in (index, new, steep, aim, low, high))
        found[index], off[index] = np.exp(-u), np.inf
        return found, off


def bounds_and_costs(part: Elements) -> tuple[Floats, ...]:
    """Bounds, and what a poll of all elements of an entry costs."""
    low, high, size, count = columns_of(part, "low", "high", "size", "count")
    cost = count * size
    cost.flags.writeable = False
    return low, high, cost


def settle(
    columns: tuple[Floats, ...],
    codes: Codes,
    asked: Floats,
    change: Floats,
    off: Floats,
    sums: Floats,
    out: Floats | None,
) -> None:
    """Keep what is asked for within bounds, and add up."""
    fine, target = out is not None, _NOWHERE if out is None else out
    compiled_demand.ask_given(asked.size, columns, codes, asked, change, off, fine, target, sums)
