"""Whatever a query or a probe says, polls never write."""

import pytest

EMPTY_IT = "DELETE FROM users"
PLAIN = [
    EMPTY_IT,
    f"{EMPTY_IT} RETURNING a",
    "UPDATE users SET a = 2",
    "INSERT INTO users VALUES (2)",
    "DROP TABLE users",
    "CREATE TABLE other (a int)",
    "CREATE TEMP TABLE other AS SELECT 1",
    "COMMIT",
    "ROLLBACK",
    "VACUUM",
]
WAYS_OUT = [
    f"SELECT 1; COMMIT; {EMPTY_IT}; SELECT 1",
    f"SELECT 1; ROLLBACK; {EMPTY_IT}",
    f"SELECT 1; {EMPTY_IT}",
    f"SELECT 1 AS a) AS q; COMMIT; {EMPTY_IT}; SELECT * FROM (SELECT 1",  # noqa: S608
    f"SELECT 1 AS a) AS q LIMIT 0; COMMIT; {EMPTY_IT}; --",
    f"SELECT 1 AS a) AS q(c0)) TO STDOUT; COMMIT; {EMPTY_IT}; --",
    f"SELECT 1 -- \n; COMMIT; {EMPTY_IT}; SELECT 1",
    f"SELECT 1 /* ) ; */; COMMIT; {EMPTY_IT}",
    f"SELECT 1\0; COMMIT; {EMPTY_IT}",
    f"; COMMIT; {EMPTY_IT}",
    "SELECT 1) AS q UNION SELECT * FROM (SELECT 2",
]
OF_POSTGRES = [
    *PLAIN,
    *WAYS_OUT,
    f"WITH gone AS ({EMPTY_IT} RETURNING a) SELECT a FROM gone",  # noqa: S608
    "SELECT 1 AS a INTO other",
    "TRUNCATE users",
    "SELECT nextval('numbers')",
    "SELECT empty_it()",
    "SELECT set_config('transaction_read_only', 'off', false)",
    "SET TRANSACTION READ WRITE",
    "SET default_transaction_read_only = off",
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
    f"SET default_transaction_read_only = off; COMMIT; {EMPTY_IT}",
    f"DO $$ BEGIN COMMIT; {EMPTY_IT}; END $$",
    "CALL empty_all()",
    f"PREPARE it AS {EMPTY_IT}",
    f"EXPLAIN ANALYZE {EMPTY_IT}",
    "COPY users FROM PROGRAM 'echo 2'",
    "COPY (SELECT 1) TO '{folder}/made'",
    "COPY (SELECT 1) TO PROGRAM 'touch {folder}/made'",
    "LOCK TABLE users IN ACCESS EXCLUSIVE MODE",
    "SELECT a FROM users FOR UPDATE",
]
OF_SQLITE = [
    *PLAIN,
    *WAYS_OUT,
    "ATTACH '{folder}/made' AS other",
    "ATTACH '{folder}/made' AS other; CREATE TABLE other.t (a)",
    "VACUUM INTO '{folder}/made'",
    "PRAGMA journal_mode = wal",
    "PRAGMA user_version = 7",
    "PRAGMA writable_schema = on",
    "PRAGMA temp_store_directory = '{folder}'",
    "SAVEPOINT a",
    "REINDEX",
    "ANALYZE",
    "CREATE TEMP VIEW other AS SELECT 1",
    "SELECT load_extension('x')",
    f"EXPLAIN {EMPTY_IT}; {EMPTY_IT}",
]


@pytest.fixture
def other_folder(tmp_path):
    folder = tmp_path / "other"
    folder.mkdir()
    return folder


def contents(folder):
    return sorted(path.name for path in folder.iterdir())


def failed_in_one_line(found):
    return found.outcome == "failed" and found.detail and "\n" not in found.detail


@pytest.mark.parametrize("option", ["probe", "query"])
def test_postgres(pg, pg_poller, other_folder, option):
    pg.execute("CREATE TABLE users (a int); INSERT INTO users VALUES (1); CREATE SEQUENCE numbers")
    pg.execute(f"CREATE FUNCTION empty_it() RETURNS int LANGUAGE sql AS '{EMPTY_IT} RETURNING a'")
    pg.execute(f"CREATE PROCEDURE empty_all() LANGUAGE plpgsql AS 'BEGIN COMMIT; {EMPTY_IT}; END'")
    relations = pg.execute("SELECT count(*) FROM pg_class").fetchall()
    for statement in OF_POSTGRES:
        text = statement.format(folder=other_folder)
        found = pg_poller.element("shop#users", **{option: text}).poll()
        assert failed_in_one_line(found), (text, found)
        assert pg.execute("SELECT a FROM users").fetchall() == [(1,)], text
        assert pg.execute("SELECT count(*) FROM pg_class").fetchall() == relations, text
        assert pg.execute("SELECT is_called FROM numbers").fetchall() == [(False,)], text
        assert contents(other_folder) == [], text
    assert pg_poller.element("shop#users").poll().outcome == "changed"


@pytest.mark.parametrize("option", ["probe", "query"])
def test_sqlite(lite, lite_path, lite_poller, other_folder, option):
    lite.execute("CREATE TABLE users (a int)")
    lite.execute("INSERT INTO users VALUES (1)")
    before = lite_path.read_bytes(), contents(lite_path.parent)
    for statement in OF_SQLITE:
        text = statement.format(folder=other_folder)
        found = lite_poller.element("shop#users", **{option: text}).poll()
        assert failed_in_one_line(found), (text, found)
        assert (lite_path.read_bytes(), contents(lite_path.parent)) == before, text
        assert contents(other_folder) == [], text
    assert lite_poller.element("shop#users").poll().outcome == "changed"


def test_the_error_says_what_to_write(pg, pg_poller, lite, lite_poller):
    for run, poller in ((pg, pg_poller), (lite, lite_poller)):
        run.execute("CREATE TABLE users (a int)")
        for option in ("query", "probe"):
            for statement in ("SELECT 1; SELECT 2", "COMMIT"):
                found = poller.element("shop#users", **{option: statement}).poll()
                assert "polls only read" in found.detail
                assert "write one SELECT" in found.detail


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT a FROM users;",
        "SELECT a FROM users -- all of them",
        "/* ; ) */ SELECT a, ';)' AS b FROM users",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT i FROM n",
        "VALUES (1), (2)",
        "SELECT a FROM users UNION SELECT 5 ORDER BY 1",
        "(SELECT a FROM users)",
    ],
)
def test_whatever_reads_is_allowed(pg, pg_poller, lite, lite_poller, statement):
    for run, poller in ((pg, pg_poller), (lite, lite_poller)):
        if run is lite and statement.startswith("("):
            continue  # no SELECT of SQLite
        run.execute("CREATE TABLE users (a int)")
        run.execute("INSERT INTO users VALUES (1)")
        for option in ("query", "probe"):
            found = poller.element("shop#users", **{option: statement}).poll()
            assert found.outcome == "changed", (statement, found)


def test_sqlite_tells_its_versions_and_reads_virtual_tables(lite, lite_poller):
    lite.execute("PRAGMA user_version = 3")
    lite.execute("CREATE VIRTUAL TABLE places USING rtree(id, x0, x1)")
    lite.execute("INSERT INTO places VALUES (1, 2, 3)")
    lite.execute("CREATE VIRTUAL TABLE texts USING fts5(a)")
    lite.execute("INSERT INTO texts VALUES ('some words')")
    places = lite_poller.element("shop#places", probe="PRAGMA user_version")
    assert places.poll().outcome == "changed"
    assert places.rows == [(1, 2.0, 3.0)]
    assert places.poll().outcome == "unchanged"
    texts = lite_poller.element("shop#x", query="SELECT a FROM texts WHERE texts MATCH 'words'")
    assert texts.poll().outcome == "changed"
    assert texts.rows == [("some words",)]


def test_what_a_statement_leaves_in_its_session_goes(pg, pg_poller):
    pg.execute("CREATE TABLE users (a int)")
    ask = "SELECT set_config('default_transaction_read_only', 'off', false), pg_advisory_lock(7)::text"
    assert pg_poller.element("shop#users", probe=ask).poll().outcome == "changed"
    locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
    assert pg.execute(locks).fetchone() == (0,)
    shown = pg_poller.element("shop#b", query="SELECT current_setting('transaction_read_only') AS a")
    shown.poll()
    assert shown.rows == [("on",)]
