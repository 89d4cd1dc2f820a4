"""MirrorSync (Kolobov, Bubeck & Zimmert, ICML 2020): a contestant that has no model of changes.

An element that is polled every 1/f costs C(f) = f times the integral of c(t) up to 1/f, where c(t) is the
probability that its copy is stale a time t after a poll. The slope of that needs no law of changes:

    f C'(f) = E c(U/f) - c(1/f),     U uniform between 0 and 1,

and a poll after a time t sees a sample of c(t): whether there was a change. So a share of all intervals is
cut short at a random moment, and what both kinds of polls see estimates the slope. A step of mirror descent
follows: a frequency is multiplied by exp(-learning rate * slope), and all are scaled to the budget, none
below a floor. Elements are updated as they have been sampled, each at its own time (AsyncMirrorSync).

The paper leaves the shares and the rate to a search; here they are constants.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats
from unstale.draws import PHASES, key_of, uniforms
from unstale.schedule import Polls

from .policies import Outcomes
from .poll_execution import Bools

__all__ = ["MirrorSync", "within_budget"]

_CUT_SHORT = 0.2
"""Share of intervals that end at a random moment."""
_FEWEST_CUT = 4
"""Intervals cut short that an element must have seen since its last update."""
_LEARNING_RATE = 0.3
"""How much of a slope an update takes at first; it falls with the root of the updates of an element."""
_FLOOR = 0.02
"""The least frequency, as a share of the mean."""


def within_budget(frequencies: Floats, budget: float, sizes: Floats, floor: float) -> Floats:
    """Scale frequencies to a budget with none below a floor, which the budget pays for.

    >>> within_budget(np.array([1.0, 3.0]), 2.0, np.ones(2), 0.0).tolist()
    [0.5, 1.5]
    >>> within_budget(np.array([0.0, 3.0]), 2.0, np.ones(2), 0.25).tolist()
    [0.25, 1.75]
    """
    low, found = np.zeros(frequencies.size, np.bool_), frequencies
    while not low.all():
        left = budget - floor * float(sizes[low].sum())
        scale = left / max(float(frequencies[~low] @ sizes[~low]), 1e-300)
        found = np.where(low, floor, scale * frequencies)
        if not (below := (found < floor) & ~low).any():
            break
        low |= below
    return found


class _Intervals(NamedTuple):
    """Intervals that have ended, in the order of their ends."""

    elements: NDArray[np.intp]
    ends: Floats
    cut: Bools
    """Whether they ended at a random moment."""

    def at(self, which: NDArray[np.intp] | Bools) -> _Intervals:
        """Return some of them."""
        return _Intervals(self.elements[which], self.ends[which], self.cut[which])


class MirrorSync:
    """The policy.

    Parameters
    ----------
    n, budget, weights, sizes, seed
        As for the other policies of the simulation.
    """

    def __init__(self, n: int, budget: float, weights: Floats, sizes: Floats, *, seed: int) -> None:
        self._budget, self._weights, self._sizes = budget, weights / weights.mean(), sizes
        self._key = key_of(seed, PHASES)
        self._drawn = np.zeros(n, np.int64)
        """Random numbers that each element has had."""
        self._frequencies = np.full(n, self._spent(budget) / sizes.sum())
        self._next = self._random(np.arange(n)) * self.step
        self._cut = np.ones(n, np.bool_)
        self._ended = _Intervals(np.empty(0, np.intp), np.empty(0), np.empty(0, np.bool_))
        self._seen = np.zeros((2, n))
        """Polls since the last update of each element: after whole intervals, and after those cut short."""
        self._changes = np.zeros((2, n))
        """Of these, how many saw a change."""
        self._updates = np.zeros(n)

    @staticmethod
    def _spent(budget: float) -> float:
        """Return the sum of size times frequency that uses a budget up, as some intervals are cut short."""
        return budget * (1.0 - 0.5 * _CUT_SHORT)

    @property
    def budget(self) -> float:
        """What all polls together cost per unit time; another one counts from the next poll of each on."""
        return self._budget

    @budget.setter
    def budget(self, value: float) -> None:
        self._frequencies = self._frequencies * (value / self._budget)
        self._budget = value

    @property
    def step(self) -> float:
        return float(self._sizes.sum() / self._budget) if self._budget > 0 else np.inf

    def polls(self, end: float) -> Polls:
        parts = [self._ended]
        while (due := np.flatnonzero(self._next < end)).size:
            parts.append(_Intervals(due, self._next[due], self._cut[due]))
            self._cut[due] = self._random(due) < _CUT_SHORT
            share = np.where(self._cut[due], self._random(due), 1.0)
            self._next[due] += np.maximum(share / self._frequencies[due], 1e-12 * self.step)
        kept = self._ended.ends.size
        every = _Intervals(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        order = np.concatenate([np.arange(kept), kept + np.argsort(every.ends[kept:], kind="stable")])
        self._ended = every.at(order)
        return Polls(self._ended.ends[kept:], self._ended.elements[kept:])

    def _random(self, elements: NDArray[np.intp]) -> Floats:
        """Return a number between 0 and 1 for each element, its next one."""
        self._drawn[elements] += 1
        return uniforms(self._key, elements, self._drawn[elements])

    def learn(self, outcomes: Outcomes) -> None:
        ended, self._ended = self._matched(outcomes.elements)
        ok = outcomes.ok
        kind, elements = ended[ok].astype(np.intp), outcomes.elements[ok]
        np.add.at(self._seen, (kind, elements), 1.0)
        np.add.at(self._changes, (kind, elements), outcomes.changed[ok])
        ready = (self._seen[0] > 0) & (self._seen[1] >= _FEWEST_CUT)
        if not ready.any() or not self._budget > 0:
            return
        whole, cut = self._changes[:, ready] / self._seen[:, ready]
        self._updates[ready] += 1.0
        mean = self._spent(self._budget) / self._sizes.sum()
        slope = (cut - whole) * mean / self._frequencies[ready]
        rate = _LEARNING_RATE * self._weights[ready] / (self._sizes[ready] / self._sizes.mean())
        grown = self._frequencies.copy()
        grown[ready] *= np.exp(np.clip(-rate * slope / np.sqrt(self._updates[ready]), -1.0, 1.0))
        self._frequencies = within_budget(grown, self._spent(self._budget), self._sizes, _FLOOR * mean)
        self._seen[:, ready] = self._changes[:, ready] = 0.0

    def _matched(self, elements: NDArray[np.intp]) -> tuple[Bools, _Intervals]:
        """Return which of these polls came after intervals cut short, and the intervals not yet told of."""
        whose = self._ended.elements
        mine, theirs = np.argsort(whose, kind="stable"), np.argsort(elements, kind="stable")
        told = elements[theirs]
        rank = np.arange(told.size) - np.searchsorted(told, told)
        used = mine[np.searchsorted(whose[mine], told) + rank]
        cut = np.empty(elements.size, np.bool_)
        cut[theirs] = self._ended.cut[used]
        left = np.ones(whose.size, np.bool_)
        left[used] = False
        return cut, self._ended.at(left)
