"""Change rates of one element: known values, the exact posterior, and laws that every method obeys."""

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import brentq

from unstale.errors import InvalidInput
from unstale.estimation import GammaPrior, estimate_rate, estimate_rates
from unstale.estimation.rates.estimators import METHODS

POLLS_ONLY = [method for method in METHODS if method != "last-modified"]


@st.composite
def histories(draw, least=1, most=12):
    """Intervals, whether there was a change in each, and the age of the last change at the poll."""
    n = draw(st.integers(least, most))
    regular = draw(st.booleans())
    one = st.floats(0.05, 20.0)
    elapsed = np.full(n, draw(one)) if regular else np.array(draw(st.lists(one, min_size=n, max_size=n)))
    changed = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    share = np.array(draw(st.lists(st.floats(0.01, 1.0), min_size=n, max_size=n)))
    return elapsed, changed, share * elapsed


def rate_of(method, elapsed, changed, modified, **options):
    given = {"modified": modified} if method == "last-modified" else {}
    return estimate_rate(elapsed, changed, method, **given, **options)


# --- known values -------------------------------------------------------------------------------------------


def test_naive_and_bias_reduced_are_their_formulas():
    elapsed, changed = [2.0] * 4, [True, False, True, True]
    assert estimate_rate(elapsed, changed, "naive").rate == 3 / 8
    assert_allclose(estimate_rate(elapsed, changed, "bias-reduced").rate, -np.log(1.5 / 4.5) / 2.0)
    assert_allclose(estimate_rate(elapsed, changed, "lln").rate, 0.5 * 3 / 2)
    assert_allclose(estimate_rate(elapsed, changed, "mle").rate, np.log(4.0) / 2.0)  # -log(1 - 3/4) / 2


def test_stochastic_approximation_step_by_step():
    y = 0.0
    for k, seen in enumerate([True, False, True], start=1):
        y += k**-0.75 * (seen * (y + 3 / 6) - y)
    assert_allclose(estimate_rate([1, 2, 3], [1, 0, 1], "stochastic-approximation").rate, y)


def test_last_modified_is_its_formula():
    elapsed, changed, age = [1.0, 1.0, 2.0], [True, False, True], [0.25, np.nan, 0.5]
    share = 2 / 3
    wanted = (1.0 - share / np.log(1.0 - share)) / (0.25 + 1.0 + 0.5)
    assert_allclose(estimate_rate(elapsed, changed, "last-modified", modified=age).rate, wanted)
    none = estimate_rate(elapsed, [False] * 3, "last-modified", modified=[5.0] * 3)
    assert none.rate == 0.0
    always = estimate_rate(elapsed, [True] * 3, "last-modified", modified=[0.5, 0.5, 3.0])
    assert_allclose(always.rate, 2.0 / (0.5 + 0.5 + 2.0))  # no age is longer than the interval


@pytest.mark.parametrize(
    ("method", "mean", "rmse"),
    [
        ("naive", 0.43, 0.57),
        ("bias-reduced", 1.00, 0.186),
        ("mle", 1.04, 0.208),
        ("last-modified", 1.00, 0.154),
    ],
)
def test_bias_and_error_of_fifty_polls_at_two_changes_per_interval(method, mean, rmse):
    """The published figures, as ratios to the rate."""
    rng = np.random.default_rng(3)
    age = rng.exponential(0.5, size=(20_000, 50))
    elements = np.repeat(np.arange(20_000), 50)
    ages = np.where(age < 1.0, age, 1.0).ravel() if method == "last-modified" else None
    rates = estimate_rates(elements, np.ones(age.size), age.ravel() < 1.0, method=method, modified=ages)
    ratio = rates.rate / 2.0
    assert_allclose([ratio.mean(), np.sqrt(np.mean((ratio - 1.0) ** 2))], [mean, rmse], atol=0.006)


# --- maximum likelihood -------------------------------------------------------------------------------------


@given(histories(least=2))
def test_mle_solves_its_equation(history):
    elapsed, changed, _ = history
    changed[0], changed[1] = True, False
    rate = estimate_rate(elapsed, changed, "mle").rate
    still = elapsed[~changed].sum()
    spans = elapsed[changed]
    found = brentq(
        lambda r: np.sum(spans * np.exp(-r * spans) / -np.expm1(-r * spans)) - still, 1e-9, 1e4, rtol=1e-14
    )
    assert_allclose(rate, found, rtol=1e-9)
    assert rate >= changed.sum() / elapsed.sum() * (1.0 - 1e-9)  # naive


@given(histories(least=2))
def test_mle_with_ages_is_changes_per_time(history):
    elapsed, changed, age = history
    rate = estimate_rate(elapsed, changed, "mle", modified=age).rate
    assert_allclose(rate, changed.sum() / (age[changed].sum() + elapsed[~changed].sum()), rtol=1e-9)


def likeliest_rate(elapsed, changed):
    """By bisection of the logarithm, in 60 digits."""
    with mp.workdps(60):
        spans = [mp.mpf(float(t)) for t in elapsed[changed]]
        still = mp.fsum(float(t) for t in elapsed[~changed])
        low, high = -mp.log(still + sum(spans)) - 1, mp.log(10**4 / min([*spans, still]))
        for _ in range(120):
            u = (low + high) / 2
            above = mp.fsum(t / mp.expm1(mp.exp(u) * t) for t in spans) > still
            low, high = (u, high) if above else (low, u)
        return float(mp.exp(low))


@pytest.mark.parametrize("decades", [5, 10, 50, 99])
@pytest.mark.parametrize("seen", [[0, 1], [1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0], [0, 1, 0]])
def test_mle_of_intervals_many_decades_apart(decades, seen):
    elapsed = np.array([10.0**-decades, 10.0**decades, 3.0])[: len(seen)]
    changed = np.array(seen, bool)
    found = estimate_rate(elapsed, changed, "mle")
    assert_allclose(found.rate, likeliest_rate(elapsed, changed), rtol=1e-9)
    assert np.isfinite([found.low, found.high, found.law.shape, found.law.rate]).all()


@given(st.lists(st.tuples(st.floats(-99.0, 99.0), st.booleans()), min_size=1, max_size=5))
def test_mle_of_any_intervals(polls):
    elapsed = 10.0 ** np.array([0.0, 1.0, *[power for power, _ in polls]])
    changed = np.array([True, False, *[seen for _, seen in polls]])
    assert_allclose(estimate_rate(elapsed, changed, "mle").rate, likeliest_rate(elapsed, changed), rtol=1e-9)


def test_mle_where_nothing_or_everything_changed():
    assert estimate_rate([1.0, 2.0], [0, 0], "mle").rate == 0.0
    always = estimate_rate([3.0] * 10, [1] * 10, "mle").rate
    assert_allclose(always, np.log(21.0) / 3.0)
    assert_allclose(always, estimate_rate([3.0] * 10, [1] * 10, "bias-reduced").rate)
    assert_allclose(estimate_rate([1.0, 1e-3], [1, 1], "mle", modified=[0.0, 0.0]).rate, 2 / 0.25025)


# --- the posterior ------------------------------------------------------------------------------------------


def exact_posterior(prior, elapsed, changed, shares):
    """Mean, variance and quantiles, by quadrature in 30 digits."""
    with mp.workdps(30):
        spans = [mp.mpf(float(t)) for t in elapsed[changed]]
        time = 1 / mp.mpf(prior.scale) + sum((mp.mpf(float(t)) for t in elapsed[~changed]), mp.mpf(0))

        def density(u, k=0):
            r = mp.exp(u)
            return mp.fprod(-mp.expm1(-r * t) for t in spans) * mp.exp((prior.shape + k) * u - time * r)

        grid = [float(u) for u in mp.linspace(-25, 12, 200)]
        peak = max(grid, key=density)
        ends = [peak - 40, peak - 20, *[peak + k / mp.mpf(2) for k in range(-20, 13)], peak + 12]
        pieces = [mp.quad(density, ends[i : i + 2]) for i in range(len(ends) - 1)]
        total = mp.fsum(pieces)
        mean = mp.quad(lambda u: density(u, 1), ends) / total
        square = mp.quad(lambda u: density(u, 2), ends) / total
        quantiles = []
        for share in shares:
            i, before = 0, mp.mpf(0)
            while before + pieces[i] < share * total:
                before += pieces[i]
                i += 1
            goal = share * total - before
            quantiles.append(
                mp.exp(mp.findroot(lambda u, i=i, goal=goal: mp.quad(density, [ends[i], u]) - goal, ends[i]))
            )
        return [float(x) for x in (mean, square - mean**2, *quantiles)]


@pytest.mark.parametrize(
    "seed", [3, *(pytest.param(k, marks=pytest.mark.long) for k in (0, 1, 2, 4, 5, 6, 7))]
)
def test_posterior_to_six_digits(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    elapsed = rng.exponential(size=n) if seed % 2 else np.full(n, 1.5)
    changed = rng.random(n) < rng.random()
    changed[0] = True
    if seed == 3:
        changed[:] = True
    prior = GammaPrior(10 ** rng.uniform(-1, 1), 10 ** rng.uniform(-1, 1.5))
    found = estimate_rate(elapsed, changed, prior=prior)
    mean, variance, low, high = exact_posterior(prior, elapsed, changed, (0.05, 0.95))
    assert_allclose([found.rate, found.low, found.high], [mean, low, high], rtol=1e-6)
    assert_allclose([found.law.shape, found.law.scale], [mean**2 / variance, variance / mean], rtol=1e-5)


def test_quantiles_far_out():
    elapsed, changed, prior = np.array([1.0, 1.0]), np.array([True, False]), GammaPrior(0.5, 50.0)
    found = estimate_rate(elapsed, changed, prior=prior, level=0.9999)
    _, _, low, high = exact_posterior(prior, elapsed, changed, (0.00005, 0.99995))
    assert_allclose([found.low, found.high], [low, high], rtol=1e-4)


def test_posterior_is_a_gamma_law_where_no_age_is_unknown():
    prior = GammaPrior(2.0, 0.5)
    never = estimate_rate([1.0, 3.0], [0, 0], prior=prior)
    assert_allclose([never.law.shape, never.law.scale], [2.0, 1 / 6], rtol=1e-12)
    known = estimate_rate([1.0, 3.0], [1, 0], modified=[0.5, np.nan], prior=prior)
    assert_allclose([known.law.shape, known.law.scale], [3.0, 1 / 5.5], rtol=1e-12)
    x = 5.5 * np.array([known.low, known.high])
    assert_allclose(np.exp(-x) * (1.0 + x + x**2 / 2), [0.95, 0.05], rtol=1e-10)


def test_posterior_of_one_after_the_other_is_that_of_both():
    """Where it stays a gamma law, that of the first polls is the prior of the others."""
    prior = GammaPrior(1.5, 2.0)
    first = estimate_rate([1.0, 2.0], [0, 1], modified=[np.nan, 0.5], prior=prior).law
    second = estimate_rate([3.0, 1.0], [1, 0], prior=GammaPrior(float(first.shape), float(first.scale)))
    joint = estimate_rate(
        [1.0, 2.0, 3.0, 1.0], [0, 1, 1, 0], modified=[np.nan, 0.5, np.nan, np.nan], prior=prior
    )
    assert_allclose([second.rate, second.low, second.high], [joint.rate, joint.low, joint.high], rtol=1e-9)


def test_very_many_polls():
    rng = np.random.default_rng(1)
    for n in (10_000, 3_000_000):
        changed = rng.random(n) < -np.expm1(-0.7)
        found = estimate_rate(np.ones(n), changed)
        exact = -np.log1p(-changed.mean())
        spread = np.sqrt(np.expm1(exact) / n)
        assert_allclose(found.rate, exact, rtol=2 / n)
        assert_allclose([found.low, found.high], exact + np.array([-1.645, 1.645]) * spread, rtol=20 / n)


@pytest.mark.parametrize("true", [True, np.True_, 1])
def test_booleans_may_be_objects(true):
    """As a column with gaps has them, once the gaps are gone."""
    plain = estimate_rate([1.0, 2.0], [True, False])
    assert estimate_rate([1.0, 2.0], np.array([true, False], object)).rate == plain.rate


# --- laws ---------------------------------------------------------------------------------------------------


@given(histories(), st.data(), st.sampled_from(METHODS))
def test_more_changes_never_lower_the_rate(history, data, method):
    elapsed, changed, age = history
    i = data.draw(st.integers(0, elapsed.size - 1))
    fewer, more = changed.copy(), changed.copy()
    fewer[i], more[i] = False, True
    prior = GammaPrior(0.5, 3.0)
    low, high = (rate_of(method, elapsed, which, age, prior=prior) for which in (fewer, more))
    assert high.rate >= low.rate * (1.0 - 1e-9)
    assert high.law.rate > low.law.rate


@given(histories(), st.floats(1e-6, 1e6), st.sampled_from(METHODS))
def test_the_unit_of_time_does_not_matter(history, unit, method):
    elapsed, changed, age = history
    one = rate_of(method, elapsed, changed, age)
    other = rate_of(method, elapsed * unit, changed, age * unit)
    for name in ("rate", "low", "high"):
        assert_allclose(getattr(other, name) * unit, getattr(one, name), rtol=1e-6)
    assert_allclose([other.law.shape, other.law.scale * unit], [one.law.shape, one.law.scale], rtol=1e-6)


@given(histories(), st.randoms(use_true_random=False))
def test_the_order_of_polls_does_not_matter(history, random):
    elapsed, changed, age = history
    order = list(range(elapsed.size))
    random.shuffle(order)
    for method in METHODS:
        if method != "stochastic-approximation":
            one = rate_of(method, elapsed, changed, age)
            other = rate_of(method, elapsed[order], changed[order], age[order])
            assert_allclose([other.rate, other.low, other.high], [one.rate, one.low, one.high], rtol=1e-6)


@given(histories(), st.sampled_from(METHODS))
def test_answers_are_finite_and_inside_their_interval(history, method):
    elapsed, changed, age = history
    for seen in (changed, np.zeros_like(changed), np.ones_like(changed)):
        found = rate_of(method, elapsed, seen, age)
        assert 0.0 <= found.low <= found.rate <= found.high < np.inf
        assert found.law.rate > 0.0
        assert (found.polls, found.changes, found.method) == (elapsed.size, seen.sum(), method)


@given(histories(), st.floats(0.5, 0.98))
def test_intervals_grow_with_their_level(history, level):
    elapsed, changed, _ = history
    narrow, wide = (estimate_rate(elapsed, changed, level=share) for share in (level, level + 0.01))
    assert wide.low < narrow.low
    assert narrow.high < wide.high
    assert wide.level == level + 0.01


@given(histories())
def test_a_change_of_known_age_counts_as_one(history):
    """And one of unknown age as less."""
    elapsed, changed, age = history
    prior = GammaPrior(0.5, 3.0)
    without = estimate_rate(elapsed, changed, prior=prior).law
    known = estimate_rate(elapsed, changed, prior=prior, modified=age).law
    assert known.shape >= without.shape * (1.0 - 1e-9)
    assert_allclose(known.shape, 0.5 + changed.sum(), rtol=1e-9)


# --- refusals -----------------------------------------------------------------------------------------------

REFUSED = [
    ({"elapsed": []}, "elapsed must not be empty"),
    ({"elapsed": [1.0, 0.0]}, r"elapsed must be finite and > 0; elapsed\[1\] is 0.0"),
    ({"elapsed": [1.0, np.nan]}, r"elapsed\[1\] is nan"),
    (
        {"elapsed": [1.0, 1e200]},
        r"elapsed must be finite and >= 1e-100 and <= 1e\+100; elapsed\[1\] is 1e\+200",
    ),
    ({"elapsed": 1.0}, "elapsed must be a list"),
    ({"changed": [1, 2]}, r"changed must be True or False .*changed\[1\] is 2"),
    ({"changed": [1]}, "changed must be one for each of the 2 polls"),
    ({"changed": ["yes", "no"]}, r"changed\[0\] is 'yes'"),
    ({"method": "median"}, "method must be one of 'naive'"),
    ({"modified": [1.0, -1.0]}, r"modified\[1\] is -1.0"),
    ({"modified": [1.0, np.inf]}, r"modified\[1\] is inf"),
    ({"modified": [1.0]}, "modified must be one for each of the 2 polls"),
    ({"method": "last-modified"}, r"modified must be known .*; modified\[1\] is not"),
    ({"method": "last-modified", "modified": [1.0, np.nan]}, r"modified\[1\] is not"),
    ({"prior": 1.0}, "prior must be a GammaPrior; prior is 1.0"),
    ({"changed": np.array([True, None], object)}, r"changed\[1\] is None"),
    ({"changed": np.array([True, "no"], object)}, r"changed\[1\] is 'no'"),
    ({"level": 1.0}, "level must be finite and > 0 and <= 0.9999; level is 1.0"),
    ({"level": 0.99999}, "level must be finite and > 0 and <= 0.9999; level is 0.99999"),
]


@pytest.mark.parametrize(("spoilt", "message"), REFUSED)
def test_refusals_name_what_is_wrong(spoilt, message):
    good = {"elapsed": [1.0, 2.0], "changed": [False, True]}
    if spoilt.get("elapsed") == []:
        good["changed"] = []
    with pytest.raises(InvalidInput, match=message):
        estimate_rate(**{**good, **spoilt})


@pytest.mark.parametrize("spoilt", [{"shape": 0.0}, {"shape": 1e16}, {"scale": -1.0}, {"scale": np.inf}])
def test_priors_are_gamma_laws(spoilt):
    with pytest.raises(InvalidInput, match=f"{next(iter(spoilt))} must be finite"):
        GammaPrior(**{"shape": 1.0, "scale": 1.0, **spoilt})
