"""Worth, mean cost and interval of any law against mpmath."""

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from unstale import SourcePenalty, UpdatePenalty, currency, objectives, polling, quadrature, worth
from unstale.penalties import decay, named, power
from unstale.processes import (
    Empirical,
    Gamma,
    Lognormal,
    Pareto,
    Periodic,
    Poisson,
    RandomOrder,
    UncertainPoisson,
    Weibull,
)

from .exact import CLOSED, EXACT, ORDERS, PENALTIES, check, exact, label


def exact_worth(objective, law, t):
    """Worth at constant intervals, from the exact moments of the law."""
    exactly = EXACT[type(law)](law)
    m = [exactly.moment(k, t) for k in range(3)]
    return {
        "freshness": lambda: m[1],
        "age": lambda: (t**2 * m[0] - m[2]) / 2,
        "harmonic": lambda: t * m[0] - m[1],
        "missed-updates": lambda: exactly.moment(0, mp.mpf(10) ** -60) * mp.mpf(10) ** 60 * t**2 / 2,
    }[objective]()


SOME_LAWS = [
    Poisson(2.0),
    Pareto(1.3, 0.5),
    Pareto(3.0, 1.0),
    UncertainPoisson(0.5, 2.0),
    UncertainPoisson(50.0, 0.1),
    Weibull(0.4, 1.0),
    Weibull(3.0, 1.0),
    Gamma(0.3, 2.0),
    Gamma(40.0, 0.1),
    Lognormal(0.0, 0.3),
    Lognormal(-1.0, 2.0),
    Empirical([0.3, 1.7, 1.7, 0.02, 5.0]),
]


OBJECTIVES = ("freshness", "age", "missed-updates", "harmonic")


@pytest.mark.every(5)
@pytest.mark.parametrize("objective", ["freshness", "age", "harmonic"])
@pytest.mark.parametrize("law", [*SOME_LAWS, Periodic(0.7), RandomOrder(0.7)], ids=label)
def test_worth_of_any_law(objective, law):
    t = np.geomspace(1e-12, 1e6, 61) / float(law.rate)
    check(polling.worth(objective, law, t), [exact_worth(objective, law, exact(x)) for x in t], t)


@pytest.mark.every(5)
@pytest.mark.parametrize("objective", ["freshness", "age"])
@pytest.mark.parametrize("law", SOME_LAWS, ids=label)
def test_mean_cost_of_any_law(objective, law):
    """At constant intervals: closed forms in the moments, whose subtraction may cost two digits at most."""
    exactly, frequencies = EXACT[type(law)](law), np.geomspace(1e-6, 1e12, 61) * float(law.rate)
    want = []
    for f in frequencies:
        t = 1 / exact(f)
        m = [exactly.moment(k, t) for k in range(3)]
        want.append(m[0] - m[1] / t if objective == "freshness" else t * m[0] / 2 - m[1] + m[2] / (2 * t))
    check(polling.mean_cost(objective, law, frequencies), want, frequencies)


@pytest.mark.parametrize("law", [Poisson(3.0), Pareto(1.5, 2.0), Weibull(0.5, 1.0)], ids=label)
@pytest.mark.parametrize("name", PENALTIES)
def test_update_penalty_needs_the_rate_alone(name, law):
    reference = PENALTIES[name][1]
    objective, m = objectives.UpdatePenalty(PENALTIES[name][0]), exact(law.rate)
    t = np.geomspace(1e-12, 1e6, 37)
    check(polling.worth(objective, law, t), [m * reference["moment"](exact(x)) for x in t], t)
    check(
        polling.mean_cost(objective, law, t),
        [m * reference["twice"](1 / exact(x)) * exact(x) for x in t],
        t,
    )


def elasticity(objective, law, t, order):
    """Relative change of the worth over relative change of the interval."""
    near, far = (polling.worth(objective, law, t * factor, order) for factor in (0.999, 1.001))
    return (far - near) / (far + near) / 0.001


def check_round_trip(objective, law, t, order, tolerance):
    """Where the worth hardly depends on the interval it says little about it: nothing to check."""
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = elasticity(objective, law, t, order)
    good = slope > 0.02
    assert good.sum() >= 3
    back = polling.interval(objective, law, polling.worth(objective, law, t[good], order), order)
    assert (np.abs(back / t[good] - 1) <= tolerance * (1 + 1 / slope[good])).all()


@pytest.mark.parametrize("objective", [*OBJECTIVES, objectives.currency(0.3)], ids=[*OBJECTIVES, "currency"])
@pytest.mark.parametrize("law", [*SOME_LAWS, Periodic(0.7), RandomOrder(0.7)], ids=label)
def test_interval_inverts_worth(objective, law):
    start = 1e-6 if isinstance(objective, str) else 0.4
    check_round_trip(objective, law, np.geomspace(start, 30, 25), "fixed", CLOSED)


@pytest.mark.parametrize("order", ORDERS[1:])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_interval_inverts_worth_for_poisson_changes(objective, order):
    check_round_trip(objective, Poisson(2.0), np.geomspace(1e-12, 1e3, 37), order, CLOSED)


@pytest.mark.parametrize("order", ORDERS[1:])
@pytest.mark.parametrize("law", [Pareto(1.3, 0.5), Gamma(4.0, 0.3), Weibull(0.4, 1.0)], ids=label)
def test_interval_inverts_worth_by_quadrature(law, order):
    check_round_trip("freshness", law, np.array([1e-3, 0.3, 2.0]), order, quadrature.ERROR)


SMOOTH = [named("log(1+x)"), named("1/(1+x)"), decay(2.0), power(0.5), power(2.5)]
SMOOTH_LAWS = [
    Poisson(2.0),
    Pareto(1.7, 0.6),
    Weibull(0.5, 1.0),
    Weibull(3.0, 1.0),
    Gamma(0.4, 1.0),
    Lognormal(0.0, 1.0),
    UncertainPoisson(0.5, 2.0),
]


@pytest.mark.every(3)
@pytest.mark.parametrize("law", SMOOTH_LAWS, ids=repr)
@pytest.mark.parametrize("penalty", SMOOTH, ids=lambda penalty: penalty.name)
def test_the_rule_for_all_elements_agrees_with_the_one_that_adapts(penalty, law, monkeypatch):
    """At intervals over ten decades; the adaptive rule gives up beyond for decaying weights."""
    objective, t = SourcePenalty(penalty), np.geomspace(1e-6, 1e4, 11)
    quick = [method(law, t) for method in (objective.cost, objective.accrued, objective.worth)]
    monkeypatch.setattr(SourcePenalty, "smooth", False)
    sure = [method(law, t) for method in (objective.cost, objective.accrued, objective.worth)]
    assert_allclose(quick, sure, rtol=2e-10)


@pytest.mark.every(7)
@pytest.mark.parametrize("order", ["random", "purely-random"])
@pytest.mark.parametrize("law", [*SMOOTH_LAWS, Periodic(0.7)], ids=repr)
@pytest.mark.parametrize(
    "objective", ["freshness", "age", "harmonic", currency(0.3), UpdatePenalty("1/(1+x)")], ids=str
)
def test_averages_over_intervals_agree_with_the_ones_that_adapt(objective, law, order, monkeypatch):
    t = np.geomspace(1e-3, 1e3, 4)
    quick = worth(objective, law, t, order)
    monkeypatch.setattr(polling, "_averaged_worth", lambda *_: None)
    assert_allclose(quick, worth(objective, law, t, order), rtol=2e-10, atol=1e-300)
