"""Jitter and random orders: intervals stretched by random factors, compiled.

A factor is drawn by the number of the element and the moment of its last poll, so it is the same whenever it
is asked for, wherever the element stands in the table.
"""

import numpy as np
from numba import njit

from unstale.draws import JITTER, PHASES, key_of, uniform
from unstale.kernels import RANDOM

_KEY, _SECOND_KEY = key_of(0, JITTER), key_of(0, PHASES)


@njit(cache=True, nogil=True, error_model="numpy")
def stretch(since, jitter, element, last, found):
    """Write the time since the last polls, each stretched by a factor between 1 - jitter and 1 + jitter."""
    polls = last.view(np.uint64)
    for i in range(since.size):
        drawn = uniform(_KEY, element[i], polls[i])
        found[i] = since[i] / (1.0 + jitter[i] * (2.0 * drawn - 1.0))


@njit(cache=True, nogil=True, error_model="numpy")
def spread(since, order, element, last, found):
    """Write the time since the last polls, each stretched by a factor as gaps of a random order have it.

    With one poll at a random moment of each round, gaps are 1 + u - v rounds long; purely random polls have
    exponential gaps.
    """
    polls = last.view(np.uint64)
    for i in range(since.size):
        drawn = uniform(_KEY, element[i], polls[i])
        if order == RANDOM:
            factor = 1.0 + drawn - uniform(_SECOND_KEY, element[i], polls[i])
        else:
            factor = -np.log(drawn)
        found[i] = since[i] / factor
