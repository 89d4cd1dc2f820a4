"""Times of the last change that sources tell, and how far they are believed.

Last-Modified, the time of a file and the like say when an element changed last. With that, what is learned
from a change is exact: one change, and nothing since then. But many servers send the time of the request, or
of their last restart. So what is told must prove true, group by group: a told time is wrong if it lies before
the poll before although the element has changed, or after it although it has not, or if it is that of the
poll itself. Where one in five is wrong, what is told says nothing.

Others may tell of changes before the first poll of an element: a feed by the dates of its entries, a sitemap
by the dates of its pages. They wait for that poll.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats

_MEMORY_POLLS = 500.0
"""Polls of a group after which what it told counts 1/e."""
_FIRST_RIGHT_AND_WRONG = (1.8, 0.2)
"""Told times that proved right, and wrong, before any: a new group is believed until the first wrong one."""
_LEAST_RIGHT_SHARE = 0.8
_NOW_SHARE = 1e-3
"""Share of the time between two polls: what is told to have changed so short a time ago is the poll."""
_MOST_WAITING, _MOST_KEPT = 100_000, 1_000
"""Elements whose changes wait for their first polls, and those of them that a state has."""
_TELLS_SHARE = 0.9
"""Of all changes of a group those whose times are told, so that its polls tell of all moments."""
_SLACK_SHARE = 1e-6
"""Share of the time between two polls by which a told time may be off."""


class ToldTimes:
    """Counts, for each group, told times that proved right and wrong; group 0 is those without one."""

    def __init__(self) -> None:
        self._counts = np.tile(np.array(_FIRST_RIGHT_AND_WRONG), (1, 1))
        self._changes = np.zeros((1, 2))
        self._waiting: dict[int, list[float]] = {}

    def wait(self, element: int, moment: float) -> None:
        """Take in when an element has changed, as it is told before its first poll."""
        self._waiting.setdefault(element, []).append(moment)
        if len(self._waiting) > _MOST_WAITING:
            del self._waiting[next(iter(self._waiting))]

    def before_first(
        self, elements: NDArray[np.int64], time: Floats, ages: Floats
    ) -> tuple[NDArray[np.intp], Floats]:
        """Return how long before first polls elements had changed: which polls, several times each, and that.

        What was told before counts: all changes from the first of them on. Elsewhere it is the ages of the
        last changes that polls were told; nan: unknown. What an element says of itself counts more than what
        another says of its last change.
        """
        if not self._waiting:
            return np.arange(ages.size), ages
        which: list[int] = []
        found: list[float] = []
        for k, (element, now, age) in enumerate(
            zip(elements.tolist(), time.tolist(), ages.tolist(), strict=True)
        ):
            told = [now - moment for moment in sorted(set(self._waiting.pop(element, [])))]
            past = [age] if len(told) < 2 and age == age else told  # noqa: PLR0124
            which += [k] * len(past)
            found += past
        return np.array(which, np.intp), np.array(found, np.float64)

    def believed(
        self,
        groups: NDArray[np.integer],
        elapsed: Floats,
        changed: NDArray[np.bool_],
        ages: Floats,
    ) -> Floats:
        """Return how long before polls the last changes were, where that is told and believed; nan elsewhere.

        Parameters
        ----------
        groups
            The group of each poll.
        elapsed, changed
            The time since the poll before, and whether the element had changed.
        ages
            How long before the poll the last change was, as it is told; nan where it is not.
        """
        told, size = np.isfinite(ages), max(self._counts.shape[0], int(groups.max(initial=0)) + 1)
        self._changes = _with_rows(self._changes, size, np.zeros(2))
        seen = np.stack([np.bincount(groups, part, size) for part in (changed, changed & told)], axis=1)
        self._changes *= np.exp(-seen[:, :1] / _MEMORY_POLLS)
        self._changes += seen
        if not told.any():
            return np.full(ages.size, np.nan)
        late, early = elapsed * (1.0 + _SLACK_SHARE), elapsed * (1.0 - _SLACK_SHARE)
        right = np.where(changed, (ages > _NOW_SHARE * elapsed) & (ages <= late), ages >= early) & told
        trusted = self.trusted(groups)
        size = self._counts.shape[0]
        found = np.stack([np.bincount(groups, part, size) for part in (right, told & ~right)], axis=1)
        self._counts *= np.exp(-found.sum(axis=1, keepdims=True) / _MEMORY_POLLS)
        self._counts += found
        return np.where(right & changed & trusted, ages, np.nan)

    def trusted(self, groups: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Tell which groups are believed."""
        size = int(groups.max(initial=0)) + 1
        self._counts = _with_rows(self._counts, size, np.array(_FIRST_RIGHT_AND_WRONG))
        share = self._counts[:, 0] / self._counts.sum(axis=1)
        return np.asarray(share[groups] >= _LEAST_RIGHT_SHARE)

    def tell(self, groups: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Tell in which groups it is known of nearly all changes when they were."""
        self._changes = _with_rows(self._changes, int(groups.max(initial=0)) + 1, np.zeros(2))
        seen, told = self._changes[groups].T
        return np.asarray((told >= _TELLS_SHARE * (seen + 1.0)) & self.trusted(groups))

    def state(self) -> dict[str, Any]:
        """Return all that is needed to go on later."""
        some = list(self._waiting.items())[:_MOST_KEPT]
        rows = [(element, moment) for element, moments in some for moment in moments]
        return {
            "told_times": self._counts.copy(),
            "told_changes": self._changes.copy(),
            "told_waiting": np.array(rows).reshape(-1, 2),
        }

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was taken; older versions did not count."""
        self._counts = np.array(state.get("told_times", [_FIRST_RIGHT_AND_WRONG]), np.float64).reshape(-1, 2)
        self._changes = np.array(state.get("told_changes", np.zeros((1, 2))), np.float64).reshape(-1, 2)
        self._waiting = {}
        for element, moment in np.reshape(state.get("told_waiting", ()), (-1, 2)).tolist():
            self.wait(int(element), moment)


def _with_rows(counts: Floats, size: int, blank: Floats) -> Floats:
    """Return counts with as many rows at least."""
    if (more := size - counts.shape[0]) > 0:
        return np.concatenate([counts, np.tile(blank, (more, 1))])
    return counts
