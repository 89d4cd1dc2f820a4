"""The worker: it carries polls through the mirror, turn by turn.

A turn is one transaction of the store, and what follows from it:

    6. what its polls saw is recorded, and               \
    7. what they discovered is added                      |
    9. it keeps house                                     | one transaction
    8. the planner, if this worker is it, learns,         |
    1. chooses what to poll next, and                     |
    2. hands out slots                                    |
    3. the worker takes some of them                     /
    3. to 5. the poll runner makes these polls, until the next turn

The numbers are those of the way of one poll: it is planned in one turn (1, 2), made (3 to 5), recorded in
the next (6, 7) and learned from (8); the notifier tells of it (9). A turn comes with every tick, or sooner if
there is little left to do. A transaction that fails changes nothing: what polls saw is kept in memory, an
event is emitted, and it is tried again, later and later. A poll that cannot begin in time is given back, so
that limits hold however slow the machine is.
"""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any, NamedTuple, TypeVar

from unstale.errors import InvalidInput, Trouble
from unstale.mirror.clock import Clock, RealClock
from unstale.mirror.notify.notifier import Notifier
from unstale.mirror.reports.status import STARTING, overview
from unstale.mirror.settings import ORDERS, POLICIES, GroupLimit, Rule, Settings
from unstale.mirror.source import Source
from unstale.mirror.store.contract import Finished, Lease, Store, Transaction, Version
from unstale.mirror.store.copies import Copies
from unstale.policy.terms import aim_of
from unstale.wording import plural

from .discovery import DISCOVERED_AT_ONCE, Discovery, Elsewhere
from .events import Event, EventEmitter
from .housekeeper import TIDY_SECONDS, Housekeeper
from .planner import Planner
from .poll_runner import PollRunner
from .rehearsal import is_ready, rehearse_beside
from .worker_state import Backlog, Chore, Chores, SlotsForFetchers, TroubleLog

__all__ = ["SAMPLE_SECONDS", "Worker", "check_settings"]

SAMPLE_SECONDS = 60.0
"""Between two samples of how the mirror does."""
FOLLOWER_LOOK_SECONDS = 0.5
"""Between two turns of a worker that does not plan."""
HAND_OUT_LEAD_SECONDS = 1.0
"""By which slots are handed out before they start, if there are several workers to take them."""
RECORD_WITHIN_SECONDS = 0.25
"""After which what a poll saw is recorded, at most, if nothing is wrong."""
_LONGEST_LEAD_SECONDS = 5.0
"""For which a transaction is expected to take, at most, however long the last ones took."""
_LONGEST_RESERVE_SECONDS = 10.0 * 366 * 86400.0
"""For which budget can be kept."""
_LONGEST_START_SECONDS = 900.0
"""For which a worker that starts, and then dies on another machine, is believed to be there."""
_LAST_TRIES_SECONDS = (0.1, 0.5, 2.0, 5.0, 0.0)
"""Pauses after each attempt to record what polls saw when the worker leaves."""
_Answer = TypeVar("_Answer")


class _Turn(NamedTuple):
    """What came of a turn's transaction."""

    versions: list[Version]
    leases: list[Lease]
    starting: float
    """Seconds that it took to read what the planner needs, which the next turn does not."""


class Worker:
    """Makes polls of a mirror, and plans them if no other worker does.

    Parameters
    ----------
    tick
        seconds between two choices; None: as the planner sees fit
    on_event
        is called with each `Event`
    sample_every
        seconds between two samples of how the mirror does; inf: none are taken
    tidy_every
        seconds between two looks for old versions and lost copies
    beside
        returns what else to keep with the sample of a moment
    elsewhere
        what takes what its polls discover that belongs into other cells
    """

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
        sample_every: float = SAMPLE_SECONDS,
        tidy_every: float = TIDY_SECONDS,
        beside: Callable[[float], Mapping[str, float]] | None = None,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        self._store, self._settings, self._clock, self._tick = store, settings, clock, tick
        self._copies = copies
        self.name = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self.polls = 0
        """Polls that have been recorded."""
        self.planner: Planner | None = None
        """None while another worker plans, and until the planner has been read from the store (again)."""
        self._started = clock.now()
        self._stopping = False

        self._events = EventEmitter(clock, on_event)
        self._troubles = TroubleLog(
            self._events.emit,
            {"store": "the store works again", "copies": "copies can be written again"},
        )
        self._runner = PollRunner(
            sources, copies, settings, clock, finished=self._poll_finished,
            trouble=lambda error: self._troubles.add("copies", error, clock.now()),
            copied=lambda began: self._troubles.end("copies", began),
            own=(*copies.place.own_files, *store.own_files),
        )  # fmt: skip
        self._discovery = Discovery(settings, sources, elsewhere)
        self._housekeeper = Housekeeper(
            store, copies, settings, self._events, clock, worker=self.name, sample_every=sample_every,
            tidy_every=tidy_every, beside=beside,
        )  # fmt: skip
        self._progress = Chores(Chore("tell", every=1.0), now=self._started)
        self._backlog = Backlog(settings.concurrency)
        self._for_fetchers = SlotsForFetchers()
        self._finished: list[Finished] = []
        """Polls that are over, and not recorded yet."""
        self._new_versions = False
        """Whether versions have been recorded of which the notifier has not been told."""

        self._wake = asyncio.Event()
        """Set when the next turn should come before its time."""
        self._wake_is_near = False
        """Whether it will be set within `RECORD_WITHIN_SECONDS`."""
        self._store_thread = ThreadPoolExecutor(1, thread_name_prefix="unstale-store")
        """The one thread that waits for the store."""
        self._warm = False
        """Whether sources have been warmed up."""
        self._introduced = False
        """Whether an event has said that this worker plans."""
        self._running = False
        """Whether it goes on after this turn."""
        self._rehearsal: asyncio.Task[None] | None = None
        """What compiles meanwhile, if anything does."""

        self._lead = 0.0
        """Seconds that a transaction takes: slots begin so much later than it does."""
        self._next_choice = -inf
        """When the planner chooses polls again."""
        self._clock_moved = 0.0
        """Seconds by which the clock was set since the planner was read."""

    # --- turns ----------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End `run` soon; polls that have begun are finished and recorded."""
        self._stopping = True
        self._wake.set()

    def give_up_polls(self) -> None:
        """Wait no longer for polls that have begun; they have failed, and are made again."""
        self._runner.give_up_polls()

    @property
    def store_fails_since(self) -> float:
        """Since when nothing can be recorded; inf if all is well."""
        return self._troubles.since("store")

    async def ask(self, question: Callable[[Planner], _Answer]) -> _Answer | None:
        """Return what the planner answers, between two turns; None if this worker does not plan."""

        def answer() -> _Answer | None:
            planner = self.planner
            return None if planner is None or planner.policy.in_turn.on else question(planner)

        found: _Answer | None = await self._in_store_thread(answer)
        return found

    async def run(self, until: float | None = None) -> None:
        """Work until told to stop, or until a moment."""
        end = inf if until is None else until
        self._running = True
        notifier, quiet = self._notifier(), asyncio.Event()
        notifying = asyncio.create_task(notifier.run(quiet)) if notifier is not None else None
        try:
            while not self._stopping and self._clock.now() < end:
                began = self._clock.now()
                wait = await self.turn(end)
                if notifier is not None and self._new_versions:
                    self._new_versions = False
                    notifier.wake()
                await self._rest(min(began + wait, end))
        finally:
            await self._leave()
            if notifier is not None and notifying is not None:
                quiet.set()
                await notifying

    def _notifier(self) -> Notifier | None:
        """Return what tells targets of changes, if the settings name any."""
        if not self._settings.notify:
            return None
        return Notifier(
            self._settings.notify,
            self._store,
            self._clock,
            copies=self._copies,
            on_trouble=lambda name, why: self._events.emit("trouble", f"{name}: {why}"),
        )

    async def turn(self, horizon: float = inf) -> float:
        """Record, plan, take polls and start them; return after how many seconds to do so again.

        No poll begins after the ``horizon``.
        """
        self._runner.stop_slow_polls()
        if by := self._clock.jump():
            self._clock_was_set(by)
        finished = self._next_to_record()
        left_over = bool(self._finished)
        self._backlog.adapt(given_back=any(one.found is None for one in finished))
        room = self._backlog.size - self._runner.in_hand
        try:
            if not self._warm:
                await self._warm_up()
            began = self._clock.now()
            with self._clock.busy():
                turn = await self._in_store_thread(self._transact, finished, horizon, room)
                took = self._clock.now() - began - turn.starting  # the next one starts nothing
        except (Trouble, OSError) as error:
            self._finished = finished + self._finished
            self._troubles.add("store", error, self._clock.now())
            return self._troubles.pause
        self._lead = min(max(1.15 * took, 0.7 * self._lead), _LONGEST_LEAD_SECONDS)
        self._troubles.end("store")
        self._housekeeper.tend_files(began, planning=self.planner is not None)
        self._recorded(finished, turn.versions)
        planner_has_more = self.planner is not None and self.planner.more_to_come
        self._backlog.more_to_come = planner_has_more or 0 < room <= len(turn.leases)
        self._runner.share = max(self._housekeeper.workers, 1)
        if self.planner is not None:
            self._runner.bytes_kept = self.planner.policy.limits.bytes_kept(self._clock.now())
        self._runner.take(turn.leases)
        self._rehearse_beside()
        if left_over:
            return 0.0
        return max(self._next_choice - began, 0.0) if self._alone else self._span

    def _next_to_record(self) -> list[Finished]:
        """Return what the next transaction records: of lists that name many elements only some at a time."""
        count = named = 0
        for one in self._finished:
            if named >= DISCOVERED_AT_ONCE:
                break
            count, named = count + 1, named + (0 if one.found is None else len(one.found.discovered))
        finished, self._finished = self._finished[:count], self._finished[count:]
        return finished

    def _clock_was_set(self, by: float) -> None:
        """Move all moments that this worker holds; see `unstale.mirror.clock` for the whole path."""
        way = "forward" if by > 0 else "back"
        self._events.emit("trouble", f"the clock was set {way} by {abs(by):.0f} seconds")
        self._finished = [one.moved(by) for one in self._finished]
        self._runner.move(by)
        self._troubles.move(by)
        self._housekeeper.chores.restart(self._clock.now())
        self._progress.restart(self._clock.now())
        self._clock_moved += by
        self.planner = None  # the next one mends moments in the store

    async def _rest(self, moment: float) -> None:
        """Wait for a moment, or until there is little left to do, or something to record."""
        self._wake.clear()
        self._wake_is_near = False
        if self._stopping:
            return
        waits = [asyncio.create_task(self._clock.until(moment)), asyncio.create_task(self._wake.wait())]
        _, left = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _poll_finished(self, finished: Finished) -> None:
        """Keep what a poll saw, and see to it that it is recorded soon."""
        self._finished.append(finished)
        if "store" in self._troubles:  # it is tried again when it is time to
            return
        if self._backlog.is_low(self._runner.in_hand):
            self._wake.set()
        elif self._tick is None and not self._wake_is_near:
            self._wake_is_near = True
            asyncio.get_running_loop().call_later(RECORD_WITHIN_SECONDS, self._wake.set)

    async def finish(self) -> None:
        """Wait until all polls that were taken have been made, and record them."""
        await self._runner.finish()
        while await self._record_only() and self._finished:
            pass

    async def _leave(self) -> None:
        """Finish what has begun, give back what has not, and record all of it."""
        await self._runner.leave()
        await self._record_only(leaving=True)
        await self._housekeeper.finish()
        if self._rehearsal is not None:
            self._rehearsal.cancel()
            await asyncio.gather(self._rehearsal, return_exceptions=True)
        with suppress(Trouble, OSError):
            await self._in_store_thread(self._sign_off)
        self._store_thread.shutdown(wait=True)

    def _sign_off(self) -> None:
        """Say that this worker is gone."""
        now = self._clock.now()
        with self._store.begin() as t:
            t.alive(self.name, now, now - 1.0)

    async def _record_only(self, *, leaving: bool = False) -> bool:
        """Record what polls saw, and hand out nothing; try for some time if there is trouble.

        A worker that is leaving records all polls, but has lists that name many elements read again. Return
        whether it was possible.
        """
        for pause in _LAST_TRIES_SECONDS:
            finished = self._next_to_record()
            if leaving:
                finished, self._finished = finished + self._finished, []
            with self._clock.busy():
                try:
                    record = partial(self._transact, leaving=leaving)
                    turn = await self._in_store_thread(record, finished, -inf, 0)
                except (Trouble, OSError) as error:
                    self._finished = finished + self._finished
                    self._troubles.add("store", error, self._clock.now())
                else:
                    self._recorded(finished, turn.versions)
                    return True
            await asyncio.sleep(pause)
        return False

    async def _in_store_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:  # noqa: ANN401
        """Run what waits for the store in the one thread that does so."""
        return await asyncio.get_running_loop().run_in_executor(self._store_thread, function, *arguments)

    async def _warm_up(self) -> None:
        """Warm up the sources that elements have, before slots are given."""

        def sources() -> set[str]:
            with self._store.begin() as t:
                return t.sources()

        with self._clock.busy():
            self._runner.warm_up(await self._in_store_thread(sources))
        self._warm = True

    def _recorded(self, finished: list[Finished], versions: list[Version]) -> None:
        """Count what was recorded, and emit events."""
        self.polls += sum(one.found is not None for one in finished)
        self._new_versions = self._new_versions or bool(versions)
        self._housekeeper.tell_replicas(finished)
        self._events.recorded(finished, versions)
        now = self._clock.now()
        if self._events.heard and self._progress.is_due("tell", now):
            data: dict[str, Any] = {
                "polls": self.polls,
                "in_flight": self._runner.in_hand,
                "seconds": now - self._started,
            }
            if self.planner is not None:
                data |= overview(self.planner.policy, now)
            self._events.emit("tick", "", **data)

    # --- the transaction ------------------------------------------------------------------------------------

    @property
    def _span(self) -> float:
        """Seconds between two turns, if nothing happens."""
        if self._tick is not None:
            return self._tick
        return self.planner.tick if self.planner is not None else FOLLOWER_LOOK_SECONDS

    @property
    def _alone(self) -> bool:
        """Whether this worker plans, for itself alone."""
        here = self._settings.fetch == "here"
        return here and self.planner is not None and self._housekeeper.workers <= 1

    def _transact(
        self, finished: list[Finished], horizon: float, room: int, *, leaving: bool = False
    ) -> _Turn:
        """Do all of a turn that concerns the store; it happens whole or not at all."""
        began = now = self._clock.now()
        planning = self._store.become_planner()
        if not planning:
            self.planner = None
        elif self.planner is None:
            self._say_starting(now)
            self._become_planner(now)
            now = self._clock.now()
        starting = now - began
        try:
            with self._events.held(), self._store.begin() as t:
                versions = t.record(self.name, finished) if finished else []
                self._discovery.record(t, finished, now, leaving=leaving)
                last = (0, 0) if self.planner is None else (self.planner.last_edit, self.planner.last_poll)
                self._housekeeper.keep_house(t, now, planning=planning, last_edit=last[0], last_poll=last[1])
                leases = self._plan(t, now, horizon, room) if self.planner is not None else []
                if horizon > now and not self._alone:
                    leases = t.lease(self.name, self._share(t, room), now, self._expires(now))
        except BaseException:
            self.planner = None  # it may know things that were not recorded
            raise
        self._housekeeper.committed(planning=planning)
        return _Turn(versions, leases, starting)

    def _share(self, t: Transaction, room: int) -> int:
        """Return how many polls to take: of a fleet the planner, who comes first, leaves others theirs."""
        workers = self._housekeeper.workers
        if self._settings.fetch == "elsewhere":
            return 0
        if self.planner is not None and workers > 1:
            free = sum(not worker for _, _, worker in t.leased())
            room = min(room, -(-free // workers))
        return max(room, 0)

    def _say_starting(self, now: float) -> None:
        """Say that this worker is there, though it does not poll yet: to read many elements takes long."""
        if not self._introduced:
            with self._store.begin() as t:
                t.alive(self.name + STARTING, now, now + _LONGEST_START_SECONDS)

    def _become_planner(self, now: float) -> None:
        """Read what the planner needs, and let it choose once for nothing: the first time takes long."""
        with self._store.begin() as t:
            planner = Planner(self._settings, t, now, ahead=self._tick, shift=self._clock_moved)
            if self._may_rehearse_beside():
                planner.policy.in_turn.on = True
            else:
                planner.rehearse(now)
            if not self._introduced:
                t.alive(self.name + STARTING, now, now - 1.0)
        self.planner, self._clock_moved, self._next_choice = planner, 0.0, -inf
        if not self._introduced:
            self._introduced = True
            who = "" if self._settings.fetch == "here" else ', which fetchers poll (fetch = "elsewhere")'
            self._events.emit("planner", f"planning for {plural(len(planner.policy.table), 'element')}{who}")
        try:
            self._housekeeper.empty_scratch()
        except (Trouble, OSError) as error:  # polls will find out when it is over
            self._troubles.add("copies", error, now)

    def _may_rehearse_beside(self) -> bool:
        """Tell whether elements have turns before all is compiled that polls are chosen by."""
        return self._running and not is_ready() and isinstance(self._clock, RealClock)

    def _rehearse_beside(self) -> None:
        """While elements have turns, let what worths are computed by be loaded, or compiled."""
        planner = self.planner
        if planner is None or not planner.policy.in_turn.on:
            return
        if self._rehearsal is None:
            self._rehearsal = asyncio.create_task(
                rehearse_beside(self._settings.objective, self._settings.order)
            )
            self._rehearsal.add_done_callback(lambda _: self._wake.set())
        elif self._rehearsal.done():  # well or not: if not, the planner will say why
            planner.policy.in_turn.on = False
            planner.policy.table.look_again()
            self._next_choice = -inf

    def _expires(self, now: float) -> float:
        """Return until when leases are this worker's that it takes now."""
        return now + self._span + max(self._settings.lease, self._runner.longest)

    def _plan(self, t: Transaction, now: float, horizon: float, room: int) -> list[Lease]:
        """Hand out what starts when this transaction is over and before the next one is.

        A worker that is alone takes all of it at once; its leases are returned.
        """
        planner, alone = self.planner, self._alone
        assert planner is not None  # noqa: S101  (the caller has looked)
        choose_again = now >= min(self._next_choice, horizon) or self._backlog.more_to_come
        if alone and planner.budget_spent and not choose_again:
            return []  # the budget is handed out up to the next choice: this turn only records
        in_turn = planner.policy.in_turn.on
        planner.take_in(t, now, None if in_turn else self._housekeeper.sample(t, now))
        self._housekeeper.look_for_alarms(planner.policy, t, now)
        self._housekeeper.make_room(planner.policy, t, now)
        self._housekeeper.hear_replicas(planner.policy, t, now)
        self._next_choice = now + self._span if horizon > now else -inf
        now = self._clock.now()
        start = now + self._lead + (0.0 if alone else HAND_OUT_LEAD_SECONDS)
        end = min(start + self._span + self._lead, horizon)  # the next transaction may take longer
        leased = None if alone else t.leased()
        if horizon <= now:
            room = 0
        elif leased is not None and self._settings.fetch == "elsewhere":
            waiting = sum(not worker for _, _, worker in leased)
            room = self._for_fetchers.room(
                waiting=waiting, expired=self._housekeeper.expired, more=planner.more_to_come
            )
        elif leased is not None:
            room = self._backlog.size * self._housekeeper.workers - len(leased)
        if leased is not None:
            return planner.plan(t, start, end=end, room=room, leased=leased)
        return planner.plan(
            t, start, end=end, room=room, crowd=self._runner.crowd(), worker=self.name,
            expires=self._expires(now),
        )  # fmt: skip


def check_settings(settings: Settings) -> None:
    """Raise `InvalidInput` unless the settings have a budget."""
    for name, budget in (
        ("budget", settings.budget),
        ("bytes", settings.byte_budget),
        ("max_rate", settings.max_rate),
    ):
        if budget is not None and not budget > 0:
            raise InvalidInput(f"{name} must be more than 0 per second; it is {budget!r}")
    if not 0 <= settings.reserve <= _LONGEST_RESERVE_SECONDS:
        raise InvalidInput(f"reserve must be from 0 seconds to 10 years; it is {settings.reserve!r}")
    aim_of(settings.objective)
    for name, said, allowed in (("policy", settings.policy, POLICIES), ("order", settings.order, ORDERS)):
        if said not in allowed:
            raise InvalidInput(f"{name} must be one of {', '.join(allowed)}; it is {said!r}")
    if settings.policy != "optimal":
        aims: tuple[Rule | GroupLimit, ...] = (*settings.rules, *settings.groups)
        for one in aims:
            if one.target is not None or one.objective is not None:
                what = "a target" if one.target is not None else "an objective"
                kind = "rule" if isinstance(one, Rule) else "group"
                raise InvalidInput(
                    f"policy {settings.policy!r} looks at no objective, and the {kind} for {one.match!r} has "
                    f"{what}: leave it out, or let policy be 'optimal'"
                )
    if settings.budget is None and settings.byte_budget is None:
        raise InvalidInput("a mirror needs a budget: of polls, such as 1000/day, or of bytes, such as 20MB/h")
