"""The mirror on a recorded history: the real loop and a real store, in simulated time.

A source gives each element as many versions as the record says; the mirror polls it as it would poll anything
else, and its polls are noted. It starts without copies, keeps its budget over every minute however late polls
might be (which takes 0.8 % of it), and is started anew when its budget changes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from unstale.arguments import Floats
from unstale.mirror.clock import SimulatedClock
from unstale.mirror.mirror import Mirror
from unstale.mirror.settings import GroupLimit, Settings
from unstale.mirror.source import Found, Json, Known, New, Terms
from unstale.policy.learning_policy import STEPS_PER_ROUND
from unstale.schedule import Polls

from .histories import Recorded

_DAY_SECONDS = 86400.0
_START_SECONDS = 1.7e9
"""When the history is played, in seconds since 1970."""
_MEMORY_FOLDER = "/dev/shm"  # noqa: S108  (a folder of its own is made in it)
"""A file system in memory, where there is one: nothing need outlive the game."""
_TIDY = 1000.0
"""Turns after which the store is tidied: a turn may be a day, and tidying each time takes half of it all."""
_BODY = b"as recorded"
"""What all versions contain: copies of one content are kept once. A fingerprint tells versions apart."""


class _Source:
    """Elements that change as recorded; all polls are noted."""

    def __init__(self, changes: list[Floats], clock: SimulatedClock) -> None:
        self._changes, self._clock = changes, clock
        self.times: list[float] = []
        self.elements: list[int] = []

    def key(self, text: str, options: Mapping[str, Json]) -> str:  # noqa: ARG002  (there are none)
        return text

    def group(self, key: str, options: Mapping[str, Json]) -> str:  # noqa: ARG002
        return "recorded"

    async def poll(self, known: Known, terms: Terms) -> Found:  # noqa: ARG002
        element, now = int(known.key), (self._clock.now() - _START_SECONDS) / _DAY_SECONDS
        self.times.append(now)
        self.elements.append(element)
        version = str(int(np.searchsorted(self._changes[element], now, side="right")))
        if version == known.fingerprint:
            return Found("unchanged", "the same version")
        return Found("changed", f"version {version}", body=_BODY, fingerprint=version)

    async def close(self) -> None:
        """There is nothing to close."""


class Replayed:
    """Polls that were made, as a schedule."""

    def __init__(self, polls: Polls, count: int, end: float) -> None:
        self._polls, self._count, self._end = polls, count, end
        self._given, self._now = 0, 0.0

    def __len__(self) -> int:
        return self._count

    @property
    def now(self) -> float:
        """The moment up to which polls have been given."""
        return self._now

    @property
    def rate(self) -> float:
        """Polls per day."""
        return len(self._polls) / self._end

    def until(self, end: float) -> Polls:
        """Return the polls from now on to just before ``end``, which is now afterwards."""
        start, self._given = self._given, int(np.searchsorted(self._polls.times, end))
        self._now = end
        return Polls(self._polls.times[start : self._given], self._polls.elements[start : self._given])


def mirror_polls(
    recorded: Recorded,
    budgets: Mapping[float, float],
    *,
    objective: str = "freshness",
    weights: Floats | None = None,
) -> Polls:
    """Return the polls that the mirror makes, with these budgets in polls per day from these days on.

    >>> from unstale.lab.histories import load
    >>> recorded = load().since(7500.0)
    >>> polls = mirror_polls(recorded, {0.0: 2.0})
    >>> 0.95 < len(polls) / (2.0 * recorded.end) < 1.0
    True
    """
    count = len(recorded)
    ends = np.cumsum(np.bincount(recorded.elements, minlength=count))[:-1]
    clock = SimulatedClock(_START_SECONDS)
    source = _Source(np.split(recorded.times, ends), clock)
    heavy = np.ones(count) if weights is None else weights
    with tempfile.TemporaryDirectory(dir=_MEMORY_FOLDER if Path(_MEMORY_FOLDER).is_dir() else None) as folder:
        for start, end in zip(budgets, [*list(budgets)[1:], recorded.end], strict=True):
            settings = Settings(
                budget=budgets[start] / _DAY_SECONDS,
                reserve=0.0,  # so that all policies of a shoot-out have as many polls
                objective=objective,
                groups=(GroupLimit(concurrency=1 << 30),),
                concurrency=1000,
                keep=1,
            )
            round_ = count / settings.budget if settings.budget else np.inf
            with Mirror(
                Path(folder) / "mirror.db",
                settings=settings,
                sources={"recorded": source},
                clock=clock,
                tick=round_ / STEPS_PER_ROUND,
                sample_every=np.inf,
                tidy_every=_TIDY * round_ / STEPS_PER_ROUND,
            ) as mirror:
                if start == 0.0:
                    for weight in np.unique(heavy):
                        alike = np.flatnonzero(heavy == weight).tolist()
                        mirror.add_many([New(str(k), "recorded") for k in alike], {"weight": float(weight)})
                mirror.run(_START_SECONDS + end * _DAY_SECONDS)
    order = np.argsort(source.times, kind="stable")
    times = np.clip(np.array(source.times)[order], 0.0, np.nextafter(recorded.end, 0.0))
    return Polls(times, np.array(source.elements, np.int64)[order])
