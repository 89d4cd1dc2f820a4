"""Profiles: who wants what, from accesses.

Each access counts 1 when it happens and half of that a half-life later. Counts are kept as they would be at a
fixed moment (an access h half-lives after it counts 2^h), so that old ones need no touch as time goes on, and
accesses may come in any order. (Cormode et al., "Forward decay", ICDE 2009.)

Memory is bounded: beyond ``most`` elements, half of them are dropped, and what the most counted of these had
is taken off all that stay (Misra & Gries 1982; Agarwal et al., "Mergeable summaries", PODS 2012). So a count
is never too high, and too low by at most `Profile.error`, which is at most 2/most of all accesses.

Elements that have not been seen keep a little weight. Of the accesses so far, the share that went to
elements seen only once tells how likely the next is to go to one not seen before (Good 1953), and the unseen
share that equally; but none gets more than an element seen once.

The profiles of users make a master profile: the shares of each user's accesses, times the weight of the user
(Carney, Lee & Zdonik, ICDE 2003, section 2).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from math import exp2, inf, isfinite, log
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unstale.arguments import Floats, numbers, scalar, whole
from unstale.errors import InvalidInput, NoAnswer

_MOST_HALF_LIVES = 500.0
"""Half-lives from the moment for which counts are kept, beyond which another one is chosen."""
_MOST_KEYS = 10_000_000
_STATE = ("half_life", "most", "start", "latest", "moment", "total", "error")


class Profile:
    """Accesses to elements, counted with a half-life.

    Times are numbers in any unit, and the half-life is in the same. At most so many elements are kept as
    ``most`` says. ``start`` is when counting began; if it is not given, at the first access.

    >>> profile = Profile(half_life=10.0)
    >>> profile.count(["a", "b", "a"], times=[0.0, 10.0, 10.0])
    >>> profile["a"], profile["b"], profile.total
    (1.5, 1.0, 2.5)
    """

    def __init__(self, half_life: float = inf, *, most: int = _MOST_KEYS, start: float | None = None) -> None:
        self.half_life = scalar("half_life", half_life, above=0, infinite=True)
        self.most = whole("most", most, at_least=2)
        self.start = inf if start is None else scalar("start", start)
        """When counting began."""
        self.latest = -inf if start is None else self.start
        """Moment of the last access, or to which the profile was brought by `until`."""
        self._moment = 0.0 if start is None else self.start
        self._total = self._error = 0.0
        self._slots: dict[Hashable, int] = {}
        self._amounts, self._once = np.empty(0), np.empty(0, bool)

    # --- counting -------------------------------------------------------------------------------------------

    def count(
        self,
        keys: Sequence[Hashable],
        times: ArrayLike,
        counts: ArrayLike | None = None,
        *,
        places: ArrayLike | None = None,
    ) -> None:
        """Count accesses.

        Parameters
        ----------
        keys
            The key of the element of each access; or, with ``places``, each key once, which is quicker where
            keys repeat.
        times
            The time of each access.
        counts
            How many accesses each one stands for; 1 by default.
        places
            Where in ``keys`` the key of each access is.

        Examples
        --------
        >>> profile = Profile()
        >>> profile.count(["a", "b"], times=[1.0, 2.0, 3.0], places=[0, 1, 0])
        >>> profile.top(1)
        [('a', 2.0)]
        """
        when = np.atleast_1d(numbers("times", times))
        amount = np.ones(1) if counts is None else np.atleast_1d(numbers("counts", counts, at_least=0))
        if isinstance(keys, str | bytes):
            raise InvalidInput(f"keys must be a list of keys; it is {keys!r}")
        where = _places(keys, when, places)
        if amount.shape not in {(1,), when.shape}:
            raise InvalidInput(
                f"counts must be one number or one for each access; its shape is {amount.shape}"
            )
        distinct: Sequence[Hashable] = keys
        if places is None:
            distinct = list(dict.fromkeys(keys))
            codes = dict(zip(distinct, range(len(distinct)), strict=True))
            where = np.fromiter(map(codes.__getitem__, keys), np.int64, len(keys))
        if when.size:
            self._add(distinct, where, when, np.broadcast_to(amount, when.shape))

    def _add(
        self, keys: Sequence[Hashable], places: NDArray[np.int64], times: Floats, counts: Floats
    ) -> None:
        self._reach(float(times.min()), float(times.max()))
        now = counts * self._growth(times)
        tally = np.bincount(places, counts, len(keys))
        self._total += float(now.sum())
        amounts = np.bincount(places, now, len(keys)).astype(float)
        seen = np.flatnonzero(tally)
        if seen.size < len(keys):  # some keys have no access here
            keys, amounts, tally = [keys[place] for place in seen.tolist()], amounts[seen], tally[seen]
        self._put(keys, amounts, tally <= 1.0)

    def _put(self, keys: Sequence[Hashable], amounts: Floats, once: NDArray[np.bool_]) -> None:
        """Add amounts, one for each of the keys, which differ from each other."""
        slots = self._slots
        known = len(slots)
        found = np.fromiter((slots.setdefault(key, len(slots)) for key in keys), np.int64, len(keys))
        self._make_room(len(slots))
        old = found < known
        self._amounts[found] += amounts
        self._once[found] = once & ~old
        if len(slots) > self.most:
            self._prune()

    def _make_room(self, size: int) -> None:
        if size > self._amounts.size:
            more = max(size, min(2 * self._amounts.size, self.most)) - self._amounts.size
            self._amounts = np.concatenate([self._amounts, np.zeros(more)])
            self._once = np.concatenate([self._once, np.zeros(more, bool)])

    def _prune(self) -> None:
        """Keep the upper half; take from all what the most counted of the others has."""
        size, kept = len(self._slots), self.most // 2
        amounts = self._amounts[:size]
        lost = float(np.partition(amounts, size - kept - 1)[size - kept - 1])
        stays = np.flatnonzero(amounts > lost)
        keys = list(self._slots)
        self._slots = {keys[place]: slot for slot, place in enumerate(stays.tolist())}
        self._amounts, self._once = amounts[stays] - lost, self._once[:size][stays]
        self._error += lost

    def _reach(self, first: float, last: float) -> None:
        """Move on to the time of accesses."""
        if self.latest == -inf:
            self._moment = last
        self.start, self.latest = min(self.start, first), max(self.latest, last)
        if isfinite(self.half_life) and self.latest - self._moment > _MOST_HALF_LIVES * self.half_life:
            factor = exp2(max((self._moment - self.latest) / self.half_life, -1e4))
            self._amounts *= factor
            self._total, self._error, self._moment = self._total * factor, self._error * factor, self.latest

    def _growth(self, times: Floats) -> Floats:
        with np.errstate(under="ignore"):
            return np.exp2((times - self._moment) / self.half_life)

    def until(self, time: float) -> None:
        """Let time pass, without accesses; earlier times than those of accesses change nothing."""
        now = scalar("time", time)
        self._reach(now, now)

    # --- what has been counted ------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Return how many elements have been seen and kept."""
        return len(self._slots)

    def __contains__(self, key: Hashable) -> bool:
        """Tell whether an element has been seen and kept."""
        return key in self._slots

    def __getitem__(self, key: Hashable) -> float:
        """Return the accesses to an element; 0 if it has not been seen."""
        slot = self._slots.get(key)
        return 0.0 if slot is None else float(self._amounts[slot]) * self._decay

    @property
    def _decay(self) -> float:
        return 1.0 if self.latest == -inf else exp2((self._moment - self.latest) / self.half_life)

    @property
    def keys(self) -> list[Any]:
        """Of the elements that have been seen, in the order of `accesses`."""
        return list(self._slots)

    @property
    def accesses(self) -> Floats:
        """Accesses to each element; those of a half-life ago count half."""
        return self._amounts[: len(self)] * self._decay

    @property
    def seen_once(self) -> NDArray[np.bool_]:
        """Whether an element has had one access only, in the order of `accesses`."""
        return self._once[: len(self)].copy()

    @property
    def total(self) -> float:
        """Accesses to all elements, also to those that were dropped."""
        return self._total * self._decay

    @property
    def error(self) -> float:
        """By how much a count may be too low, because elements have been dropped."""
        return self._error * self._decay

    @property
    def span(self) -> float:
        """Time in which as many accesses would come as have been counted."""
        length = max(self.latest - self.start, 0.0)
        if not isfinite(self.half_life):
            return length
        return self.half_life / log(2.0) * -float(np.expm1(-log(2.0) * length / self.half_life))

    @property
    def frequencies(self) -> Floats:
        """Accesses to each element per unit time.

        >>> profile = Profile(half_life=50.0)
        >>> profile.count(["a"] * 1000, times=np.linspace(0.0, 500.0, 1000))
        >>> profile.frequencies.round(1).tolist()
        [2.0]
        """
        if not self.span > 0:
            raise NoAnswer("accesses at one moment only have no frequency; give start, when counting began")
        return self.accesses / self.span

    def top(self, count: int) -> list[tuple[Any, float]]:
        """Return the elements with the most accesses, and these; of equal ones, the first seen."""
        accesses = self.accesses
        keys = self.keys
        order = np.argsort(-accesses, kind="stable")[: whole("count", count)]
        return [(keys[place], float(accesses[place])) for place in order.tolist()]

    def weights(self, keys: Sequence[Hashable], unseen: float | None = None) -> Floats:
        """Return the weight of each of some elements, in their order; weights sum to 1.

        ``unseen`` is the share of those that have not been seen, together; if it is None, it is learned.

        >>> profile = Profile()
        >>> profile.count(list("aaaaaabbc"), times=np.arange(9.0))
        >>> profile.weights(["a", "b", "c", "d"]).round(3).tolist()
        [0.6, 0.2, 0.1, 0.1]
        >>> profile.weights(["a", "b", "c", "d"], unseen=0.0).round(3).tolist()
        [0.667, 0.222, 0.111, 0.0]
        """
        share = None if unseen is None else scalar("unseen", unseen, at_least=0, at_most=1)
        if isinstance(keys, str | bytes):
            raise InvalidInput(f"keys must be a list of keys; it is {keys!r}")
        slots = np.fromiter((self._slots.get(key, -1) for key in keys), np.int64, len(keys))
        seen = slots >= 0
        amounts = np.where(seen, self._amounts[slots] if len(self) else 0.0, 0.0)
        total, others = float(amounts.sum()), int(np.count_nonzero(~seen))
        if not total > 0:
            return np.full(len(keys), 1.0 / max(len(keys), 1))
        if not others:
            return amounts / total
        if share is None:
            share = _unseen_share(
                amounts[seen & self._once[slots]] / total, others, self._one(amounts, total)
            )
        return np.where(seen, amounts / total * (1.0 - share), share / others)

    def _one(self, amounts: Floats, total: float) -> float:
        """Return the share of one access, or of the element with the least."""
        least = float(amounts[amounts > 0].min()) / total
        return min(1.0 / (total * self._decay), least) if self._decay > 0 else least

    # --- several profiles -----------------------------------------------------------------------------------

    @classmethod
    def joined(cls, parts: Iterable[Profile]) -> Self:
        """Return the profile of all accesses of several: parts of a log, say.

        >>> parts = Profile(), Profile()
        >>> parts[0].count(["a", "b"], times=[0.0, 1.0])
        >>> parts[1].count(["a"], times=[2.0])
        >>> Profile.joined(parts)["a"]
        2.0
        """
        profiles = _alike(parts)
        return cls._mixed(profiles, [1.0] * len(profiles))

    @classmethod
    def merge(cls, profiles: Iterable[Profile], weights: ArrayLike | None = None) -> Self:
        """Return the master profile of several users: the shares of each, times the weight of the user.

        Without weights, all users weigh the same, however many accesses they have. The master profile has as
        many accesses as all of them together.

        >>> busy, calm = Profile(), Profile()
        >>> busy.count(["a"] * 9 + ["b"], times=np.arange(10.0))
        >>> calm.count(["b"], times=[5.0])
        >>> Profile.merge([busy, calm]).weights(["a", "b"]).tolist()
        [0.45, 0.55]
        >>> Profile.merge([busy, calm], weights=[3.0, 1.0]).weights(["a", "b"]).round(3).tolist()
        [0.675, 0.325]
        """
        users = _alike(profiles)
        each = np.ones(len(users)) if weights is None else numbers("weights", weights, at_least=0)
        if each.shape != (len(users),):
            raise InvalidInput(
                f"weights must be one for each of the {len(users)} profiles; its shape is {each.shape}"
            )
        totals = np.array([user.accesses.sum() * _aged(user, users) for user in users])
        wanted = np.where(totals > 0, each, 0.0)
        if not wanted.any():
            raise InvalidInput("weights must not be 0 for all profiles that have accesses")
        with np.errstate(divide="ignore", invalid="ignore"):
            factors = np.where(wanted > 0, wanted / totals, 0.0) * totals.sum() / wanted.sum()
        return cls._mixed(users, factors.tolist())

    @classmethod
    def _mixed(cls, profiles: Sequence[Profile], factors: Sequence[float]) -> Self:
        """Add profiles, each times a factor."""
        mixed = cls(profiles[0].half_life, most=max(one.most for one in profiles))
        mixed.latest = mixed._moment = max(one.latest for one in profiles)
        mixed.start = min(one.start for one in profiles)
        for one, factor in zip(profiles, factors, strict=True):
            if factor > 0 and one.latest > -inf:
                scale = factor * _aged(one, profiles)
                mixed._total += one.total * scale
                mixed._error += one.error * scale
                mixed._put(one.keys, one.accesses * scale, one.seen_once)
        return mixed

    @classmethod
    def shared_out(cls, source: Profile, keys: Sequence[Hashable], shares: Floats) -> Self:
        """Return as many accesses as ``source`` has, in proportion to shares: one for each of its elements.

        ``keys`` are others for these, and may repeat.
        """
        codes: dict[Hashable, int] = {}
        places = np.fromiter((codes.setdefault(key, len(codes)) for key in keys), np.int64, len(keys))
        made = cls(source.half_life, most=source.most)
        made.start, made.latest, made._moment = source.start, source.latest, source.latest
        made._total, made._error = source.total, source.error
        scale = float(source.accesses.sum() / shares.sum())
        once = (np.bincount(places) == 1) & (np.bincount(places, source.seen_once) > 0)
        made._put(list(codes), np.bincount(places, scale * shares).astype(float), once)
        return made

    # --- to be continued ------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return all that is needed to go on later, as numbers and arrays; keys must be text.

        >>> profile = Profile(half_life=7.0)
        >>> profile.count(["a", "b"], times=[0.0, 1.0])
        >>> again = Profile.resume(profile.state())
        >>> again["a"] == profile["a"], again.keys
        (True, ['a', 'b'])
        """
        for key in self._slots:
            if not isinstance(key, str):
                raise InvalidInput(f"keys must be text to be kept; {key!r} is not")
        coded = [key.encode("utf-8", "surrogatepass") for key in self.keys]
        return {
            "keys": np.frombuffer(b"".join(coded), np.uint8),
            "ends": np.cumsum([len(key) for key in coded], dtype=np.int64),
            "amounts": self._amounts[: len(self)].copy(),
            "once": self._once[: len(self)].copy(),
            **{name: getattr(self, name) for name in _STATE[:4]},
            **{name: getattr(self, f"_{name}") for name in _STATE[4:]},
        }

    @classmethod
    def resume(cls, state: Mapping[str, Any]) -> Self:
        """Go on where `state` was taken."""
        if missing := [name for name in ("keys", "ends", "amounts", "once", *_STATE) if name not in state]:
            raise InvalidInput(f"state must be what Profile.state returned; it has no {missing[0]!r}")
        values = {name: np.asarray(state[name]).item() for name in _STATE}  # from a file they come as arrays
        self = cls(values["half_life"], most=values["most"])
        self.start, self.latest = values["start"], values["latest"]
        self._moment, self._total, self._error = values["moment"], values["total"], values["error"]
        text, ends = np.asarray(state["keys"], np.uint8).tobytes(), np.asarray(state["ends"]).tolist()
        keys = [text[a:b].decode("utf-8", "surrogatepass") for a, b in zip([0, *ends], ends, strict=False)]
        self._slots = {key: slot for slot, key in enumerate(keys)}
        self._amounts, self._once = np.array(state["amounts"], float), np.array(state["once"], bool)
        if not len(self._slots) == self._amounts.size == self._once.size:
            raise InvalidInput(
                f"state must be what Profile.state returned; it has {len(keys)} keys for {self._amounts.size}"
            )
        return self


def _aged(one: Profile, profiles: Sequence[Profile]) -> float:
    """Return what the accesses of one profile count at the latest moment of several."""
    latest = max(other.latest for other in profiles)
    return 1.0 if one.latest == -inf else exp2(max((one.latest - latest) / one.half_life, -1e4))


def _unseen_share(single: Floats, others: int, one: float) -> float:
    """Return the share of elements that have not been seen, from the shares of those seen once.

    >>> round(_unseen_share(np.full(20, 0.001), 1000, 0.001), 6)        # shared by many
    0.02
    >>> round(_unseen_share(np.full(20, 0.001), 5, 0.001), 6)           # no more each than if seen once
    0.004975
    """
    share, each = (float(single.sum()), float(single.mean())) if single.size else (one, one)
    return min(share, others * each / (1.0 + others * each))


def _alike(parts: Iterable[Profile]) -> list[Profile]:
    profiles = list(parts)
    for one in profiles:
        if not isinstance(one, Profile):
            raise InvalidInput(f"profiles must be profiles; one is {one!r}")
        if one.half_life != profiles[0].half_life:
            raise InvalidInput(
                f"profiles must have one half-life; they have {profiles[0].half_life} and {one.half_life}"
            )
    if not profiles:
        raise InvalidInput("profiles must not be empty; give at least one")
    return profiles


def _places(keys: Sequence[Hashable], times: Floats, places: ArrayLike | None) -> NDArray[np.int64]:
    """Check that keys and times fit together."""
    if places is None:
        if times.shape != (len(keys),):
            raise InvalidInput(
                f"times must be one for each of the {len(keys)} keys; its shape is {times.shape}"
            )
        return np.empty(0, np.int64)
    where = np.asarray(places)
    if where.dtype.kind not in "iu" and where.size:
        raise InvalidInput(f"places must be whole numbers; their type is {where.dtype}")
    if where.shape != times.shape:
        raise InvalidInput(
            f"places must be one for each access; its shape is {where.shape}, that of times {times.shape}"
        )
    if where.size and not (where.min() >= 0 and where.max() < len(keys)):
        raise InvalidInput(
            f"places must be from 0 to {len(keys) - 1}; they are from {where.min()} to {where.max()}"
        )
    return where.astype(np.int64, copy=False)
