"""The element of a recorded history that changes most, in place of the article of Figures 7 and 8."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import unstale
from unstale.arguments import Floats
from unstale.errors import InvalidInput
from unstale.lab.experiment import Run
from unstale.lab.histories import load

PRINTED = 1.4, 0.93
"""Shape, and scale in hours, of the Pareto tail that the paper fits to its article."""
PRINTED_MEAN = 1.86
"""Mean gap of that article, in hours."""
_MOST_CHANGES_TOO_FEW = 30


@dataclass(frozen=True, eq=False)
class Busiest:
    """Changes of one element; times in days."""

    name: str
    history: str
    times: Floats
    midnight: float
    """How long after a midnight (UTC) time 0 is."""

    @property
    def gaps(self) -> Floats:
        """Time between successive changes."""
        return np.diff(self.times)

    @property
    def law(self) -> unstale.Empirical:
        """Gaps drawn from those that were seen."""
        return unstale.Empirical(self.gaps)


def busiest(run: Run) -> Busiest:
    """Return the element with the most changes of the history of a run."""
    recorded = load(run.history, run.columns)
    times = np.unique(recorded.of(recorded.busiest))
    name = recorded.keys[recorded.busiest]
    if times.size <= _MOST_CHANGES_TOO_FEW:
        raise InvalidInput(
            f"{recorded.name}: its busiest element, {name}, changes {times.size} times; "
            f"Figures 7 and 8 need more than {_MOST_CHANGES_TOO_FEW}"
        )
    return Busiest(name, recorded.name, times, recorded.begin % 86400.0 / 86400.0)
