"""What a worker remembers between two turns: its backlog, its chores, its troubles.

Each is a small object that knows nothing of stores and polls, and can be read and tried by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf

_FEWEST_HELD, _MOST_HELD = 100, 5000
"""Polls that a worker holds, at least and at most."""
_MOST_FOR_FETCHERS = 50_000
"""Slots that wait for fetchers, at most."""
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 60.0
"""Between two transactions after trouble, at first and at most."""


class Backlog:
    """How many polls a worker holds: so many that it is never idle, and not so many that polls come late.

    ``concurrency``: polls that it makes at the same time.
    """

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self.size = _FEWEST_HELD
        """Polls to hold."""
        self.more_to_come = False
        """Whether there were more polls to be had than the worker had room for, when it last took some."""
        self._ran_dry = False
        """Whether it has held too few to be busy since then, though there were more to be had."""

    def adapt(self, *, given_back: bool) -> None:
        """Hold fewer if polls had to be ``given_back`` because they were late; more if it ran dry."""
        if given_back:
            self.size = int(0.7 * self.size)
        elif self._ran_dry:
            self.size = int(1.5 * self.size)
        self._ran_dry = False
        self.size = min(max(self.size, _FEWEST_HELD, 2 * self._concurrency), _MOST_HELD)

    def is_low(self, held: int) -> bool:
        """Tell whether it is time to take more, with so many left."""
        self._ran_dry = self._ran_dry or (self.more_to_come and held < self._concurrency)
        return self.more_to_come and held <= self.size // 2


class SlotsForFetchers:
    """How many slots wait for fetchers: so many that none goes away empty, and few if nobody takes them.

    Slots are paid for when they are handed out, so those that nobody takes are a loss.

    >>> slots = SlotsForFetchers()
    >>> slots.room(waiting=0, expired=0, more=True), slots.room(waiting=150, expired=0, more=True)
    (200, 50)
    >>> slots.room(waiting=0, expired=50, more=True)
    100
    """

    def __init__(self) -> None:
        self._size = _FEWEST_HELD

    def room(self, *, waiting: int, expired: int, more: bool) -> int:
        """Return how many more to hand out; ``more``: the budget allowed for more than last time."""
        if expired:
            self._size = max(self._size // 2, _FEWEST_HELD)
        elif more and waiting <= self._size // 2:
            self._size = min(2 * self._size, _MOST_FOR_FETCHERS)
        return max(self._size - waiting, 0)


@dataclass(slots=True)
class Chore:
    """Something that is done now and then."""

    name: str
    every: float
    """Seconds between two times."""
    first: float = 0.0
    """Seconds until the first time."""
    due: float = -inf
    """When it is done next."""


class Chores:
    """What is done now and then, by name.

    >>> chores = Chores(Chore("prune", 60.0), Chore("sweep", 86400.0, first=60.0), now=1000.0)
    >>> chores.is_due("prune", 1000.0), chores.is_due("prune", 1001.0), chores.is_due("sweep", 1001.0)
    (True, False, False)
    """

    def __init__(self, *chores: Chore, now: float) -> None:
        self._chores = {chore.name: chore for chore in chores}
        self.restart(now)

    def __getitem__(self, name: str) -> Chore:
        return self._chores[name]

    def is_due(self, name: str, now: float) -> bool:
        """Tell whether it is time for a chore; if so, it counts as done."""
        chore = self._chores[name]
        if now < chore.due:
            return False
        chore.due = now + chore.every
        return True

    def restart(self, now: float) -> None:
        """Begin anew, as after the clock was set."""
        for chore in self._chores.values():
            chore.due = now + chore.first


@dataclass(slots=True)
class _Trouble:
    """Something that is out of order."""

    first: float
    """When it was first noticed."""
    latest: float
    """When it was last noticed."""
    told: set[str] = field(default_factory=set)
    """Words that have been said of it."""


class TroubleLog:
    """What is out of order (``store``, ``copies``), so that each trouble is told of once, and its end too.

    ``emit`` is called with the kind of an event (``trouble``, ``recovered``) and its words.
    """

    def __init__(self, emit: Callable[[str, str], None], recovered: Mapping[str, str]) -> None:
        """``recovered``: the words for each place when it works again."""
        self._emit, self._recovered = emit, recovered
        self._places: dict[str, _Trouble] = {}
        self._failures = 0

    def __contains__(self, place: str) -> bool:
        return place in self._places

    def since(self, place: str) -> float:
        """Return since when a place is out of order; inf if it is not."""
        return self._places[place].first if place in self._places else inf

    @property
    def pause(self) -> float:
        """Seconds to wait before the store is tried again: longer with each failure in a row."""
        return min(_FIRST_PAUSE_SECONDS * 2.0 ** min(self._failures - 1, 20), _LONGEST_PAUSE_SECONDS)

    def add(self, place: str, error: BaseException, now: float) -> None:
        """Note that something went wrong; the same words are told of once."""
        text = str(error) or repr(error)
        trouble = self._places.setdefault(place, _Trouble(now, now))
        trouble.latest = now
        if text not in trouble.told:
            trouble.told.add(text)
            self._emit("trouble", text)
        self._failures += place == "store"

    def end(self, place: str, began: float = inf) -> None:
        """Note that something went well, unless it had begun before the latest trouble."""
        if place == "store":
            self._failures = 0
        trouble = self._places.get(place)
        if trouble is not None and began > trouble.latest:
            del self._places[place]
            self._emit("recovered", self._recovered[place])

    def move(self, by: float) -> None:
        """Move all moments: the clock was set by so much."""
        for trouble in self._places.values():
            trouble.first += by
            trouble.latest += by
