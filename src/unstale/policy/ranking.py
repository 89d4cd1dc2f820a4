"""How polls are put in order: the best first, by turns, within what groups may have, far apart."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats

from .element_table import Places


def leading(first: Floats, second: Floats | NDArray[np.int64], count: int) -> Places:
    """Return where the ``count`` largest of ``first`` are, the largest first; the lower ``second`` of equals.

    >>> leading(np.array([1.0, 3.0, 3.0, 2.0]), np.array([0.0, 9.0, 8.0, 7.0]), 3).tolist()
    [2, 1, 3]
    """
    chosen = np.arange(first.size)
    if count < first.size:
        bound = -np.partition(-first, count - 1)[count - 1]
        above, equal = np.flatnonzero(first > bound), np.flatnonzero(first == bound)
        missing = count - above.size
        if missing < equal.size:
            equal = equal[np.argpartition(second[equal], missing - 1)[:missing]]
        chosen = np.concatenate([above, equal])
    return chosen[np.lexsort((second[chosen], -first[chosen]))]


def leading_within(
    first: Floats,
    second: Floats | NDArray[np.int64],
    groups: NDArray[np.integer],
    count: int,
    free: Callable[[NDArray[np.integer]], NDArray[np.int64]],
) -> Places:
    """Return the `leading` ones, but of each group no more than are ``free``; about ``count`` of them.

    It looks at more and more of them until a quarter of ``count`` are found, or there are no others.
    """
    tried = min(count, first.size)
    while True:
        best = leading(first, second, tried)
        kept = best[within_groups(groups[best], free)]
        if tried >= first.size or kept.size >= count // 4:
            return kept
        tried = min(4 * tried, first.size)


def within_groups(
    groups: NDArray[np.integer], free: Callable[[NDArray[np.integer]], NDArray[np.int64]]
) -> NDArray[np.bool_]:
    """Tell which of a list are among as many of their group as are free.

    >>> within_groups(np.array([5, 5, 7, 5]), lambda groups: np.full(groups.size, 2)).tolist()
    [True, True, True, False]
    """
    if not groups.size:
        return np.zeros(0, np.bool_)
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    lengths = np.diff(np.r_[starts, groups.size])
    kept = np.empty(groups.size, np.bool_)
    rank = np.arange(groups.size) - np.repeat(starts, lengths)
    kept[order] = rank < np.repeat(free(ordered[starts]), lengths)
    return kept


def turns(first: int, second: int, lead: float, share: float = 0.5) -> Places:
    """Put two lists, one after the other, in the order of turns as long as there are both.

    Parameters
    ----------
    first, second
        How long the lists are.
    lead
        By how much others have had more than their share: the first list begins unless that is negative.
    share
        Of the first list.

    >>> turns(3, 2, 0).tolist(), turns(3, 2, -1).tolist()
    ([0, 3, 1, 4, 2], [3, 0, 4, 1, 2])
    >>> turns(2, 6, 0, 0.25).tolist()
    [0, 2, 3, 4, 1, 5, 6, 7]
    """
    had = min(max(lead, share - 1.0), 0.0)
    before = np.ceil((np.arange(first) * (1.0 - share) - had) / share - 1e-9)
    return np.argsort(np.concatenate([before - 0.5, np.arange(second)]), kind="stable")


def lead_after(lead: float, is_first: NDArray[np.bool_], share: float = 0.5) -> float:
    """Return the lead that `turns` goes by after these turns.

    >>> lead_after(0.0, np.array([True, False])), lead_after(0.0, np.array([True]), 0.25)
    (0.0, -0.75)
    """
    return float(lead + np.sum(np.where(is_first, share - 1.0, share)))


def far_apart(polls: Places) -> Places:
    """Return the order of polls, of which the best come first: as it is, but those of one element far apart.

    >>> far_apart(np.array([4, 4, 9, 8])).tolist()
    [0, 2, 1, 3]
    """
    _, which, counts = np.unique(polls, return_inverse=True, return_counts=True)
    order = np.argsort(which, kind="stable")
    turn = np.empty(polls.size)
    turn[order] = np.arange(polls.size) - np.repeat(np.cumsum(counts) - counts, counts) + 0.5
    several = counts[which] > 1
    wish = np.where(several, turn / counts[which], (np.arange(polls.size) + 0.5) / polls.size)
    return np.argsort(wish, kind="stable")
