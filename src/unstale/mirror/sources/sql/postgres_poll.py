"""The part of a poll of PostgreSQL that reads the table: the last probes, and then the rows.

It is one transaction, so that the validators for the next poll describe exactly the rows that were read. It
only reads, and is rolled back.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unstale.mirror.source import Found, Json

from .arrow_types import PostgresColumn, postgres_columns
from .keys import TableName
from .postgres_copy import from_copy
from .postgres_probes import Counters, Position, last_commit, read_position, relations, sums, young_rows
from .reading_only import select_from
from .stoppable_work import Stop
from .table_poll import MAX_PARTITIONS, MAX_PROBE_ROWS, TableGone, TablePoll, answer_digest, in_order

if TYPE_CHECKING:
    from sqlalchemy import Connection, CursorResult

_SETTINGS = """
SET LOCAL timezone = 'UTC'; SET LOCAL datestyle = 'ISO, YMD'; SET LOCAL intervalstyle = 'iso_8601';
SET LOCAL bytea_output = 'hex'; SET LOCAL extra_float_digits = 1; SET LOCAL lc_monetary = 'C';
SET LOCAL xmlbinary = 'base64'; SET LOCAL statement_timeout = {milliseconds};
SET LOCAL idle_in_transaction_session_timeout = {milliseconds}
"""
# The text of values must not depend on the settings of the server or of the user.


def poll_postgres(poll: TablePoll, counters: Counters | None, stop: Stop) -> Found:
    """Try the rungs that read the table; ``counters`` were read before, if the tables are known."""
    with poll.database.engine.connect() as plain:
        connection = plain.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        with stop.using(connection) as driver:
            try:
                with connection.begin() as transaction:
                    found = _PostgresPoll(poll, connection, driver, stop, counters).run()
                    transaction.rollback()
                if poll.options.query or poll.options.probe:  # they may have taken locks of the session
                    plain.execution_options(isolation_level="AUTOCOMMIT").exec_driver_sql("DISCARD ALL")
            except BaseException:
                if poll.options.query or poll.options.probe:
                    connection.invalidate()
                raise
            return found


@dataclass
class _PostgresPoll:
    poll: TablePoll
    connection: Connection
    driver: Any
    stop: Stop
    counters: Counters | None

    def run(self) -> Found:
        poll, options = self.poll, self.poll.options
        self._begin()
        self.position = read_position(self.connection)
        self.tables = relations(self.connection, poll.names)
        self.remembered: dict[str, Json] = {"committed": poll.known.get("committed"), **self._facts()}
        source = self._described()
        if options.split is not None:
            with poll.rung("partitions"):
                values = self._values(source)
            return poll.partitions(values, self.remembered)
        if self._proved(source):
            # A cursor or a probe may miss a change, so it must not prove anything to later polls.
            believed = options.cursor is not None or options.probe is not None
            return poll.unchanged(None if believed else {**poll.known, **self.remembered})
        with poll.rung("extraction"):
            order = self._order()
            rest = f"FROM {source}{' ORDER BY ' * bool(order)}{order}"
            extract = from_copy(
                self.driver, self.columns, rest, path=poll.path, most=poll.terms.max_size, stop=self.stop
            )
        if not options.query and not options.tables:
            self.remembered["counts"] = [extract.rows]
            if self.remembered["plain"]:
                self.remembered["committed"] = last_commit(self.connection, source)
        return poll.found(extract, self.remembered)

    def _begin(self) -> None:
        """Fix the text of values, and lock the tables so that nobody empties or replaces them meanwhile.

        The transaction takes its snapshot only after that. TRUNCATE and ALTER TABLE do not keep old rows for
        older snapshots: such a reader would find the table empty, which it may never have been.
        """
        statement = _SETTINGS.format(milliseconds=max(1, int(self.poll.terms.timeout * 1000)))
        for name in self.poll.names:
            known = self.counters.relations.get(name) if self.counters is not None else None
            if known is not None and known.kind in {"r", "p"}:
                statement += f"; LOCK TABLE {self._quoted(name)} IN ACCESS SHARE MODE"
        self._run_for_table(statement)

    def _facts(self) -> dict[str, Json]:
        """Return the validators that describe the tables."""
        names, then = self.poll.names, self.counters
        stored = bool(names) and all(name in self.tables and self.tables[name].stored for name in names)
        plain = stored and all(self.tables[name].plain for name in names)
        counted = None
        if plain and then is not None and then.position.server == self.position.server:
            # The counters are older than the snapshot, so they count nothing that this poll does not see.
            counted = [then.relations[name].counters for name in names if name in then.relations]
        return {
            "position": self.position.json(),
            "stored": stored,
            "plain": plain,
            "shapes": [self.tables[name].shape for name in names] if plain else None,
            "counters": list[Json](counted) if counted is not None else None,
            "reset": then.reset if then is not None else None,
        }

    # --- statements -----------------------------------------------------------------------------------------

    def _quoted(self, name: TableName) -> str:
        from psycopg.sql import Identifier

        return Identifier(*(part for part in name if part is not None)).as_string(self.driver)

    def _run(self, statement: str) -> CursorResult[Any]:
        self.stop.check()
        return self.connection.execution_options(no_parameters=True).exec_driver_sql(statement)

    def _run_for_table(self, statement: str) -> CursorResult[Any]:
        from sqlalchemy.exc import DBAPIError

        try:
            return self._run(statement)
        except DBAPIError as error:
            state = getattr(error.orig, "sqlstate", None)
            if self.poll.options.query is None and state in {
                "42P01",
                "3F000",
            }:  # no such table, no such schema
                raise TableGone from None
            raise

    def _described(self) -> str:
        """Find the columns; return the SQL after FROM."""
        query = self.poll.options.query
        origin = select_from(self.driver, "query", query) if query else self._quoted(self.poll.table.name)
        cursor: Any = self._run_for_table(f"SELECT * FROM {origin} AS q LIMIT 0").cursor  # noqa: S608
        self.columns_there = [one.name for one in cursor.description]
        types = [(cursor.pgresult.ftype(i), cursor.pgresult.fmod(i)) for i in range(len(self.columns_there))]
        self.columns: list[PostgresColumn] = postgres_columns(self.columns_there, types, self._types(types))
        alias = ", ".join(f"c{i}" for i in range(len(types)))
        return f"{origin} AS q{f'({alias})' if alias else ''}{self._where()}"

    def _where(self) -> str:
        """Return the WHERE that selects the rows of the partition."""
        from psycopg.sql import Literal

        partition, relation = self.poll.table.partition, self.tables.get(self.poll.table.name)
        if partition is None:
            return ""
        column = self._column(partition.column)
        if partition.value is None or relation is None:
            return f" WHERE {column} IS NULL"
        (kind,) = self.connection.exec_driver_sql(
            "SELECT format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = %s AND attname = %s",
            (relation.oid, partition.column),
        ).one()
        return f" WHERE {column} = CAST({Literal(partition.value).as_string(self.driver)} AS {kind})"

    def _column(self, name: str) -> str:
        if name not in self.columns_there:
            raise LookupError(f"there is no column {name!r}")
        return f"q.c{self.columns_there.index(name)}"

    def _types(self, types: list[tuple[int, int]]) -> dict[int, tuple[str, str, bool]]:
        found = self.connection.exec_driver_sql(
            "SELECT t.oid::bigint, format_type(t.oid, NULL), t.typtype::text, "
            "coalesce(e.typtype = 'e', false) FROM pg_type t "
            "LEFT JOIN pg_type e ON e.oid = t.typelem AND t.typcategory = 'A' WHERE t.oid = ANY(%s)",
            ([oid for oid, _ in types],),
        )
        return {oid: (name, kind, enums) for oid, name, kind, enums in found}

    def _order(self) -> str:
        """Return the columns of the primary key, so that the same rows come in the same order."""
        relation = self.tables.get(self.poll.table.name)
        if self.poll.options.query or relation is None:
            return ""
        key = self.connection.exec_driver_sql(
            "SELECT a.attname FROM pg_index i, unnest(i.indkey) WITH ORDINALITY AS k(attnum, place) "
            "JOIN pg_attribute a ON a.attnum = k.attnum "
            "WHERE i.indrelid = %s AND i.indisprimary AND a.attrelid = i.indrelid ORDER BY k.place",
            (relation.oid,),
        ).scalars()
        return ", ".join(self._column(name) for name in key)

    def _values(self, source: str) -> list[str | None]:
        column = self._column(self.poll.options.split or "")
        asked = f"SELECT DISTINCT {column}::text FROM {source} LIMIT {MAX_PARTITIONS + 1}"  # noqa: S608
        return in_order(self._run(asked).scalars())

    # --- rungs ----------------------------------------------------------------------------------------------

    def _proved(self, source: str) -> bool:
        """Tell whether a rung that reads the table proves that nothing has changed."""
        poll, options = self.poll, self.poll.options
        if options.cursor is not None:
            with poll.rung("cursor"):
                return self._same("cursor", self._greatest(source))
        if options.probe is not None:
            with poll.rung("probe"):
                return self._same("probe", self._answer(options.probe))
        if self.remembered["plain"] and self._no_younger(source):
            return True
        if options.checksum:
            with poll.rung("checksum"):
                return self._same("checksum", sums(self.connection, source))
        return False

    def _answer(self, probe: str) -> Json:
        asked = f"SELECT * FROM {select_from(self.driver, 'probe', probe)} AS q"  # noqa: S608
        return answer_digest(self._run(asked).fetchmany(MAX_PROBE_ROWS))

    def _same(self, name: str, now: Json) -> bool:
        self.remembered[name] = now
        return self.poll.known.get(name) == now

    def _greatest(self, source: str) -> Json:
        column = self._column(self.poll.options.cursor or "")
        count = "count(*)" if self.poll.options.count else "NULL"
        return list(self._run(f"SELECT max({column})::text, {count} FROM {source}").one())  # noqa: S608

    def _no_younger(self, source: str) -> bool:
        """Tell whether there are as many rows as before, and none is younger than the last poll."""
        from sqlalchemy.exc import NotSupportedError

        poll, known = self.poll, self.poll.known
        then = Position.of(known.get("position"))
        if then is not None and (then.server != self.position.server or not then.server):
            then = None
        if then is None and not poll.options.tables:
            return False  # the extraction counts
        sources = [f"{self._quoted(name)} AS q" for name in poll.names] if poll.options.tables else [source]
        counted: list[tuple[int, int] | None] = [None]
        with poll.rung("rows"), suppress(NotSupportedError), self.connection.begin_nested():
            counted = [
                young_rows(self.connection, one, then or self.position, self.position) for one in sources
            ]
        if None in counted:
            return False
        self.remembered["counts"] = [one[0] for one in counted if one is not None]
        return (
            then is not None
            and known.get("shapes") == self.remembered["shapes"]
            and known.get("counts") == self.remembered["counts"]
            and not any(one[1] for one in counted if one is not None)
        )
