"""Compiled kernels for gaps as observed, polled in random orders.

If each of some gaps is equally likely, an element has changed after ``y`` with the probability ``G(y)``, the
rate times the mean of ``min(y, gap)``. So worth and cost in a random order are means over the gaps of one
function of ``x = gap / interval``; with ``S`` the survival of the poll interval over its mean, and ``T`` the
integral of ``S`` from ``x`` on,

    worth of freshness   rate t^2  integral of u S(u) up to x
    worth of harmonic    rate t^2  integral of min(u, x) S(u)      (staleness is that over t)
    worth of age         rate t^3  integral of u min(u, x) S(u)
    age                  rate t^2  integral of min(u, x) T(u)
"""

import math

import numpy as np
from numba import njit

from .exponential_kernels import _p1, _p2
from .kernels import AGE, FRESHNESS, HARMONIC, PURELY_RANDOM

__all__ = ["AGE_COST", "mean_over_gaps"]

AGE_COST = 3
"""The kind of the last of these functions; the others have those of their worths."""


@njit
def _exponential(kind, x):
    if kind == FRESHNESS:
        return _p2(x)
    return 2.0 * _p1(x) - x * math.exp(-x) if kind == AGE else _p1(x)


@njit
def _triangular(kind, x):
    r = 2.0 - min(x, 2.0)
    if x < 1.0:
        first, rest = x * x * (0.5 - x * x / 8.0), 1.0 - x + x**3 / 6.0
        second = x**3 * (1.0 / 3.0 - x * x / 10.0)
        lag, beyond = x * x * (0.5 - x / 3.0 + x**3 / 30.0), 7.0 / 12.0 - x + 0.5 * x * x - x**4 / 24.0
    else:
        first, rest = 7.0 / 12.0 - r**3 * (1.0 / 3.0 - r / 8.0), r**3 / 6.0
        second = 0.5 - r**3 * (2.0 / 3.0 - r * (0.5 - r / 10.0))
        lag, beyond = 0.25 - r**4 * (1.0 / 12.0 - r / 30.0), r**4 / 24.0
    if kind == FRESHNESS:
        return first
    if kind == HARMONIC:
        return first + x * rest
    return second + x * (7.0 / 12.0 - first) if kind == AGE else lag + x * beyond


@njit(cache=True, nogil=True, error_model="numpy")
def mean_over_gaps(gaps, starts, which, times, kind, order):
    """The mean of a function over the gaps of each element's law, at its interval.

    Law ``h`` has the gaps from ``starts[h]`` to ``starts[h+1]``.
    """
    out = np.empty(times.size)
    for i in range(times.size):
        h = which[i]
        total = 0.0
        for k in range(starts[h], starts[h + 1]):
            x = gaps[k] / times[i]
            total += _exponential(kind, x) if order == PURELY_RANDOM else _triangular(kind, x)
        out[i] = total / (starts[h + 1] - starts[h])
    return out
