"""Theorems 7 to 11: which polls are best, when polls fall into step with changes, and who is starved."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import unstale
from unstale.arguments import Floats
from unstale.lab.experiment import LI, Claim, Line, Panel, Run, experiment, ours, statement

_DEMAND = np.array([1.0, 0.2])  # change rates of two sources
_WEIGHTS = {
    "w = 1": "1",
    "w = x": "x",
    "w = log(1+x)": "log(1+x)",
    "w = 1/(1+x)": "1/(1+x)",
    "w = exp(-x)": None,
}


def _penalty(name: str) -> unstale.UpdatePenalty:
    weight = _WEIGHTS[name]
    return unstale.UpdatePenalty(unstale.penalties.decay(1.0) if weight is None else weight)


@experiment("li-theorems", paper=LI, where="Theorems 7 to 11", seconds=5)
def theorems(run: Run) -> Iterator[Claim | Panel]:
    """Constant polls are best; polls in step with changes; and a source that is starved after all.

    Check examples and counterexamples.
    """
    others = [
        unstale.Poisson(1.0),
        unstale.Pareto(3.0, 2.0),
        unstale.Gamma(2.0, 0.5),
        unstale.RandomOrder(1.0),
    ]
    yield statement(
        "theorem 9",
        says="constant intervals dominate all others",
        holds=all(unstale.renewal.dominates(unstale.Periodic(1.0), one) for one in others),
    )
    yield from _step(run)
    yield from _starved(run)
    yield ours(
        "bursty changes (infinite variance) are never starved of freshness",
        computed=bool(np.isinf(unstale.worth("freshness", unstale.Pareto(1.4, 0.93), np.inf))),
    )


def _step(run: Run) -> Iterator[Claim | Panel]:
    """Theorem 10, and polls that fall into step with changes."""
    root = np.sqrt(2.0)
    lattice = unstale.Empirical(np.array([2.0, 3.0]) * root)
    yield statement(
        "after theorem 10",
        says="two irrational gaps, no multiple of each other, exclude phase-lock",
        holds=not unstale.renewal.phase_lock(unstale.Periodic(5.0 * root), lattice).possible,
        error="2 and 3 times the root of 2 are both multiples of it; their ratio must be irrational",
    )
    yield ours("span of the lattice of these gaps", computed=lattice.span or 0.0, expected=root, close=1e-9)
    yield statement(
        "theorem 10",
        says="a rational and an irrational gap exclude it",
        holds=not unstale.renewal.phase_lock(unstale.Periodic(1.0), unstale.Empirical([1.0, root])).possible,
    )
    both = unstale.Empirical([1.0, 2.0])
    yield statement(
        "section IV-A",
        says="gaps of 1 or 2 on both sides make the ages depend on each other",
        holds=unstale.renewal.phase_lock(both, both).possible,
    )
    n = run.some(300, 60)
    world = unstale.World(unstale.Periodic(np.ones(n)))
    result = unstale.simulate(
        world,
        1.0,
        policies={
            "in step": unstale.Schedule(np.ones(n), phases=np.zeros(n)),
            "jitter of a fifth": unstale.Schedule(np.ones(n), phases=np.zeros(n), jitter=0.2, seed=run.seed),
        },
        horizon=run.some(2000.0, 1000.0),
        seed=run.seed,
    )
    fresh = {name: np.sort(one.elements.freshness) for name, one in result.items()}
    yield Panel(
        title="Sources that change on the hour, polled every hour",
        x="sources, by freshness (share)",
        y="freshness (share of time)",
        bounds=(0.0, 1.0),
        lines=[
            *(Line.of(name, (np.arange(n) + 0.5) / n, y) for name, y in fresh.items()),
            Line.of("formula, no phase-lock", [0.0, 1.0], [0.5, 0.5]),
        ],
    )
    yield ours(
        "sources in step are from hardly ever to always fresh, with jitter about half of the time",
        computed=bool(np.ptp(fresh["in step"]) > 0.9 and np.ptp(fresh["jitter of a fifth"]) < 0.4),
    )


def _frequencies(name: str, budget: float) -> Floats:
    return unstale.plan(_DEMAND, budget, objective=_penalty(name)).frequencies


def _starved(run: Run) -> Iterator[Claim | Panel]:
    """Theorem 11."""
    budgets = np.linspace(0.1, 2.0, run.some(39, 11))
    yield Panel(
        title="Polls of the slower of two sources (change rates 1 and 0.2)",
        x="budget (polls per unit time)",
        y="share of the budget",
        bounds=(0.0, 0.55),
        lines=[
            Line.of(name, budgets, [_frequencies(name, budget)[1] / budget for budget in budgets])
            for name in ("w = 1", "w = 1/(1+x)", "w = exp(-x)")
        ],
    )
    at = {name: _frequencies(name, 0.4) for name in _WEIGHTS}
    yield statement(
        "theorem 11, w = 1, x, log(1+x), 1/(1+x)",
        says="no source is starved",
        holds=all(f[0] > f[1] > 0.0 for name, f in at.items() if name != "w = exp(-x)"),
    )
    yield statement(
        "theorem 11, w = exp(-x)",
        says="no source is starved",
        holds=bool(at["w = exp(-x)"][1] > 0.0),
        error="the first poll is worth the integral of x w(x), which is finite here",
    )
    for k, expected in enumerate((0.4, 0.0)):
        yield ours(
            f"frequency of source {k + 1} at budget 0.4, w = exp(-x)",
            computed=at["w = exp(-x)"][k],
            expected=expected,
            close=1e-9,
        )
