"""Tables in Parquet: read at once, or in batches if they do not fit into memory."""

from __future__ import annotations

from collections.abc import Iterator
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
    ignore,
    reason,
    repeated,
)

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["ParquetTable"]

BATCH = 1 << 20


class ParquetTable:
    """A table in a Parquet file."""

    def __init__(self, path: str, names: dict[str, str], required: set[str]) -> None:
        self.path = path
        self._names, self._required = names, required

    @cached_property
    def _arrow(self) -> ModuleType:
        need("pyarrow.parquet", extra="parquet", needed_for="Parquet files")
        return need("pyarrow", extra="parquet", needed_for="Parquet files")

    @cached_property
    def _file(self) -> Any:  # noqa: ANN401  (Arrow has no types)
        arrow = self._arrow
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
        """Rows of the file, as `read` counts them."""
        return int(self._file.metadata.num_rows)

    @cached_property
    def columns(self) -> dict[str, str]:
        """Names of the columns that there are, by role."""
        header = self._file.schema_arrow.names
        if self.length == 0:
            raise bad_file(self.path, "it has no rows")
        found = find_columns(self.path, header, self._names, self._required)
        return {role: header[at] for role, at in found.items()}

    def read(self, advance: Advance = ignore) -> Elements:
        """Read the whole table, or raise an error that names the first mistake; repeated keys come last."""
        arrow = self._arrow
        batches = []
        for batch in self._batches(self.columns):
            batches.append(batch)
            advance(batch.num_rows)
        elements = self._elements(arrow.Table.from_batches(batches), 0)
        from .columns import first_repeated

        again = first_repeated(elements.keys)
        if again:
            rows, key = (f"row {again[0] + 1}", f"row {again[1] + 1}"), as_list(elements.keys[again[0] :][:1])
            raise repeated(self.path, rows, self._names["key"], key[0])
        return elements

    def parts(self, *roles: str, advance: Advance = ignore) -> Iterator[Elements]:
        """Read the table in parts, each time anew; only the columns of these roles. Keys may repeat."""
        first = 0
        for batch in self._batches({role: name for role, name in self.columns.items() if role in roles}):
            yield self._elements(self._arrow.Table.from_batches([batch]), first)
            first += batch.num_rows
            advance(batch.num_rows)

    def _batches(self, columns: dict[str, str]) -> Iterator[Any]:
        try:
            yield from self._file.iter_batches(BATCH, columns=list(columns.values()))
        except (self._arrow.ArrowException, OSError) as error:
            raise self._damaged(error) from None

    def _elements(self, table: Any, first: int) -> Elements:  # noqa: ANN401
        from .columns import from_arrow

        def complain(role: str, row: int | None, rule: str, value: object) -> NoReturn:
            if row is None:
                raise bad_column(self.path, self._names[role], f"must hold {rule}; it holds {value}")
            raise bad_value(self.path, f"row {first + row + 1}", self._names[role], rule, value)

        there = {role: name for role, name in self.columns.items() if name in table.column_names}
        return from_arrow({role: table.column(name) for role, name in there.items()}, complain, first)

    def _damaged(self, error: BaseException) -> Exception:
        said = (str(error).splitlines() or [""])[0]
        return bad_file(self.path, f"not a Parquet file, or cut short or damaged; {said}")
