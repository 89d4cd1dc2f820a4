"""The orders of Cho & Garcia-Molina as schedules (section 3, Algorithms B.1 to B.3), for any frequencies.

Each element has its own time, in which it is polled once per unit on average: fixed order polls at equal
distances, random order once in each unit, anywhere in it, and purely random order at the points of a Poisson
process. Its frequency is the speed of that time. So new frequencies change nothing but the speed: what was
due soon stays due soon, and there is neither a burst nor a gap. Windows stop the clock of all elements.

With ``even``, polls keep their sequence but come at equal distances. That is Algorithms B.1 to B.3 to the
letter if the frequencies are equal: round-robin, a new permutation in each round, a new choice each time.

A constant interval can fall into step with a source that changes by the clock, and then be stale all the
time (Li, Cline & Loguinov 2015, section IV-B). ``jitter`` stretches each interval by a random factor between
1 - jitter and 1 + jitter, so that phases wander; `unstale.schedule.window_costs` tells what that costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from unstale.arguments import Floats, Order, numbers, order_code, scalar, whole
from unstale.draws import POLLS, key_of
from unstale.errors import InvalidInput
from unstale.kernels import FIXED, RANDOM

from .compiled.orders import draw, first_points, put_in_order, spread_out
from .element_clocks import Clocks, WindowClock
from .polls import Elements, Polls, later, one_by_one

_MOST_POLLS_AT_ONCE = 1e10
"""Polls drawn at once; more would not fit into memory."""


class Allocated(Protocol):
    """Something that has frequencies, such as a plan."""

    @property
    def frequencies(self) -> Floats:
        """Polls per unit time of each element."""


Frequencies = ArrayLike | Allocated
_Columns = tuple[Floats, Elements, Floats]
"""Times, elements, and points in the elements' own time."""


class Schedule:
    """An endless stream of (time, element), for elements polled at these frequencies in this order.

    Parameters
    ----------
    frequencies
        Polls per unit time of each element.
    order
        "fixed", "random" or "purely-random": the orders of Cho & Garcia-Molina.
    jitter
        Share by which intervals vary; for fixed order only.
    even
        Whether the polls of all elements together are spaced evenly.
    windows
        A clock that all elements follow, or a mapping to one from each label in ``groups``. Groups without a
        clock are polled at any time.
    groups
        The label of each element.
    phases
        Shares of their first interval after which elements are first polled in fixed order. Without them the
        schedule spreads polls evenly.
    seed
        Of the random numbers.
    start
        The time at which the schedule begins.

    Examples
    --------
    >>> schedule = Schedule([1.0, 2.0], phases=[0.5, 0.0])
    >>> polls = schedule.until(1.0)
    >>> polls.times.tolist(), polls.elements.tolist()
    ([0.0, 0.5, 0.5], [1, 0, 1])
    >>> schedule.swap([4.0, 0.0])                  # the first element is halfway to its next poll
    >>> schedule.until(1.5).times.tolist()
    [1.125, 1.375]
    """

    def __init__(
        self,
        frequencies: Frequencies,
        *,
        order: Order = "fixed",
        jitter: float = 0.0,
        even: bool = False,
        windows: WindowClock | Mapping[Any, WindowClock] | None = None,
        groups: ArrayLike | None = None,
        phases: ArrayLike | None = None,
        seed: int = 0,
        start: float = 0.0,
    ) -> None:
        self._frequency = frequencies_of(frequencies).copy()
        n = self._frequency.size
        self._order = order_code(order)
        self._jitter = scalar("jitter", jitter, at_least=0, at_most=1)
        if self._jitter and self._order != FIXED:
            raise InvalidInput(
                f"jitter is for fixed order, and random orders need none; the order is {order!r}"
            )
        self._even = flag("even", even)
        if even and windows is not None:
            raise InvalidInput("even spaces polls over all time, which windows forbid; leave one of them out")
        self._key = key_of(whole("seed", seed), POLLS)
        self._now = scalar("start", start)
        self._clocks = Clocks(windows)
        self._clock = self._clocks.of(groups, n)
        self._since = self._worked(np.arange(n), self._now)
        self._count = np.zeros(n, np.int64)
        self._origin, self._point = self._first(np.arange(n))
        if phases is not None:
            self._point = self._given_phases(phases)
        # With even: the moment since which slots have been counted, the share of a slot that had passed then,
        # how many were given, the time worked at the last of them, and what was drawn beyond it.
        self._slots, self._passed, self._given = self._now, 0.0, 0
        self._last, self._drawn_to, self._left = self._now, self._now, _nothing()

    # --- the stream -----------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        return self._now

    @property
    def rate(self) -> float:
        return float(self._frequency.sum())

    @property
    def frequencies(self) -> Floats:
        """Polls per unit time of each element; 0 for those that are gone."""
        shown = self._frequency.view()
        shown.setflags(write=False)
        return shown

    def __len__(self) -> int:
        return self._frequency.size

    def __iter__(self) -> Iterator[tuple[float, int]]:
        return one_by_one(self)

    def until(self, end: float) -> Polls:
        end = later(self._now, end)
        if self._even:
            polls = self._in_slots(end)
        else:
            stop = self._clocks.worked(end)
            if (
                not self._clocks.always
            ):  # the way through time worked rounds: what is beyond the end goes back
                stop += 8.0 * np.spacing(np.abs(stop))
            times, elements, points = self._draw(self._clocks.worked(self._now), stop)
            count = times.size if self._clocks.always else int(np.searchsorted(times, end))
            self._put_back(elements[count:], points[count:])
            polls = Polls(times[:count], elements[:count])
        self._now = end
        return polls

    def _draw(self, begin: Floats, end: Floats) -> _Columns:
        """Draw all polls between two times worked, in order."""
        expected = self.rate * float(np.max(end - begin))
        if expected > _MOST_POLLS_AT_ONCE:
            raise InvalidInput(
                f"end must be nearer: until then about {expected:.3g} polls would be drawn at once"
            )
        room = int(expected + 5.0 * np.sqrt(expected)) + 64
        parts, first = [_nothing()], 0
        while first < len(self):
            kept = room if self._even or not self._clocks.always else 0
            out = (np.empty(room), np.empty(room, np.int64), np.empty(kept))
            first, drawn = draw(
                first, self._frequency, self._point, self._origin, self._since, end, self._clock,
                self._order, self._jitter, self._key, self._count, out,
            )  # fmt: skip
            parts.append((out[0][:drawn], out[1][:drawn], out[2][:drawn]))
            room = room // 8 + 64
        times, elements, points = _joined(parts)
        if self._clocks.alike:  # the order by time worked is the order by time
            if not put_in_order(times, elements, points, float(begin[0]), float(end[0])):
                order = np.argsort(times, kind="stable")
                times, elements = times[order], elements[order]
                points = points[order] if points.size else points
            return times if self._clocks.always else self._clocks.clocks[0].when(times), elements, points
        times = self._clocks.when(times, elements, self._clock)
        order = np.argsort(times, kind="stable")
        return times[order], elements[order], points[order]

    def _put_back(self, elements: Elements, points: Floats) -> None:
        """Undo the last draws: these will be drawn again."""
        self._point[elements[::-1]] = points[::-1]
        np.subtract.at(self._count, elements, 1)

    def _in_slots(self, end: float) -> Polls:
        """The next polls in their sequence, in the middles of slots of equal length."""
        if (rate := self.rate) == 0.0:
            return Polls(*_nothing()[:2])
        about = (end - self._slots) * rate + self._passed - 0.5 - self._given
        if about > _MOST_POLLS_AT_ONCE:
            raise InvalidInput(
                f"end must be nearer: until then about {about:.3g} polls would be drawn at once"
            )
        slots = self._slot(np.arange(max(0, int(about) + 3)))
        wanted = int(np.searchsorted(slots, end))
        parts, have = [self._left], self._left[0].size
        while have < wanted:
            stop = self._drawn_to + (wanted - have + 64) / rate
            parts.append(self._draw(np.array([self._drawn_to]), np.array([stop])))
            self._drawn_to, have = stop, have + parts[-1][0].size
        times, elements, points = _joined(parts)
        self._left = times[wanted:], elements[wanted:], points[wanted:]
        self._last = float(times[wanted - 1]) if wanted else self._last
        self._given += wanted
        return Polls(slots[:wanted], elements[:wanted])

    def _slot(self, following: Elements) -> Floats:
        """Moments of the slots that follow."""
        slots = self._slots + (self._given + following + (0.5 - self._passed)) / self.rate
        return np.asarray(slots, np.float64)

    # --- other frequencies, and elements that come and go ---------------------------------------------------

    def swap(self, frequencies: Frequencies) -> None:
        """Poll at these frequencies from now on; what is left of each element's interval is stretched to fit.

        There is one for each element that there is; `add` and `remove` are for those that come and go.
        """
        wanted = frequencies_of(frequencies)
        if wanted.size != len(self):
            raise InvalidInput(
                f"frequencies must be one for each of the {len(self)} elements; there are {wanted.size}. "
                "Use add and remove for elements that come and go"
            )
        if (back := np.isnan(self._point) & (wanted > 0)).any():
            i = int(np.argmax(back))
            raise InvalidInput(f"frequencies[{i}] must be 0, as element {i} was removed; it is {wanted[i]:g}")
        if (others := np.flatnonzero(wanted != self._frequency)).size:
            self._settle(others)
            self._frequency = wanted.copy()

    def add(
        self, frequencies: ArrayLike, *, groups: ArrayLike | None = None, at_once: bool = False
    ) -> Elements:
        """Take up new elements and return their numbers; those of elements that were removed are used again.

        Their first polls are spread as if they had always been polled; or come at once.
        """
        wanted = frequencies_of(frequencies)
        clock = self._clocks.of(groups, wanted.size)
        at_once = flag("at_once", at_once)
        if not wanted.size:
            return np.empty(0, np.int64)
        self._settle(np.empty(0, np.int64))
        free = np.flatnonzero(np.isnan(self._point))[: wanted.size]
        size = len(self) + wanted.size - free.size
        places = np.concatenate([free, np.arange(len(self), size)])
        self._frequency = _with(self._frequency, size, places, wanted)
        since = self._last if self._even else self._clocks.worked(self._now)[clock if clock.size else 0]
        self._since = _with(self._since, size, places, since)
        self._count = _with(self._count, size, np.arange(self._count.size, size), 0)
        if clock.size:
            self._clock = _with(self._clock, size, places, clock)
        origin, point = self._first(places)
        self._origin = _with(self._origin, size, places, origin)
        self._point = _with(self._point, size, places, origin if at_once else point)
        return places

    def remove(self, elements: ArrayLike) -> None:
        """Remove elements: the schedule polls them no more, and their numbers are free for others."""
        gone = np.atleast_1d(np.asarray(elements))
        if gone.size == 0:
            return
        for i in gone.ravel().tolist():
            whole_number = isinstance(i, int) and not isinstance(i, bool)
            if not whole_number or not 0 <= i < len(self) or np.isnan(self._point[i]):
                raise InvalidInput(f"elements must be numbers of elements that are there; {i!r} is none")
        self._settle(gone)
        self._frequency[gone] = 0.0
        self._point[gone] = np.nan
        self._count[gone] += 1  # an element that takes the number over has other draws

    def _settle(self, elements: Elements) -> None:
        """Move the origin of elements' own time to now, so that their frequencies can change."""
        if self._even:  # polls drawn in advance are drawn again, with the new frequencies
            self._put_back(*self._left[1:])
            self._drawn_to, self._left = self._last, _nothing()
            self._passed += (self._now - self._slots) * self.rate - self._given
            self._slots, self._given = self._now, 0
        which = slice(None) if elements.size == len(self) else elements
        worked = self._worked(elements, self._last if self._even else self._now)
        self._origin[which] += self._frequency[which] * (worked - self._since[which])
        self._since[which] = worked

    def _worked(self, elements: Elements, t: float) -> Floats:
        """Time worked until ``t``, by the clock of each of these elements."""
        worked = self._clocks.worked(t)
        return worked[self._clock[elements]] if self._clock.size else np.full(elements.size, worked[0])

    def _first(self, elements: Elements) -> tuple[Floats, Floats]:
        """Where elements that begin now are in their own time, and their first points."""
        origin = np.zeros(elements.size)
        if self._order == FIXED:
            equal = bool(np.all(self._frequency == self._frequency[:1])) and elements.size == len(self)
            return origin, (elements + 0.5) / max(len(self), 1) if equal else spread(elements)
        if not self._even:  # with even, rounds begin for all at once
            origin = spread(elements) if self._order == RANDOM else origin
        points = np.empty(elements.size)
        first_points(self._order, self._key, elements, origin, self._count, points)
        return origin, points

    def _given_phases(self, phases: ArrayLike) -> Floats:
        array = numbers("phases", phases, at_least=0, below=1)
        if array.shape != self._frequency.shape or self._order != FIXED:
            raise InvalidInput(
                "phases are for fixed order, one for each element; "
                f"phases has shape {array.shape}, frequencies {self._frequency.shape}"
            )
        return array.copy()

    # --- to be continued ------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return all that is needed to go on later, as numbers and arrays; the windows must be given again.

        >>> schedule = Schedule([1.0, 3.0], order="random", seed=7)
        >>> _ = schedule.until(10.0)
        >>> again = Schedule.resume(schedule.state())
        >>> bool((again.until(20.0).times == schedule.until(20.0).times).all())
        True
        """
        parts = {name: getattr(self, f"_{name}") for name in _STATE}
        return {
            **{name: part.copy() if isinstance(part, np.ndarray) else part for name, part in parts.items()},
            "left_times": self._left[0],
            "left_elements": self._left[1],
            "left_points": self._left[2],
        }

    @classmethod
    def resume(
        cls, state: Mapping[str, Any], *, windows: WindowClock | Mapping[Any, WindowClock] | None = None
    ) -> Self:
        """Go on where `state` was taken, poll for poll."""
        names = (*_STATE, "left_times", "left_elements", "left_points")
        try:
            state = {name: state[name] for name in names}
        except (KeyError, TypeError) as error:
            why = f"it has no {error}" if isinstance(error, KeyError) else f"it is {state!r}"
            raise InvalidInput(f"state must be what Schedule.state returned; {why}") from None
        self = cls.__new__(cls)
        for name in _STATE:
            part = np.array(state[name])  # from a file numbers come back as arrays
            setattr(self, f"_{name}", part if part.ndim else part.item())
        self._key = np.uint64(self._key)
        n = len(self)
        columns = (self._frequency, self._since, self._origin, self._point, self._count)
        if any(column.shape != (n,) for column in columns) or self._clock.shape not in {(0,), (n,)}:
            raise InvalidInput(
                f"state must be what Schedule.state returned; its columns are not all of length {n}"
            )
        frequencies_of(self._frequency)
        self._left = tuple(np.array(state[f"left_{name}"]) for name in ("times", "elements", "points"))  # type: ignore[assignment]
        self._clocks = Clocks(windows)
        if np.max(self._clock, initial=0) >= len(self._clocks.clocks) or (self._even and windows is not None):
            raise InvalidInput(
                f"windows must be those of the schedule whose state it is; {windows!r} are others"
            )
        return self


_STATE = (
    "frequency", "order", "jitter", "even", "key", "now", "clock", "since", "origin", "point", "count",
    "slots", "passed", "given", "last", "drawn_to",
)  # fmt: skip


def _nothing() -> _Columns:
    return np.empty(0), np.empty(0, np.int64), np.empty(0)


def _joined(parts: list[_Columns]) -> _Columns:
    full = [part for part in parts if part[0].size] or parts[:1]
    if len(full) == 1:
        return full[0]
    return (
        np.concatenate([part[0] for part in full]),
        np.concatenate([part[1] for part in full]),
        np.concatenate([part[2] for part in full]),
    )


def _with(column: Any, size: int, places: Elements, values: Any) -> Any:  # noqa: ANN401  (any array)
    """A longer copy of a column, with some values in some places."""
    longer = np.empty(size, column.dtype)
    longer[: column.size] = column
    longer[places] = values
    return longer


def spread(elements: Elements) -> Floats:
    """Return phases that are spread evenly, whichever elements one takes."""
    phases = np.empty(elements.size)
    spread_out(elements, phases)
    return phases


def frequencies_of(frequencies: Frequencies) -> Floats:
    """Return the frequencies of a plan or an array, checked; one for each element."""
    given: Any = getattr(frequencies, "frequencies", frequencies)
    array = numbers("frequencies", given, at_least=0)
    if array.ndim != 1:
        raise InvalidInput(f"frequencies must be one-dimensional; it has shape {array.shape}")
    with np.errstate(over="ignore"):
        if not np.isfinite(array.sum()):
            raise InvalidInput(
                "frequencies must have a finite sum; their largest is " + repr(float(array.max()))
            )
    return array


def flag(name: str, value: bool) -> bool:  # noqa: FBT001
    """Return a truth value, checked."""
    if not isinstance(value, bool):
        raise InvalidInput(f"{name} must be True or False; {name} is {value!r}")
    return value
