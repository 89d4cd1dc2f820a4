"""Statements of the user (``query``, ``probe``) may read, and do nothing else.

*PostgreSQL.* Each poll is a transaction that only reads, which a statement can leave only if it is several
statements, or none that a SELECT may contain. So the server parses the statement by itself first, with the
protocol that takes one statement at a time; what passes has its parentheses closed, and is then run inside
the parentheses of a SELECT. COMMIT, SET, COPY, DO and CALL have no place there, and the mode of a transaction
cannot be changed once it has read. The transaction is rolled back, so that settings and messages go with it.

*SQLite.* The file is opened for reading, and an authorizer refuses what reaches beyond it: ATTACH and VACUUM
INTO, which make files, temporary tables, transactions and pragmas that set something.

What a function may do with the rights of the user (write a file on the server, connect to another one) is
beyond both; so a user without such rights is best, and ``unstale doctor`` says whether it is one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from psycopg import Connection
    from sqlalchemy import Connection as AnyConnection

_MAX_ROW_BYTES = 256 << 20
"""Of all cells of a row of SQLite together."""
_SEVERAL_STATEMENTS = "cannot insert multiple commands"
"""How PostgreSQL begins to refuse several statements where one is expected."""

_ALLOWED_ACTIONS = frozenset(
    {
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_RECURSIVE,
        # The mode of the connection refuses these. Virtual tables such as R-trees prepare them to be read.
        sqlite3.SQLITE_INSERT,
        sqlite3.SQLITE_UPDATE,
        sqlite3.SQLITE_DELETE,
    }
)
_VALUE_PRAGMAS = frozenset(
    {"application_id", "data_version", "freelist_count", "page_count", "schema_version", "user_version"}
)
"""Pragmas that tell a value, unless they are given one."""
_CATALOGUE_PRAGMAS = frozenset(
    {
        "collation_list",
        "compile_options",
        "database_list",
        "foreign_key_list",
        "function_list",
        "index_info",
        "index_list",
        "index_xinfo",
        "module_list",
        "pragma_list",
        "table_info",
        "table_list",
        "table_xinfo",
    }
)
"""Pragmas that tell what there is; their argument is a name."""

_RIGHTS_QUERY = """
SELECT CASE
  WHEN (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN 'is a superuser'
  WHEN EXISTS (
    SELECT FROM pg_roles r
    WHERE r.rolname IN ('pg_write_all_data', 'pg_write_server_files', 'pg_execute_server_program')
      AND pg_has_role(r.oid, 'MEMBER')) THEN 'may write to the server'
  ELSE (
    SELECT 'may write to the table ' || c.oid::regclass FROM pg_class c
    WHERE c.relkind IN ('r', 'p', 'v', 'f') AND c.relnamespace <> 'pg_catalog'::regnamespace
      AND c.relnamespace <> 'information_schema'::regnamespace AND c.relpersistence <> 't'
      AND has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')
    ORDER BY c.oid LIMIT 1)
  END
"""
# `rights_beyond_reading` asks this: the first right of the user that polls do not need, or NULL.


class NotOneSelect(Exception):  # noqa: N818  (its name says what is wrong)
    """A statement of the user is something else than one SELECT."""


def select_from(driver: Connection[Any], name: str, statement: str) -> str:
    """Return the statement in parentheses, for FROM; raise `NotOneSelect` if it is not one SELECT.

    Parameters
    ----------
    driver
        The connection of psycopg, in the transaction of the poll.
    name
        Name of the option, for the error.
    statement
        The text of the user.
    """
    from psycopg.errors import Error, error_from_result
    from psycopg.errors import SyntaxError as Unparsable
    from psycopg.pq import ExecStatus

    def parse(text: str) -> Error | None:
        result = driver.pgconn.prepare(b"", text.encode(driver.info.encoding))
        return None if result.status == ExecStatus.COMMAND_OK else error_from_result(result)

    if "\0" in statement:
        raise NotOneSelect(f"{name} has a NUL in it; write one SELECT")
    alone = parse(statement)
    if alone is not None:
        if _SEVERAL_STATEMENTS in str(alone):
            raise NotOneSelect(f"{name} is several statements, and polls only read; write one SELECT")
        raise alone
    inside = f"(\n{statement}\n)"
    wrapped = parse(f"SELECT * FROM {inside} AS q")  # noqa: S608
    if isinstance(wrapped, Unparsable):
        raise NotOneSelect(f"{name} is no SELECT, and polls only read; write one SELECT")
    if wrapped is not None:
        raise wrapped
    return inside


def limit_cells(driver: sqlite3.Connection, most: int, columns: int = 1) -> None:
    """Let no cell be larger than ``most`` bytes, and no row than a row may be in memory.

    A view of a few bytes can make a cell of a gigabyte.
    """
    driver.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max(min(most, _MAX_ROW_BYTES // max(columns, 1)), 100_000))


@contextmanager
def only_reading(driver: sqlite3.Connection) -> Iterator[None]:
    """Refuse all statements on this connection that do more than read the file."""
    driver.set_authorizer(_authorized)
    try:
        yield
    finally:
        driver.set_authorizer(None)


def _authorized(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    if action == sqlite3.SQLITE_PRAGMA:
        name = (first or "").lower()
        allowed = name in _CATALOGUE_PRAGMAS or (name in _VALUE_PRAGMAS and second is None)
    else:
        allowed = action in _ALLOWED_ACTIONS
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def rights_beyond_reading(connection: AnyConnection) -> str | None:
    """Return what the user of PostgreSQL may do besides reading, for a sentence; None if it is nothing."""
    found: str | None = connection.exec_driver_sql(_RIGHTS_QUERY.replace("%", "%%")).scalar_one()
    return found
