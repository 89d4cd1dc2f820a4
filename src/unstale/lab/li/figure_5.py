"""Figure 5: how far copies are behind."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import unstale
from unstale.lab.experiment import LI, Claim, Line, Panel, Run, experiment, number, ours, statement

from ._simulated import CASES, lag_between_bursty_polls, laws, play, spread

_PRINTED = {"a": (0.06, 0.005, 1.5, 0.05), "b": (0.8, 0.05, 19.0, 0.5)}


@experiment("li-figure-5", paper=LI, where="Figure 5", seconds=5)
def figure_5(run: Run) -> Iterator[Claim | Panel]:
    """Mean lag behind the source against download rate.

    Hold equation 17 against simulated polls.
    """
    f, tried = np.geomspace(0.5, 16.0, run.some(61, 16)), np.geomspace(0.5, 16.0, 6)
    for case, title in CASES.items():
        found, error = (
            spread(play(run, case, tried).elements.age, tried.size)
            if case == "a"
            else lag_between_bursty_polls(run, tried.tolist(), run.some(60_000, 10_000))
        )
        yield Panel(
            title=f"({case}) {title}",
            x="polls per day (2 changes per day)",
            y="mean lag (days)",
            log="xy",
            lines=[
                Line.of("equation 17", f, unstale.renewal.source_penalty(*laws(case, f), "x")),
                Line.of("simulated", tried, found, "points", error=error),
            ],
        )
        days, day_digit, hours, hour_digit = _PRINTED[case]
        lag = float(unstale.renewal.source_penalty(*laws(case, 2.0), "x"))
        yield number(
            f"({case}) mean lag at a poll per change, days", published=days, computed=lag, within=day_digit
        )
        yield number(f"({case}) the same, hours", published=hours, computed=24.0 * lag, within=hour_digit)
        off = np.abs(found - unstale.renewal.source_penalty(*laws(case, tried), "x")) / error
        yield statement(
            f"({case}) simulated points", says="the model matches simulations", holds=off.max() < 4.0
        )
    exact = 2.0 * np.log(1.5)
    lags = [float(unstale.renewal.source_penalty(*laws(case, 2.0), "x")) for case in CASES]
    yield ours("(a) mean lag against 2 ln 1.5 - 3/4", computed=lags[0], expected=exact - 0.75, close=1e-9)
    yield ours("(b) mean lag against 2 ln 1.5", computed=lags[1], expected=exact, close=1e-9)
    found, error = lag_between_bursty_polls(run, [2.0], run.some(200_000, 20_000))
    yield ours(
        "(b) mean lag at a poll per change, simulated",
        computed=found[0],
        expected=exact,
        close=4.0 * error[0],
        why=f"give or take {error[0]:.4f}; gaps between polls are drawn by the square of their length, since"
        " plain averages of a lag without a variance do not settle",
    )
    found, error = spread(play(run, "b", [2.0], shape=6.0).elements.age, 1)
    yield ours(
        "(b) with shape 6: mean lag, simulated",
        computed=found[0],
        expected=0.43885030864197533,
        close=4.0 * error[0],
    )
