"""Beginning: ``init``, ``add``, ``remove``, ``hint``, and which mirror is meant."""

import io
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from unstale import Mirror
from unstale.mirror.config.file import load


def test_a_newcomer_is_led(run, refuse, folder):
    assert refuse("status").startswith("mirror.toml: no such file; make one with 'unstale init', or name one")
    out, _ = run("init", "pages", "--budget", "50/h")
    assert (
        "Wrote pages/mirror.toml. The mirror may make 50 polls/hour, and keeps its data in mirror.db." in out
    )
    assert "  cd pages\n  unstale add https://example.org/" in out
    assert "Add a contact to pages/mirror.toml" in out
    out, _ = run("status", "--mirror", "pages")
    assert "Add something: unstale add --mirror pages/mirror.toml https://example.org/" in out
    before = (folder / "pages" / "mirror.toml").read_bytes()
    assert "is there already" in refuse("init", "pages")
    assert (folder / "pages" / "mirror.toml").read_bytes() == before


def test_init_says_what_it_does(ask, run, refuse):
    assert ask("init", "--contact", "me@example.org", "--budget", "1/s") == {
        "mirror": "mirror.toml", "store": "mirror.db", "budget": "1/s"
    }  # fmt: skip
    assert load("mirror.toml").settings.contact == "me@example.org"
    out, _ = run("init", "x", "--store", "postgresql://me:secret@db/x", "--contact", "me@example.org")
    assert "secret" not in out
    assert "contact" not in out
    assert "--budget must be an amount per time" in refuse("init", "y", "--budget", "many")
    assert "--budget must be polls per time" in refuse("init", "y", "--budget", "1MB/s")
    assert "--contact must be where you can be reached" in refuse("init", "y", "--contact", "me")
    assert "--store must be a file or begin with postgresql://" in refuse("init", "y", "--store", "mysql://x")
    assert not Path("y").exists()


def test_which_mirror(run, ask, monkeypatch, folder, site):
    run("init", "one")
    run("init", "two")
    run("add", "--mirror", "one/mirror.toml", site.host + "/a")
    assert ask("status", "--mirror", "one")["elements"]["new"] == 1
    monkeypatch.setenv("UNSTALE_MIRROR", str(folder / "two" / "mirror.toml"))
    assert not any(ask("status")["elements"].values())
    assert (folder / "one" / "mirror.db").exists()
    assert not (folder / "mirror.db").exists()


@pytest.mark.usefixtures("mirror")
def test_add(run, ask, site):
    pages = [site.host + path for path in ("/a", "/b")]
    out, err = run("add", *pages)
    assert out.startswith("Added 2 elements.")
    assert "unstale run" in out
    assert err == ""
    answer = {"added": 1, "known": 1, "changed": 0, "refused": [], "withheld": 0}
    assert ask("add", pages[0], site.host + "/c") == answer
    assert run("add", pages[0])[0] == "Nothing new: 1 element was there already.\n"


def options(key):
    """Return what the source of an element is told, which commands do not print: it may be a secret."""
    with Mirror("mirror.db") as mirror:
        return mirror.find(key).options


@pytest.mark.usefixtures("mirror")
def test_what_is_said_of_an_element_is_kept(run, ask, site):
    run(
        "add", site.host + "/a", "--weight", "2.5", "--max-age", "6h", "--min-interval", "5min", "--jitter",
        "10%", "--windows", "mon-sun 00:00-24:00 UTC", "--group", "shop", "--option", "change=text",
        "--option",
        'ignore=["x+"]',
    )  # fmt: skip
    element = ask("explain", site.host + "/a")["element"]
    assert (element["weight"], element["max_age"], element["min_interval"], element["jitter"]) == (
        2.5, 21600.0, 300.0, 0.1
    )  # fmt: skip
    assert (element["windows"], element["group"]) == ("mon-sun 00:00-24:00 UTC", "shop")
    assert options(site.host + "/a") == {"change": "text", "ignore": ["x+"]}
    out, _ = run("add", site.host + "/a", "--weight", "3", "--max-age", "2h", "--option", "change=bytes")
    told = "weight 3, max_age 2 hours, change=bytes"
    assert out == f"Changed 1 element that was there already: {told}.\n"
    out, _ = run("add", site.host + "/a", site.host + "/b", "--weight", "4")
    assert out.startswith("Added 1 element. Changed 1 element that was there already: weight 4.\n")
    out, _ = run("add", site.host + "/a", "--objective", "currency:6h", "--target", "95%")
    assert "Changed 1 element that was there already: objective currency:6h, target 95.0%" in out
    assert ask("explain", site.host + "/a")["element"]["terms"].startswith('["currency:6h", 0.95, ')
    run("add", site.host + "/a", "--weight", "3", "--min-interval", "0")
    out, _ = run("add", site.host + "/a", site.host + "/b", "--weight", "3", "--min-interval", "0")
    assert out == "Changed 1 element of 2 that were there already: weight 3, min_interval 0.\n"
    assert run("add", site.host + "/a", "--weight", "3")[0] == "Nothing new: 1 element was there already.\n"
    element = ask("explain", site.host + "/a")["element"]
    assert (element["max_age"], element["jitter"]) == (7200.0, 0.1)  # what was said before stays
    assert options(site.host + "/a") == {"change": "bytes", "ignore": ["x+"]}
    assert ask("explain", site.host + "/a")["element"]["weight"] == 3.0


@pytest.mark.usefixtures("mirror")
def test_lists(run, ask, refuse, site, monkeypatch):
    Path("private.txt").write_text(f"{site.host}/a\n")
    assert "on a private network" in refuse("add", "--from", "private.txt")
    Path("pages.txt").write_text(f"# ours\n{site.host}/a\n\n{site.host}/b\nnot a page\n")
    answer = ask("add", "--from", "pages.txt", "--allow", "private", code=1)
    assert (answer["added"], answer["known"]) == (2, 0)
    assert answer["refused"][0]["why"].startswith("pages.txt, line 5: 'not a page' is neither an address")
    out, err = run("add", "--from", "pages.txt", "--allow", "private", code=1)
    assert out == "Nothing new: 2 elements were there already.\n"
    assert err.startswith("Not added: 1 element.\n  pages.txt, line 5: ")
    Path("pages.csv").write_text(f"url,weight\n{site.host}/c,4\n{site.host}/d,5\n")
    assert ask("add", "--from", "pages.csv", "--allow", "private", "--max-age", "1h")["added"] == 2
    element = ask("explain", site.host + "/d")["element"]
    assert (element["weight"], element["max_age"]) == (5.0, 3600.0)
    Path("feeds.opml").write_text(
        f'<opml version="2.0"><body><outline xmlUrl="{site.host}/feed"/></body></opml>'
    )
    assert ask("add", "--from", "feeds.opml", "--allow", "private")["added"] == 1
    assert ask("explain", f"{site.host}/feed")["element"]["source"] == "feed"
    Path("wrong.opml").write_text('<opml version="2.0"><body><outline xmlUrl="x y"/></body></opml>')
    assert "wrong.opml, line 1: 'x y' is not the address of a feed" in refuse("add", "--from", "wrong.opml")
    Path("again.txt").write_text(f"{site.host}/feed\n{site.host}/d\n")
    assert ask("add", "--from", "again.txt", "--allow", "private")["changed"] == 0  # a feed stays one
    stdin = io.TextIOWrapper(io.BytesIO(f"{site.host}/e\n".encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert ask("add", "--from", "-", "--allow", "private", "--as", "list")["added"] == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "nothing to add: name elements, or a file with --from"),
        (["example.org"], "'example.org' is neither an address nor a file that is there; write https://example.org"),
        (["https://x.example/", "--feed", "--sitemap"], "--feed cannot be combined with --sitemap"),
        (["https://x.example/", "--as", "list"], "--as needs --from"),
        (["--from", "none.txt"], "none.txt cannot be read: No such file or directory"),
        (["--from", "https://x.example/s.xml"], "write: unstale add --sitemap https://x.example/s.xml"),
        (["https://x.example/", "--weight", "-1"], "--weight must be a number >= 0"),
        (["https://x.example/", "--max-age", "soon"], "--max-age must be a time"),
        (["https://x.example/", "--windows", "nights"], "--windows must be like"),
        (["https://x.example/", "--option", "x"], "--option must be NAME=VALUE"),
        (["https://x.example/", "--option", "selctor=x"], "did you mean 'selector'?"),
        (["https://x.example/", "--source", "pigeon"], "there is no source 'pigeon'"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("mirror")
def test_what_cannot_be_added(refuse, arguments, told):
    assert told in refuse("add", *arguments)


def test_remove(run, ask, refuse, polled):
    assert "did you mean" in refuse("remove", polled.host + "/aa")
    assert run("remove", polled.host + "/a")[0] == "Removed 1 element; its copies stay.\n"
    assert ask("status")["elements"]["removed"] == 1
    assert "this would remove 2 elements; say --yes" in refuse("remove", polled.host + "/*")
    assert "this would remove and forget for good 1 element" in refuse(
        "remove", polled.host + "/b", "--forget"
    )
    assert "no element matches" in refuse("remove", "https://nowhere.example/*", "--yes")
    assert ask("remove", polled.host + "/*", "--forget", "--yes") == {"removed": 2, "forgotten": True}
    assert "there is no element" in refuse("show", polled.host + "/b")


def test_hints(run, ask, refuse, polled):
    assert "no hint: name elements" in refuse("hint")
    assert "there is no element" in refuse("hint", polled.host + "/zzz")
    assert "--time must be a moment" in refuse("hint", polled.host + "/a", "--time", "noon")
    out, _ = run("hint", polled.host + "/a")
    assert out == f"Noted 1 hint.\n\nWhat it changes: unstale explain {polled.host}/a\n"
    assert "must not be in the future; it is 2999-01-31 12:00:00 UTC" in refuse(
        "hint", polled.host + "/a", "--time", "2999-01-31T12:00Z"
    )
    Path("changed.txt").write_text(f"{polled.host}/a\n{polled.host}/b\n")
    assert ask("hint", "--from", "changed.txt", "--time", "2026-01-31T12:00Z")["hinted"] == 2
    run("remove", polled.host + "/a", "--yes")
    assert "was removed from this mirror" in refuse("hint", polled.host + "/a")


@pytest.mark.usefixtures("mirror")
def test_what_lists_and_imports_may_name(run, ask, refuse):
    Path("local.txt").write_text("/srv/a.txt\n")
    assert "say --allow file" in refuse("add", "--from", "local.txt")
    assert "--allow must be of" in refuse("add", "--from", "local.txt", "--allow", "files")
    assert "--allow needs --from" in refuse("add", "/srv/a.txt", "--allow", "file")
    assert ask("add", "--from", "local.txt", "--allow", "file,sql")["added"] == 1
    Path("others.txt").write_text("/srv/b.txt\n")
    assert ask("add", "--from", "others.txt", "--source", "file")["added"] == 1
    Path("table.csv").write_text("key\n/srv/c.txt\n")
    assert "say --allow file" in refuse("import", "table.csv")
    run("import", "table.csv", "--allow", "file")
    assert ask("add", "/srv/c.txt", "/srv/d.txt")["added"] == 1


def on_a_terminal(folder, *arguments, typed):
    """Run a command on a terminal of its own; return what it showed."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "unstale", *arguments], cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        os.write(ours, typed.encode())
        shown = b""
        with suppress(OSError):  # the terminal is closed with the process
            while part := os.read(ours, 65536):
                shown += part
        process.wait(60)
    os.close(ours)
    return shown.decode().replace("\r\n", "\n")


def test_init_asks_on_a_terminal_and_enter_is_enough(tmp_path):
    shown = on_a_terminal(tmp_path, "init", typed="\n\n")
    assert "How many polls (checks of a page) may the mirror make? [1000/day]:" in shown
    assert "Where can owners of sites reach you" in shown
    assert "Wrote mirror.toml. The mirror may make 1,000 polls/day" in shown
    assert load(tmp_path / "mirror.toml").settings.budget == pytest.approx(1000 / 86400)


def test_what_is_typed_is_used_and_mistakes_are_asked_again(tmp_path):
    shown = on_a_terminal(tmp_path, "init", typed="many\n50/h\nme\nme@example.org\n")
    assert "the budget must be an amount per time" in " ".join(shown.split())
    assert "Wrote mirror.toml. The mirror may make 50 polls/hour" in shown
    settings = load(tmp_path / "mirror.toml").settings
    assert settings.budget == pytest.approx(50 / 3600)
    assert settings.contact == "me@example.org"


@pytest.mark.parametrize("options", [["--budget", "5/h"], ["--json"]])
def test_init_does_not_ask_who_has_said_it(tmp_path, options):
    assert "How many" not in on_a_terminal(tmp_path, "init", *options, typed="")
    assert (tmp_path / "mirror.toml").exists()


@pytest.mark.usefixtures("mirror")
def test_a_mirror_of_another_user_must_be_named(ask, refuse, monkeypatch, site):
    """Who can write to the current folder must not choose which commands are started and what is sent."""
    monkeypatch.setattr(os, "getuid", lambda: Path("mirror.toml").stat().st_uid + 1)
    others = Path("mirror.toml").stat().st_uid != 0  # what root wrote is trusted
    if not others:
        os.chown("mirror.toml", 12345, -1)
        monkeypatch.setattr(os, "getuid", lambda: 12346)
    assert "belongs to another user" in refuse("add", site.host + "/a")
    assert "belongs to another user" in refuse("watch", site.host + "/a")
    assert ask("add", site.host + "/a", "--mirror", "mirror.toml")["added"] == 1
    monkeypatch.setenv("UNSTALE_MIRROR", "mirror.toml")
    assert ask("add", site.host + "/b")["added"] == 1


@pytest.mark.usefixtures("mirror")
def test_what_looks_like_a_list_is_told_to_be_added_alone(run, tmp_path):
    out = " ".join(run("add", "https://example.org/feed.xml")[0].split())
    assert "https://example.org/feed.xml looks like a feed. With --feed, the mirror also adds" in " ".join(
        out.split()
    )
    assert "looks like" not in run("add", "--feed", "https://example.org/rss")[0]
    assert "looks like" not in run("add", "https://example.org/data.xml")[0]
    (tmp_path / "folder").mkdir()
    assert "With --option tree=true, the mirror also adds what is in it" in " ".join(
        run("add", tmp_path / "folder")[0].split()
    )
