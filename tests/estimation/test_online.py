"""Rates kept up to date poll by poll."""

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from unstale.errors import InvalidInput, NoAnswer
from unstale.estimation import GammaPrior, OnlineRates, estimate_rate, estimate_rates
from unstale.estimation.compiled_rates import gamma_changed, gamma_unchanged

PRIOR = GammaPrior(0.7, 2.0)
POLLS = st.lists(st.tuples(st.integers(0, 3), st.floats(0.01, 50.0), st.booleans()), min_size=1, max_size=60)


def columns(polls):
    return tuple(map(np.array, zip(*polls, strict=True)))


# --- the update ---------------------------------------------------------------------------------------------


@given(st.floats(-6, 6), st.floats(-6, 6), st.floats(-12, 8))
def test_mean_and_variance_after_a_change_are_exact(shape, time, ratio):
    shape, time, elapsed = 10.0**shape, 10.0**time, 10.0 ** (time + ratio)
    with mp.workdps(60):
        a, b, t = mp.mpf(shape), mp.mpf(time), mp.mpf(elapsed)
        h = [1 - (b / (b + t)) ** (a + k) for k in range(3)]
        mean, square = a / b * h[1] / h[0], a * (a + 1) / b**2 * h[2] / h[0]
        variance = square - mean**2
        wanted = float(mean**2 / variance), float(mean / variance)
    assert_allclose(gamma_changed(shape, time, elapsed), wanted, rtol=1e-14)
    assert gamma_unchanged(shape, time, elapsed) == (shape, time + elapsed)


def test_extremes_of_an_update_stay_finite():
    assert gamma_changed(1e-300, 1.0, 1e-300) == (1.0, 1.0)
    for case in [(0.5, 1e-300, 1e300), (1e15, 1.0, 1.0), (5.0, 1e300, 1e-300)]:
        assert np.isfinite(gamma_changed(*case)).all()


@given(st.floats(-3, 3), st.floats(-3, 3))
def test_a_change_counts_as_at_most_one_in_at_most_half_the_time(shape, elapsed):
    shape, elapsed = 10.0**shape, 10.0**elapsed
    more, time = gamma_changed(shape, 1.0, elapsed)
    assert shape * (1 - 1e-12) <= more <= shape + 1.0 + 1e-9 * shape
    assert time <= 1.0 + 0.5 * elapsed + 1e-9


# --- polls --------------------------------------------------------------------------------------------------


@given(POLLS, st.data(), st.sampled_from([np.inf, 5.0]), st.sampled_from([None, PRIOR]))
def test_batches_may_be_cut_anywhere(polls, data, half_life, prior):
    whole, cut = (OnlineRates(4, prior=prior, half_life=half_life) for _ in range(2))
    whole.learn(*columns(polls))
    i = data.draw(st.integers(0, len(polls)))
    for part in (polls[:i], polls[i:]):
        if part:
            cut.learn(*columns(part))
    assert_array_equal(cut.state()["laws"], whole.state()["laws"])
    assert_array_equal(cut.rate, whole.rate)


@given(POLLS, st.data(), st.sampled_from([np.inf, 5.0]))
def test_more_changes_never_lower_the_rate(polls, data, half_life):
    elements, elapsed, changed = columns(polls)
    i = data.draw(st.integers(0, changed.size - 1))
    found = []
    for outcome in (False, True):
        changed[i] = outcome
        rates = OnlineRates(4, prior=PRIOR, half_life=half_life)
        rates.learn(elements, elapsed, changed)
        found.append(rates.rate[elements[i]])
    # what fades is not quite what was learned, as it fades towards the prior
    assert found[1] >= found[0] * (1.0 - (1e-12 if half_life == np.inf else 1e-2))


@pytest.mark.parametrize("quiet", [0.5, 3.0, 50.0])
def test_without_changes_forgetting_has_a_closed_form(quiet):
    """Each poll without a change adds its time; the distance to the prior is halved with each half-life."""
    prior, half_life = GammaPrior(2.0, 0.5), 7.0
    rates = OnlineRates(1, prior=prior, half_life=half_life)
    extra = 0.0
    for _ in range(5):
        rates.learn([0], [quiet], [False])
        extra = extra * 2.0 ** (-quiet / half_life) + quiet
    assert rates.rate[0] == pytest.approx(2.0 / (2.0 + extra), rel=1e-12)


@given(POLLS, st.floats(1e-5, 1e5))
def test_the_unit_of_time_does_not_matter(polls, unit):
    elements, elapsed, changed = columns(polls)
    for prior, other in ((None, None), (PRIOR, GammaPrior(PRIOR.shape, PRIOR.scale / unit))):
        one, two = (
            OnlineRates(4, prior=prior, half_life=9.0),
            OnlineRates(4, prior=other, half_life=9.0 * unit),
        )
        one.learn(elements, elapsed, changed)
        two.learn(elements, elapsed * unit, changed)
        assert_allclose(two.rate * unit, one.rate, rtol=1e-9)
        assert_allclose([two.low * unit, two.high * unit], [one.low, one.high], rtol=1e-6, atol=1e-200)


@given(POLLS)
def test_saved_and_loaded_it_goes_on_bit_for_bit(tmp_path_factory, polls):
    path = tmp_path_factory.mktemp("state") / "rates.npz"
    for prior in (None, PRIOR):
        rates = OnlineRates(4, prior=prior, half_life=7.0)
        rates.learn(*columns(polls))
        np.savez(path, **rates.state())
        with np.load(path) as state:
            again = OnlineRates.resume(state)
        assert again.half_life == 7.0
        for each in (rates, again):
            each.add(2)
            each.learn([4, *columns(polls)[0]], [2.0, *columns(polls)[1]], [True, *columns(polls)[2]])
        assert_array_equal(again.rate, rates.rate)
        assert_array_equal(again.law.shape, rates.law.shape)
        assert len(again) == 6


def test_without_changes_it_is_exact():
    rates = OnlineRates(2, prior=PRIOR)
    rates.learn([0, 0, 1], [1.0, 2.0, 4.0], [False, False, True], modified=[np.nan, np.nan, 1.5])
    assert_allclose(rates.law.shape, [0.7, 1.7])
    assert_allclose(1.0 / rates.law.scale, [3.5, 2.0])
    exact = estimate_rate([4.0], [True], modified=[1.5], prior=PRIOR)
    assert_allclose([rates.low[1], rates.high[1]], [exact.low, exact.high], rtol=1e-12)


@pytest.mark.parametrize("rate", [0.05, 0.3, 1.0, 3.0])
def test_it_is_close_to_the_exact_posterior(rate):
    rng = np.random.default_rng(2)
    elements, elapsed = np.tile(np.arange(300), 40), rng.exponential(size=12_000)
    changed = rng.random(12_000) < -np.expm1(-rate * elapsed)
    rates = OnlineRates(300, prior=PRIOR)
    rates.learn(elements, elapsed, changed)
    exact = estimate_rates(elements, elapsed, changed, prior=PRIOR)
    spread = exact.rate / np.sqrt(exact.law.shape)
    assert np.sqrt(np.mean(((rates.rate - exact.rate) / spread) ** 2)) < 0.12
    assert np.sqrt(np.mean(np.log(rates.law.shape / exact.law.shape) ** 2)) < 0.16


def test_intervals_cover():
    rng = np.random.default_rng(4)
    true = rng.gamma(1.0, size=20_000)
    elements, elapsed = np.tile(np.arange(20_000), 30), rng.gamma(2.0, 0.5, size=600_000)
    rates = OnlineRates(20_000, prior=GammaPrior(1.0, 1.0))
    rates.learn(elements, elapsed, rng.random(600_000) < -np.expm1(-true[elements] * elapsed))
    assert 0.885 < np.mean((rates.low <= true) & (true <= rates.high)) < 0.915


def test_forgetting_is_halving():
    """Of a silent element: its shape stays the prior's, and its time is that of a fading memory."""
    rates = OnlineRates(1, prior=PRIOR, half_life=1.0)
    rates.learn(np.zeros(200, int), np.ones(200), np.zeros(200, bool))
    assert_allclose(rates.law.shape, 0.7)
    assert_allclose(1.0 / rates.law.scale, 0.5 + 2.0)  # 1 + 1/2 + 1/4 + ...
    forgotten = OnlineRates(1, prior=PRIOR, half_life=1.0)
    forgotten.learn([0, 0], [1.0, 1000.0], [True, False])
    assert_allclose([forgotten.law.shape[0], 1.0 / forgotten.law.scale[0]], [0.7, 1000.5])


def test_forgetting_follows_a_rate_that_drifts():
    rng = np.random.default_rng(5)
    elements = np.tile(np.arange(400), 200)
    rate = np.where(np.arange(elements.size) < elements.size // 2, 0.2, 2.0)
    changed = rng.random(elements.size) < -np.expm1(-rate)
    errors = []
    for half_life in (np.inf, 20.0):
        rates = OnlineRates(400, prior=PRIOR, half_life=half_life)
        rates.learn(elements, np.ones(elements.size), changed)
        errors.append(np.sqrt(np.mean((rates.rate - 2.0) ** 2)))
    assert errors[0] > 1.0
    assert errors[1] < 0.5


def test_who_has_not_been_polled_is_like_the_others():
    rates = OnlineRates(3)
    with pytest.raises(NoAnswer, match="before the first poll; learn polls, or give a prior"):
        _ = rates.rate
    rates.learn([0, 1, 1], [1.0, 1.0, 1.0], [True, False, False])
    assert_allclose(rates.rate[2], rates.rate[:2].mean())
    assert rates.law.shape[2] < rates.law.shape[:2].max()
    assert_array_equal(rates.add(2), [3, 4])
    assert_allclose(rates.rate[3:], rates.rate[2])


def test_a_prior_from_the_first_interval_is_that_of_one_element():
    rates = OnlineRates(1)
    rates.learn([0, 0], [3.0, 3.0], [False, False])
    assert_allclose(rates.rate[0], estimate_rate([3.0, 3.0], [False, False]).rate)


# --- refusals -----------------------------------------------------------------------------------------------

REFUSED = [
    ({"n": -1}, "n must be a whole number >= 0"),
    ({"n": 1.5}, "n must be a whole number"),
    ({"prior": 3}, "prior must be a GammaPrior; prior is 3"),
    ({"half_life": 0.0}, "half_life must be a number and > 0"),
]


@pytest.mark.parametrize(("spoilt", "message"), REFUSED)
def test_refusals_name_what_is_wrong(spoilt, message):
    with pytest.raises(InvalidInput, match=message):
        OnlineRates(**{"n": 2, **spoilt})


@pytest.mark.parametrize(
    ("polls", "message"),
    [
        (([2], [1.0], [True]), r"elements must be numbers from 0 to 1, as n is 2; elements\[0\] is 2"),
        (([0], [0.0], [True]), r"elapsed\[0\] is 0.0"),
        (([0], [1.0], [7]), r"changed\[0\] is 7"),
    ],
)
def test_polls_are_checked_before_any_is_learned(polls, message):
    rates = OnlineRates(2, prior=PRIOR)
    before = rates.rate
    with pytest.raises(InvalidInput, match=message):
        rates.learn(*polls)
    assert_array_equal(rates.rate, before)


def test_states_of_another_kind_are_refused():
    state = OnlineRates(2, prior=PRIOR).state()
    with pytest.raises(InvalidInput, match="it has no 'laws'"):
        OnlineRates.resume({name: state[name] for name in state if name != "laws"})
    with pytest.raises(InvalidInput, match="shape"):
        OnlineRates.resume({**state, "laws": np.zeros(3)})
    with pytest.raises(InvalidInput, match="share must be finite and > 0 and < 1"):
        OnlineRates(1, prior=PRIOR).quantile(1.0)
