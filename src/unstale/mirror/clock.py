"""What time it is, for the mirror: the real time, or a simulated one that skips whatever is idle.

Times are seconds since 1970. The worker never asks the machine: it is given a clock, so that tests and the
demo run the real worker, with real polls, on simulated time.

Workers on one PostgreSQL go by the clock of its server, so that their slots are the same moments whatever the
clocks of their machines say: each reads it when it starts and every few seconds (`Transaction.clock`), and
gives the readings to its own (`Clock.go_by`), which goes on by the steady clock of the machine in between.

A clock that is set has one path through the code. `Clock.jump` notices it, once in a turn of the worker and
nowhere else; until then the time goes on as before. `Worker._clock_was_set` moves all moments that the worker
holds by as much: of polls that have begun or are not recorded yet, of groups that must wait, of chores and of
troubles; polls that have not begun are given back. Then it lets the planner go: the next one reads all other
moments from the store, and mends those that cannot be (`Planner._mend`; of polls that it had not heard of,
`Planner._listen`), as it does at every start, since the clock may have been set while nothing ran.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from math import inf
from typing import NamedTuple, Protocol

_NOT_HELD = nullcontext()
_LONGEST_SLEEP_SECONDS = 3600.0
"""After which a wait looks at the clock again."""
_SMALLEST_JUMP_SECONDS = 2.0
"""By which the time must have been set for that to be told."""
_READINGS = 5
"""Of the two clocks of the machine, to compare them."""
_READINGS_KEPT = 8
"""Of another clock, the surest of which counts."""
_TURNS_TO_SETTLE = 3
"""Turns of the event loop in which whatever is ready to run has run."""


class ClockReading(NamedTuple):
    """What another clock said."""

    ahead: float
    """Seconds by which it is ahead of the steady clock of this machine."""
    within: float
    """How wrong that may be, either way: half the time that it took to ask."""


class Clock(Protocol):
    """Tells the time, and waits."""

    def now(self) -> float:
        """Return the time."""

    async def until(self, moment: float) -> None:
        """Wait until a moment."""

    def reached(self, moment: float) -> bool:
        """Tell whether it is as good as that moment."""

    def busy(self) -> AbstractContextManager[None]:
        """Say that what is done in here takes the machine's time: a simulated clock stands still."""

    async def pause(self, moment: float) -> None:
        """Wait until a moment in the middle of something that is `busy`."""

    def jump(self) -> float:
        """Return by how many seconds the time has been set forward (or back) since this was last asked."""

    def go_by(self, reading: ClockReading) -> None:
        """Go by another clock from now on, which said this."""

    @property
    def skew(self) -> float:
        """By how many seconds the time of the machine is ahead of the clock that this one goes by."""


def _ahead_of_steady() -> float:
    """Return by how much the time of the machine is ahead of its steady clock.

    Both are read several times, since on a busy machine a while may pass in between.
    """
    readings = ((time.monotonic(), time.time(), time.monotonic()) for _ in range(_READINGS))
    before, now, after = min(readings, key=lambda reading: reading[2] - reading[0])
    return now - 0.5 * (before + after)


class RealClock:
    """The time of the machine.

    It goes by the steady clock; if someone sets the time of the machine, `jump` notices, and from then on it
    goes from there.
    """

    def __init__(self) -> None:
        self._offset = _ahead_of_steady()
        self._readings: tuple[ClockReading, ...] = ()
        """The last ones of the clock to go by; none: it is that of the machine."""
        self._no_earlier = -inf
        """The time stands still until then: it was ahead by a little."""

    def now(self) -> float:
        """Return the time."""
        return max(time.monotonic() + self._offset, self._no_earlier)

    async def until(self, moment: float) -> None:
        """Wait until a moment."""
        while (left := moment - self.now()) > 0:  # noqa: ASYNC110  (the time may be set meanwhile)
            await asyncio.sleep(min(left, _LONGEST_SLEEP_SECONDS))

    def reached(self, moment: float) -> bool:
        """Tell whether a moment has come."""
        return moment <= self.now()

    def busy(self) -> AbstractContextManager[None]:
        """Say that something is being done."""
        return _NOT_HELD

    async def pause(self, moment: float) -> None:
        """Wait until a moment."""
        await self.until(moment)

    def jump(self) -> float:
        """Return by how many seconds the time has been set, and go by the new time.

        A step of less than two seconds is no jump: it is followed forward, and not back, so that time goes
        back only when this says so; where another clock is gone by, time stands still instead.
        """
        by = self._ahead() - self._offset
        if abs(by) > _SMALLEST_JUMP_SECONDS:
            self._offset, self._no_earlier = self._offset + by, -inf
            return by
        if by < 0 and self._readings:
            self._no_earlier = self.now()
            self._offset += by
        self._offset += max(by, 0.0)
        return 0.0

    def _ahead(self) -> float:
        """Return by how much the clock to go by is ahead of the steady one: the surest reading tells."""
        if not self._readings:
            return _ahead_of_steady()
        return min(self._readings, key=lambda reading: reading.within).ahead

    def go_by(self, reading: ClockReading) -> None:
        """Go by another clock from now on: at once if it is the first reading, else as `jump` says."""
        before = self._readings[-_READINGS_KEPT + 1 :]
        if not before:
            self._offset = reading.ahead
        elif abs(reading.ahead - self._ahead()) > reading.within + _SMALLEST_JUMP_SECONDS:
            before = ()  # that clock was set
        self._readings = (*before, reading)

    @property
    def skew(self) -> float:
        """By how many seconds the time of the machine is ahead of the clock that this one goes by."""
        return _ahead_of_steady() - self._ahead() if self._readings else 0.0


class SimulatedClock:
    """A time that stands still while anything is being done, and skips to the next moment somebody waits for.

    Moments less than ``grain`` seconds apart are one: all who wait for them go on together.

    >>> clock = SimulatedClock(1000.0)
    >>> async def wait():
    ...     await clock.until(5000.0)
    ...     return clock.now()
    >>> asyncio.run(wait())
    5000.0
    """

    def __init__(self, start: float = 0.0, *, grain: float = 0.0, turns: int = _TURNS_TO_SETTLE) -> None:
        self._now = start
        self._grain = grain
        self._turns = turns
        """Turns of the event loop until it skips ahead: more, if tasks wait for one another in a row."""
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._number = itertools.count()
        self._busy = 0
        self._asked: asyncio.AbstractEventLoop | None = None
        """The loop in which it will settle; one that has ended never does."""

    def now(self) -> float:
        """Return the time."""
        return self._now

    async def until(self, moment: float) -> None:
        """Wait until a moment."""
        if moment <= self._now:
            await asyncio.sleep(0)
            return
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (moment, next(self._number), future))
        self._look()
        await future

    def reached(self, moment: float) -> bool:
        """Tell whether a moment has come, or is less than a grain ahead."""
        return moment <= self._now + self._grain

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Hold the time still."""
        self._busy += 1
        try:
            yield
        finally:
            self._busy -= 1
            self._look()

    async def pause(self, moment: float) -> None:
        """Wait until a moment; meanwhile the time goes on."""
        self._busy -= 1
        try:
            await self.until(moment)
        finally:
            self._busy += 1

    def jump(self) -> float:
        """Return 0: nobody sets this clock."""
        return 0.0

    def go_by(self, reading: ClockReading) -> None:
        """Go on as before."""

    @property
    def skew(self) -> float:
        """Return 0: no machine has a say."""
        return 0.0

    def _look(self) -> None:
        """Skip ahead once whatever is ready to run has run."""
        loop = asyncio.get_running_loop()
        if self._asked is not loop:
            self._asked = loop
            loop.call_soon(self._settle, self._turns)

    def _settle(self, turns: int) -> None:
        """Give others some turns of the event loop, then skip ahead if all of them wait."""
        if turns:
            asyncio.get_running_loop().call_soon(self._settle, turns - 1)
            return
        self._asked = None
        while self._waiting and self._waiting[0][2].done():
            heapq.heappop(self._waiting)
        if self._busy or not self._waiting:
            return
        self._now = max(self._now, self._waiting[0][0])
        while self._waiting and self._waiting[0][0] <= self._now + self._grain:
            future = heapq.heappop(self._waiting)[2]
            if not future.done():
                future.set_result(None)
        if self._waiting:
            self._look()
