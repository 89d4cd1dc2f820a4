"""Whatever is done in whatever order, a store is what a few dictionaries would be, crashes included."""

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from unstale.mirror.store.copies import Copies
from unstale.mirror.store.sql.store import open_store

from .conftest import empty
from .making import additions, changed, columns, given_back, slot, unchanged

WORKERS = st.sampled_from(["one", "two"])
SOME = st.sets(st.integers(0, 9), min_size=1, max_size=6)


class Model(RuleBasedStateMachine):
    """A store, beside a model of it."""

    def __init__(self, url, folder):
        super().__init__()
        self.url, self.copies = url, Copies(folder)
        self.open()
        self.numbers = {}  # of elements, by place
        self.states = {}
        self.latest = {}  # element to body
        self.leases = {}  # element to [slot, worker, expires]
        self.hands = {"one": [], "two": []}  # what workers think is theirs
        self.polls = []
        self.versions = []
        self.evidence = {}
        self.now = 0.0
        self.body = itertools.count()

    def open(self):
        self.store = open_store(self.url, copies=self.copies, run=True)
        assert self.store.become_planner()

    def teardown(self):
        self.store.close()

    def ids(self, places):
        return [self.numbers[place] for place in sorted(places) if place in self.numbers]

    @rule(places=SOME)
    def add(self, places):
        with self.store.begin() as t:
            found = t.add([additions(1, place)[0] for place in sorted(places)], self.now)
        for place, number in zip(sorted(places), found, strict=True):
            assert self.numbers.setdefault(place, number) == number
            if self.states.get(number, "removed") == "removed":
                self.states[number] = "ok" if number in self.evidence else "new"
        assert len(set(self.numbers.values())) == len(self.numbers)

    @rule(places=SOME)
    def remove(self, places):
        with self.store.begin() as t:
            t.remove(self.ids(places), self.now)
        for number in self.ids(places):
            self.states[number] = "removed"
            self.leases.pop(number, None)

    @rule(places=SOME)
    def release(self, places):
        ids = [number for number in self.ids(places) if self.states[number] != "removed"]
        self.now += 1.0
        with self.store.begin() as t:
            t.hand_out([slot(number, self.now + number / 100) for number in ids])
        for number in ids:
            self.leases.setdefault(number, [self.now + number / 100, "", self.now + number / 100 + 5.0])

    @rule(worker=WORKERS, count=st.integers(0, 5))
    def take(self, worker, count):
        with self.store.begin() as t:
            taken = t.lease(worker, count, self.now, self.now + 10.0)
        free = sorted(
            (slot, number) for number, (slot, by, until) in self.leases.items() if not by and until > self.now
        )
        assert [(one.slot.start, one.slot.element) for one in taken] == free[:count]
        for one in taken:
            self.leases[one.slot.element] = [one.slot.start, worker, self.now + 10.0]
            assert (one.known.fingerprint is None) == (one.slot.element not in self.latest)
        self.hands[worker] += taken

    @rule(worker=WORKERS, outcomes=st.lists(st.sampled_from(["same", "new", "back", "keep"]), max_size=8))
    def record(self, worker, outcomes):
        finished, kept = [], []
        for one, outcome in itertools.zip_longest(self.hands[worker], outcomes[: len(self.hands[worker])]):
            if outcome in {None, "keep"}:
                kept.append(one)
            elif outcome == "back":
                finished.append(given_back(one))
            elif outcome == "same":
                finished.append(unchanged(one, began=self.now))
            else:
                outcome = "changed" if one.slot.element in self.latest else "new"  # noqa: PLW2901
                finished.append(changed(one, self.copies, b"%d" % next(self.body), self.now, outcome))
        self.hands[worker] = kept
        with self.store.begin() as t:
            versions = t.record(worker, finished)
        brought = []
        for one in finished:
            number = one.lease.slot.element
            if self.leases.get(number, [None, None])[:2] == [one.lease.slot.start, worker]:
                del self.leases[number]
                if one.found is not None:
                    self.polls.append(number)
                if one.digest is not None:
                    brought.append((number, one.digest))
                    self.latest[number] = one.digest
        assert [(version.element, version.digest) for version in versions] == brought
        self.versions += brought

    @rule(by=st.integers(0, 12), everything=st.booleans())
    def expire(self, by, everything):
        self.now += by
        with self.store.begin() as t:
            gone = t.expire(self.now, everything=everything)
        due = [number for number, (_, _, until) in self.leases.items() if everything or until <= self.now]
        assert gone == sorted(due)
        for number in due:
            del self.leases[number]

    @rule(places=SOME, evidence=st.binary(min_size=1, max_size=20))
    def save(self, places, evidence):
        ids = self.ids(places)
        with self.store.begin() as t:
            t.save(columns(ids, [evidence] * len(ids)))
        for number in ids:
            if self.states[number] != "removed":
                self.states[number], self.evidence[number] = "ok", evidence

    @rule(keep=st.integers(1, 3))
    def prune(self, keep):
        with self.store.begin() as t:
            orphans = t.prune(keep, -np.inf)
        kept = []
        for number in set(self.latest):
            kept += [one for one in self.versions if one[0] == number][-keep:]
        self.versions = [one for one in self.versions if one in kept]
        self.store.discard(orphans)

    @rule(places=SOME)
    def fail(self, places):
        """Nothing of a transaction that fails is recorded."""
        with pytest.raises(RuntimeError):
            self._fail(places)

    def _fail(self, places):
        with self.store.begin() as t:
            t.add([additions(1, place)[0] for place in places], self.now)
            t.remove(self.ids(places), self.now)
            t.hand_out([slot(number, 0.0) for number in self.ids(places)])
            for worker, taken in self.hands.items():
                t.record(worker, [unchanged(one) for one in taken])
            t.expire(0.0, everything=True)
            raise RuntimeError

    @rule()
    def reopen(self):
        self.store.close()
        self.open()

    @invariant()
    def the_same(self):
        with self.store.begin() as t:
            states = {element.id: element.state for element in t.elements()}
            assert states == {number: state for number, state in self.states.items() if state != "removed"}
            expected = sorted((number, 1, worker) for number, (_, worker, _) in self.leases.items())
            assert t.leased() == expected
            assert t.heard(0).element.tolist() == self.polls
            assert [(version.element, version.digest) for version in t.versions()] == self.versions
            evidence = {
                number: bytes(row)
                for part in t.load()
                for number, row in zip(part.id.tolist(), part.evidence, strict=True)
            }
            assert evidence == {number: self.evidence.get(number, b"") for number in states}
        assert self.store.check() == []


def law(url, tmp_path_factory, count, steps):
    def make():
        folder = tmp_path_factory.mktemp("law")
        if "://" not in url:
            return Model(str(folder / "mirror.db"), folder / "copies")
        empty(url)
        return Model(url, folder / "copies")

    run_state_machine_as_test(
        make,
        settings=settings(
            max_examples=count,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_a_store_is_what_dictionaries_would_be(url, tmp_path_factory):
    law(url, tmp_path_factory, 6, 20)


@pytest.mark.long
def test_a_store_is_what_dictionaries_would_be_for_long(url, tmp_path_factory):
    law(url, tmp_path_factory, 100, 50)
