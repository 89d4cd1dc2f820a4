"""A part of a shoot-out: the policies of one case, with one seed, in one world.

Phases of polls follow the order of the elements, and records are often sorted, by name or by how much
elements change; so each seed shuffles them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats
from unstale.objectives import objective_named
from unstale.planning import plan
from unstale.policy import Learning
from unstale.processes import Empirical
from unstale.schedule import Polls, Schedule
from unstale.simulation import LearningAtPlay, Outcome, World, simulate
from unstale.simulation.noisy_hints import NoisyHints
from unstale.simulation.outcome import error_of_mean
from unstale.simulation.policies import Outcomes, Policy, estimated_optimal, estimated_proportional
from unstale.simulation.policy_lookup import PAPERS, of_paper

from .histories import Recorded
from .mirror_at_play import Replayed, mirror_polls

Goal = Literal["freshness", "age"]
BY_THE_CLOCK = "learning-by-the-clock"
"""The policy for real work as a mirror runs it: it may save a day of its budget, and learns rhythms."""
_DAY = 1.0
"""The unit of time of a history."""
_STEPS_PER_POLL, MOST_STEPS = 50.0, 50_000
"""Steps of learning in the time of one poll per element, and in all; fewer are less work, and what polls saw
counts a little later."""
MOST_POLLS = 2e7
"""Polls up to which estimated-optimal, which remembers them all, is played."""


@dataclass(frozen=True, eq=False)
class Stage:
    """What all cases have in common."""

    recorded: Recorded
    weights: Floats | None
    burn_in: float
    """How much of the beginning is not measured."""
    told: bool = False
    """Whether polls learn when the last change was."""
    hints: NoisyHints | None = None
    """How reliable hints of changes are; None: there are none."""
    steps: int = MOST_STEPS
    """Steps of learning, at most."""

    @property
    def measured(self) -> float:
        """How long it is measured."""
        return self.recorded.end - self.burn_in

    def shuffled(self, seed: int) -> tuple[World, NDArray[np.int64]]:
        """Return the world with its elements in another order, and the element that is at each place."""
        order = np.random.default_rng(seed).permutation(len(self.recorded))
        places = np.argsort(order)
        world = World.recorded(
            places[self.recorded.elements],
            self.recorded.times,
            end=self.recorded.end,
            count=order.size,
            weights=None if self.weights is None else self.weights[order],
            told=self.told,
            hints=self.hints,
        )
        return world, order


@dataclass(frozen=True)
class Pace:
    """Polls per day, all elements together."""

    early: float
    """Before measuring begins, for those who learn."""
    polls: float
    """From then on."""


Mean = tuple[float, float]
"""A mean over time and its standard error."""
Played = dict[str, tuple[float, dict[str, Mean], dict[str, Mean]]]
"""For each policy: polls per day, measures, and leads."""


def pace_of(stage: Stage, rule: str, seed: int) -> tuple[float, float]:
    """Polls per day of a rule that polls as much as it likes, before measuring begins and from then on."""
    world, _ = stage.shuffled(seed)
    measured = simulate(world, 0.0, policies=[rule], burn_in=stage.burn_in, seed=seed)[rule].polls
    if not stage.burn_in:
        return 0.0, measured / stage.measured
    every = simulate(world, 0.0, policies=[rule], burn_in=0.0, seed=seed)[rule].polls
    return (every - measured) / stage.burn_in, measured / stage.measured


def law_frequencies(stage: Stage, goal: Goal, budget: float) -> Floats:
    """The best frequencies for the very gaps that each element has, if they came in any order."""
    recorded = stage.recorded
    ends = np.cumsum(np.bincount(recorded.elements, minlength=len(recorded)))[:-1]
    moments = np.split(recorded.times, ends)
    changing = np.array([place for place, one in enumerate(moments) if one.size])
    laws = [Empirical(np.diff(one, append=one[0] + recorded.end)) for one in moments if one.size]  # a circle
    weights = None if stage.weights is None else stage.weights[changing]
    frequencies = np.zeros(len(recorded))
    frequencies[changing] = plan(laws, budget, weights=weights, objective=goal).frequencies
    return frequencies


def _shuffled_record(recorded: Recorded, order: NDArray[np.int64]) -> Recorded:
    """Return the record with its elements in another order."""
    elements = np.argsort(order)[recorded.elements]
    sorted_ = np.lexsort((recorded.times, elements))
    keys = [recorded.keys[place] for place in order.tolist()]
    return replace(recorded, keys=keys, elements=elements[sorted_], times=recorded.times[sorted_])


def _early(pace: Pace, burn_in: float) -> float:
    """Return the polls per day before measuring begins of those who learn: no more than the rule had."""
    return max(pace.early, 0.01 * pace.polls) if burn_in else pace.polls


class _Paced:
    """A policy that learns, at another pace until measuring begins."""

    def __init__(self, policy: Any, until: float, budget: float) -> None:  # noqa: ANN401  (with a budget)
        self._policy, self._until, self._budget, self._now = policy, until, budget, 0.0

    @property
    def step(self) -> float:
        return float(self._policy.step)

    def polls(self, end: float) -> Polls:
        if self._now >= self._until and self._policy.budget != self._budget:
            self._policy.budget = self._budget
        self._now = end
        polls: Polls = self._policy.polls(end)
        return polls

    def learn(self, outcomes: Outcomes) -> None:
        self._policy.learn(outcomes)

    def hinted(self, elements: NDArray[np.intp], times: Floats) -> None:
        """Take in that elements may have changed, if the policy does."""
        if hasattr(self._policy, "hinted"):
            self._policy.hinted(elements, times)


def _learners(  # noqa: PLR0917  (as they come)
    names: Sequence[str],
    world: World,
    goal: Goal,
    pace: Pace,
    burn_in: float,
    seed: int,
    most_steps: int = MOST_STEPS,
) -> dict[str, Policy]:
    """Return policies that start without knowledge.

    Before measuring begins they have no more polls than the rule had.
    """
    n, sizes = len(world), np.ones(len(world))
    first = _early(pace, burn_in)
    every = first * burn_in + pace.polls * (world.end - burn_in)
    made: dict[str, Policy] = {}
    if "aduana" in names:
        made["aduana"] = estimated_proportional(n, first, sizes, seed=seed, counting=True)
    if "estimated-optimal" in names and every <= MOST_POLLS:
        objective = objective_named(goal)
        made["estimated-optimal"] = estimated_optimal(n, first, world.weight, sizes, objective, seed=seed)
    for name in PAPERS:
        if name in names and every <= MOST_POLLS:
            made[name] = of_paper(name, world, first, world.end, seed=seed)
    steps = min(most_steps * n / every, _STEPS_PER_POLL)
    make = partial(Learning, n, first, weights=world.weight, objective=goal, steps=steps, seed=seed)
    if "learning" in names:
        made["learning"] = LearningAtPlay(make())
    if BY_THE_CLOCK in names:  # with an empty reserve, so that it has no more polls than others
        made[BY_THE_CLOCK] = LearningAtPlay(make(reserve=_DAY, in_reserve=0.0, day=_DAY))
    return {name: _Paced(policy, burn_in, pace.polls) for name, policy in made.items()}


def play(  # noqa: PLR0917  (cells are tuples)
    stage: Stage,
    goal: Goal,
    rule: str | None,
    pace: Pace,
    names: Sequence[str],
    law: Floats | None,
    seed: int,
) -> Played:
    """Play a case with a seed."""
    world, order = stage.shuffled(seed)
    learners = _learners(names, world, goal, pace, stage.burn_in, seed, stage.steps)
    policies: dict[str, Any] = {}
    for name in names:
        if name in learners:
            policies[name] = learners[name]
        elif name == "mirror":
            record, early = _shuffled_record(stage.recorded, order), _early(pace, stage.burn_in)
            budgets = {0.0: early} if early == pace.polls else {0.0: early, stage.burn_in: pace.polls}
            polls = mirror_polls(record, budgets, objective=goal, weights=world.weight)
            policies[name] = Replayed(polls, len(record), record.end)
        elif name == "optimal-law" and law is not None:
            policies[name] = Schedule(law[order], seed=seed)
        elif name in {"uniform", "proportional", "optimal"}:
            policies[name] = name
    if rule is not None:
        policies[rule] = rule
    result = simulate(world, pace.polls, policies=policies, objective=goal, burn_in=stage.burn_in, seed=seed)
    others = ["uniform"] if rule is None else ["uniform", rule]
    return {
        name: (
            one.polls / stage.measured,
            {
                "freshness": _mean(*one.over_time("freshness", weighted=False)),
                "age": _mean(*one.over_time("age")),
                "perceived": _mean(*one.over_time("freshness")),
            },
            {other: _lead(one, result[other], goal) for other in others if other != name},
        )
        for name, one in result.items()
    }


def _mean(lengths: Floats, values: Floats) -> Mean:
    return float(values @ lengths / lengths.sum()), error_of_mean(values, lengths)


def _lead(one: Outcome, other: Outcome, goal: Goal) -> Mean:
    lengths, mine = one.over_time(goal)
    _, theirs = other.over_time(goal)
    lead, error = _mean(lengths, mine - theirs if goal == "freshness" else theirs - mine)
    return (lead, error) if abs(lead) > _LEAST_LEAD else (0.0, 0.0)


_LEAST_LEAD = 1e-12
"""A lead that is none."""
