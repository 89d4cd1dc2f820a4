"""Change rates of many elements, and the prior learned from them."""

import numpy as np
import pytest
from example_counts import percent
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import digamma

from unstale.errors import InvalidInput
from unstale.estimation import GammaPrior, Learner, estimate_rate, estimate_rates
from unstale.estimation.checked_polls import PollColumns
from unstale.estimation.rates import population as population_module
from unstale.estimation.rates.estimators import METHODS

PRIOR = GammaPrior(0.8, 1.5)


def world(rates, polls, *, seed=1, irregular=False):
    """Element, interval and outcome of polls of elements with these rates."""
    rng = np.random.default_rng(seed)
    elements = np.repeat(np.arange(rates.size), polls)
    elapsed = rng.exponential(size=elements.size) if irregular else np.ones(elements.size)
    return elements, elapsed, rng.random(elements.size) < -np.expm1(-rates[elements] * elapsed)


def gamma_world(shape, mean, count, polls, **options):
    rates = np.random.default_rng(7).gamma(shape, mean / shape, size=count)
    return rates, world(rates, polls, **options)


# --- one by one or all at once ------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(0, 4), st.floats(0.1, 10.0), st.booleans()), min_size=1, max_size=40),
    st.sampled_from(METHODS),
    st.integers(0, 2**32),
)
def test_many_are_as_one_by_one(polls, method, seed):
    elements, elapsed, changed = map(np.array, zip(*polls, strict=True))
    share = np.random.default_rng(seed).random(elapsed.size)
    modified = np.where(changed, share * elapsed, np.nan) if method == "last-modified" else None
    rates = estimate_rates(elements, elapsed, changed, method=method, modified=modified, n=6, prior=PRIOR)
    for i in range(6):
        mine = elements == i
        if mine.any():
            ages = None if modified is None else modified[mine]
            one = estimate_rate(elapsed[mine], changed[mine], method, modified=ages, prior=PRIOR)
            assert_allclose([rates.rate[i], rates.low[i], rates.high[i]], [one.rate, one.low, one.high])
            assert_allclose([rates.law.shape[i], rates.law.scale[i]], [one.law.shape, one.law.scale])
            assert (rates.polls[i], rates.changes[i]) == (one.polls, one.changes)
        else:
            assert method == "bayes" or np.isnan(rates.rate[i])
            assert_allclose([rates.law.shape[i], rates.law.scale[i]], [PRIOR.shape, PRIOR.scale])


@given(st.integers(0, 2**32))
def test_the_order_of_polls_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    elements, elapsed, changed = world(rng.gamma(1.0, size=30), 6, irregular=True, seed=seed)
    order = rng.permutation(elements.size)
    one = estimate_rates(elements, elapsed, changed, prior=PRIOR)
    other = estimate_rates(elements[order], elapsed[order], changed[order], prior=PRIOR)
    assert_allclose([other.rate, other.low, other.high], [one.rate, one.low, one.high], rtol=1e-6)


# --- the prior of a population ------------------------------------------------------------------------------


@pytest.mark.every(5)
@pytest.mark.parametrize("irregular", [False, True])
@pytest.mark.parametrize(("shape", "mean"), [(0.3, 1.0), (1.0, 0.1), (5.0, 2.0)])
def test_the_prior_of_a_gamma_population_is_found(shape, mean, irregular):
    _, polls = gamma_world(shape, mean, 3000, 20, irregular=irregular)
    prior = GammaPrior.learned(*polls)
    assert_allclose([prior.shape, prior.rate], [shape, mean], rtol=0.1)


def test_the_prior_is_where_the_likelihood_is_highest():
    _, polls = gamma_world(1.0, 1.0, 300, 5)
    goal = population_module._PriorLikelihood(PollColumns.of(*polls).tally())
    best = goal.best()
    floor, slope = goal.surprise(best)
    assert_allclose(slope, 0.0, atol=1e-6)
    for step in ([0.1, 0.0], [-0.1, 0.0], [0.0, 0.1], [0.0, -0.1], [0.1, 0.1]):
        value, gradient = goal.surprise(best + step)
        assert value > floor
        numeric = [
            (goal.surprise(best + step + e)[0] - goal.surprise(best + step - e)[0]) / 2e-4
            for e in 1e-4 * np.eye(2)
        ]
        assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-8)


DEGENERATE = {
    "nobody changed": np.zeros(60, bool),
    "everybody always changed": np.ones(60, bool),
    "equal rates": np.arange(60) % 2 == 0,
    "one change": np.arange(60) == 7,
    "one poll without": np.arange(60) != 7,
}


@pytest.mark.parametrize("name", DEGENERATE)
@pytest.mark.parametrize("elements", [np.zeros(60, int), np.arange(60) // 6, np.arange(60)])
def test_degenerate_populations_have_finite_answers(name, elements):
    changed = DEGENERATE[name]
    rates = estimate_rates(elements, np.full(60, 3.0), changed)
    assert np.isfinite([rates.prior.shape, rates.prior.scale]).all()
    assert (rates.low <= rates.rate).all()
    assert (rates.rate <= rates.high).all()
    assert (rates.high < 1e3).all()
    if name == "nobody changed":
        assert (rates.rate < 0.1).all()
    if name == "everybody always changed":
        assert (rates.rate > 0.3).all()


@settings(max_examples=percent(5))
@given(st.floats(1e-5, 1e5))
def test_the_unit_of_time_does_not_matter(unit):
    _, (elements, elapsed, changed) = gamma_world(1.0, 0.5, 40, 6, irregular=True)
    one = estimate_rates(elements, elapsed, changed)
    other = estimate_rates(elements, elapsed * unit, changed)
    assert_allclose(other.prior.shape, one.prior.shape, rtol=1e-3)
    assert_allclose(
        np.array([other.rate, other.low, other.high]) * unit, [one.rate, one.low, one.high], rtol=1e-3
    )


def test_a_sample_of_the_elements_is_enough(monkeypatch):
    """The rates differ by far less than what they are in doubt by."""
    _, polls = gamma_world(1.0, 1.0, 12_000, 20)
    every = estimate_rates(*polls)
    monkeypatch.setattr(population_module, "_MOST_POLLS_SAMPLED", 80_000)
    monkeypatch.setattr(population_module, "_MOST_ELEMENTS_AVERAGED", 2_000)
    some = estimate_rates(*polls)
    assert some.prior != every.prior
    off = (some.rate - every.rate) / (every.rate / np.sqrt(every.law.shape))
    assert np.sqrt(np.mean(off**2)) < 0.02


def test_few_elements_leave_the_prior_in_doubt():
    """Intervals are wider than if the likeliest prior were the true one."""
    _, polls = gamma_world(1.0, 1.0, 5, 4)
    rates = estimate_rates(*polls)
    certain = estimate_rates(*polls, prior=rates.prior)
    assert (rates.high / rates.low > 1.2 * certain.high / certain.low).all()
    assert_allclose(rates.law.rate, rates.rate)


def test_elements_of_any_rate_make_the_tail_of_the_prior_heavier():
    """Where they are many, and not in a gamma population, whose prior stays the likeliest of all."""
    rates = 10.0 ** np.random.default_rng(1).uniform(-2.0, 2.0, size=4000)
    data = PollColumns.of(*world(rates, 20)).tally()
    plain = population_module._PriorLikelihood(data)
    before, prior = plain.prior(plain.best()), GammaPrior.learned(*world(rates, 20))
    assert prior.rate > 1.5 * before.rate
    assert prior.scale > 2.0 * before.scale
    _, polls = gamma_world(1.0, 3.0, 4000, 20)
    plain = population_module._PriorLikelihood(PollColumns.of(*polls).tally())
    assert GammaPrior.learned(*polls) == plain.prior(plain.best())


def test_the_slopes_of_a_mixed_population():
    _, polls = gamma_world(1.0, 1.0, 300, 5)
    goal = population_module._MixedPriorLikelihood(PollColumns.of(*polls).tally())
    at = np.array([0.3, -0.5, -1.0])
    numeric = [(goal.surprise(at + e)[0] - goal.surprise(at - e)[0]) / 2e-4 for e in 1e-4 * np.eye(3)]
    assert_allclose(goal.surprise(at)[1], numeric, rtol=1e-5)


def test_the_prior_of_a_mixed_population_has_its_mean_and_mean_logarithm():
    _, polls = gamma_world(1.0, 1.0, 300, 5)
    prior = population_module._MixedPriorLikelihood(PollColumns.of(*polls).tally()).prior(
        np.array([0.0, 0.0, 0.0])
    )
    rng = np.random.default_rng(1)
    drawn = np.concatenate([rng.gamma(1.0, 1.0, size=400_000), rng.gamma(0.5, 40.0, size=400_000)])
    assert_allclose(prior.rate, drawn.mean(), rtol=0.01)
    assert_allclose(digamma(prior.shape) + np.log(prior.scale), np.log(drawn).mean(), atol=0.02)


# --- forgetting ---------------------------------------------------------------------------------------------


@given(st.integers(0, 2**32), st.sampled_from([None, PRIOR]))
@settings(max_examples=percent(5))
def test_a_very_long_half_life_is_none(seed, prior):
    elements, elapsed, changed = world(np.array([0.1, 1.0, 3.0]), 4, irregular=True, seed=seed)
    ages = np.where(changed & (np.arange(changed.size) % 2 == 0), 0.3 * elapsed, np.nan)
    none, long = (
        estimate_rates(elements, elapsed, changed, modified=ages, prior=prior, half_life=half_life, n=4)
        for half_life in (np.inf, 1e12)
    )
    assert_allclose([long.rate, long.low, long.high], [none.rate, none.low, none.high], rtol=1e-6)
    assert_allclose(long.law.shape, none.law.shape, rtol=1e-6)


def test_forgotten_polls_count_as_their_share():
    """Of intervals of one half-life, the first of three is a quarter, and a second of two is all."""
    elements, elapsed = np.array([0, 1, 0, 0, 1]), np.full(5, 2.0)
    rates = estimate_rates(elements, elapsed, np.zeros(5, bool), prior=PRIOR, half_life=2.0)
    assert_allclose(1.0 / rates.law.scale - 1.0 / PRIOR.scale, [2.0 * 1.75, 2.0 * 1.5])
    dated = estimate_rates(
        elements, elapsed, np.ones(5, bool), modified=np.full(5, 0.5), prior=PRIOR, half_life=2.0
    )
    assert_allclose(dated.law.shape - PRIOR.shape, [1.75, 1.5])
    assert_array_equal(dated.changes, [3, 2])


def test_forgetting_follows_a_rate_that_drifts():
    rng = np.random.default_rng(5)
    elements = np.tile(np.arange(200), 200)
    rate = np.where(np.arange(elements.size) < elements.size // 2, 0.2, 2.0)
    changed = rng.random(elements.size) < -np.expm1(-rate)
    rates = estimate_rates(elements, np.ones(elements.size), changed, prior=PRIOR, half_life=20.0)
    online = Learner(200, round=1.0, prior=PRIOR, half_life=20.0)
    online.learn(elements, np.ones(elements.size), changed)
    assert np.sqrt(np.mean((rates.rate - 2.0) ** 2)) < 0.5
    assert np.sqrt(np.mean(np.log(rates.rate / online.law(0.0).rate) ** 2)) < 0.1


def test_classes_have_priors_of_their_own():
    slow, fast = np.full(400, 0.05), np.full(400, 2.0)
    elements, elapsed, changed = world(np.concatenate([slow, fast]), 10)
    classes = np.repeat(["slow", "fast", "unseen"], [400, 400, 1])
    rates = estimate_rates(elements, elapsed, changed, n=801, classes=classes)
    assert list(rates.prior) == ["fast", "slow", "unseen"]
    assert_allclose([rates.prior["slow"].rate, rates.prior["fast"].rate], [0.05, 2.0], rtol=0.1)
    alone = estimate_rates(elements[:4000], elapsed[:4000], changed[:4000])
    assert_allclose(rates.rate[:400], alone.rate, rtol=1e-6)
    assert rates.prior["unseen"] == estimate_rates(elements, elapsed, changed).prior
    given_back = estimate_rates(elements, elapsed, changed, n=801, classes=classes, prior=rates.prior)
    assert_allclose(given_back.rate[:800], rates.rate[:800], rtol=0.03)


def test_other_methods_have_the_intervals_of_bayes():
    _, polls = gamma_world(1.0, 1.0, 50, 8)
    bayes, mle = estimate_rates(*polls), estimate_rates(*polls, method="mle")
    assert_array_equal(mle.low, np.minimum(bayes.low, mle.rate))
    assert_array_equal(mle.high, np.maximum(bayes.high, mle.rate))
    assert (mle.prior, len(mle), mle.method) == (bayes.prior, 50, "mle")


# --- refusals -----------------------------------------------------------------------------------------------

REFUSED = [
    ({"elements": [0]}, "elements must be one number for each of the 2 polls"),
    ({"elements": [0, -1]}, r"elements must be >= 0; elements\[1\] is -1"),
    ({"elements": [0, 3], "n": 3}, r"elements must be numbers from 0 to 2; elements\[1\] is 3"),
    ({"elements": [0.5, 1.0]}, r"elements must be whole numbers; elements\[0\] is"),
    ({"elements": ["a", "b"]}, "elements must be whole numbers"),
    ({"n": -1}, "n must be a whole number >= 0"),
    ({"elapsed": [1.0, -1.0]}, r"elapsed\[1\] is -1.0"),
    ({"changed": [0, 5]}, r"changed\[1\] is 5"),
    ({"modified": [0, -5]}, r"modified\[1\] is -5"),
    ({"classes": ["a"]}, "classes must be one label for each of the 2 elements"),
    ({"prior": {}, "classes": ["a", "b"]}, "that of 'a' is None"),
    ({"prior": "flat"}, "prior must be a GammaPrior, or a mapping"),
    ({"method": "best"}, "method must be one of"),
    ({"half_life": 0.0}, "half_life must be a number and > 0; half_life is 0.0"),
    ({"half_life": 3.0, "method": "mle"}, "half_life needs the method 'bayes'; method is 'mle'"),
    ({"level": 0.0}, "level must be finite and > 0"),
    ({"elements": [], "elapsed": [], "changed": []}, "elapsed must not be empty if there is no prior"),
]


@pytest.mark.parametrize(("spoilt", "message"), REFUSED)
def test_refusals_name_what_is_wrong(spoilt, message):
    good = {"elements": [0, 1], "elapsed": [1.0, 2.0], "changed": [True, False]}
    with pytest.raises(InvalidInput, match=message):
        estimate_rates(**{**good, **spoilt})


def test_a_prior_is_learned_from_polls():
    with pytest.raises(InvalidInput, match="a prior is learned from polls"):
        GammaPrior.learned([], [], [])
