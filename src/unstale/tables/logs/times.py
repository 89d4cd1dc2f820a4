"""Times of accesses that cannot be, or are far from all others: a wrong clock."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from unstale.arguments import Floats

_MOST_RUNS = 64
"""Of more, the first ones are kept as one."""


class AccessRun(NamedTuple):
    """Accesses with no long gap between them."""

    start: float
    end: float
    accesses: int
    log: str
    key: str
    """Of the last one."""

    def joined(self, other: AccessRun) -> AccessRun:
        """Return both as one."""
        last = max(self, other, key=lambda run: run.end)
        return last._replace(start=min(self.start, other.start), accesses=self.accesses + other.accesses)


@dataclass
class AccessRuns:
    """Accesses in order of time, cut where none came for longer than ``gap``; they may come in any order."""

    gap: float

    def __post_init__(self) -> None:
        """Begin with none."""
        self._runs: list[AccessRun] = []

    def add(self, log: str, keys: list[str], times: Floats, places: NDArray[np.int64] | None = None) -> None:
        """Add some accesses."""
        import numpy as np

        if not times.size or not isfinite(self.gap):
            return
        parts = [np.arange(times.size)]
        if np.ptp(times) > self.gap:
            order = np.argsort(times, kind="stable")
            parts = np.split(order, np.flatnonzero(np.diff(times[order]) > self.gap) + 1)
        for part in parts[-_MOST_RUNS:]:
            last = int(part[times[part].argmax()])
            key = keys[last if places is None else int(places[last])]
            run = AccessRun(float(times[part].min()), float(times[last]), part.size, log, key)
            self._runs.append(run)
        if len(parts) > _MOST_RUNS:
            rest = np.concatenate(parts[:-_MOST_RUNS])
            first, end = int(rest[0]), int(rest[-1])
            key = keys[end if places is None else int(places[end])]
            self._runs.append(AccessRun(float(times[first]), float(times[end]), rest.size, log, key))
        self._tidy()

    def _tidy(self) -> None:
        kept: list[AccessRun] = []
        for run in sorted(self._runs):
            if kept and run.start - kept[-1].end <= self.gap:
                kept[-1] = kept[-1].joined(run)
            else:
                kept.append(run)
        while len(kept) > _MOST_RUNS:
            kept[:2] = [kept[0].joined(kept[1])]
        self._runs = kept

    def apart(self) -> AccessRun | None:
        """Return those that came after a long gap, if they are fewer than all before it.

        >>> import numpy as np
        >>> runs = AccessRuns(gap=10.0)
        >>> runs.add("a.log", ["/a", "/b", "/c"], np.array([1.0, 2.0, 99.0]))
        >>> runs.apart()
        AccessRun(start=99.0, end=99.0, accesses=1, log='a.log', key='/c')
        """
        total, before = sum(run.accesses for run in self._runs), 0
        for place, run in enumerate(self._runs[:-1], 1):
            before += run.accesses
            if 2 * before > total:
                later = self._runs[place:]
                return later[-1]._replace(start=later[0].start, accesses=total - before)
        return None
