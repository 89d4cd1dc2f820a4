"""Kernels of uncertain rates against mpmath, at every extreme, and their way to Poisson."""

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from unstale import kernels, uncertain_kernels
from unstale.polling import interval, mean_cost, worth
from unstale.processes import UncertainPoisson

KINDS = {"freshness": kernels.FRESHNESS, "age": kernels.AGE, "harmonic": kernels.HARMONIC}
SHAPES = (1e-6, 0.1, 1 - 1e-9, 1.0, 1 + 1e-9, 1.3, 1.9999, 2.0, 2.49, 2.51, 10.0, 1e4, 1e15)
TIMES = (1e-300, 1e-100, 1e-12, 1e-3, 0.1, 0.499, 0.501, 1.0, 5.0, 100.0, 1e8, 1e50, 1e140, 1e300)
FLOATS = (1e-290, 1e300)
"""Between these, numbers have all their digits."""


def h(q, v):
    return mp.log1p(v) if q == 0 else (mp.power(1 + v, q) - 1) / q


def exact(a, v):
    """Worths, mean costs and elasticities, in as many digits as their differences need."""
    with mp.workdps(120 + int(5 * abs(np.log10(v)))):
        a, v = mp.mpf(a), mp.mpf(v)
        changed = 1 - mp.power(1 + v, -a)
        first = a * (h(1 - a, v) - h(-a, v))
        second = a * (h(2 - a, v) - 2 * h(1 - a, v) + h(-a, v))
        worths = {"freshness": first, "age": (v * v * changed - second) / 2, "harmonic": v * changed - first}
        costs = {"freshness": changed - first / v, "age": v * changed / 2 - first + second / (2 * v)}
        slopes = {
            "freshness": v * v * a * (1 + v) ** (-a - 1),
            "age": v * v * changed,
            "harmonic": v * changed,
        }
        return worths, costs, {name: float(slopes[name] / worths[name]) for name in worths}


@pytest.mark.parametrize("a", SHAPES)
@np.errstate(all="ignore")
def test_worth_cost_and_interval(a):
    for v in TIMES:
        worths, costs, slopes = exact(a, v)
        for name, kind in KINDS.items():
            if not FLOATS[0] < worths[name] < FLOATS[1]:
                continue
            assert uncertain_kernels.worth(kind, kernels.FIXED, a, v) == pytest.approx(
                float(worths[name]), rel=1e-12
            )
            found = uncertain_kernels.inverse_worth(kind, kernels.FIXED, a, float(worths[name]))
            # where worth hardly grows any more, the last digit of it is many of the interval
            loose = 1e-12 + 2e-15 / slopes[name] if slopes[name] > 1e-14 else np.inf
            assert abs(found / v - 1.0) <= loose, (name, a, v, found)
        for name, value in costs.items():
            if FLOATS[0] < value < FLOATS[1]:
                assert uncertain_kernels.cost(KINDS[name], kernels.FIXED, a, v) == pytest.approx(
                    float(value), rel=1e-12
                )
        fresh = float(1 - costs["freshness"])
        if fresh > FLOATS[0]:
            assert uncertain_kernels.freshness(kernels.FIXED, a, v) == pytest.approx(fresh, rel=1e-12)


@pytest.mark.parametrize(
    ("a", "v"), [(1e-6, 0.3), (0.1, 1e100), (1.0, 2.0), (3.0, 50.0), (1e4, 1e4), (1e15, 1e-14)]
)
def test_harmonic_cost(a, v):
    with mp.workdps(60):
        top = mp.log(mp.mpf(v))
        low = min(top, -mp.log(1 + mp.mpf(a))) - 80
        cuts = sorted(
            {x - mp.log(1 + mp.mpf(a)) for x in range(-80, 80, 5)} | {mp.mpf(x) for x in range(0, 240, 8)}
        )
        inside = [low, *(x for x in cuts if low < x < top), top]
        total = mp.quad(lambda w: 1 - mp.power(1 + mp.exp(w), -mp.mpf(a)), inside)
        value = float(total - exact(a, v)[1]["freshness"])
    assert uncertain_kernels.cost(kernels.HARMONIC, kernels.FIXED, a, v) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("name", KINDS)
def test_certain_rates_are_poisson(name):
    """The distance falls as one over the shape, and is a rounding error at the largest."""
    rate, times = 0.7, np.geomspace(1e-6, 40.0, 30)
    known = worth(name, rate, times)
    cost = mean_cost(name, rate, 1.0 / times)
    for shape, off in ((1e5, 1e-3), (1e9, 1e-7), (1e15, 1e-12)):
        law = UncertainPoisson(shape, rate / shape)
        assert_allclose(worth(name, law, times), known, rtol=off)
        assert_allclose(mean_cost(name, law, 1.0 / times), cost, rtol=off)
    law = UncertainPoisson(1e15, rate / 1e15)
    prices = known[known < 0.9 * known[-1]]
    assert_allclose(interval(name, law, prices), interval(name, rate, prices), rtol=1e-11)


@given(
    st.sampled_from(list(KINDS.values())),
    st.floats(-6, 15).map(lambda x: 10.0**x),
    st.lists(st.floats(-30, 30), min_size=2, max_size=2, unique=True),
)
@np.errstate(all="ignore")
def test_the_interval_grows_with_the_price(kind, shape, logs):
    low, high = (10.0**x / shape for x in sorted(logs))
    first, second = (
        uncertain_kernels.inverse_worth(kind, kernels.FIXED, shape, low),
        uncertain_kernels.inverse_worth(kind, kernels.FIXED, shape, high),
    )
    assert 0.0 < first <= second * (1.0 + 1e-12)
    limit = uncertain_kernels.worth(kind, kernels.FIXED, shape, np.inf)
    assert (second == np.inf) == (high >= limit) or second > 1e300 or high > limit * (1 - 1e-12)


@np.errstate(all="ignore")
def test_the_ends():
    for kind in KINDS.values():
        assert uncertain_kernels.inverse_worth(kind, kernels.FIXED, 2.0, 0.0) == 0.0
        assert uncertain_kernels.inverse_worth(kind, kernels.FIXED, 2.0, np.inf) == np.inf
        assert np.isnan(uncertain_kernels.inverse_worth(kind, kernels.FIXED, 2.0, -1.0))
        assert uncertain_kernels.cost(kind, kernels.FIXED, 2.0, 0.0) == 0.0
    assert uncertain_kernels.worth(kernels.FRESHNESS, kernels.FIXED, 3.0, np.inf) == pytest.approx(
        0.5, rel=1e-15
    )
    assert uncertain_kernels.worth(kernels.FRESHNESS, kernels.FIXED, 1.0, np.inf) == np.inf
    assert uncertain_kernels.inverse_worth(kernels.FRESHNESS, kernels.FIXED, 3.0, 0.5) == np.inf
    assert uncertain_kernels.cost(kernels.FRESHNESS, kernels.FIXED, 3.0, np.inf) == 1.0
    assert uncertain_kernels.cost(kernels.AGE, kernels.FIXED, 3.0, np.inf) == np.inf
    assert uncertain_kernels.freshness(kernels.FIXED, 3.0, np.inf) == 0.0


# --- random orders and conditional costs --------------------------------------------------------------


def in_random_order(kind, order, a, v):
    """Worth, cost and freshness by quadrature, from the survival of the poll interval over its mean."""
    with mp.workdps(30):
        a, v = mp.mpf(a), mp.mpf(v)
        if order == kernels.RANDOM:
            survival = lambda x: 1 - x * x / 2 if x < 1 else (2 - x) ** 2 / 2  # noqa: E731
            rest = lambda x: 1 - x + x**3 / 6 if x < 1 else (2 - x) ** 3 / 6  # noqa: E731
            cuts = [1, 2]
        else:
            survival = rest = lambda x: mp.exp(-x)
            cuts = [1, 4, 16, 90]
        changed = lambda y: -mp.expm1(-a * mp.log1p(y))  # noqa: E731
        slope = {
            "freshness": lambda y: y * a * mp.exp(-(a + 1) * mp.log1p(y)),
            "age": lambda y: y * changed(y),
            "harmonic": changed,
        }[kind]
        unit = 1 / ((1 + a) * v)
        marks = [mp.mpf(10) ** k * unit for k in range(-3, 12)]
        cuts = [0, *(x for x in marks if x < 1), *cuts]
        value = v * mp.quad(lambda x: slope(v * x) * survival(x), cuts)
        cost = {
            "freshness": lambda x: changed(v * x) * survival(x),
            "age": lambda x: v * changed(v * x) * rest(x),
            "harmonic": lambda x: changed(v * x) * rest(x) / x,
        }[kind]
        fresh = mp.quad(lambda x: mp.exp(-a * mp.log1p(v * x)) * survival(x), cuts)
        return float(value), float(mp.quad(cost, cuts)), float(fresh)


@pytest.mark.parametrize("order", [kernels.RANDOM, kernels.PURELY_RANDOM])
@pytest.mark.every(2)
@pytest.mark.parametrize("a", [0.05, 1.0, 30.0, 1e15])
@np.errstate(all="ignore")
def test_random_orders(a, order):
    for changes in (1e-3, 2.0, 1e6):
        v = changes / (1.0 + a)
        for name, kind in KINDS.items():
            value, cost, fresh = in_random_order(name, order, a, v)
            assert uncertain_kernels.worth(kind, order, a, v) == pytest.approx(value, rel=1e-12)
            assert uncertain_kernels.cost(kind, order, a, v) == pytest.approx(cost, rel=1e-12)
            assert uncertain_kernels.freshness(order, a, v) == pytest.approx(fresh, rel=1e-12)
            found = uncertain_kernels.inverse_worth(kind, order, a, value)
            again = uncertain_kernels.worth(kind, order, a, found)
            assert again == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("more", [0.0, 0.5, 100.0])
@pytest.mark.parametrize("kind", KINDS.values())
def test_conditional_intervals_are_worth_what_they_cost(kind, more):
    shape = np.array([0.3, 1.0, 4.0, 1e3, 1e12])
    with mp.workdps(60):
        for a, changes in zip(shape, (3.0, 1.0, 0.4, 0.1, 2.0), strict=True):
            v = changes / (1.0 + a)
            changed, density = (
                1 - mp.power(1 + mp.mpf(v), -mp.mpf(a)),
                a * mp.power(1 + mp.mpf(v), -mp.mpf(a) - 1),
            )
            price = uncertain_kernels.worth(kind, kernels.FIXED, a, v) / float(
                1 + more * (changed - v * density)
            )
            found = uncertain_kernels.inverse_conditional(kind, a, price, more)
            assert found == pytest.approx(v, rel=1e-11)
