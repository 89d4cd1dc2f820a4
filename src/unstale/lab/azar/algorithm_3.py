"""Algorithm 3: rates turned into a sequence of polls. What it promises, what it is worth, what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from time import process_time

import numpy as np
from numpy.typing import NDArray

import unstale
from unstale.arguments import Floats
from unstale.lab.experiment import AZAR, Claim, Line, Panel, Run, experiment, ours, statement

from ._carousel import as_printed, distances, repeated
from ._pages import draw

_KNOWN = {("Zipf", 100.0): 0.9918766716162842, ("uniform", 100.0): 0.9895537338991651}
"""Freshness of the sequence over the optimum, at a budget, of other pages drawn as ours."""


@experiment("azar-algorithm-3", paper=AZAR, where="Algorithm 3", seconds=2)
def algorithm_3(run: Run) -> Iterator[Claim | Panel]:
    """Earliest deadline first: within one poll of every share, and what a slot costs.

    Hold the sequence against the shares, the optimum and the clock.
    """
    yield from _shares(run)
    yield from _freshness(run)
    yield from _cost(run)


def _sequence(frequencies: Floats | NDArray[np.int64], slots: int) -> NDArray[np.int64]:
    schedule = unstale.EarliestDeadline(frequencies)
    return schedule.until(slots / schedule.rate).elements


def _shares(run: Run) -> Iterator[Claim | Panel]:
    rng, worst, off = run.rng(31), 0.0, []
    for _ in range(run.some(150, 40)):
        whole = rng.integers(1, 200, rng.integers(2, 12))
        worst = max(worst, *distances(whole, _sequence(whole, 300)))
    yield statement(
        "polls of any page after any slot", says="are at most 1 away from its share", holds=worst <= 1.0
    )
    yield ours("largest distance found, in polls", computed=worst, expected=0.99998, close=0.005)
    yield ours("every distance is strictly below 1", computed=bool(worst < 1.0))
    for error in (0.1, 0.03, 0.001):
        slots = ceil(1.0 / error)
        for _ in range(10):
            f = 10.0 ** rng.uniform(-3.0, 3.0, rng.integers(1, 60))
            made = np.bincount(_sequence(f, slots), minlength=f.size) / slots
            off.append(np.abs(f / f.sum() - made).max() / error)
    yield statement(
        "after 1/error slots", says="all shares of polls are right up to the error", holds=max(off) <= 1.0
    )
    whole = rng.integers(1, 200, 10)
    edf = distances(whole, _sequence(whole, 400))
    drawn = distances(whole, rng.choice(whole.size, 400, p=whole / whole.sum()))
    yield Panel(
        title="Distance from the share of polls, 10 pages",
        x="slots",
        y="largest distance of any page (polls)",
        lines=[
            Line.of("Algorithm 3", np.arange(1, 401), edf),
            Line.of("pages drawn at random", np.arange(1, 401), drawn),
            Line.of("guarantee", [1, 400], [1.0, 1.0]),
        ],
    )


def _freshness(run: Run) -> Iterator[Claim]:
    """The freshness of the sequence itself, over the optimum; means of three draws of the pages."""
    for (utilities, budget), expected in _KNOWN.items():
        found, constant = np.mean([_over_best(run, k, utilities, budget) for k in range(3)], axis=0)
        what = f"{utilities} utilities, R = {budget:g}"
        yield statement(f"{what}: the sequence", says="attains 99 % of the optimum", holds=found > 0.985)
        yield ours(
            f"{what}: freshness of the sequence over the optimum",
            computed=found,
            expected=expected,
            close=0.004,
        )
        yield ours(
            f"{what}: lost to the slots, of constant intervals",
            computed=constant - found,
            expected=0.0,
            close=1e-3,
        )


def _over_best(run: Run, k: int, utilities: str, budget: float) -> tuple[float, float]:
    """Return the freshness of the sequence, and of the same rates at constant intervals, over the optimum."""
    rates, weights = draw(run.rng(32, k), utilities)
    plan = unstale.plan(rates, budget, weights=weights, order="purely-random")
    best = unstale.plan(rates, budget, weights=weights).freshness
    end = 1e5 / budget
    polls = unstale.EarliestDeadline(plan.frequencies).until(end)
    constant = unstale.perceived_freshness(weights, rates, plan.frequencies)
    return repeated(rates, weights, polls, end) / best, constant / best


def _cost(run: Run) -> Iterator[Claim | Panel]:
    """Slots per second, of the same machine in the same minute."""
    rng = run.rng(34)
    pages = np.array(run.some([100, 1000, 10_000, 100_000], [1000, 100_000]))
    printed, ours_, same = [], [], []
    for n in pages:
        whole, slots = rng.integers(1, 1 << 20, n), int(np.clip(1_000_000 // n, 30, 2000))
        begin = process_time()
        sequence = as_printed(whole, slots)
        printed.append(slots / (process_time() - begin))
        same.append(np.array_equal(sequence, _sequence(whole, slots)))
        ours_.append(_slots_per_second(whole, run.some(200_000, 50_000)))
    yield Panel(
        title="Slots per second (this machine)",
        x="pages",
        y="slots per second",
        log="xy",
        lines=[
            Line.of("as printed: each slot looks at each page", pages, printed),
            Line.of("calendar of releases and heap of deadlines", pages, ours_),
        ],
    )
    yield ours("both give the same sequence", computed=all(same))
    yield statement(
        "cost as printed",
        says="grows with the number of pages, O(n/error)",
        holds=printed[0] / printed[-1] > 5.0,
    )
    yield ours(
        f"slots per second over those as printed, {pages[-1]:,} pages", computed=ours_[-1] / printed[-1]
    )
    yield ours("that is more than 10 times as many", computed=bool(ours_[-1] > 10.0 * printed[-1]))


def _slots_per_second(whole: NDArray[np.int64], slots: int) -> float:
    schedule = unstale.EarliestDeadline(whole)
    times = []
    for _ in range(3):
        begin = process_time()
        schedule.until(schedule.now + slots / schedule.rate)
        times.append(process_time() - begin)
    return slots / min(times)
