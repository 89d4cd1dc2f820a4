"""Intervals stretched by luck, the same luck for an element after the same poll: compiled."""

import numpy as np
from numba import njit

from unstale.draws import PHASES, key_of, uniform

__all__ = ["stretch"]

_KEY = key_of(0, PHASES)


@njit(cache=True, nogil=True, error_model="numpy")
def stretch(since, jitter, element, last, found):
    """Write the time since the last polls, each stretched by a factor between 1 - jitter and 1 + jitter."""
    polls = last.view(np.uint64)
    for i in range(since.size):
        luck = uniform(_KEY, element[i], polls[i])
        found[i] = since[i] / (1.0 + jitter[i] * (2.0 * luck - 1.0))
