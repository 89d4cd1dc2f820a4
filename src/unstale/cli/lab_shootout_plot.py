"""The picture of a shoot-out: freshness, or age, against polls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unstale.pictures import COLOURS, DASHES, MARKERS, new_figure, save, styled

from .plots import label_times

if TYPE_CHECKING:
    from unstale.lab.shootout import Case, Row, Shootout

__all__ = ["draw_shootout"]

_DAY = 86400.0


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


def _draw(axes: Any, played: Shootout, cases: list[Case]) -> None:  # noqa: ANN401  (matplotlib is optional)
    age = cases[0].objective == "age"
    rules = [case for case in cases if case.rule is not None]
    ruled = {case.rule for case in rules}
    names = dict.fromkeys(row.policy for case in cases for row in case.rows if row.policy not in ruled)
    for at, name in enumerate(names):
        points = sorted(_point(played, case[name], age=age) for case in cases if name in case)
        look = {"color": COLOURS[at], "linestyle": DASHES[at], "marker": MARKERS[at], "markersize": 4}
        axes.plot(*zip(*points, strict=True), label=name, **look)
    for case in rules:
        x, y = _point(played, case[case.rule or ""], age=age)
        label = "rules of tools" if case is rules[0] else None
        axes.plot(x, y, "*", color="black", markersize=9, linestyle="none", label=label)
        axes.annotate(
            case.rule, (x, y), xytext=(5, 6 if age else -11), textcoords="offset points", fontsize=8
        )
    axes.set(xscale="log", xlabel="polls per element and day", title=f"planning for {cases[0].objective}")
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    if age:
        axes.set(yscale="log", ylabel="mean age")
        label_times(axes.yaxis)
    else:
        axes.set(ylabel=f"fresh (% of time{', by weight' if played.weighted else ''})")


def _point(played: Shootout, row: Row, *, age: bool) -> tuple[float, float]:
    y = row.age.value * _DAY if age else 100 * row.perceived.value
    return row.polls / played.elements, y
