"""What the parts of a transaction share: the connection, the right to write, and how values are stored."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import inf
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from sqlalchemy import (
    ColumnElement,
    Connection,
    Float,
    Insert,
    Integer,
    Select,
    Table,
    Text,
    Update,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from unstale.mirror.source import Json
from unstale.mirror.store.copies import Copies
from unstale.mirror.store.storable import text_of

_MOST_ROWS, _MOST_VALUES = 2048, 32766
"""Rows that one statement writes in SQLite, and values that it can be given, at most."""
_FRACTION_UNITS = 2.0**62
"""What a number has beyond the point, times this, is a whole number: of all that are not below 1/1000."""
_LARGEST_INTEGER = 2**63 - 1
"""Of SQLite, which it makes of what is infinite."""
_ROWS_ASKED_FOR = 1000
"""Rows that one statement asks for by number or key, at most."""

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

    span_last: int
    """Up to which number polls have a span, as far as it knows."""

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

    SQLAlchemy takes longer to look at the rows than a database to write them, so it only makes the text. In
    SQLite one statement writes many rows: each lets another thread have the interpreter, and has to wait
    until that one lets go of it again, which takes longer than all the rest.
    """

    def __init__(self, statement: Insert | Update, *names: str) -> None:
        self._statement, self._names = statement, names
        self._texts: dict[tuple[str, int], str] = {}

    def run(self, connection: Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        """Run it; each row has a value for each name, and no two are about the same row of the table."""
        if not rows:
            return
        if connection.dialect.name != "sqlite":
            text = self._text(connection, 1)
            connection.exec_driver_sql(text, [dict(zip(self._names, row, strict=True)) for row in rows])
            return
        most = 1 << (_MOST_VALUES // len(self._names)).bit_length() - 1
        for some in chunks(rows, min(_MOST_ROWS, most)):
            count = 1 << (len(some) - 1).bit_length()  # a few sizes, so that few texts are made and prepared
            text = self._text(connection, count)
            nothing = (None,) * (len(self._names) * (count - len(some)))
            connection.exec_driver_sql(text, (*chain.from_iterable(some), *nothing))

    def _text(self, connection: Connection, count: int) -> str:
        """Return the text for so many rows in this kind of database."""
        which = connection.dialect.name, count
        if which not in self._texts:
            made = self._statement.compile(dialect=connection.dialect, column_keys=list(self._names))
            text = str(made)
            self._texts[which] = self._for_many(text, made, count) if made.positional else text
        return self._texts[which]

    def _for_many(self, text: str, made: Any, count: int) -> str:  # noqa: ANN401
        """Write a statement for one row for so many, of which those without a first value do nothing."""
        names: list[str] = list(made.positiontup or ())
        row = f"({', '.join('?' * len(self._names))})"
        first = self._names[0]
        if isinstance(self._statement, Insert):
            values = f"VALUES ({', '.join('?' * len(names))})"
            rows_given = f"SELECT {', '.join(names)} FROM given WHERE {first} IS NOT NULL"  # noqa: S608
            text = text.replace(values, rows_given)
        else:
            parts = text.split("?")
            text = "".join(f"{part}given.{name}" for part, name in zip(parts, names, strict=False))
            text += parts[-1]
            text = text.replace(" WHERE ", " FROM given WHERE ", 1)
        rows = ", ".join([row] * count)
        return f"WITH given ({', '.join(self._names)}) AS (VALUES {rows}) {text}"


class Whole:
    """A query of which all rows are wanted; in SQLite they come as one, for the same reason as with `Many`.

    There they are written as JSON, with numbers in two parts, so that they keep all of their digits.
    ``documents`` are columns that hold JSON, which is read on the way if it can be (see `from_json`).
    """

    def __init__(self, query: Select[Any], *, documents: Sequence[str] = ()) -> None:
        self._query = query
        rows = query.subquery()
        self._floats = [place for place, column in enumerate(rows.c) if isinstance(column.type, Float)]
        parts: list[Any] = []
        for column in rows.c:
            if isinstance(column.type, Float):
                whole = cast(column, Integer)
                parts += [whole, cast((column - whole) * literal_column(str(_FRACTION_UNITS)), Integer)]
            elif column.name in documents:
                parts.append(case((func.json_valid(column) == 1, func.json(column)), else_=column))
            else:
                parts.append(column)
        self._together = select(func.json_group_array(func.json_array(*parts), type_=Text))

    def run(self, connection: Connection, **given: Any) -> list[Any]:  # noqa: ANN401
        """Return the rows, in any order; ``given``: what the query has parameters for."""
        if connection.dialect.name != "sqlite":
            return list(connection.execute(self._query, given).all())
        rows: list[Any] = json.loads(connection.execute(self._together, given).scalar_one())
        for row in rows:
            for place in self._floats:
                rest = row.pop(place + 1)
                if rest is not None:
                    row[place] += (
                        rest / _FRACTION_UNITS if -_LARGEST_INTEGER < rest < _LARGEST_INTEGER else inf * rest
                    )
        return rows


class Among(FunctionElement[bool]):
    """The condition of `among`.

    It has no type: SQLAlchemy would write ``= 1`` after a truth value that SQLite stores as a number, and
    then SQLite would look at all rows of the table instead of those in its index.
    """

    inherit_cache = True


@compiles(Among, "sqlite")
def _among_sqlite(element: Among, compiler: SQLCompiler, **kw: Any) -> str:  # noqa: ANN401
    column, numbers = (compiler.process(one, **kw) for one in element.clauses)
    return f"{column} IN (SELECT value FROM json_each({numbers}))"  # noqa: S608  (a parameter)


@compiles(Among, "postgresql")
def _among_postgresql(element: Among, compiler: SQLCompiler, **kw: Any) -> str:  # noqa: ANN401
    column, numbers = (compiler.process(one, **kw) for one in element.clauses)
    return f"{column} = ANY (CAST(translate({numbers}, '[]', '{{}}') AS BIGINT[]))"


def among(column: ColumnElement[int], name: str) -> ColumnElement[bool]:
    """Return the condition that a column is one of the numbers in the parameter of this name.

    They are given as one text (see `as_numbers`): a database takes just so many parameters, and PostgreSQL
    plans for an array as well without knowing it as with.

    >>> from sqlalchemy import column
    >>> from sqlalchemy.dialects import sqlite
    >>> print(among(column("id"), "some").compile(dialect=sqlite.dialect()))
    id IN (SELECT value FROM json_each(?))
    """
    return Among(column, bindparam(name, type_=Text))


def as_numbers(ids: Iterable[int]) -> str:
    """Return numbers as a parameter for `among`.

    >>> as_numbers([3, 5])
    '[3,5]'
    """
    return f"[{','.join(map(str, ids))}]"


def chunks(values: Sequence[_T], size: int = _ROWS_ASKED_FOR) -> Iterator[Sequence[_T]]:
    """Cut a sequence into parts.

    >>> list(chunks([1, 2, 3], 2))
    [[1, 2], [3]]
    """
    return (values[start : start + size] for start in range(0, len(values), size))


def numbers_of(ids: Any) -> list[int]:  # noqa: ANN401 - also an array
    """Return numbers as the database takes them; arrays have their own."""
    return [int(number) for number in (ids.tolist() if isinstance(ids, np.ndarray) else ids)]


def number_within(number: int) -> int:
    """Return a place in an order, or a count, as the database takes it; nothing is beyond the largest.

    >>> number_within(7), number_within(10**30)
    (7, 9223372036854775807)
    """
    return min(max(int(number), -_LARGEST_INTEGER), _LARGEST_INTEGER)


def or_none(value: float | None) -> float | None:
    """Return a number as it is stored: nan is NULL."""
    return None if value is None or value != value else float(value)  # noqa: PLR0124


def or_nan(value: float | None) -> float:
    """Return a number that may not be there: NULL is nan."""
    return np.nan if value is None else value


def json_of(value: Mapping[str, Json]) -> str:
    """Return a mapping as it is stored; what JSON does not know is stored as its text."""
    return _ENCODE(dict(value)) if value else "{}"


def readable_json_of(value: Mapping[str, Json]) -> str:
    r"""Return a mapping for people to read as it is stored: its texts are `text_of` themselves.

    >>> readable_json_of({"a": ["b\ud800", {"c\0": 1}]})
    '{"a":["b?",{"c\\ufffd":1}]}'
    """
    text = json_of(value)
    if "\\ud" in text or "\\u0000" in text:  # half a letter, or none, which nobody can write
        return _ENCODE(_readable(json.loads(text)))
    return text


def _readable(value: Json) -> Json:
    """Return a value whose texts can be written."""
    if isinstance(value, str):
        return text_of(value)
    if isinstance(value, dict):
        return {text_of(name): _readable(one) for name, one in value.items()}
    return [_readable(one) for one in value] if isinstance(value, list) else value


def from_json(text: str | dict[str, Json]) -> dict[str, Json]:
    """Return what was stored; it may have been read on the way."""
    if isinstance(text, str):
        return json.loads(text) if text != "{}" else {}
    return text
