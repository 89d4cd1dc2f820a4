"""Uniform against proportional allocation for any change rates, and what weights change."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

import unstale
from unstale.arguments import Floats, Order
from unstale.lab.experiment import CHO, Claim, Line, Panel, Run, Table, experiment, ours, statement

from ._example_4 import BUDGET, RATES
from ._orders import NAMES, ORDERS, POLICIES

_Draw = Callable[[np.random.Generator, int], Floats]
_DISTRIBUTIONS: dict[str, _Draw] = {
    "two rates, far apart": lambda rng, n: np.where(
        np.arange(n) < rng.integers(1, n), 1.0, 10.0 ** rng.uniform(-6, 6)
    ),
    "two rates, nearly equal": lambda rng, n: np.where(
        np.arange(n) % 2, 1.0, 1.0 + 10.0 ** rng.uniform(-6, -1)
    ),
    "one outlier": lambda rng, n: np.where(np.arange(n) == 0, 10.0 ** rng.uniform(-6, 6), 1.0),
    "lognormal": lambda rng, n: rng.lognormal(0.0, 3.0, n),
    "Pareto": lambda rng, n: 1.0 + rng.pareto(0.5, n),
    "gamma": lambda rng, n: rng.gamma(0.3, 1.0, n) + 1e-9,
    "uniform": lambda rng, n: rng.uniform(0.01, 1.0, n),
}


def _both(rates: Floats, budget: float, order: Order) -> tuple[float, float, float, float]:
    """Return freshness and age of uniform, and of proportional allocation."""
    plans = [
        unstale.plan(rates, budget, policy="uniform", order=order),
        unstale.plan(rates, budget, policy="proportional", order=order),
    ]
    return plans[0].freshness, plans[0].age, plans[1].freshness, plans[1].age


@experiment(
    "cho-uniform-against-proportional", paper=CHO, where="Appendix D, theorems 3 and 4, section 8", seconds=5
)
def uniform_against_proportional(run: Run) -> Iterator[Claim | Panel | Table]:
    """Uniform beats proportional allocation for any change rates, but not for any weights.

    Try distributions of rates, adverse ones among them, then weights.
    """
    rng, each = run.rng(4), run.some(60, 8)
    spreads: list[float] = []
    gains: dict[Order, list[float]] = {order: [] for order in ORDERS}
    for done, (name, draw) in enumerate(_DISTRIBUTIONS.items(), 1):
        worst = np.inf
        for _ in range(each):
            rates = draw(rng, int(rng.integers(2, 50)))
            budget = rates.sum() * 10.0 ** rng.uniform(-3, 3)
            spreads.append(float(rates.std() / rates.mean()))
            for order in ORDERS:
                fresh, old, other_fresh, other_old = _both(rates, budget, order)
                gains[order].append(fresh - other_fresh)
                worst = min(worst, fresh / other_fresh - 1.0, 1.0 - old / other_old)
        yield statement(
            f"theorems 3 and 4: {name}, {each} draws, all orders",
            says="uniform is at least as fresh and as young as proportional",
            holds=bool(worst > -1e-12),
        )
        run.advance(done / len(_DISTRIBUTIONS))
    ratios = np.geomspace(0.01, 1000.0, 200)
    slopes = [
        np.diff(np.diff(f(ratios, 1.0, order)) / np.diff(ratios))
        for f in (unstale.freshness, unstale.age)
        for order in ORDERS
    ]
    yield statement(
        "footnote 7, all orders, r from 0.01 to 1000",
        says="freshness is convex and age concave in the change rate",
        holds=all((one > 0).all() for one in slopes[:3]) and all((one < 0).all() for one in slopes[3:]),
    )
    apart = np.array(spreads)
    drawn = apart > 0.03  # below, policies hardly differ
    yield Panel(
        title="Random change rates and budgets",
        x="spread of change rates (standard deviation / mean)",
        y="freshness of uniform less proportional",
        log="x",
        lines=[
            Line.of(f"draws, {name}", apart[drawn], np.array(gains[order])[drawn], "points")
            for name, order in zip(NAMES, ORDERS, strict=True)
        ],
    )
    ratio = np.geomspace(1.0, 1000.0, run.some(61, 31))
    halves = [[_both(np.array([1.0, x]), 1.0 + x, order) for x in ratio] for order in ORDERS]
    yield Panel(
        title="Two elements, as many polls as changes",
        x="change rate of one over that of the other",
        y="freshness (share of time)",
        log="x",
        bounds=(0.0, 1.0),
        lines=[
            Line.of(f"{policy}, {name}", ratio, np.array(rows)[:, column])
            for name, rows in zip(NAMES, halves, strict=True)
            for policy, column in (("uniform", 0), ("proportional", 2))
        ],
    )
    yield from _weights()
    yield from _twice()


def _weights() -> Iterator[Claim | Panel]:
    """Weigh the elements of example 4 by powers of their change rates."""
    powers = np.linspace(0.0, 2.0, 41)
    fresh = np.array(
        [
            [unstale.plan(RATES, BUDGET, weights=RATES**k, policy=policy).freshness for k in powers]
            for policy in POLICIES
        ]
    )
    best, uniform, proportional = (
        unstale.plan(RATES, BUDGET, weights=RATES, policy=policy) for policy in POLICIES
    )
    yield ours(
        "weights like the rates: freshness of uniform",
        computed=uniform.freshness,
        expected=0.2947963080890841,
        close=1e-12,
    )
    yield ours(
        "weights like the rates: freshness of proportional",
        computed=proportional.freshness,
        expected=0.3167376438773787,
        close=1e-12,
        why="above uniform: the theorems are about equal weights, and do not extend to others",
    )
    yield ours(
        "weights like the rates: proportional allocation is the optimum",
        computed=bool(np.allclose(best.frequencies, proportional.frequencies, rtol=1e-12)),
    )
    older = [unstale.plan(RATES, BUDGET, weights=RATES, policy=p).age for p in ("uniform", "proportional")]
    yield ours("weights like the rates: proportional is also younger", computed=older[1] < older[0])
    yield Panel(
        title="Example 4 with weights: rates to a power",
        x="power (0: equal weights, 1: weights like the change rates)",
        y="freshness (share of time, by weight)",
        lines=[Line.of(name, powers, row) for name, row in zip(POLICIES, fresh, strict=True)],
    )


def _twice() -> Iterator[Claim]:
    """Two elements that change once a day, one of twice the weight."""
    budgets = (1.0, 1.193858, 2.0, 4.0, 10.0, 100.0)
    ratio = []
    for budget in budgets:
        heavy, light = unstale.plan([1.0, 1.0], budget, weights=[2.0, 1.0]).frequencies
        ratio.append(float(heavy / light))
    yield statement(
        "section 8: one of two elements weighs twice as much",
        says="it is polled more often, but not necessarily twice as often",
        holds=min(ratio) > 1.0 and max(abs(one - 2.0) for one in ratio) > 0.1,
    )
    yield ours(
        "the same: how much more often at 1 poll a change",
        computed=ratio[0],
        expected=2.2953341444977644,
        close=1e-9,
    )
    yield ours("the same at 1.193858 polls", computed=ratio[1], expected=2.0, close=1e-5)
    yield ours(
        "the same at 100 polls",
        computed=ratio[-1],
        expected=1.4175688008868033,
        close=1e-9,
        why="in the end sqrt 2",
    )
