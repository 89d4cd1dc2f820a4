"""The price at which what elements ask for meets what they may spend: the root of a decreasing function.

The search runs for many groups at once, each with its own price and budget; a plan without groups is one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..arguments import Floats
from ..errors import NoAnswer

_CLOSE_RELATIVE = 4e-16
_SMALLEST, _LARGEST = 5e-324, np.finfo(float).max


class Clearing(NamedTuple):
    """Two neighbouring prices, and how to mix what elements ask for at them.

    They differ only where demand jumps: several elements with the same worth, of which the budget pays for a
    part. A mix of the two allocations then spends the budget exactly, and keeps every bound and limit.
    """

    under: float
    """At this price the elements ask for the budget or more,"""
    over: float
    """at this one for the budget or less."""
    mix: float = 1.0
    """Share of the allocation at the lower price."""


def meet(
    spent: Callable[[float], float],
    budget: float,
    guess: float,
    tolerance: float = _CLOSE_RELATIVE,
    step: float = 2.0,
    width: int = 1,
) -> Clearing:
    """Find the price at which ``spent`` falls to ``budget``, from a guess.

    >>> clearing = meet(lambda price: 3.0 / price, budget=6.0, guess=100.0)
    >>> clearing.under
    0.5
    """
    under, over, mix = meet_each(
        lambda price: np.array([spent(float(price[0]))]),
        np.array([budget]),
        np.array([guess]),
        tolerance,
        step,
        width,
    )
    return Clearing(float(under[0]), float(over[0]), float(mix[0]))


def meet_each(
    spent: Callable[[Floats], Floats],
    budget: Floats,
    guess: Floats,
    tolerance: float = _CLOSE_RELATIVE,
    step: float = 2.0,
    width: int = 1,
) -> tuple[Floats, Floats, Floats]:
    """Find for each group two neighbouring prices between which it meets its budget, and the mix that does.

    Each group must ask for more than its budget at some price, and for less at another. The search runs on
    logarithms, where demand is nearly straight: false position in a bracket (Illinois), and where that is
    slow a step that halves the number of floats in the bracket. It ends when the budget is met to a relative
    ``tolerance`` or the two prices are neighbours among the floats, at most ``width`` apart. ``step`` is the
    first step away from the guess, as a factor: close to 1 for a guess that is close.
    """
    under, over, at_under, at_over = _bracket(spent, budget, guess, step)
    slow, side = np.zeros(budget.shape, int), np.zeros(budget.shape, int)
    with np.errstate(all="ignore"):
        more, less = np.log(at_under / budget), np.log(at_over / budget)
        for _ in range(500):
            met_under = at_under <= budget * (1.0 + tolerance)
            met_over = ~met_under & (at_over >= budget * (1.0 - tolerance))
            first, last = under.view(np.int64), over.view(np.int64)
            done = met_under | met_over | (last - first <= width)
            if done.all():
                mix = np.where(met_under, 1.0, (budget - at_over) / (at_under - at_over))
                return (
                    np.where(met_over, over, under),
                    np.where(met_under, under, over),
                    np.where(met_over, 1.0, mix),
                )
            u, v = np.log(under), np.log(over)
            aim = np.exp((u * less - v * more) / (less - more))
            halve = (slow >= 3) | ~np.isfinite(aim)
            middle = np.where(halve, first + (last - first) // 2, np.where(halve, 1.0, aim).view(np.int64))
            middle = np.clip(middle, np.minimum(first + 1, last), np.maximum(last - 1, first))
            price = np.where(done, under, middle.view(np.float64))
            at = np.where(done, at_under, spent(price))
            right = at >= budget
            up, down = ~done & right, ~done & ~right
            # an end that stays twice is given less weight (Illinois), so that both ends move
            less = np.where(up & (side > 0), 0.5 * less, less)
            more = np.where(down & (side < 0), 0.5 * more, more)
            side = up.astype(int) - down
            under, at_under = np.where(up, price, under), np.where(up, at, at_under)
            over, at_over = np.where(down, price, over), np.where(down, at, at_over)
            more, less = np.where(up, np.log(at / budget), more), np.where(down, np.log(at / budget), less)
            shrunk = over.view(np.int64) - under.view(np.int64) <= (last - first) // 4
            slow = np.where(halve | shrunk, 0, slow + 1)
    raise NoAnswer(
        f"a price that spends the budget of {float(budget[~done][0]):g} was not found in 500 steps"
    )


def _bracket(
    spent: Callable[[Floats], Floats], budget: Floats, guess: Floats, step: float
) -> tuple[Floats, Floats, Floats, Floats]:
    """Step away from the guesses until each budget lies between what is asked for at two prices."""
    price = np.clip(guess, _SMALLEST, _LARGEST)
    under, over = np.zeros(price.shape), np.full(price.shape, np.inf)
    at_under, at_over = np.full(price.shape, np.inf), np.zeros(price.shape)
    while True:
        at = spent(price)
        high = at >= budget
        lacking = (under == 0) | np.isinf(over)
        under, at_under = np.where(lacking & high, price, under), np.where(lacking & high, at, at_under)
        over, at_over = np.where(lacking & ~high, price, over), np.where(lacking & ~high, at, at_over)
        lacking = (under == 0) | np.isinf(over)
        if not lacking.any():
            return under, over, at_under, at_over
        with np.errstate(over="ignore", under="ignore"):
            new = np.clip(np.where(high, price * step, price / step), _SMALLEST, _LARGEST)
        if (lacking & (new == price)).any():
            where = float(budget[lacking & (new == price)][0])
            raise NoAnswer(f"no float is a price that spends the budget of {where:g}; choose other units")
        price, step = np.where(lacking, new, price), min(step**4, 2.0**64)
