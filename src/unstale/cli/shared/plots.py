"""What the plots of all commands share: the check of ``--plot``, and labels of axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unstale.errors import need
from unstale.quantities import show_duration
from unstale.tables import check_writable

from .printing import show_cost

if TYPE_CHECKING:
    from matplotlib.axis import XAxis, YAxis


def check_plot(path: str | None) -> None:
    """Refuse, before any work is done, a plot that cannot be drawn; None if none is asked for."""
    if path is None:
        return
    check_writable("--plot", path, (".svg", ".png", ".pdf"))
    need("matplotlib.figure", extra="lab", needed_for="plots")


def cost_label(goal: str) -> str:
    """Return the label of an axis that shows the mean cost of an objective."""
    share = " (% of time)" if goal.startswith("currency:") else ""
    return " ".join(show_cost(goal, 0.0)[0].split()) + share


def label_times(axis: XAxis | YAxis) -> None:
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
