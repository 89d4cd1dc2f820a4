"""Tables, queries and partitions of tables in databases.

A poll climbs a ladder of probes, the cheapest rung first. Each rung either proves that nothing has changed,
or leaves the question to the next rung. The last rung reads all rows and compares their fingerprint. The
rungs that are always tried never miss a change. Rungs that may miss one (a cursor, a statement of the user)
are options. The validators keep what the rungs saw, and the detail of a poll names the rungs that were tried,
with the time that each took.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

from unstale.errors import InvalidInput, need
from unstale.mirror.settings import Database, Settings
from unstale.mirror.source import Found, Json, Known, Late, Terms
from unstale.mirror.sql_engine import close_engine

from .batched_probe import BatchedProbe
from .database import MAX_READING_POLLS, DatabaseEngine, error_words, open_database
from .keys import TableName, key_from_text, options_of, parse_key
from .postgres_probes import Counters, Position, read_counters, read_position
from .sqlite_probe import SqliteMark, SqliteWatch
from .stoppable_work import Stop, in_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

    from .table_poll import TablePoll

T = TypeVar("T")

_PROBE_TIMEOUT_SECONDS = 15.0
"""For one probe of the catalogue."""


def sql_source(settings: Settings) -> SqlSource:
    """Return the source of tables."""
    return SqlSource(settings)


class SqlSource:
    """Polls tables, queries and partitions."""

    def __init__(self, settings: Settings) -> None:
        self._databases = settings.databases
        self._polled: dict[str, _PolledDatabase] = {}
        self._running: set[asyncio.Task[Found]] = set()

    def key(self, text: str, options: Mapping[str, Json]) -> str:
        """Return the key of a table; a key must not hold a password."""
        options_of(options)
        table = key_from_text(text, options, self._databases)
        need("pyarrow", extra="sql", needed_for="copies of tables")
        if self._database(table.database).url.startswith("postgres"):
            need("psycopg", extra="postgres", needed_for="tables in PostgreSQL")
        return str(table)

    def group(self, key: str, options: Mapping[str, Json]) -> str:  # noqa: ARG002  (see Source)
        """Return the name of the database."""
        return f"sql:{key.partition('#')[0]}"

    async def poll(self, known: Known, terms: Terms) -> Found:
        """Poll a table, within its time limit."""
        try:
            poll = self._table_poll(known, terms)
        except InvalidInput as error:
            return Found("failed", str(error))
        found = None
        running = asyncio.create_task(self._polled[poll.database.name].run(poll))
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        try:
            async with asyncio.timeout(terms.timeout):
                found = await running
        except asyncio.CancelledError:
            if _cancelled():
                raise
            raise Late from None  # `stop_polls` was called
        except TimeoutError:
            found = Found("failed", f"no answer within {terms.timeout:g} seconds")
        except _troubles() as error:
            found = _failed(error, poll)
        finally:
            if found is None or found.body != poll.path:  # the mirror does not take this file over
                poll.path.unlink(missing_ok=True)
        return found

    def stop_polls(self) -> None:
        """Cancel the statements of polls that are running."""
        for running in self._running:
            running.cancel()

    async def close(self) -> None:
        """Close all connections."""
        polled, self._polled = list(self._polled.values()), {}
        for one in polled:
            await one.close()

    def _database(self, name: str) -> Database:
        return self._databases.get(name) or Database(name)

    def _table_poll(self, known: Known, terms: Terms) -> TablePoll:
        from .table_poll import TablePoll

        options = options_of(known.options)
        table = parse_key(known.key, known.options)
        database = self._engine(table.database)
        counts = known.fingerprint is not None and known.validators.get("options") == options.digest
        return TablePoll(
            database,
            table,
            options,
            known.validators if counts else {},
            known.fingerprint,
            terms,
            {name: value for name, value in known.options.items() if name not in {"split", "partition"}},
            terms.scratch / f"table-{uuid4().hex}.parquet",
        )

    def _engine(self, name: str) -> DatabaseEngine:
        if name not in self._polled:
            if name not in self._databases and "://" not in name:
                raise InvalidInput(f"there is no database {name!r} in mirror.toml any more")
            self._polled[name] = _PolledDatabase(open_database(name, self._database(name)))
        return self._polled[name].database


class _PolledDatabase:
    """A database, with the probes that all polls of it share."""

    def __init__(self, database: DatabaseEngine) -> None:
        self.database = database
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watch = SqliteWatch(database.path) if database.path is not None else None

    def _bound(self) -> None:
        """Make the objects that belong to the current event loop."""
        loop = asyncio.get_running_loop()
        if self._loop is loop:
            return
        self._loop = loop
        interval = self.database.interval
        self._turns = asyncio.Semaphore(MAX_READING_POLLS)
        self._positions = BatchedProbe[Position](lambda _: self._read(read_position), interval=interval)
        self._counters = BatchedProbe[Counters](
            lambda names: self._read(partial(_counters_of, names=names)), interval=interval
        )
        self._marks = BatchedProbe[SqliteMark](lambda _: in_thread(self._marked), interval=interval)

    def _marked(self, stop: Stop) -> SqliteMark:  # noqa: ARG002  (it ends by itself, after the time to wait for writers)
        if self._watch is None:
            raise AssertionError
        return self._watch.mark()

    async def _read(self, read: Callable[[Connection], T]) -> T:
        """Read the catalogue; each statement sees what is committed when it starts."""

        def work(stop: Stop) -> T:
            with self.database.engine.connect() as plain:
                connection = plain.execution_options(isolation_level="AUTOCOMMIT")
                with stop.using(connection):
                    return read(connection)

        async with asyncio.timeout(_PROBE_TIMEOUT_SECONDS):
            return await in_thread(work)

    async def run(self, poll: TablePoll) -> Found:
        """Climb the ladder of probes."""
        from .postgres_poll import poll_postgres
        from .sqlalchemy_poll import poll_with_sqlalchemy

        self._bound()
        if self.database.kind == "postgresql":
            if poll.known.get("stored"):
                with poll.rung("position"):
                    position = await self._positions.ask()
                if _same(poll.known, position):
                    return poll.unchanged()
            counters = None
            if poll.names:
                with poll.rung("counters"):
                    counters = await self._counters.ask(poll.names)
            if counters is not None and _same_counters(poll.known, counters, poll.names):
                return poll.unchanged({**poll.known, "position": counters.position.json()})
            async with self._turns:
                return await in_thread(partial(poll_postgres, poll, counters), poll.terms.spend)
        mark = None
        if self._watch is not None:
            with poll.rung("position"):
                mark = await self._marks.ask()
            before = poll.known.get("mark")
            if poll.known.get("stored") and isinstance(before, dict) and mark.proves(before):
                return poll.unchanged()
        async with self._turns:
            return await in_thread(lambda stop: poll_with_sqlalchemy(poll, mark, stop), poll.terms.spend)

    async def close(self) -> None:
        """Close all connections."""
        if self._loop is asyncio.get_running_loop():
            for shared in (self._positions, self._counters, self._marks):
                await shared.close()
        if self._watch is not None:
            self._watch.close()
        await in_thread(lambda _: close_engine(self.database.engine))


def _cancelled() -> bool:
    """Tell whether the current task itself is being cancelled, not only one that it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _counters_of(connection: Connection, names: frozenset[object]) -> Counters:
    return read_counters(connection, [name for name in names if isinstance(name, TableName)])


def _same(known: Mapping[str, Json], now: Position) -> bool:
    """Tell whether no transaction has finished since the last poll."""
    return now.sure and Position.of(known.get("position")) == now


def _same_counters(known: Mapping[str, Json], now: Counters, names: list[TableName]) -> bool:
    """Tell whether the counters are the same, and prove that nothing has changed."""
    then = Position.of(known.get("position"))
    if not known.get("plain") or not now.settled or then is None or not names:
        return False
    if not then.server or then.server != now.position.server or known.get("reset") != now.reset:
        return False
    found = [now.relations[name] for name in names if name in now.relations and now.relations[name].plain]
    return known.get("counters") == [one.counters for one in found] and known.get("shapes") == [
        one.shape for one in found
    ]


def _troubles() -> tuple[type[Exception], ...]:
    """Return the errors that a database may cause."""
    from sqlalchemy.exc import SQLAlchemyError

    from .extract import TooLarge
    from .reading_only import NotOneSelect
    from .stoppable_work import Stopped
    from .table_poll import TableGone

    errors: tuple[type[Exception], ...] = (
        SQLAlchemyError,
        sqlite3.Error,
        sqlite3.Warning,  # several statements, before Python 3.12
        NotOneSelect,
        OSError,
        LookupError,
        TableGone,
        TooLarge,
        Stopped,
    )
    with suppress(ImportError):
        from psycopg import Error

        errors = (*errors, Error)
    return errors


def _failed(error: Exception, poll: TablePoll) -> Found:
    from .extract import TooLarge
    from .table_poll import TableGone

    if isinstance(error, TableGone):
        return Found("gone", f"there is no table {poll.table.name}", validators={})
    if isinstance(error, TooLarge):
        return Found("failed", f"its copy is larger than {poll.terms.max_size:,} bytes (max_size)")
    if isinstance(error, FileNotFoundError):
        return Found("failed", f"there is no file {error.filename}")
    return Found("failed", error_words(error, poll.database.secrets)[1])
