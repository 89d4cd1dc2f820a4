"""Rows on their way from a database into a Parquet file, a block at a time."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from .arrow_types import Arrow, ValueKinds, unique
from .row_fingerprint import RowSum
from .stoppable_work import Stop

__all__ = ["BLOCK_BYTES", "Extract", "RowWriter", "TooLarge", "from_cursor"]

BLOCK_BYTES = 8 << 20
"""Bytes, about, that are put together before they are taken in."""
_MAX_ROWS_PER_BLOCK = 50_000


class TooLarge(Exception):  # noqa: N818  (its name says what is wrong)
    """The copy would be larger than it may be."""


@dataclass(frozen=True)
class Extract:
    """What was read."""

    rows: int
    columns: list[tuple[str, str]]
    """Names and types."""
    fingerprint: str
    traffic: int
    notes: list[str] = field(default_factory=list)


class RowWriter:
    """Takes in blocks of rows: writes them, if there is a path, and sums them up."""

    def __init__(self, path: Path | None, schema: Arrow, most: int) -> None:
        self.schema, self._most = schema, most
        self._sum = RowSum()
        self._file: Any = None
        self._writer: Any = None
        if path is not None:
            self._file = path.open("wb")
            self._writer = pq.ParquetWriter(self._file, schema, compression="zstd")

    def add(self, wire: list[Arrow], final: list[Arrow], count: int) -> None:
        """Take in a block: as it arrived, which is easier to sum up, and as it is kept."""
        self._sum.add(wire, count)
        if self._writer is not None and final:
            self._writer.write_table(pa.table(final, schema=self.schema), row_group_size=max(count, 1))
            self._check()

    def _check(self) -> None:
        if self._file.tell() > self._most:
            raise TooLarge

    def close(self) -> None:
        """End the file."""
        if self._writer is not None:
            self._writer.close()
            self._check()
            self._file.close()

    def drop(self) -> None:
        """Let go of the file, as it is."""
        if self._file is not None:
            with suppress(Exception):
                self._writer.close()
            self._file.close()

    def extract(self, traffic: int, notes: list[str]) -> Extract:
        """Say what was taken in."""
        columns = [(one.name, str(one.type)) for one in self.schema]
        return Extract(self._sum.rows, columns, self._sum.fingerprint(columns), traffic, notes)


def from_cursor(
    cursor: Callable[[], Any], declared: Sequence[str], *, path: Path | None, most: int, stop: Stop
) -> Extract:
    """Read rows from cursors of a driver; each call of ``cursor`` returns one for the same rows.

    The kinds of values say what the types of columns are. If it turns out late that a column has values of
    several kinds, all rows are read once more.
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
    """Read all rows once; return what kinds of values there are, if it turned out late."""
    names = unique(str(one[0]) for one in rows.description)
    kinds = fixed or [ValueKinds(one) for one in [*declared, *[""] * len(names)][: len(names)]]
    writer: RowWriter | None = None
    traffic, count, late = 0, 100, False
    try:
        while True:
            stop.check()
            batch = rows.fetchmany(count)
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
        if late:
            return None, kinds
        writer.close()
        notes = [f"{name}: {kind.note}" for name, kind in zip(names, kinds, strict=True) if kind.note]
        return writer.extract(traffic, notes), kinds
    finally:
        if writer is not None:
            writer.drop()


def _lenient(text: bytes) -> str:
    """Read text that is not in UTF-8 so that nothing of it is lost."""
    return text.decode("utf-8", "backslashreplace")
