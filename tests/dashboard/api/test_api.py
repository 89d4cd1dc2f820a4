"""The API: what it tells, and what it takes."""

from itertools import pairwise

import pytest

from dashboard.conftest import HOSTILE
from unstale.dashboard import mirror_gateway
from unstale.errors import Trouble
from unstale.mirror.source import Found


@pytest.fixture
def client(ask):
    return ask()


def number(mirror, key="python:news"):
    return mirror.find(key).id


def test_status(client, mirror):
    told = client.get("/api/status").json()
    assert told["elements"] == {"ok": 2}
    assert 0.5 < told["freshness"]["low"] <= told["freshness"]["value"] <= told["freshness"]["high"] <= 1.0
    assert told["budget"] == mirror.settings.budget
    assert told["byte_budget"] is None
    assert told["polls"] == {"new": 2}
    assert told["running"] is False
    assert (len(told["groups"]), told["group_count"]) == (1, 1)
    assert told["now"].endswith("Z")


def test_groups(still):
    told = still().get("/api/groups").json()
    assert told["total"] == 1
    group = told["groups"][0]
    assert (group["name"], group["elements"], group["polls"], group["blocked_until"]) == (
        "python",
        2,
        2,
        None,
    )
    assert still().get("/api/groups?offset=1").json() == {"groups": [], "total": 1}


def test_samples(client):
    assert "samples" in client.get("/api/samples?span=1e9").json()
    for sample in client.get("/api/samples").json()["samples"]:
        assert 0 <= sample["freshness"]["value"] <= 1


def test_elements_are_found(client, mirror):
    for i in range(7):
        mirror.add(f"python:extra {i}", poll=lambda: "x", weight=i)
    told = client.get("/api/elements?search=extra&limit=3&offset=2&sort=weight&descending=true").json()
    assert told["total"] == 7
    assert told["offset"] == 2
    assert [one["key"] for one in told["elements"]] == [f"python:extra {i}" for i in (4, 3, 2)]
    assert client.get("/api/elements?state=new").json()["total"] == 7
    assert client.get("/api/elements?group=python").json()["total"] == 9
    assert client.get("/api/elements?group=other").json()["total"] == 0
    one = client.get("/api/elements", params={"key": "python:news"}).json()["elements"]
    assert [element["id"] for element in one] == [number(mirror)]
    assert client.get("/api/elements?key=python:nothing").json()["total"] == 0


@pytest.mark.parametrize("text", ["%", "_", "'; DROP TABLE elements; --", "\x00", "ü", "\\", '"'])
def test_a_search_is_a_text_and_no_sql(still, text):
    told = still().get("/api/elements", params={"search": text}).json()
    assert told == {"elements": [], "total": 0, "offset": 0}
    assert still().get("/api/elements", params={"key": text}).json()["total"] == 0
    assert still().get("/api/elements", params={"group": text}).json()["total"] == 0
    assert still().get("/api/status").json()["elements"] == {"ok": 2}


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=1001", "limit=x", "offset=-1", "offset=1e9", "sort=size", "sort=id;", "state=lost",
     "descending=perhaps", f"search={'x' * 3000}"],
)  # fmt: skip
def test_what_cannot_be_understood(still, query):
    answer = still().get(f"/api/elements?{query}")
    assert answer.status_code == 422
    assert answer.json()["error"].startswith(query.partition("=")[0])


def test_one_element_is_explained(client, mirror, web):
    for text in ("one\n2\nthree\n", "one\n2\n3\n"):
        web.pages["news"] = text
        mirror.step()
    told = client.get(f"/api/elements/{number(mirror)}").json()
    assert told["element"]["key"] == "python:news"
    assert told["element"]["copy_path"] == "/copies/python%3Anews"
    assert told["low"] < told["rate"] < told["high"]
    assert 0 < told["fresh"] <= 1
    assert [poll["outcome"] for poll in told["polls"]] == ["changed", "changed", "new"]
    assert len(told["versions"]) == 3
    assert told["why"]
    assert len(told["worths"]) > 10
    assert told["worths"][0]["worth"] <= told["worths"][-1]["worth"]


def test_ideas_are_tried(still):
    told = still().get("/api/ideas").json()
    assert told["tried"] is None
    assert {"all equally often", "two replicas in turns"} <= {one["name"] for one in told["ideas"]}
    query = "policy=uniform&order=random&replicas=2&space=1e9&elements=10&budget=2&objective=age&expiry=false"
    tried = still().get(f"/api/ideas?{query}").json()["tried"]
    assert 0 <= tried["freshness"] <= 1
    assert tried["kept"] == 1.0
    for wrong in ("policy=best", "replicas=0", "space=nan", "objective=speed", "colour=red"):
        assert still().get(f"/api/ideas?{wrong}").status_code == 422


def test_secrets_of_sources_are_not_told(client, mirror):
    mirror.add("https://example.org/private", headers={"Authorization": "Bearer hunter2"})
    told = client.get(f"/api/elements/{number(mirror, 'https://example.org/private')}")
    assert told.status_code == 200
    assert "hunter2" not in told.text
    assert "hunter2" not in client.get("/api/elements").text


@pytest.mark.parametrize("which", ["0", "-1", "x", "1e3", "9" * 30, "%00", "1'"])
def test_numbers_that_are_none(still, which):
    for path in ("", "/versions", "/difference"):
        assert still().get(f"/api/elements/{which}{path}").status_code in {404, 422}
    assert still().delete(f"/api/elements/{which}").status_code in {404, 422}


def test_numbers_that_nobody_has(still):
    for path in ("", "/versions", "/difference"):
        answer = still().get(f"/api/elements/4711{path}")
        assert (answer.status_code, answer.json()["error"]) == (
            404,
            "there is no element number 4711 in this mirror",
        )


def test_versions_and_their_difference(client, mirror, web):
    web.pages["news"] = "one\n2\nthree\n"
    mirror.step()
    path = f"/api/elements/{number(mirror)}"
    versions = client.get(f"{path}/versions").json()["versions"]
    assert [one["first"] for one in versions] == [False, True]
    told = client.get(f"{path}/difference").json()
    assert told["difference"] == "@@ -1,3 +1,3 @@\n one\n-two\n+2\n three"
    assert (told["old"]["id"], told["new"]["id"]) == (versions[1]["id"], versions[0]["id"])
    back = client.get(f"{path}/difference?old={versions[0]['id']}&new={versions[1]['id']}").json()
    assert "+two" in back["difference"]
    assert client.get(f"{path}/difference?new={versions[1]['id']}").status_code == 404
    assert client.get(f"{path}/difference?new=4711").status_code == 404
    other = client.get(f"/api/elements/{number(mirror, 'python:about')}/difference?new={versions[0]['id']}")
    assert other.status_code == 404
    assert client.get(versions[1]["copy_path"]).text == "one\ntwo\nthree\n"


def test_a_difference_needs_both_copies(client, mirror, web):
    web.pages["news"] = "another text"
    mirror.step()
    path = f"/api/elements/{number(mirror)}"
    digest = client.get(f"{path}/versions").json()["versions"][1]["digest"]
    mirror.copies.place.path(digest).unlink()
    assert client.get(f"{path}/difference").status_code == 409


def test_changes_go_on_where_one_was(client, mirror, web):
    first = client.get("/api/changes").json()
    assert {one["key"] for one in first["changes"]} == {"python:news", "python:about"}
    after = first["next"]
    assert client.get(f"/api/changes?after={after}").json() == {"changes": [], "next": after}
    web.pages["news"] = "something else"
    mirror.step()
    more = client.get(f"/api/changes?after={after}").json()["changes"]
    assert [(one["key"], one["first"]) for one in more] == [("python:news", False)]


def test_whatever_sources_say_can_be_told(client, mirror):
    odd = {"title": HOSTILE, "deep": [{"": [None, 1.5]}]}
    mirror.add("python:odd", poll=lambda: Found("changed", body=b"x", meta=odd, modified=1e300))
    mirror.step()
    told = [one for one in client.get("/api/changes").json()["changes"] if one["key"] == "python:odd"]
    assert told[0]["modified"] is None
    assert told[0]["meta"]["title"] == HOSTILE


def test_what_budgets_buy(client, mirror):
    told = client.get("/api/what-if").json()
    assert told["unit"] == "polls"
    assert told["present"] == mirror.settings.budget
    optimal = [point["optimal"] for point in told["points"]]
    assert all(more >= less - 1e-9 for less, more in pairwise(optimal))
    assert all(point["optimal"] >= point["uniform"] - 1e-6 for point in told["points"])
    assert client.get("/api/what-if?objective=age").json()["objective"] == "age"
    assert client.get("/api/what-if?objective=luck").status_code == 422
    cheap, dear = (client.get(f"/api/budget-for?freshness={share}").json()["budget"] for share in (0.5, 0.9))
    assert 0 < cheap < dear
    for share in ("1", "-0.1", "nan", "inf", "x", ""):
        assert client.get(f"/api/budget-for?freshness={share}").status_code == 422


def test_a_budget_is_set(client, mirror):
    told = client.post("/api/budget", json={"budget": 5.0})
    assert told.json() == {"budget": 5.0, "byte_budget": None}
    assert mirror.status().budget == 5.0
    assert client.get("/api/status").json()["instead_of"] == {
        "budget": mirror.settings.budget, "byte_budget": None
    }  # fmt: skip
    assert client.post("/api/budget", json={"byte_budget": 9.0}).json() == {"budget": 5.0, "byte_budget": 9.0}
    only = client.post("/api/budget", json={"budget": None})
    assert only.json() == {"budget": None, "byte_budget": 9.0}
    none = client.post("/api/budget", json={"byte_budget": None})
    assert (none.status_code, "would leave none" in none.json()["error"]) == (422, True)
    assert client.post("/api/budget", json={"budget": 5.0, "byte_budget": None}).status_code == 200
    for wrong in (
        {},
        {"budget": 0},
        {"budget": -1},
        {"budget": "many"},
        {"budgets": 1},
        {"budget": 1e300},
        [],
        5,
    ):
        assert client.post("/api/budget", json=wrong).status_code == 422
    for wrong in (b'{"budget": NaN}', b'{"budget": 1e999}', b"{", b"", b"\xff", b"[" * 5000):
        answer = client.post("/api/budget", content=wrong, headers={"content-type": "application/json"})
        assert answer.status_code in {400, 422}, wrong[:20]
        assert set(answer.json()) == {"error"}
    assert mirror.status().budget == 5.0


@pytest.mark.parametrize("path", ["/hints", "/api/hints"])
def test_hints(client, mirror, path):
    assert client.post(path, json={"keys": ["python:news", "python:news"]}).json()["hinted"] == 1
    assert client.post(path, json={"keys": ["python:about"], "time": "2026-01-01T00:00:00"}).json() == {
        "hinted": 1, "time": "2026-01-01T00:00:00.000000Z"
    }  # fmt: skip
    with mirror.store.begin() as t:
        hints = [edit for edit in t.edits(0) if edit.kind == "hint"]
    assert [hint.channel for hint in hints] == ["api", "api"]
    assert hints[1].time == 1767225600.0
    wrong = client.post(path, json={"keys": ["python:news", "python:nothing"]})
    assert wrong.status_code == 422
    assert wrong.json()["error"] == "there is no element 'python:nothing' in this mirror; no hint was taken"
    for body in (
        {},
        {"keys": ["python:news"], "time": "2999-01-01T00:00:00"},
        {"keys": []},
        {"keys": [""]},
        {"keys": [5]},
        {"keys": "python:news"},
        {"keys": ["x" * 3000]},
    ):
        assert client.post(path, json=body).status_code == 422


def test_elements_are_added_and_removed(client, mirror):
    told = client.post(
        "/api/elements",
        json={
            "elements": [{"key": "https://Example.org", "weight": 3}, {"key": "feed:https://example.org/f"}]
        },
    ).json()
    assert told == {"added": 2, "known": 0, "changed": 0, "refused": [], "withheld": 0}
    assert mirror.find("https://example.org/").weight == 3
    again = client.post(
        "/api/elements", json={"elements": [{"key": "https://example.org/", "weight": 4}]}
    ).json()
    assert (again["known"], again["changed"]) == (1, 1)
    assert client.get("/api/elements?key=https://Example.org").json()["total"] == 1
    element = number(mirror, "https://example.org/")
    assert client.delete(f"/api/elements/{element}").json() == {"removed": 1, "forgotten": False}
    assert mirror.find("https://example.org/").state == "removed"
    assert client.delete(f"/api/elements/{element}?forget=true").json() == {"removed": 1, "forgotten": True}
    assert client.delete(f"/api/elements/{element}").status_code == 404


@pytest.mark.parametrize(
    "key",
    ["/etc/passwd", "file:///etc/passwd", "python:x", "sqlite:///secret.db#table", "warehouse#orders", "s3://b/k",
     "~/x", "C:\\x", "feed:/etc/passwd", "sitemap:file:///etc/passwd", "feed:feed:/etc/passwd", "x", "ftp://h/x"],
)  # fmt: skip
def test_nothing_of_this_machine_can_be_added(still, key):
    told = still().post("/api/elements", json={"elements": [{"key": key}]}).json()
    assert told["added"] == 0
    assert [one["key"] for one in told["refused"]] == [key]


def test_additions_that_are_refused_are_told_one_by_one(client):
    wishes = [
        {"key": "https://example.org/a"},
        {"key": "https://"},
        {"key": "https://example.org/b", "windows": "never"},
    ]
    told = client.post("/api/elements", json={"elements": wishes}).json()
    assert told["added"] == 1
    assert [one["key"] for one in told["refused"]] == ["https://example.org/b", "https://"] or len(
        told["refused"]
    ) == 2
    for wrong in (
        {"key": "https://x.example/", "weight": -1},
        {"key": "https://x.example/", "headers": {}},
        {},
    ):
        assert client.post("/api/elements", json={"elements": [wrong]}).status_code == 422


def test_an_empty_mirror_has_answers_too(client, mirror):
    mirror.remove(["python:news", "python:about"], forget=True)
    for path in ("status", "groups", "samples", "elements", "changes"):
        assert client.get(f"/api/{path}").status_code == 200
    assert client.get("/api/what-if").status_code == 422
    assert client.get("/api/status").json()["freshness"]["value"] is None


def test_a_store_that_cannot_be_read_is_trouble_for_now(client, monkeypatch):
    def fails(_):
        raise Trouble("the store is busy")

    monkeypatch.setattr(mirror_gateway, "_view", fails)
    answer = client.get("/api/groups")
    assert (answer.status_code, answer.json()) == (503, {"error": "the store is busy"})
    assert answer.headers["retry-after"]


def test_elements_are_told_with_how_fresh_they_are_and_how_often_they_change(client, mirror):
    mirror.add("python:new", poll=lambda: "x")
    told = {one["key"]: one for one in client.get("/api/elements").json()["elements"]}
    for key in ("python:news", "python:about"):
        explained = client.get(f"/api/elements/{told[key]['id']}").json()
        assert told[key]["fresh"] == pytest.approx(explained["fresh"], abs=0.01)
        assert told[key]["rate"] == pytest.approx(explained["rate"], rel=0.01)
    assert (told["python:new"]["fresh"], told["python:new"]["rate"]) == (None, None)
