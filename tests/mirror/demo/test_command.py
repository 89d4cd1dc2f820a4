"""The command, as it is run: in real time, as a process of its own."""

import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import pytest

from unstale import errors
from unstale.cli import main

ROOT = Path(__file__).parents[3]


class Running:
    """``unstale demo``, with what it has printed so far."""

    def __init__(self, folder, *options):
        self.folder = folder
        self.out, self.err = folder / "out", folder / "err"
        (folder / "temporary").mkdir()
        with self.out.open("w") as out, self.err.open("w") as err:
            self.process = subprocess.Popen(  # noqa: S603  (our own program)
                [sys.executable, "-m", "unstale", "demo", *options],
                stdout=out,
                stderr=err,
                env=os.environ | {"TMPDIR": str(folder / "temporary"), "PYTHONUNBUFFERED": "1"},
            )

    @property
    def said(self):
        return self.out.read_text("utf-8")

    def wait_for(self, pattern, seconds=60.0):
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.process.poll() is None:
            if found := re.search(pattern, self.said):
                return found
            time.sleep(0.05)
        raise AssertionError(f"{pattern} was not said: {self.said}\n{self.err.read_text()}")

    def end(self, seconds=60.0):
        """Wait until it has ended, well and leaving nothing behind; return what it has said."""
        assert self.process.wait(seconds) == 0, self.err.read_text("utf-8")
        assert list((self.folder / "temporary").iterdir()) == []
        return self.said


@pytest.fixture
def run(tmp_path):
    started = []

    def start(*options):
        started.append(Running(tmp_path, *options))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()


def refused(address):
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(address, timeout=5)  # noqa: S310
    return True


def test_it_ends_with_a_table(run):
    demo = run("--for", "4s", "--no-serve")
    said = demo.end()
    assert said.startswith("A small site, a mirror of it and its dashboard start ...\nThe site at http://127")
    assert "has 500 pages" in said
    assert "Dashboard" not in said
    assert refused(re.search(r"http://127\.0\.0\.1:\d+/", said)[0])
    if "before anything could be measured" in said:  # kernels may have to be compiled, on a busy machine
        return
    assert "So short a run says little" in said
    polls, allowed = re.search(r"(\d+) polls of (\d+)", said).groups()
    assert int(allowed) >= 280  # the last poll may take a while
    assert int(polls) <= int(allowed), said  # a busy machine may make none


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_ctrl_c_ends_it_with_the_summary(run, number):
    demo = run("--no-serve")
    demo.wait_for(r"\n +\d+s +\d+\.\d% +\d+\.\d% +\d+\.\d% +\d+\.\d% +\d+\n", seconds=300.0)
    demo.process.send_signal(number)
    said = demo.end()
    for name in ("as it estimates", "in truth", "optimum for known rates", "uniform", "proportional"):
        assert re.search(rf"{name}.* \d+\.\d%$", said, re.MULTILINE)
    assert demo.err.read_text("utf-8").replace("compiling the kernels (once, some seconds) ...\n", "") == ""


@pytest.mark.long
def test_ctrl_c_at_the_start_ends_it(run):
    demo = run("--no-serve")
    demo.wait_for("Ctrl-C ends it")
    demo.process.send_signal(signal.SIGINT)
    said = demo.end()
    assert "It ended after" in said or "in truth" in said


@pytest.mark.long
def test_json(run):
    answer = json.loads(run("--for", "4s", "--no-serve", "--json").end())
    assert set(answer) == {
        "seconds", "warm_up", "pages", "changes", "polls", "allowed", "freshness", "planned", "difference",
    }  # fmt: skip
    assert set(answer["freshness"]) == {"estimated", "true", "optimal", "uniform", "proportional"}
    fresh = answer["freshness"]
    assert answer["difference"] == pytest.approx(fresh["estimated"] - fresh["true"])
    assert answer["polls"] <= answer["allowed"]


@pytest.mark.long
def test_the_dashboard_shows_it(run):
    pytest.importorskip("fastapi", reason="the dashboard is not installed")
    demo = run()
    address = demo.wait_for(r"Dashboard: (http://127\.0\.0\.1:\d+/)")[1]
    demo.wait_for(r"\n +\d+s ")
    with urllib.request.urlopen(f"{address}api/status", timeout=20) as answer:  # noqa: S310
        status = json.loads(answer.read())
    assert status["running"]
    with urllib.request.urlopen(address, timeout=20) as answer:  # noqa: S310
        assert b"unstale" in answer.read()
    folder = re.search(r"unstale status --mirror (\S+)", demo.said)[1]
    other = subprocess.run(  # noqa: S603  (our own program)
        [sys.executable, "-m", "unstale", "status", "--mirror", folder],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "500" in other.stdout
    assert "restart it" not in other.stdout
    demo.process.send_signal(signal.SIGINT)
    demo.end()
    assert refused(address)


def test_without_the_dashboard_it_says_so_and_runs(tmp_path, monkeypatch, capsys):
    def need(_module, *, extra, needed_for):
        raise errors.MissingExtra(extra, needed_for=needed_for)

    monkeypatch.setattr(sys.modules["unstale.cli.mirror.demo"], "need", need)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert main(["demo", "--for", "1s"]) == 0
    said = capsys.readouterr().out
    assert "\nThere is no dashboard, because the dashboard and the API need an optional part: pip" in said
    assert "has 500 pages" in said


def test_a_port_that_is_taken_is_one_line(run):
    pytest.importorskip("fastapi", reason="the dashboard is not installed")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        demo = run("--for", "5min", "--port", str(taken.getsockname()[1]))  # it ends as soon as it knows
        assert demo.process.wait(120.0) == 2
    assert "cannot listen there" in demo.err.read_text("utf-8")
    assert list((demo.folder / "temporary").iterdir()) == []


def test_its_page_has_an_address_before_it_can_answer(tmp_path, monkeypatch, capsys):
    """Requests wait meanwhile: to load what serves them takes a second."""
    pytest.importorskip("fastapi", reason="the dashboard is not installed")
    monkeypatch.chdir(tmp_path)
    assert main(["init"]) == 0
    capsys.readouterr()
    told = []

    def server(*_):
        told.append(capsys.readouterr().out)
        raise errors.InvalidInput("it ends here")

    serve = sys.modules["unstale.cli.mirror.serve"]
    monkeypatch.setattr(serve, "_server", server)
    monkeypatch.setattr(serve, "_follow", lambda _: None)
    assert main(["serve", "--json", "--with-parent", "--port", "0"]) == 2
    assert json.loads(told[0])["address"].startswith("http://127.0.0.1:")


def test_its_page_ends_with_it_also_while_it_is_loaded(monkeypatch):
    """Whoever ends a demo in its first seconds does not wait for what nobody will see."""
    ended = threading.Event()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    monkeypatch.setattr(os, "_exit", lambda code: code == 0 and ended.set())
    sys.modules["unstale.cli.mirror.serve"]._follow([])
    assert ended.wait(60.0)


def test_make_run_runs_it():
    assert "unstale demo --for 60s" in (ROOT / "Makefile").read_text("utf-8")
