"""Listing the files of a folder, and of all folders in it."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from unstale.errors import InvalidInput
from unstale.mirror.source import Json

from .locations import FileStatus, is_local, is_within, local_status, opened, remote_status

MAX_FILES = 200_000
"""A folder with more files is refused."""


@dataclass(frozen=True, slots=True)
class TreeFile:
    """A file of a folder."""

    name: str
    """Its path within the folder, with slashes."""
    status: FileStatus


@dataclass(frozen=True, slots=True)
class TreeListing:
    """The files of a folder, by name."""

    files: tuple[TreeFile, ...]
    unreadable: int = 0
    """How many folders in it could not be listed."""
    unnamed: int = 0
    """How many files have names that cannot be keys: not UTF-8, or with line breaks."""
    outside: int = 0
    """How many are links that lead out of the folder."""


class OwnFiles:
    """The files of the mirror itself, which it must not mirror: each poll would change them."""

    def __init__(self, paths: Iterable[Path] = ()) -> None:
        self._paths = frozenset(os.path.realpath(path) for path in paths)

    def __contains__(self, path: str) -> bool:
        """Tell whether a path, with its links followed, is one of them or within one."""
        if not self._paths:
            return False
        real = os.path.realpath(path)
        return real in self._paths or any(map(self._paths.__contains__, map(str, Path(real).parents)))

    def left_out(self, entries: Iterable[os.DirEntry[str]], folder: str) -> Iterator[os.DirEntry[str]]:
        """Yield the entries of a folder, whose path has no links, that are not files of the mirror."""
        if not self._paths:
            yield from entries
            return
        for entry in entries:
            path = f"{folder}{entry.name}"
            if not (path in self if entry.is_symlink() else path.replace("/", os.sep) in self._paths):
                yield entry


@lru_cache(maxsize=8)
def own_files(paths: tuple[Path, ...]) -> OwnFiles:
    """Return the files of a mirror; cached, so that their links are followed once."""
    return OwnFiles(paths)


def list_tree(
    key: str,
    storage: Mapping[str, Json],
    given_up: threading.Event,
    own: OwnFiles | None = None,
    *,
    follow: bool = False,
) -> TreeListing:
    """List the files of a folder, without those of the mirror itself.

    Parameters
    ----------
    key
        The key of the folder.
    storage
        Options of the file system.
    given_up
        Is set when the poll is given up; then the listing ends early.
    own
        The files of the mirror itself.
    follow
        Whether links to files count that lead out of the folder: who can write to the folder can make a
        link to any file that the mirror can read.

    Raises
    ------
    OSError
        If the folder itself cannot be listed.
    InvalidInput
        If it has too many files.
    """
    unreadable: list[str] = []
    outside: list[str] = []
    files: list[TreeFile] = []
    unnamed = 0
    listing = (
        _local(key, unreadable, own or OwnFiles(), None if follow else outside)
        if is_local(key)
        else _remote(key, storage)
    )
    for name, status in listing:
        if given_up.is_set():
            break
        if not name.isprintable():
            unnamed += 1
            continue
        files.append(TreeFile(name, status))
        if len(files) > MAX_FILES:
            raise InvalidInput(f"it has more than {MAX_FILES:,} files; add the folders in it one by one")
    files.sort(key=lambda listed: listed.name)
    return TreeListing(tuple(files), len(unreadable), unnamed, len(outside))


def child_key(tree: str, name: str) -> str:
    """Return the key of a file of a folder.

    >>> child_key("/srv/data/", "a/b.csv"), child_key("zip://data/::/srv/x.zip", "a.csv")
    ('/srv/data/a/b.csv', 'zip://data/a.csv::/srv/x.zip')
    """
    head, chained, tail = tree.partition("::")
    if is_local(tree):
        name = name.replace("/", os.sep)
    return f"{head}{name}{chained}{tail}"


def _local(
    root: str, unreadable: list[str], own: OwnFiles, outside: list[str] | None
) -> Iterator[tuple[str, FileStatus]]:
    """Yield regular files; links to folders are not followed, since they may form circles.

    Links that lead out of the folder go to ``outside`` instead, unless that is None.
    """
    if not stat.S_ISDIR(Path(root).stat().st_mode):
        raise NotADirectoryError("it is not a folder")
    prefix = os.path.realpath(root).rstrip(os.sep) + os.sep
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(Path(root, folder)) as entries:
                for entry in own.left_out(entries, f"{prefix}{folder}"):
                    name = f"{folder}{entry.name}"
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(f"{name}/")
                    elif outside is not None and _leads_out(entry, root):
                        outside.append(name)
                    elif (status := _entry_status(entry)) is not None:
                        yield name, status
        except OSError as error:
            if not folder:
                raise  # the folder itself is gone
            if not isinstance(error, FileNotFoundError):  # a folder in it may vanish meanwhile
                unreadable.append(folder)


def _leads_out(entry: os.DirEntry[str], root: str) -> bool:
    """Tell whether an entry is a link to a file that leads out of the folder."""
    try:
        return entry.is_symlink() and entry.is_file() and not is_within(entry.path, root)
    except OSError:  # it leads to itself
        return False


def _entry_status(entry: os.DirEntry[str]) -> FileStatus | None:
    """Return the status of a regular file; None for anything else."""
    try:
        status = local_status(entry.stat())
    except OSError:  # a broken link
        return None
    return status if status.kind == "file" else None


def _remote(key: str, storage: Mapping[str, Json]) -> Iterator[tuple[str, FileStatus]]:
    fs, path = opened(key, storage)
    root = path.rstrip("/")
    if root and not fs.isdir(root):
        if fs.exists(root):
            raise NotADirectoryError("it is not a folder")
        raise FileNotFoundError(root)
    for name, info in fs.find(path, detail=True).items():
        status = remote_status(info)
        relative = str(name).removeprefix(root).lstrip("/")
        if status.kind == "file" and relative:
            yield relative, status
