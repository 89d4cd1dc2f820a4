"""What hints are worth: when to poll an element that has had some.

A hint (an entry in a feed, the date in a sitemap, a call from the source) says that an element may have
changed. Its **recall** is the share of changes that give a hint; false alarms come at a rate of their own.
Changes without a hint come at the rate a = (1 - recall) * rate, hints at gam = recall * rate + false alarms.
After n hints in a time t the copy is fresh with probability

    exp(-a t) (false_alarms/gam)^n = exp(-u),     u = a t + k n,     k = -log(false_alarms/gam).

So a hint is like the passing of some time, k/a, and everything else stays: *poll when the worth reaches the
price*. What an element is worth when the evidence u reaches a threshold is the integral of e^-v Psi(v) up
to there, with Psi(v) the mean time that it takes to reach v. Without hints Psi(v) = v/a, and that is the
worth of plain Poisson changes. A hint that cannot be false makes the element worth all it can ever be, at
once; one that says nothing (k = 0) changes nothing.

Reference: Busa-Fekete et al. (WWW 2025).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike

from unstale.arguments import Floats, broadcast, numbers, unwrap
from unstale.processes.law import Parameter, parameter

from .compiled.hint_worth import cycles, thresholds, worths
from .hinted_polls import insist, whole_numbers

LEAST_RATE, _MOST_RATE = 1e-120, 1e120
"""Rates that are not 0."""


@dataclass(frozen=True, eq=False)
class HintedChanges:
    """Poisson changes that may give hints: numbers, or an array with an entry for each element.

    >>> changes = HintedChanges(rate=1.0, recall=0.9, false_alarms=0.1)
    >>> float(changes.precision), changes.worth(0.5, hints=[0, 1, 2]).round(3).tolist()
    (0.9, [0.01, 0.814, 0.973])
    """

    rate: Parameter = parameter(at_least=0.0, at_most=_MOST_RATE)
    """Changes per unit time."""
    recall: Parameter = parameter(at_least=0.0, at_most=1.0)
    """Share of changes that give a hint."""
    false_alarms: Parameter = parameter(at_least=0.0, at_most=_MOST_RATE)
    """Hints per unit time without a change."""

    def __post_init__(self) -> None:
        """Check and keep copies."""
        checked = {
            part.name: numbers(part.name, getattr(self, part.name), **part.metadata) for part in fields(self)
        }
        broadcast(**checked)
        rate = checked["rate"]
        insist(
            "rate", rate, (rate == 0) | (rate >= LEAST_RATE), f"0, or from {LEAST_RATE:g} to {_MOST_RATE:g}"
        )
        for name, array in checked.items():
            own = array.copy()
            own.setflags(write=False)
            object.__setattr__(self, name, unwrap(own))

    @property
    def shape_of(self) -> tuple[int, ...]:
        """Shape of the parameters: ``()`` for one element."""
        return np.broadcast_shapes(*(np.shape(getattr(self, part.name)) for part in fields(self)))

    @property
    def unhinted(self) -> Floats:
        """Changes per unit time that give no hint."""
        return (1.0 - self.recall) * self.rate

    @property
    def hint_rate(self) -> Floats:
        """Hints per unit time."""
        return self.recall * self.rate + self.false_alarms

    @property
    def precision(self) -> Floats:
        """Share of hints that come of a change; 0 if there are no hints."""
        hints = self.hint_rate
        return self.recall * self.rate / np.where(hints > 0, hints, 1.0)

    @property
    def evidence(self) -> Floats:
        """What a hint adds to the evidence that the copy is stale; infinite if no hint is false."""
        true, false = self.recall * self.rate, self.false_alarms
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return np.where(true > 0, np.log1p(true / false), 0.0)[()]

    def stale_evidence(self, elapsed: ArrayLike, hints: ArrayLike = 0) -> Floats:
        """Return u, where exp(-u) is the probability that a copy is fresh."""
        t = numbers("elapsed", elapsed, at_least=0, infinite=True)
        n = whole_numbers("hints", hints)
        broadcast(changes=np.empty(self.shape_of), elapsed=t, hints=n)
        with np.errstate(invalid="ignore", over="ignore"):
            return np.where(self.unhinted > 0, self.unhinted * t, 0.0) + np.where(n > 0, self.evidence * n, 0)

    def fresh(self, elapsed: ArrayLike, hints: ArrayLike = 0) -> Floats:
        """Probability that a copy is fresh, so long after its last poll and after so many hints since.

        >>> changes = HintedChanges(rate=1.0, recall=0.5, false_alarms=0.5)
        >>> float(changes.fresh(0.0, hints=1)), float(changes.fresh(2.0).round(4))
        (0.5, 0.3679)
        """
        return np.exp(-self.stale_evidence(elapsed, hints))

    def effective(self, elapsed: ArrayLike, hints: ArrayLike = 0) -> Floats:
        """Return the time without hints after which a copy would be as stale as it is now with them.

        Infinite if hints say so much that no time would.
        """
        u = self.stale_evidence(elapsed, hints)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return np.where(u > 0, u / self.unhinted, 0.0)[()]

    def worth(self, elapsed: ArrayLike, hints: ArrayLike = 0) -> Floats:
        """Worth of a poll for the freshness of an element of weight 1; see `unstale.worth`.

        >>> useless = HintedChanges(rate=2.0, recall=0.0, false_alarms=5.0)
        >>> useless.worth(1.0, hints=[0, 9]).round(4).tolist()       # that of plain Poisson changes
        [0.297, 0.297]
        >>> perfect = HintedChanges(rate=2.0, recall=1.0, false_alarms=0.0)
        >>> perfect.worth([0.1, 9.0], hints=[[0], [1]]).tolist()     # nothing, or all that there is
        [[0.0, 0.0], [0.5, 0.5]]
        """
        return self._by(worths, self.stale_evidence(elapsed, hints))

    def threshold(self, price: ArrayLike) -> Floats:
        """Evidence at which a poll is worth the price; infinite if it never is.

        The price is that of a poll for weight 1: the price of one unit of budget * size / weight.
        """
        return self._by(thresholds, numbers("price", price, at_least=0, infinite=True))

    def due(self, hints: ArrayLike, price: ArrayLike) -> Floats:
        """Time since the last poll at which an element with so many hints is due; infinite if never.

        0 means that hints alone are reason enough: it is due when the last of them comes.

        >>> changes = HintedChanges(rate=1.0, recall=0.8, false_alarms=0.2)
        >>> changes.due([0, 1, 2], price=0.5).round(3).tolist()
        [5.49, 0.0, 0.0]
        """
        n = whole_numbers("hints", hints)
        level = self.threshold(price)
        broadcast(changes=np.empty(level.shape), hints=n)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            left = level - np.where(n > 0, self.evidence * n, 0.0)
            wait = np.where(left > 0, left / self.unhinted, 0.0)
        return np.where(np.isinf(level), np.inf, wait)[()]

    def frequency(self, price: ArrayLike) -> Floats:
        """Polls per unit time of an element that is polled when its worth reaches the price."""
        with np.errstate(divide="ignore", over="ignore"):
            return (1.0 / self._by(cycles, self.threshold(price)))[()]

    def freshness(self, price: ArrayLike) -> Floats:
        """Share of time for which the copy is then up to date.

        >>> changes = HintedChanges(rate=1.0, recall=[0.0, 0.8], false_alarms=[0.0, 0.2])
        >>> from unstale.estimation import plan_hinted
        >>> at = plan_hinted(changes, budget=1.0)
        >>> changes.freshness(at.price).round(3).tolist(), changes.frequency(at.price).round(3).tolist()
        ([0.361, 0.57], [0.391, 0.609])
        """
        level = self.threshold(price)
        with np.errstate(divide="ignore", invalid="ignore"):
            kept = self._by(worths, level) / self._by(cycles, level) + np.exp(-level)
        return np.where(self.rate > 0, np.where(level > 0, kept, 1.0), 1.0)[()]

    def _by(self, kernel: Callable[..., Floats], column: Floats) -> Floats:
        """Apply a kernel to a column and the parameters."""
        parts = np.broadcast_arrays(column, self.unhinted, self.hint_rate, self.evidence)
        flat = (np.array(part, float).ravel() for part in parts)
        return unwrap(kernel(*flat).reshape(parts[0].shape))
