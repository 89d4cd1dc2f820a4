"""Planning over shards: summaries go up, one price comes down.

Elements may lie in several processes, on several machines, or in a file that does not fit into memory. Each
shard is summarised where it is; the sum of the summaries gives the price to some 1e-4 or better, and a few
rounds, in which each shard says what it would spend at a price, make it exact. Then each shard works out its
own frequencies from the price alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..arguments import Floats, Order, order_code, scalar
from ..errors import InvalidInput
from ..objectives import Objective, objective_named
from ..processes import Process
from .compiled.demand import RESIDUAL, SPENT
from .demand import ALONE, demand_of
from .elements import EXACTLY_SOLVED_ELEMENTS, Goal
from .market import Market
from .problem import Problem
from .search import Clearing, meet
from .summary import Outlook, Summary, summarise

if TYPE_CHECKING:
    from distributed import Client
    from distributed import Future as ClusterFuture
    from numpy.typing import ArrayLike

    Columns = Mapping[str, ArrayLike | Process]
    Shard = Columns | Callable[[], Columns] | Problem | None

_WAITING_SHARDS = 16
"""Shards that are handed to an executor before the first answer is awaited."""

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class ShardedPlan:
    """The price of a plan over shards, and what it buys; small enough to be sent to each shard."""

    price: float
    """Worth of one more unit of budget."""
    spent: float
    budget: float
    gap: float
    """Upper bound on how far the weighted mean cost is from the best."""
    summary: Summary
    clearing: Clearing
    scale: float
    """What to multiply frequencies with, for the last digits of the budget."""
    rest: Clearing | None
    """How elements that no poll helps any more share what is left, if something is."""

    def frequencies(self, shard: Shard) -> Floats:
        """The frequencies of the elements of a shard; it need not be one that the plan was made from."""
        problem = _problem(shard, self.summary.cells.goal)
        if problem is None:
            return np.empty(0)
        problem.check()
        f = problem.market.at(self.clearing)
        if self.rest is None:
            return problem.unsorted(f * self.scale)
        return problem.unsorted(problem.market.spare(f).at(self.rest))

    def outlook(self, budget: float) -> Outlook:
        """Say what another budget would buy, from the summary."""
        return self.summary.outlook(budget)


def summary_of(
    rates: ArrayLike | Process,
    *,
    objective: str | Objective = "freshness",
    order: Order = "fixed",
    **columns: ArrayLike,
) -> Summary:
    """Summarise a shard; summaries can be added, in any order.

    Parameters
    ----------
    rates
        Change rates, or laws, of its elements.
    objective, order
        As in `plan`; the same for all shards.
    **columns
        Other columns that `plan` takes: weights, sizes, bounds.

    >>> both = summary_of([1.0, 2.0]) + summary_of([3.0, 4.0, 5.0])
    >>> both.outlook(5.0).price
    0.2164
    """
    order_code(order)
    summary = _summarise({"rates": rates, **columns}, Goal(objective_named(objective), order))
    if summary is None:
        raise InvalidInput("rates must not be empty; give at least one number")
    summary.check_weight()
    return summary


def plan_shards(
    shards: Iterable[Shard],
    budget: float,
    *,
    executor: Executor | Client | None = None,
    objective: str | Objective = "freshness",
    order: Order = "fixed",
) -> ShardedPlan:
    """Plan over shards, each a mapping with ``rates`` and the other columns that `plan` takes.

    Groups are not for shards.

    Parameters
    ----------
    shards
        They are gone through several times; each time they can read a file anew. An entry can be a function
        that returns the mapping, so that an executor loads it where it works.
    budget
        What may be spent per unit of time, over all shards.
    executor
        Where summaries are made: a `concurrent.futures.Executor`, or a ``dask.distributed.Client``, whose
        workers load each shard once and keep it until the plan is made. None: here, one after the other.
    objective, order
        As in `plan`.

    >>> shards = [{"rates": [1.0, 2.0]}, {"rates": [3.0, 4.0, 5.0]}]
    >>> plan = plan_shards(shards, budget=5.0)
    >>> plan.frequencies(shards[1]).round(2).tolist()
    [1.35, 1.14, 0.0]
    """
    goal = Goal(objective_named(objective), order)
    order_code(order)
    total = scalar("budget", budget, at_least=0)
    _check(shards, executor)
    shards = _held(executor, shards, goal)
    summary = _total(one for one in _map(executor, _summarise, shards, goal) if one is not None)
    cells = summary.cells
    cells.check_budget(total)

    def exact(rough: Clearing, *first: Clearing) -> Clearing:
        """The price that spends the budget, from the one that cells suggest."""
        if not 0.0 < rough.under < np.inf:
            return rough

        def spent_at(price: float) -> float:
            return sum(_map(executor, _spent, shards, goal, *first, Clearing(price, price)))

        return meet(spent_at, total, rough.under, 1e-10, 1.0001)

    clearing = exact(cells.clear(total, rough=True))
    spent = sum(_map(executor, _spent, shards, goal, clearing))
    scale, rest = 1.0, None
    if clearing.under == 0.0 and spent < total:  # nothing asks for more polls: what is left is shared
        rest = exact(cells.spare(cells.filled).clear(total), clearing)
        spent = sum(_map(executor, _spent, shards, goal, clearing, rest))
    elif clearing.under < np.inf and not any(part.bounded for part in cells.parts):
        scale = total / spent
    return ShardedPlan(
        price=clearing.under if clearing.under < np.inf else cells.first_worth(np.array(cells.column("low"))),
        spent=spent * scale,
        budget=total,
        gap=_gap(executor, shards, goal, clearing, total - spent * scale) / cells.weight,
        summary=summary,
        clearing=clearing,
        scale=scale,
        rest=rest,
    )


def _check(shards: object, executor: object) -> None:
    if not isinstance(shards, Iterable) or iter(shards) is shards:
        raise InvalidInput(
            f"shards must be a list, or something else to go through several times; it is {shards!r}"
        )
    if executor is not None and not hasattr(executor, "submit"):
        raise InvalidInput(
            f"executor must be a concurrent.futures.Executor or a dask.distributed.Client; it is {executor!r}"
        )


def _held(executor: Any, shards: Iterable[Shard], goal: Goal) -> Iterable[Shard]:  # noqa: ANN401
    """Return shards as the workers of a cluster of Dask hold them, read and checked; else as they are."""
    if type(executor).__module__.partition(".")[0] != "distributed" or not hasattr(executor, "scatter"):
        return shards

    def sent(shard: Shard) -> Any:  # noqa: ANN401
        return shard if callable(shard) else executor.scatter([shard])[0]

    return [executor.submit(_problem, sent(shard), goal, pure=False) for shard in shards]


def _total(summaries: Iterator[Summary]) -> Summary:
    """The sum of all summaries; few are kept at a time."""
    kept: list[Summary] = []
    for one in summaries:
        kept.append(one)
        if len(kept) == _WAITING_SHARDS:
            kept = [_joint(kept)]
    if not kept:
        raise InvalidInput("shards must not be empty; give at least one with elements")
    total = _joint(kept)
    total.check_weight()
    return total


def _joint(summaries: list[Summary]) -> Summary:
    return sum(summaries[1:], start=summaries[0])


def _gap(
    executor: Executor | Client | None, shards: Iterable[Shard], goal: Goal, clearing: Clearing, left: float
) -> float:
    if not 0.0 < clearing.under < np.inf:
        return 0.0
    over = short = paid = 0.0
    for more, less, cost in _map(executor, _slack, shards, goal, clearing):
        over, short, paid = max(over, more), short + less, paid + cost
    return (1.0 + over) * clearing.under * max(left, 0.0) + short + over * paid


def _map(
    executor: Executor | Client | None,
    work: Callable[..., Answer],
    shards: Iterable[Shard],
    *arguments: Any,  # noqa: ANN401
) -> Iterator[Answer]:
    """Work on each shard, a few ahead of what has been answered."""
    if executor is None:
        for i, shard in enumerate(shards):
            with _named(i):
                yield work(shard, *arguments)
        return
    waiting: deque[tuple[int, Future[Answer] | ClusterFuture[Answer]]] = deque()
    for i, shard in enumerate(shards):
        waiting.append((i, executor.submit(work, shard, *arguments)))
        if len(waiting) >= _WAITING_SHARDS:
            yield _answer(*waiting.popleft())
    while waiting:
        yield _answer(*waiting.popleft())


def _answer(i: int, answer: Future[Answer] | ClusterFuture[Answer]) -> Answer:
    with _named(i):
        return answer.result()


@contextmanager
def _named(i: int) -> Iterator[None]:
    """Say which shard an error is about."""
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(f"shards[{i}]: {error}") from None


def _problem(shard: Shard, goal: Goal) -> Problem | None:
    """The problem of a shard; None if it has no elements."""
    if shard is None or isinstance(shard, Problem):  # a worker of a cluster holds it
        return shard
    columns: object = shard() if callable(shard) else shard
    known = {"rates", "weights", "sizes", "change_sizes", "min_frequency", "max_frequency"}
    if not isinstance(columns, Mapping) or "rates" not in columns or not set(columns) <= known:
        what = sorted(columns) if isinstance(columns, Mapping) else type(columns).__name__
        raise InvalidInput(
            f"a shard must be a mapping with rates and maybe other columns of {sorted(known)}; it is {what}"
        )
    given = dict(columns)
    if isinstance(given["rates"], Sequence | np.ndarray) and len(given["rates"]) == 0:
        return None
    return Problem.of(given.pop("rates"), goal=goal, **given)


def _summarise(shard: Shard, goal: Goal) -> Summary | None:
    problem = _problem(shard, goal)
    if problem is None:
        return None
    problem.check()
    return summarise(problem.market)


def _spent(shard: Shard, goal: Goal, clearing: Clearing, rest: Clearing | None = None) -> float:
    problem = _problem(shard, goal)
    if problem is None:
        return 0.0
    market = problem.market
    if rest is None and (sums := _sums(market, clearing)) is not None:
        return float(sums[SPENT])
    f = market.at(clearing)
    return market.spent(f if rest is None else market.spare(f).at(rest))


def _sums(market: Market, clearing: Clearing) -> Floats | None:
    """What elements spend at a price, and their residual, in one pass; None if a table has no answer."""
    if not 0.0 < clearing.under == clearing.over < np.inf or len(market) <= EXACTLY_SOLVED_ELEMENTS:
        return None
    sums = np.zeros((1, 4))
    for part in market.parts:
        if not (part.tabled(market.goal) or part.uncertain(market.goal)):
            return None
        demand = demand_of(part, market.goal)
        if demand is not None:
            demand(np.array([clearing.under]), ALONE, sums, np.empty(part.n))
    return sums[0]


def _slack(shard: Shard, goal: Goal, clearing: Clearing) -> tuple[float, float, float]:
    problem = _problem(shard, goal)
    if problem is None:
        return 0.0, 0.0, 0.0
    if (sums := _sums(problem.market, clearing)) is not None:
        return 0.0, 2.02 * clearing.under * float(sums[RESIDUAL]), 0.0
    f = problem.market.at(clearing)
    return problem.market.slack(f, np.full(f.shape, clearing.under))
