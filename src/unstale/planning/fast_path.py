"""The fast path: many elements of any kind, with or without groups, in a few compiled passes.

1. Samples, each sixteen times as large as the one before, suggest the price.
2. A pass over all elements says what they spend there; the price moves by a step of Newton's method on
   logarithms. Elements about to be cut off are asked anew on the way, as no slope knows them, and the last
   sample says how the slope of the others changes. So one pass is mostly enough.
3. A group that would spend more than its limit gets a price of its own, at which it meets the limit. (Small
   groups of elements with known rates and no options are sorted first, for freshness; see `grouped`.)
4. A last, fine pass gives each element its frequency at its price.
5. What these spend differs from what they may by a relative 1e-5 at most, mostly by far less, and
   frequencies inside their bounds are scaled by that; the scaling costs the square of it.

Where demand jumps at the price of all, this way leads to no plan, and `search` has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arguments import Floats
from ..processes import Poisson
from .compiled import demand as compiled
from .compiled.demand import FREE, RESIDUAL, SLOPE, SPENT
from .demand import ALONE, Codes, Demand, bounds_and_costs, columns_of, demand_of
from .grouped import LARGE_GROUP, SortedGroups
from .limits import Groups
from .market import Market

MANY_ELEMENTS = 1 << 18
"""Elements from which on a pass is dear."""
LARGEST_SCALING, CHEAP_SCALING = 1e-5, 1e-9
"""Largest relative correction by scaling, where a pass is dear and elsewhere; it costs four squares of it."""
_SMALLEST_SAMPLE, _SAMPLE_GROWTH, _LARGEST_SAMPLE = 1 << 12, 16, 1 << 17
"""Elements of the first sample, by how much samples grow, and how many are enough."""
_SAMPLE_DISTANCE, _LAST_DISTANCE, _GROUPS_DISTANCE = 0.02, 0.02, 5e-3
"""Relative distance from the budget from which the last step is made: on a sample, on all elements, and on
those of groups."""
_NEAR_LIMIT = 0.9
"""Share of its limit from which on a group may turn out to be held at it."""
_MOST_STEPS, _MOST_FINE_PASSES = 40, 8
"""Passes in search of a price, and fine ones after it."""


class Allocation(NamedTuple):
    """An allocation of a budget, with its price and an upper bound on what it misses."""

    frequencies: Floats
    price: float
    spent: float
    missed: float


@dataclass(frozen=True, eq=False)
class _Asking:
    """Elements that share a budget, and what each group of them may spend."""

    market: Market
    demands: Sequence[Demand]
    codes: Codes
    limits: Floats
    shares: Sequence[float]
    """How many elements each of a sample stands for, by parts."""

    @classmethod
    def of(cls, market: Market, codes: Codes, limits: Floats, shares: Sequence[float] = ()) -> _Asking | None:
        """What they ask for; None if some of them ask by no price."""
        goal = market.asking or market.goal
        demands = [demand for part in market.parts if (demand := demand_of(part, goal)) is not None]
        if len(demands) < len(market.parts):
            return None
        return cls(market, demands, codes, limits, shares or [1.0] * len(demands))

    def pieces(self) -> list[tuple[slice, Codes]]:
        """Where the elements of each part are, and their groups."""
        ends = np.cumsum([0, *(part.n for part in self.market.parts)])
        places = [slice(*ends[i : i + 2]) for i in range(len(self.demands))]
        return [(place, self.codes if self.codes.size == 1 else self.codes[place]) for place in places]

    def sums(self, prices: Floats, out: Floats | None = None) -> Floats:
        """What each group asks for at its price, as `compiled.demand` adds it up."""
        total = np.zeros((self.limits.size, 4))
        for demand, share, (place, codes) in zip(self.demands, self.shares, self.pieces(), strict=True):
            own = total if share == 1.0 else np.zeros(total.shape)
            demand(prices, codes, own, None if out is None else out[place])
            if share != 1.0:
                total += share * own
        return total

    def near_cutoff(self) -> _Asking:
        """The elements that the last price cut off, or nearly did; all are in one group."""
        kept = [i for i, demand in enumerate(self.demands) if demand.near.size]
        parts = tuple(self.market.parts[i].take(self.demands[i].near) for i in kept)
        shares = [self.shares[i] for i in kept]
        some = _Asking.of(replace(self.market, parts=parts), self.codes, self.limits, shares)
        assert some is not None  # noqa: S101  (for the type checker)
        return some

    def members(self, groups: NDArray[np.intp]) -> NDArray[np.intp]:
        """Places of the elements of these groups."""
        chosen = np.zeros(self.limits.size, np.bool_)
        chosen[groups] = True
        return np.flatnonzero(chosen[self.codes])

    def some_groups(self, groups: NDArray[np.intp]) -> _Asking:
        """The elements of these groups alone."""
        index, number = self.members(groups), np.zeros(self.limits.size, np.int64)
        number[groups] = np.arange(groups.size)
        parts = []
        for part, (place, _) in zip(self.market.parts, self.pieces(), strict=True):
            first, last = np.searchsorted(index, [place.start, place.stop])
            parts.append(part.take(index[first:last] - place.start))
        market = replace(self.market, parts=tuple(parts))
        some = _Asking.of(market, number[self.codes[index]], self.limits[groups])
        assert some is not None  # noqa: S101  (for the type checker)
        return some


def fast_plan(
    market: Market, budget: float, groups: Groups | None = None, scaling: float | None = None
) -> Allocation | None:
    """Spend a budget; None where this way does not lead to a plan that is proven good.

    ``scaling`` is the largest relative correction by scaling, if not the usual one.
    """
    codes, limits = (ALONE, np.array([np.inf])) if groups is None else (groups.codes, groups.limits)
    if not (limits > 0.0).all() or not 0.0 < budget < limits.sum():
        return None
    asking = _Asking.of(market, codes, limits)
    if asking is None:
        return None
    if scaling is None:
        dear = len(market) >= MANY_ELEMENTS or any(demand.dear for demand in asking.demands)
        scaling = LARGEST_SCALING if dear else CHEAP_SCALING
    with np.errstate(all="ignore"):
        if (quick := _sorted(asking, budget, scaling)) is not None:
            return quick
        guess, sample = _sampled(asking, budget)
        close = _LAST_DISTANCE if groups is None else _GROUPS_DISTANCE
        found = _searched(asking, budget, guess, close, sample)
        return None if found is None else _allocated(asking, budget, *found, scaling)


# --- the price of all --------------------------------------------------------------------------------


def _sampled(asking: _Asking, budget: float) -> tuple[float, _Asking | None]:
    """The price that samples suggest, each larger than the one before; and the last of them."""
    market, price, sample = asking.market, None, None
    strides = [max(_SAMPLE_GROWTH, len(market) // _LARGEST_SAMPLE)]
    # a sample of groups has to be looked for among all elements, so there is one
    while asking.codes.size == 1 and len(market) // strides[0] > _SMALLEST_SAMPLE:
        strides.insert(0, strides[0] * _SAMPLE_GROWTH)
    for stride in strides if len(market) > _SMALLEST_SAMPLE * _SAMPLE_GROWTH else []:
        sample = _sample(asking, stride)
        if sample is None:
            continue
        if price is None:
            price = sample.market.guess(budget * len(sample.market) / len(market))
        better = _searched(sample, budget, price, _SAMPLE_DISTANCE)
        price = price if better is None else better[0]
    return (market.guess(budget) if price is None else price), sample


def _sample(asking: _Asking, stride: int) -> _Asking | None:
    """Some of the elements of each group, with all of its limit; or the first groups, if these are small."""
    market, count = asking.market, asking.limits.size
    if asking.codes.size > 1 and count * LARGE_GROUP > len(market):
        some = asking.some_groups(np.arange(max(1, count // stride)))
        if not all(part.n for part in some.market.parts):
            return None
        shares = [whole.n / part.n for whole, part in zip(market.parts, some.market.parts, strict=True)]
        return replace(some, shares=shares, limits=some.limits * (count / some.limits.size))
    parts, shares, codes = [], [], []
    for part, (place, _) in zip(market.parts, asking.pieces(), strict=True):
        own = min(stride, max(1, part.n // 64))
        parts.append(part.take(slice(own // 2, None, own)))
        shares.append(part.n / parts[-1].n)
        codes.append(asking.codes[place][own // 2 :: own])
    numbers = asking.codes if asking.codes.size == 1 else np.concatenate(codes)
    return _Asking.of(replace(market, parts=tuple(parts)), numbers, asking.limits, shares)


def _searched(
    asking: _Asking, budget: float, guess: float, close: float, sample: _Asking | None = None
) -> tuple[float, float, Floats] | None:
    """The price at which the budget is spent, by steps of Newton's on logarithms inside a bracket.

    The last step is made from a price at which spending is ``close`` to the budget, relatively; a sample says
    how the slope changes on the way. Returns the price after it, the price before it, and the sums there.
    """
    price, low, high = guess, 0.0, np.inf
    for _ in range(_MOST_STEPS):
        sums = asking.sums(np.full(asking.limits.size, price))
        held = sums[:, SPENT] > asking.limits
        room = budget - float(asking.limits[held].sum())
        free, slope = (float(sums[~held, k].sum()) for k in (SPENT, SLOPE))
        if not free < np.inf:
            return None
        if free >= room:
            low = price
        else:
            high = price
        step = np.nan
        if free > 0.0 > slope:
            more = np.log(max(room, 1e-3 * free) / free) * free / slope
            step = price * float(np.exp(np.clip(more, -8.0, 8.0)))
        if abs(free - room) <= close * free:
            if sample is not None and asking.codes.size == 1 and 0.0 < step < np.inf:
                step = _improved(asking, sample, price, step, sums, room)
            return (step if low < step < high or step == price else price), price, sums
        if low < step < high:
            price = step
        elif low == 0.0:
            price = high / 16.0
        else:
            price = low * 16.0 if high == np.inf else float(np.sqrt(low) * np.sqrt(high))
        if not 0.0 < price < np.inf or high <= low * (1.0 + 1e-14):
            return None
    return None


def _improved(
    asking: _Asking, sample: _Asking, price: float, step: float, sums: Floats, budget: float
) -> float:
    """A better step from a price where the sums are known.

    Elements that are about to be cut off are asked anew; a sample says how the slope of the others changes.
    """
    near, before = asking.near_cutoff(), np.array([price])
    spent, slope, _, _ = (sums - near.sums(before))[0]
    at = sample.sums(before)
    few = sample.near_cutoff()
    there = np.array([step])
    at, later = at - few.sums(before), sample.sums(there) - few.sums(there)
    power, change = slope / spent, (later[0, SLOPE] / later[0, SPENT] - at[0, SLOPE] / at[0, SPENT])
    change /= np.log(step / price)
    for _ in range(4):
        asked, steep, _, _ = near.sums(np.array([step]))[0]
        far = np.log(step / price)
        others = spent * np.exp(far * (power + 0.5 * far * change))
        step *= np.exp((budget - others - asked) / (steep + others * (power + far * change)))
    return float(step)


# --- the prices of groups ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _GroupPrices:
    """The prices of groups. Some are held at their limits; where demand jumps there, it is a mix of two."""

    held: NDArray[np.bool_]
    prices: Floats
    unders: Floats
    mixes: Floats
    """Share of the lower price, where there are two; a fine pass finds it."""
    slopes: Floats
    """Of what groups that are held spend, by the logarithm of the price, roughly."""

    @classmethod
    def of(cls, count: int, price: float) -> _GroupPrices:
        """No group is held yet."""
        prices = np.full(count, price)
        return cls(np.zeros(count, np.bool_), prices, prices.copy(), np.zeros(count), np.zeros(count))

    def hold(
        self,
        asking: _Asking,
        groups: NDArray[np.intp],
        price: float,
        start: float,
        at: Floats,
        close: float,
    ) -> None:
        """Find the prices at which these groups meet their limits; hold those above the price of all.

        The search begins at a price where the sums of the groups are known, and ends ``close`` to limits.
        """
        limits = asking.limits[groups]
        own, bounds = np.full(groups.size, start), np.tile([0.0, np.inf], (groups.size, 1))
        state = np.zeros(groups.size, np.int64)
        part, places = asking, np.arange(groups.size)  # what is searched for still: its elements, its groups
        numbers = groups  # of these groups in `part`
        for _ in range(4 * _MOST_STEPS):
            own_prices, edges, done = own[places], bounds[places], state[places]
            self.slopes[groups[places]] = at[:, SLOPE]
            compiled.step_prices(at, limits[places], own_prices, edges, close, done)
            own[places], bounds[places], state[places] = own_prices, edges, done
            left = done == 0
            if not left.any():
                break
            places, numbers = places[left], numbers[left]
            if 2 * numbers.size < part.limits.size:
                part, numbers = part.some_groups(numbers), np.arange(numbers.size)
            prices = np.full(part.limits.size, price)
            prices[numbers] = own[places]
            at = part.sums(prices)[numbers]
        jump = (state == 2) & (own > price)
        self.held[groups] = own > price
        self.prices[groups] = np.maximum(own, price)
        self.unders[groups] = np.where(jump, bounds[:, 0], np.maximum(own, price))
        self.mixes[groups] = jump

    def mix_anew(self, jump: NDArray[np.intp], limits: Floats, less: Floats, more: Floats) -> Floats:
        """How to mix two prices of groups, as a fine pass sees it: where it sees no jump, not at all."""
        mix = (limits - less) / (more - less)
        self.mixes[jump] = np.where((mix > 0.0) & (mix <= 1.0), mix, 0.0)
        return self.mixes[jump]

    def improve(self, at: Floats, limits: Floats, close: float) -> bool:
        """Step the prices of held groups that a fine pass finds farther from their limits than ``close``.

        They were found by rough passes. Returns whether there are any.
        """
        spent = at[:, SPENT]
        far = self.held & (self.mixes == 0.0) & (self.slopes < 0.0)
        far &= np.abs(spent - limits) > np.maximum(close * at[:, FREE], 1e-15 * limits)
        step = np.log(limits / spent) * spent / self.slopes
        self.prices[far] *= np.exp(np.clip(step, -0.1, 0.1))[far]
        self.unders[far] = self.prices[far]
        return bool(far.any())


# --- the allocation ----------------------------------------------------------------------------------


def _allocated(
    asking: _Asking, budget: float, price: float, before: float, sums: Floats, scaling: float
) -> Allocation | None:
    """Frequencies at these prices, scaled to what may be spent."""
    f, limits = np.empty(len(asking.market)), asking.limits
    groups = _GroupPrices.of(limits.size, price)
    first, slope = sums[:, SPENT], sums[:, SLOPE]
    expected = first * (price / before) ** (slope / np.where(first > 0.0, first, np.inf))
    near = np.flatnonzero(expected > _NEAR_LIMIT * limits)
    if near.size:
        groups.hold(asking, near, price, before, np.ascontiguousarray(sums[near]), scaling)
    held, last = groups.held, None
    power = float(sums[~held, SLOPE].sum() / sums[~held, FREE].sum())
    for tries in range(_MOST_FINE_PASSES):
        at = _fine(asking, groups, f)
        crossed = np.flatnonzero(~held & (at[:, SPENT] > limits * (1.0 + 2.0 * scaling)))
        if crossed.size:
            part = asking.some_groups(crossed)
            at_price = part.sums(np.full(crossed.size, price))
            groups.hold(asking, crossed, price, price, at_price, scaling)
            continue
        room = budget - float(limits[held].sum())
        spent, free = (float(at[~held, k].sum()) for k in (SPENT, FREE))
        if not (power < 0.0 and 0.0 < spent < np.inf):
            return None
        met = abs(spent - room) <= scaling * free
        improved = tries + 1 < _MOST_FINE_PASSES and groups.improve(at, limits, scaling)
        if met and not improved:
            break
        if met:
            continue
        if last is not None:  # two passes tell the slope better than one, where elements are cut off
            secant = np.log(spent / last[1]) * spent / (np.log(price / last[0]) * free)
            power = float(secant) if 2.0 * power < secant < 0.5 * power else power
        last = price, spent
        price *= float(np.exp(np.clip(np.log(room / spent) * spent / (power * free), -0.1, 0.1)))
        groups.prices[~held] = groups.unders[~held] = price
    else:
        return None
    scaled = _scaled(asking, f, at, groups, budget)
    if scaled is None:
        return None
    total, factors, free_factor = scaled
    moved = free_factor ** (1.0 / power)  # of the price, by the scaling
    most = _missed(groups.prices, at, factors, moved, 1e-3 if scaling >= CHEAP_SCALING else 10.0 * scaling)
    if most is None or not abs(total - budget) <= 1e-13 * budget:
        return None
    return Allocation(f, price * moved, total, most)


def _sorted(asking: _Asking, budget: float, scaling: float) -> Allocation | None:
    """Likewise for many small groups of elements without options; None where that leads to no plan."""
    if asking.codes.size == 1 or len(asking.demands) > 1:
        return None
    sorted_ = SortedGroups.of(asking.demands[0], asking.codes, asking.limits)
    found = None if sorted_ is None else sorted_.settled(budget, scaling)
    if sorted_ is None or found is None:
        return None
    factors, common, residual, squares, paid, worst = sorted_.factors(found, budget)
    moved = common ** (1.0 / found.power)
    most = 2.02 * residual + 4.0 * squares
    if not _good_enough(most, paid, moved) or worst > 1e-3:
        return None
    return Allocation(sorted_.frequencies(found.paid, factors), found.price * moved, budget, most)


def _missed(prices: Floats, at: Floats, factors: Floats, moved: float, most_scaled: float) -> float | None:
    """An upper bound on what frequencies at these prices miss after scaling; None if that is too much."""
    missed = prices * (2.02 * at[:, RESIDUAL] + 4.0 * (factors - 1.0) ** 2 * at[:, FREE])
    # Twice the residual: for what frequencies miss at the price, and for the bound that the price gives.
    # A worth falls no faster than the third power of the frequency, so scaling misses less than four squares.
    most, paid = float(missed.sum()), float(prices @ at[:, SPENT])
    worst = float(np.abs(factors - 1.0).max(initial=0.0, where=at[:, FREE] > 0.0))
    good = _good_enough(most, paid, moved) and (prices.size == 1 or worst <= most_scaled)
    return most if good else None


def _good_enough(most: float, paid: float, moved: float) -> bool:
    """Whether so little is missed of what is paid, and the price was moved by so little."""
    return abs(moved - 1.0) <= 1e-3 and most <= 1e-9 * paid


def _fine(asking: _Asking, groups: _GroupPrices, f: Floats) -> Floats:
    """Write frequencies; return what groups spend. Where demand jumps, it is mixed."""
    at = asking.sums(groups.prices, f)
    jump = np.flatnonzero(groups.mixes)
    if not jump.size:
        return at
    index = asking.members(jump)
    part, more = asking.some_groups(jump), np.empty(index.size)
    under = part.sums(groups.unders[jump], more)
    mix = groups.mix_anew(jump, asking.limits[jump], at[jump, SPENT], under[:, SPENT])
    f[index] += groups.mixes[asking.codes[index]] * (more - f[index])
    at[jump, SPENT] += mix * (under[:, SPENT] - at[jump, SPENT])
    at[jump, FREE] = np.maximum(at[jump, FREE], under[:, FREE])
    at[jump, RESIDUAL] += under[:, RESIDUAL] + 1e-10 * under[:, SPENT]
    return at


def _left(
    spent: Floats, free: Floats, limits: Floats, held: NDArray[np.bool_], budget: float
) -> tuple[Floats, float, NDArray[np.bool_]]:
    """What each group is to spend more, the relative change of those that no limit holds, and the others.

    A group that scaling would lead beyond its limit is held there.
    """
    while True:
        room = budget - np.where(held, limits, spent).sum()
        common = float(room / np.where(held, 0.0, free).sum())
        crossed = ~held & (spent + common * free > limits)
        if not crossed.any():
            return np.where(held, limits - spent, common * free), common, held
        held = held | crossed


def _scaled(
    asking: _Asking, f: Floats, at: Floats, groups: _GroupPrices, budget: float
) -> tuple[float, Floats, float] | None:
    """Scale frequencies inside their bounds so that limits and budget are met.

    Returns what is spent, by how much each group was scaled, and by how much those that no limit holds.
    """
    parts, limits, held = asking.market.parts, asking.limits, groups.held
    bowed = not groups.mixes.any() and all(demand.bowed for demand in asking.demands)
    conditional = any(part.conditional for part in parts)
    bounded = any(part.bounded for part in parts)
    simple = not bounded and (not conditional or bowed)
    spent = at[:, SPENT].copy()
    free = spent if simple and not conditional else at[:, FREE].copy()
    total_factors, free_factor = np.ones(limits.size), 1.0
    for _ in range(6):
        off, common, held = _left(spent, free, limits, held, budget)
        if float(np.abs(off).sum()) <= 2e-15 * budget and (limits.size == 1 or (off >= -1e-14 * spent).all()):
            break
        factors = np.where(free > 0.0, 1.0 + off / np.where(free > 0.0, free, 1.0), 1.0)
        total_factors *= factors
        free_factor *= 1.0 + common
        if simple:
            if conditional:  # found changes cost less than proportionally
                factors -= np.where(free > 0.0, 0.5 * at[:, SLOPE] / free, 0.0) * (factors - 1.0) ** 2
            f *= factors if factors.size == 1 else factors[asking.codes]
            return budget, factors, free_factor
        sums = np.zeros(at.shape)
        for part, (place, codes) in zip(parts, asking.pieces(), strict=True):
            own = f[place]
            compiled.scale_within(own, bounds_and_costs(part), factors, codes, sums)
            if part.conditional and isinstance(part.law, Poisson):
                columns = columns_of(part, "rate", "change_size", "count")
                compiled.changes_paid(own, columns, codes, asking.market.goal.code, sums)
            elif part.conditional:
                more = part.spending(asking.market.goal, own) - part.count * part.size * own
                sums[:, SPENT] += np.bincount(np.broadcast_to(codes, own.shape), more, limits.size)
        spent = sums[:, SPENT]
        free = at[:, FREE] if conditional else sums[:, FREE]  # changes that are found cost too
    return float(spent.sum()), total_factors, free_factor
