"""All elements of a plan together: what they ask for at a price, and the price that clears the budget."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arguments import Floats
from ..errors import InvalidInput
from ..objectives import objective_named
from ..polling import worth
from .elements import EXACTLY_SOLVED_ELEMENTS, Elements, Goal
from .search import Clearing, meet


def mixed(more: Floats, less: Floats, mix: float | Floats) -> Floats:
    """A mix of two allocations; exactly the same where they are the same."""
    with np.errstate(invalid="ignore"):  # infinite ones are for the caller to refuse
        return less + mix * (more - less)


def check_weight(total: float) -> None:
    """Insist on weights that have a mean."""
    if total == 0:
        raise InvalidInput("weights must not all be 0")
    if total == np.inf:
        raise InvalidInput(
            "weights must have a finite sum; only their ratios matter, so divide them by the largest"
        )


@dataclass(frozen=True, eq=False)
class Market:
    """Sets of elements, one for each kind of law, that share a budget."""

    parts: tuple[Elements, ...]
    goal: Goal
    asking: Goal | None = None
    """By what elements ask for polls, if not by the goal."""

    def __len__(self) -> int:
        """How many elements there are."""
        return sum(part.n for part in self.parts)

    def split(self, *columns: Floats) -> Iterator[tuple[Any, ...]]:
        """Go through the elements, some at a time, with the same pieces of these columns."""
        start = 0
        for part in self.parts:
            for piece, block in part.blocks():
                inside = slice(start + piece.start, start + piece.stop)
                yield block, *(column[inside] for column in columns)
            start += part.n

    def column(self, name: str) -> Floats:
        """A column of all elements."""
        if len(self.parts) == 1:
            return self.parts[0].column(name)
        return np.concatenate([part.column(name) for part in self.parts])

    @cached_property
    def wanted(self) -> NDArray[np.bool_]:
        """Elements that ask for polls."""
        return np.concatenate([part.wanted for part in self.parts])

    @cached_property
    def weight(self) -> float:
        """Sum of the weights."""
        with np.errstate(over="ignore"):
            sums = [np.sum(np.broadcast_to(part.count * part.weight, (part.n,))) for part in self.parts]
            return float(np.sum(sums))

    def frequencies(self, price: float | Floats) -> Floats:
        """What each element asks for at a price > 0: one for all, or one for each."""
        exact = len(self) <= EXACTLY_SOLVED_ELEMENTS
        each = np.broadcast_to(price, (len(self),))
        pieces = [
            block.frequencies(self.asking or self.goal, p, exact=exact) for block, p in self.split(each)
        ]
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def spending(self, f: Floats) -> Floats:
        """What each element spends per unit time."""
        return np.concatenate(
            [np.broadcast_to(part.spending(self.goal, g), g.shape) for part, g in self.split(f)]
        )

    def spent(self, f: Floats) -> float:
        """What all spend."""
        return float(sum(np.sum(part.spending(self.goal, g)) for part, g in self.split(f)))

    def cost(self, f: Floats, measure: str | None = None) -> float:
        """Weighted mean cost at these frequencies, by the goal or by another measure."""
        goal = self.goal if measure is None else Goal(objective_named(measure), self.goal.order)
        total = sum(float(np.sum(part.costs(goal, g))) for part, g in self.split(f))
        return total / self.weight if self.weight > 0 else 0.0

    def freshness(self, f: Floats) -> float:
        """Weighted mean freshness at these frequencies."""
        total = sum(float(np.sum(part.freshness(self.goal, g))) for part, g in self.split(f))
        return total / self.weight if self.weight > 0 else 1.0

    @cached_property
    def least(self) -> float:
        """What the lower bounds alone spend."""
        if not any(np.any(part.low) for part in self.parts):
            return 0.0
        return self.spent(self.column("low"))

    def check_budget(self, budget: float) -> None:
        """Insist on a budget that pays for the lower bounds."""
        if self.least > budget * (1.0 + 1e-12):
            raise InvalidInput(
                f"budget must be at least {self.least:g}, which min_frequency needs; budget is {budget:g}"
            )

    @cached_property
    def most(self) -> float:
        """What is spent when every element that asks for polls is polled as often as it may be."""
        goal = self.asking or self.goal
        if any(
            np.ndim(p.ceiling(goal)) == 0 and p.ceiling(goal) == np.inf and p.wanted.any() for p in self.parts
        ):
            return np.inf
        f = self.filled
        return np.inf if np.isinf(f).any() else self.spent(f)

    @property
    def filled(self) -> Floats:
        """The allocation at price 0."""
        goal = self.asking or self.goal
        pieces = [np.where(p.wanted, p.ceiling(goal), p.low) for p in self.parts]
        return np.concatenate(pieces)

    def bounded(self, low: Floats, high: Floats) -> Market:
        """The same elements with other bounds."""
        parts, start = [], 0
        for part in self.parts:
            inside = slice(start, start + part.n)
            parts.append(replace(part, low=low[inside], high=high[inside]))
            start += part.n
        return replace(self, parts=tuple(parts))

    def spare(self, f: Floats) -> Market:
        """The market in which elements that no poll helps any more share what is left, equally."""
        parts, start = [], 0
        for part in self.parts:
            given = f[start : start + part.n]
            free = ~part.wanted | (given >= part.ceiling(self.goal)) & (given < part.high)
            high = np.where(free, part.high, given)
            parts.append(replace(part, low=given, high=high, share=free.astype(float)))
            start += part.n
        return Market(tuple(parts), self.goal)

    def clear(self, budget: float, guess: float | None = None, *, rough: bool = False) -> Clearing:
        """Find the price at which the elements ask for the budget: inf up to `least`, 0 from `most` on.

        A guess is taken to be a good one. A rough answer is good to a relative 1e-9.
        """
        if budget <= self.least:
            return Clearing(np.inf, np.inf)
        if budget >= self.most:
            return Clearing(0.0, 0.0)
        close = 1e-9 if rough else 4e-16 if len(self) <= EXACTLY_SOLVED_ELEMENTS else 1e-12
        start, step = (self.guess(budget), 2.0) if guess is None else (guess, 1.00001)
        width = 1 << 22 if rough else 1
        return meet(lambda price: self.spent(self.frequencies(price)), budget, start, close, step, width)

    def guess(self, budget: float) -> float:
        """The mean worth of a poll if all were polled alike."""
        goal = self.asking or self.goal
        sizes = worths = 0.0
        for part in self.parts:
            sizes += float(np.sum(np.broadcast_to(part.count * part.size, (part.n,))))
        for part, _ in self.split(np.broadcast_to(0.0, (len(self),))):
            with np.errstate(all="ignore"):
                even = min(max(sizes / budget, 1e-300), 1e300)
                each = worth(goal.objective, part.law, np.asarray(even), goal.order)
                each = part.count * np.where(part.wanted, part.weight * each, 0.0)
            worths += float(np.sum(each))
        guess = worths / sizes
        if any(part.share is not None for part in self.parts):
            guess = self.spent(self.frequencies(1.0)) / budget
        return guess if 0.0 < guess < np.inf else 1.0

    def at(self, clearing: Clearing) -> Floats:
        """The allocation at a price, or its mix at two."""
        if clearing.under == 0.0:
            return self.filled
        if clearing.under == np.inf:
            return np.array(self.column("low"))
        f = self.frequencies(clearing.under)
        return (
            f if clearing.over == clearing.under else mixed(f, self.frequencies(clearing.over), clearing.mix)
        )

    def first_worth(self, f: Floats) -> float:
        """The largest worth of one more unit of budget at these frequencies."""
        return max(
            float(part.ratios(self.goal, g).max(initial=0.0, where=g < part.high))
            for part, g in self.split(f)
        )

    def slack(self, f: Floats, price: Floats) -> tuple[float, float, float]:
        """How far worths are from the prices, as `Elements.slack` has it."""
        over = short = paid = 0.0
        for part, g, p in self.split(f, price):
            more, less, cost = part.slack(self.goal, g, p)
            over, short, paid = max(over, more), short + less, paid + cost
        return over, short, paid
