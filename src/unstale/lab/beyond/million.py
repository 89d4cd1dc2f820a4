"""How long the exact plan takes for very many elements."""

from collections.abc import Iterator
from time import perf_counter

import numpy as np

import unstale
from unstale.lab.experiment import BEYOND, Claim, Line, Panel, Run, Table, cannot, experiment, ours


@experiment("beyond-million", paper=BEYOND, where="plans for very many elements", seconds=2.0)
def million(run: Run) -> Iterator[Claim | Panel | Table]:
    """The time of an exact plan, by number of elements, beside one pass of NumPy.

    Plan for lognormal rates and weights, one poll for two elements, and time it.
    """
    rng = run.rng(10)
    counts = run.some((10_000, 100_000, 1_000_000, 10_000_000), (10_000, 100_000, 1_000_000))
    unstale.plan(np.ones(10_000), 1.0, weights=np.ones(10_000))  # compiled by now
    rows = []
    for count in counts:
        rates, weights = rng.lognormal(size=(2, count))
        seconds = pass_seconds = np.inf
        for _ in range(3):
            start = perf_counter()
            plan = unstale.plan(rates, 0.5 * count, weights=weights)
            middle = perf_counter()
            _ = rates * weights
            pass_seconds = min(pass_seconds, perf_counter() - middle)
            seconds = min(seconds, middle - start)
        rows.append((count, seconds, pass_seconds, seconds / pass_seconds, plan.gap))
        yield ours(f"{count:,} elements: proven distance from the best plan", computed=plan.gap, expected=0.0,
                   close=1e-9)  # fmt: skip
        yield ours(f"{count:,} elements: budget spent (share)", computed=plan.spent / (0.5 * count),
                   expected=1.0, close=1e-9)  # fmt: skip
    columns = np.transpose(rows)
    yield ours("a million elements take less than a minute", computed=bool(columns[1, 2] < 60.0))
    yield cannot("LambdaCrawl's solver, a million elements, freshness: seconds", published=9.0,
                 why="a time of another machine; ours is in the table")  # fmt: skip
    yield cannot("LambdaCrawl's solver, a million elements, its own objective: seconds",
                 published="33 to 490", why="times of another machine")  # fmt: skip
    yield Panel(
        title="Time of an exact plan",
        x="number of elements",
        y="time (seconds on this machine)",
        lines=[
            Line.of("exact plan", columns[0], columns[1]),
            Line.of("rates * weights, by NumPy", columns[0], columns[2]),
        ],
        log="xy",
    )
    names = (
        "elements",
        "seconds",
        "seconds of rates * weights",
        "ratio",
        "proven distance from the best plan",
    )
    yield Table("time of an exact plan", dict(zip(names, zip(*rows, strict=True), strict=True)))
