"""Fetchers: whoever polls in the mirror's place, such as a crawler, and reports what it saw.

A fetcher is a worker like those of a fleet: it takes slots that the planner has handed out and paid for, and
what it reports is recorded in one transaction, by the same rules. So budget, limits of groups and learning
hold for it, and a lease that is not reported in time goes back to the planner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Literal

from unstale.errors import InvalidInput
from unstale.mirror.clock import Clock
from unstale.mirror.source import Found, Json
from unstale.mirror.store.contract import Finished, Lease, Store
from unstale.mirror.store.copies import Copies

MOST_LEASES = 1000
"""That are taken at a time."""
LONGEST_LEASE_SECONDS = 3600.0
_SEEN_SECONDS = 60.0
"""For which a fetcher counts as there after it has asked for leases."""
_EARLY_SECONDS = 1.0
"""By which a poll may seem to begin before its time, by a clock that differs a little."""
_MOST_FUTURE_SECONDS = 60.0
"""By which the time of a change may be in the future."""
_POLLS_SINCE = 100_000
"""That are looked at to see which were recorded: others record meanwhile."""


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

    @property
    def start(self) -> float:
        """When the poll began."""
        return self.slot if self.began is None else self.began


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


def take_leases(store: Store, clock: Clock, fetcher: str, count: int, seconds: float) -> list[Lease]:
    """Take polls that are due, for so many seconds; each may begin at the start of its slot."""
    if not 1 <= count <= MOST_LEASES:
        raise InvalidInput(f"count must be 1 to {MOST_LEASES:,}; it is {count!r}")
    if not 1.0 <= seconds <= LONGEST_LEASE_SECONDS:
        raise InvalidInput(f"seconds must be 1 to {LONGEST_LEASE_SECONDS:g}; it is {seconds!r}")
    name, now = worker_name(fetcher), clock.now()
    with store.begin() as t:
        t.alive(name, now, now + max(seconds, _SEEN_SECONDS))
        return t.lease(name, count, now, now + seconds)


def report(
    store: Store, copies: Copies, clock: Clock, fetcher: str, outcomes: Sequence[FetchOutcome]
) -> Reported:
    """Record what a fetcher saw; whatever it had not leased, or cannot be, is refused with a reason.

    Content becomes a copy before the transaction, as for any poll: nothing names it until it is recorded.
    """
    name, now, done = worker_name(fetcher), clock.now(), Reported()
    with store.begin() as t:
        held = {lease.slot.element: lease for lease in t.held(name, [one.element for one in outcomes])}
    finished: dict[int, Finished] = {}
    for one in outcomes:
        lease = held.get(one.element)
        why = "it is reported twice" if one.element in finished else _why_not(one, lease, now)
        if why is None and lease is not None:
            finished[one.element] = _finished(one, lease, copies.put)
        elif lease is None and _was_recorded(store, one):
            done.again += 1
        else:
            done.refused.append((one.element, why or ""))
    with store.begin() as t:
        last = next((poll.id for poll in t.polls(limit=1)), 0)
        t.record(name, list(finished.values()))
        recorded = {(poll.element, poll.time) for poll in t.polls(limit=_POLLS_SINCE, after=last)}
    lost = [element for element, one in finished.items() if (element, float(one.began)) not in recorded]
    done.refused += [(element, "its lease has expired meanwhile") for element in lost]
    done.recorded = len(finished) - len(lost)
    return done


def _was_recorded(store: Store, one: FetchOutcome) -> bool:
    """Tell whether the same outcome has been recorded before: its answer may have been lost on the way."""
    with store.begin() as t:
        return any(poll.time == one.start for poll in t.polls(one.element, 3))


def _why_not(one: FetchOutcome, lease: Lease | None, now: float) -> str | None:
    """Return why an outcome cannot be recorded."""
    if lease is None or lease.slot.start != one.slot:
        return "it is not leased to this fetcher, or not any more"
    if one.outcome == "changed" and one.fingerprint is None and one.content is None:
        return "changed needs a fingerprint or the content"
    if one.outcome == "unchanged" and lease.known.fingerprint is None:
        return "unchanged cannot be what was never seen; report it as changed"
    if not one.slot - _EARLY_SECONDS <= one.start <= now + _EARLY_SECONDS:
        return f"began must be between its slot, {one.slot!r}, and now, {now!r}; it is {one.start!r}"
    return None


def _finished(one: FetchOutcome, lease: Lease, put: Callable[[bytes], tuple[str, int]]) -> Finished:
    """Return an outcome as a poll that was made; content that is new becomes a copy."""
    told, known = one.modified, lease.known.fingerprint
    if told is not None and not (isfinite(told) and 0 < told <= one.start + _MOST_FUTURE_SECONDS):
        told = None
    found = Found(
        one.outcome, one.detail or one.outcome, media_type=one.media_type, validators=one.validators,
        traffic=one.traffic, modified=told, stays=one.stays, wait=one.wait,
    )  # fmt: skip
    finished = Finished(lease, one.start, one.seconds, found, outcome=one.outcome, fingerprint=known)
    if one.outcome != "changed":
        return finished
    digest, size = (None, 0) if one.content is None else put(one.content)
    fingerprint = one.fingerprint or digest
    if fingerprint == known:
        return replace(finished, outcome="unchanged")
    outcome = "new" if known is None else "changed"
    return replace(finished, digest=digest, size=size, fingerprint=fingerprint, outcome=outcome)
