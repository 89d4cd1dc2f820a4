"""Tables in CSV and TSV.

Arrow reads millions of rows a second but cannot say in which line of the file it found what. So a file that
it does not take, for any reason, is read again by Python's csv module, which has the last word: either it
finds the first mistake and names its line, or the file is good after all. Without Arrow, Python reads all.
"""

from __future__ import annotations

import csv
import gzip
import io
import sys
import zlib
from array import array
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, NoReturn, cast

from unstale.quantities import LEAST, MOST

from .elements import (
    NUMBERS,
    Advance,
    Elements,
    bad_file,
    bad_value,
    broken_rule,
    find_columns,
    ignore,
    reason,
    repeated,
)

__all__ = ["TextTable"]

_BLOCK = 1 << 22
_LAST = 1.0123456789e-300
"""Rate of a row that is added for Arrow, which swallows the rest of the file if a quote is never closed."""


class TextTable:
    """A table in CSV or TSV, perhaps compressed, or on standard input."""

    def __init__(self, path: str, names: dict[str, str], required: set[str], *, delimiter: str) -> None:
        self.path = path
        self._names, self._required, self._delimiter = names, required, delimiter

    @cached_property
    def _typed(self) -> bytes:
        """Standard input, which can be read only once."""
        if sys.stdin is None:
            raise bad_file(self.path, "it is closed")
        return sys.stdin.buffer.read()

    @property
    def length(self) -> int:
        """Bytes of the file, as `read` counts them."""
        try:
            return len(self._typed) if self.path == "-" else Path(self.path).stat().st_size
        except OSError as error:
            raise bad_file(self.path, reason(error)) from None

    def read(self, advance: Advance = ignore) -> Elements:
        """Read the whole table, or raise an error that names the first mistake; repeated keys come last."""
        try:
            width, where, lines = self._header()
            read = self._by_arrow(width, where, lines, advance)
            return self._by_python(width, where, advance) if read is None else read
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise bad_file(self.path, f"cut short or damaged; {reason(error)}") from None
        except OSError as error:
            raise bad_file(self.path, reason(error)) from None

    def _open(self, advance: Advance = ignore) -> BinaryIO:
        raw = io.BytesIO(self._typed) if self.path == "-" else io.FileIO(self.path)
        counted = io.BufferedReader(_Joined(raw, advance=advance), _BLOCK)
        return cast("BinaryIO", gzip.open(counted)) if self.path.lower().endswith(".gz") else counted

    def _rows(self, file: BinaryIO) -> _Rows:
        return _Rows(self.path, file, self._delimiter)

    def _header(self) -> tuple[int, dict[str, int], int]:
        """Return how many columns there are, where ours stand, and how many lines the header takes."""
        with self._open() as file:
            rows = self._rows(file)
            for row in rows:
                if row:
                    header = [name.strip() for name in row]
                    where = find_columns(
                        self.path,
                        header,
                        self._names,
                        self._required,
                        line=rows.start,
                        oddity=_oddity(header),
                    )
                    return len(header), where, rows.line
        wanted = self._names["rate"]
        raise bad_file(self.path, f"empty; it needs a header line with at least the column {wanted!r}")

    def _by_arrow(self, width: int, where: dict[str, int], lines: int, advance: Advance) -> Elements | None:
        """Return the table, or None if Arrow is not there or cannot make sense of it."""
        try:
            import pyarrow as pa
            from pyarrow import csv as arrow_csv
        except ImportError:
            return None
        from .columns import first_repeated, from_arrow

        kinds = {str(at): pa.float64() if role in NUMBERS else pa.string() for role, at in where.items()}
        last = ["1"] * width
        last[where["rate"]] = repr(_LAST)
        row = io.BytesIO(f"\n{self._delimiter.join(last)}\n".encode())
        try:
            with self._open(advance) as file:
                table = arrow_csv.read_csv(
                    io.BufferedReader(_Joined(file, row), _BLOCK),
                    arrow_csv.ReadOptions(
                        block_size=_BLOCK, skip_rows=lines, column_names=[str(i) for i in range(width)]
                    ),
                    arrow_csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
                    arrow_csv.ConvertOptions(
                        column_types=kinds,
                        include_columns=list(kinds),
                        null_values=[],
                        strings_can_be_null=False,
                    ),
                )
            count = table.num_rows - 1
            if count < 1 or table.column(str(where["rate"]))[count].as_py() != _LAST:
                return None
            table = table.slice(0, count)
            read = from_arrow({role: table.column(str(at)) for role, at in where.items()}, _not_here)
            return None if first_repeated(read.keys) else read
        except (pa.ArrowException, _NotHere, OSError, EOFError, ValueError, zlib.error):
            return None  # Python knows better, or says why not

    def _by_python(self, width: int, where: dict[str, int], advance: Advance) -> Elements:
        import numpy as np

        numbers = {role: array("d") for role in where if role in NUMBERS}
        keys: list[str] = []
        lines = array("q")
        codes, names = array("q"), dict[str, int]()
        take = {role: _taker_of_numbers(role, values.append) for role, values in numbers.items()}
        take["key"] = _taker_of_text(keys.append)
        take["group"] = _taker_of_text(lambda text: codes.append(names.setdefault(text, len(names))))
        takers = sorted((at, role, take[role]) for role, at in where.items())
        with self._open(advance) as file:
            rows = self._rows(file)
            body = iter(rows)
            next(row for row in body if row)  # the header
            for row in body:
                if len(row) != width:
                    if not row:
                        continue
                    found = f"{len(row)} field{'s' if len(row) > 1 else ''}"
                    raise bad_file(self.path, f"{found}, but the header has {width}", line=rows.start)
                for at, role, accept in takers:
                    rule = accept(row[at])
                    if rule:
                        raise bad_value(self.path, f"line {rows.start}", self._names[role], rule, row[at])
                lines.append(rows.start)
        if not numbers["rate"]:
            raise bad_file(self.path, "it has a header line, but no elements below it")
        if len(set(keys)) < len(keys):
            first: dict[str, int] = {}
            for line, key in zip(lines, keys, strict=True):
                if first.setdefault(key, line) != line:
                    places = (f"line {line}", f"line {first[key]}")
                    raise repeated(self.path, places, self._names["key"], key)
        columns = {role: np.frombuffer(values) for role, values in numbers.items()}
        return Elements(
            rates=columns["rate"],
            keys=keys if "key" in where else range(1, len(columns["rate"]) + 1),
            weights=columns.get("weight"),
            sizes=columns.get("size"),
            groups=np.frombuffer(codes, np.int64) if codes else None,
            group_names=list(names),
        )


def _taker_of_numbers(role: str, append: Callable[[float], None]) -> Callable[[str], str]:
    """Return a function that takes the text of a number, or returns the rule that it breaks."""

    def take(text: str) -> str:
        try:
            value = float(text)
        except ValueError:
            return "a number"
        if "_" in text or not text.isascii():  # Python has a wider notion of numbers than files
            return "a number"
        if not LEAST <= value <= MOST:
            rule = broken_rule(role, value)
            if rule:
                return rule
        append(value)
        return ""

    return take


def _taker_of_text(append: Callable[[str], None]) -> Callable[[str], str]:
    def take(text: str) -> str:
        if not text:
            return "text"
        if not (text.isascii() or _is_utf8(text)):
            return "UTF-8 text"
        append(text)
        return ""

    return take


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # bytes that are not UTF-8 have been let in as lone surrogates
        return False
    return True


_SEPARATORS = {";": "';'", "|": "'|'", "\t": "tabs", ",": "commas"}


def _oddity(header: list[str]) -> str:
    """Return why a header may lack a column, if it looks like it.

    >>> _oddity(["key;rate"])
    "the file seems to be separated by ';'; .csv means commas, and .tsv tabs"
    """
    text = "".join(header)
    if "\0" in text or not _is_utf8(text):
        return "the file is not UTF-8 text, but perhaps UTF-16; save it as UTF-8"
    for separator, name in _SEPARATORS.items():
        if len(header) == 1 and separator in text:
            return f"the file seems to be separated by {name}; .csv means commas, and .tsv tabs"
    return ""


class _NotHere(Exception):  # noqa: N818  (not an error: the other reader takes over)
    """Arrow found something, but only Python can say in which line."""


def _not_here(*_: object) -> NoReturn:
    raise _NotHere


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


class _Joined(io.RawIOBase):
    """Files one after the other; tells how much has been read."""

    def __init__(self, *files: BinaryIO | io.RawIOBase, advance: Advance = ignore) -> None:
        self._files, self._advance = list(files), advance

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        count = 0
        while self._files and not count:
            count = self._files[0].readinto(buffer) or 0  # type: ignore[union-attr]
            if not count:
                self._files.pop(0).close()
        self._advance(count)
        return count

    def close(self) -> None:
        for file in self._files:
            file.close()
        super().close()
