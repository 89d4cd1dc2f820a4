"""The latest changes as feeds: Atom, RSS, JSON Feed.

Keys and titles may hold anything; what XML cannot hold is replaced. The difference to the version before is
told as plain text, which readers of feeds show as such.
"""

from __future__ import annotations

import hashlib
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any
from urllib.parse import quote, urlsplit

from fastapi import APIRouter, Request, Response
from lxml import etree
from starlette.responses import JSONResponse

from unstale.dashboard.mirror_gateway import MirrorGateway
from unstale.dashboard.pages.differences import before, between
from unstale.mirror.json_values import copy_path, moment, timestamp
from unstale.mirror.mirror import Mirror
from unstale.mirror.store.contract import Version

from .models import problems

_MOST_ENTRIES, _MOST_DIFFERENCE_LINES = 30, 40
"""Of a feed, and of a difference."""
_MOST_COMPARED_BYTES = 1_000_000
"""Of versions whose difference a feed has."""
_ATOM = "http://www.w3.org/2005/Atom"
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LONGEST_TITLE_CHARACTERS = 300
"""Characters."""


@dataclass(frozen=True)
class _Entry:
    """A change, as a feed has it."""

    version: Version
    name: str
    """Of this change among all changes of all mirrors."""
    title: str
    text: str
    link: str
    copy: str


def router(gateway: MirrorGateway) -> APIRouter:
    """Return the routes."""
    routes = APIRouter(tags=["changes"])

    async def entries(request: Request) -> list[_Entry]:
        found = await gateway.kept("feed", _latest)
        base = str(request.base_url).rstrip("/")
        return [_entry(gateway.mirror, base, version, told) for version, told in found]

    def described(kind: str) -> dict[str, Any]:
        content = {kind: {}} if "json" not in kind else {kind: {"schema": {"type": "object"}}}
        return {
            "response_class": Response,
            "responses": {200: {"content": content, "description": "The latest changes."}, **problems()},
        }

    @routes.get("/changes.atom", **described("application/atom+xml"))
    async def atom(request: Request) -> Response:
        """Return the latest changes as Atom."""
        return Response(_atom(request, await entries(request)), media_type="application/atom+xml")

    @routes.get("/changes.rss", **described("application/rss+xml"))
    async def rss(request: Request) -> Response:
        """Return the latest changes as RSS."""
        return Response(_rss(request, await entries(request)), media_type="application/rss+xml")

    @routes.get("/changes.json", **described("application/feed+json"))
    async def json_feed(request: Request) -> Response:
        """Return the latest changes as a JSON Feed."""
        return JSONResponse(_json(request, await entries(request)), media_type="application/feed+json")

    return routes


def _latest(mirror: Mirror) -> list[tuple[Version, str]]:
    """Return the latest changes, the latest first, each with what is different."""
    with mirror.store.begin() as t:
        pairs = [(one, before(t, one)) for one in t.versions(limit=_MOST_ENTRIES, latest_first=True)]
    return [
        (
            new,
            ""
            if old is None
            else between(mirror, old, new, lines=_MOST_DIFFERENCE_LINES, largest=_MOST_COMPARED_BYTES) or "",
        )
        for new, old in pairs
    ]


def _entry(mirror: Mirror, base: str, version: Version, told: str) -> _Entry:
    said = version.meta.get("title")
    title = said if isinstance(said, str) and said.strip() else version.key
    what = "New: " if version.first else ""
    own = hashlib.sha256(mirror.store.url.encode()).hexdigest()[:16]
    page = f"{base}/elements/{version.element}"
    return _Entry(
        version=version,
        name=f"urn:unstale:{own}:{version.id}",
        title=_clean(f"{what}{' '.join(title.split())}")[:_LONGEST_TITLE_CHARACTERS],
        text=_clean(told or f"{version.size:,} bytes, {version.media_type}"),
        link=_address(version.key) or page,
        copy=f"{base}{copy_path(version.key, version.id)}",
    )


def _address(key: str) -> str | None:
    """Return a key as an address, if it is one of a page."""
    try:
        parts = urlsplit(key)
    except ValueError:
        return None
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        return None
    return quote(key, safe="/:?#[]@!$&'()*+,;=~%-._", errors="replace")


def _clean(text: str) -> str:
    """Return a text that XML can hold."""
    return _NOT_XML.sub("\ufffd", text)


def _when(seconds: float) -> str:
    return timestamp(_seconds(seconds))


def _seconds(seconds: float) -> float:
    """Return a moment that can be written."""
    return max(seconds, 0.0) if moment(seconds) else 0.0


def _add(parent: Any, name: str, text: str | None = None, **attributes: str) -> Any:  # noqa: ANN401  (lxml has no types)
    made = etree.SubElement(parent, name, attributes)
    made.text = text
    return made


def _bytes(root: object) -> bytes:
    found: bytes = etree.tostring(root, xml_declaration=True, encoding="utf-8", pretty_print=True)
    return found


def _atom(request: Request, entries: Sequence[_Entry]) -> bytes:
    base = str(request.base_url)
    feed = etree.Element("feed", xmlns=_ATOM)
    _add(feed, "id", f"{base}changes.atom")
    _add(feed, "title", "Changes")
    _add(feed, "updated", _when(max((one.version.time for one in entries), default=0.0)))
    _add(_add(feed, "author"), "name", "unstale")
    _add(feed, "link", rel="self", href=f"{base}changes.atom")
    _add(feed, "link", rel="alternate", href=f"{base}changes")
    for one in entries:
        entry = _add(feed, "entry")
        _add(entry, "id", one.name)
        _add(entry, "title", one.title)
        _add(entry, "updated", _when(one.version.time))
        _add(entry, "link", rel="alternate", href=one.link)
        _add(entry, "link", rel="related", href=one.copy)
        _add(entry, "content", one.text, type="text")
    return _bytes(feed)


def _rss(request: Request, entries: Sequence[_Entry]) -> bytes:
    base = str(request.base_url)
    root = etree.Element("rss", version="2.0")
    channel = _add(root, "channel")
    _add(channel, "title", "Changes")
    _add(channel, "link", f"{base}changes")
    _add(channel, "description", "What changed in this mirror.")
    for one in entries:
        item = _add(channel, "item")
        _add(item, "title", one.title)
        _add(item, "link", one.link)
        _add(item, "guid", one.name, isPermaLink="false")
        _add(item, "pubDate", formatdate(_seconds(one.version.time), usegmt=True))
        _add(item, "description", f"<pre>{html.escape(one.text)}</pre>")  # readers take it for HTML
    return _bytes(root)


def _json(request: Request, entries: Sequence[_Entry]) -> dict[str, Any]:
    base = str(request.base_url)
    return {
        "version": "https://jsonfeed.org/version/1.1",
        "title": "Changes",
        "home_page_url": f"{base}changes",
        "feed_url": f"{base}changes.json",
        "items": [
            {
                "id": one.name,
                "url": one.link,
                "external_url": one.copy,
                "title": one.title,
                "content_text": one.text,
                "date_published": _when(one.version.time),
            }
            for one in entries
        ],
    }
