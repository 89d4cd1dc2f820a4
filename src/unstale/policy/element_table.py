"""What a policy keeps of each element, as columns: about 220 bytes each, with what is learned of it.

Ten million elements fit into one process. Columns are as narrow as what they hold allows, and one in which
all elements are alike is kept as one number, until something else is written to it: most mirrors have no
jitter, no windows, no replicas. 160 bytes are the evidence of the learner, 27 are columns in which elements
differ, and 32 those of most mirrors: when they were added, their groups and sizes, what clocks have bet.
Elements that failed, promises of pages to stay as they are, weights and such take 2 to 8 bytes each of all
elements. One that seems to change by a clock of its own has 232 bytes more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unstale.arguments import Floats
from unstale.errors import InvalidInput
from unstale.estimation.learning.clockwork_learner import ClockworkLearner
from unstale.estimation.learning.learner import Learner
from unstale.schedule import Windows

from .class_tree import ClassTree
from .look_calendar import LookCalendar
from .terms import ElementTerms

Places = NDArray[np.intp]
"""Where elements are in the table."""
Where = Places | NDArray[np.bool_] | slice | int
Ids = NDArray[np.int64]

STATES = ("new", "ok", "gone", "failing", "refused", "removed", "dropped", "paused", "archived")
"""Of elements; what is dropped has lost its copy, for want of room."""
AWAY = ("removed", "paused", "archived")
"""States of elements that are in no table: nobody polls them, and they do not count."""
NEW, OK, GONE, FAILING, REFUSED, REMOVED, DROPPED = range(7)
_LEFT_SHARE = 0.2
"""Share of elements that are looked at, but not soon, from which on these go back to the calendar."""
_SHORTEST_TURN_DAYS = 1.0 / 16.0
"""Turns that are shorter than this part of a day of the calendar get one with shorter days."""

_COLUMNS: Mapping[str, tuple[type, float]] = {
    "id": (np.int64, 0), "group": (np.int32, 0), "added": (np.float64, 0.0), "last": (np.float64, np.nan),
    "not_before": (np.float64, 0.0), "failures": (np.int32, 0), "weight": (np.float32, 0.0),
    "size": (np.float64, np.nan), "max_age": (np.float32, inf), "min_interval": (np.float32, 0.0),
    "jitter": (np.float32, 0.0), "window": (np.int16, 0), "state": (np.int8, 0), "look": (np.float64, -inf),
    "reads": (np.float32, 1.0), "channel": (np.int16, 0), "hints": (np.int16, 0), "busy": (np.bool_, 0),
    "soon": (np.bool_, 0), "list": (np.int32, 0), "clockwork": (np.int32, 0), "day_bet": (np.float32, 0.0),
    "week_bet": (np.float32, 0.0), "terms": (np.int16, 0),
    "composed": (np.float32, 0.0), "stays": (np.float32, 0.0),
    "elsewhere": (np.float64, -inf), "replica": (np.int8, 0), "node": (np.uint16, 0),
}  # fmt: skip
_OWN_COLUMNS = frozenset({"id", "last", "state", "look", "busy", "soon"})
"""Columns in which elements are never alike for long; any other one is kept as one number while they are."""
_STORED_COLUMNS = (
    "id", "group", "added", "last", "not_before", "failures", "weight", "size", "max_age", "min_interval",
    "jitter",
)  # fmt: skip


_WRITTEN_COLUMNS = frozenset({*_STORED_COLUMNS, "window", "terms", "stays", "list"})
"""Columns that are written whenever elements are taken up."""
_NEW_COLUMNS = frozenset(
    {"clockwork", "day_bet", "week_bet", "terms", "composed", "stays", "elsewhere", "replica", "node"}
)
"""Columns that states of older versions do not have."""


def _all_are(given: NDArray[Any], value: float) -> bool:
    """Tell whether all entries are this number, or all are nan."""
    return bool((given == value).all() or (np.isnan(value) and np.isnan(given).all()))


class OpeningHours(Protocol):
    """When polls are allowed, as the clock of `Windows` tells it."""

    def is_open(self, t: ArrayLike) -> NDArray[np.bool_]:
        """Tell whether polls are allowed at a moment."""

    def worked(self, t: ArrayLike) -> Floats:
        """Return the time worked up to a moment: it runs inside windows only, and there as much faster."""

    def when(self, v: ArrayLike) -> Floats:
        """Return the moment at which so much time has been worked."""


@dataclass(frozen=True, slots=True)
class ElementColumns:
    """Elements as they are kept in a store; evidence has one row of bytes for each, or is empty."""

    id: Ids
    group: Ids
    added: Floats
    last: Floats
    """Start of the last poll that saw something; nan if there was none."""
    not_before: Floats
    failures: Ids
    weight: Floats
    size: Floats
    max_age: Floats
    min_interval: Floats
    jitter: Floats
    windows: Sequence[str]
    state: Sequence[str]
    evidence: Sequence[bytes]
    via: Ids | None = None
    """Numbers of the elements that named them, 0 where users did; None: users have named all of them."""
    terms: Sequence[str] | None = None
    """What they are polled for, as `ElementTerms` writes it; None: nothing is said of any."""
    stays: Floats | None = None
    """For how long after the last poll sources promise that they stay as they are; None: they do not."""
    path: Sequence[str] | None = None
    """What they are, from coarse to fine, as `ClassTree` takes it; None: nothing is said of any."""


class ElementTable:
    """Columns, in the order of the elements' numbers, and the learner that has a row for each of them.

    ``look``: no sooner is it worth looking at the element. ``soon``: it is among those that are looked at in
    each turn, until they go back to the calendar. ``busy``: a poll of it is handed out. ``reads``: what its
    weight is multiplied by. ``channel`` and ``hints``: who gives hints about it, and how many since the last
    poll. ``list``: the list, one of those that users named, by which it was discovered; 0 if users named it
    themselves. ``clockwork``: its row in `clockworks`, 0 if it has none; ``day_bet`` and ``week_bet`` say
    what a clock of its own has bet without one.
    ``terms``: what it is polled for, by number. ``composed``: what is added to its weight, as it is a part of
    something. ``stays``: for how long after the last poll its source promises that it stays as it is.
    ``elsewhere`` and ``replica``: when another replica has polled it, and which.
    ``node``: what it is, a node of `tree`.
    """

    def __init__(self) -> None:
        self._columns: dict[str, NDArray[Any]] = {}
        self._alike: dict[str, float] = {}
        """What all elements have in columns that are kept as one number."""
        self._make_room(0)
        self.hours: list[OpeningHours | None] = [None]
        """Of windows, by number; 0 is any time."""
        self._windows = {"": 0}
        self.terms: list[ElementTerms] = [ElementTerms()]
        """What elements are polled for, by number; 0 is what all are for."""
        self._terms = {"": 0}
        self.lists: dict[int, int] = {0: 0}
        """Lists that users named, by the number of their element, in the order of their numbers here."""
        self._count: int | None = None
        self._present: int | None = None
        self._polled: int | None = None
        self._calendar: LookCalendar | None = None
        """When elements are looked at that are not ``soon``; None: it has to be made from the columns."""
        self._hurried = 0.0
        """By how much later than they are due elements are in the calendar, and in the column ``look``."""
        self._soon = np.empty(0, np.intp)
        self._sooner: list[Places] = []
        self.learner = Learner(0, round=1.0)
        self.clockworks = ClockworkLearner()
        """Clocks that elements have of their own."""
        self.tree = ClassTree()
        """What elements are, and which of that are classes."""

    def __len__(self) -> int:
        return int(self._columns["id"].size)

    def __getitem__(self, column: str) -> NDArray[Any]:
        """Return a column, to be read: that of elements that are alike cannot be written to."""
        return self._columns[column]

    def __setitem__(self, where: tuple[str, Where], values: ArrayLike) -> None:
        """Write to a column: ``table["weight", places] = 2.0``."""
        name, places = where
        self._put(name, places, values, alone=isinstance(places, slice) and places == slice(None))

    def _put(self, name: str, places: Where, values: ArrayLike, *, alone: bool) -> None:
        """Write to a column; ``alone`` if no other elements than these count yet."""
        if name in self._alike:
            given = np.asarray(values, self._columns[name].dtype)
            if _all_are(given, self._alike[name]):
                return
            if alone and _all_are(given, first := float(given.flat[0])):
                self._share(name, first, len(self))
                return
        self.each(name)[places] = values

    def each(self, name: str) -> NDArray[Any]:
        """Return a column with an entry for each element, to be written to."""
        if name in self._alike:
            del self._alike[name]
            self._columns[name] = self._columns[name].copy()
        return self._columns[name]

    def _share(self, name: str, value: float, count: int) -> None:
        """Let one number stand for all elements."""
        self._alike[name] = value
        self._columns[name] = np.broadcast_to(np.asarray(value, _COLUMNS[name][0]), (count,))

    def _make_room(self, count: int) -> None:
        """Begin with so many elements, of which nothing is known."""
        for name, (kind, blank) in _COLUMNS.items():
            if name in _OWN_COLUMNS:
                self._columns[name] = np.full(count, blank, kind)
            else:
                self._share(name, blank, count)

    # --- elements -------------------------------------------------------------------------------------------

    def places(self, ids: Iterable[int] | Ids) -> Places:
        """Return where elements are, all of which must be there."""
        return np.searchsorted(self["id"], np.asarray(ids, np.int64))

    def has(self, ids: Sequence[int] | Ids) -> NDArray[np.bool_]:
        """Tell which elements are there."""
        wanted = np.asarray(ids, np.int64)
        if not len(self):
            return np.zeros(wanted.size, np.bool_)
        at = np.minimum(self.places(wanted), len(self) - 1)
        return self["id"][at] == wanted

    def known(self, ids: Sequence[int]) -> list[int]:
        """Return those of the elements that are there."""
        return [i for i, there in zip(ids, self.has(ids).tolist(), strict=True) if there]

    def reserve(self, count: int, shared: Mapping[str, Any] | None, classes: bytes = b"") -> None:
        """Make room for so many elements, all at once, and go on from what was learned of all together.

        ``classes`` says which elements are alike, as `ClassTree` does.
        """
        self.tree = ClassTree.read(classes)
        learner = Learner(0, round=1.0)
        if shared is not None:
            learner = Learner.resume({**shared, "evidence": learner.evidence})
        self.start(count, learner)
        self["id", :] = np.iinfo(np.int64).max
        self._learn_of(count)
        for one in range(learner.class_count, len(self.tree.classes)):
            learner.split(one, 0)

    def start(self, count: int, learner: Learner) -> None:
        """Make room for so many elements, of which a learner may know something already."""
        self._make_room(count)
        self.learner = learner
        self.look_again()

    def _extend(self, count: int, written: Collection[str] = _WRITTEN_COLUMNS) -> None:
        """Make room for more elements, of which some columns are written next."""
        former = len(self)
        for name, (kind, blank) in _COLUMNS.items():
            alike = self._alike.get(name, blank) if former else blank
            if name in self._alike and (name in written or _all_are(np.array(alike), blank)):
                self._share(name, alike, former + count)
            else:
                self._alike.pop(name, None)
                self._columns[name] = np.concatenate([self[name], np.full(count, blank, kind)])
        self.recount()

    def fill(self, start: int, columns: ElementColumns) -> None:
        """Take up elements, in the order of their numbers, where room was made; make more if need be."""
        if (more := start + columns.id.size - len(self)) > 0:
            self._extend(more)
            self._learn_of(more)
        which = np.arange(columns.id.size)
        self._write(start + which, columns, which, alone=start == 0)

    def leave_out(self, start: int) -> None:
        """Leave out room that was not needed: there is nothing in it."""
        self["state", start:], self["look", start:] = REMOVED, inf
        self.recount()

    def extend(self, count: int, **columns: ArrayLike) -> Places:
        """Add elements after all others, with these columns; return where they are."""
        start, self._calendar = len(self), None
        self._extend(count, columns)
        places = np.arange(start, start + count)
        first = int(self["id"][start - 1]) + 1 if start else 0
        self["id", places] = np.arange(first, first + count)
        for name, values in columns.items():
            self._put(name, places, values, alone=not start)
        return places

    def take_up(self, columns: ElementColumns) -> None:
        """Take up new elements, and what is new about others."""
        known = self.has(columns.id)
        self._write(self.places(columns.id[known]), columns, np.flatnonzero(known))
        new = np.flatnonzero(~known)
        if not new.size:
            return
        start = len(self)
        self._extend(new.size)
        self._learn_of(new.size)
        self._write(np.arange(start, start + new.size), columns, new, alone=start == 0)
        if start and columns.id[new].min() < self["id"][start - 1]:
            order = np.argsort(self["id"], kind="stable")
            for name in self._columns.keys() - self._alike.keys():
                self._columns[name] = self._columns[name][order]
            self.learner.reorder(order)
            self._calendar = None

    def _learn_of(self, more: int) -> None:
        """Let the learner know of more elements, of the class of all until their nodes are known."""
        self.learner.add(more, classes=np.zeros(more, np.intp) if self.learner.has_classes else None)

    def settle_classes(self, places: Places | None = None) -> None:
        """Let elements, all or these, belong to the classes of their nodes."""
        if not self.tree.any and not self.learner.has_classes:
            return
        which = np.arange(len(self)) if places is None else places
        classes = self.tree.class_of[self["node"][which]]
        self.learner.assign(which, classes)
        self.clockworks.move(self["clockwork"][which], classes)

    def _write(self, places: Places, columns: ElementColumns, which: Places, *, alone: bool = False) -> None:
        """Write what a store says of elements; ``alone`` if no others count yet."""
        if not places.size:
            return
        for name in _STORED_COLUMNS:
            self._put(name, places, getattr(columns, name)[which], alone=alone)
        chosen, texts = which.tolist(), columns.terms
        more: dict[str, ArrayLike] = {
            "window": [self._window(columns.windows[i]) for i in chosen],
            "state": [STATES.index(columns.state[i]) for i in chosen],
            "terms": 0 if texts is None else [self.number_of_terms(texts[i]) for i in chosen],
            "stays": 0.0 if columns.stays is None else columns.stays[which],
            "list": 0 if columns.via is None else self._named_by(columns.via[which]),
        }
        for name, values in more.items():
            self._put(name, places, values, alone=alone)
        self.recount()
        self.touch(places)
        rows = [columns.evidence[i] for i in chosen]
        if any(rows):
            self.clockworks.release(self["clockwork"][places])
            self["clockwork", places], rows = self.clockworks.write(rows)
            self.learner.write(places, rows)
        if columns.path is not None:
            self["node", places] = [self.tree.number(columns.path[i]) for i in chosen]
            self.settle_classes(places)

    def _named_by(self, via: Ids) -> NDArray[np.int32]:
        """Return the list that led to each element: the first one, if a list has named another list."""
        numbers = {0: 0}
        for one in np.unique(via[via > 0]).tolist():
            first = int(self["list"][self.places([one])[0]]) if self.has([one])[0] else 0
            numbers[one] = first or self.lists.setdefault(one, len(self.lists))
        return np.array([numbers[one] for one in np.maximum(via, 0).tolist()], np.int32)

    def _window(self, text: str) -> int:
        if text not in self._windows:
            self._windows[text] = len(self.hours)
            self.hours.append(Windows.parse(text).clock(datetime(1970, 1, 1, tzinfo=UTC), unit_seconds=1.0))
        return self._windows[text]

    def number_of_terms(self, text: str) -> int:
        """Return the number of what elements are polled for."""
        if text not in self._terms:
            self._terms[text] = len(self.terms)
            self.terms.append(ElementTerms.read(text))
        return self._terms[text]

    def drop(self, ids: Sequence[int]) -> None:
        """Let elements go."""
        places = self.places(self.known(ids))
        self["state", places] = REMOVED
        self["look", places] = inf
        self.clockworks.release(self["clockwork"][places])
        self["clockwork", places] = 0
        self.recount()

    def columns(self, places: Places) -> ElementColumns:
        """Return elements as they are kept in a store."""
        texts = list(self._windows)
        given: dict[str, Any] = {
            name: self[name][places].astype(np.float64 if self[name].dtype.kind == "f" else np.int64)
            for name in _STORED_COLUMNS
        }
        return ElementColumns(
            **given,
            windows=[texts[i] for i in self["window"][places].tolist()],
            state=[STATES[i] for i in self["state"][places].tolist()],
            evidence=[
                learned + clock
                for learned, clock in zip(
                    self.learner.rows(places), self.clockworks.kept(self["clockwork"][places]), strict=True
                )
            ],
            terms=[self.terms[i].text() for i in self["terms"][places].tolist()],
            stays=self["stays"][places].astype(np.float64),
        )

    def since(self, places: Places, now: float) -> Floats:
        """Return the time since the last poll that saw something, or since the element was added."""
        last = self["last"][places]
        return np.maximum(now - np.where(np.isnan(last), self["added"][places], last), 0.0)

    def worked_since(self, places: Places, now: float) -> Floats:
        """Return the time since then by which polls become worth something: worked time, of windows.

        All of what elements with windows are polled for happens inside these; so their polls are as many as
        without, and spread over the windows as `Windows` says.
        """
        since = self.since(places, now)
        for hours, own in self.windowed(places):
            last = self["last"][places[own]]
            last = np.where(np.isnan(last), self["added"][places[own]], last)
            since[own] = np.maximum(hours.worked(now) - hours.worked(np.minimum(last, now)), 0.0)
        return since

    def after(self, places: Places, start: Floats, wait: Floats) -> Floats:
        """Return the moments at which so much time has passed after others; worked time, of windows."""
        moments = start + wait
        for hours, own in self.windowed(places):
            some = own & np.isfinite(moments)
            moments[some] = hours.when(hours.worked(start[some]) + wait[some])
        return moments

    def windowed(self, places: Places) -> Iterator[tuple[OpeningHours, NDArray[np.bool_]]]:
        """Go through the windows of elements, and tell which elements have each."""
        window = self["window"][places]
        for number in np.unique(window[window > 0]).tolist() if window.any() else ():
            if (hours := self.hours[number]) is not None:
                yield hours, window == number

    def mend(self, now: float, backoff: Callable[[str, int], float]) -> Places:
        """Mend moments that cannot be: polls in the future, and back-offs that are too long; tell where."""
        ahead = self["last"] > now
        self["last", ahead] = now
        places = np.flatnonzero(self["not_before"] > now)
        states, failures = self["state"][places].tolist(), self["failures"][places].tolist()
        longest = np.array(
            [now + backoff(STATES[state], count) for state, count in zip(states, failures, strict=True)]
        )
        late = places[self["not_before"][places] > longest]
        self["not_before", places] = np.minimum(self["not_before"][places], longest)
        return np.union1d(np.flatnonzero(ahead), late)

    @property
    def wanted(self) -> NDArray[np.bool_]:
        """Which elements are to be kept fresh."""
        return (self["state"] != REMOVED) & (self["weight"] > 0)

    @property
    def present(self) -> NDArray[np.bool_]:
        """Which of them are there: what is known to be gone has no copy that could be stale."""
        return self.wanted & (self["state"] != GONE)

    @property
    def wanted_count(self) -> int:
        """How many elements are to be kept fresh."""
        if self._count is None:
            self._count = int(np.count_nonzero(self.wanted))
        return self._count

    @property
    def present_count(self) -> int:
        """How many of them are there."""
        if self._present is None:
            self._present = int(np.count_nonzero(self.present))
        return self._present

    @property
    def polled(self) -> NDArray[np.bool_]:
        """Which of those that are there have their part of the budget: there is room for their copies."""
        return self.present & (self["state"] != DROPPED)

    @property
    def polled_count(self) -> int:
        """How many have their part of the budget."""
        if self._polled is None:
            self._polled = int(np.count_nonzero(self.polled))
        return self._polled

    def recount(self) -> None:
        """Count elements anew: some have gone, or come back."""
        self._count = self._present = self._polled = None

    def weigh(self, weights: ArrayLike) -> None:
        """Let elements matter so much from now on."""
        self["weight", :] = weights
        self.recount()
        self.look_again()

    def state(self) -> dict[str, NDArray[Any]]:
        """Return all columns."""
        return {
            name: column - self._hurried if name == "look" else column.copy()
            for name, column in self._columns.items()
        }

    @classmethod
    def resume(
        cls, state: Mapping[str, Any], learner: Learner, clockworks: ClockworkLearner | None = None
    ) -> Self:
        """Go on where `state` was taken; windows are told again."""
        self = cls()
        if clockworks is not None:
            self.clockworks = clockworks
        self.start(len(learner), learner)
        for name in _COLUMNS:
            if name in _NEW_COLUMNS and name not in state:
                continue
            found = np.asarray(state.get(name, ()))
            if found.shape != (len(learner),):
                shapes = f"{name!r} has shape {found.shape}, not {(len(learner),)}"
                raise InvalidInput(f"state must be what Learning.state returned; {shapes}")
            self[name, :] = found
        return self

    # --- when to look at them -------------------------------------------------------------------------------

    def look_again(self) -> None:
        """Look at all elements when polls are chosen next."""
        self["look", :] = np.where(np.isin(self["state"], (REMOVED, DROPPED)), inf, -inf)
        self._calendar, self._hurried = None, 0.0
        self.recount()

    def touch(self, places: Places) -> None:
        """Look at these elements when polls are chosen next."""
        state = self["state"][places]
        self["look", places] = np.where((state == REMOVED) | (state == DROPPED), inf, -inf)
        if self._calendar is None:
            return
        new = np.unique(places[~self["soon"][places]])
        if new.size:
            self["soon", new] = True
            self._sooner.append(new)

    def look_at(self, places: Places, moments: Floats) -> None:
        """Look at these elements at moments, and not before."""
        self["look", places] = moments + self._hurried

    def hurry(self, seconds: float) -> None:
        """Look at all elements by so much earlier than was said."""
        self._hurried += seconds

    def due(self, now: float, end: float) -> Places:
        """Return the elements that are worth looking at before ``end``.

        That takes no longer the more others there are: they are in a calendar.
        """
        now, end = now + self._hurried, end + self._hurried
        calendar = self._turn_calendar(now, end)
        moments = self["look"][self._soon]
        later = moments > calendar.until
        if np.count_nonzero(later) > _LEFT_SHARE * later.size:
            left = self._soon[later]
            self["soon", left] = False
            calendar.enter(left, moments[later])
            self._soon, moments = self._soon[~later], moments[~later]
        return self._soon[moments <= end]

    def _turn_calendar(self, now: float, end: float) -> LookCalendar:
        """Turn the calendar on, and let what is due be looked at; make one if there is none that will do."""
        calendar, look = self._calendar, self["look"]
        if (
            calendar is None
            or calendar.is_full(len(self))
            or end - now < _SHORTEST_TURN_DAYS * calendar.day
            or end <= calendar.start
        ):
            calendar = self._calendar = LookCalendar(now, end - now)
            calendar.turn(end, look)
            self["soon", :] = look <= calendar.until
            self._soon, self._sooner = np.flatnonzero(self["soon"]), []
            rest = np.flatnonzero(~self["soon"])
            calendar.enter(rest, look[rest])
            return calendar
        if (due := calendar.turn(end, look)).size:
            due = np.unique(due[~self["soon"][due]])
            self["soon", due] = True
            self._sooner.append(due)
        if self._sooner:
            self._soon = np.concatenate([self._soon, *self._sooner])
            self._sooner = []
        return calendar
