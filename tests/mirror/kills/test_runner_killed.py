"""Promises 1, 2 and 3: a mirror of real pages is killed at random moments, and started again."""

import hashlib
import random
import signal
import threading
import time
from collections import Counter, defaultdict
from urllib.parse import urlsplit

import pytest

from unstale.errors import InvalidInput
from unstale.mirror.mirror import Mirror

from .killing import wait_for
from .pages import JITTER, Site, assert_spaced, assert_within_budget, most_at_once, number_of
from .worker import settings_of

SPACING, AT_ONCE = 1.2, 1
PAUSES = {"free": 0.0, "spaced": 0.0, "narrow": 0.04}


class Reader:
    """Reads copies all the time: each must be whole, and none older than one that was read before."""

    def __init__(self, mirror, keys):
        self.mirror, self.keys = mirror, keys
        self.numbers, self.reads, self.error = defaultdict(lambda: -1), 0, None
        self._end, self._thread = threading.Event(), threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        self._thread.join()

    def _run(self):
        chance = random.Random(1)  # noqa: S311
        try:
            while not self._end.wait(0.01):
                self._read(chance.choice(self.keys), count=chance.random() < 0.1)
        except BaseException as error:  # noqa: BLE001
            self.error = error

    def _read(self, key, *, count):
        try:
            copy = self.mirror.read(key, count=count)
        except InvalidInput as error:
            assert "no copy yet" in str(error)  # noqa: PT017
            assert key not in self.numbers, f"the copies of {key} are gone"
            return
        number = number_of(urlsplit(key).path, copy.body)
        assert number >= self.numbers[key]
        self.numbers[key] = number
        self.reads += 1


def check(mirror, worker, site, budget, reserve):
    """See that all promises were kept."""
    assert mirror.store.check() == []
    with mirror.store.begin() as t:
        polls = t.polls(limit=10**7)[::-1]
        versions = t.versions(limit=10**7)
        keys = {element.id: element.key for element in t.elements(limit=10**6)}
    # 1. Each version has its copy, whole, and they come in order.
    seen = defaultdict(lambda: -1)
    for version in versions:
        body = mirror.copies.read(version.digest)
        assert (hashlib.sha256(body).hexdigest(), len(body)) == (version.digest, version.size)
        number = number_of(urlsplit(version.key).path, body)
        assert number > seen[version.element]
        seen[version.element] = number
    # 2. What was told is there; each poll that is recorded was made, and is recorded once.
    brought = {poll.version: poll.element for poll in polls}
    for change in worker.events("change"):
        assert keys[brought[change["version"]]] == change["key"]
    recorded = Counter(keys[poll.element] for poll in polls)
    told = Counter(poll["key"] for poll in worker.events("poll"))
    assert all(recorded[key] >= count for key, count in told.items())
    visits = defaultdict(list)
    for visit in sorted(site.visits, key=lambda visit: visit.start):
        visits[f"{site.addresses[visit.group]}{visit.path}"].append(visit)
    for poll in sorted(polls, key=lambda poll: poll.time):
        mine = visits[keys[poll.element]]
        while mine and mine[0].start < poll.time - JITTER:
            mine.pop(0)  # of a poll that was killed
        assert mine, f"a poll of {keys[poll.element]} is recorded that was not made"
        assert mine.pop(0).start <= poll.time + poll.seconds + JITTER
    # 3. No limit was exceeded.
    assert_within_budget(site.starts(), budget, reserve=reserve)
    assert_spaced(site.starts("spaced"), SPACING)
    assert most_at_once([visit for visit in site.visits if visit.group == "narrow"]) <= AT_ONCE
    assert not worker.events("trouble")


def kill(workers, folder, times, seed, *, budget=40.0, reserve=0.0, longest=1.3, visits=0):
    chance = random.Random(seed)  # noqa: S311
    with Site(PAUSES) as site:
        groups = [
            (site.addresses["spaced"][7:], SPACING),
            (site.addresses["narrow"][7:], 0.0, AT_ONCE),
            ("*",),
        ]
        settings = {"budget": budget, "reserve": reserve, "groups": groups, "keep": 5}
        store = str(folder / "mirror.db")
        keys = [
            key
            for group, count in (("free", 6), ("spaced", 4), ("narrow", 24))
            for key in site.keys(group, count)
        ]
        with Mirror(store, settings=settings_of(**settings)) as mirror:
            for key in keys:
                mirror.add(key)
            (worker,) = workers({"store": store, "copies": str(folder / "copies"), "settings": settings})
            with Reader(mirror, keys) as reader:
                for number in range(times):
                    worker.start(up=chance.random() < 0.9)
                    time.sleep(chance.random() * longest)
                    worker.kill()
                    if number % 10 == 9:
                        check(mirror, worker, site, budget, reserve)
                worker.start()
                before = len(worker.events("poll"))
                # It goes on, and on a machine of any speed enough is seen.
                wait_for(lambda: len(worker.events("poll")) > before and len(site.visits) > visits)
                worker.kill(signal.SIGTERM)
            assert reader.error is None, reader.error
            check(mirror, worker, site, budget, reserve)
            return site, worker, reader


def test_a_runner_that_is_killed_a_few_times(tmp_path, workers):
    _, worker, reader = kill(workers, tmp_path, 4, 1, longest=1.2, visits=20)
    assert worker.events("change")
    assert reader.reads


def test_a_reserve_is_spent_once_by_one_who_is_started_again_and_again(tmp_path, workers):
    """It pays for a third of the first copies: whoever forgot that would pay for all of them."""
    site, _, _ = kill(workers, tmp_path, 6, 3, budget=1 / 3, reserve=30.0, longest=0.8, visits=9)
    assert len(site.visits) >= 10


def test_a_small_budget_is_kept_by_one_who_is_started_again_and_again(tmp_path, workers):
    """One poll in three seconds: whoever forgot what had been paid would poll after each start."""
    site, _, _ = kill(workers, tmp_path, 6, 2, budget=1 / 3, longest=0.8)
    assert site.visits  # maybe one: a poll is paid for also if who was to make it was killed


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_a_runner_that_is_killed_many_times(tmp_path, workers, seed):
    site, worker, reader = kill(workers, tmp_path, 50, seed)
    assert len(site.visits) > 300
    assert len(worker.events("change")) > 100
    assert reader.reads > 300


@pytest.mark.long
def test_a_small_budget_is_kept_by_one_who_is_killed_many_times(tmp_path, workers):
    site, _, _ = kill(workers, tmp_path, 50, 9, budget=1 / 3, longest=3.0)
    assert len(site.visits) > 5
