"""The loop: what a worker does all day.

    1. what its polls saw is recorded            \
    2. the planner learns, and hands out polls    } one transaction
    3. it takes some of them                     /
    4. each is polled at its slot; what it brings becomes a copy, synced

A transaction comes every tick, or sooner if there is little left to do. One that fails changes nothing: what
polls saw is kept in memory, whoever should know is told, and it is tried again, later and later. A poll that
cannot start in time is given back, so that limits hold however slow the machine is.
"""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from pathlib import Path
from typing import Any

from unstale.errors import InvalidInput, Trouble
from unstale.mirror.clock import Clock
from unstale.mirror.notify.notifier import Notifier
from unstale.mirror.reports.samples import sampled
from unstale.mirror.reports.status import overview
from unstale.mirror.settings import Settings
from unstale.mirror.source import Source
from unstale.mirror.store.contract import Finished, Lease, Sample, Store, Transaction, Version
from unstale.mirror.store.copies import Copies
from unstale.mirror.store.sql.connection import own_places

from .discovery import Discovery
from .hint_file import read_hints
from .planner import Planner
from .policy import MirrorPolicy
from .poll_runner import Hands

__all__ = ["Event", "Loop"]

_QUEUE, _MOST = 100, 5000
"""Polls that a worker has in hand, at least and at most."""
_ALIVE = 10.0
"""Seconds after which a worker says again that it is there."""
_LOOKED_AT = 20_000
"""Elements whose copies are looked for at a time."""
TIDY_EVERY = 60.0
"""Seconds after which old versions and lost copies are looked for again."""
SAMPLE_EVERY = 60.0
"""Seconds between two samples of how the mirror does."""
_HINTS = 2.0
"""Seconds between two looks at the file of hints."""
_SWEEP = 86400.0
"""Seconds after which copies that a crash left behind are looked for."""
_OFTEN, _AHEAD = 0.5, 1.0
"""Seconds between two looks of a worker that does not plan, and how much earlier than their slots polls are
handed out to several."""
_SOON = 0.25
"""Seconds after which what a poll saw is recorded, at most."""
_LONGEST = 60.0
"""Seconds between two transactions after trouble, at most."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that a person may want to know of."""

    time: float
    kind: str
    """``poll``, ``change``, ``trouble``, ``recovered``, ``tick``, ``planner``."""
    key: str = ""
    detail: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


class Loop:
    """A worker, and the planner if nobody else is."""

    def __init__(
        self,
        store: Store,
        copies: Copies,
        sources: Mapping[str, Source],
        settings: Settings,
        clock: Clock,
        *,
        tick: float | None = None,
        on_event: Callable[[Event], None] | None = None,
        sample_every: float = SAMPLE_EVERY,
        tidy_every: float = TIDY_EVERY,
        beside: Callable[[float], Mapping[str, float]] | None = None,
    ) -> None:
        """Make it ready; `run` starts it.

        ``sample_every`` and ``tidy_every``: seconds between two samples, and between two looks for old
        versions and lost copies; ``beside``: what else to keep of each moment.
        """
        self._store, self._copies, self._sources = store, copies, sources
        self._settings, self._clock, self._on_event = settings, clock, on_event
        self._tick, self._beside = tick, beside
        self._sample_every, self._tidy_every = sample_every, tidy_every
        self.worker = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self.planner: Planner | None = None
        self.workers = 1
        self.polls = 0
        self._discovery = Discovery(settings, sources)
        self._finished: list[Finished] = []
        own = own_places(store.url, copies.folder)
        self._hands = Hands(
            sources, copies, settings, clock, done=self._ended, own=own,
            trouble=lambda error: self._trouble(error, "copies"),
            mended=lambda began: self._recovered("copies", began),
        )  # fmt: skip
        self._queue = _QUEUE
        self._wake = asyncio.Event()
        self._stopping = False
        self._in_trouble: dict[str, set[str]] = {}
        """What is out of order, the store or the copies, and what has been told of it."""
        self._latest_trouble: dict[str, float] = {}
        self._news = False
        self._pauses = 0
        self._next_alive = self._next_prune = self._next_hints = self._next_sample = -inf
        self._next_sweep = self._clock.now() + self._tidy_every
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="unstale-store")
        self._clean = self._introduced = False
        self._lead = self._shift = 0.0
        self._next_choice = -inf
        self._hungry = self._starved = self._soon = self._more = False
        self._told, self._looked = -inf, 0
        self._started = self._clock.now()

    # --- the day --------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End `run` soon; polls that have begun are finished and recorded."""
        self._stopping = True
        self._wake.set()

    async def run(self, until: float | None = None) -> None:
        """Work until told to stop, or until a moment."""
        end = inf if until is None else until
        notifier, quiet = self._notifier(), asyncio.Event()
        telling = asyncio.create_task(notifier.run(quiet)) if notifier is not None else None
        try:
            while not self._stopping and self._clock.now() < end:
                began = self._clock.now()
                wait = await self.turn(end)
                if notifier is not None and self._news:
                    self._news = False
                    notifier.wake()
                await self._rest(min(began + wait, end))
        finally:
            await self._leave()
            if notifier is not None and telling is not None:
                quiet.set()
                await telling

    def _notifier(self) -> Notifier | None:
        """Return who tells others of changes, if anybody wants to be told."""
        if not self._settings.notify:
            return None
        return Notifier(
            self._settings.notify,
            self._store,
            self._clock,
            on_trouble=lambda name, why: self._tell("trouble", f"{name}: {why}"),
        )

    async def turn(self, horizon: float = inf) -> float:
        """Record, plan, take polls and start them; return after how many seconds to do so again."""
        self._hands.watch()
        self._hands.prepare()
        if by := self._clock.jump():
            self._tell(
                "trouble", f"the clock was set {'forward' if by > 0 else 'back'} by {abs(by):.0f} seconds"
            )
            self.planner = None  # which reads all moments again, and mends those that are impossible now
            self._shift += by
            self._hands.shift(by)
            now = self._clock.now()
            self._finished = [replace(one, began=min(one.began, now)) for one in self._finished]
            self._next_alive = self._next_prune = self._next_hints = self._next_sample = self._told = -inf
            self._next_sweep = self._clock.now() + self._tidy_every
        finished, self._finished = self._finished, []
        self._set_queue(finished)
        room = self._queue - self._hands.in_hand
        began = self._clock.now()
        with self._clock.busy():
            try:
                versions, leases = await self._in_thread(self._transact, finished, horizon, room)
                took = self._clock.now() - began
            except (Trouble, OSError) as error:
                self._finished = finished + self._finished
                return self._trouble(error)
        self._lead = min(max(1.15 * took, 0.7 * self._lead), 5.0)
        self._news = self._news or bool(versions)
        self._recovered("store")
        self.polls += sum(one.found is not None for one in finished)
        self._report(finished, versions)
        self._hungry = self._more or 0 < room <= len(leases)
        self._hands.share = max(self.workers, 1)
        self._hands.take(leases, self._group_concurrency, self._group_spacing)
        return max(self._next_choice - began, 0.0) if self._alone else self._span

    async def _rest(self, moment: float) -> None:
        """Wait for a moment, or until there is little left to do, or something to record."""
        self._wake.clear()
        self._soon = False
        if self._stopping:
            return
        waits = [asyncio.create_task(self._clock.until(moment)), asyncio.create_task(self._wake.wait())]
        _, left = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def finish(self) -> None:
        """Wait until all polls that were taken have been made, and record them."""
        await self._hands.finish()
        await self._record_only()

    async def _leave(self) -> None:
        """Finish what has begun, give back what has not, and record all of it."""
        await self._hands.leave()
        await self._record_only()
        with suppress(Trouble, OSError):
            await self._in_thread(self._sign_off)
        self._threads.shutdown(wait=True)

    def _sign_off(self) -> None:
        """Say that this worker is gone."""
        now = self._clock.now()
        with self._store.begin() as t:
            t.alive(self.worker, now, now - 1.0)

    async def _record_only(self) -> None:
        """Record what polls saw, and hand out nothing; try for some time if there is trouble."""
        for pause in (0.1, 0.5, 2.0, 5.0, 0.0):
            finished, self._finished = self._finished, []
            with self._clock.busy():
                try:
                    versions, _ = await self._in_thread(self._transact, finished, -inf, 0)
                except (Trouble, OSError) as error:
                    self._finished = finished + self._finished
                    self._trouble(error)
                else:
                    self.polls += sum(one.found is not None for one in finished)
                    self._report(finished, versions)
                    return
            await asyncio.sleep(pause)

    async def _in_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:  # noqa: ANN401
        """Run what waits for the store in the one thread that does so."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)

    # --- the transaction ------------------------------------------------------------------------------------

    @property
    def _span(self) -> float:
        if self._tick is not None:
            return self._tick
        return self.planner.tick if self.planner is not None else _OFTEN

    def _set_queue(self, finished: list[Finished]) -> None:
        """Decide how many polls to have in hand: so many that hands are never idle, nor polls too late."""
        if any(one.found is None for one in finished):
            self._queue = int(0.7 * self._queue)
        elif self._starved:
            self._queue = int(1.5 * self._queue)
        self._starved = False
        self._queue = min(max(self._queue, _QUEUE, 2 * self._settings.concurrency), _MOST)

    def _transact(
        self, finished: list[Finished], horizon: float, room: int
    ) -> tuple[list[Version], list[Lease]]:
        """Do all of a turn that concerns the store; it happens whole or not at all."""
        now = self._clock.now()
        planning = self._store.become_planner()
        if planning and self.planner is None:
            self._prepare(now)
            now = self._clock.now()
        orphans: list[str] = []
        self._more = False
        try:
            with self._store.begin() as t:
                versions = t.record(self.worker, finished) if finished else []
                self._discovery.record(t, finished, now)
                orphans = self._keep_house(t, now, planning=planning)
                leases = self._plan(t, now, horizon, room) if planning else []
                if horizon > now and not (planning and self.workers <= 1):
                    share = self._share(t, room, planning=planning)
                    leases = t.lease(self.worker, share, now, self._expires(now))
        except BaseException:
            self.planner = None  # it may know things that were not recorded
            raise
        self._clean = self._clean or planning
        try:  # what is committed is; what cannot be deleted now, a sweep will find
            if orphans:
                self._store.discard(orphans)
            if planning and now >= self._next_sweep:
                self._next_sweep = now + max(_SWEEP, self._tidy_every)
                self._store.sweep()
        except (Trouble, OSError) as error:
            self._tell("trouble", str(error))
        return versions, leases

    @property
    def _alone(self) -> bool:
        """Whether this worker plans, for itself alone."""
        return self.planner is not None and self.workers <= 1

    def _share(self, t: Transaction, room: int, *, planning: bool) -> int:
        """Return how many polls to take: of a fleet the planner, who comes first, leaves others theirs."""
        if planning and self.workers > 1:
            free = sum(not worker for _, _, worker in t.leased())
            room = min(room, -(-free // self.workers))
        return max(room, 0)

    def _prepare(self, now: float) -> None:
        """Read what the planner needs, and let it choose once for nothing: the first time takes long."""
        with self._store.begin() as t:
            planner = Planner(self._settings, t, now, ahead=self._tick, shift=self._shift)
            planner.rehearse(now)
        self.planner, self._shift, self._next_choice = planner, 0.0, -inf
        if not self._introduced:
            self._introduced = True
            count = len(planner.policy.table)
            self._tell("planner", f"planning for {count:,} {'element' if count == 1 else 'elements'}")
        if not self._clean:
            alone = self._store.url.startswith("sqlite")
            try:
                self._copies.empty_scratch(0.0 if alone else 86400.0)
            except (Trouble, OSError) as error:  # polls will find out when it is over
                self._trouble(error, "copies")

    def _expires(self, now: float) -> float:
        return now + self._span + max(self._settings.lease, self._hands.longest)

    def _plan(self, t: Transaction, now: float, horizon: float, room: int) -> list[Lease]:
        """Be the planner, of what starts when this transaction is over and before the next.

        Who is alone takes all of it at once.
        """
        assert self.planner is not None  # noqa: S101  (prepared before)
        alone = self._alone
        if alone and now < min(self._next_choice, horizon) and self.planner.spent and not self._hungry:
            return []  # the budget is handed out up to the next choice: this turn only records
        began = now
        self.planner.take_in(t, now, self._sample(t, now))
        self._next_choice = began + self._span if horizon > began else -inf
        now = self._clock.now()
        start = now + self._lead + (0.0 if alone else _AHEAD)
        if horizon <= now:
            room = 0
        elif not alone:
            room = self._queue * self.workers - len(t.leased())
        end = min(start + self._span + self._lead, horizon)  # the next transaction may take longer
        crowd = self._hands.crowd() if alone else {}
        leases = self.planner.plan(
            t, start, end=end, room=room, crowd=crowd, worker=self.worker if alone else "",
            expires=self._expires(now),
        )  # fmt: skip
        self._more = self.planner.more
        return leases if alone else []

    def _sample(self, t: Transaction, now: float) -> Callable[[MirrorPolicy, Sequence[int]], Sample] | None:
        """Return how a sample is taken, if it is time for one: somebody else may have taken the last."""
        if now < self._next_sample or not isfinite(self._sample_every):
            return None
        times = [one.time for one in t.samples(now - self._sample_every) if one.time <= now]
        last = max(times, default=-inf)
        if last + self._sample_every > now:
            self._next_sample = last + self._sample_every
            return None
        self._next_sample = now + self._sample_every
        beside = {} if self._beside is None else self._beside(now)
        return lambda policy, counted: sampled(policy, now, counted, beside)

    def _keep_house(self, t: Transaction, now: float, *, planning: bool) -> list[str]:
        """Do what is needed now and then; return digests that nothing refers to any more."""
        if not planning:
            self.planner = None
        elif not self._clean:
            t.expire(now, everything=self._store.url.startswith("sqlite"))
        else:
            t.expire(now)
        if now >= self._next_alive:
            self._next_alive = now + _ALIVE
            alive = t.alive(self.worker, now, now + 3.0 * _ALIVE)
            # on SQLite there is one runner; who else seems to be there was killed
            self.workers = 1 if self._store.url.startswith("sqlite") else len(alive)
        if planning and self._settings.hint_file and now >= self._next_hints:
            self._next_hints = now + _HINTS
            read_hints(Path(self._settings.hint_file), t, now)
        if planning and now >= self._next_prune:
            self._next_prune = now + self._tidy_every
            before = now - self._settings.keep_polls
            self._look_for_copies(t)
            edits = self.planner.edited if self.planner is not None else 0
            return t.prune(self._settings.keep, before if isfinite(before) else -inf, edits_to=edits, now=now)
        return []

    def _look_for_copies(self, t: Transaction) -> None:
        """See whether copies are where they should be, some at a time; what is lost is fetched again."""
        some = t.latest(self._looked, _LOOKED_AT)
        self._looked = some[-1][0] if len(some) == _LOOKED_AT else 0
        lost = [element for element, digest in some if not self._copies.has(digest)]
        if lost:
            t.refetch(lost)
            count = "1 copy is" if len(lost) == 1 else f"{len(lost):,} copies are"
            self._tell("trouble", f"{count} missing in {self._copies.folder}: fetched again")

    def _ended(self, finished: Finished) -> None:
        """Note that a poll is over, and record it soon."""
        if finished.began > (now := self._clock.now()):  # the time has been set back meanwhile
            finished = replace(finished, began=now, seconds=0.0)
        self._finished.append(finished)
        if "store" in self._in_trouble:  # it is tried again when it is time to
            return
        self._starved = self._starved or (self._hungry and self._hands.in_hand < self._settings.concurrency)
        if self._hungry and self._hands.in_hand <= self._queue // 2:
            self._wake.set()
        elif self._tick is None and not self._soon:
            self._soon = True
            asyncio.get_running_loop().call_later(_SOON, self._wake.set)

    def _group_spacing(self, group: int) -> float:
        return self.planner.policy.limits.group(group).spacing if self.planner is not None else 0.0

    def _group_concurrency(self, group: int) -> int:
        if self.planner is not None:
            return self.planner.policy.limits.concurrency(group)
        return 1_000_000  # another plans, and hands out no more than may run

    # --- telling --------------------------------------------------------------------------------------------

    def _tell(self, kind: str, detail: str, key: str = "", **data: Any) -> None:  # noqa: ANN401
        if self._on_event is not None:
            self._on_event(Event(self._clock.now(), kind, key, detail, data))

    def _trouble(self, error: BaseException, place: str = "store") -> float:
        """Tell of trouble once, and return how long to wait."""
        text = str(error) or repr(error)
        self._latest_trouble[place] = self._clock.now()
        if text not in self._in_trouble.setdefault(place, set()):
            self._in_trouble[place].add(text)
            self._tell("trouble", text)
        self._pauses += place == "store"
        return min(0.25 * 2.0 ** min(self._pauses, 20), _LONGEST)

    def _recovered(self, place: str, began: float = inf) -> None:
        """Tell that something works again: what went well had begun after the latest trouble."""
        if place == "store":
            self._pauses = 0
        if began <= self._latest_trouble.get(place, -inf):
            return
        if self._in_trouble.pop(place, None) is not None:
            self._tell(
                "recovered", {"store": "the store works again"}.get(place, "copies can be written again")
            )

    def _report(self, finished: list[Finished], versions: list[Version]) -> None:
        if self._on_event is None:
            return
        for one in finished:
            if one.found is not None:
                key = one.lease.known.key
                data = {"outcome": one.outcome, "traffic": one.found.traffic, "seconds": one.seconds}
                self._tell("poll", one.found.detail, key, **data)
        for version in versions:
            data = {"version": version.id, "size": version.size, "first": version.first}
            self._tell("change", "new" if version.first else "changed", version.key, **data)
        self._tell_how()

    def _tell_how(self) -> None:
        """Tell how it goes, once a second."""
        now = self._clock.now()
        if self._on_event is None or now < self._told + 1.0:
            return
        self._told = now
        data: dict[str, Any] = {
            "polls": self.polls,
            "in_flight": self._hands.in_hand,
            "seconds": now - self._started,
        }
        if self.planner is not None:
            data |= overview(self.planner.policy, now)
        self._tell("tick", "", **data)


def check_settings(settings: Settings) -> None:
    """Insist on a budget."""
    for name, budget in (("budget", settings.budget), ("bytes", settings.byte_budget)):
        if budget is not None and not budget > 0:
            raise InvalidInput(f"{name} must be more than 0 per second; it is {budget!r}")
    if settings.budget is None and settings.byte_budget is None:
        raise InvalidInput("a mirror needs a budget: of polls, such as 1000/day, or of bytes, such as 20MB/h")
