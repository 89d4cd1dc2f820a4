"""Opening databases with SQLAlchemy, and the words for their errors."""

from __future__ import annotations

import os
import re
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from unstale.errors import InvalidInput, need
from unstale.mirror.secrets import expanded
from unstale.mirror.settings import Database

if TYPE_CHECKING:
    from sqlalchemy import Engine

T = TypeVar("T")

MAX_READING_POLLS = 8
"""Polls of one database that may read rows at the same time."""
APPLICATION_NAME = "unstale"
"""The name of connections in the database; they only read."""
_CONNECT_TIMEOUT_SECONDS = 10
"""For making a connection."""
_SQLITE_BUSY_SECONDS = 5.0
"""How long a connection waits for a writer of SQLite."""


@dataclass(frozen=True)
class DatabaseEngine:
    """A database to which polls can connect."""

    name: str
    engine: Engine
    kind: str
    """``postgresql``, ``sqlite``, or what else SQLAlchemy calls it."""
    secrets: tuple[str, ...]
    """Texts that no message may show."""
    path: str | None = None
    """Path of an SQLite file; None for other databases."""
    interval: float = 0.0
    """Seconds for which one probe serves all polls; see `BatchedProbe`."""


def open_database(name: str, database: Database) -> DatabaseEngine:
    """Return the engine of a database; it connects later. Raise `InvalidInput` if it cannot."""
    from sqlalchemy import create_engine, make_url
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError
    from sqlalchemy.pool import NullPool

    need("pyarrow", extra="sql", needed_for="copies of tables")
    filled = expanded(f"databases.{name}: url", database.url)
    try:
        url = make_url(filled)
    except (ArgumentError, ValueError):
        raise InvalidInput(f"databases.{name}: url is no URL of a database") from None
    secrets = [url.password, *(url.query.get(word) for word in ("password", "sslpassword"))]
    hidden = tuple(
        {form for text in secrets if isinstance(text, str) and text for form in (text, quote(text))}
    )
    kind = url.get_backend_name()
    pool: dict[str, Any] = {"pool_size": MAX_READING_POLLS + 2, "max_overflow": 0, "pool_pre_ping": True}
    path = None
    if kind == "sqlite":
        path = url.database or ""
        if path in {"", ":memory:"} or path.startswith("file:"):
            raise InvalidInput(f"databases.{name}: write url as sqlite:////path/to/file.db")
        path = os.path.abspath(path)  # noqa: PTH100  (no link is followed)
        # Each poll makes a new connection, since another file of the same name may have replaced this one.
        url = url.set(query={})
        pool = {"poolclass": NullPool, "creator": lambda: sqlite_connection(path)}
    elif kind in {"postgresql", "postgres"}:
        need("psycopg", extra="postgres", needed_for="tables in PostgreSQL")
        _, _, driver = url.drivername.partition("+")
        if driver not in {"", "psycopg", "psycopg2"}:
            raise InvalidInput(f"databases.{name}: PostgreSQL is read with psycopg; write postgresql://...")
        kind, url = "postgresql", url.set(drivername="postgresql+psycopg")
        pool["connect_args"] = {
            "connect_timeout": _CONNECT_TIMEOUT_SECONDS,
            "application_name": APPLICATION_NAME,
            "keepalives_idle": 30,
            "prepare_threshold": None,  # a pooler between may not know prepared statements
        }
    try:
        engine = create_engine(url, **pool)
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        driver = getattr(error, "name", None) or url.drivername
        raise InvalidInput(f"database {name}: its driver {driver} is not installed") from None
    return DatabaseEngine(name, engine, kind, hidden, path, database.probe_interval)


def sqlite_connection(path: str) -> sqlite3.Connection:
    """Connect to an SQLite file for reading; raise FileNotFoundError if it is not there."""
    if not Path(path).exists():
        raise FileNotFoundError(f"there is no file {path}")
    return sqlite3.connect(
        f"file:{quote(path)}?mode=ro",
        uri=True,
        timeout=_SQLITE_BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )


# --- what went wrong ----------------------------------------------------------------------------------------

_WORDS_BY_SQLSTATE = {
    "28P01": "the password is wrong, or there is no such user",
    "28000": "this user may not connect",
    "3D000": "there is no such database",
    "42501": "no permission",
    "53300": "the server has no connection left",
    "57014": "stopped by the server: it took too long",
    "57P01": "the server is shutting down",
    "57P03": "the server is starting up",
}
_REFUSED_BY_SQLITE = re.compile("not authorized|prohibited|readonly database|one statement at a time")


def error_words(error: BaseException, secrets: tuple[str, ...]) -> tuple[str, str]:
    """Return the SQLSTATE of an error, and one line about it without secrets."""
    from sqlalchemy.exc import DBAPIError

    if isinstance(error, DBAPIError) and error.orig is not None:
        error = error.orig
    state = getattr(error, "sqlstate", None) or ""
    diag = getattr(error, "diag", None)
    text = str(getattr(diag, "message_primary", None) or error).strip()
    line = " ".join(text.split())[:300] or type(error).__name__
    for secret in secrets:
        line = line.replace(secret, "***")
    known = _WORDS_BY_SQLSTATE.get(state)
    if isinstance(error, sqlite3.OperationalError) and "locked" in line:
        known = "busy: somebody is writing to it"
    if isinstance(error, sqlite3.DataError) and "too big" in line:
        known = "a cell is larger than max_size, or a row than 256 MB"
    if isinstance(error, sqlite3.Error | sqlite3.Warning) and _REFUSED_BY_SQLITE.search(line):
        known = "polls only read; write one SELECT"
    return state, f"{known} ({line})" if known else line
