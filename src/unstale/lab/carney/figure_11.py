"""Figure 11: equal frequencies or equal bandwidth within a partition."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

import unstale
from unstale.arguments import Floats
from unstale.lab.experiment import CARNEY, Claim, Line, Panel, Run, Table, experiment, ours, statement, taken

from ._world import (
    PARTITIONS_X,
    PERCEIVED_Y,
    Division,
    beside_the_optimum,
    change_rates,
    pareto_sizes,
    profile_of,
)

KNOWN = {
    500: {10: (0.64616, 0.68104), 100: (0.68714, 0.7106)},
    20_000: {10: (0.72965, 0.75799), 100: (0.78056, 0.80294)},
}
"""Perceived freshness by elements and partitions: FFA and FBA, of other shuffles."""
TOLERANCES = {500: 0.03, 20_000: 0.02}
"""What shuffles explain: from one to the next it varies by up to 0.03 or 0.012."""
BEST = {500: 0.719, 20_000: 0.82067}
DIVISIONS: dict[Division, str] = {
    "frequency": "equal frequencies (FFA)",
    "bandwidth": "equal bandwidth (FBA)",
}


@experiment("carney-figure-11", paper=CARNEY, where="Figure 11", seconds=5.0)
def figure_11(run: Run) -> Iterator[Claim | Panel | Table]:
    """Sizes: equal bandwidth in a partition is better than equal frequencies, mostly.

    Plan by PFS-partitions where the fastest are the smallest, and divide in two ways.
    """
    yield taken(
        skew_of_the_profile="θ = 1", shape_of_the_Pareto_law="1.2", number_of_elements="500 and 20,000"
    )
    rng = run.rng(11)
    for count, shuffles in ((500, run.some(30, 8)), (20_000, run.some(8, 2))):
        rates, sizes = _elements(count, 1.2)
        profiles = [rng.permutation(profile_of(count, 1.0)) for _ in range(shuffles)]
        mean = partial(_mean, rates, sizes, profiles)
        partitions = [k for k in (2, 5, 10, 20, 50, 100, 200, 500) if k <= count]
        found = {
            name: np.array([mean(unstale.Partitioning("pfs", k, division=name)) for k in partitions])
            for name in DIVISIONS
        }
        best = np.mean([unstale.plan(rates, count / 2, weights=p, sizes=sizes).freshness for p in profiles])
        yield Panel(
            title=f"Division within a partition, {count:,} elements",
            x=PARTITIONS_X,
            y=PERCEIVED_Y,
            lines=[
                *(Line.of(label, partitions, found[name]) for name, label in DIVISIONS.items()),
                Line.of("exact optimum", partitions, np.full(len(partitions), best)),
            ],
            log="x",
        )
        yield ours(
            f"{count:,} elements: optimum",
            computed=float(best),
            expected=BEST[count],
            close=TOLERANCES[count],
        )
        for k, (equal, bandwidth) in KNOWN[count].items():
            for name, value in zip(DIVISIONS, (equal, bandwidth), strict=True):
                at = partitions.index(k)
                yield ours(f"{count:,} elements, {k} partitions, {DIVISIONS[name]}",
                           computed=found[name][at], expected=value, close=TOLERANCES[count],
                           why="the other is of other shuffles")  # fmt: skip
        fewer = np.array(partitions) < count
        yield statement(
            f"{count:,} elements: equal bandwidth",
            says="approaches a better solution with fewer partitions",
            holds=bool((found["bandwidth"] > found["frequency"])[fewer].all()),
        )
        if count == 500:
            yield statement(
                "partitions by size alone",
                says="do not improve perceived freshness as much as PFS-partitioning",
                holds=mean(unstale.Partitioning("size", 20)) < mean(unstale.Partitioning("pfs", 20)),
            )
            yield statement(
                "k-means with sizes",
                says="again improves the solutions within a small number of iterations",
                holds=mean(unstale.Partitioning("pfs", 20, 5)) > mean(unstale.Partitioning("pfs", 20)),
            )
        else:
            policies = (unstale.Partitioning("pfs", k, division=d) for d in DIVISIONS for k in (10, 100))
            yield beside_the_optimum(policies, rates, profiles[0], sizes)
    gains = np.array([_gain_of_equal_frequencies(rng) for _ in range(run.some(300, 100))])
    share = float(np.mean(gains > 1e-6))
    yield statement(
        "section 5.3: equal bandwidth",
        says="always outperforms equal frequencies",
        holds=share == 0.0,
        error=f"in {share:.1%} of random instances it does not, by up to {gains.max():.3f}",
    )
    yield ours("random instances in which equal frequencies are better (share)",
               computed=share, expected=15 / 300,
               close=4 * np.sqrt(0.05 * 0.95 * (1 / len(gains) + 1 / 300)))  # fmt: skip


def _elements(count: int, shape: float) -> tuple[Floats, Floats]:
    """Rates that fall as sizes rise; the sizes have mean 1."""
    sizes = pareto_sizes(count, shape)
    return change_rates(count, 1.0)[::-1], sizes / sizes.mean()


def _mean(rates: Floats, sizes: Floats, profiles: list[Floats], policy: unstale.Partitioning) -> float:
    """Perceived freshness, a mean over shuffles."""
    return float(np.mean([_fresh(rates, sizes, p, policy, rates.size / 2) for p in profiles]))


def _fresh(
    rates: Floats, sizes: Floats, profile: Floats, policy: unstale.Partitioning, budget: float
) -> float:
    return unstale.plan(rates, budget, weights=profile, sizes=sizes, policy=policy).freshness


def _gain_of_equal_frequencies(rng: np.random.Generator) -> float:
    """By how much equal frequencies are fresher, in an instance drawn at random."""
    shape, theta, budget = rng.uniform([1.05, 0.0, 50.0], [2.5, 1.6, 500.0])
    rates, sizes = _elements(500, shape)
    profile, partitions = rng.permutation(profile_of(500, theta)), int(rng.choice([2, 5, 10, 20, 50]))
    equal, bandwidth = (
        _fresh(rates, sizes, profile, unstale.Partitioning("pfs", partitions, division=division), budget)
        for division in DIVISIONS
    )
    return equal - bandwidth
