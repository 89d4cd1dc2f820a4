"""From columns of Arrow to elements, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unstale.quantities import LEAST, MOST

from .elements import LAW_ROLES, MOST_SURE, NUMBERS, POSITIVE, Elements, broken_rule
from .laws import lacking, merged

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unstale.arguments import Floats

__all__ = ["Complain", "encoded", "first_repeated", "from_arrow", "labels_of", "no_nulls"]

Complain = Callable[[str, int | None, str, object], NoReturn]
"""Is told the role of a column, the row (from 0; None: the whole column), the rule and what stands there."""


def from_arrow(columns: Mapping[str, Any], complain: Complain, first: int = 0) -> Elements:
    """Return the elements of columns of Arrow, by role; ``first`` is the number of the first row."""
    law = set(LAW_ROLES) <= set(columns)
    numbers = {
        role: _numbers(role, columns[role], complain, empty=law and role in {"rate", *LAW_ROLES})
        for role in NUMBERS
        if role in columns
    }
    labels = {role: labels_of(role, columns[role], complain) for role in ("key", "group") if role in columns}
    rates, shapes, scales = numbers.get("rate"), None, None
    if law:
        rates, shapes, scales = merged(rates, numbers["shape"], numbers["scale"])
        if np.isnan(rates).any():
            row = int(np.argmax(np.isnan(rates)))
            rate = float(numbers["rate"][row]) if "rate" in numbers else None
            shape, scale = (float(numbers[role][row]) for role in LAW_ROLES)
            complain(lacking(rate, shape, scale), row, "a number", None)
    assert rates is not None  # noqa: S101  (for the type checker)
    count = len(rates)
    groups, names = None, list[object]()
    if "group" in labels:
        groups, dictionary = encoded(labels["group"])
        names = dictionary.to_pylist()
    return Elements(
        rates=rates,
        keys=labels.get("key", range(first + 1, first + count + 1)),
        weights=numbers.get("weight"),
        sizes=numbers.get("size"),
        groups=groups,
        group_names=names,
        shapes=shapes,
        scales=scales,
    )


def encoded(column: Any) -> tuple[NDArray[np.int64], Any]:  # noqa: ANN401
    """Return a column of labels as places in the list of those that differ, and that list."""
    chunks = column.dictionary_encode().unify_dictionaries().chunks
    if not chunks:
        return np.zeros(0, np.int64), pa.array([], column.type)
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in chunks])
    return codes.astype(np.int64), chunks[0].dictionary


def first_repeated(keys: Any) -> tuple[int, int] | None:  # noqa: ANN401
    """Return the first row whose key has been there before, and where; None if all differ."""
    if isinstance(keys, range) or pc.count_distinct(keys, mode="all").as_py() == len(keys):
        return None
    codes, _ = encoded(keys)
    again = np.ones(len(codes), bool)
    again[np.unique(codes, return_index=True)[1]] = False
    row = int(np.argmax(again))
    return row, int(np.argmax(codes == codes[row]))


def _numbers(role: str, column: Any, complain: Complain, *, empty: bool) -> Floats:  # noqa: ANN401
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        complain(role, None, "numbers", str(kind))
    if not empty:
        no_nulls(role, column, "a number", complain)
    values: Floats = column.cast(pa.float64(), safe=False).to_numpy()  # what is empty is NaN
    good = (values >= LEAST) & (values <= (MOST_SURE if role == "shape" else MOST))
    if role not in POSITIVE:
        good |= values == 0
    if empty and column.null_count:
        good |= column.is_null().to_numpy()
    if not good.all():
        row = int(np.argmin(good))
        value = values[row].item()
        complain(role, row, broken_rule(role, value), value)
    return values


def labels_of(role: str, column: Any, complain: Complain) -> Any:  # noqa: ANN401
    """Return a column of text or whole numbers, having checked that none is missing."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
        column = column.cast(kind)
    if pa.types.is_string_view(kind):  # Arrow cannot search these
        kind = pa.large_string()
        column = column.cast(kind)
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if not (is_text or pa.types.is_integer(kind)):
        complain(role, None, "text or whole numbers", str(kind))
    no_nulls(role, column, "text", complain)
    if is_text:
        empty = pc.index(column, "").as_py()
        if empty >= 0:
            complain(role, empty, "text", "")
    return column


def no_nulls(role: str, column: Any, rule: str, complain: Complain) -> None:  # noqa: ANN401
    """Complain of the first row without a value, if there is one."""
    if column.null_count:
        complain(role, pc.index(column.is_null(), value=True).as_py(), rule, None)
