"""Fetchers of others: they take leases and report what they saw, by the same rules as workers."""

import asyncio
import base64
import hashlib
import time
from dataclasses import replace
from itertools import pairwise

import pytest

from dashboard.conftest import client_of
from unstale import Mirror
from unstale.dashboard.access_rules import ScopedToken
from unstale.dashboard.api.waiting_contents import MOST_WAITING_COPIES, WaitingContents
from unstale.dashboard.mirror_gateway import MirrorGateway
from unstale.mirror.settings import GroupLimit, Rule, Settings
from unstale.mirror.source import New

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


@pytest.fixture
def polled(planned):
    """The same, when each element has been polled once."""
    _, plan, client = planned
    told(client, [outcome(one, fingerprint="a") for one in leased(plan, client)])
    return planned


def leased(plan, client, count=COUNT, fetcher="one", **more):
    """Let the planner hand out polls, and take them."""
    found = {}
    for _ in range(50):
        plan()
        answer = client.post("/api/leases", json={"fetcher": fetcher, "count": count - len(found), **more})
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


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"content": base64.b64encode(b"a").decode(), "digest": "0" * 64}, "digest is not the SHA-256"),
        ({"digest": "0" * 64}, "there is no content with this digest"),
        ({"kind": "gone", "digest": "0" * 64}, "gone cannot come with content"),
        ({"kind": "unchanged", "fingerprint": "b"}, "unchanged cannot come with another fingerprint"),
        ({"fingerprint": "b", "seconds": 1e6}, "it would end in the future"),
        ({"fingerprint": "b", "traffic": 10**12}, "traffic must be at most 200,000,000 bytes"),
        ({"fingerprint": "b", "began": 1.0}, "began must be between its slot"),
    ],
)
def test_what_a_fetcher_says_must_not_contradict_itself(polled, said, why):
    mirror, plan, client = polled
    (lease,) = leased(plan, client, count=1)
    before = mirror.explain(lease["key"]).to_json(0)["rate"]
    answer = told(client, [outcome(lease, **said)])
    assert answer["refused"][0]["why"].startswith(why)
    assert len(mirror.polls()) == COUNT
    plan()
    assert mirror.explain(lease["key"]).to_json(0)["rate"] == before
    assert told(client, [outcome(lease, fingerprint="b")])["recorded"] == 1  # it can still be told as it is


def test_leases_of_groups(tmp_path):
    with Mirror(tmp_path / "mirror.db", settings=SETTINGS) as mirror:
        for i in range(COUNT):
            mirror.add(f"https://{'ab'[i % 2]}.example/{i}")
        with mirror._working(lambda _: None) as worker, client_of(mirror.store.url, SETTINGS) as client:

            def plan():
                asyncio.run(worker.turn())

            one = leased(plan, client, count=1, each=1, groups=["http:a.example", "http:none.example"])
            assert one[0]["group"] == "http:a.example"
            rest = leased(plan, client, count=2, groups=["http:a.example"])
            assert {lease["group"] for lease in (*one, *rest)} == {"http:a.example"}
            assert len({lease["key"] for lease in (*one, *rest)}) == COUNT // 2
            none = client.post("/api/leases", json={"fetcher": "one", "groups": ["http:a.example"]})
            assert none.json()["leases"] == []


def test_links_become_elements_as_the_rule_says(tmp_path):
    settings = replace(
        SETTINGS,
        rules=(Rule(match="https://a.example/", options={"links": 1}),),
        discovery=replace(SETTINGS.discovery, list=2),
    )
    with Mirror(tmp_path / "mirror.db", settings=settings) as mirror:
        mirror.add("https://a.example/")
        mirror.add("https://b.example/")
        with mirror._working(lambda _: None) as worker, client_of(mirror.store.url, settings) as client:
            both = leased(lambda: asyncio.run(worker.turn()), client, count=2)
            links = [f"https://a.example/{name}" for name in ("x", "y", "z")]
            links += ["https://c.example/", "file:///etc/passwd", "http://127.0.0.1/", "https://a.example/"]
            assert told(client, [outcome(one, fingerprint="a", links=links) for one in both])["recorded"] == 2
            keys = sorted(element.key for element in mirror.elements())
            assert keys == ["https://a.example/", *links[:2], "https://b.example/"]
            found = {element.key: element for element in mirror.elements()}
            assert found[links[0]].via == found["https://a.example/"].id


def test_content_is_put_and_named_by_its_digest(planned):
    mirror, plan, client = planned
    body = b"large " * 300_000
    digest = hashlib.sha256(body).hexdigest()

    def put(content, name=digest, **more):
        headers = {"content-type": "application/octet-stream", **more}
        return client.put(f"/api/contents/{name}", content=content, headers=headers)

    early = put(body)
    assert (early.status_code, "take leases first" in early.json()["error"]) == (409, True)
    lease, *_ = leased(plan, client)
    assert put(body).json() == {"digest": digest, "size": len(body)}
    assert told(client, [outcome(lease, digest=digest, media_type="text/plain")])["recorded"] == 1
    assert mirror.read(lease["key"]).body == body
    assert mirror.changes()[0].size == len(body)
    wrong = put(b"another")
    assert (wrong.status_code, "the body has the digest" in wrong.json()["error"]) == (422, True)
    large = put(iter([b"x" * 1_000_000] * 21))
    assert (large.status_code, "max_size" in large.json()["error"]) == (413, True)
    assert put(b"", **{"content-length": str(10**9)}).status_code == 413
    assert put(b"x", name="../../etc").status_code in {404, 405}
    assert put(b"x", **{"content-type": "application/json"}).status_code == 415
    assert put(b"x", origin="https://evil.example").status_code == 403
    assert list(mirror.copies.scratch.iterdir()) == []


def test_content_that_waits_for_its_outcome_is_bounded_and_deleted(tmp_path):
    """Nobody fills the disk: one for each lease, so many bytes for each token, and an hour to report it."""
    tokens = ("an-editing-secret-1", "a-fetchers-secret-2", "a-fetchers-secret-3")
    rules = {"token": tokens[0], "more": tuple(ScopedToken(one, frozenset({"lease"})) for one in tokens[1:])}
    count = MOST_WAITING_COPIES + 5
    settings = replace(SETTINGS, budget=10_000.0, max_size=2000)
    with Mirror(tmp_path / "mirror.db", settings=settings) as mirror:
        gateway = MirrorGateway(mirror)
        waiting = WaitingContents(gateway, seconds=0.0)
        for i in range(count):
            mirror.add(f"https://example.org/{i}")
        with (
            mirror._working(lambda _: None) as worker,
            client_of(mirror.store.url, settings, **rules) as client,
        ):

            def put(content, token):
                headers = {"content-type": "application/octet-stream", "authorization": f"Bearer {token}"}
                name = hashlib.sha256(content).hexdigest()
                return client.put(f"/api/contents/{name}", content=content, headers=headers)

            client.headers["authorization"] = f"Bearer {tokens[1]}"
            taken = leased(lambda: asyncio.run(worker.turn()), client, count=count)
            some = [bytes([i]) * 2000 for i in range(count)]
            answers = [put(content, tokens[1]) for content in some[: MOST_WAITING_COPIES + 1]]
            assert [one.status_code for one in answers] == [*[200] * MOST_WAITING_COPIES, 429]
            assert put(some[-1], tokens[2]).status_code == 200  # another's room
            digest = hashlib.sha256(some[0]).hexdigest()
            assert told(client, [outcome(taken[0], digest=digest)])["recorded"] == 1
            assert put(some[-2], tokens[1]).status_code == 200  # there is room again
            small = [put(b"%d" % i, tokens[2]).status_code for i in range(5)]
            assert small == [200] * 3 + [409] * 2  # one for each lease
            junk = base64.b64encode(b"of no lease").decode()
            answer = told(client, [outcome(taken[0], content=junk), outcome(taken[1], "gone", content=junk)])
            assert (answer["recorded"], answer["again"], len(answer["refused"])) == (0, 1, 1)
            assert not mirror.copies.has(hashlib.sha256(b"of no lease").hexdigest())

            async def tidy():
                waiting.keep(0, digest, 2000)
                waiting.keep(0, hashlib.sha256(some[1]).hexdigest(), 2000)
                await waiting.delete_old()
                for task in list(gateway._begun):
                    task.cancel()

            asyncio.run(tidy())
            kept = [mirror.copies.has(hashlib.sha256(one).hexdigest()) for one in some[:3]]
            assert kept == [True, False, True]  # a version needs the first, the third has not waited


def test_a_fetcher_that_dies_with_a_thousand_leases_keeps_nobody_out(tmp_path):
    """Others go on with what is left, at the budget; what it had comes back when its leases expire."""
    count = 1500
    many = (GroupLimit("*", concurrency=10_000, spacing=0.0),)
    settings = replace(SETTINGS, budget=50_000.0, reserve=0.0, groups=many)
    with Mirror(tmp_path / "mirror.db", settings=settings) as mirror:
        mirror.add_many([New(f"https://example.org/{i}") for i in range(count)])
        with mirror._working(lambda _: None) as worker, client_of(mirror.store.url, settings) as client:

            def plan():
                asyncio.run(worker.turn())

            dead = leased(plan, client, count=1000, fetcher="dead", seconds=600.0)
            alive = leased(plan, client, count=400, fetcher="alive")
            assert not {one["element"] for one in dead} & {one["element"] for one in alive}
            answer = told(client, [outcome(one, fingerprint="a") for one in alive], fetcher="alive")
            assert answer["recorded"] == 400
            with mirror.store.begin() as t:  # ten minutes later, the planner
                assert len(t.expire(time.time() + 601.0)) >= 1000
            again = leased(plan, client, count=1000, fetcher="alive")
            assert {one["element"] for one in again} & {one["element"] for one in dead}
            late = told(client, [outcome(one, fingerprint="a") for one in dead], fetcher="dead")
            assert late["recorded"] == 0
            assert len(mirror.polls(limit=5000)) == 400


def test_one_who_lies_and_one_who_is_silent_get_no_more_than_budget_and_limits(tmp_path):
    """One says that all has changed, as quickly as it can; the other takes all that it gets, for ever."""
    budget, spacing = 40.0, 0.1
    limits = (GroupLimit("http:a.example", concurrency=1, spacing=spacing),)
    settings = replace(SETTINGS, budget=budget, reserve=0.0, groups=(*limits, *SETTINGS.groups))
    with Mirror(tmp_path / "mirror.db", settings=settings) as mirror:
        mirror.add_many([New(f"https://{host}.example/{i}") for host in "abc" for i in range(40)])
        with mirror._working(lambda _: None) as worker, client_of(mirror.store.url, settings) as client:
            began, taken, lies, recorded = time.time(), [], [], 0
            while time.time() < began + 1.5 or not recorded:
                asyncio.run(worker.turn())
                for fetcher in ("liar", "silent"):
                    answer = client.post("/api/leases", json={"fetcher": fetcher, "count": 8, "each": 2})
                    taken += answer.json()["leases"]
                    if fetcher == "liar":
                        lies += [outcome(one, fingerprint="new") for one in answer.json()["leases"]]
                if lies:
                    answer = told(client, lies, fetcher="liar")
                    recorded += answer["recorded"]
                    early = {one["element"] for one in answer["refused"] if "its slot" in one["why"]}
                    lies = [one for one in lies if one["element"] in early]  # it says so again
                time.sleep(0.05)
            end = max(one["slot"] for one in taken)
        starts = sorted(one["slot"] for one in taken if one["group"] == "http:a.example")
        polls = mirror.polls(limit=1000)
    assert 0 < recorded == len(polls)
    assert all(poll.time <= end for poll in polls)
    assert len(taken) <= budget * (end - began) + 1.0
    assert all(later - earlier >= 0.99 * spacing for earlier, later in pairwise(starts))


def test_a_server_takes_reports_of_leases_that_it_does_not_remember(planned, monkeypatch):
    """It may have been restarted, or another server has given them, or there were too many."""
    mirror, plan, client = planned
    monkeypatch.setattr("unstale.mirror.engine.fetchers._MOST_REMEMBERED", 2)
    taken = leased(plan, client)
    assert told(client, [outcome(one, fingerprint="a") for one in taken[:3]])["recorded"] == 3
    with client_of(mirror.store.url, SETTINGS) as other:
        assert told(other, [outcome(one, fingerprint="a") for one in taken])["recorded"] == COUNT - 3
    assert sorted(poll.outcome for poll in mirror.polls()) == ["new"] * COUNT


def test_an_older_outcome_that_comes_last_changes_nothing(planned):
    mirror, plan, client = planned
    old = leased(plan, client, seconds=1.0)
    time.sleep(1.2)
    new = leased(plan, client)
    assert told(client, [outcome(one, fingerprint="new") for one in new])["recorded"] == COUNT
    answer = told(client, [outcome(one, fingerprint="old") for one in old])
    assert (answer["recorded"], answer["again"], len(answer["refused"])) == (0, 0, COUNT)
    assert {element.fingerprint for element in mirror.elements()} == {"new"}


def test_a_report_that_is_too_large_is_refused_and_can_be_made_smaller(planned):
    mirror, plan, client = planned
    taken = leased(plan, client)
    large = base64.b64encode(b"x" * 200_000).decode()
    answer = told(client, [outcome(one, content=large) for one in taken], code=413)
    assert "1,000,000 bytes" in answer["error"]
    many = [{"element": i, "slot": 1.0, "outcome": "gone"} for i in range(1, 1002)]
    assert "at most 1000 items" in told(client, many, code=422)["error"]
    assert mirror.polls() == []
    assert all(told(client, [outcome(one, content=large)])["recorded"] == 1 for one in taken)


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


@pytest.mark.parametrize("second", ["one", "two"])
def test_leases_that_are_not_reported_go_back_and_the_older_ones_count_no_more(planned, second):
    mirror, plan, client = planned
    taken = leased(plan, client, seconds=1.0)
    time.sleep(1.2)
    again = leased(plan, client, fetcher=second)
    assert {one["element"] for one in again} == {one["element"] for one in taken}
    late = told(client, [outcome(one, fingerprint="old") for one in taken])
    assert len(late["refused"]) == COUNT
    assert told(client, [outcome(one, fingerprint="a") for one in again], fetcher=second)["recorded"] == COUNT
    assert len(mirror.polls()) == COUNT
    assert {element.fingerprint for element in mirror.elements()} == {"a"}


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
        {"fetcher": "a", "groups": 1}, {"fetcher": "a", "groups": [""]}, {"fetcher": "a", "each": 0}, {},
    ],
)  # fmt: skip
def test_wishes_that_cannot_be_are_refused(planned, wrong):
    assert planned[2].post("/api/leases", json=wrong).status_code == 422


@pytest.mark.parametrize(
    "wrong",
    [
        {"outcome": "lost"}, {"slot": -1}, {"element": 0}, {"traffic": -1}, {"wait": 1e9}, {"began": "soon"},
        {"content": "%%%"}, {"validators": {str(k): "" for k in range(11)}}, {"more": 1},
        {"validators": {"etag": "x" * 2001}}, {"digest": "0" * 63}, {"links": ["x"] * 2001}, {"links": [""]},
    ],
)  # fmt: skip
def test_outcomes_that_cannot_be_are_refused(planned, wrong):
    good = {"element": 1, "slot": 1.0, "outcome": "changed", "fingerprint": "a"}
    told(planned[2], [{**good, **wrong}], code=422)
