"""What polling buys, for any objective, any law of change and any order: mean cost, worth, interval.

Plain numbers in place of a law are the rates of Poisson changes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from . import gap_kernels, kernels, uncertain_kernels
from .arguments import Floats, Order, broadcast, numbers, order_code, unwrap
from .errors import InvalidInput, NoAnswer
from .objectives import Harmonic, Objective, SourcePenalty, UpdatePenalty, by_law, ein, objective_named
from .penalties import Penalty
from .processes import (
    Empirical,
    Observed,
    Periodic,
    Poisson,
    Process,
    RandomOrder,
    UncertainPoisson,
    process,
)
from .quadrature import integrate, integrate_pieces

__all__ = ["average_cost", "interval", "interval_moment", "mean_cost", "reaching", "worth"]

_AROUND = np.array([0.25, 0.5, 1.0, 2.0, 4.0, 16.0, 100.0])
"""Cuts for quadrature, in mean gaps: what is sharp is sharp about there."""
_ORDER_CODES: dict[type[Process], int] = {
    Periodic: kernels.FIXED,
    RandomOrder: kernels.RANDOM,
    Poisson: kernels.PURELY_RANDOM,
}
"""Which order polls are in, by their process."""


def mean_cost(
    objective: str | Objective, law: Process | ArrayLike, frequency: ArrayLike, order: Order = "fixed"
) -> Floats:
    """Time-averaged cost of elements that are polled at ``frequency``.

    Parameters
    ----------
    objective
        "freshness", "age", "missed-updates", "harmonic", or an `Objective`.
    law
        How elements change: a process, or plain numbers for the rates of Poisson processes.
    frequency
        Polls per unit of time.
    order
        How polls are spread over time: "fixed", "random" or "purely-random".

    >>> float(mean_cost("freshness", 1.0, 1.0).round(4))   # 1 - (e-1)/e
    0.3679
    """
    objective, law = objective_named(objective), _law(law)
    f = numbers("frequency", frequency, at_least=0)
    order_code(order)
    broadcast(law=np.empty(law.shape_of), frequency=f)
    polled = f >= np.finfo(float).tiny  # below, the interval is beyond the floats
    polls = _order_law(order, np.where(polled, f, 1.0))
    if polled.all():
        return average_cost(objective, law, polls)
    never = objective.cost(law, np.asarray(np.inf))
    return unwrap(np.where(polled, average_cost(objective, law, polls), never))


def _order_law(order: Order, frequency: Floats) -> Periodic | RandomOrder | Poisson:
    """Return the process of the polls of one element under an order."""
    code = order_code(order)
    if code == kernels.PURELY_RANDOM:
        return Poisson(frequency)
    return Periodic(1.0 / frequency) if code == kernels.FIXED else RandomOrder(1.0 / frequency)


def average_cost(objective: str | Objective, law: Process | ArrayLike, polls: Process) -> Floats:
    """Time-averaged cost when the polls are any process: the mean of g over the age of the polls.

    >>> float(average_cost("freshness", Poisson(2.0), Poisson(2.0)))
    0.5
    """
    objective, law, polls = objective_named(objective), _law(law), process("polls", polls)
    broadcast(changes=np.empty(law.shape_of), polls=np.empty(polls.shape_of))
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):  # limits are answers
        return _average(objective, law, polls)


def _average(objective: Objective, law: Process, polls: Process) -> Floats:  # noqa: PLR0911  (one for each closed form)
    order = _ORDER_CODES.get(type(polls))
    if order is not None and isinstance(law, UncertainPoisson) and objective.kernel is not None:
        with np.errstate(all="ignore"):
            cost = uncertain_kernels.cost(objective.kernel, order, law.shape, law.scale / polls.rate)
        return unwrap(np.asarray(cost / law.scale if objective.kernel == kernels.AGE else cost))
    if isinstance(polls, Periodic) and (not isinstance(law, Poisson) or objective.kernel is None):
        return objective.accrued(law, polls.period) / polls.period
    if order is not None and (found := _gaps_average(objective.kernel, law, polls.rate, order)) is not None:
        return found
    if isinstance(objective, UpdatePenalty) and objective.penalty.exponent in (0.0, 1.0):
        k = int(objective.penalty.exponent) + 1
        moment = np.where(polls.rate > 0, polls.moment(k, np.inf), np.inf)
        with np.errstate(invalid="ignore"):
            return unwrap(np.where(law.rate > 0, law.rate * moment / k, 0.0))
    if isinstance(law, Poisson) and isinstance(polls, Periodic | RandomOrder | Poisson):
        closed = _poisson_average(objective.kernel, law.rate, polls)
        if closed is not None:
            return closed

    if (
        isinstance(polls, Poisson)
        and np.all(polls.rate > 0)
        and isinstance(objective, SourcePenalty)
        and objective.penalty.exponent != 0.0
    ):  # memoryless: the lag of a stale copy is exponential, whatever the changes
        return average_cost("freshness", law, polls) * _exponential_mean(objective.penalty, polls.rate)
    shape = np.broadcast_shapes(law.shape_of, polls.shape_of)
    out = np.empty(shape)
    for i in np.ndindex(shape):
        out[i] = _integrated_cost(objective, law.element(i), polls.element(i))
    return unwrap(out)


def _gaps_average(kernel: int | None, law: Process, frequency: Floats, order: int) -> Floats | None:
    """Staleness or age of elements whose gaps were observed, in a random order; None for anything else."""
    known = isinstance(law, Empirical | Observed) and bool(np.all(frequency > 0))
    if not known or kernel not in {kernels.FRESHNESS, kernels.AGE}:
        return None
    t = 1.0 / frequency
    if kernel == kernels.FRESHNESS:
        return unwrap(np.asarray(_over_gaps(kernels.HARMONIC, law, t, order) * law.rate * t))
    return unwrap(np.asarray(_over_gaps(gap_kernels.AGE_COST, law, t, order) * law.rate * t * t))


def _gaps_worth(objective: Objective, law: Process, t: Floats, order: int) -> Floats:
    """Worth of a poll of elements whose gaps were observed, in a random order."""
    inside, kernel = (t > 0) & (t < np.inf), objective.kernel or 0
    scaled = _over_gaps(kernel, law, np.where(inside, t, 1.0), order) * law.rate * t * t
    scaled = scaled * t if kernel == kernels.AGE else scaled
    return unwrap(np.where(inside, scaled, objective.worth(law, t)))


def _over_gaps(kind: int, law: Process, t: Floats, order: int) -> Floats:
    """Mean over the gaps that were observed, of one function of each over the interval."""
    laws = law if isinstance(law, Observed) else Observed.of([law])  # type: ignore[list-item]
    gaps, starts = laws.gaps_and_starts
    shape = np.broadcast_shapes(law.shape_of, np.shape(t))
    times = np.ascontiguousarray(np.broadcast_to(t, shape)).ravel()
    which = np.broadcast_to(laws.which if law.shape_of else 0, shape).ravel()
    found = gap_kernels.mean_over_gaps(gaps, starts, which.astype(np.intp), times, kind, order)
    return found.reshape(shape)


def _exponential_mean(penalty: Penalty, rate: Floats) -> Floats:
    """E[w(X)] for X exponential with this rate."""
    if penalty.exponent is not None:
        return scipy.special.gamma(penalty.exponent + 1.0) / rate**penalty.exponent
    if penalty.threshold is not None:
        return np.exp(-rate * penalty.threshold)
    kinks = np.asarray(getattr(penalty, "kinks", ()), float)

    def one(rate: float) -> float:
        return integrate(
            lambda v: penalty.value(v / rate) * np.exp(-v),
            0.0,
            np.inf,
            np.concatenate([_AROUND, kinks * rate]),
        )

    return unwrap(np.asarray(np.vectorize(one, otypes=[float])(rate)))


def _integrated_cost(objective: Objective, law: Process, polls: Process) -> float:
    """Mean of g over the age of the polls, by quadrature, for one element."""
    rate = float(polls.rate)
    if float(law.rate) == 0.0:
        return 0.0
    if rate == 0.0:
        return float(objective.cost(law, np.asarray(np.inf)))
    kinks = np.concatenate([polls.kinks, _kinks(objective, law), _AROUND / rate])
    end = float(polls.kinks[-1]) if polls.kinks.size else np.inf

    def integrand(v: Floats) -> Floats:  # in units of the poll interval its bulk is around 1
        if (slope := objective.slope(law, v / rate)) is not None:  # of the two forms, this falls faster
            return slope * polls.residual_survival(v / rate) / rate
        alive = polls.survival(v / rate)
        return alive * objective.cost(law, np.where(alive > 0, v, 0.0) / rate)

    return integrate(integrand, 0.0, end * rate, kinks * rate)


def _kinks(objective: Objective, law: Process) -> Floats:
    """Points where the cost bends, or may bend sharply: those of the law, shifted by a threshold."""
    threshold = getattr(getattr(objective, "penalty", None), "threshold", None) or 0.0
    around = _AROUND / float(law.rate)  # a law may be concentrated about its mean
    return np.concatenate([law.kinks, around, [0.0]]) + threshold


def _poisson_average(
    kernel: int | None, rate: Floats, polls: Periodic | RandomOrder | Poisson
) -> Floats | None:
    order = _ORDER_CODES[type(polls)]
    if kernel == kernels.FRESHNESS:
        return kernels.staleness(rate, polls.rate, order)
    if kernel == kernels.AGE:
        return kernels.age(rate, polls.rate, order)
    if kernel != kernels.HARMONIC:
        return None
    r = np.asarray(rate / polls.rate)
    if order == kernels.FIXED:
        return unwrap(
            np.where(r < 1.0, _harmonic_small(r, order), ein(r) - kernels.q1(r) / np.where(r > 0, r, 1.0))
        )
    if order == kernels.PURELY_RANDOM:
        return unwrap(np.log1p(r))
    return unwrap(np.where(r < 1.0, _harmonic_small(r, order), _harmonic_random(np.maximum(r, 1.0))))


def _harmonic_small(r: Floats, order: int) -> Floats:
    """Sum of (-1)^(k+1) r^k E[V^(k+1)] / (k (k+1)!), for r < 1."""
    r = np.where(r < 1.0, r, 0.0)
    total = np.zeros(r.shape)
    for k in range(34, 0, -1):
        moment = (2.0 ** (k + 3) - 2.0) / ((k + 2) * (k + 3)) if order == kernels.RANDOM else 1.0
        total = r * (moment * (-1) ** (k + 1) / (k * scipy.special.factorial(k + 1)) + total)
    return total


def _harmonic_random(r: Floats) -> Floats:
    """E[V Ein(rV)] - E[q1(rV)]/r for V triangular on (0, 2)."""

    def part(n: int, a: float) -> Floats:  # integral of v^n Ein(rv) from 0 to a
        decayed = scipy.special.factorial(n) * scipy.special.gammainc(n + 1, r * a) / r ** (n + 1)
        return (a ** (n + 1) * ein(r * a) - a ** (n + 1) / (n + 1) + decayed) / (n + 1)

    first = 2.0 * part(2, 1.0) - part(2, 2.0) + 2.0 * (part(1, 2.0) - part(1, 1.0))
    return first - kernels.worth(kernels.HARMONIC, kernels.RANDOM, r) / r


# --- worth and its inverse -------------------------------------------------------------------------


def worth(  # noqa: C901, PLR0911  (one way for each closed form)
    objective: str | Objective, law: Process | ArrayLike, interval: ArrayLike, order: Order = "fixed"
) -> Floats:
    """Worth of a poll: what one more poll per unit time saves, at polls this far apart (on average).

    It grows from 0 with the interval; its limit is what the first poll of a neglected element is worth.

    Parameters
    ----------
    objective
        "freshness", "age", "missed-updates", "harmonic", or an `Objective`.
    law
        How elements change: a process, or plain numbers for the rates of Poisson processes.
    interval
        Time between two polls, on average.
    order
        How polls are spread over time: "fixed", "random" or "purely-random".

    >>> float(worth("freshness", 1.0, np.inf))
    1.0
    """
    objective, law = objective_named(objective), _law(law)
    t = numbers("interval", interval, at_least=0, infinite=True)
    code = order_code(order)
    broadcast(law=np.empty(law.shape_of), interval=t)
    # what a kernel computes besides, and does not return, may divide by zero
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        if isinstance(law, Poisson) and objective.kernel is not None:
            rate = np.where(law.rate > 0, law.rate, 1.0)
            scaled = kernels.worth(objective.kernel, code, rate * t) / rate
            scaled = scaled / rate if objective.kernel == kernels.AGE else scaled
            return unwrap(np.where(law.rate > 0, scaled, 0.0))
        if isinstance(law, UncertainPoisson) and objective.kernel is not None:
            scaled = uncertain_kernels.worth(objective.kernel, code, law.shape, law.scale * t) / law.scale
            return unwrap(np.asarray(scaled / law.scale if objective.kernel == kernels.AGE else scaled))
        if code == kernels.FIXED:
            return unwrap(np.asarray(objective.worth(law, t)))
        if isinstance(law, Empirical | Observed) and objective.kernel is not None:
            return _gaps_worth(objective, law, t, code)
        if isinstance(objective, UpdatePenalty) and objective.penalty.exponent is not None:
            return objective.worth(law, t) * interval_moment(objective.penalty.exponent + 2.0, code)

    if (averaged := _averaged_worth(objective, law, t, code)) is not None:
        return averaged

    def one(law: Process, t: float) -> float:
        if not 0.0 < t < np.inf or float(law.rate) == 0.0:
            return float(objective.worth(law, np.asarray(t)))
        kinks = np.concatenate([_AROUND, _kinks(objective, law) / t])
        if code == kernels.RANDOM:
            return integrate(lambda v: objective.worth(law, v * t) * np.minimum(v, 2.0 - v), 0.0, 2.0, kinks)

        def integrand(v: Floats) -> Floats:
            alive = np.exp(-v)
            return alive * objective.worth(law, np.where(alive > 0, v, 0.0) * t)

        return integrate(integrand, 0.0, np.inf, kinks)

    with np.errstate(invalid="ignore"):
        return by_law(lambda law, t: np.vectorize(lambda t: one(law, t), otypes=[float])(t), law, t)


def _averaged_worth(objective: Objective, law: Process, t: Floats, code: int) -> Floats | None:
    """E[W(V t)] over the intervals of an order, for all elements at once; None if W is not smooth in pieces.

    W must have a closed form, and few kinks: those of the law, behind the threshold of the objective.
    """
    penalty = getattr(objective, "penalty", None)
    closed = isinstance(objective, Harmonic | UpdatePenalty)
    if isinstance(objective, SourcePenalty):
        closed = objective.smooth
    kinks = law.kinks if not law.shape_of else np.empty(0)
    if isinstance(law, Periodic):
        kinks = np.asarray(law.period)[None]
    elif kinks.size > 4 or (law.shape_of and law.kinks.size):
        return None
    if not closed:
        return None
    inside = (t > 0) & (t < np.inf) & (law.rate > 0)
    at = np.where(inside, t, 1.0)
    rate = np.where(law.rate > 0, law.rate, 1.0)
    delay = (getattr(penalty, "threshold", None) or 0.0) / at
    end = 2.0 if code == kernels.RANDOM else 60.0 + delay
    kinks = kinks.reshape(kinks.shape[:1] + (1,) * (at.ndim - kinks.ndim + 1) + kinks.shape[1:])
    low, high = np.array([0.0, 1e-7, 1e-5, 3e-4, 4e-3]), np.geomspace(60.0, 6e5, 9)
    steps = np.concatenate([low, [0.02, 0.1, 0.3, 0.7, 1.5, 3.0, 6.0, 12.0, 25.0], high])  # in mean gaps
    steps = steps.reshape((-1,) + (1,) * at.ndim)
    even = np.array([0.0, 0.5, 1.0, 1.5, 2.0] + [4.0, 8.0, 16.0, 30.0, 60.0] * (code != kernels.RANDOM))
    rows = (
        kinks / at + delay,
        steps / (rate * at) + delay,
        even.reshape((-1,) + (1,) * at.ndim) + (delay if code != kernels.RANDOM else 0.0),
    )
    shape = np.broadcast_shapes(at.shape, rate.shape)
    breaks = np.concatenate([np.broadcast_to(row, row.shape[:1] + shape) for row in rows])

    def weighted(v: Floats) -> Floats:
        share = np.minimum(v, 2.0 - v) if code == kernels.RANDOM else np.exp(-v)
        return share * objective.worth(law, v * at)

    with np.errstate(all="ignore"):
        value = integrate_pieces(weighted, np.clip(breaks, 0.0, end))
        return unwrap(np.where(inside, value, objective.worth(law, t)))


def interval_moment(k: float, order: int) -> float:
    """E[V^k] of the poll interval over its mean."""
    if order == kernels.FIXED:
        return 1.0
    return (
        (2.0 ** (k + 2) - 2.0) / ((k + 1) * (k + 2))
        if order == kernels.RANDOM
        else float(scipy.special.gamma(k + 1))
    )


def interval(
    objective: str | Objective, law: Process | ArrayLike, price: ArrayLike, order: Order = "fixed"
) -> Floats:
    """Interval, in the caller's unit of time, at which a poll is worth the price; inf where it never is.

    Parameters
    ----------
    objective
        "freshness", "age", "missed-updates", "harmonic", or an `Objective`.
    law
        How elements change: a process, or plain numbers for the rates of Poisson processes.
    price
        The worth at which an element is polled.
    order
        How polls are spread over time: "fixed", "random" or "purely-random".

    >>> float(interval("missed-updates", 2.0, 9.0))
    3.0
    >>> float(interval("freshness", 2.0, 0.5))
    inf
    """
    objective, law = objective_named(objective), _law(law)
    w = numbers("price", price, at_least=0, infinite=True)
    code = order_code(order)
    broadcast(law=np.empty(law.shape_of), price=w)
    rate = np.where(law.rate > 0, law.rate, 1.0)
    never = np.where(w > 0, np.inf, 0.0)  # for elements that do not change
    with np.errstate(all="ignore"):
        if isinstance(law, Poisson) and objective.kernel is not None:
            x = w * rate * rate if objective.kernel == kernels.AGE else w * rate
            found = kernels.inverse_worth(objective.kernel, code, x) / rate
        elif isinstance(law, UncertainPoisson) and objective.kernel is not None:
            x = w * law.scale * law.scale if objective.kernel == kernels.AGE else w * law.scale
            found = uncertain_kernels.inverse_worth(objective.kernel, code, law.shape, x) / law.scale
        elif (
            isinstance(law, Poisson) and code == kernels.FIXED and (tau := _threshold(objective)) is not None
        ):
            found = np.where(w > 0, tau + kernels.interval_beyond(rate * tau, w * rate) / rate, 0.0)
        elif isinstance(objective, UpdatePenalty) and objective.penalty.exponent is not None:
            k = objective.penalty.exponent + 2.0
            found = (w * k / (rate * interval_moment(k, code))) ** (1.0 / k)
        else:
            limit = worth(objective, law, np.inf, order)
            if not np.all((limit > 0) | (law.rate == 0)):
                raise InvalidInput(
                    f"{objective.name} falls as lags grow, so no poll is worth a price; use another weight"
                )
            found = reaching(lambda t, i: worth(objective, law.take(i), t, order), w, 1.0 / rate, limit)
    return unwrap(np.where(law.rate > 0, found, never))


def _threshold(objective: Objective) -> float | None:
    """How far behind data may be, if that is all that counts."""
    return objective.penalty.threshold if isinstance(objective, SourcePenalty) else None


def reaching(
    increasing: Callable[[Floats, NDArray[np.intp]], Floats], target: Floats, start: Floats, limit: Floats
) -> Floats:
    """Solve increasing(t) = target for each entry, from a start; inf where the limit is not above the target.

    Parameters
    ----------
    increasing
        A function of some times and the places of their entries.
    target, start, limit
        Of each entry: the value to reach, where the search begins, and what ``increasing`` tends to.

    The search runs on logarithms (SciPy's
    Chandrupatla), and goes on with the entries that have not settled.
    """
    shape = np.broadcast_shapes(target.shape, start.shape, limit.shape)
    target, start, limit = (np.broadcast_to(column, shape).ravel() for column in (target, start, limit))
    found = np.where(target < limit, 0.0, np.inf)
    index = np.flatnonzero((target > 0) & (target < limit))
    if index.size:
        found[index] = _solved(increasing, np.log(target[index]), np.log(start[index]), index)
    return found.reshape(shape)


def _solved(
    increasing: Callable[[Floats, NDArray[np.intp]], Floats],
    goal: Floats,
    start: Floats,
    index: NDArray[np.intp],
) -> Floats:
    from scipy.optimize import elementwise  # slow to import, rarely needed

    def miss(u: Floats, goal: Floats, place: Floats) -> Floats:
        with np.errstate(all="ignore"):
            value = np.log(increasing(np.exp(np.clip(u, -740.0, 700.0)), place.astype(np.intp)))
        return np.clip(np.where(np.isnan(value), 1e4, value), -1e4, 1e4) - goal  # nan: beyond the floats

    given = (goal, index.astype(float))
    start = np.clip(start, -700.0, 690.0)
    ends = elementwise.bracket_root(miss, start - 0.5, start + 0.5, args=given, maxiter=12)
    low, high = ends.bracket
    # not worth as much at any interval that a float can hold
    beyond = ~ends.success & (ends.f_bracket[1] < 0)
    if not np.all(ends.success | beyond):
        raise NoAnswer("no interval was found that is worth the price")
    known = ~beyond
    u = np.full(goal.shape, np.inf)
    if known.any():
        root = elementwise.find_root(
            miss,
            (low[known], high[known]),
            args=tuple(part[known] for part in given),
            tolerances={"xatol": 5e-16, "xrtol": 5e-16, "fatol": 0.0, "frtol": 0.0},
            maxiter=200,
        )
        left, right = root.bracket
        if np.any(~root.success & (right - left > 1e-12)):
            raise NoAnswer("the interval that is worth the price was not found in 200 steps")
        u[known] = root.x
    return np.exp(u)


def _law(law: Process | ArrayLike) -> Process:
    """Return the process; plain numbers are the rates of Poisson changes."""
    if hasattr(law, "survival"):
        return process("law", law)
    return Poisson(numbers("rate", law, at_least=0))
