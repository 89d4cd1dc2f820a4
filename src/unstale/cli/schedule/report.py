"""The report of a schedule: how many polls, when most, and what its windows or its jitter cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from unstale.arguments import Floats
from unstale.cli.shared.printing import print_table, printable, say
from unstale.cli.shared.problem import LoadedProblem, Task
from unstale.cli.shared.when import show_moment
from unstale.planning import Plan
from unstale.polling import mean_cost
from unstale.quantities import show_duration, show_number, show_share
from unstale.schedule import WindowClock
from unstale.schedule.window_costs import windowed_cost
from unstale.tables import as_list, law_of
from unstale.wording import plural

POLLS_SHOWN = 10
"""Polls that are shown."""
_ELEMENTS_SAMPLED = 200
"""Elements on which what takes long to compute is computed."""


def in_milliseconds(seconds: Floats) -> NDArray[np.int64]:
    """Return whole milliseconds, not rounded up, so that polls stay inside their windows.

    >>> import numpy as np
    >>> in_milliseconds(np.array([0.1 * 86400, 1.9999])).tolist()
    [8640000, 1999]
    """
    return np.floor(seconds * 1e3 + 1e-4).astype(np.int64)


def times_of(milliseconds: NDArray[np.int64], start: datetime | None) -> Any:  # noqa: ANN401
    """Return the column of times: seconds from the beginning, or timestamps if it has a date."""
    if start is None:
        return milliseconds / 1e3
    return np.datetime64(start.replace(tzinfo=None), "ms") + milliseconds


@dataclass
class ScheduleCounts:
    """Counts of polls, taken in the order of time."""

    polls: int = 0
    busiest: int = 0
    """Polls in the busiest minute."""
    busiest_minute: int = 0
    """Which one it is, counted from the beginning."""
    first: list[tuple[str | float, str | int]] = field(default_factory=list)
    """The first polls: time and key."""
    _minute: int = -1
    _in_minute: int = 0

    def add(self, milliseconds: NDArray[np.int64]) -> None:
        """Count more polls."""
        self.polls += len(milliseconds)
        minutes, counts = np.unique(milliseconds // 60_000, return_counts=True)
        if not len(minutes):
            return
        if minutes[0] == self._minute:  # it goes on from the last block
            counts[0] += self._in_minute
        most = int(np.argmax(counts))
        if counts[most] > self.busiest:
            self.busiest, self.busiest_minute = int(counts[most]), int(minutes[most])
        self._minute, self._in_minute = int(minutes[-1]), int(counts[-1])

    def show(self, times: Any, keys: Any) -> None:  # noqa: ANN401  (columns of a block)
        """Keep the first polls."""
        room = POLLS_SHOWN - len(self.first)
        if room > 0:
            self.first += zip(as_list(times[:room]), as_list(keys[:room]), strict=True)


def as_scheduled(problem: LoadedProblem, plan: Plan, clock: WindowClock | None, jitter: float) -> float:
    """Return the freshness of a plan whose polls are made by a clock, or vary by jitter.

    Where that takes long it is worked out for some elements, evenly chosen in the order of their rates.
    """
    if clock is None and not jitter:
        return plan.freshness

    elements, order = problem.elements, problem.task.order
    places = np.arange(len(elements))
    slow = problem.task.uncertain > 0 or (clock is not None and (jitter > 0 or order == "random"))
    if slow and len(elements) > _ELEMENTS_SAMPLED:
        chosen = np.linspace(0, len(elements) - 1, _ELEMENTS_SAMPLED).round().astype(int)
        places = np.argsort(elements.rates, kind="stable")[chosen]
    weights = np.ones(len(places)) if elements.weights is None else elements.weights[places]
    changing = elements.rates[places] > 0  # the others are always fresh
    if not (weights * changing).any():
        return plan.freshness
    law, frequencies = law_of(elements, places[changing]), plan.frequencies[places[changing]]
    more = windowed_cost("freshness", law, frequencies, clock, order, jitter=jitter) - mean_cost(
        "freshness", law, frequencies, order
    )
    return plan.freshness - float(weights[changing] @ more / weights.sum())


@dataclass(frozen=True, eq=False)
class ScheduleReport:
    """The answer of ``unstale schedule``, but for the polls."""

    task: Task
    policy: str
    length: float
    """In seconds."""
    start: datetime | None
    counted: ScheduleCounts
    planned: float
    """Freshness of the plan, whose polls may come at any time and at constant intervals."""
    expected: float | None
    """Freshness as scheduled; None if no formula tells."""
    cause: str
    """What makes a difference to the plan; nothing if nothing does."""
    out: str | None

    def as_json(self) -> dict[str, Any]:
        """Return the answer as ``--json`` prints it."""
        busiest = {"time": self._minute(), "polls": self.counted.busiest}
        return {
            **self.task.as_json(),
            "policy": self.policy,
            "start": self.start and self.start.isoformat(),
            "seconds": self.length,
            "polls": self.counted.polls,
            "polls_per_hour": self.counted.polls / self.length * 3600,
            "busiest_minute": busiest if self.counted.polls else None,
            "freshness_planned": self.planned,
            "freshness": self.expected,
            "first": [{"time": time, "key": key} for time, key in self.counted.first],
            "out": self.out,
        }

    def _minute(self) -> str | float:
        """When the busiest minute begins, as times are written."""
        begins = timedelta(minutes=self.counted.busiest_minute)
        return begins.total_seconds() if self.start is None else (self.start + begins).isoformat()

    def print(self, screen: Console, *, with_polls: bool) -> None:
        """Print the summary, perhaps with the first polls, and what to do next."""
        screen.print(f"{self.task}")
        say(screen, self._summary(), apart=False)
        if self.cause and self.expected is not None:
            say(screen, self._cost(self.expected))
        if with_polls and self.counted.first:
            heading = "time (UTC)" if self.start else "seconds"
            screen.print()
            rows = [(printable(key), _shown(time)) for time, key in self.counted.first]
            print_table(screen, ("key", heading), rows, shorten=True)
            if self.counted.polls > len(rows):
                screen.print(f"... and {self.counted.polls - len(rows):,} more")
        if self.out is not None:
            times = "timestamps in UTC" if self.start else "seconds from the beginning"
            say(screen, f"{self.out} has the polls, in the order of time; times are {times}.")
        elif with_polls:
            say(screen, "--out polls.csv writes all polls to a file.")

    def _summary(self) -> str:
        counted = self.counted
        begin = f" from {show_moment(self.start)}" if self.start else ""
        said = f"{show_duration(self.length)}{begin}: {plural(counted.polls, 'poll')}"
        if not counted.polls:
            return said
        hourly = show_number(counted.polls / self.length * 3600)
        begins = timedelta(minutes=counted.busiest_minute)
        when = f"{self.start + begins:%Y-%m-%d %H:%M}" if self.start else f"after {_after(begins)}"
        return f"{said}, {hourly} polls/hour; {counted.busiest:,} in the busiest minute ({when})"

    def _cost(self, expected: float) -> str:
        lost, verb = 100 * (self.planned - expected), "costs" if self.cause == "Jitter" else "cost"
        points = f"{self.cause} {verb} {show_number(lost)} points of freshness"
        if lost < 0.05:
            return f"{points}: copies are still {show_share(expected)} fresh."
        return f"{points}: copies are {show_share(expected)} fresh instead of {show_share(self.planned)}."


def _after(begins: timedelta) -> str:
    return show_duration(begins.total_seconds()) if begins else "0 minutes"


def _shown(time: str | float) -> str:
    """Return a time for people; timestamps lose their T and Z."""
    if isinstance(time, str):
        return datetime.fromisoformat(time).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    return f"{time:,.3f}"
