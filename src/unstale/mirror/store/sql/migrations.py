"""The schema of a store: made, recognised, brought up to date.

Each step leads from one version to the next; a step once released is never changed. Before the first one a
back-up is made; all of them are one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Column, Connection, func, insert, inspect, select, text, update

from unstale.errors import InvalidInput

from . import poll_spans, schema


def _reads(connection: Connection) -> None:
    """Version 2 counts reads of copies."""
    schema.reads.create(connection)


def _history(connection: Connection) -> None:
    """Version 3 keeps how the mirror did, and can page through many elements."""
    schema.history.create(connection)
    for index in schema.PAGES:
        index.create(connection)


def _planner(connection: Connection) -> None:
    """Version 4 keeps who plans, so that a planner that hangs can be replaced, and how clocks differ."""
    schema.planner.create(connection)
    last = connection.scalar(select(schema.numbers.c.planner))
    connection.execute(insert(schema.planner), {**_NOBODY, "number": last})
    kind = schema.workers.c.ahead.type.compile(connection.dialect)
    connection.execute(text(f"ALTER TABLE workers ADD COLUMN ahead {kind}"))


def _terms_and_users(connection: Connection) -> None:
    """Version 5 keeps what elements are polled for, and reads by user."""
    schema.user_reads.create(connection)
    connection.execute(text("ALTER TABLE elements ADD COLUMN terms TEXT DEFAULT '' NOT NULL"))


def _room(connection: Connection) -> None:
    """Version 6 keeps how much room copies took that were dropped."""
    _add(connection, schema.standing.c.dropped)


def _expiries(connection: Connection) -> None:
    """Version 7 keeps for how long elements stay as they are, as sources promise."""
    _add(connection, schema.learned.c.stays)
    _add(connection, schema.polls.c.stays)


def _links(connection: Connection) -> None:
    """Version 8 keeps which elements pages link to."""
    schema.links.create(connection)


def _spans(connection: Connection) -> None:
    """Version 9 keeps polls in spans, in which they leave the tables.

    On PostgreSQL all polls that there are become one partition as they are; `bound_polls` has seen to it that
    nothing has to be read for that.
    """
    schema.poll_spans.create(connection)
    last = connection.scalar(select(schema.numbers.c.polls)) or 0
    oldest = connection.scalar(select(func.min(schema.polls.c.id))) or 1
    if connection.dialect.name == "sqlite":
        size = poll_spans.MOST_SPAN_POLLS // 2
        for first in range(oldest, max(last, oldest) + 1, size):
            query = select(schema.polls.c.time).where(schema.polls.c.id >= first).order_by(schema.polls.c.id)
            end = min(max(last, oldest), first + size - 1)
            begun = connection.scalar(query.limit(1)) or 0.0
            poll_spans.open_span(connection, poll_spans.PollSpan(first, end, begun))
        return
    begun = connection.scalar(select(schema.polls.c.time).order_by(schema.polls.c.id).limit(1)) or 0.0
    below = next((int(name.rpartition("_")[2]) for name in _bounds(connection)), last + 1)
    span, name = poll_spans.PollSpan(1, below - 1, begun), poll_spans.partition_of(1)
    for number, index in enumerate(connection.scalars(text(_INDEXES_OF_POLLS)).all()):
        quote = connection.dialect.identifier_preparer.quote
        connection.execute(text(f"ALTER INDEX {quote(index)} RENAME TO {name}_index_{number}"))
    connection.execute(text(f"ALTER TABLE polls RENAME TO {name}"))
    schema.polls.create(connection)
    poll_spans.attach(connection, name, "(MINVALUE)", span.last)
    for bound in connection.scalars(text(_BOUNDS.format(table=name))).all():
        connection.execute(text(f"ALTER TABLE {name} DROP CONSTRAINT {bound}"))
    connection.execute(insert(schema.poll_spans), span._asdict())


def _tags_and_retention(connection: Connection) -> None:
    """Version 10 keeps tags, and how many versions of an element are kept and for how long."""
    _add(connection, schema.elements.c.keep)
    _add(connection, schema.elements.c.keep_for)
    connection.execute(text("ALTER TABLE elements ADD COLUMN tags TEXT DEFAULT '' NOT NULL"))
    for index in schema.RETENTION:
        index.create(connection)


_INDEXES_OF_POLLS = (
    "SELECT indexname FROM pg_indexes WHERE schemaname = current_schema() AND tablename = 'polls' ORDER BY 1"
)
_BOUNDS = (
    "SELECT conname FROM pg_constraint JOIN pg_class ON pg_class.oid = conrelid WHERE relname = '{table}' "
    "AND relnamespace = current_schema()::regnamespace AND starts_with(conname, 'polls_below_')"
)
_POLLS_MEANWHILE = 1_000_000
"""That may still be recorded by workers of an earlier version while numbers of polls are bounded."""


def _bounds(connection: Connection) -> Sequence[str]:
    """Return the names of constraints that say how large numbers of polls are."""
    return connection.scalars(text(_BOUNDS.format(table="polls"))).all()


def bound_polls(connection: Connection, version: int) -> None:
    """Before the step to version 9: have PostgreSQL know how large numbers of polls are.

    It reads all polls for that, while workers go on; then they become a partition at once.
    """
    if version >= 9:
        return
    for name in _bounds(connection):  # of one that was interrupted
        connection.execute(text(f"ALTER TABLE polls DROP CONSTRAINT {name}"))
    below = (connection.scalar(select(schema.numbers.c.polls)) or 0) + _POLLS_MEANWHILE + 1
    name = f"polls_below_{below}"
    connection.execute(text(f"ALTER TABLE polls ADD CONSTRAINT {name} CHECK (id < {below}) NOT VALID"))
    connection.commit()
    connection.execute(text(f"ALTER TABLE polls VALIDATE CONSTRAINT {name}"))
    connection.commit()


def _add(connection: Connection, column: Column[Any]) -> None:
    """Add a column that may be NULL."""
    kind = column.type.compile(connection.dialect)
    connection.execute(text(f"ALTER TABLE {column.table.name} ADD COLUMN {column.name} {kind}"))


_NOBODY = {"one": 1, "number": 0, "session": "", "beat": 0.0}
"""The row of ``planner`` while nobody plans; its number is that of the last one."""


STEPS: dict[int, Callable[[Connection], None]] = {
    2: _reads,
    3: _history,
    4: _planner,
    5: _terms_and_users,
    6: _room,
    7: _expiries,
    8: _links,
    9: _spans,
    10: _tags_and_retention,
}
"""By the version that they lead to."""


def schema_version(connection: Connection, name: str) -> int | None:
    """Return the version of the schema; None if there is nothing. Complains of other tables."""
    tables = set(inspect(connection).get_table_names())
    if schema.meta.name not in tables:
        others = sorted(
            tables & set(schema.METADATA.tables) if connection.dialect.name != "sqlite" else tables
        )
        if others:
            raise InvalidInput(
                f"{name} is no mirror, but has a table {others[0]!r} already: name another file, "
                f"database or schema"
            )
        return None
    found = connection.scalar(select(schema.meta.c.value).where(schema.meta.c.name == "schema"))
    version = int(found) if found is not None and found.isdecimal() else 0
    if version < 1:
        raise InvalidInput(
            f"{name} does not say which version of the schema it has: restore it from a back-up"
        )
    if version > schema.VERSION:
        raise InvalidInput(
            f"{name} was written by a newer unstale: its schema has version {version}, and this one knows "
            f"{schema.VERSION}; upgrade unstale, or name another mirror"
        )
    return version


def create(connection: Connection) -> None:
    """Make the tables."""
    schema.METADATA.create_all(connection, checkfirst=False)
    connection.execute(insert(schema.meta), {"name": "schema", "value": str(schema.VERSION)})
    connection.execute(insert(schema.numbers), dict.fromkeys(schema.numbers.c.keys(), 0) | {"one": 1})
    connection.execute(insert(schema.planner), _NOBODY)
    poll_spans.open_first_span(connection)


def migrate(connection: Connection, version: int) -> None:
    """Bring the tables up to date; a back-up has been made."""
    for step in range(version + 1, schema.VERSION + 1):
        STEPS[step](connection)
    statement = update(schema.meta).where(schema.meta.c.name == "schema").values(value=str(schema.VERSION))
    connection.execute(statement)


def copy_schema(connection: Connection, version: int) -> str:
    """Make a back-up on PostgreSQL: the tables once more, in a schema of their own; return its name."""
    here = connection.scalar(select(text("current_schema()")))
    names = set(inspect(connection).get_schema_names())
    base = f"{here}_v{version}_backup"
    name, number = base, 1
    while name in names:
        number += 1
        name = f"{base}_{number}"
    quote = connection.dialect.identifier_preparer.quote
    connection.execute(text(f"CREATE SCHEMA {quote(name)}"))
    for table in sorted(set(inspect(connection).get_table_names()) & set(schema.METADATA.tables)):
        connection.execute(text(f"CREATE TABLE {quote(name)}.{quote(table)} AS TABLE {quote(table)}"))
    return name
