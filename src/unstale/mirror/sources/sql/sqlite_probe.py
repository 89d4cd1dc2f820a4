"""SQLite: a probe that proves that nothing has been written to a file.

A connection that stays open can ask for ``data_version``, a number that changes with each commit of another
connection. That is certain, but the number means nothing to another connection, such as that of the next
process. There the file itself is the proof: if its size, its times and its inode are the same, nothing has
been written to it. This holds only if the times were old enough when they were read, and if there is no
write-ahead log, in which commits wait before they are in the file.

Only SQLite opens the file: if this process opened and closed it, it would drop all its locks on the file.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from unstale.mirror.source import Json

from .database import sqlite_connection

_YOUNG_FILE_SECONDS = 3.0
"""Two writes within this time might leave the same time on a file."""


@dataclass(frozen=True)
class SqliteMark:
    """The state of a file."""

    connection: str
    version: int
    file: tuple[int, ...]
    """Device, inode, size and times."""
    log: bool
    """Whether there may be commits that are not in the file."""
    young: bool

    def json(self) -> dict[str, Json]:
        """Return the mark for the validators."""
        return {
            "connection": self.connection,
            "version": self.version,
            "file": list(self.file),
            "telling": not self.log and not self.young,
        }

    def proves(self, before: Mapping[str, Json]) -> bool:
        """Tell whether nothing has been written since the mark ``before``."""
        if before.get("file") != list(self.file):
            return False  # also if a file with the same number of commits has replaced it
        if (before.get("connection"), before.get("version")) == (self.connection, self.version):
            return True
        return before.get("telling") is True and not self.log


class SqliteWatch:
    """Keeps a connection open, and asks it for changes; for one thread at a time."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._name = ""
        self._opened: tuple[int, int] | None = None

    def mark(self) -> SqliteMark:
        """Return the mark of the file now."""
        try:
            return self._mark()
        except Exception:
            self.close()
            raise

    def _mark(self) -> SqliteMark:
        log = self._log()  # first: a commit that leaves the log now is in the file below
        for _ in range(3):
            before = os.stat(self._path)  # noqa: PTH116  (both ends of the comparison look alike)
            if self._connection is None or self._opened != (before.st_dev, before.st_ino):
                self.close()
                self._connection = sqlite_connection(self._path)
                self._name, self._opened = secrets.token_hex(8), (before.st_dev, before.st_ino)
            (version,) = self._connection.execute("PRAGMA data_version").fetchone()
            now, looked = os.stat(self._path), time.time()  # noqa: PTH116
            if (now.st_dev, now.st_ino) == self._opened:
                break
            self.close()  # the file was replaced meanwhile
        else:
            raise OSError(f"{self._path} is being replaced all the time")
        return SqliteMark(
            self._name,
            version,
            (now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns),
            log or self._log(),
            looked - max(now.st_mtime, now.st_ctime) < _YOUNG_FILE_SECONDS,
        )

    def _log(self) -> bool:
        try:
            return os.stat(f"{self._path}-wal").st_size > 0  # noqa: PTH116
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
        self._connection = None
