"""Evidence of elements as bytes: by which half-lives it is kept, and how earlier versions kept it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats

_LIVES = 2.0 ** np.array([1, 3, 5, 7])
"""In rounds: from two to so many that evidence hardly fades."""
HALF_LIVES = np.tile(_LIVES, 2)
_CLOCKS = np.repeat([1, 0], _LIVES.size)
"""By which clock each half-life goes: by the level of the class (1), or by time as it is (0)."""
FORMER_HALF_LIVES = 2.0 ** np.arange(8)
"""Those of earlier versions, all by the clock."""
FORMER_ROWS = np.searchsorted(FORMER_HALF_LIVES, HALF_LIVES)
"""Which of the half-lives of earlier versions stands for each of today's."""
SHORTEST_ROUND, LONGEST_ROUND = 1e-20, 1e20
"""Rounds: evidence is kept in numbers of four bytes, which have no room for more."""
_FORM = b"\x01"
"""The last byte of a row: by today's half-lives."""


def nearest_half_lives(
    lives: NDArray[np.floating[Any]], former: NDArray[np.floating[Any]], clocks: NDArray[np.integer]
) -> NDArray[np.intp]:
    """Return for each half-life which of the former ones is nearest, of those that go by the same clock."""
    far = np.where(clocks[:, None] == clocks, 0.0, np.inf)
    return np.asarray((np.abs(np.log(lives)[:, None] - np.log(former)) + far).argmin(axis=1))


def clocks_of(half_lives: Floats) -> NDArray[np.int64]:
    """Return by which clock each half-life goes; one that is given goes by time."""
    return _CLOCKS if half_lives.size > 1 else np.zeros(half_lives.size, np.int64)


def packed_rows(evidence: NDArray[np.float32], round: float) -> list[bytes]:  # noqa: A002
    """Return rows of evidence as bytes, each with the round under which it is written.

    The last byte says by which half-lives: they have changed since earlier versions.
    """
    end = np.float64(round).tobytes() + _FORM
    return [row.tobytes() + end for row in evidence]


def unpacked_rows(
    rows: Sequence[bytes], shape: tuple[int, ...], unsaid_round: float
) -> Iterator[tuple[NDArray[np.intp], NDArray[Any], Floats]]:
    """Go through rows that were packed: which they are, their evidence, and the rounds of each.

    Those without a round are of older versions; their numbers may have eight bytes. One that is empty, or of
    a strange length, is left out.

    Parameters
    ----------
    rows
        As `packed_rows` returned them.
    shape
        Of the evidence of an element: half-lives, and numbers for each.
    unsaid_round
        The round of those that do not say it.
    """
    numbers_each = int(np.prod(shape))
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    for length, kind, end in (
        (4 * numbers_each + 9, np.float32, 9),
        (4 * numbers_each + 8, np.float32, 8),
        (4 * numbers_each, np.float32, 0),
        (8 * numbers_each, np.float64, 0),
    ):
        which = np.flatnonzero(lengths == length)
        if not which.size:
            continue
        given = b"".join(rows if which.size == len(rows) else [rows[place] for place in which.tolist()])
        table = np.frombuffer(given, np.uint8).reshape(which.size, length)
        found = table[:, : length - end].copy().view(kind).reshape(-1, *shape)
        rounds = np.full(which.size, unsaid_round)
        if end:
            rounds = table[:, length - end : length - end + 8].copy().view(np.float64).ravel()
        if end < 9 and shape[0] > 1:
            found = found[:, FORMER_ROWS].copy()
        yield which, found, rounds


def rescale_rows(evidence: NDArray[Any], rounds: Floats, round: float, half_lives: Floats) -> None:  # noqa: A002
    """Do to rows that were written under other rounds what `Learner.rescale` would have done to them.

    Parameters
    ----------
    evidence, rounds
        The rows, and the round of each.
    round, half_lives
        Those of now.
    """
    if half_lives.size == 1 or (rounds == round).all():
        return
    for other in np.unique(rounds).tolist():
        if SHORTEST_ROUND <= other <= LONGEST_ROUND and other != round:
            which = np.flatnonzero(rounds == other)
            nearest = nearest_half_lives(half_lives, other * HALF_LIVES, clocks_of(half_lives))
            evidence[which] = evidence[which][:, nearest]
