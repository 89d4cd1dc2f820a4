"""The housekeeper: step 9 of a poll, what a worker does beside polls now and then.

All of it happens within the worker's one transaction, but for the deletion of copies that no version has any
more: that comes after the commit, so that a crash in between leaves a copy too many and never one too few.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf, isfinite
from pathlib import Path

from unstale.errors import Trouble
from unstale.mirror.reports.freshness import sampled
from unstale.mirror.settings import Settings
from unstale.mirror.store.contract import Sample, Store, Transaction
from unstale.mirror.store.copies import Copies

from .events import EventEmitter
from .hint_file import read_hints
from .load_policy import MirrorPolicy
from .planner_state import PollCounts
from .worker_state import Chore, Chores

__all__ = ["TIDY_SECONDS", "Housekeeper"]

ALIVE_SECONDS = 10.0
"""After which a worker says again that it is there."""
_BELIEVED_ALIVE = 3.0
"""Times that span for which the others believe it."""
TIDY_SECONDS = 60.0
"""After which old versions and lost copies are looked for again."""
_READ_HINTS_SECONDS = 2.0
"""Between two looks at the file of hints."""
_SWEEP_SECONDS = 86400.0
"""After which copies that a crash left behind are looked for again."""
_OTHERS_SCRATCH_SECONDS = 86400.0
"""Age at which a file in the scratch folder that another worker may be writing is taken for left behind."""
_COPIES_AT_ONCE = 20_000
"""Elements whose copies are looked for at a time."""


class Housekeeper:
    """Says that a worker is there, reads hints, samples, prunes, and looks for copies that are lost."""

    def __init__(
        self,
        store: Store,
        copies: Copies,
        settings: Settings,
        events: EventEmitter,
        *,
        worker: str,
        now: float,
        sample_every: float,
        tidy_every: float,
        beside: Callable[[float], Mapping[str, float]] | None,
    ) -> None:
        self._store, self._copies, self._settings, self._events = store, copies, settings, events
        self._worker, self._beside = worker, beside
        self.workers = 1
        """How many workers there are."""
        self.chores = Chores(
            Chore("say alive", ALIVE_SECONDS),
            Chore("read hints", _READ_HINTS_SECONDS),
            Chore("sample", sample_every),
            Chore("prune", tidy_every),
            Chore("sweep", max(_SWEEP_SECONDS, tidy_every), first=tidy_every),
            now=now,
        )
        self._crash_cleared = False
        """Whether leases and files that a runner left behind that was killed have been dropped."""
        self._last_looked_for = 0
        """Number of the last element whose copy was looked for."""
        self._orphans: list[str] = []
        """Digests of copies that no version has any more, once the transaction is committed."""

    def empty_scratch(self) -> None:
        """Delete what was left in the scratch folder by a runner that was killed."""
        if not self._crash_cleared:
            self._copies.empty_scratch(0.0 if self._store.single_runner else _OTHERS_SCRATCH_SECONDS)

    def keep_house(self, t: Transaction, now: float, *, planning: bool, last_edit: int) -> None:
        """Do what is due; ``last_edit``: the last edit that no planner will ask for again."""
        self._orphans = []
        if planning:
            t.expire(now, everything=self._store.single_runner and not self._crash_cleared)
        if self.chores.is_due("say alive", now):
            alive = t.alive(self._worker, now, now + _BELIEVED_ALIVE * ALIVE_SECONDS)
            self.workers = 1 if self._store.single_runner else len(alive)
        if not planning:
            return
        if self._settings.hint_file and self.chores.is_due("read hints", now):
            read_hints(Path(self._settings.hint_file), t, now)
        if self.chores.is_due("prune", now):
            self._look_for_copies(t)
            before = now - self._settings.keep_polls
            self._orphans = t.prune(
                self._settings.keep, before if isfinite(before) else -inf, edits_to=last_edit, now=now
            )

    def after_commit(self, now: float, *, planning: bool) -> None:
        """Delete copies that nothing refers to; what cannot be deleted now, a sweep will find."""
        self._crash_cleared = self._crash_cleared or planning
        orphans, self._orphans = self._orphans, []
        try:
            if orphans:
                self._store.discard(orphans)
            if planning and self.chores.is_due("sweep", now):
                self._store.sweep()
        except (Trouble, OSError) as error:
            self._events.emit("trouble", str(error))

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

    def _look_for_copies(self, t: Transaction) -> None:
        """See whether copies are where they should be, some at a time; what is lost is fetched again."""
        some = t.latest(self._last_looked_for, _COPIES_AT_ONCE)
        self._last_looked_for = some[-1][0] if len(some) == _COPIES_AT_ONCE else 0
        lost = [element for element, digest in some if not self._copies.has(digest)]
        if lost:
            t.refetch(lost)
            count = "1 copy is" if len(lost) == 1 else f"{len(lost):,} copies are"
            self._events.emit("trouble", f"{count} missing in {self._copies.folder}: fetched again")
