"""The policy as a mirror runs it: its budget and the limits of its groups, read from a store."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from unstale.mirror.settings import Settings
from unstale.mirror.store.contract import Group, Transaction
from unstale.policy import Channels, ElementTable, LearningPolicy, RateLimits

__all__ = [
    "GRACE", "MirrorPolicy", "backoff", "budgets", "know_groups", "load_policy", "new_policy", "packed",
    "unpacked",
]  # fmt: skip

MirrorPolicy = LearningPolicy[RateLimits]

GRACE = 0.5
"""Seconds by which a poll may be late."""
_SHORTEST_ROUND = 3600.0
"""Seconds: what is learned is not forgotten faster, however often a few elements are polled."""


def backoff(state: str, failures: int) -> float:
    """Return the seconds for which an element is left alone after so many polls in a row that saw nothing.

    >>> [backoff("failing", n) for n in (1, 2, 3, 20)], backoff("gone", 1), backoff("refused", 1)
    ([60.0, 120.0, 240.0, 86400.0], 3600.0, 86400.0)
    """
    first, most = {"gone": (3600.0, 30 * 86400.0), "refused": (86400.0, 7 * 86400.0)}.get(
        state, (60.0, 86400.0)
    )
    return float(min(first * 2.0 ** min(failures - 1, 30), most))


def budgets(settings: Settings, state: Mapping[str, bytes]) -> Settings:
    """Return the settings with the budgets that were set since, unless settings have changed after that."""
    changed = json.loads(state.get("budgets", b"{}"))
    said = [settings.budget, settings.byte_budget]
    if changed.pop("instead_of", said) != said:
        return settings
    return replace(settings, **changed)


def new_policy(
    settings: Settings, table: ElementTable, channels: Channels, kept: Mapping[str, Any] | None = None
) -> MirrorPolicy:
    """Return the policy for elements, with the budgets of the settings, as it was ``kept``."""
    before = kept or {}
    limits = RateLimits(settings.budget, settings.byte_budget, grace=GRACE)
    limits.paid, limits.paid_bytes = before.get("paid", -np.inf), before.get("paid_bytes", -np.inf)
    return LearningPolicy(
        table,
        limits,
        objective=settings.objective,
        channels=channels,
        backoff=backoff,
        shortest_round=_SHORTEST_ROUND,
        price=before.get("price", 0.0),
        mean_size=before.get("mean_size", 1000.0),
    )


def know_groups(policy: MirrorPolicy, settings: Settings, groups: Iterable[Group]) -> None:
    """Take in what the settings and the store say of groups."""
    for group in groups:
        limit = settings.limit(group.name)
        policy.limits.know(
            group.id,
            name=group.name,
            spacing=max(limit.spacing, group.spacing),
            concurrency=limit.concurrency,
            paid=group.paid_until,
            blocked=group.blocked_until,
            why=group.why,
        )


def load_policy(
    settings: Settings, t: Transaction, only: int | None = None
) -> tuple[MirrorPolicy, dict[str, Any]]:
    """Read from a store all that the planner needs; return it, and where the planner had got to.

    With ``only``, the number of an element, of elements that one alone is read: in a moment, whatever their
    number.
    """
    state = t.state()
    kept = json.loads(state.get("planner", b"{}"))
    shared = unpacked(state["learner"]) if "learner" in state else None
    table = ElementTable()
    counts = t.count()
    total = sum(counts.values()) - counts.get("removed", 0)
    table.reserve(total if only is None else 1, shared)
    start = 0
    for columns in t.load() if only is None else t.load([only]):
        table.fill(start, columns)
        start += columns.id.size
    table.leave_out(start)  # others may add and remove elements meanwhile
    channels = Channels.read(state.get("channels", b""))
    policy = new_policy(budgets(settings, state), table, channels, kept)
    policy.others = max(total - len(table), 0)
    know_groups(policy, settings, t.groups())
    for element, channel, hints in kept.get("hints", []):
        policy.hint(element, channel, np.inf, hints)
    policy.audit = {int(element): name for element, name in kept.get("audit", {}).items()}
    return policy, kept


def packed(arrays: Mapping[str, Any]) -> bytes:
    """Return arrays as bytes: a line of JSON that says what they are, and their numbers."""
    columns = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    head = {name: [array.dtype.str, list(np.shape(arrays[name]))] for name, array in columns.items()}
    return json.dumps(head).encode() + b"\n" + b"".join(array.tobytes() for array in columns.values())


def unpacked(text: bytes) -> dict[str, Any]:
    """Return the arrays that were packed."""
    head, _, rest = text.partition(b"\n")
    found, start = {}, 0
    for name, (kind, shape) in json.loads(head).items():
        count = int(np.prod(shape, dtype=np.int64))
        found[name] = np.frombuffer(rest, kind, count, start).reshape(shape)
        start += count * np.dtype(kind).itemsize
    return found
