"""Whether a part of a class changes otherwise than the rest: what a prior of its own would have won.

What polls saw of an element is about n changes in a time T, as its gamma law has it. A prior, shape a and
time b, would have given that the probability Gamma(a + n) / Gamma(a) * b^a / (b + T)^(a + n), whatever the
order of the polls: its logarithm is what the prior has won in all its bets on the element. A part of a class
should have a prior of its own if that wins more than the prior of the others does. So that it does not win by
having seen the answers, the prior of one half of a part bets on the other half, and the other way round.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from unstale.arguments import Floats

_LOG_SHAPES = np.log([0.25, 0.5, 1.0, 2.0, 4.0, 8.0])
_LOG_MEANS = np.linspace(-5.0, 5.0, 41)
"""Priors that are tried: shapes, and means over a rate that is typical of all."""
PRIORS = _LOG_SHAPES.size * _LOG_MEANS.size


@dataclass(frozen=True)
class PartOfClass:
    """What priors have won on the elements of a part."""

    halves: Floats
    """Of two halves of a sample of its elements, by prior."""
    count: int
    """How many elements it has."""
    sample: int

    @property
    def total(self) -> Floats:
        """Won on all its elements, as far as the sample tells."""
        return np.asarray(self.halves.sum(axis=0) * (self.count / max(self.sample, 1)))


def won_by_priors(changes: Floats, times: Floats, mean: float) -> Floats:
    """Return what priors about a mean rate win on elements: a row for each element, a column for each prior.

    Parameters
    ----------
    changes, times
        Of each element, about how many changes were seen in which time.
    mean
        The mean rate about which priors are tried.
    """
    shapes = np.exp(_LOG_SHAPES)
    prior_times = shapes[:, None] / (mean * np.exp(_LOG_MEANS))
    n = changes[:, None]
    counted = gammaln(shapes + n) - gammaln(shapes)
    found = counted[:, :, None] + shapes[:, None] * np.log(prior_times)
    found = found - (shapes + n)[:, :, None] * np.log(prior_times + times[:, None, None])
    return np.asarray(found.reshape(changes.size, -1))


def part_of(won: Floats, count: int) -> PartOfClass:
    """Return a part, by what priors have won on a sample of its elements in any order."""
    return PartOfClass(np.stack([won[0::2].sum(axis=0), won[1::2].sum(axis=0)]), count, won.shape[0])


def gains(parts: list[PartOfClass], rest: Floats) -> Floats:
    """Return how many nats each part would win by a prior of its own over that of all others.

    Parameters
    ----------
    parts
        Of one class.
    rest
        What priors have won on elements of the class that are in none of them.
    """
    if not parts:
        return np.empty(0)
    totals = np.stack([one.total for one in parts])
    of_others = rest + totals.sum(axis=0) - totals
    best = of_others.argmax(axis=1)
    found = np.empty(len(parts))
    for k, one in enumerate(parts):
        first, second = one.halves
        own = second[first.argmax()] + first[second.argmax()]
        found[k] = own - (first[best[k]] + second[best[k]])
    return found


def best_prior(won: Floats, mean: float) -> NDArray[np.float64]:
    """Return logarithms of the shape and the mean rate of the prior that has won most."""
    shape, offset = divmod(int(won.argmax()), _LOG_MEANS.size)
    return np.array([_LOG_SHAPES[shape], np.log(mean) + _LOG_MEANS[offset]])
