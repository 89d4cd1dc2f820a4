"""Elements in columns, and what they ask for at a price.

Everything a plan needs of an element is here: its frequency at a price, what that costs, what a poll is
worth. Bounds on the frequency cut what it asks for, and a poll that costs more when it finds a change lowers
it. There is one such set for each kind of law; most plans have one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from .. import kernels, uncertain_kernels
from ..arguments import Floats, Order, order_code
from ..objectives import Objective, UpdatePenalty, objective_named
from ..polling import interval, mean_cost, reaching, worth
from ..processes import Observed, Poisson, Process, UncertainPoisson
from .demand import ALONE, demand_of

BLOCK_ELEMENTS = 1 << 18
"""Elements that are worked on at once, so that what comes between stays small."""
EXACTLY_SOLVED_ELEMENTS = 1 << 13
"""Up to so many elements frequencies are solved for; beyond, a table gives them to a relative 1e-12, for
uncertain rates in random orders mostly to 3e-6. There an element within a relative 1e-9 of its cutoff can be
off by more, within 1e-11 by half a per cent, within 1e-14 by all of it; `gap` bounds what that costs."""


class Goal(NamedTuple):
    """What is to be kept low, and in which order polls are made."""

    objective: Objective
    order: Order

    @property
    def code(self) -> int:
        """Number of the order in the kernels."""
        return order_code(self.order)


def poisson_of(rates: Floats) -> Poisson:
    """Poisson changes at rates that are checked and nobody else's, without copying them again."""
    law = Poisson.__new__(Poisson)
    rates.setflags(write=False)
    object.__setattr__(law, "rate", rates)
    return law


@dataclass(frozen=True, eq=False)
class Elements:
    """Columns of elements whose changes follow one kind of law: one entry for each, or one for all."""

    n: int
    law: Process
    weight: Floats
    size: Floats
    change_size: Floats
    """What a poll costs more if it finds a change."""
    low: Floats
    high: Floats
    count: Floats
    """How many elements an entry stands for."""
    share: Floats | None = None
    """For policies that do not weigh worths: what an element is given, relative to the others."""

    def column(self, name: str) -> Floats:
        """A column with one entry for each element; also ``rate``."""
        value = self.law.rate if name == "rate" else getattr(self, name)
        return np.broadcast_to(value, (self.n,))

    @property
    def wanted(self) -> NDArray[np.bool_]:
        """Elements that ask for polls: they change, and someone cares."""
        asks = (self.law.rate > 0) & (self.weight > 0) if self.share is None else self.share > 0
        return np.broadcast_to(asks, (self.n,))

    @cached_property
    def conditional(self) -> bool:
        """Whether polls cost more if they find a change."""
        return bool(np.any(self.change_size))

    @cached_property
    def bounded(self) -> bool:
        """Whether frequencies have bounds."""
        return bool(np.any(self.low) or np.any(np.isfinite(self.high)))

    @property
    def columns(self) -> dict[str, Floats]:
        """All columns but those of the law, as they are."""
        names = (part.name for part in fields(self) if part.name not in ("n", "law"))
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    @property
    def parameters(self) -> list[Floats]:
        """Columns of the parameters of the law; none if all elements share it."""
        if not self.law.shape_of or isinstance(self.law, Observed):
            return []
        names = (part.name for part in fields(self.law))  # type: ignore[arg-type]
        return [np.broadcast_to(getattr(self.law, name), (self.n,)) for name in names]

    def take(self, index: slice | NDArray[np.intp]) -> Self:
        """Some of the elements."""
        columns = {name: value[index] if np.ndim(value) else value for name, value in self.columns.items()}
        law = self.law
        if isinstance(law, Poisson) and np.ndim(law.rate):
            law = poisson_of(np.ascontiguousarray(law.rate[index]))
        else:
            law = law.take(index)
        n = len(range(*index.indices(self.n))) if isinstance(index, slice) else len(index)
        return replace(self, n=n, law=law, **columns)

    def blocks(self) -> Iterator[tuple[slice, Self]]:
        """Go through the elements, some at a time."""
        if self.n <= BLOCK_ELEMENTS:
            yield slice(0, self.n), self
            return
        for start in range(0, self.n, BLOCK_ELEMENTS):
            part = slice(start, min(start + BLOCK_ELEMENTS, self.n))
            yield part, self.take(part)

    # --- what is asked for ---------------------------------------------------------------------------

    def frequencies(self, goal: Goal, price: float | Floats, *, exact: bool) -> Floats:
        """What each element asks for at a price > 0 (one for all, or one for each)."""
        with np.errstate(all="ignore"):
            if self.share is not None:
                f = self.share / price
            elif not exact and (self.tabled(goal) or self.uncertain(goal)):
                f = self._looked_up(goal, price)
            else:
                f = 1.0 / self._intervals(goal, np.asarray(price, float))
            return np.clip(np.where(self.wanted, f, 0.0), self.low, self.high)

    def _looked_up(self, goal: Goal, price: float | Floats) -> Floats:
        """Frequencies from a table, without bounds."""
        size, change_size = price * self.size, price * self.change_size
        free = replace(self, size=size, change_size=change_size, low=np.zeros(()), high=np.full((), np.inf))
        f, demand = np.empty(self.n), demand_of(free, goal)
        if demand is not None:
            demand(np.ones(1), ALONE, np.zeros((1, 4)), f)
        return f

    def ceiling(self, goal: Goal) -> Floats:
        """What each element asks for as the price goes to 0: its upper bound, or as often as helps at all."""
        delay = getattr(getattr(goal.objective, "penalty", None), "threshold", None) or 0.0
        longest = {kernels.FIXED: 1.0, kernels.RANDOM: 2.0, kernels.PURELY_RANDOM: np.inf}[goal.code]
        if not delay or self.share is not None:
            return self.high
        return np.minimum(self.high, np.maximum(self.low, longest / delay))

    def tabled(self, goal: Goal) -> bool:
        """Whether the table of known rates knows what the elements ask for."""
        kernel = goal.objective.kernel
        plain = isinstance(self.law, Poisson) and self.share is None and kernel is not None
        return plain and (not self.conditional or kernel == kernels.FRESHNESS)

    def uncertain(self, goal: Goal) -> bool:
        """Whether compiled code knows what elements with uncertain rates ask for."""
        kind = isinstance(self.law, UncertainPoisson) and self.share is None
        return kind and goal.objective.kernel is not None

    def searched(self, goal: Goal) -> bool:
        """Whether intervals are searched for, by many evaluations of a worth."""
        penalty = getattr(goal.objective, "penalty", None)
        if self.share is not None or self.tabled(goal) or self.uncertain(goal):
            return False
        if isinstance(goal.objective, UpdatePenalty) and not self.conditional:
            return goal.objective.penalty.exponent is None
        known = isinstance(self.law, Poisson) and goal.code == kernels.FIXED and not self.conditional
        return not (known and getattr(penalty, "threshold", None) is not None)

    @property
    def pace(self) -> Floats:
        """One over the unit of time of each element: its rate, or the scale of an uncertain one."""
        return self.law.scale if isinstance(self.law, UncertainPoisson) else self.law.rate

    def unit(self, kernel: int) -> Floats:
        """The number that a price is multiplied with to be looked up."""
        with np.errstate(all="ignore"):
            unit = self.size * self.pace / self.weight
            unit = unit * self.pace if kernel == kernels.AGE else unit
        return np.where((self.law.rate > 0) & (self.weight > 0), unit, np.inf)

    def _intervals(self, goal: Goal, price: Floats) -> Floats:
        if self.conditional:
            return self._conditional(goal, price)
        kernel = goal.objective.kernel
        if isinstance(self.law, Poisson) and kernel is not None:
            return kernels.inverse_worth(kernel, goal.code, price * self.unit(kernel)) / self.law.rate
        scaled = np.where(self.weight > 0, price * self.size / self.weight, np.inf)
        return interval(goal.objective, self.law, scaled, goal.order)

    def _conditional(self, goal: Goal, price: Floats) -> Floats:
        """Poll when the worth reaches the price times what one more poll costs, found changes included."""
        rate = self.law.rate
        if isinstance(self.law, Poisson) and goal.objective.kernel == kernels.FRESHNESS:
            # the changes that polls find are proportional to freshness: paying for them lowers the weight
            left = self.weight - price * self.change_size * rate
            x = np.where(left > 0, price * self.size * rate / left, np.inf)
            return kernels.inverse_worth(kernels.FRESHNESS, goal.code, x) / rate
        if self.uncertain(goal):
            kind, law = goal.objective.kernel or 0, self.law
            assert isinstance(law, UncertainPoisson)  # noqa: S101  (for the type checker)
            more = self.change_size / self.size
            return (
                uncertain_kernels.inverse_conditional(kind, law.shape, price * self.unit(kind), more)
                / law.scale
            )

        def per_cost(t: Floats, index: slice | NDArray[np.intp]) -> Floats:
            some = self.take(index)
            return worth(goal.objective, some.law, t, goal.order) / some.next_cost(goal, t)

        target = np.where(self.wanted, price / self.weight, np.inf)
        start = 1.0 / np.where(self.wanted, rate, 1.0)
        return reaching(per_cost, target, start, per_cost(np.full(start.shape, np.inf), slice(None)))

    def next_cost(self, goal: Goal, t: Floats) -> Floats:
        """What one more poll per unit time costs at intervals t: size + change_size * (G - t g)."""
        if not self.conditional:
            return self.size
        rate = self.law.rate
        if isinstance(self.law, Poisson):
            found = kernels.worth(kernels.FRESHNESS, goal.code, rate * t)
        else:
            density = np.where(np.isinf(t), 0.0, t * rate * self.law.survival(t))
            found = self.law.residual_cdf(t) - density
        return self.size + self.change_size * found

    # --- what it costs, and what it is worth -----------------------------------------------------------

    def spending(self, goal: Goal, f: Floats) -> Floats:
        """What each entry spends per unit time at these frequencies."""
        if not self.conditional:
            return self.count * self.size * f
        rate = self.law.rate
        with np.errstate(all="ignore"):
            if isinstance(self.law, Poisson):
                found = rate * kernels.freshness(rate, f, goal.code)
            else:
                found = f * self.law.residual_cdf(1.0 / f)
        return self.count * (self.size * f + self.change_size * np.where((rate > 0) & (f > 0), found, 0.0))

    def costs(self, goal: Goal, f: Floats) -> Floats:
        """Cost of each entry at these frequencies, times its weight."""
        finite = np.isfinite(f)
        with np.errstate(all="ignore"):
            cost = self.weight * mean_cost(goal.objective, self.law, np.where(finite, f, 1.0), goal.order)
        return self.count * np.where(finite & (self.weight > 0), cost, 0.0)

    def freshness(self, goal: Goal, f: Floats) -> Floats:
        """Freshness of each entry at these frequencies, times its weight, with all digits where small."""
        if isinstance(self.law, UncertainPoisson):
            with np.errstate(all="ignore"):
                fresh = uncertain_kernels.freshness(goal.code, self.law.shape, self.law.scale / f)
            return self.count * self.weight * fresh
        if not isinstance(self.law, Poisson):
            return self.count * self.weight - self.costs(Goal(objective_named("freshness"), goal.order), f)
        with np.errstate(all="ignore"):
            return self.count * self.weight * kernels.freshness(self.law.rate, f, goal.code)

    def ratios(self, goal: Goal, f: Floats) -> Floats:
        """Worth of one more poll over its cost at these frequencies; 0 for elements that ask for none."""
        with np.errstate(all="ignore"):
            t = 1.0 / f
            worths = self.weight * worth(goal.objective, self.law, t, goal.order) / self.next_cost(goal, t)
        return np.where(self.wanted, worths, 0.0)

    def slack(self, goal: Goal, f: Floats, price: Floats) -> tuple[float, float, float]:
        """How far the worths at these frequencies are from the price, seen from above and from below.

        Returns the largest relative excess of a worth over the price among entries below their upper bound;
        the sum of what entries pay above their lower bound, times the relative shortfall of their worth; and
        the sum of what they pay.
        """
        with np.errstate(all="ignore"):
            # an interval beyond the floats is none that an element could miss
            excess = self.ratios(goal, np.maximum(f, 1e-300)) / price - 1.0
            cost = price * self.next_cost(goal, 1.0 / f)
            paid = np.where((f > self.low) & self.wanted, self.count * cost * (f - self.low), 0.0)
            short = np.where(paid > 0, paid * np.maximum(-excess, 0.0), 0.0)
            over = float(excess.max(initial=0.0, where=(excess > 0) & (f < self.high)))
        return over, float(short.sum()), float(paid.sum())
