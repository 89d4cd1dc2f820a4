"""Databases: open them, run blocking work on them in threads, stop that work, and say what went wrong."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import quote

from unstale.errors import InvalidInput, need
from unstale.mirror.settings import Database

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

__all__ = [
    "APPLICATION_NAME",
    "MAX_READING_POLLS",
    "DatabaseEngine",
    "Stop",
    "Stopped",
    "error_words",
    "in_thread",
    "open_database",
    "sqlite_connection",
]

T = TypeVar("T")

MAX_READING_POLLS = 8
"""Polls of one database that read rows at the same time."""
APPLICATION_NAME = "unstale"
"""What connections call themselves; they only read."""
_CONNECT_TIMEOUT_SECONDS = 10
"""Seconds for a connection to be made."""
_SQLITE_BUSY_SECONDS = 5.0
"""Seconds to wait for a writer of SQLite."""
_STOP_GRACE_SECONDS = 1.0
"""Seconds that work gets to end after it has been asked to."""


@dataclass(frozen=True)
class DatabaseEngine:
    """A database that can be reached."""

    name: str
    engine: Engine
    kind: str
    """``postgresql``, ``sqlite``, or what else SQLAlchemy calls it."""
    secrets: tuple[str, ...]
    """What no message may show."""
    path: str | None = None
    """Of the file, if it is one."""
    interval: float = 0.0


def open_database(name: str, database: Database) -> DatabaseEngine:
    """Make a database ready to be connected to."""
    from sqlalchemy import create_engine, make_url
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError
    from sqlalchemy.pool import NullPool

    need("pyarrow", extra="sql", needed_for="copies of tables")
    filled = _filled(database.url, name)
    try:
        url = make_url(filled)
    except (ArgumentError, ValueError):
        raise InvalidInput(f"databases.{name}: url is no URL of a database") from None
    secrets = [url.password, *(url.query.get(word) for word in ("password", "sslpassword"))]
    hidden = tuple(
        {form for text in secrets if isinstance(text, str) and text for form in (text, quote(text))}
    )
    kind = url.get_backend_name()
    pool: dict[str, Any] = {"pool_size": MAX_READING_POLLS + 2, "max_overflow": 0, "pool_pre_ping": True}
    path = None
    if kind == "sqlite":
        path = url.database or ""
        if path in {"", ":memory:"} or path.startswith("file:"):
            raise InvalidInput(f"databases.{name}: write url as sqlite:////path/to/file.db")
        path = os.path.abspath(path)  # noqa: PTH100  (no link is followed)
        # A new connection for each: the file may have been replaced by another of the same name.
        url = url.set(query={})
        pool = {"poolclass": NullPool, "creator": lambda: sqlite_connection(path)}
    elif kind in {"postgresql", "postgres"}:
        need("psycopg", extra="postgres", needed_for="tables in PostgreSQL")
        _, _, driver = url.drivername.partition("+")
        if driver not in {"", "psycopg", "psycopg2"}:
            raise InvalidInput(f"databases.{name}: PostgreSQL is read with psycopg; write postgresql://...")
        kind, url = "postgresql", url.set(drivername="postgresql+psycopg")
        pool["connect_args"] = {
            "connect_timeout": _CONNECT_TIMEOUT_SECONDS,
            "application_name": APPLICATION_NAME,
            "keepalives_idle": 30,
            "prepare_threshold": None,  # a pooler between may not know prepared statements
        }
    try:
        engine = create_engine(url, **pool)
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        driver = getattr(error, "name", None) or url.drivername
        raise InvalidInput(f"database {name}: its driver {driver} is not installed") from None
    return DatabaseEngine(name, engine, kind, hidden, path, database.probe_interval)


def _filled(url: str, name: str) -> str:
    """Put variables of the environment in."""

    def value(found: re.Match[str]) -> str:
        if found[1] not in os.environ:
            raise InvalidInput(f"databases.{name}: url needs the variable {found[1]} of the environment")
        return os.environ[found[1]]

    return re.sub(r"\$\{(\w+)\}", value, url)


def sqlite_connection(path: str) -> sqlite3.Connection:
    """Connect to a file so that it is only read, and not made if it is not there."""
    if not Path(path).exists():
        raise FileNotFoundError(f"there is no file {path}")
    return sqlite3.connect(
        f"file:{quote(path)}?mode=ro",
        uri=True,
        timeout=_SQLITE_BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )


# --- blocking work, which can be stopped --------------------------------------------------------------------


class Stopped(Exception):  # noqa: N818  (it is no error)
    """The work was asked to stop."""


class Stop:
    """A way to stop work in another thread."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, spend: Callable[[int], Awaitable[None]] | None
    ) -> None:
        self._loop, self._spend = loop, spend
        self._lock = Lock()
        self._asked = False
        self._connection: Any = None

    def check(self) -> None:
        """Raise `Stopped` if the work is to stop."""
        if self._asked:
            raise Stopped

    def spend(self, amount: int) -> None:
        """Wait until so many bytes may be read."""
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
        """While the work uses a connection, this is how to stop it."""
        driver = connection.connection.driver_connection
        with self._lock:
            self._connection = driver
        try:
            self.check()
            yield driver
        except BaseException:
            if self._asked:
                with suppress(Exception):
                    connection.invalidate()  # who knows in what state it is
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
        """Cut the connection, if asking was of no use: the other end may have vanished."""
        with (
            self._lock,
            suppress(Exception),
            socket.socket(fileno=os.dup(self._connection.fileno())) as line,
        ):
            line.shutdown(socket.SHUT_RDWR)


async def _awaited(some: Awaitable[None]) -> None:
    await some


async def in_thread(work: Callable[[Stop], T], spend: Callable[[int], Awaitable[None]] | None = None) -> T:
    """Run blocking work; if this is cancelled, the work is stopped, and has ended if it can be."""
    stop = Stop(asyncio.get_running_loop(), spend)
    running = _started(lambda: work(stop))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        for way in (stop.ask, stop.cut):
            if not running.done():
                await asyncio.wait([_started(way)], timeout=_STOP_GRACE_SECONDS)
                # Before it is connected it cannot be stopped, but sees that it should, and has no file yet.
                await asyncio.wait([running], timeout=_STOP_GRACE_SECONDS if stop.connected else 0.1)
        raise


def _started(work: Callable[[], T]) -> asyncio.Future[T]:
    """Start work in a thread that nobody has to wait for, not even the end of the process."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    future.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # nobody else may ask

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
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, value, error)

    Thread(target=run, name=APPLICATION_NAME, daemon=True).start()
    return future


# --- what went wrong ----------------------------------------------------------------------------------------

_STATES = {
    "28P01": "the password is wrong, or there is no such user",
    "28000": "this user may not connect",
    "3D000": "there is no such database",
    "42501": "no permission",
    "53300": "the server has no connection left",
    "57014": "stopped by the server: it took too long",
    "57P01": "the server is shutting down",
    "57P03": "the server is starting up",
}


def error_words(error: BaseException, secrets: tuple[str, ...]) -> tuple[str, str]:
    """Return the code of an error, and say it in one line that shows no secret."""
    from sqlalchemy.exc import DBAPIError

    if isinstance(error, DBAPIError) and error.orig is not None:
        error = error.orig
    state = getattr(error, "sqlstate", None) or ""
    diag = getattr(error, "diag", None)
    text = str(getattr(diag, "message_primary", None) or error).strip()
    line = " ".join(text.split())[:300] or type(error).__name__
    for secret in secrets:
        line = line.replace(secret, "***")
    told = _STATES.get(state)
    if isinstance(error, sqlite3.OperationalError) and "locked" in line:
        told = "busy: somebody is writing to it"
    return state, f"{told} ({line})" if told else line
