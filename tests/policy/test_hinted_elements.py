"""What polls that follow hints tell: each by itself, with finite numbers, and after another start."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from unstale.policy import Learning


def hinted(moments):
    """Return the hinted elements of a policy with a hint about each element at its moment; nan: none."""
    learning = Learning(len(moments), budget=1.0)
    for element in range(len(moments)):
        learning.hint(element, time=0.5)  # so that it has a channel
    policy = learning.policy
    policy.hinted.forget(np.arange(len(moments)))
    for element, moment in enumerate(moments):
        if np.isfinite(moment):
            learning.hint(element, time=moment)
    return policy.hinted


def left_of(moments, elapsed, changed, *, which=slice(None)):
    """Return what is left to be learned of polls at time 10, by time and by level."""
    places, gone = np.arange(len(moments))[which], np.array(elapsed)[which]
    time, levels = np.full(places.size, 10.0), (2.0 * gone, None)
    rest, ages, by_level = hinted(moments).learn_before(
        places, time, gone, np.array(changed)[which], np.full(places.size, np.nan), levels
    )
    lived, told = by_level
    return rest, ages, lived, np.full(places.size, np.nan) if told is None else told


POLLS = st.tuples(
    st.one_of(st.just(np.nan), st.floats(1.0, 9.0)), st.sampled_from([0.0, 1e-9, 3.0, 9.0]), st.booleans()
)


@given(st.lists(POLLS, min_size=1, max_size=5))
def test_what_a_poll_tells_does_not_depend_on_others_that_are_told_of_with_it(polls):
    moments, elapsed, changed = zip(*polls, strict=True)
    together = left_of(moments, elapsed, changed)
    for k in range(len(polls)):
        alone = left_of(moments, elapsed, changed, which=slice(k, k + 1))
        for one, many in zip(alone, together, strict=True):
            assert_allclose(many[k], one[0])


@given(st.lists(POLLS, min_size=1, max_size=5))
def test_no_time_is_lost_and_no_number_breaks(polls):
    moments, elapsed, changed = zip(*polls, strict=True)
    rest, ages, lived, told = left_of(moments, elapsed, changed)
    assert np.isfinite(rest).all()
    assert (rest <= np.array(elapsed)).all()
    assert_allclose(lived, 2.0 * rest)
    assert_allclose(told, 2.0 * ages)  # one level for all: by it, time runs twice as fast


def test_a_change_after_a_hint_came_with_it():
    rest, ages, *_ = left_of([7.0, np.nan, 7.0], [9.0, 9.0, 9.0], [True, True, False])
    assert (rest[0], ages[0]) == (pytest.approx(3.0), pytest.approx(3.0))
    assert 0.0 < rest[1] < 9.0  # one of those that give no hint
    assert np.isnan(ages[1])
    assert rest[2] == pytest.approx(9.0)


def test_it_goes_on_after_another_start_with_polls_under_way_that_followed_hints():
    learning = Learning(3, budget=3.0, seed=1)
    for day in range(1, 6):
        learning.polls(float(day))
        learning.hint(day % 3, time=day + 0.0)
    polls = learning.polls(8.0)
    again = Learning.resume(learning.state())
    for one in (learning, again):
        one.learn(polls.elements, np.ones(len(polls)), np.ones(len(polls), bool), time=polls.times)
    assert_allclose(again.learner.evidence, learning.learner.evidence)
    assert again.polls(12.0).elements.tolist() == learning.polls(12.0).elements.tolist()
