"""Gaps between changes beside exponential ones, which are those of a Poisson process."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

import unstale
from unstale.arguments import Floats
from unstale.lab.experiment import CHO, Claim, Line, Panel, Run, Table, cannot, experiment, ours, statement

from ._pages import CRAWL_DAYS

_MEAN_GAP_DAYS, _TEST_LEVEL, _FEWEST_GAPS = 10.0, 1e-4, 20


@experiment("cho-figure-11", paper=CHO, where="Figure 11 and section 6.2", seconds=2)
def figure_11(run: Run) -> Iterator[Claim | Panel | Table]:
    """Gaps between changes beside exponential ones, simulated and recorded.

    Count gaps by length, for Poisson pages that change every ten days and for a recorded history.
    """
    if run.history is None:
        yield cannot(
            "pages of the crawl of 1999 that changed every 10 days on average",
            published="their gaps are exponential",
            why="the crawl was not published; the method is shown on simulated pages and a recorded history",
        )
    shares, middles, error = _simulated(run, run.some(2000, 200), 3650.0)
    tests = unstale.estimation.examine_gaps(*_drawn(run, run.some(2000, 200), 3650.0), level=_TEST_LEVEL)
    off = np.abs(shares.shares - shares.exponential) / error
    yield statement(
        f"simulated Poisson pages, {shares.gaps:,} gaps in 10 years",
        says="gaps are exponential: their logarithmic histogram is a straight line",
        holds=bool(tests.is_poisson and off.max() < 5.0),
    )
    brief, _, brief_error = _simulated(run, run.some(20_000, 5_000), float(CRAWL_DAYS))
    far = middles > 40.0
    found, expected = brief.shares[far].sum(), brief.exponential[far].sum()
    yield ours(
        f"simulated Poisson pages, {CRAWL_DAYS} days: gaps beyond 39 days, over exponential ones",
        computed=float(found / expected),
        why="a page with a mean gap of 10 days in so short a time can have had few long ones",
    )
    yield ours(
        f"choosing pages by their mean over {CRAWL_DAYS} days leaves out long gaps",
        computed=bool(found < expected - 2.0 * np.sqrt(expected / brief.gaps)),
    )
    lines = [Line.of("exponential", middles, shares.exponential)]
    for label, one, bars in (
        ("observed for 10 years", shares, error),
        (f"observed for {CRAWL_DAYS} days", brief, brief_error),
    ):
        kept = one.shares > 0
        lines.append(Line.of(label, middles[kept], one.shares[kept], "points", error=bars[kept]))
    yield Panel(
        title="Simulated Poisson pages with a mean gap of about 10 days",
        x="gap between changes (days)",
        y="share of the gaps",
        log="y",
        lines=lines,
    )
    yield from _recorded(run)


def _drawn(run: Run, pages: int, days: float) -> tuple[Floats, NDArray[np.int64]]:
    """Draw gaps of Poisson pages that change every ten days."""
    events = unstale.World(np.full(pages, 1.0 / _MEAN_GAP_DAYS)).changes(run.seed).until(days)
    return _gaps(np.repeat(np.arange(pages), np.diff(events.offsets)), events.times)


def _simulated(run: Run, pages: int, days: float) -> tuple[unstale.estimation.GapShares, Floats, Floats]:
    """Count their gaps: shares, middles of the bins, and standard errors."""
    shares = unstale.estimation.gap_shares(
        *_drawn(run, pages, days), mean_gap=_MEAN_GAP_DAYS, bins=20, longest=60.0
    )
    middles = (shares.edges[1:] + shares.edges[:-1]) / 2.0
    return shares, middles, np.sqrt(shares.exponential / shares.gaps)


def _gaps(elements: NDArray[np.int64], times: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """Return gaps between changes, and whose they are."""
    same = elements[1:] == elements[:-1]
    return np.diff(times)[same], elements[1:][same]


def _recorded(run: Run) -> Iterator[Claim | Panel]:
    from unstale.lab.histories import load

    history = load(run.history, run.columns)
    gaps, owners = _gaps(history.elements, history.times)
    many = np.bincount(owners, minlength=len(history)) >= _FEWEST_GAPS
    gaps, owners = gaps[many[owners]], owners[many[owners]]
    if not gaps.size or not gaps.any():
        yield cannot(
            history.name,
            published="gaps of pages are exponential",
            why=f"no element has {_FEWEST_GAPS} gaps between changes",
        )
        return
    tests = unstale.estimation.examine_gaps(gaps, owners, level=_TEST_LEVEL)
    shares = unstale.estimation.gap_shares(gaps, owners, bins=20)
    middles = (shares.edges[1:] + shares.edges[:-1]) / 2.0
    yield ours(f"burstiness of the {history.name}", computed=tests.burstiness, why="0 if Poisson, 1 at most")
    yield ours(
        f"share of gaps below a quarter of the mean, {history.name}",
        computed=float(shares.shares[0]),
        why=f"{shares.exponential[0]:.3f} if Poisson",
    )
    if run.history is None:
        yield ours(
            f"the gaps of the {history.name} are not exponential",
            computed=not tests.is_poisson,
            why=f"{tests.verdict}; p-value {tests.p_value:.1g}",
        )
    kept = shares.shares > 0
    yield Panel(
        title=f"{history.name[0].upper()}{history.name[1:]}: {shares.gaps:,} gaps",
        x="gap between changes (mean gaps of the element)",
        y="share of the gaps",
        log="y",
        lines=[
            Line.of("exponential", middles, shares.exponential),
            Line.of("recorded", middles[kept], shares.shares[kept], "points"),
        ],
    )
