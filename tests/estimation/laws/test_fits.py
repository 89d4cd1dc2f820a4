"""Fits: the likelihood is the largest there is, and the law the one that made the data."""

import mpmath
import numpy as np
import pytest
from example_counts import percent
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from estimation.poll_histories import polled
from unstale.errors import InvalidInput
from unstale.estimation import LAWS, fit, fit_class, fit_polls
from unstale.estimation.laws.class_fits import SHAPES, _Gaps, of_rate_one
from unstale.estimation.laws.poll_fits import _runs
from unstale.estimation.poll_columns import grouping
from unstale.processes import Periodic, Poisson

SCIPY = {
    "gamma": stats.gamma,
    "weibull": stats.weibull_min,
    "lognormal": stats.lognorm,
    "pareto": stats.lomax,
}
TRUE = {
    "poisson": Poisson(1.0),
    "weibull": of_rate_one("weibull", 0.5),
    "gamma": of_rate_one("gamma", 4.0),
    "lognormal": of_rate_one("lognormal", 1.5),
    "pareto": of_rate_one("pareto", 1.6),
    "periodic": Periodic(1.0),
}


def shape_of(law):
    return float(getattr(law, "shape", getattr(law, "log_sd", 1.0)))


@pytest.mark.parametrize("name", SCIPY)
@pytest.mark.parametrize("censoring", [False, True])
def test_likelihoods_are_as_large_as_scipy_finds(name, censoring):
    rng = np.random.default_rng(1)
    gaps = rng.gamma(0.7, 2.0, size=200)
    ends = np.full(200, 3.0 if censoring else np.inf)
    seen, unended = gaps[gaps < ends], ends[gaps >= ends]
    law = SCIPY[name]
    parameters = law.fit(stats.CensoredData(seen, right=unended) if censoring else seen, floc=0)
    theirs = law.logpdf(seen, *parameters).sum() + law.logsf(unended, *parameters).sum()
    found = fit(seen, censored=unended, laws=[name])[name]
    assert found.log_likelihood >= theirs - 1e-6
    assert found.log_likelihood == pytest.approx(theirs, abs=1e-3)


@pytest.mark.parametrize("name", SCIPY)
def test_the_likelihood_is_that_of_the_law_that_comes_out(name):
    rng = np.random.default_rng(2)
    gaps, unended = rng.weibull(0.8, size=60), rng.random(5)
    found = fit(gaps, censored=unended)[name]
    h = 1e-6 * gaps
    density = (found.law.survival(gaps - h) - found.law.survival(gaps + h)) / (2 * h)
    total = np.log(density).sum() + np.log(found.law.survival(unended)).sum()
    assert found.log_likelihood == pytest.approx(total, abs=1e-4)


@pytest.mark.parametrize("name", LAWS)
def test_the_law_that_made_the_gaps_is_chosen(name):
    rng = np.random.default_rng(3)
    found = fit(3.0 * TRUE[name].sample(rng, 1500))
    assert found.best.name == name
    assert found.best.weight > 0.5
    assert found.best.distance < 0.06 or name == "periodic"
    assert float(found.law.rate) == pytest.approx(1 / 3, rel=0.25)
    assert sum(one.weight for one in found) == pytest.approx(1.0)
    assert [one.criterion for one in found] == sorted(one.criterion for one in found)


def test_poisson_is_seldom_mistaken():
    rng = np.random.default_rng(4)
    for n, allowed in ((5, 8), (20, 16), (200, 5)):
        wrong = sum(fit(rng.exponential(size=n)).best.name != "poisson" for _ in range(60))
        assert wrong <= allowed, n


def test_a_jitter_below_a_tenth_is_periodic_and_more_is_not():
    rng = np.random.default_rng(5)
    assert fit(rng.normal(7.0, 0.4, size=200)).best.name == "periodic"
    assert fit(rng.normal(7.0, 2.0, size=200)).best.name != "periodic"
    assert fit([7.0] * 10).law == Periodic(7.0)


def test_gaps_that_have_not_ended_make_the_rate_lower():
    gaps = [1.0, 2.0, 3.0]
    assert float(fit(gaps, censored=[6.0]).law.rate) == pytest.approx(3 / 12)
    assert fit(gaps, censored=[6.0]).rate == pytest.approx(3 / 12)


@settings(max_examples=percent(60))
@given(
    st.lists(st.floats(0.0, 1e9) | st.sampled_from([0.0, 1.0, 1e-300, 1e280]), min_size=1, max_size=12),
    st.lists(st.floats(0.0, 1e9), max_size=3),
)
@example([1.0], [])
@example([0.0, 0.0, 5.0], [])
@example([1.0] * 12, [1.0])
@example([1e-20] * 5 + [1e20] * 3, [])
@example([1e290] * 4, [1e290])
@example([3.0] * 6 + [0.0] * 5, [])
@example([0.0, 5e-324], [])
@example([5e-324, 1.0], [5e-324])
def test_any_gaps_get_an_answer(gaps, unended):
    if not max(gaps) >= 1e-300:
        with pytest.raises(InvalidInput, match="must not all be 0"):
            fit(gaps, censored=unended)
        return
    found = fit(gaps, censored=unended)
    for one in found:
        assert np.isfinite(one.criterion)
        assert 0 <= one.distance <= 1 + 1e-9
        assert 0 < float(one.law.rate) < np.inf
    if len(gaps) < 3:
        assert [one.name for one in found] == ["poisson"]


@settings(max_examples=percent(25))
@given(st.integers(0, 2**32 - 1), st.integers(-30, 30))
def test_fits_follow_the_unit_of_time(seed, power):
    rng = np.random.default_rng(seed)
    gaps, unit = rng.weibull(0.6, size=30), 2.0**power
    one, other = fit(gaps, censored=[0.5]), fit(gaps * unit, censored=[0.5 * unit])
    assert [f.name for f in one] == [f.name for f in other]
    assert float(other.law.rate) * unit == pytest.approx(float(one.law.rate), rel=1e-9)
    assert other.best.log_likelihood + 30 * np.log(unit) == pytest.approx(one.best.log_likelihood, abs=1e-6)
    assert [f.weight for f in other] == pytest.approx([f.weight for f in one], rel=1e-6)


@pytest.mark.parametrize(
    ("name", "shape"), [("gamma", 0.7), ("weibull", 0.6), ("lognormal", 1.3), ("pareto", 2.2)]
)
def test_likelihoods_of_a_class_are_integrals_over_the_scale(name, shape):
    gaps = np.array([0.2, 1.7, 1.1])
    law, mp = of_rate_one(name, shape), mpmath.mp
    scaled = _Gaps(gaps / gaps.mean(), grouping(None, 3))
    scale = float(getattr(law, "scale", 0.0))

    def density(y):
        if name == "gamma":
            return y ** (shape - 1) * mp.exp(-y / scale) / (mp.gamma(shape) * mp.mpf(scale) ** shape)
        if name == "weibull":
            return shape / scale * (y / scale) ** (shape - 1) * mp.exp(-((y / scale) ** shape))
        if name == "lognormal":
            return mp.npdf(mp.log(y), float(law.log_mean), shape) / y
        return shape / scale * (1 + y / scale) ** (-shape - 1)

    def over_logs(w):
        factor = mp.exp(w)
        return mp.fprod(density(factor * y) * factor for y in scaled.gaps.tolist())

    true = mp.log(mp.quad(over_logs, [-30, -10, -3, 0, 3, 10, 30]))
    assert getattr(scaled, name)(shape) == pytest.approx(float(true), abs=2e-3)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("each", [3, 12])
def test_a_class_shares_its_shape_however_few_gaps_each_element_has(name, each):
    rng = np.random.default_rng(6)
    elements = np.repeat(np.arange(600), each)
    stretch = rng.lognormal(0.0, 2.0, size=600)
    gaps = TRUE[name].sample(rng, elements.size) * np.repeat(stretch, each)
    found = fit_class(gaps, elements)
    assert found.best.name == name
    assert float(found.law.rate) == pytest.approx(1.0)
    assert shape_of(found.law) == pytest.approx(shape_of(TRUE[name]), rel=0.15)
    assert found.observations == 600 * (each - 1)
    assert found.elements.tolist() == list(range(600))
    sums = np.add.reduceat(gaps, np.arange(0, gaps.size, each))
    assert found.rates == pytest.approx(each / sums)
    assert found.law.at_rate(found.rates).shape_of == (600,)


def test_elements_with_one_gap_are_left_out_of_a_class():
    found = fit_class([1.0, 2.0, 5.0, 0.0, 0.0], [3, 3, 7, 9, 9])
    assert found.elements.tolist() == [3]
    assert found.observations == 1


def test_runs_cut_a_history_where_changes_were_seen():
    elapsed = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    seen = np.array([False, True, True, False, False])
    runs = _runs(elapsed, seen, grouping(None, 5))
    assert runs.before.tolist() == [np.inf, 2.0, 4.0]
    assert runs.low.tolist() == [1.0, 0.0, 24.0]
    assert runs.high.tolist() == [3.0, 4.0, np.inf]


def test_the_likelihood_of_runs_is_that_of_polls_if_changes_are_poisson():
    rng = np.random.default_rng(7)
    elapsed, seen = rng.exponential(size=50), rng.random(50) < 0.5
    runs = _runs(elapsed, seen, grouping(None, 50))
    for rate in (0.1, 1.0, 3.0):
        polls = np.where(seen, np.log(-np.expm1(-rate * elapsed)), -rate * elapsed).sum()
        assert runs.likelihood(Poisson(1.0), np.array([rate])).sum() == pytest.approx(polls)


@pytest.mark.parametrize("name", ["gamma", "weibull", "pareto"])
def test_the_probabilities_of_runs_are_those_of_simulation(name):
    """One poll that saw a change after e, then nothing up to t, then a change by u."""
    rng = np.random.default_rng(8)
    law = TRUE[name]
    e, t, u = 0.7, 0.5, 1.1
    n = 200_000
    first = law.sample_residual(rng, n)
    last, following = np.where(first < e, first, np.nan), first.copy()
    while (following < e).any():
        early = following < e
        last[early] = following[early]
        following[early] += law.sample(rng, int(early.sum()))
    changed = ~np.isnan(last)
    share = ((following > e + t) & (following <= e + u))[changed].mean()
    runs = _runs(np.array([e, t, u - t]), np.array([True, False, True]), grouping(None, 3))
    assert np.exp(runs.likelihood(law, np.array([1.0]))[1, 0]) == pytest.approx(share, abs=0.006)


@pytest.mark.parametrize("name", LAWS)
def test_the_law_is_learnt_from_polls_of_one_element(name):
    rng = np.random.default_rng(9)
    _, elapsed, seen = polled(TRUE[name], rng, polls=1500, rate=1.5)
    kinds = {"pareto": {"pareto", "lognormal"}, "gamma": {"gamma", "weibull", "lognormal"}}
    found = fit_polls(elapsed, seen)
    assert found.best.name in kinds.get(name, {name})
    assert float(found.law.rate) == pytest.approx(1.0, rel=0.35)
    assert found.best.distance < 0.03
    x = np.array([0.3, 1.0, 3.0])
    assert found.law.residual_cdf(x) == pytest.approx(TRUE[name].residual_cdf(x), abs=0.09)


@pytest.mark.parametrize(("name", "law"), [("weibull", TRUE["weibull"]), ("poisson", TRUE["poisson"])])
def test_a_class_learns_its_law_from_few_polls_of_each(name, law):
    rng = np.random.default_rng(10)
    stretch = rng.lognormal(0.0, 1.0, size=200)
    elements, elapsed, seen = polled(law, rng, elements=200, polls=20, stretch=stretch)
    found = fit_polls(elapsed, seen, elements)
    assert found.best.name == name
    assert shape_of(found.law) == pytest.approx(shape_of(law), rel=0.2) or name == "poisson"
    assert np.corrcoef(np.log(found.rates), np.log(stretch))[0, 1] > 0.6
    assert found.rates.mean() == pytest.approx(stretch.mean(), rel=0.25)


def test_fits_to_polls_follow_the_unit_of_time():
    rng = np.random.default_rng(11)
    elements, elapsed, seen = polled(TRUE["weibull"], rng, elements=30, polls=30)
    one = fit_polls(elapsed, seen, elements, laws=["weibull"])
    other = fit_polls(elapsed * 1024.0, seen, elements, laws=["weibull"])
    assert shape_of(one.law) == pytest.approx(shape_of(other.law), rel=1e-9)
    assert other.rates * 1024.0 == pytest.approx(one.rates, rel=1e-9)


def test_shapes_at_the_ends_have_laws():
    for name, ends in SHAPES.items():
        for shape in ends:
            assert float(of_rate_one(name, shape).rate) == pytest.approx(1.0)


BAD = [
    (fit, {"gaps": []}, "gaps must not be empty"),
    (fit, {"gaps": [0.0, 0.0]}, "gaps must not all be 0"),
    (fit, {"gaps": [-1.0]}, r"gaps\[0\] is -1"),
    (fit, {"gaps": [np.inf]}, "gaps must be finite"),
    (fit, {"gaps": [1.0], "censored": [-1.0]}, r"censored\[0\] is -1"),
    (fit, {"gaps": [1.0], "laws": "weibull"}, "laws must be a list of names"),
    (fit, {"gaps": [1.0], "laws": ["normal"]}, "laws must be one of 'poisson'"),
    (fit, {"gaps": [1.0], "resolution": 0.0}, "resolution must be"),
    (fit_class, {"gaps": [1.0], "elements": [0]}, "two or more of at least one element"),
    (fit_class, {"gaps": [1.0, 1.0], "elements": [0]}, "elements must be one number for each"),
    (fit_class, {"gaps": [1.0, 1.0], "elements": [0, 0], "resolution": -1.0}, "resolution must be"),
    (fit_class, {"gaps": [np.nan, 1.0], "elements": [0, 0]}, r"gaps\[0\] is nan"),
    (fit_polls, {"elapsed": [1.0, 1.0], "changed": [True, True]}, "all 2 are changed"),
    (fit_polls, {"elapsed": [1.0, 1.0], "changed": [False, False]}, "all 2 are unchanged"),
    (fit_polls, {"elapsed": [1.0, -1.0], "changed": [False, True]}, r"elapsed\[1\] is -1"),
    (fit_polls, {"elapsed": [1.0], "changed": ["yes"]}, "changed must be"),
    (fit_polls, {"elapsed": [1.0, 2.0], "changed": [False, True], "most": 0}, "most must be a whole number"),
    (fit_polls, {"elapsed": [1.0, 2.0], "changed": [False, True], "laws": 3}, "laws must be a list"),
]


@pytest.mark.parametrize(("function", "arguments", "words"), BAD)
def test_what_cannot_be_used_is_named(function, arguments, words):
    with pytest.raises(InvalidInput, match=words):
        function(**arguments)


def test_a_law_that_was_not_tried_is_named():
    with pytest.raises(InvalidInput, match="name must be one of 'poisson'"):
        fit([1.0])["weibull"]
