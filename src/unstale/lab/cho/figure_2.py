"""Freshness and age of one copy as time goes by, and of a database of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import unstale
from unstale.arguments import Floats
from unstale.lab.experiment import CHO, Claim, Line, Panel, Run, Table, experiment, ours, statement

from ._paths import followed

_RATE, _ELEMENTS, _SHOWN_TIME = 1.0, 200, 10.0


@experiment("cho-figure-2", paper=CHO, where="Figure 2, section 2.1 and theorem 1", seconds=1)
def figure_2(run: Run) -> Iterator[Claim | Panel | Table]:
    """Freshness and age of a copy, and of a database, as time goes by.

    Poll 200 elements that change once a day, each once a day, and follow them.
    """
    days = run.some(1000.0, 200.0)
    rates = np.full(_ELEMENTS, _RATE)
    changes = unstale.World(rates).changes(run.seed).until(_SHOWN_TIME)
    own = np.split(changes.times, changes.offsets[1:-1])
    times = np.linspace(1.01, _SHOWN_TIME, run.some(3601, 1801))
    polls = [np.arange(phase, _SHOWN_TIME, 1.0) for phase in (np.arange(_ELEMENTS) + 0.5) / _ELEMENTS]
    paths = np.array([followed(*each, times) for each in zip(own, polls, strict=True)])
    fresh, old = paths[0]

    stale, rise = fresh[1:] == 0.0, np.diff(old) / np.diff(times)
    onward = stale & (fresh[:-1] == 0.0) & (np.diff(np.floor(times - polls[0][0])) == 0)
    yield statement(
        "one copy",
        says="freshness is 1 or 0; age is 0 while fresh, and grows as time passes once the element changed",
        holds=bool(
            set(np.unique(fresh)) == {0.0, 1.0}
            and (old[fresh == 1.0] == 0.0).all()
            and np.allclose(rise[onward], 1.0)
        ),
    )
    after = followed(own[0], polls[0], polls[0])
    yield statement(
        "at each poll",
        says="freshness recovers to 1 and age drops to 0",
        holds=bool((after[0] == 1.0).all() and (after[1] == 0.0).all()),
    )
    various = np.geomspace(0.1, 10.0, _ELEMENTS)
    yield statement(
        "theorem 1, elements that change every 10 days to 10 times a day",
        says="freshness and age of the database are the means of those of its elements",
        holds=_means(
            _database(run, various, run.some(200.0, 40.0)),
            np.array([unstale.freshness(various, 1.0), unstale.age(various, 1.0)]),
        ),
    )
    result = unstale.simulate(
        rates, _ELEMENTS, policies=["uniform"], horizon=days, burn_in=2.0, seed=run.seed
    )["uniform"]
    for what, computed, error, expected in (
        ("freshness", result.freshness, result.freshness_error, float(unstale.freshness(_RATE, 1.0))),
        ("age in days", result.age, result.age_error, float(unstale.age(_RATE, 1.0))),
    ):
        yield ours(
            f"{what}, simulated mean over time beside the formula",
            computed=computed,
            expected=expected,
            close=5.0 * error,
        )

    everyone = paths.mean(axis=0)
    for row, name, unit, average in (
        (0, "Freshness", "freshness", float(unstale.freshness(_RATE, 1.0))),
        (1, "Age", "age (days)", float(unstale.age(_RATE, 1.0))),
    ):
        yield Panel(
            title=f"{name} of one copy, of {_ELEMENTS}, and over time",
            x="time (days)",
            y=unit,
            lines=[
                Line.of("one element", times, paths[0, row]),
                Line.of("database", times, everyone[row]),
                Line.of("time average (formula)", times, np.full_like(times, average)),
                *(
                    Line.of(label, when[when >= times[0]], np.full((when >= times[0]).sum(), level), "points")
                    for label, when, level in (("polls", polls[0], 1.0 - row), ("changes", own[0], 0.0))
                ),
            ],
        )


def _database(run: Run, rates: Floats, days: float) -> Floats:
    """Follow all elements, each polled once a day; return the database's freshness and age, day by day.

    At a random moment of each day, for all of them alike.
    """
    changes = unstale.World(rates).changes(run.seed + 1).until(days)
    own = np.split(changes.times, changes.offsets[1:-1])
    rng = run.rng(2)
    times = np.arange(1.0, days - 1.0) + rng.random(int(days) - 2)
    paths = [followed(one, np.arange(rng.random(), days, 1.0), times) for one in own]
    return np.mean(paths, axis=0)


def _means(database: Floats, elements: Floats) -> bool:
    """Whether the database, over time, is as fresh and as old as its elements are by their formulas."""
    days = database.shape[1]
    error = database.std(axis=1, ddof=1) / np.sqrt(days)
    return bool((np.abs(database.mean(axis=1) - elements.mean(axis=1)) < 5.0 * error).all())
