"""LambdaCrawl with learned rates (Kolobov et al., NeurIPS 2019): a contestant, as its paper says.

It minimises the harmonic cost: with n changes pending an element costs 1 + 1/2 + ... + 1/n, times its weight.
Polls come at random, at the points of a Poisson process. An element that changes at a rate c and is polled at
a rate f costs ln(1 + c / f) then, and with a price L the best frequency is

    f = (-c + sqrt(c^2 + 4 w c / (L s))) / 2

for a weight w and a size s. It starves nobody. Rates are those of maximum likelihood, from all that polls
saw; half a change and half a poll without one, both in an imaginary interval, keep them finite and above 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats

from .policies import EstimatingPolicy, Outcomes

__all__ = ["harmonic_frequencies", "lambda_crawl", "smoothed_rates"]

_HALVINGS = 60
"""Halvings of an interval in which a root is looked for."""
_MORE_TO_GO_BY = 1.05
"""Polls, as a multiple of those at the last plan, after which it is planned anew."""


def harmonic_frequencies(rates: Floats, budget: float, weights: Floats, sizes: Floats) -> Floats:
    """Return the frequencies that minimise the harmonic cost of Poisson polls within a budget.

    >>> harmonic_frequencies(np.array([1.0, 1.0]), 4.0, np.ones(2), np.ones(2)).tolist()
    [2.0, 2.0]
    """

    def frequencies(price: float) -> Floats:
        # the same root, without the difference of nearly equal numbers
        more = 4.0 * weights / (price * sizes)
        return np.asarray(0.5 * more / (1.0 + np.sqrt(1.0 + more / np.maximum(rates, 1e-300))), np.float64)

    low, high = -690.0, 690.0
    for _ in range(2 * _HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if frequencies(np.exp(middle)) @ sizes > budget else (low, middle)
    found = frequencies(np.exp(0.5 * (low + high)))
    total = float(found @ sizes)
    return found * (budget / total) if total > 0 else np.full(rates.size, budget / sizes.sum())


def smoothed_rates(
    elements: NDArray[np.intp], elapsed: Floats, changed: NDArray[np.bool_], n: int, imaginary: float
) -> Floats:
    """Return the likeliest rate of each of n elements; ``imaginary`` is the interval that smooths them."""
    seen, times = elements[changed], elapsed[changed]
    quiet = np.bincount(elements[~changed], elapsed[~changed], n) + 0.5 * imaginary
    low, high = np.full(n, -40.0), np.full(n, 40.0)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        rate = np.exp(middle) / imaginary
        with np.errstate(over="ignore"):
            pull = np.bincount(seen, times / np.expm1(np.minimum(rate[seen] * times, 700.0)), n)
            pull = pull + 0.5 * imaginary / np.expm1(np.minimum(rate * imaginary, 700.0))
        too_low = pull > quiet
        low, high = np.where(too_low, middle, low), np.where(too_low, high, middle)
    return np.asarray(np.exp(0.5 * (low + high)) / imaginary, np.float64)


def lambda_crawl(n: int, budget: float, weights: Floats, sizes: Floats, *, seed: int) -> EstimatingPolicy:
    """Return the policy; it polls all elements equally often at first, at random."""
    estimator = _ImaginaryPolls(weights, sizes)
    return EstimatingPolicy(n, budget, sizes, estimator, seed=seed, order="purely-random")


class _ImaginaryPolls:
    """Frequencies for the harmonic cost, from rates that polls have shown so far."""

    def __init__(self, weights: Floats, sizes: Floats) -> None:
        self._weights, self._sizes = weights, sizes
        self._seen: list[Outcomes] = []
        self._heard, self._planned = 0, 0

    def frequencies(self, outcomes: Outcomes, budget: float) -> Floats | None:
        self._seen.append(outcomes)
        self._heard += outcomes.times.size
        if not self._heard or self._heard < _MORE_TO_GO_BY * self._planned or not budget > 0:
            return None
        self._planned = self._heard
        elements, elapsed, changed = (
            np.concatenate([getattr(part, name)[part.ok] for part in self._seen])
            for name in ("elements", "elapsed", "changed")
        )
        rates = smoothed_rates(
            elements, elapsed, changed, self._sizes.size, float(self._sizes.sum() / budget)
        )
        return harmonic_frequencies(rates, budget, self._weights, self._sizes)
