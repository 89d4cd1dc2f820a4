"""How the mirror did: samples (step 9 of a poll), of which fewer are kept the older they are."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Integer, Select, cast, delete, func, select, update

from unstale.mirror.store.contract import Sample

from .schema import history
from .session import Work, from_json, json_of, or_nan, or_none

_HOUR_SECONDS, _DAY_SECONDS = 3600.0, 86400.0
_KEEP_ALL_SECONDS, _KEEP_HOURLY_SECONDS = 2 * _DAY_SECONDS, 730 * _DAY_SECONDS
"""For which all samples are kept, and one for each hour."""
_HOURS_AT_ONCE = 100
"""Hours whose samples are put together at a time."""
_COUNTS = ("polls", "failed", "traffic")


def sample(work: Work, sample: Sample) -> None:
    """Keep how the mirror did, for the planner; what was kept of the same moment is replaced."""
    work.write()
    known = ("freshness", "low", "high", "age", "predicted")
    row: dict[str, Any] = {name: or_none(getattr(sample, name)) for name in known}
    row |= {name: int(getattr(sample, name)) for name in _COUNTS}
    row |= {"price": float(sample.price), "beside": json_of(sample.beside)}
    statement = work.insert(history).values(time=float(sample.time), **row)
    work.connection.execute(statement.on_conflict_do_update(index_elements=["time"], set_=row))


def list_samples(work: Work, since: float, limit: int = 2000) -> list[Sample]:
    """Return how the mirror did since a moment, in order of time, for reports and the dashboard.

    Of more than ``limit`` those at even distances are returned.
    """
    known = history.c.time >= float(since)
    ends = select(func.count(), func.min(history.c.time), func.max(history.c.time)).where(known)
    count, first, last = work.connection.execute(ends).one()
    if count <= limit:
        query: Select[Any] = select(history).where(known).order_by(history.c.time)
        return [_sample(row) for row in work.connection.execute(query)]
    width = (last - first) / max(limit, 1) * (1.0 + 1e-9)
    part = _whole(work, (history.c.time - first) / width)
    query = _together(known, part)
    return [_sample(row) for row in work.connection.execute(query)]


def thin(work: Work, now: float) -> None:
    """Keep one sample for each hour of those that are older than two days, and none that are older by far."""
    connection = work.connection
    connection.execute(delete(history).where(history.c.time < now - _KEEP_HOURLY_SECONDS))
    old = history.c.time < (now - _KEEP_ALL_SECONDS) // _HOUR_SECONDS * _HOUR_SECONDS
    hour = _whole(work, history.c.time / _HOUR_SECONDS)
    crowded: Select[Any] = (
        select(hour).where(old).group_by(hour).having(func.count() > 1).limit(_HOURS_AT_ONCE)
    )
    hours = list(connection.scalars(crowded))
    if not hours:
        return
    among = hour.in_(hours) & old
    rows = connection.execute(_together(among, hour)).all()
    connection.execute(delete(history).where(among, history.c.time.not_in([row.time for row in rows])))
    for row in rows:
        counts = {name: int(getattr(row, name)) for name in _COUNTS}
        connection.execute(update(history).where(history.c.time == row.time).values(counts))


def _together(condition: ColumnElement[bool], part: ColumnElement[int]) -> Select[Any]:
    """Return the query for the last sample of each part, with the counts of all of that part."""
    sums = (func.sum(history.c[name]).label(f"all_{name}") for name in _COUNTS)
    parts = select(func.max(history.c.time).label("last"), *sums).where(condition).group_by(part).subquery()
    columns = [column for column in history.c if column.name not in _COUNTS]
    counts = (parts.c[f"all_{name}"].label(name) for name in _COUNTS)
    query: Select[Any] = select(*columns, *counts).join(parts, parts.c.last == history.c.time)
    return query.order_by(history.c.time)


def _whole(work: Work, value: ColumnElement[Any]) -> ColumnElement[int]:
    """Return a number, which is not negative, without what it has beyond the point."""
    if work.connection.dialect.name == "sqlite":
        return cast(value, Integer)  # which rounds on PostgreSQL, and floor is not in every SQLite
    return func.floor(value, type_=Integer)


def _sample(row: Any) -> Sample:  # noqa: ANN401 - columns by name
    beside = {name: float(value) for name, value in from_json(row.beside).items()}  # type: ignore[arg-type]
    return Sample(
        time=row.time, freshness=or_nan(row.freshness), low=or_nan(row.low), high=or_nan(row.high),
        age=or_nan(row.age), predicted=or_nan(row.predicted), price=row.price, polls=int(row.polls),
        failed=int(row.failed), traffic=int(row.traffic), beside=beside,
    )  # fmt: skip
