"""Rhythms are found from what polls saw, only where there are any, and go with what was forgotten."""

import numpy as np
import pytest

from unstale.errors import InvalidInput
from unstale.estimation.learning.compiled.rhythm import BINS, _cover, _unfold
from unstale.estimation.learning.rhythm_learner import PollsOfElements, RhythmLearner

HOUR = np.arange(24)
OFFICE = np.where((HOUR >= 9) & (HOUR < 17), 2.5, 0.25)
WEEK = np.concatenate([OFFICE] * 5 + [0.05 * OFFICE] * 2)


def changes_by(levels, rate, days, rng):
    """Draw changes in days, with these levels by the hour of the day or of the week."""
    relative = np.asarray(levels, float) / np.mean(levels)
    period = relative.size / 24
    passed = np.concatenate([[0.0], np.cumsum(relative)]) / relative.size
    y = np.sort(rng.uniform(0.0, days, rng.poisson(rate * days))) / period
    return period * (np.floor(y) + np.interp(y % 1.0, passed, np.arange(relative.size + 1) / relative.size))


def taught(learner, levels, *, told, days=28, elements=60, start=0.0, seed=1):
    """Let a learner see polls of elements, about one for each change, a quarter of a day at a time."""
    rng = np.random.default_rng(seed)
    rows = []
    for rate in rng.gamma(2.0, 0.5, elements):
        changes = changes_by(levels, rate, days, rng)
        polls = np.cumsum(rng.uniform(0.5, 1.5, 2 * days))
        polls = polls[polls < days]
        latest = np.searchsorted(changes, polls)
        changed = np.diff(latest, prepend=0) > 0
        age = np.where(changed, polls - np.append(changes, 0.0)[np.maximum(latest - 1, 0)], np.nan)
        last = np.concatenate([[0.0], polls[:-1]])
        rows.append(np.stack([last, polls, changed, np.full(polls.size, rate), age]))
    table = np.concatenate(rows, axis=1)
    table = table[:, np.argsort(table[1])]
    for low in np.arange(0.0, days, 0.25):
        last, time, changed, rate, age = table[:, (table[1] >= low) & (table[1] < low + 0.25)]
        shape = np.full(time.size, 10.0)
        learner.learn(
            PollsOfElements(
                np.zeros(time.size, np.intp),
                start + last,
                start + time,
                changed > 0,
                shape,
                shape / rate,
                np.ones(time.size),
                age if told else np.empty(0),
            )
        )
    return learner


def test_exposure_is_exact_however_long_the_interval():
    rng = np.random.default_rng(3)
    for _ in range(50):
        start = rng.uniform(0.0, 400.0)
        end = start + rng.choice([0.3, 5.0, 100.0, 500.0]) * rng.random()
        part, whole = np.zeros(BINS), np.zeros(2 * BINS + 1)
        _cover(part, whole, 1.0, 2.0, start, end)
        edges = np.unique(np.concatenate([[start, end], np.arange(np.ceil(start), np.ceil(end))]))
        middles = np.floor(0.5 * (edges[1:] + edges[:-1])).astype(int) % BINS
        expected = np.bincount(middles, 2.0 * np.diff(edges), BINS)
        np.testing.assert_allclose(_unfold(part, whole, 1.0), expected, atol=1e-9)


@pytest.mark.parametrize(("levels", "bins"), [(OFFICE, 24), (WEEK, 168)])
def test_told_times_show_the_rhythm(levels, bins):
    learner = taught(RhythmLearner(day=1.0), levels, told=True)
    assert learner.bins.tolist() == [bins]
    assert np.corrcoef(learner.levels[0], np.resize(levels, BINS))[0, 1] > 0.9
    assert learner.levels[0].mean() == pytest.approx(1.0)
    assert learner.passed[0, -1] == pytest.approx(7.0)


def test_polls_alone_show_it_too():
    learner = taught(RhythmLearner(day=1.0), WEEK, told=False, elements=120)
    assert learner.bins.tolist() == [168]
    assert np.corrcoef(learner.levels[0], WEEK)[0, 1] > 0.6


@pytest.mark.parametrize("told", [False, True])
def test_there_is_none_where_there_is_none(told):
    learner = taught(RhythmLearner(day=1.0), np.ones(24), told=told)
    assert not learner.any
    assert (learner.levels == 1.0).all()


@pytest.mark.parametrize("day", [86400.0, 10.0])
def test_a_rhythm_is_seen_whole_once_before_it_counts(day):
    learner = RhythmLearner(day=day)
    rng = np.random.default_rng(2)
    for second in range(8):  # rates are just being learned: changes come ten times as often as was thought
        time = second + np.sort(rng.random(50))
        ones = np.ones(50)
        learner.learn(
            PollsOfElements(
                np.zeros(50, np.intp), time - 1.0, time, rng.random(50) < 0.8,
                ones, 7.0 * ones, ones, np.empty(0),
            )
        )  # fmt: skip
    assert learner.bins.tolist() == [0]
    assert learner.advantage(0) == pytest.approx(0.0, abs=1e-9)


def test_a_moved_job_is_followed():
    learner = taught(RhythmLearner(day=1.0), OFFICE, told=True)
    taught(learner, np.roll(OFFICE, 10), told=True, start=28.0, seed=2)
    assert learner.bins.tolist() == [24]
    assert np.corrcoef(learner.levels[0, :24], np.roll(OFFICE, 10))[0, 1] > 0.9


def test_a_rhythm_that_ends_is_given_up():
    learner = taught(RhythmLearner(day=1.0), OFFICE, told=True, days=14)
    assert learner.any
    taught(learner, np.ones(24), told=True, start=14.0, seed=2, days=84)
    assert not learner.any or learner.levels[0].std() < 0.15


def test_the_unit_of_time_does_not_matter():
    one = taught(RhythmLearner(day=1.0), OFFICE, told=True, days=7)
    assert one.hour == pytest.approx(1.0 / 24.0)
    again = RhythmLearner.resume(one.state())
    np.testing.assert_array_equal(again.levels, one.levels)
    np.testing.assert_array_equal(again.bins, one.bins)


def test_a_state_of_something_else_is_refused():
    with pytest.raises(InvalidInput, match="it has no 'hour'"):
        RhythmLearner.resume({})
    wrong = {**RhythmLearner(day=1.0).state(), "counts": np.zeros(3)}
    with pytest.raises(InvalidInput, match="'counts' has shape"):
        RhythmLearner.resume(wrong)


@pytest.mark.parametrize(
    ("gap", "changed", "told", "stuck"),
    [
        (1.0, True, False, True),
        (1.0, True, True, False),
        (1.0, False, False, False),
        (0.4, True, False, False),
    ],
)
def test_polls_that_say_nothing_of_the_hours_are_noticed(gap, changed, told, stuck):
    learner = RhythmLearner(day=1.0)
    gaps = gap * np.array([1.0, 1.02, 0.98, 1.5 if gap < 1.0 else 2.0] * 10)
    time = np.cumsum(gaps)
    learner.learn(
        PollsOfElements(
            np.zeros(40, np.intp), time - gaps, time, np.full(40, changed), np.ones(40), np.ones(40),
            np.ones(40), np.full(40, 0.1) if told else np.empty(0),
        )
    )  # fmt: skip
    assert learner.stuck.tolist() == [stuck]
