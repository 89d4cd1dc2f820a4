"""The content of a `ChangingSite`, made from the number of a page and of its version."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from functools import cache
from itertools import islice
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .site import ChangingSite

_WORDS = (
    "the a of and in to harbour ferry council market winter summer river bridge library school garden museum "
    "report budget plan vote season price apple barley copper timber cotton station railway morning evening "
    "opened closed moved grew fell returned repaired painted measured counted announced delayed agreed found "
    "new old small large quiet busy northern southern early late local public first second third last"
)
_SITEMAP_ADDRESSES = 50_000
"""Addresses in one sitemap; the protocol allows no more."""
_MAX_FEED_ENTRIES = 100
"""Entries of the feed."""


def page_html(seed: int, page: int, version: int, size: int) -> bytes:
    """Return a page of about ``size`` bytes. From one version to the next a paragraph and a line differ.

    Parameters
    ----------
    seed
        Decides what is on all pages.
    page, version
        The number of the page, and of its version.
    size
        Bytes of the page, about.

    Examples
    --------
    >>> page_html(0, 7, 1, 300) == page_html(0, 7, 1, 300) != page_html(0, 7, 2, 300)
    True
    """
    sentences = _sentences()
    count = max(1, (size - 430) // 420)
    title = sentences[_number(seed, page, 0, 0) % len(sentences)].rstrip(".")
    parts = []
    for at in range(count):
        edition = (version + at) // count  # each version rewrites one paragraph, in turn
        text = _number(seed, page, at + 1, edition)
        chosen = (sentences[(text >> (10 * k)) % len(sentences)] for k in range(6))
        parts.append(f"<p>{' '.join(chosen)}</p>")
    paragraphs = "\n".join(parts)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title} - page {page}</title>
<link rel="alternate" type="application/atom+xml" href="/feed.xml">
</head>
<body>
<nav><a href="/">All pages</a> <a href="/page/{max(page - 1, 0)}">Previous</a></nav>
<main>
<h1>{title}</h1>
{paragraphs}
</main>
<footer>Page {page}, revision {version}</footer>
</body>
</html>
""".encode()


def other_page(site: ChangingSite, base: str, path: str, now: float) -> tuple[str, str] | None:
    """Return media type and content of the index, robots.txt, the feed or a sitemap; None for others.

    Parameters
    ----------
    site
        The site.
    base
        Its address, without a slash at the end.
    path
        The path that a request asks for.
    now
        The time of the request.
    """
    number = path.removeprefix("/sitemap-").removesuffix(".xml")
    if path == "/":
        return "text/html", _index(len(site))
    if path == "/robots.txt":
        return "text/plain", f"User-agent: *\nDisallow:\n\nSitemap: {base}/sitemap.xml\n"
    if path == "/feed.xml":
        return "application/atom+xml", _feed(site, base, now)
    if path == "/sitemap.xml":
        whole = (
            _sitemap(site, base, now, 0) if len(site) <= _SITEMAP_ADDRESSES else _sitemaps(len(site), base)
        )
        return "application/xml", whole
    if (
        path == f"/sitemap-{number}.xml"
        and number.isdecimal()
        and int(number) * _SITEMAP_ADDRESSES < len(site)
    ):
        return "application/xml", _sitemap(site, base, now, int(number) * _SITEMAP_ADDRESSES)
    return None


def _index(count: int) -> str:
    head = '<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8"><title>All pages</title>\n</head>'
    links = "\n".join(f'<li><a href="/page/{k}">Page {k}</a></li>' for k in range(count))
    return f"{head}\n<body>\n<h1>All pages</h1>\n<ul>\n{links}\n</ul>\n</body>\n</html>\n"


def _sitemaps(count: int, base: str) -> str:
    maps = range(-(-count // _SITEMAP_ADDRESSES))
    listed = "".join(f"<sitemap><loc>{base}/sitemap-{k}.xml</loc></sitemap>\n" for k in maps)
    return _xml("sitemapindex", listed)


def _sitemap(site: ChangingSite, base: str, now: float, first: int) -> str:
    pages = range(first, min(first + _SITEMAP_ADDRESSES, len(site)))
    rows = (
        f"<url><loc>{base}/page/{k}</loc><lastmod>{_moment(site.changed(k, now))}</lastmod></url>\n"
        for k in pages
    )
    return _xml("urlset", "".join(rows))


def _xml(name: str, inside: str) -> str:
    where = "http://www.sitemaps.org/schemas/sitemap/0.9"
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<{name} xmlns="{where}">\n{inside}</{name}>\n'


def _feed(site: ChangingSite, base: str, now: float) -> str:
    entries = []
    for page, at in islice(site.latest(now, _MAX_FEED_ENTRIES), _MAX_FEED_ENTRIES):
        link, when = f"{base}/page/{page}", _moment(at)
        entries.append(
            f"<entry><title>Page {page} has changed</title><id>{link}</id>"
            f'<link href="{link}"/><updated>{when}</updated></entry>\n'
        )
    newest = _moment(site.latest(now, 1)[0][1] if entries else site.start)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom">\n'
        f"<title>What changed last</title>\n<id>{base}/feed.xml</id>\n"
        f'<link rel="self" href="{base}/feed.xml"/>\n<updated>{newest}</updated>\n'
        f"<author><name>A changing site</name></author>\n{''.join(entries)}</feed>\n"
    )


def _moment(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@cache
def _sentences() -> list[str]:
    """Return 1024 sentences of about 70 bytes."""
    words, dice = _WORDS.split(), Random(1)  # noqa: S311  (no secrets)
    return [" ".join(dice.choices(words, k=11)).capitalize() + "." for _ in range(1024)]


def _number(*words: int) -> int:
    """Return 64 bits that depend on all the words."""
    return int.from_bytes(hashlib.blake2b(repr(words).encode(), digest_size=8).digest())
