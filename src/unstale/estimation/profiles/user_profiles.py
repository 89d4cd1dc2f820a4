"""The profiles of many users, counted together."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from math import inf
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unstale.arguments import scalar
from unstale.errors import InvalidInput

from .profile import Profile


class UserProfiles:
    """What each user accesses, with a half-life; ``most`` is how many pairs of user and element are kept.

    >>> users = UserProfiles()
    >>> users.count(["ann"] * 3 + ["bob"], ["x", "x", "y", "y"], times=[0.0, 1.0, 2.0, 3.0])
    >>> users.master().weights(["x", "y"]).round(3).tolist()
    [0.333, 0.667]
    >>> users.master({"ann": 3.0}).weights(["x", "y"]).tolist()
    [0.5, 0.5]
    """

    def __init__(self, half_life: float = inf, *, most: int = 10_000_000, start: float | None = None) -> None:
        self.pairs = Profile(half_life, most=most, start=start)
        """Keys are pairs of user and element."""

    def __len__(self) -> int:
        """Return how many users have been seen and kept."""
        return len({user for user, _ in self.pairs.keys})

    def count(
        self,
        users: Sequence[Hashable],
        keys: Sequence[Hashable],
        times: ArrayLike,
        counts: ArrayLike | None = None,
        *,
        user_places: ArrayLike | None = None,
        places: ArrayLike | None = None,
    ) -> None:
        """Count accesses, as `Profile.count` does.

        Parameters
        ----------
        users
            The user of each access; or, with ``user_places``, each user once.
        keys, times, counts, places
            As in `Profile.count`.
        user_places
            Where in ``users`` the user of each access is.
        """
        if places is None and user_places is None:
            if len(users) != len(keys):
                raise InvalidInput(
                    f"users must be one for each of the {len(keys)} keys; there are {len(users)}"
                )
            self.pairs.count(list(zip(users, keys, strict=True)), times, counts)
            return
        if places is None or user_places is None:
            raise InvalidInput("places and user_places must be given together")
        both = np.asarray(user_places, np.int64) * len(keys) + np.asarray(places, np.int64)
        codes, where = np.unique(both, return_inverse=True)
        who, what = (part.tolist() for part in np.divmod(codes, max(len(keys), 1)))
        pairs = [(users[i], keys[j]) for i, j in zip(who, what, strict=True)]
        self.pairs.count(pairs, times, counts, places=where)

    def master(self, weights: Mapping[Any, float] | None = None, *, others: float = 1.0) -> Profile:
        """Return the master profile: the shares of each user, times the weight of the user.

        ``weights`` has those of some users; ``others`` is that of all others.
        """
        rest = scalar("others", others, at_least=0)
        given = {user: scalar(f"weights[{user!r}]", one, at_least=0) for user, one in (weights or {}).items()}
        users, user_of = _coded([user for user, _ in self.pairs.keys])
        amounts = self.pairs.accesses
        totals = np.bincount(user_of, amounts, len(users))
        each = np.array([given.get(user, rest) for user in users])
        each = np.where(totals > 0, each, 0.0)
        if not each.any():
            raise InvalidInput("weights must not be 0 for all users")
        shares = amounts / np.where(totals > 0, totals, 1.0)[user_of] * each[user_of]
        return Profile.shared_out(self.pairs, [key for _, key in self.pairs.keys], shares)


def _coded(values: list[Any]) -> tuple[list[Any], NDArray[np.int64]]:
    """Return the values that differ, and for each where it is among them."""
    codes: dict[Any, int] = {}
    places = np.fromiter((codes.setdefault(value, len(codes)) for value in values), np.int64, len(values))
    return list(codes), places
