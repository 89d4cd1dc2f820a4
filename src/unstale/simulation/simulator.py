"""Simulate policies in a world: all meet the same changes, and each is followed event by event."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from unstale.arguments import Order, choice, scalar, whole
from unstale.errors import InvalidInput
from unstale.objectives import Objective, objective_named
from unstale.operational_time import OperationalClock
from unstale.planning import Plan
from unstale.planning.by_rhythm import RhythmPlan
from unstale.processes import Process
from unstale.quantities import time_unit
from unstale.schedule import WindowClock

from .outcome import Outcome, Result
from .policy_lookup import BY_THE_CLOCK, NAMES, AnyPolicy, SimulationTerms, player
from .poll_execution import Conditions
from .tool_rules import Rule
from .tracking import Tracker
from .worlds import World

_EVENTS_PER_SPAN = 1 << 22
"""Events that are held in memory at once, unless there are more elements than that."""


_MOST_EVENTS = 1e13
"""Events in a simulation; more would take days."""


def simulate(
    rates: World | ArrayLike | Process | Sequence[Process],
    budget: float,
    *,
    policies: Sequence[str] | Mapping[str, AnyPolicy] = ("uniform", "proportional", "optimal"),
    horizon: float | None = None,
    seed: int = 0,
    weights: ArrayLike | None = None,
    sizes: ArrayLike | None = None,
    accesses: float = 0.0,
    rhythm: OperationalClock | None = None,
    objective: str | Objective = "freshness",
    order: Order = "fixed",
    jitter: float = 0.0,
    windows: WindowClock | Mapping[Any, WindowClock] | None = None,
    groups: ArrayLike | None = None,
    conditions: Conditions | None = None,
    objectives: Sequence[str | Objective] = (),
    burn_in: float | None = None,
    batches: int = 32,
    unit: str = "day",
    progress: Callable[[float], None] | None = None,
) -> Result:
    """Try policies on the same changes, and measure how fresh each keeps the copies.

    Parameters
    ----------
    rates
        A `World`, or what makes one: rates of Poisson changes, a process, or one for each element.
    budget
        What all polls together may cost per unit time.
    policies
        Names (`NAMES`), or a mapping from any name to a name, a plan, a schedule, a `Policy` that learns, or
        a `Rule` of today's tools. Policies that plan know the true rates: ``optimal`` is an oracle. Rules
        take as many polls as they like.
    horizon
        How long to simulate; by default to the end of a recorded world.
    seed
        Of all random numbers.
    weights, sizes, accesses, rhythm
        As in `World`, if ``rates`` is none. The policy ``by-the-clock`` knows the rhythm, and others plan as
        if there were none.
    objective
        What policies plan for.
    order, jitter, windows, groups
        As in `Schedule`, for the policies that plan.
    conditions
        What can happen to polls.
    objectives
        Further ones to measure. An `UpdatePenalty` keeps each missed change in memory until a poll sees it.
    burn_in
        The first part of the horizon, which is not measured; a fifth by default.
    batches
        The parts of the rest whose spread gives the standard errors: those of means over time, for these very
        elements. What is drawn once and for all, such as the rates of `UncertainPoisson` or the phases of
        `Periodic` elements, only other seeds tell apart; and gaps with infinite variance have no honest
        error.
    unit
        The unit of time, since rules count in real time.
    progress
        A function that is called with the simulated time.

    Returns
    -------
    Result
        The outcome of each policy by its name.

    Examples
    --------
    >>> result = simulate([0.1, 1.0, 10.0], 3.0, policies=["uniform", "optimal"], horizon=2000.0, seed=1)
    >>> result["optimal"].freshness > result["uniform"].freshness > 0.5
    True
    >>> from unstale.operational_time import OperationalClock
    >>> night = OperationalClock([0.0, 1.0, 0.0, 0.0], period=1.0)    # changes come in one of four hours
    >>> timed = simulate([0.5, 1.0], 2.0, policies=["optimal", "by-the-clock"], rhythm=night, horizon=500.0)
    >>> bool(timed["by-the-clock"].freshness > timed["optimal"].freshness + 0.1)
    True
    """
    world = _world(rates, weights=weights, sizes=sizes, accesses=accesses, rhythm=rhythm)
    budget = scalar("budget", budget, at_least=0)
    horizon = _horizon(world, horizon)
    burn = scalar("burn_in", horizon / 5.0 if burn_in is None else burn_in, at_least=0)
    if burn >= horizon:
        raise InvalidInput(f"burn_in must be shorter than the horizon, {horizon:g}; burn_in is {burn:g}")
    seed = whole("seed", seed)
    if isinstance(objectives, str) or not isinstance(objectives, Sequence):
        raise InvalidInput(f"objectives must be a list, such as [{objectives!r}]; it is {objectives!r}")
    measured = [objective_named(one) for one in objectives]
    if progress is not None and not callable(progress):
        raise InvalidInput(f"progress must be a function of the simulated time; it is {progress!r}")
    terms = SimulationTerms(
        world=world,
        budget=budget,
        objective=objective_named(objective),
        order=order,
        jitter=jitter,
        windows=windows,
        groups=groups,
        conditions=Conditions() if conditions is None else _conditions(conditions),
        seed=seed,
        unit_seconds=time_unit("unit", unit).seconds,
        horizon=horizon,
    )
    players = {name: player(name, policy, terms) for name, policy in _named(policies).items()}
    trackers = {name: Tracker(world, horizon, measured) for name in players}
    changes, requests = world.changes(seed), world.asked(seed)
    start = 0.0
    busiest = max(one.rate for one in players.values())
    for end, mark in _spans(world, busiest, horizon, burn, _batches(batches)):
        new, asked = changes.until(end), requests.until(end)
        for name, one in players.items():
            trackers[name].follow(start, end, new, one.loop.visits(new, start, end), asked)
            if mark == "measured":
                trackers[name].close()
            elif mark == "burnt":
                trackers[name].burn()
        start = end
        if progress is not None:
            progress(end)
    outcomes = {
        name: Outcome(name, world, tracker, players[name].expected) for name, tracker in trackers.items()
    }
    return Result(outcomes, horizon, burn, seed)


def _spans(
    world: World, polls: float, horizon: float, burn: float, batches: int
) -> Iterator[tuple[float, str]]:
    """Ends of spans that fit into memory, and what ends there: nothing, the burn-in or a batch."""
    rate = max(float(world.mean_rates.sum()) + world.accesses, polls)
    most = max(_EVENTS_PER_SPAN, 2 * len(world))
    if not rate * horizon <= _MOST_EVENTS:
        raise InvalidInput(
            f"horizon must be shorter: until {horizon:g} there would be about {rate * horizon:.2g} events"
        )
    edges = np.linspace(burn, horizon, batches + 1)
    parts = [(0.0, burn, "burnt"), *((a, b, "measured") for a, b in pairwise(edges.tolist()))]
    for low, high, mark in parts:
        if high > low:
            count = max(1, int(np.ceil(rate * (high - low) / most)))
            for end in np.linspace(low, high, count + 1)[1:]:
                yield float(end), mark if end == high else ""


def _world(
    rates: World | ArrayLike | Process | Sequence[Process],
    *,
    weights: ArrayLike | None,
    sizes: ArrayLike | None,
    accesses: float,
    rhythm: OperationalClock | None,
) -> World:
    if not isinstance(rates, World):
        return World(rates, weights=weights, sizes=sizes, accesses=accesses, rhythm=rhythm)
    if weights is not None or sizes is not None or accesses or rhythm is not None:
        raise InvalidInput("weights, sizes, accesses and rhythm belong to the World; give them there")
    return rates


def _horizon(world: World, horizon: float | None) -> float:
    if horizon is None:
        if np.isinf(world.end):
            raise InvalidInput("horizon must be given: how long to simulate")
        return world.end
    length = scalar("horizon", horizon, above=0)
    if length > world.end:
        raise InvalidInput(
            f"horizon must not go beyond the record, which ends at {world.end:g}; horizon is {length:g}"
        )
    return length


def _batches(batches: int) -> int:
    if whole("batches", batches, at_least=2) > 10_000:
        raise InvalidInput(f"batches must be at most 10000; batches is {batches}")
    return batches


def _conditions(conditions: object) -> Conditions:
    if not isinstance(conditions, Conditions):
        raise InvalidInput(
            f"conditions must be Conditions(late=..., takes=..., fails=...); it is {conditions!r}"
        )
    return conditions


def _named(policies: Sequence[str] | Mapping[str, AnyPolicy]) -> Mapping[str, AnyPolicy]:
    if isinstance(policies, str) or not isinstance(policies, Sequence | Mapping):
        raise InvalidInput(
            f"policies must be a list of names, such as ['optimal'], or a mapping; it is {policies!r}"
        )
    if not isinstance(policies, Mapping):
        for one in policies:
            choice("policies", one, (*NAMES, BY_THE_CLOCK))
        policies = {name: name for name in policies}
    seen: dict[int, str] = {}
    for name, policy in policies.items():
        if (
            not isinstance(policy, str | Plan | RhythmPlan | Rule)
            and seen.setdefault(id(policy), name) != name
        ):
            raise InvalidInput(
                f"policies[{name!r}] is the same object as policies[{seen[id(policy)]!r}]; make one for each"
            )
    if not policies:
        raise InvalidInput(f"policies must not be empty; there are {', '.join(map(repr, NAMES))}")
    return policies
