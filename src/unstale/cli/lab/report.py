"""Printing experiments, and what came out of them."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from unstale.cli.shared.printing import console, say
from unstale.lab.experiment import Claim, Experiment, Verdict
from unstale.lab.results import Results, show_claim
from unstale.lab.running import Done
from unstale.quantities import show_number
from unstale.wording import plural

_COLOURS: dict[str, str] = {
    Verdict.REPRODUCES: "green",
    Verdict.APPROXIMATELY: "yellow",
    Verdict.CANNOT: "dim",
    Verdict.PAPER_IN_ERROR: "magenta",
    Verdict.OURS: "cyan",
    Verdict.DIFFERS: "bold red",
}
_LEAST_LETTERS_OF_CLAIM = 24
"""Letters that a claim has at least; with less, each entry has a line of its own."""


def experiment_as_json(one: Experiment) -> dict[str, Any]:
    """Return what is known of an experiment before it runs."""
    return {
        "name": one.name,
        "paper": str(one.paper),
        "title": one.paper.title,
        "where": one.where,
        "shows": one.shows,
        "seconds": one.seconds,
    }


def print_list(experiments: Sequence[Experiment]) -> None:
    """Print experiments, paper by paper."""
    out = console()
    for paper, some in groupby(experiments, lambda one: one.paper):
        title = f": {paper.title}" if paper.title else ""
        say(out, f"{paper}{title}", apart=False)
        rows = [(f"  {one.name}", f"{one.where}: {one.shows}", show_number(one.seconds)) for one in some]
        print_wrapped(out, ("  experiment", "what it shows", "seconds"), rows, wrap=1)
        out.print()
    total = sum(one.seconds for one in experiments)
    note = f"{len(experiments)} experiments, {show_number(total)} seconds on one core."
    say(out, f"{note} One: unstale lab run {experiments[0].name}", apart=False)
    say(out, "All, with a report: unstale lab run --all, or --all --quick", apart=False)


def print_wrapped(
    out: Console,
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    wrap: int,
    left: Sequence[int] = (),
) -> None:
    """Print rows under headings; the column ``wrap`` is text that is wrapped, the others are never cut.

    The first column, that one and those in ``left`` are aligned to the left, the others to the right. Where a
    table does not fit, each entry has a line of its own.
    """
    widths = [max(len(row[at]) for row in (headings, *rows)) for at in range(len(headings))]
    room = out.width - sum(widths) + widths[wrap] - 2 * (len(widths) - 1)
    if room < min(widths[wrap], _LEAST_LETTERS_OF_CLAIM):
        for first, *cells in rows:
            out.print(first)
            for heading, cell in zip(headings[1:], cells, strict=True):
                out.print(Text(f"  {heading}: ").append(cell, _style(cell)))
        return
    widths[wrap] = min(widths[wrap], room)
    to_left = {0, wrap, *left}

    def one_line(cells: Sequence[str]) -> Text:
        line = Text()
        for at, (cell, width) in enumerate(zip(cells, widths, strict=True)):
            line.append(f"{'  ' if at else ''}")
            line.append(f"{cell:<{width}}" if at in to_left else f"{cell:>{width}}", _style(cell))
        line.rstrip()
        return line

    out.print(one_line(headings), style="bold", soft_wrap=True)
    for row in rows:
        first, *more = textwrap.wrap(row[wrap], widths[wrap]) or [""]
        out.print(one_line([first if at == wrap else cell for at, cell in enumerate(row)]), soft_wrap=True)
        for text in more:
            cells = [text if at == wrap else "" for at in range(len(row))]
            out.print(one_line(cells), soft_wrap=True)


def _style(cell: str) -> str:
    """Return the colour of a verdict; other entries have none."""
    return _COLOURS.get(cell.partition(" [")[0], "")


def print_results(results: Results, folder: str, report: str | None) -> None:
    """Print what is published beside what is computed, experiment by experiment, and the sum of it."""
    out = console()
    for done in results.done:
        _print_done(out, done)
    _print_sum(out, results)
    if report is not None:
        say(out, f"{report} has all of it, and results.json the same for programs.")
    drawn = any(one.pictures for one in results.done)
    if drawn or any(one.findings.tables for one in results.done):
        what = "the figures and their data" if drawn else "the data"
        say(out, f"{Path(folder)} has {what}.", apart=report is None)


def _print_done(out: Console, done: Done) -> None:
    one = done.experiment
    out.print(f"{one.name}", style="bold")
    say(out, f"{one.paper}, {one.where}: {one.shows}", apart=False)
    out.print()
    if done.failure:
        say(out, f"failed: {done.failure}", apart=False)
    elif done.findings.claims:
        _print_claims(out, done.findings.claims)
    out.print()


def _print_claims(out: Console, claims: Sequence[Claim]) -> None:
    """Print claims; reasons stand below, numbered."""
    notes: dict[str, int] = {}
    rows = []
    for claim in claims:
        mark = f" [{notes.setdefault(claim.why, len(notes) + 1)}]" if claim.why else ""
        rows.append((*show_claim(claim), f"{claim.verdict}{mark}"))
    print_wrapped(out, ("claim", "published", "computed", "verdict"), rows, wrap=0, left=(3,))
    for why, at in notes.items():
        say(out, f"[{at}] {why}", apart=at == 1)


def _print_sum(out: Console, results: Results) -> None:
    counts = [f"{count} {_sum_word(verdict)}" for verdict, count in results.counts.items()]
    how = "quickly" if results.run.quick else "in full"
    claims = sum(results.counts.values())
    count = len(results.done)
    text = f"{plural(count, 'experiment')} run {how}, seed {results.run.seed}, {claims} claims"
    say(out, f"{text}: {', '.join(counts)}." if counts else f"{text}.", apart=False)
    differ = [one.experiment.name for one in results.done if not one.failure and not one.agrees]
    failed = [one.experiment.name for one in results.done if one.failure]
    if differ:
        say(out, f"Neither reproduced nor explained: see {', '.join(differ)}.")
    if failed:
        say(out, f"Failed: {', '.join(failed)}.")


def _sum_word(verdict: Verdict) -> str:
    return {
        Verdict.REPRODUCES: "reproduced",
        Verdict.APPROXIMATELY: "approximately",
        Verdict.CANNOT: "that cannot be computed here",
        Verdict.PAPER_IN_ERROR: "where the paper is in error",
        Verdict.OURS: "of our own",
        Verdict.DIFFERS: "that differ",
    }[verdict]
