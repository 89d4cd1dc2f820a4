"""Elements with hints: those that no poll has followed yet, and what polls that did follow them tell.

A poll that follows a hint ends its interval because of a change. Taken for one that was made at any time, it
would say that changes come far more often than they do. With the recall q and the precision of the channel,
n hints are n times the precision of changes that give hints, and those come q times as often as all. A change
without a hint is one of those that give none.
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
_MOST_CHANGES = 20
"""Changes with hints before a poll that tell what is typical of elements."""
_LEAST_SHARE = 1e-6
"""Share of an interval that is left for changes with hints, however few there seem to be."""

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
        table["channel", place] = self._known.channels.number(channel)
        table["hints", place] = min(int(table["hints"][place]) + count, _MOST_HINTS)
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
                self._table["hints", place] = one.hints
                self.waiting[int(self._table["id"][place])] = one.moments

    def forget(self, places: Places) -> None:
        """Forget the hints about elements that have been polled."""
        if self.waiting:
            for element in self._table["id"][places].tolist():
                self.waiting.pop(element, None)
            self._table["hints", places] = 0

    def learn(
        self,
        places: Places,
        elapsed: Floats,
        changed: NDArray[np.bool_],
        ages: Floats | None,
        lived: Floats,
        by_level: ByLevel | None,
    ) -> None:
        """Learn how elements change and how good hints are, from polls that saw something.

        Parameters
        ----------
        places, elapsed, changed, ages
            As for `Learner.learn`.
        lived
            Intervals by the clocks that classes go by.
        by_level
            Intervals and ages by the levels of classes, if they have some.
        """
        learner = self._table.learner
        if not self._table["channel"][places].any():
            learner.learn(places, elapsed, changed, modified=ages, by_level=by_level)
            return
        recall, factor = self._known.channels.reliability(self._table["channel"][places])
        counts, unhinted = self._judge(places, lived, changed)
        late = changed & (elapsed > 0) & (recall > 0)
        if ages is not None:
            late &= np.isnan(ages)
        silent, hinted = late & (counts == 0), late & (counts > 0)
        none = np.minimum(factor**counts * unhinted, 1.0 - 1e-9)
        true = np.where(hinted, (1.0 - factor) * counts / (1.0 - none), 1.0)
        share = np.where(silent, 1.0 - recall, np.where(hinted, np.maximum(recall, _LEAST_SHARE), 1.0))
        times = np.where(hinted, np.clip(np.rint(true), 1, _MOST_CHANGES), 1).astype(np.intp)
        each = np.repeat(np.arange(places.size), times)  # changes that gave hints, equally far apart
        part, again = (share / times)[each], hinted[each]
        if silent.any():
            quiet = ((1.0 - share) * elapsed)[silent]
            before = None if by_level is None else (((1.0 - share) * by_level[0])[silent], None)
            learner.learn(places[silent], quiet, np.zeros(quiet.size, np.bool_), by_level=before)
        learner.learn(
            places[each],
            part * elapsed[each],
            changed[each],
            modified=_ages(None if ages is None else ages[each], part * elapsed[each], again),
            by_level=None if by_level is None else _by_level(by_level, each, part, again),
        )
        if hinted.any():
            others = factor**counts * (1.0 - unhinted) / (1.0 - none)
            back = np.stack([elapsed, elapsed if by_level is None else by_level[0]]) * (1.0 - recall)
            learner.credit(
                places[hinted], np.subtract(true, times, dtype=float)[hinted], others[hinted], back[:, hinted]
            )

    def _judge(
        self, places: Places, lived: Floats, changed: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], Floats]:
        """Learn how good hints are.

        Return how many each poll followed, and how probably there was no change without a hint.
        """
        counts, channels = np.zeros(places.size, np.int64), self._table["channel"][places]
        told = np.flatnonzero(channels)
        for k, place in zip(told.tolist(), places[told].tolist(), strict=True):
            counts[k] = self._hints(place).hints
            self._followed.pop(place, None)
        shape, time, _ = self._table.learner.gammas(lived, places)
        unhinted = self._known.channels.unhinted(channels, shape, time, lived, counts)
        for k in told.tolist():
            self._channel(int(places[k])).learn(
                int(counts[k]), float(shape[k]), float(lived[k] / time[k]), changed=bool(changed[k])
            )
        return counts, unhinted

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


def _ages(told: Floats | None, gone: Floats, hinted: NDArray[np.bool_]) -> Floats:
    """Return the ages of changes: as told, or all the time that a change with a hint took."""
    return np.where(hinted, gone, np.nan if told is None else told)


def _by_level(by_level: ByLevel, each: Places, part: Floats, hinted: NDArray[np.bool_]) -> ByLevel:
    """Return the same by the levels of classes: intervals, and ages."""
    gone, told = part * by_level[0][each], by_level[1]
    return gone, _ages(None if told is None else told[each], gone, hinted)


def _listed(moments: Mapping[int, Sequence[float]]) -> Floats:
    """Return a row for each moment: whose it is, and when."""
    rows = [(number, one) for number, several in moments.items() for one in several]
    return np.array(rows, np.float64).reshape(-1, 2)
