"""Feeds of changes: well-formed, whatever keys and titles hold."""

import json
from dataclasses import replace
from math import inf, nan

import feedparser
import pytest
from lxml import etree

from dashboard.conftest import HOSTILE
from unstale.dashboard.api import feeds
from unstale.dashboard.api.feeds import _address
from unstale.mirror.source import Found

PATHS = ["/changes.atom", "/changes.rss", "/changes.json"]
TITLES = [HOSTILE, "\x00\x01\x1f\ufffe\uffff]]>", "&amp;<b>&", "\U0001f600 ü", " ", "<![CDATA[x]]>", "a\nb"]


def texts(content):
    """Return all there is to read in XML."""
    root = etree.fromstring(content, etree.XMLParser(resolve_entities=False))
    return ["".join(node.itertext()) for node in root.iter()], root


@pytest.fixture
def client(ask, mirror, web):
    web.pages["news"] = "one\n2 < 3 & 4\nthree\n"
    mirror.step()
    return ask()


def test_readers_understand_atom_and_rss(client):
    for path in PATHS[:2]:
        answer = client.get(path)
        feed = feedparser.parse(answer.content)
        assert not feed.bozo, path
        assert [entry.title for entry in feed.entries] == [
            "python:news",
            "New: python:about",
            "New: python:news",
        ] or {entry.title for entry in feed.entries} == {
            "python:news",
            "New: python:about",
            "New: python:news",
        }
        assert len({entry.id for entry in feed.entries}) == 3
        first = feed.entries[0]
        assert "2 < 3 & 4" in (
            first.content[0].value
            if path == PATHS[0]
            else first.summary.replace("&lt;", "<").replace("&amp;", "&")
        )
        assert first.link.startswith("http://127.0.0.1:8321/elements/")


def test_json_feed(client):
    answer = client.get("/changes.json")
    assert answer.headers["content-type"] == "application/feed+json"
    feed = answer.json()
    assert feed["version"] == "https://jsonfeed.org/version/1.1"
    assert feed["feed_url"] == "http://127.0.0.1:8321/changes.json"
    assert "+2 < 3 & 4" in feed["items"][0]["content_text"]
    assert feed["items"][0]["date_published"].endswith("Z")
    copy = feed["items"][0]["external_url"].removeprefix("http://127.0.0.1:8321")
    assert client.get(copy).text == "one\n2 < 3 & 4\nthree\n"


def test_titles_and_keys_break_nothing(ask, mirror):
    for number, title in enumerate(TITLES):
        found = Found("changed", body=b"x", meta={"title": title}, media_type=HOSTILE)
        mirror.add(f'python:<key {number}> ]]> & "ü" \'', poll=lambda found=found: found)
    mirror.add("python:no title", poll=lambda: Found("changed", body=b"x", meta={"title": 5}))
    mirror.step()
    client = ask()
    for path in PATHS[:2]:
        shown, root = texts(client.get(path).content)
        assert not root.findall(".//script")
        assert any("<script>alert(1)</script>" in text for text in shown)
    assert len(client.get("/changes.json").json()["items"]) == 10
    json.dumps(client.get("/changes.json").json(), allow_nan=False)


@pytest.mark.parametrize("moment", [1e300, inf, -inf, nan, -1e11, 3e11])
def test_odd_moments_break_nothing(client, monkeypatch, moment):
    looked = feeds._latest

    def odd(mirror):
        return [(replace(version, time=moment), told) for version, told in looked(mirror)]

    monkeypatch.setattr(feeds, "_latest", odd)
    for path in PATHS:
        assert "1970" in client.get(path).text


def test_addresses_of_pages_are_linked_and_no_others():
    assert _address("https://example.org/a b?c=ü") == "https://example.org/a%20b?c=%C3%BC"
    for key in ("javascript:alert(1)", "python:x", "http://[broken", "https:nothing", "/etc/passwd", ""):
        assert _address(key) is None


def test_an_empty_mirror_has_empty_feeds(ask, mirror):
    mirror.remove(["python:news", "python:about"], forget=True)
    client = ask()
    assert client.get("/changes.json").json()["items"] == []
    for path in PATHS[:2]:
        assert feedparser.parse(client.get(path).content).entries == []


def test_large_versions_are_told_by_their_size(ask, mirror, web):
    for letter in ("a", "b"):
        web.pages["news"] = letter * 1_500_000
        mirror.step()
    item = ask().get("/changes.json").json()["items"][0]
    assert item["content_text"] == "1,500,000 bytes, text/plain; charset=utf-8"
