"""``unstale cells``: the cells of a mirror that has several."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from unstale.cli.shared.printing import console, print_json, print_table, say
from unstale.errors import InvalidInput
from unstale.quantities import show_share
from unstale.wording import distance, plural

from .open import OpenedCells, mirror_options, open_any

if TYPE_CHECKING:
    from unstale.mirror.cells.directory import CellState

_LIST = """\b
Examples:
  unstale cells list
  unstale cells list --json | jq '.cells[] | select(.runner == null)'
"""


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cells() -> None:
    """Look at the cells of a mirror that has several."""


@cells.command("list", epilog=_LIST)
@mirror_options
def list_cells(*, mirror_file: str | None, as_json: bool) -> None:
    """Tell where each cell is, who works on it, and its part of the budget.

    Elements are divided among cells by their groups. Each cell has its own tables, planner and workers; all
    go by about the same price. A part of the budget that was given counts until another is.
    """
    with open_any(mirror_file) as opened:
        if not isinstance(opened, OpenedCells):
            raise InvalidInput("this mirror has one cell: say cells = N below [mirror] before it is made")
        states, now = opened.mirror.directory.states(), opened.mirror.clock.now()
        counts = [opened.mirror.count(one.cell) for one in states]
        runners = opened.mirror.directory.runners()
        again = opened.again
    if as_json:
        print_json({"runners": runners, "cells": [_json(*one) for one in zip(states, counts, strict=True)]})
        return
    out = console()
    out.print(
        f"{plural(len(states), 'cell')}, {plural(sum(counts), 'element')}, {plural(runners, 'runner')}.\n"
    )
    rows = [
        (
            str(one.cell.number),
            f"{one.cell.server} {one.cell.place}".strip(),
            f"{count:,}",
            show_share(one.share),
            "" if one.price is None else f"{one.price:.3g}",
            one.cell.state or one.runner.rpartition(":")[0] or "nobody",
            "never" if one.told is None else distance(one.told, now),
        )
        for one, count in zip(states, counts, strict=True)
    ]
    print_table(out, ("cell", "where", "elements", "budget", "price", "runner", "told"), rows)
    if not runners:
        say(out, f"Nobody is polling. Start with: unstale run{again}")


def _json(state: CellState, count: int) -> dict[str, object]:
    from unstale.mirror.json_values import as_json

    return {
        "cell": state.cell.number,
        "parts": state.cell.parts,
        "server": state.cell.server or None,
        "place": state.cell.place,
        "elements": count,
        "share": state.share,
        "price": state.price,
        "runner": state.runner or None,
        "told": as_json(state.told),
        "state": state.cell.state or "open",
    }
