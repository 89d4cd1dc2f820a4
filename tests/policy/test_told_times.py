"""Told times: exact where they are true, and not believed where they prove wrong."""

from dataclasses import replace

import numpy as np
import pytest

from unstale import Learner, Learning, World, simulate
from unstale.policy.told_times import ToldTimes
from unstale.simulation import LearningAtPlay
from unstale.simulation.policies import Outcomes

YES, NO = np.array([True]), np.array([False])
ONE = np.ones(1)
HOST = np.array([3])


def believed(told: ToldTimes, age: float, *, changed: bool = True) -> bool:
    """Tell whether a poll is believed, one unit of time after the one before."""
    return bool(np.isfinite(told.believed(HOST, ONE, np.array([changed]), np.array([age])))[0])


@pytest.mark.parametrize(
    ("age", "changed"),
    [(0.0, True), (-5.0, True), (0.0005, True), (1.5, True), (0.5, False), (0.0, False)],
    ids=["now", "the future", "just now", "before the last poll", "no change", "now, no change"],
)
def test_one_wrong_time_is_enough_at_first(age: float, changed: bool) -> None:
    told = ToldTimes()
    assert not believed(told, age, changed=changed)
    assert not believed(told, 0.5)
    for _ in range(20):
        believed(told, 0.5)
    assert believed(told, 0.5)  # it has proved true since
    assert told.trusted(np.array([0, 2])).all()  # others are not to blame


def test_one_wrong_time_among_many_says_little() -> None:
    told = ToldTimes()
    assert all(believed(told, 0.3) for _ in range(50))
    believed(told, 0.0)
    assert believed(told, 0.3)
    again = ToldTimes()
    again.resume(told.state())
    assert again.state()["told_times"].tolist() == told.state()["told_times"].tolist()
    assert not believed(again, np.nan)


@pytest.mark.parametrize(("told", "least", "most"), [(1.0, 0.9, 1.0), (0.5, 0.0, 0.0)])
def test_groups_that_tell_of_nearly_all_changes_are_known(told: float, least: float, most: float) -> None:
    rng, times, found = np.random.default_rng(1), ToldTimes(), []
    for _ in range(200):
        changed = rng.random() < 0.5
        age = 0.5 if changed and rng.random() < told else np.nan  # what has not changed tells nothing
        times.believed(HOST, ONE, np.array([changed]), np.array([age]))
        found.append(bool(times.tell(HOST)[0]))
    assert least <= np.mean(found[30:]) <= most
    again = ToldTimes()
    again.resume(times.state())
    assert again.tell(HOST).tolist() == [found[-1]]
    assert not again.tell(np.array([0, 7])).any()


@pytest.mark.parametrize("every", [0.3, 3.0, 30.0])
def test_who_tells_when_the_site_was_built_is_not_believed(every: float) -> None:
    rng, told, trusted = np.random.default_rng(1), ToldTimes(), []
    time = np.zeros(20)
    for _ in range(1000):  # polls of twenty elements, each of which changes about once between two of them
        element, elapsed = rng.integers(20), rng.exponential(1.0)
        time[element] += elapsed
        age, changed = np.array([time[element] % every]), np.array([rng.random() < -np.expm1(-elapsed)])
        trusted.append(np.isfinite(told.believed(HOST, np.array([elapsed]), changed, age))[0])
    assert np.mean(trusted) < 0.02


def test_a_first_copy_that_is_old_says_that_the_element_is_slow() -> None:
    learner = Learner(3, round=1.0, half_life=np.inf)
    learner.begin(np.array([0, 1]), np.array([100.0, 0.5]))
    old, young, unknown = learner.law(0.0).rate
    assert old == pytest.approx(2.0 / 101.0, rel=1e-3)  # the prior is one change in one round
    assert young == pytest.approx(2.0 / 1.5, rel=1e-3)
    assert unknown == pytest.approx(1.0)


def test_what_faded_since_the_last_change_does_not_count() -> None:
    learner = Learner(1, round=1.0, half_life=4.0)
    learner.begin(np.array([0]), np.array([1e6]))
    changes, _, _, quiet, _ = learner.evidence[0, 0]
    assert changes == pytest.approx(0.0, abs=1e-12)
    assert quiet == pytest.approx(4.0 / np.log(2.0))


@pytest.mark.parametrize("half_life", [1e9, 4.0])
def test_several_changes_before_the_first_copy_are_exact_evidence(half_life: float) -> None:
    """As many, over the time since the first of them, of which so much counts as has not faded."""
    ages, learner = np.array([0.5, 3.0, 2.0]), Learner(2, round=1.0, half_life=half_life)
    learner.begin(np.array([1, 1, 1]), ages)
    nothing, (changes, _, _, quiet, _) = learner.evidence[:, 0]
    span = np.linspace(0.0, 3.0, 10_001)
    assert changes == pytest.approx((0.5 ** (ages / half_life)).sum(), rel=1e-6)
    assert quiet == pytest.approx(np.trapezoid(0.5 ** (span / half_life), span), rel=1e-6)
    assert (nothing == 0.0).all()


def test_changes_wait_for_the_first_poll() -> None:
    told = ToldTimes()
    for element, moment in ((7, 10.0), (7, 14.0), (8, 13.0), (9, 12.0)):
        told.wait(element, moment)
    again = ToldTimes()
    again.resume(told.state())
    for one in (told, again):
        elements, now = np.array([5, 7, 8, 9]), np.full(4, 16.0)
        which, ages = one.before_first(elements, now, np.array([2.0, 1.0, 3.5, np.nan]))
        assert which.tolist() == [0, 1, 1, 2, 3]
        assert ages.tolist() == [2.0, 6.0, 2.0, 3.5, 4.0]  # of several, all; of one, its own word
        assert one.before_first(elements[3:], now[3:], np.array([np.nan]))[1].tolist() != [
            4.0
        ]  # they are used up


class Lying(LearningAtPlay):
    """A policy that is told the time of each poll for that of the last change."""

    def learn(self, outcomes: Outcomes) -> None:
        super().learn(replace(outcomes, modified=np.zeros(outcomes.times.size)))


def test_told_times_help_where_each_poll_sees_a_change_and_lies_cost_nothing() -> None:
    rates = 4.0 * np.random.default_rng(1).lognormal(-0.5, 1.0, 300)
    found = {}
    for name, told, kind in (
        ("blind", False, LearningAtPlay),
        ("told", True, LearningAtPlay),
        ("lied to", True, Lying),
    ):
        learning = kind(Learning(300, 300.0, steps=10, seed=1))
        world = World(rates, told=told)
        found[name] = simulate(world, 300.0, policies={"it": learning}, horizon=60.0, burn_in=20.0, seed=1)[
            "it"
        ].freshness
    best = simulate(World(rates), 300.0, policies=["optimal"], horizon=60.0, burn_in=20.0, seed=1)["optimal"]
    assert found["told"] > found["blind"] + 0.005
    assert found["told"] > best.freshness - 0.006
    assert found["lied to"] == pytest.approx(found["blind"], abs=1e-12)
