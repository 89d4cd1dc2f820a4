"""The poll runner: steps 3, 4 and 5 of a poll.

A lease waits for its slot, and then until fewer polls run than may (3). The source polls the element (4), and
what it brings becomes a copy (5). A poll that cannot begin in time is given back, and so is one whose group
has been told to wait meanwhile. Whatever goes wrong in a source is the outcome of that poll alone.

The runner asks nobody: a lease says what it must keep to.
"""

from __future__ import annotations

import asyncio
import errno
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from pathlib import Path
from typing import get_args

from unstale.errors import Trouble
from unstale.mirror.clock import Clock
from unstale.mirror.settings import Settings
from unstale.mirror.source import Found, Late, Outcome, Source, Terms, WarmSource
from unstale.mirror.sources.registry import source_named
from unstale.mirror.store.contract import Finished, Lease
from unstale.mirror.store.copies import Copies
from unstale.quantities import show_duration

from .load_policy import GRACE_SECONDS

__all__ = ["PollRunner"]

PATIENCE_SECONDS = 5.0
"""Beyond its time-out, after which a poll is stopped."""
_QUEUE_IN_GROUP_SECONDS = 0.6 * GRACE_SECONDS
"""For which polls of a group may wait for each other."""
_FIRST_COPY_PAUSE_SECONDS, _LONGEST_COPY_PAUSE_SECONDS = 0.5, 60.0
"""Between two attempts to write a copy, at first and at most."""
_NO_ROOM_PAUSE_SECONDS = 5.0
"""For which a poll that found no room for its content counts as running: others need not try at once."""
_OUTCOMES = frozenset(get_args(Outcome))
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}


@dataclass(slots=True)
class _GroupInHand:
    """What the runner knows of a group whose polls it makes."""

    running: int = 0
    """Polls of it that run now."""
    behind: deque[Lease] = field(default_factory=deque)
    """Polls that wait for those."""
    blocked_until: float = -inf
    """Until when polls of it that were taken before must be given back."""
    told_spacing: float = 0.0
    """Seconds between two polls that its source has asked for."""
    seconds: float | None = None
    """How long a poll of it takes, on average; None if none was made."""


@dataclass(slots=True)
class _Begun:
    """A poll that runs; if the clock is set meanwhile, its moments are moved when it is over."""

    lease: Lease
    began: float
    stopped: str = ""
    """Why the runner has stopped it; empty if it has not."""
    moved: float = 0.0
    """By how many seconds the clock has been set since it began."""


class PollRunner:
    """Makes polls, so many at a time.

    Parameters
    ----------
    finished
        is called with each poll that is over, or given back
    trouble, copied
        are called with what keeps copies from being written; and, when one was written, with the moment at
        which that began
    own
        files and folders of the mirror itself, which no source may take for elements
    """

    def __init__(
        self,
        sources: Mapping[str, Source],
        copies: Copies,
        settings: Settings,
        clock: Clock,
        *,
        finished: Callable[[Finished], None],
        trouble: Callable[[BaseException], object],
        copied: Callable[[float], object],
        own: tuple[Path, ...] = (),
    ) -> None:
        self._sources, self._copies, self._settings, self._clock = sources, copies, settings, clock
        self._finished, self._trouble, self._copied, self._own = finished, trouble, copied, own
        self.in_hand = 0
        """Polls that have been taken and are not over."""
        self.share = 1
        """How many workers share the budget of bytes."""
        self.bytes_kept = 0.0
        """Seconds of the budget of bytes that are in reserve."""
        self._used_sources: dict[str, Source] = {}
        self._timers: dict[asyncio.Task[None], deque[Lease]] = {}
        """Tasks that wait for slots, each with its leases in order."""
        self._ready: deque[Lease] = deque()
        """Leases whose slots have come."""
        self._pollers: dict[asyncio.Task[None], _Begun | None] = {}
        """Tasks that make polls, each with the one that it makes now."""
        self._groups: defaultdict[int, _GroupInHand] = defaultdict(_GroupInHand)
        self._leaving = False
        self._nothing_in_hand = asyncio.Event()
        self._bytes_paid_until = -inf
        """The moment up to which the budget of bytes is spent, by polls that wait for their bytes."""

    # --- taking leases --------------------------------------------------------------------------------------

    def warm_up(self, names: Iterable[str]) -> None:
        """Let sources load what their polls need, before slots are given: that may take a while."""
        for name in sorted(names):
            with suppress(Exception):  # its polls will say what is wrong
                source = source_named(self._sources, name)
                if isinstance(source, WarmSource):
                    source.warm_up()

    def take(self, leases: Sequence[Lease]) -> None:
        """Take leases, each to be polled at its slot."""
        if not leases:
            return
        self.in_hand += len(leases)
        self._nothing_in_hand.clear()
        later = []
        for lease in leases:
            if self._clock.reached(lease.slot.start):
                self._ready.append(lease)
            else:
                later.append(lease)
        if later:
            ordered = deque(sorted(later, key=lambda lease: lease.slot.start))
            timer = asyncio.create_task(self._wait_for_slots(ordered))
            self._timers[timer] = ordered
            timer.add_done_callback(self._timers.pop)
        self._start_pollers()

    async def _wait_for_slots(self, leases: deque[Lease]) -> None:
        """Make leases ready as their slots come."""
        while leases:
            await self._clock.until(leases[0].slot.start)
            while leases and self._clock.reached(leases[0].slot.start):
                self._ready.append(leases.popleft())
            self._start_pollers()

    def _start_pollers(self) -> None:
        """Have as many tasks that poll as there is work for, and as may be."""
        for _ in range(min(len(self._ready), self._settings.concurrency - len(self._pollers))):
            poller = asyncio.create_task(self._make_polls())
            self._pollers[poller] = None
            poller.add_done_callback(self._poller_ended)

    def _poller_ended(self, poller: asyncio.Task[None]) -> None:
        self._pollers.pop(poller, None)
        if not poller.cancelled() and (error := poller.exception()) is not None:
            self._trouble(error)
        self._start_pollers()

    async def _make_polls(self) -> None:
        """Make polls as long as any are ready."""
        me = asyncio.current_task()
        assert me is not None  # noqa: S101
        while self._ready:
            lease = self._ready.popleft()
            group, slot = self._groups[lease.slot.group], lease.slot
            if group.running >= slot.concurrency:
                group.behind.append(lease)
                continue
            now = self._clock.now()
            if self._leaving or now > slot.start + slot.late or now < group.blocked_until:
                self._give_back(lease)
                self._let_next_go(group)
                continue
            group.running += 1
            begun = self._pollers[me] = _Begun(lease, now)
            finished: Finished | None = None
            try:
                with self._clock.busy():
                    finished = await self._poll(begun)
            except asyncio.CancelledError:
                if not begun.stopped:
                    raise
                me.uncancel()
                found = Found("failed", begun.stopped)
                finished = self._over(begun, found, outcome="failed")
            finally:
                self._pollers[me] = None
                group.running -= 1
                if finished is None:
                    finished = Finished(lease, now, 0.0, None)
                took = finished.seconds
                group.seconds = took if group.seconds is None else 0.9 * group.seconds + 0.1 * took
                self._let_next_go(group)
                self._hand_over(finished.moved(begun.moved) if begun.moved else finished)

    def _let_next_go(self, group: _GroupInHand) -> None:
        """Make the next poll ready that waited for others of its group."""
        if group.behind:
            self._ready.append(group.behind.popleft())

    def _give_back(self, lease: Lease) -> None:
        self._hand_over(Finished(lease, self._clock.now(), 0.0, None))

    def _hand_over(self, finished: Finished) -> None:
        self.in_hand -= 1
        if not self.in_hand:
            self._nothing_in_hand.set()
        self._finished(finished)

    def crowd(self) -> dict[int, float]:
        """Return how many polls of each group can start, one after the other, before the last is too late."""
        return {
            number: min(max(_QUEUE_IN_GROUP_SECONDS / max(group.seconds, 1e-4), 1.0), 1e3)
            for number, group in self._groups.items()
            if group.seconds is not None
        }

    def stop_slow_polls(self) -> None:
        """Stop polls that take far too long."""
        now = self._clock.now()
        for poller, begun in self._pollers.items():
            if begun is None or begun.stopped:
                continue
            if now - begun.moved > begun.began + self._timeout + PATIENCE_SECONDS:
                begun.stopped = f"no answer within {self._timeout:g} seconds"
                poller.cancel()

    def give_up_polls(self) -> None:
        """Stop all polls that have begun: the mirror is to end, and nobody waits longer."""
        for poller, begun in self._pollers.items():
            if begun is not None and not begun.stopped:
                waited = self._clock.now() - begun.moved - begun.began
                span = show_duration(float(max(round(waited), 1)))
                begun.stopped = f"no answer in {span}, when the mirror was stopped"
                poller.cancel()

    async def finish(self) -> None:
        """Wait until all polls are over."""
        while self.in_hand:
            await self._nothing_in_hand.wait()

    def give_back_all(self) -> None:
        """Give back what has not begun."""
        for timer in self._timers:
            timer.cancel()
        behind = (group.behind for group in self._groups.values())
        for leases in (*self._timers.values(), self._ready, *behind):
            while leases:
                self._give_back(leases.popleft())

    def move(self, by: float) -> None:
        """Take in that the clock was set: what has not begun was meant for moments that are others now."""
        self.give_back_all()
        for group in self._groups.values():
            group.blocked_until += by
        for begun in self._pollers.values():
            if begun is not None:
                begun.moved += by
        self._bytes_paid_until += by

    async def leave(self) -> None:
        """Give back what has not begun, and wait for what has."""
        self._leaving = True
        self.give_back_all()
        if self._pollers:
            await asyncio.wait(list(self._pollers), timeout=self._timeout + PATIENCE_SECONDS)
        for poller in list(self._pollers):
            poller.cancel()
        await asyncio.gather(*self._pollers, *self._timers, return_exceptions=True)

    # --- a poll ---------------------------------------------------------------------------------------------

    @property
    def longest(self) -> float:
        """Seconds after which a poll that has begun is over in any case."""
        return self._timeout + 2.0 * PATIENCE_SECONDS

    @property
    def _timeout(self) -> float:
        """Seconds that a poll may take; bytes that must be waited for have their own time."""
        settings = self._settings
        extra = settings.max_size / settings.byte_budget if settings.byte_budget else 0.0
        return settings.timeout + extra

    @cached_property
    def _terms(self) -> Terms:
        spend = self._spend if self._settings.byte_budget else None
        return Terms(self._copies.scratch, self._settings.max_size, self._timeout, spend, self._own)

    def _terms_of(self, begun: _Begun) -> Terms:
        """Return the terms of a poll, which must begin in time if its group has a spacing."""
        slot = begun.lease.slot
        if slot.late >= GRACE_SECONDS:
            return self._terms

        def start() -> None:
            now = self._clock.now()
            if now - begun.moved <= slot.start + slot.late:
                return
            if self.share > 1:
                raise Late
            # a worker that is alone sees to it that the next polls of the group keep their distance
            group = self._groups[slot.group]
            group.blocked_until = max(group.blocked_until, now + slot.spacing)

        return replace(self._terms, start=start)

    def _charge(self, count: int) -> None:
        """Charge the budget of bytes for so many."""
        rate = (self._settings.byte_budget or inf) / self.share
        since = max(self._bytes_paid_until, self._clock.now() - self.bytes_kept)
        self._bytes_paid_until = since + count / rate

    async def _spend(self, count: int) -> None:
        """Wait until so many more bytes are paid for."""
        self._charge(count)
        await self._clock.pause(self._bytes_paid_until)

    async def _poll(self, begun: _Begun) -> Finished:
        """Let the source poll an element, and make what it brings a copy."""
        lease = begun.lease
        source = self._used_sources.get(lease.source)
        if source is None:
            source = self._used_sources[lease.source] = source_named(self._sources, lease.source)
        try:
            found = await source.poll(lease.known, self._terms_of(begun))
        except Late as late:
            if self._settings.byte_budget and late.traffic:  # other polls pay for it
                self._charge(late.traffic)
            return Finished(lease, begun.began, 0.0, None)
        except Exception as error:  # noqa: BLE001  (a source may be anybody's; it must not stop the others)
            if self._is_ours(error):  # the element is not to blame; it is polled again
                self._trouble(error)
                await asyncio.sleep(_NO_ROOM_PAUSE_SECONDS)
                return self._over(begun, None)
            found = Found("failed", f"the source {lease.source!r} failed: {type(error).__name__}: {error}")
        self._heed(begun, found)
        if wrong := _wrong(lease, found):
            found = Found("failed", wrong, traffic=found.traffic)
        if found.outcome != "changed":
            return self._over(begun, found, outcome=found.outcome)
        return await self._copy(begun, found)

    def _over(self, begun: _Begun, found: Found | None, *, outcome: str = "") -> Finished:
        """Return a poll that is over now."""
        seconds = self._clock.now() - begun.moved - begun.began
        return Finished(begun.lease, begun.began, seconds, found, outcome=outcome)

    def _heed(self, begun: _Begun, found: Found) -> None:
        """Let polls of the group that were taken already wait, as the source asks."""
        group = self._groups[begun.lease.slot.group]
        if found.wait:
            group.blocked_until = self._clock.now() + found.wait
        if found.spacing and found.spacing > group.told_spacing:  # the planner did not know of it
            group.told_spacing = found.spacing
            group.blocked_until = max(group.blocked_until, begun.began + begun.moved + found.spacing)

    def _is_ours(self, error: Exception) -> bool:
        """Tell whether it is our own folder of copies that kept a source from polling."""
        if not isinstance(error, OSError) or isinstance(error, Trouble):
            return isinstance(error, Trouble)
        held = tuple(map(str, self._copies.place.own_files))
        return error.errno in _NO_ROOM or str(error.filename or "").startswith(held)

    async def _copy(self, begun: _Begun, found: Found) -> Finished:
        """Put content into the folder of copies, if it is new."""
        body, known = found.body, begun.lease.known.fingerprint
        assert body is not None  # noqa: S101
        finished = self._over(begun, replace(found, body=None))  # the time of writing does not count
        same = replace(finished, outcome="unchanged", fingerprint=known)
        if found.fingerprint is not None and found.fingerprint == known:
            if not isinstance(body, bytes):
                await asyncio.to_thread(self._copies.discard, body)
            return same
        pause = _FIRST_COPY_PAUSE_SECONDS
        while True:
            before, written = self._clock.now(), self._copies.written
            try:
                digest, size = await asyncio.to_thread(self._copies.put, body, doubt=known is None)
                if self._copies.written > written:  # not if it was there already
                    self._copied(before)
                break
            except (Trouble, OSError) as error:  # what was fetched is not thrown away
                self._trouble(error)
                if self._leaving:
                    return replace(finished, found=None)
                await asyncio.sleep(pause)
                pause = min(2.0 * pause, _LONGEST_COPY_PAUSE_SECONDS)
        fingerprint = found.fingerprint or digest
        if fingerprint == known:
            return same
        outcome = "new" if known is None else "changed"
        return replace(finished, digest=digest, size=size, fingerprint=fingerprint, outcome=outcome)


def _wrong(lease: Lease, found: Found) -> str:
    """Return what a source has said that cannot be; empty if nothing."""
    if found.outcome not in _OUTCOMES:
        return f"the source {lease.source!r} said {found.outcome!r}, which is no outcome"
    if found.outcome == "changed" and found.body is None:
        return "the source told of a change without content"
    return ""
