"""Calls that wait for a coroutine, also where an event loop is running: in Jupyter, in async programs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


def wait_for(work: Callable[[], Coroutine[Any, Any, T]], *, stop: Callable[[], None] = lambda: None) -> T:
    """Run a coroutine and return what it returns: here, or in a thread if this one has a running event loop.

    Parameters
    ----------
    work
        Makes the coroutine.
    stop
        Is called when the wait for the thread is interrupted, as by the stop button of a notebook; then the
        coroutine is waited for once more, and the interruption goes on.

    >>> async def answer():
    ...     return 42
    >>> async def cell_of_a_notebook():
    ...     return wait_for(answer)
    >>> wait_for(answer), asyncio.run(cell_of_a_notebook())
    (42, 42)
    """
    if running_loop() is None:
        return asyncio.run(work())
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(asyncio.run(work()))
        except BaseException as error:  # noqa: BLE001  (it is raised where the result is waited for)
            result.set_exception(error)

    thread = threading.Thread(target=run, name="unstale", daemon=True)
    thread.start()
    try:
        return result.result()
    except KeyboardInterrupt:
        stop()
        raise
    finally:
        thread.join()


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that runs in this thread, if one does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def call_in(loop: asyncio.AbstractEventLoop | None, call: Callable[[], None]) -> None:
    """Call something in a loop: at once if it is ours, or none; else soon, unless it is closed by then."""
    if loop is None or running_loop() is loop:
        call()
        return
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(call)
