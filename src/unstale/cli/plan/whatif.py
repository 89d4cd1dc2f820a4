"""``unstale whatif``: what other budgets buy, and what a target costs."""

from __future__ import annotations

import math
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource

from unstale.cli.shared.mirror_elements import names_mirror
from unstale.cli.shared.options import DURATION, SHARE, Count, Quantity, plot_option, problem_options
from unstale.cli.shared.plots import check_plot
from unstale.cli.shared.printing import console, has_own_cost, print_json, print_table, say, show_cost
from unstale.cli.shared.problem import EXAMPLE, LoadedProblem, Task, load_or_example
from unstale.cli.shared.progress import progress, told_of_compilation
from unstale.errors import InvalidInput, NoAnswer
from unstale.quantities import show_number, show_share
from unstale.tables import bad_file

from .report import BudgetCurve, BudgetTarget, show_target

if TYPE_CHECKING:
    from unstale.arguments import Floats
    from unstale.planning import Plan


class _Plans(NamedTuple):
    """One plan for each column of the answer."""

    fresh: Plan
    young: Plan
    uniform: Plan


_OF_MIRRORS = ("policy", "space", "replicas", "elements", "no_expiry", "hints", "jitter", "composed")
"""Options that need a mirror."""
_POLICIES = ("optimal", "uniform", "proportional")


def _space(name: str, text: str) -> int:
    """Read a number of bytes."""
    from unstale.mirror.config.values import size

    return size(name, text)


_EXAMPLES = """\b
Examples:
  unstale whatif pages.csv
  unstale whatif pages.csv --freshness 80% --age 6h
  unstale whatif pages.csv --budget 1000/day --plot curve.svg
  unstale whatif mirror.toml
  unstale whatif mirror.toml --order random --replicas 3 --space 1GB
  unstale whatif mirror.toml --hints 80% --composed 'shop#*'
"""


@click.command(epilog=_EXAMPLES)
@problem_options(file_required=False, budget_required=False)
@click.option("--freshness", type=SHARE, help="Find the budget for this: 80%.")
@click.option("--age", type=DURATION, help="Find the budget for this: 6h.")
@plot_option
@click.option("--policy", type=click.Choice(_POLICIES), help="Of a mirror: share the budget like this.")
@click.option("--space", type=Quantity("BYTES", _space), help="Of a mirror: room for all copies, 2GB.")
@click.option("--replicas", type=Count(1, 100), help="Of a mirror: so many take turns, each with its budget.")
@click.option("--elements", type=Count(1), help="Of a mirror: so many, such as following links would find.")
@click.option("--no-expiry", is_flag=True, help="Of a mirror: believe no Cache-Control and no Expires.")
@click.option("--hints", type=SHARE, help="Of a mirror: this share of changes comes with a hint, 80%.")
@click.option("--jitter", type=SHARE, help="Of a mirror: intervals vary by so much, 10%.")
@click.option(
    "--composed", multiple=True, metavar="PATTERN", help="Of a mirror: something is made from these."
)
def whatif(
    *,
    file: str | None,
    as_json: bool,
    freshness: float | None,
    age: float | None,
    plot: str | None,
    **options: Any,  # noqa: ANN401
) -> None:
    """Say what other budgets would buy, and which budget buys a target.

    FILE is a table of elements, or a mirror.toml: then it is about the elements of that mirror as it knows
    them, and ideas of the papers are tried on them, too. Nothing is changed by it.

    With --budget, that budget is marked. Without --objective, each column has the best that the budget can do
    for it: the freshness of the best plan for freshness, and the age of the best plan for age. Without FILE,
    the elements are the bundled example.
    """
    check_plot(plot)
    own = {name: options.pop(name) for name in _OF_MIRRORS}
    if file is not None and names_mirror(file):
        from .whatif_mirror import whatif_mirror

        if click.get_current_context().get_parameter_source("order") is ParameterSource.DEFAULT:
            options["order"] = None
        options |= {"age": age, "plot": plot, **own}
        whatif_mirror(file, as_json=as_json, freshness=freshness, **options)
        return
    for name, value in own.items():
        if value:
            option = f"--{name.replace('_', '-')}"
            raise InvalidInput(f"{option} needs a mirror: unstale whatif mirror.toml {option}")
    problem = load_or_example(file, options)
    if options["budget"] is None:
        no_budget = replace(problem.task.budget, amount=0.0)
        problem = replace(problem, task=replace(problem.task, budget=no_budget))
    if not problem.task.changes:
        raise bad_file(problem.task.file, "no element changes, so any budget keeps all copies fresh")
    with told_of_compilation(), progress(f"planning {len(problem.elements):,} elements"):
        plans = _plans(problem)
        low, high = _span(problem, plans.fresh)
        bought = _buy(plans, _round_budgets(problem.task, low, high))
        targets = _targets(problem, freshness, age)
    if plot is not None:
        import numpy as np

        from .whatif_plot import draw_whatif

        marked = [problem.task.amount, *(target.budget for target in targets)]
        ends = [low, high, *(budget for budget in marked if budget)]
        with progress("drawing"):
            curve = _buy(plans, np.geomspace(min(ends), max(ends), 65))
            draw_whatif(plot, problem.task, curve, targets)
    if as_json:
        print_json(_as_json(problem.task, bought, targets, plot))
    else:
        _print(problem, bought, targets, plot)


def _plans(problem: LoadedProblem) -> _Plans:
    """Return plans that know what other budgets buy; an objective, if given, is that of all columns."""

    def planned(objective: str, policy: str = "optimal") -> Plan:
        return problem.plan(policy, objective, _least(problem) + _poll_per_change(problem))

    given = problem.task.objective
    fresh = planned(given or "freshness")
    return _Plans(fresh, fresh if given else planned("age"), planned(given or "freshness", "uniform"))


def _poll_per_change(problem: LoadedProblem) -> float:
    """Return the budget of as many polls as there are changes, of elements that matter if any changes."""
    rates, weights, sizes = problem.elements.rates, problem.elements.weights, problem.elements.sizes
    spent = rates if sizes is None else rates * sizes
    mattering = float((spent if weights is None else spent[weights > 0]).sum())
    return mattering or float(spent.sum())


def _least(problem: LoadedProblem) -> float:
    """Return the budget that the lower bound on frequencies takes."""
    sizes = problem.elements.sizes
    return problem.limits.get("min_frequency", 0.0) * float(
        len(problem.elements) if sizes is None else sizes.sum()
    )


def _span(problem: LoadedProblem, plan: Plan) -> tuple[float, float]:
    """Return two budgets: one that hardly helps, and one beyond which there is hardly anything to gain.

    They are the same if there is nothing to gain at all.
    """
    import numpy as np

    least, middle = _least(problem) * (1 + 1e-9), _poll_per_change(problem)
    grid = np.geomspace(max(least, middle * 1e-7), 1e3 * max(least, middle), 201)
    fresh = plan.curve(grid).freshness
    start, end = float(fresh[0]), float(fresh[-1])
    if end - start < 1e-12:
        return (max(least, middle),) * 2
    low = int(np.argmax(fresh > start + 0.05 * (end - start)))
    high = int(np.argmax(fresh > end - 0.01 * (end - start)))
    return float(grid[max(low - 1, 0)]), float(grid[high])


def _round_budgets(task: Task, low: float, high: float) -> Floats:
    """Return round numbers, in the unit that they are shown in, and the budget of the task if it has one.

    If there is nothing to gain, one budget stands for all.
    """
    import numpy as np

    if low == high:
        return np.array([task.amount or low])
    per = task.unit.seconds / task.budget.unit.seconds
    decades = range(math.floor(math.log10(low / per)) - 1, math.ceil(math.log10(high / per)) + 1)
    chosen: list[float] = []
    for steps in ((1, 2, 5), (1, 3), (1,)):
        chosen = [step * 10.0**decade * per for decade in decades for step in steps]
        chosen = [budget for budget in chosen if low * (1 - 1e-9) <= budget <= high * 1.001]
        if len(chosen) <= 12:
            break
    if len(chosen) < 2:  # too narrow for round numbers
        chosen = [low, high]
    if task.amount:
        chosen = [budget for budget in chosen if not math.isclose(budget, task.amount)] + [task.amount]
    return np.array(sorted(chosen))


def _buy(plans: _Plans, budgets: Floats) -> BudgetCurve:
    best, uniform = plans.fresh.curve(budgets), plans.uniform.curve(budgets)
    return BudgetCurve(
        budget=budgets,
        freshness=best.freshness,
        age=best.age if plans.young is plans.fresh else plans.young.curve(budgets).age,
        cost=best.costs,
        uniform_freshness=uniform.freshness,
        uniform_age=uniform.age,
        uniform_cost=uniform.costs,
    )


def _targets(problem: LoadedProblem, freshness: float | None, age: float | None) -> list[BudgetTarget]:
    wanted = {"freshness": freshness, "age": None if age is None else age / problem.task.unit.seconds}
    return [
        BudgetTarget(
            kind,
            value,
            problem.task.objective or kind,
            *(_cost(problem, policy, kind, value) for policy in _POLICIES),
        )
        for kind, value in wanted.items()
        if value is not None
    ]


def _cost(problem: LoadedProblem, policy: str, kind: str, value: float) -> float | None:
    from unstale.planning import budget_for

    options = problem.options(policy, problem.task.objective or kind) | {kind: value}
    try:
        return budget_for(problem.law, **options)
    except NoAnswer:
        return None


def _as_json(
    task: Task, bought: BudgetCurve, targets: list[BudgetTarget], plot: str | None
) -> dict[str, Any]:
    return task.as_json() | {
        "budget": task.amount or None,
        "objectives": {kind: task.objective or kind for kind in ("freshness", "age")},
        "curve": bought.rows,
        "targets": [
            {
                target.kind: target.value,
                "objective": target.objective,
                "budget": target.budget,
                "uniform": target.uniform,
                "proportional": target.proportional,
            }
            for target in targets
        ],
        "plot": plot,
    }


def _print(
    problem: LoadedProblem, bought: BudgetCurve, targets: list[BudgetTarget], plot: str | None
) -> None:
    task, screen = problem.task, console()
    screen.print(f"{task}\n")
    if len(bought.rows) == 1:
        screen.print(_any_budget(problem, bought.rows[0]), soft_wrap=True)
    else:
        print_table(screen, *_table(task, bought))
    if task.objective is None and len(bought.rows) > 1:
        say(screen, "fresh: by the best plan for freshness. mean age: by the best plan for age.")
    for target in targets:
        say(screen, _sentence(problem, target))
    if plot is not None:
        say(screen, f"{plot} has the picture.")
    if not targets:
        file = "" if task.file == EXAMPLE else f"{shlex.quote(task.file)} "
        say(screen, f"unstale whatif {file}--freshness 80% finds the budget for a target.")


def _table(task: Task, bought: BudgetCurve) -> tuple[list[str], list[list[str]]]:
    """Return headings and rows; an objective that is neither freshness nor age comes first."""
    columns = ["budget", "fresh", "if uniform", "mean age", "if uniform"]
    own_cost = has_own_cost(task.goal)
    if own_cost:
        columns = ["budget", show_cost(task.goal, 0.0)[0], "if uniform", "fresh", "mean age"]
    rows = []
    for row in bought.rows:
        marked = " (--budget)" if row["budget"] == task.amount else ""
        costs = [show_cost(task.goal, row[name])[1] for name in ("cost", "uniform_cost") if own_cost]
        fresh, uniform_fresh = show_share(row["freshness"]), show_share(row["uniform_freshness"])
        age, uniform_age = task.show_time(row["age"]), task.show_time(row["uniform_age"])
        shown = [*costs, fresh, age] if own_cost else [fresh, uniform_fresh, age, uniform_age]
        rows.append([task.show(row["budget"]) + marked, *shown])
    return columns, rows


def _any_budget(problem: LoadedProblem, row: dict[str, float]) -> str:
    """Return the sentence for elements that no budget makes any fresher."""
    task, weights = problem.task, problem.elements.weights
    matters = weights is None or bool(problem.elements.rates[weights > 0].any())
    why = "the limits leave no choice" if matters else "only elements of weight 0 change"
    age = f"a mean age of {task.show_time(row['age'])}" if math.isfinite(row["age"]) else "age without bound"
    return f"Any budget buys the same, since {why}: {show_share(row['freshness'])} fresh, {age}."


def _sentence(problem: LoadedProblem, target: BudgetTarget) -> str:
    task = problem.task
    wanted = (
        f"{show_target(target.value)} fresh"
        if target.kind == "freshness"
        else f"A mean age of {task.show_time(target.value)}"
    )
    if target.budget is None:
        if {"max_frequency", "limits"} & set(problem.limits):
            return f"{wanted} is out of reach: no budget buys it within these limits."
        return f"{wanted} is out of reach: no budget buys it with plans for {target.objective}."
    others = ", ".join(
        f"{task.show(budget)} if {name}" if budget is not None else f"out of reach if {name}"
        for name, budget in (("uniform", target.uniform), ("proportional", target.proportional))
    )
    times = f", {show_number(target.budget / task.amount)} times the budget" if task.amount else ""
    return f"{wanted} takes {task.show(target.budget)}{times} ({others})."
