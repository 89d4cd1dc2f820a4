"""What can be added from here, and by whom."""

from dataclasses import replace
from pathlib import Path

import pytest

from unstale import Mirror
from unstale.dashboard.api import edits
from unstale.mirror.settings import Http, Rule, Settings

SECRET = {"Authorization": "Bearer x"}


@pytest.fixture
def made(tmp_path):
    """Return what makes a mirror with some settings."""
    opened = []

    def make(**said):
        opened.append(Mirror(tmp_path / "mirror.db", settings=replace(Settings(budget=1.0), **said)))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


def added(mirror, key, **given):
    """Return whether a key was added, and why not."""
    done = edits.add(mirror, [(key, {})], **given)
    return done.added, "".join(why for _, why in done.refused)


@pytest.mark.parametrize(
    "key",
    [
        "https://a.example/x",
        " HTTPS://a.example/x ",
        "feed:http://a.example/x",
        "Sitemap:https://a.example/x",
    ],
)
def test_pages_feeds_and_sitemaps_are_on_the_web(made, key):
    assert added(made(), key) == (1, "")


@pytest.mark.parametrize(
    "key",
    [
        "secret.txt", "a:b", "./secret.txt", "/etc/passwd", "sqlite:///x.db", "x#y", "file:///etc/passwd",
        "feed:/etc/passwd", "feed:secret.txt", "feed:feed:http://a.example/", "sql:http://a.example/", "",
        "http:a.example", "python:http://a.example/", "s3://bucket/x", "\0",
    ],
)  # fmt: skip
def test_other_keys_reach_no_file_system(made, monkeypatch, key):
    mirror = made()

    def looks(path, *_, **__):
        raise AssertionError(f"looked for {path}")

    monkeypatch.setattr(Path, "exists", looks)
    for trusted in (False, True):
        count, why = added(mirror, key, trusted=trusted)
        assert (count, "only pages, feeds and sitemaps" in why) == (0, True)
    with mirror.store.begin() as t:
        assert edits.find(t, mirror, [key]) == [None]


@pytest.mark.parametrize(
    "key",
    [
        "http://localhost:8000/", "http://127.0.0.1/", "http://[::1]/", "http://10.1.2.3/", "https://nas/",
        "http://169.254.169.254/latest/", "feed:http://wiki.internal/x", "sitemap:http://LOCALHOST/",
    ],
)  # fmt: skip
def test_private_ones_need_a_token_or_leave(made, key):
    mirror = made()
    count, why = added(mirror, key)
    assert (count, "it is private, and there is no token" in why) == (0, True)
    assert added(mirror, key, trusted=True) == (1, "")
    assert edits.add(mirror, [(key, {"weight": 2.0})]).changed == 1  # it is there already


def test_private_ones_can_be_allowed(made):
    assert added(made(http=Http(private=True)), "http://localhost/") == (1, "")


@pytest.mark.parametrize(
    ("said", "refused"),
    [
        ({"http": Http(headers=SECRET)}, True),
        ({"http": Http(headers={"X-Api-Key": "x"}, private=True)}, True),
        ({"rules": (Rule("https://a.example/*", options={"headers": SECRET}),)}, True),
        ({"rules": (Rule("https://b.example/*", options={"headers": SECRET}),)}, False),
        ({"http": Http(headers={"Accept-Language": "de"})}, False),
    ],
)
def test_secrets_are_not_sent_for_those_who_have_shown_none(made, said, refused):
    mirror = made(**said)
    count, why = added(mirror, "https://a.example/x")
    assert (count, "headers that may be secret" in why) == (not refused, refused)
    assert added(mirror, "https://a.example/y", trusted=True) == (1, "")


@pytest.mark.parametrize("token", [None, "a-token-that-nobody-guesses"])
def test_it_is_the_token_that_counts(ask, token):
    client = ask(token=token)
    wish = {"elements": [{"key": "http://localhost:9/"}]}
    done = client.post("/api/elements", json=wish, headers={"authorization": f"Bearer {token}"}).json()
    assert (done["added"], len(done["refused"])) == ((0, 1) if token is None else (1, 0))
