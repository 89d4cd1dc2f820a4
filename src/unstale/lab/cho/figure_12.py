"""How many pages change how often, and what a daily crawl makes of it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import unstale
from unstale.lab.experiment import CHO, Claim, Line, Panel, Run, Table, cannot, experiment, number, ours

from ._pages import CLASSES, CRAWL_DAYS, SHARES

_EDGES_DAYS = (1.0, 7.0, 30.0, 120.0)
_ENDS = (0.1, *_EDGES_DAYS, 1200.0)


@experiment("cho-figure-12", paper=CHO, where="Figure 12, sections 6.1 and 6.3", seconds=0.5)
def figure_12(run: Run) -> Iterator[Claim | Panel | Table]:
    """How many pages change how often, and what daily polls see of it.

    Show the published shares, and crawl simulated pages that have them for 127 days.
    """
    yield cannot(
        "pages that change more than once a day (%)", published=23.0, why="the crawl was not published"
    )
    yield cannot(
        "pages that change more rarely than that, by class (%)",
        published=", ".join(map(str, SHARES[1:])),
        why="the crawl was not published; Table 6 starts from these shares",
    )
    yield number(
        "pages, from the printed 3,000 or so of each of 270 sites",
        published=720_000,
        computed=270 * 3000,
        within=5_000,
        nearly=100_000,
        why="2,667 from each site make 720,000",
    )
    elapsed, changed = np.full(120, 1 / 30), np.arange(120) % 30 == 0
    rate = unstale.estimate_rate(elapsed, changed, "naive").rate
    yield number(
        "mean gap of a page with 4 changes in 4 months of daily polls, naive estimate (months)",
        published=1.0,
        computed=1.0 / rate,
        within=1e-12,
    )

    pages = run.some(1000, 100) * SHARES
    rng = run.rng(12)
    ends = np.log(_ENDS)
    gaps = np.exp(rng.uniform(np.repeat(ends[:-1], pages), np.repeat(ends[1:], pages)))
    seen = rng.binomial(CRAWL_DAYS, -np.expm1(-1.0 / gaps))  # days on which a poll finds a change
    counted = CRAWL_DAYS / np.maximum(seen, 1e-9)
    # as the estimator with little bias has it; a page that changed each day has no rate of its own
    corrected = -1.0 / np.log((CRAWL_DAYS - seen + 0.5) / (CRAWL_DAYS + 0.5) - 1e-12)
    shown = {
        label: 100.0 * np.bincount(np.digitize(values, _EDGES_DAYS, right=True), minlength=5) / gaps.size
        for label, values in (("changes counted", counted), ("missed changes allowed for", corrected))
    }
    yield ours(
        "pages that change more than once a day, by counting changes (%)",
        computed=float(shown["changes counted"][0]),
        why="of the 23 % that do: polled daily, only a page found changed each day counts as one of them",
    )
    yield ours(
        "the same if missed changes are allowed for (%)",
        computed=float(shown["missed changes allowed for"][0]),
        expected=float(SHARES[0]),
        close=1.0,
        why="by the estimator with little bias, which counts on changes that polls did not see",
    )
    places = np.arange(5.0)
    yield Panel(
        title="Pages by mean gap between changes",
        x="mean gap between changes",
        y="share of pages (%)",
        names=CLASSES,
        lines=[
            Line.of("published", places, SHARES, "bars"),
            *(
                Line.of(f"simulated crawl, {label}", places, values, "bars")
                for label, values in shown.items()
            ),
        ],
    )
