"""Writing rows of a database into a Parquet file, block by block, and their fingerprint."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from .arrow_types import ValueKinds, unique
from .row_fingerprint import RowSum
from .stoppable_work import Stop

BLOCK_BYTES = 8 << 20
"""Rows are written in blocks of about this size."""
_MAX_ROWS_PER_BLOCK = 50_000


class TooLarge(Exception):  # noqa: N818  (its name says what is wrong)
    """The copy would be larger than ``max_size``."""


@dataclass(frozen=True)
class Extract:
    """What was read: how many rows, their columns and their fingerprint."""

    rows: int
    columns: list[tuple[str, str]]
    """Names and types."""
    fingerprint: str
    traffic: int
    notes: list[str] = field(default_factory=list)


class RowWriter:
    """Adds blocks of rows to the fingerprint, and writes them to a Parquet file if there is a path."""

    def __init__(self, path: Path | None, schema: pa.Schema, most: int) -> None:
        self.schema, self._most = schema, most
        self._sum = RowSum()
        self._file: Any = None
        self._writer: Any = None
        if path is not None:
            self._file = path.open("wb")
            self._writer = pq.ParquetWriter(self._file, schema, compression="zstd")

    def add(self, wire: list[pa.Array], final: list[pa.Array], count: int) -> None:
        """Add a block: as it arrived, for the fingerprint, and as it is kept, for the file."""
        self._sum.add(wire, count)
        if self._writer is not None and final:
            self._writer.write_table(pa.table(final, schema=self.schema), row_group_size=max(count, 1))
            self._check()

    def _check(self) -> None:
        if self._file.tell() > self._most:
            raise TooLarge

    def close(self) -> None:
        """Finish and close the file."""
        if self._writer is not None:
            self._writer.close()
            self._check()
            self._file.close()

    def drop(self) -> None:
        """Close the file, finished or not."""
        if self._file is not None:
            with suppress(Exception):
                self._writer.close()
            self._file.close()

    def extract(self, traffic: int, notes: list[str]) -> Extract:
        """Return what was read."""
        columns = [(one.name, str(one.type)) for one in self.schema]
        return Extract(self._sum.rows, columns, self._sum.fingerprint(columns), traffic, notes)


def from_cursor(
    cursor: Callable[[], Any], declared: Sequence[str], *, path: Path | None, most: int, stop: Stop
) -> Extract:
    """Read rows from cursors of a driver.

    The values decide the types of the columns. If a later block has values of another type, all rows are read
    once more.

    Parameters
    ----------
    cursor
        Each call returns a new cursor for the same rows.
    declared
        Types of the columns, as the database declares them.
    path
        The Parquet file to write; None: only the fingerprint is computed.
    most
        Bytes that the file may have.
    stop
        Stops the reading.
    """
    kinds: list[ValueKinds] | None = None
    while True:
        rows = cursor()
        try:
            extract, kinds = _one_pass(rows, declared, kinds, path, most=most, stop=stop)
        except sqlite3.OperationalError as error:
            if "decode to UTF-8" not in str(error):
                raise
            rows.connection.text_factory = _lenient
            kinds = None
        else:
            if extract is not None:
                return extract
        finally:
            rows.close()


def _one_pass(
    rows: Any,  # noqa: ANN401  (a cursor of any driver)
    declared: Sequence[str],
    fixed: list[ValueKinds] | None,
    path: Path | None,
    *,
    most: int,
    stop: Stop,
) -> tuple[Extract | None, list[ValueKinds]]:
    """Read all rows once; return no extract, only the kinds of values, if a type changed on the way."""
    names = unique(str(one[0]) for one in rows.description)
    kinds = fixed or [ValueKinds(one) for one in [*declared, *[""] * len(names)][: len(names)]]
    writer: RowWriter | None = None
    traffic, count, late = 0, 100, False
    try:
        while True:
            stop.check()
            batch = _some_rows(rows, count)
            columns = list(zip(*batch, strict=True)) if batch else [()] * len(names)
            if fixed is None:
                kinds = [kind.take(values) for kind, values in zip(kinds, columns, strict=True)]
            schema = pa.schema([(name, kind.type) for name, kind in zip(names, kinds, strict=True)])
            if writer is None:
                writer = RowWriter(path, schema, most)
            late = late or writer.schema != schema
            if not batch:
                break
            if not late:
                arrays = [kind.array(values) for kind, values in zip(kinds, columns, strict=True)]
                size = sum(array.nbytes for array in arrays)
                traffic += size
                stop.spend(size)
                writer.add(arrays, arrays, len(batch))
                count = max(
                    100, min(_MAX_ROWS_PER_BLOCK, 4 * count, BLOCK_BYTES * len(batch) // (2 * size + 1))
                )
                del batch, columns, arrays  # before the next ones are read
        if late:
            return None, kinds
        writer.close()
        notes = [f"{name}: {kind.note}" for name, kind in zip(names, kinds, strict=True) if kind.note]
        return writer.extract(traffic, notes), kinds
    finally:
        if writer is not None:
            writer.drop()


def _some_rows(rows: Any, count: int) -> list[Any]:  # noqa: ANN401
    """Fetch so many rows, or fewer if they are large: a row may be as large as all others together."""
    batch: list[Any] = []
    room = BLOCK_BYTES
    while len(batch) < count and room > 0:
        row = rows.fetchone()
        if row is None:
            break
        batch.append(row)
        for value in row:
            if type(value) is str or type(value) is bytes:
                room -= len(value)
    return batch


def _lenient(text: bytes) -> str:
    """Decode text that is not UTF-8 without loss."""
    return text.decode("utf-8", "backslashreplace")
