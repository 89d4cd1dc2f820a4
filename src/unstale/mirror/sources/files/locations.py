"""Files on this machine, or wherever fsspec reaches, and their status before they are read.

The status costs little: size, time, and a tag that changes with the content (an ETag, a checksum). On this
machine nothing is opened that could block, such as a named pipe or a device.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol

from unstale.mirror.source import Json

_TAG_NAMES = (
    "ETag", "etag", "e_tag", "md5Hash", "md5", "content_md5", "contentMd5", "crc32c", "CRC", "checksum",
    "sha", "sha256", "generation", "version_id", "VersionId", "hash", "content_hash",
)  # fmt: skip
"""Names that file systems give to a tag that changes with the content."""
_TIME_NAMES = (
    "mtime", "LastModified", "last_modified", "lastModified", "updated", "modified", "modify",
    "ModificationTime", "modificationTime", "time_modified", "date_time", "created",
)  # fmt: skip
"""Names that file systems give to the time of the last change."""
_MTIME_SECONDS = 2.0
"""Resolution of the time of modification: within it a file can change twice and keep the same time."""
_CTIME_SECONDS = 0.1
"""Resolution of the time of change that the system keeps."""


@dataclass(frozen=True, slots=True)
class FileStatus:
    """What is known of a file without reading it."""

    kind: Literal["file", "folder", "other"]
    size: int | None = None
    modified: float | None = None
    tag: str = ""
    """Differs if the content differs; empty if the file system has no such tag."""
    settled: bool = True
    """Whether a change from now on will change the tag for sure."""

    @property
    def validators(self) -> dict[str, Json]:
        """The validators for the next poll."""
        return {"size": self.size, "tag": self.tag, "settled": self.settled}

    def same_as(self, validators: Mapping[str, Json]) -> bool:
        """Tell whether the file is certainly the same as at the poll that gave the validators."""
        if not self.tag or validators.get("settled") is not True:
            return False
        return validators.get("tag") == self.tag and validators.get("size") == self.size


class FileLocation(Protocol):
    """A file on this machine, or somewhere else."""

    def status(self) -> FileStatus:
        """Return the status without reading the file; raise what the system raises."""

    def open(self) -> BinaryIO:
        """Open the file for reading."""


class LeadsOut(OSError):  # noqa: N818  (its name says what is wrong)
    """A link leads out of the folder whose files are mirrored."""


def is_within(path: str, folder: str) -> bool:
    """Tell whether a path, with all its links followed, is within a folder, with its links followed."""
    real = os.path.realpath(folder).rstrip(os.sep) + os.sep
    return os.path.realpath(path).startswith(real)


class LocalFile:
    """A file on this machine; if it was found in a folder, no link may lead out of that folder."""

    def __init__(self, path: str, within: str | None = None) -> None:
        self.path, self._within = path, within

    def _check(self, path: str) -> None:
        if self._within is not None and not is_within(path, self._within):
            raise LeadsOut(f"it is a link that leads out of {self._within}; follow = true follows such links")

    def status(self) -> FileStatus:
        """Return the status without opening the file."""
        self._check(self.path)
        return local_status(Path(self.path).stat())

    def open(self) -> BinaryIO:
        """Open the file; this does not block even if the file has become a pipe."""
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        stream = os.fdopen(os.open(self.path, flags), "rb")
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            stream.close()
            raise OSError("it is not a regular file any more")
        opened = f"/proc/self/fd/{stream.fileno()}"  # where there is one, it tells what really was opened
        try:
            self._check(opened if Path(opened).exists() else self.path)
        except LeadsOut:
            stream.close()
            raise
        return stream


class RemoteFile:
    """A file that fsspec reaches."""

    def __init__(self, url: str, storage: Mapping[str, Json]) -> None:
        self.fs, self.path = opened(url, storage)

    def status(self) -> FileStatus:
        """Ask the file system for the status."""
        found = remote_status(self.fs.info(self.path))
        if found.modified is not None or found.tag or found.kind != "file":
            return found
        try:
            when = seconds(self.fs.modified(self.path))
        except (NotImplementedError, AttributeError):
            return found
        return _timed(found.size, when)

    def open(self) -> BinaryIO:
        """Open the file."""
        return self.fs.open(self.path, "rb")


def is_local(key: str) -> bool:
    """Tell whether a key is a path on this machine."""
    return "://" not in key and "::" not in key


def local_status(status: os.stat_result) -> FileStatus:
    """Return the status that a system call gives."""
    if stat.S_ISDIR(status.st_mode):
        return FileStatus("folder")
    if not stat.S_ISREG(status.st_mode):
        return FileStatus("other")
    tag = f"{status.st_mtime_ns}:{status.st_ctime_ns}:{status.st_ino}"
    now = time.time()
    settled = now - status.st_mtime > _MTIME_SECONDS and now - status.st_ctime > _CTIME_SECONDS
    return FileStatus("file", status.st_size, status.st_mtime, tag, settled)


def remote_status(info: Mapping[str, Any]) -> FileStatus:
    """Return the status that fsspec gives."""
    kind = info.get("type")
    if kind == "directory":
        return FileStatus("folder")
    size = info.get("size")
    size = int(size) if isinstance(size, int | float) else None
    if kind not in {"file", None}:
        return FileStatus("other", size)
    when = next((moment for name in _TIME_NAMES if (moment := seconds(info.get(name))) is not None), None)
    tag = next((str(info[name]) for name in _TAG_NAMES if info.get(name) not in {None, ""}), None)
    if tag is not None:
        return FileStatus("file", size, when, tag)
    return _timed(size, when)


def _timed(size: int | None, when: float | None) -> FileStatus:
    """Return the status of a file without a tag: its time stands for one."""
    if when is None:
        return FileStatus("file", size)
    return FileStatus("file", size, when, repr(when), settled=time.time() - when > _MTIME_SECONDS)


def seconds(value: object) -> float | None:
    """Return a time of a file system in seconds since 1970; None if it is not a time.

    >>> seconds("1970-01-02T00:00:00Z"), seconds((1980, 1, 1, 0, 0, 0)), seconds("soon")
    (86400.0, 315532800.0, None)
    """
    try:
        if isinstance(value, tuple) and len(value) >= 6:  # in archives
            year, month, day, hour, minute, second = value[:6]
            value = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
        elif isinstance(value, str):
            value = datetime.fromisoformat(value)
        elif isinstance(value, date) and not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day, tzinfo=UTC)
        if isinstance(value, datetime):
            return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    except (ValueError, TypeError, OverflowError):
        pass
    return None


def opened(url: str, storage: Mapping[str, Json]) -> tuple[Any, str]:
    """Return a file system, and the path of an address in it; the file system caches no listings."""
    from fsspec.core import url_to_fs

    options: dict[str, Any] = {"use_listings_cache": False, **storage}
    if "::" in url:  # an archive is opened again, since it may have been replaced
        options["skip_instance_cache"] = True
    return url_to_fs(url, **options)


@contextmanager
def located(key: str, storage: Mapping[str, Json], within: str | None = None) -> Iterator[FileLocation]:
    """Yield the file that a key names; ``within``: the folder in which it was found."""
    if is_local(key):
        yield LocalFile(key, within)
        return
    location = RemoteFile(key, storage)
    try:
        yield location
    finally:
        if "::" in key and callable(close := getattr(location.fs, "close", None)):
            close()
