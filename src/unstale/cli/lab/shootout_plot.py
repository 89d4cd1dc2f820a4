"""The picture of a shoot-out: freshness, or age, against polls."""

from __future__ import annotations

from math import log

from matplotlib.axes import Axes

from unstale.cli.shared.plots import label_times
from unstale.lab.shootout import Case, Row, Shootout
from unstale.picture_style import COLOURS, DASHES, MARKERS, new_figure, save, styled

_DAY_SECONDS = 86400.0


def draw_shootout(path: str, played: Shootout) -> None:
    """Draw a line for each policy with a budget, and a point for each rule; a panel for each objective."""
    objectives = list(dict.fromkeys(case.objective for case in played.cases))
    with styled():
        figure = new_figure(5.4 * len(objectives) + 0.6, 5.2)
        panels = figure.subplots(1, len(objectives), squeeze=False)[0]
        for axes, objective in zip(panels, objectives, strict=True):
            _draw(axes, played, [case for case in played.cases if case.objective == objective])
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize="small")
        figure.suptitle(f"{played.history}: {played.elements:,} elements", fontsize="medium")
        save(figure, path)


def _draw(axes: Axes, played: Shootout, cases: list[Case]) -> None:
    age = cases[0].objective == "age"
    ruled = {case.rule for case in cases}
    names = dict.fromkeys(row.policy for case in cases for row in case.rows if row.policy not in ruled)
    for at, name in enumerate(names):
        points = sorted(_point(played, case[name], age=age) for case in cases if name in case)
        axes.plot(
            *zip(*points, strict=True),
            label=name,
            color=COLOURS[at],
            linestyle=DASHES[at],
            marker=MARKERS[at],
            markersize=4,
        )
    axes.set(xscale="log", xlabel="polls per element and day", title=f"planning for {cases[0].objective}")
    rules = {case.rule: _point(played, case[case.rule], age=age) for case in cases if case.rule}
    _mark_rules(axes, rules, down=not age)
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    if age:
        axes.set(yscale="log", ylabel="mean age")
        label_times(axes.yaxis)
    else:
        axes.set(ylabel=f"fresh (% of time{', by weight' if played.weighted else ''})")


def _mark_rules(axes: Axes, points: dict[str, tuple[float, float]], *, down: bool) -> None:
    """Mark where rules come out; names stand on the free side of the curves, neighbours at two heights."""
    if not points:
        return
    axes.plot(
        *zip(*points.values(), strict=True), "*", color="black", markersize=9, linestyle="none",
        label="rules of tools",
    )  # fmt: skip
    left, right = (log(x) for x in axes.get_xlim())
    for at, (name, (x, y)) in enumerate(sorted(points.items(), key=lambda one: one[1])):
        late = log(x) > left + 0.75 * (right - left)
        away = -11 - 12 * (at % 2) if down else 6 + 12 * (at % 2)
        axes.annotate(
            name,
            (x, y),
            xytext=(-5 if late else 5, away),
            textcoords="offset points",
            ha="right" if late else "left",
            fontsize=8,
        )


def _point(played: Shootout, row: Row, *, age: bool) -> tuple[float, float]:
    y = row.age.value * _DAY_SECONDS if age else 100 * row.perceived.value
    return row.polls / played.elements, y
