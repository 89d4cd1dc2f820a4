"""Logs of polls in files: when elements were polled, and whether they had changed.

A log of polls has the columns ``key``, ``time`` (seconds from any beginning, or timestamps) and ``changed``
(0 or 1, true or false, yes or no). It may have ``modified``, the time of the last change as the poll saw it,
empty where unknown. Rows may come in any order. The first poll of an element only starts its clock, so what
it saw does not matter and may be empty. Polls of an element at the same time are one, which saw a change if
any did.
"""

from __future__ import annotations

import io
import zlib
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from .elements import Advance, Keys, as_list, bad_column, bad_file, bad_value, find_columns, ignore
from .lines import BLOCK, Joined, TextFile
from .parquet import ParquetFile
from .poll_rows import CHANGED, UNKNOWN, Complain, PollRows, RowTaker, from_arrow

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from unstale.arguments import Floats

__all__ = ["POLL_ROLES", "PollLog", "PollTable"]

POLL_ROLES = ("key", "time", "changed", "modified")
_REQUIRED = {"key", "time", "changed"}
_LATER = f"{CHANGED}, but for the first poll of an element"
_LAST = "\x01 the last row \x01"
"""Key of a row that is added for Arrow, which swallows the rest of the file if a quote is never closed."""


@dataclass(frozen=True, eq=False)
class PollLog:
    """Polls, but for the first of each element, sorted by element and time; times in seconds."""

    keys: Keys
    """One for each element, as they come in the file."""
    elements: NDArray[np.int64]
    """Of each poll, the place of its element in ``keys``."""
    times: Floats
    elapsed: Floats
    """Since the poll before."""
    changed: NDArray[np.bool_]
    ages: Floats | None
    """Of the last change at each poll, nan where unknown; None if the file has no such column."""
    start: float
    """Time of the first poll of all."""
    repeated: int
    """Rows with the element and the time of another."""
    ahead: int
    """Polls that say that the last change was after the poll; their ``ages`` are not known."""
    classes: NDArray[np.int64] | None = None
    """Of each element, the place of its class in ``class_names``."""
    class_names: Sequence[object] = ()

    def __len__(self) -> int:
        """How many polls."""
        return len(self.times)


class PollTable:
    """A log of polls in a file.

    ``columns`` says what columns are called there, if not by their role, and ``by`` is the name of the one
    with the class of each element, if there is one.
    """

    def __init__(
        self,
        file: TextFile | ParquetFile,
        columns: Mapping[str, str] | None = None,
        by: str | None = None,
    ) -> None:
        given = columns or {}
        self.file = file
        self._names = {role: given.get(role, role) for role in POLL_ROLES}
        self._required = _REQUIRED | set(given)
        if by is not None:
            self._names["by"] = by
            self._required.add("by")

    @property
    def path(self) -> str:
        """Name of the file."""
        return self.file.path

    @property
    def length(self) -> int:
        """Bytes or rows of the file, as `read` counts them."""
        return self.file.length

    def read(self, advance: Advance = ignore) -> PollLog:
        """Read all of it, or raise an error that names the first mistake."""
        if isinstance(self.file, ParquetFile):
            columns = self.file.columns(self._names, self._required)
            table = self.file.read(dict.fromkeys(columns.values()), advance)
            complain = self._complaining(lambda row: f"row {row + 1}")
            rows = from_arrow({role: table.column(name) for role, name in columns.items()}, complain)
            return self._sorted(rows, complain)
        header = self.file.header(*(self._names[role] for role in POLL_ROLES if role in _REQUIRED))
        where = find_columns(self.path, header.names, self._names, self._required, line=header.line)
        try:
            if (
                known := self._by_arrow(self.file, len(header.names), where, header.lines, advance)
            ) is not None:
                return self._sorted(known, _not_here)
        except _NotHere:
            pass  # Python knows better, or says why not
        lines = array("q")
        rows = self._by_python(self.file, len(header.names), where, lines, advance)
        return self._sorted(rows, self._complaining(lambda row: f"line {lines[row]}"))

    def _by_arrow(
        self, file: TextFile, width: int, where: dict[str, int], lines: int, advance: Advance
    ) -> PollRows | None:
        """Return the rows, or None if Arrow is not there or cannot make sense of them."""
        try:
            import pyarrow as pa
            from pyarrow import csv as arrow_csv
        except ImportError:
            return None
        last = [""] * width
        last[where["key"]] = _LAST
        row = io.BytesIO(f"\n{file.delimiter.join(last)}\n".encode())
        text = {str(at): pa.string() for role, at in where.items() if role not in {"time", "modified"}}
        try:
            with file.open(advance) as raw:
                table = arrow_csv.read_csv(
                    io.BufferedReader(Joined(raw, row), BLOCK),
                    arrow_csv.ReadOptions(
                        block_size=BLOCK, skip_rows=lines, column_names=[str(i) for i in range(width)]
                    ),
                    arrow_csv.ParseOptions(delimiter=file.delimiter, newlines_in_values=True),
                    arrow_csv.ConvertOptions(
                        column_types=text,
                        include_columns=list(dict.fromkeys(map(str, where.values()))),
                        null_values=[""],
                        strings_can_be_null=False,
                    ),
                )
            count = table.num_rows - 1
            if count < 1 or table.column(str(where["key"]))[count].as_py() != _LAST:
                return None
            table = table.slice(0, count)
            columns = {role: table.column(str(at)) for role, at in where.items()}
            if any(
                pa.types.is_string(columns[role].type) for role in ("time", "modified") if role in columns
            ):
                return None
            return from_arrow(columns, _not_here)
        except (pa.ArrowException, OSError, EOFError, ValueError, zlib.error):
            return None

    def _by_python(
        self, file: TextFile, width: int, where: dict[str, int], lines: array[int], advance: Advance
    ) -> PollRows:
        taker = RowTaker()
        columns = sorted((at, role) for role, at in where.items())
        for line, row in file.body(width, advance):
            for at, role in columns:
                if rule := taker.take(role, row[at]):
                    raise bad_value(self.path, f"line {line}", self._names[role], rule, row[at])
            lines.append(line)
        if not lines:
            raise bad_file(self.path, "it has a header line, but no polls below it")
        return taker.rows()

    def _complaining(self, place: Callable[[int], str]) -> Complain:
        def complain(role: str, row: int | None, rule: str, value: object) -> NoReturn:
            if row is None:
                raise bad_column(self.path, self._names[role], f"must hold {rule}; it holds {value}")
            raise bad_value(self.path, place(row), self._names[role], rule, value)

        return complain

    def _sorted(self, rows: PollRows, complain: Complain) -> PollLog:
        """Sort by element and time, join polls at the same time, and take off the first of each element."""
        import numpy as np

        count = len(rows.keys)
        order = np.lexsort((rows.times, rows.elements))
        elements, times = rows.elements[order], rows.times[order]
        new = np.ones(order.size, bool)
        new[1:] = (np.diff(elements) != 0) | (np.diff(times) != 0)
        starts = np.flatnonzero(new)
        seen = rows.changed[order]
        known = np.where(seen == UNKNOWN, -1, seen)
        joined = np.maximum.reduceat(known, starts)
        elements, times = elements[starts], times[starts]
        later = np.zeros(starts.size, bool)
        later[1:] = elements[1:] == elements[:-1]
        if (lost := later & (joined < 0)).any():
            complain("changed", int(order[starts[np.argmax(lost)]]), _LATER, "")
        if not later.any():
            raise bad_file(
                self.path,
                f"no element was polled twice ({count:,} element{'s' if count != 1 else ''}); "
                "a rate takes two polls of an element, or more",
            )
        elapsed = np.diff(times, prepend=times[0])[later]
        ages, ahead = None, 0
        if rows.modified is not None:
            ages = (times - np.fmax.reduceat(rows.modified[order], starts))[later]
            ahead = int(np.count_nonzero(ages < 0))
            ages = np.where(ages >= 0, ages, np.nan)
        return PollLog(
            keys=rows.keys,
            elements=elements[later],
            times=times[later],
            elapsed=elapsed,
            changed=joined[later] > 0,
            ages=ages,
            start=float(times.min()),
            repeated=order.size - starts.size,
            ahead=ahead,
            classes=None if rows.labels is None else _classes(rows, complain),
            class_names=rows.names,
        )


def _classes(rows: PollRows, complain: Complain) -> NDArray[np.int64]:
    """Return the class of each element, which must be the same in all its rows."""
    import numpy as np

    labels = rows.labels
    assert labels is not None  # noqa: S101  (the caller has looked)
    found, first = np.unique(rows.elements, return_index=True)
    classes = np.zeros(len(rows.keys), np.int64)
    classes[found] = labels[first]
    if (other := labels != classes[rows.elements]).any():
        row = int(np.argmax(other))
        element = int(rows.elements[row])
        key, before = as_list(rows.keys[element : element + 1])[0], rows.names[int(classes[element])]
        complain("by", row, f"{before!r}, as before for {key!r}", rows.names[int(labels[row])])
    return classes


class _NotHere(Exception):  # noqa: N818  (not an error: the other reader takes over)
    """Arrow found something, but only Python can say in which line."""


def _not_here(*_: object) -> NoReturn:
    raise _NotHere
