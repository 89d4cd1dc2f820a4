"""Sources ``feed`` and ``sitemap``: documents that name other elements.

Such a document is an element itself. It is fetched like any page, or read like any file, with all that holds
for those (conditional requests, robots.txt, limits), and its copy is kept. What counts as a change of it is a
change of what it names, not that of a time stamp at its head (unless ``change``, ``ignore`` or ``selector``
say otherwise). Polling it discovers what it names, and gives a hint for each entry that is new there, or has
another time than at the last poll; see `named_entries` for the options. A document from a
public address cannot lead to private ones: those are left out.

A sitemap names all there is, so a mirror looks soon at what it names no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from unstale.errors import InvalidInput
from unstale.mirror.settings import Settings
from unstale.mirror.source import Found, Json, Known, New, Source, Terms, WarmSource
from unstale.mirror.sources.bloom_filter import Seen
from unstale.mirror.sources.http.urls import host_of
from unstale.mirror.sources.named_entries import Choice, Told, site_of
from unstale.mirror.sources.threads import GivenUp, Threads

from .formats import read_feed
from .sitemaps import read_sitemap

__all__ = ["DocumentSource", "feed_source", "sitemap_source"]

_DEEPEST = 3
"""Sitemap indexes that may lead from one to the next."""
_OTHER_CHANGES = frozenset({"change", "ignore", "selector"})
"""Options that say what counts as a change."""

Read = Callable[[bytes, str, str, int], Told]
"""Takes the body, its address, its media type, and how large it may become when unpacked."""


def feed_source(settings: Settings) -> DocumentSource:
    """Return the source of feeds."""
    return _documents("feed", _read_feed, settings, own_host=False)


def sitemap_source(settings: Settings) -> DocumentSource:
    """Return the source of sitemaps."""
    return _documents("sitemap", _read_sitemap, settings, own_host=True)


def _documents(name: str, read: Read, settings: Settings, *, own_host: bool) -> DocumentSource:
    """Return a source that fetches with the settings of a mirror."""
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


def _read_feed(body: bytes, base: str, media_type: str, max_size: int) -> Told:
    return read_feed(body, base, media_type=media_type, max_size=max_size)


def _read_sitemap(body: bytes, base: str, media_type: str, max_size: int) -> Told:  # noqa: ARG001
    return read_sitemap(body, base, max_size=max_size)


@dataclass(frozen=True, slots=True)
class _Reading:
    """What a document said."""

    fingerprint: str
    discovered: tuple[New, ...]
    hints: tuple[tuple[str, float], ...]
    complete: bool
    seen: str
    count: int
    left_out: int
    meta: Mapping[str, Json]


class DocumentSource:
    """Polls documents through the source that can fetch them, and reads what they name."""

    def __init__(
        self, name: str, read: Read, http: Source, files: Source, *, own_host: bool, private: bool = False
    ) -> None:
        self._name, self._read, self._http, self._files = name, read, http, files
        self._own_host, self._private = own_host, private
        self._threads = Threads()

    def key(self, text: str, options: Mapping[str, Json]) -> str:
        """Return the key that the fetching source gives it."""
        choice = Choice.of(options, own_host=self._own_host)
        text = text.strip().removeprefix(f"{self._name}:")
        if text.startswith("//"):  # feed://example.org/news.xml
            text = f"http:{text}"
        key = self._fetcher(text).key(text, choice.rest)
        if key.endswith("/") and not _is_address(key):
            raise InvalidInput(
                f"{text!r} is a folder, not a {self._name}; its files are mirrored by the source file"
            )
        return key

    def group(self, key: str, options: Mapping[str, Json]) -> str:
        """Return the group of the host, which pages of that host are in, too."""
        return self._fetcher(key).group(key, Choice.of(options, own_host=self._own_host).rest)

    def warm_up(self) -> None:
        """Load what polls of addresses need."""
        if isinstance(self._http, WarmSource):
            self._http.warm_up()

    async def poll(self, known: Known, terms: Terms) -> Found:
        """Fetch a document, and read it if it has changed."""
        began = asyncio.get_running_loop().time()
        try:
            choice = Choice.of(known.options, own_host=self._own_host)
        except InvalidInput as error:
            return Found("failed", str(error))
        memory = _memory(known, choice)
        found = await self._fetcher(known.key).poll(_inner(known, choice, memory), terms)
        if found.outcome != "changed" or found.body is None:
            if found.validators is None or not memory:
                return replace(found, validators=None)
            return replace(found, validators={**memory, "fetched": dict(found.validators)})
        kept = {**memory, "fetched": dict(found.validators or {}), "fingerprint": found.fingerprint}
        if memory and found.fingerprint is not None and found.fingerprint == memory.get("fingerprint"):
            return replace(
                found, fingerprint=known.fingerprint, validators=kept
            )  # it has all been told before
        left = terms.timeout - (asyncio.get_running_loop().time() - began)
        try:
            reading = await self._threads.run(
                known.key,
                lambda _: self._look(known.key, found, choice, memory, terms.max_size),
                timeout=max(left, 0.0),
            )
        except BaseException as error:
            if isinstance(found.body, Path):
                found.body.unlink(missing_ok=True)  # nobody takes it over
            if not isinstance(error, Exception):
                raise
            kind = "" if isinstance(error, InvalidInput | GivenUp) else f"{type(error).__name__}: "
            words = f"it was fetched, but cannot be read: {kind}{error}"
            return Found("failed", words, traffic=found.traffic, wait=found.wait, spacing=found.spacing)
        same_as_page = _OTHER_CHANGES & choice.rest.keys() and found.fingerprint is not None
        return replace(
            found,
            detail=_detail(found.detail, reading),
            fingerprint=found.fingerprint if same_as_page else reading.fingerprint,
            validators={**kept, "options": choice.digest, "seen": reading.seen},
            discovered=reading.discovered,
            hints=reading.hints,
            complete=reading.complete,
            meta={**found.meta, **reading.meta},
        )

    async def close(self) -> None:
        """Let go of the connections of the fetching sources."""
        await self._http.close()
        await self._files.close()

    def _fetcher(self, key: str) -> Source:
        return self._http if _is_address(key) else self._files

    def _look(
        self, key: str, found: Found, choice: Choice, memory: Mapping[str, Json], max_size: int
    ) -> _Reading:
        """Read a document; in a thread, as that can take seconds."""
        from unstale.mirror.sources.http.private_addresses import named_private

        body = found.body.read_bytes() if isinstance(found.body, Path) else found.body or b""
        base = _landed(key, found) if _is_address(key) else ""
        told = self._read(body, base, _content_type(found), max_size)
        hosts = frozenset({site_of(key), site_of(base)}) if base else frozenset()
        inside = self._private or not base or named_private(host_of(key))
        seen = Seen.read(memory.get("seen"))
        states: list[str] = []
        discovered: dict[str, New] = {}
        hints: dict[str, float] = {}
        left_out = 0
        for entry in told.entries:
            name = self._key_of(entry.name)
            address = name if _is_address(name) else None
            if address is not None and not (
                choice.counts(address, hosts) and (inside or not named_private(host_of(address)))
            ):
                left_out += 1
                continue
            state = f"{name}\n{entry.state}"
            states.append(state)
            if address is None or address == key:
                continue
            if choice.adds(address):
                discovered[address] = _new(address, entry.source, choice)
            if seen is not None and state not in seen:
                hints[address] = max(hints.get(address, 0.0), entry.time or 0.0)
        if choice.nested >= _DEEPEST and any(new.source == self._name for new in discovered.values()):
            raise InvalidInput(f"it is a sitemap index, the {_DEEPEST + 1}th that leads from one to the next")
        return _Reading(
            fingerprint=sha256("\0".join(sorted(states)).encode("utf-8", "surrogatepass")).hexdigest(),
            discovered=tuple(discovered.values()),
            hints=tuple(hints.items()),
            complete=told.complete and choice.discover,
            seen=str(Seen.of(states)),
            count=len(states),
            left_out=left_out,
            meta=told.meta,
        )

    def _key_of(self, name: str) -> str:
        """Return the key that an address has as an element; anything else as it is."""
        if not _is_address(name):
            return name
        try:
            return self._http.key(name, {})
        except InvalidInput:
            return f"not an address: {name}"


def _is_address(text: str) -> bool:
    return text[:8].lower().startswith(("http://", "https://"))


def _memory(known: Known, choice: Choice) -> Mapping[str, Json]:
    """Return what is remembered; nothing if options have changed, or the copy is lost: all is told anew."""
    same = known.validators.get("options") == choice.digest and known.fingerprint is not None
    return known.validators if same else {}


def _inner(known: Known, choice: Choice, memory: Mapping[str, Json]) -> Known:
    """Return what the fetching source knows of the document."""
    fetched, fingerprint = memory.get("fetched"), memory.get("fingerprint")
    return Known(
        known.key,
        choice.rest,
        fetched if isinstance(fetched, dict) else {},
        fingerprint if isinstance(fingerprint, str) else None,
    )


def _content_type(found: Found) -> str:
    """Return the media type with its parameters, as far as it is known."""
    headers = found.meta.get("headers")
    told = headers.get("content-type") if isinstance(headers, dict) else None
    return told if isinstance(told, str) else found.media_type


def _landed(key: str, found: Found) -> str:
    """Return the address at which a document was found in the end."""
    landed = found.meta.get("url")
    return landed if isinstance(landed, str) else found.moved or key


def _new(address: str, source: str, choice: Choice) -> New:
    """Return an element that was discovered; a sitemap of an index is to be read like the index."""
    if source == "http":
        return New(address, source)
    return New(address, source, {**choice.rest, **choice.given, "nested": choice.nested + 1})


def _detail(detail: str, reading: _Reading) -> str:
    """Return what happened, in words."""
    words = [*([detail] if detail else []), f"{reading.count:,} entries"]
    if reading.hints:
        words.append(f"{len(reading.hints):,} new or changed")
    if reading.left_out:
        words.append(f"{reading.left_out:,} left out")
    if reading.meta.get("more"):
        words.append("more than are read")
    return ", ".join(words)
