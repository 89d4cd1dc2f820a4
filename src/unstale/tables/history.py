"""Histories in files: when elements changed, as somebody recorded it.

A history has a column ``element`` and a column ``t``: seconds from any beginning (Unix time, say), or
timestamps, which are in UTC unless they say otherwise. Rows may come in any order. Several changes of an
element at the same time are one, as nobody could tell them apart.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn

from .elements import (
    Advance,
    Keys,
    bad_column,
    bad_file,
    bad_value,
    find_columns,
    ignore,
    is_utf8,
)
from .lines import TextFile
from .parquet import ParquetFile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from unstale.arguments import Floats

__all__ = ["HISTORY_ROLES", "History", "HistoryTable", "moment", "taker_of_times", "times_of"]

HISTORY_ROLES = ("element", "t")
_LATEST = 1e11
_SECONDS = "seconds from -1e11 to 1e11 (milliseconds must be divided by 1000)"
_EITHER = "a time: seconds or a timestamp such as 2026-01-31T12:00:00Z"


@dataclass(frozen=True, eq=False)
class History:
    """Changes as they were recorded, sorted by element and time."""

    keys: Keys
    """One for each element, as they come in the file."""
    elements: NDArray[np.int64]
    """Of each change, the place of its element in ``keys``."""
    times: Floats
    """In seconds; since 1970 if the file has timestamps."""

    def __len__(self) -> int:
        """How many changes."""
        return len(self.times)


def moment(text: str) -> float | None:
    """Return the seconds from 1970 to a timestamp, in UTC unless it says otherwise; None if it is none.

    >>> moment("2026-01-01T01:00:00+01:00") == moment("2026-01-01"), moment("soon")
    (True, None)
    """
    try:
        read = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()


class HistoryTable:
    """A history in a file; ``columns`` says what columns are called there, if not by their role."""

    def __init__(self, file: TextFile | ParquetFile, columns: Mapping[str, str] | None = None) -> None:
        self.file = file
        self._names = {role: (columns or {}).get(role, role) for role in HISTORY_ROLES}

    @property
    def path(self) -> str:
        """Name of the file."""
        return self.file.path

    @property
    def length(self) -> int:
        """Bytes or rows of the file, as `read` counts them."""
        return self.file.length

    def read(self, advance: Advance = ignore) -> History:
        """Read all of it, or raise an error that names the first mistake."""
        if isinstance(self.file, TextFile):
            return _sorted(*self._by_python(self.file, advance))
        return _sorted(*self._by_arrow(self.file, advance))

    def _by_python(self, file: TextFile, advance: Advance) -> tuple[Keys, NDArray[np.int64], Floats]:
        import numpy as np

        header = file.header(*self._names.values())
        where = find_columns(self.path, header.names, self._names, set(HISTORY_ROLES), line=header.line)
        elements, times, codes = array("q"), array("d"), dict[str, int]()
        take = taker_of_times(times.append)
        for line, row in file.body(len(header.names), advance):
            key, t = row[where["element"]], row[where["t"]]
            if not key or not (key.isascii() or is_utf8(key)):
                raise self._bad(f"line {line}", "element", "UTF-8 text" if key else "text", key)
            if rule := take(t):
                raise self._bad(f"line {line}", "t", rule, t)
            elements.append(codes.setdefault(key, len(codes)))
        if not times:
            raise bad_file(self.path, "it has a header line, but no changes below it")
        return list(codes), np.frombuffer(elements, np.int64), np.frombuffer(times)

    def _by_arrow(self, file: ParquetFile, advance: Advance) -> tuple[Keys, NDArray[np.int64], Floats]:
        columns = file.columns(self._names, set(HISTORY_ROLES))
        table = file.read(columns.values(), advance)

        def complain(role: str, row: int | None, rule: str, value: object) -> NoReturn:
            if row is None:
                raise bad_column(self.path, self._names[role], f"must hold {rule}; it holds {value}")
            raise self._bad(f"row {row + 1}", role, rule, value)

        from .columns import encoded, labels_of

        elements, keys = encoded(labels_of("element", table.column(columns["element"]), complain))
        return keys, elements, times_of(table.column(columns["t"]), complain)

    def _bad(self, place: str, role: str, rule: str, value: object) -> Exception:
        return bad_value(self.path, place, self._names[role], rule, value)


def taker_of_times(append: Callable[[float], None]) -> Callable[[str], str]:
    """Return a function that takes the text of a time, or returns the rule that it breaks."""
    kind = ""

    def take(text: str) -> str:
        nonlocal kind
        seconds: float | None
        try:
            seconds, found = float(text), "seconds"
        except ValueError:
            seconds, found = moment(text), "a timestamp"
        if seconds is None or not text.isascii() or "_" in text:
            return _EITHER
        if not -_LATEST <= seconds <= _LATEST:
            return _SECONDS
        kind = kind or found
        if found != kind:
            return f"{kind}, as in the rows before"
        append(seconds)
        return ""

    return take


def times_of(column: Any, complain: Callable[..., NoReturn]) -> Floats:  # noqa: ANN401  (Arrow has no types)
    """Return seconds from a column of numbers, timestamps, dates or text."""
    import numpy as np
    import pyarrow as pa

    from .columns import no_nulls

    kinds, kind = pa.types, column.type
    if kinds.is_dictionary(kind):
        kind = kind.value_type
        column = column.cast(kind)
    no_nulls("t", column, _EITHER, complain)
    if kinds.is_timestamp(kind) or kinds.is_date(kind):
        unit = kind.unit if kinds.is_timestamp(kind) else "s"
        whole = column.cast(pa.timestamp(unit)).cast(pa.int64()).to_numpy()
        return np.asarray(whole / {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit], float)
    if kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind):
        times = array("d")
        take = taker_of_times(times.append)
        for row, text in enumerate(column.to_pylist()):
            if rule := take(text):
                complain("t", row, rule, text)
        return np.frombuffer(times)
    if not (kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind)):
        complain("t", None, "seconds or timestamps", str(kind))
    seconds: Floats = column.cast(pa.float64(), safe=False).to_numpy()
    good = np.abs(seconds) <= _LATEST
    if not good.all():
        row = int(np.argmin(good))
        complain("t", row, _SECONDS, seconds[row].item())
    return seconds


def _sorted(keys: Keys, elements: NDArray[np.int64], times: Floats) -> History:
    """Sort by element and time, and count changes at the same time once."""
    import numpy as np

    order = np.lexsort((times, elements))
    elements, times = elements[order], times[order]
    new = np.ones(len(times), bool)
    new[1:] = (np.diff(elements) != 0) | (np.diff(times) != 0)
    return History(keys, elements[new], times[new])
