"""Room for some copies only: which to keep, and how often to poll them.

There are two prices. At the price of polls an element that has a copy is polled every so often, and is worth
its freshness less what its polls cost. At the price of room it is kept if that is worth its bytes. So copies
are kept that are worth most per byte, as many as there is room for, and the price of polls is whatever makes
the polls of those add up to the budget.

Reference: Carney, Lee & Zdonik (ICDE 2003), section 7, name the problem; the two prices are ours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arguments import Floats, broadcast, numbers, scalar
from ..polling import interval, mean_cost
from ..processes import Poisson, Process
from .allocation import plan
from .problem import laws_of

__all__ = ["SpacePlan", "copies_worth_keeping", "plan_within", "worth_of_copies"]

_STEPS = 60
"""Halvings of the interval in which the price is looked for."""


@dataclass(frozen=True, eq=False)
class SpacePlan:
    """Which copies are kept, and how often they are polled."""

    kept: NDArray[np.bool_]
    frequencies: Floats
    """Polls per unit time; 0 of what is not kept."""
    price: float
    """Of polls."""
    room_price: float
    """What a copy must be worth, per byte; 0 if there is room for all."""
    freshness: float
    """Weighted mean freshness of all elements; what is not kept is not fresh."""


def worth_of_copies(law: Process, weights: Floats, sizes: Floats, price: float) -> tuple[Floats, Floats]:
    """Return what copies are worth at a price of polls, net of their polls; and how often these come."""
    with np.errstate(divide="ignore", invalid="ignore"):
        often = 1.0 / np.asarray(interval("freshness", law, price * sizes / weights))
    often = np.where(np.isfinite(often), often, 0.0)
    fresh = 1.0 - np.asarray(mean_cost("freshness", law, often))
    return np.maximum(weights * fresh - price * sizes * often, 0.0), often


def copies_worth_keeping(values: Floats, room: Floats, space: float) -> NDArray[np.bool_]:
    """Return which copies to keep: those that are worth most per byte, and what still fits in between.

    >>> copies_worth_keeping(np.array([3.0, 2.0, 4.0]), np.array([1.0, 1.0, 4.0]), 2.5).tolist()
    [True, True, False]
    """
    left, kept = space, np.zeros(values.size, np.bool_)
    order = np.argsort(-values / np.maximum(room, 1e-300), kind="stable")
    order = order[values[order] > 0]
    while (order := order[room[order] <= left]).size:
        taken = np.cumsum(room[order]) <= left
        kept[order[taken]] = True
        left -= float(room[order[taken]].sum())
        order = order[~taken]
    return kept


def plan_within(
    rates: ArrayLike | Process,
    budget: float,
    *,
    room: ArrayLike,
    space: float,
    weights: ArrayLike | None = None,
    sizes: ArrayLike | None = None,
) -> SpacePlan:
    """Divide a budget of polls and a space for copies among elements, so that most of what counts is fresh.

    Parameters
    ----------
    rates
        Changes per unit time of each element, or how they change: a process with an entry for each.
    budget
        What may be spent per unit time: polls, or whatever ``sizes`` are in.
    room
        What the copy of each element takes.
    space
        What there is for all copies, in the same unit.
    weights
        How much the freshness of each element matters; 1 by default.
    sizes
        What a poll of each costs; 1 by default.

    >>> plan_within([1.0, 1.0, 9.0], 2.0, room=[1, 1, 1], space=2).kept.tolist()
    [True, True, False]
    """
    _, ((given, _), *_) = laws_of(rates)
    law = Poisson(numbers("rates", given, at_least=0)) if isinstance(given, np.ndarray) else given
    total, most = scalar("budget", budget, above=0), scalar("space", space, at_least=0)
    columns = broadcast(
        rates=np.asarray(law.rate),
        room=numbers("room", room, at_least=0),
        weights=numbers("weights", 1.0 if weights is None else weights, at_least=0),
        sizes=numbers("sizes", 1.0 if sizes is None else sizes, above=0),
    )
    _, takes, weight, size = np.broadcast_arrays(*columns)

    def at(price: float) -> tuple[NDArray[np.bool_], float]:
        values, often = worth_of_copies(law, weight, size, price)
        kept = copies_worth_keeping(values, takes, most)
        return kept, float((size * often)[kept].sum())

    low, high = -700.0, 700.0  # of the logarithm of the price
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        dear = at(float(np.exp(middle)))[1] > total
        low, high = (middle, high) if dear else (low, middle)
    # Where what is worth keeping changes at the price, either choice may be the better one.
    plans = [_planned(law, total, at(float(np.exp(end)))[0], takes, weight, size) for end in (low, high)]
    return max(plans, key=lambda one: one.freshness)


def _planned(
    law: Process, budget: float, kept: NDArray[np.bool_], room: Floats, weights: Floats, sizes: Floats
) -> SpacePlan:
    """Return the best plan for what is kept."""
    often, price, fresh = np.zeros(kept.size), 0.0, 0.0
    which = np.flatnonzero(kept)
    if weights[which].sum() > 0:
        best = plan(law.take(which), budget, weights=weights[which], sizes=sizes[which])
        often[which], price = best.frequencies, best.price
        fresh = best.freshness * float(weights[which].sum() / weights.sum())
    values, _ = worth_of_copies(law, weights, sizes, price)
    left = values[~kept] / np.maximum(room[~kept], 1e-300)
    return SpacePlan(kept, often, price, float(left.max(initial=0.0)), fresh)
