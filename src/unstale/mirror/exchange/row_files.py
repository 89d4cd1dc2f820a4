"""Files of typed rows, in CSV, TSV (perhaps gzipped) or Parquet: what is written is read back the same.

Both ways go part by part, so that files may be larger than memory. In text what is missing is empty; in
Parquet it is null.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import isfinite, isnan, nan
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, cast

from unstale.errors import InvalidInput, need
from unstale.mirror.as_json import timestamp
from unstale.mirror.source import Json
from unstale.tables.elements import bad_column, bad_value, find_columns, is_utf8
from unstale.tables.history import moment
from unstale.tables.lines import TextFile
from unstale.tables.output import replacing
from unstale.tables.parquet import ParquetFile

__all__ = ["SUFFIXES", "Column", "Columns", "Place", "reading", "writing"]

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
_PART = 10_000
"""Rows of Parquet that are read at once."""

Kind = Literal["text", "number", "whole", "flag", "moment", "json"]


class Column(NamedTuple):
    """What a column holds.

    text    any text; missing is ""
    number  missing is nan
    whole   a whole number, >= 0; missing is None
    flag    0 or 1; missing is None
    moment  seconds since 1970, written as a timestamp in UTC, to the microsecond; missing is nan
    json    an object; missing is {}
    """

    kind: Kind
    unit: str = ""
    """For the reader of a Parquet file."""
    required: bool = False
    rule: Callable[[Any], str] | None = None
    """Returns what must be, if a value breaks it."""


Columns = Mapping[str, Column]


class Place(NamedTuple):
    """Where a row stands."""

    path: str
    row: str
    """Such as ``line 12`` or ``row 12``."""

    def wrong(self, column: str, rule: str, value: object) -> InvalidInput:
        """Return the error that says what is wrong with a value."""
        return bad_value(self.path, self.row, column, rule, value)


def _suffix(path: str) -> str:
    found = next((suffix for suffix in SUFFIXES if path.lower().endswith(suffix)), None)
    if found is None:
        allowed = f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
        raise InvalidInput(f"the file must end in {allowed}; it is {path!r}")
    return found


# --- writing


@contextmanager
def writing(path: str, columns: Columns) -> Iterator[Callable[[Sequence[Sequence[Any]]], None]]:
    """Give a function that writes rows; the file is there, whole, when all has gone well."""
    suffix = _suffix(path)
    if not Path(path).resolve().parent.is_dir():
        raise InvalidInput(f"the file must be in a folder that exists; it is {path!r}")
    with replacing(path) as file:
        if suffix == ".parquet":
            with _parquet(file, columns) as write:
                yield write
        elif suffix.endswith(".gz"):
            with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:  # the same bytes each time
                yield from _text(cast("IO[bytes]", packed), suffix, columns)
        else:
            yield from _text(file, suffix, columns)


def _text(
    file: IO[bytes], suffix: str, columns: Columns
) -> Iterator[Callable[[Sequence[Sequence[Any]]], None]]:
    text = io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="")
    delimiter = "\t" if ".tsv" in suffix else ","
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(columns)
    shown = [_SHOWN[column.kind] for column in columns.values()]

    def write(rows: Sequence[Sequence[Any]]) -> None:
        for row in rows:
            values = [show(value) for show, value in zip(shown, row, strict=True)]
            if any("\r" in value for value in values if isinstance(value, str)):  # is not quoted by itself
                line = io.StringIO(newline="")
                csv.writer(line, delimiter=delimiter, lineterminator="\r\n").writerow(values)
                text.write(f"{line.getvalue()[:-2]}\n")
            else:
                writer.writerow(values)

    yield write
    text.flush()
    text.detach()


def _text_of(value: str) -> str:
    return value.replace("\0", "\ufffd")  # readers of CSV stumble over it


def _number_of(value: float) -> str:
    return "" if isnan(value) else repr(float(value))


def _moment_of(value: float) -> str:
    return "" if isnan(value) else timestamp(value)


def _json_of(value: Mapping[str, Json]) -> str:
    return json.dumps(dict(value), ensure_ascii=False, sort_keys=True) if value else ""


_SHOWN: dict[Kind, Callable[[Any], object]] = {
    "text": _text_of,
    "number": _number_of,
    "whole": lambda value: "" if value is None else int(value),
    "flag": lambda value: "" if value is None else int(value),
    "moment": _moment_of,
    "json": _json_of,
}


@contextmanager
def _parquet(file: IO[bytes], columns: Columns) -> Iterator[Callable[[Sequence[Sequence[Any]]], None]]:
    arrow: Any = need("pyarrow", extra="parquet", needed_for="Parquet files")
    parquet: Any = need("pyarrow.parquet", extra="parquet", needed_for="Parquet files")
    kinds = {
        "text": arrow.string(), "number": arrow.float64(), "whole": arrow.int64(), "flag": arrow.bool_(),
        "moment": arrow.timestamp("us", "UTC"), "json": arrow.string(),
    }  # fmt: skip
    schema = arrow.schema(
        [
            arrow.field(name, kinds[column.kind], metadata={"unit": column.unit} if column.unit else None)
            for name, column in columns.items()
        ]
    )

    def array(values: Sequence[Any], column: Column) -> Any:  # noqa: ANN401  (Arrow has no types)
        if column.kind == "moment":
            values = [None if isnan(value) else round(value * 1e6) for value in values]
            return arrow.array(values, arrow.int64()).cast(kinds["moment"])
        if column.kind == "json":
            values = [_json_of(value) or None for value in values]
        elif column.kind == "text":
            values = [value.encode("utf-8", "replace").decode() for value in values]
        elif column.kind == "number":
            values = [None if isnan(value) else value for value in values]
        return arrow.array(values, kinds[column.kind])

    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:

        def write(rows: Sequence[Sequence[Any]]) -> None:
            if rows:
                parts = zip(zip(*rows, strict=True), columns.values(), strict=True)
                writer.write_table(arrow.table([array(*part) for part in parts], schema=schema))

        yield write


# --- reading


def reading(path: str, columns: Columns) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Return the rows of a file, each with its place; columns that the file lacks are left out.

    Columns that are not asked for are not looked at. An error names the file, the row and the column.
    """
    suffix = _suffix(path)
    required = {name for name, column in columns.items() if column.required}
    names = {name: name for name in columns}
    if suffix == ".parquet":
        return _from_parquet(path, columns, names, required)
    return _from_text(path, "\t" if ".tsv" in suffix else ",", columns, names, required)


def _from_text(
    path: str, delimiter: str, columns: Columns, names: dict[str, str], required: set[str]
) -> Iterator[tuple[Place, dict[str, Any]]]:
    file = TextFile(path, delimiter)
    header = file.header(*required)
    where = find_columns(path, header.names, names, required, line=header.line)
    readers = [(name, at, columns[name], _READ[columns[name].kind]) for name, at in where.items()]
    for line, row in file.body(len(header.names)):
        place = Place(path, f"line {line}")
        values = {}
        for name, at, column, read in readers:
            text = row[at]
            if not (text.isascii() or is_utf8(text)):
                raise place.wrong(name, "UTF-8 text", text)
            values[name] = _checked(place, name, column, read(text), text)
        yield place, values


def _from_parquet(
    path: str, columns: Columns, names: dict[str, str], required: set[str]
) -> Iterator[tuple[Place, dict[str, Any]]]:
    file = ParquetFile(path)
    if file.length == 0:
        return
    found = file.columns(names, required)
    number = 0
    for batch in file.batches(found):
        for name in found:
            _check_type(path, name, columns[name].kind, batch.column(name).type)
        for start in range(0, batch.num_rows, _PART):
            part = batch.slice(start, _PART)
            lists = {name: _plain(part.column(name), columns[name].kind) for name in found}
            for row in range(part.num_rows):
                number += 1
                place = Place(path, f"row {number}")
                values = {}
                for name, listed in lists.items():
                    value = listed[row]
                    column = columns[name]
                    taken = _taken(column.kind, value)
                    values[name] = _checked(place, name, column, taken, value)
                yield place, values


_WRONG = object()
"""In place of a value that cannot be read."""
_RULES: dict[Kind, str] = {
    "text": "text",
    "number": "a number",
    "whole": "a whole number >= 0",
    "flag": "0 or 1, true or false, or yes or no",
    "moment": "a time: seconds or a timestamp such as 2026-01-31T12:00:00Z",
    "json": "a JSON object",
}


def _checked(place: Place, name: str, column: Column, value: Any, shown: object) -> Any:  # noqa: ANN401
    if value is _WRONG:
        raise place.wrong(name, _RULES[column.kind], shown)
    if column.required and value in {"", None}:
        raise place.wrong(name, _RULES[column.kind], shown)
    if column.rule is not None and (rule := column.rule(value)):
        raise place.wrong(name, rule, shown)
    return value


def _read_number(text: str) -> Any:  # noqa: ANN401
    if not text.strip():
        return nan
    try:
        value = float(text)
    except ValueError:
        return _WRONG
    # Python has a wider notion of numbers than files; nan is not one that somebody would write
    return _WRONG if "_" in text or not text.isascii() or isnan(value) else value


def _read_whole(text: str) -> Any:  # noqa: ANN401
    text = text.strip()
    if not text:
        return None
    if text.isascii() and text.isdecimal() and len(text) <= 18:
        return int(text)
    return _WRONG


def _read_flag(text: str) -> Any:  # noqa: ANN401
    words = {"": None, "0": False, "false": False, "no": False, "1": True, "true": True, "yes": True}
    return words.get(text.strip().lower(), _WRONG)


def _read_moment(text: str) -> Any:  # noqa: ANN401
    value = _read_number(text)
    if value is _WRONG:
        found = moment(text)
        return _WRONG if found is None else found
    return value if isnan(value) or (isfinite(value) and abs(value) <= 1e11) else _WRONG


def _read_json(text: str) -> Any:  # noqa: ANN401
    if not text.strip():
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return _WRONG
    return value if isinstance(value, dict) else _WRONG


_READ: dict[Kind, Callable[[str], Any]] = {
    "text": lambda text: text,
    "number": _read_number,
    "whole": _read_whole,
    "flag": _read_flag,
    "moment": _read_moment,
    "json": _read_json,
}


def _check_type(path: str, name: str, kind: Kind, found: Any) -> None:  # noqa: ANN401
    """Refuse a column that cannot hold what it should."""
    from pyarrow import types

    if types.is_dictionary(found):
        found = found.value_type
    text = types.is_string(found) or types.is_large_string(found) or types.is_string_view(found)
    numeric = types.is_integer(found) or types.is_floating(found) or types.is_decimal(found)
    fine = (
        types.is_null(found)
        or {
            "text": text,
            "number": numeric,
            "whole": types.is_integer(found),
            "flag": types.is_boolean(found) or types.is_integer(found),
            "moment": types.is_timestamp(found) or numeric or text,
            "json": text,
        }[kind]
    )
    if not fine:
        raise bad_column(path, name, f"must hold {_RULES[kind]} in each row; it holds {found}")


def _plain(column: Any, kind: Kind) -> list[Any]:  # noqa: ANN401
    """Return a column as values of Python; timestamps as seconds."""
    import pyarrow as pa

    if kind == "moment" and pa.types.is_timestamp(column.type):
        parts = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[column.type.unit]
        return [None if value is None else value / parts for value in column.cast(pa.int64()).to_pylist()]
    return list(column.to_pylist())


def _taken(kind: Kind, value: Any) -> Any:  # noqa: ANN401, PLR0911
    """Return a value of Parquet as it is meant."""
    if kind == "text":
        return "" if value is None else value
    if kind == "json":
        return _read_json("" if value is None else value)
    if kind == "moment" and isinstance(value, str):
        return _read_moment(value)
    if kind in {"number", "moment"}:
        return nan if value is None else float(value)
    if value is None:
        return None
    if kind == "flag":
        return bool(value) if value in {0, 1} else _WRONG
    return int(value) if value >= 0 else _WRONG
