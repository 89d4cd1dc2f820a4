"""Every closed form against mpmath, to a relative error of 1e-12, over the whole range of its arguments.

The references are the textbook formulas, with so many digits that their cancellation does not matter.
Values below 1e-280 are not compared: the last decades before 1e-308 have fewer digits to give.
"""

import mpmath as mp
import numpy as np
import pytest

from unstale import kernels, objectives, penalties, poisson, polling, quadrature, renewal
from unstale.errors import NoAnswer
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

CLOSED = 1e-12
ORDERS = ("fixed", "random", "purely-random")
KINDS = ("freshness", "age", "harmonic")


@pytest.fixture(autouse=True)
def _digits():
    with mp.workdps(100):
        yield


def exact(value):
    """The float as mpmath sees it."""
    return mp.mpf(float(value))


def check(got, want, where, tolerance=CLOSED):
    """Assert that numbers agree to a relative tolerance, and name the worst place if they do not."""
    worst = (0.0, None)
    for value, reference, place in zip(np.ravel(got), want, where, strict=True):
        if not reference and value == 0:
            continue
        if mp.isinf(reference):
            error = 0.0 if np.isinf(value) else float("inf")
        elif abs(reference) < 1e-280:
            error = 0.0 if 0 <= value < 2e-280 else float("inf")
        else:
            error = float(abs(exact(value) / reference - 1)) if np.isfinite(value) else float("inf")
        if not error <= worst[0]:
            worst = (error, f"at {place}: got {value!r}, want {mp.nstr(reference, 17)}")
    assert worst[0] <= tolerance, f"relative error {worst[0]:.2g} {worst[1]}"


def around(*points):
    """Points, their neighbours and points a little off."""
    return [
        y
        for x in points
        for y in (x * (1 - 1e-9), np.nextafter(x, 0), x, np.nextafter(x, 2 * x), x * (1 + 1e-9))
    ]


# thresholds of the kernels: series below 1 and 2, saturation above 800
RATIOS = np.array([*np.geomspace(1e-12, 1e6, 91), *around(0.5, 1.0, 2.0, 800.0)])
EXTREME = np.array([*RATIOS, *np.geomspace(1e-200, 1e200, 41), *around(1e-150, 1e-100, 1e9)])


# --- kernels --------------------------------------------------------------------------------------


def mean_survival(r):
    return -mp.expm1(-r) / r


KERNELS = {
    "p1": lambda r: 1 - mp.exp(-r),
    "p2": lambda r: 1 - (1 + r) * mp.exp(-r),
    "p3": lambda r: 1 - (1 + r + r**2 / 2) * mp.exp(-r),
    "q1": lambda r: r - 1 + mp.exp(-r),
    "q2": lambda r: r**2 / 2 - r + 1 - mp.exp(-r),
}


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
    assert (kernels.interval_freshness(x) == kernels.inverse_worth(kernels.FRESHNESS, kernels.FIXED, x)).all()


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


# --- processes ------------------------------------------------------------------------------------


def upper(a, x):
    return mp.gammainc(a, x, mp.inf, regularized=True)


def lower(a, x):
    return mp.gammainc(a, 0, x, regularized=True)


def normal(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


class ExactPoisson:
    def __init__(self, law):
        self.m = exact(law.rate)

    def survival(self, t):
        return mp.exp(-self.m * t)

    residual = survival

    def moment(self, k, t):
        x = self.m * t
        missing = mp.exp(-x) * mp.fsum(x**j / mp.factorial(j) for j in range(k + 1))
        return mp.factorial(k) * (1 - missing) / self.m**k

    def limit(self, k):
        return mp.factorial(k) / self.m**k


class ExactLomax:
    """Residual survival (1 + z)^-a, z = t/b."""

    def __init__(self, law):
        self.a, self.b = exact(law.shape) - 1, exact(law.scale)

    def survival(self, t):
        return mp.exp(-(self.a + 1) * mp.log1p(t / self.b))

    def residual(self, t):
        return mp.exp(-self.a * mp.log1p(t / self.b))

    def moment(self, k, t):
        log = mp.log1p(t / self.b)
        h = [log if q == 0 else mp.expm1(q * log) / q for q in (-self.a, 1 - self.a, 2 - self.a)]
        return self.a * self.b**k * (h[0], h[1] - h[0], h[2] - 2 * h[1] + h[0])[k]

    def limit(self, k):
        if self.a <= k:
            return mp.inf
        return self.b**k * mp.factorial(k) / mp.fprod(self.a - j for j in range(1, k + 1))


class ExactUncertain(ExactLomax):
    def __init__(self, law):
        self.a, self.b = exact(law.shape), 1 / exact(law.scale)


class ExactWeibull:
    def __init__(self, law):
        self.s, self.b = exact(law.shape), exact(law.scale)

    def survival(self, t):
        return mp.exp(-((t / self.b) ** self.s))

    def residual(self, t):
        return upper(1 / self.s, (t / self.b) ** self.s)

    def moment(self, k, t):
        return self.limit(k) * lower((k + 1) / self.s, (t / self.b) ** self.s)

    def limit(self, k):
        return self.b**k * mp.gamma((k + 1) / self.s) / mp.gamma(1 / self.s)


class ExactGamma:
    def __init__(self, law):
        self.s, self.b = exact(law.shape), exact(law.scale)

    def survival(self, t):
        return upper(self.s, t / self.b)

    def residual(self, t):
        z = t / self.b
        return upper(self.s + 1, z) - z / self.s * upper(self.s, z)

    def moment(self, k, t):
        z = t / self.b
        total = upper(self.s, z) * z ** (k + 1) + mp.rf(self.s, k + 1) * lower(self.s + k + 1, z)
        return self.b**k * total / ((k + 1) * self.s)

    def limit(self, k):
        return self.b**k * mp.rf(self.s + 1, k) / (k + 1)


class ExactLognormal:
    def __init__(self, law):
        self.m, self.s = exact(law.log_mean), exact(law.log_sd)

    def _level(self, t):
        return (mp.log(t) - self.m) / self.s

    def survival(self, t):
        return normal(-self._level(t))

    def residual(self, t):
        v = self._level(t)
        return normal(self.s - v) - t * mp.exp(-self.m - self.s**2 / 2) * normal(-v)

    def moment(self, k, t):
        v, j = self._level(t), k + 1
        above = t**j * normal(-v) * mp.exp(-self.m - self.s**2 / 2)
        return above / j + self.limit(k) * normal(v - j * self.s)

    def limit(self, k):
        j = k + 1
        return mp.exp(k * self.m + (j * j - 1) * self.s**2 / 2) / j


class ExactPeriodic:
    def __init__(self, law):
        self.p = exact(law.period)

    def survival(self, t):
        return mp.mpf(t < self.p)

    def residual(self, t):
        return max(mp.mpf(0), 1 - t / self.p)

    def moment(self, k, t):
        return min(t, self.p) ** (k + 1) / (self.p * (k + 1))

    def limit(self, k):
        return self.p**k / (k + 1)


class ExactRandomOrder:
    def __init__(self, law):
        self.i = exact(law.interval)

    def survival(self, t):
        v = min(t / self.i, mp.mpf(2))
        return 1 - v**2 / 2 if v < 1 else (2 - v) ** 2 / 2

    def residual(self, t):
        v = min(t / self.i, mp.mpf(2))
        return 1 - v + v**3 / 6 if v < 1 else (2 - v) ** 3 / 6

    def moment(self, k, t):
        v = min(t / self.i, mp.mpf(2))
        u = min(v, mp.mpf(1))
        total = u ** (k + 1) / (k + 1) - u ** (k + 3) / (2 * (k + 3))

        def beyond(y):
            return 2 * y ** (k + 1) / (k + 1) - 2 * y ** (k + 2) / (k + 2) + y ** (k + 3) / (2 * (k + 3))

        return (total + beyond(v) - beyond(mp.mpf(1)) if v > 1 else total) * self.i**k

    def limit(self, k):
        return (mp.mpf(1), mp.mpf(7) / 12, mp.mpf(1) / 2)[k] * self.i**k


class ExactEmpirical:
    def __init__(self, law):
        self.gaps = [exact(gap) for gap in law.gaps]
        self.total = mp.fsum(self.gaps)

    def survival(self, t):
        return mp.mpf(sum(gap > t for gap in self.gaps)) / len(self.gaps)

    def residual(self, t):
        return mp.fsum(gap - t for gap in self.gaps if gap > t) / self.total

    def moment(self, k, t):
        return mp.fsum(min(gap, t) ** (k + 1) for gap in self.gaps) / (k + 1) / self.total

    def limit(self, k):
        return mp.fsum(gap ** (k + 1) for gap in self.gaps) / (k + 1) / self.total


EXACT = {
    Poisson: ExactPoisson,
    Pareto: ExactLomax,
    UncertainPoisson: ExactUncertain,
    Weibull: ExactWeibull,
    Gamma: ExactGamma,
    Lognormal: ExactLognormal,
    Periodic: ExactPeriodic,
    RandomOrder: ExactRandomOrder,
    Empirical: ExactEmpirical,
}
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


def label(law):
    return repr(law).replace("np.float64", "")[:60]


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


# --- penalties ------------------------------------------------------------------------------------


def powers(k):
    k = mp.mpf(k)
    return {
        "value": lambda x: x**k if k else mp.mpf(1),
        "once": lambda x: x ** (k + 1) / (k + 1),
        "twice": lambda x: x ** (k + 2) / ((k + 1) * (k + 2)),
        "moment": lambda x: x ** (k + 2) / (k + 2),
    }


def decays(a):
    a = mp.mpf(a)
    return {
        "value": lambda x: mp.exp(-a * x),
        "once": lambda x: KERNELS["p1"](a * x) / a,
        "twice": lambda x: KERNELS["q1"](a * x) / a**2,
        "moment": lambda x: KERNELS["p2"](a * x) / a**2,
    }


def entropy(x):
    return (1 + x) * mp.log1p(x) - x


PENALTIES = {
    "1": (penalties.named("1"), powers(0)),
    "x": (penalties.named("x"), powers(1)),
    "log(1+x)": (
        penalties.named("log(1+x)"),
        {
            "value": mp.log1p,
            "once": entropy,
            "twice": lambda x: (1 + x) ** 2 * mp.log1p(x) / 2 - x * (2 + 3 * x) / 4,
            "moment": lambda x: (x**2 - 1) * mp.log1p(x) / 2 - x * (x - 2) / 4,
        },
    ),
    "1/(1+x)": (
        penalties.named("1/(1+x)"),
        {
            "value": lambda x: 1 / (1 + x),
            "once": mp.log1p,
            "twice": entropy,
            "moment": lambda x: x - mp.log1p(x),
        },
    ),
    **{f"power({k})": (penalties.power(k), powers(k)) for k in (0, 0.5, 1, 2.5)},
    **{f"decay({a})": (penalties.decay(a), decays(a)) for a in (0.01, 1.0, 300.0)},
    "beyond(0.75)": (
        penalties.beyond(0.75),
        {
            "value": lambda x: mp.mpf(x >= 0.75),
            "once": lambda x: max(x - mp.mpf(0.75), mp.mpf(0)),
            "twice": lambda x: max(x - mp.mpf(0.75), mp.mpf(0)) ** 2 / 2,
            "moment": lambda x: (max(x, mp.mpf(0.75)) ** 2 - mp.mpf(0.75) ** 2) / 2,
        },
    ),
}


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


# --- databases with gamma-distributed rates -------------------------------------------------------

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


# --- objectives -----------------------------------------------------------------------------------


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


@pytest.mark.parametrize("objective", ["freshness", "age", "harmonic"])
@pytest.mark.parametrize("law", [*SOME_LAWS, Periodic(0.7), RandomOrder(0.7)], ids=label)
def test_worth_of_any_law(objective, law):
    t = np.geomspace(1e-12, 1e6, 61) / float(law.rate)
    check(polling.worth(objective, law, t), [exact_worth(objective, law, exact(x)) for x in t], t)


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


# --- quadrature -----------------------------------------------------------------------------------


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
