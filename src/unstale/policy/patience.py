"""How long an element may be left alone, whatever a poll of it seems to be worth.

For freshness it is right to give up what changes too fast, but what is given up grows old, and an element
that was given up by mistake would never show it. So an element is polled after `LONGEST_ROUNDS` rounds in any
case; one that matters, and whose copy is surely stale, after less: after `SHORTEST_ROUNDS` if few are given
up, and later the more there are, so that such polls never take more than a fiftieth of the budget. If a share
q of the elements is given up, the mean age grows by at most q max(5, 50 q)/2 rounds: by a quarter of what
uniform polling has for one in twenty, and by as much as it has for one in seven.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats

from .element_table import ElementTable, Places

LONGEST_ROUNDS, SHORTEST_ROUNDS = 50.0, 5.0
_GIVEN_UP_BELOW_FRESHNESS = 0.05
"""Probability of a fresh copy below which an element is given up."""
_RECKONED_PER_ROUND = 10.0
"""How often what is given up is counted, in a round."""


class Patience:
    """Counts what is given up, and says how long elements may be left alone.

    Parameters
    ----------
    table
        The elements.
    level
        Says how much elements change now, over what the learner knows of them.
    """

    def __init__(self, table: ElementTable, level: Callable[[Places], Floats]) -> None:
        self._table, self._level = table, level
        self.rounds = SHORTEST_ROUNDS
        """After which elements are polled that are given up."""
        self._until = -inf
        self._weight = 1.0
        """Mean weight of the elements that are wanted."""

    def reckon(self, now: float, span: float) -> None:
        """Count what is given up, now and then; a round takes ``span``."""
        if not span < inf or self._until - span < now < self._until:
            return
        self._until = now + span / _RECKONED_PER_ROUND
        table = self._table
        wanted = np.flatnonzero(table.polled)
        if not wanted.size:
            return
        self._weight = float(np.mean(table["weight"][wanted] * table["reads"][wanted].astype(np.float64)))
        waiting = wanted[table.since(wanted, now) > SHORTEST_ROUNDS * span]
        share = np.count_nonzero(self.given_up(waiting, span)) / wanted.size
        self.rounds = float(np.clip(LONGEST_ROUNDS * share, SHORTEST_ROUNDS, LONGEST_ROUNDS))

    def given_up(self, places: Places, span: float) -> NDArray[np.bool_]:
        """Tell which copies are surely stale after the fewest rounds that are waited."""
        since = SHORTEST_ROUNDS * span * self._level(places)
        shape, time, hope = self._table.learner.gammas(since, places)
        return np.asarray(hope * np.exp(-shape * np.log1p(since / time)) < _GIVEN_UP_BELOW_FRESHNESS)

    def times(self, places: Places, span: float) -> Floats:
        """Return after which time elements are polled in any case; the longer, the less they matter."""
        longest = np.full(places.size, LONGEST_ROUNDS * span)
        if not span < inf:
            return longest
        weight = self._table["weight"][places] * self._table["reads"][places].astype(np.float64)
        part = np.clip(weight / max(self._weight, 1e-300), self.rounds / LONGEST_ROUNDS, 1.0)
        return np.where(self.given_up(places, span), self.rounds * span / part, longest)

    def state(self) -> dict[str, Any]:
        """Return all that is needed to go on later."""
        return {"patience": np.array([self.rounds, self._until, self._weight])}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was taken; older versions did not count."""
        kept = np.asarray(state.get("patience", [SHORTEST_ROUNDS, -inf, 1.0]), np.float64)
        self.rounds, self._until, self._weight = kept.tolist()
