"""A mirror works where an event loop is running already, as in Jupyter and in async programs."""

import asyncio
import re
import threading
from concurrent.futures import Future
from pathlib import Path

import pytest

import unstale
from unstale.errors import InvalidInput
from unstale.mirror.event_loops import wait_for

from .worlds import DAY, add, make

README = Path(__file__).parents[3] / "README.md"


def in_a_loop(function):
    """Call a function as a cell of a notebook is called: within a running loop."""

    async def cell():
        return function()

    return asyncio.run(cell())


def test_the_example_of_the_readme_runs_in_a_notebook():
    (block,) = re.findall(
        r"```python\n(>>> import tempfile, unstale\n.*?)```", README.read_text("utf-8"), re.DOTALL
    )
    lines = [line[4:] for line in block.splitlines() if line.startswith((">>> ", "... "))]
    names = {}
    in_a_loop(lambda: exec("\n".join(lines), names))  # noqa: S102  (our own page)
    assert names["copy"].body == b"hello"
    assert names["polls"] == 1


def test_step_run_and_audit_work_within_a_running_loop(tmp_path):
    mirror, world = make(tmp_path)
    add(mirror, "a", "b")
    with mirror:
        assert in_a_loop(mirror.step) >= 1
        in_a_loop(lambda: mirror.run(mirror.clock.now() + DAY / 8))
        assert len(world.polls) > 5
        assert in_a_loop(lambda: mirror.audit(2)).sample == 2


def test_async_programs_await_the_same(tmp_path):
    mirror, world = make(tmp_path)
    add(mirror, "a", "b")

    async def program():
        polls = await mirror.astep()
        await mirror.arun(mirror.clock.now() + DAY / 8)
        return polls, await mirror.aaudit(2)

    with mirror:
        polls, audit = asyncio.run(program())
    assert polls >= 1
    assert audit.sample == 2
    assert len(world.polls) > 5


def test_errors_come_through():
    async def fails():
        raise InvalidInput("no")

    with pytest.raises(InvalidInput, match="no"):
        in_a_loop(lambda: wait_for(fails))


def test_an_interruption_of_the_wait_stops_the_work(monkeypatch):
    """As by the stop button of a notebook: the work is told to end, and has ended when the cell has."""
    ended, told = threading.Event(), threading.Event()

    async def work():
        await asyncio.to_thread(told.wait, 60)
        ended.set()

    class Interrupted(Future):
        def result(self, timeout=None):  # noqa: ARG002
            raise KeyboardInterrupt

    monkeypatch.setattr("unstale.mirror.event_loops.Future", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        in_a_loop(lambda: wait_for(work, stop=told.set))
    assert ended.is_set()


@pytest.mark.parametrize("within", [False, True])
def test_another_thread_can_stop_a_run(tmp_path, within):
    """The loop may be asleep for long: it is woken."""
    polled = threading.Event()
    with unstale.Mirror(tmp_path / "mirror.db", budget="1/day", reserve="0") as mirror:
        mirror.add("python:a", poll=lambda: "hello")
        stopper = threading.Thread(target=lambda: (polled.wait(60), mirror.stop()))
        stopper.start()

        def note(event):
            if event.kind == "poll":
                polled.set()

        run = lambda: mirror.run(on_event=note)  # noqa: E731
        in_a_loop(run) if within else run()
        stopper.join()
        assert mirror.read("python:a").body == b"hello"
