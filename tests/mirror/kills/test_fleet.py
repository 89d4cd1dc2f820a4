"""Several workers on one PostgreSQL: some are killed; nothing is lost, no limit exceeded, others go on."""

import hashlib
import os
import random
import signal
import time
from collections import Counter, defaultdict
from contextlib import ExitStack
from itertools import pairwise
from urllib.parse import urlsplit

import pytest

from unstale.mirror.mirror import Mirror

from .killing import wait_for
from .pages import JITTER, Site, assert_spaced, assert_within_budget, most_at_once, number_of
from .worker import settings_of

SPACING, AT_ONCE, LEASE = 0.8, 2, 1.0
PAUSES = {"free": 0.02, "spaced": 0.0, "narrow": 0.15}


class Fleet:
    """Workers on one store, and the site that they poll."""

    def __init__(self, employ, count, url, folder, *, budget, pages, tick=None, ahead=None):
        self.employ, self.count, self.url, self.folder = employ, count, url, folder
        self.budget, self.pages, self.tick, self._stack = budget, pages, tick, ExitStack()
        self.ahead = ahead or {}

    def __enter__(self):
        with self._stack as stack:
            self.site = stack.enter_context(Site(PAUSES, period=20.0))
            groups = [
                (self.site.addresses["spaced"][7:], SPACING),
                (self.site.addresses["narrow"][7:], 0.0, AT_ONCE),
                ("*",),
            ]
            settings = {"budget": self.budget, "groups": groups, "keep": 0, "lease": LEASE, "timeout": 0.5}
            self.mirror = stack.enter_context(
                Mirror(self.url, copies=self.folder, settings=settings_of(**settings))
            )
            self.keys = [key for group, count in self.pages.items() for key in self.site.keys(group, count)]
            for key in self.keys:
                self.mirror.add(key, max_age=2.0)
            job = {"store": self.url, "copies": str(self.folder), "alive": 0.5, "tick": self.tick}
            self.workers = self.employ(*(
                {
                    **job,
                    "settings": {**settings, "headers": {"X-Worker": str(number)}},
                    "ahead": self.ahead.get(number, 0.0),
                }
                for number in range(self.count)
            ))  # fmt: skip
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *details):
        return self._stack.__exit__(*details)

    def visits_by(self, number, since=0.0):
        return [v for v in list(self.site.visits) if v.who == str(number) and v.start > since]

    def events(self, kind):
        return [said for worker in self.workers for said in worker.events(kind)]

    def check(self, *, troubled=()):
        """See that all promises were kept; nobody may be at work meanwhile.

        Those that are ``troubled`` may have said so, others not.
        """
        mirror, site = self.mirror, self.site
        assert mirror.store.check() == []
        with mirror.store.begin() as t:
            polls = t.polls(limit=10**7)[::-1]
            versions = t.versions(limit=10**7)
            keys = {element.id: element.key for element in t.elements(limit=10**6)}
        # Nothing that was told is lost, nor recorded twice; each version has its copy.
        brought = {poll.version: poll.element for poll in polls}
        for change in self.events("change"):
            assert keys[brought[change["version"]]] == change["key"]
        for version in versions:
            body = mirror.copies.read(version.digest)
            assert (hashlib.sha256(body).hexdigest(), len(body)) == (version.digest, version.size)
            number_of(urlsplit(version.key).path, body)
        assert set(Counter((poll.element, poll.time) for poll in polls).values()) <= {1}
        assert len(polls) <= len(site.visits)
        # No limit was exceeded by all of them together.
        assert_within_budget(site.starts(), self.budget)
        assert_spaced(site.starts("spaced"), SPACING)
        assert most_at_once([visit for visit in site.visits if visit.group == "narrow"]) <= AT_ONCE
        # Each element is polled by one at a time.
        visits = defaultdict(list)
        for visit in sorted(site.visits, key=lambda visit: visit.start):
            visits[visit.path, visit.group].append(visit)
        for some in visits.values():
            assert all(before.end <= after.start + JITTER for before, after in pairwise(some))
        assert not [
            said for worker in self.workers if worker not in troubled for said in worker.events("trouble")
        ]


def test_what_a_killed_planner_had_taken_is_polled_by_another_who_plans_from_then_on(
    postgres_url, tmp_path, workers
):
    pages = {"free": 30, "spaced": 2, "narrow": 8}
    with Fleet(workers, 2, postgres_url, tmp_path, budget=40.0, pages=pages) as fleet:
        first, second = fleet.workers
        first.start()
        wait_for(lambda: first.events("planner"))
        second.start()
        wait_for(lambda: len(fleet.visits_by(1)) > 10)
        wait_for(lambda: len(fleet.site.starts("spaced")) > 1)
        assert not second.events("planner")
        first.kill()
        killed = time.time()
        wait_for(lambda: second.events("planner"))
        # All that the dead one had taken, and all else, is polled again.
        wait_for(lambda: len({visit.path for visit in fleet.visits_by(1, killed)}) == len(fleet.keys))
        # The one who is back works, and does not plan.
        plans, back = len(first.events("planner")), time.time()
        first.start()
        wait_for(lambda: len(fleet.visits_by(0, back)) > 5)
        assert len(first.events("planner")) == plans
        second.kill(signal.SIGTERM)
        wait_for(lambda: len(first.events("planner")) > plans)
        first.kill(signal.SIGTERM)
        fleet.check()
        with fleet.mirror.store.begin() as t:
            assert {worker for _, _, worker in t.leased()} <= {""}  # those expire by themselves


def test_a_planner_that_hangs_is_replaced_within_fifteen_seconds_and_plans_no_more_when_it_wakes(
    postgres_url, tmp_path, workers
):
    pages = {"free": 30, "spaced": 2, "narrow": 8}
    with Fleet(workers, 3, postgres_url, tmp_path, budget=40.0, pages=pages) as fleet:
        first, *others = fleet.workers
        first.start()
        wait_for(lambda: first.events("planner"))
        for worker in others:
            worker.start()
        wait_for(lambda: all(len(fleet.visits_by(number)) > 10 for number in range(3)))
        os.kill(first.pid, signal.SIGSTOP)
        stopped = time.time()
        wait_for(lambda: any(worker.events("planner") for worker in others))
        wait_for(
            lambda: len({v.path for v in fleet.site.visits if v.start > stopped + 15.0}) == len(fleet.keys)
        )
        starts = [start for start in fleet.site.starts() if start > stopped - 1.0]
        assert max(after - before for before, after in pairwise(starts)) < 15.0
        plans = [len(worker.events("planner")) for worker in fleet.workers]
        os.kill(first.pid, signal.SIGCONT)
        awake = time.time()
        wait_for(lambda: len(fleet.visits_by(0, awake)) > 10)  # it works for the new planner now
        assert [len(worker.events("planner")) for worker in fleet.workers] == plans
        for worker in fleet.workers:
            worker.kill(signal.SIGTERM)
        fleet.check(troubled=[first])


def test_workers_whose_clocks_differ_keep_the_same_distances_and_say_so(postgres_url, tmp_path, workers):
    pages = {"free": 30, "spaced": 6, "narrow": 8}
    ahead = {1: 20.0, 2: -20.0}
    with Fleet(workers, 3, postgres_url, tmp_path, budget=40.0, pages=pages, ahead=ahead) as fleet:
        for worker in fleet.workers:
            worker.start()
        wait_for(lambda: len(fleet.site.starts("spaced")) > 25)
        wait_for(lambda: all(len(fleet.visits_by(number)) > 40 for number in range(3)))
        told = fleet.mirror.status().trouble
        for number, way in ((1, "20 seconds ahead of"), (2, "20 seconds behind")):
            pid = fleet.workers[number].pid
            assert any(f":{pid}:" in line and f"{way} the database's" in line for line in told)
            (said,) = fleet.workers[number].events("trouble")
            assert f"the clock of this machine is {way} the database's" in said["detail"]
        for worker in fleet.workers:
            worker.kill(signal.SIGTERM)
        fleet.check(troubled=fleet.workers[1:])


def test_polls_are_taken_a_hundred_at_a_time_if_there_are_so_many(postgres_url, tmp_path, workers):
    with Fleet(workers, 2, postgres_url, tmp_path, budget=400.0, pages={"free": 600}, tick=1.0) as fleet:
        for worker in fleet.workers:
            worker.start()
        batches = [
            lambda w=w: max((said.get("taken", 0) for said in list(w.told)), default=0) for w in fleet.workers
        ]
        wait_for(lambda: all(largest() >= 100 for largest in batches))
        for worker in fleet.workers:
            worker.kill()
        fleet.check()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_workers_that_are_killed_at_random(postgres_url, tmp_path, workers, seed):
    chance = random.Random(seed)  # noqa: S311
    pages = {"free": 30, "spaced": 2, "narrow": 8}
    with Fleet(workers, 3, postgres_url, tmp_path, budget=40.0, pages=pages) as fleet:
        for worker in fleet.workers:
            worker.start()
        for _ in range(100):
            time.sleep(chance.random())
            worker = chance.choice(fleet.workers)
            if worker.pid is None:
                worker.start(up=chance.random() < 0.9)
            else:
                worker.kill()
        for worker in fleet.workers:
            if worker.pid is None:
                worker.start()
        began = time.time()
        wait_for(lambda: len({v.path for v in fleet.site.visits if v.start > began}) == len(fleet.keys))
        for worker in fleet.workers:
            worker.kill(signal.SIGTERM)
        fleet.check()
        assert len(fleet.events("planner")) > 10
        assert len(fleet.site.visits) > 500
