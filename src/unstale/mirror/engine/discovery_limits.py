"""How much lists may discover: what is beyond a limit is left out, and the status tells of it.

A list may name anything, and as much as it likes. So there are limits (see `DiscoveryLimits`) for one list,
for one host, for all that goes back to one list that a user named, and for all together; and only so many
elements of a list wait for their first poll. What is left out because too many wait comes later: the list is
read again. A list of which nothing was ever seen, after many tries, loses what still waits, and gets in only
a few at a time until one is seen.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from glob import escape

from unstale.mirror.settings import DiscoveryLimits
from unstale.mirror.store.contract import Addition, Transaction

_KEPT = "discovery"
"""Name under which the store keeps what was left out."""
_MOST_LISTS_TOLD = 100
"""Lists of which it is kept what was left out."""
_TRIES = 100
"""Elements of a list that must have been tried before it can be taken for useless."""
_WAITING_OF_USELESS = 100
"""Elements of a list that wait at a time, as long as none of it was ever seen."""
_COUNT_SECONDS = 60.0
"""For which a count of very many elements serves."""
_MOST_ROWS_COUNTED = 10_000
"""Elements of hosts beyond which none is looked at for the shapes of addresses that one list names."""
_MOST_SHAPES = 20_000
"""That are remembered."""
_LONGEST_WAY = 8
"""Lists that may lead from one to the next."""
_ABOUT = {
    "list": "a list may have {:,} elements",
    "host": "a host may have {:,} elements",
    "via": "all that goes back to one list may be {:,} elements",
    "total": "all lists together may discover {:,} elements",
    "waiting": "{:,} elements of a list may wait for their first poll",
    "pattern": "{:,} pages may differ only in numbers and in values of a query",
    "useless": "none of its elements has a copy, of many that were tried",
}


class DiscoveryRoom:
    """Decides what of the elements that a list names gets in."""

    def __init__(self, limits: DiscoveryLimits) -> None:
        self._limits = limits
        self._counts: dict[int, tuple[float, int]] = {}
        """Large counts, by the list, or 0 for all: when they were made."""
        self._shapes: dict[str, tuple[float, int]] = {}
        """How many elements have addresses of a shape, and when that was counted."""
        self._rows_left = 0
        """That may still be looked at for the list that is read."""

    def admitted(
        self, t: Transaction, via: int, new: Sequence[Addition], now: float, *, followed: bool = False
    ) -> tuple[list[Addition], dict[str, int]]:
        """Return the elements that get in, in the order in which they were named; why how many do not.

        ``followed``: whether links name them, which may go on without an end.
        """
        left_out: Counter[str] = Counter()
        root = self._first_list(t, via)
        room = self._places(t, via, root, now)
        hosts = t.count_in_groups(sorted({one.group for one in new}))
        got: list[Addition] = []
        self._rows_left = _MOST_ROWS_COUNTED
        for one in new:
            why = next((name for name, places in room.items() if places <= len(got)), "")
            if not why and hosts.get(one.group, 0) >= self._limits.host:
                why = "host"
            shape = shape_of(one.key) if followed and not why else None
            if (
                shape is not None
                and self._alike(t, shape, now, hosts.get(one.group, 0)) >= self._limits.pattern
            ):
                why = "pattern"
            if why:
                left_out[why] += 1
                continue
            hosts[one.group] = hosts.get(one.group, 0) + 1
            got.append(one)
            if shape is not None:
                moment, count = self._shapes[shape]
                self._shapes[shape] = moment, count + 1
        for number, (moment, count) in list(self._counts.items()):
            if number in {0, root}:
                self._counts[number] = moment, count + len(got)
        return got, dict(left_out)

    def _alike(self, t: Transaction, shape: str, now: float, rows: int) -> int:
        """Return how many elements have addresses of a shape, up to the limit; the host has so many rows.

        A list that names ever new shapes would have all elements of its host looked at for each: beyond some
        work those that are not known yet are counted from now on.
        """
        moment, count = self._shapes.get(shape, (-_COUNT_SECONDS, 0))
        if not 0.0 <= now - moment < _COUNT_SECONDS:
            if len(self._shapes) > _MOST_SHAPES:
                self._shapes.clear()
            if self._rows_left > 0:
                self._rows_left -= max(rows, 100)
                count = len(t.elements(0, self._limits.pattern, pattern=shape))
            self._shapes[shape] = now, count
        return count

    def _places(self, t: Transaction, via: int, root: int, now: float) -> dict[str, int]:
        """Return how many more elements each limit allows for."""
        limits, there = self._limits, t.named_by(via)
        if there.elements - there.waiting >= _TRIES and not there.seen:
            waiting = self._dismissed(t, via, now) if there.waiting > _WAITING_OF_USELESS else there.waiting
            return {"useless": _WAITING_OF_USELESS - waiting}
        return {
            "total": limits.total - self._counted(t, 0, now),
            "via": limits.via - self._counted(t, root, now),
            "list": limits.list - there.elements,
            "waiting": limits.waiting - there.waiting,
        }

    def _counted(self, t: Transaction, root: int, now: float) -> int:
        moment, count = self._counts.get(root, (-_COUNT_SECONDS, 0))
        if not 0.0 <= now - moment < _COUNT_SECONDS:
            if len(self._counts) > 1000:
                self._counts.clear()
            count = t.going_back_to(root, self._limits.via) if root else sum(t.count().values())
            self._counts[root] = now, count
        return count

    @staticmethod
    def _first_list(t: Transaction, via: int) -> int:
        """Return the list that a user named, from which one list after the other led to this one."""
        for _ in range(_LONGEST_WAY):
            found = t.numbered([via]).get(via)
            if found is None or found.via is None:
                break
            via = found.via
        return via

    @staticmethod
    def _dismissed(t: Transaction, via: int, now: float) -> int:
        """Let elements of a useless list go that nobody has seen, but for a few; return how many wait."""
        after = 0
        waiting: list[int] = []
        while batch := t.elements(after, 1000, via=via):
            after = batch[-1].id
            waiting += [element.id for element in batch if element.state == "new"]
        gone = waiting[: max(len(waiting) - _WAITING_OF_USELESS, 0)]
        t.remove(gone, now)
        t.forget(gone)
        return len(waiting) - len(gone)


def shape_of(key: str) -> str | None:
    """Return a pattern of the addresses that differ from this one only in numbers and values of a query.

    It is None if there are none of these: such addresses do not go on without an end.

    >>> shape_of("http://a/calendar/2024/5?view=day&x=1"), shape_of("http://a/about")
    ('http://a/calendar/*/*[?]view=*&x=*', None)
    """
    start, _, rest = key.partition("://")
    host, slash, path = rest.partition("/")
    plain, question, query = path.partition("?")
    names = [escape(one.partition("=")[0]) for one in query.split("&")] if question else []
    shape = re.sub(r"[0-9]+", "*", escape(plain))
    if shape == escape(plain) and not names:
        return None
    asked = "[?]" + "&".join(f"{name}=*" for name in names) if names else ""
    return f"{start}://{escape(host)}{slash}{shape}{asked}"


def note_left_out(
    t: Transaction, via: int, key: str, left_out: Mapping[str, int], limits: DiscoveryLimits
) -> None:
    """Keep what was left out of a list at its last reading, for the status."""
    kept = json.loads(t.state().get(_KEPT, b"{}"))
    if not left_out and str(via) not in kept:
        return
    kept.pop(str(via), None)
    if left_out:
        told = {why: [count, getattr(limits, why, 0)] for why, count in left_out.items()}
        kept[str(via)] = {"key": key, "left_out": told}
    t.keep({_KEPT: json.dumps(dict(list(kept.items())[-_MOST_LISTS_TOLD:])).encode()})


def told_left_out(kept: Mapping[str, bytes]) -> list[str]:
    """Return, for people, what was left out of lists, and how to allow it."""
    lines = []
    for one in json.loads(kept.get(_KEPT, b"{}")).values():
        for why, (count, limit) in one["left_out"].items():
            line = f"{one['key']}: {count:,} of what it names are left out: {_ABOUT[why].format(limit)}"
            if why == "waiting":
                line += "; they come in as others get their first poll"
            if why != "useless":
                line += f"; to allow more, set {why} below [discovery] in mirror.toml"
            lines.append(line)
    return lines
