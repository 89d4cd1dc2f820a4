"""From columns of Arrow to columns of values, checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .columns import ColumnPlaces, Labels
from .schema import Broken, Column, Kind, moment, readers_of, seen_in

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unstale.arguments import Floats

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_LONGEST_TEXT_BYTES = 65_536
"""Of a value in a dictionary: a file of a kilobyte may hold one of megabytes for thousands of rows."""
_UNKNOWN = -1
"""A flag that is missing."""


def values_of(columns: Sequence[tuple[Column, Any]], source: ColumnPlaces) -> dict[str, Any]:
    """Return values by role, as `Columns` holds them."""
    plain = [(column, _without_blanks(column, _plain(column, data, source))) for column, data in columns]
    _check_times([(column, data) for column, data in plain if column.kind == "time"], source)
    return {column.role: _VALUES[column.kind](column, data, source) for column, data in plain}


def encoded(column: Any) -> tuple[NDArray[np.int64], Any]:  # noqa: ANN401  (Arrow has no types)
    """Return a column of labels as places in the list of those that differ, and that list."""
    chunks = column.dictionary_encode().unify_dictionaries().chunks
    if not chunks:
        return np.zeros(0, np.int64), pa.array([], column.type)
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in chunks])
    return codes.astype(np.int64), chunks[0].dictionary


def count_different(column: Any) -> int:  # noqa: ANN401
    """Return how many values differ."""
    return int(pc.count_distinct(column, mode="all").as_py())


def _plain(column: Column, data: Any, source: ColumnPlaces) -> Any:  # noqa: ANN401
    """Return a column without a dictionary, and with text that Arrow can search."""
    kind = data.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            for chunk in data.chunks if isinstance(data, pa.ChunkedArray) else [data]:
                longest = pc.max(pc.binary_length(chunk.dictionary)).as_py() or 0
                if longest > _LONGEST_TEXT_BYTES:
                    source.wrong_type(column, f"text of {longest:,} bytes, more than {_LONGEST_TEXT_BYTES:,}")
            kind = pa.large_string()  # all together they may have more than two gigabytes
        data = data.cast(kind)
    return data.cast(pa.large_string()) if pa.types.is_string_view(kind) else data


def _without_blanks(column: Column, data: Any) -> Any:  # noqa: ANN401
    """Return times in which blank text is missing, as it is in a text file."""
    if column.kind != "time" or not column.empty or not _is_text(data):
        return data
    return pc.if_else(pc.equal(pc.utf8_trim_whitespace(data), ""), None, data)


def _is_text(column: Any) -> bool:  # noqa: ANN401
    return pa.types.is_string(column.type) or pa.types.is_large_string(column.type)


def _is_numeric(column: Any) -> bool:  # noqa: ANN401
    kinds, kind = pa.types, column.type
    return kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind)


def _is_date(column: Any) -> bool:  # noqa: ANN401
    return pa.types.is_timestamp(column.type) or pa.types.is_date(column.type)


def is_dated(column: Any) -> bool:  # noqa: ANN401
    """Tell whether a column has timestamps or dates, or nothing."""
    return _is_date(column) or bool(pa.types.is_null(column.type))


def _no_nulls(column: Column, data: Any, source: ColumnPlaces) -> None:  # noqa: ANN401
    if data.null_count:
        row = pc.index(data.is_null(), value=True).as_py()
        source.wrong(column.role, row, column.must_be, None)


def _labels(column: Column, data: Any, source: ColumnPlaces) -> Labels:  # noqa: ANN401
    if not (_is_text(data) or pa.types.is_integer(data.type)):
        source.wrong_type(column, data.type)
    _no_nulls(column, data, source)
    if _is_text(data) and (row := pc.index(data, "").as_py()) >= 0:
        source.wrong(column.role, row, column.must_be, "")
    return Labels(data)


def _numbers(column: Column, data: Any, source: ColumnPlaces) -> Floats:  # noqa: ANN401
    if not (_is_numeric(data) or (column.empty and pa.types.is_null(data.type))):
        source.wrong_type(column, data.type)
    if not column.empty:
        _no_nulls(column, data, source)
    values: Floats = data.cast(pa.float64(), safe=False).to_numpy()  # what is missing is nan
    good = column.allowed.holds(values)
    if column.empty:
        good |= np.isnan(values)
    if not good.all():
        row = int(np.argmin(good))
        value = values[row].item()
        source.wrong(column.role, row, column.allowed.broken_by(value), value)
    return values


def _times(column: Column, data: Any, source: ColumnPlaces) -> Floats:  # noqa: ANN401
    """Return seconds from numbers, timestamps, dates or text; nan where nothing stands."""
    if not column.empty:
        _no_nulls(column, data, source)
    if _is_date(data):
        unit = data.type.unit if pa.types.is_timestamp(data.type) else "s"
        whole = data.cast(pa.timestamp(unit)).cast(pa.int64())
        return np.asarray(whole.to_numpy() / _PER_SECOND[unit], float)
    if _is_text(data):
        return np.array(_read(column, data, source), float)
    return _numbers(column, data, source)


def _check_times(columns: Sequence[tuple[Column, Any]], source: ColumnPlaces) -> None:
    """Complain if times that count from anywhere are seconds in one column and timestamps in another."""
    kinds = [
        (column, data, "timestamps" if _has_timestamps(data) else "seconds")
        for column, data in columns
        if not column.since_1970 and data.null_count < len(data)
    ]
    for column, data, kind in kinds[1:]:
        first, _, wanted = kinds[0]
        if kind != wanted:
            rule = f"{wanted}, as the column {source.names[first.role]!r} does"
            source.wrong_type(column, data.type, rule)


def _has_timestamps(data: Any) -> bool:  # noqa: ANN401
    if not _is_text(data):
        return _is_date(data)
    return moment(data.drop_null()[0].as_py()) is not None


def _flags(column: Column, data: Any, source: ColumnPlaces) -> NDArray[np.int8]:  # noqa: ANN401
    known = np.asarray(data.is_valid())
    seen = np.full(len(data), _UNKNOWN, np.int8)
    if not known.any():
        return seen
    kinds, kind = pa.types, data.type
    if not (_is_text(data) or kinds.is_boolean(kind) or kinds.is_integer(kind) or kinds.is_floating(kind)):
        source.wrong_type(column, kind)
    codes, values = encoded(data.drop_null())
    rows = np.flatnonzero(known)
    meanings = np.zeros(len(values), np.int8)
    for code, value in enumerate(values.to_pylist()):
        try:
            found = seen_in(value)
        except Broken as broken:
            source.wrong(column.role, int(rows[np.argmax(codes == code)]), str(broken), value)
        meanings[code] = _UNKNOWN if found is None else found
    seen[known] = meanings[codes]
    return seen


def _texts(column: Column, data: Any, source: ColumnPlaces) -> list[str]:  # noqa: ANN401
    if not (_is_text(data) or pa.types.is_null(data.type)):
        source.wrong_type(column, data.type)
    return _read(column, data, source)


def _read(column: Column, data: Any, source: ColumnPlaces) -> list[Any]:  # noqa: ANN401
    """Read text as if it stood in a text file; what is missing is empty."""
    (read,) = readers_of([column])
    values = []
    for row, text in enumerate(data.to_pylist()):
        try:
            values.append(read("" if text is None else text))
        except Broken as broken:
            source.wrong(column.role, row, str(broken), text)
    return values


def _wholes(column: Column, data: Any, source: ColumnPlaces) -> list[int | None]:  # noqa: ANN401
    if not (pa.types.is_integer(data.type) or pa.types.is_null(data.type)):
        source.wrong_type(column, data.type)
    values: list[int | None] = data.to_pylist()
    for row, value in enumerate(values):
        if value is not None and value < 0:
            source.wrong(column.role, row, column.must_be, value)
    return values


_VALUES: dict[Kind, Callable[[Column, Any, ColumnPlaces], Any]] = {
    "label": _labels,
    "text": _texts,
    "number": _numbers,
    "whole": _wholes,
    "flag": _flags,
    "time": _times,
    "json": _texts,
}
