"""Elements that may be polled now: which of them are looked at, what polls are worth, when to look again.

Choosing costs time in proportion to what is due: an element is looked at again when its worth may have nearly
reached the price, not before. How nearly depends on how many there are: of a thousand, those are looked at
that are worth four fifths of the price, and of many millions those that come to be worth it within a few
turns. If the price falls, then, elements are looked at so much earlier than was noted.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np

from unstale.arguments import Floats

from .composed import ComposedElements
from .discovered import STANDING_BACK_FACTOR, ListShares
from .element_table import DROPPED, Places
from .knowledge import Knowledge
from .patience import SHORTEST_ROUNDS, Patience
from .promises import Promises
from .replicas import ReplicaTurns

_LONGEST_LOOK_AHEAD_HOURS = 48.0
"""Hours for which it is worked out in advance when a poll comes to be worth the price."""
_LOOKED_AT_SHARE = 0.8
"""Share of the price from which on elements are looked at, if there are few of them."""
_LOOKED_AT_TURNS, _LOOKED_AT_ELEMENTS = 16.0, 8000.0
"""If there are many: those that are below the price by no more than that share of it which so many turns are
of a round, or so many elements of all, whichever is more."""
_SLOWEST_GROWTH = 2.0
"""Power of time with which worths grow, at least."""
_CHEAPER = (0.97, 0.94, 0.88)
"""Factors by which the price is lowered, one after the other, if too little is worth it."""
_LONGEST_HURRY = 0.5
"""Share of the price it was, below which all elements are looked at again."""


class Turn(NamedTuple):
    """A turn of the planner: polls are chosen from now to an end, at the price of the last ones."""

    now: float
    end: float
    round: float
    price: float
    in_turn: bool
    """Whether worths are not known yet: those that were polled longest ago come first."""


class Chosen(NamedTuple):
    """Polls that were chosen, each with its slot."""

    places: Places
    start: Floats
    late: Floats
    """By how much each may start later."""


class Candidates:
    """Elements that may be polled."""

    def __init__(
        self,
        known: Knowledge,
        shares: ListShares,
        patience: Patience,
        composed: ComposedElements,
        replicas: ReplicaTurns,
        promises: Promises,
    ) -> None:
        self._known, self._table, self._shares, self._patience = known, known.table, shares, patience
        self._composed, self._replicas, self._promises = composed, replicas, promises
        self.marked = 0.0
        """The price at which it was noted when to look at elements again."""

    def find(self, turn: Turn, affordable: float) -> tuple[Places, Places, Floats]:
        """Return elements that may be polled: those without a copy; others, and what that is worth.

        If too few are worth the price, those are looked at, too, that were to be looked at later: the budget
        is spent in any case, unless there is a reserve.
        """
        new, old, values = self._looked_at(turn)
        share = self._looked_at_share(turn)

        def too_few() -> bool:
            worth_it = new.size + np.count_nonzero(values >= share * self.marked)
            return bool(self.marked > 0 and not self._known.limits.reserve and worth_it < affordable)

        for factor in _CHEAPER if share > _LOOKED_AT_SHARE else ():
            if not too_few():
                break
            self._hurry(factor, turn)
            new, old, values = self._looked_at(turn)
        if too_few():
            self.marked = 0.0
            self._table.look_again()
            return self._looked_at(turn)
        return new, old, values

    def _hurry(self, factor: float, turn: Turn) -> None:
        """Have elements looked at when they are worth a part of the price that was noted.

        As worths grow at least with the square of time, they are by that share of their time earlier. Nobody
        is left alone for longer than the shortest patience without a look.
        """
        self._table.hurry((1.0 - factor ** (1.0 / _SLOWEST_GROWTH)) * SHORTEST_ROUNDS * turn.round)
        self.marked *= factor

    def _looked_at(self, turn: Turn) -> tuple[Places, Places, Floats]:
        """Return elements that are looked at now, as `find` does."""
        table, now, end = self._table, turn.now, turn.end
        self._shares.count()
        places = table.due(now, end)
        is_open = np.array([hours is None or bool(hours.is_open(now)) for hours in table.hours])
        waits = table["not_before"][places] > now
        table.look_at(places[waits], table["not_before"][places[waits]])
        able = ~table["busy"][places] & ~waits & (table["weight"][places] > 0)
        able &= table["state"][places] != DROPPED
        places = places[able & is_open[table["window"][places]]]
        places = places[self._known.limits.free(table["group"][places], now, end) > 0]
        is_new = np.isnan(table["last"][places])
        new, old = places[is_new], places[~is_new]
        early = table["min_interval"][old] - table.since(old, now)
        table.look_at(old[early > 0], now + early[early > 0])
        old = old[early <= 0]
        since = self._replicas.since(old, table.since(old, end), end)
        if turn.in_turn:
            return new, old, since
        worked = since if self._known.timed else self._replicas.since(old, table.worked_since(old, end), end)
        values = self._known.worths_in_step(old, worked, now, end) * self._replicas.factors(old)
        overdue = since >= table["max_age"][old]
        self._patience.reckon(now, turn.round)
        self._promises.reckon(now, turn.round, turn.price)
        self._composed.reckon(now, turn.round)
        waiting = np.flatnonzero(since > SHORTEST_ROUNDS * turn.round)
        overdue[waiting] |= since[waiting] > self._patience.times(old[waiting], turn.round)
        back = self._shares.stand_back(old)
        values[overdue & ~back] = inf
        values[back] *= STANDING_BACK_FACTOR
        return new, old, values

    def repeated(
        self, places: Places, values: Floats, left: float, end: float, each: int, floor: float
    ) -> tuple[Places, Floats]:
        """Return polls, several of an element where they are worth it, and what each is worth.

        Of m polls since the last one, equally far apart, each is worth what one is after that part of time.
        Only the first poll follows a hint, and a ``min_interval`` is longer than a step or says nothing, so
        elements with either are polled once.
        """
        polls, worths, table = places, values, self._table
        once = (table["hints"][places] > 0) | (table["min_interval"][places] > 0) | ~np.isfinite(values)
        if self._known.clocks is not None and self._known.timed:  # its polls are not equally far apart
            timed = self._known.clocks.have_rhythm(table, places)
            once |= timed & (table.since(places, end) > 2.0 * self._known.clocks.step)
        again = np.flatnonzero(~once)
        latest = values[again]
        for count in range(2, each + 1):
            order = np.argsort(-worths, kind="stable")
            paid = np.cumsum(self._known.limits.steps(self._known.sizes(polls[order])))
            last = int(np.searchsorted(paid, left))
            price = max(worths[order[last]] if last < order.size else 0.0, floor)
            again = again[latest >= price]
            since = self._known.stretched(places[again], self._table.worked_since(places[again], end))
            latest = self._known.worths(places[again], since / count, end)
            if not (latest > price).any():
                break
            polls, worths = np.concatenate([polls, places[again]]), np.concatenate([worths, latest])
        return polls, worths

    def look_later(self, places: Places, values: Floats, turn: Turn, *, short: bool, lowest: float) -> None:
        """Note when others are worth looking at again, at the present price or the lowest that was paid.

        At constant rates worth grows at most with a power of time, so it takes that long to reach the price.
        """
        table, end, price = self._table, turn.end, min(turn.price, lowest)
        share = self._looked_at_share(turn)
        cheaper = turn.price < share * self.marked
        if cheaper and share > _LOOKED_AT_SHARE and turn.price > _LONGEST_HURRY * self.marked:
            self._hurry(turn.price / self.marked, turn)
            cheaper = False
        if short or cheaper:  # budget is left, or polls are cheaper now
            table.look_again()
            self.marked = price
            return
        self.marked = max(self.marked, price)
        rest = np.isfinite(values) & ~table["busy"][places]
        places, values = places[rest], values[rest]
        since = self._replicas.since(places, table.since(places, end), end)
        growth = self._known.growth(places)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            reach = (share * self.marked / values) ** (1.0 / growth)
        reach *= 0.9 if share == _LOOKED_AT_SHARE else share
        soon = 0.1 * float(table.learner.half_life.min())
        worked = self._replicas.since(places, table.worked_since(places, end), end)
        with np.errstate(over="ignore"):  # a poll that is worth next to nothing has a very long way
            wait = np.clip((np.nan_to_num(reach, nan=1.0) - 1.0) * worked, 0.0, soon)
        wait = table.after(places, np.full(places.size, end), wait) - end
        if self._known.clocks is not None and self._known.timed:
            horizon = min(soon, _LONGEST_LOOK_AHEAD_HOURS * self._known.clocks.rhythms.hour)
            moments = self._known.next_polls(places, np.full(places.size, end), share * self.marked, horizon)
            wait = np.where(np.isnan(moments), wait, np.maximum(moments - end, 0.2 * self._known.clocks.step))
        patience = SHORTEST_ROUNDS * turn.round
        wait = np.minimum(wait, np.where(since < patience, patience - since, patience))
        wait = np.minimum(wait, np.maximum(table["max_age"][places] - since, 0.0))
        table.look_at(places, end + wait)

    def _looked_at_share(self, turn: Turn) -> float:
        """Return the share of the price from which on elements are looked at."""
        if not turn.round < inf:
            return _LOOKED_AT_SHARE
        margin = max(
            _LOOKED_AT_TURNS * (turn.end - turn.now) / turn.round, _LOOKED_AT_ELEMENTS / len(self._table)
        )
        return 1.0 - min(margin, 1.0 - _LOOKED_AT_SHARE)
