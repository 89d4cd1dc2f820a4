"""Sources ``feed`` and ``sitemap``: documents that name other elements.

Such a document is an element itself. The source ``http`` fetches it like a page, or the source ``file`` reads
it like a file, with conditional requests, robots.txt and limits; the mirror keeps its copy. The document
counts as changed if its entries change, not if a time stamp at its head does, unless ``change``, ``ignore``
or ``selector`` say otherwise. A poll discovers the entries, and gives a hint for each entry that is new or
has another time than at the last poll; `named_entries` has the options. Private addresses in a document from
a public address, or from a private one that redirects to a public one, are left out.

The times of entries say when the document has changed, and when its entries have; the first polls of both
learn from that. A time that most entries share is that of the document, not of its entries. Later a document
without Last-Modified has changed when its latest entry did, if that is another one than at the last poll.

A sitemap names all there is, so the mirror soon polls what it no longer names.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path

from unstale.errors import InvalidInput
from unstale.mirror.contained import LimitExceeded, parsers
from unstale.mirror.settings import Settings
from unstale.mirror.source import Found, Json, Known, New, Source, Terms, WarmSource
from unstale.mirror.sources.bloom_filter import BloomFilter
from unstale.mirror.sources.http.urls import host_of, site_of
from unstale.mirror.sources.threads import GivenUp, Threads
from unstale.mirror.sources.told_dates import change_times, to_the_minute
from unstale.quantities import show_duration

from .formats import read_feed
from .named_entries import EntryFilter, NamedEntries
from .sitemaps import read_sitemap

_SMALL_DOCUMENT_BYTES = 1 << 15
"""Larger ones are read in a child: the parser of feeds takes six seconds of the processor for a megabyte."""
_MAX_INDEXES = 3
"""Sitemap indexes that may lead from one to the next."""
_CHANGE_OPTIONS = frozenset({"change", "ignore", "selector"})
"""Options that say what counts as a change."""
_FEW_ENTRIES = 4
"""Entries that may all have one time."""
_INHERITED = _CHANGE_OPTIONS | {"conditional"}
"""Options that a sitemap gets from its index, besides those that choose among entries."""

Read = Callable[[bytes, str, str, int], NamedEntries]
"""Takes the body, its address, its media type, and its largest size when unpacked."""


def feed_source(settings: Settings) -> DocumentSource:
    """Return the source of feeds."""
    return _documents("feed", _read_feed, settings, own_host=False)


def sitemap_source(settings: Settings) -> DocumentSource:
    """Return the source of sitemaps."""
    return _documents("sitemap", _read_sitemap, settings, own_host=True)


def _documents(name: str, read: Read, settings: Settings, *, own_host: bool) -> DocumentSource:
    """Return a source of documents that fetches with the settings of the mirror."""
    from unstale.mirror.sources.files.source import file_source
    from unstale.mirror.sources.http.source import http_source

    return DocumentSource(
        name,
        read,
        http_source(settings),
        file_source(settings),
        own_host=own_host,
        private=settings.http.private,
    )


def _read_feed(body: bytes, base: str, media_type: str, max_size: int) -> NamedEntries:
    return read_feed(body, base, media_type=media_type, max_size=max_size)


def _read_sitemap(body: bytes, base: str, media_type: str, max_size: int) -> NamedEntries:  # noqa: ARG001
    return read_sitemap(body, base, max_size=max_size)


@dataclass(frozen=True, slots=True)
class _DocumentReading:
    """What the source read in a document."""

    fingerprint: str
    discovered: tuple[New, ...]
    hints: tuple[tuple[str, float], ...]
    complete: bool
    seen: str
    count: int
    left_out: int
    meta: Mapping[str, Json]
    changes: tuple[float, ...]


class DocumentSource:
    """Polls documents through the source that can fetch them, and reads their entries.

    Parameters
    ----------
    name
        ``feed`` or ``sitemap``.
    read
        Reads the entries of a document.
    http, files
        The sources that fetch documents.
    own_host
        Whether, by default, only entries of the host of the document count.
    private
        Whether a document from a public address may name private ones.
    """

    def __init__(
        self, name: str, read: Read, http: Source, files: Source, *, own_host: bool, private: bool = False
    ) -> None:
        self._name, self._read, self._http, self._files = name, read, http, files
        self._own_host, self._private = own_host, private
        self._threads = Threads()

    def key(self, text: str, options: Mapping[str, Json]) -> str:
        """Return the key that the fetching source gives the document."""
        filter_ = EntryFilter.of(options, own_host=self._own_host)
        text = text.strip().removeprefix(f"{self._name}:")
        if text.startswith("//"):  # feed://example.org/news.xml
            text = f"http:{text}"
        key = self._fetcher(text).key(text, filter_.rest)
        if key.endswith("/") and not _is_address(key):
            raise InvalidInput(
                f"{text!r} is a folder, not a {self._name}; its files are mirrored by the source file"
            )
        return key

    def group(self, key: str, options: Mapping[str, Json]) -> str:
        """Return the group of the host, which is also that of its pages."""
        return self._fetcher(key).group(key, EntryFilter.of(options, own_host=self._own_host).rest)

    def warm_up(self) -> None:
        """Load what polls of addresses need."""
        if isinstance(self._http, WarmSource):
            self._http.warm_up()

    async def poll(self, known: Known, terms: Terms) -> Found:
        """Fetch a document, and read it if it has changed."""
        began = asyncio.get_running_loop().time()
        try:
            filter_ = EntryFilter.of(known.options, own_host=self._own_host)
        except InvalidInput as error:
            return Found("failed", str(error))
        memory = _memory(known, filter_)
        found = await self._fetcher(known.key).poll(_inner(known, filter_, memory), terms)
        if found.outcome != "changed" or found.body is None:
            if found.validators is None or not memory:
                return replace(found, validators=None)
            return replace(found, validators={**memory, "fetched": dict(found.validators)})
        kept = {**memory, "fetched": dict(found.validators or {}), "fingerprint": found.fingerprint}
        if memory and found.fingerprint is not None and found.fingerprint == memory.get("fingerprint"):
            return replace(
                found, fingerprint=known.fingerprint, validators=kept
            )  # the same document as at the last poll
        left = max(terms.timeout - (asyncio.get_running_loop().time() - began), 0.0)
        try:
            read = partial(
                _read_body,
                self._read,
                found.body or b"",
                _base(known.key, found),
                _content_type(found),
                terms.max_size,
            )
            document = await _read_apart(read, left) if _is_heavy(found.body) else None
            reading = await self._threads.run(
                known.key,
                lambda _: self._look(known.key, found, document or read(), filter_, memory),
                timeout=left,
            )
        except BaseException as error:
            if isinstance(found.body, Path):
                found.body.unlink(missing_ok=True)  # the mirror does not take it over
            if not isinstance(error, Exception):
                raise
            kind = (
                ""
                if isinstance(error, InvalidInput | GivenUp | LimitExceeded)
                else f"{type(error).__name__}: "
            )
            words = f"it was fetched, but cannot be read: {kind}{error}"
            return Found("failed", words, traffic=found.traffic, wait=found.wait, spacing=found.spacing)
        newest = reading.changes[0] if reading.changes else None
        if found.modified is None and memory and newest != memory.get("newest"):
            found.modified = to_the_minute(newest)
        same_as_page = _CHANGE_OPTIONS & filter_.rest.keys() and found.fingerprint is not None
        return replace(
            found,
            detail=_detail(found.detail, reading),
            fingerprint=found.fingerprint if same_as_page else reading.fingerprint,
            validators={**kept, "options": filter_.digest, "seen": reading.seen, "newest": newest},
            discovered=reading.discovered,
            hints=reading.hints,
            complete=reading.complete,
            changes=() if known.fingerprint else reading.changes,
            meta={**found.meta, **reading.meta},
        )

    async def close(self) -> None:
        """Close the connections of the fetching sources."""
        await self._http.close()
        await self._files.close()

    def _fetcher(self, key: str) -> Source:
        return self._http if _is_address(key) else self._files

    def _look(
        self,
        key: str,
        found: Found,
        document: NamedEntries,
        filter_: EntryFilter,
        memory: Mapping[str, Json],
    ) -> _DocumentReading:
        """Look at the entries of a document. This runs in a thread, since it can take seconds."""
        from unstale.mirror.sources.http.private_addresses import named_private

        base = _base(key, found)
        hosts = frozenset({site_of(key), site_of(base)}) if base else frozenset()
        # The host that the poll was redirected to wrote the document, so it must be a private one, too.
        inside = self._private or not base or all(named_private(host_of(one)) for one in (key, base))
        seen = BloomFilter.read(memory.get("seen"))
        states: list[str] = []
        times: list[float | None] = []
        discovered: dict[str, New] = {}
        hints: dict[str, float] = {}
        left_out = 0
        for entry in document.entries:
            name = self._key_of(entry.name)
            address = name if _is_address(name) else None
            if address is not None and not (
                filter_.counts(address, hosts) and (inside or not named_private(host_of(address)))
            ):
                left_out += 1
                continue
            state = f"{name}\n{entry.state}"
            states.append(state)
            times.append(entry.time)
            if address is None or address == key:
                continue
            if filter_.adds(address):
                discovered[address] = replace(_new(address, entry.source, filter_), modified=entry.time)
            if seen is not None and state not in seen:
                hints[address] = max(hints.get(address, 0.0), entry.time or 0.0)
        if filter_.nested >= _MAX_INDEXES and any(new.source == self._name for new in discovered.values()):
            raise InvalidInput(
                f"it is a sitemap index, the {_MAX_INDEXES + 1}th that leads from one to the next"
            )
        written = _shared_time(times)
        if written is not None:
            discovered = {
                name: replace(new, modified=None) if new.modified == written else new
                for name, new in discovered.items()
            }
        return _DocumentReading(
            fingerprint=sha256("\0".join(sorted(states)).encode("utf-8", "surrogatepass")).hexdigest(),
            discovered=tuple(discovered.values()),
            hints=tuple(hints.items()),
            complete=document.complete and filter_.discover,
            seen=str(BloomFilter.of(states)),
            count=len(states),
            left_out=left_out,
            meta=document.meta,
            changes=change_times(times),
        )

    def _key_of(self, name: str) -> str:
        """Return the key of an address as an element; any other name as it is."""
        if not _is_address(name):
            return name
        try:
            return self._http.key(name, {})
        except InvalidInput:
            return f"not an address: {name}"


def _read_body(read: Read, body: bytes | Path, base: str, media_type: str, max_size: int) -> NamedEntries:
    """Read the entries of a body that may be in a file."""
    return read(body if isinstance(body, bytes) else body.read_bytes(), base, media_type, max_size)


def _is_heavy(body: bytes | Path | None) -> bool:
    """Tell whether a child must read a document: it is large, or may become large when it is unpacked."""
    if isinstance(body, Path):
        return True
    return len(body or b"") > _SMALL_DOCUMENT_BYTES or (body or b"").startswith(b"\x1f\x8b")


async def _read_apart(read: Callable[[], NamedEntries], seconds: float) -> NamedEntries:
    """Have a child process read a document."""
    try:
        async with asyncio.timeout(seconds):
            return await parsers.run(read)
    except TimeoutError:
        raise GivenUp(f"it cannot be read within {show_duration(seconds)}") from None


def _shared_time(times: Sequence[float | None]) -> float | None:
    """Return the time that more than half of the entries have; None if there is none, or there are few."""
    (time, count), *_ = Counter(times).most_common(1) or [(None, 0)]
    return time if count > max(0.5 * len(times), _FEW_ENTRIES) else None


def _is_address(text: str) -> bool:
    return text[:8].lower().startswith(("http://", "https://"))


def _memory(known: Known, filter_: EntryFilter) -> Mapping[str, Json]:
    """Return the validators of the last poll; none if options have changed or the copy is lost."""
    same = known.validators.get("options") == filter_.digest and known.fingerprint is not None
    return known.validators if same else {}


def _inner(known: Known, filter_: EntryFilter, memory: Mapping[str, Json]) -> Known:
    """Return the document as the fetching source knows it."""
    fetched, fingerprint = memory.get("fetched"), memory.get("fingerprint")
    return Known(
        known.key,
        filter_.rest,
        fetched if isinstance(fetched, dict) else {},
        fingerprint if isinstance(fingerprint, str) else None,
    )


def _content_type(found: Found) -> str:
    """Return the media type, with its parameters if they are known."""
    headers = found.meta.get("headers")
    content_type = headers.get("content-type") if isinstance(headers, dict) else None
    return content_type if isinstance(content_type, str) else found.media_type


def _base(key: str, found: Found) -> str:
    """Return the address of the document after redirects; empty for a file."""
    if not _is_address(key):
        return ""
    landed = found.meta.get("url")
    return landed if isinstance(landed, str) else found.moved or key


def _new(address: str, source: str, filter_: EntryFilter) -> New:
    """Return a discovered element; a sitemap of an index gets what the index was told to name and to compare.

    It gets no headers, which may be secrets: rules decide about them, by its own key.
    """
    if source == "http":
        return New(address, source)
    inherited = {name: value for name, value in filter_.rest.items() if name in _INHERITED}
    return New(address, source, {**inherited, **filter_.given, "nested": filter_.nested + 1})


def _detail(detail: str, reading: _DocumentReading) -> str:
    """Return the detail of the poll, for people."""
    words = [*([detail] if detail else []), f"{reading.count:,} entries"]
    if reading.hints:
        words.append(f"{len(reading.hints):,} new or changed")
    if reading.left_out:
        words.append(f"{reading.left_out:,} left out")
    if reading.meta.get("more"):
        words.append("more than are read")
    return ", ".join(words)
