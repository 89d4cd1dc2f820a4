"""Plots of comparisons and of budgets, in colours that the colour-blind can tell apart."""

from __future__ import annotations

from math import inf, isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from unstale.cli.plan.policy_outcomes import Outcome
from unstale.errors import need
from unstale.pictures import COLOURS, MARKERS, new_figure, save, styled
from unstale.quantities import show_duration, show_flow, show_share
from unstale.tables import check_writable

from .printing import has_own_cost, show_cost
from .problem import Task

if TYPE_CHECKING:
    from unstale.arguments import Floats
    from unstale.cli.plan.whatif import Buys, Target

__all__ = ["check_plot", "draw_comparison", "draw_whatif", "label_times"]


def check_plot(path: str) -> None:
    """Refuse, before any work is done, a plot that cannot be drawn."""
    check_writable("--plot", path, (".svg", ".png", ".pdf"))
    need("matplotlib.figure", extra="lab", needed_for="plots")


def draw_comparison(path: str, task: Task, outcomes: list[Outcome]) -> None:
    """Draw the freshness that each policy buys, and where it spends the budget."""
    with styled():
        figure = new_figure(10.0, 0.35 * len(outcomes) + 2.0)
        bars, lines = figure.subplots(1, 2, width_ratios=(1, 1.15))
        names = [one.label for one in outcomes]
        colours = COLOURS[: len(outcomes)]
        bars.grid(visible=False, axis="y")
        if has_own_cost(task.goal):
            lengths = [one.cost if isfinite(one.cost) else 0.0 for one in outcomes]
            labels = [show_cost(task.goal, one.cost)[1] for one in outcomes]
            bars.set(xlabel=_cost_label(task.goal), xlim=(0, 1.25 * max(lengths) or 1))
        else:
            lengths = [one.freshness for one in outcomes]
            labels = [show_share(one.freshness) for one in outcomes]
            bars.set(xlabel="fresh (% of time)")
        if not has_own_cost(task.goal) or task.goal.startswith("currency:"):
            lengths = [100 * share for share in lengths]
            bars.set(xlim=(0, 115), xticks=range(0, 101, 20))
        drawn = bars.barh(names, lengths, color=colours, height=0.7)
        bars.bar_label(drawn, labels, padding=3)
        bars.invert_yaxis()
        bars.set_title(f"What a budget of {task.budget} buys")
        bars.tick_params(axis="y", length=0)
        for one, colour, marker in zip(outcomes, colours, MARKERS, strict=False):
            shares = 100 * one.tenths
            lines.plot(
                range(1, 11),
                shares,
                marker=marker,
                markersize=5,
                clip_on=False,
                color=colour,
                label=one.label,
            )
        lines.set(
            xlabel="tenths of the elements, from the slowest to the fastest",
            ylabel="share of the budget (%)",
            xticks=range(1, 11),
            title="Where the budget goes",
            ylim=(0, None),
        )
        lines.legend(loc="best", fontsize="small")
        save(figure, path)


def draw_whatif(path: str, task: Task, curve: Buys, targets: list[Target]) -> None:
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
                axes.set(ylabel=_cost_label(task.goal), ylim=(0, None))
            else:
                axes.set(ylabel=_cost_label(task.goal), yscale="log")
                axes.yaxis.set_major_formatter(lambda y, _: f"{y:,.12g}")
        panels[0].set_title(f"What a budget buys: {task.count:,} element{'s' if task.count != 1 else ''}")
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


def _cost_label(goal: str) -> str:
    share = " (% of time)" if goal.startswith("currency:") else ""
    return " ".join(show_cost(goal, 0.0)[0].split()) + share


def _draw_curves(axes: Any, task: Task, budgets: Floats, drawing: _Drawing) -> None:  # noqa: ANN401
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


def _mark(axes: Any, task: Task, targets: list[Target], drawing: _Drawing) -> None:  # noqa: ANN401
    """Mark the budget and what the targets take."""
    if task.amount:
        label = f"budget: {task.budget}"
        axes.axvline(task.budget.amount, color="black", linewidth=1, linestyle=":", label=label)
    for target in targets:
        if target.kind == drawing.kind and target.budget is not None:
            x = target.budget * (task.budget.unit.seconds / task.unit.seconds)
            label = f"{_wanted(task, target)}: {task.show(target.budget)}"
            axes.plot(x, drawing.factor * target.value, "o", color="black", markersize=7, label=label)


def _wanted(task: Task, target: Target) -> str:
    from unstale.cli.plan.whatif import show_target

    return (
        f"{show_target(target.value)} fresh" if target.kind == "freshness" else task.show_time(target.value)
    )


def _label_budgets(axes: Any, task: Task) -> None:  # noqa: ANN401
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


def label_times(axis: Any) -> None:  # noqa: ANN401
    """Label a logarithmic axis of seconds at times that people know."""
    ticks = {
        1e-3: "1 ms",
        1.0: "1 second",
        60.0: "1 minute",
        3600.0: "1 hour",
        86400.0: "1 day",
        2629800.0: "1 month",
        31557600.0: "1 year",
        3155760000.0: "100 years",
    }
    low, high = axis.get_view_interval()
    shown = {tick: label for tick, label in ticks.items() if low <= tick <= high}
    if len(shown) < 2 and axis.axis_name == "x":  # too narrow for that, and labels stand side by side
        places = [low ** (1 - share) * high**share for share in (0.1, 0.5, 0.9)]
        shown = {tick: show_duration(float(f"{tick:.2g}")) for tick in places}
    if len(shown) < 2:
        axis.set_major_formatter(lambda seconds, _: show_duration(seconds))
        axis.set_minor_formatter(lambda seconds, _: show_duration(seconds))
    else:
        axis.set_ticks(list(shown), list(shown.values()))
        axis.set_ticks([], minor=True)
