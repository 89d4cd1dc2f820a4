"""Compiled kernels for uncertain rates: what polling buys if a rate is known as a gamma distribution.

With shape ``a`` and scale ``s`` everything depends on ``a`` and ``v = s * time``. After ``v`` an element has
changed with probability ``G(v) = 1 - (1+v)^-a``. With the moments ``M_k`` (the integrals of ``y^k dG(y)``)

    worth of freshness   M_1                        staleness   G - M_1 / v
    worth of age         (v^2 G - M_2) / 2          age         v G / 2 - M_1 + M_2 / (2 v)
    worth of harmonic    v G - M_1                  harmonic    integral of G(y)/y up to v, less G - M_1 / v

in units of ``1/s``, for the worth of age of ``1/s^2``. In powers, ``M_1 = a (h(1-a) - h(-a))`` with
``h(q) = ((1+v)^q - 1) / q``, and ``M_2`` likewise. Such differences lose their digits for small ``v``, where
a series of positive terms takes their place. As ``a`` grows and the mean rate ``a s`` stays, all of them tend
to those of `kernels`.

In random orders the interval is ``v V`` with ``V`` as in `kernels`. With its survival ``S``, the integral
``T`` of ``S`` from ``x`` on, and the slope ``w`` of the worth (``y G'``, ``y G`` and ``G``)

    worth   v * integral of w(v x) S(x) dx        staleness   integral of G(v x) S(x) dx
    age     v * integral of G(v x) T(x) dx        harmonic    integral of G(v x) T(x) / x dx

by the trapezoidal rule on a logarithmic scale, which converges as fast as the integrands are analytic. The
triangular ``S = (2-x)^2 / 2 - (1-x)^2``, each where its base is positive, is two integrals over (0, 1).

The tests hold each to 1e-12 against mpmath.

A scalar function has a leading underscore; the same name without it takes arrays of float64, as a
NumPy ufunc does (see `elementwise`).
"""

import math

import numpy as np
from numba import njit

from .elementwise import elementwise
from .exponential_kernels import _decay, _horner, _log1p
from .kernels import AGE, FIXED, FRESHNESS, HARMONIC, PURELY_RANDOM, RANDOM

__all__ = ["cost", "freshness", "inverse_conditional", "inverse_saturated", "inverse_worth", "worth"]

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
_STEP = 0.25
"""Of the trapezoidal rule, on a logarithmic scale."""
_REACH = 19.0
"""Left of their bulk, integrands fall with the square of x: after so many logarithms nothing is left."""
_FIRST_NODE = -700.0
_EXPONENTIAL_X = np.exp(np.arange(_FIRST_NODE, 4.0, _STEP))
_EXPONENTIAL_WEIGHT = _STEP * _EXPONENTIAL_X * np.exp(-_EXPONENTIAL_X)
_EXPONENTIAL_RISE = _EXPONENTIAL_WEIGHT * _EXPONENTIAL_X
_LOGIT = np.arange(_FIRST_NODE, 13.0, _STEP)
_UNIT_X, _UNIT_REST = 1.0 / (1.0 + np.exp(-_LOGIT)), 1.0 / (1.0 + np.exp(_LOGIT))
_UNIT_WEIGHT = _STEP * _UNIT_X * _UNIT_REST
_SQUARED, _CUBED = _UNIT_WEIGHT * _UNIT_REST**2, _UNIT_WEIGHT * _UNIT_REST**3
_TURNED = 2.0 * _UNIT_WEIGHT * _UNIT_X * _UNIT_REST
_MEAN_SURVIVAL = tuple((-1) ** k / math.factorial(k + 1) for k in range(12))
_SLOPE, _CHANGED, _LEFT, _PER_TIME = 0, 1, 2, 3
"""What is integrated: the slope of the worth of freshness, G, 1 - G, and G over the time."""


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


@njit
def _inverse_worth(kind, order, a, x):
    """Solve worth(kind, order, a, v) = x for v; inf where no interval is worth as much."""
    if not x > 0.0:
        return 0.0 if x == 0.0 else math.nan
    if x == _INF:
        return _INF
    if kind == FRESHNESS and a > 1.0:
        share = x * (a - 1.0)
        if share >= 1.0:
            return _INF
        if share > 0.7 and order == FIXED:
            return _saturated(a, 1.0 - share)
    return _climbed(kind, order, a, x)


@njit
def _climbed(kind, order, a, x):
    """Solve worth(kind, order, a, v) = x by Halley's steps on logarithms, in random orders by Newton's.

    The logarithm of a worth is a concave function of that of time, so Newton's steps from the left never go
    too far; Halley's are kept inside a bracket.
    """
    goal = math.log(x)
    square, cube = _moments(order)
    if kind == AGE:  # worths are no more than a v^3 / 3 and v^2 / 2, or for the others a v^2 / 2 and v
        u = max((goal + math.log(3.0 / cube) - math.log(a)) / 3.0, 0.5 * (goal + math.log(2.0 / square)))
    else:
        u = 0.5 * (goal + math.log(2.0 / square) - math.log(a))
        if kind == HARMONIC:
            u = max(u, goal)
    if u < -35.0 - math.log1p(a):  # the first term of the series is all there is
        return math.exp(u)
    short = 1e-5 if order == FIXED else 1e-7
    low, high = -_INF, _INF
    for _ in range(200):
        u = min(u, _LARGEST)
        v = math.exp(u)
        if order == FIXED:
            value = _worth(kind, a, v)
            first, bend = _steps(kind, a, v, value)
        else:
            value, first = _worth_and_growth(kind, order, a, v)
            bend = 0.0
        miss = goal - math.log(value)
        if miss > 0.0:
            if u == _LARGEST:
                return _INF
            low = u
        else:
            high = u
        step = miss / first
        if abs(step) < short and abs(step * bend) < 1e-3:
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


# --- random orders ---------------------------------------------------------------------------------


@njit
def _moments(order):
    """Second and third moment of the interval over its mean."""
    if order == FIXED:
        return 1.0, 1.0
    return (7.0 / 6.0, 1.5) if order == RANDOM else (2.0, 6.0)


@njit
def _first_node(a, v, reach):
    """Where integrands over log(x) begin to count: they rise up to x = 1 or to 1 / ((1+a) v)."""
    bulk = min(0.0, -math.log1p(a) - math.log(v))
    return max(0, int((bulk - reach - _FIRST_NODE) / _STEP))


@njit(error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def _integrate(what, a, v, x, weight, first):
    """Sum of weights times a function of a and v x."""
    total = 0.0
    if what == _SLOPE:
        for k in range(first, x.size):
            y = v * x[k]
            total += weight[k] * (y * _decay((a + 1.0) * _log1p(y)))
        return a * total
    if what == _LEFT:
        for k in range(first, x.size):
            total += weight[k] * _decay(a * _log1p(v * x[k]))
        return total
    for k in range(first, x.size):
        log = a * _log1p(v * x[k])
        small = log * _horner(_MEAN_SURVIVAL, log)
        changed = small if log < 0.1 else 1.0 - _decay(log)
        total += weight[k] * (changed / x[k] if what == _PER_TIME else changed)
    return total


@njit
def _worth_and_growth(kind, order, a, v):
    """Worth of a poll in a random order, and its derivative by log(v), divided by it."""
    first = _first_node(a, v, _REACH)
    if order == PURELY_RANDOM:
        x, weight = _EXPONENTIAL_X, _EXPONENTIAL_WEIGHT
        value, rise = _two_sums(kind, a, v, x, weight, _EXPONENTIAL_RISE, first)
        return v * value, rise / value
    x = _UNIT_X
    more, more_rise = _two_sums(kind, a, 2.0 * v, x, _SQUARED, _TURNED, first)
    less, less_rise = _two_sums(kind, a, v, x, _SQUARED, _TURNED, first)
    value = 4.0 * more - less
    return v * value, (4.0 * more_rise - less_rise) / value


@njit(error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def _two_sums(kind, a, v, x, weight, other, first):
    """Sums of the slope of the worth, with two kinds of weights."""
    total = rise = 0.0
    if kind == FRESHNESS:
        for k in range(first, x.size):
            y = v * x[k]
            slope = y * _decay((a + 1.0) * _log1p(y))
            total += weight[k] * slope
            rise += other[k] * slope
        return a * total, a * rise
    for k in range(first, x.size):
        y = v * x[k]
        log = a * _log1p(y)
        small = log * _horner(_MEAN_SURVIVAL, log)
        slope = small if log < 0.1 else 1.0 - _decay(log)
        slope = slope * y if kind == AGE else slope
        total += weight[k] * slope
        rise += other[k] * slope
    return total, rise


@njit
def _mean(what, order, a, v, reach):
    """Mean over the interval: the integral of a function of a and v x, times S(x) or T(x)."""
    first = _first_node(a, v, reach)
    if order == PURELY_RANDOM:
        return _integrate(what, a, v, _EXPONENTIAL_X, _EXPONENTIAL_WEIGHT, first)
    return 4.0 * _integrate(what, a, 2.0 * v, _UNIT_X, _SQUARED, first) - _integrate(
        what, a, v, _UNIT_X, _SQUARED, first
    )


@njit
def _mean_of_rest(what, order, a, v, reach):
    """Likewise with T(x) in place of S(x)."""
    first = _first_node(a, v, reach)
    if order == PURELY_RANDOM:
        return _integrate(what, a, v, _EXPONENTIAL_X, _EXPONENTIAL_WEIGHT, first)
    twice = 8.0 if what != _PER_TIME else 4.0
    return (
        twice * _integrate(what, a, 2.0 * v, _UNIT_X, _CUBED, first)
        - _integrate(what, a, v, _UNIT_X, _CUBED, first)
    ) / 3.0


@njit
def _worth_in(kind, order, a, v):
    """Worth of a poll in any order."""
    if order == FIXED or not 0.0 < v < _INF:
        return _worth(kind, a, v)
    return _worth_and_growth(kind, order, a, v)[0]


@njit
def _freshness_in(order, a, v):
    """Mean freshness in any order, with all digits where it is small."""
    if order == FIXED or not 0.0 < v < _INF:
        return _freshness(a, v)
    stale = _mean(_CHANGED, order, a, v, _REACH)
    return 1.0 - stale if stale < 0.5 else _mean(_LEFT, order, a, v, 2.0 * _REACH)


@njit
def _cost_in(kind, order, a, v):
    """Mean cost in any order."""
    if order == FIXED or not 0.0 < v < _INF:
        return _cost(kind, a, v)
    if kind == FRESHNESS:
        return _mean(_CHANGED, order, a, v, _REACH)
    if kind == AGE:
        return v * _mean_of_rest(_CHANGED, order, a, v, _REACH)
    return _mean_of_rest(_PER_TIME, order, a, v, 2.0 * _REACH)


# --- polls that cost more if they find a change ------------------------------------------------------


@njit
def _next_change(a, v):
    """Changes that one more poll finds, at intervals v in fixed order: G(v) - v G'(v)."""
    if v == _INF:
        return 1.0
    density = a * v * math.exp(-(a + 1.0) * math.log1p(v))
    if v * (1.0 + a) < 1e-3:  # both are nearly a v
        return a * (a + 1.0) * v * v * (0.5 - (a + 2.0) * v * (1.0 / 3.0 - (a + 3.0) * v / 8.0))
    return _changed(a, v) - density


@njit(error_model="numpy")
def _conditional_interval(kind, a, x, more):
    """Solve worth(v) = x (1 + more * changes found by one more poll) for v, in fixed order.

    Returns also how steep worth over cost is on logarithms, and how far it is from x.
    """
    low, high = _inverse_worth(kind, FIXED, a, x), _inverse_worth(kind, FIXED, a, x * (1.0 + more))
    if not 0.0 < high < _INF:
        return high, 1.0, 0.0
    v, steep, off = low, 1.0, 0.0
    for _ in range(100):
        value = _worth(kind, a, v)
        cost = 1.0 + more * _next_change(a, v)
        first, _ = _steps(kind, a, v, value)
        rise = v * (v * (a * (a + 1.0) * math.exp(-(a + 2.0) * math.log1p(v))))
        steep = max(first - more * rise / cost, 1e-9)
        off = value / (x * cost) - 1.0
        if off > 0.0:
            high = v
        else:
            low = v
        step = -off / steep
        if abs(off) < 4e-15 or high - low < 4e-16 * v:
            break
        new = v * (1.0 + step)
        v = new if low < new < high else math.sqrt(low) * math.sqrt(high)
    return v, steep, abs(off)


# --- loops over elements ---------------------------------------------------------------------------


@njit(cache=True, nogil=True, error_model="numpy")
def _fixed_worth(kind, shape, v, out):
    for i in range(out.size):
        out[i] = _worth(kind, shape[i], v[i])


@elementwise(fixed=_fixed_worth)
@njit(cache=True, nogil=True, error_model="numpy")
def worth(kind, order, shape, v, out):
    """Worth at interval v for FRESHNESS, AGE or HARMONIC, in units of 1/scale or 1/scale**2."""
    for i in range(out.size):
        out[i] = _worth_in(kind, order, shape[i], v[i])


@elementwise()
@njit(cache=True, nogil=True, error_model="numpy")
def inverse_worth(kind, order, shape, x, out):
    """Interval v at which the worth reaches x; inf where it never does."""
    for i in range(out.size):
        out[i] = _inverse_worth(kind, order, shape[i], x[i])


@elementwise()
@njit(cache=True, nogil=True, error_model="numpy")
def inverse_saturated(shape, left, out):
    """Interval v at which freshness is worth a share of 1 - left of its limit, for shapes above 1."""
    for i in range(out.size):
        out[i] = _saturated(shape[i], left[i])


@elementwise()
@njit(cache=True, nogil=True, error_model="numpy")
def inverse_conditional(kind, shape, x, more, out):
    """Interval v at which worth is x times 1 + more * changes found by one more poll, in fixed order."""
    for i in range(out.size):
        out[i] = _conditional_interval(kind, shape[i], x[i], more[i])[0]


@njit(cache=True, nogil=True, error_model="numpy")
def _fixed_freshness(shape, v, out):
    for i in range(out.size):
        out[i] = _freshness(shape[i], v[i])


@elementwise(fixed=_fixed_freshness)
@njit(cache=True, nogil=True, error_model="numpy")
def freshness(order, shape, v, out):
    """Mean freshness at intervals v, to full relative precision where it is small."""
    for i in range(out.size):
        out[i] = _freshness_in(order, shape[i], v[i])


@njit(cache=True, nogil=True, error_model="numpy")
def _fixed_cost(kind, shape, v, out):
    for i in range(out.size):
        out[i] = _cost(kind, shape[i], v[i])


@elementwise(fixed=_fixed_cost)
@njit(cache=True, nogil=True, error_model="numpy")
def cost(kind, order, shape, v, out):
    """Mean cost at intervals v, for age in units of 1/scale."""
    for i in range(out.size):
        out[i] = _cost_in(kind, order, shape[i], v[i])
