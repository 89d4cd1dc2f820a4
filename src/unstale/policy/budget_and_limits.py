"""How fast polls may follow each other: the budget, and the limits of groups; step 1 of a poll.

Each limit has a moment until which what it allows has been *paid*. A poll gets the earliest slot that all of
its limits allow, and moves their moments on by what it costs.

A budget may have a *reserve*: what is not spent is kept, up to what the budget pays for in so much time. The
moment of a budget may then lag behind, by the reserve at most; so no window of any length spends more than
its budget and the reserve. Polls that the reserve pays for follow each other no faster than ``max_rate``.
Without a reserve there is no credit for time in which nothing was polled. Groups never have any. Where the
moments are kept with the polls they paid for, a crash gives no credit either.

With a ``grace`` a poll may start a little later than its slot: by so much, or a tenth of its group's spacing
if that is less (but not below 1/20 second, or a quarter of it). So that a window of a minute, or two polls of
a group, keep to the limit whatever the delays, slots are that much further apart. Of a budget, half a second
of grace costs less than one per cent. A simulation, which polls on time, needs none.

A budget of bytes is charged for what a poll is expected to take, and set right when it is known.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from math import inf
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats

from .limits import UNLIMITED, GroupLimits, Slots

__all__ = ["RateLimits"]

_BUDGET_WINDOW_SECONDS = 60.0
"""Seconds: the shortest window over which a budget is held exactly, if polls may be late."""
_FAILURES_IN_A_ROW = 5
"""Failures in a row after which a whole group is left alone for a while."""
_LONGEST_BLOCK_SECONDS = 7.0 * 86400.0
"""Seconds for which a source can ask to be left alone, at most."""
_COLUMNS: Mapping[str, tuple[type, float]] = {
    "spacing": (np.float64, 0.0), "concurrency": (np.int64, UNLIMITED), "paid": (np.float64, -inf),
    "blocked": (np.float64, -inf), "out": (np.int64, 0), "failures": (np.int64, 0),
    "failed": (np.float64, -inf), "crowd": (np.float64, 1.0),
}  # fmt: skip


class RateLimits:
    """Gives slots: so many polls per unit time, so many bytes, and what groups allow.

    Groups are numbered, from 0 on. One that nobody has told anything about has no limit of its own.

    Parameters
    ----------
    budget, byte_budget
        Polls and bytes per unit time; None: any.
    grace
        By which a poll may start later than its slot.
    reserve
        Time of which unspent budget is kept.
    max_rate
        Polls per unit time at any moment, whatever is in reserve; None: any.

    >>> limits = RateLimits(budget=2.0)
    >>> limits.assign(np.array([0, 0, 0]), np.ones(3), now=0.0, end=1.0, room=10).start.tolist()
    [0.0, 0.5]
    """

    def __init__(
        self,
        budget: float | None = None,
        byte_budget: float | None = None,
        *,
        grace: float = 0.0,
        reserve: float = 0.0,
        max_rate: float | None = None,
    ) -> None:
        self.budget, self.byte_budget, self.grace = budget, byte_budget, grace
        self.reserve, self.max_rate = reserve, max_rate
        """Time of which unspent budget is kept, and polls per unit time at any moment."""
        self.paid = self.paid_bytes = -inf
        """Moments up to which the budgets are spent; at first the reserve is full."""
        self.paced = -inf
        """The moment before which ``max_rate`` allows no poll."""
        self._owed = self._owed_bytes = 0.0
        """What was spent beyond that while there was a budget, if there is none now."""
        self._groups: dict[str, NDArray[Any]] = {
            name: np.full(1, blank, kind) for name, (kind, blank) in _COLUMNS.items()
        }
        self._names: dict[int, str] = {}
        self._why: dict[int, str] = {}
        self._crowded: list[int] = []
        self._handed_out: list[int] = []

    # --- groups ---------------------------------------------------------------------------------------------

    def know(
        self,
        number: int,
        *,
        name: str = "",
        spacing: float = 0.0,
        concurrency: int = UNLIMITED,
        paid: float = -inf,
        blocked: float = -inf,
        why: str = "",
    ) -> None:
        """Take in what a group must keep to; its next poll may start no sooner than was known before.

        Parameters
        ----------
        number, name
            Of the group.
        spacing
            Time between the starts of two polls, at least.
        concurrency
            Polls at the same time, at most.
        paid
            The moment before which its next poll may not start.
        blocked, why
            The moment until which it is left alone, and the reason in words.
        """
        self._make_room(number)
        groups = self._groups
        groups["spacing"][number], groups["concurrency"][number] = spacing, concurrency
        groups["paid"][number] = max(float(groups["paid"][number]), paid)
        groups["blocked"][number] = blocked
        self._names[number] = name
        self._why[number] = why

    def _make_room(self, number: int) -> None:
        """Make room for groups up to a number."""
        if (more := number + 1 - self._groups["paid"].size) > 0:
            more = max(more, self._groups["paid"].size)
            for name, (kind, blank) in _COLUMNS.items():
                self._groups[name] = np.concatenate([self._groups[name], np.full(more, blank, kind)])

    def unknown(self, numbers: Iterable[int]) -> list[int]:
        """Return those groups that nothing has been told about."""
        return [number for number in numbers if number not in self._names]

    def group(self, number: int) -> GroupLimits:
        """Return what a group must keep to."""
        if number >= self._groups["paid"].size:
            return GroupLimits("", 0.0, UNLIMITED, -inf, -inf, "", inf)
        spacing, concurrency, paid, blocked = (
            self._groups[name][number].item() for name in ("spacing", "concurrency", "paid", "blocked")
        )
        apart = spacing + self._late(spacing)
        fastest = 1.0 / apart if spacing > 0 else inf
        name, why = self._names.get(number, ""), self._why.get(number, "")
        return GroupLimits(name, spacing, concurrency, paid, blocked, why, fastest)

    def spacings(self, groups: NDArray[np.integer]) -> Floats:
        """Return the time between the starts of two polls of each of these groups, at least."""
        self._make_room(int(groups.max(initial=0)))
        return np.asarray(self._groups["spacing"][groups], np.float64)

    def concurrencies(self, groups: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return how many polls of each of these groups may run at the same time."""
        self._make_room(int(groups.max(initial=0)))
        return np.asarray(self._groups["concurrency"][groups], np.int64)

    def groups(self) -> Iterator[tuple[int, GroupLimits]]:
        """Go through the groups that are known, with their numbers."""
        for number in self._names:
            yield number, self.group(number)

    def paid_of(self, numbers: Iterable[int]) -> dict[int, float]:
        """Return from when on the next polls of groups may start, of those where that is limited."""
        paid = {number: float(self._groups["paid"][number]) for number in numbers}
        return {number: moment for number, moment in paid.items() if np.isfinite(moment)}

    def _late(self, spacing: float) -> float:
        """Return by how much a poll of a group with this spacing may be late."""
        if spacing <= 0:
            return self.grace
        return min(self.grace, max(0.1 * spacing, min(0.05, 0.25 * spacing)))

    def hand_out(self, numbers: Iterable[int]) -> None:
        """Take in which polls are handed out now: one number of a group for each."""
        out = self._groups["out"]
        out[self._handed_out] = 0
        self._handed_out = [number for number in numbers if number < out.size]
        np.add.at(out, self._handed_out, 1)

    def crowd(self, crowd: Mapping[int, float]) -> None:
        """Take in how many polls of groups may be handed out for each that may run; 1 if nothing is said.

        It is more than 1 if there is but one worker, who sees to it that no more run at a time, and if they
        take so little time that none is late.
        """
        self._groups["crowd"][self._crowded] = 1.0
        self._crowded = [number for number in crowd if number < self._groups["crowd"].size]
        self._groups["crowd"][self._crowded] = [crowd[number] for number in self._crowded]

    def free(self, groups: NDArray[np.integer], now: float, end: float) -> NDArray[np.int64]:
        """Return how many more polls of each of these groups may be handed out that start before ``end``."""
        free, columns = self._idle(groups), self._groups
        ready = np.maximum(columns["paid"][groups], columns["blocked"][groups])
        left, spacing = end - np.maximum(ready, now), columns["spacing"][groups]
        with np.errstate(divide="ignore", invalid="ignore"):
            slots = np.where(spacing > 0, np.minimum(left / spacing, 1e15), 1e15)
        return np.where(left > 0, np.minimum(free, 1 + np.maximum(slots, 0.0).astype(np.int64)), 0)

    def _idle(self, groups: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return how many more polls of each of these groups may be handed out at the same time."""
        self._make_room(int(groups.max(initial=0)))
        columns = self._groups
        most = (columns["crowd"][groups] * columns["concurrency"][groups]).astype(np.int64)
        return np.maximum(most - columns["out"][groups], 0)

    def saw(self, groups: NDArray[np.integer], failed: NDArray[np.bool_], time: Floats) -> None:
        """Take in how polls of groups went; where all fail, the whole group is left alone for a while."""
        self._make_room(int(groups.max(initial=0)))
        columns = self._groups
        if not failed.any():
            columns["failures"][groups] = 0
            return
        for number, bad, moment in zip(groups.tolist(), failed.tolist(), time.tolist(), strict=True):
            failures = int(columns["failures"][number]) + 1 if bad else 0
            columns["failures"][number], columns["failed"][number] = failures, moment
            if failures >= _FAILURES_IN_A_ROW:
                wait = min(30.0 * 2.0 ** min(failures - _FAILURES_IN_A_ROW, 10), 3600.0)
                columns["paid"][number] = max(float(columns["paid"][number]), moment + wait)

    def forgive(self, group: int) -> None:
        """Let a group be tried again that is left alone because its polls failed; one failure ends that.

        What its source asked for (Retry-After) still counts.
        """
        if group < self._groups["paid"].size and self._groups["failures"][group] >= _FAILURES_IN_A_ROW:
            spacing = float(self._groups["spacing"][group])
            polled = float(self._groups["failed"][group]) + spacing + self._late(spacing)
            self._groups["paid"][group] = min(float(self._groups["paid"][group]), polled)

    # --- the budget -----------------------------------------------------------------------------------------

    def rate(self, size: float) -> float:
        """Return how many polls of such a size the budget pays for per unit time; inf without a budget."""
        step = 0.0 if self.budget is None else self._cost(1.0, self.budget)
        if self.byte_budget is not None:
            step = max(step, size * self._cost(1.0, self.byte_budget))
        return 1.0 / step if step > 0 else inf

    def affordable(self, now: float, end: float, size: float) -> float:
        """Return how many polls of such a size can start before ``end``."""
        left = self.left(now, end)
        if not (left > 0 and self.next(now) < end):
            return 0.0
        most = (end - self.next(now)) * self.max_rate if self.max_rate is not None else inf
        return min(left * self.rate(size), most)

    def bytes_kept(self, now: float) -> float:
        """Return the time of which the budget of bytes is in reserve."""
        return min(max(now - self.paid_bytes, 0.0), self.reserve)

    def left(self, now: float, end: float) -> float:
        """Return the time whose budget can be spent on polls that start before ``end``, the reserve with it.

        Of two budgets the one that has less left counts.
        """
        moment = now - self.reserve
        if self.budget is not None:
            moment = max(moment, self.paid)
        if self.byte_budget is not None:
            moment = max(moment, self.paid_bytes)
        return end - moment

    def next(self, now: float) -> float:
        """Return from when on the budget allows the next poll."""
        moment = now
        if self.budget is not None:
            moment = max(moment, self.paid)
        if self.byte_budget is not None:
            moment = max(moment, self.paid_bytes)
        if self.max_rate is not None:
            moment = max(moment, self.paced)
        return moment

    def _cost(self, amount: float, budget: float) -> float:
        """Return the time that it takes to pay for so much."""
        return amount / budget * (1.0 + self.grace / _BUDGET_WINDOW_SECONDS) if budget > 0 else inf

    def steps(self, sizes: Floats) -> Floats:
        """Return how long after polls of such sizes the next may start."""
        steps = np.zeros(sizes.size)
        if self.budget is not None:
            steps[:] = self._cost(1.0, self.budget)
        if self.byte_budget is not None:
            steps = np.maximum(steps, sizes * self._cost(1.0, self.byte_budget))
        return steps

    def costs(self, sizes: Floats) -> Floats:
        """Return what polls cost: 1 each, or their bytes; both, in polls, if there are both budgets."""
        if self.byte_budget is None:
            return np.ones(sizes.size)
        if self.budget is None:
            return sizes
        return 1.0 + sizes * (self.budget / max(self.byte_budget, 1e-300))

    @property
    def _pace(self) -> float:
        """The time between two polls that ``max_rate`` asks for."""
        return 0.0 if self.max_rate is None else self._cost(1.0, self.max_rate)

    def change_budget(self, now: float, budget: float | None, byte_budget: float | None) -> None:
        """Go on with other budgets: what has been spent beyond ``now`` is paid for at the new ones.

        What is in reserve stays there, as so many polls and bytes, as far as the new reserve goes.
        """
        before, bytes_before = self._kept(now)
        self._owed += max(self.paid - now, 0.0) * (self.budget or 0.0)
        self._owed_bytes += max(self.paid_bytes - now, 0.0) * (self.byte_budget or 0.0)
        self.budget, self.byte_budget, self.paid, self.paid_bytes = budget, byte_budget, now, now
        if budget:
            self.paid, self._owed = now + (self._owed - before) / budget, 0.0
        if byte_budget:
            self.paid_bytes, self._owed_bytes = now + (self._owed_bytes - bytes_before) / byte_budget, 0.0

    def _kept(self, now: float) -> tuple[float, float]:
        """Return the polls and the bytes in reserve; inf as long as nothing has been spent."""
        if not self.reserve > 0:
            return 0.0, 0.0
        kept = [
            inf if paid == -inf else min(max(now - paid, 0.0), self.reserve) * (budget or 0.0)
            for paid, budget in ((self.paid, self.budget), (self.paid_bytes, self.byte_budget))
        ]
        return kept[0], kept[1]

    def give_back(self, groups: NDArray[np.integer], sizes: Floats, starts: Floats) -> None:
        """Take back polls that were given slots, and have not been made; the first comes first."""
        if not groups.size:
            return
        if self.reserve > 0:
            if self.budget:
                self.paid -= groups.size * self._cost(1.0, self.budget)
            if self.byte_budget:
                self.paid_bytes -= self._cost(float(sizes.sum()), self.byte_budget)
        else:
            self.paid = self.paid_bytes = float(starts[0])
        self.paced = min(self.paced, float(starts[0]))
        np.minimum.at(self._groups["paid"], groups, starts)

    def settle(self, expected: float, traffic: float, now: float) -> None:
        """Set right what a poll was charged, now that it is known what it took."""
        if self.byte_budget is not None and traffic > expected:
            since = max(now - self.reserve, self.paid_bytes)
            self.paid_bytes = since + self._cost(traffic - expected, self.byte_budget)

    # --- slots ----------------------------------------------------------------------------------------------

    def assign(
        self,
        groups: NDArray[np.integer],
        sizes: Floats,
        *,
        now: float,
        end: float,
        room: int,
        apart: float = 0.0,
    ) -> Slots:
        """Give polls their slots, the first the earliest.

        Parameters
        ----------
        groups, sizes
            The group of each poll, and what it costs.
        now, end
            Slots lie between the two.
        room
            Polls that get one, at most.
        apart
            Time between two slots, at least.

        A poll whose group is not free yet lets others go first, so that the budget is used meanwhile.
        """
        start = self.next(now)
        if not (start < end and groups.size and room > 0 and self.rate(1.0) > 0):
            return Slots(np.empty(0, np.intp), np.empty(0), np.empty(0))
        self._make_room(int(groups.max()))
        ready = np.maximum(self._groups["paid"][groups], self._groups["blocked"][groups])
        free = (ready <= start) & (self._idle(groups) >= groups.size) & (self._groups["spacing"][groups] <= 0)
        if free.all():
            return self._in_a_row(groups, sizes, start, end, room, apart)
        return self._one_by_one(groups, sizes, start, end, room, apart)

    def _in_a_row(
        self,
        groups: NDArray[np.integer],
        sizes: Floats,
        start: float,
        end: float,
        room: int,
        apart: float = 0.0,
    ) -> Slots:
        """Give slots as fast as the budget allows."""
        steps = self.steps(sizes)
        if self.reserve > 0 or self._pace > 0 or apart > 0:
            both = self.budget is not None and self.byte_budget is not None
            if both or max(self._pace, apart) > steps.min():  # a reserve may fill up meanwhile
                return self._one_by_one(groups, sizes, start, end, room, apart)
            slots = self._from_reserve(sizes, start, apart)
        else:
            slots = start + np.concatenate([[0.0], np.cumsum(steps)])[:-1]
        count = min(int(np.searchsorted(slots, end)), room)
        if self.reserve > 0:
            self._pay_all(start, slots[:count], sizes[:count])
        else:
            self._pay(float(slots[count - 1]), float(sizes[count - 1]))
        limited = groups[:count][self._groups["concurrency"][groups[:count]] < UNLIMITED]
        np.add.at(self._groups["out"], limited, 1)
        self._handed_out += limited.tolist()
        return Slots(np.arange(count), slots[:count], np.full(count, self.grace))

    def _from_reserve(self, sizes: Floats, start: float, apart: float) -> Floats:
        """Return slots as soon as the reserve or the budget pays for them, no closer than they may be."""
        step = max(self._pace, apart) * np.arange(sizes.size)
        ready = np.full(sizes.size, start)
        for paid, budget, amounts in (
            (self.paid, self.budget, np.ones(sizes.size)),
            (self.paid_bytes, self.byte_budget, sizes),
        ):
            if budget is not None:
                spent = np.cumsum(amounts) - amounts
                np.maximum(
                    ready, max(paid, start - self.reserve) + spent * self._cost(1.0, budget), out=ready
                )
        return np.asarray(step + np.maximum.accumulate(ready - step), np.float64)

    def _pay_all(self, start: float, slots: Floats, sizes: Floats) -> None:
        """Pay for polls that were given slots one after the other, from the reserve on."""
        if self.budget is not None:
            self.paid = max(self.paid, start - self.reserve) + slots.size * self._cost(1.0, self.budget)
        if self.byte_budget is not None:
            spent = self._cost(float(sizes.sum()), self.byte_budget)
            self.paid_bytes = max(self.paid_bytes, start - self.reserve) + spent
        if self.max_rate is not None:
            self.paced = float(slots[-1]) + self._pace

    def _one_by_one(
        self,
        groups: NDArray[np.integer],
        sizes: Floats,
        start: float,
        end: float,
        room: int,
        apart: float = 0.0,
    ) -> Slots:
        """Give slots as groups become free."""
        columns = self._groups
        numbers, free = groups.tolist(), dict(zip(groups.tolist(), self._idle(groups).tolist(), strict=True))
        which: list[int] = []
        slots: list[float] = []
        lates: list[float] = []
        waiting: list[tuple[float, int]] = []
        time, following = start, 0
        while time < end and len(which) < room:
            if waiting and waiting[0][0] <= time:
                poll = heapq.heappop(waiting)[1]
            elif following < len(numbers):
                poll, following = following, following + 1
            elif waiting:
                time = waiting[0][0]
                continue
            else:
                break
            number = numbers[poll]
            if free[number] <= 0:
                continue
            if (ready := max(float(columns["paid"][number]), float(columns["blocked"][number]))) > time:
                if ready < end:
                    heapq.heappush(waiting, (ready, poll))
                continue
            spacing = float(columns["spacing"][number])
            late = self._late(spacing)
            if spacing > 0:
                columns["paid"][number] = time + spacing + late
            if columns["concurrency"][number] < UNLIMITED:
                columns["out"][number] += 1
                self._handed_out.append(number)
            free[number] -= 1
            which.append(poll)
            slots.append(time)
            lates.append(late)
            time = max(self._pay(time, float(sizes[poll])), time + apart)
        return Slots(np.array(which, np.intp), np.array(slots), np.array(lates))

    def _pay(self, time: float, size: float) -> float:
        """Pay for a poll at a moment; return from when on the next may start."""
        if self.budget is not None:
            self.paid = max(self.paid, time - self.reserve) + self._cost(1.0, self.budget)
        if self.byte_budget is not None:
            self.paid_bytes = max(self.paid_bytes, time - self.reserve) + self._cost(size, self.byte_budget)
        if self.max_rate is not None:
            self.paced = time + self._pace
        return self.next(time)

    # --- to be continued ------------------------------------------------------------------------------------

    def state(self) -> dict[str, Floats]:
        """Return all that is needed to go on later: nan stands for a budget that there is not."""
        budgets = [np.nan if one is None else one for one in (self.budget, self.byte_budget)]
        own = np.array(
            [
                *budgets, self.grace, self.paid, self.paid_bytes, self._owed, self._owed_bytes, self.reserve,
                np.nan if self.max_rate is None else self.max_rate, self.paced,
            ]
        )  # fmt: skip
        return {"own": own, **{name: column.copy() for name, column in self._groups.items()}}

    @classmethod
    def resume(cls, state: Mapping[str, Floats]) -> Self:
        """Go on where `state` was taken."""
        own = np.asarray(state["own"]).tolist()
        budget, byte_budget, grace, paid, paid_bytes, owed, owed_bytes = own[:7]
        reserve, max_rate, paced = own[7:] or (0.0, np.nan, -inf)  # as older versions had it
        budget, byte_budget, max_rate = (
            None if np.isnan(one) else one for one in (budget, byte_budget, max_rate)
        )
        self = cls(budget, byte_budget, grace=grace, reserve=reserve, max_rate=max_rate)
        self.paced = paced
        self.paid, self.paid_bytes, self._owed, self._owed_bytes = paid, paid_bytes, owed, owed_bytes
        count = np.asarray(state["paid"]).size
        self._groups = {
            name: np.array(state[name]) if name in state else np.full(count, blank, kind)
            for name, (kind, blank) in _COLUMNS.items()
        }
        return self

    # --- a clock that is set --------------------------------------------------------------------------------

    def set_back(
        self,
        now: float,
        ahead: float,
        *,
        largest: float,
        failing: AbstractSet[int] = frozenset(),
        shift: float = 0.0,
    ) -> dict[int, float]:
        """See to it that no moment is further ahead than it can be, in case the time has been set back.

        Parameters
        ----------
        now
            The time as it is now.
        ahead
            How far ahead slots are given.
        largest
            Bytes that a poll may take.
        failing
            Groups that may be left alone for long.
        shift
            By how much the time was set while somebody looked.

        Returns
        -------
        dict
            The groups that were mended, and from when on their next polls may start.
        """
        if self.budget:
            self.paid = min(self.paid + shift, now + ahead + self._cost(1.0, self.budget))
        if self.byte_budget:
            most = self._cost(largest, self.byte_budget)
            self.paid_bytes = min(self.paid_bytes + shift, now + ahead + most)
        self.paced = min(self.paced + shift, now + ahead + self._pace)
        columns = self._groups
        longest = ahead + 2.0 * columns["spacing"]
        longest[[number for number in failing if number < longest.size]] += 3600.0
        paid = np.minimum(columns["paid"] + shift, now + longest)
        mended = {int(number): float(paid[number]) for number in np.flatnonzero(paid != columns["paid"])}
        columns["paid"] = paid
        np.minimum(columns["blocked"], now + _LONGEST_BLOCK_SECONDS, out=columns["blocked"])
        return mended
