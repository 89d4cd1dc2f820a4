"""What hints are worth for any objective: the cost to expect with them, and what a poll is worth then.

Let c be the cost that is to be expected of a copy, by the time since its last poll and by the hints since. It
never falls until the next poll, so the best polls are made when it reaches a level, and a poll at a level is
worth

    W(level) = E[level T - integral of c up to T],         T: the time at which c reaches the level,

which is t g(t) - accrued(t) where no hint comes (see `unstale.objectives`). The mean is over the hints to
come: the first counts at its moment h, which is exponential; those after it count by what they are on
average, changes at the full rate. For freshness `HintedChanges` has the same without that approximation.

With the factor f of a hint (the share of false ones among hints) and the rate a of changes that give none,
the probability that a copy is fresh is e^{-a s} f^n after n hints. So a hint at h takes the share 1 - f of
what is fresh, and lets it change there: costs of changes that are known to be at h, and of Poisson changes,
add up to the cost with hints.

Reference: Busa-Fekete et al. (WWW 2025), for freshness.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats
from unstale.errors import InvalidInput
from unstale.objectives import Harmonic, Objective, SourcePenalty, UpdatePenalty, ein
from unstale.processes import Poisson

from .hinted_changes import HintedChanges

_FIRST_HINTS = 12
"""Moments of the first hint, over which the mean is taken by a rule of Gauss."""
_TOLERANCE = 1e-10
"""Of a time, or of the cost that is reached there, relatively."""
_QUICK_STEPS, _MOST_STEPS = 12, 50
_DOUBLINGS = 200
_UNIT_NODES, _UNIT_WEIGHTS = (
    0.5 * part + shift
    for part, shift in zip(np.polynomial.legendre.leggauss(_FIRST_HINTS), (0.5, 0.0), strict=True)
)
_LONGEST = 1e30
"""Of a wait, in mean times between changes; it stands for longer ones."""


@dataclass(frozen=True, eq=False)
class HintedCosts:
    """What elements with hints cost by an objective: one entry for each element.

    >>> from unstale.objectives import objective_named
    >>> age = HintedCosts(HintedChanges([1.0, 1.0], [0.0, 0.9], [0.0, 0.1]), objective_named("age"))
    >>> age.cost(np.array([1.0, 1.0]), np.array([[np.nan], [0.5]])).round(3).tolist()     # one hint, halfway
    [0.368, 0.46]
    >>> age.worth(np.array([0.368, 0.368])).round(3).tolist()           # at the same cost they wait longer
    [0.236, 0.349]
    """

    changes: HintedChanges
    objective: SourcePenalty | UpdatePenalty | Harmonic

    @classmethod
    def of(cls, changes: HintedChanges, objective: Objective) -> Self:
        """Return the costs by an objective, which must be one of those that unstale comes with."""
        if not isinstance(objective, SourcePenalty | UpdatePenalty | Harmonic):
            raise InvalidInput(f"hints have no cost by the objective {objective.name!r}")
        return cls(changes, objective)

    def take(self, which: NDArray[np.intp]) -> HintedCosts:
        """Return some of the elements."""
        count = self.changes.shape_of or (1,)
        parts = (self.changes.rate, self.changes.recall, self.changes.false_alarms)
        return HintedCosts(HintedChanges(*(np.broadcast_to(p, count)[which] for p in parts)), self.objective)

    @cached_property
    def _rates(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Rates of changes without hints, of hints and of all changes; and the share of true hints."""
        count = self.changes.shape_of
        silent, hints, every, true = (
            np.broadcast_to(np.asarray(part, float), count).ravel()
            for part in (
                self.changes.unhinted, self.changes.hint_rate, self.changes.rate, self.changes.precision
            )
        )  # fmt: skip
        return silent, hints, every, true

    def cost(self, elapsed: Floats, moments: Floats) -> Floats:
        """Return the cost to expect so long after the last polls.

        Parameters
        ----------
        elapsed
            Time since the last poll of each element.
        moments
            Times of hints since then, after the last poll: a row for each element, nan where there is none.
        """
        silent, _, _, true = self._rates
        told = np.sort(np.asarray(moments, float), axis=1)
        number = np.arange(told.shape[1])
        there = np.isfinite(told)
        lag = np.where(there, np.maximum(elapsed[:, None] - told, 0.0), 0.0)
        if isinstance(self.objective, Harmonic):
            return _harmonic(silent * elapsed, true, there.sum(axis=1))
        plain = self.objective.cost(Poisson(silent), elapsed)
        weight = self.objective.penalty.value(lag)
        if isinstance(self.objective, UpdatePenalty):
            return plain + np.where(there, true[:, None] * weight, 0.0).sum(axis=1)
        with np.errstate(invalid="ignore", under="ignore"):
            fresh = np.exp(-silent[:, None] * np.where(there, told, 0.0)) * (1.0 - true[:, None]) ** number
            missed = weight - self.objective.cost(Poisson(silent[:, None]), lag)
        return plain + np.where(there, true[:, None] * fresh * missed, 0.0).sum(axis=1)

    def worth(self, level: Floats) -> Floats:
        """Return what a poll is worth when the expected cost has reached a level."""
        return self.worth_and_cycle(level)[0]

    def worth_and_cycle(self, level: Floats) -> tuple[Floats, Floats]:
        """Return also the mean time until the expected cost reaches the level: means over the first hint."""
        _, hints, _, _ = self._rates
        level = np.minimum(level, self._highest)
        never = np.full(level.size, np.inf)
        last = self._reached(level)
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            before = -np.expm1(-hints * last)  # probability that a hint comes first
            q = before[:, None] * _UNIT_NODES
            first = np.where(hints[:, None] > 0, -np.log1p(-q) / hints[:, None], np.inf)
            weight = before[:, None] * _UNIT_WEIGHTS
            wide = np.broadcast_to(level[:, None], first.shape)
            latest = np.broadcast_to(last[:, None], first.shape)  # no hint makes it later
            times = self._reached_between(np.minimum(first, latest), latest, wide, first)
            gains = wide * times - self._accrued(times, first)
            part = np.where(weight > 0, weight * gains, 0.0).sum(axis=1)
            time = np.where(weight > 0, weight * times, 0.0).sum(axis=1)
            without = np.exp(-hints * last)
            alone = np.where(without > 0, without * (level * last - self._accrued(last, never)), 0.0)
        return part + alone, time + without * last

    @property
    def _highest(self) -> float:
        """A level that is reached at last, if costs have a limit."""
        if not isinstance(self.objective, SourcePenalty):
            return np.inf
        return (1.0 - 1e-9) * float(np.max(self.objective.penalty.value(np.asarray(np.inf))))

    def _reached(self, level: Floats) -> Floats:
        """Return when the expected cost reaches a level if no hint comes."""
        _, _, every, _ = self._rates
        unit = 1.0 / np.where(every > 0, every, 1.0)
        never, high = np.full(level.size, np.inf), unit.copy()
        for _ in range(_DOUBLINGS):
            short = (self._cost(high, never) < level) & (high < _LONGEST * unit)
            if not short.any():
                break
            high = np.where(short, 2.0 * high, high)
        for _ in range(_DOUBLINGS):
            low = 0.5 * high
            wide = (self._cost(low, never) >= level) & (high > 1e-30 * unit)
            if not wide.any():
                break
            high = np.where(wide, low, high)
        return self._reached_between(0.5 * high, high, level, never)

    def _reached_between(self, low: Floats, high: Floats, level: Floats, first: Floats) -> Floats:
        """Return when the expected cost reaches a level, if the first hint comes at a moment.

        It is found by false positions that count half when they stay (the Illinois rule), and where costs
        leap by halving.
        """
        under = np.minimum(self._cost(low, first) - level, 0.0)
        over = np.maximum(self._cost(high, first) - level, 0.0)
        high = np.where(under == 0, low, high)
        stayed = np.zeros(np.shape(high))
        for step in range(_MOST_STEPS):
            settled = (high - low <= _TOLERANCE * high) | (np.minimum(-under, over) <= _TOLERANCE * level)
            if settled.all():
                break
            with np.errstate(invalid="ignore", divide="ignore"):
                share = np.where(step >= _QUICK_STEPS, 0.5, under / (under - over))
            middle = low + np.where(np.isfinite(share), share, 0.5) * (high - low)
            value = self._cost(middle, first) - level
            short, side = value < 0, np.where(value < 0, 1.0, -1.0)
            again = np.where(stayed == side, 0.5, 1.0)
            low, high = np.where(short, middle, low), np.where(short, high, middle)
            under, over = np.where(short, value, under * again), np.where(short, over * again, value)
            stayed = side
        return np.where(-under < over, low, high)

    def _of(self, like: Floats) -> tuple[Floats, ...]:
        return self._rates if like.ndim == 1 else tuple(part[:, None] for part in self._rates)

    def _laws(self, like: Floats) -> tuple[Poisson, Poisson]:
        """Return the laws of changes without hints, and of all changes."""
        return self._wide_laws if like.ndim > 1 else self._plain_laws

    @cached_property
    def _plain_laws(self) -> tuple[Poisson, Poisson]:
        silent, _, every, _ = self._rates
        return Poisson(silent), Poisson(every)

    @cached_property
    def _wide_laws(self) -> tuple[Poisson, Poisson]:
        silent, _, every, _ = self._rates
        return Poisson(silent[:, None]), Poisson(every[:, None])

    def _cost(self, t: Floats, first: Floats) -> Floats:
        """Cost a time after a poll, if the first hint comes at a moment, and others as they do on average."""
        silent, _, every, true = self._of(t)
        lag = np.maximum(t - first, 0.0)
        after = t >= first
        with np.errstate(invalid="ignore", under="ignore"):
            if isinstance(self.objective, Harmonic):
                passed = np.where(after, silent * first + every * lag, silent * t)
                return ein(passed) + np.where(after, true * _p1_over(passed), 0.0)
            at_once = true * self.objective.penalty.value(lag)
            unhinted, each = self._laws(t)
            plain, own = self.objective.cost(unhinted, t), self.objective.cost(unhinted, lag)
            then = self.objective.cost(each, lag)
            if isinstance(self.objective, UpdatePenalty):
                return plain + np.where(after, at_once + then - own, 0.0)
            fresh = np.exp(-silent * np.where(after, first, 0.0))
            return plain + np.where(after, fresh * (at_once + (1.0 - true) * then - own), 0.0)

    def _accrued(self, t: Floats, first: Floats) -> Floats:
        """Integral of `_cost` over time."""
        silent, _, _, true = self._of(t)
        lag = np.maximum(t - first, 0.0)
        after = t > first
        unhinted, each = self._laws(t)
        with np.errstate(invalid="ignore", under="ignore"):
            if isinstance(self.objective, Harmonic):
                start = self.objective.accrued(unhinted, np.minimum(t, first))
                points = np.where(after, first, 0.0)[..., None] + lag[..., None] * _UNIT_NODES
                costs = np.stack([self._cost(points[..., k], first) for k in range(_FIRST_HINTS)], axis=-1)
                return start + np.where(after, lag * (costs @ _UNIT_WEIGHTS), 0.0)
            plain, own = (self.objective.accrued(unhinted, span) for span in (t, lag))
            at_once = true * self.objective.penalty.once(lag)
            then = self.objective.accrued(each, lag)
            if isinstance(self.objective, UpdatePenalty):
                return plain + np.where(after, at_once + then - own, 0.0)
            fresh = np.exp(-silent * np.where(after, first, 0.0))
            return plain + np.where(after, fresh * (at_once + (1.0 - true) * then - own), 0.0)


def _p1_over(x: Floats) -> Floats:
    """Return (1 - exp(-x))/x."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(x > 1e-12, -np.expm1(-x) / x, 1.0)


def _harmonic(x: Floats, true: Floats, hints: Floats) -> Floats:
    """Mean of H_N for N changes: a Poisson number of mean x, and one for each hint that is true."""
    end = np.minimum(1.0, 40.0 / np.maximum(x, 1e-300))
    z = end[:, None] * _UNIT_NODES
    more = np.exp(-x[:, None] * z) * -np.expm1(hints[:, None] * np.log1p(-true[:, None] * z)) / z
    return ein(x) + end * (more @ _UNIT_WEIGHTS)
