"""Promises of sources that an element stays as it is for a time, and how far they are believed.

Cache-Control: max-age and Expires say until when a copy may be taken for fresh. Some servers know when they
publish next; most send the same ten minutes with everything. So what is said must prove true, group by group.
While a promise lasts, changes come at some share of the element's usual rate: 0 if promises are always kept,
1 if they say nothing. That share is the speed of an operational time: until the promise ends, time goes by
that much more slowly. It is learned from what polls see, beside what they would see without a promise, and a
new group is not believed.

With the speed m for a time T and 1 after that, the worth of a poll for freshness is an integral over two
parts; in operational time u = m t, and u = t - (1 - m) T from T on, both are worths of the plain law.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unstale import kernels, uncertain_kernels
from unstale.arguments import Floats

from .element_table import ElementTable, Places

_MEMORY_POLLS = 500.0
"""Polls of a group after which what its promises were worth counts 1/e."""
_FIRST_SPEED_AND_INFORMATION = (1.0, 4.0)
"""Before anything is known of a group: its promises say nothing, and that is worth a few polls."""
_LEAST_SPEED = 1e-3
_STANDARD_ERRORS = 2.0
"""By which a speed is taken to be higher than it seems: a promise has to prove true."""
_BELIEVED_BELOW_SPEED = 0.9
"""Speed below which promises make a difference."""


class Expiries:
    """How fast time goes by for elements while promises last, by group."""

    def __init__(self, table: ElementTable) -> None:
        self._table = table
        self._learned = np.array([_FIRST_SPEED_AND_INFORMATION])

    def speeds(self, places: Places) -> Floats:
        """Return how fast time goes by for elements while their promises last: not slower than is sure."""
        speed, known = self._of(self._table["group"][places]).T
        return np.minimum(speed + _STANDARD_ERRORS / np.sqrt(known), 1.0)

    def _of(self, groups: NDArray[np.integer]) -> Floats:
        if (more := int(groups.max(initial=0)) + 1 - self._learned.shape[0]) > 0:
            self._learned = np.concatenate(
                [self._learned, np.tile(np.array([_FIRST_SPEED_AND_INFORMATION]), (more, 1))]
            )
        return self._learned[groups]

    def passed(self, places: Places, since: Floats) -> Floats:
        """Return the time that goes by for elements in so long after the last polls."""
        stays = self._table["stays"][places].astype(np.float64)
        if not stays.any():
            return since
        return np.maximum(since - stays, 0.0) + self.speeds(places) * np.minimum(since, stays)

    def share(self, places: Places, since: Floats) -> Floats | float:
        """Return the time that goes by, as a share of the time since the last polls."""
        if (passed := self.passed(places, since)) is since:
            return 1.0
        return np.where(since > 0, passed / np.maximum(since, 1e-300), 1.0)

    def age(self, places: Places, elapsed: Floats, ages: Floats) -> Floats:
        """Return the time that has gone by since changes so long before polls, ``elapsed`` after the last."""
        return self.passed(places, elapsed) - self.passed(places, np.maximum(elapsed - ages, 0.0))

    def believed(self, places: Places) -> NDArray[np.bool_]:
        """Tell which elements are promised to stay, by a group that is believed."""
        found = self._table["stays"][places] > 0
        if found.any():
            found &= self.speeds(places) < _BELIEVED_BELOW_SPEED
        return found

    def worths(
        self, kind: int | None, places: Places, since: Floats, elapsed: Floats, law: tuple[Floats, Floats],
        values: Floats,
    ) -> Floats:  # fmt: skip
        """Return what polls are worth, for weight 1, given what they are worth by the time gone by alone.

        Parameters
        ----------
        kind
            The kernel of the objective; for all but freshness it is an approximation.
        places
            The elements.
        since, elapsed
            The time since the last poll of each, and the time that went by, in the unit of the law.
        law
            Shape and time of the gamma law of each.
        values
            What polls are worth by the time that went by.
        """
        promised = np.flatnonzero(self._table["stays"][places] > 0)
        if not promised.size:
            return values
        which, gone = places[promised], np.maximum(since[promised], 1e-300)
        speed, shape, time = self.speeds(which), law[0][promised], law[1][promised]
        share = self.passed(which, gone) / gone
        whole = elapsed[promised] / share
        slow = values[promised] / share
        if kind == kernels.FRESHNESS:
            end = self._table["stays"][which] * whole / gone
            with np.errstate(all="ignore"):
                before = time * uncertain_kernels.worth(kind, kernels.FIXED, shape, speed * end / time)
                fresh = [np.exp(-shape * np.log1p(u / time)) for u in (speed * end, elapsed[promised])]
            after = (
                values[promised] + (1.0 / speed - 1.0) * before + (1.0 - speed) * end * (fresh[0] - fresh[1])
            )
            slow = np.where(whole <= end, slow, after)
        found = values.copy()
        found[promised] = slow
        return found

    def learn(
        self,
        places: Places,
        elapsed: Floats,
        changed: NDArray[np.bool_],
        ages: Floats | None,
        by_clocks: tuple[Floats, Floats | None],
    ) -> tuple[Floats, Floats | None]:
        """Learn how far promises are kept; return elapsed times and ages as time went by under them.

        Parameters
        ----------
        places, elapsed, changed, ages
            As for `LearningPolicy.learn`.
        by_clocks
            Elapsed times and ages by the clocks of classes.
        """
        lived, since = by_clocks
        if not self._table["stays"][places].any():
            return lived, since
        self.judge(places, elapsed, changed)
        scale = lived / np.maximum(elapsed, 1e-300)
        told = None if ages is None or since is None else scale * self.age(places, elapsed, ages)
        return scale * self.passed(places, elapsed), told

    def judge(self, places: Places, elapsed: Floats, changed: NDArray[np.bool_]) -> None:
        """Learn how far promises are kept, from polls of elements that had one."""
        table = self._table
        told = np.flatnonzero((table["stays"][places] > 0) & (elapsed > 0))
        if not told.size:
            return
        which, gone = places[told], elapsed[told]
        inside = np.minimum(gone, table["stays"][which])
        groups, passed = table["group"][which], self.passed(which, gone)
        shape, time, _ = table.learner.gammas(passed, which)
        hazard = inside * shape / (time + passed)
        seen = -np.expm1(-shape * np.log1p(passed / time))
        odds = (1.0 - seen) / np.maximum(seen, 1e-9)
        score = hazard * np.where(changed[told], np.minimum(odds, 1e9), -1.0)
        size = self._learned.shape[0]
        polls = np.bincount(groups, minlength=size)
        speed, known = self._learned.T
        known = known * np.exp(-polls / _MEMORY_POLLS) + np.bincount(groups, hazard**2 * odds, size)
        speed = np.clip(speed + np.bincount(groups, score, size) / known, _LEAST_SPEED, 1.0)
        self._learned = np.stack([speed, known], axis=1)

    def state(self) -> dict[str, Any]:
        """Return all that is needed to go on later."""
        return {"expiries": self._learned.copy()}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was taken; older versions did not count."""
        kept = state.get("expiries", [_FIRST_SPEED_AND_INFORMATION])
        self._learned = np.array(kept, np.float64).reshape(-1, 2)
