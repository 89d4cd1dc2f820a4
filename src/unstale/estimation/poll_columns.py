"""Columns of polls or gaps of many elements, sorted by element; each element's own stay in their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unstale.arguments import Floats, numbers, numbers_of_elements
from unstale.errors import InvalidInput

Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, eq=False)
class Grouping:
    """Which rows of a column belong together."""

    order: NDArray[np.intp]
    """Rows, element by element."""
    starts: NDArray[np.intp]
    """Where each element begins in that order."""
    counts: NDArray[np.intp]
    names: NDArray[np.int64]
    """Number of each element, as given."""

    def __len__(self) -> int:
        return self.starts.size

    @property
    def number(self) -> NDArray[np.intp]:
        """Of each row in order, the place of its element among those that are there."""
        return np.repeat(np.arange(self.starts.size), self.counts)

    @property
    def place(self) -> NDArray[np.intp]:
        """Of each row in order, how many of its element come before it."""
        return np.arange(self.order.size) - np.repeat(self.starts, self.counts)

    def total(self, values: Floats) -> Floats:
        """Sum a column, already in order, over each element.

        >>> grouping([5, 2, 5], 3).total(np.array([1.0, 2.0, 4.0])).tolist()
        [1.0, 6.0]
        """
        return np.bincount(self.number, values, self.starts.size).astype(np.float64, copy=False)

    def spread(self, values: NDArray[Scalar]) -> NDArray[Scalar]:
        """Repeat a value of each element over its rows."""
        return np.repeat(values, self.counts)


def grouping(elements: ArrayLike | None, size: int) -> Grouping:
    """Group rows by the number of their element; all together if there are no numbers.

    >>> grouping([5, 2, 5], 3).order.tolist()
    [1, 0, 2]
    """
    if elements is None:
        return Grouping(
            np.arange(size),
            np.zeros(min(size, 1), np.intp),
            np.full(min(size, 1), size),
            np.zeros(1, np.int64),
        )
    names = numbers_of_elements("elements", elements, size)
    order = np.argsort(names, kind="stable")
    found, starts, counts = np.unique(names[order], return_index=True, return_counts=True)
    return Grouping(order, starts, counts, found)


def column(name: str, value: ArrayLike, **rules: float | bool) -> Floats:
    """Return a one-dimensional array of numbers; the rules are those of `numbers`."""
    array = numbers(name, value, **rules)  # type: ignore[arg-type]
    if array.ndim != 1:
        raise InvalidInput(f"{name} must be a list of numbers; it has shape {array.shape}")
    return array


def flags(name: str, value: ArrayLike, size: int) -> NDArray[np.bool_]:
    """Return a column of yes and no: booleans, or numbers that are 0 or 1."""
    array = np.asarray(_plain(value))
    if array.dtype.kind != "b":
        given = numbers(name, array if array.size else np.zeros(array.shape))
        if (other := (given != 0) & (given != 1)).any():
            i = tuple(int(k) for k in np.argwhere(other)[0])
            place = f"{name}[{', '.join(map(str, i))}]" if i else name
            raise InvalidInput(f"{name} must be True or False (or 1 or 0); {place} is {float(given[i])!r}")
        array = given == 1
    if array.shape != (size,):
        raise InvalidInput(f"{name} must be one for each of the {size} polls; it has shape {array.shape}")
    return array


def _plain(changed: ArrayLike) -> ArrayLike:
    """Return numbers for the booleans of a column of objects, which is what a column with gaps becomes."""
    array = np.asarray(changed)
    if array.dtype.kind != "O" or array.ndim != 1:
        return changed
    entries: NDArray[np.object_] = np.empty(array.shape, object)
    entries[:] = [int(entry) if isinstance(entry, bool | np.bool_) else entry for entry in array]
    return entries


def checked_polls(
    elapsed: ArrayLike, changed: ArrayLike, elements: ArrayLike | None
) -> tuple[Floats, NDArray[np.bool_], Grouping]:
    """Check columns of polls, and bring them into the order of elements."""
    spans = column("elapsed", elapsed, above=0)
    seen = flags("changed", changed, spans.size)
    grouped = grouping(elements, spans.size)
    return spans[grouped.order], seen[grouped.order], grouped
