"""Slots, one after the other: by the earliest deadline, and by the highest worth."""

import math

import numpy as np
from numba import njit

from unstale.kernels import AGE, FIXED, HARMONIC, _worth

# --- the earliest deadline ----------------------------------------------------------------------------------
#
# An element of share m out of a total M has jobs that end at the multiples of M/m, and a record of one of
# these boundaries: its whole part, and the rest times m. While the element waits for a job to be released,
# that is the boundary before the job, and LINK chains it to others that wait; while a job is ready, it is the
# boundary after it. So all is whole numbers, and no error adds up.

SHARE, BOUNDARY, REST, LINK = 0, 1, 2, 3
_HEAP_CHILDREN = 8
"""Of a node of the heap: eight deadlines are two lines of the cache. Twice as many or half are no faster."""


@njit(inline="always")
def _before(deadline, job, other_deadline, other_job):
    return deadline < other_deadline or (deadline == other_deadline and job < other_job)


@njit(cache=True, nogil=True, error_model="numpy")
def _sink(heap, size, at, deadline, job):
    """Put a job into the heap, at this place or below."""
    while True:
        first = _HEAP_CHILDREN * at + 1
        if first >= size:
            break
        least, least_deadline, least_job = first, heap[first, 0], heap[first, 1]
        for child in range(first + 1, min(first + _HEAP_CHILDREN, size)):
            if _before(heap[child, 0], heap[child, 1], least_deadline, least_job):
                least, least_deadline, least_job = child, heap[child, 0], heap[child, 1]
        if not _before(least_deadline, least_job, deadline, job):
            break
        heap[at, 0], heap[at, 1] = least_deadline, least_job
        at = least
    heap[at, 0], heap[at, 1] = deadline, job


@njit(cache=True, nogil=True, error_model="numpy")
def _rise(heap, at, deadline, job):
    """Put a job into the heap, at this place or above."""
    while at > 0:
        parent = (at - 1) // _HEAP_CHILDREN
        if not _before(deadline, job, heap[parent, 0], heap[parent, 1]):
            break
        heap[at, 0], heap[at, 1] = heap[parent, 0], heap[parent, 1]
        at = parent
    heap[at, 0], heap[at, 1] = deadline, job


@njit(inline="always")
def _release(records, total, k):
    """Go on to the next boundary of an element; return its deadline and its job.

    The last bit of a job says that the boundary lies within the slot of the deadline. The next job is then
    released in that slot already, which is known without the record.
    """
    share = records[k, SHARE]
    step = total // share
    boundary = records[k, BOUNDARY] + step
    rest = records[k, REST] + (total - step * share)
    if rest >= share:
        rest -= share
        boundary += 1
    records[k, BOUNDARY], records[k, REST] = boundary, rest
    inside = np.int64(rest > 0)
    return boundary + inside, 2 * np.int64(k) + inside


@njit(cache=True, nogil=True, error_model="numpy")
def lay_out(records, total, heap, calendar, slot):
    """Release what is due for the slot after this one, and put the others on the calendar; count the ready.

    All records have the boundary before the next job.
    """
    calendar[:] = -1
    size = 0
    for k in range(records.shape[0]):
        if records[k, SHARE] == 0:
            continue
        if records[k, BOUNDARY] <= slot:
            heap[size, 0], heap[size, 1] = _release(records, total, k)
            size += 1
        else:
            day = (records[k, BOUNDARY] + 1) & (calendar.size - 1)
            records[k, LINK] = calendar[day]
            calendar[day] = k
    for at in range((size - 2) // _HEAP_CHILDREN, -1, -1):
        _sink(heap, size, at, heap[at, 0], heap[at, 1])
    return size


@njit(cache=True, nogil=True, error_model="numpy")
def put_back(records, total, heap, size):
    """Undo the release of what is ready, so that all records have the boundary before the next job."""
    for at in range(size):
        k = heap[at, 1] >> 1
        share = records[k, SHARE]
        step = total // share
        records[k, BOUNDARY] -= step
        records[k, REST] -= total - step * share
        if records[k, REST] < 0:
            records[k, REST] += share
            records[k, BOUNDARY] -= 1


@njit(cache=True, nogil=True, error_model="numpy")
def by_deadline(records, total, heap, size, calendar, slot, elements):
    """Fill the slots after ``slot``: each with the ready job of the earliest deadline. Returns the ready.

    The calendar has a day for each slot, and begins anew when it ends: who is due in a later round stays.
    Returns -1 if no job is ready in some slot, which cannot be.
    """
    mask = calendar.size - 1
    for i in range(elements.size):
        slot += 1
        day = slot & mask
        k = np.int64(calendar[day])
        if k >= 0:
            calendar[day] = -1
            while k >= 0:
                following = records[k, LINK]
                if records[k, BOUNDARY] < slot:
                    deadline, job = _release(records, total, k)
                    _rise(heap, size, deadline, job)
                    size += 1
                else:
                    records[k, LINK] = calendar[day]
                    calendar[day] = k
                k = following
        if size == 0:
            return -1
        deadline, job = heap[0, 0], heap[0, 1]
        size -= 1
        if size > 0:
            _sink(heap, size, 0, heap[size, 0], heap[size, 1])
        k = job >> 1
        elements[i] = k
        day = max(deadline + 1 - (job & 1), slot + 1) & mask
        records[k, LINK] = calendar[day]
        calendar[day] = k
    return size


# --- other shares: how far elements are behind their share is kept, as far as it can be ---------------------


@njit(cache=True, nogil=True, error_model="numpy")
def lags_of(records, total, slot, lags):
    """How far each element is behind its share of the slots so far, in polls: between -1 and 1."""
    for k in range(records.shape[0]):
        share = records[k, SHARE]
        behind = (slot - records[k, BOUNDARY]) * share - records[k, REST]
        lags[k] = behind / total if share > 0 else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def resettle(lags, total, records):
    """Give records the boundaries before the next job that these lags ask for, at slot 0."""
    for k in range(records.shape[0]):
        share = records[k, SHARE]
        ahead = np.int64(math.ceil(-lags[k] * total))  # up, as to be late by a rounding error is to be late
        records[k, BOUNDARY] = ahead // share if share > 0 else 0
        records[k, REST] = ahead - records[k, BOUNDARY] * share


@njit(cache=True, nogil=True, error_model="numpy")
def amounts(lags, shares, total, slots, sign):
    """Sum of the lags of this sign beyond what the shares give in so many slots, and of these shares."""
    amount, given = 0.0, 0.0
    for k in range(lags.size):
        share = shares[k] / total
        beyond = sign * lags[k] - slots * share
        if beyond > 0.0:
            amount += beyond
            given += share
    return amount, given


@njit(cache=True, nogil=True, error_model="numpy")
def shift(lags, shares, total, behind, ahead, out):
    """Take so many slots off the lags of the elements behind, and of those ahead; to 0 at most."""
    for k in range(lags.size):
        share = shares[k] / total
        if lags[k] > 0.0:
            out[k] = max(lags[k] - behind * share, 0.0)
        else:
            out[k] = min(lags[k] + ahead * share, 0.0)


_CELL_SHIFT = 52 - 9
_FIRST_CELL = np.float64(1.0).view(np.int64) >> _CELL_SHIFT
_CELLS = 64 << 9


@njit(cache=True, nogil=True, error_model="numpy")
def overload(lags, shares, total):
    """Bound the jobs that are due within x slots, minus x, for the worst x.

    Element k has floor(lag + x*share/total) jobs that are due, once that is 1. Without the floor that is a
    sum over those that are due, gathered in cells of x that are 1/512 wide; in its own cell an element counts
    from the beginning.
    """
    behind = np.zeros(_CELLS)
    given = np.zeros(_CELLS, np.int64)
    for k in range(lags.size):
        if shares[k] > 0:
            due = max((1.0 - lags[k]) / (shares[k] / total), 1.0)
            cell = (np.float64(due).view(np.int64) >> _CELL_SHIFT) - _FIRST_CELL
            behind[cell] += lags[k]
            given[cell] += shares[k]
    worst, late = 0.0, 0.0
    free = total
    for at in range(_CELLS):
        if given[at] > 0:
            late += behind[at]
            free -= given[at]
            x = np.int64((at + _FIRST_CELL) << _CELL_SHIFT).view(np.float64)
            worst = max(worst, late - x * (free / total))
    return worst


# --- the highest worth --------------------------------------------------------------------------------------

MISSED = 3
"""Missed updates, beside the objectives that `kernels` numbers."""

_MOST_COMPARED_ELEMENTS = 32
"""Elements that are compared one by one."""

_SAMPLED_ELEMENTS = 64
ELEMENTS_PER_POLL_OF_SELECTION = 8
"""A selection lasts while one in so many elements is polled, unless it becomes too large."""

_WORTH_RELATIVE_ERROR = 1e-8
"""Relative error allowed for in a rough worth."""


@njit(inline="always")
def _exact(kind, rate, weight, size, t):
    """Worth per cost, to the last digit what `unstale.polling.worth` leads to."""
    if kind == MISSED:
        return weight * (rate * (t * t / 2.0)) / size
    worth = _worth(kind, FIXED, rate * t) / rate
    if kind == AGE:
        worth = worth / rate
    return weight * worth / size


@njit(inline="always")
def _rough(kind, r):
    """Worth kernel of r to ten digits, in a fifth of the time."""
    if kind == MISSED:
        return 0.5 * r * r
    if kind == AGE:
        if r < 0.02:
            return r * r * r * (1.0 / 3.0 - r * (0.125 - r * (1.0 / 30.0 - r * (1.0 / 144.0 - r / 840.0))))
        return 0.5 * r * r - 1.0 + (1.0 + r) * math.exp(-r) if r < 700.0 else 0.5 * r * r - 1.0
    if kind == HARMONIC:
        if r < 0.01:
            return r * r * (0.5 - r * (1.0 / 6.0 - r * (1.0 / 24.0 - r * (1.0 / 120.0 - r / 720.0))))
        return r - 1.0 + math.exp(-r)
    if r < 0.01:
        return r * r * (0.5 - r * (1.0 / 3.0 - r * (0.125 - r * (1.0 / 30.0 - r / 144.0))))
    return 1.0 - (1.0 + r) * math.exp(-r) if r < 700.0 else 1.0


@njit(inline="always")
def _rough_worth(kind, cards, at, now):
    return cards[at, 1] * _rough(kind, cards[at, 0] * (now - cards[at, 2]))


@njit(cache=True, nogil=True, error_model="numpy")
def _select(kind, cards, places, first, stop, slots, now, end):
    """Add a level: those that can be polled before ``end``, while no more polls are made than are returned.

    Some elements, about as many as there are slots, are worth at least theta now. Until each of them has been
    polled, whoever is polled is worth as much; and who is not at the end is not before. Returns where the
    level stops, and the number of polls: 0 if most would be selected.
    """
    count = stop - first
    sample = np.empty(min(count, _SAMPLED_ELEMENTS))
    for i in range(sample.size):
        sample[i] = _rough_worth(kind, cards, first + i * count // sample.size, now)
    sample.sort()
    theta = sample[sample.size - max(sample.size * slots // count, 1)]
    last, polls = stop, 0
    for at in range(first, stop):
        if _rough_worth(kind, cards, at, end) >= theta * (1.0 - _WORTH_RELATIVE_ERROR):
            if last - stop >= count - count // 4:
                return stop, 0
            places[last] = at
            cards[last, 0], cards[last, 1], cards[last, 2] = cards[at, 0], cards[at, 1], cards[at, 2]
            last += 1
            polls += _rough_worth(kind, cards, at, now) >= theta
    return last, polls


@njit(cache=True, nogil=True, error_model="numpy")
def by_worth(kind, columns, mean, budget, begin, spent, end, cards, places, levels, times, elements):
    """Give slots to the elements with the highest worth per cost, before ``end`` and while there is room.

    A card is an element's rate, its weight over rate (for age, rate squared) and size, and its last poll. All
    cards are level 0. Each further level is a selection of the one before that lasts for some time and some
    polls, and its places lead back to that. So a slot looks at a few cards of the last level only, and to
    renew a level takes as many looks as the level before has cards, divided among the slots that it lasts.

    ``levels`` are, for each level, where it starts, when it ends, its polls, and its elements for each slot
    that the next level lasts; and the depth. ``mean`` is about the size of a poll. Returns what has been
    spent since ``begin``, the polls drawn, and the mean.
    """
    rates, weights, sizes = columns
    starts, ends, polls, haste, depth = levels
    level = depth[0]
    drawn, pause = 0, 0
    while drawn < times.size:
        now = begin + spent / budget
        if not now < end:
            break
        while level > 0 and (polls[level] == 0 or now > ends[level]):
            level -= 1
            pause = 0
        while pause == 0:
            first, stop = starts[level], starts[level + 1]
            if stop - first <= _MOST_COMPARED_ELEMENTS:
                break
            slots = max((stop - first) // haste[level], 1)
            until = min(now + slots * mean / budget, ends[level])
            last, most = _select(kind, cards, places, first, stop, slots, now, until)
            if most == 0:
                if slots == 1:  # so many are worth about the same that each must be looked at
                    pause = (stop - first) // ELEMENTS_PER_POLL_OF_SELECTION
                    break
                haste[level] *= 4  # worth grows fast, as it does after the budget was cut
                continue
            if last - stop <= (stop - first) // 4:
                haste[level] = max(haste[level] // 2, ELEMENTS_PER_POLL_OF_SELECTION)
            level += 1
            starts[level + 1] = last
            ends[level] = until
            polls[level] = min(most, polls[level - 1])
        pause = max(pause - 1, 0)
        best, chosen, card = -1.0, np.int64(-1), starts[level]
        for at in range(starts[level], starts[level + 1]):
            if chosen >= 0 and _rough_worth(kind, cards, at, now) < best * (1.0 - _WORTH_RELATIVE_ERROR):
                continue
            k = np.int64(at)
            for _ in range(level + 1):
                k = places[k]
            worth = _exact(kind, rates[k], weights[k], sizes[k], now - cards[at, 2])
            if chosen < 0 or worth > best or (worth == best and k < chosen):
                best, chosen, card = worth, k, np.int64(at)
        times[drawn], elements[drawn] = now, chosen
        drawn += 1
        spent += sizes[chosen]
        mean += (sizes[chosen] - mean) / 64.0
        cards[card, 2] = now
        for above in range(level, 0, -1):
            card = places[card]
            cards[card, 2] = now
            polls[above] -= 1
    depth[0] = level
    return spent, drawn, mean
