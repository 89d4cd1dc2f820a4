"""The command line: parse, call, print.

Heavy modules load inside the commands, so that ``--help`` is quick.
"""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from .errors import UnstaleError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="unstale")
def cli() -> None:
    """Keep local copies of other people's data as fresh as a polling budget allows."""


def main() -> None:
    """Run the command line; an error is one line on stderr and exit code 2."""
    try:
        cli(standalone_mode=True)
    except UnstaleError as error:
        click.echo(f"unstale: {error}", err=True)
        sys.exit(2)


@cli.command()
@click.option(
    "--budget", type=float, default=220.0, show_default=True, help="Polls per day, all elements together."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def compare(budget: float, *, as_json: bool) -> None:
    """Compare polling policies on the bundled example: 220 pages, their changes per day and their weights."""
    from importlib.resources import files

    import numpy as np

    table = files("unstale").joinpath("data/example.csv").read_text("utf-8").splitlines()[1:]
    rates, weights = np.array([[float(x) for x in line.split(",")[1:]] for line in table]).T
    with _told_of_compilation():
        from .planning import plan

        fastest = rates >= np.quantile(rates, 0.9)
        rows = []
        for label, policy, objective in (
            ("uniform", "uniform", "freshness"),
            ("proportional", "proportional", "freshness"),
            ("optimal for freshness", "optimal", "freshness"),
            ("optimal for age", "optimal", "age"),
        ):
            got = plan(rates, budget, weights=weights, objective=objective, policy=policy)  # type: ignore[arg-type]
            f = got.frequencies
            rows.append(
                {
                    "policy": label,
                    "freshness": got.freshness,
                    "age_days": got.age if np.isfinite(got.age) else None,
                    "never_polled": int(np.sum(f == 0)),
                    "budget_on_fastest_tenth": float(f[fastest].sum() / budget) if budget else 0.0,
                }
            )
    if as_json:
        click.echo(json.dumps({"elements": len(rates), "budget_per_day": budget, "policies": rows}, indent=2))
    else:
        _print_comparison(len(rates), budget, float(rates.sum()), rows)


def _print_comparison(count: int, budget: float, changes: float, rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console.print(
        f"{count} pages, about {changes:,.0f} changes a day, a budget of {budget:,.0f} polls a day\n"
    )
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("policy")
    for heading in ("fresh", "mean age", "never polled", "budget on the\nfastest tenth"):
        table.add_column(heading, justify="right", vertical="bottom")
    for row in rows:
        table.add_row(
            row["policy"],
            f"{row['freshness']:.1%}",
            "unbounded" if row["age_days"] is None else _duration(row["age_days"]),
            str(row["never_polled"]),
            f"{row['budget_on_fastest_tenth']:.0%}",
        )
    console.print(table)
    console.print(
        "\nfresh: the share of page views that see the current version. Polling most often what changes most "
        "often is the worst of all; the optimum gives up on pages that would be stale again at once. "
        "docs/theory.md says why."
    )


def _duration(days: float) -> str:
    """A length of time in the unit that suits it."""
    if days >= 2:
        return f"{days:.1f} days"
    return f"{days * 24:.1f} hours" if days * 24 >= 2 else f"{days * 1440:.1f} minutes"


@contextmanager
def _told_of_compilation() -> Iterator[None]:
    """Say so, once, if kernels have to be compiled: it takes seconds, and only the first time."""
    from numba.core import event

    class Notice(event.Listener):
        told = False

        def on_start(self, _event: object) -> None:
            if not self.told:
                click.echo("compiling the kernels (once, some seconds) ...", err=True)
                self.told = True

        def on_end(self, _event: object) -> None:
            pass

    with event.install_listener("numba:compile", Notice()):
        yield
