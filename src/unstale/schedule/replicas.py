"""Several replicas of one source, each with its own schedule (Li, Cline & Loguinov 2015, section VI-D).

What counts is the freshest replica. If they take turns at equal distances, they are as good as one that polls
as often as all of them; if each polls for itself, their polls come in clusters, and the more there are, the
more they look like random ones. `unstale.renewal.replicas` has the formulas.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unstale.arguments import Order, whole
from unstale.draws import REPLICAS, generator_of
from unstale.errors import InvalidInput

from .orders import Schedule, flag, frequencies_of, spread
from .polls import Polls, Stream, one_by_one


def replicas(
    frequencies: ArrayLike,
    count: int,
    *,
    coordinated: bool = True,
    order: Order = "fixed",
    seed: int = 0,
    start: float = 0.0,
) -> list[Schedule]:
    """Return the schedules of several replicas.

    Parameters
    ----------
    frequencies
        Polls per unit time of each element, by each replica.
    count
        The number of replicas.
    coordinated
        Coordinated replicas are in fixed order and take turns; others are in any order, with phases of their
        own.
    order, seed, start
        As in `Schedule`.

    Examples
    --------
    >>> first, second = replicas([1.0], 2)
    >>> (second.until(1.0).times - first.until(1.0).times).tolist()
    [0.5]
    """
    f, count = frequencies_of(frequencies), whole("count", count, at_least=1)
    if flag("coordinated", coordinated):
        if order != "fixed":
            raise InvalidInput(
                f"coordinated replicas take turns at equal distances, in fixed order; order is {order!r}"
            )
        first = spread(np.arange(f.size)) / count
        return [Schedule(f, phases=first + k / count, seed=seed, start=start) for k in range(count)]
    rng = generator_of(whole("seed", seed), REPLICAS)
    return [
        Schedule(
            f,
            order=order,
            phases=rng.random(f.size) if order == "fixed" else None,
            seed=int(rng.integers(2**63)),
            start=start,
        )
        for _ in range(count)
    ]


class Together:
    """The polls of several schedules of the same elements, as one: what the freshest replica goes through.

    >>> [len(polls) for polls in Together(replicas([1.0, 2.0], 3)).with_replica(10.0)[:1]]
    [90]
    """

    def __init__(self, schedules: Sequence[Stream]) -> None:
        self._schedules = list(schedules)
        if not self._schedules:
            raise InvalidInput("schedules must not be empty; give at least one")
        for name in ("now", "__len__"):
            values = {one.now if name == "now" else len(one) for one in self._schedules}
            if len(values) > 1:
                what = "moment" if name == "now" else "number of elements"
                raise InvalidInput(f"schedules must have the same {what}; they have {sorted(values)}")

    @property
    def now(self) -> float:
        return self._schedules[0].now

    @property
    def rate(self) -> float:
        return sum(one.rate for one in self._schedules)

    def __len__(self) -> int:
        return len(self._schedules[0])

    def __iter__(self) -> Iterator[tuple[float, int]]:
        return one_by_one(self)

    def until(self, end: float) -> Polls:
        return self.with_replica(end)[0]

    def with_replica(self, end: float) -> tuple[Polls, NDArray[np.int64]]:
        """Draw the polls before ``end``, and the number of the replica that each is for."""
        drawn = [one.until(end) for one in self._schedules]
        times = np.concatenate([polls.times for polls in drawn])
        order = np.argsort(times, kind="stable")
        elements = np.concatenate([polls.elements for polls in drawn])
        which = np.repeat(np.arange(len(drawn)), [len(polls) for polls in drawn])
        return Polls(times[order], elements[order]), which[order]
