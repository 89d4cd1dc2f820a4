"""Is it Poisson? Exponential gaps, independent of each other; and what else if not.

From gaps between changes, or from polls alone. All tests hold a rate of its own for each element, so that
elements may be thrown together whose rates have nothing to do with each other.

References: Cho & Garcia-Molina (SIGMOD 2000), section 6.2 and Figure 11; Goh & Barabasi (EPL 2008),
burstiness and memory; Kim & Jo (Phys. Rev. E 2016), burstiness of few gaps; Dufour & Roy (J. Econometrics
1985), rank autocorrelations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from unstale.arguments import Floats, scalar, whole
from unstale.errors import InvalidInput
from unstale.estimation.poll_columns import Grouping, checked_polls, column, grouping

from .poisson_score_tests import Test, fitted, normal

_MOST_LAGS = 5


@dataclass(frozen=True)
class GapTests:
    """What gaps between changes say about Poisson changes."""

    gaps: int
    elements: int
    exponential: Test
    """Are the gaps exponential?"""
    independent: Test
    """Is a gap independent of those before it?"""
    burstiness: float
    """From -1 (like clockwork) over 0 (Poisson) to 1 (all at once); see `burstiness`."""
    memory: float
    """Correlation of successive gaps."""
    level: float

    @property
    def p_value(self) -> float:
        """Probability of gaps at least as odd, in either way, if changes are Poisson."""
        return min(1.0, 2.0 * min(self.exponential.p_value, self.independent.p_value))

    @property
    def is_poisson(self) -> bool:
        """Whether nothing speaks against Poisson changes."""
        return self.p_value > self.level

    @property
    def verdict(self) -> str:
        """The same in words."""
        if np.isnan(self.exponential.statistic):
            return "too few gaps to tell"
        if self.is_poisson:
            return "as if Poisson"
        words = []
        if 2.0 * self.exponential.p_value <= self.level:
            words.append("bursty" if self.burstiness > 0 else "regular")
        if 2.0 * self.independent.p_value <= self.level:
            words.append("gaps depend on those before")
        return ", ".join(words)


def examine_gaps(gaps: ArrayLike, elements: ArrayLike | None = None, *, level: float = 0.05) -> GapTests:
    """Test whether gaps between changes are exponential, and independent of each other.

    ``gaps`` come in the order of time within each element; ``elements`` says whose each is.

    Exponential: n times the smallest gap, n-1 times the second smallest less the smallest, and so on, are
    again independent and exponential, so their sums, divided by the sum of all, are like uniform numbers in
    order (the total time on test, Barlow & Proschan). Those of all elements together are compared with
    uniform ones by the statistic of Anderson & Darling. Nothing has to be estimated.

    Independent: rank autocorrelations up to lag 5, each against its exact mean and variance, summed squares.

    >>> rng = np.random.default_rng(1)
    >>> examine_gaps(rng.exponential(size=500)).verdict
    'as if Poisson'
    >>> examine_gaps(rng.weibull(0.5, size=500)).verdict
    'bursty'
    """
    values = column("gaps", gaps, at_least=0)
    level = scalar("level", level, above=0, below=1)
    grouped = grouping(elements, values.size)
    values = values[grouped.order]
    return GapTests(
        gaps=values.size,
        elements=len(grouped),
        exponential=_exponential(values, grouped),
        independent=_independent(values, grouped),
        burstiness=_mean(_burstiness(values, grouped), grouped.counts),
        memory=_mean(_memory(values, grouped), grouped.counts),
        level=level,
    )


def _mean(values: Floats, counts: NDArray[np.intp]) -> float:
    """Average over elements with two gaps or more, by their number."""
    weights = np.where(counts > 1, counts, 0)
    return float(np.average(values, weights=weights)) if weights.any() else 0.0


def _exponential(values: Floats, grouped: Grouping) -> Test:
    """Compare sums of normalised spacings with uniform numbers."""
    ordered = values[np.lexsort((values, grouped.number))]
    spacings = np.diff(ordered, prepend=0.0)
    spacings[grouped.starts] = ordered[grouped.starts]
    sums = np.cumsum(spacings * (grouped.spread(grouped.counts) - grouped.place))
    before = np.concatenate([[0.0], sums])[grouped.starts]
    whole_sum = grouped.total(values)
    last = grouped.place == grouped.spread(grouped.counts) - 1
    kept = ~last & (grouped.spread(whole_sum) > 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        uniform = ((sums - grouped.spread(before)) / grouped.spread(whole_sum))[kept]
    return _uniform(np.sort(uniform))


def _uniform(ordered: Floats) -> Test:
    """Compare numbers in order with uniform ones by Anderson & Darling's statistic.

    Its distribution is that of many numbers (Marsaglia & Marsaglia 2004), and far out the leading term of its
    tail (Zolotarev 1961); that of few is nearly the same.
    """
    n = ordered.size
    if n < 2:
        return Test(np.nan, 1.0)
    u = np.clip(ordered, 1e-12, 1.0 - 1e-12)  # equal gaps leave spacings of 0
    odd = 2.0 * np.arange(n) + 1.0
    z = float(-n - (odd * (np.log(u) + np.log1p(-u[::-1]))).sum() / n)
    if z > 4.0:
        return Test(z, float(np.sqrt(3.0 / (np.pi * z)) * np.exp(-z)))
    if z > 2.0:
        inside = np.polyval([-0.0003146, 0.008056, -0.082433, 0.43424, -2.30695, 1.0776], z)
        return Test(z, float(-np.expm1(-np.exp(inside))))
    series = np.polyval([-0.00168691, 0.011672, -0.0347962, 0.0649821, -0.247105, -2.00012], z)
    return Test(z, float(1.0 + np.exp(-1.2337141 / z) / np.sqrt(z) * series))


def _independent(values: Floats, grouped: Grouping) -> Test:
    """Test rank autocorrelations of all elements together, lag by lag."""
    ranks = _ranks(values, grouped)
    n = grouped.counts.astype(float)
    spread = grouped.total(ranks**2)
    number, statistic, lags = grouped.number, 0.0, 0
    for k in range(1, _MOST_LAGS + 1):
        used = (n >= 4 * k + 2) & (spread > 0)
        if not used.any():
            break
        pairs = number[k:] == number[:-k]
        products = np.bincount(number[k:][pairs], (ranks[k:] * ranks[:-k])[pairs], n.size)[used]
        m = n[used]
        mean = -(m - k) / (m * (m - 1.0))
        variance = (
            5 * m**4 - (5 * k + 9) * m**3 + 9 * (k - 2) * m**2 + 2 * k * (5 * k + 8) * m + 16 * k**2
        ) / (5.0 * (m - 1.0) ** 2 * m**2 * (m + 1.0))
        score = (m * (products / spread[used] - mean)).sum()
        statistic += float(score**2 / (m**2 * variance).sum())
        lags = k
    return Test(statistic, float(scipy.special.chdtrc(lags, statistic))) if lags else Test(np.nan, 1.0)


def _ranks(values: Floats, grouped: Grouping) -> Floats:
    """Rank gaps within their elements, equal ones alike, less the mean rank."""
    order = np.lexsort((values, grouped.number))
    ordered, number = values[order], grouped.number
    new = np.ones(order.size, bool)
    new[1:] = (ordered[1:] != ordered[:-1]) | (number[1:] != number[:-1])
    tie = np.cumsum(new) - 1
    mean_place = np.bincount(tie, grouped.place) / np.bincount(tie) if order.size else ordered
    ranks = np.empty(order.size)
    ranks[order] = mean_place[tie]
    return ranks - grouped.spread(0.5 * (grouped.counts - 1.0))


def burstiness(gaps: ArrayLike) -> float:
    """Return how bursty gaps are: -1 if all are equal, 0 if exponential, 1 if one is all.

    With r the standard deviation over the mean, this is Goh & Barabasi's (r-1)/(r+1), corrected for the
    number of gaps as by Kim & Jo, since r of n gaps cannot exceed sqrt(n-1). It is 0 for fewer than two gaps.

    >>> round(burstiness([1.0, 1.0, 1.0]), 3), round(burstiness([0.0, 0.0, 3.0]), 3)
    (-1.0, 1.0)
    """
    values = column("gaps", gaps, at_least=0)
    return float(_burstiness(values, grouping(None, values.size))[0]) if values.size else 0.0


def _in_means(values: Floats, grouped: Grouping) -> Floats:
    """Return gaps in mean gaps of their elements; 0 where that is."""
    top = np.maximum.reduceat(values, grouped.starts)  # so that sums stay in the floats
    shares = values / grouped.spread(np.where(top > 0, top, 1.0))
    means = grouped.total(shares) / grouped.counts
    return shares / grouped.spread(np.where(means > 0, means, 1.0))


def _burstiness(values: Floats, grouped: Grouping) -> Floats:
    if not values.size:
        return np.zeros(0)
    n, unit = grouped.counts, _in_means(values, grouped)
    known = (n > 1) & (grouped.total(unit) > 0)
    r = np.sqrt(grouped.total((unit - 1.0) ** 2) / n)
    more, less = np.sqrt(n + 1.0), np.sqrt(np.maximum(n - 1.0, 0.0))
    below = (more - 2.0) * r + less
    return np.where(known, (more * r - less) / np.where(known, below, 1.0), 0.0)


def memory(gaps: ArrayLike) -> float:
    """Return the correlation of each gap with the next (Goh & Barabasi); 0 if there is none to speak of.

    >>> round(memory([1.0, 2.0, 1.0, 2.0, 1.0]), 3)
    -1.0
    """
    values = column("gaps", gaps, at_least=0)
    return float(_memory(values, grouping(None, values.size))[0]) if values.size else 0.0


def _memory(values: Floats, grouped: Grouping) -> Floats:
    if not values.size:
        return np.zeros(0)
    unit, number = _in_means(values, grouped), grouped.number
    pairs = np.flatnonzero(number[1:] == number[:-1])
    owner, count = number[pairs], np.maximum(grouped.counts - 1, 1)

    def total(products: Floats) -> Floats:
        return np.bincount(owner, products, len(grouped)).astype(float)

    before, after = unit[pairs], unit[pairs + 1]
    before, after = (part - (total(part) / count)[owner] for part in (before, after))
    spread = np.sqrt(total(before**2) * total(after**2))
    known = spread > 1e-12 * grouped.counts
    return np.where(known, np.clip(total(before * after) / np.where(known, spread, 1.0), -1.0, 1.0), 0.0)


@dataclass(frozen=True)
class PollTests:
    """What polls alone say about Poisson changes."""

    polls: int
    """Of elements that were seen changed and unchanged; others say nothing."""
    elements: int
    elapsed: Test
    """Is a change as likely as the elapsed time makes it? Below 0: too likely after short times."""
    independent: Test
    """Is a change as likely, whatever the poll before saw? Above 0: likelier after a change."""
    level: float

    @property
    def p_value(self) -> float:
        """Probability of outcomes at least as odd, in either way, if changes are Poisson."""
        return min(1.0, 2.0 * min(self.elapsed.p_value, self.independent.p_value))

    @property
    def is_poisson(self) -> bool:
        """Whether nothing speaks against Poisson changes."""
        return self.p_value > self.level

    @property
    def verdict(self) -> str:
        """The same in words."""
        if np.isnan(self.independent.statistic):
            return "too few polls to tell"
        if self.is_poisson:
            return "as if Poisson"
        if self.independent.p_value < self.elapsed.p_value:
            return "bursty" if self.independent.statistic > 0 else "regular"
        return "bursty" if self.elapsed.statistic < 0 else "regular"


def examine_polls(
    elapsed: ArrayLike, changed: ArrayLike, elements: ArrayLike | None = None, *, level: float = 0.05
) -> PollTests:
    """Test from polls alone whether changes are Poisson.

    After bursts a poll is likelier to see a change if the one before did, and the chance of a change grows
    less with elapsed time than that of Poisson changes. A rate that drifts looks like bursts, as it should:
    there too the recent past tells something.

    Parameters
    ----------
    elapsed, changed
        For each poll, the time since the one before, and whether the poll saw a change; in the order of time
        within each element.
    elements
        The number of the element of each poll; by default all are of one.
    level
        Of the tests.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> examine_polls(np.ones(500), rng.random(500) < 0.4).verdict
    'as if Poisson'
    >>> examine_polls(np.ones(500), np.repeat(rng.random(100) < 0.4, 5)).verdict
    'bursty'
    """
    spans, seen, grouped = checked_polls(elapsed, changed, elements)
    level = scalar("level", level, above=0, below=1)
    found = fitted(spans, seen, grouped)
    if found is None:
        return PollTests(0, 0, Test(np.nan, 1.0), Test(np.nan, 1.0), level)
    score, variance = found.of_polls(np.log(spans[found.rows])[:, None])
    varies = float(variance[0, 0]) > 1e-9 * float(found.information.sum())
    return PollTests(
        polls=found.x.size,
        elements=len(found.grouped),
        elapsed=normal(float(score[0]), float(variance[0, 0]) if varies else 0.0),
        independent=normal(*found.of_the_last_outcome()),
        level=level,
    )


@dataclass(frozen=True, eq=False)
class GapShares:
    """Gaps of elements that change about equally often, bin by bin, beside exponential ones.

    Where changes are Poisson the shares fall on a straight line if drawn on a logarithmic scale.
    """

    edges: Floats
    shares: Floats
    """Share of the gaps in each bin; the rest is beyond the last."""
    exponential: Floats
    """The same of exponential gaps with the same mean."""
    mean_gap: float
    gaps: int
    elements: int


def gap_shares(
    gaps: ArrayLike,
    elements: ArrayLike | None = None,
    *,
    mean_gap: float | None = None,
    within: float = 0.1,
    bins: int = 20,
    longest: float | None = None,
) -> GapShares:
    """Count gaps by their length: Figure 11 of Cho & Garcia-Molina (SIGMOD 2000).

    Parameters
    ----------
    gaps
        Times between changes.
    elements
        The number of the element of each gap; by default all are of one.
    mean_gap
        Only those elements count whose own mean gap is near this. Without it, all do, and gaps are measured
        in the mean gap of their element, so that the mean is 1.
    within
        The share of ``mean_gap`` that is near.
    bins
        The number of bins.
    longest
        Where the last bin ends, by default at five mean gaps.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> shown = gap_shares(rng.exponential(10.0, size=10_000), bins=5)
    >>> shown.shares.round(2).tolist(), shown.exponential.round(2).tolist()
    ([0.63, 0.23, 0.09, 0.03, 0.01], [0.63, 0.23, 0.09, 0.03, 0.01])
    """
    values = column("gaps", gaps, at_least=0, nonempty=True)
    bins = whole("bins", bins, at_least=1)
    grouped = grouping(elements, values.size)
    values = values[grouped.order]
    means = grouped.total(values) / grouped.counts
    if mean_gap is None:
        used = means > 0
        values, wanted = values / grouped.spread(np.where(used, means, 1.0)), 1.0
    else:
        wanted = scalar("mean_gap", mean_gap, above=0)
        used = np.abs(means - wanted) <= scalar("within", within, at_least=0) * wanted
    if not used.any():
        share = f" within {within:g} of {wanted:g}" if mean_gap is not None else " above 0"
        raise InvalidInput(
            f"no element has a mean gap{share}; they are from {means.min():g} to {means.max():g}"
        )
    values = values[grouped.spread(used)]
    mean = float(values.mean())
    edges = np.linspace(
        0.0, 5.0 * wanted if longest is None else scalar("longest", longest, above=0), bins + 1
    )
    counts, _ = np.histogram(values, edges)
    return GapShares(
        edges=edges,
        shares=counts / values.size,
        exponential=-np.diff(np.exp(-edges / mean)),
        mean_gap=mean,
        gaps=values.size,
        elements=int(used.sum()),
    )
