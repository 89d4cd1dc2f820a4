"""Headers of a response, read with care: the mirror shows them, stores them and sends some back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import lru_cache

from aiohttp import ClientResponse

from unstale.mirror.source import Json

_MAX_WAIT_SECONDS = 86400.0
_WAIT_AFTER_429_SECONDS = 60.0
"""Wait after 429 Too Many Requests without Retry-After."""
_HEADERS_NOT_KEPT = frozenset({
    "connection", "content-encoding", "content-length", "keep-alive", "set-cookie", "set-cookie2",
    "trailer", "transfer-encoding", "upgrade", "www-authenticate",
})  # fmt: skip
"""Headers that do not describe the copy, or that may hold a secret."""
_MAX_KEPT_CHARACTERS = 8192
_LONGEST_PROMISE_SECONDS = 366 * 86400.0
_MAX_AGE = re.compile(r"(?:^|[\s,])max-age=\"?(\d{1,9})", re.ASCII)
_NO_PROMISE = re.compile(r"(?:^|[\s,])(?:no-cache|no-store)(?=$|[\s,])", re.ASCII)
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def sendable(value: str) -> bool:
    """Tell whether a value can be sent in a header."""
    return value.isprintable()  # no line ends, no half characters


def retry_after(response: ClientResponse, now: float) -> float | None:
    """Return the seconds for which the server asks the mirror to wait; None if it does not ask."""
    if response.status not in {429, 503}:
        return None
    text = response.headers.get("Retry-After", "").strip()
    seconds: float | None = None
    if text.isascii() and text.isdigit():
        seconds = float(text[:12])
    elif (moment := parse_date(text)) is not None:
        # by the clock of the server if it tells the time, since the clock here may differ
        seconds = moment - (parse_date(response.headers.get("Date")) or now)
    if seconds is None:
        return _WAIT_AFTER_429_SECONDS if response.status == 429 else None
    return min(max(seconds, 1.0), _MAX_WAIT_SECONDS)


def promised(headers: Mapping[str, str]) -> float | None:
    """Return for how many seconds a response is promised to stay as it is; None if nothing is promised.

    >>> promised({"Cache-Control": "public, max-age=600", "Age": "100"})
    500.0
    """
    control = headers.get("Cache-Control", "").lower()
    if _NO_PROMISE.search(control):
        return None
    seconds: float | None = None
    if found := _MAX_AGE.search(control):
        age = headers.get("Age", "").strip()
        seconds = float(found[1]) - (float(age[:9]) if age.isascii() and age.isdigit() else 0.0)
    elif (until := parse_date(headers.get("Expires"))) is not None:
        date = parse_date(headers.get("Date"))
        seconds = None if date is None else until - date
    return min(seconds, _LONGEST_PROMISE_SECONDS) if seconds is not None and seconds > 0 else None


def validators(response: ClientResponse, url: str, kind: str) -> dict[str, Json]:
    """Return the validators, with which the next poll makes a conditional request."""
    kept: dict[str, Json] = {"url": url, "status": response.status, "type": kind}
    for name, header in (("etag", "ETag"), ("modified", "Last-Modified")):
        value = response.headers.get(header, "").strip()
        if value and len(value) <= 1000 and sendable(value):
            kept[name] = value
    return kept


def version_meta(response: ClientResponse, url: str, title: str | None) -> dict[str, Json]:
    """Return the address, the status, the title and the headers of this version, for its readers."""
    meta: dict[str, Json] = {"url": url, "status": response.status}
    if title:
        meta["title"] = title
    headers: dict[str, Json] = {}
    room = _MAX_KEPT_CHARACTERS
    for name, value in response.headers.items():
        room -= len(name) + len(value)
        if room > 0 and (lower := name.lower()) not in _HEADERS_NOT_KEPT:
            headers[lower] = value if value.isprintable() else printable(value, 1000)
    meta["headers"] = headers
    return meta


@lru_cache(maxsize=256)
def media_type(kind: str) -> str:
    """Return the media type without its parameters."""
    essence = kind.partition(";")[0].strip().lower()
    first, slash, second = essence.partition("/")
    known = slash and _TOKEN.fullmatch(first) and _TOKEN.fullmatch(second) and len(essence) <= 100
    return essence if known else "application/octet-stream"


def status_line(response: ClientResponse) -> str:
    """Return the status with its reason: ``404 Not Found``."""
    return _status(response.status, response.reason)


@lru_cache(maxsize=256)
def _status(status: int, reason: str | None) -> str:
    return printable(f"{status} {reason or ''}", 100)


def printable(text: str, most: int) -> str:
    """Return the printable characters of a text that a server wrote, at most ``most``."""
    text = text[: 2 * most]
    if not text.isprintable():
        text = "".join(letter for letter in text if letter.isprintable())
    return text[:most].strip()


def parse_date(text: str | None) -> float | None:
    """Return a date in seconds since 1970; None if the text is not a date."""
    if not text or len(text) > 100:
        return None
    try:
        moment = parsedate_to_datetime(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
