"""What the planner keeps of each element, as columns: some 400 bytes each, with what is learned of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arguments import Floats
from ..estimation.learner import Learner
from ..schedule import Windows
from .store import STATES, Columns, Ids

__all__ = ["FAILING", "GONE", "NEW", "OK", "REFUSED", "REMOVED", "STATES", "Places", "Rows"]

Places = NDArray[np.intp]

NEW, OK, GONE, FAILING, REFUSED, REMOVED = range(6)

_COLUMNS: Mapping[str, tuple[type, float]] = {
    "id": (np.int64, 0), "group": (np.int32, 0), "added": (np.float64, 0.0), "last": (np.float64, np.nan),
    "not_before": (np.float64, 0.0), "failures": (np.int32, 0), "weight": (np.float32, 0.0),
    "size": (np.float32, np.nan), "max_age": (np.float32, inf), "min_interval": (np.float32, 0.0),
    "jitter": (np.float32, 0.0), "window": (np.int16, 0), "state": (np.int8, 0), "look": (np.float64, -inf),
    "reads": (np.float32, 1.0), "channel": (np.int16, 0), "hints": (np.int16, 0), "busy": (np.bool_, 0),
}  # fmt: skip
_GIVEN = (
    "id", "group", "added", "last", "not_before", "failures", "weight", "size", "max_age", "min_interval",
    "jitter",
)  # fmt: skip


class Rows:
    """Columns, in the order of the elements' numbers, and the learner that has a row for each of them.

    ``look``: no sooner is it worth looking at the element. ``busy``: a poll of it is handed out. ``reads``:
    what its weight is multiplied by. ``channel`` and ``hints``: who gives hints about it, and how many since
    the last poll.
    """

    def __init__(self) -> None:
        self._columns: dict[str, NDArray[Any]] = {
            name: np.empty(0, kind) for name, (kind, _) in _COLUMNS.items()
        }
        self.clocks: list[Any] = [None]
        """Of windows, by number; 0 is any time."""
        self._windows = {"": 0}
        self.learner = Learner(0, round=1.0)

    def __len__(self) -> int:
        return int(self._columns["id"].size)

    def __getitem__(self, column: str) -> NDArray[Any]:
        return self._columns[column]

    def places(self, ids: Iterable[int] | Ids) -> Places:
        """Return where elements are, all of which must be there."""
        return np.searchsorted(self["id"], np.asarray(ids, np.int64))

    def has(self, ids: Sequence[int] | Ids) -> NDArray[np.bool_]:
        """Tell which elements are there."""
        wanted = np.asarray(ids, np.int64)
        if not len(self):
            return np.zeros(wanted.size, np.bool_)
        at = np.minimum(self.places(wanted), len(self) - 1)
        return self["id"][at] == wanted

    def known(self, ids: Sequence[int]) -> list[int]:
        """Return those of the elements that are there."""
        return [i for i, there in zip(ids, self.has(ids).tolist(), strict=True) if there]

    def reserve(self, count: int, shared: Mapping[str, Any] | None) -> None:
        """Make room for so many elements, all at once, and go on from what was learned of all together."""
        self._columns = {name: np.full(count, blank, kind) for name, (kind, blank) in _COLUMNS.items()}
        self["id"][:] = np.iinfo(np.int64).max
        self.learner = Learner(0, round=1.0)
        if shared is not None:
            self.learner = Learner.resume({**shared, "evidence": self.learner.evidence})
        self.learner.add(count)

    def fill(self, start: int, columns: Columns) -> None:
        """Take up elements, in the order of their numbers, where room was made; make more if need be."""
        if (more := start + columns.id.size - len(self)) > 0:
            for name, (kind, blank) in _COLUMNS.items():
                self._columns[name] = np.concatenate([self[name], np.full(more, blank, kind)])
            self.learner.add(more)
        self._write(np.arange(start, start + columns.id.size), columns, np.arange(columns.id.size))

    def leave_out(self, start: int) -> None:
        """Leave out room that was not needed: there is nothing in it."""
        self["state"][start:], self["look"][start:] = REMOVED, inf

    def take_up(self, columns: Columns) -> None:
        """Take up new elements, and what is new about others."""
        known = self.has(columns.id)
        self._write(self.places(columns.id[known]), columns, np.flatnonzero(known))
        new = np.flatnonzero(~known)
        if not new.size:
            return
        start = len(self)
        for name, (kind, blank) in _COLUMNS.items():
            self._columns[name] = np.concatenate([self[name], np.full(new.size, blank, kind)])
        self.learner.add(new.size)
        self._write(np.arange(start, start + new.size), columns, new)
        if start and columns.id[new].min() < self["id"][start - 1]:
            order = np.argsort(self["id"], kind="stable")
            self._columns = {name: column[order] for name, column in self._columns.items()}
            self.learner.evidence[:] = self.learner.evidence[order]

    def _write(self, places: Places, columns: Columns, which: Places) -> None:
        if not places.size:
            return
        for name in _GIVEN:
            self[name][places] = getattr(columns, name)[which]
        chosen = which.tolist()
        self["window"][places] = [self._window(columns.windows[i]) for i in chosen]
        self["state"][places] = [STATES.index(columns.state[i]) for i in chosen]
        self["look"][places] = np.where(self["state"][places] == REMOVED, inf, -inf)
        rows = [columns.evidence[i] for i in chosen]
        if any(rows):
            per_row = 8 * self.learner.evidence[0].size
            blank = bytes(per_row)
            flat = np.frombuffer(b"".join(row if len(row) == per_row else blank for row in rows), np.float64)
            self.learner.evidence[places] = flat.reshape(-1, *self.learner.evidence.shape[1:])

    def _window(self, text: str) -> int:
        if text not in self._windows:
            self._windows[text] = len(self.clocks)
            self.clocks.append(Windows.parse(text).clock(datetime(1970, 1, 1, tzinfo=UTC), unit_seconds=1.0))
        return self._windows[text]

    def drop(self, ids: Sequence[int]) -> None:
        """Let elements go."""
        places = self.places(self.known(ids))
        self["state"][places] = REMOVED
        self["look"][places] = inf

    def columns(self, places: Places) -> Columns:
        """Return rows as they are kept in a store."""
        texts = list(self._windows)
        given: dict[str, Any] = {
            name: self[name][places].astype(np.float64 if self[name].dtype.kind == "f" else np.int64)
            for name in _GIVEN
        }
        return Columns(
            **given,
            windows=[texts[i] for i in self["window"][places].tolist()],
            state=[STATES[i] for i in self["state"][places].tolist()],
            evidence=[row.tobytes() for row in self.learner.evidence[places]],
        )

    def since(self, places: Places, now: float) -> Floats:
        """Seconds since the last poll that saw something, or since the element was added."""
        last = self["last"][places]
        return np.maximum(now - np.where(np.isnan(last), self["added"][places], last), 0.0)

    def mend(self, now: float, backoff: Callable[[str, int], float]) -> Places:
        """Mend moments that cannot be: polls in the future, and back-offs that are too long; tell where."""
        ahead = self["last"] > now
        self["last"][ahead] = now
        places = np.flatnonzero(self["not_before"] > now)
        states, failures = self["state"][places].tolist(), self["failures"][places].tolist()
        longest = np.array(
            [now + backoff(STATES[state], count) for state, count in zip(states, failures, strict=True)]
        )
        late = places[self["not_before"][places] > longest]
        self["not_before"][places] = np.minimum(self["not_before"][places], longest)
        return np.union1d(np.flatnonzero(ahead), late)

    @property
    def wanted(self) -> NDArray[np.bool_]:
        """Which elements are to be kept fresh."""
        return (self["state"] != REMOVED) & (self["weight"] > 0)

    def look_again(self) -> None:
        """Look at all elements."""
        self["look"][self["state"] != REMOVED] = -inf
