"""What is known of elements: what polls of them cost and are worth, and how probably copies are fresh."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, isnan, nan, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from unstale import kernels, uncertain_kernels
from unstale.arguments import Floats, Order, order_code
from unstale.estimation.learning.common_error import CommonErrors
from unstale.estimation.learning.level_learner import LevelLearner
from unstale.estimation.learning.recalibration import Laws, Recalibration
from unstale.objectives import Fading, Objective
from unstale.polling import worth
from unstale.processes import UncertainPoisson

from .class_clocks import ClassClocks
from .compiled.jitter import spread, stretch
from .element_table import DROPPED, ElementTable, Places
from .expiries import Expiries
from .hint_channels import MOST_MOMENTS, Channels
from .limits import Limits
from .terms import Aim, aim_of

_SHORTEST_RESERVE_HOURS = 12.0
"""Hours of budget that must be kept if polls are to wait for the end of a rush: at constant speed, others
that are worth less would be made in the meantime."""
_MINUTE_HOURS = 1.0 / 60.0
"""Of the last poll, no more counts for jitter than the minute: the last digits of a clock are nobody's."""
_TIE_SHARE = 1e-3
"""Share of the worth without timing that is added: before and in a rush no poll is worth anything, but a
reserve that is full is spent all the same, and on those that have waited longest."""
STANDARD_ERRORS = 1.645
"""Standard errors of a 90 % interval."""
_SHOCKS_KNOWN = 10.0
"""From about so many shocks it is known how far predictions are off together."""
_BY_THE_CLOCK = (kernels.FRESHNESS, kernels.AGE)
"""Objectives whose polls are timed by rhythms; for others, rhythms say how fresh copies are."""


@dataclass(frozen=True)
class Share:
    """A share with a 90 % interval."""

    value: float
    low: float
    high: float


@dataclass
class Knowledge:
    """What is known of elements, and what follows for polls of them."""

    table: ElementTable
    """The elements, with what the learner knows of how they change."""
    limits: Limits
    """They say what polls cost."""
    aim: Aim
    """What polls are worth something for, unless the terms of an element say otherwise."""
    channels: Channels
    """How reliable hints are."""
    clocks: ClassClocks | None
    """At what hours classes change; None: nobody asks."""
    mean_size: float
    """The size of a poll of which nothing is known."""
    levels: LevelLearner
    """How much classes change as a whole."""
    errors: CommonErrors = field(default_factory=CommonErrors)
    """How far predictions for a class are off together."""
    recalibration: Recalibration = field(default_factory=Recalibration)
    """By how much classes change more than their laws say."""
    aims: dict[int, Aim] = field(default_factory=dict)
    """Aims of terms, by number, as far as they have been asked for."""
    boosts: dict[int, float] = field(default_factory=dict)
    """Factors to the weights of elements whose terms promise something, by number; see `Promises`."""
    hinted: dict[int, list[float]] = field(default_factory=dict)
    """Elements with hints that no poll has followed yet, by number, and when these came."""
    policy: str = "optimal"
    """How polls are shared: by the objective, or ``uniform``, or ``proportional`` to change rates."""
    order: Order = "fixed"
    """How polls of an element are spread over time."""

    def __post_init__(self) -> None:
        """Begin to learn how far sources keep what they promise."""
        self.expiries = Expiries(self.table)

    def sizes(self, places: Places) -> Floats:
        """Return what polls take, in bytes or whatever sizes are in, as far as is known."""
        size = self.table["size"][places]
        return np.where(np.isnan(size), self.mean_size, size)

    def worths(self, places: Places, since: Floats, at: float | None = None) -> Floats:
        """Return what polls are worth so long after the last ones, per cost.

        Parameters
        ----------
        places
            The elements.
        since
            The time since the last poll of each.
        at
            The moment at which it is worth that, if classes have a rhythm; by default so long after the last
            polls.
        """
        if not places.size:  # nor is anything compiled before it is needed
            return np.empty(0)
        terms = self.table["terms"][places]
        if not terms.any():
            return self._worths_for(self.aim, places, since, at)
        found = np.empty(places.size)
        for number in np.unique(terms).tolist():
            own = terms == number
            found[own] = self._worths_for(self.aim_of(number), places[own], since[own], at)
        return found

    def aim_of(self, number: int) -> Aim:
        """Return what elements of such terms are polled for; what is promised is freshness."""
        if number not in self.aims:
            said = self.table.terms[number]
            promised = not isnan(said.target)
            text = "freshness" if promised else said.objective
            self.aims[number] = aim_of(text) if text else self.aim
        return self.aims[number]

    def _worths_for(self, aim: Aim, places: Places, since: Floats, at: float | None) -> Floats:
        """Return what polls of elements that have one aim are worth."""
        if self.policy != "optimal":
            return self._even_worths(places, since)
        table, objective = self.table, aim.objective
        kind = objective.kernel
        elapsed, moments = self._operational(places, since, at, timed=self.timed)
        shape, time, hope = table.learner.gammas(elapsed, places)
        if self.levels.any:  # in time as it goes by at the present level
            level = self.level(places)
            elapsed, time = elapsed / level, time / level
        unit = aim.factor * self._units(places)
        if kind is None:
            values = np.asarray(worth(objective, UncertainPoisson(shape, 1.0 / time), elapsed, self.order))
        else:
            with np.errstate(all="ignore"):  # as in `unstale.worth`
                values = time * uncertain_kernels.worth(kind, order_code(self.order), shape, elapsed / time)
        if kind == kernels.AGE:
            values *= time
        values = unit * self.expiries.worths(kind, places, since, elapsed, (shape, time), values)
        if kind in _BY_THE_CLOCK and moments is not None and self.clocks is not None:
            classes = table.learner.classes_of(places)
            by_clock = self.clocks.worths(kind, classes, (shape, time), moments - since, moments)
            by_clock *= self.expiries.share(places, since)
            values = np.where(np.isnan(by_clock), values, unit * by_clock + _TIE_SHARE * values)
            if (own := np.flatnonzero(self.clocks.have_own(table, places))).size:
                last, clockworks = moments[own] - since[own], self.clocks.clockworks
                by_clock = self.clocks.own_worths(kind, table, places[own], last, moments[own])
                by_clock *= self.expiries.share(places[own], since[own])
                rows = table["clockwork"][places[own]]
                believed, overdue = (of(rows) for of in (clockworks.credence, clockworks.overdue))
                rest = (1.0 - believed * (1.0 - overdue)) * hope[own] + _TIE_SHARE
                values[own] = believed * unit[own] * by_clock + rest * values[own]
                hope[own] = 1.0
        hinted = self._hinted_worths(objective, places, since, elapsed, (shape, time))
        if isinstance(objective, Fading):  # also what changes all the time fades no faster
            return values
        return hope * np.where(np.isnan(hinted), values, unit * hinted)

    def _even_worths(self, places: Places, since: Floats) -> Floats:
        """Return what makes polls even: the time since the last ones; or the changes expected since then."""
        if self.policy == "uniform":
            return since.copy()
        shape, time, _ = self.table.learner.gammas(np.zeros(places.size), places)
        return np.asarray(since * self.level(places) * shape / time)

    def growth(self, places: Places) -> Floats:
        """Return the powers of time with which worths grow at most; inf where they may jump."""
        terms = self.table["terms"][places]
        found = np.full(places.size, _growth(self.aim.objective))
        found[self.expiries.believed(places)] = inf  # worths grow faster once promises are over
        for number in np.unique(terms[terms > 0]).tolist() if terms.any() else ():
            found[(terms == number) & np.isfinite(found)] = _growth(self.aim_of(number).objective)
        return found

    def _hinted_worths(
        self, objective: Objective, places: Places, since: Floats, elapsed: Floats, law: tuple[Floats, Floats]
    ) -> Floats:
        """Return what polls of elements that have a channel of hints are worth; nan for others.

        Parameters
        ----------
        objective
            What they are worth it for.
        places
            The elements.
        since, elapsed
            The time since the last poll of each, and the same in operational time.
        law
            The laws of rates, shapes and times, but for hints.
        """
        table, found = self.table, np.full(places.size, np.nan)
        told = np.flatnonzero(table["channel"][places] > 0)
        if told.size:
            which = places[told]
            part = elapsed[told] / np.maximum(since[told], 1e-300)
            channel, hints = table["channel"][which], table["hints"][which]
            shape, time = self.channels.law(channel, law[0][told], law[1][told], elapsed[told], hints)
            worths = self.channels.worths(
                objective, channel, shape / time, elapsed[told], hints,
                self._moments(which) * part[:, None],
            )  # fmt: skip
            if worths is not None:
                found[told] = worths
        return found

    def _moments(self, places: Places) -> Floats:
        """Return how long after the last polls hints came: a row for each element, nan without any."""
        table = self.table
        last = np.where(np.isnan(table["last"][places]), table["added"][places], table["last"][places])
        rows = np.full((places.size, MOST_MOMENTS), np.nan)
        if self.hinted:
            for k, element in enumerate(table["id"][places].tolist()):
                if moments := self.hinted.get(element):
                    rows[k, : len(moments)] = moments
        return np.maximum(rows - last[:, None], 0.0)

    def worths_in_step(self, places: Places, since: Floats, now: float, end: float) -> Floats:
        """Return what polls are worth at the end of a step; with a rhythm at its start, not to be early.

        Parameters
        ----------
        places
            The elements.
        since
            The time since the last poll of each, at the end of the step.
        now, end
            The step.
        """
        if self.clocks is None or not self.timed:
            return self.worths(places, self.stretched(places, since))
        values = np.empty(places.size)
        timed = self.clocks.have_rhythm(self.table, places)
        for which, moment in ((timed, now), (~timed, end)):
            gone = np.maximum(since[which] - (end - moment), 0.0)
            values[which] = self.worths(places[which], self.stretched(places[which], gone), moment)
        return values

    def stretched(self, places: Places, since: Floats) -> Floats:
        """Return intervals stretched by jitter: by a factor drawn for each element and its last poll."""
        if self.order != "fixed":
            found = np.empty(since.size)
            numbers, last = self.table["id"][places], self.table["last"][places]
            spread(since, order_code(self.order), numbers, last, found)
            return found
        jitter, last = self.table["jitter"][places], self.table["last"][places]
        if self.can_wait and self.clocks is not None:
            varied = self.clocks.jitter(self.table, places)
            if varied is not None:
                jitter = np.maximum(jitter, varied).astype(np.float32)
                last = np.rint(last / (_MINUTE_HOURS * self.clocks.rhythms.hour))
        if not jitter.any():
            return since
        found = np.empty(since.size)
        stretch(since, jitter, self.table["id"][places], last, found)
        return found

    @property
    def timed(self) -> bool:
        """Whether polls are timed by rhythms or readers: there are some, and the budget can wait for them."""
        return self.can_wait and self.clocks is not None and self.clocks.time_polls

    @property
    def can_wait(self) -> bool:
        """Whether polls could be timed, if there were a rhythm."""
        if self.clocks is None or self.aim.objective.kernel not in _BY_THE_CLOCK:
            return False
        if (self.policy, self.order) != ("optimal", "fixed"):
            return False
        return self.limits.reserve >= _SHORTEST_RESERVE_HOURS * self.clocks.rhythms.hour

    def _units(self, places: Places) -> Floats:
        """Return how much elements matter, per cost of a poll."""
        unit = self.table["weight"][places].astype(np.float64) * self.table["reads"][places]
        unit += self.table["composed"][places]
        if self.boosts and (terms := self.table["terms"][places]).any():
            for number, factor in self.boosts.items():
                unit[terms == number] *= factor
        return np.asarray(unit / self.limits.costs(self.sizes(places)), np.float64)

    def level(self, places: Places) -> Floats:
        """Return how much more than at level 1 the classes of elements change now, and from now on."""
        return self.levels.now[self.table.learner.classes_of(places)]

    def by_clock(self, classes: NDArray[np.intp], moments: Floats) -> Floats:
        """Return the operational time of moments by the rhythms of classes."""
        if self.clocks is None or not self.clocks.any:
            return moments
        return self.clocks.elapsed(classes, np.zeros(moments.size), moments)

    def _operational(
        self, places: Places, since: Floats, at: float | None = None, *, timed: bool = True
    ) -> tuple[Floats, Floats | None]:
        """Return the operational time since the last polls, and up to when if polls are timed."""
        elapsed, moments = self._by_clocks(places, since, at, timed=timed)
        return elapsed * self.expiries.share(places, since), moments

    def _by_clocks(
        self, places: Places, since: Floats, at: float | None = None, *, timed: bool = True
    ) -> tuple[Floats, Floats | None]:
        """Return the same by the rhythms and the levels of classes alone."""
        timed = timed and self.clocks is not None and self.clocks.time_polls
        if not timed and not self.levels.any:
            return since, None
        last, added = self.table["last"][places], self.table["added"][places]
        moments = np.where(np.isnan(last), added, last) + since if at is None else np.full(since.size, at)
        classes = self.table.learner.classes_of(places)
        start, end = moments - since, moments
        if timed or self.levels.any:
            start, end = self.by_clock(classes, start), self.by_clock(classes, end)
        if self.levels.any:
            return self.levels.elapsed(classes, start, end), moments if timed else None
        return end - start, moments

    def operational_since(self, places: Places, now: float) -> Floats:
        """Return the operational time since the last poll that saw something, or since it was added."""
        return self._operational(places, self.table.since(places, now), now)[0]

    def outlook(self, places: Places, now: float) -> tuple[UncertainPoisson, Floats]:
        """Return how elements change from now on, and the probability that not all the time."""
        law, hope = self.table.learner.outlook(self.operational_since(places, now), places)
        return UncertainPoisson(law.shape, np.asarray(law.scale) * self.level(places)), hope

    def fresh(self, places: Places, now: float, *, corrected: bool = True) -> Floats:
        """Return the probabilities that copies are fresh; 0 where there is none.

        They are corrected by what polls saw, or else what the laws of elements say.
        """
        table = self.table
        if np.isnan(table["last"][places]).all():
            return np.zeros(places.size)
        since = self.operational_since(places, now)
        shape, time, hope = table.learner.gammas(since, places)
        told = table["channel"][places]
        fresh = hope * self.channels.fresh(told, shape, time, since, table["hints"][places])
        if corrected:
            fresh = np.where(told > 0, fresh, fresh ** self._corrections(places, shape, time))
        if self.clocks is not None and (own := self.clocks.have_own(table, places)).any():
            end = np.full(np.count_nonzero(own), now)
            by_clock = self.clocks.own_fresh(table, places[own], end - table.since(places[own], now), end)
            by_clock = 1.0 - (1.0 - by_clock) * self.expiries.share(
                places[own], table.since(places[own], now)
            )
            fresh[own] += self.clocks.clockworks.credence(table["clockwork"][places[own]]) * (
                by_clock - fresh[own]
            )
        return np.where(np.isnan(table["last"][places]) | (table["state"][places] == DROPPED), 0.0, fresh)

    def share(self, places: Places, weights: Floats, now: float) -> Share:
        """Return the weighted share of elements whose copies are fresh, as far as is known.

        The interval allows for chance, element by element, for what changes elements of a class together, for
        how far what is said is known to be right on the whole, and for how little is known of a class in the
        beginning.
        """
        total = float(weights.sum())
        if not total > 0:
            return Share(nan, nan, nan)
        fresh = self.fresh(places, now)
        value = float(fresh @ weights) / total
        learner = self.table.learner
        since = self.operational_since(places, now)
        laws = Laws(*learner.gammas(since, places))
        classes, stirred = learner.classes_of(places), learner.stirred(places)
        by = weights * fresh * self._corrections(places, laws.shape, laws.time)
        slopes = by * laws.shape * learner.round / (laws.time + since)
        shocks = self.errors.variance(classes, since / learner.round, slopes)
        by_class = np.bincount(classes, by * learner.prior_slopes(since, places))
        others = float((weights**2) @ (fresh * (1.0 - fresh)))
        priors = learner.prior_variances[: by_class.size] * self.recalibration.unknown(by_class.size)
        others += float(by_class**2 @ priors)
        hazards = by * laws.shape * np.log1p(since / laws.time)
        others += self.recalibration.variance(learner.round, classes, laws, stirred, hazards)
        error = _errors_of_interval(shocks, others) * sqrt(shocks + others) / total
        return Share(value, max(value - error, 0.0), min(value + error, 1.0))

    def _corrections(self, places: Places, shape: Floats, time: Floats) -> Floats:
        """Return by how much more elements change than these laws of theirs say, as polls have shown."""
        learner = self.table.learner
        classes, stirred = learner.classes_of(places), learner.stirred(places)
        return self.recalibration.factors(learner.round, classes, shape, time, stirred)

    def next_polls(self, places: Places, since: Floats, price: float, horizon: float) -> Floats:
        """Return when polls come to be worth a price, by the clocks of classes; nan where there is none.

        Parameters
        ----------
        places
            The elements.
        since
            From when on to look.
        price
            What polls must be worth, per cost.
        horizon
            How far ahead to look; its end stands for later.
        """
        kind = self.aim.objective.kernel
        if kind is None or self.clocks is None or not self.timed or not places.size:
            return np.full(places.size, np.nan)
        other = (self.table["terms"][places] > 0) | self.expiries.believed(places)
        if other.any():  # they are looked at when they may be due
            found = np.full(places.size, np.nan)
            found[~other] = self.next_polls(places[~other], since[~other], price, horizon)
            return found
        table = self.table
        last = np.where(np.isnan(table["last"][places]), table["added"][places], table["last"][places])
        classes = table.learner.classes_of(places)
        start, end = self.by_clock(classes, last), self.by_clock(classes, since)
        shape, time, hope = table.learner.gammas(self.levels.elapsed(classes, start, end), places)
        time /= self.level(places)
        with np.errstate(divide="ignore", invalid="ignore"):
            unit = self.aim.factor * self._units(places)
            prices = np.maximum(np.nan_to_num(price / (hope * unit), nan=inf), 1e-300)
        found = self.clocks.next_polls(
            kind, classes, (shape, time), last, since=since, prices=prices, horizon=horizon
        )
        if (own := np.flatnonzero(self.clocks.have_own(table, places))).size:
            with np.errstate(divide="ignore", invalid="ignore"):
                believed = self.clocks.clockworks.credence(table["clockwork"][places[own]])
                own_price = price / (believed * unit[own])
            prices = np.maximum(np.nan_to_num(own_price, nan=inf), 1e-300)
            found[own] = self.clocks.own_next_polls(
                kind, table, places[own], last[own], since=since[own], prices=prices, horizon=horizon
            )
        return found


def _errors_of_interval(shocks: float, others: float) -> float:
    """Return the standard errors of a 90 % interval, of which one part is known from a few shocks only.

    That is Student's law, with the degrees of freedom of Welch and Satterthwaite.
    """
    if not shocks > 0:
        return STANDARD_ERRORS
    freedom = _SHOCKS_KNOWN * ((shocks + others) / shocks) ** 2
    return float(stdtrit(min(freedom, 1e6), 0.95))


def _growth(objective: Objective) -> float:
    """Return the power of time with which the worth grows at most; inf if it may jump.

    At constant rates the worth of a lag penalty w grows with w and twice more with time.
    """
    if objective.kernel in {kernels.FRESHNESS, kernels.HARMONIC} or isinstance(objective, Fading):
        return 2.0
    penalty = getattr(objective, "penalty", None)
    if getattr(penalty, "threshold", None) is not None:
        return inf
    exponent = getattr(penalty, "exponent", None)
    return 3.0 if exponent is None else 2.0 + exponent
