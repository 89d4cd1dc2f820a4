"""``unstale compare``: the policies side by side."""

from __future__ import annotations

import shlex
from typing import Any

import click

from unstale.cli.shared.options import plot_option, problem_options
from unstale.cli.shared.plots import check_plot
from unstale.cli.shared.printing import console, has_own_cost, print_json, print_table, say, show_cost
from unstale.cli.shared.problem import EXAMPLE, Task, load_or_example
from unstale.cli.shared.progress import progress, told_of_compilation
from unstale.errors import InvalidInput
from unstale.quantities import show_share

from .report import ComparedPolicy, compare_policies

_EXAMPLES = """\b
Examples:
  unstale compare
  unstale compare pages.csv --budget 1000/day
  unstale compare pages.csv --budget 1000/day --plot policies.svg
"""


@click.command(epilog=_EXAMPLES)
@problem_options(file_required=False, budget_required=False)
@plot_option
def compare(*, file: str | None, as_json: bool, plot: str | None, **options: Any) -> None:  # noqa: ANN401
    """Compare polling policies on the elements of FILE.

    Without FILE, on a bundled example: 220 pages, their changes per day and their weights. What FILE holds is
    told by unstale plan --help.
    """
    check_plot(plot)
    problem = load_or_example(file, options)
    if not problem.task.amount:
        raise InvalidInput("--budget must be given with FILE, and more than nothing: --budget 1000/day")
    with told_of_compilation(), progress(f"planning {len(problem.elements):,} elements"):
        outcomes = compare_policies(problem)
    if plot is not None:
        from .compare_plot import draw_comparison

        draw_comparison(plot, problem.task, outcomes)
    if as_json:
        print_json(problem.task.as_json() | {"policies": [one.as_json() for one in outcomes], "plot": plot})
    else:
        _print(problem.task, outcomes, plot)


def _print(task: Task, outcomes: list[ComparedPolicy], plot: str | None) -> None:
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
            show_share(one.bought.freshness),
            task.show_time(one.bought.age),
            f"{one.bought.never_polled:,}",
            f"{one.tenths[-1]:.0%}",
        ]
        if with_cost:
            row.append(show_cost(objective, one.bought.cost)[1])
        rows.append(row)
    print_table(screen, columns, rows)
    say(screen, _reading(task, outcomes))
    if plot is not None:
        say(screen, f"{plot} has the picture.")


def _reading(task: Task, outcomes: list[ComparedPolicy]) -> str:
    if task.file == EXAMPLE:
        by_name = {one.label: one for one in outcomes}
        findings = []
        if min(outcomes, key=lambda one: one.bought.freshness) is by_name["proportional"]:
            findings.append("polling most often what changes most often is the worst of all")
        if by_name["optimal for freshness"].bought.never_polled:
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
