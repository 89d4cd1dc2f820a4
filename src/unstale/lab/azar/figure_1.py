"""Figure 1: the new algorithm against the optimum and three other policies."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import unstale
from unstale.arguments import Floats
from unstale.lab.experiment import AZAR, Claim, Line, Panel, Run, Table, experiment, number, ours, statement

from ._pages import draw, policies

_BUDGETS = np.array([1.0, 10.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2000.0, 5000.0, 20000.0])
_BUDGET_OF_OTHERS = 500.0  # of which the means below are those of other pages, drawn as ours
_PUBLISHED_SEEDS = 20
_KNOWN = {
    "Zipf": {
        "optimum": 0.85857, "new algorithm": 0.9949, "by change rate": 0.78422, "by utility": 0.94513,
        "uniform": 0.7675, "new algorithm, random polls": 0.93657,
    },
    "uniform": {
        "optimum": 0.71252, "new algorithm": 0.99482, "by change rate": 0.94662, "by utility": 0.97732,
        "uniform": 0.92744, "new algorithm, random polls": 0.84319,
    },
}  # fmt: skip
_SPREAD = {
    "Zipf": (0.0378, 0.0014, 0.0493, 0.0056, 0.0598, 0.0191),
    "uniform": (0.0057, 0.00017, 0.0028, 0.0013, 0.0029, 0.0025),
}
"""Standard deviation of the same from draw to draw, of 400 draws: what a few draws tell too badly."""


@experiment("azar-figure-1", paper=AZAR, where="Figure 1", seconds=6)
def figure_1(run: Run) -> Iterator[Claim | Panel | Table]:
    """Five policies on 1,000 pages: rates for random polls, derandomised, reach 99 % of the optimum.

    Average over pages drawn anew, at several budgets, as the paper does not say which it takes.
    """
    close_up, served = [], []
    for utilities, known in _KNOWN.items():
        pages = [draw(run.rng(1, seed), utilities) for seed in range(run.some(_PUBLISHED_SEEDS, 6))]
        found = np.array([[_freshness(*one, budget) for one in pages] for budget in _BUDGETS])
        best = found[:, :, :1]
        shares = np.concatenate([best, found[:, :, 1:] / best], axis=2)  # budget, pages, policy
        means = shares.mean(axis=1)
        yield Panel(
            title=f"{utilities} utilities",
            x="budget R (polls per unit time for 1,000 pages)",
            y="freshness over the optimum",
            log="x",
            bounds=(0.0, 1.05),
            lines=[
                Line.of(name, _BUDGETS, means[:, k] if k else np.ones(_BUDGETS.size))
                for k, name in enumerate(known)
            ],
        )
        close_up.append(Line.of(f"{utilities} utilities", _BUDGETS, means[:, 1]))
        share, error, formula = _requests(run, *pages[0])
        served.append(Line.of(f"{utilities} utilities", np.arange(share.size), share, "bars", error=error))
        yield ours(
            f"{utilities} utilities: simulated requests are served as formulas say",
            computed=bool(np.all(np.abs(share - formula) < 5.0 * error)),
        )
        yield number(
            f"{utilities} utilities: new algorithm over the optimum, the least of all budgets",
            published=0.99,
            computed=means[:, 1].min(),
            within=0.005,
        )
        yield statement(
            f"{utilities} utilities",
            says="the new algorithm is ahead of the other policies, at any budget",
            holds=bool(np.all(means[:, 1:2] > means[:, 2:])),
        )
        at = list(_BUDGETS).index(_BUDGET_OF_OTHERS)
        sampling = np.array(_SPREAD[utilities]) * np.sqrt(1.0 / len(pages) + 1.0 / _PUBLISHED_SEEDS)
        for k, (name, expected) in enumerate(known.items()):
            yield ours(
                f"{utilities} utilities, R = 500: {name}{' over the optimum' if k else ''}",
                computed=means[at, k],
                expected=expected,
                close=4.5 * sampling[k],
            )
        yield Table(
            f"{utilities} utilities: freshness of the optimum, and of the others over it",
            {
                "R": _BUDGETS.tolist(),
                **{name: means[:, k].tolist() for k, name in enumerate(known)},
            },
        )
    yield Panel(
        title="Simulated requests at R = 500",
        x="policy",
        y="requests served fresh (share)",
        bounds=(0.0, 1.0),
        names=list(_KNOWN["Zipf"]),
        lines=served,
    )
    yield Panel(
        title="The new algorithm at constant intervals, close up",
        x="budget R (polls per unit time for 1,000 pages)",
        y="freshness over the optimum",
        log="x",
        bounds=(0.98, 1.001),
        lines=[*close_up, Line.of("printed 99 %", _BUDGETS, np.full(_BUDGETS.size, 0.99))],
    )


def _freshness(rates: Floats, weights: Floats, budget: float) -> list[float]:
    """Return the freshness that each policy buys at constant intervals, and that of random polls."""
    found = policies(rates, weights, budget)
    random = unstale.perceived_freshness(weights, rates, found["new algorithm"], "purely-random")
    return [*(unstale.perceived_freshness(weights, rates, f) for f in found.values()), random]


def _requests(run: Run, rates: Floats, weights: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the share of simulated requests served fresh, its error, and what formulas say of it.

    The polls of the new algorithm are those of Algorithm 3.
    """
    found = policies(rates, weights, _BUDGET_OF_OTHERS)
    new = found["new algorithm"]
    result = unstale.simulate(
        unstale.World(rates, weights=weights, accesses=1000.0),
        _BUDGET_OF_OTHERS,
        policies={name: unstale.Schedule(f) for name, f in found.items()}
        | {
            "new algorithm": unstale.EarliestDeadline(new),
            "new algorithm, random polls": unstale.Schedule(new, order="purely-random", seed=run.seed),
        },
        horizon=run.some(400.0, 150.0),
        seed=run.seed,
    )
    served = [one.perceived_freshness for one in result.values()]
    error = [one.perceived_freshness_error for one in result.values()]
    return np.array(served), np.array(error), np.array(_freshness(rates, weights, _BUDGET_OF_OTHERS))
