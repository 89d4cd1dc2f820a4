"""The part of a poll that reads the table, for SQLite and any other database that SQLAlchemy knows.

It is one transaction, so that the validators for the next poll describe exactly the rows that were read. It
is rolled back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from unstale.mirror.source import Found, Json

from .arrow_types import as_text
from .extract import Extract, from_cursor
from .reading_only import NotOneSelect, limit_cells, only_reading
from .sqlite_probe import SqliteMark
from .stoppable_work import Stop
from .table_poll import MAX_PARTITIONS, MAX_PROBE_ROWS, TableGone, TablePoll, answer_digest, in_order

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import ColumnElement, Connection, CursorResult, FromClause, Select, TextClause


def poll_with_sqlalchemy(poll: TablePoll, mark: SqliteMark | None, stop: Stop) -> Found:
    """Try the rungs that read the table; ``mark`` is that of the SQLite file, read before."""
    with poll.database.engine.connect() as plain:
        connection = plain
        if poll.database.kind != "sqlite":
            driver = cast("Any", plain.connection.driver_connection)
            if "REPEATABLE READ" in plain.dialect.get_isolation_level_values(driver):
                connection = plain.execution_options(isolation_level="REPEATABLE READ")
        with stop.using(connection) as driver, connection.begin() as transaction:
            reading = _SqlAlchemyPoll(poll, connection, stop, mark)
            if poll.database.kind == "sqlite":
                connection.exec_driver_sql("BEGIN")
                limit_cells(driver, poll.terms.max_size)
                with only_reading(driver):
                    found = reading.run()
            else:
                found = reading.run()
            transaction.rollback()
            return found


@dataclass
class _SqlAlchemyPoll:
    poll: TablePoll
    connection: Connection
    stop: Stop
    mark: SqliteMark | None
    key: list[str] = field(default_factory=list)
    """Columns of the primary key."""
    declared: list[str] = field(default_factory=list)
    """Types of the columns, as the table has them."""

    def run(self) -> Found:
        poll, options = self.poll, self.poll.options
        self.origin = self._query() if options.query else self._table()
        self.remembered: dict[str, Json] = {}
        if self.mark is not None:
            self.remembered = {"mark": self.mark.json(), "stored": self._stored()}
        if options.split is not None:
            with poll.rung("partitions"):
                values = self._values()
            return poll.partitions(values, self.remembered)
        if self._proved():
            # A cursor or a probe may miss a change, so it must not prove anything to later polls.
            believed = options.cursor is not None or options.probe is not None
            return poll.unchanged(None if believed else {**poll.known, **self.remembered})
        with poll.rung("extraction"):
            extract = self._extract(poll.path)
        return poll.found(extract, self.remembered)

    # --- statements -----------------------------------------------------------------------------------------

    def _query(self) -> FromClause:
        from sqlalchemy import column, quoted_name

        cursor = self.poll.options.cursor
        columns: list[Any] = [column(quoted_name(cursor, quote=True))] if cursor else []
        return self._text().columns(*columns).subquery("q")

    def _text(self) -> TextClause:
        """Return the query as it is; a colon in it does not begin a parameter."""
        from sqlalchemy import text

        query = (self.poll.options.query or "").replace("\\:", "\\\\:").replace(":", "\\:")
        return text(f"\n{query}\n")

    def _table(self) -> FromClause:
        """Return the table with its columns; raise `TableGone` if there is none."""
        from sqlalchemy import column, quoted_name, table

        name = self.poll.table.name
        names = (
            self._columns_of_sqlite() if self.poll.database.kind == "sqlite" else self._columns_elsewhere()
        )
        columns: list[Any] = [column(quoted_name(one, quote=True)) for one in names]
        schema = quoted_name(name.schema, quote=True) if name.schema else None
        return table(quoted_name(name.table, quote=True), *columns, schema=schema).alias("q")

    def _columns_of_sqlite(self) -> list[str]:
        schema, table = self.poll.table.name
        found = self.connection.exec_driver_sql(
            "SELECT name, type, pk FROM pragma_table_xinfo(?, ?) WHERE hidden <> 1 ORDER BY cid",
            (table, schema or "main"),
        ).all()
        if not found:
            raise TableGone
        self.declared = [kind for _, kind, _ in found]
        driver = cast("Any", self.connection.connection.driver_connection)
        limit_cells(driver, self.poll.terms.max_size, len(found))
        self.key = [name for name, _, place in sorted(found, key=lambda one: one[2]) if place]
        return [name for name, _, _ in found]

    def _columns_elsewhere(self) -> list[str]:
        from sqlalchemy import inspect
        from sqlalchemy.exc import NoSuchTableError

        schema, table = self.poll.table.name
        seen = inspect(self.connection)
        try:
            found = seen.get_columns(table, schema=schema)
            self.key = list(seen.get_pk_constraint(table, schema=schema)["constrained_columns"])
        except NoSuchTableError:
            raise TableGone from None
        self.declared = [str(one["type"]) for one in found]
        return [one["name"] for one in found]

    def _column(self, name: str) -> ColumnElement[Any]:
        if name not in self.origin.c:
            raise LookupError(f"there is no column {name!r}")
        return self.origin.c[name]

    def _rows_of(self, *asked: Any) -> Select[Any]:  # noqa: ANN401  (columns and functions of all types)
        """Return a SELECT of these columns over the rows of the element."""
        from sqlalchemy import String, select

        statement = select(*asked).select_from(self.origin)
        partition = self.poll.table.partition
        if partition is None:
            return statement
        column = self._column(partition.column)
        return statement.where(
            column.is_(None) if partition.value is None else column.cast(String) == partition.value
        )

    def _stored(self) -> bool:
        """Tell whether the rows depend on the file alone; those of a view may depend on the time."""
        options, name = self.poll.options, self.poll.table.name
        if options.tables is not None or options.query is not None:
            return options.tables is not None
        schema = self.connection.dialect.identifier_preparer.quote_identifier(name.schema or "main")
        found = self.connection.exec_driver_sql(
            f"SELECT type, sql FROM {schema}.sqlite_master WHERE lower(name) = lower(?)",  # noqa: S608
            (name.table,),
        ).first()
        if found is None or found[0] != "table":
            return False
        return "virtual" not in str(found[1]).lower().split()[:2]

    # --- rungs ----------------------------------------------------------------------------------------------

    def _proved(self) -> bool:
        """Tell whether a rung that reads the table proves that nothing has changed."""
        poll, options = self.poll, self.poll.options
        if options.cursor is not None:
            with poll.rung("cursor"):
                return self._same("cursor", self._greatest(options.cursor))
        if options.probe is not None:
            with poll.rung("probe"):
                return self._same("probe", self._answer(options.probe))
        if options.checksum and poll.known:
            with poll.rung("checksum"):
                return self._extract(None).fingerprint == poll.fingerprint
        return False

    def _same(self, name: str, now: Json) -> bool:
        self.remembered[name] = now
        return self.poll.known.get(name) == now

    def _greatest(self, cursor: str) -> Json:
        from sqlalchemy import func

        asked: list[Any] = [func.max(self._column(cursor))]
        if self.poll.options.count:
            asked.append(func.count())
        found = self.connection.execute(self._rows_of(*asked)).one()
        return [None if value is None else as_text(value).replace("\0", "\\0") for value in found]

    def _answer(self, probe: str) -> Json:
        asked = self.connection.execution_options(no_parameters=True).exec_driver_sql(probe)
        return answer_digest(_with_rows(asked, "probe").fetchmany(MAX_PROBE_ROWS))

    def _values(self) -> list[str | None]:
        from sqlalchemy import String

        column = self._column(self.poll.options.split or "").cast(String)
        statement = self._rows_of(column).distinct().limit(MAX_PARTITIONS + 1)
        return in_order(self.connection.execute(statement).scalars())

    def _extract(self, path: Path | None) -> Extract:
        return from_cursor(
            self._cursor, self.declared, path=path, most=self.poll.terms.max_size, stop=self.stop
        )

    def _cursor(self) -> Any:  # noqa: ANN401  (of any driver)
        """Return a cursor over all rows; the cursor of SQLite itself is faster than that of SQLAlchemy."""
        from sqlalchemy import text

        self.stop.check()
        statement: Any = self._text()
        if self.poll.options.query is None:
            order = [self._column(name) for name in self.key]
            statement = self._rows_of(text("q.*")).order_by(*order)
        if self.poll.database.kind == "sqlite":
            return _with_rows(self.connection.execute(statement), "query").cursor
        streamed = self.connection.execution_options(stream_results=True).execute(statement)
        return _ResultCursor(_with_rows(streamed, "query"))


def _with_rows(result: CursorResult[Any], name: str) -> CursorResult[Any]:
    if not result.returns_rows:
        raise NotOneSelect(f"{name} is no SELECT, and polls only read; write one SELECT")
    return result


class _ResultCursor:
    """A result of SQLAlchemy with the methods of a cursor."""

    def __init__(self, result: CursorResult[Any]) -> None:
        self.description = cast("Any", result.cursor).description
        self.fetchone, self.close = result.fetchone, result.close
