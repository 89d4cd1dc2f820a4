"""Change rates from polls, by the estimators of the literature and by Bayes.

A poll tells how long ago the last one was, and whether the element has changed since; how often, it cannot
tell. So counting changes (``naive``) finds too few of them, the more so the faster the element changes. With
n polls of which X saw a change, T the time in all and I = T/n:

    naive                       X / T
    bias-reduced                -log((n - X + .5) / (n + .5)) / I, for polls at regular intervals
    mle                         maximum likelihood for any intervals: the rate r where the sum over polls with
                                a change of t / (exp(r t) - 1) is the time of those without
    last-modified               ((X - 1) - X / (n log(1 - X/n))) / (time without change), where each poll
                                that sees a change also sees how long ago the last one was
    lln                         (n/T) X / (n + 1 - X), for polls at exponential intervals
    stochastic-approximation    y += k^-3/4 (changed (y + n/T) - y) after the k-th poll, likewise
    bayes                       the mean of the posterior law of the rate

References: Cho & Garcia-Molina, Estimating Frequency of Change (TOIT 2003); Avrachenkov, Patil & Thoppe,
Online Algorithms for Estimating Change Rates of Web Pages (2020).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from unstale.arguments import Floats, choice, scalar
from unstale.errors import InvalidInput
from unstale.estimation.checked_polls import PollColumns
from unstale.processes import UncertainPoisson

from .compiled.estimators import PollTally, approximations, likeliest
from .posterior import GammaPrior, posterior, vague_prior

Method = Literal["naive", "bias-reduced", "mle", "last-modified", "lln", "stochastic-approximation", "bayes"]
METHODS = ("naive", "bias-reduced", "mle", "last-modified", "lln", "stochastic-approximation", "bayes")


@dataclass(frozen=True)
class RateEstimate:
    """The change rate of one element, and how sure it is."""

    rate: float
    low: float
    high: float
    """The rate is between ``low`` and ``high`` with a probability of ``level``, as much beyond each."""
    level: float
    method: str
    polls: int
    changes: int
    law: UncertainPoisson
    """The posterior for a plan: a gamma law with its mean and variance, whatever the method."""


def estimate_rate(
    elapsed: ArrayLike,
    changed: ArrayLike,
    method: Method = "bayes",
    *,
    modified: ArrayLike | None = None,
    prior: GammaPrior | None = None,
    level: float = 0.9,
) -> RateEstimate:
    """Estimate the change rate of one element from its polls.

    "bayes" is the default and the mean of the posterior, as a plan needs that: polls are worth what they save
    on average over what the rate may be.

    If no poll saw a change, "bayes" answers a little more than 0, and all others 0. If all did, the polls
    give no upper limit; "bayes" has one in its prior, "mle" takes half of the shortest interval to have been
    without a change as well (which is "bias-reduced" if intervals are equal), and the others are finite by
    their form.

    Parameters
    ----------
    elapsed
        For each poll, the time since the poll before.
    changed
        Whether the poll saw a change.
    method
        One of `METHODS`.
    modified
        The age of the content as the poll saw it, nan where unknown. With it, "bayes", "mle" and
        "last-modified" learn more from each change.
    prior
        What is known of the rate before any poll, as from `GammaPrior.learned`. The default says little about
        rates up to 100 changes per poll interval.
    level
        Of the interval from ``low`` to ``high``.

    Returns
    -------
    RateEstimate
        ``low`` and ``high`` are quantiles of the posterior whatever the method, moved to include its rate.

    Examples
    --------
    >>> elapsed, changed = [1.0, 2.0, 1.0, 4.0], [False, True, False, True]
    >>> estimate = estimate_rate(elapsed, changed)
    >>> round(estimate.low, 2), round(estimate.rate, 2), round(estimate.high, 2)
    (0.13, 0.66, 1.59)
    >>> round(estimate_rate(elapsed, changed, "mle").rate, 2)
    0.47
    """
    checked_method(method)
    level = checked_level(level)
    columns = PollColumns.of(None, elapsed, changed, modified)
    if columns.elapsed.size == 0:
        raise InvalidInput("elapsed must not be empty; give at least one poll")
    if not (prior is None or isinstance(prior, GammaPrior)):
        raise InvalidInput(f"prior must be a GammaPrior; prior is {prior!r}")
    data = columns.tally()
    known = prior or vague_prior(float(data.total[0] / data.polls[0]))
    found = posterior(data, [known], np.zeros(1, np.int64), level)
    rate = float((found.mean if method == "bayes" else estimated(method, columns, data))[0])
    law = found.law
    return RateEstimate(
        rate=rate,
        low=min(float(found.low[0]), rate),
        high=max(float(found.high[0]), rate),
        level=level,
        method=method,
        polls=int(data.polls[0]),
        changes=int(data.changes[0]),
        law=UncertainPoisson(float(law.shape[0]), float(law.scale[0])),
    )


def checked_method(method: str) -> None:
    """Return the name of a method, checked."""
    choice("method", method, METHODS)


def checked_level(level: float) -> float:
    """Return the probability of an interval; posteriors are not followed further out than this needs."""
    return scalar("level", level, above=0, at_most=0.9999)


def estimated(method: str, columns: PollColumns, data: PollTally) -> Floats:
    """Return the rates of many elements by any method but Bayes; nan for those without polls."""
    if method == "mle":
        out = np.empty(columns.n)
        likeliest(data, out)
        return out
    n, changes, total = data.polls.astype(float), data.changes.astype(float), data.total
    with np.errstate(invalid="ignore"):  # nan without polls
        frequency = n / total
        naive = changes / total
    if method == "naive":
        return naive
    if method == "bias-reduced":
        return -np.log1p(-changes / (n + 0.5)) * frequency
    if method == "lln":
        return frequency * (changes / (n + 1.0 - changes))
    if method == "stochastic-approximation":
        out = np.where(n > 0, 0.0, np.nan)
        approximations(columns.elements, columns.changed, frequency, 0.75, out)
        return out
    return _last_modified(columns, data)


def _last_modified(columns: PollColumns, data: PollTally) -> Floats:
    ages = columns.ages if columns.ages.size else np.full(columns.changed.shape, np.nan)
    if (lost := columns.changed & np.isnan(ages)).any():
        i = int(np.argmax(lost))
        raise InvalidInput(
            f"modified must be known for each poll that saw a change if method is 'last-modified'; "
            f"modified[{i}] is not. The method 'bayes' takes polls with and without it"
        )
    n, changes, still = data.polls.astype(float), data.changes.astype(float), data.still
    share = changes / np.where(n > 0, n, np.nan)
    some = (changes > 0) & (changes < n)
    bias = np.where(some, -share / np.log1p(-np.where(some, share, 0.5)), 0.0)
    count = np.where(changes > 0, changes - 1.0 + bias, 0.0 * share)
    # polls that saw nothing but changes of this very moment have no time at all
    return count / np.where(still > 0, still, 0.5 * data.total / np.where(n > 0, n, np.nan))
