"""Which law do the changes follow? Fits of all, and a criterion that chooses.

The criterion is Schwarz's (BIC) with the correction for few observations, n/(n-k-1) (McQuarrie 1999): minus
twice the log-likelihood plus k log(n) n/(n-k-1), k parameters and n gaps that have ended (Volinsky & Raftery
2000). Poisson changes are a special case of three of the laws, and an unneeded shape costs more in planning
than it gains; Akaike's criterion would see one in 16 % of Poisson histories, however long. Exp(-criterion/2),
divided by the sum over laws, is about the probability of each law, if all were as likely before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unstale.arguments import Floats, choice, scalar
from unstale.errors import InvalidInput
from unstale.estimation.poll_columns import column
from unstale.processes import Process

from .maximum_likelihood import LIKELIEST, Likeliest

LAWS = tuple(LIKELIEST)
"""Names of the laws that can be fitted."""
_SHORTEST_GAP = 1e-300
"""Shorter gaps have no rate that is a number."""
_LEAST_SPREAD = 1e-3
_LEAST_GAP_SHARE = 1e-12  # of the mean gap: anything shorter counts as that


@dataclass(frozen=True)
class Fit:
    """One law, fitted."""

    name: str
    law: Process
    log_likelihood: float
    parameters: int
    criterion: float
    """The less, the better."""
    weight: float
    """About the probability of this law among those that were tried."""
    distance: float
    """Largest difference between the share of gaps at most so long and what the law says of it."""


@dataclass(frozen=True, eq=False)
class Fits:
    """Laws fitted to the same gaps or polls, best first."""

    fits: tuple[Fit, ...]
    observations: int
    """Gaps that ended."""
    rate: float
    """Changes per unit time as counted, whatever the law (as seen, if there are only polls)."""
    elements: NDArray[np.int64] | None = None
    """Numbers of the elements of a class; its laws are in units of each element's mean gap."""
    rates: Floats | None = None
    """Rate of each of them: element i changes by ``law.at_rate(rates[i])``."""

    @property
    def best(self) -> Fit:
        """The fit that the criterion chooses."""
        return self.fits[0]

    @property
    def law(self) -> Process:
        """The law of the best fit."""
        return self.best.law

    def __len__(self) -> int:
        return len(self.fits)

    def __iter__(self) -> Iterator[Fit]:
        return iter(self.fits)

    def __getitem__(self, name: str) -> Fit:
        return next(one for one in self.fits if one.name == choice("name", name, [f.name for f in self.fits]))


def fit(
    gaps: ArrayLike,
    *,
    censored: ArrayLike = (),
    laws: Iterable[str] = LAWS,
    resolution: float | None = None,
) -> Fits:
    """Fit laws to gaps between changes by maximum likelihood, and choose one.

    A gap below 1e-300 is one of 0. Gaps that vary by less than a tenth of their mean are periodic as far as
    that is likeliest.

    Parameters
    ----------
    gaps
        Times between changes.
    censored
        Gaps that have not ended: the time from the last change to the end of observation.
    laws
        Names of the laws to fit.
    resolution
        Differences below it mean nothing: a gap of 0 counts as half of it, and no law is sharper. By default
        a gap of 0 counts as half the smallest above, and no law is sharper than a thousandth of its mean.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> fit(rng.exponential(2.0, size=300)).best.name
    'poisson'
    >>> found = fit(rng.weibull(0.5, size=300))
    >>> found.best.name, round(float(found.law.shape), 1)
    ('weibull', 0.5)
    """
    values = column("gaps", gaps, at_least=0, at_most=1e290, nonempty=True)
    unended = column("censored", censored, at_least=0, at_most=1e290)
    names = named_laws(laws)
    values = np.where(values < _SHORTEST_GAP, 0.0, values)
    if not values.max() > 0:
        raise InvalidInput(f"gaps must not all be 0 (or below {_SHORTEST_GAP:g}); give at least one above")
    unended = unended[unended >= _SHORTEST_GAP]
    top = max(float(values.max()), float(unended.max(initial=0.0)))
    unit = (
        float((values / top).sum() + (unended / top).sum()) / values.size * top
    )  # the mean, without overflow
    sharpest = _LEAST_SPREAD
    if resolution is not None:
        sharpest = max(sharpest, scalar("resolution", resolution, above=0) / unit)
    y, z = (
        np.maximum(floored(values, resolution) / unit, _LEAST_GAP_SHARE),
        np.maximum(unended / unit, _LEAST_GAP_SHARE),
    )
    found = []
    for name in names:
        if name == "poisson" or y.size > len(_parameters(name)) + 1:
            one = LIKELIEST[name](y, z, sharpest)
            found.append(
                Candidate(
                    name,
                    one.law.at_rate(one.law.rate / unit),
                    one.log_likelihood - y.size * np.log(unit),
                    len(_parameters(name)),
                    _distance(one, y, z),
                )
            )
    return Fits(chosen(found, y.size), y.size, y.size / (y.sum() + z.sum()) / unit)


def named_laws(laws: Iterable[str]) -> tuple[str, ...]:
    """Return names of laws, the simple ones first; Poisson is always among them, to compare with."""
    if isinstance(laws, str) or not isinstance(laws, Iterable):
        raise InvalidInput(f"laws must be a list of names, such as ('poisson', 'weibull'); laws is {laws!r}")
    wanted = {choice("laws", name, LAWS) for name in laws} | {"poisson"}
    return tuple(name for name in LAWS if name in wanted)


def floored(gaps: Floats, resolution: float | None) -> Floats:
    """Replace gaps of 0 by half the resolution, or by half the smallest gap above 0."""
    least = gaps[gaps > 0].min() if resolution is None else resolution
    return np.where(gaps > 0, gaps, 0.5 * least)


def _parameters(name: str) -> tuple[str, ...]:
    return ("rate",) if name in {"poisson", "periodic"} else ("shape", "rate")


@dataclass(frozen=True)
class Candidate:
    """A law among which to choose."""

    name: str
    law: Process
    log_likelihood: float
    parameters: int
    distance: float


def chosen(found: list[Candidate], observations: int) -> tuple[Fit, ...]:
    """Weigh laws by the criterion, best first."""
    criteria = np.array([_criterion(one, observations) for one in found])
    weights = np.exp(-0.5 * (criteria - criteria.min()))
    weights /= weights.sum()
    order = np.argsort(criteria, kind="stable")
    return tuple(
        Fit(
            found[i].name,
            found[i].law,
            found[i].log_likelihood,
            found[i].parameters,
            float(criteria[i]),
            float(weights[i]),
            found[i].distance,
        )
        for i in order
    )


def _criterion(one: Candidate, n: int) -> float:
    k = one.parameters
    return float(-2.0 * one.log_likelihood + k * np.log(max(n, 1)) * n / max(n - k - 1, 1))


def _distance(one: Likeliest, gaps: Floats, censored: Floats) -> float:
    """Return the largest distance to the share of gaps at most so long (Kaplan & Meier's)."""
    from scipy import stats

    seen = stats.ecdf(stats.CensoredData(gaps, right=censored)).cdf
    expected = one.cdf(seen.quantiles)
    before = np.concatenate([[0.0], seen.probabilities[:-1]])
    return float(np.maximum(np.abs(seen.probabilities - expected), np.abs(before - expected)).max())
