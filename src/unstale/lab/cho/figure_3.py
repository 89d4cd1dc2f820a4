"""What to expect of one copy between two polls."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import unstale
from unstale.lab.experiment import CHO, Claim, Line, Panel, Run, Table, experiment, ours, statement

from ._paths import averaged

_RATE = 1.0


@experiment("cho-figure-3", paper=CHO, where="Figure 3 and section 2.2", seconds=1)
def figure_3(run: Run) -> Iterator[Claim | Panel | Table]:
    """Expected freshness and age of a copy in the time between two polls.

    Draw e^(-rate t) and t (1 - (1-e^-x)/x), x = rate t, and the mean of simulated copies at some times.
    """
    copies = run.some(40_000, 4_000)
    moments = np.array([0.1, 0.3, 0.5, 0.7, 0.9, 1.1, 1.3, 1.5, 1.7, 1.9])
    mean, error = averaged(run, _RATE, copies, np.array([0.0, 1.0]), moments)

    fresh_after, age_after = unstale.poisson.freshness_after, unstale.poisson.age_after
    expected = np.array([fresh_after(_RATE, moments % 1.0), age_after(_RATE, moments % 1.0)])
    off = np.abs(mean - expected) / error
    yield ours("farthest simulated point is within 5 standard errors", computed=bool(off.max() < 5.0))
    yield ours(
        "expected age, rate 2.1, 0.37 after the poll",
        computed=float(age_after(2.1, 0.37)),
        expected=0.11275394963360247,
        close=1e-14,
        why="by quadrature of (t - s) rate e^(-rate s) over s",
    )
    long, short = 1e6, 1e-6
    yield statement(
        "freshness",
        says="1 at the poll, towards 0 as time passes",
        holds=bool(fresh_after(_RATE, 0.0) == 1.0 and fresh_after(_RATE, 1000.0) < 1e-300),
    )
    yield statement(
        "age",
        says="0 at the poll, about the time since the poll when that is long",
        holds=bool(age_after(_RATE, short) < short and abs(age_after(_RATE, long) / long - 1.0) < 1e-5),
    )

    times = np.linspace(0.0, 2.0, 401)
    since = np.where(times < 1.0, times, times - 1.0)
    curves = fresh_after(_RATE, since), age_after(_RATE, since)
    for row, (name, unit) in enumerate(
        (("freshness", "freshness (probability)"), ("age", "age (polling intervals)"))
    ):
        yield Panel(
            title=f"Expected {name} of an element that changes once per interval on average",
            x="time (polling intervals; polls at 0, 1 and 2)",
            y=unit,
            lines=[
                Line.of("formula", times, curves[row]),
                Line.of(
                    f"mean of {copies:,} simulated copies", moments, mean[row], "points", error=error[row]
                ),
            ],
        )
