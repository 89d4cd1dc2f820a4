"""What a lag costs: a weight w(x) for data that is x behind, with the antiderivatives that the averages need.

Li, Cline & Loguinov (INFOCOM 2015) write a penalty as w(x) and need its integral (``once``), the integral of
that (``twice``) and the integral of y w(y) (``moment``), all from 0 to x.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from . import kernels
from .arguments import Floats, choice, numbers, scalar
from .errors import InvalidInput
from .quadrature import integrate_to

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["Penalty", "beyond", "custom", "decay", "named", "power"]

Function = Callable[[Floats], Floats]


@dataclass(frozen=True, eq=False)
class Penalty:
    """A weight of lags, w(x) for x >= 0; make one with `named`, `power`, `decay`, `beyond` or `custom`.

    >>> log = named("log(1+x)")
    >>> float(log.value(np.e - 1)), round(float(log.once(np.e - 1)), 12)
    (1.0, 1.0)
    """

    name: str
    value: Function
    once: Function
    twice: Function
    moment: Function
    exponent: float | None = None
    """k if w(x) = x^k: some averages then have a closed form."""
    threshold: float | None = None
    """tau if w(x) is 1 from tau on and 0 before."""


def power(k: float) -> Penalty:
    """Return w(x) = x^k, k >= 0: 1 counts staleness, x measures age.

    >>> float(power(2).once(3.0))
    9.0
    """
    k = scalar("k", k, at_least=0)
    return Penalty(
        name={0.0: "1", 1.0: "x"}.get(k, f"x^{k:g}"),
        value=lambda x: x**k,
        once=lambda x: x ** (k + 1) / (k + 1),
        twice=lambda x: x ** (k + 2) / ((k + 1) * (k + 2)),
        moment=lambda x: x ** (k + 2) / (k + 2),
        exponent=k,
    )


def decay(rate: float) -> Penalty:
    """Return w(x) = exp(-rate x): an old lag matters less and less.

    >>> float(decay(2.0).once(np.inf))
    0.5
    """
    a = scalar("rate", rate, above=0)
    return Penalty(
        name=f"exp(-{a:g}x)",
        value=lambda x: np.exp(-a * x),
        once=lambda x: kernels.p1(a * x) / a,
        twice=lambda x: kernels.q1(a * x) / a**2,
        moment=lambda x: kernels.p2(a * x) / a**2,
    )


def beyond(tau: float) -> Penalty:
    """Return w(x) = 1 for x >= tau, else 0: up to tau a lag does not matter.

    >>> float(beyond(2.0).once(5.0))
    3.0
    """
    tau = scalar("tau", tau, at_least=0)

    def late(x: Floats) -> Floats:
        return np.maximum(x - tau, 0.0)

    return Penalty(
        name=f"1{{x>={tau:g}}}",
        value=lambda x: np.where(x >= tau, 1.0, 0.0),
        once=late,
        twice=lambda x: 0.5 * late(x) ** 2,
        moment=lambda x: 0.5 * late(x) * (x + tau),
        threshold=tau,
    )


def custom(
    function: Callable[[Floats], ArrayLike], *, kinks: ArrayLike = (), name: str = "custom"
) -> Penalty:
    """Return the penalty of any non-negative function w(x), integrated by quadrature.

    The error is that of `quadrature`; ``kinks`` are the points where w jumps or bends.

    >>> float(custom(lambda x: x * x).once(3.0).round(9))
    9.0
    """
    if not callable(function):
        msg = f"function must be a function of the lag; it is {function!r}"
        raise InvalidInput(msg)
    at = np.ravel(numbers("kinks", kinks))

    def value(x: Floats) -> Floats:
        return numbers(
            f"penalty({name})",
            np.array(np.broadcast_to(np.asarray(function(x), float), np.shape(x))),
            at_least=0,
            infinite=True,
        )

    def integral(integrand: Callable[[Floats, Floats], Floats]) -> Function:
        return lambda x: integrate_to(integrand, 0.0, np.asarray(x, float), at)

    return Penalty(
        name=name,
        value=value,
        once=integral(lambda y, _: value(y)),
        twice=integral(lambda y, x: (x - y) * value(y)),
        moment=integral(lambda y, _: y * value(y)),
    )


def named(name: str) -> Penalty:
    """Return one of the penalties with a name: ``1``, ``x``, ``log(1+x)``, ``1/(1+x)``.

    >>> named("x").exponent
    1.0
    """
    return _NAMED[choice("penalty", name, _NAMED)]


# --- log(1+x) and 1/(1+x), which cancel for small x -----------------------------------------


def _log_excess(x: Floats) -> Floats:
    """log(1+x) - x + x^2/2, positive and about x^3/3."""
    x = np.asarray(x, float)
    with np.errstate(all="ignore"):
        direct = np.log1p(x) - x + 0.5 * x * x
        u = np.where(x < 1.0, x / (2.0 + x), 0.0)  # log(1+x) = 2 atanh(u)
    series = np.zeros(x.shape)
    for k in range(18, 0, -1):
        series = series * u * u + 1.0 / (2 * k + 1)
    small = np.where(x < 1.0, 0.5 * x * x * u + 2.0 * u**3 * series, 0.0)
    return np.where(x < 1.0, small, direct)


def _linear_excess(x: Floats) -> Floats:
    """X - log(1+x), about x^2/2."""
    with np.errstate(all="ignore"):
        return np.where(x < 1.0, 0.5 * x * x - _log_excess(x), x - np.log1p(x))


def _entropy(x: Floats) -> Floats:
    """(1+x) log(1+x) - x, about x^2/2."""
    with np.errstate(all="ignore"):
        return np.where(x < 1.0, x * x - (1.0 + x) * _linear_excess(x), (1.0 + x) * np.log1p(x) - x)


def _log_twice(x: Floats) -> Floats:
    """Integral of `_entropy`, about x^3/6."""
    with np.errstate(all="ignore"):
        small = 0.5 * (1.0 + x) ** 2 * _log_excess(x) - 0.25 * x**4
        large = 0.5 * (1.0 + x) ** 2 * np.log1p(x) - 0.25 * x * (2.0 + 3.0 * x)
    return np.where(x < 1.0, small, large)


def _log_moment(x: Floats) -> Floats:
    """Integral of y log(1+y), about x^3/3."""
    with np.errstate(all="ignore"):
        small = 0.5 * x**3 - 0.25 * x**4 + 0.5 * (x * x - 1.0) * _log_excess(x)
        large = 0.5 * (x - 1.0) * (x + 1.0) * np.log1p(x) - 0.25 * x * (x - 2.0)
    return np.where(x < 1.0, small, large)


def _unbounded(function: Function) -> Function:
    """Let a function that grows without bound say so at infinity, where its formula is inf - inf."""
    return lambda x: np.where(np.isinf(x), np.inf, function(np.where(np.isinf(x), 1.0, x)))


_NAMED = {
    "1": power(0.0),
    "x": power(1.0),
    "log(1+x)": Penalty(
        "log(1+x)", np.log1p, _unbounded(_entropy), _unbounded(_log_twice), _unbounded(_log_moment)
    ),
    "1/(1+x)": Penalty(
        "1/(1+x)", lambda x: 1.0 / (1.0 + x), np.log1p, _unbounded(_entropy), _unbounded(_linear_excess)
    ),
}
