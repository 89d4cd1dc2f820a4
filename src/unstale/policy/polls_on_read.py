"""Polls that readers ask for: at once, out of turn, and from a share of the budget that is theirs.

A reader may want a copy that is no older than so much, or so probably fresh. Whoever does not get it from the
copy that is there asks for a poll. Such polls are worth any price, so it is a share of the budget that limits
them: it is kept for an hour, or as long as the reserve of the budget, and at least for one poll. Limits of
groups, windows, back-offs and ``min_interval`` hold for them as for all polls.

Reference: Cho & Garcia-Molina (1999), section 3, Example 2.
"""

from __future__ import annotations

from math import inf

from .element_table import ElementTable, Places

_KEPT_SECONDS = 3600.0
"""Of the share of readers that is not spent, unless more of the budget is kept in reserve."""


class PollsOnRead:
    """Elements that readers wait for.

    >>> polls = PollsOnRead(share=0.1)
    >>> polls.ask(7, since=0.0, until=60.0)
    >>> polls.affordable(now=0.0, rate=0.01), sorted(polls.waiting(now=30.0)), sorted(polls.waiting(now=61.0))
    (3, [7], [])
    """

    def __init__(self, share: float = 0.0, reserve: float = 0.0) -> None:
        self.share = share
        """Of the budget; 0: nobody may ask."""
        self.kept = max(reserve, _KEPT_SECONDS)
        """Time for which the share is kept if nobody asks."""
        self._until: dict[int, float] = {}
        self._since: dict[int, float] = {}
        self._paid = -inf
        """The moment up to which the share is spent."""

    def ask(self, element: int, since: float, until: float) -> None:
        """Take in that somebody waits for a poll of an element, since a moment and until another."""
        if self.share > 0:
            self._until[element] = max(until, self._until.get(element, -inf))
            self._since[element] = max(since, self._since.get(element, -inf))

    def heard(self, element: int, time: float) -> None:
        """Take in that an element was polled; a poll from before the wish is not what is waited for."""
        if time >= self._since.get(element, inf):
            del self._since[element]
            self._until.pop(element, None)

    def waiting(self, now: float) -> list[int]:
        """Return the elements that somebody waits for."""
        self._until = {element: until for element, until in self._until.items() if until > now}
        return list(self._until)

    def affordable(self, now: float, rate: float) -> int:
        """Return how many polls the share pays for, of a budget of so many polls per unit time."""
        if not self._until:
            return 0
        cost = 1.0 / (self.share * rate)
        left = now - max(self._paid, now - max(self.kept, cost))
        return int(min(left / cost + 1e-9, 1e9))

    def pay(self, count: int, now: float, rate: float) -> None:
        """Pay for polls."""
        cost = 1.0 / (self.share * rate)
        self._paid = max(self._paid, now - max(self.kept, cost)) + count * cost


def askable(table: ElementTable, places: Places, now: float) -> Places:
    """Return those of the elements that may be polled now."""
    is_open = [hours is None or bool(hours.is_open(now)) for hours in table.hours]
    return places[
        [
            not table["busy"][place]
            and table["not_before"][place] <= now
            and is_open[int(table["window"][place])]
            and table.since(places[k : k + 1], now)[0] >= table["min_interval"][place]
            for k, place in enumerate(places.tolist())
        ]
    ]
