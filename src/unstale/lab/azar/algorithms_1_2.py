"""Algorithms 1 and 2: the best random polls, in slots and in continuous time; and four slips of the text."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import unstale
from unstale.arguments import Floats
from unstale.lab.experiment import AZAR, Claim, Line, Panel, Run, experiment, number, ours, statement


@experiment("azar-algorithms-1-2", paper=AZAR, where="Algorithms 1 and 2, Claim 2, Remark 4", seconds=1)
def algorithms_1_2(run: Run) -> Iterator[Claim | Panel]:
    """Both algorithms are exact, but running totals can lose the budget.

    Try random instances, and those where the text goes astray.
    """
    yield from _exact(run)
    yield from _cancellation(run)
    half = np.array([0.5, 0.5])
    feasible = [float(unstale.poisson.discrete_freshness(half, p).sum()) for p in ([0.5, 0.5], [0.0, 1.0])]
    yield statement(
        "after claim 2",
        says="whatever is feasible with the first pages dropped is optimal",
        holds=bool(np.isclose(feasible[0], feasible[1])),
        error="dropping all pages but one is always feasible; only with the fewest dropped is it optimal",
    )
    for name, computed, expected in zip(("no", "one"), feasible, (4.0 / 3.0, 1.0), strict=True):
        yield ours(f"two equal pages, {name} page dropped", computed=computed, expected=expected, close=1e-12)
    yield from _decay()
    yield number(
        "burn-in, slots: error 0.001, changes at least once in 100",
        published=float(np.ceil(np.log(1e-3) / np.log(0.99))),
        computed=unstale.poisson.burn_in(0.01, 1e-3),
        within=0.0,
    )
    slots = [unstale.poisson.burn_in(d, 1e-3) for d in (1e-2, 1e-4, 1e-6, 1.0 - 1e-6)]
    yield statement(
        "burn-in",
        says="is short as change probabilities stay away from 1",
        holds=max(slots[:3]) < 1000,
        error="they must stay away from 0: the burn-in grows like one over the least; near 1 it is a slot",
    )


def _exact(run: Run) -> Iterator[Claim]:
    rng = run.rng(12)
    off = np.zeros((run.some(400, 60), 4))
    for row in off:
        n = rng.integers(1, 40)
        change, weights = 1.0 - rng.random(n), 10.0 ** rng.uniform(-3.0, 3.0, n)
        p = unstale.planning.random_optimal_slots(change, weights)
        row[:2] = _off(weights * change / (p + change - p * change) ** 2, p), abs(p.sum() - 1.0)
        rates, budget = 10.0 ** rng.uniform(-3.0, 3.0, n), 10.0 ** rng.uniform(-2.0, 2.0)
        f = unstale.planning.random_optimal(rates, weights, 1.0, budget)
        row[2:] = _off(weights * rates / (f + rates) ** 2, f), abs(f.sum() / budget - 1.0)
    for k, name in enumerate(("Algorithm 1 (slots)", "Algorithm 2 (continuous time)")):
        worth, spent = off[:, 2 * k : 2 * k + 2].max(axis=0)
        yield statement(name, says="finds the exact optimum", holds=bool(max(worth, spent) < 1e-9))


def _off(worth: Floats, polls: Floats) -> float:
    """Return by how much worths differ among those polled, or are higher for others."""
    price = worth[polls > 0].max()
    return float(max(np.max(worth / price - 1.0), np.max(1.0 - worth[polls > 0] / price)))


def _cancellation(run: Run) -> Iterator[Claim | Panel]:
    """Lines 6 and 7 subtract pages that are dropped from totals which they dominate."""
    rng, budget = run.rng(13), 1e-4
    weights = np.array([1e-6] * 1000 + [1e-9])
    speeds, missed, kept = np.geomspace(1.0, 1e9, run.some(37, 10)), [], []
    for fast in speeds:
        printed, ours_ = [], []
        for _ in range(10):
            rates = np.append(fast * rng.uniform(0.5, 1.5, 1000), 1e-10)
            printed.append(unstale.planning.azar.algorithm_2(rates, weights, budget).sum() / budget)
            ours_.append(unstale.planning.random_optimal(rates, weights, 1.0, budget).sum() / budget)
        missed.append(np.abs(np.array(printed) - 1.0).max())
        kept.append(np.abs(np.array(ours_) - 1.0).max())
    yield Panel(
        title="Budget that Algorithm 2 misses: 1,000 fast pages that are dropped, one slow page",
        x="change rate of the fast pages (per unit time)",
        y="budget spent, off by (share; at least 1e-17)",
        log="xy",
        lines=[
            Line.of("as printed, running totals", speeds, np.maximum(missed, 1e-17)),
            Line.of("totals built from the other end", speeds, np.maximum(kept, 1e-17)),
        ],
    )
    yield ours(
        "Algorithm 2 as printed, in floating point: budget missed, at most (share)",
        computed=max(missed),
        why="it subtracts what it drops from running totals, and rounding of the large terms swamps the rest",
    )
    yield ours("that is more than 2 %", computed=bool(max(missed) > 0.02))
    yield ours("the plan of this library misses it by rounding only", computed=bool(max(kept) < 1e-9))


def _decay() -> Iterator[Claim]:
    """Remark 4."""
    slots = float(unstale.poisson.discrete_decaying_freshness(0.5, 0.2))
    yield number(
        "remark 4: freshness from the printed formula, decay 0.5 a slot, poll probability 0.2",
        published=0.2 / (0.2 + 0.5),
        computed=slots,
        within=1e-3,
        right=0.38851889957702204,
        close=1e-12,
        why="the printed formula is that of continuous time; in slots 1 - exp(-0.5) takes the place of 0.5",
    )
    yield ours(
        "the same in continuous time",
        computed=float(unstale.poisson.decaying_freshness(0.5, 0.2, "purely-random")),
        expected=2.0 / 7.0,
        close=1e-12,
    )
