"""Printing: tables, sentences and JSON."""

from __future__ import annotations

import json
import math
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from unstale.quantities import show_duration, show_number, show_share, time_unit

if TYPE_CHECKING:
    from rich.console import Console

_COSTS = {"missed-updates": "missed\nchanges", "harmonic": "harmonic\ncost"}
_GAP_LETTERS = 2
_SHORTEST_LETTERS = 10
"""Characters that a shortened entry has at least."""


def console(*, stderr: bool = False) -> Console:
    """Return where to print; numbers are not coloured, and brackets are not markup."""
    from rich.console import Console

    file = sys.stderr if stderr else sys.stdout
    width = None if file.isatty() else 100
    return Console(file=file, width=width, highlight=False, markup=False, emoji=False)


def print_table(
    out: Console, columns: Sequence[str], rows: Iterable[Sequence[str]], *, shorten: bool = False
) -> None:
    """Print rows under headings; the first column is text, the others are numbers.

    Nothing is cut, except entries of the first column if ``shorten`` says so. Where a table does not fit,
    each entry has a line of its own.
    """
    from rich.cells import cell_len
    from rich.table import Table

    rows = list(rows)
    entries = [
        [line for cell in column for line in cell.split("\n")] for column in zip(columns, *rows, strict=True)
    ]
    first, *others = [max(map(cell_len, column)) for column in entries]
    room = out.width - sum(others) - _GAP_LETTERS * len(others)
    if room < (min(first, _SHORTEST_LETTERS) if shorten else first):
        _print_list(out, columns, rows)
        return
    table = Table(box=None, pad_edge=False, padding=(0, _GAP_LETTERS, 0, 0), header_style="bold")
    table.add_column(columns[0], vertical="bottom", overflow="ellipsis", no_wrap=True, max_width=room)
    for column, width in zip(columns[1:], others, strict=True):
        table.add_column(column, justify="right", vertical="bottom", no_wrap=True, min_width=width)
    for row in rows:
        table.add_row(*row)
    out.print(table)


def _print_list(out: Console, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    names = [" ".join(column.split()) for column in columns[1:]]
    for name, *cells in rows:
        out.print(name, soft_wrap=True)
        for heading, cell in zip(names, cells, strict=True):
            out.print(f"  {heading}: {cell}", soft_wrap=True)


def say(out: Console, text: str, *, apart: bool = True) -> None:
    """Print a paragraph, with an empty line before it unless it belongs to what is there."""
    wrapped = textwrap.fill(text, min(out.width, 100), break_long_words=False, break_on_hyphens=False)
    out.print(f"\n{wrapped}" if apart else wrapped, soft_wrap=True)


def has_own_cost(objective: str) -> bool:
    """Tell whether the cost of an objective says more than freshness and age do."""
    return objective not in {"freshness", "age"}


def show_cost(objective: str, cost: float) -> tuple[str, str]:
    r"""Return the name and the value of the mean cost of an objective.

    >>> show_cost("currency:6h", 0.25), show_cost("missed-updates", 3.0)
    (('over 6h\nbehind', '25.0%'), ('missed\nchanges', '3'))
    """
    if objective.startswith("currency:"):
        return f"over {objective.partition(':')[2]}\nbehind", show_share(cost)
    return _COSTS[objective], show_number(cost)


def _digits(error: float) -> int:
    """Return how many digits after the point a value has whose error is this: two of the error's."""
    return min(max(1 - math.floor(math.log10(error)), 0), 9)


def _with_error(value: float, error: float) -> str:
    digits = _digits(error)
    return f"{value:,.{digits}f} ± {error:,.{digits}f}"


def show_share_with_error(value: float, error: float) -> str:
    """Return a share in per cent, and its standard error.

    >>> show_share_with_error(0.45678, 0.00123), show_share_with_error(1.0, 0.0)
    ('45.68 ± 0.12%', '100.0%')
    """
    return f"{_with_error(100 * value, 100 * error)}%" if error > 0 else show_share(value)


def show_share_beside(value: float, error: float) -> str:
    """Return a share in per cent, to be compared with one that has this standard error.

    >>> show_share_beside(0.45681, 0.00123)
    '45.68%'
    """
    return f"{100 * value:.{_digits(100 * error)}f}%" if error > 0 else show_share(value)


def show_time_with_error(seconds: float, error: float) -> str:
    """Return a time in the unit that suits it, and its standard error.

    >>> show_time_with_error(8880.0, 123.0), show_time_with_error(0.0, 0.0)
    ('2.467 ± 0.034 hours', '0 seconds')
    """
    if not (error > 0 and seconds > 0):
        return show_duration(seconds)
    if seconds < 1:
        return f"{_with_error(1e3 * seconds, 1e3 * error)} ms"
    units = [time_unit("unit", name) for name in ("year", "day", "hour", "minute", "second")]
    unit = next(unit for unit in units if seconds >= 1.9995 * unit.seconds or unit.seconds == 1)
    return f"{_with_error(seconds / unit.seconds, error / unit.seconds)} {unit.name}s"


def print_json(answer: dict[str, Any]) -> None:
    """Print JSON; what is infinite or undefined is null."""
    click.echo(json.dumps(_finite(answer), indent=2, allow_nan=False, ensure_ascii=False))


def _finite(value: Any) -> Any:  # noqa: ANN401  (whatever JSON takes)
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def printable(key: object) -> str:
    """Return a key without the characters that command a terminal.

    >>> printable("a" + chr(27) + "[2J")
    'a?[2J'
    """
    return "".join(character if character.isprintable() else "?" for character in str(key))
