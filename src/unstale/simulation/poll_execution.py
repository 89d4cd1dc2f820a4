"""How polls are carried out: at once and always with success, or late, slowly and sometimes without."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats, numbers, scalar
from unstale.draws import FATES, key_of
from unstale.errors import InvalidInput
from unstale.schedule import Polls

from .compiled.tracking import carry_out, sort_by_element
from .events import Events

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Conditions:
    """What can happen to polls: mean lateness and mean duration, both exponential, and the share that fails.

    A poll reads the source when it starts, and replaces the copy when it ends. One that fails costs as much.
    An element is never polled twice at the same time: a poll that falls due meanwhile falls away.

    >>> Conditions(takes=0.1, fails=0.05)
    Conditions(late=0.0, takes=0.1, fails=0.05)
    """

    late: float = 0.0
    takes: float = 0.0
    fails: float = 0.0

    def __post_init__(self) -> None:
        scalar("late", self.late, at_least=0)
        scalar("takes", self.takes, at_least=0)
        scalar("fails", self.fails, at_least=0, at_most=1)

    @property
    def numbers(self) -> tuple[float, float, float]:
        """All three, for compiled code."""
        return float(self.late), float(self.takes), float(self.fails)


_IDEAL = Conditions()


@dataclass(frozen=True, eq=False)
class Visits:
    """Polls of each element in a span: when they start and end, and whether they succeed."""

    offsets: NDArray[np.int64]
    start: Floats
    done: Floats
    ok: Bools

    @property
    def columns(self) -> tuple[NDArray[np.int64], Floats, Floats, Bools]:
        """All four, for compiled code."""
        return self.offsets, self.start, self.done, self.ok

    def elements(self) -> NDArray[np.intp]:
        """Return the element of each poll."""
        return np.repeat(np.arange(self.offsets.size - 1), np.diff(self.offsets))


def checked(polls: object, n: int, start: float, end: float) -> Polls:
    """Insist on polls of elements that there are, in the order of time, within a span."""
    parts: list[object] = [polls.times, polls.elements] if isinstance(polls, Polls) else []
    arrays = [part for part in parts if isinstance(part, np.ndarray) and part.ndim == 1]
    if not isinstance(polls, Polls) or len(arrays) < 2 or arrays[0].size != arrays[1].size:
        shown = (
            repr(polls)[:80] if isinstance(polls, Polls) and len(arrays) == 2 else repr(parts or polls)[:80]
        )
        raise InvalidInput(
            f"a policy must return Polls, of an array of times and one of elements; it returned {shown}"
        )
    if not len(polls):
        return polls
    times = numbers("times of polls", polls.times, at_least=start)
    if polls.elements.dtype.kind not in "iu" or polls.elements.min() < 0 or polls.elements.max() >= n:
        raise InvalidInput(
            f"elements of polls must be whole numbers from 0 to {n - 1}; they are {polls.elements!r}"
        )
    if (np.diff(times) < 0).any() or not times[-1] < end:
        raise InvalidInput(
            f"times of polls must rise from {start:g} to below {end:g}; the last is {float(times[-1]):g}"
        )
    return polls


class PollExecutor:
    """Carries polls out, under conditions that may make them late, slow or vain."""

    def __init__(self, n: int, conditions: Conditions, seed: int) -> None:
        self._conditions, self._key = conditions, key_of(seed, FATES)
        self._count = np.zeros(n, np.int64)
        self._waiting = np.full(n, np.inf), np.full(n, -np.inf), np.ones(n, np.bool_)

    def carry_out(self, polls: Polls, end: float) -> Visits:
        """Carry out polls that are due before ``end``, and those that are late from earlier spans."""
        due = Events(np.zeros(self._count.size + 1, np.int64), np.empty(len(polls)))
        sort_by_element(polls.elements, polls.times, due.offsets, due.times)
        if self._conditions == _IDEAL:
            return Visits(due.offsets, due.times, due.times, np.ones(len(polls), np.bool_))
        most = len(polls) + int(np.count_nonzero(self._waiting[0] < end))
        offsets = np.zeros(self._count.size + 1, np.int64)
        start, done, ok = np.empty(most), np.empty(most), np.empty(most, np.bool_)
        made = carry_out(
            end, due.offsets, due.times, self._conditions.numbers, self._key, self._count, self._waiting,
            offsets, (start, done, ok),
        )  # fmt: skip
        return Visits(offsets, start[:made], done[:made], ok[:made])
