"""Freshness where servers promise that elements stay as they are, as far as that is believed.

Until a promise ends, a time after the last poll, time goes by more slowly for an element
(`unstale.policy.expiries`): by a factor, and at full speed after that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unstale.arguments import Floats
from unstale.processes import UncertainPoisson

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)


@dataclass(frozen=True, eq=False)
class PromisedTimes:
    """An entry for each element."""

    speeds: Floats
    """How fast time goes by while the promise lasts."""
    stays: Floats
    """How long it lasts after a poll; 0: there is none."""

    def passed(self, since: Floats) -> Floats:
        """Return the time that goes by in so long after a poll."""
        return np.maximum(since - self.stays, 0.0) + self.speeds * np.minimum(since, self.stays)

    def slowed(self, law: UncertainPoisson, frequencies: Floats) -> UncertainPoisson:
        """Return a law that changes as much between two polls, without promises."""
        with np.errstate(divide="ignore"):
            interval = np.minimum(1.0 / frequencies, 1e30)
        return UncertainPoisson(law.shape, np.asarray(law.scale) * self.passed(interval) / interval)

    def fresh(self, law: UncertainPoisson, frequencies: Floats) -> Floats:
        """Return the mean freshness of elements that are polled at fixed intervals."""
        with np.errstate(divide="ignore"):
            interval = np.minimum(1.0 / frequencies, 1e30)
        inside = np.minimum(self.stays, interval)
        shape, scale = np.asarray(law.shape), np.asarray(law.scale)
        before = self._mean(shape, scale * self.speeds * inside)
        past = scale * self.speeds * inside
        rest = scale / (1.0 + past) * (interval - inside)
        after = np.exp(-shape * np.log1p(past)) * self._mean(shape, rest)
        return (inside * before + (interval - inside) * after) / interval

    @staticmethod
    def _mean(shape: Floats, end: Floats) -> Floats:
        """Return the mean of (1 + x)^-shape for x from 0 to an end."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            grown = np.expm1((1.0 - shape) * np.log1p(end)) / ((1.0 - shape) * end)
        middle = np.exp(-shape * np.log1p(0.5 * end[:, None] * (1.0 + _NODES)).T).T @ (0.5 * _WEIGHTS)
        return np.where((np.abs(shape - 1.0) > 1e-3) & (end > 1e-3), grown, middle)
