"""The test bed of a fleet in cells: 3 PostgreSQL servers, a bucket, 4 processes, 16 cells, and random faults.

A site in this process keeps the truth: what it served, when, and to whom. Each process reaches each server
by a link of its own, which can be cut, be slow or fall silent; the bucket may answer errors. Processes are
killed and stopped, servers are killed, clocks of machines are set. Meanwhile copies are read, and changes
from one cursor on.
"""

import hashlib
import json
import os
import random
import signal
import threading
import time
import traceback
from collections import Counter, defaultdict
from contextlib import ExitStack, suppress
from itertools import count
from math import ceil
from urllib.parse import urlsplit

import pytest
from sqlalchemy import create_engine, exc, text

from mirror.store.s3_server import KEY, SECRET, free_ports, s3_server
from unstale.errors import Trouble, UnstaleError
from unstale.mirror.cells.layout import hash_of
from unstale.mirror.cells.mirror import MirrorOfCells
from unstale.mirror.source import New

from .killing import wait_for
from .links import Links
from .pages import LATENESS, Site, assert_spaced, most_at_once, number_of
from .postgres import Postgres
from .worker import settings_of

CELLS, PROCESSES, SERVERS = 16, 4, 3
BUDGET, SPACING, AT_ONCE = 8.0, 0.8, 2
PAUSES = {"free": 0.02, "spaced": 0.0, "narrow": 0.15}
PAGES = {"free": 12, "spaced": 6, "narrow": 6}
RECOVERY_SECONDS = 90.0
"""After the end of all faults until all cells are polled again: what the documentation promises."""
FAULTS, AT_A_TIME, QUIET_EVERY = 200, 3, 25
CLOCK_SECONDS = 600.0


class Bed:
    """Servers, links, processes and the site."""

    def __init__(self, employ, folder):
        self.employ, self.folder, self._stack = employ, folder, ExitStack()

    def __enter__(self):
        with self._stack as stack:
            self.site = stack.enter_context(Site(_pauses(), period=60.0, staggered=True))
            self.links = stack.enter_context(Links())
            bucket = stack.enter_context(s3_server())
            self.databases = [stack.enter_context(Postgres(port)) for port in free_ports(SERVERS)]
            aws = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1"}
            old = {name: os.environ.get(name) for name in (*aws, "AWS_ENDPOINT_URL")}
            stack.callback(_set, old)
            _set({**aws, "AWS_ENDPOINT_URL": bucket})
            settings = {
                "budget": BUDGET, "cells": CELLS, "keep": 0, "timeout": 5.0, "lease": 10.0,
                "groups": [("spaced-*", SPACING), ("narrow-*", 0.0, AT_ONCE), ("*",)],
            }  # fmt: skip
            self.to_database, self.to_bucket, jobs = [], [], []
            where = urlsplit(bucket)
            for number in range(PROCESSES):
                host = f"127.0.0.{10 + number}"
                self.to_database.append([
                    self.links.open(host, one.port, ("127.0.0.1", one.port)) for one in self.databases
                ])  # fmt: skip
                self.to_bucket.append(self.links.open(host, where.port, ("127.0.0.1", where.port)))
                clock = self.folder / f"clock-{number}"
                clock.write_text("0", "ascii")
                store, *servers = self.addresses(host)
                headers = {"X-Worker": str(number)}
                jobs.append({
                    "store": store, "copies": "s3://bed/copies", "clock": str(clock),
                    "settings": {**settings, "servers": servers, "headers": headers},
                    "environment": {**aws, "AWS_ENDPOINT_URL": f"http://{host}:{where.port}"},
                })  # fmt: skip
            store, *servers = self.addresses("127.0.0.1")
            self.settings = settings_of(**settings, servers=tuple(servers))
            self.store = store
            self.mirror = stack.enter_context(self.open())
            for cell, groups in enumerate(_groups()):
                assert all(self.mirror.of_group(f"http:{group}").number == cell for group in groups)
                for group in groups:
                    keys = self.site.keys(group, PAGES[group.partition("-")[0]])
                    self.mirror.add_many([New(key) for key in keys], {"group": f"http:{group}"})
            self.workers = self.employ(*jobs)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *details):
        return self._stack.__exit__(*details)

    def open(self):
        return MirrorOfCells(self.store, copies="s3://bed/copies", settings=self.settings)

    def addresses(self, host):
        """Return the addresses of the databases, as a process calls them that reaches them over a host."""
        return [
            f"postgresql://postgres@db{n}:{one.port}/mirror?hostaddr={host}"
            for n, one in enumerate(self.databases)
        ]

    def cells_polled_since(self, moment):
        """Return how many cells the site has been asked for something by."""
        seen = {visit.group for visit in list(self.site.visits) if visit.start >= moment}
        return sum(bool(seen.intersection(groups)) for groups in _groups())

    def tell_troubles(self, since):
        """Print what processes have said of troubles since a moment, to find out what took so long."""
        for number, worker in enumerate(self.workers):
            for said in worker.events("trouble") + worker.events("recovered"):
                if said["time"] >= since:
                    print(number, said["time"] - since, said["detail"][:200])  # noqa: T201

    def coordinator(self):
        """Return the worker that has the coordinator's lock, or else any that runs."""
        running = [one for one in self.workers if one.pid is not None]
        engine = create_engine(self.store.replace("postgresql:", "postgresql+psycopg:"))
        query = text(
            "SELECT application_name FROM pg_locks JOIN pg_stat_activity USING (pid) "
            "WHERE relation = 'cell_budget'::regclass AND mode = 'RowShareLock'"
        )
        try:
            for _ in range(1000):
                with engine.connect() as connection:
                    names = connection.scalars(query).all()
                for one in running:
                    if any(f":{one.pid}:" in (name or "") for name in names):
                        return one
        except exc.SQLAlchemyError:  # that database is down
            pass
        finally:
            engine.dispose()
        return None


class Reader:
    """Reads copies, and changes from one cursor on, all the time; notes what is not as it should be."""

    def __init__(self, bed):
        self.bed, self.cursor, self.seen = bed, None, []
        self.wrong, self.reads, self.highest_bound = [], 0, 0.0
        self._numbers = {}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        self._thread.join()

    def _run(self):
        chance = random.Random(1)  # noqa: S311
        keys = [key for groups in _groups() for group in groups
                for key in self.bed.site.keys(group, PAGES[group.partition("-")[0]])]  # fmt: skip
        while not self._end.wait(0.5):
            with suppress(Trouble, OSError), self.bed.open() as mirror:
                while not self._end.wait(0.2):
                    self.highest_bound = max(
                        self.highest_bound, sum(one.bound for one in mirror.directory.states())
                    )
                    self.follow(mirror)
                    for key in chance.sample(keys, 5):
                        self._read(mirror, key)

    def follow(self, mirror):
        """Go on from the cursor."""
        for number, version, cursor in mirror.changes(self.cursor):
            self.seen.append((number, version.id, version.key, version.digest))
            self.cursor = cursor

    def _read(self, mirror, key):
        path = urlsplit(key).path
        try:
            number = number_of(path, mirror.read(key).body)
        except Trouble:
            raise
        except (UnstaleError, AssertionError) as error:
            if path in self._numbers:  # there was a copy before
                self.wrong.append(f"{key}: {error}")
            return
        self.reads += 1
        if number < self._numbers.get(path, 0):
            self.wrong.append(f"{key}: {number} after {self._numbers[path]}")
        self._numbers[path] = number


class Faults:
    """Random faults, some at a time, none of two at one place."""

    def __init__(self, bed, chance):
        self.bed, self.chance, self.done = bed, chance, Counter()
        self._threads, self._taken = [], set()
        self._failed = []
        self._over = threading.Event()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._over.set()
        for thread in self._threads:
            thread.join()

    def one(self):
        """Begin another fault, once there is room for it."""
        while sum(thread.is_alive() for thread in self._threads) >= AT_A_TIME:
            time.sleep(0.2)
        kinds = {
            "process killed": self._kill_process, "coordinator killed": self._kill_coordinator,
            "process stopped": self._stop_process, "database killed": self._kill_database,
            "link to database cut": lambda: self._link("cut", self.bed.to_database),
            "link to database slow": lambda: self._link("slow", self.bed.to_database),
            "link to database silent": lambda: self._link("silent", self.bed.to_database),
            "bucket fails": lambda: self._bucket(("errors", "cut", "slow", "silent")),
            "clock 10 minutes off": self._set_clock,
        }  # fmt: skip
        while True:
            kind = self.chance.choice(list(kinds))
            fault = kinds[kind]()
            if fault is not None:
                break
        self.done[kind] += 1
        place, run, seconds = fault
        self._taken.add(place)

        def go():
            try:
                run(seconds)
            except BaseException:  # noqa: BLE001
                self._failed.append(f"{kind}: {traceback.format_exc()}")
                print(self._failed[-1], flush=True)  # noqa: T201
            finally:
                self._taken.discard(place)

        thread = threading.Thread(target=go)
        thread.start()
        self._threads.append(thread)

    def wait(self):
        """Wait until all faults are over."""
        for thread in self._threads:
            thread.join()
        self._threads = []
        assert not self._failed, self._failed

    def _process(self):
        free = [n for n in range(PROCESSES) if ("process", n) not in self._taken]
        return self.chance.choice(free) if free else None

    def _kill_process(self):
        if (number := self._process()) is None:
            return None
        worker = self.bed.workers[number]

        def run(seconds):
            worker.kill()
            self._over.wait(seconds)
            worker.start()

        return ("process", number), run, self.chance.uniform(0.5, 40.0)

    def _kill_coordinator(self):
        if ("process", "coordinator") in self._taken:
            return None
        worker = self.bed.coordinator()
        number = None if worker is None else self.bed.workers.index(worker)
        if number is None or ("process", number) in self._taken:
            return None

        def run(seconds):
            worker.kill()
            self._over.wait(seconds)
            worker.start()

        return ("process", number), run, self.chance.uniform(0.5, 40.0)

    def _stop_process(self):
        if (number := self._process()) is None:
            return None
        worker = self.bed.workers[number]

        def run(seconds):
            os.kill(worker.pid, signal.SIGSTOP)
            self._over.wait(seconds)
            os.kill(worker.pid, signal.SIGCONT)

        return ("process", number), run, self.chance.choice((5.0, 20.0, 45.0)) + self.chance.random()

    def _kill_database(self):
        number = self.chance.randrange(SERVERS)
        if ("database", number) in self._taken:
            return None
        server = self.bed.databases[number]

        def run(seconds):
            server.kill()
            self._over.wait(seconds)
            server.start()

        return ("database", number), run, self.chance.choice((0.0, 5.0, 35.0))

    def _link(self, state, links):
        process, server = self.chance.randrange(PROCESSES), self.chance.randrange(SERVERS)
        place = ("link", process, server)
        if place in self._taken:
            return None
        link = links[process][server]
        return place, self._changed(link, state), self.chance.choice((0.5, 15.0, 45.0))

    def _bucket(self, states):
        process = self.chance.randrange(PROCESSES)
        if ("bucket", process) in self._taken:
            return None
        link = self.bed.to_bucket[process]
        run = self._changed(link, self.chance.choice(states))
        return ("bucket", process), run, self.chance.choice((0.5, 10.0, 30.0))

    def _changed(self, link, state):
        def run(seconds):
            self.bed.links.become(link, state)
            self._over.wait(seconds)
            self.bed.links.become(link, "open")

        return run

    def _set_clock(self):
        if (number := self._process()) is None:
            return None
        worker, clock = self.bed.workers[number], self.bed.folder / f"clock-{number}"
        ahead = self.chance.choice((-CLOCK_SECONDS, CLOCK_SECONDS))
        restart = self.chance.random() < 0.5

        def become(seconds):
            clock.write_text(str(seconds), "ascii")
            os.kill(worker.pid, signal.SIGUSR1)

        def run(seconds):
            if restart:
                worker.kill()
                clock.write_text(str(ahead), "ascii")
                worker.start()
            else:
                become(ahead)
            self._over.wait(seconds)
            become(0.0)

        return ("process", number), run, self.chance.uniform(5.0, 40.0)


def run(bed, faults, seed):
    """Let faults happen; return how long it took each time until all cells were polled again."""
    chance = random.Random(seed)  # noqa: S311
    for worker in bed.workers:
        worker.start()
    began = time.time()
    wait_for(lambda: bed.cells_polled_since(began) == CELLS, 180.0)
    took = []
    with Reader(bed) as reader, Faults(bed, chance) as happening:
        for number in range(1, faults + 1):
            happening.one()
            time.sleep(chance.uniform(0.0, 3.0))
            if number % QUIET_EVERY == 0 or number == faults:
                happening.wait()
                over = time.time()
                wait_for(lambda over=over: bed.cells_polled_since(over) == CELLS, 5 * RECOVERY_SECONDS)
                took.append(time.time() - over)
                if took[-1] > RECOVERY_SECONDS:
                    bed.tell_troubles(over - 60.0)
                print(f"{number} faults, all cells after {took[-1]:.0f} s", flush=True)  # noqa: T201
    for worker in bed.workers:
        worker.kill(signal.SIGTERM)
    print(  # noqa: T201  (shown with -s)
        f"{dict(happening.done)}; {len(bed.site.visits)} polls at the site in {time.time() - began:.0f} s; "
        f"{reader.reads} copies read, {len(reader.seen)} changes followed; all cells after "
        f"{', '.join(f'{one:.0f}' for one in took)} s; bounds of parts at most {reader.highest_bound:.4f}"
    )
    return reader, took


def check(bed, reader):
    """See that all promises were kept; nobody is at work."""
    site = bed.site
    with bed.open() as mirror:
        reader.follow(mirror)
        changes = [(number, one.id, one.key, one.digest, one.time) for number, one, _ in mirror.changes()]
        assert [
            (cell.number, wrong) for cell in mirror.cells for wrong in mirror.at(cell).store.check()
        ] == []
        # The cursor has led to each change once.
        assert Counter(reader.seen) == Counter(one[:4] for one in changes)
        # No change that was told is lost.
        there = {(version, key) for _, version, key, _, _ in changes}
        told = {(said["version"], said["key"]) for worker in bed.workers for said in worker.events("change")}
        assert told <= there
        # Copies are whole, were served by the site, and none is older than the one before.
        served = defaultdict(set)
        for visit in site.visits:
            served[visit.path].add(visit.number)
        last = {}
        for number, version, key, digest, _ in changes:
            body = mirror.at(mirror.numbered(number)).copies.read(digest)
            assert hashlib.sha256(body).hexdigest() == digest
            path = urlsplit(key).path
            seen = number_of(path, body)
            assert seen in served[path]
            assert seen > last.get(path, -1), (key, version)
            last[path] = seen
        assert not reader.wrong, reader.wrong
        polls = 0
        for cell in mirror.cells:
            with mirror.at(cell).store.begin() as t:
                polls += len(t.polls(limit=10**7))
        assert polls <= len(site.visits)
        assert polls > 0.8 * len(site.visits)
    # The budget: in no window more than it pays for, and a poll of each cell.
    assert reader.highest_bound <= 1.0 + 1e-6
    assert_windows(site.starts(), BUDGET, beside=CELLS)
    for group in (one for groups in _groups() for one in groups):
        if group.startswith("spaced"):
            assert_spaced(site.starts(group), SPACING)
        if group.startswith("narrow"):
            assert most_at_once([visit for visit in site.visits if visit.group == group]) <= AT_ONCE


def assert_windows(starts, budget, beside):
    """See that no window of any length has more polls than the budget pays for, and so many beside."""
    earliest = -1e300
    for number, start in enumerate(starts):
        paid = start - number / budget
        owed = (earliest - paid) * budget  # polls beyond those of the window
        assert owed + 1.0 <= beside + budget * LATENESS, f"{owed + 1:.1f} polls too many at {start}"
        earliest = max(earliest, paid)
    for window in (60.0, 600.0):
        first = 0
        for number, start in enumerate(starts):
            while starts[first] <= start - window:
                first += 1
            assert number - first + 1 <= ceil(budget * window) + beside


def _groups():
    """Return the groups of each cell: a free one, and one with a limit."""
    found = []
    for cell in range(CELLS):
        kinds = ("free", ("spaced", "narrow")[cell % 2])
        found.append([
            next(name for n in count() if hash_of(f"http:{(name := f'{kind}-{n}')}") % CELLS == cell)
            for kind in kinds
        ])  # fmt: skip
    return found


def _pauses():
    return {group: PAUSES[group.partition("-")[0]] for groups in _groups() for group in groups}


def _set(environment):
    for name, value in environment.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@pytest.mark.long
def test_cells_keep_their_promises_under_random_faults(tmp_path, workers):
    faults = int(json.loads(os.environ.get("UNSTALE_FAULTS", str(FAULTS))))
    with Bed(workers, tmp_path) as bed:
        reader, took = run(bed, faults, seed=int(os.environ.get("UNSTALE_SEED", "0")))
        check(bed, reader)
    assert max(took) <= RECOVERY_SECONDS
