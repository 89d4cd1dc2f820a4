"""What the parts of a transaction share: the connection, the right to write, and how values are stored."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from sqlalchemy import Connection, Delete, Insert, Table, Update
from sqlalchemy.dialects import postgresql, sqlite

from .copies import Copies
from .source import Json

__all__ = [
    "Many",
    "Taken",
    "Work",
    "chunks",
    "from_json",
    "json_of",
    "numbers_of",
    "or_nan",
    "or_none",
    "text_of",
]

CHUNK = 1000
"""Rows that one statement asks for by number or key."""

_ENCODE = json.JSONEncoder(separators=(",", ":"), default=str).encode
_T = TypeVar("_T")


class Taken(NamedTuple):
    """The last number given out, of each kind."""

    elements: int
    groups: int
    polls: int
    versions: int
    edits: int
    planner: int


class Work(Protocol):
    """A transaction, as its parts see it."""

    @property
    def connection(self) -> Connection:
        """Where statements go."""

    @property
    def copies(self) -> Copies:
        """The copies that versions name."""

    def write(self) -> None:
        """Say that this transaction is going to write; on SQLite it waits for its turn here."""

    def take(
        self, *, elements: int = 0, groups: int = 0, polls: int = 0, versions: int = 0, edits: int = 0
    ) -> Taken:
        """Take so many numbers; no other transaction gets any until this one ends."""

    def plan(self) -> None:
        """Make sure that nobody else has become the planner meanwhile."""

    def insert(self, table: Table) -> sqlite.Insert | postgresql.Insert:
        """Return an insert that can say what happens if the row is there already."""


class Many:
    """A statement that is run for many rows, which are given by position.

    SQLAlchemy takes longer to look at the rows than SQLite to write them, so it only makes the text.
    """

    def __init__(self, statement: Insert | Update | Delete, *names: str) -> None:
        self._statement, self._names = statement, names
        self._texts: dict[str, tuple[str, list[int] | None]] = {}

    def run(self, connection: Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        """Run it; each row has a value for each name."""
        if not rows:
            return
        text, order = self._texts.get(connection.dialect.name) or self._made(connection)
        if order is None:
            named = [dict(zip(self._names, row, strict=True)) for row in rows]
            connection.exec_driver_sql(text, named)
        elif order == list(range(len(self._names))):
            connection.exec_driver_sql(text, list(rows))
        else:
            connection.exec_driver_sql(text, [tuple(row[place] for place in order) for row in rows])

    def _made(self, connection: Connection) -> tuple[str, list[int] | None]:
        """Return the text for this kind of database, and which value goes where; None: by name."""
        made = self._statement.compile(dialect=connection.dialect, column_keys=list(self._names))
        order = None
        if made.positional:
            order = [self._names.index(name) for name in made.positiontup or ()]
        self._texts[connection.dialect.name] = str(made), order
        return str(made), order


def chunks(values: Sequence[_T], size: int = CHUNK) -> Iterator[Sequence[_T]]:
    """Cut a sequence into parts.

    >>> list(chunks([1, 2, 3], 2))
    [[1, 2], [3]]
    """
    return (values[start : start + size] for start in range(0, len(values), size))


def numbers_of(ids: Any) -> list[int]:  # noqa: ANN401 - also an array
    """Return numbers as the database takes them; arrays have their own."""
    return [int(number) for number in (ids.tolist() if isinstance(ids, np.ndarray) else ids)]


def or_none(value: float | None) -> float | None:
    """Return a number as it is stored: nan is NULL."""
    return None if value is None or value != value else float(value)  # noqa: PLR0124


def or_nan(value: float | None) -> float:
    """Return a number that may not be there: NULL is nan."""
    return np.nan if value is None else value


def text_of(text: str) -> str:
    r"""Return a text as any database takes it, whatever a server put into it.

    >>> text_of("a\0b\ud800")
    'a�b?'
    """
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def json_of(value: Mapping[str, Json]) -> str:
    """Return a mapping as it is stored; what JSON does not know is stored as its text."""
    return _ENCODE(dict(value)) if value else "{}"


def from_json(text: str) -> dict[str, Json]:
    """Return what was stored."""
    return json.loads(text) if text != "{}" else {}
