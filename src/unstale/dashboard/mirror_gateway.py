"""How requests reach the mirror.

What waits for the store is done in threads, never in the event loop. What takes long and is asked for by
every page, such as the status of a million elements, is kept for a moment, and worked out once at a time
however many ask for it. Reads of copies are counted in memory and written together.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf, nan
from typing import Any, TypeVar, cast

from starlette.exceptions import HTTPException
from starlette.requests import Request

from unstale.errors import InvalidInput, Trouble
from unstale.mirror.engine.load_policy import load_policy
from unstale.mirror.engine.rehearsal import without_compiler
from unstale.mirror.mirror import Mirror
from unstale.mirror.reports.ideas import Ideas
from unstale.mirror.reports.status import Status, status
from unstale.mirror.reports.what_if import MirrorDemand, WhatIf, demand_of
from unstale.mirror.store.contract import Element

from .copy_freshness import CopyFreshness, FreshnessEstimator
from .next_polls import NextPoll, next_polls
from .reader_names import reader_name, secret_of

MOST_USER_READS_AN_HOUR = 200_000
"""Pairs of a user and an element, each a row of the store: readers may invent names. More are of nobody."""

_T = TypeVar("_T")
LARGEST_NUMBER = 2**62
"""No element, version or poll has such a number."""
_SECRET_SECONDS = 3600.0
"""For which the secret of names of users is kept in memory."""
_WRITE_READS_SECONDS = 2.0
"""After which reads are written."""
_REST_FACTOR = 10.0
"""What has taken a second is not done again for so many. Of the last two times the shorter one counts, as the
first may have compiled."""
_LEARNED_SECONDS, _WHAT_IF_SECONDS = 5.0, 15.0
"""For which what was learned of all elements, and what other budgets would buy, is taken as known."""
_WAIT_SECONDS = 0.5
"""For which a request waits for something new while there is something old."""


@dataclass(frozen=True, slots=True)
class _Kept:
    at: float
    rest: float
    """Seconds for which it is not worked out again."""
    value: object


@dataclass(frozen=True, slots=True)
class View:
    """What the pages say of all elements, from one reading of them."""

    status: Status
    next_polls: Sequence[NextPoll]
    demands: Mapping[str, MirrorDemand | InvalidInput]
    """By objective; or why there is none."""


def _view(mirror: Mirror) -> View:
    with mirror.store.begin() as t:
        now = mirror.clock.now()  # what is read is of this moment, however long that takes
        policy, state = load_policy(mirror.settings, t)
        demands: dict[str, MirrorDemand | InvalidInput] = {}
        for objective in dict.fromkeys(("freshness", "age", mirror.settings.objective)):
            try:
                demands[objective] = demand_of(policy, now, objective)
            except InvalidInput as error:
                demands[objective] = error
        return View(status(policy, state, t, now, mirror.settings), next_polls(policy, t, now), demands)


def numbered(mirror: Mirror, number: int) -> Element:
    """Return an element by its number, or say that there is none."""
    try:
        return mirror.numbered(number if 0 < number < LARGEST_NUMBER else 0)
    except InvalidInput:
        raise HTTPException(404, f"there is no element number {number} in this mirror") from None


class MirrorGateway:
    """A mirror that somebody else may be running, open for many requests at a time."""

    def __init__(
        self, mirror: Mirror, *, fresh_for: float = 2.0, threads: int = 8, patience: float = inf
    ) -> None:
        self.mirror = mirror
        self.patience = patience
        """Seconds after which a browser gets a page that says that the one it asked for is being computed."""
        self.trusted = False
        """Whether clients have shown a token."""
        self.fresh_for = fresh_for
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="unstale-dashboard")
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="unstale-dashboard-writer")
        """Of its own: while somebody else writes for long, others can still read."""
        self._kept: dict[str, _Kept] = {}
        self._took: dict[str, float] = {}
        """Seconds that each took the last time."""
        self._tasks: dict[str, asyncio.Task[object]] = {}
        self._reads: Counter[int] = Counter()
        self._user_reads: Counter[tuple[str, int]] = Counter()
        self._hour, self._pairs = 0.0, 0
        """The hour, and how many pairs of a user and an element were counted in it."""
        self._writing: asyncio.Task[None] | None = None
        self._begun: set[asyncio.Task[None]] = set()

    def begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begin something that goes on beside requests, and ends with this at the latest."""
        task = asyncio.create_task(work)
        self._begun.add(task)
        task.add_done_callback(self._begun.discard)
        return task

    async def do(self, work: Callable[[Mirror], _T]) -> _T:
        """Do something that may wait for the store or take a while, in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, self.mirror)

    async def ideas(self) -> Ideas:
        """Return what ideas of the papers would buy."""
        return await self.kept("ideas", lambda mirror: mirror.ideas(), fresh_for=_WHAT_IF_SECONDS)

    async def ideas_at_once(self) -> Ideas | None:
        """Return the same if nothing has to be compiled for it, which would take some seconds; else None."""
        return await self.kept(
            "ideas at once", lambda mirror: without_compiler(mirror.ideas), fresh_for=_WHAT_IF_SECONDS
        )

    async def change(self, work: Callable[[Mirror], _T], *, forget: bool = True) -> _T:
        """Do something that writes to the store, one after the other; then look anew at everything."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._writer, work, self.mirror)
        finally:
            if forget:
                self.forget()

    async def kept(self, name: str, work: Callable[[Mirror], _T], *, fresh_for: float | None = None) -> _T:
        """Do something at most once in a while, and return what it gave the last time.

        What takes long is done less often, and who asks meanwhile gets what there was before.
        """
        limit = self.fresh_for if fresh_for is None else fresh_for
        if limit <= 0:
            return await self.do(work)
        before = self._kept.get(name)
        if before is not None and time.monotonic() <= before.at + max(limit, before.rest):
            return cast("_T", before.value)
        task = self._tasks.get(name)
        if task is None:
            task = self._tasks[name] = asyncio.create_task(self._renew(name, work, self._kept))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())  # somebody has looked
        if before is not None and not (await asyncio.wait({task}, timeout=_WAIT_SECONDS))[0]:
            return cast("_T", before.value)
        return cast("_T", await asyncio.shield(task))

    async def _renew(self, name: str, work: Callable[[Mirror], object], kept: dict[str, _Kept]) -> object:
        began = time.monotonic()
        try:
            value = await self.do(work)
            took = time.monotonic() - began
            rest = _REST_FACTOR * min(took, self._took.get(name, 0.0))
            self._took[name] = took
            kept[name] = _Kept(time.monotonic(), rest, value)
            return value
        finally:
            if self._kept is kept:  # nothing has been forgotten meanwhile
                self._tasks.pop(name, None)

    def forget(self) -> None:
        """Look anew at everything: something has been changed from here."""
        self._kept, self._tasks = {}, {}

    async def view(self) -> View:
        """Return how the mirror does; at most some seconds old."""
        return await self.kept("view", _view)

    async def status(self) -> Status:
        """Return how fresh the mirror is; at most some seconds old."""
        return (await self.view()).status

    async def demand(self, objective: str) -> MirrorDemand:
        """Return what elements ask for, for an objective."""
        demands = (await self.view()).demands
        if objective not in demands:
            raise InvalidInput(f"objective must be one of {', '.join(demands)}; it is {objective!r}")
        demand = demands[objective]
        if isinstance(demand, InvalidInput):
            raise InvalidInput(str(demand))
        return demand

    async def what_if(self, objective: str) -> WhatIf:
        """Return what other budgets would buy; at most some seconds old."""
        demand = await self.demand(objective)
        return await self.kept(f"what if {objective}", lambda _: demand.what_if(), fresh_for=_WHAT_IF_SECONDS)

    async def reader_of(self, request: Request) -> str | None:
        """Return the name of the user of a request, as the store keeps it; None if it tells of none."""
        users = self.mirror.settings.reads.users
        if users == "no":
            return None
        secret = await self.kept("reader secret", secret_of, fresh_for=_SECRET_SECONDS)
        return reader_name(request, users, secret)

    async def freshness_estimator(self) -> FreshnessEstimator:
        """Return what was learned of all elements together; some seconds old."""
        return await self.kept("learned", FreshnessEstimator, fresh_for=_LEARNED_SECONDS)

    async def freshness_of(self, elements: Sequence[Element]) -> dict[int, CopyFreshness]:
        """Return how fresh the copies of elements are and how often they change, by number."""
        estimator = await self.freshness_estimator()

        def look(mirror: Mirror) -> dict[int, CopyFreshness]:
            with mirror.store.begin() as t:
                columns = t.load([element.id for element in elements])
                return estimator.of_many(columns, mirror.clock.now())

        found = await self.do(look)
        for element in elements:
            if element.version is None and element.id in found:  # it was polled, and is not there
                found[element.id] = replace(found[element.id], fresh=nan, age=nan)
        return found

    def read(self, element: int, user: str | None = None) -> None:
        """Count a read of a copy, by a user if one is told."""
        self._reads[element] += 1
        if user is not None:
            hour = time.time() // 3600.0
            if hour != self._hour:
                self._hour, self._pairs = hour, 0
            if (user, element) not in self._user_reads:
                self._pairs += 1
            if self._pairs <= MOST_USER_READS_AN_HOUR or (user, element) in self._user_reads:
                self._user_reads[user, element] += 1
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_soon())

    async def _write_soon(self) -> None:
        await asyncio.sleep(_WRITE_READS_SECONDS)
        await self._write()

    async def _write(self) -> None:
        reads, self._reads = self._reads, Counter()
        by_users, self._user_reads = self._user_reads, Counter()
        if not reads:
            return

        def write(mirror: Mirror) -> None:
            with mirror.store.begin() as t:
                t.read(reads, mirror.clock.now())
                t.read_by_users(by_users, mirror.clock.now())

        try:
            loop = asyncio.get_running_loop()
            await asyncio.shield(loop.run_in_executor(self._writer, write, self.mirror))  # also when we close
        except (Trouble, OSError):  # they are written with the next ones
            self._reads.update(reads)
            self._user_reads.update(by_users)

    async def close(self) -> None:
        """Write what has been counted, and let go of the mirror."""
        for task in (self._writing, *self._begun):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        await self._write()
        for threads in (self._writer, self._threads):
            threads.shutdown(wait=True, cancel_futures=True)
        self.mirror.close()
