"""Formulas of freshness and age in three orders, beside ours and beside simulations."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import unstale
from unstale.arguments import Floats
from unstale.lab.experiment import CHO, Claim, Panel, Run, Table, experiment, ours, statement

from ._orders import NAMES, ORDERS, simulated


def _printed(r: Floats) -> tuple[tuple[str, Floats, Floats], ...]:
    """Rows of the table: formulas in words, freshness, and age in polling intervals."""
    kept = (1.0 - np.exp(-r)) / r
    return (
        ("(1-e^-r)/r and 1/2 - 1/r + (1-e^-r)/r^2", kept, 1 / 2 - 1 / r + kept / r),
        (
            "(1 - ((1-e^-r)/r)^2)/r and 1/3 + (1/2 - 1/r)^2 - ((1-e^-r)/r^2)^2",
            (1.0 - kept**2) / r,
            1 / 3 + (1 / 2 - 1 / r) ** 2 - (kept / r) ** 2,
        ),
        ("1/(1+r) and r/(1+r)", 1 / (1 + r), r / (1 + r)),
    )


@experiment("cho-table-2", paper=CHO, where="Table 2 and appendix B", seconds=3)
def table_2(run: Run) -> Iterator[Claim | Panel | Table]:
    """Formulas of freshness and age for fixed, random and purely random order.

    Evaluate the printed formulas, ours, and simulate, with the polling interval as unit of time.
    """
    wide = np.geomspace(0.01, 100.0, 81)
    for name, order, (formulas, fresh, old) in zip(NAMES, ORDERS, _printed(wide), strict=True):
        off = np.abs(unstale.freshness(wide, 1.0, order) - fresh), np.abs(unstale.age(wide, 1.0, order) - old)
        yield statement(name, says=formulas, holds=bool(np.max(off) < 1e-9))

    ratios = [0.1, 1.0, 5.0]
    points = simulated(run, ratios, polls=run.some(2e6, 1e5))
    printed = _printed(np.array(ratios))
    rows: list[tuple[object, ...]] = []
    for name, order, (_, fresh, old) in zip(NAMES, ORDERS, printed, strict=True):
        one = points[order]
        for k, r in enumerate(ratios):
            for what, formula, computed, error in (
                ("freshness", fresh[k], one.freshness[k], one.freshness_error[k]),
                ("age", old[k], one.age[k], one.age_error[k]),
            ):
                yield ours(
                    f"{what} simulated in {name}, r = {r:g}",
                    computed=computed,
                    expected=float(formula),
                    close=5.0 * float(error),
                    why=f"expected by the formula; standard error {error:.1g}",
                )
                rows.append((name, r, what, float(formula), float(computed), float(error)))
    names = ("order", "changes per poll", "measure", "formula", "simulated", "standard error")
    yield Table(
        "Formulas beside simulation (age in polling intervals)",
        dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)),
    )
