"""Rhythms by UTC and by clocks that change in spring and autumn: each class follows what bets best.

A job that starts at 02:00 local time comes an hour earlier by UTC in summer. Which clock a class goes by is
learned: when the clocks of a zone change, what is known of the rhythms is copied, and the copy goes on in the
local time of that zone. From then on both bet on the same polls, and a class that is clearly better off with
local time follows it, also when the clocks change the next time. As long as no clock has changed, local time
is UTC but for a constant, and there is nothing to tell apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats
from unstale.estimation.learning.rhythm_learner import PollsOfElements, RhythmLearner

ZONES = ("UTC", "European summer time", "American summer time")
"""Clocks that classes may go by."""
_FIRST_YEAR, _YEARS = 1970, 200
_FIRST_SUNDAY = 3
"""Days from 1970 on to a Sunday."""
_STAKE = 3.0
"""Nats by which another clock must have lost less before a class follows it."""
_HOUR_SECONDS = 3600.0

Classes = NDArray[np.intp]


class LocalRhythms:
    """What `RhythmLearner` is, for classes that go by clocks of zones.

    Parameters
    ----------
    utc
        The rhythms by UTC.
    epoch
        Time 0, in seconds since 1970; None: nothing is known of dates, and there is no summer.
    """

    def __init__(self, utc: RhythmLearner, *, epoch: float | None = None) -> None:
        self._epoch = epoch
        self._frames = {0: utc}
        self._based = np.zeros(len(ZONES))
        """Of each zone, whether it was summer when its local time was that of UTC but for a constant."""
        self._summer = np.full(len(ZONES), np.nan)
        """Whether it was summer when polls were heard last."""
        self.zones = np.zeros(utc.bins.size, np.int64)
        """The clock that each class goes by."""
        self._gather()

    def _gather(self) -> None:
        """Take the rhythm of each class from the clock that it goes by."""
        utc = self._frames[0]
        self.bins, self.levels, self.passed = utc.bins, utc.levels, utc.passed
        self.zones = np.concatenate([self.zones, np.zeros(utc.bins.size - self.zones.size, np.int64)])
        if self.zones.any():
            self.bins, self.levels, self.passed = utc.bins.copy(), utc.levels.copy(), utc.passed.copy()
            for one in np.flatnonzero(self.zones).tolist():
                frame = self._frames[int(self.zones[one])]
                self.bins[one] = frame.bins[one]
                self.levels[one], self.passed[one] = frame.levels[one], frame.passed[one]

    @property
    def hour(self) -> float:
        """The length of an hour."""
        return self._frames[0].hour

    @property
    def any(self) -> bool:
        """Whether any class has a rhythm."""
        return bool(self.bins.any())

    @property
    def version(self) -> int:
        """It grows whenever a class gets another kind of rhythm, or goes by another clock."""
        return sum(frame.version for frame in self._frames.values()) + int(self.zones.sum())

    @property
    def stuck(self) -> NDArray[np.bool_]:
        """Of each class, whether its polls say nothing of its hours."""
        return self._frames[0].stuck

    def advantage(self, one: int) -> float:
        """Return by how many nats the rhythm in force has lost less than none, of late."""
        return self._frames[int(self.zones[one])].advantage(one)

    def know(self, classes: int) -> None:
        """Make room for so many classes."""
        for frame in self._frames.values():
            frame.know(classes)
        self._gather()

    def split(self, one: int, parent: int) -> None:
        """Let a class begin with all that is known of another."""
        for frame in self._frames.values():
            frame.split(one, parent)
        self._gather()
        self.zones[one] = self.zones[parent]
        self._gather()

    def take(self, one: int, others: RhythmLearner, other: int) -> None:
        """Let a class begin with all that another learner knows of one of its classes, by UTC."""
        self._frames[0].take(one, others, other)
        self._gather()
        self.zones[one] = 0
        self._gather()

    def local(self, classes: Classes, time: Floats) -> Floats:
        """Return moments by the clocks that classes go by."""
        if not self.zones.any():
            return time
        zones, found = self.zones[classes], np.array(time, float)
        for zone in np.unique(zones[zones > 0]).tolist():
            which = zones == zone
            found[which] += self._ahead(zone, found[which])
        return found

    def _ahead(self, zone: int, time: Floats) -> Floats:
        """Return by how much the clock of a zone is ahead of where it was when it was that of UTC."""
        return self.hour * (self._is_summer(zone, time) - self._based[zone])

    def _is_summer(self, zone: int, time: Floats) -> Floats:
        if zone == 0 or self._epoch is None:
            return np.zeros(np.shape(time))
        seconds = self._epoch + np.asarray(time, float) / self.hour * _HOUR_SECONDS
        return np.asarray(np.searchsorted(summers(zone), seconds, side="right") % 2, float)

    def learn(self, polls: PollsOfElements) -> None:
        """Take in what polls saw, in about the order of time."""
        if not polls.time.size:
            return
        utc = self._frames[0]
        latest = float(polls.time.max())
        for zone in range(1, len(ZONES) if self._epoch is not None else 1):
            summer = float(self._is_summer(zone, np.array(latest)))
            changed = not np.isnan(self._summer[zone]) and summer != self._summer[zone]
            if changed and zone not in self._frames and utc.any:
                self._frames[zone] = RhythmLearner.resume(utc.state())
                self._based[zone] = self._summer[zone]
            self._summer[zone] = summer
        for zone, frame in self._frames.items():
            ahead = self._ahead(zone, polls.time) if zone else 0.0
            frame.learn(polls._replace(last=polls.last + ahead, time=polls.time + ahead) if zone else polls)
        for one in np.unique(polls.classes).tolist() if len(self._frames) > 1 else ():
            lost = {zone: frame.loss(one) for zone, frame in self._frames.items()}
            now = int(self.zones[one]) if one < self.zones.size else 0
            best = min(lost, key=lost.__getitem__)
            if one < self.zones.size and lost[best] < lost[now] - _STAKE:
                self.zones[one] = best
        self._gather()

    # --- to be continued ------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return all that has been learned, as arrays."""
        zones = {
            f"zone{zone}_{name}": value
            for zone, frame in self._frames.items()
            if zone
            for name, value in frame.state().items()
        }
        mine = {
            "zones": self.zones.copy(),
            "based": self._based.copy(),
            "summer": self._summer.copy(),
            "epoch": np.array(np.nan if self._epoch is None else self._epoch),
        }
        return {**self._frames[0].state(), **zones, **mine}

    @classmethod
    def resume(cls, state: Mapping[str, Any], *, epoch: float | None = None) -> Self:
        """Go on where `state` was taken; older versions knew UTC alone."""
        kept_epoch = float(state.get("epoch", np.nan))
        self = cls(RhythmLearner.resume(state), epoch=epoch if np.isnan(kept_epoch) else kept_epoch)
        if "zones" not in state:
            return self
        self._based, self._summer = np.array(state["based"], float), np.array(state["summer"], float)
        for zone in range(1, len(ZONES)):
            prefix = f"zone{zone}_"
            kept = {name.removeprefix(prefix): state[name] for name in state if name.startswith(prefix)}
            if kept:
                self._frames[zone] = RhythmLearner.resume(kept)
        zones = np.array(state["zones"], np.int64)
        if zones.shape == self.zones.shape and np.isin(zones, list(self._frames)).all():
            self.zones = zones
        self._gather()
        return self


@cache
def summers(zone: int) -> Floats:
    """Return when summer time begins and ends, in turn, in seconds since 1970.

    >>> summers(1)[112:114].astype("datetime64[s]").astype(str).tolist()
    ['2026-03-29T01:00:00', '2026-10-25T01:00:00']
    >>> summers(2)[112:114].astype("datetime64[s]").astype(str).tolist()
    ['2026-03-08T07:00:00', '2026-11-01T06:00:00']
    """
    found = []
    for year in range(_FIRST_YEAR, _FIRST_YEAR + _YEARS):
        if zone == 1:  # from the last Sunday in March to the last in October
            found += [_sunday(f"{year}-03-25", 1), _sunday(f"{year}-10-25", 1)]
        else:  # from the second Sunday in March to the first in November, by the clock of New York
            found += [_sunday(f"{year}-03-08", 7), _sunday(f"{year}-11-01", 6)]
    return np.array(found)


def _sunday(first: str, hour: int) -> float:
    """Return an hour of the first Sunday from a day on, in seconds since 1970."""
    day = int(np.datetime64(first, "D").astype(np.int64))
    return 86400.0 * (day + (_FIRST_SUNDAY - day) % 7) + _HOUR_SECONDS * hour
