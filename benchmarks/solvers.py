"""Plans beside those of general solvers and of textbook methods: what they buy, what they spend, how long."""

import math
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from benchmarks.planning import budget_error, elements
from unstale import plan
from unstale.planning.azar import algorithm_2, random_optimal

Floats = NDArray[np.float64]


def run() -> None:
    for count in (100, 100_000):  # compile
        for order in ("fixed", "purely-random"):
            plan(elements(count)[0], 1.0, order=order)
    print("\nplans beside those of other solvers; budget: one poll per element")
    print(f"  {'':<50} {'freshness':>13} {'budget error':>12} {'seconds':>9}")
    for count in (100, 300):
        _beside_slsqp(count)
    for count in (1_000, 10_000):
        _beside_cvxpy(count)
    for spread in (1.0, 12.0):
        _beside_azar(1_000_000, spread)
    _beside_lambert()


def fixed(rates: Floats, weights: Floats, f: Floats) -> float:
    """Weighted mean freshness in fixed order."""
    with np.errstate(divide="ignore"):
        return float(weights @ (-np.expm1(-rates / f) * f / rates) / weights.sum())


def purely_random(rates: Floats, weights: Floats, f: Floats) -> float:
    """Weighted mean freshness under purely random polls."""
    return float(weights @ (f / (f + rates)) / weights.sum())


def _row(name: str, job: Callable[[], Floats], bought: Callable[[Floats], float], budget: float) -> float:
    f, seconds, begin = np.empty(0), math.inf, time.perf_counter()
    for _ in range(5):
        start = time.perf_counter()
        f = job()
        seconds = min(seconds, time.perf_counter() - start)
        if time.perf_counter() - begin > 1.0:
            break
    fresh, error = bought(f), budget_error(f.sum(), budget)
    print(f"  {name:<50} {fresh:13.10f} {error:12.0e} {seconds:9.4f}")
    return fresh


def _beside_slsqp(count: int) -> None:
    rates, weights = elements(count)
    budget = float(count)

    def lost(f: Floats) -> float:
        return -fixed(rates, weights, np.maximum(f, 1e-300))

    def slope(f: Floats) -> Floats:
        r = rates / np.maximum(f, 1e-300)
        return -weights / rates * special.gammainc(2, r) / weights.sum()

    def slsqp() -> Floats:
        return optimize.minimize(
            lost,
            np.ones(count),
            jac=slope,
            method="SLSQP",
            bounds=[(0.0, None)] * count,
            constraints={"type": "eq", "fun": lambda f: f.sum() - budget, "jac": np.ones_like},
            options={"maxiter": 1000, "ftol": 1e-9},
        ).x

    def ours() -> Floats:
        return plan(rates, budget, weights=weights).frequencies

    def bought(f: Floats) -> float:
        return fixed(rates, weights, f)

    other = _row(f"SciPy SLSQP, {count:,} elements", slsqp, bought, budget)
    assert _row("  plan", ours, bought, budget) > other - 1e-9


def _beside_cvxpy(count: int) -> None:
    name = f"CVXPY with Clarabel, {count:,}, purely random"
    try:
        import cvxpy
    except ImportError:
        print(f"  {name:<50} is not installed: python -m pip install --group bench")
        return
    rates, weights = elements(count)
    budget = float(count)

    def clarabel() -> Floats:
        f = cvxpy.Variable(count, nonneg=True)
        stale = cvxpy.multiply(weights * rates / weights.sum(), cvxpy.inv_pos(f + rates))
        cvxpy.Problem(cvxpy.Minimize(cvxpy.sum(stale)), [cvxpy.sum(f) == budget]).solve(solver="CLARABEL")
        return f.value

    def ours() -> Floats:
        return plan(rates, budget, weights=weights, order="purely-random").frequencies

    def bought(f: Floats) -> float:
        return purely_random(rates, weights, f)

    other = _row(name, clarabel, bought, budget)
    assert _row("  plan", ours, bought, budget) > other - 1e-7


def _beside_azar(count: int, spread: float) -> None:
    rng = np.random.default_rng(1)
    rates, weights = rng.lognormal(0.0, spread, count), rng.lognormal(0.0, spread, count)
    budget = float(count)

    def letter() -> Floats:
        return algorithm_2(rates, weights, budget)

    def sorting() -> Floats:
        return random_optimal(rates, weights, 1.0, budget)

    def ours() -> Floats:
        return plan(rates, budget, weights=weights, order="purely-random").frequencies

    def bought(f: Floats) -> float:
        return purely_random(rates, weights, f)

    _row(f"Algorithm 2 of Azar et al., {count:,}, sigma {spread:g}", letter, bought, budget)
    theirs = _row("  random_optimal, the same without loss of digits", sorting, bought, budget)
    assert abs(_row("  plan, purely random", ours, bought, budget) - theirs) < 1e-9


# --- Lambert's W -----------------------------------------------------------------------------------


def lambert(rates: Floats, weights: Floats, price: float) -> Floats:
    """Frequencies at a price as textbooks have them: the interval r is -1 - W(-1, (x - 1)/e)."""
    x = price * rates / weights
    with np.errstate(divide="ignore", invalid="ignore"):
        r = -1.0 - special.lambertw((x - 1.0) / np.e, -1).real
        return np.where(x < 1.0, rates / r, 0.0)


def bisected(rates: Floats, weights: Floats, budget: float) -> tuple[float, float]:
    """What Lambert's W spends on both sides of the price that bisection ends at."""
    low, high = 1e-300, float((weights / rates).max())
    for _ in range(300):
        price = np.sqrt(low) * np.sqrt(high)
        if lambert(rates, weights, price).sum() <= budget:
            high = price
        else:  # also where it is nan, as for low prices
            low = price
    return float(lambert(rates, weights, low).sum()), float(lambert(rates, weights, high).sum())


def _beside_lambert() -> None:
    """1,000 ordinary elements and one whose changes per poll are given; only that one makes trouble."""
    rates, weights = elements(1000)
    price = plan(rates, 1000.0, weights=weights).price
    print("\na solver with SciPy's lambertw: 1,000 elements, and one with very few or many changes per poll")
    heads = ("per poll", "it finds", "below its price", "above it", "plan")
    print(f"  {'changes':>10} {'those':>14} {'budget error':>16}")
    print("  {:>10} {:>14} {:>16} {:>16} {:>8}".format(*heads))
    for changes in (1e-9, 1e-7, 1e-5, 1e-4, 1e-2, 1.0, 20.0, 30.0, 36.0, 40.0):
        rate = 1e6 if changes > 1.0 else 1.0
        weight = price * rate / special.gammainc(2, changes)
        both, heavy = np.append(rates, rate), np.append(weights, weight)
        budget = 1000.0 + rate / changes
        found = rate / lambert(both, heavy, price)[-1]
        over, under = (spent / budget - 1.0 for spent in bisected(both, heavy, budget))
        ours = plan(both, budget, weights=heavy)
        error = budget_error(ours.frequencies.sum(), budget)
        assert error < 1e-12, error
        assert ours.gap < 1e-12, ours.gap
        print(f"  {changes:10g} {found:14.8g} {over:16.1e} {under:16.1e} {error:8.0e}")
