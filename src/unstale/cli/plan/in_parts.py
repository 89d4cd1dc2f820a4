"""Planning a Parquet file in parts, so that memory does not grow with the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unstale.cli.shared.problem import Task, as_objective, fitted, no_weight, open_elements
from unstale.cli.shared.progress import progress, told_of_compilation
from unstale.errors import InvalidInput, Trouble, need
from unstale.quantities import Flow, TimeUnit
from unstale.tables import (
    LAW_ROLES,
    ParquetFile,
    TableElements,
    TableReader,
    law_of,
    mean_costs,
    open_allocation,
)

from .report import PlanReport, PlanValue

if TYPE_CHECKING:
    from distributed import Client

    from unstale.arguments import Floats, Order
    from unstale.objectives import Objective
    from unstale.planning import ShardedPlan

MOST_ROWS_IN_MEMORY = 20_000_000
"""Rows of a Parquet file above which it is planned in parts."""
_ROWS_OF_A_SHARD = 4_000_000
"""Rows that a worker of a cluster takes at a time, about: so many row groups of the file."""
_CONNECT_SECONDS = 20.0
"""For which the scheduler of a cluster is waited for."""


def is_huge(file: str, out: str | None, policy: str, options: dict[str, Any]) -> bool:
    """Tell whether to plan in parts without --stream: the file is large, and no option needs it in memory."""
    if out is None or not out.lower().endswith(".parquet") or policy != "optimal":
        return False
    if any(options[name] is not None for name in ("group_limit", "min_frequency", "max_frequency")):
        return False
    table = open_elements(file, **options)
    return isinstance(table.file, ParquetFile) and table.length > MOST_ROWS_IN_MEMORY


@dataclass
class _Totals:
    """Sums over all elements."""

    count: int = 0
    rates: float = 0.0
    weights: float = 0.0
    sizes: float = 0.0
    sized_rates: float = 0.0
    uncertain: int = 0

    def add(self, part: TableElements) -> None:
        sizes = 1.0 if part.sizes is None else part.sizes
        self.count += len(part)
        self.rates += float(part.rates.sum())
        self.weights += float(len(part) if part.weights is None else part.weights.sum())
        self.sizes += float(len(part) if part.sizes is None else part.sizes.sum())
        self.sized_rates += float((part.rates * sizes).sum())
        self.uncertain += part.uncertain


@dataclass(frozen=True)
class _Measure:
    """How to sum up what frequencies buy, weighted."""

    objective: str | Objective
    order: Order

    def add(self, bought: PlanValue, part: TableElements, frequencies: Floats) -> None:
        """Count in one more part."""
        import numpy as np

        weights = np.ones(len(part)) if part.weights is None else part.weights

        def total(values: Floats) -> float:
            return float((weights * np.where(weights > 0, values, 0.0)).sum())  # 0 times infinite is 0

        if part.uncertain:
            fresh = total(1.0 - mean_costs(part, "freshness", frequencies, self.order))
            aged = total(mean_costs(part, "age", frequencies, self.order))
        else:
            from unstale.poisson import age, freshness

            fresh = total(freshness(part.rates, frequencies, self.order))
            aged = total(age(part.rates, frequencies, self.order))
        known = {"freshness": total(np.ones(len(part))) - fresh, "age": aged}
        cost = known.get(str(self.objective))
        if cost is None:
            cost = total(mean_costs(part, self.objective, frequencies, self.order))
        bought.freshness += fresh
        bought.age += aged
        bought.cost += cost
        bought.spent += float((frequencies if part.sizes is None else frequencies * part.sizes).sum())
        bought.never_polled += int(np.count_nonzero(frequencies == 0))


@dataclass(frozen=True)
class _Shards:
    """The parts of a table, which `plan_shards` reads as often as it needs."""

    table: TableReader[TableElements]
    roles: tuple[str, ...]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        with progress(f"planning {Path(self.table.path).name}", self.table.length) as advance:
            for part in self.table.parts(*self.roles, advance=advance):
                yield from (shard for _, shard in _pieces(part))


@contextmanager
def _cluster(address: str) -> Iterator[Client]:
    """Connect to a cluster of Dask."""
    distributed = need("distributed", extra="dask", needed_for="plans on a cluster")
    try:
        client = distributed.Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise Trouble(f"--dask {address}: there is no scheduler of Dask: {error}") from error
    with closing(client):
        yield client


def _shards_for_workers(
    table: TableReader[TableElements],
    roles: tuple[str, ...],
    columns: tuple[tuple[str, str], ...],
    *,
    certain: bool,
    uncertain: bool,
) -> list[Callable[[], dict[str, Any]]]:
    """Return what workers call to read their shards: some row groups each, which they find in the file.

    Of a file with ``uncertain`` rates, elements that do not change are shards of their own.
    """
    assert isinstance(table.file, ParquetFile)  # noqa: S101  (as was checked)
    shards: list[list[int]] = []
    room = 0
    for number, rows in enumerate(table.file.group_rows):
        if not shards or rows > room:
            shards.append([])
            room = _ROWS_OF_A_SHARD
        shards[-1].append(number)
        room -= rows
    file = str(Path(table.path).absolute())
    read = partial(_shard_of, file, columns=columns, certain=certain, roles=roles)
    pieces = range(2 if uncertain else 1)
    return [partial(read, groups=groups, piece=piece) for groups in shards for piece in pieces]


def _shard_of(
    file: str,
    *,
    groups: list[int],
    piece: int,
    columns: tuple[tuple[str, str], ...],
    certain: bool,
    roles: tuple[str, ...],
) -> dict[str, Any]:
    """Return the columns of some row groups of a file, on a worker."""
    import numpy as np

    parts = list(open_elements(file, columns=columns, certain=certain).of_groups(groups, *roles))
    names = ("rates", "weights", "sizes", "shapes", "scales")
    there: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in names
        if getattr(parts[0], name) is not None
    }
    pieces = [shard for _, shard in _pieces(TableElements(keys=range(len(there["rates"])), **there))]
    return pieces[piece] if piece < len(pieces) else {"rates": []}


def _pieces(part: TableElements) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Return shards with the places of their elements in the part.

    It is one, unless some rates are uncertain and some are 0, which no law is: then these are another.
    """
    import numpy as np

    pieces: list[Any] = [slice(None)]
    if part.uncertain and not part.rates.all():
        pieces = [np.flatnonzero(part.rates), np.flatnonzero(part.rates == 0)]
    for places in pieces:
        columns = {"weights": part.weights, "sizes": part.sizes}
        there = {name: column[places] for name, column in columns.items() if column is not None}
        yield places, {"rates": law_of(part, places), **there}


def _frequencies(plan: ShardedPlan, part: TableElements) -> Floats:
    import numpy as np

    frequencies = np.empty(len(part))
    for places, shard in _pieces(part):
        frequencies[places] = plan.frequencies(shard)
    return frequencies


def plan_in_parts(
    file: str,
    out: str | None,
    *,
    policy: str,
    budget: Flow,
    rate_unit: TimeUnit,
    columns: tuple[tuple[str, str], ...],
    objective: str | None,
    order: Order,
    ignore_sizes: bool,
    certain: bool,
    dask: str | None = None,
    **limits: Flow | None,
) -> PlanReport:
    """Read the file again and again: to check it, to find the price, and to write the frequencies.

    With the address of a cluster of ``dask`` its workers find the price; each reads its part once.
    """
    table, target = _both_parquet(open_elements(file, columns=columns, certain=certain), out)
    given = [f"--{name.replace('_', '-')}" for name, value in limits.items() if value is not None]
    if policy != "optimal" or given:
        raise InvalidInput(f"--stream cannot be combined with {', '.join(given) or f'--policy {policy}'}")
    goal = as_objective(objective or "freshness", rate_unit)
    roles = ("rate", *LAW_ROLES, "weight") if ignore_sizes else ("rate", *LAW_ROLES, "weight", "size")
    totals = _Totals()
    with progress(f"checking {Path(file).name}", table.length) as advance:
        for part in table.parts("key", *roles, advance=advance):
            totals.add(fitted(file, part, budget, ignore_sizes=ignore_sizes))
    if not totals.weights:
        raise no_weight(file, columns)
    task = Task(file, totals.count, totals.rates, rate_unit, budget, order, objective, totals.uncertain)
    with told_of_compilation(), nullcontext() if dask is None else _cluster(dask) as client:
        from unstale.planning import plan_shards

        shards = (
            _Shards(table, roles)
            if client is None
            else _shards_for_workers(table, roles, columns, certain=certain, uncertain=totals.uncertain > 0)
        )
        plan = plan_shards(shards, task.amount, objective=goal, order=order, executor=client)
        report = PlanReport(task, policy, plan.price, plan.gap, PlanValue(), out, {"uniform": PlanValue()})
        if totals.rates:
            report.against["proportional"] = PlanValue()
        measure = _Measure(goal, order)
        label, unit = f"writing {Path(target).name}", f"polls/{rate_unit.name}"
        with progress(label, table.length) as advance, open_allocation(target, unit) as write:
            for part in table.parts("key", *roles, advance=advance):
                frequencies = _frequencies(plan, part)
                write(part.keys, frequencies)
                measure.add(report.bought, part, frequencies)
                measure.add(report.against["uniform"], part, 0.0 * frequencies + task.amount / totals.sizes)
                if totals.rates:
                    proportional = part.rates * (task.amount / totals.sized_rates)
                    measure.add(report.against["proportional"], part, proportional)
    for one in (report.bought, *report.against.values()):
        one.freshness /= totals.weights
        one.age /= totals.weights
        one.cost /= totals.weights
    return report


def _both_parquet(
    table: TableReader[TableElements], out: str | None
) -> tuple[TableReader[TableElements], str]:
    if not isinstance(table.file, ParquetFile) or out is None or not out.lower().endswith(".parquet"):
        raise InvalidInput(
            "--stream goes from Parquet to Parquet: give a FILE and an --out that end in .parquet"
        )
    return table, out
