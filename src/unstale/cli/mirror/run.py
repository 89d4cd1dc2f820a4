"""``unstale run``: poll, learn, and keep copies fresh."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unstale.cli.shared.options import DURATION, Count
from unstale.cli.shared.printing import console, say
from unstale.cli.shared.progress import told_of_compilation
from unstale.cli.shared.when import MOMENT
from unstale.errors import InvalidInput, UnstaleError, need
from unstale.wording import show_budget

from .open import Opened, OpenedCells, configured, mirror_options, open_any, open_cells
from .serve import PORT, serving

if TYPE_CHECKING:
    from unstale.mirror.cells.mirror import MirrorOfCells
    from unstale.mirror.engine.events import Event
    from unstale.mirror.mirror import Mirror
    from unstale.mirror.reports.status import Status

    from .run_display import JsonLines, LogLines, Screen, Seen

_EXAMPLES = """\b
Examples:
  unstale run
  unstale run --for 1h
  unstale run --once
  unstale run --serve
  unstale run --quiet >> mirror.log
  unstale run --json | jq 'select(.event == "change")'
"""


@click.command(epilog=_EXAMPLES)
@click.option("--for", "length", type=DURATION, help="End after so long: 1h.")
@click.option("--until", type=MOMENT, help="End then, in UTC unless it says otherwise: 2026-01-31.")
@click.option("--once", is_flag=True, help="Poll what is due now, and end.")
@click.option("--quiet", is_flag=True, help="Print only trouble.")
@click.option("--serve", is_flag=True, help="Serve the dashboard meanwhile, as unstale serve does.")
@click.option("--port", type=Count(0, 65535), help=f"On which port; 0: any that is free.  [default: {PORT}]")
@click.option("--token-file", metavar="FILE", help="With --serve: a file of tokens, as for unstale serve.")
@click.option("--telemetry", is_flag=True, help="Send traces and metrics to a collector (OpenTelemetry).")
@mirror_options
def run(
    *,
    length: float | None,
    until: datetime | None,
    once: bool,
    quiet: bool,
    serve: bool,
    port: int | None,
    token_file: str | None,
    telemetry: bool,
    mirror_file: str | None,
    as_json: bool,
) -> None:
    """Poll elements when they are worth it, and keep their copies, until interrupted.

    On a terminal, a screen shows what the mirror does. Elsewhere it prints a line for each change, a line for
    the first failure of an element, and a summary each minute.
    Ctrl-C or SIGTERM ends it. The mirror finishes polls that have begun and records them; it gives up queries
    of databases that take more than a second longer, and other polls that take more than three, and makes
    them again later. A second Ctrl-C ends it at once.
    SIGHUP makes it read mirror.toml again, unless it runs on a terminal: it finishes the polls that have
    begun, and goes on as the file says now. If the file has a mistake, it says so and changes nothing.
    """
    ends = [
        name for name, given in (("--for", length), ("--until", until), ("--once", once or None)) if given
    ]
    if len(ends) > 1:
        raise InvalidInput(f"{ends[0]} cannot be combined with {ends[1]}")
    for name, given in (("--port", port), ("--token-file", token_file)):
        if given is not None and not serve:
            raise InvalidInput(f"{name} is for the dashboard: say --serve, too")
    if serve and configured(mirror_file).settings.cells > 1:
        raise InvalidInput("--serve is for a mirror of one cell: serve each cell with unstale serve --cell N")
    with ExitStack() as stack:
        if serve and not (quiet or as_json) and sys.stderr.isatty():
            say(console(stderr=True), "The dashboard and the mirror start ...", apart=False)
        server = serving(mirror_file, PORT if port is None else port, token_file)
        at_once = serve and Path(configured(mirror_file).store).exists()  # or else we make the store first
        address = stack.enter_context(server) if at_once else None
        opened = stack.enter_context(open_any(mirror_file))
        if serve:
            address = stack.enter_context(server) if address is None else address
            _tell_address(address(), quiet=quiet, as_json=as_json)
        stack.enter_context(told_of_compilation())
        end = _end(length, until, opened.mirror.clock.now())
        listener = _telemetry(stack) if telemetry else None
        run_until(stack, opened, end, once=once, quiet=quiet, as_json=as_json, listener=listener)


def _telemetry(stack: ExitStack) -> Callable[[Event], None]:
    """Return what sends events to a collector, until the command ends."""
    need("opentelemetry.sdk", extra="telemetry", needed_for="--telemetry")
    from unstale.contrib.telemetry import Telemetry

    return stack.enter_context(Telemetry())


def run_until(
    stack: ExitStack,
    opened: Opened | OpenedCells,
    end: float | None,
    *,
    once: bool = False,
    quiet: bool = False,
    as_json: bool,
    listener: Callable[[Event], None] | None = None,
) -> None:
    """Run a mirror until a moment, or until it is interrupted, and show how it goes.

    Parameters
    ----------
    stack
        Closes the mirror, which is opened anew when mirror.toml is to be read again.
    opened, end
        The mirror, and when to end; None: when told to.
    once
        Whether to poll only what is due now.
    quiet, as_json
        Whether to print only trouble, or events as JSON.
    listener
        Hears the events as well.
    """
    while _work(opened, end, once=once, quiet=quiet, as_json=as_json, listener=listener):
        opened.mirror.close()
        opened = stack.enter_context(open_any(str(opened.config.path)))


def _tell_address(address: str, *, quiet: bool, as_json: bool) -> None:
    """Say where the dashboard is."""
    if as_json:
        click.echo(json.dumps({"event": "serving", "address": address}))
    elif not quiet:
        say(console(stderr=True), f"The dashboard is at {address}", apart=False)


def _end(length: float | None, until: datetime | None, now: float) -> float | None:
    """Return when to end."""
    if until is not None:
        if until.timestamp() <= now:
            raise InvalidInput(f"--until must be in the future; it is {until:%Y-%m-%d %H:%M:%S} UTC")
        return until.timestamp()
    return None if length is None else now + length


def _work(
    opened: Opened | OpenedCells,
    end: float | None,
    *,
    once: bool,
    quiet: bool,
    as_json: bool,
    listener: Callable[[Event], None] | None,
) -> bool:
    """Run the mirror until it ends; tell whether it should be opened again, since SIGHUP has come."""
    from .run_display import JsonLines, LogLines, Screen, Seen

    mirror = opened.mirror
    if next(iter(mirror.elements()), None) is None and not as_json and not quiet:
        say(console(stderr=True), f"There is nothing to poll yet: unstale add{opened.again} KEY", apart=False)
    budget = show_budget(mirror.settings.budget, mirror.settings.byte_budget)
    seen = Seen(lambda: _look(opened), budget=budget)
    with ExitStack() as stack:
        view: JsonLines | LogLines | Screen
        if as_json:
            view = JsonLines(seen)
        elif quiet or not sys.stdout.isatty():
            view = LogLines(seen, quiet=quiet)
        else:
            view = stack.enter_context(Screen(seen, str(opened.config.path), console()))
        tell = view if listener is None else _both(view, listener)
        if once:
            _step(mirror, tell, seen)
        else:
            reload = _Reload(opened)
            on_terminal = sys.stdin.isatty() or sys.stdout.isatty()  # whose end is that of what runs on it
            mirror.run(end, on_event=_settled(tell), on_hangup=None if on_terminal else reload)
            if reload.wanted:
                return True
            seen.hurried = end is None or mirror.clock.now() < end
    view.end()
    return False


def _both(one: Callable[[Event], None], other: Callable[[Event], None]) -> Callable[[Event], None]:
    def tell(event: Event) -> None:
        one(event)
        other(event)

    return tell


class _Reload:
    """Reads mirror.toml again; if it is sound, the runner ends, to be started anew."""

    def __init__(self, opened: Opened | OpenedCells) -> None:
        self._opened = opened
        self.wanted = False

    def __call__(self) -> None:
        path = self._opened.config.path
        try:
            configured(str(path))
        except UnstaleError as error:
            told = f"{path} has a mistake, so the mirror goes on as before: {error}"
            say(console(stderr=True), told, apart=False)
            return
        self.wanted = True
        say(console(stderr=True), f"The mirror reads {path} again", apart=False)
        self._opened.mirror.stop()


def _settled(view: Callable[[Event], None]) -> Callable[[Event], None]:
    """Once it runs, leave alone what has been loaded: to look at it for garbage takes a tenth of the time."""
    settled = False

    def tell(event: Event) -> None:
        nonlocal settled
        if event.kind == "tick" and not settled:
            settled = True
            gc.freeze()
        view(event)

    return tell


def _look(opened: Opened | OpenedCells) -> Status | None:
    """Look at the mirror through a door of its own: the loop must not wait for it, nor for a compiler."""
    from unstale.mirror.engine.rehearsal import is_ready, without_compiler
    from unstale.mirror.mirror import Mirror

    config = opened.config
    if isinstance(opened, OpenedCells):
        with open_cells(config) as cells:
            return cells.mirror.status() if is_ready() else without_compiler(cells.mirror.status)
    with Mirror(config.store, settings=config.settings, copies=config.copies) as mirror:
        return mirror.status() if is_ready() else without_compiler(mirror.status)


def _step(mirror: Mirror | MirrorOfCells, view: Callable[[Event], None], seen: Seen) -> None:
    """Poll what is due now; a machine that was too slow for it gets another chance."""
    for _ in range(3):
        if mirror.step(on_event=view) or seen.waits(mirror.clock.now()) or not _waiting(mirror):
            return


def _waiting(mirror: Mirror | MirrorOfCells) -> bool:
    """Tell whether some element has not been polled yet."""
    from unstale.mirror.mirror import Mirror

    if not isinstance(mirror, Mirror):
        return any(map(_waiting, mirror.mirrors()))
    with mirror.store.begin() as transaction:
        return transaction.count().get("new", 0) > 0
