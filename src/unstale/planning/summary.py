"""A summary: a few thousand elements that ask for the same as millions.

Elements that are nearly alike are added up in a cell, and the cell stands for them: as one element with their
mean parameters, or for Poisson changes as two, which also have their spread, and for uncertain rates as four.
So it spends and costs what they do, up to a power of the width of a cell. A summary answers for other
budgets, and the sum of two summaries is the summary of both sets of elements: shards can be summarised apart
and in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from mmap import mmap

import numpy as np
from numpy.typing import NDArray

from .. import kernels
from ..arguments import Floats, scalar
from ..errors import InvalidInput
from ..penalties import named
from ..processes import Observed, Poisson, Process, UncertainPoisson
from .compiled import cells as compiled_cells
from .demand import columns_of
from .elements import EXACTLY_SOLVED_ELEMENTS, Elements, Goal
from .fast_path import fast_plan
from .market import Market, check_weight
from .search import Clearing

MOST_CELLS, MOST_UNCERTAIN = 1 << 15, 1 << 14
FINEST = compiled_cells.CELL_BITS
LARGEST = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Outlook:
    """What a budget would buy."""

    budget: float
    price: float
    """Worth of one more unit of budget."""
    cost: float
    """Weighted mean cost, by the objective."""
    freshness: float
    """Weighted mean freshness."""
    age: float
    """Weighted mean age."""


@dataclass(frozen=True, eq=False)
class Summary:
    """What a set of elements asks for at any price, in a few thousand cells. Summaries can be added."""

    cells: Market
    bits: int = FINEST
    """Cells for each power of two of a parameter, as a power of two."""

    def __add__(self, other: Summary) -> Summary:
        """The summary of both."""
        if not isinstance(other, Summary):
            return NotImplemented
        if self.cells.goal != other.cells.goal:
            raise InvalidInput(
                f"summaries must share objective and order; they are for {_named(self)} and {_named(other)}"
            )
        laws: dict[object, list[Elements]] = {}
        for part in (*self.cells.parts, *other.cells.parts):
            laws.setdefault(_kind(part.law), []).append(part)
        bits = min(self.bits, other.bits)
        return _summary([_joined(parts) for parts in laws.values()], self.cells, bits)

    def __radd__(self, other: object) -> Summary:
        """So that `sum` adds summaries."""
        return self if other == 0 else NotImplemented

    def check_weight(self) -> None:
        """Insist on weights that have a mean."""
        check_weight(self.cells.weight)

    def clear(self, budget: float) -> Clearing:
        """Find the price that spends a budget, to 1e-9 where every digit would cost time."""
        objective = self.cells.goal.objective
        closed = objective.kernel is not None or getattr(objective, "penalty", None) == named("1")
        slow = not closed or len(self.cells) > EXACTLY_SOLVED_ELEMENTS
        return self.cells.clear(budget, rough=slow)

    def outlook(self, budget: float) -> Outlook:
        """Say what a budget buys."""
        total = scalar("budget", budget, at_least=0)
        self.cells.check_budget(total)
        if any(part.uncertain(self.cells.asking or self.cells.goal) for part in self.cells.parts) and (
            self.cells.least < total < self.cells.most and (found := fast_plan(self.cells, total))
        ):
            return self._of(found.frequencies, total, found.price)
        return self.at(self.clear(total), total)

    def at(self, clearing: Clearing, budget: float | None = None) -> Outlook:
        """Say what a price buys."""
        f = self.cells.at(clearing)
        if clearing.under == 0.0 and budget is not None and self.cells.spent(f) < budget * (1.0 - 1e-12):
            rest = self.cells.spare(f)
            f = rest.at(rest.clear(budget))
        price = clearing.under if clearing.under < np.inf else self.cells.first_worth(f)
        return self._of(f, self.cells.spent(f) if budget is None else budget, price)

    def _of(self, f: Floats, budget: float, price: float) -> Outlook:
        age = self.cells.cost(f, "age")
        cost = age if self.cells.goal.objective.name == "age" else self.cells.cost(f)
        return Outlook(budget, price, cost, self.cells.freshness(f), age)


def _named(summary: Summary) -> str:
    return f"{summary.cells.goal.objective.name} in {summary.cells.goal.order} order"


def _kind(law: Process) -> object:
    """What must be the same for two sets of elements to be one: the family, or a law that all share."""
    return type(law) if law.shape_of and not isinstance(law, Observed) else law


def _joined(parts: list[Elements]) -> Elements:
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    columns = {name: np.concatenate([each.column(name) for each in parts]) for name in first.columns}
    law = first.law
    if law.shape_of:
        law = _law(
            first,
            [np.concatenate(column) for column in zip(*(each.parameters for each in parts), strict=True)],
        )
    return replace(first, n=sum(each.n for each in parts), law=law, **columns)


def _law(elements: Elements, parameters: list[Floats]) -> Process:
    return type(elements.law)(*parameters) if parameters else elements.law


def summarise(market: Market) -> Summary:
    """Add the elements up in cells."""
    if len(market.parts) == 1 and (cells := _gathered(market.parts[0], market.asking or market.goal)):
        return Summary(replace(market, parts=(cells,)))
    return _summary(list(market.parts), market, FINEST)


def _gathered(part: Elements, goal: Goal) -> Elements | None:
    """Cells of many elements with Poisson changes and no options, in one pass; None if they are others."""
    kernel = goal.objective.kernel
    alone = np.ndim(part.count) == 0 and part.count == 1.0
    if (
        kernel is None
        or not (part.n > EXACTLY_SOLVED_ELEMENTS and part.tabled(goal) and alone)
        or part.bounded
        or part.conditional
    ):
        return None
    # The memory of cells that stay empty is never touched: a map has zeros without writing them.
    count = compiled_cells.CELLS
    sums, span = np.frombuffer(mmap(-1, count * 4 * 8)).reshape(count, 4), np.array([LARGEST, 0])
    if compiled_cells.gather(part.n, columns_of(part, "rate", "weight", "size"), kernel, sums, span):
        return None
    first, last = span >> (52 - compiled_cells.CELL_BITS)
    used = sums[first : last + 1]
    mass, weight, share, spread = used[used[:, 1] > 0].T
    return _twofold(mass, weight, share, spread, goal)


def _summary(parts: list[Elements], market: Market, bits: int) -> Summary:
    while True:
        cells = [_compressed(part, market.asking or market.goal, bits) for part in parts]
        if all(cells) or bits == 0:
            kept = tuple(new or old for new, old in zip(cells, parts, strict=True))
            return Summary(replace(market, parts=kept), bits)
        bits = max(0, bits - 2)


def _compressed(elements: Elements, goal: Goal, bits: int) -> Elements | None:
    """Add up what is alike; None if too many cells are left. Observed gaps are not alike."""
    if isinstance(elements.law, Observed):
        return elements
    uncertain = elements.uncertain(goal)
    scaled = uncertain or (isinstance(elements.law, Poisson) and goal.objective.kernel is not None)
    columns = (
        _alike(elements, goal)
        if scaled
        else [
            elements.column("weight") / elements.column("size"),
            *elements.parameters,
            *(elements.column(name) for name in elements.columns if name not in ("weight", "size", "count")),
        ]
    )
    numbers = np.empty(elements.n, np.int64)
    most = MOST_UNCERTAIN if uncertain else MOST_CELLS
    count = compiled_cells.label(_keys(columns, elements.column("rate") == 0, bits), most, numbers)
    if count < 0:
        return None

    def total(column: Floats) -> Floats:
        return np.bincount(numbers, column, minlength=count).astype(float, copy=False)

    return _scaled_cells(elements, goal, total) if scaled else _mean_cells(elements, total)


def _alike(elements: Elements, goal: Goal) -> list[Floats]:
    """Columns in which elements are to be alike: unit, shape, and the rest in proportion to the rate."""
    pace = np.broadcast_to(elements.pace, (elements.n,))
    with np.errstate(all="ignore"):
        rest = [
            elements.columns[name] / pace for name in ("low", "high", "share") if name in elements.columns
        ]
        ratio = elements.column("change_size") / elements.size
    shape = [_shape(elements)] if isinstance(elements.law, UncertainPoisson) else []
    return [np.broadcast_to(elements.unit(goal.objective.kernel or 0), pace.shape), ratio, *shape, *rest]


def _shape(elements: Elements) -> Floats:
    assert isinstance(elements.law, UncertainPoisson)  # noqa: S101  (for the type checker)
    return np.broadcast_to(elements.law.shape, (elements.n,))


def _mean_cells(elements: Elements, total: Callable[[Floats], Floats]) -> Elements:
    """Cells with the means of their elements."""
    n, size = elements.column("count"), elements.column("size")
    counts, sizes = total(n), total(n * size)

    def mean(column: Floats) -> Floats:
        with np.errstate(invalid="ignore"):
            return total(n * size * column) / sizes

    columns = {name: mean(elements.column(name)) for name in elements.columns}
    plain = {name: total(n * elements.column(name)) / counts for name in ("weight", "size", "change_size")}
    law = _law(elements, [mean(parameter) for parameter in elements.parameters])
    return Elements(n=counts.size, law=law, **{**columns, **plain, "count": counts})


def _scaled_cells(elements: Elements, goal: Goal, total: Callable[[Floats], Floats]) -> Elements:
    """Cells with the sums of their elements; two for each that has wanted elements."""
    n, weight, size = map(elements.column, ("count", "weight", "size"))
    rate = np.broadcast_to(elements.pace, (elements.n,))
    unit = np.broadcast_to(elements.unit(goal.objective.kernel or 0), rate.shape)
    asked = np.isfinite(unit)
    mass, spent = n * size * rate, total(n * size)
    with np.errstate(all="ignore"):
        sums = (mass, n * weight, np.where(asked, n * weight / rate, 0.0), np.where(asked, mass * unit, 0.0))
        masses, weights, shares, spreads = map(total, sums)
        wanted = shares > 0
        rates = np.where(wanted, weights / shares, masses / spent)
        sizes = np.where(wanted, masses / rates, spent)
        names = [name for name in elements.columns if name in ("low", "high", "share")]
        columns = {name: total(n * size * elements.column(name)) / sizes for name in names}
        found = total(n * elements.column("change_size") * rate)
        columns["change_size"] = np.where(rates > 0, found / rates, 0.0)
    halves = _twofold(masses[wanted], weights[wanted], shares[wanted], spreads[wanted], goal)
    idle = ~wanted
    rest = {
        name: np.concatenate([column[wanted], column[wanted], column[idle]])
        for name, column in columns.items()
    }
    rest["change_size"][: 2 * int(wanted.sum())] *= 0.5
    cells = replace(
        halves,
        n=halves.n + int(idle.sum()),
        law=Poisson(np.concatenate([halves.law.rate, rates[idle]])),
        weight=np.concatenate([halves.weight, weights[idle]]),
        size=np.concatenate([halves.size, sizes[idle]]),
        **rest,
    )
    if not isinstance(elements.law, UncertainPoisson):
        return cells
    shape = _shape(elements)
    with np.errstate(all="ignore"):
        mean = total(mass * shape) / masses
        spread = np.sqrt(np.maximum(total(mass * shape * shape) / masses - mean * mean, 0.0))
    spread = np.where(spread > 1e-7 * mean, np.minimum(spread, 0.5 * mean), 0.0)
    order = np.concatenate([np.flatnonzero(wanted), np.flatnonzero(wanted), np.flatnonzero(idle)])
    most = float(shape.max())  # rounding must not lead beyond what a shape can be
    shapes = np.minimum(np.concatenate([(mean - spread)[order], (mean + spread)[order]]), most)
    twice = {name: np.tile(value, 2) for name, value in cells.columns.items() if np.ndim(value)}
    twice |= {name: 0.5 * twice[name] for name in ("weight", "size", "change_size")}
    return replace(cells, n=2 * cells.n, law=UncertainPoisson(shapes, np.tile(cells.law.rate, 2)), **twice)


def _twofold(mass: Floats, weight: Floats, share: Floats, spread: Floats, goal: Goal) -> Elements:
    """Two elements for each cell, which have the sums of its elements and the spread of their units.

    The sums are those of mass (size times rate), weight, weight/rate and mass*unit.
    """
    rate = weight / share
    base = share if goal.objective.kernel == kernels.AGE else weight
    mean = mass / base
    variance = mean * (spread / mass - mean)
    spread = np.sqrt(np.where(variance > 1e-12 * mean * mean, variance, 0.0))
    masses = np.concatenate([0.5 * base * (mean - spread), 0.5 * base * (mean + spread)])
    rates = np.tile(rate, 2)
    return Elements(
        n=rates.size,
        law=Poisson(rates),
        weight=np.tile(0.5 * weight, 2),
        size=masses / rates,
        change_size=np.asarray(0.0),
        low=np.asarray(0.0),
        high=np.asarray(np.inf),
        count=np.asarray(1.0),
    )


def _keys(columns: list[Floats], idle: NDArray[np.bool_], bits: int) -> NDArray[np.int64]:
    """One number for the exponents and leading bits of all columns."""
    key = np.zeros(idle.shape, np.int64)
    for column in columns:
        part = np.ascontiguousarray(column).view(np.int64) >> (52 - bits)
        key = (key ^ part) * np.int64(-4658895280553007687)
        key ^= key >> 31
    return np.where(idle, -1, key)
