"""Elements that are made from several: a report is fresh if all the tables are that it is made from.

Its freshness is the product of theirs, so what one part adds to it is the product of the others: the weight
of the report, times how fresh the other parts are on average, is added to the weight of the part. Nothing
else changes: worths and the price do the rest, and a part whose companions are hardly ever fresh gets little.
Where one fresh part suffices, as of several sources of the same data, a part adds as much as the others are
stale: the weight, times the product of how stale they are.

Reference: Li, Cline & Loguinov (INFOCOM 2015), section VI-C, for a result of several sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

import numpy as np

from .knowledge import Knowledge

_RECKONED_PER_ROUND = 10.0
"""How often it is reckoned how fresh parts are, in a round."""
_MEMORY_RECKONINGS = 20.0
"""Reckonings after which what was seen counts 1/e."""
_LEAST_FRESHNESS = 0.05
"""That a part is taken to have at least, or staleness where one suffices: nothing is given up for good."""


class ComposedElements:
    """Weighs the parts of what is made from several elements."""

    def __init__(self, known: Knowledge, weights: Mapping[str, float]) -> None:
        self._known = known
        self.weights = dict(weights)
        """How much each composed element matters, by name."""
        self.one_suffices: set[str] = set()
        """Names of those that are fresh if one of their parts is."""
        self._mean: dict[int, float] = {}
        """How fresh parts are on average, by number."""
        self._until = -inf

    def parts(self) -> dict[str, np.ndarray]:
        """Return where the parts of composed elements are, by name."""
        table = self._known.table
        named = [[name for name in terms.parts if name in self.weights] for terms in table.terms]
        if not any(named):
            return {}
        present = table.present
        found = {}
        for name in self.weights:
            numbers = [number for number, names in enumerate(named) if name in names]
            if (places := np.flatnonzero(present & np.isin(table["terms"], numbers))).size:
                found[name] = places
        return found

    def reckon(self, now: float, span: float) -> None:
        """See how fresh parts are, now and then in a round ``span``, and weigh them by that."""
        if not self.weights or not span < inf or self._until - span < now < self._until:
            return
        self._until = now + span / _RECKONED_PER_ROUND
        table = self._known.table
        extra = np.zeros(len(table))
        for name, places in self.parts().items():
            mean = self._averaged(places, now)
            share = 1.0 - mean if name in self.one_suffices else mean
            whole = np.log(np.maximum(share, _LEAST_FRESHNESS))
            np.add.at(extra, places, self.weights[name] * np.exp(whole.sum() - whole))
        if not np.allclose(extra, table["composed"], rtol=0.05):
            table["composed", :] = extra
            table.look_again()

    def _averaged(self, places: np.ndarray, now: float) -> np.ndarray:
        """Return how fresh parts are on average, as far as has been seen."""
        fresh = self._known.fresh(places, now)
        for element, one in zip(self._known.table["id"][places].tolist(), fresh.tolist(), strict=True):
            before = self._mean.get(element, one)
            self._mean[element] = before + (one - before) / _MEMORY_RECKONINGS
        return np.array([self._mean[element] for element in self._known.table["id"][places].tolist()])

    def freshness(self, now: float) -> dict[str, tuple[int, float]]:
        """Return, by name, of how many parts composed elements are made and how probably each is fresh."""
        found = {}
        for name, places in self.parts().items():
            fresh = self._known.fresh(places, now)
            one = 1.0 - float(np.prod(1.0 - fresh))
            found[name] = (places.size, one if name in self.one_suffices else float(np.prod(fresh)))
        return found
