"""What ideas of the papers would buy for the elements of a mirror, tried on paper: nothing is changed.

Each is a plan of the library for what is known of the elements, at the present budget unless one is tried.
`TrialChoice` says what is otherwise; `ideas` tries the usual ones, each with the line of mirror.toml that
switches it on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from math import nan

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats, Order
from unstale.errors import InvalidInput
from unstale.mirror.settings import ORDERS, POLICIES
from unstale.mirror.store.contract import Element
from unstale.planning import plan_within
from unstale.policy.patience import LONGEST_ROUNDS
from unstale.policy.terms import aim_of
from unstale.polling import mean_cost
from unstale.wording import show_size

from .trial_gains import (
    FALSE_SHARE,
    ComposedIdea,
    ComposedParts,
    HintsGiven,
    Unplanned,
    as_composed,
    gained_by_hints,
    gained_by_rhythms,
    lost_to_jitter,
)  # fmt: skip
from .what_if import PlannerInput, Policy

__all__ = ["MOST_TRIED", "Idea", "Ideas", "TrialChoice", "ideas", "parts_of", "room_of", "try_idea"]

MOST_TRIED = 5000
"""Elements by which ideas are tried; of more, a random sample."""
_MOST_REPLICAS = 100
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(48)
"""For integrals over the age of the freshest of several replicas."""


@dataclass(frozen=True)
class TrialChoice:
    """What is tried; what is None stays as it is."""

    budget: float | None = None
    """Times that of today."""
    objective: str | None = None
    policy: Policy | None = None
    order: Order | None = None
    replicas: int = 1
    """Mirrors of the same elements, each with this budget."""
    turns: bool = True
    """Whether they take turns, or poll each for itself."""
    space: float | None = None
    """Bytes for all copies."""
    elements: int | None = None
    """How many elements there are; those that come are like those that are there."""
    expiry: bool = True
    """Whether promises of servers count."""
    hints: float | None = None
    """Share of changes that come with a hint; of the hints, a tenth comes without a change."""
    jitter: float = 0.0
    """By which share intervals vary."""
    composed: tuple[str, ...] = ()
    """Patterns of the keys of elements from which something of weight 1 is made."""

    def __post_init__(self) -> None:
        """Check it."""
        if self.objective is not None:
            aim_of(self.objective)
        if self.policy is not None and self.policy not in POLICIES:
            raise InvalidInput(f"policy must be one of {', '.join(POLICIES)}; it is {self.policy!r}")
        if self.order is not None and self.order not in ORDERS:
            raise InvalidInput(f"order must be one of {', '.join(ORDERS)}; it is {self.order!r}")
        if not 1 <= self.replicas <= _MOST_REPLICAS:
            raise InvalidInput(f"replicas must be from 1 to {_MOST_REPLICAS}; it is {self.replicas!r}")
        if self.budget is not None and not 0 < self.budget < np.inf:
            raise InvalidInput(f"budget must be above 0; it is {self.budget!r} times that of today")
        if self.space is not None and not self.space > 0:
            raise InvalidInput(f"space must be above 0 bytes; it is {self.space!r}")
        if self.elements is not None and self.elements < 1:
            raise InvalidInput(f"elements must be at least 1; it is {self.elements!r}")
        self._check_moments()

    def _check_moments(self) -> None:
        """Check what says when polls come, not how often."""
        if self.hints is not None and not 0 <= self.hints <= 1:
            raise InvalidInput(f"hints must be a share of changes, from 0 to 1; it is {self.hints!r}")
        if not 0 <= self.jitter <= 1:
            raise InvalidInput(f"jitter must be from 0 to 1; it is {self.jitter!r}")
        if self.jitter and self.order not in {None, "fixed"}:
            raise InvalidInput(
                f"jitter is for fixed order, and random orders need none; order is {self.order!r}"
            )
        if self.hints is not None and (
            self.policy not in {None, "optimal"} or self.order not in {None, "fixed"}
        ):
            raise InvalidInput("hints are for the policy optimal in fixed order; leave out policy and order")

    @property
    def nothing(self) -> bool:
        """Whether all is as it is."""
        return self == TrialChoice()


@dataclass(frozen=True)
class Idea:
    """Something that could be otherwise, and what that buys on average."""

    name: str
    key: str
    """What mirror.toml says then; empty if it says nothing of it."""
    freshness: float
    """Share of copies that are fresh; what is dropped or missing is not."""
    age: float
    """Mean age of copies, in seconds; nan where copies are dropped."""
    kept: float = 1.0
    """Share of the elements that have room for a copy."""


@dataclass(frozen=True)
class Ideas:
    """What is bought as it is, by ideas, and by what was tried."""

    as_it_is: Idea
    ideas: tuple[Idea, ...]
    tried: Idea | None = None
    composed: tuple[ComposedIdea, ...] = ()
    """What is made from several elements, and what was tried of that kind."""


def try_idea(
    elements: PlannerInput, choice: TrialChoice, room: Floats, *, name: str = "as tried", key: str = ""
) -> Idea:
    """Return what a choice would buy.

    Parameters
    ----------
    elements
        What a plan starts from.
    choice
        What is tried.
    room
        The bytes of the copy of each element.
    name, key
        What it is called, and how it is switched on.
    """
    tried = _changed(elements, choice)
    if choice.hints is not None:
        tried = replace(tried, aim=aim_of("freshness"), parts=())
    often = tried.bought
    more = _more(tried, often, choice)
    if choice.space is not None and (space := tried.share * choice.space) < room.sum():
        # As the mirror does, by freshness: what is dropped is not fresh, and costs no polls.
        within = plan_within(
            tried.effective_law(tried.bought), tried.rate, room=room, space=space, weights=tried.weights,
            sizes=tried.sizes,
        )  # fmt: skip
        more *= float(tried.weights @ within.kept / tried.weights.sum())
        return Idea(name, key, _share((within.freshness + more) * tried.hope), nan, float(within.kept.mean()))
    if choice.replicas > 1 and not choice.turns:
        stale = _stale_each_for_itself(tried, often, choice.replicas)
        fresh = 1.0 - float(tried.weights @ stale / tried.weights.sum())
        return Idea(name, key, _share((fresh + more) * tried.hope), nan)
    fresh = (tried.freshness(often) - tried.lost_to_windows(often) + more) * tried.hope
    age = _age(tried, often) if choice.hints is None and not choice.jitter else nan
    return Idea(name, key, _share(fresh), age)


def _share(value: float) -> float:
    """Return a share: what is lost and gained of next to nothing may leave less than nothing."""
    return min(max(value, 0.0), 1.0)


def _more(elements: PlannerInput, often: Floats, choice: TrialChoice) -> float:
    """Return the freshness that hints add, and jitter takes."""
    found = 0.0
    if choice.hints is not None:
        recall = np.full(often.size, choice.hints)
        found += gained_by_hints(elements, HintsGiven(recall, np.full(often.size, FALSE_SHARE)))
    return found - lost_to_jitter(elements, often, choice.jitter) if choice.jitter else found


def _changed(elements: PlannerInput, choice: TrialChoice) -> PlannerInput:
    """Return elements as a choice has them, but for space and for replicas each for itself."""
    rate = elements.rate * (1.0 if choice.budget is None else choice.budget)
    if choice.elements is not None:
        rate *= elements.count / choice.elements
    if choice.turns:
        rate *= choice.replicas
    changed = replace(
        elements,
        rate=rate,
        policy=choice.policy or elements.policy,
        order=choice.order or elements.order,
        limits=elements.limits * (choice.replicas if choice.turns else 1),
    )
    if choice.objective is not None:
        changed = replace(changed, aim=aim_of(choice.objective), parts=())
    return changed if choice.expiry else replace(changed, promised=None)


def _age(elements: PlannerInput, often: Floats) -> float:
    """Return the mean age of copies: what is given up is polled all the same, after many rounds."""
    least = elements.rate / (LONGEST_ROUNDS * float(elements.sizes.sum()))
    law = elements.effective_law(often)
    ages = np.asarray(mean_cost("age", law, np.maximum(often, least), elements.order))
    return float(elements.weights @ ages / elements.weights.sum())


def _stale_each_for_itself(elements: PlannerInput, often: Floats, count: int) -> Floats:
    """Return how stale the freshest of several replicas is that poll at fixed intervals, independently.

    Its copy is older than a with probability (1 - a f)^count.

    Reference: Li, Cline & Loguinov (INFOCOM 2015), section VI-D; `unstale.renewal.replicas`.
    """
    law = elements.effective_law(often)
    shape, scale = (np.asarray(part)[:, None] for part in (law.shape, law.scale))
    u, du = 0.5 * (1.0 + _NODES), 0.5 * _NODE_WEIGHTS
    with np.errstate(divide="ignore", invalid="ignore"):
        age = u / often[:, None]
        changed = -np.expm1(-shape * np.log1p(scale * age))
    stale = np.where(np.isfinite(age), changed, 1.0) @ (du * count * (1.0 - u) ** (count - 1))
    return np.asarray(stale)


def ideas(
    elements: PlannerInput,
    room: Floats,
    space: float | None = None,
    choice: TrialChoice | None = None,
    *,
    beside: Unplanned | None = None,
    parts: Sequence[NDArray[np.intp]] = (),
) -> Ideas:
    """Return what the usual ideas would buy, and what a choice does, if there is one.

    Parameters
    ----------
    elements
        What a plan starts from, with what was dropped.
    room
        The bytes of the copy of each element.
    space
        What there is for all copies today; None: any number of bytes.
    choice
        What is tried beside the usual ideas.
    beside
        What is known beside laws: hints, hours, what is made from several elements.
    parts
        The elements of each pattern of ``choice.composed``.
    """
    beside = Unplanned() if beside is None else beside
    taken = float(room.sum()) / elements.share
    half = 0.5 * (taken if space is None else min(taken, space))
    best = TrialChoice(policy="optimal", space=space)
    usual = [
        ("the best for freshness", '[mirror] objective = "freshness"', replace(best, objective="freshness")),
        ("the best for age", '[mirror] objective = "age"', replace(best, objective="age")),
        ("few missed changes", '[mirror] objective = "missed-updates"',
         replace(best, objective="missed-updates")),
        ("all equally often", '[mirror] policy = "uniform"', TrialChoice(policy="uniform", space=space)),
        ("in proportion to changes", '[mirror] policy = "proportional"',
         TrialChoice(policy="proportional", space=space)),
        ("in random order", '[mirror] order = "random"', TrialChoice(order="random", space=space)),
        ("at purely random times", '[mirror] order = "purely-random"',
         TrialChoice(order="purely-random", space=space)),
        ("two replicas in turns", "[replicas] count = 2", TrialChoice(replicas=2, space=space)),
        ("two replicas, each for itself", "", TrialChoice(replicas=2, turns=False, space=space)),
        ("twice as many elements", "[[rule]] links = 2",
         TrialChoice(elements=2 * elements.count, space=space)),
    ]  # fmt: skip
    if elements.order == "fixed":
        usual.append(("intervals that vary by a tenth", '[[rule]] jitter = "10%"',
                      TrialChoice(jitter=0.1, space=space)))  # fmt: skip
    if beside.hints is None and elements.policy == "optimal" and elements.order == "fixed":
        usual.append(("hints of 80 % of the changes", '[hints] file = "hints.txt"',
                      TrialChoice(hints=0.8, space=space)))  # fmt: skip
    if taken > 0:
        words = show_size(half).replace(" ", "").replace(",", "")
        usual.append(("room for half of the bytes", f'[mirror] space = "{words}"', TrialChoice(space=half)))
    if space is not None and taken > space:
        usual.append(("room for all copies", "without [mirror] space", TrialChoice()))
    if elements.promised is not None:
        ignored = TrialChoice(expiry=False, space=space)
        usual.append(("promises of servers ignored", "[http] expiry = false", ignored))
    as_it_is = TrialChoice(space=space)
    choice = TrialChoice() if choice is None else choice
    now = try_idea(elements, as_it_is, room, name="as it is")
    own = replace(choice, composed=(), space=space if choice.space is None else choice.space)
    return Ideas(
        now,
        (
            *(
                try_idea(elements, one, room, name=name, key=key)
                for name, key, one in usual
                if not _as_it_is(elements, one)
            ),
            *_known_beside(elements, beside, now),
        ),
        try_idea(elements, own, room) if replace(choice, composed=()) != TrialChoice() else None,
        tuple(as_composed(_changed(elements, choice), [*beside.composed, *_tried_composed(choice, parts)])),
    )


def _known_beside(elements: PlannerInput, beside: Unplanned, now: Idea) -> list[Idea]:
    """Return what hints and hours that are known bring: plans, and what is as it is, leave them out."""
    found = []
    if beside.hints is not None and elements.policy == "optimal" and elements.order == "fixed":
        gain = gained_by_hints(replace(elements, aim=aim_of("freshness"), parts=()), beside.hints)
        found.append(Idea("with the hints that come", "by itself", now.freshness + gain * elements.hope, nan))
    if beside.rhythms:
        gain = gained_by_rhythms(elements, beside.rhythms)
        key = "by itself" if beside.timed else '[mirror] reserve = "1 day"'
        found.append(Idea("after the rush, by the hours that are known", key,
                          now.freshness + gain * elements.hope, nan))  # fmt: skip
    return found


def _tried_composed(choice: TrialChoice, parts: Sequence[NDArray[np.intp]]) -> list[ComposedParts]:
    """Return what is made from the elements of all patterns together."""
    if not choice.composed:
        return []
    for pattern, own in zip(choice.composed, parts, strict=True):
        if not own.size:
            raise InvalidInput(f"composed: {pattern!r} matches no element that can be fresh")
    return [ComposedParts("as tried", 1.0, np.unique(np.concatenate(parts)))]


def _as_it_is(elements: PlannerInput, choice: TrialChoice) -> bool:
    """Tell whether a choice of a policy, an order or an objective is that of the mirror."""
    if choice.objective is not None:
        own = aim_of(choice.objective).objective.name == elements.aim.objective.name
        return own and not elements.parts and elements.policy == "optimal"
    if choice.order is not None:
        return choice.order == elements.order
    return choice.policy is not None and choice.policy == elements.policy


def room_of(elements: PlannerInput, ids: NDArray[np.int64], sizes: Floats) -> Floats:
    """Return the bytes of the copies of elements, by those that have one; others are taken to be like them.

    Parameters
    ----------
    elements
        What a plan starts from.
    ids, sizes
        Elements that have copies, in order, and their bytes.
    """
    if not ids.size:
        return np.zeros(elements.ids.size)
    at = np.minimum(np.searchsorted(ids, elements.ids), ids.size - 1)
    known = ids[at] == elements.ids
    return np.where(known, sizes[at], sizes.mean())


def parts_of(
    patterns: Sequence[str], elements: PlannerInput, named: Mapping[int, Element]
) -> list[NDArray[np.intp]]:
    """Return which elements match each pattern of keys.

    Parameters
    ----------
    patterns
        As in ``[[composed]] of``.
    elements
        What a plan starts from.
    named
        Elements by number.
    """
    keys = [named[one].key for one in elements.ids.tolist()] if patterns else []
    return [np.flatnonzero([fnmatchcase(key, pattern) for key in keys]) for pattern in patterns]
