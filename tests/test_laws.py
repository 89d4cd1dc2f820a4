"""What holds for every input: bounds, monotonicity, scaling, derivatives and the theorems of the papers."""

import copy
import pickle

import numpy as np
import pytest
from example_counts import percent
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy import stats

from unstale import kernels, objectives, penalties, poisson, polling, processes, renewal
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

ORDERS = ("fixed", "random", "purely-random")
OBJECTIVES = ("freshness", "age", "missed-updates", "harmonic")
ROUNDING = 1e-12  # relative: what rounding may undo of a law that holds exactly


def decades(low, high):
    """Numbers spread evenly over decades."""
    return st.floats(low, high).map(lambda exponent: 10.0**exponent)


positive = decades(-9, 9)
orders = st.sampled_from(ORDERS)
names = st.sampled_from(OBJECTIVES)
factors = st.floats(1.0001, 1000.0)
generators = st.integers(0, 2**32 - 1).map(np.random.default_rng)

change_laws = st.one_of(
    st.builds(Poisson, decades(-2, 2)),
    st.builds(Pareto, st.floats(1.05, 20.0), decades(-2, 2)),
    st.builds(UncertainPoisson, decades(-1, 2), decades(-2, 2)),
    st.builds(Weibull, st.floats(0.2, 5.0), decades(-2, 2)),
    st.builds(Gamma, decades(-1, 2), decades(-2, 2)),
    st.builds(Lognormal, st.floats(-3.0, 3.0), st.floats(0.1, 3.0)),
    st.builds(Periodic, decades(-2, 2)),
    st.builds(RandomOrder, decades(-2, 2)),
    st.builds(Empirical, st.lists(decades(-2, 2), min_size=1, max_size=6)),
)
some_penalties = st.one_of(
    st.sampled_from(["1", "x", "log(1+x)"]).map(penalties.named),
    st.floats(0.0, 3.0).map(penalties.power),
    decades(-1, 1).map(penalties.beyond),
)
EVERY_LAW = [
    Poisson(0.7),
    Pareto(2.6, 1.5),
    UncertainPoisson(3.0, 0.4),
    Weibull(0.6, 1.5),
    Weibull(3.0, 1.5),
    Gamma(0.4, 2.0),
    Gamma(50.0, 0.03),
    Lognormal(0.2, 0.8),
    Periodic(1.7),
    RandomOrder(1.7),
    Empirical([0.3, 1.7, 1.7, 0.02, 5.0]),
    processes.Superposed(RandomOrder(1.7), 3),
    processes.Superposed(Gamma(2.0, 1.0), 2),
]


def label(law):
    return repr(law).replace("np.float64", "")[:60]


def at_most(low, high, slack=ROUNDING):
    """Whether low <= high, but for rounding."""
    return bool(np.all(low <= high + slack * np.maximum(np.abs(low), np.abs(high))))


# --- Poisson changes ----------------------------------------------------------------------------


@given(positive, positive, orders)
def test_freshness_is_a_share_and_age_is_not_negative(rate, frequency, order):
    fresh = poisson.freshness(rate, frequency, order)
    assert 0 < fresh <= 1
    assert poisson.age(rate, frequency, order) >= 0
    assert fresh + kernels.staleness(rate, frequency, ORDERS.index(order)) == pytest.approx(1, rel=ROUNDING)


@given(positive, positive, factors, orders)
def test_polling_more_is_better_and_changing_more_is_worse(rate, frequency, factor, order):
    stale = kernels.staleness
    code = ORDERS.index(order)
    assert at_most(stale(rate, frequency * factor, code), stale(rate, frequency, code))
    assert at_most(stale(rate, frequency, code), stale(rate * factor, frequency, code))
    assert at_most(
        poisson.freshness(rate, frequency, order), poisson.freshness(rate, frequency * factor, order)
    )
    assert at_most(poisson.age(rate, frequency * factor, order), poisson.age(rate, frequency, order))
    assert at_most(poisson.age(rate, frequency, order), poisson.age(rate * factor, frequency, order))


@given(decades(-6, 6), decades(-6, 6), factors, st.floats(0.01, 0.99), orders)
def test_freshness_is_concave_and_age_convex_in_frequency(rate, low, factor, share, order):
    high = low * factor
    middle = share * low + (1 - share) * high
    fresh, age = (
        poisson.freshness(rate, [low, middle, high], order),
        poisson.age(rate, [low, middle, high], order),
    )
    assert at_most(share * fresh[0] + (1 - share) * fresh[2], fresh[1])
    assert at_most(age[1], share * age[0] + (1 - share) * age[2])


@given(decades(-6, 6), decades(-6, 6), factors, st.floats(0.01, 0.99), orders)
def test_freshness_is_convex_and_age_concave_in_rate(low, frequency, factor, share, order):
    """Appendix D of Cho & Garcia-Molina."""
    high = low * factor
    rates = np.array([low, share * low + (1 - share) * high, high])
    fresh, age = poisson.freshness(rates, frequency, order), poisson.age(rates, frequency, order)
    assert at_most(fresh[1], share * fresh[0] + (1 - share) * fresh[2])
    assert at_most(share * age[0] + (1 - share) * age[2], age[1])


@given(positive, positive, decades(-6, 6), orders)
def test_the_unit_of_time_does_not_matter(rate, frequency, unit, order):
    assert poisson.freshness(rate * unit, frequency * unit, order) == pytest.approx(
        poisson.freshness(rate, frequency, order), rel=ROUNDING
    )
    assert poisson.age(rate * unit, frequency * unit, order) * unit == pytest.approx(
        poisson.age(rate, frequency, order), rel=ROUNDING
    )


@given(names, decades(-3, 3), decades(-3, 3), decades(-6, 6), orders)
def test_worth_scales_with_the_unit_of_time(objective, rate, interval, unit, order):
    """A poll saves cost per frequency: a time for shares and counts, a squared time for ages."""
    degree = 2 if objective == "age" else 1
    assert polling.worth(objective, rate * unit, interval / unit, order) * unit**degree == pytest.approx(
        polling.worth(objective, rate, interval, order), rel=1e-11
    )


@given(names, change_laws, decades(-2, 2))
def test_fixed_order_is_best(objective, law, frequency):
    assume(objective in {"freshness", "missed-updates"} or isinstance(law, Poisson))
    fixed, random, purely = (polling.mean_cost(objective, law, frequency, order) for order in ORDERS)
    assert at_most(fixed, random, 1e-10)
    assert at_most(random, purely, 1e-10)


@given(st.lists(decades(-3, 3), min_size=2, max_size=8), decades(-3, 3), orders)
def test_uniform_beats_proportional(rates, mean, order):
    """Appendix D of Cho & Garcia-Molina: whatever the rates, at equal weights and the same budget."""
    rates = np.array(rates)
    uniform = np.full(rates.shape, mean)
    proportional = mean * rates / rates.mean()
    assert at_most(
        poisson.freshness(rates, proportional, order).mean(), poisson.freshness(rates, uniform, order).mean()
    )
    assert at_most(poisson.age(rates, uniform, order).mean(), poisson.age(rates, proportional, order).mean())


@given(decades(-4, 4), st.floats(0.0, 3.0), decades(-4, 4))
def test_a_database_is_fresher_and_younger_if_its_rates_vary(mean, spread, frequency):
    """Convexity again, now over the gamma distribution: freshness rises with the spread, age falls."""
    assert at_most(poisson.freshness(mean, frequency), poisson.database_freshness(mean, spread, frequency))
    assert at_most(poisson.database_age(mean, spread, frequency), poisson.age(mean, frequency))
    assert at_most(
        poisson.database_freshness(mean, spread, frequency, "proportional"),
        poisson.database_freshness(mean, spread, frequency),
    )


@given(decades(-2, 2), decades(-3, 0), orders)
def test_the_curve_solves_for_the_price(rate, share, order):
    price = share / rate
    frequency = poisson.curve_frequency(rate, price, "freshness", order)
    assume(frequency > 0)
    assert polling.worth("freshness", rate, 1 / frequency, order) == pytest.approx(price, rel=1e-11)
    assert (
        poisson.curve_frequency(poisson.curve_cutoff(price) * (1 + ROUNDING), price, "freshness", order) == 0
    )


@given(decades(-3, 3), st.floats(0.01, 100.0))
def test_the_peak_of_the_curve(price, off):
    rate, highest = poisson.curve_peak(price)
    assert poisson.curve_frequency(rate, price) == pytest.approx(highest, rel=1e-12)
    assert at_most(poisson.curve_frequency(rate * off, price), highest)


@given(st.floats(0, 1), st.floats(0, 1), st.integers(0, 1000))
def test_slots(change, poll, steps):
    early, late = poisson.discrete_freshness(change, poll, steps), poisson.discrete_freshness(change, poll)
    assert 0 <= early <= 1
    assert 0 <= late <= 1
    if change > 0 or poll > 0:  # an element that neither changes nor is polled stays as it started
        assert at_most(early, late)
        assert at_most(early, poisson.discrete_freshness(change, poll, steps + 1))


@given(st.lists(st.tuples(st.floats(0, 1), decades(-3, 3), decades(-3, 3)), min_size=1, max_size=6), orders)
def test_perceived_freshness_is_a_mean(elements, order):
    profile, rates, frequencies = np.array(elements).T
    assume(profile.sum() > 1e-6)
    each = poisson.freshness(rates, frequencies, order)
    seen = poisson.perceived_freshness(profile, rates, frequencies, order)
    assert at_most(each.min(), seen)
    assert at_most(seen, each.max())
    assert poisson.perceived_freshness(3 * profile, rates, frequencies, order) == pytest.approx(
        seen, rel=ROUNDING
    )


# --- objectives ---------------------------------------------------------------------------------


@given(st.one_of(names, some_penalties), change_laws, decades(-3, 2))
def test_worth_is_what_one_more_poll_saves(objective, law, frequency):
    """Minus the derivative of the mean cost by the frequency: it lies between two difference quotients."""
    if isinstance(objective, penalties.Penalty):
        assume(objective.exponent in (0.0, 1.0) or objective.threshold is not None)
        objective = objectives.SourcePenalty(objective)
    assume(objective != "harmonic" or isinstance(law, Poisson))
    step = 1e-4
    cost = [
        float(polling.mean_cost(objective, law, frequency * factor)) for factor in (1 - step, 1, 1 + step)
    ]
    falls = (cost[0] - cost[1]) / (frequency * step), (cost[1] - cost[2]) / (frequency * step)
    worth = float(polling.worth(objective, law, 1 / frequency))
    noise = 1e-14 / step * max(cost[1] / frequency, worth)
    assert falls[1] - noise <= worth <= falls[0] + noise


@given(st.one_of(names, some_penalties), change_laws, decades(-2, 2), factors)
def test_worth_grows_with_the_interval(objective, law, interval, factor):
    if isinstance(objective, penalties.Penalty):
        objective = objectives.SourcePenalty(objective)
    first, second = polling.worth(objective, law, np.array([interval, interval * factor]))
    assert first >= 0
    assert at_most(first, second, 1e-10)
    if not isinstance(objective, objectives.SourcePenalty) or objective.penalty.name != "log(1+x)":
        assert at_most(second, polling.worth(objective, law, np.inf), 1e-10)


@given(st.one_of(names, some_penalties), change_laws, decades(-2, 2))
def test_mean_cost_lies_between_the_cost_at_both_ends(objective, law, interval):
    objective = (
        objectives.objective_named(objective)
        if isinstance(objective, str)
        else objectives.SourcePenalty(objective)
    )
    start, end = objective.cost(law, np.asarray(0.0)), objective.cost(law, np.asarray(interval))
    mean = polling.average_cost(objective, law, Periodic(interval))
    assert at_most(start, mean, 1e-9)
    assert at_most(mean, end, 1e-9)


@given(names, change_laws, decades(-2, 2))
def test_cost_interval_and_worth_agree(objective, law, interval):
    """worth = t g(t) - accrued(t)."""
    objective = objectives.objective_named(objective)
    t = np.asarray(interval)
    whole = t * objective.cost(law, t)
    assert objective.worth(law, t) == pytest.approx(
        whole - objective.accrued(law, t), abs=1e-9 * float(whole)
    )


@given(change_laws, decades(-2, 2), st.sampled_from(["1", "x"]))
def test_an_update_penalty_counts_at_least_what_a_source_penalty_counts(law, interval, name):
    """All missed changes, not only the first one."""
    polls = Periodic(interval)
    source, update = renewal.source_penalty(law, polls, name), renewal.update_penalty(law, polls, name)
    assert at_most(source, update, 1e-9)


# --- any changes against any polls --------------------------------------------------------------

POLLS = [
    Poisson(1.0),
    RandomOrder(1.0),
    Pareto(3.5, 2.5),
    Gamma(0.4, 2.5),
    Gamma(5.0, 0.2),
    Weibull(0.6, 1.0),
    Lognormal(-0.5, 1.0),
    Empirical([0.5, 0.5, 2.0]),
]


@pytest.mark.parametrize("polls", POLLS, ids=label)
@pytest.mark.parametrize(
    "changes", [Poisson(1.3), Pareto(1.5, 0.5), Weibull(3.0, 1.0), Empirical([0.2, 3.0])], ids=label
)
def test_constant_polls_are_best(changes, polls):
    """Theorem 9 of Li, Cline & Loguinov."""
    constant = Periodic(1.0 / polls.rate)
    assert renewal.dominates(constant, polls)
    assert not renewal.dominates(polls, constant)
    assert at_most(renewal.staleness(changes, constant), renewal.staleness(changes, polls), 1e-10)
    for name in ("x", "log(1+x)"):
        assert at_most(
            renewal.update_penalty(changes, constant, name),
            renewal.update_penalty(changes, polls, name),
            1e-10,
        )
    assert at_most(renewal.source_penalty(changes, constant), renewal.source_penalty(changes, polls), 1e-10)
    for tau in (0.1, 1.0):
        assert at_most(
            renewal.share_within(changes, polls, tau), renewal.share_within(changes, constant, tau), 1e-10
        )


@settings(max_examples=percent(6))  # each takes a double integral
@given(change_laws, st.sampled_from(POLLS), some_penalties)
def test_constant_polls_are_best_for_some_penalties(changes, polls, penalty):
    assert_constant_is_best(changes, polls, penalty)


@pytest.mark.long
@settings(max_examples=percent(200))
@given(change_laws, st.sampled_from(POLLS), some_penalties)
def test_constant_polls_are_best_for_every_penalty(changes, polls, penalty):
    assert_constant_is_best(changes, polls, penalty)


def assert_constant_is_best(changes, polls, penalty):
    # Where the tail of the polls is too heavy for it, the mean of a power of the lag is infinite (up to 1
    # below the shape), or its integral converges too slowly to be had.
    heavy = isinstance(polls, Pareto) and penalty.exponent is not None
    assume(not (heavy and polls.shape <= penalty.exponent + 1.5))
    constant = Periodic(1.0 / polls.rate)
    assert at_most(
        renewal.source_penalty(changes, constant, penalty),
        renewal.source_penalty(changes, polls, penalty),
        1e-9,
    )


@given(
    st.lists(decades(-1, 1), min_size=1, max_size=5),
    st.lists(decades(-1, 1), min_size=1, max_size=5),
    change_laws,
)
def test_dominance_orders_the_costs(first, second, changes):
    """Theorems 7 and 8: at equal rates, polls that dominate cost no more for any penalty."""
    one, two = Empirical(first).at_rate(1.0), Empirical(second).at_rate(1.0)
    if renewal.dominates(one, two):
        better, worse = one, two
    elif renewal.dominates(two, one):
        better, worse = two, one
    else:
        return
    assert at_most(renewal.staleness(changes, better), renewal.staleness(changes, worse), 1e-9)
    assert at_most(renewal.missed_updates(changes, better), renewal.missed_updates(changes, worse), 1e-9)


def test_dominance_is_not_total():
    """Two laws of which neither dominates: many short gaps with one long, against two in the middle."""
    one, two = Empirical([0.1, 1.0, 1.9]), Empirical([0.4, 0.4, 2.2])
    assert not renewal.dominates(one, two)
    assert not renewal.dominates(two, one)


@given(change_laws, change_laws)
def test_staleness_of_a_pair_is_a_share(changes, polls):
    stale = renewal.staleness(changes, polls)
    assert 0 <= stale <= 1
    assert renewal.share_within(changes, polls, 0.0) == pytest.approx(1 - stale, abs=1e-10)


@given(change_laws, st.sampled_from([Periodic(1.0), Poisson(1.0), RandomOrder(1.0)]))
@example(Periodic(10.0**-1e-12), Periodic(1.0))  # 1 - x is below 0 at the end of the last part
def test_the_lag_has_a_distribution(changes, polls):
    lags = np.array([0.0, 0.1, 1.0, 50.0])
    share = renewal.lag_cdf(changes, polls, lags)
    assert share[0] == pytest.approx(0, abs=1e-10)
    assert (np.diff(share) >= -1e-9).all()
    assert share[-1] == pytest.approx(1, abs=1e-9)
    within = renewal.share_within(changes, polls, lags)
    assert (np.diff(within) >= -1e-9).all()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_several_sources_are_at_least_as_fresh_as_the_best(staleness):
    some = renewal.some_fresh(staleness)
    assert 1 - min(staleness) - ROUNDING <= some <= 1
    assert some <= min(1.0, sum(1 - p for p in staleness)) + ROUNDING


@given(change_laws, st.integers(1, 6))
def test_coordinated_replicas_are_one_replica(changes, count):
    together = renewal.replicas(Periodic(2.0), count, coordinated=True)
    assert renewal.staleness(changes, together) == pytest.approx(
        float(renewal.staleness(changes, Periodic(2.0 / count))), rel=ROUNDING
    )


@pytest.mark.parametrize("each", [Periodic(2.0), RandomOrder(2.0), Gamma(4.0, 0.5)], ids=label)
@pytest.mark.parametrize("changes", [Poisson(1.0), Pareto(1.5, 0.5)], ids=label)
def test_independent_replicas_tend_to_poisson_polls(changes, each):
    counts = (1, 2, 4, 16)
    gaps = []
    for count in counts:
        apart = renewal.replicas(each, count, coordinated=False)
        alone = renewal.staleness(changes, each.at_rate(count * each.rate))
        stale = renewal.staleness(changes, apart)
        assert float(apart.rate) == pytest.approx(count * float(each.rate), rel=ROUNDING)
        assert at_most(
            renewal.staleness(changes, renewal.replicas(each, count, coordinated=True)), stale, 1e-10
        )
        assert at_most(alone, stale, 1e-10)  # these gaps are more even than exponential ones
        gaps.append(abs(float(stale / renewal.staleness(changes, Poisson(count * each.rate))) - 1))
    assert gaps[3] < gaps[2] < gaps[1]
    assert gaps[3] < 0.05


# --- processes ----------------------------------------------------------------------------------


@given(change_laws, decades(-3, 3), factors)
def test_survival_falls_from_1_to_0(law, t, factor):
    for function in (law.survival, law.residual_survival):
        assert function(0.0) == 1
        early, late = function(t), function(t * factor)
        assert late >= 0
        assert at_most(late, early)
        assert early <= 1
        assert function(np.inf) == 0


@given(change_laws, decades(-3, 3), factors)
def test_moments_grow_to_their_limits(law, t, factor):
    assert law.residual_cdf(t) == law.moment(0, t)
    assert law.moment(0, t) + law.residual_survival(t) == pytest.approx(1, rel=ROUNDING)
    for k in range(3):
        early, late, limit = law.moment(k, t), law.moment(k, t * factor), law.moment(k, np.inf)
        assert early >= 0
        assert at_most(early, late)
        assert at_most(late, limit)
        if k:  # y^k is at most t^k below t
            assert at_most(early, t**k * law.moment(0, t))
            assert at_most(early, t * law.moment(k - 1, t))


@given(change_laws, decades(-2, 2))
def test_the_moments_are_integrals_of_the_survival(law, t):
    """One more step of the trapezoidal rule lies between its bounds, since S falls."""
    width = t * 1e-3
    for k in range(3):
        step = float(law.moment(k, t + width) - law.moment(k, t)) / (float(law.rate) * width)
        slack = 1e-10 * float(law.moment(k, t + width)) / (float(law.rate) * width)
        assert law.survival(t + width) * t**k - slack <= step <= law.survival(t) * (t + width) ** k + slack


@given(change_laws, decades(-2, 2), decades(-2, 2))
def test_at_rate_stretches_time_and_nothing_else(law, rate, t):
    other = law.at_rate(rate)
    assert type(other) is type(law)
    assert float(other.rate) == pytest.approx(rate, rel=1e-11)
    factor = float(law.rate) / rate
    steep = 1e-10  # a relative error of the time counts for more where the law is steep
    assert other.moment(0, t * factor) == pytest.approx(float(law.moment(0, t)), abs=steep)
    assert other.moment(1, t * factor) == pytest.approx(float(law.moment(1, t)) * factor, rel=1e-9)


@given(decades(-1, 1), decades(-1, 1), decades(-2, 2))
def test_an_uncertain_rate_is_an_average_over_rates(shape, scale, t):
    """Gauss's rule for the gamma distribution (64 nodes; its own error bounds the comparison)."""
    from scipy.special import roots_genlaguerre

    assume(t * scale < 1)
    nodes, weights = roots_genlaguerre(64, shape - 1)
    weights, rates = weights / weights.sum(), nodes * scale
    law = UncertainPoisson(shape, scale)
    assert law.residual_survival(t) == pytest.approx(float(weights @ np.exp(-rates * t)), rel=1e-9)
    for objective in ("freshness", "age", "harmonic"):
        many = polling.worth(objective, rates, t)
        assert polling.worth(objective, law, t) == pytest.approx(float(weights @ many), rel=1e-7)
        mean = polling.mean_cost(objective, rates, 1 / t)
        assert polling.mean_cost(objective, law, 1 / t) == pytest.approx(float(weights @ mean), rel=1e-7)


@given(decades(-2, 2))
def test_laws_that_meet(t):
    """One law written in different ways."""
    same = [Poisson(0.5), Gamma(1.0, 2.0), Weibull(1.0, 2.0)]
    for k in range(3):
        values = [float(law.moment(k, t)) for law in same]
        assert values == pytest.approx([values[0]] * 3, rel=1e-11)
    assert Pareto(3.0, 0.5).moment(1, t) == pytest.approx(
        float(UncertainPoisson(2.0, 2.0).moment(1, t)), rel=ROUNDING
    )
    assert Empirical([2.0, 2.0]).moment(2, t) == pytest.approx(
        float(Periodic(2.0).moment(2, t)), rel=ROUNDING
    )
    many = UncertainPoisson(1e9, 0.5e-9)
    assert many.moment(1, t) == pytest.approx(float(Poisson(0.5).moment(1, t)), rel=1e-6)


@pytest.mark.parametrize("law", EVERY_LAW, ids=label)
def test_sampling(law):
    """The same seed gives the same draws; the mean gap is one over the rate, to five standard errors."""
    draws = law.sample(np.random.default_rng(7), 40_000)
    assert draws.shape == (40_000,)
    assert (draws >= 0).all()
    assert (draws == law.sample(np.random.default_rng(7), 40_000)).all()
    assert law.sample(np.random.default_rng(7), (3, 5)).shape == (3, 5)
    assert np.shape(law.sample(np.random.default_rng(7))) == ()
    if isinstance(law, UncertainPoisson):  # one row is one element, at a rate of its own
        draws = 1 / law.sample(np.random.default_rng(7), (4000, 500)).mean(axis=1)
        mean = float(law.rate)
    else:
        mean = 1 / float(law.rate)
    error = draws.std() / np.sqrt(draws.size)
    # a mean of 500 gaps is off by 1/500 itself
    assert abs(draws.mean() - mean) <= 5 * error + (mean / 250 if isinstance(law, UncertainPoisson) else 1e-9)


@pytest.mark.parametrize("law", EVERY_LAW, ids=label)
def test_sampling_the_time_to_the_next_event(law):
    """Kolmogorov's test; the seed is fixed, so that it fails only if the law changes."""
    draws = law.sample_residual(np.random.default_rng(11), 4000)
    assert (draws == law.sample_residual(np.random.default_rng(11), 4000)).all()
    assert stats.kstest(draws, law.residual_cdf).pvalue > 1e-4
    assert np.shape(law.sample_residual(np.random.default_rng(7))) == ()
    assert law.sample_residual(np.random.default_rng(7), (3, 5)).shape == (3, 5)


@pytest.mark.parametrize(
    "law",
    [law for law in EVERY_LAW if not isinstance(law, UncertainPoisson | Periodic | Empirical)],
    ids=label,
)
def test_sampling_gaps(law):
    draws = np.ravel(law.sample(np.random.default_rng(12), (4000, 1)))
    assert stats.kstest(draws, lambda y: 1 - law.survival(y)).pvalue > 1e-4


@pytest.mark.parametrize(
    "law", [Poisson(0.7), Gamma(3.0, 0.4), Weibull(0.7, 1.0), Lognormal(0.0, 0.5)], ids=label
)
def test_observed_gaps_approach_their_law(law):
    observed = Empirical(law.sample(np.random.default_rng(5), 100_000))
    t = np.array([0.1, 0.5, 1.0, 3.0]) / float(law.rate)
    np.testing.assert_allclose(observed.rate, law.rate, rtol=0.02)
    np.testing.assert_allclose(observed.survival(t), law.survival(t), atol=0.01)
    for k in range(3):
        np.testing.assert_allclose(observed.moment(k, t), law.moment(k, t), rtol=0.03)
    np.testing.assert_allclose(
        renewal.staleness(observed, Periodic(1.0)), renewal.staleness(law, Periodic(1.0)), rtol=0.02
    )


@given(st.lists(decades(-2, 2), min_size=1, max_size=8))
def test_observed_times_give_observed_gaps(gaps):
    times = np.cumsum([0.0, *gaps])
    assert Empirical.from_times(times).gaps == pytest.approx(sorted(np.diff(times)), rel=1e-15)


# --- lattices -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gaps", "span"),
    [
        ([2 * 2**0.5, 3 * 2**0.5], 2**0.5),
        ([1.0, 2**0.5], None),
        ([0.1, 0.25], 0.05),
        ([0.1, 0.2, 0.7], 0.1),
        ([1.0, 2.0, 3.5], 0.5),
        ([5.0], 5.0),
        ([3.0, 3.0], 3.0),
        ([1.0, np.pi], None),
        ([1 / 3, 0.5], 1 / 6),
    ],
)
def test_span(gaps, span):
    found = Empirical(gaps).span
    assert found is None if span is None else found == pytest.approx(span, rel=1e-7)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=6), decades(-3, 3))
def test_span_of_whole_multiples(multiples, unit):
    """The span is the unit times the greatest common divisor."""
    expected = unit * np.gcd.reduce(multiples)
    assert Empirical([m * unit for m in multiples]).span == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("changes", "polls", "possible"),
    [
        (Periodic(1.0), Periodic(0.5), True),
        (Periodic(1.0), Periodic(2**0.5), False),
        (Periodic(2**0.5), Empirical([2 * 2**0.5, 3 * 2**0.5]), True),
        (Periodic(1.0), Empirical([2 * 2**0.5, 3 * 2**0.5]), False),
        (Periodic(1.0), Empirical([1.0, 2**0.5]), False),
        (Empirical([0.1, 0.25]), Periodic(0.3), True),
        (Periodic(1.0), Poisson(1.0), False),
        (Poisson(1.0), Periodic(1.0), False),
        (Periodic(1.0), RandomOrder(1.0), True),  # rounds keep time
        (Periodic(1.0), RandomOrder(2**0.5), False),
        (Periodic(1.0), processes.Superposed(Periodic(1.0), 2), True),  # each keeps its phase
        (Periodic(1.0), processes.Superposed(Gamma(2.0, 1.0), 2), False),
        (Periodic(1.0), processes.Superposed(Periodic(1.0), 1), True),
    ],
)
def test_phase_lock(changes, polls, possible):
    lock = renewal.phase_lock(changes, polls)
    assert lock.possible is possible
    assert lock.reason


VALUES = [
    *POLLS,
    Poisson([1.0, 2.0]),
    processes.Superposed(Gamma(2.0, 1.0), 2),
    penalties.power(2.0),
    penalties.named("log(1+x)"),
    penalties.named("1/(1+x)"),
    penalties.decay(2.0),
    penalties.beyond(2.0),
    penalties.custom(np.sqrt),
    objectives.currency(1.0),
    objectives.Harmonic(),
    objectives.UpdatePenalty("1"),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_laws_penalties_and_objectives_are_values(value):
    """They can be sent to another process, copied, compared, used as keys and read."""
    again = pickle.loads(pickle.dumps(value))  # noqa: S301  (our own bytes)
    assert again == value == copy.deepcopy(value)
    assert hash(again) == hash(value)
    assert value != Poisson(17.0)
    assert "0x" not in repr(value)
    assert "np." not in repr(value)


def test_a_law_keeps_its_parameters():
    rates = np.array([1.0, 2.0])
    law = Poisson(rates)
    rates[0] = -5.0
    assert law.rate.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        law.rate[0] = 3.0
    with pytest.raises(ValueError, match="read-only"):
        Empirical([1.0, 2.0]).gaps[0] = 3.0


def test_an_uncertain_rate_is_drawn_once_for_each_element():
    rng = np.random.default_rng(5)
    gaps = UncertainPoisson(np.full(2000, 0.5), 1.0).sample(rng, (2, 2000))
    assert np.corrcoef(np.log(gaps))[0, 1] > 0.5
