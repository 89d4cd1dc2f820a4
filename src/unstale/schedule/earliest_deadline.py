"""The earliest deadline first: a slot of time for each poll, and every element within one poll of its share.

Azar et al. (PNAS 2018), Algorithm 3: slots of length ``1/sum(frequencies)`` are given to elements so that,
with ``rho = frequency / sum(frequencies)`` and N(t) the polls of an element in the first t slots,

    |t*rho - N(t)| <= 1        for every element and every t.

The j-th poll of an element may be made from slot ``floor((j-1)/rho) + 1`` on, and is due by slot
``ceil(j/rho)``. Each slot goes to the poll that may be made and is due first; of those due in the same slot,
to the element of the smallest number. The paper looks at all elements in each slot. Here a calendar says who
may be polled from a slot on, and a heap who is due first, so that a slot takes O(log n).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from math import ceil
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unstale.arguments import Floats, scalar
from unstale.errors import InvalidInput

from .compiled.slots import (
    BOUNDARY,
    REST,
    SHARE,
    amounts,
    by_deadline,
    lags_of,
    lay_out,
    overload,
    put_back,
    resettle,
    shift,
)
from .orders import frequencies_of
from .polls import Elements, Polls, later, one_by_one

_SHARE_BITS = 60
"""Of the sum of the shares: three jobs of the smallest share fit into 63."""

_POLL_PLACE_IN_SLOT = 0.5
"""Where in a slot its poll is."""

_SUM_ERROR_POLLS = 0.25
"""Polls by which sums may be off: less than one, and so no poll at all, even if there are two such sums."""


class EarliestDeadline:
    """An endless stream of (time, element): one poll in the middle of each slot, the earliest deadline first.

    Frequencies become whole numbers, the shares of a total of about 2**60, so that nothing drifts. Whole
    frequencies, and all others that need no rounding, keep their exact proportions. Rounding moves a share by
    less than 1, and so, after t slots, the bound from 1 by less than ``t * (1 + n*rho) / 2**59``. The least
    share is 1, however low the frequency; an element of frequency 0 is never polled.

    >>> schedule = EarliestDeadline([1.0, 3.0, 4.0])
    >>> polls = schedule.until(1.0)
    >>> polls.elements.tolist()
    [2, 1, 2, 1, 2, 0, 1, 2]
    >>> polls.times[:3].tolist()
    [0.0625, 0.1875, 0.3125]
    """

    _ready: int

    def __init__(self, frequencies: ArrayLike, *, start: float = 0.0) -> None:
        self._now = scalar("start", start)
        self._rate, shares = _shares(frequencies_of(frequencies))
        self._slot, self._wait = 0, _POLL_PLACE_IN_SLOT
        self._begin = self._now
        self._lay_out(_records(shares))

    # --- the stream -----------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        return self._now

    @property
    def rate(self) -> float:
        return self._rate

    def __len__(self) -> int:
        return self._records.shape[0]

    def __iter__(self) -> Iterator[tuple[float, int]]:
        return one_by_one(self)

    def until(self, end: float) -> Polls:
        end = later(self._now, end)
        elements = np.empty(self._slots_before(end), np.int64)
        self._ready = by_deadline(
            self._records, self._total, self._heap, self._ready, self._calendar, self._slot, elements
        )
        if self._ready < 0:
            raise InvalidInput(
                "there are slots for which nobody is ready; the state that was resumed is not as it was taken"
            )
        times = self._time(np.arange(self._slot, self._slot + elements.size))
        self._slot += elements.size
        self._now = end
        return Polls(times, elements)

    def _time(self, slot: Any) -> Any:  # noqa: ANN401  (a number or an array)
        """When the slot after this one is polled."""
        return self._begin + (slot + _POLL_PLACE_IN_SLOT) / self._rate

    def _slots_before(self, end: float) -> int:
        if self._rate == 0.0:
            return 0
        guess = max(ceil(min((end - self._begin) * self._rate, 2.0**60)) - self._slot, 0)
        slots = range(self._slot, self._slot + 2 * guess + 2)  # rounding of times may hide some slots
        return bisect_left(slots, end, key=self._time)

    # --- other frequencies, and elements that come and go ---------------------------------------------------

    def swap(self, frequencies: ArrayLike) -> None:
        """Poll at these frequencies from now on; more of them than elements are for new elements.

        Slots go on without a gap: what is left of the one under way is stretched to fit. Each element goes on
        from the share of its interval that it has waited, so that it is polled neither twice nor late. If
        that makes more polls due than there are slots, or less, those who are behind their share wait for
        some slots longer, or those ahead for some slots less: as few as possible, and no longer than makes up
        for their share. An element that comes, or comes back, is polled within its first interval.

        From the swap on, with slots counted from there and the new frequencies, |t*rho - N(t)| < 2.

        >>> schedule = EarliestDeadline([1.0, 1.0])
        >>> schedule.until(1.5).elements.tolist()
        [0, 1, 0]
        >>> schedule.swap([1.0, 1.0, 2.0])
        >>> schedule.until(2.5).elements.tolist()
        [1, 2, 2, 0]
        """
        rate, shares = _shares(frequencies_of(frequencies))
        n = len(self)
        if shares.size < n:
            raise InvalidInput(
                f"frequencies must be at least one for each of the {n} elements; there are {shares.size}. "
                "Give 0 to elements that are gone"
            )
        if self._rate > 0:
            self._wait = (self._time(self._slot) - self._now) * self._rate
        self._rate = rate
        if not np.array_equal(shares, self._records[:, SHARE]):
            self._share_out(shares)
        self._begin = (
            self._now + (self._wait - _POLL_PLACE_IN_SLOT - self._slot) / rate if rate > 0 else self._now
        )

    def _share_out(self, shares: Elements) -> None:
        """Go on with other shares, from slot 0."""
        put_back(self._records, self._total, self._heap, self._ready)
        lags = np.zeros(shares.size)
        lags_of(self._records, self._total, self._slot, lags[: len(self)])
        lags[shares == 0] = 0.0
        records = _records(shares)
        total = int(shares.sum())
        if total > 0:
            resettle(_balanced(lags, shares, total), total, records)
        self._slot = 0
        self._lay_out(records)

    def _lay_out(self, records: NDArray[np.int64]) -> None:
        """Take these records up, all of which have the boundary before the next job."""
        n = records.shape[0]
        self._records = records
        self._total = int(records[:, SHARE].sum())
        self._heap = np.empty((n, 2), np.int64)
        self._calendar = np.empty(1 << max(n - 1, 63).bit_length(), np.int32)
        self._ready = lay_out(records, self._total, self._heap, self._calendar, self._slot)

    # --- to be continued ------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return all that is needed to go on later, as numbers and arrays.

        >>> schedule = EarliestDeadline([1.0, 3.0, 4.0])
        >>> _ = schedule.until(10.0)
        >>> again = EarliestDeadline.resume(schedule.state())
        >>> bool((again.until(20.0).elements == schedule.until(20.0).elements).all())
        True
        """
        records = self._records.copy()
        put_back(records, self._total, self._heap, self._ready)
        return {
            "share": records[:, SHARE].copy(),
            "boundary": records[:, BOUNDARY].copy(),
            "rest": records[:, REST].copy(),
            **{name: getattr(self, f"_{name}") for name in _STATE},
        }

    @classmethod
    def resume(cls, state: Mapping[str, Any]) -> Self:
        """Go on where `state` was taken, poll for poll."""
        if missing := [name for name in ("share", "boundary", "rest", *_STATE) if name not in state]:
            raise InvalidInput(
                f"state must be what EarliestDeadline.state returned; it has no {missing[0]!r}"
            )
        self = cls.__new__(cls)
        for name in _STATE:
            setattr(self, f"_{name}", np.asarray(state[name]).item())  # from a file numbers come as arrays
        share, boundary, rest = (np.asarray(state[name], np.int64) for name in ("share", "boundary", "rest"))
        if not share.shape == boundary.shape == rest.shape == (share.size,):
            raise InvalidInput(
                f"state must have one boundary and one rest for each share; there are {share.size} shares"
            )
        records = _records(share)
        records[:, BOUNDARY], records[:, REST] = boundary, rest
        self._lay_out(records)
        return self


_STATE = ("now", "rate", "begin", "slot", "wait")


def _shares(frequencies: Floats) -> tuple[float, Elements]:
    """Sum of the frequencies, and the frequencies as whole numbers in the same proportions."""
    rate = float(frequencies.sum())
    _, exponent = np.frexp(rate)
    with np.errstate(under="ignore"):
        shares = np.rint(np.ldexp(frequencies, _SHARE_BITS - exponent)).astype(np.int64)
    return rate, np.where(frequencies > 0, np.maximum(shares, 1), 0)


def _records(shares: Elements) -> NDArray[np.int64]:
    records = np.zeros((shares.size, 4), np.int64)
    records[:, SHARE] = shares
    return records


def _balanced(lags: Floats, shares: Elements, total: int) -> Floats:
    """Return lags that new shares can live with, as close to these as possible.

    Two things must hold. Lags must sum to 0, or slots would be left with nobody to be polled, or without end
    there would be too many. And at most x polls may be due within any x slots. It is enough if both hold but
    for less than one poll. Lags of 0 will always do, so lags are moved towards 0: by the same number of slots
    for all that are behind, and for all that are ahead, and by no more slots than needed.
    """
    sides = [amounts(lags, shares, total, 0.0, sign)[0] for sign in (1.0, -1.0)]
    moved, taken = np.empty(lags.size), 0.0
    while True:
        left = max(min(sides) - taken, 0.0)
        behind, ahead = (_slots_to(left, lags, shares, total, sign) for sign in (1.0, -1.0))
        shift(lags, shares, total, behind, ahead, moved)
        if (excess := overload(moved, shares, total)) < 2.0 * _SUM_ERROR_POLLS:
            return moved
        taken = max(2.0 * taken, excess)


def _slots_to(left: float, lags: Floats, shares: Elements, total: int, sign: float) -> float:
    """Slots by which to move the lags of a sign so that their sum is what is to be left, or just above.

    The sum is convex in the slots, so Newton's method comes from above, and never goes too far.
    """
    slots = 0.0
    while True:
        amount, given = amounts(lags, shares, total, slots, sign)
        if amount - left < _SUM_ERROR_POLLS or slots + (amount - left) / given == slots:
            return slots
        slots += (amount - left) / given
