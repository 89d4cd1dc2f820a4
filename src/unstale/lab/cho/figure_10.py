"""The best frequency of an element as a function of its change rate."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import unstale
from unstale.lab.experiment import CHO, Claim, Line, Panel, Run, Table, experiment, number, ours, statement

from ._example_4 import BUDGET, RATES, best


@experiment("cho-figure-10", paper=CHO, where="Figure 10 and section 5.3", seconds=0.5)
def figure_10(run: Run) -> Iterator[Claim | Panel | Table]:
    """The best frequency by change rate, for freshness and for age.

    Draw the curves on which the best frequencies of Example 4 lie.
    """
    fresh, old = best("freshness"), best("age")
    curve = unstale.poisson.curve_frequency
    f = fresh.frequencies
    yield number(
        "change rate beyond which frequencies fall",
        published=2.5,
        computed=unstale.poisson.curve_peak(fresh.price)[0],
        within=0.05,
    )
    yield statement(
        "element 4 and element 2",
        says="element 4 changes twice as often, and is polled less",
        holds=bool(f[3] < f[1]),
    )
    yield statement(
        "element 5", says="it changes most often, and is not polled at all", holds=bool(f[4] == 0.0)
    )
    yield statement(
        "for age",
        says="the more often an element changes, the more often it is polled",
        holds=bool((np.diff(old.frequencies) > 0).all()),
    )
    apart = [float(np.abs(old.frequencies - other).max()) for other in (1.0, BUDGET * RATES / RATES.sum())]
    yield statement(
        "the five elements, for age",
        says="all frequencies are close to 1, so nearer to uniform than to proportional",
        holds=apart[0] < 0.2 and apart[0] < apart[1],
    )
    rates = run.rng(10).lognormal(0.0, 2.0, 50)
    for objective, power in (("freshness", 1.0), ("age", 0.5)):
        plan = unstale.plan(rates, 40.0, objective=objective)
        scale = plan.price**power  # by which both axes shrink to the curve at price 1
        polled = plan.frequencies > 0
        gain = unstale.worth(objective, rates[polled] * scale, 1.0 / (plan.frequencies[polled] * scale))
        beyond = rates[~polled] * scale >= 1.0 - 1e-9  # where the curve for freshness is 0
        yield statement(
            f"50 other rates, for {objective}",
            says="the curve is the same but for its scale",
            holds=bool(np.abs(gain - 1.0).max() < 1e-9 and beyond.all()),
        )
    yield ours(
        "frequency for age that no element exceeds",
        computed=float(curve(1e9, old.price, "age")),
        expected=1.1459066774631438,
        close=1e-8,
        why="1/sqrt(2 price)",
    )
    for label, plan in (("freshness", fresh), ("age", old)):
        top = 5.5
        x = np.unique(np.append(np.linspace(0.0, top, run.some(551, 276)), np.minimum(1.0 / plan.price, top)))
        yield Panel(
            title=f"Best frequencies for {label}, five polls a day",
            x="change rate (changes per day)",
            y="frequency (polls per day)",
            bounds=(-0.05, None),
            lines=[
                Line.of("best frequency by change rate", x, curve(x, plan.price, label)),
                Line.of("uniform", x, np.ones_like(x)),
                Line.of("proportional", x, BUDGET * x / RATES.sum()),
                Line.of("the five elements", RATES, plan.frequencies, "points"),
            ],
        )
