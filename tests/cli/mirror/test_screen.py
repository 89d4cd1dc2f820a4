"""The screen of a run says something from its first moment on."""

import io

from rich.console import Console

from unstale.cli.mirror.run_display import Screen, Seen
from unstale.mirror.engine.events import Event


def shown(screen):
    file = io.StringIO()
    Console(file=file, width=100).print(screen.picture())
    return file.getvalue()


def test_it_is_not_blank_before_anything_has_happened():
    screen = Screen(Seen(lambda: None), "mirror.toml", Console(file=io.StringIO(), width=100, height=40))
    assert "starting" in shown(screen)
    assert "the first polls begin in a moment" in shown(screen)
    assert "Ctrl-C ends it" in shown(screen)
    screen(Event(0.0, "planner", "", "planning for 3 elements", {}))
    assert "starting" in shown(screen)
    screen(Event(1.0, "poll", "a", "", {"outcome": "new", "traffic": 3}))
    assert "starting" not in shown(screen)
    assert "1 poll" in shown(screen)
