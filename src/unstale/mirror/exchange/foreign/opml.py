"""Feed readers (Miniflux, FreshRSS, others): their OPML, with folders as tags and FreshRSS's intervals.

FreshRSS writes how often it looks at a feed, in seconds, as ``frss:ttl``; below zero the feed is muted.
Miniflux and others write none.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from math import inf
from pathlib import Path

from unstale.errors import InvalidInput
from unstale.mirror.sources.feeds.safe_xml import XmlElement, read_xml

from .foreign_mirror import ForeignElement, ForeignMirror, word_of

__all__ = ["read_opml"]

_MOST_BYTES = 50_000_000


def read_opml(path: Path) -> ForeignMirror:
    """Read the subscriptions of a feed reader."""
    try:
        with gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb") as file:
            body = file.read(_MOST_BYTES + 1)
    except (OSError, EOFError) as error:
        raise InvalidInput(f"{path}: cannot be read: {error}") from None
    if len(body) > _MOST_BYTES:
        raise InvalidInput(f"{path}: has more than {_MOST_BYTES:,} bytes")

    def read(elements: Iterator[XmlElement]) -> ForeignMirror:
        if next(elements).name != "opml":
            raise InvalidInput("it is not OPML")
        return _subscriptions(elements)

    try:
        return read_xml(body, read)
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from None


def _subscriptions(elements: Iterator[XmlElement]) -> ForeignMirror:
    """Return feeds; what is in a folder comes before it."""
    found, inside = ForeignMirror(), list[tuple[int, ForeignElement]]()
    for element in elements:
        if element.name != "outline":
            continue
        said = {name.lower(): value.strip() for name, value in element.attributes.items()}
        address = said.get("xmlurl", "")
        if not address:
            tag = word_of(said.get("title") or said.get("text") or "")
            own = [one for depth, one in inside if depth > element.depth]
            inside = [pair for pair in inside if pair[0] <= element.depth]
            for one in own:
                found.add(_tagged(one, tag))
        elif said.get("type", "").lower() in {"", "rss", "atom", "rss1", "rss2", "feed"}:
            inside.append((element.depth, _feed(address, said.get("frss:ttl", ""))))
        else:
            why = f"it is made from a page by the feed reader ({said['type'][:40]}): add the page itself"
            found.left_out.append((address, why))
    for _, one in inside:
        found.add(one)
    return found


def _feed(address: str, ttl: str) -> ForeignElement:
    """Return a feed with its interval, if that is said: a whole number of seconds, below 0 if it is muted."""
    number = ttl.removeprefix("-")
    seconds = float(number) if number.isascii() and number.isdigit() and len(number) < 12 else 0.0
    return ForeignElement(address, "feed", {}, seconds if seconds < inf else 0.0, paused=ttl.startswith("-"))


def _tagged(one: ForeignElement, tag: str) -> ForeignElement:
    return ForeignElement(
        one.key, one.source, one.options, one.every, (tag,) if tag else (), paused=one.paused
    )
