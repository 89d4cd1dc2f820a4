"""What ``unstale run`` shows: a calm screen on a terminal, plain lines in a log, JSON lines on request."""

from __future__ import annotations

import json
import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

import click
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from unstale.cli.shared.printing import printable
from unstale.errors import UnstaleError
from unstale.mirror.engine.events import Event
from unstale.mirror.engine.rehearsal import without_compiler
from unstale.mirror.json_values import as_json, moment
from unstale.mirror.reports.status import Status
from unstale.quantities import show_duration
from unstale.wording import distance, plural, show_first_copies, show_size, show_time

from .report import show_interval, show_outcomes
from .status import elements_of, limited, status_pairs

_LOOK_SECONDS = 5.0
"""Between two looks at the whole mirror, at least."""
_LOOKING_SHARE = 0.02
"""Share of the time that these looks may take."""
_SUMMARY_SECONDS = 60.0
"""Between two summaries."""
_FIRST_COPIES_SECONDS = 10.0
"""Between two lines that say how far first copies are."""
_LATEST_CHANGES = 8
"""On the screen."""
_SHORT_WAIT_SECONDS, _ENDLESS_WAIT_SECONDS = 5.0, 1e9
"""For which nobody minds that there is no poll, and which no budget makes one wait for."""
_MOST_FAILURE_LINES = 20
"""In a minute; after that, polls that saw nothing are only counted."""


@dataclass
class Seen:
    """What has happened since the start; and how the mirror is, looked at now and then."""

    look: Callable[[], Status | None]
    """Returns nothing while that would take long, as at the very first start."""
    clock: Callable[[], float] = time.monotonic
    started: float = field(init=False)
    outcomes: Counter[str] = field(default_factory=Counter)
    traffic: int = 0
    changes: int = 0
    new: int = 0
    lately: deque[tuple[float, str, str, int]] = field(default_factory=lambda: deque(maxlen=_LATEST_CHANGES))
    trouble: str = ""
    budget: str = ""
    """In words, to say why there is no poll for a while."""
    next: float = 0.0
    """When the budget allows the next poll."""
    begun: bool = False
    """Whether something has happened: until then elements are read."""
    first_copies: str = ""
    """How far it is with them, in words; empty if there are all."""
    status: Status | None = None
    hurried: bool = False
    """Whether somebody waits for the end: nothing is compiled for the last look."""
    _next: float = field(init=False)
    _looking: threading.Thread | None = None

    def __post_init__(self) -> None:
        """Start the clock."""
        self.started = self._next = self.clock()

    def take(self, event: Event) -> None:
        """Count an event."""
        self.begun = self.begun or event.kind != "planner"
        if event.kind == "poll":
            self.outcomes[str(event.data.get("outcome", "seen"))] += 1
            self.traffic += int(event.data.get("traffic", 0))
        elif event.kind == "change":
            first = bool(event.data.get("first"))
            self.new += first
            self.changes += not first
            size = int(event.data.get("size", 0))
            self.lately.appendleft((event.time, "new" if first else "changed", event.key, size))
        elif event.kind == "trouble":
            self.trouble = f"{event.key}: {event.detail}" if event.key else event.detail
        elif event.kind == "recovered":
            self.trouble = ""
        elif event.kind == "tick":
            self.next = float(event.data.get("next", 0.0))
            self.first_copies = _first_copies(
                event.data.get("first_copies"), int(event.data.get("in_flight", 0))
            )

    def waits(self, now: float) -> str:
        """Return for how long there is no poll and why, in words; empty if not for long."""
        if not now + _SHORT_WAIT_SECONDS < self.next < now + _ENDLESS_WAIT_SECONDS:
            return ""
        return f"{distance(self.next, now)}; the budget is {self.budget}"

    def look_again(self) -> None:
        """Look at the whole mirror in the background, if it is time; it may take a while."""
        if self.clock() < self._next or (self._looking is not None and self._looking.is_alive()):
            return
        self._looking = threading.Thread(target=self.look_now, daemon=True)
        self._looking.start()

    def look_now(self) -> None:
        """Look at the whole mirror."""
        began = self.clock()
        with suppress(UnstaleError):  # the worker has the same trouble, and tells it
            self.status = self.look() or self.status
        self._next = self.clock() + max(_LOOK_SECONDS, (self.clock() - began) / _LOOKING_SHARE)

    def end(self) -> None:
        """Look for the last time."""
        if self._looking is not None and self._looking.is_alive():
            if self.hurried:
                return
            self._looking.join()
        if self.hurried:
            look, self.look = self.look, lambda: without_compiler(look)
        self.look_now()

    @property
    def ran(self) -> float:
        """Seconds since the start."""
        return self.clock() - self.started

    def summary(self) -> str:
        """Return the last line of a run."""
        found = f"{plural(self.changes, 'change')}, {plural(self.new, 'new element')}"
        return f"{show_outcomes(self.outcomes)}; {found}; {show_size(self.traffic)} moved"

    def as_json(self) -> dict[str, Any]:
        """Return the summary for JSON."""
        return {
            "seconds": round(self.ran, 3),
            "polls": dict(self.outcomes),
            "changes": self.changes,
            "new": self.new,
            "bytes": self.traffic,
            "freshness": None if self.status is None else as_json(self.status.freshness),
        }


class JsonLines:
    """Each event is a line."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen

    def __call__(self, event: Event) -> None:
        """Print what happened; ticks are only counted."""
        self.seen.take(event)
        if event.kind == "tick":
            return

        record = {
            "time": moment(event.time),
            "event": event.kind,
            "key": event.key,
            "detail": event.detail,
            "data": as_json(event.data),
        }
        click.echo(json.dumps(record, ensure_ascii=False))

    def end(self) -> None:
        """Print the summary."""
        self.seen.end()
        click.echo(json.dumps({"event": "end", **self.seen.as_json()}))


class LogLines:
    """One line for each change, one for all each minute; trouble, and the first failure of each, at once."""

    def __init__(self, seen: Seen, *, quiet: bool = False) -> None:
        self.seen, self.quiet = seen, quiet
        self._next = seen.clock() + _SUMMARY_SECONDS
        self._before: Counter[str] = Counter()
        self._bad: dict[str, str] = {}
        """Elements for which a line said that polls saw nothing, and what they saw."""
        self._told = 0
        self._waits = False
        """Whether a line said that the budget makes polls wait."""
        self._next_first = seen.clock()
        """When a line says again how far first copies are."""

    def __call__(self, event: Event) -> None:
        """Print what is worth a line."""
        self.seen.take(event)
        if event.kind == "change" and not self.quiet:
            when, what, key, size = self.seen.lately[0]
            self._line(when, what, f"{printable(key)} ({show_size(size)})")
        elif event.kind in {"trouble", "recovered", "dropped", "archived"}:
            about = f"{printable(event.key)}: " if event.key else ""
            self._line(event.time, event.kind, about + printable(event.detail))
        elif event.kind == "poll" and not self.quiet:
            self._poll(event)
        elif event.kind == "tick" and not self.quiet and not self._waits:
            if waits := self.seen.waits(event.time):
                self._waits = True
                self._line(event.time, "next poll", waits)
        elif event.kind == "planner" and not self.quiet:
            self._line(event.time, "planner", printable(event.detail))
        if self.seen.first_copies and self.seen.clock() >= self._next_first and not self.quiet:
            self._next_first = self.seen.clock() + _FIRST_COPIES_SECONDS
            self._line(event.time, "first", f"first copies: {self.seen.first_copies}")
        if self.seen.clock() >= self._next and not self.quiet:
            self._summary(event.time)

    def _poll(self, event: Event) -> None:
        """Tell once that polls of an element see nothing, and when they do again."""
        outcome, before = str(event.data.get("outcome", "")), self._bad.get(event.key)
        if outcome not in {"failed", "gone", "refused"}:
            if before is not None:
                del self._bad[event.key]
                self._line(event.time, "back", printable(event.key))
        elif outcome != before and self._told < _MOST_FAILURE_LINES:
            self._told += 1
            self._bad[event.key] = outcome
            why = f": {printable(event.detail)}" if event.detail else ""
            self._line(event.time, outcome, f"{printable(event.key)}{why}")

    def _summary(self, now: float) -> None:
        self._next = self.seen.clock() + _SUMMARY_SECONDS
        self._told = 0
        self.seen.look_again()
        polls = self.seen.outcomes - self._before
        self._before = self.seen.outcomes.copy()
        text = f"{show_outcomes(polls)} in the last minute"
        if self.seen.status is not None and elements_of(self.seen.status):
            share = self.seen.status.freshness
            text += f"; fresh now: {show_interval(share.value, share.low, share.high)}"
        self._line(now, "summary", text)

    @staticmethod
    def _line(when: float, what: str, text: str) -> None:
        click.echo(f"{show_time(when)}  {what:9}  {text}")

    def end(self) -> None:
        """Print the summary."""
        if not self.quiet:
            click.echo(f"Ran for {show_duration(self.seen.ran)}: {self.seen.summary()}")


class Screen:
    """A screen that stands still: only its numbers change."""

    def __init__(self, seen: Seen, title: str, out: Console) -> None:
        self.seen, self.title, self.out = seen, title, out
        self.live: Live = Live(
            get_renderable=self.picture,
            console=out,
            refresh_per_second=2,
            transient=True,
            redirect_stderr=False,
        )

    def __enter__(self) -> Self:
        """Begin to draw."""
        self.live.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """Wipe it off."""
        self.live.stop()

    def __call__(self, event: Event) -> None:
        """Take in what happened."""
        self.seen.take(event)
        if event.kind == "tick":
            self.seen.look_again()

    def picture(self) -> Group:
        """Return the screen as it is now."""
        seen, width = self.seen, self.out.width
        lines = [Text(self._heading(), style="bold"), Text("")]
        lines += [self._pair(name, value) for name, value in self._pairs()]
        if seen.lately:
            lines += [Text(""), Text("lately", style="bold")]
            now = time.time()
            for when, what, key, size in list(seen.lately)[: self._room()]:
                text = f"  {distance(when, now):>16}  {what:7}  {show_size(size):>8}  {printable(key)}"
                lines.append(_cut(Text(text), width))
        if seen.status is not None:
            held = [(group.name, limited(group, seen.status.now)) for group in seen.status.groups]
            told = [f"  {printable(name)}: {why}" for name, why in held if why]
            if told:
                lines += [
                    Text(""),
                    Text("limited", style="bold"),
                    *(_cut(Text(one), width) for one in told[:4]),
                ]
        if seen.trouble:
            lines += [Text(""), Text(f"trouble: {printable(seen.trouble)}", style="bold red")]
        lines += [Text(""), Text("Ctrl-C ends the mirror; it keeps what it has learned.", style="dim")]
        return Group(*lines)

    def _heading(self) -> str:
        count = "" if self.seen.status is None else f": {plural(elements_of(self.seen.status), 'element')}"
        return f"{self.title}{count}, running for {show_duration(float(round(self.seen.ran)))}"

    def _pairs(self) -> list[tuple[str, str]]:
        if not self.seen.begun:
            return [("starting", "the mirror reads its elements, and polls in a moment")]
        since = ("since the start", self.seen.summary())
        waits = self.seen.waits(time.time())
        soon = [("next poll", waits)] if waits else []
        told_soon = [("fresh now", "known in a moment: unstale loads its formulas, or compiles them once")]
        pairs = told_soon if self.seen.status is None else status_pairs(self.seen.status)
        pairs = [pair for pair in pairs if pair[0] != "first copies"]
        first = [("first copies", self.seen.first_copies)] if self.seen.first_copies else []
        return [*first, *pairs, since, *soon]

    def _pair(self, name: str, value: str) -> Any:  # noqa: ANN401  (whatever rich prints)

        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(width=15, style="dim")
        table.add_column(overflow="fold")
        table.add_row(name, value)
        return table

    def _room(self) -> int:
        """Return how many changes fit."""
        return max(min(self.out.height - 18, _LATEST_CHANGES), 2)

    def end(self) -> None:
        """Print the summary."""
        self.seen.end()
        self.out.print(f"Ran for {show_duration(self.seen.ran)}: {self.seen.summary()}", soft_wrap=True)
        if self.seen.status is not None:
            for name, value in status_pairs(self.seen.status)[:1]:
                self.out.print(f"{name}: {value}", soft_wrap=True)


def _first_copies(told: Any, in_flight: int) -> str:  # noqa: ANN401  (what an event carries)
    """Return how far it is with first copies, in words; empty if there are all."""
    if not told:
        return ""
    left = int(told["total"]) - int(told["done"])
    if in_flight >= left:  # how long an answer takes nobody knows
        return f"{told['done']:,} of {told['total']:,}; waiting for {plural(left, 'answer')}"
    seconds = math.inf if told["seconds"] is None else float(told["seconds"])
    return show_first_copies(int(told["done"]), int(told["total"]), seconds)


def _cut(text: Any, width: int) -> Any:  # noqa: ANN401  (a text of rich)
    text.truncate(width, overflow="ellipsis")
    return text
