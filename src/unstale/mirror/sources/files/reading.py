"""Reading one file: check its status, read it in blocks, and notice if it changes meanwhile."""

from __future__ import annotations

import mimetypes
import os
import tempfile
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from unstale.mirror.source import Found, Json, Known, Terms
from unstale.mirror.sources.option_values import truth
from unstale.mirror.sources.threads import GivenUp

from .locations import FileLocation, FileStatus, LeadsOut, is_local, located

_BLOCK_BYTES = 1 << 20
_MAX_BYTES_IN_MEMORY = 1 << 20
"""A larger file goes to the scratch folder."""


class _TooLarge(Exception):  # noqa: N818  (its name says what is wrong)
    """The file is larger than ``max_size``."""


def storage_of(options: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return the options of the file system."""
    storage = options.get("storage", {})
    return storage if isinstance(storage, dict) else {}


def _location(known: Known) -> AbstractContextManager[FileLocation]:
    within = known.options.get("within")
    return located(known.key, storage_of(known.options), within if isinstance(within, str) else None)


def status_of(known: Known) -> FileStatus | Found:
    """Return the status of a file; a `Found` if the file need not or cannot be read."""
    with _location(known) as location:
        return _judged(location.status(), known)


def read_file(known: Known, terms: Terms, given_up: threading.Event) -> Found:
    """Read a file if its status differs; read it once more if it changes meanwhile."""
    with _location(known) as location:
        before = location.status()
        for _ in range(2):
            seen = _judged(before, known)
            if isinstance(seen, Found):
                return seen
            if seen.size is not None and seen.size > terms.max_size:
                return Found("failed", f"it has {seen.size:,} bytes; max_size is {terms.max_size:,}")
            try:
                found = _read(location, known.key, seen, terms, given_up)
            except _TooLarge:
                return Found("failed", f"it has more than {terms.max_size:,} bytes, which is max_size")
            after = location.status()
            whole = seen.size is None or found.traffic == seen.size
            if whole and (after.kind, after.size, after.tag) == (seen.kind, seen.size, seen.tag):
                return found
            discard(found)
            before = after
    return Found("failed", "it changes while it is being read")


def discard(found: Found) -> None:
    """Remove the file of a body that the mirror does not take over."""
    if isinstance(found.body, Path):
        found.body.unlink(missing_ok=True)


def failure(error: Exception, key: str) -> Found:
    """Return what an error of the file system means for an element."""
    if isinstance(error, LeadsOut):
        return Found("refused", str(error))
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        if is_local(key) and Path(key).is_symlink():
            return Found("failed", "it is a link that leads nowhere")
        words = str(error.strerror or "") or "there is no such file"
        return Found("gone", words) if isinstance(error, FileNotFoundError) else Found("failed", words)
    if isinstance(error, PermissionError):
        return Found("failed", "permission denied")
    words = getattr(error, "strerror", None) or str(error)
    kind = type(error).__name__
    return Found("failed", f"{kind}: {words}"[:300] if words else kind)


def _judged(status: FileStatus, known: Known) -> FileStatus | Found:
    """Return the status if the file must be read; otherwise what the poll found."""
    if status.kind == "folder":
        return Found("failed", "it is a folder; a key that ends in / mirrors the files in it")
    if status.kind == "other":
        return Found("refused", "it is a pipe, a socket or a device, not a file")
    trusted = truth("trust_mtime", known.options.get("trust_mtime", True)) and known.fingerprint is not None
    if trusted and status.same_as(known.validators):
        return Found("unchanged", "it looks as it did", modified=status.modified)
    return status


def _read(
    location: FileLocation, key: str, status: FileStatus, terms: Terms, given_up: threading.Event
) -> Found:
    """Read a file in blocks."""
    content = _FileBody(terms)
    try:
        with location.open() as stream:
            while block := stream.read(_BLOCK_BYTES):
                content.add(block)
                _go_on(given_up)
        body = content.body()
    except BaseException:
        content.discard()
        raise
    return Found(
        "changed",
        body=body,
        fingerprint=content.digest.hexdigest(),
        media_type=mimetypes.guess_type(key.partition("::")[0])[0] or "application/octet-stream",
        validators=status.validators,
        traffic=content.size,
        modified=status.modified,
    )


def _go_on(given_up: threading.Event) -> None:
    """Stop reading if the poll was given up."""
    if given_up.is_set():
        raise GivenUp("it was given up")


class _FileBody:
    """The body of a file: in memory while it is small, then in a file of the scratch folder."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._held = bytearray()
        self._file: BinaryIO | None = None
        self._path: Path | None = None
        self.digest, self.size = sha256(), 0

    def add(self, block: bytes) -> None:
        self.size += len(block)
        if self.size > self._terms.max_size:
            raise _TooLarge
        self.digest.update(block)
        if self._file is not None:
            self._file.write(block)
            return
        self._held += block
        if len(self._held) > _MAX_BYTES_IN_MEMORY:
            number, name = tempfile.mkstemp(prefix="file-", dir=self._terms.scratch)
            self._path, self._file = Path(name), os.fdopen(number, "wb")
            self._file.write(self._held)
            self._held.clear()

    def body(self) -> bytes | Path:
        if self._file is None or self._path is None:
            return bytes(self._held)
        self._file.close()
        return self._path

    def discard(self) -> None:
        if self._file is not None and self._path is not None:
            self._file.close()
            self._path.unlink(missing_ok=True)
