"""Elements with hints: those that no poll has followed yet, and what polls that did follow them tell.

A poll that follows a hint ends its interval because of a change. Taken for one that was made at any time, it
would say that changes come far more often than they do. So it is learned in two parts: there was no change
before the first hint, and one there. A change without a hint is one of those that give none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats

from .element_table import Places
from .hint_channels import MOST_MOMENTS, Channel, Channels
from .knowledge import Knowledge

_MOST_HINTS = 1000
"""Hints about an element that are counted."""
_LEAST_SHARE = 1e-6
"""Share of an interval that is left for the change, however soon after the hint the poll came."""

ByLevel = tuple[Floats, Floats | None]
"""Intervals by the levels of classes, and how long before polls the last changes were."""


class _Followed(NamedTuple):
    """Hints about an element that a poll has followed."""

    hints: int
    moments: list[float]


class HintedElements:
    """Who has hints, and what came of those that polls have followed."""

    def __init__(self, known: Knowledge) -> None:
        self._known, self._table = known, known.table
        self.waiting = known.hinted
        """Elements with hints that no poll has followed yet, and when these came."""
        self._followed: dict[int, _Followed] = {}
        """Places of elements that were polled after hints, until it is learned what the polls saw."""

    def add(self, place: int, channel: str, told: float, count: int, moments: Sequence[float] | None) -> None:
        """Take in hints about an element; the arguments are those of `LearningPolicy.hint`."""
        table = self._table
        table["channel"][place] = self._known.channels.number(channel)
        table["hints"][place] = min(int(table["hints"][place]) + count, _MOST_HINTS)
        came = self.waiting.setdefault(int(table["id"][place]), [])
        came += [told] * count if moments is None else moments
        came[:] = sorted(one for one in came if np.isfinite(one))[-MOST_MOMENTS:]

    def follow(self, places: Places) -> None:
        """Take it that elements are polled; what that shows comes later."""
        table = self._table
        for place in places[table["hints"][places] > 0].tolist() if self.waiting else ():
            moments = self.waiting.get(int(table["id"][place]), [])
            self._followed[place] = _Followed(int(table["hints"][place]), moments)
        self.forget(places)

    def take_back(self, places: Places) -> None:
        """Take it that elements are not polled after all."""
        for place in places.tolist() if self._followed else ():
            if (one := self._followed.pop(place, None)) is not None:
                self._table["hints"][place] = one.hints
                self.waiting[int(self._table["id"][place])] = one.moments

    def forget(self, places: Places) -> None:
        """Forget the hints about elements that have been polled."""
        if self.waiting:
            for element in self._table["id"][places].tolist():
                self.waiting.pop(element, None)
            self._table["hints"][places] = 0

    def learn_before(
        self,
        places: Places,
        time: Floats | None,
        elapsed: Floats,
        changed: NDArray[np.bool_],
        ages: Floats | None,
        by_level: ByLevel | None,
    ) -> tuple[Floats, Floats | None, ByLevel | None]:
        """Learn that there was no change before hints; return what is left to be learned of polls.

        Parameters
        ----------
        places, time, elapsed, changed, ages
            As for `LearningPolicy.learn`.
        by_level
            Intervals and ages by the levels of classes, if they have some.
        """
        hinted = np.flatnonzero(changed & (elapsed > 0) & (self._table["channel"][places] > 0))
        if not hinted.size:
            return elapsed, ages, by_level
        rest, found = elapsed.copy(), np.full(places.size, np.nan) if ages is None else ages.copy()
        hinted = hinted[np.isnan(found[hinted])]
        for k in hinted.tolist():
            count, moments = self._hints(int(places[k]))
            if not count:
                rest[k] *= self._channel(int(places[k])).silent
            elif time is not None and moments and moments[0] <= time[k]:
                rest[k] = found[k] = np.clip(time[k] - moments[0], _LEAST_SHARE * elapsed[k], elapsed[k])
        split = np.flatnonzero(rest < elapsed)
        before = None
        if by_level is not None:  # the same by the levels of classes
            lived, told = by_level
            share = rest[hinted] / elapsed[hinted]
            told = np.full(places.size, np.nan) if told is None else told.copy()
            told[hinted] = lived[hinted] * found[hinted] / elapsed[hinted]
            left = lived.copy()
            left[hinted] *= share
            before, by_level = ((lived - left)[split], None), (left, told)
        if split.size:
            quiet = np.zeros(split.size, np.bool_)
            self._table.learner.learn(places[split], (elapsed - rest)[split], quiet, by_level=before)
        return rest, found, by_level

    def judge(self, places: Places, elapsed: Floats, changed: NDArray[np.bool_]) -> None:
        """Learn how good hints are, from polls of elements that had some."""
        told = np.flatnonzero(self._table["channel"][places] > 0)
        if not told.size:
            return
        shape, time, _ = self._table.learner.gammas(elapsed[told], places[told])
        fresh = np.exp(-shape * np.log1p(elapsed[told] / time))
        for k, place in enumerate(places[told].tolist()):
            count, _ = self._hints(place)
            self._followed.pop(place, None)
            self._channel(place).learn(count, float(fresh[k]), changed=bool(changed[told[k]]))

    def _hints(self, place: int) -> _Followed:
        """Return the hints that the last poll of an element followed, or that it has now."""
        if place in self._followed:
            return self._followed[place]
        table = self._table
        return _Followed(int(table["hints"][place]), self.waiting.get(int(table["id"][place]), []))

    def _channel(self, place: int) -> Channel:
        return self._known.channels.channels[int(self._table["channel"][place])]

    def state(self) -> dict[str, Any]:
        """Return what is needed to go on later, besides the table."""
        counts = [(place, one.hints) for place, one in self._followed.items()]
        return {
            "channels": np.frombuffer(self._known.channels.text(), np.uint8),
            "followed": np.array(counts, np.int64).reshape(-1, 2),
            "followed_moments": _listed({place: one.moments for place, one in self._followed.items()}),
            "hint_moments": _listed(self.waiting),
        }

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was taken; older ones have no moments."""
        table = self._table
        self._known.channels = Channels.read(np.asarray(state["channels"], np.uint8).tobytes())
        self.waiting.clear()
        self.waiting.update({element: [] for element in table["id"][table["hints"] > 0].tolist()})
        for element, moment in np.reshape(state.get("hint_moments", ()), (-1, 2)).tolist():
            self.waiting.setdefault(int(element), []).append(moment)
        counts = np.asarray(state["followed"], np.int64).reshape(-1, 2).tolist()
        self._followed = {place: _Followed(count, []) for place, count in counts}
        for place, moment in np.reshape(state.get("followed_moments", ()), (-1, 2)).tolist():
            self._followed[int(place)].moments.append(moment)


def _listed(moments: Mapping[int, Sequence[float]]) -> Floats:
    """Return a row for each moment: whose it is, and when."""
    rows = [(number, one) for number, several in moments.items() for one in several]
    return np.array(rows, np.float64).reshape(-1, 2)
