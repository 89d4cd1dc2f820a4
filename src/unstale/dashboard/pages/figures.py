"""What the pages draw: charts of a mirror's own figures, each with the same figures in a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from math import inf, isfinite, nan

import numpy as np
from markupsafe import Markup

from unstale import wording
from unstale.arguments import Floats
from unstale.mirror.reports.audit import Audit
from unstale.mirror.reports.explain import Explanation
from unstale.mirror.reports.status import Status
from unstale.mirror.reports.what_if import WhatIf
from unstale.mirror.store.contract import PollRecord, Sample
from unstale.quantities import show_number

from . import filters
from .charts import Axis, ChartLine, Dot, Kind, Level, Mark, bar, chart, sparkline, time_line
from .scales import Scale, duration_ticks, fitting, log_fitting

_MOST_ROWS = 40
"""Of a table beside a chart."""
_MOST_POINTS = 90
"""Of a small chart, that can be told apart."""
_BESIDE = {"true": "True", "uniform": "Uniform polling", "proportional": "Proportional polling"}
_HIGHEST_WORTH = 3.0
"""Times the price, up to which the worth of a poll is drawn."""
_DAYS = ("Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed")
_OUTCOMES = ("changed", "unchanged", "new", "gone", "refused", "failed")


@dataclass(frozen=True)
class Figure:
    """A chart, what its lines are, and the figures behind it."""

    svg: Markup
    caption: str
    legend: Sequence[tuple[str, str, str]] = ()
    """Class, name, and the value now."""
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = field(default_factory=list)
    places: Sequence[float] = ()
    """Where each row is in the chart, as a share of the way across; none if that is not told."""


@dataclass(frozen=True)
class SmallChart:
    """One of several small charts."""

    name: str
    value: str
    svg: Markup
    when: str = ""
    """Of what time the value is."""


def up_to_now(samples: Sequence[Sample], status: Status) -> list[Sample]:
    """Return samples up to the present, with the present as the last: so all figures of a page agree.

    What happened since the last sample is not known: its counts are 0, and not to be used.
    """
    before = [sample for sample in samples if sample.time < status.now]
    if not isfinite(status.freshness.value):
        return before
    fresh = status.freshness
    present = Sample(
        time=status.now, freshness=fresh.value, low=fresh.low, high=fresh.high, age=status.age,
        predicted=status.predicted, price=status.price, polls=0, failed=0, traffic=0,
    )  # fmt: skip
    return [*before, present]


def freshness(samples: Sequence[Sample], audits: Sequence[Audit], now: float) -> Figure:
    """Draw freshness over time: estimated with its interval, predicted, audited, and whatever is beside."""
    times = [sample.time for sample in samples]
    beside = [name for name in _BESIDE if any(name in sample.beside for sample in samples)]
    lines = [
        ChartLine(name, times, [sample.beside.get(name, nan) for sample in samples])
        for name in reversed(beside)
    ]
    lines.append(ChartLine("predicted", times, [sample.predicted for sample in samples]))
    low, high = [sample.low for sample in samples], [sample.high for sample in samples]
    lines.append(ChartLine("estimated", times, [sample.freshness for sample in samples], low, high))
    start = min(times, default=now - 3600.0)
    seen = [_corrected(samples, audit) for audit in audits if samples and audit.time >= start]
    dots = [dot for dot in seen if isfinite(dot.y)]
    values = [value for line in lines for value in (*line.ys, *line.low, *line.high)]
    values += [value for dot in dots for value in (dot.y, dot.low, dot.high)]
    last = samples[-1] if samples else None
    legend = [("estimated", "Estimated", filters.percent(last.freshness) if last else "")]
    legend += [
        (
            name,
            _BESIDE[name],
            next(filters.percent(s.beside[name]) for s in reversed(samples) if name in s.beside),
        )
        for name in beside
    ]
    if last is not None and any(isfinite(sample.predicted) for sample in samples):
        legend.append(("predicted", "Plan predicts", filters.percent(last.predicted)))
    if dots:
        legend.append(("audit", "Corrected by audits", filters.percent(dots[-1].y)))
    description = "No figures yet."
    if last is not None:
        description = (
            f"From {wording.show_time(start)} to {wording.show_time(times[-1])}. Last: estimated "
            f"{filters.percent(last.freshness)}, from {filters.percent(last.low)} "
            f"to {filters.percent(last.high)}"
            + "".join(f"; {name.lower()} {value}" for _, name, value in legend[1:])
            + "."
        )
    scale = Scale(start, max(now, *times) if times else now)
    svg = chart(
        "freshness-chart",
        lines,
        title="Freshness over time",
        description=description,
        x=Axis(scale, time=True, count=5),
        y=Axis(fitting(values, least=0.1, floor_at=0.0, top=1.0), _percent),
        dots=dots,
        height=300,
    )
    columns = ["Time", "Estimated", "From", "To", "Plan predicts", *(_BESIDE[name] for name in beside)]
    rows = [
        [
            wording.show_time(sample.time),
            *map(filters.percent, (sample.freshness, sample.low, sample.high, sample.predicted)),
            *(filters.percent(sample.beside.get(name, nan)) for name in beside),
        ]
        for sample in _thinned(samples)
    ]
    places = [scale(sample.time) for sample in _thinned(samples)]
    return Figure(svg, "Freshness over time", legend, columns, rows[::-1], places[::-1])


def _corrected(samples: Sequence[Sample], audit: Audit) -> Dot:
    """Return the estimate of that time, corrected by how far the audit was from what was expected of it.

    A sample has fewer of the most wanted elements than all that is wanted, so its own freshness is not that
    of the mirror; but the estimate is wrong by as much for the one as for the other.
    """
    nearest = min(samples, key=lambda sample: abs(sample.time - audit.time))
    by = nearest.freshness - audit.predicted
    copies = "copy was" if audit.sample == 1 else "copies were"
    text = (
        f"Audit: of {audit.sample} {copies} {filters.percent(audit.true)} fresh, and "
        f"{filters.percent(audit.predicted)} expected to be"
    )
    low, high = (min(max(value + by, 0.0), 1.0) for value in (audit.low, audit.high))
    return Dot("audit", audit.time, min(max(audit.true + by, 0.0), 1.0), text, low, high)


def _percent(value: float) -> str:
    text = f"{100 * value:.1f}".removesuffix(".0")
    return f"{text} %"


def _thinned(entries: Sequence[Sample]) -> list[Sample]:
    """Return some of many, evenly, with the last."""
    every = max(1, -(-len(entries) // _MOST_ROWS))
    return list(entries[::-1][::every][::-1])


def small_multiples(samples: Sequence[Sample], objective: str, *, present: bool = False) -> list[SmallChart]:
    """Draw what else is measured, side by side on the same time; the last may be the present, uncounted."""
    times = [sample.time for sample in samples]
    gaps = [b - a for a, b in pairwise(times)]
    spans = [nan, *gaps] if times else []  # since when the first one counts is not known
    if present and spans:
        spans[-1] = nan
    known_spans = [span for span in spans if span > 0]
    window = filters.window(known_spans[-1]) if known_spans else "known a minute after the start"

    def over_time(values: Sequence[float]) -> list[float]:
        return [value / span if span > 0 else nan for value, span in zip(values, spans, strict=True)]

    def price(value: float) -> str:
        return wording.show_price(value, objective)

    kinds: list[tuple[str, str, list[float], Callable[[float], str]]] = [
        ("age", "Expected age of a copy", [sample.age for sample in samples], filters.duration),
        ("rate", "Polls", over_time([float(s.polls) for s in samples]), _polls),
        ("failed", "Polls that failed", over_time([float(s.failed) for s in samples]), _or_none),
        ("traffic", "Traffic", over_time([float(s.traffic) for s in samples]), _traffic),
        ("price", "Price of a poll", [sample.price for sample in samples], price),
    ]
    found = []
    for name, title, values, show in kinds:
        counted = name in {"rate", "failed", "traffic"}
        value = next((show(v) for v in reversed(values) if isfinite(v)), "not yet" if counted else "unknown")
        known = [v for v in values if isfinite(v)]
        text = f"Last {value}" + (f"; between {show(min(known))} and {show(max(known))}." if known else ".")
        line = ChartLine("small", *_means(times, values))
        svg = sparkline(f"{name}-spark", line, title=title, description=text, from_zero=counted)
        found.append(SmallChart(title, value, svg, window if counted else "now"))
    return found


def _means(times: list[float], values: list[float]) -> tuple[list[float], list[float]]:
    """Return the means of so many values in a row that what is left can be seen."""
    wide = max(1, -(-len(times) // _MOST_POINTS))
    parts = [slice(n, n + wide) for n in range(0, len(times), wide)]
    known = [[v for v in values[part] if isfinite(v)] for part in parts]
    return [times[part][-1] for part in parts], [sum(k) / len(k) if k else nan for k in known]


def _polls(per_second: float) -> str:
    """Return a rate per minute, as samples are taken: a minute says nothing of a day."""
    return f"{filters.number(60.0 * per_second)} polls/minute"


def _or_none(per_second: float) -> str:
    return _polls(per_second) if per_second > 0 else "none"


def _traffic(per_second: float) -> str:
    return f"{wording.show_size(60.0 * per_second)}/minute"


def outcomes(counts: dict[str, int]) -> Figure:
    """Draw what polls saw."""
    known = [(name, counts[name]) for name in (*_OUTCOMES, *counts) if counts.get(name)]
    known = list(dict(known).items())
    text = ", ".join(f"{count:,} {name}" for name, count in known) or "no polls"
    title = "Polls of the last day by outcome"
    svg = bar("outcome-bar", [(name, float(count)) for name, count in known], title=title, description=text)
    return Figure(svg, title, [(name, name, f"{count:,}") for name, count in known])


# --- what if


def bought(curves: WhatIf, budget: float, policy: str = "optimal") -> float:
    """Return what a budget buys, between what has been worked out."""
    values = np.asarray(getattr(curves, policy), float)
    return float(np.interp(np.log(max(budget, 1e-300)), np.log(np.asarray(curves.budgets, float)), values))


def budget_of(curves: WhatIf, value: float, policy: str) -> float:
    """Return the budget with which a policy reaches a value; inf if none of those looked at does."""
    values = np.asarray(getattr(curves, policy), float)
    better = values >= value if curves.objective == "freshness" else values <= value
    if not better.any():
        return inf
    at = int(np.argmax(better))
    budgets = np.asarray(curves.budgets, float)
    if at == 0:
        return float(budgets[0])
    ends, logs = values[at - 1 : at + 1], np.log(budgets[at - 1 : at + 1])
    if ends[0] > ends[1]:
        ends, logs = ends[::-1], logs[::-1]
    return float(np.exp(np.interp(value, ends, logs)))


def _value_axis(objective: str, values: list[float]) -> Axis:
    """Return the axis of what budgets buy."""
    if objective == "freshness":
        return Axis(fitting(values, least=0.1, floor_at=0.0, top=1.0), _percent)
    if objective == "age":
        return _ages(values)
    return Axis(fitting(values, least=1e-9, floor_at=0.0), partial(shown_value, objective))


def shown_value(objective: str, value: float) -> str:
    """Return what a budget buys, in the unit of the objective.

    >>> shown_value("freshness", 0.5).split(), shown_value("missed-updates", 1.5)
    (['50.0', '%'], '1.5')
    """
    if objective == "freshness" or objective.startswith("currency:"):
        return filters.percent(value)
    return filters.duration(value) if objective == "age" else show_number(value)


def what_if(curves: WhatIf, tried: float | None) -> Figure:
    """Draw what other budgets would buy."""
    budgets = [float(budget) for budget in curves.budgets]
    kind = curves.unit
    show: Callable[[float], str] = partial(shown_value, curves.objective)
    lines = [
        ChartLine(name, budgets, [float(v) for v in getattr(curves, name)])
        for name in ("proportional", "uniform", "optimal")
    ]
    values = [value for line in lines for value in line.ys] + [curves.present_value]
    marks = [Mark("present", curves.present, "now")]
    dots = [Dot("present", curves.present, curves.present_value, "The present budget")]
    inside = tried is not None and budgets[0] <= tried <= budgets[-1]
    if tried is not None and inside:
        marks.append(Mark("tried", tried, "tried" if abs(np.log(tried / curves.present)) > 0.5 else ""))
        dots.append(Dot("tried", tried, bought(curves, tried), "The budget you try"))
    unit = (
        wording.byte_unit(curves.present)
        if kind == "bytes"
        else wording.amount_unit(curves.present, tried or 0.0)
    )

    def budget_label(per_second: float) -> str:
        text = wording.show_amount(per_second / unit.seconds, kind, unit)
        return text.replace(" polls/", "/").replace(" poll/", "/")

    scale = Scale(budgets[0] * unit.seconds, budgets[-1] * unit.seconds, log=True)
    lines = [ChartLine(line.kind, [x * unit.seconds for x in line.xs], line.ys) for line in lines]
    dots = [Dot(dot.kind, dot.x * unit.seconds, dot.y, dot.title) for dot in dots]
    marks = [Mark(mark.kind, mark.x * unit.seconds, mark.label) for mark in marks]
    name = {"freshness": "Freshness", "age": "Expected age"}.get(curves.objective, curves.objective)
    title = f"{name} against budget"
    at = curves.present if tried is None else tried
    legend = [
        (name, label, show(bought(curves, at, name)))
        for name, label in (
            ("optimal", "Optimal (unstale)"),
            ("uniform", "Uniform"),
            ("proportional", "Proportional to change"),
        )
    ]
    svg = chart(
        "what-if-chart",
        lines,
        title=title,
        description=f"At {wording.show_amount(at, kind)}: "
        + ", ".join(f"{name} {value}" for _, name, value in legend)
        + f". The present budget is {wording.show_amount(curves.present, kind)}.",
        x=Axis(scale, budget_label, count=5),
        y=_value_axis(curves.objective, values),
        dots=dots,
        marks=marks,
        height=340,
    )
    every = max(1, len(budgets) // _MOST_ROWS)
    rows = [
        [wording.show_amount(budgets[n], kind, unit if kind == "polls" else None)]
        + [show(float(getattr(curves, name)[n])) for name in ("optimal", "uniform", "proportional")]
        for n in range(0, len(budgets), every)
    ]
    places = [scale(budgets[n] * unit.seconds) for n in range(0, len(budgets), every)]
    return Figure(svg, title, legend, ["Budget", "Optimal", "Uniform", "Proportional"], rows, places)


def _ages(values: Sequence[float]) -> Axis:
    """Return an axis of ages: they differ by factors, so it is logarithmic."""
    scale = log_fitting(values)
    return Axis(scale, filters.short_duration, at=duration_ticks(scale))


# --- one element


def polls(explanation: Explanation, now: float, *, running: bool = True) -> Figure:
    """Draw polls and changes of an element on a line of time, up to the next poll if anybody makes it."""
    records = sorted(explanation.polls, key=lambda poll: poll.time)
    element = explanation.element
    start = records[0].time if records else element.added
    end = now
    upcoming = explanation.next_poll if running else inf
    if isfinite(upcoming) and upcoming > now:
        end = min(upcoming, now + max(0.5 * (now - start), 60.0))
    room = 0.02 * max(end - start, 1.0)
    events = [(poll.time, _kind(poll), f"{wording.show_time(poll.time)}: {poll.outcome}") for poll in records]
    marks = [Mark("now", now, "now")]
    if now < upcoming <= end:
        close = upcoming - now < 0.25 * (end - start)  # there is no room for two labels on a telephone
        marks = [Mark("now", now, "" if close else "now"), Mark("next", upcoming, "next poll")]
    changes = sum(poll.outcome == "changed" for poll in records)
    failed = sum(poll.outcome in {"failed", "refused"} for poll in records)
    counted = f"{wording.plural(len(records), 'poll')} since {wording.show_time(start)}"
    gone = sum(poll.outcome == "gone" for poll in records)
    absent = f"{gone} found it gone, " if gone else ""
    text = f"{counted}, {changes} saw a change, {absent}{failed} failed."
    svg = time_line(
        "poll-line",
        events,
        title="Polls and changes",
        description=text,
        scale=Scale(start - room, end + room),
        marks=marks,
    )
    rows = [
        [
            wording.show_time(poll.time),
            poll.outcome,
            filters.duration(poll.elapsed),
            filters.percent(poll.predicted),
            poll.detail,
        ]
        for poll in records[: -_MOST_ROWS - 1 : -1]
    ]
    legend = [("seen", "Poll, no change", ""), ("change", "Change seen", "")]
    kinds = {_kind(poll) for poll in records}
    legend += [
        (kind, name, "") for kind, name in (("gone", "Not there"), ("failed", "Failed")) if kind in kinds
    ]
    columns = ["Time", "Outcome", "After", "Was thought fresh", "Detail"]
    return Figure(svg, "Polls and changes", legend, columns, rows)


def _kind(poll: PollRecord) -> Kind:
    if poll.outcome in {"changed", "new"}:
        return "change"
    if poll.outcome == "gone":
        return "gone"
    if poll.outcome in {"failed", "refused"}:
        return "failed"
    return "seen" if poll.planned else "audit"


def worth(explanation: Explanation, now: float, *, running: bool = True) -> Figure | None:
    """Draw the worth of a poll over the coming time, against the price; None if there is nothing to draw."""
    times, worths = (np.asarray(part, float) for part in explanation.worths)
    price, upcoming = explanation.price, explanation.next_poll
    known = np.isfinite(times) & np.isfinite(worths)
    if np.count_nonzero(known) < 2 or not price > 0:
        return None
    times, worths = times[known], worths[known] / price
    if not np.any(worths <= _HIGHEST_WORTH):
        return None
    line = ChartLine("estimated", *_below(times, worths, _HIGHEST_WORTH))
    marks = [Mark("now", now, "now")]
    if times[0] <= upcoming <= times[-1]:
        close = abs(upcoming - now) < 0.12 * (times[-1] - times[0])
        label = "next poll" if running else "due"
        marks = [Mark("now", now, "" if close else "now"), Mark("next", upcoming, label)]
    present = float(np.interp(now, times, worths))
    scale = Scale(float(times[0]), float(times[-1]))
    text = f"Now a poll is worth {filters.percent(present, 0)} of the price" + (
        f"; the next poll is due {wording.distance(upcoming, now)}." if isfinite(upcoming) else "."
    )
    svg = chart(
        "worth-chart",
        [line],
        title="Worth of a poll against the price",
        description=text,
        x=Axis(scale, time=True, count=5),
        y=Axis(fitting([0.0, 1.2, *np.minimum(worths, _HIGHEST_WORTH).tolist()], floor_at=0.0), _percent),
        levels=[Level("price", 1.0, "price")],
        dots=[Dot("present", now, present, "Now")],
        marks=marks,
        height=240,
    )
    every = max(1, times.size // 24)
    rows = [
        [wording.show_time(float(t)), filters.percent(float(w), 0)]
        for t, w in zip(times[::every], worths[::every], strict=True)
    ]
    places = [scale(float(t)) for t in times[::every]]
    columns = ["Time", "Worth, of the price"]
    return Figure(svg, "Worth of a poll, as a share of the price", [], columns, rows, places)


def rhythm(explanation: Explanation) -> Figure | None:
    """Draw at which hours of the day or of the week elements of its kind change; None without a rhythm."""
    levels = explanation.rhythm_levels
    if not levels.size:
        return None
    hours = np.arange(levels.size + 1, dtype=float)
    steps = np.repeat(hours, 2)[1:-1].tolist(), np.repeat(levels, 2).tolist()
    scale, of_week = Scale(0.0, float(levels.size)), levels.size > 24
    svg = chart(
        "rhythm-chart",
        [ChartLine("estimated", *steps)],
        title="Changes by the hour",
        description=f"It changes {explanation.rhythm}." if explanation.rhythm else "It changes at all hours.",
        x=Axis(
            scale,
            partial(_hour, of_week=of_week),
            at=np.arange(0.0, levels.size, 24.0 if of_week else 4.0).tolist(),
        ),
        y=Axis(fitting([0.0, 1.2, *levels.tolist()], floor_at=0.0), "{:g}".format),
        levels=[Level("price", 1.0, "mean")],
        height=200,
    )
    rows = [[_hour(float(k), of_week=of_week), f"{level:.2f}"] for k, level in enumerate(levels)]
    places = [scale(k + 0.5) for k in range(levels.size)]
    columns = ["Hour (UTC)", "Changes, times the mean"]
    return Figure(svg, "Changes by the hour, times the mean", [], columns, rows, places)


def _hour(value: float, *, of_week: bool) -> str:
    """Name an hour of the day, or of the week that begins on Thursday."""
    day, hour = divmod(round(value), 24)
    return f"{_DAYS[day]} {hour:02d}:00" if of_week else f"{hour:02d}:00"


def _below(times: Floats, values: Floats, top: float) -> tuple[list[float], list[float]]:
    """Return a line up to where it leaves the chart at the top, and from where it comes back."""
    xs, ys = times.tolist(), values.tolist()
    found = [(xs[0], ys[0] if ys[0] <= top else nan)]
    for (a, b), (before, after) in zip(pairwise(xs), pairwise(ys), strict=True):
        if (before <= top) != (after <= top):
            found.append((a + (b - a) * (top - before) / (after - before), top))
        found.append((b, after if after <= top else nan))
    return [x for x, _ in found], [y for _, y in found]
