"""The 99 % of the abstract: what rates for random polls reach of the optimum, at worst."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import unstale
from unstale.lab.experiment import AZAR, Claim, Line, Panel, Run, experiment, number, ours

from ._pages import draw, over_best

_NO_PROMISE = "99 % is what experiments show; rates and utilities can be chosen so that it is less"
_WORST = {
    "a bad case of two pages": ([0.08914416070782194, 0.0017822261300630107],
                                [0.6796702587162864, 0.016982946405860892], 0.0004961937136815189,
                                0.9123361373264903, 1e-9),
    "the worst that is known": ([1.0, 1e9], [1.0, 0.7779350731524708e9], 0.29209767884860627,
                                0.9090113215040693, 1e-7),
}  # fmt: skip
"""Change rates, utilities, budget, and what the rates for random polls then reach of the optimum."""


@experiment("azar-guarantee", paper=AZAR, where="Abstract (99 %)", seconds=1)
def guarantee(run: Run) -> Iterator[Claim | Panel]:
    """How far below the optimum rates for random polls can be, played at constant intervals.

    Play pages like those of the paper, then instances that were searched for to do badly.
    """
    for kind in ("Zipf", "uniform"):
        drawn = [draw(run.rng(99, k), kind) for k in range(run.some(20, 4))]
        share = [np.mean([over_best(*one, budget) for one in drawn]) for budget in (50.0, 250.0, 1000.0)]
        yield number(
            f"abstract: share of the optimum in experiments, {kind} utilities, the least of 3 budgets",
            published=0.99,
            computed=float(np.min(share)),
            within=0.005,
        )
    for name, (two, utilities, budget, expected, close) in _WORST.items():
        yield ours(
            f"{name}: rates for random polls over the optimum",
            computed=over_best(np.array(two), np.array(utilities), budget),
            expected=expected,
            close=close,
            why=_NO_PROMISE,
        )
    x = np.geomspace(1e-2, 1e3, 400)
    ratio = unstale.freshness(x, 1.0, "purely-random") / unstale.freshness(x, 1.0)
    rate, frequency = unstale.poisson.curve_peak(1.0)
    floor = unstale.freshness(rate, frequency, "purely-random") / unstale.freshness(rate, frequency)
    yield ours(
        "what no pages can fall below: random over constant polls at the same rates, at worst",
        computed=float(floor),
        expected=0.77016349200449182161,
        close=1e-9,
    )
    yield ours("nor is any ratio below it", computed=bool(ratio.min() >= floor - 1e-12))
    budgets = np.geomspace(0.01, 100.0, run.some(60, 20))
    rates, weights = np.array([1.0, 1e9]), np.array([1.0, 0.7779350731524708e9])
    yield Panel(
        title="Rates for random polls at constant intervals, at worst: one page among very fast ones",
        x="budget (polls per change of the page)",
        y="freshness over the optimum",
        log="x",
        bounds=(0.75, 1.01),
        lines=[
            Line.of("this instance", budgets, [over_best(rates, weights, one) for one in budgets]),
            Line.of("printed 99 %", budgets[[0, -1]], [0.99, 0.99]),
            Line.of("floor for any pages", budgets[[0, -1]], [floor, floor]),
        ],
    )
