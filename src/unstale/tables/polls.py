"""Logs of polls in files: when elements were polled, and whether they had changed.

A log of polls has the columns ``key``, ``time`` (seconds from any beginning, or timestamps) and ``changed``
(0 or 1, true or false, yes or no). It may have ``modified``, the time of the last change as the poll saw it,
empty where unknown. Rows may come in any order. The first poll of an element only starts its clock, so what
it saw does not matter and may be empty. Polls of an element at the same time are one, which saw a change if
any did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unstale.wording import plural

from .columns import Columns, Keys, Labels, as_list
from .complaints import bad_file
from .files import ParquetFile, TextFile
from .schema import Column, Schema
from .table_reader import TableReader

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from unstale.arguments import Floats

_CHANGED = Column("changed", "flag", needed=True)
_COLUMNS = (
    Column("key", "label", needed=True),
    Column("time", "time", needed=True),
    _CHANGED,
    Column("modified", "time", empty=True),
)
_CLASS = Column("by", "label")
POLL_ROLES = tuple(column.role for column in _COLUMNS)


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


def poll_table(
    file: str | TextFile | ParquetFile, columns: Mapping[str, str] | None = None, by: str | None = None
) -> TableReader[PollLog]:
    """Return the log of polls in a file.

    ``columns`` says what columns are called there, if not by their role, and ``by`` is the name of the one
    with the class of each element, if there is one.
    """
    classes = {} if by is None else {_CLASS.role: by}
    schema = Schema((*_COLUMNS, _CLASS) if classes else _COLUMNS, "polls")
    return TableReader(file, schema, _poll_log, {**(columns or {}), **classes})


def _poll_log(columns: Columns) -> PollLog:
    """Sort by element and time, join polls at the same time, and take off the first of each element."""
    import numpy as np

    codes, keys = columns.get("key").encoded
    order = np.lexsort((columns.get("time"), codes))
    elements, times = codes[order], columns.get("time")[order]
    new = np.ones(order.size, bool)
    new[1:] = (np.diff(elements) != 0) | (np.diff(times) != 0)
    starts = np.flatnonzero(new)
    seen = np.maximum.reduceat(columns.get("changed")[order], starts)  # -1 if none knows
    elements, times = elements[starts], times[starts]
    later = np.zeros(starts.size, bool)
    later[1:] = elements[1:] == elements[:-1]
    if (lost := later & (seen < 0)).any():
        rule = f"{_CHANGED.must_be}, but for the first poll of an element"
        columns.wrong("changed", int(order[starts[np.argmax(lost)]]), rule, "")
    if not later.any():
        raise bad_file(
            columns.source.path,
            f"no element was polled twice ({plural(len(keys), 'element')}); "
            "a rate takes two polls of an element, or more",
        )
    ages, ahead, modified = None, 0, columns.get("modified")
    if modified is not None:
        ages = (times - np.fmax.reduceat(modified[order], starts))[later]
        ahead = int(np.count_nonzero(ages < 0))
        ages = np.where(ages >= 0, ages, np.nan)
    by: Labels | None = columns.get("by")
    return PollLog(
        keys=keys,
        elements=elements[later],
        times=times[later],
        elapsed=np.diff(times, prepend=times[0])[later],
        changed=seen[later] > 0,
        ages=ages,
        start=float(times.min()),
        repeated=order.size - starts.size,
        ahead=ahead,
        classes=None if by is None else _classes(columns, by),
        class_names=() if by is None else as_list(by.encoded[1]),
    )


def _classes(columns: Columns, by: Labels) -> NDArray[np.int64]:
    """Return the class of each element, which must be the same in all its rows."""
    import numpy as np

    elements, keys = columns.get("key").encoded
    labels, names = by.encoded
    found, first = np.unique(elements, return_index=True)
    classes = np.zeros(len(keys), np.int64)
    classes[found] = labels[first]
    if (other := labels != classes[elements]).any():
        row = int(np.argmax(other))
        element = int(elements[row])
        key, listed = as_list(keys[element : element + 1])[0], as_list(names)
        rule = f"{listed[int(classes[element])]!r}, as before for {key!r}"
        columns.wrong("by", row, rule, listed[int(labels[row])])
    return classes
