"""Blocking calls, each in a thread of its own.

asyncio has few threads, and waits for them when the process ends. A few calls that never return (a network
drive that is gone, a function that waits for ever) would block all other calls, and the end of the process.
Here a call that is given up goes on alone and blocks nothing; if it still returns a result, the result is
cleaned up.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

from unstale.quantities import show_duration

T = TypeVar("T")


class GivenUp(Exception):  # noqa: N818  (its name says what is wrong)
    """The call takes too long, or an earlier call of the same key still runs; the message says which."""


class Threads:
    """Runs blocking calls; for each key, only one abandoned call can still run."""

    def __init__(self) -> None:
        self._left: dict[str, threading.Thread] = {}

    async def run(
        self,
        key: str,
        call: Callable[[threading.Event], T],
        *,
        timeout: float,  # noqa: ASYNC109  (the call that is given up must be known here)
        clean: Callable[[T], None] | None = None,
    ) -> T:
        """Return what a call returns, or raise what it raises.

        Parameters
        ----------
        key
            Calls of the same key do not run beside one that was given up.
        call
            Gets an event, which is set when the call is given up.
        timeout
            Seconds after which the call is given up.
        clean
            Gets the result of a call that was given up, if it returns one.

        Raises
        ------
        GivenUp
            If the call takes longer than ``timeout``, or an earlier one still runs.
        """
        if key in self._left:
            if self._left[key].is_alive():
                raise GivenUp("the poll before was given up, and has not ended yet")
            del self._left[key]
        work = _ThreadCall(call, clean)
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


class _ThreadCall(Generic[T]):
    """A call and its result."""

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
        """Make the call. This runs in the thread."""
        try:
            result = self._call(self._given_up)
        except BaseException as error:  # noqa: BLE001  (it is raised where the call is awaited)
            self._error = error
        else:
            with self._lock:
                self._results.append(result)
            if self._given_up.is_set():
                self._discard()
        with suppress(RuntimeError):  # the event loop is closed
            self._loop.call_soon_threadsafe(self.done.set)

    def give_up(self) -> None:
        """Set the event, and clean up the result if there is one already."""
        self._given_up.set()
        self._discard()

    def result(self) -> T:
        """Return what the call returned, or raise what it raised."""
        if self._error is None:
            return self._results[0]
        if isinstance(self._error, Exception) and not isinstance(self._error, StopIteration):
            raise self._error
        # Raised as it is, this error would end the event loop.
        raise RuntimeError(f"{type(self._error).__name__}: {self._error}")

    def _discard(self) -> None:
        """Clean up the result, once, whether the thread or the waiting side comes first."""
        with self._lock:
            unwanted, self._results = self._results, []
        for result in unwanted:
            if self._clean is not None:
                self._clean(result)
