"""Limits on the time of many polls at once, with one timer for all of them.

A timer for each poll costs as much as a tenth of the poll. Nobody needs them to the millisecond, so one that
looks after all polls a few times in a second does.
"""

from __future__ import annotations

import asyncio

__all__ = ["Deadlines"]

_TICK = 0.2


class Deadlines:
    """Ends what takes too long, up to a fifth of a second late."""

    def __init__(self) -> None:
        self._ends: dict[asyncio.Timeout, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, seconds: float) -> asyncio.Timeout:
        """Return what to do it in (``async with``; then `stop`); after so long, that raises TimeoutError."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # the timer of another loop is of no use here
            self._loop, self._timer = loop, None
            self._ends.clear()
        limit = asyncio.timeout(None)
        self._ends[limit] = loop.time() + seconds
        if self._timer is None:
            self._timer = loop.call_later(_TICK, self._tick, loop)
        return limit

    def stop(self, limit: asyncio.Timeout) -> None:
        """Forget about it."""
        self._ends.pop(limit, None)

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for limit in [limit for limit, end in self._ends.items() if end <= now]:
            del self._ends[limit]
            limit.reschedule(now)
        self._timer = loop.call_later(_TICK, self._tick, loop) if self._ends else None
