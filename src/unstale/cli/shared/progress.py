"""Progress of long work: on stderr, on a terminal only, and only after a second."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

SHOWN_AFTER_SECONDS = 1.0


@contextmanager
def progress(
    label: str, total: float | None = None, shown: Callable[[float], str] | None = None
) -> Iterator[Callable[[float], None]]:
    """Yield a function that takes how much more is done; without a total, a spinner turns.

    ``shown`` writes how much is done, if a share of the whole does not say enough.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        SpinnerColumn,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    moving = [SpinnerColumn()] if total is None else [BarColumn(), TaskProgressColumn()]
    words = TextColumn("{task.description}{task.fields[reached]}", markup=False)
    bar = Progress(words, *moving, TimeElapsedColumn(), console=Console(stderr=True), transient=True)
    task = bar.add_task(label, total=total, reached="")
    done = 0.0

    def advance(count: float) -> None:
        nonlocal done
        done += count
        bar.update(task, advance=count, reached=f": {shown(done)}" if shown else "")

    timer = threading.Timer(SHOWN_AFTER_SECONDS, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield advance
    finally:
        timer.cancel()
        timer.join()
        if bar.live.is_started:
            bar.stop()


@contextmanager
def told_of_compilation() -> Iterator[Callable[[], bool]]:
    """Print a notice, once, if kernels have to be compiled: it takes seconds, and only the first time.

    Yields a function that tells whether the notice was printed.
    """
    from numba.core import event

    class Notice(event.Listener):
        told = False

        def on_start(self, _event: object) -> None:
            if not self.told:
                click.echo("compiling the kernels (once, some seconds) ...", err=True)
                self.told = True

        def on_end(self, _event: object) -> None:
            pass

    notice = Notice()
    with event.install_listener("numba:compile", notice):
        yield lambda: notice.told
