# ruff: noqa: S608  (these statements are attacks)
"""Databases of others: what is endless or huge fails alone and in time, and what is odd is kept."""

import math
import resource
import time

import pytest

MEGABYTE = 1_000_000
ENDLESS = "WITH RECURSIVE n(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM n)"
NO_ANSWER, TOO_LARGE = "no answer within", "a cell is larger than max_size"
OF_SQLITE = {
    f"{ENDLESS} SELECT a FROM n": NO_ANSWER,
    f"{ENDLESS} SELECT sum(a) AS a FROM n": NO_ANSWER,
    "SELECT zeroblob(900000000) AS a": TOO_LARGE,
    "SELECT replace(hex(zeroblob(200000000)), '0', 'xx') AS a": TOO_LARGE,
    f"{ENDLESS} SELECT zeroblob(40000000) AS a FROM n LIMIT 100": TOO_LARGE,
    f"{ENDLESS} SELECT zeroblob(9000000) AS a FROM n": NO_ANSWER,
    "SELECT " + ", ".join(f"zeroblob(1000000) AS a{n}" for n in range(900)): TOO_LARGE,
}
"""Views, and what is told of them: some made a process of gigabytes."""
OF_POSTGRES = {
    "SELECT pg_sleep(600)::text AS a": NO_ANSWER,
    "SELECT a FROM generate_series(1, 1000000000000) a": NO_ANSWER,
    "SELECT repeat('x', 900000000) AS a": NO_ANSWER,
    "SELECT set_config('statement_timeout', '0', false) AS a, pg_sleep(600)::text AS b": NO_ANSWER,
    "SELECT set_config('transaction_read_only', 'off', false) AS a": "read-write mode",
}


def peak():
    """Bytes of memory that this process has had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.parametrize("view", OF_SQLITE, ids=range(len(OF_SQLITE)))
def test_views_of_sqlite_that_are_endless_or_huge(lite, lite_poller, view):
    lite.execute(f"CREATE VIEW bad AS {view}")
    before = peak()
    found = lite_poller.element("shop#bad").poll(timeout=1.0, max_size=20 * MEGABYTE)
    assert found.outcome == "failed"
    assert OF_SQLITE[view] in found.detail
    assert peak() - before < 500 * MEGABYTE


@pytest.mark.parametrize("view", OF_POSTGRES, ids=range(len(OF_POSTGRES)))
def test_views_of_postgres_that_are_endless_or_huge(pg, pg_poller, view):
    pg.execute(f"CREATE VIEW bad AS {view}")
    found = pg_poller.element("shop#bad").poll(timeout=1.0, max_size=20 * MEGABYTE)
    assert found.outcome == "failed"
    assert OF_POSTGRES[view] in found.detail
    others = "query LIKE '%bad%' AND pid <> pg_backend_pid() AND state = 'active'"
    left = f"SELECT FROM pg_stat_activity WHERE {others}"
    until = time.monotonic() + 60.0
    while pg.execute(left).fetchall() and time.monotonic() < until:
        time.sleep(0.1)
    assert not pg.execute(left).fetchall()


def test_large_rows_among_small_ones_are_read_a_few_at_a_time(lite, lite_poller):
    lite.execute("CREATE TABLE odd (a INTEGER PRIMARY KEY, b)")
    lite.execute(f"INSERT INTO odd {ENDLESS} SELECT a, a FROM n LIMIT 2000")
    lite.execute("UPDATE odd SET b = zeroblob(3000000) WHERE a BETWEEN 1000 AND 1060")
    before = peak()
    element = lite_poller.element("shop#odd")
    assert element.poll(max_size=20 * MEGABYTE).outcome == "changed"
    assert element.copy.num_rows == 2000
    assert peak() - before < 900 * MEGABYTE


def test_odd_values_of_sqlite_are_kept(lite, lite_poller):
    lite.execute("CREATE TABLE odd (a INTEGER, b REAL, c TEXT)")
    lite.execute("INSERT INTO odd VALUES ('text', 9e999, CAST(x'fffe00' AS TEXT)), (x'00ff', -9e999, 5)")
    lite.execute("INSERT INTO odd VALUES (9223372036854775807, NULL, 'a' || char(0) || 'b')")
    element = lite_poller.element("shop#odd")
    assert element.poll().outcome == "changed"
    assert len(element.rows) == 3
    assert element.poll().outcome == "unchanged"


def test_odd_values_of_postgres_are_kept(pg, pg_poller):
    values = (
        "'NaN'::numeric", "'Infinity'::float8", "'infinity'::timestamptz", "'4713-01-01 BC'::date",
        "'5 years -3 days'::interval", "'[1,5)'::int4range", "ARRAY[ARRAY[1, NULL]]", "'{\"a\": NaN}'::text",
        "B'101'", "'fe80::1'::inet", "ROW(1, 'a', NULL)::text", "''::bytea", "repeat('\u202e', 3)",
    )  # fmt: skip
    pg.execute(f"CREATE VIEW odd AS SELECT {', '.join(f'{v} AS a{n}' for n, v in enumerate(values))}")
    element = pg_poller.element("shop#odd")
    assert element.poll().outcome == "changed"
    (row,) = element.rows
    assert len(row) == len(values)
    assert math.isinf(float(row[1]))
    assert element.poll().outcome == "unchanged"


@pytest.mark.parametrize(
    "content", [b"", b"SQLite format 3\0", b"SQLite format 3\0" + b"\xff" * 5000, b"x" * 5000]
)
def test_files_that_are_no_databases_are_told(lite_path, lite_poller, content):
    lite_path.write_bytes(content)
    found = lite_poller.element("shop#users").poll()
    assert found.outcome in {"failed", "gone"}
    assert "\n" not in found.detail
    assert lite_path.read_bytes() == content
