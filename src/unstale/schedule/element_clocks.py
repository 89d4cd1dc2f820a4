"""The clock that each element follows: schedules count in time worked, and windows say when that is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unstale.arguments import Floats
from unstale.errors import InvalidInput

from .polls import Elements


class WindowClock(Protocol):
    """Time during which polls are allowed, as `Windows` gives it."""

    def worked(self, t: ArrayLike) -> Floats:
        """Return the time worked up to ``t``."""

    def when(self, v: ArrayLike) -> Floats:
        """Return the moment at which so much time has been worked."""


class AllHours:
    """The clock of elements without windows: time itself."""

    def worked(self, t: ArrayLike) -> Floats:
        """Return it as it is."""
        return np.asarray(t, float)

    when = worked

    def is_open(self, t: ArrayLike) -> NDArray[np.bool_]:
        """Tell that polls are allowed at any time."""
        return np.ones(np.shape(t), np.bool_)


class Clocks:
    """The clock of each element: one for all, or one for each group that has one."""

    def __init__(self, windows: WindowClock | Mapping[Any, WindowClock] | None) -> None:
        self._by_label: dict[Any, int] | None = None
        self.clocks: list[WindowClock] = [AllHours()]
        if isinstance(windows, Mapping):
            self.clocks += [_clock(f"windows[{label!r}]", clock) for label, clock in windows.items()]
            self._by_label = {label: at + 1 for at, label in enumerate(windows)}
        elif windows is not None:
            self.clocks = [_clock("windows", windows)]

    @property
    def alike(self) -> bool:
        """Whether all elements follow one clock."""
        return self._by_label is None

    @property
    def always(self) -> bool:
        """Whether there are no windows."""
        return self.alike and isinstance(self.clocks[0], AllHours)

    def of(self, groups: ArrayLike | None, n: int) -> NDArray[np.int32]:
        """Return the number of the clock of each of ``n`` elements; nothing if all follow one."""
        if (groups is None) != self.alike:
            raise InvalidInput(
                "windows for each group need groups, one label for each element"
                if groups is None
                else "groups need windows for each group: a mapping from label to clock"
            )
        if groups is None or self._by_label is None:
            return np.empty(0, np.int32)
        labels = np.asarray(groups)
        if labels.shape != (n,):
            shapes = f"groups has shape {labels.shape}, frequencies ({n},)"
            raise InvalidInput(f"groups must be one label for each element; {shapes}")
        if labels.dtype.kind == "O":  # labels of several kinds cannot be sorted
            return np.array([self._by_label.get(label, 0) for label in labels.tolist()], np.int32)
        unique, code = np.unique(labels, return_inverse=True)
        return np.array([self._by_label.get(label, 0) for label in unique.tolist()], np.int32)[code]

    def worked(self, t: float) -> Floats:
        """Return the time worked by each clock."""
        return np.array([float(clock.worked(t)) for clock in self.clocks])

    def when(self, worked: Floats, elements: Elements, codes: NDArray[np.int32]) -> Floats:
        """Return the moments of polls from times worked."""
        if self.alike:
            return self.clocks[0].when(worked)
        own = codes[elements]
        moments = worked.copy()
        for at, clock in enumerate(self.clocks[1:], 1):
            if (mine := own == at).any():
                moments[mine] = clock.when(worked[mine])
        return moments


def _clock(name: str, value: object) -> WindowClock:
    if not (hasattr(value, "worked") and hasattr(value, "when")):
        raise InvalidInput(
            f"{name} must be a clock, such as Windows.every(1.0, 0.0, 0.25).clock(); it is {value!r}"
        )
    return value
