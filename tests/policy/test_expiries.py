"""Promises that elements stay as they are: what polls are worth then, and how far they are believed."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from unstale.policy import Channels, ElementTable, LearningPolicy, RateLimits
from unstale.policy.element_table import OK

DAY = 86400.0


def policy_of(count, *, stays=0.0, speed=None, rate=1.0):
    """Return a policy of elements whose sources promise that they stay for some days."""
    table = ElementTable()
    table.reserve(count, None)
    everyone = np.arange(count)
    table["id", :], table["state", :], table["last", :], table["weight", :] = everyone, OK, 0.0, 1.0
    table["stays", :] = stays * DAY
    policy = LearningPolicy(table, RateLimits(count * rate / DAY, None), channels=Channels())
    policy.rescaled()
    if speed is not None:
        policy.known.expiries.resume({"expiries": [[speed, 1e30]]})
    return policy, everyone


@given(st.floats(0.01, 1.0), st.floats(0.1, 20.0), st.floats(0.1, 40.0))
def test_the_worth_is_that_of_time_which_goes_by_slowly_at_first(speed, stays, since):
    policy, one = policy_of(1, stays=stays, speed=speed)
    shape, time, _ = (float(column[0]) for column in policy.table.learner.gammas(np.zeros(1), one))
    end = float(policy.table["stays"][0])

    def lost(t):
        passed = speed * min(t, end) + max(t - end, 0.0)
        return t * (speed if t < end else 1.0) * shape / time * (1.0 + passed / time) ** (-shape - 1.0)

    since *= DAY
    parts = sorted({0.0, min(end, since), since})
    expected = sum(quad(lost, a, b, limit=200)[0] for a, b in pairwise(parts))
    assert policy.known.worths(one, np.array([since]))[0] == pytest.approx(expected, rel=1e-6)


def test_a_promise_that_is_believed_keeps_a_copy_fresh_until_it_ends():
    policy, both = policy_of(2, speed=0.001)
    policy.table["stays", 0] = 3 * DAY
    fresh = policy.known.fresh(both, 3 * DAY)
    assert fresh[0] > 0.99
    assert fresh[1] < 0.9
    assert (
        policy.known.worths(both, np.full(2, 3 * DAY))[0]
        < 0.01 * policy.known.worths(both, np.full(2, 3 * DAY))[1]
    )


@pytest.mark.parametrize(("kept", "low", "high"), [(True, 0.0, 0.1), (False, 0.6, 1.0)])
def test_promises_are_believed_as_far_as_they_are_kept(kept, low, high):
    policy, everyone = policy_of(50)
    rng = np.random.default_rng(1)
    for number in range(1, 41):
        promised = rng.random(50) < 0.5
        policy.table["stays", :] = np.where(promised, 5 * DAY, 0.0)
        changed = (rng.random(50) < 0.6) & ~(promised & kept)
        policy.learn(everyone, np.full(50, DAY), changed, np.full(50, number * DAY))
    speed = float(policy.known.expiries.speeds(everyone)[0])
    assert low <= speed <= high
    state = policy.state()
    again, _ = policy_of(50)
    again.known.expiries.resume(state)
    assert again.known.expiries.speeds(everyone)[0] == pytest.approx(speed)
