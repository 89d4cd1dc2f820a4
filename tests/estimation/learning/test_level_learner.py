"""The levels of classes: what polls tell of them, and that a wrong one does no harm."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unstale import Learning
from unstale.errors import InvalidInput
from unstale.estimation.learning.common_error import CommonErrors
from unstale.estimation.learning.level_learner import LevelLearner
from unstale.estimation.learning.rhythm_learner import PollsOfElements
from unstale.simulation import LearningAtPlay, World, simulate


def polls_of(last, time, changed, *, shape=50.0, ages=None):
    """Polls of elements that change once per unit of time at level 1, as is nearly known."""
    size = np.size(time)
    return PollsOfElements(
        np.zeros(size, np.intp), np.asarray(last, float), np.asarray(time, float), np.asarray(changed),
        np.full(size, shape), np.full(size, shape), np.ones(size), np.empty(0) if ages is None else ages,
    )  # fmt: skip


def heard(level, rounds, n=200, seed=1, told=False):
    """Return what is learned in rounds of one poll each, where elements change at a level of time."""
    rng, learner = np.random.default_rng(seed), LevelLearner(round=1.0)
    grid = np.linspace(-1.0, rounds + 1.0, 400 * (rounds + 2) + 1)
    passed = np.concatenate([[0.0], np.cumsum(level(0.5 * (grid[1:] + grid[:-1])) * np.diff(grid))])
    for k in range(rounds * 10):
        time = k / 10 + np.sort(rng.uniform(0.0, 0.1, n // 10))
        last = time - rng.uniform(0.7, 1.3, time.size)
        through = np.interp(time, grid, passed) - np.interp(last, grid, passed)
        back = rng.exponential(size=time.size)  # operational time back to the last change
        changed = back < through
        ages = None
        if told:
            moment = np.interp(np.interp(time, grid, passed) - back, passed, grid)
            ages = np.where(changed, time - moment, np.nan)
        learner.learn(polls_of(last, time, changed, ages=ages))
    learner.follow(np.array([True]))
    return learner


@pytest.mark.parametrize("told", [False, True])
def test_a_level_that_lasts_is_found(told: bool) -> None:
    learner = heard(lambda t: np.where(t > 8.0, 0.3, 1.5), 16, told=told)
    assert learner.now[0] == pytest.approx(0.3, rel=0.35)
    zero = np.zeros(1, np.intp)
    lately = learner.elapsed(zero, np.array([14.0]), np.array([15.0]))[0]
    assert lately == pytest.approx(0.3, rel=0.35)


def test_a_shock_is_in_the_past_of_those_alone_that_were_polled_before_it() -> None:
    """A tenth of a round in which elements change twenty times as much."""
    learner = heard(lambda t: np.where(np.abs(t - 15.5) < 0.05, 15.0, 0.5), 16, n=800)
    zero = np.zeros(2, np.intp)
    before, after = learner.elapsed(zero, np.array([15.2, 15.75]), np.array([16.0, 16.0]))
    assert before > 1.0  # 1.85 in truth
    assert after < 0.4  # 0.125
    assert learner.now[0] < 2.0  # it is over


@given(st.floats(1e-3, 1e4), st.integers(0, 1000))
@settings(max_examples=20)
def test_the_unit_of_time_does_not_matter(unit: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    one, other = LevelLearner(round=1.0), LevelLearner(round=unit)
    for k in range(6):
        time = np.sort(rng.uniform(k, k + 1.0, 30)) + 0.003
        last, changed = time - rng.uniform(0.1, 2.0, 30), rng.random(30) < 0.5
        one.learn(polls_of(last, time, changed))
        scaled = polls_of(last * unit, time * unit, changed)
        other.learn(scaled._replace(gamma_time=scaled.gamma_time * unit))
    for learner in (one, other):
        learner.follow(np.array([True]))
    assert other.now == pytest.approx(one.now, rel=1e-6)


def test_operational_time_adds_up_and_never_runs_back() -> None:
    learner = heard(lambda t: 1.0 + 0.9 * np.sin(t), 12)
    moments = np.linspace(-5.0, 20.0, 300)
    zero = np.zeros(299, np.intp)
    steps = learner.elapsed(zero, moments[:-1], moments[1:])
    assert (steps > 0).all()
    whole = learner.elapsed(np.zeros(1, np.intp), moments[:1], moments[-1:])[0]
    assert steps.sum() == pytest.approx(whole)


def test_a_class_that_is_not_said_to_goes_by_time() -> None:
    learner = heard(lambda t: np.full_like(t, 3.0), 4)
    learner.follow(np.array([False]))
    assert not learner.any
    assert learner.now.tolist() == [1.0]
    assert learner.elapsed(np.zeros(1, np.intp), np.array([1.0]), np.array([3.0])).tolist() == [2.0]


def test_it_goes_on_where_it_was() -> None:
    learner = heard(lambda t: np.full_like(t, 3.0), 4)
    again = LevelLearner.resume(learner.state())
    zero, start, end = np.zeros(1, np.intp), np.array([1.0]), np.array([3.5])
    assert again.elapsed(zero, start, end).tolist() == learner.elapsed(zero, start, end).tolist()
    assert again.now.tolist() == learner.now.tolist()
    for state in ({}, {**learner.state(), "counts": np.zeros(3)}):
        with pytest.raises(InvalidInput, match=r"LevelLearner\.state"):
            LevelLearner.resume(state)


def test_another_round_keeps_the_trend() -> None:
    learner = heard(lambda t: np.full_like(t, 3.0), 8)
    before = learner.now[0]
    learner.rescale(5.0)
    assert learner.now[0] == pytest.approx(before, rel=0.5)
    assert learner.now[0] > 1.5
    zero, start = np.zeros(1, np.intp), np.array([1.7e9])
    assert learner.elapsed(zero, start, start + 2.0) == pytest.approx(2.0 * learner.now)


def test_elements_with_nothing_in_common_go_by_time() -> None:
    """Rates are constant: the policy does what it does without levels."""
    world = World(np.random.default_rng(2).gamma(1.0, 1.0, 60))
    learning = Learning(60, budget=60.0, seed=1)
    simulate(world, 60.0, policies={"learning": LearningAtPlay(learning)}, horizon=40.0, seed=3)
    assert not learning.learner.by_level.any()
    assert not learning.policy.known.levels.any


def test_common_errors_of_independent_polls_are_small_and_add_little() -> None:
    rng, errors = np.random.default_rng(5), CommonErrors()
    zero, fresh, spans = np.zeros(100, np.intp), np.full(100, 0.6), (np.ones(100), np.ones(100))
    for k in range(300):
        time = k + np.arange(100) / 100
        errors.learn(1 / 16, zero, time, spans, fresh, np.full(100, 0.3), rng.random(100) > 0.6)
    assert errors.of(1)[0] < 0.02
    again = CommonErrors()
    again.resume(errors.state())
    assert again.of(1).tolist() == errors.of(1).tolist()


def test_the_common_variance_is_the_sum_over_pairs_of_the_time_they_share() -> None:
    rng, errors = np.random.default_rng(5), CommonErrors()
    since, slopes = rng.exponential(size=30), rng.random(30)
    classes = rng.integers(0, 2, 30)
    pairs = sum(
        slopes[i] * slopes[j] * min(since[i], since[j])
        for i in range(30)
        for j in range(30)
        if classes[i] == classes[j]
    )
    assert errors.variance(classes, since, slopes) == pytest.approx(pairs * errors.of(1)[0])
