"""How elements change, and how they are polled: point processes with independent gaps.

Let ``S(y)`` be the probability that a gap between two changes exceeds ``y`` and ``rate`` the mean rate, one
over the mean gap. Seen from a random moment, the time since the last change (the age of the process, and by
symmetry the time to the next one) has the distribution ``G(t) = rate * integral of S from 0 to t``. Freshness
needs no more of a process than the moments

    moment(k, t) = integral of y^k dG(y) from 0 to t = rate * integral of y^k S(y) dy,    k = 0, 1, 2,

of which ``moment(0, t)`` is ``G`` itself, and ``1 - G`` where that is small (`residual_survival`).

Parameters may be arrays: one object then stands for many elements, and everything broadcasts. All sums below are
of positive terms, or lose less than two digits.

References: Li, Cline & Loguinov (INFOCOM 2015), section III; Cho & Garcia-Molina (SIGMOD 2000), section 2.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np
from scipy import special

from . import kernels
from .arguments import Floats, broadcast, generator, numbers, unwrap
from .errors import InvalidInput

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    Size = int | tuple[int, ...] | None

__all__ = [
    "Empirical",
    "Gamma",
    "Lognormal",
    "Pareto",
    "Periodic",
    "Poisson",
    "Process",
    "RandomOrder",
    "UncertainPoisson",
    "Weibull",
]


class Process(Protocol):
    """What the layers above ask of a process; `moment` and its kin are described at the top of this module."""

    @property
    def rate(self) -> Floats:
        """Mean events per unit time."""

    @property
    def shape_of(self) -> tuple[int, ...]:
        """Shape of the parameters: ``()`` for one element."""

    @property
    def kinks(self) -> Floats:
        """Gaps at which ``S`` jumps or bends, for quadrature."""

    @property
    def span(self) -> float | None:
        """Largest d such that every gap is a multiple of d; None if there is none (a non-lattice law)."""

    def survival(self, gap: ArrayLike) -> Floats:
        """Probability that a gap exceeds ``gap``."""

    def residual_cdf(self, t: ArrayLike) -> Floats:
        """G(t): probability that the next event comes within ``t`` of a random moment."""

    def residual_survival(self, t: ArrayLike) -> Floats:
        """1 - G(t), to full relative precision."""

    def moment(self, k: int, t: ArrayLike) -> Floats:
        """Integral of y^k dG(y) from 0 to t; t may be inf."""

    def sample(self, rng: np.random.Generator, size: Size = None) -> Floats:
        """Draw gaps; along the last axis they are successive gaps of one element."""

    def sample_residual(self, rng: np.random.Generator, size: Size = None) -> Floats:
        """Draw times from a random moment to the next event."""

    def at_rate(self, rate: ArrayLike) -> Process:
        """Return the same process with time stretched to another mean rate."""

    def element(self, index: tuple[int, ...]) -> Process:
        """Return the process of one element."""


class _Law:
    """Checks and limits shared by all laws; each law supplies the underscored parts."""

    def __post_init__(self) -> None:
        checked = {
            part.name: numbers(part.name, getattr(self, part.name), nonempty=True, **part.metadata)
            for part in fields(self)  # type: ignore[arg-type]
        }
        broadcast(**checked)
        for name, array in checked.items():
            object.__setattr__(self, name, unwrap(array))

    @property
    def shape_of(self) -> tuple[int, ...]:
        return np.broadcast_shapes(*(np.shape(getattr(self, part.name)) for part in fields(self)))  # type: ignore[arg-type]

    @property
    def kinks(self) -> Floats:
        return np.empty(0)

    @property
    def span(self) -> float | None:
        return None

    def element(self, index: tuple[int, ...]) -> Self:
        shape = self.shape_of
        return type(self)(
            *(np.broadcast_to(getattr(self, part.name), shape)[index] for part in fields(self))  # type: ignore[arg-type]
        )

    def survival(self, gap: ArrayLike) -> Floats:
        y = numbers("gap", gap, at_least=0, infinite=True)
        with np.errstate(all="ignore"):
            return unwrap(np.where(np.isinf(y), 0.0, self._survival(np.where(np.isinf(y), 1.0, y))))

    def residual_cdf(self, t: ArrayLike) -> Floats:
        return self.moment(0, t)

    def residual_survival(self, t: ArrayLike) -> Floats:
        t = numbers("t", t, at_least=0, infinite=True)
        with np.errstate(all="ignore"):
            inside = self._residual_survival(np.where(np.isinf(t), 1.0, t))
        return unwrap(np.where(np.isinf(t), 0.0, inside))

    def moment(self, k: int, t: ArrayLike) -> Floats:
        if k not in (0, 1, 2):
            msg = f"k must be 0, 1 or 2; k is {k!r}"
            raise InvalidInput(msg)
        t = numbers("t", t, at_least=0, infinite=True)
        with np.errstate(all="ignore"):
            inside = self._moment(k, np.where(np.isinf(t), 1.0, t))
            return unwrap(np.where(np.isinf(t), self._limit(k), inside))

    def sample(self, rng: np.random.Generator, size: Size = None) -> Floats:
        with np.errstate(divide="ignore"):
            return self._sample(generator("rng", rng), self.shape_of if size is None else size)

    def sample_residual(self, rng: np.random.Generator, size: Size = None) -> Floats:
        with np.errstate(divide="ignore"):
            return self._sample_residual(generator("rng", rng), self.shape_of if size is None else size)

    def at_rate(self, rate: ArrayLike) -> Self:
        return self._stretched(self.rate / numbers("rate", rate, above=0))



def _field(**rules: float) -> Floats:
    """Declare a parameter with the rules of `arguments.numbers` that it must keep."""
    declared: Floats = field(metadata=rules)
    return declared


@dataclass(frozen=True, eq=False)
class Poisson(_Law):
    """Changes at random, independently of each other: exponential gaps.

    >>> float(Poisson(rate=2.0).survival(0.5).round(4))
    0.3679
    """

    rate: Floats = _field(at_least=0.0)

    def _survival(self, y: Floats) -> Floats:
        return np.exp(-self.rate * y)

    _residual_survival = _survival

    def _moment(self, k: int, t: Floats) -> Floats:
        x = self.rate * t
        if k == 0:
            return kernels.p1(x)
        kernel = kernels.p2(x) if k == 1 else 2.0 * kernels.p3(x)
        # t^k * kernel / x^k, which has no 0/0 but at x = 0
        tiny = x < 1e-100
        ratio = np.where(tiny, x / (k + 1), kernel / np.where(tiny, 1.0, x) ** k)
        return ratio * t**k

    def _limit(self, k: int) -> Floats:
        return np.where(self.rate > 0, math.factorial(k) / self.rate**k, 0.0)

    def _sample(self, rng: np.random.Generator, size: Size) -> Floats:
        return rng.exponential(size=size) / self.rate

    _sample_residual = _sample

    def _stretched(self, factor: Floats) -> Poisson:
        return Poisson(self.rate / factor)


@dataclass(frozen=True, eq=False)
class Pareto(_Law):
    """Gaps with a power tail, S(y) = (1 + y/scale)^-shape (the Lomax form); bursts, then long silence.

    ``shape`` must exceed 1 (else the mean gap is infinite); at or below 2 the variance is infinite.

    >>> float(Pareto(shape=3.0, scale=1.0).rate)
    2.0
    """

    shape: Floats = _field(above=1.0)
    scale: Floats = _field(above=0.0)

    @property
    def rate(self) -> Floats:
        return (self.shape - 1.0) / self.scale

    def _survival(self, y: Floats) -> Floats:
        return np.exp(-self.shape * np.log1p(y / self.scale))

    def _residual_survival(self, t: Floats) -> Floats:
        return np.exp((1.0 - self.shape) * np.log1p(t / self.scale))

    def _moment(self, k: int, t: Floats) -> Floats:
        return _pareto_moment(k, self.shape - 1.0, t / self.scale) * self.scale**k

    def _limit(self, k: int) -> Floats:
        return _pareto_limit(k, self.shape - 1.0) * self.scale**k

    def _sample(self, rng: np.random.Generator, size: Size) -> Floats:
        return self.scale * np.expm1(rng.exponential(size=size) / self.shape)

    def _sample_residual(self, rng: np.random.Generator, size: Size) -> Floats:
        return self.scale * np.expm1(rng.exponential(size=size) / (self.shape - 1.0))

    def _stretched(self, factor: Floats) -> Pareto:
        return replace(self, scale=self.scale * factor)


def _pareto_limit(k: int, a: Floats) -> Floats:
    """E[A^k] for A with survival (1+z)^-a."""
    if k == 0:
        return np.ones_like(a)
    if k == 1:
        return np.where(a > 1, 1.0 / (a - 1.0), np.inf)
    return np.where(a > 2, 2.0 / ((a - 1.0) * (a - 2.0)), np.inf)


def _pareto_moment(k: int, a: Floats, z: Floats) -> Floats:
    """a * integral of v^k (1+v)^-(a+1) from 0 to z, by whichever of three forms keeps its digits."""
    a, z = np.broadcast_arrays(np.asarray(a, float), np.asarray(z, float))
    log = np.log1p(z)
    if k == 0:
        return -np.expm1(-a * log)
    small = a * z < (1.0 if k == 1 else 2.0)
    small &= z < 2.0
    # (1) a z small: z^(k+1)/(k+1) a (1+z)^-(a+1) 2F1(a+1, 1; k+2; z/(1+z)), a series of positive terms
    out = np.empty(z.shape)
    if small.any():
        a_, z_ = a[small], z[small]
        u = z_ / (1.0 + z_)
        term = np.ones(z_.shape)
        total = np.ones(z_.shape)
        for n in range(200):
            term = term * ((a_ + 1.0 + n) / (k + 2.0 + n)) * u
            total += term
            if not (term > 1e-17 * total).any():
                break
        out[small] = a_ * z_ ** (k + 1) / (k + 1) * np.exp(-(a_ + 1.0) * np.log1p(z_)) * total
    # (2) light tail: what the incomplete gamma function is to an exponential
    light = ~small & (a > 2.5)
    if light.any():
        a_, z_ = a[light], z[light]
        tail = np.exp(-a_ * log[light])
        if k == 1:
            out[light] = (1.0 - (1.0 + a_ * z_) * tail) / (a_ - 1.0)
        else:
            tail = np.where(tail > 0, (1.0 + a_ * z_ * (1.0 + 0.5 * (a_ - 1.0) * z_)) * tail, 0.0)
            out[light] = 2.0 * (1.0 - tail) / ((a_ - 1.0) * (a_ - 2.0))
    # (3) heavy tail: powers h(q) = ((1+z)^q - 1)/q, which is log(1+z) at q = 0
    heavy = ~small & ~light
    if heavy.any():
        a_, log_ = a[heavy], log[heavy]
        h = [_power(i - a_, log_) for i in range(k + 1)]
        out[heavy] = a_ * (h[1] - h[0] if k == 1 else h[2] - 2.0 * h[1] + h[0])
    return out


def _power(q: Floats, log: Floats) -> Floats:
    return np.where(q == 0, log, np.expm1(q * log) / np.where(q == 0, 1.0, q))


@dataclass(frozen=True, eq=False)
class UncertainPoisson(_Law):
    """Poisson changes at a rate known only as a gamma distribution with this shape and scale.

    The mean rate is ``shape * scale``. From a random moment, the time to the next change is Pareto (Lomax) with
    the same shape and scale ``1/scale``; the gap after a change is Pareto with shape + 1, since changes belong to fast elements
    more often. All that a poll is worth, averaged over what the rate may be, follows from these two.

    >>> law = UncertainPoisson(shape=3.0, scale=0.5)
    >>> float(law.rate), float(law.residual_survival(2.0))
    (1.5, 0.125)
    """

    shape: Floats = _field(above=0.0)
    scale: Floats = _field(above=0.0)

    @property
    def rate(self) -> Floats:
        return self.shape * self.scale

    def _survival(self, y: Floats) -> Floats:
        return np.exp(-(self.shape + 1.0) * np.log1p(y * self.scale))

    def _residual_survival(self, t: Floats) -> Floats:
        return np.exp(-self.shape * np.log1p(t * self.scale))

    def _moment(self, k: int, t: Floats) -> Floats:
        return _pareto_moment(k, self.shape, t * self.scale) / self.scale**k

    def _limit(self, k: int) -> Floats:
        return _pareto_limit(k, self.shape) / self.scale**k

    def _sample(self, rng: np.random.Generator, size: Size) -> Floats:
        size = (size,) if isinstance(size, int) else tuple(size or ())
        rates = rng.gamma(self.shape, self.scale, size=(*size[:-1], 1) if size else None)
        return rng.exponential(size=size) / rates

    def _sample_residual(self, rng: np.random.Generator, size: Size) -> Floats:
        return np.expm1(rng.exponential(size=size) / self.shape) / self.scale

    def _stretched(self, factor: Floats) -> UncertainPoisson:
        return replace(self, scale=self.scale / factor)


@dataclass(frozen=True, eq=False)
class Weibull(_Law):
    """Gaps with S(y) = exp(-(y/scale)^shape): bursty below shape 1, regular above.

    >>> float(Weibull(shape=1.0, scale=0.5).rate)
    2.0
    """

    shape: Floats = _field(above=0.0)
    scale: Floats = _field(above=0.0)

    @property
    def rate(self) -> Floats:
        return 1.0 / (self.scale * special.gamma(1.0 + 1.0 / self.shape))

    def _level(self, y: Floats) -> Floats:
        return (y / self.scale) ** self.shape

    def _survival(self, y: Floats) -> Floats:
        return np.exp(-self._level(y))

    def _residual_survival(self, t: Floats) -> Floats:
        return special.gammaincc(1.0 / self.shape, self._level(t))

    def _moment(self, k: int, t: Floats) -> Floats:
        return self._limit(k) * special.gammainc((k + 1.0) / self.shape, self._level(t))

    def _limit(self, k: int) -> Floats:
        return self.scale**k * special.poch(1.0 / self.shape, k / self.shape)

    def _sample(self, rng: np.random.Generator, size: Size) -> Floats:
        return self.scale * rng.weibull(self.shape, size=size)

    def _sample_residual(self, rng: np.random.Generator, size: Size) -> Floats:
        longer = self.scale * rng.gamma(1.0 + 1.0 / self.shape, size=size) ** (1.0 / self.shape)
        return rng.random(size=size) * longer

    def _stretched(self, factor: Floats) -> Weibull:
        return replace(self, scale=self.scale * factor)


@dataclass(frozen=True, eq=False)
class Gamma(_Law):
    """Gamma-distributed gaps; an integer shape is the Erlang law.

    >>> float(Gamma(shape=2.0, scale=0.25).rate)
    2.0
    """

    shape: Floats = _field(above=0.0)
    scale: Floats = _field(above=0.0)

    @property
    def rate(self) -> Floats:
        return 1.0 / (self.shape * self.scale)

    def _survival(self, y: Floats) -> Floats:
        return special.gammaincc(self.shape, y / self.scale)

    def _residual_survival(self, t: Floats) -> Floats:
        k, z = np.broadcast_arrays(self.shape, t / self.scale)
        q = special.gammaincc(k, z)
        edge = np.exp(special.xlogy(k, z) - z - special.gammaln(k + 1.0))
        near = q * (1.0 - z / k) + edge
        far = (z > 30.0) & (z > 4.0 * k)
        if not far.any():
            return near
        # E[(U-t)+] = edge * integral of v (1+v)^(k-1) e^(-zv): no cancellation in the far tail
        nodes, weights = special.roots_genlaguerre(24, 1.0)
        z_ = np.where(far, z, 1e3)[..., None]
        tail = np.sum(weights * np.exp((k[..., None] - 1.0) * np.log1p(nodes / z_)), axis=-1)
        return np.where(far, edge * tail / z, near)

    def _moment(self, k: int, t: Floats) -> Floats:
        z = t / self.scale
        above = special.gammaincc(self.shape, z) * z ** (k + 1)
        below = special.poch(self.shape, k + 1) * special.gammainc(self.shape + k + 1.0, z)
        return (above + below) / ((k + 1.0) * self.shape) * self.scale**k

    def _limit(self, k: int) -> Floats:
        return special.poch(self.shape + 1.0, k) * self.scale**k / (k + 1.0)

    def _sample(self, rng: np.random.Generator, size: Size) -> Floats:
        return rng.gamma(self.shape, self.scale, size=size)

    def _sample_residual(self, rng: np.random.Generator, size: Size) -> Floats:
        return rng.random(size=size) * rng.gamma(self.shape + 1.0, self.scale, size=size)

    def _stretched(self, factor: Floats) -> Gamma:
        return replace(self, scale=self.scale * factor)


@dataclass(frozen=True, eq=False)
class Lognormal(_Law):
    """Gaps whose logarithm is normal with this mean and standard deviation.

    >>> float(Lognormal(log_mean=-0.5, log_sd=1.0).rate)
    1.0
    """

    log_mean: Floats = _field()
    log_sd: Floats = _field(above=0.0)

    @property
    def rate(self) -> Floats:
        return np.exp(-self.log_mean - 0.5 * self.log_sd**2)

    def _level(self, y: Floats) -> Floats:
        return (np.log(y) - self.log_mean) / self.log_sd

    def _survival(self, y: Floats) -> Floats:
        return special.ndtr(-self._level(y))

    def _residual_survival(self, t: Floats) -> Floats:
        v, s = self._level(t), self.log_sd
        near = special.ndtr(s - v) - t * self.rate * special.ndtr(-v)
        root = math.sqrt(0.5)
        # both terms carry the factor exp(-(v-s)^2/2); taking it out keeps the far tail
        far = 0.5 * np.exp(-0.5 * (v - s) ** 2) * (special.erfcx((v - s) * root) - special.erfcx(v * root))
        return np.where(v > 0.0, far, near)

    def _moment(self, k: int, t: Floats) -> Floats:
        v, s, j = self._level(t), self.log_sd, k + 1
        above = self.rate * t * special.ndtr(-v) * t**k
        below = np.exp(k * self.log_mean + 0.5 * (j * j - 1) * s**2 + special.log_ndtr(v - j * s))
        return (above + below) / j

    def _limit(self, k: int) -> Floats:
        j = k + 1
        return np.exp(k * self.log_mean + 0.5 * (j * j - 1) * self.log_sd**2) / j

    def _sample(self, rng: np.random.Generator, size: Size) -> Floats:
        return rng.lognormal(self.log_mean, self.log_sd, size=size)

    def _sample_residual(self, rng: np.random.Generator, size: Size) -> Floats:
        return rng.random(size=size) * rng.lognormal(self.log_mean + self.log_sd**2, self.log_sd, size=size)

    def _stretched(self, factor: Floats) -> Lognormal:
        return replace(self, log_mean=self.log_mean + np.log(factor))


@dataclass(frozen=True, eq=False)
class Periodic(_Law):
    """Every gap the same: a nightly export, or polls at constant intervals.

    >>> float(Periodic(period=0.5).rate)
    2.0
    """

    period: Floats = _field(above=0.0)

    @property
    def rate(self) -> Floats:
        return 1.0 / self.period

    @property
    def kinks(self) -> Floats:
        return np.ravel(self.period)

    @property
    def span(self) -> float | None:
        return float(self.period)

    def _survival(self, y: Floats) -> Floats:
        return np.where(y < self.period, 1.0, 0.0)

    def _residual_survival(self, t: Floats) -> Floats:
        return np.maximum(0.0, 1.0 - t / self.period)

    def _moment(self, k: int, t: Floats) -> Floats:
        inside = np.minimum(t, self.period)
        return inside / self.period * inside**k / (k + 1.0)

    def _limit(self, k: int) -> Floats:
        return self.period**k / (k + 1.0)

    def _sample(self, rng: np.random.Generator, size: Size) -> Floats:  # noqa: ARG002  (nothing is random)
        return np.broadcast_to(self.period, size).copy()

    def _sample_residual(self, rng: np.random.Generator, size: Size) -> Floats:
        return rng.random(size=size) * self.period

    def _stretched(self, factor: Floats) -> Periodic:
        return Periodic(self.period * factor)


@dataclass(frozen=True, eq=False)
class RandomOrder(_Law):
    """Polls in rounds of length ``interval``, each round in a new random order: triangular gaps on (0, 2 interval).

    >>> float(RandomOrder(interval=0.5).survival(0.5))
    0.5
    """

    interval: Floats = _field(above=0.0)

    @property
    def rate(self) -> Floats:
        return 1.0 / self.interval

    @property
    def kinks(self) -> Floats:
        return np.concatenate([np.ravel(self.interval), 2.0 * np.ravel(self.interval)])

    def _survival(self, y: Floats) -> Floats:
        v = np.minimum(y / self.interval, 2.0)
        return np.where(v < 1.0, 1.0 - 0.5 * v * v, 0.5 * (2.0 - v) ** 2)

    def _residual_survival(self, t: Floats) -> Floats:
        v = np.minimum(t / self.interval, 2.0)
        return np.where(v < 1.0, 1.0 - v + v**3 / 6.0, (2.0 - v) ** 3 / 6.0)

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

    def _sample(self, rng: np.random.Generator, size: Size) -> Floats:
        return (rng.random(size=size) + rng.random(size=size)) * self.interval

    def _sample_residual(self, rng: np.random.Generator, size: Size) -> Floats:
        # the last poll was uniform in its round; so is the next one in the round after, if this round's is over
        now, this, following = (rng.random(size=size) for _ in range(3))
        return np.where(this > now, this - now, 1.0 + following - now) * self.interval

    def _stretched(self, factor: Floats) -> RandomOrder:
        return RandomOrder(self.interval * factor)


@dataclass(frozen=True, eq=False)
class Empirical(_Law):
    """Gaps as observed: each of the given gaps is equally likely.

    >>> float(Empirical([1.0, 2.0, 3.0]).rate)
    0.5
    >>> Empirical.from_times([0.0, 1.0, 3.0]).gaps.tolist()
    [1.0, 2.0]
    """

    gaps: Floats = _field(above=0.0)

    def __post_init__(self) -> None:
        array = numbers("gaps", self.gaps, above=0, nonempty=True)
        if array.ndim > 1:
            msg = f"gaps must be one-dimensional; it has shape {array.shape}"
            raise InvalidInput(msg)
        object.__setattr__(self, "gaps", np.sort(np.atleast_1d(array)))

    @classmethod
    def from_times(cls, times: ArrayLike) -> Empirical:
        """Return the law of the gaps between increasing times of changes."""
        array = numbers("times", times, nonempty=True)
        if array.ndim != 1 or array.size < 2:
            msg = f"times must be a list of at least two times; it has shape {array.shape}"
            raise InvalidInput(msg)
        gaps = np.diff(array)
        if (gaps <= 0).any():
            i = int(np.argmax(gaps <= 0)) + 1
            msg = f"times must increase; times[{i}] is {array[i]!r} after {array[i - 1]!r}"
            raise InvalidInput(msg)
        return cls(gaps)

    @property
    def shape_of(self) -> tuple[int, ...]:
        return ()

    def element(self, index: tuple[int, ...]) -> Empirical:  # noqa: ARG002  (one law for all)
        return self

    @property
    def rate(self) -> Floats:
        return 1.0 / np.mean(self.gaps)

    @property
    def kinks(self) -> Floats:
        return self.gaps

    @cached_property
    def span(self) -> float | None:
        return _common_span(self.gaps)

    @cached_property
    def _sums(self) -> tuple[Floats, ...]:
        """Sums of the k-th powers of the first i gaps, and of the last ones, in units of the mean gap."""
        unit = self.gaps * self.rate
        below = tuple(np.concatenate([[0.0], np.cumsum(unit**k)]) for k in (1, 2, 3))
        above = np.concatenate([np.cumsum(unit[::-1])[::-1], [0.0]])
        return (*below, above)

    def _count(self, t: Floats) -> tuple[Floats, Floats]:
        i = np.searchsorted(self.gaps, t, side="right")
        return i, self.gaps.size - i

    def _survival(self, y: Floats) -> Floats:
        return self._count(y)[1] / self.gaps.size

    def _residual_survival(self, t: Floats) -> Floats:
        i, longer = self._count(t)
        return np.maximum(0.0, self._sums[3][i] - longer * (t * self.rate)) / self.gaps.size

    def _moment(self, k: int, t: Floats) -> Floats:
        i, longer = self._count(t)
        total = self._sums[k][i] + longer * (t * self.rate) ** (k + 1)
        return total / (self.gaps.size * (k + 1)) / self.rate**k

    def _limit(self, k: int) -> Floats:
        return self._sums[k][-1] / (self.gaps.size * (k + 1)) / self.rate**k

    def _sample(self, rng: np.random.Generator, size: Size) -> Floats:
        return rng.choice(self.gaps, size=size)

    def _sample_residual(self, rng: np.random.Generator, size: Size) -> Floats:
        longer = rng.choice(self.gaps, size=size, p=self.gaps / self.gaps.sum())
        return rng.random(size=size) * longer

    def _stretched(self, factor: Floats) -> Empirical:
        if np.ndim(factor):
            msg = f"an empirical law is one law; rate must be a single number, it has shape {np.shape(factor)}"
            raise InvalidInput(msg)
        return Empirical(self.gaps * factor)


def _common_span(gaps: Floats, tolerance: float = 1e-9) -> float | None:
    """Largest d of which every gap is a whole multiple, by Euclid's algorithm with a tolerance.

    Decimal fractions are no binary ones, so "whole" means to within ``tolerance`` of the largest gap; a common
    span below a thousand tolerances is taken for chance, and the law for non-lattice.
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
