"""What the worker says while it works: events, which commands show to people."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import local
from typing import Any

from unstale.mirror.clock import Clock
from unstale.mirror.store.contract import Finished, Version


@dataclass(frozen=True, slots=True)
class Event:
    """Something that a person may want to know of."""

    time: float
    kind: str
    """``poll``, ``change``, ``trouble``, ``recovered``, ``tick``, ``planner``, ``dropped``,
    ``archived``."""
    key: str = ""
    detail: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


class EventEmitter:
    """Emits events to a listener; without one, none are made."""

    def __init__(self, clock: Clock, listener: Callable[[Event], None] | None) -> None:
        self._clock, self._listener = clock, listener
        self._thread = local()

    @property
    def heard(self) -> bool:
        """Whether anybody listens."""
        return self._listener is not None

    def emit(self, kind: str, detail: str, key: str = "", **data: Any) -> None:  # noqa: ANN401
        """Emit an event that happens now."""
        if self._listener is not None:
            held: list[Event] | None = getattr(self._thread, "held", None)
            tell = self._listener if held is None else held.append
            tell(Event(self._clock.now(), kind, key, detail, data))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Emit what happens in here, in this thread, at its end: a listener may want the store for itself."""
        happened: list[Event] = []
        self._thread.held = happened
        try:
            yield
        finally:
            self._thread.held = None
            if self._listener is not None:
                for event in happened:
                    self._listener(event)

    def recorded(self, finished: Sequence[Finished], versions: Sequence[Version]) -> None:
        """Emit a ``poll`` for each poll that was recorded, and a ``change`` for each version it brought."""
        if self._listener is None:
            return
        for one in finished:
            if one.found is not None:
                data = {"outcome": one.outcome, "traffic": one.found.traffic, "seconds": one.seconds}
                data |= {"began": one.began, "source": one.lease.source}
                self.emit("poll", one.found.detail, one.lease.known.key, **data)
        for version in versions:
            data = {"version": version.id, "size": version.size, "first": version.first}
            self.emit("change", "new" if version.first else "changed", version.key, **data)
