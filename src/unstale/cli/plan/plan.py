"""``unstale plan``: how often to poll each element of a file."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from unstale.cli.shared.options import check_out, out_option, policy_option, problem_options
from unstale.cli.shared.printing import console, print_json, print_table, printable
from unstale.cli.shared.problem import LoadedProblem, load
from unstale.cli.shared.progress import progress, told_of_compilation
from unstale.quantities import show_duration, show_number
from unstale.tables import as_list, bad_file, open_allocation, write_csv

from .in_parts import is_huge, plan_in_parts
from .report import PlanReport, PlanValue

if TYPE_CHECKING:
    from rich.console import Console

    from unstale.arguments import Floats

_ROWS_SHOWN = 10
_EXAMPLES = """\b
Examples:
  unstale plan pages.csv --budget 1000/day
  unstale plan pages.csv --budget 1000/day --objective age --out plan.csv
  unstale plan pages.parquet --budget 50/s --group-limit 60/h --out plan.parquet
  unstale plan /shared/pages.parquet --budget 9000/s --out plan.parquet --dask tcp://scheduler:8786
  unstale plan files.csv --budget 20MB/h --rate-unit week --column rate=updates
  zcat pages.csv.gz | unstale plan - --budget 1000/day > plan.csv
"""


@click.command(epilog=_EXAMPLES)
@problem_options(file_required=True, budget_required=True)
@policy_option
@out_option("the frequencies here")
@click.option("--stream", is_flag=True, help="Plan a Parquet file in parts, whatever its size.")
@click.option(
    "--dask",
    metavar="ADDRESS",
    help="Find the price on a cluster of Dask, with this scheduler, whose workers see FILE.",
)
def plan(
    *,
    file: str,
    as_json: bool,
    policy: str,
    out: str | None,
    stream: bool,
    dask: str | None,
    **options: Any,  # noqa: ANN401
) -> None:
    """Work out how often to poll each element of FILE.

    FILE has a column rate (changes per --rate-unit) and may have the columns key, weight, size (bytes of a
    poll) and group (most often a host). It is CSV or TSV, perhaps gzipped, or Parquet; - is CSV on standard
    input.

    Columns shape and scale, as unstale estimate writes them, are the gamma law of an uncertain rate, whose
    mean is shape times scale; then the plan is the best on average over what the rates may be. The law counts
    and not the rate, which may be missing; where the law is empty, the rate counts, and is certain.

    The answer has the columns key and frequency (polls per --rate-unit). It goes to --out; without that, a
    terminal shows the first rows, and a pipe gets all of them as CSV.
    """
    check_out(out, file)
    if stream or dask is not None or is_huge(file, out, policy, options):
        _tell(plan_in_parts(file, out, policy=policy, dask=dask, **options), as_json=as_json)
        return
    problem = load(file, **options)
    if policy in {"proportional", "square-root"} and not problem.elements.rates.any():
        raise bad_file(file, f"no element changes, so there is nothing for --policy {policy} to go by")
    report, frequencies = _planned(problem, policy, out)
    keys = problem.elements.keys
    if out is not None:
        with progress(f"writing {out}"), open_allocation(out, f"polls/{report.task.unit.name}") as write:
            write(keys, frequencies)
        _tell(report, as_json=as_json)
    elif as_json:
        pairs = zip(as_list(keys), frequencies.tolist(), strict=True)
        print_json(report.as_json() | {"allocation": [{"key": k, "frequency": f} for k, f in pairs]})
    elif sys.stdout.isatty():
        screen = console()
        report.print_bought(screen)
        _print_first(screen, problem, frequencies)
        report.print_next(screen)
    else:
        write_csv(sys.stdout, ["key", "frequency"])(keys, frequencies)
        sys.stdout.flush()
        report.print_bought(console(stderr=True))


def _tell(report: PlanReport, *, as_json: bool) -> None:
    if as_json:
        print_json(report.as_json())
        return
    screen = console()
    report.print_bought(screen)
    report.print_next(screen)


def _planned(problem: LoadedProblem, policy: str, out: str | None) -> tuple[PlanReport, Floats]:
    with told_of_compilation(), progress(f"planning {len(problem.elements):,} elements"):
        got = problem.plan(policy)
        report = PlanReport(problem.task, policy, got.price, got.gap, PlanValue.of(got), out)
        for name in ("uniform", "proportional"):
            if name != policy and (problem.elements.rates.any() or name == "uniform"):
                report.against[name] = PlanValue.of(problem.plan(name))
    return report, got.frequencies


def _print_first(screen: Console, problem: LoadedProblem, frequencies: Floats) -> None:
    unit, count = problem.task.unit, min(_ROWS_SHOWN, len(frequencies))
    names = as_list(problem.elements.keys[:count])
    rows = [
        (
            printable(name),
            show_number(frequency),
            show_duration(unit.seconds / frequency) if frequency else "never polled",
        )
        for name, frequency in zip(names, frequencies[:count].tolist(), strict=True)
    ]
    screen.print()
    print_table(screen, ("key", f"polls/{unit.name}", "a poll every"), rows, shorten=True)
    if len(frequencies) > count:
        screen.print(f"... and {len(frequencies) - count:,} more")
