"""Files are written whole or not at all: under a temporary name beside the target, then renamed.

Promises, each with a test:

1. The target holds either what it held before or all of the new content, also after a crash.
2. A run that fails leaves no temporary file.
"""

from __future__ import annotations

import csv
import errno
import gzip
import io
import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime
from math import isnan
from pathlib import Path
from typing import IO, Any, cast

from unstale.errors import InvalidInput, need

from .columns import Keys, as_list
from .complaints import bad_file, reason
from .schema import Column, Kind

Write = Callable[..., None]
"""Takes columns of equal length: keys, or arrays of numbers or moments."""
_SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
_BLOCK_ROWS = 1 << 16
"""Rows that are in memory as values of Python."""
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def check_writable(option: str, path: str, suffixes: tuple[str, ...] = _SUFFIXES) -> None:
    """Refuse, before any work is done, a file that cannot be written."""
    if not path.lower().endswith(suffixes):
        allowed = f"{', '.join(suffixes[:-1])} or {suffixes[-1]}"
        raise InvalidInput(f"{option} must end in {allowed}; it is {path!r}")
    folder = Path(path).resolve().parent
    if not folder.is_dir():
        raise InvalidInput(f"{option} must be in a directory that exists; it is {path!r}")
    if Path(path).is_dir():
        raise InvalidInput(f"{option} must be a file; {path!r} is a directory")
    if Path(path).exists() and not Path(path).is_file():
        raise InvalidInput(f"{option} must be a file; {path!r} is a device or a pipe")
    if not os.access(folder, os.W_OK):
        raise InvalidInput(f"{option} must be in a directory that you may write to; it is {path!r}")
    if path.lower().endswith(".parquet"):
        need("pyarrow", extra="parquet", needed_for="Parquet files")


@contextmanager
def replacing(path: str) -> Iterator[IO[bytes]]:
    """Give a file that takes the place of ``path`` when all has gone well, and vanishes when not.

    An error of the system names ``path`` and says what to do.
    """
    target = Path(path).resolve()  # through links, so that what they point to is replaced
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename in {None, str(temporary)}:
            todo = "make room there, or name" if error.errno in _FULL else "name"
            raise bad_file(path, f"cannot be written: {reason(error)}; {todo} another place") from None
        raise


Records = Callable[[Sequence[Sequence[Any]]], None]
"""Takes rows, each with the values of all columns."""


@contextmanager
def open_records(path: str, columns: Sequence[Column]) -> Iterator[Records]:
    """Give a function that writes rows, which a `TableReader` with these columns reads back the same.

    In text what is missing is empty; in Parquet it is null. Times are written as timestamps in UTC, to the
    microsecond.
    """
    check_writable("the file", path)
    units = {column.role: column.unit for column in columns}
    cells = [_CELLS[column.kind] for column in columns]
    with open_rows(path, units, [column.kind for column in columns]) as write:

        def write_records(rows: Sequence[Sequence[Any]]) -> None:
            if rows:
                parts = zip(cells, zip(*rows, strict=True), strict=True)
                write(*(list(map(cell, values)) for cell, values in parts))

        yield write_records


def _text_cell(value: str) -> str:
    return value.encode("utf-8", "replace").decode()


def _number_cell(value: float) -> float | None:
    return None if isnan(value) else float(value)


def _whole_cell(value: int | None) -> int | None:
    return None if value is None else int(value)


def _time_cell(value: float) -> str | None:
    if isnan(value):
        return None
    return datetime.fromtimestamp(value, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _json_cell(value: Mapping[str, object]) -> str | None:
    return json.dumps(dict(value), ensure_ascii=False, sort_keys=True) if value else None


_CELLS: dict[Kind, Callable[[Any], object]] = {
    "label": _text_cell,
    "text": _text_cell,
    "number": _number_cell,
    "whole": _whole_cell,
    "flag": _whole_cell,
    "time": _time_cell,
    "json": _json_cell,
}
_TYPES: dict[Kind, str] = {"number": "double", "whole": "int64", "flag": "bool"}
"""What Arrow calls the types of kinds; others are text, but for times."""


def open_allocation(path: str, unit: str) -> AbstractContextManager[Write]:
    """Give a function that writes keys and frequencies, part by part."""
    return open_rows(path, {"key": "", "frequency": unit})


@contextmanager
def open_rows(path: str, columns: Mapping[str, str], kinds: Sequence[Kind] | None = None) -> Iterator[Write]:
    """Give a function that writes columns of equal length, part by part.

    ``columns`` has a unit for each, which Parquet notes; no unit is "". The first part tells the types in
    Parquet unless the kinds of the columns are given.
    """
    with replacing(path) as file:
        if path.lower().endswith(".parquet"):
            with _parquet(file, columns, kinds) as write:
                yield write
        elif path.lower().endswith(".gz"):
            with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:  # the same bytes each time
                yield from _csv(cast("IO[bytes]", packed), path, columns)
        else:
            yield from _csv(file, path, columns)


def _csv(file: IO[bytes], path: str, columns: Iterable[str]) -> Iterator[Write]:
    text = io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="")
    yield write_csv(text, columns, "\t" if ".tsv" in path.lower()[-7:] else ",")
    text.flush()
    text.detach()


def write_csv(file: IO[str], columns: Iterable[str], delimiter: str = ",") -> Write:
    """Write the header, and return a function that writes rows."""
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    # csv quotes what has characters of the end of a line, and all readers take a carriage return for an end
    careful = csv.writer(_Lines(file), delimiter=delimiter, lineterminator="\r\n")
    writer.writerow(columns)

    def write(*parts: Keys) -> None:
        for start in range(0, len(parts[0]), _BLOCK_ROWS):
            cells = [as_list(part[start : start + _BLOCK_ROWS]) for part in parts]
            texts = [column for column, part in zip(cells, parts, strict=True) if not hasattr(part, "dtype")]
            odd = any(isinstance(c, str) and ("\r" in c or "\0" in c) for column in texts for c in column)
            (careful if odd else writer).writerows(zip(*cells, strict=True))

    return write


class _Lines:
    """A text file whose lines end in a line feed alone."""

    def __init__(self, file: IO[str]) -> None:
        self._write = file.write

    def write(self, line: str) -> None:
        """Write a line."""
        self._write(f"{line[:-2]}\n".replace("\0", "\ufffd"))  # readers of CSV stumble over it


@contextmanager
def _parquet(file: IO[bytes], columns: Mapping[str, str], kinds: Sequence[Kind] | None) -> Iterator[Write]:
    arrow: Any = need("pyarrow", extra="parquet", needed_for="Parquet files")
    parquet: Any = need("pyarrow.parquet", extra="parquet", needed_for="Parquet files")
    opened: list[Any] = []

    def begin(types: Iterable[Any], nullable: Iterable[bool]) -> None:
        fields = [
            arrow.field(name, kind, may_lack, {"unit": unit} if unit else None)
            for (name, unit), kind, may_lack in zip(columns.items(), types, nullable, strict=True)
        ]
        opened.append(parquet.ParquetWriter(file, arrow.schema(fields), compression="zstd"))

    def write(*parts: Keys) -> None:
        arrays = [_arrow(arrow, part) for part in parts]
        if not opened:
            begin((array.type for array in arrays), (bool(array.null_count) for array in arrays))
        schema = opened[0].schema
        if kinds is not None:
            arrays = [array.cast(field.type) for array, field in zip(arrays, schema, strict=True)]
        opened[0].write_table(arrow.table(arrays, schema=schema))

    def type_of(kind: Kind) -> Any:  # noqa: ANN401
        moments = kind == "time"
        return arrow.timestamp("us", "UTC") if moments else arrow.type_for_alias(_TYPES.get(kind, "string"))

    try:
        if kinds is not None:
            begin(map(type_of, kinds), (True for _ in kinds))
        yield write
    finally:  # also if it is in vain: a writer that is not closed writes to a closed file later
        for writer in opened:
            writer.close()


def _arrow(arrow: Any, part: Any) -> Any:  # noqa: ANN401
    """Return a column of Arrow; moments are in UTC."""
    texts = isinstance(part, list) and not part  # no keys are keys all the same
    column = part if hasattr(part, "to_pylist") else arrow.array(part, arrow.string() if texts else None)
    if arrow.types.is_timestamp(column.type):
        return column.cast(arrow.timestamp(column.type.unit, "UTC"))
    return column
