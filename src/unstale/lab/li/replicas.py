"""Section VI-D: several replicas of one source, which take turns or poll each for itself."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import unstale
from unstale.lab.experiment import LI, Claim, Line, Panel, Run, experiment, number, ours, statement

from ._simulated import spread

_COUNTS = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32])


@experiment("li-replicas", paper=LI, where="Section VI-D", seconds=1)
def replicas(run: Run) -> Iterator[Claim | Panel]:
    """The freshest of several replicas, in turns and independent, at equal polls in total.

    Compare replicas in turns, independent ones and random polls.
    """
    yield from _figure(run)
    for penalty, factor in (("1", 2.0), ("x", 6.0)):
        constant = _penalty(unstale.Periodic(1.0), penalty)
        yield number(
            f"penalty of random polls over constant ones, w = {penalty}",
            published=factor,
            computed=_penalty(unstale.Poisson(1.0), penalty) / constant,
            within=1e-9,
        )
    for penalty, percent, right in (("1", 100.0, 100.0), ("x", 500.0, 144.94897427831780)):
        yield number(
            f"more polls, in percent, that random ones need for the same penalty, w = {penalty}",
            published=percent,
            computed=100.0 * (_factor(penalty) - 1.0),
            within=1e-6,
            right=right,
            close=1e-6,
            why="" if penalty == "1" else "the penalty falls with the square of the frequency, so 6 times the"
            " penalty is made up for by the root of 6 times the polls",
        )  # fmt: skip


def _penalty(polls: unstale.Process, penalty: str) -> float:
    return float(unstale.renewal.update_penalty(unstale.Poisson(1.0), polls, penalty))


def _factor(penalty: str) -> float:
    """Return how many random polls make up for one at constant intervals."""
    from scipy import optimize

    wanted = _penalty(unstale.Periodic(1.0), penalty)
    return float(
        optimize.brentq(lambda f: _penalty(unstale.Poisson(f), penalty) - wanted, 1.0, 10.0, xtol=1e-13)
    )


def _missed(count: int, *, coordinated: bool) -> float:
    each = unstale.Periodic(float(count))
    polls = unstale.renewal.replicas(each, count, coordinated=coordinated)
    return float(unstale.renewal.missed_updates(unstale.Poisson(1.0), polls))


def _figure(run: Run) -> Iterator[Claim | Panel]:
    turns = np.array([_missed(int(m), coordinated=True) for m in _COUNTS])
    alone = np.array([_missed(int(m), coordinated=False) for m in _COUNTS])
    tried = _COUNTS[[1, 3, 5, 7]]
    found, error = np.transpose([_simulated(run, int(m)) for m in tried])
    yield Panel(
        title="The freshest of several replicas",
        x="replicas (together a poll per change)",
        y="missed changes (mean)",
        log="x",
        bounds=(0.0, 1.1),
        lines=[
            Line.of("in turns", _COUNTS, turns),
            Line.of("independent", _COUNTS, alone),
            Line.of("independent, simulated", tried, found, "points", error=error),
            Line.of("random polls", _COUNTS, np.ones(_COUNTS.size)),
        ],
    )
    yield statement(
        "replicas in turns", says="cost exactly what a single one does", holds=np.ptp(turns) < 1e-12
    )
    yield statement(
        "many independent replicas",
        says="are like random polls",
        holds=bool(np.all(np.diff(alone) > 0) and abs(alone[-1] - 1.0) < 0.05),
    )
    off = np.abs(found - np.interp(tried, _COUNTS, alone)) / error
    yield ours("simulated replicas are as the formula says", computed=bool(off.max() < 4.0))


def _simulated(run: Run, count: int) -> tuple[float, float]:
    n = run.some(4000, 500)
    streams = unstale.schedule.replicas(np.full(n, 1.0 / count), count, coordinated=False, seed=run.seed)
    outcome = unstale.simulate(
        np.ones(n),
        1.0,
        policies={"it": unstale.schedule.Together(streams)},
        horizon=60.0,
        burn_in=40.0,
        seed=run.seed,
    )["it"]
    mean, error = spread(outcome.elements.missed_updates, 1)
    return float(mean[0]), float(error[0])
