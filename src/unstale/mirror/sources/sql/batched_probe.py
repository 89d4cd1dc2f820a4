"""One probe of a database that answers all polls that ask at about the same time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass
class _Batch(Generic[T]):
    """The polls that get the same answer."""

    answer: asyncio.Future[T]
    names: set[object] = field(default_factory=set)


class BatchedProbe(Generic[T]):
    """Probes a database once for many polls.

    A poll gets the answer of a probe that began after the poll asked. If a probe is running, the poll waits
    for the next one, together with all polls that ask until then. With an ``interval``, an answer also serves
    polls that ask within so many seconds after its probe began, if it is about the names that they ask for.
    """

    def __init__(
        self,
        probe: Callable[[frozenset[object]], Awaitable[T]],
        *,
        interval: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._probe, self._interval, self._clock = probe, interval, clock
        self._next: _Batch[T] | None = None
        self._running: asyncio.Task[None] | None = None
        self._names: set[object] = set()
        self._last: tuple[float, frozenset[object], T] | None = None

    async def ask(self, names: Iterable[object] = ()) -> T:
        """Return the answer of a probe of ``names``."""
        wanted = set(names)
        if self._last is not None:
            begun, known, answer = self._last
            if wanted <= known and self._clock() - begun <= self._interval:
                return answer
        if self._next is None:
            answer_to_come = asyncio.get_running_loop().create_future()
            answer_to_come.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
            self._next = _Batch(answer_to_come)
        self._next.names |= wanted
        batch = self._next
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._probe_on())
        return await asyncio.shield(batch.answer)

    async def _probe_on(self) -> None:
        while self._next is not None:
            batch, self._next = self._next, None
            if self._interval > 0:  # one probe covers all names that any poll asks for
                self._names |= batch.names
                batch.names |= self._names
            begun, names = self._clock(), frozenset(batch.names)
            try:
                answer = await self._probe(names)
            except asyncio.CancelledError:
                batch.answer.cancel()
                raise
            except Exception as error:  # noqa: BLE001  (raised in all polls that asked)
                batch.answer.set_exception(error)
                continue
            if self._interval > 0:
                self._last = begun, names, answer
            batch.answer.set_result(answer)

    async def close(self) -> None:
        """Cancel the probe that is running, and those to come."""
        if self._running is not None and not self._running.done():
            self._running.cancel()
            await asyncio.wait([self._running])
        if self._next is not None:
            self._next.answer.cancel()
            self._next = None
