"""The hands of a worker: they make the polls that it has taken.

Each poll waits for its slot, and then for a free hand; a group has no more polls at a time than it may have.
A poll that could not start in time is given back, and so is one whose group has been told to wait meanwhile.
Whatever goes wrong in a source is the outcome of that poll alone.
"""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from math import inf
from pathlib import Path
from typing import get_args

from unstale.errors import Trouble
from unstale.mirror.clock import Clock
from unstale.mirror.settings import Settings
from unstale.mirror.source import Found, Late, Outcome, Source, Terms
from unstale.mirror.sources.registry import source_named
from unstale.mirror.store.contract import Finished, Lease
from unstale.mirror.store.copies import Copies

from .policy import GRACE

__all__ = ["Hands"]

_PATIENCE = 5.0
"""Seconds beyond its time-out after which a poll is stopped."""
_CROWD = 0.6 * GRACE
"""Seconds for which polls of a group may wait for each other."""
_LONGEST = 60.0
"""Seconds between two attempts to write a copy, at most."""
_OUTCOMES = frozenset(get_args(Outcome))
_AGAIN = 5.0
"""Seconds for which a poll that could not be made for want of a place for its content keeps a hand busy."""
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}


class Hands:
    """Makes polls, so many at a time; ``done`` is called with each that is over."""

    def __init__(
        self,
        sources: Mapping[str, Source],
        copies: Copies,
        settings: Settings,
        clock: Clock,
        *,
        done: Callable[[Finished], None],
        trouble: Callable[[BaseException], object],
        mended: Callable[[float], object],
        own: tuple[Path, ...] = (),
    ) -> None:
        self._sources, self._copies, self._settings, self._clock = sources, copies, settings, clock
        self._done, self._trouble, self._mended, self._own = done, trouble, mended, own
        self.in_hand = 0
        """Polls that have been taken and are not over."""
        self.share = 1
        """How many workers share the budget of bytes."""
        self._known: dict[str, Source] = {}
        self._timers: dict[asyncio.Task[None], deque[Lease]] = {}
        self._waiting: deque[Lease] = deque()
        self._behind: dict[int, deque[Lease]] = {}
        """Polls that wait for others of their group."""
        self._running: dict[int, int] = {}
        self._most: dict[int, int] = {}
        self._blocked: dict[int, float] = {}
        self._spacing: dict[int, float] = {}
        self._takes: dict[int, float] = {}
        self._workers: dict[asyncio.Task[None], tuple[Lease, float] | None] = {}
        self._late: set[asyncio.Task[None]] = set()
        self._leaving = self._prepared = False
        self._space: Callable[[int], float] = lambda _: 0.0
        self._idle = asyncio.Event()
        self._paid = -inf

    # --- taking polls ---------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Load what polls of pages need, before their slots are given: that takes a while."""
        if not self._prepared:
            self._prepared = True
            with suppress(Exception):  # polls will tell
                getattr(self._sources.get("http"), "load", int)()

    def take(
        self, leases: Sequence[Lease], most: Callable[[int], int], spacing: Callable[[int], float]
    ) -> None:
        """Take polls; ``most`` tells how many of a group may run at a time, ``spacing`` how far apart."""
        if not leases:
            return
        self._space = spacing
        self.in_hand += len(leases)
        self._idle.clear()
        later = []
        for lease in leases:
            self._most[lease.group] = most(lease.group)
            if self._clock.reached(lease.slot):
                self._waiting.append(lease)
            else:
                later.append(lease)
        if later:
            ordered = deque(sorted(later, key=lambda lease: lease.slot))
            timer = asyncio.create_task(self._wait(ordered))
            self._timers[timer] = ordered
            timer.add_done_callback(self._timers.pop)
        self._hire()

    async def _wait(self, leases: deque[Lease]) -> None:
        """Let polls go on at their slots."""
        while leases:
            await self._clock.until(leases[0].slot)
            while leases and self._clock.reached(leases[0].slot):
                self._waiting.append(leases.popleft())
            self._hire()

    def _hire(self) -> None:
        """Have as many hands as there is work for."""
        for _ in range(min(len(self._waiting), self._settings.concurrency - len(self._workers))):
            worker = asyncio.create_task(self._work())
            self._workers[worker] = None
            worker.add_done_callback(self._fired)

    def _fired(self, worker: asyncio.Task[None]) -> None:
        self._workers.pop(worker, None)
        self._late.discard(worker)
        if not worker.cancelled() and (error := worker.exception()) is not None:
            self._trouble(error)
        self._hire()

    async def _work(self) -> None:
        """Make polls as long as there are any."""
        me = asyncio.current_task()
        assert me is not None  # noqa: S101
        while self._waiting:
            lease = self._waiting.popleft()
            group = lease.group
            running = self._running.get(group, 0)
            if running >= self._most[group]:
                self._behind.setdefault(group, deque()).append(lease)
                continue
            now = self._clock.now()
            if self._leaving or now > lease.slot + lease.late or now < self._blocked.get(group, -inf):
                self._give_back(lease)
                self._next_of(group)
                continue
            self._running[group] = running + 1
            self._workers[me] = lease, now
            finished: Finished | None = None
            try:
                with self._clock.busy():
                    finished = await self._poll(lease, now)
            except asyncio.CancelledError:
                if me not in self._late:
                    raise
                self._late.discard(me)
                me.uncancel()
                words = f"no answer within {self._timeout:g} seconds"
                found = Found("failed", words)
                finished = Finished(lease, now, self._clock.now() - now, found, outcome="failed")
            finally:
                self._workers[me] = None
                self._running[group] -= 1
                if finished is None:
                    finished = Finished(lease, now, 0.0, None)
                took = finished.seconds
                self._takes[group] = 0.9 * self._takes.get(group, took) + 0.1 * took
                self._next_of(group)
                self._over(finished)

    def _next_of(self, group: int) -> None:
        """Let the next poll of a group go on that waited for others of it."""
        if behind := self._behind.get(group):
            self._waiting.append(behind.popleft())

    def _give_back(self, lease: Lease) -> None:
        self._over(Finished(lease, self._clock.now(), 0.0, None))

    def _over(self, finished: Finished) -> None:
        self.in_hand -= 1
        if not self.in_hand:
            self._idle.set()
        self._done(finished)

    def crowd(self) -> dict[int, float]:
        """Return how many polls of each group can start, one after the other, before the last is too late."""
        return {group: min(max(_CROWD / max(took, 1e-4), 1.0), 1e3) for group, took in self._takes.items()}

    def watch(self) -> None:
        """Stop polls that take far too long."""
        now = self._clock.now()
        for worker, doing in self._workers.items():
            if doing is not None and now > doing[1] + self._timeout + _PATIENCE and worker not in self._late:
                self._late.add(worker)
                worker.cancel()

    async def finish(self) -> None:
        """Wait until all polls are over."""
        while self.in_hand:
            await self._idle.wait()

    def give_back_all(self) -> None:
        """Give back what has not begun."""
        for timer in self._timers:
            timer.cancel()
        for leases in (*self._timers.values(), self._waiting, *self._behind.values()):
            while leases:
                self._give_back(leases.popleft())

    def shift(self, by: float) -> None:
        """Take in that the time has been set: what had been meant for moments that are others now."""
        self.give_back_all()
        self._blocked = {group: moment + by for group, moment in self._blocked.items()}
        self._workers = {
            worker: doing and (doing[0], doing[1] + by) for worker, doing in self._workers.items()
        }
        self._paid += by

    async def leave(self) -> None:
        """Give back what has not begun, and wait for what has."""
        self._leaving = True
        self.give_back_all()
        if self._workers:
            await asyncio.wait(list(self._workers), timeout=self._timeout + _PATIENCE)
        for worker in list(self._workers):
            worker.cancel()
        await asyncio.gather(*self._workers, *self._timers, return_exceptions=True)

    # --- a poll ---------------------------------------------------------------------------------------------

    @cached_property
    def _terms(self) -> Terms:
        spend = self._spend if self._settings.byte_budget else None
        return Terms(self._copies.scratch, self._settings.max_size, self._timeout, spend, self._own)

    @property
    def longest(self) -> float:
        """Seconds after which a poll that has begun is over in any case."""
        return self._timeout + 2.0 * _PATIENCE

    @property
    def _timeout(self) -> float:
        """Seconds that a poll may take; bytes that must be waited for have their own time."""
        settings = self._settings
        extra = settings.max_size / settings.byte_budget if settings.byte_budget else 0.0
        return settings.timeout + extra

    def _terms_of(self, lease: Lease) -> Terms:
        """Return the terms of a poll, which must begin in time if its group has a spacing."""
        if lease.late >= GRACE:
            return self._terms

        def start() -> None:
            now = self._clock.now()
            if now <= lease.slot + lease.late:
                return
            if self.share > 1:
                raise Late
            # who is alone sees to it that the next ones of the group keep their distance
            until = now + self._space(lease.group)
            self._blocked[lease.group] = max(self._blocked.get(lease.group, -inf), until)

        return replace(self._terms, start=start)

    async def _spend(self, count: int) -> None:
        """Wait until so many more bytes are paid for."""
        rate = (self._settings.byte_budget or inf) / self.share
        self._paid = max(self._paid, self._clock.now()) + count / rate
        await self._clock.pause(self._paid)

    async def _poll(self, lease: Lease, began: float) -> Finished:
        """Ask the source, and make what it brings a copy."""
        source = self._known.get(lease.source)
        if source is None:
            source = self._known[lease.source] = source_named(self._sources, lease.source)
        try:
            found = await source.poll(lease.known, self._terms_of(lease))
        except Late as late:
            if self._settings.byte_budget and late.traffic:  # others pay for it
                rate = self._settings.byte_budget / self.share
                self._paid = max(self._paid, self._clock.now()) + late.traffic / rate
            return Finished(lease, began, 0.0, None)
        except Exception as error:  # noqa: BLE001  (a source may be anybody's; it must not stop the others)
            if self._ours(error):  # the element is not to blame; it is polled again
                self._trouble(error)
                await asyncio.sleep(_AGAIN)
                return Finished(lease, began, self._clock.now() - began, None)
            found = Found("failed", f"the source {lease.source!r} failed: {type(error).__name__}: {error}")
        if found.wait:  # others of the group that were taken must wait, too
            self._blocked[lease.group] = self._clock.now() + found.wait
        if found.spacing and found.spacing > self._spacing.get(lease.group, 0.0):  # nobody knew of it
            self._spacing[lease.group] = found.spacing
            self._blocked[lease.group] = max(self._blocked.get(lease.group, -inf), began + found.spacing)
        if wrong := _wrong(lease, found):
            found = Found("failed", wrong, traffic=found.traffic)
        if found.outcome != "changed":
            return Finished(lease, began, self._clock.now() - began, found, outcome=found.outcome)
        return await self._copy(lease, found, began)

    def _ours(self, error: Exception) -> bool:
        """Tell whether it is our own folder of copies that kept a source from polling."""
        if not isinstance(error, OSError) or isinstance(error, Trouble):
            return isinstance(error, Trouble)
        return error.errno in _FULL or str(error.filename or "").startswith(str(self._copies.folder))

    async def _copy(self, lease: Lease, found: Found, began: float) -> Finished:
        """Keep content if it is new."""
        body, known = found.body, lease.known.fingerprint
        assert body is not None  # noqa: S101
        slim, seconds = replace(found, body=None), self._clock.now() - began
        same = Finished(lease, began, seconds, slim, outcome="unchanged", fingerprint=known)
        if found.fingerprint is not None and found.fingerprint == known:
            if not isinstance(body, bytes):
                await asyncio.to_thread(self._copies.discard, body)
            return same
        pause = 0.5
        while True:
            before, written = self._clock.now(), self._copies.written
            try:
                digest, size = await asyncio.to_thread(self._copies.put, body)
                if self._copies.written > written:  # not if it was there already
                    self._mended(before)
                break
            except (Trouble, OSError) as error:  # what was fetched is not thrown away
                self._trouble(error)
                if self._leaving:
                    return Finished(lease, began, seconds, None)
                await asyncio.sleep(pause)
                pause = min(2.0 * pause, _LONGEST)
        fingerprint = found.fingerprint or digest
        if fingerprint == known:
            return same
        return Finished(
            lease, began, seconds, slim, digest=digest, size=size, fingerprint=fingerprint,
            outcome="new" if known is None else "changed",
        )  # fmt: skip


def _wrong(lease: Lease, found: Found) -> str:
    """Return what a source has said that cannot be; empty if nothing."""
    if found.outcome not in _OUTCOMES:
        return f"the source {lease.source!r} said {found.outcome!r}, which is no outcome"
    if found.outcome == "changed" and found.body is None:
        return "the source told of a change without content"
    return ""
