"""Elements and groups in the tables: added, found, removed, forgotten."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import translate
from typing import Any

from sqlalchemy import bindparam, delete, func, insert, select, update

from .schema import edits, elements, groups, learned, leases, polls, reads, standing, versions
from .sql_work import Work, chunks, from_json, json_of, numbers_of, or_nan, text_of
from .store import Addition, Element, Group

_ELEMENTS = (
    select(
        elements,
        groups.c.name,
        *(column for column in learned.c if column.name not in {"element", "evidence"}),
        *(column for column in standing.c if column.name != "element"),
    )
    .join(groups, groups.c.id == elements.c.group_id)
    .join(learned, learned.c.element == elements.c.id)
    .join(standing, standing.c.element == elements.c.id)
)
_SAID = (
    "source",
    "group_id",
    "options",
    "given",
    "weight",
    "max_age",
    "min_interval",
    "jitter",
    "windows",
    "via",
)
"""What an addition says of an element."""
_LOOK = 5000
"""Rows in which a pattern is looked for at a time."""


def add(work: Work, additions: Sequence[Addition], now: float) -> list[int]:
    """Add or change elements; return their numbers."""
    work.write()
    work.take()  # so that nobody adds the same meanwhile
    numbers: dict[str, int] = {}
    last = {addition.key: addition for addition in additions}  # of several the last counts
    for some in chunks(list(last.values())):
        numbers.update(_add(work, some, float(now)))
    return [numbers[addition.key] for addition in additions]


def _add(work: Work, additions: Sequence[Addition], now: float) -> dict[str, int]:
    """Add some, each with another key."""
    connection = work.connection
    said = (elements.c[name] for name in _SAID)
    query = (
        select(elements.c.id, elements.c.key, learned.c.state, learned.c.last, *said)
        .join(learned, learned.c.element == elements.c.id)
        .where(elements.c.key.in_([addition.key for addition in additions]))
    )
    known = {row.key: row for row in connection.execute(query)}
    places = _groups(work, sorted({addition.group for addition in additions}))
    new, changed, back = [], [], []
    for addition in additions:
        row = {
            "key": addition.key,
            "source": addition.source,
            "group_id": places[addition.group],
            "options": json_of(addition.options),
            "given": json_of(addition.given),
            "weight": float(addition.weight),
            "max_age": float(addition.max_age),
            "min_interval": float(addition.min_interval),
            "jitter": float(addition.jitter),
            "windows": addition.windows,
            "via": addition.via,
        }
        before = known.get(addition.key)
        if before is None:
            new.append({**row, "added": now})
            continue
        if addition.via is not None and before.state != "removed":
            row["via"] = before.via  # it stays with whom it came from; a user outranks them all
        if before.state == "removed":
            back.append({"which": before.id, "state": "new" if before.last is None else "ok"})
        if any(row[name] != getattr(before, name) for name in _SAID):
            changed.append({"which": before.id, **{f"new_{name}": row[name] for name in _SAID}})
    noted = sorted({row["which"] for row in (*changed, *back)})
    taken = work.take(elements=len(new), edits=len(new) + len(noted))
    for number, row in enumerate(new, taken.elements - len(new) + 1):
        row["id"] = number
    noted += [row["id"] for row in new]
    if new:
        connection.execute(insert(elements), new)
        connection.execute(
            insert(standing), [{"element": r["id"], "validators": "{}", "detail": ""} for r in new]
        )
        blank = {"state": "new", "not_before": 0.0, "failures": 0, "evidence": b""}
        connection.execute(insert(learned), [{"element": row["id"], **blank} for row in new])
    if changed:
        values: dict[str, Any] = {name: bindparam(f"new_{name}") for name in _SAID}
        connection.execute(
            update(elements).where(elements.c.id == bindparam("which")).values(values), changed
        )
    if back:
        connection.execute(
            update(learned).where(learned.c.element == bindparam("which")).values(state=bindparam("state")),
            back,
        )
    note(work, taken.edits, [("element", number, now, "") for number in noted])
    return {key: row.id for key, row in known.items()} | {row["key"]: row["id"] for row in new}


def _groups(work: Work, names: Sequence[str]) -> dict[str, int]:
    """Return the numbers of groups; those that are not there are made."""
    query = select(groups.c.name, groups.c.id).where(groups.c.name.in_(names))
    known: dict[str, int] = dict(map(tuple, work.connection.execute(query)))
    new = [name for name in names if name not in known]
    if new:
        first = work.take(groups=len(new)).groups - len(new) + 1
        blank = {"blocked_until": 0.0, "why": "", "spacing": 0.0, "paid_until": 0.0}
        rows = [{"id": number, "name": name, **blank} for number, name in enumerate(new, first)]
        work.connection.execute(insert(groups), rows)
        known.update(zip(new, range(first, first + len(new)), strict=True))
    return known


def note(work: Work, last: int, noted: Sequence[tuple[str, int, float, str]]) -> None:
    """Write edits, whose numbers have been taken."""
    if noted:
        first = last - len(noted) + 1
        work.connection.execute(
            insert(edits),
            [
                {
                    "id": number,
                    "kind": kind,
                    "subject": int(subject),
                    "time": float(time),
                    "channel": text_of(channel),
                }
                for number, (kind, subject, time, channel) in enumerate(noted, first)
            ],
        )


def edit(work: Work, edits: Sequence[tuple[str, int, float, str]]) -> None:
    """Note edits: kind, subject, time, channel."""
    work.write()
    note(work, work.take(edits=len(edits)).edits, edits)


def remove(work: Work, ids: Sequence[int], now: float) -> None:
    """Let elements go."""
    work.write()
    work.take()
    connection = work.connection
    for some in chunks(numbers_of(ids)):
        query = select(learned.c.element).where(learned.c.element.in_(some), learned.c.state != "removed")
        there = sorted(connection.scalars(query))
        if not there:
            continue
        connection.execute(update(learned).where(learned.c.element.in_(there)).values(state="removed"))
        connection.execute(delete(leases).where(leases.c.element.in_(there)))
        last = work.take(edits=len(there)).edits
        note(work, last, [("element", number, now, "") for number in there])


def forget(work: Work, ids: Sequence[int]) -> list[str]:
    """Delete removed elements with all their history; return digests that nothing refers to any more."""
    work.write()
    work.take()
    connection = work.connection
    digests: set[str] = set()
    for some in chunks(numbers_of(ids)):
        query = select(learned.c.element).where(learned.c.element.in_(some), learned.c.state == "removed")
        there = list(connection.scalars(query))
        if not there:
            continue
        digests.update(connection.scalars(select(versions.c.digest).where(versions.c.element.in_(there))))
        for table in (versions, polls, reads, leases, standing, learned):
            connection.execute(delete(table).where(table.c.element.in_(there)))
        connection.execute(delete(elements).where(elements.c.id.in_(there)))
    return unreferred(work, digests)


def unreferred(work: Work, digests: set[str]) -> list[str]:
    """Return those of the digests that no version has."""
    return sorted(digests - referred(work, sorted(digests)))


def referred(work: Work, digests: Sequence[str]) -> set[str]:
    """Return those of the digests that some version has.

    Until this transaction ends nobody else records a version, so copies that nothing refers to can be
    deleted within it.
    """
    work.write()
    work.take()
    found: set[str] = set()
    for some in chunks(digests):
        query = select(versions.c.digest).where(versions.c.digest.in_(some)).distinct()
        found.update(work.connection.scalars(query))
    return found


def _element(row: Any) -> Element:  # noqa: ANN401 - columns by name
    """Return an element from its row."""
    return Element(
        id=row.id, key=row.key, source=row.source, group=row.name, options=from_json(row.options),
        given=from_json(row.given), weight=row.weight, max_age=row.max_age, min_interval=row.min_interval,
        jitter=row.jitter, windows=row.windows, via=row.via, added=row.added, state=row.state,
        last=or_nan(row.last), not_before=row.not_before, failures=row.failures, size=or_nan(row.size),
        moved=row.moved, version=row.version, fingerprint=row.fingerprint,
        validators=from_json(row.validators), detail=row.detail,
    )  # fmt: skip


def find(work: Work, keys: Sequence[str]) -> dict[str, Element]:
    """Return the elements that have these keys, by key; removed ones included."""
    found = {}
    for some in chunks(list(keys)):
        for row in work.connection.execute(_ELEMENTS.where(elements.c.key.in_(some))):
            found[row.key] = _element(row)
    return found


def list_elements(
    work: Work, after: int = 0, limit: int = 1000, *, via: int | None = None, pattern: str | None = None
) -> list[Element]:
    """Return elements in the order of their numbers, after ``after``; removed ones are left out."""
    query = _ELEMENTS.where(learned.c.state != "removed").order_by(elements.c.id)
    if via is not None:
        query = query.where(elements.c.via == int(via))
    if pattern is None or pattern == "*":
        there = work.connection.execute(query.where(elements.c.id > int(after)).limit(limit))
        return [_element(row) for row in there]
    matches = re.compile(translate(pattern)).match
    plain = re.split(r"[*?\[]", pattern, maxsplit=1)[0]  # the database leaves most of the others out
    query = query.where(elements.c.key.startswith(plain, autoescape=True))
    found: list[Element] = []
    while len(found) < limit:
        rows = work.connection.execute(query.where(elements.c.id > int(after)).limit(_LOOK)).all()
        found += (_element(row) for row in rows if matches(row.key))
        if len(rows) < _LOOK:
            break
        after = rows[-1].id
    return found[:limit]


def count(work: Work) -> dict[str, int]:
    """Return how many elements there are in each state."""
    query = select(learned.c.state, func.count()).group_by(learned.c.state)
    return dict(map(tuple, work.connection.execute(query)))


def list_groups(work: Work, ids: Sequence[int] | None = None) -> list[Group]:
    """Return all groups, or these."""
    query = select(groups).order_by(groups.c.id)
    if ids is None:
        rows = list(work.connection.execute(query))
    else:
        parts = chunks(sorted(set(numbers_of(ids))))
        rows = [row for some in parts for row in work.connection.execute(query.where(groups.c.id.in_(some)))]
    return [Group(*row) for row in rows]


def pay(work: Work, paid_until: Mapping[int, float]) -> None:
    """Keep from when on the next poll of each group may start."""
    work.write()
    work.plan()
    if paid_until:
        work.connection.execute(
            update(groups).where(groups.c.id == bindparam("which")).values(paid_until=bindparam("until")),
            [{"which": int(number), "until": float(until)} for number, until in paid_until.items()],
        )
