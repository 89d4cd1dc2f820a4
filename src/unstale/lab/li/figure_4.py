"""Figure 4: how often a copy is less than so far behind."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import unstale
from unstale.arguments import Floats
from unstale.lab.experiment import LI, Claim, Line, Panel, Run, experiment, number, ours, statement

from ._simulated import CASES, Case, laws, play

_PRINTED = {"a": 0.98, "b": 0.62}
_EXACT = {"a": 0.9818181818181818, "b": 0.6240601503759399}


@experiment("li-figure-4", paper=LI, where="Figure 4", seconds=2)
def figure_4(run: Run) -> Iterator[Claim | Panel]:
    """Share of requests that see data less than so many days behind, at a poll per change.

    Hold equation 16 against simulated polls.
    """
    for case, title in CASES.items():
        longest = {"a": 0.5, "b": 4.0}[case]
        behind, tried = np.linspace(0.0, longest, run.some(61, 16)), longest * np.linspace(0.1, 1.0, 6)[:-1]
        pair = laws(case, 2.0)
        found, error = _simulated(run, case, tried)
        off = np.abs(found - unstale.renewal.share_within(*pair, tried)) / error
        yield Panel(
            title=f"({case}) {title}",
            x="allowed lag (days)",
            y="requests less behind than that (share)",
            bounds=(None, 1.0),
            lines=[
                Line.of("equation 16", behind, unstale.renewal.share_within(*pair, behind)),
                Line.of("simulated", tried, found, "points", error=error),
            ],
        )
        share = float(unstale.renewal.share_within(*pair, 0.4))
        yield number(
            f"({case}) share of requests less than 0.4 days behind",
            published=_PRINTED[case],
            computed=share,
            within=0.005,
        )
        yield ours(f"({case}) the same, to all digits", computed=share, expected=_EXACT[case], close=1e-9)
        yield statement(
            f"({case}) simulated points", says="the model matches simulations", holds=off.max() < 5.0
        )


def _simulated(run: Run, case: Case, allowed: Floats) -> tuple[Floats, Floats]:
    """Return the share of time less behind than allowed, and its error, from independent worlds.

    Bursts of polls last too long for the spread over time to tell the error.
    """
    goals, worlds = [unstale.currency(tau) for tau in allowed], run.some(24, 20)
    each = run.some(100, 15)
    shares = []
    for k in range(worlds):
        outcome = play(run, case, [2.0], objectives=goals, each=each, world=k)
        shares.append([1.0 - outcome.cost(goal) for goal in goals])
    return np.mean(shares, axis=0), np.std(shares, axis=0, ddof=1) / np.sqrt(worlds)
