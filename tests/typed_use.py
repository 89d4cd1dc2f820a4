"""The public API as a typed user sees it: checked by ``make lint`` (mypy), never run."""

from typing import assert_type

import numpy as np
from numpy.typing import NDArray

import unstale

Floats = NDArray[np.float64]


def use() -> None:
    assert_type(unstale.freshness(1.0, [1.0, 2.0]), Floats)
    assert_type(unstale.age(np.ones(3), 2, order="purely-random"), Floats)
    assert_type(unstale.worth("freshness", 1.0, 2.0), Floats)
    assert_type(unstale.interval(unstale.currency(0.5), unstale.Weibull(0.5, [1.0, 2.0]), 0.1), Floats)
    assert_type(unstale.mean_cost(unstale.Harmonic(), unstale.Poisson(2.0), 1.0), Floats)
    assert_type(unstale.perceived_freshness([1, 2], [1, 2], [1, 2]), float)
    plan = unstale.plan([1, 2, 3], 5, weights=None, objective="age", policy="optimal", order="fixed")
    assert_type(plan, unstale.Plan)
    assert_type(plan.frequencies, Floats)
    assert_type(plan.price, float)
    unstale.freshness(1.0, 1.0, order="fixd")  # type: ignore[arg-type]
    law: unstale.Process = unstale.Empirical([1, 2, 3])
    law = unstale.Pareto(3.0, 1.0)
    assert_type(unstale.Gamma(2, 3).shape, Floats)
    objective: unstale.Objective = unstale.SourcePenalty(unstale.penalties.named("x"))
    unstale.mean_cost(objective, law, 1.0)
