"""Reading rows from PostgreSQL through COPY.

The CSV reader of Arrow turns blocks of rows into columns of exactly the types that are asked for. Python only
joins rows to blocks.
"""

from __future__ import annotations

import selectors
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as arrow_csv

from .arrow_types import PostgresColumn
from .extract import BLOCK_BYTES, Extract, RowWriter
from .stoppable_work import Stop

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.pq.abc import PGresult

_MIN_PREPAID_BYTES = 1 << 16
"""The budget of bytes is asked for at least this much at a time."""


def from_copy(
    driver: Connection[Any],
    columns: list[PostgresColumn],
    rest: str,
    *,
    path: Path | None,
    most: int,
    stop: Stop,
) -> Extract:
    """Read rows through COPY.

    A column with a value that its type cannot hold becomes text, and all rows are read once more.

    Parameters
    ----------
    driver
        The connection of psycopg.
    columns
        The columns to read.
    rest
        ``FROM ... AS q``, in which the columns are called c0, c1, and so on.
    path
        The Parquet file to write.
    most
        Bytes that the file may have.
    stop
        Stops the reading.
    """
    while True:
        asked = ", ".join(column.expression.format(f"q.c{i}") for i, column in enumerate(columns))
        statement = f"COPY (SELECT {asked} {rest}) TO STDOUT (FORMAT csv, ENCODING 'UTF8')"
        writer = RowWriter(path, pa.schema([(one.name, one.type) for one in columns]), most)
        traffic, odd, bad = 0, False, set[int]()
        try:
            for block in _CopyStream(driver, stop).copied(statement):
                traffic += len(block)
                if not columns:
                    writer.add([], [], block.count(b"\n"))
                    continue
                wire, repaired = _parsed(block, columns, bad)
                odd |= repaired
                final = _finished(wire, columns, bad)
                if not bad:
                    writer.add(wire, final, len(wire[0]))
            if not bad:
                writer.close()
                notes = [column.note for column in columns if column.note]
                return writer.extract(traffic, notes + ["some text is not in UTF-8"] * odd)
        finally:
            writer.drop()
        columns = [column.as_text() if i in bad else column for i, column in enumerate(columns)]


def _parsed(block: bytes, columns: list[PostgresColumn], bad: set[int]) -> tuple[list[pa.Array], bool]:
    """Parse a block; add columns that do not parse to ``bad``, and tell whether text had to be mended."""
    names = [f"c{i}" for i in range(len(columns))]
    kinds = {name: pa.string() if i in bad else columns[i].arrives for i, name in enumerate(names)}
    repaired = False
    try:
        table = _read(block, names, kinds, names)
    except pa.ArrowInvalid:
        mended = block.decode("utf-8", "backslashreplace").encode()
        repaired, block = mended != block, mended
        for i, name in enumerate(names):
            try:
                _read(block, names, kinds, [name])
            except pa.ArrowInvalid:
                bad.add(i)
                kinds[name] = pa.string()
        table = _read(block, names, kinds, names)
    return [_whole(column) for column in table.columns], repaired


def _read(block: bytes, names: list[str], kinds: dict[str, pa.DataType], some: list[str]) -> pa.Table:
    return arrow_csv.read_csv(
        pa.py_buffer(block),
        read_options=arrow_csv.ReadOptions(column_names=names, block_size=len(block) + 1, use_threads=False),
        parse_options=arrow_csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=arrow_csv.ConvertOptions(
            column_types=kinds,
            include_columns=some,
            null_values=[""],
            true_values=["t"],
            false_values=["f"],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """Make one array of a column."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _finished(wire: list[pa.Array], columns: list[PostgresColumn], bad: set[int]) -> list[pa.Array]:
    """Convert columns as they arrive to columns as they are kept; add those that fail to ``bad``."""
    final = list(wire)
    for i, column in enumerate(columns):
        if column.finish is not None and i not in bad:
            try:
                final[i] = column.finish(wire[i], column.type)
            except (pa.ArrowInvalid, pa.ArrowTypeError, ValueError, TypeError):
                bad.add(i)
    return final


class _CopyStream:
    """The stream of rows that COPY sends.

    Reading from the connection itself is twice as fast as row by row through a cursor, and can be stopped
    whatever the server does.
    """

    def __init__(self, driver: Connection[Any], stop: Stop) -> None:
        self._driver, self._line, self._stop = driver, driver.pgconn, stop

    def copied(self, statement: str) -> Iterator[bytes]:
        """Yield the output of COPY in blocks of whole rows."""
        from psycopg.pq import TransactionStatus

        with selectors.DefaultSelector() as selector:
            selector.register(self._line.socket, selectors.EVENT_READ)
            try:
                # With the protocol that takes one statement only.
                self._line.send_query_params(statement.encode(self._driver.info.encoding), None)
                while self._line.flush():
                    self._wait(selector)
                self._to_the_end(selector)
                rows: list[bytes] = []
                size = 0
                for row in self._rows(selector):
                    rows.append(row)
                    size += len(row)
                    if size >= BLOCK_BYTES:
                        yield b"".join(rows)
                        rows, size = [], 0
                self._to_the_end(selector)
                if rows:
                    yield b"".join(rows)
            finally:
                if self._line.transaction_status == TransactionStatus.ACTIVE:  # left early
                    self._drain()

    def _rows(self, selector: selectors.BaseSelector) -> Iterator[bytes]:
        paid = read = 0
        while True:
            if read >= paid:
                self._stop.check()
                quantum = max(_MIN_PREPAID_BYTES, min(read // 8, 1 << 20))
                self._stop.spend(quantum)
                paid += quantum
            count, data = self._line.get_copy_data(1)
            if count > 0:
                read += count
                yield bytes(data)
            elif count == 0:
                self._wait(selector)
            else:
                return

    def _wait(self, selector: selectors.BaseSelector) -> None:
        while not selector.select(0.5):
            self._stop.check()
        self._line.consume_input()

    def _to_the_end(self, selector: selectors.BaseSelector) -> None:
        """Read results until rows follow, or there are no more."""
        from psycopg.errors import error_from_result
        from psycopg.pq import ExecStatus

        while True:
            while self._line.is_busy():
                self._wait(selector)
            result: PGresult | None = self._line.get_result()
            if result is None or result.status == ExecStatus.COPY_OUT:
                return
            if result.status == ExecStatus.FATAL_ERROR:
                raise error_from_result(result)

    def _drain(self) -> None:
        """Stop the server and read what it still sends, so that the connection can be used again."""
        with suppress(Exception):
            self._driver.cancel_safe(timeout=3.0)
            while self._line.get_copy_data(0)[0] > 0:
                pass
        with suppress(Exception):
            while self._line.get_result() is not None:
                pass
