"""Polls and copies that this mirror did not make itself, written into its store.

What comes from a file is recorded as if it had been polled: the planner hears of it, and learns. It costs
nothing, as it has been paid for elsewhere. What is there already is left alone, so the same file can be
imported twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, nan

from sqlalchemy import bindparam, insert, select, update

from unstale.mirror.source import Json
from unstale.mirror.store.storable import text_of

from .poll_spans import hold_numbers
from .schema import elements, learned, polls, standing, versions
from .session import Work, chunks, json_of, or_none, readable_json_of


@dataclass(frozen=True, slots=True)
class Brought:
    """The copy that a poll brought; its content is in the folder of copies already."""

    digest: str
    size: int
    media_type: str
    modified: float | None = None
    meta: Mapping[str, Json] = field(default_factory=dict)
    fingerprint: str = ""
    """Empty: the digest."""
    validators: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Past:
    """A poll that was made elsewhere, or before."""

    element: int
    time: float
    outcome: str
    elapsed: float = nan
    """nan: nothing can be learned from it."""
    traffic: int = 0
    seconds: float = 0.0
    detail: str = ""
    planned: bool = True
    predicted: float = nan
    brought: Brought | None = None


def numbers_by_key(work: Work, keys: Iterable[str]) -> dict[str, int]:
    """Return the numbers of those elements that are there, and not removed, for imports."""
    found: dict[str, int] = {}
    for some in chunks(list(keys)):
        query = (
            select(elements.c.key, elements.c.id)
            .join(learned, learned.c.element == elements.c.id)
            .where(elements.c.key.in_(some), learned.c.state != "removed")
        )
        found.update((row.key, row.id) for row in work.connection.execute(query))
    return found


def keys_of(work: Work, ids: Iterable[int]) -> dict[int, str]:
    """Return the keys of elements that are not removed, by their numbers, for exports."""
    found: dict[int, str] = {}
    for some in chunks(sorted(set(ids))):
        query = (
            select(elements.c.id, elements.c.key)
            .join(learned, learned.c.element == elements.c.id)
            .where(elements.c.id.in_(some), learned.c.state != "removed")
        )
        found.update((row.id, row.key) for row in work.connection.execute(query))
    return found


def recall(work: Work, pasts: Sequence[Past]) -> int:
    """Record polls; return how many were not there already, or brought a copy that was not.

    A poll is known by its element and its moment. A copy from before the latest version of its element is
    left out, since numbers of versions grow with time.
    """
    work.write()
    work.take()  # nobody else records meanwhile
    there = _there(work, pasts)
    newest = _newest(work, {past.element for past in pasts if past.brought is not None})
    new: dict[tuple[int, float], Past] = {}
    with_copy: dict[tuple[int, float], Past] = {}
    for past in sorted(pasts, key=lambda one: one.time):
        moment, copy = (past.element, past.time), past.brought
        if copy is not None:
            if past.time <= newest.get(past.element, -inf) or not work.copies.has(copy.digest):
                continue
            with_copy[moment] = past
            newest[past.element] = past.time
        if moment not in there:
            new.setdefault(moment, past)
    taken = work.take(polls=len(new), versions=len(with_copy))
    first = taken.versions - len(with_copy) + 1
    numbers = {moment: number for number, moment in enumerate(with_copy, first)}
    if with_copy:
        _bring(work, with_copy, numbers)
    if new:
        hold_numbers(work, taken.polls, max(past.time for past in new.values()))
        first = taken.polls - len(new) + 1
        work.connection.execute(
            insert(polls),
            [
                _row(number, past, numbers.get(moment))
                for number, (moment, past) in enumerate(new.items(), first)
            ],
        )
    attached = [
        {"which": there[moment], "new_version": number}
        for moment, number in numbers.items()
        if moment in there
    ]
    if attached:
        statement = update(polls).where(polls.c.id == bindparam("which"))
        work.connection.execute(statement.values(version=bindparam("new_version")), attached)
    return len(new) + len(attached)


def _there(work: Work, pasts: Sequence[Past]) -> dict[tuple[int, float], int]:
    """Return the polls there are of the same elements in the same time: element and moment to number."""
    times = [past.time for past in pasts]
    found: dict[tuple[int, float], int] = {}
    for some in chunks(sorted({past.element for past in pasts})):
        query = select(polls.c.element, polls.c.time, polls.c.id).where(
            polls.c.element.in_(some), polls.c.time.between(min(times), max(times))
        )
        found.update(((row.element, row.time), row.id) for row in work.connection.execute(query))
    return found


def _newest(work: Work, ids: set[int]) -> dict[int, float]:
    """Return the moments of the latest versions of elements."""
    found: dict[int, float] = {}
    for some in chunks(sorted(ids)):
        query = (
            select(standing.c.element, versions.c.time)
            .join(versions, versions.c.id == standing.c.version)
            .where(standing.c.element.in_(some))
        )
        found.update((row.element, row.time) for row in work.connection.execute(query))
    return found


def _bring(
    work: Work, pasts: Mapping[tuple[int, float], Past], numbers: Mapping[tuple[int, float], int]
) -> None:
    """Write versions, and what elements are known by from then on."""
    rows, last = [], {}
    for moment, past in pasts.items():
        copy = past.brought
        assert copy is not None  # noqa: S101  (the caller has looked)
        rows.append(
            {
                "id": numbers[moment], "element": past.element, "time": float(past.time),
                "digest": copy.digest, "size": int(copy.size), "media_type": text_of(copy.media_type),
                "modified": or_none(copy.modified), "first": past.outcome == "new",
                "meta": readable_json_of(copy.meta),
            }
        )  # fmt: skip
        last[past.element] = {
            "which": past.element,
            "new_version": numbers[moment],
            "new_fingerprint": text_of(copy.fingerprint or copy.digest),
            "new_validators": json_of(copy.validators),
            "new_detail": text_of(past.detail),
        }
    work.connection.execute(insert(versions), rows)
    names = ("version", "fingerprint", "validators", "detail")
    values: dict[str, object] = {name: bindparam(f"new_{name}") for name in names}
    statement = update(standing).where(standing.c.element == bindparam("which"))
    work.connection.execute(statement.values(values), list(last.values()))


def _row(number: int, past: Past, version: int | None) -> dict[str, object]:
    return {
        "id": number,
        "element": past.element,
        "time": float(past.time),
        "elapsed": or_none(past.elapsed),
        "outcome": past.outcome,
        "traffic": int(past.traffic),
        "seconds": float(past.seconds),
        "detail": text_of(past.detail),
        "version": version,
        "planned": past.planned,
        "predicted": or_none(past.predicted),
        "cost": float(past.traffic),  # so that the budget is neither charged nor paid back
    }
