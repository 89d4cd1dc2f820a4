"""Policies that poll beside the mirror of a demonstration, on the same changes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from math import nan

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats
from unstale.planning import plan
from unstale.planning.allocation import Policy
from unstale.processes import Process
from unstale.schedule import Schedule

from .site import ChangingSite

POLICIES: tuple[Policy, ...] = ("optimal", "uniform", "proportional")
"""The policies that poll beside the mirror; the first and the last know all rates."""

Ids = NDArray[np.int64]


class Rival:
    """Polls whenever the mirror does: each page once, by weight, and then at the frequencies of its plan.

    Where its plan has to be compiled, that comes seconds later. Then it puts off the polls that need it, and
    makes up for them: all changes are known, so nothing depends on when that is computed.
    """

    def __init__(self, site: ChangingSite) -> None:
        self._site = site
        self._pages: Iterator[int] = iter(np.argsort(-site.weights, kind="stable").tolist())
        self._put_off: deque[tuple[float, bool]] = deque()
        """Times of polls, and of looks (True), that it has not come to."""
        self.held: Ids = np.full(len(site), -1, np.int64)
        """The version that it holds of each page."""
        self.freshness: list[float] = []
        """At each look that it has come to."""

    def follow(self, frequencies: Floats) -> None:
        """Take a plan, and make up for what was put off."""
        self._pages = chain(self._pages, (page for _, page in Schedule(frequencies)))
        self._go_on()

    def poll(self, times: Iterable[float]) -> None:
        """Poll at these moments."""
        self._put_off.extend((time, False) for time in times)
        self._go_on()

    def look(self, now: float) -> float:
        """Record how fresh the copies are; return it, nan if it is not known yet."""
        self._put_off.append((now, True))
        self._go_on()
        return nan if self._put_off else self.freshness[-1]

    @property
    def has_caught_up(self) -> bool:
        """Whether it has made all its polls."""
        return not self._put_off

    def _go_on(self) -> None:
        while self._put_off:
            time, is_look = self._put_off[0]
            if is_look:
                self.freshness.append(self._site.true_freshness(self.held, time))
            elif (page := next(self._pages, None)) is not None:
                self.held[page] = self._site.version(page, time)
            else:  # there is no plan yet
                return
            self._put_off.popleft()


@dataclass(frozen=True)
class RivalPlan:
    """What the plan of a policy is."""

    frequencies: Floats
    freshness: float


def rival_plans(
    laws: list[Process], budget: float, weights: Floats, names: Iterable[Policy]
) -> list[RivalPlan]:
    """Plan for policies, and begin a schedule, so that its kernels are compiled."""
    plans = [plan(laws, budget, weights=weights, policy=name) for name in names]
    for one in plans:
        next(iter(Schedule(one.frequencies)))
    return [RivalPlan(one.frequencies, one.freshness) for one in plans]
