"""The learner with a given prior and half-life: rates kept up to date poll by poll."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from unstale.errors import InvalidInput
from unstale.estimation import GammaPrior, Learner, estimate_rate, estimate_rates

PRIOR = GammaPrior(0.7, 2.0)
POLLS = st.lists(st.tuples(st.integers(0, 3), st.floats(0.01, 50.0), st.booleans()), min_size=1, max_size=60)
FOUR_BYTES = 1e-5
"""Evidence is kept in numbers of four bytes, whose errors add up over some dozens of polls."""


def columns(polls):
    return tuple(map(np.array, zip(*polls, strict=True)))


def learner_of(n=4, *, prior=PRIOR, half_life=np.inf, unit=1.0):
    return Learner(n, round=unit, prior=prior, half_life=half_life)


@given(POLLS, st.data(), st.sampled_from([np.inf, 5.0]))
def test_batches_may_be_cut_anywhere(polls, data, half_life):
    whole, cut = learner_of(half_life=half_life), learner_of(half_life=half_life)
    whole.learn(*columns(polls))
    i = data.draw(st.integers(0, len(polls)))
    for part in (polls[:i], polls[i:]):
        if part:
            cut.learn(*columns(part))
    assert_array_equal(cut.evidence, whole.evidence)
    assert_array_equal(cut.law(0.0).rate, whole.law(0.0).rate)


@pytest.mark.parametrize("quiet", [0.5, 3.0, 50.0])
def test_without_changes_forgetting_has_a_closed_form(quiet):
    """Each poll without a change adds its time; the distance to the prior is halved with each half-life."""
    learner = learner_of(1, prior=GammaPrior(2.0, 0.5), half_life=7.0)
    extra = 0.0
    for _ in range(5):
        learner.learn([0], [quiet], [False])
        extra = extra * 2.0 ** (-quiet / 7.0) + quiet
    assert learner.law(0.0).rate[0] == pytest.approx(2.0 / (2.0 + extra), rel=FOUR_BYTES)


@given(POLLS, st.floats(1e-5, 1e5))
def test_the_unit_of_time_does_not_matter(polls, unit):
    elements, elapsed, changed = columns(polls)
    one = learner_of(half_life=9.0)
    other = learner_of(prior=GammaPrior(PRIOR.shape, PRIOR.scale / unit), half_life=9.0 * unit, unit=unit)
    one.learn(elements, elapsed, changed)
    other.learn(elements, elapsed * unit, changed)
    # a change at the very bound between counted ones and others may be rounded to either side
    assert_allclose(other.law(0.0).rate * unit, one.law(0.0).rate, rtol=2e-2)
    assert_allclose(other.law(0.0).quantile(0.95) * unit, one.law(0.0).quantile(0.95), rtol=2e-2)


def test_saved_and_loaded_it_goes_on_bit_for_bit(tmp_path):
    rng = np.random.default_rng(3)
    learner = learner_of(50, half_life=7.0)
    learner.learn(rng.integers(0, 50, 500), rng.exponential(size=500), rng.random(500) < 0.4)
    np.savez(tmp_path / "learner.npz", **learner.state())
    with np.load(tmp_path / "learner.npz") as state:
        again = Learner.resume(state)
    for each in (learner, again):
        each.add(2)
        each.learn([50, 3], [2.0, 1.0], [True, False])
    assert_array_equal(again.law(0.0).rate, learner.law(0.0).rate)
    assert again.prior.rate[0] == pytest.approx(PRIOR.rate, rel=1e-12)


def test_changes_of_known_age_and_silence_are_exact():
    learner = learner_of(2)
    learner.learn([0, 0, 1], [1.0, 2.0, 4.0], [False, False, True], modified=[np.nan, np.nan, 1.5])
    law = learner.law(0.0)
    assert_allclose(law.shape, [0.7, 1.7], rtol=FOUR_BYTES)
    assert_allclose(1.0 / law.scale, [3.5, 2.0], rtol=FOUR_BYTES)
    exact = estimate_rate([4.0], [True], modified=[1.5], prior=PRIOR)
    assert_allclose([law.quantile(0.05)[1], law.quantile(0.95)[1]], [exact.low, exact.high], rtol=FOUR_BYTES)


@pytest.mark.parametrize("rate", [0.05, 0.3, 1.0, 3.0])
def test_it_is_close_to_the_exact_posterior(rate):
    rng = np.random.default_rng(2)
    elements, elapsed = np.tile(np.arange(300), 40), rng.exponential(size=12_000)
    changed = rng.random(12_000) < -np.expm1(-rate * elapsed)
    learner = learner_of(300)
    learner.learn(elements, elapsed, changed)
    law = learner.law(0.0)
    exact = estimate_rates(elements, elapsed, changed, prior=PRIOR)
    spread = exact.rate / np.sqrt(exact.law.shape)
    assert np.sqrt(np.mean(((law.rate - exact.rate) / spread) ** 2)) < 0.5
    assert np.sqrt(np.mean(np.log(law.shape / exact.law.shape) ** 2)) < 0.4


def test_intervals_cover():
    rng = np.random.default_rng(4)
    true = rng.gamma(1.0, size=5_000)
    elements, elapsed = np.tile(np.arange(5_000), 30), rng.gamma(2.0, 0.5, size=150_000)
    learner = learner_of(5_000, prior=GammaPrior(1.0, 1.0))
    learner.learn(elements, elapsed, rng.random(150_000) < -np.expm1(-true[elements] * elapsed))
    law = learner.law(0.0)
    assert 0.86 < np.mean((law.quantile(0.05) <= true) & (true <= law.quantile(0.95))) < 0.94


def test_forgetting_is_halving():
    """Of a silent element: its shape stays the prior's, and its time is that of a fading memory."""
    learner = learner_of(1, half_life=1.0)
    learner.learn(np.zeros(200, int), np.ones(200), np.zeros(200, bool))
    assert_allclose(learner.law(0.0).shape, 0.7, rtol=FOUR_BYTES)
    assert_allclose(1.0 / learner.law(0.0).scale, 0.5 + 2.0, rtol=FOUR_BYTES)  # 1 + 1/2 + 1/4 + ...
    forgotten = learner_of(1, half_life=1.0)
    forgotten.learn([0, 0], [1.0, 1000.0], [True, False])
    law = forgotten.law(0.0)
    assert_allclose([law.shape[0], 1.0 / law.scale[0]], [0.7, 1000.5], rtol=FOUR_BYTES)


def test_forgetting_follows_a_rate_that_drifts():
    rng = np.random.default_rng(5)
    elements = np.tile(np.arange(400), 200)
    rate = np.where(np.arange(elements.size) < elements.size // 2, 0.2, 2.0)
    changed = rng.random(elements.size) < -np.expm1(-rate)
    errors = []
    for half_life in (np.inf, 20.0):
        learner = learner_of(400, half_life=half_life)
        learner.learn(elements, np.ones(elements.size), changed)
        errors.append(np.sqrt(np.mean((learner.law(0.0).rate - 2.0) ** 2)))
    assert errors[0] > 1.0
    assert errors[1] < 0.6


@pytest.mark.parametrize(
    ("spoilt", "message"),
    [
        ({"n": 1.5}, "n must be a whole number"),
        ({"prior": 3}, "prior must be a GammaPrior; prior is 3"),
        ({"half_life": 0.0}, "half_life must be a number and > 0"),
    ],
)
def test_refusals_name_what_is_wrong(spoilt, message):
    with pytest.raises(InvalidInput, match=message):
        Learner(**{"n": 2, "round": 1.0, **spoilt})


@pytest.mark.parametrize(
    ("modified", "message"),
    [([1.0, 2.0], "modified must be one for each of the 1 polls"), ([-1.0], "modified")],
)
def test_ages_are_checked_before_anything_is_learned(modified, message):
    learner = learner_of(2)
    with pytest.raises(InvalidInput, match=message):
        learner.learn([0], [1.0], [True], modified=modified)
    assert not learner.evidence.any()


def test_evidence_is_written_back_from_bytes_of_either_width():
    learner, again = learner_of(3, half_life=4.0), learner_of(3, half_life=4.0)
    learner.learn([0, 1, 2], [1.0, 2.0, 3.0], [True, False, True])
    rows = [learner.evidence[0].tobytes(), learner.evidence[1].astype(float).tobytes(), b"odd"]
    again.write(np.arange(3), rows)
    assert_array_equal(again.evidence[:2], learner.evidence[:2])
    assert not again.evidence[2].any()
