"""The index policy: each slot goes to the element with the highest worth per cost.

The worth of a poll grows with the time since the last one (`unstale.polling.worth`), and a plan polls each
element when its worth per cost reaches the price, the same for all. Here the price need not be known: the
next poll goes to the element that is worth most,

    argmax of  weight * worth(time since its last poll) / size,

and the budget, one poll after another, makes what is paid settle at the price. That loses next to nothing
against the bound of a plan whose polls are all exactly on time.

To find the highest of n worths in each slot, not all are looked at. Say k elements are worth at least theta
now. During the next k polls one of them is always left, so each polled element is worth theta; and as worth
only grows, an element that is not worth theta at the end of that time is not polled before. That leaves a
small selection, in which each slot finds its element; and where it is not small enough, a selection of the
selection. It is the exact maximum nevertheless, and of equal ones the element of the smallest number.

References: Olston & Pandey (WWW 2008), eq. 4; Busa-Fekete et al. (WWW 2025).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isqrt
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from unstale import kernels
from unstale.arguments import Floats, numbers, scalar
from unstale.errors import InvalidInput
from unstale.objectives import Objective, UpdatePenalty, objective_named
from unstale.polling import worth
from unstale.processes import Poisson, Process, process

from .compiled.slots import ELEMENTS_PER_POLL_OF_SELECTION, MISSED, by_worth
from .orders import spread
from .polls import Elements, Polls, later, one_by_one

_SLOTS_PER_BLOCK = 1 << 16
_MOST_LEVELS = 128
"""More than there can be: each has at most 3/4 of the elements of the one before."""


class Index:
    """An endless stream of (time, element): one poll after another, of the element that is worth most.

    The next poll comes when the budget has paid for the last one, ``size / budget`` later. At the start,
    elements count as polled before, at moments spread evenly over the time in which the budget pays for one
    poll of each. Elements that never change, or that have no weight, are never polled.

    Parameters
    ----------
    rates
        How elements change: numbers for the rates of Poisson changes, or a process with an entry for each
        element.
    budget
        What all polls together cost per unit time.
    weights, sizes
        How much elements matter, and what a poll of each costs; 1 by default.
    objective
        What a poll is worth. It must not make a poll worth less the longer ago the last one was; none does
        whose cost grows with time.
    start
        The time at which the schedule begins.

    Examples
    --------
    >>> schedule = Index([1.0, 2.0, 100.0], budget=4.0, weights=[3.0, 2.0, 1.0])
    >>> polls = schedule.until(2.0)
    >>> polls.times[:3].tolist()
    [0.0, 0.25, 0.5]
    >>> polls.elements.tolist()                  # what changes all the time is not worth a poll
    [1, 0, 1, 0, 1, 0, 1, 0]
    """

    def __init__(
        self,
        rates: ArrayLike | Process,
        budget: float,
        *,
        weights: ArrayLike | None = None,
        sizes: ArrayLike | None = None,
        objective: str | Objective = "freshness",
        start: float = 0.0,
    ) -> None:
        self._now = scalar("start", start)
        self._begin, self._wait, self._spent = self._now, 0.0, 0.0
        self._made, self._paid = 0, 0.0
        goal = _IndexProblem.of(
            rates,
            scalar("budget", budget, at_least=0),
            1.0 if weights is None else weights,
            1.0 if sizes is None else sizes,
            objective,
        )
        self._take_up(goal, self._now - goal.round * spread(np.arange(len(goal))))

    # --- the stream -----------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        return self._now

    @property
    def rate(self) -> float:
        """Polls per unit time; with sizes, as it has been so far."""
        if self._goal.budget == 0.0 or not self._choice.any:
            return 0.0
        if self._made == 0:
            return self._goal.budget / self._goal.mean
        return self._goal.budget * self._made / (self._paid + self._spent)

    def __len__(self) -> int:
        return len(self._goal)

    def __iter__(self) -> Iterator[tuple[float, int]]:
        return one_by_one(self)

    def until(self, end: float) -> Polls:
        end = later(self._now, end)
        times, elements = [np.empty(0)], [np.empty(0, np.int64)]
        room = int(min((end - self._now) * self.rate + 64.0, _SLOTS_PER_BLOCK))
        while self.rate > 0 and self._begin + self._spent / self._goal.budget < end:
            moments, polled, self._spent = self._choice.draw(self._begin, self._spent, end, room)
            self._made += moments.size
            times.append(moments)
            elements.append(polled)
        self._now = end
        return Polls(np.concatenate(times), np.concatenate(elements))

    # --- other elements, another budget ---------------------------------------------------------------------

    def swap(
        self,
        rates: ArrayLike | Process | None = None,
        budget: float | None = None,
        *,
        weights: ArrayLike | None = None,
        sizes: ArrayLike | None = None,
        objective: str | Objective | None = None,
    ) -> None:
        """Go on with other rates, weights or sizes, another budget or objective; what is not given stays.

        Slots go on without a gap: the new budget pays what is left to pay for the last poll. Each element
        keeps the moment of its last poll.

        Parameters
        ----------
        rates
            More rates than elements are for new elements, which count as polled before now, as others did at
            the start.
        budget
            What all polls together cost per unit time.
        weights, sizes
            One for each element; weight 0 is for elements that are gone.
        objective
            What a poll is worth.

        Examples
        --------
        >>> schedule = Index([1.0, 1.0], budget=2.0)
        >>> schedule.until(1.0).elements.tolist()
        [1, 0]
        >>> schedule.swap([1.0, 1.0, 1.0], budget=3.0, weights=[1.0, 0.0, 1.0])
        >>> schedule.until(2.0).elements.tolist()
        [2, 0, 2]
        """
        old, n = self._goal, len(self)
        goal = _IndexProblem.of(
            old.law if rates is None else rates,
            old.budget if budget is None else scalar("budget", budget, at_least=0),
            old.weights if weights is None else weights,
            old.sizes if sizes is None else sizes,
            old.objective if objective is None else objective,
        )
        if len(goal) < n:
            raise InvalidInput(
                f"rates must be at least one for each of the {n} elements; there are {len(goal)}. "
                "Give weight 0 to elements that are gone"
            )
        if old.budget > 0:
            self._wait = max(self._begin + self._spent / old.budget - self._now, 0.0) * old.budget
        self._begin = self._now + (self._wait / goal.budget if goal.budget > 0 else 0.0)
        # the polls so far tell the size of one, unless sizes are others now
        self._paid = self._paid + self._spent if sizes is None else self._made * goal.mean
        self._spent = 0.0
        known = self._choice.last if self._made else np.empty(0)
        new = self._now - goal.round * spread(np.arange(known.size, len(goal)))
        self._take_up(goal, np.concatenate([known, new]))

    def _take_up(self, goal: _IndexProblem, last: Floats) -> None:
        self._goal = goal
        self._choice: _KnownObjective | _AnyObjective = (
            _AnyObjective(goal, last) if goal.kind is None else _KnownObjective(goal, last)
        )

    # --- to be continued ------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return all that is needed to go on later, as numbers and arrays.

        A process, or an objective that has no name, must be given again.

        >>> schedule = Index([1.0, 3.0, 4.0], budget=2.0)
        >>> _ = schedule.until(10.0)
        >>> again = Index.resume(schedule.state())
        >>> bool((again.until(20.0).elements == schedule.until(20.0).elements).all())
        True
        """
        goal = self._goal
        return {
            "rates": np.array(goal.law.rate) if isinstance(goal.law, Poisson) else np.empty(0),
            "weights": goal.weights.copy(),
            "sizes": goal.sizes.copy(),
            "budget": goal.budget,
            "objective": goal.objective if isinstance(goal.objective, str) else "",
            "last": self._choice.last,
            **{name: getattr(self, f"_{name}") for name in _STATE},
        }

    @classmethod
    def resume(
        cls,
        state: Mapping[str, Any],
        *,
        rates: Process | None = None,
        objective: Objective | None = None,
    ) -> Self:
        """Go on where `state` was taken, poll for poll."""
        needed = ("rates", "weights", "sizes", "budget", "objective", "last", *_STATE)
        if missing := [name for name in needed if name not in state]:
            raise InvalidInput(f"state must be what Index.state returned; it has no {missing[0]!r}")
        self = cls.__new__(cls)
        for name in _STATE:
            setattr(self, f"_{name}", np.asarray(state[name]).item())  # from a file numbers come as arrays
        goal = _IndexProblem.of(
            np.asarray(state["rates"]) if rates is None else rates,
            float(state["budget"]),
            np.asarray(state["weights"]),
            np.asarray(state["sizes"]),
            str(np.asarray(state["objective"])) if objective is None else objective,
        )
        last = np.array(state["last"], float)
        if last.size != len(goal):
            raise InvalidInput(
                f"rates must be the process of the {last.size} elements whose state it is; it has {len(goal)}"
            )
        self._take_up(goal, last)
        return self


_STATE = ("now", "begin", "wait", "spent", "made", "paid")


@dataclass(frozen=True, eq=False)
class _IndexProblem:
    """The elements, the budget and the objective of the policy."""

    law: Process
    budget: float
    weights: Floats
    sizes: Floats
    """Weights and sizes: one number for all, or one for each."""
    objective: str | Objective

    @classmethod
    def of(
        cls,
        rates: ArrayLike | Process,
        budget: float,
        weights: ArrayLike,
        sizes: ArrayLike,
        objective: str | Objective,
    ) -> Self:
        """Check everything but the budget."""
        law = _law(rates)
        if len(law.shape_of) > 1:
            raise InvalidInput(f"rates must have one entry for each element; its shape is {law.shape_of}")
        objective_named(objective)
        weight, size = numbers("weights", weights, at_least=0), numbers("sizes", sizes, above=0)
        goal = cls(law, budget, weight.copy(), size.copy(), objective)
        for name, column in (("weights", goal.weights), ("sizes", goal.sizes)):
            if column.shape not in {(), (len(goal),)}:
                raise InvalidInput(
                    f"{name} must be one number or one for each element; "
                    f"{name} has shape {column.shape}, rates ({len(goal)},)"
                )
        return goal

    def __len__(self) -> int:
        return (self.law.shape_of or (1,))[0]

    def column(self, values: Floats) -> Floats:
        """One number for each element."""
        return np.array(np.broadcast_to(values, len(self)), float)

    @property
    def mean(self) -> float:
        """Mean size."""
        return float(np.mean(self.sizes)) if self.sizes.size else 1.0

    @property
    def round(self) -> float:
        """Time in which the budget pays for one poll of each element."""
        with np.errstate(over="ignore", divide="ignore"):
            return min(float(np.divide(len(self) * self.mean, self.budget)), 1e200) if self.budget else 0.0

    @property
    def wanted(self) -> Elements:
        """Numbers of the elements that are worth a poll."""
        return np.flatnonzero(self.column(self.law.rate) * self.column(self.weights) > 0)

    @property
    def kind(self) -> int | None:
        """Number of the compiled worth, if there is one."""
        objective = objective_named(self.objective)
        if isinstance(objective, UpdatePenalty) and objective.penalty.exponent == 0.0:
            return MISSED  # for which only rates matter
        return objective.kernel if isinstance(self.law, Poisson) else None


def _law(rates: ArrayLike | Process) -> Process:
    """Return the process; plain numbers are the rates of Poisson changes."""
    if hasattr(rates, "survival"):
        return process("rates", rates)
    return Poisson(np.atleast_1d(numbers("rates", rates, at_least=0)))


class _KnownObjective:
    """Finds the element that is worth most, by compiled code."""

    def __init__(self, goal: _IndexProblem, last: Floats) -> None:
        self._kind = goal.kind
        self._budget = goal.budget
        self._columns = tuple(map(goal.column, (goal.law.rate, goal.weights, goal.sizes)))
        self._mean = goal.mean
        self._last = last
        rate, weight, size = self._columns
        self._wanted = wanted = goal.wanted
        self._places = np.empty(4 * wanted.size, np.int64)
        self._cards = np.empty((4 * wanted.size, 3))
        self._places[: wanted.size] = wanted
        with np.errstate(over="ignore", under="ignore"):
            unit = weight[wanted] / rate[wanted] / size[wanted]
            unit = unit / rate[wanted] if self._kind == kernels.AGE else unit
        self._cards[: wanted.size] = np.column_stack([rate[wanted], np.minimum(unit, 1e300), last[wanted]])
        starts = np.zeros(_MOST_LEVELS, np.int64)
        starts[1] = wanted.size
        most = np.full(_MOST_LEVELS, np.iinfo(np.int64).max)
        haste = np.full(_MOST_LEVELS, ELEMENTS_PER_POLL_OF_SELECTION)
        self._levels = starts, np.full(_MOST_LEVELS, np.inf), most, haste, np.zeros(1, np.int64)

    @property
    def any(self) -> bool:
        """Whether there is an element to poll."""
        return self._wanted.size > 0

    @property
    def last(self) -> Floats:
        """Moments of the last polls."""
        last = self._last.copy()
        last[self._wanted] = self._cards[: self._wanted.size, 2]
        return last

    def draw(self, begin: float, spent: float, end: float, most: int) -> tuple[Floats, Elements, float]:
        """Draw some polls before ``end``; return them, and what has been spent since ``begin``."""
        times, elements = np.empty(most), np.empty(most, np.int64)
        spent, drawn, self._mean = by_worth(
            self._kind, self._columns, self._mean, self._budget, begin, spent, end,
            self._cards, self._places, self._levels, times, elements,
        )  # fmt: skip
        return times[:drawn], elements[:drawn], spent


class _AnyObjective:
    """Finds the element that is worth most, for any law and objective."""

    def __init__(self, goal: _IndexProblem, last: Floats) -> None:
        self._goal = goal
        self._unit = goal.column(goal.weights) / goal.column(goal.sizes)
        self._sizes = goal.column(goal.sizes)
        self._wanted = goal.wanted
        self._moments = last.copy()
        self._polls = 0

    @property
    def any(self) -> bool:
        """Whether there is an element to poll."""
        return self._wanted.size > 0

    @property
    def last(self) -> Floats:
        """Moments of the last polls."""
        return self._moments.copy()

    def draw(self, begin: float, spent: float, end: float, most: int) -> tuple[Floats, Elements, float]:
        """Draw some polls before ``end``; return them, and what has been spent since ``begin``."""
        times: list[float] = []
        elements: list[int] = []
        while (now := begin + spent / self._goal.budget) < end and len(times) < most:
            if self._polls == 0 or now > self._until:
                self._select(now)
            k = int(self._selected[np.argmax(self._worths(self._selected, self._law, now))])
            times.append(now)
            elements.append(k)
            spent += float(self._sizes[k])
            self._moments[k] = now
            self._polls -= 1
        return np.array(times), np.array(elements, np.int64), spent

    def _select(self, now: float) -> None:
        """Select the elements that can be worth most during the next polls."""
        count = isqrt(self._wanted.size)
        law = self._goal.law.take(self._wanted)
        theta = np.partition(self._worths(self._wanted, law, now), -count)[-count]
        self._polls = count
        self._until = now + count * self._goal.mean / self._goal.budget
        # worths may be off in their last digits
        possible = self._worths(self._wanted, law, self._until) >= theta * (1.0 - 1e-8)
        self._selected = self._wanted[possible]
        self._law = self._goal.law.take(self._selected)

    def _worths(self, elements: Elements, law: Process, now: float) -> Floats:
        since = now - self._moments[elements]
        return self._unit[elements] * worth(self._goal.objective, law, since)
