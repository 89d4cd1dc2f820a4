"""What polling by a rhythm buys in the long run, and what given moments of polls buy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unstale import kernels
from unstale.arguments import Floats, numbers, scalar
from unstale.errors import InvalidInput
from unstale.processes import Process

from .clock import OperationalClock, gamma_of
from .compiled.rhythm_worth import costs_between, next_moment_within, run_long

_SETTLING_PERIODS, _COUNTED_PERIODS, _MOST_POLLS = 20.0, 60.0, 20_000
"""Periods that pass before polls are counted, and for which they are; and polls at most."""


class LongRun(NamedTuple):
    """What an element gets at a price."""

    frequency: float
    freshness: float


def freshness_of_polls(
    clock: OperationalClock, law: Process | ArrayLike, times: ArrayLike, *, repeat: float | None = None
) -> float:
    """Return the mean freshness of an element between the first and the last of given polls.

    Parameters
    ----------
    clock
        The rhythm of its changes.
    law
        The rate of Poisson changes per unit of operational time, or an `UncertainPoisson`.
    times
        The moments of its polls, in order.
    repeat
        The polls come again after so long, for ever: the mean is over that time.

    Examples
    --------
    >>> clock = OperationalClock([0.0, 1.0, 0.0, 0.0], period=1.0)
    >>> [round(freshness_of_polls(clock, 1.0, [t], repeat=1.0), 3) for t in (0.2, 0.5)]
    [0.466, 0.908]
    """
    moments = np.atleast_1d(np.asarray(numbers("times", times), float))
    if repeat is not None:
        moments = np.append(moments, moments[0] + scalar("repeat", repeat, above=0))
    if moments.size < 2 or (np.diff(moments) < 0).any() or moments[-1] <= moments[0]:
        raise InvalidInput(f"times must be moments of two polls or more, in order; it is {times!r}")
    shape, time = (float(np.ravel(part)[0]) for part in gamma_of(law))
    cost = np.empty(moments.size - 1)
    costs_between(kernels.FRESHNESS, clock.edges, clock.levels, shape, time, moments[:-1], moments[1:], cost)
    return 1.0 - float(cost.sum()) / float(moments[-1] - moments[0])


def poll_times(
    clock: OperationalClock, law: Process | ArrayLike, price: float, *, start: float, end: float
) -> Floats:
    """Return when an element is polled at a constant price.

    Parameters
    ----------
    clock
        The rhythm of its changes.
    law
        The rate of Poisson changes per unit of operational time, or an `UncertainPoisson`.
    price
        What a poll must be worth.
    start, end
        The moment of a poll, and the time up to which others follow.

    Examples
    --------
    >>> clock = OperationalClock([0.0, 1.0, 0.0, 0.0], period=1.0)
    >>> poll_times(clock, 1.0, 0.2, start=0.0, end=3.2).tolist()
    [0.0, 0.5, 1.5, 2.5]
    """
    shape, time = (float(np.ravel(part)[0]) for part in gamma_of(law))
    moments, wanted = [scalar("start", start)], scalar("price", price, above=0)
    until = scalar("end", end)
    while len(moments) < _MOST_POLLS and moments[-1] < until:
        last = moments[-1]
        reach = min(100.0 * clock.period, until - last)
        following = next_moment_within(
            kernels.FRESHNESS, clock.edges, clock.levels, shape, time, last, wanted, reach
        )
        if not following <= until:
            break
        moments.append(max(following, np.nextafter(last, np.inf)))
    return np.array(moments)


def long_run(clock: OperationalClock, law: Process | ArrayLike, price: float) -> LongRun:
    """Return how often an element is polled at a constant price, and how fresh it is then.

    >>> flat = long_run(OperationalClock([1.0], period=1.0), 1.0, price=0.26424)   # the worth after 1
    >>> round(flat.frequency, 3), round(flat.freshness, 3)
    (1.0, 0.632)
    """
    shape, time = (float(np.ravel(part)[0]) for part in gamma_of(law))
    return long_run_of(kernels.FRESHNESS, clock, shape, time, scalar("price", price, above=0))


def long_run_of(kind: int, clock: OperationalClock, shape: float, time: float, price: float) -> LongRun:
    """Return the same, by the number of an objective and the gamma law of a rate.

    Parameters
    ----------
    kind
        The objective: freshness or age.
    clock
        The rhythm of its changes.
    shape, time
        The gamma law (1/scale) of its rate.
    price
        What a poll must be worth.
    """
    frequency, stale = run_long(
        kind, clock.edges, clock.levels, shape, time, price, _SETTLING_PERIODS, _COUNTED_PERIODS, _MOST_POLLS
    )
    return LongRun(frequency, 1.0 - stale)
