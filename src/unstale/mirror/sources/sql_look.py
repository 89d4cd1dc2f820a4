"""One look at an element, in one transaction: the rungs that read the table itself, and then the rows.

All of it sees the same state of the database, so that what is remembered for the next poll is about exactly
the rows that were read.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..source import Found, Json, New, Terms
from .sql_engine import Place, Stop
from .sql_extract import Extract, from_copy, from_cursor
from .sql_keys import Name, Options, Thing
from .sql_postgres import Counters, Position, Relation, read_position, relations, sums, young_rows
from .sql_sqlite import Mark
from .sql_types import Column, as_text, postgres_columns

if TYPE_CHECKING:
    from sqlalchemy import Connection

__all__ = ["Ask", "Gone", "look_anywhere", "look_at_postgres"]

_MOST_PARTITIONS = 100_000
_MOST_ANSWER = 1000
"""Rows that the answer of a probe may have."""
_SETTINGS = """
SET LOCAL timezone = 'UTC'; SET LOCAL datestyle = 'ISO, YMD'; SET LOCAL intervalstyle = 'iso_8601';
SET LOCAL bytea_output = 'hex'; SET LOCAL extra_float_digits = 1; SET LOCAL lc_monetary = 'C';
SET LOCAL xmlbinary = 'base64'; SET LOCAL statement_timeout = {milliseconds};
SET LOCAL idle_in_transaction_session_timeout = {milliseconds}
"""
# How values read must not depend on what the server or the user is set to.


class Gone(Exception):  # noqa: N818  (it is no error)
    """The table is not there."""


@dataclass
class Ask:
    """What is asked about an element."""

    place: Place
    thing: Thing
    options: Options
    known: Mapping[str, Json]
    """Validators that still count; empty: nothing is known."""
    fingerprint: str | None
    terms: Terms
    inherited: Mapping[str, Json]
    """Options of the partitions."""
    path: Path
    """Where rows are written."""
    trail: dict[str, float] = field(default_factory=dict)
    """Rungs that were tried, with milliseconds."""

    @contextmanager
    def rung(self, name: str) -> Iterator[None]:
        """Note how long a rung takes."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.trail[name] = (time.perf_counter() - start) * 1e3

    def unchanged(self, validators: dict[str, Json] | None = None, more: str = "") -> Found:
        """Say that nothing has changed; the last rung that was tried has proved it."""
        return Found("unchanged", self._trail() + more, validators=validators)

    def _trail(self) -> str:
        return ", ".join(f"{name} {took:.1f} ms" for name, took in self.trail.items())

    def found(self, extract: Extract, validators: dict[str, Json]) -> Found:
        """Say what was read."""
        validators |= {
            "options": self.options.digest,
            "rows": extract.rows,
            "columns": [[name, kind] for name, kind in extract.columns],
        }
        if extract.fingerprint == self.fingerprint:
            self.path.unlink(missing_ok=True)
            found = self.unchanged(validators, "; the same rows")
            return Found("unchanged", found.detail, validators=validators, traffic=extract.traffic)
        changes, differences = _differences(self.known, extract)
        said = [f"{extract.rows:,} rows" if extract.rows != 1 else "1 row", *changes]
        return Found(
            "changed",
            f"{'; '.join(said)}; {self._trail()}",
            body=self.path,
            fingerprint=extract.fingerprint,
            media_type="application/vnd.apache.parquet",
            validators=validators,
            traffic=extract.traffic,
            meta={
                "rows": extract.rows,
                "columns": [{"name": name, "type": kind} for name, kind in extract.columns],
                "rung": "extraction",
                **({"notes": list[Json](extract.notes)} if extract.notes else {}),
                **differences,
            },
        )

    def partitions(self, values: list[str | None], validators: dict[str, Json]) -> Found:
        """Say what partitions there are."""
        column = self.options.split or ""
        keys = [str(self.thing.partition(column, value)) for value in values]
        body = dumps(keys, ensure_ascii=False, indent=0).encode()
        many = f"{len(keys)} partitions" if len(keys) != 1 else "1 partition"
        return Found(
            "changed",
            f"{many}; {self._trail()}",
            body=body,
            fingerprint=f"partitions:{sha256(body).hexdigest()}",
            media_type="application/json",
            validators=validators | {"options": self.options.digest},
            traffic=len(body),
            discovered=tuple(New(key, "sql", self.inherited) for key in keys),
            complete=True,
            meta={"partitions": len(keys), "rung": "partitions"},
        )


def _differences(known: Mapping[str, Json], extract: Extract) -> tuple[list[str], dict[str, Json]]:
    """Say what is different from last time, as far as can be seen from the outside."""
    rows, columns = known.get("rows"), known.get("columns")
    if not isinstance(rows, int) or not isinstance(columns, list):
        return [], {}
    before = {str(one[0]): str(one[1]) for one in columns if isinstance(one, list) and len(one) == 2}
    now = dict(extract.columns)
    added = [name for name in now if name not in before]
    removed = [name for name in before if name not in now]
    retyped = [name for name in now if name in before and now[name] != before[name]]
    said = []
    if extract.rows != rows:
        more = extract.rows > rows
        said.append(
            f"{abs(extract.rows - rows):,} rows {'more' if more else 'fewer'}".replace("1 rows ", "1 row ")
        )
    if len(said) and abs(extract.rows - rows) != 1:
        said[0] = said[0].replace(" row ", " rows ")
    said += [f"column {name!r} added" for name in added]
    said += [f"column {name!r} dropped" for name in removed]
    said += [f"column {name!r} is {now[name]}, not {before[name]}" for name in retyped]
    return said, {
        "rows_before": rows,
        **({"added": list[Json](added)} if added else {}),
        **({"removed": list[Json](removed)} if removed else {}),
        **({"retyped": list[Json](retyped)} if retyped else {}),
    }


# --- PostgreSQL -----------------------------------------------------------------------------------------------


def look_at_postgres(ask: Ask, counters: Counters, stop: Stop) -> Found:
    """Climb the ladder from the rows on; what proves less work has been tried."""
    with ask.place.engine.connect() as plain:
        connection = plain.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        with stop.using(connection) as driver, connection.begin():
            return _Postgres(ask, connection, driver, stop, counters).look()


@dataclass
class _Postgres:
    ask: Ask
    connection: Connection
    driver: Any
    stop: Stop
    counters: Counters

    def look(self) -> Found:
        ask, options = self.ask, self.ask.options
        self._begin()
        position = read_position(self.connection)
        tables = relations(self.connection, self._names())
        validators: dict[str, Json] = {"position": _json(position), **self._remembered(position, tables)}
        source = self._described(tables)
        proved = self._tried(source, position, tables, validators)
        if proved is not None:
            return proved
        self.stop.check()
        if options.split is not None:
            with ask.rung("partitions"):
                values = self._values(source)
            return ask.partitions(values, validators)
        with ask.rung("extraction"):
            order = self._order(tables)
            rest = f"FROM {source}" + (f" ORDER BY {order}" if order else "")
            extract = from_copy(
                self.driver, self.columns, rest, path=ask.path, most=ask.terms.max_size, stop=self.stop
            )
        if "counts" not in validators and not options.query and validators.get("plain"):
            validators["counts"] = [extract.rows]
        return ask.found(extract, validators)

    def _begin(self) -> None:
        """Fix how values read; lock the table so that it cannot be emptied or replaced under the snapshot.

        The snapshot is taken only after that. TRUNCATE and most of ALTER TABLE do not keep old rows for those
        who have an older snapshot: these would find the table empty, as it never was.
        """
        milliseconds = max(1, int(self.ask.terms.timeout * 1000))
        statement = _SETTINGS.format(milliseconds=milliseconds)
        for name in self._names():
            known = self.counters.relations.get(name)
            if known is not None and known.kind in {"r", "p"}:
                statement += f"; LOCK TABLE {self._quoted(name)} IN ACCESS SHARE MODE"
        self._run(statement)

    def _names(self) -> list[Name]:
        """Tables that decide whether the element changes."""
        options = self.ask.options
        if options.tables is not None:
            return list(options.tables)
        return [] if options.query else [self.ask.thing.name]

    def _quoted(self, name: Name) -> str:
        quote = self.connection.dialect.identifier_preparer.quote_identifier
        return ".".join(quote(part) for part in name if part is not None)

    def _run(self, statement: str) -> Any:  # noqa: ANN401
        self.stop.check()
        return self.connection.execution_options(no_parameters=True).exec_driver_sql(statement)

    def _remembered(self, position: Position, tables: Mapping[Name, Relation]) -> dict[str, Json]:
        """What is to be remembered of tables."""
        names = self._names()
        stored = bool(names) and all(name in tables and tables[name].stored for name in names)
        plain = stored and all(tables[name].plain for name in names)
        then = self.counters
        same = then.position.server == position.server and all(name in then.relations for name in names)
        return {
            "stored": stored,
            "plain": plain,
            "shapes": [tables[name].shape for name in names] if plain else None,
            # These were read before the snapshot was taken: what is counted later was not seen.
            "counters": [then.relations[name].counters for name in names] if plain and same else None,
            "reset": then.reset,
        }

    def _described(self, tables: Mapping[Name, Relation]) -> str:
        """See what columns there are; return what stands after FROM."""
        from sqlalchemy.exc import DBAPIError

        ask = self.ask
        if ask.options.query:
            origin = f"(\n{ask.options.query}\n)"
        else:
            origin = self._quoted(ask.thing.name)
        try:
            cursor = self._run(f"SELECT * FROM {origin} AS q LIMIT 0").cursor
        except DBAPIError as error:
            if not ask.options.query and getattr(error.orig, "sqlstate", "") in {"42P01", "3F000"}:
                raise Gone from None
            raise
        result = cursor.pgresult
        names = [one.name for one in cursor.description]
        types = [(result.ftype(i), result.fmod(i)) for i in range(len(names))]
        self.names = names
        self.columns: list[Column] = postgres_columns(names, types, self._types({oid for oid, _ in types}))
        alias = f"({', '.join(f'c{i}' for i in range(len(names)))})" if names else ""
        source = f"{origin} AS q{alias}"
        part = ask.thing.part
        if part is None:
            return source
        column = self._place_of(part.column)
        if part.value is None:
            return f"{source} WHERE {column} IS NULL"
        relation = tables.get(ask.thing.name)
        (kind,) = self.connection.exec_driver_sql(
            "SELECT format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = %s AND attname = %s",
            (relation.oid if relation else 0, part.column),
        ).one()
        from psycopg.sql import Literal

        return f"{source} WHERE {column} = CAST({Literal(part.value).as_string(self.driver)} AS {kind})"

    def _place_of(self, column: str) -> str:
        if column not in self.names:
            raise LookupError(f"there is no column {column!r}")
        return f"q.c{self.names.index(column)}"

    def _types(self, oids: set[int]) -> dict[int, tuple[str, str, bool]]:
        found = self.connection.exec_driver_sql(
            "SELECT t.oid::bigint, format_type(t.oid, NULL), t.typtype::text, coalesce(e.typtype = 'e', false) "
            "FROM pg_type t LEFT JOIN pg_type e ON e.oid = t.typelem AND t.typcategory = 'A' WHERE t.oid = ANY(%s)",
            (sorted(oids),),
        )
        return {oid: (name, kind, enums) for oid, name, kind, enums in found}

    def _order(self, tables: Mapping[Name, Relation]) -> str:
        """Return the primary key, so that the same rows come in the same order."""
        relation = tables.get(self.ask.thing.name)
        if self.ask.options.query or relation is None:
            return ""
        key = self.connection.exec_driver_sql(
            "SELECT a.attname FROM pg_index i, unnest(i.indkey) WITH ORDINALITY AS k(attnum, place) "
            "JOIN pg_attribute a ON a.attnum = k.attnum "
            "WHERE i.indrelid = %s AND i.indisprimary AND a.attrelid = i.indrelid ORDER BY k.place",
            (relation.oid,),
        ).scalars()
        return ", ".join(self._place_of(name) for name in key)

    # --- rungs ------------------------------------------------------------------------------------------------

    def _tried(
        self, source: str, position: Position, tables: Mapping[Name, Relation], validators: dict[str, Json]
    ) -> Found | None:
        """Try the rungs that read the table."""
        ask, options, known = self.ask, self.ask.options, self.ask.known
        if options.split is not None:
            return None
        if options.cursor is not None or options.probe is not None:
            name = "cursor" if options.cursor is not None else "probe"
            with ask.rung(name):
                validators[name] = self._cursor(source) if options.cursor is not None else self._answer()
            if known and known.get(name) == validators[name] is not None:
                return ask.unchanged({**known, **validators})
            return None
        if validators["plain"]:
            same = self._counted(source, position, validators)
            if same:
                return ask.unchanged({**known, **validators})
        if options.checksum:
            with ask.rung("checksum"):
                validators["checksum"] = sums(self.connection, source)
            if known and known.get("checksum") == validators["checksum"]:
                return ask.unchanged({**known, **validators})
        return None

    def _counted(self, source: str, position: Position, validators: dict[str, Json]) -> bool:
        """Count rows, and those that are younger than the last poll."""
        ask, known = self.ask, self.ask.known
        then = _position(known.get("position"))
        before = then is not None and then.server == position.server and isinstance(known.get("counts"), list)
        if not before and not ask.options.query:
            return False  # the extraction counts
        since = then if before and then is not None else position
        counts: list[Json] = []
        youngest = 0
        with ask.rung("rows"):
            sources = (
                [f"{self._quoted(name)} AS q" for name in self._names()] if ask.options.tables else [source]
            )
            for one in sources:
                counted = young_rows(self.connection, one, since, position)
                if counted is None:
                    return False
                counts.append(counted[0])
                youngest += counted[1]
        validators["counts"] = counts
        same_shape = known.get("shapes") == validators["shapes"]
        return before and same_shape and not youngest and known.get("counts") == counts

    def _cursor(self, source: str) -> Json:
        column = self._place_of(self.ask.options.cursor or "")
        count = "count(*)" if self.ask.options.count else "NULL"
        greatest, rows = self._run(f"SELECT max({column})::text, {count} FROM {source}").one()
        return [greatest, rows]

    def _answer(self) -> Json:
        return _digest(self._run(self.ask.options.probe or "").fetchmany(_MOST_ANSWER))

    def _values(self, source: str) -> list[str | None]:
        column = self._place_of(self.ask.options.split or "")
        found = self._run(f"SELECT DISTINCT {column}::text FROM {source} LIMIT {_MOST_PARTITIONS + 1}")
        return _partitions(found.scalars())


def _json(position: Position) -> Json:
    return {"server": position.server, "snapshot": position.snapshot, "standby": position.standby}


def _position(value: Json) -> Position | None:
    if not isinstance(value, dict):
        return None
    return Position(str(value["server"]), str(value["snapshot"]), bool(value["standby"]))


def _digest(rows: Any) -> str:  # noqa: ANN401  (rows of any driver)
    """Stand for the answer of a probe."""
    said = [[None if value is None else as_text(value) for value in row] for row in rows]
    return sha256(dumps(said).encode()).hexdigest()


def _partitions(values: Any) -> list[str | None]:  # noqa: ANN401
    found = sorted(values, key=lambda value: (value is not None, value))
    if len(found) > _MOST_PARTITIONS:
        raise LookupError(f"there are more than {_MOST_PARTITIONS:,} partitions; split by another column")
    return found


# --- any database ---------------------------------------------------------------------------------------------


def look_anywhere(ask: Ask, mark: Mark | None, stop: Stop) -> Found:
    """Climb the ladder in a database that is not PostgreSQL; ``mark`` is that of SQLite."""
    engine = ask.place.engine
    with engine.connect() as connection:
        if mark is None and "REPEATABLE READ" in engine.dialect.get_isolation_level_values(None):  # type: ignore[arg-type]
            connection = connection.execution_options(isolation_level="REPEATABLE READ")
        with stop.using(connection), connection.begin():
            if ask.place.kind == "sqlite":
                connection.exec_driver_sql("BEGIN")
            return _Anywhere(ask, connection, stop, mark).look()


@dataclass
class _Anywhere:
    ask: Ask
    connection: Connection
    stop: Stop
    mark: Mark | None

    def look(self) -> Found:
        ask, options = self.ask, self.ask.options
        self._find()
        validators: dict[str, Json] = {}
        if self.mark is not None:
            validators = {"mark": self.mark.json(), "stored": self._stored()}
        if options.split is not None:
            with ask.rung("partitions"):
                values = self._values()
            return ask.partitions(values, validators)
        proved = self._tried(validators)
        if proved is not None:
            return proved
        with ask.rung("extraction"):
            extract = from_cursor(
                self._cursor_of_rows,
                self.declared,
                path=ask.path,
                most=ask.terms.max_size,
                stop=self.stop,
            )
        return ask.found(extract, validators)

    def _find(self) -> None:
        """See whether there is such a table, and what columns it has."""
        from sqlalchemy import column, inspect, quoted_name, table, text
        from sqlalchemy.exc import NoSuchTableError

        options, name = self.ask.options, self.ask.thing.name
        self.key: list[str] = []
        self.declared: list[str] = []
        if options.query:
            wanted = {options.cursor} - {None}
            escaped = options.query.replace("\\:", "\\\\:").replace(":", "\\:")
            columns = [column(quoted_name(str(one), quote=True)) for one in wanted]
            self.origin: Any = text(f"\n{escaped}\n").columns(*columns).subquery("q")
            self.plain: Any = text(f"{escaped}\n")
            return
        try:
            seen = inspect(self.connection)
            listed = seen.get_columns(name.table, schema=name.schema)
            self.key = list(seen.get_pk_constraint(name.table, schema=name.schema)["constrained_columns"])
        except NoSuchTableError:
            raise Gone from None
        self.names = [one["name"] for one in listed]
        self.declared = [str(one["type"]) for one in listed]
        quoted = [column(quoted_name(one, quote=True)) for one in self.names]
        schema = quoted_name(name.schema, quote=True) if name.schema else None
        self.origin = table(quoted_name(name.table, quote=True), *quoted, schema=schema).alias("q")
        self.plain = None

    def _column(self, name: str) -> Any:  # noqa: ANN401
        if name not in self.origin.c:
            raise LookupError(f"there is no column {name!r}")
        return self.origin.c[name]

    def _where(self, statement: Any) -> Any:  # noqa: ANN401
        """Leave only the rows of the partition."""
        from sqlalchemy import String, cast

        part = self.ask.thing.part
        if part is None:
            return statement
        column = self._column(part.column)
        return statement.where(column.is_(None) if part.value is None else cast(column, String) == part.value)

    def _stored(self) -> bool:
        """Tell whether the rows are in the file, and depend on nothing else, as a view may on the time."""
        options, name = self.ask.options, self.ask.thing.name
        if options.tables is not None:
            return True
        if options.query:
            return False
        schema = self.connection.dialect.identifier_preparer.quote_identifier(name.schema or "main")
        found = self.connection.exec_driver_sql(
            f"SELECT type, sql FROM {schema}.sqlite_master WHERE lower(name) = lower(?)",  # noqa: S608
            (name.table,),
        ).first()
        return (
            found is not None and found[0] == "table" and "virtual" not in str(found[1]).lower().split()[:2]
        )

    def _cursor_of_rows(self) -> Any:  # noqa: ANN401
        """Ask for all rows; the cursor is that of the driver, as its rows cost least."""
        from sqlalchemy import select, text

        self.stop.check()
        if self.plain is not None:
            statement = self.plain
        else:
            statement = self._where(select(text("q.*")).select_from(self.origin))
            statement = statement.order_by(*(self._column(name) for name in self.key))
        result = self.connection.execution_options(stream_results=True, max_row_buffer=1).execute(statement)
        return result.cursor

    def _tried(self, validators: dict[str, Json]) -> Found | None:
        ask, options, known = self.ask, self.ask.options, self.ask.known
        name = "cursor" if options.cursor is not None else "probe" if options.probe is not None else None
        if name is not None:
            with ask.rung(name):
                validators[name] = self._greatest() if name == "cursor" else self._answer()
            if known and known.get(name) == validators[name]:
                return ask.unchanged({**known, **validators})
        elif options.checksum and known and ask.fingerprint is not None:
            with ask.rung("checksum"):
                read = from_cursor(
                    self._cursor_of_rows, self.declared, path=None, most=ask.terms.max_size, stop=self.stop
                )
            if read.fingerprint == ask.fingerprint:
                return ask.unchanged({**known, **validators})
        return None

    def _greatest(self) -> Json:
        from sqlalchemy import func, select

        asked = [func.max(self._column(self.ask.options.cursor or ""))]
        if self.ask.options.count:
            asked.append(func.count())
        found = self.connection.execute(self._where(select(*asked).select_from(self.origin))).one()
        return [None if value is None else as_text(value) for value in found]

    def _answer(self) -> Json:
        asked = self.connection.execution_options(no_parameters=True).exec_driver_sql(
            self.ask.options.probe or ""
        )
        return _digest(asked.fetchmany(_MOST_ANSWER))

    def _values(self) -> list[str | None]:
        from sqlalchemy import String, cast, select

        column = cast(self._column(self.ask.options.split or ""), String)
        found = self.connection.execute(select(column).distinct().limit(_MOST_PARTITIONS + 1))
        return _partitions(found.scalars())
