"""What a store is, and what it promises.

The store is the truth about a mirror: its elements, what polls saw, the copies, what was learned, what has
been spent. A worker can die at any moment and be replaced by another, which reads the store.

1.  *A change that is recorded has its copy*, whole and with the right digest. A copy is written under a
    temporary name, synced and renamed before the transaction that names it. Readers see the old version or
    the new, never a mixture: files of copies are never written again.
2.  *Nothing recorded is lost.* What a poll saw, the version it brought and what was learned from it are one
    transaction. After a crash at most the polls in flight are repeated.
3.  *The budget and the limits of groups are never exceeded*, also across crashes and restarts: a poll is paid
    for in the transaction that hands it out, before it begins. What dies with a worker has been paid for.
4.  *One runner on an SQLite mirror.* A second one is refused with a clear line. A store with a newer schema
    is refused; an older one is migrated after a back-up has been made.
5.  *Trouble is told, not lost*: a full disk, a read-only folder, a lost connection raise
    `unstale.errors.Trouble`, which means: nothing was recorded, all that was recorded is still there, try
    again. The worker keeps what it has in memory, reports it, and goes on when it can.

There are two kinds of users. *Workers* poll what has been handed out to them. One of them is the *planner*,
who decides what is handed out: on SQLite the one runner, on PostgreSQL whoever has the planner's seat; when
that one dies or hangs, the next takes over. Others (commands, the dashboard) read, and edit: an edit is
written at once, and noted in a list of edits which the planner reads on.

Times are seconds since 1970; on PostgreSQL the workers go by the clock of the server (`Transaction.clock`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from unstale.mirror.clock import ClockReading
from unstale.mirror.source import Found, Json, Known
from unstale.policy.element_table import AWAY, STATES, ElementColumns
from unstale.policy.limits import UNLIMITED
from unstale.policy.poll_outcomes import PollOutcomes

__all__ = [
    "SORTS", "STATES", "UNLIMITED", "Addition", "Edit", "Element", "ElementColumns", "Finished", "Group",
    "Lease", "PollOutcomes", "PollRecord", "Sample", "Slot", "Store", "Transaction", "Version",
]  # fmt: skip

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Addition:
    """An element to be added; one that is there already gets what is given here, and keeps the rest."""

    key: str
    source: str
    group: str
    options: Mapping[str, Json] = field(default_factory=dict, repr=False)
    """For the source: rules and what was said of this element, joined."""
    weight: float = 1.0
    max_age: float = np.inf
    min_interval: float = 0.0
    jitter: float = 0.0
    windows: str = ""
    terms: str = ""
    """What it is polled for, as `ElementTerms` of the policy writes it; empty: what the mirror is for."""
    via: int | None = None
    """Number of the element (a feed, a sitemap) that discovered it; None: a user."""
    given: Mapping[str, Json] = field(default_factory=dict, repr=False)
    """What was said of this element itself, so that rules can be applied anew."""
    keep: int | None = None
    """Versions that are kept of it, 0: all; None: as many as of others."""
    keep_for: float | None = None
    """Seconds for which versions of it are kept; None: for ever."""
    tags: tuple[str, ...] = ()
    """By which people find it, in order."""


@dataclass(frozen=True, slots=True)
class Element:
    """An element as it is in the store."""

    id: int
    key: str
    source: str
    group: str
    options: Mapping[str, Json] = field(repr=False)
    """These two may hold secrets, and are in no repr."""
    given: Mapping[str, Json] = field(repr=False)
    weight: float
    max_age: float
    min_interval: float
    jitter: float
    windows: str
    via: int | None
    added: float
    state: Literal["new", "ok", "gone", "failing", "refused", "removed", "dropped", "paused", "archived"]
    last: float
    """Start of the last poll that saw something; nan if there was none."""
    not_before: float
    """It is not polled before this moment (back-off); 0 if it may be."""
    failures: int
    """Polls in a row that saw nothing."""
    size: float
    """Bytes that a poll takes, on average; nan if not known."""
    moved: str | None
    version: int | None
    """Number of the latest version."""
    fingerprint: str | None
    validators: Mapping[str, Json]
    detail: str
    """Of the last poll, in words."""
    terms: str = ""
    """As in `Addition`, as all that follow."""
    keep: int | None = None
    keep_for: float | None = None
    tags: tuple[str, ...] = ()

    @property
    def is_away(self) -> bool:
        """Whether nobody polls it: it was removed, or is paused or archived."""
        return self.state in AWAY


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a copy. Their numbers grow with time, so they are the feed of changes as well."""

    id: int
    element: int
    key: str
    time: float
    """Start of the poll that brought it."""
    digest: str
    """SHA-256 of the content, in hexadecimal."""
    size: int
    media_type: str
    modified: float | None
    first: bool
    """Whether it is the first version of its element: a new element, not a change."""
    meta: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class PollRecord:
    """What is kept of a poll. Numbers grow in the order in which polls were recorded."""

    id: int
    element: int
    time: float
    elapsed: float
    """Seconds since the last poll that saw something; nan if there was none."""
    outcome: str
    """An `Outcome`; ``new`` instead of ``changed`` for the first copy."""
    traffic: int
    seconds: float
    detail: str
    version: int | None
    planned: bool
    """False for those of an audit."""
    predicted: float
    """Probability, before the poll, that the copy was fresh; nan without a copy."""


@dataclass(frozen=True, slots=True)
class Group:
    """Elements that share a limit."""

    id: int
    name: str
    blocked_until: float
    """Nobody polls it before: Retry-After."""
    why: str
    spacing: float
    """Seconds between two polls that the source asked for; 0 if it did not."""
    paid_until: float
    """From when on the next poll may start."""


@dataclass(frozen=True, slots=True)
class Sample:
    """How the mirror did at a moment. What is not known is nan."""

    time: float
    freshness: float
    low: float
    """A 90 % interval of it."""
    high: float
    age: float
    predicted: float
    """Freshness that the budget buys on average, by the plan of that moment."""
    price: float
    polls: int
    """Since the sample before, as the following."""
    failed: int
    traffic: int
    beside: Mapping[str, float] = field(default_factory=dict)
    """What else was known of that moment, such as the true freshness in a simulated world."""


SORTS = ("key", "last", "weight", "state", "added")
"""What a table of elements can be sorted by."""


class Edit(NamedTuple):
    """Something that the planner should know of."""

    id: int
    kind: Literal["element", "group", "hint", "told", "settings", "audit", "read"]
    subject: int
    """Number of the element or group; 0 for settings."""
    time: float
    """Of the edit; of the change that is hinted at, as far as is known, or told of before the first poll."""
    channel: str
    """Of a hint: who gave it (the key of a feed, ``api``, ``command``, ``file``). Of an audit: its name."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A poll that the planner has chosen and paid for; it is handed out, and no worker has taken it yet."""

    element: int
    start: float
    """The moment at which it may begin."""
    late: float
    """Seconds after the start from which on the poll must not begin any more: the worker gives it back."""
    group: int
    predicted: float
    """Probability that the copy is fresh; nan without a copy."""
    planned: bool
    """False for those of an audit."""
    cost: float
    """Bytes that it is expected to take, for which the budget has been charged."""
    last: float = np.nan
    """Start of the last poll of the element that saw something; nan if there was none."""
    spacing: float = 0.0
    """Seconds between the starts of two polls of the group, at least."""
    concurrency: int = UNLIMITED
    """Polls of the group that may run at the same time.

    The last two are for a worker that plans for itself alone, and so may hold more polls of a group than can
    run. They are not stored: to several workers the planner hands out no more than may run.
    """


@dataclass(frozen=True, slots=True)
class Lease:
    """A slot that a worker has taken, with all that it needs to make the poll."""

    slot: Slot
    known: Known
    source: str
    """Name of the source that polls it."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A poll that a worker has made; or has not, and gives back (``found`` is None)."""

    lease: Lease
    began: float
    seconds: float
    found: Found | None
    digest: str | None = None
    """Of the copy, which is in the folder of copies already; None if the poll brought no new one."""
    size: int = 0
    outcome: str = ""
    """As in `PollRecord`; the worker has compared fingerprints."""
    fingerprint: str | None = None

    def moved(self, by: float) -> Finished:
        """Return it with the moments of this poll and of the last one moved: the clock was set by so much.

        The start of its slot stays, since it tells this lease from others of the element.
        """
        slot = replace(self.lease.slot, last=self.lease.slot.last + by)
        return replace(self, began=self.began + by, lease=replace(self.lease, slot=slot))


class NamedBy(NamedTuple):
    """How much a list has named."""

    elements: int
    waiting: int
    """For their first poll."""
    seen: int
    """Those of which there is a copy."""


class Transaction(Protocol):
    """What can be done to a store, all of it or nothing."""

    # --- elements -------------------------------------------------------------------------------------------

    def add(self, additions: Sequence[Addition], now: float) -> list[int]:
        """Add or change elements; return their numbers. Notes edits; what was removed comes back."""

    def remove(self, ids: Sequence[int], now: float) -> None:
        """Let elements go: they are polled no more and do not count. Versions stay until `forget`."""

    def pause(self, ids: Sequence[int], now: float) -> list[int]:
        """Let nobody poll elements until `resume`; they stay. Return those that were polled before."""

    def resume(self, ids: Sequence[int], now: float) -> list[int]:
        """Have elements polled again that were paused or archived; return which were."""

    def archive(self, before: float, now: float) -> list[int]:
        """Put elements away that have been gone since a moment, some at a time; return which."""

    def forget(self, ids: Sequence[int]) -> list[str]:
        """Delete removed elements with all their history; return digests that nothing refers to any more."""

    def find(self, keys: Sequence[str]) -> dict[str, Element]:
        """Return the elements that have these keys, by key; removed ones included."""

    def named_by(self, via: int) -> NamedBy:
        """Return how many elements a list has named, without removed ones."""

    def going_back_to(self, root: int, limit: int) -> int:
        """Return how many elements a list has led to, with those of lists it named; ``limit`` at most."""

    def count_in_groups(self, names: Sequence[str]) -> dict[str, int]:
        """Return how many elements groups have, by name; those without any are left out."""

    def set_links(self, page: int, targets: Sequence[int]) -> None:
        """Keep which elements a page links to, instead of those before."""

    def links(self) -> tuple[Ids, Ids]:
        """Return pages and the elements that they link to, a pair for each link."""

    def read_again(self, ids: Sequence[int]) -> None:
        """Forget the validators of lists, so that their next polls read them whole."""

    def elements(
        self, after: int = 0, limit: int = 1000, *, via: int | None = None, pattern: str | None = None
    ) -> list[Element]:
        """Return elements in the order of their numbers, after ``after``; removed ones are left out."""

    def numbered(self, ids: Sequence[int]) -> dict[int, Element]:
        """Return the elements that have these numbers, by number; removed ones included."""

    def page(
        self,
        *,
        search: str = "",
        state: str = "",
        group: str = "",
        tag: str = "",
        sort: str = "key",
        descending: bool = False,
        offset: int = 0,
        limit: int = 50,
    ) -> tuple[list[Element], int]:
        """Return some of the elements, sorted by one of `SORTS`, and how many there are in all.

        ``search`` is a part of the key, ``state``, ``group`` and ``tag`` what they must be or have if they
        are given; removed and archived elements are left out unless that is the state that is asked for.
        """

    def tags(self) -> list[str]:
        """Return all tags that elements have, in order."""

    def sources(self) -> set[str]:
        """Return the names of the sources that elements have."""

    def count(self) -> dict[str, int]:
        """Return how many elements there are in each state (removed ones under ``removed``)."""

    # --- what the planner keeps

    def load(self, ids: Sequence[int] | None = None, chunk: int = 10_000) -> Iterator[ElementColumns]:
        """Return all elements that are not removed, or these, as columns, in the order of numbers."""

    def save(self, columns: ElementColumns) -> None:
        """Keep last, not_before, failures, size, state and evidence of elements."""

    def state(self, names: Sequence[str] | None = None) -> dict[str, bytes]:
        """Return what the planner and others have kept besides: name to bytes; all, or these."""

    def keep(self, state: Mapping[str, bytes]) -> None:
        """Keep it; other names stay as they are."""

    def heard(self, after: int, limit: int = 100_000) -> PollOutcomes:
        """Return what polls saw, from the one after ``after`` on."""

    def edits(self, after: int, limit: int = 100_000, *, loaded: int = 0) -> list[Edit]:
        """Return edits, from the one after ``after`` on.

        Those up to ``loaded`` that are about elements and groups are left out: whoever has read all of them
        since knows what has become of them.
        """

    def last_edit(self) -> int:
        """Return the number of the last edit that is there; what is read afterwards has all up to it."""

    def edit(self, edits: Sequence[tuple[str, int, float, str]]) -> None:
        """Note edits: kind, subject, time, channel."""

    def groups(self, ids: Sequence[int] | None = None) -> list[Group]:
        """Return all groups, or these."""

    def pay(self, paid_until: Mapping[int, float]) -> None:
        """Keep from when on the next poll of each group may start."""

    # --- polls

    def hand_out(self, slots: Sequence[Slot]) -> None:
        """Hand out slots for workers to take; an element that is handed out already stays as it is."""

    def hand_to(self, worker: str, slots: Sequence[Slot], expires: float) -> list[Lease]:
        """Hand out slots that are this worker's own at once, until they expire; return its leases."""

    def lease(
        self,
        worker: str,
        count: int,
        now: float,
        expires: float,
        *,
        groups: Sequence[int] | None = None,
        each: int | None = None,
        most_groups: int | None = None,
        until: float | None = None,
    ) -> list[Lease]:
        """Take slots that were handed out, the earliest first; they are the worker's until they expire.

        ``groups``: of these groups only. ``each``: so many of each group, at most. ``most_groups``: of so
        many groups. ``until``: those that may begin by then.
        """

    def leases_held(self, worker: str | None = None) -> int:
        """Return how many leases a worker has; None: all workers together."""

    def limit_group(
        self, group: int, now: float, *, blocked_until: float | None = None, spacing: float | None = None
    ) -> None:
        """Let nobody poll a group before a moment, or more often than that; notes an edit."""

    def set_validators(self, validators: Mapping[int, Mapping[str, Json]]) -> None:
        """Keep what is to be given with the next polls of elements."""

    def groups_named(self, names: Sequence[str]) -> dict[str, int]:
        """Return the numbers of groups, by name; those that there are not are left out."""

    def held(self, worker: str, some: Sequence[int]) -> dict[int, float]:
        """Return when the slots start of which a worker has leases, by element, of some elements.

        Nobody else takes them meanwhile.
        """

    def leases_of(self, some: Sequence[int]) -> list[Lease]:
        """Return the leases of elements, whoever has them."""

    def expire(self, now: float, *, everything: bool = False) -> list[int]:
        """Drop leases that have expired (taken or not), or all; return the numbers of their elements."""

    def leased(self) -> list[tuple[int, int, str]]:
        """Return (element, group, worker or '') of all slots that are handed out."""

    def record(self, worker: str, finished: Sequence[Finished]) -> list[Version]:
        """Record polls, their versions, and what the source said about the group.

        A poll whose lease the worker has lost is not recorded, and what is given back is only dropped.
        Updates validators, fingerprint, version, moved and detail of elements, the limits of groups
        (blocked_until, spacing; notes an edit ``group`` if they changed), and returns the new versions.
        """

    # --- readers

    def versions(
        self, after: int = 0, limit: int = 1000, *, element: int | None = None, latest_first: bool = False
    ) -> list[Version]:
        """Return versions after ``after`` in the order of their numbers, or the latest first."""

    def polls(self, element: int | None = None, limit: int = 1000, after: int = 0) -> list[PollRecord]:
        """Return polls, of one element or all: the latest first, or those after ``after`` in order."""

    def some_elements(self, count: int) -> list[int]:
        """Return so many numbers, chosen at random, among which elements are; all if there are not more."""

    def first_added(self) -> float | None:
        """Return when the first element was added; None if there is none."""

    def group_sizes(self) -> dict[int, int]:
        """Return how many elements of each group are to be kept fresh."""

    def neglected(self, *, now: float, before: float, groups: Sequence[int], count: int) -> list[int]:
        """Return elements that may be neglected, ``count`` at most for each reason.

        They fail, are refused or were never there; were last polled ``before`` a moment, or never; or are in
        one of these groups.
        """

    def tally(self, since: float) -> list[tuple[str, str, int, int]]:
        """Return (group, outcome, polls, bytes) of polls since a moment."""

    def read(self, reads: Mapping[int, int], now: float) -> None:
        """Count reads of copies: element to how many."""

    def reads(self, since: float, element: int | None = None) -> list[tuple[int, float, int]]:
        """Return (element, start of the hour, reads) since a moment, of one element or all."""

    def reads_by_hour(self, since: float) -> list[tuple[float, int]]:
        """Return (start of the hour, reads of all elements) since a moment."""

    def read_by_users(self, reads: Mapping[tuple[str, int], int], now: float) -> None:
        """Count reads of copies by users: user and element to how many."""

    def reads_by_user(self, since: float) -> list[tuple[str, int, float, int]]:
        """Return (user, element, start of the hour, reads) since a moment."""

    def sample(self, sample: Sample) -> None:
        """Keep how the mirror did at a moment."""

    def samples(self, since: float, limit: int = 2000) -> list[Sample]:
        """Return how the mirror did since a moment, in order of time.

        Of more than ``limit``, those at evenly spaced moments; each then counts the polls since the one
        before that is returned.
        """

    # --- workers

    def alive(self, worker: str, now: float, expires: float, *, ahead: float | None = None) -> list[str]:
        """Say that a worker is there until then; return those that are, without the expired.

        ``ahead``: by how many seconds the clock of its machine is ahead of the database's, if that is known.
        """

    def workers(self, now: float) -> list[str]:
        """Return the workers that are there."""

    def skews(self, now: float) -> dict[str, float]:
        """Return what the workers that are there have said of their clocks."""

    def clock(self) -> ClockReading | None:
        """Return what the clock of the database says, which all workers go by; None if it has none."""

    def prune(
        self,
        keep_versions: int,
        reads_before: float,
        limit: int = 1000,
        *,
        edits_to: int = 0,
        now: float = -np.inf,
    ) -> list[str]:
        """Delete some old versions (0: none), reads and edits; return digests nothing refers to any more.

        Of samples older than two days before ``now`` one for each hour is kept, for two years.
        """

    def room_taken(self) -> int:
        """Return how many bytes all versions of copies have."""

    def room_of_copies(self) -> tuple[Ids, Floats]:
        """Return elements, in order, and the bytes of their latest copies, or of those that were dropped."""

    def drop_old_versions(self, size: int, limit: int = 10_000) -> list[str]:
        """Delete the oldest versions that have a later one, so that so many bytes are free.

        Returns digests that nothing refers to any more.
        """

    def drop_copies(self, ids: Sequence[int]) -> list[str]:
        """Delete all versions of elements; return digests that nothing refers to any more.

        The next polls bring content again.
        """

    def latest(self, after: int, limit: int) -> list[tuple[int, str]]:
        """Return elements after ``after``, in order, each with the digest of its latest version."""

    def refetch(self, ids: Sequence[int]) -> None:
        """Forget validators and fingerprints, so that the next polls of elements bring content again."""

    def referred(self, digests: Sequence[str]) -> set[str]:
        """Return those of the digests that some version has."""


class Store(Protocol):
    """A store, open."""

    url: str

    @property
    def single_runner(self) -> bool:
        """Whether one process at most can run the mirror, so that any other that seems to run it has died."""

    @property
    def own_files(self) -> tuple[Path, ...]:
        """Files that the store itself consists of, which are no elements; none if a server keeps it."""

    def begin(self) -> AbstractContextManager[Transaction]:
        """All of what is done in here is recorded, or nothing: with an error, nothing."""

    def become_planner(self) -> bool:
        """Try to be the planner, or see whether we still are."""

    def claim_copies(self) -> None:
        """Refuse to work with a folder of copies that is not the mirror's; one that is new becomes it."""

    def lacking(self) -> str | None:
        """Say what the server lacks that workers rely on; None if it has all."""

    def foreign_copies(self) -> str | None:
        """Say why the folder of copies is not the one that the mirror's workers have; None if it is."""

    def close(self) -> None:
        """Let go of it, and of the lock."""

    def backup(self, path: Path) -> Path | None:
        """Write a back-up; None if the server does that."""

    def discard(self, digests: Sequence[str], *, enough: Callable[[], bool] = lambda: False) -> int:
        """Delete copies that nothing refers to any more, until it is ``enough``; return how many."""

    def sweep(self, older_than: float = 86400.0, *, enough: Callable[[], bool] = lambda: False) -> int:
        """Delete copies that a crash left behind so many seconds ago, as `discard`; return how many."""

    def move_polls(
        self, *, before: float, most: int, heard: int, enough: Callable[[], bool] = lambda: False
    ) -> int:
        """Move the oldest polls to files beside the copies, so that tables hold at most so many.

        Polls before a moment are deleted, from tables and files; those after the last ``heard`` of stay.
        """

    def all_polls(self, after: int = 0) -> Iterator[list[PollRecord]]:
        """Return all polls after one, oldest first, some at a time, from files and tables."""

    def archived_moments(self, elements: Sequence[int], first: float, last: float) -> set[tuple[int, float]]:
        """Return (element, moment) of polls of some elements in some time that are in files."""

    def check(self) -> list[str]:
        """Return what is wrong with the store itself: integrity, versions without copies."""
