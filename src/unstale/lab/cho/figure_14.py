"""Expected freshness of an element that is polled at equal intervals, again and again."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import unstale
from unstale.lab.experiment import CHO, Claim, Line, Panel, Run, Table, experiment, ours, statement

from ._paths import averaged

_POLL_INTERVALS_SHOWN = 4


@experiment("cho-figure-14", paper=CHO, where="Figure 14, theorem 2 and appendix B.1", seconds=2)
def figure_14(run: Run) -> Iterator[Claim | Panel | Table]:
    """Expected freshness over time in fixed order, and its mean.

    Draw the expected freshness over four intervals, with its mean, and the mean of simulated copies.
    """
    fresh_after, age_after = unstale.poisson.freshness_after, unstale.poisson.age_after
    nodes, weights = np.polynomial.legendre.leggauss(40)
    within = (nodes + 1.0) / 2.0  # an interval, to integrate over
    ratios = np.array([0.1, 0.5, 1.0, 2.0, 5.0])[:, None]
    means = [(after(ratios, within) @ weights) / 2.0 for after in (fresh_after, age_after)]
    formulas = [f(ratios[:, 0], 1.0) for f in (unstale.freshness, unstale.age)]
    for what, mean, formula in zip(("freshness", "age"), means, formulas, strict=True):
        yield statement(
            f"theorem 2, {what}, 0.1 to 5 changes per poll",
            says="the average over time is that of the expected value over one interval",
            holds=bool(np.allclose(mean, formula, rtol=1e-12)),
        )
    rate = 1.0
    result = unstale.simulate(
        np.full(200, rate), 200.0, policies=["uniform"], horizon=run.some(5000.0, 500.0), seed=run.seed
    )["uniform"]
    yield ours(
        "freshness simulated, once per poll",
        computed=result.freshness,
        expected=float(unstale.freshness(rate, 1.0)),
        close=5.0 * result.freshness_error,
    )
    copies = run.some(40_000, 4_000)
    times = np.arange(0.125, _POLL_INTERVALS_SHOWN, 0.25)
    mean, error = averaged(run, rate, copies, np.arange(float(_POLL_INTERVALS_SHOWN)), times)
    expected = np.array([fresh_after(rate, times % 1.0), age_after(rate, times % 1.0)])
    yield ours(
        "each simulated point is within 5 standard errors",
        computed=bool((np.abs(mean - expected) < 5.0 * error).all()),
    )
    # each poll is drawn as a drop or a jump: its moment twice, as the end of one interval and as the next
    since = np.tile(np.linspace(0.0, 1.0, 101), _POLL_INTERVALS_SHOWN)
    x = since + np.repeat(np.arange(float(_POLL_INTERVALS_SHOWN)), 101)
    for row, (name, unit, after, f) in enumerate(
        (
            ("freshness", "freshness (probability)", fresh_after, unstale.freshness),
            ("age", "age (polling intervals)", age_after, unstale.age),
        )
    ):
        average = float(f(rate, 1.0))
        yield Panel(
            title=f"Expected {name} in fixed order, one change per poll",
            x="time (polling intervals)",
            y=unit,
            bounds=(0.0, None),
            lines=[
                Line.of("expected", x, after(rate, since)),
                Line.of("mean over time", x, np.full_like(x, average)),
                Line.of(f"mean of {copies:,} simulated copies", times, mean[row], "points", error=error[row]),
            ],
        )
