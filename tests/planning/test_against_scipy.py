"""Plans against a general optimiser that knows nothing of prices: SLSQP on the plain formulas."""

import numpy as np
import pytest
from scipy import optimize

from unstale import Empirical, Gamma, Pareto, Periodic, Poisson, UncertainPoisson, Weibull, plan, renewal
from unstale.processes import RandomOrder

ORDERS = ("fixed", "random", "purely-random")
SAME = 1e-6  # relative: what the optimiser reaches


# --- mean costs of elements with Poisson changes, as the papers print them --------------------------


def shares(r):
    """(1 - e^-r) / r."""
    return -np.expm1(-r) / r


def freshness(rate, f, order):
    r = rate / f
    return {"fixed": shares(r), "random": (1.0 - shares(r) ** 2) / r, "purely-random": 1.0 / (1.0 + r)}[order]


def staleness(rate, f, order):
    return 1.0 - freshness(rate, f, order)


def age(rate, f, order):
    r = rate / f
    means = {
        "fixed": 0.5 - 1.0 / r + shares(r) / r,
        "random": 7.0 / 12.0 - 1.0 / r + (1.0 - shares(r) ** 2) / r**2,
        "purely-random": r / (1.0 + r),
    }
    return means[order] / f


def missed_updates(rate, f, order):
    """Rate times the mean age of the polls, E[V^2] / 2 E[V]."""
    return rate / f * {"fixed": 0.5, "random": 7.0 / 12.0, "purely-random": 1.0}[order]


def harmonic(rate, f, order):
    """The mean of Ein(rate * age of the polls), the integral of (1 - e^-xs)/s ds from 0 to 1."""
    if order == "purely-random":
        return np.log1p(rate / f)
    v, weight = np.polynomial.legendre.leggauss(40)
    v, weight = 0.5 * (v + 1.0), 0.5 * weight
    ages, density = v, weight
    if order == "random":
        ages = np.append(v, 1.0 + v)
        density = np.append(weight * (1.0 - 0.5 * v**2), weight * 0.5 * (1.0 - v) ** 2)
    ein = -np.expm1(-np.multiply.outer(np.multiply.outer(rate / f, ages), v)) / v @ weight
    return ein @ density


POISSON = {"freshness": staleness, "age": age, "missed-updates": missed_updates, "harmonic": harmonic}


# --- the optimiser ----------------------------------------------------------------------------------


def best_cost(costs, spending, f, budget, *, low=0.0, high=np.inf, groups=None, limits=None):
    """Least weighted mean cost that SLSQP finds from an allocation, with its allocation.

    It works on frequencies relative to the start, so that all are about 1.
    """
    unit = np.where(f > 0, f, budget / f.size)
    floor = 1e-7
    bounds = [
        (max(low_i / u, floor), None if np.isinf(high_i) else high_i / u)
        for low_i, high_i, u in zip(
            np.broadcast_to(low, f.shape), np.broadcast_to(high, f.shape), unit, strict=True
        )
    ]
    rules = [{"type": "ineq", "fun": lambda x: 1.0 - np.sum(spending(x * unit)) / budget}]
    for h, limit in enumerate([] if limits is None else limits):
        rules.append(
            {
                "type": "ineq",
                "fun": lambda x, h=h, limit=limit: 1.0 - np.sum(spending(x * unit)[groups == h]) / limit,
            }
        )
    start = np.clip(np.ones(f.size) * 0.5, [b[0] for b in bounds], [b[1] or np.inf for b in bounds])
    scale = costs(start * unit)
    found = optimize.minimize(
        lambda x: costs(x * unit) / scale,
        start,
        bounds=bounds,
        constraints=rules,
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-14},
    )
    return found.fun * scale, np.clip(found.x, *np.array([(b[0], b[1] or np.inf) for b in bounds]).T) * unit


def compare(found, costs, spending, budget, **rules):
    """The plan and the optimiser agree, and the optimiser is not better by more than the gap."""
    # start far from the plan, which only lends its scale
    spread = found.frequencies * np.linspace(0.7, 1.3, found.frequencies.size)
    cost, f = best_cost(costs, spending, spread, budget, **rules)
    excess = max(np.sum(spending(f)) / budget - 1.0, 0.0)  # what it oversteps counts at the price
    worst = 1e-12 + 1e-3 * SAME + excess
    assert found.cost == pytest.approx(costs(np.maximum(found.frequencies, 1e-12)), rel=1e-9)
    assert cost >= (found.cost - found.gap) * (1.0 - 10.0 * worst)
    assert found.cost <= cost * (1.0 + SAME)
    assert found.cost == pytest.approx(cost, rel=SAME)


def elements(n, seed):
    rng = np.random.default_rng(seed)
    return rng.uniform(0.3, 3.0, n), rng.uniform(0.5, 2.0, n), rng.uniform(0.5, 2.0, n)


@pytest.mark.every(5)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("objective", POISSON)
@pytest.mark.parametrize("n", [2, 12])
def test_poisson_changes(objective, order, n):
    rates, weights, sizes = elements(n, 1)
    budget = 0.8 * n

    def costs(f):
        return np.sum(weights * POISSON[objective](rates, f, order)) / np.sum(weights)

    found = plan(rates, budget, weights=weights, sizes=sizes, objective=objective, order=order)
    compare(found, costs, lambda f: sizes * f, budget)


@pytest.mark.long
def test_fifty_elements():
    rates, weights, sizes = elements(50, 2)
    for objective in ("freshness", "age"):

        def costs(f, objective=objective):
            return np.sum(weights * POISSON[objective](rates, f, "fixed")) / np.sum(weights)

        found = plan(rates, 60.0, weights=weights, sizes=sizes, objective=objective)
        compare(found, costs, lambda f: sizes * f, 60.0)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("objective", POISSON)
def test_bounds(objective, order):
    rates, weights, sizes = elements(10, 3)
    low, high = np.linspace(0.2, 0.5, 10), np.linspace(1.4, 0.8, 10)

    def costs(f):
        return np.sum(weights * POISSON[objective](rates, f, order)) / np.sum(weights)

    found = plan(
        rates,
        9.0,
        weights=weights,
        sizes=sizes,
        objective=objective,
        order=order,
        min_frequency=low,
        max_frequency=high,
    )
    compare(found, costs, lambda f: sizes * f, 9.0, low=low, high=high)


@pytest.mark.every(5)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("objective", POISSON)
def test_groups(objective, order):
    rates, weights, sizes = elements(12, 4)
    groups, limits = np.arange(12) % 4, np.array([0.5, 2.0, 20.0, 3.5])

    def costs(f):
        return np.sum(weights * POISSON[objective](rates, f, order)) / np.sum(weights)

    found = plan(
        rates,
        11.0,
        weights=weights,
        sizes=sizes,
        objective=objective,
        order=order,
        groups=groups,
        limits=limits,
    )
    compare(found, costs, lambda f: sizes * f, 11.0, groups=groups, limits=limits)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("objective", POISSON)
def test_costly_changes(objective, order):
    """A poll that finds a change costs more: polls find rate * freshness changes per unit time."""
    rates, weights, sizes = elements(8, 5)
    changes = np.array([0.0, 0.1, 0.5, 1.0, 2.0, 5.0, 0.0, 1.0])

    def costs(f):
        return np.sum(weights * POISSON[objective](rates, f, order)) / np.sum(weights)

    def spending(f):
        return sizes * f + changes * rates * freshness(rates, f, order)

    found = plan(
        rates, 12.0, weights=weights, sizes=sizes, change_sizes=changes, objective=objective, order=order
    )
    compare(found, costs, spending, 12.0)


# --- other laws, by the formulas for any two processes ------------------------------------------------

LAWS = {
    "Pareto": Pareto(np.array([2.5, 3.0, 4.0, 6.0]), np.array([1.0, 2.0, 1.0, 3.0])),
    "Weibull": Weibull(np.array([0.6, 0.9, 1.5, 2.5]), np.array([1.0, 2.0, 0.5, 1.0])),
    "Gamma": Gamma(np.array([0.5, 1.0, 2.0, 4.0]), np.array([1.0, 2.0, 0.5, 0.3])),
    "UncertainPoisson": UncertainPoisson(np.array([0.7, 1.0, 2.0, 8.0]), np.array([1.0, 2.0, 0.5, 0.3])),
    "Periodic": Periodic(np.array([0.4, 0.7, 1.0, 1.5])),
    "lists": [
        Poisson(1.0),
        Pareto(2.5, 1.0),
        Empirical([0.3, 0.5, 1.0, 2.0]),
        Weibull(1.5, 1.0),
        Gamma(2.0, 0.5),
    ],
}
MEASURES = {
    "freshness": renewal.staleness,
    "age": lambda changes, polls: renewal.source_penalty(changes, polls, "x"),
    "missed-updates": renewal.missed_updates,
}


def polls_of(order, f):
    if order == "purely-random":
        return Poisson(f)
    return Periodic(1.0 / f) if order == "fixed" else RandomOrder(1.0 / f)


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("order", "objective", "names"),
    [
        ("fixed", "freshness", LAWS),
        ("fixed", "age", LAWS),
        ("fixed", "missed-updates", LAWS),
        ("random", "freshness", ["Pareto", "Periodic"]),
        ("purely-random", "age", ["UncertainPoisson"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_laws(order, objective, names):
    for name in names:
        law = LAWS[name]
        each = law if isinstance(law, list) else [law.element((i,)) for i in range(4)]
        weights = np.linspace(1.0, 2.0, len(each))
        budget = 1.2 * len(each)

        def costs(f, each=each, weights=weights):
            measure = MEASURES[objective]
            parts = [float(measure(changes, polls_of(order, g))) for changes, g in zip(each, f, strict=True)]
            return float(weights @ parts / np.sum(weights))

        found = plan(law, budget, weights=weights, objective=objective, order=order)
        compare(found, costs, lambda f: f, budget)


def test_uncertain_rates_with_costly_changes():
    """Polls at intervals t find G(t) changes each, with the law of the first change G."""
    law, changes = LAWS["UncertainPoisson"], np.array([0.0, 0.5, 1.0, 3.0])
    each = [law.element((i,)) for i in range(4)]

    def costs(f):
        return float(
            np.mean(
                [float(renewal.staleness(one, Periodic(1.0 / g))) for one, g in zip(each, f, strict=True)]
            )
        )

    def spending(f):
        found = [float(one.residual_cdf(1.0 / g)) for one, g in zip(each, f, strict=True)]
        return f * (1.0 + changes * np.array(found))

    compare(plan(law, 6.0, change_sizes=changes), costs, spending, 6.0)
