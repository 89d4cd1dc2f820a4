"""The picture of budgets: what each buys, and what targets cost."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from unstale.cli.shared.plots import cost_label, label_times
from unstale.cli.shared.printing import has_own_cost
from unstale.cli.shared.problem import Task
from unstale.errors import need
from unstale.picture_style import COLOURS, new_figure, save, styled
from unstale.quantities import show_flow
from unstale.wording import plural

from .report import BudgetCurve, BudgetTarget, show_target

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from unstale.arguments import Floats


def draw_whatif(path: str, task: Task, curve: BudgetCurve, targets: list[BudgetTarget]) -> None:
    """Draw the cost of the objective, freshness, and age where it is finite, against the budget."""
    seconds = task.unit.seconds
    drawings = [_Drawing("freshness", curve.freshness, curve.uniform_freshness, 100.0)]
    if _has_points(curve.age):
        drawings.append(_Drawing("age", curve.age, curve.uniform_age, seconds))
    if has_own_cost(task.goal) and _has_points(curve.cost):
        factor = 100.0 if task.goal.startswith("currency:") else 1.0
        drawings.insert(0, _Drawing("cost", curve.cost, curve.uniform_cost, factor))
    with styled():
        figure = new_figure(7.5, 1.2 + 2.9 * len(drawings))
        panels = figure.subplots(len(drawings), 1, sharex=True, squeeze=False)[:, 0]
        for axes, drawing in zip(panels, drawings, strict=True):
            axes.set_xscale("log")
            _draw_curves(axes, task, curve.budget, drawing)
            _mark(axes, task, targets, drawing)
            axes.legend(loc="best")
            if drawing.kind == "freshness":
                axes.set(ylabel="fresh (% of time)", ylim=(0, 100))
            elif drawing.kind == "age":
                axes.set(ylabel="mean age", yscale="log")
                label_times(axes.yaxis)
            elif task.goal.startswith("currency:"):
                axes.set(ylabel=cost_label(task.goal), ylim=(0, None))
            else:
                axes.set(ylabel=cost_label(task.goal), yscale="log")
                axes.yaxis.set_major_formatter(lambda y, _: f"{y:,.12g}")
        panels[0].set_title(f"What a budget buys: {plural(task.count, 'element')}")
        _label_budgets(panels[-1], task)
        save(figure, path)


class _Drawing(NamedTuple):
    """What one panel shows."""

    kind: str
    best: Floats
    uniform: Floats
    factor: float
    """From the unit of the curves to that of the axis."""


def _has_points(values: Floats) -> bool:
    """Tell whether anything can be drawn on a logarithmic axis."""
    return any(0 < value < inf for value in values.tolist())


def _draw_curves(axes: Axes, task: Task, budgets: Floats, drawing: _Drawing) -> None:
    x = budgets * (task.budget.unit.seconds / task.unit.seconds)
    best = f"optimal for {task.objective or drawing.kind}"
    for label, values, line in ((best, drawing.best, "-"), ("uniform", drawing.uniform, "--")):
        finite = [value for value in values.tolist() if value < inf]
        if not finite:
            continue
        note = "" if len(finite) == len(values) else " (unbounded where not drawn)"
        colour, width = (COLOURS[0], 2.0) if values is drawing.best else (COLOURS[1], 1.5)
        y = drawing.factor * values
        axes.plot(x, y, color=colour, linewidth=width, linestyle=line, label=label + note)


def _mark(axes: Axes, task: Task, targets: list[BudgetTarget], drawing: _Drawing) -> None:
    """Mark the budget and what the targets take."""
    if task.amount:
        label = f"budget: {task.budget}"
        axes.axvline(task.budget.amount, color="black", linewidth=1, linestyle=":", label=label)
    for target in targets:
        if target.kind == drawing.kind and target.budget is not None:
            x = target.budget * (task.budget.unit.seconds / task.unit.seconds)
            label = f"{_wanted(task, target)}: {task.show(target.budget)}"
            axes.plot(x, drawing.factor * target.value, "o", color="black", markersize=7, label=label)


def _wanted(task: Task, target: BudgetTarget) -> str:
    return (
        f"{show_target(target.value)} fresh" if target.kind == "freshness" else task.show_time(target.value)
    )


def _label_budgets(axes: Axes, task: Task) -> None:
    """Label a few round budgets as people write them."""
    ticker = need("matplotlib.ticker", extra="lab", needed_for="plots")
    unit, kind = task.budget.unit, task.budget.kind
    low, high = axes.get_xlim()
    if high > 100 * low:
        axes.xaxis.set_major_locator(ticker.LogLocator(numticks=5))
    elif high > 5 * low:
        axes.xaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0), numticks=12))
    else:
        axes.xaxis.set_major_locator(ticker.MaxNLocator(5))
    axes.xaxis.set_minor_formatter(ticker.NullFormatter())
    axes.set_xlabel(f"budget ({kind}/{unit.name})")
    if kind == "polls":
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.12g}")
    else:
        axes.xaxis.set_major_formatter(lambda x, _: show_flow(x, kind, unit).partition("/")[0])
