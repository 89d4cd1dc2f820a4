"""A process that moves or splits a cell is killed: a runner ends what it has begun, and goes on."""

import json
import signal
import subprocess
import sys
import time
from contextlib import closing

import psycopg
import pytest

from .test_cells_runner_killed import GENEROUS_SECONDS, cells, unstale, when

BUDGET = 5.0
DEATHS = (
    ("move", "rows"), ("move", "switching"), ("move", "dropping"), ("split", "rows"), ("split", "dropping"),
)  # fmt: skip
"""What is killed, and when.

After ``dropping`` has begun, the change has happened.
"""
_CHANGE = """
import os, signal, sys
from unstale.mirror.cells.mirror import MirrorOfCells
from unstale.mirror.config.file import load

what, number, server, deadly = sys.argv[1:]
config = load("mirror.toml")

def tell(step):
    if step.doing == deadly and (step.doing != "rows" or step.done):
        os.kill(os.getpid(), signal.SIGKILL)

with MirrorOfCells(config.store, settings=config.settings, copies=config.copies) as mirror:
    if what == "move":
        mirror.move(int(number), server, tell=tell)
    else:
        mirror.split(int(number), tell=tell)
"""


@pytest.mark.long
def test_a_killed_mover_leaves_whole_cells_that_go_on(postgres_server, postgres_url, tmp_path):
    other = postgres_url.replace("/test_", "/other_test_")
    name = other.partition("?")[0].rpartition("/")[2]
    with closing(psycopg.connect(postgres_server, autocommit=True)) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    try:
        kill_movers(tmp_path, postgres_url, other)
    finally:
        with closing(psycopg.connect(postgres_server, autocommit=True)) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def kill_movers(folder, first, second):
    files = [f"{number}.txt" for number in range(20)]
    for file in files:
        (folder / file).write_text(file)
    unstale(folder, "init", "--budget", f"{BUDGET:g}/s", "--store", first)
    toml = folder / "mirror.toml"
    said = f"[mirror]\ncells = 2\nreserve = 0\nservers = [{json.dumps(second)}]"
    toml.write_text(toml.read_text().replace("[mirror]", said, 1))
    for group in range(7):
        unstale(folder, "add", *files[group::7], "--group", f"g{group}")
    began = time.monotonic()
    runner = subprocess.Popen([sys.executable, "-m", "unstale", "run", "--quiet"], cwd=folder)
    took, polls = [], 0
    try:
        when(folder, lambda now: all(one["runner"] for one in now))
        for what, step in DEATHS:
            servers = sorted({one["server"] for one in cells(folder)} | {where(first), where(second)})
            there = next(one for one in cells(folder) if one["cell"] == 0)["server"]
            target = next(one for one in servers if one != there)
            words = [sys.executable, "-c", _CHANGE, what, "0", target, step]
            got = subprocess.run(words, cwd=folder, timeout=GENEROUS_SECONDS, check=False)  # noqa: S603
            assert got.returncode == -signal.SIGKILL
            killed = time.monotonic()
            found = when(folder, lambda now: all(one["runner"] and one["state"] == "open" for one in now))
            took.append(time.monotonic() - killed)
            zero = next(one for one in found if one["cell"] == 0)
            moved = what == "move" and step == "dropping"
            assert zero["server"] == (target if moved else there) or what == "split"
            assert zero["parts"] == (4 if (what, step) == ("split", "dropping") else 2)
            assert sum(one["elements"] for one in found) == len(files)
            now = polls_of(folder)
            assert now > polls  # none is lost, and there are more
            polls = now
        passed = time.monotonic() - began
        assert polls <= BUDGET * (passed + 10.0)
    finally:
        runner.terminate()
        runner.wait(GENEROUS_SECONDS)
    print(f"went on {', '.join(f'{one:.0f}' for one in took)} s later; {polls} polls in {passed:.0f} s")  # noqa: T201
    unstale(folder, "run", "--once", "--quiet")
    for file in files:
        assert unstale(folder, "show", file) == file


def where(url):
    from unstale.mirror.cells.layout import name_of_server

    return name_of_server(url)


def polls_of(folder):
    return sum(json.loads(unstale(folder, "status", "--json"))["polls"].values())
