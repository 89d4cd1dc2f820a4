"""GREEDY-NCIS (Busa-Fekete et al., WWW 2025): a contestant that acts on noisy hints, as its paper says.

It polls at a constant rate, without a plan: each poll goes to the element whose worth is greatest now, where
a hint counts like the passing of some time (`unstale.HintedChanges`). Hints that come close after a poll are
discarded, since they may speak of a change that the poll has seen. Rates, recall and precision are those that
its polls have shown so far; until they show any, it polls what has waited longest.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats
from unstale.draws import PHASES, generator_of
from unstale.estimation import HintedChanges, estimate_hints
from unstale.schedule import Polls

from .policies import Outcomes

__all__ = ["GreedyNcis"]

_STEPS_PER_ROUND = 50.0
"""How often worths are computed in the time in which the budget pays for one poll of each element."""
_MORE_TO_GO_BY = 1.5
"""Polls, as a multiple of those at the last estimate, after which it is made anew."""


class GreedyNcis:
    """The policy.

    Parameters
    ----------
    n, budget, weights, sizes, seed
        As for the other policies of the simulation.
    discard
        Hints that come within this time after a poll do not count.
    """

    def __init__(
        self, n: int, budget: float, weights: Floats, sizes: Floats, *, seed: int, discard: float = 0.0
    ) -> None:
        self.budget = budget
        self._weights, self._sizes, self._discard = weights, sizes, discard
        round_ = float(sizes.sum() / budget) if budget > 0 else 1.0
        self._last = -round_ * generator_of(seed, PHASES).random(n)
        self._hints, self._hints_then = np.zeros(n), np.zeros(n)
        self._now = self._paid_until = 0.0
        self._steps = 0
        self._ahead = Polls(np.empty(0), np.empty(0, np.int64))
        self._law: HintedChanges | None = None
        self._seen: list[tuple[NDArray[np.intp], Floats, Floats, NDArray[np.bool_]]] = []
        self._heard, self._estimated = 0, 0

    @property
    def step(self) -> float:
        return float(self._sizes.sum() / self.budget) / _STEPS_PER_ROUND if self.budget > 0 else np.inf

    def polls(self, end: float) -> Polls:
        while self.budget > 0 and self._steps * self.step < end * (1.0 - 1e-12):
            self._decide(self._steps * self.step, (self._steps + 1) * self.step)
            self._steps += 1
        start, self._now, ahead = self._now, end, self._ahead
        due = int(np.searchsorted(ahead.times, end))
        self._ahead = Polls(ahead.times[due:], ahead.elements[due:])
        return Polls(np.maximum(ahead.times[:due], start), ahead.elements[:due])  # steps are rounded

    def _decide(self, start: float, end: float) -> None:
        """Choose the polls of one step, wherever the simulation pauses."""
        self._estimate()
        since = np.maximum(0.5 * (start + end) - self._last, 0.0)
        worth = since if self._law is None else self._law.worth(since, self._hints)
        best = np.argsort(-self._weights * worth / self._sizes, kind="stable")
        paid = self._paid_until + np.cumsum(self._sizes[best]) / self.budget
        count = int(np.searchsorted(paid, end))
        chosen = best[:count]
        times = np.maximum(np.concatenate([[self._paid_until], paid[: max(count - 1, 0)]])[:count], start)
        if count:
            self._paid_until = float(paid[count - 1])
        self._last[chosen] = times
        self._hints_then[chosen], self._hints[chosen] = self._hints[chosen], 0.0
        self._ahead = Polls(
            np.concatenate([self._ahead.times, times]), np.concatenate([self._ahead.elements, chosen])
        )

    def hinted(self, elements: NDArray[np.intp], times: Floats) -> None:
        """Take in that elements may have changed."""
        late = times > self._last[elements] + self._discard
        np.add.at(self._hints, elements[late], 1.0)

    def learn(self, outcomes: Outcomes) -> None:
        ok = outcomes.ok
        elements = outcomes.elements[ok]
        self._seen.append((elements, outcomes.elapsed[ok], self._hints_then[elements], outcomes.changed[ok]))
        self._heard += elements.size

    def _estimate(self) -> None:
        """Learn from all polls so far, if they are many more than the last time."""
        n = self._hints.size
        if self._heard < max(_MORE_TO_GO_BY * self._estimated, n):
            return
        places, elapsed, hints, changed = (np.concatenate(part) for part in zip(*self._seen, strict=True))
        if not changed.any() or np.bincount(places, minlength=n).min() == 0:
            return
        self._estimated = self._heard
        timed = elapsed > 0
        self._law = estimate_hints(elapsed[timed], hints[timed], changed[timed], elements=places[timed]).law
