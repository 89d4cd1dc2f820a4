"""Compiled kernels: exponentials, and what is left of them after their first terms, with all digits.

These are the functions of `kernels` for fixed order, by which all others are written: p1, p2, p3, q1, q2 and
h2. There are an exponential and a logarithm, too, that compilers vectorise.
"""

import math

import numpy as np
from numba import njit


def _over_factorial(values):
    """Divide the k-th value by k! (as exact integers until the division)."""
    return tuple(value / math.factorial(k) for k, value in values)


# exp(-r) * sum(c_k r^k / k!, k >= first): positive terms, complete to 1 ulp below r = 2
_P2_SERIES = _over_factorial((k, 1) for k in range(2, 29))
_P3_SERIES = _over_factorial((k, 1) for k in range(3, 29))
_Q1_SERIES = _over_factorial((k, k - 1) for k in range(2, 29))
_Q2_SERIES = _over_factorial((k, (k - 1) * (k - 2) // 2) for k in range(3, 29))
_H2_SERIES = _over_factorial((k, k * (k - 1) // 2 - 1) for k in range(3, 29))


@njit
def _horner(coefficients, x):
    total = 0.0
    for i in range(len(coefficients) - 1, -1, -1):
        total = total * x + coefficients[i]
    return total


_PER_LOG2 = 1.0 / math.log(2.0)
_LOG2_HIGH, _LOG2_LOW = 0.6931471803691238, 1.9082149292705877e-10  # log(2), so that k * high is exact
_EXP = tuple(1.0 / math.factorial(k) for k in range(12))  # complete for |u| <= log(2)/2
_ATANH = tuple(1.0 / (2 * k + 1) for k in range(11))
_ROOT_HALF = np.float64(math.sqrt(0.5)).view(np.uint64)


@njit(inline="always")
def _decay(t):
    """exp(-t) for t >= 0, so that the compiler can vectorise it: 2^-k exp(u)."""
    t = min(t, 700.0)
    k = math.floor(t * _PER_LOG2 + 0.5)
    u = (k * _LOG2_HIGH - t) + k * _LOG2_LOW
    return np.int64((1023 - np.int64(k)) << 52).view(np.float64) * _horner(_EXP, u)


@njit(inline="always")
def _log1p(v):
    """Logarithm of 1 + v for v >= 0, likewise."""
    bits = np.float64(1.0 + v).view(np.uint64)
    k = (bits - _ROOT_HALF) >> np.uint64(52)
    f = np.uint64(bits - (k << np.uint64(52))).view(np.float64) - 1.0
    f = v if v < 0.4 else f  # with all its digits
    s = f / (2.0 + f)
    return np.float64(np.int64(k)) * math.log(2.0) + 2.0 * s * _horner(_ATANH, s * s)


@njit
def _p1(r):
    return -math.expm1(-r)


@njit
def _p2(r):
    if r < 1.0:
        return math.exp(-r) * r * r * _horner(_P2_SERIES, r)
    return 1.0 if r > 800.0 else 1.0 - (1.0 + r) * math.exp(-r)


@njit
def _p3(r):
    if r < 2.0:
        return math.exp(-r) * r * r * r * _horner(_P3_SERIES, r)
    return 1.0 if r > 800.0 else 1.0 - (1.0 + r * (1.0 + 0.5 * r)) * math.exp(-r)


@njit
def _q1(r):
    if r < 1.0:
        return math.exp(-r) * r * r * _horner(_Q1_SERIES, r)
    return r - _p1(r)


@njit
def _q2(r):
    if r < 2.0:
        return math.exp(-r) * r * r * r * _horner(_Q2_SERIES, r)
    return 0.5 * r * r - r + _p1(r)


@njit
def _h2(r):
    if r < 2.0:
        return math.exp(-r) * r * r * r * _horner(_H2_SERIES, r)
    return 0.5 * r * r - _p2(r)


@njit
def _mean_survival(r):
    """(1 - exp(-r)) / r, the fixed-order freshness."""
    return 1.0 if r == 0.0 else -math.expm1(-r) / r
