"""Plans for elements that change by the clock: intervals in operational time, and polls after the rush.

At a price an element is polled whenever the worth under its rhythm reaches it (`unstale.operational_time`),
so its frequency, and how fresh it is in the long run, follow from the price alone. The price of the plan is
where the polls of all elements meet the budget, as ever. But a frequency may jump as the price falls: what is
polled once after each rush is polled twice from some price on. At such a price the first elements have the
polls of a price just below it, as many as the budget pays for, and the others those of a price just above.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, sqrt

import numpy as np
from numpy.typing import ArrayLike

from ..arguments import Floats, broadcast, numbers, scalar
from ..errors import InvalidInput
from ..objectives import Objective
from ..operational_time import OperationalClock
from ..operational_time.clock import gamma_of, objective_kind
from ..operational_time.compiled.rhythm_worth import next_moment_within
from ..operational_time.long_run import long_run_of
from ..processes import Process
from ..schedule.polls import Polls, later
from .market import check_weight

_PRICE_RELATIVE = 1e-7
"""How close the prices above and below a jump are."""
_PRICE_STEP = 8.0
"""By which prices grow, or shrink, until the budget lies between two."""
_MOST_HALVINGS = 200
_HIGHEST_PRICE, _LOWEST_PRICE = 1e9, 1e-9
"""In periods, per unit of weight: beyond, nothing is polled, or everything all the time."""


@dataclass(frozen=True, eq=False)
class RhythmPlan:
    """An allocation by a rhythm, with what it costs and what it buys."""

    frequencies: Floats
    """Polls per unit time, in the order of the input."""
    price: float
    """Worth of one more unit of budget, as in `Plan`."""
    spent: float
    """Per unit time; less than the budget by what one element more would take, if frequencies jump."""
    budget: float
    freshness: float
    """Weighted mean freshness in the long run."""
    rhythm: OperationalClock
    _kind: int = field(repr=False)
    _laws: tuple[Floats, Floats] = field(repr=False)
    _prices: Floats = field(repr=False)
    """What a poll of each element must be worth, per unit of weight."""

    def __post_init__(self) -> None:
        """Protect the allocation, to which the rest belongs."""
        self.frequencies.setflags(write=False)

    def __len__(self) -> int:
        """Return how many elements there are."""
        return int(self.frequencies.size)

    def schedule(self) -> RhythmSchedule:
        """Return the polls themselves, from time 0 on, at which all elements are as if polled."""
        return RhythmSchedule(self)

    def next_poll(self, element: int, last: float) -> float:
        """Return when an element is polled next; inf if never.

        >>> from unstale import plan
        >>> night = OperationalClock([0.0, 1.0, 0.0, 0.0], period=1.0)
        >>> plan([1.0], 1.0, rhythm=night).next_poll(0, last=0.5)
        1.5
        """
        if not 0 <= element < len(self):
            raise InvalidInput(f"element must be a number below {len(self)}; it is {element!r}")
        clock, price = self.rhythm, float(self._prices[element])
        if not price < inf:
            return inf
        shape, time = (float(part[element]) for part in self._laws)
        return float(
            next_moment_within(
                self._kind, clock.edges, clock.levels, shape, time, last, price, 100.0 * clock.period
            )
        )


class RhythmSchedule:
    """The polls of a plan by a rhythm, span after span."""

    def __init__(self, plan: RhythmPlan) -> None:
        self._plan, self._now = plan, 0.0
        self._next = np.array([plan.next_poll(i, 0.0) for i in range(len(plan))])

    def __len__(self) -> int:
        """Return how many elements there are."""
        return len(self._plan)

    @property
    def now(self) -> float:
        """The moment up to which polls have been given."""
        return self._now

    @property
    def rate(self) -> float:
        """Polls per unit time."""
        return float(self._plan.frequencies.sum())

    def until(self, end: float) -> Polls:
        """Return the polls from now on to just before ``end``, which is now afterwards."""
        self._now = later(self._now, end)
        times, elements = [], []
        for i in np.flatnonzero(self._next < end).tolist():
            while self._next[i] < end:
                times.append(float(self._next[i]))
                elements.append(i)
                following = self._plan.next_poll(i, times[-1])
                self._next[i] = max(following, np.nextafter(times[-1], inf))
        order = np.argsort(times, kind="stable")
        return Polls(np.array(times, float)[order], np.array(elements, np.int64)[order])


def plan_by_rhythm(
    rates: Process | ArrayLike,
    budget: float,
    rhythm: OperationalClock,
    *,
    weights: ArrayLike | None = None,
    sizes: ArrayLike | None = None,
    objective: str | Objective = "freshness",
    price_relative: float = _PRICE_RELATIVE,
) -> RhythmPlan:
    """Divide a budget among elements that share a rhythm.

    Parameters
    ----------
    rates
        Changes per unit time on average, or an `UncertainPoisson`.
    budget, weights, sizes
        As in `plan`.
    rhythm
        How fast changes come at what time of the period, and its length.
    objective
        "freshness" or "age".
    price_relative
        How close the prices are between which the budget is spent: the wider, the sooner it is found.
    """
    if not isinstance(rhythm, OperationalClock):
        raise InvalidInput(f"rhythm must be an OperationalClock; it is {rhythm!r}")
    kind, total = objective_kind(objective), scalar("budget", budget, at_least=0)
    law = gamma_of(rates)
    given = broadcast(
        rates=np.atleast_1d(law[0]),
        weights=np.asarray(1.0 if weights is None else numbers("weights", weights, at_least=0), float),
        sizes=np.asarray(1.0 if sizes is None else numbers("sizes", sizes, above=0), float),
    )
    shape, time, weight, size = (np.array(part) for part in np.broadcast_arrays(given[0], law[1], *given[1:]))
    check_weight(float(weight.sum()))
    kinds, which = np.unique(np.stack([shape, time, weight / size], axis=1), axis=0, return_inverse=True)
    demand = _Demand(kind, rhythm, kinds, which.ravel(), size)
    low, high = demand.bracket(total, price_relative)
    (often, fresher), (seldom, staler) = demand.at(low), demand.at(high)
    more = np.cumsum(size * (often - seldom)) + float(seldom @ size)
    below = more <= total * (1.0 + 1e-12)
    frequencies, fresh = np.where(below, often, seldom), np.where(below, fresher, staler)
    with np.errstate(divide="ignore"):
        prices = np.where(below, low, high) * size / weight
    return RhythmPlan(
        frequencies=frequencies,
        price=high,
        spent=float(frequencies @ size),
        budget=total,
        freshness=float(weight @ fresh) / float(weight.sum()),
        rhythm=rhythm,
        _kind=kind,
        _laws=(shape, time),
        _prices=np.where(frequencies > 0, prices, inf),
    )


@dataclass(frozen=True, eq=False)
class _Demand:
    """What elements ask for at a price; those that are alike are asked once."""

    kind: int
    rhythm: OperationalClock
    kinds: Floats
    """Shape and time of the law of rates, and weight per size, of each kind of element."""
    which: np.ndarray[tuple[int], np.dtype[np.intp]]
    """The kind of each element."""
    size: Floats

    def at(self, price: float) -> tuple[Floats, Floats]:
        """Return the frequency of each element, and how fresh it is."""
        found = np.array(
            [
                long_run_of(self.kind, self.rhythm, shape, time, price / value) if value > 0 else (0.0, 0.0)
                for shape, time, value in self.kinds.tolist()
            ]
        )
        return found[self.which, 0], found[self.which, 1]

    def bracket(self, budget: float, relative: float) -> tuple[float, float]:
        """Return two prices that are close: one at which more than a budget is spent, and one above it."""
        unit = self.rhythm.period * float(self.kinds[:, 2].max())
        low, high = self._around(budget, unit)
        for _ in range(_MOST_HALVINGS):
            if high <= low * (1.0 + relative):
                break
            middle = sqrt(low * high)
            spent = float(self.at(middle)[0] @ self.size)
            low, high = (middle, high) if spent > budget else (low, middle)
        return low, high

    def _around(self, budget: float, unit: float) -> tuple[float, float]:
        """Return prices far apart; not from the lowest on, at which the long run has very many polls."""
        lowest, highest, price = _LOWEST_PRICE * unit, _HIGHEST_PRICE * unit, unit
        if float(self.at(price)[0] @ self.size) > budget:
            while price < highest:
                low, price = price, price * _PRICE_STEP
                if float(self.at(price)[0] @ self.size) <= budget:
                    return low, price
            return price, price
        while price > lowest:
            high, price = price, price / _PRICE_STEP
            if float(self.at(price)[0] @ self.size) > budget:
                return price, high
        return price, high
