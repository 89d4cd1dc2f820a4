"""A mirror: elements, their copies, their history, and the plan to keep them fresh."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from unstale.errors import InvalidInput
from unstale.policy.element_table import AWAY
from unstale.wording import show_time

from .additions import ELEMENTS_PER_BATCH, Added, add_elements, apply_rules, batches, check_given
from .clock import Clock, RealClock
from .config.keywords import with_keywords
from .engine.discovery import Discovery, Elsewhere
from .engine.events import Event
from .engine.housekeeper import TIDY_SECONDS
from .engine.load_policy import load_policy, load_sample
from .engine.planner_state import BudgetPair, BudgetsSet
from .engine.replica_files import last_polls_of
from .engine.worker import SAMPLE_SECONDS, Worker, check_settings
from .event_loops import call_in, running_loop, wait_for
from .reports.audit import Audit, AuditRequest, audit_of, kept_audits, with_audit
from .reports.explain import Explanation, explain
from .reports.ideas import MOST_TRIED, Ideas, TrialChoice, ideas, parts_of, room_of
from .reports.status import Status, live_workers, skew_words, status
from .reports.trial_gains import unplanned
from .reports.what_if import MirrorDemand, WhatIf, demand_of, planner_input
from .settings import Settings
from .source import Json, New, Source
from .sources.registry import Sources, load_sources, stop_polls
from .stop_signals import stopped_by_signals
from .store.contract import Element, PollRecord, Sample, Version
from .store.copies import Copies
from .store.copy_place import SignedLink
from .store.sql.connection import place_of
from .store.sql.store import open_store

_DEFAULT_BUDGET = 1000.0 / 86400.0
"""Polls per second."""
_MOST_KEYS_COMPARED = 20_000
"""Keys among which the nearest to a wrong one is looked for."""
_CLOCKS_DIFFER_SECONDS = 60.0
"""Clocks of others may be ahead of ours by so much."""
_LARGEST_SKEW_SECONDS = 300.0
"""By which the clock of a machine may differ from that of the database for it to have a worker."""
_AUDIT_LOOK_SECONDS = 1.0
"""Between two looks at which polls of an audit have been made."""


@dataclass(frozen=True)
class Copy:
    """A copy, as it was read."""

    version: Version
    body: bytes


class Mirror:
    """Keeps copies of elements as fresh as the budget allows, and says how fresh they are.

    Parameters
    ----------
    store
        The path of an SQLite file, which is made if it is not there, or the address of a PostgreSQL database.
    settings
        What mirror.toml says, as a value; without a budget there are 1000 polls a day.
    copies
        The folder of the copies, or a bucket (``s3://bucket/prefix``); by default the folder called
        ``copies`` beside the SQLite file.
    clock, sources, tick
        For tests: the time, the sources by name, and the seconds between two choices.
    sample_every, tidy_every
        Seconds between two samples of how the mirror does, and between two looks for old versions and lost
        copies.
    beside
        Returns what else to keep with the sample of a moment.
    elsewhere
        The other cells, if this is a cell of a mirror that has several.
    budget, bytes, reserve, max_rate, **said
        Keys of ``[mirror]`` in mirror.toml, in the same words: ``budget="60/min"``, ``reserve="1 day"``,
        ``objective="age"``, ``keep=3``. They count more than ``settings``.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, Mirror(f"{folder}/mirror.db") as mirror:
    ...     _ = mirror.add("python:greeting", poll=lambda: "hello")
    ...     polls = mirror.step()
    ...     mirror.read("python:greeting").body
    b'hello'
    """

    def __init__(
        self,
        store: str | PathLike[str] = "mirror.db",
        *,
        settings: Settings | None = None,
        copies: str | PathLike[str] | None = None,
        clock: Clock | None = None,
        sources: Mapping[str, Source] | None = None,
        tick: float | None = None,
        sample_every: float = SAMPLE_SECONDS,
        tidy_every: float = TIDY_SECONDS,
        beside: Callable[[float], Mapping[str, float]] | None = None,
        elsewhere: Elsewhere | None = None,
        budget: str | None = None,
        bytes: str | None = None,  # noqa: A002  (as mirror.toml calls it)
        reserve: str | None = None,
        max_rate: str | None = None,
        **said: str | int | None,
    ) -> None:
        budgets = {"budget": budget, "bytes": bytes, "reserve": reserve, "max_rate": max_rate}
        settings = with_keywords(Settings() if settings is None else settings, {**budgets, **said})
        if settings.budget is None and settings.byte_budget is None:
            settings = replace(settings, budget=_DEFAULT_BUDGET)
        check_settings(settings)
        if settings.cells > 1:
            raise InvalidInput(
                f"this mirror has {settings.cells} cells, and what you ask for is of one: name it with "
                "--cell N (unstale cells list)"
            )
        self.settings = settings
        self.clock: Clock = RealClock() if clock is None else clock
        self._url = fspath(store)
        if settings.shared not in {"no", "group"}:
            raise InvalidInput(f"shared must be 'no' or 'group'; it is {settings.shared!r}")
        self.copies = Copies(_copies_of(self._url, copies), shared=settings.shared == "group")
        self.store = open_store(self._url, copies=self.copies)
        if clock is None:
            with self.store.begin() as t:
                if (reading := t.clock()) is not None:
                    self.clock.go_by(reading)
        self.sources: Mapping[str, Source] = load_sources(settings) if sources is None else sources
        self._discovery = Discovery(settings, self.sources)
        self._tick, self._beside, self._elsewhere = tick, beside, elsewhere
        self._sample_every, self._tidy_every = sample_every, tidy_every
        self._worker: Worker | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        """In which the worker works."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the store."""
        self.store.close()

    # --- elements -------------------------------------------------------------------------------------------

    def add(
        self,
        key: str,
        *,
        source: str | None = None,
        weight: float | None = None,
        max_age: float | None = None,
        min_interval: float | None = None,
        jitter: float | None = None,
        windows: str | None = None,
        group: str | None = None,
        objective: str | None = None,
        target: float | None = None,
        keep: int | None = None,
        keep_for: float | None = None,
        tags: Sequence[str] | None = None,
        poll: Callable[..., object] | None = None,
        **options: Json,
    ) -> Element:
        """Add an element, or change what is said of it.

        Parameters
        ----------
        key
            What names it: an address, a path, ``DATABASE#TABLE``, ``python:NAME``.
        source
            The name of its source; None: the one that the key looks like.
        weight
            How much its freshness matters, beside others.
        max_age, min_interval
            Seconds: poll it at least this often, and no more often than this.
        jitter
            Share by which intervals are stretched at random.
        windows
            When it may be polled, as mirror.toml says it.
        group
            The group whose limits it shares; None: its host, or what its source says.
        objective, target
            What it is polled for, if that is not the objective of the mirror, and how probably fresh its copy
            should be: as mirror.toml says it.
        keep, keep_for
            How many versions are kept of it, and for how many seconds.
        tags
            Words by which people find it.
        poll
            A callable that returns its content; then the key must begin with ``python:``.
        **options
            For its source.
        """
        if poll is not None:
            key = key if key.startswith("python:") else f"python:{key}"
            self.sources["python"].register(key, poll)  # type: ignore[attr-defined]
        given: dict[str, Json] = {
            "weight": weight, "max_age": max_age, "min_interval": min_interval, "jitter": jitter,
            "windows": windows, "group": group, "objective": objective, "target": target, "keep": keep,
            "keep_for": keep_for, "tags": None if tags is None else list(tags),
        }  # fmt: skip
        given = {name: value for name, value in given.items() if value is not None}
        check_given(given)
        addition = self.discovery().addition(New(key, source, options), given)
        with self.store.begin() as t:
            before = t.find([addition.key]).get(addition.key)
            if before is not None and before.state != "removed":
                addition = self._discovery.merged(addition, before, source=source)
            t.add([addition], self.clock.now())
            return t.find([addition.key])[addition.key]

    def add_many(
        self,
        news: Iterable[New],
        given: Mapping[str, Json] | None = None,
        *,
        allow: Collection[str] | None = None,
    ) -> Added:
        """Add elements; those that cannot be are left out, and told.

        With ``allow``, for lists of others, those that are not of the public web need a word that it has
        (``file``, ``sql``, ``private``), and rules give them no secrets unless it has ``secrets``.
        """
        return add_elements(self.store, self.discovery(), self.clock.now, news, given or {}, allow)

    def discovery(self) -> Discovery:
        """Return what makes elements of what is named, by the rules as they are now."""
        with self.store.begin() as t:
            self._discovery.hear_rules(t)
        return self._discovery

    def find(self, key: str) -> Element:
        """Return an element; `unstale.InvalidInput` names the nearest if there is none with this key."""
        with self.store.begin() as t:
            found = t.find([key])
            if not found:
                with suppress(InvalidInput):
                    found = t.find([self._discovery.addition(New(key), {}).key])
            if found:
                return next(iter(found.values()))
            some = [element.key for element in t.elements(limit=_MOST_KEYS_COMPARED)]
        near = difflib.get_close_matches(key, some, 1, 0.5)
        hint = f"did you mean {near[0]}?" if near else "add it first: unstale add KEY"
        raise InvalidInput(f"there is no element {key!r} in this mirror; {hint}")

    def _numbers(self, keys: Iterable[str]) -> list[int]:
        """Return the numbers of elements, all of which must be there."""
        ids: list[int] = []
        for batch in batches(keys):
            with self.store.begin() as t:
                known = t.find(batch)
            ids += [known[key].id if key in known else self.find(key).id for key in batch]
        return ids

    def elements(self, pattern: str | None = None) -> Iterator[Element]:
        """Return all elements, or those whose keys match a pattern as of a shell."""
        after = 0
        while True:
            with self.store.begin() as t:
                batch = t.elements(after, ELEMENTS_PER_BATCH, pattern=pattern)
            if not batch:
                return
            yield from batch
            after = batch[-1].id

    def numbered(self, number: int) -> Element:
        """Return an element by its number."""
        with self.store.begin() as t:
            found = t.numbered([number])
        if number not in found:
            raise InvalidInput(f"there is no element number {number} in this mirror")
        return found[number]

    def page(
        self,
        search: str = "",
        state: str = "",
        group: str = "",
        sort: str = "key",
        *,
        tag: str = "",
        descending: bool = False,
        offset: int = 0,
        limit: int = 50,
    ) -> tuple[list[Element], int]:
        """Return some of the elements, and how many there are.

        Parameters
        ----------
        search
            A part of the key.
        state, group
            What they must be, if not empty. Removed and archived elements are left out unless that is the
            state.
        sort, descending
            By what they are sorted: key, last, weight, state or added; and whether the largest come first.
        offset, limit
            How many are left out in the beginning, and how many are returned at most.
        tag
            What they must have, if it is not empty.
        """
        with self.store.begin() as t:
            return t.page(
                search=search, state=state, group=group, tag=tag, sort=sort, descending=descending,
                offset=offset, limit=limit,
            )  # fmt: skip

    def remove(self, keys: Iterable[str], *, forget: bool = False) -> int:
        """Remove elements; with ``forget``, their copies and history too."""
        ids = self._numbers(keys)
        orphans: list[str] = []
        with self.store.begin() as t:
            t.remove(ids, self.clock.now())
            if forget:
                orphans = t.forget(ids)
        if orphans:
            self.store.discard(orphans)
        return len(ids)

    def pause(self, keys: Iterable[str]) -> int:
        """Let nobody poll elements until `resume`; return how many were not paused before."""
        ids = self._numbers(keys)
        with self.store.begin() as t:
            return len(t.pause(ids, self.clock.now()))

    def resume(self, keys: Iterable[str]) -> int:
        """Have elements polled again that were paused or archived; return how many were."""
        ids = self._numbers(keys)
        with self.store.begin() as t:
            return len(t.resume(ids, self.clock.now()))

    def hint(self, keys: Iterable[str], *, time: float | None = None, channel: str = "api") -> int:
        """Say that elements may have changed, now or at a moment before; return how many."""
        now = self.clock.now()
        moment = now if time is None else time
        if not moment <= now + _CLOCKS_DIFFER_SECONDS:
            raise InvalidInput(
                "a hint is about what has happened, so its time must not be in the future; it is "
                f"{show_time(moment)}, and now it is {show_time(now)}"
            )
        ids = self._numbers(keys)
        with self.store.begin() as t:
            for batch in batches(ids):
                for element in t.numbered(batch).values():
                    if element.state in AWAY:
                        what = (
                            "was removed from this mirror"
                            if element.state == "removed"
                            else f"is {element.state}"
                        )
                        raise InvalidInput(
                            f"{element.key} {what}, so nothing would come of a hint; no hint was taken"
                        )
            t.edit([("hint", number, moment, channel) for number in ids])
        return len(ids)

    # --- running --------------------------------------------------------------------------------------------

    def run(
        self,
        until: float | None = None,
        *,
        on_event: Callable[[Event], None] | None = None,
        on_hangup: Callable[[], None] | None = None,
    ) -> None:
        """Keep the copies fresh, until stopped or until a moment (seconds since 1970).

        Parameters
        ----------
        until
            The moment; None: until `stop` is called, or a signal comes.
        on_event
            Is called with each event.
        on_hangup
            Is called at a SIGHUP, which else ends the process.

        Where an event loop is running already, as in Jupyter, it runs in a thread, and this one waits. An
        async program awaits `arun`.
        """
        wait_for(lambda: self.arun(until, on_event=on_event, on_hangup=on_hangup), stop=self.stop)

    async def arun(
        self,
        until: float | None = None,
        *,
        on_event: Callable[[Event], None] | None = None,
        on_hangup: Callable[[], None] | None = None,
    ) -> None:
        """Keep the copies fresh, in an event loop that is there."""
        with self._working(on_event) as worker:
            with stopped_by_signals(worker, self._stop_polls, on_hangup):
                await worker.run(until)
            await self._close_sources()

    def stop(self) -> None:
        """End `run` soon; it can be called from any thread."""
        worker, loop = self._worker, self._loop
        if worker is not None:
            call_in(loop, worker.stop)

    def step(self, *, on_event: Callable[[Event], None] | None = None) -> int:
        """Poll what is due now, and record it; return how many polls were made.

        It works where an event loop is running already, too; an async program awaits `astep`.
        """
        return wait_for(lambda: self.astep(on_event=on_event), stop=self.stop)

    async def astep(self, *, on_event: Callable[[Event], None] | None = None) -> int:
        """Do what `step` does, in an event loop that is there."""
        with self._working(on_event) as worker:
            await worker.turn()
            await worker.finish()
            await worker.run(until=self.clock.now())
            await self._close_sources()
            return worker.polls

    def _stop_polls(self) -> None:
        """Let sources stop polls that might take long."""
        if isinstance(self.sources, Sources):
            self.sources.stop_polls()
        else:
            stop_polls(self.sources.values())

    async def _close_sources(self) -> None:
        """Let sources go of their connections; they can be used again."""
        if isinstance(self.sources, Sources):
            await self.sources.close()
            return
        for source in self.sources.values():
            await source.close()

    @contextmanager
    def working(self, on_event: Callable[[Event], None] | None = None) -> Iterator[Worker]:
        """Have a worker of this cell, beside those of other cells; sources stay as they are afterwards."""
        with self._working(on_event) as worker:
            yield worker

    @contextmanager
    def _working(self, on_event: Callable[[Event], None] | None) -> Iterator[Worker]:
        """Have a worker, with a store of its own: on SQLite nobody else can run the mirror meanwhile."""
        if self._worker is not None:
            raise InvalidInput("this mirror is running already; stop it first")
        if abs(skew := self.clock.skew) > _LARGEST_SKEW_SECONDS:
            told = skew_words("this machine", skew)
            raise InvalidInput(f"{told}: set it, or let NTP do that, and run again")
        with closing(open_store(self._url, copies=self.copies, run=True)) as store:
            self._loop = running_loop()
            store.claim_copies()
            self.apply_rules()
            self._worker = Worker(
                store, self.copies, self.sources, self.settings, self.clock, tick=self._tick,
                on_event=on_event, sample_every=self._sample_every, tidy_every=self._tidy_every,
                beside=self._beside, elsewhere=self._elsewhere,
            )  # fmt: skip
            try:
                yield self._worker
            finally:
                self._worker = self._loop = None

    def apply_rules(self) -> int:
        """Apply the rules of the settings to all elements, if they have changed; return how many changed."""
        return apply_rules(self.store, self._discovery, self.settings, self.elements(), self.clock.now)

    # --- what is known --------------------------------------------------------------------------------------

    def status(self) -> Status:
        """Return how fresh the mirror is, what it spends, and what is neglected."""
        with self.store.begin() as t:
            now = self.clock.now()  # what is read is of this moment, however long that takes
            return status(*load_sample(self.settings, t), t, now, self.settings)

    def explain(self, key: str) -> Explanation:
        """Return why an element is polled when it is, and what its polls saw."""
        element = self.find(key)
        with self.store.begin() as t:
            policy, _ = load_policy(self.settings, t, [element.id])
            for number, time in last_polls_of(self.settings.replicas, element.key):
                policy.replicas.heard(element.id, time, number)
            return explain(policy, t, element, self.clock.now(), self.settings)

    def samples(self, since: float = 0.0, limit: int = 2000) -> list[Sample]:
        """Return how the mirror did since a moment, in order of time."""
        with self.store.begin() as t:
            return t.samples(since, limit)

    def audits(self) -> list[Audit]:
        """Return the last audits, the oldest first."""
        with self.store.begin() as t:
            return kept_audits(t.state())

    def what_if(
        self, *, objective: str | None = None, budgets: ArrayLike | None = None, points: int = 41
    ) -> WhatIf:
        """Return what other budgets, per second, would buy."""
        return self.demand(objective).what_if(budgets, points)

    def budget_for(self, freshness: float) -> float:
        """Return the smallest budget, per second, that buys this freshness; inf if none does."""
        return self.demand("freshness").budget_for(freshness)

    def demand(self, objective: str | None = None) -> MirrorDemand:
        """Return what elements ask for now, which says what budgets buy."""
        with self.store.begin() as t:
            policy, _ = load_sample(self.settings, t)
        return demand_of(
            policy, self.clock.now(), self.settings.objective if objective is None else objective
        )

    def ideas(self, choice: TrialChoice | None = None) -> Ideas:
        """Return what ideas of the papers would buy here, and a choice if there is one; nothing changes."""
        with self.store.begin() as t:
            policy, _ = load_sample(self.settings, t)
            ids, sizes = t.room_of_copies()
            places = np.flatnonzero(policy.table.present)
            elements = planner_input(policy, places, self.clock.now(), MOST_TRIED, dropped=True)
            if elements is None or not elements.hope > 0:
                raise InvalidInput("there is nothing to plan yet: add elements first, with weights above 0")
            patterns = () if choice is None else choice.composed
            parts = parts_of(patterns, elements, t.numbered(elements.ids.tolist()) if patterns else {})
        return ideas(
            elements, room_of(elements, ids, sizes), self.settings.space, choice,
            beside=unplanned(policy, elements), parts=parts,
        )  # fmt: skip

    def changes(self, after: int = 0, limit: int = 1000) -> list[Version]:
        """Return versions in the order in which they were recorded, after one of them."""
        with self.store.begin() as t:
            return t.versions(after, limit)

    def polls(self, key: str | None = None, limit: int = 1000) -> list[PollRecord]:
        """Return the last polls, of one element or of all, the latest first."""
        element = None if key is None else self.find(key).id
        with self.store.begin() as t:
            return t.polls(element, limit)

    def read(self, key: str, *, version: int | None = None, count: bool = True) -> Copy:
        """Return a copy: the latest, or another version. It counts as a read."""
        found = self._version(key, version, count=count)
        return Copy(found, self.copies.read(found.digest, found.size))

    def link(self, key: str, *, version: int | None = None, seconds: float = 600.0) -> SignedLink:
        """Return an address in the bucket from which anybody can get a copy for a while; it is a read."""
        return self.copies.link(self._version(key, version, count=True).digest, seconds)

    def _version(self, key: str, version: int | None, *, count: bool) -> Version:
        element = self.find(key)
        with self.store.begin() as t:
            found = t.versions(element=element.id, limit=1_000_000 if version else 1, latest_first=True)
            wanted = [one for one in found if version is None or one.id == version]
            if count and (wanted or element.state == "dropped"):
                t.read({element.id: 1}, self.clock.now())
        if not wanted:
            what = "no copy yet; run the mirror first" if version is None else f"no version {version}"
            if element.state == "dropped":
                what = "no copy: there was no room for it; raise [mirror] space, or its weight"
            raise InvalidInput(f"{element.key} has {what}")
        return wanted[0]

    def set_budget(self, budget: float | None = None, byte_budget: float | None = None) -> None:
        """Set other budgets, per second, which count from now on, also for one who runs the mirror now.

        They count until the mirror is opened with other budgets than it has now.
        """
        check_settings(replace(self.settings, budget=budget, byte_budget=byte_budget))
        said = BudgetPair(self.settings.budget, self.settings.byte_budget)
        with self.store.begin() as t:
            t.keep(BudgetsSet(BudgetPair(budget, byte_budget), instead_of=said).kept())
            t.edit([("settings", 0, self.clock.now(), "")])

    def audit(
        self,
        sample: int = 200,
        *,
        seed: int | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> Audit:
        """Poll a random sample out of turn, and see how many copies are as fresh as was expected.

        The polls are taken from the budget. If the mirror is running, its runner makes them; else they are
        made here.
        """
        return wait_for(lambda: self.aaudit(sample, seed=seed, on_progress=on_progress))

    async def aaudit(
        self,
        sample: int = 200,
        *,
        seed: int | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> Audit:
        """Do what `audit` does, in an event loop that is there."""

        def ask() -> tuple[AuditRequest, bool]:
            now = self.clock.now()
            with self.store.begin() as t:
                return AuditRequest.make(t, sample, seed, now), bool(live_workers(t, now))

        def is_done() -> bool:
            with self.store.begin() as t:
                asked.look(t)
            if on_progress is not None:
                on_progress(len(asked.wanted) - asked.missing, len(asked.wanted))
            return not asked.missing

        asked, others_run = await asyncio.to_thread(ask)
        if others_run or self._worker is not None:
            while not await asyncio.to_thread(is_done):
                await self.clock.until(self.clock.now() + _AUDIT_LOOK_SECONDS)
        else:
            with self._working(None) as worker:
                while not await asyncio.to_thread(is_done):
                    wait = await worker.turn()
                    await worker.finish()
                    await self.clock.until(self.clock.now() + min(wait, _AUDIT_LOOK_SECONDS))
                await worker.run(until=self.clock.now())
                await self._close_sources()
        result = audit_of(asked.polls, self.clock.now())
        with self.store.begin() as t:
            t.keep(with_audit(t.state(), result))
        return result


def _copies_of(url: str, copies: str | PathLike[str] | None) -> str | PathLike[str]:
    """Return where the copies are."""
    if copies is not None:
        return copies
    place = place_of(url)
    if not isinstance(place, Path):
        raise InvalidInput(
            "copies must be given for a mirror in PostgreSQL: a folder or a bucket that all its workers share"
        )
    return place.absolute().parent / "copies"
