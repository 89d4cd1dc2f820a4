"""Jitter: intervals stretched by random factors, compiled.

A factor is drawn by the number of the element and the moment of its last poll, so it is the same whenever it
is asked for, wherever the element stands in the table.
"""

import numpy as np
from numba import njit

from unstale.draws import JITTER, key_of, uniform

_KEY = key_of(0, JITTER)


@njit(cache=True, nogil=True, error_model="numpy")
def stretch(since, jitter, element, last, found):
    """Write the time since the last polls, each stretched by a factor between 1 - jitter and 1 + jitter."""
    polls = last.view(np.uint64)
    for i in range(since.size):
        drawn = uniform(_KEY, element[i], polls[i])
        found[i] = since[i] / (1.0 + jitter[i] * (2.0 * drawn - 1.0))
