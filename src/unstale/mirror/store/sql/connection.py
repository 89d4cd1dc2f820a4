"""How a store is reached: engines for SQLite and PostgreSQL, the lock of a runner, errors in plain words."""

from __future__ import annotations

import os
import secrets
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from filelock import FileLock, Timeout
from sqlalchemy import Engine, create_engine, event, exc, func, select, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.pool import QueuePool

from unstale.errors import InvalidInput, Trouble, need

WRITE_TURN_SECONDS = 20.0
"""For which a connection of SQLite waits for its turn to write."""
_OLDEST_SQLITE = (3, 35, 0)
_PRAGMAS = (
    "PRAGMA synchronous = FULL",  # a commit survives the loss of power
    "PRAGMA wal_autocheckpoint = 8000",  # pages; each is written back once for many commits
    "PRAGMA journal_size_limit = 100000000",
    "PRAGMA cache_size = -24576",
    "PRAGMA temp_store = MEMORY",
)
_SESSION_SETTINGS = (
    # A worker that vanishes in the middle of a transaction must not hold up the others for long.
    "SET idle_in_transaction_session_timeout = '120s'",
    "SET lock_timeout = '60s'",
    "SET tcp_keepalives_idle = 20",
    "SET tcp_keepalives_interval = 10",
    "SET tcp_keepalives_count = 3",
)
_SQLITE_ERRORS_IN_WORDS = {
    "SQLITE_FULL": "no space is left for it; make room",
    "SQLITE_READONLY": "it cannot be written to; look at its rights, and those of its folder",
    "SQLITE_PERM": "it cannot be written to; look at its rights",
    "SQLITE_BUSY": f"another process has been writing to it for more than {WRITE_TURN_SECONDS:g} seconds",
    "SQLITE_LOCKED": "another connection has locked it",
    "SQLITE_CANTOPEN": "it cannot be opened; look at the rights of its folder",
    "SQLITE_IOERR": "it cannot be read or written",
}
_WILL_NOT_GO_AWAY = (
    "does not exist",
    "authentication failed",
    "no password supplied",
    "no pg_hba.conf entry",
    "permission denied",
)


def place_of(store: str | os.PathLike[str]) -> Path | URL:
    """Return where a store is: the path of a file, or an address of PostgreSQL."""
    given = os.fspath(store)
    if "://" not in given:
        if not given or "\0" in given:
            raise InvalidInput(f"store must be the path of a file or postgresql://...; it is {given!r}")
        return Path(given)
    try:
        url = make_url(given)
    except (exc.ArgumentError, ValueError):
        raise InvalidInput(
            "store cannot be read as an address: write postgresql://user@host/database"
        ) from None
    kind = url.drivername.partition("+")[0]
    if kind == "sqlite" and url.database not in {None, "", ":memory:"}:
        return Path(str(url.database))
    if kind in {"postgresql", "postgres"}:
        return url
    raise InvalidInput(
        f"store must be the path of a file or postgresql://...; it is {url.render_as_string()!r}"
    )


def files_of(path: Path) -> tuple[Path, ...]:
    """Return the files that an SQLite store consists of.

    >>> [path.name for path in files_of(Path("/srv/mirror.db"))]
    ['mirror.db', 'mirror.db-wal', 'mirror.db-shm', 'mirror.db-journal', 'mirror.db.lock']
    """
    return tuple(path.with_name(f"{path.name}{end}") for end in ("", "-wal", "-shm", "-journal", ".lock"))


def check_file(path: Path, *, create: bool) -> None:
    """Complain of a path that cannot be an SQLite store."""
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        needed = ".".join(map(str, _OLDEST_SQLITE))
        raise InvalidInput(f"SQLite {needed} or newer is needed; this Python has {sqlite3.sqlite_version}")
    try:
        is_file, exists = path.is_file(), path.exists()
        is_folder, parent_is_folder = path.is_dir(), path.parent.is_dir()
    except OSError as error:
        raise Trouble(
            f"the store {str(path)!r}: {error.strerror}; look at the rights of its folder"
        ) from error
    if is_folder:
        raise InvalidInput(f"store must be a file; {str(path)!r} is a folder")
    if not parent_is_folder:
        raise InvalidInput(f"store must be in a folder that exists; it is {str(path)!r}")
    if not exists and not create:
        raise InvalidInput(f"there is no mirror at {str(path)!r}: make one first, or name another")
    if exists and not is_file:
        raise InvalidInput(f"store must be a file; {str(path)!r} is a device or a pipe")


def sqlite_engine(path: Path) -> Engine:
    """Return an engine for a file; if it cannot be written, one that reads."""
    writable = all(os.access(one, os.W_OK) for one in (path, path.parent) if one.exists())
    address = f"file:{quote(str(path.resolve()))}?mode="
    if writable:
        address += "rwc"
    else:
        address += "ro"
        log = path.with_name(f"{path.name}-wal")
        if not log.exists() or log.stat().st_size == 0:
            address += "&immutable=1"  # nobody can change it, and SQLite need not write beside it

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(
            address,
            uri=True,
            timeout=WRITE_TURN_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        try:
            connection.execute("PRAGMA schema_version").fetchone()  # reads the file, so that it is one
            if writable:
                connection.execute("PRAGMA journal_mode = WAL")
            for pragma in _PRAGMAS:
                connection.execute(pragma)
        except BaseException:
            connection.close()
            raise
        return connection

    return create_engine("sqlite://", creator=connect, poolclass=QueuePool, pool_size=4, max_overflow=20)


def session_name() -> str:
    """Return a name for all sessions of one store on PostgreSQL, by which others tell whether it lives."""
    host = socket.gethostname().encode("ascii", "replace").decode()
    return f"unstale {host[:24]}:{os.getpid()}:{secrets.token_hex(4)}"  # it keeps no more than 63 letters


def postgres_engine(url: URL, session: str) -> Engine:
    """Return an engine for a database, whose sessions all have this name."""
    need("psycopg", extra="postgres", needed_for="mirrors in PostgreSQL")
    said = {
        "connect_timeout": "10", "client_encoding": "utf8",
        "keepalives_idle": "20", "keepalives_interval": "10", "keepalives_count": "3",
        "tcp_user_timeout": "60000",
    }  # fmt: skip
    query = {**said, **url.query, "application_name": session}
    url = url.set(drivername="postgresql+psycopg", query=query)
    engine = create_engine(url, pool_pre_ping=True, pool_size=4, max_overflow=20)

    @event.listens_for(engine, "connect")
    def settle(connection: object, _: object) -> None:
        try:
            with closing(connection.cursor()) as cursor:  # type: ignore[attr-defined]
                for setting in _SESSION_SETTINGS:
                    cursor.execute(setting)
            connection.commit()  # type: ignore[attr-defined]
        except BaseException:  # SQLAlchemy would forget it, open
            connection.close()  # type: ignore[attr-defined]
            raise

    return engine


def lacking(engine: Engine) -> str | None:
    """Say what a server lacks that workers rely on, if it only looks like PostgreSQL; None: it has all.

    Some databases that speak its language accept advisory locks and keep nobody out by them, or show a
    session only its own.
    """
    key = secrets.randbits(62)
    with engine.connect() as one, engine.connect() as other:
        ask = select(func.pg_try_advisory_xact_lock(key))
        if not one.scalar(ask):
            return "a lock that nobody has cannot be had"
        if other.scalar(ask):
            return "its advisory locks keep nobody out"
        of_ours = "SELECT count(*) FROM pg_stat_activity WHERE application_name = :session"
        session = one.scalar(text("SELECT current_setting('application_name')"))
        if int(other.scalar(text(of_ours), {"session": session}) or 0) < 2:
            return "sessions cannot see one another in pg_stat_activity"
    return None


def run_lock(path: Path, *, shared: bool = False) -> FileLock | None:
    """Take the lock of the one runner; None if another has it. Its group may use a ``shared`` one."""
    file = path.resolve()  # by whatever name it is called, it has one lock
    file = file.with_name(f"{file.name}.lock")
    lock = FileLock(file, timeout=0, mode=0o660 if shared else 0o600, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        return None
    except OSError as error:
        why = error.strerror or str(error)
        raise Trouble(
            f"{str(file)!r}, which locks the mirror for one runner, cannot be used: {why}"
        ) from error
    return lock


@contextmanager
def troubles(name: str, *, opening: bool = False) -> Iterator[None]:
    """Turn errors of the database into one clear line; ``opening``: some of them will not go away."""
    try:
        yield
    except exc.DBAPIError as error:
        raise _plain(name, error.orig or error, opening=opening) from error
    except exc.SQLAlchemyError as error:
        raise Trouble(f"the store {name}: {_line(error)}") from error


def _plain(name: str, error: BaseException, *, opening: bool) -> Trouble | InvalidInput:
    """Say it in plain words."""
    code = getattr(error, "sqlite_errorname", None) or ""
    if code == "SQLITE_NOTADB":
        return InvalidInput(f"{name} is no SQLite database: name another file")
    if code.startswith("SQLITE_CORRUPT"):  # it does not go away by waiting, and writing may make it worse
        return InvalidInput(
            f"the store {name} is damaged ({_line(error)}): stop whoever uses it, keep a copy of the file, "
            "and put a back-up in its place, or what `sqlite3 FILE .recover | sqlite3 NEW` can still read; "
            "the folder of copies is not concerned"
        )
    for start, says in _SQLITE_ERRORS_IN_WORDS.items():
        if code.startswith(start):
            return Trouble(f"the store {name}: {says} ({_line(error)})")
    if opening and any(word in str(error) for word in _WILL_NOT_GO_AWAY):
        return InvalidInput(f"the store {name} cannot be opened: {_line(error)}")
    return Trouble(f"the store {name}: {_line(error)}")


def _line(error: BaseException) -> str:
    """Return the first line of a message, or the name of the error."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
