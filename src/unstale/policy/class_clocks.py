"""The clocks of classes: operational time by what is learned of their rhythms, and worths by it.

A class without a rhythm has no clock, and nothing is computed for it: time is its operational time. Elements
that change once a day or once a week may have clocks of their own. Readers may have hours as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unstale.arguments import Floats
from unstale.estimation.learning.clockwork_learner import ClockworkLearner
from unstale.estimation.learning.rhythm_learner import PollsOfElements, RhythmLearner
from unstale.operational_time.clock import OperationalClock

from .class_tree import ClassTree
from .compiled.class_clocks import elapsed_of, moments_of, own_changes, own_moments, own_worths, worths_of
from .element_table import ElementTable, Places
from .local_time import LocalRhythms
from .read_hours import WEEK_HOURS, clock_of_readers
from .trial_rhythms import TrialRhythms, losses

STEPS_PER_HOUR = 12.0
"""Times that polls are chosen in an hour, at least, if there is a rhythm."""

_STUCK_JITTER = 0.45
"""Share by which intervals vary where polls say nothing of the hours: by half of a day, nearly."""

_MOST_MOVED_KEPT = 200
"""Clocks of a class whose phases before a move are kept with each state: 400 bytes of each."""

Classes = NDArray[np.intp]


class ClassClocks:
    """What the policy asks of rhythms.

    >>> clocks = ClassClocks(RhythmLearner(day=24.0))
    >>> clocks.any, clocks.elapsed(np.array([0]), np.array([2.0]), np.array([5.0])).tolist()
    (False, [3.0])
    """

    def __init__(
        self,
        rhythms: RhythmLearner | LocalRhythms,
        clockworks: ClockworkLearner | None = None,
        *,
        epoch: float | None = None,
    ) -> None:
        self.rhythms = LocalRhythms(rhythms, epoch=epoch) if isinstance(rhythms, RhythmLearner) else rhythms
        self.clockworks = ClockworkLearner() if clockworks is None else clockworks
        self.trials = TrialRhythms(self._day)
        """Rhythms of parts of classes, on trial."""
        self.readers: OperationalClock | None = None
        """At what hours of the week copies are read; None: whenever. It times polls as rhythms do."""

    def read_by_hour(self, levels: ArrayLike | None) -> None:
        """Take in how much is read in each hour of the day or of the week; None: at all hours alike."""
        self.readers = None if levels is None else clock_of_readers(levels, self.rhythms.hour)

    def state(self) -> dict[str, Any]:
        """Return what has been learned of classes, as arrays; clocks of elements are kept with them."""
        shares = self.clockworks.shares.copy()
        readers = {} if self.readers is None else {"readers": self.readers.levels.copy()}
        return {**self.rhythms.state(), "clockwork_shares": shares, **readers, **self.trials.state()}

    @classmethod
    def resume(
        cls, state: Mapping[str, Any], clockworks: ClockworkLearner, *, epoch: float | None = None
    ) -> Self:
        """Go on where `state` was taken, with these clocks of elements; older states have no epoch."""
        if "clockwork_shares" in state:
            clockworks.set_shares(np.asarray(state["clockwork_shares"], float))
        of_classes = {name: state[name] for name in state if not name.startswith(("trial_", "moved_"))}
        self = cls(LocalRhythms.resume(of_classes, epoch=epoch), clockworks)
        self.read_by_hour(state.get("readers"))
        return self

    def resume_trials(self, state: Mapping[str, Any], tree: ClassTree) -> None:
        """Go on with the rhythms that were on trial when `state` was taken."""
        self.trials.resume(state, tree.trials, tree.parents)

    def moved(self, table: ElementTable) -> dict[str, Any]:
        """Return what is being found out of jobs that have moved, by the numbers of their elements.

        Rows of clocks are others after another start. Of classes that have many it is not kept.
        """
        moved = self.clockworks.moved
        if not moved.any:
            return {}
        state = moved.state()
        places = np.flatnonzero(table["clockwork"] > 0)
        owners = np.full(int(table["clockwork"].max(initial=0)) + 1, -1, np.int64)
        owners[table["clockwork"][places]] = table["id"][places]
        for name in [name for name in state if name.endswith("_rows")]:
            rows = state.pop(name)
            if rows.size > _MOST_MOVED_KEPT:
                head = name.removesuffix("rows")
                state = {one: kept for one, kept in state.items() if not one.startswith(head)}
            else:
                state[name.removesuffix("rows") + "elements"] = owners[rows]
        return state

    def resume_moved(self, state: Mapping[str, Any], table: ElementTable) -> None:
        """Go on finding out what has moved; what of it is not there any more is left out."""
        found = {name: state[name] for name in state if name.startswith("moved_")}
        for name in [name for name in found if name.endswith("_elements")]:
            head, elements = name.removesuffix("elements"), np.asarray(found.pop(name), np.int64)
            rows = np.zeros(elements.size, np.intp)
            there = table.has(elements)
            rows[there] = table["clockwork"][table.places(elements[there])]
            found[f"{head}rows"] = rows[rows > 0]
            for part in ("before", "trust"):
                found[head + part] = np.asarray(found[head + part])[rows > 0]
        self.clockworks.moved.resume(found)

    @property
    def any(self) -> bool:
        """Whether any class has a rhythm, or any element one of its own."""
        return self.rhythms.any or self.clockworks.any

    @property
    def time_polls(self) -> bool:
        """Whether polls come at certain hours, for changes or for readers."""
        return self.any or self.readers is not None

    @property
    def step(self) -> float:
        """The longest time between two choices."""
        return self.rhythms.hour / STEPS_PER_HOUR if self.time_polls else np.inf

    def jitter(self, table: ElementTable, places: Places) -> Floats | None:
        """Return by which share intervals must vary to find out the hours of changes; None if none must."""
        stuck = self.rhythms.stuck
        vague = self.clockworks.vague(table["clockwork"][places], self._day, table.learner.round)
        if not stuck.any() and not vague.any():
            return None
        vary = (vague | stuck[table.learner.classes_of(places)]) & ~self.have_own(table, places)
        return np.where(vary, _STUCK_JITTER, 0.0)

    def have_rhythm(self, table: ElementTable, places: Places) -> NDArray[np.bool_]:
        """Tell which elements have a rhythm: that of their class, their own, or that of readers."""
        if self.readers is not None:
            return np.ones(places.size, np.bool_)
        of_class = self.rhythms.bins[table.learner.classes_of(places)] > 0
        return np.asarray(of_class | self.have_own(table, places))

    def have_own(self, table: ElementTable, places: Places) -> NDArray[np.bool_]:
        """Tell which elements have a clock of their own, and follow it."""
        if not self.clockworks.any:
            return np.zeros(places.size, np.bool_)
        return self.clockworks.followed(table["clockwork"][places])

    @property
    def _day(self) -> float:
        return 24.0 * self.rhythms.hour

    def own_fresh(self, table: ElementTable, places: Places, start: Floats, end: Floats) -> Floats:
        """Return the probabilities that elements with clocks of their own are as they were at moments."""
        found, own = np.empty(places.size), self.clockworks
        start, end = (self._local(table, places, moments) for moments in (start, end))
        own_changes(table["clockwork"][places], own.phases, own.numbers, self._day, start, end, found)
        return 1.0 - found

    def own_worths(self, kind: int, table: ElementTable, places: Places, last: Floats, at: Floats) -> Floats:
        """Return what polls at moments are worth, per unit of weight, of elements with clocks of their own.

        Parameters
        ----------
        kind
            The objective: freshness or age.
        table, places
            The elements.
        last, at
            Moments of the last polls, and of those that are considered.
        """
        found, own = np.empty(places.size), self.clockworks
        rows, ids = table["clockwork"][places], table["id"][places]
        last, at = (self._local(table, places, moments) for moments in (last, at))
        own_worths(kind, rows, own.phases, own.numbers, self._day, ids, last, at, found)
        return found

    def own_next_polls(
        self,
        kind: int,
        table: ElementTable,
        places: Places,
        last: Floats,
        *,
        since: Floats,
        prices: Floats,
        horizon: float,
    ) -> Floats:
        """Return when polls of elements with clocks of their own come to be worth their prices.

        Parameters
        ----------
        kind, table, places, last
            As for `own_worths`.
        since, prices, horizon
            As for `next_polls`.
        """
        found, own = np.empty(places.size), self.clockworks
        rows, ids = table["clockwork"][places], table["id"][places]
        last, begin = (self._local(table, places, moments) for moments in (last, since))
        own_moments(kind, rows, own.phases, own.numbers, self._day, ids, last, begin, prices, horizon, found)
        return found - (begin - since)

    def _local(self, table: ElementTable, places: Places, moments: Floats) -> Floats:
        """Return moments by the clocks that classes of elements go by."""
        return self.rhythms.local(table.learner.classes_of(places), moments)

    def elapsed(self, classes: Classes, start: Floats, end: Floats) -> Floats:
        """Return the operational time of elements between moments."""
        found, rhythms = end - start, self.rhythms
        if rhythms.any:
            start, end = (rhythms.local(classes, moments) for moments in (start, end))
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
        found = np.full(classes.size, np.nan)
        last, at = (self._in_pieces(classes, moments) for moments in (last, at))
        worths_of(kind, classes, *gammas, last, at, *self._pieces(float(at.max(initial=0.0))), found)
        return found

    def _in_pieces(self, classes: Classes, moments: Floats) -> Floats:
        """Return moments in the time in which worths are computed, that of classes or of readers."""
        return self.rhythms.local(classes, moments) if self.readers is None else self.readers.at(moments)

    def _pieces(self, now: float) -> tuple[Floats, NDArray[np.int64], Floats, float]:
        """Return where hours begin in that time, of each class how many there are and their levels, a reach.

        The last is how far worths look ahead at least. A night without readers is short by their clock, which
        says nothing of how long a poll will have to last. By that clock, changes come by a rhythm that is
        theirs over that of reads. It is UTC, also for classes that go by another.
        """
        rhythms = self.rhythms
        edges = np.arange(WEEK_HOURS + 1, dtype=np.float64) * rhythms.hour
        if self.readers is None:
            return edges, rhythms.bins, rhythms.levels, 0.0
        every = np.arange(rhythms.bins.size)
        ahead = np.rint((rhythms.local(every, np.full(every.size, now)) - now) / rhythms.hour).astype(int)
        hours = (np.arange(WEEK_HOURS) + ahead[:, None]) % WEEK_HOURS
        levels = np.take_along_axis(rhythms.levels, hours, axis=1) / self.readers.levels
        return self.readers.passed, np.full(every.size, WEEK_HOURS), levels, self._day

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
        found = np.full(classes.size, np.nan)
        last, begin = (self._in_pieces(classes, moments) for moments in (last, since))
        pieces = self._pieces(float(since.max(initial=0.0)))
        moments_of(kind, classes, *gammas, last, begin, prices, horizon, *pieces, found)
        if self.readers is not None:
            return np.minimum(self.readers.moments(found), since + horizon)
        return found - (begin - since)

    def learn(
        self,
        table: ElementTable,
        places: Places,
        time: Floats,
        elapsed: Floats,
        changed: NDArray[np.bool_],
        modified: Floats | None,
        pace: Floats | None = None,
    ) -> tuple[Floats, Floats | None]:
        """Learn at what hours classes change; return elapsed times and ages in operational time.

        Parameters
        ----------
        table
            What is known of elements, for what a change was worth as news.
        places, time
            The elements of the polls, and when those were.
        elapsed, changed
            The time since the poll before of each, and whether it had changed.
        modified
            How long before the polls the last changes were, where that is told; nan elsewhere.
        pace
            How much operational time by the levels of classes there was in a unit of time; None: one.

        Of an element with a clock of its own, a change whose time is told is the only one since then.
        """
        learner = table.learner
        classes, last = learner.classes_of(places), time - elapsed
        gone, ages = elapsed, modified
        if self.rhythms.any:
            gone = self.elapsed(classes, last, time)
            ages = None if modified is None else self.elapsed(classes, time - modified, time)
        told = np.empty(0) if modified is None else modified
        shape, scale, hope = learner.gammas(gone if pace is None else gone * pace, places)
        if pace is not None:
            scale /= pace
        polls = PollsOfElements(classes, last, time, changed, shape, scale, hope, told)
        self.rhythms.know(int(classes.max(initial=0)) + 1)
        lost = self._learn_own(table, places, polls, gone, ages)
        self.trials.learn(table["node"][places], polls, lost)
        self.rhythms.learn(polls)
        if ages is not None:
            ages = np.where(self.have_own(table, places) & ~np.isnan(ages), gone, ages)
        return gone, ages

    def _learn_own(
        self, table: ElementTable, places: Places, polls: PollsOfElements, gone: Floats, ages: Floats | None
    ) -> Floats:
        """Learn which elements have clocks of their own, as far as they bet better than laws of rates.

        Return what the rhythms of classes have lost by each poll, as `RhythmLearner` counts it.
        """
        rhythms, classes = self.rhythms, polls.classes
        last, time = (rhythms.local(classes, moments) for moments in (polls.last, polls.time))
        told = polls.ages if polls.ages.size else np.full(places.size, np.nan)
        known = polls.changed & ~np.isnan(told)
        since = gone if ages is None else np.where(known, ages, gone)
        log = np.log1p(since / polls.gamma_time)
        with np.errstate(divide="ignore", invalid="ignore"):
            seen = -np.log(np.maximum(1.0 - polls.hope * np.exp(-polls.shape * log), 1e-300))
        bins = rhythms.levels.shape[1]
        hours = ((time - np.where(known, told, 0.0)) / rhythms.hour % bins).astype(int)
        level = rhythms.levels[classes, np.minimum(hours, bins - 1)]
        density = (polls.shape + 1.0) * log - np.log(polls.shape / polls.gamma_time * level)
        against = np.where(
            known, density, np.where(polls.changed, seen, polls.shape * log - np.log(polls.hope))
        )
        self.clockworks.learn(
            table.each("clockwork"),
            (table.each("day_bet"), table.each("week_bet")),
            places,
            classes,
            day=self._day,
            last=last,
            time=time,
            changed=polls.changed,
            ages=told,
            typical=rhythms.levels,
            against=against,
            sizes=table.learner.class_sizes,
        )
        return losses(polls, known, since, level)
