"""Hints in a world: some changes give one, late or at once, and some hints come without a change."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from unstale.arguments import scalar
from unstale.draws import HINTS, key_of, uniforms
from unstale.processes import Poisson

from .events import Drawn, Events, by_element

if TYPE_CHECKING:
    from .worlds import World

__all__ = ["HintSource", "NoisyHints"]


@dataclass(frozen=True)
class NoisyHints:
    """How reliable the hints of a world are.

    >>> NoisyHints(recall=0.8, precision=0.5).false_alarms
    0.8
    """

    recall: float
    """Share of changes that give a hint."""
    precision: float = 1.0
    """Share of hints that come of a change."""
    delay: float = 0.0
    """How long after its change a hint comes, on average; 0: at once."""

    def __post_init__(self) -> None:
        limits = {"recall": {"at_least": 0.0}, "precision": {"above": 0.0}}
        for part in fields(self):
            scalar(part.name, getattr(self, part.name), **limits.get(part.name, {"at_least": 0.0}),
                   at_most=np.inf if part.name == "delay" else 1.0)  # fmt: skip

    @property
    def false_alarms(self) -> float:
        """Hints without a change, for each change."""
        return self.recall * (1.0 / self.precision - 1.0)


class HintSource:
    """The hints of a world, span after span; the same for the same seed, however time is cut into spans."""

    def __init__(self, world: World, hints: NoisyHints, seed: int) -> None:
        self._n, self._hints = len(world), hints
        self._given, self._delays = key_of(seed, HINTS, 0), key_of(seed, HINTS, 1)
        self._counts = np.zeros(self._n, np.int64)
        false = Poisson(hints.false_alarms * world.mean_rates)
        self._false = Drawn(self._n, [(false, None)], seed, HINTS)
        self._late = np.empty(0, np.int64), np.empty(0)

    def until(self, changes: Events, end: float) -> Events:
        """Return the hints since the last call, before ``end``; ``changes`` are those of the same time."""
        elements = np.repeat(np.arange(self._n), np.diff(changes.offsets))
        numbers = self._counts[elements] + np.arange(elements.size) - changes.offsets[elements]
        self._counts += np.diff(changes.offsets)
        given = uniforms(self._given, elements, numbers) < self._hints.recall
        elements, numbers = elements[given], numbers[given]
        late_by = -self._hints.delay * np.log(uniforms(self._delays, elements, numbers))
        times = changes.times[given] + late_by
        false = self._false.until(end)
        places = np.concatenate(
            [self._late[0], elements, np.repeat(np.arange(self._n), np.diff(false.offsets))]
        )
        moments = np.concatenate([self._late[1], times, false.times])
        late = moments >= end
        self._late = places[late], moments[late]
        return by_element(self._n, places[~late], moments[~late])
