"""``unstale estimate``: change rates from a log of polls."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unstale import quantities
from unstale.cli.shared.options import (
    DURATION,
    SHARE,
    Count,
    Quantity,
    check_out,
    column_option,
    json_option,
    out_option,
)
from unstale.cli.shared.plots import check_plot
from unstale.cli.shared.printing import console, print_json
from unstale.cli.shared.progress import progress, told_of_compilation
from unstale.errors import InvalidInput
from unstale.quantities import TimeUnit
from unstale.tables import POLL_ROLES, PollLog, bad_file, open_rows, poll_table, write_csv

if TYPE_CHECKING:
    from unstale.estimation.rates.estimators import Method

METHODS = ("bayes", "mle", "last-modified", "bias-reduced", "naive", "lln", "stochastic-approximation")
_EXAMPLES = """\b
Examples:
  unstale estimate polls.csv
  unstale estimate polls.csv --out rates.parquet
  unstale estimate polls.csv.gz --column key=url --column time=fetched_at --by host
  unstale estimate polls.parquet --half-life 60d --rate-unit week --plot gaps.png
  unstale estimate polls.csv | unstale plan - --budget 1000/day > plan.csv
"""


@click.command(epilog=_EXAMPLES)
@click.argument("file", metavar="FILE")
@click.option(
    "--rate-unit",
    "--unit",
    "unit",
    type=Quantity("UNIT", quantities.time_unit),
    default="day",
    help="Rates are changes per second, minute, hour, day, week, month or year.",
)
@column_option(
    POLL_ROLES, f"What the file calls a column, with a role among {', '.join(POLL_ROLES)}: --column key=url."
)
@click.option("--by", metavar="COLUMN", help="Elements with the same entry here are alike: --by host.")
@click.option(
    "--method",
    type=click.Choice(METHODS),
    default="bayes",
    metavar="METHOD",
    help=f"How rates are estimated: {', '.join(METHODS)}.",
)
@click.option(
    "--half-life",
    type=DURATION,
    help="Forget, as rates drift: polls of so long before the last one count half. 60d.",
)
@click.option(
    "--level", type=SHARE, default="90%", help="How sure it is that the rate is between low and high."
)
@click.option("--law/--no-law", default=True, help="Say which law the changes follow; takes seconds.")
@click.option("--top", type=Count(0), default=10, help="Show so many.")
@click.option("--plot", metavar="FILE", help="Draw the gaps between changes: .svg, .png or .pdf.")
@out_option("the rates here")
@json_option
def estimate(
    *,
    file: str,
    unit: TimeUnit,
    columns: tuple[tuple[str, str], ...],
    by: str | None,
    method: Method,
    half_life: float | None,
    level: float,
    law: bool,
    top: int,
    plot: str | None,
    out: str | None,
    as_json: bool,
) -> None:
    """Estimate how often elements change, from polls of them.

    FILE has one row for each poll, with the columns key, time (seconds or timestamps) and changed (0 or 1:
    whether the element had changed since its poll before). It may have modified, the time of the last change
    as the poll saw it. It is CSV or TSV, perhaps gzipped, or Parquet; - is CSV on standard input. The first
    poll of an element only starts its clock.

    The answer has the columns key, rate (changes per --rate-unit), low, high, polls, changes, and shape and
    scale of the gamma law of the rate, and is a file for unstale plan, which goes by that law. It goes to
    --out; without that, a terminal shows the first rows, and a pipe gets all of them as CSV.
    """
    check_plot(plot)
    check_out(out, file)
    if half_life is not None and method != "bayes":
        raise InvalidInput(f"--half-life needs --method bayes; it is {method}")
    log = _read(file, dict(columns), by)
    _check(file, log, method)
    with told_of_compilation():
        from .laws import which_laws
        from .report import EstimatedRates, EstimateReport

        with progress(f"estimating {len(log.keys):,} rates"):
            learned = EstimatedRates.of(log, unit, method, level, half_life)
        with progress("fitting laws"):
            laws = which_laws(log) if law else None
        estimated = EstimateReport(file, unit, log, learned, half_life, top, laws)
        if plot is not None:
            from .plot import draw_gaps

            with progress("drawing"):
                draw_gaps(plot, file, log, estimated.laws)
    if out is not None:
        with progress(f"writing {out}"), open_rows(out, estimated.columns) as write:
            write(*estimated.rows())
    if as_json:
        print_json(estimated.as_json(with_rates=out is None) | {"plot": plot, "out": out})
    elif out is not None or sys.stdout.isatty():
        estimated.print(console(), plot, out)
    else:
        write_csv(sys.stdout, estimated.columns)(*estimated.rows())
        sys.stdout.flush()
        estimated.print(console(stderr=True), plot, out)


def _read(file: str, columns: dict[str, str], by: str | None) -> PollLog:
    table = poll_table(file, columns, by)
    with progress(f"reading {Path(table.path).name}", table.length) as advance:
        return table.read(advance)


def _check(file: str, log: PollLog, method: str) -> None:
    """Refuse a method that the polls have not enough for."""
    if method != "last-modified":
        return
    if log.ages is None:
        raise bad_file(
            file, "--method last-modified needs a column 'modified'; --column modified=NAME says which"
        )
    import numpy as np

    lost = int(np.count_nonzero(log.changed & np.isnan(log.ages)))
    if lost:
        said = "1 poll that saw one does" if lost == 1 else f"{lost:,} polls that saw one do"
        raise bad_file(
            file,
            f"--method last-modified needs to know when each change was, and {said} not say; "
            "--method bayes takes polls with and without it",
        )
