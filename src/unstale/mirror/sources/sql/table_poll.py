"""One poll of a table: what is known before it, which rungs it tried, and what it found."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from json import dumps
from pathlib import Path

from unstale.mirror.source import Found, Json, New, Terms
from unstale.mirror.sources.told_dates import moment_of, to_the_minute

from .arrow_types import as_text
from .database import DatabaseEngine
from .extract import Extract
from .keys import TableKey, TableName, TableOptions

MAX_PARTITIONS = 100_000
MAX_PROBE_ROWS = 1000
"""Rows of the answer of a probe that are compared."""


class TableGone(Exception):  # noqa: N818  (it is no error)
    """The table does not exist."""


@dataclass
class TablePoll:
    """One poll of a table, a query or a partition."""

    database: DatabaseEngine
    table: TableKey
    options: TableOptions
    known: Mapping[str, Json]
    """Validators of the last poll; empty if they do not count any more."""
    fingerprint: str | None
    terms: Terms
    inherited: Mapping[str, Json]
    """Options that the partitions get."""
    path: Path
    """The Parquet file to write."""
    trail: dict[str, float] = field(default_factory=dict)
    """The rungs that were tried, and the milliseconds that each took."""

    @property
    def names(self) -> list[TableName]:
        """The tables on which the element depends; none if they are not known."""
        if self.options.tables is not None:
            return list(self.options.tables)
        return [] if self.options.query else [self.table.name]

    @contextmanager
    def rung(self, name: str) -> Iterator[None]:
        """Measure how long a rung takes."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.trail[name] = (time.perf_counter() - start) * 1e3

    @property
    def _tried(self) -> str:
        return ", ".join(f"{name} {took:.1f} ms" for name, took in self.trail.items())

    def unchanged(self, validators: Mapping[str, Json] | None = None) -> Found:
        """Return that nothing has changed, as the last rung has proved."""
        return Found("unchanged", self._tried, validators=validators)

    def found(self, extract: Extract, validators: Mapping[str, Json]) -> Found:
        """Return what the extraction found: changed rows, or the same ones."""
        validators = {
            **validators,
            "options": self.options.digest,
            "rows": extract.rows,
            "columns": [[name, kind] for name, kind in extract.columns],
        }
        if extract.fingerprint == self.fingerprint:
            return replace(
                self.unchanged(validators), detail=f"the same rows; {self._tried}", traffic=extract.traffic
            )
        changes, differences = _differences(self.known, extract)
        return Found(
            "changed",
            "; ".join([_many(extract.rows, "row"), *changes, self._tried]),
            body=self.path,
            fingerprint=extract.fingerprint,
            media_type="application/vnd.apache.parquet",
            validators=validators,
            traffic=extract.traffic,
            modified=_told_by_cursor(self.known.get("cursor"), validators.get("cursor"))
            or _told_by_commits(self.known.get("committed"), validators.get("committed")),
            meta={
                "rows": extract.rows,
                "columns": [{"name": name, "type": kind} for name, kind in extract.columns],
                "rung": "extraction",
                **({"notes": list[Json](extract.notes)} if extract.notes else {}),
                **differences,
            },
        )

    def partitions(self, values: list[str | None], validators: Mapping[str, Json]) -> Found:
        """Return the list of partitions, which are discovered as elements."""
        keys = [str(self.table.with_partition(self.options.split or "", value)) for value in values]
        body = dumps(keys, ensure_ascii=False, indent=0).encode()
        return Found(
            "changed",
            f"{_many(len(keys), 'partition')}; {self._tried}",
            body=body,
            fingerprint=f"partitions:{sha256(body).hexdigest()}",
            media_type="application/json",
            validators={**validators, "options": self.options.digest},
            traffic=len(body),
            discovered=tuple(New(key, "sql", self.inherited) for key in keys),
            complete=True,
            meta={"partitions": len(keys), "rung": "partitions"},
        )


def _told_by_cursor(before: Json, now: Json) -> float | None:
    """Return when a table changed, if its cursor is a time, and another one than at the last poll."""
    greatest = now[0] if isinstance(now, list) else None
    if not isinstance(greatest, str) or ":" not in greatest:
        return None
    same = isinstance(before, list) and before[:1] == [greatest]
    return None if same else to_the_minute(moment_of(greatest))


def _told_by_commits(before: Json, now: Json) -> float | None:
    """Return when a table changed, if rows have been committed since those of the last poll."""
    if not isinstance(now, float):
        return None
    return None if isinstance(before, float) and now <= before else now


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def _differences(known: Mapping[str, Json], extract: Extract) -> tuple[list[str], dict[str, Json]]:
    """Return the differences in rows and columns since the last poll, as sentences and as data."""
    rows, columns = known.get("rows"), known.get("columns")
    if not isinstance(rows, int) or not isinstance(columns, list):
        return [], {}
    before = {str(one[0]): str(one[1]) for one in columns if isinstance(one, list)}
    now = dict(extract.columns)
    added = [name for name in now if name not in before]
    removed = [name for name in before if name not in now]
    retyped = [name for name in now if name in before and now[name] != before[name]]
    said = [f"column {name!r} added" for name in added]
    said += [f"column {name!r} dropped" for name in removed]
    said += [f"column {name!r} is {now[name]}, not {before[name]}" for name in retyped]
    if extract.rows != rows:
        more = extract.rows - rows
        said.insert(0, f"{_many(abs(more), 'row')} {'more' if more > 0 else 'fewer'}")
    lists = {"added": added, "removed": removed, "retyped": retyped}
    return said, {"rows_before": rows, **{name: list[Json](some) for name, some in lists.items() if some}}


def answer_digest(rows: Iterable[Iterable[object]]) -> str:
    """Return the digest of the answer of a probe."""
    said = [[None if value is None else as_text(value) for value in row] for row in rows]
    return sha256(dumps(said).encode()).hexdigest()


def in_order(values: Iterable[str | None]) -> list[str | None]:
    """Sort the values of partitions; raise LookupError if there are too many."""
    found = sorted(values, key=lambda value: (value is not None, value or ""))
    if len(found) > MAX_PARTITIONS:
        raise LookupError(f"there are more than {MAX_PARTITIONS:,} partitions; split by another column")
    return found
