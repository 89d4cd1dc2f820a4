"""Which polls come next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arguments import Floats
from ..mirror.agenda import Agenda
from ..mirror.insight import due
from ..mirror.store import Transaction

__all__ = ["Coming", "coming"]

_LOOKED_AT = 200
"""Elements, the worthiest, of which is worked out when they are due."""


@dataclass(frozen=True)
class Coming:
    """A poll that comes soon."""

    id: int
    key: str
    moment: float
    worth: float
    """As a share of the price, now; inf without a copy."""
    under_way: bool


def coming(agenda: Agenda, t: Transaction, now: float, most: int = 8) -> list[Coming]:
    """Return the next polls, the earliest first."""
    rows = agenda.rows
    handed_out = {element for element, _, _ in t.leased()}
    places = np.flatnonzero(rows.wanted & ~(rows["not_before"] > now + 3600.0))
    if not places.size:
        return []
    never = np.isnan(rows["last"][places])
    values = np.where(never, np.inf, agenda.worths(places, rows.since(places, now)))
    values += np.where(rows.since(places, now) > rows["max_age"][places], np.inf, 0.0)
    waits = _waits(agenda, now)[rows["group"][places]]
    best = np.lexsort((-values, waits > now))[:_LOOKED_AT]
    places, values, waits = places[best], values[best], waits[best]
    moments = np.maximum(due(agenda, places, now), waits)
    numbers = rows["id"][places]
    under_way = np.isin(numbers, list(handed_out))
    order = np.lexsort((-values, np.maximum(moments, now), ~under_way))[:most]
    known = t.numbered([int(numbers[n]) for n in order])
    found = []
    for n in order.tolist():
        element = known.get(int(numbers[n]))
        if element is not None and np.isfinite(moments[n]):
            share = float(values[n]) / agenda.price if agenda.price > 0 else np.inf
            found.append(Coming(element.id, element.key, float(moments[n]), share, bool(under_way[n])))
    return found


def _waits(agenda: Agenda, now: float) -> Floats:
    """Return from when on each group may be polled, by its number, as far as that is worth a word."""
    waits = np.zeros(int(agenda.rows["group"].max(initial=0)) + 1)
    for number, group in agenda.pace.groups.items():
        if number < waits.size:
            waits[number] = max(group.blocked, group.paid if group.paid > now + 60.0 else 0.0)
    return waits
