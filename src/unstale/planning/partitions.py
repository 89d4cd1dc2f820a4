"""Heuristic plans for many elements, by Carney, Lee & Zdonik (ICDE 2003).

Elements are sorted by a key and cut into partitions of equal number, optionally refined by k-means. Each
partition is planned as so many copies of its mean, and each of its elements gets the same frequency, or the
same bandwidth. The optimum itself is within reach today; these serve for comparison.
"""

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from .. import kernels
from ..arguments import Floats, choice, scalar, whole

Key = Literal["p", "rate", "p/rate", "pf", "pfs", "size"]
Division = Literal["bandwidth", "frequency"]
_KEYS = ("p", "rate", "p/rate", "pf", "pfs", "size")
_DIVISIONS = ("bandwidth", "frequency")

Labels = NDArray[np.intp]


class Solve(Protocol):
    """The optimal frequencies where element k stands for ``counts[k]`` elements like it."""

    def __call__(
        self, rates: Floats, weights: Floats, sizes: Floats, budget: float, counts: Floats, /
    ) -> Floats:
        """Maximise the sum of counts*weights*freshness where counts*sizes*frequencies sum to the budget."""
        ...


@dataclass(frozen=True)
class Partitioning:
    """How elements are partitioned, and how a partition's part of the budget is divided (sections 3 to 5).

    >>> Partitioning(key="p", partitions=50, iterations=10)
    Partitioning(key='p', partitions=50, iterations=10, division='bandwidth', frequency=1.0)
    """

    key: Key = "pf"
    """What elements are sorted by: weight (p), change rate, their ratio, size, perceived freshness at a fixed
    frequency (pf), or perceived freshness at a fixed bandwidth (pfs)."""
    partitions: int = 100
    iterations: int = 0
    """Rounds of k-means on weight, rate and size, each as a share of its sum."""
    division: Division = "bandwidth"
    """What elements of a partition have in common; of equal size, they have both."""
    frequency: float = 1.0
    """The fixed frequency of the key pf, and the fixed bandwidth of the key pfs."""

    def __post_init__(self) -> None:
        """Refuse what is not allowed."""
        choice("key", self.key, _KEYS)
        whole("partitions", self.partitions, at_least=1)
        whole("iterations", self.iterations)
        choice("division", self.division, _DIVISIONS)
        scalar("frequency", self.frequency, above=0)


def partitioned(
    policy: Partitioning, rates: Floats, weights: Floats, sizes: Floats, budget: float, solve: Solve
) -> Floats:
    """Frequencies by partitions, from those that ``solve`` finds for their means (section 3.2).

    Partitions that k-means leaves empty are dropped.

    >>> def alike(rates, weights, sizes, budget, counts):
    ...     return np.full(rates.size, budget / np.sum(counts * sizes))
    >>> ones = np.ones(4)
    >>> partitioned(Partitioning(partitions=2), ones, ones, ones, 2.0, alike).tolist()
    [0.5, 0.5, 0.5, 0.5]
    """
    labels = _cut(_key(policy, rates, weights, sizes), policy.partitions)
    labels = _refined(labels, (weights, rates, sizes), policy.iterations)
    counts = np.bincount(labels).astype(np.float64)
    rate, weight, size = (_means(labels, counts, values) for values in (rates, weights, sizes))
    frequency = solve(rate, weight, size, budget, counts)
    return frequency[labels] if policy.division == "frequency" else (frequency * size)[labels] / sizes


def _key(policy: Partitioning, rates: Floats, weights: Floats, sizes: Floats) -> Floats:
    """What elements are sorted by (section 3.1, footnote 3 and section 5.2)."""
    match policy.key:
        case "p":
            return weights
        case "rate":
            return rates
        case "size":
            return sizes
        case "p/rate":  # one that never changes comes last
            with np.errstate(over="ignore"):
                return np.divide(weights, rates, out=np.full(rates.shape, np.inf), where=rates > 0)
    bandwidth = np.asarray(policy.frequency)
    with np.errstate(all="ignore"):
        frequency = bandwidth / sizes if policy.key == "pfs" else bandwidth
        return weights * kernels.freshness(rates, frequency, kernels.FIXED)


def _cut(key: Floats, partitions: int) -> Labels:
    """Number the partitions in the order of the key; their lengths differ by one at most."""
    n = key.size
    labels = np.empty(n, dtype=np.intp)
    labels[np.argsort(key, kind="stable")] = np.arange(n) * min(partitions, n) // n
    return labels


def _refined(labels: Labels, values: tuple[Floats, ...], iterations: int) -> Labels:
    """Move each element to the partition with the nearest mean, so many times (section 4.1.3, footnote 6)."""
    if not iterations:
        return labels
    from scipy.spatial import KDTree

    points = np.column_stack([_portions(column) for column in values])
    for _ in range(iterations):
        counts = np.bincount(labels).astype(np.float64)
        centres = np.column_stack([_means(labels, counts, column) for column in points.T])
        nearest = np.asarray(KDTree(centres).query(points)[1])
        numbers = np.cumsum(np.bincount(nearest) > 0) - 1  # without the partitions that are empty now
        before, labels = labels, numbers[nearest]
        if np.array_equal(before, labels):
            break
    return labels


def _portions(values: Floats) -> Floats:
    """Share of each in the sum, by which the paper makes weights, rates and sizes comparable."""
    largest = values.max()
    if not largest > 0:
        return values
    scaled = values / largest
    return scaled / scaled.sum()


def _means(labels: Labels, counts: Floats, values: Floats) -> Floats:
    """Mean over each partition."""
    return np.bincount(labels, weights=values) / counts
