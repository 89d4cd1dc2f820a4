"""The law of gaps from blind polls: no family of laws is assumed, and no change is seen but by polls.

If polls know nothing of the changes, then over all pairs of polls of an element that are x apart, the share
of those with a change in between tends to the residual cdf, G(x). That is concave: G(x) = rate * integral of
S from 0 to x, so its slope at 0 is the rate, and its slope at x over that at 0 the survival of gaps, S(x).

A concave function that rises from 0 to 1 is a mixture of min(x/b, 1), the residual cdfs of periodic changes.
So the regression is one with weights >= 0 for periods b on a grid (least squares, `scipy.optimize.nnls`), and
the weights are the law: a gap of b has the probability of its weight over b.

At 0 concave regression is not consistent (its slope there is too steep), so no period is shorter than a time
below which there are few pairs; the more polls, the shorter it is. Bursts within that time count as one
change.

References: Li, Cline & Loguinov (INFOCOM 2015), section III, for G; Groeneboom & Jongbloed (2014),
Nonparametric Estimation under Shape Constraints, for the regression and its trouble at 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from unstale.arguments import Floats, numbers, scalar, unwrap, whole
from unstale.draws import generator_of
from unstale.errors import InvalidInput
from unstale.estimation.poll_columns import Grouping, checked_polls
from unstale.processes import Empirical

_GAP_BINS = 120
_HAZARD_STRETCHES = 20
_RESAMPLED_CLUSTERS = 100
_PERIODS_BEYOND = 2.0 ** np.arange(1, 8)
"""Periods longer than what was looked at, in units of that: for the changes that never came."""


@dataclass(frozen=True, eq=False)
class Blind:
    """What blind polls say of the law of gaps."""

    periods: Floats
    weights: Floats
    """Of each period: the share of time that is spent in gaps of that length."""
    spans: Floats
    residual: Floats
    """G at these spans, with the bounds of its interval in `low` and `high`."""
    low: Floats
    high: Floats
    shares: Floats
    """Share of the pairs of polls about so far apart that had a change in between: what G was fitted to."""
    rate: float
    rate_low: float
    rate_high: float
    polls: int
    points: int

    def residual_cdf(self, t: ArrayLike) -> Floats:
        """G(t): probability that a change comes within ``t`` of a random moment."""
        x = numbers("t", t, at_least=0, infinite=True)
        return unwrap(np.minimum(x[..., None] / self.periods, 1.0) @ self.weights)

    def survival(self, gap: ArrayLike) -> Floats:
        """S(gap): probability that a gap is longer."""
        y = numbers("gap", gap, at_least=0, infinite=True)
        return unwrap((y[..., None] < self.periods) @ (self.weights / self.periods) / self.rate)

    @cached_property
    def law(self) -> Empirical:
        """The law of gaps for the planner: equally likely gaps, with exactly this rate.

        Each stands for an equal share of the gaps in order, by their mean.
        """
        kept = self.weights > 0
        share = np.cumsum(self.weights[kept] / self.periods[kept]) / self.rate
        share = np.concatenate([[0.0], share / share[-1]])
        length = np.concatenate([[0.0], np.cumsum(np.diff(share) * self.periods[kept])])
        return Empirical(
            np.diff(np.interp(np.linspace(0.0, 1.0, self.points + 1), share, length)) * self.points
        )


def estimate_blindly(
    elapsed: ArrayLike,
    changed: ArrayLike,
    elements: ArrayLike | None = None,
    *,
    longest: float | None = None,
    level: float = 0.9,
    points: int = 200,
    resamples: int = 50,
    seed: int = 0,
) -> Blind:
    """Estimate the law of gaps from polls that know nothing of the changes.

    Elements are taken to change alike. (If they do not, the answer is what a poll of a random element meets.)
    Polls at constant intervals say nothing below an interval.

    The rate is that of changes which polls could tell apart. Where gaps have no shortest scale (Weibull's
    with a shape below 1) it is too low, and so is its interval; G is right where polls looked at it.

    Parameters
    ----------
    elapsed, changed
        For each poll, the time since the one before, and whether the poll saw a change; in the order of time
        within each element.
    elements
        The number of the element of each poll; by default all are of one.
    longest
        How far apart pairs of polls may be that are used: at most half the longest history, and by default no
        further than nearly all have a change in between.
    level
        Of the intervals.
    points
        The number of times at which the law is found.
    resamples
        How many samples of the elements, or of stretches of time if there are few, intervals come from.
    seed
        Of the resamples.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> changes = np.cumsum(rng.weibull(0.5, size=5000)) / 2
    >>> times = np.cumsum(rng.exponential(size=3000))
    >>> found = estimate_blindly(np.diff(times), np.diff(np.searchsorted(changes, times)) > 0)
    >>> true = [1 - np.exp(-np.sqrt(2 * x)) * (1 + np.sqrt(2 * x)) for x in (1.0, 4.0)]
    >>> found.residual_cdf([1.0, 4.0]).round(1).tolist(), np.round(true, 1).tolist()
    ([0.4, 0.8], [0.4, 0.8])
    """
    spans, seen, grouped = checked_polls(elapsed, changed, elements)
    level = scalar("level", level, above=0, below=1)
    points, resamples = whole("points", points, at_least=1), whole("resamples", resamples, at_least=2)
    seed = whole("seed", seed)
    if not seen.any():
        raise InvalidInput(
            f"changed must have at least one poll that saw a change; none of the {seen.size} did"
        )
    histories = grouped.total(spans)
    top = _enough(spans, seen, grouped) if longest is None else scalar("longest", longest, above=0)
    top = max(min(top, histories.max() / 2), float(spans.min()))
    pairs = _Pairs(spans, seen, grouped, top)
    return _regression(pairs, histories.sum(), level, points, generator_of(seed), resamples)


class _Pairs:
    """Pairs of polls in bins by how far they are apart, cluster by cluster."""

    def __init__(
        self, elapsed: Floats, changed: NDArray[np.bool_], grouped: Grouping, longest: float
    ) -> None:
        n = elapsed.size
        self.polls = n
        clock, count = (np.concatenate([[0.0], np.cumsum(part)]) for part in (elapsed, changed.astype(float)))
        number = grouped.number
        self._cluster = self._clusters(grouped)
        least = _least(elapsed, longest)
        self.edges = np.concatenate([[0.0], np.geomspace(least, longest, _GAP_BINS)])
        self.edges[-1] *= 1.0 + 1e-12
        size = self._cluster.max(initial=0) + 1
        self.total, self.changed, self.length = (np.zeros((size, _GAP_BINS)) for _ in range(3))
        for lag in _lags(int(grouped.counts.max())):
            # from the poll before row i to the last poll of row i + lag - 1, if both are of one element
            start = np.flatnonzero(number[: n - lag + 1] == number[lag - 1 :])
            x = clock[start + lag] - clock[start]
            near = x < self.edges[-1]
            if not near.any():
                break
            start, x = start[near], x[near]
            place = np.searchsorted(self.edges, x, side="right") - 1
            at = self._cluster[start] * _GAP_BINS + place
            self.total += np.bincount(at, minlength=self.total.size).reshape(self.total.shape)
            self.changed += np.bincount(at, count[start + lag] > count[start], self.total.size).reshape(
                self.total.shape
            )
            self.length += np.bincount(at, x, self.total.size).reshape(self.total.shape)

    @staticmethod
    def _clusters(grouped: Grouping) -> NDArray[np.intp]:
        """Return the part of each poll that is drawn again as a whole: elements, or stretches of time."""
        if len(grouped) >= _HAZARD_STRETCHES:
            return grouped.number % _RESAMPLED_CLUSTERS
        parts = -(-_HAZARD_STRETCHES // len(grouped))
        stretch = grouped.place * parts // np.repeat(grouped.counts, grouped.counts)
        return grouped.number * parts + stretch


def _enough(elapsed: Floats, changed: NDArray[np.bool_], grouped: Grouping) -> float:
    """Return how far apart polls are if nearly all pairs have a change in between; infinite if never."""
    clock, count = (np.concatenate([[0.0], np.cumsum(part)]) for part in (elapsed, changed.astype(float)))
    number, n = grouped.number, elapsed.size
    for lag in _lags(int(grouped.counts.max())):
        start = np.flatnonzero(number[: n - lag + 1] == number[lag - 1 :])
        if (count[start + lag] > count[start]).mean() > 0.998:
            return 2.0 * float(np.median(clock[start + lag] - clock[start]))
    return np.inf


def _least(elapsed: Floats, longest: float) -> float:
    """Return the shortest period: below it lie the 4/5th power of the number of polls."""
    share = min(1.0, max(30.0, elapsed.size**0.8) / elapsed.size)
    return min(float(np.quantile(elapsed, share)), 0.5 * longest)


def _lags(most: int) -> list[int]:
    """Return numbers of polls to go ahead: all up to ten, then ever fewer."""
    steps = [*range(1, 11), *(10.0 * 1.1 ** np.arange(1, 400)).astype(int).tolist()]
    return sorted({lag for lag in steps if lag <= most})


def _regression(
    pairs: _Pairs, time: float, level: float, points: int, rng: np.random.Generator, resamples: int
) -> Blind:
    used = pairs.total.sum(axis=0) > 0
    total, seen = pairs.total[:, used], pairs.changed[:, used]
    spans = pairs.length[:, used].sum(axis=0) / total.sum(axis=0)
    shares = seen.sum(axis=0) / total.sum(axis=0)
    periods = np.concatenate([pairs.edges[1:], pairs.edges[-1] * _PERIODS_BEYOND])
    basis = np.minimum(spans[:, None] / periods, 1.0)
    # so many pairs do not overlap
    count = np.minimum(total.sum(axis=0), time / spans)
    weights, fitted = np.zeros(periods.size), shares
    for _ in range(3):
        variance = (fitted * (1.0 - fitted) + 0.5 / (count + 1.0)) / count
        weights = _mixture(basis, shares, variance)
        fitted = np.clip(basis @ weights, 0.0, 1.0)
    drawn = rng.multinomial(total.shape[0], np.full(total.shape[0], 1.0 / total.shape[0]), size=resamples)
    again = []
    for times in drawn:
        there = times @ total
        known = there > 0
        ratio = (times @ seen)[known] / there[known]
        again.append(_mixture(basis[known], ratio, variance[known]) if known.any() else weights)
    tails = 0.5 - level / 2, 0.5 + level / 2
    low, high = np.quantile(np.array(again) @ basis.T, tails, axis=0)
    rates = np.quantile(np.array(again) @ (1.0 / periods), tails)
    return Blind(
        periods=periods,
        weights=weights,
        spans=spans,
        residual=fitted,
        low=np.minimum(low, fitted),
        high=np.maximum(high, fitted),
        shares=shares,
        rate=float((weights / periods).sum()),
        rate_low=float(rates[0]),
        rate_high=float(rates[1]),
        polls=pairs.polls,
        points=points,
    )


def _mixture(basis: Floats, shares: Floats, variance: Floats) -> Floats:
    """Return the weights >= 0, with sum 1, of the mixture nearest to the shares."""
    scale = 1.0 / np.sqrt(variance)
    firm = 1e4 * scale.max()
    rows = np.vstack([basis * scale[:, None], np.full(basis.shape[1], firm)])
    weights, _ = scipy.optimize.nnls(rows / firm, np.append(shares * scale, firm) / firm)
    return weights / weights.sum()
