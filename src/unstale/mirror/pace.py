"""How fast polls may follow each other: the budget, and the limits of groups.

Each limit has a moment until which what it allows has been *paid*. A poll gets the earliest slot that all of
its limits allow, and moves their moments on by what it costs. There is never credit for time in which nothing
was polled, so nothing bursts after an idle time, and as the moments are kept in the store with the polls they
paid for, nothing bursts after a crash either.

A poll may start a little later than its slot: by half a second, or a tenth of its group's spacing if that is
less (but not below 1/20 second, or a quarter of it); after that it is given back. So that a window of a
minute, or two polls of a group, keep to the limit whatever the delays, slots are that much further apart. Of
a budget, that costs less than one per cent.

A budget of bytes is charged for what a poll is expected to take, and set right when it is known; whoever
reads the content waits, besides, until the bytes are paid for.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from math import inf

from .settings import Settings
from .store import Group

__all__ = ["GRACE", "Pace"]

GRACE = 0.5
"""Seconds by which a poll may be late."""
_WINDOW = 60.0
"""Seconds: the shortest window over which a budget is held exactly."""
_TRIES = 5
"""Failures in a row after which a whole group is left alone for a while."""


@dataclass(slots=True)
class _Group:
    """What a group must keep to, and what it has used."""

    name: str
    spacing: float
    concurrency: int
    paid: float = -inf
    blocked: float = -inf
    why: str = ""
    out: int = 0
    """Polls that are handed out."""
    failures: int = 0

    @property
    def fastest(self) -> float:
        """Polls per second that the spacing allows."""
        return 1.0 / (self.spacing + self.late) if self.spacing > 0 else inf

    @property
    def late(self) -> float:
        """Seconds by which a poll may be late."""
        if self.spacing <= 0:
            return GRACE
        return min(GRACE, max(0.1 * self.spacing, min(0.05, 0.25 * self.spacing)))


@dataclass(slots=True)
class Pace:
    """Gives slots."""

    settings: Settings
    budget: float | None
    """Polls per second."""
    byte_budget: float | None
    """Bytes per second."""
    paid: float = -inf
    paid_bytes: float = -inf
    crowd: Mapping[int, float] = field(default_factory=dict)
    """How many polls of a group may be handed out for each that may run: more than 1 if there is but one
    worker, who sees to it that no more run at a time, and if they take so little time that none is late."""
    groups: dict[int, _Group] = field(default_factory=dict)

    def know(self, groups: Iterable[Group]) -> None:
        """Take in what the store says of groups."""
        for group in groups:
            limit = self.settings.limit(group.name)
            known = self.groups.setdefault(group.id, _Group(group.name, 0.0, 1))
            known.spacing, known.concurrency = max(limit.spacing, group.spacing), limit.concurrency
            known.paid = max(known.paid, group.paid_until)
            known.blocked, known.why = group.blocked_until, group.why

    def out(self, leased: Iterable[int]) -> None:
        """Take in how many polls of each group are handed out: one number of a group for each."""
        for group in self.groups.values():
            group.out = 0
        for number in leased:
            if number in self.groups:
                self.groups[number].out += 1

    def affordable(self, now: float, end: float, size: float) -> float:
        """Return how many polls of such a size can start before ``end``."""
        left = max(end - self.free(now), 0.0)
        return left * self.rate(size) if left > 0 else 0.0

    def rate(self, size: float) -> float:
        """Return how many polls of such a size the budget pays for in a second; inf if there is no budget."""
        costs = [self._cost(1.0, self.budget)] if self.budget is not None else []
        costs += [self._cost(max(size, 1.0), self.byte_budget)] if self.byte_budget is not None else []
        return 1.0 / max(costs) if costs else inf

    @staticmethod
    def _cost(amount: float, budget: float) -> float:
        """Return the seconds that it takes to pay for so much."""
        return amount / budget * (1.0 + GRACE / _WINDOW) if budget > 0 else inf

    def room_of(self, number: int, now: float, end: float) -> int:
        """Return how many polls of a group may be handed out that start before ``end``."""
        group = self.groups[number]
        start = max(now, group.paid, group.blocked)
        if start >= end:
            return 0
        free = self.free_of(number)
        return min(free, 1 + int((end - start) / group.spacing)) if group.spacing > 0 else free

    def free_of(self, number: int) -> int:
        """Return how many more polls of a group may be handed out."""
        group = self.groups[number]
        return max(int(self.crowd.get(number, 1.0) * group.concurrency) - group.out, 0)

    def assign(
        self, groups: Sequence[int], sizes: Sequence[float], now: float, end: float, room: int
    ) -> list[tuple[int, float, float]]:
        """Give polls their slots before ``end``, the first the earliest; return (which, slot, late).

        A poll whose group is not free yet lets others go first, so that the budget is used meanwhile.
        """
        given: list[tuple[int, float, float]] = []
        waiting: list[tuple[float, int]] = []
        following, count = 0, len(groups)
        time = self.free(now)
        while time < end and len(given) < room:
            if waiting and waiting[0][0] <= time:
                which = heapq.heappop(waiting)[1]
            elif following < count:
                which, following = following, following + 1
            elif waiting:
                time = waiting[0][0]
                continue
            else:
                break
            group = self.groups[groups[which]]
            if self.free_of(groups[which]) <= 0:
                continue
            if (free := max(group.paid, group.blocked)) > time:
                if free < end:
                    heapq.heappush(waiting, (free, which))
                continue
            late = group.late
            if group.spacing > 0:
                group.paid = time + group.spacing + late
            group.out += 1
            given.append((which, time, late))
            time = self._paid_for(time, sizes[which])
        return given

    def free(self, now: float) -> float:
        """Return from when on the budget allows the next poll."""
        time = now
        if self.budget is not None:
            time = max(time, self.paid)
        if self.byte_budget is not None:
            time = max(time, self.paid_bytes)
        return time

    def _paid_for(self, time: float, size: float) -> float:
        """Pay for a poll at a moment; return from when on the next may start."""
        if self.budget is not None:
            self.paid = time + self._cost(1.0, self.budget)
        if self.byte_budget is not None:
            self.paid_bytes = time + self._cost(size, self.byte_budget)
        return self.free(time)

    def settle(self, expected: float, traffic: float, now: float) -> None:
        """Set right what a poll was charged, now that it is known what it took."""
        if self.byte_budget is not None and traffic > expected:
            self.paid_bytes = max(now, self.paid_bytes) + self._cost(traffic - expected, self.byte_budget)

    def saw(self, number: int, *, failed: bool, now: float) -> None:
        """Take in how a poll of a group went; where all fail, the whole group is left alone for a while."""
        group = self.groups[number]
        group.failures = group.failures + 1 if failed else 0
        if group.failures >= _TRIES:
            wait = min(30.0 * 2.0 ** min(group.failures - _TRIES, 10), 3600.0)
            group.paid = max(group.paid, now + wait)

    def set_back(
        self, now: float, ahead: float, failing: AbstractSet[int] = frozenset(), shift: float = 0.0
    ) -> dict[int, float]:
        """See to it that no moment is further ahead than it can be, in case the time has been set back.

        ``shift``: by how much it was set while we looked. ``failing``: groups that may be left alone for
        long. Returns the groups that were mended, and from when on their next polls may start.
        """
        if self.budget:
            self.paid = min(self.paid + shift, now + ahead + self._cost(1.0, self.budget))
        if self.byte_budget:
            most = self._cost(float(self.settings.max_size), self.byte_budget)
            self.paid_bytes = min(self.paid_bytes + shift, now + ahead + most)
        mended = {}
        for number, group in self.groups.items():
            longest = ahead + 2.0 * group.spacing + (3600.0 if number in failing else 0.0)
            if (paid := min(group.paid + shift, now + longest)) != group.paid:
                group.paid = mended[number] = paid
            group.blocked = min(group.blocked, now + 7.0 * 86400.0)
        return mended
