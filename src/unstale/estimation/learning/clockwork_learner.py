"""Learn which elements change once a day or once a week, and at what moment of it.

A table that a job fills at 02:10 each night is no matter of rates: it changes once in each period, at its own
phase. That is one more model, and it bets like the others. As long as it bets no better than the law of rates
of an element, nothing is kept of it but the bets. Where it does, and polls say something of the phase, the
element gets a row: what is known of its phase, of the spread of changes about it, and of periods that are
left out. An element follows its own clock if its bets are ahead by more than its class makes plausible: where
many elements of a class have such clocks, fewer nats do.

Nothing here knows the length of a day: a row is the same in seconds and in days.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats
from unstale.errors import InvalidInput

from .compiled.clockwork import (
    BET,
    BINS,
    FIRST_PERIODS,
    NUMBERS,
    OVERDUE,
    PERIOD_DAYS,
    hear_clockwork,
    screen_polls,
    start_row,
)
from .moved_clocks import MovedClocks

PERIODS_DAYS = np.array([1.0, 7.0])
"""Periods of clockworks."""
_END = b"clockwork1"
"""The last bytes of what is kept of an element that has a row."""
_ROW_BEHIND, _LOST_BEHIND = 5.0, 6.0
"""Nats that a clockwork may be behind what it takes to be followed, to be given a row, and to keep it."""
_SOON_BEHIND = 4.0
"""The same for polls to be spread so that they say more of the phase."""
_MOSTLY_TOLD, _TOLD_CHANGES = 0.5, 50.0
"""Share of changes whose times are told, from which on phases are known without more ado; and changes in
which that share fades."""
_ALIKE_TURNS = 0.6, 1.6
"""Periods between polls that say little of the phase, and more if they are not alike."""
_MOST_CREDENCE = 0.999
_LEAST_LEAD = -1.0
"""Nats by which a clockwork must be ahead, however many others of its class there are."""
_FIRST_SHARE, _FIRST_ELEMENTS = 0.02, 5.0
"""Share of a class that is taken to have clocks of their own before any poll, and for how many elements that
counts."""

_MOSTLY_CLOCKS = 0.5
"""Share of a class with clocks of their own from which on others get a row for a day before polls could tell
their phases: what changes before each poll would else be given up, and never be seen to have a clock."""
_LEAST_SHARE, _MOST_SHARE = 1e-3, 0.95
_HEARD_PER_WEIGHING = 0.02
"""Polls after which shares of classes are reckoned anew, per row."""

Rows = NDArray[np.int32]


class Clockwork(NamedTuple):
    """An element that changes once in a period."""

    period_days: float
    phase: float
    """At which part of the period, on average; from 0 to 1."""
    probabilities: Floats
    """Of the phase, by parts of the period."""
    hits: float
    misses: float
    """Periods that saw a change, and periods that saw none, of late."""


class ClockworkLearner:
    """Rows of elements that seem to change by a clock of their own; row 0 is that of nobody."""

    def __init__(self) -> None:
        self.phases = np.zeros((1, BINS), np.uint16)
        """Probabilities of the parts of a period, as whole numbers."""
        self.numbers = np.zeros((1, NUMBERS), np.float32)
        """What else is known; see `compiled.clockwork`."""
        self._classes = np.full(1, -1, np.int64)
        """The class of each row; -1 if nobody has it."""
        self.shares = np.full(1, _FIRST_SHARE)
        """Of each class, the share of elements with clocks of their own."""
        self.any = False
        """Whether any element follows a clock of its own."""
        self.told_share = 0.0
        """Share of the changes of late whose times were told."""
        self._heard = 0
        self.moved = MovedClocks()
        """Classes whose jobs may have moved together."""
        self.may_follow = True
        """Whether elements may follow their own clocks; without, shoot-outs show what these are good for."""

    def followed(self, rows: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Tell which rows are clocks that their elements follow."""
        classes = self._classes[rows]
        ahead = self.numbers[rows, BET] > self._stakes(classes)
        return np.asarray((classes >= 0) & ahead & self.may_follow)

    def credence(self, rows: NDArray[np.integer]) -> Floats:
        """Return the probabilities that elements change by their own clocks and by nothing else."""
        lead = self.numbers[rows, BET] - self._stakes(self._classes[rows])
        return np.asarray(_MOST_CREDENCE / (1.0 + np.exp(-lead)), np.float64)

    def overdue(self, rows: NDArray[np.integer]) -> Floats:
        """Return the probabilities with which changes were expected that did not come."""
        return np.asarray(self.numbers[rows, OVERDUE], np.float64)

    def clock(self, row: int) -> Clockwork:
        """Return what is known of one clock, which need not be followed."""
        weights = self.phases[row].astype(float)
        turn = np.angle(np.exp(2j * np.pi * (np.arange(BINS) + 0.5) / BINS) @ weights) / (2.0 * np.pi)
        hits, misses = (self.numbers[row, place] + first for place, first in FIRST_PERIODS)
        return Clockwork(
            period_days=float(self.numbers[row, PERIOD_DAYS]),
            phase=float(turn % 1.0),
            probabilities=weights / weights.sum(),
            hits=float(hits),
            misses=float(misses),
        )

    def vague(self, rows: NDArray[np.integer], day: float, round: float) -> NDArray[np.bool_]:  # noqa: A002
        """Tell which rows may be clocks that are followed soon, if polls say more of their phases.

        Polls that are about a period apart say nothing: they see a change whatever the phase is, unless its
        time is told.
        """
        if self.told_share > _MOSTLY_TOLD or not self.may_follow:
            return np.zeros(rows.size, np.bool_)
        classes, turns = self._classes[rows], round / (day * np.maximum(self.numbers[rows, PERIOD_DAYS], 1.0))
        alike = (turns > _ALIKE_TURNS[0]) & (turns < _ALIKE_TURNS[1])
        soon = self.numbers[rows, BET] > self._stakes(classes) - _SOON_BEHIND
        return np.asarray((classes >= 0) & alike & soon)

    def _stakes(self, classes: NDArray[np.integer]) -> Floats:
        """Return by how many nats clockworks must be ahead to be followed."""
        share = self.shares[np.clip(classes, 0, self.shares.size - 1)]
        return np.asarray(np.maximum(np.log((1.0 - share) / share), _LEAST_LEAD))

    def learn(
        self,
        rows: Rows,
        bets: tuple[NDArray[np.float32], ...],
        places: NDArray[np.intp],
        classes: NDArray[np.intp],
        *,
        day: float,
        last: Floats,
        time: Floats,
        changed: NDArray[np.bool_],
        ages: Floats,
        typical: Floats,
        against: Floats,
        sizes: Floats,
    ) -> None:
        """Take in polls, in the order of time.

        Parameters
        ----------
        rows, bets
            Columns of all elements, which are written: their rows, 0 for those without one, and what the
            models have bet of which nothing else is kept, by period.
        places, classes
            The elements of the polls, and their classes.
        day
            Its length.
        last, time
            Moments of the polls before, and of these.
        changed, ages
            Whether they saw a change, and how long before it was; nan where that is not known.
        typical
            By class, levels of the hours of a week.
        against
            What the law of rates has lost, in nats; of a density per unit of time where the age is known.
        sizes
            How many elements each class has.
        """
        have = rows[places] > 0
        if seen := int(np.count_nonzero(changed)):
            told = np.count_nonzero(changed & (ages >= 0.0)) / seen
            self.told_share += (told - self.told_share) * min(seen / _TOLD_CHANGES, 1.0)
        if have.any():
            mine = rows[places[have]]
            self._classes[mine] = classes[have]
            followed, due = self.followed(mine), np.zeros(mine.size)
            hear_clockwork(
                self.phases, self.numbers, mine, day, last[have], time[have], changed[have], ages[have],
                _parts(typical, classes[have], self.numbers[mine, PERIOD_DAYS]), against[have], due,
            )  # fmt: skip
            if (daily := self.numbers[mine, PERIOD_DAYS] == 1.0).any():
                self.moved.hear(
                    self.phases, self.numbers, self._classes, mine[daily], day=day, last=last[have][daily],
                    time=time[have][daily], changed=changed[have][daily],
                    due=np.where(followed, due, 0.0)[daily],
                )  # fmt: skip
            least = self._stakes(classes[have]) - _LOST_BEHIND
            doubted = np.array([not self.moved.suspects(one) for one in classes[have].tolist()])
            lost = np.unique(places[have][(self.numbers[mine, BET] < least) & doubted])
            for bet in bets:
                bet[lost] = self.numbers[rows[lost], BET]
            self.release(rows[lost])
            rows[lost] = 0
        rest = ~have
        if rest.any():
            found = screen_polls(
                places[rest], PERIODS_DAYS, day, last[rest], time[rest], changed[rest], ages[rest],
                against[rest], self._stakes(classes[rest]) - _ROW_BEHIND, bets,
            )  # fmt: skip
            by_day, by_week = (bet[places[rest]] for bet in bets)
            alike = self.shares[np.minimum(classes[rest], self.shares.size - 1)] > _MOSTLY_CLOCKS
            early = by_day > np.maximum(self._stakes(classes[rest]) - _ROW_BEHIND, by_week)
            found[alike & early] = 1
            worth_a_row, which = np.unique(places[rest][found > 0], return_index=True)
            for place, kind, one in zip(
                worth_a_row.tolist(),
                (found[found > 0][which] - 1).tolist(),
                classes[rest][found > 0][which].tolist(),
                strict=True,
            ):
                rows[place] = self._start(PERIODS_DAYS[kind], float(bets[kind][place]), one, typical)
        self._heard += int(np.count_nonzero(have))
        if self._heard > _HEARD_PER_WEIGHING * self._classes.size:
            self._heard = 0
            self._weigh(sizes)
        if not self.followed(rows[places]).any():
            self.any = self.any and bool(self.followed(np.arange(self._classes.size)).any())
        else:
            self.any = True

    def _start(self, days: float, bet: float, one: int, typical: Floats) -> int:
        """Take a row that is free; return its number."""
        row = self._take(1)[0]
        parts = _parts(typical, np.array([one]), np.array([days]))[0]
        start_row(self.phases, self.numbers, row, days, bet, parts)
        self._classes[row] = one
        return int(row)

    def _take(self, count: int) -> NDArray[np.intp]:
        """Return rows that are free, and make more if there are too few."""
        free = np.flatnonzero(self._classes[1:] < 0) + 1
        if (more := count - free.size) > 0:
            more = max(more, self._classes.size // 2)
            self.phases = np.concatenate([self.phases, np.zeros((more, BINS), np.uint16)])
            self.numbers = np.concatenate([self.numbers, np.zeros((more, NUMBERS), np.float32)])
            self._classes = np.concatenate([self._classes, np.full(more, -1, np.int64)])
            free = np.flatnonzero(self._classes[1:] < 0) + 1
        return free[:count]

    def split(self, one: int, parent: int) -> None:
        """Let a class begin with the share of another."""
        if (more := max(one, parent) + 1 - self.shares.size) > 0:
            self.shares = np.concatenate([self.shares, np.full(more, _FIRST_SHARE)])
        self.shares[one] = self.shares[parent]

    def move(self, rows: Rows, classes: NDArray[np.integer] | int) -> None:
        """Let rows be those of elements of classes; row 0 is that of nobody."""
        self._classes[rows] = np.where(rows > 0, classes, -1)

    def release(self, rows: Rows) -> None:
        """Let rows be free for others."""
        self._classes[rows] = -1

    def _weigh(self, sizes: Floats) -> None:
        """Reckon which share of each class has clocks of its own."""
        shares = np.full(max(sizes.size, self.shares.size), _FIRST_SHARE)
        shares[: self.shares.size] = self.shares
        held = np.flatnonzero(self._classes >= 0)
        classes = np.minimum(self._classes[held], shares.size - 1)
        odds = shares[classes] / (1.0 - shares[classes]) * np.exp(self.numbers[held, BET])
        count = np.bincount(classes, odds / (1.0 + odds), shares.size)
        everyone = np.maximum(np.pad(sizes, (0, shares.size - sizes.size)), count)
        shares = (count + _FIRST_SHARE * _FIRST_ELEMENTS) / (everyone + _FIRST_ELEMENTS)
        self.shares = np.clip(shares, _LEAST_SHARE, _MOST_SHARE)

    def set_shares(self, shares: Floats) -> None:
        """Set which share of each class has clocks of its own."""
        if shares.ndim != 1 or not shares.size or not ((shares > 0) & (shares < 1)).all():
            raise InvalidInput(f"state must be what ClassClocks.state returned; shares are {shares!r}")
        self.shares = shares
        self.any = bool(self.followed(np.arange(self._classes.size)).any())

    # --- to be continued ------------------------------------------------------------------------------------

    def kept(self, rows: Rows) -> list[bytes]:
        """Return what is to be kept of elements with these rows, as bytes; nothing of those without one."""
        return [
            b"" if not row else self.phases[row].tobytes() + self.numbers[row].tobytes() + _END
            for row in rows.tolist()
        ]

    def write(self, kept: Sequence[bytes]) -> tuple[Rows, list[bytes]]:
        """Take up what `kept` has returned, at the end of other bytes; return the rows, and those others."""
        length = 2 * BINS + 4 * NUMBERS
        rows, others = np.zeros(len(kept), np.int32), list(kept)
        for k, one in enumerate(kept):
            if len(one) < length + len(_END) or not one.endswith(_END):
                continue
            others[k] = one[: -length - len(_END)]
            given = one[-length - len(_END) : -len(_END)]
            numbers = np.frombuffer(given[2 * BINS :], np.float32)
            phase = np.frombuffer(given[: 2 * BINS], np.uint16)
            if not np.isfinite(numbers).all() or numbers[PERIOD_DAYS] not in PERIODS_DAYS or not phase.any():
                continue
            row = self._take(1)[0]
            self.phases[row], self.numbers[row], self._classes[row] = phase, numbers, 0
            rows[k] = row
        self.any = self.any or bool(self.followed(rows).any())
        return rows, others

    def state(self) -> dict[str, Any]:
        """Return all rows."""
        return {
            "phases": self.phases.copy(),
            "numbers": self.numbers.copy(),
            "classes": self._classes.copy(),
            "shares": self.shares.copy(),
            "heard": np.array(self._heard),
            "told_share": np.array(self.told_share),
            **self.moved.state(),
        }

    @classmethod
    def resume(cls, state: Mapping[str, Any]) -> ClockworkLearner:
        """Go on where `state` was taken; older versions had no rows."""
        self = cls()
        if not state:
            return self
        self.phases, self.numbers = np.array(state["phases"]), np.array(state["numbers"])
        self._classes, self.shares = np.array(state["classes"]), np.array(state["shares"])
        self._heard, count = int(state["heard"]), self._classes.size
        self.told_share = float(state.get("told_share", 0.0))
        self.moved.resume(state)
        if self.phases.shape != (count, BINS) or self.numbers.shape != (count, NUMBERS):
            raise InvalidInput(
                f"state must be what Learning.state returned; 'phases' has shape {self.phases.shape}"
            )
        self.any = bool(self.followed(np.arange(count)).any())
        return self


def _parts(levels: Floats, classes: NDArray[np.intp], days: NDArray[np.floating[Any]]) -> Floats:
    """Return how probable each part of a period is for elements of classes, by levels of the week's hours."""
    found = np.empty((classes.size, BINS))
    hours = (np.arange(BINS) + 0.5) / BINS
    for period in np.unique(days).tolist():
        which = days == period
        of_hours = levels[classes[which]]
        if period == 1.0:
            of_hours = of_hours.reshape(-1, 7, 24).mean(axis=1)
        found[which] = of_hours[:, (hours * of_hours.shape[1]).astype(int)]
    return found / found.sum(axis=1, keepdims=True)
