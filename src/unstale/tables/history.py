"""Histories in files: when elements changed, as somebody recorded it.

A history has a column ``element`` and a column ``t``: seconds from any beginning (Unix time, say), or
timestamps, which are in UTC unless they say otherwise. Rows may come in any order. Several changes of an
element at the same time are one, as nobody could tell them apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .columns import Columns, Keys
from .files import ParquetFile, TextFile
from .schema import Column, Schema
from .table_reader import TableReader

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from unstale.arguments import Floats

_SCHEMA = Schema((Column("element", "label", needed=True), Column("t", "time", needed=True)), "changes")
HISTORY_ROLES = tuple(column.role for column in _SCHEMA.columns)


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


def history_table(
    file: str | TextFile | ParquetFile, columns: Mapping[str, str] | None = None
) -> TableReader[History]:
    """Return the history in a file; ``columns`` says what columns are called there, if not by their role."""
    return TableReader(file, _SCHEMA, _history, columns)


def is_history(file: TextFile | ParquetFile, columns: Mapping[str, str]) -> bool:
    """Tell whether a file is a history: it has times and no rates, or its columns are named as such."""
    if set(columns) & set(HISTORY_ROLES):
        return True
    return "t" in file.names and columns.get("rate", "rate") not in file.names


def _history(columns: Columns) -> History:
    """Sort by element and time, and count changes at the same time once."""
    import numpy as np

    (elements, keys), times = columns.get("element").encoded, columns.get("t")
    order = np.lexsort((times, elements))
    elements, times = elements[order], times[order]
    new = np.ones(len(times), bool)
    new[1:] = (np.diff(elements) != 0) | (np.diff(times) != 0)
    return History(keys, elements[new], times[new])
