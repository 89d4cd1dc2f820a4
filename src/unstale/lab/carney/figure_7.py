"""Figure 7: partitioning techniques on half a million elements, and the optimum that was out of reach."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

import unstale
from unstale.arguments import Floats
from unstale.lab.experiment import CARNEY, Claim, Line, Panel, Run, Table, experiment, ours, statement

from ._scaling import scaling
from ._world import (
    ELEMENTS_OF_TABLE_3,
    KEYS,
    PARTITIONS_X,
    PERCEIVED_Y,
    TIMES,
    Key,
    beside_the_optimum,
    change_rates,
    partitioned,
    profile_of,
    timed,
)

PARTITIONS = (10, 20, 50, 100, 200, 500)
PROVEN = 1e-9
"""Distance from the best plan below which a plan counts as exact."""
APPRECIABLE = 0.02
"""By what share more an answer must be fresher to be appreciably so; the paper has no number."""
FREQUENCIES = (0.25, 1.0, 4.0, 16.0)
KNOWN: dict[Key, tuple[float, float]] = {
    "p": (0.782225, 0.01),
    "rate": (0.464599, 0.018),
    "p/rate": (0.706898, 0.012),
    "pf": (0.777512, 0.011),
}
"""Perceived freshness of one shuffle with 100 partitions, and the deviation from shuffle to shuffle."""


@experiment("carney-figure-7", paper=CARNEY, where="Table 3, Figure 7", seconds=20.0)
def figure_7(run: Run) -> Iterator[Claim | Panel | Table]:
    """Half a million elements: partitioning techniques, and the exact optimum in a second.

    Plan for the elements of Table 3: exactly, and by partitions; means over a few shuffles.
    """
    count, rng = run.some(ELEMENTS_OF_TABLE_3, ELEMENTS_OF_TABLE_3 // 25), run.rng(7)
    profile, quantiles = profile_of(count, 1.0), change_rates(count, 2.0)
    shuffles = [rng.permutation(quantiles) for _ in range(4)]
    best = float(np.mean([_exact(rates, profile).freshness for rates in shuffles]))
    yield from _half_a_million(
        shuffles[0]
        if count == ELEMENTS_OF_TABLE_3
        else rng.permutation(change_rates(ELEMENTS_OF_TABLE_3, 2.0))
    )
    found: dict[Key, Floats] = {}
    for done, key in enumerate(KEYS):
        fresh = [[partitioned(key, k, rates, profile) for k in PARTITIONS] for rates in shuffles]
        found[key] = np.mean(fresh, axis=0)
        run.advance(0.2 * (done + 1))
    if not run.quick:
        for key, (value, spread) in KNOWN.items():
            yield ours(f"{KEYS[key]}, 100 partitions", computed=found[key][3], expected=value,
                       close=4 * spread * np.sqrt(1 + 1 / len(shuffles)),
                       why=f"from shuffle to shuffle it varies by {spread}")  # fmt: skip
    p, rate, ratio, pf = found.values()
    better = ", ".join(str(k) for k, one, other in zip(PARTITIONS, p, pf, strict=True) if one > other)
    yield statement(
        "section 4.1.2: PF-partitioning",
        says="is still the clear winner",
        holds=bool((pf >= p).all()),
        error=f"p-partitioning is better with {better} partitions at θ = 1",
    )
    flatter = profile_of(count, 0.4)
    yield ours(
        "θ = 0.4, 100 partitions: with little skew PF-partitioning does win",
        computed=partitioned("pf", 100, shuffles[0], flatter) > partitioned("p", 100, shuffles[0], flatter),
    )
    yield from _more_partitions(dict(zip(PARTITIONS, pf, strict=True)), best)
    yield ours("λ-partitioning, 500 partitions over 100", computed=rate[-1] / rate[3])
    keys = [
        np.mean([partitioned("pf", 100, one, profile, frequency=c) for one in shuffles]) for c in FREQUENCIES
    ]
    yield statement(
        "section 3.1: the fixed frequency of the PF key",
        says="is not important",
        holds=float(np.ptp(keys)) < 0.005,
        error=f"from 1/4 to 4 freshness rises by {keys[2] - keys[0]:.3f}; for comparison, PF- and "
        f"p-partitioning are {abs(pf[3] - p[3]):.3f} apart, PF and p/λ {pf[3] - ratio[3]:.3f}",
    )
    flat = np.full(len(PARTITIONS), best)
    yield Panel(
        title=f"Partitioning techniques, {count:,} elements",
        x=PARTITIONS_X,
        y=PERCEIVED_Y,
        lines=[
            *(Line.of(f"{KEYS[key]}-partitioning", PARTITIONS, y) for key, y in found.items()),
            Line.of("exact optimum", PARTITIONS, flat),
        ],
        log="x",
    )
    yield Panel(
        title="The fixed frequency of the PF key, 100 partitions",
        x="fixed frequency (polls per period)",
        y=PERCEIVED_Y,
        lines=[
            Line.of("PF-partitioning", FREQUENCIES, keys),
            Line.of("exact optimum", FREQUENCIES, flat[:4]),
        ],
        log="x",
    )
    table = beside_the_optimum(
        (unstale.Partitioning(key, k) for key in KEYS for k in run.some(PARTITIONS, (10, 100))),
        shuffles[0],
        profile,
    )
    yield ours(
        "seconds of the exact plan over those of the quickest heuristic, in this run",
        computed=np.max(np.array(table.columns[TIMES], float)),
    )
    yield table
    yield from scaling(run)


def _exact(rates: Floats, profile: Floats) -> unstale.Plan:
    return unstale.plan(rates, 0.5 * rates.size, weights=profile)


def _half_a_million(rates: Floats) -> Iterator[Claim]:
    """Plan for all elements of Table 3, quickly or not."""
    plan, seconds = timed(lambda: _exact(rates, profile_of(rates.size, 1.0)))
    yield statement(
        f"sections 3 and 4.1.2: the exact optimum of {rates.size:,} elements",
        says="cannot be had, only for fewer than a thousand",
        holds=plan.gap >= PROVEN,
        error="a few passes over the elements find it, and prove it",
    )
    yield ours("proven distance from the best plan", computed=plan.gap, expected=0.0, close=PROVEN)
    yield ours("exact optimum, one shuffle", computed=plan.freshness, expected=0.8300766, close=4 * 4e-4,
               why="from shuffle to shuffle it varies by 0.0004")  # fmt: skip
    yield ours("its seconds, in this run", computed=seconds)


def _more_partitions(fresh: Mapping[int, float], best: float) -> Iterator[Claim]:
    """Hold 200 and 500 PF-partitions against 100, and these against the optimum."""
    yield statement(
        "more than 100 partitions",
        says="do not appreciably improve the answer",
        holds=all(fresh[k] / fresh[100] - 1.0 < APPRECIABLE for k in (200, 500)),
    )
    for k in (200, 500):
        yield ours(f"PF-partitioning, {k} partitions over 100", computed=fresh[k] / fresh[100])
    yield ours("PF-partitioning, 100 partitions: share of the optimum", computed=fresh[100] / best,
               expected=0.777512 / 0.8300766, close=0.03,
               why="so the answer can be improved appreciably, but not by a few more partitions")  # fmt: skip
