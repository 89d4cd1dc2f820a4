"""Rules that are made on the dashboard: in the store, behind those of mirror.toml, and back again."""

import re

import pytest

from unstale import Mirror
from unstale.mirror.settings import GroupLimit, Rule, Settings

from ..conftest import client_of  # noqa: TID252

NEWS, SHOP = "http://127.0.0.1:9/news/1", "http://127.0.0.1:9/shop/1"
RULES = (Rule("*", max_age=86400.0, options={"headers": {"Authorization": "Bearer s3cret"}}),)
SETTINGS = Settings(budget=100.0, groups=(GroupLimit("*"),), rules=RULES)
FIELDS = (
    "match", "weight", "max_age", "min_interval", "group", "keep", "keep_for", "tags", "selector", "change",
    "threshold", "ignore",
)  # fmt: skip


@pytest.fixture
def ruled(tmp_path):
    with Mirror(tmp_path / "mirror.db", settings=SETTINGS) as mirror:
        for key in (NEWS, SHOP):
            mirror.add(key)
        mirror.apply_rules()
        with client_of(mirror.store.url, SETTINGS) as client:
            yield mirror, client


def post(client, path="/rules", **said):
    token = re.search('name="csrf" value="([^"]+)"', client.get("/rules").text)[1]
    return client.post(path, data={"csrf": token, **dict.fromkeys(FIELDS, ""), **said})


def test_a_rule_is_made_changed_removed_and_undone_and_holds_for_what_comes_later(ruled):
    mirror, client = ruled
    page = client.get("/rules").text
    assert ("max_age 1 day" in page, "s3cret" in page) == (True, False)  # of mirror.toml, without secrets
    said = {
        "match": "*/news/*",
        "weight": "3",
        "keep": "2",
        "tags": "news",
        "selector": "main",
        "ignore": "a+",
    }
    answer = post(client, **said)
    assert answer.headers["location"] == "/rules?changed=1"
    assert "1 element is another way now" in client.get("/rules?changed=1").text
    one, other = mirror.find(NEWS), mirror.find(SHOP)
    assert (one.weight, one.keep, one.tags, one.max_age) == (3.0, 2, ("news",), 86400.0)
    assert (one.options["selector"], one.options["ignore"]) == ("main", ["a+"])
    assert (other.weight, other.tags) == (1.0, ())
    # what is added later, by another process, and what is said of an element itself
    with Mirror(mirror.store.url.removeprefix("sqlite:///"), settings=SETTINGS) as again:
        assert again.apply_rules() == 0
        assert again.add("http://127.0.0.1:9/news/2", keep=7).keep == 7
        assert again.find("http://127.0.0.1:9/news/2").weight == 3.0
    # it is changed: its fields stand in the form
    form = client.get("/rules?edit=1").text
    assert 'value="*/news/*"' in form
    assert 'value="main"' in form
    assert post(client, **said | {"match": "*/shop/*", "edit": "1", "was": "*/news/*"}).status_code == 303
    assert (mirror.find(NEWS).weight, mirror.find(SHOP).weight) == (1.0, 3.0)
    assert post(client, "/rules/1/remove", was="*/shop/*").status_code == 303
    assert mirror.find(SHOP).weight == 1.0
    # back again, one after the other
    for number, weights in ((3, (1.0, 3.0)), (2, (3.0, 1.0)), (1, (1.0, 1.0))):
        assert f'name="number" value="{number}"' in client.get("/rules").text
        assert post(client, "/undo", number=str(number)).status_code == 303
        assert (mirror.find(NEWS).weight, mirror.find(SHOP).weight) == weights
    assert "There are none yet." in client.get("/rules").text


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"weight": "2"}, "for which elements?"),
        ({"match": "*"}, "the rule says nothing"),
        ({"match": "*", "selector": "main["}, "selector must be a CSS selector"),
        ({"match": "*", "weight": "-1"}, "weight must be a number from 0"),
        ({"match": "*", "keep": "-1"}, "keep must be a number of versions"),
        ({"match": "*", "weight": "2", "edit": "1", "was": "*"}, "somebody has edited the rules"),
    ],
)
def test_a_rule_that_makes_no_sense_is_told_and_changes_nothing(ruled, said, told):
    mirror, client = ruled
    before = mirror.find(NEWS)
    answer = post(client, **said)
    assert answer.status_code == 422
    assert told in answer.text
    assert mirror.find(NEWS) == before
    assert client.get("/rules?edit=1").status_code == 404


def test_a_rule_holds_for_what_a_feed_names_later(ruled):
    mirror, client = ruled
    assert post(client, match="*/found", tags="found").status_code == 303
    # the worker of another process, which was there before, hears of it when something is discovered
    from unstale.mirror.engine.discovery import Discovery
    from unstale.mirror.source import New

    discovery = Discovery(SETTINGS, mirror.sources)
    with mirror.store.begin() as t:
        discovery._discovered(t, 1, [New("http://127.0.0.1:9/found")], 1.0, (), complete=False)
    assert mirror.find("http://127.0.0.1:9/found").tags == ("found",)
