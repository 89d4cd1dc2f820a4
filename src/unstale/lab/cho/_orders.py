"""The three orders and the three policies by name, and simulations of the orders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

import unstale
from unstale.arguments import Floats, Order
from unstale.lab.experiment import Run

ORDERS: tuple[Order, ...] = ("fixed", "random", "purely-random")
NAMES = ("fixed order", "random order", "purely random")

Policy = Literal["optimal", "uniform", "proportional"]
POLICIES: tuple[Policy, ...] = ("optimal", "uniform", "proportional")


@dataclass(frozen=True, eq=False)
class Simulated:
    """Freshness and age of an order, with standard errors, for each of some ratios; polls are 1 apart."""

    freshness: Floats
    freshness_error: Floats
    age: Floats
    age_error: Floats


def simulated(run: Run, ratios: Sequence[float], polls: float) -> dict[Order, Simulated]:
    """Play all orders on the same changes, for each number of changes per poll."""
    elements, burn_in = 200, 20.0
    found: dict[Order, list[tuple[float, float, float, float]]] = {order: [] for order in ORDERS}
    for done, ratio in enumerate(ratios, 1):
        result = unstale.simulate(
            np.full(elements, ratio),
            elements,
            policies={
                order: unstale.Schedule(np.ones(elements), order=order, seed=run.seed) for order in ORDERS
            },
            horizon=burn_in + polls / elements,
            burn_in=burn_in,
            batches=64,
            seed=run.seed + done,
        )
        for order in ORDERS:
            one = result[order]
            found[order].append((one.freshness, one.freshness_error, one.age, one.age_error))
        run.advance(done / len(ratios))
    return {order: Simulated(*np.array(rows).T) for order, rows in found.items()}
