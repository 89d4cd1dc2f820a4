"""Integrals that have no closed form, with a stated error.

SciPy's tanh-sinh rule, which takes infinite limits and singular ends, applied piece by piece between the
points where the integrand has a kink. Anything that does not reach the stated error is an error, never a
number.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .arguments import Floats, unwrap
from .errors import NoAnswer

ERROR: Final = 1e-10
"""Relative error that is promised (what is reached is usually 1e-14)."""


def integrate(
    integrand: Callable[[Floats], Floats], low: float, high: float, kinks: Floats | None = None
) -> float:
    """Integrate a non-negative function from ``low`` to ``high``, possibly infinite; inf if that diverges.

    >>> round(integrate(lambda x: np.exp(-x), 0, np.inf), 12)
    1.0
    """
    return float(integrate_to(lambda x, _: integrand(x), low, np.asarray(high, float), kinks, level=4))


def integrate_to(
    integrand: Callable[[Floats, Floats], Floats],
    low: float,
    high: Floats,
    kinks: Floats | None = None,
    *,
    level: int = 3,
) -> Floats:
    """Integrate ``integrand(x, high)`` over x from ``low`` to each of many upper limits.

    >>> integrate_to(lambda x, high: high - x, 0.0, np.array([1.0, 2.0])).round(12).tolist()
    [0.5, 2.0]
    """
    from scipy import integrate as rules  # slow to import, rarely needed

    def rule(
        function: Callable[..., Floats], args: tuple[Floats, ...], end: Floats | float
    ) -> tuple[Floats, Floats]:
        # at low levels two sums may agree by chance
        found = rules.tanhsinh(function, 0.0, end, args=args, rtol=1e-13, minlevel=level)
        return found.integral, found.error

    tops = np.ravel(high)
    start, width, owner = _pieces(low, tops, np.empty(0) if kinks is None else np.unique(kinks))
    bounded = np.isfinite(width)
    wide = bounded & (start > 0) & (width > 100.0 * start)
    total, error = np.zeros(tops.shape), np.zeros(tops.shape)
    with np.errstate(all="ignore"):  # the rule probes the ends, where infinities are legitimate
        for part, integrated in ((bounded & ~wide, _across), (wide, _over_decades), (~bounded, _to_infinity)):
            if part.any():
                value, miss = integrated(integrand, start[part], width[part], tops[owner[part]], rule)
                np.add.at(total, owner[part], value)
                np.add.at(error, owner[part], miss)
    bad = ~(error <= ERROR * np.abs(total)) & ~(np.abs(total) < np.finfo(float).tiny)
    if bad.any():
        i = int(np.argmax(bad))
        reached = f"value {total[i]:g}, error {error[i]:g}"
        raise NoAnswer(f"an integral from {low:g} to {tops[i]:g} did not converge: {reached}")
    return total.reshape(np.shape(high))


Integrand = Callable[[Floats, Floats], Floats]
Rule = Callable[[Callable[..., Floats], tuple[Floats, ...], Floats | float], tuple[Floats, Floats]]


def _across(
    integrand: Integrand, start: Floats, width: Floats, top: Floats, rule: Rule
) -> tuple[Floats, Floats]:
    """Integrate on (0, 1), so that a piece a few ulps wide is no trouble."""
    return rule(lambda u, a, h, top: h * integrand(a + h * u, top), (start, width, top), 1.0)


def _over_decades(
    integrand: Integrand, start: Floats, width: Floats, top: Floats, rule: Rule
) -> tuple[Floats, Floats]:
    """Integrate on a logarithmic scale."""

    def density(u: Floats, start: Floats, top: Floats) -> Floats:
        x = start * np.exp(u)
        return x * integrand(x, top)

    return rule(density, (start, top), np.log1p(width / start))


def _to_infinity(
    integrand: Integrand, start: Floats, width: Floats, top: Floats, rule: Rule
) -> tuple[Floats, Floats]:
    """Integrate from each start to infinity, on the logarithmic scale that power tails need."""
    del width  # infinite
    end = 700.0  # exp(700) is near the largest float; what lies beyond is a power tail, or nothing

    def density(u: Floats, start: Floats, top: Floats) -> Floats:
        value = np.exp(u) * integrand(start + np.expm1(u), top)
        return np.where(np.isnan(value) & (u > 0.3 * end), 0.0, value)  # inf * 0, far out in a light tail

    step = 0.01 * end
    grid = np.arange(101.0) * step
    seen = np.abs(density(grid, start[:, None], top[:, None]))
    last = seen.shape[1] - 1 - np.argmax(seen[:, ::-1] > 0, axis=1)  # beyond, all is 0 or underflows
    rows = np.arange(start.size)
    first, before, final = (seen[rows, np.maximum(last - k, 0)] for k in (2, 1, 0))
    # rising where it ends: at the end of the grid, or far out where a factor underflows
    diverges = (final > 0) & (last > 0.3 * grid.size) & (final >= before)
    if diverges.all():
        return np.full(start.shape, np.inf), np.zeros(start.shape)
    integral, error = rule(density, (start, top), end)
    # a power tail that has not ended is extrapolated, as far as it is one
    open_tail = (final > 0) & (last == grid.size - 1)
    slope = np.log(before / final) / step
    tail = np.where(open_tail, final / slope, 0.0)
    bend = np.where(open_tail, np.abs(np.log(first / before) / step / slope - 1.0), 0.0)
    value = np.where(diverges, np.inf, integral + tail)
    return value, np.where(diverges, 0.0, error + tail * (bend + 1e-12))


def _pieces(low: float, tops: Floats, kinks: Floats) -> tuple[Floats, Floats, NDArray[np.intp]]:
    """Start, width and owner of the pieces into which the kinks cut each (low, top)."""
    starts, widths, owners = [], [], []
    for i, top in enumerate(tops):
        if top > low:
            ends = np.concatenate([[low], kinks[(kinks > low) & (kinks < top)], [top]])
            starts.append(ends[:-1])
            widths.append(np.diff(ends))
            owners.append(np.full(ends.size - 1, i))
    if not starts:
        return np.empty(0), np.empty(0), np.empty(0, np.intp)
    return np.concatenate(starts), np.concatenate(widths), np.concatenate(owners)


def cumulate(function: Callable[[Floats], Floats], x: Floats, kinks: Floats) -> Floats:
    """Integrate one function from 0 to each of many x, in one sweep over all of them.

    Between the x, the kinks and the powers of 2 below the largest x, a Gauss rule of 15 points; one of 10
    points gives the error.

    >>> cumulate(np.sqrt, np.array([1.0, 4.0]), np.empty(0)).round(12).tolist()
    [0.666666666667, 5.333333333333]
    """
    flat = np.ravel(x)
    finite = np.isfinite(flat)
    top = float(flat[finite].max(initial=0.0))
    bends = kinks[(kinks > 0) & (kinks < top)]
    ends = np.unique(np.concatenate([[0.0], flat[finite], bends, top * _HALVES]))
    start, width = ends[:-1], np.diff(ends)
    fine, coarse = (
        width * (function(start[:, None] + width[:, None] * nodes) @ weights)
        for nodes, weights in (_GAUSS_15, _GAUSS_10)
    )
    total, error = float(fine.sum()), float(np.abs(fine - coarse).sum())
    if not error <= ERROR * abs(total) and total != 0.0:
        reached = f"value {total:g}, error {error:g}"
        raise NoAnswer(
            f"an integral from 0 to {top:g} did not converge: {reached}; name the kinks of the function"
        )
    sums = np.concatenate([[0.0], np.cumsum(fine)])
    out = np.empty(flat.shape)
    out[finite] = sums[np.searchsorted(ends, flat[finite])]
    if not finite.all():
        out[~finite] = integrate(function, 0.0, np.inf, kinks)
    return out.reshape(np.shape(x))


def _gauss(count: int) -> tuple[Floats, Floats]:
    """Nodes and weights on (0, 1)."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return 0.5 * (nodes + 1.0), 0.5 * weights


_GAUSS_15, _GAUSS_10 = _gauss(15), _gauss(10)
_HALVES = 0.5 ** np.arange(1.0, 201.0)


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)


def integrate_pieces(function: Callable[[Floats], Floats], breaks: Floats) -> Floats:
    """Integrate many smooth functions at once, each over its own pieces, between the breaks along axis 0.

    ``function`` takes an array of points whose last axes are those of the functions. Twenty points on each
    piece are enough for all digits if the function does not change its scale by more than a few times there.

    >>> float(integrate_pieces(np.exp, np.array([0.0, 1.0, 3.0])).round(12))
    19.085536923188
    """
    breaks = np.sort(breaks, axis=0)
    shape = (-1,) + (1,) * (breaks.ndim - 1)
    points, weights = (0.5 + 0.5 * _NODES).reshape(shape), (0.5 * _WEIGHTS).reshape(shape)
    total = np.zeros(breaks.shape[1:])
    for low, high in pairwise(breaks):
        if np.any(high > low):
            total = total + (high - low) * np.sum(weights * function(low + (high - low) * points), axis=0)
    return unwrap(np.asarray(total))
