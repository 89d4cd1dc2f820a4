"""What a frequency buys when elements change by Poisson processes.

Cho & Garcia-Molina (SIGMOD 2000 and the technical report of 1999), Azar et al. (PNAS 2018), Carney et al.
(ICDE 2003).

Rates and frequencies share one unit of time, the caller's. Arrays broadcast. A rate of 0 is always fresh; a
frequency of 0 never is, and its age is infinite.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from . import kernels
from .arguments import Floats, Order, broadcast, choice, numbers, order_code, scalar, unwrap, whole
from .errors import InvalidInput
from .objectives import Objective, objective_named
from .polling import interval
from .processes import UncertainPoisson

__all__ = [
    "age",
    "age_after",
    "burn_in",
    "curve_cutoff",
    "curve_frequency",
    "curve_peak",
    "database_age",
    "database_freshness",
    "decaying_freshness",
    "discrete_decaying_freshness",
    "discrete_freshness",
    "frequency_for",
    "freshness",
    "freshness_after",
    "perceived_freshness",
]

Allocation = Literal["uniform", "proportional"]


def freshness(rate: ArrayLike, frequency: ArrayLike, order: Order = "fixed") -> Floats:
    """Share of time that a copy is fresh, polled at ``frequency`` while the element changes at ``rate``.

    With r = rate/frequency: (1-e^-r)/r in fixed order, (1 - ((1-e^-r)/r)^2)/r in random order, 1/(1+r) purely
    random (Cho & Garcia-Molina 2000, Table 2; Azar et al. 2018, eq. 5 and 6).

    >>> freshness(1.0, [0.0, 1.0, 2.0]).round(3).tolist()
    [0.0, 0.632, 0.787]
    """
    with np.errstate(all="ignore"):  # a ratio beyond the floats is a limit, which is an answer
        return kernels.freshness(*_pair(rate, frequency), order_code(order))


def age(rate: ArrayLike, frequency: ArrayLike, order: Order = "fixed") -> Floats:
    """Mean time since the first change that the copy lacks, 0 while it is fresh.

    With r = rate/frequency and times the frequency: 1/2 - 1/r + (1-e^-r)/r^2 in fixed order, and likewise
    7/12 - 1/r + (1-((1-e^-r)/r)^2)/r^2 in random order and r/(1+r) purely random (Cho & Garcia-Molina 2000,
    Table 2).

    >>> age(1.0, [0.0, 1.0, 2.0]).round(3).tolist()
    [inf, 0.132, 0.037]
    """
    with np.errstate(all="ignore"):
        return kernels.age(*_pair(rate, frequency), order_code(order))


def _pair(rate: ArrayLike, frequency: ArrayLike) -> tuple[Floats, Floats]:
    r, f = numbers("rate", rate, at_least=0), numbers("frequency", frequency, at_least=0)
    broadcast(rate=r, frequency=f)
    return r, f


def freshness_after(rate: ArrayLike, elapsed: ArrayLike) -> Floats:
    """Probability that a copy is still fresh ``elapsed`` after its poll, e^(-rate*elapsed) (section 2.2).

    >>> float(freshness_after(2.0, 0.5).round(4))
    0.3679
    """
    rate, elapsed = _elapsed(rate, elapsed)
    with np.errstate(over="ignore", under="ignore"):
        return np.exp(-rate * elapsed)


def age_after(rate: ArrayLike, elapsed: ArrayLike) -> Floats:
    """Expected age ``elapsed`` after the poll, elapsed * (1 - (1-e^-x)/x) with x = rate*elapsed.

    >>> float(age_after(2.1, 0.37).round(6))
    0.112754
    """
    rate, elapsed = _elapsed(rate, elapsed)
    with np.errstate(over="ignore"):
        x = np.minimum(rate * elapsed, 1e300)
    tiny = x < 1e-100
    return unwrap(np.where(tiny, 0.5 * x, kernels.q1(x) / np.where(tiny, 1.0, x)) * elapsed)


def _elapsed(rate: ArrayLike, elapsed: ArrayLike) -> tuple[Floats, Floats]:
    r, t = numbers("rate", rate, at_least=0), numbers("elapsed", elapsed, at_least=0)
    broadcast(rate=r, elapsed=t)
    return r, t


def frequency_for(rate: ArrayLike, freshness: ArrayLike, order: Order = "fixed") -> Floats:
    """Frequency that buys this freshness for one element; inf for freshness 1 (section 4).

    >>> float(frequency_for(1.0, 0.8).round(4))
    2.1542
    """
    r, wanted = numbers("rate", rate, at_least=0), numbers("freshness", freshness, at_least=0, at_most=1)
    broadcast(rate=r, freshness=wanted)
    with np.errstate(all="ignore"):
        found = r / kernels.inverse_freshness(order_code(order), wanted)
    return unwrap(np.where((r == 0) | (wanted == 0), 0.0, found))


# --- a database whose rates are gamma-distributed (Cho & Garcia-Molina, Table 3) -------------------


def database_freshness(
    mean_rate: ArrayLike, spread: ArrayLike, frequency: ArrayLike, allocation: Allocation = "uniform"
) -> Floats:
    """Freshness of a database whose change rates are gamma-distributed, polled in fixed order.

    Parameters
    ----------
    mean_rate
        The mean of the rates.
    spread
        The standard deviation of the rates over their mean.
    frequency
        The mean frequency.
    allocation
        "uniform" polls all equally often; "proportional" in proportion to their rates, so that all are
        equally fresh.

    Examples
    --------
    >>> float(database_freshness(1.0, 1.0, 1.0).round(6))    # log(1+r)/r where the printed formula is 0/0
    0.693147
    """
    return _database(mean_rate, spread, frequency, allocation)[0]


def database_age(
    mean_rate: ArrayLike, spread: ArrayLike, frequency: ArrayLike, allocation: Allocation = "uniform"
) -> Floats:
    """Age of a database whose change rates are gamma-distributed, polled in fixed order.

    Under proportional allocation it is infinite once ``spread`` reaches 1.

    Parameters
    ----------
    mean_rate, spread, frequency, allocation
        As in `database_freshness`.

    Examples
    --------
    >>> float(database_age(1.0, 0.5, 1.0).round(6)), float(database_age(1.0, 1.0, 1.0, "proportional"))
    (0.126667, inf)
    """
    return _database(mean_rate, spread, frequency, allocation)[1]


def _database(
    mean_rate: ArrayLike, spread: ArrayLike, frequency: ArrayLike, allocation: Allocation
) -> tuple[Floats, Floats]:
    rate, f = numbers("mean_rate", mean_rate, at_least=0), numbers("frequency", frequency, at_least=0)
    delta = numbers("spread", spread, at_least=0)
    broadcast(mean_rate=rate, spread=delta, frequency=f)
    equal = kernels.freshness(rate, f, kernels.FIXED), kernels.age(rate, f, kernels.FIXED)
    if choice("allocation", allocation, ("uniform", "proportional")) == "proportional":
        with np.errstate(divide="ignore", invalid="ignore"):
            slower = np.where(delta < 1, equal[1] / ((1.0 - delta) * (1.0 + delta)), np.inf)
        return np.broadcast_arrays(equal[0], slower)[0], unwrap(np.where(rate == 0, 0.0, slower))
    # elements of unknown gamma rate, polled alike: one element with an uncertain rate
    ordinary = (rate > 0) & (f > 0) & (delta > 1e-7)  # below, the spread shows in no digit that matters
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        variance = np.where(ordinary, np.minimum(delta, 1e100), 1.0) ** 2
        law = UncertainPoisson(1.0 / variance, np.where(rate > 0, rate, 1.0) * variance)
        t = 1.0 / np.where(f > 0, f, 1.0)
        fresh = law.residual_survival(t) + law.moment(1, t) / t
        old = objective_named("age").accrued(law, t) / t
    return unwrap(np.where(ordinary, fresh, equal[0])), unwrap(np.where(ordinary, old, equal[1]))


# --- the best frequency as a function of the rate (Cho & Garcia-Molina, appendix E) ----------------


def curve_frequency(
    rate: ArrayLike, price: ArrayLike, objective: str | Objective = "freshness", order: Order = "fixed"
) -> Floats:
    """Best frequency of an element at a given price: one over the interval at which a poll is worth it.

    For freshness it rises, peaks at `curve_peak` and is 0 from rate 1/price on; for age it rises for ever.
    Doubling the price halves both axes (for age: divides them by sqrt 2).

    Parameters
    ----------
    rate
        Changes per unit time.
    price
        What a poll must be worth.
    objective
        What a poll is worth.
    order
        How polls are spread over time.

    Examples
    --------
    >>> curve_frequency([0.5, 0.999, 1.0], 1.0).round(4).tolist()
    [0.2979, 0.1082, 0.0]
    """
    price = numbers("price", price, above=0)
    spacing = interval(objective, rate, price, order)
    with np.errstate(divide="ignore"):
        return 1.0 / spacing


_PEAK = 1.7932821329007610  # root of e^r = 1 + r + r^2


def curve_peak(price: float) -> tuple[float, float]:
    """Rate that deserves the most polls at this price of freshness, and its frequency (Figure 18).

    >>> [round(x, 5) for x in curve_peak(1.0)]
    [0.53516, 0.29843]
    """
    price = scalar("price", price, above=0)
    best = float(kernels.p2(_PEAK)) / price
    return best, best / _PEAK


def curve_cutoff(price: float) -> float:
    """Rate from which on an element is not polled at this price of freshness.

    >>> curve_cutoff(2.0)
    0.5
    """
    return 1.0 / scalar("price", price, above=0)


# --- Azar et al. -----------------------------------------------------------------------------------


def discrete_freshness(
    change_probability: ArrayLike, poll_probability: ArrayLike, steps: ArrayLike | None = None
) -> Floats:
    """Probability that a copy is fresh when time comes in slots (Azar et al. 2018, eq. 3).

    In each slot an element changes, and is polled, with these probabilities. Without ``steps`` the limit
    p/(p+d-pd); with it, the probability after that many slots from a stale start (see `burn_in`).

    >>> float(discrete_freshness(0.29, 0.13).round(6)), float(discrete_freshness(0.29, 0.13, 10).round(6))
    (0.340047, 0.337297)
    """
    d = numbers("change_probability", change_probability, at_least=0, at_most=1)
    p = numbers("poll_probability", poll_probability, at_least=0, at_most=1)
    broadcast(change_probability=d, poll_probability=p)
    busy = p + d * (1.0 - p)
    with np.errstate(invalid="ignore", divide="ignore"):
        limit = np.where(busy > 0, p / np.where(busy > 0, busy, 1.0), 0.0)
        if steps is None:
            return unwrap(np.where((p == 0) & (d == 0), 1.0, limit))
        n = numbers("steps", steps, at_least=0)
        broadcast(change_probability=d, poll_probability=p, steps=n)
        quiet = np.where(n > 0, n * (np.log1p(-p) + np.log1p(-d)), 0.0)
        return unwrap(limit * -np.expm1(quiet))


def burn_in(change_probability: ArrayLike, error: float) -> int:
    """Slots after which `discrete_freshness` is this close to its limit, however little is polled.

    ``error`` is relative.

    >>> burn_in(0.01, 1e-3)
    688
    """
    d = numbers("change_probability", change_probability, above=0, at_most=1, nonempty=True)
    eps = scalar("error", error, above=0, below=1)
    least = float(d.min())
    return 1 if least == 1.0 else whole("burn-in", int(np.ceil(np.log(eps) / np.log1p(-least))))


def decaying_freshness(decay: ArrayLike, frequency: ArrayLike, order: Order = "fixed") -> Floats:
    """Mean of e^(-decay * time since the poll): freshness that fades instead of breaking (Remark 4).

    The same function as `freshness`, with the rate of decay for the rate of change.

    >>> float(decaying_freshness(0.7, 1.3, "purely-random"))
    0.65
    """
    decay = numbers("decay", decay, at_least=0)
    return freshness(decay, frequency, order)


def discrete_decaying_freshness(decay: ArrayLike, poll_probability: ArrayLike) -> Floats:
    """Mean at the start of a slot of e^(-decay * slots since the poll): p/(1-(1-p)e^-decay).

    Azar et al. print the continuous formula rho/(rho+decay) here; in slots it is `discrete_freshness` with
    the change probability 1 - e^-decay.

    >>> float(discrete_decaying_freshness(0.5, 0.2).round(6))
    0.388519
    """
    d, p = (
        numbers("decay", decay, at_least=0),
        numbers("poll_probability", poll_probability, at_least=0, at_most=1),
    )
    broadcast(decay=d, poll_probability=p)
    faded = (1.0 - p) * kernels.p1(d)
    with np.errstate(invalid="ignore"):
        return unwrap(np.where((p == 0) & (d == 0), 1.0, p / np.where(p + faded > 0, p + faded, 1.0)))


# --- Carney, Lee & Zdonik --------------------------------------------------------------------------


def perceived_freshness(
    profile: ArrayLike, rate: ArrayLike, frequency: ArrayLike, order: Order = "fixed"
) -> float:
    """Freshness as users see it: the mean over accesses (Carney et al. 2003).

    Parameters
    ----------
    profile
        How often each element is accessed; it need not sum to 1.
    rate, frequency
        Changes and polls per unit time of each element.
    order
        How polls are spread over time.

    Examples
    --------
    >>> round(perceived_freshness([3, 1], [1.0, 1.0], [1.0, 0.0]), 4)
    0.4741
    """
    p = numbers("profile", profile, at_least=0, nonempty=True)
    numbers("rate", rate, nonempty=True), numbers("frequency", frequency, nonempty=True)
    f = freshness(rate, frequency, order)
    broadcast(profile=p, freshness=np.asarray(f))
    p = np.broadcast_to(p, np.broadcast_shapes(p.shape, np.shape(f)))
    p = p / max(float(p.max()), 1e-300)  # so that the sum does not overflow
    total = float(np.sum(p))
    if not total > 0:
        raise InvalidInput("profile must have at least one access; it sums to 0")
    return float(np.sum(p * f) / total)
