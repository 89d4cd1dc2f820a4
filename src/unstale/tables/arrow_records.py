"""From rows to columns of Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Any

import pyarrow as pa

from .output import json_cell
from .schema import Column, Kind

__all__ = ["arrays_of", "types_of"]

_TYPES: dict[Kind, Any] = {
    "label": pa.string(),
    "text": pa.string(),
    "number": pa.float64(),
    "whole": pa.int64(),
    "flag": pa.bool_(),
    "time": pa.timestamp("us", "UTC"),
    "json": pa.string(),
}


def types_of(columns: Sequence[Column]) -> dict[str, Any]:
    """Return the types of columns, by role."""
    return {column.role: _TYPES[column.kind] for column in columns}


def arrays_of(column: Column, values: Sequence[Any]) -> Any:  # noqa: ANN401  (Arrow has no types)
    """Return values as a column of Arrow."""
    if column.kind == "time":
        values = [None if isnan(value) else round(value * 1e6) for value in values]
        return pa.array(values, pa.int64()).cast(_TYPES["time"])
    if column.kind == "json":
        values = [json_cell(value) or None for value in values]
    elif column.kind in {"label", "text"}:
        values = [value.encode("utf-8", "replace").decode() for value in values]
    elif column.kind == "number":
        values = [None if isnan(value) else value for value in values]
    return pa.array(values, _TYPES[column.kind])
