"""Headers of an answer, read with care: what a server writes there is shown, stored and sent back."""

from __future__ import annotations

import re
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import lru_cache

from aiohttp import ClientResponse

from unstale.mirror.source import Json

__all__ = [
    "media_type",
    "parse_date",
    "printable",
    "retry_after",
    "sendable",
    "status_line",
    "validators",
    "version_meta",
]

_MAX_WAIT_SECONDS = 86400.0
_WAIT_AFTER_429_SECONDS = 60.0
"""Seconds to wait after 429 Too Many Requests, if it does not say."""
_HEADERS_NOT_KEPT = frozenset({
    "connection", "content-encoding", "content-length", "keep-alive", "set-cookie", "set-cookie2",
    "trailer", "transfer-encoding", "upgrade", "www-authenticate",
})  # fmt: skip
"""Headers that say nothing of the copy, or too much."""
_MAX_KEPT_CHARACTERS = 8192
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def sendable(value: str) -> bool:
    """Tell whether a value can stand in a header."""
    return value.isprintable()  # so there are no line ends, and no halves of characters either


def retry_after(response: ClientResponse, now: float) -> float | None:
    """Return for how long the group is to be left alone, in seconds."""
    if response.status not in {429, 503}:
        return None
    text = response.headers.get("Retry-After", "").strip()
    seconds: float | None = None
    if text.isascii() and text.isdigit():
        seconds = float(text[:12])
    elif (moment := parse_date(text)) is not None:
        # by the clock of the server, if it tells the time: ours may be another
        seconds = moment - (parse_date(response.headers.get("Date")) or now)
    if seconds is None:
        return _WAIT_AFTER_429_SECONDS if response.status == 429 else None
    return min(max(seconds, 1.0), _MAX_WAIT_SECONDS)


def validators(response: ClientResponse, url: str, kind: str) -> dict[str, Json]:
    """Return what the next poll is to ask with."""
    kept: dict[str, Json] = {"url": url, "status": response.status, "type": kind}
    for name, header in (("etag", "ETag"), ("modified", "Last-Modified")):
        value = response.headers.get(header, "").strip()
        if value and len(value) <= 1000 and sendable(value):
            kept[name] = value
    return kept


def version_meta(response: ClientResponse, url: str, title: str | None) -> dict[str, Json]:
    """Return what readers may want to know of this version."""
    told: dict[str, Json] = {"url": url, "status": response.status}
    if title:
        told["title"] = title
    headers: dict[str, Json] = {}
    room = _MAX_KEPT_CHARACTERS
    for name, value in response.headers.items():
        room -= len(name) + len(value)
        if room > 0 and (lower := name.lower()) not in _HEADERS_NOT_KEPT:
            headers[lower] = value if value.isprintable() else printable(value, 1000)
    told["headers"] = headers
    return told


@lru_cache(maxsize=256)
def media_type(kind: str) -> str:
    """Return the media type without its parameters."""
    essence = kind.partition(";")[0].strip().lower()
    first, slash, second = essence.partition("/")
    known = slash and _TOKEN.fullmatch(first) and _TOKEN.fullmatch(second) and len(essence) <= 100
    return essence if known else "application/octet-stream"


def status_line(response: ClientResponse) -> str:
    """Return the status in words."""
    return _status(response.status, response.reason)


@lru_cache(maxsize=256)
def _status(status: int, reason: str | None) -> str:
    return printable(f"{status} {reason or ''}", 100)


def printable(text: str, most: int) -> str:
    """Return what can be shown and stored of what a server wrote."""
    text = text[: 2 * most]
    if not text.isprintable():
        text = "".join(letter for letter in text if letter.isprintable())
    return text[:most].strip()


def parse_date(text: str | None) -> float | None:
    """Return a date as seconds since 1970; None if it is none."""
    if not text or len(text) > 100:
        return None
    try:
        moment = parsedate_to_datetime(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
