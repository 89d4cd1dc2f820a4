"""Compiled: sums over the observed gaps of many elements, each with its own."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def counts(gaps, starts, which, times, out):
    """Count, for each time, the gaps of its law that are no longer; laws take turns along ``times``."""
    for i in range(times.size):
        law = which[i % which.size]
        first = starts[law]
        inside = gaps[first : starts[law + 1]]
        out[i] = first + np.searchsorted(inside, times[i], side="right")
