"""Old polls as Parquet files beside the copies, in the folder or the bucket; they have left the tables.

A file holds the polls of one span of numbers, and says so in its name, with the moments of its oldest and its
newest poll. It is put whole before its polls leave the tables, under a name that the same span has at any
time. So a crash in between leaves a file that nobody reads, and that is put again.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unstale.errors import InvalidInput, Trouble, need

from .contract import PollRecord
from .copies import Copies
from .folder import unlink

if TYPE_CHECKING:
    import pyarrow as pa

POLLS_FOLDER = "polls"
"""Beside the copies."""
_ROWS_IN_GROUP = 250_000
"""Polls that are kept in memory at a time when a file is written or read, at most."""
_NAME = re.compile(rf"{POLLS_FOLDER}/(\d+)-(\d+)-(-?\d+)-(-?\d+)\.parquet").fullmatch


class ArchivedSpan(NamedTuple):
    """A file of old polls."""

    name: str
    first: int
    """Number from which on polls of the span have theirs."""
    last: int
    oldest: int
    """No poll is older, in seconds since 1970."""
    newest: int
    size: int
    """In bytes."""


class PollArchive:
    """The files of old polls beside copies."""

    def __init__(self, copies: Copies) -> None:
        self._copies, self._place = copies, copies.place

    @staticmethod
    def lacking() -> str | None:
        """Say what is missing that files need; None if nothing is."""
        try:
            _parquet()
        except InvalidInput as error:
            return str(error)
        return None

    def write(self, first: int, last: int, batches: Iterable[Sequence[PollRecord]]) -> int:
        """Write the file of a span; return how many polls it has. None has no file."""
        arrow, parquet = _parquet()
        schema = _schema(arrow)
        path = self._copies.scratch / f"polls-{secrets.token_hex(8)}.parquet"
        oldest, newest, count = np.inf, -np.inf, 0
        try:
            with self._place.troubles(), parquet.ParquetWriter(path, schema, **_WRITING) as writer:
                waiting: list[PollRecord] = []
                for some in batches:
                    waiting.extend(some)
                    if len(waiting) >= _ROWS_IN_GROUP:
                        writer.write_table(_table(arrow, schema, waiting))
                        waiting = []
                    if some:
                        times = [poll.time for poll in some]
                        oldest, newest = min(oldest, *times), max(newest, *times)
                        count += len(some)
                if waiting:
                    writer.write_table(_table(arrow, schema, waiting))
            if count:
                name = f"{_stem(first, last)}{np.floor(oldest):.0f}-{np.ceil(newest):.0f}.parquet"
                with self._place.troubles():
                    self._place.put(name, path)
        finally:
            unlink(path)
        return count

    def spans(self, until: int) -> list[ArchivedSpan]:
        """Return the files of spans that have left the tables: up to a number of a poll, in their order."""
        found = []
        with self._place.troubles():
            for some in self._place.listed_in(POLLS_FOLDER):
                for one in some:
                    if (said := _NAME(one.name)) is not None and int(said[2]) <= until:
                        first, last, oldest, newest = map(int, said.groups())
                        found.append(ArchivedSpan(one.name, first, last, oldest, newest, one.size))
        return sorted(found, key=lambda span: span.first)

    def take_from(self, other: PollArchive) -> None:
        """Have the files that another place of this kind has."""
        with self._place.troubles():
            for some in other._place.listed_in(POLLS_FOLDER):
                self._place.copy_from(other._place, [one.name for one in some])

    def read(self, span: ArchivedSpan, after: int = 0) -> Iterator[list[PollRecord]]:
        """Return the polls of a span, some at a time, in the order of their numbers."""
        for table in self._groups(span):
            rows = table.to_pylist()
            if polls := [_poll(row) for row in rows if row["id"] > after]:
                yield polls

    def moments(
        self, span: ArchivedSpan, elements: set[int], begin: float, end: float
    ) -> set[tuple[int, float]]:
        """Return (element, moment) of polls of some elements between two moments."""
        found: set[tuple[int, float]] = set()
        if span.newest < begin or span.oldest > end:
            return found
        wanted = np.array(sorted(elements), np.int64)
        for table in self._groups(span, ["element", "time"]):
            which, times = (table.column(name).to_numpy() for name in ("element", "time"))
            fits = np.isin(which, wanted) & (times >= begin) & (times <= end)
            found.update(zip(which[fits].tolist(), times[fits].tolist(), strict=True))
        return found

    def _groups(self, span: ArchivedSpan, columns: list[str] | None = None) -> Iterator[pa.Table]:
        """Read a file part by part."""
        arrow, parquet = _parquet()
        with self._place.troubles(), self._place.open(span.name) as stream:
            try:
                file = parquet.ParquetFile(stream)
                for number in range(file.num_row_groups):
                    yield file.read_row_group(number, columns=columns)
            except (arrow.ArrowException, KeyError) as error:
                words = " ".join(str(error).split())[:200]
                raise Trouble(f"{span.name} in {self._place.address} is damaged: {words}") from error

    def delete(self, before: float, until: int) -> int:
        """Delete the files of which all polls were before a moment; return how many."""
        old = [span for span in self.spans(until) if span.newest < before]
        for span in old:
            with self._place.troubles(), suppress(FileNotFoundError):
                self._place.delete(span.name)
        return len(old)


def _stem(first: int, last: int) -> str:
    return f"{POLLS_FOLDER}/{first:015d}-{last:015d}-"


def _parquet() -> tuple[Any, Any]:
    why = "moving old polls to Parquet"
    return need("pyarrow", extra="parquet", needed_for=why), need(
        "pyarrow.parquet", extra="parquet", needed_for=why
    )


_WORDS = ("outcome", "detail")
_SPLIT = ("time", "elapsed", "seconds", "predicted", "cost", "stays")
_WRITING: dict[str, Any] = {
    "compression": "zstd",
    "use_dictionary": list(_WORDS),
    "column_encoding": dict.fromkeys(_SPLIT, "BYTE_STREAM_SPLIT")
    | dict.fromkeys(("id", "element", "traffic", "version"), "DELTA_BINARY_PACKED"),
}
"""Moments are all different: their bytes are written one kind after another. Of numbers, differences are."""


def _schema(arrow: Any) -> Any:  # noqa: ANN401
    whole, number = arrow.int64(), arrow.float64()
    kinds = {
        "id": whole, "element": whole, "time": number, "elapsed": number, "outcome": arrow.string(),
        "traffic": whole, "seconds": arrow.float32(), "detail": arrow.string(), "version": whole,
        "planned": arrow.bool_(), "predicted": arrow.float32(),
    }  # fmt: skip
    return arrow.schema(list(kinds.items()))


def _table(arrow: Any, schema: Any, polls: Sequence[PollRecord]) -> Any:  # noqa: ANN401
    columns = zip(*(_row(poll) for poll in polls), strict=True)
    arrays = [
        arrow.array(values, field.type, from_pandas=True)  # nan is null
        for values, field in zip(columns, schema, strict=True)
    ]
    return arrow.Table.from_arrays(arrays, schema=schema)


def _row(poll: PollRecord) -> tuple[Any, ...]:
    return (
        poll.id, poll.element, poll.time, poll.elapsed, poll.outcome, poll.traffic, poll.seconds, poll.detail,
        poll.version, poll.planned, poll.predicted,
    )  # fmt: skip


def _poll(row: dict[str, Any]) -> PollRecord:
    for name in ("elapsed", "predicted"):
        if row[name] is None:
            row[name] = np.nan
    return PollRecord(**row)
