"""Score tests of "changes are Poisson": does anything but elapsed time tell whether a poll sees a change.

Under Poisson changes a poll after ``elapsed`` sees one with probability p = 1 - exp(-x), x = rate * elapsed.
Let the log of x have a further term, a coefficient times a covariate z of the poll. The score of it at 0 is
the sum of z h, h = (changed/p - 1) x, with variance the sum of v (z - mean z)^2, v = x^2 (1-p)/p,
where each element has its own rate and so its own mean of z, weighted by v.

With few polls of many elements the rates are poor, and the scores of all elements err to the same side: by
the bias of order 1 that each has when its rate is estimated. That is subtracted (after Cox & Snell 1968).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from unstale.arguments import Floats
from unstale.estimation.poll_columns import Grouping


@dataclass(frozen=True)
class Test:
    """A statistic, and how likely one as extreme is if what is tested holds."""

    __test__ = False  # of pytest

    statistic: float
    p_value: float


@dataclass(frozen=True, eq=False)
class Fitted:
    """Polls of elements that were seen changed and unchanged, and the Poisson rates that fit best."""

    rows: NDArray[np.bool_]
    """Which of the polls these are, among all that were given."""
    changed: NDArray[np.bool_]
    x: Floats
    """Rate times elapsed time, of each poll."""
    grouped: Grouping

    @property
    def ratio(self) -> Floats:
        """x/p."""
        return self.x / -np.expm1(-self.x)

    @property
    def residual(self) -> Floats:
        """h: what each poll says of the log of its rate."""
        return self.changed * self.ratio - self.x

    @property
    def information(self) -> Floats:
        """v: the variance of h."""
        return self.x * self.ratio * np.exp(-self.x)

    def _previous(self, values: Floats) -> Floats:
        """Of each poll, the value of the one before; 0 for the first of an element."""
        return np.where(self.grouped.place > 0, np.roll(values, 1), 0.0)

    def of_polls(self, covariates: Floats) -> tuple[Floats, Floats]:
        """Return scores of covariates of polls (one in each column) and their variances."""
        centred = self.centred(covariates)
        score = self.residual @ centred - self.bias(centred)
        return score, (centred * self.information[:, None]).T @ centred

    def of_the_last_outcome(self) -> tuple[float, float]:
        """Return the score of "the poll before saw a change", and its variance."""
        centred = self.centred(self._previous(self.changed.astype(float))[:, None])[:, 0]
        expected = self.centred(self._previous(-np.expm1(-self.x))[:, None])
        lagged = self._previous(self.x * np.exp(-self.x))
        score = self.residual @ centred - self.bias(expected, lagged)[0]
        return float(score), float(self.information @ centred**2)

    def centred(self, covariates: Floats) -> Floats:
        """Take from each covariate (a column) its mean over the element, weighted by information."""
        v = self.information
        total = self.grouped.total(v)
        means = [self.grouped.spread(self.grouped.total(v * z) / total) for z in covariates.T]
        return covariates - np.stack(means, axis=1)

    def bias(self, centred: Floats, lagged: Floats | None = None) -> Floats:
        """Return the expected scores of covariates, because rates are estimated.

        ``lagged`` is the covariance of each poll's covariate with the residual of the poll before, if the
        covariate is made of its outcome.
        """
        x, a, q = self.x, self.ratio, np.exp(-self.x)
        v = self.information
        first = a * (1.0 - a * q)  # derivatives of a in the log of the rate
        second = first * (1.0 - a * q) - a * first * q + a * a * x * q
        shared = a * first * (1.0 - q) * q + 0.5 * ((1.0 - q) * second - x)
        per_poll = centred * shared[:, None]
        if lagged is not None:
            per_poll = per_poll - (v * lagged)[:, None]
        n = self.grouped.counts  # n/(n-1) makes it exact for constant intervals, where order is all there is
        return (per_poll / self.grouped.spread(self.grouped.total(v) * (n - 1.0) / n)[:, None]).sum(axis=0)


def fitted(elapsed: Floats, changed: NDArray[np.bool_], grouped: Grouping) -> Fitted | None:
    """Fit a rate to each element that was seen changed and unchanged; None if there is none.

    Others say nothing: their rates are 0 or infinite, and nothing else is needed to explain them. Of very
    many elements with short histories only the longest count: as many as 6 n^2, if they have n polls or more.
    (What is left of the bias is about 0.1/n standard errors of one element, times the root of their number.)
    """
    seen = grouped.total(changed.astype(float))
    mixed = (seen > 0) & (seen < grouped.counts)
    ranked = np.argsort(-np.where(mixed, grouped.counts, 0), kind="stable")
    mixed[ranked[np.arange(ranked.size) >= 6.0 * grouped.counts[ranked] ** 2]] = False
    if not mixed.any():
        return None
    rows = grouped.spread(mixed)
    kept = grouped.counts[mixed]
    inner = Grouping(
        np.arange(int(kept.sum())), np.cumsum(kept) - kept, kept, grouped.names[: len(grouped)][mixed]
    )
    elapsed, changed = elapsed[rows], changed[rows]
    share = seen[mixed] / kept
    start = -np.log1p(-share) * kept / inner.total(elapsed)
    level = np.log(start)
    for _ in range(100):  # Newton's method; the likelihood is concave in the log of the rate
        one = Fitted(rows, changed, inner.spread(np.exp(level)) * elapsed, inner)
        a, q = one.ratio, np.exp(-one.x)
        slope = inner.total(one.x - changed * a * (1.0 - a * q))
        step = np.clip(inner.total(one.residual) / slope, -2.0, 2.0)
        level = level + step
        if np.abs(step).max() < 1e-10:
            break
    return Fitted(rows, changed, inner.spread(np.exp(level)) * elapsed, inner)


def normal(score: float, variance: float) -> Test:
    """Test a score of mean 0 and this variance, to both sides."""
    if not variance > 0:
        return Test(np.nan, 1.0)
    z = score / np.sqrt(variance)
    return Test(float(z), float(2.0 * scipy.special.ndtr(-abs(z))))


def chi_square(score: Floats, variance: Floats) -> Test:
    """Test several scores of mean 0 together, as far as they vary."""
    values, vectors = np.linalg.eigh(variance)
    kept = values > 1e-9 * max(values.max(), 0.0)
    if not kept.any():
        return Test(np.nan, 1.0)
    statistic = float(((vectors.T @ score)[kept] ** 2 / values[kept]).sum())
    return Test(statistic, float(scipy.special.chdtrc(int(kept.sum()), statistic)))
