"""Room for copies in the tables (step 9): how much they take, and what is dropped if there is too little."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Select, delete, func, select, update

from .elements import unreferred
from .schema import standing, versions
from .session import Work, chunks, numbers_of

_ROOM: Select[Any] = (
    select(standing.c.element, func.coalesce(versions.c.size, standing.c.dropped).label("size"))
    .outerjoin(versions, versions.c.id == standing.c.version)
    .where(func.coalesce(versions.c.size, standing.c.dropped).is_not(None))
    .order_by(standing.c.element)
)
"""Asked by the housekeeper: what the copy of each element takes, or took when it was dropped."""
_OLD: Select[Any] = (
    select(versions.c.id, versions.c.digest, versions.c.size)
    .join(standing, standing.c.element == versions.c.element)
    .where(versions.c.id != standing.c.version)
    .order_by(versions.c.id)
)
"""Asked by the housekeeper if there is no room: the oldest versions that have a later one."""


def room_taken(work: Work) -> int:
    """Return how many bytes all versions of copies have, for the housekeeper and the status."""
    return int(work.connection.scalar(select(func.sum(versions.c.size))) or 0)


def room_of_copies(work: Work) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return elements, in order, and the bytes of their latest copies, or of those that were dropped."""
    rows = work.connection.execute(_ROOM).all()
    return np.array([row[0] for row in rows], np.int64), np.array([row[1] for row in rows], np.float64)


def drop_old_versions(work: Work, size: int, limit: int = 10_000) -> list[str]:
    """Delete the oldest versions that have a later one, so that so many bytes are free."""
    work.write()
    work.take()
    freed, old = 0, []
    for row in work.connection.execute(_OLD.limit(limit)).all():
        if freed >= size:
            break
        freed += row.size
        old.append(row)
    for some in chunks([row.id for row in old]):
        work.connection.execute(delete(versions).where(versions.c.id.in_(some)))
    return unreferred(work, {row.digest for row in old})


def drop_copies(work: Work, ids: Sequence[int]) -> list[str]:
    """Delete all versions of elements, and forget by what they would be recognised."""
    work.write()
    work.take()
    digests: set[str] = set()
    for some in chunks(numbers_of(ids)):
        digests.update(work.connection.scalars(select(versions.c.digest).where(versions.c.element.in_(some))))
        size = select(versions.c.size).where(versions.c.id == standing.c.version).scalar_subquery()
        blank = {"dropped": size, "version": None, "fingerprint": None, "validators": "{}"}
        there = standing.c.element.in_(some), standing.c.version.is_not(None)
        work.connection.execute(update(standing).where(*there).values(blank))
        work.connection.execute(delete(versions).where(versions.c.element.in_(some)))
    return unreferred(work, digests)
