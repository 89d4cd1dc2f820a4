"""The two encodings of tables: text (CSV and TSV, perhaps gzipped), whose lines are known, and Parquet."""

from __future__ import annotations

import csv
import gzip
import io
import sys
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast

from unstale.errors import need
from unstale.wording import plural

from .complaints import bad_file, reason

if TYPE_CHECKING:
    from types import ModuleType

BLOCK_BYTES = 1 << 22
"""Bytes of text that are read at once."""
BATCH_ROWS = 1 << 20
"""Rows of Parquet that are read at once."""
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
        counted = io.BufferedReader(Joined(raw, advance=advance), BLOCK_BYTES)
        if not self.path.lower().endswith(".gz"):
            return counted
        packed = gzip.GzipFile(fileobj=counted)
        packed.myfileobj = cast("io.FileIO", counted)  # so that it is closed with what unpacks it
        return cast("BinaryIO", packed)

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
            return arrow.parquet.ParquetFile(self.path, pre_buffer=False, buffer_size=1 << 20)
        except (arrow.ArrowException, OSError, ValueError) as error:
            raise self._damaged(error) from None

    @property
    def length(self) -> int:
        """Rows of the file."""
        return int(self._file.metadata.num_rows)

    @property
    def names(self) -> list[str]:
        """Names of all columns."""
        found: list[str] = self._file.schema_arrow.names
        return found

    def batches(
        self, columns: Iterable[str], advance: Advance = ignore, rows: int | None = None
    ) -> Iterator[Any]:
        """Return some columns, batch by batch."""
        try:
            for batch in self._file.iter_batches(rows or BATCH_ROWS, columns=list(dict.fromkeys(columns))):
                yield batch
                advance(batch.num_rows)
        except (self.arrow.ArrowException, OSError) as error:
            raise self._damaged(error) from None

    def _damaged(self, error: BaseException) -> Exception:
        said = (str(error).splitlines() or [""])[0]
        return bad_file(self.path, f"not a Parquet file, or cut short or damaged; {said}")
