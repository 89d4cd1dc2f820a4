"""Running a simulation: the policies, the horizon, and what as many polls would have given otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import isfinite
from typing import NamedTuple

import numpy as np

from unstale.cli.shared.options import LEARNING, LIKE_OPTIMAL, POLICIES, RULES, SLOTTED
from unstale.cli.shared.progress import progress
from unstale.errors import InvalidInput
from unstale.planning import Plan, plan
from unstale.quantities import show_duration
from unstale.schedule import WindowClock
from unstale.simulation import Conditions, Outcome, Result, simulate

from .input import Scene

CONSTANT = ("nutch-default", "miniflux-round-robin")
"""Rules that never change their intervals."""
ADAPTING = (*RULES, *LEARNING)
"""Policies that find their intervals as they go."""
_POLLS_TO_LEARN = 50.0
"""Polls of each element, on average, after which a policy has learnt most of what it will."""
_USUAL_POLLS = 200
"""Polls of each element, and changes, on average, in a simulation of the usual length."""
_MOST_USUAL_EVENTS = 1e7
"""Most changes, polls and requests in a simulation of the usual length: a second's work for a policy."""
_USUAL_BURN_INS = 5.0
"""The usual length over the usual burn-in."""
_RULES_SETTLE_SECONDS = 365.25 * 86400.0
"""Seconds after which rules have settled."""


class SamePolls(NamedTuple):
    """Freshness that as many polls as a rule takes give if they are shared otherwise."""

    uniform: float
    optimal: float


def player(scene: Scene, name: str, budget: float | None = None) -> str | Plan:
    """Return the plan of a policy that follows an allocation; the simulator knows the others by name."""
    problem, rates = scene.problem, scene.problem.elements.rates
    if name not in POLICIES or not rates.any():
        return name

    return plan(rates, problem.task.amount if budget is None else budget, **problem.options(name))


def gives_up(scene: Scene, name: str, player: str | Plan) -> bool:
    """Tell whether a policy never polls some element that changes and matters: its age has no bound."""
    plan = _optimal(scene) if name in LIKE_OPTIMAL else player
    if isinstance(plan, str):
        return False
    never, elements = plan.frequencies == 0, scene.problem.elements
    matters = elements.rates > 0 if elements.weights is None else elements.rates * elements.weights > 0
    return bool((never & matters).any())


def _optimal(scene: Scene) -> str | Plan:
    return player(scene, "optimal")


def settling(scene: Scene, name: str, player: str | Plan) -> float:
    """Return the time after which nearly all elements, by weight, have forgotten how a policy began.

    What is polled forgets when it is polled, the rest when it has changed a few times; what learns or adapts
    takes longer.
    """
    problem = scene.problem
    if name in RULES:
        return _RULES_SETTLE_SECONDS / problem.task.unit.seconds
    plan = _optimal(scene) if name in SLOTTED else player
    if isinstance(plan, str):
        return 0.0

    rates, frequencies, weights = problem.elements.rates, plan.frequencies, problem.elements.weights
    with np.errstate(divide="ignore"):
        times = np.where(frequencies > 0, 1.0 / frequencies, np.where(rates > 0, 3.0 / rates, 0.0))
    if name in LEARNING and problem.task.amount:
        sizes = problem.elements.sizes
        total = times.size if sizes is None else sizes.sum()
        times = np.maximum(times, _POLLS_TO_LEARN * total / problem.task.amount)
    order = np.argsort(times)
    share = np.cumsum(np.ones(order.size) if weights is None else weights[order])
    return float(times[order][np.searchsorted(share, 0.95 * share[-1])])


def horizon_of(scene: Scene, players: Mapping[str, str | Plan], asked: float | None) -> float:
    """Return how long to simulate, in the unit of the rates; ``asked`` is in seconds.

    Usually it is long enough for many polls and changes of each element and for the burn-in to do its work,
    but not for more than a second's work for each policy.
    """
    task, elements, world = scene.problem.task, scene.problem.elements, scene.world
    if asked is not None:
        if asked > world.end * task.unit.seconds * (1 + 1e-12):
            there = f"which lasts {task.show_time(world.end)}; it is {show_duration(asked)}"
            raise InvalidInput(f"--horizon must not go beyond the history, {there}")
        return min(asked / task.unit.seconds, world.end)
    if isfinite(world.end):
        return world.end
    sizes = len(elements) if elements.sizes is None else float(elements.sizes.sum())
    changes = float(elements.rates.mean()) or 1.0
    each = task.amount / sizes or changes
    wanted = [
        _USUAL_POLLS / min(each, changes),
        *(_USUAL_BURN_INS * settling(scene, name, one) for name, one in players.items()),
    ]
    happening = len(elements) * each + float(elements.rates.sum()) + world.accesses
    most = _MOST_USUAL_EVENTS / 10.0 if "learning" in players else _MOST_USUAL_EVENTS  # it thinks more
    return float(f"{min(max(wanted), most / happening):.1e}")  # two digits are enough


@dataclass(frozen=True, kw_only=True, eq=False)
class SimulationRun:
    """How to simulate; times in the unit of the rates."""

    scene: Scene
    horizon: float
    burn_in: float
    seed: int
    jitter: float
    windows: WindowClock | None
    conditions: Conditions | None
    batches: int

    def play(self, players: Mapping[str, str | Plan], budget: float | None = None) -> Result:
        """Simulate policies, with the budget of the task or another."""
        task = self.scene.problem.task
        goal = self.scene.problem.options("optimal")["objective"]
        whole = task.show_time(self.horizon)
        with progress("simulating", self.horizon, lambda now: f"{task.show_time(now)} of {whole}") as advance:
            reached = 0.0

            def tell(now: float) -> None:
                nonlocal reached
                advance(now - reached)
                reached = now

            return simulate(
                self.scene.world,
                task.amount if budget is None else budget,
                policies=dict(players),
                horizon=self.horizon,
                burn_in=self.burn_in,
                seed=self.seed,
                objective=goal,
                objectives=[goal],
                order=task.order,
                jitter=self.jitter,
                windows=self.windows,
                conditions=self.conditions,
                batches=self.batches,
                unit=task.unit.name,
                progress=tell,
            )

    def with_as_many_polls(self, outcome: Outcome) -> SamePolls:
        """Return the freshness that as many polls as a rule's give if they are shared uniformly or optimally.

        By formula where there is one, else simulated. Like those of the rule, they come at any time.
        """
        players = {name: player(self.scene, name, outcome.spent) for name in SamePolls._fields}
        if not (self.scene.recorded or self.conditions):
            return SamePolls(*_by_formula(players.values()))
        result = replace(self, windows=None, jitter=0.0).play(players, outcome.spent)
        return SamePolls(*(result[name].freshness for name in players))


def _by_formula(players: Iterable[str | Plan]) -> list[float]:
    return [1.0 if isinstance(one, str) else one.freshness for one in players]  # a name: nothing changes
