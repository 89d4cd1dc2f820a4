"""Time limits of many polls, kept by one timer.

A timer for each poll would cost a tenth of the poll. The limits need not be exact to the millisecond, so one
timer checks all polls five times in a second.
"""

from __future__ import annotations

import asyncio
from math import inf
from time import monotonic
from typing import Any, Protocol

_TICK_SECONDS = 0.2
"""Between two checks of all polls."""
_STALL_SECONDS = 1.0
"""If the timer is later than this, the process stood still."""


class Waiting(Protocol):
    """A poll that may wait for the other side."""

    since: float
    """Since when (`time.monotonic`) the other side is silent; infinite if the poll expects nothing of it."""


class Deadlines:
    """Cancels tasks that take too long, up to a fifth of a second late."""

    def __init__(self, silence: float = inf) -> None:
        """``silence``: seconds for which the other side may be silent."""
        self._silence = silence
        self._ends: dict[asyncio.Task[Any], tuple[float, Waiting | None, int]] = {}
        """For each task: when it must be done, what it waits for, how often others had cancelled it."""
        self._late: dict[asyncio.Task[Any], tuple[str, int]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        """When the timer should fire."""
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, seconds: float, waiting: Waiting | None = None) -> asyncio.Task[Any]:
        """Give the current task so many seconds from now on; return it, for `ended` and `stop`."""
        loop = self._loop
        if loop is None or not loop.is_running():  # the timer of another loop is of no use here
            self._loop = loop = asyncio.get_running_loop()
            self._timer = None
            self._ends.clear()
            self._late.clear()
        task = asyncio.current_task(loop)
        if task is None:
            raise RuntimeError("a poll must be made in a task")
        self._ends[task] = monotonic() + seconds, waiting, task.cancelling()
        if self._timer is None:
            self._wind(loop)
        return task

    def ended(self, task: asyncio.Task[Any]) -> str:
        """Return why this cancelled the task: ``late`` or ``silent``; empty if it did not, or not alone.

        If the answer is not empty, the task is no longer cancelled.
        """
        if task not in self._late:
            return ""
        why, before = self._late.pop(task)
        return why if task.uncancel() <= before else ""

    def stop(self, task: asyncio.Task[Any]) -> None:
        """Remove the limit of a task."""
        self._ends.pop(task, None)
        if self._late and self._late.pop(task, None) is not None:
            task.uncancel()

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        now = monotonic()
        if (
            now - self._due > _STALL_SECONDS
        ):  # it was we who did nothing: what came meanwhile has not been read yet
            self._forgive(now - self._due)
        before = now - self._silence
        for task, (end, waiting, cancelled) in list(self._ends.items()):
            if end <= now:
                self._late[task] = "late", cancelled
            elif waiting is not None and waiting.since <= before:
                self._late[task] = "silent", cancelled
            else:
                continue
            del self._ends[task]
            task.cancel()
        self._timer = None
        if self._ends:
            self._wind(loop)

    def _wind(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = monotonic() + _TICK_SECONDS
        self._timer = loop.call_later(_TICK_SECONDS, self._tick, loop)

    def _forgive(self, seconds: float) -> None:
        """Give all tasks so many seconds more."""
        for task, (end, waiting, cancelled) in self._ends.items():
            self._ends[task] = end + seconds, waiting, cancelled
            if waiting is not None:
                waiting.since += seconds
