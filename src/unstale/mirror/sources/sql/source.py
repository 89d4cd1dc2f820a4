"""Tables, queries and partitions of tables in databases.

A poll climbs a ladder, the cheapest rung first. Each rung either proves that nothing has changed, or passes
on to the next; the last is to read all rows and compare their fingerprint. The rungs that come without being
asked for never take a table that has changed for one that has not. Those that may (a cursor, a statement of
the user's) are options. What rungs have seen is kept in the validators, and the detail of a poll names those
that were tried, with the time that each took.
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
from unstale.mirror.source import Found, Json, Known, Terms

from .batched_probe import Shared
from .database import CONNECTIONS, Place, Stop, in_thread, open_place, words
from .keys import Name, key_of, options_of, thing_of
from .postgres_probes import Counters, Position, read_counters, read_position
from .sqlite_probe import Mark, Watch

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

    from .table_poll import Ask

__all__ = ["SqlSource", "sql_source"]

T = TypeVar("T")

_GLANCE = 15.0
"""Seconds that a look at the catalogue may take."""


def sql_source(settings: Settings) -> SqlSource:
    """Return the source of tables."""
    return SqlSource(settings)


class SqlSource:
    """Polls tables, queries and partitions."""

    def __init__(self, settings: Settings) -> None:
        self._databases = settings.databases
        self._open: dict[str, _Open] = {}

    def key(self, text: str, options: Mapping[str, Json]) -> str:
        """Return the key of a table; passwords are not for keys."""
        options_of(options)
        thing = key_of(text, options, self._databases)
        need("pyarrow", extra="sql", needed_for="copies of tables")
        if self._database(thing.database).url.startswith("postgres"):
            need("psycopg", extra="postgres", needed_for="tables in PostgreSQL")
        return str(thing)

    def group(self, key: str, options: Mapping[str, Json]) -> str:  # noqa: ARG002  (see Source)
        """Return the name of the database."""
        return f"sql:{key.partition('#')[0]}"

    async def poll(self, known: Known, terms: Terms) -> Found:
        """Look at a table."""
        try:
            ask = self._ask(known, terms)
        except InvalidInput as error:
            return Found("failed", str(error))
        found = None
        try:
            async with asyncio.timeout(terms.timeout):
                found = await self._open[ask.place.name].look(ask)
        except TimeoutError:
            found = Found("failed", f"no answer within {terms.timeout:g} seconds")
        except _troubles() as error:
            found = _failed(error, ask)
        finally:
            if found is None or found.body != ask.path:  # what is not handed over must not stay behind
                ask.path.unlink(missing_ok=True)
        return found

    async def close(self) -> None:
        """Let go of connections."""
        opened, self._open = list(self._open.values()), {}
        for one in opened:
            await one.close()

    def _database(self, name: str) -> Database:
        return self._databases.get(name) or Database(name)

    def _ask(self, known: Known, terms: Terms) -> Ask:
        from .table_poll import Ask

        options = options_of(known.options)
        thing = thing_of(known.key, known.options)
        place = self._place(thing.database)
        counts = known.fingerprint is not None and known.validators.get("options") == options.digest
        return Ask(
            place,
            thing,
            options,
            known.validators if counts else {},
            known.fingerprint,
            terms,
            {name: value for name, value in known.options.items() if name not in {"split", "partition"}},
            terms.scratch / f"table-{uuid4().hex}.parquet",
        )

    def _place(self, name: str) -> Place:
        if name not in self._open:
            if name not in self._databases and "://" not in name:
                raise InvalidInput(f"there is no database {name!r} in mirror.toml any more")
            self._open[name] = _Open(open_place(name, self._database(name)))
        return self._open[name].place


class _Open:
    """A database with what all polls of it share."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watch = Watch(place.path) if place.path is not None else None

    def _bound(self) -> None:
        """Make what belongs to an event loop."""
        loop = asyncio.get_running_loop()
        if self._loop is loop:
            return
        self._loop = loop
        interval = self.place.interval
        self._turns = asyncio.Semaphore(CONNECTIONS)
        self._positions = Shared[Position](lambda _: self._read(read_position), interval=interval)
        self._counters = Shared[Counters](
            lambda names: self._read(partial(_counters_of, names=names)), interval=interval
        )
        self._marks = Shared[Mark](lambda _: in_thread(self._marked), interval=interval)

    def _marked(self, stop: Stop) -> Mark:  # noqa: ARG002  (it ends by itself, after the time to wait for writers)
        if self._watch is None:
            raise AssertionError
        return self._watch.mark()

    async def _read(self, read: Callable[[Connection], T]) -> T:
        """Ask the catalogue; each statement sees what is committed when it starts."""

        def work(stop: Stop) -> T:
            with self.place.engine.connect() as plain:
                connection = plain.execution_options(isolation_level="AUTOCOMMIT")
                with stop.using(connection):
                    return read(connection)

        async with asyncio.timeout(_GLANCE):
            return await in_thread(work)

    async def look(self, ask: Ask) -> Found:
        """Climb the ladder."""
        from .postgres_poll import look_at_postgres
        from .sqlalchemy_poll import look_anywhere

        self._bound()
        if self.place.kind == "postgresql":
            if ask.known.get("stored"):
                with ask.rung("position"):
                    position = await self._positions.ask()
                if _same(ask.known, position):
                    return ask.unchanged()
            counters = None
            if ask.names:
                with ask.rung("counters"):
                    counters = await self._counters.ask(ask.names)
            if counters is not None and _same_counters(ask.known, counters, ask.names):
                return ask.unchanged({**ask.known, "position": counters.position.json()})
            async with self._turns:
                return await in_thread(partial(look_at_postgres, ask, counters), ask.terms.spend)
        mark = None
        if self._watch is not None:
            with ask.rung("position"):
                mark = await self._marks.ask()
            before = ask.known.get("mark")
            if ask.known.get("stored") and isinstance(before, dict) and mark.proves(before):
                return ask.unchanged()
        async with self._turns:
            return await in_thread(lambda stop: look_anywhere(ask, mark, stop), ask.terms.spend)

    async def close(self) -> None:
        """Let go of connections."""
        if self._loop is asyncio.get_running_loop():
            for shared in (self._positions, self._counters, self._marks):
                await shared.close()
        if self._watch is not None:
            self._watch.close()
        await in_thread(lambda _: self.place.engine.dispose())


def _counters_of(connection: Connection, names: frozenset[object]) -> Counters:
    return read_counters(connection, [name for name in names if isinstance(name, Name)])


def _same(known: Mapping[str, Json], now: Position) -> bool:
    """Tell whether no transaction has finished since the last poll."""
    return now.sure and Position.of(known.get("position")) == now


def _same_counters(known: Mapping[str, Json], now: Counters, names: list[Name]) -> bool:
    """Tell whether the counters are the same, and can be believed."""
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
    """What may go wrong on account of the database."""
    from sqlalchemy.exc import SQLAlchemyError

    from .database import Stopped
    from .extract import TooLarge
    from .table_poll import Gone

    errors: tuple[type[Exception], ...] = (
        SQLAlchemyError,
        sqlite3.Error,
        OSError,
        LookupError,
        Gone,
        TooLarge,
        Stopped,
    )
    with suppress(ImportError):
        from psycopg import Error

        errors = (*errors, Error)
    return errors


def _failed(error: Exception, ask: Ask) -> Found:
    from .extract import TooLarge
    from .table_poll import Gone

    if isinstance(error, Gone):
        return Found("gone", f"there is no table {ask.thing.name}", validators={})
    if isinstance(error, TooLarge):
        return Found("failed", f"its copy is larger than {ask.terms.max_size:,} bytes (max_size)")
    return Found("failed", words(error, ask.place.secrets)[1])
