"""Changes of all elements in a span of time, drawn or looked up, element after element."""

import math

import numpy as np
from numba import njit

from unstale.draws import uniform

POISSON, PARETO, WEIBULL, GAMMA, LOGNORMAL, PERIODIC = range(6)


@njit(inline="always")
def _normal(key, element, count):
    """Draw a standard normal number from numbers ``count`` and ``count + 1`` (Box & Muller)."""
    radius = math.sqrt(-2.0 * math.log(uniform(key, element, count)))
    return radius * math.cos(2.0 * math.pi * uniform(key, element, count + 1))


@njit
def _gamma(shape, key, element, count):
    """Draw a gamma number (Marsaglia & Tsang 2000); returns it with the count to go on with."""
    d = (shape if shape >= 1.0 else shape + 1.0) - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = _normal(key, element, count)
        u = uniform(key, element, count + 2)
        count += 3
        v = (1.0 + c * x) ** 3
        if v > 0.0 and math.log(u) < 0.5 * x * x + d * (1.0 - v + math.log(v)):
            break
    if shape >= 1.0:
        return d * v, count
    return d * v * uniform(key, element, count) ** (1.0 / shape), count + 1


@njit(inline="always")
def _gap(kind, a, b, key, element, count):
    """Draw a gap of the law with these parameters; returns it with the count to go on with."""
    if kind == PERIODIC:
        return a, count
    if kind == GAMMA:
        gap, count = _gamma(a, key, element, count)
        return b * gap, count
    if kind == LOGNORMAL:
        return math.exp(a + b * _normal(key, element, count)), count + 2
    x = -math.log(uniform(key, element, count))
    if kind == PARETO:
        return b * math.expm1(x / a), count + 1
    if kind == WEIBULL:
        return b * x ** (1.0 / a), count + 1
    return x / a, count + 1


@njit(inline="always")
def _residual(kind, a, b, key, element):
    """Draw the time from a random moment to the next change: a share of a gap drawn by its length."""
    share = uniform(key, element, 0)
    if kind == POISSON:
        return -math.log(share) / a
    if kind == PARETO:
        return b * math.expm1(-math.log(share) / (a - 1.0))
    if kind == PERIODIC:
        return share * a
    if kind == LOGNORMAL:
        return share * math.exp(a + b * b + b * _normal(key, element, 1))
    if kind == GAMMA:
        return share * b * _gamma(a + 1.0, key, element, 1)[0]
    return share * b * _gamma(1.0 + 1.0 / a, key, element, 1)[0] ** (1.0 / a)


@njit(cache=True, nogil=True, error_model="numpy")
def first_changes(kind, a, b, key, elements, out):
    """Draw the first change of each element after time 0."""
    for i in range(elements.size):
        out[i] = _residual(kind, a[i], b[i], key, elements[i])


@njit(cache=True, nogil=True, error_model="numpy")
def gammas(shape, key, elements, out):
    """Draw a gamma number for each element."""
    for i in range(elements.size):
        out[i] = _gamma(shape[i], key, elements[i], 0)[0]


@njit(cache=True, nogil=True, error_model="numpy")
def draw_changes(first, kind, a, b, key, elements, following, count, end, counts, times):
    """Draw the changes before ``end``, from element ``first`` on, until ``times`` is full.

    ``elements`` are their numbers in the world, ``following`` the next change of each, and ``count`` how many
    random numbers it has used. Returns the element to go on with, and how many changes were drawn.
    """
    drawn = 0
    for i in range(first, following.size):
        t, k = following[i], count[i]
        shape, scale = a[i], b[i]
        while t < end:
            if drawn == times.size:
                following[i], count[i] = t, k
                return i, drawn
            times[drawn] = t
            drawn += 1
            counts[i] += 1
            gap, k = _gap(kind, shape, scale, key, elements[i], k)
            t = max(t + gap, np.nextafter(t, np.inf))  # a gap below the resolution of time is still a gap
        following[i], count[i] = t, k
    return following.size, drawn


@njit(cache=True, nogil=True)
def look_up(offsets, times, position, end, out_offsets):
    """Advance ``position`` of each element to its first change at or after ``end``; sums what was passed."""
    total = 0
    for i in range(position.size):
        at = position[i]
        stop = offsets[i + 1]
        while at < stop and times[at] < end:
            at += 1
        total += at - position[i]
        out_offsets[i + 1] = total
        position[i] = at
    return total


@njit(cache=True, nogil=True)
def copy_out(times, position, out_offsets, out):
    """Copy what `look_up` passed."""
    for i in range(position.size):
        n = out_offsets[i + 1] - out_offsets[i]
        for k in range(n):
            out[out_offsets[i] + k] = times[position[i] - n + k]
