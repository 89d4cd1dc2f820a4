"""Explore and commit (Upadhyay et al., Learning to Crawl, AAAI 2020): a contestant, as its paper says.

It polls all elements equally often for a time that grows with the root of the horizon, estimates their rates
from that, and plans once, for good: the optimal allocation for freshness if polls come at random, at the
points of a Poisson process (Azar et al. 2018). It is told the horizon, which others do not know. Nothing that
polls see later counts, and an element that the plan starves is never polled again.
"""

from __future__ import annotations

import numpy as np

from unstale.arguments import Floats
from unstale.planning import plan

from .lambda_crawl import smoothed_rates
from .policies import EstimatingPolicy, Outcomes

__all__ = ["explore_and_commit"]

_FEWEST_ROUNDS = 2.0
"""Rounds of exploring, at least."""


def explore_and_commit(
    n: int, budget: float, weights: Floats, sizes: Floats, horizon: float, *, seed: int
) -> EstimatingPolicy:
    """Return the policy.

    Parameters
    ----------
    n, budget, weights, sizes, seed
        As for the other policies of the simulation.
    horizon
        How long it polls in all. It explores for the geometric mean of that and of a round, in which the
        budget pays for one poll of each element.
    """
    round_ = float(sizes.sum() / budget) if budget > 0 else np.inf
    until = max(np.sqrt(horizon * round_), _FEWEST_ROUNDS * round_)
    return EstimatingPolicy(
        n,
        budget,
        sizes,
        _Committing(weights, sizes, until),
        seed=seed,
        order="purely-random",
        explore="fixed",
    )


class _Committing:
    """Frequencies that are set once."""

    def __init__(self, weights: Floats, sizes: Floats, until: float) -> None:
        self._weights, self._sizes, self._until = weights, sizes, until
        self._seen: list[Outcomes] = []
        self._committed = False

    def frequencies(self, outcomes: Outcomes, budget: float) -> Floats | None:
        if self._committed or not budget > 0:
            return None
        self._seen.append(outcomes)
        if not outcomes.times.size or outcomes.times.max() < self._until * (1.0 - 1e-9) - self._step(budget):
            return None
        self._committed = True
        elements, elapsed, changed = (
            np.concatenate([getattr(part, name)[part.ok] for part in self._seen])
            for name in ("elements", "elapsed", "changed")
        )
        self._seen = []
        rates = smoothed_rates(elements, elapsed, changed, self._sizes.size, self._step(budget))
        return plan(
            rates, budget, weights=self._weights, sizes=self._sizes, order="purely-random"
        ).frequencies

    def _step(self, budget: float) -> float:
        """Return the length of a round."""
        return float(self._sizes.sum() / budget)
