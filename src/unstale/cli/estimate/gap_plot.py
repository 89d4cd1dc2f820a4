"""The picture of gaps between changes: Figure 11 of Cho & Garcia-Molina (SIGMOD 2000)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from unstale.pictures import COLOURS, new_figure, save, styled
from unstale.quantities import show_duration

if TYPE_CHECKING:
    from unstale.arguments import Floats
    from unstale.estimation import GapShares
    from unstale.processes import Process

__all__ = ["gap_figure"]

_MARKS = 5


def gap_figure(
    path: str, shown: GapShares, *, seconds: float | None = None, laws: Mapping[str, Process] | None = None
) -> None:
    """Draw the share of gaps by their length, beside what Poisson changes and other laws would have.

    ``seconds`` are those of the unit of time; without, gaps are in mean gaps of their elements. ``laws`` are
    in the same unit as the shares.
    """
    import numpy as np

    middle = 0.5 * (shown.edges[1:] + shown.edges[:-1])
    with styled():
        figure = new_figure(7.5, 4.5)
        axes = figure.subplots()
        seen = shown.shares > 0
        axes.plot(middle, 100 * shown.exponential, color=COLOURS[1], label="Poisson: exponential gaps")
        for (name, law), colour in zip((laws or {}).items(), COLOURS[2:], strict=False):
            shares = -np.diff(law.survival(shown.edges))
            axes.plot(middle, 100 * _positive(shares), color=colour, linestyle="--", label=name)
        label = f"{shown.gaps:,} gaps of {_elements(shown.elements)}"
        axes.plot(middle[seen], 100 * shown.shares[seen], "o", color=COLOURS[0], markersize=5, label=label)
        axes.set_yscale("log")
        axes.set_xlim(0, shown.edges[-1])
        axes.set_ylim(bottom=min(100 * shown.shares[seen].min() / 2, 100 * shown.exponential.min()))
        axes.yaxis.set_major_formatter(lambda y, _: f"{y:,.12g}")
        axes.set(ylabel="share of the gaps (%)", title=_title(shown, seconds))
        _label_gaps(axes, shown, seconds)
        axes.legend(loc="upper right")
        save(figure, path)


def _positive(shares: Floats) -> Floats:
    """Leave out what cannot be drawn on a logarithmic axis."""
    import numpy as np

    return np.where(shares > 0, shares, np.nan)


def _elements(count: int) -> str:
    return f"{count:,} element{'s' if count != 1 else ''}"


def _title(shown: GapShares, seconds: float | None) -> str:
    if seconds is None:
        return "Gaps between changes"
    return f"Gaps between changes, {show_duration(shown.mean_gap * seconds)} in the mean"


def _label_gaps(axes: Any, shown: GapShares, seconds: float | None) -> None:  # noqa: ANN401
    if seconds is None:
        axes.set_xlabel("gap, in mean gaps of the element")
        return
    axes.set_xlabel("gap")
    places = [shown.edges[-1] * i / _MARKS for i in range(_MARKS + 1)]
    axes.set_xticks(places, ["0", *(show_duration(place * seconds) for place in places[1:])])
