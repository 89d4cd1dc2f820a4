"""The picture of a comparison: what each policy buys, and where it spends the budget."""

from __future__ import annotations

from math import isfinite

from unstale.cli.shared.plots import cost_label
from unstale.cli.shared.printing import has_own_cost, show_cost
from unstale.cli.shared.problem import Task
from unstale.picture_style import COLOURS, MARKERS, new_figure, save, styled
from unstale.quantities import show_share

from .report import ComparedPolicy


def draw_comparison(path: str, task: Task, outcomes: list[ComparedPolicy]) -> None:
    """Draw the freshness that each policy buys, and where it spends the budget."""
    with styled():
        figure = new_figure(10.0, 0.35 * len(outcomes) + 2.0)
        bars, lines = figure.subplots(1, 2, width_ratios=(1, 1.15))
        names = [one.label for one in outcomes]
        colours = COLOURS[: len(outcomes)]
        bars.grid(visible=False, axis="y")
        if has_own_cost(task.goal):
            lengths = [one.bought.cost if isfinite(one.bought.cost) else 0.0 for one in outcomes]
            labels = [show_cost(task.goal, one.bought.cost)[1] for one in outcomes]
            bars.set(xlabel=cost_label(task.goal), xlim=(0, 1.25 * max(lengths) or 1))
        else:
            lengths = [one.bought.freshness for one in outcomes]
            labels = [show_share(one.bought.freshness) for one in outcomes]
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
