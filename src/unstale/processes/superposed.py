"""Several independent copies of a process, seen as one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unstale.arguments import Floats, whole
from unstale.errors import InvalidInput
from unstale.quadrature import integrate_to

from .law import Law, Process, process


@dataclass(frozen=True, eq=False, repr=False)
class Superposed(Law):
    """All events of ``count`` independent copies of a process (see `renewal.replicas`).

    From a random moment, the next event is the first of all: the residual survival is the product of theirs.

    >>> from unstale import Periodic
    >>> float(Superposed(Periodic(2.0), 2).residual_survival(1.0))
    0.25
    """

    each: Process
    count: int

    def __post_init__(self) -> None:
        if process("each", self.each).shape_of or not self.each.rate > 0:
            raise InvalidInput(f"each must be one process with a rate > 0; each is {self.each!r}")
        whole("count", self.count, at_least=1)

    @property
    def rate(self) -> Floats:
        return self.count * self.each.rate

    @property
    def shape_of(self) -> tuple[int, ...]:
        return ()

    @property
    def kinks(self) -> Floats:
        return self.each.kinks

    @property
    def span(self) -> float | None:
        """That of each copy: whatever their phases are, they keep them."""
        return self.each.span

    def element(self, index: tuple[int, ...]) -> Superposed:  # noqa: ARG002  (one process)
        return self

    def _survival(self, y: Floats) -> Floats:
        return self.each.survival(y) * self.each.residual_survival(y) ** (self.count - 1)

    def _residual_survival(self, t: Floats) -> Floats:
        return self.each.residual_survival(t) ** self.count

    def _moment(self, k: int, t: Floats) -> Floats:
        if k == 0:
            return -np.expm1(self.count * np.log1p(-self.each.residual_cdf(t)))
        rate = float(self.rate)
        top = np.minimum(t, self.kinks[-1] if self.kinks.size else np.inf) * rate
        inside = integrate_to(lambda v, _: v**k * self._survival(v / rate), 0.0, top, self.kinks * rate)
        return inside / rate**k

    def _limit(self, k: int) -> Floats:
        return self._moment(k, np.asarray(np.inf))

    def _sample(self, rng: np.random.Generator, size: tuple[int, ...]) -> Floats:
        if not size:
            return self._sample(rng, (1,))[0]
        first = self.each.sample_residual(rng, (*size[:-1], self.count, 1))
        first[..., 0, :] = 0.0  # gaps are seen from an event, so one copy has one now
        later = self.each.sample(rng, (*size[:-1], self.count, size[-1]))
        times = np.cumsum(np.concatenate([first, later], axis=-1), axis=-1).reshape(*size[:-1], -1)
        return np.diff(np.sort(times, axis=-1)[..., : size[-1] + 1], axis=-1)

    def _sample_residual(self, rng: np.random.Generator, size: tuple[int, ...]) -> Floats:
        return self.each.sample_residual(rng, (*size, self.count)).min(axis=-1)

    def _stretched(self, factor: Floats) -> Superposed:
        if np.ndim(factor):
            raise InvalidInput(
                f"rate must be a single number for a superposed process; it has shape {np.shape(factor)}"
            )
        return Superposed(self.each.at_rate(self.each.rate / factor), self.count)
