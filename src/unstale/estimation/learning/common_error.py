"""How far predictions for a class are off together: what intervals must allow for.

If elements changed independently of each other, the share of fresh copies would differ from its mean by
chance alone. But one cause changes many elements at once, and then all predictions are off at once. Each poll
predicts and sees. In a sixteenth of a round, the square of the sum of residuals exceeds the sum of variances
by what they have in common.

That is taken for white noise in the level of the class: in a time t its integral is off by sqrt(t), in
operational time, and two elements have in common what came since the later of their last polls.

The same is summed over a quarter of a round, and over one, since what goes on for longer does not show in
short sums: their polls have to share the time before them for that. The largest of the three counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats

from .compiled.common_error import (
    END,
    EXCESS,
    MOVES,
    NEVER,
    SQUARED_MOVES,
    WINDOW_COLUMNS,
    hear_residuals,
    hear_windows,
)

_COLUMNS = 6
_FIRST_VARIANCE, _FIRST_SQUARED_MOVES = 0.05**2, 10.0
"""Variance of the level over a round before any poll, and the weight of that."""
_LEAST_VARIANCE = 1e-6
_WINDOW_CELLS = np.array([4.0, 16.0])
_FIRST_WINDOWS = 2.0
"""As if so many windows had had the variance that is expected before any poll."""


class CommonErrors:
    """The variances of classes' levels, of noise that lasts a round.

    >>> errors = CommonErrors()
    >>> moments, half = np.arange(64) / 64, np.full(64, 0.5)
    >>> for k in range(100):    # all polls of a moment see the same, one time in two
    ...     changed, every = np.full(64, k % 2 == 0), np.zeros(64, np.intp)
    ...     errors.learn(1.0, every, k + moments, (np.full(64, 16.0), np.ones(64)), half, half, changed)
    >>> bool(errors.of(1)[0] > 0.5)
    True
    """

    def __init__(self) -> None:
        self._sums = np.zeros((0, _COLUMNS))
        self._windows = np.zeros((0, _WINDOW_CELLS.size, WINDOW_COLUMNS))

    def of(self, classes: int) -> Floats:
        """Return the variance of each of so many classes."""
        self._know(classes)
        excess = self._sums[:classes, EXCESS] + _FIRST_SQUARED_MOVES * _FIRST_VARIANCE
        found = excess / (self._sums[:classes, SQUARED_MOVES] + _FIRST_SQUARED_MOVES)
        count = np.maximum(self._windows[:classes, :, MOVES], 0.0)
        shared = self._windows[:classes, :, SQUARED_MOVES] / np.maximum(count, 1e-300)
        with np.errstate(divide="ignore", invalid="ignore"):
            by_window = self._windows[:classes, :, EXCESS] / (shared * (count + _FIRST_WINDOWS))
        by_window = np.where(count > 0, by_window, 0.0)
        by_window += _FIRST_VARIANCE * _FIRST_WINDOWS / (count + _FIRST_WINDOWS)
        most = np.maximum(found, by_window.max(axis=1, initial=0.0))
        return np.asarray(np.maximum(most, _LEAST_VARIANCE))

    def _know(self, classes: int) -> None:
        """Make room for so many classes."""
        if (more := classes - self._sums.shape[0]) > 0:
            self._sums = np.concatenate([self._sums, np.zeros((more, _COLUMNS))])
        if (more := classes - self._windows.shape[0]) > 0:
            blank = np.zeros((more, *self._windows.shape[1:]))
            blank[:, :, END] = NEVER
            self._windows = np.concatenate([self._windows, blank])

    def split(self, one: int, parent: int) -> None:
        """Let a class begin with all that is known of another."""
        self._know(max(one, parent) + 1)
        self._sums[one], self._windows[one] = self._sums[parent], self._windows[parent]

    def learn(
        self,
        cell: float,
        classes: NDArray[np.intp],
        time: Floats,
        spans: tuple[Floats, Floats],
        fresh: Floats,
        slopes: Floats,
        changed: NDArray[np.bool_],
    ) -> None:
        """Take in what polls saw, in about the order of time.

        Parameters
        ----------
        cell
            The time for which residuals are added up: a sixteenth of a round.
        classes, time
            Of the polls.
        spans
            The time since the poll before of each; and in operational time, in rounds.
        fresh
            The probabilities that they would see no change.
        slopes
            By how much each of these falls in a round.
        changed
            Whether they saw a change.
        """
        if time.size:
            self._know(int(classes.max()) + 1)
            elapsed, lived = spans
            hear_residuals(cell, classes, time, fresh, slopes * np.sqrt(lived), changed, self._sums)
            falls = slopes * lived
            hear_windows(cell, _WINDOW_CELLS, classes, time, elapsed, fresh, falls, changed, self._windows)

    def variance(self, classes: NDArray[np.intp], since: Floats, slopes: Floats) -> float:
        """Return the variance of the number of fresh copies, of what they have in common.

        The variance is the sum over pairs of slopes times the shorter time since their polls. That is the
        integral of the square of the sum of slopes of those that were polled longer ago.

        Parameters
        ----------
        classes
            Of the elements.
        since
            Operational time since their last polls, in rounds.
        slopes
            By how much each probability falls in that time, times its weight.
        """
        found, errors = 0.0, self.of(int(classes.max(initial=0)) + 1)
        for one in np.unique(classes).tolist():
            which = np.flatnonzero(classes == one)
            order = which[np.argsort(-since[which])]
            sums = np.cumsum(slopes[order])
            found += float(errors[one] * np.sum(sums**2 * -np.diff(since[order], append=0.0)))
        return found

    def state(self) -> dict[str, Any]:
        """Return all that is needed to go on later."""
        return {"common_errors": self._sums.copy(), "common_windows": self._windows.copy()}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was taken; older versions did not count."""
        kept = state.get("common_errors", np.zeros((0, _COLUMNS)))
        self._sums = np.array(kept, np.float64).reshape(-1, _COLUMNS)
        kept = state.get("common_windows", np.zeros((0, _WINDOW_CELLS.size, WINDOW_COLUMNS)))
        self._windows = np.array(kept, np.float64).reshape(-1, _WINDOW_CELLS.size, WINDOW_COLUMNS)
