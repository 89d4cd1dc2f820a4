"""What is known of elements: what polls of them cost and are worth, and how probably copies are fresh."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from unstale import kernels, uncertain_kernels
from unstale.arguments import Floats
from unstale.objectives import Objective
from unstale.polling import worth
from unstale.processes import UncertainPoisson

from .class_clocks import ClassClocks
from .compiled.jitter import stretch
from .element_table import ElementTable, Places
from .hint_channels import Channels
from .limits import Limits

_SHORTEST_RESERVE_HOURS = 12.0
"""Hours of budget that must be kept if polls are to wait for the end of a rush: at constant speed, others
that are worth less would be made in the meantime."""
_MINUTE_HOURS = 1.0 / 60.0
"""Of the last poll, no more counts for jitter than the minute: the last digits of a clock are nobody's."""
_TIE_SHARE = 1e-3
"""Share of the worth without timing that is added: before and in a rush no poll is worth anything, but a
reserve that is full is spent all the same, and on those that have waited longest."""
_BY_THE_CLOCK = (kernels.FRESHNESS, kernels.AGE)
"""Objectives whose polls are timed by rhythms; for others, rhythms say how fresh copies are."""


@dataclass
class Knowledge:
    """What is known of elements, and what follows for polls of them."""

    table: ElementTable
    """The elements, with what the learner knows of how they change."""
    limits: Limits
    """They say what polls cost."""
    objective: Objective
    """What polls are worth something for."""
    channels: Channels
    """How reliable hints are."""
    clocks: ClassClocks | None
    """At what hours classes change; None: nobody asks."""
    mean_size: float
    """The size of a poll of which nothing is known."""

    def sizes(self, places: Places) -> Floats:
        """Return what polls take, in bytes or whatever sizes are in, as far as is known."""
        size = self.table["size"][places]
        return np.where(np.isnan(size), self.mean_size, size)

    def worths(self, places: Places, since: Floats, at: float | None = None) -> Floats:
        """Return what polls are worth so long after the last ones, per cost.

        Parameters
        ----------
        places
            The elements.
        since
            The time since the last poll of each.
        at
            The moment at which it is worth that, if classes have a rhythm; by default so long after the last
            polls.
        """
        if not places.size:  # nor is anything compiled before it is needed
            return np.empty(0)
        table = self.table
        elapsed, moments = self._operational(places, since, at) if self.timed else (since, None)
        shape, time, hope = table.learner.gammas(elapsed, places)
        unit = self._units(places)
        kind = self.objective.kernel
        if kind is None:
            law = UncertainPoisson(shape, 1.0 / time)
            return np.asarray(hope * unit * worth(self.objective, law, elapsed), float)
        with np.errstate(all="ignore"):  # as in `unstale.worth`
            values = unit * time * uncertain_kernels.worth(kind, kernels.FIXED, shape, elapsed / time)
        if kind == kernels.AGE:
            values *= time
        if moments is not None and self.clocks is not None:
            classes = table.learner.classes_of(places)
            by_clock = self.clocks.worths(kind, classes, (shape, time), moments - since, moments)
            values = np.where(np.isnan(by_clock), values, unit * by_clock + _TIE_SHARE * values)
            if (own := np.flatnonzero(self.clocks.have_own(table, places))).size:
                last, clockworks = moments[own] - since[own], self.clocks.clockworks
                by_clock = self.clocks.own_worths(kind, table, places[own], last, moments[own])
                rows = table["clockwork"][places[own]]
                believed, overdue = (of(rows) for of in (clockworks.credence, clockworks.overdue))
                rest = (1.0 - believed * (1.0 - overdue)) * hope[own] + _TIE_SHARE
                values[own] = believed * unit[own] * by_clock + rest * values[own]
                hope[own] = 1.0
        told = np.flatnonzero(table["channel"][places] > 0) if kind == kernels.FRESHNESS else np.empty(0)
        if told.size:
            which, rate = places[told], shape[told] / time[told]
            hinted = self.channels.worths(table["channel"][which], rate, elapsed[told], table["hints"][which])
            values[told] = unit[told] * hinted
        return hope * values

    def worths_in_step(self, places: Places, since: Floats, now: float, end: float) -> Floats:
        """Return what polls are worth at the end of a step; with a rhythm at its start, not to be early.

        Parameters
        ----------
        places
            The elements.
        since
            The time since the last poll of each, at the end of the step.
        now, end
            The step.
        """
        if self.clocks is None or not self.timed:
            return self.worths(places, self.stretched(places, since))
        values = np.empty(places.size)
        timed = self.clocks.have_rhythm(self.table, places)
        for which, moment in ((timed, now), (~timed, end)):
            gone = np.maximum(since[which] - (end - moment), 0.0)
            values[which] = self.worths(places[which], self.stretched(places[which], gone), moment)
        return values

    def stretched(self, places: Places, since: Floats) -> Floats:
        """Return intervals stretched by jitter: by a factor drawn for each element and its last poll."""
        jitter, last = self.table["jitter"][places], self.table["last"][places]
        if self.can_wait and self.clocks is not None:
            varied = self.clocks.jitter(self.table, places)
            if varied is not None:
                jitter = np.maximum(jitter, varied).astype(np.float32)
                last = np.rint(last / (_MINUTE_HOURS * self.clocks.rhythms.hour))
        if not jitter.any():
            return since
        found = np.empty(since.size)
        stretch(since, jitter, self.table["id"][places], last, found)
        return found

    @property
    def timed(self) -> bool:
        """Whether polls are timed by rhythms: there are some, and the budget can wait for them."""
        return self.can_wait and self.clocks is not None and self.clocks.any

    @property
    def can_wait(self) -> bool:
        """Whether polls could be timed, if there were a rhythm."""
        if self.clocks is None or self.objective.kernel not in _BY_THE_CLOCK:
            return False
        return self.limits.reserve >= _SHORTEST_RESERVE_HOURS * self.clocks.rhythms.hour

    def _units(self, places: Places) -> Floats:
        """Return how much elements matter, per cost of a poll."""
        unit = self.table["weight"][places].astype(np.float64) * self.table["reads"][places]
        return np.asarray(unit / self.limits.costs(self.sizes(places)), np.float64)

    def _operational(
        self, places: Places, since: Floats, at: float | None = None
    ) -> tuple[Floats, Floats | None]:
        """Return the operational time since the last polls, and up to when, if there are rhythms."""
        if self.clocks is None or not self.clocks.any:
            return since, None
        last, added = self.table["last"][places], self.table["added"][places]
        moments = np.where(np.isnan(last), added, last) + since if at is None else np.full(since.size, at)
        classes = self.table.learner.classes_of(places)
        return self.clocks.elapsed(classes, moments - since, moments), moments

    def operational_since(self, places: Places, now: float) -> Floats:
        """Return the operational time since the last poll that saw something, or since it was added."""
        return self._operational(places, self.table.since(places, now), now)[0]

    def fresh(self, places: Places, now: float) -> Floats:
        """Return the probabilities that copies are fresh; 0 where there is none."""
        table = self.table
        if np.isnan(table["last"][places]).all():
            return np.zeros(places.size)
        since = self.operational_since(places, now)
        shape, time, hope = table.learner.gammas(since, places)
        told = table["channel"][places]
        exposed = since
        if told.any():  # without a hint, only changes that give none can have come
            recall = np.array([0.0, *(one.recall for one in self.channels.channels[1:])])
            exposed = since * (1.0 - recall[told])
        fresh = hope * np.exp(-shape * np.log1p(exposed / time))
        if self.clocks is not None and (own := self.clocks.have_own(table, places)).any():
            end = np.full(np.count_nonzero(own), now)
            by_clock = self.clocks.own_fresh(table, places[own], end - table.since(places[own], now), end)
            fresh[own] += self.clocks.clockworks.credence(table["clockwork"][places[own]]) * (
                by_clock - fresh[own]
            )
        if told.any():
            fresh *= self.channels.fresh(told, table["hints"][places])
        return np.where(np.isnan(table["last"][places]), 0.0, fresh)

    def next_polls(self, places: Places, since: Floats, price: float, horizon: float) -> Floats:
        """Return when polls come to be worth a price, by the clocks of classes; nan where there is none.

        Parameters
        ----------
        places
            The elements.
        since
            From when on to look.
        price
            What polls must be worth, per cost.
        horizon
            How far ahead to look; its end stands for later.
        """
        kind = self.objective.kernel
        if kind is None or self.clocks is None or not self.timed or not places.size:
            return np.full(places.size, np.nan)
        table = self.table
        last = np.where(np.isnan(table["last"][places]), table["added"][places], table["last"][places])
        classes = table.learner.classes_of(places)
        shape, time, hope = table.learner.gammas(self.clocks.elapsed(classes, last, since), places)
        with np.errstate(divide="ignore", invalid="ignore"):
            prices = np.maximum(np.nan_to_num(price / (hope * self._units(places)), nan=inf), 1e-300)
        found = self.clocks.next_polls(
            kind, classes, (shape, time), last, since=since, prices=prices, horizon=horizon
        )
        if (own := np.flatnonzero(self.clocks.have_own(table, places))).size:
            with np.errstate(divide="ignore", invalid="ignore"):
                believed = self.clocks.clockworks.credence(table["clockwork"][places[own]])
                own_price = price / (believed * self._units(places[own]))
            prices = np.maximum(np.nan_to_num(own_price, nan=inf), 1e-300)
            found[own] = self.clocks.own_next_polls(
                kind, table, places[own], last[own], since=since[own], prices=prices, horizon=horizon
            )
        return found
