"""Keys and content types, which anybody may have written, as they can stand in addresses and headers."""

from __future__ import annotations

import re
from urllib.parse import quote

_TYPE = re.compile(
    r"[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+(\s*;\s*[a-z0-9_-]+=([a-z0-9_.:+-]+|\"[a-z0-9 _.:/+-]*\"))*",
    re.IGNORECASE | re.ASCII,
).fullmatch
_USABLE = re.compile(
    r"(application|text)/((x-)?(ecma|java|live)script.*|(x-)?jscript.*|css|cache-manifest)", re.IGNORECASE
).fullmatch
"""What browsers take for a script or a style of the page that names it."""


def safe_key(key: str) -> str:
    r"""Return a key that can stand in a header; undone by unquoting.

    >>> safe_key("https://example.org/caf\u00e9?a=1%20\r\nX: y")
    'https://example.org/caf%C3%A9?a=1%2520%0D%0AX:%20y'
    """
    return quote(key, safe="/:?#[]@!$&'()*+,;=~", errors="replace")


def safe_type(media_type: str) -> str:
    r"""Return a content type that can stand in a header.

    Scripts and styles are plain text, which browsers show but do not use: the pages of the dashboard may
    have scripts and styles of their own origin, and copies have the same.

    >>> safe_type("text/html; charset=utf-8"), safe_type("text/html\r\nSet-Cookie: a=b")
    ('text/html; charset=utf-8', 'application/octet-stream')
    >>> safe_type("text/javascript; charset=latin-1"), safe_type("multipart/x-mixed-replace; boundary=x")
    ('text/plain; charset=latin-1', 'application/octet-stream')
    """
    kind = media_type.partition(";")[0]
    if len(media_type) >= 200 or not _TYPE(media_type) or kind.lower().startswith("multipart/"):
        return "application/octet-stream"
    return f"text/plain{media_type[len(kind) :]}" if _USABLE(kind.strip()) else media_type
