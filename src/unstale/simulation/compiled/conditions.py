"""What can happen to a poll: it comes late, it takes time, it fails."""

import math

from numba import njit

from unstale.draws import uniform

__all__ = ["fate"]


@njit(inline="always")
def fate(key, element, count, conditions):
    """Return how late poll ``count`` of an element starts, how long it takes, and whether it succeeds.

    ``conditions`` are the mean lateness and the mean duration, both exponential, and the share that fails.
    """
    late, takes, fails = conditions
    delay = -late * math.log(uniform(key, element, 3 * count)) if late > 0.0 else 0.0
    duration = -takes * math.log(uniform(key, element, 3 * count + 1)) if takes > 0.0 else 0.0
    return delay, duration, fails <= 0.0 or uniform(key, element, 3 * count + 2) >= fails
