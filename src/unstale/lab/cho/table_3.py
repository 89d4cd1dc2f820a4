"""Formulas of freshness and age for gamma-distributed rates, and where they cannot be used as printed."""

from __future__ import annotations

from collections.abc import Iterator
from math import log, log1p, sqrt

import numpy as np

import unstale
from unstale.lab.experiment import CHO, Claim, Panel, Run, Table, experiment, ours, statement

_VARIANCES, _RATIOS = (0.1, 0.3, 0.6), (0.5, 2.0, 10.0)


def _printed(r: float, variance: float) -> tuple[float, float, float, float]:
    """Uniform freshness and age, proportional freshness and age, in polling intervals."""
    grown, left = 1.0 + r * variance, 1.0 - variance
    kept = (1.0 - np.exp(-r)) / r
    return (
        (1.0 - grown ** (1.0 - 1.0 / variance)) / (r * left),
        (left / 2 - 1 / r + (1.0 - grown ** (2.0 - 1.0 / variance)) / (r**2 * (1.0 - 2.0 * variance))) / left,
        kept,
        (1 / 2 - 1 / r + kept / r) / left,
    )


def _ours(r: float, variance: float) -> tuple[float, ...]:
    return tuple(
        float(f(r, sqrt(variance), 1.0, how))
        for how in ("uniform", "proportional")
        for f in (unstale.poisson.database_freshness, unstale.poisson.database_age)
    )


@experiment("cho-table-3", paper=CHO, where="Table 3 and appendix C", seconds=0.5)
def table_3(run: Run) -> Iterator[Claim | Panel | Table]:
    """Formulas of freshness and age for uniform and proportional allocation, gamma-distributed rates.

    Hold the printed formulas against ours, against databases drawn at random, and at their limits.
    """
    rows = [(v, r, _printed(r, v), _ours(r, v)) for v in _VARIANCES for r in _RATIOS]
    off = np.abs(np.array([np.subtract(printed, own) for *_, printed, own in rows])).max(axis=0)
    for k, what in enumerate(_MEASURES):
        yield statement(f"{what}, spread^2 0.1 to 0.6", says=_FORMULAS[k], holds=bool(off[k] < 1e-12))

    count, spread, r = run.some(1_000_000, 100_000), sqrt(0.6), 2.0
    rates = run.rng(3).gamma(1.0 / spread**2, r * spread**2, count)
    for what, drawn, expected in (
        ("freshness", unstale.freshness(rates, 1.0), _ours(r, 0.6)[0]),
        ("age", unstale.age(rates, 1.0), _ours(r, 0.6)[1]),
    ):
        yield ours(
            f"uniform {what} of {count:,} elements with rates drawn at random, r = 2, spread^2 0.6",
            computed=float(drawn.mean()),
            expected=expected,
            close=5.0 * float(drawn.std()) / sqrt(count),
        )
    yield statement(
        "proportional age, spread^2 2, r = 1",
        says=f"by the formula {_printed(1.0, 2.0)[3]:.3f} polling intervals",
        holds=bool(np.isfinite(_ours(1.0, 2.0)[3])),
        error="an age below 0 cannot be; from spread 1 on the mean of 1/rate, and so the age, is infinite",
    )
    yield ours(
        "uniform age, spread^2 2, r = 1", computed=_ours(1.0, 2.0)[1], expected=0.1012825258, close=1e-9
    )
    for r in (0.5, 1.0, 2.0):
        fresh, old, *_ = _ours(r, 1.0)
        zero = "the printed formula is 0/0 there; this is its limit"
        yield ours(
            f"uniform freshness, spread 1, r = {r:g}",
            computed=fresh,
            expected=log1p(r) / r,
            close=1e-12,
            why=zero,
        )
        yield ours(
            f"uniform age, spread 1, r = {r:g}",
            computed=old,
            expected=0.5 + 1 / r - (1 + r) * log1p(r) / r**2,
            close=1e-12,
            why=zero,
        )
        yield ours(
            f"uniform age, spread^2 1/2, r = {r:g}",
            computed=_ours(r, 0.5)[1],
            expected=2 * (0.25 - 1 / r + 2 * log(1 + r / 2) / r**2),
            close=1e-12,
            why=zero,
        )
    columns = {"spread^2": [row[0] for row in rows], "changes per poll": [row[1] for row in rows]}
    columns |= {what: [row[3][k] for row in rows] for k, what in enumerate(_MEASURES)}
    yield Table("Gamma-distributed rates (age in polling intervals)", columns)


_MEASURES = ("uniform freshness", "uniform age", "proportional freshness", "proportional age")
_FORMULAS = (
    "(1 - (1+r d)^(1-1/d)) / (r (1-d)), d = spread^2",
    "((1-d)/2 - 1/r + (1 - (1+r d)^(2-1/d)) / (r^2 (1-2d))) / (1-d)",
    "(1-e^-r)/r",
    "(1/2 - 1/r + (1-e^-r)/r^2) / (1-d)",
)
