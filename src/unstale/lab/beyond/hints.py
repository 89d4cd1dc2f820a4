"""Noisy hints that an element may have changed: what they are worth, by recall and precision."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import unstale
from unstale.arguments import Floats
from unstale.lab.experiment import BEYOND, Claim, Line, Panel, Run, experiment, ours

POLLS_PER_CHANGE = 0.7
"""Polls per change."""
RECALLS = np.linspace(0.0, 1.0, 21)
PRECISIONS = (0.1, 0.3, 0.6, 0.9, 1.0)
RECALLS_PLAYED = (0.1, 0.3, 0.5, 0.7, 0.9)


@experiment(
    "beyond-hints", paper=BEYOND, where="noisy hints (after Busa-Fekete et al., WWW 2025)", seconds=2.0
)
def hints(run: Run) -> Iterator[Claim | Panel]:
    """Freshness by the recall and precision of hints; useless hints gain nothing.

    Poll an element that changes once per unit time when its hints and the time are worth the price.
    """
    rng, cycles = run.rng(4), run.some(40_000, 8_000)
    plain = float(unstale.freshness(1.0, POLLS_PER_CHANGE))
    lines, points = [], []
    for precision in PRECISIONS:
        fresh = np.array([_plan(recall, precision)[1] for recall in RECALLS])
        yield ours(f"precision {precision:g}: the higher the recall, the fresher",
                   computed=bool((np.diff(fresh) > -1e-9).all() and fresh[-1] > fresh[0] + 1e-4))  # fmt: skip
        yield ours(f"precision {precision:g}, no hints: as without", computed=fresh[0], expected=plain,
                   close=1e-9)  # fmt: skip
        lines.append(Line.of(f"precision {precision:g}", RECALLS, fresh))
        if precision not in {0.3, 0.9}:
            continue
        played = np.array([_played(rng, recall, precision, cycles) for recall in RECALLS_PLAYED])
        expected = np.interp(RECALLS_PLAYED, RECALLS, fresh)
        yield ours(f"precision {precision:g}: a simulation is as fresh as the formula says",
                   computed=bool((np.abs(played[:, 0] - expected) < 5 * played[:, 1]).all()))  # fmt: skip
        points.append(Line.of(f"precision {precision:g}, simulated", RECALLS_PLAYED, played[:, 0], "points",
                              error=played[:, 1]))  # fmt: skip
    at_half = [_plan(0.5, precision)[1] for precision in PRECISIONS]
    yield ours("recall 1/2: the higher the precision, the fresher",
               computed=bool((np.diff(at_half) > 0).all()))  # fmt: skip
    for alarms in (0.1, 1.0, 10.0):
        useless = unstale.HintedChanges(1.0, 0.0, alarms)
        yield ours(f"{alarms:g} hints per change that say nothing: as without",
                   computed=unstale.estimation.plan_hinted(useless, POLLS_PER_CHANGE).freshness,
                   expected=plain, close=1e-9)  # fmt: skip
    perfect = unstale.HintedChanges(1.0, 1.0, 0.0)
    yield ours("perfect hints, a budget for 0.7 of the changes: freshness",
               computed=unstale.estimation.plan_hinted(perfect, POLLS_PER_CHANGE).freshness, expected=0.7,
               close=1e-6, why="each change is seen at once, or when the next one is acted on")  # fmt: skip
    yield Panel(
        title=f"Freshness by recall and precision, {POLLS_PER_CHANGE:g} polls per change",
        x="recall (share of changes that give a hint)",
        y="freshness (share of time)",
        lines=[*lines, *points],
    )
    yield _by_budget()


def _by_budget() -> Panel:
    budgets = np.geomspace(0.1, 10.0, 25)
    kinds = {
        "no hints": (0.0, 0.0),
        "half of them true, half of all changes": (0.5, 0.5),
        "nine in ten true, nine in ten changes": (0.9, 0.1),
        "perfect": (1.0, 0.0),
    }
    lines = []
    for name, (recall, alarms) in kinds.items():
        law = unstale.HintedChanges(1.0, recall, alarms)
        fresh = [unstale.estimation.plan_hinted(law, budget).freshness for budget in budgets]
        lines.append(Line.of(name, budgets, fresh))
    return Panel(
        title="Freshness by budget",
        x="budget (polls per change)",
        y="freshness (share of time)",
        lines=lines,
        log="x",
    )


def _law(recall: float, precision: float) -> unstale.HintedChanges:
    return unstale.HintedChanges(1.0, recall, recall * (1.0 / precision - 1.0))


def _plan(recall: float, precision: float) -> tuple[float, float]:
    """Price at the budget, and freshness."""
    found = unstale.estimation.plan_hinted(_law(recall, precision), POLLS_PER_CHANGE)
    return found.price, found.freshness


def _played(rng: np.random.Generator, recall: float, precision: float, count: int) -> tuple[float, float]:
    """Freshness and its error from many cycles between polls, each with its own hints and changes."""
    law = _law(recall, precision)
    level = float(law.threshold(_plan(recall, precision)[0]))
    unhinted, rate, evidence = (float(one) for one in (law.unhinted, law.hint_rate, law.evidence))
    hinted: Floats = np.cumsum(rng.exponential(1.0 / rate, (count, 100)), axis=1)
    moments = np.column_stack([np.zeros(count), hinted])
    waits = np.maximum(level - evidence * np.arange(101), 0.0) / unhinted
    polled = np.maximum(moments, waits).min(axis=1)  # after n hints, when time has done the rest
    true = np.where(rng.random(hinted.shape) < precision, hinted, np.inf).min(axis=1)
    fresh = np.minimum(np.minimum(true, rng.exponential(1.0 / unhinted, count)), polled)
    share = fresh.sum() / polled.sum()
    return float(share), float(np.std(fresh - share * polled) / polled.mean() / np.sqrt(count))
