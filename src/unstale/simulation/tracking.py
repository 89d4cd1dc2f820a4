"""The evaluator that follows events: what each copy goes through, added up batch by batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unstale.arguments import Floats
from unstale.errors import InvalidInput
from unstale.objectives import Harmonic, Objective, SourcePenalty, UpdatePenalty, objective_named

from .compiled.tracking import AGE, FRESH, HARMONIC, LAG_STEPS, MEASURES, MISSED, track
from .costs import Missed, lag_costs
from .events import Events
from .poll_execution import Visits
from .worlds import World

_LAG_OCTAVES = 44
"""Powers of two between the shortest lag that differs from none, and the longest."""


def column_of(objective: Objective) -> int | None:
    """Return which measure an objective is, if it is one; None if it takes extra work."""
    penalty = getattr(objective, "penalty", None)
    if isinstance(objective, SourcePenalty) and penalty.exponent in (0.0, 1.0):  # type: ignore[union-attr]
        return FRESH if penalty.exponent == 0.0 else AGE  # type: ignore[union-attr]
    if isinstance(objective, UpdatePenalty) and penalty.exponent == 0.0:  # type: ignore[union-attr]
        return MISSED
    if isinstance(objective, Harmonic):
        return HARMONIC
    if not isinstance(objective, SourcePenalty | UpdatePenalty):
        raise InvalidInput(
            f"objectives that can be followed are source and update penalties and harmonic; got {objective!r}"
        )
    return None


class Tracker:
    """Follows the copies of one policy through all spans; `close` ends a batch."""

    def __init__(self, world: World, horizon: float, objectives: Sequence[Objective] = ()) -> None:
        n = len(world)
        self._n = n
        self._columns = (
            world.weight,
            np.ones(n) if world.sizes is None else np.asarray(world.sizes),
            np.zeros(n) if world.change_sizes is None else np.asarray(world.change_sizes),
        )
        self._state = (
            np.full(n, np.inf), np.zeros(n, np.int64), np.zeros(n, np.bool_), np.full(n, np.inf),
            np.ones(n, np.bool_), np.full(n, np.inf), np.zeros(n, np.int64),
        )  # fmt: skip
        self._extra = [objective for objective in objectives if column_of(objective) is None]
        self._missed = Missed() if any(isinstance(one, UpdatePenalty) for one in self._extra) else None
        self._least = horizon * 2.0 ** (2 - _LAG_OCTAVES)
        self._lags = np.zeros((2, LAG_STEPS * _LAG_OCTAVES + 2))
        self._longest = np.zeros(1)
        self._batch = np.zeros((n, AGE + 1))
        self._total = np.zeros(MEASURES + len(self._extra))
        self._time = 0.0
        self.sums = np.zeros((n, MEASURES + len(self._extra)))
        """The sum of each measure of each element, over all batches."""
        self.squares = np.zeros_like(self._batch)
        """Sums of the squares of each element's time fresh, and age, in the batches."""
        self.totals: list[Floats] = []
        """Measures in each batch, over all elements; those that are integrals over time by weight."""
        self.plain: list[Floats] = []
        """Time fresh, and age, in each batch, over all elements, whatever they weigh."""
        self.lengths: list[float] = []
        """Lengths of the batches."""

    def follow(self, start: float, end: float, changes: Events, visits: Visits, requests: Events) -> None:
        """Follow all copies through a span."""
        listed = any(isinstance(one, SourcePenalty) for one in self._extra)
        room = changes.times.size + visits.start.size + 2 * self._n if listed else 0
        segments = np.empty(room, np.int64), np.empty(room), np.empty(room)
        count = track(
            start, end, (changes.offsets, changes.times), visits.columns, (requests.offsets, requests.times),
            self._columns, self._state, self.sums, self._batch, self._total,
            (self._lags[0], self._lags[1], self._longest, self._least), segments,
        )  # fmt: skip
        if self._missed is not None:
            self._missed.follow(start, end, changes, visits)
        for k, objective in enumerate(self._extra, MEASURES):
            if isinstance(objective, SourcePenalty):
                part = segments[0][:count], segments[1][:count], segments[2][:count]
                self._add(k, lag_costs(objective, part, self._n))
            elif isinstance(objective, UpdatePenalty) and self._missed is not None:
                self._add(k, self._missed.costs(objective, self._n))
        self._time += end - start

    def _add(self, column: int, costs: Floats) -> None:
        self.sums[:, column] += costs
        self._total[column] += self._columns[0] @ costs

    def close(self) -> None:
        """End a batch."""
        self.totals.append(self._total.copy())
        self.plain.append(self._batch.sum(axis=0))
        self.lengths.append(self._time)
        self.squares += self._batch**2
        self._discard()

    def _discard(self) -> None:
        self._batch[:] = 0.0
        self._total[:] = 0.0
        self._time = 0.0

    def burn(self) -> None:
        """Forget what was measured so far, but not the state of the copies."""
        self._discard()
        self.sums[:] = 0.0
        self._lags[:] = 0.0
        self._longest[:] = 0.0

    def column(self, objective: str | Objective) -> int:
        """Return which measure an objective is."""
        wanted = objective_named(objective)
        if (column := column_of(wanted)) is not None:
            return column
        if wanted not in self._extra:
            raise InvalidInput(f"objectives={wanted!r} was not given to simulate, so its cost is not known")
        return MEASURES + self._extra.index(wanted)

    @property
    def longest(self) -> float:
        """The longest lag."""
        return float(self._longest[0])

    def lags(self) -> tuple[Floats, Floats]:
        """Return lags, and the time that copies spent further behind than each, by weight."""
        edges = self._least * 2.0 ** (np.arange(self._lags.shape[1] - 1) / LAG_STEPS)
        beyond = np.cumsum(self._lags[:, ::-1], axis=1)[:, ::-1][:, 1:]
        return edges, np.maximum(beyond[1] - edges * beyond[0], 0.0)
