"""One shape for a class of elements, each with a rate of its own.

The likelihood of a shape is that of the gaps of each element up to their scale: the density of the gaps times
any factor, integrated over the log of the factor. So no rate is estimated, and few gaps of each of many
elements say what they can. (Gaps divided by the mean of two or three would look more regular than they are.)
For all laws but Pareto's the integral has a closed form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from unstale.arguments import Floats, scalar
from unstale.errors import InvalidInput
from unstale.estimation.poll_columns import Grouping, column, grouping
from unstale.processes import Gamma, Lognormal, Pareto, Periodic, Poisson, Process, Weibull

from .fits import LAWS, Candidate, Fits, chosen, floored, named_laws
from .maximum_likelihood import JITTER, lowest_between

SHAPES = {
    "gamma": (0.02, 1e4),
    "weibull": (0.1, 100.0),
    "lognormal": (0.01, 6.0),
    "pareto": (1.02, 200.0),
}
"""Least and largest shape that is tried (of the lognormal law: its log_sd)."""
_NODES = np.linspace(-7.0, 7.0, 29)


def of_rate_one(name: str, shape: float) -> Process:
    """Return the law of this name and shape with a mean gap of 1.

    >>> of_rate_one("weibull", 0.5)
    Weibull(shape=0.5, scale=0.5)
    """
    if name == "gamma":
        return Gamma(shape, 1.0 / shape)
    if name == "weibull":
        return Weibull(shape, 1.0 / scipy.special.gamma(1.0 + 1.0 / shape))
    if name == "lognormal":
        return Lognormal(-0.5 * shape**2, shape)
    if name == "pareto":
        return Pareto(shape, shape - 1.0)
    return Poisson(1.0) if name == "poisson" else Periodic(1.0)


class _Gaps:
    """Gaps of elements with two or more, in units of their element's mean."""

    def __init__(self, gaps: Floats, grouped: Grouping) -> None:
        self.gaps, self.grouped = gaps, grouped
        self.logs = np.log(gaps)
        self.n = grouped.counts.astype(float)

    @cached_property
    def log_sums(self) -> Floats:
        return self.grouped.total(self.logs)

    def poisson(self, _: float) -> float:
        return float(
            (scipy.special.gammaln(self.n) - self.n * np.log(self.n)).sum()
        )  # each element's gaps sum to n

    def gamma(self, k: float) -> float:
        per = (
            scipy.special.gammaln(self.n * k)
            - self.n * scipy.special.gammaln(k)
            - self.n * k * np.log(self.n)
        )
        return float((per + (k - 1.0) * self.log_sums).sum())

    def weibull(self, k: float) -> float:
        # powers relative to the largest gap, as they leave the floats
        top = np.maximum.reduceat(self.logs, self.grouped.starts)
        powers = np.log(self.grouped.total(np.exp(k * (self.logs - self.grouped.spread(top))))) + k * top
        per = (self.n - 1.0) * np.log(k) + scipy.special.gammaln(self.n) - self.n * powers
        return float((per + (k - 1.0) * self.log_sums).sum())

    @cached_property
    def _squares(self) -> Floats:
        return self.grouped.total((self.logs - self.grouped.spread(self.log_sums / self.n)) ** 2)

    def lognormal(self, sd: float) -> float:
        per = -0.5 * (self.n - 1.0) * np.log(2.0 * np.pi * sd**2) - 0.5 * np.log(self.n)
        return float((per - 0.5 * self._squares / sd**2 - self.log_sums).sum())

    def periodic(self, _: float) -> float:
        """Treat jitter as lognormal, as small as it is up to a tenth."""
        sd = np.sqrt(self._squares.sum() / (self.n - 1.0).sum())
        return self.lognormal(float(np.clip(sd, SHAPES["lognormal"][0], JITTER)))

    def pareto(self, shape: float) -> float:
        """Integrate over the log of the factor by the trapezoidal rule around the peak, in its width."""
        level = np.full(self.n.size, -np.log(shape - 0.9))
        for _ in range(60):
            share = self._shares(level)
            slope = self.n - (shape + 1.0) * self.grouped.total(share)
            bend = (shape + 1.0) * self.grouped.total(share * (1.0 - share))
            step = np.clip(slope / bend, -1.0, 1.0)
            level = level + step
            if np.abs(step).max() < 1e-6:
                break
        width = 1.0 / np.sqrt(bend)
        values = np.stack([self._pareto_at(shape, level + width * node) for node in _NODES])
        total = scipy.special.logsumexp(values, axis=0) + np.log(width * (_NODES[1] - _NODES[0]))
        return float((total + self.n * np.log(shape)).sum())

    def _shares(self, level: Floats) -> Floats:
        return scipy.special.expit(self.logs + self.grouped.spread(level))

    def _pareto_at(self, shape: float, level: Floats) -> Floats:
        logs = np.logaddexp(0.0, self.logs + self.grouped.spread(level))
        return self.n * level - (shape + 1.0) * self.grouped.total(logs)


def fit_class(
    gaps: ArrayLike,
    elements: ArrayLike,
    *,
    laws: Iterable[str] = LAWS,
    resolution: float | None = None,
) -> Fits:
    """Fit one shape to the gaps of many elements, whatever their rates, and choose a law.

    The laws have a mean gap of 1. The number of observations is that of gaps less one for each element. Gaps
    that have not ended are left out: with several gaps for each element they tell little.

    Parameters
    ----------
    gaps
        Times between changes.
    elements
        The number of the element of each gap.
    laws, resolution
        As in `fit`.

    Returns
    -------
    Fits
        Its ``rates`` are those of the elements with two gaps or more, whose numbers are in ``elements``.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> elements = np.repeat(np.arange(500), 4)
    >>> gaps = rng.weibull(0.6, size=2000) * np.repeat(rng.lognormal(0.0, 2.0, size=500), 4)
    >>> found = fit_class(gaps, elements)
    >>> found.best.name, round(float(found.law.shape), 1), found.observations
    ('weibull', 0.6, 1500)
    """
    values = column("gaps", gaps, at_least=0, at_most=1e290, nonempty=True)
    names = named_laws(laws)
    if resolution is not None:
        resolution = scalar("resolution", resolution, above=0)
    grouped = grouping(elements, values.size)
    values = values[grouped.order]
    positive = grouped.total(values) > 0
    kept = (grouped.counts > 1) & positive
    if not kept.any():
        raise InvalidInput(
            "gaps must be two or more of at least one element, and not all 0; no element has that many"
        )
    rows = grouped.spread(kept)
    values, grouped = floored(values[rows], resolution), _only(grouped, kept)
    means = grouped.total(values) / grouped.counts
    scaled = _Gaps(np.maximum(values / grouped.spread(means), 1e-12), grouped)
    found = []
    for name in names:
        shape, total = _best(getattr(scaled, name), SHAPES.get(name))
        law = of_rate_one(name, shape)
        found.append(Candidate(name, law, total, int(name in SHAPES), _distance(law, scaled.gaps)))
    observations = int((grouped.counts - 1).sum())
    return Fits(
        chosen(found, observations),
        observations,
        float(values.size / values.sum()),
        grouped.names,
        1.0 / means,
    )


def _only(grouped: Grouping, kept: NDArray[np.bool_]) -> Grouping:
    counts = grouped.counts[kept]
    return Grouping(np.arange(int(counts.sum())), np.cumsum(counts) - counts, counts, grouped.names[kept])


def _best(likelihood: Callable[[float], float], ends: tuple[float, float] | None) -> tuple[float, float]:
    """Return the likeliest shape, and its log-likelihood."""
    if ends is None:
        return 1.0, likelihood(1.0)
    low, high = np.log(ends)
    level, less = lowest_between(lambda u: -likelihood(float(np.exp(u))), low, high, 1e-4)
    return float(np.exp(level)), -less


def _distance(law: Process, gaps: Floats) -> float:
    """Return the largest distance to the share of gaps at most so long, in means of their elements."""
    ordered = np.sort(gaps)
    expected = 1.0 - law.survival(ordered)
    steps = np.arange(gaps.size + 1) / gaps.size
    return float(np.maximum(np.abs(steps[1:] - expected), np.abs(steps[:-1] - expected)).max())
