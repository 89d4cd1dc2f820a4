"""Reading sitemaps: XML, text, indexes; plain or gzipped.

The protocol (https://www.sitemaps.org/protocol.html) allows 50,000 addresses in a sitemap, all of its own
host. A broken sitemap is refused as a whole, since an address that is missing in it would count as gone.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from urllib.parse import urljoin

from unstale.errors import InvalidInput
from unstale.mirror.source import Json
from unstale.mirror.sources.told_dates import moment_of

from .named_entries import NamedEntries, NamedEntry
from .safe_xml import XmlElement, read_xml

MAX_ADDRESSES = 50_000
"""Addresses that are read from one sitemap."""
_FEEDS = frozenset({"rss", "feed", "rdf"})
_ZEROS = re.compile(rb"\0*")
_PIECE_BYTES = 4096
_ADDRESS = re.compile(r"https?://\S+", re.IGNORECASE)


def read_sitemap(body: bytes, base: str = "", *, max_size: int = 52_428_800) -> NamedEntries:
    """Return the entries of a sitemap, or raise `InvalidInput`.

    >>> read_sitemap(b"<urlset><url><loc>http://a/</loc><lastmod>2024-05-01</lastmod></url></urlset>").entries
    [NamedEntry(name='http://a/', state='2024-05-01', time=1714521600.0, source='http')]
    """
    body = gunzip(body, max_size)
    if body.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<") or body[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        return read_xml(body, lambda elements: _from_xml(elements, base))
    return _from_text(body)


def gunzip(body: bytes, max_size: int) -> bytes:
    """Return a gzipped body unpacked, and any other body as it is."""
    if not body.startswith(b"\x1f\x8b"):
        return body
    out, at = bytearray(), 0
    while at < len(body):  # several parts in a row are one file
        stream = zlib.decompressobj(wbits=31)
        while not stream.eof:
            # A part that ends hands back all that it got beyond its end, so it gets little at a time.
            piece = body[at : at + _PIECE_BYTES]
            if not piece:
                raise InvalidInput("it is gzipped, and ends too early")
            try:
                out += stream.decompress(piece, max_size + 1 - len(out))
            except zlib.error as error:
                raise InvalidInput(f"it is not well-formed gzip: {error}") from None
            if len(out) > max_size:
                raise InvalidInput(f"it has more than {max_size:,} bytes when unpacked")
            at += len(piece) - len(stream.unused_data)
        at = _ZEROS.match(body, at).end()  # type: ignore[union-attr]  # they fill the last block
    return bytes(out)


def _from_xml(elements: Iterator[XmlElement], base: str) -> NamedEntries:
    """Return the entries of a sitemap or of a sitemap index."""
    root = next(elements).name
    if root in _FEEDS:
        raise InvalidInput("it is a feed, not a sitemap; name the source: feed")
    if root not in {"urlset", "sitemapindex"}:
        raise InvalidInput(f"it is not a sitemap: its root is {root!r}, not 'urlset' or 'sitemapindex'")
    index = root == "sitemapindex"
    kind, source = ("sitemap", "sitemap") if index else ("url", "http")
    entries: dict[str, NamedEntry] = {}
    more = False
    inside: dict[tuple[str, str], str] = {}
    for element in elements:  # to the end, also if there are too many, since all of it must be well-formed
        if element.depth == 2:
            inside.setdefault((element.prefix, element.name), "".join(element.text.split()))
        if element.depth != 1:
            continue
        # An element with another prefix than its parent belongs to an extension (images, videos).
        address, state = (inside.get((element.prefix, name), "") for name in ("loc", "lastmod"))
        inside.clear()
        if element.name != kind or not address:
            continue
        more = more or len(entries) >= MAX_ADDRESSES
        if not more:
            address = _joined(base, address)
            entries[address] = NamedEntry(address, state, moment_of(state) if state else None, source)
    return _sitemap_entries(entries, "sitemap index" if index else "sitemap", more=more)


def _from_text(body: bytes) -> NamedEntries:
    """Return the entries of a sitemap that has one address per line."""
    try:
        lines = body.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise InvalidInput("it is not a sitemap: neither XML nor text in UTF-8") from None
    entries: dict[str, NamedEntry] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text and not (_ADDRESS.fullmatch(text) and text.isprintable()):
            raise InvalidInput(f"it is not a sitemap: line {number} is not an address: {text[:60]!r}")
        if text:
            entries[text] = NamedEntry(text, "")
        if len(entries) > MAX_ADDRESSES:
            entries.pop(text)
            return _sitemap_entries(entries, "text", more=True)
    if not entries:
        raise InvalidInput("it is not a sitemap: there is nothing in it")
    return _sitemap_entries(entries, "text", more=False)


def _sitemap_entries(entries: dict[str, NamedEntry], form: str, *, more: bool) -> NamedEntries:
    """Return the entries with facts about the sitemap; not complete if it names more than are read."""
    meta: dict[str, Json] = {"format": form, "entries": len(entries)}
    if more:
        meta["more"] = True
    return NamedEntries(list(entries.values()), complete=not more and bool(entries), meta=meta)


def _joined(base: str, address: str) -> str:
    """Return the absolute address; a relative one is resolved against that of the document."""
    try:
        return urljoin(base, address)
    except ValueError:  # not even an address
        return address
