"""The synthetic pages of Figure 1, and how the policies of the figure divide polls among them."""

from __future__ import annotations

import numpy as np

import unstale
from unstale.arguments import Floats

_PAGES = 1000
_HIGHEST_RANK = 10_000.0


def draw(rng: np.random.Generator, utilities: str) -> tuple[Floats, Floats]:
    """Return change rates and utilities of 1,000 pages."""
    rates = 1.0 - rng.random(_PAGES)
    if utilities == "uniform":
        return rates, 1.0 - rng.random(_PAGES)
    ranks = np.arange(1.0, _HIGHEST_RANK + 1.0)
    chances = ranks**-2.0
    return rates, rng.choice(ranks, _PAGES, p=chances / chances.sum())


def policies(rates: Floats, weights: Floats, budget: float) -> dict[str, Floats]:
    """Return the frequencies that each policy of Figure 1 gives to the pages."""
    return {
        "optimum": unstale.plan(rates, budget, weights=weights).frequencies,
        "new algorithm": unstale.plan(rates, budget, weights=weights, order="purely-random").frequencies,
        "by change rate": unstale.plan(rates, budget).frequencies,
        "by utility": budget * weights / weights.sum(),
        "uniform": np.full(rates.size, budget / rates.size),
    }


def over_best(rates: Floats, weights: Floats, budget: float) -> float:
    """Freshness of the best rates for random polls, played at constant intervals, over the optimum."""
    best = unstale.plan(rates, budget, weights=weights)
    azar = unstale.plan(rates, budget, weights=weights, order="purely-random")
    return unstale.perceived_freshness(weights, rates, azar.frequencies) / best.freshness
