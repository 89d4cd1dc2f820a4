"""What polls say about change rates: the law of each rate, given a prior.

A gamma prior of shape a and scale s, and polls that saw some intervals t with a change and the time U without
any, give the posterior density of the rate r, but for a constant,

    r^(a-1) exp(-r/s) * exp(-r U) * product of (1 - exp(-r t)).

It is integrated numerically, to 6 digits, not approximated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from unstale.arguments import Floats, scalar
from unstale.errors import InvalidInput
from unstale.estimation.checked_polls import PollColumns
from unstale.processes import UncertainPoisson

from .compiled.estimators import PollTally
from .compiled.posteriors import OFFSETS, posteriors

Owners = NDArray[np.int64]


@dataclass(frozen=True)
class GammaPrior:
    """What is known of a change rate before any poll: a gamma law with this shape and scale.

    The mean rate is ``shape * scale``; the smaller the shape, the more elements differ.

    >>> GammaPrior(shape=2.0, scale=0.5).rate
    1.0
    """

    shape: float
    scale: float

    def __post_init__(self) -> None:
        """Check that the numbers make a gamma law."""
        object.__setattr__(self, "shape", scalar("shape", self.shape, above=0, at_most=1e15))
        object.__setattr__(self, "scale", scalar("scale", self.scale, above=0))

    @property
    def rate(self) -> float:
        """Mean rate."""
        return self.shape * self.scale

    @property
    def law(self) -> UncertainPoisson:
        """How an element changes of which nothing else is known."""
        return UncertainPoisson(self.shape, self.scale)

    @classmethod
    def learned(
        cls,
        elements: ArrayLike,
        elapsed: ArrayLike,
        changed: ArrayLike,
        *,
        modified: ArrayLike | None = None,
    ) -> GammaPrior:
        """Return the prior that makes the polls of a population likeliest (empirical Bayes).

        Where all elements have one rate, or none has ever changed, or all have at every poll, no prior would
        be likeliest. So there is a little evidence beside the polls: the logarithm of the mean rate, per mean
        interval, is about 0 +- 1.5, and that of the shape 0 +- 1.

        Polls may be much likelier if at least a tenth of the elements have any rate at all, beside a gamma
        law of the others. Then the prior is the gamma law nearest to both: its tail is as heavy as the
        fastest elements need, though polls at regular intervals do not show how fast they are.

        Parameters
        ----------
        elements
            The number of the element of each poll, in any order.
        elapsed
            The time since the poll before of that element.
        changed
            Whether the poll saw a change.
        modified
            The age of the content as the poll saw it, nan where unknown.

        Examples
        --------
        >>> rng = np.random.default_rng(1)
        >>> rates = rng.gamma(2.0, 0.5, size=2000)
        >>> elements = np.repeat(np.arange(2000), 20)
        >>> changed = rng.random(40_000) < -np.expm1(-rates[elements])
        >>> prior = GammaPrior.learned(elements, np.ones(40_000), changed)
        >>> round(prior.shape, 1), round(prior.rate, 1)
        (2.0, 1.0)
        """
        from .population import likeliest_prior  # which needs this class

        columns = PollColumns.of(elements, elapsed, changed, modified)
        if columns.elapsed.size == 0:
            raise InvalidInput("elapsed must not be empty: a prior is learned from polls")
        return likeliest_prior(columns.tally())


def vague_prior(interval: float) -> GammaPrior:
    """Return the prior of an element of which nothing is known but that it is polled at such intervals.

    Shape 1/2 and 25 changes per interval on average: as if half a change had been seen in a fiftieth of an
    interval. So the prior says little about rates up to 100 changes per interval, and that more are unlikely;
    without such a limit polls that all saw changes would allow any rate, and the mean would be infinite.
    """
    return GammaPrior(0.5, 50.0 / interval)


class Posterior(NamedTuple):
    """Of each rate: mean, two quantiles with as much beyond each, and the shape of a gamma law like it."""

    mean: Floats
    low: Floats
    high: Floats
    shape: Floats

    @property
    def law(self) -> UncertainPoisson:
        """Gamma laws with the same means."""
        return UncertainPoisson(self.shape, self.mean / self.shape)


def posterior(data: PollTally, priors: list[GammaPrior], owners: Owners, level: float) -> Posterior:
    """Return what polls say; ``owners`` is which of the priors each element has.

    The gamma law like it has the same variance.
    """
    tail = 0.5 * (1.0 - level)
    mean, variance, low, high = evaluated(data, priors, owners, tail, np.empty(0))[:, :4].T.copy()
    shape = np.minimum(mean / variance * mean, 1e15)
    gamma = np.isnan(low)
    for quantile, share in ((low, tail), (high, 1.0 - tail)):
        quantile[gamma] = scipy.special.gammaincinv(shape[gamma], share) * (mean[gamma] / shape[gamma])
    return Posterior(mean, low, high, shape)


def share_below(data: PollTally, priors: list[GammaPrior], owners: Owners, limits: Floats) -> Floats:
    """Return the probability that each rate is below its limit."""
    mean, variance, share = evaluated(data, priors, owners, 0.5, limits)[:, :3].T.copy()
    gamma = np.isnan(share)
    shape = mean[gamma] ** 2 / variance[gamma]
    share[gamma] = scipy.special.gammainc(shape, limits[gamma] / mean[gamma] * shape)
    return share


def evaluated(
    data: PollTally, priors: list[GammaPrior], owners: Owners, tail: float, limits: Floats
) -> Floats:
    """Return the columns that the compiled `posteriors` finds."""
    out = np.empty((data.polls.size, 6))
    shapes, scales = (np.array([getattr(prior, name) for prior in priors]) for name in ("shape", "scale"))
    posteriors(data, shapes, scales, owners, tail, limits, OFFSETS, out)
    return out
