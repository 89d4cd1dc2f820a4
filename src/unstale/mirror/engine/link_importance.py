"""Importance of pages by the links that lead to them, among the elements of a mirror.

It is PageRank: a reader who follows a link of a page at random, and now and then begins anew at a random
page, is at a page so often. Links are those that were followed (`unstale.mirror.sources.http.links`).

Reference: Cho & Garcia-Molina (1999), section 6, take their pages from WebBase, which crawls by PageRank.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats

_FOLLOWED_SHARE = 0.85
"""Share of steps in which a link is followed."""
_MOST_STEPS = 100
_CLOSE_ENOUGH = 1e-8


def page_rank(pages: NDArray[np.int64], targets: NDArray[np.int64]) -> tuple[NDArray[np.int64], Floats]:
    """Return elements that have links or are linked to, and how important each is; the mean is 1.

    >>> page_rank(np.array([1, 2, 3]), np.array([3, 3, 1]))[1].round(2).tolist()
    [1.39, 0.15, 1.46]
    """
    elements, places = np.unique(np.concatenate([pages, targets]), return_inverse=True)
    count = elements.size
    if not count:
        return elements, np.empty(0)
    start, end = places[: pages.size], places[pages.size :]
    out = np.bincount(start, minlength=count)
    rank: Floats = np.ones(count)
    for _ in range(_MOST_STEPS):
        given = np.bincount(end, rank[start] / out[start], count)
        given += rank[out == 0].sum() / count  # who is at a page without links begins anew
        new = np.asarray((1.0 - _FOLLOWED_SHARE) + _FOLLOWED_SHARE * given, np.float64)
        done = np.abs(new - rank).max() < _CLOSE_ENOUGH
        rank = new
        if done:
            break
    return elements, rank
