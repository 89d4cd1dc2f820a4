"""Laws from polls alone: what "changed" and "unchanged" say about more than the rate.

Seen from a poll, the next change comes after the residual law, G; with R = 1 - G its survival. Polls in a row
up to one that sees a change are a run. If the poll before the run saw a change too, in the elapsed time e
before it, then the last change was within e, and nothing within t after it has the probability (R(t) -
R(e+t)) / G(e). So the run says that the next change came between two times t < u after its start:

    (R(t) - R(e+t) - R(u) + R(e+u)) / G(e)        with e infinite for the first run of an element

Runs are independent but for what earlier ones say about where within e the last change was, which is left
out. For Poisson changes nothing is left out. A shape is seen from polls at constant intervals as well, by the
lengths of runs; what happens within one interval is not.

Elements of a class share the shape. Their rates have a distribution which is itself fitted, as weights of
rates on a grid (nonparametric maximum likelihood, Kiefer & Wolfowitz 1956), so that elements with few polls
do no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from unstale.arguments import Floats, whole
from unstale.errors import InvalidInput
from unstale.estimation.poll_columns import Grouping, checked_polls
from unstale.processes import Gamma, Process

from .class_fits import of_rate_one
from .fits import LAWS, Candidate, Fit, Fits, chosen, named_laws
from .maximum_likelihood import JITTER, lowest, lowest_between

_SHAPE_BOUNDS = {
    "gamma": (0.1, 50.0),
    "weibull": (0.25, 8.0),
    "lognormal": (0.15, 3.0),
    "pareto": (1.1, 50.0),
}
_LOG_RATE_STEP = 0.35  # of the grid of log rates


@dataclass(frozen=True, eq=False)
class _Runs:
    """Runs of polls: in which element, from when on, and between which times after that the change came."""

    element: NDArray[np.intp]
    before: Floats
    low: Floats
    high: Floats

    def take(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> _Runs:
        return _Runs(self.element[rows], self.before[rows], self.low[rows], self.high[rows])

    def likelihood(self, law: Process, rates: Floats) -> Floats:
        """Return the log-likelihood of each run at each of some rates."""
        e, t, u = (part[:, None] * rates for part in (self.before, self.low, self.high))
        beyond = _residual(law)
        left = beyond(t)
        change = left - beyond(e + t) - beyond(u) + beyond(e + u)
        # where nearly all cancels, the intervals are short and S hardly varies over e
        short = (change < 1e-6 * left) & np.isfinite(e)
        if short.any():
            t_, u_, e_ = t[short], u[short], e[short]
            density = np.asarray(law.rate) * e_ * (law.survival(t_ + e_ / 2) - law.survival(u_ + e_ / 2))
            change[short] = np.where(np.isfinite(u_), np.maximum(density, 0.0), change[short])
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(change, 1e-300)) - np.log(_within(law, beyond, e))


def _within(law: Process, beyond: Callable[[Floats], Floats], e: Floats) -> Floats:
    """Residual cdf, from the table unless it is small."""
    out = 1.0 - beyond(e)
    small = out < 1e-3
    out[small] = law.residual_cdf(e[small])
    return out


def _residual(law: Process) -> Callable[[Floats], Floats]:
    """Return the residual survival; of a gamma law from a table, as its own form is slow.

    Between points of the table the error is below 1e-9, of which differences have to take account.
    """
    if not isinstance(law, Gamma):
        return law.residual_survival
    from scipy import interpolate

    k, scale = float(law.shape), float(law.scale)
    logs = np.linspace(np.log(1e-9), np.log(100.0 + 10.0 * k), 2000)
    z = np.exp(logs)
    longer = scipy.special.gammaincc(k, z)
    left = longer * (1.0 - z / k) + np.exp(k * logs - z - scipy.special.gammaln(k + 1.0))
    table = interpolate.CubicHermiteSpline(logs, np.maximum(left, 0.0), -longer * z / k)

    def beyond(t: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return np.maximum(table(np.clip(np.log(t / scale), logs[0], logs[-1])), 0.0)

    return beyond


def _runs(elapsed: Floats, changed: NDArray[np.bool_], grouped: Grouping) -> _Runs:
    """Cut histories into runs."""
    number, first = grouped.number, grouped.place == 0
    ends = changed | (grouped.place == np.repeat(grouped.counts, grouped.counts) - 1)
    begins = np.concatenate([[True], changed[:-1]]) | first
    start, end = np.flatnonzero(begins), np.flatnonzero(ends)
    clock = np.concatenate([[0.0], np.cumsum(elapsed)])
    whole_run = clock[end + 1] - clock[start]
    seen = changed[end]
    before = np.where(first[start], np.inf, elapsed[start - 1])
    low = np.where(seen, np.where(end > start, clock[end] - clock[start], 0.0), whole_run)
    return _Runs(number[start], before, low, np.where(seen, whole_run, np.inf))


def fit_polls(
    elapsed: ArrayLike,
    changed: ArrayLike,
    elements: ArrayLike | None = None,
    *,
    laws: Iterable[str] = LAWS,
    most: int = 4000,
) -> Fits:
    """Fit laws to polls, and choose one.

    The times between polls set what can be told: bursts much shorter than the shortest look like single
    changes.

    Parameters
    ----------
    elapsed, changed
        For each poll, the time since the one before, and whether the poll saw a change; in the order of time
        within each element.
    elements
        The number of the element of each poll. Without it all polls are of one element, whose rate and shape
        are fitted. With it, the elements share a shape, the laws have a mean gap of 1, and the answer's
        ``rates`` are the elements' own (the means of what they may be); ``distance`` is not known.
    laws
        Names of the laws to fit.
    most
        Of more than about so many runs, only every second, third ... run (or element, with its runs) is used
        for the shape.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> changes = np.cumsum(rng.weibull(0.5, size=2000))
    >>> times = np.cumsum(rng.exponential(size=1000))
    >>> changed = np.diff(np.searchsorted(changes, times)) > 0
    >>> found = fit_polls(np.diff(times), changed, laws=("poisson", "weibull"))
    >>> found.best.name, round(float(found.law.shape), 1)
    ('weibull', 0.5)
    """
    spans, seen, grouped = checked_polls(elapsed, changed, elements)
    names = named_laws(laws)
    most = whole("most", most, at_least=1)
    if not seen.any() or seen.all():
        kind = "changed" if seen.size and seen.all() else "unchanged"
        raise InvalidInput(
            f"changed must have polls that saw a change and polls that saw none; all {seen.size} are {kind}"
        )
    unit = float(spans.mean())
    runs = _runs(spans / unit, seen, grouped)
    used = _thinned(runs, most, together=elements is not None)
    count = int(np.isfinite(used.high).sum())
    rates = _grid(spans / unit, seen, grouped)
    if elements is None:
        found = [_alone(name, used, rates, (spans / unit, seen), unit) for name in names]
        return Fits(chosen(found, count), count, float(seen.sum() / spans.sum()))
    _, places = np.unique(used.element, return_inverse=True)
    fits = [_together(name, used, places, rates) for name in names]
    best = chosen([one for one, _ in fits], count)
    weights = next(w for one, w in fits if one.name == best[0].name)
    means = _posterior(runs, len(grouped), best[0], rates, weights) / unit
    return Fits(best, count, float(seen.sum() / spans.sum()), grouped.names, means)


def _thinned(runs: _Runs, most: int, *, together: bool) -> _Runs:
    every = -(-runs.element.size // most)
    return runs.take((runs.element if together else np.arange(runs.element.size)) % every == 0)


def _grid(elapsed: Floats, changed: NDArray[np.bool_], grouped: Grouping) -> Floats:
    """Return rates, evenly spaced in their logs, among which those of all elements are."""
    time, seen = grouped.total(elapsed), grouped.total(changed.astype(float))
    rough = -np.log1p(-(seen + 0.5) / (grouped.counts + 1.0)) * grouped.counts / time
    low, high = np.log(rough.min()) - 1.5, np.log(rough.max()) + 2.5
    return np.exp(np.linspace(low, high, int(np.ceil((high - low) / _LOG_RATE_STEP)) + 1))


def _likely(name: str, shape: float) -> Process:
    """Return the law of which the likelihood is taken: periodic changes may jitter by a tenth."""
    return Gamma(JITTER**-2, JITTER**2) if name == "periodic" else of_rate_one(name, shape)


def _alone(
    name: str, runs: _Runs, rates: Floats, polls: tuple[Floats, NDArray[np.bool_]], unit: float
) -> Candidate:
    """Fit rate and shape of one element: on the grid, then to the last digits that matter."""
    shapes = np.geomspace(*_SHAPE_BOUNDS[name], 6) if name in _SHAPE_BOUNDS else np.ones(1)
    totals = np.array([runs.likelihood(_likely(name, s), rates).sum(axis=0) for s in shapes])
    i, j = np.unravel_index(np.argmax(totals), totals.shape)
    ends = np.log([_SHAPE_BOUNDS.get(name, (1.0, 1.0)), (rates[0], rates[-1])])

    def less(at: Floats) -> float:
        at = np.clip(at, ends[:, 0], ends[:, 1])
        return -float(runs.likelihood(_likely(name, np.exp(at[0])), np.exp(at[1:])).sum())

    start = np.log([shapes[i], rates[j]])
    at = lowest(less, start, 1e-3)
    shape, rate = np.exp(np.clip(at, ends[:, 0], ends[:, 1]))
    parameters = 2 if name in _SHAPE_BOUNDS else 1
    law = of_rate_one(name, float(shape)).at_rate(rate / unit)
    return Candidate(name, law, -less(at), parameters, _distance(_likely(name, shape).at_rate(rate), *polls))


def _together(name: str, runs: _Runs, places: NDArray[np.intp], rates: Floats) -> tuple[Candidate, Floats]:
    """Fit the shape that elements share, and the weights of their rates."""
    weights = np.full(rates.size, 1.0 / rates.size)

    def total(shape: float) -> tuple[float, Floats]:
        columns = runs.likelihood(_likely(name, shape), rates)
        table = np.stack([np.bincount(places, one) for one in columns.T], axis=1).astype(float)
        return _mixed(table, weights)

    shape = 1.0
    if name in _SHAPE_BOUNDS:
        low, high = np.log(_SHAPE_BOUNDS[name])
        level, _ = lowest_between(lambda u: -total(float(np.exp(u)))[0], low, high, 0.01)
        shape = float(np.exp(level))
    value, weights = total(shape)
    law = of_rate_one(name, shape)
    return Candidate(name, law, value, int(name in _SHAPE_BOUNDS), np.nan), weights


def _mixed(table: Floats, weights: Floats) -> tuple[float, Floats]:
    """Fit weights of rates to log-likelihoods of elements (rows) by the EM algorithm."""
    top = table.max(axis=1, keepdims=True)
    likely = np.exp(table - top)
    before = -np.inf
    for _ in range(500):
        mixture = likely @ weights
        value = float(np.log(mixture).sum())
        if value - before < 1e-3:
            break
        before = value
        weights = weights * (likely / mixture[:, None]).mean(axis=0)
    return value + float(top.sum()), weights


def _posterior(runs: _Runs, count: int, best: Fit, rates: Floats, weights: Floats) -> Floats:
    """Return the mean rate of each element, given its runs."""
    law = _likely("periodic", 1.0) if best.name == "periodic" else best.law
    table = np.zeros((count, rates.size))
    for k, rate in enumerate(rates):
        table[:, k] = np.bincount(runs.element, runs.likelihood(law, np.array([rate]))[:, 0], count)
    with np.errstate(divide="ignore"):
        table += np.log(weights)
    likely = np.exp(table - table.max(axis=1, keepdims=True))
    return likely @ rates / likely.sum(axis=1)


def _distance(law: Process, elapsed: Floats, changed: NDArray[np.bool_]) -> float:
    """Return the largest excess of changes seen, over polls after at most so long, per poll of all."""
    order = np.argsort(elapsed, kind="stable")
    excess = np.cumsum(changed[order] - law.residual_cdf(elapsed[order]))
    last = np.append(np.diff(elapsed[order]) > 0, True)  # of those equally long
    return float(np.abs(excess[last]).max() / elapsed.size)
