"""Processes and penalties against mpmath."""

import mpmath as mp
import numpy as np
import pytest

from unstale import penalties, quadrature
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

from .exact import EXACT, PENALTIES, around, check, exact, label

HEAVY = (
    1e-9,
    1e-3,
    0.01,
    0.5,
    1 - 1e-9,
    1.0,
    1 + 1e-9,
    1.5,
    2 - 1e-9,
    2.0,
    2 + 1e-9,
    *around(2.5),
    7.3,
    1e4,
    1e6,
    1e12,
)


LAWS = [
    *(Poisson(rate) for rate in (1.0, 3e-3, 7e5)),
    *(Pareto(1 + a, 0.37) for a in HEAVY[1:]),
    Pareto(1.001, 1e6),
    Pareto(3.0, 1e-6),
    *(UncertainPoisson(a, 3.7) for a in HEAVY),
    *(Weibull(shape, 0.37) for shape in (0.1, 0.2, 0.35, 0.5, 0.8, 1.0, 1.5, 2.0, 3.3, 5.0)),
    *(Gamma(shape, 0.37) for shape in (0.05, 0.3, 1.0, 1.7, 2.0, 9.5, *around(30.0)[::2], 100.0, 1000.0)),
    *(Lognormal(m, sd) for m in (0.0, -3.0) for sd in (0.05, 0.3, 1.0, 2.0, 4.0)),
    Periodic(0.37),
    Periodic(1e5),
    RandomOrder(0.37),
    RandomOrder(1e5),
    Empirical([0.3, 1.7, 1.7, 0.02, 5.0]),
    Empirical(np.geomspace(1e-3, 1e3, 60)),
]


# in mean gaps; dense where most laws change from their body to their tail
TIMES = np.array(
    [*np.geomspace(1e-12, 1e6, 37), *around(1.0, 2.0), *np.arange(0.2, 3, 0.2), *np.geomspace(3, 650, 30)]
)


def times_for(law):
    """Times at which the law or its formulas change, besides the grid."""
    times = TIMES / float(law.rate)
    if isinstance(law, Pareto | UncertainPoisson):
        exactly = EXACT[type(law)](law)
        a, b = float(exactly.a), float(exactly.b)
        times = [*times, *(np.array(around(1.0, 2.0)) / a * b), *(np.array(around(2.0)) * b)]
    if isinstance(law, Gamma):
        times = [*times, *around(float((law.shape + 2 * np.sqrt(law.shape) + 3) * law.scale))]
    if isinstance(law, Lognormal):
        times = [*times, *around(float(np.exp(law.log_mean)))]
    if isinstance(law, Empirical):
        times = [*times, *law.gaps, *np.nextafter(law.gaps, 0), *np.nextafter(law.gaps, np.inf)]
    return np.array(times)


@pytest.mark.every(4)
@pytest.mark.parametrize("law", LAWS, ids=label)
def test_process(law):
    times, exactly = times_for(law), EXACT[type(law)](law)
    mp.mp.dps = (
        100 if isinstance(law, Pareto | UncertainPoisson | Poisson) else 50
    )  # the others cancel little
    points = [exact(t) for t in times]
    check(law.survival(times), [exactly.survival(t) for t in points], times)
    check(law.residual_survival(times), [exactly.residual(t) for t in points], times)
    assert (law.residual_cdf(times) == law.moment(0, times)).all()
    for k in range(3):
        check(law.moment(k, times), [exactly.moment(k, t) for t in points], times)
        check(law.moment(k, np.inf), [exactly.limit(k)], ["inf"])


@pytest.mark.parametrize("law", LAWS, ids=label)
def test_process_at_the_ends(law):
    assert law.survival(0.0) == 1
    assert law.survival(np.inf) == 0
    assert law.residual_survival([0.0, np.inf]).tolist() == [1, 0]
    for k in range(3):
        assert law.moment(k, 0.0) == 0
        with np.errstate(invalid="ignore"):  # a limit may be inf
            late = law.moment(k, [1e120, 1e200, 1e300])
        assert not np.isnan(late).any()
        assert (late <= law.moment(k, np.inf) * (1 + 1e-12)).all()


@pytest.mark.parametrize(
    ("law", "latest"),
    [
        (Poisson(1.0), 640.0),
        (Weibull(0.5, 1.0), 4e5),
        (Weibull(3.0, 1.0), 8.6),
        (Gamma(0.05, 1.0), 640.0),
        (Gamma(9.5, 1.0), 680.0),
        (Gamma(1000.0, 1.0), 2700.0),
        (Lognormal(0.0, 0.5), 5e7),
        (Lognormal(0.0, 0.05), 6.0),
        (Pareto(1e4, 1e4), 660.0),
        (Pareto(5.0, 1.0), 1e60),
    ],
    ids=label,
)
def test_far_tail(law, latest):
    """Down to probabilities of 1e-230 and less."""
    times, exactly = np.geomspace(latest / 50, latest, 40), EXACT[type(law)](law)
    want = [exactly.residual(exact(t)) for t in times]
    gaps = [exactly.survival(exact(t)) for t in times]
    assert want[-1] < 1e-230
    check(law.residual_survival(times), want, times)
    check(law.survival(times), gaps, times)


def test_parameters_broadcast():
    """An array of parameters gives what its entries give one by one."""
    shapes, times = np.array([0.05, 1.7, 200.0]), np.geomspace(1e-3, 1e3, 20)
    for law in (Gamma, Weibull, UncertainPoisson):
        together = law(shapes, 0.5)
        for i, shape in enumerate(shapes):
            alone = law(shape, 0.5)
            np.testing.assert_allclose(
                together.residual_survival(times[:, None])[:, i], alone.residual_survival(times), rtol=1e-14
            )
            np.testing.assert_allclose(
                together.moment(2, times[:, None])[:, i], alone.moment(2, times), rtol=1e-14
            )


@pytest.mark.parametrize("part", ["value", "once", "twice", "moment"])
@pytest.mark.parametrize("name", PENALTIES)
def test_penalty(name, part):
    penalty, reference = PENALTIES[name]
    x = np.array([*np.geomspace(1e-12, 1e6, 91), *around(0.75, 1.0, 2.0)])
    check(getattr(penalty, part)(x), [reference[part](exact(y)) for y in x], x)
    assert getattr(penalty, part)(np.float64(0.0)) == reference[part](mp.mpf(0))


@pytest.mark.parametrize("name", PENALTIES)
def test_custom_penalty(name):
    """The same by quadrature, to its stated error."""
    penalty, reference = PENALTIES[name]
    custom = penalties.custom(penalty.value, kinks=[0.75] if name.startswith("beyond") else [])
    x = np.array([0.01, 0.9, 5.0, 40.0])
    for part in ("value", "once", "twice", "moment"):
        check(getattr(custom, part)(x), [reference[part](exact(y)) for y in x], x, quadrature.ERROR)


def test_custom_penalty_with_a_singular_start():
    root = penalties.custom(lambda x: 1 / np.sqrt(x))
    x = np.array([0.01, 1.0, 9.0])
    check(root.once(x), [2 * mp.sqrt(exact(y)) for y in x], x, quadrature.ERROR)
    check(root.moment(x), [mp.mpf(2) / 3 * exact(y) ** 1.5 for y in x], x, quadrature.ERROR)
