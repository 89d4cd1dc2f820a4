"""How long to wait before the next attempt, after several that failed in a row."""

from __future__ import annotations

_MAX_DOUBLINGS = 30
"""Keeps the power finite, however often attempts fail."""


def doubling_wait(failures: int, *, first: float, longest: float) -> float:
    """Return the seconds to wait: ``first`` after one failure, twice that after two, at most ``longest``.

    >>> [doubling_wait(failures, first=60.0, longest=3600.0) for failures in (1, 2, 3, 1000)]
    [60.0, 120.0, 240.0, 3600.0]
    """
    return min(first * 2.0 ** min(failures - 1, _MAX_DOUBLINGS), longest)
