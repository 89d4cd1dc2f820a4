"""Stores to test: each test runs on SQLite and on PostgreSQL."""

import itertools
from contextlib import closing

import pytest
from sqlalchemy import create_engine

from unstale.mirror.store.copies import Copies
from unstale.mirror.store.sql import schema
from unstale.mirror.store.sql.poll_spans import open_first_span
from unstale.mirror.store.sql.store import open_store

from .s3_server import KEY, SECRET, s3_server

_NUMBERS = itertools.count()


@pytest.fixture
def copies(tmp_path):
    return Copies(tmp_path / "copies")


@pytest.fixture(scope="session")
def postgres_shared(postgres_server, tmp_path_factory):
    """A database that tests share, because making one takes longer than most of them."""
    import psycopg

    with closing(psycopg.connect(postgres_server, autocommit=True)) as connection:
        connection.execute("CREATE DATABASE shared")
    url = postgres_server.replace("/postgres?", "/shared?")
    open_store(url, copies=Copies(tmp_path_factory.mktemp("copies"))).close()
    return url


def empty(url):
    """Delete all that a store in PostgreSQL holds."""
    import psycopg

    with closing(psycopg.connect(url)) as connection:
        for name in schema.METADATA.tables:
            if name not in {"numbers", "mirror_meta", "planner"}:
                connection.execute(f"DELETE FROM {name}")  # noqa: S608
        kinds = ", ".join(f"{column.name} = 0" for column in schema.numbers.c if column.name != "one")
        connection.execute(f"UPDATE numbers SET {kinds}")  # noqa: S608
        connection.execute("UPDATE planner SET number = 0, session = '', beat = 0")
        connection.execute("DELETE FROM mirror_meta WHERE name <> 'schema'")
        query = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'polls'::regclass"
        for (name,) in connection.execute(query).fetchall():
            connection.execute(f"DROP TABLE {name}")
        connection.commit()
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        open_first_span(connection)
    engine.dispose()


@pytest.fixture
def postgres_empty(postgres_shared):
    """The address of a store in PostgreSQL that holds nothing."""
    empty(postgres_shared)
    return postgres_shared


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return str(tmp_path / "mirror.db")
    return request.getfixturevalue("postgres_empty")


@pytest.fixture
def store(url, copies):
    with open_store(url, copies=copies, run=True) as store:
        yield store


@pytest.fixture(scope="session")
def s3_address():
    """The address of a real S3 server."""
    with s3_server() as address:
        yield address


@pytest.fixture
def bucket(s3_address, monkeypatch):
    """The address of a place in a bucket that holds nothing, with the rights to use it in the environment."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_ENDPOINT_URL": s3_address,
        "AWS_REGION": "us-east-1",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    return f"s3://unstale/{next(_NUMBERS)}"
