"""Policies by name: from a name, or a policy itself, to one at work in a world."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from unstale.arguments import Floats, Order, choice
from unstale.errors import InvalidInput
from unstale.objectives import Objective
from unstale.planning import POLICIES, Plan, plan
from unstale.planning.by_rhythm import RhythmPlan
from unstale.policy import Learning
from unstale.schedule import EarliestDeadline, Index, Schedule, Stream, WindowClock
from unstale.schedule.element_clocks import AllHours
from unstale.schedule.window_clocks import CalendarClock, CycleClock

from .events import Events
from .expected_outcome import expect
from .explore_and_commit import explore_and_commit
from .greedy_ncis import GreedyNcis
from .lambda_crawl import lambda_crawl
from .mirror_sync import MirrorSync
from .outcome import Expected
from .policies import (
    BudgetedPolicy,
    ClosedLoop,
    LearningAtPlay,
    OpenLoop,
    Policy,
    PolicyLoop,
    estimated_optimal,
    estimated_proportional,
)
from .poll_execution import Conditions, PollExecutor, Visits
from .tool_rules import RULES, Following, Rule
from .worlds import World

PAPERS = ("lambda-crawl", "explore-commit", "mirror-sync", "greedy-ncis")
"""Learners of papers: LambdaCrawl with learned rates, explore and commit, MirrorSync, GREEDY-NCIS."""
_ESTIMATING = ("learning", "estimated-optimal", "estimated-proportional", *PAPERS)
NAMES = (*POLICIES, "edf", "index", *_ESTIMATING, *RULES)
"""Policies by name: allocations played by a `Schedule`; the optimal one by earliest deadlines; the index
policy; those that know no rates: `Learning`, optimal for and proportional to estimated rates, and those of
`PAPERS`; and the rules of today's tools."""
BY_THE_CLOCK = "by-the-clock"
"""The plan that knows the rhythm of the world, where there is one."""

AnyPolicy = str | Plan | RhythmPlan | Stream | Policy | Rule


@dataclass(frozen=True, kw_only=True, eq=False)
class SimulationTerms:
    """What all policies start from: the world and the options of a simulation."""

    world: World
    budget: float
    objective: Objective
    order: Order
    jitter: float
    windows: WindowClock | Mapping[Any, WindowClock] | None
    groups: ArrayLike | None
    conditions: Conditions
    seed: int
    unit_seconds: float
    horizon: float
    """When the simulation ends."""

    def __post_init__(self) -> None:
        self.schedule(np.zeros(len(self.world)))  # checks the options, whichever policy uses them

    def schedule(self, frequencies: Floats) -> Schedule:
        """Return the schedule that plays an allocation by the options."""
        return Schedule(
            frequencies,
            order=self.order,
            jitter=self.jitter,
            windows=self.windows,
            groups=self.groups,
            seed=self.seed,
        )

    @property
    def executor(self) -> PollExecutor:
        """What carries the polls of one policy out."""
        return PollExecutor(len(self.world), self.conditions, self.seed)

    def closed_loop(self, policy: Policy) -> ClosedLoop:
        """Return a policy that learns, at work."""
        world = self.world
        hints = world.hinted(self.seed)
        return ClosedLoop(policy, len(world), self.executor, told=world.told, hints=hints)


@dataclass(frozen=True, eq=False)
class Player:
    """A policy at work, about how many polls per unit time it makes, and what formulas say of it."""

    loop: PolicyLoop
    rate: float
    expected: Callable[[], Expected] | None = None


def player(name: str, policy: AnyPolicy, terms: SimulationTerms) -> Player:
    """Return a policy at work, from its name, its plan, its schedule or itself."""
    if isinstance(policy, str):
        choice(f"policies[{name!r}]" if name != policy else "policies", policy, (*NAMES, BY_THE_CLOCK))
        return _by_name(policy, terms)
    if isinstance(policy, Plan | RhythmPlan):
        if policy.frequencies.size != len(terms.world):
            raise InvalidInput(
                f"policies[{name!r}] must be a plan for the {len(terms.world)} elements; "
                f"it is one for {policy.frequencies.size}"
            )
        if isinstance(policy, RhythmPlan):
            return _by_the_clock(policy, terms)
        return _planned(policy.frequencies, terms)
    if isinstance(policy, Rule):
        return _ruled(policy, terms)
    if hasattr(policy, "until") and not isinstance(policy, type):
        stream = cast("Stream", policy)
        if len(stream) != len(terms.world) or stream.now != 0.0:
            raise InvalidInput(
                f"policies[{name!r}] must be a schedule of the {len(terms.world)} elements from time 0 on; "
                f"it has {len(stream)}, and is at {stream.now:g}"
            )
        return Player(OpenLoop(stream, terms.executor), stream.rate)
    learns = all(hasattr(policy, part) for part in ("step", "polls", "learn"))
    if learns and not isinstance(policy, type):
        return Player(terms.closed_loop(policy), terms.budget)
    allowed = "a name, a plan, a schedule, a rule or a policy with step, polls and learn"
    raise InvalidInput(f"policies[{name!r}] must be {allowed}; it is {policy!r}")


def _by_name(name: str, terms: SimulationTerms) -> Player:
    world = terms.world
    if name in {"index", BY_THE_CLOCK, *_ESTIMATING} and world.change_sizes is not None:
        raise InvalidInput(
            f"policies {name!r} knows no change_sizes, so it would overspend; leave one of them out"
        )
    if (
        name == "index"
        and isinstance(world.rates, Sequence)
        and any(hasattr(law, "rate") for law in world.rates)
    ):
        raise InvalidInput(
            "policies 'index' takes rates or one process, and the world has a list of processes"
        )
    if name in RULES:
        return _ruled(RULES[name], terms)
    if name in _ESTIMATING:
        return Player(terms.closed_loop(_estimating(name, terms)), terms.budget)
    if name == "index":
        index = Index(
            world.rates,  # type: ignore[arg-type]  # a list of laws is refused there
            terms.budget,
            weights=world.weights,
            sizes=world.sizes,
            objective=terms.objective,
        )
        return Player(OpenLoop(index, terms.executor), index.rate)
    if name == BY_THE_CLOCK:
        if world.rhythm is None:
            raise InvalidInput(
                "policies 'by-the-clock' knows the rhythm, and the world has none; say rhythm=..."
            )
        made = plan(
            world.rates,
            terms.budget,
            weights=world.weights,
            sizes=world.sizes,
            objective=terms.objective,
            rhythm=world.rhythm,
        )
        return _by_the_clock(made, terms)
    frequencies = _frequencies("optimal" if name == "edf" else name, terms)
    if name == "edf":
        return Player(OpenLoop(EarliestDeadline(frequencies), terms.executor), float(frequencies.sum()))
    return _planned(frequencies, terms)


def _estimating(name: str, terms: SimulationTerms) -> Policy:
    """A policy that learns rates from its own polls."""
    world, n, sizes = terms.world, len(terms.world), _sizes(terms.world)
    if name == "learning":
        return LearningAtPlay(
            Learning(
                n,
                terms.budget,
                weights=world.weight,
                sizes=sizes,
                objective=terms.objective,
                seed=terms.seed,
            )
        )
    if name == "estimated-optimal":
        return estimated_optimal(n, terms.budget, world.weight, sizes, terms.objective, seed=terms.seed)
    if name in PAPERS:
        return of_paper(name, world, terms.budget, terms.horizon, seed=terms.seed)
    return estimated_proportional(n, terms.budget, sizes, seed=terms.seed)


def of_paper(name: str, world: World, budget: float, horizon: float, *, seed: int) -> BudgetedPolicy:
    """Return the learner of a paper, one of `PAPERS`, as it starts in a world.

    Parameters
    ----------
    name, world
        Which, and where.
    budget
        What all its polls may cost per unit time.
    horizon
        How long it polls; only explore-commit is told.
    seed
        Of its random numbers.
    """
    n, weights, sizes = len(world), world.weight, _sizes(world)
    if name == "lambda-crawl":
        return lambda_crawl(n, budget, weights, sizes, seed=seed)
    if name == "explore-commit":
        return explore_and_commit(n, budget, weights, sizes, horizon, seed=seed)
    if name == "mirror-sync":
        return MirrorSync(n, budget, weights, sizes, seed=seed)
    discard = 0.0 if world.hints is None else world.hints.delay
    return GreedyNcis(n, budget, weights, sizes, seed=seed, discard=discard)


def _frequencies(name: str, terms: SimulationTerms) -> Floats:
    """The allocation of a policy that knows the true rates."""
    world = terms.world
    if terms.budget == 0.0 or not world.mean_rates.any():
        return np.full(len(world), terms.budget / _sizes(world).sum())
    return plan(
        world.rates,
        terms.budget,
        weights=world.weights,
        sizes=world.sizes,
        change_sizes=world.change_sizes,
        objective=terms.objective,
        policy=cast("Any", name),  # one of them
        order=terms.order,
    ).frequencies


def _planned(frequencies: Floats, terms: SimulationTerms) -> Player:
    known = None
    windows = terms.windows
    plain = windows is None or isinstance(windows, AllHours | CycleClock | CalendarClock)
    if plain and terms.world.history is None and terms.conditions == Conditions():
        known = partial(
            expect,
            terms.world,
            frequencies,
            terms.order,
            jitter=terms.jitter,
            windows=cast("WindowClock | None", windows),
        )
    loop = OpenLoop(terms.schedule(frequencies), terms.executor)
    return Player(loop, float(frequencies.sum()), known)


def _by_the_clock(made: RhythmPlan, terms: SimulationTerms) -> Player:
    return Player(OpenLoop(made.schedule(), terms.executor), float(made.frequencies.sum()))


def _ruled(rule: Rule, terms: SimulationTerms) -> Player:
    world = terms.world
    about = 4.0 * float(world.mean_rates.sum()) + len(world) * terms.unit_seconds / rule.first
    return Player(_RuleLoop(rule, terms), about)


def _sizes(world: World) -> Floats:
    return np.ones(len(world)) if world.sizes is None else np.asarray(world.sizes)


class _RuleLoop:
    """A rule of today's tools at work."""

    def __init__(self, rule: Rule, terms: SimulationTerms) -> None:
        self._following = Following(
            rule,
            len(terms.world),
            unit_seconds=terms.unit_seconds,
            conditions=terms.conditions.numbers,
            seed=terms.seed,
        )

    def visits(self, changes: Events, start: float, end: float) -> Visits:  # noqa: ARG002  (it knows)
        return Visits(*self._following.visits(changes.offsets, changes.times, end))
