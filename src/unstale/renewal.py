"""Staleness for any pair of processes, changes against polls: Li, Cline & Loguinov (INFOCOM 2015).

Changes and polls are processes of `unstale.processes`. All formulas need the age of the changes and the age
of the polls to be independent in the long run; `phase_lock` says when that can fail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from .arguments import Floats, numbers, unwrap, whole
from .errors import InvalidInput
from .objectives import SourcePenalty, UpdatePenalty
from .penalties import AnyPenalty, beyond
from .polling import average_cost
from .processes import Periodic, Poisson, Process, Superposed, process
from .quadrature import integrate

__all__ = [
    "PhaseLock",
    "dominates",
    "lag_cdf",
    "missed_updates",
    "phase_lock",
    "replicas",
    "share_within",
    "some_fresh",
    "source_penalty",
    "staleness",
    "update_penalty",
]


def staleness(changes: Process, polls: Process) -> Floats:
    """Share of time that the copy is stale (eq. 14).

    >>> from unstale import Pareto, Periodic
    >>> float(staleness(Pareto(3.0, 1.0), Periodic(0.5)).round(6))    # 33 % of Figure 3(a)
    0.333333
    """
    return average_cost("freshness", *_both(changes, polls))


def share_within(changes: Process, polls: Process, tau: ArrayLike) -> Floats:
    """Share of requests that see data less than ``tau`` behind: tau-currency (eq. 16).

    For several ``tau`` the answer has their shape followed by that of the processes.

    >>> from unstale import Pareto, Periodic
    >>> float(share_within(Pareto(3.0, 1.0), Periodic(0.5), 0.4).round(4))    # 98 % of Figure 4(a)
    0.9818
    """
    changes, polls = _both(changes, polls)
    times = numbers("tau", tau, at_least=0)
    return _stacked(lambda t: _within(changes, polls, t), times)


def _within(changes: Process, polls: Process, tau: float) -> Floats:
    if not isinstance(polls, Periodic):
        return np.clip(1.0 - average_cost(SourcePenalty(beyond(tau)), changes, polls), 0.0, 1.0)
    z = np.maximum(polls.period - tau, 0.0)  # a sum of positive terms, also where the share is small
    within = np.minimum(tau, polls.period) + z * changes.residual_survival(z) + changes.moment(1, z)
    return within / polls.period


def lag_cdf(changes: Process, polls: Process, lag: ArrayLike) -> Floats:
    """Distribution of the lag behind the source while the copy is stale (eq. 15); 1 if it never is.

    Polls at constant intervals and Poisson polls give it to full relative precision, others to 1e-10. For
    several lags the answer has their shape followed by that of the processes.

    >>> from unstale import Poisson
    >>> float(lag_cdf(Poisson(1.0), Poisson(1.0), 0.0))
    0.0
    """
    changes, polls = _both(changes, polls)
    stale = staleness(changes, polls)
    times = numbers("lag", lag, at_least=0)
    return _stacked(lambda t: _lag_cdf(changes, polls, t, stale), times)


def _lag_cdf(changes: Process, polls: Process, lag: float, stale: Floats) -> Floats:
    if isinstance(polls, Poisson):  # the lag of a stale copy forgets all but the polls
        return unwrap(np.where(stale > 0, -np.expm1(-polls.rate * lag), 1.0))
    if isinstance(polls, Periodic):  # G integrated over the last part of the interval
        shape = np.broadcast_shapes(changes.shape_of, polls.shape_of)
        recent = np.empty(shape)
        for i in np.ndindex(shape):
            law, period = changes.element(i), float(polls.element(i).period)
            back = integrate(
                lambda x, law=law, period=period: law.residual_cdf(np.maximum(period - x, 0.0)),  # type: ignore[misc]
                0.0,
                min(lag, period),
                period - law.kinks,
            )
            recent[i] = back / period
    else:
        recent = stale - average_cost(SourcePenalty(beyond(lag)), changes, polls)
    with np.errstate(invalid="ignore", divide="ignore"):
        return unwrap(np.where(stale > 0, np.clip(recent / stale, 0.0, 1.0), 1.0))


def _stacked(function: Callable[[float], Floats], times: Floats) -> Floats:
    if times.ndim == 0:
        return function(float(times))
    out = [function(float(t)) for t in times.ravel()]
    return np.stack(out).reshape(times.shape + np.shape(out[0])) if out else np.empty(times.shape)


def source_penalty(changes: Process, polls: Process, penalty: AnyPenalty = "x") -> Floats:
    """Mean weight of the lag behind the source (eq. 17, 20): w = 1 is staleness, w = x is age.

    ``penalty`` is a name ("1", "x", "log(1+x)", "1/(1+x)"), a `Penalty` or any function of the lag.

    >>> from unstale import Poisson
    >>> float(source_penalty(Poisson(2.0), Poisson(1.3)).round(6))    # mu/(lambda(lambda+mu))
    0.4662
    """
    return average_cost(SourcePenalty(penalty), *_both(changes, polls))


def update_penalty(changes: Process, polls: Process, penalty: AnyPenalty = "1") -> Floats:
    """Mean sum of the weights of the lags of all missed changes (eq. 21); takes the same penalties.

    >>> from unstale import Periodic, Poisson
    >>> float(update_penalty(Poisson(2.0), Periodic(1.0), "x").round(6))    # mu/(6 lambda^2)
    0.333333
    """
    return average_cost(UpdatePenalty(penalty), *_both(changes, polls))


def missed_updates(changes: Process, polls: Process) -> Floats:
    """Mean number of changes that the copy lacks, rate * E[D^2] / (2 E[D]) (eq. 22).

    >>> from unstale import Poisson
    >>> float(missed_updates(Poisson(2.0), Poisson(1.0)))
    2.0
    """
    return update_penalty(changes, polls, "1")


def _both(changes: Process, polls: Process) -> tuple[Process, Process]:
    return process("changes", changes), process("polls", polls)


# --- which polls are better, and when the formulas hold --------------------------------------------


def dominates(first: Process, second: Process) -> bool:
    """Tell whether the gaps of ``first`` dominate those of ``second`` in second order (definition 7).

    At equal rates that is the case if and only if polling by ``first`` costs no more for every penalty that
    grows with the lag and every process of changes (theorems 7 and 8); constant gaps dominate all others
    (theorem 9). The integrated survival functions are compared at 4,001 points over twelve decades and at all
    kinks, to 1e-12.

    >>> from unstale import Periodic, Poisson
    >>> dominates(Periodic(1.0), Poisson(1.0)), dominates(Poisson(1.0), Periodic(1.0))
    (True, False)
    """
    one = _single("first", first), _single("second", second)
    unit = max(1.0 / float(law.rate) for law in one)
    x = np.concatenate([np.geomspace(1e-6, 1e6, 4001) * unit, one[0].kinks, one[1].kinks])
    ahead = one[0].moment(0, x) / one[0].rate - one[1].moment(0, x) / one[1].rate
    means = 1.0 / one[0].rate - 1.0 / one[1].rate
    return bool((ahead >= -1e-12 * np.minimum(x, unit)).all() and means >= -1e-12 * unit)


def _single(name: str, law: Process) -> Process:
    if process(name, law).shape_of:
        raise InvalidInput(f"{name} must be one process; it stands for elements of shape {law.shape_of}")
    if not law.rate > 0:
        raise InvalidInput(f"{name} must have a rate > 0; its rate is 0")
    return law


@dataclass(frozen=True)
class PhaseLock:
    """Whether polls can fall into step with changes, so that the averages depend on the phase, and why."""

    possible: bool
    reason: str


def phase_lock(changes: Process, polls: Process, *, denominator: int = 10_000) -> PhaseLock:
    """Tell whether changes and polls can phase-lock: both on lattices whose spans have a rational ratio.

    Gaps that follow no lattice on either side exclude it (theorem 10: polls with independent non-lattice gaps
    are safe against all changes; constant polls are safe against non-lattice changes). A law on two points a,
    b is a lattice if and only if a/b is rational; irrational points alone do not help (2 sqrt 2 and 3 sqrt 2
    share the span sqrt 2). In floating point "rational" means a ratio of whole numbers up to ``denominator``,
    to 1e-9.

    >>> [phase_lock(Periodic(1.0), Periodic(every)).possible for every in (0.5, 0.5**0.5)]
    [True, False]
    """
    whole("denominator", denominator, at_least=1)
    change_span, poll_span = _single("changes", changes).span, _single("polls", polls).span
    if poll_span is None:
        return PhaseLock(possible=False, reason="the gaps between polls follow no lattice")
    if change_span is None:
        return PhaseLock(possible=False, reason="the gaps between changes follow no lattice")
    ratio = change_span / poll_span
    near = Fraction(ratio).limit_denominator(denominator)
    if near != 0 and near.numerator <= denominator and abs(float(near) / ratio - 1.0) < 1e-9:
        return PhaseLock(
            possible=True,
            reason=f"changes come in multiples of {change_span:g} and polls of {poll_span:g}, "
            f"whose ratio is {near}; add jitter to the polls",
        )
    return PhaseLock(possible=False, reason="the spans of changes and polls have no rational ratio")


# --- many sources, many replicas -------------------------------------------------------------------


def some_fresh(staleness: ArrayLike) -> float:
    """Probability that at least one of several independent sources is fresh (section VI-C).

    >>> some_fresh([0.5, 0.5])
    0.75
    """
    p = numbers("staleness", staleness, at_least=0, at_most=1, nonempty=True)
    return float(1.0 - np.prod(p))


def replicas(each: Process, count: int, *, coordinated: bool) -> Process:
    """Polls as the freshest of ``count`` replicas sees them, each polling by the process ``each``.

    Coordinated replicas poll in turn at equal distances, which is as good as one replica with all their
    polls. Independent ones give the superposition of their polls, which tends to a Poisson process as they
    multiply.

    >>> from unstale import Periodic, Poisson
    >>> float(staleness(Poisson(1.0), replicas(Periodic(2.0), 2, coordinated=True)).round(4))
    0.3679
    >>> float(staleness(Poisson(1.0), replicas(Periodic(2.0), 2, coordinated=False)).round(4))
    0.4323
    """
    m = whole("count", count, at_least=1)
    if not isinstance(coordinated, bool):
        raise InvalidInput(f"coordinated must be True or False; coordinated is {coordinated!r}")
    _single("each", each)
    return Periodic(1.0 / (m * each.rate)) if coordinated else Superposed(each, m)
