"""Polls that are carried out, and what copies go through between changes and polls: a span at a time.

Everything is done element by element, so there is no queue of events, and memory is touched in order.
"""

import math

import numpy as np
from numba import njit

from unstale.draws import uniform

(FRESH, AGE, MISSED, HARMONIC, CHANGES, POLLS, FAILED, FOUND, COST, ACCESSES, FRESH_ACCESSES) = range(11)
MEASURES = 11
LAG_STEPS = 4
"""Bins of lags for each power of two."""

_HARMONIC = np.concatenate([np.zeros(1), np.cumsum(1.0 / np.arange(1.0, 64.0))])


@njit(inline="always")
def _harmonic_number(k):
    if k < 64:
        return _HARMONIC[k]
    return math.log(k) + 0.57721566490153286 + 0.5 / k - 1.0 / (12.0 * k * k)


_FRACTION = (1 << 52) - 1
_QUARTERS = tuple((2.0 ** (np.arange(1, LAG_STEPS) / LAG_STEPS)).view(np.int64) & _FRACTION)
"""Fractions of floating-point numbers that are quarters of powers of two."""


@njit(inline="always")
def _bin(lag, least, count):
    """Bin of a lag, in quarters of powers of two above the least; from its bits, as logarithms take long."""
    if lag < least:
        return 0
    bits = np.float64(lag / least).view(np.int64)
    found = LAG_STEPS * ((bits >> 52) - 1023) + 1
    for quarter in _QUARTERS:
        found += (bits & _FRACTION) >= quarter
    return min(found, count - 1)


@njit(cache=True, nogil=True)
def sort_by_element(elements, times, offsets, out):
    """Sort polls, which are in the order of time, by element; ``offsets`` come as zeros."""
    for i in elements:
        offsets[i + 1] += 1
    for i in range(offsets.size - 1):
        offsets[i + 1] += offsets[i]
    for k in range(elements.size):
        i = elements[k]
        out[offsets[i]] = times[k]
        offsets[i] += 1
    for i in range(offsets.size - 1, 0, -1):
        offsets[i] = offsets[i - 1]
    offsets[0] = 0


@njit(inline="always")
def fate(key, element, count, conditions):
    """Return how late poll ``count`` of an element starts, how long it takes, and whether it succeeds.

    ``conditions`` are the mean lateness and the mean duration, both exponential, and the share that fails.
    """
    late, takes, fails = conditions
    delay = -late * math.log(uniform(key, element, 3 * count)) if late > 0.0 else 0.0
    duration = -takes * math.log(uniform(key, element, 3 * count + 1)) if takes > 0.0 else 0.0
    return delay, duration, fails <= 0.0 or uniform(key, element, 3 * count + 2) >= fails


@njit(cache=True, nogil=True, error_model="numpy")
def carry_out(end, offsets, due, conditions, key, count, waiting, out_offsets, out):
    """Carry out polls that are due before ``end``; returns how many start before it.

    An element that is being polled, or waits for it, is not polled again: what is due then falls away.
    ``waiting`` holds, for each element, the start, end and success of a poll that is late; when it has been
    done the second is the time until which the element is busy. ``out`` takes starts, ends and successes.
    """
    starts, ends, successes = out
    start, busy, success = waiting
    made = 0
    for i in range(count.size):
        if start[i] < end:
            starts[made], ends[made], successes[made] = start[i], busy[i], success[i]
            made += 1
            start[i] = np.inf
        for k in range(offsets[i], offsets[i + 1]):
            if due[k] < busy[i]:
                continue
            delay, duration, good = fate(key, i, count[i], conditions)
            count[i] += 1
            begin = due[k] + delay
            busy[i] = begin + duration
            if begin < end:
                starts[made], ends[made], successes[made] = begin, busy[i], good
                made += 1
            else:
                start[i], success[i] = begin, good
        out_offsets[i + 1] = made
    return made


@njit(cache=True, nogil=True, error_model="numpy")
def look_at(change_offsets, change_times, visit_offsets, starts, successes, last, dirty, elapsed, changed):
    """Find what polls see: whether the element changed since its last good poll, and how long ago that was.

    ``last`` is the time of that poll, and ``dirty`` whether it has changed since then in earlier spans.
    """
    for i in range(last.size):
        c = change_offsets[i]
        for k in range(visit_offsets[i], visit_offsets[i + 1]):
            while c < change_offsets[i + 1] and change_times[c] <= starts[k]:
                dirty[i] = True
                c += 1
            elapsed[k] = starts[k] - last[i]
            changed[k] = dirty[i] and successes[k]
            if successes[k]:
                last[i], dirty[i] = starts[k], False
        if c < change_offsets[i + 1]:
            dirty[i] = True


@njit(cache=True, nogil=True, error_model="numpy")
def ages_at(change_offsets, change_times, visit_offsets, starts, successes, latest, ages):
    """Find how long before polls the last changes were: nan if there was none, or the poll failed.

    ``latest`` is when each element changed last in earlier spans.
    """
    for i in range(latest.size):
        c = change_offsets[i]
        for k in range(visit_offsets[i], visit_offsets[i + 1]):
            while c < change_offsets[i + 1] and change_times[c] <= starts[k]:
                latest[i] = change_times[c]
                c += 1
            ages[k] = starts[k] - latest[i] if successes[k] else np.nan
        if c < change_offsets[i + 1]:
            latest[i] = change_times[change_offsets[i + 1] - 1]


@njit(cache=True, nogil=True, error_model="numpy")
def cleared(elements, times, visit_offsets, starts, ends, successes, until):
    """Find when each missed change is no longer missed: when a poll that started after it is done.

    Changes come in the order of elements and times.
    """
    v, of = 0, -1
    for k in range(elements.size):
        i = elements[k]
        if i != of:
            v, of = visit_offsets[i], i
        while v < visit_offsets[i + 1] and (not successes[v] or starts[v] < times[k]):
            v += 1
        if v < visit_offsets[i + 1]:
            until[k] = ends[v]


@njit(cache=True, nogil=True, error_model="numpy")
def track(start, end, changes, visits, requests, columns, state, sums, batch, totals, lags, segments):
    """Follow all copies from ``start`` to ``end``; returns how many segments of lag were listed.

    ``changes`` and ``requests`` are offsets and times; ``visits`` offsets, starts, ends and successes.
    ``columns`` are weight, size and change size. ``state`` is kept between spans: the first missed change and
    how many there are; whether a poll is going on, when it ends, whether it succeeds, and what has changed
    since it began. Measures are added up for each element in ``sums``, the first of them also in ``batch``,
    and over all elements in ``totals``, integrals by weight. ``lags`` counts, by bin, weights and weighted
    lags where the copy's lag ends, less those where it begins: enough for the time spent beyond any bin; and
    it has the longest lag.
    ``segments`` lists element and lag at both ends of each stretch for which a copy lags, if there is room.
    """
    change_offsets, change_times = changes
    visit_offsets, starts, ends, successes = visits
    request_offsets, request_times = requests
    weights, sizes, change_sizes = columns
    firsts, counts, going_on, dones, good, later_firsts, later_counts = state
    lag_weights, lag_sums, longest, least = lags
    listed_elements, listed_from, listed_to = segments
    listed = 0
    for i in range(firsts.size):
        c, c_end = change_offsets[i], change_offsets[i + 1]
        v, v_end = visit_offsets[i], visit_offsets[i + 1]
        r, r_end = request_offsets[i], request_offsets[i + 1]
        first, missed = firsts[i], counts[i]
        busy, done, success, later_first, later_missed = (
            going_on[i], dones[i], good[i], later_firsts[i], later_counts[i],
        )  # fmt: skip
        weight = weights[i]
        fresh = age = pending = harmonic = cost = 0.0
        polls = failed = found = asked = asked_fresh = 0.0
        t = lagging_from = start
        number = _harmonic_number(missed)
        change = change_times[c] if c < c_end else np.inf
        visit = done if busy else (starts[v] if v < v_end else np.inf)
        request = request_times[r] if r < r_end else np.inf
        while True:
            u = min(change, visit, request, end)
            dt = u - t
            if missed == 0:
                fresh += dt
            elif dt > 0.0:
                age += dt * (0.5 * (u + t) - first)
                pending += missed * dt
                harmonic += number * dt
            t = u
            over = u >= end
            replaced = False
            if over:
                pass
            elif change <= visit and change <= request:
                c += 1
                change = change_times[c] if c < c_end else np.inf
                if missed == 0:
                    first = lagging_from = u
                missed += 1
                number = _harmonic_number(missed)
                if busy:
                    if later_missed == 0:
                        later_first = u
                    later_missed += 1
            elif visit <= request:
                if not busy:
                    polls += 1
                    done, success = ends[v], successes[v]
                    v += 1
                    if not success:
                        failed += 1
                        cost += sizes[i]
                    else:
                        cost += sizes[i]
                        if missed > 0:
                            found += 1
                            cost += change_sizes[i]
                    later_first, later_missed = np.inf, 0
                    if done <= u:
                        replaced = success
                    else:
                        busy = True
                else:
                    busy = False
                    replaced = success
                visit = done if busy else (starts[v] if v < v_end else np.inf)
            else:
                r += 1
                request = request_times[r] if r < r_end else np.inf
                asked += 1
                if missed == 0:
                    asked_fresh += 1
            if (over or replaced) and missed > 0:
                begin, last = lagging_from - first, u - first
                longest[0] = max(longest[0], last)
                if last > 0.0:
                    b = _bin(last, least, lag_sums.size)
                    lag_weights[b] += weight
                    lag_sums[b] += weight * last
                    b = _bin(begin, least, lag_sums.size)
                    lag_weights[b] -= weight
                    lag_sums[b] -= weight * begin
                    if listed < listed_elements.size:
                        listed_elements[listed], listed_from[listed], listed_to[listed] = i, begin, last
                        listed += 1
            if replaced:
                first, missed, lagging_from = later_first, later_missed, u
                number = _harmonic_number(missed)
            if over:
                break
        firsts[i], counts[i] = first, missed
        going_on[i], dones[i], good[i], later_firsts[i], later_counts[i] = (
            busy, done, success, later_first, later_missed,
        )  # fmt: skip
        came = float(c_end - change_offsets[i])
        measured = fresh, age, pending, harmonic, came, polls, failed, found, cost, asked, asked_fresh
        for k in range(MEASURES):
            sums[i, k] += measured[k]
            totals[k] += weight * measured[k] if k <= HARMONIC else measured[k]
        for k in range(batch.shape[1]):
            batch[i, k] += measured[k]
    return listed
