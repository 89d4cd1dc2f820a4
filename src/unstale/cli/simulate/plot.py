"""The picture of a simulation: freshness and age with their errors, and how far behind copies were."""

from __future__ import annotations

from math import inf

import numpy as np
from matplotlib.axes import Axes

from unstale.cli.shared.plots import label_times
from unstale.picture_style import COLOURS, new_figure, save, styled
from unstale.simulation import Outcome
from unstale.wording import plural

from .report import SimulationReport

_LINES = ("-", "--", ":")


def draw_simulation(path: str, simulated: SimulationReport) -> None:
    """Draw the outcome of each policy."""
    outcomes = list(simulated.result.values())
    with styled():
        height = 1.4 + 0.32 * len(outcomes)
        figure = new_figure(10.0, height + max(3.4, 1.0 + 0.2 * len(outcomes)))
        heights = height, figure.get_figheight() - height
        above, below = figure.subfigures(2, 1, squeeze=False, height_ratios=heights)[:, 0]
        fresh, ages = above.subplots(1, 2)
        _draw_freshness(fresh, simulated, outcomes)
        _draw_ages(ages, simulated, outcomes)
        _draw_lags(below.subplots(), simulated, outcomes)
        if fresh.get_legend_handles_labels()[0]:
            above.legend(fontsize="small", loc="outside upper center", ncols=3)
        below.legend(fontsize="small", loc="outside right center")
        task = simulated.task
        elements = plural(task.count, "element")
        budget = f", {task.budget}" if task.budget.amount else ""
        title = f"{elements}{budget}, {task.show_time(simulated.result.horizon)}"
        figure.suptitle(title, fontsize="medium")
        save(figure, path)


def _draw_freshness(axes: Axes, simulated: SimulationReport, outcomes: list[Outcome]) -> None:
    _label_policies(axes, simulated, outcomes)
    for y, one in enumerate(outcomes):
        _point(axes, y, 100 * one.freshness, 200 * one.freshness_error)
    marks = {
        "by formula": ("D", [(y, one.expected.freshness) for y, one in enumerate(outcomes) if one.expected])
    }
    for way, marker in (("uniform", "s"), ("optimal", "*")):
        others = [(y, simulated.same_polls.get(one.name)) for y, one in enumerate(outcomes)]
        marks[f"as many polls, {way}"] = marker, [(y, getattr(same, way)) for y, same in others if same]
    for (label, (marker, points)), colour in zip(marks.items(), COLOURS[1:], strict=False):
        if points:
            shares, places = [100 * share for _, share in points], [y for y, _ in points]
            axes.plot(shares, places, marker, markersize=9, color=colour, fillstyle="none", label=label)
    axes.set(xlabel="fresh (% of time, ± 2 standard errors)")
    low, high = axes.get_xlim()
    more = max(0.0, 5.0 - (high - low)) / 2  # not as if nothing were a lot
    axes.set_xlim(max(low - more, -1.0), min(high + more, 101.0))


def _draw_ages(axes: Axes, simulated: SimulationReport, outcomes: list[Outcome]) -> None:
    _label_policies(axes, simulated, outcomes)
    axes.tick_params(axis="y", labelleft=False)
    seconds = simulated.task.unit.seconds
    drawn = []
    for y, one in enumerate(outcomes):
        if one.name in simulated.gives_up or not 0 < one.age < inf:
            text = "unbounded" if one.name in simulated.gives_up else "no age"
            axes.annotate(text, (0.02, y), xycoords=("axes fraction", "data"), va="center", color="#555555")
        else:
            drawn.append((y, one.age * seconds, min(2 * one.age_error, 0.99 * one.age) * seconds))
    axes.set(xlabel="mean age (± 2 standard errors)")
    if drawn:
        axes.set_xscale("log")
        for y, age, error in drawn:
            _point(axes, y, age, error)
        low, high = min(age for _, age, _ in drawn), max(age for _, age, _ in drawn)
        axes.set_xlim(low / 3, high * 3)
        label_times(axes.xaxis)
    else:
        axes.set_xticks([])


def _draw_lags(axes: Axes, simulated: SimulationReport, outcomes: list[Outcome]) -> None:
    """Draw the share of time for which copies are at most so far behind."""
    seconds = simulated.task.unit.seconds
    horizon = simulated.result.horizon
    ends = [_ends(one, horizon) for one in outcomes]
    lags = np.geomspace(min(low for low, _ in ends), max(high for _, high in ends), 200)
    for at, one in enumerate(outcomes):
        axes.plot(
            lags * seconds,
            100 * one.within(lags),
            color=COLOURS[at % len(COLOURS)],
            linestyle=_LINES[at // len(COLOURS) % len(_LINES)],
            label=simulated.label(one.name),
        )
    axes.set(
        xscale="log",
        xlabel="behind by at most",
        ylabel="share of time (%)",
        xlim=(lags[0] * seconds, lags[-1] * seconds),
    )
    axes.set_ylim(min(axes.get_ylim()[0], 95.0), 100.5)
    label_times(axes.xaxis)


def _ends(outcome: Outcome, horizon: float) -> tuple[float, float]:
    """Return lags between which nearly all is, of copies that are behind at all."""
    fresh = outcome.freshness
    low, high = outcome.lag([fresh + 0.01 * (1 - fresh), 1 - 0.005 * (1 - fresh)]).tolist()
    return (low, high) if 0 < low < high else (horizon / 1000, horizon)


def _label_policies(axes: Axes, simulated: SimulationReport, outcomes: list[Outcome]) -> None:
    axes.set_yticks(range(len(outcomes)), [simulated.label(one.name) for one in outcomes])
    axes.set_ylim(len(outcomes) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)


def _point(axes: Axes, y: float, x: float, error: float) -> None:
    axes.errorbar(x, y, xerr=error if error > 0 else None, fmt="o", color=COLOURS[0], capsize=3, markersize=5)
