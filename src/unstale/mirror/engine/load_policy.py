"""The policy as a mirror runs it: its budget and the limits of its groups, read from a store.

It is what step 1 of a poll asks, and what learns in step 8; reports ask the same object.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Order
from unstale.errors import InvalidInput
from unstale.estimation.learning.level_learner import LevelLearner
from unstale.estimation.learning.rhythm_learner import RhythmLearner
from unstale.mirror.settings import Settings
from unstale.mirror.store.contract import Group, Transaction
from unstale.policy import Channels, ElementTable, LearningPolicy, RateLimits
from unstale.policy.class_clocks import ClassClocks
from unstale.policy.element_table import AWAY, GONE, REMOVED
from unstale.policy.polls_on_read import PollsOnRead
from unstale.policy.terms import aim_of

from .planner_state import PlannerState

__all__ = ["GRACE_SECONDS", "MirrorPolicy", "backoff", "know_groups", "load_policy", "new_policy"]

MirrorPolicy = LearningPolicy[RateLimits]

GRACE_SECONDS = 0.5
"""By which a poll may begin after its slot."""
MOST_READ = 30_000
"""Elements that are read for a report; of more, a random sample."""
_SHORTEST_ROUND_SECONDS = 3600.0
"""What is learned is not forgotten faster, however often a few elements are polled."""


def backoff(state: str, failures: int) -> float:
    """Return the seconds for which an element is left alone after so many polls in a row that saw nothing.

    >>> [backoff("failing", n) for n in (1, 2, 3, 20)], backoff("gone", 1), backoff("refused", 1)
    ([60.0, 120.0, 240.0, 86400.0], 3600.0, 86400.0)
    """
    first, most = {"gone": (3600.0, 30 * 86400.0), "refused": (86400.0, 7 * 86400.0)}.get(
        state, (60.0, 86400.0)
    )
    return float(min(first * 2.0 ** min(failures - 1, 30), most))


def new_policy(
    settings: Settings, table: ElementTable, channels: Channels, state: PlannerState | None = None
) -> MirrorPolicy:
    """Return the policy for elements, with the budgets of the settings; it goes on from a state."""
    before = PlannerState() if state is None else state
    limits = RateLimits(
        settings.budget,
        settings.byte_budget,
        grace=GRACE_SECONDS,
        reserve=settings.reserve,
        max_rate=settings.fastest,
    )
    limits.paid, limits.paid_bytes, limits.paced = before.paid, before.paid_bytes, before.paced
    policy = LearningPolicy(
        table,
        limits,
        objective=aim_of(settings.objective),
        channels=channels,
        backoff=backoff,
        shortest_round=_SHORTEST_ROUND_SECONDS,
        price=before.price if before.objective == settings.worths_by else 0.0,
        mean_size=before.mean_size,
        clocks=_clocks(before, table),
        levels=_levels(before),
    )
    policy.known.policy, policy.known.order = settings.policy, cast("Order", settings.order)
    policy.told_times.resume(before.told or {})
    policy.known.expiries.resume(before.told or {})
    policy.known.errors.resume(before.levels or {})
    policy.known.recalibration.resume(before.levels or {})
    policy.replicas.number, policy.replicas.count = settings.replicas.number, settings.replicas.count
    policy.on_read = PollsOnRead(settings.reads.poll_share, settings.reserve)
    policy.new_share = settings.discovery.poll_share
    policy.composed.weights = {one.name: one.weight for one in settings.composed}
    policy.composed.one_suffices = {one.name for one in settings.composed if one.needs == "one"}
    return policy


def _clocks(state: PlannerState, table: ElementTable) -> ClassClocks:
    """Return what is known of rhythms; nothing if another version kept it in another form."""
    try:
        found = ClassClocks.resume(state.rhythm or {}, table.clockworks, epoch=0.0)
    except InvalidInput:
        return ClassClocks(RhythmLearner(day=86400.0), table.clockworks, epoch=0.0)
    found.resume_trials(state.rhythm or {}, table.tree)
    found.resume_moved(state.rhythm or {}, table)
    return found


def _levels(state: PlannerState) -> LevelLearner | None:
    """Return what is known of levels; nothing if another version kept it in another form."""
    try:
        return LevelLearner.resume(state.levels or {})
    except InvalidInput:
        return None


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
    settings: Settings, t: Transaction, only: Sequence[int] | None = None
) -> tuple[MirrorPolicy, PlannerState]:
    """Read from a store all that the planner needs; return it, and where the planner had got to.

    With ``only``, numbers of elements, those alone are read: in a moment, however many others there are.
    """
    state = PlannerState.read(t.state())
    table = ElementTable()
    counts = t.count()
    total = _polled(counts)
    table.reserve(total if only is None else min(len(only), total), state.learner, state.classes)
    start = 0
    for columns in t.load(only):
        table.fill(start, columns)
        start += columns.id.size
    table.leave_out(start)  # others may add and remove elements meanwhile
    policy = new_policy(state.in_force(settings), table, state.channels, state)
    there = total - counts.get("gone", 0)
    policy.others = 0 if only is None else max(there - int(np.count_nonzero(~_away(table))), 0)
    know_groups(policy, settings, t.groups())
    for element, channel, count, moments in state.hints:
        policy.hint(element, channel, np.inf, count, moments=moments)
    policy.audit = dict(state.audit)
    return policy, state


def _polled(counts: Mapping[str, int]) -> int:
    """Return how many elements the planner knows, of those in each state."""
    return sum(count for state, count in counts.items() if state not in AWAY)


def _away(table: ElementTable) -> NDArray[np.bool_]:
    """Tell which elements were removed, or are known to be gone."""
    return np.isin(table["state"], [GONE, REMOVED])


def load_sample(settings: Settings, t: Transaction) -> tuple[MirrorPolicy, PlannerState]:
    """Read what reports need, of a random sample if there are many elements.

    `LearningPolicy.others` counts those that were left out.
    """
    counts = t.count()
    if _polled(counts) <= MOST_READ:
        return load_policy(settings, t)
    return load_policy(settings, t, t.some_elements(MOST_READ))
