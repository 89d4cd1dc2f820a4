"""What every store does, for readers and with what is old; see `unstale.mirror.store.contract`."""

from math import inf

import pytest

from unstale import InvalidInput
from unstale.mirror.store.sql.store import open_store

from .making import additions, changed, handed_out, slot, unchanged


def test_versions_and_polls_are_read_on_or_back(store, copies):
    taken = handed_out(store, 6)
    with store.begin() as t:
        t.record("w", [changed(one, copies, b"%d" % one.slot.element) for one in taken])
        assert [version.id for version in t.versions(2, 3)] == [3, 4, 5]
        assert [version.id for version in t.versions(latest_first=True, limit=2)] == [6, 5]
        assert [version.element for version in t.versions(element=3)] == [3]
        assert [poll.id for poll in t.polls(limit=2)] == [6, 5]
        assert [poll.id for poll in t.polls(after=2, limit=3)] == [3, 4, 5]
        assert [poll.id for poll in t.polls(element=4)] == [4]


def test_polls_are_tallied_by_group_and_outcome(store, copies):
    taken = handed_out(store, 6)
    with store.begin() as t:
        t.record(
            "w",
            [unchanged(one, began=10.0 + one.slot.element) for one in taken[:4]]
            + [changed(taken[4], copies, began=15.0)],
        )
        assert t.tally(0.0) == [
            ("http:host0", "unchanged", 2, 600), ("http:host1", "new", 1, 500),
            ("http:host1", "unchanged", 1, 300), ("http:host2", "unchanged", 1, 300),
        ]  # fmt: skip
        assert t.tally(14.0) == [("http:host0", "unchanged", 1, 300), ("http:host1", "new", 1, 500)]
        assert t.tally(16.0) == []


def test_reads_are_counted_by_the_hour(store):
    with store.begin() as t:
        t.read({1: 2, 2: 1}, 3700.0)
        t.read({1: 3}, 7199.0)
        t.read({1: 4}, 7200.0)
        t.read({}, 7200.0)
        assert t.reads(0.0) == [(1, 3600.0, 5), (2, 3600.0, 1), (1, 7200.0, 4)]
        assert t.reads(8000.0) == [(1, 7200.0, 4)]
        assert t.reads_by_hour(0.0) == [(3600.0, 6), (7200.0, 4)]
        assert t.reads_by_hour(8000.0) == [(7200.0, 4)]


def test_workers_are_there_until_they_expire(store):
    with store.begin() as t:
        assert t.alive("a", 0.0, 10.0) == ["a"]
        assert t.alive("b", 5.0, 15.0) == ["a", "b"]
        assert t.workers(9.0) == ["a", "b"]
        assert t.workers(10.0) == ["b"]
        assert t.alive("b", 12.0, 20.0) == ["b"]


# --- old things


def several_versions(store, copies, element, bodies, start):
    for number, body in enumerate(bodies):
        with store.begin() as t:
            t.hand_out([slot(element, start + number)])
            (taken,) = t.lease("w", 1, start, start + 100.0)
            t.record("w", [changed(taken, copies, body, start + number)])


def test_old_versions_are_pruned_a_few_at_a_time_and_shared_copies_stay(store, copies):
    with store.begin() as t:
        t.add(additions(3), 1.0)
    several_versions(store, copies, 1, [b"a", b"b", b"c", b"a"], 10.0)
    several_versions(store, copies, 2, [b"b", b"d"], 20.0)
    with store.begin() as t:
        assert t.prune(0, -inf) == []
        assert t.prune(4, -inf) == []
        digests = {body: copies.put(body)[0] for body in (b"a", b"b", b"c", b"d")}
        assert t.prune(2, -inf, limit=1) == []  # the oldest, whose copy a newer one shares
        while t.prune(2, -inf, limit=1) != []:
            pass
        gone = t.prune(2, -inf)
        assert [version.id for version in t.versions()] == [3, 4, 5, 6]
        assert gone == []
        assert t.prune(1, -inf) == sorted([digests[b"c"], digests[b"b"]])
        assert [version.id for version in t.versions()] == [4, 6]
        assert t.referred(list(digests.values())) == {digests[b"a"], digests[b"d"]}
        assert [poll.version for poll in t.polls(limit=2)] == [6, 5]
        assert t.find(["https://host0/0"])["https://host0/0"].version == 4
    several_versions(store, copies, 3, [b"x", b"y"], 40.0)
    with store.begin() as t:
        assert t.prune(1, -inf) == [copies.put(b"x")[0]]


def test_copies_are_dropped_for_want_of_room_and_come_back(store, copies):
    with store.begin() as t:
        t.add(additions(3), 1.0)
    several_versions(store, copies, 1, [b"a", b"bb", b"shared"], 10.0)
    several_versions(store, copies, 2, [b"cccc", b"shared"], 20.0)
    digests = {body: copies.put(body)[0] for body in (b"a", b"bb", b"shared", b"cccc")}
    with store.begin() as t:
        assert t.room_taken() == 1 + 2 + 6 + 4 + 6
        assert [column.tolist() for column in t.room_of_copies()] == [[1, 2], [6.0, 6.0]]
        assert t.drop_old_versions(0) == []
        assert t.drop_old_versions(2) == sorted([digests[b"a"], digests[b"bb"]])
        assert [version.id for version in t.versions()] == [3, 4, 5]
        assert t.drop_copies([2, 3]) == [digests[b"cccc"]]  # the other is another's, too
        element = t.find(["https://host1/1"])["https://host1/1"]
        assert (element.version, element.fingerprint, element.validators) == (None, None, {})
        assert [column.tolist() for column in t.room_of_copies()] == [[1, 2], [6.0, 6.0]]
        assert t.room_taken() == 6
        assert t.drop_copies([1, 2]) == [digests[b"shared"]]
        assert [column.tolist() for column in t.room_of_copies()] == [[1, 2], [6.0, 6.0]]
    several_versions(store, copies, 2, [b"again"], 30.0)
    with store.begin() as t:
        assert [column.tolist() for column in t.room_of_copies()] == [[1, 2], [6.0, 5.0]]


def test_links_of_a_page_are_those_of_its_last_look_and_forgotten_with_elements(store):
    with store.begin() as t:
        ids = t.add(additions(4), 1.0)
        t.set_links(ids[0], [ids[1], ids[2], ids[1]])
        t.set_links(ids[1], [ids[0]])
        t.set_links(ids[0], [ids[2], ids[3]])
    with store.begin() as t:
        pairs = sorted(zip(*(column.tolist() for column in t.links()), strict=True))
        assert pairs == [(1, 3), (1, 4), (2, 1)]
        t.remove([ids[3], ids[1]], 2.0)
        t.forget([ids[3], ids[1]])
        assert [column.tolist() for column in t.links()] == [[1], [3]]
        t.set_links(ids[0], [])
        assert [column.tolist() for column in t.links()] == [[], []]


def test_copies_are_discarded_unless_something_refers_to_them(store, copies):
    (taken,) = handed_out(store, 1)
    digests = [copies.put(body)[0] for body in (b"content", b"orphan", b"other")]
    with store.begin() as t:
        t.record("w", [changed(taken, copies)])
    assert store.discard(digests[:2]) == 1
    assert [copies.has(digest) for digest in digests] == [True, False, True]
    assert store.sweep(older_than=3600.0) == 0
    assert store.sweep(older_than=-1.0) == 1
    assert [copies.has(digest) for digest in digests] == [True, False, False]


# --- transactions


def test_with_an_error_nothing_is_recorded(store):
    def fail():
        with store.begin() as t:
            t.add(additions(3), 1.0)
            t.keep({"a": b"b"})
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with store.begin() as t:
        assert t.count() == {}
        assert t.state() == {}
        assert t.edits(0) == []
        assert t.add(additions(1), 1.0) == [1]


def test_others_see_nothing_before_the_end(store, url, copies):
    with open_store(url, copies=copies) as other, store.begin() as t:
        t.add(additions(3), 1.0)
        with other.begin() as o:
            assert o.count() == {}


def test_what_is_wrong_is_told(store, copies):
    assert store.check() == []
    (taken,) = handed_out(store, 1)
    with store.begin() as t:
        (version,) = t.record("w", [changed(taken, copies)])
    assert store.check() == []
    copies.delete([version.digest])
    assert store.check() == [f"{version.key}: its copy {version.digest} is missing"]


def test_a_closed_store_says_so(store):
    store.close()
    with pytest.raises(InvalidInput, match="has been closed"):
        store.begin().__enter__()
    store.close()
