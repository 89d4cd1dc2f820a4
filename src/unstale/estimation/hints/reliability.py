"""How reliable hints are, from polls with and without them.

A poll tells whether an element has changed in the time t since the last one, in which there were n hints. If
changes without a hint come at the rate a, and each hint comes of a change with probability 1 - e^-k, then

    -log P(unchanged) = a t + k n.

Maximum likelihood of a >= 0 and k >= 0 gives the rest: with gam hints per unit time, changes come at the
rate a + gam (1 - e^-k), and the recall is the hinted share of that. It is the maximum of a concave function,
and of one of k alone once the best a for each k is known. Intervals are all values of which the likelihood
is not much lower than at its maximum.

As in the estimators of rates, half an unchanged poll and half a hint that came to nothing are added to what
was seen, so that histories in which all polls found changes, or all hints were true, have an answer too.

If hints say nothing, polls are unchanged with chances that depend on their elapsed times alone. Given how
many were, it is a matter of chance which ones, and so how many hints came before these. Fewer than chance
would have it speak for the hints. With few unchanged polls the usual distribution of a ratio of likelihoods
is a poor guide, but that chance can be calculated (`chance_of_fewer`).

For several elements see `unstale.estimation.hints.shared_reliability`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, log, log2, pi, sqrt
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from unstale.arguments import Floats, scalar

from .hinted_changes import LEAST_RATE, HintedChanges
from .hinted_polls import HintedPolls
from .shared_reliability import SharedReliability

_CERTAIN_EVIDENCE = 40.0
"""Evidence of a hint that is as good as certain."""
_SEARCH_DIRECTIONS = 64
_MOST_UNCHANGED_EXACT = 20
"""Unchanged polls up to which the distribution of a test is calculated."""
_MOST_COUNTED_HINTS = 1000
"""More hints than these are counted in larger units."""
_MOST_EXACT_POLLS = 4096
"""Of more polls, some are drawn as if the same one could be drawn again."""
_ROUNDING_LOG_LIKELIHOOD = 1e-9
"""Differences of logarithms of likelihoods that come of rounding."""


class ValueInInterval(NamedTuple):
    """An estimate and its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class HintEstimate:
    """What polls say about hints."""

    rate: Floats
    """Changes per unit time; of each element if there are several."""
    hint_rate: Floats
    """Hints per unit time; likewise."""
    precision: ValueInInterval
    """Share of hints that come of a change."""
    recall: ValueInInterval
    """Share of changes that give a hint."""
    mean_rate: ValueInInterval
    """Changes per unit time of an element, on average over the time of the polls."""
    p_value: float
    """Chance that hints which say nothing would seem to say as much as these."""
    polls: int
    changes: int
    """Polls that saw one."""
    hints: float

    @property
    def law(self) -> HintedChanges:
        """The changes and their hints, with the same recall and precision for all elements."""
        rate = np.where(self.rate < LEAST_RATE, 0.0, self.rate)
        if self.precision.value == 0.0:
            return HintedChanges(rate, 0.0, self.hint_rate)
        true = self.recall.value * rate
        return HintedChanges(rate, self.recall.value, true * (1.0 / self.precision.value - 1.0))


def estimate_hints(
    elapsed: ArrayLike,
    hints: ArrayLike,
    changed: ArrayLike,
    *,
    elements: ArrayLike | None = None,
    level: float = 0.9,
) -> HintEstimate:
    """Estimate how often elements change, and how reliable the hints are that they give.

    Parameters
    ----------
    elapsed
        For each poll, the time since the one before.
    hints
        The hints that came in that time.
    changed
        Whether the poll saw a change.
    elements
        The number of the element of each poll, if there are several. Each has a rate of its own, and all
        share the recall and the precision of their hints, which come from one source.
    level
        Of the intervals.

    Examples
    --------
    >>> polls = {"elapsed": [1, 1, 2, 1, 3, 1], "hints": [0, 1, 0, 2, 0, 1], "changed": [0, 1, 0, 1, 1, 0]}
    >>> estimate = estimate_hints(**polls)
    >>> estimate.precision.value, estimate.recall.value
    (0.45, 0.49)
    >>> useless = estimate_hints([1.0] * 8, [0, 1] * 4, [0, 0, 0, 0, 1, 1, 1, 1])
    >>> useless.p_value > 0.3
    True
    """
    polls = HintedPolls.of(elapsed, hints, changed, elements)
    z = float(scipy.special.ndtri(0.5 + 0.5 * scalar("level", level, above=0, below=1)))
    unit = 2.0 ** round(log2(polls.total_time / polls.count))  # exact, and all times are of some 1
    polls = polls.in_units_of(unit)
    if elements is None or not polls.elapsed.size:
        found = _alone(polls.pooled(), z, None if elements is None else polls.time.size)
    else:
        found = _together(polls, z)
    return replace(
        found,
        rate=found.rate / unit,
        hint_rate=found.hint_rate / unit,
        mean_rate=ValueInInterval(*(part / unit for part in found.mean_rate)),
    )


def _alone(polls: HintedPolls, z: float, several: int | None) -> HintEstimate:
    """Estimate from the polls of one element; ``several`` that have never changed are alike."""
    fit = _Likelihood(polls, polls.false_hints + 0.5)
    k = fit.best()
    edge = fit.edge(k, 0.5 * z * z)
    if not polls.varied:  # nothing tells hints from the time that passes
        k, edge = 0.0, (np.append(edge[0], fit.unhinted(0.0)), np.append(edge[1], 0.0))
    rate, hint_rate = fit.rate(fit.unhinted(k), np.array(k)), polls.total_hints / polls.total_time
    return HintEstimate(
        rate=rate[()] if several is None else np.full(several, rate),
        hint_rate=np.array(hint_rate)[()] if several is None else polls.hinted / polls.time,
        precision=fit.precision(k, edge),
        recall=fit.recall(k, edge, z),
        mean_rate=fit.mean_rate(k, edge, z),
        p_value=_p_value(polls),
        polls=polls.count,
        changes=polls.elapsed.size,
        hints=polls.total_hints,
    )


def _together(polls: HintedPolls, z: float) -> HintEstimate:
    shared = SharedReliability.fitted(polls)
    errors = shared.errors()
    precision = (
        shared.precision * np.exp(-z * errors.precision),
        shared.precision * np.exp(z * errors.precision),
    )
    odds = scipy.special.logit(shared.recall)
    recall = scipy.special.expit(odds - z * errors.recall), scipy.special.expit(odds + z * errors.recall)
    if polls.total_hints and not polls.varied:
        precision = recall = np.float64(0.0), np.float64(1.0)
    mean = float(shared.rates @ polls.time / polls.total_time)
    return HintEstimate(
        rate=shared.rates,
        hint_rate=shared.rates * shared.hints_per_change,
        precision=ValueInInterval(shared.precision, float(precision[0]), min(float(precision[1]), 1.0)),
        recall=ValueInInterval(shared.recall, *map(float, recall)),
        mean_rate=ValueInInterval(
            mean, mean * float(np.exp(-z * errors.rate)), mean * float(np.exp(z * errors.rate))
        ),
        p_value=shared.p_value(),
        polls=polls.count,
        changes=polls.elapsed.size,
        hints=polls.total_hints,
    )


@dataclass(frozen=True, eq=False)
class _Likelihood:
    """Of a, the rate of unhinted changes, and k, the evidence of a hint, from the polls of one element."""

    polls: HintedPolls
    false_hints: float

    def value(self, a: float, k: float) -> float:
        """Logarithm of the likelihood."""
        polls = self.polls
        with np.errstate(divide="ignore"):
            changed = np.log(-np.expm1(-polls.evidence(np.array([a]), k))).sum()
        return float(changed - a * (polls.quiet + polls.half)[0] - k * self.false_hints)

    def unhinted(self, k: float) -> Floats:
        """Return the best a for a given k."""
        polls = self.polls
        quiet = polls.quiet + polls.half
        with np.errstate(divide="ignore", over="ignore"):
            start = polls.sums(polls.elapsed / np.expm1(k * polls.hints))
        return polls.balanced(k, np.where(start > quiet, 0.0, np.nan), quiet)[0]

    def best(self) -> float:
        """Return the best k."""
        polls = self.polls
        hinted = polls.hints > 0

        def slope(k: float) -> float:
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                pull = polls.hints / np.expm1(polls.evidence(np.array([self.unhinted(k)]), k))
            return float(pull[hinted].sum()) - self.false_hints

        true = np.count_nonzero(hinted)  # n/(e^kn - 1) < 1/k, which bounds k
        most = min(true / self.false_hints, _CERTAIN_EVIDENCE) if self.false_hints > 0 else _CERTAIN_EVIDENCE
        if not true or slope(0.0) <= 0.0:
            return 0.0
        if slope(most) >= 0.0:
            return most
        return float(scipy.optimize.brentq(slope, 0.0, most, xtol=1e-12 * most))

    # --- intervals ------------------------------------------------------------------------------------------

    def edge(self, k: float, drop: float) -> tuple[Floats, Floats]:
        """Return values of a and k at which the logarithm of the likelihood is lower by ``drop``."""
        a = float(self.unhinted(k))
        floor = self.value(a, k) - drop
        axes = self._axes(a, k) * sqrt(2.0 * drop)
        angles = np.linspace(0.0, 2.0 * pi, _SEARCH_DIRECTIONS, endpoint=False)
        steps = (axes @ np.stack([np.cos(angles), np.sin(angles)])).T
        found = np.array([self._out(np.array([a, k]), step, floor) for step in steps])
        return found[:, 0], found[:, 1]

    def _axes(self, a: float, k: float) -> Floats:
        """Return a square root of the inverse of the curvature: one standard error in each direction."""
        polls = self.polls
        with np.errstate(over="ignore", divide="ignore"):
            odds = np.minimum(1.0 / np.expm1(polls.evidence(np.array([a]), k)), 1e6)
        columns = np.stack([polls.elapsed, polls.hints])
        curve = (columns * (odds * (1.0 + odds))) @ columns.T
        slopes = np.array([float((polls.quiet + polls.half)[0]), self.false_hints])
        curve += np.diag(np.where(np.diag(curve) > 0, 1e-9 * np.diag(curve), slopes**2))
        return np.linalg.inv(np.linalg.cholesky(curve)).T

    def _out(self, start: Floats, step: Floats, floor: float) -> Floats:
        """Go from the maximum in a direction until the likelihood falls to the floor, or a bound is met."""
        with np.errstate(divide="ignore", invalid="ignore"):
            end = float(np.min(np.where(step < 0, start / -step, inf)))

        def above(far: float) -> float:
            return max(self.value(*np.maximum(start + far * step, 0.0)) - floor, -1e9)

        far = min(1.0, end)
        while far < end and far < 1e9 and above(far) > 0:
            far = min(2.0 * far, end)
        if far > 0 and above(far) < 0:
            far = float(scipy.optimize.brentq(above, 0.0, far, xtol=1e-9, rtol=1e-9))
        return np.maximum(start + far * step, 0.0)

    def precision(self, k: float, edge: tuple[Floats, Floats]) -> ValueInInterval:
        """Share of hints that are true."""
        if self.polls.total_hints == 0.0:
            return ValueInInterval(0.0, 0.0, 1.0)
        found = -np.expm1(-np.append(edge[1], k))
        return ValueInInterval(float(found[-1]), float(found.min()), float(found.max()))

    def rate(self, a: Floats, k: Floats) -> Floats:
        """Changes per unit time."""
        return a - np.expm1(-k) * self.polls.total_hints / self.polls.total_time

    def mean_rate(self, k: float, edge: tuple[Floats, Floats], z: float) -> ValueInInterval:
        """Changes per unit time."""
        value = float(self.rate(self.unhinted(k), np.array(k)))
        error = -z * float(np.expm1(-k)) * sqrt(self.polls.total_hints) / self.polls.total_time
        low, high = _widened(value, self.rate(*edge), error)
        return ValueInInterval(value, max(low, 0.0), high)

    def recall(self, k: float, edge: tuple[Floats, Floats], z: float) -> ValueInInterval:
        """Share of changes that are hinted."""
        hints, time = self.polls.total_hints, self.polls.total_time
        a = self.unhinted(k)
        if hints == 0.0:  # how many might have come, and did not
            most = -log(scipy.special.ndtr(-z)) / (float(a) * time) if a > 0 else 1.0
            return ValueInInterval(0.0, 0.0, min(most, 1.0))

        def odds(a: Floats, k: Floats) -> Floats:
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.log(-np.expm1(-k) * hints / time) - np.log(a)

        value = float(odds(a, np.array(k)))
        if np.isnan(value):  # nothing has changed
            return ValueInInterval(0.0, 0.0, 1.0)
        low, high = _widened(value, odds(*edge), z / sqrt(hints))
        return ValueInInterval(*(float(scipy.special.expit(one)) for one in (value, low, high)))


def _widened(value: float, found: Floats, error: float) -> tuple[float, float]:
    """Return the range of what was found, with the error of the number of hints added to it."""
    found = found[~np.isnan(found)]
    low, high = min(float(found.min()), value), max(float(found.max()), value)
    if np.isinf(value):
        return low, high
    return (
        low if np.isinf(low) else value - float(np.hypot(value - low, error)),
        high if np.isinf(high) else value + float(np.hypot(high - value, error)),
    )


def _p_value(polls: HintedPolls) -> float:
    """Test k = 0 by the ratio of likelihoods: as k >= 0, it is 0 half of the time, and else chi-square.

    Nothing is added to what was seen: if all polls saw a change, that is as likely as can be without hints.
    """
    unchanged = polls.count - polls.elapsed.size
    if not polls.varied or not unchanged:
        return 1.0
    fit = _Likelihood(polls.as_seen(), polls.false_hints)
    useless, k = fit.unhinted(0.0), fit.best()
    gain = fit.value(float(fit.unhinted(k)), k) - fit.value(float(useless), 0.0)
    if not gain > _ROUNDING_LOG_LIKELIHOOD:
        return 1.0
    if unchanged <= _MOST_UNCHANGED_EXACT:
        chances = np.exp(-useless * polls.all_elapsed)
        return chance_of_fewer(chances, polls.all_hints, unchanged, polls.false_hints)
    return float(0.5 * scipy.special.chdtrc(1.0, 2.0 * gain))


def chance_of_fewer(unchanged: Floats, hints: Floats, polls: int, false: float) -> float:
    """Return how likely it is that so many unchanged polls come after ``false`` hints, or fewer.

    ``unchanged`` has the chance of each poll to see no change.

    >>> round(chance_of_fewer(np.full(4, 0.3), np.array([0.0, 1.0, 2.0, 2.0]), 2, 1.0), 6)  # a pair of six
    0.166667
    """
    unit = max(false / _MOST_COUNTED_HINTS, 1.0)
    most = int(false // unit)
    counts = np.minimum(hints // unit, most + 1).astype(np.int64)
    if hints.size > _MOST_EXACT_POLLS:
        return _chance_with_replacement(unchanged, counts, polls, most)
    odds = np.zeros((polls + 1, most + 2))  # by polls and hints; the last column is for all that are more
    odds[0, 0] = 1.0
    for chance, count in zip(unchanged.tolist(), counts.tolist(), strict=True):
        taken = np.zeros_like(odds[:-1])
        taken[:, count:] = odds[:-1, : most + 2 - count]
        taken[:, -1] += odds[:-1, most + 2 - count :].sum(axis=1)
        odds *= 1.0 - chance
        odds[1:] += chance * taken
    total = float(odds[-1].sum())
    return float(odds[-1, :-1].sum()) / total if total > 0 else 1.0  # it cannot be so at all


def _chance_with_replacement(unchanged: Floats, counts: NDArray[np.int64], polls: int, most: int) -> float:
    """Draw polls one after the other, each in proportion to its odds."""
    from scipy import signal  # slow to import, rarely needed

    odds = unchanged / np.maximum(1.0 - unchanged, 1e-300)
    one = np.bincount(counts, odds / odds.sum(), most + 2)[:-1]
    all_ = np.ones(1)
    for _ in range(polls):
        all_ = np.maximum(signal.convolve(all_, one)[: most + 1], 0.0)
    return float(all_.sum())
