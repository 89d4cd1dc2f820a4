"""``unstale demo``: a small site that changes by itself, a mirror of it, and the dashboard."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unstale.cli.shared.options import DURATION, Count
from unstale.cli.shared.printing import console, print_json, print_table, say
from unstale.errors import InvalidInput, MissingExtra, need
from unstale.quantities import show_duration, show_number, show_share

from .serve import WEB_MODULES, serving

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

    from unstale.mirror.demo.demo import Demo, DemoSummary, Moment

_EXAMPLES = """\b
Examples:
  unstale demo
  unstale demo --for 60s
  unstale demo --for 60s --no-serve --json
"""
_LINE_SECONDS, _FIRST_LINES_SECONDS = 5.0, 1.0
"""Between two lines; and between those of the first seconds."""
_UNKNOWN = "..."
"""Of what cannot be told yet."""
_HEADINGS = ("after", "estimated", "true", "uniform", "proportional", "polls")


@click.command(epilog=_EXAMPLES)
@click.option("--for", "length", type=DURATION, help="End after so long: 60s.")
@click.option("--port", type=Count(0, 65535), default=0, help="Of the dashboard; 0: any that is free.")
@click.option("--no-serve", is_flag=True, help="Do without the dashboard.")
@click.option("--seed", type=Count(0), default=0, help="Another number makes another site.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def demo(*, length: float | None, port: int, no_serve: bool, seed: int, as_json: bool) -> None:
    """Mirror a small site that changes by itself, with the truth beside it.

    The site has 500 pages, on this machine, that change fast and at very different rates, some in bursts and
    some by the clock; and some are wanted far more than others. The mirror may poll 70 times a second. Every
    few seconds a line tells how fresh it believes its copies to be, how fresh they are, and how fresh they
    would be if as many polls were uniform, or proportional to the true rates of changes.

    The dashboard shows the same and more; it needs the extra web, and the rest runs without it.

    It goes on until Ctrl-C, prints a summary, and leaves nothing behind.
    """
    with ExitStack() as stack:
        out = console(stderr=as_json)
        say(out, "A small site, a mirror of it and its dashboard start ...", apart=False)
        from unstale.mirror.demo.demo import Demo

        folder = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="unstale-demo-", ignore_cleanup_errors=True)
        )
        waiting = stack.enter_context(out.status("making its pages"))
        show = _Show(Demo(Path(folder), seed=seed), out, folder, waiting)
        if not no_serve:
            show.dashboard = _serve(stack, folder, port, show.out)
        try:
            summary = asyncio.run(show.demo.run(length, on_start=show.start, on_moment=show.moment))
        except KeyboardInterrupt:  # before the mirror was running, which takes it for the end
            summary = show.demo.summary()
        if show.error is not None:
            raise show.error
    if as_json:
        print_json(_as_json(summary))
    else:
        _print_summary(show.out, summary)


def _serve(stack: ExitStack, folder: str, port: int, out: Console) -> Callable[[], str] | None:
    """Start the dashboard, if it is installed; return what waits for its address."""
    try:
        for module in WEB_MODULES:
            need(module, extra="web", needed_for="the dashboard and the API")
    except MissingExtra as error:
        say(out, f"There is no dashboard, because {error}", apart=False)
        return None
    return stack.enter_context(serving(folder, port))


class _Show:
    """Tells what happens, calmly."""

    def __init__(self, demo: Demo, out: Console, folder: str, waiting: Status) -> None:
        self.demo, self.out, self._folder, self._waiting = demo, out, folder, waiting
        self.dashboard: Callable[[], str] | None = None
        """Waits for its address."""
        self.error: Exception | None = None
        """Why there is no dashboard."""
        self._began = 0.0
        self._introduced = threading.Event()
        self._next = _FIRST_LINES_SECONDS
        self._since: list[Moment] = []

    def start(self, url: str) -> None:
        """Say what there is."""
        site, out = self.demo.site, self.out
        self._waiting.update("its dashboard starts")
        say(
            out,
            f"The site at {url}/ has {len(site)} pages and changes by itself, about "
            f"{show_number(round(float(site.rates.sum())))} times a second. Its mirror may poll "
            f"{show_number(self.demo.budget)} times a second.",
            apart=False,
        )
        self._began = self.demo.clock.now()
        threading.Thread(target=self._introduce, daemon=True).start()

    def _introduce(self) -> None:
        """Say where the dashboard is, which starts while the mirror polls already, and what will be shown."""
        out = self.out
        out.print()
        if self.dashboard is not None:
            try:
                address = self.dashboard()
            except InvalidInput as error:
                self.error = error
                self.demo.mirror.stop()
                return
            out.print(f"Dashboard: {address}", style="bold", soft_wrap=True)
        self._waiting.stop()
        out.print(f"In another terminal: unstale status --mirror {self._folder}", soft_wrap=True)
        say(out, "How fresh the copies are, by weight of the pages (Ctrl-C ends it):")
        out.print()
        out.print(_line(_HEADINGS), style="bold")
        self._introduced.set()

    def moment(self, moment: Moment) -> None:
        """Print a line now and then: means since the last one."""
        self._since.append(moment)
        after = moment.time - self._began
        if after < self._next or not self._introduced.is_set():
            return
        some, self._since = self._since, []
        step = _FIRST_LINES_SECONDS if after < _LINE_SECONDS - 0.5 * _FIRST_LINES_SECONDS else _LINE_SECONDS
        self._next = (after // step + 1.0) * step
        shares = [
            [one.estimated for one in some],
            [one.true for one in some],
            *([one.beside[name] for one in some] for name in _HEADINGS[3:5]),
        ]
        line = _line([f"{int(after)}s", *map(_mean, shares), f"{moment.polls:,}"])
        self.out.print(f"{line}{self._why_unknown(moment)}", soft_wrap=True)

    def _why_unknown(self, moment: Moment) -> str:
        """Say what the mirror does while it does not estimate yet."""
        pages = len(self.demo.site)
        if not isnan(moment.estimated):
            return ""
        if moment.copies < pages:
            return f"   first copies: {moment.copies} of {pages}"
        return "   compiling formulas, once"


def _mean(shares: list[float]) -> str:
    known = [one for one in shares if not isnan(one)]
    return show_share(sum(known) / len(known)) if known else _UNKNOWN


def _line(cells: Sequence[str]) -> str:
    """Return cells under each other."""
    widths = (max(len(name), 6) for name in _HEADINGS)
    return "  ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))


def _print_summary(out: Console, summary: DemoSummary) -> None:
    if isnan(summary.true):
        say(out, f"It ended after {show_duration(summary.seconds)}, before anything could be measured.")
        return
    out.print()
    rows = [
        ("the mirror, as it estimates", summary.estimated),
        ("the mirror, in truth", summary.true),
        ("optimum for known rates", summary.beside["optimal"]),
        ("uniform", summary.beside["uniform"]),
        ("proportional to known rates", summary.beside["proportional"]),
    ]
    measured = show_duration(round(summary.seconds - summary.warm_up))
    print_table(
        out,
        ("on the same changes", f"fresh in the last\n{measured}"),
        [(name, "not planned yet" if isnan(value) else show_share(value)) for name, value in rows],
    )
    off = 100.0 * summary.difference
    say(
        out,
        f"In {show_duration(round(summary.seconds))} pages changed {summary.changes:,} times, and there were "
        f"{summary.polls:,} polls of {round(summary.allowed):,} that the budget allowed. What the mirror "
        f"says of itself is {abs(off):.1f} points too {'high' if off > 0 else 'low'} on average.",
    )
    if summary.short:
        say(out, "So short a run says little; within a minute you see it learn.")


def _as_json(summary: DemoSummary) -> dict[str, Any]:
    return {
        "seconds": round(summary.seconds, 3),
        "warm_up": round(summary.warm_up, 3),
        "pages": summary.pages,
        "changes": summary.changes,
        "polls": summary.polls,
        "allowed": round(summary.allowed, 1),
        "freshness": {"estimated": summary.estimated, "true": summary.true, **summary.beside},
        "planned": summary.planned,
        "difference": summary.difference,
    }
