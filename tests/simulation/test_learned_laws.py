"""Changes that are not Poisson: the policy that learns is as fresh as a plan that is told their law."""

import numpy as np
import pytest

from unstale import Pareto, Weibull, plan, simulate
from unstale.simulation import World

COUNT, END, WARM = 200, 60.0, 24.0
LAWS = {
    "pareto": lambda rates: Pareto(1.5, 0.5 / rates),
    "weibull": lambda rates: Weibull(0.5, 0.5 / rates),
}


def changes_of(law, rng):
    """Return the changes of each element, from a random moment on."""
    found = []
    for i in range(COUNT):
        one = law.element((i,))
        times = [float(one.sample_residual(rng))]
        while times[-1] < END:
            times.append(times[-1] + float(one.sample(rng)))
        found.append(np.array(times[:-1]))
    return found


def freshness_of(changes, frequencies):
    """Return how fresh copies are that are polled at these frequencies, with any phase."""
    at = np.linspace(WARM, END, 600, endpoint=False)
    found = np.zeros(COUNT)
    for i in np.flatnonzero(frequencies > 1.0 / WARM).tolist():
        for phase in (0.1, 0.3, 0.5, 0.7, 0.9):
            polls = np.arange(phase, END * frequencies[i]) / frequencies[i]
            last = polls[np.searchsorted(polls, at, "right") - 1]
            same = np.searchsorted(changes[i], at) == np.searchsorted(changes[i], last)
            found[i] += 0.2 * same.mean()
    return float(found.mean())


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", LAWS)
def test_a_mirror_need_not_be_told_the_law(name, seed):
    rng = np.random.default_rng(seed)
    rates = rng.gamma(1.0, 1.0, COUNT) + 0.02
    law = LAWS[name](rates)
    changes = changes_of(law, rng)
    elements = np.repeat(np.arange(COUNT), [own.size for own in changes])
    times = np.concatenate(changes)
    order = np.argsort(times)
    world = World.recorded(elements[order], times[order], end=END, count=COUNT)
    for polls_per_change in (0.25, 1.0, 4.0):
        budget = polls_per_change * float(rates.sum())
        told = freshness_of(changes, plan(law, budget).frequencies)
        learned = simulate(world, budget, policies=["learning"], horizon=END, seed=seed, burn_in=WARM)
        assert learned["learning"].freshness > told - 0.01
