"""Charts as SVG, made here: they are there before any script runs, and follow the colours of the page.

A chart has a height in pixels and all the width there is: places along it are in per cent, so that text keeps
its size on a telephone. Labels of values are left of it: the style sheet leaves room there. Lines are in a
picture of their own that is stretched, with strokes that are not. No styles are set here: the style sheet
knows the classes.

Those who cannot see a chart read its title and its description, and the same figures in a table beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Literal

from markupsafe import Markup, escape

from .scales import Scale, clock_labels, log_ticks, ticks, time_ticks

_STRETCHED_SIDE_UNITS = 1000.0
"""Of the stretched picture, in units of its own."""
_TOP_PIXELS, _BOTTOM_PIXELS = 14.0, 24.0
"""Pixels above the plot, and below it for the labels."""
_MOST_POINTS = 500
"""Of a line."""


@dataclass(frozen=True)
class Axis:
    """A scale with its labels."""

    scale: Scale
    show: Callable[[float], str] = str
    time: bool = False
    count: int = 4
    at: Sequence[float] = ()
    """Where ticks are; where they fit best if none are given."""

    def labelled(self) -> list[tuple[float, str]]:
        """Return where ticks are, as shares, and what stands there."""
        if self.time:
            values = time_ticks(self.scale, self.count)
            labels = clock_labels(values)
        elif self.at:
            values, labels = list(self.at), [self.show(value) for value in self.at]
        else:
            values = (log_ticks if self.scale.log else ticks)(self.scale, self.count)
            labels = [self.show(value) for value in values]
        return [(self.scale(value), label) for value, label in zip(values, labels, strict=True)]


@dataclass(frozen=True)
class ChartLine:
    """Values along an axis; where one is not a number there is a gap. ``kind`` is a class."""

    kind: str
    xs: Sequence[float]
    ys: Sequence[float]
    low: Sequence[float] = ()
    """With ``high``, a band around it."""
    high: Sequence[float] = ()
    steps: bool = False


@dataclass(frozen=True)
class Dot:
    """A point, with an interval if there is one."""

    kind: str
    x: float
    y: float
    title: str = ""
    low: float = float("nan")
    high: float = float("nan")


@dataclass(frozen=True)
class Level:
    """A value that matters everywhere: a line across."""

    kind: str
    y: float
    label: str = ""


@dataclass(frozen=True)
class Mark:
    """A moment or amount that matters: a line down."""

    kind: str
    x: float
    label: str = ""


def chart(
    name: str,
    lines: Sequence[ChartLine],
    *,
    title: str,
    description: str,
    x: Axis,
    y: Axis,
    dots: Sequence[Dot] = (),
    levels: Sequence[Level] = (),
    marks: Sequence[Mark] = (),
    height: int = 260,
) -> Markup:
    """Return lines with axes. ``name`` is an id that nothing else on the page has."""
    plot = _Plot(x.scale, y.scale, height)
    parts = [_grid(plot, y), _x_labels(plot, x)]
    parts += [_mark(plot, mark) for mark in marks if isfinite(mark.x)]
    parts += [_level(plot, level) for level in levels if isfinite(level.y)]
    parts.append(
        plot.stretched([_band(plot, line) for line in lines] + [_path(plot, line) for line in lines])
    )
    parts.append(_y_labels(plot, y))
    parts += [_level_label(plot, level) for level in levels if isfinite(level.y) and level.label]
    parts += [_dot(plot, dot) for dot in dots if isfinite(dot.x) and isfinite(dot.y)]
    return _svg(name, "chart", height, title, description, Markup().join(parts))


def sparkline(
    name: str, line: ChartLine, *, title: str, description: str, from_zero: bool = False, height: int = 44
) -> Markup:
    """Return a line without axes, as high as it goes, from its least value or from 0."""
    xs = [value for value in line.xs if isfinite(value)]
    ys = [value for value in line.ys if isfinite(value)]
    low, high = min(ys, default=0.0), max(ys, default=1.0)
    if from_zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if not high > low:
        low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
    plot = _Plot(Scale(min(xs, default=0.0), max(xs, default=1.0)), Scale(low, high), height, 4.0, 4.0)
    parts = [plot.stretched([_path(plot, line)])]
    last = [(a, b) for a, b in zip(line.xs, line.ys, strict=True) if isfinite(a) and isfinite(b)][-1:]
    parts += [
        Markup('<circle class="end" cx="{}%" cy="{}" r="3"/>').format(plot.across(a), plot.down(b))
        for a, b in last
    ]
    return _svg(name, "sparkline", height, title, description, Markup().join(parts))


Kind = Literal["seen", "change", "gone", "failed", "audit"]


def time_line(
    name: str,
    events: Sequence[tuple[float, Kind, str]],
    *,
    title: str,
    description: str,
    scale: Scale,
    marks: Sequence[Mark] = (),
    height: int = 108,
) -> Markup:
    """Return what happened when: polls are strokes, changes dots above, failures crosses, absence rings."""
    plot = _Plot(scale, Scale(0.0, 1.0), height, 26.0, 26.0)
    base = plot.down(0.0)
    parts = [_x_labels(plot, Axis(scale, time=True, count=5))]
    parts.append(Markup('<line class="base" x1="0" x2="100%" y1="{0}" y2="{0}"/>').format(base))
    parts += [_mark(plot, mark) for mark in marks if isfinite(mark.x)]
    shapes = {
        "seen": Markup('<line class="seen" x1="{0}%" x2="{0}%" y1="{2}" y2="{1}"><title>{5}</title></line>'),
        "audit": Markup(
            '<line class="audit" x1="{0}%" x2="{0}%" y1="{2}" y2="{1}"><title>{5}</title></line>'
        ),
        "change": Markup(
            '<line class="stem" x1="{0}%" x2="{0}%" y1="{3}" y2="{1}"/>'
            '<circle class="change" cx="{0}%" cy="{3}" r="4.5"><title>{5}</title></circle>'
        ),
        "gone": Markup('<circle class="absent" cx="{0}%" cy="{4}" r="3.5"><title>{5}</title></circle>'),
        "failed": Markup(
            '<svg x="{0}%" y="{4}" width="1" height="1" overflow="visible"><path class="failed" '
            'd="M-3.5 -3.5L3.5 3.5M-3.5 3.5L3.5 -3.5"><title>{5}</title></path></svg>'
        ),
    }
    for moment, kind, text in events:
        if isfinite(moment):
            at = plot.across(moment)
            parts.append(shapes[kind].format(at, base, base - 16, base - 36, base - 8, text))
    return _svg(name, "time-line", height, title, description, Markup().join(parts))


def bar(name: str, parts: Sequence[tuple[str, float]], *, title: str, description: str) -> Markup:
    """Return shares of a whole, side by side; ``parts`` are classes and amounts."""
    total = sum(amount for _, amount in parts)
    drawn, at = [], 0.0
    for kind, amount in parts:
        if amount > 0:
            share = 100.0 * amount / total
            drawn.append(
                Markup('<rect class="{}" x="{}%" y="0" width="{}%" height="10"/>').format(
                    kind, _short(at), _short(share)
                )
            )
            at += share
    if not drawn:
        drawn.append(Markup('<rect class="nothing" x="0" y="0" width="100%" height="10"/>'))
    return _svg(name, "bar", 10, title, description, Markup().join(drawn))


class _Plot:
    """Where things are in a chart of some height."""

    def __init__(
        self, x: Scale, y: Scale, height: int, top: float = _TOP_PIXELS, bottom: float = _BOTTOM_PIXELS
    ) -> None:
        self.x, self.y, self.height, self.top = x, y, height, top
        self.depth = height - top - bottom

    def across(self, value: float) -> str:
        """Return a place from the left, in per cent."""
        return _short(100.0 * self.x(value))

    def down(self, value: float) -> float:
        """Return a place from the top, in pixels."""
        return round(self.top + (1.0 - self.y(value)) * self.depth, 1)

    def point(self, x: float, y: float) -> str:
        """Return a place in the stretched picture."""
        return (
            f"{_short(_STRETCHED_SIDE_UNITS * self.x(x))} {_short(_STRETCHED_SIDE_UNITS * (1.0 - self.y(y)))}"
        )

    def stretched(self, parts: Sequence[Markup]) -> Markup:
        return Markup(
            '<svg class="lines" x="0" y="{}" width="100%" height="{}" viewBox="0 0 1000 1000" '
            'preserveAspectRatio="none" overflow="visible">{}</svg>'
        ).format(self.top, self.depth, Markup().join(parts))


def _short(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")


def _svg(name: str, kind: str, height: int, title: str, description: str, inside: Markup) -> Markup:  # noqa: PLR0917
    return Markup(
        '<svg class="{kind}" id="{name}" width="100%" height="{height}" role="img" '
        'aria-labelledby="{name}-title {name}-text" focusable="false" xmlns="http://www.w3.org/2000/svg">'
        '<title id="{name}-title">{title}</title><desc id="{name}-text">{text}</desc>{inside}</svg>'
    ).format(kind=kind, name=name, height=height, title=title, text=description, inside=inside)


def _grid(plot: _Plot, axis: Axis) -> Markup:
    line = Markup('<line class="grid" x1="0" x2="100%" y1="{0}" y2="{0}"/>')
    places = [round(plot.top + (1.0 - share) * plot.depth, 1) for share, _ in axis.labelled()]
    base = Markup('<line class="base" x1="0" x2="100%" y1="{0}" y2="{0}"/>').format(plot.top + plot.depth)
    return Markup().join(line.format(place) for place in places) + base


def _y_labels(plot: _Plot, axis: Axis) -> Markup:
    text = Markup('<text class="y" x="-8" y="{}" text-anchor="end">{}</text>')
    return Markup().join(
        text.format(round(plot.top + (1.0 - share) * plot.depth + 4, 1), label)
        for share, label in axis.labelled()
    )


def _x_labels(plot: _Plot, axis: Axis) -> Markup:
    text = Markup('<text class="{}" x="{}%" y="{}" text-anchor="{}">{}</text>')
    return Markup().join(
        text.format(
            "x odd" if number % 2 else "x", _short(100 * share), plot.height - 6, _anchor(share), label
        )
        for number, (share, label) in enumerate(axis.labelled())
    )


def _anchor(share: float) -> str:
    return "start" if share < 0.06 else "end" if share > 0.94 else "middle"


def _mark(plot: _Plot, mark: Mark) -> Markup:
    share = plot.x(mark.x)
    line = Markup('<line class="mark {0}" x1="{1}%" x2="{1}%" y1="{2}" y2="{3}"/>').format(
        mark.kind, plot.across(mark.x), plot.top - 2, plot.top + plot.depth
    )
    if not mark.label:
        return line
    side = "start" if share < 0.2 else "end" if share > 0.8 else "middle"
    return line + Markup('<text class="mark {}" x="{}%" y="10" text-anchor="{}">{}</text>').format(
        mark.kind, plot.across(mark.x), side, mark.label
    )


def _level(plot: _Plot, level: Level) -> Markup:
    return Markup('<line class="level {0}" x1="0" x2="100%" y1="{1}" y2="{1}"/>').format(
        level.kind, plot.down(level.y)
    )


def _level_label(plot: _Plot, level: Level) -> Markup:
    return Markup('<text class="level {}" x="100%" y="{}" text-anchor="end">{}</text>').format(
        level.kind, plot.down(level.y) - 5, level.label
    )


def _dot(plot: _Plot, dot: Dot) -> Markup:
    at, parts = plot.across(dot.x), []
    if isfinite(dot.low) and isfinite(dot.high):
        parts.append(
            Markup('<line class="whisker {0}" x1="{1}%" x2="{1}%" y1="{2}" y2="{3}"/>').format(
                dot.kind, at, plot.down(dot.high), plot.down(dot.low)
            )
        )
    title = Markup("<title>{}</title>").format(dot.title) if dot.title else Markup()
    parts.append(
        Markup('<circle class="dot {}" cx="{}%" cy="{}" r="4.5">{}</circle>').format(
            dot.kind, at, plot.down(dot.y), title
        )
    )
    return Markup().join(parts)


def _runs(line: ChartLine, values: Sequence[float]) -> list[list[tuple[float, float, int]]]:
    """Return the stretches of a line without gaps, thinned to what can be seen."""
    every = max(1, -(-len(line.xs) // _MOST_POINTS))
    runs: list[list[tuple[float, float, int]]] = [[]]
    for number, (a, b) in enumerate(zip(line.xs, values, strict=True)):
        if not (isfinite(a) and isfinite(b)):
            if runs[-1]:
                runs.append([])
        elif number % every == 0 or number == len(line.xs) - 1:
            runs[-1].append((a, b, number))
    return [run for run in runs if run]


def _path(plot: _Plot, line: ChartLine) -> Markup:
    drawn = []
    for run in _runs(line, line.ys):
        points = [plot.point(a, b) for a, b, _ in run]
        if line.steps:
            corners = [plot.point(run[n + 1][0], run[n][1]) for n in range(len(run) - 1)]
            points = [p for n, point in enumerate(points) for p in (point, *corners[n : n + 1])]
        drawn.append("M" + "L".join(points) + ("h.01" if len(points) == 1 else ""))
    if not drawn:
        return Markup()
    return Markup('<path class="line {}" d="{}" vector-effect="non-scaling-stroke"/>').format(
        line.kind, "".join(drawn)
    )


def _band(plot: _Plot, line: ChartLine) -> Markup:
    if not len(line.low):
        return Markup()
    drawn = []
    for run in _runs(line, line.ys):
        inside = [(a, line.low[n], line.high[n]) for a, _, n in run]
        inside = [entry for entry in inside if isfinite(entry[1]) and isfinite(entry[2])]
        there = [plot.point(a, high) for a, _, high in inside]
        back = [plot.point(a, low) for a, low, _ in reversed(inside)]
        if len(inside) > 1:
            drawn.append("M" + "L".join(there + back) + "Z")
    if not drawn:
        return Markup()
    return Markup('<path class="band {}" d="{}"/>').format(escape(line.kind), "".join(drawn))
