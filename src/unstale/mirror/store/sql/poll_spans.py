"""Spans of polls: the parts in which the record of polls leaves the tables.

Numbers of polls are given out in the order in which polls are recorded, so that a span of numbers is a span
of time. On PostgreSQL each span is a partition of ``polls``, which is dropped as a whole; in an SQLite file
its rows are deleted, a few at a time. The newest span is the one that polls are written to. A poll that has a
number beyond it begins the next, in the transaction that records it.
"""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, delete, exc, func, insert, select, text

from .schema import meta, numbers, poll_spans, polls
from .session import Work

SPAN_SECONDS = 30 * 86400.0
"""That a span is made for, by how fast the one before was filled."""
_FIRST_SPAN_POLLS = 1000
MOST_SPAN_POLLS = 2_000_000
"""Of a fleet, some half an hour: what the tables hold beyond what they should, and one file has."""
_GROWTH = 8
"""By which a span may be longer, or shorter, than the one before."""
MOVED = "polls_moved"
"""The name under which ``mirror_meta`` has the number of the last poll that has left the tables."""
_PATIENCE = "SET LOCAL lock_timeout = '500ms'"
"""While the owner of a partition waits for whoever reads it, all others wait for the owner."""
_ROWS_DELETED_AT_ONCE = 2000
"""In an SQLite file, by one transaction: some milliseconds."""


class PollSpan(NamedTuple):
    """Polls with numbers from ``first`` to ``last``; the first was recorded at ``begun``."""

    first: int
    last: int
    begun: float


_NEWEST = select(poll_spans).order_by(poll_spans.c.first.desc()).limit(1)
"""Asked by a transaction that records polls, if it does not know that its numbers are in a span."""


def hold_numbers(work: Work, last: int, begun: float) -> None:
    """See to it that there are spans for polls up to a number, which this transaction has taken."""
    if last <= work.span_last:
        return
    connection = work.connection
    row = connection.execute(_NEWEST).one()
    newest = PollSpan(row.first, row.last, row.begun)
    while newest.last < last:
        begun = max(float(begun), newest.begun)
        size = _span_size(newest, begun)
        newest = PollSpan(newest.last + 1, newest.last + size, begun)
        open_span(connection, newest)
    work.span_last = newest.last  # which the store believes once the transaction is committed


def _span_size(before: PollSpan, begun: float) -> int:
    """Return how many polls the next span is for.

    >>> _span_size(PollSpan(1, 1000, 0.0), 10.0), _span_size(PollSpan(1, 1000, 0.0), 1e9)
    (8000, 1000)
    >>> _span_size(PollSpan(1, 1_000_000, 0.0), 1000.0)
    2000000
    """
    count = before.last - before.first + 1
    wanted = count * SPAN_SECONDS / max(begun - before.begun, 1.0)
    wanted = min(max(wanted, count / _GROWTH), count * _GROWTH)
    return int(min(max(wanted, _FIRST_SPAN_POLLS), MOST_SPAN_POLLS))


def open_first_span(connection: Connection) -> None:
    """Make the span for the first polls of a new store."""
    open_span(connection, PollSpan(1, _FIRST_SPAN_POLLS, 0.0))


def open_span(connection: Connection, span: PollSpan) -> None:
    """Make a span; its partition is attached, which nobody has to wait for."""
    connection.execute(insert(poll_spans), span._asdict())
    if connection.dialect.name != "sqlite":
        name = partition_of(span.first)
        connection.execute(text(f"CREATE TABLE {name} (LIKE polls INCLUDING DEFAULTS)"))
        attach(connection, name, f"({span.first})", span.last)


def attach(connection: Connection, name: str, first: str, last: int) -> None:
    """Make a table on PostgreSQL the partition of a span."""
    connection.execute(
        text(f"ALTER TABLE polls ATTACH PARTITION {name} FOR VALUES FROM {first} TO ({last + 1})")
    )


def partition_of(first: int) -> str:
    """Return the name of the table with the polls of a span."""
    return f"polls_{first:d}"


def moved(connection: Connection) -> int:
    """Return the number of the last poll that has left the tables; 0 if none has."""
    found = connection.scalar(select(meta.c.value).where(meta.c.name == MOVED))
    return 0 if found is None else int(found)


def oldest_span(
    connection: Connection, before: float, most: int, heard: int
) -> tuple[PollSpan, float] | None:
    """Return the oldest span, and when the next was begun, if its polls are to leave the tables.

    They are if all were recorded before a moment, or if the tables hold more polls than they may even without
    them; and if the planner has heard of all.
    """
    some = [
        PollSpan(row.first, row.last, row.begun)
        for row in connection.execute(select(poll_spans).order_by(poll_spans.c.first).limit(2))
    ]
    if len(some) == 1 or some[0].last > heard:  # polls are being written to the only one
        return None
    last = connection.scalar(select(numbers.c.polls)) or 0
    leaves = some[1].begun < before or last - some[0].last > most
    return (some[0], some[1].begun) if leaves else None


def close_span(work: Work, span: PollSpan) -> bool:
    """Let a span leave the tables; False if another has done so, or somebody is reading for long."""
    connection = work.connection
    work.write()
    partitions = connection.dialect.name != "sqlite"
    if partitions:
        connection.execute(text(_PATIENCE))
        try:
            connection.execute(text("LOCK TABLE polls IN ACCESS EXCLUSIVE MODE"))
        except exc.OperationalError:
            connection.rollback()
            return False
    there = poll_spans.c.first == span.first
    if not connection.execute(delete(poll_spans).where(there)).rowcount:
        return False
    statement = work.insert(meta).values(name=MOVED, value=str(span.last))
    connection.execute(
        statement.on_conflict_do_update(index_elements=["name"], set_={"value": statement.excluded.value})
    )
    if partitions:
        connection.execute(text(f"DROP TABLE {partition_of(span.first)}"))
    return True


def delete_moved(work: Work) -> int:
    """Delete some polls that have left the tables, in an SQLite file; return how many."""
    connection = work.connection
    if connection.dialect.name != "sqlite" or not (until := moved(connection)):
        return 0
    first = connection.scalar(select(func.min(polls.c.id)))
    if first is None or first > until:
        return 0
    work.write()
    last = min(until, first + _ROWS_DELETED_AT_ONCE - 1)
    return connection.execute(delete(polls).where(polls.c.id <= last)).rowcount
