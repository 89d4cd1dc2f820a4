"""Figure 2: the line that divides pages that are polled from those that are not."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import unstale
from unstale.lab.experiment import AZAR, Claim, Line, Panel, Run, Table, experiment, ours, statement, taken


@experiment("azar-figure-2", paper=AZAR, where="Figure 2", seconds=1)
def figure_2(run: Run) -> Iterator[Claim | Panel | Table]:
    """A page is polled if its utility over its change probability is above a threshold.

    Draw pages, and mark those that the best probabilities leave out.
    """
    yield taken(pages="200, with change probabilities and utilities drawn evenly from 0 to 1")
    rng = run.rng(2)
    change, utility = 1.0 - rng.random((2, 200))
    polls = unstale.planning.random_optimal_slots(change, utility)
    kept = polls > 0
    ratio = utility / change
    root, load = np.sqrt(utility * change) / (1.0 - change), change / (1.0 - change)
    threshold = float((root[kept].sum() / (1.0 + load[kept].sum())) ** 2)  # equation 10, over those polled
    yield Panel(
        title="Pages that are polled, and those that are not",
        x="change probability (per slot)",
        y="utility",
        bounds=(0.0, 1.05),
        lines=[
            Line.of("polled", change[kept], utility[kept], "points"),
            Line.of("never polled", change[~kept], utility[~kept], "points"),
            Line.of(
                f"utility = {threshold:.3g} times change probability",
                [0.0, min(1.0, 1.0 / threshold)],
                [0.0, min(threshold, 1.0)],
            ),
        ],
    )
    order = np.argsort(ratio)
    yield Panel(
        title="Poll probability by that ratio",
        x="utility over change probability",
        y="poll probability (per slot)",
        log="x",
        lines=[
            Line.of("pages", ratio[order], polls[order], "points"),
            Line.of("threshold", [threshold, threshold], [0.0, polls.max()]),
        ],
    )
    yield statement(
        "the threshold",
        says="a page gets no polls if and only if its ratio is at most the threshold",
        holds=bool(np.array_equal(kept, ratio > threshold)),
    )
    best = float(utility @ unstale.poisson.discrete_freshness(change, polls))
    others = [
        float(utility @ unstale.poisson.discrete_freshness(change, one))
        for one in rng.dirichlet(np.ones(change.size), 100)
    ]
    yield statement(
        "caption: the solution",
        says="is the global minimum of freshness",
        holds=best <= min(others),
        error="it is the maximum, as the text says",
    )
    yield ours("no other probabilities that were tried are fresher", computed=best > max(others))
    worth = utility * change / (polls + change - polls * change) ** 2
    yield ours(
        "worth of a poll of the pages polled, over the threshold",
        computed=float(np.abs(worth[kept] / threshold - 1.0).max()),
        expected=0.0,
        close=1e-9,
    )
    yield ours("probabilities add up to", computed=polls.sum(), expected=1.0, close=1e-12)
