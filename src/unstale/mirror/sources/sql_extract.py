"""Rows on their way from a database into a Parquet file, a block at a time.

From PostgreSQL they come through COPY, which is read by Arrow's CSV reader: nothing is done row by row but to
put them together, and types are exactly those that are asked for. From other databases they come through the
cursor of the driver.
"""

from __future__ import annotations

import selectors
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

from .sql_engine import Stop
from .sql_hash import RowSum
from .sql_types import Arrow, Column, Kinds, unique

if TYPE_CHECKING:
    from psycopg import Connection as Psycopg

__all__ = ["Extract", "TooLarge", "from_copy", "from_cursor"]

_BLOCK = 8 << 20
"""Bytes that are put together before they are read."""
_MOST_ROWS = 50_000
_QUANTUM = 1 << 16
"""Bytes that are paid for ahead, at least."""


class TooLarge(Exception):  # noqa: N818  (its name says what is wrong)
    """The copy would be larger than it may be."""


@dataclass(frozen=True)
class Extract:
    """What was read."""

    rows: int
    columns: list[tuple[str, str]]
    fingerprint: str
    traffic: int
    notes: list[str] = field(default_factory=list)


class _Sheet:
    """Takes in blocks of rows: writes them, if there is a path, and sums them up."""

    def __init__(self, path: Path | None, schema: Arrow, most: int) -> None:
        self.schema, self._most = schema, most
        self.sum = RowSum()
        self._file = None if path is None else path.open("wb")
        self._writer = self._file and pq.ParquetWriter(self._file, schema, compression="zstd")

    def add(self, wire: list[Arrow], final: list[Arrow], count: int) -> None:
        """Take in a block: as it arrived, which is easier to sum up, and as it is kept."""
        self.sum.add(wire, count)
        if self._writer is not None and final:
            self._writer.write_table(pa.table(final, schema=self.schema), row_group_size=max(count, 1))
            self._check()

    def _check(self) -> None:
        if self._file is not None and self._file.tell() > self._most:
            raise TooLarge

    def close(self) -> None:
        if self._writer is not None and self._file is not None:
            self._writer.close()
            self._check()
            self._file.close()

    def drop(self) -> None:
        """Let go of the file, as it is."""
        if self._file is not None:
            with suppress(Exception):
                if self._writer is not None:
                    self._writer.close()
            self._file.close()

    def extract(self, traffic: int, notes: list[str]) -> Extract:
        columns = [(one.name, str(one.type)) for one in self.schema]
        return Extract(self.sum.rows, columns, self.sum.fingerprint(columns), traffic, notes)


# --- PostgreSQL -----------------------------------------------------------------------------------------------


def from_copy(
    driver: Psycopg[Any],
    columns: list[Column],
    rest: str,
    *,
    path: Path | None,
    most: int,
    stop: Stop,
) -> Extract:
    """Read rows from PostgreSQL; the columns are called c0, c1, ... in ``rest``, which is ``FROM ...``.

    A column with a value that its type cannot hold becomes text, and all rows are read once more.
    """
    while True:
        asked = ", ".join(column.expression.format(f"q.c{i}") for i, column in enumerate(columns))
        statement = f"COPY (SELECT {asked} {rest}) TO STDOUT (FORMAT csv, ENCODING 'UTF8')"
        sheet = _Sheet(path, pa.schema([(one.name, one.type) for one in columns]), most)
        traffic, odd, bad = 0, False, set[int]()
        try:
            for block in _copied(driver, statement, stop):
                traffic += len(block)
                if not columns:
                    sheet.add([], [], block.count(b"\n"))
                    continue
                wire, repaired = _parsed(block, columns, bad)
                odd |= repaired
                final = _finished(wire, columns, bad)
                if not bad:
                    sheet.add(wire, final, len(wire[0]))
            if not bad:
                sheet.close()
        finally:
            sheet.drop()
        if not bad:
            notes = [column.note for column in columns if column.note]
            return sheet.extract(traffic, notes + ["some text is not in UTF-8"] * odd)
        columns = [column.as_text() if i in bad else column for i, column in enumerate(columns)]


def _parsed(block: bytes, columns: list[Column], bad: set[int]) -> tuple[list[Arrow], bool]:
    """Read a block; put columns that cannot be read into ``bad``, and leave them empty."""
    names = [f"c{i}" for i in range(len(columns))]
    kinds = {name: pa.string() if i in bad else columns[i].arrives for i, name in enumerate(names)}

    def read(block: bytes, some: list[str]) -> Arrow:
        return arrow_csv.read_csv(
            pa.py_buffer(block),
            read_options=arrow_csv.ReadOptions(
                column_names=names, block_size=len(block) + 1, use_threads=False
            ),
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

    repaired = False
    try:
        table = read(block, names)
    except pa.ArrowInvalid:
        mended = block.decode("utf-8", "backslashreplace").encode()
        repaired, block = mended != block, mended
        for i, name in enumerate(names):
            try:
                read(block, [name])
            except pa.ArrowInvalid:
                bad.add(i)
                kinds[name] = pa.string()
        table = read(block, names)
    return [_whole(column) for column in table.columns], repaired


def _whole(column: Arrow) -> Arrow:
    """Make one array of a column."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _finished(wire: list[Arrow], columns: list[Column], bad: set[int]) -> list[Arrow]:
    """Turn columns from what arrived into what is kept; put those that cannot be into ``bad``."""
    final = list(wire)
    for i, column in enumerate(columns):
        if column.finish is not None and i not in bad:
            try:
                final[i] = column.finish(wire[i], column.type)
            except (pa.ArrowInvalid, pa.ArrowTypeError, ValueError, TypeError):
                bad.add(i)
    return final


def _copied(driver: Psycopg[Any], statement: str, stop: Stop) -> Iterator[bytes]:
    """Yield what COPY says, in blocks of whole rows.

    Read from the line itself, which is twice as fast as row by row through the cursor, and can be stopped
    whatever happens at the other end.
    """
    from psycopg.errors import error_from_result
    from psycopg.pq import ExecStatus, TransactionStatus

    line = driver.pgconn
    with selectors.DefaultSelector() as selector:
        selector.register(line.socket, selectors.EVENT_READ)

        def wait() -> None:
            while not selector.select(0.5):
                stop.check()
            line.consume_input()

        def results() -> Iterator[Any]:
            while True:
                while line.is_busy():
                    wait()
                result = line.get_result()
                if result is None:
                    return
                if result.status == ExecStatus.FATAL_ERROR:
                    raise error_from_result(result)
                yield result
                if result.status == ExecStatus.COPY_OUT:
                    return

        line.send_query(statement.encode(driver.info.encoding))
        while line.flush():
            wait()
        paid = read = size = 0
        rows: list[bytes] = []
        try:
            for _ in results():
                pass
            while True:
                stop.check()
                if read >= paid:
                    quantum = max(_QUANTUM, min(read // 8, 1 << 20))
                    stop.spend(quantum)
                    paid += quantum
                count, data = line.get_copy_data(1)
                if count > 0:
                    rows.append(bytes(data))
                    size += count
                    read += count
                    if size >= _BLOCK:
                        yield b"".join(rows)
                        rows, size = [], 0
                elif count == 0:
                    wait()
                else:
                    break
            for _ in results():
                pass
            if rows:
                yield b"".join(rows)
        finally:
            if line.transaction_status == TransactionStatus.ACTIVE:  # left early
                _drained(driver)


def _drained(driver: Psycopg[Any]) -> None:
    """Make the server stop, and read what it has said until then, so that the connection is of use again."""
    with suppress(Exception):
        driver.cancel_safe(timeout=3.0)
        while driver.pgconn.get_copy_data(0)[0] > 0:
            pass
    with suppress(Exception):
        while driver.pgconn.get_result() is not None:
            pass


# --- any database ---------------------------------------------------------------------------------------------


def from_cursor(
    cursor: Callable[[], Any],
    declared: Sequence[str],
    *,
    path: Path | None,
    most: int,
    stop: Stop,
) -> Extract:
    """Read rows from cursors of a driver; each call of ``cursor`` returns one for the same rows.

    The kinds of values say what the types of columns are. If it turns out late that a column has values of
    several kinds, all rows are read once more.
    """
    kinds: list[Kinds] | None = None
    while True:
        rows = cursor()
        names = unique(str(one[0]) for one in rows.description)
        types = [*declared, *[""] * len(names)][: len(names)]
        fixed = kinds
        found = [Kinds(one) for one in types] if kinds is None else kinds
        sheet: _Sheet | None = None
        traffic, count, late = 0, 100, False
        try:
            while True:
                stop.check()
                batch = rows.fetchmany(count)
                columns = list(zip(*batch, strict=True)) if batch else [()] * len(names)
                if fixed is None:
                    found = [kind.take(values) for kind, values in zip(found, columns, strict=True)]
                schema = pa.schema([(name, kind.type) for name, kind in zip(names, found, strict=True)])
                if sheet is None:
                    sheet = _Sheet(path, schema, most)
                late = late or sheet.schema != schema
                if not late:
                    arrays = [kind.array(values) for kind, values in zip(found, columns, strict=True)]
                    size = sum(array.nbytes for array in arrays)
                    traffic += size
                    stop.spend(size)
                    if batch:
                        sheet.add(arrays, arrays, len(batch))
                    count = max(100, min(_MOST_ROWS, 4 * count, (_BLOCK // 2 * count) // (size + 1)))
                if not batch:
                    break
            if not late:
                sheet.close()
        except sqlite3.OperationalError as error:
            driver = getattr(rows, "connection", None)
            if "decode to UTF-8" not in str(error) or not isinstance(driver, sqlite3.Connection):
                raise
            driver.text_factory = _lenient
            kinds = None
            continue
        finally:
            rows.close()
            if sheet is not None:
                sheet.drop()
        if not late:
            notes = [f"{name}: {kind.note}" for name, kind in zip(names, found, strict=True) if kind.note]
            return sheet.extract(traffic, notes)
        kinds = found


def _lenient(text: bytes) -> str:
    """Read text that is not in UTF-8 so that nothing of it is lost."""
    return text.decode("utf-8", "backslashreplace")
