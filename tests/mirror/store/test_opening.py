"""One runner, one schema (promise 4), and complaints about what cannot be a store."""

import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect

from unstale import InvalidInput, Mirror, MissingExtra
from unstale.errors import Trouble
from unstale.mirror.store.sql import schema
from unstale.mirror.store.sql.store import open_store

from .making import additions, changed, columns, handed_out

RUN = """
import sys, time
from pathlib import Path
from unstale.mirror.store.copies import Copies
from unstale.mirror.store.sql.store import open_store
store = open_store(sys.argv[1], copies=Copies(sys.argv[2]), run=True)
print("running", flush=True)
time.sleep(100)
"""


def test_a_second_runner_is_refused_until_the_first_is_dead(tmp_path, copies):
    path = tmp_path / "mirror.db"
    other = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", RUN, path, copies.place.folder], stdout=subprocess.PIPE, text=True
    )  # fmt: skip
    try:
        assert other.stdout.readline() == "running\n"
        with pytest.raises(
            InvalidInput, match=f"mirror.db' is being run by process {other.pid} on .*: stop that"
        ):
            open_store(path, copies=copies, run=True)
        with pytest.raises(InvalidInput, match=f"by process {other.pid} "):  # and again
            open_store(path, copies=copies, run=True)
        with open_store(path, copies=copies) as store:  # commands may read and edit
            assert not store.become_planner()
            with store.begin() as t:
                assert t.add(additions(1), 1.0) == [1]
    finally:
        other.send_signal(signal.SIGKILL)
        other.wait()
        other.stdout.close()
    with open_store(path, copies=copies, run=True) as store:
        assert store.become_planner()
        with store.begin() as t:
            assert t.count() == {"new": 1}
        with pytest.raises(InvalidInput, match=f"by process {os.getpid()} "):
            open_store(path, copies=copies, run=True)
    open_store(path, copies=copies, run=True).close()


def make_old(url, version=1):  # noqa: C901  (a step for each version)
    """Turn a store into one of an earlier version."""
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        if version < 10:
            for index in schema.RETENTION:
                connection.exec_driver_sql(f"DROP INDEX {index.name}")
            for column in ("keep", "keep_for", "tags"):
                connection.exec_driver_sql(f"ALTER TABLE elements DROP COLUMN {column}")
        if version < 9:
            unpartition(connection)
        if version < 8:
            connection.exec_driver_sql("DROP TABLE links")
        if version < 7:
            connection.exec_driver_sql("ALTER TABLE learned DROP COLUMN stays")
            connection.exec_driver_sql("ALTER TABLE polls DROP COLUMN stays")
        if version < 6:
            connection.exec_driver_sql("ALTER TABLE standing DROP COLUMN dropped")
        if version < 5:
            connection.exec_driver_sql("ALTER TABLE elements DROP COLUMN terms")
            connection.exec_driver_sql("DROP TABLE user_reads")
        if version < 4:
            connection.exec_driver_sql("DROP TABLE planner")
            connection.exec_driver_sql("ALTER TABLE workers DROP COLUMN ahead")
        if version < 3:
            connection.exec_driver_sql("DROP TABLE history")
            for index in schema.PAGES:
                connection.exec_driver_sql(f"DROP INDEX {index.name}")
        if version < 2:
            connection.exec_driver_sql("DROP TABLE reads")
        connection.exec_driver_sql(f"UPDATE mirror_meta SET value = '{version}' WHERE name = 'schema'")  # noqa: S608
    engine.dispose()


def unpartition(connection):
    """Put all polls into one plain table, as before version 9."""
    connection.exec_driver_sql("DROP TABLE poll_spans")
    if connection.dialect.name == "sqlite":
        return
    for statement in (
        "CREATE TABLE plain (LIKE polls INCLUDING ALL)",
        "INSERT INTO plain SELECT * FROM polls",
        "DROP TABLE polls",
        "ALTER TABLE plain RENAME TO polls",
        "ALTER INDEX plain_pkey RENAME TO polls_pkey",
        "ALTER INDEX plain_time_idx RENAME TO ix_polls_time",
        "ALTER INDEX plain_element_id_idx RENAME TO ix_polls_element",
    ):
        connection.exec_driver_sql(statement)


def filled(url, copies):
    with open_store(url, copies=copies, run=True) as store:
        (taken,) = handed_out(store, 1)
        with store.begin() as t:
            t.record("w", [changed(taken, copies)])
            t.save(columns([1], [b"evidence"]))
            t.read({1: 1}, 0.0)


def test_an_older_sqlite_store_is_migrated_and_a_back_up_stays(tmp_path, copies):
    path = tmp_path / "mirror.db"
    filled(path, copies)
    make_old(f"sqlite:///{path}")
    for run in (False, True):  # also a command does it
        shutil.copy(path, tmp_path / f"old{run}.db")
        with open_store(tmp_path / f"old{run}.db", copies=copies, run=run) as store, store.begin() as t:
            assert len(t.versions()) == 1
            assert t.reads(0.0) == []
            t.read({1: 1}, 0.0)
        with closing(sqlite3.connect(tmp_path / f"old{run}.db.v1-backup")) as backup:
            assert backup.execute("SELECT value FROM mirror_meta WHERE name = 'schema'").fetchone() == ("1",)
            assert backup.execute("SELECT count(*) FROM versions").fetchone() == (1,)
            assert backup.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    make_old(f"sqlite:///{tmp_path / 'oldTrue.db'}")
    open_store(tmp_path / "oldTrue.db", copies=copies).close()
    assert (tmp_path / "oldTrue.db.v1-backup-2").exists()  # the first is not overwritten
    assert not list(tmp_path.glob("*.tmp"))


def test_a_migrated_schema_is_the_same_as_a_new_one(tmp_path, copies, postgres_url):
    def shape(url):
        engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
        looked = inspect(engine)
        found = {
            table: (
                [
                    (column["name"], str(column["type"]), column["nullable"])
                    for column in looked.get_columns(table)
                ],
                sorted(str(index["column_names"]) for index in looked.get_indexes(table)),
                looked.get_pk_constraint(table)["constrained_columns"],
            )
            for table in looked.get_table_names()
        }
        engine.dispose()
        return found

    for url in (f"sqlite:///{tmp_path / 'mirror.db'}", postgres_url):
        open_store(url, copies=copies).close()
        new = shape(url)
        for version in range(1, schema.VERSION):
            make_old(url, version)
            open_store(url, copies=copies).close()
            assert shape(url) == new


def test_an_older_store_that_somebody_runs_is_not_migrated(tmp_path, copies):
    path = tmp_path / "mirror.db"
    with open_store(path, copies=copies, run=True):
        make_old(f"sqlite:///{path}")
        with pytest.raises(InvalidInput, match="is being run by process"):
            open_store(path, copies=copies)


def test_an_older_store_whose_back_up_fails_stays_as_it_is(tmp_path, copies):
    path = tmp_path / "mirror.db"
    filled(path, copies)
    make_old(f"sqlite:///{path}")
    (tmp_path / "mirror.db.v1-backup.tmp").mkdir()
    with pytest.raises(Trouble, match=r"back-up .*mirror.db.v1-backup' cannot be written"):
        open_store(path, copies=copies)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT value FROM mirror_meta WHERE name = 'schema'").fetchone() == ("1",)


def test_an_older_postgresql_store_is_migrated_and_its_tables_stay_in_another_schema(postgres_url, copies):
    import psycopg

    filled(postgres_url, copies)
    for number in range(2):
        make_old(postgres_url)
        with open_store(postgres_url, copies=copies) as store, store.begin() as t:
            assert len(t.versions()) == len(t.polls()) == 1
            t.read({1: 1}, 0.0)
        name = "public_v1_backup" + ("_2" if number else "")
        with closing(psycopg.connect(postgres_url)) as connection:
            query = f"SELECT count(*), min(digest) FROM {name}.versions"  # noqa: S608
            assert connection.execute(query).fetchone()[0] == 1
            tables = f"SELECT count(*) FROM information_schema.tables WHERE table_schema = '{name}'"  # noqa: S608
            assert connection.execute(tables).fetchone()[0] == len(schema.METADATA.tables) - 6


def test_a_newer_store_is_refused(url, copies):
    open_store(url, copies=copies).close()
    address = url if "://" in url else f"sqlite:///{url}"
    engine = create_engine(address.replace("postgresql://", "postgresql+psycopg://"))
    set_to = "UPDATE mirror_meta SET value = '{}' WHERE name = 'schema'"
    try:
        for value, says in (
            ("11", "by a newer unstale: its schema has version 11, and this one knows 10"),
            ("x", "does not say"),
        ):
            with engine.begin() as connection:
                connection.exec_driver_sql(set_to.format(value))
            with pytest.raises(InvalidInput, match=says):
                open_store(url, copies=copies, run=True)
    finally:
        with engine.begin() as connection:
            connection.exec_driver_sql(set_to.format(schema.VERSION))
        engine.dispose()
    open_store(url, copies=copies, run=True).close()  # the lock was let go of


def test_a_schema_of_its_own_keeps_two_mirrors_apart_in_one_database(postgres_url, copies):
    import psycopg

    with closing(psycopg.connect(postgres_url, autocommit=True)) as connection:
        connection.execute("CREATE SCHEMA one")
        connection.execute("CREATE SCHEMA two")
    one, two = (
        open_store(f"{postgres_url}&options=-csearch_path%3D{name}", copies=copies) for name in ("one", "two")
    )
    with one, two:
        with one.begin() as t:
            t.add(additions(2), 1.0)
        with two.begin() as t:
            assert t.count() == {}
        assert one.become_planner()
        assert two.become_planner()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("missing/mirror.db", "store must be in a folder that exists; it is '.*missing/mirror.db'"),
        ("", "store must be a file; '.*' is a folder"),
        ("text", "text' is no SQLite database: name another file"),
        ("other.db", "other.db' is no mirror, but has a table 'a' already"),
    ],
)
def test_a_path_that_cannot_be_a_store_is_named(tmp_path, copies, name, says):
    (tmp_path / "text").write_text("no database" * 1000)
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE a (b)")
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    for run in (False, True):
        with pytest.raises(InvalidInput, match=says):
            open_store(tmp_path / name, copies=copies, run=run)
    for path, content in before.items():
        if path.suffix != ".db":
            assert path.read_bytes() == content


def test_an_address_that_cannot_be_a_store_is_named(copies, postgres_server):
    for address in (
        "mysql://root@localhost/x",
        "sqlite://",
        "http://a/b",
        "postgresql://host:port/x",
        "",
        "a\0b",
    ):
        with pytest.raises(InvalidInput, match="store"):
            open_store(address, copies=copies)
    with pytest.raises(InvalidInput, match='database "nothing" does not exist'):
        open_store(postgres_server.replace("/postgres?", "/nothing?"), copies=copies)
    with pytest.raises(InvalidInput) as caught:
        open_store("mysql://root:secret@localhost/x", copies=copies)
    assert "secret" not in str(caught.value)


def test_a_server_that_is_not_there_is_trouble(copies):
    with pytest.raises(Trouble, match=r"the store 'postgresql://me:\*\*\*@127.0.0.1:1/x'.*refused") as caught:
        open_store("postgresql://me:secret@127.0.0.1:1/x", copies=copies)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_without_psycopg_the_extra_is_named(copies, monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtra, match=re.escape("pip install 'unstale[postgres]'")):
        open_store("postgresql://localhost/x", copies=copies)


def test_a_store_is_made_only_if_that_is_wanted(tmp_path, copies, postgres_url):
    path = tmp_path / "mirror.db"
    for place in (path, postgres_url):
        with pytest.raises(InvalidInput, match="there is no mirror"):
            open_store(place, copies=copies, create=False)
    assert not path.exists()
    path.touch()
    with pytest.raises(InvalidInput, match="there is no mirror"):
        open_store(path, copies=copies, create=False)
    for place in (path, postgres_url):
        open_store(place, copies=copies).close()
        open_store(place, copies=copies, create=False).close()


def test_all_ways_to_name_a_file_are_the_same_store(tmp_path, copies, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a ? # % mirror.db"
    for place in (str(path), path, Path(path.name), f"./{path.name}"):
        with open_store(place, copies=copies) as store, store.begin() as t:
            t.add(additions(1), 1.0)
    with open_store(f"sqlite:///{tmp_path / 'plain.db'}", copies=copies) as store:
        assert store.url == f"sqlite:///{tmp_path / 'plain.db'}"
    assert {path.name for path in tmp_path.glob("*.db")} == {path.name, "plain.db"}


def test_a_back_up_is_a_store(tmp_path, copies, postgres_empty):
    filled(tmp_path / "mirror.db", copies)
    with open_store(tmp_path / "mirror.db", copies=copies, run=True) as store:
        path = store.backup(tmp_path / "saved.db")
        with pytest.raises(InvalidInput, match="is there already"):
            store.backup(path)
        with pytest.raises(Trouble, match="cannot be written"):
            store.backup(tmp_path / "nowhere" / "saved.db")
    with open_store(path, copies=copies, run=True) as saved:
        assert saved.check() == []
        with saved.begin() as t:
            assert len(t.versions()) == len(t.polls()) == 1
    with open_store(postgres_empty, copies=copies) as store:
        assert store.backup(tmp_path / "other.db") is None


def test_many_open_a_new_store_at_the_same_time(url, copies):
    code = RUN.replace(", run=True", "").replace(
        'print("running", flush=True)\ntime.sleep(100)', "store.close()"
    )
    command = [sys.executable, "-c", code, url, copies.place.folder]
    others = [subprocess.Popen(command) for _ in range(2)]  # noqa: S603
    assert [other.wait() for other in others] == [0, 0]
    open_store(url, copies=copies, create=False).close()


@pytest.mark.parametrize("wrong", ["ftp://b/c", "s3://", "s3://key:secret@b/c"])
def test_copies_are_in_a_folder_or_a_bucket(tmp_path, wrong):
    with pytest.raises(InvalidInput, match=r"copies must be (a folder or a bucket|the address)") as told:
        Mirror(tmp_path / "mirror.db", copies=wrong)
    assert "secret@" not in str(told.value)
    assert list(tmp_path.iterdir()) == []
