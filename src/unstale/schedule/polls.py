"""What a schedule gives: polls in the order of time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats, scalar
from unstale.errors import InvalidInput

Elements = NDArray[np.int64]
"""Numbers of elements: their places in the allocation."""

_POLLS_PER_BLOCK = 1 << 16


@dataclass(frozen=True, eq=False)
class Polls:
    """Polls in the order of time: the moment of each, and the number of the element.

    >>> Polls(np.array([0.5, 1.0]), np.array([1, 0]))
    Polls(2 from 0.5 to 1)
    """

    times: Floats
    elements: Elements

    def __len__(self) -> int:
        return self.times.size

    def __repr__(self) -> str:
        ends = f" from {self.times[0]:g} to {self.times[-1]:g}" if len(self) else ""
        return f"Polls({len(self)}{ends})"


class Stream(Protocol):
    """What every schedule is: an endless stream of polls, drawn span by span."""

    @property
    def now(self) -> float:
        """The moment up to which polls have been drawn."""

    @property
    def rate(self) -> float:
        """Polls per unit time, in the long run."""

    def __len__(self) -> int:
        """Elements, polled or not."""

    def until(self, end: float) -> Polls:
        """Draw the polls from now on to just before ``end``, which is now afterwards."""


def later(now: float, end: float) -> float:
    """Return a moment, checked that it is not before now."""
    moment = scalar("end", end)
    if moment < now:
        raise InvalidInput(f"end must not be before now, which is {now:g}; end is {moment:g}")
    return moment


def some(stream: Stream) -> Iterator[Polls]:
    """Draw polls in blocks of a convenient length, for ever; end if there are none."""
    while stream.rate > 0:
        yield stream.until(stream.now + max(len(stream), _POLLS_PER_BLOCK) / stream.rate)


def one_by_one(stream: Stream) -> Iterator[tuple[float, int]]:
    """Draw (time, element), one after the other, for ever; end if there are none."""
    for polls in some(stream):
        yield from zip(polls.times.tolist(), polls.elements.tolist(), strict=True)
