"""The price at which elements that give hints use up a budget, and what that buys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, log, nan

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from unstale import kernels
from unstale.arguments import Floats, numbers, scalar
from unstale.errors import InvalidInput
from unstale.objectives import Objective, objective_named
from unstale.processes import Poisson

from .hinted_changes import HintedChanges
from .hinted_costs import HintedCosts

_LOG_ODDS = -700.0, 700.0
_LEAST_JUMP_SHARE = 1e-9
"""Share of the budget by which what is spent must jump at a price to be called a jump."""
_LEVELS = 121
"""Levels of the expected cost for which it is worked out what polls are worth, over six decades of time."""


@dataclass(frozen=True, eq=False)
class HintedPlan:
    """The price at which elements that give hints use up a budget, and what that buys."""

    price: float
    """Of one unit of budget."""
    price_above: float
    """The next higher one, at which those who are just worth the price are not polled."""
    share: float
    """Of hints at which the price counts, and not the one above: 1 unless the budget ends between them."""
    frequencies: Floats
    """Polls per unit time of each element, on average: hints say when."""
    spent: float
    """Sum of size * frequency."""
    freshness: float
    """Weighted mean; nan for an objective other than freshness."""
    cost: float
    """Weighted mean cost by the objective: for freshness, the share of time spent stale."""


def plan_hinted(
    changes: HintedChanges,
    budget: float,
    *,
    weights: ArrayLike | None = None,
    sizes: ArrayLike | None = None,
    objective: str | Objective = "freshness",
) -> HintedPlan:
    """Find the price at which polling each element when its worth reaches the price uses up the budget.

    Where elements are polled for their hints alone, what is used jumps at some prices: all hints that are
    always true are worth the same. If the budget ends within such a jump, a ``share`` of these hints is acted
    on: with each hint of an element, and after each poll, toss a coin, and judge by ``price`` with the
    probability ``share`` and else by ``price_above``.

    Parameters
    ----------
    changes
        How elements change and what hints they give.
    budget
        What all polls together may cost per unit time.
    weights, sizes
        How much elements matter, and what a poll of each costs; 1 by default.
    objective
        What the budget is spent for; see `HintedCosts` for others than freshness.

    Examples
    --------
    >>> without = HintedChanges(rate=[1.0, 2.0], recall=0.0, false_alarms=0.0)
    >>> hinted = HintedChanges(rate=[1.0, 2.0], recall=0.9, false_alarms=0.1)
    >>> [round(plan_hinted(one, budget=2.0).freshness, 3) for one in (without, hinted)]
    [0.533, 0.703]
    >>> perfect = HintedChanges(rate=2.0, recall=1.0, false_alarms=0.0)
    >>> plan = plan_hinted(perfect, budget=1.5)
    >>> round(plan.share, 3), [float(perfect.due(1, price)) for price in (plan.price, plan.price_above)]
    (0.75, [0.0, inf])
    """
    amount = scalar("budget", budget, at_least=0)
    if not isinstance(changes, HintedChanges):
        raise InvalidInput(f"changes must be HintedChanges(rate, recall, false_alarms); it is {changes!r}")
    if len(changes.shape_of) > 1:
        raise InvalidInput(f"changes must have one entry for each element; its shape is {changes.shape_of}")
    count = (changes.shape_of or (1,))[0]
    weight, size = _column("weights", weights, count, at_least=0), _column("sizes", sizes, count, above=0)
    rate = np.broadcast_to(changes.rate, count)
    wanted = (weight > 0) & (rate > 0)
    with np.errstate(divide="ignore"):
        cost = np.where(wanted, size / weight, np.inf)
    if (goal := objective_named(objective)).kernel != kernels.FRESHNESS:
        return _by_costs(HintedCosts.of(changes, goal), amount, weight, size, wanted)

    def polled(price: float) -> Floats:
        return np.where(wanted, changes.frequency(price * cost), 0.0)

    def fresh(price: float) -> Floats:
        return np.where(rate > 0, changes.freshness(price * cost), 1.0)

    highest = float(np.max(1.0 / (rate[wanted] * cost[wanted]), initial=0.0))
    if highest == 0.0:
        mean = _mean(weight, fresh(1.0))
        return HintedPlan(0.0, 0.0, 1.0, np.zeros(count), 0.0, mean, 1.0 - mean)
    low, high = _prices(lambda price: float(size @ polled(price)), highest, amount)
    more, less = polled(low), polled(high)
    share, frequencies = _shared(np.broadcast_to(changes.hint_rate, count), more, less, size, amount)
    # an element that is judged by either price is fresh in proportion to its polls
    with np.errstate(invalid="ignore"):
        part = np.where(more > less, (frequencies - less) / (more - less), 0.0)
    mean = _mean(weight, fresh(high) + part * (fresh(low) - fresh(high)))
    return HintedPlan(low, high, share, frequencies, float(size @ frequencies), mean, 1.0 - mean)


def _by_costs(
    costs: HintedCosts, budget: float, weight: Floats, size: Floats, wanted: NDArray[np.bool_]
) -> HintedPlan:
    """Return the plan for an objective other than freshness, from tables of levels of the expected cost."""
    count, which = weight.size, np.flatnonzero(wanted)
    if not which.size or not budget > 0:
        raise InvalidInput(f"budget and some weights and rates must be above 0; the budget is {budget:g}")
    some = costs.take(which)
    rate = np.broadcast_to(np.asarray(costs.changes.rate, float), count)[which]
    spans = np.geomspace(1e-3, 1e3, _LEVELS)
    levels = np.stack([some.objective.cost(Poisson(rate), span / rate) for span in spans])
    worths, cycles = (
        np.stack(part) for part in zip(*(some.worth_and_cycle(one) for one in levels), strict=True)
    )
    prices = np.log(np.maximum(worths * (weight / size)[which], 1e-300))

    def at(price: float, column: Floats) -> Floats:
        rows = [np.interp(log(price), prices[:, k], np.log(column[:, k])) for k in range(which.size)]
        return np.exp(np.array(rows))

    def spent(price: float) -> float:
        return float(size[which] @ (1.0 / at(price, cycles)))

    low, high = float(prices[0].min()), float(prices[-1].max())
    price = exp(
        scipy.optimize.brentq(lambda log_price: spent(exp(log_price)) - budget, low, high, xtol=1e-10)
    )
    cycle, level = at(price, cycles), at(price, levels)
    frequencies, found = np.zeros(count), np.zeros(count)
    frequencies[which] = 1.0 / cycle
    found[which] = level - price * (size / weight)[which] / cycle
    mean = float(weight @ found / weight.sum())
    return HintedPlan(price, price, 1.0, frequencies, float(size @ frequencies), nan, mean)


def _mean(weight: Floats, fresh: Floats) -> float:
    return float(weight @ fresh / weight.sum()) if weight.any() else 1.0


def _shared(
    hint_rate: Floats, more: Floats, less: Floats, size: Floats, budget: float
) -> tuple[float, Floats]:
    """Return the share of hints to be judged by the lower of two prices, and what is polled then."""

    def polled(odds: float) -> Floats:
        """Return what is polled if so many hints are judged by the higher price for one by the lower."""
        share = 1.0 / (1.0 + odds)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            short, long = 1.0 / more, 1.0 / less
            never = short + odds / hint_rate  # hint after hint, until one is acted on
            cycle = np.where(less > 0, short + odds * share * (long - short), never)
            found = np.where(more > less, 1.0 / cycle, more)
            return np.where((hint_rate > 0) | (more == less), found, less + share * (more - less))

    def over(log_odds: float) -> float:
        return float(size @ polled(exp(log_odds))) - budget

    excess = float(size @ (more - less))
    if not excess > _LEAST_JUMP_SHARE * budget or float(size @ more) <= budget:
        return 1.0, more
    low, high = _LOG_ODDS  # by their logarithm: a share may be next to nothing, or next to all
    if over(low) <= 0.0 or over(high) >= 0.0:
        odds = exp(low if over(low) <= 0.0 else high)
    else:
        odds = exp(scipy.optimize.brentq(over, low, high, xtol=1e-13))
    return 1.0 / (1.0 + odds), polled(odds)


def _column(name: str, values: ArrayLike | None, count: int, **rules: float) -> Floats:
    column = numbers(name, 1.0 if values is None else values, **rules)  # type: ignore[arg-type]
    if column.shape not in {(), (count,)}:
        raise InvalidInput(
            f"{name} must be one number or one for each of the {count} elements; its shape is {column.shape}"
        )
    return np.array(np.broadcast_to(column, count))


def _prices(spent: Callable[[float], float], highest: float, budget: float) -> tuple[float, float]:
    """Return two prices next to each other, between which lies what is spent; it falls as the price rises."""
    high = highest * (1.0 + 1e-9)  # at which no element is polled
    low, least = high, 1e-200 * high
    while low > least and spent(low) <= budget:
        high, low = low, low * 1e-2
    if low <= least:  # an element polled for its hints alone cannot spend more
        return low, low
    root = exp(scipy.optimize.brentq(lambda log: spent(exp(log)) - budget, log(low), log(high), xtol=1e-13))
    below, above, step = root, root, 1e-15
    while spent(below) < budget:
        below, step = max(root * (1.0 - step), low), 4.0 * step
    while spent(above) > budget:
        above, step = min(root * (1.0 + step), high), 4.0 * step
    return below, above
