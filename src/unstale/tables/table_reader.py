"""The one reader of tables: columns, whole or part by part, or rows, from text or Parquet, by a schema.

Arrow reads millions of rows of text a second but cannot say in which line of the file it found what. So a
file that it does not take, for any reason, is read again by Python's csv module, which has the last word:
either it finds the first mistake and names its line, or the file is good after all. Without Arrow, Python
reads all.
"""

from __future__ import annotations

import io
import zlib
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import cached_property
from itertools import islice
from typing import Any, Generic, NoReturn, TypeVar

from .columns import ColumnPlaces, Columns, Labels, as_list
from .complaints import Place, bad_file
from .files import BLOCK_BYTES, Advance, Joined, ParquetFile, TextFile, ignore, open_file
from .schema import Broken, Column, Schema, find_columns, readers_of

Row = dict[str, Any]
"""Values by role."""
_Found = Sequence[tuple[Column, int]]
"""Columns with their positions in the file."""
_T = TypeVar("_T")

QUICKLY_READ_BYTES = 1 << 18
"""Up to which a file of text has been read before Arrow would have been loaded."""
_ROWS_AT_ONCE = 10_000
"""Rows of Parquet that are in memory as values of Python."""
_LAST_LABEL, _LAST_NUMBER = "\x01 the last row \x01", 1.0123456789e-300
"""In a row that is added for Arrow, which swallows the rest of the file if a quote is never closed."""


class TableReader(Generic[_T]):
    """A table in a file.

    ``names`` says what columns are called there, if not by their role, and ``made_of`` makes of columns what
    the table stands for.
    """

    def __init__(
        self,
        file: str | TextFile | ParquetFile,
        schema: Schema,
        made_of: Callable[[Columns], _T],
        names: Mapping[str, str] | None = None,
    ) -> None:
        self.file = open_file(file) if isinstance(file, str) else file
        self._schema, self._made_of, self._asked = schema, made_of, dict(names or {})

    @property
    def path(self) -> str:
        """Name of the file."""
        return self.file.path

    @property
    def length(self) -> int:
        """Bytes of text or rows of Parquet, as reading counts them."""
        return self.file.length

    @cached_property
    def _found(self) -> dict[str, tuple[Column, int]]:
        line = self.file.header.line if isinstance(self.file, TextFile) else None
        return find_columns(self.path, self.file.names, self._schema, self._asked, line=line)

    def _source(self, row_name: Callable[[int], str]) -> ColumnPlaces:
        names = {role: self.file.names[at] for role, (_, at) in self._found.items()}
        return ColumnPlaces(self.path, names, row_name)

    # --- columns --------------------------------------------------------------------------------------------

    def read(self, advance: Advance = ignore) -> _T:
        """Read the whole table, or raise an error that names the first mistake."""
        if isinstance(self.file, ParquetFile):
            if not self.file.length:
                raise bad_file(self.path, "it has no rows")
            found = list(self._found.values())
            batches = list(self.file.batches(self._titles(found), advance))
            return self._made_of(self._columns(batches, found))
        if self.file.length > QUICKLY_READ_BYTES:
            with suppress(_NotHere):
                return self._made_of(self._by_arrow(self.file, advance))
        columns = self._by_python(self.file, None, advance)
        for whole in columns:
            return self._made_of(whole)
        raise bad_file(self.path, f"it has a header line, but no {self._schema.noun} below it")

    def parts(self, *roles: str, advance: Advance = ignore, rows: int | None = None) -> Iterator[_T]:
        """Read the table in parts of so many rows, each time anew; only the columns of these roles."""
        return map(self._made_of, self._parts(roles, advance, rows))

    def of_groups(self, groups: Sequence[int], *roles: str) -> Iterator[_T]:
        """Read some row groups of Parquet, one after the other in the file, in parts."""
        return map(self._made_of, self._parts(roles, ignore, None, groups))

    def _parts(
        self,
        roles: Sequence[str],
        advance: Advance,
        rows: int | None,
        groups: Sequence[int] | None = None,
    ) -> Iterator[Columns]:
        if isinstance(self.file, TextFile):
            yield from self._by_python(self.file, rows or _ROWS_AT_ONCE, advance, roles)
            return
        first = sum(self.file.group_rows[: groups[0]]) if groups else 0
        found = [self._found[role] for role in self._found if role in roles]
        for batch in self.file.batches(self._titles(found), advance, rows, groups):
            yield self._columns([batch], found, first)
            first += batch.num_rows

    def _titles(self, found: _Found) -> list[str]:
        return [self.file.names[at] for _, at in found]

    def _columns(self, batches: Sequence[Any], found: _Found, first: int | None = None) -> Columns:
        """Return the columns of batches of Parquet: of all, or of those from row ``first`` on."""
        import pyarrow as pa

        from .arrow_columns import values_of

        start = first or 0
        source = self._source(lambda row: f"row {start + row + 1}")
        table = pa.Table.from_batches(batches)
        values = values_of([(column, table.column(self.file.names[at])) for column, at in found], source)
        return Columns(values, table.num_rows, source, start, whole=first is None, nothing=None)

    def _by_arrow(self, file: TextFile, advance: Advance) -> Columns:
        """Return the columns; raise if Arrow is not there or cannot make sense of the file."""
        found, source = list(self._found.values()), self._source(_nowhere)
        try:
            import pyarrow as pa
            from pyarrow import csv as arrow_csv
        except ImportError:
            raise _NotHere from None
        from .arrow_columns import is_dated, values_of

        width = len(file.names)
        seconds = _in_seconds(file, found)
        types = {"number": pa.float64(), "time": pa.float64() if seconds else None}
        column_types = {str(at): types.get(column.kind, pa.string()) for column, at in found}
        last: list[object] = [""] * width
        mark_at, mark = next(
            (at, _LAST_LABEL if column.kind == "label" else _LAST_NUMBER)
            for column, at in found
            if column.kind in {"label", "number"}
        )
        last[mark_at] = mark
        last_row = io.BytesIO(f"\n{file.delimiter.join(map(str, last))}\n".encode())
        try:
            with file.open(advance) as raw:
                table = arrow_csv.read_csv(
                    io.BufferedReader(Joined(raw, last_row), BLOCK_BYTES),
                    arrow_csv.ReadOptions(
                        block_size=BLOCK_BYTES,
                        skip_rows=file.header.lines,
                        column_names=[str(at) for at in range(width)],
                    ),
                    arrow_csv.ParseOptions(delimiter=file.delimiter, newlines_in_values=True),
                    arrow_csv.ConvertOptions(
                        column_types={at: kind for at, kind in column_types.items() if kind is not None},
                        include_columns=list(column_types),
                        null_values=[""],
                        strings_can_be_null=False,
                    ),
                )
            count = table.num_rows - 1
            if count < 1 or table.column(str(mark_at))[count].as_py() != mark:
                raise _NotHere
            table = table.slice(0, count)
            columns = [(column, table.column(str(at))) for column, at in found]
            for column, data in columns:
                if column.kind == "time" and not (seconds or is_dated(data)):
                    raise _NotHere  # Python reads timestamps that Arrow does not know
            return Columns(values_of(columns, source), count, source)
        except (pa.ArrowException, OSError, EOFError, ValueError, zlib.error):
            raise _NotHere from None

    def _by_python(
        self, file: TextFile, rows: int | None, advance: Advance, roles: Sequence[str] | None = None
    ) -> Iterator[Columns]:
        """Return the columns in parts of so many rows; None: all rows as one."""
        found = self._in_order(roles)
        columns, body, first = [column for column, _ in found], file.body(advance), 0
        readers = readers_of(columns)
        while True:
            lines = array("q")
            taken: list[Any] = [array("d") if c.kind in {"number", "time"} else [] for c in columns]
            cells = [(at, r, t.append) for (_, at), r, t in zip(found, readers, taken, strict=True)]
            for line, row in islice(body, rows):
                at = 0
                try:
                    for at, read, append in cells:
                        append(read(row[at]))
                except Broken as broken:
                    raise self._wrong(line, at, broken, row) from None
                lines.append(line)
            if not lines:
                return
            values = {c.role: _column_of(c, t) for c, t in zip(columns, taken, strict=True)}
            source = self._source(lambda row, lines=lines: f"line {lines[row]}")  # type: ignore[misc]
            yield Columns(values, len(lines), source, first, whole=rows is None)
            first += len(lines)

    def _in_order(self, roles: Sequence[str] | None = None) -> _Found:
        """Return the columns of some roles, or of all, from left to right."""
        found = [self._found[role] for role in self._found if roles is None or role in roles]
        return sorted(found, key=lambda one: one[1])

    def _wrong(self, line: int, at: int, broken: Broken, row: list[str]) -> Exception:
        return Place(self.path, f"line {line}").wrong(self.file.names[at], str(broken), row[at])

    # --- rows -----------------------------------------------------------------------------------------------

    def rows(self, advance: Advance = ignore) -> Iterator[tuple[Place, Row]]:
        """Return the rows, each with its place, as values of Python; what the file lacks is left out."""
        if isinstance(self.file, TextFile):
            yield from self._text_rows(self.file, advance)
            return
        if not self.file.length:
            return
        for part in self._parts(list(self._found), advance, _ROWS_AT_ONCE):
            lists = [_as_values(self._found[role][0], values) for role, values in part.values.items()]
            for number, row in enumerate(zip(*lists, strict=True)):
                yield part.source.place(number), dict(zip(part.values, row, strict=True))

    def _text_rows(self, file: TextFile, advance: Advance) -> Iterator[tuple[Place, Row]]:
        found = self._in_order()
        readers = readers_of([column for column, _ in found])
        cells = [(column.role, at, r) for (column, at), r in zip(found, readers, strict=True)]
        for line, row in file.body(advance):
            values, at = {}, 0
            try:
                for role, at, read in cells:
                    values[role] = read(row[at])
            except Broken as broken:
                raise self._wrong(line, at, broken, row) from None
            yield Place(self.path, f"line {line}"), values


def rows_in(
    file: str | TextFile | ParquetFile, schema: Schema, names: Mapping[str, str] | None = None
) -> Iterator[tuple[Place, Row]]:
    """Return the rows of a file, each with its place; see `TableReader.rows`."""
    return TableReader(file, schema, lambda columns: columns, names).rows()


def _column_of(column: Column, cells: Any) -> Any:  # noqa: ANN401  (by the kind of the column)
    """Return the values of cells of text as `Columns` holds them."""
    import numpy as np

    if column.kind == "label":
        return Labels(cells)
    if column.kind == "flag":
        return np.array([-1 if seen is None else seen for seen in cells], np.int8)
    return np.frombuffer(cells) if isinstance(cells, array) else cells


def _as_values(column: Column, values: Any) -> list[Any]:  # noqa: ANN401
    """Return a column as values of Python, as those from a text file are."""
    if column.kind == "label":
        return [str(label) for label in as_list(values.values)]
    if column.kind == "flag":
        return [(False, True, None)[seen] for seen in values.tolist()]
    return values if isinstance(values, list) else list(values.tolist())


def _in_seconds(file: TextFile, found: _Found) -> bool:
    """Tell whether the first row has a time in seconds; Arrow itself would take 0x10 for one as well."""
    with closing(file.body()) as body:
        _, row = next(body, (0, []))
    for column, at in found:
        if row and column.kind == "time":
            with suppress(ValueError):
                float(row[at])
                return True
    return False


class _NotHere(Exception):  # noqa: N818  (not an error: Python takes over)
    """Arrow found something, but only Python can say in which line."""


def _nowhere(_: int) -> NoReturn:
    raise _NotHere
