"""The worlds of the paper: gamma change rates, a Zipf profile, Pareto sizes; and plans side by side.

Rates and sizes are quantiles of their laws, so that chance enters by the order of the elements alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from time import perf_counter
from typing import Literal, TypeVar

import numpy as np

import unstale
from unstale.arguments import Floats
from unstale.lab.experiment import Table

T = TypeVar("T")

Key = Literal["p", "rate", "p/rate", "pf", "pfs", "size"]
Division = Literal["frequency", "bandwidth"]

KEYS: dict[Key, str] = {"p": "p", "rate": "λ", "p/rate": "p/λ", "pf": "PF"}
"""Keys by which elements are partitioned, and their names in the paper."""

ELEMENTS_OF_TABLE_2 = 500
"""Elements of Table 2; twice as many changes and half as many polls per period."""
ELEMENTS_OF_TABLE_3 = 500_000
"""Elements of Table 3."""

TIMES = "seconds of the exact plan / seconds"
PARTITIONS_X = "number of partitions"
PERCEIVED_Y = "perceived freshness (share of requests)"


def change_rates(count: int, spread: float) -> Floats:
    """Changes per period: quantiles of a gamma law of mean 2 and this deviation, slowest first."""
    from scipy import special

    shape = (2.0 / spread) ** 2
    shares = (np.arange(count) + 0.5) / count
    if shape == 1.0:  # exponential
        return np.asarray(-2.0 * np.log1p(-shares), float)
    return np.asarray(special.gammaincinv(shape, shares) * 2.0 / shape, float)


def profile_of(count: int, theta: float) -> Floats:
    """Zipf's profile, most wanted first."""
    return unstale.simulation.zipf(count, theta)


def pareto_sizes(count: int, shape: float) -> Floats:
    """Sizes at the quantiles of a Pareto law of mean 1, smallest first."""
    left = 1.0 - (np.arange(count) + 0.5) / count
    found: Floats = (shape - 1.0) / shape * left ** (-1.0 / shape)
    return found


def partitioned(
    key: Key, partitions: int, rates: Floats, profile: Floats, *, frequency: float = 1.0
) -> float:
    """Perceived freshness by a heuristic, with half a poll per element."""
    policy = unstale.Partitioning(key, partitions, frequency=frequency)
    return unstale.plan(rates, 0.5 * rates.size, weights=profile, policy=policy).freshness


def best(rates: Floats, profile: Floats) -> float:
    """Perceived freshness of the exact optimum, with half a poll per element."""
    return unstale.plan(rates, 0.5 * rates.size, weights=profile).freshness


def timed(job: Callable[[], T], repeat: int = 1) -> tuple[T, float]:
    """What comes of a job, and the seconds of its fastest run."""
    seconds = np.inf
    for _ in range(repeat):
        start = perf_counter()
        found = job()
        seconds = min(seconds, perf_counter() - start)
    return found, seconds


def beside_the_optimum(
    policies: Iterable[unstale.Partitioning], rates: Floats, profile: Floats, sizes: Floats | None = None
) -> Table:
    """Return what heuristics reach and take, beside the exact optimum in the same run."""
    title = f"heuristics beside the exact optimum, {rates.size:,} elements"
    return Table(title, _columns(policies, rates, profile, sizes))


def beside_the_optimum_by_skew(
    policies: Sequence[unstale.Partitioning], rates: Floats, thetas: Iterable[float]
) -> Table:
    """Return the same for profiles of several skews."""
    found: dict[str, list[object]] = {}
    for theta in thetas:
        some = _columns(policies, rates, profile_of(rates.size, theta))
        for name, column in ({"skew of the profile θ": [theta] * len(some[TIMES])} | some).items():
            found.setdefault(name, []).extend(column)
    return Table(f"heuristics beside the exact optimum by skew, {rates.size:,} elements", found)


def _columns(
    policies: Iterable[unstale.Partitioning], rates: Floats, profile: Floats, sizes: Floats | None = None
) -> dict[str, Sequence[object]]:

    def planned(policy: unstale.Partitioning | Literal["optimal"]) -> tuple[float, float]:
        plan, seconds = timed(
            lambda: unstale.plan(rates, 0.5 * rates.size, weights=profile, sizes=sizes, policy=policy), 3
        )
        return plan.freshness, seconds

    best, exact = planned("optimal")
    rows: list[Sequence[object]] = []
    for policy in policies:
        fresh, seconds = planned(policy)
        rows.append(
            [policy.key, policy.partitions, policy.division, fresh, fresh / best, seconds, exact / seconds]
        )
    rows.append(["exact", rates.size, "", best, 1.0, exact, 1.0])
    names = (
        "key", "partitions", "equal in a partition", "perceived freshness", "share of the optimum", "seconds",
        TIMES,
    )  # fmt: skip
    return dict(zip(names, zip(*rows, strict=True), strict=True))
