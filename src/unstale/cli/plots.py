"""Plots of comparisons and of budgets, in colours that the colour-blind can tell apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unstale.errors import need
from unstale.quantities import show_duration, show_flow, show_share
from unstale.tables import check_writable, replacing

from .outcomes import Outcome
from .task import Task

if TYPE_CHECKING:
    from .whatif import Buys, Target

__all__ = ["check_plot", "draw_comparison", "draw_whatif"]

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#555555")
_STYLE = {
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "svg.hashsalt": "unstale",  # the same bytes each time
}


def check_plot(path: str) -> None:
    """Refuse, before any work is done, a plot that cannot be drawn."""
    check_writable("--plot", path, (".svg", ".png", ".pdf"))
    need("matplotlib.figure", extra="lab", needed_for="plots")


def _figure(width: float, height: float) -> Any:  # noqa: ANN401  (matplotlib is optional)
    figure = need("matplotlib.figure", extra="lab", needed_for="plots").Figure
    return figure(figsize=(width, height), layout="constrained")


def _save(figure: Any, path: str) -> None:  # noqa: ANN401
    kind = path.lower().rpartition(".")[2]
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with replacing(path) as file:
        figure.savefig(file, format=kind, dpi=150, metadata=undated.get(kind))


def draw_comparison(path: str, task: Task, outcomes: list[Outcome]) -> None:
    """Draw the freshness that each policy buys, and where it spends the budget."""
    matplotlib = need("matplotlib", extra="lab", needed_for="plots")
    with matplotlib.rc_context(_STYLE):
        figure = _figure(10.0, 0.35 * len(outcomes) + 2.0)
        bars, lines = figure.subplots(1, 2, width_ratios=(1, 1.15))
        names = [one.label for one in outcomes]
        colours = _COLOURS[: len(outcomes)]
        drawn = bars.barh(names, [100 * one.freshness for one in outcomes], color=colours, height=0.7)
        bars.bar_label(drawn, [show_share(one.freshness) for one in outcomes], padding=3)
        bars.invert_yaxis()
        bars.grid(visible=False, axis="y")
        bars.set(
            xlabel="fresh (% of time)",
            xlim=(0, 115),
            xticks=range(0, 101, 20),
            title=f"What {task.budget} buy",
        )
        bars.tick_params(axis="y", length=0)
        for one, colour, marker in zip(outcomes, colours, "osD^vPX", strict=False):
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
        _save(figure, path)


def draw_whatif(path: str, task: Task, curve: Buys, targets: list[Target]) -> None:
    """Draw freshness, and age where it is finite, against the budget."""
    import numpy as np

    matplotlib = need("matplotlib", extra="lab", needed_for="plots")
    drawings = [("freshness", 100 * curve.freshness, 100 * curve.uniform_freshness, 100.0)]
    if np.isfinite(curve.age).any():
        seconds = task.unit.seconds
        drawings.append(("age", seconds * curve.age, seconds * curve.uniform_age, seconds))
    with matplotlib.rc_context(_STYLE):
        figure = _figure(7.5, 1.2 + 2.9 * len(drawings))
        panels = figure.subplots(len(drawings), 1, sharex=True, squeeze=False)[:, 0]
        budgets = curve.budgets * (task.budget.unit.seconds / task.unit.seconds)
        for axes, (kind, best, uniform, factor) in zip(panels, drawings, strict=True):
            axes.set_xscale("log")
            label = f"optimal for {task.objective or kind}"
            if not np.isfinite(best).all():
                label += " (unbounded where not drawn)"
            axes.plot(budgets, best, color=_COLOURS[0], linewidth=2, label=label)
            axes.plot(budgets, uniform, color=_COLOURS[1], linewidth=1.5, linestyle="--", label="uniform")
            if task.amount:
                label = f"budget: {task.budget}"
                axes.axvline(task.budget.amount, color="black", linewidth=1, linestyle=":", label=label)
            for target in targets:
                if target.kind == kind and target.budget is not None:
                    x = target.budget * (task.budget.unit.seconds / task.unit.seconds)
                    label = f"{_wanted(task, target)}: {task.show(target.budget)}"
                    axes.plot(x, factor * target.value, "o", color="black", markersize=7, label=label)
            axes.legend(loc="upper left" if kind == "freshness" else "lower left")
        panels[0].set(ylabel="fresh (% of time)", ylim=(0, 100))
        panels[0].set_title(f"What a budget buys: {task.count:,} elements")
        if len(drawings) > 1:
            panels[1].set(ylabel="mean age", yscale="log")
            _label_times(panels[1].yaxis)
        _label_budgets(panels[-1], task)
        _save(figure, path)


def _wanted(task: Task, target: Target) -> str:
    return f"{100 * target.value:g}% fresh" if target.kind == "freshness" else task.show_time(target.value)


def _label_budgets(axes: Any, task: Task) -> None:  # noqa: ANN401
    """Label powers of ten as people write them."""
    unit = task.budget.unit
    if task.budget.kind == "polls":
        axes.set_xlabel(f"budget (polls/{unit.name})")
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.12g}")
    else:
        axes.set_xlabel("budget")
        axes.xaxis.set_major_formatter(lambda x, _: show_flow(x, "bytes", unit))


def _label_times(axis: Any) -> None:  # noqa: ANN401
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
    if len(shown) < 2:  # too narrow for that
        axis.set_major_formatter(lambda seconds, _: show_duration(seconds))
        axis.set_minor_formatter(lambda seconds, _: show_duration(seconds))
    else:
        axis.set_ticks(list(shown), list(shown.values()))
        axis.set_ticks([], minor=True)
