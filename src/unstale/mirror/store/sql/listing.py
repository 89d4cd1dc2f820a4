"""Tables of elements, a page at a time, of a million.

First the numbers of a page are found, in an index that holds the order and the number, so that what comes
before is passed over without being read; then the elements themselves. The last pages are counted from the
end. What is filtered by is met in one of three ways, by how many there are: few are collected and sorted;
near the start those that are passed are looked up one by one; else the numbers that are to be left out, or
kept, whichever are fewer, are put together first.

On SQLite with a million elements the first and last pages take some milliseconds, those in the middle a tenth
of a second; filtered by what holds a large part of all, the middle takes up to half a second. A search goes
through all keys twice, and takes half a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from sqlalchemy import ColumnElement, Select, and_, func, literal_column, or_, select

from unstale.errors import InvalidInput
from unstale.mirror.store.contract import SORTS, STATES, Element
from unstale.mirror.store.storable import text_of

from .elements import numbered
from .schema import elements, groups, learned
from .session import Work

_SORTED_AT_ONCE = 20_000
"""Elements at most that are collected and sorted."""
_LOOKED_UP_ROWS = 50_000
"""Elements at most that are looked up one by one."""
_LEFT_OUT: list[ColumnElement[str]] = [literal_column("'removed'"), literal_column("'archived'")]
"""States of elements that no table has unless they are asked for."""
_TAGGED: ColumnElement[bool] = elements.c.tags != literal_column("''")
"""Written as the index has it."""
_SORT_COLUMNS: dict[str, ColumnElement[Any]] = {
    "key": elements.c.key, "last": learned.c.last, "weight": elements.c.weight, "state": learned.c.state,
    "added": elements.c.id,
}  # fmt: skip


@dataclass(frozen=True)
class _Filter:
    """What elements must be: the same, said in three ways."""

    count: int
    indexed: ColumnElement[bool]
    """The condition, written so that the database finds the elements by an index."""
    scanned: ColumnElement[bool]
    """The condition, written so that the database looks at one row after the other."""
    ids_in: Select[Any]
    """The numbers of elements that are so."""
    ids_out: Select[Any]
    """The numbers of elements that are not."""
    table: str
    """The table that the condition is about."""


def page(
    work: Work,
    *,
    search: str = "",
    state: str = "",
    group: str = "",
    tag: str = "",
    sort: str = "key",
    descending: bool = False,
    offset: int = 0,
    limit: int = 50,
) -> tuple[list[Element], int]:
    """Return some of the elements, sorted, for a page of the dashboard; and how many there are in all."""
    if sort not in SORTS:
        raise InvalidInput(f"sort must be one of {', '.join(SORTS)}; it is {sort!r}")
    if state and state not in STATES:
        raise InvalidInput(f"state must be one of {', '.join(STATES)}; it is {state!r}")
    if offset < 0 or limit < 0:
        raise InvalidInput(f"offset and limit must not be negative; they are {offset} and {limit}")
    if (sort, state) == ("last", "new"):  # which have none
        sort = "added"
    everything = _count(work, select(func.count()).select_from(elements))
    filters = [_by_state(work, state, everything)]
    if group:
        number = work.connection.scalar(select(groups.c.id).where(groups.c.name == text_of(group)))
        if number is None:
            return [], 0
        filters.append(_by_group(work, number))
    sought = _sought(search, tag) if search or tag else None
    total = _total(work, filters, everything, sought)
    if offset >= total or not limit:
        return [], total
    limit = min(limit, total - offset)
    backwards = offset > total - offset - limit
    start = total - offset - limit if backwards else offset
    query = _where(filters, sort, everything, (start + limit) * everything // total, sought)
    column, number = _order(sort)
    order = (column,) if sort == "added" else (column, number)
    down = descending != backwards
    query = query.order_by(*(one.desc().nulls_last() if down else one.asc().nulls_first() for one in order))
    ids = list(work.connection.scalars(query.limit(limit).offset(start)))
    if backwards:
        ids.reverse()
    found = numbered(work, ids)
    return [found[one] for one in ids if one in found], total


def tags(work: Work) -> list[str]:
    """Return all tags that elements have, for the dashboard."""
    found = work.connection.scalars(select(elements.c.tags).where(_TAGGED).distinct())
    return sorted({tag for text in found for tag in text.split()})


def _sought(search: str, tag: str) -> ColumnElement[bool]:
    """Return the condition for keys that have a text in them, as is or as addresses write it; and a tag."""
    ways = dict.fromkeys((search, quote(search, safe="/:?#[]@!$&'()*+,;=~%", errors="replace")))
    found = or_(*(elements.c.key.contains(text_of(way), autoescape=True) for way in ways))
    if not tag:
        return found
    tagged = and_(_TAGGED, elements.c.tags.contains(f" {text_of(tag)} ", autoescape=True))
    return and_(found, tagged) if search else tagged


def _count(work: Work, query: Select[Any]) -> int:
    return int(work.connection.scalar(query) or 0)


def _order(sort: str) -> tuple[ColumnElement[Any], ColumnElement[Any]]:
    """Return the column that is sorted by, and the number of the element in the same table."""
    column = _SORT_COLUMNS[sort]
    return column, learned.c.element if sort in {"last", "state"} else elements.c.id


def _by_state(work: Work, state: str, everything: int) -> _Filter:
    """Return the filter for a state; without one, what is removed or archived is left out."""
    given = learned.c.state
    looked_up = func.coalesce(given, literal_column("''"))
    if state:
        count = _count(work, select(func.count()).where(given == state))
        those, others = _two_lists(given == state)
        return _Filter(count, given == state, looked_up == state, those, others, "learned")
    count = _count(work, select(func.count()).where(given.in_(_LEFT_OUT)))
    those, others = _two_lists(given.in_(_LEFT_OUT))
    there, looked_up_there = given.not_in(_LEFT_OUT), looked_up.not_in(_LEFT_OUT)
    return _Filter(everything - count, there, looked_up_there, others, those, "learned")


def _two_lists(condition: ColumnElement[bool]) -> tuple[Select[Any], Select[Any]]:
    """Return the numbers of elements whose state meets a condition, and those of the others."""
    return select(learned.c.element).where(condition), select(learned.c.element).where(~condition)


def _by_group(work: Work, number: int) -> _Filter:
    """Return the filter for a group."""
    given = elements.c.group_id
    looked_up = func.coalesce(given, literal_column("0"))
    count = _count(work, select(func.count()).where(given == number))
    those, others = select(elements.c.id).where(given == number), select(elements.c.id).where(given != number)
    return _Filter(count, given == number, looked_up == number, those, others, "elements")


def _set(number: ColumnElement[Any], one: _Filter, everything: int) -> ColumnElement[bool]:
    """Return the condition by the numbers of those that are kept or left out, whichever are fewer."""
    if 2 * one.count <= everything:
        return number.in_(one.ids_in)
    return number.not_in(one.ids_out)


def _total(work: Work, filters: list[_Filter], everything: int, sought: ColumnElement[bool] | None) -> int:
    """Return how many elements meet all filters."""
    if sought is None and (len(filters) == 1 or filters[0].count == everything):
        return filters[-1].count
    if sought is None and filters[1].count <= _LOOKED_UP_ROWS:
        few = select(func.count()).select_from(elements)
        few = few.join(learned, learned.c.element == elements.c.id)
        return _count(work, few.where(filters[1].indexed, filters[0].scanned))
    if sought is None and everything - filters[0].count <= _LOOKED_UP_ROWS:
        by_state, by_group = filters
        others = by_state.ids_out.join(elements, elements.c.id == learned.c.element).where(by_group.scanned)
        return by_group.count - _count(work, select(func.count()).select_from(others.subquery()))
    query = select(func.count()).select_from(elements)
    for one in filters:
        if one.table == "elements":
            query = query.where(one.indexed)
        elif one.count < everything:
            query = query.where(_set(elements.c.id, one, everything))
    return _count(work, query if sought is None else query.where(sought))


def _where(
    filters: list[_Filter], sort: str, everything: int, passed: int, sought: ColumnElement[bool] | None
) -> Select[Any]:
    """Return the query for numbers, with what they must be; so many are passed over."""
    _, number = _order(sort)
    query: Select[Any] = select(number)
    own = "learned" if number is learned.c.element else "elements"
    joined = sought is not None and own == "learned"
    few = any(one.count <= _SORTED_AT_ONCE for one in filters)
    if sought is not None:
        query = query.where(sought)
    for one in filters:
        natural = (sort, one.table) in {("key", "elements"), ("state", "learned")}
        if one.count == everything:
            continue
        if natural or one.count <= _SORTED_AT_ONCE:
            condition = one.indexed
        elif few or (passed <= _LOOKED_UP_ROWS and min(one.count, everything - one.count) > _SORTED_AT_ONCE):
            condition = one.scanned
        else:
            query = query.where(_set(number, one, everything))
            continue
        query, joined = query.where(condition), joined or one.table != own
    if joined:
        tables = (elements, learned) if own == "elements" else (learned, elements)
        query = query.join_from(*tables, learned.c.element == elements.c.id)
    return query
