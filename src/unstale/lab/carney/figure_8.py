"""Figures 8 and 9: partitions refined by k-means, by number of partitions and by time."""

from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np

import unstale
from unstale.arguments import Floats
from unstale.lab.experiment import CARNEY, Claim, Line, Panel, Run, Table, cannot, experiment, ours, statement

from ._world import ELEMENTS_OF_TABLE_3, PARTITIONS_X, PERCEIVED_Y, TIMES, change_rates, profile_of, timed

PARTITIONS = (10, 20, 50, 100)
ITERATIONS = (0, 1, 3, 5, 7, 10, 15, 25)
ITERATIONS_DRAWN = (0, 1, 3, 5, 10, 25)
"""Iterations of Figure 8, which are those in the legend of a plot that can be read."""
KNOWN = {20: 0.812758, 50: 0.821767, 100: 0.822729}
"""Perceived freshness with 25 iterations, one shuffle."""
SHUFFLE = 0.001
"""How much these vary from shuffle to shuffle."""

Found = dict[tuple[int, int], tuple[float, float]]


@experiment("carney-figure-8", paper=CARNEY, where="Figure 8", seconds=20.0)
def figure_8(run: Run) -> Iterator[Claim | Panel | Table]:
    """A few rounds of k-means improve partitions; the optimum is above all of them.

    Refine PF-partitions of the elements of Table 3.
    """
    count = run.some(ELEMENTS_OF_TABLE_3, ELEMENTS_OF_TABLE_3 // 25)
    best, seconds = _exact(count, run.seed)
    found = _grid(run, count, ITERATIONS_DRAWN)
    fresh = {i: [found[k, i][0] for k in PARTITIONS] for i in ITERATIONS_DRAWN}
    yield statement(
        "all numbers of partitions",
        says="very few iterations bring significant gains",
        holds=all(best - few < 0.7 * (best - none) for none, few in zip(fresh[0], fresh[3], strict=True)),
    )
    yield ours("no refinement reaches the optimum", computed=max(y for y, _ in found.values()) < best - 0.004)
    if not run.quick:
        for k, value in KNOWN.items():
            yield ours(f"{k} partitions, 25 iterations", computed=found[k, 25][0], expected=value,
                       close=0.006, why=f"from shuffle to shuffle it varies by {SHUFFLE}")  # fmt: skip
    yield Panel(
        title=f"PF-partitions refined by k-means, {count:,} elements",
        x=PARTITIONS_X,
        y=PERCEIVED_Y,
        lines=[
            *(Line.of(f"{i} iterations", PARTITIONS, fresh[i]) for i in ITERATIONS_DRAWN),
            Line.of("exact optimum", PARTITIONS, [best] * len(PARTITIONS)),
        ],
        log="x",
    )
    yield _beside(found, count, best, seconds)


@experiment("carney-figure-9", paper=CARNEY, where="Figure 9", seconds=30.0)
def figure_9(run: Run) -> Iterator[Claim | Panel | Table]:
    """Freshness against time: partitions, iterations, and the exact plan beside them.

    Set what refined partitions reach against the time they take.
    """
    count = run.some(ELEMENTS_OF_TABLE_3, ELEMENTS_OF_TABLE_3 // 25)
    best, seconds = _exact(count, run.seed)
    found = _grid(run, count, ITERATIONS)
    yield _earliest(found)
    yield cannot(
        "seconds of 50 partitions and 10 iterations", published=62.0,
        why=f"their machine is not here; in this run {found[50, 10][1]:.2g}, of the exact plan {seconds:.2g}",
    )  # fmt: skip
    yield ours(
        "the exact plan is fresher than 50 partitions with 10 iterations", computed=best > found[50, 10][0]
    )
    yield ours(
        "seconds of the exact plan over those of 50 partitions with 10 iterations, in this run",
        computed=seconds / found[50, 10][1],
    )
    clusters = [found[k, 0] for k in PARTITIONS]
    yield Panel(
        title=f"Freshness against time, {count:,} elements",
        x="time (seconds on this machine)",
        y=PERCEIVED_Y,
        lines=[
            Line.of(
                "cluster line (no iterations)", [s for _, s in clusters], [y for y, _ in clusters], "points"
            ),
            *(_over_time(found, k) for k in PARTITIONS),
            Line.of("exact optimum", [seconds], [best], "points"),
        ],
        log="x",
    )
    yield _beside(found, count, best, seconds)


def _earliest(found: Found) -> Claim:
    """Whether as few comparisons as 50 partitions and 10 iterations take buy nothing fresher.

    The paper does not say what counts as good, so it is what these reach. It counts a comparison for each
    element, partition and iteration.
    """
    fresh = found[50, 10][0]
    rivals = [y for (k, i), (y, _) in found.items() if k * i <= 50 * 10]
    return statement(
        "50 partitions and 10 iterations, by comparisons, if what they reach is good",
        says="a good solution is found earliest",
        holds=max(rivals) <= fresh + SHUFFLE,
    )


def _beside(found: Found, count: int, best: float, seconds: float) -> Table:
    """Return what refined partitions reach and take, and last the exact optimum."""
    rows = [[k, i, y, y / best, s, seconds / s] for (k, i), (y, s) in found.items()]
    rows.append([count, 0, best, 1.0, seconds, 1.0])
    names = ("partitions", "k-means iterations", "perceived freshness", "share of the optimum", "seconds",
             TIMES)  # fmt: skip
    return Table(
        f"k-means beside the exact optimum (last row), {count:,} elements",
        dict(zip(names, zip(*rows, strict=True), strict=True)),
    )


def _over_time(found: Found, partitions: int) -> Line:
    fresh, seconds = zip(*(found[partitions, i] for i in ITERATIONS), strict=True)
    return Line.of(f"{partitions} partitions", seconds, fresh)


def _grid(run: Run, count: int, some: Sequence[int]) -> Found:
    """Perceived freshness and seconds, by partitions and iterations."""
    found: Found = {}
    for done, k in enumerate(PARTITIONS):
        found |= {(k, i): _refined(count, run.seed, k, i) for i in some}
        run.advance((done + 1) / len(PARTITIONS))
    return found


@cache
def _world(count: int, seed: int) -> tuple[Floats, Floats]:
    """Change rates in a random order, and the profile."""
    return np.random.default_rng([seed, 8]).permutation(change_rates(count, 2.0)), profile_of(count, 1.0)


@cache
def _exact(count: int, seed: int) -> tuple[float, float]:
    """Perceived freshness of the exact optimum, and the seconds it takes."""
    rates, profile = _world(count, seed)
    plan, seconds = timed(lambda: unstale.plan(rates, 0.5 * count, weights=profile), repeat=3)
    return plan.freshness, seconds


@cache
def _refined(count: int, seed: int, partitions: int, iterations: int) -> tuple[float, float]:
    """Perceived freshness of refined PF-partitions, and the seconds they take."""
    rates, profile = _world(count, seed)
    policy = unstale.Partitioning("pf", partitions, iterations)
    plan, seconds = timed(lambda: unstale.plan(rates, 0.5 * count, weights=profile, policy=policy))
    return plan.freshness, seconds
