"""Spending a budget: the price at which the polls add up to it, and the allocation that follows.

An element is polled when its worth reaches the price, so its frequency is one over the interval at which a
poll is worth the price. The polls that all elements ask for fall as the price rises; the price of the plan is
where they meet the budget. Policies other than the optimal one differ only in what elements ask for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, cast, overload

import numpy as np

from ..arguments import Floats, Order, choice, scalar
from ..errors import InvalidInput, NoAnswer
from ..objectives import Objective, objective_named
from ..processes import Process
from .elements import EXACTLY_SOLVED_ELEMENTS, Elements, Goal
from .fast_path import fast_plan
from .limits import check_limits, limited
from .market import Market, check_weight, mixed
from .partitions import Partitioning, partitioned
from .problem import Problem
from .search import Clearing, meet
from .summary import Outlook, Summary, summarise

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ..operational_time import OperationalClock
    from .by_rhythm import RhythmPlan

    Limits = Mapping[object, float] | ArrayLike
    Rates = ArrayLike | Process | Sequence[Process]

Policy = Literal["optimal", "uniform", "proportional", "random-optimal", "square-root"]
FEW_SCALING_RELATIVE = 1e-11
"""Largest relative correction by scaling where the elements are few, and every digit counts."""
POLICIES = ("uniform", "proportional", "square-root", "random-optimal", "optimal")


class Curve(NamedTuple):
    """What budgets buy: one entry for each."""

    budgets: Floats
    prices: Floats
    costs: Floats
    freshness: Floats
    age: Floats


@dataclass(frozen=True, eq=False)
class Plan:
    """An allocation, with what it costs and what it buys."""

    frequencies: Floats
    """Polls per unit time, in the order of the input."""
    price: float
    """Worth of one more unit of budget: by how much the sum of weight times cost would fall.

    Divided by the sum of the weights, it is by how much `cost` would fall. Other policies have nan.
    """
    spent: float
    budget: float
    policy: Policy | Partitioning
    problem: Problem = field(repr=False)
    _missed: float | None = field(default=None, repr=False)
    _summary: Summary | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Protect the allocation, to which the rest belongs."""
        self.frequencies.setflags(write=False)

    @cached_property
    def freshness(self) -> float:
        """Weighted mean freshness."""
        return self.problem.market.freshness(self.problem.sorted(self.frequencies))

    @cached_property
    def age(self) -> float:
        """Weighted mean age."""
        return self._cost("age")

    @cached_property
    def cost(self) -> float:
        """Weighted mean cost by the plan's objective: for freshness, the share of time spent stale."""
        return self._cost(None)

    def _cost(self, measure: str | None) -> float:
        return self.problem.market.cost(self.problem.sorted(self.frequencies), measure)

    @cached_property
    def gap(self) -> float:
        """Upper bound on how far `cost` is from that of the best plan (0: proven optimal).

        By weak duality: at any price, no plan can cost less than one in which every element gets what it asks
        for at that price. So the bound follows from how far the worths of these frequencies are from it.
        """
        if self._missed is not None:
            return self._missed
        best = _solve(self.problem, self.budget, "optimal")
        return max(0.0, self.cost - best.cost) + best.gap if best.cost < np.inf else 0.0

    @cached_property
    def summary(self) -> Summary:
        """A few thousand cells that ask for what the elements ask for, at any price."""
        if self._summary is not None:
            return self._summary
        return _summary(_demand(self.problem, self.policy)[0])

    def outlook(self, budget: float) -> Outlook:
        """Say what another budget would buy, in milliseconds, without going through the elements.

        Beyond 8192 elements (32768 with uncertain rates) the answer comes from a summary: the cost is good to
        1e-6 (1e-5), the price to 1e-3.

        >>> plan([1, 2, 3, 4, 5], 5).outlook(10).freshness
        0.55
        """
        total = scalar("budget", budget, at_least=0)
        if isinstance(self.policy, Partitioning):  # a heuristic has no demand to sum up: it plans anew
            other = _partitioned(self.problem, total, self.policy)
            return Outlook(total, np.nan, other.cost, other.freshness, other.age)
        found = self.summary.outlook(total)
        return found if self.policy == "optimal" else replace(found, price=np.nan)

    def curve(self, budgets: ArrayLike | None = None) -> Curve:
        """What other budgets would buy; without any, 33 from a thousandth to a thousand times the plan's.

        Budgets start where ``min_frequency`` can be paid for.
        """
        if budgets is None:
            least = 0.0 if isinstance(self.policy, Partitioning) else self.summary.cells.least
            budgets = np.maximum(self.budget * np.geomspace(1e-3, 1e3, 33), least)
        rows = [self.outlook(budget) for budget in np.atleast_1d(np.asarray(budgets))]
        columns = np.array([[row.budget, row.price, row.cost, row.freshness, row.age] for row in rows])
        return Curve(*columns.reshape(-1, 5).T)


@overload
def plan(
    rates: Rates,
    budget: float,
    *,
    weights: ArrayLike | None = ...,
    sizes: ArrayLike | None = ...,
    change_sizes: ArrayLike | None = ...,
    objective: str | Objective = ...,
    policy: Policy | Partitioning = ...,
    order: Order = ...,
    groups: ArrayLike | None = ...,
    limits: Limits | None = ...,
    min_frequency: ArrayLike = ...,
    max_frequency: ArrayLike = ...,
    rhythm: None = ...,
) -> Plan: ...


@overload
def plan(
    rates: Rates,
    budget: float,
    *,
    weights: ArrayLike | None = ...,
    sizes: ArrayLike | None = ...,
    objective: str | Objective = ...,
    rhythm: OperationalClock,
) -> RhythmPlan: ...


def plan(
    rates: Rates,
    budget: float,
    *,
    weights: ArrayLike | None = None,
    sizes: ArrayLike | None = None,
    change_sizes: ArrayLike | None = None,
    objective: str | Objective = "freshness",
    policy: Policy | Partitioning = "optimal",
    order: Order = "fixed",
    groups: ArrayLike | None = None,
    limits: Limits | None = None,
    min_frequency: ArrayLike = 0.0,
    max_frequency: ArrayLike = np.inf,
    rhythm: OperationalClock | None = None,
) -> Plan | RhythmPlan:
    """Divide a budget among elements: how often to poll each, so that the objective is best.

    Parameters
    ----------
    rates
        Changes per unit time of each element; or how they change: a process for all of them, or a list of
        processes, one for each. An uncertain rate is a process too (`UncertainPoisson`).
    budget
        What may be spent per unit time: polls, or whatever ``sizes`` are in.
    weights
        How much the freshness of each element matters; 1 by default.
    sizes
        What one poll costs; 1 by default.
    change_sizes
        What a poll costs more if the element has changed (a conditional request); 0 by default.
    objective
        ``"freshness"``, ``"age"``, ``"missed-updates"``, ``"harmonic"`` or an `Objective`.
    policy
        ``"optimal"``, ``"uniform"``, ``"proportional"`` (to the change rates), ``"square-root"`` (of weight
        times rate over size; Li et al. 2015, eq. 28), ``"random-optimal"`` (best for polls at random times;
        Azar et al. 2018, Algorithm 2) or a `Partitioning` (Carney et al. 2003).
    order
        ``"fixed"``, ``"random"`` or ``"purely-random"`` times of the polls.
    groups, limits
        A label for each element, and what each group may spend: a mapping from label to limit (no entry: no
        limit), or an array that whole-numbered labels index.
    min_frequency, max_frequency
        Bounds on the frequencies, for all or for each.
    rhythm
        How fast changes come at what time of a day or a week, the same for all elements: an
        `OperationalClock`. Polls then come after the rush, and the plan is a `RhythmPlan`. It takes weights,
        sizes and the objectives "freshness" and "age".

    The budget is spent to the last digit wherever bounds and limits leave room for it.

    >>> plan([1, 2, 3, 4, 5], 5).frequencies.round(2).tolist()    # Cho & Garcia-Molina 2000, Table 5
    [1.15, 1.36, 1.35, 1.14, 0.0]
    """
    if rhythm is not None:
        _check_rhythm_alone(
            change_sizes=change_sizes is None,
            policy=policy == "optimal",
            order=order == "fixed",
            groups=groups is None,
            limits=limits is None,
            min_frequency=not np.any(min_frequency),
            max_frequency=bool(np.all(np.isinf(np.asarray(max_frequency, float)))),
        )
        from .by_rhythm import plan_by_rhythm

        law = cast("Process | ArrayLike", rates)
        return plan_by_rhythm(law, budget, rhythm, weights=weights, sizes=sizes, objective=objective)
    total = scalar("budget", budget, at_least=0)
    if not isinstance(policy, Partitioning):
        choice("policy", policy, POLICIES)
    problem = Problem.of(
        rates,
        weights=weights,
        sizes=sizes,
        change_sizes=change_sizes,
        goal=Goal(objective_named(objective), order),
        groups=groups,
        limits=limits,
        min_frequency=min_frequency,
        max_frequency=max_frequency,
    )
    return _solve(problem, total, policy)


def _check_rhythm_alone(**unset: bool) -> None:
    """Insist that options are not set that plans by a rhythm do not know."""
    for name, as_ever in unset.items():
        if not as_ever:
            raise InvalidInput(f"{name} cannot be combined with a rhythm; leave one of them out")


def _solve(problem: Problem, budget: float, policy: Policy | Partitioning) -> Plan:
    problem.check()
    check_weight(problem.weight)
    if isinstance(policy, Partitioning):
        return _partitioned(problem, budget, policy)
    if (found := _fast(problem, budget, policy)) is not None:
        return found
    demand, prices = _demand(problem, policy)
    demand.check_budget(budget)
    summary = _summary(demand)
    guess = None
    if len(demand) > EXACTLY_SOLVED_ELEMENTS:
        price = summary.cells.clear(budget, rough=True).under
        guess = price if 0.0 < price < np.inf else None
    clearing = demand.clear(budget, guess)
    f = _filled(problem, demand, _mixed(demand, clearing, budget), budget)
    if not np.isfinite(f).all():
        rate = demand.column("rate")
        raise NoAnswer(
            f"rates from {rate.min():g} to {rate.max():g}, with such weights and sizes, are too far apart "
            f"for a budget of {budget:g}; leave out elements that hardly change"
        )
    spent = problem.market.spent(f)
    if (
        not any(part.bounded or part.conditional for part in demand.parts)
        and abs(spent - budget) < 1e-9 * budget
    ):
        f, spent = f * (budget / spent), budget  # the last digits
    if policy != "optimal":
        return Plan(problem.unsorted(f), np.nan, spent, budget, policy, problem, None, summary)
    price, missed = clearing.under, 0.0
    if price == np.inf:  # the budget buys nothing: the price is what the first poll of all would be worth
        price = problem.market.first_worth(f)
    else:
        missed = _missed(problem, f, price, prices, budget - spent) / problem.weight
    return Plan(problem.unsorted(f), price, spent, budget, policy, problem, missed, summary)


def _fast(problem: Problem, budget: float, policy: Policy) -> Plan | None:
    """The fast path, for many elements, or for some whose intervals must be searched for."""
    market = _asking(problem, policy)
    goal = market.asking or market.goal
    few = problem.n <= EXACTLY_SOLVED_ELEMENTS
    if few and not any(part.searched(goal) for part in market.parts):
        return None
    if problem.groups is not None:
        check_limits(market, problem.groups)
    market.check_budget(budget)
    if not market.least < budget or (any(part.bounded for part in market.parts) and budget >= market.most):
        return None
    got = fast_plan(market, budget, problem.groups, FEW_SCALING_RELATIVE if few else None)
    if got is None:
        return None
    f, price, missed = problem.unsorted(got.frequencies), np.nan, None
    if policy == "optimal":
        price, missed = got.price, got.missed / problem.weight
    return Plan(f, price, got.spent, budget, policy, problem, missed)


def _demand(problem: Problem, policy: Policy | Partitioning) -> tuple[Market, Floats | None]:
    """What elements ask for under a policy, within bounds and limits; and the prices of the groups."""
    market = _asking(problem, policy)
    if problem.groups is None:
        return market, None
    guess = market.guess(float(np.minimum(problem.groups.limits, 1e300).sum()) or 1.0)
    return limited(market, problem.groups, guess)


def _asking(problem: Problem, policy: Policy | Partitioning) -> Market:
    """What elements ask for under a policy, within bounds."""
    market = problem.market
    if policy == "random-optimal":
        market = replace(market, asking=Goal(objective_named("freshness"), "purely-random"))
    elif policy != "optimal":
        parts = tuple(replace(part, share=_share(part, policy)) for part in market.parts)
        if not any(np.any(part.share) for part in parts):
            raise InvalidInput(f"rates must not all be 0 for the {policy} policy; use policy='uniform'")
        market = replace(market, parts=parts)
    return market


def _share(part: Elements, policy: Policy | Partitioning) -> Floats:
    if policy == "uniform":
        return np.ones(part.n)
    share = part.column("rate")
    if policy == "square-root":
        share = np.sqrt(share) * np.sqrt(part.weight / part.size)
    return share


def _summary(demand: Market) -> Summary:
    goal = demand.asking or demand.goal
    few = (
        4 * EXACTLY_SOLVED_ELEMENTS
        if any(part.uncertain(goal) for part in demand.parts)
        else EXACTLY_SOLVED_ELEMENTS
    )  # cells would be as many
    return Summary(demand) if len(demand) <= few else summarise(demand)


def _mixed(demand: Market, clearing: Clearing, budget: float) -> Floats:
    """The allocation at a price; where two prices are mixed, so that the budget is spent exactly."""
    f = demand.at(clearing)
    if clearing.under == clearing.over or not any(part.conditional for part in demand.parts):
        return f
    # found changes cost less than proportionally to the frequency, so the mix has to be searched for
    more, less = demand.frequencies(clearing.under), demand.frequencies(clearing.over)
    low, high = 0.0, 1.0
    for _ in range(60):
        mix = 0.5 * (low + high)
        low, high = (low, mix) if demand.spent(mixed(more, less, mix)) > budget else (mix, high)
    return mixed(more, less, low)


def _filled(problem: Problem, demand: Market, f: Floats, budget: float) -> Floats:
    """Share what is left among elements that no poll helps any more, for want of anything better to do."""
    if not demand.most <= budget or demand.spent(f) >= budget * (1.0 - 1e-12):
        return f
    rest = problem.market.spare(f)
    if problem.groups is not None:
        rest, _ = limited(rest, problem.groups, 1.0)
    return rest.at(rest.clear(budget))


def _missed(problem: Problem, f: Floats, price: float, groups: Floats | None, left: float) -> float:
    """Upper bound on the total cost that a better plan could save (see `Plan.gap`)."""
    market = problem.market
    each = np.full(f.shape, price)
    unspent = price * max(left, 0.0) if price > 0 else 0.0
    if groups is not None and problem.groups is not None:
        if np.isinf(groups).any():  # at its lower bounds already: what more room would be worth
            ratios = np.concatenate([part.ratios(market.goal, g) for part, g in market.split(f)])
            best = np.zeros(groups.shape)
            np.maximum.at(best, problem.groups.codes, ratios)
            groups = np.where(np.isinf(groups), best, groups)
        each = np.maximum(each, groups[problem.groups.codes])
        room = problem.groups.limits - problem.groups.spent(market.spending(f))
        with np.errstate(invalid="ignore"):
            extra = np.maximum(groups - price, 0.0) * np.maximum(room, 0.0)
        unspent += float(extra[np.isfinite(extra)].sum())
    over, short, paid = market.slack(f, each)
    return (1.0 + over) * unspent + short + over * paid


def _partitioned(problem: Problem, budget: float, policy: Partitioning) -> Plan:
    f = partitioned(policy, *problem.simple("a partitioning"), budget, _reduced)
    spent = problem.market.spent(f)
    return Plan(f, np.nan, spent, budget, policy, problem)


def _reduced(rates: Floats, weights: Floats, sizes: Floats, budget: float, counts: Floats) -> Floats:
    """Solve the reduced problem of a partitioning exactly."""
    problem = Problem.of(
        rates, weights=weights, sizes=sizes, goal=Goal(objective_named("freshness"), "fixed")
    )
    market = problem.market
    market = replace(market, parts=(replace(market.parts[0], count=counts),))
    return market.at(market.clear(budget))


def budget_for(
    rates: Rates,
    *,
    freshness: float | None = None,
    age: float | None = None,
    weights: ArrayLike | None = None,
    sizes: ArrayLike | None = None,
    change_sizes: ArrayLike | None = None,
    objective: str | Objective | None = None,
    policy: Policy = "optimal",
    order: Order = "fixed",
    groups: ArrayLike | None = None,
    limits: Limits | None = None,
    min_frequency: ArrayLike = 0.0,
    max_frequency: ArrayLike = np.inf,
) -> float:
    """Return the smallest budget that buys this weighted mean freshness, or this mean age.

    Parameters
    ----------
    rates
        Change rates, or laws, of the elements, as `plan` takes them.
    freshness, age
        The weighted mean that is wanted; one of the two.
    objective
        What the budget is spent for; by default what is asked for.
    weights, sizes, change_sizes, policy, order, groups, limits, min_frequency, max_frequency
        As in `plan`.

    >>> round(budget_for([1, 2, 3, 4, 5], freshness=0.8), 3)
    29.917
    """
    if (freshness is None) == (age is None):
        raise InvalidInput(f"give either freshness or age; freshness is {freshness!r}, age is {age!r}")
    measure = "freshness" if age is None else "age"
    if age is None:
        target = 1.0 - scalar("freshness", freshness, at_least=0, below=1)  # type: ignore[arg-type]
    else:
        target = scalar("age", age, above=0)
    choice("policy", policy, POLICIES)
    problem = Problem.of(
        rates,
        weights=weights,
        sizes=sizes,
        change_sizes=change_sizes,
        goal=Goal(objective_named(measure if objective is None else objective), order),
        groups=groups,
        limits=limits,
        min_frequency=min_frequency,
        max_frequency=max_frequency,
    )
    problem.check()
    check_weight(problem.weight)
    demand, _ = _demand(problem, policy)
    return _budget_for(demand, target, measure)


def _budget_for(demand: Market, target: float, measure: str) -> float:
    """Find the price at which the cost is as wanted; one over the cost falls as the price rises."""

    def reached(f: Floats) -> float:
        cost = demand.cost(f, measure)
        return 1.0 / cost if cost > 0 else np.inf

    low = np.array(demand.column("low"))
    if reached(low) >= 1.0 / target:
        return demand.least
    highest = reached(demand.filled)
    if highest < 1.0 / target * (1.0 - 1e-12):
        best = 1.0 / highest
        said = f"freshness above {1.0 - best:.6g}" if measure == "freshness" else f"age below {best:.6g}"
        raise NoAnswer(
            f"no budget buys a {said}; relax the target, or max_frequency and limits if there are any"
        )
    if highest <= 1.0 / target:  # as much as bounds and limits allow, and no more
        return demand.most
    clearing = meet(lambda price: reached(demand.frequencies(price)), 1.0 / target, demand.guess(1.0), 1e-14)
    more, less = demand.frequencies(clearing.under), demand.frequencies(clearing.over)
    mix, high = 0.0, 1.0
    while clearing.under != clearing.over and high - mix > 1e-15:
        middle = 0.5 * (mix + high)
        mix, high = (mix, middle) if reached(mixed(more, less, middle)) > 1.0 / target else (middle, high)
    return demand.spent(more if clearing.under == clearing.over else mixed(more, less, high))
