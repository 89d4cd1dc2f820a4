"""``unstale warm-up``: compile all kernels at once, when an image is built or a machine set up."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import click

from unstale.cli.shared.printing import console, print_json, say
from unstale.errors import UnstaleError
from unstale.kernel_cache import ENVIRONMENT
from unstale.quantities import show_duration
from unstale.wording import plural

_EXAMPLES = """\b
Examples:
  unstale warm-up
  RUN pip install 'unstale[web]' && unstale warm-up      in a Dockerfile
"""
_PAGES = "key,rate,weight,group\n" + "".join(f"p{i},{0.1 * (i + 1)},1,g{i % 3}\n" for i in range(30))
_LAWS = "key,shape,scale\n" + "".join(f"p{i},{1 + i % 4},{0.1 * (i + 1)}\n" for i in range(30))
_POLLS = "key,time,changed\n" + "".join(
    f"p{i},2026-01-{day:02}T00:00:00Z,{int(day % (i + 1) == 0)}\n" for i in range(9) for day in range(1, 29)
)
_COMMANDS = (
    "compare pages.csv --budget 10/day",
    "plan pages.csv --budget 10/day --group-limit 2/day",
    "plan pages.csv --budget 10/day --objective age",
    "plan laws.csv --budget 10/day",
    "whatif pages.csv --freshness 80%",
    "schedule pages.csv --budget 10/day --for 1day",
    "simulate pages.csv --budget 10/day --horizon 5d --policy optimal --policy uniform --policy learning",
    "estimate polls.csv",
)


@click.command("warm-up", epilog=_EXAMPLES)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def warm_up(*, as_json: bool) -> None:
    """Compile all kernels now, so that nothing has to wait for them later.

    They are compiled once on each machine, most often when they are first needed, and kept beside the
    package, or in the user's cache if that is read-only. In an image they are there from the beginning: run
    this when it is built. Containers use them also if they run as another user, or may write nowhere.
    """
    from numba.core import event

    compiled: list[str] = []

    class _Count(event.Listener):
        def on_start(self, one: event.Event) -> None:
            compiled.append(one.data["dispatcher"].__name__)

        def on_end(self, one: event.Event) -> None:
            pass

    began = time.monotonic()
    out = console()
    with event.install_listener("numba:compile", _Count()), tempfile.TemporaryDirectory() as folder:
        for name, step in _steps(Path(folder)):
            before = len(compiled)
            step()
            if len(compiled) > before and not as_json:
                out.print(f"{name}: {plural(len(compiled) - before, 'kernel')} compiled", soft_wrap=True)
    chosen = os.environ.get(ENVIRONMENT)
    where = f"in {chosen}" if chosen else "beside the package, or in the user's cache if that is read-only"
    seconds = time.monotonic() - began
    if as_json:
        print_json({"kernels": len(compiled), "seconds": round(seconds, 3), "where": where})
    elif compiled:
        say(out, f"All is compiled, in {show_duration(round(seconds))}. Kernels are kept {where}.")
    else:
        say(out, "All was compiled already.", apart=False)


def _steps(folder: Path) -> list[tuple[str, Callable[[], None]]]:
    """Return what is run, with its name: what a user would run, on a few rows."""
    for name, text in (("pages.csv", _PAGES), ("laws.csv", _LAWS), ("polls.csv", _POLLS)):
        (folder / name).write_text(text)

    def command(words: str) -> Callable[[], None]:
        return lambda: _run([str(folder / word) if word.endswith(".csv") else word for word in words.split()])

    return [("the mirror", _mirror), *((f"unstale {words}", command(words)) for words in _COMMANDS)]


def _mirror() -> None:
    from unstale.mirror.engine.rehearsal import rehearse_all

    for objective in ("freshness", "age"):
        rehearse_all(objective)


def _run(arguments: list[str]) -> None:
    """Run a command for nothing."""
    from .program import cli

    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        try:
            cli.main(arguments, prog_name="unstale", standalone_mode=False)
        except UnstaleError as error:
            raise AssertionError(f"unstale {' '.join(arguments)}: {error}") from error
