"""Change rates of many elements at once, with a prior that is learned from all of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unstale.arguments import Floats, scalar
from unstale.errors import InvalidInput
from unstale.estimation.checked_polls import PollColumns
from unstale.processes import UncertainPoisson

from .compiled.estimators import PollTally
from .estimators import Method, checked_level, checked_method, estimated
from .population import Population, classes_of, populations, priors_of
from .posterior import GammaPrior, Posterior, posterior

Priors = GammaPrior | dict[Hashable, GammaPrior]


class Rates:
    """The change rates of many elements, and how sure they are: arrays with one entry for each element.

    Parameters
    ----------
    method, level
        The estimator, and the probability that intervals cover.
    polls, changes
        How many there were of each element.
    rate
        Estimates; None: those of the posterior.
    find
        Computes priors and posteriors when they are first asked for.
    """

    rate: Floats
    method: str
    level: float
    polls: NDArray[np.int64]
    changes: NDArray[np.int64]

    def __init__(
        self,
        method: str,
        level: float,
        polls: NDArray[np.int64],
        changes: NDArray[np.int64],
        rate: Floats | None,
        find: Callable[[], tuple[Priors, Posterior]],
    ) -> None:
        self.method, self.level, self.polls, self.changes = method, level, polls, changes
        self._find = find
        self.rate = self._posterior.mean if rate is None else rate

    def __len__(self) -> int:
        return self.polls.size

    @cached_property
    def _found(self) -> tuple[Priors, Posterior]:
        found = self._find()
        del self._find  # and the polls with it
        return found

    @property
    def _posterior(self) -> Posterior:
        return self._found[1]

    @property
    def prior(self) -> Priors:
        """What was known before the polls: one prior for all, or one for each class."""
        return self._found[0]

    @cached_property
    def low(self) -> Floats:
        """The rate is between ``low`` and ``high`` with a probability of ``level``, as much beyond each."""
        return np.fmin(self._posterior.low, self.rate)

    @cached_property
    def high(self) -> Floats:
        """See ``low``."""
        return np.fmax(self._posterior.high, self.rate)

    @property
    def law(self) -> UncertainPoisson:
        """The posterior for a plan: gamma laws with its means and variances, whatever the method."""
        return self._posterior.law


def estimate_rates(
    elements: ArrayLike,
    elapsed: ArrayLike,
    changed: ArrayLike,
    *,
    n: int | None = None,
    method: Method = "bayes",
    modified: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    prior: GammaPrior | Mapping[Hashable, GammaPrior] | None = None,
    level: float = 0.9,
    half_life: float = np.inf,
) -> Rates:
    """Estimate the change rates of many elements from their polls.

    Parameters
    ----------
    elements
        The number of the element of each poll. Polls may come in any order, but those of one element must be
        in the order of time for "stochastic-approximation" and with a ``half_life``.
    elapsed, changed, method, modified, level
        As in `estimate_rate`.
    n
        The number of elements; by default one more than the largest number in ``elements``.
    classes
        A label for each element; the prior of each class is learned separately.
    prior
        One for all, or one for each class. Without it, the prior of the population is learned from all polls
        (`GammaPrior.learned`). So an element with few polls borrows from the others, and one without any has
        the prior, where other methods than "bayes" answer nan.
    half_life
        With a finite one, "bayes" lets polls count half for each such time before the last poll of their
        element, so that the answer is about the rate of late. What is typical of the population is learned
        from all polls alike.

    Returns
    -------
    Rates
        It finds intervals and laws when they are asked for, as they take longer than most estimates.

    Examples
    --------
    >>> rates = estimate_rates([0, 1, 0, 1, 0], [1.0, 1.0, 2.0, 2.0, 1.0], [1, 0, 1, 0, 1], n=3)
    >>> rates.rate.round(2).tolist()
    [4.7, 0.19, 2.39]
    >>> bool((rates.low < rates.rate).all() and (rates.rate < rates.high).all())
    True
    """
    checked_method(method)
    level = checked_level(level)
    half_life = scalar("half_life", half_life, above=0, infinite=True)
    if half_life < np.inf and method != "bayes":
        raise InvalidInput(f"half_life needs the method 'bayes'; method is {method!r}")
    columns = PollColumns.of(elements, elapsed, changed, modified, n)
    labels, owners = classes_of(classes, columns.n)
    given = None if prior is None else priors_of(prior, labels)
    if given is None and columns.elapsed.size == 0:
        raise InvalidInput("elapsed must not be empty if there is no prior: one is learned from polls")
    data = columns.tally()

    def find() -> tuple[Priors, Posterior]:
        counted = data if half_life == np.inf else columns.faded(half_life)
        if given is None:
            learned = populations(data, owners, len(labels))
            priors, found = [one.prior for one in learned], _joined(counted, learned, level)
        else:
            priors, found = given, posterior(counted, given, owners, level)
        return (priors[0] if classes is None else dict(zip(labels, priors, strict=True))), found

    rate = None if method == "bayes" else estimated(method, columns, data)
    return Rates(method, level, data.polls, data.changes, rate, find)


def _joined(data: PollTally, learned: list[Population], level: float) -> Posterior:
    """Put the elements of all populations into one."""
    joined = Posterior(*np.empty((4, data.polls.size)))
    for population in learned:
        for whole, part in zip(joined, population.posterior(data, level), strict=True):
            whole[population.members] = part
    return joined
