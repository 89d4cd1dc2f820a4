"""Elements in databases, polled as the mirror does, and copies compared with what is there."""

import asyncio
import json
import sqlite3
import time
from contextlib import closing
from dataclasses import replace

import psycopg
import pyarrow.parquet as pq
import pytest

from unstale.mirror.settings import Database, Settings
from unstale.mirror.source import Known, Terms
from unstale.mirror.sources.sql.source import sql_source


class Element:
    """An element, what is known of it, and its copy."""

    def __init__(self, poller, text, options):
        self._poller = poller
        self.known = Known(poller.source.key(text, options), options)
        self.copy = None

    def poll(self, **terms):
        found = self._poller.run(self._poller.source.poll(self.known, self._poller.terms(**terms)))
        self.learn(found)
        return found

    def learn(self, found):
        """Keep what a mirror would keep."""
        if found.outcome == "changed":
            if found.media_type == "application/json":
                self.copy = json.loads(found.body)
            else:
                self.copy = pq.ParquetFile(found.body).read()
                found.body.unlink()
            self.known = replace(self.known, fingerprint=found.fingerprint)
        if found.validators is not None:
            kept = json.loads(json.dumps(dict(found.validators)))
            self.known = replace(self.known, validators=kept)

    @property
    def rows(self):
        """The rows of the copy."""
        return [tuple(row.values()) for row in self.copy.to_pylist()]


class Poller:
    """A source in an event loop of its own, which goes on between polls."""

    def __init__(self, databases, scratch):
        self.settings = Settings(databases=databases)
        self.source = sql_source(self.settings)
        self._scratch = scratch
        self._runner = asyncio.Runner()
        self.run = self._runner.run

    def terms(self, max_size=50_000_000, timeout=30.0, spend=None):
        return Terms(self._scratch, max_size, timeout, spend)

    def element(self, text, **options):
        return Element(self, text, options)

    def restart(self):
        """As when the process of the mirror is started anew."""
        self.run(self.source.close())
        self.source = sql_source(self.settings)

    def close(self):
        self.run(self.source.close())
        self._runner.close()
        left = list(self._scratch.iterdir())
        assert not left, f"left behind: {left}"


@pytest.fixture
def poller_of(tmp_path):
    """Make pollers of databases."""
    made = []

    def make(**databases):
        scratch = tmp_path / f"scratch{len(made)}"
        scratch.mkdir()
        made.append(Poller(databases, scratch))
        return made[-1]

    yield make
    for poller in made:
        poller.close()


@pytest.fixture
def scratch_poller(tmp_path):
    """Make a poller that is closed before the next is made."""

    def make(**databases):
        scratch = tmp_path / "scratch"
        scratch.mkdir(exist_ok=True)
        return Poller(databases, scratch)

    return make


@pytest.fixture
def lite_path(tmp_path):
    return tmp_path / "shop.db"


@pytest.fixture
def lite(lite_path):
    """A connection to a file of SQLite, on which each statement is a transaction."""
    with closing(sqlite3.connect(lite_path, isolation_level=None, check_same_thread=False)) as connection:
        yield connection


@pytest.fixture
def lite_poller(poller_of, lite_path):
    return poller_of(shop=Database(f"sqlite:///{lite_path}"))


@pytest.fixture(scope="session")
def tables_database(postgres_server):
    """A database that tests share, because making one takes longer than most of them."""
    with closing(psycopg.connect(postgres_server, autocommit=True)) as connection:
        connection.execute("CREATE DATABASE tables")
    return postgres_server.replace("/postgres?", "/tables?")


@pytest.fixture
def postgres_url(tables_database):
    """The address of an empty database."""
    with closing(psycopg.connect(tables_database, autocommit=True)) as connection:
        connection.execute(
            "DROP SCHEMA public CASCADE; CREATE SCHEMA public; GRANT ALL ON SCHEMA public TO public"
        )
    return tables_database


@pytest.fixture
def pg(postgres_url):
    """A session of PostgreSQL, in which each statement is a transaction."""
    with closing(psycopg.connect(postgres_url, autocommit=True)) as connection:
        yield connection


@pytest.fixture(scope="session")
def watcher(postgres_server):
    """A session in another database."""
    with closing(psycopg.connect(postgres_server, autocommit=True)) as connection:
        yield connection


@pytest.fixture
def once(postgres_url, watcher):
    """Run statements in a session that ends with them, so that what they did is counted."""

    def run(*statements):
        with closing(psycopg.connect(postgres_url, autocommit=True)) as connection:
            process = connection.info.backend_pid
            for statement in statements:
                connection.execute(statement)
        ended(watcher, process)

    return run


def ended(watcher, process):
    """Wait until a session is over on the server, too."""
    while watcher.execute("SELECT FROM pg_stat_activity WHERE pid = %s", (process,)).fetchone() is not None:
        time.sleep(0.001)


@pytest.fixture
def pg_poller(poller_of, postgres_url):
    return poller_of(shop=Database(postgres_url))


def deciding(found):
    """Return the rung that decided."""
    return found.detail.rsplit(", ", 1)[-1].rsplit("; ", 1)[-1].split()[0]
