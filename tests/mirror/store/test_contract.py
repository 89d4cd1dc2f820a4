"""What every store does; see `unstale.mirror.store.contract`."""

from dataclasses import replace
from math import inf, isnan, nan

import numpy as np
import pytest

from unstale import InvalidInput
from unstale.mirror.store.contract import Addition, Store
from unstale.mirror.store.sql import housekeeping
from unstale.mirror.store.storable import text_of

from .making import additions, changed, columns, given_back, handed_out, slot, unchanged


def all_of(columns):
    return [number for part in columns for number in part.id.tolist()]


# --- elements


def test_what_is_added_is_found_as_it_was_given(store: Store):
    addition = Addition(
        "https://exämple.org/☃?a=1%20'\"", "http", "http:exämple.org", {"a": "h1", "deep": [1, {"a": None}]},
        weight=2.5, max_age=3600.0, min_interval=60.0, jitter=0.25, windows="mon-fri 22:00-06:00",
        given={"w": 2.5}, keep=3, keep_for=60.0, tags=("daily", "shop"),
    )  # fmt: skip
    with store.begin() as t:
        (number,) = t.add([addition], 5.0)
    with store.begin() as t:
        element = t.find([addition.key, "nothing"])[addition.key]
    for name in (
        "key",
        "source",
        "group",
        "options",
        "weight",
        "max_age",
        "min_interval",
        "jitter",
        "windows",
        "given",
        "keep",
        "keep_for",
        "tags",
    ):
        assert getattr(element, name) == getattr(addition, name), name
    assert (element.id, element.added, element.state, element.via) == (number, 5.0, "new", None)
    assert isnan(element.last)
    assert isnan(element.size)
    assert (element.version, element.fingerprint, element.validators, element.moved) == (None, None, {}, None)


def test_numbers_are_in_the_order_of_what_was_given_and_stay(store):
    with store.begin() as t:
        first = t.add(additions(2500), 1.0)
        again = t.add(additions(10)[::-1], 2.0)
    assert len(set(first)) == 2500
    assert again == first[:10][::-1]
    with store.begin() as t:
        assert t.count() == {"new": 2500}
        assert len(t.edits(0)) == 2500  # nothing was said that was not known


def test_of_several_additions_of_one_element_the_last_counts(store):
    one, other = additions(1, weight=1.0)[0], additions(1, weight=3.0)[0]
    with store.begin() as t:
        assert t.add([one, other], 1.0) == [1, 1]
        assert t.find([one.key])[one.key].weight == 3.0


def test_an_addition_changes_what_it_says_and_keeps_what_was_learned(store, copies):
    (taken,) = handed_out(store, 1)
    with store.begin() as t:
        t.record("w", [changed(taken, copies)])
        t.save(columns([1], [b"evidence"], last=11.0))
        t.add([replace(additions(1)[0], weight=9.0, group="other", max_age=inf)], 20.0)
    with store.begin() as t:
        element = t.find([taken.known.key])[taken.known.key]
        assert (element.weight, element.group, element.last, element.version) == (9.0, "other", 11.0, 1)
        assert element.fingerprint is not None
        assert element.added == 1.0
        (part,) = t.load()
        assert bytes(part.evidence[0]) == b"evidence"
        assert [edit.kind for edit in t.edits(1)] == ["element"]


def test_an_element_stays_with_whom_it_came_from_but_a_user_takes_it_over(store):
    with store.begin() as t:
        feed, other = t.add(additions(2), 1.0)
        (found,) = t.add([replace(additions(1, 5)[0], via=feed)], 1.0)
        t.add([replace(additions(1, 5)[0], via=other)], 1.0)
        assert [element.id for element in t.elements(via=feed)] == [found]
        t.add([replace(additions(1, 5)[0], via=None)], 1.0)
        assert t.elements(via=feed) == []
        t.add([replace(additions(1, 5)[0], via=feed)], 1.0)
        assert t.elements(via=feed) == []


def test_what_is_removed_is_not_polled_and_comes_back_with_what_was_known(store, copies):
    taken = handed_out(store, 3)
    with store.begin() as t:
        t.record("w", [changed(taken[0], copies)])
        t.save(columns([1], [b"evidence"], last=11.0))
        t.remove([1, 2], 20.0)
        t.remove([2, 77], 20.0)
    with store.begin() as t:
        assert t.count() == {"removed": 2, "new": 1}
        assert [element.id for element in t.elements()] == [3]
        assert all_of(t.load()) == [3]
        assert all_of(t.load([1, 2, 3])) == [3]
        assert [one for one, _, _ in t.leased()] == [3]
        assert t.find([taken[1].known.key])[taken[1].known.key].state == "removed"
        assert t.record("w", [changed(taken[1], copies)]) == []
        assert [edit.subject for edit in t.edits(3)] == [1, 2]
        t.save(columns([1, 2], last=30.0))  # by a planner who does not know yet
        assert t.count()["removed"] == 2
    with store.begin() as t:
        t.add(additions(2), 40.0)
        assert t.count() == {"ok": 1, "new": 2}
        assert [edit.subject for edit in t.edits(5)] == [1, 2]
        element = t.find([taken[0].known.key])[taken[0].known.key]
        assert (element.last, element.version) == (11.0, 1)


def test_what_is_paused_is_not_polled_stays_in_lists_and_goes_on_as_the_last_poll_left_it(store, copies):
    taken = handed_out(store, 4)
    with store.begin() as t:
        t.record("w", [changed(taken[0], copies), replace(changed(taken[1], copies), outcome="gone")])
        t.save(columns([1, 2], [b"evidence"] * 2, last=11.0))
        t.remove([4], 20.0)
        assert t.pause([1, 2, 3, 4, 77], 20.0) == [1, 2, 3]
        assert t.pause([1], 21.0) == []
    with store.begin() as t:
        assert t.count() == {"removed": 1, "paused": 3}
        assert [element.id for element in t.elements()] == [1, 2, 3]
        assert [one.state for one in t.page()[0]] == ["paused"] * 3
        assert all_of(t.load()) == all_of(t.load([1, 2, 3])) == []
        assert [one for one, _, _ in t.leased()] == []
        t.save(columns([1], last=30.0))  # by a planner who does not know yet
        assert t.count()["paused"] == 3
        t.add(additions(1), 30.0)  # what is said of it anew does not resume it
        assert t.count()["paused"] == 3
    with store.begin() as t:
        assert t.resume([1, 2, 3, 4], 40.0) == [1, 2, 3]
        assert t.resume([1], 41.0) == []
        assert {n: one.state for n, one in t.numbered([1, 2, 3, 4]).items()} == {
            1: "ok", 2: "gone", 3: "new", 4: "removed",
        }  # fmt: skip
        assert [edit.subject for edit in t.edits(5)][-3:] == [1, 2, 3]
        (part,) = t.load([1])
        assert (part.last[0], part.evidence[0]) == (11.0, b"evidence")


def test_what_is_long_gone_is_archived_and_can_be_resumed(store, copies):
    taken = handed_out(store, 2)
    with store.begin() as t:
        t.record("w", [changed(taken[0], copies, began=11.0), changed(taken[1], copies, began=11.0)])
        t.save(columns([1, 2], last=11.0, state="gone"))
    for number, began in ((1, 500.0), (2, 5000.0)):
        with store.begin() as t:
            t.hand_out([slot(number, began)])
            (lease,) = t.lease("w", 1, began, began + 100.0)
            t.record("w", [replace(unchanged(lease, began), outcome="gone")])
    with store.begin() as t:
        assert t.archive(10.0, 6000.0) == []  # they were there later
        assert t.archive(100.0, 6000.0) == [1, 2]
    with store.begin() as t:
        assert t.count() == {"archived": 2}
        assert (t.page()[1], t.page(state="archived")[1]) == (0, 2)
        assert all_of(t.load()) == []
        assert t.resume([1], 7000.0) == [1]
        assert t.numbered([1])[1].state == "gone"
        assert t.versions(element=2)


def test_tags_are_found_whole_and_listed(store):
    tagged = [
        replace(one, tags=tags) for one, tags in zip(additions(3), (("b", "a"), ("ab",), ()), strict=True)
    ]
    with store.begin() as t:
        t.add(tagged, 1.0)
    with store.begin() as t:
        assert t.tags() == ["a", "ab", "b"]
        assert [one.id for one in t.page(tag="a")[0]] == [1]
        assert [one.id for one in t.page(tag="ab", search="host1")[0]] == [2]
        assert t.page(tag="_")[1] == t.page(tag="a", search="host1")[1] == 0
        assert t.numbered([1])[1].tags == ("a", "b")
        t.add([tagged[2], replace(tagged[0], tags=())], 2.0)
        assert t.tags() == ["ab"]


def test_versions_are_kept_by_count_and_by_age_as_is_said_of_each(store, copies):
    say = ({}, {"keep": 1}, {"keep": 0}, {"keep": 0, "keep_for": 200.0})
    said = [replace(one, **more) for one, more in zip(additions(4), say, strict=True)]
    with store.begin() as t:
        ids = t.add(said, 1.0)
    for round_ in range(4):
        start = 100.0 * (round_ + 1)
        with store.begin() as t:
            t.hand_out([slot(number, start) for number in ids])
            leases = t.lease("w", 9, start, start + 90.0)
            bodies = [f"{round_} {one.known.key}".encode() for one in leases]
            done = [
                changed(one, copies, body, start, "changed") for one, body in zip(leases, bodies, strict=True)
            ]
            t.record("w", done)

    def left():
        with store.begin() as t:
            return [len(t.versions(element=number)) for number in ids]

    with store.begin() as t:
        assert len(t.prune(2, -inf, now=450.0)) == 2 + 3 + 2
    assert left() == [2, 1, 4, 2]
    with store.begin() as t:
        t.prune(2, -inf, now=1e6)
    assert left() == [2, 1, 4, 1]  # the latest stays, however old
    with store.begin() as t:  # fewer of some: all are looked at again
        t.add([replace(said[2], keep=3)], 500.0)
    with store.begin() as t:
        t.prune(2, -inf, now=1e6)
    assert left() == [2, 1, 3, 1]


def test_only_what_is_removed_can_be_forgotten_and_shared_copies_stay(store, copies):
    taken = handed_out(store, 3)
    with store.begin() as t:
        bodies = [b"shared", b"shared", b"own"]
        versions = t.record("w", [changed(*one) for one in zip(taken, [copies] * 3, bodies, strict=True)])
        t.read({1: 1, 3: 1}, 3600.0)
        t.remove([1, 3], 20.0)
        assert t.forget([1, 2, 3]) == [versions[2].digest]
    with store.begin() as t:
        assert [version.element for version in t.versions()] == [2]
        assert [poll.element for poll in t.polls()] == [2]
        assert t.reads(0.0) == []
        assert t.count() == {"new": 1}
        assert t.add(additions(1), 30.0) == [4]  # numbers are not used again
        assert t.versions(element=1) == []


@pytest.mark.parametrize("number", [2**63, 10**30])
def test_no_number_is_too_large_to_ask_for(store, number):
    """Whoever reads on from an odd place (an agent, ``changes --after``) broke the statement."""
    with store.begin() as t:
        t.add(additions(3), 1.0)
        assert t.versions(number, number) == t.versions(number, 1, element=1) == []
        assert t.polls(after=number, limit=number) == []
        assert t.elements(number) == []
        assert len(t.elements(-number)) == 3


def test_numbers_of_versions_and_polls_are_never_used_again(store, copies):
    taken = handed_out(store, 2)
    with store.begin() as t:
        t.record("w", [changed(one, copies) for one in taken])
        t.remove([1, 2], 20.0)
        t.forget([1, 2])
    (taken,) = handed_out(store, 1)
    with store.begin() as t:
        (version,) = t.record("w", [changed(taken, copies)])
        assert version.id == 3
        assert t.polls()[0].id == 3


def test_elements_are_listed_in_parts_and_by_pattern(store):
    with store.begin() as t:
        ids = t.add(additions(30), 1.0)
        assert [element.id for element in t.elements(limit=10)] == ids[:10]
        assert [element.id for element in t.elements(after=ids[9], limit=10)] == ids[10:20]
        assert [element.key for element in t.elements(pattern="https://host1/?")] == [
            "https://host1/1", "https://host1/4", "https://host1/7",
        ]  # fmt: skip
        assert [element.id for element in t.elements(pattern="*[05]", limit=2, after=ids[0])] == [
            ids[5],
            ids[10],
        ]
        assert t.elements(pattern="HTTPS://*") == []
        assert t.elements(pattern="https://host1/%") == []
        assert t.elements(pattern="https:__*") == []


@pytest.mark.parametrize("key", ["", "a\0b", "\ud800", "x" * 2049, "☃" * 683])
def test_a_key_that_cannot_be_kept_is_named(store, key):
    with pytest.raises(InvalidInput, match="a key"), store.begin() as t:
        t.add([*additions(1), Addition(key, "http", "group")], 1.0)
    with store.begin() as t:
        assert t.find([key]) == {}
        assert t.count() == {}


def test_a_long_key_is_kept(store):
    key = "https://" + "".join(chr(97 + n * n % 26) + chr(48 + n % 10) for n in range(1020))
    assert len(key) == 2048
    with store.begin() as t:
        t.add([Addition(key, "http", key)], 1.0)
        assert t.find([key])[key].group == key


# --- what the planner keeps


def test_columns_come_back_as_they_were_saved(store):
    with store.begin() as t:
        ids = t.add(additions(10, weight=2.0, max_age=3600.0), 1.0)
        before = list(t.load(chunk=4))
        assert [len(part.id) for part in before] == [4, 4, 2]
        assert all(np.isnan(part.last).all() and np.isnan(part.size).all() for part in before)
        assert all(bytes(row) == b"" for part in before for row in part.evidence)
    saved = columns(
        ids[:5],
        [bytes([n]) * 320 for n in range(5)],
        "failing",
        last=nan,
        size=inf,
        failures=3,
        not_before=99.0,
    )
    with store.begin() as t:
        t.save(saved)
        t.save(columns(ids[5:6], last=12.5, size=100.0))
    with store.begin() as t:
        (after,) = t.load()
    assert after.id.tolist() == ids
    assert after.group.tolist() == [1, 2, 3, 1, 2, 3, 1, 2, 3, 1]
    assert after.weight.tolist() == [2.0] * 10
    assert after.max_age.tolist() == [3600.0] * 10
    assert np.isnan(after.last[:5]).all()
    assert after.last[5] == 12.5
    assert after.size[:6].tolist() == [inf] * 5 + [100.0]
    assert after.failures.tolist() == [3] * 5 + [0] * 5
    assert after.not_before[:7].tolist() == [99.0] * 5 + [1.0, 0.0]
    assert list(after.state) == ["failing"] * 5 + ["ok"] + ["new"] * 4
    assert [bytes(row) for row in after.evidence[:6]] == [bytes([n]) * 320 for n in range(5)] + [b""]


def test_some_elements_can_be_loaded(store):
    with store.begin() as t:
        ids = t.add(additions(3000), 1.0)
        assert all_of(t.load(np.array(ids[::2])[::-1])) == ids[::2]
        assert list(t.load([])) == []


def test_the_planner_keeps_what_it_wants_by_name(store):
    with store.begin() as t:
        assert t.state() == {}
        t.keep({"price": b"\0\xff", "other": b""})
        t.keep({"price": b"new" * 100_000})
    with store.begin() as t:
        assert t.state() == {"price": b"new" * 100_000, "other": b""}


def test_edits_are_read_on(store):
    with store.begin() as t:
        t.edit([("hint", 3, 7.5, "api"), ("settings", 0, 8.0, "")])
        t.edit([])
        t.edit([("audit", 4, 9.0, "audit 1")])
    with store.begin() as t:
        assert [tuple(edit) for edit in t.edits(0)] == [
            (1, "hint", 3, 7.5, "api"), (2, "settings", 0, 8.0, ""), (3, "audit", 4, 9.0, "audit 1"),
        ]  # fmt: skip
        assert [edit.id for edit in t.edits(1, limit=1)] == [2]
        assert t.edits(3) == []
        assert t.last_edit() == 3
        t.prune(0, -inf, edits_to=2)
        assert [edit.id for edit in t.edits(0)] == [3]
        t.edit([("settings", 0, 8.0, "")])
        assert t.edits(3)[0].id == 4


def test_edits_of_what_has_been_loaded_since_are_left_out(store):
    with store.begin() as t:
        assert t.last_edit() == 0
        t.edit(
            [("element", 1, 0.0, ""), ("hint", 1, 0.0, "api"), ("group", 1, 0.0, ""), ("element", 2, 0.0, "")]
        )
    with store.begin() as t:
        for loaded, found in ((0, [1, 2, 3, 4]), (3, [2, 4]), (4, [2])):
            assert [edit.id for edit in t.edits(0, loaded=loaded)] == found
        assert t.edits(2, loaded=4) == []


def test_after_an_import_edits_are_deleted_part_by_part(store, monkeypatch):
    monkeypatch.setattr(housekeeping, "_EDITS_AT_ONCE", 10)
    with store.begin() as t:
        t.edit([("hint", 1, 0.0, "api")] * 35)
    for left in (25, 15, 5, 2, 2):
        with store.begin() as t:
            t.prune(0, -inf, edits_to=33)
            assert len(t.edits(0)) == left


def test_groups_are_made_on_demand_and_paid_for(store):
    with store.begin() as t:
        t.add(additions(5), 1.0)
        t.pay({2: 123.456, 3: inf})
    with store.begin() as t:
        groups = t.groups()
        assert [(group.id, group.name) for group in groups] == [
            (1, "http:host0"),
            (2, "http:host1"),
            (3, "http:host2"),
        ]
        assert [group.paid_until for group in groups] == [0.0, 123.456, inf]
        assert [group.name for group in t.groups([3, 1, 99])] == ["http:host0", "http:host2"]


# --- polls


def test_leases_are_taken_once_earliest_first(store):
    with store.begin() as t:
        ids = t.add(additions(6, options={"a": 1}), 1.0)
        t.save(columns(ids[:1], last=3.0))
        t.hand_out([slot(number, 20.0 - place, cost=5.0, predicted=nan) for place, number in enumerate(ids)])
        t.hand_out([slot(ids[0], 1.0)])  # handed out already
    with store.begin() as t:
        one = t.lease("w", 4, 2.0, 100.0)
    with store.begin() as t:
        two = t.lease("v", 4, 2.0, 100.0)
        assert t.lease("v", 4, 2.0, 100.0) == []
        assert sorted(t.leased()) == [(number, 1, "w" if number > 2 else "v") for number in ids]
    assert [taken.slot.start for taken in one + two] == [15.0, 16.0, 17.0, 18.0, 19.0, 20.0]
    last, given = two[-1], two[-1].slot
    assert (given.element, given.late, given.group, given.planned, given.cost) == (ids[0], 5.0, 1, True, 5.0)
    assert isnan(given.predicted)
    assert (last.known.key, last.known.options, last.known.fingerprint) == ("https://host0/0", {"a": 1}, None)
    assert (last.source, given.last) == ("http", 3.0)
    assert isnan(two[0].slot.last)


def test_a_worker_that_plans_for_itself_gets_its_own_slots_at_once(store):
    with store.begin() as t:
        ids = t.add(additions(2, options={"a": 1}), 1.0)
        given = [slot(ids[1], 5.0, last=3.0, spacing=2.0, concurrency=4), slot(ids[0], 9.0)]
        leases = t.hand_to("w", given, 100.0)
        assert [lease.slot for lease in leases] == given
        assert [lease.known.key for lease in leases] == ["https://host1/1", "https://host0/0"]
        assert {(lease.source, lease.known.options["a"]) for lease in leases} == {("http", 1)}
        assert t.leased() == [(ids[0], 1, "w"), (ids[1], 1, "w")]
        assert t.lease("v", 4, 2.0, 100.0) == []
        assert t.hand_to("w", [], 100.0) == []
        assert t.expire(99.0) == []
        assert t.record("w", [unchanged(lease) for lease in leases]) == []
        assert [poll.elapsed for poll in t.polls(ids[1])] == [8.0]


def test_the_sources_that_elements_have(store):
    with store.begin() as t:
        assert t.sources() == set()
        t.add([*additions(3), Addition("feed", "feed", "http:host0")], 1.0)
        assert t.sources() == {"feed", "http"}


def test_what_is_not_known_of_a_lease_stays_unknown(store):
    with store.begin() as t:
        (number,) = t.add(additions(1), 1.0)
        t.hand_out([slot(number, cost=nan, predicted=nan, late=inf, planned=False)])
        (taken,) = t.lease("w", 1, 9.0, 100.0)
        assert isnan(taken.slot.cost)
        assert isnan(taken.slot.predicted)
        assert taken.slot.late == inf
        t.record("w", [unchanged(taken)])
        heard, (poll,) = t.heard(0), t.polls()
        assert isnan(heard.cost[0])
        assert isnan(poll.predicted)
        assert not poll.planned
        assert not heard.planned[0]


def test_leases_expire_whether_taken_or_not(store):
    with store.begin() as t:
        ids = t.add(additions(4), 1.0)
        t.hand_out([slot(number, 10.0 + place) for place, number in enumerate(ids)])
        (first,) = t.lease("w", 1, 0.0, 50.0)
        assert [taken.slot.start for taken in t.lease("w", 4, 14.5, 200.0)] == [11.0, 12.0, 13.0]
    with store.begin() as t:
        assert t.expire(49.0) == []
        assert t.expire(50.0) == [first.slot.element]
        assert t.expire(50.0) == []
        assert len(t.expire(0.0, everything=True)) == 3
        assert t.leased() == []
        assert t.record("w", [unchanged(first)]) == []
        assert t.polls() == []


def test_what_it_is_too_late_for_is_not_taken(store):
    with store.begin() as t:
        ids = t.add(additions(2), 1.0)
        t.hand_out([slot(ids[0], 10.0), slot(ids[1], 20.0)])
        assert [taken.slot.element for taken in t.lease("w", 5, 15.0, 100.0)] == [ids[1]]
        assert t.expire(15.0) == [ids[0]]


def test_a_recorded_poll_is_there_with_all_it_brought(store, copies):
    taken = handed_out(store, 2)
    with store.begin() as t:
        polls = [
            changed(taken[0], copies, modified=5.0, moved="https://new/"),
            unchanged(taken[1], stays=60.0),
        ]
        (version,) = t.record("w", polls)
    with store.begin() as t:
        assert t.versions() == [version]
        assert (version.key, version.element, version.time) == (taken[0].known.key, 1, 11.0)
        assert (version.media_type, version.modified, version.first) == ("text/html", 5.0, True)
        assert version.meta == {"status": 200}
        assert copies.read(version.digest) == b"content"
        assert version.size == 7
        element = t.find([version.key])[version.key]
        assert (element.version, element.fingerprint) == (version.id, polls[0].fingerprint)
        assert (element.validators, element.moved, element.detail) == (
            {"etag": "a"},
            "https://new/",
            "200 OK",
        )
        two, one = t.polls()
        assert (one.id, one.element, one.time, one.outcome, one.traffic) == (1, 1, 11.0, "new", 500)
        assert (one.seconds, one.detail, one.version) == (0.25, "200 OK", 1)
        assert (one.planned, one.predicted) == (True, 0.5)
        assert isnan(one.elapsed)
        assert (two.id, two.outcome, two.version) == (2, "unchanged", None)
        heard = t.heard(0)
        assert heard.poll.tolist() == [1, 2]
        assert heard.element.tolist() == [1, 2]
        assert heard.cost.tolist() == [7.0, 7.0]
        assert heard.modified is not None
        assert heard.modified.tolist() == [5.0, pytest.approx(np.nan, nan_ok=True)]
        assert heard.stays is not None
        assert heard.stays.tolist() == [pytest.approx(np.nan, nan_ok=True), 60.0]
        assert heard.traffic.tolist() == [500.0, 300.0]
        assert list(heard.outcome) == ["new", "unchanged"]
        assert heard.planned.tolist() == [True, True]
        assert t.heard(1).poll.tolist() == [2]
        assert len(t.heard(2).poll) == len(t.heard(2).outcome) == 0
        assert t.leased() == []


def test_what_the_next_poll_is_told_is_what_the_last_one_left(store, copies):
    (taken,) = handed_out(store, 1)
    with store.begin() as t:
        t.record("w", [changed(taken, copies)])
        t.save(columns([1], last=11.0))
        t.hand_out([slot(1, 30.0)])
        (taken,) = t.lease("w", 1, 20.0, 100.0)
        assert taken.known.validators == {"etag": "a"}
        assert taken.known.fingerprint == "print of b'content'"
        t.record("w", [unchanged(taken, began=31.0)])
        assert t.polls()[0].elapsed == 20.0
        element = t.find([taken.known.key])[taken.known.key]
        assert (element.validators, element.detail, element.version) == ({"etag": "a"}, "304 Not Modified", 1)
        t.hand_out([slot(1, 40.0)])
        (taken,) = t.lease("w", 1, 35.0, 100.0)
        (version,) = t.record("w", [changed(taken, copies, b"more", 41.0, "changed", validators=None)])
        assert not version.first
        element = t.find([taken.known.key])[taken.known.key]
        assert (element.validators, element.fingerprint, element.version) == (
            {"etag": "a"},
            "print of b'more'",
            2,
        )


def test_a_lease_that_was_lost_is_not_recorded_and_none_is_recorded_twice(store, copies):
    taken = handed_out(store, 4)
    with store.begin() as t:
        assert t.record("other", [unchanged(taken[0])]) == []
        t.record("w", [given_back(taken[1])])
        t.record("w", [unchanged(taken[2]), unchanged(taken[2])])
        t.record("w", [unchanged(taken[2])])
        assert [poll.element for poll in t.polls()] == [3]
        assert [element for element, _, _ in t.leased()] == [1, 4]
    with store.begin() as t:  # the same element, handed out anew to the same worker
        t.expire(1000.0)
        t.hand_out([slot(4, 1010.0)])
        (anew,) = t.lease("w", 1, 1005.0, 2000.0)
        assert t.record("w", [changed(taken[3], copies)]) == []
        assert t.leased() == [(4, 1, "w")]
        assert len(t.record("w", [changed(anew, copies)])) == 1


def test_a_poll_whose_copy_is_gone_is_given_back(store, copies):
    taken = handed_out(store, 2)
    polls = [changed(taken[0], copies, b"one"), changed(taken[1], copies, b"two")]
    copies.delete([polls[0].digest])
    with store.begin() as t:
        assert [version.element for version in t.record("w", polls)] == [2]
        assert [poll.element for poll in t.polls()] == [2]
        assert t.leased() == []
        assert t.find([taken[0].known.key])[taken[0].known.key].version is None


def test_what_a_source_asks_of_its_group_is_kept_and_told_once(store):
    taken = handed_out(store, 5)
    with store.begin() as t:
        t.record("w", [unchanged(taken[0], wait=60.0), unchanged(taken[1], wait=30.0, spacing=2.0)])
        (group,) = t.groups([1])
        assert (group.blocked_until, group.spacing, group.why) == (71.25, 2.0, "304 Not Modified")
        assert [(edit.kind, edit.subject) for edit in t.edits(5)] == [("group", 1)]
        t.record(
            "w", [unchanged(taken[2], wait=10.0, spacing=2.0), unchanged(taken[3], wait=inf, spacing=nan)]
        )
        assert t.groups([1]) == [group]
        assert len(t.edits(5)) == 1
        t.record("w", [unchanged(taken[4], spacing=0.0)])
        assert t.groups([1])[0].spacing == 0.0
        assert len(t.edits(5)) == 2


def test_whatever_a_server_says_can_be_recorded(store, copies):
    taken = handed_out(store, 2)
    nasty = "\0 \ud800 ☃ \U0001f600 ' \" \\ %s :x"
    with store.begin() as t:
        one = changed(
            taken[0], copies, validators={"etag": nasty, nasty: [nan, inf]}, media_type=nasty, moved=nasty,
            meta={"title": nasty, "when": {1: object}}, modified=nan,
        )  # fmt: skip
        t.record(
            "w",
            [replace(one, fingerprint=nasty, found=replace(one.found, detail=nasty)), unchanged(taken[1])],
        )
    with store.begin() as t:
        element = t.find([taken[0].known.key])[taken[0].known.key]
        assert element.validators["etag"] == nasty
        assert "☃ \U0001f600 ' \" \\ %s :x" in element.detail
        assert t.versions()[0].meta["title"] == text_of(nasty)
        assert t.versions()[0].modified is None
        assert len(t.polls()) == 2


# --- what lists have discovered


def test_what_lists_have_named_is_counted(store):
    def named(key, via):
        return Addition(key, "python", f"group:{key[0]}", {}, via=via)

    with store.begin() as t:
        (index,) = t.add([named("index", None)], 1.0)
        one, two = t.add([named("list one", index), named("list two", index)], 1.0)
        pages = t.add([named(f"page {i}", one) for i in range(5)], 1.0)
        t.add([named(f"other {i}", two) for i in range(3)], 1.0)
        t.remove(pages[:1], 2.0)
    with store.begin() as t:
        assert t.named_by(one) == (4, 4, 0)
        assert t.named_by(two) == (3, 3, 0)
        assert t.named_by(index) == (2, 2, 0)
        assert t.named_by(99) == (0, 0, 0)
        assert t.going_back_to(index, 100) == 10
        assert t.going_back_to(two, 100) == 3
        assert t.going_back_to(index, 4) == 4
        assert t.count_in_groups(["group:p", "group:o", "group:z"]) == {"group:p": 5, "group:o": 3}


def test_a_list_that_is_read_again_keeps_its_fingerprint(store):
    (lease,) = handed_out(store, 1)
    number = lease.slot.element
    with store.begin() as t:
        t.record("w", [changed(lease, store.copies)])
        before = t.numbered([number])[number]
        t.read_again([number])
        after = t.numbered([number])[number]
    assert before.validators == {"etag": "a"}
    assert after == replace(before, validators={})
