"""What copies go through between their polls and the changes of their elements."""

from __future__ import annotations

import numpy as np

import unstale
from unstale.arguments import Floats
from unstale.lab.experiment import Run


def followed(changes: Floats, polls: Floats, times: Floats) -> tuple[Floats, Floats]:
    """Return freshness (1 or 0) and age of one copy at some times, of which none is before the first poll."""
    last = polls[np.searchsorted(polls, times, side="right") - 1]
    following = np.append(changes, np.inf)
    lag = times - following[np.searchsorted(changes, last, side="right")]
    return (lag < 0.0).astype(float), np.maximum(lag, 0.0)


def averaged(run: Run, rate: float, copies: int, polls: Floats, times: Floats) -> tuple[Floats, Floats]:
    """Return the means of freshness and age over many copies at some times, and their standard errors."""
    changes = unstale.World(np.full(copies, rate)).changes(run.seed).until(float(times.max()) + 1.0)
    own = np.split(changes.times, changes.offsets[1:-1])
    paths = np.array([followed(one, polls, times) for one in own])
    return paths.mean(axis=0), paths.std(axis=0) / np.sqrt(copies)
