"""Blocking work on a database, in a thread, that can be stopped while the database still works on it."""

from __future__ import annotations

import asyncio
import os
import socket
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from contextlib import contextmanager, suppress
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from sqlalchemy import Connection

T = TypeVar("T")

_STOP_GRACE_SECONDS = 1.0
"""How long the work may go on after it has been asked to stop."""


class Stopped(Exception):  # noqa: N818  (it is no error)
    """Somebody asked the work to stop."""


class Stop:
    """Stops work that runs in another thread."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, spend: Callable[[int], Awaitable[None]] | None
    ) -> None:
        self._loop, self._spend = loop, spend
        self._lock = Lock()
        self._asked = False
        self._connection: Any = None

    def check(self) -> None:
        """Raise `Stopped` if the work should stop. The work calls this."""
        if self._asked:
            raise Stopped

    def spend(self, amount: int) -> None:
        """Wait until the budget allows so many bytes. The work calls this."""
        if self._spend is None or amount <= 0:
            return
        paid: Future[None] = asyncio.run_coroutine_threadsafe(_awaited(self._spend(amount)), self._loop)
        while True:
            try:
                paid.result(0.1)
            except (NotYet, TimeoutError):
                if self._asked:
                    paid.cancel()
                    raise Stopped from None
            else:
                return

    @contextmanager
    def using(self, connection: Connection) -> Iterator[Any]:
        """Note that the work uses this connection, so that `ask` and `cut` can reach it."""
        driver = connection.connection.driver_connection
        with self._lock:
            self._connection = driver
        try:
            self.check()
            yield driver
        except BaseException:
            if self._asked:
                with suppress(Exception):
                    connection.invalidate()  # its state is unknown
            raise
        finally:
            with self._lock:
                self._connection = None

    @property
    def connected(self) -> bool:
        """Whether the work uses a connection now."""
        return self._connection is not None

    def ask(self) -> None:
        """Ask the work to stop."""
        with self._lock, suppress(Exception):
            self._asked = True
            if isinstance(self._connection, sqlite3.Connection):
                self._connection.interrupt()
            elif hasattr(self._connection, "cancel_safe"):
                self._connection.cancel_safe(timeout=_STOP_GRACE_SECONDS)
            elif self._connection is not None:
                self._connection.cancel()

    def cut(self) -> None:
        """Cut the connection of work that did not stop; the other end may be gone."""
        with (
            self._lock,
            suppress(Exception),
            socket.socket(fileno=os.dup(self._connection.fileno())) as line,
        ):
            line.shutdown(socket.SHUT_RDWR)


async def _awaited(some: Awaitable[None]) -> None:
    await some


async def in_thread(work: Callable[[Stop], T], spend: Callable[[int], Awaitable[None]] | None = None) -> T:
    """Run blocking work in a thread. If this is cancelled, it stops the work, and waits for its end."""
    stop = Stop(asyncio.get_running_loop(), spend)
    running = _started(lambda: work(stop))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        for way in (stop.ask, stop.cut):
            if not running.done():
                await asyncio.wait([_started(way)], timeout=_STOP_GRACE_SECONDS)
                # Work without a connection cannot be stopped from here: it will call `check`.
                await asyncio.wait([running], timeout=_STOP_GRACE_SECONDS if stop.connected else 0.1)
        raise


def _started(work: Callable[[], T]) -> asyncio.Future[T]:
    """Start work in a daemon thread, for which the end of the process does not wait."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    future.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # marks its error as seen

    def settle(value: T | None, error: BaseException | None) -> None:
        if not future.done():
            if error is None:
                future.set_result(cast("T", value))
            else:
                future.set_exception(error)

    def run() -> None:
        value, error = None, None
        try:
            value = work()
        except BaseException as raised:  # noqa: BLE001  (it is raised where it is awaited)
            error = raised
        with suppress(RuntimeError):  # the event loop has ended
            loop.call_soon_threadsafe(settle, value, error)

    Thread(target=run, name="unstale", daemon=True).start()
    return future
