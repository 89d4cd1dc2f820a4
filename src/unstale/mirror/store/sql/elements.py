"""Elements and groups in the tables: added, found, removed, forgotten.

Commands, the dashboard and discovery (step 7 of a poll) write here; reports and pages read here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import translate
from typing import Any

from sqlalchemy import ColumnElement, Select, bindparam, delete, func, insert, literal_column, select, update

from unstale.mirror.store.contract import Addition, Element, Group
from unstale.mirror.store.storable import check_key, text_of

from .schema import (
    AWAY,
    edits,
    elements,
    groups,
    learned,
    leases,
    links,
    meta,
    polls,
    reads,
    standing,
    user_reads,
    versions,
)  # fmt: skip
from .session import (
    Many,
    Work,
    among,
    as_numbers,
    chunks,
    from_json,
    json_of,
    number_within,
    numbers_of,
    or_nan,
)

_ELEMENT_ROWS = (
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
"""Asked by commands that want whole elements (`find`, `numbered`, `list_elements`): one row for each."""
_NUMBERED_ROWS = _ELEMENT_ROWS.where(among(elements.c.id, "some"))
_REMOVED: ColumnElement[str] = literal_column("'removed'")
"""The state of elements that were let go, in each text as it is: by it a database chooses how to join."""
_SAID = (
    "source", "group_id", "options", "given", "weight", "max_age", "min_interval", "jitter", "windows",
    "terms", "keep", "keep_for", "tags", "via",
)  # fmt: skip
"""What an addition says of an element."""
_ADD = Many(insert(elements), "id", "key", *_SAID, "added")
"""Run by `add` for elements that are new, with the two after it: each element has a row in three tables."""
_ADD_STANDING = Many(insert(standing), "element", "validators", "detail")
_ADD_LEARNED = Many(insert(learned), "element", "state", "not_before", "failures", "evidence")
_ADD_GROUPS = Many(insert(groups), *(column.name for column in groups.c))
"""Run by `add` for groups that no element was in before."""
_ADD_EDITS = Many(insert(edits), *(column.name for column in edits.c))
"""Run by all that change something that the planner should hear of."""
_CHANGE = Many(
    update(elements)
    .where(elements.c.id == bindparam("which"))
    .values({name: bindparam(f"new_{name}") for name in _SAID}),
    "which",
    *(f"new_{name}" for name in _SAID),
)
"""Run by `add` for elements that are there, and of which something else is said now."""
_BRING_BACK = Many(
    update(learned).where(learned.c.element == bindparam("which")).values(state=bindparam("new_state")),
    "which",
    "new_state",
)
"""Run by `add` for elements that had been removed."""
_PAY = Many(
    update(groups).where(groups.c.id == bindparam("which")).values(paid_until=bindparam("until")),
    "which",
    "until",
)
"""Run by the planner in the transaction that hands out polls: from when on groups may be polled again."""
_ARCHIVED_AT_ONCE = 1000
_MATCHED_AT_ONCE = 5000
"""Rows in which a pattern is looked for at a time."""


def add(work: Work, additions: Sequence[Addition], now: float) -> list[int]:
    """Add or change elements, for commands, the dashboard and discovery; return their numbers."""
    work.write()
    work.take()  # so that nobody adds the same meanwhile
    numbers: dict[str, int] = {}
    last = {addition.key: addition for addition in additions}  # of several the last counts
    for addition in last.values():
        check_key(addition.key)
        check_key(addition.group)
    for some in chunks(list(last.values())):
        numbers.update(_add(work, some, float(now)))
    return [numbers[addition.key] for addition in additions]


def _add(work: Work, additions: Sequence[Addition], now: float) -> dict[str, int]:
    """Add some, each with another key; return the numbers by key."""
    connection = work.connection
    query: Select[Any] = (
        select(
            elements.c.key,
            elements.c.id,
            learned.c.state,
            learned.c.last,
            *(elements.c[name] for name in _SAID),
        )
        .join(learned, learned.c.element == elements.c.id)
        .where(elements.c.key.in_([addition.key for addition in additions]))
    )
    known = {key: rest for key, *rest in connection.execute(query).all()}
    places = _groups(work, sorted({addition.group for addition in additions}))
    new: list[tuple[Any, ...]] = []
    changed: list[tuple[Any, ...]] = []
    back: list[tuple[int, str]] = []
    for one in additions:
        said: list[Any] = [
            text_of(one.source), places[one.group], json_of(one.options), json_of(one.given),
            float(one.weight), float(one.max_age), float(one.min_interval), float(one.jitter),
            text_of(one.windows), text_of(one.terms), one.keep, one.keep_for, _tag_text(one.tags), one.via,
        ]  # fmt: skip

        if one.key not in known:
            new.append((one.key, *said, now))
            continue
        number, state, last, *before = known[one.key]
        if state == "removed":
            back.append((number, "new" if last is None else "ok"))
        elif one.via is not None:
            said[-1] = before[-1]  # it stays with whom it came from; a user outranks them all
        if said != before:
            changed.append((number, *said))
    _prune_again(
        work, [(known[one.key][3 + _SAID.index("keep")], one.keep) for one in additions if one.key in known]
    )
    noted = sorted({row[0] for row in (*changed, *back)})
    taken = work.take(elements=len(new), edits=len(new) + len(noted))
    numbers = range(taken.elements - len(new) + 1, taken.elements + 1)
    _ADD.run(connection, [(number, *row) for number, row in zip(numbers, new, strict=True)])
    _ADD_STANDING.run(connection, [(number, "{}", "") for number in numbers])
    _ADD_LEARNED.run(connection, [(number, "new", 0.0, 0, b"") for number in numbers])
    _CHANGE.run(connection, changed)
    _BRING_BACK.run(connection, back)
    note(work, taken.edits, [("element", number, now, "") for number in (*noted, *numbers)])
    found: dict[str, int] = {key: rest[0] for key, rest in known.items()}
    return found | {row[0]: number for number, row in zip(numbers, new, strict=True)}


def _groups(work: Work, names: Sequence[str]) -> dict[str, int]:
    """Return the numbers of groups; those that are not there are made."""
    query: Select[Any] = select(groups.c.name, groups.c.id).where(groups.c.name.in_(names))
    known: dict[str, int] = dict(map(tuple, work.connection.execute(query).all()))
    new = [name for name in names if name not in known]
    if new:
        first = work.take(groups=len(new)).groups - len(new) + 1
        rows = [(number, name, 0.0, "", 0.0, 0.0) for number, name in enumerate(new, first)]
        _ADD_GROUPS.run(work.connection, rows)
        known.update({name: number for number, name, *_ in rows})
    return known


def note(work: Work, last: int, noted: Sequence[tuple[str, int, float, str]]) -> None:
    """Write edits, whose numbers have been taken."""
    rows = [
        (number, kind, int(subject), float(time), text_of(channel))
        for number, (kind, subject, time, channel) in enumerate(noted, last - len(noted) + 1)
    ]
    _ADD_EDITS.run(work.connection, rows)


def edit(work: Work, edits: Sequence[tuple[str, int, float, str]]) -> None:
    """Note edits (kind, subject, time, channel), which the planner reads in its next turn."""
    work.write()
    note(work, work.take(edits=len(edits)).edits, edits)


def _tag_text(tags: Sequence[str]) -> str:
    """Return tags as they are stored: with spaces on both sides, so that each is found whole."""
    return f" {' '.join(text_of(tag) for tag in sorted(set(tags)))} " if tags else ""


def _prune_again(work: Work, kept: Sequence[tuple[int | None, int | None]]) -> None:
    """Have all versions looked at again if fewer of some are kept than before: pairs of before and now."""
    if any(now is not None and now != before for before, now in kept):
        work.connection.execute(delete(meta).where(meta.c.name == "pruned"))


def remove(work: Work, ids: Sequence[int], now: float) -> None:
    """Mark elements as removed, for commands and the dashboard; the planner hears of each as an edit."""
    _put_away(work, ids, now, "removed", learned.c.state != _REMOVED)


def pause(work: Work, ids: Sequence[int], now: float) -> list[int]:
    """Mark elements as paused, for commands and the dashboard; return those that were polled before."""
    return _put_away(work, ids, now, "paused", learned.c.state.not_in(AWAY))


def _put_away(
    work: Work, ids: Sequence[int], now: float, state: str, which: ColumnElement[bool]
) -> list[int]:
    """Give elements a state in which nobody polls them; return those that are so now, and were not."""
    work.write()
    work.take()
    connection = work.connection
    changed: list[int] = []
    for some in chunks(numbers_of(ids)):
        query = select(learned.c.element).where(learned.c.element.in_(some), which)
        there = sorted(connection.scalars(query))
        if not there:
            continue
        connection.execute(update(learned).where(learned.c.element.in_(there)).values(state=state))
        connection.execute(delete(leases).where(leases.c.element.in_(there)))
        last = work.take(edits=len(there)).edits
        note(work, last, [("element", number, now, "") for number in there])
        changed += there
    return changed


def resume(work: Work, ids: Sequence[int], now: float) -> list[int]:
    """Have elements polled again that were paused or archived, as the last poll left them; return which."""
    work.write()
    work.take()
    connection = work.connection
    changed: list[int] = []
    for some in chunks(numbers_of(ids)):
        rows = connection.execute(
            select(learned.c.element, learned.c.last, standing.c.version, standing.c.dropped)
            .join(standing, standing.c.element == learned.c.element)
            .where(learned.c.element.in_(some), learned.c.state.in_(["paused", "archived"]))
        ).all()
        there = sorted(row.element for row in rows)
        latest = select(func.max(polls.c.id)).where(polls.c.element.in_(there)).group_by(polls.c.element)
        seen = select(polls.c.element, polls.c.outcome).where(polls.c.id.in_(latest))
        outcomes: dict[int, str] = dict(map(tuple, connection.execute(seen))) if there else {}
        states = [(row.element, _state_after(row, outcomes.get(row.element))) for row in rows]
        _BRING_BACK.run(connection, states)
        connection.execute(update(learned).where(learned.c.element.in_(there)).values(not_before=0.0))
        note(work, work.take(edits=len(there)).edits, [("element", one, now, "") for one in there])
        changed += there
    return changed


def _state_after(row: Any, outcome: str | None) -> str:  # noqa: ANN401 - columns by name
    """Return the state of an element whose last poll ended so."""
    if outcome in {"failed", "gone", "refused"}:
        return "failing" if outcome == "failed" else outcome
    if row.version is None and row.dropped is not None:
        return "dropped"
    return "new" if row.last is None else "ok"


def archive(work: Work, before: float, now: float) -> list[int]:
    """Mark elements as archived that have been gone since a moment, some at a time, for the housekeeper.

    Polls tell since when; where they are in the tables no more, the copy does.
    """
    still_there = select(polls.c.id).where(
        polls.c.element == learned.c.element, polls.c.time > float(before), polls.c.outcome != "gone"
    )
    seen = select(versions.c.id).where(
        versions.c.element == learned.c.element, versions.c.time > float(before)
    )
    query = (
        select(learned.c.element)
        .join(elements, elements.c.id == learned.c.element)
        .where(
            learned.c.state == "gone", elements.c.added < float(before), ~still_there.exists(), ~seen.exists()
        )
        .limit(_ARCHIVED_AT_ONCE)
    )
    ids = list(work.connection.scalars(query))
    return _put_away(work, ids, now, "archived", learned.c.state == "gone") if ids else []


def forget(work: Work, ids: Sequence[int]) -> list[str]:
    """Delete removed elements with all their history; return digests that nothing refers to any more."""
    work.write()
    work.take()
    connection = work.connection
    digests: set[str] = set()
    for some in chunks(numbers_of(ids)):
        query = select(learned.c.element).where(learned.c.element.in_(some), learned.c.state == _REMOVED)
        there = list(connection.scalars(query))
        if not there:
            continue
        digests.update(connection.scalars(select(versions.c.digest).where(versions.c.element.in_(there))))
        for table in (versions, polls, reads, user_reads, leases, standing, learned):
            connection.execute(delete(table).where(table.c.element.in_(there)))
        connection.execute(delete(links).where(links.c.page.in_(there) | links.c.target.in_(there)))
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
        validators=from_json(row.validators), detail=row.detail, terms=row.terms, keep=row.keep,
        keep_for=row.keep_for, tags=tuple(row.tags.split()),
    )  # fmt: skip


def find(work: Work, keys: Sequence[str]) -> dict[str, Element]:
    """Return the elements that have these keys, by key; removed ones included."""
    found = {}
    for some in chunks([key for key in keys if text_of(key) == key]):
        for row in work.connection.execute(_ELEMENT_ROWS.where(elements.c.key.in_(some))):
            found[row.key] = _element(row)
    return found


def numbered(work: Work, ids: Sequence[int]) -> dict[int, Element]:
    """Return the elements that have these numbers, by number; removed ones included."""
    found = {}
    for some in chunks(numbers_of(ids)):
        for row in work.connection.execute(_NUMBERED_ROWS, {"some": as_numbers(some)}):
            found[row.id] = _element(row)
    return found


def list_elements(
    work: Work, after: int = 0, limit: int = 1000, *, via: int | None = None, pattern: str | None = None
) -> list[Element]:
    """Return elements in the order of their numbers, after ``after``; removed ones are left out."""
    query = _ELEMENT_ROWS.where(learned.c.state != _REMOVED).order_by(elements.c.id)
    if via is not None:
        query = query.where(elements.c.via == int(via))
    if pattern is None or pattern == "*":
        there = work.connection.execute(_after(query, after).limit(limit))
        return [_element(row) for row in there]
    matches = re.compile(translate(pattern)).match
    plain = re.split(r"[*?\[]", pattern, maxsplit=1)[0]  # the database leaves most of the others out
    query = query.where(elements.c.key.startswith(plain, autoescape=True))
    found: list[Element] = []
    while len(found) < limit:
        rows = work.connection.execute(_after(query, after).limit(_MATCHED_AT_ONCE)).all()
        found += (_element(row) for row in rows if matches(row.key))
        if len(rows) < _MATCHED_AT_ONCE:
            break
        after = rows[-1].id
    return found[:limit]


def _after(query: Select[Any], after: int) -> Select[Any]:
    """Return a query for rows after a number, said of each table: else it may be read from its start."""
    place = number_within(after)
    return query.where(elements.c.id > place, learned.c.element > place, standing.c.element > place)


def sources(work: Work) -> set[str]:
    """Return the names of the sources that elements have, for a worker that warms them up."""
    return set(work.connection.scalars(select(elements.c.source).distinct()))


def count(work: Work) -> dict[str, int]:
    """Return how many elements there are in each state, for the status and for `load_policy`."""
    query = select(learned.c.state, func.count()).group_by(learned.c.state)
    return dict(map(tuple, work.connection.execute(query)))


def list_groups(work: Work, ids: Sequence[int] | None = None) -> list[Group]:
    """Return all groups, or these, for the planner and the status."""
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
    _PAY.run(work.connection, [(int(number), float(until)) for number, until in paid_until.items()])
