"""Compiled kernels: what polling buys for Poisson changes, as functions of one number.

With a change rate and a frequency everything depends on ``r = rate / frequency``, the expected changes per
poll interval. Let ``V`` be the poll interval divided by its mean: 1 for fixed order, triangular on (0, 2) for
random order, exponential for purely random. Then (Cho & Garcia-Molina 2000, Table 2, written as one rule)

    staleness        E[q1(rV)] / r          worth of freshness    E[p2(rV)]
    age * frequency  E[q2(rV)] / r**2       worth of age          E[h2(rV)]
                                            worth of harmonic     E[q1(rV)]

with  p1 = 1 - exp(-r),  p2 = 1 - (1+r) exp(-r),  p3 = 1 - (1+r+r^2/2) exp(-r),
      q1 = r - p1,       q2 = r^2/2 - q1,         h2 = r^2/2 - p2.

Written so, each loses all its digits for small ``r``; below a threshold a series in powers of ``r`` is summed
instead, whose terms are positive or fall off fast. The tests hold each kernel to 1e-12 against mpmath.

A scalar function has a leading underscore; the same name without it takes arrays of float64, as a
NumPy ufunc does (see `elementwise`).
"""

import math

from numba import njit

from .elementwise import elementwise
from .exponential_kernels import (
    _P2_SERIES,
    _h2,
    _horner,
    _mean_survival,
    _over_factorial,
    _p1,
    _p2,
    _p3,
    _q1,
    _q2,
)

__all__ = [
    "AGE",
    "FIXED",
    "FRESHNESS",
    "HARMONIC",
    "PURELY_RANDOM",
    "RANDOM",
    "age",
    "freshness",
    "interval_beyond",
    "interval_freshness",
    "inverse_freshness",
    "inverse_saturated",
    "inverse_worth",
    "p1",
    "p2",
    "p3",
    "q1",
    "q2",
    "staleness",
    "worth",
]

FIXED, RANDOM, PURELY_RANDOM = 0, 1, 2
FRESHNESS, AGE, HARMONIC = 0, 1, 2

_INF = math.inf


def _triangular_moment(k):
    """E[V^k] for V triangular on (0, 2)."""
    return (2 ** (k + 2) - 2) / ((k + 1) * (k + 2))


# sum((-1)^k c_k E[V^k] r^k / k!): alternating, but falling fast enough to lose less than a digit below r = 1
_RANDOM_P2 = _over_factorial((k, (-1) ** k * (k - 1) * _triangular_moment(k)) for k in range(2, 33))
_RANDOM_Q1 = _over_factorial((k, (-1) ** k * _triangular_moment(k)) for k in range(2, 33))
_RANDOM_Q2 = _over_factorial((k, (-1) ** (k + 1) * _triangular_moment(k)) for k in range(3, 33))
_RANDOM_H2 = _over_factorial((k, (-1) ** (k + 1) * (k - 1) * _triangular_moment(k)) for k in range(3, 33))


# --- the same under the three orders ---------------------------------------------------------------


@njit
def _worth_fixed(kind, r):
    if r == _INF:
        return 1.0 if kind == FRESHNESS else _INF
    if kind == FRESHNESS:
        return _p2(r)
    return _h2(r) if kind == AGE else _q1(r)


@njit
def _worth(kind, order, r):
    """Worth of a poll at interval r, times rate (freshness, harmonic) or rate**2 (age)."""
    if r == _INF or order == FIXED:
        return _worth_fixed(kind, r)
    if order == RANDOM:
        return _worth_random(kind, r)
    s = r / (1.0 + r)
    if kind == FRESHNESS:
        return s * s
    return r * r * s * ((2.0 + r) / (1.0 + r)) if kind == AGE else r * s


@njit
def _worth_random(kind, r):
    if r < 1.0:
        if kind == FRESHNESS:
            return r * r * _horner(_RANDOM_P2, r)
        if kind == AGE:
            return r * r * r * _horner(_RANDOM_H2, r)
        return r * r * _horner(_RANDOM_Q1, r)
    e = _mean_survival(r)
    if kind == HARMONIC:
        return r - 1.0 + e * e
    m = 1.0 - 3.0 * e * e + 2.0 * e * math.exp(-r)
    return m if kind == FRESHNESS else 7.0 / 12.0 * r * r - m


@njit
def _worth_slope(kind, order, r):
    """Derivative of the worth kernel: E[r V^2 e^-rV], E[r V^2 (1 - e^-rV)] or E[V (1 - e^-rV)]."""
    if order == FIXED:
        if kind == FRESHNESS:
            return r * math.exp(-r)
        return r * _p1(r) if kind == AGE else _p1(r)
    if order == PURELY_RANDOM:
        s, u = r / (1.0 + r), 1.0 / (1.0 + r)
        if kind == FRESHNESS:
            return 2.0 * s * u * u
        return 2.0 * r * s * (1.0 + u + u * u) if kind == AGE else s * (1.0 + u)
    if r < 1e-3:  # only steers Newton: three digits do
        if kind == FRESHNESS:
            return r * (7.0 / 6.0 - 1.5 * r)
        return 1.5 * r * r if kind == AGE else 7.0 / 6.0 * r
    e = _mean_survival(r)
    de = (math.exp(-r) - e) / r
    if kind == HARMONIC:
        return 1.0 + 2.0 * e * de
    second = 2.0 * (de * de - e * (math.exp(-r) + 2.0 * de) / r)
    return r * second if kind == FRESHNESS else r * (7.0 / 6.0 - second)


@njit
def _unworth(order, r):
    """1 - worth of freshness, without cancellation where that is small."""
    if order == FIXED:
        return (1.0 + r) * math.exp(-r)
    if order == RANDOM:
        e = _mean_survival(r)
        return e * (3.0 * e - 2.0 * math.exp(-r))
    u = 1.0 / (1.0 + r)
    return u * (1.0 + r * u)


# u - log(1+u) over u^2
_LOG_EXCESS = tuple((-1) ** k / (k + 2) for k in range(20))

# r / q on 0 <= q = sqrt(2x) <= 1, and r - L on 0.69 <= L = -log(1-x) <= 37: starting values good to 1e-5
_SMALL_START = (
    1.0000026,
    0.33293548,
    0.16274198,
    -0.015308782,
    0.48914098,
    -1.1100067,
    1.6390614,
    -1.2209247,
    0.40070037,
)
_LARGE_START = (
    0.00045012191,
    1.4125695,
    -0.33106938,
    0.077353804,
    -0.015152501,
    0.0022604057,
    -0.00023373218,
    1.466449e-05,
    -4.1604143e-07,
)


@njit
def _interval_freshness(x):
    """Solve p2(r) = x: the interval at which fixed-order freshness has the scaled worth x; inf for x >= 1."""
    if not x > 0.0:
        return 0.0 if x == 0.0 else math.nan
    if x >= 1.0:
        return _INF
    if x < 0.5:
        q = math.sqrt(2.0 * x)
        if q < 1e-4:
            return q * (1.0 + q * (1.0 / 3.0 + q * (11.0 / 72.0 + q * (43.0 / 540.0))))
        r = q * _horner(_SMALL_START, q)
        e = math.exp(-r)
        step = (r * r * _horner(_P2_SERIES, r) - x / e) / r  # Newton; Halley's factor below
        return r - step / (1.0 - 0.5 * step * (1.0 - r) / r)
    return _interval_saturated(1.0 - x)


@njit
def _interval_saturated(y):
    """Solve p2(r) = 1 - y for y <= 1/2."""
    level = -math.log(y)
    r = level + _horner(_LARGE_START, math.sqrt(level))
    step = (r - math.log1p(r) - level) * (1.0 + r) / r
    return r - step / (1.0 - 0.5 * step / (r * (1.0 + r)))


@njit
def _interval_age(x):
    """Solve h2(r) = x by Newton from the series for small x or the asymptote for large x."""
    c = (3.0 * x) ** (1.0 / 3.0)
    r = c * (1.0 + c * (0.125 + c * (13.0 / 960.0))) if c < 2.0 else math.sqrt(2.0 * (x + 1.0))
    for _ in range(8):
        step = (_h2(r) - x) / (r * _p1(r))
        r -= step
        if abs(step) < 1e-8 * r:
            return r
    return math.nan  # never seen: two or three steps are enough from such a start


@njit
def _interval_harmonic(x):
    """Solve q1(r) = x by Newton's steps, which stay beyond the solution: q1 is convex."""
    r = x + math.sqrt(2.0 * x)
    for _ in range(60):
        step = (_q1(r) - x) / _p1(r)
        r -= step
        if abs(step) < 1e-9 * r:
            break
    return r


@njit
def _interval_fixed(kind, x):
    """Solve worth(kind, FIXED, r) = x for r; inf where no interval is worth as much."""
    if kind == FRESHNESS:
        return _interval_freshness(x)
    if not 0.0 < x < _INF:
        return x if x >= 0.0 else math.nan
    return _interval_age(x) if kind == AGE else _interval_harmonic(x)


@njit
def _interval_beyond(delay, x):
    """Solve delay * p1(r) + p2(r) = x for r: how long after a delay, in expected changes; inf for none.

    With u = r / (1 + delay) that is r - log(1 + u) = -log(1 - x / (1 + delay)), convex in r.
    """
    if not x > 0.0:
        return 0.0 if x == 0.0 else math.nan
    share = 1.0 / (1.0 + delay)
    if x * share >= 1.0:
        return _INF
    goal = -math.log1p(-x * share)
    first, second = delay * share, 0.5 * share * share
    r = 2.0 * goal / (first + math.sqrt(first * first + 4.0 * second * goal))
    for _ in range(60):
        u = r * share
        rest = u * u * _horner(_LOG_EXCESS, u) if u < 0.1 else u - math.log1p(u)
        step = (first * r + rest - goal) / (first + share * u / (1.0 + u))
        r -= step
        if abs(step) < 1e-9 * r:
            break
    return r


@njit
def _inverse_worth(kind, order, x):
    """Solve worth(kind, order, r) = x for r; inf where no interval is worth as much."""
    if order == FIXED:
        return _interval_fixed(kind, x)
    if not x > 0.0:
        return 0.0 if x == 0.0 else math.nan
    if kind == FRESHNESS:
        if x >= 1.0:
            return _INF
        if order == PURELY_RANDOM:
            root = math.sqrt(x)
            return root * (1.0 + root) / (1.0 - x)
    elif x == _INF:
        return _INF
    elif kind == HARMONIC and order == PURELY_RANDOM:
        return 0.5 * (x + math.sqrt(x) * math.sqrt(x + 4.0))
    return _solve_worth(kind, order, x, 1.0 - x)


@njit
def _inverse_saturated(order, y):
    """Solve worth(FRESHNESS, order, r) = 1 - y for r, where y <= 1/2 is known better than 1 - y."""
    if not y > 0.0:
        return _INF if y == 0.0 else math.nan
    if order == FIXED:
        return _interval_saturated(y)
    if order == PURELY_RANDOM:
        return (1.0 + math.sqrt(1.0 - y)) / y - 1.0
    return _solve_worth(FRESHNESS, order, 1.0 - y, y)


@njit
def _solve_worth(kind, order, x, y):
    """Newton on log(worth) against log(r), nearly a straight line for every worth, inside a bracket.

    For freshness ``y`` is 1 - x, and takes the place of ``x`` where it is the smaller.
    """
    saturated = kind == FRESHNESS and x > 0.5
    target = math.log(y) if saturated else math.log(x)
    # every worth lies between r^3/3 and 2 r^2 below r = 1, and grows no faster than 2 r^2 above
    u = target / 3.0 if kind == AGE and x < 1.0 else 0.5 * target
    if saturated:
        u = -u
    elif kind == HARMONIC and x > 1.0:
        u = target
    low, high = -_INF, _INF
    for _ in range(200):
        r = math.exp(u)
        if saturated:
            value = _unworth(order, r)
            miss = target - math.log(value)
            slope = r * _worth_slope(kind, order, r) / value
        else:
            value = _worth(kind, order, r)
            miss = math.log(value) - target
            slope = r * _worth_slope(kind, order, r) / value
        if miss > 0.0:
            high = u
        else:
            low = u
        step = miss / slope
        if not abs(step) < 3.0:
            step = math.copysign(3.0, miss)
        new = u - step
        if new <= low or new >= high:
            new = 0.5 * (low + high)
        if new == u or abs(step) < 1e-11:
            # the last step is taken on r itself: log(r) cannot hold its last digits
            gap = value - y if saturated else x - value
            return r + gap / _worth_slope(kind, order, r)
        u = new
    return math.nan  # never seen: Newton in a bracket ends in a dozen steps


@njit
def _freshness(order, r):
    if order == FIXED:
        return _mean_survival(r)
    if order == PURELY_RANDOM:
        return 1.0 / (1.0 + r)
    if r < 1e-150:
        return 1.0
    return (_q1(r) / r) / r * (1.0 + _mean_survival(r)) if r < _INF else 0.0


@njit
def _staleness(order, r):
    if r == _INF:
        return 1.0
    if r < 1e-150:
        return r * (0.5 if order == FIXED else 7.0 / 12.0 if order == RANDOM else 1.0)
    return _worth(HARMONIC, order, r) / r


@njit
def _inverse_freshness(order, f):
    """Solve freshness(order, r) = f for r by bisection on log(r); a rare question, so the plainest method."""
    if not 0.0 < f < 1.0:
        return 0.0 if f == 1.0 else (_INF if f == 0.0 else math.nan)
    if order == PURELY_RANDOM:
        return (1.0 - f) / f
    if f < 1e-200:
        return 1.0 / f
    low, high = -80.0, 720.0
    while True:
        u = 0.5 * (low + high)
        if not low < u < high:
            break
        # compare whichever of the two is small
        r = math.exp(u)
        if (_freshness(order, r) > f) if f < 0.5 else (_staleness(order, r) < 1.0 - f):
            low = u
        else:
            high = u
    r = math.exp(low)
    for _ in range(2):  # log(r) cannot hold the last digits of r
        gap = _freshness(order, r) - f if f < 0.5 else (1.0 - f) - _staleness(order, r)
        r += gap * r * r / _worth(FRESHNESS, order, r)
    return r


@njit
def _age(rate, frequency, order):
    """Time-averaged age; rate 0 has age 0, frequency 0 has age inf (unless rate is 0)."""
    if rate == 0.0:
        return 0.0
    if frequency == 0.0:
        return _INF
    r = rate / frequency
    if order == PURELY_RANDOM:
        return r / (1.0 + r) / frequency if r < _INF else 1.0 / frequency
    if order == FIXED:
        if r > 1e9:
            return 0.5 / frequency - 1.0 / rate
        return (_q2(r) / r / r if r > 1e-100 else r / 6.0) / frequency
    if r > 1e9:
        return 7.0 / 12.0 / frequency - 1.0 / rate
    if r < 1.0:
        return r * _horner(_RANDOM_Q2, r) / frequency
    e = _mean_survival(r)
    return (7.0 / 12.0 - 1.0 / r + (1.0 - e * e) / r / r) / frequency


# --- loops over elements ---------------------------------------------------------------------------


@elementwise()
@njit(cache=True, nogil=True, error_model="numpy")
def p1(r, out):
    """1 - exp(-r): probability of a change within r expected changes."""
    for i in range(out.size):
        out[i] = _p1(r[i])


@elementwise()
@njit(cache=True, nogil=True, error_model="numpy")
def p2(r, out):
    """1 - (1+r) exp(-r): worth of a poll for freshness, times the rate."""
    for i in range(out.size):
        out[i] = _p2(r[i])


@elementwise()
@njit(cache=True, nogil=True, error_model="numpy")
def p3(r, out):
    """1 - (1+r+r^2/2) exp(-r)."""
    for i in range(out.size):
        out[i] = _p3(r[i])


@elementwise()
@njit(cache=True, nogil=True, error_model="numpy")
def q1(r, out):
    """Return r - 1 + exp(-r), the integral of p1."""
    for i in range(out.size):
        out[i] = _q1(r[i])


@elementwise()
@njit(cache=True, nogil=True, error_model="numpy")
def q2(r, out):
    """r^2/2 - r + 1 - exp(-r), the integral of q1."""
    for i in range(out.size):
        out[i] = _q2(r[i])


@njit(cache=True, nogil=True, error_model="numpy")
def _fixed_worth(kind, r, out):
    for i in range(out.size):
        out[i] = _worth_fixed(kind, r[i])


@elementwise(fixed=_fixed_worth)
@njit(cache=True, nogil=True, error_model="numpy")
def worth(kind, order, r, out):
    """Worth at interval r for FRESHNESS, AGE or HARMONIC under an order, in units of 1/rate or 1/rate**2."""
    for i in range(out.size):
        out[i] = _worth(kind, order, r[i])


@njit(cache=True, nogil=True, error_model="numpy")
def _fixed_inverse_worth(kind, x, out):
    for i in range(out.size):
        out[i] = _interval_fixed(kind, x[i])


@elementwise(fixed=_fixed_inverse_worth)
@njit(cache=True, nogil=True, error_model="numpy")
def inverse_worth(kind, order, x, out):
    """Interval r at which the worth reaches x; inf where it never does."""
    for i in range(out.size):
        out[i] = _inverse_worth(kind, order, x[i])


@njit(cache=True, nogil=True, error_model="numpy")
def _fixed_inverse_saturated(y, out):
    for i in range(out.size):
        out[i] = _interval_saturated(y[i]) if y[i] > 0.0 else (_INF if y[i] == 0.0 else math.nan)


@elementwise(fixed=_fixed_inverse_saturated)
@njit(cache=True, nogil=True, error_model="numpy")
def inverse_saturated(order, y, out):
    """Interval r at which freshness is worth 1 - y; inf for y = 0. For y <= 1/2."""
    for i in range(out.size):
        out[i] = _inverse_saturated(order, y[i])


@elementwise()
@njit(cache=True, nogil=True, error_model="numpy")
def interval_beyond(delay, x, out):
    """Interval after a delay at which fixed-order tau-currency is worth x, all in expected changes."""
    for i in range(out.size):
        out[i] = _interval_beyond(delay[i], x[i])


@elementwise()
@njit(cache=True, nogil=True, error_model="numpy")
def interval_freshness(x, out):
    """Interval r at which fixed-order freshness is worth x (the planner's inner loop); inf for x >= 1."""
    for i in range(out.size):
        out[i] = _interval_freshness(x[i])


@elementwise()
@njit(cache=True, nogil=True, error_model="numpy")
def freshness(rate, frequency, order, out):
    """Time-averaged freshness; rate 0 is always fresh, frequency 0 never (unless rate is 0)."""
    for i in range(out.size):
        if rate[i] == 0.0:
            out[i] = 1.0
        else:
            out[i] = _freshness(order, rate[i] / frequency[i] if frequency[i] > 0.0 else _INF)


@njit(cache=True, nogil=True, error_model="numpy")
def _fixed_staleness(rate, frequency, out):
    for i in range(out.size):
        r = rate[i] / frequency[i] if frequency[i] > 0.0 else _INF
        if rate[i] == 0.0:
            out[i] = 0.0
        elif r < 1e-150 or r == _INF:
            out[i] = 0.5 * r if r < _INF else 1.0
        else:
            out[i] = _q1(r) / r


@elementwise(fixed=_fixed_staleness)
@njit(cache=True, nogil=True, error_model="numpy")
def staleness(rate, frequency, order, out):
    """1 - freshness, to full relative precision where it is small."""
    for i in range(out.size):
        if rate[i] == 0.0:
            out[i] = 0.0
        else:
            out[i] = _staleness(order, rate[i] / frequency[i] if frequency[i] > 0.0 else _INF)


@elementwise()
@njit(cache=True, nogil=True, error_model="numpy")
def inverse_freshness(order, wanted, out):
    """Interval r at which the freshness is as wanted; 0 for 1, inf for 0."""
    for i in range(out.size):
        out[i] = _inverse_freshness(order, wanted[i])


@elementwise()
@njit(cache=True, nogil=True, error_model="numpy")
def age(rate, frequency, order, out):
    """Time-averaged age; rate 0 has age 0, frequency 0 has age inf (unless rate is 0)."""
    for i in range(out.size):
        out[i] = _age(rate[i], frequency[i], order)
