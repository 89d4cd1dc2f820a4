"""``unstale cells``: the cells of a mirror that has several."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from unstale.cli.shared.options import Count
from unstale.cli.shared.printing import console, print_json, print_table, say
from unstale.cli.shared.progress import progress
from unstale.errors import InvalidInput
from unstale.quantities import show_share
from unstale.wording import distance, plural

from .open import OpenedCells, mirror_options, open_any

if TYPE_CHECKING:
    from unstale.mirror.cells.change import Step
    from unstale.mirror.cells.directory import CellState

_LIST = """\b
Examples:
  unstale cells list
  unstale cells list --json | jq '.cells[] | select(.runner == null)'
"""


_MOVE = """\b
Examples:
  unstale cells move 3 db2:5432/mirror
  unstale cells move 3 /mnt/disk2/
"""
_SPLIT = """\b
Examples:
  unstale cells split 3
"""
_DOING = {
    "waiting": "waiting until nobody works on it",
    "copies": "giving the new cell its copies",
    "rows": "copying rows",
    "switching": "switching",
    "dropping": "dropping what is old",
}


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cells() -> None:
    """Look at the cells of a mirror that has several, move them, split them."""


@cells.command("list", epilog=_LIST)
@mirror_options
def list_cells(*, mirror_file: str | None, as_json: bool) -> None:
    """Tell where each cell is, who works on it, and its part of the budget.

    Elements are divided among cells by their groups. Each cell has its own tables, planner and workers; all
    go by about the same price. A part of the budget that was given counts until another is.
    """
    with _cells_of(mirror_file) as opened:
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
            _doing(one) or one.runner.rpartition(":")[0] or "nobody",
            "never" if one.told is None else distance(one.told, now),
        )
        for one, count in zip(states, counts, strict=True)
    ]
    print_table(out, ("cell", "where", "elements", "budget", "price", "runner", "told"), rows)
    if not runners:
        say(out, f"Nobody is polling. Start with: unstale run{again}")


@cells.command("move", epilog=_MOVE)
@click.argument("number", metavar="CELL", type=Count(0))
@click.argument("server", metavar="SERVER")
@mirror_options
def move_cell(*, number: int, server: str, mirror_file: str | None, as_json: bool) -> None:
    """Move a cell to another database of the mirror, or another file.

    SERVER is one of those that store and servers in mirror.toml name, without user and password, as
    unstale cells list shows them; or where the file is to be, if cells are files. The mirror may run
    meanwhile: the cell is let go, nobody can write to it while its rows are copied, and then it is taken up
    where it is. If this ends in the middle, however it does, the cell is whole in one of both places.
    """
    with _cells_of(mirror_file) as opened, _shown(f"moving cell {number}") as tell:
        cell = opened.mirror.move(number, server, tell=tell)
        elements = opened.mirror.count(cell)
    if as_json:
        print_json({"cell": number, "server": cell.server or None, "place": cell.place, "elements": elements})
        return
    where = f"{cell.server} {cell.place}".strip()
    console().print(f"Cell {number} is in {where} now, with {plural(elements, 'element')}.", soft_wrap=True)


@cells.command("split", epilog=_SPLIT)
@click.argument("number", metavar="CELL", type=Count(0))
@mirror_options
def split_cell(*, number: int, mirror_file: str | None, as_json: bool) -> None:
    """Divide a cell in two, by its groups; each half gets a part of its budget.

    The mirror may run meanwhile, as with move. The new cell is in the same database; move it from there.
    """
    with _cells_of(mirror_file) as opened, _shown(f"splitting cell {number}") as tell:
        halves = opened.mirror.split(number, tell=tell)
        shares = {one.cell.number: one.share for one in opened.mirror.directory.states()}
        counts = [opened.mirror.count(cell) for cell in halves]
    if as_json:
        rows = [
            {"cell": cell.number, "parts": cell.parts, "elements": count, "share": shares[cell.number]}
            for cell, count in zip(halves, counts, strict=True)
        ]
        print_json({"cells": rows})
        return
    for cell, count in zip(halves, counts, strict=True):
        share = show_share(shares[cell.number])
        console().print(f"Cell {cell.number}: {plural(count, 'element')}, {share} of the budget.")


@contextmanager
def _cells_of(mirror_file: str | None) -> Iterator[OpenedCells]:
    with open_any(mirror_file) as opened:
        if not isinstance(opened, OpenedCells):
            raise InvalidInput("this mirror has one cell: say cells = N below [mirror] before it is made")
        yield opened


@contextmanager
def _shown(label: str) -> Iterator[Callable[[Step], None]]:
    """Show how far a change of a cell has come."""
    last = 0
    doing = ""
    with progress(label, 1.0, lambda _: doing) as advance:

        def tell(step: Step) -> None:
            nonlocal last, doing
            share = round(1000 * step.done / step.total) if step.total else 0
            if step.doing == "copies":
                share = 0
            doing = _DOING[step.doing]
            if step.total:
                doing += f", {step.done:,} of {step.total:,}"
            advance(max(share - last, 0) / 1000)
            last = max(share, last)

        yield tell


def _doing(state: CellState) -> str:
    """Say what is being done to a cell."""
    from unstale.mirror.cells.change import CellChange

    return CellChange.read(state.cell.state).in_words() if state.cell.changes else ""


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
        "state": _doing(state) or "open",
    }
