"""Compiled: elements that are nearly alike, added up in cells."""

import numpy as np
from numba import njit

from ...kernels import AGE
from .demand import CHUNK_ELEMENTS, FAST_MATH, _filled, _piece

CELL_BITS = 8
"""Cells for each power of two of the unit, as a power of two."""
CELLS = 2048 << CELL_BITS

_CELL_SHIFT = 52 - CELL_BITS
_LARGEST = np.finfo(np.float64).max
_INFINITE = np.float64(np.inf).view(np.int64)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST_MATH)
def gather(n, columns, kind, cells, span):
    """Add elements to the cells of their units; stop with 1 if a number is not positive and finite, else 0.

    Columns are rate, weight and size; the mass is size times rate, the unit that over the weight, for age
    times another rate. A cell has the sums of mass, weight, weight/rate and mass*unit. ``span`` keeps the
    bits of the smallest and the largest unit.
    """
    fills = _filled(columns)
    masses, units, shares = np.empty(CHUNK_ELEMENTS), np.empty(CHUNK_ELEMENTS), np.empty(CHUNK_ELEMENTS)
    bits = units.view(np.int64)
    odd = 0
    smallest, largest = span[0], span[1]
    for start in range(0, n, CHUNK_ELEMENTS):
        m = min(CHUNK_ELEMENTS, n - start)
        rate = _piece(columns[0], start, m, fills[0])
        weight = _piece(columns[1], start, m, fills[1])
        size = _piece(columns[2], start, m, fills[2])
        for j in range(m):
            mass, w, r = size[j] * rate[j], weight[j], rate[j]
            masses[j], units[j], shares[j] = mass, mass / w, w / r
            odd += not ((mass > 0.0) & (mass <= _LARGEST) & (w > 0.0) & (w <= _LARGEST) & (r > 0.0))
        if kind == AGE:
            for j in range(m):
                units[j] *= rate[j]
        for j in range(m):  # the bits of positive floats are in the order of the floats
            smallest, largest = min(smallest, bits[j]), max(largest, bits[j])
        if odd or not 0 < smallest <= largest < _INFINITE:
            return 1
        for j in range(m):
            k = np.uint64(bits[j] >> _CELL_SHIFT)
            a, b, c, d = cells[k, 0], cells[k, 1], cells[k, 2], cells[k, 3]  # all at once: nothing waits
            cells[k, 0], cells[k, 1] = a + masses[j], b + weight[j]
            cells[k, 2], cells[k, 3] = c + shares[j], d + masses[j] * units[j]
    span[0], span[1] = smallest, largest
    return 0


@njit(cache=True, nogil=True)
def label(keys, most, out):
    """Number the distinct keys as they appear; return how many, or -1 if there are more than ``most``."""
    mask = 1
    while mask < 4 * most:
        mask *= 2
    slots = np.full(mask, -1, np.int64)
    known = np.empty(most, np.int64)
    mask -= 1
    count = 0
    for i in range(keys.size):
        key = keys[i]
        spot = ((key * np.int64(-7046029254386353131)) >> 29) & mask
        while True:
            number = slots[spot]
            if number < 0:
                if count == most:
                    return -1
                slots[spot] = count
                known[count] = key
                out[i] = count
                count += 1
                break
            if known[number] == key:
                out[i] = number
                break
            spot = (spot + 1) & mask
    return count
