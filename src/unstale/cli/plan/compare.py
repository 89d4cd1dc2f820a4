"""``unstale compare``: the policies side by side."""

from __future__ import annotations

import shlex
from dataclasses import replace
from importlib.resources import as_file, files
from typing import Any

import click

from unstale.cli.shared.options import load, problem_options
from unstale.cli.shared.printing import console, has_own_cost, print_json, print_table, say, show_cost
from unstale.cli.shared.problem import Problem, Task
from unstale.cli.shared.progress import progress, told_of_compilation
from unstale.errors import InvalidInput
from unstale.quantities import Flow, show_share, time_unit

from .policy_outcomes import Outcome, what_policies_buy

__all__ = ["compare", "load_or_example"]

EXAMPLE = "the bundled example"
_EXAMPLES = """\b
Examples:
  unstale compare
  unstale compare pages.csv --budget 1000/day
  unstale compare pages.csv --budget 1000/day --plot policies.svg
"""


@click.command(epilog=_EXAMPLES)
@problem_options(file_required=False, budget_required=False)
@click.option("--plot", metavar="FILE", help="Draw it: .svg, .png or .pdf.")
def compare(*, file: str | None, as_json: bool, plot: str | None, **options: Any) -> None:  # noqa: ANN401
    """Compare polling policies on the elements of FILE.

    Without FILE, on a bundled example: 220 pages, their changes per day and their weights. What FILE holds is
    told by unstale plan --help.
    """
    if plot is not None:
        from unstale.cli.shared.plots import check_plot

        check_plot(plot)
    problem = load_or_example(file, options)
    if not problem.task.amount:
        raise InvalidInput("--budget must be given with FILE, and more than nothing: --budget 1000/day")
    with told_of_compilation(), progress(f"planning {len(problem.elements):,} elements"):
        outcomes = what_policies_buy(problem)
    if plot is not None:
        from unstale.cli.shared.plots import draw_comparison

        draw_comparison(plot, problem.task, outcomes)
    if as_json:
        print_json(problem.task.as_json() | {"policies": [one.as_json() for one in outcomes], "plot": plot})
    else:
        _print(problem.task, outcomes, plot)


def load_or_example(file: str | None, options: dict[str, Any]) -> Problem:
    """Read the file; without one, take the bundled example."""
    if file is not None:
        return load(file, **options)
    if options["columns"] or options["rate_unit"].name != "day":
        raise InvalidInput("--column and --rate-unit need FILE; the bundled example has its own")
    budget = options["budget"] or Flow(220.0, "polls", time_unit("--rate-unit", "day"))
    with as_file(files("unstale").joinpath("data/example.csv")) as path:
        problem = load(str(path), **options | {"budget": budget})
    return replace(problem, task=replace(problem.task, file=EXAMPLE))


def _print(task: Task, outcomes: list[Outcome], plot: str | None) -> None:
    screen = console()
    screen.print(f"{task}\n")
    columns = ["policy", "fresh", "mean age", "never\npolled", "budget on the\nfastest tenth"]
    objective = outcomes[-1].objective or "freshness"
    with_cost = has_own_cost(objective)
    if with_cost:
        columns.append(show_cost(objective, 0.0)[0])
    rows = []
    for one in outcomes:
        row = [
            one.label,
            show_share(one.freshness),
            task.show_time(one.age),
            f"{one.never_polled:,}",
            f"{one.tenths[-1]:.0%}",
        ]
        if with_cost:
            row.append(show_cost(objective, one.cost)[1])
        rows.append(row)
    print_table(screen, columns, rows)
    say(screen, _reading(task, outcomes))
    if plot is not None:
        say(screen, f"{plot} has the picture.")


def _reading(task: Task, outcomes: list[Outcome]) -> str:
    if task.file == EXAMPLE:
        by_name = {one.label: one for one in outcomes}
        findings = []
        if min(outcomes, key=lambda one: one.freshness) is by_name["proportional"]:
            findings.append("polling most often what changes most often is the worst of all")
        if by_name["optimal for freshness"].never_polled:
            findings.append("the optimum gives up on pages that would be stale again at once")
        found = "; ".join(findings)
        return (
            "fresh: the share of page views that see the current version. "
            + (f"{found[0].upper()}{found[1:]}. docs/theory.md says why. " if found else "")
            + "Your own elements: unstale compare FILE --budget 1000/day"
        )
    file = "FILE" if task.file == "-" else shlex.quote(task.file)
    return (
        "fresh: the share of time for which copies are up to date, by weight. "
        f"unstale plan {file} --budget {shlex.quote(task.budget_as_typed)} writes the frequencies."
    )
