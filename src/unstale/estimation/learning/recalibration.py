"""What is said of copies, corrected by what polls of others of the class have seen.

A law of an element says how probably nothing has changed, exp(-H). If a class changes more or less than its
laws say, H is off by a factor. Its logarithm is a constant, plus so much for fast elements, plus so much for
those whose last poll saw a change: three numbers for each class, which follow the outcomes of polls (Fisher
scoring of a complementary log-log regression). They say how fresh copies are, and do not choose polls.

Polls are no random sample of moments. They see each element at the end of an interval, never in between, and
those that are polled often more often. A poll that looks back over t stands for all moments of t. A factor
1 + d moves what is said at the end by d H F, and what is said of the moments by the integral of that, so the
residual of the poll counts as often as the second is more than the first. Of what happens between two polls
at what age, polls at the ends say nothing: changes in bursts, or evenly spaced ones, stay unknown.

Where sources tell when the last change was, polls do say it. The time back from a poll to the last change has
the law of the time on from a poll to the next one, whatever the gaps are like. So a poll at which nothing had
changed for q tells of a copy that is fresh at all ages below q, and stale beyond. The mean over all ages up
to that of the poll is what is asked for, and nothing has to be taken from the law.

One cause changes many elements at once. In a round, the square of the sum of residuals exceeds what chance
explains; by so much less each poll counts. The correction bets against none, and counts as much as it earned.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats

from .compiled.recalibration import (
    CELL,
    COLUMNS,
    CORRECTION,
    CREDENCE,
    INFORMATION,
    NEVER,
    PRECISION,
    SQUARED_RESIDUALS,
    SQUARED_WEIGHT,
    TERMS,
    WEIGHT,
    WINDOW,
    WINDOWS,
    correct,
    hear_outcomes,
)

_FIRST_WINDOWS, _FIRST_EXCESS = 2.0, 5.0
"""As if sums of residuals had been squared so often, and so many times what chance explains: that elements
change together is to be expected, and is seen late where there are few rounds."""
_BETWEEN_POLLS = 0.07
"""Standard deviation of the logarithm by which hazards between polls are off though those at polls are right:
polls do not tell, so this is by recorded histories."""


class Laws(NamedTuple):
    """Laws of rates, shapes and times, and the probabilities of hope."""

    shape: Floats
    time: Floats
    hope: Floats


class Recalibration:
    """By how much more classes change than the laws of their elements say.

    >>> calibrated, moments, every = Recalibration(), np.arange(64) / 64, np.zeros(64, np.intp)
    >>> laws = Laws(np.full(64, 9.0), np.full(64, 9.0), np.ones(64))    # once in a time of 1
    >>> one, no, yes = np.ones(64), np.zeros(64, np.bool_), np.ones(64, np.bool_)
    >>> for k in range(60):    # and a change comes in a time of 2
    ...     seen = np.arange(64) % 5 < 2
    ...     _ = calibrated.learn(1.0, every, k + moments, (one, one), laws, no, yes, seen)
    >>> bool(0.4 < calibrated.factors(1.0, every[:1], laws.shape[:1], laws.time[:1], no[:1])[0] < 0.6)
    True
    """

    def __init__(self) -> None:
        self._rows = np.zeros((0, COLUMNS))

    def _know(self, classes: int) -> None:
        """Make room for so many classes."""
        if (more := classes - self._rows.shape[0]) > 0:
            blank = np.zeros((more, COLUMNS))
            blank[:, [WEIGHT, SQUARED_WEIGHT]] = 1e-9
            blank[:, SQUARED_RESIDUALS], blank[:, WINDOWS] = _FIRST_WINDOWS * _FIRST_EXCESS, _FIRST_WINDOWS
            blank[:, [CELL, WINDOW]], blank[:, CREDENCE] = NEVER, 0.5
            self._rows = np.concatenate([self._rows, blank])

    def split(self, one: int, parent: int) -> None:
        """Let a class begin with all that is known of another."""
        self._know(max(one, parent) + 1)
        self._rows[one] = self._rows[parent]

    def rescale(self, ratio: float) -> None:
        """Take it that a round is so many times as long from now on."""
        constant, by_rate = self._rows[:, CORRECTION].T[:2]
        constant -= by_rate * np.log(ratio)
        self._rows[:, CELL] = self._rows[:, WINDOW] = NEVER

    def learn(
        self,
        round: float,  # noqa: A002
        classes: NDArray[np.intp],
        time: Floats,
        spans: tuple[Floats, Floats],
        laws: Laws,
        stirred: NDArray[np.bool_],
        counts: NDArray[np.bool_],
        changed: NDArray[np.bool_],
        quiet: Floats | None = None,
    ) -> Floats:
        """Take in what polls saw, in about the order of time; return the factors before each.

        Parameters
        ----------
        round
            About the time between two polls of an element.
        classes, time
            Of the polls.
        spans
            The time since the poll before of each, and the same in operational time.
        laws
            Of the elements, before the polls.
        stirred
            Whether the poll before saw a change.
        counts
            Which polls say something of the laws.
        changed
            Whether they saw a change.
        quiet
            For how long before the poll there was none, in operational time, where that is told; nan
            elsewhere.
        """
        self._know(int(classes.max(initial=0)) + 1)
        factors = np.empty(time.size)
        told = np.full(time.size, np.nan) if quiet is None else quiet
        hear_outcomes(
            round, classes, time, *spans, *laws, stirred, counts, changed, told, self._rows, factors
        )
        return factors

    def factors(
        self,
        round: float,  # noqa: A002
        classes: NDArray[np.intp],
        shape: Floats,
        time: Floats,
        stirred: NDArray[np.bool_],
    ) -> Floats:
        """Return by how much more elements change than their laws, shapes and times, say."""
        self._know(int(classes.max(initial=0)) + 1)
        factors = np.empty(classes.size)
        correct(round, classes, shape, time, stirred, self._rows, factors)
        return factors

    def variance(
        self,
        round: float,  # noqa: A002
        classes: NDArray[np.intp],
        laws: Laws,
        stirred: NDArray[np.bool_],
        slopes: Floats,
    ) -> float:
        """Return the variance of a sum that comes of not knowing corrections better.

        Part of that is what no poll tells: how elements of a class change between two of them.

        Parameters
        ----------
        round, classes, laws, stirred
            As for `factors`.
        slopes
            By how much each part of the sum falls if its element changes e times as much.
        """
        rate = np.clip(np.log(laws.shape / laws.time * round), -3.0, 3.0)
        terms = np.stack([np.ones(rate.size), rate, np.where(stirred, 0.5, -0.5)])
        found = 0.0
        for one in np.unique(classes).tolist():
            which = classes == one
            by = terms[:, which] @ slopes[which]
            told = self._rows[one, INFORMATION].reshape(TERMS, TERMS) + PRECISION * np.eye(TERMS)
            found += float(by @ np.linalg.solve(told, by)) + (_BETWEEN_POLLS * float(by[0])) ** 2
        return found

    def unknown(self, classes: int) -> Floats:
        """Return what part of how far the whole of each class may be off polls have not told yet."""
        self._know(classes)
        return np.asarray(PRECISION / (PRECISION + self._rows[:classes, INFORMATION][:, 0]))

    def state(self) -> dict[str, Any]:
        """Return all that is needed to go on later."""
        return {"recalibration": self._rows.copy()}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was taken; older versions corrected nothing."""
        kept = state.get("recalibration", np.zeros((0, COLUMNS)))
        self._rows = np.array(kept, np.float64).reshape(-1, COLUMNS)
