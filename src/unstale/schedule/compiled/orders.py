"""The points of the orders, drawn element by element, and put in the order of time."""

import math

import numpy as np
from numba import njit

from unstale.draws import uniform
from unstale.kernels import FIXED, RANDOM

_SORTED_POLLS_BITS = 15
"""Binary logarithm of how many polls are sorted at a time: what fits into a processor's second cache."""

_MOST_POLLS_PER_BUCKET = 32
"""Polls in one bucket, above which they are not sorted by comparing neighbours."""

_GOLDEN = 0.6180339887498949
"""Its multiples are spread evenly over the unit interval, whichever stretch of them one takes."""


@njit(inline="always")
def _next(order, jitter, key, element, count, point):
    """Return the point after ``point``, the ``count``-th that is drawn for this element."""
    if order == FIXED:
        if jitter == 0.0:
            return point + 1.0
        return point + 1.0 + jitter * (2.0 * uniform(key, element, count) - 1.0)
    if order == RANDOM:
        return math.floor(point) + 1.0 + uniform(key, element, count)
    return point - math.log(uniform(key, element, count))


@njit(cache=True, nogil=True, error_model="numpy")
def spread_out(elements, phases):
    """Spread phases evenly."""
    for k in range(elements.size):
        phases[k] = ((elements[k] + 0.5) * _GOLDEN) % 1.0


@njit(cache=True, nogil=True, error_model="numpy")
def first_points(order, key, elements, origin, count, points):
    """Draw the first points of elements in a random order, after their origins."""
    for k in range(elements.size):
        i = elements[k]
        if order == RANDOM:
            points[k] = uniform(key, i, count[i])
            if points[k] < origin[k]:  # that one is over
                count[i] += 1
                points[k] = 1.0 + uniform(key, i, count[i])
        else:
            points[k] = -math.log(uniform(key, i, count[i]))


@njit(cache=True, nogil=True, error_model="numpy")
def draw(first, frequency, point, origin, since, end, clock, order, jitter, key, count, out):
    """Draw the polls of all elements before ``end``, in worked time, until ``out`` is full.

    An element was at ``origin`` in its own time when ``since`` was worked. ``out`` is times, elements and
    points. Elements before ``first`` are done; a poll that does not fit stays
    for the next call. Returns the element to go on with, and how many polls were drawn.
    """
    times, elements, points = out
    drawn = 0
    for i in range(first, frequency.size):
        f = frequency[i]
        if f <= 0.0:
            continue
        stop = end[clock[i] if clock.size else 0]
        x, k, base, start = point[i], count[i], origin[i], since[i]
        while True:
            t = max(start + (x - base) / f, start)
            if t >= stop:
                break
            if drawn == times.size:
                point[i], count[i] = x, k
                return i, drawn
            times[drawn], elements[drawn] = t, i
            if points.size:
                points[drawn] = x
            drawn += 1
            k += 1
            x = _next(order, jitter, key, i, k, x)
        point[i], count[i] = x, k
    return frequency.size, drawn


@njit(cache=True, nogil=True, error_model="numpy")
def put_in_order(times, elements, points, start, end):
    """Sort polls by times that are spread about evenly from start to end; ties keep their order.

    Polls are dealt out to parts that fit into the processor's cache, and there to as many buckets as there
    are polls. What is left is to compare neighbours, unless a bucket is crowded. Returns whether all is in
    order; if not, only ties are.
    """
    n = max(times.size, 1)
    scale = n / (end - start)
    parts = ((n - 1) >> _SORTED_POLLS_BITS) + 1
    free = np.zeros(parts + 1, np.int64)
    for t in times:
        free[(_bucket(t, start, scale, n) >> _SORTED_POLLS_BITS) + 1] += 1
    for p in range(parts):
        free[p + 1] += free[p]
    dealt_times, dealt_elements = np.empty_like(times), np.empty_like(elements)
    dealt_points = np.empty_like(points)
    for k in range(times.size):
        p = _bucket(times[k], start, scale, n) >> _SORTED_POLLS_BITS
        at = free[p]
        free[p] += 1
        dealt_times[at], dealt_elements[at] = times[k], elements[k]
        if points.size:
            dealt_points[at] = points[k]
    low = 0
    crowded = False
    buckets = np.empty(min(n, 1 << _SORTED_POLLS_BITS) + 1, np.int64)
    for p in range(parts):
        high = free[p]
        buckets[:] = 0
        for k in range(low, high):
            buckets[_bucket(dealt_times[k], start, scale, n) - (p << _SORTED_POLLS_BITS) + 1] += 1
        most = 0
        for b in range(buckets.size):
            most = max(most, buckets[b])
        buckets_crowded = most > _MOST_POLLS_PER_BUCKET
        buckets[0] = low
        for b in range(buckets.size - 1):
            buckets[b + 1] += buckets[b]
        for k in range(low, high):
            b = _bucket(dealt_times[k], start, scale, n) - (p << _SORTED_POLLS_BITS)
            at = buckets[b]
            buckets[b] += 1
            times[at], elements[at] = dealt_times[k], dealt_elements[k]
            if points.size:
                points[at] = dealt_points[k]
        if buckets_crowded:
            crowded = True
        else:
            _settle(times[low:high], elements[low:high], points[low:high])
        low = high
    return not crowded


@njit(inline="always")
def _bucket(t, start, scale, n):
    return min(int((t - start) * scale), n - 1)


@njit(cache=True, nogil=True, error_model="numpy")
def _settle(times, elements, points):
    """Sort what is in order but for neighbours."""
    for i in range(1, times.size):
        t = times[i]
        if times[i - 1] <= t:
            continue
        element, point = elements[i], points[i] if points.size else 0.0
        j = i
        while j > 0 and times[j - 1] > t:
            times[j], elements[j] = times[j - 1], elements[j - 1]
            if points.size:
                points[j] = points[j - 1]
            j -= 1
        times[j], elements[j] = t, element
        if points.size:
            points[j] = point
