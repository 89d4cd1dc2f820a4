"""What there is to say about a sequence of polls, and Algorithm 3 to the letter."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import unstale
from unstale.arguments import Floats


def distances(whole: NDArray[np.int64], elements: NDArray[np.int64]) -> Floats:
    """Return the largest |t rho - N(t)| of any page after each slot, for rates in whole numbers."""
    t = np.arange(1, elements.size + 1)[:, None]
    made = np.cumsum(elements[:, None] == np.arange(whole.size), axis=0)
    found: Floats = np.abs(t * whole - made * whole.sum()).max(axis=1) / whole.sum()
    return found


def repeated(rates: Floats, weights: Floats, polls: unstale.schedule.Polls, period: float) -> float:
    """Return the weighted mean freshness if these polls are repeated for ever."""
    order = np.argsort(polls.elements, kind="stable")
    element, time = polls.elements[order], polls.times[order]
    new = np.diff(element) > 0
    first, last = np.append(True, new), np.append(new, True)
    following = np.append(time[1:], 0.0)
    following[last] = time[first] + period
    fresh = -np.expm1(-rates[element] * (following - time)) / rates[element]
    return float(weights[element] @ fresh / weights.sum() / period)


def as_printed(whole: NDArray[np.int64], slots: int) -> NDArray[np.int64]:
    """Lines 1 to 7, for all pages at once; whole numbers, so that no deadline slips."""
    total = whole.sum()
    delta, out = np.zeros_like(whole), np.empty(slots, np.int64)
    for t in range(slots):
        delta += whole
        due = np.where(delta > 0, -((delta - total) // whole), slots + total)
        out[t] = np.argmin(due)
        delta[out[t]] -= total
    return out
