"""What is integrated numerically, against mpmath."""

import mpmath as mp
import numpy as np
import pytest

from unstale import objectives, polling, quadrature, renewal
from unstale.errors import NoAnswer
from unstale.processes import (
    Gamma,
    Lognormal,
    Pareto,
    Periodic,
    Poisson,
    RandomOrder,
    Weibull,
)

from .exact import EXACT, ORDERS, PENALTIES, ExactRandomOrder, check, exact, label


def integral(function, high, *kinks):
    """Integrate from 0 with break points at every decade, with 25 digits."""
    high = mp.mpf(high)
    inside = [mp.mpf(10) ** k for k in range(-15, 20)] + [mp.mpf(kink) for kink in kinks]
    points = [mp.mpf(0), *sorted(p for p in inside if p < high), high]
    with mp.workdps(25):
        return mp.quad(function, points)


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.long)


SOURCE_PENALTIES = ("log(1+x)", "1/(1+x)", slow("power(2.5)"), "power(0.5)", slow("decay(1.0)"))


QUADRATURE_LAWS = [
    Poisson(2.0),
    Pareto(1.5, 0.5),
    Weibull(0.5, 0.5),
    slow(Lognormal(0.0, 1.0)),
    Gamma(3.0, 0.2),
]


@pytest.mark.every(5)
@pytest.mark.parametrize("name", SOURCE_PENALTIES)
@pytest.mark.parametrize("law", QUADRATURE_LAWS, ids=label)
def test_source_penalty_at_constant_intervals(name, law):
    penalty, reference = PENALTIES[name]
    exactly, m = EXACT[type(law)](law), exact(law.rate)
    periods = np.array([0.01, 1.0, 50.0])

    def mean(d):
        return m / d * integral(lambda y: reference["once"](d - y) * exactly.survival(y), d)

    want = [mean(exact(d)) for d in periods]
    got = [renewal.source_penalty(law, Periodic(d), penalty) for d in periods]
    check(got, want, periods, quadrature.ERROR)


@pytest.mark.parametrize("name", SOURCE_PENALTIES)
@pytest.mark.parametrize("law", QUADRATURE_LAWS, ids=label)
def test_source_penalty_of_poisson_polls(name, law):
    """A poll at random: the lag is exponential, whenever the copy is stale."""
    penalty, reference = PENALTIES[name]
    exactly, m, f = EXACT[type(law)](law), exact(law.rate), mp.mpf(1.3)
    stale = m * integral(lambda y: mp.exp(-f * y) * exactly.survival(y), mp.inf)
    weight = f * integral(lambda x: mp.exp(-f * x) * reference["value"](x), mp.inf)
    check([renewal.source_penalty(law, Poisson(1.3), penalty)], [stale * weight], [name], quadrature.ERROR)


@pytest.mark.every(5)
@pytest.mark.parametrize(
    "polls", [RandomOrder(0.7), Poisson(1.3), Weibull(0.5, 0.4), slow(Pareto(3.0, 1.4))], ids=label
)
@pytest.mark.parametrize("law", QUADRATURE_LAWS[1:], ids=label)
@pytest.mark.parametrize("objective", ["freshness", "age"])
def test_average_cost_of_random_polls(objective, law, polls):
    exactly, polled = EXACT[type(law)](law), EXACT[type(polls)](polls)

    def cost(t):
        fresh = exactly.moment(0, t)
        return fresh if objective == "freshness" else t * fresh - exactly.moment(1, t)

    end = 1.4 if isinstance(polls, RandomOrder) else mp.inf
    with mp.workdps(40):
        want = integral(lambda t: polled.survival(t) * cost(t), end, 0.7) * exact(polls.rate)
    check([polling.average_cost(objective, law, polls)], [want], [label(law)], quadrature.ERROR)


@pytest.mark.parametrize("order", ORDERS[1:])
@pytest.mark.parametrize("law", QUADRATURE_LAWS[1:], ids=label)
def test_worth_of_random_intervals(law, order):
    exactly, t = EXACT[type(law)](law), mp.mpf(0.9)
    density = (lambda v: min(v, 2 - v)) if order == "random" else (lambda v: mp.exp(-v))
    with mp.workdps(40):
        want = integral(
            lambda v: exactly.moment(1, v * t) * density(v), 2 if order == "random" else mp.inf, 1
        )
    check([polling.worth("freshness", law, 0.9, order)], [want], [label(law)], quadrature.ERROR)


def test_harmonic_cost_of_any_law():
    for law in (Pareto(1.5, 0.5), Weibull(0.5, 0.5), Gamma(3.0, 0.2)):
        exactly, times = EXACT[type(law)](law), np.array([0.01, 1.0, 100.0])
        with mp.workdps(40):
            want = [integral(lambda s, e=exactly: e.moment(0, s) / s if s else mp.mpf(0), t) for t in times]
        check(objectives.Harmonic().cost(law, times), want, times, quadrature.ERROR)


@pytest.mark.parametrize("shape", [1.01, 1.05, 1.06, 1.2, 2.0])
def test_polls_with_very_long_gaps(shape):
    """The integral over the age of the polls hardly converges: the answer is right, or there is none."""
    a, m = exact(shape) - 1, mp.mpf(3)
    fresh = a * integral(lambda t: mp.exp(-(a + 1) * mp.log1p(t) - m * t), mp.inf)
    try:
        got = renewal.staleness(Poisson(3.0), Pareto(shape, 1.0))
    except NoAnswer:
        assert shape < 1.1  # beyond that there is an answer
    else:
        check([got], [1 - fresh], [shape], quadrature.ERROR)


@pytest.mark.parametrize("polls", [Periodic(1.0), RandomOrder(1.0), Poisson(1.0)], ids=label)
@pytest.mark.parametrize("name", ["x", "log(1+x)", "1/(1+x)"])
def test_a_function_of_the_lag_is_as_good_as_a_name(name, polls):
    function = {"x": lambda x: x, "log(1+x)": np.log1p, "1/(1+x)": lambda x: 1 / (1 + x)}[name]
    for penalty in (renewal.source_penalty, renewal.update_penalty):
        assert penalty(Poisson(2.0), polls, function) == pytest.approx(
            float(penalty(Poisson(2.0), polls, name)), rel=2 * quadrature.ERROR
        )


@pytest.mark.every(5)
@pytest.mark.parametrize("order", ORDERS[1:])
@pytest.mark.parametrize("law", [Lognormal(0.0, 0.1), Gamma(3.0, 0.3), Pareto(1.5, 1.0)], ids=label)
def test_changes_much_faster_than_polls(law, order):
    """The cost rises within a mean gap, a millionth of a poll interval: a careless rule steps over that."""
    exactly, frequencies = EXACT[type(law)](law), np.geomspace(1e-6, 2e-4, 5) * float(law.rate)
    bends = [mp.mpf(k) / 10 / exact(law.rate) for k in range(2, 31)]

    def stale(f):
        if order == "random":
            polls = ExactRandomOrder(RandomOrder(1 / float(f)))
            return f * integral(lambda t: polls.survival(t) * exactly.moment(0, t), 2 / f, 1 / f, *bends)
        return f * integral(lambda t: mp.exp(-f * t) * exactly.moment(0, t), mp.inf, *bends)

    mp.mp.dps = 40
    got = polling.mean_cost("freshness", law, frequencies, order)
    check(got, [stale(exact(f)) for f in frequencies], frequencies, quadrature.ERROR)


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("law", "frequency"),
    [
        (Lognormal(0.0, 0.05), 20.964814797001118),
        (Gamma(1000.0, 0.001), 20.991037201085547),
        (Gamma(0.1, 1.0), 82.27241341700474),
    ],
    ids=["lognormal", "regular", "bursty"],
)
def test_polls_at_random_against_changes_with_a_sharp_turn(law, frequency):
    """Frequencies at which a rule has taken two coarse sums that happened to agree for the integral."""
    exactly, f, m = EXACT[type(law)](law), exact(frequency), exact(law.rate)
    bends = [mp.mpf(k) / 10 / exact(law.rate) for k in range(2, 31)]
    mp.mp.dps = 40
    for got, k in (
        (polling.mean_cost("freshness", law, frequency, "purely-random"), 0),
        (polling.worth("freshness", law, 1 / frequency, "purely-random"), 1),
    ):
        # by parts: the moments are integrals of the survival
        want = m * integral(
            lambda t, k=k: t**k * mp.exp(-f * t) * exactly.survival(t), 90 / f, 10 / f, *bends
        )
        check([got], [want], [frequency], quadrature.ERROR)


@pytest.mark.parametrize("rate", [1e-12, 1e-3, 1.0, 1e6])
def test_lags_of_polls_at_constant_intervals(rate):
    """Equations 15 and 16 of Li, Cline & Loguinov for Poisson changes, also where they are small."""
    lags = np.array([*np.geomspace(1e-12, 0.999, 25), 1.0, 2.0])
    mp.mp.dps = 80
    m = exact(rate)

    def late(tau):
        z = max(1 - tau, mp.mpf(0))
        return z - (1 - mp.exp(-m * z)) / m

    stale = late(mp.mpf(0))
    law, polls = Poisson(rate), Periodic(1.0)
    check(renewal.share_within(law, polls, lags), [1 - late(exact(x)) for x in lags], lags)
    check(renewal.lag_cdf(law, polls, lags), [1 - late(exact(x)) / stale for x in lags], lags)
    assert renewal.lag_cdf(law, polls, 0.0) == 0
