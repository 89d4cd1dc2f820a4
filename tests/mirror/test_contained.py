"""Work in child processes: its limits, its errors, and what is left when it is given up."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from unstale.errors import InvalidInput, MissingExtra
from unstale.mirror.contained import Children, LimitExceeded

MEMORY = 128 << 20
kept = []


def at_work(what, *arguments):
    """Do something; a child does this."""
    if what == "take":
        return len(bytearray(arguments[0]))
    if what == "keep":
        kept.append(b"x" * arguments[0])
    if what == "loop":
        if arguments:
            Path(arguments[0]).write_text(str(os.getpid()))
        while True:
            pass
    if what == "raise":
        raise arguments[0]
    if what == "odd":
        raise OddError(1, 2)
    if what == "print":
        print("noise")  # noqa: T201
        os.write(1, b"noise")
    if what == "die":
        os.kill(os.getpid(), signal.SIGSEGV)
    return os.getpid()


def environment():
    return sorted(os.environ)


class OddError(Exception):
    """An error that cannot be pickled."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


@pytest.fixture(scope="module")
def children():
    return Children(1, memory=MEMORY, seconds=1.0)


def do(children, *arguments):
    return children.wait(at_work, *arguments, timeout=60.0)


def test_a_child_does_one_piece_of_work_after_the_other(children):
    ballast = b"x" * (250 << 20)  # what the parent holds is not the child's
    first = do(children, "name")
    assert first != os.getpid()
    assert [do(children, "print"), do(children, "name")] == [first, first]
    assert asyncio.run(children.run(at_work, "name")) == first
    assert ballast


def test_a_child_that_holds_much_memory_makes_room():
    children = Children(1)
    first = do(children, "name")
    do(children, "keep", 250 << 20)
    assert do(children, "name") != first


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("take", 2 * MEMORY), "it takes more than 128 MB of memory"),
        (("loop",), "it takes more than 1 seconds of processor time"),
        (("die",), r"the process that reads it ended \(SIGSEGV\); it may use 128 MB"),
    ],
)
def test_work_that_exceeds_a_limit_fails_alone(children, arguments, said):
    with pytest.raises(LimitExceeded, match=said):
        do(children, *arguments)
    assert do(children, "take", 1000) == 1000


def test_errors_come_back_as_they_are(children):
    for error in (
        InvalidInput("no"),
        MissingExtra("html", needed_for="selectors"),
        ValueError("no"),
        KeyError("x"),
    ):
        with pytest.raises(type(error)) as raised:
            do(children, "raise", error)
        assert str(raised.value) == str(error)
    with pytest.raises(RuntimeError, match="OddError: 1 and 2"):
        do(children, "odd")
    first = do(children, "name")
    with pytest.raises(ValueError, match="again"):
        do(children, "raise", ValueError("again"))
    assert do(children, "name") == first, "an error is no reason to start anew"


def test_children_get_no_secrets(monkeypatch):
    monkeypatch.setenv("TOKEN", "secret")
    assert "TOKEN" not in Children(1).wait(environment, timeout=60.0)


def test_that_no_process_can_be_started_is_told(monkeypatch):
    children = Children(1)
    with monkeypatch.context() as here:
        here.setattr(sys, "executable", "/nowhere/python")
        with pytest.raises(LimitExceeded, match=r"no process can be started that reads it: .*No such file"):
            do(children, "name")
    assert do(children, "name")


def gone(number):
    """Whether a process is no more; the parent of it must have waited for it."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return True
    return False


def soon(condition):
    end = time.monotonic() + 30
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


@pytest.mark.parametrize("way", ["cancelled", "late"])
def test_work_that_is_given_up_ends(tmp_path, way):
    patient = Children(1, seconds=600.0)
    note = tmp_path / "started"

    async def cancelled():
        task = asyncio.create_task(patient.run(at_work, "loop", note))
        assert await asyncio.to_thread(soon, lambda: note.exists() and note.read_text())
        waiting = asyncio.create_task(patient.run(at_work, "loop", tmp_path / "never"))
        await asyncio.sleep(0.05)
        for one in (waiting, task):
            one.cancel()
            with suppress(asyncio.CancelledError):
                await one

    if way == "cancelled":
        asyncio.run(cancelled())
    else:
        with pytest.raises(LimitExceeded, match="it takes more than"):
            patient.wait(at_work, "loop", note, timeout=3.0)
    assert soon(lambda: gone(int(note.read_text())))
    assert not (tmp_path / "never").exists()
    assert patient.wait(at_work, "name", timeout=60.0)


def test_children_end_with_their_parent():
    code = (
        "from tests.mirror.test_contained import at_work\n"
        "from unstale.mirror.contained import Children\n"
        "print(Children(1).wait(at_work, 'name', timeout=60.0), flush=True)\n"
    )
    for ending in ("", "import os; os._exit(0)"):
        path = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-W", "error", "-c", code + ending],
            env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert not done.stderr
        assert soon(lambda: gone(int(done.stdout)))  # noqa: B023
