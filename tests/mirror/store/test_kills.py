"""Promises 1, 2 and 3: a worker is killed at a random moment, and all that it said was recorded is there."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from unstale.mirror.store.copies import Copies
from unstale.mirror.store.sql.store import open_store

from . import killed


class Killer:
    """Starts workers, kills them, and keeps what they said."""

    def __init__(self, process, url, folder, worker):
        self.process, self.url, self.folder, self.worker = process, url, folder, worker
        self.versions, self.polls, self.paid = {}, {}, {}
        self.turns = 0

    def kill_one(self, chance, turns=None):
        """Let a worker work for a moment, and kill it: by the clock, or just before or after some step."""
        job = {"url": self.url, "folder": str(self.folder), "worker": self.worker, "seed": chance.random()}
        if turns is None and chance.random() < 0.7:
            job |= {"step": chance.randrange(200), "kind": chance.choice(["statement", "statement", "file"])}
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        pid, dying = None, "step" in job
        life = self.turns + (turns or chance.choice([0, 1, 2, 5, 10]))  # 0: while it opens the store
        while True:
            if pid is not None and not dying and self.turns >= life:
                time.sleep(chance.random() * 0.03)
                os.kill(pid, signal.SIGKILL)
                dying = True
            line = self.process.stdout.readline()
            try:
                said = json.loads(line)
            except ValueError:
                assert line.strip() == "" or dying, line  # it was killed while it said this
                continue
            if "pid" in said:
                pid = said["pid"]
            elif "dead" in said:
                assert said["dead"], "the worker died of itself"
                return
            else:
                self._keep(said)

    def _keep(self, said):
        self.turns += 1
        self.versions.update(said["versions"])
        self.polls.update({number: (element, at) for number, element, at in said["polls"]})
        self.paid.update({int(group): until for group, until in said["paid"].items()})

    def merge(self, other):
        """Take over what another said."""
        self.versions |= other.versions
        self.polls |= other.polls
        self.paid = {group: max(self.paid.get(group, 0.0), until) for group, until in other.paid.items()}

    def check(self):
        """See that all promises were kept."""
        copies = Copies(self.folder)
        with open_store(self.url, copies=copies, run=True) as store:
            assert store.check() == []
            with store.begin() as t:
                versions = t.versions(limit=10**6)
                polls = t.polls(limit=10**6)[::-1]
                elements = t.elements(limit=10**6)
                groups, state = t.groups(), t.state()
                evidence = {
                    number: int(bytes(row) or b"0")
                    for part in t.load()
                    for number, row in zip(part.id.tolist(), part.evidence, strict=True)
                }
        if not elements:
            assert not self.turns
            return
        # 1. Each version has its copy, whole.
        for digest, size in {version.digest: version.size for version in versions}.items():
            body = copies.read(digest)
            assert hashlib.sha256(body).hexdigest() == digest
            assert len(body) == size
        latest = {version.element: version for version in versions}
        for element in elements:
            assert element.version == (latest[element.id].id if element.id in latest else None)
            if element.id in latest:
                assert element.fingerprint == latest[element.id].digest
                assert element.validators == {"print": latest[element.id].digest}
        # 2. Nothing recorded is lost: what was said is there, but for what was pruned since.
        there = {poll.id: poll for poll in polls}
        for number, (element, at) in self.polls.items():
            assert (there[number].element, there[number].time) == (element, at)
        recorded = Counter((poll.element, poll.time) for poll in polls)
        assert set(recorded.values()) <= {1}, "a lease was recorded twice"
        kept = {version.id: version.digest for version in versions}
        brought = {poll.version for poll in polls if poll.version is not None}
        assert set(self.versions) <= brought
        assert all(kept.get(number, digest) == digest for number, digest in self.versions.items())
        # What was learned goes with what was heard, no more and no less.
        position = int(state.get("position", b"0"))
        heard = Counter(poll.element for poll in polls if poll.id <= position)
        assert evidence == {element.id: heard[element.id] for element in elements}
        # 3. What was polled had been paid for, and polls of a group are as far apart as they must be.
        assert len(polls) <= int(state["spent"])
        for group in groups:
            assert group.paid_until >= self.paid.get(group.id, 0.0)
            times = sorted(poll.time for poll in polls if (poll.element - 1) % killed.GROUPS + 1 == group.id)
            assert all(later - at >= killed.SPACING for at, later in pairwise(times))
            assert not times or times[-1] + killed.SPACING <= group.paid_until


@contextmanager
def killer(url, folder, worker="w"):
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, Path(killed.__file__)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield Killer(process, url, folder, worker)
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def kill(url, folder, times, checks, seed):
    chance = random.Random(seed)  # noqa: S311
    with killer(url, folder) as one:
        for number in range(times):
            one.kill_one(chance)
            if number % checks == checks - 1:
                one.check()
        one.check()
        assert one.turns >= times
        assert len(one.polls) > 3 * times
        copies = Copies(folder)
        copies.empty_scratch()
        with open_store(url, copies=copies, run=True) as store:
            store.sweep(-1.0)
            with store.begin() as t:
                left = {digest for some in copies.digests(-1.0) for digest in some}
                assert left == {version.digest for version in t.versions(limit=10**6)}


def test_killed_a_few_times(url, tmp_path):
    kill(url, tmp_path / "copies", times=8, checks=1, seed=1)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_killed_many_times(url, tmp_path, seed):
    kill(url, tmp_path / "copies", times=50, checks=1, seed=seed)


@pytest.mark.long
def test_two_workers_that_are_killed_one_after_the_other(postgres_empty, tmp_path):
    """What one leaves behind another goes on with, and none records what is not its own."""
    folder = tmp_path / "copies"
    with killer(postgres_empty, folder, "one") as one, killer(postgres_empty, folder, "two") as two:
        for number in range(10):
            chance = random.Random(number)  # noqa: S311
            thread = threading.Thread(target=one.kill_one, args=(random.Random(-number), 25))  # noqa: S311
            thread.start()
            while thread.is_alive():
                two.kill_one(chance)
            thread.join()
            two.merge(one)
            two.check()
        assert one.turns >= 10 * 25
        assert len(two.polls) > 200
