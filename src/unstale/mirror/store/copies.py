"""Copies: the content of versions, as files named by their digests; step 5 of a poll.

A copy is named by the SHA-256 of its content and never written again. It is compressed (``.zst``), unless its
content is compressed already (``.raw``). It comes to be under a temporary name, is synced, renamed, and its
folder is synced: only then does `Copies.put` return, and a version may name it. So a crash leaves at most
files that nothing names, which `Copies.sweep` deletes.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

import zstandard

from unstale.errors import InvalidInput, Trouble

BLOCK_BYTES = 1 << 20
"""That are read at a time of content that is not kept in memory."""
_DIGEST = re.compile(r"[0-9a-f]{64}").fullmatch
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_COMPRESSED_STARTS = (
    b"PAR1", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PK\x03\x04", b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"BZh",
    b"\xfd7zXZ", b"7z\xbc\xaf", b"wOF2", b"OggS", b"\x1aE\xdf\xa3",
)  # fmt: skip
"""How content begins that is compressed already."""
_SUFFIXES = (".zst", ".raw")
_RECENT_SECONDS = 3600.0
"""For which a copy counts as put just now; what is older has long been synced by the system."""
_MOST_SEEN_WHOLE = 20_000
"""Copies that are remembered as seen to be whole, at most."""
_LARGEST_SHARE = 0.95
"""Compressed content that is not smaller than this share is stored as it is."""


class Copies:
    """A folder of copies, for its owner alone; if it is ``shared``, for its group as well.

    >>> import tempfile
    >>> copies = Copies(Path(tempfile.mkdtemp()) / "copies")
    >>> digest, size = copies.put(b"some content")
    >>> copies.read(digest), size
    (b'some content', 12)
    """

    def __init__(self, folder: str | os.PathLike[str], *, shared: bool = False) -> None:
        self.folder, self.shared = Path(folder), shared
        self._start = f"{self.folder}/"
        self._local = threading.local()
        self._made: set[Path] = set()
        self._sure: set[str] = set()
        """Digests of copies that this process has put, or seen to be whole."""
        self.written = 0
        """How many copies were written: those that are there already are not written again."""

    @property
    def scratch(self) -> Path:
        """A folder on the same file system, for what is on its way to be a copy."""
        path = self.folder / "scratch"
        if path not in self._made:
            with self._troubles():
                self._make(path)
        return path

    def discard(self, body: bytes | Path) -> None:
        """Drop content that is not wanted after all; a file in ``scratch`` is deleted."""
        if isinstance(body, Path) and body.resolve().parent == self.scratch.resolve():
            _unlink(body)

    def empty_scratch(self, older_than: float = 0.0) -> None:
        """Delete what crashes left there, if it has not been written to for so many seconds."""
        with self._troubles():
            before = time.time() - older_than
            for path in self.scratch.iterdir():
                with suppress(FileNotFoundError, IsADirectoryError, PermissionError):
                    if path.stat().st_mtime <= before:
                        path.unlink()

    # --- whose folder it is

    @property
    def identity_file(self) -> Path:
        """The file that says to which mirror the folder belongs: workers on several machines compare it."""
        return self.folder / "mirror-id"

    def identity(self) -> str | None:
        """Return what that file says; None if there is none."""
        with self._troubles(), suppress(FileNotFoundError, NotADirectoryError):
            return self.identity_file.read_text("ascii", "replace").strip()[:100] or None
        return None

    def identify(self, identity: str) -> None:
        """Write that file; a reader sees all of it or none meanwhile."""
        self._made.clear()  # the folder may be another now
        with self._troubles():
            temporary = self.scratch / f"put-{secrets.token_hex(8)}"
            with new_file(temporary, shared=self.shared) as file:
                file.write(f"{identity}\n".encode())
                self._sync(file)
            temporary.replace(self.identity_file)
            sync_folder(self.folder)

    # --- writing

    def put(self, body: bytes | Path, *, doubt: bool = False) -> tuple[str, int]:
        """Keep content; return its digest and size. A file in ``scratch`` is taken over.

        With ``doubt``, a copy that is there already is read again, and replaced if it is damaged, even if
        this process has seen it whole a moment ago.
        """
        with self._troubles():
            if isinstance(body, Path):
                return self._put_file(body, doubt=doubt)
            return self._put_bytes(bytes(body), doubt=doubt)

    def _put_bytes(self, body: bytes, *, doubt: bool) -> tuple[str, int]:
        digest = hashlib.sha256(body).hexdigest()
        if self._healthy(digest, doubt=doubt):
            return digest, len(body)
        packed = body if body.startswith(_COMPRESSED_STARTS) else self._compressor().compress(body)
        suffix = ".zst" if len(packed) < _LARGEST_SHARE * len(body) else ".raw"
        temporary = self.scratch / f"put-{secrets.token_hex(8)}"
        try:
            with new_file(temporary, shared=self.shared) as file:
                file.write(packed if suffix == ".zst" else body)
                self._sync(file)
            self._settle(temporary, digest, suffix)
        except BaseException:
            _unlink(temporary)
            raise
        return digest, len(body)

    def _put_file(self, path: Path, *, doubt: bool) -> tuple[str, int]:
        ours = path.resolve().parent == self.scratch.resolve()
        temporary = self.scratch / f"put-{secrets.token_hex(8)}"
        try:
            with path.open("rb") as source, new_file(temporary, shared=self.shared) as target:
                start = source.read(BLOCK_BYTES)
                packed = start if start.startswith(_COMPRESSED_STARTS) else self._compressor().compress(start)
                suffix = ".zst" if len(packed) < _LARGEST_SHARE * len(start) else ".raw"
                sha, size = hashlib.sha256(), 0
                compressor = self._compressor().compressobj()
                block = start
                while block:
                    sha.update(block)
                    size += len(block)
                    target.write(compressor.compress(block) if suffix == ".zst" else block)
                    block = source.read(BLOCK_BYTES)
                if suffix == ".zst":
                    target.write(compressor.flush())
                digest = sha.hexdigest()
                healthy = self._healthy(digest, doubt=doubt)
                if not healthy:
                    self._sync(target)
            if healthy:
                _unlink(temporary)
            else:
                self._settle(temporary, digest, suffix)
        except BaseException:
            _unlink(temporary)
            raise
        if ours:
            _unlink(path)
        return digest, size

    def _settle(self, temporary: Path, digest: str, suffix: str) -> None:
        """Give a file that is written and synced its name, for good."""
        target = self._place(digest, suffix)
        self._make(target.parent)
        temporary.replace(target)
        other = self._place(digest, ".raw" if suffix == ".zst" else ".zst")
        _unlink(other)  # a damaged one, or there is none
        sync_folder(target.parent)
        self._remember(digest)
        self.written += 1

    def _healthy(self, digest: str, *, doubt: bool) -> bool:
        """Tell whether there is such a copy, whole; if so, it counts as put now."""
        path = self._find(digest)
        if path is None:
            return False
        try:
            recent = path.stat().st_mtime > time.time() - _RECENT_SECONDS
            if (
                recent and digest in self._sure and not doubt
            ):  # sources that cannot say "unchanged" come here at each poll
                return True
            self._verify(path, digest)
            os.utime(path)
            if recent:
                sync_folder(path.parent)  # the worker that put it may not have come to that yet
        except (OSError, InvalidInput):
            return False
        self._remember(digest)
        return True

    def _remember(self, digest: str) -> None:
        """Note that a copy has been seen to be whole."""
        if len(self._sure) >= _MOST_SEEN_WHOLE:
            self._sure.clear()
        self._sure.add(digest)

    def _make(self, folder: Path) -> None:
        """Make a folder that survives a crash."""
        if folder in self._made:
            return
        if not folder.is_dir():
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            for one in dict.fromkeys((self.folder, folder)):
                with suppress(FileExistsError):
                    one.mkdir(mode=0o700)
                    if self.shared:
                        one.chmod(0o2770)  # whose files belong to its group, not to that of who writes
            sync_folder(self.folder)
            sync_folder(self.folder.parent)
        self._made.add(folder)

    @staticmethod
    def _sync(file: BinaryIO) -> None:
        file.flush()
        os.fsync(file.fileno())

    def _compressor(self) -> zstandard.ZstdCompressor:
        """Return one for this thread."""
        if not hasattr(self._local, "compressor"):
            self._local.compressor = zstandard.ZstdCompressor(level=3)
        return cast("zstandard.ZstdCompressor", self._local.compressor)

    # --- reading

    def has(self, digest: str) -> bool:
        """Tell whether there is such a copy."""
        return self._find(digest) is not None

    def path(self, digest: str) -> Path:
        """Return the file of a copy."""
        path = self._find(digest)
        if path is None:
            raise InvalidInput(
                f"there is no copy with the digest {digest!r} in {str(self.folder)!r}; if that folder was "
                "moved, say where it is: copies = ... in mirror.toml"
            )
        return path

    def open(self, digest: str) -> BinaryIO:
        """Return the content of a copy as a stream; it is not checked against the digest."""
        path = self.path(digest)
        with self._troubles():
            file = path.open("rb")
        if path.suffix == ".raw":
            return file
        reader = zstandard.ZstdDecompressor().stream_reader(file, closefd=True)
        return cast("BinaryIO", reader)

    def read(self, digest: str) -> bytes:
        """Return the content of a copy, checked against its digest."""
        path = self.path(digest)
        with self._troubles():
            body = b"".join(self._blocks(path))
        if hashlib.sha256(body).hexdigest() != digest:
            raise self._damaged(path)
        return body

    def size(self, digest: str) -> int:
        """Return how many bytes the file of a copy has; 0 if there is none."""
        path = self._find(digest)
        with self._troubles(), suppress(FileNotFoundError):
            return 0 if path is None else path.stat().st_size
        return 0

    def is_damaged(self, digest: str) -> bool:
        """Tell whether a copy that is there does not hold what its name says; it is read whole."""
        path = self._find(digest)
        if path is None:
            return False
        try:
            with self._troubles(), suppress(FileNotFoundError):
                self._verify(path, digest)
        except InvalidInput:
            return True
        return False

    def check(self, digests: Iterable[str]) -> list[str]:
        """Return what is wrong with copies, in words; nothing if all are there and whole."""
        wrong = []
        for digest in digests:
            try:
                path = self.path(digest)
                with self._troubles():
                    self._verify(path, digest)
            except InvalidInput as error:
                wrong.append(str(error))
        return wrong

    def _blocks(self, path: Path) -> Iterator[bytes]:
        """Read the content of a file, block by block."""
        with path.open("rb") as file:
            if path.suffix == ".raw":
                while block := file.read(BLOCK_BYTES):
                    yield block
                return
            try:
                with zstandard.ZstdDecompressor().stream_reader(file) as reader:
                    while block := reader.read(BLOCK_BYTES):
                        yield block
            except zstandard.ZstdError:
                raise self._damaged(path) from None

    def _verify(self, path: Path, digest: str) -> None:
        """Complain about a file that does not hold what its name says."""
        sha = hashlib.sha256()
        for block in self._blocks(path):
            sha.update(block)
        if sha.hexdigest() != digest:
            raise self._damaged(path)

    def _damaged(self, path: Path) -> InvalidInput:
        self._sure.discard(path.stem)
        return InvalidInput(
            f"the copy {str(path)!r} is damaged: its content has another digest; restore it from a back-up, "
            "or run `unstale doctor --deep`: then the next poll brings it again, if it is the latest version"
        )

    # --- deleting

    def delete(self, digests: Iterable[str]) -> int:
        """Delete copies; return how many there were.

        Ask `Transaction.referred` in the same transaction, and after the one that deleted the versions:
        until it ends nobody can record a version that needs them.
        """
        deleted = 0
        with self._troubles():
            for digest in digests:
                while (path := self._find(digest)) is not None:
                    path.unlink(missing_ok=True)
                    deleted += 1
        return deleted

    def digests(self, older_than: float = 0.0) -> Iterator[list[str]]:
        """Return the digests of all copies put before so many seconds, folder by folder."""
        before = time.time() - older_than
        with self._troubles():
            for folder in sorted(self.folder.iterdir()) if self.folder.is_dir() else []:
                if re.fullmatch(r"[0-9a-f]{2}", folder.name) is None:
                    continue
                found = set()
                with os.scandir(folder) as entries:
                    for entry in entries:
                        digest = entry.name.partition(".")[0]
                        with suppress(FileNotFoundError):
                            if _DIGEST(digest) and entry.stat().st_mtime <= before:
                                found.add(digest)
                if found:
                    yield sorted(found)

    def sweep(self, referred: Callable[[Sequence[str]], set[str]], older_than: float) -> int:
        """Delete copies that nothing refers to, put before so many seconds; return how many."""
        return sum(self.delete(set(some) - referred(some)) for some in self.digests(older_than))

    # --- names and troubles

    def _place(self, digest: str, suffix: str) -> Path:
        return self.folder / digest[:2] / (digest + suffix)

    def _find(self, digest: str) -> Path | None:
        """Return the file of a copy, if there is one."""
        if _DIGEST(digest) is None:
            raise InvalidInput(f"a digest must be 64 hexadecimal digits; it is {digest!r}")
        for suffix in _SUFFIXES:  # as texts: paths take longer to make than to look for
            if os.path.exists(place := f"{self._start}{digest[:2]}/{digest}{suffix}"):  # noqa: PTH110
                return Path(place)
        return None

    @contextmanager
    def _troubles(self) -> Iterator[None]:
        """Turn errors of the system into one clear line."""
        try:
            yield
        except Trouble:
            raise
        except OSError as error:
            why = error.strerror or str(error)
            todo = "make room there" if error.errno in _NO_ROOM else "see to it that it can be used"
            raise Trouble(f"the folder of copies {str(self.folder)!r}: {why}; {todo}") from error


def _unlink(path: Path) -> None:
    with suppress(OSError):
        path.unlink(missing_ok=True)


def new_file(path: Path, *, shared: bool) -> BinaryIO:
    """Make a file that only its owner can read, or its group as well if it is shared."""
    number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    if shared:
        os.chmod(path, 0o660)  # noqa: PTH101  # nosec B103  (shared = "group", whatever the umask is)
    return os.fdopen(number, "wb")


def sync_folder(folder: Path) -> None:
    """Make names in a folder survive a crash."""
    if os.name == "nt":  # there folders cannot be synced, and need not be
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
