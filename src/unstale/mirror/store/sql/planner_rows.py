"""What the planner keeps and reads: columns of elements, what was learned, what polls saw, edits.

Steps 1 and 8 of a poll: what the planner chooses by, and what it has learned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
from sqlalchemy import Integer, Select, bindparam, func, literal_column, select, update

from unstale.mirror.store.contract import Edit, ElementColumns, PollOutcomes
from unstale.mirror.store.element_path import path_of

from .schema import AWAY, edits, elements, groups, kept, learned, polls, versions
from .session import Many, Whole, Work, among, as_numbers, chunks, numbers_of

_POLICY_ROWS: Select[Any] = (
    select(
    elements.c.id, elements.c.group_id, elements.c.added, learned.c.last, learned.c.not_before,
    learned.c.failures, elements.c.weight, learned.c.size, elements.c.max_age, elements.c.min_interval,
    elements.c.jitter, elements.c.windows, learned.c.state, learned.c.evidence,
    elements.c.via, elements.c.terms, learned.c.stays, elements.c.source, elements.c.key,
    )
    .join(learned, learned.c.element == elements.c.id)
    .where(learned.c.state.not_in(AWAY))
)  # fmt: skip
"""Asked by `load`: a row for each element that is polled, with all that the policy knows of it."""
_SOME_POLICY_ROWS = _POLICY_ROWS.where(among(elements.c.id, "some"))
"""The same of some elements."""
_NEXT_POLICY_ROWS = (
    _POLICY_ROWS.where(elements.c.id > bindparam("after"), learned.c.element > bindparam("after"))
    .order_by(elements.c.id)
    .limit(bindparam("count", type_=Integer))
)
"""The same of the elements after one. Both tables are told where to begin: a database that joins them by
merging would else read one of them from its start each time."""


def _saving(*names: str) -> Many:
    """Return the statement that keeps these columns; what is polled no more stays as it is."""
    values: dict[str, Any] = {name: bindparam(f"new_{name}") for name in names}
    there = learned.c.state.not_in(AWAY)
    one = update(learned).where(learned.c.element == bindparam("which"), there)
    if names == ("state",):  # few change it, and it has an index
        one = one.where(learned.c.state != bindparam("new_state"))
    return Many(one.values(values), "which", *(f"new_{name}" for name in names))


_SAVE = _saving("last", "not_before", "failures", "size", "stays")
_SAVE_ALL = _saving("last", "not_before", "failures", "size", "stays", "evidence")
_SAVE_STATE = _saving("state")
"""Run by the planner for elements of which it has learned something; without or with evidence, and then the
state, of those whose state is another one now."""
_POLLS_SINCE = Whole(
    select(
        polls.c.id, polls.c.element, polls.c.time, polls.c.elapsed, polls.c.outcome, polls.c.traffic,
        polls.c.cost, polls.c.planned, versions.c.modified, polls.c.stays,
    )
    .select_from(polls.outerjoin(versions, versions.c.id == polls.c.version))
    .where(polls.c.id > bindparam("after"))
    .order_by(polls.c.id)
    .limit(bindparam("limit"))
)  # fmt: skip
"""Asked by the planner in each turn: polls that were recorded after those it has heard of."""


def load(work: Work, ids: Sequence[int] | None = None, chunk: int = 10_000) -> Iterator[ElementColumns]:
    """Return all elements that are polled, or these, as columns in the order of numbers.

    The planner asks for all when it starts, reports for all or for one.
    """
    if ids is not None:
        for some in chunks(sorted(set(numbers_of(ids))), chunk):
            rows = work.connection.execute(_SOME_POLICY_ROWS, {"some": as_numbers(some)}).all()
            if rows:
                names = _group_names(work, sorted({row.group_id for row in rows}))
                yield _columns(sorted(rows, key=itemgetter(0)), names)
        return
    after, names = 0, _group_names(work)
    # Part by part, not with an open cursor: in between others may write.
    while rows := work.connection.execute(_NEXT_POLICY_ROWS, {"after": after, "count": chunk}).all():
        after = rows[-1].id
        yield _columns(rows, names)


def _group_names(work: Work, some: Sequence[int] | None = None) -> dict[int, str]:
    """Return the names of groups, all or some, by number."""
    query: Select[Any] = select(groups.c.id, groups.c.name)
    if some is not None:
        query = query.where(among(groups.c.id, "some"))
    found = work.connection.execute(query, {} if some is None else {"some": as_numbers(some)})
    return {row.id: row.name for row in found}


def _columns(rows: Sequence[Any], names: Mapping[int, str]) -> ElementColumns:
    """Return rows as columns; NULL becomes nan."""
    (
        number, group, added, last, not_before, failures, weight, size, max_age, min_interval, jitter,
        windows, state, evidence, via, terms, stays, source, key,
    ) = zip(*rows, strict=True)  # fmt: skip
    return ElementColumns(
        id=np.array(number, np.int64), group=np.array(group, np.int64), added=np.array(added, np.float64),
        last=np.array(last, np.float64), not_before=np.array(not_before, np.float64),
        failures=np.array(failures, np.int64), weight=np.array(weight, np.float64),
        size=np.array(size, np.float64), max_age=np.array(max_age, np.float64),
        min_interval=np.array(min_interval, np.float64), jitter=np.array(jitter, np.float64),
        windows=windows, state=state, evidence=evidence,
        via=np.array([one or 0 for one in via], np.int64), terms=terms,
        stays=np.array([one or 0.0 for one in stays], np.float64),
        path=[path_of(s, names.get(g, ""), k) for s, g, k in zip(source, group, key, strict=True)],
    )  # fmt: skip


def save(work: Work, columns: ElementColumns) -> None:
    """Keep last, not_before, failures, size, state and evidence of elements; removed ones stay removed."""
    work.write()
    work.plan()
    numbers = numbers_of(columns.id)
    if not numbers:
        return
    given: list[Sequence[Any]] = [
        numbers, nullable(columns.last), columns.not_before.tolist(), columns.failures.tolist(),
        nullable(columns.size), _promised(columns),
    ]  # fmt: skip
    if len(columns.evidence):
        given.append([bytes(evidence) for evidence in columns.evidence])
    statement = _SAVE_ALL if len(columns.evidence) else _SAVE
    statement.run(work.connection, list(zip(*given, strict=True)))
    _SAVE_STATE.run(work.connection, list(zip(numbers, columns.state, strict=True)))


def _promised(columns: ElementColumns) -> list[float | None]:
    """Return for how long elements stay as they are, as it is stored: NULL where nobody promises it."""
    if columns.stays is None:
        return [None] * columns.id.size
    return [float(value) if value > 0 else None for value in columns.stays]


def nullable(values: np.ndarray[Any, np.dtype[np.float64]]) -> list[float | None]:
    """Return numbers as they are stored: nan is NULL."""
    return [None if value != value else value for value in values.tolist()]  # noqa: PLR0124


def state(work: Work, names: Sequence[str] | None = None) -> dict[str, bytes]:
    """Return what `keep` has kept, by name; `PlannerState.read` knows what the planner means by it."""
    query = select(kept) if names is None else select(kept).where(kept.c.name.in_(list(names)))
    return {row.name: bytes(row.value) for row in work.connection.execute(query)}


def keep(work: Work, state: Mapping[str, bytes]) -> None:
    """Keep bytes by name, for the planner, the notifier and others; other names stay as they are."""
    work.write()
    work.plan()
    if state:
        statement = work.insert(kept)
        work.connection.execute(
            statement.on_conflict_do_update(
                index_elements=["name"], set_={"value": statement.excluded.value}
            ),
            [{"name": name, "value": bytes(value)} for name, value in state.items()],
        )


def heard(work: Work, after: int, limit: int = 100_000) -> PollOutcomes:
    """Return what polls saw, from the one after ``after`` on, for the planner."""
    rows = sorted(_POLLS_SINCE.run(work.connection, after=int(after), limit=int(limit)), key=itemgetter(0))
    columns: list[Sequence[Any]] = list(zip(*rows, strict=True)) if rows else [()] * 10
    return PollOutcomes(
        poll=np.array(columns[0], np.int64),
        element=np.array(columns[1], np.int64),
        time=np.array(columns[2], np.float64),
        elapsed=np.array(columns[3], np.float64),
        outcome=columns[4],
        traffic=np.array(columns[5], np.float64),
        cost=np.array(columns[6], np.float64),
        planned=np.array(columns[7], np.bool_),
        modified=np.array(columns[8], np.float64),
        stays=np.array(columns[9], np.float64),
    )


def list_edits(work: Work, after: int, limit: int = 100_000, *, loaded: int = 0) -> list[Edit]:
    """Return edits, from the one after ``after`` on, for the planner.

    Those up to ``loaded`` that are about elements and groups are left out.
    """
    query: Select[Any] = select(edits).where(edits.c.id > int(after)).order_by(edits.c.id).limit(limit)
    if loaded > after:
        others = edits.c.kind.not_in([literal_column("'element'"), literal_column("'group'")])
        query = query.where((edits.c.id > int(loaded)) | others)
    return [Edit(*row) for row in work.connection.execute(query)]


def last_edit(work: Work) -> int:
    """Return the number of the last edit that is there to be read, for a planner that reads all elements."""
    return work.connection.scalar(select(func.max(edits.c.id))) or 0
