"""Gaps with kinks: constant ones, those of rounds in random order, and those observed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unstale.arguments import Floats, numbers
from unstale.errors import InvalidInput

from .law import Law, Parameter, parameter


@dataclass(frozen=True, eq=False, repr=False)
class Periodic(Law):
    """Every gap the same: a nightly export, or polls at constant intervals.

    >>> float(Periodic(period=0.5).rate)
    2.0
    """

    period: Parameter = parameter(above=0.0)

    @property
    def rate(self) -> Floats:
        return 1.0 / self.period

    @property
    def kinks(self) -> Floats:
        return np.ravel(self.period)

    @property
    def span(self) -> float | None:
        return self._one(self.period)

    def _survival(self, y: Floats) -> Floats:
        return np.where(y < self.period, 1.0, 0.0)

    def _residual_survival(self, t: Floats) -> Floats:
        return np.maximum(0.0, (self.period - t) / self.period)

    def _moment(self, k: int, t: Floats) -> Floats:
        inside = np.minimum(t, self.period)
        return inside / self.period * inside**k / (k + 1.0)

    def _limit(self, k: int) -> Floats:
        return self.period**k / (k + 1.0)

    def _sample(self, rng: np.random.Generator, size: tuple[int, ...]) -> Floats:  # noqa: ARG002  (nothing is random)
        return np.broadcast_to(self.period, size).copy()

    def _sample_residual(self, rng: np.random.Generator, size: tuple[int, ...]) -> Floats:
        return rng.random(size=size) * self.period

    def _stretched(self, factor: Floats) -> Periodic:
        return Periodic(self.period * factor)


@dataclass(frozen=True, eq=False, repr=False)
class RandomOrder(Law):
    """Polls in rounds of length ``interval``, each round in a new random order.

    Gaps are triangular on (0, 2 interval). Rounds keep time though gaps do not: against changes that come
    like clockwork their averages depend on the phase, so their span is that of the rounds. (Samples are
    independent gaps.)

    >>> float(RandomOrder(interval=0.5).survival(0.5))
    0.5
    """

    interval: Parameter = parameter(above=0.0)

    @property
    def rate(self) -> Floats:
        return 1.0 / self.interval

    @property
    def kinks(self) -> Floats:
        return np.concatenate([np.ravel(self.interval), 2.0 * np.ravel(self.interval)])

    @property
    def span(self) -> float | None:
        return self._one(self.interval)

    def _survival(self, y: Floats) -> Floats:
        v, rest = y / self.interval, np.maximum(0.0, (2.0 * self.interval - y) / self.interval)
        return np.where(v < 1.0, 1.0 - 0.5 * v * v, 0.5 * rest**2)

    def _residual_survival(self, t: Floats) -> Floats:
        v, rest = t / self.interval, np.maximum(0.0, (2.0 * self.interval - t) / self.interval)
        return np.where(v < 1.0, 1.0 - v + v**3 / 6.0, rest**3 / 6.0)

    def _moment(self, k: int, t: Floats) -> Floats:
        v = np.minimum(t / self.interval, 2.0)
        below = v ** (k + 1) * (1.0 / (k + 1) - 0.5 * v * v / (k + 3))
        rest = 2.0 - v  # integral of y^k (2-y)^2/2 from v to 2, with y = 2 - x
        if k == 0:
            beyond = rest**3 / 6.0
        elif k == 1:
            beyond = rest**3 * (1.0 / 3.0 - rest / 8.0)
        else:
            beyond = rest**3 * (2.0 / 3.0 - rest * (0.5 - rest / 10.0))
        return np.where(v < 1.0, below, self._share(k) - beyond) * self.interval**k

    @staticmethod
    def _share(k: int) -> float:
        return (1.0, 7.0 / 12.0, 0.5)[k]

    def _limit(self, k: int) -> Floats:
        return self._share(k) * self.interval**k

    def _sample(self, rng: np.random.Generator, size: tuple[int, ...]) -> Floats:
        return (rng.random(size=size) + rng.random(size=size)) * self.interval

    def _sample_residual(self, rng: np.random.Generator, size: tuple[int, ...]) -> Floats:
        # a poll is uniform in its round, and in the next one if that of this round is over
        now, this, following = (rng.random(size=size) for _ in range(3))
        return np.where(this > now, this - now, 1.0 + following - now) * self.interval

    def _stretched(self, factor: Floats) -> RandomOrder:
        return RandomOrder(self.interval * factor)


@dataclass(frozen=True, eq=False, repr=False)
class Empirical(Law):
    """Gaps as observed: each of the given gaps is equally likely.

    >>> float(Empirical([1.0, 2.0, 3.0]).rate)
    0.5
    >>> Empirical.from_times([0.0, 1.0, 3.0]).gaps.tolist()
    [1.0, 2.0]
    """

    gaps: Parameter = parameter(above=0.0)

    def __post_init__(self) -> None:
        array = numbers("gaps", self.gaps, above=0, nonempty=True)
        if array.ndim > 1:
            raise InvalidInput(f"gaps must be one-dimensional; it has shape {array.shape}")
        gaps = np.sort(np.atleast_1d(array))
        gaps.setflags(write=False)
        object.__setattr__(self, "gaps", gaps)

    @classmethod
    def from_times(cls, times: ArrayLike) -> Empirical:
        """Return the law of the gaps between increasing times of changes."""
        array = numbers("times", times, nonempty=True)
        if array.ndim != 1 or array.size < 2:
            raise InvalidInput(f"times must be a list of at least two times; it has shape {array.shape}")
        gaps = np.diff(array)
        if (gaps <= 0).any():
            i = int(np.argmax(gaps <= 0)) + 1
            raise InvalidInput(
                f"times must increase; times[{i}] is {float(array[i])!r} after {float(array[i - 1])!r}"
            )
        return cls(gaps)

    @property
    def shape_of(self) -> tuple[int, ...]:
        return ()

    def element(self, index: tuple[int, ...]) -> Empirical:  # noqa: ARG002  (one law for all)
        return self

    @property
    def rate(self) -> Floats:
        return 1.0 / np.asarray(np.mean(self.gaps))[()]

    @property
    def kinks(self) -> Floats:
        return self.gaps

    @cached_property
    def span(self) -> float | None:
        return _common_span(self.gaps)

    @cached_property
    def _sums(self) -> tuple[Floats, ...]:
        """Sums of powers of the first i gaps, and of the excess of the others over gap i, in mean gaps."""
        unit = self.gaps * self.rate
        below = tuple(np.concatenate([[0.0], np.cumsum(unit**k)]) for k in (1, 2, 3))
        steps = np.diff(self.gaps) * self.rate * np.arange(unit.size - 1, 0, -1)
        return (*below, np.concatenate([np.cumsum(steps[::-1])[::-1], [0.0]]))

    def _count(self, t: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        i = np.searchsorted(self.gaps, t, side="right")
        return i, self.gaps.size - i

    def _survival(self, y: Floats) -> Floats:
        return self._count(y)[1] / self.gaps.size

    def _residual_survival(self, t: Floats) -> Floats:
        i, longer = self._count(t)
        following = np.minimum(i, self.gaps.size - 1)
        ahead = longer * (np.maximum(self.gaps[following] - t, 0.0) * self.rate)
        whole = self._sums[3][0] + self.gaps.size * (self.gaps[0] * self.rate)  # the same at t = 0
        return (self._sums[3][following] + ahead) / whole

    def _moment(self, k: int, t: Floats) -> Floats:
        i, longer = self._count(t)
        total = self._sums[k][i] + np.where(longer > 0, longer * (t * self.rate) ** (k + 1), 0.0)
        return total / (self.gaps.size * (k + 1)) / self.rate**k

    def _limit(self, k: int) -> Floats:
        return self._sums[k][-1] / (self.gaps.size * (k + 1)) / self.rate**k

    def _sample(self, rng: np.random.Generator, size: tuple[int, ...]) -> Floats:
        return rng.choice(self.gaps, size=size)

    def _sample_residual(self, rng: np.random.Generator, size: tuple[int, ...]) -> Floats:
        longer = rng.choice(self.gaps, size=size, p=self.gaps / self.gaps.sum())
        return rng.random(size=size) * longer

    def _stretched(self, factor: Floats) -> Empirical:
        if np.ndim(factor):
            raise InvalidInput(
                f"rate must be a single number for an empirical law; it has shape {np.shape(factor)}"
            )
        return Empirical(self.gaps * factor)


def _common_span(gaps: Floats, tolerance: float = 1e-9) -> float | None:
    """Largest d of which every gap is a whole multiple, by Euclid's algorithm with a tolerance.

    Decimal fractions are no binary ones, so "whole" means to within ``tolerance`` of the largest gap; a
    common span below a thousand tolerances is taken for chance, and the law for non-lattice.
    """
    unique = np.unique(gaps)
    close = tolerance * unique[-1]
    d = float(unique[0])
    for gap in unique[1:]:
        a, b = float(gap), d
        while b > close:
            a, b = b, math.fmod(a, b)
            if a - b < close:  # fmod fell just short of a whole multiple
                b = 0.0
        d = a
        if d < 1e3 * close:
            return None
    return d
