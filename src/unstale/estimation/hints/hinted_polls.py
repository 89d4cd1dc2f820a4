"""Polls with hints, as they enter the likelihood."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unstale.arguments import Floats, numbers, numbers_of_elements
from unstale.errors import InvalidInput

_MOST_HINTS = 1e15
"""Hints between two polls."""
_MOST_ELEMENTS = 10**9
"""Each takes memory, whether it has polls or not."""


@dataclass(frozen=True, eq=False)
class HintedPolls:
    """Each poll that saw a change, and sums over the others."""

    elapsed: Floats
    hints: Floats
    """Elapsed times, and hints, of polls that saw a change."""
    element: NDArray[np.int64]
    quiet: Floats
    """Of each element, the time of polls that saw no change."""
    half: Floats
    """Of each element, the time of half a poll."""
    false_hints: float
    """Hints of polls that saw no change."""
    time: Floats
    """Of each element, the time of all polls."""
    hinted: Floats
    """Of each element, the hints of all polls."""
    all_elapsed: Floats
    all_hints: Floats
    """Elapsed times, and hints, of all polls."""

    @property
    def count(self) -> int:
        """Of all polls."""
        return self.all_elapsed.size

    @property
    def varied(self) -> bool:
        """Whether some polls had more hints than others."""
        return bool(np.ptp(self.all_hints) > 0)

    @property
    def total_hints(self) -> float:
        """Of all elements."""
        return float(self.hinted.sum())

    @property
    def total_time(self) -> float:
        """Of all elements."""
        return float(self.time.sum())

    @classmethod
    def of(
        cls, elapsed: ArrayLike, hints: ArrayLike, changed: ArrayLike, elements: ArrayLike | None
    ) -> HintedPolls:
        """Check the columns; without ``elements``, all polls are of one."""
        t = numbers("elapsed", elapsed, at_least=1e-100, at_most=1e100, nonempty=True)
        n = whole_numbers("hints", hints)
        found = _flags("changed", changed)
        places = np.zeros(t.shape, np.int64)
        if elements is not None:
            places = numbers_of_elements("elements", elements, t.size, "polls", below=_MOST_ELEMENTS)
        for name, column in (("hints", n), ("changed", found)):
            if t.ndim != 1 or column.shape != t.shape:
                raise InvalidInput(
                    f"{name} must have one entry for each poll; {name} has shape {column.shape}, "
                    f"elapsed {t.shape}"
                )
        time = np.bincount(places, t).astype(float)
        return cls(
            elapsed=t[found],
            hints=n[found],
            element=places[found],
            quiet=np.bincount(places, np.where(found, 0.0, t)).astype(float),
            half=0.5 * time / np.maximum(np.bincount(places), 1),
            false_hints=float(n[~found].sum()),
            time=time,
            hinted=np.bincount(places, n).astype(float),
            all_elapsed=t,
            all_hints=n,
        )

    def pooled(self) -> HintedPolls:
        """Return the same polls as those of one element."""
        columns = {name: np.array([getattr(self, name).sum()]) for name in ("quiet", "time", "hinted")}
        half = np.array([0.5 * self.total_time / self.count])
        return HintedPolls(
            self.elapsed, self.hints, np.zeros_like(self.element), columns["quiet"], half, self.false_hints,
            columns["time"], columns["hinted"], self.all_elapsed, self.all_hints,
        )  # fmt: skip

    def in_units_of(self, unit: float) -> HintedPolls:
        """Return the same polls, with times in another unit."""
        columns = ("elapsed", "quiet", "half", "time", "all_elapsed")
        return replace(self, **{name: getattr(self, name) / unit for name in columns})

    def as_seen(self) -> HintedPolls:
        """Return the same polls, and nothing added to them."""
        return replace(self, half=np.zeros_like(self.half))

    def evidence(self, unhinted: Floats, k: float) -> Floats:
        """Return a t + k n of the polls that saw a change."""
        return unhinted[self.element] * self.elapsed + k * self.hints

    def sums(self, values: Floats) -> Floats:
        """Sums of something over the polls of each element that saw a change."""
        return np.bincount(self.element, values, self.time.size).astype(float)

    def balanced(
        self, k: float, shape: ArrayLike, quiet: Floats, miss: float = 1.0, start: Floats | None = None
    ) -> Floats:
        """Solve shape/a + sum of m t/(e^(m a t + k n) - 1) = quiet for the a of each element; m is ``miss``.

        The sum is over polls that saw a change. A shape that is not a number is for elements whose a is 0.
        """
        least = np.broadcast_to(shape, quiet.size)
        t = miss * self.elapsed
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # t/(e^at - 1) < 1/a
            high = np.nan_to_num((least + self.sums(np.ones_like(t))) / quiet, posinf=0.0)
            low, a = np.zeros(quiet.size), high
            if start is not None:
                a = np.minimum(start, high)
            for _ in range(200):
                odds = 1.0 / np.expm1(self.evidence(miss * a, k))
                pull = least / a + self.sums(t * odds)
                slope = least / a**2 + self.sums(t**2 * odds * (1.0 + odds))
                low, high = np.where(pull > quiet, a, low), np.where(pull > quiet, high, a)
                # Newton's step for 1/pull, which is almost a straight line
                new = a + pull * (pull / quiet - 1.0) / slope
                new = np.where((new >= low) & (new <= high), new, 0.5 * (low + high))
                done = np.abs(new - a) <= 1e-13 * a
                a = new
                if done.all():
                    break
        return a


def _flags(name: str, values: ArrayLike) -> NDArray[np.bool_]:
    array = np.asarray(values)
    if array.dtype.kind == "b":
        return array
    found = numbers(name, values)
    insist(name, found, (found == 0) | (found == 1), "true or false")
    return found == 1


def whole_numbers(name: str, values: ArrayLike) -> Floats:
    """Return numbers of hints."""
    found = numbers(name, values, at_least=0, at_most=_MOST_HINTS)
    insist(name, found, found == np.floor(found), "whole numbers")
    return found


def insist(name: str, found: Floats, good: NDArray[np.bool_], rule: str) -> None:
    """Refuse numbers that break a rule."""
    if not good.all():
        place = int(np.argmin(good.ravel()))
        where = f"[{place}]" if found.ndim else ""
        raise InvalidInput(f"{name} must be {rule}; {name}{where} is {found.ravel()[place].item()!r}")
