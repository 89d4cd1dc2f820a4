"""The common plan, at the speed of memory: many elements with Poisson changes, without bounds or limits.

Two passes over the elements: one adds them up in a summary, from which the price is found; one looks up their
frequencies at that price. What these spend differs from the budget by the error of the summary, a relative
1e-9 or so, and the frequencies are scaled by that. The scaling costs the square of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from mmap import mmap
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import kernels
from ..arguments import Floats
from . import passes
from .elements import BLOCK, Goal
from .lookup import SMALLEST, lookup
from .market import Market
from .summary import Summary, twofold

__all__ = ["Cells", "Columns", "Solution", "allocated", "sampled_price", "solved"]

_SAMPLE = 1 << 14
_CLOSE, _SAMPLED = 1e-9, 1e-3
"""How close to the budget cells must come, and those of a sample, whose own error is larger."""
_SCALED = 1e-5
"""Largest correction by scaling; it leaves a relative gap below 4e-10."""


class Columns(NamedTuple):
    """Rates, and weights and sizes where they are not 1."""

    rate: Floats
    weight: Floats | None
    size: Floats | None

    def positive(self) -> bool:
        """Whether all numbers are positive and finite."""
        return all(column is None or (column.min() > 0 and column.max() < np.inf) for column in self)

    def take(self, index: NDArray[np.generic] | slice) -> Columns:
        """Some of the elements."""
        return Columns(*(None if column is None else np.ascontiguousarray(column[index]) for column in self))  # type: ignore[arg-type]

    def blocks(self) -> Iterator[tuple[slice, Floats, Floats, Floats]]:
        """Go through mass (size times rate), weight and rate, some elements at a time."""
        ones = np.ones(min(BLOCK, self.rate.size)) if self.weight is None else self.rate
        for start in range(0, self.rate.size, BLOCK):
            part = slice(start, min(start + BLOCK, self.rate.size))
            rate = self.rate[part]
            weight = ones[: rate.size] if self.weight is None else self.weight[part]
            mass = rate if self.size is None else rate * self.size[part]
            yield part, mass, weight, rate


class Solution(NamedTuple):
    """An allocation of a budget, with its price and an upper bound on what it misses."""

    frequencies: Floats
    price: float
    spent: float
    missed: float
    summary: Summary | None


class Cells:
    """Where elements are added up by their unit, with finer cells inside a window of units."""

    def __init__(self, goal: Goal, window: tuple[float, float] = (0.0, 0.0)) -> None:
        self.goal, self.window = goal, window
        self.span = np.array([np.iinfo(np.int64).max, 0])
        # The memory of cells that stay empty is never touched: a map has zeros without writing them.
        count = passes.COARSE_CELLS + passes.FINE_CELLS
        self.sums = np.frombuffer(mmap(-1, count * 4 * 8)).reshape(count, 4)

    def add(self, columns: Columns) -> bool:
        """Add elements; False if one is not positive and finite."""
        kernel = self.goal.objective.kernel
        return all(
            passes.gather(mass, weight, rate, kernel, self.window, self.sums, self.span) == 0
            for _, mass, weight, rate in columns.blocks()
        )

    def summary(self) -> Summary:
        """Make a summary of them."""
        first, last = self.span >> (52 - passes.CELL_BITS)
        used = np.concatenate([self.sums[first : last + 1], self.sums[passes.COARSE_CELLS :]])
        mass, weight, share, spread = used[used[:, 1] > 0].T
        return Summary(Market((twofold(mass, weight, share, spread, self.goal),), self.goal))


def sampled_price(columns: Columns, goal: Goal, budget: float) -> float | None:
    """The price that a sample of the elements suggests."""
    sample = columns.take(slice(None, None, max(1, columns.rate.size // _SAMPLE)))
    cells = Cells(goal)
    with np.errstate(all="ignore"):
        if not cells.add(sample):
            return None
    share = sample.rate.size / columns.rate.size
    found = _cleared(cells.summary(), goal, budget * share, close=_SAMPLED)
    return None if found is None else found[0]


def _cleared(
    summary: Summary, goal: Goal, budget: float, guess: float | None = None, close: float = _CLOSE
) -> tuple[float, float] | None:
    """The price at which cells spend a budget, and by which power of the price spending changes there."""
    cells, kernel = summary.cells, goal.objective.kernel
    assert kernel is not None  # noqa: S101  (for the type checker)
    part, table = cells.parts[0], lookup(kernel, goal.code)
    masses, units = part.size * part.law.rate, part.unit(kernel)
    starts, unlimited = np.array([0, part.n]), np.array([np.inf])
    spent, slope = np.zeros(1), np.zeros(1)
    market = (starts, masses, units, unlimited)
    first = cells.guess(budget) if guess is None else guess
    price = passes.price_of_all(*market, budget, first, close, table, spent, slope)
    if not (price < np.inf and price * units.min() > SMALLEST):  # a jump, or beyond the table
        price = cells.clear(budget, guess, rough=True).under
        if not 0.0 < price < np.inf:
            return None
        passes.survey(starts, masses, units, price, table, spent, slope)
    power = float(slope[0] / spent[0]) if spent[0] > 0.0 else -np.inf
    return float(price), min(power, -1e-3)


def allocated(columns: Columns, goal: Goal, price: float, out: Floats) -> tuple[float, float]:
    """Write the frequencies at a price; return what they spend, and their residual."""
    assert goal.objective.kernel is not None  # noqa: S101  (for the type checker)
    table = lookup(goal.objective.kernel, goal.code)
    spent = residual = 0.0
    for part, mass, weight, rate in columns.blocks():
        more, off = passes.allocate(mass, weight, rate, price, table, out[part])
        spent, residual = spent + more, residual + off
    return spent, residual


def solved(columns: Columns, goal: Goal, budget: float) -> Solution | None:
    """Spend a budget; None where this way does not lead to a plan that is proven good."""
    guess = sampled_price(columns, goal, budget)
    if guess is None:
        return None
    # frequencies fall to zero at this unit, within few rounding errors, which wide cells would blur
    window = (0.95 / guess, 1.05 / guess) if goal.objective.kernel == kernels.FRESHNESS else (0.0, 0.0)
    cells = Cells(goal, window)
    if not cells.add(columns):
        return None
    summary = cells.summary()
    found = _cleared(summary, goal, budget, guess)
    if found is None:
        return None
    price, power = found
    f = np.empty(columns.rate.size)
    spent, residual = allocated(columns, goal, price, f)
    if not spent * (1.0 - _SCALED) < budget < spent * (1.0 + _SCALED):
        return None
    scale = budget / spent
    f *= scale
    # Twice the residual: for what frequencies miss at the price, and for the bound that the price gives.
    # A worth falls no faster than the third power of the frequency, so scaling misses less than four squares.
    missed = price * (2.02 * residual + 4.0 * (scale - 1.0) ** 2 * budget)
    return Solution(f, price * scale ** (1.0 / power), budget, missed, summary)
