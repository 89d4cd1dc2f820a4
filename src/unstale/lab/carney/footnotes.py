"""Footnotes 2, 4 and 7 and the appendix: the formulas behind the plans, and what is wrong in their print."""

import math
from collections.abc import Iterator

import numpy as np

import unstale
from unstale.arguments import Floats
from unstale.lab.experiment import CARNEY, Claim, Line, Panel, Run, experiment, number, ours, statement

from ._world import pareto_sizes


@experiment("carney-footnotes", paper=CARNEY, where="Footnotes 2, 4, 7 and appendix", seconds=0.3)
def footnotes(run: Run) -> Iterator[Claim | Panel]:  # noqa: ARG001  (nothing to make quicker)
    """Formulas that are printed wrong: a sign, a curvature, a distribution.

    Hold each formula against a derivative or a sample.
    """
    rate, f = 1.0, 0.8
    gone, left = -np.expm1(-rate / f) / rate, np.exp(-rate / f) / f
    slope = float(unstale.freshness(rate, f + 1e-5) - unstale.freshness(rate, f - 1e-5)) / 2e-5
    yield number(
        "footnote 7: slope of the freshness from the printed formula, rate 1, frequency 0.8",
        published=gone + left, computed=slope, within=1e-6, right=0.35536420706457233, close=1e-8,
        why="the first term, e^(-λ/f)/f, is printed with a plus; it must have a minus",
    )  # fmt: skip
    yield ours(
        "the slope is the worth of a poll", computed=float(unstale.worth("freshness", rate, 1.0 / f)),
        expected=gone - left, close=1e-15,
    )  # fmt: skip
    grid = np.geomspace(0.05, 20.0, 200)
    slopes = np.diff(unstale.freshness(1.0, grid)) / np.diff(grid)
    yield statement(
        "footnote 2: freshness as a function of the frequency",
        says="is convex",
        holds=bool((np.diff(slopes) > 0).all()),
        error="it is concave; a concave function is maximised, which is a convex problem",
    )
    yield ours("it is concave", computed=bool((np.diff(slopes) < 0).all()))
    x = np.linspace(1.0, 10.0, 91)
    sizes = pareto_sizes(100_000, 1.5)  # of mean 1, in order; k is the least
    below = np.searchsorted(sizes, x * sizes[0]) / sizes.size
    printed = x**-1.5
    yield statement(
        "footnote 4: F(x) = (k/x)^a",
        says="is the Pareto distribution",
        holds=bool(np.abs(printed - below).max() < 0.01),
        error="it is the share above x, one less the distribution function; it falls with x",
    )
    yield ours(
        "1 - (k/x)^a is the share of sizes below x",
        computed=bool(np.abs(1 - printed - below).max() < 0.01),
    )
    prices = np.geomspace(1e-3, 0.99, 100)
    yield statement(
        "appendix: the condition for the best frequency",
        says="has no solution in closed form",
        holds=not _solved(prices),
        error="it has one by Lambert's W: f = -λ / (1 + W(-(1 - price λ/p)/e)), on the branch -1",
    )
    yield Panel(
        title="Footnotes 2 and 7: freshness and its slope, rate 1",
        x="frequency (polls per unit time)",
        y="freshness (share of time), slope (time)",
        lines=[
            Line.of("freshness", grid, unstale.freshness(1.0, grid)),
            Line.of("slope (worth of a poll)", grid, unstale.worth("freshness", 1.0, 1.0 / grid)),
            Line.of("slope as printed", grid, -np.expm1(-1.0 / grid) + np.exp(-1.0 / grid) / grid),
        ],
        log="x",
    )


def _solved(prices: Floats) -> bool:
    """Whether Lambert's W gives the frequencies at which a poll is worth the price, for rate 1."""
    from scipy import special

    closed = -1.0 / (1.0 + special.lambertw(-(1.0 - prices) / math.e, -1).real)
    return bool(np.allclose(closed, unstale.poisson.curve_frequency(1.0, prices), rtol=1e-9))
