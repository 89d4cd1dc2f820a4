"""The two encodings of tables: text (CSV and TSV, perhaps gzipped), whose lines are known, and Parquet."""

from __future__ import annotations

import csv
import gzip
import importlib
import io
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast

from unstale.errors import need
from unstale.wording import plural

from .complaints import bad_column, bad_file, reason

if TYPE_CHECKING:
    from types import ModuleType

BLOCK_BYTES = 1 << 22
"""Bytes of text that are read at once."""
BATCH_ROWS = 1 << 20
"""Rows of Parquet that are read at once."""
MOST_LINE_BYTES = 1 << 24
"""Of a line of text: a line is in memory as a whole."""
MOST_EXPANSION = 250
"""Times the size of a compressed file, to which it may grow; tables of this world grow to ten or twenty."""
MOST_UNPACKED_BYTES = 1 << 26
"""To which any file may grow."""
MOST_TEXT_BYTES = 1 << 28
"""Of the texts of a column of Parquet, in any file."""
_TIMES_THE_FILE = 64
"""Bytes that texts of a column of Parquet may have in memory, if many rows share them in the file."""
_PIECE_BY_PIECE = {"pre_buffer": False, "buffer_size": 1 << 20}
_DELIMITERS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}

Advance = Callable[[int], None]
"""Is told, now and then, how many more bytes or rows are done."""


def ignore(_: int) -> None:
    """Take no notice of progress."""


def open_file(path: str) -> TextFile | ParquetFile:
    """Return a file by the end of its name; nothing is read yet."""
    if path == "-":
        return TextFile(path, ",")
    for suffix, delimiter in _DELIMITERS.items():
        if path.lower().endswith(suffix):
            return TextFile(path, delimiter)
    if path.lower().endswith(".parquet"):
        return ParquetFile(path)
    suffixes = ", ".join(_DELIMITERS)
    raise bad_file(path, f"its name must end in {suffixes} or .parquet, or be - for CSV on standard input")


class Header(NamedTuple):
    """The first row that is not empty."""

    names: list[str]
    line: int
    """On which it begins."""
    lines: int
    """That it takes, with what is before it."""


class TextFile:
    """A file of rows, perhaps compressed, or on standard input."""

    def __init__(self, path: str, delimiter: str) -> None:
        self.path, self.delimiter = path, delimiter

    @cached_property
    def typed(self) -> bytes:
        """Standard input, which can be read only once."""
        if sys.stdin is None:
            raise bad_file(self.path, "it is closed")
        return sys.stdin.buffer.read()

    @property
    def length(self) -> int:
        """Bytes of the file, as `open` counts them."""
        try:
            return len(self.typed) if self.path == "-" else Path(self.path).stat().st_size
        except OSError as error:
            raise bad_file(self.path, reason(error)) from None

    def open(self, advance: Advance = ignore) -> BinaryIO:
        """Open it, to be unpacked while it is read."""
        raw = io.BytesIO(self.typed) if self.path == "-" else io.FileIO(self.path)
        joined = Joined(raw, advance=advance)
        if not self.path.lower().endswith(".gz"):
            return io.BufferedReader(_Bounded(self.path, joined), BLOCK_BYTES)
        counted = io.BufferedReader(joined, BLOCK_BYTES)
        packed = gzip.GzipFile(fileobj=counted)
        packed.myfileobj = cast("io.FileIO", counted)  # so that it is closed with what unpacks it
        most = max(MOST_EXPANSION * self.length, MOST_UNPACKED_BYTES)
        return io.BufferedReader(_Bounded(self.path, cast("BinaryIO", packed), most), BLOCK_BYTES)

    @contextmanager
    def complaining(self) -> Iterator[None]:
        """Name the file in what goes wrong while it is read."""
        try:
            yield
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise bad_file(self.path, f"cut short or damaged; {reason(error)}") from None
        except OSError as error:
            raise bad_file(self.path, reason(error)) from None

    @cached_property
    def header(self) -> Header:
        """The header line; without names if there is none."""
        with self.complaining(), self.open() as file:
            rows = _Rows(self.path, file, self.delimiter)
            for row in rows:
                if row:
                    return Header([name.strip() for name in row], rows.start, rows.line)
        return Header([], 1, 0)

    @property
    def names(self) -> list[str]:
        """Names of all columns; none if the file is empty."""
        return self.header.names

    def body(self, advance: Advance = ignore) -> Generator[tuple[int, list[str]], None, None]:
        """Return the rows below the header, each with the line on which it starts."""
        width = len(self.names)
        with self.complaining(), self.open(advance) as file:
            rows = _Rows(self.path, file, self.delimiter)
            body = iter(rows)
            next(row for row in body if row)  # the header
            for row in body:
                if len(row) == width:
                    yield rows.start, row
                elif row:
                    found = f"{plural(len(row), 'field')}, but the header has {width}"
                    raise bad_file(self.path, found, line=rows.start)


class _Rows:
    """The rows of a file, with the line on which each starts; the last quote must be closed."""

    def __init__(self, path: str, file: BinaryIO, delimiter: str) -> None:
        # newline="": csv wants to see the ends of lines. Bytes that are not UTF-8 matter only in our columns.
        self._text = io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="")
        self._reader = csv.reader(self._lines(), delimiter=delimiter)
        self._path = path
        self._ended = False
        self.start = 1

    @property
    def line(self) -> int:
        """Lines read so far."""
        return self._reader.line_num

    def _lines(self) -> Iterator[str]:
        yield from self._text
        self._ended = True

    def __iter__(self) -> Iterator[list[str]]:
        """Empty lines are empty rows."""
        reader = self._reader
        next_row: Callable[[], list[str]] = reader.__next__
        while True:
            self.start = reader.line_num + 1
            try:
                row = next_row()
            except StopIteration:
                return
            except csv.Error as error:
                raise bad_file(self._path, str(error), line=self.start) from None
            if self._ended:  # a row ends with its line, unless a quote is open
                raise bad_file(self._path, "a quote is opened but never closed", line=self.start)
            yield row


class Joined(io.RawIOBase):
    """Files one after the other; tells how much has been read."""

    def __init__(self, *files: BinaryIO | io.RawIOBase, advance: Advance = ignore) -> None:
        self._files, self._advance = list(files), advance

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read as much as there is at once, and tell how much it was."""
        count = 0
        while self._files and not count:
            count = self._files[0].readinto(buffer) or 0  # type: ignore[union-attr]
            if not count:
                self._files.pop(0).close()
        self._advance(count)
        return count

    def close(self) -> None:
        """Close all of them."""
        for file in self._files:
            file.close()
        super().close()


class _Bounded(io.RawIOBase):
    """Complains of a line that is too long, or if it is too much."""

    def __init__(self, path: str, file: BinaryIO | io.RawIOBase, most: float = inf) -> None:
        self._path, self._file, self._most = path, file, most
        self._read = self._line = 0
        """Bytes so far: of all, and of the line."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        count = self._file.readinto(buffer) or 0  # type: ignore[union-attr]
        block = bytes(buffer[:count])
        end = max(block.rfind(b"\n"), block.rfind(b"\r"))
        self._read += count
        self._line = self._line + count if end < 0 else count - end - 1
        if self._line > MOST_LINE_BYTES:
            raise bad_file(self._path, f"it has a line of more than {MOST_LINE_BYTES:,} bytes")
        if self._read > self._most:
            raise bad_file(
                self._path,
                f"a decompression bomb: it has more than {int(self._most):,} bytes; unpack it first",
            )
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


class ParquetFile:
    """A Parquet file."""

    def __init__(self, path: str) -> None:
        self.path = path

    @cached_property
    def arrow(self) -> ModuleType:
        """The library that reads it."""
        need("pyarrow.parquet", extra="parquet", needed_for="Parquet files")
        return need("pyarrow", extra="parquet", needed_for="Parquet files")

    @cached_property
    def _file(self) -> Any:  # noqa: ANN401  (Arrow has no types)
        arrow = self.arrow
        try:
            Path(self.path).open("rb").close()
        except OSError as error:  # the system says it better than Arrow
            raise bad_file(self.path, reason(error)) from None
        try:
            # A row group may be as large as the file, so its columns are read piece by piece.
            found = arrow.parquet.ParquetFile(self.path, **_PIECE_BY_PIECE)
            if large := self._may_be_large(found):
                found.close()
                found = arrow.parquet.ParquetFile(self.path, read_dictionary=large, **_PIECE_BY_PIECE)
        except (arrow.ArrowException, OSError, ValueError) as error:
            raise self._damaged(error) from None
        return found

    def _may_be_large(self, file: Any) -> list[str]:  # noqa: ANN401
        """Return columns of text that may be far larger in memory than in the file, by its dictionaries."""
        is_text = {str(field.name): _is_text(field.type) for field in file.schema_arrow}
        largest: Counter[str] = Counter()
        for i in range(file.metadata.num_row_groups):
            group = file.metadata.row_group(i)
            for j in range(group.num_columns):
                one = group.column(j)
                if is_text.get(one.path_in_schema) and any("DICTIONARY" in name for name in one.encodings):
                    largest[one.path_in_schema] += one.num_values * one.total_uncompressed_size
        return [name for name, most in largest.items() if most > self._most_text]

    @cached_property
    def _most_text(self) -> int:
        """Bytes of the texts of a column that is written with a dictionary."""
        return max(_TIMES_THE_FILE * Path(self.path).stat().st_size, MOST_TEXT_BYTES)

    def _check_texts(self, batch: Any, so_far: Counter[str]) -> None:  # noqa: ANN401
        """Complain if texts of dictionaries would take too much memory."""
        compute = importlib.import_module("pyarrow.compute")
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if self.arrow.types.is_dictionary(column.type) and _is_text(column.type.value_type):
                lengths = compute.binary_length(column.dictionary).cast(self.arrow.int64())
                so_far[name] += compute.sum(lengths.take(column.indices)).as_py() or 0
                if so_far[name] > self._most_text:
                    found = f"its texts have more than {self._most_text:,} bytes, in so small a file"
                    raise bad_column(self.path, name, found)

    @property
    def length(self) -> int:
        """Rows of the file."""
        return int(self._file.metadata.num_rows)

    @property
    def names(self) -> list[str]:
        """Names of all columns."""
        found: list[str] = self._file.schema_arrow.names
        return found

    @property
    def group_rows(self) -> list[int]:
        """How many rows each row group has."""
        found = self._file.metadata
        return [int(found.row_group(i).num_rows) for i in range(found.num_row_groups)]

    def batches(
        self,
        columns: Iterable[str],
        advance: Advance = ignore,
        rows: int | None = None,
        groups: Sequence[int] | None = None,
    ) -> Iterator[Any]:
        """Return some columns, batch by batch; of these row groups only, if they are given."""
        so_far: Counter[str] = Counter()
        some = {} if groups is None else {"row_groups": list(groups)}
        names = list(dict.fromkeys(columns))
        try:
            for batch in self._file.iter_batches(rows or BATCH_ROWS, columns=names, **some):
                self._check_texts(batch, so_far)
                yield batch
                advance(batch.num_rows)
        except (self.arrow.ArrowException, OSError) as error:
            raise self._damaged(error) from None

    def _damaged(self, error: BaseException) -> Exception:
        said = (str(error).splitlines() or [""])[0]
        return bad_file(self.path, f"not a Parquet file, or cut short or damaged; {said}")


def _is_text(kind: Any) -> bool:  # noqa: ANN401
    return str(kind) in {"string", "large_string"}
