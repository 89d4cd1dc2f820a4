"""How cells do, and how they do together: each is looked at by itself, and what it says is added up."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import isfinite, nan, sqrt

import numpy as np

from unstale.arguments import Floats
from unstale.mirror.engine.load_policy import load_sample
from unstale.mirror.mirror import Mirror
from unstale.mirror.reports.audit import Audit
from unstale.mirror.reports.first_copies import FirstCopies, InReserve
from unstale.mirror.reports.status import RoomTaken, Status, TargetFreshness, status
from unstale.mirror.settings import Settings
from unstale.policy.element_table import AWAY
from unstale.policy.knowledge import Share

__all__ = ["joined_audit", "joined_status", "look_at"]

_MOST_GROUPS = 10_000
"""Groups that are told, those with most elements: all of them could be as many as there are elements."""
_MOST_NEGLECTED = 20
_MOST_TROUBLE = 100


def look_at(mirror: Mirror) -> tuple[Status, float]:
    """Return how a cell does, and the weight of all that is in it."""
    with mirror.store.begin() as t:
        policy, state = load_sample(mirror.settings, t)
        found = status(policy, state, t, mirror.clock.now(), mirror.settings)
    table = policy.table
    weights = table["weight"].astype(float) * table["reads"] * table.present
    count = int(np.count_nonzero(table.present))
    weight = float(weights.sum()) * (count + policy.others) / max(count, 1)
    return replace(found, groups=found.groups[:_MOST_GROUPS]), weight


def joined_status(
    looks: Sequence[tuple[int, Status, float]], settings: Settings, now: float, runners: int
) -> Status:
    """Return how cells do together; ``looks``: the number of each, how it does, and its weight."""
    all_of = [one for _, one, _ in looks]
    weights = np.array([weight for _, _, weight in looks])

    def mean(value: Callable[[Status], float]) -> float:
        values = np.array([value(one) for one in all_of])
        known = np.isfinite(values) & (weights > 0)
        return float(np.average(values[known], weights=weights[known])) if known.any() else nan

    def add(counts: Callable[[Status], Mapping[str, int]]) -> dict[str, int]:
        return dict(sum((Counter(counts(one)) for one in all_of), Counter[str]()))

    polls = add(lambda one: one.polls)
    span = max(one.span for one in all_of)
    fresh = mean(lambda one: one.freshness.value)
    first = [one.first_copies for one in all_of if one.first_copies is not None]
    groups = (group for one in all_of for group in one.groups)
    trouble = [f"cell {number}: {line}" for number, one, _ in looks for line in one.trouble]
    return Status(
        now=now,
        running=runners > 0,
        workers=runners,
        elements=add(lambda one: one.elements),
        freshness=Share(fresh, *_interval(fresh, all_of, weights)),
        predicted=mean(lambda one: one.predicted),
        age=mean(lambda one: one.age),
        price=mean(lambda one: one.price if one.price > 0 else nan),
        budget=settings.budget,
        byte_budget=settings.byte_budget,
        span=span,
        spent=sum(polls.values()) / span,
        traffic=sum(one.traffic * one.span for one in all_of) / span,
        polls=polls,
        changes=sum(one.changes for one in all_of),
        overdue=sum(one.overdue for one in all_of),
        groups=heapq.nsmallest(_MOST_GROUPS, groups, key=lambda one: (-one.elements, one.name)),
        neglected=heapq.nlargest(
            _MOST_NEGLECTED, (one for each in all_of for one in each.neglected), key=lambda one: one.since
        ),
        trouble=trouble[:_MOST_TROUBLE],
        reserve=_reserve([one.reserve for one in all_of]),
        starting=runners > 0 and any(one.starting for one in all_of),
        first_copies=FirstCopies(
            done=sum(one.elements.get("ok", 0) for one in all_of),
            total=sum(_there(one) for one in all_of),
            seconds=max(one.seconds for one in first),
        )
        if first
        else None,
        targets=_targets([one for each in all_of for one in each.targets]),
        room=RoomTaken(
            settings.space,
            sum(one.room.taken for one in all_of if one.room is not None),
            sum(one.room.dropped for one in all_of if one.room is not None),
        )
        if settings.space is not None
        else None,
    )


def joined_audit(found: Sequence[tuple[Audit, float]], now: float) -> Audit:
    """Return what audits of cells say together; each with the weight of its cell."""
    known = [(one, weight) for one, weight in found if one.sample]
    heavy = sum(weight for _, weight in known)
    failed, gone = sum(one.failed for one, _ in found), sum(one.gone for one, _ in found)
    if not heavy > 0:
        return Audit(now, 0, nan, nan, 0.0, 1.0, agrees=True, failed=failed)
    predicted = sum(weight * one.predicted for one, weight in known) / heavy
    true = sum(weight * one.true for one, weight in known) / heavy
    below = sqrt(sum((weight * (one.true - one.low)) ** 2 for one, weight in known)) / heavy
    above = sqrt(sum((weight * (one.high - one.true)) ** 2 for one, weight in known)) / heavy
    low, high = max(true - below, 0.0), min(true + above, 1.0)
    count = sum(one.sample for one, _ in known)
    return Audit(now, count, predicted, true, low, high, low <= predicted <= high, failed, gone)


def _there(one: Status) -> int:
    return sum(count for state, count in one.elements.items() if state not in {*AWAY, "gone"})


def _interval(fresh: float, all_of: Sequence[Status], weights: Floats) -> tuple[float, float]:
    """Return the interval of a mean: errors of cells have nothing to do with one another."""
    if not isfinite(fresh):
        return nan, nan
    known = [
        (one, w) for one, w in zip(all_of, weights, strict=True) if w > 0 and isfinite(one.freshness.value)
    ]
    heavy = sum(w for _, w in known)
    below = sqrt(sum((w * (one.freshness.value - one.freshness.low)) ** 2 for one, w in known)) / heavy
    above = sqrt(sum((w * (one.freshness.high - one.freshness.value)) ** 2 for one, w in known)) / heavy
    return max(fresh - below, 0.0), min(fresh + above, 1.0)


def _reserve(parts: Sequence[InReserve | None]) -> InReserve | None:
    """Return what all have in reserve."""
    known = [one for one in parts if one is not None]
    if not known:
        return None
    polls, traffic = sum(one.polls for one in known), sum(one.traffic for one in known)
    amounts = np.array([one.polls if isfinite(one.polls) else one.traffic for one in known])
    full = np.array(
        [amount / one.level if one.level > 0 else 0.0 for amount, one in zip(amounts, known, strict=True)]
    )
    level = (
        float(amounts.sum() / full.sum()) if full.sum() > 0 else float(np.mean([one.level for one in known]))
    )
    return InReserve(max(one.span for one in known), min(level, 1.0), polls, traffic)


def _targets(found: Sequence[TargetFreshness]) -> list[TargetFreshness]:
    """Return what rules promise, over all cells."""
    by_rule: dict[tuple[str, float], list[TargetFreshness]] = {}
    for one in found:
        by_rule.setdefault((one.rule, one.target), []).append(one)
    joined = []
    for (rule, target), some in by_rule.items():
        count = sum(one.elements for one in some)
        now, later = (
            sum(one.elements * value for one, value in zip(some, values, strict=True)) / max(count, 1)
            for values in ([one.freshness for one in some], [one.expected for one in some])
        )
        joined.append(
            TargetFreshness(
                rule, count, target, now, later, sum(one.gets for one in some),
                sum(one.needs for one in some), all(one.kept for one in some),
            )
        )  # fmt: skip
    return joined
