"""Tables in CSV and TSV.

Arrow reads millions of rows a second but cannot say in which line of the file it found what. So a file that
it does not take, for any reason, is read again by Python's csv module, which has the last word: either it
finds the first mistake and names its line, or the file is good after all. Without Arrow, Python reads all.
"""

from __future__ import annotations

import io
import zlib
from array import array
from collections.abc import Callable
from math import nan
from typing import NoReturn

from unstale.quantities import LEAST, MOST

from .elements import (
    LAW_ROLES,
    NUMBERS,
    Advance,
    Elements,
    bad_file,
    bad_value,
    broken_rule,
    find_columns,
    for_elements,
    ignore,
    is_utf8,
    repeated,
)
from .laws import lacking, merged
from .lines import BLOCK, Joined, TextFile

__all__ = ["TextTable"]

_LAST = 1.0123456789e-300
"""Rate of a row that is added for Arrow, which swallows the rest of the file if a quote is never closed."""


class TextTable:
    """A table in CSV or TSV."""

    def __init__(self, file: TextFile, names: dict[str, str], required: set[str]) -> None:
        self.file = file
        self._names, self._required = names, required

    @property
    def path(self) -> str:
        """Name of the file."""
        return self.file.path

    @property
    def length(self) -> int:
        """Bytes of the file, as `read` counts them."""
        return self.file.length

    def read(self, advance: Advance = ignore) -> Elements:
        """Read the whole table, or raise an error that names the first mistake; repeated keys come last."""
        header = self.file.header(self._names["rate"])
        names, required = for_elements(header.names, self._names, self._required)
        where = find_columns(self.path, header.names, names, required, line=header.line)
        read = self._by_arrow(len(header.names), where, header.lines, advance)
        return self._by_python(len(header.names), where, advance) if read is None else read

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
        sure = where.get("rate", where.get("shape", 0))
        last[sure] = repr(_LAST)
        row = io.BytesIO(f"\n{self.file.delimiter.join(last)}\n".encode())
        try:
            with self.file.open(advance) as file:
                table = arrow_csv.read_csv(
                    io.BufferedReader(Joined(file, row), BLOCK),
                    arrow_csv.ReadOptions(
                        block_size=BLOCK, skip_rows=lines, column_names=[str(i) for i in range(width)]
                    ),
                    arrow_csv.ParseOptions(delimiter=self.file.delimiter, newlines_in_values=True),
                    arrow_csv.ConvertOptions(
                        column_types=kinds,
                        include_columns=list(kinds),
                        null_values=[""],
                        strings_can_be_null=False,
                    ),
                )
            count = table.num_rows - 1
            if count < 1 or table.column(str(sure))[count].as_py() != _LAST:
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
        law = set(LAW_ROLES) <= set(numbers)
        take = {
            role: _taker_of_numbers(role, values.append, empty=law and role in {"rate", *LAW_ROLES})
            for role, values in numbers.items()
        }
        take["key"] = _taker_of_text(keys.append)
        take["group"] = _taker_of_text(lambda text: codes.append(names.setdefault(text, len(names))))
        takers = sorted((at, role, take[role]) for role, at in where.items())
        for line, row in self.file.body(width, advance):
            for at, role, accept in takers:
                rule = accept(row[at])
                if rule:
                    raise bad_value(self.path, f"line {line}", self._names[role], rule, row[at])
            if law:
                rate = numbers["rate"][-1] if "rate" in numbers else None
                if role := lacking(rate, numbers["shape"][-1], numbers["scale"][-1]):
                    raise bad_value(
                        self.path, f"line {line}", self._names[role], "a number", row[where[role]]
                    )
            lines.append(line)
        if not lines:
            raise bad_file(self.path, "it has a header line, but no elements below it")
        self._check_keys(keys, lines)
        columns = {role: np.frombuffer(values) for role, values in numbers.items()}
        rates, shapes, scales = columns.get("rate"), None, None
        if law:
            rates, shapes, scales = merged(rates, columns["shape"], columns["scale"])
        assert rates is not None  # noqa: S101  (for the type checker)
        return Elements(
            rates=rates,
            keys=keys if "key" in where else range(1, len(lines) + 1),
            weights=columns.get("weight"),
            sizes=columns.get("size"),
            groups=np.frombuffer(codes, np.int64) if codes else None,
            group_names=list(names),
            shapes=shapes,
            scales=scales,
        )

    def _check_keys(self, keys: list[str], lines: array[int]) -> None:
        """Complain of the first key that has been there before."""
        if len(set(keys)) == len(keys):
            return
        first: dict[str, int] = {}
        for line, key in zip(lines, keys, strict=True):
            if first.setdefault(key, line) != line:
                places = (f"line {line}", f"line {first[key]}")
                raise repeated(self.path, places, self._names["key"], key)


def _taker_of_numbers(
    role: str, append: Callable[[float], None], *, empty: bool = False
) -> Callable[[str], str]:
    """Return a function that takes the text of a number, or returns the rule that it breaks.

    If there may be nothing (``empty``), that is NaN.
    """

    def take(text: str) -> str:
        if empty and not text.strip():
            append(nan)
            return ""
        try:
            value = float(text)
        except ValueError:
            return "a number"
        if "_" in text or not text.isascii():  # Python has a wider notion of numbers than files
            return "a number"
        if role == "shape" or not LEAST <= value <= MOST:
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
        if not (text.isascii() or is_utf8(text)):
            return "UTF-8 text"
        append(text)
        return ""

    return take


class _NotHere(Exception):  # noqa: N818  (not an error: the other reader takes over)
    """Arrow found something, but only Python can say in which line."""


def _not_here(*_: object) -> NoReturn:
    raise _NotHere
