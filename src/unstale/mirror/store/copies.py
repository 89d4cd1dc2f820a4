"""Copies: the content of versions, named by their digests; step 5 of a poll.

A copy is named by the SHA-256 of its content and never written again. It is compressed (``.zst``), unless its
content is compressed already (``.raw``). It is in a folder or in a bucket (`CopyPlace`), and whole there when
`Copies.put` returns: only then may a version name it. So a crash leaves at most copies that nothing names,
which `Copies.sweep` deletes.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, cast

import zstandard

from unstale.errors import InvalidInput

from .bucket import Bucket
from .copy_place import PACKED, PLAIN, CopyPlace, SignedLink, Stored, names_of
from .folder import Folder, new_file, unlink

BLOCK_BYTES = 1 << 20
"""That are read at a time of content that is not kept in memory."""
IDENTITY = "mirror-id"
"""The note that says to which mirror a place belongs: workers on several machines compare it."""
_DIGEST = re.compile(r"[0-9a-f]{64}").fullmatch
_COMPRESSED_STARTS = (
    b"PAR1", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PK\x03\x04", b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"BZh",
    b"\xfd7zXZ", b"7z\xbc\xaf", b"wOF2", b"OggS", b"\x1aE\xdf\xa3",
)  # fmt: skip
"""How content begins that is compressed already."""
_RECENT_SECONDS = 3600.0
"""For which a copy counts as put just now."""
_LONGEST_LINK_SECONDS = 7 * 86400.0
"""For which providers sign an address, at most."""
_MOST_SEEN_WHOLE = 20_000
"""Copies that are remembered as seen to be whole, at most."""
_LARGEST_SHARE = 0.95
"""Compressed content that is not smaller than this share is stored as it is."""


class Copies:
    """The copies in a folder, or in a bucket; files of this machine are for their owner, or for a group.

    >>> import tempfile
    >>> copies = Copies(Path(tempfile.mkdtemp()) / "copies")
    >>> digest, size = copies.put(b"some content")
    >>> copies.read(digest), size
    (b'some content', 12)
    """

    def __init__(self, where: str | os.PathLike[str], *, shared: bool = False) -> None:
        address = os.fspath(where)
        self.place: CopyPlace = Bucket(address) if "://" in address else Folder(address, shared=shared)
        self.shared = shared
        self._local = threading.local()
        self._sure: set[str] = set()
        """Digests of copies that this process has put, or seen to be whole."""
        self.written = 0
        """How many copies were written: those that are there already are not written again."""

    @property
    def scratch(self) -> Path:
        """A folder for what is on its way to be a copy."""
        return self.place.scratch

    def discard(self, body: bytes | Path) -> None:
        """Drop content that is not wanted after all; a file in ``scratch`` is deleted."""
        if isinstance(body, Path) and body.resolve().parent == self.scratch.resolve():
            unlink(body)

    def empty_scratch(self, older_than: float = 0.0) -> None:
        """Delete what crashes left there, if it has not been written to for so many seconds."""
        with self.place.troubles():
            before = time.time() - older_than
            for path in self.scratch.iterdir():
                with suppress(FileNotFoundError, IsADirectoryError, PermissionError):
                    if path.stat().st_mtime <= before:
                        path.unlink()

    def identity(self) -> str | None:
        """Return to which mirror the place belongs; None if that is not said."""
        with self.place.troubles():
            return (self.place.note(IDENTITY) or "").strip()[:100] or None

    def identify(self, identity: str) -> None:
        """Say to which mirror it belongs."""
        with self.place.troubles():
            self.place.keep_note(IDENTITY, f"{identity}\n")

    # --- writing

    def take_from(self, other: Copies, digests: Sequence[str]) -> None:
        """Have copies that another place of this kind has; those that it has not are left out."""
        missing = sorted(set(digests) - self.have(digests))
        found = [one.name for digest in missing if (one := other.place.find(digest)) is not None]
        with self.place.troubles():
            self.place.copy_from(other.place, found)

    def put(self, body: bytes | Path, *, doubt: bool = False) -> tuple[str, int]:
        """Keep content; return its digest and size. A file in ``scratch`` is taken over.

        With ``doubt``, a copy that is there already is read again, and replaced if it is damaged, even if
        this process has seen it whole a moment ago.
        """
        with self.place.troubles():
            if isinstance(body, Path):
                return self._put_file(body, doubt=doubt)
            return self._put_bytes(bytes(body), doubt=doubt)

    def _put_bytes(self, body: bytes, *, doubt: bool) -> tuple[str, int]:
        digest = hashlib.sha256(body).hexdigest()
        there = self._looked_for(digest)
        if not self._is_healthy(digest, there, doubt=doubt):
            packed = body if body.startswith(_COMPRESSED_STARTS) else self._compressor().compress(body)
            if len(packed) < _LARGEST_SHARE * len(body):
                self._settle(digest, PACKED, packed, there)
            else:
                self._settle(digest, PLAIN, body, there)
        return digest, len(body)

    def _put_file(self, path: Path, *, doubt: bool) -> tuple[str, int]:
        ours = path.resolve().parent == self.scratch.resolve()
        temporary = self.scratch / f"put-{secrets.token_hex(8)}"
        try:
            with path.open("rb") as source, new_file(temporary, shared=self.shared) as target:
                start = source.read(BLOCK_BYTES)
                packed = start if start.startswith(_COMPRESSED_STARTS) else self._compressor().compress(start)
                suffix = PACKED if len(packed) < _LARGEST_SHARE * len(start) else PLAIN
                sha, size = hashlib.sha256(), 0
                compressor = self._compressor().compressobj()
                block = start
                while block:
                    sha.update(block)
                    size += len(block)
                    target.write(compressor.compress(block) if suffix == PACKED else block)
                    block = source.read(BLOCK_BYTES)
                if suffix == PACKED:
                    target.write(compressor.flush())
            digest = sha.hexdigest()
            there = self._looked_for(digest)
            if not self._is_healthy(digest, there, doubt=doubt):
                self._settle(digest, suffix, temporary, there)
        finally:
            unlink(temporary)
        if ours:
            unlink(path)
        return digest, size

    def _looked_for(self, digest: str) -> Stored | None:
        """Return what there is of a copy that is to be put, if that matters."""
        return self._find(digest) if self.place.is_near or digest in self._sure else None

    def _settle(self, digest: str, suffix: str, content: bytes | Path, there: Stored | None) -> None:
        """Put content in its place, for good."""
        name = names_of(digest)[suffix == PLAIN]
        self.place.put(name, content)
        if there is not None and there.name != name:
            self.place.delete(there.name)  # a damaged one
        self._remember(digest)
        self.written += 1

    def _is_healthy(self, digest: str, there: Stored | None, *, doubt: bool) -> bool:
        """Tell whether a copy is there, whole; if so, it counts as put now."""
        if there is None:
            return False
        recent = there.time > time.time() - _RECENT_SECONDS
        if recent and digest in self._sure and not doubt:
            return True  # sources that cannot say "unchanged" come here at each poll
        if not self.place.renew(there, lambda: self._verify(there, digest)):
            return False
        self._remember(digest)
        return True

    def _remember(self, digest: str) -> None:
        """Note that a copy has been seen to be whole."""
        if len(self._sure) >= _MOST_SEEN_WHOLE:
            self._sure.clear()
        self._sure.add(digest)

    def _compressor(self) -> zstandard.ZstdCompressor:
        """Return one for this thread."""
        if not hasattr(self._local, "compressor"):
            self._local.compressor = zstandard.ZstdCompressor(level=3)
        return cast("zstandard.ZstdCompressor", self._local.compressor)

    # --- reading

    def has(self, digest: str) -> bool:
        """Tell whether there is such a copy."""
        return self._find(digest) is not None

    def have(self, digests: Iterable[str]) -> set[str]:
        """Return those digests of which there is a copy."""
        return self.place.find_all(list(digests))

    def stored(self, digest: str) -> Stored:
        """Return what there is of a copy."""
        found = self._find(digest)
        if found is None:
            raise InvalidInput(
                f"there is no copy with the digest {digest!r} in {self.place.address}; if that was moved, "
                "say where it is: copies = ... in mirror.toml"
            )
        return found

    def open(self, digest: str) -> BinaryIO:
        """Return the content of a copy as a stream; it is not checked against the digest."""
        found = self.stored(digest)
        with self.place.troubles():
            file = self.place.open(found.name)
        if not found.is_packed:
            return file
        reader = zstandard.ZstdDecompressor().stream_reader(file, closefd=True)
        return cast("BinaryIO", reader)

    def read(self, digest: str, size: int | None = None) -> bytes:
        """Return the content of a copy, checked against its digest, and its size if that is known.

        What somebody else has put in its place is compressed, too: a megabyte of it may be gigabytes.
        """
        found, blocks, length = self.stored(digest), [], 0
        with self.place.troubles():
            for block in self._blocks(found):
                blocks.append(block)
                length += len(block)
                if size is not None and length > size:
                    raise self._damaged(found)
        body = b"".join(blocks)
        if hashlib.sha256(body).hexdigest() != digest:
            raise self._damaged(found)
        return body

    def link(self, digest: str, seconds: float = 600.0) -> SignedLink:
        """Return an address in the bucket from which anybody can get a copy for so many seconds."""
        if not 1.0 <= seconds <= _LONGEST_LINK_SECONDS:
            raise InvalidInput(f"a link must be for 1 second to 7 days; it is for {seconds!r} seconds")
        found = self.stored(digest)
        return SignedLink(self.place.sign(found.name, seconds), found.is_packed)

    def size(self, digest: str) -> int:
        """Return how many bytes a copy takes where it is; 0 if there is none."""
        found = self._find(digest)
        return 0 if found is None else found.size

    def is_damaged(self, digest: str) -> bool:
        """Tell whether a copy that is there does not hold what its name says; it is read whole."""
        found = self._find(digest)
        if found is None:
            return False
        try:
            with self.place.troubles(), suppress(FileNotFoundError):
                self._verify(found, digest)
        except InvalidInput:
            return True
        return False

    def check(self, digests: Iterable[str]) -> list[str]:
        """Return what is wrong with copies, in words; nothing if all are there and whole."""
        wrong = []
        for digest in digests:
            try:
                found = self.stored(digest)
                with self.place.troubles():
                    self._verify(found, digest)
            except InvalidInput as error:
                wrong.append(str(error))
        return wrong

    def _blocks(self, found: Stored) -> Iterator[bytes]:
        """Read the content of a copy, block by block."""
        with self.place.open(found.name) as file:
            if not found.is_packed:
                while block := file.read(BLOCK_BYTES):
                    yield block
                return
            try:
                with zstandard.ZstdDecompressor().stream_reader(file) as reader:
                    while block := reader.read(BLOCK_BYTES):
                        yield block
            except zstandard.ZstdError:
                raise self._damaged(found) from None

    def _verify(self, found: Stored, digest: str) -> None:
        """Complain about a copy that does not hold what its name says."""
        sha = hashlib.sha256()
        for block in self._blocks(found):
            sha.update(block)
        if sha.hexdigest() != digest:
            raise self._damaged(found)

    def _damaged(self, found: Stored) -> InvalidInput:
        self._sure.discard(_digest_of(found))
        return InvalidInput(
            f"the copy {found.name!r} in {self.place.address} is damaged: its content has another digest; "
            "restore it from a back-up, or run `unstale doctor --deep`: then the next poll brings it again, "
            "if it is the latest version"
        )

    # --- deleting

    def delete(self, digests: Iterable[str]) -> int:
        """Delete copies; return how many there were.

        Ask `Transaction.referred` in the same transaction, and after the one that deleted the versions:
        until it ends nobody can record a version that needs them.
        """
        deleted = 0
        with self.place.troubles():
            for digest in digests:
                while (found := self._find(digest)) is not None:
                    self.place.delete(found.name)
                    deleted += 1
        return deleted

    def digests(self, older_than: float = 0.0) -> Iterator[list[str]]:
        """Return the digests of all copies put before so many seconds, some at a time."""
        before = time.time() - older_than
        with self.place.troubles():
            for some in self.place.listed():
                found = {_digest_of(one) for one in some if one.time <= before}
                if there := sorted(filter(_DIGEST, found)):
                    yield there

    def sweep(self, referred: Callable[[Sequence[str]], set[str]], older_than: float) -> int:
        """Delete copies that nothing refers to, put before so many seconds; return how many."""
        return sum(self.delete(set(some) - referred(some)) for some in self.digests(older_than))

    def _find(self, digest: str) -> Stored | None:
        """Return what there is of a copy."""
        if _DIGEST(digest) is None:
            raise InvalidInput(f"a digest must be 64 hexadecimal digits; it is {digest!r}")
        return self.place.find(digest)


def _digest_of(stored: Stored) -> str:
    """Return the digest in the name of a copy; "" if it is none.

    >>> _digest_of(Stored("ab/ab12.zst", 5, 0.0)), _digest_of(Stored("mirror-id", 5, 0.0))
    ('ab12', '')
    """
    folder, _, name = stored.name.rpartition("/")
    digest = name.partition(".")[0]
    return digest if folder == digest[:2] else ""
