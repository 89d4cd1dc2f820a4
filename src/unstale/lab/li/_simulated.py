"""The two cases of Figures 3 to 5, their formulas and their simulation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

import unstale
from unstale.arguments import Floats
from unstale.lab.experiment import Run

Case = Literal["a", "b"]
CASES: dict[Case, str] = {
    "a": "bursty changes (Pareto, shape 3), polls at constant intervals",
    "b": "changes at constant intervals, bursty polls (Pareto, shape 3)",
}
_RATE = 2.0  # changes a day
_GAPS_AT_ONCE = 64


def laws(case: Case, frequency: ArrayLike, shape: float = 3.0) -> tuple[unstale.Process, unstale.Process]:
    """Return changes, 2 a day, and polls at these frequencies, of which one side is bursty."""
    f = np.asarray(frequency, float)
    bursty = unstale.Pareto(np.full(f.shape, shape), 1.0)
    if case == "a":
        return bursty.at_rate(np.full(f.shape, _RATE)), unstale.Periodic(1.0 / f)
    return unstale.Periodic(np.full(f.shape, 1.0 / _RATE)), bursty.at_rate(f)


class Renewals:
    """Polls of each element at the points of a renewal process: a stream for `unstale.simulate`."""

    def __init__(self, law: unstale.Process, rng: np.random.Generator) -> None:
        self.now, self._law, self._rng = 0.0, law, rng
        self._next = law.sample_residual(rng)

    @property
    def rate(self) -> float:
        """Polls per unit time, in the long run."""
        return float(self._law.rate.sum())

    def __len__(self) -> int:
        return int(self._next.size)

    def until(self, end: float) -> unstale.schedule.Polls:
        """Draw the polls from now on to just before ``end``."""
        due = np.flatnonzero(self._next < end)
        times, elements = [np.zeros(0)], [due[:0]]
        while due.size:
            gaps = self._law.take(due).sample(self._rng, (_GAPS_AT_ONCE, due.size))
            points = np.cumsum(np.concatenate([self._next[None, due], gaps]), axis=0)
            before, who = np.nonzero(points[:-1] < end)
            times.append(points[before, who])
            elements.append(due[who])
            beyond = np.where(points >= end, points, np.inf).min(axis=0)
            self._next[due] = np.where(points[-1] < end, points[-1], beyond)
            due = due[points[-1] < end]
        moments = np.concatenate(times)
        order = np.argsort(moments, kind="stable")
        self.now = end
        return unstale.schedule.Polls(moments[order], np.concatenate(elements)[order])


def play(
    run: Run,
    case: Case,
    frequencies: ArrayLike,
    *,
    shape: float = 3.0,
    objectives: Sequence[unstale.Objective] = (),
    each: int | None = None,
    world: int = 0,
) -> unstale.simulation.Outcome:
    """Simulate as many elements at each of these frequencies, one group after the other.

    Worlds of other numbers are independent of each other.
    """
    each = run.some(2000, 200) if each is None else each
    changes, polls = laws(case, np.repeat(np.asarray(frequencies, float), each), shape)
    stream = (
        unstale.Schedule(1.0 / polls.period)
        if isinstance(polls, unstale.Periodic)
        else Renewals(polls, run.rng(3, world))
    )
    result = unstale.simulate(
        unstale.World(changes),
        1.0,
        policies={case: stream},
        horizon=100.0,
        seed=run.seed + 1000 * world,
        objectives=objectives,
    )
    return result[case]


def lag_between_bursty_polls(run: Run, frequencies: Sequence[float], each: int) -> tuple[Floats, Floats]:
    """Simulate case (b) gap by gap, with gaps drawn by the square of their length; return lags and errors.

    The lag over a gap between polls grows like the square of the gap, whose square has no variance at shape
    3: plain averages do not settle. Gaps of x scales (density 3 (1+x)^-4) drawn with density
    3 x^2 (1+x)^-4, which is the ratio of gamma variables of shapes 3 and 1, count with weight 1/x^2. That
    leaves numbers between 0 and 1/2 to average. Each element is one gap, in units of its length.
    """
    rng, rows = run.rng(5), []
    for k, f in enumerate(frequencies):
        scale = 2.0 / f  # of gaps of shape 3, so that their mean is 1/f
        gaps = scale * rng.gamma(3.0, size=each) / rng.exponential(size=each)
        outcome = unstale.simulate(
            unstale.World(unstale.Periodic(1.0 / (_RATE * gaps))),
            1.0,
            policies={"b": unstale.Schedule(np.ones(each), phases=np.zeros(each))},
            horizon=1.0,
            burn_in=0.0,
            batches=2,
            seed=run.seed + 1000 * k,
        )["b"]
        mean, error = spread(outcome.elements.age, 1)
        rows.append((f * scale**2 * mean[0], f * scale**2 * error[0]))
    lags, errors = np.transpose(rows)
    return lags, errors


def spread(values: Floats, groups: int) -> tuple[Floats, Floats]:
    """Return the mean of each of so many groups of elements in a row, and its standard error."""
    grouped = values.reshape(groups, -1)
    return grouped.mean(axis=1), grouped.std(axis=1, ddof=1) / np.sqrt(grouped.shape[1])
