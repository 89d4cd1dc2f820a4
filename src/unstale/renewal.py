"""Staleness for any pair of processes, changes against polls: Li, Cline & Loguinov (INFOCOM 2015).

Changes and polls are processes of `unstale.processes`. All formulas need the age of the changes and the age of the polls to
be independent in the long run; `phase_lock` says when that can fail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from .arguments import Floats, numbers, unwrap, whole
from .errors import InvalidInput
from .objectives import SourcePenalty, UpdatePenalty, average_cost
from .penalties import Penalty, beyond, custom, named
from .processes import Periodic, Poisson, Process
from .quadrature import integrate

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from .processes import Size

__all__ = [
    "PhaseLock",
    "Superposed",
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

AnyPenalty = str | Penalty | Callable[[Floats], "ArrayLike"]


def staleness(changes: Process, polls: Process) -> Floats:
    """Share of time that the copy is stale (eq. 14).

    >>> from unstale import Pareto, Periodic
    >>> float(staleness(Pareto(3.0, 1.0), Periodic(0.5)).round(6))    # 33 % of Figure 3(a)
    0.333333
    """
    return average_cost("freshness", changes, polls)


def share_within(changes: Process, polls: Process, tau: ArrayLike) -> Floats:
    """Share of requests that see data less than ``tau`` behind: tau-currency (eq. 16).

    >>> from unstale import Pareto, Periodic
    >>> float(share_within(Pareto(3.0, 1.0), Periodic(0.5), 0.4).round(4))    # 98 % of Figure 4(a)
    0.9818
    """
    return 1.0 - _late(changes, polls, tau)


def lag_cdf(changes: Process, polls: Process, lag: ArrayLike) -> Floats:
    """Distribution of the lag behind the source while the copy is stale (eq. 15); 1 if it never is.

    >>> float(lag_cdf(Poisson(1.0), Poisson(1.0), 0.0))
    0.0
    """
    stale = staleness(changes, polls)
    with np.errstate(invalid="ignore"):
        return unwrap(np.where(stale > 0, 1.0 - _late(changes, polls, lag) / np.where(stale > 0, stale, 1.0), 1.0))


def _late(changes: Process, polls: Process, tau: ArrayLike) -> Floats:
    """P(lag > tau), for each tau."""
    times = numbers("tau", tau, at_least=0)
    if times.ndim == 0:
        return average_cost(SourcePenalty(beyond(float(times))), changes, polls)
    out = [average_cost(SourcePenalty(beyond(float(t))), changes, polls) for t in times.ravel()]
    return np.stack(out).reshape(times.shape + np.shape(out[0])) if out else np.empty(times.shape)


def source_penalty(changes: Process, polls: Process, penalty: AnyPenalty = "x") -> Floats:
    """Mean weight of the lag behind the source (eq. 17, 20): w = 1 is staleness, w = x is age.

    ``penalty`` is a name ("1", "x", "log(1+x)", "1/(1+x)"), a `Penalty` or any function of the lag.

    >>> float(source_penalty(Poisson(2.0), Poisson(1.3)).round(6))    # mu/(lambda(lambda+mu))
    0.4662
    """
    return average_cost(SourcePenalty(_penalty(penalty)), changes, polls)


def update_penalty(changes: Process, polls: Process, penalty: AnyPenalty = "1") -> Floats:
    """Mean sum of the weights of the lags of all missed changes (eq. 21); takes the same penalties.

    >>> float(update_penalty(Poisson(2.0), Periodic(1.0), "x").round(6))    # mu/(6 lambda^2)
    0.333333
    """
    return average_cost(UpdatePenalty(_penalty(penalty)), changes, polls)


def missed_updates(changes: Process, polls: Process) -> Floats:
    """Mean number of changes that the copy lacks, rate * E[D^2] / (2 E[D]) (eq. 22).

    >>> float(missed_updates(Poisson(2.0), Poisson(1.0)))
    2.0
    """
    return update_penalty(changes, polls, "1")


def _penalty(penalty: AnyPenalty) -> Penalty:
    if isinstance(penalty, Penalty):
        return penalty
    if isinstance(penalty, str):
        return named(penalty)
    return custom(penalty)


# --- which polls are better, and when the formulas hold --------------------------------------------------------------------


def dominates(first: Process, second: Process) -> bool:
    """Tell whether the gaps of ``first`` dominate those of ``second`` in second order (definition 7).

    At equal rates that is the case if and only if polling by ``first`` costs no more for every penalty that grows with the lag
    and every process of changes (theorems 7 and 8); constant gaps dominate all others (theorem 9). The integrated survival
    functions are compared at 4,001 points over twelve decades and at all kinks, to 1e-12.

    >>> dominates(Periodic(1.0), Poisson(1.0)), dominates(Poisson(1.0), Periodic(1.0))
    (True, False)
    """
    one = _single(first), _single(second)
    unit = max(1.0 / float(law.rate) for law in one)
    x = np.concatenate([np.geomspace(1e-6, 1e6, 4001) * unit, one[0].kinks, one[1].kinks])
    ahead = one[0].moment(0, x) / one[0].rate - one[1].moment(0, x) / one[1].rate
    means = 1.0 / one[0].rate - 1.0 / one[1].rate
    return bool((ahead >= -1e-12 * np.minimum(x, unit)).all() and means >= -1e-12 * unit)


def _single(law: Process) -> Process:
    if law.shape_of:
        msg = f"one process is needed here; this one stands for elements of shape {law.shape_of}"
        raise InvalidInput(msg)
    if not law.rate > 0:
        msg = "a process with rate 0 has no gaps to compare; its rate must be > 0"
        raise InvalidInput(msg)
    return law


@dataclass(frozen=True)
class PhaseLock:
    """Whether polls can fall into step with changes, so that the averages depend on the phase, and why."""

    possible: bool
    reason: str


def phase_lock(changes: Process, polls: Process, *, denominator: int = 10_000) -> PhaseLock:
    """Tell whether changes and polls can phase-lock: both on lattices whose spans have a rational ratio.

    Gaps that follow no lattice on either side exclude it (theorem 10: polls with independent non-lattice gaps are safe
    against all changes; constant polls are safe against non-lattice changes). A law on two points a, b is a
    lattice if and only if a/b is rational; irrational points alone do not help (2 sqrt 2 and 3 sqrt 2 share the span
    sqrt 2). In floating point "rational" means a ratio of whole numbers up to ``denominator``, to 1e-9.

    >>> phase_lock(Periodic(1.0), Periodic(0.5)).possible, phase_lock(Periodic(1.0), Periodic(0.5**0.5)).possible
    (True, False)
    """
    whole("denominator", denominator, at_least=1)
    change_span, poll_span = _single(changes).span, _single(polls).span
    if poll_span is None:
        return PhaseLock(possible=False, reason="the gaps between polls follow no lattice")
    if change_span is None:
        return PhaseLock(possible=False, reason="the gaps between changes follow no lattice")
    ratio = change_span / poll_span
    near = Fraction(ratio).limit_denominator(denominator)
    if near != 0 and near.numerator <= denominator and abs(float(near) / ratio - 1.0) < 1e-9:
        return PhaseLock(
            possible=True,
            reason=f"changes come in multiples of {change_span:g} and polls of {poll_span:g}, whose ratio is {near}; "
            "add jitter to the polls",
        )
    return PhaseLock(possible=False, reason="the spans of changes and polls have no rational ratio")


# --- many sources, many replicas -----------------------------------------------------------------------------------------


def some_fresh(staleness: ArrayLike) -> float:
    """Probability that at least one of several independent sources is fresh: 1 - prod(staleness) (section VI-C).

    >>> some_fresh([0.5, 0.5])
    0.75
    """
    p = numbers("staleness", staleness, at_least=0, at_most=1, nonempty=True)
    return float(1.0 - np.prod(p))


def replicas(each: Process, count: int, *, coordinated: bool) -> Process:
    """Polls as the freshest of ``count`` replicas sees them, each replica polling by the process ``each`` (section VI-D).

    Coordinated replicas poll in turn at equal distances, which is as good as one replica with all their polls. Independent ones give the
    superposition of their polls, which tends to a Poisson process as they multiply.

    >>> float(staleness(Poisson(1.0), replicas(Periodic(2.0), 2, coordinated=True)).round(4))
    0.3679
    >>> float(staleness(Poisson(1.0), replicas(Periodic(2.0), 2, coordinated=False)).round(4))
    0.4323
    """
    m = whole("count", count, at_least=1)
    _single(each)
    return Periodic(1.0 / (m * each.rate)) if coordinated else Superposed(each, m)


@dataclass(frozen=True, eq=False)
class Superposed:
    """All events of ``count`` independent copies of a process; made by `replicas`.

    From a random moment, the next event is the first of all: the residual survival is the product of theirs.
    """

    each: Process
    count: int

    @property
    def rate(self) -> Floats:
        return self.count * self.each.rate

    @property
    def shape_of(self) -> tuple[int, ...]:
        return ()

    @property
    def kinks(self) -> Floats:
        return self.each.kinks

    @property
    def span(self) -> float | None:
        """None: the phases of the copies are independent."""
        return None if self.count > 1 else self.each.span

    def element(self, index: tuple[int, ...]) -> Superposed:  # noqa: ARG002  (one process)
        return self

    def survival(self, gap: ArrayLike) -> Floats:
        return self.each.survival(gap) * self.each.residual_survival(gap) ** (self.count - 1)

    def residual_survival(self, t: ArrayLike) -> Floats:
        return self.each.residual_survival(t) ** self.count

    def residual_cdf(self, t: ArrayLike) -> Floats:
        with np.errstate(divide="ignore"):
            return -np.expm1(self.count * np.log1p(-self.each.residual_cdf(t)))

    def moment(self, k: int, t: ArrayLike) -> Floats:
        if k == 0:
            return self.residual_cdf(t)
        end = self.kinks[-1] if self.kinks.size else np.inf
        rate = float(self.rate)

        def one(t: float) -> float:
            top = min(t, end) * rate
            return integrate(lambda v: v**k * self.survival(v / rate), 0.0, top, self.kinks * rate) / rate**k

        return np.vectorize(one, otypes=[float])(numbers("t", t, at_least=0, infinite=True))[()]

    def sample(self, rng: np.random.Generator, size: Size = None) -> Floats:
        shape = (size,) if isinstance(size, int) else tuple(size or (1,))
        first = self.each.sample_residual(rng, (*shape[:-1], self.count, 1))
        later = self.each.sample(rng, (*shape[:-1], self.count, shape[-1]))
        times = np.cumsum(np.concatenate([first, later], axis=-1), axis=-1).reshape(*shape[:-1], -1)
        gaps = np.diff(np.sort(times, axis=-1)[..., : shape[-1] + 1], axis=-1)
        return gaps if size is not None else gaps.reshape(())[()]

    def sample_residual(self, rng: np.random.Generator, size: Size = None) -> Floats:
        shape = (size,) if isinstance(size, int) else tuple(size or ())
        return self.each.sample_residual(rng, (*shape, self.count)).min(axis=-1)

    def at_rate(self, rate: ArrayLike) -> Superposed:
        return Superposed(self.each.at_rate(np.asarray(rate) / self.count), self.count)
