"""The element of a recorded history that changes most, in place of the article of Figures 7 and 8.

If a history has the edits of that article, it is the article itself, and what is printed of it is held
against them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote

import numpy as np

import unstale
from unstale.arguments import Floats
from unstale.errors import InvalidInput
from unstale.lab.experiment import Run
from unstale.lab.histories import load

ARTICLE = "George W. Bush"
PRINTED = 1.4, 0.93
"""Shape, and scale in hours, of the Pareto tail that the paper fits to its article."""
PRINTED_MEAN = 1.86
"""Mean gap of that article, in hours."""
UNKNOWN = "needs the edits of the article, which do not come with the paper; --history can give them"
_MOST_CHANGES_TOO_FEW = 30

About = Literal["the article", "another history", "the bundled history"]


@dataclass(frozen=True, eq=False)
class Busiest:
    """Changes of one element; times in days."""

    name: str
    history: str
    times: Floats
    midnight: float
    """How long after a midnight (UTC) time 0 is."""
    about: About
    """Whose changes they are; of the article, what is printed can be computed."""

    @property
    def gaps(self) -> Floats:
        """Time between successive changes."""
        return np.diff(self.times)

    @property
    def law(self) -> unstale.Empirical:
        """Gaps drawn from those that were seen."""
        return unstale.Empirical(self.gaps)


def busiest(run: Run) -> Busiest:
    """Return the article, if the history of a run has it, or the element with the most changes."""
    recorded = load(run.history, run.columns)
    articles = [place for place, key in enumerate(recorded.keys) if _title(key) == _title(ARTICLE)]
    element = articles[0] if articles else recorded.busiest
    times = np.unique(recorded.of(element))
    name = recorded.keys[element]
    if times.size <= _MOST_CHANGES_TOO_FEW:
        raise InvalidInput(
            f"{recorded.name}: {'the article' if articles else 'its busiest element'}, {name}, changes "
            f"{times.size} times; Figures 7 and 8 need more than {_MOST_CHANGES_TOO_FEW}"
        )
    about: About = "the bundled history" if run.history is None else "another history"
    return Busiest(
        name,
        recorded.name,
        times,
        recorded.begin % 86400.0 / 86400.0,
        "the article" if articles else about,
    )


def _title(key: str) -> str:
    """Return the title of an article, of a title or an address of it."""
    return unquote(key.rsplit("/", 1)[-1]).replace("_", " ").strip().casefold()
