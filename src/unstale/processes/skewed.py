"""Gaps more or less regular than exponential ones: Weibull, gamma and lognormal."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy

from unstale.arguments import Floats

from .law import Law, Parameter, parameter


@dataclass(frozen=True, eq=False, repr=False)
class Weibull(Law):
    """Gaps with S(y) = exp(-(y/scale)^shape): bursty below shape 1, regular above.

    >>> float(Weibull(shape=1.0, scale=0.5).rate)
    2.0
    """

    shape: Parameter = parameter(at_least=0.02)  # below, its moments leave the floats
    scale: Parameter = parameter(above=0.0)

    @property
    def rate(self) -> Floats:
        return 1.0 / (self.scale * scipy.special.gamma(1.0 + 1.0 / self.shape))

    def _level(self, y: Floats) -> Floats:
        return (y / self.scale) ** self.shape

    def _survival(self, y: Floats) -> Floats:
        return np.exp(-self._level(y))

    def _residual_survival(self, t: Floats) -> Floats:
        return scipy.special.gammaincc(1.0 / self.shape, self._level(t))

    def _moment(self, k: int, t: Floats) -> Floats:
        return self._limit(k) * scipy.special.gammainc((k + 1.0) / self.shape, self._level(t))

    def _limit(self, k: int) -> Floats:
        return self.scale**k * scipy.special.poch(1.0 / self.shape, k / self.shape)

    def _sample(self, rng: np.random.Generator, size: tuple[int, ...]) -> Floats:
        return self.scale * rng.weibull(self.shape, size=size)

    def _sample_residual(self, rng: np.random.Generator, size: tuple[int, ...]) -> Floats:
        longer = self.scale * rng.gamma(1.0 + 1.0 / self.shape, size=size) ** (1.0 / self.shape)
        return rng.random(size=size) * longer

    def _stretched(self, factor: Floats) -> Weibull:
        return replace(self, scale=self.scale * factor)


@dataclass(frozen=True, eq=False, repr=False)
class Gamma(Law):
    """Gamma-distributed gaps; an integer shape is the Erlang law.

    >>> float(Gamma(shape=2.0, scale=0.25).rate)
    2.0
    """

    shape: Parameter = parameter(above=0.0)
    scale: Parameter = parameter(above=0.0)

    @property
    def rate(self) -> Floats:
        return 1.0 / (self.shape * self.scale)

    def _survival(self, y: Floats) -> Floats:
        return self._tail(y)[0]

    def _residual_survival(self, t: Floats) -> Floats:
        return self._tail(t)[1]

    def _tail(self, t: Floats) -> tuple[Floats, Floats]:
        """Survival and residual survival; far out from the continued fraction."""
        k, z = np.broadcast_arrays(self.shape, np.minimum(t / self.scale, 1e300))
        longer, edge = scipy.special.gammaincc(k, z), _gamma_edge(k, z)
        residual = longer * (1.0 - z / k) + edge  # up to the bound below this loses less than a digit
        far = z > k + 2.0 * np.sqrt(k) + 3.0
        if not far.any():
            return longer, residual
        y = _gamma_fraction(np.where(far, k, 1.0), np.where(far, z, 10.0))
        b = z + 1.0 - k + y
        return np.where(far, edge * k / b, longer), np.where(far, edge * (1.0 + y) / b, residual)

    def _moment(self, k: int, t: Floats) -> Floats:
        z = t / self.scale
        longer = scipy.special.gammaincc(self.shape, z)
        above = np.where(longer > 0, longer * z ** (k + 1), 0.0)
        below = scipy.special.poch(self.shape, k + 1) * scipy.special.gammainc(self.shape + k + 1.0, z)
        return (above + below) / ((k + 1.0) * self.shape) * self.scale**k

    def _limit(self, k: int) -> Floats:
        return scipy.special.poch(self.shape + 1.0, k) * self.scale**k / (k + 1.0)

    def _sample(self, rng: np.random.Generator, size: tuple[int, ...]) -> Floats:
        return rng.gamma(self.shape, self.scale, size=size)

    def _sample_residual(self, rng: np.random.Generator, size: tuple[int, ...]) -> Floats:
        return rng.random(size=size) * rng.gamma(self.shape + 1.0, self.scale, size=size)

    def _stretched(self, factor: Floats) -> Gamma:
        return replace(self, scale=self.scale * factor)


def _gamma_edge(k: Floats, z: Floats) -> Floats:
    """z^k e^-z / Gamma(k+1); for large k around its peak, so that nothing of the size of k log k cancels."""
    large = k > 30.0
    plain = np.exp(scipy.special.xlogy(k, z) - z - scipy.special.gammaln(k + 1.0))
    if not large.any():
        return plain
    k_ = np.where(large, k, 100.0)
    x = (z - k_) / k_
    u = x / (2.0 + x)  # log(1+x) = 2 atanh(u)
    series = np.zeros(u.shape)
    for n in range(16, 0, -1):
        series = series * u * u + 1.0 / (2 * n + 1)
    gap = np.where(np.abs(x) < 0.5, x * u - 2.0 * u**3 * series, x - np.log1p(x))
    stirling = (1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - 1.0 / 1680.0 / k_**2) / k_**2) / k_**2) / k_
    return np.where(large, np.exp(-k_ * gap - stirling) / np.sqrt(2.0 * np.pi * k_), plain)


def _gamma_fraction(k: Floats, z: Floats) -> Floats:
    """Y = (k-1)/(z+3-k+ 2(k-2)/(z+5-k+...)), for z well above k: Legendre's continued fraction.

    It gives Gamma(k, z) = z^k e^-z / (z+1-k+y), and the integral of (v-z) v^(k-1) e^-v from z on as 1+y times
    that: no cancellation, however far the tail.
    """
    b = z + 3.0 - k
    c, d = np.full(z.shape, np.inf), 1.0 / b
    y = (k - 1.0) * d
    for n in range(2, 5000):  # Lentz's method
        b = b + 2.0
        a = n * (k - n)
        d = 1.0 / (b + a * d)
        c = b + a / c
        factor = c * d
        y = y * factor
        if not (np.abs(factor - 1.0) > 1e-15).any():
            break
    return y


@dataclass(frozen=True, eq=False, repr=False)
class Lognormal(Law):
    """Gaps whose logarithm is normal with this mean and standard deviation.

    >>> float(Lognormal(log_mean=-0.5, log_sd=1.0).rate)
    1.0
    """

    log_mean: Parameter = parameter()
    log_sd: Parameter = parameter(above=0.0)

    @property
    def rate(self) -> Floats:
        return np.exp(-self.log_mean - 0.5 * self.log_sd**2)

    def _level(self, y: Floats) -> Floats:
        return (np.log(y) - self.log_mean) / self.log_sd

    def _survival(self, y: Floats) -> Floats:
        return scipy.special.ndtr(-self._level(y))

    def _residual_survival(self, t: Floats) -> Floats:
        v, s = self._level(t), self.log_sd
        near = scipy.special.ndtr(s - v) - t * self.rate * scipy.special.ndtr(-v)
        root = math.sqrt(0.5)
        # both terms carry the factor exp(-(v-s)^2/2); taking it out keeps the far tail
        far = (
            0.5
            * np.exp(-0.5 * (v - s) ** 2)
            * (scipy.special.erfcx((v - s) * root) - scipy.special.erfcx(v * root))
        )
        return np.where(v > 0.0, far, near)

    def _moment(self, k: int, t: Floats) -> Floats:
        v, s, j = self._level(t), self.log_sd, k + 1
        longer = scipy.special.ndtr(-v)
        above = np.where(longer > 0, self.rate * t * longer * t**k, 0.0)
        below = np.exp(k * self.log_mean + 0.5 * (j * j - 1) * s**2 + scipy.special.log_ndtr(v - j * s))
        return (above + below) / j

    def _limit(self, k: int) -> Floats:
        j = k + 1
        return np.exp(k * self.log_mean + 0.5 * (j * j - 1) * self.log_sd**2) / j

    def _sample(self, rng: np.random.Generator, size: tuple[int, ...]) -> Floats:
        return rng.lognormal(self.log_mean, self.log_sd, size=size)

    def _sample_residual(self, rng: np.random.Generator, size: tuple[int, ...]) -> Floats:
        return rng.random(size=size) * rng.lognormal(self.log_mean + self.log_sd**2, self.log_sd, size=size)

    def _stretched(self, factor: Floats) -> Lognormal:
        return replace(self, log_mean=self.log_mean + np.log(factor))
