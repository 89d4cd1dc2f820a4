"""Kernels, Poisson formulas and gamma databases against mpmath."""

import mpmath as mp
import numpy as np
import pytest

from unstale import kernels, objectives, poisson, polling
from unstale.processes import (
    Poisson,
)

from .exact import CLOSED, KERNELS, ORDERS, around, check, exact

KINDS = ("freshness", "age", "harmonic")


# thresholds of the kernels: series below 1 and 2, saturation above 800
RATIOS = np.array([*np.geomspace(1e-12, 1e6, 91), *around(0.5, 1.0, 2.0, 800.0)])


EXTREME = np.array([*RATIOS, *np.geomspace(1e-200, 1e200, 41), *around(1e-150, 1e-100, 1e9)])


def mean_survival(r):
    return -mp.expm1(-r) / r


def random_worth(r):
    e = mean_survival(r)
    return 1 - 3 * e**2 + 2 * e * mp.exp(-r)


WORTH = {
    ("freshness", "fixed"): KERNELS["p2"],
    ("age", "fixed"): lambda r: r**2 / 2 - KERNELS["p2"](r),
    ("harmonic", "fixed"): KERNELS["q1"],
    ("freshness", "random"): random_worth,
    ("age", "random"): lambda r: 7 * r**2 / 12 - random_worth(r),
    ("harmonic", "random"): lambda r: r - 1 + mean_survival(r) ** 2,
    ("freshness", "purely-random"): lambda r: (r / (1 + r)) ** 2,
    ("age", "purely-random"): lambda r: r**3 * (r + 2) / (1 + r) ** 2,
    ("harmonic", "purely-random"): lambda r: r**2 / (1 + r),
}


FRESHNESS = {
    "fixed": mean_survival,
    "random": lambda r: (1 - mean_survival(r) ** 2) / r,
    "purely-random": lambda r: 1 / (1 + r),
}


AGE = {
    "fixed": lambda r: mp.mpf(1) / 2 - 1 / r + (1 - mp.exp(-r)) / r**2,
    "random": lambda r: mp.mpf(7) / 12 - 1 / r + (1 - mean_survival(r) ** 2) / r**2,
    "purely-random": lambda r: r / (1 + r),
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernel(name):
    check(getattr(kernels, name)(RATIOS), [KERNELS[name](exact(r)) for r in RATIOS], RATIOS)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", KINDS)
def test_worth(kind, order):
    got = kernels.worth(KINDS.index(kind), ORDERS.index(order), RATIOS)
    check(got, [WORTH[kind, order](exact(r)) for r in RATIOS], RATIOS)


@pytest.mark.parametrize("kind", KINDS)
def test_worth_at_the_ends(kind):
    for order in range(3):
        assert kernels.worth(KINDS.index(kind), order, 0.0) == 0
        assert kernels.worth(KINDS.index(kind), order, np.inf) == (1 if kind == "freshness" else np.inf)


def root_next_to(start, function, wanted, *, near_one=False):
    """Solve function(r) = wanted next to an approximate root: Newton's method on logarithms."""
    u, target, step = mp.log(exact(start)), exact(wanted), mp.mpf(10) ** -30
    complement = near_one and target > 0.5  # follow the distance from 1

    def miss(u):
        value = function(mp.exp(u))
        return mp.log((1 - value) / (1 - target)) if complement else mp.log(value / target)

    for _ in range(4):
        here = miss(u)
        u -= here * step / (miss(u + step) - here)
    return mp.exp(u)


SMALL_WORTHS = [*np.geomspace(1e-30, 0.49, 41), *around(5e-9, 0.5)]


WORTHS = {
    "freshness": np.array(
        [*SMALL_WORTHS, *np.linspace(0.51, 0.99, 13), *(1 - np.geomspace(1.2e-16, 1e-2, 21))]
    ),
    "age": np.array([*SMALL_WORTHS, *np.geomspace(0.6, 1e12, 31), *around(1.0, 8 / 3)]),
    "harmonic": np.array([*SMALL_WORTHS, *np.geomspace(0.6, 1e12, 31), *around(1.0)]),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", KINDS)
def test_inverse_worth(kind, order):
    x = WORTHS[kind]
    got = kernels.inverse_worth(KINDS.index(kind), ORDERS.index(order), x)
    worth = WORTH[kind, order]
    want = [root_next_to(r, worth, y, near_one=kind == "freshness") for y, r in zip(x, got, strict=True)]
    check(got, want, x)


def test_inverse_worth_at_the_ends():
    for order in range(3):
        assert kernels.inverse_worth(kernels.FRESHNESS, order, 0.0) == 0
        assert np.isinf(kernels.inverse_worth(kernels.FRESHNESS, order, [1.0, 2.0, np.inf])).all()
        assert np.isinf(kernels.inverse_worth(kernels.AGE, order, np.inf))
        assert np.isinf(kernels.inverse_worth(kernels.HARMONIC, order, np.inf))


def test_interval_freshness_is_the_inverse_of_p2():
    x = WORTHS["freshness"]
    inverse = kernels.inverse_worth(kernels.FRESHNESS, kernels.FIXED, x)
    np.testing.assert_allclose(kernels.interval_freshness(x), inverse, rtol=1e-15)


@pytest.mark.parametrize("order", ORDERS)
def test_inverse_freshness(order):
    wanted = np.array(
        [*np.geomspace(1e-280, 0.4, 41), *around(0.5), 0.6, *(1 - np.geomspace(1.2e-16, 0.3, 31))]
    )
    got = kernels.inverse_freshness(ORDERS.index(order), wanted)
    want = [root_next_to(r, FRESHNESS[order], f, near_one=True) for f, r in zip(wanted, got, strict=True)]
    check(got, want, wanted)


@pytest.mark.parametrize("order", ORDERS)
def test_freshness_staleness_and_age(order):
    code = ORDERS.index(order)
    with mp.workdps(1100):  # at a ratio of 1e-200 the age cancels 800 digits
        ratios = [exact(r) for r in EXTREME]
        check(kernels.freshness(EXTREME, 1.0, code), [FRESHNESS[order](r) for r in ratios], EXTREME)
        check(kernels.staleness(EXTREME, 1.0, code), [1 - FRESHNESS[order](r) for r in ratios], EXTREME)
        ages = [AGE[order](r) for r in ratios]
    check(kernels.age(EXTREME, 1.0, code), ages, EXTREME)
    # the same ratio with both numbers far from 1
    for unit in (2.0**-90, 2.0**90):
        check(kernels.age(EXTREME * unit, unit, code) * unit, ages, EXTREME)


@pytest.mark.parametrize("order", ORDERS)
def test_frequency_for_inverts_freshness(order):
    ratio = np.geomspace(1e-3, 1e6, 40)
    fresh = poisson.freshness(ratio, 1.0, order)
    # near freshness 1 the ratio is about 2 (1 - freshness): what freshness cannot hold, no inverse gives back
    blur = CLOSED + np.finfo(float).eps / (1 - fresh)
    assert (np.abs(poisson.frequency_for(ratio, fresh, order) - 1) <= blur).all()
    wanted = np.linspace(0.01, 0.99, 50)
    np.testing.assert_allclose(
        poisson.freshness(3.0, poisson.frequency_for(3.0, wanted, order), order), wanted, rtol=CLOSED
    )


def ein(x):
    return mp.expint(1, x) + mp.log(x) + mp.euler


def harmonic_mean(order, r):
    """E[V Ein(rV)] - E[q1(rV)]/r, with the integrals of v^n Ein(rv) by parts."""
    if order == "purely-random":
        return mp.log1p(r)
    if order == "fixed":
        return ein(r) - KERNELS["q1"](r) / r

    def part(n, a):
        incomplete = mp.factorial(n) * (
            1 - mp.exp(-r * a) * sum((r * a) ** j / mp.factorial(j) for j in range(n + 1))
        )
        return (a ** (n + 1) * (ein(r * a) - mp.mpf(1) / (n + 1)) + incomplete / r ** (n + 1)) / (n + 1)

    return 2 * part(2, 1) - part(2, 2) + 2 * (part(1, 2) - part(1, 1)) - WORTH["harmonic", "random"](r) / r


@pytest.mark.parametrize("order", ORDERS)
def test_harmonic_mean_cost(order):
    ratios = np.array([*np.geomspace(1e-12, 1e6, 73), *around(1.0, 2.0)])
    got = polling.mean_cost("harmonic", ratios, 1.0, order)
    check(got, [harmonic_mean(order, exact(r)) for r in ratios], ratios)
    assert polling.mean_cost("harmonic", 0.0, 1.0, order) == 0


def test_harmonic_cost():
    x = np.array([*np.geomspace(1e-12, 1e6, 73), *around(1.0)])
    check(objectives.Harmonic().cost(Poisson(1.0), x), [ein(exact(y)) for y in x], x)


HALF = float(np.sqrt(0.5))


SPREADS = (1e-9, 1e-3, 0.1, HALF - 1e-9, HALF, HALF + 1e-9, 1 - 1e-9, 1.0, 1 + 1e-9, 2.0, 10.0)


@pytest.mark.parametrize("spread", SPREADS)
def test_uniform_database(spread):
    r = np.array([*np.geomspace(1e-12, 1e6, 49), *around(1.0, 2.0)])
    a = 1 / exact(spread) ** 2
    fresh, old = [], []
    for ratio in r:
        z = exact(ratio) / a
        log = mp.log1p(z)
        h = [log if q == 0 else mp.expm1(q * log) / q for q in (-a, 1 - a, 2 - a)]
        # at interval 1: the integral of the residual survival, and of (1-y) times the distribution
        fresh.append(h[1] / z)
        old.append(mp.mpf(1) / 2 - (h[1] - (h[2] - h[1]) / z) / z)
    check(poisson.database_freshness(r, spread, 1.0), fresh, r)
    check(poisson.database_age(r, spread, 1.0), old, r)


def test_proportional_database():
    r = np.geomspace(1e-12, 1e6, 49)
    for spread in SPREADS:
        got = poisson.database_age(r, spread, 1.0, "proportional")
        if spread >= 1:
            assert np.isinf(got).all()
        else:
            check(got, [AGE["fixed"](exact(x)) / (1 - exact(spread) ** 2) for x in r], r)
        check(
            poisson.database_freshness(r, spread, 1.0, "proportional"),
            [mean_survival(exact(x)) for x in r],
            r,
        )


def test_no_spread_is_one_rate():
    r = np.geomspace(1e-12, 1e6, 49)
    np.testing.assert_allclose(
        poisson.database_freshness(r, 0.0, 1.0), poisson.freshness(r, 1.0), rtol=CLOSED
    )
    np.testing.assert_allclose(poisson.database_age(r, 1e-9, 1.0), poisson.age(r, 1.0), rtol=CLOSED)
