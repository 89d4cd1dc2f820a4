"""Table 1: the best frequencies of five elements for three profiles."""

from collections.abc import Iterator

import numpy as np

import unstale
from unstale.lab.experiment import CARNEY, Claim, Line, Panel, Run, experiment, number, ours, statement

RATES = np.arange(1.0, 6.0)
ROWS = {
    "P1, all alike": ([1, 1, 1, 1, 1], [1.15, 1.36, 1.35, 1.14, 0.00], 0.373888699274),
    "P2, the fastest most wanted": ([1, 2, 3, 4, 5], [0.33, 0.67, 1.00, 1.33, 1.67], 0.316737643877),
    "P3, the slowest most wanted": ([5, 4, 3, 2, 1], [1.68, 1.83, 1.49, 0.00, 0.00], 0.499469075192),
}
"""Profile, printed frequencies and perceived freshness, which is not in the paper."""


@experiment("carney-table-1", paper=CARNEY, where="Table 1", seconds=0.1)
def table_1(run: Run) -> Iterator[Claim | Panel]:  # noqa: ARG001  (nothing to make quicker)
    """Who is wanted decides who is polled.

    Plan for five elements that change 1 to 5 times a day, with 5 polls a day.
    """
    lines = []
    for name, (profile, printed, fresh) in ROWS.items():
        plan = unstale.plan(RATES, 5.0, weights=profile)
        for k, (published, computed) in enumerate(zip(printed, plan.frequencies, strict=True), start=1):
            off = published == 1.68
            yield number(
                f"{name}: frequency of e{k} (polls/day)", published=published, computed=computed,
                within=0.005, nearly=0.006 if off else 0.0,
                why="1.6857 rounds to 1.69; with 1.68 the printed row sums to 5" if off else "",
            )  # fmt: skip
        yield ours(f"{name}: perceived freshness", computed=plan.freshness, expected=fresh, close=1e-11)
        lines.append(Line.of(name, RATES - 1.0, plan.frequencies, "bars"))
    fastest = unstale.plan(RATES, 5.0, weights=RATES).frequencies
    yield statement(
        "section 2.2.1: the fastest element",
        says="may need the highest frequency, if it is the most wanted",
        holds=bool(fastest.argmax() == 4),
    )
    yield ours(
        "profile in proportion to the rates: frequencies in proportion to them, too",
        computed=bool(np.allclose(fastest, RATES / 3.0, rtol=1e-12)),
    )
    yield Panel(
        title="Best frequencies of five elements",
        x="element (its change rate, changes per day)",
        y="frequency (polls per day)",
        lines=lines,
        names=[f"e{k} ({k})" for k in range(1, 6)],
    )
