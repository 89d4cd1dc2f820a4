"""Recorded histories for experiments and shoot-outs: from a file, or the one that comes with the package.

The bundled history is that of 211 well-known Python packages: an element is the page of a package, and a
change is a release, at the second at which its first file was uploaded to the Python Package Index, up to
31 October 2026. Releases are made by people and by robots, in bursts, on working days, so the changes are
anything but Poisson.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..arguments import Floats
from ..simulation import World
from ..tables import HistoryTable, as_list, bad_file, open_file
from ..tables.elements import Advance, ignore

__all__ = ["BUNDLED", "Recorded", "load"]

BUNDLED = "releases of 211 Python packages"
_DAY = 86400.0


@dataclass(frozen=True, eq=False)
class Recorded:
    """Changes of elements, in days from the first record of any.

    The first record of an element is not a change, but how the element came about.
    """

    name: str
    keys: list[str]
    elements: NDArray[np.int64]
    """Of each change, the place of its element, sorted; and by time."""
    times: Floats
    end: float
    """End of the record."""
    begin: float
    """Time 0, in seconds since 1970, or since whatever the file counts from."""

    def __len__(self) -> int:
        """How many elements."""
        return len(self.keys)

    @property
    def rate(self) -> float:
        """Changes per day, all elements together."""
        return self.times.size / self.end

    def of(self, element: int) -> Floats:
        """Return the times at which one element changed."""
        low, high = np.searchsorted(self.elements, [element, element + 1])
        return self.times[low:high]

    @property
    def busiest(self) -> int:
        """The element with the most changes."""
        return int(np.argmax(np.bincount(self.elements, minlength=len(self))))

    def world(self, weights: Floats | None = None) -> World:
        """Return the world in which this happens again."""
        return World.recorded(self.elements, self.times, end=self.end, count=len(self), weights=weights)


def load(
    path: str | None = None, columns: Mapping[str, str] | None = None, advance: Advance = ignore
) -> Recorded:
    """Read a history from a CSV or Parquet file with columns element and t; without a path, the bundled one.

    >>> recorded = load()
    >>> len(recorded), recorded.keys[recorded.busiest]
    (211, 'pulumi')
    """
    if path is None:
        with as_file(files("unstale").joinpath("data/releases.csv.gz")) as file:
            return _recorded(str(file), BUNDLED, {}, advance)
    return _recorded(path, Path(path).name, columns or {}, advance)


def _recorded(path: str, name: str, columns: Mapping[str, str], advance: Advance) -> Recorded:
    history = HistoryTable(open_file(path), columns).read(advance)
    later = np.diff(history.elements, prepend=-1) == 0
    if not later.any():
        raise bad_file(path, "no element has two records, so nothing is known to change")
    begin, end = float(history.times.min()), float(history.times.max())
    if not end > begin:
        raise bad_file(path, "all records are at the same time, so there is nothing to play")
    times = (history.times[later] - begin) / _DAY
    elements = history.elements[later]
    return Recorded(
        name, [str(key) for key in as_list(history.keys)], elements, times, (end - begin) / _DAY, begin
    )
