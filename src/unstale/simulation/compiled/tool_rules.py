"""Rules that set each interval from what the last poll saw, compiled.

Most rules look at one element at a time, and so elements are followed one after the other, without a queue of
events (`follow`; for CommaFeed, which looks at the dates of entries, `follow_entries`). Miniflux takes feeds
from a queue when its clock ticks, so its feeds depend on each other (`follow_ticks`). All times are in the
unit of the simulation.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from unstale.draws import uniform

from .tracking import fate

NUTCH, STORMCRAWLER, HERITRIX = range(3)

_TICK_ROUNDING_SHARE = 1e-6
"""By which part of a tick, or of the shortest wait, rounding may seem to make a feed miss a tick."""


class PageColumns(NamedTuple):
    """What `follow` remembers of each element."""

    start: NDArray[np.float64]  # of the next poll; infinite if there is none
    polls: NDArray[np.int64]  # before that one
    interval: NDArray[np.float64]
    changed: NDArray[np.float64]  # when a change was last detected
    errors: NDArray[np.int32]  # in a row
    known: NDArray[np.bool_]  # there is something to compare the next poll with
    unseen: NDArray[np.bool_]  # a change since the last poll that succeeded


class Readers(NamedTuple):
    """What `follow_entries` remembers of each element."""

    start: NDArray[np.float64]  # of the next poll
    polls: NDArray[np.int64]  # before that one
    errors: NDArray[np.int32]  # in a row
    seen: NDArray[np.int64]  # entries, ever
    dates: NDArray[np.float64]  # of the last entries, as a ring
    unseen: NDArray[np.int64]  # entries since the last poll that succeeded
    coming: NDArray[np.float64]  # their dates, as a ring


class Feeds(NamedTuple):
    """What `follow_ticks` remembers of each element."""

    due: NDArray[np.float64]  # infinite if it is never polled again
    start: NDArray[np.float64]  # of the poll for which it was taken; infinite if it waits for a tick
    polls: NDArray[np.int64]  # before that one
    seen: NDArray[np.float64]  # start of the last poll that succeeded
    errors: NDArray[np.int32]  # in a row


@njit(cache=True, nogil=True, error_model="numpy")
def _fate(key, element, count, conditions):
    """Call `fate` without inlining it, where speed matters less: an inlined copy takes seconds to compile."""
    return fate(key, element, count, conditions)


@njit(cache=True, nogil=True, error_model="numpy")
def phases(key, out):
    """Draw the share of its first interval after which each element is due for the first time."""
    for i in range(out.size):
        out[i] = uniform(key, i, 0)


@njit(cache=True, nogil=True, error_model="numpy")
def first_polls(key, conditions, due, start):
    """Find when the first polls start, which may be late."""
    for i in range(due.size):
        late, _, _ = _fate(key, i, 0, conditions)
        start[i] = due[i] + late


# --- one element at a time ----------------------------------------------------------------------------------


@njit(inline="always")
def _nutch(numbers, ok, changed, known, errors, interval, modified, now):
    _, shortest, longest, grow, shrink, retry, tries, sync, limit = numbers
    if not ok:
        errors += 1
        if errors < tries:
            return retry, interval, modified, known, errors
        interval = 1.5 * interval if 1.5 * interval < limit else 0.9 * limit
        return interval, interval, modified, known, errors
    if not known or changed:
        modified = now
    if known:
        interval *= shrink if changed else grow
    if sync < 0.0:
        wait = interval = min(max(interval, shortest), longest)
    else:
        delta = now - modified
        interval = min(max(interval, delta, shortest), longest)
        # where the longest interval is below delta the wait could vanish, and polls be without end
        wait = max(interval - sync * delta, (1.0 - sync) * shortest)
    if interval > limit:
        return wait, 0.9 * limit, modified, False, 0
    return wait, interval, modified, True, 0


@njit(inline="always")
def _stormcrawler(numbers, ok, changed, known, errors, interval, modified):
    first, shortest, longest, grow, shrink, retry, tries, minute, _ = numbers
    if not ok:
        errors += 1
        return (retry if errors < tries else np.inf), first, modified, False, errors
    if not known:
        interval = first
    elif changed:
        interval = np.floor((1.0 - shrink) * interval + shrink * shortest)
    else:
        interval = min(np.floor(interval * grow), longest)
    interval = max(interval, 1.0)  # rounding could make it 0, and polls without end
    return minute * interval, interval, modified, True, 0


@njit(inline="always")
def _heritrix(numbers, ok, changed, known, errors, interval, modified):
    _, shortest, longest, grow, shrink, retry, tries, _, _ = numbers
    if not ok:
        errors += 1
        return (retry if errors < tries else np.inf), interval, modified, known, errors
    if known:
        interval = interval / shrink if changed else interval * grow
    interval = min(max(interval, shortest), longest)
    return interval, interval, modified, True, 0


@njit(inline="always")
def _after(rule, numbers, ok, changed, known, errors, interval, modified, now):
    """Return the wait after a poll, and what the rule remembers of it."""
    if rule == NUTCH:
        return _nutch(numbers, ok, changed, known, errors, interval, modified, now)
    if rule == STORMCRAWLER:
        return _stormcrawler(numbers, ok, changed, known, errors, interval, modified)
    return _heritrix(numbers, ok, changed, known, errors, interval, modified)


@njit(cache=True, nogil=True, error_model="numpy")
def follow(rule, numbers, conditions, key, pages, offsets, times, end, begins, out, at):
    """Poll all elements up to ``end``, or until ``out`` is full: start, done and ok of the visits.

    ``offsets`` and ``times`` are the changes since the last span, and ``begins`` tells where the visits of
    each element begin. ``at`` is where to go on: element, change, visit; returns the same for the next call.
    """
    starts, dones, oks = out
    first, next_change, used = at
    n = pages.start.size
    for i in range(first, n):
        j, stop = offsets[i], offsets[i + 1]
        if next_change >= 0:  # in the middle of this element
            j, next_change = next_change, -1
        else:
            begins[i] = used
        start, count, unseen = pages.start[i], pages.polls[i], pages.unseen[i]
        interval, modified = pages.interval[i], pages.changed[i]
        errors, known = pages.errors[i], pages.known[i]
        while start < end and used < starts.size:
            _, duration, ok = fate(key, i, count, conditions)
            done = start + duration
            if ok:
                while j < stop and times[j] <= start:
                    unseen = True
                    j += 1
            wait, interval, modified, known, errors = _after(
                rule, numbers, ok, unseen, known, errors, interval, modified, done
            )
            starts[used], dones[used], oks[used] = start, done, ok
            used += 1
            unseen = unseen and not ok
            count += 1
            late, _, _ = fate(key, i, count, conditions)
            start = done + wait + late
        pages.start[i], pages.polls[i], pages.unseen[i] = start, count, unseen
        pages.interval[i], pages.changed[i] = interval, modified
        pages.errors[i], pages.known[i] = errors, known
        if start < end:
            return i, j, used
        if j < stop:
            pages.unseen[i] = True
    begins[n] = used
    return n, -1, used


@njit(inline="always")
def _commafeed(numbers, ok, errors, seen, dates, now):
    """Return the wait after a poll, given the dates of the entries that were seen."""
    shortest, longest, factor, day, tries, backoff = numbers
    if not ok:
        return shortest if errors < tries else min(max(backoff * (errors - tries + 1.0), shortest), longest)
    shown = min(seen, dates.size)
    newest = dates[(seen - 1) % dates.size] if shown > 0 else -np.inf
    if now - newest >= 30.0 * day:
        return longest
    if now - newest >= 14.0 * day:
        return max(longest / 2.0, shortest)
    if now - newest >= 7.0 * day:
        return max(longest / 4.0, shortest)
    if shown < 2:
        return longest
    gap = (newest - dates[(seen - shown) % dates.size]) / (shown - 1.0)
    return max(min(gap / factor, longest / 4.0), shortest)


@njit(cache=True, nogil=True, error_model="numpy")
def follow_entries(numbers, conditions, key, readers, offsets, times, end, begins, out, at):
    """Do as `follow`, for a rule that looks at the dates of the entries that polls brought."""
    starts, dones, oks = out
    first, next_change, used = at
    n = readers.start.size
    for i in range(first, n):
        j, stop = offsets[i], offsets[i + 1]
        if next_change >= 0:  # in the middle of this element
            j, next_change = next_change, -1
        else:
            begins[i] = used
        start, count = readers.start[i], readers.polls[i]
        errors, seen, unseen = readers.errors[i], readers.seen[i], readers.unseen[i]
        dates, coming = readers.dates[i], readers.coming[i]
        while start < end and used < starts.size:
            _, duration, ok = _fate(key, i, count, conditions)
            done = start + duration
            if ok:
                errors = 0
                for k in range(max(0, unseen - coming.size), unseen):
                    dates[seen % dates.size] = coming[k % coming.size]
                    seen += 1
                unseen = 0
                while j < stop and times[j] <= start:
                    dates[seen % dates.size] = times[j]
                    seen += 1
                    j += 1
            else:
                errors += 1
            starts[used], dones[used], oks[used] = start, done, ok
            used += 1
            wait = _commafeed(numbers, ok, errors, seen, dates, done)
            count += 1
            late, _, _ = _fate(key, i, count, conditions)
            start = done + wait + late
        readers.start[i], readers.polls[i], readers.errors[i] = start, count, errors
        readers.seen[i], readers.unseen[i] = seen, unseen
        if start < end:
            return i, j, used
        for k in range(j, stop):  # for the next span
            coming[readers.unseen[i] % coming.size] = times[k]
            readers.unseen[i] += 1
    begins[n] = used
    return n, -1, used


# --- all elements, tick by tick -----------------------------------------------------------------------------


@njit(cache=True, nogil=True, error_model="numpy")
def _larger(array):
    """Return a copy of the array with twice the room."""
    more = np.empty(2 * array.size, array.dtype)
    more[: array.size] = array
    return more


@njit(inline="always")
def _earlier(due, i, j):
    """Whether element i is taken before j: the one due first, then the one with the smaller number."""
    return due[i] < due[j] or (due[i] == due[j] and i < j)


@njit(cache=True, nogil=True, error_model="numpy")
def _sink(heap, size, due, at):
    """Move the element at a place of the heap down to where it belongs."""
    moved = heap[at]
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and _earlier(due, heap[child + 1], heap[child]):
            child += 1
        if not _earlier(due, heap[child], moved):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = moved


@njit(cache=True, nogil=True, error_model="numpy")
def _rise(heap, due, at):
    """Move the element at a place of the heap up to where it belongs."""
    moved = heap[at]
    while at > 0:
        parent = (at - 1) // 2
        if not _earlier(due, moved, heap[parent]):
            break
        heap[at] = heap[parent]
        at = parent
    heap[at] = moved


@njit(inline="always")
def _entries_wait(times, low, high, shortest, longest, factor, week):
    """Return the wait for entries from low to just before high, all of the last week."""
    gap = times[high - 1] - times[low] if high - low > 1 else 0.0
    if gap <= 0.0:
        return longest
    entries = np.ceil(week * (high - low - 1) / gap)
    return max(min(week / (entries * factor), longest), shortest)


@njit(cache=True, nogil=True, error_model="numpy")
def follow_ticks(numbers, conditions, key, feeds, offsets, times, end, tick, origin, room):
    """Poll all elements up to ``end``; return the next tick, and the visits: element, start, done and ok.

    ``offsets`` and ``times`` are the changes since the last call and those of the week before it. Visits of
    one element are in the order of time. ``room`` is a guess at their number.
    """
    period, batch, fixed, shortest, longest, factor, week, tries = numbers
    tie = _TICK_ROUNDING_SHARE * min(period, fixed if fixed >= 0.0 else shortest)
    n = feeds.due.size
    elements, starts = np.empty(room, np.int64), np.empty(room)
    dones, oks = np.empty(room), np.empty(room, np.bool_)
    used = 0
    low, high = offsets[:-1].copy(), offsets[:-1].copy()
    heap = np.empty(n, np.int64)
    taken = np.empty(n, np.int64)
    size = many = 0
    for i in range(n):
        if feeds.start[i] < np.inf:  # taken before this span
            taken[many] = i
            many += 1
        elif feeds.due[i] < np.inf:
            heap[size] = i
            size += 1
    for at in range(size // 2 - 1, -1, -1):
        _sink(heap, size, feeds.due, at)

    while True:
        for k in range(many):
            i = taken[k]
            start = feeds.start[i]
            if start >= end:
                continue
            _, duration, ok = _fate(key, i, feeds.polls[i], conditions)
            done = start + duration
            wait = fixed
            if fixed < 0.0:  # entries that earlier polls saw
                while high[i] < offsets[i + 1] and times[high[i]] <= feeds.seen[i]:
                    high[i] += 1
                while low[i] < high[i] and times[low[i]] < start - week:
                    low[i] += 1
                wait = _entries_wait(times, low[i], high[i], shortest, longest, factor, week)
            if ok:
                feeds.errors[i] = 0
                feeds.seen[i] = start
            else:
                feeds.errors[i] += 1
            feeds.polls[i] += 1
            feeds.start[i] = np.inf
            feeds.due[i] = done + wait if feeds.errors[i] < tries else np.inf
            if feeds.due[i] < np.inf:
                heap[size] = i
                size += 1
                _rise(heap, feeds.due, size - 1)
            if used == starts.size:
                elements, starts = _larger(elements), _larger(starts)
                dones, oks = _larger(dones), _larger(oks)
            elements[used], starts[used], dones[used], oks[used] = i, start, done, ok
            used += 1

        now = origin + tick * period
        if now >= end:
            break
        many = 0
        while many < batch and size > 0 and feeds.due[heap[0]] <= now + tie:
            i = heap[0]
            late, _, _ = _fate(key, i, feeds.polls[i], conditions)
            feeds.start[i] = now + late
            taken[many] = i
            many += 1
            size -= 1
            heap[0] = heap[size]
            _sink(heap, size, feeds.due, 0)
        tick += 1
    return tick, elements[:used], starts[:used], dones[:used], oks[:used]


@njit(cache=True, nogil=True, error_model="numpy")
def by_element(elements, n):
    """Return where the visits of each of n elements begin, and the visits in that order."""
    begins = np.zeros(n + 1, np.int64)
    for i in elements:
        begins[i + 1] += 1
    for i in range(n):
        begins[i + 1] += begins[i]
    free = begins[:-1].copy()
    order = np.empty(elements.size, np.int64)
    for k in range(elements.size):
        order[free[elements[k]]] = k
        free[elements[k]] += 1
    return begins, order


@njit(cache=True, nogil=True, error_model="numpy")
def joined(old_offsets, old_times, offsets, times, since):
    """Put changes behind older ones, element by element, and drop older ones from before ``since``."""
    n = offsets.size - 1
    begins = np.empty(n + 1, np.int64)
    out = np.empty(old_times.size + times.size)
    used = 0
    for i in range(n):
        begins[i] = used
        first = old_offsets[i]
        while first < old_offsets[i + 1] and old_times[first] < since:
            first += 1
        for k in range(first, old_offsets[i + 1]):
            out[used] = old_times[k]
            used += 1
        for k in range(offsets[i], offsets[i + 1]):
            out[used] = times[k]
            used += 1
    begins[n] = used
    return begins, out[:used]
