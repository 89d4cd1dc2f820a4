"""LambdaCrawl's objective, with polls at random moments, as it has them, and at constant intervals."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import unstale
from unstale.arguments import Floats
from unstale.lab.experiment import BEYOND, Claim, Line, Panel, Run, experiment, ours

BUDGETS = np.geomspace(0.1, 10.0, 9)
"""Polls per element and unit time, in which there is one change per element on average."""
BUDGETS_PLAYED = (0.1, 1.0, 10.0)
RANDOM, SPACED, CONSTANT = (
    "LambdaCrawl (random moments)",
    "its frequencies at constant intervals",
    "best frequencies at constant intervals",
)


@experiment("beyond-harmonic", paper=BEYOND, where="LambdaCrawl (Kolobov et al., NeurIPS 2019)", seconds=1.0)
def harmonic(run: Run) -> Iterator[Claim | Panel]:
    """The harmonic objective: what constant intervals gain over random moments.

    Plan with gamma rates; the n-th change missed costs 1/n.
    """
    count = run.some(2000, 500)
    rng = run.rng(1)
    rates, weights = rng.gamma(1.0, size=count), rng.lognormal(size=count)
    costs = []
    for each in BUDGETS:
        random, constant = (
            unstale.plan(rates, each * count, weights=weights, objective="harmonic", order=order)
            for order in ("purely-random", "fixed")
        )
        spaced = weights @ unstale.mean_cost("harmonic", rates, random.frequencies) / weights.sum()
        costs.append([random.cost, float(spaced), constant.cost])
        if np.isclose(each, 1.0):
            yield from _formulas(rates, weights, random, constant)
    random_cost, spaced_cost, constant_cost = np.transpose(costs)
    yield ours(
        "constant intervals cost less, at every budget", computed=bool((constant_cost < spaced_cost).all())
    )
    gain = 1.0 - constant_cost / random_cost
    yield ours(
        "the gain is between a tenth and a half, and grows with the budget",
        computed=bool((np.diff(gain) > 0).all() and gain[0] > 0.1 and gain[-1] < 0.5),
    )
    points = _simulated(rates, weights, run)
    for k, name in enumerate((RANDOM, CONSTANT)):
        formula = np.interp(np.log(BUDGETS_PLAYED), np.log(BUDGETS), (random_cost, constant_cost)[k])
        off = np.abs(points[k, :, 0] - formula) / points[k, :, 1]
        yield ours(f"{name}: simulated costs are those of the formula", computed=bool((off < 5.0).all()))
    yield Panel(
        title="Harmonic cost by budget",
        x="budget (polls per change)",
        y="harmonic cost (mean of 1 + 1/2 + ... + 1/n)",
        lines=[
            Line.of(RANDOM, BUDGETS, random_cost),
            Line.of(SPACED, BUDGETS, spaced_cost),
            Line.of(CONSTANT, BUDGETS, constant_cost),
            Line.of(f"{RANDOM}, simulated", BUDGETS_PLAYED, points[0, :, 0], "points", error=points[0, :, 1]),
            Line.of(
                f"{CONSTANT}, simulated", BUDGETS_PLAYED, points[1, :, 0], "points", error=points[1, :, 1]
            ),
        ],
        log="xy",
    )
    yield Panel(
        title="What constant intervals gain",
        x="budget (polls per change)",
        y="cost saved (share of LambdaCrawl's)",
        lines=[
            Line.of("by the intervals alone", BUDGETS, 1.0 - spaced_cost / random_cost),
            Line.of("with frequencies of their own", BUDGETS, gain),
        ],
        log="x",
        bounds=(0.0, 0.5),
    )


def _formulas(
    rates: Floats, weights: Floats, random: unstale.Plan, constant: unstale.Plan
) -> Iterator[Claim]:
    """Hold both plans against closed forms, at one poll per change."""
    from scipy import special

    closed = 0.5 * (np.sqrt(rates**2 + 4.0 * weights * rates / random.price) - rates)
    yield ours(
        "random moments: the frequencies are those of LambdaCrawl's formula",
        computed=bool(np.allclose(random.frequencies, closed, rtol=1e-8)),
        why="(-λ + sqrt(λ² + 4wλ/price))/2",
    )
    logs = float(weights @ np.log1p(rates / random.frequencies) / weights.sum())
    yield ours("random moments: cost", computed=random.cost, expected=logs, close=1e-9,
               why="the mean of log(1 + λ/f)")  # fmt: skip
    c = constant.price * rates / weights
    small: Floats = -np.exp(-1.0 - c)
    x = 1.0 + c + special.lambertw(small, 0).real
    yield ours(
        "constant intervals: the frequencies are those of the closed form",
        computed=bool(np.allclose(constant.frequencies, rates / x, rtol=1e-6)),
        why="λ/x with x = 1 + c + W(-e^(-1-c)), c = price λ/w",
    )
    yield ours("no element is given up", computed=bool((constant.frequencies > 0).all()))


def _simulated(rates: Floats, weights: Floats, run: Run) -> Floats:
    """Cost and its error, by order and budget."""
    found = []
    for each in BUDGETS_PLAYED:
        budget = each * rates.size
        plans = [
            unstale.plan(rates, budget, weights=weights, objective="harmonic", order=order).frequencies
            for order in ("purely-random", "fixed")
        ]
        policies = {
            RANDOM: unstale.Schedule(plans[0], order="purely-random", seed=run.seed),
            CONSTANT: unstale.Schedule(plans[1], seed=run.seed),
        }
        rounds = run.some(200.0, 60.0)
        result = unstale.simulate(
            rates, budget, policies=policies, weights=weights, seed=run.seed, horizon=rounds / min(each, 1.0)
        )
        found.append([[one.cost("harmonic"), one.cost_error("harmonic")] for one in result.values()])
    return np.swapaxes(np.array(found), 0, 1)
