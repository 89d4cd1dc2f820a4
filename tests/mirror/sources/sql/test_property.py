"""Whatever is done to a table: after each poll the copy is the table."""

import sqlite3
from contextlib import closing

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unstale.mirror.settings import Database

FIXTURES = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
A_FEW = settings(max_examples=10, deadline=None, suppress_health_check=FIXTURES)
MANY = settings(max_examples=150, deadline=None, suppress_health_check=FIXTURES)
VALUES = st.integers(0, 3)
ROWS = st.integers(1, 5)
BOTH = st.one_of(
    st.builds("INSERT INTO t VALUES ({0}, {1}) ON CONFLICT DO NOTHING".format, ROWS, VALUES),
    st.builds("UPDATE t SET n = {0} WHERE id = {1}".format, VALUES, ROWS),
    st.builds("UPDATE t SET n = {0}".format, VALUES),
    st.builds("DELETE FROM t WHERE id = {0}".format, ROWS),
    st.builds("DELETE FROM t WHERE n = {0}".format, VALUES),
    st.builds("INSERT INTO other VALUES ({0})".format, VALUES),
    st.sampled_from(["BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT a", "ROLLBACK TO a", "SELECT * FROM t"]),
    st.sampled_from(
        ["ALTER TABLE t RENAME n TO m", "ALTER TABLE t RENAME m TO n", "DROP TABLE t", "CREATE_AGAIN"]
    ),
)
LITE = st.one_of(
    BOTH,
    st.sampled_from(["VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)", "UPDATE t SET n = 'text' WHERE id = 1"]),
    st.sampled_from(["PRAGMA journal_mode = WAL", "PRAGMA journal_mode = DELETE"]),
)
SWAP = (
    "CREATE TABLE new (LIKE t INCLUDING ALL); INSERT INTO new SELECT * FROM t; DROP TABLE t; "
    "ALTER TABLE new RENAME TO t"
)
POSTGRES = st.one_of(
    BOTH,
    st.sampled_from(
        [
            "VACUUM t",
            "VACUUM FULL t",
            "ANALYZE t",
            "TRUNCATE t",
            "TRUNCATE t, other",
            "SELECT pg_stat_reset()",
        ]
    ),
    st.sampled_from(
        [
            "ALTER TABLE t ALTER n TYPE bigint",
            "ALTER TABLE t ALTER n TYPE int",
            "ALTER TABLE t ADD COLUMN d int DEFAULT 7",
            "ALTER TABLE t ADD COLUMN d int DEFAULT 8",
            "ALTER TABLE t DROP COLUMN d",
            SWAP,
        ]
    ),
)
STEP = st.sampled_from(["poll", "poll", "restart", "first", "second"])


def steps(statements):
    """Sessions that do something, and polls in between."""
    return st.lists(st.tuples(STEP, statements), min_size=4, max_size=25)


CREATE = "CREATE TABLE t (id integer PRIMARY KEY, n integer)"


def play(story, poller, sessions, look, errors):
    """Play a story, and compare the copy with the table after each poll."""
    element = poller.element("shop#t")
    for step, statement in story:
        if step in {"first", "second"}:
            try:
                sessions[step].execute(CREATE if statement == "CREATE_AGAIN" else statement)
            except errors:
                continue
        elif step == "restart":
            poller.restart()
        else:
            check(element, look)
    for session in sessions.values():
        try:
            session.execute("COMMIT")
        except errors:
            continue
    check(element, look)
    check(element, look)


def check(element, look):
    before = look()
    if before == "locked":  # by a session that has not committed yet
        assert element.poll(timeout=0.1).outcome in {"failed", "unchanged"}
        return
    found = element.poll()
    assert look() == before
    if before is None:
        assert found.outcome == "gone"
    else:
        assert found.outcome in {"changed", "unchanged"}
        assert (element.copy.column_names, sorted(map(str, element.rows))) == before


@A_FEW
@given(story=steps(LITE))
def test_sqlite(story, scratch_poller, tmp_path_factory):
    in_sqlite(story, scratch_poller, tmp_path_factory)


@pytest.mark.long
@MANY
@given(story=steps(LITE))
def test_sqlite_for_long(story, scratch_poller, tmp_path_factory):
    in_sqlite(story, scratch_poller, tmp_path_factory)


def in_sqlite(story, scratch_poller, tmp_path_factory):
    path = tmp_path_factory.mktemp("lite") / "shop.db"
    with (
        closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as first,
        closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as second,
        closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as reader,
    ):
        first.execute(CREATE)
        first.execute("CREATE TABLE other (n)")

        def look():
            try:
                cursor = reader.execute("SELECT * FROM t")
                rows = cursor.fetchall()
            except sqlite3.OperationalError as error:
                return "locked" if "locked" in str(error) else None
            mixed = len({type(row[1]) for row in rows} - {type(None)}) > 1
            rows = [(one, str(n) if mixed and n is not None else n) for one, n in rows]
            return [one[0] for one in cursor.description], sorted(map(str, rows))

        with closing(scratch_poller(shop=Database(f"sqlite:///{path}"))) as poller:
            play(story, poller, {"first": first, "second": second}, look, sqlite3.Error)


class Passing:
    """A session for each statement, so that what it did is counted when it is over."""

    def __init__(self, url):
        self._url = url

    def execute(self, statement):
        with closing(psycopg.connect(self._url, autocommit=True, prepare_threshold=None)) as session:
            session.execute("SET lock_timeout = '50ms'")
            session.execute(statement)


@pytest.mark.parametrize("passing", [True, False])
@A_FEW
@given(story=steps(POSTGRES))
def test_postgresql(story, passing, scratch_poller, postgres_url):
    in_postgresql(story, passing, scratch_poller, postgres_url)


@pytest.mark.long
@pytest.mark.parametrize("passing", [True, False])
@MANY
@given(story=steps(POSTGRES))
def test_postgresql_for_long(story, passing, scratch_poller, postgres_url):
    in_postgresql(story, passing, scratch_poller, postgres_url)


def in_postgresql(story, passing, scratch_poller, postgres_url):
    with (
        closing(psycopg.connect(postgres_url, autocommit=True, prepare_threshold=None)) as staying,
        closing(psycopg.connect(postgres_url, autocommit=True, prepare_threshold=None)) as reader,
    ):
        staying.execute("DROP TABLE IF EXISTS t, other, new")
        staying.execute(CREATE)
        staying.execute("CREATE TABLE other (n int)")
        staying.execute("SET lock_timeout = '50ms'")
        if passing:
            staying.close()

        def look():
            connection = reader
            if passing:
                connection = psycopg.connect(postgres_url, autocommit=True, prepare_threshold=None)
            try:
                connection.execute("SET lock_timeout = '10ms'")
                cursor = connection.execute("SELECT * FROM t")
                return [one.name for one in cursor.description], sorted(map(str, cursor.fetchall()))
            except psycopg.errors.UndefinedTable:
                return None
            except psycopg.errors.LockNotAvailable:
                return "locked"
            finally:
                if passing:
                    connection.close()

        if passing:
            reader.close()
        second = Passing(postgres_url)
        sessions = {"first": second if passing else staying, "second": second}
        with closing(scratch_poller(shop=Database(postgres_url))) as poller:
            play(story, poller, sessions, look, psycopg.Error)
