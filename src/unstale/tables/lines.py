"""Files of rows in CSV and TSV: opened, perhaps unpacked, and cut into rows whose lines are known."""

from __future__ import annotations

import csv
import gzip
import io
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from .elements import Advance, bad_file, ignore, reason

__all__ = ["BLOCK", "Header", "Joined", "TextFile"]

BLOCK = 1 << 22
"""Bytes that are read at once."""


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
        counted = io.BufferedReader(Joined(raw, advance=advance), BLOCK)
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

    def header(self, *wanted: str) -> Header:
        """Return the header line; ``wanted`` are columns that it should have."""
        with self.complaining(), self.open() as file:
            rows = _Rows(self.path, file, self.delimiter)
            for row in rows:
                if row:
                    return Header([name.strip() for name in row], rows.start, rows.line)
        columns = " and ".join(map(repr, wanted))
        least = "at least the column" if len(wanted) == 1 else "the columns"
        raise bad_file(self.path, f"empty; it needs a header line with {least} {columns}")

    def body(self, width: int, advance: Advance = ignore) -> Iterator[tuple[int, list[str]]]:
        """Return the rows below the header, each with the line on which it starts, of ``width`` fields."""
        with self.complaining(), self.open(advance) as file:
            rows = _Rows(self.path, file, self.delimiter)
            body = iter(rows)
            next(row for row in body if row)  # the header
            for row in body:
                if len(row) == width:
                    yield rows.start, row
                elif row:
                    found = f"{len(row)} field{'s' if len(row) > 1 else ''}"
                    raise bad_file(self.path, f"{found}, but the header has {width}", line=rows.start)


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
