"""Reading feeds: RSS, Atom, and JSON Feed.

feedparser also reads broken feeds, as they are in the wild. It gets bytes, never an address or the name of a
file, which it would fetch or open.
"""

from __future__ import annotations

import json
from calendar import timegm
from collections.abc import Mapping
from hashlib import sha256
from io import BytesIO
from time import struct_time
from typing import Any
from urllib.parse import urljoin

from unstale.errors import InvalidInput
from unstale.mirror.source import Json
from unstale.mirror.sources.told_dates import moment_of

from .named_entries import NamedEntries, NamedEntry
from .sitemaps import gunzip

MAX_ENTRIES = 10_000
"""Entries that are read; the rest of a feed is ignored."""
MAX_FEED_BYTES = 10_000_000
"""A larger feed is not parsed; this many bytes take some seconds."""


def read_feed(
    body: bytes, base: str = "", *, media_type: str = "", max_size: int = MAX_FEED_BYTES
) -> NamedEntries:
    """Return the entries of a feed, or raise `InvalidInput`.

    Parameters
    ----------
    body
        The feed, plain or gzipped.
    base
        Its address, against which relative addresses are resolved.
    media_type
        Its Content-Type, which may name a charset.
    max_size
        Bytes that it may have when unpacked.

    Examples
    --------
    >>> feed = read_feed(b"<rss version='2.0'><channel><item><link>http://a/</link></item></channel></rss>")
    >>> [entry.name for entry in feed.entries], feed.meta["format"]
    (['http://a/'], 'rss20')
    """
    body = gunzip(body, min(max_size, MAX_FEED_BYTES))
    if len(body) > MAX_FEED_BYTES:
        raise InvalidInput(f"it has {len(body):,} bytes; feeds are read up to {MAX_FEED_BYTES:,}")
    if body.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return _from_json(body, base)
    return _from_xml(body, base, media_type)


def _from_json(body: bytes, base: str) -> NamedEntries:
    """Return the entries of a JSON Feed (https://www.jsonfeed.org/version/1.1/)."""
    try:
        feed = json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidInput("it is not a feed: neither XML nor well-formed JSON") from None
    items = feed.get("items")
    if "jsonfeed.org" not in str(feed.get("version")) or not isinstance(items, list):
        raise InvalidInput("it is not a feed: JSON, but without the version and the items of a JSON Feed")
    entries = []
    for item in items[:MAX_ENTRIES]:
        if not isinstance(item, dict):
            continue
        updated = str(item.get("date_modified") or "")
        time = moment_of(updated or str(item.get("date_published") or ""))
        link = str(item.get("url") or item.get("external_url") or "")
        parts = [item.get(name) for name in ("title", "summary", "content_html", "content_text")]
        name = _joined(base, link) if link else str(item.get("id") or "")
        entries.append(NamedEntry(name, updated or _state(parts), time))
    return _feed_entries(entries, feed.get("title"), "json")


def _from_xml(body: bytes, base: str, media_type: str) -> NamedEntries:
    """Return the entries that feedparser finds."""
    import feedparser

    headers = {"content-location": base} if base else {}
    if "charset=" in media_type.lower():
        headers["content-type"] = media_type
    try:
        feed = feedparser.parse(BytesIO(body), response_headers=headers, sanitize_html=False)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001  (feedparser raises anything on some broken feeds)
        raise InvalidInput(f"it cannot be read as a feed: {type(error).__name__}: {error}") from None
    if not feed.get("version") and not feed.entries:
        raise InvalidInput("it is not a feed: no RSS, Atom or JSON Feed")
    entries = [_entry(entry, base) for entry in feed.entries[:MAX_ENTRIES]]
    return _feed_entries(entries, feed.feed.get("title"), str(feed.get("version") or "unknown"))


def _entry(entry: Mapping[str, Any], base: str) -> NamedEntry:
    """Return an entry of feedparser as a `NamedEntry`."""
    link = entry.get("link")
    parts = [
        entry.get("title"),
        entry.get("summary"),
        *(one.get("value") for one in entry.get("content", ())),
    ]
    # Without the check, feedparser would return the time of publication for a missing update, with a warning.
    updated = str(entry["updated"]) if "updated" in entry else ""
    when = entry["updated_parsed"] if "updated_parsed" in entry else entry.get("published_parsed")
    name = _joined(base, str(link)) if link else str(entry.get("id") or entry.get("title") or "")
    return NamedEntry(name, updated or _state(parts), _seconds(when))


def _seconds(when: struct_time | None) -> float | None:
    """Return a time of feedparser in seconds since 1970."""
    try:
        return float(timegm(when)) if when else None
    except (ValueError, OverflowError, TypeError):
        return None


def _state(parts: list[object]) -> str:
    """Return a digest of an entry, for one that does not say when it changed."""
    return sha256(json.dumps([str(part) for part in parts]).encode()).hexdigest()[:16]


def _feed_entries(entries: list[NamedEntry], title: object, form: str) -> NamedEntries:
    """Return the entries with facts about the feed; a feed never names all there is."""
    meta: dict[str, Json] = {"format": form, "entries": len(entries)}
    if isinstance(title, str):
        meta["title"] = title[:500]
    return NamedEntries(entries, complete=False, meta=meta)


def _joined(base: str, address: str) -> str:
    """Return the absolute address; a relative one is resolved against that of the feed."""
    try:
        return urljoin(base, address.strip())
    except ValueError:
        return address
