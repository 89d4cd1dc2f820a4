"""Keys of tables, queries and partitions (``DATABASE#TABLE``), and their options.

::

    warehouse#orders                 a table of a database that mirror.toml names
    warehouse#sales.orders           in a schema
    warehouse#orders[region=eu]      a partition: the rows whose region is eu
    warehouse#orders[region is null]
    warehouse#"odd.name"             a name with a dot, a quote or a bracket in it, quoted as in SQL
    sqlite:////srv/shop.db#orders    a database by its URL, if that has no password

Names are written exactly as in the database: every statement quotes them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from json import dumps
from typing import NamedTuple
from urllib.parse import quote, unquote

from unstale.errors import InvalidInput
from unstale.mirror.source import Json

_NAME = re.compile(r'"((?:[^"]|"")+)"|([^".\[\]]+)')
_NULL = " is null"
_BARE_VALUE = "".join(map(chr, range(33, 127))).replace("%", "") + " "


class TableName(NamedTuple):
    """Name of a table."""

    schema: str | None
    table: str

    def __str__(self) -> str:
        return ".".join(_quoted(part) for part in self if part is not None)


class Partition(NamedTuple):
    """The rows of a table that have one value in a column; None stands for NULL."""

    column: str
    value: str | None

    def __str__(self) -> str:
        column = _quoted(self.column, '=".[]')
        return f"[{column}{_NULL}]" if self.value is None else f"[{column}={_escaped(self.value)}]"


@dataclass(frozen=True)
class TableKey:
    """The key of a table, or of a partition of it."""

    database: str
    name: TableName
    partition: Partition | None = None

    def __str__(self) -> str:
        return f"{self.database}#{self.name}{self.partition or ''}"

    def with_partition(self, column: str, value: str | None) -> TableKey:
        """Return a partition of this table."""
        return replace(self, partition=Partition(column, value))


@dataclass(frozen=True)
class TableOptions:
    """The options of an element."""

    query: str | None = None
    """A statement whose rows are the element; the key is only a name then."""
    tables: tuple[TableName, ...] | None = None
    """All tables that the query or the view reads; None: not known."""
    split: str | None = None
    """A column; the rows of each of its values are a partition, which is an element."""
    cursor: str | None = None
    """A column that grows with every change: while its maximum is the same, nothing has changed."""
    count: bool = True
    """Whether the cursor also counts rows, to notice deletes."""
    probe: str | None = None
    """A statement whose answer is the same while nothing has changed."""
    checksum: bool = False
    """Whether the database computes a checksum of the rows before they are read."""

    @property
    def digest(self) -> str:
        """A digest of all options; validators of other options prove nothing."""
        return sha256(dumps([str(self)]).encode()).hexdigest()[:16]


def options_of(options: Mapping[str, Json]) -> TableOptions:
    """Return the checked options; options of other sources are ignored."""

    def text(name: str) -> str | None:
        value = options.get(name)
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip():
            raise InvalidInput(f"{name} must be a text; it is {value!r}")
        return value.strip()

    def flag(name: str, *, default: bool) -> bool:
        value = options.get(name, default)
        if not isinstance(value, bool):
            raise InvalidInput(f"{name} must be true or false; it is {value!r}")
        return value

    query, split, cursor, probe = text("query"), text("split"), text("cursor"), text("probe")
    if query is not None:
        query = query.rstrip("; \t\r\n")
    if query and split:
        raise InvalidInput("split is for tables; a query has no partitions. Leave one of split and query out")
    if cursor and probe:
        raise InvalidInput("cursor and probe both say when to read; leave one of them out")
    return TableOptions(
        query,
        _tables(options.get("tables")),
        split,
        cursor,
        flag("count", default=True),
        None if probe is None else probe.rstrip("; \t\r\n"),
        flag("checksum", default=False),
    )


def _tables(value: Json) -> tuple[TableName, ...] | None:
    if value is None:
        return None
    texts = value if isinstance(value, list) and value else [value]
    names = []
    for text in texts:
        if not isinstance(text, str) or not text.strip():
            raise InvalidInput(f"tables must be a list of names of tables; it is {value!r}")
        name, rest = _name(text.strip(), text)
        if rest:
            raise InvalidInput(f"tables must be names of tables; {text!r} is none")
        names.append(name)
    return tuple(names)


def key_from_text(text: str, options: Mapping[str, Json], names: Mapping[str, object]) -> TableKey:
    """Return the key of what a user names; ``names`` are the configured databases."""
    database, sharp, rest = text.strip().partition("#")
    if not sharp or not rest.strip() or not database.strip():
        raise InvalidInput(f"{text!r} names no table; write DATABASE#TABLE, such as warehouse#orders")
    key = parse_key(f"{database_of(database.strip(), names)}#{rest.strip()}", options)
    if key.partition and options_of(options).query:
        raise InvalidInput(f"{text!r}: a query has no partitions; put the condition into the query")
    return key


def parse_key(key: str, options: Mapping[str, Json]) -> TableKey:
    """Read a key."""
    database, _, rest = key.partition("#")
    name, bracket = _name(rest, key)
    return TableKey(database, name, _part(bracket, key, options.get("partition")) if bracket else None)


def database_of(text: str, names: Mapping[str, object]) -> str:
    """Return the canonical name of a database: that in mirror.toml, or its URL."""
    if text in names:
        return text
    if "://" not in text:
        there = ", ".join(sorted(names)) or "none yet"
        raise InvalidInput(
            f"there is no database {text!r} in mirror.toml; there are: {there}. "
            f'Add [databases.{text}] with url = "...", or write the URL instead of the name'
        )
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise InvalidInput(
            f"{_hidden(text)!r} is no URL of a database; it looks like postgresql://user@host/database, "
            "or sqlite:////path/to/file.db"
        ) from None
    if url.password is not None or "password" in url.query:
        raise InvalidInput(
            f"{_hidden(text)!r} has a password in it, and keys are shown and stored in many places. "
            'Write it to mirror.toml: [databases.NAME] with url = "...", where ${VARIABLE} stands for a '
            "variable of the environment; then the key is NAME#TABLE"
        )
    if url.get_backend_name() == "sqlite":
        if not url.database or url.database == ":memory:":
            raise InvalidInput(f"{text!r} is a database in memory, which nobody else can write to")
        if not url.database.startswith("file:"):
            url = url.set(database=os.path.abspath(url.database))  # noqa: PTH100  (no link is followed)
    return url.render_as_string(hide_password=False)


def _hidden(text: str) -> str:
    """Replace a possible password by stars."""
    text = re.sub(r"(://[^:/@]*):.*@", r"\1:***@", text)
    return re.sub(r"(?i)(password=)[^&]*", r"\1***", text)


def _name(text: str, whole: str) -> tuple[TableName, str]:
    """Read ``table`` or ``schema.table``; return it, and the text that follows."""
    parts, at = [], 0
    while found := _NAME.match(text, at):
        parts.append(found[1].replace('""', '"') if found[1] else found[2])
        at = found.end()
        if text[at : at + 1] != ".":
            break
        at += 1
    if not 1 <= len(parts) <= 2 or text[:at].endswith(".") or text[at : at + 1] not in {"", "["}:
        raise InvalidInput(
            f"{whole!r} names no table; a table is TABLE or SCHEMA.TABLE, and names with a dot, a quote or a "
            'bracket in them are quoted: "odd.name"'
        )
    if any("\0" in part for part in parts):
        raise InvalidInput(f"{whole!r} has a NUL in a name")
    return TableName(parts[0] if len(parts) == 2 else None, parts[-1]), text[at:]


def _part(text: str, whole: str, partition: Json) -> Partition:
    """Read ``[column=value]`` or ``[column is null]``, or ``[value]`` if the column is an option."""
    if not text.endswith("]"):
        raise InvalidInput(f"{whole!r}: a partition is written [column=value], at the end")
    inner = text[1:-1]
    if isinstance(partition, str):
        quoted = _quoted(partition, '=".[]')
        if inner.lower() == f"{quoted}{_NULL}".lower():
            return Partition(partition, None)
        return Partition(partition, unquote(inner.removeprefix(f"{quoted}=")))
    found = re.match(r'"((?:[^"]|"")+)"|([^"=]+?)(?==| is null$)', inner, re.IGNORECASE)
    if found is not None:
        column = found[1].replace('""', '"') if found[1] else found[2]
        rest = inner[found.end() :]
        if rest.lower() == _NULL:
            return Partition(column, None)
        if rest.startswith("="):
            return Partition(column, unquote(rest[1:]))
    raise InvalidInput(f"{whole!r}: a partition is written [column=value] or [column is null]")


def _quoted(name: str, special: str = '".[]') -> str:
    """Quote a name if it has special characters."""
    odd = not name or name != name.strip() or any(char in special for char in name)
    return name if not odd and not name.lower().endswith(_NULL) else '"' + name.replace('"', '""') + '"'


def _escaped(value: str) -> str:
    """Escape a value so that it fits on one line."""
    return "".join(
        char if char in _BARE_VALUE or (char.isprintable() and ord(char) > 127) else quote(char, safe="")
        for char in value
    )
