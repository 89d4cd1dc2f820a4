"""Working: ``run``, ``status``, ``explain``, ``changes``, ``show``, ``audit``."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest


def test_once(run, ask, mirror, site):
    run("add", *(site.host + path for path in site.pages))
    out, err = run("run", "--once")
    lines = out.splitlines()
    assert sorted(line.split("  ")[1] for line in lines[:-1]) == ["new"] * 3
    assert re.fullmatch(r"Ran for .*: 3 polls: 3 new; 0 changes, 3 new elements; .* moved", lines[-1])
    assert err == ""
    status = ask("status")
    assert status["elements"]["ok"] == 3
    assert status["polls"] == {"new": 3}
    assert 0 <= status["freshness"]["low"] <= status["freshness"]["value"] <= status["freshness"]["high"] <= 1


def test_changes_are_seen_and_told(run, ask, polled):
    polled.put("/b", "<p>b: two</p>\n")
    run("hint", polled.host + "/b")
    out, _ = run("run", "--for", "2s")
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
    assert ask("show", polled.host + "/b", "--diff")["before"] == first


def test_what_cannot_be_shown(refuse, polled, mirror):
    assert "did you mean" in refuse("show", polled.host + "/aa")
    assert "did you mean" in refuse("explain", polled.host + "/aa")
    assert "has no version 99" in refuse("show", polled.host + "/a", "--version", 99)
    assert "it is the first" in refuse("show", polled.host + "/a", "--diff")


def test_explain_says_why(run, ask, polled):
    out, _ = run("explain", polled.host + "/a")
    assert out.startswith(f"{polled.host}/a\n\nsource     http, in the group http:127.0.0.1:")
    for name in ("changes", "copy", "weight", "worth", "next poll"):
        assert re.search(rf"^{name} +\S", out, re.MULTILINE)
    assert "unstale show" in out
    answer = ask("explain", polled.host + "/a")
    assert answer["low"] <= answer["rate"] <= answer["high"]
    assert answer["polls"][0]["outcome"] == "new"


def test_secrets_are_not_told(run, mirror, site, monkeypatch):
    monkeypatch.setenv("TOKEN", "s3cret")
    rule = '\n[[rule]]\nheaders = { Authorization = "Bearer ${TOKEN}" }\n'
    mirror.write_text(mirror.read_text() + rule)
    run("add", site.host + "/a")
    told = run("explain", site.host + "/a", "--json")[0] + run("explain", site.host + "/a")[0]
    assert "s3cret" not in told + run("doctor", "--json")[0] + run("status", "--json")[0]


def test_status_tells_of_trouble(run, ask, mirror, site):
    run("add", site.host + "/a", "http://127.0.0.1:9/never")
    run("run", "--once")
    out, _ = run("status")
    assert "(1 failing)" in out
    assert "Neglected:\n  http://127.0.0.1:9/never\n" in out
    assert {one["name"] for one in ask("status")["groups"]} == {
        "http:127.0.0.1:9", site.host.removeprefix("http://").join(["http:", ""])
    }  # fmt: skip
    assert "Neglected" not in run("status", "--top", 0)[0]


def test_events_as_json(run, mirror, site):
    run("add", site.host + "/a")
    lines = [json.loads(line) for line in run("run", "--for", "1s", "--json")[0].splitlines()]
    kinds = [line["event"] for line in lines]
    assert {"poll", "change"} <= set(kinds)
    assert kinds[-1] == "end"
    assert lines[-1]["new"] == 1
    assert lines[kinds.index("change")]["data"]["key"] == site.host + "/a"


def test_quiet_is_quiet(run, mirror, site):
    run("add", site.host + "/a")
    assert run("run", "--once", "--quiet") == ("", "")


def test_mistakes_of_run(refuse, run, mirror):
    assert "--for cannot be had together with --once" in refuse("run", "--for", "1s", "--once")
    assert "--until must be in the future" in refuse("run", "--until", "2020-01-01")
    assert "There is nothing to poll yet: unstale add KEY" in run("run", "--for", "0.2s")[1]


def test_audit(run, ask, refuse, mirror, site):
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


def program(*arguments, **options):
    return subprocess.Popen(  # noqa: S603  (our own program)
        [sys.executable, "-m", "unstale", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def wait_for(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly(run, ask, mirror, site, number):
    run("add", site.host + "/a")
    with program("run") as process:
        wait_for(lambda: site.asked)
        time.sleep(0.5)
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "Ran for" in out.splitlines()[-1]
    assert err.replace("compiling the kernels (once, some seconds) ...\n", "") == ""
    assert ask("status")["elements"]["ok"] == 1


def test_a_second_runner_is_refused(run, refuse, mirror, site):
    run("add", site.host + "/a")
    with program("run") as process:
        wait_for(lambda: site.asked)
        told = refuse("run", "--once")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    assert "mirror.db" in told
    assert "running" in told or "process" in told


def test_changes_are_followed_until_nobody_listens(run, polled):
    read, write = os.pipe()
    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "unstale", "changes", "--follow", "--after", "1"],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        os.close(write)
        with os.fdopen(read) as stream:
            lines = [json.loads(stream.readline()) for _ in range(2)]
        _, err = process.communicate(timeout=20)
    assert [line["id"] for line in lines] == [2, 3]
    assert (process.returncode, err) == (0, "")


def test_changes_are_told_to_a_command(run, polled, folder):
    target = folder / "told.jsonl"
    command = f"{sys.executable} -c \"import sys; open('{target}', 'a').write(sys.stdin.read() + chr(10))\""
    with program("changes", "--follow", "--command", command) as process:
        time.sleep(2.0)  # what changed before does not count
        polled.put("/a", "<p>a: two</p>\n")
        run("hint", polled.host + "/a")
        run("run", "--for", "1s")
        wait_for(target.exists)
        wait_for(lambda: target.read_text().endswith("\n"))
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, "")
    assert [json.loads(line)["key"] for line in target.read_text().split("\n") if line] == [
        polled.host + "/a"
    ]


def test_mistakes_of_changes(refuse, mirror):
    assert "need --follow" in refuse("changes", "--command", "cat")
    assert "--after cannot be had together" in refuse("changes", "--follow", "--command", "cat", "--after", 1)
    assert "--limit cannot be had together with --follow" in refuse("changes", "--follow", "--limit", 1)
    assert "--webhook must be an address" in refuse("changes", "--follow", "--webhook", "example.org")
    assert "--command must be a command" in refuse("changes", "--follow", "--command", "'")
    assert Path("mirror.db").exists()
