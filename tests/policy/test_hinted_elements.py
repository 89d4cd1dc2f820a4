"""What polls that follow hints tell: of elements, of the channel, and after another start."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from unstale.lab.histories import load
from unstale.lab.shootout import shootout
from unstale.policy import Learning
from unstale.policy.hint_channels import Channel
from unstale.simulation.noisy_hints import NoisyHints

COUNTED, BUSY, QUIET = 0, 1, 3
"""Columns of evidence: changes that are counted, polls that saw one, and quiet time."""


def told(hints, elapsed, changed, *, which=None):
    """Return a policy after a poll of each element at time 10, which followed so many hints."""
    learning = Learning(len(hints), budget=1.0)
    for element in range(len(hints)):
        learning.hint(element, time=0.5)  # so that it has a channel
    learning.policy.hinted.forget(np.arange(len(hints)))
    for element, many in enumerate(hints):
        for _ in range(many):
            learning.hint(element, time=5.0)
    which = list(range(len(hints))) if which is None else which
    learning.learn(which, np.array(elapsed)[which], np.array(changed)[which], time=np.full(len(which), 10.0))
    return learning


POLLS = st.tuples(st.integers(0, 40), st.sampled_from([0.0, 1e-9, 3.0, 9.0]), st.booleans())


@given(st.lists(POLLS, min_size=1, max_size=5))
def test_no_number_breaks(polls):
    hints, elapsed, changed = zip(*polls, strict=True)
    learning = told(hints, elapsed, changed)
    assert np.isfinite(learning.learner.evidence).all()
    assert (learning.learner.evidence >= 0.0).all()
    assert np.isfinite(learning.learner.prior.rate).all()
    (_, channel) = learning.policy.known.channels.channels
    assert 0.0 < channel.recall < 1.0
    assert 0.0 < channel.factor <= 1.0
    learning.hint(0, time=11.0)
    fresh = learning.policy.known.fresh(np.arange(len(hints)), 12.0)
    assert ((fresh >= 0.0) & (fresh <= 1.0)).all()


def test_what_a_poll_tells_of_its_element_does_not_depend_on_others_that_are_told_of_with_it():
    hints, elapsed, changed = [0, 2, 7, 1], [3.0, 3.0, 9.0, 9.0], [False, True, True, False]
    together = told(hints, elapsed, changed).learner.evidence
    for k in range(len(hints)):
        alone = told(hints, elapsed, changed, which=[k]).learner.evidence
        assert_allclose(together[k], alone[k], rtol=1e-5)


def test_hints_before_a_change_are_changes_as_far_as_the_channel_is_right():
    seen = told([8, 8, 0], [9.0, 9.0, 9.0], [True, False, True]).learner.evidence[:, -1]
    assert seen[0, COUNTED] == pytest.approx(4.0, rel=0.1)  # a new channel is believed half
    assert seen[0, QUIET] == pytest.approx(4.5, rel=0.1)
    assert (seen[1, COUNTED], seen[1, QUIET]) == (0.0, pytest.approx(9.0))  # all of them were false
    assert seen[2, COUNTED] + seen[2, BUSY] == pytest.approx(1.0)  # one that gave no hint


def test_elements_are_not_given_up_because_polls_follow_their_hints():
    learning = Learning(3, budget=3.0, seed=1)
    for day in range(1, 200):
        learning.hint(0, time=day - 0.01)
        learning.policy.polled(np.arange(3), np.full(3, float(day)))
        learning.learn([0, 1, 2], np.ones(3), [True, False, False], time=np.full(3, float(day)))
    _, _, hope = learning.learner.gammas(np.zeros(3), np.arange(3))
    assert (hope > 0.99).all()


@pytest.mark.parametrize(
    ("recall", "precision", "polls"), [(0.8, 0.6, 1.0), (0.6, 0.8, 0.25), (0.3, 1.0, 4.0)]
)
def test_reliability_is_learned_however_often_elements_are_polled(recall, precision, polls):
    rng, channel, law = np.random.default_rng(1), Channel(), (2.0, 0.5)
    for rate, elapsed in zip(rng.gamma(*law, 4000), rng.exponential(1.0 / polls, 4000), strict=True):
        hinted = rng.poisson(recall * rate * elapsed)
        false = rng.poisson(recall * rate * elapsed * (1.0 / precision - 1.0))
        changed = hinted + rng.poisson((1.0 - recall) * rate * elapsed) > 0
        channel.learn(int(hinted + false), law[0], elapsed * law[1], changed=bool(changed))
    assert channel.recall == pytest.approx(recall, abs=0.12)
    assert 1.0 - channel.factor == pytest.approx(precision, abs=0.1)


def test_polls_that_hints_do_not_need_go_to_who_has_waited_longest():
    """Prices that hints have raised do not hide others: nobody is polled twice while others wait."""
    count, rng = 100, np.random.default_rng(1)
    learning = Learning(count, budget=4.0 * count, seed=1)
    last, dirty, soonest = np.zeros(count), np.zeros(count, bool), np.inf
    for step in range(1, 600):
        now = step * learning.step
        polls = learning.polls(now)
        hints = np.array([learning.policy.hinted._hints(one).hints for one in polls.elements.tolist()])
        gap = polls.times - last[polls.elements]
        if step > 300:
            soonest = min(soonest, gap[hints == 0].min(initial=np.inf))
        learning.learn(polls.elements, gap, dirty[polls.elements], time=polls.times)
        last[polls.elements], dirty[polls.elements] = polls.times, False
        for element in np.flatnonzero(rng.random(count) < learning.step).tolist():
            dirty[element] = True
            if rng.random() < 0.8:
                learning.hint(element, time=now)
    assert soonest > 0.02


@pytest.mark.long
@pytest.mark.parametrize("hints", [NoisyHints(0.6, 0.8), NoisyHints(0.8, 0.6)])
def test_learning_with_hints_is_no_worse_than_the_learner_of_the_paper(hints):
    played = shootout(
        load(), seeds=2, objectives=["freshness"], rules=[], policies=["learning", "greedy-ncis"], hints=hints
    )
    for case in played.cases:
        ours, theirs = case["learning"].freshness, case["greedy-ncis"].freshness
        assert ours.value > theirs.value - 2.0 * np.hypot(ours.error, theirs.error)


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
