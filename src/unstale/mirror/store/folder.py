"""A folder of copies. A file gets a temporary name, is synced, renamed, and its folder is synced."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from unstale.errors import InvalidInput, Trouble

from .copy_place import CopyPlace, Stored, names_of

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_RECENT_SECONDS = 3600.0
"""For which a name counts as new; what is older has long been synced by the system."""


class Folder:
    """A folder on a file system, for its owner alone; if it is ``shared``, for its group as well."""

    def __init__(self, folder: str | os.PathLike[str], *, shared: bool = False) -> None:
        self.folder, self.shared = Path(folder), shared
        self.address = f"the folder of copies {str(self.folder)!r}"
        self.is_near = True
        self._start = f"{self.folder}/"
        self._made: set[Path] = set()

    @property
    def scratch(self) -> Path:
        """A folder of this machine for what is on its way to be a copy."""
        path = self.folder / "scratch"
        if path not in self._made:
            with self.troubles():
                self._make(path)
        return path

    @property
    def own_files(self) -> tuple[Path, ...]:
        """Folders of this machine that must not be mirrored."""
        return (self.folder,)

    def path(self, digest: str) -> Path:
        """Return the file of a copy."""
        found = self.find(digest)
        if found is None:
            raise FileNotFoundError(f"there is no copy with the digest {digest!r}")
        return self.folder / found.name

    def find(self, digest: str) -> Stored | None:
        """Return the copy with a digest, if there is one."""
        for name in names_of(digest):  # as texts: paths take longer to make than to look for
            with suppress(OSError):
                found = os.stat(self._start + name)  # noqa: PTH116
                return Stored(name, found.st_size, found.st_mtime)
        return None

    def find_all(self, digests: list[str]) -> set[str]:
        """Return those digests of which there is a copy."""
        return {digest for digest in digests if self.find(digest) is not None}

    def put(self, name: str, content: bytes | Path) -> None:
        """Keep content under a name; a file of ``scratch`` is taken over."""
        temporary, target = self.scratch / f"put-{secrets.token_hex(8)}", self.folder / name
        try:
            if isinstance(content, Path):
                temporary = content
                _sync(content)
            else:
                with new_file(temporary, shared=self.shared) as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
            self._make(target.parent)
            temporary.replace(target)
            sync_folder(target.parent)
        except BaseException:
            unlink(temporary)
            raise

    def renew(self, stored: Stored, verify: Callable[[], None]) -> bool:
        """Make a copy that is there count as put now, if it is whole; False: put it again."""
        path = self.folder / stored.name
        try:
            verify()
            os.utime(path)
            if stored.time > time.time() - _RECENT_SECONDS:
                sync_folder(path.parent)  # the worker that put it may not have come to that yet
        except (OSError, InvalidInput):
            return False
        return True

    def open(self, name: str) -> BinaryIO:
        """Return what is stored under a name, as a stream."""
        return (self.folder / name).open("rb")

    def sign(self, name: str, seconds: float) -> str:  # noqa: ARG002
        """Refuse: a folder has no addresses."""
        raise InvalidInput(
            f"{self.address} has no addresses: read copies here, or let `unstale serve` give them out"
        )

    def delete(self, name: str) -> None:
        """Delete what is there under a name, if anything is."""
        (self.folder / name).unlink(missing_ok=True)

    def copy_from(self, other: CopyPlace, names: Sequence[str]) -> None:
        """Have what another folder has under these names, as the same files where the system can do that."""
        assert isinstance(other, Folder)  # noqa: S101  (cells are all in folders, or all in buckets)
        for name in names:
            source, temporary = other.folder / name, self.scratch / f"put-{secrets.token_hex(8)}"
            try:
                with suppress(FileNotFoundError):
                    try:
                        os.link(source, temporary)
                    except FileNotFoundError:
                        raise
                    except OSError:  # it is on another device, or there are no links
                        with source.open("rb") as content, new_file(temporary, shared=self.shared) as file:
                            shutil.copyfileobj(content, file)
                    self.put(name, temporary)
            finally:
                unlink(temporary)  # the name of a file that is there already stays

    def listed(self) -> Iterator[list[Stored]]:
        """Return all that is there, some at a time."""
        for folder in sorted(self.folder.iterdir()) if self.folder.is_dir() else []:
            if re.fullmatch(r"[0-9a-f]{2}", folder.name) is None:
                continue
            some = []
            with os.scandir(folder) as entries:
                for entry in entries:
                    with suppress(FileNotFoundError):
                        found = entry.stat()
                        some.append(Stored(f"{folder.name}/{entry.name}", found.st_size, found.st_mtime))
            yield some

    def listed_in(self, folder: str) -> Iterator[list[Stored]]:
        """Return what is there in a folder beside the copies, some at a time."""
        with suppress(FileNotFoundError), os.scandir(self.folder / folder) as entries:
            found = ((entry.name, entry.stat()) for entry in sorted(entries, key=lambda one: one.name))
            yield [Stored(f"{folder}/{name}", stat.st_size, stat.st_mtime) for name, stat in found]

    def note(self, name: str) -> str | None:
        """Return a short text that was kept beside the copies."""
        with suppress(FileNotFoundError, NotADirectoryError):
            return (self.folder / name).read_text("ascii", "replace")
        return None

    def keep_note(self, name: str, text: str) -> None:
        """Keep a short text beside the copies; a reader sees all of it or none meanwhile."""
        self._made.clear()  # the folder may be another now
        self.put(name, text.encode("ascii"))

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

    @contextmanager
    def troubles(self) -> Iterator[None]:
        """Turn errors of the place into one clear line."""
        try:
            yield
        except Trouble:
            raise
        except OSError as error:
            why = error.strerror or str(error)
            todo = "make room there" if error.errno in _NO_ROOM else "see to it that it can be used"
            raise Trouble(f"{self.address}: {why}; {todo}") from error


def unlink(path: Path) -> None:
    """Delete a file, if that can be done."""
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
    if os.name != "nt":  # there folders cannot be synced, and need not be
        _sync(folder)


def _sync(path: Path) -> None:
    number = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
