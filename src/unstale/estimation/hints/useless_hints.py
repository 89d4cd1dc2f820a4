"""Whether hints say anything, if few polls saw no change.

If hints say nothing, polls are unchanged with chances that depend on their elapsed times alone. Given how
many were, it is a matter of chance which ones, and so how many hints came before these. Fewer than chance
would have it speak for the hints. With few such polls the usual distribution of a ratio of likelihoods is a
poor guide, but that chance can be had as it is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import signal

from unstale.arguments import Floats

__all__ = ["chance_of_fewer"]

_STEPS = 1000
"""More hints than these are counted in larger units."""
_ALL = 4096
"""Of more polls, some are taken as if the same one could be taken again."""


def chance_of_fewer(unchanged: Floats, hints: Floats, polls: int, false: float) -> float:
    """Return how likely it is that so many unchanged polls come after ``false`` hints, or fewer.

    ``unchanged`` has the chance of each poll to see no change.

    >>> round(chance_of_fewer(np.full(4, 0.3), np.array([0.0, 1.0, 2.0, 2.0]), 2, 1.0), 6)  # a pair of six
    0.166667
    """
    unit = max(false / _STEPS, 1.0)
    most = int(false // unit)
    counts = np.minimum(hints // unit, most + 1).astype(np.int64)
    if hints.size > _ALL:
        return _again(unchanged, counts, polls, most)
    odds = np.zeros((polls + 1, most + 2))  # by polls and hints; the last column is for all that are more
    odds[0, 0] = 1.0
    for chance, count in zip(unchanged.tolist(), counts.tolist(), strict=True):
        taken = np.zeros_like(odds[:-1])
        taken[:, count:] = odds[:-1, : most + 2 - count]
        taken[:, -1] += odds[:-1, most + 2 - count :].sum(axis=1)
        odds *= 1.0 - chance
        odds[1:] += chance * taken
    total = float(odds[-1].sum())
    return float(odds[-1, :-1].sum()) / total if total > 0 else 1.0  # it cannot be so at all


def _again(unchanged: Floats, counts: NDArray[np.int64], polls: int, most: int) -> float:
    """Take polls one after the other, each in proportion to its odds."""
    odds = unchanged / np.maximum(1.0 - unchanged, 1e-300)
    one = np.bincount(counts, odds / odds.sum(), most + 2)[:-1]
    all_ = np.ones(1)
    for _ in range(polls):
        all_ = np.maximum(signal.convolve(all_, one)[: most + 1], 0.0)
    return float(all_.sum())
