"""How the rows of a cell get to another place, while nobody writes to the one where they are.

Whoever holds a store keeps everybody from writing to it until its connection ends, however it ends; others
read on. The last that is done while it is held is to close it off (`HeldStore.close_off`), in the same
transaction: under the name by which others know it, there are no tables any more. So whoever still believes
in it, such as a process that was stopped, can write nothing there that would be lost.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Integer,
    MetaData,
    Select,
    Table,
    delete,
    exc,
    exists,
    func,
    insert,
    inspect,
    not_,
    select,
    text,
    update,
)
from sqlalchemy.engine import URL

from unstale.errors import Trouble, need
from unstale.mirror.engine.discovery import NAMED_ELSEWHERE
from unstale.mirror.engine.planner_state import ShareGiven
from unstale.mirror.sql_engine import close_engine
from unstale.mirror.store.folder import new_file, sync_folder, unlink
from unstale.mirror.store.sql import schema
from unstale.mirror.store.sql.connection import (
    files_of,
    place_of,
    postgres_engine,
    session_name,
    sqlite_engine,
    troubles,
)
from unstale.mirror.store.sql.poll_spans import PollSpan, moved, open_span

from .outgoing import TABLES as OUTGOING_TABLES

__all__ = [
    "HeldStore",
    "Part",
    "drop_closed",
    "drop_copy",
    "held",
    "is_copy",
    "is_taken",
    "is_there",
    "write_copy",
]

_ROWS_AT_ONCE = 2000
_HOLD_SECONDS = 15
"""For which whoever holds a store waits for those who write to it now."""
_HOLD_TRIES = 4
"""Writers and whoever holds a store may wait for each other; then PostgreSQL ends one of them."""
_TOLD_EVERY_ROWS = 5000
_COPY_OF = "copy_of"
"""The name under which ``mirror_meta`` says which change has made a copy."""

(_outgoing,) = OUTGOING_TABLES.sorted_tables
_TABLES = (*schema.METADATA.sorted_tables, _outgoing)
_OF_ELEMENTS = {
    schema.elements: schema.elements.c.id,
    **{
        table: table.c.element
        for table in (
            schema.standing, schema.learned, schema.versions, schema.polls, schema.leases, schema.reads,
            schema.user_reads,
        )
    },
    schema.links: schema.links.c.page,
}  # fmt: skip
"""Tables whose rows are of elements, and which element a row is of."""
_OF_THE_WHOLE = (schema.history, _outgoing)
"""Tables whose rows are of all elements together: they stay with those that stay."""
_TEMPORARY = MetaData()
_Number = BigInteger().with_variant(Integer(), "sqlite")
_going_groups, _going = (
    Table(
        name,
        _TEMPORARY,
        Column("id", _Number, primary_key=True, autoincrement=False),
        prefixes=["TEMPORARY"],
    )
    for name in ("going_groups", "going_elements")
)
"""The groups and elements that go to a cell that is split off."""


class Part(NamedTuple):
    """What one of the places that a cell goes to gets of it."""

    address: str
    goes: bool | None = None
    """None: all; True: the elements that go to a new cell; False: those that stay."""
    share: ShareGiven | None = None
    """Its part of the budget from now on; None: as before."""
    schema: str = ""
    """On PostgreSQL the schema, which is made."""
    shared: bool = False
    """Whether the group of its owner may use a file."""


class HeldStore:
    """A store to which nobody else can write."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def divide(self, goes: Callable[[str], bool]) -> None:
        """Note which groups, by name, go to a cell that is split off."""
        for table in (_going_groups, _going):
            table.create(self.connection, checkfirst=False)
        query = select(schema.groups.c.id, schema.groups.c.name)
        for rows in _batches(self.connection, query):
            if some := [{"id": row.id} for row in rows if goes(row.name)]:
                self.connection.execute(insert(_going_groups), some)
        ids = select(schema.elements.c.id).where(_in(_going_groups, schema.elements.c.group_id))
        self.connection.execute(insert(_going).from_select(["id"], ids))

    def counts(self, parts: Sequence[Part]) -> list[dict[str, int]]:
        """Return how many rows of each table go to each of these places."""
        return [
            {
                table.name: self.connection.scalar(
                    select(func.count()).select_from(
                        _rows_of(self.connection, table, goes=part.goes).subquery()
                    )
                )
                or 0
                for table in _copied()
            }
            for part in parts
        ]

    def close_off(self, left: str) -> None:
        """Take the store away from all who know it, for good; ``left``: what its schema is called then."""
        if self.connection.dialect.name == "sqlite":
            for table in inspect(self.connection).get_table_names():
                if not table.startswith("sqlite_"):
                    self.connection.exec_driver_sql(f'ALTER TABLE "{table}" RENAME TO "moved_{table}"')
        else:
            here = self.connection.scalar(select(func.current_schema()))
            quote = self.connection.dialect.identifier_preparer.quote
            self.connection.execute(text(f"ALTER SCHEMA {quote(str(here))} RENAME TO {quote(left)}"))
        self.connection.commit()


@contextmanager
def held(address: str, *, wait: bool = True) -> Iterator[HeldStore | None]:
    """Keep everybody from writing to a store; None: it is not there, or somebody has it who must end first.

    Without ``wait`` nobody is waited for. What is written here and not committed has not happened.
    """
    if not is_there(address):
        yield None
        return
    with _connected(address) as connection:
        for attempt in range(_HOLD_TRIES):
            try:
                _hold(connection, wait=wait)
                break
            except exc.OperationalError:
                connection.rollback()
                if not wait or attempt == _HOLD_TRIES - 1:
                    if wait:
                        raise
                    yield None
                    return
        if schema.meta.name not in inspect(connection).get_table_names():  # it was closed off meanwhile
            yield None
            return
        yield HeldStore(connection)


def _hold(connection: Connection, *, wait: bool) -> None:
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(f"PRAGMA busy_timeout = {1000 * _HOLD_SECONDS if wait else 0}")
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        return
    connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
    connection.execute(text(f"SET LOCAL lock_timeout = '{_HOLD_SECONDS}s'"))
    there = set(inspect(connection).get_table_names())
    names = [table.name for table in _TABLES if table.name in there]
    first = sorted(names, key=lambda name: name != schema.numbers.name)  # as whoever writes locks it first
    how = "" if wait else " NOWAIT"
    connection.execute(text(f"LOCK TABLE {', '.join(first)} IN SHARE ROW EXCLUSIVE MODE{how}"))


def is_there(address: str) -> bool:
    """Tell whether there is a store, which was not closed off."""
    place = place_of(address)
    if isinstance(place, Path) and not place.exists():
        return False
    with _connected(address) as connection:
        return schema.meta.name in inspect(connection).get_table_names()


def is_taken(part: Part) -> bool:
    """Tell whether something else is where a cell is to go."""
    place = place_of(part.address)
    if isinstance(place, Path):
        return any(file.exists() for file in files_of(place))
    with _connected(part.address) as connection:
        query = text("SELECT count(*) FROM pg_namespace WHERE nspname = :name")
        return bool(connection.scalar(query, {"name": part.schema}))


def write_copy(
    source: HeldStore, part: Part, expected: dict[str, int], token: str, tell: Callable[[int], None]
) -> None:
    """Write rows of a store that is held to their new place, in one transaction, and count them there.

    ``tell`` is called with how many more rows are there.
    """
    place = place_of(part.address)
    if isinstance(place, Path):
        new_file(place, shared=part.shared).close()
    with _connected(part.address) as target:
        if isinstance(place, Path):
            target.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            target.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
            quote = target.dialect.identifier_preparer.quote
            target.execute(text(f"CREATE SCHEMA {quote(part.schema)}"))
        for metadata in (schema.METADATA, OUTGOING_TABLES):
            metadata.create_all(target, checkfirst=False)
        for row in source.connection.execute(select(schema.poll_spans).order_by(schema.poll_spans.c.first)):
            open_span(target, PollSpan(row.first, row.last, row.begun))
        for table in _copied():
            _copy_rows(source.connection, target, table, goes=part.goes, tell=tell)
            there = target.scalar(select(func.count()).select_from(table)) or 0
            if there != expected[table.name]:
                raise Trouble(
                    f"{there:,} of {expected[table.name]:,} rows of {table.name} have come to the new place"
                )
        _settle_in(source.connection, target, part)
        target.execute(insert(schema.meta), {"name": _COPY_OF, "value": token})
        target.commit()
        if not isinstance(place, Path):
            target.execute(text(f"ANALYZE {', '.join(table.name for table in _TABLES)}"))
            target.commit()
    if isinstance(place, Path):
        sync_folder(place.parent)


def is_copy(part: Part, token: str) -> bool:
    """Tell whether what a change has written is there, which is whole if it is."""
    if not is_there(part.address):
        return False
    with _connected(part.address) as connection:
        return _copy_of(connection) == token


def drop_copy(part: Part, token: str) -> None:
    """Drop what a change has written that did not come about; nothing else that may be there."""
    place = place_of(part.address)
    if isinstance(place, Path):
        if not place.exists():
            return
        with _connected(part.address) as connection:
            tables = inspect(connection).get_table_names()
            ours = not tables or (schema.meta.name in tables and _copy_of(connection) == token)
        if ours:
            for file in files_of(place):
                unlink(file)
        return
    with _connected(part.address) as connection:
        there = schema.meta.name in inspect(connection).get_table_names()
        if there and _copy_of(connection) == token:
            _drop_schema(connection, part.schema)


def _copy_of(connection: Connection) -> str | None:
    return connection.scalar(select(schema.meta.c.value).where(schema.meta.c.name == _COPY_OF))


def drop_closed(address: str, left: str) -> None:
    """Drop what was closed off."""
    place = place_of(address)
    if isinstance(place, Path):
        for file in files_of(place):
            unlink(file)
        return
    with _connected(address) as connection:
        _drop_schema(connection, left)


def _drop_schema(connection: Connection, name: str) -> None:
    quote = connection.dialect.identifier_preparer.quote
    connection.execute(text(f"DROP SCHEMA IF EXISTS {quote(name)} CASCADE"))
    connection.commit()


@contextmanager
def _connected(address: str) -> Iterator[Connection]:
    place = place_of(address)
    if isinstance(place, URL):
        name, engine = repr(place.render_as_string()), postgres_engine(place, session_name())
    else:
        name, engine = repr(str(place)), sqlite_engine(place)
    try:
        with troubles(name, opening=True), engine.connect() as connection:
            yield connection
    finally:
        close_engine(engine)


# --- rows


def _copied() -> list[Table]:
    """Return the tables whose rows are copied; spans of polls are made, and workers come by themselves."""
    return [table for table in _TABLES if table not in {schema.poll_spans, schema.workers}]


def _in(chosen: Table, column: ColumnElement[Any]) -> ColumnElement[bool]:
    return exists(select(chosen.c.id).where(chosen.c.id == column))


def _rows_of(connection: Connection, table: Table, *, goes: bool | None) -> Select[Any]:
    """Return the query for the rows of a table that go to a place."""
    columns = [column for column in table.c if table is not _outgoing or column.name != "id"]  # made anew
    query = select(*columns)
    if table is schema.polls:
        query = query.where(table.c.id > moved(connection))
    elif table is schema.meta:
        query = query.where(table.c.name != _COPY_OF)
        if goes:
            query = query.where(table.c.name != "copies")  # it has a folder of its own
    elif table is _outgoing:
        query = query.order_by(table.c.id)
    if goes is None:
        return query
    if table is schema.groups:
        chosen = _in(_going_groups, table.c.id)
    elif table in _OF_ELEMENTS:
        chosen = _in(_going, _OF_ELEMENTS[table])
    elif table in _OF_THE_WHOLE:
        return query.where(text("1 = 0")) if goes else query
    else:
        return query
    return query.where(chosen if goes else not_(chosen))


def _batches(connection: Connection, query: Select[Any]) -> Iterator[Sequence[Any]]:
    """Go through rows, some at a time, which is all that memory holds of them."""
    streamed = {"stream_results": True, "max_row_buffer": _ROWS_AT_ONCE}
    with connection.execute(query, execution_options=streamed) as found:
        yield from found.partitions(_ROWS_AT_ONCE)


def _copy_rows(
    source: Connection, target: Connection, table: Table, *, goes: bool | None, tell: Callable[[int], None]
) -> None:
    query = _rows_of(source, table, goes=goes)
    if source.dialect.name == target.dialect.name == "postgresql":
        _pipe(source, target, table, query, tell)
        return
    for rows in _batches(source, query):
        target.execute(insert(table), [dict(row._mapping) for row in rows])  # noqa: SLF001  (its public name)
        tell(len(rows))


def _pipe(
    source: Connection, target: Connection, table: Table, query: Select[Any], tell: Callable[[int], None]
) -> None:
    """Let PostgreSQL write the rows of a query, and another read them: through here, as they come."""
    quote = target.dialect.identifier_preparer.quote
    names = ", ".join(quote(column.name) for column in query.selected_columns)
    said = query.compile(dialect=source.dialect, compile_kwargs={"literal_binds": True})
    theirs: Any = source.connection.driver_connection
    ours: Any = target.connection.driver_connection
    psycopg = need("psycopg", extra="postgres", needed_for="mirrors in PostgreSQL")
    try:
        _pass_on(theirs, ours, f"COPY ({said}) TO STDOUT", f"COPY {table.name} ({names}) FROM STDIN", tell)
    except psycopg.Error as error:
        raise Trouble(f"the rows of {table.name} cannot be copied: {error}") from error


def _pass_on(theirs: Any, ours: Any, read: str, write: str, tell: Callable[[int], None]) -> None:  # noqa: ANN401
    """Pass rows on from one session of psycopg to another."""
    waiting = 0
    with (
        theirs.cursor() as reading,
        ours.cursor() as writing,
        reading.copy(read) as out,
        writing.copy(write) as into,
    ):
        for row in out:
            into.write(row)
            waiting += 1
            if waiting == _TOLD_EVERY_ROWS:
                tell(waiting)
                waiting = 0
    tell(waiting)


# --- what is not only copied


def _settle_in(source: Connection, target: Connection, part: Part) -> None:
    """Make of the copy what it is to be: its part of the budget, and nothing of elements that it has not."""
    target.execute(delete(schema.meta).where(schema.meta.c.name == "runner"))
    kept = {row.name: bytes(row.value) for row in target.execute(select(schema.kept))}
    new: dict[str, bytes] = {} if part.share is None else part.share.kept()
    if part.goes is not None:
        new |= _planner_of(source, kept, goes=part.goes)
        _forget_lists(source, target, goes=part.goes)
    for name, value in new.items():
        target.execute(delete(schema.kept).where(schema.kept.c.name == name))
        target.execute(insert(schema.kept), {"name": name, "value": value})


def _planner_of(source: Connection, kept: dict[str, bytes], *, goes: bool) -> dict[str, bytes]:
    """Return what the planner of a part of the elements has to know."""
    if "planner" not in kept:
        return {}
    said = json.loads(kept["planner"])
    hints, audit = said.get("hints", []), said.get("audit", {})
    asked = {int(one[0]) for one in hints} | {int(one) for one in audit}
    going: set[int] = set()
    for number in asked:
        if source.scalar(select(_going.c.id).where(_going.c.id == number)) is not None:
            going.add(number)
    mine = going if goes else asked - going
    said["hints"] = [one for one in hints if int(one[0]) in mine]
    said["audit"] = {one: name for one, name in audit.items() if int(one) in mine}
    if goes:
        said.pop("counted", None)  # polls since the last sample are told once
    return {"planner": json.dumps(said).encode()}


def _forget_lists(source: Connection, target: Connection, *, goes: bool) -> None:
    """Where a list has stayed, or gone, without what it has named: that was named elsewhere now."""
    via = schema.elements.c.via
    elsewhere = not_(_in(_going, via)) if goes else _in(_going, via)
    for rows in _batches(source, select(via).where(via > 0, elsewhere).distinct()):
        named = schema.elements.c.via.in_([row.via for row in rows])
        target.execute(update(schema.elements).where(named).values(via=NAMED_ELSEWHERE))
