"""What polls of one cell discover that belongs into another: kept in the cell, and taken there.

It is written in the transaction that records the poll, and deleted once the other cell has it: so it gets
there at least once, and what is there already is added no second time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, cast

from sqlalchemy import Column, Integer, MetaData, Table, Text, delete, func, insert, inspect, select

from unstale.errors import InvalidInput
from unstale.mirror.engine.discovery import Discovery
from unstale.mirror.mirror import Mirror
from unstale.mirror.source import New
from unstale.mirror.store.contract import Transaction
from unstale.mirror.store.sql.store import SqlStore
from unstale.mirror.store.sql.transaction import SqlTransaction

from .layout import Cell

__all__ = ["Outgoing", "deliver", "prepare"]

_MOST_WAITING = 10_000
"""Rows that may wait to be taken to other cells; lists that name more are read again."""
_AT_ONCE = 500

TABLES = MetaData()
_outgoing = Table(
    "outgoing",
    TABLES,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("kind", Text, nullable=False),
    Column("body", Text, nullable=False),
)
"""``kind``: ``new``, an element that a list names, or ``hint``."""


def prepare(store: SqlStore) -> None:
    """Make the table, if it is not there."""
    with store.begin() as t:
        if _outgoing.name not in inspect(t.connection).get_table_names():
            t.write()
            TABLES.create_all(t.connection)


class Outgoing:
    """The other cells of a mirror, as one of them sees them."""

    def __init__(self, cell: Cell) -> None:
        self._cell = cell

    def owns(self, group: str) -> bool:
        """Tell whether elements of a group are those of another cell."""
        return not self._cell.has(group)

    def send(self, t: Transaction, news: Sequence[tuple[New, Sequence[str]]]) -> int:
        """Note elements that were named, with their authors; return how many there was no room for."""
        connection = cast("SqlTransaction", t).connection
        there = int(connection.scalar(select(func.count()).select_from(_outgoing)) or 0)
        taken = news[: max(_MOST_WAITING - there, 0)]
        rows = [
            {
                "kind": "new",
                "body": json.dumps(
                    [new.key, new.source, dict(new.options), new.modified, list(authors)], default=str
                ),
            }
            for new, authors in taken
        ]  # fmt: skip
        self._note(t, rows)
        return len(news) - len(taken)

    def send_hints(self, t: Transaction, channel: str, hints: Sequence[tuple[str, float]]) -> None:
        """Note hints about elements."""
        body = [json.dumps([channel, key, told]) for key, told in hints]
        self._note(t, [{"kind": "hint", "body": one} for one in body])

    @staticmethod
    def _note(t: Transaction, rows: list[dict[str, str]]) -> None:
        if rows:
            work = cast("SqlTransaction", t)
            work.write()
            work.connection.execute(insert(_outgoing), rows)


def deliver(mirror: Mirror, discovery: Discovery, cell_of: Callable[[str], Mirror]) -> int:
    """Take what waits in a cell to where it belongs; return how much that was.

    ``cell_of`` returns the cell that has the elements of a group.
    """
    with mirror.store.begin() as t:
        rows = t.connection.execute(select(_outgoing).order_by(_outgoing.c.id).limit(_AT_ONCE)).all()
    if not rows:
        return 0
    news: dict[int, tuple[Mirror, list[tuple[New, Sequence[str]]]]] = {}
    hints: dict[int, tuple[Mirror, dict[str, list[tuple[str, float]]]]] = {}
    for row in rows:
        said: list[Any] = json.loads(row.body)
        try:
            if row.kind == "new":
                key, source, options, modified, authors = said
                new = New(key, source, options, modified)
                target = cell_of(discovery.addition(new, {}, authors=authors).group)
                news.setdefault(id(target), (target, []))[1].append((new, authors))
            else:
                channel, key, told = said
                target = cell_of(discovery.addition(New(key), {}).group)
                hints.setdefault(id(target), (target, {}))[1].setdefault(channel, []).append((key, told))
        except InvalidInput:  # rules have changed since, and it is no element any more
            continue
    for target, some in news.values():
        with target.store.begin() as t:
            discovery.take_named(t, some, target.clock.now())
    for target, by_channel in hints.values():
        with target.store.begin() as t:
            for channel, told_of in by_channel.items():
                discovery.take_hints(t, channel, told_of, target.clock.now())
    with mirror.store.begin() as t:
        t.write()
        t.connection.execute(delete(_outgoing).where(_outgoing.c.id.in_([row.id for row in rows])))
    return len(rows)
