"""Fetchers: whoever polls in the mirror's place, such as a crawler, and reports what it saw.

A fetcher is a worker like those of a fleet: it takes slots that the planner has handed out and paid for, and
what it reports is recorded by the same rules. So budget, limits of groups and learning hold for it, and a
lease that is not reported in time goes back to the planner. Links that it found become elements by the rules
of discovery. Whatever several fetchers ask for at the same time is one transaction.

What a fetcher says is believed as far as it can be: what contradicts its lease, the clock, the content or
itself is refused with a reason, and nothing is learned from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import isfinite
from typing import TypeGuard

from unstale.errors import InvalidInput
from unstale.mirror.clock import Clock
from unstale.mirror.settings import Settings
from unstale.mirror.source import Found, New
from unstale.mirror.sources.http.links import LinkOptions, PageLinks, followed
from unstale.mirror.store.contract import Finished, Lease, Store, Transaction
from unstale.mirror.store.copies import BLOCK_BYTES, Copies

from .discovery import Discovery
from .fetch_outcomes import FetchOutcome, contradiction

MOST_LEASES = 1000
"""That are taken at a time."""
MOST_HELD = 10_000
"""Leases that one fetcher has at the same time."""
LONGEST_LEASE_SECONDS = 3600.0
_SEEN_SECONDS = 60.0
"""For which a fetcher counts as there after it has asked for leases."""
_LOOK_SECONDS = 20.0
"""After which it is said again that a fetcher is there, and its leases are counted."""
_MOST_FUTURE_SECONDS = 60.0
"""By which the time of a change may be in the future."""
_MOST_REMEMBERED = 20_000
"""Leases that are kept in memory until they are reported; the store knows the others."""
_NOT_LEASED = "it is not leased to this fetcher, or not any more"


@dataclass(frozen=True)
class LeaseRequest:
    """Polls that a fetcher wants to make; each may begin at the start of its slot."""

    fetcher: str
    count: int = 100
    """How many, at most."""
    seconds: float = 60.0
    """For how long they are its own."""
    groups: Sequence[str] | None = None
    """Of groups with these names only."""
    each: int | None = None
    """So many of each group, at most."""
    most_groups: int | None = None
    """Of so many groups, at most."""
    due: bool = False
    """Only polls that may begin now."""

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MOST_LEASES:
            raise InvalidInput(f"count must be 1 to {MOST_LEASES:,}; it is {self.count!r}")
        if not 1.0 <= self.seconds <= LONGEST_LEASE_SECONDS:
            raise InvalidInput(f"seconds must be 1 to {LONGEST_LEASE_SECONDS:g}; it is {self.seconds!r}")
        for name in ("each", "most_groups"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise InvalidInput(f"{name} must be at least 1; it is {value!r}")
        worker_name(self.fetcher)


@dataclass(frozen=True)
class ReportRequest:
    """What a fetcher saw."""

    fetcher: str
    outcomes: Sequence[FetchOutcome]


@dataclass(frozen=True)
class TakenLeases:
    """Polls that are a fetcher's own now."""

    leases: list[Lease]
    groups: Mapping[int, str]
    """Names of their groups, by number; of others, too."""
    until: float


@dataclass
class Reported:
    """What became of outcomes."""

    recorded: int = 0
    again: int = 0
    """Reported before, and recorded then."""
    refused: list[tuple[int, str]] = field(default_factory=list)
    """Numbers of elements, and why."""


def worker_name(fetcher: str) -> str:
    """Return the name by which a fetcher is known as a worker.

    >>> worker_name("crawler-1")
    'fetcher crawler-1'
    """
    if not fetcher.isprintable() or not 0 < len(fetcher.strip()) <= 60:
        raise InvalidInput(f"fetcher must be a name of 1 to 60 printable characters; it is {fetcher[:100]!r}")
    return f"fetcher {fetcher.strip()}"


class FetchDesk:
    """Hands polls to fetchers, and records what they saw."""

    def __init__(
        self, store: Store, copies: Copies, settings: Settings, clock: Clock, discovery: Discovery
    ) -> None:
        self._store, self._copies, self._settings, self._clock = store, copies, settings, clock
        self._discovery = discovery
        self._looked: dict[str, float] = {}
        """When it was last said that a fetcher is there."""
        self._held: Counter[str] = Counter()
        """Leases that fetchers have: counted now and then, and what was taken and recorded here since."""
        self._groups: dict[int, str] = {}
        """Names of groups."""
        self._leases: dict[tuple[int, float], Lease] = {}
        """Those that were taken here and have not been reported, by element and slot, the oldest first.
        The store says whose they are: what is here only spares reading it again."""

    def serve(
        self, requests: Sequence[LeaseRequest | ReportRequest]
    ) -> list[TakenLeases | Reported | InvalidInput]:
        """Do what fetchers ask for, in one transaction; return an answer for each, or why it cannot be.

        Content becomes a copy before the transaction, as for any poll: nothing names it until it is recorded.
        Only that of outcomes which can be recorded does, so that nobody fills the disk without a lease.
        """
        now = self._clock.now()
        prepared = self._prepared(requests, now)
        done: list[TakenLeases | Reported | InvalidInput] = []
        with self._store.begin() as t:
            for one, contents in zip(requests, prepared, strict=True):
                if isinstance(one, LeaseRequest):
                    done.append(self._lease(t, one, now))
                else:
                    done.append(self._report(t, one, contents, now))
        return done

    # --- leases

    def _lease(self, t: Transaction, one: LeaseRequest, now: float) -> TakenLeases | InvalidInput:
        """Take polls that are due."""
        name = worker_name(one.fetcher)
        if not 0.0 <= now - self._looked.get(name, -_LOOK_SECONDS) < _LOOK_SECONDS:
            if len(self._looked) > 10_000:
                self._looked.clear()
                self._held.clear()
            t.alive(name, now, now + max(one.seconds, _SEEN_SECONDS))
            self._looked[name], self._held[name] = now, t.leases_held(name)
        count = min(one.count, MOST_HELD - self._held[name])
        if count <= 0:
            self._looked.pop(name)  # next time they are counted
            return InvalidInput(
                f"{one.fetcher} has {MOST_HELD:,} leases already; report some, or let them expire first"
            )
        numbers = None if one.groups is None else list(t.groups_named(one.groups).values())
        leases = t.lease(
            name, count, now, now + one.seconds, groups=numbers, each=one.each, most_groups=one.most_groups,
            until=now if one.due else None,
        )  # fmt: skip
        self._held[name] += len(leases)
        self._remember(leases)
        if unknown := {lease.slot.group for lease in leases} - self._groups.keys():
            if len(self._groups) > 1_000_000:
                self._groups = {}
                unknown = {lease.slot.group for lease in leases}
            self._groups.update({group.id: group.name for group in t.groups(sorted(unknown))})
        return TakenLeases(leases, self._groups, now + one.seconds)

    def _remember(self, leases: Sequence[Lease]) -> None:
        """Keep leases until they are reported; the oldest are forgotten."""
        self._leases |= {(lease.slot.element, lease.slot.start): lease for lease in leases}
        for which in list(islice(self._leases, max(len(self._leases) - _MOST_REMEMBERED, 0))):
            del self._leases[which]

    # --- outcomes

    def _prepared(
        self, requests: Sequence[LeaseRequest | ReportRequest], now: float
    ) -> list[list[tuple[str | None, int] | str]]:
        """Return for each outcome of each report what its content is now, or what is wrong with it."""
        reports = {at: one for at, one in enumerate(requests) if isinstance(one, ReportRequest)}
        wanted: dict[tuple[str, int], tuple[int, int]] = {}
        """Where an outcome of a fetcher's element is whose content is kept."""
        if any(told.has_content for one in reports.values() for told in one.outcomes):
            with self._store.begin() as t:
                for at, one in reports.items():
                    held = self._leases_held(t, one)
                    for i, told in enumerate(one.outcomes):
                        lease = held.get(told.element)
                        if told.has_content and _is_of(lease, told) and not contradiction(told, lease, now):
                            wanted.setdefault((one.fetcher, told.element), (at, i))
        places, sizes = set(wanted.values()), dict[str, int]()
        return [
            [
                self._handed_over(told, sizes) if not told.has_content or (at, i) in places else _NOT_LEASED
                for i, told in enumerate(reports[at].outcomes if at in reports else ())
            ]
            for at in range(len(requests))
        ]

    def _handed_over(self, one: FetchOutcome, sizes: dict[str, int]) -> tuple[str | None, int] | str:
        """Return digest and size of what is handed over, which is a copy then; or what is wrong with it.

        ``sizes``: of copies that have been looked at for other outcomes.
        """
        if why := one.wrong_content(self._settings.max_size):
            return why
        if one.content is not None:
            return self._copies.put(one.content)
        if one.digest is None:
            return None, 0
        if one.digest not in sizes:
            if not self._copies.has(one.digest):
                return "there is no content with this digest: put it to /api/contents/ first"
            sizes[one.digest] = 0
            with self._copies.open(one.digest) as stream:
                while block := stream.read(BLOCK_BYTES):
                    sizes[one.digest] += len(block)
        return one.digest, sizes[one.digest]

    def _report(
        self,
        t: Transaction,
        asked: ReportRequest,
        contents: Sequence[tuple[str | None, int] | str],
        now: float,
    ) -> Reported:
        """Record what a fetcher saw; whatever it had not leased, or cannot be, is refused with a reason."""
        name, done = worker_name(asked.fetcher), Reported()
        held = self._leases_held(t, asked)
        finished: dict[int, Finished] = {}
        for one, content in zip(asked.outcomes, contents, strict=True):
            lease = held.get(one.element)
            if one.element in finished:
                done.refused.append((one.element, "it is reported twice"))
            elif not _is_of(lease, one):
                if _was_recorded(t, one):
                    done.again += 1
                else:
                    done.refused.append((one.element, _NOT_LEASED))
            elif why := contradiction(one, lease, now):
                done.refused.append((one.element, why))
            elif isinstance(content, str):
                done.refused.append((one.element, content))
            else:
                finished[one.element] = self._finished(one, lease, *content)
        if finished:
            self._record(t, name, finished, done, now)
        return done

    def _leases_held(self, t: Transaction, asked: ReportRequest) -> dict[int, Lease]:
        """Return the leases of elements of a report that its fetcher has."""
        slots = t.held(worker_name(asked.fetcher), [one.element for one in asked.outcomes])
        found = {which[0]: self._leases[which] for which in slots.items() if which in self._leases}
        others = t.leases_of([element for element in slots if element not in found])
        return found | {lease.slot.element: lease for lease in others}

    def _record(
        self, t: Transaction, name: str, finished: dict[int, Finished], done: Reported, now: float
    ) -> None:
        """Record polls; those whose copy was deleted meanwhile are made again."""
        versions = {version.element for version in t.record(name, list(finished.values()))}
        for element, one in list(finished.items()):
            if one.digest is not None and element not in versions:
                del finished[element]
                done.refused.append((element, "its content was deleted meanwhile; it is polled again"))
        self._discovery.record(
            t, [one for one in finished.values() if one.found and one.found.discovered], now
        )
        for one in finished.values():
            self._leases.pop((one.lease.slot.element, one.lease.slot.start), None)
        done.recorded = len(finished)
        self._held[name] = max(self._held[name] - len(finished), 0)

    def _finished(self, one: FetchOutcome, lease: Lease, digest: str | None, size: int) -> Finished:
        """Return an outcome as a poll that was made."""
        told, known = one.modified, lease.known.fingerprint
        if told is not None and not (isfinite(told) and 0 < told <= one.start + _MOST_FUTURE_SECONDS):
            told = None
        found = Found(
            one.outcome, one.detail or one.outcome, media_type=one.media_type, validators=one.validators,
            traffic=one.traffic, modified=told, stays=one.stays, wait=one.wait,
            discovered=self._named(one, lease) if one.links else (),
        )  # fmt: skip
        if one.outcome != "changed":
            return Finished(lease, one.start, one.seconds, found, outcome=one.outcome, fingerprint=known)
        fingerprint = one.fingerprint or digest
        if fingerprint == known:
            return Finished(lease, one.start, one.seconds, found, outcome="unchanged", fingerprint=known)
        outcome = "new" if known is None else "changed"
        return Finished(lease, one.start, one.seconds, found, digest, size, outcome, fingerprint)

    def _named(self, one: FetchOutcome, lease: Lease) -> tuple[New, ...]:
        """Return the pages to which links lead that are to be followed."""
        options = LinkOptions.of(lease.known.options) if lease.source == "http" else None
        if options is None or one.outcome not in {"changed", "unchanged"}:
            return ()
        key = lease.known.key
        return followed(PageLinks(one.links), key, key, options, private=self._settings.http.private)


def _is_of(lease: Lease | None, one: FetchOutcome) -> TypeGuard[Lease]:
    """Tell whether there is a lease that an outcome is of."""
    return lease is not None and lease.slot.start == one.slot


def _was_recorded(t: Transaction, one: FetchOutcome) -> bool:
    """Tell whether the same outcome has been recorded before: its answer may have been lost on the way."""
    return any(poll.time == one.start for poll in t.polls(one.element, 3))
