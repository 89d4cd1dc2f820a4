"""Polls in the tables: slots handed out (step 2 of a poll), leases taken (3), what polls saw (6).

Versions, and what readers ask for of polls, are here as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import inf, isfinite
from typing import Any

from sqlalchemy import Select, bindparam, delete, func, insert, literal_column, select, update
from sqlalchemy.dialects import postgresql, sqlite

from unstale.mirror.source import Found, Json, Known
from unstale.mirror.store.contract import Finished, Lease, PollRecord, Slot, Version
from unstale.mirror.store.storable import text_of

from .elements import note
from .poll_spans import hold_numbers
from .schema import elements, groups, learned, leases, polls, standing, versions
from .session import (
    Many,
    Whole,
    Work,
    among,
    as_numbers,
    chunks,
    from_json,
    json_of,
    number_within,
    or_nan,
    or_none,
    readable_json_of,
)

_LEASE_ROWS = Whole(
    select(
        leases.c.element, leases.c.slot, leases.c.late, leases.c.group_id, leases.c.predicted,
        leases.c.planned, leases.c.cost, learned.c.last, elements.c.key, elements.c.options,
        standing.c.validators, standing.c.fingerprint, elements.c.source,
    )
    .join(elements, elements.c.id == leases.c.element)
    .join(standing, standing.c.element == leases.c.element)
    .join(learned, learned.c.element == leases.c.element)
    .where(among(leases.c.element, "some")),
    documents=("options", "validators"),
)  # fmt: skip
"""Asked by a worker of a fleet that has taken slots: all that it needs to make these polls."""
_KNOWN = Whole(
    select(
        elements.c.id, elements.c.key, elements.c.options, standing.c.validators, standing.c.fingerprint,
        elements.c.source,
    )
    .join(standing, standing.c.element == elements.c.id)
    .where(among(elements.c.id, "some")),
    documents=("options", "validators"),
)  # fmt: skip
"""Asked by a worker that plans for itself alone: what it does not know of the elements it has chosen."""
_HANDED_OUT = Whole(select(leases.c.element, leases.c.group_id, leases.c.worker))
"""Asked by the planner before it chooses: all that is handed out, taken or not."""
_HELD_BY = Whole(
    select(leases.c.element, leases.c.slot)
    .where(among(leases.c.element, "some"), leases.c.worker == bindparam("worker"))
    .with_for_update()
)
"""Asked by a worker that records polls: which of these leases are still its own; they are locked."""
_free = select(leases.c.element, leases.c.group_id).where(
    leases.c.worker == literal_column("''"),
    leases.c.expires > bindparam("now"),
    leases.c.slot <= bindparam("until"),
)
_FREE, _FREE_OF = (
    Whole(query.order_by(leases.c.slot).limit(bindparam("count")).with_for_update(skip_locked=True))
    for query in (_free, _free.where(among(leases.c.group_id, "some")))
)
"""Asked by a worker that wants polls: the earliest slots that no other has, or is about to take; of all
groups, or of some."""
_COUNT_HELD = select(func.count()).select_from(leases).where(leases.c.worker == bindparam("worker"))
"""Asked for a fetcher that wants more polls."""
_COUNT_HELD_BY_ALL = select(func.count()).select_from(leases).where(leases.c.worker != "")
"""Asked for content that fetchers hand over: there is one for each lease."""


_MOST_LOOKED_AT = 10_000
"""Slots that are looked at when only some of each group are wanted."""
_names = tuple(column.name for column in leases.c)
_HAND_OUT = {
    "sqlite": Many(sqlite.insert(leases).on_conflict_do_nothing(index_elements=["element"]), *_names),
    "postgresql": Many(postgresql.insert(leases).on_conflict_do_nothing(index_elements=["element"]), *_names),
}
"""Run by the planner for the slots it has chosen; of an element one slot at a time is handed out."""
_DROP = delete(leases).where(among(leases.c.element, "some"))
"""Run for leases that are over: recorded, given back or expired."""
_TAKE = (
    update(leases)
    .where(among(leases.c.element, "some"))
    .values(worker=bindparam("new_worker"), expires=bindparam("until"))
)
"""Run by a worker for the slots that it found free."""
_ADD_VERSIONS = Many(insert(versions), *(column.name for column in versions.c))
"""Run by a worker that records polls which brought a copy."""
_ADD_POLLS = Many(insert(polls), *(column.name for column in polls.c))
"""Run by a worker that records polls; the planner hears of them by their numbers."""
_standing_of = update(standing).where(standing.c.element == bindparam("which"))
_CHANGING = ("validators", "fingerprint", "version", "moved")
_STAND_CHANGED = Many(
    _standing_of.values(
        {
            name: func.coalesce(bindparam(f"new_{name}", type_=standing.c[name].type), standing.c[name])
            for name in _CHANGING
        }
        | {"detail": bindparam("new_detail")}
    ),
    "which", *(f"new_{name}" for name in _CHANGING), "new_detail",
)  # fmt: skip
"""Run by a worker that records polls after which an element is known by something else; None: as before."""
_STAND_SAME = Many(
    _standing_of.where(standing.c.detail != bindparam("new_detail")).values(detail=bindparam("new_detail")),
    "which", "new_detail",
)  # fmt: skip
"""Run for all other polls, which are most: if not even the words are new, nothing is written."""


def hand_out(work: Work, slots: Sequence[Slot]) -> None:
    """Hand out slots for workers to take; an element that is handed out already stays as it is."""
    _hand_out(work, [(*_slot_row(slot), "", float(slot.start + slot.late)) for slot in slots])


def hand_to(work: Work, worker: str, slots: Sequence[Slot], expires: float) -> list[Lease]:
    """Hand out slots that are this worker's own at once, until they expire; return its leases."""
    _hand_out(work, [(*_slot_row(slot), worker, float(expires)) for slot in slots])
    rows = _KNOWN.run(work.connection, some=as_numbers(slot.element for slot in slots))
    known = {row[0]: row for row in rows}
    found = []
    for slot in slots:
        _, key, options, validators, fingerprint, source = known[slot.element]
        element = Known(key, from_json(options), from_json(validators), fingerprint)
        found.append(Lease(slot, element, source))
    return found


def _hand_out(work: Work, rows: Sequence[tuple[Any, ...]]) -> None:
    work.write()
    work.plan()
    _HAND_OUT[work.connection.dialect.name].run(work.connection, rows)


def _slot_row(slot: Slot) -> tuple[Any, ...]:
    """Return what is stored of a slot."""
    return (
        slot.element, float(slot.start), float(slot.late), slot.group, or_none(slot.predicted),
        bool(slot.planned), or_none(slot.cost),
    )  # fmt: skip


def lease(
    work: Work,
    worker: str,
    count: int,
    now: float,
    expires: float,
    *,
    groups: Sequence[int] | None = None,
    each: int | None = None,
    most_groups: int | None = None,
    until: float | None = None,
) -> list[Lease]:
    """Take slots that were handed out, the earliest first; those that it is too late for are left alone."""
    work.write()
    limit = int(count) if each is None and most_groups is None else _MOST_LOOKED_AT
    given = {"now": float(now), "count": limit, "until": inf if until is None else float(until)}
    if groups is None:
        free = _FREE.run(work.connection, **given)
    else:
        free = _FREE_OF.run(work.connection, **given, some=as_numbers(groups))
    mine = _chosen(free, each, most_groups)[: int(count)]
    if not mine:
        return []
    some = as_numbers(mine)
    work.connection.execute(_TAKE, {"some": some, "new_worker": worker, "until": float(expires)})
    return _leases(work, mine)


def _chosen(free: Sequence[Any], each: int | None, most_groups: int | None) -> list[int]:
    """Return elements of slots, so many of each group, of so many groups."""
    taken: Counter[int] = Counter()
    mine = []
    for element, group in free:
        if each is not None and taken[group] >= each:
            continue
        if most_groups is not None and group not in taken and len(taken) >= most_groups:
            continue
        taken[group] += 1
        mine.append(element)
    return mine


def limit_group(
    work: Work,
    group: int,
    now: float,
    *,
    blocked_until: float | None = None,
    spacing: float | None = None,
) -> None:
    """Let nobody poll a group before a moment, or more often than that."""
    work.write()
    said = {"blocked_until": blocked_until, "spacing": spacing}
    values = {name: float(value) for name, value in said.items() if value is not None}
    work.connection.execute(update(groups).where(groups.c.id == int(group)).values(values))
    note(work, work.take(edits=1).edits, [("group", int(group), float(now), "")])


def set_validators(work: Work, validators: Mapping[int, Mapping[str, Json]]) -> None:
    """Keep what is to be given with the next polls of elements."""
    work.write()
    rows = [(element, json_of(said), None, None, None, "") for element, said in validators.items()]
    _STAND_CHANGED.run(work.connection, rows)


def held(work: Work, worker: str, some: Sequence[int]) -> dict[int, float]:
    """Return when the slots of a worker that are about some elements start, by element; they are locked."""
    work.write()
    work.take()  # first of all locks, as when they are recorded
    return dict(_HELD_BY.run(work.connection, some=as_numbers(some), worker=worker))


def leases_of(work: Work, some: Sequence[int]) -> list[Lease]:
    """Return the leases of elements, whoever has them."""
    return _leases(work, some) if some else []


def leases_held(work: Work, worker: str | None = None) -> int:
    """Return how many leases a worker has; None: all workers together."""
    if worker is None:
        return int(work.connection.execute(_COUNT_HELD_BY_ALL).scalar_one())
    return int(work.connection.execute(_COUNT_HELD, {"worker": worker}).scalar_one())


def groups_named(work: Work, names: Sequence[str]) -> dict[str, int]:
    """Return the numbers of groups, by name; those that there are not are left out."""
    query = select(groups.c.name, groups.c.id).where(groups.c.name.in_(list(names)))
    return {name: int(number) for name, number in work.connection.execute(query)}


def _leases(work: Work, some: Sequence[int]) -> list[Lease]:
    """Return leases of elements, with all that is needed to make the polls."""
    taken = []
    for row in _LEASE_ROWS.run(work.connection, some=as_numbers(some)):
        (
            element, start, late, group, predicted, planned, cost, last, key, options, validators,
            fingerprint, source,
        ) = row  # fmt: skip
        slot = Slot(element, start, late, group, or_nan(predicted), bool(planned), or_nan(cost), or_nan(last))
        known = Known(key, from_json(options), from_json(validators), fingerprint)
        taken.append(Lease(slot, known, source))
    taken.sort(key=lambda one: one.slot.start)
    return taken


def expire(work: Work, now: float, *, everything: bool = False) -> list[int]:
    """Drop leases that have expired (taken or not), or all, for the planner; return their elements."""
    work.write()
    work.take()  # not while somebody records them
    query = select(leases.c.element).with_for_update(skip_locked=True)
    if not everything:
        query = query.where(leases.c.expires <= float(now))
    gone = sorted(work.connection.scalars(query))
    if gone:
        work.connection.execute(_DROP, {"some": as_numbers(gone)})
    return gone


def leased(work: Work) -> list[tuple[int, int, str]]:
    """Return (element, group, worker or '') of all slots that are handed out."""
    return sorted((element, group, worker) for element, group, worker in _HANDED_OUT.run(work.connection))


def record(work: Work, worker: str, finished: Sequence[Finished]) -> list[Version]:
    """Record what a worker's polls saw, their versions, and what the source said about the group.

    Returns the new versions.
    """
    if not finished:
        return []
    work.write()
    work.take()  # first of all locks, so that no two wait for each other
    polled = _ours(work, worker, finished)
    if not polled:
        return []
    limits = _limits(work, polled)
    copies = sum(one.digest is not None for one in polled)
    taken = work.take(polls=len(polled), versions=copies, edits=len(limits))
    note(work, taken.edits, limits)
    found = _versions(polled, taken.versions - copies)
    _ADD_VERSIONS.run(work.connection, [
        (
            version.id, version.element, version.time, version.digest, version.size, version.media_type,
            version.modified, version.first, readable_json_of(version.meta),
        )
        for version in found.values()
    ])  # fmt: skip
    hold_numbers(work, taken.polls, polled[0].began)
    first = taken.polls - len(polled) + 1
    rows = [
        _poll_row(number, one, found.get(one.lease.slot.element)) for number, one in enumerate(polled, first)
    ]
    _ADD_POLLS.run(work.connection, rows)
    _stand(work, polled, found)
    return list(found.values())


def _ours(work: Work, worker: str, finished: Sequence[Finished]) -> list[Finished]:
    """Take back the leases of polls, and return those polls that are to be recorded."""
    some = as_numbers(one.lease.slot.element for one in finished)
    held: dict[int, float] = dict(_HELD_BY.run(work.connection, some=some, worker=worker))
    ours = []
    for one in finished:
        # Its start tells this lease from a later one of the same element.
        if held.get(one.lease.slot.element) == one.lease.slot.start:
            ours.append(one)
            del held[one.lease.slot.element]
    if ours:
        work.connection.execute(_DROP, {"some": as_numbers(one.lease.slot.element for one in ours)})
    # A copy may have been deleted since it was put: another version had it, and was let go. Then the poll is
    # repeated.
    there = work.copies.have({one.digest for one in ours if one.digest is not None})
    return [one for one in ours if one.found is not None and (one.digest is None or one.digest in there)]


def _versions(polled: Sequence[Finished], number: int) -> dict[int, Version]:
    """Return the versions that polls brought, by element."""
    found = {}
    for one in polled:
        if one.digest is None or one.found is None:
            continue
        number += 1
        modified = one.found.modified
        found[one.lease.slot.element] = Version(
            id=number,
            element=int(one.lease.slot.element),
            key=one.lease.known.key,
            time=float(one.began),
            digest=one.digest,
            size=int(one.size),
            media_type=text_of(one.found.media_type),
            modified=None if modified is None or not isfinite(modified) else float(modified),
            first=one.outcome == "new",
            meta=dict(one.found.meta),
        )
    return found


def _poll_row(number: int, one: Finished, version: Version | None) -> tuple[Any, ...]:
    """Return a poll as a row."""
    slot, found = one.lease.slot, _seen(one)
    since = one.began - slot.last
    return (
        number, slot.element, float(one.began), max(since, 0.0) if since == since else None,  # noqa: PLR0124
        one.outcome or found.outcome, int(found.traffic), float(one.seconds), text_of(found.detail),
        None if version is None else version.id, bool(slot.planned), or_none(slot.predicted),
        or_none(slot.cost), _stays(found),
    )  # fmt: skip


def _stays(found: Found) -> float | None:
    """Return for how long an element stays as it is, as its source promises."""
    said = found.stays
    return float(said) if said is not None and isfinite(said) and said > 0 else None


def _stand(work: Work, polled: Sequence[Finished], found: Mapping[int, Version]) -> None:
    """Keep validators, fingerprint, version, moved and detail of elements."""
    fresh: list[tuple[Any, ...]] = []
    same: list[tuple[Any, ...]] = []
    for one in polled:
        known, element, seen = one.lease.known, int(one.lease.slot.element), _seen(one)
        detail, moved, version = text_of(seen.detail), seen.moved, found.get(element)
        validators = None if seen.validators == known.validators else seen.validators
        fingerprint = None if one.fingerprint == known.fingerprint else one.fingerprint
        if validators is None and fingerprint is None and version is None and moved is None:
            same.append((element, detail))
            continue
        fresh.append(
            (
                element,
                None if validators is None else json_of(validators),
                None if fingerprint is None else text_of(fingerprint),
                None if version is None else version.id,
                None if moved is None else text_of(moved),
                detail,
            )
        )
    _STAND_CHANGED.run(work.connection, fresh)
    _STAND_SAME.run(work.connection, same)


def _seen(one: Finished) -> Found:
    """Return what a poll found, which is not given back."""
    assert one.found is not None  # noqa: S101
    return one.found


def _limits(work: Work, polled: Sequence[Finished]) -> list[tuple[str, int, float, str]]:
    """Keep what the sources said about groups; return an edit for each that changed."""
    said: dict[int, list[Finished]] = {}
    for one in polled:
        if one.found is not None and (one.found.wait is not None or one.found.spacing is not None):
            said.setdefault(int(one.lease.slot.group), []).append(one)
    noted = []
    for some in chunks(sorted(said)):
        for group in work.connection.execute(select(groups).where(groups.c.id.in_(some))).all():
            until, why, spacing = group.blocked_until, group.why, group.spacing
            for one in said[group.id]:
                seen, ends = _seen(one), one.began + one.seconds
                if seen.wait is not None and until < ends + seen.wait < inf:
                    until, why = ends + seen.wait, text_of(seen.detail)
                if seen.spacing is not None and 0 <= seen.spacing < inf:
                    spacing = float(seen.spacing)
            if (until, spacing) != (group.blocked_until, group.spacing):
                change = update(groups).where(groups.c.id == group.id)
                work.connection.execute(change.values(blocked_until=until, why=why, spacing=spacing))
                noted.append(("group", group.id, said[group.id][-1].began, ""))
    return noted


def list_versions(
    work: Work, after: int = 0, limit: int = 1000, *, element: int | None = None, latest_first: bool = False
) -> list[Version]:
    """Return versions in the order of their numbers, from the one after ``after`` on, or the latest first."""
    query: Select[Any] = select(versions, elements.c.key).join(elements, elements.c.id == versions.c.element)
    query = query.where(versions.c.id > number_within(after)).limit(number_within(limit))
    if element is not None:
        query = query.where(versions.c.element == int(element))
    query = query.order_by(versions.c.id.desc() if latest_first else versions.c.id)
    return [
        Version(
            id=row.id, element=row.element, key=row.key, time=row.time, digest=row.digest, size=row.size,
            media_type=row.media_type, modified=row.modified, first=bool(row.first), meta=from_json(row.meta),
        )
        for row in work.connection.execute(query)
    ]  # fmt: skip


def list_polls(
    work: Work,
    element: int | None = None,
    limit: int = 1000,
    after: int = 0,
    *,
    until: int | None = None,
    oldest_first: bool = False,
) -> list[PollRecord]:
    """Return polls, the latest first; with ``after``, those after it, oldest first."""
    query: Select[Any] = select(polls).limit(number_within(limit))
    if until is not None:
        query = query.where(polls.c.id <= number_within(until))
    if element is not None:
        query = query.where(polls.c.element == int(element))
    ascending = bool(after) or until is not None or oldest_first
    query = query.where(polls.c.id > number_within(after)).order_by(
        polls.c.id if ascending else polls.c.id.desc()
    )
    return [
        PollRecord(
            id=row.id, element=row.element, time=row.time, elapsed=or_nan(row.elapsed), outcome=row.outcome,
            traffic=row.traffic, seconds=row.seconds, detail=row.detail, version=row.version,
            planned=bool(row.planned), predicted=or_nan(row.predicted),
        )
        for row in work.connection.execute(query)
    ]  # fmt: skip


def tally(work: Work, since: float) -> list[tuple[str, str, int, int]]:
    """Return (group, outcome, polls, bytes) of polls since a moment, for the status."""
    query = (
        select(groups.c.name, polls.c.outcome, func.count(), func.sum(polls.c.traffic))
        .select_from(polls)
        .join(elements, elements.c.id == polls.c.element)
        .join(groups, groups.c.id == elements.c.group_id)
        .where(polls.c.time >= float(since))
        .group_by(groups.c.name, polls.c.outcome)
        .order_by(groups.c.name, polls.c.outcome)
    )
    return [(group, outcome, int(n), int(size)) for group, outcome, n, size in work.connection.execute(query)]
