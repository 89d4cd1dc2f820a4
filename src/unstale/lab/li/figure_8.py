"""Figure 8: polls that a staleness takes, and by how much the Poisson formula overestimates them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import unstale
from unstale.arguments import Floats
from unstale.lab.experiment import LI, Claim, Line, Panel, Run, cannot, experiment, number, ours, statement

from ._busiest import PRINTED, PRINTED_MEAN, UNKNOWN, Busiest, busiest

_RATIOS = {0.05: 1.3615659398596822, 0.2: 1.8134813709949469, 0.5: 3.980244467482307, 0.8: 18.184523134793423}


def _curve(law: unstale.Process) -> tuple[Floats, Floats, Floats]:
    """Return stalenesses, the polls per mean gap that they take, and those by the Poisson formula."""
    polls = np.geomspace(1e-4, 20.0, 400)
    stale = unstale.renewal.staleness(law.at_rate(1.0), unstale.Periodic(1.0 / polls))
    shown = (stale > 0.05) & (stale < 0.9)
    return stale[shown], polls[shown], unstale.frequency_for(1.0, 1.0 - stale[shown])


@experiment("li-figure-8", paper=LI, where="Figure 8", seconds=1)
def figure_8(run: Run) -> Iterator[Claim | Panel]:
    """Download rate for a given staleness of recorded changes, and how far Poisson overestimates it.

    Turn staleness into polls, for the busiest element of a history and for the printed fit.
    What is printed of the article is no matter of another history that is given.
    """
    one = busiest(run)
    fitted = unstale.Pareto(PRINTED[0], PRINTED[1] / 24.0)
    shown: list[tuple[str, unstale.Process, float]] = [(one.name, one.law, 1.0 / float(one.gaps.mean()))]
    if one.about != "another history":
        shown.append(("the paper's article, as printed", fitted, 24.0 / PRINTED_MEAN))
    ratios = []
    for title, law, rate in shown:
        stale, needed, poisson = _curve(law)
        needed, poisson = needed * float(law.rate), poisson * rate
        ratios.append(Line.of(title, stale, poisson / needed))
        yield Panel(
            title=f"(a) {title}",
            x="staleness (share of time)",
            y="polls per day",
            log="y",
            lines=[Line.of("law of the gaps", stale, needed), Line.of("Poisson", stale, poisson)],
        )
    yield Panel(
        title="(b) overestimate of the Poisson formula",
        x="staleness (share of time)",
        y="polls by Poisson over polls needed",
        log="y",
        lines=ratios,
    )
    if one.about != "another history":
        yield from _printed(fitted)
        yield from _in_reality(one, ratios[0].y)
    least, smooth = unstale.budget_for(one.law, freshness=0.8), _poisson(float(one.gaps.mean()), 0.2)
    yield ours(f"{one.name}: polls a day for 20 % staleness, empirical law", computed=least)
    yield ours(f"{one.name}: polls a day for 20 % staleness, Poisson", computed=smooth)
    yield ours(f"{one.name}: overestimate at 20 % staleness", computed=smooth / least)


def _poisson(mean_gap: float, stale: float) -> float:
    return float(unstale.frequency_for(1.0 / mean_gap, 1.0 - stale))


def _printed(fitted: unstale.Process) -> Iterator[Claim]:
    """Check what the paper prints of its article."""
    needed, poisson = unstale.budget_for(fitted, freshness=0.8), _poisson(PRINTED_MEAN / 24.0, 0.2)
    yield number(
        "article: polls a day for 20 % staleness by the Poisson formula",
        published=95.0,
        computed=poisson,
        within=0.5,
        right=27.79593125078604,
        close=1e-6,
        why="the printed mean gap of 1.86 hours makes 27.8; read as 1.86 changes an hour it would make 96",
    )
    yield ours(
        "article: the same if the mean gap is read as a rate per hour",
        computed=_poisson(1.0 / (24.0 * PRINTED_MEAN), 0.2),
        expected=96.16280375521939,
        close=1e-6,
    )
    yield ours(
        "article: polls a day for 20 % staleness by the printed fit",
        computed=needed,
        expected=15.327387253797125,
        close=1e-6,
    )
    yield number(
        "article: overestimate at 20 % staleness, from the printed 95 and 8 polls a day",
        published=95.0 / 8.0,
        computed=poisson / 8.0,
        within=0.1,
        right=27.79593125078604 / 8.0,
        close=1e-6,
        why="rests on the 95 a day; the printed mean gap makes it 3.5",
    )
    for stale, ratio in _RATIOS.items():
        needed = unstale.budget_for(fitted, freshness=1.0 - stale)
        yield ours(
            f"article: overestimate at {stale:.0%} staleness, against the printed fit",
            computed=_poisson(PRINTED_MEAN / 24.0, stale) / needed,
            expected=ratio,
            close=1e-6 * ratio,
        )


def _in_reality(one: Busiest, overestimate: Floats) -> Iterator[Claim]:
    """Hold what is printed of the edits of the article against them."""
    polls, all_over = (
        "article: polls a day for 20 % staleness in reality",
        "article: overestimate over all stalenesses",
    )
    says = "from one to almost two orders of magnitude"
    if one.about != "the article":
        yield cannot(polls, published=8.0, why=UNKNOWN)
        yield cannot(all_over, published=says, why=UNKNOWN)
        return
    yield number(
        polls,
        published=8.0,
        computed=unstale.budget_for(one.law, freshness=0.8),
        within=0.5,
    )
    yield statement(
        all_over,
        says=says,
        holds=bool(overestimate.min() >= 10.0 and overestimate.max() < 100.0),
        error=f"from {overestimate.min():.1f} to {overestimate.max():.1f}: the Poisson formula asks for fewer"
        " polls than printed",
    )
