"""What staleness costs, what a poll is worth, and the interval at which it is worth a given price.

Let ``g(t)`` be the expected cost of an element ``t`` after its last poll. Everything else follows from it:

    accrued(t)   = integral of g from 0 to t             mean cost at constant intervals D:  accrued(D) / D
    worth(t)     = t g(t) - accrued(t) = integral of s g'(s) ds from 0 to t

and the worth is what one more poll per unit time saves: with ``f = 1/D`` the derivative of ``accrued(D)/D`` by ``f`` is
``-worth(D)``. Three families of cost cover the papers (``G`` is the residual distribution of the process of changes):

    source penalty   weight of the lag since the first missed change      g = integral of w(t-y) dG(y)
    update penalty   sum of the weights of all missed changes             g = rate * integral of w from 0 to t
    harmonic         H_n for n missed changes                             g = integral of G(s)/s ds from 0 to t

Freshness is the source penalty with w = 1, age with w = x, tau-currency with w = 1{x >= tau}; missed updates are the update
penalty with w = 1. Harmonic cost is LambdaCrawl's: the expected H_n for Poisson changes, with a known or an uncertain rate. For
other laws the same integral stands for it: the expected log(t / time of the first change), over those that changed.

References: Li, Cline & Loguinov (INFOCOM 2015), eq. 14-25; Cho & Garcia-Molina (SIGMOD 2000), section 4; Olston & Pandey (WWW 2008).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from scipy import special

from . import kernels
from .arguments import Floats, broadcast, choice, numbers, order_code, unwrap
from .errors import InvalidInput
from .penalties import Penalty, beyond, named
from .processes import Periodic, Poisson, Process, RandomOrder
from .quadrature import integrate, integrate_to

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from .arguments import Order

__all__ = [
    "Harmonic",
    "Objective",
    "SourcePenalty",
    "UpdatePenalty",
    "average_cost",
    "currency",
    "interval",
    "mean_cost",
    "objective_named",
    "worth",
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
        """t g(t) - accrued(t), without cancellation."""


def _limited(law: Process, t: Floats, value: Floats, limit: float | Floats) -> Floats:
    """Replace inf - inf at t = inf by its limit, and 0 * inf of an element that never changes by 0."""
    value = np.where(np.isinf(t), limit, value)
    return unwrap(np.where(law.rate > 0, value, 0.0))


@dataclass(frozen=True, eq=False)
class SourcePenalty:
    """Weight of how long the source has been ahead of the copy.

    >>> freshness = SourcePenalty(named("1"))
    >>> float(freshness.cost(Poisson(1.0), 1.0).round(4))
    0.6321
    """

    penalty: Penalty

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
        if self._threshold is not None:
            return law.moment(0, np.maximum(t - self._threshold, 0.0))
        with np.errstate(invalid="ignore"):
            if self.penalty.exponent == 1.0:
                return _limited(law, t, t * law.moment(0, t) - law.moment(1, t), np.inf)
            return self._convolved(law, t, lambda lag, _: self.penalty.value(lag), self._never)

    def accrued(self, law: Process, t: Floats) -> Floats:
        with np.errstate(invalid="ignore"):
            if self._threshold is not None:
                z = np.maximum(t - self._threshold, 0.0)
                return _limited(law, t, z * law.moment(0, z) - law.moment(1, z), np.inf)
            if self.penalty.exponent == 1.0:
                value = 0.5 * t * t * law.moment(0, t) - t * law.moment(1, t) + 0.5 * law.moment(2, t)
                return _limited(law, t, value, np.inf)
            total = float(self.penalty.once(np.asarray(np.inf))) if self._never == 0 else np.inf
            return self._convolved(law, t, lambda lag, _: self.penalty.once(lag), total)

    def worth(self, law: Process, t: Floats) -> Floats:
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

    def _convolved(
        self, law: Process, t: Floats, kernel: Callable[[Floats, Floats], Floats], limit: float | Floats
    ) -> Floats:
        """Integral of kernel(t - y, y) dG(y) from 0 to t."""

        def many(law: Process, t: Floats) -> Floats:
            rate = float(law.rate)
            within = np.where(np.isinf(t) | (rate == 0.0), 0.0, t)
            kinks = np.concatenate([law.kinks, np.array([1.0, 10.0, 100.0]) / rate]) if rate else law.kinks
            return rate * integrate_to(lambda y, t: kernel(t - y, y) * law.survival(y), 0.0, within, kinks)

        return _limited(law, t, _by_law(many, law, t), limit)


@dataclass(frozen=True, eq=False)
class UpdatePenalty:
    """Sum of the weights of the lags of all changes missed; depends on the process through its mean rate alone.

    >>> missed = UpdatePenalty(named("1"))
    >>> float(missed.cost(Poisson(3.0), 2.0))
    6.0
    """

    penalty: Penalty

    @property
    def name(self) -> str:
        return "missed updates" if self.penalty.exponent == 0.0 else f"update penalty {self.penalty.name}"

    @property
    def kernel(self) -> int | None:
        return None

    def cost(self, law: Process, t: Floats) -> Floats:
        return _limited(law, t, law.rate * self.penalty.once(t), law.rate * self.penalty.once(t))

    def accrued(self, law: Process, t: Floats) -> Floats:
        return _limited(law, t, law.rate * self.penalty.twice(t), np.inf)

    def worth(self, law: Process, t: Floats) -> Floats:
        return _limited(law, t, law.rate * self.penalty.moment(t), law.rate * self.penalty.moment(t))


@dataclass(frozen=True)
class Harmonic:
    """The n-th change missed costs 1/n: news wears off (Kolobov et al., NeurIPS 2019).

    >>> float(Harmonic().worth(Poisson(1.0), 2.0).round(4))
    1.1353
    """

    name = "harmonic"
    kernel = kernels.HARMONIC

    def cost(self, law: Process, t: Floats) -> Floats:
        if isinstance(law, Poisson):
            return _ein(law.rate * np.where(law.rate > 0, t, 0.0))

        def many(law: Process, t: Floats) -> Floats:
            turn = 1.0 / float(law.rate)
            start = integrate_to(lambda s, _: law.residual_cdf(s) / s, 0.0, np.minimum(t, turn), law.kinks)
            # beyond the mean gap G is near 1, and the integral a logarithm
            far = np.where(np.isinf(t), turn, np.maximum(t, turn))
            rest = integrate_to(
                lambda u, _: law.residual_cdf(np.exp(u)), np.log(turn), np.log(far), np.log(law.kinks)
            )
            return np.where(np.isinf(t), np.inf, start + rest)

        return _by_law(many, law, t)

    def accrued(self, law: Process, t: Floats) -> Floats:
        with np.errstate(invalid="ignore"):
            return _limited(law, t, t * self.cost(law, t) - self.worth(law, t), np.inf)

    def worth(self, law: Process, t: Floats) -> Floats:
        with np.errstate(invalid="ignore"):
            return _limited(law, t, t * law.moment(0, t) - law.moment(1, t), np.inf)


def _ein(x: Floats) -> Floats:
    """Integral of (1 - exp(-s))/s from 0 to x: the expected H_n for n Poisson(x)."""
    x = np.asarray(x, float)
    small = np.where(x < 1.0, x, 0.0)
    series = np.zeros(x.shape)
    for k in range(20, 0, -1):  # alternating, but each term is below half the one before
        series = (1.0 / k - series) * small / k if k > 1 else small * (1.0 - series)
    with np.errstate(divide="ignore"):
        large = special.exp1(np.maximum(x, 1.0)) + np.log(np.maximum(x, 1.0)) + np.euler_gamma
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
    if not all(callable(getattr(objective, part, None)) for part in ("cost", "accrued", "worth")):
        msg = f"objective must be one of {', '.join(map(repr, _OBJECTIVES))} or an Objective; it is {objective!r}"
        raise InvalidInput(msg)
    return objective


def currency(tau: float) -> SourcePenalty:
    """Return the objective that counts data as good while it is less than ``tau`` behind (eq. 16 of Li et al.).

    >>> float(currency(1.0).cost(Poisson(1.0), 1.0))
    0.0
    """
    return SourcePenalty(beyond(tau))


# --- under an order, or any process of polls -------------------------------------------------------------------


def mean_cost(
    objective: str | Objective, law: Process | ArrayLike, frequency: ArrayLike, order: Order = "fixed"
) -> Floats:
    """Time-averaged cost of elements that change by ``law`` (or at these Poisson rates) and are polled at ``frequency``.

    >>> float(mean_cost("freshness", 1.0, 1.0).round(4))   # 1 - (e-1)/e
    0.3679
    """
    objective, law = objective_named(objective), _law(law)
    f = numbers("frequency", frequency, at_least=0)
    order_code(order)
    broadcast(law=np.empty(law.shape_of), frequency=f)
    polled = f > 0
    polls = order_law(order, np.where(polled, f, 1.0))
    if polled.all():
        return average_cost(objective, law, polls)
    never = objective.cost(law, np.asarray(np.inf))
    return unwrap(np.where(polled, average_cost(objective, law, polls), never))


def order_law(order: Order, frequency: Floats) -> Periodic | RandomOrder | Poisson:
    """Return the process of the polls of one element under an order."""
    code = order_code(order)
    if code == kernels.PURELY_RANDOM:
        return Poisson(frequency)
    return Periodic(1.0 / frequency) if code == kernels.FIXED else RandomOrder(1.0 / frequency)


def average_cost(objective: str | Objective, law: Process | ArrayLike, polls: Process) -> Floats:
    """Time-averaged cost when the polls are a process of their own: the integral of g over the age of the polls.

    >>> float(average_cost("freshness", Poisson(2.0), Poisson(2.0)))
    0.5
    """
    objective, law = objective_named(objective), _law(law)
    broadcast(changes=np.empty(law.shape_of), polls=np.empty(polls.shape_of))
    if isinstance(polls, Periodic) and (not isinstance(law, Poisson) or objective.kernel is None):
        return objective.accrued(law, polls.period) / polls.period
    if isinstance(objective, UpdatePenalty) and objective.penalty.exponent in (0.0, 1.0):
        k = int(objective.penalty.exponent) + 1
        return law.rate * polls.moment(k, np.inf) / k
    if isinstance(law, Poisson) and isinstance(polls, Periodic | RandomOrder | Poisson):
        closed = _poisson_average(objective.kernel, law.rate, polls)
        if closed is not None:
            return closed

    def one(law: Process, polls: Process) -> float:
        rate = float(polls.rate)
        if float(law.rate) == 0.0:
            return 0.0
        kinks = np.concatenate([polls.kinks, _kinks(objective, law)])
        end = float(polls.kinks[-1]) if polls.kinks.size else np.inf

        def integrand(v: Floats) -> Floats:  # in units of the poll interval its bulk is around 1
            alive = polls.survival(v / rate)
            return alive * objective.cost(law, np.where(alive > 0, v, 0.0) / rate)

        return integrate(integrand, 0.0, end * rate, kinks * rate)

    shape = np.broadcast_shapes(law.shape_of, polls.shape_of)
    out = np.empty(shape)
    for i in np.ndindex(shape):
        out[i] = one(_element(law, shape, i), _element(polls, shape, i))
    return unwrap(out)


def _kinks(objective: Objective, law: Process) -> Floats:
    """Points where the cost may bend: those of the law, and those shifted by a threshold."""
    threshold = getattr(getattr(objective, "penalty", None), "threshold", None)
    return law.kinks if threshold is None else np.concatenate([law.kinks + threshold, [threshold]])


def _poisson_average(kernel: int | None, rate: Floats, polls: Periodic | RandomOrder | Poisson) -> Floats | None:
    order = {Periodic: kernels.FIXED, RandomOrder: kernels.RANDOM, Poisson: kernels.PURELY_RANDOM}[type(polls)]
    if kernel == kernels.FRESHNESS:
        return kernels.staleness(rate, polls.rate, order)
    if kernel == kernels.AGE:
        return kernels.age(rate, polls.rate, order)
    if kernel != kernels.HARMONIC:
        return None
    r = np.asarray(rate / polls.rate)
    if order == kernels.FIXED:
        return unwrap(np.where(r < 1.0, _harmonic_small(r, order), _ein(r) - kernels.q1(r) / np.where(r > 0, r, 1.0)))
    if order == kernels.PURELY_RANDOM:
        return unwrap(np.log1p(r))
    return unwrap(np.where(r < 1.0, _harmonic_small(r, order), _harmonic_random(np.maximum(r, 1.0))))


def _harmonic_small(r: Floats, order: int) -> Floats:
    """Sum of (-1)^(k+1) r^k E[V^(k+1)] / (k (k+1)!), for r < 1."""
    r = np.where(r < 1.0, r, 0.0)
    total = np.zeros(r.shape)
    for k in range(34, 0, -1):
        moment = (2.0 ** (k + 3) - 2.0) / ((k + 2) * (k + 3)) if order == kernels.RANDOM else 1.0
        total = r * (moment * (-1) ** (k + 1) / (k * special.factorial(k + 1)) + total)
    return total


def _harmonic_random(r: Floats) -> Floats:
    """E[V Ein(rV)] - E[q1(rV)]/r for V triangular on (0, 2)."""

    def part(n: int, a: float) -> Floats:  # integral of v^n Ein(rv) from 0 to a
        decayed = special.factorial(n) * special.gammainc(n + 1, r * a) / r ** (n + 1)
        return (a ** (n + 1) * _ein(r * a) - a ** (n + 1) / (n + 1) + decayed) / (n + 1)

    first = 2.0 * part(2, 1.0) - part(2, 2.0) + 2.0 * (part(1, 2.0) - part(1, 1.0))
    return first - kernels.worth(kernels.HARMONIC, kernels.RANDOM, r) / r


# --- worth and its inverse -------------------------------------------------------------------------------------


def worth(
    objective: str | Objective, law: Process | ArrayLike, interval: ArrayLike, order: Order = "fixed"
) -> Floats:
    """Worth of a poll: what one more poll per unit time saves, at polls this far apart (on average).

    It grows from 0 with the interval; its limit is what the first poll of a neglected element is worth.

    >>> float(worth("freshness", 1.0, np.inf))
    1.0
    """
    objective, law = objective_named(objective), _law(law)
    t = numbers("interval", interval, at_least=0, infinite=True)
    code = order_code(order)
    broadcast(law=np.empty(law.shape_of), interval=t)
    with np.errstate(invalid="ignore", over="ignore"):
        if isinstance(law, Poisson) and objective.kernel is not None:
            rate = np.where(law.rate > 0, law.rate, 1.0)
            scaled = kernels.worth(objective.kernel, code, rate * t) / rate
            scaled = scaled / rate if objective.kernel == kernels.AGE else scaled
            return unwrap(np.where(law.rate > 0, scaled, 0.0))
        if code == kernels.FIXED:
            return unwrap(np.asarray(objective.worth(law, t)))
        if isinstance(objective, UpdatePenalty) and objective.penalty.exponent is not None:
            return objective.worth(law, t) * _interval_moment(objective.penalty.exponent + 2.0, code)

    def one(law: Process, t: float) -> float:
        if not 0.0 < t < np.inf or float(law.rate) == 0.0:
            return float(objective.worth(law, np.asarray(t)))
        kinks = np.concatenate([[1.0, 2.0], _kinks(objective, law) / t])
        if code == kernels.RANDOM:
            return integrate(lambda v: objective.worth(law, v * t) * np.minimum(v, 2.0 - v), 0.0, 2.0, kinks)

        def integrand(v: Floats) -> Floats:
            alive = np.exp(-v)
            return alive * objective.worth(law, np.where(alive > 0, v, 0.0) * t)

        return integrate(integrand, 0.0, np.inf, kinks)

    return _by_law(lambda law, t: np.vectorize(lambda t: one(law, t), otypes=[float])(t), law, t)


def _interval_moment(k: float, order: int) -> float:
    """E[V^k] of the poll interval over its mean."""
    if order == kernels.FIXED:
        return 1.0
    return (2.0 ** (k + 2) - 2.0) / ((k + 1) * (k + 2)) if order == kernels.RANDOM else float(special.gamma(k + 1))


def interval(
    objective: str | Objective, law: Process | ArrayLike, worth_of_poll: ArrayLike, order: Order = "fixed"
) -> Floats:
    """Interval at which a poll is worth this much; inf where it never is (the element is not polled at that price).

    >>> float(interval("missed-updates", 2.0, 9.0))
    3.0
    >>> float(interval("freshness", 2.0, 0.5))
    inf
    """
    objective, law = objective_named(objective), _law(law)
    w = numbers("worth_of_poll", worth_of_poll, at_least=0, infinite=True)
    code = order_code(order)
    broadcast(law=np.empty(law.shape_of), worth_of_poll=w)
    rate = np.where(law.rate > 0, law.rate, 1.0)
    never = np.where(w > 0, np.inf, 0.0)  # for elements that do not change
    with np.errstate(over="ignore"):
        if isinstance(law, Poisson) and objective.kernel is not None:
            x = w * rate * rate if objective.kernel == kernels.AGE else w * rate
            found = kernels.inverse_worth(objective.kernel, code, x) / rate
        elif isinstance(objective, UpdatePenalty) and objective.penalty.exponent is not None:
            k = objective.penalty.exponent + 2.0
            found = (w * k / (rate * _interval_moment(k, code))) ** (1.0 / k)
        else:
            limit = worth(objective, law, np.inf, order)
            if not np.all(limit > 0):
                msg = f"{objective.name} falls as lags grow, so no interval is worth a price; use a weight that does not fall"
                raise InvalidInput(msg)
            reached = np.where((w > 0) & (w < limit), w, np.nan)
            found = np.where(w < limit, 0.0, np.inf)
            if not np.isnan(reached).all():
                solved = _invert(lambda t: worth(objective, law, t, order), reached, 1.0 / rate)
                found = np.where(np.isnan(reached), found, solved)
    return unwrap(np.where(law.rate > 0, found, never))


def _invert(increasing: Callable[[Floats], Floats], target: Floats, start: Floats) -> Floats:
    """Solve increasing(t) = target for each entry (nan: skip), by false position on logarithms inside a bracket."""
    shape = np.broadcast_shapes(target.shape, start.shape)
    goal = np.log(np.broadcast_to(target, shape))
    skip = np.isnan(goal)

    def miss(u: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return np.where(skip, 0.0, np.log(increasing(np.exp(u))) - goal)

    low = np.broadcast_to(np.log(start), shape).copy()
    high = low.copy()
    at_low, at_high = miss(low), miss(high)
    step = 1.0
    while (at_low > 0).any() and step < 2e3:
        low = np.where(at_low > 0, np.maximum(low - step, -740.0), low)
        at_low, step = miss(low), 2.0 * step
    step = 1.0
    while (at_high < 0).any() and step < 2e3:
        high = np.where(at_high < 0, np.minimum(high + step, 700.0), high)
        at_high, step = miss(high), 2.0 * step
    weight_low, weight_high = at_low.copy(), at_high.copy()
    u = high
    for i in range(200):
        with np.errstate(invalid="ignore", divide="ignore"):
            new = high - weight_high * (high - low) / (weight_high - weight_low)
        outside = ~((new > low) & (new < high)) | (i % 8 == 7)
        new = np.where(outside, 0.5 * (low + high), new)
        if (skip | (np.abs(new - u) <= 1e-15 * np.maximum(1.0, np.abs(new)))).all():
            break
        u = new
        at = miss(u)
        right = at > 0
        # the end that stays is given less weight (Illinois), so that both ends move
        weight_low = np.where(right, np.where(high == u, weight_low, 0.5 * weight_low), at)
        weight_high = np.where(right, at, 0.5 * weight_high)
        high, low = np.where(right, u, high), np.where(right, low, u)
        done = at == 0
        low, high = np.where(done, u, low), np.where(done, u, high)
    return np.exp(u)


def _law(law: Process | ArrayLike) -> Process:
    """Return the process; plain numbers are the rates of Poisson changes."""
    return law if hasattr(law, "residual_survival") else Poisson(numbers("rate", law, at_least=0))  # type: ignore[return-value, arg-type]


def _by_law(function: Callable[[Process, Floats], Floats], law: Process, t: Floats) -> Floats:
    """Apply a function of one law and many times: at once for a single law, else element by element."""
    t = np.asarray(t, float)
    if not law.shape_of:
        return unwrap(np.asarray(function(law, t)))
    shape = np.broadcast_shapes(law.shape_of, t.shape)
    times, out = np.broadcast_to(t, shape), np.empty(shape)
    for i in np.ndindex(shape):
        out[i] = function(_element(law, shape, i), times[i])
    return out


def _element(law: Process, shape: tuple[int, ...], index: tuple[int, ...]) -> Process:
    """The law of one element of a broadcast shape."""
    own = law.shape_of
    if not own:
        return law
    return law.element(tuple(0 if n == 1 else i for n, i in zip(own, index[len(shape) - len(own) :], strict=True)))
