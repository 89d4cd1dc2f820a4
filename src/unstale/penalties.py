"""What a lag costs: a weight w(x) for data that is x behind, with the antiderivatives that averages need.

Li, Cline & Loguinov (INFOCOM 2015) write a penalty as w(x) and need its integral (``once``), the integral of
that (``twice``) and the integral of y w(y) (``moment``), all from 0 to x.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from . import kernels
from .arguments import Floats, choice, numbers, scalar
from .errors import InvalidInput
from .quadrature import cumulate

__all__ = ["Penalty", "beyond", "custom", "decay", "named", "power", "scaled"]


@runtime_checkable
class Penalty(Protocol):
    """A weight of lags, w(x) for x >= 0; make one with `named`, `power`, `decay`, `beyond` or `custom`.

    >>> log = named("log(1+x)")
    >>> float(log.value(np.e - 1)), round(float(log.once(np.e - 1)), 12)
    (1.0, 1.0)
    """

    @property
    def name(self) -> str:
        """Name for messages and tables."""

    @property
    def exponent(self) -> float | None:
        """K if w(x) = x^k: some averages then have a closed form."""

    @property
    def threshold(self) -> float | None:
        """Tau if w(x) is 1 from tau on and 0 before."""

    def value(self, x: ArrayLike) -> Floats:
        """w(x)."""

    def once(self, x: ArrayLike) -> Floats:
        """Integral of w."""

    def twice(self, x: ArrayLike) -> Floats:
        """Integral of ``once``."""

    def moment(self, x: ArrayLike) -> Floats:
        """Integral of y w(y)."""


AnyPenalty = str | Penalty | Callable[[Floats], ArrayLike]


def as_penalty(penalty: AnyPenalty) -> Penalty:
    """Return a penalty from its name, from a function of the lag, or as it is."""
    if isinstance(penalty, str):
        return named(penalty)
    if isinstance(penalty, Penalty) and not isinstance(penalty, type):
        return penalty
    if isinstance(penalty, type) or not callable(penalty):
        raise InvalidInput(
            f"penalty must be a name, a Penalty or a function of the lag; penalty is {penalty!r}"
        )
    return custom(penalty)


def named(name: str) -> Penalty:
    """Return one of the penalties with a name: ``1``, ``x``, ``log(1+x)``, ``1/(1+x)``.

    >>> named("x").exponent
    1.0
    """
    return _NAMED[choice("penalty", name, _NAMED)]


def power(k: float) -> Penalty:
    """Return w(x) = x^k, k >= 0: 1 counts staleness, x measures age.

    >>> float(power(2).once(3.0))
    9.0
    """
    return _Power(scalar("k", k, at_least=0))


def decay(rate: float) -> Penalty:
    """Return w(x) = exp(-rate x): an old lag matters less and less.

    >>> float(decay(2.0).once(np.inf))
    0.5
    """
    return _Decay(scalar("rate", rate, above=0))


def beyond(tau: float) -> Penalty:
    """Return w(x) = 1 for x >= tau, else 0: up to tau a lag does not matter.

    >>> float(beyond(2.0).once(5.0))
    3.0
    """
    return _Beyond(scalar("tau", tau, at_least=0))


def scaled(penalty: AnyPenalty, unit: float) -> Penalty:
    """Return a penalty whose lags are counted in another unit: w(x / unit).

    >>> float(scaled(named("log(1+x)"), 60.0).value(60.0).round(4))
    0.6931
    """
    return _Scaled(as_penalty(penalty), scalar("unit", unit, above=0))


def custom(
    function: Callable[[Floats], ArrayLike], *, kinks: ArrayLike = (), name: str = "custom"
) -> Penalty:
    """Return the penalty of any non-negative function w(x), integrated by quadrature.

    The function takes arrays, also with an infinite lag, where it answers its limit. ``kinks`` are the points
    where it jumps or bends. Averages then take several integrals inside each other, and seconds each.

    >>> float(custom(lambda x: x * x).once(3.0).round(9))
    9.0
    """
    if not callable(function):
        raise InvalidInput(f"function must be a function of the lag; it is {function!r}")
    return _Custom(function, tuple(np.ravel(numbers("kinks", kinks)).tolist()), name)


class _General:
    """Neither a power nor a threshold."""

    @property
    def exponent(self) -> float | None:
        return None

    @property
    def threshold(self) -> float | None:
        return None


@dataclass(frozen=True)
class _Power(_General):
    k: float

    @property
    def name(self) -> str:
        return {0.0: "1", 1.0: "x"}.get(self.k, f"x^{self.k:g}")

    @property
    def exponent(self) -> float | None:
        return self.k

    def value(self, x: ArrayLike) -> Floats:
        return np.asarray(x, float) ** self.k

    def once(self, x: ArrayLike) -> Floats:
        return np.asarray(x, float) ** (self.k + 1) / (self.k + 1)

    def twice(self, x: ArrayLike) -> Floats:
        return np.asarray(x, float) ** (self.k + 2) / ((self.k + 1) * (self.k + 2))

    def moment(self, x: ArrayLike) -> Floats:
        return np.asarray(x, float) ** (self.k + 2) / (self.k + 2)


@dataclass(frozen=True)
class _Decay(_General):
    rate: float

    @property
    def name(self) -> str:
        return f"exp(-{self.rate:g}x)"

    def value(self, x: ArrayLike) -> Floats:
        return np.exp(-self.rate * np.asarray(x, float))

    def once(self, x: ArrayLike) -> Floats:
        return kernels.p1(self.rate * np.asarray(x, float)) / self.rate

    def twice(self, x: ArrayLike) -> Floats:
        return kernels.q1(self.rate * np.asarray(x, float)) / self.rate**2

    def moment(self, x: ArrayLike) -> Floats:
        return kernels.p2(self.rate * np.asarray(x, float)) / self.rate**2


@dataclass(frozen=True)
class _Scaled(_General):
    penalty: Penalty
    unit: float

    @property
    def name(self) -> str:
        return f"{self.penalty.name} with x in {self.unit:g}"

    def value(self, x: ArrayLike) -> Floats:
        return self.penalty.value(np.asarray(x, float) / self.unit)

    def once(self, x: ArrayLike) -> Floats:
        return self.unit * self.penalty.once(np.asarray(x, float) / self.unit)

    def twice(self, x: ArrayLike) -> Floats:
        return self.unit**2 * self.penalty.twice(np.asarray(x, float) / self.unit)

    def moment(self, x: ArrayLike) -> Floats:
        return self.unit**2 * self.penalty.moment(np.asarray(x, float) / self.unit)


@dataclass(frozen=True)
class _Beyond(_General):
    tau: float

    @property
    def name(self) -> str:
        return f"1{{x>={self.tau:g}}}"

    @property
    def threshold(self) -> float | None:
        return self.tau

    def value(self, x: ArrayLike) -> Floats:
        return np.where(np.asarray(x, float) >= self.tau, 1.0, 0.0)

    def once(self, x: ArrayLike) -> Floats:
        return np.maximum(np.asarray(x, float) - self.tau, 0.0)

    def twice(self, x: ArrayLike) -> Floats:
        return 0.5 * self.once(x) ** 2

    def moment(self, x: ArrayLike) -> Floats:
        return 0.5 * self.once(x) * (np.asarray(x, float) + self.tau)


@dataclass(frozen=True)
class _Custom(_General):
    function: Callable[[Floats], ArrayLike]
    kinks: tuple[float, ...]
    name: str

    def value(self, x: ArrayLike) -> Floats:
        x = np.asarray(x, float)
        try:
            found = np.array(np.broadcast_to(np.asarray(self.function(x), float), x.shape))
        except (TypeError, ValueError) as error:
            raise InvalidInput(
                f"penalty({self.name}) must take an array of lags and give as many numbers; {error}"
            ) from error
        if np.isnan(found[np.isinf(x)]).any():
            raise InvalidInput(
                f"penalty({self.name}) must answer its limit at an infinite lag; penalty(inf) is nan"
            )
        return numbers(f"penalty({self.name})", found, at_least=0, infinite=True)

    def once(self, x: ArrayLike) -> Floats:
        return cumulate(self.value, np.asarray(x, float), np.asarray(self.kinks, float))

    def twice(self, x: ArrayLike) -> Floats:
        return _unbounded(lambda x: x * self.once(x) - self.moment(x), x)

    def moment(self, x: ArrayLike) -> Floats:
        return cumulate(lambda y: y * self.value(y), np.asarray(x, float), np.asarray(self.kinks, float))


# --- log(1+x) and 1/(1+x), which cancel for small x -----------------------------------------


@dataclass(frozen=True)
class _Logarithm(_General):
    name: str = "log(1+x)"

    def value(self, x: ArrayLike) -> Floats:
        return np.log1p(np.asarray(x, float))

    def once(self, x: ArrayLike) -> Floats:
        return _unbounded(_entropy, x)

    def twice(self, x: ArrayLike) -> Floats:
        return _unbounded(_log_twice, x)

    def moment(self, x: ArrayLike) -> Floats:
        return _unbounded(_log_moment, x)


@dataclass(frozen=True)
class _Reciprocal(_General):
    name: str = "1/(1+x)"

    def value(self, x: ArrayLike) -> Floats:
        return 1.0 / (1.0 + np.asarray(x, float))

    def once(self, x: ArrayLike) -> Floats:
        return np.log1p(np.asarray(x, float))

    def twice(self, x: ArrayLike) -> Floats:
        return _unbounded(_entropy, x)

    def moment(self, x: ArrayLike) -> Floats:
        return _unbounded(_linear_excess, x)


_NAMED: dict[str, Penalty] = {
    "1": power(0.0),
    "x": power(1.0),
    "log(1+x)": _Logarithm(),
    "1/(1+x)": _Reciprocal(),
}


def _unbounded(function: Callable[[Floats], Floats], x: ArrayLike) -> Floats:
    """Return infinity at infinity for a function that grows without bound; its formula is inf - inf there."""
    x = np.asarray(x, float)
    return np.where(np.isinf(x), np.inf, function(np.where(np.isinf(x), 1.0, x)))


def _log_excess(x: Floats) -> Floats:
    """Return log(1+x) - x + x^2/2 for x < 1, positive and about x^3/3."""
    u = np.where(x < 1.0, x / (2.0 + x), 0.0)  # log(1+x) = 2 atanh(u)
    series = np.zeros(np.shape(x))
    for k in range(18, 0, -1):
        series = series * u * u + 1.0 / (2 * k + 1)
    return 0.5 * x * x * u + 2.0 * u**3 * series


def _linear_excess(x: Floats) -> Floats:
    """Return x - log(1+x), about x^2/2."""
    return np.where(x < 1.0, 0.5 * x * x - _log_excess(x), x - np.log1p(x))


def _entropy(x: Floats) -> Floats:
    """Return (1+x) log(1+x) - x, about x^2/2."""
    return np.where(x < 1.0, x * x - (1.0 + x) * _linear_excess(x), (1.0 + x) * np.log1p(x) - x)


def _log_twice(x: Floats) -> Floats:
    """Integral of `_entropy`, about x^3/6."""
    small = 0.5 * (1.0 + x) ** 2 * _log_excess(x) - 0.25 * x**4
    large = 0.5 * (1.0 + x) ** 2 * np.log1p(x) - 0.25 * x * (2.0 + 3.0 * x)
    return np.where(x < 1.0, small, large)


def _log_moment(x: Floats) -> Floats:
    """Integral of y log(1+y), about x^3/3."""
    small = 0.5 * x**3 - 0.25 * x**4 + 0.5 * (x * x - 1.0) * _log_excess(x)
    large = 0.5 * (x - 1.0) * (x + 1.0) * np.log1p(x) - 0.25 * x * (x - 2.0)
    return np.where(x < 1.0, small, large)
