"""What jitter, hints and hours add to the freshness that a plan buys, and what composed elements are.

Plans know none of them: they say how often elements are polled on average, and these say what it brings that
polls come at other moments. Each is the library's own figure: `schedule.window_costs`, `plan_hinted`,
`plan_by_rhythm`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats
from unstale.estimation import HintedChanges, plan_hinted
from unstale.mirror.engine.load_policy import MirrorPolicy
from unstale.operational_time import OperationalClock
from unstale.planning import plan
from unstale.planning.by_rhythm import plan_by_rhythm
from unstale.policy.element_table import Places
from unstale.polling import mean_cost
from unstale.schedule.window_costs import jitter_loss

from .what_if import PlannerInput

__all__ = [
    "FALSE_SHARE",
    "ComposedIdea",
    "ComposedParts",
    "HintsGiven",
    "KnownRhythm",
    "Unplanned",
    "as_composed",
    "gained_by_hints",
    "gained_by_rhythms",
    "lost_to_jitter",
    "unplanned",
]  # fmt: skip

FALSE_SHARE = 0.1
"""Of hints that are tried, those that come without a change."""
_MOST_HINTED = 500
"""Elements for which it is worked out what hints bring; of more, every so many-th."""
_MOST_RHYTHMS, _MOST_TIMED = 4, 8
"""Rhythms for which it is worked out what they bring, those of the most elements; and elements of each."""
_PRICE_RELATIVE = 0.02
"""How close the prices of a plan by a rhythm are: the budget is spent whatever it is."""
_DAY = 86400.0
_TURNS = 30
"""Turns in which it is found how fresh the parts of composed elements are, and what that makes of weights."""
_LEAST_FRESHNESS = 0.05
"""As in `unstale.policy.composed`."""


@dataclass(frozen=True, eq=False)
class HintsGiven:
    """Hints that elements give; an entry for each."""

    recall: Floats
    """Share of changes that come with a hint."""
    false_share: Floats
    """Share of hints that come without a change."""


@dataclass(frozen=True, eq=False)
class KnownRhythm:
    """Hours of changes, and whose they are."""

    clock: OperationalClock
    which: NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class ComposedParts:
    """Something that is made from elements."""

    name: str
    weight: float
    which: NDArray[np.intp]
    """Its parts."""
    one_suffices: bool = False

    def fresh(self, fresh: Floats) -> float:
        """Return how fresh it is, by how fresh elements are, whose polls do not wait for each other."""
        own = fresh[self.which]
        return 1.0 - float(np.prod(1.0 - own)) if self.one_suffices else float(np.prod(own))


@dataclass(frozen=True)
class ComposedIdea:
    """How fresh something is that is made from several elements, and all elements with it."""

    name: str
    parts: int
    by_themselves: float
    """How fresh it is if its parts are polled as if nothing was made from them."""
    as_one: float
    """How fresh it is if it is planned as one."""
    others_by_themselves: float
    """How fresh elements are on average in the first case."""
    others: float
    """How fresh they are in the second."""


@dataclass(frozen=True, eq=False)
class Unplanned:
    """What is known of elements, and plans do not look at."""

    hints: HintsGiven | None = None
    rhythms: Sequence[KnownRhythm] = ()
    timed: bool = False
    """Whether polls are timed by rhythms as it is."""
    composed: Sequence[ComposedParts] = ()


def unplanned(policy: MirrorPolicy, elements: PlannerInput) -> Unplanned:
    """Return what is known of the elements of a plan, and it does not look at."""
    table, known = policy.table, policy.known
    order = np.argsort(table["id"], kind="stable")
    places = order[np.searchsorted(table["id"], elements.ids, sorter=order)]
    recall, factor = known.channels.reliability(table["channel"][places])
    composed = []
    for name, parts in policy.composed.parts().items():
        own = np.flatnonzero(np.isin(places, parts))
        if own.size == parts.size:  # of a sample, what has all its parts there
            one_suffices = name in policy.composed.one_suffices
            composed.append(ComposedParts(name, policy.composed.weights[name], own, one_suffices))
    return Unplanned(
        HintsGiven(recall, factor) if (recall > 0).any() else None,
        _rhythms(policy, places),
        known.timed,
        composed,
    )


def lost_to_jitter(elements: PlannerInput, often: Floats, jitter: float) -> float:
    """Return the freshness that is lost, on average, if intervals vary by so much."""
    law, able = elements.effective_law(often), often > 0
    lost = np.zeros(often.size)
    lost[able] = jitter_loss("freshness", law.take(np.flatnonzero(able)), often[able], jitter)
    return float(elements.weights @ lost / elements.weights.sum())


def gained_by_hints(elements: PlannerInput, hints: HintsGiven) -> float:
    """Return the freshness that polls by hints add to a plan for freshness, rates being as they seem."""
    often = elements.bought
    some = np.arange(0, often.size, max(-(-often.size // _MOST_HINTED), 1))
    rate = np.asarray(elements.effective_law(often).rate)[some]
    recall = np.minimum(hints.recall[some], 1.0)
    false = np.clip(hints.false_share[some], 0.0, 0.999)
    given = HintedChanges(rate, recall, recall * rate * false / (1.0 - false))
    weights, sizes = elements.weights[some], elements.sizes[some]
    budget = float(often[some] @ sizes)
    if not (budget > 0 and weights.sum() > 0):
        return 0.0
    with_them = plan_hinted(given, budget, weights=weights, sizes=sizes).freshness
    without = plan_hinted(HintedChanges(rate, 0.0, 0.0), budget, weights=weights, sizes=sizes).freshness
    return with_them - without


def _rhythms(policy: MirrorPolicy, places: Places) -> list[KnownRhythm]:
    """Return the hours of changes that are known: of classes, and of elements with clocks of their own.

    Elements that change once a day, each at its hour, are as one: in the long run the hour does not matter.
    """
    clocks = policy.known.clocks
    if clocks is None or not clocks.any:
        return []
    table, found = policy.table, []
    own = clocks.have_own(table, places)
    classes = table.learner.classes_of(places)
    for one in np.unique(classes[~own]).tolist():
        if bins := int(clocks.rhythms.bins[one]):
            clock = OperationalClock(clocks.rhythms.levels[one, :bins], bins / 24.0 * _DAY)
            found.append(KnownRhythm(clock, np.flatnonzero(~own & (classes == one))))
    by_period: dict[float, list[tuple[int, Floats]]] = {}
    for at in np.flatnonzero(own).tolist():
        clock_of_it = clocks.clockworks.clock(int(table["clockwork"][places[at]]))
        levels = np.asarray(clock_of_it.probabilities, float)
        aligned = np.roll(levels, -round(clock_of_it.phase * levels.size))
        by_period.setdefault(clock_of_it.period_days, []).append((at, aligned))
    for period, rows in by_period.items():
        levels = np.mean([aligned for _, aligned in rows], axis=0)
        found.append(KnownRhythm(OperationalClock(levels, period * _DAY), np.array([at for at, _ in rows])))
    return sorted(found, key=lambda one: -one.which.size)


def gained_by_rhythms(elements: PlannerInput, rhythms: Sequence[KnownRhythm]) -> float:
    """Return the freshness that polls after the rush add, on average: each rhythm keeps its polls."""
    often, gained = elements.bought, 0.0
    law = elements.effective_law(often)
    for one in rhythms[:_MOST_RHYTHMS]:
        order = one.which[np.argsort(np.asarray(law.rate)[one.which], kind="stable")]
        some = order[np.linspace(0, order.size - 1, min(_MOST_TIMED, order.size)).round().astype(int)]
        options = {"weights": elements.weights[some], "sizes": elements.sizes[some]}
        budget = float(often[some] @ elements.sizes[some])
        if not (budget > 0 and options["weights"].sum() > 0):
            continue
        timed = plan_by_rhythm(law.take(some), budget, one.clock, price_relative=_PRICE_RELATIVE, **options)
        gain = timed.freshness - plan(law.take(some), budget, **options).freshness
        gained += gain * float(elements.weights[one.which].sum())
    return gained / float(elements.weights.sum())


def as_composed(elements: PlannerInput, composed: Sequence[ComposedParts]) -> list[ComposedIdea]:
    """Return how fresh composed elements are if they are planned as such, and if not.

    What a part adds is the weight of the whole times how fresh the other parts are, so weights and how fresh
    parts are are found in turns, as `unstale.policy.composed` does while it polls.
    """
    before = _fresh(elements, elements.bought)
    weights, fresh = elements.weights, before
    for _ in range(_TURNS):
        extra = np.zeros(before.size)
        for one in composed:
            own = fresh[one.which]
            whole = np.log(np.maximum(1.0 - own if one.one_suffices else own, _LEAST_FRESHNESS))
            np.add.at(extra, one.which, one.weight * np.exp(whole.sum() - whole))
        tried = replace(elements, weights=weights + extra)
        fresh = 0.5 * (fresh + _fresh(tried, tried.bought))
    return [
        ComposedIdea(
            one.name, one.which.size, one.fresh(before * elements.hopes), one.fresh(fresh * elements.hopes),
            float(np.average(before, weights=weights)) * elements.hope,
            float(np.average(fresh, weights=weights)) * elements.hope,
        )
        for one in composed
    ]  # fmt: skip


def _fresh(elements: PlannerInput, often: Floats) -> Floats:
    """Return how fresh each element is on average."""
    law = elements.effective_law(often)
    with np.errstate(all="ignore"):
        return 1.0 - np.asarray(mean_cost("freshness", law, often, elements.order))
