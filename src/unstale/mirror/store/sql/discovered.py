"""How much lists have discovered, for the limits of discovery (step 7 of a poll)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import BigInteger, Select, cast, delete, func, insert, literal, select, update

from unstale.mirror.store.contract import NamedBy

from .schema import elements, groups, learned, links, standing
from .session import Work, chunks, numbers_of


def named_by(work: Work, via: int) -> NamedBy:
    """Return how many elements a list has named, for discovery; removed ones do not count."""
    query: Select[Any] = (
        select(learned.c.state, func.count(), func.count(standing.c.version))
        .join(elements, elements.c.id == learned.c.element)
        .join(standing, standing.c.element == learned.c.element)
        .where(elements.c.via == int(via), learned.c.state != "removed")
        .group_by(learned.c.state)
    )
    rows = work.connection.execute(query).all()
    waiting = sum(count for state, count, _ in rows if state == "new")
    return NamedBy(sum(row[1] for row in rows), waiting, sum(row[2] for row in rows))


def going_back_to(work: Work, root: int, limit: int) -> int:
    """Return how many elements a list has led to, with those of the lists it named; ``limit`` at most."""
    tree = select(cast(literal(int(root)), BigInteger).label("id")).cte("tree", recursive=True)
    tree = tree.union_all(select(elements.c.id).join(tree, elements.c.via == tree.c.id))
    some = select(tree.c.id).limit(limit + 1).subquery()
    return int(work.connection.scalar(select(func.count()).select_from(some)) or 1) - 1


def count_in_groups(work: Work, names: Sequence[str]) -> dict[str, int]:
    """Return how many elements groups have, by name, for discovery."""
    found: dict[str, int] = {}
    for some in chunks(list(names)):
        query: Select[Any] = (
            select(groups.c.name, func.count())
            .join(elements, elements.c.group_id == groups.c.id)
            .where(groups.c.name.in_(some))
            .group_by(groups.c.name)
        )
        found.update(map(tuple, work.connection.execute(query)))
    return found


def set_links(work: Work, page: int, targets: Sequence[int]) -> None:
    """Keep which elements a page links to, for discovery."""
    work.write()
    work.connection.execute(delete(links).where(links.c.page == int(page)))
    rows = [{"page": int(page), "target": target} for target in sorted(set(numbers_of(targets)))]
    if rows:
        work.connection.execute(insert(links), rows)


def list_links(work: Work) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return pages and the elements that they link to, a pair for each link, for the planner."""
    rows = work.connection.execute(select(links.c.page, links.c.target)).all()
    return np.array([row[0] for row in rows], np.int64), np.array([row[1] for row in rows], np.int64)


def read_again(work: Work, ids: Sequence[int]) -> None:
    """Forget the validators of lists, of which not all could be taken: their next polls read them whole."""
    work.write()
    for some in chunks(numbers_of(ids)):
        work.connection.execute(update(standing).where(standing.c.element.in_(some)).values(validators="{}"))
