"""What polls tell of the levels of classes, and of how far predictions are off together.

This is between what is known of elements and the two learners: it translates times of polls into the times
by which they learn.
"""

from __future__ import annotations

from math import inf

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats
from unstale.estimation.learning.level_learner import CELLS_PER_ROUND
from unstale.estimation.learning.recalibration import Laws
from unstale.estimation.learning.rhythm_learner import PollsOfElements

from .element_table import Places
from .knowledge import Knowledge

ByLevel = tuple[Floats, Floats | None]
"""Elapsed times and ages of changes, in operational time by the levels of classes."""


def pace_of(known: Knowledge, places: Places, start: Floats, end: Floats) -> Floats | None:
    """Return how much operational time by level there was in a unit of time; None if classes have none."""
    share = known.expiries.share(places, end - start)
    if not known.levels.any:
        return share if isinstance(share, np.ndarray) else None
    classes = known.table.learner.classes_of(places)
    first, last = known.by_clock(classes, start), known.by_clock(classes, end)
    pace = known.levels.elapsed(classes, first, last) / np.maximum(last - first, 1e-300)
    return np.where(pace > 0, pace, 1.0) * share


def learn_levels(
    known: Knowledge,
    places: Places,
    time: Floats,
    elapsed: Floats,
    changed: NDArray[np.bool_],
    ages: Floats | None,
    tell: NDArray[np.bool_] | None = None,
) -> tuple[Floats, ByLevel | None]:
    """Learn how much classes change as a whole, and how far predictions were off together.

    Parameters
    ----------
    known
        What is known of elements.
    places, time
        The elements of the polls, and when those were.
    elapsed, changed
        The time since the poll before of each, by the rhythms of classes, and whether it had changed.
    ages
        How long before the polls the last changes were, where that is told; nan elsewhere.
    tell
        Whether it would be told, had it changed.

    Returns
    -------
    Floats, ByLevel or None
        The elapsed times by which classes go; and elapsed times and ages by level, whether or not classes go
        by it. None if the learner does not ask.
    """
    learner, levels = known.table.learner, known.levels
    classes = learner.classes_of(places)
    end = known.by_clock(classes, time)
    start = end - elapsed
    lived = levels.elapsed(classes, start, end) if levels.any else elapsed
    plain = known.table["channel"][places] == 0  # polls that follow hints see changes because of that
    spans = elapsed[plain], lived[plain]
    quiet = None
    if ages is not None and tell is not None and tell.any():
        since = levels.elapsed(classes, end - ages, end) if levels.any else ages
        quiet = np.where(changed, since, inf)
        quiet = np.where(tell, quiet, np.nan)[plain]
    _learn_errors(known, places[plain], spans, changed[plain], time[plain], quiet)
    if not learner.can_follow:
        return lived, None
    by_level = levels.elapsed(classes, start, end, in_any_case=True)
    told, told_by_level = np.empty(0), None
    if ages is not None:
        told, told_by_level = ages, levels.elapsed(classes, end - ages, end, in_any_case=True)
    laws = learner.gammas(by_level[plain], places[plain], by_level=True)
    told = told[plain] if told.size else told
    levels.learn(PollsOfElements(classes[plain], start[plain], end[plain], changed[plain], *laws, ages=told))
    return lived, (by_level, told_by_level)


def _learn_errors(
    known: Knowledge,
    places: Places,
    spans: tuple[Floats, Floats],
    changed: NDArray[np.bool_],
    time: Floats,
    quiet: Floats | None,
) -> None:
    """Learn how far predictions are off, each class's on the whole, and together, from those for polls.

    Times since the polls before are given as they were, and in operational time; `quiet` is for how long
    before the polls there was no change, as for `Recalibration.learn`.
    """
    learner, (elapsed, lived) = known.table.learner, spans
    classes, stirred = learner.classes_of(places), learner.stirred(places)
    laws = Laws(*learner.gammas(lived, places))
    counts = np.ones(places.size, np.bool_)
    if known.clocks is not None:
        counts = ~known.clocks.have_own(known.table, places)  # what is said of them is not by these laws
    by = known.recalibration.learn(learner.round, classes, time, spans, laws, stirred, counts, changed, quiet)
    fresh = (laws.hope * np.exp(-laws.shape * np.log1p(lived / laws.time))) ** by
    slopes = by * fresh * laws.shape * learner.round / (laws.time + lived)
    spans = elapsed, lived / learner.round
    known.errors.learn(learner.round / CELLS_PER_ROUND, classes, time, spans, fresh, slopes, changed)
