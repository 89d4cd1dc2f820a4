"""How old polls leave the tables, and how they are read from where they are.

Each step is whole, and a crash between two repeats one: the file of a span is put; then the span leaves the
tables, in one transaction that also says how far polls have left them; then rows of an SQLite file are
deleted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from math import inf

from unstale.errors import Trouble
from unstale.mirror.store.contract import PollRecord
from unstale.mirror.store.poll_archive import PollArchive

from .poll_spans import PollSpan, close_span, delete_moved, moved, oldest_span
from .polls import list_polls
from .transaction import SqlTransaction

Begin = Callable[[], AbstractContextManager[SqlTransaction]]
"""What begins a transaction of a store."""
_ROWS_AT_ONCE = 5000


class _EnoughError(Exception):
    """The rest is left for another time."""


def move_polls(
    begin: Begin, archive: PollArchive, *, before: float, most: int, heard: int, enough: Callable[[], bool]
) -> int:
    """Let old spans leave the tables, delete files of polls before a moment; return how many polls left.

    A span leaves if it is so old that it is deleted, or if there are more than ``most`` polls in the tables;
    then it is kept in a file. Polls after the last that the planner has ``heard`` of stay.
    """
    gone = 0
    try:
        while not enough():
            with begin() as work:
                found = oldest_span(work.connection, before, most, heard)
            if found is None:
                break
            span, ends = found
            if ends >= before:
                if (lacking := archive.lacking()) is not None:
                    raise Trouble(f"tables hold more than {most:,} polls, and old ones stay there: {lacking}")
                archive.write(span.first, span.last, _rows_of(begin, span, enough))
            with begin() as work:
                if not close_span(work, span):
                    break
            gone += span.last - span.first + 1
        _delete_rows(begin, enough)
        if before > -inf and not enough():
            with begin() as work:
                until = moved(work.connection)
            if until:
                archive.delete(before, until)
    except _EnoughError:
        pass
    return gone


def _rows_of(begin: Begin, span: PollSpan, enough: Callable[[], bool]) -> Iterator[list[PollRecord]]:
    """Read the polls of a span, some at a time; whoever wants the database gets as much time in between."""
    after = span.first - 1
    while True:
        if enough():
            raise _EnoughError
        began = time.monotonic()
        with begin() as work:
            found = list_polls(work, None, _ROWS_AT_ONCE, after, until=span.last)
        if not found:
            return
        yield found
        after = found[-1].id
        time.sleep(time.monotonic() - began)


def _delete_rows(begin: Begin, enough: Callable[[], bool]) -> None:
    """Delete rows of spans that have left the tables; others write in between."""
    while not enough():
        began = time.monotonic()
        with begin() as work:
            if not delete_moved(work):
                return
        time.sleep(time.monotonic() - began)


def all_polls(begin: Begin, archive: PollArchive, after: int = 0) -> Iterator[list[PollRecord]]:
    """Return all polls after one, some at a time, in the order of their numbers: files, then tables."""
    while True:
        with begin() as work:
            found = list_polls(work, None, _ROWS_AT_ONCE, max(after, 0), oldest_first=True)
            until = moved(work.connection)  # later, so that none can have left unseen
        if until > after:
            for span in archive.spans(until):
                if span.last > after:
                    for some in archive.read(span, after):
                        yield some
                        after = some[-1].id
            after = max(after, until)
            continue
        if not found:
            return
        yield found
        after = found[-1].id


def archived_moments(
    begin: Begin, archive: PollArchive, elements: Sequence[int], first: float, last: float
) -> set[tuple[int, float]]:
    """Return (element, moment) of polls of some elements in some time that have left the tables."""
    with begin() as work:
        until = moved(work.connection)
    found: set[tuple[int, float]] = set()
    if until:
        for span in archive.spans(until):
            found |= archive.moments(span, set(elements), first, last)
    return found
