"""Promises: of elements that a rule names, a share should be fresh, and the price serves that first.

Elements of a promise are polled at a price of their own, if that is lower: the one at which the share of
them that is fresh, on average, is the target. So nothing else changes: their weights are multiplied by how
many times lower that price is. All promises together get at most so much of the budget that something is
left for the others; a promise that would need more is kept as far as that goes, and is told of.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isnan, nan

import numpy as np

from unstale.errors import NoAnswer
from unstale.planning import budget_for, plan
from unstale.processes import UncertainPoisson

from .knowledge import Knowledge
from .terms import ElementTerms

_MOST_SHARE = 0.95
"""Share of the budget that promises get, at most."""
_MOST_ELEMENTS = 2000
"""Elements of a promise by which it is reckoned; of more, every so many-th."""
_RECKONED_PER_ROUND = 5.0
"""How often promises are reckoned, in a round."""
_CERTAIN_SHAPE = 1e15
"""Shape of the gamma law of a rate that is certain."""


@dataclass(frozen=True)
class Promise:
    """What a target needs, and what it gets."""

    terms: ElementTerms
    elements: int
    needs: float
    """Polls per unit time, of mean size; inf if no budget buys it."""
    gets: float
    """Polls per unit time."""
    fresh: float
    """Share that is fresh then, on average."""
    price: float
    """At which its elements are polled, at most."""

    @property
    def kept(self) -> bool:
        """Whether the budget can keep it."""
        return self.gets >= self.needs * (1.0 - 1e-9)


class Promises:
    """Reckons what promises need, now and then, and sees to it that they get it."""

    def __init__(self, known: Knowledge) -> None:
        self._known = known
        self.made: list[Promise] = []
        self._until = -inf

    def reckon(self, now: float, span: float, price: float) -> None:
        """Reckon promises anew if it is time, a part of a round ``span``; then boost weights to a price."""
        known = self._known
        if len(known.table.terms) == 1:
            return
        if not self._until - span < now < self._until and span < inf:
            self._until = now + span / _RECKONED_PER_ROUND
            self.made = self.look(now)
        for one in self.made:
            number = known.table.terms.index(one.terms)
            known.boosts[number] = max(price / one.price, 1.0) if one.price > 0 and price > 0 else 1.0

    def look(self, now: float) -> list[Promise]:
        """Return what promises need and get now; those of the fewest elements are served first."""
        known, found = self._known, []
        table, rate = known.table, known.limits.rate(known.mean_size)
        present = table.polled
        promised = [
            (number, np.flatnonzero(present & (table["terms"] == number)))
            for number, terms in enumerate(table.terms)
            if not isnan(terms.target)
        ]
        left = _MOST_SHARE * rate
        for number, places in sorted(promised, key=lambda one: one[1].size):
            if places.size and rate < inf:
                one = self._promise(table.terms[number], places, now, left)
                left = max(left - one.gets, 0.0)
                found.append(one)
        return found

    def _promise(self, terms: ElementTerms, places: np.ndarray, now: float, left: float) -> Promise:
        known, table = self._known, self._known.table
        some = places[:: max(places.size // _MOST_ELEMENTS, 1)]
        part = some.size / places.size
        law, hope = table.learner.outlook(known.operational_since(some, now), some)
        shape = np.minimum(np.asarray(law.shape), _CERTAIN_SHAPE)
        sure = UncertainPoisson(shape, np.asarray(law.scale) * (np.asarray(law.shape) / shape))
        weights = table["weight"][some].astype(float) * table["reads"][some] * hope
        if not weights.sum() > 0:
            return Promise(terms, places.size, inf, 0.0, 0.0, nan)
        able = float(weights.sum() / (table["weight"][some].astype(float) * table["reads"][some]).sum())
        options = {"weights": weights, "sizes": known.limits.costs(known.sizes(some))}
        unit = 1.0 / float(known.limits.costs(np.array([known.mean_size]))[0])
        try:
            needs = budget_for(sure, freshness=terms.target / able, **options) if terms.target < able else inf
        except NoAnswer:
            needs = inf
        if not left > 0:  # its elements are polled at the price of all, as if nothing was promised
            return Promise(terms, places.size, needs / part * unit, 0.0, 0.0, inf)
        bought = plan(sure, min(needs, left / unit * part), **options)
        gets = min(needs / part * unit, left)
        return Promise(terms, places.size, needs / part * unit, gets, bought.freshness * able, bought.price)
