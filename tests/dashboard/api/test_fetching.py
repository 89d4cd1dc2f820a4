"""Fetchers of others: they take leases and report what they saw, by the same rules as workers."""

import asyncio
import base64
import time

import pytest

from dashboard.conftest import client_of
from unstale import Mirror
from unstale.mirror.settings import GroupLimit, Settings

COUNT = 6
SETTINGS = Settings(
    budget=1000.0, fetch="elsewhere", groups=(GroupLimit("*", concurrency=1000, spacing=0.0),)
)


@pytest.fixture
def planned(tmp_path):
    """A mirror whose elements others fetch, its planner, and a client of its API."""
    with Mirror(tmp_path / "mirror.db", settings=SETTINGS) as mirror:
        for i in range(COUNT):
            mirror.add(f"https://example.org/{i}")
        with mirror._working(lambda _: None) as worker, client_of(mirror.store.url, SETTINGS) as client:

            def plan():
                asyncio.run(worker.turn())

            yield mirror, plan, client


def leased(plan, client, count=COUNT, fetcher="one", **more):
    """Let the planner hand out polls, and take them."""
    found = {}
    for _ in range(50):
        plan()
        answer = client.post("/api/leases", json={"fetcher": fetcher, "count": count, **more})
        assert answer.status_code == 200, answer.text
        found |= {one["element"]: one for one in answer.json()["leases"]}
        if len(found) >= count:
            some = list(found.values())[:count]
            time.sleep(max(max(one["slot"] for one in some) - time.time(), 0.0))  # when the last may begin
            return some
    pytest.fail(f"only {len(found)} of {count} polls were handed out")


def told(client, outcomes, fetcher="one", code=200):
    answer = client.post("/api/outcomes", json={"fetcher": fetcher, "outcomes": outcomes})
    assert answer.status_code == code, answer.text
    return answer.json()


def outcome(lease, kind="changed", **more):
    return {"element": lease["element"], "slot": lease["slot"], "outcome": kind, **more}


def test_leases_are_taken_reported_and_learned_from(planned):
    mirror, plan, client = planned
    taken = leased(plan, client)
    assert sorted(one["key"] for one in taken) == [f"https://example.org/{i}" for i in range(COUNT)]
    assert all(one["fingerprint"] is None and one["predicted"] is None for one in taken)
    text = base64.b64encode(b"some text").decode()
    kept, digest, gone, failed, *rest = taken
    answer = told(client, [
        outcome(kept, content=text, media_type="text/plain", validators={"etag": "x"}, modified=1.6e9),
        outcome(digest, fingerprint="sha256:1"),
        outcome(gone, "gone", detail="404 Not Found"),
        outcome(failed, "failed", wait=60.0),
        *(outcome(one, fingerprint="a") for one in rest),
    ])  # fmt: skip
    assert answer == {"recorded": COUNT, "again": 0, "refused": []}
    assert mirror.read(kept["key"]).body == b"some text"
    found = {element.key: element for element in mirror.elements()}
    assert found[kept["key"]].validators == {"etag": "x"}
    assert found[digest["key"]].fingerprint == "sha256:1"
    assert found[digest["key"]].version is None
    plan()
    found = {element.key: element for element in mirror.elements()}
    assert found[gone["key"]].state == "gone"
    assert found[failed["key"]].state == "failing"
    assert sorted(poll.outcome for poll in mirror.polls()) == ["failed", "gone", "new", "new", "new", "new"]
    assert mirror.status().freshness.value > 0.5


def test_workers_of_the_mirror_poll_nothing(planned):
    mirror, plan, _ = planned
    for _ in range(5):
        plan()
    assert mirror.polls() == []
    with mirror.store.begin() as t:
        assert {worker for _, _, worker in t.leased()} <= {""}


def test_what_was_not_leased_or_cannot_be_is_refused_with_a_reason(planned):
    mirror, plan, client = planned
    one, two, three, *_ = leased(plan, client)
    now = mirror.clock.now()
    answer = told(client, [
        outcome(one, slot=one["slot"] + 1.0, fingerprint="a"),
        outcome(two, "unchanged"),
        outcome(three),
        outcome(three, fingerprint="a", began=now + 1000.0),
        {"element": 999, "slot": 1.0, "outcome": "gone"},
    ])  # fmt: skip
    assert answer["recorded"] == answer["again"] == 0
    assert [why["why"][:30] for why in answer["refused"]] == [
        "it is not leased to this fetch",
        "unchanged cannot be what was n",
        "changed needs a fingerprint or",
        "began must be between its slot",
        "it is not leased to this fetch",
    ]
    stolen = told(client, [outcome(one, fingerprint="a")], fetcher="two")
    assert stolen["refused"][0]["why"].startswith("it is not leased to this fetcher")
    assert mirror.polls() == []


def test_a_report_that_comes_twice_counts_once(planned):
    mirror, plan, client = planned
    one, two, *_ = leased(plan, client)
    assert told(client, [outcome(one, fingerprint="a")] * 2)["refused"][0]["why"] == "it is reported twice"
    assert told(client, [outcome(one, fingerprint="a")]) == {"recorded": 0, "again": 1, "refused": []}
    assert told(client, [outcome(two, fingerprint="a")])["recorded"] == 1
    assert len(mirror.polls()) == 2


def test_the_same_fingerprint_is_no_change(planned):
    mirror, plan, client = planned
    first = leased(plan, client)
    told(client, [outcome(one, fingerprint="a") for one in first])
    again = leased(plan, client, count=2)
    assert all(0 < one["predicted"] <= 1 and one["fingerprint"] == "a" for one in again)
    told(client, [outcome(again[0], fingerprint="a"), outcome(again[1], fingerprint="b")])
    assert [poll.outcome for poll in mirror.polls(limit=2)][::-1] == ["unchanged", "changed"]


def test_leases_that_are_not_reported_go_back(planned):
    mirror, plan, client = planned
    taken = leased(plan, client, seconds=1.0)
    time.sleep(1.2)
    again = leased(plan, client, fetcher="two")
    assert {one["element"] for one in again} == {one["element"] for one in taken}
    late = told(client, [outcome(one, fingerprint="a") for one in taken])
    assert len(late["refused"]) == COUNT
    assert told(client, [outcome(one, fingerprint="a") for one in again], fetcher="two")["recorded"] == COUNT
    assert len(mirror.polls()) == COUNT


def test_a_mirror_that_polls_itself_takes_no_reports(ask, mirror):
    client = ask()
    for path, body in {
        "/api/leases": {"fetcher": "one"},
        "/api/outcomes": {"fetcher": "one", "outcomes": [{"element": 1, "slot": 1.0, "outcome": "gone"}]},
    }.items():
        answer = client.post(path, json=body)
        assert (answer.status_code, "this mirror polls itself" in answer.text) == (409, True)
    assert len(mirror.polls()) == 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"fetcher": ""}, {"fetcher": "a b"}, {"fetcher": "x" * 61}, {"fetcher": "a", "count": 0},
        {"fetcher": "a", "count": 1001}, {"fetcher": "a", "seconds": 0.1}, {"fetcher": "a", "seconds": 1e9},
        {"fetcher": "a", "groups": 1}, {},
    ],
)  # fmt: skip
def test_wishes_that_cannot_be_are_refused(planned, wrong):
    assert planned[2].post("/api/leases", json=wrong).status_code == 422


@pytest.mark.parametrize(
    "wrong",
    [
        {"outcome": "lost"}, {"slot": -1}, {"element": 0}, {"traffic": -1}, {"wait": 1e9}, {"began": "soon"},
        {"content": "%%%"}, {"validators": {str(k): "" for k in range(11)}}, {"more": 1},
    ],
)  # fmt: skip
def test_outcomes_that_cannot_be_are_refused(planned, wrong):
    good = {"element": 1, "slot": 1.0, "outcome": "changed", "fingerprint": "a"}
    told(planned[2], [{**good, **wrong}], code=422)
