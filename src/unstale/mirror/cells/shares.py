"""Parts of the budget: what cells are given, so that all together never have more than all of it.

A part that was given counts until it is replaced. A cell that is given less may go on spending what it had
until it says that it goes by the new part; so what it spends is bounded by the largest part since the last
that it has acknowledged. Others are given more only from what is left beside all these bounds. Whatever is
lost, late or repeated on the way, the bounds add up to no more than 1.

A cell that was given less gets no other part before it has acknowledged that one. If each part were replaced
before the cell said that it went by it, its bound would stay for ever, and nobody would have what is between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

_SMALLEST_CHANGE = 0.005
"""Relative change of a part from which on it is worth telling."""
_FLOOR = 0.02
"""Of an equal part that each cell has, so that what is new there gets its first polls."""
_ROUNDING = 1e-9


class Given(NamedTuple):
    """What a cell was given."""

    share: float
    """Its part of the budget."""
    bound: float
    """The largest part that it may be going by."""


def next_shares(given: Sequence[Given], wanted: Sequence[float]) -> list[Given]:
    """Return what cells are given next; ``wanted`` adds up to 1 or less.

    >>> next_shares([Given(0.5, 0.5), Given(0.5, 0.5)], [0.2, 0.8])  # the second waits for the first
    [Given(share=0.2, bound=0.5), Given(share=0.5, bound=0.5)]
    >>> next_shares([Given(0.2, 0.2), Given(0.5, 0.5)], [0.2, 0.8])  # which has acknowledged now
    [Given(share=0.2, bound=0.2), Given(share=0.8, bound=0.8)]
    """
    free = max(1.0 - sum(one.bound for one in given) - _ROUNDING, 0.0)
    late = [one.bound > one.share for one in given]
    wanted = [one.share if wait else wish for one, wish, wait in zip(given, wanted, late, strict=True)]
    more = [max(wish - one.bound, 0.0) for one, wish in zip(given, wanted, strict=True)]
    part = min(1.0, free / sum(more)) if sum(more) > 0 else 0.0
    found = []
    for one, wish, extra in zip(given, wanted, more, strict=True):
        share = min(wish, one.bound + part * extra)
        if abs(share - one.share) < _SMALLEST_CHANGE * one.share:
            share = one.share
        found.append(Given(share, max(one.bound, share)))
    return found


def with_floor(parts: Sequence[float]) -> list[float]:
    """Return parts that add up to 1, none of which is very small; the others keep their proportion.

    >>> with_floor([0.0, 3.0])
    [0.01, 0.99]
    """
    floor, total = _FLOOR / len(parts), sum(parts)
    if not total > 0:
        return [1.0 / len(parts)] * len(parts)
    found = [one / total for one in parts]
    small: set[int] = set()
    while new := {i for i, one in enumerate(found) if one < floor} - small:
        small |= new
        large = sum(one for i, one in enumerate(parts) if i not in small)
        rest = 1.0 - floor * len(small)
        found = [floor if i in small else rest * one / large for i, one in enumerate(parts)]
    return found
