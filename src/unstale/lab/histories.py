"""Recorded histories for experiments and shoot-outs: from a file, from git, or the bundled one.

The bundled history is that of 211 well-known Python packages: an element is the page of a package, and a
change is a release, at the second at which its first file was uploaded to the Python Package Index, up to
31 October 2026. Releases are made by people and by robots, in bursts, on working days, so the changes are
anything but Poisson.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats
from unstale.tables import (
    WEIGHT,
    Advance,
    Column,
    Schema,
    as_list,
    bad_file,
    history_table,
    ignore,
    rows_in,
)

from .git_history import Repository, histories_of

if TYPE_CHECKING:
    from unstale.simulation import World

_WEIGHTS = Schema((Column("key", "label", needed=True), replace(WEIGHT, needed=True, empty=True)), "weights")
BUNDLED = "releases of 211 Python packages"
_DAY_SECONDS = 86400.0


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
    born: Floats
    """When the first record of each element was."""

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

    def since(self, moment: float) -> Recorded:
        """Return the record from a moment on, and of those elements only that exist then.

        What comes about later is not there to be polled, nor to be fresh.
        """
        there = np.flatnonzero(self.born <= moment)
        places = np.full(len(self), -1)
        places[there] = np.arange(there.size)
        kept = (places[self.elements] >= 0) & (self.times > moment)
        return replace(
            self,
            keys=[self.keys[place] for place in there],
            elements=places[self.elements[kept]],
            times=self.times[kept] - moment,
            end=self.end - moment,
            begin=self.begin + moment * _DAY_SECONDS,
            born=np.zeros(there.size),
        )

    @property
    def busiest(self) -> int:
        """The element with the most changes."""
        return int(np.argmax(np.bincount(self.elements, minlength=len(self))))

    def world(self, weights: Floats | None = None) -> World:
        """Return the world in which this happens again."""
        from unstale.simulation import World  # slow to import, and experiments are listed without it

        return World.recorded(self.elements, self.times, end=self.end, count=len(self), weights=weights)


def load(
    path: str | None = None, columns: Mapping[str, str] | None = None, advance: Advance = ignore
) -> Recorded:
    """Read a history: a CSV or Parquet file with columns element and t, or the folder of a git repository.

    Without a path it is the bundled one.

    >>> recorded = load()
    >>> len(recorded), recorded.keys[recorded.busiest]
    (211, 'pulumi')
    """
    if path is None:
        with as_file(files("unstale").joinpath("data/releases.csv.gz")) as file:
            return _from_file(str(file), BUNDLED, {}, advance)
    if Path(path).is_dir():
        if columns:
            raise bad_file(path, "columns can be named for a file, but this is a folder")
        repository = Repository(path)
        found = histories_of([repository], advance=advance)
        return _recorded(path, repository.name, found.keys, found.elements, found.times.astype(float))
    return _from_file(path, Path(path).name, columns or {}, advance)


def _from_file(path: str, name: str, columns: Mapping[str, str], advance: Advance) -> Recorded:
    history = history_table(path, columns).read(advance)
    keys = [str(key) for key in as_list(history.keys)]
    return _recorded(path, name, keys, history.elements, history.times)


def _recorded(path: str, name: str, keys: list[str], elements: NDArray[np.int64], times: Floats) -> Recorded:
    later = np.diff(elements, prepend=-1) == 0
    if not later.any():
        raise bad_file(path, "no element has two records, so nothing is known to change")
    begin, end = float(times.min()), float(times.max())
    born = (times[~later] - begin) / _DAY_SECONDS
    days = (times[later] - begin) / _DAY_SECONDS
    return Recorded(name, keys, elements[later], days, (end - begin) / _DAY_SECONDS, begin, born)


def load_weights(path: str, recorded: Recorded, columns: Mapping[str, str] | None = None) -> Floats:
    """Read how much elements matter, from a file with columns key and weight.

    What is not in it, or has no weight there, does not matter.
    """
    found: dict[str, float] = {}
    for place, row in rows_in(path, _WEIGHTS, columns):
        if row["key"] in found:
            name = (columns or {}).get("key", "key")
            raise place.wrong(name, "a key that does not come before", row["key"])
        found[row["key"]] = row["weight"]
    weights = np.nan_to_num([found.get(key, 0.0) for key in recorded.keys])
    if not weights.any():
        raise bad_file(path, f"no element of {recorded.name} has a weight there")
    return weights
