"""What a report on millions of elements needs, by aggregates and samples: no row of each is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, Select, bindparam, func, literal_column, select

from .schema import AWAY, elements, learned, numbers
from .session import Work, among, as_numbers

_ODD_STATES: list[ColumnElement[str]] = [
    literal_column(f"'{state}'") for state in ("failing", "refused", "gone")
]
_DAY_SECONDS = 86400.0
_SEED = 0

_SIZES: Select[Any] = select(elements.c.group_id, func.count()).group_by(elements.c.group_id)
"""Asked by the status: how many elements each group has, from an index alone;"""
_UNWANTED_SIZES: Select[Any] = (
    select(elements.c.group_id, func.count())
    .where(
        (elements.c.weight <= literal_column("0"))
        | elements.c.id.in_(select(learned.c.element).where(learned.c.state.in_(AWAY)))
    )
    .group_by(elements.c.group_id)
)
"""and how many of them are not to be kept fresh."""
_waited: ColumnElement[float] = bindparam("now") - func.coalesce(learned.c.last, elements.c.added)
_IN_ODD_STATES: Select[Any] = (
    select(elements.c.id)
    .join(learned, learned.c.element == elements.c.id)
    .where(
        learned.c.state.in_(_ODD_STATES),
        (learned.c.state != literal_column("'gone'"))
        | (learned.c.last - elements.c.added < literal_column(str(_DAY_SECONDS))),
        elements.c.weight > literal_column("0"),
    )
    .order_by((elements.c.weight * _waited).desc())
    .limit(bindparam("count"))
)
"""Asked by the status: elements that fail, are refused or were never there, those that matter most first;"""
_LONG_AGO: Select[Any] = (
    select(learned.c.element)
    .where(learned.c.state == literal_column("'ok'"), learned.c.last < bindparam("before"))
    .order_by(learned.c.last)
    .limit(bindparam("count"))
)
"""those that were polled longest ago;"""
_NEVER: Select[Any] = (
    select(learned.c.element)
    .where(learned.c.state == literal_column("'new'"))
    .order_by(learned.c.element)
    .limit(bindparam("count"))
)
"""the oldest of those that were never polled;"""
_IN_GROUPS: Select[Any] = (
    select(elements.c.id)
    .where(among(elements.c.group_id, "some"), elements.c.weight > literal_column("0"))
    .order_by(elements.c.weight.desc(), elements.c.id)
    .limit(bindparam("count"))
)
"""and some in groups that nobody may poll."""


def some_elements(work: Work, count: int) -> list[int]:
    """Return numbers among which elements are, chosen at random, always the same as long as none is added.

    What was forgotten leaves gaps, so fewer elements than ``count`` may have them.
    """
    last = int(work.connection.scalar(select(numbers.c.elements)) or 0)
    if last <= count:
        return list(range(1, last + 1))
    chosen = np.random.default_rng(_SEED).choice(last, count, replace=False)
    return sorted((1 + chosen).tolist())


def first_added(work: Work) -> float | None:
    """Return when the first element was added; None if there is none."""
    found = work.connection.scalar(select(elements.c.added).order_by(elements.c.id).limit(1))
    return None if found is None else float(found)


def group_sizes(work: Work) -> dict[int, int]:
    """Return how many elements of each group are to be kept fresh."""
    sizes: dict[int, int] = dict(map(tuple, work.connection.execute(_SIZES)))
    for group, count in work.connection.execute(_UNWANTED_SIZES):
        sizes[group] -= count
    return sizes


def neglected(work: Work, *, now: float, before: float, groups: Sequence[int], count: int) -> list[int]:
    """Return elements that may be neglected, some for each reason."""
    asked: list[tuple[Select[Any], dict[str, Any]]] = [
        (_IN_ODD_STATES, {"now": float(now)}),
        (_LONG_AGO, {"before": float(before)}),
        (_NEVER, {}),
    ]
    if groups:
        asked.append((_IN_GROUPS, {"some": as_numbers(groups)}))
    found: set[int] = set()
    for query, given in asked:
        found.update(work.connection.scalars(query, {**given, "count": int(count)}))
    return sorted(found)
