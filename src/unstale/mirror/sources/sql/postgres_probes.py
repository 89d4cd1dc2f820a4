"""PostgreSQL: probes that prove, cheaply, that a table has not changed.

*Position.* The transactions that have finished, as ``pg_current_snapshot`` tells them. While they are the
same, every reader sees the same rows. The position in the WAL is no proof: a commit is in the WAL before
readers can see it, so that a table may change for readers while the WAL stays the same.

*Counters.* Rows inserted, updated and deleted so far, with the file of the table (which TRUNCATE replaces),
its columns and its partitions. Sessions report their work late: after a second, after ten if they go idle, or
when a long procedure with commits in it ends. So equal counters prove something only if all sessions of the
database have been idle for longer than that.

*Rows.* The number of rows, and whether one is younger than the snapshot of the last poll (``xmin``). This
scans the table, but moves no data.

After a crash, after a restart and on another server none of them is a proof: `Position.server` differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unstale.mirror.source import Json

from .keys import TableName

if TYPE_CHECKING:
    from sqlalchemy import Connection

_POSITION_QUERY = """
SELECT pg_current_snapshot()::text, pg_is_in_recovery(),
  CASE WHEN version() ~ '^PostgreSQL [0-9.]+[a-z0-9]* ([(][^)]*[)] )?on ' THEN concat_ws('/',
    (SELECT oid FROM pg_database WHERE datname = current_database()),
    extract(epoch FROM pg_postmaster_start_time()),
    (SELECT extract(epoch FROM stats_reset) FROM pg_stat_bgwriter),
    pg_is_in_recovery()) ELSE '' END
"""
# `read_position` asks this: the snapshot, whether the server is a standby, and the identity of the server.
# After a crash, stats_reset is the time of the recovery. Servers that only speak the protocol of PostgreSQL
# have versions like 15.2-YB-2.25, and transactions of another kind; their identity is empty.

_SETTLED_QUERY = """
SELECT current_setting('server_version_num')::int >= 150000
  AND NOT pg_is_in_recovery()
  AND current_setting('track_counts')::bool
  AND NOT EXISTS (
    SELECT FROM pg_db_role_setting, unnest(setconfig) AS one
    WHERE lower(left(one, 13)) = 'track_counts=')
  AND NOT EXISTS (
    SELECT FROM pg_stat_activity
    WHERE datname = current_database()
      AND pid <> pg_backend_pid()
      AND coalesce(application_name, '') <> 'unstale'
      AND coalesce(backend_type, '') <> 'autovacuum worker'
      AND NOT coalesce(state = 'idle' AND state_change < clock_timestamp() - interval '12 seconds', false)),
  (SELECT extract(epoch FROM stats_reset)::text FROM pg_stat_database WHERE datname = current_database())
"""
# `read_counters` asks this: whether the counters are complete, and when they were set to 0.
# Sessions whose state this user may not see have no state, and count as busy.

_RELATIONS_QUERY = """
WITH RECURSIVE wanted AS (
  SELECT * FROM unnest(%(numbers)s::int[], %(schemas)s::text[], %(tables)s::text[]) AS w(n, s, t)
), root AS (
  SELECT w.n, c.oid, c.relkind
  FROM wanted w JOIN pg_class c ON c.relname = w.t JOIN pg_namespace ns ON ns.oid = c.relnamespace
  WHERE c.relkind IN ('r', 'p', 'm', 'v', 'f', 'S')
    AND CASE WHEN w.s IS NULL THEN pg_table_is_visible(c.oid) ELSE ns.nspname = w.s END
), tree AS (
  SELECT n, oid, 'root' AS how FROM root
  UNION
  SELECT tree.n, i.inhrelid, coalesce(to_jsonb(i) ->> 'inhdetachpending', '')
  FROM tree JOIN pg_inherits i ON i.inhparent = tree.oid
), shapes AS (
  SELECT a.attrelid AS oid,
    string_agg(concat_ws(' ', a.attnum, a.attname, a.atttypid, a.atttypmod, a.attgenerated,
      (SELECT string_agg(enumlabel, ' ' ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = b.oid)
    ), ',' ORDER BY a.attnum) AS shape,
    bool_and(a.attgenerated <> 'v' AND (
      b.typtype = 'e'
      OR b.typtype = 'b' AND b.typcategory <> 'A' AND b.typname NOT LIKE 'reg%%'
      OR b.typtype IN ('r', 'm') AND b.typnamespace = 'pg_catalog'::regnamespace)) AS plain
  FROM (SELECT DISTINCT oid FROM tree) AS one
  JOIN pg_attribute a ON a.attrelid = one.oid AND a.attnum > 0 AND NOT a.attisdropped
  JOIN pg_type t ON t.oid = a.atttypid
  JOIN pg_type b ON b.oid =
    CASE WHEN t.typtype = 'd' THEN t.typbasetype WHEN t.typcategory = 'A' THEN t.typelem ELSE t.oid END
  GROUP BY a.attrelid
)
SELECT tree.n,
  (SELECT root.oid::bigint FROM root WHERE root.n = tree.n) AS oid,
  (SELECT root.relkind FROM root WHERE root.n = tree.n) AS kind,
  bool_and(c.relkind IN ('r', 'p', 'm') AND NOT c.relrowsecurity
    AND NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')) AS stored,
  bool_and(NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'timescaledb')
    AND coalesce(shapes.plain, true) AND (c.relkind = 'p' OR coalesce(am.amname = 'heap', false))
    AND (tree.how <> 'root' OR has_table_privilege(c.oid, 'SELECT')))
    AS plain,
  md5(string_agg(concat_ws(' ', c.oid, tree.how, c.relkind, shapes.shape), ',' ORDER BY c.oid)
    || (SELECT coalesce(string_agg(concat_ws(' ', extname, extversion), ',' ORDER BY extname), '')
      FROM pg_extension)) AS shape,
  md5(string_agg(concat_ws(' ', c.oid, c.relfilenode, pg_stat_get_tuples_inserted(c.oid),
    pg_stat_get_tuples_updated(c.oid), pg_stat_get_tuples_deleted(c.oid)), ',' ORDER BY c.oid)) AS counters
FROM tree JOIN pg_class c ON c.oid = tree.oid
LEFT JOIN pg_am am ON am.oid = c.relam
LEFT JOIN shapes ON shapes.oid = c.oid
GROUP BY tree.n
"""
# `relations` asks this: one row for each table, with its partitions.
# Columns are "plain" if their values depend on the rows alone. Otherwise something else can change them:
# renaming a table changes a regclass, and a new function changes a virtual column. Citus keeps rows on other
# servers, and TimescaleDB in tables that the catalogue does not connect with theirs.

_NOT_READY = "55000"
"""What a standby answers that is asked for times of commits and whose primary keeps none."""


@dataclass(frozen=True)
class Position:
    """The position of a server: which transactions have finished."""

    server: str
    """Identity of the server; differs after a crash or a restart. Empty if it is not PostgreSQL itself."""
    snapshot: str
    """``xmin:xmax:running``."""
    standby: bool

    @classmethod
    def of(cls, value: Json) -> Position | None:
        """Return the position that `json` wrote; None if there is none."""
        if not isinstance(value, dict):
            return None
        return cls(str(value["server"]), str(value["snapshot"]), bool(value["standby"]))

    def json(self) -> Json:
        """Return the position for the validators."""
        return {"server": self.server, "snapshot": self.snapshot, "standby": self.standby}

    @property
    def sure(self) -> bool:
        """Whether an equal snapshot means equal rows; a standby does not say which transactions run."""
        return self.server != "" and (not self.standby or self.lowest == self.beyond)

    @property
    def lowest(self) -> int:
        """All transactions before this number have finished."""
        return int(self.snapshot.split(":")[0])

    @property
    def beyond(self) -> int:
        """No transaction from this number on has finished."""
        return int(self.snapshot.split(":")[1])


@dataclass(frozen=True)
class Relation:
    """What the catalogue says about a table, with its partitions."""

    oid: int
    kind: str
    stored: bool
    """Whether this database stores its rows, and this user sees all: no view, foreign table, policy."""
    plain: bool
    """Whether rows change only by being written, and this user may read them."""
    shape: str
    """Digest of its columns and partitions."""
    counters: str


@dataclass(frozen=True)
class Counters:
    """Counters of some tables."""

    position: Position
    settled: bool
    """Whether the counters include all work of all sessions."""
    reset: str
    """When the counters were set to 0."""
    relations: Mapping[TableName, Relation]


def read_position(connection: Connection) -> Position:
    """Return the position of the server."""
    snapshot, standby, server = connection.exec_driver_sql(_POSITION_QUERY).one()
    return Position(server, snapshot, standby)


def last_commit(connection: Connection, source: str) -> float | None:
    """Return when the youngest rows were committed, in seconds since 1970; None if the server keeps no times.

    ``source`` is what follows FROM: the rows of a table. Rows that were deleted tell nothing.
    """
    if connection.exec_driver_sql("SELECT current_setting('track_commit_timestamp')").scalar() != "on":
        return None
    writers = f"SELECT DISTINCT q.xmin AS x FROM {source}"  # noqa: S608  (as `PostgresPoll` quotes it)
    asked = f"SELECT extract(epoch FROM max(pg_xact_commit_timestamp(x))) FROM ({writers}) AS t"  # noqa: S608
    from sqlalchemy.exc import DBAPIError

    try:
        with connection.begin_nested():
            found = connection.execution_options(no_parameters=True).exec_driver_sql(asked).scalar()
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) == _NOT_READY:
            return None
        raise
    return None if found is None else float(found)


def read_counters(connection: Connection, names: Iterable[TableName]) -> Counters:
    """Return the counters of tables.

    The order of the three statements matters: if the second says that counters are complete, the third counts
    all transactions that had finished before the first. Each statement must see what is committed when it
    starts.
    """
    position = read_position(connection)
    settled, reset = connection.exec_driver_sql(_SETTLED_QUERY).one()
    return Counters(position, bool(settled), reset or "", relations(connection, names))


def relations(connection: Connection, names: Iterable[TableName]) -> dict[TableName, Relation]:
    """Return what the catalogue says about tables."""
    listed = sorted(set(names), key=lambda name: (name.schema or "", name.table))
    found = connection.exec_driver_sql(
        _RELATIONS_QUERY,
        {
            "numbers": list(range(len(listed))),
            "schemas": [name.schema for name in listed],
            "tables": [name.table for name in listed],
        },
    )
    return {listed[n]: Relation(oid, *rest) for n, oid, *rest in found}


def young_rows(connection: Connection, source: str, since: Position, now: Position) -> tuple[int, int] | None:
    """Count rows, and those that may be younger than a position; None if that is too long ago to tell.

    Parameters
    ----------
    connection
        In the transaction that reads the rows.
    source
        The SQL after FROM.
    since, now
        The positions of the last poll and of this one.
    """
    if now.beyond - since.lowest > 2_000_000_000:  # numbers of transactions wrap around
        return None
    first = f"(SELECT age('{since.lowest % 2**32}'::xid))"
    asked = f"SELECT count(*), count(*) FILTER (WHERE age(q.xmin) <= {first}) FROM {source}"  # noqa: S608
    count, young = connection.execution_options(no_parameters=True).exec_driver_sql(asked).one()
    return count, young


def sums(connection: Connection, source: str) -> Json:
    """Return checksums over all rows, computed by the database in any order."""
    both = ", ".join(f"sum(hashtextextended(q::text, {seed}))::text" for seed in (1, 2))
    asked = f"SELECT count(*)::text, {both} FROM {source}"  # noqa: S608
    return list(connection.execution_options(no_parameters=True).exec_driver_sql(asked).one())
