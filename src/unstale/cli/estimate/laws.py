"""Which law the changes follow, and what that means for a plan."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from unstale.errors import InvalidInput
from unstale.estimation import Fit, Fits, PollTests, examine_polls, fit_polls
from unstale.tables import PollLog

Kind = Literal["unknown", "poisson", "bursts", "regular", "drift"]

_MOST_FITTED_RUNS = 2000
"""So many runs of polls are enough to tell laws apart, and take two seconds."""
_MOST_TESTED_POLLS = 1_000_000
"""So many polls are enough for a test."""
_MOST_CLASSES_APART = 8
"""With more classes than this, one law is fitted to all."""
_REJECTION_LEVEL = 0.001
"""Poisson is rejected only if polls are as odd as this: who looks often sees odd ones."""
_LEAST_PROBABILITY_OF_POISSON, _MOST_PROBABILITY_OF_OTHERS = 0.5, 0.05
"""Least probability of Poisson to say that it is, and most to say that it is not without a test."""
_UNKNOWN = "unstale plan takes for granted that they come at random (Poisson)."
HOW = {
    "poisson": "at random, as Poisson changes do",
    "bursts": "in bursts",
    "regular": "more regularly than at random",
}
"""How changes come, for each kind of law."""
CONSEQUENCES = {
    "poisson": "That is what unstale plan takes for granted.",
    "bursts": (
        "Rates count a burst within one interval between polls about once. unstale plan takes Poisson "
        "changes for granted: with a tight budget it gives up on fast elements that are worth polling "
        "between bursts, and may do worse than --policy uniform. In Python, unstale.plan takes the law "
        "itself."
    ),
    "regular": (
        "unstale plan takes Poisson changes for granted, which here costs little. In Python, unstale.plan "
        "takes the law itself."
    ),
    "drift": (
        "Rates may drift, or follow the time of day. --half-life 60d forgets what was long ago, and shows "
        "rates as they are of late."
    ),
}
"""What that means for a plan."""
_PARAMETERS = {"weibull": "shape", "gamma": "shape", "pareto": "shape", "lognormal": "log_sd"}
_NAMES = {"poisson": "Poisson", "weibull": "Weibull", "pareto": "Pareto"}


@dataclass(frozen=True, eq=False)
class WhichLaw:
    """What polls say about the law of changes."""

    tests: PollTests
    fits: Fits | None
    """None if there was nothing to fit."""

    @property
    def kind(self) -> Kind:
        """The finding."""
        if self.fits is None or self.tests.elements == 0:
            return "unknown"
        poisson, rejected = self.fits["poisson"].weight, self.tests.p_value <= _REJECTION_LEVEL
        if self.fits.best.name == "poisson":
            return (
                "drift" if rejected else "poisson" if poisson >= _LEAST_PROBABILITY_OF_POISSON else "unknown"
            )
        if not rejected and poisson > _MOST_PROBABILITY_OF_OTHERS:
            return "unknown"
        return "bursts" if _variation(self.fits.best) > 1 else "regular"

    @property
    def sentence(self) -> str:
        """The finding as a sentence, and what follows for a plan."""
        if self.fits is None or self.kind == "unknown":
            return f"Which law changes follow cannot be told from so few polls. {_UNKNOWN}"
        p, best = show_p(self.tests.p_value), self.fits.best
        if self.kind == "drift":
            said = f"Poisson is rejected ({p}), but no other law of gaps fits better."
        else:
            law = "Poisson fits best" if self.kind == "poisson" else f"a {show_law(best)} fits gaps best"
            sure = "over 99%" if best.weight > 0.99 else f"{100 * best.weight:.0f}%"
            whom = "it" if self.kind == "poisson" else "Poisson"
            verdict = "is rejected" if self.tests.p_value <= _REJECTION_LEVEL else "is not rejected"
            said = f"Changes come {HOW[self.kind]}: {law} ({sure} sure, among {len(self.fits)} laws), and "
            said += f"{whom} {verdict} ({p})."
        return f"{said} {CONSEQUENCES[self.kind]}"

    @property
    def short(self) -> str:
        """The same in a few words, for a table."""
        if self.fits is None or self.kind == "unknown":
            return "not known"
        return show_law(self.fits.best).replace(" law", "").replace(" with", ",")

    def as_json(self) -> dict[str, Any]:
        """Return the answer as ``--json`` prints it."""
        fits = () if self.fits is None else self.fits.fits
        return {
            "kind": self.kind,
            "name": fits[0].name if fits else None,
            "parameters": _parameters(fits[0]) if fits else {},
            "p_value_of_poisson": self.tests.p_value,
            "fits": [
                {"name": one.name, **_parameters(one), "criterion": one.criterion, "probability": one.weight}
                for one in fits
            ],
        }


def _parameters(one: Fit) -> dict[str, float]:
    name = _PARAMETERS.get(one.name)
    return {} if name is None else {name: float(getattr(one.law, name))}


def _variation(one: Fit) -> float:
    """Return the squared standard deviation of gaps over their squared mean: 1 if they are exponential."""
    return float(2.0 * one.law.rate * one.law.moment(1, inf) - 1.0)


def show_law(one: Fit) -> str:
    """Return a law in words."""
    name = f"{_NAMES.get(one.name, one.name)} law"
    parameters = [f"{key.replace('_', '-')} {value:.2g}" for key, value in _parameters(one).items()]
    return " with ".join([name, *parameters])


def show_p(p: float) -> str:
    """Return the probability of something as odd, as people write it.

    >>> show_p(0.3456), show_p(1e-40)
    ('p = 0.35', 'p < 1e-12')
    """
    return f"p = {p:.2g}" if p >= 1e-12 else "p < 1e-12"


def which_laws(log: PollLog) -> list[WhichLaw]:
    """Return the law of each class, or one for all if there are no classes or too many."""
    if log.classes is None or len(log.class_names) > _MOST_CLASSES_APART:
        return [_which(log, np.arange(len(log)))]
    own = log.classes[log.elements]
    return [_which(log, np.flatnonzero(own == at)) for at in range(len(log.class_names))]


def _which(log: PollLog, polls: NDArray[np.intp]) -> WhichLaw:
    """Examine some polls, which are sorted by element and time."""
    tested = _some(log, polls, polls.size / _MOST_TESTED_POLLS)
    tests = examine_polls(log.elapsed[tested], log.changed[tested], log.elements[tested])
    runs = log.changed[polls].sum() + (log.elements[polls][1:] != log.elements[polls][:-1]).sum() + 1
    fitted = _some(log, polls, runs / _MOST_FITTED_RUNS)
    try:
        fits = fit_polls(
            log.elapsed[fitted], log.changed[fitted], log.elements[fitted], most=2 * _MOST_FITTED_RUNS
        )
    except InvalidInput:  # all saw a change, or none
        fits = None
    return WhichLaw(tests, fits)


def _some(log: PollLog, polls: NDArray[np.intp], excess: float) -> NDArray[np.intp]:
    """Return the polls of every second, third ... element, if there are too many."""
    if excess <= 1:
        return polls
    own = log.elements[polls]
    place = np.cumsum(np.diff(own, prepend=own[0]) != 0)
    if place[-1] < excess:
        return polls
    return polls[place % int(np.ceil(excess)) == 0]
