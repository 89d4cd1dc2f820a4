"""The shoot-out: policies on a recorded history, all with the same number of polls.

There are two kinds of cases. A rule of today's tools polls as much as it likes, and all others get as many
polls as it took; or the polls are given. In each case every policy is played for each seed, in the same
world: a seed decides when elements are polled, while the changes are those of the record. Policies that plan
do so for the objective of the case.

A record is played from the moment on at which half of its elements exist, and with those. The first part of
that is not measured. A rule may well poll less in that part, so those who learn get no more polls then than
it had, lest they know more than it could.

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

from unstale.arguments import Floats, choice, numbers, scalar, whole
from unstale.errors import InvalidInput
from unstale.quantities import show_number
from unstale.simulation import RULES
from unstale.simulation.noisy_hints import NoisyHints
from unstale.simulation.policy_lookup import PAPERS

from .histories import Recorded
from .processes import KILLED, workers
from .shootout_cells import (
    BY_THE_CLOCK,
    MOST_POLLS,
    MOST_STEPS,
    Goal,
    Pace,
    Played,
    Stage,
    law_frequencies,
    pace_of,
    play,
)

OBJECTIVES: tuple[Goal, ...] = ("freshness", "age")
POLICIES = (
    "uniform", "proportional", "aduana", "estimated-optimal", "learning", "optimal", "optimal-law"
)  # fmt: skip
"""Policies with a budget. Proportional and optimal know the rate of each element over the whole record, and
optimal-law the gaps between its changes; aduana polls in proportion to what it has seen, estimated-optimal
takes the likeliest rates for the true ones, and learning is the policy for real work."""
PLAYABLE = (*POLICIES, BY_THE_CLOCK, *PAPERS, "mirror")
"""Those, learning that may save a day of its budget and learns rhythms, learners of papers, and the mirror
itself: the real loop with a real store, in simulated time, which takes minutes."""
_MOST_ELEMENTS_WITH_LAWS = 2000
"""Elements for which laws are planned; more take many minutes."""
_USUAL_POLLS_PER_CHANGE = (0.25, 1.0, 4.0)
"""Budgets: polls for each change."""
_NORMAL_QUANTILE_95 = 1.6449
"""Standard errors of a 90 % interval, either way."""
_EQUAL_POLLS_SHARE = 0.01
"""Share by which polls may differ and still count as equal."""

_TOO_FEW = "elements are polled less than once, on average, in the time that is measured."


@dataclass(frozen=True)
class Measured:
    """A value and its standard error."""

    value: float
    error: float

    @property
    def margin(self) -> float:
        """Half of the 90 % interval."""
        return _NORMAL_QUANTILE_95 * self.error


@dataclass(frozen=True)
class Needed:
    """Polls per day for what the reference of a case reaches, as far as the budgets played tell."""

    polls: float
    bound: Literal["", "<", ">"] = ""


@dataclass(frozen=True)
class Row:
    """The outcome of a policy in a case; times are in days."""

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
    rows: tuple[Row, ...]

    def __getitem__(self, policy: str) -> Row:
        return next(row for row in self.rows if row.policy == policy)

    def __contains__(self, policy: str) -> bool:
        return any(row.policy == policy for row in self.rows)

    @property
    def reference(self) -> str:
        """The policy whose freshness the others are compared with."""
        return self.rule or "uniform"

    @property
    def unequal(self) -> list[str]:
        """Policies whose polls differ from the others', by a per cent or more."""
        return [
            row.policy for row in self.rows if abs(row.polls - self.budget) > _EQUAL_POLLS_SHARE * self.budget
        ]


@dataclass(frozen=True)
class Shootout:
    """All cases, and what they were played on."""

    history: str
    elements: int
    """Those that exist when it begins."""
    later: int
    """Elements that came later, and are left out."""
    changes: int
    days: float
    skipped: float
    """Days at the beginning that were not measured."""
    seeds: int
    weighted: bool
    told: bool
    """Whether polls learned when the last change was."""
    hints: NoisyHints | None
    """How reliable hints of changes were; None: there were none."""
    cases: tuple[Case, ...]
    notes: tuple[str, ...] = ()
    """Whole sentences: who was left out, and why."""

    def contests(self, policy: str = "learning") -> list[tuple[Case, str, Measured]]:
        """Return how a policy did against uniform and the rules: the case, against whom, and the lead."""
        return [
            (case, other, lead)
            for case in self.cases
            if policy in case
            for other, lead in case[policy].ahead.items()
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
    told: bool = False,
    hints: NoisyHints | None = None,
    steps: int = MOST_STEPS,
    jobs: int = 1,
    advance: Callable[[float], None] = lambda _: None,
) -> Shootout:
    """Play policies on a history; the first part of it (``skip``, a share) is not measured.

    ``budgets`` are in polls per day, all elements together: a quarter of the changes per day, as many, and
    four times as many, unless given. With ``told``, each poll also learns when the last change was, as
    Last-Modified says it; of the policies, learning makes use of it. With ``hints``, changes give hints, of
    which learning and greedy-ncis make use. Learning takes in what polls saw in so many ``steps`` at most:
    fewer are less work, and knowledge comes later. ``advance`` is called with the share of the work that is
    done.

    >>> from unstale.lab.histories import load
    >>> played = shootout(load(), seeds=1, objectives=["freshness"], rules=["nutch"], policies=["optimal"])
    >>> [round(case["optimal"].freshness.value, 2) for case in played.cases]
    [0.53, 0.79, 0.93, 0.8]
    """
    share = scalar("skip", skip, at_least=0, below=1)
    whole("seeds", seeds, at_least=1)
    whole("steps", steps, at_least=1)
    for goal in objectives:
        choice("objectives", goal, OBJECTIVES)
    for name in policies:
        choice("policies", name, PLAYABLE)
    for name in rules:
        choice("rules", name, RULES)
    recorded.world(weights)  # so that weights are checked
    begin = float(np.quantile(recorded.born, 0.5, method="higher"))
    there = recorded.since(begin)
    if not there.times.size:
        raise InvalidInput(f"{recorded.name}: when half of its elements exist, nothing changes any more")
    wanted = None if weights is None else weights[recorded.born <= begin]
    stage = Stage(there, wanted, share * there.end, told, hints, steps)
    least = len(there) / stage.measured
    asked = _given(budgets, there, least)
    chosen = [
        name
        for name in PLAYABLE
        if name == "uniform"
        or (name in policies and (name != "optimal-law" or len(there) <= _MOST_ELEMENTS_WITH_LAWS))
    ]
    known = "optimal-law" in chosen
    numbered = range(1, seeds + 1)
    many = len(rules) * seeds + len(objectives) * (len(rules) + len(asked)) * (seeds + known)
    with _doing(stage, jobs) as work:
        done = partial(_told, advance, max(many, 1))
        free = work(pace_of, [(rule, seed) for rule in rules for seed in numbered], done)
        paces = np.reshape(free, (len(rules), seeds, 2)).mean(axis=1)
        taken = [(rule, Pace(*map(float, pace))) for rule, pace in zip(rules, paces, strict=True)]
        asked += [(rule, pace) for rule, pace in taken if pace.polls >= least]
        if not asked:
            raise InvalidInput(f"{recorded.name}: too short: {_TOO_FEW}")
        cases = [(goal, rule, pace) for goal in objectives for rule, pace in asked]
        laws: list[Floats | None] = [None] * len(cases)
        if known:
            laws = work(law_frequencies, [(goal, pace.polls) for goal, _, pace in cases], done)
        cells = [
            (goal, rule, pace, chosen, law, seed)
            for (goal, rule, pace), law in zip(cases, laws, strict=True)
            for seed in numbered
        ]
        results = work(play, cells, done)
    played = [
        _Played(goal, rule, pace.polls, results[k * seeds : (k + 1) * seeds])
        for k, (goal, rule, pace) in enumerate(cases)
    ]
    idle = [rule for rule, pace in taken if pace.polls < least]
    return Shootout(
        history=recorded.name,
        elements=len(there),
        later=len(recorded) - len(there),
        changes=there.times.size,
        days=there.end,
        skipped=stage.burn_in,
        seeds=seeds,
        weighted=weights is not None,
        told=told,
        hints=hints,
        cases=tuple(one.case([other for other in played if other.goal == one.goal]) for one in played),
        notes=tuple(_notes(policies, chosen, played, idle)),
    )


def _given(budgets: Sequence[float] | None, there: Recorded, least: float) -> list[tuple[str | None, Pace]]:
    """Return the budgets that are given, or the usual ones that are enough."""
    if budgets is None:
        usual = (share * there.rate for share in _USUAL_POLLS_PER_CHANGE)
        return [(None, Pace(budget, budget)) for budget in usual if budget >= least]
    given = numbers("budgets", list(budgets), above=0)
    for budget in given.tolist():
        if budget < least:
            raise InvalidInput(f"budgets: with {show_number(budget)} polls a day {_TOO_FEW}")
    return [(None, Pace(budget, budget)) for budget in given.tolist()]


def _notes(
    policies: Sequence[str], chosen: Sequence[str], played: Sequence[_Played], idle: Sequence[str]
) -> Iterator[str]:
    if idle:
        yield f"{', '.join(idle)}: left out, since with so few polls {_TOO_FEW}"
    if "optimal-law" in policies and "optimal-law" not in chosen:
        yield f"optimal-law is left out: it is for {_MOST_ELEMENTS_WITH_LAWS:,} elements at most."
    if "estimated-optimal" in chosen and any("estimated-optimal" not in one for one in played):
        yield (
            f"estimated-optimal is left out where there are more than {MOST_POLLS / 1e6:g} million polls, "
            "all of which it would have to remember."
        )


def _told(advance: Callable[[float], None], many: int) -> None:
    advance(1.0 / many)


# --- all seeds, all cases -----------------------------------------------------------------------------------


def _measured(means: Sequence[tuple[float, float]]) -> Measured:
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
    results: Sequence[Played]

    def __contains__(self, policy: str) -> bool:
        return policy in self.results[0]

    def polls(self, policy: str) -> float:
        return float(np.mean([one[policy][0] for one in self.results]))

    def measure(self, policy: str, name: str) -> Measured:
        return _measured([one[policy][1][name] for one in self.results])

    def reached(self, policy: str) -> float:
        """How well a policy does, by the objective: the more, the better."""
        if self.goal == "freshness":
            share = min(max(self.measure(policy, "perceived").value, 1e-12), 1.0 - 1e-12)
            return float(np.log(share / (1.0 - share)))  # nearly linear in the logarithm of polls
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
        return Case(self.rule, self.goal, self.budget, tuple(rows))


def _needed(policy: str, target: float, cases: Sequence[_Played]) -> Needed:
    """Polls with which a policy reaches a target, interpolated between the budgets that it was given."""
    points = sorted(
        (one.polls(policy), one.reached(policy)) for one in cases if policy in one and one.polls(policy) > 0
    )
    if not points:  # it never polls
        return Needed(np.inf, ">")
    polls, reached = np.array(points).T
    reached = np.maximum.accumulate(reached)
    if target < reached[0]:
        return Needed(float(polls[0]), "<")
    if target > reached[-1]:
        return Needed(float(polls[-1]), ">")
    return Needed(float(np.exp(np.interp(target, reached, np.log(polls)))))


# --- processes ----------------------------------------------------------------------------------------------

_stage: Stage | None = None


def _set_stage(stage: Stage) -> None:
    global _stage  # noqa: PLW0603  (a process has one, and it is large)
    _stage = stage


def _on_stage(cell: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:  # noqa: ANN401
    return cell(_stage, *arguments)


@contextmanager
def _doing(stage: Stage, jobs: int) -> Iterator[Callable[..., list[Any]]]:
    """Yield a function that plays cells, here or in several processes, and returns their results."""
    if whole("jobs", jobs, at_least=1) == 1:
        yield lambda cell, cells, told: list(_done_here(stage, cell, cells, told))
        return
    with workers(jobs, _set_stage, stage) as pool:
        yield lambda cell, cells, told: _done_there(pool, cell, cells, told)


def _done_here(
    stage: Stage, cell: Callable[..., Any], cells: Sequence[tuple[Any, ...]], told: Callable[[], None]
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
