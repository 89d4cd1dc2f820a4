"""What is said of a class is corrected by what polls of it saw, as far as that is no chance."""

from math import log

import numpy as np
import pytest

from unstale.estimation.learning.compiled.recalibration import _in_between
from unstale.estimation.learning.recalibration import Laws, Recalibration

COUNT = 60
EVERY, NO, YES = np.zeros(COUNT, np.intp), np.zeros(COUNT, np.bool_), np.ones(COUNT, np.bool_)
SURE = Laws(np.full(COUNT, 50.0), np.full(COUNT, 50.0), np.ones(COUNT))
"""One change in a time of 1, and no doubt about it."""
ONCE = np.ones(COUNT)


def heard(
    seen, rounds: int = 60, laws: Laws = SURE, *, stirred=NO, spans=(ONCE, ONCE), quiet=lambda _: None
) -> Recalibration:
    """Take in so many rounds of polls.

    By the number of the round, `seen` says which saw a change, and `quiet` for how long there had been none.
    """
    found = Recalibration()
    for k in range(rounds):
        moments, changed = k + np.arange(COUNT) / COUNT, seen(k)
        found.learn(1.0, EVERY, moments, spans, laws, stirred, YES, changed, quiet(k))
    return found


def factor(found: Recalibration, laws: Laws = SURE, stirred=NO) -> np.ndarray:
    return found.factors(1.0, EVERY, laws.shape, laws.time, stirred)


@pytest.mark.parametrize("share", [0.35, 0.45, 0.632, 0.8])
def test_a_class_that_changes_more_or_less_than_said_is_corrected(share: float) -> None:
    rng = np.random.default_rng(3)
    found = factor(heard(lambda _: rng.random(COUNT) < share))
    assert found == pytest.approx(-log(1.0 - share), rel=0.25)


def test_nothing_heard_is_nothing_corrected() -> None:
    assert factor(Recalibration()).tolist() == [1.0] * COUNT


def test_fast_and_slow_elements_are_corrected_each_by_itself() -> None:
    """Slow ones never change, and fast ones do as said: as where half of the files of a source have ended."""
    rng, fast = np.random.default_rng(5), np.arange(COUNT) % 2 == 0
    rate = np.where(fast, 3.0, 0.3)
    laws = Laws(np.full(COUNT, 20.0), 20.0 / rate, np.ones(COUNT))
    spans = 1.0 / rate, 1.0 / rate
    found = factor(heard(lambda _: fast & (rng.random(COUNT) < 0.632), laws=laws, spans=spans), laws)
    assert found[0] == pytest.approx(1.0, abs=0.25)
    assert found[1] < 0.25


def test_after_a_change_more_is_expected_if_that_is_so() -> None:
    rng, stirred = np.random.default_rng(7), np.arange(COUNT) % 2 == 0
    found = factor(
        heard(lambda _: rng.random(COUNT) < np.where(stirred, 0.8, 0.45), stirred=stirred), SURE, stirred
    )
    assert found[0] == pytest.approx(-log(0.2), rel=0.15)
    assert found[1] == pytest.approx(-log(0.55), rel=0.15)


def test_one_cause_of_many_outcomes_counts_once() -> None:
    """All polls of a round see the same: ten rounds are ten outcomes and not six hundred."""
    together = factor(heard(lambda k: np.full(COUNT, k % 5 != 0), rounds=10))
    rng = np.random.default_rng(1)
    apart = factor(heard(lambda _: rng.random(COUNT) < 0.8, rounds=10))
    assert abs(log(together[0])) < 0.5 * log(apart[0])


def test_told_polls_say_how_fresh_copies_are_between_two_polls() -> None:
    """What changes by the clock is fresh for half of each interval, and never at its end."""
    rng, ages = np.random.default_rng(9), np.linspace(0.0, 1.0, 1001)

    def said(factor: float) -> float:
        return float(np.trapezoid(np.exp(-factor * 50.0 * np.log1p(ages / 50.0)), ages))

    told = factor(heard(lambda _: YES, quiet=lambda _: rng.random(COUNT)))[0]
    blind = factor(heard(lambda _: YES))[0]
    assert said(told) == pytest.approx(0.5, abs=0.02)
    assert said(blind) < 0.35
    # bursts: three of ten change right after a poll, and nothing does later
    stale = [rng.random(COUNT) < 0.3 for _ in range(60)]
    told = factor(heard(stale.__getitem__, quiet=lambda k: np.where(stale[k], 1e-9, np.inf)))[0]
    blind = factor(heard(stale.__getitem__))[0]
    assert said(told) == pytest.approx(0.7, abs=0.02)
    assert said(blind) > 0.8


def test_a_told_poll_counts_once() -> None:
    """What is known of all moments before a poll is no more than one outcome as far as chance goes."""
    rng = np.random.default_rng(1)
    stale = [rng.random(COUNT) < 0.632 for _ in range(10)]
    told = heard(stale.__getitem__, rounds=10, quiet=lambda k: np.where(stale[k], rng.random(COUNT), np.inf))
    blind = heard(stale.__getitem__, rounds=10)
    unknown = [float(one.unknown(1)[0]) for one in (told, blind)]
    assert 0.5 < unknown[0] / unknown[1] < 2.0


def test_polls_that_say_nothing_are_not_heard() -> None:
    found = Recalibration()
    for k in range(20):
        found.learn(1.0, EVERY, np.full(COUNT, float(k)), (ONCE, ONCE), SURE, NO, NO, YES)
        found.learn(1.0, EVERY, np.full(COUNT, float(k)), (0 * ONCE, 0 * ONCE), SURE, NO, YES, YES)
    assert factor(found).tolist() == [1.0] * COUNT


@pytest.mark.parametrize("shape", [0.3, 0.99, 1.0, 1.2, 5.0])
@pytest.mark.parametrize("passed", [0.02, 0.7, 4.0])
def test_a_poll_counts_for_the_moments_before_it(shape: float, passed: float) -> None:
    ages = np.linspace(0.0, passed, 20_001)
    hazard = shape * np.log1p(ages)
    values = hazard * np.exp(-hazard)
    exact = float(np.trapezoid(values, ages)) / passed / values[-1]
    fresh = float(np.exp(-hazard[-1]))
    assert _in_between.py_func(shape, passed, float(np.log1p(passed)), fresh) == pytest.approx(
        exact, rel=1e-4
    )


def test_it_goes_on_from_its_state_and_a_class_that_is_split_off_begins_with_it() -> None:
    found = heard(lambda k: np.arange(COUNT) % 3 != k % 3)
    again = Recalibration()
    again.resume(found.state())
    again.split(2, 0)
    other = again.factors(1.0, EVERY + 2, SURE.shape, SURE.time, NO)
    assert other.tolist() == factor(again).tolist() == factor(found).tolist()
    again.resume({})
    assert factor(again).tolist() == [1.0] * COUNT


def test_another_round_changes_nothing() -> None:
    rng, fast = np.random.default_rng(5), np.arange(COUNT) % 2 == 0
    laws = Laws(np.full(COUNT, 20.0), 20.0 / np.where(fast, 2.0, 0.5), np.ones(COUNT))
    found = heard(lambda _: fast & (rng.random(COUNT) < 0.7), laws=laws)
    before = factor(found, laws)
    found.rescale(1.5)
    assert found.factors(1.5, EVERY, laws.shape, laws.time, NO) == pytest.approx(before)


def test_what_is_not_known_of_corrections_shrinks_with_polls() -> None:
    slopes = np.full(COUNT, 0.3)
    few, many = (heard(lambda k: np.arange(COUNT) % 3 != k % 3, rounds=k) for k in (2, 40))
    doubts = [found.variance(1.0, EVERY, SURE, NO, slopes) for found in (few, many)]
    assert doubts[0] > 4.0 * doubts[1]
    assert doubts[1] > (0.07 * slopes.sum()) ** 2  # what happens between polls no poll tells
