"""The outcome of a policy: means over time with their standard errors, in total and for each element.

Standard errors come from batches of time: the spread of their means tells how much the mean of all may be
off. Neighbouring batches may be alike, which makes the error look too small; so they are also joined in
twos and in fours, and the largest of the three errors is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from unstale.arguments import Floats, choice, numbers
from unstale.objectives import Objective

from .compiled.tracking import (
    ACCESSES,
    AGE,
    CHANGES,
    COST,
    FAILED,
    FOUND,
    FRESH,
    FRESH_ACCESSES,
    HARMONIC,
    MISSED,
    POLLS,
)  # fmt: skip
from .tracking import Tracker
from .worlds import World

_BATCHES_JOINED = (1, 2, 4)


def error_of_mean(values: Floats, weights: Floats | None = None) -> float:
    """Standard error of the mean of successive batches (of unequal length: with their weights).

    >>> round(error_of_mean(np.array([1.0, 2.0, 1.0, 2.0])), 4)
    0.2887
    """
    n = values.size
    lengths = np.ones(n) if weights is None else weights
    mean = float(values @ lengths / lengths.sum())
    errors = [0.0]
    for joined in _BATCHES_JOINED:
        count = n // joined
        if count < 2 or (joined > 1 and count < 6):
            break
        shape = (count, joined)
        excess = ((values - mean) * lengths)[: count * joined].reshape(shape).sum(axis=1)
        total = lengths[: count * joined].sum()
        errors.append(float(np.sqrt(count / (count - 1) * np.sum(excess**2)) / total))
    return max(errors) if len(errors) > 1 else np.nan


@dataclass(frozen=True, eq=False)
class Elementwise:
    """Measures of each element: means over time, and counts."""

    freshness: Floats
    freshness_error: Floats
    age: Floats
    age_error: Floats
    missed_updates: Floats
    harmonic: Floats
    changes: Floats
    polls: Floats
    failed: Floats
    found: Floats
    cost: Floats
    accesses: Floats
    fresh_accesses: Floats


@dataclass(frozen=True, eq=False)
class Expected:
    """What formulas say of an allocation: means over time, in total (by weight) and for each element."""

    freshness: float
    age: float
    missed_updates: float
    elements: Mapping[str, Floats]


class Outcome:
    """The outcome of a policy, followed event by event after the burn-in.

    Means are over time and by weight. Times are in the unit of the simulation.

    Parameters
    ----------
    name
        Of the policy.
    world
        In which it was played.
    tracker
        What was added up, event by event.
    expected
        Computes what formulas say, where there are any.
    """

    def __init__(
        self, name: str, world: World, tracker: Tracker, expected: Callable[[], Expected] | None
    ) -> None:
        self.name = name
        self._expected = expected
        self._tracker = tracker
        self._weight = float(world.weight.sum())
        self._lengths = np.array(tracker.lengths)
        self._totals = np.array(tracker.totals)
        self.duration = float(self._lengths.sum())
        """Time that was measured."""

    @cached_property
    def expected(self) -> Expected | None:
        """What formulas say of a plan that only windows and jitter disturb; None where there are none."""
        return self._expected() if self._expected is not None else None

    def __repr__(self) -> str:
        return (
            f"<{self.name}: freshness {self.freshness:.4f} ± {self.freshness_error:.4f}, "
            f"{self.polls} polls in {self.duration:g}>"
        )

    def _mean(self, column: int) -> float:
        return float(self._totals[:, column].sum() / self._weight / self.duration)

    def _error(self, column: int) -> float:
        return error_of_mean(self._totals[:, column] / self._lengths / self._weight, self._lengths)

    def _count(self, column: int) -> int:
        return round(self._totals[:, column].sum())

    @property
    def freshness(self) -> float:
        """Share of time that copies were up to date."""
        return self._mean(FRESH)

    @property
    def freshness_error(self) -> float:
        """Its standard error."""
        return self._error(FRESH)

    @property
    def age(self) -> float:
        """Mean time since the first change that the copy lacked, 0 while it was fresh."""
        return self._mean(AGE)

    @property
    def age_error(self) -> float:
        """Its standard error."""
        return self._error(AGE)

    @property
    def missed_updates(self) -> float:
        """Mean number of changes that the copy lacked."""
        return self._mean(MISSED)

    @property
    def missed_updates_error(self) -> float:
        """Its standard error."""
        return self._error(MISSED)

    @property
    def perceived_freshness(self) -> float:
        """Share of requests that saw the current version; nan if there were none."""
        asked = self._totals[:, ACCESSES].sum()
        return float(self._totals[:, FRESH_ACCESSES].sum() / asked) if asked else np.nan

    @property
    def perceived_freshness_error(self) -> float:
        """Its standard error."""
        asked = self._totals[:, ACCESSES]
        if not asked.sum():
            return np.nan
        kept = asked > 0
        return error_of_mean(self._totals[kept, FRESH_ACCESSES] / asked[kept], asked[kept])

    @property
    def accesses(self) -> int:
        """Requests."""
        return self._count(ACCESSES)

    @property
    def changes(self) -> int:
        """Changes that there were."""
        return self._count(CHANGES)

    @property
    def polls(self) -> int:
        """Polls made."""
        return self._count(POLLS)

    @property
    def failed(self) -> int:
        """Polls that failed."""
        return self._count(FAILED)

    @property
    def found(self) -> int:
        """Polls that found a change."""
        return self._count(FOUND)

    @property
    def spent(self) -> float:
        """Sizes of all polls per unit time, to compare with the budget: polls, or bytes."""
        return float(self._totals[:, COST].sum() / self.duration)

    def cost(self, objective: str | Objective) -> float:
        """Mean cost of an objective (those that are not measured anyway are named in `simulate`)."""
        return self._mean_of(objective)[0]

    def cost_error(self, objective: str | Objective) -> float:
        """Its standard error."""
        return self._mean_of(objective)[1]

    def _mean_of(self, objective: str | Objective) -> tuple[float, float]:
        column = self._tracker.column(objective)
        if column == FRESH:
            return 1.0 - self.freshness, self.freshness_error
        return self._mean(column), self._error(column)

    def within(self, lags: ArrayLike) -> Floats:
        """Share of time for which copies were at most so far behind; 0 behind is fresh.

        Between the lags that are counted (four for each power of two) it is interpolated.
        """
        wanted = numbers("lags", lags, at_least=0)
        lags, shares = self._beyond()
        return 1.0 - np.interp(wanted, lags, shares)

    def lag(self, shares: ArrayLike) -> Floats:
        """Lag that copies exceeded for no more than the rest of the time: 0.9 gives the 90 % quantile."""
        wanted = numbers("shares", shares, at_least=0, at_most=1)
        edges, beyond = self._beyond()
        within = np.maximum.accumulate(1.0 - beyond)
        at = np.clip(np.searchsorted(within, wanted), 1, edges.size - 1)  # the first edge that is far enough
        rise = within[at] - within[at - 1]
        step = np.where(rise > 0, (wanted - within[at - 1]) / np.where(rise > 0, rise, 1.0), 1.0)
        found = edges[at - 1] + np.clip(step, 0.0, 1.0) * (edges[at] - edges[at - 1])
        return np.where(wanted <= self.freshness, 0.0, found)

    def _beyond(self) -> tuple[Floats, Floats]:
        """Lags from 0 to the longest, and the share of time that copies were further behind."""
        edges, beyond = self._tracker.lags()
        longest = self._tracker.longest
        short = edges < longest
        share = beyond[short] / (self._weight * self.duration)
        return (
            np.concatenate([[0.0], edges[short], [max(longest, edges[0])]]),
            np.concatenate([[1.0 - self.freshness], share, [0.0]]),
        )

    @property
    def freshness_over_time(self) -> tuple[Floats, Floats]:
        """Lengths of the batches, and the freshness in each."""
        return self.over_time("freshness")

    def over_time(
        self, measure: Literal["freshness", "age"], *, weighted: bool = True
    ) -> tuple[Floats, Floats]:
        """Lengths of the batches, and freshness or age in each; by weight, or elements counted alike."""
        column = {"freshness": FRESH, "age": AGE}[choice("measure", measure, ("freshness", "age"))]
        if weighted:
            return self._lengths, self._totals[:, column] / self._lengths / self._weight
        plain = np.array(self._tracker.plain)[:, column]
        return self._lengths, plain / self._lengths / len(self._tracker.sums)

    @property
    def elements(self) -> Elementwise:
        """Measures of each element."""
        sums, squares = self._tracker.sums, self._tracker.squares
        n = max(len(self._lengths), 2)

        def mean(column: int) -> Floats:
            return sums[:, column] / self.duration

        def error(column: int) -> Floats:
            spread = np.maximum(squares[:, column] - sums[:, column] ** 2 / n, 0.0) * n / (n - 1)
            return np.sqrt(spread) / self.duration

        return Elementwise(
            mean(FRESH), error(FRESH), mean(AGE), error(AGE), mean(MISSED), mean(HARMONIC),
            *(sums[:, column] for column in (CHANGES, POLLS, FAILED, FOUND, COST, ACCESSES, FRESH_ACCESSES)),
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Result(Mapping[str, Outcome]):
    """The outcome of each policy, by name; all met the same changes."""

    outcomes: Mapping[str, Outcome] = field(repr=False)
    horizon: float
    burn_in: float
    seed: int

    def __getitem__(self, name: str) -> Outcome:
        if name not in self.outcomes:
            known = ", ".join(map(repr, self.outcomes))
            raise KeyError(f"no policy {name!r} was simulated; there are {known}")
        return self.outcomes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.outcomes)

    def __len__(self) -> int:
        return len(self.outcomes)

    def ahead(self, one: str, other: str) -> tuple[float, float]:
        """By how much one policy is fresher than another, with the standard error of the difference.

        As both met the same changes, it is known better than if each had met its own.
        """
        lengths, first = self[one].freshness_over_time
        _, second = self[other].freshness_over_time
        return self[one].freshness - self[other].freshness, error_of_mean(first - second, lengths)
