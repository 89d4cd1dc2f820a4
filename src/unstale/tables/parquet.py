"""Tables in Parquet: read at once, or in batches if they do not fit into memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from unstale.errors import need

from .elements import (
    Advance,
    Elements,
    as_list,
    bad_column,
    bad_file,
    bad_value,
    find_columns,
    for_elements,
    ignore,
    reason,
    repeated,
)

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["ParquetFile", "ParquetTable"]

BATCH = 1 << 20


class ParquetFile:
    """A Parquet file."""

    def __init__(self, path: str) -> None:
        self.path = path

    @cached_property
    def arrow(self) -> ModuleType:
        """The library that reads it."""
        need("pyarrow.parquet", extra="parquet", needed_for="Parquet files")
        return need("pyarrow", extra="parquet", needed_for="Parquet files")

    @cached_property
    def _file(self) -> Any:  # noqa: ANN401  (Arrow has no types)
        arrow = self.arrow
        try:
            Path(self.path).open("rb").close()
        except OSError as error:  # the system says it better than Arrow
            raise bad_file(self.path, reason(error)) from None
        try:
            # A row group may be as large as the file, so its columns are read piece by piece.
            return arrow.parquet.ParquetFile(self.path, pre_buffer=False, buffer_size=1 << 20)
        except (arrow.ArrowException, OSError, ValueError) as error:
            raise self._damaged(error) from None

    @property
    def length(self) -> int:
        """Rows of the file."""
        return int(self._file.metadata.num_rows)

    @property
    def names(self) -> list[str]:
        """Names of all columns."""
        found: list[str] = self._file.schema_arrow.names
        return found

    def columns(self, names: Mapping[str, str], required: set[str]) -> dict[str, str]:
        """Return the names of the columns that there are, by role."""
        if self.length == 0:
            raise bad_file(self.path, "it has no rows")
        found = find_columns(self.path, self.names, names, required)
        return {role: self.names[at] for role, at in found.items()}

    def batches(self, columns: Iterable[str]) -> Iterator[Any]:
        """Return some columns, batch by batch."""
        try:
            yield from self._file.iter_batches(BATCH, columns=list(columns))
        except (self.arrow.ArrowException, OSError) as error:
            raise self._damaged(error) from None

    def read(self, columns: Iterable[str], advance: Advance = ignore) -> Any:  # noqa: ANN401
        """Return some columns, whole, as a table of Arrow."""
        batches = []
        for batch in self.batches(columns):
            batches.append(batch)
            advance(batch.num_rows)
        return self.arrow.Table.from_batches(batches)

    def _damaged(self, error: BaseException) -> Exception:
        said = (str(error).splitlines() or [""])[0]
        return bad_file(self.path, f"not a Parquet file, or cut short or damaged; {said}")


class ParquetTable:
    """A table in a Parquet file."""

    def __init__(self, file: ParquetFile, names: dict[str, str], required: set[str]) -> None:
        self.file = file
        self._names, self._required = names, required

    @property
    def path(self) -> str:
        """Name of the file."""
        return self.file.path

    @property
    def length(self) -> int:
        """Rows of the file, as `read` counts them."""
        return self.file.length

    @cached_property
    def columns(self) -> dict[str, str]:
        """Names of the columns that there are, by role."""
        return self.file.columns(*for_elements(self.file.names, self._names, self._required))

    def read(self, advance: Advance = ignore) -> Elements:
        """Read the whole table, or raise an error that names the first mistake; repeated keys come last."""
        elements = self._elements(self.file.read(self.columns.values(), advance), 0)
        from .columns import first_repeated

        again = first_repeated(elements.keys)
        if again:
            rows, key = (f"row {again[0] + 1}", f"row {again[1] + 1}"), as_list(elements.keys[again[0] :][:1])
            raise repeated(self.path, rows, self._names["key"], key[0])
        return elements

    def parts(self, *roles: str, advance: Advance = ignore) -> Iterator[Elements]:
        """Read the table in parts, each time anew; only the columns of these roles. Keys may repeat."""
        first = 0
        for batch in self.file.batches([name for role, name in self.columns.items() if role in roles]):
            yield self._elements(self.file.arrow.Table.from_batches([batch]), first)
            first += batch.num_rows
            advance(batch.num_rows)

    def _elements(self, table: Any, first: int) -> Elements:  # noqa: ANN401
        from .columns import from_arrow

        def complain(role: str, row: int | None, rule: str, value: object) -> NoReturn:
            if row is None:
                raise bad_column(self.path, self._names[role], f"must hold {rule}; it holds {value}")
            raise bad_value(self.path, f"row {first + row + 1}", self._names[role], rule, value)

        there = {role: name for role, name in self.columns.items() if name in table.column_names}
        return from_arrow({role: table.column(name) for role, name in there.items()}, complain, first)
