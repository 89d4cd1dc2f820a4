"""The clocks of classes: operational time by what is learned of their rhythms, and worths by it.

A class without a rhythm has no clock, and nothing is computed for it: time is its operational time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats
from unstale.estimation.learning.learner import Learner
from unstale.estimation.learning.rhythm_learner import PollsOfElements, RhythmLearner

from .compiled.class_clocks import elapsed_of, moments_of, worths_of

STEPS_PER_HOUR = 12.0
"""Times that polls are chosen in an hour, at least, if there is a rhythm."""

_STUCK_JITTER = 0.45
"""Share by which intervals vary where polls say nothing of the hours: by half of a day, nearly."""

Classes = NDArray[np.intp]


class ClassClocks:
    """What the policy asks of rhythms.

    >>> clocks = ClassClocks(RhythmLearner(day=24.0))
    >>> clocks.any, clocks.elapsed(np.array([0]), np.array([2.0]), np.array([5.0])).tolist()
    (False, [3.0])
    """

    def __init__(self, rhythms: RhythmLearner) -> None:
        self.rhythms = rhythms

    @property
    def any(self) -> bool:
        """Whether any class has a rhythm."""
        return self.rhythms.any

    @property
    def step(self) -> float:
        """The longest time between two choices."""
        return self.rhythms.hour / STEPS_PER_HOUR if self.any else np.inf

    def jitter(self, classes: Classes) -> Floats | None:
        """Return by which share intervals must vary to find out the hours of changes; None if none must."""
        stuck = self.rhythms.stuck
        return np.where(stuck[classes], _STUCK_JITTER, 0.0) if stuck.any() else None

    def have_rhythm(self, classes: Classes) -> NDArray[np.bool_]:
        """Tell which of the elements of classes have a rhythm."""
        return np.asarray(self.rhythms.bins[classes] > 0)

    def elapsed(self, classes: Classes, start: Floats, end: Floats) -> Floats:
        """Return the operational time of elements between moments."""
        found, rhythms = end - start, self.rhythms
        if self.any:
            elapsed_of(classes, start, end, rhythms.hour, rhythms.bins, rhythms.levels, rhythms.passed, found)
        return found

    def worths(
        self, kind: int, classes: Classes, gammas: tuple[Floats, Floats], last: Floats, at: Floats
    ) -> Floats:
        """Return what polls at moments are worth, per unit of weight; nan where there is no rhythm.

        Parameters
        ----------
        kind
            The objective: freshness or age.
        classes
            Of the elements.
        gammas
            Shapes and times of the laws of their rates.
        last, at
            Moments of the last polls, and of those that are considered.
        """
        found, rhythms = np.full(classes.size, np.nan), self.rhythms
        worths_of(kind, classes, *gammas, last, at, rhythms.hour, rhythms.bins, rhythms.levels, found)
        return found

    def next_polls(
        self,
        kind: int,
        classes: Classes,
        gammas: tuple[Floats, Floats],
        last: Floats,
        *,
        since: Floats,
        prices: Floats,
        horizon: float,
    ) -> Floats:
        """Return when polls come to be worth their prices; nan where there is no rhythm.

        Parameters
        ----------
        kind, classes, gammas, last
            As for `worths`.
        since
            From when on.
        prices
            Per unit of weight.
        horizon
            How far ahead; its end stands for later.
        """
        found, rhythms = np.full(classes.size, np.nan), self.rhythms
        moments_of(
            kind, classes, *gammas, last, since, prices, horizon, rhythms.hour, rhythms.bins, rhythms.levels,
            found,
        )  # fmt: skip
        return found

    def learn(
        self,
        learner: Learner,
        places: NDArray[np.intp],
        time: Floats,
        elapsed: Floats,
        changed: NDArray[np.bool_],
        modified: Floats | None,
    ) -> tuple[Floats, Floats | None]:
        """Learn at what hours classes change; return elapsed times and ages in operational time.

        Parameters
        ----------
        learner
            What is known of elements, for what a change was worth as news.
        places, time
            The elements of the polls, and when those were.
        elapsed, changed
            The time since the poll before of each, and whether it had changed.
        modified
            How long before the polls the last changes were, where that is told; nan elsewhere.
        """
        classes, last = learner.classes_of(places), time - elapsed
        gone, ages = elapsed, modified
        if self.any:
            gone = self.elapsed(classes, last, time)
            ages = None if modified is None else self.elapsed(classes, time - modified, time)
        told = np.empty(0) if modified is None else modified
        self.rhythms.learn(
            PollsOfElements(classes, last, time, changed, *learner.gammas(gone, places), ages=told)
        )
        return gone, ages
