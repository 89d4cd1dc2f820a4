"""What the policy asks of limits: how many polls there may be, and when each may start."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats

UNLIMITED = 1 << 40
"""Polls of a group at the same time, where nothing limits them."""


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """What a group must keep to, and what it has used."""

    name: str
    spacing: float
    """Time between the starts of two polls, at least."""
    concurrency: int
    """Polls that may run at the same time."""
    paid: float
    """From this moment on the next poll may start."""
    blocked: float
    """Before this moment the source wants no poll,"""
    why: str
    """for this reason."""
    fastest: float
    """Polls per unit time that the spacing allows."""


class Slots(NamedTuple):
    """Polls that got a slot: their places in what was asked for, when each starts, how late it may be."""

    which: NDArray[np.intp]
    start: Floats
    late: Floats


class Limits(Protocol):
    """What the policy asks of limits; `RateLimits` are some."""

    def rate(self, size: float) -> float:
        """Return how many polls of such a size the budget pays for per unit time."""

    def next(self, now: float) -> float:
        """Return from when on the budget allows the next poll."""

    @property
    def reserve(self) -> float:
        """Return the time of which unspent budget is kept."""

    def left(self, now: float, end: float) -> float:
        """Return the time whose budget can be spent on polls that start before ``end``."""

    def affordable(self, now: float, end: float, size: float) -> float:
        """Return how many polls of such a size can start before ``end``."""

    def costs(self, sizes: Floats) -> Floats:
        """Return what polls cost, per unit of the budget."""

    def steps(self, sizes: Floats) -> Floats:
        """Return how long after polls of such sizes the next may start."""

    def free(self, groups: NDArray[np.integer], now: float, end: float) -> NDArray[np.int64]:
        """Return how many more polls of groups may be handed out that start before ``end``."""

    def assign(
        self,
        groups: NDArray[np.integer],
        sizes: Floats,
        *,
        now: float,
        end: float,
        room: int,
        apart: float = 0.0,
    ) -> Slots:
        """Give polls their slots, the first the earliest.

        Parameters
        ----------
        groups, sizes
            The group of each poll, and what it costs.
        now, end
            Slots lie between the two.
        room
            Polls that get one, at most.
        apart
            Time between two slots, at least.
        """

    def hand_out(self, numbers: Iterable[int]) -> None:
        """Take in which polls are handed out now: one number of a group for each."""

    def settle(self, expected: float, traffic: float, now: float) -> None:
        """Set right what a poll was charged, now that it is known what it took."""

    def forgive(self, group: int) -> None:
        """Let a group be tried again that is left alone because its polls failed."""

    def saw(self, groups: NDArray[np.integer], failed: NDArray[np.bool_], time: Floats) -> None:
        """Take in how polls of groups went."""


AnyLimits_co = TypeVar("AnyLimits_co", bound=Limits, covariant=True)
