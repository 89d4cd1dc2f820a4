"""Change rates from polls, compiled.

What a poll says about the rate r: seen unchanged after t, exp(-r t); seen changed, 1 - exp(-r t); seen
changed, the last time a ago, r exp(-r a). So what is needed of an element's polls is

    known         how many changes of known age there are,
    still         the time in which nothing changed, or nothing more: intervals without a change, and ages,
    spans, times  the intervals with a change of unknown age, and how many there are of each length.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

# --- what is needed of the polls ----------------------------------------------------------------------------


class PollTally(NamedTuple):
    """What is needed of the polls of many elements."""

    polls: NDArray[np.int64]
    changes: NDArray[np.int64]
    total: NDArray[np.float64]  # time
    still: NDArray[np.float64]
    known: NDArray[np.int64] | NDArray[np.float64]
    begins: NDArray[np.int64]  # where the spans of each element begin
    ends: NDArray[np.int64]
    spans: NDArray[np.float64]
    times: NDArray[np.int32] | NDArray[np.float64]


@njit(cache=True, nogil=True, error_model="numpy")
def tally(elements, elapsed, changed, ages, n):
    """Sort polls, in any order, by their elements; ``ages`` may be empty, and nan where unknown.

    Polls of one element that follow each other are taken together, and equal spans among them are counted.
    """
    polls, changes, known = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64)
    total, still = np.zeros(n), np.zeros(n)
    k = 0
    while k < elements.size:
        i, first, seen, time, calm = elements[k], k, 0, 0.0, 0.0
        while k < elements.size and elements[k] == i:
            t = elapsed[k]
            seen += changed[k]
            time += t
            calm += 0.0 if changed[k] else t
            k += 1
        polls[i] += k - first
        changes[i] += seen
        total[i] += time
        still[i] += calm
    for k in range(ages.size):
        if changed[k] and not np.isnan(ages[k]):
            known[elements[k]] += 1
            still[elements[k]] += min(ages[k], elapsed[k])
    begins = np.empty(n, np.int64)
    used = 0
    for i in range(n):
        begins[i] = used
        used += changes[i] - known[i]
    ends = begins.copy()
    spans, times = np.empty(used), np.empty(used, np.int32)
    k = 0
    while k < elements.size:
        i, last, count = elements[k], -1.0, 0
        end = ends[i]
        if end > begins[i]:
            last, count = spans[end - 1], times[end - 1]
        while k < elements.size and elements[k] == i:
            t = elapsed[k]
            if changed[k] and (ages.size == 0 or np.isnan(ages[k])):
                if t == last:
                    count += 1
                    times[end - 1] = count
                else:
                    spans[end], times[end] = t, 1
                    end += 1
                    last, count = t, 1
            k += 1
        ends[i] = end
    return polls, changes, total, still, known, begins, ends, spans, times


@njit(cache=True, nogil=True, error_model="numpy")
def fading(elements, elapsed, half_life, n):
    """Weigh polls, in the order of time: the last of an element is 1, one half-life before it is half."""
    since = np.zeros(n)
    out = np.empty(elements.size)
    for k in range(elements.size - 1, -1, -1):
        out[k] = 2.0 ** (-since[elements[k]] / half_life)
        since[elements[k]] += elapsed[k]
    return out


# --- maximum likelihood -------------------------------------------------------------------------------------


@njit(inline="always")
def change(x):
    """1 - exp(-x), to 12 digits, and in less time than expm1 takes."""
    return x * (1.0 - 0.5 * x * (1.0 - x / 3.0)) if x < 1e-4 else 1.0 - math.exp(-x)


@njit(cache=True, nogil=True, error_model="numpy")
def balance(count, still, spans, times, tolerance):
    """Find the rate r where count/r + sum of t/(exp(r t) - 1) = still; and minus r^2 times the slope there.

    The logarithm of the left side is convex in r, so Newton's method for it rises to the root from anywhere
    below; and below are the root for spans that are all the mean span, as t/(exp(r t) - 1) is convex in t,
    and that for the shortest span alone. Halley's steps are longer, and here at most twice as long. All sums
    are of pure numbers, so that intervals may be any number of decades apart.
    """
    changes = sums = least = 0.0
    shortest = np.inf
    for j in range(spans.size):
        changes += times[j]
        sums += times[j] * spans[j]
        if spans[j] < shortest:
            shortest, least = spans[j], float(times[j])
    r = count / still
    if changes > 0:
        r = max(r, changes / sums * math.log1p(sums / still))
        if changes * shortest < sums:
            r = max(r, math.log1p(least * shortest / still) / shortest)
    slope = count
    for _ in range(200):
        pull, slope, curve = count, count, 2.0 * count
        for j in range(spans.size):
            x = r * spans[j]
            left = math.exp(-x)
            e = change(x) if x < 1e-4 else 1.0 - left
            x /= e
            g = times[j] * x * left
            pull += g
            g *= x
            slope += g
            curve += g * x * (1.0 + left)
        ratio = slope / pull
        step = math.log(pull / r / still) / ratio
        step /= max(1.0 - 0.5 * step * (curve / slope - ratio), 0.5)
        r += step * r
        if not abs(step) > tolerance:
            break
    return r, slope


@njit(cache=True, nogil=True, error_model="numpy")
def likeliest(data, out):
    """Find the rate of each element that makes its polls likeliest; nan without polls, and 0 without changes.

    If nothing limits it, because all polls saw changes, as if half of the shortest interval had been without
    a change as well.
    """
    for i in range(out.size):
        if data.changes[i] == 0:
            out[i] = 0.0 if data.polls[i] > 0 else np.nan
            continue
        begin, end = data.begins[i], data.ends[i]
        still = data.still[i]
        if still == 0.0:
            still = data.total[i] / data.polls[i]
            for j in range(begin, end):
                still = min(still, data.spans[j])
            still *= 0.5
        out[i], _ = balance(float(data.known[i]), still, data.spans[begin:end], data.times[begin:end], 1e-4)


@njit(cache=True, nogil=True, error_model="numpy")
def approximations(elements, changed, frequency, power, out):
    """Stochastic approximation: after its k-th poll, out += k^-power (changed (out + frequency) - out)."""
    seen = np.zeros(out.size, np.int64)
    for k in range(elements.size):
        i = elements[k]
        seen[i] += 1
        gain = float(seen[i]) ** -power
        out[i] += gain * frequency[i] if changed[k] else -gain * out[i]
