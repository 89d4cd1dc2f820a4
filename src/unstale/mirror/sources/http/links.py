"""Links that are followed: a page whose option ``links`` is N names the pages it links to, N steps deep.

links       how many steps links are followed from this page; 0, or without it: none.
only, skip  patterns: links that match no pattern of ``only``, or one of ``skip``, are left out.
hosts       ``own`` (default): links to other hosts are left out. ``any``: they are not.
discover    false, or patterns, as for feeds.

Links with ``rel="nofollow"`` (``ugc``, ``sponsored``) are left out, and all links of a page whose meta tag or
X-Robots-Tag says ``nofollow`` or ``none``. A page that names another address as its canonical one leads to
that one alone. Parameters that only say who reads (sessions, campaigns) are removed from addresses, and those
that look as if they went on for ever are left out; `unstale.mirror.engine.discovery_limits` limits
those that differ only in numbers and in values of a query.

Reference: Cho & Garcia-Molina (1999), section 3, Example 2.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin, urlsplit, urlunsplit

from unstale.errors import InvalidInput
from unstale.mirror.contained import LimitExceeded, parsers
from unstale.mirror.source import Found, Json, Known, New
from unstale.mirror.sources.option_values import discovery, patterns_of

from .fingerprint import decoded
from .private_addresses import named_private
from .urls import canonical, host_of, site_of

MOST_STEPS = 8
"""That links may be followed from one page: as many lists may lead from one to the next."""
MOST_LINKS = 2000
"""Of one page."""
_MOST_BYTES = 4_000_000
"""Of a page, in which links are looked for."""
_SMALL_BYTES = 1 << 15
"""Larger pages are read in a child."""
_MOST_SEGMENTS, _MOST_ALIKE, _MOST_CHARACTERS = 12, 2, 1000
"""Of an address: parts of its path, how many of them may be the same, characters."""
_HTML = ("text/html", "application/xhtml+xml")
_UNFOLLOWED = frozenset({"nofollow", "ugc", "sponsored"})
_NO_LINKS = re.compile(r"(?:^|[\s,:])(?:nofollow|none)(?=$|[\s,])", re.IGNORECASE)
_WHO_READS = re.compile(
    r"(?:phpsessid|jsessionid|aspsessionid\w*|sid|sessionid|session_id|cfid|cftoken|utm_\w+|fbclid|gclid|msclkid)=",
    re.IGNORECASE,
)
_SESSION_IN_PATH = re.compile(r";(?:jsessionid|sid|phpsessid)=[^/?;]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class LinkOptions:
    """Which links of a page are followed."""

    steps: int
    discover: bool
    wanted: tuple[str, ...]
    only: tuple[str, ...]
    skip: tuple[str, ...]
    own_host: bool
    given: Mapping[str, Json]
    """The options from which this was made, without the steps."""

    @classmethod
    def of(cls, options: Mapping[str, Json]) -> LinkOptions | None:
        """Return what the options of a page say; None if its links are not followed."""
        said = options.get("links", 0)
        steps = int(said) if isinstance(said, str) and said.isascii() and said.isdigit() else said
        if not isinstance(steps, int) or isinstance(steps, bool) or not 0 <= steps <= MOST_STEPS:
            raise InvalidInput(f"links must be a whole number from 0 to {MOST_STEPS}; it is {said!r}")
        if not steps:
            return None
        discover, wanted = discovery(options)
        only, skip = (patterns_of(name, options.get(name)) for name in ("only", "skip"))
        hosts = options.get("hosts", "own")
        if hosts not in ("own", "any"):
            raise InvalidInput(f"hosts must be 'own' or 'any'; it is {hosts!r}")
        given = {name: options[name] for name in ("discover", "hosts", "only", "skip") if name in options}
        return cls(steps, discover, wanted, only, skip, hosts == "own", given)

    def follows(self, address: str, hosts: frozenset[str]) -> bool:
        """Tell whether a link is followed; ``hosts`` are those of the page itself."""
        if not self.discover or (self.own_host and site_of(address) not in hosts):
            return False
        fits = [
            not some or any(fnmatchcase(address, one) for one in some) for some in (self.wanted, self.only)
        ]
        return all(fits) and not any(fnmatchcase(address, one) for one in self.skip)

    def new(self, address: str) -> New:
        """Return the page that a link leads to, whose own links are followed one step less."""
        if self.steps == 1:
            return New(address, "http")
        return New(address, "http", {**self.given, "links": self.steps - 1})


@dataclass(frozen=True, slots=True)
class PageLinks:
    """What a page links to."""

    links: tuple[str, ...]
    """As they are written, joined to the address of the page; none if they must not be followed."""
    canonical: str | None = None
    """The address that the page gives itself."""


def read_links(body: bytes, base: str, content_type: str = "") -> PageLinks:
    """Return the links of a page.

    >>> read_links(b'<a href="b?x=1#top">b</a> <a rel=nofollow href=c>c</a>', "http://a/")
    PageLinks(links=('http://a/b?x=1#top',), canonical=None)
    """
    parser = _LinkParser(base)
    _, text = decoded(body[:_MOST_BYTES], content_type)
    parser.feed(text)
    return PageLinks(() if parser.nofollow else tuple(parser.links), parser.canonical)


class _LinkParser(HTMLParser):
    """Collects the links of a page, as many as are read of one."""

    def __init__(self, base: str) -> None:
        super().__init__()
        self._base = base
        self._based = False
        self.links: dict[str, None] = {}
        self.nofollow = False
        self.canonical: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Look at a tag."""
        if tag not in {"a", "area", "base", "link", "meta"}:
            return
        said = {name: value or "" for name, value in reversed(attrs)}
        words = frozenset(said.get("rel", "").lower().split())
        if tag == "meta":
            if said.get("name", "").lower() == "robots" and _NO_LINKS.search(said.get("content", "")):
                self.nofollow = True
        elif tag == "base" and not self._based and said.get("href"):
            self._base, self._based = self._joined(said["href"]) or self._base, True
        elif tag == "link" and "canonical" in words:
            self.canonical = self.canonical or self._joined(said.get("href", ""))
        elif tag in {"a", "area"} and said.get("href") and not words & _UNFOLLOWED:
            self._link(said["href"])

    def _link(self, reference: str) -> None:
        if len(self.links) < MOST_LINKS and (found := self._joined(reference)):
            self.links[found] = None

    def _joined(self, reference: str) -> str | None:
        try:
            found = urljoin(self._base, reference.strip())
        except ValueError:
            return None
        return found if found[:8].lower().startswith(("http://", "https://")) else None


def address_of(link: str) -> str | None:
    """Return the address that a link leads to, without who reads it; None if it is none, or looks endless.

    >>> address_of("http://a/x;jsessionid=1?b=2&PHPSESSID=9#top"), address_of("http://a/b/c/b/c/b/c")
    ('http://a/x?b=2', None)
    """
    try:
        parts = urlsplit(link)
        query = "&".join(one for one in parts.query.split("&") if one and not _WHO_READS.match(one))
        path = _SESSION_IN_PATH.sub("", parts.path)
        address = canonical(urlunsplit((parts.scheme, parts.netloc, path, query, "")))
    except (InvalidInput, ValueError):
        return None
    segments = [one for one in path.split("/") if one]
    alike = max(Counter(segments).values(), default=0)
    endless = len(segments) > _MOST_SEGMENTS or alike > _MOST_ALIKE or len(address) > _MOST_CHARACTERS
    return None if endless else address


async def with_links(found: Found, known: Known, *, private: bool) -> Found:
    """Return what a poll found, with the pages to which its links lead.

    ``private``: whether a public page may lead to private addresses.
    """
    options = LinkOptions.of(known.options)
    same = found.fingerprint is not None and found.fingerprint == known.fingerprint and known.validators
    if options is None or found.body is None or found.media_type not in _HTML or same:
        return found
    headers = found.meta.get("headers")
    said = headers if isinstance(headers, dict) else {}
    if _NO_LINKS.search(str(said.get("x-robots-tag", ""))):
        return replace(found, detail=f"{found.detail}; its links are not to be followed")
    landed = found.meta.get("url")
    base = landed if isinstance(landed, str) else known.key
    arguments = found.body, base, str(said.get("content-type", ""))
    try:
        if isinstance(found.body, bytes) and len(found.body) <= _SMALL_BYTES:
            page = await asyncio.to_thread(_read, *arguments)
        else:
            page = await parsers.run(_read, *arguments)
    except LimitExceeded as error:
        return replace(found, detail=f"{found.detail}; its links cannot be read: {error}")
    news = await asyncio.to_thread(followed, page, known.key, base, options, private=private)
    return replace(found, discovered=news, detail=f"{found.detail}, {len(news):,} links")


def _read(body: bytes | Path, base: str, content_type: str) -> PageLinks:
    """Read the links of a body that may be in a file."""
    if isinstance(body, Path):
        with body.open("rb") as stream:
            return read_links(stream.read(_MOST_BYTES), base, content_type)
    return read_links(body, base, content_type)


def followed(page: PageLinks, key: str, base: str, options: LinkOptions, *, private: bool) -> tuple[New, ...]:
    """Return the pages to which links lead that are to be followed."""
    hosts = frozenset({site_of(key), site_of(base)})
    inside = private or all(named_private(host_of(one)) for one in (key, base))
    own = None if page.canonical is None else address_of(page.canonical)
    links = page.links
    if own is not None and own not in {key, base} and site_of(own) in hosts:
        links = (own,)  # this is another name of a page that has these links itself
    found: dict[str, New] = {}
    for link in links:
        address = address_of(link)
        if address is None or address in {key, base} or not options.follows(address, hosts):
            continue
        if inside or not named_private(host_of(address)):
            found[address] = options.new(address)
    return tuple(found.values())
