"""Columns as they have been read from a table, and labels: columns of text in which values may repeat."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from .complaints import Place, bad_column
from .schema import Column

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Keys(Protocol):
    """A sequence of keys: a list, a range, an array, or a column of Arrow."""

    def __len__(self) -> int:
        """How many."""

    def __getitem__(self, part: slice, /) -> Any:  # noqa: ANN401  (Arrow has no types)
        """Some of them."""


def as_list(keys: Keys) -> list[Any]:
    """Return keys, or another column, as values of Python; moments as text, in UTC.

    >>> import numpy as np
    >>> as_list(range(3)), as_list(np.array(["2026-01-01T12:00:00.5"], "datetime64[ms]"))
    ([0, 1, 2], ['2026-01-01T12:00:00.500Z'])
    """
    part = keys[:]
    if hasattr(part, "to_pylist"):
        return list(part.to_pylist())
    if not hasattr(part, "tolist"):
        return list(part)
    if part.dtype.kind == "M":
        import numpy as np

        part = np.datetime_as_string(part, timezone="UTC")
    return list(part.tolist())


def taken(keys: Keys, places: NDArray[np.int64]) -> Any:  # noqa: ANN401
    """Return the keys in some places.

    >>> import numpy as np
    >>> list(taken(["a", "b"], np.array([1, 0, 1]))), taken(range(1, 3), np.array([1, 0])).tolist()
    (['b', 'a', 'b'], [2, 1])
    """
    whole: Any = keys
    if hasattr(whole, "take"):
        return whole.take(places)
    if isinstance(whole, range):
        return whole.start + whole.step * places
    return [whole[place] for place in places.tolist()]


@dataclass(frozen=True, eq=False)
class Labels:
    """A column of labels."""

    values: Keys
    """The label of each row: a list, or a column of Arrow."""

    @cached_property
    def encoded(self) -> tuple[NDArray[np.int64], Keys]:
        """For each row the place of its label in the list of those that differ, and that list."""
        if not isinstance(self.values, list):
            from .arrow_columns import encoded

            return encoded(self.values)
        import numpy as np

        places = {label: place for place, label in enumerate(dict.fromkeys(self.values))}
        codes = map(places.__getitem__, self.values)
        return np.fromiter(codes, np.int64, len(self.values)), list(places)

    def first_repeated(self) -> tuple[int, int] | None:
        """Return the first row whose label has been there before, and where; None if all differ."""
        if isinstance(self.values, list):
            differ = len(set(self.values))
        else:
            from .arrow_columns import count_different

            differ = count_different(self.values)
        if differ == len(self.values):
            return None
        import numpy as np

        codes, _ = self.encoded
        again = np.ones(len(codes), bool)
        again[np.unique(codes, return_index=True)[1]] = False
        row = int(np.argmax(again))
        return row, int(np.argmax(codes == codes[row]))


@dataclass(frozen=True)
class ColumnPlaces:
    """Where columns come from; it makes the complaints about them."""

    path: str
    names: dict[str, str]
    """What the file calls columns, by role."""
    row_name: Callable[[int], str]
    """Returns what a row (from 0) is called, such as ``line 12``; raises if that is not known."""

    def place(self, row: int) -> Place:
        """Return where a row stands."""
        return Place(self.path, self.row_name(row))

    def wrong(self, role: str, row: int, rule: str, value: object) -> NoReturn:
        """Complain of a value."""
        raise self.place(row).wrong(self.names[role], rule, value)

    def wrong_type(self, column: Column, found: object, rule: str = "") -> NoReturn:
        """Complain of the type of a column."""
        self.row_name(0)  # only to raise if rows have no names: then the type is ours, not that of the file
        rule = rule or column.must_hold
        raise bad_column(self.path, self.names[column.role], f"must hold {rule}; it holds {found}")


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns of equal length, by role; those that the file lacks are left out.

    A number or a time is an array of floats (nan: missing), a flag an array of 0, 1 and -1 (missing), a label
    `Labels`, and all else a list.
    """

    values: dict[str, Any]
    count: int
    source: ColumnPlaces
    first: int = 0
    """Number of the first row, from 0."""
    whole: bool = True
    """Whether these are all rows of the file."""
    nothing: str | None = ""
    """What stands in an empty cell."""

    def __len__(self) -> int:
        """How many rows."""
        return self.count

    def get(self, role: str) -> Any:  # noqa: ANN401
        """Return a column, or None."""
        return self.values.get(role)

    def wrong(self, role: str, row: int, rule: str, value: object) -> NoReturn:
        """Complain of a value."""
        self.source.wrong(role, row, rule, value)
