"""Change rates that are kept up to date poll by poll, in two numbers per element."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from ..arguments import Floats, scalar, whole
from ..errors import InvalidInput, NoAnswer
from ..processes import UncertainPoisson
from .compiled_rates import learn_polls
from .polls import PollColumns
from .posterior import GammaPrior, vague_prior

__all__ = ["OnlineRates"]


class OnlineRates:
    """The change rate of each element as a gamma law, which each poll sharpens and time blurs.

    A gamma law of the rate is as if ``shape`` changes had been counted in some ``time``. A poll that saw no
    change adds the time since the one before, which is exact. After one that saw a change the law is no gamma
    law any more; it becomes the one with the same mean and variance (assumed density filtering). That is all
    that is remembered of the polls, and close to what all of them together say (`estimate_rate`), but for an
    element that changes several times in each of many equal intervals: that its polls all say the same is
    forgotten, so that ``low`` and ``high`` are too close to each other (90 % become about 84 %).

    With a finite ``half_life``, shape and time decay towards those of the prior, the distance being halved in
    that time, so that the law follows rates that drift.

    Without a ``prior`` each element has that of `estimate_rate`, for which the time before its first poll
    stands for its intervals; if that is far shorter than the others, the law may be far off. So give a prior
    if you can, such as `GammaPrior.learned` from older polls. An element that has not been polled yet has the
    mean law of the others.

    Batches may be cut anywhere: what is learned is the same, bit for bit.

    >>> rates = OnlineRates(2, prior=GammaPrior(shape=1.0, scale=0.5))
    >>> rates.learn([0, 1, 0], elapsed=[1.0, 2.0, 3.0], changed=[True, False, False])
    >>> rates.rate.round(3).tolist()
    [0.362, 0.25]
    """

    def __init__(
        self,
        n: int,
        *,
        prior: GammaPrior | None = None,
        half_life: float = np.inf,
    ) -> None:
        if not (prior is None or isinstance(prior, GammaPrior)):
            msg = f"prior must be a GammaPrior; prior is {prior!r}"
            raise InvalidInput(msg)
        self._prior = prior
        self._half_life = scalar("half_life", half_life, above=0, infinite=True)
        self._laws = np.empty((0, 3))
        self.add(n)

    def __len__(self) -> int:
        return self._laws.shape[0]

    @property
    def half_life(self) -> float:
        """Time in which half of what was learned is forgotten."""
        return self._half_life

    def add(self, n: int = 1) -> NDArray[np.int64]:
        """Take up more elements; return their numbers."""
        new = np.full((whole("n", n), 3), np.nan)
        if self._prior is not None:
            new[:, 0], new[:, 1:] = self._prior.shape, 1.0 / self._prior.scale
        before = len(self)
        self._laws = np.concatenate([self._laws, new])
        return np.arange(before, len(self))

    def learn(
        self,
        elements: ArrayLike,
        elapsed: ArrayLike,
        changed: ArrayLike,
        *,
        modified: ArrayLike | None = None,
    ) -> None:
        """Learn from polls; those of one element must be in the order of time.

        The columns are those of `estimate_rates`.
        """
        columns = PollColumns.of(elements, elapsed, changed, modified, len(self))
        shape, time = _START if self._prior is None else (self._prior.shape, 0.0)
        learn_polls(*columns[:4], self._laws, shape, time, self._half_life)

    # --- what is known --------------------------------------------------------------------------------------

    @property
    def law(self) -> UncertainPoisson:
        """How elements change, for a plan."""
        shape, time = self._shape_and_time()
        return UncertainPoisson(np.minimum(shape, 1e15), 1.0 / time)

    @property
    def rate(self) -> Floats:
        """Mean of each rate."""
        shape, time = self._shape_and_time()
        return shape / time

    @property
    def low(self) -> Floats:
        """With a probability of 90 %, the rate is between ``low`` and ``high``, as much beyond each."""
        return self.quantile(0.05)

    @property
    def high(self) -> Floats:
        """See ``low``."""
        return self.quantile(0.95)

    def quantile(self, share: float) -> Floats:
        """Return what each rate is below with this probability.

        >>> OnlineRates(1, prior=GammaPrior(shape=1.0, scale=2.0)).quantile(0.5).round(3).tolist()
        [1.386]
        """
        share = scalar("share", share, above=0, below=1)
        shape, time = self._shape_and_time()
        return special.gammaincinv(shape, share) / time

    def _shape_and_time(self) -> tuple[Floats, Floats]:
        shape, time = self._laws[:, 0], self._laws[:, 1]
        if not np.isnan(time).any():
            return shape, time
        polled = ~np.isnan(time)
        if not polled.any():
            msg = "rates are unknown before the first poll; learn polls, or give a prior"
            raise NoAnswer(msg)
        # the mean law of the others: with the mean and variance of a rate of any of them
        rates = shape[polled] / time[polled]
        mean = rates.mean()
        variance = (rates / time[polled]).mean() + rates.var()
        return np.where(polled, shape, mean**2 / variance), np.where(polled, time, mean / variance)

    # --- to be continued ------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return all that is needed to go on later, as numbers and arrays.

        >>> rates = OnlineRates(1)
        >>> rates.learn([0, 0], [1.0, 2.0], [True, False])
        >>> again = OnlineRates.resume(rates.state())
        >>> bool(again.rate[0] == rates.rate[0])
        True
        """
        prior = [] if self._prior is None else [self._prior.shape, self._prior.scale]
        return {"laws": self._laws.copy(), "prior": np.array(prior), "half_life": self._half_life}

    @classmethod
    def resume(cls, state: Mapping[str, Any]) -> Self:
        """Go on where `state` was taken."""
        if missing := [name for name in ("laws", "prior", "half_life") if name not in state]:
            msg = f"state must be what OnlineRates.state returned; it has no {missing[0]!r}"
            raise InvalidInput(msg)
        laws, prior = np.array(state["laws"], float), np.array(state["prior"], float)
        if laws.ndim != 2 or laws.shape[1] != 3 or prior.shape not in {(0,), (2,)}:
            msg = f"state must be what OnlineRates.state returned; its laws have shape {laws.shape}"
            raise InvalidInput(msg)
        known = GammaPrior(*prior) if prior.size else None
        self = cls(0, prior=known, half_life=float(np.asarray(state["half_life"])))
        self._laws = laws
        return self


_START = vague_prior(1.0).shape, 1.0 / vague_prior(1.0).scale
"""Shape, and time per interval, of an element without a prior."""
