"""Intervals of 90 % hold 90 % of the rates."""

import numpy as np
import pytest

from unstale.estimation import GammaPrior, estimate_rate, estimate_rates
from unstale.estimation.rates.posterior import vague_prior


def world(rng, rates, polls, kind):
    """Columns of polls of elements with these rates, and intervals of mean 1."""
    shape = (rates.size, polls)
    elapsed = (
        np.ones(shape) if kind == "regular" else rng.gamma(1.0 if kind == "exponential" else 4.0, size=shape)
    )
    elapsed /= elapsed.mean(axis=1, keepdims=True)
    changed = rng.random(shape) < -np.expm1(-rates[:, None] * elapsed)
    return np.repeat(np.arange(rates.size), polls), elapsed.ravel(), changed.ravel()


def coverage(found, rates):
    return 100.0 * np.mean((found.low <= rates) & (rates <= found.high))


@pytest.mark.every(5)
@pytest.mark.parametrize("kind", ["regular", "gamma", "exponential"])
@pytest.mark.parametrize(("polls", "elements"), [(5, 4_000), (20, 4_000), (100, 2_500), (500, 1_500)])
def test_one_element_without_a_prior(polls, elements, kind):
    """Rates from 0.01 to 100 per poll interval, all decades alike."""
    rng = np.random.default_rng(polls)
    rates = 10.0 ** rng.uniform(-2.0, 2.0, size=elements)
    columns = world(rng, rates, polls, kind)
    found = estimate_rates(*columns, prior=vague_prior(1.0))
    assert 88.0 < coverage(found, rates) < 92.0
    one = estimate_rate(
        columns[1][:polls], columns[2][:polls]
    )  # has the same prior, as its mean interval is 1
    np.testing.assert_allclose([one.low, one.high], [found.low[0], found.high[0]], rtol=1e-6)


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("shape", "mean", "polls", "kind"),
    [
        (0.3, 1.0, 5, "regular"),
        (0.3, 10.0, 50, "exponential"),
        (1.0, 0.1, 50, "regular"),
        (1.0, 10.0, 5, "exponential"),
        (5.0, 1.0, 50, "regular"),
    ],
)
def test_a_prior_learned_from_the_population(shape, mean, polls, kind):
    rng = np.random.default_rng([polls, int(10 * shape)])
    rates = rng.gamma(shape, mean / shape, size=3_000)
    assert 88.0 < coverage(estimate_rates(*world(rng, rates, polls, kind)), rates) < 92.0


@pytest.mark.every(5)
@pytest.mark.parametrize("kind", ["regular", "exponential"])
@pytest.mark.parametrize(("polls", "elements"), [(5, 3_000), (50, 2_000), (500, 1_500)])
def test_a_prior_learned_from_rates_of_all_decades(polls, elements, kind):
    """No gamma population; the tail, of elements that changed at every poll, is not seen at all."""
    rng = np.random.default_rng(polls)
    rates = 10.0 ** rng.uniform(-2.0, 2.0, size=elements)
    assert 88.0 < coverage(estimate_rates(*world(rng, rates, polls, kind)), rates) < 92.0


@pytest.mark.long
@pytest.mark.parametrize("kind", ["regular", "exponential"])
@pytest.mark.parametrize("polls", [5, 50, 500])
@pytest.mark.parametrize("mean", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("shape", [0.3, 1.0, 5.0])
def test_a_prior_learned_from_a_large_population(shape, mean, polls, kind):
    """On average over populations: 5 polls of each element leave the shape of the prior in doubt by a tenth,
    which moves the coverage of all elements of one population together, by 1.5 % at shape 5 and mean 0.1."""
    rng = np.random.default_rng([polls, int(10 * shape), int(10 * mean)])
    found = []
    for _ in range(4 if polls == 5 else 1):
        rates = rng.gamma(shape, mean / shape, size=40_000 if polls < 500 else 8_000)
        found.append(coverage(estimate_rates(*world(rng, rates, polls, kind)), rates))
    assert 88.0 < np.mean(found) < 92.0


def test_a_small_population():
    """Where a single prior, the likeliest, would make intervals too narrow."""
    rng = np.random.default_rng(6)
    found = {"averaged": [], "likeliest": []}
    for _ in range(30):
        rates = rng.gamma(1.0, 0.3, size=8)
        columns = world(rng, rates, 6, "exponential")
        averaged = estimate_rates(*columns)
        found["averaged"].append(coverage(averaged, rates))
        found["likeliest"].append(coverage(estimate_rates(*columns, prior=averaged.prior), rates))
    assert np.mean(found["averaged"]) > 87.0
    assert np.mean(found["likeliest"]) < np.mean(found["averaged"]) - 2.0


def test_a_given_prior_that_is_true():
    rng = np.random.default_rng(7)
    rates = rng.gamma(2.0, 0.25, size=10_000)
    columns = world(rng, rates, 10, "exponential")
    for level in (0.5, 0.9, 0.99):
        found = estimate_rates(*columns, prior=GammaPrior(2.0, 0.25), level=level)
        off = coverage(found, rates) - 100.0 * level
        assert abs(off) < 4.0 * 100.0 * np.sqrt(level * (1.0 - level) / rates.size)
