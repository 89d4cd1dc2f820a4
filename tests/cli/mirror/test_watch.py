"""``unstale watch``: one command makes a mirror, fills it, polls and serves it; the next call goes on."""

import json
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import urllib.request
from contextlib import closing
from pathlib import Path

import pytest
from dashboard.conftest import client_of

from unstale.cli.mirror import watch as module
from unstale.cli.mirror.watch import _all_named, _named, _often, _taken_for
from unstale.mirror.mirror import Mirror

pytest.importorskip("fastapi", reason="the dashboard is not installed")


@pytest.fixture
def pages(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pages").mkdir()
    for name in ("a.txt", "b.txt"):
        (tmp_path / "pages" / name).write_text(name)
    return tmp_path


def watch(folder, *arguments):
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "unstale", "watch", "--json", "--port", "0", *arguments],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_it_polls_and_serves_at_once_ctrl_c_ends_it_and_the_next_call_goes_on(pages):
    with watch(pages, "pages/a.txt") as process:
        told = json.loads(process.stdout.readline())
        assert told["mirror"] == str(Path("unstale-mirror", "mirror.toml"))
        assert told["words"].startswith(
            "Watching 1 address, with about 42 polls an hour; after some polls you see"
        )
        for line in process.stdout:
            if json.loads(line)["event"] == "change":
                break
        with urllib.request.urlopen(told["address"], timeout=60) as answer:  # noqa: S310
            assert b"<h1>Overview</h1>" in answer.read()
        process.send_signal(signal.SIGINT)
        end = json.loads(process.communicate(timeout=120)[0].splitlines()[-1])
    assert process.returncode == 0
    assert (end["event"], end["new"]) == ("end", 1)
    with watch(pages, "pages/b.txt", "--for", "1s") as process:
        out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    assert json.loads(out.splitlines()[0])["words"].startswith("Watching 2 addresses, with about 42 polls")
    done = subprocess.run(
        [sys.executable, "-m", "unstale", "status"], cwd=pages, capture_output=True, text=True, check=True
    )
    assert "unstale-mirror/mirror.toml: 2 elements" in done.stdout  # other commands find it from here
    with Mirror(pages / "unstale-mirror" / "mirror.db") as mirror:
        assert len(list(mirror.elements())) == 2
        assert next(version.key for version in mirror.changes()).endswith("a.txt")


def test_a_mirror_that_is_here_is_the_one(pages, run):
    run("init")
    out, err = run("watch", "pages/a.txt", "--for", "1s", "--no-open", "--port", "0")
    assert "The mirror is in this folder." in err
    assert re.search(r"^The page: http://127\.0\.0\.1:\d+/$", err, re.MULTILINE)
    assert err.endswith("To go on: unstale watch\n")
    assert "Ran for" in out
    assert not (pages / "unstale-mirror").exists()
    assert "--budget is for a new mirror" in run("watch", "--budget", "5/h", code=2)[1]


def test_what_is_missing_is_told(pages, run):
    assert "there is nothing to watch here yet; give an address" in run("watch", code=2)[1]
    assert not (pages / "unstale-mirror").exists()
    assert "--feed cannot be combined" in run("watch", "x", "--feed", "--sitemap", code=2)[1]
    run("init")
    assert "there is nothing to watch yet; give" in run("watch", "--port", "0", code=2)[1]


@pytest.mark.parametrize(
    ("key", "found", "source"),
    [
        ("https://example.org/news", "https://example.org/news", None),
        ("example.org/news", "https://example.org/news", None),
        ("https://example.org/feed.xml", "https://example.org/feed.xml", "feed"),
        ("https://example.org/blog/feed/", "https://example.org/blog/feed/", "feed"),
        ("https://example.org/sitemap_index.xml?x=1", "https://example.org/sitemap_index.xml?x=1", "sitemap"),
        ("https://example.org/data.xml", "https://example.org/data.xml", None),
        ("warehouse#orders", "warehouse#orders", None),
        ("../not-yet.txt", "../not-yet.txt", None),
    ],
)
def test_addresses_are_what_they_look_like(key, found, source):
    new = _named(key, None)
    assert (new.key, new.source, new.options) == (found, source, {})


@pytest.mark.usefixtures("pages")
def test_addresses_without_their_beginning_and_tables_are_told():
    with closing(sqlite3.connect("shop.db")) as shop:
        shop.execute("CREATE TABLE orders (id INTEGER)")
    keys = ("pages", "shop.db#orders", "shop.db", "news.txt", "localhost:8000/a", "https://a.example/")
    news = _all_named(keys, feed=False, sitemap=False)
    assert [new.key for new in news][3:5] == ["https://news.txt", "http://localhost:8000/a"]
    assert news[1].key == "shop.db#orders"  # which the registry of sources knows
    assert list(_taken_for(keys, news)) == [
        "shop.db is a database; unstale watches it as a file. To watch one of its tables, name shop.db#TABLE",
        "There is no file or folder news.txt here, so unstale takes it for https://news.txt",
        "There is no file or folder localhost:8000/a here, so unstale takes it for http://localhost:8000/a",
    ]


def test_a_folder_is_watched_with_all_that_is_in_it(pages):
    new = _named("pages", None)
    assert (new.key, new.options) == (str(pages / "pages"), {"tree": True})
    assert _named("pages/a.txt", None).options == {}


@pytest.mark.usefixtures("pages")
def test_a_browser_is_opened_only_where_somebody_sees_it(run, monkeypatch):
    opened = []
    monkeypatch.setattr(module.webbrowser, "open", opened.append)
    run("watch", "pages/a.txt", "--for", "1s", "--port", "0")
    assert opened == []  # its output is no terminal here
    monkeypatch.setattr(module, "_has_browser", lambda: True)
    run("watch", "--for", "1s", "--port", "0")
    assert len(opened) == 1
    run("watch", "--for", "1s", "--port", "0", "--no-open")
    assert len(opened) == 1


@pytest.mark.usefixtures("pages")
def test_who_watched_is_told_to_watch_again(run):
    run("init", "unstale-mirror", "--budget", "100/day")
    run("add", "pages/a.txt")
    out, _ = run("doctor")
    assert "unstale watch" in out
    assert "unstale run" not in out
    with (
        Mirror("unstale-mirror/mirror.db") as mirror,
        client_of(mirror.store.url, mirror.settings) as client,
    ):
        assert "Start it with: <code>unstale watch</code>" in client.get("/").text


def test_words_for_budgets():
    assert _often(1 / 3600) == "24 polls a day"
    assert _often(1.0) == "1 poll a second"


def test_another_watch_leaves_the_polls_to_the_first(pages, run):
    with watch(pages, "pages/a.txt") as process:
        for line in process.stdout:
            if json.loads(line)["event"] == "change":
                break
        told = run("watch", "pages/b.txt")[1]
        assert "Another process polls this mirror already" in told
        assert "It now polls what you named, too. It watches 2 addresses" in " ".join(told.split())
        for line in process.stdout:  # the first does
            if (event := json.loads(line))["event"] == "change" and event["key"].endswith("b.txt"):
                break
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
    assert process.returncode == 0
    assert "Start with: unstale watch" in run("status")[0]


def test_ctrl_c_does_not_wait_for_a_page_that_never_answers(pages):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = "http://{}:{}/".format(*silent.getsockname())
        with watch(pages, address) as process:
            connection, _ = silent.accept()
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=120)
        connection.close()
    assert process.returncode == 0
    (poll,) = (one for one in map(json.loads, out.splitlines()) if one["event"] == "poll")
    assert re.search(r"no answer in \d+ seconds, when the mirror was stopped", poll["detail"])
