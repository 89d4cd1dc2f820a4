"""Tables of elements, a page at a time."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Select, func, select

from unstale.errors import InvalidInput

from .schema import elements, groups, learned
from .sql_elements import numbered
from .sql_work import Work, text_of
from .store import SORTS, STATES, Element

_COLUMNS: dict[str, ColumnElement[Any]] = {
    "key": elements.c.key, "last": learned.c.last, "weight": elements.c.weight, "state": learned.c.state,
    "added": elements.c.id,
}  # fmt: skip


def page(
    work: Work,
    *,
    search: str = "",
    state: str = "",
    group: str = "",
    sort: str = "key",
    descending: bool = False,
    offset: int = 0,
    limit: int = 50,
) -> tuple[list[Element], int]:
    """Return some of the elements, sorted, and how many there are in all."""
    if sort not in SORTS:
        raise InvalidInput(f"sort must be one of {', '.join(SORTS)}; it is {sort!r}")
    if state and state not in STATES:
        raise InvalidInput(f"state must be one of {', '.join(STATES)}; it is {state!r}")
    if offset < 0 or limit < 0:
        raise InvalidInput(f"offset and limit must not be negative; they are {offset} and {limit}")
    query: Select[Any] = select(elements.c.id).join(learned, learned.c.element == elements.c.id)
    query = query.where(learned.c.state == state if state else learned.c.state != "removed")
    if group:
        number = work.connection.scalar(select(groups.c.id).where(groups.c.name == text_of(group)))
        query = query.where(elements.c.group_id == number)
    if search:
        query = query.where(elements.c.key.contains(text_of(search), autoescape=True))
    total = work.connection.scalar(select(func.count()).select_from(query.subquery())) or 0
    column = _COLUMNS[sort]
    orders = (column, elements.c.id)
    query = query.order_by(*(one.desc() if descending else one for one in orders))
    ids = list(work.connection.scalars(query.limit(limit).offset(offset)))
    found = numbered(work, ids)
    return [found[number] for number in ids if number in found], total
