"""A table of frequencies: what an element asks for at a price, without solving for it.

For Poisson changes and a compiled objective the frequency at a price is ``rate * phi(x)`` with one number
``x = price * a``, where ``a`` is ``size * rate / weight`` (for age times another ``rate``), and ``phi = 1/r``
for the interval ``r`` that is worth ``x``. The table holds ``phi`` as polynomials of degree 4 in ``x``, or in
``1 - x`` where freshness saturates. A piece is found from the exponent and the leading bits of the number
itself: 64 pieces for each power of two, which leaves a relative error below 1e-12.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from .. import kernels
from ..arguments import Floats

PIECE_BITS = 6
_SHIFT = 52 - PIECE_BITS
_DEGREE = 4
_FIRST_POWER = -40
SMALLEST = 2.0**_FIRST_POWER
"""The table begins here, and ends at 2**40 or, for freshness, where 1 - x is one rounding error."""

FIT_END, FIT_CENTRE = 0.98 / 0.02, 2.4


class Lookup(NamedTuple):
    """A table, as compiled code takes it."""

    rows: Floats
    """Centre of the piece, five coefficients, two that fill the cache line; a last row of zeros."""
    turn: float
    """From here on 1 - x is looked up instead of x; inf for objectives that do not saturate."""
    first: int
    """Piece number of x that has row 0."""
    second: int
    """What to add to the piece number of 1 - x to have its row."""
    kind: int
    order: int
    error: float
    """How far, relatively, the worth of what is looked up is from x at most."""


@cache
def lookup(kind: int, order: int) -> Lookup:
    """Build the table for an objective with a kernel and an order (some milliseconds, once)."""
    saturates = kind == kernels.FRESHNESS
    first = (1023 + _FIRST_POWER) << PIECE_BITS
    below = np.arange(first, (1022 if saturates else 1023 - _FIRST_POWER) << PIECE_BITS)
    rows = [_fitted(below, lambda x: kernels.inverse_worth(kind, order, x))]
    rest = (1023 - 53) << PIECE_BITS
    if saturates:
        rows.append(
            _fitted(np.arange(rest, (1022 << PIECE_BITS) + 1), lambda y: kernels.inverse_saturated(order, y))
        )
    error = max(_error(own, kind, order, saturated=i > 0) for i, own in enumerate(rows))
    rows.append(np.zeros((1, 8)))
    return Lookup(
        rows=np.concatenate(rows),
        turn=0.5 if saturates else np.inf,
        first=first,
        second=below.size - rest,
        kind=kind,
        order=order,
        error=error,
    )


def _fitted(pieces: NDArray[np.int64], interval: Callable[[Floats], Floats]) -> Floats:
    """Fit 1/interval on each piece through the five Chebyshev points."""
    low, high = ((pieces + i << _SHIFT).view(np.float64) for i in (0, 1))
    centre, half = 0.5 * (low + high), 0.5 * (high - low)
    nodes = np.cos(np.pi * (np.arange(_DEGREE + 1) + 0.5) / (_DEGREE + 1))
    powers = np.linalg.inv(np.vander(nodes, increasing=True)).T
    values = 1.0 / interval(centre[:, None] + half[:, None] * nodes)
    rows = np.zeros((pieces.size, 8))
    rows[:, 0] = centre
    rows[:, 1 : _DEGREE + 2] = values @ powers / half[:, None] ** np.arange(_DEGREE + 1)
    return rows


def _error(rows: Floats, kind: int, order: int, *, saturated: bool) -> float:
    """The largest relative error of worths, by trial: between the points of the fit, where it is largest."""
    centre = rows[:, :1]
    half = np.ldexp(1.0, np.frexp(centre)[1] - 2 - PIECE_BITS)
    u = half * np.cos(np.pi * np.arange(_DEGREE + 2) / (_DEGREE + 1)) * (1.0 - 1e-9)
    phi = rows[:, 1:2] + u * (rows[:, 2:3] + u * (rows[:, 3:4] + u * (rows[:, 4:5] + u * rows[:, 5:6])))
    x = 1.0 - (centre + u) if saturated else centre + u
    return float(np.abs(kernels.worth(kind, order, 1.0 / phi) / x - 1.0).max())


def fitted_freshness(degree: int = 27) -> tuple[tuple[float, float], tuple[float, ...], tuple[float, ...]]:
    """Fit ``t * phi`` of freshness in fixed order for ``t**2 = x / (1 - x)`` up to `FIT_END`.

    Returns ``a`` and ``b``, so that ``z = a - b / (t + FIT_CENTRE)`` is between -1 and 1, and the even and
    the odd coefficients of a polynomial in ``z``. It is good to a relative 1e-13, of degree 15 to 2e-8.
    """
    a = 2.0 * (1.0 + FIT_CENTRE / np.sqrt(FIT_END)) - 1.0
    b = (a + 1.0) * FIT_CENTRE
    z = chebyshev.chebpts1(64)
    t = b / (a - z) - FIT_CENTRE
    low, high = t[t < 1.0] ** 2, t[t >= 1.0] ** 2
    r = np.concatenate(
        [
            kernels.inverse_worth(kernels.FRESHNESS, kernels.FIXED, low / (1.0 + low)),
            kernels.inverse_saturated(kernels.FIXED, 1.0 / (1.0 + high)),
        ]
    )
    fit = chebyshev.cheb2poly(chebyshev.chebfit(z, t / r, degree)).tolist()
    return (float(a), float(b)), tuple(fit[::2]), tuple(fit[1::2])
