"""Trouble: it is told in words, shows no password, leaves nothing behind, and passes."""

import asyncio
import importlib
import os
import socket
import sqlite3
import threading
import time
from contextlib import closing

import psycopg
import pytest

from unstale.mirror.settings import Database
from unstale.mirror.source import Late


@pytest.fixture
def both(pg, pg_poller, lite, lite_poller):
    """Sessions and pollers of PostgreSQL and SQLite."""
    return (pg, pg_poller), (lite, lite_poller)


def test_names_that_are_statements(both):
    names = [
        "o'clock",
        'say "x"',
        "a;b",
        "t; DROP TABLE safe; --",
        "größe 漢",
        "SELECT",
        "a.b",
        "[x]",
        "50%",
        "%s",
        ":x",
        "?",
    ]
    for run, poller in both:
        run.execute("CREATE TABLE safe (a int)")
        for name in names:
            quoted = name.replace('"', '""')
            key = f'shop#"{quoted}"'
            element = poller.element(key)
            assert element.poll().outcome == "gone", name
            run.execute(f'CREATE TABLE "{quoted}" ("{quoted}" int PRIMARY KEY, b text)')
            run.execute(f"INSERT INTO \"{quoted}\" VALUES (1, '{name.replace(chr(39), chr(39) * 2)}')")  # noqa: S608
            assert element.poll().outcome == "changed", name
            assert (element.copy.column_names, element.rows) == ([name, "b"], [(1, name)])
            assert element.poll().outcome == "unchanged"
            part = poller.element(str(poller.element(key, split="b").poll().discovered[0].key), cursor=name)
            assert part.poll().outcome == "changed", name
            assert part.rows == [(1, name)]
        assert run.execute("SELECT count(*) FROM safe").fetchone() == (0,)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"cursor": "nope"}, "there is no column 'nope'"),
        ({"split": "nope"}, "there is no column 'nope'"),
        ({"probe": "SELECT nope"}, "nope"),
        ({"query": "SELEC 1"}, "syntax error"),
        ({"query": "SELECT * FROM nope"}, "nope"),
    ],
)
def test_what_is_wrong_is_said(both, options, said):
    for run, poller in both:
        run.execute("CREATE TABLE t (a int)")
        found = poller.element("shop#t", **options).poll()
        assert found.outcome == "failed"
        assert said in found.detail
        assert "\n" not in found.detail


def test_columns_of_partitions(both, pg_poller):
    for run, poller in both:
        run.execute("CREATE TABLE t (a int)")
        assert "no column 'nope'" in poller.element("shop#t[nope=1]").poll().detail
    assert "invalid input syntax" in pg_poller.element("shop#t[a=text]").poll().detail


def test_reading_never_writes(both):
    for run, poller in both:
        run.execute("CREATE TABLE t (a int)")
        run.execute("INSERT INTO t VALUES (1)")
        found = poller.element("shop#t", probe="DELETE FROM t RETURNING a").poll()
        assert found.outcome == "failed"
        assert "read" in found.detail
        assert run.execute("SELECT count(*) FROM t").fetchone() == (1,)


def test_a_file_that_is_no_database(lite_path, lite_poller):
    element = lite_poller.element("shop#t")
    assert "there is no file" in element.poll().detail or "No such file" in element.poll().detail
    assert not lite_path.exists()
    lite_path.write_bytes(b"no database at all" * 1000)
    assert "not a database" in element.poll().detail
    lite_path.write_bytes(b"")
    assert element.poll().outcome == "gone"
    lite_path.unlink()
    with closing(sqlite3.connect(lite_path)) as connection:
        connection.execute("CREATE TABLE t (a)")
    assert element.poll().outcome == "changed"


def test_a_file_that_somebody_writes_to_for_long(lite, lite_poller, monkeypatch):
    monkeypatch.setattr("unstale.mirror.sources.sql.database._SQLITE_BUSY_SECONDS", 0.05)
    lite.execute("CREATE TABLE t (a)")
    lite.execute("BEGIN EXCLUSIVE")
    element = lite_poller.element("shop#t")
    assert "somebody is writing to it" in element.poll().detail
    lite.execute("COMMIT")
    assert element.poll().outcome == "changed"


@pytest.fixture
def secret_url(postgres_url, monkeypatch):
    """An address on TCP, where passwords are asked for."""
    with closing(psycopg.connect(postgres_url, autocommit=True)) as connection:
        connection.execute("DROP ROLE IF EXISTS ann")
        connection.execute("CREATE ROLE ann LOGIN PASSWORD 's3cret/%'")
    monkeypatch.setenv("SHOP_PASSWORD", "s3cret%2F%25")
    return postgres_url.replace("postgres:@", "ann:${SHOP_PASSWORD}@")


def test_variables_and_permissions(secret_url, pg, poller_of, monkeypatch):
    pg.execute("CREATE TABLE t (a int)")
    poller = poller_of(shop=Database(secret_url))
    element = poller.element("shop#t")
    found = element.poll()
    assert found.outcome == "failed"
    assert "no permission (permission denied for table t)" in found.detail
    pg.execute("GRANT SELECT ON t TO ann")
    assert element.poll().outcome == "changed"
    monkeypatch.delenv("SHOP_PASSWORD")
    assert (
        "needs the environment variable SHOP_PASSWORD"
        in poller_of(shop=Database(secret_url)).element("shop#t").poll().detail
    )


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:s3cret@127.0.0.1:1/shop",
        "postgresql://ann:s3cret@127.0.0.1:1/shop?sslmode=s3cret",
        "postgresql://ann@127.0.0.1:1/shop?password=s3cret&nonsense=s3cret",
        "mysql+nothing://ann:s3cret@h/d",
        "nothing://ann:s3cret@h/d",
        "postgresql+asyncpg://ann:s3cret@h/d",
        "sqlite:////nowhere/s3cret/x.db?password=s3cret",
    ],
)
def test_passwords_are_not_shown(poller_of, url):
    found = poller_of(shop=Database(url)).element("shop#t").poll()
    assert found.outcome == "failed"
    assert found.detail
    assert "s3cret" not in found.detail.replace("/nowhere/s3cret", "")


def test_a_wrong_password():
    """As PostgreSQL says it, without one that is set up so."""
    from unstale.mirror.sources.sql.database import error_words

    error = psycopg.errors.InvalidPassword("failed for user ann with s3cret")
    assert error_words(error, ("s3cret",)) == (
        "28P01",
        "the password is wrong, or there is no such user (failed for user ann with ***)",
    )


def test_a_server_that_says_nothing(poller_of):
    """It is given up in time, also if it never answers to anything."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        poller = poller_of(shop=Database(f"postgresql://ann@127.0.0.1:{port}/shop"))
        start = time.monotonic()
        found = poller.element("shop#t").poll(timeout=0.2)
    assert found.detail == "no answer within 0.2 seconds"
    assert time.monotonic() - start < 60


def test_killed_connections_heal(pg, pg_poller):
    pg.execute("CREATE TABLE t AS SELECT i, repeat('x', 300) AS text FROM generate_series(1, 100000) i")
    element = pg_poller.element("shop#t")
    kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'unstale'"
    outcomes = []
    delays = [None, *(0.05 * 1.5**power for power in range(-8, 8)), None]
    for delay in delays:
        if delay is not None and "failed" in outcomes:
            continue  # one poll was hit, on a machine of whatever speed
        element.known = type(element.known)(element.known.key)  # whatever the last poll saw
        if delay is None:
            pg.execute(kill)  # while nobody uses them
        killer = threading.Timer(delay or 0, lambda: pg.execute(kill))
        if delay is not None:
            killer.start()
        found = element.poll()
        outcomes.append(found.outcome)
        if delay is not None:
            killer.join()
        assert found.outcome == "changed" or any(
            word in found.detail for word in ("terminat", "closed", "lost")
        )
    assert outcomes[0] == outcomes[-1] == "changed"
    assert "failed" in outcomes


def active(pg):
    asked = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'unstale' AND state <> 'idle'"
    return pg.execute(asked).fetchone()[0]


@pytest.mark.parametrize("options", [{"query": "SELECT pg_sleep(60)"}, {"probe": "SELECT pg_sleep(60)"}])
def test_what_takes_too_long_is_stopped_on_the_server(pg, pg_poller, options):
    pg.execute("CREATE TABLE t (a int)")
    start = time.monotonic()
    found = pg_poller.element("shop#t", **options).poll(timeout=0.3)
    assert found.outcome == "failed"
    assert "no answer within 0.3 seconds" in found.detail or "too long" in found.detail
    assert time.monotonic() - start < 50  # it would take 60
    assert active(pg) == 0


def test_cancelled_polls_are_stopped(pg, pg_poller, lite, lite_poller):
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT {} FROM n"
    for poller, sql in ((pg_poller, "max(i)"), (pg_poller, "i"), (lite_poller, "max(i)"), (lite_poller, "i")):
        lite.execute("CREATE TABLE IF NOT EXISTS t (a)")
        element = poller.element("shop#t", query=endless.format(sql))

        async def play(poller=poller, element=element):
            poll = asyncio.create_task(poller.source.poll(element.known, poller.terms()))
            await asyncio.sleep(0.3)
            poll.cancel()
            start = time.monotonic()
            with pytest.raises(asyncio.CancelledError):
                await poll
            return time.monotonic() - start

        assert poller.run(play()) < 60
    assert active(pg) == 0
    for one in threading.enumerate():
        if one.name == "unstale":
            one.join(60)
            assert not one.is_alive()
    assert lite_poller.element("shop#t").poll().outcome == "changed"


WAITS = """
    SELECT count(*) FROM pg_stat_activity WHERE application_name = 'unstale' AND wait_event_type = 'Lock'
"""


def test_locked_tables_wait_for_nobody_else(pg, pg_poller, postgres_url):
    pg.execute("CREATE TABLE locked (a int); CREATE TABLE free (a int)")
    with closing(psycopg.connect(postgres_url)) as other:
        other.execute("LOCK TABLE locked")

        async def play():
            locked, free = (pg_poller.element(f"shop#{name}") for name in ("locked", "free"))
            waiting = asyncio.create_task(pg_poller.source.poll(locked.known, pg_poller.terms()))
            while not pg.execute(WAITS).fetchone()[0]:  # noqa: ASYNC110  (of a server)
                await asyncio.sleep(0.01)
            quick = await pg_poller.source.poll(free.known, pg_poller.terms())
            quick.body.unlink()
            done = waiting.done()
            other.rollback()
            slow = await waiting
            slow.body.unlink()
            return quick, done, slow

        quick, done, slow = pg_poller.run(play())
    assert (quick.outcome, done, slow.outcome) == ("changed", False, "changed")


def test_the_budget_of_bytes_is_paid_before(pg, pg_poller):
    pg.execute("CREATE TABLE t AS SELECT repeat(md5(i::text), 100) AS text FROM generate_series(1, 500) i")
    paid = []

    async def spend(count):
        paid.append(count)
        await asyncio.sleep(0)

    found = pg_poller.element("shop#t").poll(spend=spend)
    assert found.traffic == 500 * 3201
    assert found.traffic <= sum(paid) <= 1.2 * found.traffic + 65536


def test_a_budget_that_is_used_up_can_be_left(pg, pg_poller):
    pg.execute("CREATE TABLE t (a int)")

    async def spend(_):
        await asyncio.sleep(60)

    found = pg_poller.element("shop#t").poll(spend=spend, timeout=0.3)
    assert found.outcome == "failed"


def test_a_copy_is_of_one_moment(pg, pg_poller, postgres_url):
    """Money that moves while rows are read is neither lost nor doubled; nor is a table found empty."""
    pg.execute("CREATE TABLE accounts AS SELECT i AS id, 100 AS sum FROM generate_series(0, 19999) i")
    stop = threading.Event()

    def move():
        with closing(psycopg.connect(postgres_url, autocommit=True)) as session:
            i = 0
            while not stop.is_set():
                i += 1
                with session.transaction():
                    session.execute("UPDATE accounts SET sum = sum - 1 WHERE id = %s", (i % 20000,))
                    session.execute("UPDATE accounts SET sum = sum + 1 WHERE id = %s", (-i % 20000,))
                    if i % 5 == 0:
                        session.execute(
                            "CREATE TEMP TABLE kept ON COMMIT DROP AS SELECT * FROM accounts; "
                            "TRUNCATE accounts; "
                            "INSERT INTO accounts SELECT * FROM kept ORDER BY id DESC"
                        )

    mover = threading.Thread(target=move)
    mover.start()
    try:
        accounts = pg_poller.element("shop#accounts")
        for _ in range(8):
            found = accounts.poll()
            assert found.outcome in {"changed", "unchanged"}
            assert (accounts.copy.num_rows, sum(amount for _, amount in accounts.rows)) == (20_000, 2_000_000)
    finally:
        stop.set()
        mover.join()


@pytest.mark.parametrize("place", ["sql.postgres_poll.from_copy", "sql.sqlalchemy_poll.from_cursor"])
def test_what_is_remembered_is_of_the_same_moment(both, lite, monkeypatch, place):
    """Somebody writes just before rows are read, after all else has been looked at."""
    lite.execute("PRAGMA journal_mode = WAL")
    run, poller = both[0] if "postgres" in place else both[1]
    run.execute("CREATE TABLE t (a int)")
    run.execute("INSERT INTO t VALUES (1)")
    module, name = f"unstale.mirror.sources.{place}".rsplit(".", 1)
    read = getattr(importlib.import_module(module), name)

    def late(*arguments, **more):
        run.execute("UPDATE t SET a = a + 1")
        return read(*arguments, **more)

    for options in ({}, {"cursor": "a"}, {"probe": "SELECT max(a) FROM t"}):
        element = poller.element("shop#t", **options)
        (before,) = run.execute("SELECT a FROM t").fetchone()
        monkeypatch.setattr(f"{module}.{name}", late)
        assert element.poll().outcome == "changed"
        assert element.rows == [(before,)]
        monkeypatch.setattr(f"{module}.{name}", read)
        assert element.poll().outcome == "changed"
        assert element.rows == [(before + 1,)]


def test_files_are_closed(lite, lite_poller):
    lite.execute("CREATE TABLE t (a)")
    element = lite_poller.element("shop#t")
    for _ in range(3):
        element.poll()
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0  # noqa: PTH112, PTH208
    for _ in range(20):
        lite.execute("INSERT INTO t VALUES (1)")
        element.poll()
    after = len(os.listdir("/proc/self/fd")) if before else 0  # noqa: PTH208
    assert after <= before


ENDLESS = {
    "postgresql": "SELECT pg_sleep(600)",
    "sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
}


async def _stopped(poller, known):
    """Start polls, stop them, and return how they end."""
    terms = poller.terms(timeout=600.0)
    polls = [asyncio.create_task(poller.source.poll(known, terms)) for _ in range(3)]
    await asyncio.sleep(0.5)
    assert not any(poll.done() for poll in polls)
    poller.source.stop_polls()
    return await asyncio.gather(*polls, return_exceptions=True)


@pytest.mark.parametrize("option", ["query", "probe"])
def test_polls_can_be_stopped(both, watcher, option):
    for run, poller in both:
        kind = "sqlite" if isinstance(run, sqlite3.Connection) else "postgresql"
        run.execute("CREATE TABLE t (a int)")
        element = poller.element("shop#t", **{option: ENDLESS[kind]})

        assert [type(one) for one in poller.run(_stopped(poller, element.known))] == [Late] * 3
        busy = "SELECT count(*) FROM pg_stat_activity WHERE query ~ 'pg_sleep' AND state = 'active'"
        while watcher.execute(busy + " AND pid <> pg_backend_pid()").fetchone() != (0,):
            time.sleep(0.05)
        assert poller.element("shop#t").poll().outcome == "changed"
