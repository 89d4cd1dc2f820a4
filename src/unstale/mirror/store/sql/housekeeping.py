"""What goes on beside polls (step 9): workers that are alive, reads of copies, old versions and polls."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from sqlalchemy import delete, func, select, update

from unstale.mirror.clock import ClockReading

from . import schema
from .elements import unreferred
from .samples import thin
from .schema import edits, elements, meta, reads, standing, user_reads, versions, workers
from .session import Work, chunks

_HOUR_SECONDS = 3600.0
_CLOCK_READINGS = 3
_SERVER_TIME = "SELECT extract(epoch FROM clock_timestamp())"
"""Asked by each worker now and then, so that all go by one clock."""
_AGED_AT_ONCE = 5000
"""Versions that are looked at in one transaction, whether they are too old."""
_EDITS_AT_ONCE = 50_000
"""Edits that one transaction deletes, at most: after an import there may be millions."""


def read(work: Work, reads: Mapping[int, int], now: float) -> None:
    """Count reads of copies (element to how many), for the dashboard and `Mirror.read`."""
    work.write()
    if reads:
        statement = work.insert(schema.reads)
        more = schema.reads.c.reads + statement.excluded.reads
        hour = now // _HOUR_SECONDS * _HOUR_SECONDS
        work.connection.execute(
            statement.on_conflict_do_update(index_elements=["element", "hour"], set_={"reads": more}),
            [
                {"element": int(element), "hour": hour, "reads": int(n)}
                for element, n in sorted(reads.items())
            ],
        )


def read_by_users(work: Work, reads: Mapping[tuple[str, int], int], now: float) -> None:
    """Count reads of copies by users (user and element to how many), for the dashboard."""
    work.write()
    if reads:
        statement = work.insert(user_reads)
        more = user_reads.c.reads + statement.excluded.reads
        hour = now // _HOUR_SECONDS * _HOUR_SECONDS
        work.connection.execute(
            statement.on_conflict_do_update(index_elements=["user", "element", "hour"], set_={"reads": more}),
            [
                {"user": user, "element": int(element), "hour": hour, "reads": int(n)}
                for (user, element), n in sorted(reads.items())
            ],
        )


def list_reads_by_user(work: Work, since: float) -> list[tuple[str, int, float, int]]:
    """Return (user, element, start of the hour, reads) since a moment, for the planner and reports."""
    query = (
        select(user_reads)
        .where(user_reads.c.hour >= since // _HOUR_SECONDS * _HOUR_SECONDS)
        .order_by(user_reads.c.hour, user_reads.c.user, user_reads.c.element)
    )
    return [(user, element, hour, n) for user, element, hour, n in work.connection.execute(query)]


def list_reads_by_hour(work: Work, since: float) -> list[tuple[float, int]]:
    """Return (start of the hour, reads of all elements) since a moment, for the planner."""
    query = (
        select(reads.c.hour, func.sum(reads.c.reads))
        .where(reads.c.hour >= since // _HOUR_SECONDS * _HOUR_SECONDS)
        .group_by(reads.c.hour)
        .order_by(reads.c.hour)
    )
    return [(float(hour), int(count)) for hour, count in work.connection.execute(query)]


def list_reads(work: Work, since: float, element: int | None = None) -> list[tuple[int, float, int]]:
    """Return (element, start of the hour, reads) since a moment, of one element or all.

    The planner asks for all if reads tell what matters, reports for one.
    """
    query = (
        select(reads)
        .where(reads.c.hour >= since // _HOUR_SECONDS * _HOUR_SECONDS)
        .order_by(reads.c.hour, reads.c.element)
    )
    if element is not None:
        query = query.where(reads.c.element == int(element))
    return [(element, hour, n) for element, hour, n in work.connection.execute(query)]


def alive(work: Work, worker: str, now: float, expires: float, *, ahead: float | None = None) -> list[str]:
    """Note that a worker is there until then; return those that are, without the expired."""
    work.write()
    statement = work.insert(workers).values(worker=worker, expires=float(expires), ahead=ahead)
    upsert = statement.on_conflict_do_update(
        index_elements=["worker"],
        set_={"expires": statement.excluded.expires, "ahead": statement.excluded.ahead},
    )
    work.connection.execute(upsert)
    work.connection.execute(delete(workers).where(workers.c.expires <= float(now)))
    return list(work.connection.scalars(select(workers.c.worker).order_by(workers.c.worker)))


def list_workers(work: Work, now: float) -> list[str]:
    """Return the workers that are there, for the status."""
    query = select(workers.c.worker).where(workers.c.expires > float(now)).order_by(workers.c.worker)
    return list(work.connection.scalars(query))


def skews(work: Work, now: float) -> dict[str, float]:
    """Return by how much clocks of workers that are there are ahead of the database's, for the status."""
    there = workers.c.expires > float(now), workers.c.ahead.is_not(None)
    query = select(workers.c.worker, workers.c.ahead).where(*there).order_by(workers.c.worker)
    return dict(map(tuple, work.connection.execute(query)))


def clock(work: Work) -> ClockReading | None:
    """Return what the clock of the server says, by the quickest of some answers; None without a server."""
    if work.connection.dialect.name == "sqlite":
        return None
    readings = []
    for _ in range(_CLOCK_READINGS):
        before = time.monotonic()
        said = float(work.connection.exec_driver_sql(_SERVER_TIME).scalar_one())
        after = time.monotonic()
        readings.append(ClockReading(said - 0.5 * (before + after), 0.5 * (after - before)))
    return min(readings, key=lambda reading: reading.within)


def prune(
    work: Work,
    keep_versions: int,
    reads_before: float,
    limit: int = 1000,
    *,
    edits_to: int = 0,
    now: float = -inf,
) -> list[str]:
    """Delete some old versions (0: none), and reads; return digests that nothing refers to any more.

    Edits up to ``edits_to`` are deleted as well: the planner knows which ones it will not ask for again; and
    samples that are too many at ``now`` are put together.
    """
    work.write()
    work.take()
    connection = work.connection
    if now > -inf:
        thin(work, now)
    if edits_to:  # numbers are given out without gaps, so that from the first on these are so many
        first = connection.scalar(select(func.min(edits.c.id))) or 0
        last = min(int(edits_to), first + _EDITS_AT_ONCE - 1)
        connection.execute(delete(edits).where(edits.c.id <= last))
    if reads_before > -inf:
        connection.execute(delete(reads).where(reads.c.hour < float(reads_before)))
        connection.execute(delete(user_reads).where(user_reads.c.hour < float(reads_before)))
    doomed = _prune_versions(work, keep_versions, limit)
    if now > -inf:
        doomed |= _prune_old_versions(work, now)
    return unreferred(work, doomed)


def _prune_versions(work: Work, keep: int, limit: int) -> set[str]:
    """Delete what is beyond the newest ``keep`` versions of elements; return the digests of what is deleted.

    Of an element of which something else is said, so many are kept; 0 keeps all.

    Only an element that got a version since the last time can have too many, so versions are gone through
    once, in the order of their numbers, and again from the start if fewer are kept than before.
    """
    connection = work.connection
    text = connection.scalar(select(meta.c.value).where(meta.c.name == "pruned"))
    mark: dict[str, int] = {"keep": keep, "after": 0} if text is None else json.loads(text)
    after = mark["after"] if (mark["keep"] or inf) <= (keep or inf) else 0
    query: Any = select(versions.c.id, versions.c.element).where(versions.c.id > after)
    news = connection.execute(query.order_by(versions.c.id).limit(limit)).all()
    digests: set[str] = set()
    doomed = 0
    for some in chunks(sorted({element for _, element in news})):
        place = func.row_number().over(partition_by=versions.c.element, order_by=versions.c.id.desc())
        own = func.coalesce(elements.c.keep, keep).label("own")
        ranked = (
            select(versions.c.id, versions.c.digest, place.label("place"), own)
            .join(elements, elements.c.id == versions.c.element)
            .where(versions.c.element.in_(some))
        )
        ranks = ranked.subquery()
        query = select(ranks.c.id, ranks.c.digest).where(ranks.c.own > 0, ranks.c.place > ranks.c.own)
        query = query.limit(limit - doomed)
        old = connection.execute(query).all()
        for part in chunks([number for number, _ in old]):
            connection.execute(delete(versions).where(versions.c.id.in_(part)))
        digests.update(digest for _, digest in old)
        doomed += len(old)
        if doomed >= limit:
            break
    if news and doomed < limit:
        after = news[-1].id
    _note_mark(work, "pruned", text, json.dumps({"keep": keep, "after": after}))
    return digests


def _note_mark(work: Work, name: str, before: str | None, now: str) -> None:
    """Note how far versions have been gone through."""
    if now != before:
        statement = work.insert(meta).values(name=name, value=now)
        upsert = statement.on_conflict_do_update(index_elements=["name"], set_={"value": now})
        work.connection.execute(upsert)


def _prune_old_versions(work: Work, now: float) -> set[str]:
    """Delete some versions of elements whose versions are kept for a while only, but for the latest of each.

    All versions are gone through in the order of their numbers, some at a time, again and again: up to the
    first that nobody would delete yet.
    """
    connection = work.connection
    shortest = connection.scalar(
        select(func.min(elements.c.keep_for)).where(elements.c.keep_for.is_not(None))
    )
    if shortest is None:
        return set()
    text = connection.scalar(select(meta.c.value).where(meta.c.name == "aged"))
    query = (
        select(
            versions.c.id, versions.c.digest, versions.c.time, elements.c.keep_for,
            standing.c.version.label("latest"),
        )
        .join(elements, elements.c.id == versions.c.element)
        .join(standing, standing.c.element == versions.c.element)
        .where(versions.c.id > int(text or 0))
        .order_by(versions.c.id)
        .limit(_AGED_AT_ONCE)
    )  # fmt: skip
    rows = connection.execute(query).all()
    old = [
        row
        for row in rows
        if row.keep_for is not None and row.time < now - row.keep_for and row.id != row.latest
    ]
    for part in chunks([row.id for row in old]):
        connection.execute(delete(versions).where(versions.c.id.in_(part)))
    at_the_end = len(rows) < _AGED_AT_ONCE or rows[-1].time > now - shortest
    _note_mark(work, "aged", text, "0" if at_the_end else str(rows[-1].id))
    return {row.digest for row in old}


def latest(work: Work, after: int, limit: int) -> list[tuple[int, str]]:
    """Return elements after ``after``, in order, each with the digest of its latest version.

    The worker that plans asks for some at a time, to see whether their copies are where they should be.
    """
    query = (
        select(standing.c.element, versions.c.digest)
        .join(versions, versions.c.id == standing.c.version)
        .where(standing.c.element > int(after))
        .order_by(standing.c.element)
        .limit(int(limit))
    )
    return [(element, digest) for element, digest in work.connection.execute(query)]


def refetch(work: Work, ids: Sequence[int]) -> None:
    """Forget validators and fingerprints of elements whose copies are lost: the next polls bring content."""
    work.write()
    for some in chunks(list(ids)):
        blank = update(standing).where(standing.c.element.in_(some)).values(fingerprint=None, validators="{}")
        work.connection.execute(blank)
