"""The operational clock of a rhythm: moments to operational time, probabilities and worths."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

import numpy as np
from numpy.typing import ArrayLike

from unstale import kernels
from unstale.arguments import Floats, numbers, scalar, unwrap
from unstale.errors import InvalidInput
from unstale.objectives import Objective, objective_named
from unstale.processes import Poisson, Process, UncertainPoisson

from .compiled.rhythm_worth import next_moment, worth_at

_NEARLY_KNOWN_SHAPE = 1e9
"""Shape of a gamma law that stands for a rate that is known."""


@dataclass(frozen=True, eq=False)
class OperationalClock:
    """A rhythm that repeats, as levels of pieces of a period, and the time that passes by it.

    Parameters
    ----------
    levels
        How fast changes come in each piece of the period; only their ratios matter.
    period
        The length of the rhythm, such as a day.
    edges
        Where pieces begin, from 0 on, and at last the period; by default they are equally long.

    Examples
    --------
    >>> clock = OperationalClock([1.0, 3.0], period=1.0)
    >>> clock.levels.tolist(), clock.at([0.5, 1.0, 1.25]).tolist()
    ([0.5, 1.5], [0.25, 1.0, 1.125])
    """

    levels: Floats
    period: float
    edges: Floats = field(default_factory=lambda: np.empty(0))
    passed: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        levels = np.atleast_1d(numbers("levels", self.levels, at_least=0)).astype(float)
        period = scalar("period", self.period, above=0)
        if levels.ndim != 1 or not levels.size or not levels.max() > 0:
            raise InvalidInput(f"levels must be a list with one above 0; it is {self.levels!r}")
        edges = np.linspace(0.0, period, levels.size + 1)
        if np.size(self.edges):
            edges = np.asarray(numbers("edges", self.edges), float)
            if (
                edges.shape != (levels.size + 1,)
                or edges[0] != 0.0
                or edges[-1] != period
                or (np.diff(edges) <= 0).any()
            ):
                raise InvalidInput(
                    f"edges must rise from 0 to the period, {period:g}, one more than levels; it is {edges!r}"
                )
        mean = float(levels @ np.diff(edges)) / period
        if not mean > 0:
            raise InvalidInput(f"levels must have a mean above 0; it is {mean!r}")
        levels = levels / mean
        passed = np.concatenate([[0.0], np.cumsum(levels * np.diff(edges))])
        for name, value in (("levels", levels), ("period", period), ("edges", edges), ("passed", passed)):
            object.__setattr__(self, name, value)

    def at(self, t: ArrayLike) -> Floats:
        """Return the operational time at moments; in whole periods it is time."""
        moments = np.asarray(numbers("t", t), float)
        turns = np.floor(moments / self.period)
        phase = np.clip(moments - turns * self.period, 0.0, self.period)
        return np.asarray(turns * self.period + np.interp(phase, self.edges, self.passed))

    def moments(self, passed: ArrayLike) -> Floats:
        """Return the moments at which so much operational time has passed; the first of them where it stands.

        >>> clock = OperationalClock([1.0, 3.0], period=1.0)
        >>> clock.moments([0.25, 1.0, 1.125]).tolist()
        [0.5, 1.0, 1.25]
        """
        sums = np.asarray(numbers("passed", passed), float)
        turns = np.floor(sums / self.period)
        rest = np.clip(sums - turns * self.period, 0.0, self.period)
        place = np.clip(np.searchsorted(self.passed, rest, side="left") - 1, 0, self.levels.size - 1)
        level = self.levels[place]
        within = np.where(level > 0, (rest - self.passed[place]) / np.where(level > 0, level, 1.0), 0.0)
        return np.asarray(turns * self.period + self.edges[place] + np.maximum(within, 0.0))

    def level(self, t: ArrayLike) -> Floats:
        """Return how fast changes come at moments, beside their mean."""
        moments = np.asarray(numbers("t", t), float)
        phase = moments - np.floor(moments / self.period) * self.period
        place = np.searchsorted(self.edges, phase, side="right") - 1
        return np.asarray(self.levels[np.clip(place, 0, self.levels.size - 1)])

    def fresh(self, law: Process | ArrayLike, last: ArrayLike, at: ArrayLike) -> Floats:
        """Return the probabilities that copies of ``last`` are fresh at moments.

        >>> clock = OperationalClock([0.0, 1.0], period=1.0)    # changes come in the second half
        >>> clock.fresh(1.0, 0.0, [0.25, 0.5, 1.0]).round(3).tolist()
        [1.0, 1.0, 0.368]
        """
        shape, time = gamma_of(law)
        return unwrap(np.exp(-shape * np.log1p((self.at(at) - self.at(last)) / time)))

    def worth(
        self,
        law: Process | ArrayLike,
        last: ArrayLike,
        at: ArrayLike,
        *,
        objective: str = "freshness",
    ) -> Floats:
        """Return what polls at moments are worth, after polls at ``last``; 0 where waiting is always better.

        Parameters
        ----------
        law
            Rates of Poisson changes per unit of operational time, or an `UncertainPoisson`.
        last, at
            Moments of the polls before, and of those that are considered.
        objective
            "freshness" or "age".

        Examples
        --------
        >>> clock = OperationalClock([1.0, 8.0, 1.0], period=1.0)    # a rush in the middle third
        >>> clock.worth(1.0, 0.0, [0.3, 0.5, 0.7, 0.9]).round(3).tolist()
        [0.0, 0.023, 1.001, 0.276]
        """
        kind = objective_kind(objective)
        shape, time = gamma_of(law)
        columns = np.broadcast_arrays(shape, time, numbers("last", last), numbers("at", at))
        found = [
            worth_at(kind, self.edges, self.levels, a, b, before, moment, 0.0)
            for a, b, before, moment in zip(*(np.ravel(column) for column in columns), strict=True)
        ]
        return unwrap(np.array(found, float).reshape(columns[0].shape))

    def next_poll(
        self,
        law: Process | ArrayLike,
        last: float,
        price: float,
        *,
        since: float | None = None,
        horizon: float = inf,
        objective: str = "freshness",
    ) -> float:
        """Return the first moment at which a poll is worth its price; inf if none is within the horizon.

        Parameters
        ----------
        law
            The rate of Poisson changes per unit of operational time, or an `UncertainPoisson`.
        last
            The moment of the last poll.
        price
            What the poll must be worth.
        since
            From when on; by default from the last poll on.
        horizon
            How far ahead; 100 periods at most, which is also the default.
        objective
            "freshness" or "age".

        Examples
        --------
        >>> clock = OperationalClock([1.0, 8.0, 1.0], period=1.0)
        >>> round(clock.next_poll(1.0, last=0.0, price=0.2), 3)
        0.667
        """
        shape, time = (float(np.ravel(part)[0]) for part in gamma_of(law))
        reach = min(scalar("horizon", horizon, above=0, infinite=True), 100.0 * self.period)
        before = scalar("last", last)
        begin = before if since is None else max(scalar("since", since), before)
        wanted = scalar("price", price, above=0)
        kind = objective_kind(objective)
        moment = next_moment(kind, self.edges, self.levels, shape, time, before, begin, wanted, reach, 0.0)
        return float(moment)


def gamma_of(law: Process | ArrayLike) -> tuple[Floats, Floats]:
    """Return the shape and the time (1/scale) of rates."""
    if isinstance(law, UncertainPoisson):
        return np.asarray(law.shape, float), 1.0 / np.asarray(law.scale, float)
    if isinstance(law, Poisson):
        law = law.rate
    if hasattr(law, "shape_of"):
        raise InvalidInput(f"law must be rates, a Poisson or an UncertainPoisson; it is {law!r}")
    rates = np.asarray(numbers("law", law, above=0), float)
    return np.full(rates.shape, _NEARLY_KNOWN_SHAPE), _NEARLY_KNOWN_SHAPE / rates


def objective_kind(objective: str | Objective) -> int:
    """Return the number of an objective by which polls can be timed."""
    kind = objective_named(objective).kernel
    if kind not in (kernels.FRESHNESS, kernels.AGE):
        raise InvalidInput(f"objective must be 'freshness' or 'age' with a rhythm; it is {objective!r}")
    return int(kind)
