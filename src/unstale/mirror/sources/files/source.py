"""Source ``file``: files on this machine, and wherever fsspec reaches (``s3://``, ``sftp://``, ``zip://``).

A poll first asks for the status of a file. If the size, the time and the tag (an ETag, a checksum) are as at
the last poll, the file is not read. A key that ends in a slash names a folder with everything in it. A poll
of a folder lists its files, which become elements, and gives a hint for each file whose status differs. The
copy of a folder is this list. Files of the mirror itself, its store and its copies, are left out.

Options:

trust_mtime     false: read the file at each poll, whatever its status
storage         options of the file system: {"anon": true}
tree            true: the key names a folder, even without a slash at the end
only            of a folder: patterns of paths in it; files that match none are left out
skip            of a folder: patterns of paths in it; files that match one are left out
follow          of a folder: true: links to files count, too, that lead out of it
within          of a file: the folder in which it was found; links that lead out of it are not followed
discover        of a folder: false: give hints, and add no elements; a pattern: add only files that match
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import threading
from collections.abc import Mapping
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit

from unstale.errors import InvalidInput
from unstale.mirror.settings import Settings
from unstale.mirror.source import Found, Json, Known, New, Terms
from unstale.mirror.sources.bloom_filter import BloomFilter
from unstale.mirror.sources.option_values import discovery, patterns_of, truth
from unstale.mirror.sources.threads import GivenUp, Threads
from unstale.mirror.sources.told_dates import change_times

from .folders import TreeListing, child_key, list_tree, own_files
from .locations import is_local
from .reading import discard, failure, read_file, status_of, storage_of

_CACHE_PROTOCOLS = frozenset({"blockcache", "cached", "filecache", "simplecache"})
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")


def file_source(settings: Settings) -> FileSource:  # noqa: ARG001
    """Return the source of files."""
    return FileSource()


class FileSource:
    """Polls files and folders, in threads."""

    def __init__(self) -> None:
        self._threads = Threads()

    def key(self, text: str, options: Mapping[str, Json]) -> str:
        """Return the absolute path, or the address for fsspec; the key of a folder ends in a slash."""
        _checked(options)
        text = text.strip()
        if not text or not text.isprintable():
            raise InvalidInput(f"the name of a file must be printable, and not empty; it is {text[:100]!r}")
        text = re.sub(r"^(?:file|local):(//)?(?!:)", "", text)
        head, chained, tail = text.partition("::")
        for part in text.split("::"):
            _check_protocol(part, alone=not chained)
        tree = _is_tree(text, options)
        if is_local(text):
            head = _absolute(text)
        elif chained and is_local(tail.rpartition("::")[2]):
            before, between, last = tail.rpartition("::")
            tail = f"{before}{between}{_absolute(last)}"
        if found := _SCHEME.match(head):
            head = found[0].lower() + head[found.end() :]
        if tree and not head.endswith(("/", os.sep)):
            head += os.sep if is_local(text) else "/"
        return f"{head}{chained}{tail}"

    def group(self, key: str, options: Mapping[str, Json]) -> str:  # noqa: ARG002
        """Return the group: this machine, a bucket, or a host."""
        place = key.rpartition("::")[2]
        if is_local(place):
            return "file:local"
        parts = urlsplit(place)
        host = parts.netloc.rpartition("@")[2] if parts.scheme != "memory" else ""
        return f"file:{parts.scheme}://{host}"

    async def poll(self, known: Known, terms: Terms) -> Found:
        """Look at a file or a folder, and read it if it looks different."""
        began = asyncio.get_running_loop().time()
        try:
            _checked(known.options)
            read = _poll_tree if _is_tree(known.key, known.options) else _read_file
            if terms.spend is not None and read is _read_file:
                status = await self._threads.run(
                    known.key, lambda _: _own(known, terms) or status_of(known), timeout=terms.timeout
                )
                if isinstance(status, Found):
                    return status
                await terms.spend(min(status.size or 0, terms.max_size))
            left = terms.timeout - (asyncio.get_running_loop().time() - began)
            return await self._threads.run(
                known.key, lambda stop: read(known, terms, stop), timeout=max(left, 0.0), clean=discard
            )
        except (GivenUp, InvalidInput) as error:
            return Found("failed", str(error))
        except Exception as error:  # noqa: BLE001  (drivers of fsspec may raise anything)
            return failure(error, known.key)

    async def close(self) -> None:
        """Do nothing: there are no connections."""


def _checked(options: Mapping[str, Json]) -> None:
    """Raise `InvalidInput` for options without a meaning."""
    for name in ("trust_mtime", "tree", "follow"):
        truth(name, options.get(name, False))
    if not isinstance(options.get("storage", {}), dict):
        raise InvalidInput(f"storage must be a table of options; it is a {type(options['storage']).__name__}")
    if not isinstance(within := options.get("within", ""), str):
        raise InvalidInput(f"within must be a folder; it is {within!r}")
    for name in ("only", "skip"):
        patterns_of(name, options.get(name))
    discovery(options)


def _check_protocol(part: str, *, alone: bool) -> None:
    """Raise `InvalidInput` if no file system, or none that is installed, can open this."""
    found = _SCHEME.match(part)
    protocol = found[1].lower() if found else part if not alone and part.isalpha() else "file"
    if protocol in {"http", "https"} and alone:
        raise InvalidInput(f"{part!r} is a page, not a file; the source http polls it")
    if protocol in _CACHE_PROTOCOLS:
        raise InvalidInput(f"{protocol}: would answer in place of the file system behind it; leave it out")
    from fsspec import get_filesystem_class
    from fsspec.registry import known_implementations

    try:
        get_filesystem_class(protocol)
    except ValueError:
        raise InvalidInput(
            f"{part!r} begins with {protocol}:, which fsspec does not know; see fsspec.available_protocols()"
        ) from None
    except ImportError as error:
        package = known_implementations.get(protocol, {}).get("class", "").partition(".")[0]
        advice = f"pip install {package}" if package not in {"", "fsspec"} else str(error)
        raise InvalidInput(f"{protocol}:// needs a package that is not installed: {advice}") from None


def _absolute(path: str) -> str:
    """Return the absolute path; that of a folder ends in a slash."""
    try:
        absolute = os.path.abspath(Path(path).expanduser())  # noqa: PTH100  (links stay what they are)
    except RuntimeError:
        raise InvalidInput(
            f"{path!r}: there is no such user; write ./{path} for a file of this name"
        ) from None
    return absolute if absolute.endswith(os.sep) or not Path(absolute).is_dir() else absolute + os.sep


def _is_tree(key: str, options: Mapping[str, Json]) -> bool:
    """Tell whether a key is that of a folder."""
    return truth("tree", options.get("tree", False)) or key.partition("::")[0].endswith(("/", os.sep))


def _own(known: Known, terms: Terms) -> Found | None:
    """Refuse a file that belongs to the mirror itself."""
    if is_local(known.key) and known.key in own_files(terms.own):
        return Found("refused", "it is a part of this mirror, which cannot mirror itself")
    return None


def _read_file(known: Known, terms: Terms, given_up: threading.Event) -> Found:
    """Read a file, unless it is the mirror's own."""
    return _own(known, terms) or read_file(known, terms, given_up)


def _poll_tree(known: Known, terms: Terms, given_up: threading.Event) -> Found:
    """List a folder; discover its files, and give hints for those whose status differs."""
    if (refused := _own(known, terms)) is not None:
        return refused
    key, options = known.key, known.options
    follow = truth("follow", options.get("follow", False))
    listing = list_tree(key, storage_of(options), given_up, own_files(terms.own), follow=follow)
    files = [listed for listed in listing.files if _counts(listed.name, options)]
    lines = [f"{listed.name}\t{listed.status.size}\t{listed.status.modified}\n" for listed in files]
    body = "".join(lines).encode()
    if len(body) > terms.max_size:
        return Found(
            "failed", f"the list of its files has {len(body):,} bytes; max_size is {terms.max_size:,}"
        )
    digest = sha256(json.dumps(dict(options), sort_keys=True).encode()).hexdigest()[:16]
    memory = known.validators if known.validators.get("options") == digest else {}
    seen = BloomFilter.read(memory.get("seen"))
    states = [f"{listed.name}\n{listed.status.size}\n{listed.status.tag}" for listed in files]
    kept = {name: options[name] for name in ("storage", "trust_mtime") if name in options}
    if is_local(key) and not follow:
        kept["within"] = key
    discover, wanted = discovery(options)
    discovered = [
        New(child_key(key, listed.name), "file", kept)
        for listed in files
        if discover and (not wanted or _matches(listed.name, wanted))
    ]
    hints = [
        (child_key(key, listed.name), listed.status.modified or 0.0)
        for listed, state in zip(files, states, strict=True)
        if seen is not None and state not in seen
    ]
    return Found(
        "changed",
        detail=_detail(listing, len(files), len(hints)),
        body=body,
        fingerprint=sha256(body).hexdigest(),
        media_type="text/tab-separated-values; charset=utf-8",
        validators={"options": digest, "seen": str(BloomFilter.of(states))},
        traffic=len(body),
        modified=max((listed.status.modified or 0.0 for listed in files), default=None),
        changes=() if known.fingerprint else change_times(listed.status.modified for listed in files),
        discovered=tuple(discovered),
        hints=tuple(hints),
        complete=discover and not listing.unreadable,
        meta={"files": len(files)},
    )


def _counts(name: str, options: Mapping[str, Json]) -> bool:
    """Tell whether a file of a folder counts."""
    only, skip = (patterns_of(which, options.get(which)) for which in ("only", "skip"))
    return (not only or _matches(name, only)) and not _matches(name, skip)


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Tell whether a path within a folder, or its file name, matches one of the patterns."""
    return any(fnmatchcase(name, one) or fnmatchcase(name.rpartition("/")[2], one) for one in patterns)


def _detail(listing: TreeListing, count: int, hints: int) -> str:
    """Return the detail of the poll, for people."""
    words = [f"{count:,} files"]
    if hints:
        words.append(f"{hints:,} new or changed")
    if listing.unreadable:
        words.append(f"{listing.unreadable:,} folders in it cannot be listed")
    if listing.unnamed:
        words.append(f"{listing.unnamed:,} files left out, whose names are not printable text")
    if listing.outside:
        words.append(f"{listing.outside:,} links left out, which lead out of it")
    return ", ".join(words)
