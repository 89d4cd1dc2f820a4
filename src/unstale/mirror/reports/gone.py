"""Elements that are gone at their source: how many there are, and groups that lost most of theirs at once.

What is known to be gone is no stale copy. It is left out of freshness, of the price, of audits and of plans,
and has a figure of its own. Nothing is deleted: the last copies stay, and the elements are looked for again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unstale.mirror.engine.load_policy import MirrorPolicy
from unstale.policy.element_table import GONE, NEW
from unstale.wording import plural

_FEWEST_LOST = 5
"""Elements of a group that must be lost for that to be an alarm."""
_POLLS_WITHIN_A_DAY = 5
"""Polls in a row that find an element gone in about a day: they are 1, 2, 4, 8 and 16 hours apart."""


@dataclass(frozen=True)
class LostGroup:
    """A group that lost most of its elements at once."""

    name: str
    lost: int
    """Elements that were there, and are gone since about a day or less; of a sample, as the next."""
    known: int
    """Elements that were there at that time."""
    whole: bool
    """Whether all elements were counted, not a sample."""

    def __str__(self) -> str:
        """Say what happened, and what to do."""
        of_all = f"{self.lost:,} of its {plural(self.known, 'element')}"
        count = of_all if self.whole else f"about {self.lost / self.known:.0%} of its elements"
        return (
            f"{self.name} has lost {count} within about a day: they are gone at their source. No copy is "
            "deleted. See whether the source is broken or has moved; if it is meant, remove what is gone"
        )


def lost_groups(policy: MirrorPolicy) -> list[LostGroup]:
    """Return groups that lost most of their elements at once, those that lost most first."""
    table = policy.table
    seen = table.wanted & ~np.isnan(table["size"]) & (table["state"] != NEW)  # it was there once
    lately = seen & (table["state"] == GONE) & (table["failures"] <= _POLLS_WITHIN_A_DAY)
    if np.count_nonzero(lately) < _FEWEST_LOST:
        return []
    size = int(table["group"].max(initial=0)) + 1
    lost = np.bincount(table["group"][lately], minlength=size)
    there = np.bincount(table["group"][seen & (table["state"] != GONE)], minlength=size)
    found = [
        LostGroup(
            policy.limits.group(number).name, int(lost[number]), int(lost[number] + there[number]),
            whole=not policy.others,
        )
        for number in np.flatnonzero((lost >= _FEWEST_LOST) & (lost > there)).tolist()
    ]  # fmt: skip
    return sorted(found, key=lambda one: (-one.lost, one.name))
