"""Who reads what: profiles of reads, of all and by user, and how fresh the copies are that are read.

Profiles are those of `unstale.estimation`, as `unstale profile` makes them of access logs: reads fade with a
half-life, each user counts by a weight, whatever the user's number of reads, and the master profile says what
all of them together want. Perceived freshness is that of the copies that are read, by how often they are.

References: Carney, Lee & Zdonik (ICDE 2003), sections 2 and 2.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

from unstale.arguments import Floats
from unstale.estimation.profiles.profile import Profile
from unstale.estimation.profiles.user_profiles import UserProfiles
from unstale.mirror.engine.load_policy import MirrorPolicy
from unstale.mirror.settings import Reads
from unstale.mirror.store.contract import Transaction
from unstale.policy.read_hours import hours_of_reads

_HALF_LIVES_READ = 8.0
"""Half-lives of which reads are looked at."""
_HALF_LIVES_OF_HOURS = 4.0
"""The same for the hours of reads: habits change."""
_MOST_USERS_TOLD = 10
_HOUR_SECONDS = 3600.0


@dataclass(frozen=True)
class ReaderFreshness:
    """How fresh the copies are that a user reads."""

    user: str
    """A name, or a hash of what named the user."""
    reads: float
    """How many there were; they fade."""
    weight: float
    """How much the user counts."""
    freshness: float
    """Weighted mean probability that a copy is fresh, by how often the user reads it."""


def profile_of_reads(t: Transaction, reads: Reads, now: float) -> tuple[Profile | None, UserProfiles | None]:
    """Return what readers want, by element, and the profiles of users if these are told apart.

    The first is the master profile then, and else that of all reads; None if there were none.
    """
    since = now - _HALF_LIVES_READ * reads.half_life
    if reads.users != "no" and (rows := t.reads_by_user(since)):
        users, elements, hours, counts = (list(column) for column in zip(*rows, strict=True))
        profiles = UserProfiles(reads.half_life)
        profiles.count(users, elements, hours, counts)
        if any(reads.weights.get(user, 1.0) > 0 for user in users):
            return profiles.master(reads.weights), profiles
    if not (plain := t.reads(since)):
        return None, None
    elements, hours, counts = (list(column) for column in zip(*plain, strict=True))
    profile = Profile(reads.half_life)
    profile.count(elements, hours, counts)
    return profile, None


def hours_read(t: Transaction, reads: Reads, now: float) -> Floats:
    """Return how much is read in each hour of the week, beside the mean; empty if hours do not tell.

    The present hour is not over, so it is left out.
    """
    until = now // _HOUR_SECONDS * _HOUR_SECONDS
    rows = [row for row in t.reads_by_hour(now - _HALF_LIVES_OF_HOURS * reads.half_life) if row[0] < until]
    hours, counts = zip(*rows, strict=True) if rows else ((), ())
    return hours_of_reads(hours, counts, until=until, hour=_HOUR_SECONDS)


def perceived(
    policy: MirrorPolicy, t: Transaction, reads: Reads, now: float
) -> tuple[float, list[ReaderFreshness]]:
    """Return the freshness of what is read, nan if nothing is, and that of users, the most active first."""
    profile, users = profile_of_reads(t, reads, now)
    if profile is None:
        return nan, []
    table = policy.table
    keys = table.known(sorted(profile.keys))
    places = table.places(keys)
    there = table.present[places]
    ids = table["id"][places[there]].tolist()
    fresh = dict(zip(ids, policy.known.fresh(places[there], now).tolist(), strict=True))

    def mean(pairs: list[tuple[int, float]]) -> float:
        known = [(fresh[element], amount) for element, amount in pairs if element in fresh]
        total = sum(amount for _, amount in known)
        return sum(one * amount for one, amount in known) / total if total > 0 else nan

    everyone = mean(list(zip(profile.keys, profile.accesses.tolist(), strict=True)))
    if users is None:
        return everyone, []
    own: dict[str, list[tuple[int, float]]] = {}
    for (user, element), amount in zip(users.pairs.keys, users.pairs.accesses.tolist(), strict=True):
        own.setdefault(user, []).append((element, amount))
    told = [
        ReaderFreshness(user, sum(amount for _, amount in pairs), reads.weights.get(user, 1.0), mean(pairs))
        for user, pairs in own.items()
    ]
    return everyone, sorted(told, key=lambda one: -one.reads)[:_MOST_USERS_TOLD]
