"""From the panels of an experiment to its figure.

Lines differ in colour and in dashes or markers, so that they can be told apart in grey print as well. Legends
stand below the axes, never over the data. Points whose label begins with that of a line have its colour:
"uniform, simulated" that of "uniform".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, floor, log10
from textwrap import fill
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from unstale.arguments import Floats
from unstale.errors import need
from unstale.picture_style import COLOURS, DASHES, MARKERS, new_figure, rendered, styled
from unstale.wording import plural

from .experiment import Experiment, Line, Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import XAxis, YAxis
    from matplotlib.figure import Figure
    from matplotlib.typing import LineStyleType

_PANEL_WIDTH_INCHES, _PANEL_HEIGHT_INCHES = 5.2, 3.5
"""Inches of a panel, without its legend."""
_LEGEND_ROW_INCHES = 0.2
"""Inches of a row of a legend."""
_LEGEND_LETTERS = 66
"""Letters of a legend side by side in a panel, with the samples of its lines."""
_SAMPLE_LETTERS = 8
"""Letters in whose place a sample and the gaps around it stand."""
_LABEL_LETTERS = 60
"""Letters of a label below the axes."""
_MOST_MARKED_POINTS = 12
"""Points up to which a line shows them."""
_HATCHES = ("", "//", "\\\\", "xx", "..", "--", "++")


def pictures(experiment: Experiment, panels: Sequence[Panel]) -> dict[str, bytes]:
    """Return the figure of an experiment as svg and as png; nothing if it has no panels."""
    if not panels:
        return {}
    with styled():
        figure = _figure(experiment, panels)
        svg = rendered(figure, "svg")
        figure.set_layout_engine("none")  # all is in its place now
        return {"svg": svg, "png": rendered(figure, "png")}


class _LineLook(NamedTuple):
    colour: str
    dashes: LineStyleType
    marker: str
    hatch: str


def _look(at: int) -> _LineLook:
    shift = at + at // len(COLOURS)  # another pair of colour and dashes in each round
    return _LineLook(
        COLOURS[at % len(COLOURS)],
        DASHES[shift % len(DASHES)],
        MARKERS[shift % len(MARKERS)],
        _HATCHES[shift % len(_HATCHES)],
    )


def _looks(panels: Sequence[Panel]) -> dict[str, _LineLook]:
    """Return how each label looks: the same in all panels, and points like the line that they belong to."""
    lines = {line.label: line for panel in panels for line in panel.lines}
    owners = {label: _owner(line, lines) for label, line in lines.items()}
    places = {label: at for at, label in enumerate(label for label in lines if owners[label] == label)}
    return {label: _look(places[owner]) for label, owner in owners.items()}


def _owner(line: Line, lines: dict[str, Line]) -> str:
    if line.kind != "points":
        return line.label
    heads = [one for one in lines if line.label.startswith(one) and lines[one].kind != "points"]
    return max(heads, key=len, default=line.label)


def _figure(experiment: Experiment, panels: Sequence[Panel]) -> Figure:
    columns = min(len(panels), 2)  # so that a page, and a phone, can show them
    rows = ceil(len(panels) / columns)
    labels = [[_said(line, panel.log) for line in panel.lines] for panel in panels]
    shared = len(panels) > 1 and all(one == labels[0] for one in labels)
    beside = [_beside(one, _LEGEND_LETTERS * (columns if shared else 1)) for one in labels]
    legend = max(ceil(len(one) / count) for one, count in zip(labels, beside, strict=True))
    height = (
        rows * (_PANEL_HEIGHT_INCHES + (0 if shared else _LEGEND_ROW_INCHES * legend))
        + (_LEGEND_ROW_INCHES * legend if shared else 0)
        + 0.4
    )
    figure = new_figure(columns * _PANEL_WIDTH_INCHES, height)
    figure.set_layout_engine("constrained", w_pad=0.08, h_pad=0.06, hspace=0.06, wspace=0.06)
    title = f"{experiment.paper.authors}, {experiment.where}: {experiment.shows}"
    figure.suptitle(fill(title, 68 * columns), fontsize="medium", color="#444444")
    places = figure.subplots(rows, columns, squeeze=False).ravel()
    looks = _looks(panels)
    if len({look.colour for look in looks.values()}) == len(COLOURS) < len(looks):  # too many for one key
        each = [_looks([panel]) for panel in panels]
    else:
        each = [looks] * len(panels)
    for axes, panel, own, count in zip(places, panels, each, beside, strict=False):
        _draw(axes, panel, own)
        if not shared:
            _put_legend(axes, panel, count)
    for axes in places[len(panels) :]:
        axes.set_axis_off()
    if shared:
        handles = figure.axes[0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=beside[0], handlelength=2.8)
    return figure


def _put_legend(axes: Axes, panel: Panel, beside: int) -> None:
    """Put the legend below what stands below the axes: numbers or names, and the label, in points."""
    transforms = need("matplotlib.transforms", extra="lab", needed_for="plots")
    if not panel.names:
        ticks = 12.0
    elif _slanted(panel.names):
        ticks = 6.0 + 0.5 * 6.4 * max(map(len, panel.names))
    else:
        ticks = 12.0 * max(_wrapped(name).count("\n") + 1 for name in panel.names)
    below = 10.0 + ticks + 15.0 * (fill(panel.x, _LABEL_LETTERS).count("\n") + 1)
    shift = transforms.ScaledTranslation(0, -below / 72, axes.figure.dpi_scale_trans)
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.5, 0.0), bbox_transform=axes.transAxes + shift, ncols=beside,
        fontsize="small", borderaxespad=0.0, handlelength=2.8,
    )  # fmt: skip


def _slanted(names: Sequence[str]) -> bool:
    """Tell whether names are too long to stand side by side."""
    longest = max(len(line) for name in names for line in _wrapped(name).split("\n"))
    return (longest + 2) * len(names) > _LABEL_LETTERS - 8


def _wrapped(name: str) -> str:
    return fill(name, 13, break_long_words=False)


def _beside(labels: Sequence[str], letters: int) -> int:
    """Return how many entries of a legend fit side by side."""
    longest = max((len(label) for label in labels), default=0) + _SAMPLE_LETTERS
    most = max(1, min(len(labels), letters // longest))
    return ceil(len(labels) / ceil(len(labels) / most)) if labels else 1  # rows of equal length


def _draw(axes: Axes, panel: Panel, looks: dict[str, _LineLook]) -> None:
    if "x" in panel.log:
        axes.set_xscale("log")
    if "y" in panel.log:
        axes.set_yscale("log")
    bars = [line for line in panel.lines if line.kind == "bars"]
    for line in panel.lines:
        look, label = looks[line.label], _said(line, panel.log)
        x, y = _drawable(line.x, log="x" in panel.log), _drawable(line.y, log="y" in panel.log)
        match line.kind:
            case "bars":
                _draw_bars(axes, replace(line, label=label), (x, y), (bars.index(line), len(bars)), look)
            case "points":
                axes.errorbar(
                    x, y, yerr=line.error, fmt=look.marker, color=look.colour, markersize=4.5, capsize=2.5,
                    elinewidth=1.0, markerfacecolor="white", markeredgewidth=1.2, label=label, zorder=3,
                )  # fmt: skip
            case kind:
                drawn = "steps-post" if kind == "steps" else "default"
                marker = look.marker if kind == "line" and x.size <= _MOST_MARKED_POINTS else ""
                axes.errorbar(
                    x, y, yerr=line.error, color=look.colour, linestyle=look.dashes, drawstyle=drawn,
                    linewidth=1.7, marker=marker, markersize=4, capsize=2.5, elinewidth=1.0, label=label,
                )  # fmt: skip
    axes.set_title(fill(panel.title, _LABEL_LETTERS - 4), fontsize="medium", fontweight="bold")
    axes.set(xlabel=fill(panel.x, _LABEL_LETTERS), ylabel=fill(panel.y, 44))
    low, high = panel.bounds
    axes.set_ylim(bottom=low, top=high)
    for axis, log in ((axes.xaxis, "x" in panel.log), (axes.yaxis, "y" in panel.log)):
        _label(axis, log=log)
    if panel.names:
        if _slanted(panel.names):
            axes.set_xticks(range(len(panel.names)), panel.names)
            axes.tick_params(axis="x", rotation=30)
            for name in axes.get_xticklabels():
                name.set(ha="right", rotation_mode="anchor")
        else:
            axes.set_xticks(range(len(panel.names)), [_wrapped(name) for name in panel.names])
        axes.grid(visible=False, axis="x")


def _said(line: Line, log: str) -> str:
    """Return the entry of a line in a legend, with what a logarithmic axis has no place for."""
    columns = [values for axis, values in (("x", line.x), ("y", line.y)) if axis in log]
    count = sum(any(value <= 0 for value in point) for point in zip(*columns, strict=True))
    if not count:
        return line.label
    return f"{line.label} ({plural(count, 'point')} at or below 0 left out)"


def _drawable(values: Floats, *, log: bool) -> Floats:
    """Leave out what cannot be drawn: it is a gap in the line."""
    return np.where(np.isfinite(values) & ((values > 0) | (not log)), values, np.nan)


def _draw_bars(
    axes: Axes,
    line: Line,
    data: tuple[Floats, Floats],
    place: tuple[int, int],
    look: _LineLook,
) -> None:
    """Draw the bars of one line beside those of the others."""
    x, y = data
    at, count = place
    apart = float(np.diff(np.unique(line.x)).min()) if np.unique(line.x).size > 1 else 1.0
    width = 0.8 * apart / count
    axes.bar(
        x + (at - (count - 1) / 2) * width, y, width, yerr=line.error, color=look.colour, hatch=look.hatch,
        edgecolor="white", linewidth=0.6, label=line.label, capsize=2.5,
    )  # fmt: skip


def _label(axis: XAxis | YAxis, *, log: bool) -> None:
    """Write numbers on an axis as people do, and as many as fit."""
    ticker = need("matplotlib.ticker", extra="lab", needed_for="plots")
    if not log:
        axis.set_major_formatter(lambda value, _: _tick(value))
        return
    low, high = axis.get_view_interval()
    powers = low < 1e-5 or high > 5e7
    axis.set_major_formatter(lambda value, _: _tick(value, powers=powers))
    axis.set_minor_formatter(ticker.NullFormatter())
    decades = log10(high / low)
    ends = [len(_tick(10.0 ** floor(log10(end)))) for end in (low, high)]
    letters = max(ends) if axis.axis_name == "x" else 4
    if decades < 0.7:
        axis.set_major_locator(ticker.MaxNLocator(5))
    elif 3 * decades * (letters + 2) < 48:
        axis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0), numticks=12))
    else:
        axis.set_major_locator(ticker.LogLocator(numticks=8))


def _tick(value: float, *, powers: bool = False) -> str:
    r"""Return a number for an axis; very large and small ones, or all if asked, by a power of ten.

    >>> _tick(0.001), _tick(20000.0), _tick(1e-7), _tick(3e9), _tick(10.0, powers=True)
    ('0.001', '20,000', '$10^{-7}$', '$3\\times 10^{9}$', '10')
    """
    if value and (powers or not 1e-5 <= abs(value) < 1e8) and not (powers and value in {1.0, 10.0}):
        digits, _, power = f"{value:.3e}".partition("e")
        digits = digits.rstrip("0").rstrip(".")
        times = "" if digits == "1" else rf"{digits}\times "
        return f"${times}10^{{{int(power)}}}$"
    return f"{value:,.10f}".rstrip("0").rstrip(".") if abs(value) < 1 else f"{value:,.10g}"
