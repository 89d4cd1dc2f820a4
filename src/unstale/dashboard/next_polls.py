"""Which polls come next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unstale.arguments import Floats
from unstale.mirror.engine.load_policy import MirrorPolicy
from unstale.mirror.reports.explain import due
from unstale.mirror.store.contract import Transaction
from unstale.policy.element_table import DROPPED

_MOST_ELEMENTS = 200
"""The worthiest, of which is worked out when they are due."""
_LATER_SECONDS = 3600.0
"""What waits longer after failures is not among the next polls."""
_HELD_UP_SECONDS = 60.0
"""A group that waits longer for its next poll holds up its elements."""


@dataclass(frozen=True)
class NextPoll:
    """A poll that comes soon."""

    id: int
    key: str
    moment: float
    worth: float
    """As a share of the price, now; inf without a copy."""
    under_way: bool


def next_polls(policy: MirrorPolicy, t: Transaction, now: float, most: int = 8) -> list[NextPoll]:
    """Return the next polls, the earliest first."""
    table = policy.table
    handed_out = {element for element, _, _ in t.leased()}
    places = np.flatnonzero(
        table.wanted & (table["state"] != DROPPED) & ~(table["not_before"] > now + _LATER_SECONDS)
    )
    if not places.size:
        return []
    never = np.isnan(table["last"][places])
    values = np.where(never, np.inf, policy.known.worths(places, table.since(places, now)))
    values += np.where(table.since(places, now) > table["max_age"][places], np.inf, 0.0)
    waits = _waits(policy, now)[table["group"][places]]
    best = np.lexsort((-values, waits > now))[:_MOST_ELEMENTS]
    places, values, waits = places[best], values[best], waits[best]
    moments = np.maximum(due(policy, places, now), waits)
    numbers = table["id"][places]
    under_way = np.isin(numbers, list(handed_out))
    order = np.lexsort((-values, np.maximum(moments, now), ~under_way))[:most]
    known = t.numbered([int(numbers[n]) for n in order])
    found = []
    for n in order.tolist():
        element = known.get(int(numbers[n]))
        if element is not None and np.isfinite(moments[n]):
            share = float(values[n]) / policy.price if policy.price > 0 else np.inf
            found.append(NextPoll(element.id, element.key, float(moments[n]), share, bool(under_way[n])))
    return found


def _waits(policy: MirrorPolicy, now: float) -> Floats:
    """Return from when on each group may be polled, by its number, as far as that is worth a word."""
    waits = np.zeros(int(policy.table["group"].max(initial=0)) + 1)
    for number, group in policy.limits.groups():
        if number < waits.size:
            waits[number] = max(group.blocked, group.paid if group.paid > now + _HELD_UP_SECONDS else 0.0)
    return waits
