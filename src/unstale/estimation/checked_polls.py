"""The polls of elements as they come from callers: checked, and sorted by element."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unstale.arguments import Floats, as_floats, numbers, numbers_of_elements, whole
from unstale.errors import InvalidInput

from .poll_columns import column, flags
from .rates.compiled.estimators import PollTally, fading, tally

Elements = NDArray[np.int64]
_MOST_ELEMENTS = 2**31
_SHORTEST_INTERVAL = 1e-100
"""Powers of intervals must be numbers too; a longer one than 1/_SHORTEST_INTERVAL is refused as well."""


class PollColumns(NamedTuple):
    """Columns of polls."""

    elements: Elements
    elapsed: Floats
    changed: NDArray[np.bool_]
    ages: Floats
    """Of the last change as the poll saw it; nan where unknown, and empty if that is everywhere."""
    n: int
    """Number of elements."""

    @classmethod
    def of(
        cls,
        elements: ArrayLike | None,
        elapsed: ArrayLike,
        changed: ArrayLike,
        modified: ArrayLike | None = None,
        n: int | None = None,
    ) -> PollColumns:
        """Check columns of polls; without numbers of elements all are of one."""
        spans = column("elapsed", elapsed, above=0)
        if spans.size and not (spans.min() >= _SHORTEST_INTERVAL and spans.max() <= 1.0 / _SHORTEST_INTERVAL):
            numbers("elapsed", spans, at_least=_SHORTEST_INTERVAL, at_most=1.0 / _SHORTEST_INTERVAL)
        seen = flags("changed", changed, spans.size)
        if elements is None:
            who, n = np.zeros(spans.size, np.int64), 1
        else:
            below = None if n is None else whole("n", n)
            who = numbers_of_elements("elements", elements, spans.size, "polls", below=below)
        ages = np.empty(0)
        if modified is not None:
            ages = as_floats("modified", modified)
            if ages.shape != spans.shape:
                raise InvalidInput(
                    f"modified must be one for each of the {spans.size} polls; it has shape {ages.shape}"
                )
            numbers("modified", np.where(np.isnan(ages), 0.0, ages), at_least=0)
        count = int(who.max(initial=-1)) + 1 if n is None else n
        if n is None and count > _MOST_ELEMENTS:
            raise InvalidInput(f"elements must be numbered from 0 on; the highest number is {count - 1}")
        return cls(who, spans, seen, ages if not np.isnan(ages).all() else np.empty(0), count)

    def tally(self) -> PollTally:
        """Sort polls by element."""
        return PollTally(*tally(*self))

    def faded(self, half_life: float) -> PollTally:
        """Sort polls by element, each counting half as much for each half-life before the element's last.

        Polls, changes and total time are counted in full.
        """
        weight = fading(self.elements, self.elapsed, half_life, self.n)
        ages = self.ages if self.ages.size else np.full(self.elapsed.shape, np.nan)
        dated = self.changed & ~np.isnan(ages)
        still = np.where(dated, np.fmin(ages, self.elapsed), np.where(self.changed, 0.0, self.elapsed))
        undated = np.flatnonzero(self.changed & ~dated)
        order = undated[np.argsort(self.elements[undated], kind="stable")]
        ends = np.cumsum(np.bincount(self.elements[undated], minlength=self.n))
        return self.tally()._replace(
            still=np.bincount(self.elements, weight * still, self.n).astype(np.float64),
            known=np.bincount(self.elements, weight * dated, self.n).astype(np.float64),
            begins=np.concatenate([[0], ends[:-1]]),
            ends=ends,
            spans=self.elapsed[order],
            times=weight[order],
        )
