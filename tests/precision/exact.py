"""Reference values in arbitrary precision, and how to compare with them."""

import mpmath as mp
import numpy as np

from unstale import penalties
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


KERNELS = {
    "p1": lambda r: 1 - mp.exp(-r),
    "p2": lambda r: 1 - (1 + r) * mp.exp(-r),
    "p3": lambda r: 1 - (1 + r + r**2 / 2) * mp.exp(-r),
    "q1": lambda r: r - 1 + mp.exp(-r),
    "q2": lambda r: r**2 / 2 - r + 1 - mp.exp(-r),
}


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


def label(law):
    return repr(law).replace("np.float64", "")[:60]


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
