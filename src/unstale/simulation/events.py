"""Sources of events: changes or requests of all elements, drawn from processes or recorded.

A source is asked for one span of time after the other, and holds no more than the events of a span.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats
from unstale.draws import generator_of, key_of
from unstale.operational_time import OperationalClock
from unstale.processes import Gamma, Lognormal, Pareto, Periodic, Poisson, Process, UncertainPoisson, Weibull
from unstale.processes.superposed import Superposed

from .compiled.changes import (
    GAMMA,
    LOGNORMAL,
    PARETO,
    PERIODIC,
    POISSON,
    WEIBULL,
    copy_out,
    draw_changes,
    first_changes,
    gammas,
    look_up,
)

Places = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Events:
    """Events of each element in a span: those of element i are ``times[offsets[i] : offsets[i + 1]]``."""

    offsets: NDArray[np.int64]
    times: Floats


class EventSource(Protocol):
    """Events, span after span."""

    def until(self, end: float) -> Events:
        """Return the events since the last call, before ``end``."""


class Nothing:
    """No events."""

    def __init__(self, n: int) -> None:
        self._events = Events(np.zeros(n + 1, np.int64), np.empty(0))

    def until(self, end: float) -> Events:  # noqa: ARG002  (whenever it is)
        return self._events


class RecordedEvents:
    """Events as they were recorded."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._position = events.offsets[:-1].copy()

    def until(self, end: float) -> Events:
        offsets = np.zeros(self._position.size + 1, np.int64)
        times = np.empty(look_up(self._events.offsets, self._events.times, self._position, end, offsets))
        copy_out(self._events.times, self._position, offsets, times)
        return Events(offsets, times)


class RhythmEvents:
    """Events that come by a rhythm: those of another source, whose time is that of a clock."""

    def __init__(self, source: EventSource, clock: OperationalClock) -> None:
        self._source, self._clock = source, clock

    def until(self, end: float) -> Events:
        events = self._source.until(float(self._clock.at(end)))
        return Events(events.offsets, np.minimum(self._clock.moments(events.times), np.nextafter(end, 0.0)))


_Family = Callable[[Process], tuple[int, Floats, Floats]]
_FAMILIES: dict[type, _Family] = {
    Poisson: lambda law: (POISSON, law.rate, np.asarray(0.0)),
    Pareto: lambda law: (PARETO, law.shape, law.scale),  # type: ignore[attr-defined]
    Weibull: lambda law: (WEIBULL, law.shape, law.scale),  # type: ignore[attr-defined]
    Gamma: lambda law: (GAMMA, law.shape, law.scale),  # type: ignore[attr-defined]
    Lognormal: lambda law: (LOGNORMAL, law.log_mean, law.log_sd),  # type: ignore[attr-defined]
    Periodic: lambda law: (PERIODIC, law.period, np.asarray(0.0)),  # type: ignore[attr-defined]
}


class Drawn:
    """Events of processes, which have been going on for ever at time 0.

    What happens to an element depends on its law, its number and the seed, and on nothing else: not on other
    elements, nor on how time is cut into spans. ``laws`` are processes, each with the places of its elements
    (None: all ``n``).
    """

    def __init__(self, n: int, laws: list[tuple[Process, Places | None]], seed: int, purpose: int) -> None:
        self._n = n
        self._parts: list[_Compiled | _AnyLaw] = []
        for law, places in laws:
            where = np.arange(n) if places is None else places
            for copy, each in enumerate(_copies(law)):
                one, own = each, (seed, purpose, copy)
                if isinstance(one, UncertainPoisson):  # each element has its rate, which we do not know
                    rates = np.empty(where.size)
                    shape = np.ascontiguousarray(np.broadcast_to(one.shape, where.shape))
                    gammas(shape, key_of(*own, 2), where, rates)
                    one = Poisson(rates * one.scale)
                made = _Compiled if type(one) in _FAMILIES else _AnyLaw
                self._parts.append(made(one, where, own))

    def until(self, end: float) -> Events:
        if len(self._parts) == 1 and isinstance(self._parts[0], _Compiled):
            return self._parts[0].until(end)
        places, times = zip(*(part.listed(end) for part in self._parts), strict=True)
        return by_element(self._n, np.concatenate(places), np.concatenate(times))


def _copies(law: Process) -> list[Process]:
    """All processes whose events together are those of the law."""
    if isinstance(law, Superposed):
        return [one for _ in range(law.count) for one in _copies(law.each)]
    return [law]


class _Compiled:
    """Events of one family of laws."""

    def __init__(self, law: Process, places: Places, seed: tuple[int, int, int]) -> None:
        self._kind, a, b = _FAMILIES[type(law)](law)
        self._places, self._key = places, key_of(*seed, 0)
        self._a, self._b = (
            np.ascontiguousarray(np.broadcast_to(part, places.shape)).view() for part in (a, b)
        )
        for part in (self._a, self._b):
            part.flags.writeable = False  # those of laws are, and compiled code takes one kind
        self._rate = float(np.broadcast_to(law.rate, places.shape).sum())
        self._following = np.empty(places.size)
        first_changes(self._kind, self._a, self._b, key_of(*seed, 1), places, self._following)
        self._count = np.zeros(places.size, np.int64)
        self._now = 0.0

    def until(self, end: float) -> Events:
        expected = self._rate * (end - self._now)
        room = int(min(expected + 5.0 * np.sqrt(expected), 1e9)) + 64
        counts = np.zeros(self._places.size, np.int64)
        parts, first = [], 0
        while first < counts.size:
            times = np.empty(room)
            first, drawn = draw_changes(
                first, self._kind, self._a, self._b, self._key, self._places, self._following, self._count,
                end, counts, times,
            )  # fmt: skip
            parts.append(times[:drawn])
            room = room // 8 + 64
        self._now = end
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        return Events(offsets, parts[0] if len(parts) == 1 else np.concatenate([np.empty(0), *parts]))

    def listed(self, end: float) -> tuple[Places, Floats]:
        events = self.until(end)
        return np.repeat(self._places, np.diff(events.offsets)), events.times


class _AnyLaw:
    """Events of a law that is only known by its samples, gap by gap."""

    def __init__(self, law: Process, places: Places, seed: tuple[int, int, int]) -> None:
        self._places = places
        self._following, self._gaps = [], []
        for i, place in enumerate(places.tolist()):
            one, rng = law.element((i,)), generator_of(*seed, place)
            self._following.append(float(one.sample_residual(rng)))
            self._gaps.append(_gaps(one, rng))

    def listed(self, end: float) -> tuple[Places, Floats]:
        times: list[float] = []
        counts = []
        for i, gaps in enumerate(self._gaps):
            before, t = len(times), self._following[i]
            while t < end:
                times.append(t)
                t = max(t + next(gaps), math.nextafter(t, math.inf))
            self._following[i] = t
            counts.append(len(times) - before)
        return np.repeat(self._places, counts), np.array(times)


def _gaps(law: Process, rng: np.random.Generator) -> Iterator[float]:
    while True:
        yield from law.sample(rng, (64,)).tolist()


def by_element(n: int, places: Places, times: Floats) -> Events:
    """Sort events by element, and by time."""
    order = np.lexsort((times, places))
    offsets = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(places, minlength=n), out=offsets[1:])
    return Events(offsets, times[order])
