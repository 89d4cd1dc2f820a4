"""Gaps as observed, of many elements at once: what `Empirical` is to one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats

from .compiled.gaps import counts
from .discrete import Empirical
from .law import Law


class Observed(Law):
    """Laws of observed gaps, end to end, and which of them each element has.

    >>> laws = Observed.of([Empirical([1.0, 2.0, 3.0]), Empirical([4.0])])
    >>> laws.rate.tolist(), laws.residual_cdf(2.0).tolist()
    ([0.5, 0.25], [0.8333333333333334, 0.5])
    """

    def __init__(self, laws: Sequence[Empirical], which: NDArray[np.intp]) -> None:
        self.laws, self.which = laws, which

    @classmethod
    def of(cls, laws: Sequence[Empirical]) -> Observed:
        """One law for each element; equal ones are kept once."""
        places: dict[Empirical, int] = {}
        which = np.array([places.setdefault(law, len(places)) for law in laws], np.intp)
        return cls(tuple(places), which)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Observed):
            return NotImplemented
        return self.laws == other.laws and np.array_equal(self.which, other.which)

    def __hash__(self) -> int:
        return hash((self.laws, self.which.tobytes()))

    def __repr__(self) -> str:
        return f"{len(self.laws)} empirical laws"

    @property
    def shape_of(self) -> tuple[int, ...]:
        return self.which.shape

    @property
    def kinks(self) -> Floats:
        return self._table[0]

    def element(self, index: tuple[int, ...]) -> Empirical:  # type: ignore[override]
        return self.laws[self.which[index[-1]]]

    def take(self, index: slice | NDArray[np.intp]) -> Observed:
        some = Observed(self.laws, self.which[index])
        some.__dict__["_table"] = self._table
        return some

    @cached_property
    def rate(self) -> Floats:
        """Mean changes per unit time."""
        return self._table[1][self.which]

    @property
    def gaps_and_starts(self) -> tuple[Floats, NDArray[np.int64]]:
        """All gaps, and where those of each law start."""
        gaps, _, starts, _ = self._table
        return gaps, starts

    @cached_property
    def _table(self) -> tuple[Floats, Floats, NDArray[np.int64], Floats]:
        """All gaps, the rates, where the gaps of each law start, and sums as those of `Empirical`.

        They are sums of powers of the gaps before, and of the excess of the others over the gap there, all in
        mean gaps. There is one more of them than there are gaps.
        """
        gaps = np.concatenate([law.gaps for law in self.laws])
        rates = np.array([float(law.rate) for law in self.laws])
        lengths = np.array([law.gaps.size for law in self.laws])
        starts = np.concatenate([[0], np.cumsum(lengths)])
        sums = np.zeros((4, gaps.size + len(self.laws)))
        for h, law in enumerate(self.laws):
            unit, first = law.gaps * rates[h], starts[h] + h
            for k in range(3):
                np.cumsum(unit ** (k + 1), out=sums[k, first + 1 : first + 1 + unit.size])
            steps = np.diff(unit) * np.arange(unit.size - 1, 0, -1)
            sums[3, first : first + steps.size] = np.cumsum(steps[::-1])[::-1]
        return gaps, rates, starts, sums

    def _place(self, t: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Where the sums up to each time are, how many gaps are longer, and how many there are."""
        gaps, _, starts, _ = self._table
        shape = np.broadcast_shapes(np.shape(t), self.which.shape)
        times = np.ascontiguousarray(np.broadcast_to(t, shape)).ravel()
        found = np.empty(times.size, np.int64)
        counts(gaps, starts, self.which, times, found)
        place = found.reshape(shape)
        return place + self.which, starts[self.which + 1] - place, starts[self.which + 1] - starts[self.which]

    def _survival(self, y: Floats) -> Floats:
        _, longer, count = self._place(y)
        return longer / count

    def _residual_survival(self, t: Floats) -> Floats:
        gaps, _, starts, sums = self._table
        place, longer, count = self._place(t)
        following = np.minimum(place - self.which, starts[self.which + 1] - 1)
        ahead = longer * (np.maximum(gaps[following] - t, 0.0) * self.rate)
        whole = sums[3][starts[self.which] + self.which] + count * (gaps[starts[self.which]] * self.rate)
        return (sums[3][place] + ahead) / whole

    def _moment(self, k: int, t: Floats) -> Floats:
        place, longer, count = self._place(t)
        rest = np.where(longer > 0, longer * (t * self.rate) ** (k + 1), 0.0)
        return (self._table[3][k][place] + rest) / (count * (k + 1)) / self.rate**k

    def _limit(self, k: int) -> Floats:
        _, _, starts, sums = self._table
        count = starts[self.which + 1] - starts[self.which]
        return sums[k][starts[self.which + 1] + self.which] / (count * (k + 1)) / self.rate**k

    def _sample(self, rng: np.random.Generator, size: tuple[int, ...]) -> Floats:
        columns = [self.laws[i].sample(rng, size[:-1]) for i in self.which]
        return np.stack(columns, axis=-1)

    def _sample_residual(self, rng: np.random.Generator, size: tuple[int, ...]) -> Floats:
        return np.stack([self.laws[i].sample_residual(rng, size[:-1]) for i in self.which], axis=-1)

    def _stretched(self, factor: Floats) -> Observed:
        each = np.broadcast_to(factor, self.which.shape)
        return Observed.of(
            [self.laws[i].at_rate(self.laws[i].rate / f) for i, f in zip(self.which, each, strict=True)]
        )
