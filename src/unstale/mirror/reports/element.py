"""One element in pictures: its polls and versions, what a poll is worth, and by what law it changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np

from unstale.arguments import Floats
from unstale.errors import InvalidInput
from unstale.estimation import fit_polls
from unstale.mirror.engine.policy import MirrorPolicy, load_policy
from unstale.mirror.settings import Settings
from unstale.mirror.store.contract import Element, PollRecord, Transaction, Version

from .status import Explanation, explanation_of

__all__ = ["Portrait", "portrait"]

_DAY = 86400.0
_POLLS, _VERSIONS, _POINTS = 500, 200, 121
_FURTHER, _SHORTEST = 2.5, 5.0
"""Worths are told for so many times the wait for the next poll, and for so many seconds at least."""
_CHANGES = 20
"""Changes, at least, from which a law is told."""


@dataclass(frozen=True, eq=False)
class Portrait:
    """What there is to be shown of an element."""

    explanation: Explanation
    polls: Sequence[PollRecord]
    """The latest first."""
    versions: Sequence[Version]
    """The latest first."""
    worths: tuple[Floats, Floats]
    """Moments from now on, and what a poll would be worth; none if that cannot be told."""
    price: float
    law: str | None
    """Name of the law that fits its changes best; None if that cannot be told."""
    why: str
    """Why it cannot, or how sure that is."""
    reads_per_day: float
    """Of its copy, in the last 30 days or since it was added."""


def portrait(settings: Settings, t: Transaction, element: Element, now: float) -> Portrait:
    """Return what there is to be shown of an element."""
    policy, _ = load_policy(settings, t, element.id)
    explanation = explanation_of(policy, t, element, now)
    polls = t.polls(element.id, _POLLS)
    law, why = _law(polls)
    days = min(max((now - element.added) / _DAY, 1.0), 30.0)
    return Portrait(
        explanation=explanation,
        polls=polls,
        versions=t.versions(element=element.id, limit=_VERSIONS, latest_first=True),
        worths=_worths(policy, explanation, now),
        price=policy.price,
        law=law,
        why=why,
        reads_per_day=explanation.reads / days,
    )


def _worths(policy: MirrorPolicy, explanation: Explanation, now: float) -> tuple[Floats, Floats]:
    """Return what a poll is worth over the coming time, past the next poll."""
    table, number = policy.table, explanation.element.id
    if not table.has([number])[0] or np.isnan(explanation.element.last):
        return np.empty(0), np.empty(0)
    held = now - explanation.element.last
    span = max(_FURTHER * (explanation.next_poll - now), 0.5 * held, _SHORTEST)
    span = min(span, 60 * _DAY) if isfinite(span) else 7 * _DAY
    times = now + np.linspace(0.0, span, _POINTS)
    place = int(table.places([number])[0])
    since = np.maximum(times - explanation.element.last, 0.0)
    return times, policy.worths(np.full(_POINTS, place), since)


def _law(polls: Sequence[PollRecord]) -> tuple[str | None, str]:
    """Return the law that fits best what polls saw, and how sure that is; or None, and why."""
    saw = [one for one in reversed(polls) if one.outcome in {"changed", "unchanged"} and one.elapsed > 0]
    changed = sum(one.outcome == "changed" for one in saw)
    if changed < _CHANGES:
        return None, f"{changed} changes have been seen; from {_CHANGES} on a law can be told"
    try:
        found = fit_polls([one.elapsed for one in saw], [one.outcome == "changed" for one in saw])
    except InvalidInput:  # every poll saw a change
        return None, "every poll saw a change, so nothing is known of the time between changes"
    return found.best.name, f"{100 * found.best.weight:.0f} % sure, among {len(found)} laws"
