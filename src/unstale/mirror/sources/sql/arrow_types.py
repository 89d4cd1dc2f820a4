"""Arrow types for columns of PostgreSQL, and for Python values of other databases.

The types depend on the columns and the values alone, so that the same content has the same types. If the type
of a column cannot hold one of its values (a date before Christ, an infinite time, text among numbers), the
whole column becomes text.
"""

from __future__ import annotations

import binascii
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa


@dataclass(frozen=True)
class PostgresColumn:
    """How a column of PostgreSQL is read and kept."""

    name: str
    declared: str
    """Its type in the database."""
    type: pa.DataType
    """Its type in the copy."""
    expression: str = "{}"
    """The SQL expression that is read."""
    wire: pa.DataType | None = None
    """The type in which it arrives; None: the same as in the copy."""
    finish: Callable[[pa.Array, pa.DataType], pa.Array] | None = None
    """Converts the arrived column to that of the copy."""
    note: str = ""

    @property
    def arrives(self) -> pa.DataType:
        """The type in which it arrives."""
        return self.type if self.wire is None else self.wire

    def as_text(self) -> PostgresColumn:
        """Return the same column, kept as the text that the database shows."""
        note = f"{self.name}: some values of type {self.declared} cannot be kept as such; all are text"
        return PostgresColumn(self.name, self.declared, pa.string(), "{}::text", note=note)


_UTC = pa.timestamp("us", "UTC")
_PLAIN = {
    16: pa.bool_(),
    20: pa.int64(),
    21: pa.int16(),
    23: pa.int32(),
    26: pa.int64(),  # oid
    700: pa.float32(),
    701: pa.float64(),
    1082: pa.date32(),
    1083: pa.time64("us"),
    1114: pa.timestamp("us"),
    1184: _UTC,
    18: pa.string(),  # "char"
    19: pa.string(),  # name
    25: pa.string(),
    114: pa.string(),  # json
    142: pa.string(),  # xml
    1042: pa.string(),  # char(n)
    1043: pa.string(),  # varchar
    2950: pa.string(),  # uuid
    3802: pa.string(),  # jsonb
}
_ARRAYS = {
    1000: pa.bool_(),
    1005: pa.int16(),
    1007: pa.int32(),
    1016: pa.int64(),
    1021: pa.float32(),
    1022: pa.float64(),
    1009: pa.string(),
    1015: pa.string(),
    2951: pa.string(),
}
_BYTEA, _NUMERIC = 17, 1700


def postgres_columns(
    names: list[str], types: list[tuple[int, int]], others: dict[int, tuple[str, str, bool]]
) -> list[PostgresColumn]:
    """Return the columns of a result; ``types`` are oids with their modifiers.

    ``others`` has, for oids that are not built in, name, kind (``typtype``) and whether it is an array of
    enums.
    """
    return [_postgres(name, *one, others) for name, one in zip(unique(names), types, strict=True)]


def _postgres(name: str, oid: int, modifier: int, others: dict[int, tuple[str, str, bool]]) -> PostgresColumn:
    declared, kind, enums = others.get(oid, (str(oid), "b", False))
    if oid in _PLAIN:
        return PostgresColumn(name, declared, _PLAIN[oid])
    if oid in _ARRAYS or enums:
        element = _ARRAYS.get(oid, pa.string())
        return PostgresColumn(name, declared, pa.list_(element), "to_json({})::text", pa.string(), from_lists)
    if oid == _BYTEA:
        return PostgresColumn(name, declared, pa.binary(), "encode({}, 'hex')", pa.string(), from_hex)
    if oid == _NUMERIC:
        precision, scale = (modifier - 4) >> 16, (modifier - 4) & 0x7FF
        if modifier >= 4 and 1 <= precision <= 38 and scale <= precision:
            return PostgresColumn(name, f"numeric({precision},{scale})", pa.decimal128(precision, scale))
    if kind == "e":
        return PostgresColumn(name, declared, pa.string())
    return PostgresColumn(
        name, declared, pa.string(), "{}::text", note=f"{name}: type {declared} is kept as text"
    )


def unique(names: Iterable[str]) -> list[str]:
    """Make names unique; the columns of a query may have equal names."""
    taken: dict[str, None] = {}
    for name in names:
        other, number = name, 2
        while other in taken:
            other, number = f"{name}_{number}", number + 1
        taken[other] = None
    return list(taken)


def from_hex(texts: pa.Array, _: pa.DataType) -> pa.Array:
    """Convert a column of hexadecimal digits to bytes, all at once."""
    count, start = len(texts), texts.offset
    valid, ends, digits = texts.buffers()
    places = np.frombuffer(ends, np.int32)[start : start + count + 1]
    octets = binascii.unhexlify(memoryview(digits)[places[0] : places[-1]]) if count and digits else b""
    offsets = pa.py_buffer(((places - places[0]) // 2).astype(np.int32))
    if start and valid is not None:
        valid = pa.array(texts.is_valid()).buffers()[1]
    return pa.Array.from_buffers(pa.binary(), count, [valid, offsets, pa.py_buffer(octets)])


def from_lists(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert a column of JSON arrays to lists."""
    read: Callable[[Any], Any] = lambda value: value  # noqa: E731
    if pa.types.is_floating(kind.value_type):
        read = lambda value: None if value is None else float(value)  # noqa: E731  (NaN comes as text)
    values = [None if text is None else json.loads(text) for text in texts.to_pylist()]
    return pa.array([None if one is None else [read(value) for value in one] for one in values], kind)


# --- Python values ------------------------------------------------------------------------------------------

_LARGEST_EXACT_IN_FLOAT = 2**53
_TOO_WIDE_FOR_INT64 = 2**63


@dataclass
class ValueKinds:
    """The kinds of values that a column has in the rows read so far."""

    declared: str = ""
    """The type that the database declares; used if there are no values."""
    seen: frozenset[type] = frozenset()
    largest: int = 0
    """The largest absolute value of its whole numbers."""
    zoned: frozenset[bool] = frozenset()
    """Whether its times have a time zone; both if some have and some have not."""

    def take(self, values: Sequence[Any]) -> ValueKinds:
        """Return the kinds with those of more values."""
        types = frozenset(map(type, values))
        seen = self.seen | (types - {type(None)})
        largest, zoned = self.largest, self.zoned
        if int in types:
            whole = values if types == {int} else [value for value in values if type(value) is int]
            largest = max(largest, abs(max(whole, default=0)), abs(min(whole, default=0) + 1))
        if datetime in types:
            zoned |= {value.tzinfo is not None for value in values if isinstance(value, datetime)}
        return replace(self, seen=seen, largest=largest, zoned=zoned)

    @property
    def type(self) -> pa.DataType:
        """The type of the column in the copy."""
        seen = self.seen
        if not seen:
            return _declared(self.declared)
        if seen == {int, float} or (seen == {int} and _declared(self.declared) == pa.float64()):
            return pa.float64() if self.largest < _LARGEST_EXACT_IN_FLOAT else pa.string()
        if len(seen) > 1:
            return pa.string()
        (one,) = seen
        if one is int:
            return pa.int64() if self.largest < _TOO_WIDE_FOR_INT64 else pa.string()
        if one is datetime:
            return pa.string() if len(self.zoned) > 1 else _UTC if True in self.zoned else pa.timestamp("us")
        return _PYTHON.get(one, pa.string())

    @property
    def note(self) -> str:
        """A remark for the user about the column, without its name."""
        if self.seen and self.type == pa.string() and self.seen - {str, UUID}:
            return f"values of type {', '.join(sorted(one.__name__ for one in self.seen))} are kept as text"
        return ""

    def array(self, values: Iterable[Any]) -> pa.Array:
        """Return values as an Arrow array of the type of the column."""
        if self.type == pa.string() and self.seen - {str}:
            values = [None if value is None else as_text(value) for value in values]
        elif self.type == pa.binary() and self.seen != {bytes}:
            values = [None if value is None else bytes(value) for value in values]
        return pa.array(values, self.type)


_PYTHON = {
    bool: pa.bool_(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    bytearray: pa.binary(),
    memoryview: pa.binary(),
    date: pa.date32(),
    time: pa.time64("us"),
}


def _declared(name: str) -> pa.DataType:
    """Return the Arrow type for a declared type, by the rules of SQLite."""
    name = name.upper()
    if "INT" in name:
        return pa.int64()
    if any(part in name for part in ("CHAR", "CLOB", "TEXT")):
        return pa.string()
    if "BLOB" in name or "BINARY" in name:
        return pa.binary()
    if any(part in name for part in ("REAL", "FLOA", "DOUB", "DEC", "NUMERIC")):
        return pa.float64()
    return pa.string()


def as_text(value: object) -> str:
    """Return any value as text."""
    if isinstance(value, str):
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"x'{bytes(value).hex()}'"
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, (list, dict)):
        return json.dumps(value, sort_keys=True, default=str)
    if isinstance(value, float):
        return repr(value)
    return format(value, "f") if isinstance(value, Decimal) else str(value)
