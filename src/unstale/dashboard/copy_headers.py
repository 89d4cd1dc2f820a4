"""Keys and content types, which anybody may have written, as they can stand in addresses and headers."""

from __future__ import annotations

import re
from urllib.parse import quote

__all__ = ["copy_path", "safe_key", "safe_type"]

_TYPE = re.compile(
    r"[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+(\s*;\s*[a-z0-9_-]+=([a-z0-9_.:+-]+|\"[a-z0-9 _.:/+-]*\"))*",
    re.IGNORECASE | re.ASCII,
).fullmatch


def copy_path(key: str) -> str:
    """Return the path of a copy.

    >>> copy_path("https://example.org/a?b")
    '/copies/https%3A%2F%2Fexample.org%2Fa%3Fb'
    """
    return f"/copies/{quote(key, safe='')}"


def safe_key(key: str) -> str:
    r"""Return a key that can stand in a header; undone by unquoting.

    >>> safe_key("https://example.org/caf\u00e9?a=1%20\r\nX: y")
    'https://example.org/caf%C3%A9?a=1%2520%0D%0AX:%20y'
    """
    return quote(key, safe="/:?#[]@!$&'()*+,;=~", errors="replace")


def safe_type(media_type: str) -> str:
    r"""Return a content type that can stand in a header.

    >>> safe_type("text/html; charset=utf-8"), safe_type("text/html\r\nSet-Cookie: a=b")
    ('text/html; charset=utf-8', 'application/octet-stream')
    """
    return media_type if len(media_type) < 200 and _TYPE(media_type) else "application/octet-stream"
