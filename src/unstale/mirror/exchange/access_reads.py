"""Accesses in logs of other servers, counted as reads of the copies of a mirror.

A log is taken in again and again as it grows: accesses up to the latest one that was counted before are left
out. Users are told apart if the mirror tells its own readers apart, and kept as those are.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from urllib.parse import unquote

from unstale.mirror.json_values import fields_json
from unstale.mirror.mirror import Mirror
from unstale.mirror.reader_names import kept_name, reader_secret
from unstale.mirror.source import Json
from unstale.tables import Accesses

_HOUR_SECONDS = 3600.0
_KEYS_AT_ONCE = 1000
_KEPT = "access logs"
"""Name under which the store keeps up to when logs were counted."""
_COPIES = "/copies/"
"""Beginning of the addresses of copies, in logs of a server in front of the mirror."""


@dataclass(frozen=True)
class ReadsTaken:
    """What came of taking in logs."""

    reads: int
    """Accesses that were counted."""
    elements: int
    """How many elements they are of."""
    unknown: int
    """Accesses to what is no element of the mirror."""
    before: int
    """Accesses that had been counted before, or are older than those."""

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON."""
        return fields_json(self)


def take_in_accesses(mirror: Mirror, parts: Iterable[Accesses]) -> ReadsTaken:
    """Count accesses as reads of the copies of a mirror."""
    with mirror.store.begin() as t:
        since = float(json.loads(t.state().get(_KEPT, b"null")) or -inf)
    by_user = mirror.settings.reads.users != "no"
    counts: Counter[tuple[float, str, str]] = Counter()
    latest, before = since, 0
    for part in parts:
        users = part.users if by_user else None
        for number, time in enumerate(part.times.tolist()):
            count = 1 if part.counts is None else int(part.counts[number])
            if time <= since:
                before += count
                continue
            latest = max(latest, time)
            key = part.keys[number if part.places is None else int(part.places[number])]
            user = ""
            if users:
                user = users[number if part.user_places is None else int(part.user_places[number])]
            counts[time // _HOUR_SECONDS * _HOUR_SECONDS, user, key] += count
    return _counted(mirror, counts, latest, before)


def _counted(
    mirror: Mirror, counts: Counter[tuple[float, str, str]], latest: float, before: int
) -> ReadsTaken:
    """Keep counts of an hour, a user and a key."""
    with mirror.store.begin() as t:
        ids: dict[str, int] = {}
        names = {key: _key(key) for _, _, key in counts}
        wanted = sorted(set(names.values()))
        for first in range(0, len(wanted), _KEYS_AT_ONCE):
            found = t.find(wanted[first : first + _KEYS_AT_ONCE])
            ids |= {key: one.id for key, one in found.items() if one.state != "removed"}
        secret = reader_secret(t) if any(user for _, user, _ in counts) else b""
        plain: dict[float, Counter[int]] = {}
        told: dict[float, Counter[tuple[str, int]]] = {}
        unknown = 0
        for (hour, user, key), count in counts.items():
            element = ids.get(names[key])
            if element is None:
                unknown += count
                continue
            plain.setdefault(hour, Counter())[element] += count
            if user:
                told.setdefault(hour, Counter())[kept_name(user, secret), element] += count
        for hour, reads in plain.items():
            t.read(reads, hour)
        for hour, users in told.items():
            t.read_by_users(users, hour)
        if latest > -inf:
            t.keep({_KEPT: json.dumps(latest).encode()})
    seen = {element for reads in plain.values() for element in reads}
    return ReadsTaken(sum(map(Counter.total, plain.values())), len(seen), unknown, before)


def _key(path: str) -> str:
    """Return the key that an access means: that of a copy, or the path itself.

    >>> _key("/copies/https%3A%2F%2Fexample.org%2F"), _key("https://example.org/")
    ('https://example.org/', 'https://example.org/')
    """
    return unquote(path.removeprefix(_COPIES)) if path.startswith(_COPIES) else path
