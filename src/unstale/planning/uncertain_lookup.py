"""A table of frequencies for uncertain rates: where to begin, so that one step of Newton's is enough.

An element of shape ``a`` and scale ``s`` asks at a price for the interval ``v / s`` whose worth is ``level``,
the price times ``size * s / weight`` (for age times another ``s``). With ``b = 1 / (1 + a)`` between 0 and 1,
which is 0 for Poisson changes, and

    psi = b / v      as a function of      q = level / (b (1 - b)),  for age  level / (b^2 (1 - b)),

all shapes look alike: psi is about a power of q, and the frequency is ``s * psi / b``. Freshness saturates
for a > 1, where no interval is worth ``share = (a - 1) level >= 1``; from ``share = 1/2`` on ``1 - share``
takes the place of q. The table holds psi as polynomials of degree 3 in both directions, on pieces that are
found from the leading bits of q and from b. Their relative error is mostly below 1e-6; pieces where it is
above 1e-3 are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import kernels, uncertain_kernels
from ..arguments import Floats

PIECE_BITS = 3
COLUMNS = 32
_SHIFT = 52 - PIECE_BITS
_DEGREE = 3
_CLOSE = 1e-3


class UncertainLookup(NamedTuple):
    """A table, as compiled code takes it."""

    rows: Floats
    """Sixteen coefficients for each piece, by pieces of q and then by columns; a last row of zeros."""
    first: int
    """Piece number of q that comes first."""
    pieces: int
    """How many pieces of q there are."""
    second: int
    """Piece number of 1 - share that comes first."""
    rest: int
    """How many of them there are; 0 for objectives that do not saturate."""
    kind: int


@cache
def uncertain_lookup(kind: int) -> UncertainLookup:
    """Build the table of an objective with a kernel (a tenth of a second, once)."""
    saturates = kind == kernels.FRESHNESS
    first, last = ((1023 + power) << PIECE_BITS for power in (-30, 8 if saturates else 24))
    second, end = ((1023 + power) << PIECE_BITS for power in (-24, -1))

    def level(q: Floats, b: Floats) -> Floats:
        level = q * b * (1.0 - b)
        return level * b if kind == kernels.AGE else level

    def plain(q: Floats, b: Floats) -> Floats:
        return uncertain_kernels.inverse_worth(kind, kernels.FIXED, 1.0 / b - 1.0, level(q, b))

    def saturated(left: Floats, b: Floats) -> Floats:
        shape = np.maximum(1.0 / b - 1.0, 1.0 + 1e-9)
        return np.where(b < 0.5, uncertain_kernels.inverse_saturated(shape, left), np.inf)

    with np.errstate(all="ignore"):
        rows = [_fitted(np.arange(first, last), plain)]
        if saturates:
            rows.append(_fitted(np.arange(second, end), saturated))
    rows.append(np.zeros((1, (_DEGREE + 1) ** 2)))
    rest = end - second if saturates else 0
    return UncertainLookup(np.concatenate(rows), first, last - first, second, rest, kind)


def _fitted(pieces: NDArray[np.int64], interval: Callable[[Floats, Floats], Floats]) -> Floats:
    """Fit b/interval on each piece through Chebyshev points; zeros where that is not good enough."""
    low, high = ((pieces + i << _SHIFT).view(np.float64) for i in (0, 1))
    nodes = np.cos(np.pi * (np.arange(_DEGREE + 1) + 0.5) / (_DEGREE + 1))
    between = np.array([-1.0, -0.4, 0.4, 1.0])

    def values(at: Floats) -> Floats:
        q = (0.5 * (low + high)[:, None] + 0.5 * (high - low)[:, None] * at)[:, None, :, None]
        b = ((np.arange(COLUMNS)[:, None] + 0.5 + 0.5 * at) / COLUMNS)[None, :, None, :]
        b = np.clip(b, 1e-9, 1.0 - 1e-9)
        return b / interval(q, b)

    back = np.linalg.inv(np.vander(nodes, increasing=True))
    fit = np.einsum("ki,pcij,lj->pckl", back, values(nodes), back)
    powers = np.vander(between, _DEGREE + 1, increasing=True)
    true, found = values(between), np.einsum("pckl,ik,jl->pcij", fit, powers, powers)
    good = (np.abs(found - true) <= _CLOSE * true).all(axis=(2, 3)) & (true > 1e-12).all(axis=(2, 3))
    return np.where(good[:, :, None, None], fit, 0.0).reshape(pieces.size * COLUMNS, -1)
