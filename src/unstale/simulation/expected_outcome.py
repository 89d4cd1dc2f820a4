"""The evaluator that follows formulas: the expected outcome of an allocation."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from unstale.arguments import Order, numbers
from unstale.errors import InvalidInput
from unstale.schedule import WindowClock
from unstale.schedule.window_costs import windowed_cost

from .outcome import Expected
from .worlds import World


def expect(
    world: World,
    frequencies: ArrayLike,
    order: Order = "fixed",
    *,
    jitter: float = 0.0,
    windows: WindowClock | None = None,
) -> Expected:
    """Return what formulas say of elements polled at these frequencies.

    This is the analytic mode of Carney, Lee & Zdonik's evaluator (2003, section 3); `simulate` is the
    tracking mode.

    Parameters
    ----------
    world
        The elements. A record has no formula: for it, elements are taken to change by Poisson processes.
    frequencies
        Polls per unit time of each element.
    order, jitter, windows
        As in `Schedule`.

    Examples
    --------
    >>> round(expect(World([1.0, 2.0]), [1.0, 2.0]).freshness, 4)
    0.6321
    """
    if not isinstance(world, World):
        raise InvalidInput(f"world must be a World, such as World([1.0, 2.0]); it is {world!r}")
    f = numbers("frequencies", frequencies, at_least=0)
    if f.shape != (len(world),):
        raise InvalidInput(
            f"frequencies must be one for each of the {len(world)} elements; it has shape {f.shape}"
        )
    means, columns = {}, {}
    shares, counted = world.weight / world.weight.sum(), world.weight > 0
    for measure in ("freshness", "age", "missed-updates"):
        costs = np.empty(len(world))
        for law, places in world.laws:
            at = slice(None) if places is None else places
            costs[at] = windowed_cost(measure, law, f[at], windows, order, jitter=jitter)
        means[measure] = float(shares[counted] @ costs[counted])
        columns[measure] = costs
    return Expected(
        freshness=1.0 - means["freshness"],
        age=means["age"],
        missed_updates=means["missed-updates"],
        elements={
            "freshness": 1.0 - columns["freshness"],
            "age": columns["age"],
            "missed_updates": columns["missed-updates"],
        },
    )
