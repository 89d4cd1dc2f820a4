"""One world, played through the simulator and through the real mirror: the same polls.

The mirror chooses polls once in a tick, and hears at the next tick what they saw; the simulation takes a step
of the same length. So nothing is left for ticks to explain but the last digits of the moments: a mirror
counts seconds since 1970, of which a float keeps less than a microsecond.
"""

import numpy as np
import pytest

from unstale import World, simulate
from unstale.mirror.engine.load_policy import load_policy
from unstale.mirror.settings import GroupLimit
from unstale.simulation import Played
from unstale.simulation.policies import Outcomes

from .worlds import DAY, START, add, make, run

TICK = 1800.0
MICROSECOND = 1e-6 / DAY


class Noted:
    """A policy whose polls are noted."""

    def __init__(self, policy: Played) -> None:
        self._policy, self.polled = policy, []

    @property
    def step(self) -> float:
        return self._policy.step

    def polls(self, end):
        polls = self._policy.polls(end)
        self.polled += zip(polls.times.tolist(), polls.elements.tolist(), strict=True)
        return polls

    def learn(self, outcomes: Outcomes) -> None:
        self._policy.learn(outcomes)


def changes_of(rates: np.ndarray, days: float, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [np.sort(rng.uniform(0.0, days, rng.poisson(rate * days))) for rate in rates]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"objective": "age"},
        {"groups": "spaced"},
        {"reserve": DAY},
    ],
)
def test_the_mirror_polls_what_the_simulation_polls(tmp_path, settings):
    rng = np.random.default_rng(5)
    count, days, budget = 40, 5.0, 60.0
    rates = rng.gamma(1.0, 1.5, count)
    weights = rng.uniform(0.5, 3.0, count)
    changes = changes_of(rates, days, 6)
    if settings.get("groups") == "spaced":
        settings = {"groups": (GroupLimit("group:g0", spacing=3600.0), GroupLimit("*", concurrency=1000))}
    content = {
        f"python:g{i % 4}/{i}": lambda now, i=i: str(
            np.searchsorted(changes[i], (now - START) / DAY)
        ).encode()
        for i in range(count)
    }
    mirror, world = make(tmp_path, tick=TICK, content=content, budget=budget / DAY, **settings)
    with mirror:
        for i in range(count):
            add(mirror, f"g{i % 4}/{i}", weight=float(weights[i]))
        with mirror.store.begin() as t:
            policy, _ = load_policy(mirror.settings, t)
        run(mirror, days * DAY)
    real = [((time - START) / DAY, int(key.split("/")[1])) for time, key in world.polls]

    played = Noted(Played(policy, TICK / DAY, start=START, unit=DAY))
    elements = np.repeat(np.arange(count), [times.size for times in changes])
    recorded = World.recorded(elements, np.concatenate(changes), end=days, count=count, weights=weights)
    outcome = simulate(recorded, budget, policies={"policy": played}, horizon=days, batches=2)["policy"]

    assert [element for _, element in real] == [element for _, element in played.polled]
    assert [time for time, _ in real] == pytest.approx([time for time, _ in played.polled], abs=MICROSECOND)
    assert len(real) > 0.95 * budget * days
    assert 0.0 < outcome.freshness < 1.0
