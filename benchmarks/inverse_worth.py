"""The planner's inner loop: from a worth to an interval, for freshness in fixed order."""

import numpy as np
from scipy import special

from benchmarks.timing import best
from unstale import kernels

ELEMENTS = 10_000_000


def run() -> None:
    rng = np.random.default_rng(1)
    rates, weights = rng.lognormal(size=ELEMENTS), rng.lognormal(size=ELEMENTS)
    out = np.empty(ELEMENTS)
    x = rng.random(ELEMENTS)
    kernels.interval_freshness(x[:2])  # compile
    kernels.inverse_worth(kernels.AGE, kernels.FIXED, x[:2])
    kernels.freshness(rates[:2], weights[:2], kernels.FIXED)

    check = x[:: ELEMENTS // 1000]
    worst = np.abs(kernels.p2(kernels.interval_freshness(check)) / check - 1.0).max()
    assert worst < 1e-12, worst

    def nanoseconds(job, elements=ELEMENTS):  # noqa: ANN001, ANN202  (local)
        return best(job) / elements * 1e9

    few = x[:: ELEMENTS // 200_000]
    rows = [
        ("NumPy pass: rates * weights, into a new array", nanoseconds(lambda: rates * weights)),
        (
            "NumPy pass: rates * weights, into an old array",
            nanoseconds(lambda: np.multiply(rates, weights, out=out)),
        ),
        ("NumPy pass: exp, into an old array", nanoseconds(lambda: np.exp(x, out=out))),
        ("inverse worth, freshness", nanoseconds(lambda: kernels.interval_freshness(x, out=out))),
        (
            "inverse worth, age",
            nanoseconds(lambda: kernels.inverse_worth(kernels.AGE, kernels.FIXED, x, out=out)),
        ),
        (
            "freshness of a frequency",
            nanoseconds(lambda: kernels.freshness(rates, weights, kernels.FIXED, out=out)),
        ),
        (
            "SciPy gammaincinv(2, x), the same function",
            nanoseconds(lambda: special.gammaincinv(2, few), few.size),
        ),
        (
            "SciPy lambertw, branch -1 (wrong for small x)",
            nanoseconds(lambda: special.lambertw((few - 1) / np.e, -1), few.size),
        ),
    ]
    print(f"inverse worth, {ELEMENTS:,} elements, one core (SciPy: 200,000)")
    print(f"  largest relative error of a round trip: {worst:.1e}")
    yardstick = rows[0][1]
    for name, ns in rows:
        print(f"  {name:<50} {ns:7.1f} ns/element {ns / yardstick:7.2f} x NumPy pass")
