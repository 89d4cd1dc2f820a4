"""What polls after hints are worth, compiled.

The evidence that a copy is stale is u = a t + k n: its chance to be fresh is e^-u. A cycle ends when u
reaches a threshold; its mean length Psi and what it is worth are

    Psi(u) = 1/gam sum P(i+1, c (u - i k))                   c = gam/a,  i = 0, 1, ... while i k < u
    W(u)   = integral of e^-v Psi(v) from 0 to u

with P the regularised incomplete gamma function: the chance that i+1 hints come in time. Of W, each term is a
series of positive terms, or a difference in which nothing is lost.
"""

import math

import numpy as np
from numba import njit

_HINTS_MAYBE_STREAM, _HINTS_ALWAYS_STREAM = 32.0, 4096.0
"""Hints in a cycle beyond which they may count, and always count, as a stream: the error of a worth is then
below 1e-11, and below 1e-7 where cycles mostly end with a hint."""
_MOST_SERIES_EVENTS, _MOST_SERIES_SHARE = 60.0, 1e-3
"""Changes and hints, and share of hints among them, below which a series is summed."""
_LEAST_HINTS_PER_CHANGE = 1e-30
"""Hints for each change without one, below which there are none."""
_MOST_EVIDENCE = 700.0
"""Evidence beyond which nothing is fresh."""


@njit(cache=True, nogil=True, error_model="numpy")
def _tails(m, z):
    """Return the chances that a Poisson number of mean z is at least m, and less than m."""
    if z <= 0.0:
        return 0.0, 1.0
    if z == np.inf:
        return 1.0, 0.0
    first = math.exp(m * math.log(z) - z - math.lgamma(m + 1.0))  # chance of m
    if z < m:
        total, term, k = first, first, m
        while term > 1e-17 * total:
            k += 1
            term *= z / k
            total += term
        return total, 1.0 - total
    term = first * m / z
    total, k = term, m - 1
    while k > 0 and term > 1e-17 * total:
        term *= k / z
        k -= 1
        total += term
    return max(1.0 - total, 0.0), min(total, 1.0)


@njit(cache=True, nogil=True, error_model="numpy")
def _is_stream(u, a, gam, k):
    """Tell whether so many hints come in a cycle that they are a stream, or say nothing."""
    if k == 0.0 or gam <= _LEAST_HINTS_PER_CHANGE * a:
        return True
    count, jumps = u / (a / gam + k), gam * k / a
    return count > _HINTS_MAYBE_STREAM and (count > 2.0 * jumps * jumps or count > _HINTS_ALWAYS_STREAM)


@njit(cache=True, nogil=True, error_model="numpy")
def _stream(u, a, gam, k):
    """Return the mean time until the evidence of a stream of hints reaches u, and W(u).

    The time is (u + what the last hint goes too far, on average) / (evidence per time), up to terms that
    vanish quickly as u grows. As the worth of all evidence is known, 1/rate, so is what they add to W.
    """
    if gam <= _LEAST_HINTS_PER_CHANGE * a or k == 0.0:
        return u / a, _tails(2, u)[0] / a
    drift = a + gam * k
    over = 0.5 * k * (gam * k / drift)
    tail = 0.0  # e^-k - 1 + k - k^2/2
    if k < 0.5:
        for n in range(20, 3, -1):
            tail = (1.0 - tail) * k / n
        tail = -(1.0 - tail) * k * k * k / 6.0
    else:
        tail = math.expm1(-k) + k - 0.5 * k * k
    bend = tail + 0.5 * k * k
    rate = drift - gam * bend
    start = (gam / drift) * ((tail + over * bend) / rate)
    return (u + over) / drift, (_tails(2, u)[0] - over * math.expm1(-u)) / drift + start


@njit(cache=True, nogil=True, error_model="numpy")
def _cycle(u, a, gam, k):
    """Mean time until the evidence reaches u."""
    if u <= 0.0:
        return 0.0
    if u == np.inf:
        return np.inf
    if _is_stream(u, a, gam, k):
        return _stream(u, a, gam, k)[0]
    total, i = 0.0, 0
    while i == 0 or i * k < u:
        left = u - i * k if i else u
        z = gam / a * left  # infinite if a is 0
        term = -math.expm1(-z) if i == 0 else _tails(i + 1, z)[0]
        total += term
        i += 1
        if term <= 1e-17 * total:
            break
    return total / gam


@njit(cache=True, nogil=True, error_model="numpy")
def _part(i, left, a, gam):
    """Integral of e^-y P(i+1, c y) / gam from 0 to ``left``."""
    share, other = gam / (a + gam), a / (a + gam)
    z = left * ((a + gam) / a)
    if z < _MOST_SERIES_EVENTS or share < _MOST_SERIES_SHARE:
        term = math.exp((i + 2) * math.log(z) - z - math.lgamma(i + 3.0))
        total, power, missing, n = 0.0, share, other, i + 2
        while True:  # chance of n hints and changes, times 1 - share^(n-i-1)
            total += term * missing
            n += 1
            term *= z / n
            if term <= 1e-17 * total or term == 0.0:
                break
            missing += power * other
            power *= share
        return share**i * total / (a + gam)
    all_in, all_out = _tails(i + 1, z)
    some_in, some_out = _tails(i + 1, share * z)
    between = some_out - all_out if some_in > 0.5 else all_in - some_in
    log = (i + 1) * math.log1p(-other)
    close = left < 1.0
    difference = math.exp(-left) * math.expm1(left + log) if close else math.exp(log) - math.exp(-left)
    return (math.exp(log) * between + some_in * difference) / gam


@njit(cache=True, nogil=True, error_model="numpy")
def _worth(u, a, gam, k):
    """W(u)."""
    rate = a + (gam * -math.expm1(-k) if gam > 0.0 else 0.0)
    if u <= 0.0 or rate == 0.0:
        return 0.0
    if u > _MOST_EVIDENCE:
        return 1.0 / rate
    if _is_stream(u, a, gam, k):
        return min(_stream(u, a, gam, k)[1], 1.0 / rate)
    total, i = 0.0, 0
    while i == 0 or i * k < u:
        left = u - i * k if i else u
        term = math.exp(-i * k) * _part(i, left, a, gam) if i else _part(0, left, a, gam)
        total += term
        i += 1
        if term <= 1e-17 * total:
            break
    return min(total, 1.0 / rate)


@njit(cache=True, nogil=True, error_model="numpy")
def _threshold(price, a, gam, k):
    """Return the evidence at which the worth is the price; infinite if it never is."""
    if price <= 0.0:
        return 0.0
    high = 1.0
    while _worth(high, a, gam, k) < price:
        high *= 2.0
        if high > _MOST_EVIDENCE:
            return np.inf
    low = 0.5 * high
    while _worth(low, a, gam, k) > price and low > 0.0:
        high = low
        low *= 0.125
    u = high
    for _ in range(200):
        error = _worth(u, a, gam, k) - price
        if error > 0.0:
            high = u
        else:
            low = u
        slope = math.exp(-u) * _cycle(u, a, gam, k)
        new = u - error / slope if slope > 0.0 else low
        if not low < new < high:
            new = 0.5 * (low + high)
        if abs(new - u) <= 4e-16 * u or error == 0.0:
            break
        u = new
    return u


@njit(cache=True, nogil=True, error_model="numpy")
def cycles(u, a, gam, k):
    """Mean lengths of cycles, for arrays of one length."""
    out = np.empty(u.size)
    for j in range(u.size):
        out[j] = _cycle(u[j], a[j], gam[j], k[j])
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def worths(u, a, gam, k):
    """What polls are worth, for arrays of one length."""
    out = np.empty(u.size)
    for j in range(u.size):
        out[j] = _worth(u[j], a[j], gam[j], k[j])
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def thresholds(price, a, gam, k):
    """Evidence at which polls are worth the price, for arrays of one length."""
    out = np.empty(price.size)
    for j in range(price.size):
        out[j] = _threshold(price[j], a[j], gam[j], k[j])
    return out
