"""Mass edits and bursts: whoever learns loses nothing by them, and what is typical does not run off."""

import numpy as np
import pytest

from unstale import Learning, World, simulate
from unstale.simulation import LearningAtPlay

COUNT, DAYS = 40, 60.0


def mass_edits(rng):
    """Draw changes of which most come of edits of 70 % of the elements at once."""
    moments = rng.uniform(0.0, DAYS, 20)
    which, touched = np.nonzero(rng.random((moments.size, COUNT)) < 0.7)
    alone = np.repeat(np.arange(COUNT), rng.poisson(0.1 * DAYS * rng.gamma(1.0, 1.0, COUNT)))
    elements = np.concatenate([touched, alone])
    return elements, np.concatenate([moments[which], rng.uniform(0.0, DAYS, alone.size)])


def bursts(rng):
    """Draw changes that come ten at a time, within an hour or so of each other."""
    first = np.repeat(np.arange(COUNT), rng.poisson(0.05 * DAYS * rng.gamma(1.0, 1.0, COUNT)))
    elements = np.repeat(first, 10)
    times = np.repeat(rng.uniform(0.0, DAYS, first.size), 10) + rng.exponential(0.05, elements.size)
    return elements[times < DAYS], times[times < DAYS]


def every_poll(rng):
    """Draw changes so fast that nearly every poll sees one."""
    elements = np.repeat(np.arange(COUNT), rng.poisson(8.0 * DAYS * rng.gamma(4.0, 0.25, COUNT)))
    return elements, rng.uniform(0.0, DAYS, elements.size)


@pytest.mark.parametrize(("changes", "polls"), [(mass_edits, 0.4), (bursts, 0.4), (every_poll, 1.0)])
def test_nothing_is_lost_where_elements_change_together_or_in_bursts_or_all_the_time(changes, polls):
    elements, times = changes(np.random.default_rng(1))
    order = np.lexsort((times, elements))
    world = World.recorded(elements[order], times[order], end=DAYS, count=COUNT)
    budget = polls * COUNT
    learning, without = (Learning(COUNT, budget, steps=10, seed=1) for _ in range(2))
    without.learner.may_follow = False
    policies = {
        "uniform": "uniform", "learning": LearningAtPlay(learning), "without": LearningAtPlay(without)
    }  # fmt: skip
    played = simulate(world, budget, policies=policies, burn_in=DAYS / 3.0, seed=1)
    for other in ("uniform", "without"):
        lead, error = played.ahead("learning", other)
        assert lead > -2.0 * error - 0.005
    mean = float(learning.learner.prior.rate[0]) * learning.learner.round
    assert mean < 3.0 * max(elements.size / COUNT / DAYS * learning.learner.round, 1.0)
