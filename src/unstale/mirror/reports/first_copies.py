"""How far a mirror has got with its first copies, and how much longer that takes; and what is in reserve."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nan

import numpy as np

from unstale.mirror.engine.load_policy import MirrorPolicy
from unstale.policy.element_table import NEW


@dataclass(frozen=True)
class FirstCopies:
    """Elements that have been polled for the first time, of all."""

    done: int
    total: int
    seconds: float
    """Until all have been, about; inf if nobody can tell."""


@dataclass(frozen=True)
class InReserve:
    """What a budget has in reserve."""

    span: float
    """Seconds of which unspent budget is kept, at most."""
    level: float
    """Share of it that is there: 1 if it is full, 0 if it is empty."""
    polls: float
    """That it pays for, beyond the budget; nan without a budget of polls."""
    traffic: float
    """Bytes that it pays for; nan without a budget of bytes."""


def first_copies(
    policy: MirrorPolicy, now: float, of_all: tuple[int, int] | None = None
) -> FirstCopies | None:
    """Return how far it is with first copies; None if no element waits for its first poll.

    The time is that of the slowest group, or that of the budget and its reserve if that is longer.
    ``of_all``: how many wait and how many there are, if the policy has read only a sample of them.
    """
    table, limits = policy.table, policy.limits
    places = np.flatnonzero(table.wanted & (table["state"] == NEW))
    waiting, total = (int(places.size), table.wanted_count) if of_all is None else of_all
    if not waiting:
        return None
    each = waiting / max(places.size, 1)
    numbers, counts = np.unique(table["group"][places], return_counts=True)
    seconds = 0.0
    for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
        group = limits.group(number)
        wait = max(group.paid - now, group.blocked - now, 0.0)
        seconds = max(seconds, wait + (each * count - 1.0) / group.fastest)
    rate = limits.rate(policy.known.mean_size)
    if rate > 0:
        beyond = waiting / rate - max(limits.left(now, now), 0.0)
        share = 0.5 if waiting < total and beyond > 0 else 1.0  # others are polled meanwhile
        seconds = max(seconds, limits.next(now) - now, beyond / share)
    if limits.max_rate:
        seconds = max(seconds, waiting / limits.max_rate)
    return FirstCopies(total - waiting, total, seconds if rate > 0 else inf)


def in_reserve(policy: MirrorPolicy, now: float) -> InReserve | None:
    """Return what is in reserve; None if the budget has none."""
    limits = policy.limits
    if not limits.reserve > 0:
        return None
    kept = [
        nan if budget is None else min(max(now - paid, 0.0), limits.reserve) * budget
        for budget, paid in ((limits.budget, limits.paid), (limits.byte_budget, limits.paid_bytes))
    ]
    level = min(max(limits.left(now, now), 0.0) / limits.reserve, 1.0)
    return InReserve(limits.reserve, level, kept[0], kept[1])
