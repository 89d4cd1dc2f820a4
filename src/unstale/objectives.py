"""What staleness costs, what a poll is worth, and the interval at which it is worth a given price.

Let ``g(t)`` be the expected cost of an element ``t`` after its last poll. Everything else follows from it:

    accrued(t)   = integral of g from 0 to t             mean cost at constant intervals D:  accrued(D) / D
    worth(t)     = t g(t) - accrued(t) = integral of s g'(s) ds from 0 to t

and the worth is what one more poll per unit time saves: with ``f = 1/D`` the derivative of ``accrued(D)/D``
by ``f`` is ``-worth(D)``. Three families of cost cover the papers (``G`` is the residual distribution of the
process of changes):

    source penalty   weight of the lag since the first missed change      g = integral of w(t-y) dG(y)
    update penalty   sum of the weights of all missed changes             g = rate * integral of w from 0 to t
    harmonic         H_n for n missed changes                             g = integral of G(s)/s ds

Freshness is the source penalty with w = 1, age with w = x, tau-currency with w = 1{x >= tau}; missed updates
are the update penalty with w = 1. Harmonic cost is LambdaCrawl's: the expected H_n for Poisson changes, with
a known or an uncertain rate. For other laws the same integral stands for it: the expected log(t / time of the
first change), over those that changed.

References: Li, Cline & Loguinov (INFOCOM 2015), eq. 14-25; Cho & Garcia-Molina (SIGMOD 2000), section 4;
Olston & Pandey (WWW 2008).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy

from . import kernels
from .arguments import Floats, choice, unwrap
from .errors import InvalidInput
from .penalties import AnyPenalty, Penalty, as_penalty, beyond, named
from .processes import Poisson, Process
from .quadrature import integrate, integrate_pieces, integrate_to

__all__ = [
    "Fading",
    "Harmonic",
    "Objective",
    "SourcePenalty",
    "UpdatePenalty",
    "currency",
    "objective_named",
]


class Objective(Protocol):
    """A cost to keep low; ``t`` is an array of times since the last poll, possibly infinite."""

    @property
    def name(self) -> str:
        """Name for messages and tables."""

    @property
    def kernel(self) -> int | None:
        """Number of the compiled kernel for Poisson changes, if there is one."""

    def cost(self, law: Process, t: Floats) -> Floats:
        """g(t)."""

    def accrued(self, law: Process, t: Floats) -> Floats:
        """Integral of g."""

    def worth(self, law: Process, t: Floats) -> Floats:
        """Return t g(t) - accrued(t), without cancellation."""

    def slope(self, law: Process, t: Floats) -> Floats | None:
        """g'(t), or None where there is no closed form."""


def _limited(law: Process, t: Floats, value: Floats, limit: float | Floats) -> Floats:
    """Replace inf - inf at t = inf by its limit, and 0 * inf of an element that never changes by 0."""
    value = np.where(np.isinf(t), limit, value)
    return unwrap(np.where(law.rate > 0, value, 0.0))


@dataclass(frozen=True, init=False)
class SourcePenalty:
    """Weight of how long the source has been ahead of the copy.

    >>> freshness = SourcePenalty(named("1"))
    >>> float(freshness.cost(Poisson(1.0), 1.0).round(4))
    0.6321
    """

    penalty: Penalty

    def __init__(self, penalty: AnyPenalty) -> None:
        object.__setattr__(self, "penalty", as_penalty(penalty))

    @property
    def name(self) -> str:
        return {"1": "freshness", "x": "age"}.get(self.penalty.name, f"source penalty {self.penalty.name}")

    @property
    def kernel(self) -> int | None:
        return {0.0: kernels.FRESHNESS, 1.0: kernels.AGE}.get(self.penalty.exponent)  # type: ignore[arg-type]

    @property
    def _threshold(self) -> float | None:
        return 0.0 if self.penalty.exponent == 0.0 else self.penalty.threshold

    def cost(self, law: Process, t: Floats) -> Floats:
        t = np.asarray(t, float)
        if self._threshold is not None:
            return law.moment(0, np.maximum(t - self._threshold, 0.0))
        with np.errstate(invalid="ignore"):
            if self.penalty.exponent == 1.0:
                return _limited(law, t, t * law.moment(0, t) - law.moment(1, t), np.inf)
            limit = self._never if np.isinf(t).any() else np.nan
            return self._convolved(law, t, lambda lag, _: self.penalty.value(lag), limit)

    def accrued(self, law: Process, t: Floats) -> Floats:
        t = np.asarray(t, float)
        with np.errstate(invalid="ignore"):
            if self._threshold is not None:
                z = np.maximum(t - self._threshold, 0.0)
                return _limited(law, t, z * law.moment(0, z) - law.moment(1, z), np.inf)
            if self.penalty.exponent == 1.0:
                value = 0.5 * t * t * law.moment(0, t) - t * law.moment(1, t) + 0.5 * law.moment(2, t)
                return _limited(law, t, value, np.inf)
            total = np.inf
            if np.isinf(t).any() and self._never == 0:
                total = float(self.penalty.once(np.asarray(np.inf)))
            return self._convolved(law, t, lambda lag, _: self.penalty.once(lag), total)

    def slope(self, law: Process, t: Floats) -> Floats | None:
        if self._threshold is not None:
            return np.where(
                t < self._threshold, 0.0, law.rate * law.survival(np.maximum(t - self._threshold, 0.0))
            )
        return law.moment(0, t) if self.penalty.exponent == 1.0 else None

    def worth(self, law: Process, t: Floats) -> Floats:
        t = np.asarray(t, float)
        with np.errstate(invalid="ignore"):
            if self._threshold is not None:
                z = np.maximum(t - self._threshold, 0.0)
                return self._threshold * law.moment(0, z) + law.moment(1, z)
            if self.penalty.exponent == 1.0:
                return _limited(law, t, 0.5 * (t * t * law.moment(0, t) - law.moment(2, t)), np.inf)
            w = self.penalty
            # t w(t-y) - once(t-y), split so that nothing of the size of t cancels
            return self._convolved(
                law,
                t,
                lambda lag, y: y * w.value(lag) + (lag * w.value(lag) - w.once(lag)),
                self._first_poll(law) if np.isinf(t).any() else np.nan,
            )

    @property
    def _never(self) -> float:
        """The weight of an infinite lag."""
        return float(self.penalty.value(np.asarray(np.inf)))

    def _first_poll(self, law: Process) -> float | Floats:
        """Limit of the worth: what the first poll of a neglected element is worth."""
        most = self._never
        if np.isinf(most):
            return np.inf
        if most == 0.0:
            return -float(self.penalty.once(np.asarray(np.inf)))
        return most * law.moment(1, np.inf) + integrate(lambda x: most - self.penalty.value(x), 0.0, np.inf)

    @property
    def smooth(self) -> bool:
        """Whether the weight is known to be smooth, so that fixed rules integrate it."""
        return not hasattr(self.penalty, "kinks")

    @staticmethod
    def _convolved_at_once(law: Process, t: Floats, kernel: Callable[[Floats, Floats], Floats]) -> Floats:
        """The integral of `_convolved` for all elements, in pieces that shrink towards both ends."""
        rate = np.where(law.rate > 0, law.rate, 1.0)
        shape = np.broadcast_shapes(np.shape(t), np.shape(rate))
        top = np.broadcast_to(np.where(np.isinf(t) | (law.rate == 0), 0.0, t), shape)
        ends = np.array([0.0, 1e-12, 1e-9, 1e-7, 1e-5, 1e-4, 1e-3, 1e-2, 0.05, 0.15, 0.35])
        share = np.concatenate([ends, [0.5], 1.0 - ends]).reshape((-1,) + (1,) * len(shape))
        gaps = np.geomspace(1e-6, 1e6, 25).reshape((-1,) + (1,) * len(shape))
        lags = np.geomspace(1e-6, 1e6, 13).reshape((-1,) + (1,) * len(shape))
        breaks = [share * top, np.minimum(gaps / rate, top), np.maximum(top - lags, 0.0)]
        return law.rate * integrate_pieces(
            lambda y: kernel(np.maximum(top - y, 0.0), y) * law.survival(y), np.concatenate(breaks)
        )

    def _convolved(
        self, law: Process, t: Floats, kernel: Callable[[Floats, Floats], Floats], limit: float | Floats
    ) -> Floats:
        """Integral of kernel(t - y, y) dG(y) from 0 to t."""
        if self.smooth and not law.kinks.size:
            return _limited(law, t, self._convolved_at_once(law, t, kernel), limit)

        def many(law: Process, t: Floats) -> Floats:
            rate = float(law.rate)
            within = np.where(np.isinf(t) | (rate == 0.0), 0.0, t)
            kinks = (
                np.concatenate([law.kinks, np.array([0.5, 1.0, 2.0, 10.0, 100.0]) / rate])
                if rate
                else law.kinks
            )
            return rate * integrate_to(lambda y, t: kernel(t - y, y) * law.survival(y), 0.0, within, kinks)

        return _limited(law, t, by_law(many, law, t), limit)


@dataclass(frozen=True, init=False)
class UpdatePenalty:
    """Sum of the weights of the lags of all missed changes; only the mean rate of the process matters.

    >>> missed = UpdatePenalty(named("1"))
    >>> float(missed.cost(Poisson(3.0), 2.0))
    6.0
    """

    penalty: Penalty

    def __init__(self, penalty: AnyPenalty) -> None:
        object.__setattr__(self, "penalty", as_penalty(penalty))

    @property
    def name(self) -> str:
        return "missed updates" if self.penalty.exponent == 0.0 else f"update penalty {self.penalty.name}"

    @property
    def kernel(self) -> int | None:
        return None

    def cost(self, law: Process, t: Floats) -> Floats:
        t = np.asarray(t, float)
        return self._times_rate(law, self.penalty.once(t))

    def accrued(self, law: Process, t: Floats) -> Floats:
        t = np.asarray(t, float)
        return self._times_rate(law, self.penalty.twice(t))

    def worth(self, law: Process, t: Floats) -> Floats:
        t = np.asarray(t, float)
        return self._times_rate(law, self.penalty.moment(t))

    def slope(self, law: Process, t: Floats) -> Floats | None:
        return law.rate * self.penalty.value(t)

    @staticmethod
    def _times_rate(law: Process, value: Floats) -> Floats:
        with np.errstate(invalid="ignore"):  # what never changes costs nothing, for ever
            return unwrap(np.where(law.rate > 0, law.rate * value, 0.0))


@dataclass(frozen=True)
class Harmonic:
    """The n-th change missed costs 1/n: news wears off (Kolobov et al., NeurIPS 2019).

    >>> float(Harmonic().worth(Poisson(1.0), 2.0).round(4))
    1.1353
    """

    name = "harmonic"
    kernel = kernels.HARMONIC

    def cost(self, law: Process, t: Floats) -> Floats:
        t = np.asarray(t, float)
        if isinstance(law, Poisson):
            return ein(law.rate * np.where(law.rate > 0, t, 0.0))
        if np.isinf(t).all():
            return unwrap(np.where(law.rate > 0, t, 0.0))

        def many(law: Process, t: Floats) -> Floats:
            turn = 1.0 / float(law.rate)
            start = integrate_to(lambda s, _: law.residual_cdf(s) / s, 0.0, np.minimum(t, turn), law.kinks)
            # beyond the mean gap G is near 1, and the integral a logarithm
            far = np.where(np.isinf(t), turn, np.maximum(t, turn))
            rest = integrate_to(
                lambda u, _: law.residual_cdf(np.exp(u)), np.log(turn), np.log(far), np.log(law.kinks)
            )
            return np.where(np.isinf(t), np.inf, start + rest)

        return by_law(many, law, t)

    def accrued(self, law: Process, t: Floats) -> Floats:
        t = np.asarray(t, float)
        with np.errstate(invalid="ignore"):
            return _limited(law, t, t * self.cost(law, t) - self.worth(law, t), np.inf)

    def worth(self, law: Process, t: Floats) -> Floats:
        t = np.asarray(t, float)
        with np.errstate(invalid="ignore"):
            return _limited(law, t, t * law.moment(0, t) - law.moment(1, t), np.inf)

    def slope(self, law: Process, t: Floats) -> Floats | None:
        return law.moment(0, t) / t


@dataclass(frozen=True)
class Fading:
    """A copy loses its worth bit by bit after each poll, whether or not its source changes.

    After the time ``lasts`` 1/e of it is left: g(t) = 1 - exp(-t / lasts), as of a source that is known to
    change once in that time (Azar and others, PNAS 2018, Remark 4).

    >>> float(Fading(2.0).cost(Poisson(3.0), 2.0).round(4))
    0.6321
    """

    lasts: float
    kernel = None

    @property
    def name(self) -> str:
        return f"fading in {self.lasts:g}"

    @property
    def _law(self) -> Poisson:
        return Poisson(1.0 / self.lasts)

    def cost(self, law: Process, t: Floats) -> Floats:  # noqa: ARG002  (the same whatever changes)
        return _STALE.cost(self._law, t)

    def accrued(self, law: Process, t: Floats) -> Floats:  # noqa: ARG002
        return _STALE.accrued(self._law, t)

    def worth(self, law: Process, t: Floats) -> Floats:  # noqa: ARG002
        return _STALE.worth(self._law, t)

    def slope(self, law: Process, t: Floats) -> Floats | None:  # noqa: ARG002
        return _STALE.slope(self._law, t)


_STALE = SourcePenalty(named("1"))


def ein(x: Floats) -> Floats:
    """Integral of (1 - exp(-s))/s from 0 to x: the expected H_n for n Poisson(x)."""
    x = np.asarray(x, float)
    small = np.where(x < 1.0, x, 0.0)
    series = np.zeros(x.shape)
    for k in range(20, 0, -1):  # alternating, but each term is below half the one before
        series = (1.0 / k - series) * small / k if k > 1 else small * (1.0 - series)
    with np.errstate(divide="ignore"):
        large = scipy.special.exp1(np.maximum(x, 1.0)) + np.log(np.maximum(x, 1.0)) + np.euler_gamma
    return unwrap(np.where(x < 1.0, series, large))


_OBJECTIVES: dict[str, Objective] = {
    "freshness": SourcePenalty(named("1")),
    "age": SourcePenalty(named("x")),
    "missed-updates": UpdatePenalty(named("1")),
    "harmonic": Harmonic(),
}


def objective_named(objective: str | Objective) -> Objective:
    """Return the objective of a name; an objective is returned as it is.

    >>> objective_named("age").name
    'age'
    """
    if isinstance(objective, str):
        return _OBJECTIVES[choice("objective", objective, _OBJECTIVES)]
    parts = ("name", "kernel", "cost", "accrued", "worth", "slope")
    if isinstance(objective, type) or not all(hasattr(objective, part) for part in parts):
        known = ", ".join(map(repr, _OBJECTIVES))
        raise InvalidInput(f"objective must be one of {known} or an Objective; objective is {objective!r}")
    return objective


def currency(tau: float) -> SourcePenalty:
    """Return the objective that counts data as good while it is less than ``tau`` behind.

    >>> float(currency(1.0).cost(Poisson(1.0), 1.0))
    0.0
    """
    return SourcePenalty(beyond(tau))


def by_law(function: Callable[[Process, Floats], Floats], law: Process, t: Floats) -> Floats:
    """Apply a function of one law and many times: at once for a single law, else element by element."""
    t = np.asarray(t, float)
    if not law.shape_of:
        return unwrap(np.asarray(function(law, t)))
    shape = np.broadcast_shapes(law.shape_of, t.shape)
    times, out = np.broadcast_to(t, shape), np.empty(shape)
    for i in np.ndindex(shape):
        out[i] = function(law.element(i), times[i])
    return out
