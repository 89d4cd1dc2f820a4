"""How often tokens may be guessed.

A client with a wrong token may try a few more at once, then one after a wait that doubles with each of them.
The same holds for all together, with more tries and shorter waits, so that many addresses do not help much.
Who has shown the right token from an address before is not held up there by what others guess elsewhere.

A wrong token that is shown again is no new guess: a program with an old token is refused as often as it likes
to ask, and keeps nobody out.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from ipaddress import IPv6Address, ip_address
from secrets import token_bytes
from typing import TypeVar

_FORGET_SECONDS = 900.0
"""Without a wrong guess, after which earlier ones are forgotten."""
_MOST_ADDRESSES_KEPT = 10_000
"""Addresses, and wrong guesses, that are remembered."""
_K = TypeVar("_K")
_V = TypeVar("_V")


@dataclass(frozen=True)
class _Patience:
    """How many wrong guesses cost no wait, and how long the waits after them are, in seconds."""

    free: int
    first: float
    longest: float

    def wait(self, wrong: int) -> float:
        return (
            min(self.longest, self.first * 2.0 ** min(wrong - self.free, 64)) if wrong >= self.free else 0.0
        )


_OF_ONE = _Patience(free=5, first=1.0, longest=60.0)
_OF_ALL = _Patience(free=50, first=0.125, longest=2.0)


@dataclass
class _Wrong:
    """Wrong guesses of an address."""

    count: int
    last: float


class GuessLimit:
    """Counts wrong guesses, and says how long to wait before the next."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._key = clock, token_bytes(32)
        self._wrong: OrderedDict[str, _Wrong] = OrderedDict()
        self._all = _Wrong(0, 0.0)
        self._guessed: OrderedDict[bytes, None] = OrderedDict()
        self._friends: OrderedDict[str, None] = OrderedDict()

    def known_wrong(self, given: str) -> bool:
        """Tell whether this was guessed already, and is wrong."""
        return self._digest(given) in self._guessed

    def wait(self, address: str) -> float:
        """Return for how many seconds this address must not guess; 0: it may."""
        place, now = _place(address), self._clock()
        waits = [_left(self._wrong.get(place), _OF_ONE, now)]
        if place not in self._friends:
            waits.append(_left(self._all, _OF_ALL, now))
        return max(waits)

    def right(self, address: str) -> None:
        """Note that the right token came from an address."""
        place = _place(address)
        self._wrong.pop(place, None)
        _keep(self._friends, place, None)

    def wrong(self, address: str, given: str) -> None:
        """Note a wrong guess."""
        place, now = _place(address), self._clock()
        one = self._wrong.get(place)
        _keep(self._wrong, place, _one_more(one or _Wrong(0, now), now))
        _one_more(self._all, now)
        _keep(self._guessed, self._digest(given), None)

    def _digest(self, given: str) -> bytes:
        return blake2b(given.encode("utf-8", "replace"), key=self._key, digest_size=16).digest()


def _left(wrong: _Wrong | None, patience: _Patience, now: float) -> float:
    if wrong is None or now - wrong.last > _FORGET_SECONDS:
        return 0.0
    return max(0.0, wrong.last + patience.wait(wrong.count) - now)


def _one_more(wrong: _Wrong, now: float) -> _Wrong:
    forgotten = now - wrong.last > _FORGET_SECONDS
    wrong.count, wrong.last = (0 if forgotten else wrong.count) + 1, now
    return wrong


def _keep(kept: OrderedDict[_K, _V], key: _K, value: _V) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > _MOST_ADDRESSES_KEPT:
        kept.popitem(last=False)


def _place(address: str) -> str:
    """Return what guesses are counted by: an address, or the network that one machine has in IPv6.

    >>> _place("192.0.2.7"), _place("2001:db8:1:2:3:4:5:6"), _place("::ffff:192.0.2.7"), _place("")
    ('192.0.2.7', '2001:db8:1:2::', '192.0.2.7', '')
    """
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(IPv6Address(int(parsed) >> 64 << 64))
    return str(parsed)
