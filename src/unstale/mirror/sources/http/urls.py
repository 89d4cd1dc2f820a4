"""The canonical address of a page, which is its key.

One page has many addresses that every server must take for the same. The canonical one has scheme and host in
small letters, the host in ASCII (IDNA), and no default port; ``.`` and ``..`` are resolved, only necessary
characters are percent-encoded, and the fragment, which no server sees, is removed. The order of a query, a
slash at the end and parameters that look useless stay, since only the server knows what they mean.
"""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from urllib.parse import SplitResult, urljoin, urlsplit

from unstale.errors import InvalidInput

_MAX_KEY_CHARACTERS = 2048
"""Of a key: sitemaps allow no more, and an index of a database holds no more."""
_MAX_REDIRECT_CHARACTERS = 8000
"""Of an address that a redirect names."""
_DEFAULT_PORTS = {"http": 80, "https": 443}
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_HOST = re.compile(rf"{_LABEL}(?:\.{_LABEL})*", re.ASCII)
_NUMBER = re.compile(r"\d+|0x[0-9a-f]*", re.ASCII)
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})?")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
# Most addresses are canonical already. This pattern tells so in a microsecond, for lists of a million.
_CANONICAL = re.compile(
    r"https?://(?:[a-z0-9]{1,63}(?:-[a-z0-9]{1,20}){0,3}\.){1,6}[a-z]{2,20}"
    r"(?:/(?!\.)[A-Za-z0-9_.~!$&()*+,;=:@-]*)+(?:\?[A-Za-z0-9_.~!$&()*+,;=:@/?-]+)?",
    re.ASCII,
)


def canonical(text: str, *, max_characters: int = _MAX_KEY_CHARACTERS) -> str:
    """Return the canonical address, or raise `InvalidInput`.

    >>> canonical("HTTP://Bücher.Example:80/a/../b%7ec?z=1&a=2#top")
    'http://xn--bcher-kva.example/b~c?z=1&a=2'
    """
    if len(text) <= _MAX_KEY_CHARACTERS and _CANONICAL.fullmatch(text):
        return text
    shown = text if len(text) <= 100 else f"{text[:100]}..."
    parts = _split(text, shown)
    host = _host(parts.hostname, shown)
    try:
        port = parts.port
    except ValueError:
        raise InvalidInput(f"{shown!r} has no valid port: it must be between 1 and 65535") from None
    if port == 0:
        raise InvalidInput(f"{shown!r} has no valid port: it must be between 1 and 65535")
    path, query = _quoted(parts.path, parts.query, shown)
    where = host if port is None or port == _DEFAULT_PORTS[parts.scheme] else f"{host}:{port}"
    result = f"{parts.scheme}://{where}{_resolved(path)}{'?' if query else ''}{query}"
    if len(result) > max_characters:
        raise InvalidInput(f"{shown!r} is too long: {len(result)} characters, of at most {max_characters}")
    return result


def joined(base: str, reference: str) -> str:
    """Return the canonical address to which a redirect from ``base`` leads, or raise `InvalidInput`.

    >>> joined("https://example.org/a/b", "../c")
    'https://example.org/c'
    """
    try:
        target = urljoin(base, reference.strip())
    except ValueError:
        raise InvalidInput(f"{reference[:100]!r} is not an address") from None
    return canonical(target, max_characters=_MAX_REDIRECT_CHARACTERS)


@lru_cache(maxsize=4096)
def _pieces(start: str) -> tuple[str, str]:
    """Return host and origin, from the beginning of a canonical address up to the path."""
    where = start.split("//", 1)[1]
    host = where[1:].split("]", 1)[0] if where.startswith("[") else where.split(":", 1)[0]
    return host, where


def _start(url: str) -> str:
    return url[: url.index("/", 8)]


def origin_of(url: str) -> str:
    """Return scheme, host and port of a canonical address.

    >>> origin_of("https://example.org:8443/a")
    'https://example.org:8443'
    """
    return _start(url)


def host_of(url: str, *, port: bool = False) -> str:
    """Return the host of a canonical address, with its port if that is not the default one.

    >>> host_of("http://[::1]:8000/"), host_of("http://[::1]:8000/", port=True)
    ('::1', '[::1]:8000')
    """
    return _pieces(_start(url))[port]


def site_of(address: str) -> str:
    """Return the host of an address with its port, without ``www.``.

    >>> site_of("https://www.example.org/a"), site_of("http://example.org:8080/")
    ('example.org', 'example.org:8080')
    """
    return host_of(address, port=True).removeprefix("www.")


def _split(text: str, shown: str) -> SplitResult:
    try:
        parts = urlsplit(text.strip())
        hostname = parts.hostname
    except ValueError:
        raise InvalidInput(f"{shown!r} is not an address that can be read") from None
    if parts.scheme not in _DEFAULT_PORTS:
        raise InvalidInput(f"{shown!r} is not the address of a page: it must begin with http:// or https://")
    if "@" in parts.netloc:
        raise InvalidInput(
            "an address must not hold a user name or password, since keys are shown and exported; "
            f"give them as a header, in options of a rule in mirror.toml: {shown.rpartition('@')[2]!r}"
        )
    if not hostname:
        raise InvalidInput(f"{shown!r} names no host")
    return parts


def _host(name: str | None, shown: str) -> str:
    host = name or ""
    if ":" in host:
        try:
            address = IPv6Address(host)
        except AddressValueError:
            raise InvalidInput(f"{shown!r}: {host!r} is not an IPv6 address") from None
        if address.scope_id is not None:
            raise InvalidInput(f"{shown!r}: an address with a zone ({host!r}) cannot be polled")
        return f"[{address}]"
    if not host.isascii():
        host = _ascii(host, shown)
    host = host.lower().removesuffix(".")
    if len(host) > 253 or not _HOST.fullmatch(host):
        raise InvalidInput(f"{shown!r}: {host[:80]!r} is not the name of a host")
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        # Some programs read 2130706433 and 0x7f.1 as 127.0.0.1, others as names: they are refused.
        try:
            return str(IPv4Address(host))
        except AddressValueError:
            raise InvalidInput(f"{shown!r}: {host!r} is neither a name nor an IPv4 address") from None
    return host


def _ascii(host: str, shown: str) -> str:
    import idna

    try:
        return idna.encode(host, uts46=True).decode("ascii")
    except (idna.IDNAError, UnicodeError, IndexError):
        raise InvalidInput(f"{shown!r}: {host[:80]!r} is not the name of a host") from None


def _quoted(path: str, query: str, shown: str) -> tuple[str, str]:
    from w3lib.url import safe_url_string

    try:
        # "h" stands for the host, which is checked already; "//" at the beginning of a path belongs to it.
        safe = safe_url_string(f"http://h{path or '/'}{'?' if query else ''}{query}")
        after = safe.removeprefix("http://h").partition("?")
    except (UnicodeError, ValueError):
        raise InvalidInput(f"{shown!r} is not an address that can be read") from None
    return _ESCAPE.sub(_escape, after[0]), _ESCAPE.sub(_escape, after[2])


def _escape(match: re.Match[str]) -> str:
    digits = match[1]
    if digits is None:
        return "%25"  # a bare % is escaped, so that it does not form an escape with what follows
    letter = chr(int(digits, 16))
    return letter if letter in _UNRESERVED else f"%{digits.upper()}"


def _resolved(path: str) -> str:
    """Resolve ``.`` and ``..`` (RFC 3986, section 5.2.4)."""
    if "/." not in path:
        return path
    kept: list[str] = []
    segments = path.split("/")[1:]
    for segment in segments:
        if segment == "..":
            if kept:
                kept.pop()
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in {".", ".."}:
        kept.append("")
    return "/" + "/".join(kept)
