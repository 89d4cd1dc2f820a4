"""Where a feed or a page names its WebSub hub: in the header Link, or in elements ``link``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

__all__ = ["HubLinks", "in_content", "in_headers"]

_MOST_BYTES = 32_768
"""Of a document, in which links are looked for; they stand at its beginning."""
_MOST_ADDRESS = 2048
_LINK = re.compile(r"""<([^<>]{1,2048})>((?:\s*;\s*[\w*-]{1,30}\s*=\s*(?:"[^"]{0,300}"|[^\s";,]{1,300}))*)""")
_REL = re.compile(r"""(?i);\s*rel\s*=\s*(?:"([^"]*)"|([^\s";,]+))""")


class HubLinks(NamedTuple):
    """The hub of a topic, and the address by which the hub knows it."""

    hub: str = ""
    topic: str = ""


def in_headers(values: Iterable[str], address: str) -> HubLinks:
    """Return what headers ``Link`` of an answer say.

    >>> in_headers(['<https://hub.example/>; rel="hub", </feed>; rel=self'], "https://a.example/x")
    HubLinks(hub='https://hub.example/', topic='https://a.example/feed')
    """
    found: list[tuple[str, str]] = []
    for value in values:
        for link, more in _LINK.findall(value[:8192]):
            rel = _REL.search(more)
            if rel:
                found.append((rel[1] or rel[2], link))
    return _chosen(found, address)


def in_content(content: bytes, address: str) -> HubLinks:
    """Return what a feed (Atom, RSS) or a page says at its beginning.

    >>> in_content(b'<feed><link rel="hub" href="https://hub.example/"/></feed>', "https://a.example/x")
    HubLinks(hub='https://hub.example/', topic='https://a.example/x')
    """
    from lxml import etree

    # The parser for HTML takes all of them, also if they are cut, and knows neither entities nor documents
    # from elsewhere.
    parser = etree.HTMLParser(no_network=True, huge_tree=False, recover=True)
    try:
        root = etree.fromstring(content[:_MOST_BYTES], parser)
    except (etree.XMLSyntaxError, ValueError):
        return HubLinks()
    found = [
        (str(link.get("rel")), str(link.get("href")))
        for link in (() if root is None else root.iter(etree.Element))
        if str(link.tag).rpartition(":")[2].lower() == "link" and link.get("href") and link.get("rel")
    ]
    return _chosen(found, address)


def _chosen(found: Iterable[tuple[str, str]], address: str) -> HubLinks:
    """Return the first hub, and the first address of the document itself, among links."""
    hub, topic = "", ""
    for rel, link in found:
        words = rel.lower().split()
        if "hub" in words and not hub:
            hub = _web(address, link)
        elif "self" in words and not topic:
            topic = _web(address, link)
    return HubLinks(hub, topic or address) if hub else HubLinks()


def _web(base: str, link: str) -> str:
    """Return the address of the web that a link leads to; empty if it leads to none."""
    try:
        address = urljoin(base, link.strip())
        parts = urlsplit(address)
        fine = parts.scheme in {"http", "https"} and parts.hostname and not parts.username
    except ValueError:
        return ""
    return address if fine and len(address) <= _MOST_ADDRESS else ""
