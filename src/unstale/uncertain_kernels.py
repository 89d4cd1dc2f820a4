"""Compiled kernels for uncertain rates: what polling buys if a rate is known as a gamma distribution.

With shape ``a`` and scale ``s`` everything depends on ``a`` and ``v = s * time``. After ``v`` an element has
changed with probability ``G(v) = 1 - (1+v)^-a``. With the moments ``M_k`` (the integrals of ``y^k dG(y)``)

    worth of freshness   M_1                        staleness   G - M_1 / v
    worth of age         (v^2 G - M_2) / 2          age         v G / 2 - M_1 + M_2 / (2 v)
    worth of harmonic    v G - M_1                  harmonic    integral of G(y)/y up to v, less G - M_1 / v

in units of ``1/s``, for the worth of age of ``1/s^2``. In powers, ``M_1 = a (h(1-a) - h(-a))`` with
``h(q) = ((1+v)^q - 1) / q``, and ``M_2`` likewise. Such differences lose their digits for small ``v``, where
a series of positive terms takes their place. As ``a`` grows and the mean rate ``a s`` stays, all of them tend
to those of `kernels`. The tests hold each to 1e-12 against mpmath.

A scalar function has a leading underscore; the same name without it is a NumPy ufunc of float64.
"""

import math

import numpy as np
from numba import njit, vectorize

from .kernels import AGE, FRESHNESS, HARMONIC

__all__ = ["cost", "freshness", "inverse_saturated", "inverse_worth", "worth"]

_INF = math.inf
_TERMS = 400
_LIGHT = 2.5
"""Shape above which no power of the tail is nearly the one before."""
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_PIECE = 1.5
"""Width of what is integrated at once, on a logarithmic scale."""
_FAR = 1e3
"""From here on powers of 1/v fall off fast."""
_LARGEST = 709.0
"""Largest logarithm that is worked with."""


@njit
def _h(q, log):
    """Integral of (1+y)^(q-1) up to where log(1+y) is ``log``."""
    return math.expm1(q * log) / q if q != 0.0 else log


@njit
def _changed(a, v):
    """G(v): probability of a change."""
    return -math.expm1(-a * math.log1p(v))


@njit
def _series(k, a, v):
    """M_k for small v: a series of positive terms."""
    u = v / (1.0 + v)
    term, total = 1.0, 1.0
    for n in range(_TERMS):
        term *= (a + 1.0 + n) / (k + 2.0 + n) * u
        total += term
        if term < 1e-17 * total:
            break
    return a * v ** (k + 1) / (k + 1) * math.exp(-(a + 1.0) * math.log1p(v)) * total


@njit
def _m1(a, v):
    if v < 0.5 and a * v < 1.0:
        return _series(1, a, v)
    log = math.log1p(v)
    if a > _LIGHT:
        tail = math.exp(-a * log)
        return (1.0 - ((1.0 + a * v) * tail if tail > 0.0 else 0.0)) / (a - 1.0)
    return a * (_h(1.0 - a, log) - _h(-a, log))


@njit
def _m2(a, v):
    if v < 0.5 and a * v < 2.0:
        return _series(2, a, v)
    log = math.log1p(v)
    if a > _LIGHT:
        tail = math.exp(-a * log)
        rest = (1.0 + a * v * (1.0 + 0.5 * (a - 1.0) * v)) * tail if tail > 0.0 else 0.0
        return 2.0 * (1.0 - rest) / ((a - 1.0) * (a - 2.0))
    return a * (_h(2.0 - a, log) - 2.0 * _h(1.0 - a, log) + _h(-a, log))


@njit
def _worth(kind, a, v):
    """Worth of a poll at interval v, times scale (freshness, harmonic) or scale**2 (age)."""
    if v == _INF:  # compiled code divides first and chooses then: never by zero
        return 1.0 / max(a - 1.0, 1e-300) if kind == FRESHNESS and a > 1.0 else _INF
    if kind == FRESHNESS:
        return _m1(a, v)
    if kind == HARMONIC:
        return v * _changed(a, v) - _m1(a, v)
    if v > 1e150:  # its square is beyond the floats
        return _INF
    return 0.5 * (v * v * _changed(a, v) - _m2(a, v))


@njit
def _steps(kind, a, v, value):
    """First and second derivative of log(worth) by log(v), divided by the first."""
    if kind == FRESHNESS:
        first = v * (v * (a * math.exp(-(a + 1.0) * math.log1p(v)))) / value
        return first, 2.0 - (a + 1.0) * (v / (1.0 + v)) - first
    changed = _changed(a, v)
    first = v * changed / value * (v if kind == AGE else 1.0)
    bend = v * (a * math.exp(-(a + 1.0) * math.log1p(v))) / changed
    return first, (2.0 if kind == AGE else 1.0) + bend - first


@njit
def _saturated(a, left):
    """Solve 1 - (a-1) M_1(v) = left for v, where that is small: (1 + a v) (1+v)^-a = left.

    In log(1+v) the logarithm of it is concave, so Newton's steps from beyond the solution stay there.
    """
    goal = -math.log(left)
    log = (goal + min(math.log(a), math.log1p(goal) + 1.0)) / (a - 1.0)
    for _ in range(100):
        log = min(log, _LARGEST)
        v = math.expm1(log)
        miss = a * log - math.log1p(a * v) - goal
        if log == _LARGEST and miss < 0.0:
            return _INF
        slope = a * ((a - 1.0) * v) / (1.0 + a * v)
        step = miss / slope
        log -= step
        if abs(step) < 1e-9 * log:
            break
    return math.expm1(log)


@njit
def _inverse_worth(kind, a, x):
    """Solve worth(kind, a, v) = x for v; inf where no interval is worth as much."""
    if not x > 0.0:
        return 0.0 if x == 0.0 else math.nan
    if x == _INF:
        return _INF
    if kind == FRESHNESS and a > 1.0:
        share = x * (a - 1.0)
        if share >= 1.0:
            return _INF
        if share > 0.7:
            return _saturated(a, 1.0 - share)
    return _climbed(kind, a, x, 0.0)


@njit
def _climbed(kind, a, x, start):
    """Solve worth(kind, a, v) = x by Halley's steps on logarithms, from a start if there is one.

    The logarithm of a worth is a concave function of that of time, so Newton's steps from the left never go
    too far; Halley's, or those from a start on the right, are kept inside a bracket.
    """
    goal = math.log(x)
    if start > 0.0:
        u = math.log(start)
    elif kind == AGE:  # worths are no more than a v^3 / 3 and v^2 / 2, or for the others a v^2 / 2 and v
        u = max((goal + math.log(3.0) - math.log(a)) / 3.0, 0.5 * (goal + math.log(2.0)))
    else:
        u = 0.5 * (goal + math.log(2.0) - math.log(a))
        if kind == HARMONIC:
            u = max(u, goal)
    if u < -35.0 - math.log1p(a):  # the first term of the series is all there is
        return math.exp(u)
    low, high = -_INF, _INF
    for _ in range(200):
        u = min(u, _LARGEST)
        v = math.exp(u)
        value = _worth(kind, a, v)
        miss = goal - math.log(value)
        if miss > 0.0:
            if u == _LARGEST:
                return _INF
            low = u
        else:
            high = u
        first, bend = _steps(kind, a, v, value)
        step = miss / first
        if abs(step) < 1e-5 and abs(step * bend) < 1e-3:
            # the logarithms have not all digits of their numbers
            miss = math.log1p((x - value) / value)
            step = miss / first
            return v * (1.0 + math.expm1(step / (1.0 + 0.5 * bend * step)))
        factor = 1.0 + 0.5 * bend * step
        if factor > 0.25:
            step /= factor
        if not low < u + step < high:
            if high < _INF and low > -_INF:
                step = 0.5 * (low + high) - u
            elif not abs(step) < 700.0:
                step = 1.0 if miss > 0.0 else -1.0
        if low > -_INF and high - low < 1e-15 * abs(low):
            return v
        u += step
    return math.exp(u)


@njit
def _freshness(a, v):
    """Mean of (1+y)^-a up to v."""
    if v == _INF:
        return 0.0
    if v < 1e-8:
        return 1.0 - 0.5 * a * v if a * v < 1e-8 else -math.expm1((1.0 - a) * math.log1p(v)) / ((a - 1.0) * v)
    return _h(1.0 - a, math.log1p(v)) / v


@njit
def _harmonic(a, v):
    """Integral of G(y)/y up to v."""
    near = min(v, 0.05 / (a + 1.0))
    total, term = 0.0, -1.0
    for n in range(1, 30):  # of the series of (1+y)^-a
        term *= -(a + n - 1.0) / n * near
        total += term / n
        if abs(term) < 1e-18:
            break
    if v <= near:
        return total
    full = min(v, math.expm1(50.0 / a)) if a > 0.08 else v  # beyond, G is 1
    top = min(full, _FAR)
    if top > near:
        begin, end = math.log(near), math.log(top)
        pieces = int((end - begin) / _PIECE) + 1
        half = 0.5 * (end - begin) / pieces
        for i in range(pieces):
            middle = begin + (2 * i + 1) * half
            for j in range(_NODES.size):
                total += half * _WEIGHTS[j] * _changed(a, math.exp(middle + half * _NODES[j]))
    if full > _FAR:  # 1 - y^-a (1 + 1/y)^-a, as powers of y
        begin, end = math.log(_FAR), math.log(full)
        total += end - begin
        factor = 1.0
        for n in range(8):
            total -= factor * math.exp(-(a + n) * begin) * -math.expm1(-(a + n) * (end - begin)) / (a + n)
            factor *= -(a + n) / (n + 1.0)
    return total + (math.log(v / full) if v > full else 0.0)


@njit
def _cost(kind, a, v):
    """Mean cost at intervals v: staleness and harmonic as they are, age times scale."""
    if v == 0.0:
        return 0.0
    if v == _INF:
        return 1.0 if kind == FRESHNESS else _INF
    if kind != AGE:
        stale = _changed(a, v) - _m1(a, v) / v if v > 1e-100 else 0.5 * a * v
        return stale if kind == FRESHNESS else _harmonic(a, v) - stale
    if v > 1e100:  # a square would be beyond the floats
        rest = a * math.exp((1.0 - a) * math.log(v)) / (2.0 - a) if a < 1.5 else 0.0
    else:
        rest = _m2(a, v) / v
    return 0.5 * (v * _changed(a, v) + rest) - _m1(a, v)


# --- ufuncs ----------------------------------------------------------------------------------------


@vectorize(cache=True)
def worth(kind, shape, v):
    """Worth at interval v for FRESHNESS, AGE or HARMONIC, in units of 1/scale or 1/scale**2."""
    return _worth(kind, shape, v)


@vectorize(cache=True)
def inverse_worth(kind, shape, x):
    """Interval v at which the worth reaches x; inf where it never does."""
    return _inverse_worth(kind, shape, x)


@vectorize(cache=True)
def inverse_saturated(shape, left):
    """Interval v at which freshness is worth a share of 1 - left of its limit, for shapes above 1."""
    return _saturated(shape, left)


@vectorize(cache=True)
def freshness(shape, v):
    """Mean freshness at intervals v, to full relative precision where it is small."""
    return _freshness(shape, v)


@vectorize(cache=True)
def cost(kind, shape, v):
    """Mean cost at intervals v, for age in units of 1/scale."""
    return _cost(kind, shape, v)
