"""Proportional against uniform allocation where change rates are gamma-distributed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import unstale
from unstale.arguments import Floats
from unstale.lab.experiment import CHO, Claim, Line, Panel, Run, Table, experiment, number, ours, statement

_RATIOS = (0.1, 1.0, 5.0, 20.0)


def _freshness(r: Floats | float, spread: Floats | float) -> Floats:
    """Return the freshness of proportional over that of uniform allocation."""
    f = unstale.poisson.database_freshness
    return f(r, spread, 1.0, "proportional") / f(r, spread, 1.0)


def _age(r: Floats | float, spread: Floats | float) -> Floats:
    """Return the age of uniform over that of proportional allocation."""
    f = unstale.poisson.database_age
    return f(r, spread, 1.0) / f(r, spread, 1.0, "proportional")


@experiment("cho-figure-7", paper=CHO, where="Figure 7 and section 5.1", seconds=0.5)
def figure_7(run: Run) -> Iterator[Claim | Panel | Table]:
    """Uniform beats proportional allocation for gamma-distributed rates.

    Draw the two surfaces as curves over the spread of the rates, one for each r.
    """
    count = run.some(121, 61)
    wide, narrow = np.linspace(0.0, 3.0, count), np.linspace(0.0, 1.0, count)
    grid = np.geomspace(0.01, 100.0, 41)[:, None]
    spreads = np.geomspace(0.01, 100.0, 41)
    fresh, old = _freshness(grid, spreads), _age(grid, spreads)
    yield statement(
        "uniform against proportional, r and spread from 0.01 to 100",
        says="uniform is fresher and younger for any r and spread",
        holds=bool((fresh < 1.0).all() and (old < 1.0).all()),
    )
    yield statement(
        "equal rates (spread 0)",
        says="both policies give the same freshness and age",
        holds=all(float(f(r, 0.0)) == 1.0 for f in (_freshness, _age) for r in _RATIOS),
    )
    yield statement(
        "growing spread",
        says="uniform gains the more on proportional, the more rates differ",
        holds=bool((np.diff(fresh) < 0).all() and (np.diff(old) <= 0).all()),
    )
    yield number(
        "ratio of freshness for a large spread (100), r = 1",
        published=0.0,
        computed=float(_freshness(1.0, 100.0)),
        within=0.005,
        right=0.6326398258949681,
        close=1e-9,
        why="uniform freshness tends to 1 as the spread grows, so the ratio tends to (1-e^-r)/r, here 0.632",
    )
    yield number(
        "ratio of ages for a large spread (1 or more), r = 1",
        published=0.0,
        computed=float(_age(1.0, 1.0)),
        within=0.0,
    )
    ratio = _age(np.array(_RATIOS)[:, None], np.array([0.25, 0.5, 0.75]))
    yield statement(
        "ratio of ages, r from 0.1 to 20, spread up to 0.75",
        says="it depends little on r",
        holds=bool((np.ptp(ratio, axis=0) / ratio.min(axis=0)).max() < 0.15),
    )
    yield statement(
        "ratio of freshness, spread 1",
        says="it depends much on r",
        holds=bool(_freshness(0.1, 1.0) > 0.95 and _freshness(20.0, 1.0) < 0.35),
    )
    for r, spread, expected in ((1.0, 0.5, 0.9714967604947096), (5.0, 0.99, 0.5583793880657401)):
        yield ours(
            f"ratio of freshness, r = {r:g}, spread {spread:g}",
            computed=float(_freshness(r, spread)),
            expected=expected,
            close=1e-12,
        )
    for r, spread, expected in ((1.0, 0.5, 0.7190402526473865), (5.0, 0.75, 0.3814252148087142)):
        yield ours(
            f"ratio of ages, r = {r:g}, spread {spread:g}",
            computed=float(_age(r, spread)),
            expected=expected,
            close=1e-12,
        )
    yield ours(
        "ratio of ages for very rare changes (r = 1e-8), spread 0.5",
        computed=float(_age(1e-8, 0.5)),
        expected=0.75,
        close=1e-7,
        why="1 - spread^2, and the same for very frequent ones: why r matters so little",
    )

    for title, f, x, name in (
        ("Freshness of proportional over uniform allocation", _freshness, wide, "ratio of freshness"),
        ("Age of uniform over proportional allocation", _age, narrow, "ratio of ages"),
    ):
        yield Panel(
            title=title,
            x="spread of change rates (standard deviation / mean)",
            y=f"{name} (uniform better: < 1)",
            bounds=(0.0, 1.02),
            lines=[Line.of(f"{r:g} change{'s' * (r != 1)} per poll", x, f(r, x)) for r in _RATIOS],
        )
