"""Editing elements on the page: one, several, and back again."""

import pytest

from unstale import Mirror
from unstale.mirror.settings import GroupLimit, Rule, Settings

from ..conftest import client_of  # noqa: TID252

PAGE = "http://127.0.0.1:9/x"


@pytest.fixture
def edited(tmp_path):
    rules = (Rule("*", max_age=86400.0, options={"selector": "main"}),)
    settings = Settings(budget=100.0, groups=(GroupLimit("*"),), rules=rules)
    with Mirror(tmp_path / "mirror.db", settings=settings) as mirror:
        numbers = [mirror.add(key, weight=2.0).id for key in (PAGE, f"{PAGE}2")]
        with client_of(mirror.store.url, settings) as client:
            yield mirror, client, numbers


def csrf(client, path="/elements"):
    return client.get(path).text.partition('name="csrf" value="')[2].partition('"')[0]


def test_an_element_is_edited_in_the_store_and_it_is_undone(edited):
    mirror, client, (number, _) = edited
    path = f"/elements/{number}/edit"
    assert 'name="weight" value="2"' in client.get(path).text
    said = {
        "csrf": csrf(client, path),
        "weight": "5",
        "max_age": "6h",
        "selector": ".price",
        "change": "price",
    }
    said |= {"threshold": "5%", "ignore": "a+\n\nb+", "min_interval": "", "group": ""}
    assert client.post(path, data=said).headers["location"] == f"/elements/{number}?said=edited"
    element = mirror.find(PAGE)
    assert (element.weight, element.max_age) == (5.0, 21600.0)
    assert element.options == {
        "selector": ".price",
        "change": "price",
        "threshold": "5%",
        "ignore": ["a+", "b+"],
    }
    assert element.min_interval == 0.0
    # an empty field leaves it to the rules
    client.post(path, data=dict.fromkeys(said, "") | {"csrf": said["csrf"]})
    element = mirror.find(PAGE)
    assert (element.weight, element.max_age, element.options) == (1.0, 86400.0, {"selector": "main"})
    assert "Undo it" in client.get(path).text
    assert client.post("/undo", data={"csrf": said["csrf"], "number": "2"}).status_code == 303
    assert mirror.find(PAGE).options["change"] == "price"
    assert client.post("/undo", data={"csrf": said["csrf"], "number": "2"}).status_code == 422  # only once
    assert client.post("/undo", data={"csrf": said["csrf"], "number": "1"}).status_code == 303
    element = mirror.find(PAGE)
    assert (element.weight, element.max_age, element.options) == (2.0, 86400.0, {"selector": "main"})


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("weight", "much", "weight must be a number"),
        ("weight", "-1", "weight must be a number from 0"),
        ("max_age", "soon", "max_age"),
        ("selector", "main[", "selector must be a CSS selector"),
        ("change", "price?", "change must be one of"),
        ("threshold", "5%", "threshold is for numbers"),
        ("ignore", "(", "ignore must be regular expressions"),
        ("keep", "few", "keep must be a number of versions"),
        ("keep_for", "long", "keep_for"),
        ("tags", "x" * 61, "tags must be words"),
    ],
)
def test_what_makes_no_sense_is_told_and_changes_nothing(edited, field, value, told):
    mirror, client, (number, _) = edited
    path = f"/elements/{number}/edit"
    before = mirror.find(PAGE)
    answer = client.post(path, data={"csrf": csrf(client, path), **dict.fromkeys(FIELDS, ""), field: value})
    assert answer.status_code == 422
    assert told in answer.text
    assert mirror.find(PAGE).given == before.given
    assert client.post(path, data={"csrf": "x", "weight": "3"}).status_code == 403


FIELDS = (
    "weight", "max_age", "min_interval", "group", "tags", "keep", "keep_for", "selector", "change",
    "threshold", "ignore",
)  # fmt: skip


def test_several_are_edited_together_and_undone_together(edited):
    mirror, client, numbers = edited
    token = csrf(client)
    said = {"csrf": token, "number": [str(one) for one in numbers], "what": "weight", "value": "7"}
    assert client.post("/elements/bulk", data=said).status_code == 303
    assert [mirror.find(key).weight for key in (PAGE, f"{PAGE}2")] == [7.0, 7.0]
    assert client.post("/undo", data={"csrf": token, "number": "1"}).status_code == 303
    assert [mirror.find(key).weight for key in (PAGE, f"{PAGE}2")] == [2.0, 2.0]
    assert client.post("/elements/bulk", data=said | {"value": "x"}).status_code == 422
    assert client.post("/elements/bulk", data=said | {"number": []}).status_code == 422
    assert client.post("/elements/bulk", data=said | {"what": "hint"}).status_code == 303
    assert client.post("/elements/bulk", data=said | {"what": "remove"}).status_code == 303
    assert states(mirror) == {"removed"}
    # what was removed on the dashboard is brought back there, as it was
    assert "Undo it" in client.get("/elements?said=edited").text
    assert client.post("/undo", data={"csrf": token, "number": "1"}).status_code == 303
    assert states(mirror) == {"new"}


def states(mirror):
    return {mirror.find(key).state for key in (PAGE, f"{PAGE}2")}


def test_elements_are_tagged_paused_and_kept_together_and_found_by_tag(edited):
    mirror, client, numbers = edited
    token = csrf(client)
    said = {"csrf": token, "number": [str(one) for one in numbers]}

    def do(what, value=""):
        answer = client.post("/elements/bulk", data=said | {"what": what, "value": value})
        assert answer.status_code == 303, answer.text
        return client.get(answer.headers["location"]).text

    assert "The latest edit: tag shop, daily of 2 elements" in do("tag", "shop, daily")
    do("untag", "daily")
    do("keep", "3")
    element = mirror.find(PAGE)
    assert (element.tags, element.keep, element.weight) == (("shop",), 3, 2.0)
    assert f'href="/elements/{numbers[0]}"' in client.get("/elements?tag=shop").text
    assert "No element is like that." in client.get("/elements?tag=daily").text
    assert client.get("/api/elements?tag=shop").json()["total"] == 2
    said_now = {"csrf": token, "tags": "", "keep": "", "keep_for": "90 days"}
    client.post(f"/elements/{numbers[0]}/edit", data=said_now)
    element = mirror.find(PAGE)
    assert (element.tags, element.keep, element.keep_for) == ((), None, 90 * 86400.0)
    do("pause")
    assert states(mirror) == {"paused"}
    page = client.get(f"/elements/{numbers[0]}").text
    assert ("Resume</button>" in page, "the mirror does not poll it" in page) == (True, True)
    do("resume")
    assert states(mirror) == {"new"}
    for number in (6, 5):  # resume, pause
        assert client.post("/undo", data={"csrf": token, "number": str(number)}).status_code == 303
        assert states(mirror) == {"paused" if number == 6 else "new"}
    client.post("/undo", data={"csrf": token, "number": "4"})
    assert mirror.find(PAGE).tags == ("shop",)
    assert (
        client.post(f"/elements/{numbers[0]}/pause", data={"csrf": token})
        .headers["location"]
        .endswith("paused")
    )
    assert client.post(f"/api/elements/{numbers[0]}/resume", json={}).json() == {"changed": 1}
    assert client.post("/elements/bulk", data=said | {"what": "tag", "value": " "}).status_code == 422


def test_what_was_removed_is_not_brought_back_by_an_edit(edited):
    mirror, client, (number, other) = edited
    token = csrf(client, f"/elements/{number}/edit")
    mirror.remove([PAGE])
    answer = client.post(f"/elements/{number}/edit", data={"csrf": token, "weight": "5"})
    assert (answer.status_code, "it was removed" in answer.text) == (422, True)
    chosen = {"csrf": token, "number": [str(number), str(other)], "what": "weight", "value": "7"}
    assert client.post("/elements/bulk", data=chosen).status_code == 303
    assert client.post(f"/elements/{number}/noise", data={"csrf": token}).status_code == 422
    with mirror.store.begin() as t:
        found = t.numbered([number, other])
    assert (found[number].state, found[number].weight, found[other].weight) == ("removed", 2.0, 7.0)


def test_without_a_token_nobody_clicks_in_the_name_of_a_user(edited):
    mirror, client, _ = edited
    number = mirror.add(f"browser:{PAGE}3", login="shop", click=["#more"]).id
    said = {"csrf": csrf(client, f"/elements/{number}/edit"), "click": "#delete-account"}
    answer = client.post(f"/elements/{number}/edit", data=said)
    assert (answer.status_code, "there is no token" in answer.text) == (422, True)
    assert client.post(f"/elements/{number}/edit", data=said | {"click": "#more"}).status_code == 303
    assert mirror.find(f"{PAGE}3").options["click"] == ["#more"]
