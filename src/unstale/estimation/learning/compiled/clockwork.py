"""Elements that change once in a period, each at its own moment: what polls say of that moment, compiled.

The moment of a period at which an element changes, its phase, is known as a probability for each of `BINS`
parts of the period. A change comes at the phase but for a spread, which is a mixture of three; how much each
counts is learned, too. Of a whole period without a change, the element has left one out.

A row of ``numbers`` has what is known besides: see the names below.
"""

import math

import numpy as np
from numba import njit

BINS = 96
"""Parts of a period."""
PERIOD_DAYS, BET, HITS, MISSES, OVERDUE, SPREAD = range(6)
"""The period in days; by how many nats it has bet better than a law of rates; periods that saw a change, and
those that saw none; the probability with which a change was expected since the last one; and from there on
what each spread counts."""
NUMBERS = 8
_SPREADS_BINS = (0.4, 2.0, 6.0)
"""Standard deviations of changes about the phase."""
REACH = 12
"""Parts of a period up to which a change may be off."""
_FIRST_SPREADS = (3.0, 0.6, 0.4)
_STRAY_SHARE = 0.01
"""Share of changes that come at any moment."""
_MOVES_PER_PERIOD = 0.01
"""Probability that the moment is another one from a period on."""
_MOVED_SILENT = 0.5
"""Probability that a poll sees no change since the job has moved to a later moment."""
_REMEMBERED_PERIODS = 40.0
_FIRST_HITS, _FIRST_MISSES = 4.75, 0.25
FIRST_PERIODS = (HITS, _FIRST_HITS), (MISSES, _FIRST_MISSES)
"""Periods that each element has seen with a change, and without one, before any poll."""
_LEAST_PROBABILITY = 1e-4
_OTHERWISE = 0.05
"""Share of clocks that do not do as others of their class do."""
_MOST_BET = 12.0
"""Nats: what bets better than ever must still be able to lose, when its job moves."""
_TELLING_SHARE = 0.95
"""Share of a period: polls that are further apart see a change whatever its phase is."""
WEIGHTS = 60_000.0
"""Probabilities are kept as whole numbers that add up to about this."""


def _taps() -> np.ndarray:
    edges = np.arange(-REACH, REACH + 2) - 0.5
    rows = [
        np.diff([0.5 * math.erf(edge / (spread * math.sqrt(2.0))) for edge in edges])
        for spread in _SPREADS_BINS
    ]
    return np.array([row / row.sum() for row in rows])


TAPS = _taps()
"""The probability of each distance from the phase, by spread."""


@njit(cache=True, nogil=True, error_model="numpy")
def start_row(phases, numbers, row, days, bet, typical):
    """Begin with a phase of which no more is known than what is typical."""
    for k in range(BINS):
        phases[row, k] = int(WEIGHTS * typical[k] + 0.5)
    numbers[row] = 0.0
    numbers[row, PERIOD_DAYS], numbers[row, BET] = days, bet
    for j in range(len(_FIRST_SPREADS)):
        numbers[row, SPREAD + j] = _FIRST_SPREADS[j]


@njit(cache=True, nogil=True, error_model="numpy")
def regularity(numbers, row):
    """Return the probability that a period sees a change."""
    hits, misses = numbers[row, HITS] + _FIRST_HITS, numbers[row, MISSES] + _FIRST_MISSES
    return hits / (hits + misses)


@njit(cache=True, nogil=True, error_model="numpy")
def _shares(numbers, row):
    """Return how much each spread counts."""
    found = np.empty(len(_SPREADS_BINS))
    for j in range(found.size):
        found[j] = numbers[row, SPREAD + j]
    return found / found.sum()


@njit(cache=True, nogil=True, error_model="numpy")
def _probabilities(phases, row, found):
    total = 0.0
    for k in range(BINS):
        total += phases[row, k]
    for k in range(BINS):
        found[k] = phases[row, k] / total


@njit(cache=True, nogil=True, error_model="numpy")
def _cover(period, start, length, found):
    """Write which share of each part of a period is in an interval that is no longer than a period."""
    found[:] = 0.0
    width = period / BINS
    low = (start - math.floor(start / period) * period) / width
    high = low + length / width
    k = int(low)
    while k < high:
        found[k % BINS] += min(high, k + 1.0) - max(low, float(k))
        k += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _point(period, moment, found):
    """Write a moment as shares of the two parts of a period whose middles are nearest."""
    found[:] = 0.0
    place = (moment - math.floor(moment / period) * period) / period * BINS - 0.5
    k = math.floor(place)
    found[int(k) % BINS] += 1.0 - (place - k)
    found[int(k + 1) % BINS] += place - k


@njit(cache=True, nogil=True, error_model="numpy")
def _spread_out(covered, j, found):
    """Write for each phase the probability that a change of a spread falls into what is covered."""
    for k in range(BINS):
        total = 0.0
        for d in range(2 * REACH + 1):
            tap = TAPS[j, d]
            if tap > 1e-9:
                total += tap * covered[(k + d - REACH) % BINS]
        found[k] = total


@njit(cache=True, nogil=True, error_model="numpy")
def change_probability(phases, numbers, row, period, start, end):
    """Return the probability of a change between two moments."""
    often, gap = regularity(numbers, row), max(end - start, 0.0)
    whole = math.floor(gap / period)
    covered, of_phase, q = np.empty(BINS), np.empty(BINS), np.empty(BINS)
    _cover(period, start, gap - whole * period, covered)
    _probabilities(phases, row, q)
    shares, inside = _shares(numbers, row), _STRAY_SHARE * covered.mean()
    for j in range(shares.size):
        _spread_out(covered, j, of_phase)
        inside += (1.0 - _STRAY_SHARE) * shares[j] * (q * of_phase).sum()
    return 1.0 - (1.0 - often) ** whole * (1.0 - often * inside)


@njit(cache=True, nogil=True, error_model="numpy")
def hear_clockwork(phases, numbers, rows, day, last, time, changed, ages, typical, against, due):
    """Take in polls of elements that have a row.

    ``ages`` are those of the last changes, nan where unknown; ``typical`` the levels of parts of a day, or
    of a week, of the class of each; ``against`` the losses of the law of rates, in nats (of densities per
    unit of time, where an age is known). ``due`` gets the probabilities with which changes were to be seen; 1
    where their times are told.
    """
    covered, q, combined = np.empty(BINS), np.empty(BINS), np.empty(BINS)
    by_spread = np.empty((len(_SPREADS_BINS), BINS))
    for i in range(rows.size):
        row, start, end = rows[i], last[i], time[i]
        period = day * numbers[row, PERIOD_DAYS]
        gap = end - start
        if not gap > 1e-6 * period:
            continue
        turns = gap / period
        _probabilities(phases, row, q)
        stays = math.exp(-_MOVES_PER_PERIOD * turns)
        for k in range(BINS):
            q[k] = stays * q[k] + (1.0 - stays) * typical[i, k]
        fade = math.exp(-turns / _REMEMBERED_PERIODS)
        for m in range(BET, NUMBERS):
            numbers[row, m] *= fade
        for j in range(len(_FIRST_SPREADS)):
            numbers[row, SPREAD + j] += (1.0 - fade) * _FIRST_SPREADS[j]
        often, shares = regularity(numbers, row), _shares(numbers, row)
        told = changed[i] and ages[i] >= 0.0
        if told:
            age = min(ages[i], gap)
            whole = math.floor(age / period)
            _point(period, end - age, covered)
        else:
            whole = math.floor(turns)
            _cover(period, start, gap - whole * period, covered)
        left_out = (1.0 - often) ** whole
        stray = _STRAY_SHARE * covered.mean()
        combined[:] = stray
        inside = np.empty(shares.size)
        for j in range(shares.size):
            _spread_out(covered, j, by_spread[j])
            inside[j] = stray + (1.0 - _STRAY_SHARE) * (q * by_spread[j]).sum()
            combined += (1.0 - _STRAY_SHARE) * shares[j] * by_spread[j]
        expected = (shares * inside).sum()
        due[i] = 1.0 if told else 1.0 - left_out * (1.0 - often * expected)
        if told:  # densities
            likely = max(left_out * often * expected * BINS / period, _LEAST_PROBABILITY / period)
            weight = inside
            numbers[row, MISSES] += whole
            numbers[row, HITS] += 1.0
        elif changed[i]:
            likely = max(1.0 - left_out * (1.0 - often * expected), _LEAST_PROBABILITY)
            combined = 1.0 - left_out * (1.0 - often * combined)
            weight = 1.0 - left_out * (1.0 - often * inside)
            numbers[row, HITS] += 1.0
        else:
            likely = max(left_out * (1.0 - often * expected), _LEAST_PROBABILITY)
            combined = left_out * (1.0 - often * combined)
            weight = left_out * (1.0 - often * inside)
            numbers[row, MISSES] += whole + expected * (1.0 - often) / (1.0 - often * expected)
            numbers[row, OVERDUE] = min(numbers[row, OVERDUE] + whole + expected, 1.0)
        if changed[i]:
            numbers[row, OVERDUE] = 0.0
        numbers[row, BET] = min(max(numbers[row, BET] + math.log(likely) + against[i], -_MOST_BET), _MOST_BET)
        moved = 0.0 if changed[i] else _MOVED_SILENT * (1.0 - stays)
        for k in range(BINS):  # a job that has moved to a later moment has left nothing out
            q[k] = max(q[k] * combined[k], moved * typical[i, k])
        total, likely = q.sum(), (shares * weight).sum()
        if total > 0.0 and likely > 0.0:
            for j in range(shares.size):
                numbers[row, SPREAD + j] += shares[j] * weight[j] / likely
            for k in range(BINS):
                phases[row, k] = int(WEIGHTS * q[k] / total + 0.5)


@njit(cache=True, nogil=True, error_model="numpy")
def shift_bets(before, numbers, places, rows, day, last, time, changed, bets):
    """Add up what each shift of all phases, and phases at random, have bet on what polls saw.

    ``before`` are probabilities of phases, of which ``places`` are those of the polls, and ``rows`` what else
    is known of these. ``bets`` are logarithms, by shift; the last is that of phases at random.
    """
    covered, of_phase, seen = np.empty(BINS), np.empty(BINS), np.empty(BINS)
    for i in range(places.size):
        row, gap = rows[i], time[i] - last[i]
        whole = math.floor(gap / day)
        _cover(day, last[i], gap - whole * day, covered)
        often, shares = regularity(numbers, row), _shares(numbers, row)
        seen[:] = _STRAY_SHARE * covered.mean()
        for j in range(shares.size):
            _spread_out(covered, j, of_phase)
            for k in range(BINS):
                seen[k] += (1.0 - _STRAY_SHARE) * shares[j] * of_phase[k]
        mean = 0.0
        for k in range(BINS):
            still = (1.0 - often) ** whole * (1.0 - often * seen[k])
            seen[k] = 1.0 - still if changed[i] else still
            mean += seen[k] / BINS
        for d in range(BINS):
            likely = 0.0
            for k in range(BINS):
                likely += before[places[i], k] * seen[(k + d) % BINS]
            bets[d] += math.log(max((1.0 - _OTHERWISE) * likely + _OTHERWISE * mean, _LEAST_PROBABILITY))
        bets[BINS] += math.log(max(mean, _LEAST_PROBABILITY))


@njit(cache=True, nogil=True, error_model="numpy")
def phase_after(phases, row, period, last, share):
    """Return the phase, in parts of a period, up to which a share lies of what may come after a moment."""
    total, first = 0.0, int((last - math.floor(last / period) * period) / period * BINS) + 1
    for k in range(BINS):
        total += phases[row, k]
    wanted = share * total
    for k in range(first, first + BINS):
        weight = float(phases[row, k % BINS])
        if wanted < weight:
            return k % BINS + wanted / weight
        wanted -= weight
    return first - 0.5


@njit(cache=True, nogil=True, error_model="numpy")
def profile_about(numbers, row, period, edges, levels):
    """Write the levels of changes about a phase, in a period that begins `REACH` and a half parts before it.

    There are as many pieces as parts within reach, and one more, which has the rest of the period.
    """
    width, shares, near = period / BINS, _shares(numbers, row), 2 * REACH + 1
    for d in range(near):
        edges[d] = d * width
        tap = 0.0
        for j in range(shares.size):
            tap += shares[j] * TAPS[j, d]
        levels[d] = _STRAY_SHARE + (1.0 - _STRAY_SHARE) * tap * BINS
    edges[near], edges[near + 1], levels[near] = near * width, period, _STRAY_SHARE


@njit(cache=True, nogil=True, error_model="numpy")
def screen_polls(places, days, day, last, time, changed, ages, against, least, bets):
    """Let elements without a row bet on one change in each period, at a phase of which nothing is known.

    ``bets`` has a column for each period. Returned is, for each poll, the number of the period, from 1 on,
    whose phase is worth finding out, or 0: that of one that has bet better than ``least``, if the poll says
    something of the phase.
    """
    found = np.zeros(places.size, np.int64)
    often = _FIRST_HITS / (_FIRST_HITS + _FIRST_MISSES)
    for i in range(places.size):
        gap, most = time[i] - last[i], least[i]
        for m in range(days.size):
            period = day * days[m]
            if not gap > 1e-6 * period:
                continue
            told = changed[i] and ages[i] >= 0.0
            whole = math.floor((min(ages[i], gap) if told else gap) / period)
            left_out = (1.0 - often) ** whole
            if told:
                likely = max(left_out * often, _LEAST_PROBABILITY) / period
            else:
                still = left_out * (1.0 - often * (gap / period - whole))
                likely = max(1.0 - still if changed[i] else still, _LEAST_PROBABILITY)
            bet = math.exp(-gap / period / _REMEMBERED_PERIODS) * bets[m][places[i]]
            bet = min(max(bet + math.log(likely) + against[i], -_MOST_BET), _MOST_BET)
            bets[m][places[i]] = bet
            if bet > most and (told or gap < _TELLING_SHARE * period):
                most, found[i] = bet, m + 1
    return found
