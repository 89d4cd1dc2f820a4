"""Blocking calls, each in a thread of its own.

The threads of asyncio are few and are waited for at the end, so that some calls that never return (a network
drive that is gone, a function that waits for ever) would stop all others, and the process from ending. Here
a call that is given up goes on alone, keeps nobody waiting, and what it still produces is cleaned up.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

from unstale.quantities import show_duration

__all__ = ["GivenUp", "Threads"]

T = TypeVar("T")


class GivenUp(Exception):  # noqa: N818  (its name says what is wrong)
    """A call takes too long, or one before it still does; the message says which."""


class Threads:
    """Runs blocking calls; for each key, only one can be left behind."""

    def __init__(self) -> None:
        self._left: dict[str, threading.Thread] = {}

    async def run(
        self,
        key: str,
        call: Callable[[threading.Event], T],
        *,
        timeout: float,  # noqa: ASYNC109  (whoever is left behind must be known here)
        clean: Callable[[T], None] | None = None,
    ) -> T:
        """Return what a call returns, or raise what it raises; `GivenUp` after ``timeout`` seconds.

        The call is handed an event that is set when nobody waits for it any more. If it returns something all
        the same, that goes to ``clean``.
        """
        if key in self._left:
            if self._left[key].is_alive():
                raise GivenUp("the poll before was given up, and has not ended yet")
            del self._left[key]
        work = _Work(call, clean)
        thread = threading.Thread(target=work.run, name=f"unstale: {key}", daemon=True)
        thread.start()
        try:
            async with asyncio.timeout(timeout):
                await work.done.wait()
        except BaseException as error:
            work.give_up()
            if thread.is_alive():
                self._left[key] = thread
            if isinstance(error, TimeoutError):
                raise GivenUp(f"no answer within {show_duration(timeout)}") from None
            raise
        return work.result()


class _Work(Generic[T]):
    """A call, and what came of it."""

    def __init__(self, call: Callable[[threading.Event], T], clean: Callable[[T], None] | None) -> None:
        self._call, self._clean = call, clean
        self._loop, self._lock, self._given_up = (
            asyncio.get_running_loop(),
            threading.Lock(),
            threading.Event(),
        )
        self._results: list[T] = []
        self._error: BaseException | None = None
        self.done = asyncio.Event()

    def run(self) -> None:
        """Make the call; in the thread."""
        try:
            result = self._call(self._given_up)
        except BaseException as error:  # noqa: BLE001  (it is raised where the call is awaited)
            self._error = error
        else:
            with self._lock:
                self._results.append(result)
            if self._given_up.is_set():
                self._discard()
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(self.done.set)

    def give_up(self) -> None:
        """Say that nobody waits any more."""
        self._given_up.set()
        self._discard()

    def result(self) -> T:
        """Return what the call returned, or raise what it raised."""
        if self._error is None:
            return self._results[0]
        if isinstance(self._error, Exception) and not isinstance(self._error, StopIteration):
            raise self._error
        raise RuntimeError(f"{type(self._error).__name__}: {self._error}")  # else it would end the loop

    def _discard(self) -> None:
        """Clean up what has come, once, whoever of the two sides comes first."""
        with self._lock:
            unwanted, self._results = self._results, []
        for result in unwanted:
            if self._clean is not None:
                self._clean(result)
