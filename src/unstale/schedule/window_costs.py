"""What windows and jitter cost: freshness, or any other objective, of elements that are polled by them.

Polls come at points in worked time (see `Windows`). Let ``V`` be the distance between two points of an
element, of mean 1/f, and ``D(v, V) = when(v + V) - when(v)`` the interval that becomes of it. Then

    mean cost = f E[accrued(D(v, V))] = f * integral of g(x) P(D > x) dx,

with ``v`` anywhere in a period of the windows: that is the mean over all phases that an element can have.
Several polls of one element at the start of a window are worth no more than one; they have D = 0. Of windows
in a time zone the nominal week counts, in which no hour is skipped or shown twice.

References: Cho & Garcia-Molina (1999), section 3, item 4 and Figure 5; Li, Cline & Loguinov (INFOCOM 2015),
sections III and IV-B.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unstale import kernels
from unstale.arguments import Floats, Order, broadcast, numbers, order_code, scalar, unwrap, whole
from unstale.errors import InvalidInput
from unstale.objectives import Objective, objective_named
from unstale.polling import mean_cost
from unstale.processes import Periodic, Poisson, Process, process
from unstale.renewal import phase_lock as in_step
from unstale.renewal import staleness

from .element_clocks import AllHours, WindowClock
from .window_clocks import CalendarClock, CycleClock
from .window_intervals import cost_of_intervals, gaps_of

_CUTS_IN_MEAN_GAPS = np.append(
    [0.02, 0.1, 0.3, 0.7, 1.0, 1.4, 3.0, 8.0, 20.0, 60.0, 250.0], np.logspace(3, 12, 10)
)
"""Cuts for quadrature, in mean gaps: what is sharp is sharp about there."""

_ELEMENTS_PER_CHUNK = 1024
"""Elements that are worked on at once."""

_UNIT_QUADRATURE = tuple(
    0.5 * part + offset for part, offset in zip(np.polynomial.legendre.leggauss(14), (0.5, 0.0), strict=True)
)
"""Points and weights on (0, 1)."""


# --- jitter -------------------------------------------------------------------------------------------------


def jittered_cost(
    objective: str | Objective, law: Process | ArrayLike, frequency: ArrayLike, jitter: float
) -> Floats:
    """Time-averaged cost when each interval is stretched by a factor between 1 - jitter and 1 + jitter.

    >>> jittered_cost("freshness", 1.0, [0.5, 1.0], jitter=0.5).round(4).tolist()
    [0.5795, 0.3834]
    >>> mean_cost("freshness", 1.0, [0.5, 1.0]).round(4).tolist()
    [0.5677, 0.3679]
    """
    return mean_cost(objective, law, frequency) + jitter_loss(objective, law, frequency, jitter)


def jitter_loss(
    objective: str | Objective, law: Process | ArrayLike, frequency: ArrayLike, jitter: float
) -> Floats:
    """Cost that jitter adds to that of constant intervals, provided that these do not fall into step.

    With D = 1/f and h = jitter * D it is (f h / 2) * integral of (1 - u) (g(D + hu) - g(D - hu)) du from 0 to
    1, about f h^2 g'(D) / 6: a jitter of a tenth costs about a hundredth of what a jitter of 1 does.

    >>> float(jitter_loss("freshness", 1.0, 1.0, 0.1).round(6))
    0.000613
    """
    objective, law = objective_named(objective), _law(law)
    f = numbers("frequency", frequency, at_least=0)
    j = scalar("jitter", jitter, at_least=0, at_most=1)

    def loss(law: Process, f: Floats) -> Floats:
        interval = 1.0 / f
        width = j * interval

        def weighted(u: Floats, i: Places) -> Floats:
            own, middle, half = law.take(i), interval[i], width[i] * u
            sooner = objective.cost(own, np.maximum(middle - half, 0.0))
            return (1.0 - u) * (objective.cost(own, middle + half) - sooner)

        return 0.5 * j * _integrated(weighted, np.abs(_bends(objective, law) - interval) / width)

    if j == 0.0:
        return unwrap(np.zeros(np.broadcast_shapes(law.shape_of, f.shape)))
    return _each(law, f, loss, never=0.0)


Places = NDArray[np.intp]
_Cost = Callable[[Process, Floats], Floats]
"""Of laws and as many frequencies, or of one law and one frequency, as arrays."""


def _each(
    law: Process, frequency: Floats, function: _Cost, *, never: float | Floats, singly: bool = False
) -> Floats:
    """Apply a function of laws and frequencies to all elements that change and are polled.

    Poisson ones are taken many at a time if the function can, the others one by one.
    """
    broadcast(law=np.empty(law.shape_of), frequency=frequency)
    shape = np.broadcast_shapes(law.shape_of, frequency.shape)
    polled = np.broadcast_to((frequency >= np.finfo(float).tiny) & (law.rate > 0), shape)
    out = np.array(np.broadcast_to(np.where(law.rate > 0, never, 0.0), shape))
    f = np.broadcast_to(frequency, shape)
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):  # limits are answers
        if isinstance(law, Poisson) and not singly:
            rate, places, f = np.broadcast_to(law.rate, shape)[polled], np.flatnonzero(polled), f[polled]
            for first in range(0, places.size, _ELEMENTS_PER_CHUNK):
                own = slice(first, first + _ELEMENTS_PER_CHUNK)
                out.flat[places[own]] = function(Poisson(rate[own]), f[own])
        else:
            for place in np.argwhere(polled).tolist():
                i = tuple(place)
                out[i] = function(law.element(i), np.atleast_1d(f[i]))[0]
    return unwrap(out)


def _integrated(integrand: Callable[[Floats, Places], Floats], cuts: Floats) -> Floats:
    """Integrate integrand(u, i) over u from 0 to 1 for each column i of the cuts, between them."""
    ends = np.concatenate([np.zeros((1, cuts.shape[1])), cuts, np.ones((1, cuts.shape[1]))])
    ends = np.sort(np.clip(ends, 0.0, 1.0), axis=0)
    row, i = np.nonzero(ends[1:] > ends[:-1])
    low, width = ends[row, i], ends[row + 1, i] - ends[row, i]
    points, weights = _UNIT_QUADRATURE
    value = width * (weights @ integrand(low + width * points[:, None], i))
    return np.asarray(np.bincount(i, value, minlength=cuts.shape[1]), np.float64)


def _late(objective: Objective) -> list[float]:
    """Lags at which the weight of the objective jumps or bends, and 0."""
    penalty = getattr(objective, "penalty", None)
    return sorted({0.0, getattr(penalty, "threshold", None) or 0.0, *getattr(penalty, "kinks", ())})


def _kinks(objective: Objective, law: Process) -> Floats:
    """Times since a poll at which the cost bends, one row for each."""
    own = np.append(law.kinks, 0.0)[:, None]  # many laws at a time are Poisson, without kinks
    return np.concatenate([own + late for late in _late(objective)]) + np.zeros(np.size(law.rate))


def _scales(objective: Objective, law: Process) -> Floats:
    """Times since a poll between which the cost is smooth, one row for each."""
    own = _CUTS_IN_MEAN_GAPS[:, None] / law.rate
    return np.concatenate([own + late for late in _late(objective)])


def _bends(objective: Objective, law: Process) -> Floats:
    return np.concatenate([_kinks(objective, law), _scales(objective, law)])


# --- windows ------------------------------------------------------------------------------------------------


def windowed_cost(
    objective: str | Objective,
    law: Process | ArrayLike,
    frequency: ArrayLike,
    clock: WindowClock | None,
    order: Order = "fixed",
    *,
    jitter: float = 0.0,
) -> Floats:
    """Time-averaged cost of elements that are polled inside windows only, at ``frequency`` in the long run.

    The mean is that over all phases. (An element in fixed order whose interval is a whole number of periods
    has one interval only, whatever its phase.)

    >>> from unstale.schedule.windows import Windows
    >>> night = Windows.every(24, 22, 30).clock()
    >>> windowed_cost("freshness", 0.1, [1 / 24, 1 / 4], night).round(4).tolist()
    [0.6211, 0.3969]
    >>> mean_cost("freshness", 0.1, [1 / 24, 1 / 4]).round(4).tolist()
    [0.6211, 0.1758]
    """
    objective, law = objective_named(objective), _law(law)
    f = numbers("frequency", frequency, at_least=0)
    code, j = order_code(order), scalar("jitter", jitter, at_least=0, at_most=1)
    if j and code != kernels.FIXED:
        raise InvalidInput(f"jitter is for fixed order, and random orders need none; the order is {order!r}")

    def plain(law: Process, f: Floats) -> Floats:
        return jittered_cost(objective, law, f, j) if j else mean_cost(objective, law, f, order)

    if clock is None or isinstance(clock, AllHours):
        return plain(law, f)
    if not isinstance(clock, CycleClock | CalendarClock):
        raise InvalidInput(
            f"clock must be that of Windows, such as Windows.every(24, 0, 8).clock(); clock is {clock!r}"
        )
    cycle = clock.cycle

    def varied(law: Process, f: Floats) -> Floats:
        cuts = {"kinks": _kinks(objective, law)[:, 0], "scales": _scales(objective, law)[:, 0]}
        gaps = gaps_of(code, j)
        cost = cost_of_intervals(cycle, gaps, float(f[0]), lambda x: objective.cost(law, x), **cuts)
        return np.array([cost])

    function: _Cost = varied
    singly = True
    if code == kernels.FIXED and not j:
        function, singly = _constant(objective, cycle), False
    elif code == kernels.PURELY_RANDOM and isinstance(law, Poisson) and objective.kernel == kernels.FRESHNESS:
        function, singly = _memoryless(cycle), False
    never = objective.cost(law, np.asarray(np.inf)) if np.any(f < np.finfo(float).tiny) else 0.0
    return _each(law, f, _in_range(objective, cycle, plain, function), never=never, singly=singly)


def _in_range(objective: Objective, cycle: CycleClock, plain: _Cost, function: _Cost) -> _Cost:
    """Return a function for all frequencies, from one for those that windows and floats allow."""
    least, most = 1e-7 / cycle.period, 1e8 / cycle.period

    def many(law: Process, f: Floats) -> Floats:
        """The limit of many polls: only the time outside windows is left between them."""
        _, moments = cycle.edges
        opens, _, closes = moments.reshape(3, -1)
        ends = closes if cycle.pace > 0 else opens
        rests = np.append(opens[1:], opens[0] + cycle.period) - ends
        outside = sum(objective.accrued(law, np.asarray(rest)) for rest in rests) / cycle.period
        inside = plain(law, f * cycle.pace) if cycle.pace > 0 else 0.0
        return inside * (1.0 - rests.sum() / cycle.period) + outside

    def cost(law: Process, f: Floats) -> Floats:
        inside = (f >= least) & (f <= most)
        found = function(law, np.clip(f, least, most)) if np.any(inside) else f
        if np.any(f < least):  # intervals are so long that a period more or less is nothing
            found = np.where(f < least, plain(law, f), found)
        return np.where(f > most, many(law, f), found) if np.any(f > most) else found

    return cost


def _law(law: Process | ArrayLike) -> Process:
    """Return the process; plain numbers are the rates of Poisson changes."""
    return process("law", law) if hasattr(law, "survival") else Poisson(numbers("rate", law, at_least=0))


def _constant(objective: Objective, cycle: CycleClock) -> _Cost:
    """Return the cost in fixed order: D is a constant, or linear, on pieces of v."""

    def cost(law: Process, f: Floats) -> Floats:
        gap = 1.0 / f
        edges = np.append(cycle.edges[0] % cycle.period, [0.0, cycle.period])[:, None]
        breaks = np.concatenate([edges + np.zeros(f.size), (edges - gap) % cycle.period])
        breaks.sort(axis=0)
        length, middle = np.diff(breaks, axis=0), 0.5 * (breaks[1:] + breaks[:-1])
        interval = cycle.when(middle + gap) - cycle.when(middle)
        accrued = objective.accrued(law, interval)
        # at the start of a window moments stand still, while points in worked time go on
        tilted = (cycle.at_once(middle) != cycle.at_once(middle + gap)) & (length > 0.0)
        if cycle.pace > 0 and tilted.any():
            element = np.nonzero(tilted)[1]
            width = length[tilted] / cycle.pace
            low = np.maximum(interval[tilted] - 0.5 * width, 0.0)  # as it is, but for rounding
            bends = _bends(objective, law)
            accrued[tilted] = _integrated(
                lambda u, i: objective.accrued(law.take(element[i]), low[i] + width[i] * u),
                (bends[:, element] - low) / width,
            )
        return f / cycle.period * np.sum(length * accrued, axis=0)

    return cost


def _memoryless(cycle: CycleClock) -> _Cost:
    """Return the staleness under Poisson changes and polls, by its differential equation.

    p' = rate (1 - p) - f pace p inside windows, without the last term outside, and p falls by exp(-f v) where
    polls for a time worked of v come all at once.
    """

    def cost(law: Process, f: Floats) -> Floats:
        worked, moments = (edge.reshape(3, -1) for edge in cycle.edges)
        following = np.append(moments[0, 1:], moments[0, 0] + cycle.period)
        falls, lengths, rests = worked[1] - worked[0], moments[2] - moments[0], following - moments[2]
        rate = np.maximum(law.rate, 1e-100 / cycle.period)  # below, its square underflows
        total = (rate + f) * cycle.period

        def along(p: Floats) -> tuple[Floats, Floats]:
            """Return p after a period, and its integral."""
            area = 0.0 * p
            for fall, inside, outside in zip(falls, lengths, rests, strict=True):
                p = p * np.exp(-f * fall)
                for speed, time in ((rate + f * cycle.pace, inside), (rate, outside)):
                    x = speed * time
                    area = area + (p * kernels.p1(x) + rate / speed * kernels.q1(x)) / speed
                    p = p * np.exp(-x) + rate / speed * kernels.p1(x)
            return p, area

        gained = along(0.0 * total)[0]
        return along(gained / kernels.p1(total))[1] / cycle.period * (law.rate / rate)

    return cost


# --- falling into step --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lock:
    """Whether polls at constant intervals fall into step with changes, and what that does to staleness.

    ``mean`` is the staleness over all phases, ``best`` and ``worst`` what one of them can have for ever.
    """

    possible: bool
    reason: str
    best: float
    mean: float
    worst: float


def phase_lock(law: Process, frequency: float, *, denominator: int = 100) -> Lock:
    """Tell whether polls at constant intervals fall into step with changes, and how stale that may be.

    They do if changes come in whole multiples of a span h and the interval is p/q of it (Li et al. 2015,
    section IV-B). A poll then comes at one of q moments after a multiple of h, and the next change at the
    next multiple, or at a later one if gaps vary. For changes every h, the staleness lies 1/(2 max(p, q))
    around its mean: anywhere from 0 to 1 if p = q = 1. Beyond ``denominator``, p and q do not count as in
    step.

    >>> lock = phase_lock(Periodic(24.0), 1 / 24)
    >>> lock.possible, lock.best, lock.mean, lock.worst
    (True, 0.0, 0.5, 1.0)
    >>> phase_lock(Periodic(24.0), 1 / 23.9).possible
    False
    """
    f = scalar("frequency", frequency, above=0)
    polls = Periodic(1.0 / f)
    found = in_step(law, polls, denominator=whole("denominator", denominator, at_least=1))
    mean = float(staleness(law, polls))
    if not found.possible or law.span is None:
        return Lock(possible=False, reason=found.reason, best=mean, mean=mean, worst=mean)
    span = law.span
    q = Fraction(1.0 / (f * span)).limit_denominator(denominator).denominator
    best, worst = (_at_phases(law, span, 1.0 / f, (np.arange(q) + late) * span / q) for late in (0.0, 1.0))
    return Lock(possible=True, reason=found.reason, best=best, mean=mean, worst=worst)


def _at_phases(law: Process, span: float, interval: float, since: Floats) -> float:
    """Staleness if polls come at these times after a multiple of the span; changes come at multiples only."""
    ahead = np.arange(1.0, np.ceil(interval / span) + 2.0)
    chance = law.rate * span * law.survival((ahead - 0.5) * span)  # that the next change is so far ahead
    stale = np.maximum(interval + since[:, None] - ahead * span, 0.0)
    return min(1.0, float(np.mean(np.minimum(stale, interval) @ chance)) / interval)
