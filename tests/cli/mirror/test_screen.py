"""The screen of a run says something from its first moment on."""

import importlib
import io
import threading
from types import SimpleNamespace

from numba.core import event
from rich.console import Console

from unstale.cli.mirror.run_display import Screen, Seen
from unstale.mirror.engine import rehearsal
from unstale.mirror.engine.events import Event
from unstale.mirror.mirror import Mirror
from unstale.mirror.settings import Settings

run = importlib.import_module("unstale.cli.mirror.run")


def shown(screen):
    file = io.StringIO()
    Console(file=file, width=100).print(screen.picture())
    return file.getvalue()


def test_it_is_not_blank_before_anything_has_happened():
    screen = Screen(Seen(lambda: None), "mirror.toml", Console(file=io.StringIO(), width=100, height=40))
    assert "starting" in shown(screen)
    assert "polls in a moment" in shown(screen)
    assert "Ctrl-C ends the mirror" in shown(screen)
    screen(Event(0.0, "planner", "", "planning for 3 elements", {}))
    assert "starting" in shown(screen)
    screen(Event(1.0, "poll", "a", "", {"outcome": "new", "traffic": 3}))
    assert "starting" not in shown(screen)
    assert "1 poll" in shown(screen)


def test_a_look_waits_for_no_compiler(tmp_path, monkeypatch):
    """At the first start a look would compile in this process, and the end of a run would wait for it."""
    compiled = []

    def status(_mirror):
        compiled.append(event.broadcast(event.Event("numba:compile", event.EventStatus.START)))
        return "found"

    monkeypatch.setattr(Mirror, "status", status)
    opened = SimpleNamespace(
        config=SimpleNamespace(store=str(tmp_path / "mirror.db"), settings=Settings(budget=1.0), copies=None)
    )
    ready = threading.Event()
    monkeypatch.setattr(rehearsal, "_ready", ready)
    assert run._look(opened) is None
    ready.set()
    assert run._look(opened) == "found"


def test_who_ends_a_run_waits_for_no_compiler_however_far_it_is():
    """Plans for many elements have kernels of their own, which the last look compiled for a minute."""

    def compiling():
        event.broadcast(event.Event("numba:compile", event.EventStatus.START))
        return "found"

    told = Seen(compiling)
    told.end()
    assert told.status == "found"
    hurried = Seen(compiling, hurried=True)
    hurried.end()
    assert hurried.status is None
    over = threading.Event()
    waiting = Seen(over.wait, hurried=True)
    waiting.look_again()
    waiting.end()
    over.set()
