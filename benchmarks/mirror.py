"""The mirror: polls per second beside a bare client, what a million elements take, and the store's share.

The server answers in a process of its own, with as little work as can be, so that the client is measured. The
store is a file on the disk of the temporary folder (TMPDIR sets which), and each transaction is synced.
"""

import asyncio
import gc
import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks.timing import at_least, required, side_by_side
from unstale.mirror.mirror import Mirror
from unstale.mirror.settings import GroupLimit, Http, Settings
from unstale.mirror.source import Found, Json, Known, New, Terms
from unstale.mirror.store.contract import Addition, Finished, Slot, Store
from unstale.mirror.store.copies import Copies
from unstale.mirror.store.sql.store import open_store
from unstale.policy.element_table import OK

PAGES, CONCURRENCY = 5000, 50
ROUNDS, SECONDS, WARM = 5, 5.0, 1.5
MILLION, HOSTS = 1_000_000, 10_000
TURNS, BATCH = 20, 200
"""Transactions, and polls in each: as many as there are when a mirror polls a thousand pages a second."""
CONDITIONS = {"If-None-Match": '"v1"', "If-Modified-Since": "Thu, 01 Jan 2026 00:00:00 GMT"}
ROOT = Path(__file__).parents[1]


def run() -> None:
    throughput()
    a_million()
    store_work()


# --- polls per second ----------------------------------------------------------------------------------


class Answers(asyncio.Protocol):
    """Answers 304 to whoever has the page, and the page to others."""

    head = b'ETag: "v1"\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n'
    page = b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n" + head + b"\r\n" + b"x" * 2000
    same = b"HTTP/1.1 304 Not Modified\r\n" + head + b"\r\n"

    def __init__(self, delay: float = 0.0) -> None:
        self._head, self._delay = b"", delay

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        *heads, self._head = (self._head + data).split(b"\r\n\r\n")
        for head in heads:
            said = self.same if b'If-None-Match: "v1"' in head else self.page
            if self._delay:
                asyncio.get_running_loop().call_later(self._delay, self._transport.write, said)
            else:
                self._transport.write(said)


async def serve(delay: float = 0.0) -> None:
    """Print the port, and answer, after so many seconds, until the standard input ends."""
    server = await asyncio.get_running_loop().create_server(lambda: Answers(delay), "0.0.0.0", 0)  # noqa: S104
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)


@contextmanager
def serving(delay: float = 0.0) -> Iterator[str]:
    """Serve in another process; gives the address."""
    command = [
        sys.executable,
        "-c",
        f"from benchmarks import mirror; import asyncio; asyncio.run(mirror.serve({delay}))",
    ]
    with subprocess.Popen(  # noqa: S603  (our own command)
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.kill()


async def bare(url: str, seconds: float = SECONDS - WARM) -> float:
    """Polls per second of a loop that makes the same requests, and does nothing else."""
    import aiohttp

    count, end = 0, time.perf_counter() + seconds

    async def ask(first: int) -> None:
        nonlocal count
        page = first
        while time.perf_counter() < end:
            async with session.get(f"{url}/page/{page % PAGES}", headers=CONDITIONS) as answer:
                await answer.read()
                assert answer.status == 304
            count, page = count + 1, page + CONCURRENCY

    async with aiohttp.ClientSession() as session:
        start = time.perf_counter()
        await asyncio.gather(*(ask(i) for i in range(CONCURRENCY)))
        return count / (time.perf_counter() - start)


async def mirrored(mirror: Mirror, seconds: float = SECONDS) -> float:
    """Polls per second of a mirror, once it has begun."""
    start = time.time()
    await mirror.arun(start + seconds)
    polls = [poll for poll in mirror.polls(limit=1_000_000) if poll.time >= start + WARM]
    assert {poll.outcome for poll in polls} == {"unchanged"}, {poll.detail for poll in polls}
    return len(polls) / (polls[0].time - start - WARM)


@contextmanager
def a_mirror(url: str, folder: str) -> Iterator[Mirror]:
    """A mirror that has all pages, and may poll as fast as it can."""
    settings = Settings(
        budget=1e6, reserve=0.0, groups=(GroupLimit("*", concurrency=CONCURRENCY),), concurrency=CONCURRENCY,
        http=Http(robots=False),
    )  # fmt: skip
    with Mirror(f"{folder}/mirror.db", settings=settings) as mirror:
        mirror.add_many([New(f"{url}/page/{i}") for i in range(PAGES)])
        while not set(mirror.status().elements) <= {"ok"}:
            mirror.run(time.time() + 2.0)
        yield mirror


def throughput() -> None:
    print(
        f"\npolls per second: {PAGES:,} pages that do not change, {CONCURRENCY} at a time, store on disk;"
        " yardstick: a bare aiohttp loop"
    )
    with serving() as url, tempfile.TemporaryDirectory() as folder, a_mirror(url, folder) as mirror:
        gc.freeze()  # as `unstale run` does
        ratios = []
        for _ in range(ROUNDS):
            plain, ours = asyncio.run(bare(url)), asyncio.run(mirrored(mirror))
            ratios.append(ours / plain)
            print(f"  mirror {ours:,.0f}/s, yardstick {plain:,.0f}/s, ratio {ours / plain:.2f}")
    print(f"  {at_least(float(np.median(ratios)), 0.5, 'x')}")


# --- a million elements --------------------------------------------------------------------------------


class Still:
    """A source of which nothing is asked but that it is polled."""

    def __init__(self) -> None:
        self.mirror: Mirror | None = None
        self.first: float | None = None
        self.resident = 0

    def key(self, text: str, options: Mapping[str, Json]) -> str:  # noqa: ARG002
        return text

    def group(self, key: str, options: Mapping[str, Json]) -> str:  # noqa: ARG002
        return f"http:{key.split('/')[2]}"

    async def poll(self, known: Known, terms: Terms) -> Found:  # noqa: ARG002
        if self.first is None:
            self.first, self.resident = time.perf_counter(), resident()
        assert self.mirror is not None
        self.mirror.stop()
        return Found("unchanged", "304 Not Modified", traffic=200)

    async def close(self) -> None:
        pass


def a_million() -> None:
    print(f"\n{MILLION:,} elements of {HOSTS:,} hosts, each of which has been polled; store on disk")
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        path = fill(folder, MILLION)
        size = Path(path).stat().st_size
        print(f"  made in {time.perf_counter() - began:.0f} s: {size / MILLION:.0f} bytes each in the file")
        began = time.perf_counter()
        seconds = measured("start", path)["first"] - began
        memory, reading = measured("memory", path), measured("reading", path)
        print(
            f"  first poll, from the start of the process: {required(seconds, 15, 's')};"
            f" yardstick: SELECT of the same columns {reading['seconds']:.1f} s"
        )
        print(
            f"  memory of each: {required(memory['resident'], 500, 'bytes')}; {memory['peak']:.0f} at most;"
            f" yardstick: the rows of the SELECT {reading['resident']:.0f}"
        )


def measured(what: str, path: str) -> dict[str, float]:
    """Measure in a process of its own."""
    code = f"from benchmarks import mirror; mirror.measure_{what}({path!r})"
    done = subprocess.run(  # noqa: S603  (our own command)
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def fill(folder: str, count: int) -> str:
    """Make a store of elements that have been polled for a while; return its path."""
    from unstale.mirror.engine.planner import Planner

    path, now = f"{folder}/mirror.db", time.time()
    with Mirror(path, sources={"http": Still()}) as mirror:
        mirror.apply_rules()  # there are none, and it takes long to find that out for a million elements
    store = open_store(path, copies=Copies(Path(folder, "copies")), run=True)
    for start in range(0, count, 10_000):
        additions = [
            Addition(
                f"https://host{i % HOSTS}.example/page/{i}.html", "http", f"http:host{i % HOSTS}.example"
            )
            for i in range(start, min(start + 10_000, count))
        ]
        with store.begin() as t:
            t.add(additions, now - 30 * 86400.0)
    assert store.become_planner()
    rng = np.random.default_rng(1)
    with store.begin() as t:
        planner = Planner(Settings(budget=count / 86400.0), t, now)
        planner.plan(t, now, end=now, room=0)  # takes in that elements were added
        t.prune(0, -np.inf, 10 * count, edits_to=planner.last_edit)
    rows = planner.policy.table
    everything = np.arange(len(rows))
    for _ in range(3):
        rows.learner.learn(everything, 86400.0 * rng.exponential(size=count), rng.random(count) < 0.4)
    rows.each("last")[:] = now - 86400.0 * rng.exponential(size=count)
    rows.each("state")[:], rows.each("size")[:] = OK, 2000.0
    for start in range(0, count, 50_000):
        with store.begin() as t:
            t.save(rows.columns(everything[start : start + 50_000]))
    store.close()
    return path


def resident(name: str = "VmRSS") -> int:
    """Bytes of this process in memory; VmHWM: at most so far."""
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith(name):
            return 1024 * int(line.split()[1])
    raise RuntimeError(f"/proc/self/status does not say {name}")


def first_poll(path: str, count: int) -> tuple[float, float]:
    """Run until the first poll; return when that was, and how much memory there was then."""
    still = Still()
    with Mirror(path, settings=Settings(budget=count / 86400.0), sources={"http": still}) as mirror:
        still.mirror = mirror
        mirror.run()
    assert still.first is not None
    return still.first, still.resident


def measure_start(path: str) -> None:
    """Print when the first poll was."""
    print(json.dumps({"first": first_poll(path, MILLION)[0]}))


def measure_memory(path: str) -> None:
    """Print by how much this process grew."""
    with tempfile.TemporaryDirectory() as folder:  # loads all code
        first_poll(fill(folder, 100), 100)
    before = resident()
    Path("/proc/self/clear_refs").write_text("5", "ascii")  # the peak is that from now on
    grown = first_poll(path, MILLION)[1] - before
    print(json.dumps({"resident": grown / MILLION, "peak": (resident("VmHWM") - before) / MILLION}))


def measure_reading(path: str) -> None:
    """Print how long a plain SELECT takes, and by how much this process grew."""
    before, began = resident(), time.perf_counter()
    query = """
        SELECT id, group_id, added, last, not_before, failures, weight, size, max_age, min_interval, jitter,
        windows, state, evidence FROM elements JOIN learned ON element = id ORDER BY id
    """
    with sqlite3.connect(path) as database:
        rows = database.execute(query).fetchall()
    took = time.perf_counter() - began
    assert len(rows) == MILLION
    print(json.dumps({"seconds": took, "resident": (resident() - before) / MILLION}))


# --- the store's share -------------------------------------------------------------------------------------


def store_work() -> None:
    """What the store does for a poll, beside as many rows that are written plainly."""
    print(
        f"\nthe store, per poll: handed out, taken, recorded, {BATCH} in a transaction;"
        " yardstick: INSERT of a row"
    )
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"{folder}/mirror.db", copies=Copies(Path(folder, "copies")), run=True)
        with store.begin() as t:
            t.add([Addition(f"https://a.example/{i}", "http", "http:a.example") for i in range(PAGES)], 0.0)
        assert store.become_planner()
        plain = sqlite3.connect(f"{folder}/plain.db", isolation_level=None)
        plain.execute("PRAGMA journal_mode=WAL")
        plain.execute("CREATE TABLE polls (id INTEGER PRIMARY KEY, element, time, outcome, traffic, detail)")
        elements = iter(range(1 << 60))
        ours, yardstick = side_by_side(lambda: _turns(store, elements), lambda: _rows(plain), repeat=ROUNDS)
        plain.close()
        store.close()
    polls = TURNS * BATCH
    print(
        f"  {1e6 * ours / polls:.0f} us, yardstick {1e6 * yardstick / polls:.1f} us;"
        f" {polls / ours:,.0f} polls a second if there were nothing else to do"
    )


def _turns(store: Store, elements: Iterator[int]) -> None:
    """Hand out, take and record polls, as the loop does."""
    finished: list[Finished] = []
    for _ in range(TURNS + 1):
        now = time.time()
        with store.begin() as t:
            if finished:
                t.record("me", finished)
            chosen = [1 + next(elements) % PAGES for _ in range(BATCH)]
            t.hand_out([Slot(i, now, 0.5, 1, 0.5, planned=True, cost=1000.0) for i in chosen])
            leases = t.lease("me", BATCH, now, now + 300.0)
        found = Found("unchanged", "304 Not Modified", traffic=200)
        finished = [Finished(lease, now, 0.01, found, outcome="unchanged") for lease in leases]
        assert len(leases) == BATCH
    with store.begin() as t:
        t.expire(0.0, everything=True)


def _rows(plain: sqlite3.Connection) -> None:
    for _ in range(TURNS):
        plain.execute("BEGIN IMMEDIATE")
        rows = [(i, time.time(), "unchanged", 200, "304 Not Modified") for i in range(BATCH)]
        plain.executemany(
            "INSERT INTO polls (element, time, outcome, traffic, detail) VALUES (?, ?, ?, ?, ?)", rows
        )
        plain.execute("COMMIT")
