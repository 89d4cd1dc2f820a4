"""Which polls come next."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from ..mirror.insight import due
from ..mirror.mirror import Mirror
from ..mirror.planner import load_agenda
from .place import Place

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


class _Asked:
    """Looks at a mirror, and notes how long that took: of a million elements it is not done every time."""

    def __init__(self) -> None:
        self.took = 0.0

    def __call__(self, mirror: Mirror, most: int = 8) -> list[Coming]:
        began = time.monotonic()
        try:
            return _coming(mirror, most)
        finally:
            self.took = time.monotonic() - began


async def coming(place: Place, asked: _Asked = _Asked()) -> list[Coming]:  # noqa: B008  (one for all requests)
    """Return the next polls, the earliest first."""
    return await place.kept("coming", asked, fresh_for=max(2.0, 20.0 * asked.took))


def _coming(mirror: Mirror, most: int) -> list[Coming]:
    now = mirror.clock.now()
    with mirror.store.begin() as t:
        agenda, _ = load_agenda(mirror.settings, t)
        rows = agenda.rows
        handed_out = {element for element, _, _ in t.leased()}
        places = np.flatnonzero(rows.wanted & ~(rows["not_before"] > now + 3600.0))
        if not places.size:
            return []
        never = np.isnan(rows["last"][places])
        values = np.where(never, np.inf, agenda.worths(places, rows.since(places, now)))
        values += np.where(rows.since(places, now) > rows["max_age"][places], np.inf, 0.0)
        best = np.argsort(-values, kind="stable")[:_LOOKED_AT]
        places, values = places[best], values[best]
        moments = due(agenda, places, now)
        numbers = rows["id"][places]
        under_way = np.isin(numbers, list(handed_out))
        order = np.lexsort((-values, np.maximum(moments, now), ~under_way))[:most]
        found = []
        for n in order.tolist():
            number = int(numbers[n])
            element = next(iter(t.elements(number - 1, 1)), None)
            if element is not None and element.id == number and np.isfinite(moments[n]):
                share = float(values[n]) / agenda.price if agenda.price > 0 else np.inf
                found.append(Coming(number, element.key, float(moments[n]), share, bool(under_way[n])))
        return found
