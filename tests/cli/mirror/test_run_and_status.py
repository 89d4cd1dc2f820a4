"""Working: ``run``, ``status``, ``explain``, ``changes``, ``show``, ``audit``."""

import json
import math
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from unstale.cli.mirror import changes
from unstale.cli.mirror.audit import _duration as audit_duration
from unstale.cli.mirror.run_display import LogLines, Seen
from unstale.mirror.config.file import load
from unstale.mirror.engine.events import Event
from unstale.mirror.mirror import Mirror
from unstale.mirror.reports.audit import Audit
from unstale.mirror.reports.first_copies import InReserve
from unstale.wording import show_budget

from .conftest import QUICK


@pytest.mark.usefixtures("mirror")
def test_once(run, ask, site):
    run("add", *(site.host + path for path in site.pages))
    lines = []
    for _ in range(10):  # on a busy machine it may take more than one
        out, err = run("run", "--once")
        lines += out.splitlines()
        assert re.fullmatch(
            r"Ran for .*: .* polls?: .* new; 0 changes, .* new elements?; .* moved", lines[-1]
        )
        assert err == ""
        if ask("status")["elements"]["ok"] == 3:
            break
    assert sum("UTC  new " in line for line in lines) == 3
    status = ask("status")
    assert status["elements"]["ok"] == 3
    assert status["polls"] == {"new": 3}
    assert 0 <= status["freshness"]["low"] <= status["freshness"]["value"] <= status["freshness"]["high"] <= 1


def test_changes_are_seen_and_told(run, ask, run_until_seen, polled):
    polled.put("/b", "<p>b: two</p>\n")
    run("hint", polled.host + "/b")
    out = run_until_seen(4)
    assert re.search(rf"UTC  changed    {polled.host}/b \(14 B\)\n", out)
    lines = [json.loads(line) for line in run("changes")[0].splitlines()]
    assert [line["first"] for line in lines] == [True, True, True, False]
    assert lines[-1]["key"] == polled.host + "/b"
    assert [json.loads(line) for line in run("changes", "--after", lines[2]["id"])[0].splitlines()] == lines[
        3:
    ]
    assert len(run("changes", "--limit", 2)[0].splitlines()) == 2
    assert json.loads(run("changes", "--key", "*/b", "--limit", 1)[0]) == lines[-1]
    assert run("changes", "--key", "nothing")[0] == ""
    assert run("show", polled.host + "/b")[0] == "<p>b: two</p>\n"
    first = next(line["id"] for line in lines if line["key"] == polled.host + "/b")
    assert run("show", polled.host + "/b", "--version", first)[0] == "<p>b: one</p>\n"
    difference = run("show", polled.host + "/b", "--diff")[0]
    assert "one" in difference
    assert "two" in difference
    assert ask("show", polled.host + "/b")["text"] == "<p>b: two</p>\n"
    assert ask("show", polled.host + "/b", "--diff")["old"]["id"] == first


@pytest.mark.usefixtures("mirror")
def test_what_cannot_be_shown(refuse, polled):
    assert "did you mean" in refuse("show", polled.host + "/aa")
    assert "did you mean" in refuse("explain", polled.host + "/aa")
    assert "has no version 99" in refuse("show", polled.host + "/a", "--version", 99)
    assert "this is the first copy, so there is nothing to compare it with" in refuse(
        "show", polled.host + "/a", "--diff"
    )


def test_the_difference_is_of_what_the_selector_selects(run, mirror, site, run_until_seen):
    mirror.write_text(f'{mirror.read_text()}\n[[rule]]\nmatch = "*"\nselector = "#news"\n')
    key = site.put("/page", "<p>Visitors: 17</p><div id=news>one</div>")
    run("add", key)
    run_until_seen(1)
    site.put("/page", "<p>Visitors: 99</p><div id=news>two</div>")
    run_until_seen(2)
    difference = run("show", key, "--diff")[0]
    assert "-one\n+two" in difference
    assert "Visitors" not in difference


def test_explain_says_why(run, ask, polled):
    out, _ = run("explain", polled.host + "/a")
    assert out.startswith(f"{polled.host}/a\n\nsource     http, in the group http:127.0.0.1:")
    for name in ("changes", "copy", "weight", "worth", "next poll"):
        assert re.search(rf"^{name} +\S", out, re.MULTILINE)
    assert "unstale show" in out
    answer = ask("explain", polled.host + "/a")
    assert answer["low"] <= answer["rate"] <= answer["high"]
    assert answer["polls"][0]["outcome"] == "new"


@pytest.mark.usefixtures("mirror")
def test_explain_a_page_that_was_never_there(run, site):
    run("add", site.host + "/nowhere")
    run("run", "--once")
    out, _ = run("explain", site.host + "/nowhere")
    assert re.search(r"^state +it is not there, and never was since it was added: 404", out, re.MULTILINE)
    assert re.search(r"^copy +none yet$", out, re.MULTILINE)
    assert "the last copy" not in out
    assert "fresh with probability" not in out
    assert not re.search(r"^worth", out, re.MULTILINE)


@pytest.mark.usefixtures("mirror")
def test_what_fails_is_told_once_and_when_it_is_back(run, site):
    run("add", site.host + "/d", "http://127.0.0.1:9/never")
    out = run("run", "--for", "1s")[0]
    assert len(re.findall(rf"UTC  gone       {site.host}/d: 404", out)) == 1
    assert len(re.findall(r"UTC  failed     http://127.0.0.1:9/never: \S", out)) == 1
    out = run("status")[0]
    assert f"Never there:\n  {site.host}/d\n    404" in out


def test_failures_do_not_flood_the_log(capsys):
    lines = LogLines(Seen(lambda: None))
    for i in range(100):
        lines(Event(0.0, "poll", f"page {i}", "no answer", {"outcome": "failed"}))
    assert capsys.readouterr().out.count("failed     page") == 20
    for outcome in ("failed", "unchanged", "unchanged"):
        lines(Event(0.0, "poll", "page 3", "", {"outcome": outcome}))
    assert capsys.readouterr().out == "1970-01-01 00:00:00 UTC  back       page 3\n"


def test_why_there_is_no_poll_is_told(run, mirror, site):
    mirror.write_text('[mirror]\nbudget = "1000/day"\nreserve = "0"\n')
    run("add", *(site.host + path for path in site.pages))
    run("run", "--once")
    out, _ = run("run", "--once")
    assert re.search(r"next poll  in \S+ (seconds|minutes?); the budget is 1,000 polls/day\n", out)
    assert out.count("planner") == 1


def test_first_copies_and_the_reserve_are_told(run, mirror, site, ask):
    mirror.write_text('[mirror]\nbudget = "1000/day"\n')
    run("add", *(site.host + path for path in site.pages))
    out, _ = run("status")
    assert re.search(r"^first copies +0 of 3$", out, re.MULTILINE)
    assert re.search(r"^in reserve +1,000 polls \(100 % of it\): for first copies, then", out, re.MULTILINE)
    told = ask("status")
    assert told["first_copies"]["total"] == 3
    assert told["reserve"]["span"] == 86400.0
    out, _ = run("run", "--for", "6s")
    assert "first copies: " in out
    assert "first copies" not in run("status")[0]
    assert 990 <= ask("status")["reserve"]["polls"] <= 998


def test_a_page_that_moved_is_told(run, monkeypatch, polled):
    find, elements = Mirror.find, Mirror.elements
    there = f"{polled.host}/there"
    monkeypatch.setattr(Mirror, "find", lambda self, key: replace(find(self, key), moved=there))
    monkeypatch.setattr(
        Mirror, "elements", lambda *given: (replace(one, moved=there) for one in elements(*given))
    )
    assert re.search(rf"^moved +for good, to {there}$", run("explain", polled.host + "/a")[0], re.MULTILINE)
    assert f"Moved for good:\n  {polled.host}/a\n    now at {there}\n" in run("status")[0]


def test_explain_tells_of_doubt(run, monkeypatch, polled):
    explain = Mirror.explain
    monkeypatch.setattr(Mirror, "explain", lambda self, key: replace(explain(self, key), hopeless=0.8))
    out = " ".join(run("explain", polled.host + "/a")[0].split())
    assert "doubt with probability 80.0%, it differs at every poll, so that polls do not help" in out


def test_explain_what_was_removed(run, ask, polled):
    run("remove", polled.host + "/a")
    out, _ = run("explain", polled.host + "/a")
    assert re.search(r"^state +removed: the mirror polls it no more$", out, re.MULTILINE)
    assert re.search(r"^copy +polled .* ago$|^copy +polled now$", out, re.MULTILINE)
    assert re.search(r"^next poll +none$", out, re.MULTILINE)
    assert "nan" not in out
    assert ask("explain", polled.host + "/a")["rate"] is None


def test_moments_in_json_are_of_one_kind(ask, polled):
    moment = r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"
    told = ask("explain", polled.host + "/a")
    status, audit = ask("status"), ask("audit", "--sample", 1)
    for value in (
        told["element"]["added"], told["element"]["last"], told["polls"][0]["time"],
        told["versions"][0]["time"], told["next_poll"], status["now"], audit["time"],
        ask("hint", polled.host + "/a")["time"],
    ):  # fmt: skip
        assert re.fullmatch(moment, value)
    assert told["versions"][0]["meta"]["headers"]["content-type"] == "text/html"  # no secret


@pytest.mark.usefixtures("polled")
def test_what_was_used_is_compared_with_the_time_it_ran(run):
    told = r"^budget +200 polls/second; 3 polls, \S+ k?B in the last minute$"
    assert re.search(told, run("status")[0], re.MULTILINE)
    then = time.time() - 3 * 60
    with sqlite3.connect("mirror.db") as connection:
        connection.execute("update elements set added = ?", (then,))
    connection.close()
    assert "in the last 3 minutes\n" in run("status")[0]


def test_a_group_that_cannot_have_its_share_is_told(run, ask, mirror):
    mirror.write_text('[mirror]\nbudget = "100/s"\n')
    Path("pages.txt").write_text("".join(f"https://x.example/{i}\n" for i in range(1000)))
    run("add", "--from", "pages.txt", "--allow", "private")
    words = "http:x.example has 1,000 elements and at most"
    out = " ".join(run("status")[0].split())
    assert words in out
    assert "(spacing 1 second): that limits their freshness; see [[group]] in mirror.toml." in out
    found = next(one for one in ask("doctor", "--sample", 0)["checks"] if one["subject"] == "group")
    assert (found["level"], found["found"].startswith(words)) == ("warn", True)
    assert "lower its spacing" in found["todo"]
    mirror.write_text('[mirror]\nbudget = "1000/day"\n')
    assert words not in " ".join(run("status")[0].split())


def test_secrets_are_not_told(run, mirror, site, monkeypatch):
    monkeypatch.setenv("TOKEN", "s3cret")
    rule = '\n[[rule]]\nmatch = "*"\nheaders = { Authorization = "Bearer ${TOKEN}" }\n'
    mirror.write_text(mirror.read_text() + rule)
    run("add", site.host + "/a")
    told = run("explain", site.host + "/a", "--json")[0] + run("explain", site.host + "/a")[0]
    assert "s3cret" not in told + run("doctor", "--json")[0] + run("status", "--json")[0]


@pytest.mark.usefixtures("mirror")
def test_status_tells_of_trouble(run, ask, site):
    run("add", site.host + "/a", "http://127.0.0.1:9/never")
    run("run", "--once")
    out, _ = run("status")
    assert "(1 failing)" in out
    assert "Neglected:\n  http://127.0.0.1:9/never\n" in out
    assert {one["name"] for one in ask("status")["groups"]} == {
        "http:127.0.0.1:9", site.host.removeprefix("http://").join(["http:", ""])
    }  # fmt: skip
    assert "Neglected" not in run("status", "--top", 0)[0]


@pytest.mark.usefixtures("mirror")
def test_events_as_json(run, site):
    run("add", site.host + "/a")
    lines = [json.loads(line) for line in run("run", "--once", "--json")[0].splitlines()]
    kinds = [line["event"] for line in lines]
    assert {"poll", "change"} <= set(kinds)
    assert kinds[-1] == "end"
    assert lines[-1]["new"] == 1
    change = lines[kinds.index("change")]
    assert (change["key"], change["data"]["first"], change["data"]["size"]) == (site.host + "/a", True, 14)


@pytest.mark.usefixtures("mirror")
def test_quiet_is_quiet(run, site):
    run("add", site.host + "/a")
    assert run("run", "--once", "--quiet") == ("", "")


@pytest.mark.usefixtures("mirror")
def test_mistakes_of_run(refuse, run):
    assert "--for cannot be combined with --once" in refuse("run", "--for", "1s", "--once")
    assert "--until must be in the future" in refuse("run", "--until", "2020-01-01")
    assert "There is nothing to poll yet: unstale add KEY" in run("run", "--for", "0.2s")[1]


@pytest.mark.usefixtures("mirror")
def test_audit(run, ask, refuse, site):
    assert "nothing to audit" in refuse("audit")
    run("add", *(site.host + path for path in site.pages))
    run("run", "--once")
    answer = ask("audit", "--sample", 2)
    assert answer["sample"] == 2
    assert answer["true"] == 1.0
    out, _ = run("audit")
    assert out.startswith("Polled 3 elements at random.\n")
    assert re.search(r"fresh, as found +100.0% \(\d", out)
    assert "last audit" in run("status")[0]


def test_an_audit_says_how_long_it_takes(run, mirror, monkeypatch, polled):
    mirror.write_text('[mirror]\nbudget = "10/day"\nreserve = "0"\n')
    monkeypatch.setattr(Mirror, "audit", lambda *_, **__: Audit(0.0, 3, 0.5, 0.5, 0.4, 0.6, True, 0))
    told = run("audit")[1]
    between = "with as many for others in between, will take up to"
    assert told == f"3 polls at 10 polls/day, {between} 14.4 hours; --sample N makes fewer.\n"
    mirror.write_text(mirror.read_text().replace("10/day", "10/s") + "[[group]]\nspacing = '1min'\n")
    host = polled.host.removeprefix("http://")
    told = run("audit", "--sample", "2")[1]
    assert re.match(rf"2 polls at the spacing of http:{host}, {between} 4(\.\d+)? minutes;", told)


def test_an_audit_waits_for_groups_that_have_asked_to_be_left_alone():
    def group(name, elements, blocked):
        return SimpleNamespace(
            name=name, elements=elements, polls=10, traffic=10, blocked_until=blocked, fastest=1.0
        )

    status = SimpleNamespace(
        now=1000.0, budget=10.0, byte_budget=None, reserve=None, elements={"ok": 100, "gone": 3},
        groups=[group("a", 90, math.nan), group("b", 13, 1000.0 + 3600.0)],
    )  # fmt: skip
    told = audit_duration(status, 20)
    assert told.startswith("20 polls at the spacing of b, which is not polled for 1 hour, with as many")
    assert "up to 1 hour" in told
    status.groups.pop()
    assert "20 polls at the spacing of a, with as many" in audit_duration(status, 20)


def test_an_audit_that_the_reserve_pays_for_is_soon_over():
    group = SimpleNamespace(
        name="a", elements=100, polls=10, traffic=1000, blocked_until=math.nan, fastest=math.inf
    )
    status = SimpleNamespace(
        now=1000.0, budget=0.01, byte_budget=None, elements={"ok": 100}, groups=[group],
        reserve=InReserve(86400.0, 1.0, 864.0, math.nan),
    )  # fmt: skip
    assert audit_duration(status, 100) == ""
    status.reserve = InReserve(86400.0, 0.1, 100.0, math.nan)  # of 200
    assert "100 polls at 864 polls/day" in audit_duration(status, 100)
    assert "up to 2.78 hours" in audit_duration(status, 100)
    status.reserve = InReserve(86400.0, 0.1, math.nan, 0.0)
    assert "up to 5.56 hours" in audit_duration(status, 100)


@contextmanager
def program(*arguments, stdout=subprocess.PIPE, stdin=None):
    """Run a command beside this process; it does not outlive the test."""
    with subprocess.Popen(  # noqa: S603  (our own program)
        [sys.executable, "-m", "unstale", *map(str, arguments)],
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.usefixtures("mirror")
def test_a_second_runner_is_refused_and_a_signal_ends_the_first(run, ask, refuse, site, number):
    run("add", site.host + "/a")
    with program("run") as process:
        wait_for(lambda: site.asked)
        told = refuse("run", "--once")
        assert "mirror.db" in told
        assert "running" in told or "process" in told
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Ran for" in out.splitlines()[-1]
    assert err.replace("compiling the kernels (once, some seconds) ...\n", "") == ""
    assert ask("status")["elements"]["ok"] == 1


def test_a_hangup_makes_it_read_its_file_again(run, ask, mirror, site):
    run("add", site.host + "/a")
    with program("run", stdin=subprocess.DEVNULL) as process:

        def told(words):
            lines = iter(process.stderr.readline, "")
            assert any(words in line for line in lines)

        wait_for(lambda: ask("status")["workers"])
        before = ask("status")["budget"]
        mirror.write_text(QUICK.replace("budget", "bugdet"))
        process.send_signal(signal.SIGHUP)
        told("mistake")  # in the one line that says where
        mirror.write_text(
            QUICK.replace("[mirror]\n", "[mirror]\nconcurrency = 7\n", 1).replace("200/s", "3/s")
        )
        process.send_signal(signal.SIGHUP)
        told("The mirror reads mirror.toml again")
        wait_for(lambda: ask("status")["budget"] == 3.0 and ask("status")["trouble"] == [])
        assert before != 3.0
        run("add", site.host + "/b")
        wait_for(lambda: ask("status")["elements"].get("ok") == 2)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_a_query_without_an_end_does_not_keep_it(run, ask, mirror, folder, number):
    with closing(sqlite3.connect(folder / "shop.db")) as shop:
        shop.execute("CREATE TABLE t (a)")
    mirror.write_text(QUICK.replace("[mirror]\n", '[mirror]\ntimeout = "10min"\n', 1))
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    key = f"sqlite:///{folder}/shop.db#t"
    run("add", key, "--option", f"query={endless}")
    with program("run") as process:
        wait_for(lambda: ask("status")["workers"])
        time.sleep(2.0)  # it is probably polling by now; if not, it ends all the sooner
        process.send_signal(number)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Ran for" in out.splitlines()[-1]
    element = ask("explain", key)["element"]
    assert (element["state"], element["failures"]) == ("new", 0)  # it is not to blame


@pytest.mark.usefixtures("run", "polled")
def test_changes_are_followed_until_nobody_listens():
    read, write = os.pipe()
    with program("changes", "--follow", "--after", 1, stdout=write) as process:
        os.close(write)
        with os.fdopen(read) as stream:
            lines = [json.loads(stream.readline()) for _ in range(2)]
        _, err = process.communicate(timeout=60)
    assert [line["id"] for line in lines] == [2, 3]
    assert (process.returncode, err) == (0, "")


def test_changes_are_told_to_a_command(run, run_until_seen, polled, folder):
    target = folder / "told.jsonl"
    command = f"{sys.executable} -c \"import sys; open('{target}', 'a').write(sys.stdin.read() + chr(10))\""
    with program("changes", "--follow", "--command", command) as process:
        assert process.stderr.readline() == "Each change from now on is sent. Ctrl-C ends it.\n"
        polled.put("/a", "<p>a: two</p>\n")
        run("hint", polled.host + "/a")
        run_until_seen(4)
        wait_for(target.exists)
        wait_for(lambda: target.read_text().endswith("\n"))
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert [json.loads(line)["key"] for line in target.read_text().split("\n") if line] == [
        polled.host + "/a"
    ]


@pytest.mark.usefixtures("mirror")
def test_mistakes_of_changes(refuse):
    assert "need --follow" in refuse("changes", "--command", "cat")
    assert "--after cannot be combined" in refuse("changes", "--follow", "--command", "cat", "--after", 1)
    assert "--limit cannot be combined with --follow" in refuse("changes", "--follow", "--limit", 1)
    assert "--webhook must be an address" in refuse("changes", "--follow", "--webhook", "example.org")
    assert "--command must be a command" in refuse("changes", "--follow", "--command", "'")
    assert Path("mirror.db").exists()


@pytest.mark.usefixtures("polled")
def test_a_budget_that_was_set_counts_until_the_file_is_changed(run):
    file = Path("mirror.toml")
    config = load(file)
    with Mirror(config.store, settings=config.settings, copies=config.copies) as mirror:
        mirror.set_budget(2.0)
    said = show_budget(config.settings.budget, config.settings.byte_budget)
    told = " ".join(run("status")[0].split())
    assert "budget 172,800 polls/day; 3 polls" in told
    assert f"You set this budget later; that of mirror.toml ({said}) counts again" in told
    assert f"172,800 polls/day, which you set later; mirror.toml says {said}" in " ".join(
        run("doctor")[0].split()
    )
    file.write_text(re.sub(r"(?m)^budget = .*$", 'budget = "7/s"', file.read_text()))
    told = " ".join(run("status")[0].split())
    assert "budget 7 polls/second; " in told or "budget 604,800 polls/day; " in told
    assert "mirror.toml says" not in told


@pytest.mark.parametrize("charset", ["undefined", "idna", "punycode", "hex", "utf-7", "unicode_escape"])
def test_a_page_that_names_any_codec_of_python_is_shown(charset):
    assert "text" in changes._as_text(b"\xff.text " + b"\\" + b"a" * 100, f"text/html; charset={charset}")
