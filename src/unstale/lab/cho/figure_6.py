"""Freshness and age against the number of changes per poll, in three orders."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import unstale
from unstale.arguments import Floats
from unstale.lab.experiment import CHO, Claim, Line, Panel, Run, Table, experiment, number, ours, statement

from ._orders import NAMES, ORDERS, simulated


@experiment("cho-figure-6", paper=CHO, where="Figure 6 and section 4", seconds=4)
def figure_6(run: Run) -> Iterator[Claim | Panel | Table]:
    """Fixed order is fresher and younger than random order, and that than purely random order.

    Curves by the formulas of Table 2, points by simulation, and what section 4 reads from them.
    """
    ratios = [0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0]
    points = simulated(run, ratios, polls=run.some(1e6, 5e4))
    curve = np.linspace(0.0, 5.0, 251)
    fresh, old = ([f(curve, 1.0, order) for order in ORDERS] for f in (unstale.freshness, unstale.age))
    yield from _claims(fresh, old)

    x = "changes per poll (r = change rate / frequency)"
    for title, unit, f, curves in (
        ("Freshness", "freshness (share of time)", unstale.freshness, fresh),
        ("Age", "age (polling intervals)", unstale.age, old),
    ):
        what = title.lower()
        dots = {order: (getattr(one, what), getattr(one, f"{what}_error")) for order, one in points.items()}
        off = [np.abs(y - f(np.array(ratios), 1.0, order)) / error for order, (y, error) in dots.items()]
        yield ours(
            f"{what}: each simulated point is within 5 standard errors of its curve",
            computed=bool(np.max(off) < 5.0),
        )
        yield Panel(
            title=title,
            x=x,
            y=unit,
            bounds=(0.0, 1.0),
            lines=[
                *(Line.of(name, curve, one) for name, one in zip(NAMES, curves, strict=True)),
                *(
                    Line.of(f"{name}, simulated", ratios, dots[order][0], "points", error=dots[order][1])
                    for name, order in zip(NAMES, ORDERS, strict=True)
                ),
            ],
        )


def _claims(fresh: list[Floats], old: list[Floats]) -> Iterator[Claim]:
    fixed, random, pure = (float(unstale.freshness(1.0, 1.0, order)) for order in ORDERS)
    aged = [float(unstale.age(1.0, 1.0, order)) for order in ORDERS]
    enough = float(unstale.frequency_for(1.0, 0.8))
    yield number("freshness at r = 1, fixed order", published=0.63, computed=fixed, within=0.005)
    yield number("r at freshness 0.8, fixed order", published=0.46, computed=1.0 / enough, within=0.005)
    yield number(
        "polls per change for freshness 0.8",
        published=2.0,
        computed=enough,
        within=0.05,
        nearly=0.2,
        why=f"2 is rounded down, and buys a freshness of {float(unstale.freshness(1.0, 2.0)):.3f} only",
    )
    yield number(
        "gain of fixed over purely random order in freshness at r = 1 (%)",
        published=30.0,
        computed=100.0 * (fixed / pure - 1.0),
        within=0.5,
        nearly=5.0,
        why="26.4 %, rounded generously",
    )
    yield number(
        "age in fixed order over age in random order at r = 1",
        published=0.25,
        computed=aged[0] / aged[1],
        within=0.005,
        right=0.7189963234284032,
        close=1e-9,
        why="a quarter is right of purely random order, which must be meant",
    )
    yield ours(
        "age in fixed order over age in purely random order at r = 1",
        computed=aged[0] / aged[2],
        expected=0.26424111765711535,
        close=1e-9,
        why="about a quarter",
    )
    ratios = np.geomspace(1e-4, 1e4, 400)
    ranked = [np.array([f(ratios, 1.0, order) for order in ORDERS]) for f in (unstale.freshness, unstale.age)]
    yield statement(
        "orders, for r from 0.0001 to 10000",
        says="fixed order is best by both measures; the more intervals vary, the worse",
        holds=bool((np.diff(ranked[0], axis=0) < 0).all() and (np.diff(ranked[1], axis=0) > 0).all()),
    )
    yield statement(
        "shape",
        says="freshness goes from 1 to 0 and age rises from 0 as r grows",
        holds=all(
            one[0] == 1.0 and (np.diff(one) < 0).all() and float(unstale.freshness(1e9, 1.0, order)) < 1e-8
            for one, order in zip(fresh, ORDERS, strict=True)
        )
        and all(one[0] == 0.0 and (np.diff(one) > 0).all() for one in old),
    )
    yield ours("freshness at r = 1, random order", computed=random, expected=0.600423599106272, close=1e-12)
    for name, order, limit in zip(NAMES, ORDERS, (1 / 2, 7 / 12, 1.0), strict=True):
        yield ours(
            f"age when changes are far more frequent than polls, {name}",
            computed=float(unstale.age(1e9, 1.0, order)),
            expected=limit,
            close=1e-8,
            why="in polling intervals; it cannot grow beyond that",
        )
