"""Imports what another tool watches and has seen; all of it was read before, so mistakes cost nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from math import nan

from unstale.errors import InvalidInput
from unstale.mirror.mirror import Mirror
from unstale.mirror.source import Json, New
from unstale.mirror.store.sql.imported_polls import Past, numbers_by_key, recall
from unstale.tables import Column, open_records

from .foreign_mirror import ForeignElement, ForeignMirror, ForeignPoll

__all__ = ["TakenOver", "bring", "write_changes"]

_ROWS_AT_ONCE = 10_000


@dataclass
class TakenOver:
    """What became of it."""

    added: int = 0
    known: int = 0
    polls: int = 0
    """That were not there already."""
    left_out: list[tuple[str, str]] = field(default_factory=list)
    polls_per_day: float = 0.0
    """That the other tool made, as far as is known."""


def bring(
    mirror: Mirror, found: ForeignMirror, *, allow: Collection[str] = (), keep_intervals: bool = False
) -> TakenOver:
    """Add elements and the polls that were made of them.

    The author of the files has chosen the elements, so only those of the web come in, unless ``allow`` names
    others. An element that is there keeps what was said of it. What is there already is not counted again,
    so that an import which was interrupted can be run again.

    Parameters
    ----------
    mirror
        into which it comes
    found
        what was read
    allow
        as for all imports
    keep_intervals
        whether each element is to be polled at least as often as it was
    """
    done = TakenOver(left_out=list(found.left_out), polls_per_day=found.polls_per_day)

    def said(one: ForeignElement) -> tuple[float, tuple[str, ...]]:
        return max(one.every, 1.0) if keep_intervals and one.every else 0.0, one.tags

    there = set(_keys(mirror, found).values())  # these stay as they are, paused or not
    for (every, tags), some in groupby(sorted(found.elements.values(), key=said), said):
        given: dict[str, Json] = {"max_age": every} if every else {}
        if tags:
            given["tags"] = [*tags]
        added = mirror.add_many((New(one.key, one.source, one.options) for one in some), given, allow=allow)
        done.added, done.known = done.added + added.added, done.known + added.known
        done.left_out += added.refused
    keys = _keys(mirror, found)
    mirror.pause(name for key, name in keys.items() if found.elements[key].paused and name not in there)
    polls = sorted((one for one in found.polls if one.key in keys), key=lambda one: (one.key, one.time))
    for start in range(0, len(polls), _ROWS_AT_ONCE):
        done.polls += _recall(
            mirror, polls[start : start + _ROWS_AT_ONCE], keys, polls[start - 1] if start else None
        )
    return done


def _keys(mirror: Mirror, found: ForeignMirror) -> dict[str, str]:
    """Return under which keys elements are in the store, for those that are."""
    discovery, written = mirror.discovery(), {}
    for one in found.elements.values():
        try:
            written[one.key] = discovery.addition(New(one.key, one.source, one.options), {}).key
        except InvalidInput:
            continue
    with mirror.store.begin() as t:
        there = numbers_by_key(t, set(written.values()))
    return {key: name for key, name in written.items() if name in there}


def _recall(
    mirror: Mirror, polls: list[ForeignPoll], keys: Mapping[str, str], before: ForeignPoll | None
) -> int:
    latest = mirror.clock.now()
    with mirror.store.begin() as t:
        numbers = numbers_by_key(t, {keys[one.key] for one in polls})
        pasts = []
        for one in polls:
            seen = before is not None and before.key == one.key
            elapsed = one.time - before.time if seen and before is not None else nan
            if one.time <= latest:
                pasts.append(Past(numbers[keys[one.key]], one.time, one.outcome, elapsed=elapsed))
            before = one if one.outcome != "failed" or not seen else before
        return recall(t, pasts)


def write_changes(found: ForeignMirror, path: str) -> int:
    """Write when elements changed, for ``unstale lab shootout``; return how many rows there are."""
    rows = [
        (one.key, one.time)
        for one in sorted(found.polls, key=lambda one: (one.key, one.time))
        if one.outcome in {"new", "changed"}
    ]
    with open_records(path, (Column("element", "label"), Column("t", "time"))) as write:
        write(rows)
    return len(rows)
