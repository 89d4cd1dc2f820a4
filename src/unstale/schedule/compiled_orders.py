"""The points of the orders, drawn element by element, and put in the order of time."""

import math

from numba import njit

from ..draws import uniform
from ..kernels import FIXED, RANDOM

__all__ = ["draw", "first_points", "put_in_order"]

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
def first_points(order, key, elements, count, points):
    """Draw the first points of elements."""
    for k in range(elements.size):
        if order == FIXED:
            points[k] = ((elements[k] + 0.5) * _GOLDEN) % 1.0
        elif order == RANDOM:
            points[k] = uniform(key, elements[k], count[elements[k]])
        else:
            points[k] = -math.log(uniform(key, elements[k], count[elements[k]]))


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
def put_in_order(times, start, end, buckets, order):
    """Sort times that are spread evenly from start to end; ties keep their order. Fills ``order``."""
    n = buckets.size - 1
    scale = n / (end - start)
    for t in times:
        buckets[min(int((t - start) * scale), n - 1) + 1] += 1
    for b in range(n):
        buckets[b + 1] += buckets[b]
    for i in range(times.size):
        b = min(int((times[i] - start) * scale), n - 1)
        order[buckets[b]] = i
        buckets[b] += 1
    low = 0
    for b in range(n):
        high = buckets[b]
        for i in range(low + 1, high):
            moved = order[i]
            t = times[moved]
            j = i
            while j > low and times[order[j - 1]] > t:
                order[j] = order[j - 1]
                j -= 1
            order[j] = moved
        low = high
