"""The picture of ``unstale estimate``: gaps between changes as polls saw them, beside what laws would show.

Polls blur gaps: what changes twice between two polls is seen once, at an unknown time. So the laws are
shown as the same polls would have seen them, by simulation. Gaps are in mean gaps of their element.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike, NDArray

from unstale.arguments import Floats
from unstale.estimation import GapShares, gap_shares
from unstale.picture_style import COLOURS, new_figure, save, styled
from unstale.processes import Poisson, Process
from unstale.quantities import show_duration
from unstale.tables import PollLog, bad_file
from unstale.wording import plural

from .laws import WhichLaw, show_law

_LEAST_CHANGES_SEEN = 6
"""Least changes of an element that were seen."""
_MOST_ELEMENTS_DRAWN = 200
_SIMULATED_TIMES = 40
_BISECTION_STEPS = 40
_TICKS_OF_GAPS = 5


def draw_gaps(path: str, file: str, log: PollLog, laws: list[WhichLaw] | None) -> None:
    """Draw the shares of gaps by their length, beside those of Poisson changes and of the law that fits."""
    watched = Watched.of(log)
    if watched is None:
        raise bad_file(
            file,
            f"--plot needs an element that was seen changed {_LEAST_CHANGES_SEEN} times or more, "
            "and unchanged at least as often; there is none",
        )
    shown = gap_shares(*watched.gaps(watched.changed))
    poisson = gap_shares(*watched.gaps_of(Poisson(1.0)))
    shares = np.maximum(poisson.shares, 0.5 / poisson.gaps)  # for the logarithmic axis
    drawn: dict[str, Process] = {}
    fits = laws[0].fits if laws is not None and len(laws) == 1 else None
    if fits is not None and fits.best.name != "poisson":
        own = gap_shares(*watched.gaps_of(fits.law)).shares
        drawn[show_law(fits.best)] = cast("Process", _AsPolled(own))
    gap_figure(path, replace(shown, exponential=shares), laws=drawn)


@dataclass(frozen=True)
class _AsPolled:
    """Gaps of a law as polls see them, in place of the law."""

    shares: Floats

    def survival(self, _edges: ArrayLike) -> Floats:
        """Return the share of gaps beyond each edge of the bins."""
        return 1.0 - np.cumsum(np.concatenate([[0.0], self.shares]))


@dataclass(frozen=True, eq=False)
class Watched:
    """Polls of elements that changed often enough, but not at every poll."""

    elements: NDArray[np.int64]
    """Of each poll, counted from 0 without gaps."""
    elapsed: Floats
    changed: NDArray[np.bool_]

    @classmethod
    def of(cls, log: PollLog) -> Watched | None:
        """Return the elements that were seen changed most often; None if there is none to be seen."""
        polls = np.bincount(log.elements)
        changes = np.bincount(log.elements, log.changed)
        good = np.flatnonzero((changes >= _LEAST_CHANGES_SEEN) & (2 * changes <= polls))
        if not good.size:
            return None
        good = np.sort(good[np.argsort(-changes[good], kind="stable")][:_MOST_ELEMENTS_DRAWN])
        rows = np.isin(log.elements, good)
        return cls(np.searchsorted(good, log.elements[rows]), log.elapsed[rows], log.changed[rows])

    def gaps(self, changed: NDArray[np.bool_]) -> tuple[Floats, NDArray[np.int64]]:
        """Return times between changes that polls saw, and whose they are.

        A change is taken to be in the middle of the time since the poll before.
        """
        moments = (np.cumsum(self.elapsed) - 0.5 * self.elapsed)[changed]
        owners = self.elements[changed]
        same = owners[1:] == owners[:-1]
        gaps, owners = np.diff(moments)[same], owners[1:][same]
        kept = np.bincount(owners, minlength=1)[owners] >= _LEAST_CHANGES_SEEN - 1
        return gaps[kept], owners[kept]

    def gaps_of(self, law: Process) -> tuple[Floats, NDArray[np.int64]]:
        """Return gaps as the same polls would see them if all elements changed by this law of mean gap 1."""
        rng = np.random.default_rng(0)
        elapsed = self.elapsed * self._rates(law)[self.elements]
        count = int(self.elements[-1]) + 1
        ends = np.cumsum(elapsed)  # the time of all elements, one after the other
        last = np.flatnonzero(np.diff(self.elements, append=count))
        stop = ends[last]
        start = np.concatenate([[0.0], stop[:-1]])
        gaps, owners = [], []
        now = start[:, None] + law.sample_residual(rng, (count, _SIMULATED_TIMES))
        changed = np.zeros((_SIMULATED_TIMES, elapsed.size), bool)
        while (alive := now <= stop[:, None]).any():
            who, repeat = np.nonzero(alive)
            changed[repeat, np.minimum(np.searchsorted(ends, now[alive]), last[who])] = True
            now[alive] += law.sample(rng, int(alive.sum()))
        for turn in range(_SIMULATED_TIMES):
            some, whose = self.gaps(changed[turn])
            gaps.append(some)
            owners.append(whose + turn * count)
        return np.concatenate(gaps), np.concatenate(owners)

    def _rates(self, law: Process) -> Floats:
        """Return the rate of each element at which as many of its polls see a change as did."""
        seen, polls = np.bincount(self.elements, self.changed), np.bincount(self.elements)
        rough = polls / np.bincount(self.elements, self.elapsed)
        low, high = np.log(rough) - 15.0, np.log(rough) + 15.0
        for _ in range(_BISECTION_STEPS):
            middle = 0.5 * (low + high)
            expected = np.bincount(
                self.elements, law.residual_cdf(np.exp(middle)[self.elements] * self.elapsed)
            )
            low, high = np.where(expected < seen, middle, low), np.where(expected < seen, high, middle)
        return np.exp(0.5 * (low + high))


def gap_figure(
    path: str, shown: GapShares, *, seconds: float | None = None, laws: Mapping[str, Process] | None = None
) -> None:
    """Draw the share of gaps by their length, beside what Poisson changes and other laws would have.

    It is Figure 11 of Cho & Garcia-Molina (SIGMOD 2000).

    ``seconds`` are those of the unit of time; without, gaps are in mean gaps of their elements. ``laws`` are
    in the same unit as the shares.
    """
    middle = 0.5 * (shown.edges[1:] + shown.edges[:-1])
    with styled():
        figure = new_figure(7.5, 4.5)
        axes = figure.subplots()
        seen = shown.shares > 0
        axes.plot(middle, 100 * shown.exponential, color=COLOURS[1], label="Poisson: exponential gaps")
        for (name, law), colour in zip((laws or {}).items(), COLOURS[2:], strict=False):
            shares = -np.diff(law.survival(shown.edges))
            axes.plot(middle, 100 * _positive(shares), color=colour, linestyle="--", label=name)
        label = f"{shown.gaps:,} gaps of {plural(shown.elements, 'element')}"
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
    return np.where(shares > 0, shares, np.nan)


def _title(shown: GapShares, seconds: float | None) -> str:
    if seconds is None:
        return "Gaps between changes"
    return f"Gaps between changes, {show_duration(shown.mean_gap * seconds)} in the mean"


def _label_gaps(axes: Axes, shown: GapShares, seconds: float | None) -> None:
    if seconds is None:
        axes.set_xlabel("gap, in mean gaps of the element")
        return
    axes.set_xlabel("gap")
    places = [shown.edges[-1] * i / _TICKS_OF_GAPS for i in range(_TICKS_OF_GAPS + 1)]
    axes.set_xticks(places, ["0", *(show_duration(place * seconds) for place in places[1:])])
