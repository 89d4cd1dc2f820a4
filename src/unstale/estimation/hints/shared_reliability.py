"""How reliable the hints of one source are, from polls of many elements.

Elements have rates of their own, but each may have too few polls to tell it, and elements that change often
have many hints, true and false. So the rates are taken to come from a gamma distribution, which is learned
from all polls, and hints to come in proportion to changes. With rate L, recall q, precision p = 1 - e^-k, and
c = q/p hints for each change, an element with N hints in the time T says

    L^N e^(-c L T) c^N  *  product of P(changed or not),     -log P(unchanged) = (1-q) L t + k n.

The rate is integrated out: as a function of log L the integrand is close to that of a gamma distribution with
the same maximum and curvature, and is one if no poll saw a change.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy

from unstale.arguments import Floats

from .hinted_polls import HintedPolls

_LEAST_EVIDENCE = 1e-7
"""Evidence of hints that say nothing, and the least share of changes without a hint."""
_MOST_SHAPE = 100.0
"""Largest shape of the gamma distribution of rates."""


_MOST_LOGARITHM = 200.0
"""Largest logarithm."""
_MOST_STANDARD_ERROR = 3.0
"""Largest standard error of a logarithm, if polls say nothing."""


class _Errors(NamedTuple):
    """Standard errors of log precision, log odds of the recall, and log rate."""

    precision: float
    recall: float
    rate: float


@dataclass(frozen=True, eq=False)
class SharedReliability:
    """Logarithms of k, c, the shape and the time of the gamma distribution, at the greatest likelihood."""

    polls: HintedPolls
    best: Floats
    likelihood: _SharedLikelihood

    @classmethod
    def fitted(cls, polls: HintedPolls) -> SharedReliability:
        """Find the greatest likelihood; some polls must have seen a change."""
        likelihood = _SharedLikelihood(polls)
        return cls(polls, likelihood.top(), likelihood)

    @property
    def precision(self) -> float:
        """Share of hints that come of a change."""
        return float(-np.expm1(-np.exp(self.best[0]))) if self.polls.total_hints else 0.0

    @property
    def hints_per_change(self) -> float:
        """True and false ones."""
        return float(np.exp(self.best[1])) if self.polls.total_hints else 0.0

    @property
    def recall(self) -> float:
        """Share of changes that give a hint."""
        return min(self.hints_per_change * self.precision, 1.0)

    @cached_property
    def rates(self) -> Floats:
        """Changes per unit time of each element."""
        self.likelihood.value(self.best)
        return self.likelihood.rates

    def errors(self) -> _Errors:
        """Return standard errors, from the curvature of the likelihood."""
        if not self.polls.total_hints:
            spread = float(1.0 / np.sqrt(self.polls.elapsed.size))
            return _Errors(0.0, 0.0, spread)
        values, vectors = np.linalg.eigh(self.likelihood.curvature(self.best))
        covariance = (vectors / (np.maximum(values, 0.0) + _MOST_STANDARD_ERROR**-2)) @ vectors.T
        k = float(np.exp(self.best[0]))
        slope = k * np.exp(-k) / self.precision  # of log precision, in log k
        miss = max(1.0 - self.recall, 1e-3)
        variances = covariance.diagonal()
        both = slope**2 * variances[0] + 2.0 * slope * covariance[0, 1] + variances[1]
        return _Errors(
            *(
                float(np.sqrt(max(one, 0.0)))
                for one in (slope**2 * variances[0], both / miss**2, variances[1])
            )
        )

    def p_value(self) -> float:
        """Test whether hints say anything, by the ratio of likelihoods."""
        if not self.polls.varied or self.polls.elapsed.size == self.polls.count:
            return 1.0
        useless = self.likelihood.top(useless=True)
        gain = self.likelihood.value(self.best) + 0.5 * np.exp(self.best[0]) - self.likelihood.value(useless)
        return float(0.5 * scipy.special.chdtrc(1.0, 2.0 * max(float(gain), 0.0))) if gain > 1e-3 else 1.0


@dataclass(eq=False)
class _SharedLikelihood:
    """Logarithm of the likelihood, with half a false hint added to the polls."""

    polls: HintedPolls
    unit: float = field(init=False)
    """A time in which an element changes, more or less."""
    rates: Floats = field(init=False)
    """Where the last search for the rates ended."""

    def __post_init__(self) -> None:
        polls = self.polls
        self.unit = polls.total_time / polls.elapsed.size
        self.rates = (polls.sums(np.ones(polls.elapsed.size)) + 0.5) / (polls.time + 0.5 * self.unit)

    def top(self, *, useless: bool = False) -> Floats:
        """Return where it is greatest; ``useless`` hints have no evidence."""
        hints = self.polls.total_hints
        start = np.array(
            [np.log(0.5), np.log(max(hints, 0.5) / self.polls.elapsed.size), 0.0, np.log(self.unit)]
        )
        free = np.array([hints > 0 and not useless, hints > 0, True, True])
        if useless or not hints:
            start[0] = np.log(_LEAST_EVIDENCE)
        simplex = np.vstack([start[free], start[free] + 0.5 * np.eye(int(free.sum()))])

        def cost(v: Floats) -> float:
            whole = start.copy()
            whole[free] = v
            return -self.value(whole)

        found = scipy.optimize.minimize(
            cost,
            start[free],
            method="Nelder-Mead",
            bounds=[(-_MOST_LOGARITHM, _MOST_LOGARITHM)] * int(free.sum()),
            options={"initial_simplex": simplex, "xatol": 1e-5, "fatol": 1e-7, "maxiter": 4000},
        )
        start[free] = found.x
        return start

    def value(self, logs: Floats) -> float:
        """Logarithm of the likelihood, up to a constant."""
        polls, (k, per_change, shape, time) = (
            self.polls,
            np.exp(np.clip(logs, -_MOST_LOGARITHM, _MOST_LOGARITHM)),
        )
        k, shape = min(max(k, _LEAST_EVIDENCE), 40.0), min(max(shape, 1.0 / _MOST_SHAPE), _MOST_SHAPE)
        if not polls.total_hints:
            k = per_change = 0.0
        miss = max(1.0 + per_change * np.expm1(-k), _LEAST_EVIDENCE)
        least = shape + polls.hinted
        quiet = time + per_change * polls.time + miss * polls.quiet
        rates = self.rates = polls.balanced(k, least, quiet, miss, self.rates)
        x = polls.evidence(miss * rates, k)
        with np.errstate(over="ignore"):
            odds = 1.0 / np.expm1(x)
            own = least + rates * (rates * polls.sums((miss * polls.elapsed) ** 2 * odds * (1.0 + odds)))
        parts = (
            least * np.log(rates)
            - quiet * rates
            + scipy.special.gammaln(own)
            + own
            - scipy.special.xlogy(own, own)
        )
        prior = rates.size * (shape * np.log(time) - scipy.special.gammaln(shape))
        hints = polls.total_hints * (logs[1] if polls.total_hints else 0.0) - k * (polls.false_hints + 0.5)
        return float(np.log(-np.expm1(-x)).sum() + parts.sum() + prior + hints)

    def curvature(self, at: Floats, step: float = 0.02) -> Floats:
        """Return minus the second derivatives, by differences."""
        steps = step * np.eye(at.size)
        out = np.empty((at.size, at.size))
        for i in range(at.size):
            for j in range(i + 1):
                corners = [
                    s * t * self.value(at + s * steps[i] + t * steps[j]) for s in (1, -1) for t in (1, -1)
                ]
                out[i, j] = out[j, i] = -sum(corners) / (4.0 * step * step)
        return out
