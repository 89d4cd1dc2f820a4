"""The prior of a population, learned from the polls of all its elements (empirical Bayes).

Of all gamma priors, the one that makes the polls likeliest. With few elements, or few changes, that one is
not certain either: then the law of a rate is averaged over priors, each as probable as the polls make it.

A gamma law that fits most elements may end too early for the fastest, and polls at regular intervals would
not show it: that an element changed at every poll is all they say. So a second population is tried, in which
an unknown share of the elements is of any rate at all. Where that is much likelier, the prior is the gamma
law nearest to it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from unstale.arguments import Floats
from unstale.errors import InvalidInput

from .compiled.estimators import PollTally
from .posterior import GammaPrior, Posterior, evaluated, posterior, share_below

_MOST_POLLS_SAMPLED = 1_000_000
"""So many polls are enough to learn two numbers from, whatever the number of elements."""
_MOST_ELEMENTS_AVERAGED = 20_000
"""With more elements the likeliest prior is taken as it is: to average would take too long."""
_LEAST_LOG_ERROR = 0.1
"""So it is if logarithms of shape and mean are as certain as this; coverage is then off by up to 1.5 %."""
_LEAST_STRANGER_SHARE = 0.1
"""The share of elements of any rate must be this at least to count; one fewer hardly matters to most."""
_STRANGER_PRIOR = GammaPrior(0.5, 40.0)
"""Rates of those, per mean interval. Regular polls cannot tell this scale: it was chosen for intervals to be
true where rates are spread evenly over the decades from 0.01 to 100."""
_WEIGHT = np.array([1.0, 1.5, 1.5]) ** -2.0
_BOUNDS = [(-7.0, 14.0), (-30.0, 30.0), (-8.0, 8.0)]


class Population(NamedTuple):
    """Elements that are alike."""

    members: NDArray[np.intp]
    prior: GammaPrior
    others: list[GammaPrior]
    """Priors to average over; none if there is no doubt."""
    weights: Floats

    def posterior(self, data: PollTally, level: float) -> Posterior:
        """Return what polls say about the members."""
        data = select(data, self.members)
        if not self.others:
            return posterior(data, [self.prior], np.zeros(self.members.size, np.int64), level)
        return _averaged(data, self.others, self.weights, level)


def select(data: PollTally, members: NDArray[np.intp]) -> PollTally:
    """Return the polls of some elements only."""
    return data._replace(
        polls=data.polls[members],
        changes=data.changes[members],
        total=data.total[members],
        still=data.still[members],
        known=data.known[members],
        begins=data.begins[members],
        ends=data.ends[members],
    )


def populations(data: PollTally, owners: NDArray[np.int64], count: int) -> list[Population]:
    """Learn the prior of each class; a class without polls has that of all elements."""
    order = np.argsort(owners, kind="stable")
    groups = np.split(order, np.cumsum(np.bincount(owners, minlength=count))[:-1])
    everyone = None
    found = []
    for group in groups:
        if data.polls[group].any():
            found.append(_population(data, group))
        else:
            everyone = everyone or _population(data, order)
            found.append(everyone._replace(members=group))
    return found


def _population(data: PollTally, members: NDArray[np.intp]) -> Population:
    goal, best = _likeliest(data, members[data.polls[members] > 0])
    others, weights = goal.doubts(best) if members.size <= _MOST_ELEMENTS_AVERAGED else ([], np.empty(0))
    return Population(members, goal.prior(best), others, weights)


def likeliest_prior(data: PollTally) -> GammaPrior:
    """Return the prior that makes polls likeliest."""
    goal, best = _likeliest(data, np.flatnonzero(data.polls > 0))
    return goal.prior(best)


def _likeliest(data: PollTally, members: NDArray[np.intp]) -> tuple[_PriorLikelihood, Floats]:
    """Return the kind of population that members are, and the most probable one of that kind.

    A third number must be worth as much as the criterion of Schwarz (BIC) asks for.
    """
    data = select(data, _sample(data, members))
    plain, mixed = _PriorLikelihood(data), _MixedPriorLikelihood(data)
    best, other = plain.best(), mixed.best()
    n = data.polls.size
    gain = n * (plain.surprise(best)[0] - mixed.surprise(other)[0])
    if gain > 0.5 * np.log(n) and scipy.special.expit(other[2]) > _LEAST_STRANGER_SHARE:
        return mixed, other
    return plain, best


def _sample(data: PollTally, members: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return as many elements as have enough polls."""
    polls = int(data.polls[members].sum())
    if polls <= 2 * _MOST_POLLS_SAMPLED or members.size <= _MOST_ELEMENTS_AVERAGED:
        return members
    size = max(int(members.size * (_MOST_POLLS_SAMPLED / polls)), _MOST_ELEMENTS_AVERAGED)
    return np.sort(np.random.default_rng(1).choice(members, size, replace=False))


class _PriorLikelihood:
    """How probable a prior is, given the polls: a function of the logarithms of its shape and mean."""

    def __init__(self, data: PollTally) -> None:
        self._data = data
        self._interval = float(data.total.sum() / data.polls.sum())
        self._owners = np.zeros(data.polls.size, np.int64)

    def prior(self, x: Floats) -> GammaPrior:
        """Return the prior; the mean rate is per mean interval."""
        return GammaPrior(float(np.exp(x[0])), float(np.exp(x[1] - x[0])) / self._interval)

    def surprise(self, x: Floats) -> tuple[float, Floats]:
        """Minus the logarithm of its probability, per element, and the gradient."""
        value, slopes = self._evidence(self.prior(x))
        return self._with_hints(x, value.mean(), slopes.mean(axis=1))

    def _with_hints(self, x: Floats, value: float, slope: Floats) -> tuple[float, Floats]:
        """Add the weak evidence that keeps the prior finite where polls say nothing."""
        weight = _WEIGHT[: x.size] / self._data.polls.size
        return float(0.5 * (x**2 * weight).sum() - value), x * weight - slope

    def _evidence(self, prior: GammaPrior) -> tuple[Floats, Floats]:
        """Logarithm of the probability of each element's polls; slopes by logarithms of shape and mean."""
        data, shape, time = self._data, prior.shape, 1.0 / prior.scale
        out = evaluated(data, [prior], self._owners, 0.25, np.empty(0))
        mean, log, size = out[:, 0], out[:, 4], out[:, 5]
        gamma = np.isnan(log)
        a, b = shape + data.known[gamma], time + data.still[gamma]
        log[gamma] = scipy.special.digamma(a) - np.log(b)
        size[gamma] = scipy.special.gammaln(a) - a * np.log(b)
        by_time = shape - time * mean
        by_shape = shape * (np.log(time) - scipy.special.digamma(shape) + log)
        return size + shape * np.log(time) - scipy.special.gammaln(shape), np.array(
            [by_shape + by_time, -by_time]
        )

    def best(self) -> Floats:
        """Find the most probable prior."""
        rough = self._rough()
        mean = rough.mean() + 0.5 / self._data.polls.sum()
        return self._best_from(
            np.log([min(max(mean**2 / (rough.var() + 0.1 * mean**2), 0.3), 3.0), mean]), 1e-13, 1e-7
        )

    def _rough(self) -> Floats:
        """Rough rate of each element per mean interval."""
        data = self._data
        return -np.log1p(-data.changes / (data.polls + 0.5)) * (data.polls * self._interval / data.total)

    def _best_from(self, start: Floats, ftol: float, gtol: float) -> Floats:
        found = scipy.optimize.minimize(
            self.surprise,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=_BOUNDS[: start.size],
            options={"ftol": ftol, "gtol": gtol},
        )
        return np.asarray(found.x)

    def doubts(self, best: Floats) -> tuple[list[GammaPrior], Floats]:
        """Return priors about the best one that stand for all, and how probable each is.

        Nodes of Gauss & Hermite along the axes of the normal law that has the same curvature, their weights
        corrected for what the probability really is there.
        """
        n, numbers = self._data.polls.size, best.size
        step = 1e-3 * np.eye(numbers)
        slopes = [(self.surprise(best + e)[1] - self.surprise(best - e)[1]) / 2e-3 for e in step]
        curvature = 0.5 * n * (np.array(slopes) + np.array(slopes).T)
        values, axes = np.linalg.eigh(curvature)
        spread = np.minimum(np.maximum(values, 1e-12) ** -0.5, 3.0)
        z, w = np.polynomial.hermite_e.hermegauss(5 if n < 200 and numbers == 2 else 3)
        nodes = [
            list(zip(z.tolist(), w.tolist(), strict=True)) if doubtful else [(0.0, 1.0)]
            for doubtful in (np.abs(spread * axes) > _LEAST_LOG_ERROR).any(axis=0)
        ]
        if max(map(len, nodes)) == 1:
            return [], np.empty(0)
        floor = self.surprise(best)[0]
        priors, weights = [], []
        for node in itertools.product(*nodes):
            at, weight = np.transpose(node)
            x = np.clip(best + axes @ (spread * at), *np.transpose(_BOUNDS[:numbers]))
            real = n * (self.surprise(x)[0] - floor)
            priors.append(self.prior(x))
            weights.append(weight.prod() * np.exp(0.5 * (at**2).sum() - real))
        return priors, np.array(weights) / np.sum(weights)


class _MixedPriorLikelihood(_PriorLikelihood):
    """The same if some elements are of any rate: the third number is their share, as log(share/(1 - share)).

    The law of their rates, per mean interval, says little below 100.
    """

    def __init__(self, data: PollTally) -> None:
        super().__init__(data)
        self._any = GammaPrior(_STRANGER_PRIOR.shape, _STRANGER_PRIOR.scale / self._interval)
        self._of_any = self._evidence(self._any)[0]

    def prior(self, x: Floats) -> GammaPrior:
        """Return the gamma law nearest to the law of all: that with the same mean, and mean logarithm."""
        share = np.array([scipy.special.expit(-x[2]), scipy.special.expit(x[2])])
        laws = super().prior(x), self._any
        mean = share @ [one.rate for one in laws]
        log = share @ [scipy.special.digamma(one.shape) + np.log(one.scale) for one in laws]
        shape = float(_shape(np.log(mean) - log))
        return GammaPrior(shape, float(mean) / shape)

    def surprise(self, x: Floats) -> tuple[float, Floats]:
        """Return the same as `_PriorLikelihood.surprise`, for three numbers."""
        value, slopes = self._evidence(super().prior(x))
        alike, strange = value + scipy.special.log_expit(-x[2]), self._of_any + scipy.special.log_expit(x[2])
        total = np.logaddexp(alike, strange)
        weight = np.exp(alike - total)
        by_share = 1.0 - weight.mean() - scipy.special.expit(x[2])
        return self._with_hints(x, total.mean(), np.append((slopes * weight).mean(axis=1), by_share))

    def best(self) -> Floats:
        """Find the most probable law; half of all elements, and the faster ones, are of any rate at first."""
        rough = np.sort(self._rough())
        slow = rough[: 1 + int(0.6 * rough.size)].mean() + 0.5 / self._data.polls.sum()
        return self._best_from(np.array([0.0, np.log(slow), 0.0]), 1e-9, 1e-5)


def _averaged(data: PollTally, priors: list[GammaPrior], weights: Floats, level: float) -> Posterior:
    """Return the average of posteriors; the gamma law like it has the same mean logarithm.

    A variance says nothing here: nearly all of it may come from a few improbable priors.
    """
    from scipy.optimize import elementwise  # slow to import, rarely needed

    owners = np.zeros(data.polls.size, np.int64)
    each = [posterior(data, [prior], owners, level) for prior in priors]
    mean = weights @ [one.mean for one in each]
    log = weights @ [np.log(one.mean) + scipy.special.digamma(one.shape) - np.log(one.shape) for one in each]

    def quantile(ends: Callable[[Posterior], Floats], share: float) -> Floats:
        def excess(u: Floats, who: NDArray[np.intp]) -> Floats:
            some, rates = select(data, np.ravel(who)), np.exp(np.ravel(u))
            below = [share_below(some, [prior], owners[: rates.size], rates) for prior in priors]
            return (weights @ below).reshape(u.shape) - share

        found = np.log(np.maximum([ends(one) for one in each], 1e-300))  # 0 for a very small shape
        bracket = found.min(axis=0) - 1e-6, found.max(axis=0) + 1e-6
        root = elementwise.find_root(
            excess, bracket, args=(np.arange(owners.size),), tolerances={"xatol": 1e-6, "xrtol": 1e-6}
        )
        return np.exp(np.asarray(root.x))

    tail = 0.5 * (1.0 - level)
    low, high = quantile(lambda one: one.low, tail), quantile(lambda one: one.high, 1.0 - tail)
    return Posterior(mean, low, high, _shape(np.log(mean) - log))


def _shape(gap: Floats) -> Floats:
    """Return the shape of gamma laws from the logarithm of the mean less the mean of the logarithm.

    >>> shape = np.array([0.01, 1.0, 50.0])
    >>> _shape(np.log(shape) - scipy.special.digamma(shape)).round(9).tolist()
    [0.01, 1.0, 50.0]
    """
    shape = (3.0 - gap + np.sqrt((gap - 3.0) ** 2 + 24.0 * gap)) / (12.0 * gap)  # within 1.5 %
    for _ in range(3):
        miss = np.log(shape) - scipy.special.digamma(shape) - gap
        shape = 1.0 / (
            1.0 / shape + miss / (shape * shape * (1.0 / shape - scipy.special.polygamma(1, shape)))
        )
    return shape


# --- classes ------------------------------------------------------------------------------------------------


def classes_of(classes: ArrayLike | None, n: int) -> tuple[list[Hashable], NDArray[np.int64]]:
    """Return the labels there are, and which of them each element has."""
    if classes is None:
        return [None], np.zeros(n, np.int64)
    labels = np.asarray(classes)
    if labels.shape != (n,):
        raise InvalidInput(
            f"classes must be one label for each of the {n} elements; it has shape {labels.shape}"
        )
    found, owners = np.unique(labels, return_inverse=True)
    return found.tolist(), owners.astype(np.int64)


def priors_of(prior: GammaPrior | Mapping[Hashable, GammaPrior], labels: list[Hashable]) -> list[GammaPrior]:
    """Return the prior of each class, from one for all or one for each."""
    if isinstance(prior, GammaPrior):
        return [prior] * len(labels)
    if not isinstance(prior, Mapping):
        raise InvalidInput(
            f"prior must be a GammaPrior, or a mapping from classes to them; prior is {prior!r}"
        )
    for label in labels:
        if not isinstance(prior.get(label), GammaPrior):
            raise InvalidInput(
                f"prior must have a GammaPrior for each class; that of {label!r} is {prior.get(label)!r}"
            )
    return [prior[label] for label in labels]
