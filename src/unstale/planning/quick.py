"""Many elements of any kind, in a few compiled passes: known and uncertain rates, bounds, other policies.

The price is searched for on samples, each eight times as large as the one before, and at last on all
elements, by Newton's method on logarithms. A last, fine pass gives each element its frequency at that price.
What these spend differs from the budget by a relative 1e-6 at most, mostly by far less, and frequencies
inside their bounds are scaled by that; the scaling costs the square of it. Where demand jumps, this way leads
to no plan, and `search` has one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from .. import kernels
from ..arguments import Floats
from ..objectives import UpdatePenalty
from ..polling import interval_moment
from ..processes import Poisson
from . import compiled_asking as compiled
from .elements import REFINE, Elements, Goal
from .lookup import lookup
from .market import Market
from .uncertain_lookup import uncertain_lookup

__all__ = ["Found", "quick_plan"]

_BLOCK = 1 << 13
_FIRST = 1 << 12
_TIMES = 8
_NEAR, _CLOSE = 1e-3, 1e-6
"""How close to the budget the last step of Newton's must begin, and the largest correction by scaling."""
_ROUGH = 0.02
"""How close it must begin on a sample, whose own error is not less."""
_STEPS = 40


class Asked(NamedTuple):
    """What elements ask for at a price, as `compiled_asking` has it."""

    spent: float
    slope: float
    free: float
    residual: float

    def __add__(self, other: Asked) -> Asked:  # type: ignore[override]
        return Asked(*(a + b for a, b in zip(self, other, strict=True)))

    def times(self, factor: float) -> Asked:
        """The same for so many times the elements."""
        return Asked(*(factor * part for part in self))


NOTHING = Asked(0.0, 0.0, 0.0, 0.0)


class Found(NamedTuple):
    """An allocation of a budget, with its price and an upper bound on what it misses."""

    frequencies: Floats
    price: float
    spent: float
    missed: float


class _Ask(Protocol):
    def __call__(self, price: float, out: Floats | None) -> Asked:
        """Return what elements ask for at a price; write their frequencies, if there is a place for them."""


def quick_plan(market: Market, budget: float, close: float = _CLOSE) -> Found | None:
    """Spend a budget; None where this way does not lead to a plan that is proven good.

    ``close`` is the largest correction by scaling.
    """
    whole = [_asking(part, market) for part in market.parts]
    if any(ask is None for ask in whole):
        return None
    price = _sampled(market, budget)
    f = np.empty(len(market))
    with np.errstate(all="ignore"):
        if price is None or (step := _searched(_sum(whole), budget, price, _NEAR)) is None:
            return None
        price = step
        for _ in range(4):
            at = _fine(market, whole, price, f)
            if not (at.slope < 0.0 and 0.0 < at.spent < np.inf):
                return None
            if abs(at.spent - budget) <= close * at.free:
                break
            price *= float(np.exp(np.clip(np.log(budget / at.spent) * at.spent / at.slope, -0.1, 0.1)))
        else:
            return None
    spent, scale = _scaled(market, f, at, budget)
    moved = scale ** (at.free / at.slope)  # of the price, by the scaling
    if not (abs(spent - budget) <= 1e-13 * budget and abs(moved - 1.0) <= 1e-3):
        return None
    # Twice the residual: for what frequencies miss at the price, and for the bound that the price gives.
    # A worth falls no faster than the third power of the frequency, so scaling misses less than four squares.
    missed = price * (2.02 * at.residual + 4.0 * (scale - 1.0) ** 2 * at.free)
    return Found(f, price * moved, spent, missed)


def _sampled(market: Market, budget: float) -> float | None:
    """The price that samples suggest, each larger than the one before."""
    price, stride = None, 1
    while len(market) // stride > _FIRST:
        stride *= _TIMES
    while stride > 1:
        parts, shares = [], []
        for part in market.parts:
            own = min(stride, max(1, part.n // 64))
            parts.append(part.take(slice(own // 2, None, own)))
            shares.append(part.n / parts[-1].n)
        sample = Market(tuple(parts), market.goal, market.asking)
        asks = [_asking(part, sample) for part in parts]
        if price is None:
            price = sample.guess(budget / (len(market) / len(sample)))
        with np.errstate(all="ignore"):
            better = _searched(_sum(asks, shares), budget, price, _ROUGH)
        price = price if better is None else better
        stride //= _TIMES
    return market.guess(budget) if price is None else price


def _sum(asks: list[_Ask | None], shares: list[float] | None = None) -> Callable[[float], Asked]:
    def ask(price: float) -> Asked:
        total = NOTHING
        for one, share in zip(asks, shares or [1.0] * len(asks), strict=True):
            assert one is not None  # noqa: S101  (for the type checker)
            total += one(price, None).times(share)
        return total

    return ask


def _searched(ask: Callable[[float], Asked], budget: float, guess: float, close: float) -> float | None:
    """The price at which the budget is spent, by steps of Newton's on logarithms inside a bracket.

    The last step is made from a price at which spending is ``close`` to the budget, relatively.
    """
    price, low, high = guess, 0.0, np.inf
    for _ in range(_STEPS):
        at = ask(price)
        if not at.spent < np.inf:
            return None
        if at.spent >= budget:
            low = price
        else:
            high = price
        step = np.nan
        if at.spent > 0.0 > at.slope:
            step = price * float(np.exp(np.clip(np.log(budget / at.spent) * at.spent / at.slope, -8.0, 8.0)))
        if abs(at.spent - budget) <= close * budget:
            return step if low < step < high or step == price else price
        if low < step < high:
            price = step
        elif low == 0.0:
            price = high / 16.0
        else:
            price = low * 16.0 if high == np.inf else float(np.sqrt(low) * np.sqrt(high))
        if not 0.0 < price < np.inf or high <= low * (1.0 + 1e-14):
            return None
    return None


def _fine(market: Market, asks: list[_Ask | None], price: float, f: Floats) -> Asked:
    total, start = NOTHING, 0
    for part, ask in zip(market.parts, asks, strict=True):
        assert ask is not None  # noqa: S101  (for the type checker)
        total += ask(price, f[start : start + part.n])
        start += part.n
    return total


def _scaled(market: Market, f: Floats, at: Asked, budget: float) -> tuple[float, float]:
    """Scale frequencies inside their bounds so that the budget is spent; return what is, and the scale."""
    scale, spent, free = 1.0, at.spent, at.free
    if all(_unbounded(part) and not part.conditional for part in market.parts):
        f *= budget / spent
        return budget, budget / spent
    for _ in range(4):
        if abs(spent - budget) <= 2e-15 * budget:
            break
        factor, scale = 1.0 + (budget - spent) / free, scale * (1.0 + (budget - spent) / free)
        spent, free, start = 0.0, 0.0, 0
        for part in market.parts:
            total, more = _scaled_part(part, market.goal, f[start : start + part.n], factor)
            spent, free, start = spent + total, free + more, start + part.n
        if any(part.conditional for part in market.parts):
            free = at.free  # changes that are found cost too
    return spent, scale


def _scaled_part(part: Elements, goal: Goal, f: Floats, factor: float) -> tuple[float, float]:
    """Scale frequencies inside their bounds; return what elements spend, and those inside."""
    spent = free = 0.0
    conditional = part.conditional
    names = ("rate", "all_change_size") if conditional else ("size", "size")
    for block, size, low, high, rate, more in _blocks(part, "all_size", "low", "high", *names):
        one, two = compiled.scale_within(f[block], size, low, high, factor)
        spent, free = spent + one, free + two
        if conditional:
            spent += compiled.changes_paid(rate, more, f[block], goal.code)
    return spent, free


def _unbounded(part: Elements) -> bool:
    return not np.any(part.low) and bool(part.high.ndim == 0 and part.high == np.inf)


def _blocks(part: Elements, *names: str) -> Iterator[tuple[Any, ...]]:
    """Go through columns in pieces that stay in the cache, as compiled code wants them."""
    size = min(_BLOCK, part.n)
    columns = []
    for name in names:
        value = _column(part, name)
        whole = np.ndim(value) == 0 or value.size == 1
        columns.append(
            (np.full(size, float(np.ravel(value)[0])) if whole else np.ascontiguousarray(value), whole)
        )
    for start in range(0, part.n, size):
        block = slice(start, min(start + size, part.n))
        yield block, *(column[: block.stop - start] if whole else column[block] for column, whole in columns)


def _column(part: Elements, name: str) -> Floats:
    """A column by its name; that of all elements of each entry together by ``all_`` and its name."""
    value: Floats = getattr(
        part.law if name in {"rate", "shape", "scale"} else part, name.removeprefix("all_")
    )
    if not name.startswith("all_") or (np.ndim(part.count) == 0 and part.count == 1.0):
        return value
    return part.count * value


# --- kinds of elements -----------------------------------------------------------------------------


def _asking(part: Elements, market: Market) -> _Ask | None:
    """What elements of this kind ask for at a price; None if it has no price."""
    goal = market.asking or market.goal
    kernel = goal.objective.kernel
    conditional = part.conditional
    if part.share is not None or (isinstance(goal.objective, UpdatePenalty) and not conditional):
        return None if conditional else _Proportional.of(part, goal)
    if (
        kernel is not None
        and isinstance(part.law, Poisson)
        and (not conditional or kernel == kernels.FRESHNESS)
    ):
        return _Known(part, goal)
    return _Uncertain(part, goal) if part.uncertain(goal) else _Other(part, goal)


@dataclass(frozen=True, eq=False)
class _Known:
    """Elements with Poisson changes."""

    part: Elements
    goal: Goal

    def __call__(self, price: float, out: Floats | None) -> Asked:
        total, fine = NOTHING, out is not None
        table = lookup(self.goal.objective.kernel or 0, self.goal.code)
        places = np.empty((4, min(_BLOCK, self.part.n)))
        names = ("rate", "weight", "size", "change_size", "low", "high", "all_size", "all_change_size")
        for block, rate, weight, size, more, low, high, sizes, mores in _blocks(self.part, *names):
            x, phi, bend, f = places[:, : rate.size]
            f = f if out is None else out[block]
            compiled.look_up_known(rate, weight, size, more, price, table, x, phi, bend)
            total += Asked(
                *compiled.settle_known(rate, sizes, mores, low, high, table, x, phi, bend, fine, f)
            )
            if self.part.conditional:
                paid = compiled.changes_paid(rate, mores, f, self.goal.code)
                total = total._replace(spent=total.spent + paid)
        return total


@dataclass(frozen=True, eq=False)
class _Uncertain:
    """Elements with uncertain rates, polled in fixed order."""

    part: Elements
    goal: Goal

    def __call__(self, price: float, out: Floats | None) -> Asked:
        total, nowhere = NOTHING, np.empty(0)
        kind = self.goal.objective.kernel or 0
        table = uncertain_lookup(kind)
        places = np.zeros((4, min(_BLOCK, self.part.n)))
        names = ("shape", "scale", "weight", "size", "low", "high", "all_size")
        for block, shape, scale, weight, size, low, high, sizes in _blocks(self.part, *names):
            level, v, bend, off = places[:, : shape.size]
            compiled.locate(shape, scale, weight, size, price, table, level, v, bend)
            if out is not None:
                REFINE[kind](shape, level, v, off)
            if kind == kernels.FRESHNESS:
                compiled.lengthen_freshness(shape, level, v, bend, off)
            target = nowhere if out is None else out[block]
            sums = compiled.settle(
                kind, shape, scale, sizes, low, high, level, v, bend, off, out is not None, target
            )
            total += Asked(*sums)
        return total


@dataclass(frozen=True, eq=False)
class _Other:
    """Elements whose intervals are searched for one by one."""

    part: Elements
    goal: Goal

    def __call__(self, price: float, out: Floats | None) -> Asked:
        total, step = NOTHING, 1e-4
        for block, part in self.part.blocks():
            f, less = (part.frequencies(self.goal, at, exact=False) for at in (price, price * (1.0 + step)))
            paid, fewer = (np.broadcast_to(part.spending(self.goal, g), f.shape) for g in (f, less))
            inside = (f > part.low) & (f < part.high)
            free = float(np.sum(paid, where=inside))
            over, short = 0.0, 0.0
            if out is not None:
                out[block] = f
                over, short, due = part.slack(self.goal, f, np.full(f.shape, price))
                over *= due
            slope = float(np.sum(fewer - paid)) / step
            total += Asked(float(np.sum(paid)), slope, free, (over + short) / price)
        return total


@dataclass(frozen=True, eq=False)
class _Proportional:
    """Elements whose frequencies are all proportional to one power of the price."""

    part: Elements
    root: Floats
    power: float

    @classmethod
    def of(cls, part: Elements, goal: Goal) -> _Proportional | None:
        """Elements that share alike, or whose missed changes count."""
        if part.share is not None:
            return cls(part, part.share, -1.0)
        exponent = getattr(getattr(goal.objective, "penalty", None), "exponent", None)
        if exponent is None:
            return None
        k = exponent + 2.0
        with np.errstate(all="ignore"):
            worth = part.weight * part.law.rate / part.size * (interval_moment(k, goal.code) / k)
            return cls(part, np.sqrt(worth) if k == 2.0 else worth ** (1.0 / k), -1.0 / k)

    def __call__(self, price: float, out: Floats | None) -> Asked:
        part = self.part
        f = np.multiply(np.broadcast_to(self.root, (part.n,)), price**self.power, out=out)
        if _unbounded(part):
            size = part.count * part.size
            spent = float(f.sum() * size) if np.ndim(size) == 0 else float(f @ size)
            return Asked(spent, self.power * spent, spent, 1e-15 * spent)
        inside = (f > part.low) & (f < part.high)
        np.clip(f, part.low, part.high, out=f)
        paid = part.count * part.size * f
        free = float(np.sum(paid, where=inside))
        return Asked(float(np.sum(paid)), self.power * free, free, 1e-15 * free)
