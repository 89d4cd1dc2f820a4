"""The shoot-out: policies on a recorded history, all with the same number of polls.

There are two kinds of cases. A rule of today's tools polls as much as it likes, and all others get as many
polls as it took; or the polls are given. In each case every policy is played for each seed, in the same
world: a seed shuffles the elements, and decides when each is polled, while the changes are those of the
record. (Phases of polls go by the order of the elements, and records are often sorted, by name or by how much
elements change.) Policies that plan do so for the objective of the case.

A value has two errors: that of a mean over so much time, from batches of time, which is the same for all
seeds as the changes are; and that of so many seeds, from their spread. Their squares add up. Differences
between policies are paired, batch by batch and seed by seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..arguments import Floats, choice, numbers, scalar, whole
from ..errors import InvalidInput
from ..planning import plan
from ..processes import Empirical
from ..schedule import Learning, Schedule
from ..simulation import RULES, Learned, Outcome, World, simulate
from ..simulation.outcome import error_of_mean
from ..simulation.policies import EstimatedProportional
from .histories import Recorded
from .workers import KILLED, workers

__all__ = ["OBJECTIVES", "POLICIES", "Case", "Goal", "Measured", "Needed", "Row", "Shootout", "shootout"]

Goal = Literal["freshness", "age"]
OBJECTIVES: tuple[Goal, ...] = ("freshness", "age")
POLICIES = (
    "uniform", "proportional", "aduana", "estimated-optimal", "learning", "optimal", "optimal-law"
)  # fmt: skip
"""Policies with a budget. Proportional and optimal know the rate of each element over the whole record, and
optimal-law the gaps between its changes; aduana polls in proportion to what it has seen, estimated-optimal
takes the likeliest rates for the true ones, and learning is the policy for real work."""
_MOST_LAWS = 2000
"""Elements for which laws are planned; more take many minutes."""
_STEPS = 20.0
"""Steps of learning in a round; the 50 it usually takes are no better here."""
_MOST_STEPS = 10_000
"""Steps in which learning goes through a history; with more polls they are longer, at little cost to it."""
_MOST_POLLS = 2e7
"""Polls up to which estimated-optimal, which remembers them all, is played."""
_USUAL = (0.25, 1.0, 4.0)
"""Budgets: polls for each change."""
_QUANTILE = 1.6449
"""Standard errors of a 90 % interval, either way."""
_EQUAL = 0.01
"""Share by which polls may differ and still count as equal; or, if that is more, by what chance makes of it
that each element begins somewhere in its interval."""


@dataclass(frozen=True)
class Measured:
    """A value and its standard error."""

    value: float
    error: float

    @property
    def margin(self) -> float:
        """Half of the 90 % interval."""
        return _QUANTILE * self.error


@dataclass(frozen=True)
class Needed:
    """Polls per day for what the reference of a case reaches, as far as the budgets played tell."""

    polls: float
    bound: Literal["", "<", ">"] = ""


@dataclass(frozen=True)
class Row:
    """What a policy came to in a case; times are in days."""

    policy: str
    polls: float
    """Per day, all elements together."""
    freshness: Measured
    """Elements counted alike."""
    age: Measured
    """By weight, as what follows."""
    perceived: Measured
    ahead: Mapping[str, Measured]
    """Of uniform, and of the rule: by how much fresher, or younger if age is the objective."""
    needed: Needed


@dataclass(frozen=True)
class Case:
    """Policies with as many polls: those of a rule, or given ones."""

    rule: str | None
    objective: Goal
    budget: float
    """Polls per day, all elements together."""
    slack: float
    """By which polls may differ and still count as equal."""
    rows: tuple[Row, ...]

    def __getitem__(self, policy: str) -> Row:
        return next(row for row in self.rows if row.policy == policy)

    def __contains__(self, policy: str) -> bool:
        return any(row.policy == policy for row in self.rows)

    @property
    def reference(self) -> str:
        """Whose freshness others need how many polls for."""
        return self.rule or "uniform"

    @property
    def unequal(self) -> list[str]:
        """Policies whose polls differ from the others'."""
        return [row.policy for row in self.rows if abs(row.polls - self.budget) > self.slack]


@dataclass(frozen=True)
class Shootout:
    """All cases, and what they were played on."""

    history: str
    elements: int
    changes: int
    days: float
    skipped: float
    """Days at the beginning that were not measured."""
    seeds: int
    weighted: bool
    cases: tuple[Case, ...]
    notes: tuple[str, ...] = ()
    """Whole sentences: who was left out, and why."""

    def behind(self, policy: str = "learning") -> list[tuple[Case, str, Measured]]:
        """Return where a policy is not ahead of uniform or of a rule: the case, of whom, and the lead."""
        return [
            (case, other, lead)
            for case in self.cases
            if policy in case
            for other, lead in case[policy].ahead.items()
            if lead.value < 0
        ]


def shootout(
    recorded: Recorded,
    *,
    budgets: Sequence[float] | None = None,
    seeds: int = 3,
    objectives: Sequence[Goal] = OBJECTIVES,
    policies: Sequence[str] = POLICIES,
    rules: Sequence[str] = tuple(RULES),
    weights: Floats | None = None,
    skip: float = 1.0 / 3.0,
    jobs: int = 1,
    advance: Callable[[float], None] = lambda _: None,
) -> Shootout:
    """Play policies on a history; the first part of it (``skip``, a share) is not measured.

    ``budgets`` are in polls per day, all elements together: a quarter of the changes per day, as many, and
    four times as many, unless given. ``advance`` is told what share of the work is done.

    >>> from unstale.lab.histories import load
    >>> played = shootout(load(), seeds=1, objectives=["freshness"], rules=["nutch"], policies=["optimal"])
    >>> [round(case["optimal"].freshness.value, 2) for case in played.cases]
    [0.57, 0.76, 0.91, 0.79]
    """
    share = scalar("skip", skip, at_least=0, below=1)
    whole("seeds", seeds, at_least=1)
    for goal in objectives:
        choice("objectives", goal, OBJECTIVES)
    for name in policies:
        choice("policies", name, POLICIES)
    for name in rules:
        choice("rules", name, RULES)
    given = (
        np.array(_USUAL) * recorded.rate if budgets is None else numbers("budgets", list(budgets), above=0)
    )
    recorded.world(weights)  # so that weights are checked
    chosen = [
        name
        for name in POLICIES
        if name == "uniform" or (name in policies and (name != "optimal-law" or len(recorded) <= _MOST_LAWS))
    ]
    known = "optimal-law" in chosen
    numbered = range(1, seeds + 1)
    many = len(rules) * seeds + len(objectives) * (len(rules) + given.size) * (seeds + known)
    with _doing(_Stage(recorded, weights, share * recorded.end), jobs) as work:
        told = partial(_told, advance, max(many, 1))
        free = work(_polls_of, [(rule, seed) for rule in rules for seed in numbered], told)
        taken = np.reshape(free, (len(rules), seeds)).mean(axis=1) if rules else np.zeros(0)
        asked: list[tuple[str | None, float]] = [
            *((None, float(budget)) for budget in given),
            *((rule, float(polls)) for rule, polls in zip(rules, taken, strict=True) if polls > 0),
        ]
        cases = [(goal, rule, budget) for goal in objectives for rule, budget in asked]
        laws: list[Floats | None] = [None] * len(cases)
        if known:
            laws = work(_law_frequencies, [(goal, budget) for goal, _, budget in cases], told)
        cells = [
            (goal, rule, budget, chosen, law, seed)
            for (goal, rule, budget), law in zip(cases, laws, strict=True)
            for seed in numbered
        ]
        results = work(_play, cells, told)
    slack = 2.0 * float(np.sqrt(len(recorded))) / ((1.0 - share) * recorded.end)
    played = [
        _Played(goal, rule, budget, slack, results[k * seeds : (k + 1) * seeds])
        for k, (goal, rule, budget) in enumerate(cases)
    ]
    return Shootout(
        history=recorded.name,
        elements=len(recorded),
        changes=recorded.times.size,
        days=recorded.end,
        skipped=share * recorded.end,
        seeds=seeds,
        weighted=weights is not None,
        cases=tuple(one.case([other for other in played if other.goal == one.goal]) for one in played),
        notes=tuple(_notes(policies, chosen, played)),
    )


def _notes(policies: Sequence[str], chosen: Sequence[str], played: Sequence[_Played]) -> Iterator[str]:
    if "optimal-law" in policies and "optimal-law" not in chosen:
        yield f"optimal-law is left out: it is for {_MOST_LAWS:,} elements at most."
    if "estimated-optimal" in chosen and any("estimated-optimal" not in one for one in played):
        yield (
            f"estimated-optimal is left out where there are more than {_MOST_POLLS / 1e6:g} million polls, "
            "all of which it would have to remember."
        )


def _told(advance: Callable[[float], None], many: int) -> None:
    advance(1.0 / many)


# --- one cell -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Stage:
    """What all cells have in common."""

    recorded: Recorded
    weights: Floats | None
    burn_in: float

    @property
    def measured(self) -> float:
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
        )
        return world, order


_Mean = tuple[float, float]
"""A mean over time and its standard error."""
_Result = dict[str, tuple[float, dict[str, _Mean], dict[str, _Mean]]]
"""For each policy: polls per day, measures, and leads."""


def _polls_of(stage: _Stage, rule: str, seed: int) -> float:
    """Polls per day of a rule that polls as much as it likes."""
    world, _ = stage.shuffled(seed)
    outcome = simulate(world, 0.0, policies=[rule], burn_in=stage.burn_in, seed=seed)[rule]
    return outcome.polls / stage.measured


def _law_frequencies(stage: _Stage, goal: Goal, budget: float) -> Floats:
    """The best frequencies for the very gaps that each element has, if they came in any order."""
    world = stage.recorded.world(stage.weights)
    assert world.history is not None  # noqa: S101  (worlds of records have one)
    offsets, times = world.history.offsets, world.history.times
    changing = np.flatnonzero(np.diff(offsets))
    moments = [times[offsets[i] : offsets[i + 1]] for i in changing]
    laws = [Empirical(np.diff(one, append=one[0] + world.end)) for one in moments]  # the record as a circle
    frequencies = np.zeros(len(world))
    frequencies[changing] = plan(laws, budget, weights=world.weight[changing], objective=goal).frequencies
    return frequencies


def _play(  # noqa: PLR0917  (cells are tuples)
    stage: _Stage,
    goal: Goal,
    rule: str | None,
    budget: float,
    names: Sequence[str],
    law: Floats | None,
    seed: int,
) -> _Result:
    """Play a case with a seed."""
    world, order = stage.shuffled(seed)
    n, polls = len(world), budget * world.end
    policies: dict[str, Any] = {
        name: name for name in names if name != "estimated-optimal" or polls <= _MOST_POLLS
    }
    if "aduana" in policies:
        policies["aduana"] = EstimatedProportional(n, budget, np.ones(n), seed=seed, counting=True)
    if "learning" in policies:
        learning = Learning(
            n,
            budget,
            weights=world.weight,
            objective=goal,
            steps=min(_MOST_STEPS * n / polls, _STEPS),
            seed=seed,
        )
        policies["learning"] = Learned(learning)
    if law is not None:
        policies["optimal-law"] = Schedule(law[order], seed=seed)
    if rule is not None:
        policies[rule] = rule
    result = simulate(world, budget, policies=policies, objective=goal, burn_in=stage.burn_in, seed=seed)
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


def _mean(lengths: Floats, values: Floats) -> _Mean:
    return float(values @ lengths / lengths.sum()), error_of_mean(values, lengths)


def _lead(one: Outcome, other: Outcome, goal: Goal) -> _Mean:
    lengths, mine = one.over_time(goal)
    _, theirs = other.over_time(goal)
    return _mean(lengths, mine - theirs if goal == "freshness" else theirs - mine)


# --- all seeds, all cases -----------------------------------------------------------------------------------


def _measured(means: Sequence[_Mean]) -> Measured:
    """Join the means of seeds: their spread, and the error that they share."""
    values, errors = np.array(means).T
    spread = values.var(ddof=1) / values.size if values.size > 1 else 0.0
    return Measured(float(values.mean()), float(np.sqrt(np.mean(errors**2) + spread)))


@dataclass(frozen=True, eq=False)
class _Played:
    """A case with all seeds."""

    goal: Goal
    rule: str | None
    budget: float
    slack: float
    results: Sequence[_Result]

    def __contains__(self, policy: str) -> bool:
        return policy in self.results[0]

    def polls(self, policy: str) -> float:
        return float(np.mean([one[policy][0] for one in self.results]))

    def measure(self, policy: str, name: str) -> Measured:
        return _measured([one[policy][1][name] for one in self.results])

    def reached(self, policy: str) -> float:
        """How well a policy does, by the objective: the more, the better."""
        if self.goal == "freshness":
            return self.measure(policy, "perceived").value
        return -float(np.log(max(self.measure(policy, "age").value, 1e-12)))

    def case(self, all_cases: Sequence[_Played]) -> Case:
        """Sum it up; the other cases of the objective tell how many polls policies need."""
        target = self.reached(self.rule or "uniform")
        rows = [
            Row(
                policy=name,
                polls=self.polls(name),
                freshness=self.measure(name, "freshness"),
                age=self.measure(name, "age"),
                perceived=self.measure(name, "perceived"),
                ahead={
                    other: _measured([one[name][2][other] for one in self.results])
                    for other in self.results[0][name][2]
                },
                needed=Needed(self.polls(name))
                if name == (self.rule or "uniform")
                else _needed(name, target, all_cases),
            )
            for name in self.results[0]
        ]
        slack = max(_EQUAL * self.budget, self.slack)
        return Case(self.rule, self.goal, self.budget, slack, tuple(rows))


def _needed(policy: str, target: float, cases: Sequence[_Played]) -> Needed:
    """Polls with which a policy reaches a target, interpolated between the budgets that it was given."""
    points = sorted((one.polls(policy), one.reached(policy)) for one in cases if policy in one)
    polls, reached = np.array(points).T
    reached = np.maximum.accumulate(reached)
    if target < reached[0]:
        return Needed(float(polls[0]), "<")
    if target > reached[-1]:
        return Needed(float(polls[-1]), ">")
    return Needed(float(np.exp(np.interp(target, reached, np.log(polls)))))


# --- processes ----------------------------------------------------------------------------------------------

_stage: _Stage | None = None


def _set_stage(stage: _Stage) -> None:
    global _stage  # noqa: PLW0603  (a process has one, and it is large)
    _stage = stage


def _on_stage(cell: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:  # noqa: ANN401
    return cell(_stage, *arguments)


@contextmanager
def _doing(stage: _Stage, jobs: int) -> Iterator[Callable[..., list[Any]]]:
    """Give a function that does cells, here or in several processes, and returns what they give."""
    if whole("jobs", jobs, at_least=1) == 1:
        yield lambda cell, cells, told: list(_done_here(stage, cell, cells, told))
        return
    with workers(jobs, _set_stage, stage) as pool:
        yield lambda cell, cells, told: _done_there(pool, cell, cells, told)


def _done_here(
    stage: _Stage, cell: Callable[..., Any], cells: Sequence[tuple[Any, ...]], told: Callable[[], None]
) -> Iterator[Any]:
    for one in cells:
        yield cell(stage, *one)
        told()


def _done_there(
    pool: ProcessPoolExecutor,
    cell: Callable[..., Any],
    cells: Sequence[tuple[Any, ...]],
    told: Callable[[], None],
) -> list[Any]:
    waiting = [pool.submit(_on_stage, cell, one) for one in cells]
    for future in waiting:
        future.add_done_callback(lambda _: told())
    try:
        return [future.result() for future in waiting]
    except BrokenProcessPool:
        raise InvalidInput(f"a process {KILLED}") from None
