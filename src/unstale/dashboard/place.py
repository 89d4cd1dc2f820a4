"""How requests reach the mirror.

What waits for the store is done in threads, never in the event loop. What takes long and is asked for by
every page, such as the status of a million elements, is kept for a moment, and worked out once at a time
however many ask for it. Reads of copies are counted in memory and written together.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from math import inf
from typing import Any, TypeVar

from ..errors import Trouble
from ..mirror.insight import Status
from ..mirror.mirror import Mirror

__all__ = ["Place"]

_T = TypeVar("_T")
_WRITE_READS = 2.0
"""Seconds after which reads are written."""


class Place:
    """A mirror that somebody else may be running, open for many requests at a time."""

    def __init__(self, mirror: Mirror, *, fresh_for: float = 2.0, threads: int = 8) -> None:
        self.mirror = mirror
        self.fresh_for = fresh_for
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="unstale-dashboard")
        self._kept: dict[str, tuple[float, Any]] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._reads: Counter[int] = Counter()
        self._writing: asyncio.Task[None] | None = None

    async def do(self, work: Callable[[Mirror], _T]) -> _T:
        """Do something that may wait for the store or take a while, in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, self.mirror)

    async def kept(self, name: str, work: Callable[[Mirror], _T], *, fresh_for: float | None = None) -> _T:
        """Do something at most once in a while, and return what it gave the last time."""
        lock = self._locks.setdefault(name, asyncio.Lock())
        limit = self.fresh_for if fresh_for is None else fresh_for
        async with lock:
            at, value = self._kept.get(name, (-inf, None))
            if time.monotonic() > at + limit:
                value = await self.do(work)
                self._kept[name] = time.monotonic(), value
            return value

    def forget(self) -> None:
        """Look anew at everything: something has been changed from here."""
        self._kept.clear()

    async def status(self) -> Status:
        """Return how fresh the mirror is; at most some seconds old."""
        return await self.kept("status", Mirror.status)

    def read(self, element: int) -> None:
        """Count a read of a copy."""
        self._reads[element] += 1
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_soon())

    async def _write_soon(self) -> None:
        await asyncio.sleep(_WRITE_READS)
        await self._write()

    async def _write(self) -> None:
        reads, self._reads = self._reads, Counter()
        if not reads:
            return

        def write(mirror: Mirror) -> None:
            with mirror.store.begin() as t:
                t.read(reads, mirror.clock.now())

        try:
            await asyncio.shield(self.do(write))  # also while we are being closed
        except (Trouble, OSError):  # they are written with the next ones
            self._reads.update(reads)

    async def close(self) -> None:
        """Write what has been counted, and let go of the mirror."""
        if self._writing is not None:
            self._writing.cancel()
            with suppress(asyncio.CancelledError):
                await self._writing
        await self._write()
        self._threads.shutdown(wait=True)
        self.mirror.close()
