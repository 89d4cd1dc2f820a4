"""Promise 4: one runs an SQLite mirror; others are refused, but may read and edit; a dead one is replaced."""

import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from unstale.cli import main

from .killing import wait_for
from .pages import Site

CONFIGURATION = """\
[mirror]
store = "mirror.db"
budget = "50/s"
contact = "me@example.org"

[[group]]
match = "http:*"
spacing = "0s"
concurrency = 20
"""


@contextmanager
def running(*more):
    """``unstale run``, in a process of its own, which does not outlive the test."""
    command = [sys.executable, "-m", "unstale", "run", *more]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Run a command in a folder with a mirror, and return what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("UNSTALE_MIRROR", raising=False)
    (tmp_path / "mirror.toml").write_text(CONFIGURATION)

    def command(*arguments):
        capsys.readouterr()
        assert main(list(arguments)) == 0, capsys.readouterr()
        return capsys.readouterr().out

    return command


def test_a_second_runner_is_refused_and_takes_over_at_once_when_the_first_is_killed(command):
    with Site({"site": 0.0}) as site:
        one, two, new = site.keys("site", 3)
        command("add", one, two)
        with running() as first:
            wait_for(lambda: len(site.visits) > 2)
            first.send_signal(signal.SIGSTOP)  # not even one that hangs loses its mirror
            with running() as second:
                out, err = second.communicate(timeout=60)
            assert second.returncode == 2
            assert out == ""
            who = rf"process {first.pid} on \S+"
            says = rf"unstale: '.*mirror\.db' is being run by {who}: stop that one first, or run another .*\n"
            assert re.fullmatch(says, err)
            first.send_signal(signal.SIGCONT)
            # Commands work meanwhile, and the runner hears of what they did.
            assert "elements" in command("status")
            assert command("show", one).startswith("/site/0 ")
            command("add", new)
            wait_for(lambda: any(visit.path == "/site/2" for visit in site.visits))
            command("hint", two)
            command("remove", one)
            # What had been handed out is polled yet; then only the others are, again and again.
            wait_for(lambda: len(site.visits) > 50 and "/site/0" not in {v.path for v in site.visits[-50:]})
            assert first.poll() is None
            # The lock goes with the process, however that ends.
            os.kill(first.pid, signal.SIGKILL)
            first.wait()
        before = len(site.visits)
        with running() as last:
            wait_for(lambda: len(site.visits) > before)
            last.send_signal(signal.SIGTERM)
            out, err = last.communicate(timeout=60)
        assert last.returncode == 0, err
        assert "Ran for" in out
