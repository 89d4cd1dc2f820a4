"""Figure 6: the penalty for all missed changes, if it fades with their age."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import unstale
from unstale.lab.experiment import LI, Claim, Line, Panel, Run, experiment, number, ours, statement

from ._simulated import Renewals

_RATE = 2.0  # changes a day
_WEIGHT = "1/(1+x)"
_SAVED = {0.1: 0.27751517088652183, 1.0: 0.5, 2.0: 0.5672093513510137, 10.0: 0.6759792813622865}


def _polls(f: np.ndarray | float) -> dict[str, unstale.Process]:
    f = np.asarray(f, float)
    bursty = unstale.Pareto(np.full(f.shape, 3.0), 1.0)
    return {"constant intervals": unstale.Periodic(1.0 / f), "Pareto intervals, shape 3": bursty.at_rate(f)}


def _penalties(f: np.ndarray | float) -> list[np.ndarray]:
    return [
        unstale.renewal.update_penalty(unstale.Poisson(_RATE), one, _WEIGHT) for one in _polls(f).values()
    ]


def _saved(f: np.ndarray | float) -> np.ndarray:
    constant, bursty = _penalties(f)
    return 1.0 - constant / bursty


@experiment("li-figure-6", paper=LI, where="Figure 6, equations 24 and 25", seconds=6)
def figure_6(run: Run) -> Iterator[Claim | Panel]:
    """Penalty that sums 1/(1+age) over all missed changes, polls at constant and at Pareto intervals.

    Hold equations 24 and 25 against simulated polls.
    """
    f, tried = np.geomspace(0.25, 16.0, run.some(61, 16)), np.geomspace(0.5, 8.0, run.some(5, 3))
    found = np.array([_simulated(run, one) for one in tried])  # frequency, polls, (mean, error)
    off = np.abs(found[:, :, 0].T - _penalties(tried)) / found[:, :, 1].T
    lines = [Line.of(name, f, y) for name, y in zip(_polls(1.0), _penalties(f), strict=True)]
    points = [
        Line.of(f"{name}, simulated", tried, found[:, k, 0], "points", error=found[:, k, 1])
        for k, name in enumerate(_polls(1.0))
    ]
    yield Panel(
        title="Penalty w = 1/(1+x) for each missed change",
        x="polls per day (2 changes per day)",
        y="penalty (weighted missed changes)",
        log="x",
        lines=[*lines, *points],
    )
    yield Panel(
        title="What constant intervals save",
        x="polls per day (2 changes per day)",
        y="share of the penalty of Pareto intervals",
        log="x",
        bounds=(0.0, 0.8),
        lines=[Line.of("saved", f, _saved(f)), Line.of("printed", [f[0], f[-1]], [0.6, 0.6])],
    )
    yield statement("simulated points", says="both models are accurate", holds=off.max() < 5.0)
    yield number(
        "share of the penalty that constant intervals save",
        published=0.6,
        computed=float(_saved(_RATE)),
        within=0.005,
        nearly=0.05,
        why="at a poll per change; it grows with the frequency from 0 to 3/4, and is 0.60 at 2.95 a day",
    )
    yield ours("the same at 2.94751 polls a day", computed=float(_saved(2.94751)), expected=0.6, close=1e-5)
    for frequency, saved in _SAVED.items():
        computed = float(_saved(frequency))
        yield ours(f"saved at {frequency:g} polls a day", computed=computed, expected=saved, close=1e-9)
    constant, bursty = (float(one) for one in _penalties(1.7))
    yield ours("equation 24 at 1.7 polls a day", computed=constant, expected=0.49816701851981017, close=1e-9)
    yield ours("equation 25 at 1.7 polls a day", computed=bursty, expected=1.1127937331355478, close=1e-9)
    yield number(
        "equation 25 at 2 polls a day, from the limit of the printed fraction, 0/0",
        published=2.0 * _RATE * 0.25,
        computed=float(_penalties(2.0)[1]),
        within=1e-9,
    )
    same = [
        float(unstale.renewal.update_penalty(law, unstale.Periodic(0.5), _WEIGHT))
        for law in (unstale.Poisson(_RATE), unstale.Pareto(1.4, 0.2), unstale.Periodic(0.5))
    ]
    yield statement(
        "theorem 6", says="only the mean rate of changes matters", holds=np.ptp(same) < 1e-9 * same[0]
    )


def _simulated(run: Run, frequency: float) -> list[tuple[float, float]]:
    """Return the mean penalty and its error under both kinds of polls, from independent worlds.

    Bursts of polls last too long for the spread over time to tell the error.
    """
    n, worlds, penalty = run.some(100, 15), run.some(24, 20), unstale.UpdatePenalty(_WEIGHT)
    means = []
    for k in range(worlds):
        streams: dict[str, unstale.schedule.Stream] = {
            "constant": unstale.Schedule(np.full(n, frequency)),
            "bursty": Renewals(_polls(np.full(n, frequency))["Pareto intervals, shape 3"], run.rng(6, k)),
        }
        result = unstale.simulate(
            np.full(n, _RATE), 1.0, policies=streams, horizon=200.0, burn_in=100.0, seed=run.seed + 1000 * k,
            objectives=[penalty], batches=2,
        )  # fmt: skip
        means.append([one.cost(penalty) for one in result.values()])
    return list(zip(np.mean(means, axis=0), np.std(means, axis=0, ddof=1) / np.sqrt(worlds), strict=True))
