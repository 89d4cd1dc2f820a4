"""Figure 3: how often a copy is stale, if changes or polls are bursty."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import unstale
from unstale.lab.experiment import LI, Claim, Line, Panel, Run, experiment, number, ours, statement

from ._simulated import CASES, laws, play, spread

_PRINTED = {"a": 0.33, "b": 0.66}
_TRUNCATED = "two thirds, with the last digit cut off rather than rounded"


@experiment("li-figure-3", paper=LI, where="Figure 3", seconds=6)
def figure_3(run: Run) -> Iterator[Claim | Panel]:
    """Staleness against download rate: burstiness of polls costs four times the polls.

    Hold equation 14 against simulated polls.
    """
    f, tried = np.geomspace(0.25, 16.0, run.some(61, 13)), np.geomspace(0.5, 16.0, 6)
    for case, title in CASES.items():
        outcome = play(run, case, tried)
        found, error = spread(1.0 - outcome.elements.freshness, tried.size)
        off = np.abs(found - unstale.renewal.staleness(*laws(case, tried))) / error
        yield Panel(
            title=f"({case}) {title}",
            x="polls per day (2 changes per day)",
            y="staleness (share of time)",
            log="x",
            bounds=(0.0, 1.0),
            lines=[
                Line.of("equation 14", f, unstale.renewal.staleness(*laws(case, f))),
                Line.of("simulated", tried, found, "points", error=error),
            ],
        )
        yield number(
            f"({case}) staleness at a poll per change",
            published=_PRINTED[case],
            computed=float(unstale.renewal.staleness(*laws(case, 2.0))),
            within=0.005,
            nearly=0.01,
            why=_TRUNCATED if case == "b" else "",
        )
        yield statement(
            f"({case}) simulated points", says="the model matches simulations", holds=off.max() < 4.0
        )
    factors = [_factor(one) for one in run.some((0.3, 1.0, 2.0, 7.0), (0.3, 7.0))]
    yield number(
        "polls that bursty downloads need over constant ones, for the same staleness",
        published=4.0,
        computed=float(np.mean(factors)),
        within=0.5,
        why="roughly, the paper says; it is exactly 4 at any staleness",
    )
    yield ours("that factor varies by", computed=float(np.ptp(factors)), expected=0.0, close=1e-9)


def _factor(f: float) -> float:
    """Return the factor on bursty polls that makes up for their burstiness."""
    from scipy import optimize

    wanted = float(unstale.renewal.staleness(*laws("a", f)))

    def excess(k: float) -> float:
        return float(unstale.renewal.staleness(*laws("b", k * f))) - wanted

    return float(optimize.brentq(excess, 1.0, 10.0, xtol=1e-13))
