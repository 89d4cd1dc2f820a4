"""One look at a database that serves all who ask at about the same time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

__all__ = ["BatchedProbe"]

T = TypeVar("T")


@dataclass
class _Batch(Generic[T]):
    """Those who get the same answer."""

    answer: asyncio.Future[T]
    names: set[object] = field(default_factory=set)


class BatchedProbe(Generic[T]):
    """Asks once for many.

    Who asks gets an answer that was looked up after they asked. So, if somebody is being answered just now,
    the next look is theirs, together with all who ask until then. With an ``interval``, an answer also serves
    those who ask within so many seconds of the look, if it is about what they ask for.
    """

    def __init__(
        self,
        look: Callable[[frozenset[object]], Awaitable[T]],
        *,
        interval: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look, self._interval, self._clock = look, interval, clock
        self._next: _Batch[T] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._seen: set[object] = set()
        self._last: tuple[float, frozenset[object], T] | None = None

    async def ask(self, names: Iterable[object] = ()) -> T:
        """Return what there is to say about ``names``."""
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
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_on())
        return await asyncio.shield(batch.answer)

    async def _look_on(self) -> None:
        while self._next is not None:
            batch, self._next = self._next, None
            if self._interval > 0:  # so that one look is about all that is asked for now and then
                self._seen |= batch.names
                batch.names |= self._seen
            begun, names = self._clock(), frozenset(batch.names)
            try:
                answer = await self._look(names)
            except asyncio.CancelledError:
                batch.answer.cancel()
                raise
            except Exception as error:  # noqa: BLE001  (raised to all who asked)
                batch.answer.set_exception(error)
                continue
            if self._interval > 0:
                self._last = begun, names, answer
            batch.answer.set_result(answer)

    async def close(self) -> None:
        """Look no more."""
        if self._looking is not None and not self._looking.done():
            self._looking.cancel()
            await asyncio.wait([self._looking])
        if self._next is not None:
            self._next.answer.cancel()
            self._next = None
