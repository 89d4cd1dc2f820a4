"""Tables of elements: rates, known or known as gamma laws, and perhaps keys, weights, sizes and groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from unstale.quantities import LEAST, MOST

from .columns import Columns, Keys, as_list
from .files import ParquetFile, TextFile
from .schema import Column, NumberRange, Schema
from .table_reader import TableReader

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from unstale.arguments import Floats

MOST_SURE_SHAPE = 1e15
"""Largest shape; beyond, a rate is known to the last digit."""

_ZERO_TOO = NumberRange("finite and >= 0", LEAST, MOST, zero=True, extreme="0, or between 1e-100 and 1e100")
_POSITIVE = NumberRange("finite and > 0", LEAST, MOST, extreme="between 1e-100 and 1e100")
_SHAPE = NumberRange("finite and > 0", LEAST, MOST_SURE_SHAPE, extreme="between 1e-100 and 1e15")

WEIGHT = Column("weight", "number", within=_ZERO_TOO)
_CERTAIN = (
    Column("key", "label"),
    Column("rate", "number", needed=True, within=_ZERO_TOO),
    WEIGHT,
    Column("size", "number", within=_POSITIVE),
    Column("group", "label"),
)
_LAW = (
    Column("shape", "number", empty=True, within=_SHAPE),
    Column("scale", "number", empty=True, within=_POSITIVE),
)
"""Columns of the gamma law of a rate that is not known for sure; they count together."""
ROLES = tuple(column.role for column in _CERTAIN)
LAW_ROLES = tuple(column.role for column in _LAW)


@dataclass(frozen=True, eq=False)
class TableElements:
    """Elements as read from a table; what the table lacks is None."""

    rates: Floats
    """Mean rates, where they are uncertain."""
    keys: Keys
    """Row numbers, from 1, if there is no column of keys."""
    weights: Floats | None = None
    sizes: Floats | None = None
    groups: NDArray[np.int64] | None = None
    """Positions in ``group_names``."""
    group_names: Sequence[object] = ()
    shapes: Floats | None = None
    """Of the gamma laws of the rates; NaN where a rate is known."""
    scales: Floats | None = None

    def __len__(self) -> int:
        """How many."""
        return len(self.rates)

    @property
    def uncertain(self) -> int:
        """How many rates are known only as a law."""
        import numpy as np

        return 0 if self.shapes is None else int(np.count_nonzero(~np.isnan(self.shapes)))


def element_table(
    file: str | TextFile | ParquetFile, columns: Mapping[str, str] | None = None, *, certain: bool = False
) -> TableReader[TableElements]:
    """Return the table in a file; ``columns`` says what columns are called there, if not by their role.

    The laws of uncertain rates are left out if they are to be taken as ``certain``.
    """
    schema = (
        Schema(_CERTAIN, "elements") if certain else Schema((*_CERTAIN, *_LAW), "elements", fitted=_fitted)
    )
    return TableReader(file, schema, _elements, columns)


def _fitted(there: set[str], asked: set[str]) -> tuple[Column, ...]:
    """Return the columns that count: laws do if a file has both of their columns, or one is asked for.

    Then rates may be missing.
    """
    if not (asked & set(LAW_ROLES) or set(LAW_ROLES) <= there):
        return _CERTAIN
    known = (
        replace(column, needed=False, empty=True) if column.role == "rate" else column for column in _CERTAIN
    )
    return (*known, *(replace(column, needed=True) for column in _LAW))


def _elements(columns: Columns) -> TableElements:
    """Return elements, having checked that each has a rate and that no key repeats; but parts may repeat."""
    rates, shapes, scales = columns.get("rate"), columns.get("shape"), columns.get("scale")
    if shapes is not None and scales is not None:
        rates, shapes, scales = _merged(columns, rates, shapes, scales)
    keys, groups = columns.get("key"), columns.get("group")
    if keys is not None and columns.whole and (again := keys.first_repeated()):
        row, before = again
        name, key = columns.source.names["key"], as_list(keys.values[row : row + 1])[0]
        raise columns.source.place(row).repeats(columns.source.place(before), name, key)
    return TableElements(
        rates=rates,
        keys=range(columns.first + 1, columns.first + len(columns) + 1) if keys is None else keys.values,
        weights=columns.get("weight"),
        sizes=columns.get("size"),
        groups=None if groups is None else groups.encoded[0],
        group_names=() if groups is None else as_list(groups.encoded[1]),
        shapes=shapes,
        scales=scales,
    )


def _merged(
    columns: Columns, rates: Floats | None, shapes: Floats, scales: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return mean rates, shapes and scales; the law wins, and where it is not whole it is NaN."""
    import numpy as np

    known = np.isnan(shapes) | np.isnan(scales)
    means = shapes * scales if rates is None else np.where(known, rates, shapes * scales)
    if (lost := np.isnan(means)).any():
        row = int(np.argmax(lost))
        role = "rate" if rates is not None else "shape" if np.isnan(shapes[row]) else "scale"
        columns.wrong(role, row, "a number", columns.nothing)
    return means, np.where(known, np.nan, shapes), np.where(known, np.nan, scales)
