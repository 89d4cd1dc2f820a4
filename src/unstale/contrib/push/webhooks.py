"""What GitHub, GitLab and sites with IndexNow send: who may send it, and which addresses it is about."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from unstale.errors import InvalidInput

__all__ = ["IndexNowPush", "RepositoryPush", "is_signed", "read_index_now", "read_repository"]

_HASHES = {"sha1": hashlib.sha1, "sha256": hashlib.sha256, "sha384": hashlib.sha384, "sha512": hashlib.sha512}
_MOST_FILES = 10_000
_MOST_ADDRESSES = 10_000
"""As IndexNow says."""
_KEY = re.compile(r"[A-Za-z0-9-]{8,128}")
_FILE_OF = re.compile(r"^/(?:-/)?(?:blob|raw|blame|edit)/(?:refs/heads/)?(.+)$")
"""The branch and the path of a file, behind the address of its repository."""


def is_signed(secret: str, body: bytes, given: str, *, only: Iterable[str] = _HASHES) -> bool:
    """Tell whether ``METHOD=HEX`` is the HMAC of a body; in a time that does not tell how much is right.

    >>> is_signed("s", b"text", "sha256=" + hmac.digest(b"s", b"text", "sha256").hex())
    True
    >>> is_signed("s", b"text", "md5=1")
    False
    """
    method, _, digest = given.strip().partition("=")
    if method.lower() not in set(only):
        return False
    right = hmac.new(secret.encode(), body, _HASHES[method.lower()]).hexdigest()
    return hmac.compare_digest(right.encode(), digest.strip().lower().encode("utf-8", "replace"))


@dataclass(frozen=True)
class RepositoryPush:
    """A repository in which something has happened."""

    addresses: tuple[str, ...]
    """Where its pages and files are: keys of its elements begin like this."""
    files: frozenset[str] | None
    """Paths that a push names; None: it may be any."""

    def concerns(self, key: str) -> bool:
        """Tell whether an element may have changed.

        >>> push = RepositoryPush(("https://github.com/o/r",), frozenset({"a/b.txt"}))
        >>> [push.concerns("https://github.com/o/r" + more) for more in ("", "/blob/main/a/b.txt")]
        [True, True]
        >>> [push.concerns("https://github.com/o/r" + more) for more in ("2", "/blob/main/c.txt")]
        [False, False]
        """
        bare = key.lower()
        for address in self.addresses:
            start = address.lower()
            if bare == start or bare.startswith((f"{start}/", f"{start}.atom", f"{start}?")):
                return self._names_file(key[len(address) :], address)
        return False

    def _names_file(self, rest: str, address: str) -> bool:
        raw = "raw.githubusercontent.com" in address
        found = None if raw else _FILE_OF.match(rest)
        path = rest.removeprefix("/").removeprefix("refs/heads/") if raw else found[1] if found else None
        if path is None or self.files is None:
            return True
        path = unquote(path.partition("?")[0])
        parts = path.split("/")
        # A branch may have slashes in its name, so the path begins behind one of them.
        return any("/".join(parts[i:]) in self.files for i in range(1, min(len(parts), 20)))


def read_repository(body: bytes) -> RepositoryPush:
    """Read what GitHub or GitLab sends.

    >>> read_repository(b'{"repository": {"html_url": "https://github.com/o/r"}}').addresses[0]
    'https://github.com/o/r'
    """
    said = _json(body)
    repository, project = said.get("repository"), said.get("project")
    address = next(
        (
            one[name]
            for one, name in ((repository, "html_url"), (project, "web_url"), (repository, "homepage"))
            if isinstance(one, Mapping) and isinstance(one.get(name), str)
        ),
        "",
    ).rstrip("/")
    try:
        parts = urlsplit(address if len(address) <= 2048 else "")
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in {"http", "https"} or not parts.path.strip("/"):
        raise InvalidInput("the message names no repository: neither repository.html_url nor project.web_url")
    addresses = [address]
    if parts.hostname == "github.com":
        addresses += [
            f"https://raw.githubusercontent.com{parts.path}",
            f"https://api.github.com/repos{parts.path}",
        ]
    return RepositoryPush(tuple(addresses), _files(said.get("commits")))


def _files(commits: object) -> frozenset[str] | None:
    """Return the paths that commits name; None if there are none, or too many to be all."""
    if not isinstance(commits, list) or not commits:
        return None
    files: set[str] = set()
    for commit in commits:
        for kind in ("added", "modified", "removed"):
            some = commit.get(kind, []) if isinstance(commit, Mapping) else None
            if not isinstance(some, list) or len(files) + len(some) > _MOST_FILES:
                return None
            files.update(str(one) for one in some)
    return frozenset(files) or None


@dataclass(frozen=True)
class IndexNowPush:
    """Addresses of a host that have changed, and the key that proves that its owner says so."""

    host: str
    key: str
    location: str
    """Where the key is: a text file of that host."""
    addresses: tuple[str, ...]


def read_index_now(said: Mapping[str, Any]) -> IndexNowPush:
    """Read a submission, checked by the rules of IndexNow.

    >>> read_index_now({"url": "https://a.example/x", "key": "0123456789abcdef"}).location
    'https://a.example/0123456789abcdef.txt'
    """
    addresses = said.get("urlList", [said["url"]] if isinstance(said.get("url"), str) else None)
    if not isinstance(addresses, list) or not 0 < len(addresses) <= _MOST_ADDRESSES:
        raise InvalidInput(f"urlList must be a list of 1 to {_MOST_ADDRESSES:,} addresses")
    if not all(isinstance(one, str) and len(one) <= 2048 for one in addresses):
        raise InvalidInput("urlList must be of addresses of at most 2,048 characters")
    key = said.get("key")
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise InvalidInput("key must be 8 to 128 letters, digits and dashes")
    try:
        first = urlsplit(addresses[0])
        host = str(said.get("host") or first.netloc).lower()
        location = str(said.get("keyLocation") or f"{first.scheme}://{first.netloc}/{key}.txt")
        place = urlsplit(location)
        hosts = {urlsplit(one).netloc.lower() for one in addresses}
    except ValueError:
        raise InvalidInput("urlList and keyLocation must be addresses") from None
    if (
        hosts | {place.netloc.lower()} != {host}
        or place.scheme not in {"http", "https"}
        or "@" in host
        or place.query
    ):
        raise InvalidInput(f"urlList and keyLocation must be addresses of the host {host[:300]}")
    folder = place.path.rpartition("/")[0] + "/"
    outside = [one for one in addresses if not (urlsplit(one).path or "/").startswith(folder)]
    if outside:
        raise InvalidInput(f"a key in {folder[:300]} cannot speak for {outside[0][:300]}")
    return IndexNowPush(host, key, location, tuple(dict.fromkeys(addresses)))


def _json(body: bytes) -> Mapping[str, Any]:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidInput("the body is no JSON") from None
    if not isinstance(said, dict):
        raise InvalidInput("the body must be a JSON object")
    return said
