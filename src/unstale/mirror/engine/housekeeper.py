"""The housekeeper: step 9 of a poll, what a worker does beside polls now and then.

All of it happens within the worker's one transaction, but for what is done to files of copies. Copies that no
version has any more are deleted after the commit, so that a crash in between leaves a copy too many and never
one too few. That, looking for copies that are missing, and reading copies to see whether they are damaged,
may take long, so it happens in a thread of its own: polls go on.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import inf, isfinite
from pathlib import Path

from unstale.errors import Trouble
from unstale.mirror.clock import Clock
from unstale.mirror.reports.alarms import AlarmLog, alarms_now
from unstale.mirror.reports.freshness import sampled
from unstale.mirror.reports.status import TOLD_SKEW_SECONDS, skew_words
from unstale.mirror.settings import Settings
from unstale.mirror.store.contract import Finished, Sample, Store, Transaction
from unstale.mirror.store.copies import Copies
from unstale.quantities import show_duration
from unstale.wording import plural

from .events import EventEmitter
from .hint_file import read_hints
from .load_policy import MirrorPolicy
from .planner_state import PollCounts
from .replica_files import ReplicaFiles
from .room import RoomKeeper
from .worker_state import Chore, Chores

ALIVE_SECONDS = 10.0
"""After which a worker says again that it is there."""
_BELIEVED_ALIVE = 3.0
"""Times that span for which the others believe it."""
TIDY_SECONDS = 60.0
"""After which old versions and lost copies are looked for again."""
_READ_HINTS_SECONDS = 2.0
"""Between two looks at the file of hints."""
_ROOM_SECONDS = 600.0
"""After which it is looked whether there is still room for copies."""
_ARCHIVE_SECONDS = 600.0
"""After which it is looked again what has been gone for long."""
_SWEEP_SECONDS = 86400.0
"""After which copies that a crash left behind are looked for again."""
_OTHERS_SCRATCH_SECONDS = 86400.0
"""Age at which a file in the scratch folder that another worker may be writing is taken for left behind."""
_FILES_AT_THE_END_SECONDS = 2.0
"""For which a worker that leaves goes on deleting old copies."""
_COPIES_AT_ONCE = 20_000
"""Elements whose copies are looked for at a time."""
_VERIFIED_AT_ONCE, _VERIFIED_BYTES = 1000, 16_000_000
"""Copies that are read at a time, and their bytes, at most, to see whether they are damaged."""


class Housekeeper:
    """Says that a worker is there, reads hints, samples, prunes, and looks for copies that are lost."""

    def __init__(
        self,
        store: Store,
        copies: Copies,
        settings: Settings,
        events: EventEmitter,
        clock: Clock,
        *,
        worker: str,
        sample_every: float,
        tidy_every: float,
        beside: Callable[[float], Mapping[str, float]] | None,
    ) -> None:
        self._store, self._copies, self._settings, self._events = store, copies, settings, events
        self._clock = clock
        self._worker, self._beside = worker, beside
        self.workers = 1
        """How many workers there are."""
        self.expired = 0
        """Slots that were not taken or not reported in time, as the last transaction of the planner found."""
        self.chores = Chores(
            Chore("say alive", ALIVE_SECONDS),
            Chore("read hints", _READ_HINTS_SECONDS),
            Chore("sample", sample_every),
            Chore("prune", tidy_every),
            Chore("look for alarms", tidy_every),
            Chore("make room", max(_ROOM_SECONDS, tidy_every), first=tidy_every),
            Chore("archive", max(_ARCHIVE_SECONDS, tidy_every), first=tidy_every),
            Chore("sweep", max(_SWEEP_SECONDS, tidy_every), first=tidy_every),
            now=clock.now(),
        )
        self._crash_cleared = False
        """Whether leases and files that a runner left behind that was killed have been dropped."""
        self._last_looked_for = 0
        """Number of the last element whose copy was looked for."""
        self._to_look_for: list[tuple[int, str]] = []
        """Elements and digests of copies to be looked for once the transaction is committed."""
        self._missing: dict[int, str] = {}
        """Elements and digests of copies that were not found; the next transaction has them fetched again."""
        self._last_verified = 0
        """Number of the last element whose copy was read."""
        self._to_verify: list[tuple[int, str]] = []
        """Elements and digests of copies to be read once the transaction is committed."""
        self._told_damaged: set[int] = set()
        """Elements whose copies are damaged, as an event has said."""
        self._damaged: deque[int] = deque()
        """Elements whose copies were found damaged; the next transaction has them fetched again."""
        self._told_skew = 0.0
        """By how much the clock of this machine is ahead, as an event has said; 0: none has."""
        self._told_foreign = ""
        """Why the folder of copies is not the mirror's, as an event has said."""
        self._alarms: AlarmLog | None = None
        """None until it has been read."""
        self._alarms_to_keep = False
        """Whether it has something that is not in the store yet."""
        self._room = RoomKeeper(settings.space)
        self._replicas = ReplicaFiles(settings.replicas)
        self._polls_to_move: tuple[float, int] | None = None
        """From which moment on polls are kept, and of which the planner has heard, once that is committed."""
        self._orphans: list[str] = []
        """Digests of copies that no version has any more, once the transaction is committed."""
        self._files = ThreadPoolExecutor(1, thread_name_prefix="unstale-copies")
        self._tending: asyncio.Task[None] | None = None
        """What is being done to files of copies."""
        self._files_until = inf
        """When that must end, by the steady clock."""

    def empty_scratch(self) -> None:
        """Delete what was left in the scratch folder by a runner that was killed."""
        if not self._crash_cleared:
            self._copies.empty_scratch(0.0 if self._store.single_runner else _OTHERS_SCRATCH_SECONDS)

    def keep_house(
        self, t: Transaction, now: float, *, planning: bool, last_edit: int, last_poll: int
    ) -> None:
        """Do what is due; planners may ask again for edits and polls after the last ones."""
        if planning:
            after_crash = self._store.single_runner and not self._crash_cleared
            self.expired = len(t.expire(now, everything=after_crash))
        if self.chores.is_due("say alive", now):
            ahead = self._read_clock(t)
            alive = t.alive(self._worker, now, now + _BELIEVED_ALIVE * ALIVE_SECONDS, ahead=ahead)
            self.workers = 1 if self._store.single_runner else len(alive)
        if not planning:
            return
        if self._settings.hint_file and self.chores.is_due("read hints", now):
            read_hints(Path(self._settings.hint_file), t, now)
        if self._damaged:
            t.refetch([self._damaged.popleft() for _ in range(len(self._damaged))])
        if self._missing:
            self._fetch_missing(t)
        if isfinite(self._settings.archive) and self.chores.is_due("archive", now):
            self._archive(t, now)
        if self.chores.is_due("prune", now):
            self._to_look_for = t.latest(self._last_looked_for, _COPIES_AT_ONCE)
            self._to_verify = t.latest(self._last_verified, _VERIFIED_AT_ONCE)
            before = now - self._settings.keep_polls
            self._polls_to_move = before, last_poll
            self._orphans += t.prune(self._settings.keep, before, edits_to=last_edit, now=now)

    def _archive(self, t: Transaction, now: float) -> None:
        """Put away what has been gone for long, and tell of it."""
        if ids := t.archive(now - self._settings.archive, now):
            words = f"{plural(len(ids), 'element')} archived: gone for more than"
            self._events.emit("archived", f"{words} {show_duration(self._settings.archive)}")

    def committed(self, *, planning: bool) -> None:
        """Take in that a transaction is committed."""
        self._crash_cleared = self._crash_cleared or planning
        self._alarms_to_keep = False

    def tend_files(self, now: float, *, planning: bool) -> None:
        """Begin to do in a thread what is to be done to files of copies, unless that is under way."""
        if self._tending is not None and self._tending.done():
            if not self._tending.cancelled():
                self._tending.result()  # it raises what nobody thought of
            self._tending = None
        due = self._orphans or self._to_look_for or self._to_verify or self._polls_to_move
        if self._tending is None and (due or planning):
            sweep = planning and self.chores.is_due("sweep", now)
            if due or sweep:
                orphans, self._orphans = self._orphans, []
                self._tending = asyncio.create_task(self._tend(orphans, sweep=sweep))

    async def _tend(self, orphans: list[str], *, sweep: bool) -> None:
        with self._clock.busy():
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._files, partial(self._tend_now, orphans, sweep=sweep))

    def _tend_now(self, orphans: list[str], *, sweep: bool) -> None:
        """Read some copies, and delete those that nothing refers to; what fails now is done later."""
        try:
            self._look_for_copies()
            self._verify_copies()
            if orphans:
                self._store.discard(orphans, enough=self._out_of_time)
            if sweep:
                self._store.sweep(enough=self._out_of_time)
            self._move_polls()
        except (Trouble, OSError) as error:
            self._events.emit("trouble", str(error))

    def _move_polls(self) -> None:
        """Let the oldest polls leave the tables, for files beside the copies, if there are too many."""
        due, self._polls_to_move = self._polls_to_move, None
        if due is not None:
            before, heard = due
            most = self._settings.polls_in_tables
            self._store.move_polls(before=before, most=most, heard=heard, enough=self._out_of_time)

    def _out_of_time(self) -> bool:
        return time.monotonic() > self._files_until

    async def finish(self) -> None:
        """Wait until what is being done to files is done, not for long: the next sweep does the rest."""
        self._files_until = time.monotonic() + _FILES_AT_THE_END_SECONDS
        tending, self._tending = self._tending, None
        if tending is not None:
            await tending
        orphans, self._orphans = self._orphans, []
        if orphans:
            await self._tend(orphans, sweep=False)
        self._files.shutdown(wait=True)

    def sample(self, t: Transaction, now: float) -> Callable[[MirrorPolicy, PollCounts], Sample] | None:
        """Return how a sample is taken, if it is time for one: another worker may have taken the last."""
        chore = self.chores["sample"]
        if not isfinite(chore.every) or now < chore.due:
            return None
        times = [one.time for one in t.samples(now - chore.every) if one.time <= now]
        chore.due = max(times, default=-inf) + chore.every
        if not self.chores.is_due("sample", now):
            return None
        beside = {} if self._beside is None else self._beside(now)
        return lambda policy, counts: sampled(policy, now, counts, beside)

    def look_for_alarms(self, policy: MirrorPolicy, t: Transaction, now: float) -> None:
        """Tell of what a person should know, such as groups that lost most of their elements at once."""
        if policy.in_turn.on or not self.chores.is_due("look for alarms", now):
            return
        if self._alarms is None:
            self._alarms = AlarmLog(t.state())
        news = self._alarms.news(alarms_now(policy, t, now, self._alarms.standing), now)
        self._alarms_to_keep = self._alarms_to_keep or bool(news)
        if self._alarms_to_keep:  # also if the last transaction failed
            t.keep(self._alarms.to_keep())
        for one in news:
            self._events.emit("recovered" if one.over else "trouble", one.text, alarm=one.kind)

    def hear_replicas(self, policy: MirrorPolicy, t: Transaction, now: float) -> None:
        """Let the policy know of polls that other replicas have made."""
        try:
            self._replicas.hear(policy, t, now)
        except OSError as error:
            self._events.emit("trouble", f"the folder of replicas: {error.strerror}")

    def tell_replicas(self, finished: Sequence[Finished]) -> None:
        """Tell other replicas of polls that were recorded."""
        try:
            self._replicas.tell(finished)
        except OSError as error:
            self._events.emit("trouble", f"the folder of replicas: {error.strerror}")

    def make_room(self, policy: MirrorPolicy, t: Transaction, now: float) -> None:
        """Drop copies if all together have more bytes than they may; tell of it."""
        if policy.in_turn.on or not self.chores.is_due("make room", now):
            return
        done = self._room.make_room(policy, t, now)
        self._orphans += done.orphans
        if done.dropped:
            self._events.emit("dropped", f"{_copies_are(done.dropped)} dropped: there is no room for more")

    def _read_clock(self, t: Transaction) -> float | None:
        """Read the clock that all workers go by; return how much ours is ahead, and tell of it."""
        if (reading := t.clock()) is None:
            return None
        self._clock.go_by(reading)
        skew = self._clock.skew
        if abs(skew) > TOLD_SKEW_SECONDS and abs(skew - self._told_skew) > TOLD_SKEW_SECONDS:
            self._told_skew = skew
            self._events.emit("trouble", f"{skew_words('this machine', skew)}; let NTP set it")
        elif abs(skew) <= TOLD_SKEW_SECONDS and self._told_skew:
            self._told_skew = 0.0
            self._events.emit("recovered", "the clock of this machine agrees with the database's again")
        return skew

    def _verify_copies(self) -> None:
        """Read some copies, beginning after those that were read last; remember which are damaged."""
        some, self._to_verify = self._to_verify, []
        read, wrong = 0, []
        for element, digest in some:
            if read >= _VERIFIED_BYTES:
                break
            read += self._copies.size(digest)
            self._last_verified = element
            if self._copies.is_damaged(digest):
                wrong.append(element)
            else:
                self._told_damaged.discard(element)
        else:
            if len(some) < _VERIFIED_AT_ONCE:
                self._last_verified = 0
        self._damaged.extend(wrong)
        if new := set(wrong) - self._told_damaged:
            self._told_damaged |= new
            told = (
                f"{_copies_are(len(new))} damaged in {self._copies.place.address}: the next polls fetch them"
            )
            self._events.emit("trouble", told)

    def _look_for_copies(self) -> None:
        """See whether copies are where they should be, some at a time; remember which are missing."""
        some, self._to_look_for = self._to_look_for, []
        if not some:
            return
        missing: dict[int, str] = {}
        for element, digest in some:
            if self._out_of_time():
                return
            if not self._copies.has(digest):
                missing[element] = digest
        self._last_looked_for = some[-1][0] if len(some) == _COPIES_AT_ONCE else 0
        if missing and (wrong := self._store.foreign_copies()) is not None:
            if wrong != self._told_foreign:
                self._events.emit("trouble", wrong)
            self._told_foreign = wrong
        else:
            self._missing = missing

    def _fetch_missing(self, t: Transaction) -> None:
        """Have missing copies fetched again, unless there are later ones by now."""
        missing, self._missing = self._missing, {}
        latest = dict(t.latest(min(missing) - 1, _COPIES_AT_ONCE))
        lost = [element for element, digest in missing.items() if latest.get(element) == digest]
        if lost:
            t.refetch(lost)
            told = f"{_copies_are(len(lost))} missing in {self._copies.place.address}: fetched again"
            self._events.emit("trouble", told)


def _copies_are(count: int) -> str:
    return "1 copy is" if count == 1 else f"{count:,} copies are"
