"""Learners of papers: each reaches its own optimum, which has a known answer, and is what its paper says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import unstale
from unstale.estimation.rates.rates_of_many import estimate_rates
from unstale.lab.histories import load
from unstale.lab.shootout import shootout
from unstale.simulation import NoisyHints, World
from unstale.simulation.explore_and_commit import explore_and_commit
from unstale.simulation.lambda_crawl import harmonic_frequencies, lambda_crawl, smoothed_rates
from unstale.simulation.mirror_sync import MirrorSync, within_budget
from unstale.simulation.policies import Outcomes
from unstale.simulation.policy_lookup import PAPERS

RATES = np.array([0.2, 0.5, 1.0, 2.0, 5.0, 12.0])
POSITIVE = st.floats(1e-3, 1e3)


@given(st.lists(st.tuples(POSITIVE, POSITIVE, POSITIVE), min_size=1, max_size=8), POSITIVE)
def test_the_frequencies_of_lambda_crawl_spend_the_budget_at_one_price(elements, budget):
    rates, weights, sizes = np.array(elements).T
    found = harmonic_frequencies(rates, budget, weights, sizes)
    assert found @ sizes == pytest.approx(budget)
    prices = weights * rates / (found * (found + rates) * sizes)  # the slope of the cost, per cost of a poll
    assert prices == pytest.approx(np.full(rates.size, prices[0]), rel=1e-6)


def test_no_other_frequencies_have_a_lower_harmonic_cost():
    best = harmonic_frequencies(RATES, 6.0, np.ones(6), np.ones(6))
    costs = [
        np.log1p(RATES / other).sum() for other in np.random.default_rng(1).dirichlet(np.ones(6), 500) * 6.0
    ]
    assert np.log1p(RATES / best).sum() < min(costs)


def polls_of(rate, count, seed):
    rng = np.random.default_rng(seed)
    elapsed = rng.exponential(1.0, count)
    return elapsed, rng.random(count) < -np.expm1(-rate * elapsed)


def test_smoothed_rates_are_the_likeliest_ones_if_there_is_much_to_go_by():
    parts = [polls_of(rate, 4000, k) for k, rate in enumerate(RATES)]
    elements = np.repeat(np.arange(6), 4000)
    elapsed, changed = (np.concatenate(column) for column in zip(*parts, strict=True))
    found = smoothed_rates(elements, elapsed, changed, 6, 1.0)
    assert found == pytest.approx(
        estimate_rates(elements, elapsed, changed, n=6, method="mle").rate, rel=0.01
    )


def test_with_nothing_or_little_seen_smoothed_rates_are_finite_and_above_zero():
    none = smoothed_rates(np.empty(0, int), np.empty(0), np.empty(0, bool), 2, 3.0)
    assert none == pytest.approx(np.full(2, np.log(2.0) / 3.0))
    always = smoothed_rates(np.zeros(5, int), np.ones(5), np.ones(5, bool), 1, 1.0)
    never = smoothed_rates(np.zeros(5, int), np.ones(5), np.zeros(5, bool), 1, 1.0)
    assert 0.0 < never[0] < 0.2
    assert 1.0 < always[0] < 20.0


def frequencies_in_the_end(policy, rates, days, seed):
    """Let a policy learn from Poisson changes; return how often it polls each element in the last half."""
    rng, last, counts, now = np.random.default_rng(seed), np.zeros(rates.size), np.zeros(rates.size), 0.0
    while now < days:
        now = now + policy.step
        polls = policy.polls(now)
        elapsed = np.empty(len(polls))
        for k, (time, element) in enumerate(zip(polls.times, polls.elements, strict=True)):
            elapsed[k], last[element] = time - last[element], time
        if now > days / 2:
            counts += np.bincount(polls.elements, minlength=rates.size)
        changed = rng.random(len(polls)) < -np.expm1(-rates[polls.elements] * elapsed)
        policy.learn(Outcomes(polls.elements, polls.times, elapsed, changed, np.ones(len(polls), bool)))
    return counts / (days / 2)


def test_lambda_crawl_comes_to_its_own_optimum():
    ones = np.ones(6)
    found = frequencies_in_the_end(lambda_crawl(6, 6.0, ones, ones, seed=1), RATES, 3000.0, 2)
    assert found == pytest.approx(harmonic_frequencies(RATES, 6.0, ones, ones), rel=0.12)


def test_explore_and_commit_comes_to_the_optimum_of_random_polls():
    ones = np.ones(6)
    policy = explore_and_commit(6, 6.0, ones, ones, 90000.0, seed=1)
    found = frequencies_in_the_end(policy, RATES, 3000.0, 2)
    best = unstale.plan(RATES, 6.0, order="purely-random").frequencies
    assert found == pytest.approx(best, rel=0.15, abs=0.15)


@pytest.mark.parametrize("name", PAPERS)
def test_they_can_be_simulated_by_name_and_spend_the_budget(name):
    rates = np.random.default_rng(3).gamma(1.0, 1.0, 30)
    one = unstale.simulate(rates, 30.0, policies=["uniform", name], horizon=200.0, seed=1)[name]
    assert one.polls == pytest.approx(30.0 * 160.0, rel=0.05)
    assert 0.3 < one.freshness < 1.0


def test_they_play_in_shoot_outs():
    played = shootout(
        load(),
        seeds=1,
        budgets=[3.0],
        objectives=["freshness"],
        rules=[],
        policies=PAPERS,
        hints=NoisyHints(0.8, 0.9),
    )
    assert all(set(PAPERS) <= {row.policy for row in case.rows} for case in played.cases)


@given(st.lists(st.tuples(POSITIVE, POSITIVE), min_size=1, max_size=8), POSITIVE, st.floats(0.0, 0.9))
def test_mirror_descent_stays_within_the_budget_and_above_the_floor(elements, budget, share):
    frequencies, sizes = np.array(elements).T
    floor = share * budget / sizes.sum()
    found = within_budget(frequencies, budget, sizes, floor)
    assert found @ sizes == pytest.approx(budget)
    assert (found >= floor * (1 - 1e-12)).all()
    free = found > floor * (1 + 1e-9)
    if free.sum() > 1:  # those above the floor keep their proportions
        assert found[free] / frequencies[free] == pytest.approx(
            np.full(free.sum(), (found / frequencies)[free][0])
        )


def test_mirror_sync_comes_close_to_the_optimum_without_a_model():
    ones = np.ones(6)
    found = frequencies_in_the_end(MirrorSync(6, 6.0, ones, ones, seed=1), RATES, 3000.0, 2)
    best = unstale.plan(RATES, 6.0).frequencies

    def fresh(frequencies):
        return float(unstale.freshness(RATES, np.maximum(frequencies, 1e-9)).mean())

    assert found.sum() == pytest.approx(6.0, rel=0.02)
    assert fresh(best) > fresh(ones) + 0.02
    assert fresh(found * 6.0 / found.sum()) > fresh(ones) + 0.5 * (fresh(best) - fresh(ones))


def test_greedy_ncis_does_as_well_as_the_formula_for_hints():
    rates = np.random.default_rng(5).gamma(2.0, 0.5, 60)
    law = unstale.HintedChanges(rates, 0.6, 0.6 * rates * (1.0 / 0.8 - 1.0))
    best = unstale.estimation.plan_hinted(law, 60.0).freshness
    world = World(rates, hints=NoisyHints(0.6, 0.8))
    names = ["uniform", "greedy-ncis"]
    played = unstale.simulate(world, 60.0, policies=names, horizon=80.0, seed=2)
    assert best > played["uniform"].freshness + 0.1
    assert played["greedy-ncis"].freshness == pytest.approx(best, abs=0.02)


def test_learning_takes_the_hints_of_a_world():
    rates = np.random.default_rng(5).gamma(2.0, 0.5, 30)
    fresh = [
        unstale.simulate(World(rates, hints=hints), 30.0, policies=["learning"], horizon=40.0, seed=2)[
            "learning"
        ].freshness
        for hints in (None, NoisyHints(0.9, 0.9))
    ]
    assert fresh[1] > fresh[0] + 0.03


def test_hints_come_of_the_share_of_changes_and_are_as_often_true_as_said():
    world = World(np.full(50, 2.0), hints=NoisyHints(0.7, 0.5, delay=0.3))
    changes, hints = world.changes(3), world.hinted(3)
    counts, soon = np.zeros(2), []
    for end in (50.0, 100.0):
        new = changes.until(end)
        given_ = hints.until(new, end)
        counts += new.times.size, given_.times.size
        soon.append(given_.times)
    assert counts[1] / counts[0] == pytest.approx(0.7 / 0.5, rel=0.05)
    assert (soon[0] < 50.0).all()
    assert ((soon[1] < 100.0) & (soon[1] >= 49.0)).all()  # late ones come in the next span


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"recall": 1.2}, "recall must be"),
        ({"recall": 0.5, "precision": 0.0}, "precision must be"),
        ({"recall": 0.5, "delay": -1.0}, "delay must be"),
    ],
)
def test_hints_that_cannot_be_are_refused(given_, message):
    with pytest.raises(unstale.InvalidInput, match=message):
        NoisyHints(**given_)


def test_a_world_takes_hints_and_nothing_else():
    with pytest.raises(unstale.InvalidInput, match="hints must be NoisyHints"):
        World([1.0], hints=0.5)
