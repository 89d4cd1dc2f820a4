"""What polls are worth if rates are known as gamma laws: compiled, for freshness."""

import math

import numpy as np
from numba import njit

from ..draws import PHASES, key_of, uniform

__all__ = ["gamma_worths", "stretch"]

_KEY = key_of(0, PHASES)


@njit(cache=True, nogil=True, error_model="numpy")
def _worth(shape, z):
    """Return the integral of shape v (1+v)^-(shape+1) from 0 to z, to about nine digits."""
    log = math.log1p(z)
    if shape > 2.5:
        if shape * z > 1e-3:
            return (1.0 - (1.0 + shape * z) * math.exp(-shape * log)) / (shape - 1.0)
    elif z > 1e-3:
        short = -math.expm1(-shape * log) / shape
        q = 1.0 - shape
        return shape * ((math.expm1(q * log) / q if abs(q) > 1e-9 else log) - short)
    step = (shape + 1.0) * z
    return 0.5 * shape * z * z * (1.0 - step * (2.0 / 3.0 - 0.25 * (step + z)))


@njit(cache=True, nogil=True, error_model="numpy")
def gamma_worths(shape, time, since, unit, values):
    """Write what a poll of each element is worth so long after the last one."""
    for i in range(since.size):
        if unit[i] > 0.0 and since[i] > 0.0:
            values[i] = unit[i] * time[i] * _worth(shape[i], since[i] / time[i])
        else:
            values[i] = 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def stretch(since, jitter, element, last, found):
    """Write the time since the last polls, stretched by the luck that each element has after that poll."""
    polls = last.view(np.uint64)
    for i in range(since.size):
        luck = uniform(_KEY, element[i], polls[i])
        found[i] = since[i] / (1.0 + jitter[i] * (2.0 * luck - 1.0))
