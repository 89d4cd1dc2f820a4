"""Poisson changes, and what becomes of them when the rate varies: Pareto gaps and uncertain rates."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy

from unstale import kernels
from unstale.arguments import Floats, scalar

from .law import Law, Parameter, parameter


@dataclass(frozen=True, eq=False, repr=False)
class Poisson(Law):
    """Changes at random, independently of each other: exponential gaps.

    >>> float(Poisson(rate=2.0).survival(0.5).round(4))
    0.3679
    """

    rate: Parameter = parameter(at_least=0.0)

    def _survival(self, y: Floats) -> Floats:
        return np.exp(-self.rate * y)

    def _residual_survival(self, t: Floats) -> Floats:
        return self._survival(t)

    def _moment(self, k: int, t: Floats) -> Floats:
        x = self.rate * t
        if k == 0:
            return kernels.p1(x)
        kernel = kernels.p2(x) if k == 1 else 2.0 * kernels.p3(x)
        # t^k * kernel / x^k, which has no 0/0 but at x = 0
        tiny = x < 1e-100
        ratio = np.where(tiny, x / (k + 1), kernel / np.where(tiny, 1.0, x) ** k)
        full = x > 1.0  # here t**k could overflow
        return np.where(
            full, kernel / np.where(full, self.rate, 1.0) ** k, np.where(x > 0, ratio * t**k, 0.0)
        )

    def _limit(self, k: int) -> Floats:
        return np.where(self.rate > 0, math.factorial(k) / self.rate**k, 0.0)

    def _sample(self, rng: np.random.Generator, size: tuple[int, ...]) -> Floats:
        return rng.exponential(size=size) / self.rate

    _sample_residual = _sample

    def _stretched(self, factor: Floats) -> Poisson:
        return Poisson(self.rate / factor)


@dataclass(frozen=True, eq=False, repr=False)
class Pareto(Law):
    """Gaps with a power tail, S(y) = (1 + y/scale)^-shape (the Lomax form); bursts, then long silence.

    ``shape`` must exceed 1 (else the mean gap is infinite); at or below 2 the variance is infinite.

    >>> float(Pareto(shape=3.0, scale=1.0).rate)
    2.0
    """

    shape: Parameter = parameter(above=1.0, at_most=1e15)  # beyond, it is exponential to the last digit
    scale: Parameter = parameter(above=0.0)

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

    def _sample(self, rng: np.random.Generator, size: tuple[int, ...]) -> Floats:
        return self.scale * np.expm1(rng.exponential(size=size) / self.shape)

    def _sample_residual(self, rng: np.random.Generator, size: tuple[int, ...]) -> Floats:
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
    """Integral of a v^k (1+v)^-(a+1) from 0 to z, by whichever of three forms keeps its digits."""
    a, z = np.broadcast_arrays(np.asarray(a, float), np.minimum(z, 1e300))
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
            out[light] = (1.0 - np.where(tail > 0, (1.0 + a_ * z_) * tail, 0.0)) / (a_ - 1.0)
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


@dataclass(frozen=True, eq=False, repr=False)
class UncertainPoisson(Law):
    """Poisson changes at a rate known only as a gamma distribution with this shape and scale.

    The mean rate is ``shape * scale``. From a random moment, the time to the next change is Pareto (Lomax)
    with the same shape and scale ``1/scale``. The gap after a random change (`survival`) is Pareto with shape
    + 1, since changes belong to fast elements more often; `sample` draws one rate for each element, and its
    gaps. All that a poll is worth, averaged over what the rate may be, follows from these.

    >>> law = UncertainPoisson(shape=3.0, scale=0.5)
    >>> float(law.rate), float(law.residual_survival(2.0))
    (1.5, 0.125)
    """

    shape: Parameter = parameter(above=0.0, at_most=1e15)  # beyond, the rate is certain
    scale: Parameter = parameter(above=0.0)

    @property
    def rate(self) -> Floats:
        return self.shape * self.scale

    def quantile(self, share: float) -> Floats:
        """Return what each rate is below with this probability.

        >>> float(UncertainPoisson(shape=1.0, scale=2.0).quantile(0.5).round(3))
        1.386
        """
        return scipy.special.gammaincinv(self.shape, scalar("share", share, above=0, below=1)) * self.scale

    def _survival(self, y: Floats) -> Floats:
        return np.exp(-(self.shape + 1.0) * np.log1p(y * self.scale))

    def _residual_survival(self, t: Floats) -> Floats:
        return np.exp(-self.shape * np.log1p(t * self.scale))

    def _moment(self, k: int, t: Floats) -> Floats:
        return _pareto_moment(k, self.shape, t * self.scale) / self.scale**k

    def _limit(self, k: int) -> Floats:
        return _pareto_limit(k, self.shape) / self.scale**k

    def _sample(self, rng: np.random.Generator, size: tuple[int, ...]) -> Floats:
        shared = self.shape_of or (*size[:-1], *(1 for _ in size[-1:]))  # one rate for each element
        rates = rng.gamma(self.shape, self.scale, size=shared)
        return rng.exponential(size=size) / rates

    def _sample_residual(self, rng: np.random.Generator, size: tuple[int, ...]) -> Floats:
        return np.expm1(rng.exponential(size=size) / self.shape) / self.scale

    def _stretched(self, factor: Floats) -> UncertainPoisson:
        return replace(self, scale=self.scale / factor)
