"""What crawlers ask of a frontier, said as leases and outcomes of a mirror.

A queue is a group (``http:`` and its key, most often a host). A URL that is put as known is the outcome of
its lease: ``signature`` in its metadata is the fingerprint by which a change is told. Its metadata is given
with it the next time. The mirror decides when it is fetched again: ``refetchable_from_date`` says nothing
here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from unstale.errors import InvalidInput
from unstale.mirror.engine.fetch_outcomes import FetchOutcome
from unstale.mirror.engine.fetchers import (
    LONGEST_LEASE_SECONDS,
    MOST_LEASES,
    FetchDesk,
    LeaseRequest,
    Reported,
    ReportRequest,
    TakenLeases,
    worker_name,
)
from unstale.mirror.mirror import Mirror
from unstale.mirror.source import Json, New
from unstale.mirror.store.contract import Addition, Element

OK, SKIPPED, FAIL = 0, 1, 2
"""What becomes of a URL that is put: done; never to be sent again; to be sent again."""
NAME = "urlfrontier"
"""Of the fetcher: all crawlers of one frontier share its leases."""
_GROUP = "http:"
_KEPT = "urlfrontier"
"""Where validators have the metadata."""
_UNLOCK_SECONDS = 30.0
"""For which a URL is not given again, unless a crawler says."""
_MOST_METADATA_LETTERS = 20_000
_STATUS_NAMES = ("fetch.statusCode", "statusCode", "http.status")
_SIGNATURE_NAMES = (
    "signature",
    "protocol.etag",
    "etag",
    "protocol.last-modified",
    "last-modified",
    "_redirTo",
)
"""What tells a change: the first of them that there is."""

Metadata = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class FrontierUrl:
    """A URL with its queue and its metadata."""

    url: str
    key: str = ""
    metadata: Metadata = field(default_factory=dict)


class Frontier:
    """A mirror, as crawlers see a frontier."""

    def __init__(self, mirror: Mirror) -> None:
        if mirror.settings.fetch != "elsewhere":
            raise InvalidInput(
                '--urlfrontier: this mirror polls itself; say fetch = "elsewhere" in mirror.toml'
            )
        self._mirror, self._store = mirror, mirror.store
        self._discovery = mirror.discovery()
        self._desk = FetchDesk(mirror.store, mirror.copies, mirror.settings, mirror.clock, self._discovery)
        self.active = True

    # --- fetching

    def get(self, *, each: int, queues: int, key: str, seconds: int) -> list[FrontierUrl]:
        """Return URLs that are due; they are not given again for so many seconds, or until they are put."""
        if not self.active:
            return []
        count = min(max(each, 1) * (queues or MOST_LEASES) if each else MOST_LEASES, MOST_LEASES)
        (taken,) = self._desk.serve(
            [
                LeaseRequest(
                    NAME, count, min(max(float(seconds or _UNLOCK_SECONDS), 1.0), LONGEST_LEASE_SECONDS),
                    groups=[_group(key)] if key else None, each=each or None, most_groups=queues or None,
                    due=True,
                )
            ]
        )  # fmt: skip
        if isinstance(taken, InvalidInput):
            raise taken
        assert isinstance(taken, TakenLeases)  # noqa: S101
        return [
            FrontierUrl(
                lease.known.key,
                _queue(taken.groups.get(lease.slot.group, "")),
                _metadata(lease.known.validators),
            )
            for lease in taken.leases
        ]

    def put_known(self, urls: Sequence[FrontierUrl]) -> list[int]:
        """Take what crawlers saw of URLs that they got; return what became of each."""
        with self._store.begin() as t:
            there = t.find([one.url for one in urls])
            held = t.held(worker_name(NAME), [element.id for element in there.values()])
        answers = [SKIPPED] * len(urls)
        outcomes: dict[int, tuple[int, FetchOutcome]] = {}
        for place, one in enumerate(urls):
            element = there.get(one.url)
            if element is None or element.id not in held or element.id in outcomes:
                continue
            if (outcome := _outcome(one, element, held[element.id])) is not None:
                outcomes[element.id] = place, outcome
        if outcomes:
            (done,) = self._desk.serve([ReportRequest(NAME, [outcome for _, outcome in outcomes.values()])])
            assert isinstance(done, Reported)  # noqa: S101
            refused = {element for element, _ in done.refused}
            for number, (place, _) in outcomes.items():
                answers[place] = SKIPPED if number in refused else OK
        return answers

    def put_discovered(self, urls: Sequence[FrontierUrl]) -> list[int]:
        """Add URLs that are not there yet, within the limits of discovery; return what became of each."""
        limits, now = self._mirror.settings.discovery, self._mirror.clock.now()
        answers = [OK] * len(urls)
        with self._store.begin() as t:
            additions = {}
            for place, one in enumerate(urls):
                try:
                    said: dict[str, Json] = {"group": _group(one.key)} if one.key else {}
                    additions[place] = self._discovery.addition(New(one.url, "http"), said)
                except InvalidInput:
                    answers[place] = SKIPPED
            there = t.find([one.key for one in additions.values()])
            new = {p: one for p, one in additions.items() if one.key not in there}
            room = limits.total - sum(t.count().values()) if new else 0
            hosts = t.count_in_groups(sorted({one.group for one in new.values()}))
            admitted: dict[str, tuple[Addition, Metadata]] = {}
            for place, addition in new.items():
                if len(admitted) >= room or hosts.get(addition.group, 0) >= limits.host:
                    answers[place] = SKIPPED
                    continue
                hosts[addition.group] = hosts.get(addition.group, 0) + 1
                admitted[addition.key] = addition, urls[place].metadata
            numbers = t.add([addition for addition, _ in admitted.values()], now)
            told = zip(numbers, admitted.values(), strict=True)
            t.set_validators({number: _validators(said) for number, (_, said) in told if said})
        return answers

    # --- queues

    def block(self, key: str, until: float) -> None:
        """Let nobody fetch from a queue before a moment."""
        self._limit(key, blocked_until=until)

    def delay(self, key: str, seconds: float) -> None:
        """Let URLs of a queue be fetched no more often than that."""
        self._limit(key, spacing=seconds)

    def _limit(self, key: str, *, blocked_until: float | None = None, spacing: float | None = None) -> None:
        with self._store.begin() as t:
            for number in t.groups_named([_group(key)]).values():
                t.limit_group(number, self._mirror.clock.now(), blocked_until=blocked_until, spacing=spacing)

    def queues(self, start: int, size: int, *, inactive: bool) -> list[str]:
        """Return the keys of queues."""
        now = self._mirror.clock.now()
        with self._store.begin() as t:
            found = [_queue(one.name) for one in t.groups() if inactive or one.blocked_until <= now]
        return sorted(found)[start : start + (size or 100)]

    def stats(self, key: str) -> dict[str, int]:
        """Return how many URLs there are, how many are out, and how many queues."""
        with self._store.begin() as t:
            names = t.groups_named([_group(key)]) if key else {one.name: one.id for one in t.groups()}
            ids = set(names.values())
            out = sum(group in ids and worker == worker_name(NAME) for _, group, worker in t.leased())
            size = t.page(group=_group(key), limit=1)[1] if key else sum(t.count().values())
        return {"size": size, "in_process": out, "queues": len(ids)}

    def delete_queue(self, key: str) -> int:
        """Remove all URLs of a queue; return how many there were."""
        count = 0
        while True:
            with self._store.begin() as t:
                some, _ = t.page(group=_group(key), limit=1000)
                t.remove([one.id for one in some], self._mirror.clock.now())
            if not some:
                return count
            count += len(some)

    def find(self, url: str) -> tuple[FrontierUrl, Element] | None:
        """Return a URL that is there, with its metadata."""
        with self._store.begin() as t:
            element = t.find([url]).get(url)
        if element is None or element.state == "removed":
            return None
        return FrontierUrl(element.key, _queue(element.group), _metadata(element.validators)), element

    def urls(
        self, key: str, text: str, start: int, size: int
    ) -> tuple[list[tuple[FrontierUrl, Element]], int]:
        """Return some of the URLs, and how many there are."""
        with self._store.begin() as t:
            group = _group(key) if key else ""
            some, count = t.page(search=text, group=group, offset=start, limit=min(size or 100, 1000))
        return [
            (FrontierUrl(one.key, _queue(one.group), _metadata(one.validators)), one) for one in some
        ], count


def _group(key: str) -> str:
    return key if key.startswith(_GROUP) else _GROUP + key


def _queue(group: str) -> str:
    return group.removeprefix(_GROUP)


def _outcome(one: FrontierUrl, element: Element, slot: float) -> FetchOutcome | None:
    """Return what a crawler saw of a URL; None if its metadata does not tell."""
    status = _first(one.metadata, _STATUS_NAMES)
    problem = _first(one.metadata, ("fetch.exception",))
    signature = _first(one.metadata, _SIGNATURE_NAMES)
    outcome: Literal["changed", "unchanged", "gone", "failed"]
    if status == "304" and element.fingerprint is not None:
        outcome, signature = "unchanged", ""
    elif status in {"404", "410"}:
        outcome, signature = "gone", ""
    elif problem or (status.isdigit() and not 200 <= int(status) < 400):
        outcome, signature = "failed", ""
    elif signature:
        outcome = "changed"
    else:
        return None
    detail = " ".join(filter(None, (status, problem)))
    return FetchOutcome(
        element.id, slot, outcome, fingerprint=signature[:200] or None, detail=detail[:300],
        validators=_validators(one.metadata),
    )  # fmt: skip


def _first(metadata: Metadata, names: Sequence[str]) -> str:
    return next((str(metadata[name][0]) for name in names if metadata.get(name)), "")


def _validators(metadata: Metadata) -> dict[str, Json]:
    """Return what is kept of metadata: as much as has room."""
    kept: dict[str, Json] = {}
    room = _MOST_METADATA_LETTERS
    for name, values in metadata.items():
        room -= len(name) + sum(map(len, values))
        if room < 0:
            break
        kept[name] = [str(value) for value in values]
    return {_KEPT: kept}


def _metadata(validators: Mapping[str, Json]) -> dict[str, list[str]]:
    kept = validators.get(_KEPT)
    if not isinstance(kept, dict):
        return {}
    return {name: [str(one) for one in values] for name, values in kept.items() if isinstance(values, list)}
