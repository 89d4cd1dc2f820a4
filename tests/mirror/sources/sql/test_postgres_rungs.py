"""What each rung of PostgreSQL must catch, and what those that one has to ask for are known to miss."""

import re
import threading
import time
from contextlib import closing

import psycopg
import pytest
from sqlalchemy import event

from unstale.mirror.settings import Database
from unstale.mirror.sources.sql import postgres_poll
from unstale.mirror.sources.sql.postgres_probes import _POSITION_QUERY, Position

from .conftest import deciding

ORDERS = (
    "CREATE TABLE orders (id int PRIMARY KEY, region text, total int, updated_at timestamptz DEFAULT now())"
)
ROWS = (
    "INSERT INTO orders SELECT i, CASE i % 2 WHEN 0 THEN 'eu' ELSE 'us' END, i FROM generate_series(1, 100) i"
)


@pytest.fixture
def orders(pg_poller, once):
    once(ORDERS, ROWS)
    element = pg_poller.element("shop#orders")
    found = element.poll()
    assert found.outcome == "changed"
    assert found.meta["rows"] == 100
    return element


def test_nothing_happened(orders):
    assert deciding(orders.poll()) == "position"


def test_commits_tell_when_a_table_changed(orders, once):
    before = time.time()
    once("UPDATE orders SET total = 0 WHERE id = 3")
    after = time.time()
    once("CREATE TABLE other (a int)", "INSERT INTO other VALUES (1)")  # later, and of no interest
    found = orders.poll()
    assert found.outcome == "changed"
    assert before - 1.0 <= found.modified <= after + 1.0
    once("UPDATE orders SET total = total")  # the same rows
    assert orders.poll().outcome == "unchanged"
    once("DELETE FROM orders WHERE id = 3")
    found = orders.poll()
    assert (found.outcome, found.modified) == ("changed", None)  # nobody says when that was


def test_a_server_that_keeps_no_times_of_commits_tells_none(orders, once, monkeypatch):
    monkeypatch.setattr(postgres_poll, "last_commit", lambda *_: None)
    once("UPDATE orders SET total = 0 WHERE id = 3")
    assert orders.poll().modified is None


def test_something_happened_elsewhere(orders, once):
    once("CREATE TABLE other (a int)", "INSERT INTO other VALUES (1)")
    found = orders.poll()
    assert (found.outcome, deciding(found)) == ("unchanged", "counters")
    assert deciding(orders.poll()) == "position"


def test_counters_of_sessions_that_are_not_settled_prove_nothing(orders, pg, once):
    pg.execute("SELECT 1")  # a session that may have something to report
    once("CREATE TABLE other (a int)")
    found = orders.poll()
    assert (found.outcome, deciding(found)) == ("unchanged", "rows")


def test_a_change_that_is_not_counted_yet_is_seen(orders, pg):
    for _ in range(3):  # the first is reported at once, the next not within a second
        pg.execute("UPDATE orders SET total = total + 1 WHERE id = 7")
        found = orders.poll()
        assert found.outcome == "changed"
        assert orders.rows[6][2] == pg.execute("SELECT total FROM orders WHERE id = 7").fetchone()[0]


def test_commits_within_a_procedure_are_seen_while_it_runs(orders, pg, postgres_url):
    """They are counted only when it ends."""
    pg.execute(
        "CREATE PROCEDURE work() LANGUAGE plpgsql AS $$ BEGIN "
        "UPDATE orders SET total = -1 WHERE id = 1; COMMIT; PERFORM pg_advisory_lock(7); END $$"
    )
    pg.close()
    orders.poll()
    with closing(psycopg.connect(postgres_url, autocommit=True)) as other:
        with closing(psycopg.connect(postgres_url, autocommit=True)) as holder:
            holder.execute("SELECT pg_advisory_lock(7)")
            worker = threading.Thread(target=other.execute, args=("CALL work()",))
            worker.start()
            waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            while holder.execute(waiting).fetchone() == (0,):
                assert worker.is_alive()
                time.sleep(0.01)
            found = orders.poll()
            assert worker.is_alive()
        worker.join()
    assert (found.outcome, orders.rows[0][2]) == ("changed", -1)


def test_rolled_back(orders, postgres_url):
    with closing(psycopg.connect(postgres_url)) as other:
        other.execute("DELETE FROM orders")
        other.rollback()
    found = orders.poll()
    assert (found.outcome, deciding(found)) == ("unchanged", "rows")


def test_a_transaction_that_is_under_way_is_seen_when_it_ends(orders, postgres_url):
    with closing(psycopg.connect(postgres_url)) as other:
        other.execute("UPDATE orders SET total = 0 WHERE id = 1")
        assert orders.poll().outcome == "unchanged"
        assert orders.poll().outcome == "unchanged"
        other.commit()
        assert orders.poll().outcome == "changed"


def test_prepared_transactions_and_savepoints(orders, once):
    once("BEGIN", "SAVEPOINT a", "UPDATE orders SET total = 0 WHERE id = 1", "RELEASE a", "COMMIT")
    assert orders.poll().outcome == "changed"


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE orders SET total = 0 WHERE id = 1", ""),
        ("DELETE FROM orders WHERE id <= 12", "12 rows fewer"),
        ("DELETE FROM orders WHERE id = 3", "1 row fewer"),
        ("TRUNCATE orders", "100 rows fewer"),
        ("INSERT INTO orders VALUES (1000, 'eu', 1)", "1 row more"),
        ("ALTER TABLE orders ADD COLUMN paid boolean DEFAULT true", "column 'paid' added"),
        ("ALTER TABLE orders DROP COLUMN total", "column 'total' dropped"),
        ("ALTER TABLE orders RENAME total TO sum", "column 'sum' added; column 'total' dropped"),
        ("ALTER TABLE orders ALTER total TYPE bigint", "column 'total' is int64, not int32"),
        ("ALTER TABLE orders ALTER total TYPE int USING total + 1", ""),
    ],
)
def test_every_change_is_seen(orders, once, statement, said):
    once(statement)
    found = orders.poll()
    assert found.outcome == "changed"
    assert deciding(found) == "extraction"
    assert said in found.detail


@pytest.mark.parametrize(
    "statement",
    [
        "VACUUM orders",
        "VACUUM FULL orders",
        "VACUUM FREEZE orders",
        "ANALYZE orders",
        "CLUSTER orders USING orders_pkey",
    ],
)
def test_housekeeping_is_no_change(orders, once, statement):
    once(statement)
    found = orders.poll()
    assert found.outcome == "unchanged"
    assert deciding(found) != "extraction"


def test_written_over_with_the_same_is_no_change(orders, once):
    once("UPDATE orders SET total = total")
    found = orders.poll()
    assert (found.outcome, deciding(found)) == ("unchanged", "extraction")
    assert "the same rows" in found.detail


def test_swapped_tables_are_seen(orders, once):
    once(
        "CREATE TABLE new_orders (LIKE orders INCLUDING ALL)",
        "INSERT INTO new_orders SELECT id, region, total + 1, updated_at FROM orders",
    )
    orders.poll()
    once("BEGIN", "ALTER TABLE orders RENAME TO old", "ALTER TABLE new_orders RENAME TO orders", "COMMIT")
    assert orders.poll().outcome == "changed"


@pytest.mark.parametrize("reset", ["pg_stat_reset()", "pg_stat_reset_single_table_counters('one'::regclass)"])
def test_reset_counters_prove_nothing(pg_poller, once, reset):
    once("CREATE TABLE one (n int)", "INSERT INTO one VALUES (1)")
    element = pg_poller.element("shop#one")
    element.poll()
    before = element.known.validators["counters"]
    once(f"SELECT {reset}", "INSERT INTO one VALUES (2)")
    assert element.poll().outcome == "changed"
    assert element.known.validators["counters"] == before  # which is why they cannot be trusted here


def test_sessions_that_do_not_count_are_not_believed(orders, once, pg):
    pg.execute("ALTER ROLE postgres SET track_counts = off")
    pg.close()
    try:
        once("UPDATE orders SET total = 0 WHERE id = 1")  # without a trace in the counters
        assert orders.poll().outcome == "changed"
    finally:
        once("ALTER ROLE postgres RESET track_counts")


# --- what else rows depend on -----------------------------------------------------------------------------


def test_partitions_that_come_and_go(pg_poller, once):
    once(
        "CREATE TABLE sales (day int, n int) PARTITION BY RANGE (day)",
        "CREATE TABLE one PARTITION OF sales FOR VALUES FROM (1) TO (2)",
        "CREATE TABLE two (day int, n int)",
        "INSERT INTO one SELECT 1, i FROM generate_series(1, 10) i",
        "INSERT INTO two SELECT 2, i FROM generate_series(1, 10) i",
    )
    sales = pg_poller.element("shop#sales")
    sales.poll()
    once(
        "ALTER TABLE sales DETACH PARTITION one",
        "ALTER TABLE sales ATTACH PARTITION two FOR VALUES FROM (2) TO (3)",
    )
    assert sales.poll().outcome == "changed"
    assert {day for day, _ in sales.rows} == {2}
    once("UPDATE two SET n = 0 WHERE n = 1")
    assert sales.poll().outcome == "changed"
    once("CREATE TABLE other (a int)")
    assert deciding(sales.poll()) == "counters"


def test_labels_of_enums(pg_poller, once):
    once(
        "CREATE TYPE mood AS ENUM ('sad', 'glad')",
        "CREATE TABLE people (mood mood)",
        "INSERT INTO people VALUES ('sad')",
    )
    people = pg_poller.element("shop#people")
    people.poll()
    once("ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'")
    assert people.poll().outcome == "changed"
    assert people.rows == [("blue",)]


def test_columns_whose_values_are_not_in_the_rows(pg_poller, once):
    once(
        "CREATE FUNCTION twice(n int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 2 * n'",
        "CREATE TABLE a (n int)",
        "CREATE TABLE b (what regclass)",
        "INSERT INTO a VALUES (1)",
        "INSERT INTO b VALUES ('a')",
    )
    named = pg_poller.element("shop#b")
    named.poll()
    once("ALTER TABLE a RENAME TO c")
    assert named.poll().outcome == "changed"
    assert named.rows == [("c",)]


def test_views_and_queries_may_depend_on_anything(pg_poller, once):
    once(ORDERS, ROWS, "CREATE VIEW late AS SELECT clock_timestamp() AS now FROM orders LIMIT 1")
    view = pg_poller.element("shop#late")
    query = pg_poller.element("shop#time", query="SELECT clock_timestamp() AS now;")
    for element in (view, query):
        assert [element.poll().outcome for _ in range(2)] == ["changed", "changed"]


def test_a_query_of_which_the_tables_are_known(pg_poller, once):
    once(ORDERS, ROWS, "CREATE TABLE other (a int)")
    query = "SELECT region, sum(total) AS total FROM orders GROUP BY region -- by region"
    element = pg_poller.element("shop#regions", query=query, tables=["orders"])
    assert element.poll().outcome == "changed"
    assert sorted(element.rows) == [("eu", 2550), ("us", 2500)]
    assert deciding(element.poll()) == "position"
    once("INSERT INTO other VALUES (1)")
    assert deciding(element.poll()) == "counters"
    once("UPDATE orders SET total = total")
    assert element.poll().detail.startswith("the same rows")
    once("DELETE FROM orders WHERE id = 1")
    assert element.poll().outcome == "changed"


def test_policies(once, postgres_url, poller_of):
    once(
        ORDERS,
        ROWS,
        "DO $$ BEGIN CREATE ROLE clerk LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$",
        "GRANT SELECT ON orders TO clerk",
        "ALTER TABLE orders ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY p ON orders USING (extract(usec FROM clock_timestamp())::int % 2 = id % 2)",
    )
    poller = poller_of(shop=Database(postgres_url.replace("postgres:@", "clerk:@")))
    orders = poller.element("shop#orders")
    orders.poll()
    assert deciding(orders.poll()) == "extraction"


# --- rungs to ask for -------------------------------------------------------------------------------------


def test_cursor(pg_poller, once):
    once(ORDERS, ROWS)
    careful = pg_poller.element("shop#orders", cursor="updated_at")
    quick = pg_poller.element("shop#orders", cursor="updated_at", count=False)

    def outcomes():
        return careful.poll().outcome, quick.poll().outcome

    assert outcomes() == ("changed", "changed")
    once("UPDATE orders SET total = 0, updated_at = now() WHERE id = 1")
    assert outcomes() == ("changed", "changed")
    once("CREATE TABLE other (a int)")
    assert outcomes() == ("unchanged", "unchanged")
    once("UPDATE orders SET total = 5 WHERE id = 1")  # as is known: an update that leaves the column alone
    assert outcomes() == ("unchanged", "unchanged")
    assert deciding(careful.poll()) == "cursor"
    once("UPDATE orders SET updated_at = '2999-01-02 03:04:05+01' WHERE id = 1")
    assert careful.poll().modified == 32472237845.0  # as it says
    quick.poll()
    once("DELETE FROM orders WHERE id = 2")  # as is known: deletes, if rows are not counted
    assert outcomes() == ("changed", "unchanged")


def test_probe(pg_poller, once):
    once(ORDERS, ROWS, "CREATE TABLE versions (n int)", "INSERT INTO versions VALUES (1)")
    element = pg_poller.element("shop#orders", probe="SELECT n, '100%' FROM versions;")
    assert element.poll().outcome == "changed"
    once("UPDATE orders SET total = 0")  # as is known: what the probe does not ask about
    found = element.poll()
    assert (found.outcome, deciding(found)) == ("unchanged", "probe")
    once("UPDATE versions SET n = 2")
    assert element.poll().outcome == "changed"


def test_checksum(pg_poller, once):
    once(ORDERS, ROWS, "CREATE VIEW shown AS SELECT id, total AS q FROM orders WHERE total > 50")
    element = pg_poller.element("shop#shown", checksum=True)
    assert element.poll().outcome == "changed"
    once("UPDATE orders SET total = 0 WHERE id = 1")
    found = element.poll()
    assert (found.outcome, deciding(found)) == ("unchanged", "checksum")
    for change in ("UPDATE orders SET total = 1000 WHERE id = 100", "DELETE FROM orders WHERE id = 99"):
        once(change)
        assert element.poll().outcome == "changed"


def test_other_options_start_afresh(pg_poller, once):
    once(ORDERS, ROWS)
    before = pg_poller.element("shop#a", query="SELECT id FROM orders", tables=["orders"])
    before.poll()
    after = pg_poller.element("shop#a", query="SELECT total FROM orders", tables=["orders"])
    after.known = type(after.known)(
        after.known.key, after.known.options, before.known.validators, before.known.fingerprint
    )
    assert after.poll().outcome == "changed"


# --- partitions -------------------------------------------------------------------------------------------


def test_partitions(pg_poller, once):
    once(ORDERS, ROWS, "INSERT INTO orders VALUES (101, NULL, 1), (102, 'o''b]r=%', 1)")
    whole = pg_poller.element("shop#orders", split="region", cursor="id")
    found = whole.poll()
    keys = [new.key for new in found.discovered]
    assert found.complete
    assert keys == [
        "shop#orders[region is null]",
        "shop#orders[region=eu]",
        "shop#orders[region=o'b]r=%25]",
        "shop#orders[region=us]",
    ]
    assert {tuple(new.options.items()) for new in found.discovered} == {(("cursor", "id"),)}
    parts = [pg_poller.element(key) for key in keys]
    assert [part.poll().meta["rows"] for part in parts] == [1, 50, 1, 50]
    assert [row[0] for row in parts[2].rows] == [102]
    once("UPDATE orders SET region = 'eu' WHERE id = 1")
    assert [part.poll().outcome for part in parts] == ["unchanged", "changed", "unchanged", "changed"]
    assert deciding(parts[0].poll()) == "position"
    assert whole.poll().fingerprint == found.fingerprint
    once("DELETE FROM orders WHERE region = 'us'")
    assert len(whole.poll().discovered) == 3
    assert "49 rows fewer" in parts[3].poll().detail
    assert parts[3].rows == []


def test_partitions_by_other_types(pg_poller, once):
    once(
        "CREATE TABLE t (day date, n numeric(5,1), at timestamptz)",
        "INSERT INTO t VALUES ('2026-01-31', 1.5, '2026-01-31 12:00+01'), ('2026-02-01', 2, NULL)",
    )
    for column in ("day", "n", "at"):
        found = pg_poller.element("shop#t", split=column).poll()
        for new in found.discovered:
            part = pg_poller.element(new.key)
            assert part.poll().meta["rows"] == 1


# --- what is shared ---------------------------------------------------------------------------------------


def counting(poller):
    """Count statements by what they ask for."""
    counts = {"position": 0, "counters": 0}
    engine = poller.source._polled["shop"].database.engine

    @event.listens_for(engine, "before_cursor_execute")
    def count(_, __, statement, *___):
        if "pg_stat_activity" in statement:
            counts["counters"] += 1
        elif "pg_current_snapshot" in statement:
            counts["position"] += 1

    return counts


@pytest.mark.parametrize("interval", [0.0, 60.0])
def test_one_probe_serves_many_elements(poller_of, postgres_url, once, interval):
    import asyncio

    once(*(f"CREATE TABLE t{i} (n int)" for i in range(40)))
    poller = poller_of(shop=Database(postgres_url, probe_interval=interval))
    elements = [poller.element(f"shop#t{i}") for i in range(40)]

    def poll_all():
        async def together():
            return await asyncio.gather(*(poller.source.poll(one.known, poller.terms()) for one in elements))

        found = poller.run(together())
        for element, one in zip(elements, found, strict=True):
            element.learn(one)
        return [one.outcome for one in found]

    assert set(poll_all()) == {"changed"}
    counts = counting(poller)
    assert set(poll_all()) == {"unchanged"}
    assert counts["position"] <= 4
    if interval:
        once("INSERT INTO t3 VALUES (1)")
        assert set(poll_all()) == {"unchanged"}  # within the interval, an answer is used again
        assert counts["position"] <= 2
    else:
        once("INSERT INTO t3 VALUES (1)")
        assert poll_all().count("changed") == 1
        assert counts["counters"] <= 3


def test_where_a_server_is():
    assert Position("a", "10:10:", standby=True).sure
    assert not Position("a", "10:12:", standby=True).sure
    assert Position("a", "10:12:10", standby=False).sure
    assert not Position("", "10:10:", standby=False).sure  # it is not PostgreSQL


def test_versions_of_servers(pg):
    asked = re.search(r"version\(\) (~ '[^']*')", _POSITION_QUERY)[1]

    def known(version):
        return pg.execute(f"SELECT %s::text {asked}", (version,)).fetchone()[0]

    assert known(pg.execute("SELECT version()").fetchone()[0])
    assert known("PostgreSQL 15.5 (Debian 15.5-1.pgdg120+1) on x86_64-pc-linux-gnu, compiled by gcc")
    assert known("PostgreSQL 19beta1 on aarch64-unknown-linux-gnu, compiled by clang")
    assert not known("PostgreSQL 15.12-YB-2025.1.0.0-b0 on x86_64-pc-linux-gnu, compiled by clang")
    assert not known("CockroachDB CCL v23.1.11 (x86_64-pc-linux-gnu, built 2023/09/27)")


def test_rows_without_a_transaction_to_tell(orders, pg, monkeypatch):
    """What an extension stores in its own way may have no xmin."""
    young = "unstale.mirror.sources.sql.postgres_poll.young_rows"

    def refuse(connection, *_):
        connection.exec_driver_sql("DO $$ BEGIN RAISE feature_not_supported; END $$")

    monkeypatch.setattr(young, refuse)
    pg.execute("CREATE TABLE other (a int)")
    found = orders.poll()
    assert (found.outcome, deciding(found)) == ("unchanged", "extraction")
    assert "rows" in found.detail
