"""The law of gaps from blind polls: nearer to the truth the more polls there are, whatever the law."""

import numpy as np
import pytest
from example_counts import percent
from hypothesis import example, given, settings
from hypothesis import strategies as st

from estimation.poll_histories import polled
from unstale import plan
from unstale.errors import InvalidInput
from unstale.estimation import estimate_blindly
from unstale.estimation.laws.class_fits import of_rate_one
from unstale.processes import Periodic, Poisson

TRUE = {
    "poisson": Poisson(1.0),
    "weibull": of_rate_one("weibull", 0.5),
    "pareto": of_rate_one("pareto", 2.2),
    "gamma": of_rate_one("gamma", 3.0),
    "periodic": Periodic(1.0),
}
LOOKED_AT = np.geomspace(0.2, 6.0, 40)


def history(name, elements, polls, seed=1):
    return polled(TRUE[name], np.random.default_rng(seed), elements=elements, polls=polls, rate=2.0)


@pytest.mark.parametrize("name", TRUE)
def test_the_estimate_is_consistent(name):
    errors = []
    for polls in (50, 1000):
        owner, elapsed, seen = history(name, 60, polls)
        found = estimate_blindly(elapsed, seen, owner)
        errors.append(np.abs(found.residual_cdf(LOOKED_AT) - TRUE[name].residual_cdf(LOOKED_AT)).max())
        survival = np.abs(found.survival(LOOKED_AT) - TRUE[name].survival(LOOKED_AT)).mean()
    assert errors[1] < 0.02
    assert errors[1] < max(errors[0], 0.005)
    assert survival < (0.09 if name == "weibull" else 0.05)
    assert found.rate == pytest.approx(1.0, rel=0.3 if name == "weibull" else 0.15)
    assert found.rate_low <= found.rate * 1.05
    assert found.rate_high >= found.rate * 0.95


def test_the_law_for_the_planner_has_the_same_rate_and_residual_cdf():
    owner, elapsed, seen = history("weibull", 50, 200)
    found = estimate_blindly(elapsed, seen, owner, points=500)
    assert float(found.law.rate) == pytest.approx(found.rate, rel=1e-9)
    assert found.law.residual_cdf(LOOKED_AT) == pytest.approx(found.residual_cdf(LOOKED_AT), abs=0.01)
    assert found.law.survival(LOOKED_AT) == pytest.approx(found.survival(LOOKED_AT), abs=0.05)
    assert plan(found.law, 1.0, policy="uniform").freshness > 0


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    inside = []
    for seed in range(25):
        owner, elapsed, seen = history("gamma", 100, 20, seed)
        found = estimate_blindly(elapsed, seen, owner, level=0.9)
        true = TRUE["gamma"].residual_cdf(found.spans)
        at = (found.spans > 0.2) & (found.spans < 2.0)
        inside.append(((found.low <= true) & (true <= found.high))[at].mean())
    assert 0.75 < np.mean(inside) < 0.99


@settings(max_examples=percent(40))
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.floats(0.05, 1.0))
@example(1, 4, 1.0)  # one of the samples that are drawn anew has no polls to compare
def test_what_comes_out_is_a_law(seed, polls, chance):
    rng = np.random.default_rng(seed)
    elapsed, seen = rng.exponential(size=polls), rng.random(polls) < chance
    seen[rng.integers(polls)] = True
    found = estimate_blindly(elapsed, seen, resamples=2)
    x = np.linspace(0.0, 3.0 * elapsed.sum(), 200)
    cdf, survival = found.residual_cdf(x), found.survival(x)
    assert cdf[0] == 0.0
    assert (np.diff(cdf) >= -1e-12).all()
    assert (np.diff(cdf, 2) <= 1e-9).all()  # concave
    assert cdf[-1] <= 1.0 + 1e-9
    assert survival[0] == pytest.approx(1.0)
    assert (np.diff(survival) <= 1e-12).all()
    assert found.weights.sum() == pytest.approx(1.0)
    assert (found.low <= found.residual + 1e-12).all()
    assert (found.residual <= found.high + 1e-12).all()
    assert found.residual_cdf(np.inf) == pytest.approx(1.0)
    assert found.survival(np.inf) == 0.0


@pytest.mark.parametrize("power", [-20, 11])
def test_the_unit_of_time_does_not_matter(power):
    owner, elapsed, seen = history("poisson", 30, 40)
    one, other = (estimate_blindly(elapsed * u, seen, owner) for u in (1.0, 2.0**power))
    assert other.rate * 2.0**power == pytest.approx(one.rate, rel=1e-6)
    assert other.residual == pytest.approx(one.residual, rel=1e-6)
    assert other.rate_low * 2.0**power == pytest.approx(one.rate_low, rel=1e-6)


def test_the_same_seed_gives_the_same_intervals_and_another_does_not():
    owner, elapsed, seen = history("poisson", 30, 40)
    one, same, other = (estimate_blindly(elapsed, seen, owner, seed=s) for s in (1, 1, 2))
    assert one.low.tolist() == same.low.tolist()
    assert one.low.tolist() != other.low.tolist()


def test_polls_at_constant_intervals_give_g_at_their_multiples():
    owner, elapsed, seen = polled(
        TRUE["weibull"], np.random.default_rng(3), elements=50, polls=400, rate=2.0, regular=True
    )
    found = estimate_blindly(elapsed, seen, owner)
    x = 0.5 * np.arange(1, 10)
    assert found.residual_cdf(x) == pytest.approx(TRUE["weibull"].residual_cdf(x), abs=0.02)


def test_pairs_that_are_not_neighbours_count():
    """Two polls saw a change each: within one interval always, and so within two."""
    found = estimate_blindly([1.0] * 4, [True, False, True, False], longest=2.0, resamples=2)
    assert found.shares.tolist() == pytest.approx([0.5, 1.0])
    assert found.spans.tolist() == pytest.approx([1.0, 2.0])


def test_a_hundred_thousand_polls_are_quick():
    import time

    rng = np.random.default_rng(4)
    elapsed = rng.exponential(size=100_000)
    seen = rng.random(100_000) < -np.expm1(-elapsed)
    start = time.process_time()
    found = estimate_blindly(elapsed, seen)
    assert time.process_time() - start < 60.0  # half a second on most machines
    assert found.residual_cdf(1.0) == pytest.approx(1 - np.exp(-1), abs=0.02)


GOOD = {"elapsed": [1.0, 2.0], "changed": [True, False]}
BAD = [
    ({"elapsed": [1.0, 0.0]}, r"elapsed must be .*elapsed\[1\] is 0"),
    ({"elapsed": [1.0, np.nan]}, r"elapsed\[1\] is nan"),
    ({"elapsed": 1.0}, "elapsed must be a list"),
    ({"changed": [False, False]}, "at least one poll that saw a change; none of the 2 did"),
    ({"changed": [True]}, "changed must be one for each of the 2"),
    ({"changed": [3, 1]}, r"changed\[0\] is 3"),
    ({"elements": [0, -1]}, r"elements\[1\] is -1"),
    ({"longest": 0.0}, "longest must be"),
    ({"level": 1.0}, "level must be"),
    ({"points": 0}, "points must be a whole number >= 1"),
    ({"resamples": 1}, "resamples must be a whole number >= 2"),
    ({"seed": -1}, "seed must be a whole number"),
]


@pytest.mark.parametrize(("spoilt", "words"), BAD)
def test_what_cannot_be_used_is_named(spoilt, words):
    with pytest.raises(InvalidInput, match=words):
        estimate_blindly(**(GOOD | spoilt))


def test_questions_out_of_range_are_named():
    found = estimate_blindly(**GOOD, resamples=2)
    with pytest.raises(InvalidInput, match="t must be"):
        found.residual_cdf(-1.0)
    with pytest.raises(InvalidInput, match="gap must be"):
        found.survival([np.nan])
