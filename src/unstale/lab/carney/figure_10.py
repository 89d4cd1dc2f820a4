"""Figure 10: where polls and bandwidth go if elements have sizes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import unstale
from unstale.arguments import Floats
from unstale.lab.experiment import (
    CARNEY,
    Claim,
    Line,
    Panel,
    Run,
    Table,
    cannot,
    experiment,
    number,
    ours,
    statement,
)

from ._world import ELEMENTS_OF_TABLE_2, PERCEIVED_Y, change_rates, pareto_sizes

BUDGET = 250.0
SHAPE = 1.183015488002241
"""Of a Pareto law of mean 1, for which the printed 0.586 comes out; the 500 sizes have another mean."""
NORMALISED = 1.03713574344143
"""The same if the sizes are divided by their mean."""


@experiment("carney-figure-10", paper=CARNEY, where="Figure 10", seconds=0.5)
def figure_10(run: Run) -> Iterator[Claim | Panel | Table]:
    """Polls and bandwidth with equal and with Pareto sizes; what knowing sizes is worth.

    Plan for 500 elements, all wanted alike, of which the fastest are the largest.
    """
    rates, sizes = change_rates(ELEMENTS_OF_TABLE_2, 1.0), pareto_sizes(ELEMENTS_OF_TABLE_2, SHAPE)
    blind, aware = unstale.plan(rates, BUDGET), unstale.plan(rates, BUDGET, sizes=sizes)
    used = float(sizes @ blind.frequencies)
    scaled = float(unstale.freshness(rates, blind.frequencies * BUDGET / used).mean())
    yield number("equal sizes (sizes ignored)", published=0.312, computed=blind.freshness, within=0.0005)
    yield cannot(
        "sizes taken into account", published=0.586,
        why="the shape of the Pareto law is not stated; at 1.183 it is 0.586, at 1.1 0.67 and at 1.5 0.46; if"
        " the sizes, not their law, have the mean 1 of section 5.3, at 1.037, at 1.1 0.56 and at 1.5 0.45",
    )  # fmt: skip
    yield ours(f"Pareto sizes, shape {SHAPE:.3f}", computed=aware.freshness, expected=0.586, close=1e-9)
    yield ours(f"mean of these {ELEMENTS_OF_TABLE_2} sizes", computed=float(sizes.mean()),
               expected=0.7220686434156636, close=1e-9,
               why="that of the law is 1; it lacks the largest, so polls are cheap")  # fmt: skip
    yield from _normalised(rates, blind)
    yield number(
        "section 5.3: freshness with sizes against without, from the printed 0.586 and 0.312",
        published=0.586 / 0.312, computed=aware.freshness / scaled, within=0.005,
        right=0.586 / 0.5654379881580365, close=1e-6,
        why="the schedule of 0.312 spends 61 of 250 units on these sizes; with all of them it reaches 0.565",
    )  # fmt: skip
    yield ours("bandwidth that the schedule without sizes uses", computed=used, expected=61.34123020047238,
               close=1e-6)  # fmt: skip
    yield ours("its freshness at the full budget", computed=scaled, expected=0.5654379881580365, close=1e-9)
    yield ours("polls with Pareto sizes", computed=float(aware.frequencies.sum()), expected=898.3030107141262,
               close=1e-5)  # fmt: skip
    yield ours("share never polled, Pareto sizes", computed=float(np.mean(aware.frequencies == 0)),
               expected=0.134, close=1e-12)  # fmt: skip
    yield ours("share never polled, equal sizes", computed=float(np.mean(blind.frequencies == 0)),
               expected=0.264, close=1e-12)  # fmt: skip
    yield statement(
        "polls in total", says="are more in the Pareto case", holds=aware.frequencies.sum() > BUDGET
    )
    yield statement(
        "polls, equal and Pareto sizes",
        says="all go to the elements with the lowest change rates",
        holds=all(_slowest_only(one.frequencies) for one in (blind, aware)),
    )
    some, most = int(aware.frequencies.argmax()), int((sizes * aware.frequencies).argmax())
    yield statement(
        "a smaller element",
        says="can be given more polls and use less bandwidth",
        holds=sizes[some] < sizes[most]
        and sizes[some] * aware.frequencies[some] < sizes[most] * aware.frequencies[most],
    )
    number_of = np.arange(1, ELEMENTS_OF_TABLE_2 + 1)  # element 1 changes most
    for title, unit, with_sizes in (
        ("(a) Polls", "frequency (polls per period)", aware.frequencies),
        ("(b) Bandwidth", "bandwidth (units of size per period)", aware.frequencies * sizes),
    ):
        yield Panel(
            title=title,
            x="element (1 changes most, and is largest)",
            y=unit,
            lines=[
                Line.of("equal sizes", number_of, blind.frequencies[::-1]),
                Line.of("Pareto sizes", number_of, with_sizes[::-1]),
            ],
        )
    yield _by_shape(rates, blind, run.some(40, 12))


def _normalised(rates: Floats, blind: unstale.Plan) -> Iterator[Claim]:
    """Divide sizes by their mean, so that it is 1 as section 5.3 says."""
    sizes = _of_mean_1(NORMALISED)
    used = float(sizes @ blind.frequencies)
    aware = unstale.plan(rates, BUDGET, sizes=sizes).freshness
    scaled = float(unstale.freshness(rates, blind.frequencies * BUDGET / used).mean())
    what = f"sizes divided by their mean, shape {NORMALISED:.3f}"
    yield ours(what, computed=aware, expected=0.586, close=1e-9)
    yield ours(f"{what}: bandwidth that the schedule without sizes uses", computed=used,
               expected=59.98731034587193, close=1e-6)  # fmt: skip
    yield ours(f"{what}: its freshness at the full budget", computed=scaled, expected=0.5684576047486384,
               close=1e-9)  # fmt: skip
    yield ours(f"{what}: freshness with sizes against without, at the full budget", computed=aware / scaled,
               expected=0.586 / 0.5684576047486384, close=1e-9)  # fmt: skip
    yield ours("sizes divided by their mean, shape 1: freshness",
               computed=unstale.plan(rates, BUDGET, sizes=_of_mean_1(1.0 + 1e-9)).freshness,
               why="below, the law has no mean; so 0.586 takes one that hardly has one")  # fmt: skip


def _of_mean_1(shape: float) -> Floats:
    sizes = pareto_sizes(ELEMENTS_OF_TABLE_2, shape)
    return sizes / sizes.mean()


def _slowest_only(frequencies: Floats) -> bool:
    """Whether those that are polled come first in the order of rates."""
    polled = frequencies > 0
    return bool(polled[: np.count_nonzero(polled)].all())


def _by_shape(rates: Floats, blind: unstale.Plan, count: int) -> Panel:
    shapes = np.linspace(1.04, 2.5, count)
    aware, scaled, normalised = [], [], []
    for shape in shapes:
        sizes = pareto_sizes(ELEMENTS_OF_TABLE_2, shape)
        aware.append(unstale.plan(rates, BUDGET, sizes=sizes).freshness)
        normalised.append(unstale.plan(rates, BUDGET, sizes=_of_mean_1(shape)).freshness)
        used = float(sizes @ blind.frequencies)
        scaled.append(float(unstale.freshness(rates, blind.frequencies * BUDGET / used).mean()))
    return Panel(
        title="(c) What knowing the sizes is worth",
        x="shape of the Pareto law (mean 1)",
        y=PERCEIVED_Y,
        lines=[
            Line.of("sizes known", shapes, aware),
            Line.of("sizes known, divided by their mean", shapes, normalised),
            Line.of("sizes ignored, same bandwidth", shapes, scaled),
            Line.of("sizes ignored, as printed", shapes, np.full(count, blind.freshness)),
            Line.of("printed: 0.586", [NORMALISED, SHAPE], [0.586, 0.586], "points"),
        ],
    )
