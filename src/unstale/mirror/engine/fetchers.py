"""Fetchers: whoever polls in the mirror's place, such as a crawler, and reports what it saw.

A fetcher is a worker like those of a fleet: it takes slots that the planner has handed out and paid for, and
what it reports is recorded in one transaction, by the same rules. So budget, limits of groups and learning
hold for it, and a lease that is not reported in time goes back to the planner. Links that it found become
elements by the rules of discovery.

What it says is believed as far as it can be: what contradicts its lease, the clock, the content or itself is
refused with a reason, and nothing is learned from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from math import isfinite
from typing import Literal

from unstale.errors import InvalidInput
from unstale.mirror.clock import Clock
from unstale.mirror.settings import Settings
from unstale.mirror.source import Found, Json, New
from unstale.mirror.sources.http.links import LinkOptions, PageLinks, followed
from unstale.mirror.store.contract import Finished, Lease, Store, Transaction
from unstale.mirror.store.copies import BLOCK_BYTES, Copies

from .discovery import Discovery

MOST_LEASES = 1000
"""That are taken at a time."""
MOST_HELD = 10_000
"""Leases that one fetcher has at the same time."""
LONGEST_LEASE_SECONDS = 3600.0
_SEEN_SECONDS = 60.0
"""For which a fetcher counts as there after it has asked for leases."""
_EARLY_SECONDS = 1.0
"""By which a poll may seem to begin before its time, by a clock that differs a little."""
_MOST_FUTURE_SECONDS = 60.0
"""By which the time of a change may be in the future."""
_POLLS_SINCE = 100_000
"""That are looked at to see which were recorded: others record meanwhile."""
_MOST_TRAFFIC = 10
"""Times the size that content may have, which a poll may move."""


@dataclass(frozen=True)
class FetchOutcome:
    """What a fetcher saw of an element that it had leased."""

    element: int
    slot: float
    """The start of its lease, as it was given: it tells this lease from others of the element."""
    outcome: Literal["changed", "unchanged", "gone", "failed"]
    fingerprint: str | None = None
    """With ``changed``: a digest of what counts as content, if the content stays with the fetcher."""
    content: bytes | None = None
    """With ``changed``: the content, if the mirror is to keep a copy."""
    digest: str | None = None
    """SHA-256 of the content: of what is handed over here, or was put before."""
    began: float | None = None
    """When the poll began (seconds since 1970); None: when it might."""
    seconds: float = 0.0
    traffic: int = 0
    detail: str = ""
    media_type: str = "application/octet-stream"
    validators: Mapping[str, Json] | None = None
    modified: float | None = None
    """When it changed last, as the other side says (seconds since 1970)."""
    stays: float | None = None
    wait: float | None = None
    """Seconds for which nobody may poll the whole group (Retry-After)."""
    links: tuple[str, ...] = ()
    """Addresses that the page links to; followed as the option ``links`` of the page says."""

    @property
    def start(self) -> float:
        """When the poll began."""
        return self.slot if self.began is None else self.began

    @property
    def has_content(self) -> bool:
        """Whether there is something to be kept as a copy."""
        return self.content is not None or self.digest is not None


@dataclass(frozen=True)
class TakenLeases:
    """Polls that are a fetcher's own now."""

    leases: list[Lease]
    groups: Mapping[int, str]
    """Names of their groups, by number."""
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


def take_leases(
    store: Store,
    clock: Clock,
    fetcher: str,
    count: int,
    seconds: float,
    *,
    groups: Sequence[str] | None = None,
    each: int | None = None,
) -> TakenLeases:
    """Take polls that are due, for so many seconds; each may begin at the start of its slot.

    Parameters
    ----------
    count
        how many, at most
    groups
        of groups with these names only
    each
        so many of each group, at most
    """
    if not 1 <= count <= MOST_LEASES:
        raise InvalidInput(f"count must be 1 to {MOST_LEASES:,}; it is {count!r}")
    if not 1.0 <= seconds <= LONGEST_LEASE_SECONDS:
        raise InvalidInput(f"seconds must be 1 to {LONGEST_LEASE_SECONDS:g}; it is {seconds!r}")
    if each is not None and each < 1:
        raise InvalidInput(f"each must be at least 1; it is {each!r}")
    name, now = worker_name(fetcher), clock.now()
    with store.begin() as t:
        t.alive(name, now, now + max(seconds, _SEEN_SECONDS))
        count = min(count, MOST_HELD - t.leases_held(name))
        if count <= 0:
            raise InvalidInput(
                f"{fetcher} has {MOST_HELD:,} leases already; report some, or let them expire first"
            )
        numbers = None if groups is None else list(t.groups_named(groups).values())
        leases = t.lease(name, count, now, now + seconds, groups=numbers, each=each)
        found = t.groups(sorted({lease.slot.group for lease in leases})) if leases else []
    return TakenLeases(leases, {group.id: group.name for group in found}, now + seconds)


class FetchRecorder:
    """Records what fetchers saw."""

    def __init__(
        self, store: Store, copies: Copies, settings: Settings, clock: Clock, discovery: Discovery
    ) -> None:
        self._store, self._copies, self._settings, self._clock = store, copies, settings, clock
        self._discovery = discovery

    def report(self, fetcher: str, outcomes: Sequence[FetchOutcome]) -> Reported:
        """Record what a fetcher saw; whatever it had not leased, or cannot be, is refused with a reason.

        Content becomes a copy before the transaction, as for any poll: nothing names it until it is recorded.
        """
        name, now, done = worker_name(fetcher), self._clock.now(), Reported()
        with self._store.begin() as t:
            held = {lease.slot.element: lease for lease in t.held(name, [one.element for one in outcomes])}
            before = {one.element for one in outcomes if _was_recorded(t, one, held.get(one.element))}
        finished: dict[int, Finished] = {}
        for one in outcomes:
            lease = held.get(one.element)
            if one.element in finished:
                done.refused.append((one.element, "it is reported twice"))
            elif lease is None or lease.slot.start != one.slot:
                if one.element in before:
                    done.again += 1
                else:
                    done.refused.append((one.element, "it is not leased to this fetcher, or not any more"))
            elif why := self._why_not(one, lease, now):
                done.refused.append((one.element, why))
            else:
                finished[one.element] = self._finished(one, lease)
        if not finished:
            return done
        with self._store.begin() as t:
            last = next((poll.id for poll in t.polls(limit=1)), 0)
            t.record(name, list(finished.values()))
            recorded = {(poll.element, poll.time) for poll in t.polls(limit=_POLLS_SINCE, after=last)}
            lost = [
                element for element, one in finished.items() if (element, float(one.began)) not in recorded
            ]
            kept = [one for element, one in finished.items() if element not in lost]
            self._discovery.record(t, kept, now)
        done.refused += [(element, "its lease has expired meanwhile") for element in lost]
        done.recorded = len(kept)
        return done

    def _why_not(self, one: FetchOutcome, lease: Lease, now: float) -> str:
        """Return why an outcome cannot be recorded; empty if it can be."""
        return _contradiction(one, lease, now) or self._wrong_content(one)

    def _wrong_content(self, one: FetchOutcome) -> str:
        """Return what is wrong with what is handed over."""
        largest = self._settings.max_size
        if one.traffic > _MOST_TRAFFIC * largest:
            return f"traffic must be at most {_MOST_TRAFFIC * largest:,} bytes; it is {one.traffic:,}"
        if one.content is not None:
            if len(one.content) > largest:
                return f"content has {len(one.content):,} bytes; max_size allows for {largest:,}"
            if one.digest is not None and one.digest != sha256(one.content).hexdigest():
                return "digest is not the SHA-256 of the content"
        elif one.digest is not None and not self._copies.has(one.digest):
            return "there is no content with this digest: put it to /api/contents/ first"
        return ""

    def _finished(self, one: FetchOutcome, lease: Lease) -> Finished:
        """Return an outcome as a poll that was made; content that is new becomes a copy."""
        told, known = one.modified, lease.known.fingerprint
        if told is not None and not (isfinite(told) and 0 < told <= one.start + _MOST_FUTURE_SECONDS):
            told = None
        found = Found(
            one.outcome, one.detail or one.outcome, media_type=one.media_type, validators=one.validators,
            traffic=one.traffic, modified=told, stays=one.stays, wait=one.wait,
            discovered=self._named(one, lease),
        )  # fmt: skip
        finished = Finished(lease, one.start, one.seconds, found, outcome=one.outcome, fingerprint=known)
        if one.outcome != "changed":
            return finished
        digest, size = self._kept(one)
        fingerprint = one.fingerprint or digest
        if fingerprint == known:
            return replace(finished, outcome="unchanged")
        outcome = "new" if known is None else "changed"
        return replace(finished, digest=digest, size=size, fingerprint=fingerprint, outcome=outcome)

    def _kept(self, one: FetchOutcome) -> tuple[str | None, int]:
        """Return digest and size of what is handed over, which is a copy then."""
        if one.content is not None:
            return self._copies.put(one.content)
        if one.digest is None:
            return None, 0
        size = 0
        with self._copies.open(one.digest) as stream:
            while block := stream.read(BLOCK_BYTES):
                size += len(block)
        return one.digest, size

    def _named(self, one: FetchOutcome, lease: Lease) -> tuple[New, ...]:
        """Return the pages to which links lead that are to be followed."""
        options = LinkOptions.of(lease.known.options) if one.links and lease.source == "http" else None
        if options is None or one.outcome not in {"changed", "unchanged"}:
            return ()
        key = lease.known.key
        return followed(PageLinks(one.links), key, key, options, private=self._settings.http.private)


def _was_recorded(t: Transaction, one: FetchOutcome, lease: Lease | None) -> bool:
    """Tell whether the same outcome has been recorded before: its answer may have been lost on the way."""
    if lease is not None and lease.slot.start == one.slot:
        return False
    return any(poll.time == one.start for poll in t.polls(one.element, 3))


def _contradiction(one: FetchOutcome, lease: Lease, now: float) -> str:
    """Return what of an outcome contradicts its lease, the clock or itself; empty if nothing does."""
    known, last = lease.known.fingerprint, lease.slot.last
    if one.outcome == "changed":
        if one.fingerprint is None and not one.has_content:
            return "changed needs a fingerprint or the content"
    elif one.has_content:
        return f"{one.outcome} cannot come with content; report it as changed"
    elif one.outcome == "unchanged" and known is None:
        return "unchanged cannot be what was never seen; report it as changed"
    elif one.outcome == "unchanged" and one.fingerprint not in {None, known}:
        return "unchanged cannot come with another fingerprint; report it as changed"
    return _wrong_moment(one, last, now)


def _wrong_moment(one: FetchOutcome, last: float, now: float) -> str:
    """Return what is wrong with the moments of an outcome; ``last``: the last poll that saw something."""
    if not one.slot - _EARLY_SECONDS <= one.start <= now + _EARLY_SECONDS:
        return f"began must be between its slot, {one.slot!r}, and now, {now!r}; it is {one.start!r}"
    if one.start < last:
        return f"began must not be before the last poll, {last!r}; it is {one.start!r}"
    if one.start + one.seconds > now + 2.0 * _EARLY_SECONDS:
        return f"it would end in the future: seconds is {one.seconds!r}"
    return ""
