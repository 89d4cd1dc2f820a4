"""Policies: who decides what is polled when.

An open-loop policy is a schedule. A closed-loop policy sees what its polls saw, and nothing else: `Policy`
is what it must offer. The rules of today's tools (`rules`) are compiled; the others say which polls they
want for the coming step, and are then told what these saw.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats, Order, scalar
from unstale.errors import InvalidInput
from unstale.estimation.rates.rates_of_many import estimate_rates
from unstale.objectives import Objective
from unstale.planning import plan
from unstale.policy import Learning, LearningPolicy, Limits, PollOutcomes
from unstale.schedule import Polls, Schedule, Stream

from .compiled.tracking import ages_at, look_at
from .events import Events, RecordedEvents
from .noisy_hints import HintSource
from .poll_execution import Bools, PollExecutor, Visits, checked


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What polls saw, in the order of time."""

    elements: NDArray[np.intp]
    times: Floats
    elapsed: Floats
    """Time since the last poll of the element that succeeded; since the beginning, if there was none."""
    changed: Bools
    """Whether the element has changed since then; False if the poll failed."""
    ok: Bools
    """Whether the poll succeeded."""
    modified: Floats | None = None
    """How long before the poll the last change was, in worlds that tell; nan where there was none yet."""


class Policy(Protocol):
    """A policy that learns from its polls."""

    @property
    def step(self) -> float:
        """How far ahead the policy chooses its polls."""

    def polls(self, end: float) -> Polls:
        """Return the polls wanted from now on to just before ``end``."""

    def learn(self, outcomes: Outcomes) -> None:
        """Learn what the polls saw that are done."""

    # A policy may also have ``hinted(elements, times)``, which takes in that elements may have changed.


class BudgetedPolicy(Policy, Protocol):
    """A policy whose budget may be set anew, and counts at once."""

    budget: float


class PolicyLoop(Protocol):
    """A policy at work, as the simulator calls it."""

    def visits(self, changes: Events, start: float, end: float) -> Visits:
        """Return the polls carried out in a span. The changes in it are there for polls to see."""


class OpenLoop:
    """A schedule, carried out whatever its polls see."""

    def __init__(self, stream: Stream, executor: PollExecutor) -> None:
        self._stream, self._executor = stream, executor

    def visits(self, changes: Events, start: float, end: float) -> Visits:  # noqa: ARG002  (it is blind)
        polls = self._stream.until(end)
        return self._executor.carry_out(checked(polls, len(self._stream), start, end), end)


class ClosedLoop:
    """A policy that learns what its polls saw, step by step."""

    def __init__(
        self,
        policy: Policy,
        n: int,
        executor: PollExecutor,
        *,
        told: bool = False,
        hints: HintSource | None = None,
    ) -> None:
        self._policy, self._executor = policy, executor
        self._hints = hints if hasattr(policy, "hinted") else None
        self._unsaid: list[Events] = []
        self._changed_at = np.full(n, np.nan) if told else None
        self._last, self._dirty = np.zeros(n), np.zeros(n, np.bool_)
        self._next = 0.0
        self._untold: list[tuple[Outcomes, Floats]] = []

    def visits(self, changes: Events, start: float, end: float) -> Visits:
        source, parts, now = RecordedEvents(changes), [], start
        hints = None if self._hints is None else RecordedEvents(self._hints.until(changes, end))
        while now < end:
            if self._next <= now:
                step = scalar("step", self._policy.step, above=0, infinite=True)
                if end + step == end:
                    raise InvalidInput(f"step must move time forward; at {end:g}, {step:g} does not")
                self._next = now + step
            stop = min(self._next, end)
            polls = checked(self._policy.polls(stop), self._last.size, now, stop)
            seen, visits = source.until(stop), self._executor.carry_out(polls, stop)
            parts.append((visits.elements(), visits.start, visits.done, visits.ok))
            self._hear(seen, visits)
            if hints is not None:
                self._unsaid.append(hints.until(stop))
            if stop == self._next:  # a step may be longer than a span
                self._tell(stop)
                self._hint()
            now = stop
        elements, *columns = (np.concatenate(part) for part in zip(*parts, strict=True))
        order = np.argsort(elements, kind="stable")
        offsets = np.zeros(self._last.size + 1, np.int64)
        np.cumsum(np.bincount(elements, minlength=self._last.size), out=offsets[1:])
        return Visits(offsets, *(column[order] for column in columns))

    def _hear(self, changes: Events, visits: Visits) -> None:
        """Note what polls see."""
        elapsed, changed = np.empty(visits.start.size), np.empty(visits.start.size, np.bool_)
        look_at(
            changes.offsets, changes.times, visits.offsets, visits.start, visits.ok, self._last, self._dirty,
            elapsed, changed,
        )  # fmt: skip
        ages = None
        if self._changed_at is not None:
            ages = np.empty(visits.start.size)
            ages_at(
                changes.offsets,
                changes.times,
                visits.offsets,
                visits.start,
                visits.ok,
                self._changed_at,
                ages,
            )
        seen = Outcomes(visits.elements(), visits.start, elapsed, changed, visits.ok, ages)
        self._untold.append((seen, visits.done))

    def _tell(self, now: float) -> None:
        """Tell the policy what polls saw that are done."""
        done = np.concatenate([part[1] for part in self._untold])
        names = ["elements", "times", "elapsed", "changed", "ok"]
        if self._changed_at is not None:
            names.append("modified")
        columns = [np.concatenate([getattr(part[0], name) for part in self._untold]) for name in names]
        order = np.lexsort((columns[0], done))
        count = int(np.searchsorted(done[order], now, side="right"))
        told, rest = order[:count], order[count:]
        self._untold = [(Outcomes(*(column[rest] for column in columns)), done[rest])]
        self._policy.learn(Outcomes(*(column[told] for column in columns)))

    def _hint(self) -> None:
        """Give the policy the hints since the last time."""
        for events in self._unsaid:
            elements = np.repeat(np.arange(self._last.size), np.diff(events.offsets))
            if elements.size:
                self._policy.hinted(elements, events.times)  # type: ignore[attr-defined]  # it has it
        self._unsaid = []


class _Estimator(Protocol):
    """How a policy that estimates rates sets its frequencies."""

    def frequencies(self, outcomes: Outcomes, budget: float) -> Floats | None:
        """Take in what polls saw, and return the new frequencies; None if the old ones stay."""


class EstimatingPolicy:
    """Polls by frequencies that an estimator sets anew, and all elements equally often at first.

    A step is as long as one poll per element takes on average.

    Parameters
    ----------
    n, budget, sizes, seed
        Elements, what all polls may cost per unit time, what each costs, and the seed of phases.
    estimator
        Sets the frequencies.
    order, explore
        How polls follow each other, and how they do before the frequencies are set for the first time (None:
        in the same way).
    """

    def __init__(
        self,
        n: int,
        budget: float,
        sizes: Floats,
        estimator: _Estimator,
        *,
        seed: int,
        order: Order = "fixed",
        explore: Order | None = None,
    ) -> None:
        self._budget, self._sizes, self._estimator = budget, sizes, estimator
        self._order, self._seed, self._exploring = order, seed, explore not in {None, order}
        self._schedule = Schedule(
            np.full(n, budget / sizes.sum()), order=order if explore is None else explore, seed=seed
        )

    @property
    def budget(self) -> float:
        """What all polls together cost per unit time; another one counts at once."""
        return self._budget

    @budget.setter
    def budget(self, value: float) -> None:
        self._schedule.swap(self._schedule.frequencies * (value / self._budget))
        self._budget = value

    @property
    def step(self) -> float:
        return float(self._sizes.sum() / self._budget) if self._budget > 0 else np.inf

    def polls(self, end: float) -> Polls:
        return self._schedule.until(end)

    def learn(self, outcomes: Outcomes) -> None:
        frequencies = self._estimator.frequencies(outcomes, self._budget)
        if frequencies is None:
            return
        if self._exploring:
            self._exploring, now = False, self._schedule.now
            self._schedule = Schedule(frequencies, order=self._order, seed=self._seed, start=now)
        else:
            self._schedule.swap(frequencies)


def estimated_proportional(
    n: int, budget: float, sizes: Floats, *, seed: int, counting: bool = False
) -> EstimatingPolicy:
    """Return the policy that polls in proportion to how often elements seem to change.

    The policy estimates rates from what polls saw, by Cho & Garcia-Molina's estimator with little bias,
    -log((n - X + 0.5) / (n + 0.5)) per mean interval, for X changes seen in n polls; none seen counts as half
    a change.

    With ``counting`` the estimate is (X + 1) / time instead, which Aduana uses.
    """
    return EstimatingPolicy(n, budget, sizes, _ProportionalEstimator(n, sizes, counting=counting), seed=seed)


class _ProportionalEstimator:
    """Frequencies in proportion to estimated rates."""

    def __init__(self, n: int, sizes: Floats, *, counting: bool) -> None:
        self._sizes, self._counting = sizes, counting
        self._polls, self._changes, self._time = np.zeros((3, n))

    def frequencies(self, outcomes: Outcomes, budget: float) -> Floats | None:
        seen = outcomes.elements[outcomes.ok]
        n = self._polls.size
        self._polls += np.bincount(seen, minlength=n)
        self._changes += np.bincount(seen, outcomes.changed[outcomes.ok], n)
        self._time += np.bincount(seen, outcomes.elapsed[outcomes.ok], n)
        known = self._polls > 0
        if not known.any():
            return None
        polls, changes, time = (
            np.where(known, part, 1.0) for part in (self._polls, self._changes, self._time)
        )
        if self._counting:
            rates = (changes + 1.0) / time
        else:
            rates = -np.log((polls - np.maximum(changes, 0.5) + 0.5) / (polls + 0.5)) * polls / time
        rates = np.where(known, rates, rates[known].mean())
        return budget * rates / (rates @ self._sizes)


def estimated_optimal(
    n: int, budget: float, weights: Floats, sizes: Floats, objective: Objective, *, seed: int
) -> EstimatingPolicy:
    """Return the policy that plans with the likeliest rates as if they were the true ones.

    Rates are those of maximum likelihood, from all that polls saw; no change seen counts as half a change.
    The policy plans the optimal allocation anew after a step if there is a fiftieth more to go by. It never
    polls an element again that it starves.
    """
    return EstimatingPolicy(n, budget, sizes, _OptimalEstimator(weights, sizes, objective), seed=seed)


class _OptimalEstimator:
    """The optimal allocation for estimated rates."""

    def __init__(self, weights: Floats, sizes: Floats, objective: Objective) -> None:
        self._weights, self._sizes, self._objective = weights, sizes, objective
        self._seen: list[Outcomes] = []
        self._heard, self._planned = 0, 0

    def frequencies(self, outcomes: Outcomes, budget: float) -> Floats | None:
        self._seen.append(outcomes)
        self._heard += outcomes.times.size
        if self._heard < 1.02 * self._planned:
            return None
        self._planned = self._heard
        elements, elapsed, changed = (
            np.concatenate([getattr(part, name)[part.ok] for part in self._seen])
            for name in ("elements", "elapsed", "changed")
        )
        if not elements.size:
            return None
        n = self._sizes.size
        rates = estimate_rates(elements, elapsed, changed, n=n, method="mle").rate
        time = np.bincount(elements, elapsed, n)
        known = time > 0
        rates = np.where(known, np.maximum(rates, 0.5 / np.where(known, time, 1.0)), 0.0)
        rates = np.where(known, rates, rates.sum() / max(known.sum(), 1))
        if not rates.any():
            return None
        return plan(
            rates, budget, weights=self._weights, sizes=self._sizes, objective=self._objective
        ).frequencies


class LearningAtPlay:
    """`unstale.Learning` as a policy of the simulation."""

    def __init__(self, learning: Learning) -> None:
        self._learning = learning

    @property
    def budget(self) -> float:
        """What all polls together cost per unit time; another one counts at once."""
        return self._learning.budget

    @budget.setter
    def budget(self, value: float) -> None:
        self._learning.budget = value

    @property
    def step(self) -> float:
        return self._learning.step

    def polls(self, end: float) -> Polls:
        return self._learning.polls(end)

    def learn(self, outcomes: Outcomes) -> None:
        ok = outcomes.ok
        self._learning.learn(
            outcomes.elements[ok],
            outcomes.elapsed[ok],
            outcomes.changed[ok],
            time=outcomes.times[ok],
            modified=None if outcomes.modified is None else outcomes.modified[ok],
        )

    def hinted(self, elements: NDArray[np.intp], times: Floats) -> None:
        """Take in that elements may have changed."""
        for element, time in zip(elements.tolist(), times.tolist(), strict=True):
            self._learning.hint(element, time=time)


class Played:
    """A policy as a mirror runs it, step by step.

    An element is busy until the policy has learned what its poll saw. Elements are numbered in the order of
    its table.

    Parameters
    ----------
    policy
        The one that is played.
    step
        Simulated time between two choices.
    start, unit
        The policy's time is ``start`` plus simulated time times ``unit``.
    """

    def __init__(
        self, policy: LearningPolicy[Limits], step: float, *, start: float = 0.0, unit: float = 1.0
    ) -> None:
        self._policy, self._step, self._start, self._unit = policy, step, start, unit
        self._chosen_until, self._told = 0.0, 0
        self._times, self._elements = np.empty(0), np.empty(0, np.int64)

    @property
    def step(self) -> float:
        return self._step

    def polls(self, end: float) -> Polls:
        while self._chosen_until < end:
            now, self._chosen_until = self._chosen_until, self._chosen_until + self._step
            moments = (self._start + self._unit * t for t in (now, self._chosen_until))
            chosen = self._policy.choose(*moments, room=1 << 62)
            order = np.argsort(chosen.start, kind="stable")
            times = np.clip((chosen.start[order] - self._start) / self._unit, now, self._chosen_until)
            self._times = np.concatenate([self._times, times])
            self._elements = np.concatenate([self._elements, chosen.places[order]])
        due = int(np.searchsorted(self._times, end))
        polls = Polls(self._times[:due], self._elements[:due])
        self._times, self._elements = self._times[due:], self._elements[due:]
        return polls

    def learn(self, outcomes: Outcomes) -> None:
        policy, table = self._policy, self._policy.table
        policy.rescaled()
        places, count = outcomes.elements, outcomes.elements.size
        first = np.isnan(table["last"][places])
        seen = np.where(outcomes.changed, "changed", "unchanged")
        policy.hear(
            PollOutcomes(
                poll=np.arange(self._told, self._told + count),
                element=table["id"][places],
                time=self._start + self._unit * outcomes.times,
                elapsed=np.where(first, np.nan, self._unit * outcomes.elapsed),
                outcome=np.where(outcomes.ok, np.where(first, "new", seen), "failed").tolist(),
                traffic=np.zeros(count),
                cost=np.zeros(count),
                planned=np.ones(count, np.bool_),
                modified=None
                if outcomes.modified is None
                else self._start + self._unit * (outcomes.times - outcomes.modified),
            )
        )
        table["busy", places] = False
        policy.limits.hand_out(())
        self._told += count
