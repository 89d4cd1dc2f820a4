"""Two processes share cells on PostgreSQL; one is killed, and its cells are soon with the other."""

import json
import signal
import subprocess
import sys
import time

import pytest

from unstale.mirror.cells.directory import CLAIM_SECONDS

GENEROUS_SECONDS = 120.0
_UNSTALE = (sys.executable, "-m", "unstale")


def unstale(folder, *words):
    return subprocess.run(  # noqa: S603
        [*_UNSTALE, *words], cwd=folder, check=True, capture_output=True, text=True, timeout=GENEROUS_SECONDS
    ).stdout


def cells(folder):
    return json.loads(unstale(folder, "cells", "list", "--json"))["cells"]


def when(folder, condition):
    """Wait until the cells are so; return them."""
    end = time.monotonic() + GENEROUS_SECONDS
    while not condition(found := cells(folder)):
        assert time.monotonic() < end, found
        time.sleep(0.5)
    return found


def workers(found):
    return [one["runner"] or "" for one in found]


@pytest.mark.long
def test_cells_of_a_killed_runner_are_with_the_other_soon(postgres_url, tmp_path):
    budget = 5.0
    for number in range(20):
        (tmp_path / f"{number}.txt").write_text(str(number))
    unstale(tmp_path, "init", "--budget", f"{budget:g}/s", "--store", postgres_url)
    toml = tmp_path / "mirror.toml"
    toml.write_text(toml.read_text().replace("[mirror]", "[mirror]\ncells = 4\nreserve = 0", 1))
    for first, group in enumerate("abc"):
        unstale(tmp_path, "add", *(f"{n}.txt" for n in range(first, 20, 3)), "--group", group)
    runners = [
        subprocess.Popen([*_UNSTALE, "run", "--quiet"], cwd=tmp_path)  # noqa: S603
        for _ in range(2)
    ]
    try:
        began = time.monotonic()
        found = when(tmp_path, lambda now: sorted(map(workers(now).count, workers(now))) == [2] * 4)
        dead = f":{runners[0].pid}:"
        assert sum(dead in one for one in workers(found)) == 2
        runners[0].send_signal(signal.SIGKILL)
        runners[0].wait()
        killed = time.monotonic()
        when(tmp_path, lambda now: all(f":{runners[1].pid}:" in one for one in workers(now)))
        took = time.monotonic() - killed
        time.sleep(5.0)
        polls = sum(json.loads(unstale(tmp_path, "status", "--json"))["polls"].values())
        passed = time.monotonic() - began
    finally:
        for runner in runners:
            if runner.poll() is None:
                runner.terminate()
                runner.wait(GENEROUS_SECONDS)
    print(f"taken over in {took:.1f} s; {polls} polls in {passed:.0f} s")  # noqa: T201  (shown with -s)
    assert took < CLAIM_SECONDS + 30.0
    assert polls <= budget * (passed + 10.0)
