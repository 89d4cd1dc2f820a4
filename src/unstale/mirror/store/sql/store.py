"""A store in SQL: an SQLite file, or a PostgreSQL database.

What it promises is said in `unstale.mirror.store.contract`.

SQLite: a write-ahead log, synced with each commit. The one runner holds a lock on a file beside it,
which the system lets go of when the process ends, however it ends; others read and edit meanwhile.

PostgreSQL: any number of workers, of which one plans; see `unstale.mirror.store.sql.planner_seat`. When it
dies or hangs another takes over; what the former one still writes is refused, because each new planner has a
number of its own.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from filelock import FileLock
from sqlalchemy import Connection, Engine, delete, exc, func, insert, select
from sqlalchemy.engine import URL

from unstale.errors import InvalidInput, Trouble
from unstale.mirror.sql_engine import close_engine
from unstale.mirror.store.contract import PollRecord
from unstale.mirror.store.copies import IDENTITY, Copies
from unstale.mirror.store.folder import new_file, sync_folder
from unstale.mirror.store.poll_archive import PollArchive

from .connection import (
    check_file,
    files_of,
    lacking,
    place_of,
    postgres_engine,
    run_lock,
    session_name,
    sqlite_engine,
    troubles,
)
from .migrations import bound_polls, copy_schema, migrate, schema_version
from .migrations import create as create_tables
from .old_polls import all_polls, archived_moments, move_polls
from .planner_seat import PlannerSeat
from .schema import VERSION, elements, learned, meta, standing, versions
from .session import chunks
from .transaction import SqlTransaction

_ASKED_AT_ONCE = 200
"""Copies that one transaction asks about before it deletes some."""
_LONGEST_HOLD_SECONDS = 0.03
"""For which a transaction goes on deleting files; one file may take longer."""


def open_store(
    url_or_path: str | os.PathLike[str], *, copies: Copies, run: bool = False, create: bool = True
) -> SqlStore:
    """Open a store, or make it.

    Parameters
    ----------
    url_or_path
        path of the SQLite file, or ``postgresql://...``
    copies
        the folder of copies that goes with it
    run
        whether this process is to run the mirror; on SQLite only one can
    create
        whether it may be made
    """
    place = place_of(url_or_path)
    if isinstance(place, URL):
        session = session_name()
        engine = postgres_engine(place, session)
        store = SqlStore(place.render_as_string(), engine, copies, session=session)
    else:
        check_file(place, create=create)
        with suppress(OSError):  # of which SQLite complains, if it is not there already
            new_file(place.resolve(), shared=copies.shared).close()  # what SQLite makes beside it is like it
        lock = _lock(place, shared=copies.shared) if run else None
        store = SqlStore(f"sqlite:///{place}", sqlite_engine(place), copies, place, lock)
    try:
        store.prepare(create=create)
    except BaseException:
        store.close()
        raise
    return store


def _lock(path: Path, *, shared: bool) -> FileLock:
    """Take the lock of the one runner, or say who has it."""
    lock = run_lock(path, shared=shared)
    if lock is not None:
        return lock
    other = "another process"
    engine = sqlite_engine(path)
    with suppress(exc.SQLAlchemyError), engine.connect() as connection:
        runner = connection.scalar(select(meta.c.value).where(meta.c.name == "runner"))
        other = f"process {runner}" if runner else other
    close_engine(engine)
    raise InvalidInput(f"{str(path)!r} is being run by {other}: stop that one first, or run another mirror")


class SqlStore:
    """A store, open."""

    def __init__(
        self,
        url: str,
        engine: Engine,
        copies: Copies,
        path: Path | None = None,
        lock: FileLock | None = None,
        *,
        session: str = "",
    ) -> None:
        self.url = url
        self.copies = copies
        self._engine = engine
        self._path = path
        self._real = None if path is None else path.resolve()
        self._lock = lock
        self._closed = False
        self._span_last = 0
        self._seat = PlannerSeat(engine, session) if session else None
        """The seat of the planner, for which workers on PostgreSQL compete."""
        self._file: tuple[int, int] | None = None
        """Which file it was when it was opened."""

    @property
    def single_runner(self) -> bool:
        """Whether one process at most can run the mirror: so it is with a file."""
        return self._path is not None

    @property
    def own_files(self) -> tuple[Path, ...]:
        """Files that the store itself consists of; none on PostgreSQL."""
        return () if self._path is None else files_of(self._path)

    @property
    def _name(self) -> str:
        return repr(self.url if self._path is None else str(self._path))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- opening

    def prepare(self, *, create: bool) -> None:
        """Make the tables, or bring them up to date."""
        with troubles(self._name, opening=True):
            with self._engine.connect() as connection:
                version = schema_version(connection, self._name)
            if version is None and not create:
                raise InvalidInput(f"there is no mirror in {self._name}: make one first, or name another")
            if version != VERSION:
                lock = (
                    _lock(self._path, shared=self.copies.shared)
                    if self._path is not None and self._lock is None and version
                    else None
                )
                try:
                    self._renew()
                finally:
                    if lock is not None:
                        lock.release()
            self._file = self._identity()
            if self._lock is not None:
                with self.begin() as transaction:
                    transaction.write()
                    runner = f"{os.getpid()} on {socket.gethostname()}"
                    transaction.connection.execute(delete(meta).where(meta.c.name == "runner"))
                    transaction.connection.execute(insert(meta), {"name": "runner", "value": runner})

    def _identity(self) -> tuple[int, int] | None:
        """Return which file it is; None on PostgreSQL, or if it is not there."""
        if self._real is None:
            return None
        try:
            found = self._real.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _renew(self) -> None:
        """Make or migrate the tables, in one transaction and alone."""
        with self._engine.connect() as connection:
            if self._path is None:
                number = self._number(connection, "schema")
                if version := schema_version(connection, self._name):
                    connection.execute(select(func.pg_advisory_lock(number)))
                    bound_polls(connection, version)
                    connection.execute(select(func.pg_advisory_unlock(number)))
                    connection.commit()
                connection.execute(select(func.pg_advisory_xact_lock(number)))
            else:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            version = schema_version(connection, self._name)  # another may have done it meanwhile
            if version is None:
                create_tables(connection)
            elif version < VERSION:
                if self._path is None:
                    copy_schema(connection, version)
                else:
                    self.backup(_free_name(self._path.with_name(f"{self._path.name}.v{version}-backup")))
                migrate(connection, version)
            connection.commit()

    @staticmethod
    def _number(connection: Connection, what: str) -> int:
        """Return the number of an advisory lock; PostgreSQL keeps those of other databases apart itself."""
        schema = connection.scalar(select(func.current_schema()))
        if schema is None:
            raise InvalidInput("there is no schema to put tables into: set search_path to one that exists")
        digest = hashlib.sha256(f"unstale {what} {schema}".encode()).digest()
        return int.from_bytes(digest[:8], "big", signed=True)

    # --- what a store can do

    @contextmanager
    def begin(self) -> Iterator[SqlTransaction]:
        """All of what is done in here is recorded, or nothing: with an error, nothing."""
        if self._closed:
            raise InvalidInput(f"the store {self._name} has been closed")
        if self._file is not None and self._identity() != self._file:
            raise Trouble(
                f"the store {self._name} was deleted or replaced while it was open; put it back, or restart"
            )
        with troubles(self._name), self._engine.connect() as connection:
            planner = None if self._seat is None else self._seat.number
            transaction = SqlTransaction(connection, self.copies, planner, self._span_last)
            yield transaction
            connection.commit()
            self._span_last = transaction.span_last

    def become_planner(self) -> bool:
        """Try to be the planner, or see whether we still are.

        Once it is lost, this says so once, even if it could be had again at once: another may have planned
        in between, and what was planned here is out of date.
        """
        if self._path is not None:
            return self._lock is not None
        if self._closed or self._seat is None:
            return False
        with troubles(self._name):
            return self._seat.take()

    def close(self) -> None:
        """Let go of it, and of the lock."""
        self._closed = True
        if self._seat is not None:
            self._seat.leave()
        close_engine(self._engine)
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def claim_copies(self) -> None:
        """Refuse to work with a folder of copies that is not the mirror's; one that is new becomes it."""
        if self._seat is not None:
            self._seat.watch()  # a planner that hangs may have what the next transaction waits for
        with self.begin() as transaction:
            transaction.write()
            transaction.take()  # no two claim at a time
            wrong, known = self._foreign(transaction)
            if wrong is not None:
                raise InvalidInput(wrong)
            with suppress(Trouble):  # polls will tell of a folder that cannot be used
                found = self.copies.identity()
                mine = known or found or secrets.token_hex(16)
                if known is None:
                    transaction.connection.execute(insert(meta), {"name": "copies", "value": mine})
                if found is None:
                    self.copies.identify(mine)

    def lacking(self) -> str | None:
        """Say what the server lacks that workers rely on; None if it has all, or the store is a file."""
        with troubles(self._name):
            return lacking(self._engine) if self._path is None else None

    def foreign_copies(self) -> str | None:
        """Say why the folder of copies is not the one that the mirror's workers have; None if it is."""
        with self.begin() as transaction:
            return self._foreign(transaction)[0]

    def _foreign(self, transaction: SqlTransaction) -> tuple[str | None, str | None]:
        """Return what is wrong with the folder, in words, and the identity that the mirror knows, if any.

        A folder without one is taken for the mirror's if nothing can be in another: where one process at most
        runs the mirror, whose copies may have been lost, and before there are copies.
        """
        connection = transaction.connection
        known = connection.scalar(select(meta.c.value).where(meta.c.name == "copies"))
        try:
            found = self.copies.identity()
        except Trouble:
            return None, known
        may_be_new = self._path is not None or connection.scalar(select(versions.c.id).limit(1)) is None
        if known is None or found == known or (found is None and may_be_new):
            return None, known
        says = "is not there" if found is None else f"says {found}"
        return (
            f"{self.copies.place.address} is not the one of this mirror, which all its workers must see: its "
            f"{IDENTITY} {says}, where the mirror knows {known}; mount the right one here, or set copies to "
            f"where it is; if its copies are lost for good, write {known} into {IDENTITY} there"
        ), known

    def discard(self, digests: Sequence[str], *, enough: Callable[[], bool] = lambda: False) -> int:
        """Delete copies that nothing refers to any more; return how many.

        To be called after the transaction that deleted their versions, not within it: a crash in between
        leaves copies without versions, which `sweep` finds, and never a version without its copy.

        A file system may be slow, and nobody else can write meanwhile. So each transaction deletes a few and
        is soon over, and others get as much time in between. ``enough`` says whether to leave the rest.
        """
        deleted = 0
        for some in chunks(sorted(set(digests)), _ASKED_AT_ONCE):
            left = list(some)
            while left and not enough():
                with self.begin() as transaction:  # nobody records a version that needs them until it ends
                    left = sorted(set(left) - transaction.referred(left))
                    began = time.monotonic()
                    while left:
                        deleted += self.copies.delete([left.pop()])
                        if time.monotonic() - began > _LONGEST_HOLD_SECONDS:
                            break
                if (took := time.monotonic() - began) > _LONGEST_HOLD_SECONDS:
                    time.sleep(took)
        return deleted

    def sweep(self, older_than: float = 86400.0, *, enough: Callable[[], bool] = lambda: False) -> int:
        """Delete copies that crashes left behind, put before so many seconds; return how many."""
        deleted = 0
        for some in self.copies.digests(older_than):
            if enough():
                break
            deleted += self.discard(some, enough=enough)
        return deleted

    def move_polls(
        self, *, before: float, most: int, heard: int, enough: Callable[[], bool] = lambda: False
    ) -> int:
        """Move old polls from the tables to files beside the copies, and delete those before a moment."""
        archive = PollArchive(self.copies)
        return move_polls(self.begin, archive, before=before, most=most, heard=heard, enough=enough)

    def all_polls(self, after: int = 0) -> Iterator[list[PollRecord]]:
        """Return all polls after one, oldest first, some at a time, wherever they are."""
        return all_polls(self.begin, PollArchive(self.copies), after)

    def archived_moments(self, elements: Sequence[int], first: float, last: float) -> set[tuple[int, float]]:
        """Return (element, moment) of polls in some time that are in files."""
        return archived_moments(self.begin, PollArchive(self.copies), elements, first, last)

    def backup(self, path: Path) -> Path | None:
        """Write a back-up; None if the server does that."""
        if self._path is None:
            return None
        path = Path(path)
        if path.exists():
            raise InvalidInput(f"the back-up {str(path)!r} is there already: name another file")
        temporary = path.with_name(f"{path.name}.tmp")
        with troubles(self._name):
            try:
                temporary.unlink(missing_ok=True)
                new_file(temporary, shared=self.copies.shared).close()
                with (
                    closing(sqlite3.connect(temporary)) as target,
                    closing(self._engine.raw_connection()) as raw,
                ):
                    raw.driver_connection.backup(target)  # type: ignore[union-attr]
                with temporary.open("rb+") as file:
                    os.fsync(file.fileno())
                temporary.rename(path)
                sync_folder(path.parent)
            except (OSError, sqlite3.Error) as error:
                with suppress(OSError):
                    temporary.unlink(missing_ok=True)
                raise Trouble(f"the back-up {str(path)!r} cannot be written: {error}") from error
        return path

    def check(self) -> list[str]:
        """Return what is wrong with the store itself, in words; nothing if all is well."""
        wrong: list[str] = []
        with self.begin() as transaction:
            connection = transaction.connection
            if self._path is not None:
                found = connection.exec_driver_sql("PRAGMA quick_check").scalars()
                wrong += [f"SQLite says: {line}" for line in found if line != "ok"]
            for table in (standing, learned):
                query = select(elements.c.key).join(table, table.c.element == elements.c.id, isouter=True)
                for key in connection.scalars(query.where(table.c.element.is_(None))):
                    wrong.append(f"{key}: has no row in {table.name}")
            query = (
                select(elements.c.key)
                .join(standing, standing.c.element == elements.c.id)
                .join(versions, versions.c.id == standing.c.version, isouter=True)
                .where(standing.c.version.is_not(None), versions.c.id.is_(None))
            )
            wrong += [f"{key}: its latest version is missing" for key in connection.scalars(query)]
            for some in self._digests(connection):
                missing = [digest for digest in some if not self.copies.has(digest)]
                for part in chunks(missing):
                    whose = (
                        select(versions.c.digest, func.min(elements.c.key))
                        .join(elements, elements.c.id == versions.c.element)
                        .where(versions.c.digest.in_(part))
                        .group_by(versions.c.digest)
                        .order_by(versions.c.digest)
                    )
                    rows = connection.execute(whose).all()
                    wrong += [f"{key}: its copy {digest} is missing" for digest, key in rows]
        return wrong

    def digests(self) -> Iterator[list[str]]:
        """Return the digests of the copies that versions have, in their order, some at a time."""
        with self.begin() as transaction:
            yield from self._digests(transaction.connection)

    @staticmethod
    def _digests(connection: Connection) -> Iterator[list[str]]:
        last = ""
        while True:
            query = select(versions.c.digest).where(versions.c.digest > last).distinct()
            some = list(connection.scalars(query.order_by(versions.c.digest).limit(10_000)))
            if not some:
                return
            yield some
            last = some[-1]


def _free_name(path: Path) -> Path:
    """Return a name that no file has yet: of several back-ups none is overwritten."""
    name, number = path, 1
    while name.exists():
        number += 1
        name = path.with_name(f"{path.name}-{number}")
    return name
