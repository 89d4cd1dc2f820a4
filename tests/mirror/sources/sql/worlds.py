"""The worlds of tables, for the contract of sources."""

import random
import sqlite3
from contextlib import asynccontextmanager, closing
from io import BytesIO
from types import MappingProxyType

import psycopg
import pyarrow.parquet as pq

from unstale.mirror.settings import Database, Settings
from unstale.mirror.sources.sql.source import sql_source


class World:
    """A table."""

    text = "shop#orders"
    nonsense = (
        "orders",
        "shop#",
        "#orders",
        "nowhere#orders",
        "shop#a.b.c",
        "shop#orders[",
        "shop#orders[x]",
    )

    def __init__(self, url, run, spoilt, mended, options):
        self.source = sql_source(Settings(databases={"shop": Database(url)}))
        self.options = MappingProxyType(options)
        self._run, self._spoilt, self._mended = run, spoilt, mended

    async def put(self, version, size=0):
        noise = random.Random(version)  # noqa: S311
        rows = [f"({i}, {version}, '{noise.randbytes(100).hex()}')" for i in range(1 + size // 100)]
        self._run(
            "CREATE TABLE IF NOT EXISTS orders (id integer PRIMARY KEY, version integer, noise text)",
            "DELETE FROM orders",
            *(f"INSERT INTO orders VALUES {', '.join(rows[i : i + 500])}" for i in range(0, len(rows), 500)),  # noqa: S608
        )

    async def touch(self):
        self._run("UPDATE orders SET version = version", "CREATE TABLE IF NOT EXISTS other (a integer)")

    async def remove(self):
        self._run("DROP TABLE IF EXISTS orders")

    async def spoil(self):
        self._spoilt()

    async def mend(self):
        self._mended()

    def shows(self, version, body):
        return set(pq.read_table(BytesIO(body))["version"].to_pylist()) == {version}


def in_sqlite(*, wal=False, **options):
    """Return the world of a table in SQLite."""

    @asynccontextmanager
    async def world(folder):
        path, aside = folder / "shop.db", folder / "aside"
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"PRAGMA journal_mode = {'WAL' if wal else 'DELETE'}")
            connection.execute("CREATE TABLE first (a)")

        def run(*statements):
            with closing(sqlite3.connect(path)) as connection, connection:
                for statement in statements:
                    connection.execute(statement)

        def mended():
            path.rmdir()
            aside.rename(path)

        def spoilt():
            path.rename(aside)
            path.mkdir()

        yield World(f"sqlite:///{path}", run, spoilt, mended, options)

    return world


def in_postgres(url, **options):
    """Return the world of a table in PostgreSQL."""

    @asynccontextmanager
    async def world(_):
        def run(*statements):
            with closing(psycopg.connect(url)) as connection, connection:
                for statement in statements:
                    connection.execute(statement)

        def spoilt():
            run("REVOKE ALL ON orders FROM reader")

        def mended():
            run("GRANT SELECT ON orders TO reader")

        run(
            "DO $$ BEGIN CREATE ROLE reader LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$",
            "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO reader",
        )
        yield World(url.replace("postgres:@", "reader:@"), run, spoilt, mended, options)

    return world
