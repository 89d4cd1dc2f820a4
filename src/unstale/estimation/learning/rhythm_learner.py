"""Learn, poll after poll, at what hours of the day and of the week elements change.

Each class of elements has a rhythm: a factor of its change rates by the hour of the week. Polls tell of it in
two ways. A change lies somewhere between two polls, and is shared among the hours between them as far as is
known (an EM algorithm whose sums fade; FORMULAS of docs/theory.md). The time of a change, where it is told,
is sharp.

Three models bet on what each poll sees: no rhythm, one of the day, one of the week; each of the latter with a
short and with a long memory. A class follows the one that has lost least, and a finer one only if it is
clearly ahead. So a class without rhythm has none, a moved job is followed by the short memory, and a week
that was no rule is forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats, scalar, whole
from unstale.errors import InvalidInput

from .compiled.rhythm import BINS, DAY_BINS, hear_rhythm, set_levels

_MEMORIES_DAYS = np.array([14.0, 70.0])
"""Days in which the sums of each way of forgetting fade to 1/e; at first it takes fewer."""
_BET_MEMORY_DAYS = 56.0
_FIRST_MEMORY_DAYS = 2.0
_DAY_STAKE, _WEEK_STAKE = 4.0, 8.0
"""What a model must have lost less than one without rhythm, in nats, before it is followed."""
_STAKES = np.array([0.0, *([_DAY_STAKE, _WEEK_STAKE] * _MEMORIES_DAYS.size)])
_STUCK_SWING, _STUCK_CHANGED = 0.5, 0.9
"""Mean cosine of intervals on the circle of a day, and the share of polls that saw a change, from which on
polls say nothing of the hours."""
_STATE = ("swing", "counts", "exposure", "surprise", "started", "heard_until")


class PollsOfElements(NamedTuple):
    """What polls saw, and what was expected: columns of equal length."""

    classes: NDArray[np.intp]
    last: Floats
    """Moments of the polls before."""
    time: Floats
    changed: NDArray[np.bool_]
    shape: Floats
    """With ``gamma_time``, the gamma laws of the elements' rates before the polls."""
    gamma_time: Floats
    hope: Floats
    """Probabilities that an element does not change all the time."""
    ages: Floats
    """How long before the polls the last changes were; nan where unknown, empty if that is everywhere."""


class RhythmLearner:
    """The rhythms of classes, as far as polls have told.

    Parameters
    ----------
    day
        The length of a day. Time 0 is the first moment of a day, and of a week.
    classes
        How many classes there are; more may come.

    Examples
    --------
    >>> learner = RhythmLearner(day=24.0)
    >>> learner.bins.tolist(), learner.levels.shape       # of one class, which has no rhythm yet
    ([0], (1, 168))
    """

    def __init__(self, *, day: float, classes: int = 1) -> None:
        self._hour = scalar("day", day, above=0) / DAY_BINS
        ways = _MEMORIES_DAYS.size
        self._counts, self._exposure = np.zeros((2, 0, ways, BINS))
        self._surprise = np.zeros((0, 1 + 2 * ways))
        self._swing = np.zeros((0, 3))
        """Of polls without told times: the cosine of their intervals on the circle of a day, how many they
        are, and how many saw a change."""
        self._started, self._heard_until = np.empty(0), np.empty(0)
        self._levels, self._passed = np.ones((0, ways, 2, BINS)), np.zeros((0, ways, 2, BINS + 1))
        self.bins = np.zeros(0, np.int64)
        """Of each class: hours of the rhythm in force, a day's or a week's; 0 without one."""
        self.levels = np.ones((0, BINS))
        """The rhythm in force, by the hour of the week."""
        self.passed = np.zeros((0, BINS + 1))
        """Its integral."""
        self.version = 0
        """It grows whenever a class gets another kind of rhythm."""
        self.know(whole("classes", classes, at_least=1))

    @property
    def hour(self) -> float:
        """The length of an hour."""
        return self._hour

    @property
    def any(self) -> bool:
        """Whether any class has a rhythm."""
        return bool(self.bins.any())

    def know(self, classes: int) -> None:
        """Make room for so many classes."""
        more = classes - self.bins.size
        if more <= 0:
            return
        ways = _MEMORIES_DAYS.size
        for name, blank in (
            ("_counts", np.zeros((more, ways, BINS))),
            ("_exposure", np.zeros((more, ways, BINS))),
            ("_surprise", np.zeros((more, 1 + 2 * ways))),
            ("_swing", np.zeros((more, 3))),
            ("_started", np.full(more, np.nan)),
            ("_heard_until", np.full(more, np.nan)),
            ("_levels", np.ones((more, ways, 2, BINS))),
            ("_passed", np.tile(np.arange(BINS + 1) * self._hour, (more, ways, 2, 1))),
            ("bins", np.zeros(more, np.int64)),
            ("levels", np.ones((more, BINS))),
            ("passed", np.tile(np.arange(BINS + 1) * self._hour, (more, 1))),
        ):
            setattr(self, name, np.concatenate([getattr(self, name), blank]))

    def split(self, one: int, parent: int) -> None:
        """Let a class begin with all that is known of another."""
        self.know(max(one, parent) + 1)
        self.take(one, self, parent)

    def take(self, one: int, others: RhythmLearner, other: int) -> None:
        """Let a class begin with all that another learner knows of one of its classes."""
        self.know(one + 1)
        for name in (*(f"_{name}" for name in _STATE), "_levels", "_passed", "bins", "levels", "passed"):
            getattr(self, name)[one] = getattr(others, name)[other]
        self.version += 1

    def learn(self, polls: PollsOfElements) -> None:
        """Take in what polls saw, in about the order of time."""
        if not polls.time.size:
            return
        self.know(int(polls.classes.max()) + 1)
        for one in np.unique(polls.classes).tolist():
            which = np.flatnonzero(polls.classes == one)
            self._fade(one, float(polls.time[which].min()), float(polls.time[which].max()))
            self._watch(one, polls, which)
            hear_rhythm(
                self._hour, polls.last[which], polls.time[which], polls.shape[which], polls.gamma_time[which],
                polls.hope[which], polls.changed[which], polls.ages[which] if polls.ages.size else polls.ages,
                self._levels[one], self._passed[one], self._counts[one], self._exposure[one],
                self._surprise[one],
            )  # fmt: skip
            self._void_early_bets(one)
            set_levels(
                self._hour, self._counts[one], self._exposure[one], self._levels[one], self._passed[one]
            )
            self._follow(one)

    def _void_early_bets(self, one: int) -> None:
        """Let no model be ahead by bets on a period that it had not seen whole once.

        What changes within the first day, such as rates that are just being learned, looks like a rhythm of
        the hours since the start; within the first week, like one of the days.
        """
        days = (self._heard_until[one] - self._started[one]) / (DAY_BINS * self._hour)
        lost = self._surprise[one]
        if days < 1.0:
            lost[1:] = lost[0]
        elif days < BINS / DAY_BINS:
            lost[2::2] = np.maximum(lost[2::2], lost[1::2])

    def _watch(self, one: int, polls: PollsOfElements, which: NDArray[np.intp]) -> None:
        """Note how polls of a class that tell no times follow each other."""
        blind = which if not polls.ages.size else which[np.isnan(polls.ages[which])]
        if blind.size:
            turn = 2.0 * np.pi * (polls.time[blind] - polls.last[blind]) / (DAY_BINS * self._hour)
            changed = float(np.count_nonzero(polls.changed[blind]))
            self._swing[one] += (np.cos(turn).sum(), blind.size, changed)

    @property
    def stuck(self) -> NDArray[np.bool_]:
        """Of each class, whether its polls say nothing of its hours.

        A poll that comes a day after the last one, and sees a change each time, would see it at any hour.
        Intervals must vary to find the hour out.
        """
        cosine, polls, changed = self._swing.T
        alike = cosine > _STUCK_SWING * polls
        return np.asarray(alike & (changed > _STUCK_CHANGED * polls) & (polls > 0.0))

    def fade_of_bets(self, one: int, until: float) -> float:
        """Return what bets of a class count for when polls up to a moment are heard, over what they did."""
        if one >= self.bins.size or np.isnan(self._started[one]):
            return 1.0
        day = DAY_BINS * self._hour
        age = (until - self._started[one]) / day
        gone = max(until - float(self._heard_until[one]), 0.0) / day
        return float(np.exp(-gone / min(_BET_MEMORY_DAYS, _FIRST_MEMORY_DAYS + 0.5 * age)))

    def _fade(self, one: int, first: float, until: float) -> None:
        """Forget a part of what is known of a class."""
        if np.isnan(self._started[one]):
            self._started[one], self._heard_until[one] = first, first
        self._surprise[one] *= self.fade_of_bets(one, until)
        day = DAY_BINS * self._hour
        age = (until - self._started[one]) / day
        gone = max(until - float(self._heard_until[one]), 0.0) / day
        self._heard_until[one] = max(until, float(self._heard_until[one]))
        fades = np.exp(-gone / np.minimum(_MEMORIES_DAYS, _FIRST_MEMORY_DAYS + 0.5 * age))
        self._swing[one] *= fades[0]
        self._counts[one] *= fades[:, None]
        self._exposure[one] *= fades[:, None]

    def _follow(self, one: int) -> None:
        """Let a class follow the model that has lost least, if it is clearly ahead of simpler ones."""
        best = int(np.argmin(self._surprise[one] + _STAKES))
        before = int(self.bins[one])
        self.bins[one] = 0 if best == 0 else (DAY_BINS, BINS)[(best - 1) % 2]
        if best:
            way, model = divmod(best - 1, 2)
            self.levels[one], self.passed[one] = self._levels[one, way, model], self._passed[one, way, model]
        else:
            self.levels[one], self.passed[one] = 1.0, np.arange(BINS + 1) * self._hour
        self.version += int(before != self.bins[one])

    def loss(self, one: int) -> float:
        """Return what the best model of a class has lost of late, in nats."""
        return float(self._surprise[one].min())

    def advantage(self, one: int) -> float:
        """Return by how many nats the rhythm in force has lost less than none, of late."""
        return float(self._surprise[one, 0] - self._surprise[one].min())

    # --- to be continued ------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return all that has been learned, as arrays.

        >>> learner = RhythmLearner(day=1.0)
        >>> RhythmLearner.resume(learner.state()).hour == learner.hour
        True
        """
        return {"hour": np.array(self._hour), **{name: getattr(self, f"_{name}").copy() for name in _STATE}}

    @classmethod
    def resume(cls, state: Mapping[str, Any]) -> Self:
        """Go on where `state` was taken."""
        if missing := [name for name in ("hour", *_STATE) if name not in state]:
            raise InvalidInput(f"state must be what RhythmLearner.state returned; it has no {missing[0]!r}")
        classes = np.asarray(state["started"]).size
        self = cls(day=float(state["hour"]) * DAY_BINS, classes=max(classes, 1))
        for name in _STATE:
            found, blank = np.array(state[name], float), getattr(self, f"_{name}")
            if found.shape != blank.shape:
                shapes = f"{name!r} has shape {found.shape}, not {blank.shape}"
                raise InvalidInput(f"state must be what RhythmLearner.state returned; {shapes}")
            setattr(self, f"_{name}", found)
        for one in np.flatnonzero(self._exposure.any(axis=(1, 2)) | self._counts.any(axis=(1, 2))).tolist():
            set_levels(
                self._hour, self._counts[one], self._exposure[one], self._levels[one], self._passed[one]
            )
            self._follow(one)
        return self
