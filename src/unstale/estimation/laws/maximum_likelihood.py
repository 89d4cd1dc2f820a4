"""The likeliest law of each kind, for gaps of which some have not ended yet.

Gaps come in units of about their mean, none of them 0. No law may be sharper than ``sharpest``: its standard
deviation, over its mean, is at least that. Otherwise equal gaps would make every likelihood infinite.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike

from unstale.arguments import Floats
from unstale.processes import Gamma, Lognormal, Pareto, Periodic, Poisson, Process, Weibull

JITTER = 0.1
"""Gaps that vary by less than this share of their mean may be called periodic."""
_LEAST_PARETO_SHAPE = 1.01  # of Pareto's shapes; at 1 the mean gap is infinite


class Likeliest(NamedTuple):
    """A law, how likely it makes the gaps, and the share of gaps that it says are at most so long."""

    law: Process
    log_likelihood: float
    cdf: Callable[[Floats], Floats]


def lowest(less: Callable[[Floats], float], start: ArrayLike, tolerance: float) -> Floats:
    """Return where a function of a few numbers is least, near a start."""
    options: Any = {"xatol": tolerance, "fatol": tolerance, "maxiter": 1000}
    return scipy.optimize.minimize(less, np.asarray(start, float), method="Nelder-Mead", options=options).x


def lowest_between(
    less: Callable[[float], float], low: float, high: float, tolerance: float
) -> tuple[float, float]:
    """Return where a function of one number is least, and how much it is there."""
    options: Any = {"xatol": tolerance}
    found = scipy.optimize.minimize_scalar(less, bounds=(low, high), method="bounded", options=options)
    return float(found.x), float(found.fun)


def _of(law: Process, log_likelihood: float) -> Likeliest:
    return Likeliest(law, float(log_likelihood), lambda y: 1.0 - law.survival(y))


def _poisson(gaps: Floats, censored: Floats, sharpest: float) -> Likeliest:  # noqa: ARG001  (never sharp)
    rate = gaps.size / (gaps.sum() + censored.sum())
    return _of(Poisson(rate), gaps.size * (np.log(rate) - 1.0))


def _weibull(gaps: Floats, censored: Floats, sharpest: float) -> Likeliest:
    logs, every = np.log(gaps), np.log(np.concatenate([gaps, censored]))

    def slope(level: float) -> float:
        k = np.exp(level)
        return float(scipy.special.softmax(k * every) @ every - 1.0 / k - logs.mean())

    k = np.exp(_root(slope, np.log(0.05), np.log(1.0 / sharpest)))
    scale = np.exp((scipy.special.logsumexp(k * every) - np.log(gaps.size)) / k)
    total = gaps.size * (np.log(k) - k * np.log(scale) - 1.0) + (k - 1.0) * logs.sum()
    return _of(Weibull(k, scale), total)


def _root(increasing: Callable[[float], float], low: float, high: float) -> float:
    """Return where an increasing function is 0, or the end of the bracket nearest to that."""
    if increasing(low) >= 0:
        return low
    if increasing(high) <= 0:
        return high
    return float(scipy.optimize.brentq(increasing, low, high, xtol=1e-12))


def _gamma(gaps: Floats, censored: Floats, sharpest: float) -> Likeliest:
    mean, logs = float(gaps.mean()), float(np.log(gaps).mean())
    low, high = np.log(1e-3), -2.0 * np.log(sharpest)
    excess = np.log(mean) - logs
    start = _root(lambda u: float(excess - u + scipy.special.digamma(np.exp(u))), low, high)

    def less(at: Floats) -> float:
        k = np.exp(np.clip(at[0], low, high))
        scale = np.exp(at[1]) / k
        total = gaps.size * ((k - 1.0) * logs - mean / scale - k * np.log(scale) - scipy.special.gammaln(k))
        return -float(total + _log_longer(k, censored / scale).sum())

    at = _polished(less, [start, np.log(mean)], censored)
    k = np.exp(np.clip(at[0], low, high))
    return _of(Gamma(k, np.exp(at[1]) / k), -less(at))


def _log_longer(k: float, z: Floats) -> Floats:
    """Log of the survival of a gamma law; far out by its leading term."""
    longer = scipy.special.gammaincc(k, z)
    with np.errstate(divide="ignore"):
        far = (k - 1.0) * np.log(z) - z - scipy.special.gammaln(k)
        return np.where(longer > 1e-290, np.log(longer), far)


def _lognormal(gaps: Floats, censored: Floats, sharpest: float) -> Likeliest:
    logs, open_logs = np.log(gaps), np.log(censored)
    low, high = np.log(sharpest), np.log(12.0)

    def less(at: Floats) -> float:
        sd = np.exp(np.clip(at[1], low, high))
        total = -0.5 * (((logs - at[0]) / sd) ** 2).sum() - logs.size * (np.log(sd) + 0.5 * np.log(2 * np.pi))
        return -float(total - logs.sum() + scipy.special.log_ndtr((at[0] - open_logs) / sd).sum())

    at = _polished(less, [logs.mean(), np.log(max(logs.std(), sharpest))], censored)
    return _of(Lognormal(at[0], np.exp(np.clip(at[1], low, high))), -less(at))


def _polished(less: Callable[[Floats], float], start: list[float], censored: Floats) -> Floats:
    """Improve a start, which is the answer if all gaps have ended."""
    if not censored.size:
        return np.array(start)
    return lowest(less, start, 1e-9)


def _pareto(gaps: Floats, censored: Floats, sharpest: float) -> Likeliest:  # noqa: ARG001  (never sharp)
    every = np.concatenate([gaps, censored])

    def best(level: float) -> tuple[float, float]:
        """Return the best shape at a scale, and the log-likelihood."""
        logs = np.log1p(every / np.exp(level))
        shape = float(np.clip(gaps.size / logs.sum(), _LEAST_PARETO_SHAPE, 1e6))
        total = gaps.size * (np.log(shape) - level) - shape * logs.sum() - logs[: gaps.size].sum()
        return shape, float(total)

    ends = np.log(every.min()) - 1.0, np.log(every.max()) + 12.0
    grid = np.linspace(*ends, 100)
    peak = int(np.argmax([best(level)[1] for level in grid]))
    around = grid[max(peak - 1, 0)], grid[min(peak + 1, grid.size - 1)]
    found, _ = lowest_between(lambda u: -best(u)[1], *around, 1e-9)
    level = max((found, float(grid[peak])), key=lambda u: best(u)[1])
    shape, total = best(level)
    return _of(Pareto(shape, np.exp(level)), total)


def _periodic(gaps: Floats, censored: Floats, sharpest: float) -> Likeliest:
    """Fit normal gaps; the law keeps only their mean, as jitter is no parameter of it."""
    period = float(gaps.mean())
    sd = period * float(np.clip(gaps.std() / period, sharpest, max(JITTER, sharpest)))
    total = -0.5 * (((gaps - period) / sd) ** 2).sum() - gaps.size * (np.log(sd) + 0.5 * np.log(2 * np.pi))
    total += scipy.special.log_ndtr((period - censored) / sd).sum()
    return Likeliest(Periodic(period), float(total), lambda y: scipy.special.ndtr((y - period) / sd))


LIKELIEST: dict[str, Callable[[Floats, Floats, float], Likeliest]] = {
    "poisson": _poisson,
    "periodic": _periodic,
    "gamma": _gamma,
    "weibull": _weibull,
    "lognormal": _lognormal,
    "pareto": _pareto,
}
"""Simple ones first: of equals the first is chosen."""
