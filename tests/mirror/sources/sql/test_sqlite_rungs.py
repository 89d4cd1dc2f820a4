"""What rungs of SQLite must catch."""

import shutil
import sqlite3
import time
from contextlib import closing

import pytest

from .conftest import deciding

ORDERS = "CREATE TABLE orders (id INTEGER PRIMARY KEY, region TEXT, total INTEGER)"
ROWS = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100) "
    "INSERT INTO orders SELECT i, CASE i % 2 WHEN 0 THEN 'eu' ELSE 'us' END, i FROM n"
)


@pytest.fixture(params=["DELETE", "TRUNCATE", "PERSIST", "WAL"])
def orders(request, lite, lite_poller):
    lite.execute(f"PRAGMA journal_mode = {request.param}")
    lite.execute(ORDERS)
    lite.execute(ROWS)
    element = lite_poller.element("shop#orders")
    assert element.poll().meta["rows"] == 100
    return element


def test_nothing_happened(orders):
    assert deciding(orders.poll()) == "position"


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE orders SET total = 0 WHERE id = 1", ""),
        ("DELETE FROM orders WHERE id <= 12", "12 rows fewer"),
        ("INSERT INTO orders VALUES (1000, 'eu', 1)", "1 row more"),
        ("ALTER TABLE orders ADD COLUMN paid TEXT", "column 'paid' added"),
        ("ALTER TABLE orders RENAME total TO sum", "column 'total' dropped"),
    ],
)
def test_every_change_is_seen_at_once(orders, lite, statement, said):
    for _ in range(2):
        orders.poll()
    lite.execute(statement)
    found = orders.poll()
    assert found.outcome == "changed"
    assert said in found.detail


def test_changes_elsewhere_and_housekeeping(orders, lite):
    lite.execute("CREATE TABLE other (a)")
    found = orders.poll()
    assert (found.outcome, deciding(found)) == ("unchanged", "extraction")
    assert deciding(orders.poll()) == "position"
    lite.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    lite.execute("VACUUM")
    assert orders.poll().outcome == "unchanged"


def test_rolled_back_and_under_way(orders, lite):
    lite.execute("BEGIN")
    lite.execute("DELETE FROM orders")
    assert orders.poll().outcome == "unchanged"
    lite.execute("ROLLBACK")
    assert orders.poll().outcome == "unchanged"
    lite.execute("BEGIN")
    lite.execute("DELETE FROM orders WHERE id = 1")
    assert orders.poll().outcome == "unchanged"
    lite.execute("COMMIT")
    assert orders.poll().outcome == "changed"


def test_a_young_file_proves_nothing_to_another_process(orders, lite_poller):
    lite_poller.restart()
    found = orders.poll()
    assert (found.outcome, deciding(found)) == ("unchanged", "extraction")


def test_an_old_file_proves_it_to_another_process(orders, lite, lite_poller, monkeypatch):
    # as if time had passed
    monkeypatch.setattr("unstale.mirror.sources.sql.sqlite_probe._YOUNG_FILE_SECONDS", -1.0)
    wal = lite.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    orders.poll()
    lite_poller.restart()
    orders.poll()
    lite_poller.restart()
    found = orders.poll()
    assert (found.outcome, deciding(found)) == ("unchanged", "extraction" if wal else "position")
    lite.execute("UPDATE orders SET total = 0 WHERE id = 1")
    lite_poller.restart()
    assert orders.poll().outcome == "changed"


def test_commits_in_the_log_are_seen_by_another_process(lite, lite_path, lite_poller, monkeypatch):
    monkeypatch.setattr("unstale.mirror.sources.sql.sqlite_probe._YOUNG_FILE_SECONDS", -1.0)
    lite.execute("PRAGMA journal_mode = WAL")
    lite.execute(ORDERS)
    lite.execute(ROWS)
    orders = lite_poller.element("shop#orders")
    lite.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    orders.poll()
    before = lite_path.stat()
    lite_poller.restart()
    assert deciding(orders.poll()) == "position"
    lite.execute("UPDATE orders SET total = 0 WHERE id = 1")
    lite_poller.restart()
    assert lite_path.stat().st_mtime_ns == before.st_mtime_ns  # the change is not in the file yet
    assert orders.poll().outcome == "changed"


@pytest.mark.parametrize("way", ["renamed", "written over"])
def test_a_file_that_is_replaced_is_seen(lite, lite_path, lite_poller, tmp_path, way):
    """Even if the other has seen as many transactions, so that its header is the same."""
    lite.execute(ORDERS)
    lite.execute(ROWS)
    lite.close()
    orders = lite_poller.element("shop#orders")
    orders.poll()
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other, isolation_level=None)) as connection:
        connection.execute(ORDERS)
        connection.execute(ROWS.replace("SELECT i, CASE", "SELECT 1000 - i, CASE"))
    assert other.read_bytes()[:100] == lite_path.read_bytes()[:100]
    if way == "renamed":
        other.rename(lite_path)
    else:
        shutil.copyfile(other, lite_path)
    assert orders.poll().outcome == "changed"
    assert orders.rows[0][0] == 900
    assert deciding(orders.poll()) == "position"


def test_views_queries_and_virtual_tables(lite, lite_poller):
    lite.execute(ORDERS)
    lite.execute(ROWS)
    lite.execute("CREATE VIEW times AS SELECT julianday('now') AS now")
    view = lite_poller.element("shop#times")
    query = lite_poller.element("shop#time", query="SELECT 'a:b' AS \"a:b\", julianday('now') AS now;")
    for element in (view, query):
        element.poll()
        time.sleep(0.002)
        assert element.poll().outcome == "changed"
    assert query.copy.column_names == ["a:b", "now"]
    vouched = lite_poller.element("shop#total", query="SELECT sum(total) FROM orders", tables="orders")
    assert vouched.poll().outcome == "changed"
    assert vouched.rows == [(5050,)]
    assert deciding(vouched.poll()) == "position"
    lite.execute("DELETE FROM orders WHERE id = 100")
    assert vouched.poll().outcome == "changed"


def test_rungs_to_ask_for(lite, lite_poller):
    lite.execute(ORDERS)
    lite.execute(ROWS)
    cursor = lite_poller.element("shop#orders", cursor="id")
    quick = lite_poller.element("shop#orders", cursor="id", count=False)
    probe = lite_poller.element("shop#orders", probe="SELECT '100%', count(*) FROM orders")
    summed = lite_poller.element("shop#orders", checksum=True)
    asked = lite_poller.element("shop#q", query="SELECT * FROM orders", cursor="id")
    every = cursor, quick, probe, summed, asked

    def outcomes():
        return [element.poll().outcome for element in every]

    assert outcomes() == ["changed"] * 5
    lite.execute("CREATE TABLE other (a)")
    assert [deciding(one.poll()) for one in every] == ["cursor", "cursor", "probe", "checksum", "cursor"]
    lite.execute("DELETE FROM orders WHERE id = 5")
    assert outcomes() == ["changed", "unchanged", "changed", "changed", "changed"]
    lite.execute("UPDATE orders SET total = 0 WHERE id = 6")
    assert outcomes() == ["unchanged", "unchanged", "unchanged", "changed", "unchanged"]
    lite.execute("INSERT INTO orders VALUES (1000, 'eu', 0)")
    assert outcomes() == ["changed"] * 5


def test_a_cursor_that_is_a_time_says_when_the_table_changed(lite, lite_poller):
    lite.execute("CREATE TABLE t (id, at)")
    lite.execute("INSERT INTO t VALUES (1, '2024-05-01 12:00:00'), (2, '2024-05-01 10:00:00')")
    table, numbered = (lite_poller.element("shop#t", cursor=name) for name in ("at", "id"))
    assert table.poll().modified == 1714564800.0
    assert numbered.poll().modified is None
    lite.execute("DELETE FROM t WHERE id = 2")
    assert (table.poll().modified, table.poll().outcome) == (None, "unchanged")  # nobody says when that was
    lite.execute("INSERT INTO t VALUES (3, '2024-05-02 12:00:00+02:00')")
    assert table.poll().modified == 1714644000.0
    lite.execute("INSERT INTO t VALUES (4, '2024-05-03 00:00:00')")
    assert table.poll().modified is None  # a day


def test_partitions(lite, lite_poller):
    lite.execute("CREATE TABLE t (k, n)")
    lite.executemany(
        "INSERT INTO t VALUES (?, ?)", [("eu", 1), ("eu", 2), (7, 3), ("7", 4), (1.5, 5), (None, 6)]
    )
    whole = lite_poller.element("shop#t", split="k")
    found = whole.poll()
    keys = [new.key for new in found.discovered]
    assert keys == ["shop#t[k is null]", "shop#t[k=1.5]", "shop#t[k=7]", "shop#t[k=eu]"]
    parts = [lite_poller.element(key) for key in keys]
    assert [part.poll().meta["rows"] for part in parts] == [1, 1, 2, 2]
    assert deciding(whole.poll()) == "position"
    lite.execute("DELETE FROM t WHERE k = 'eu'")
    assert len(whole.poll().discovered) == 3
    assert parts[3].poll().meta["rows"] == 0


def test_a_copy_is_of_one_moment(lite, lite_path, lite_poller):
    """Money that moves between two accounts while rows are read is neither lost nor doubled."""
    import threading

    lite.execute("PRAGMA journal_mode = WAL")
    lite.execute("CREATE TABLE accounts (id INTEGER PRIMARY KEY, sum INTEGER)")
    lite.execute("BEGIN")
    lite.executemany("INSERT INTO accounts VALUES (?, 100)", [(i,) for i in range(5000)])
    lite.execute("COMMIT")
    stop = threading.Event()

    def move():
        with closing(sqlite3.connect(lite_path, isolation_level=None)) as connection:
            i = 0
            while not stop.is_set():
                i += 1
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("UPDATE accounts SET sum = sum - 1 WHERE id = ?", (i % 5000,))
                connection.execute("UPDATE accounts SET sum = sum + 1 WHERE id = ?", (-i % 5000,))
                connection.execute("COMMIT")
                time.sleep(0.0005)

    mover = threading.Thread(target=move)
    mover.start()
    try:
        accounts = lite_poller.element("shop#accounts")
        for _ in range(5):
            assert accounts.poll().outcome in {"changed", "unchanged"}
            assert sum(amount for _, amount in accounts.rows) == 500_000
    finally:
        stop.set()
        mover.join()
