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

In random orders nothing improves what is looked up, so the table holds ``log(psi sqrt(q))``, and beside the
coefficients of a piece how far it is from the truth by trial, mostly 3e-6.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import kernels, uncertain_kernels
from ..arguments import Floats

PIECE_BITS, RANDOM_BITS = 3, 2
COLUMNS = 32
_DEGREE = 3
_CLOSE_RELATIVE = 1e-3


class UncertainLookup(NamedTuple):
    """A table, as compiled code takes it."""

    rows: Floats
    """Sixteen coefficients for each piece, by pieces of q and then by columns; a last row of zeros.
    In random orders a seventeenth number is the error of the piece."""
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
def uncertain_lookup(kind: int, order: int) -> UncertainLookup:
    """Build the table of an objective with a kernel (a tenth of a second, in random orders half a one)."""
    saturates, bits = kind == kernels.FRESHNESS, PIECE_BITS if order == kernels.FIXED else RANDOM_BITS
    first, last = ((1023 + power) << bits for power in (-30, 8 if saturates else 24))
    second, end = ((1023 + power) << bits for power in (-24, -1))

    def plain(q: Floats, b: Floats) -> Floats:
        level = q * b * (1.0 - b) * (b if kind == kernels.AGE else 1.0)
        if order != kernels.FIXED and saturates:  # beyond, the other part of the table has it
            level = np.where((1.0 / b - 2.0) * level < 0.75, level, np.inf)
        return uncertain_kernels.inverse_worth(kind, order, 1.0 / b - 1.0, level)

    def saturated(left: Floats, b: Floats) -> Floats:
        shape = np.maximum(1.0 / b - 1.0, 1.0 + 1e-9)
        if order == kernels.FIXED:
            return np.where(b < 0.5, uncertain_kernels.inverse_saturated(shape, left), np.inf)
        level = np.where(b < 0.49, (1.0 - left) / (shape - 1.0), np.inf)
        return uncertain_kernels.inverse_worth(kind, order, shape, level)

    with np.errstate(all="ignore"):
        rows = [_fitted(np.arange(first, last), bits, order, plain, 0.5)]
        if saturates:
            rows.append(_fitted(np.arange(second, end), bits, order, saturated, -0.5))
    rows.append(np.zeros((1, rows[0].shape[1])))
    rest = end - second if saturates else 0
    return UncertainLookup(np.concatenate(rows), first, last - first, second, rest, kind)


def _fitted(
    pieces: NDArray[np.int64],
    bits: int,
    order: int,
    interval: Callable[[Floats, Floats], Floats],
    power: float,
) -> Floats:
    """Fit b/interval on each piece through Chebyshev points; zeros where that is not good enough.

    In random orders, fit the logarithm of that times q to a power.
    """
    low, high = ((pieces + i << 52 - bits).view(np.float64) for i in (0, 1))
    nodes = np.cos(np.pi * (np.arange(_DEGREE + 1) + 0.5) / (_DEGREE + 1))
    between = np.array([-1.0, -0.4, 0.4, 1.0] if order == kernels.FIXED else [-1.0, 0.0, 0.7])

    def values(at: Floats) -> Floats:
        q = (0.5 * (low + high)[:, None] + 0.5 * (high - low)[:, None] * at)[:, None, :, None]
        b = ((np.arange(COLUMNS)[:, None] + 0.5 + 0.5 * at) / COLUMNS)[None, :, None, :]
        b = np.clip(b, 1e-9, 1.0 - 1e-9)
        psi = b / interval(q, b)
        return psi if order == kernels.FIXED else np.log(psi * q**power)

    back = np.linalg.inv(np.vander(nodes, increasing=True))
    fit = np.einsum("ki,pcij,lj->pckl", back, values(nodes), back)
    powers = np.vander(between, _DEGREE + 1, increasing=True)
    true, found = values(between), np.einsum("pckl,ik,jl->pcij", fit, powers, powers)
    off = np.abs(found - true)
    flat = fit.reshape(*fit.shape[:2], -1)
    if order == kernels.FIXED:
        good = (off <= _CLOSE_RELATIVE * true).all(axis=(2, 3)) & (true > 1e-12).all(axis=(2, 3))
    else:
        worst = off.max(axis=(2, 3))
        good, flat = worst <= _CLOSE_RELATIVE, np.concatenate([flat, worst[:, :, None]], axis=2)
    return np.where(good[:, :, None], flat, 0.0).reshape(pieces.size * COLUMNS, -1)
