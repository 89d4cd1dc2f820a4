"""The element that is worth most is polled next: the index policy beside earliest deadlines and the bound."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import unstale
from unstale.arguments import Floats
from unstale.lab.experiment import BEYOND, Claim, Line, Panel, Run, experiment, ours

COUNTS = (10, 30, 100, 300, 1000, 3000)
BUDGETS = (0.1, 0.2, 0.4, 0.8, 1.6)
"""Polls per element and unit time; change rates and weights are uniform from 0 to 1."""
NAMES = ("index", "earliest deadline", "fixed order in slots", "earliest deadline of random-optimal")


@experiment(
    "beyond-index",
    paper=BEYOND,
    where="index policy (Olston & Pandey 2008; Busa-Fekete et al. 2025)",
    seconds=15.0,
)
def index_policy(run: Run) -> Iterator[Claim | Panel]:
    """One poll at a time: index, earliest deadlines and slots against the bound.

    Play one poll after another, and hold what it buys against plans whose polls are all on time.
    """
    counts = run.some(COUNTS, COUNTS[:4])
    rounds = {count: run.some(300.0, 100.0) for count in counts}
    lost = np.array([_lost(count, 1.0, rounds[count], run) for count in counts])
    index, deadline, _, _ = lost.T
    yield ours("no schedule beats the bound", computed=bool((lost > -1e-12).all()))
    few = np.array(counts) <= 300  # beyond, what the ends of the time leave open is as much as what is lost
    yield ours("the index policy loses less than earliest deadlines",
               computed=bool((index < deadline)[few].all()))  # fmt: skip
    yield ours(f"{counts[-1]} elements: it loses less than a thousandth of the bound",
               computed=bool(index[-1] < 1e-3))  # fmt: skip
    yield ours("0.1 polls per element: lost with frequencies for random polls (Azar et al. 2018)",
               computed=_lost(run.some(1000, 300), 0.1, run.some(300.0, 60.0), run)[3],
               expected=1 - 0.36487 / 0.36886, close=0.003)  # fmt: skip
    yield ours("the more elements, the less is lost",
               computed=bool(index[-1] < 0.5 * index[0] and deadline[-1] < 0.5 * deadline[0]))  # fmt: skip
    yield Panel(
        title="Lost against the bound",
        x="number of elements (one poll of each per unit time)",
        y="freshness lost (share of the bound)",
        lines=[Line.of(name, counts, y) for name, y in zip(NAMES, lost.T, strict=True)],
        log="xy",
    )
    yield from _by_budget(run)


def _by_budget(run: Run) -> Iterator[Claim | Panel]:
    """Simulate 1000 elements by budget."""
    rates, weights = _elements(1000, run)
    bounds, seen = [], []
    budgets = run.some(BUDGETS, BUDGETS[::2])
    for each in budgets:
        budget = 1000.0 * each
        bounds.append(unstale.plan(rates, budget, weights=weights).freshness)
        result = unstale.simulate(
            rates, budget, weights=weights, seed=run.seed, horizon=run.some(1000.0, 100.0),
            policies=["index", "edf", "optimal", "uniform"],
        )  # fmt: skip
        seen.append([[one.freshness, one.freshness_error] for one in result.values()])
    bound, found = np.array(bounds), np.array(seen)
    off = np.abs(found[:, :3, 0] - bound[:, None]) / found[:, :3, 1]
    yield ours("simulated: index, deadlines and schedule are at the bound, to sampling error",
               computed=bool((off < 5.0).all()))  # fmt: skip
    yield ours("simulated: uniform is below", computed=bool((found[:, 3, 0] < bound).all()))
    yield Panel(
        title="Freshness of 1000 elements by budget, simulated",
        x="budget (polls per element and unit time)",
        y="freshness (share of time, by weight)",
        lines=[
            Line.of("bound (optimal plan)", budgets, bound),
            *(
                Line.of(name, budgets, found[:, k, 0], "points", error=found[:, k, 1])
                for k, name in enumerate(("index", "earliest deadline", "schedule of the plan", "uniform"))
            ),
        ],
        log="x",
    )


def _elements(count: int, run: Run) -> tuple[Floats, Floats]:
    rates, weights = 1.0 - run.rng(2, count).random((2, count))
    return rates, weights


def _lost(count: int, each: float, rounds: float, run: Run) -> list[float]:
    """Share of the bound that each schedule loses, expected for its very polls."""
    rates, weights = _elements(count, run)
    budget = count * each
    best = unstale.plan(rates, budget, weights=weights)
    random = unstale.plan(rates, budget, weights=weights, order="purely-random")
    streams = (
        unstale.Index(rates, budget, weights=weights),
        unstale.EarliestDeadline(best.frequencies),
        unstale.Schedule(best.frequencies, even=True, seed=run.seed),
        unstale.EarliestDeadline(random.frequencies),
    )
    begin = 150.0 / each  # by when the slowest have been polled
    end = begin + rounds / each
    bought = (_bought(rates, weights, stream.until(end), begin, end) for stream in streams)
    return [1.0 - one / best.freshness for one in bought]


def _bought(rates: Floats, weights: Floats, polls: unstale.schedule.Polls, begin: float, end: float) -> float:
    """Freshness from begin to end: an element polled at t is fresh at s with probability exp(-rate (s-t))."""
    order = np.argsort(polls.elements, kind="stable")
    element, time = polls.elements[order], polls.times[order]
    last = np.append(element[1:] != element[:-1], True)
    following = np.where(last, end, np.append(time[1:], end))
    since, until = np.maximum(time, begin), np.maximum(following, begin)
    rate = rates[element]
    fresh = (np.exp(-rate * (since - time)) - np.exp(-rate * (until - time))) / rate
    return float(weights[element] @ fresh / weights.sum() / (end - begin))
