"""The difference between two versions of a table in Parquet: rows added, removed and changed."""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

_MAX_COMPARED_BYTES = 32_000_000
"""Of what is compared row by row, in memory. In a file, a long string may be there once."""
_TOO_MUCH = "rows are not told: more of the tables differs than is compared, or rows came in between"
_MIN_CELL_BYTES = 8
"""What a cell counts at least."""
_ROWS_AT_A_TIME = 256
_MAX_SHOWN_ROWS = 20
"""Of each kind of difference."""
_MAX_LINE_CHARACTERS = 300

Codes = NDArray[np.int64]


def table_difference(old: bytes, new: bytes, lines: int) -> str:
    """Return the difference in words; "" if one of the tables cannot be read.

    The first column whose values are unique in both tables identifies rows. If there is none, a changed row
    counts as one removed and one added.
    """
    try:
        files = [pq.ParquetFile(io.BytesIO(part)) for part in (old, new)]
        counts = [file.metadata.num_rows for file in files]
        schemas = [file.schema_arrow for file in files]
        said = list(_columns(*schemas))
        shared = [name for name in schemas[1].names if _once(schemas[0], name) and _once(schemas[1], name)]
        head = f"rows: {counts[0]:,} -> {counts[1]:,}"
        old_table = _small_table(files[0], shared)
        new_table = _small_table(files[1], shared) if old_table is not None else None
        tables = (old_table, new_table)
        if old_table is None or new_table is None:
            tables = _where_they_differ(files[0], files[1], shared)
        if tables[0] is None or tables[1] is None:
            return _clipped([f"{head} ({_TOO_MUCH if shared else 'no column is in both'})", *said], lines)
        of_rows, more = _rows(tables[0], tables[1])
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, ValueError):
        return ""
    return _clipped([f"{head} ({of_rows})", *said, *more], lines)


def _small_table(file: pq.ParquetFile, names: list[str]) -> pa.Table | None:
    """Return these columns; None if there are none, or too many bytes of them."""
    fields = [field for field in file.schema_arrow if field.name in names]
    if not fields or file.metadata.num_rows * len(fields) * _MIN_CELL_BYTES > _MAX_COMPARED_BYTES:
        return None
    size, batches = 0, []
    for batch in file.iter_batches(_ROWS_AT_A_TIME, columns=names, use_threads=False):
        size += max(batch.nbytes, batch.num_rows * len(fields) * _MIN_CELL_BYTES)
        if size > _MAX_COMPARED_BYTES:
            return None
        batches.append(batch)
    return pa.Table.from_batches(batches) if batches else pa.schema(fields).empty_table()


def _where_they_differ(
    old: pq.ParquetFile, new: pq.ParquetFile, names: list[str]
) -> tuple[pa.Table, pa.Table] | tuple[None, None]:
    """Return the parts of large tables that are not the same, place by place; None if that is too much.

    A row that was changed is found among millions, and so are rows at the end; a row that came in between
    moves all that follow.
    """
    if not names or any(old.schema_arrow.field(n).type != new.schema_arrow.field(n).type for n in names):
        return None, None
    readers = [file.iter_batches(_ROWS_AT_A_TIME, columns=names, use_threads=False) for file in (old, new)]
    left: list[pa.RecordBatch | None] = [next(reader, None) for reader in readers]
    found: tuple[list[pa.RecordBatch], list[pa.RecordBatch]] = ([], [])
    size = 0
    while any(batch is not None for batch in left):
        there = [batch for batch in left if batch is not None]
        count = min(batch.num_rows for batch in there)
        heads = [None if batch is None else batch.slice(0, count) for batch in left]
        if heads[0] is None or heads[1] is None or not heads[0].equals(heads[1]):
            for kept, head in zip(found, heads, strict=True):
                if head is not None:
                    kept.append(head)
                    size += max(head.nbytes, head.num_rows * len(names) * _MIN_CELL_BYTES)
            if size > _MAX_COMPARED_BYTES:
                return None, None
        for i, batch in enumerate(left):
            if batch is not None:
                left[i] = batch.slice(count) if batch.num_rows > count else next(readers[i], None)
    schema = pa.schema([new.schema_arrow.field(name) for name in new.schema_arrow.names if name in names])
    made = [
        pa.Table.from_batches(kept).select(schema.names) if kept else schema.empty_table() for kept in found
    ]
    return made[0], made[1]


def _clipped(said: list[str], lines: int) -> str:
    """Return at most so many lines, each cut, since columns can have long names."""
    return "\n".join(line[:_MAX_LINE_CHARACTERS] for line in said[:lines])


def _once(schema: pa.Schema, name: str) -> bool:
    return len(schema.get_all_field_indices(name)) == 1


def _columns(old: pa.Schema, new: pa.Schema) -> Iterator[str]:
    for name in old.names:
        if name not in new.names:
            yield f"column removed: {name}"
    for name in new.names:
        if name not in old.names:
            yield f"column added: {name} ({new.field(name).type})"
        elif _once(old, name) and _once(new, name) and old.field(name).type != new.field(name).type:
            yield f"column {name}: was {old.field(name).type}, is {new.field(name).type}"


def _rows(old: pa.Table, new: pa.Table) -> tuple[str, list[str]]:
    """Return how many rows were added, removed and changed, and lines that show some of them."""
    columns = {name: _encoded(old.column(name), new.column(name)) for name in new.column_names}
    split = old.num_rows
    every = np.zeros(split + new.num_rows, np.int64)
    for codes in columns.values():
        every = np.unique(every * (codes.max(initial=0) + 1) + codes, return_inverse=True)[1]
    key = next((name for name, codes in columns.items() if _unique(codes[:split], codes[split:])), None)
    identity = every if key is None else columns[key]
    gone, came = _surplus(identity[:split], identity[split:]), _surplus(identity[split:], identity[:split])
    lines = [f"- {_shown(old, at, key)}" for at in gone[:_MAX_SHOWN_ROWS].tolist()]
    lines += [f"+ {_shown(new, at, key)}" for at in came[:_MAX_SHOWN_ROWS].tolist()]
    if key is None:
        return f"{came.size:,} added, {gone.size:,} removed", lines
    _, before, after = np.intersect1d(
        identity[:split], identity[split:], assume_unique=True, return_indices=True
    )
    differ = every[before] != every[split + after]
    before, after = before[differ], after[differ]
    for a, b in islice(zip(before.tolist(), after.tolist(), strict=True), _MAX_SHOWN_ROWS):
        parts = [
            f"{name} {_value(old.column(name)[a])} -> {_value(new.column(name)[b])}"
            for name, codes in columns.items()
            if codes[a] != codes[split + b]
        ]
        lines.append(f"~ {key} {_value(new.column(key)[b])}: {', '.join(parts)}"[:_MAX_LINE_CHARACTERS])
    told = f"{came.size:,} added, {gone.size:,} removed, {before.size:,} changed; told apart by {key}"
    return told, lines


def _encoded(old: pa.ChunkedArray, new: pa.ChunkedArray) -> Codes:
    """Return a number for each value of both columns, equal for equal values; 0 is null."""
    kind = old.type
    try:
        if old.type != new.type:
            kind = pa.string()
        whole = pa.chunked_array([*old.cast(kind).chunks, *new.cast(kind).chunks], kind)
        codes = whole.combine_chunks().dictionary_encode()
        codes = codes.combine_chunks() if isinstance(codes, pa.ChunkedArray) else codes
        return codes.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64) + 1
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):  # lists, structures
        seen: dict[str, int] = {}
        values = [*old.to_pylist(), *new.to_pylist()]
        return np.array([seen.setdefault(repr(value), len(seen) + 1) for value in values], np.int64)


def _unique(*parts: Codes) -> bool:
    return all((part > 0).all() and np.unique(part).size == part.size for part in parts)


def _surplus(some: Codes, others: Codes) -> Codes:
    """Return the positions in ``some`` of values that ``others`` has fewer of."""
    order = np.argsort(some, kind="stable")
    ranked = some[order]
    which = np.arange(ranked.size) - np.searchsorted(ranked, ranked)  # counts equal values from 0 on
    others = np.sort(others)
    there = np.searchsorted(others, ranked, "right") - np.searchsorted(others, ranked)
    return np.sort(order[which >= there])


def _shown(table: pa.Table, at: int, key: str | None) -> str:
    names = [key, *(name for name in table.column_names if name != key)] if key else table.column_names
    return ", ".join(f"{name} {_value(table.column(name)[at])}" for name in names)[:_MAX_LINE_CHARACTERS]


def _value(scalar: pa.Scalar) -> str:
    value = scalar.as_py()
    shown = "null" if value is None else str(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}..."
