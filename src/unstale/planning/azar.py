"""Allocations that are optimal if the polls come at random times, by Azar et al. (PNAS 2018).

Under purely random polls a copy is fresh with probability f/(f+rate), and the best frequencies have a closed
form: an element is polled while its threshold, the worth of its first poll, exceeds the price. Sorting by the
threshold finds the price. Played at constant intervals, the frequencies come close to the optimum for those.

The paper keeps two totals and subtracts from them each element that it drops, which loses all digits when the
dropped elements outweigh the rest. Here the totals are built up from the highest threshold down, and nothing
is subtracted but the demand from the budget.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..arguments import Floats, numbers, scalar
from ..errors import InvalidInput

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def random_optimal(rates: ArrayLike, weights: ArrayLike, sizes: ArrayLike, budget: float) -> Floats:
    """Best frequencies for freshness under purely random polls (Azar et al. 2018, Algorithm 2).

    Maximises the sum of weight * f/(f+rate) where size * f adds up to the budget:
    f = rate * (sqrt(weight / (price * size * rate)) - 1), but at least 0. Sizes are not in the paper.

    Parameters
    ----------
    rates, weights, sizes
        Change rate, weight and cost of a poll of each element.
    budget
        What may be spent per unit of time.

    An element that never changes, or that nobody wants, gets nothing. If no element changes, all are polled
    alike.

    >>> random_optimal([1.0, 1.0, 4.0], [1.0, 9.0, 1.0], 1.0, budget=2.0).tolist()
    [0.0, 2.0, 0.0]
    >>> random_optimal([1.0, 1.0, 4.0], [1.0, 9.0, 1.0], 1.0, budget=6.0).tolist()
    [1.0, 5.0, 0.0]
    """
    rate, weight, size = _elements(rates, weights, sizes)
    total = scalar("budget", budget, at_least=0)
    wanted = (rate > 0) & (weight > 0)
    if total == 0 or not wanted.any():
        return np.full(rate.shape, total / size.sum())
    rate, weight, cost = rate[wanted], weight[wanted], size[wanted]
    with np.errstate(over="ignore", under="ignore"):
        load = _within_range(rate / total * cost)
        shares = _shares(load, _within_range(weight / weight.max() / load))
        frequencies = np.zeros(wanted.shape)
        frequencies[wanted] = shares * total / cost
    return frequencies


def random_optimal_slots(changes: ArrayLike, weights: ArrayLike) -> Floats:
    """Best poll probabilities if one element is polled in each slot of time (Azar et al. 2018, Algorithm 1).

    Maximises the sum of weight * p/(p+d-pd) where the probabilities p add up to 1 and d is the probability of
    a change in a slot: p = d/(1-d) * (sqrt(weight / (price * d)) - 1), but at least 0. The paper leaves out
    d = 1, where each poll is worth the same, and the element of the largest weight takes what others leave.

    >>> random_optimal_slots([0.5, 0.5, 0.5], [1.0, 1.0, 4.0]).tolist()
    [0.0, 0.0, 1.0]
    >>> random_optimal_slots([0.5, 0.5, 1.0], [1.0, 1.0, 1.0]).round(3).tolist()
    [0.414, 0.414, 0.172]
    """
    change, weight, _ = _elements(numbers("changes", changes, above=0, at_most=1), weights, 1.0, "changes")
    wanted = weight > 0
    change, weight = change[wanted], weight[wanted]
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        load = _within_range(change / (1.0 - change))
        probabilities = np.zeros(wanted.shape)
        probabilities[wanted] = _shares(load, _within_range(weight / weight.max() / change))
    return probabilities


def algorithm_2(rates: ArrayLike, weights: ArrayLike, budget: float) -> Floats:
    """Algorithm 2 to the letter of the paper, running totals included: a yardstick for `random_optimal`.

    Where many elements are dropped it may miss the budget by far; do not plan with it.

    >>> algorithm_2([1.0, 1.0, 4.0], [1.0, 9.0, 1.0], budget=6.0).tolist()
    [1.0, 5.0, 0.0]
    """
    rate, weight, _ = _elements(rates, weights, 1.0)
    total = scalar("budget", budget, above=0)
    with np.errstate(all="ignore"):
        threshold = np.where(rate > 0, weight / rate, np.inf)
        order = np.argsort(threshold, kind="stable")
        rate, weight, threshold = rate[order], weight[order], threshold[order]
        root = np.sqrt(weight * rate)
        # the totals when it is element i's turn: everything, less those before i, one after the other
        r = np.subtract.accumulate(np.append(root.sum(), root))[:-1]
        s = np.subtract.accumulate(np.append(rate.sum(), rate))[:-1]
        kept = threshold > (r / (total + s)) ** 2
        frequencies = np.zeros(rate.shape)
        if kept.any():  # from the first that is kept on, the totals do not change, and none is dropped
            first = int(np.argmax(kept))
            frequencies[order[first:]] = root[first:] * (total + s[first]) / r[first] - rate[first:]
    return frequencies


def _elements(
    rates: ArrayLike, weights: ArrayLike, sizes: ArrayLike, name: str = "rates"
) -> tuple[Floats, Floats, Floats]:
    rate = numbers(name, rates, at_least=0, nonempty=True)
    if rate.ndim != 1:
        raise InvalidInput(f"{name} must be one-dimensional; it has shape {rate.shape}")
    weight, size = numbers("weights", weights, at_least=0), numbers("sizes", sizes, above=0)
    for other, array in (("weights", weight), ("sizes", size)):
        if array.shape not in {(), rate.shape}:
            shapes = f"{other} has shape {array.shape}, {name} {rate.shape}"
            raise InvalidInput(f"{other} must be one number or as many as {name}; {shapes}")
    if not weight.any():
        raise InvalidInput("weights must not all be 0")
    return rate, np.broadcast_to(weight, rate.shape), np.broadcast_to(size, rate.shape)


def _within_range(values: Floats) -> Floats:
    """Keep products and roots of such values finite; an infinite load stands for a flat worth."""
    return np.clip(values, 1e-280, 1e280)


def _shares(load: Floats, threshold: Floats) -> Floats:
    """Divide 1 into load * (sqrt(threshold / price) - 1), cut off at 0.

    With the elements by falling threshold t, those before k ask at the price t_k for
    sum of load_j (sqrt(t_j / t_k) - 1), whose terms are built up from differences of neighbours.
    """
    order = np.argsort(-threshold, kind="stable")
    load, threshold = load[order], threshold[order]
    root = np.sqrt(threshold)
    steps = (threshold[:-1] - threshold[1:]) / (root[:-1] + root[1:])
    asked = np.append(0.0, np.cumsum(np.cumsum(load)[:-1] * steps)) / root
    active = max(1, int(np.searchsorted(asked, 1.0)))

    # relative to the last that is polled: all terms are positive, so the shares are good to rounding
    load, threshold, root = load[:active], threshold[:active], root[:active]
    above = root / root[-1]
    excess = (threshold - threshold[-1]) / (threshold[-1] * (1.0 + above))
    spare = max(0.0, 1.0 - float(np.sum(load * excess)))
    shares = np.zeros(order.size)
    shares[order[:active]] = load * (spare / np.sum(load * above) * above + excess)
    return shares
