"""Calibration: how right the learning policy is about how fresh its copies are.

The policy is played on a recorded history, in simulated time. At random moments it is asked how probably each
copy is fresh, and what share of all copies is, with a 90 % interval; the record knows which copies are. The
moments are drawn independently of the polls, so this is not how the policy did at its polls, but over time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats, scalar, whole
from unstale.policy import Learning
from unstale.policy.learning_policy import STEPS_PER_ROUND
from unstale.schedule import Polls
from unstale.simulation import LearningAtPlay, World, simulate
from unstale.simulation.outcome import error_of_mean
from unstale.simulation.policies import Outcomes

from .histories import Recorded

_BINS = 20
"""Of probabilities, for the expected calibration error."""
_MOST_STEPS = 25_000
"""Steps of the policy in all, unless others are asked for; what polls saw counts from the next one on."""


@dataclass(frozen=True)
class Calibration:
    """How right a policy was about itself. Shares are from 0 to 1, means over moments."""

    elements: int
    polls_per_change: float
    predicted: float
    """Share of fresh copies, as the policy said."""
    uncorrected: float
    """The same without what polls of the class have corrected, by the laws of elements alone."""
    true: float
    error: float
    """Standard error of the difference: how much it may differ by chance in so short a record."""
    expected_calibration_error: float
    """Mean distance between the probabilities said and the shares that were fresh, by bins of a twentieth."""
    coverage: float
    """Share of moments at which the 90 % interval had the true share in it."""
    width: float
    """Mean width of the intervals."""
    independent_coverage: float
    """Coverage of intervals that allow for chance alone, as if elements changed independently."""
    freshness: float
    """Mean over time, of the part that is measured."""
    uniform: float
    """The same with as many polls, of all elements alike."""

    @property
    def bias(self) -> float:
        """By how much the policy said too much."""
        return self.predicted - self.true


def calibration(
    recorded: Recorded,
    polls_per_change: float = 1.0,
    *,
    seed: int = 1,
    moments: int = 300,
    skip: float = 1.0 / 3.0,
    told: bool = False,
    objective: str = "freshness",
    steps: int = _MOST_STEPS,
) -> Calibration:
    """Play the learning policy on a history, and compare what it says with what is.

    Parameters
    ----------
    recorded
        The history; it is played from the moment on at which half of its elements exist.
    polls_per_change
        The budget.
    seed
        Of the order of elements, of the policy and of the moments.
    moments
        At which the policy is asked.
    skip
        The share of the time that comes before all of them.
    told
        Whether polls also learn when the last change was.
    objective
        What the policy polls for.
    steps
        In how many steps it takes in what polls saw, at most: fewer are less work.

    Examples
    --------
    >>> from unstale.lab.histories import load
    >>> found = calibration(some_elements(load(), 6), 1.0, moments=40)
    >>> abs(found.bias) < 0.1
    True
    """
    whole("moments", moments, at_least=2)
    whole("steps", steps, at_least=1)
    there = recorded.since(float(np.quantile(recorded.born, 0.5, method="higher")))
    count, burn = len(there), scalar("skip", skip, at_least=0, below=1) * there.end
    places = np.argsort(np.random.default_rng(seed).permutation(count))
    world = World.recorded(places[there.elements], there.times, end=there.end, count=count, told=told)
    budget = scalar("polls_per_change", polls_per_change, above=0) * there.rate
    of_round = min(steps * count / (budget * there.end), STEPS_PER_ROUND)
    learning = Learning(count, budget, objective=objective, steps=of_round, seed=seed)
    asked = np.sort(np.random.default_rng([seed, 1]).uniform(burn, there.end, moments))
    watched = _Watched(learning, world, asked)
    result = simulate(
        world, budget, policies={"uniform": "uniform", "learning": watched}, burn_in=burn, seed=seed
    )
    fresh, probability = np.array(watched.true), np.array(watched.probability)
    shares, true = np.array(watched.shares), fresh.mean(axis=1)
    inside = (shares[:, 1] <= true + 1e-12) & (true <= shares[:, 2] + 1e-12)
    chance = 1.645 * np.sqrt(np.sum(probability * (1.0 - probability), axis=1)) / count
    return Calibration(
        elements=count,
        polls_per_change=polls_per_change,
        predicted=float(shares[:, 0].mean()),
        uncorrected=float(np.mean(watched.uncorrected)),
        true=float(true.mean()),
        error=error_of_mean(shares[:, 0] - true),
        expected_calibration_error=_expected_error(probability, fresh),
        coverage=float(inside.mean()),
        width=float(np.mean(shares[:, 2] - shares[:, 1])),
        independent_coverage=float(np.mean(np.abs(shares[:, 0] - true) <= chance)),
        freshness=result["learning"].freshness,
        uniform=result["uniform"].freshness,
    )


def some_elements(recorded: Recorded, most: int, seed: int = 1) -> Recorded:
    """Return the history of so many elements at most, drawn at random from those that exist half-way.

    >>> from unstale.lab.histories import load
    >>> len(some_elements(load(), 20))
    20
    """
    there = recorded.since(float(np.quantile(recorded.born, 0.5, method="higher")))
    if len(there) <= most:
        return there
    chosen = np.sort(np.random.default_rng(seed).choice(len(there), most, replace=False))
    places = np.full(len(there), -1)
    places[chosen] = np.arange(most)
    kept = places[there.elements] >= 0
    return replace(
        there,
        keys=[there.keys[place] for place in chosen.tolist()],
        elements=places[there.elements[kept]],
        times=there.times[kept],
        born=there.born[chosen],
    )


def _expected_error(probability: Floats, fresh: NDArray[np.bool_]) -> float:
    bins = np.minimum((probability * _BINS).astype(np.intp), _BINS - 1).ravel()
    excess = np.bincount(bins, (probability - fresh).ravel(), _BINS)
    return float(np.abs(excess).sum() / bins.size)


class _Watched:
    """The policy at play, asked at moments how fresh its copies are, beside what they are."""

    def __init__(self, learning: Learning, world: World, moments: Floats) -> None:
        self._learning, self._played = learning, LearningAtPlay(learning)
        self._moments, self._now = moments.tolist(), 0.0
        history = world.changes(0).until(world.end)
        self._offsets, self._times = history.offsets, np.append(history.times, np.inf)
        self._span = 2.0 * world.end
        owner = np.repeat(np.arange(len(world)), np.diff(history.offsets))
        self._keys = owner * self._span + history.times
        self.probability: list[Floats] = []
        self.uncorrected: list[float] = []
        self.true: list[NDArray[np.bool_]] = []
        self.shares: list[tuple[float, float, float]] = []

    @property
    def step(self) -> float:
        return self._played.step

    def polls(self, end: float) -> Polls:
        while self._moments and self._moments[0] <= self._now:
            self._moments.pop(0)
            self._ask()
        self._now = end
        return self._played.polls(end)

    def learn(self, outcomes: Outcomes) -> None:
        self._played.learn(outcomes)

    def _ask(self) -> None:
        """Compare at the present moment, by which the policy has learned of all its polls."""
        policy, every = self._learning.policy, np.arange(len(self._learning))
        share = policy.known.share(every, np.ones(every.size), self._now)
        last = np.maximum(policy.table["last"], 0.0)
        after = np.searchsorted(self._keys, every * self._span + last, side="right")
        change = np.where(after < self._offsets[1:], self._times[after], np.inf)
        self.probability.append(policy.known.fresh(every, self._now))
        self.uncorrected.append(float(policy.known.fresh(every, self._now, corrected=False).mean()))
        self.true.append(change > self._now)
        self.shares.append((share.value, share.low, share.high))
