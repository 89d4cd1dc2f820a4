"""The evaluator that follows formulas: what an allocation is expected to come to."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..arguments import Floats, Order, numbers
from ..errors import InvalidInput
from ..objectives import Objective
from ..polling import mean_cost
from .outcome import Expected
from .worlds import World

__all__ = ["expect", "expected_costs"]


def expect(world: World, frequencies: ArrayLike, order: Order = "fixed") -> Expected:
    """Return what formulas say of elements polled at these frequencies.

    This is the analytic mode of Carney, Lee & Zdonik's evaluator (2003, section 3); `simulate` is the
    tracking mode. A record has no formula: for it, elements are taken to change by Poisson processes.

    >>> round(expect(World([1.0, 2.0]), [1.0, 2.0]).freshness, 4)
    0.6321
    """
    f = numbers("frequencies", frequencies, at_least=0)
    if f.shape != (len(world),):
        msg = f"frequencies must be one for each of the {len(world)} elements; it has shape {f.shape}"
        raise InvalidInput(msg)
    stale, age, missed = (
        expected_costs(world, measure, f, order) for measure in ("freshness", "age", "missed-updates")
    )
    shares, counted = world.weight / world.weight.sum(), world.weight > 0
    means = [float(shares[counted] @ column[counted]) for column in (stale, age, missed)]
    columns = {"freshness": 1.0 - stale, "age": age, "missed_updates": missed}
    return Expected(1.0 - means[0], means[1], means[2], columns)


def expected_costs(world: World, objective: str | Objective, frequencies: Floats, order: Order) -> Floats:
    """Return the mean cost of each element by an objective."""
    costs = np.empty(len(world))
    for law, places in world.laws:
        at = slice(None) if places is None else places
        costs[at] = mean_cost(objective, law, frequencies[at], order)
    return costs
