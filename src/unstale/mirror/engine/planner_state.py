"""What the planner keeps in the store beside the rows of elements: one typed value.

Whoever wants to know it (the planner itself, reports, the dashboard) calls `PlannerState.read` with what
`Transaction.state` returns; nobody else decodes it. It is stored under eight names: ``planner`` (JSON),
``learner``, ``rhythm``, ``levels`` and ``told`` (arrays), ``classes`` (JSON), ``channels``, and ``budgets``
(JSON), which `Mirror.set_budget` writes. One of several cells has a ninth, ``share`` (JSON), which the runner
of cells writes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from typing import Any, NamedTuple

import numpy as np

from unstale.mirror.settings import Settings
from unstale.policy import Channels

__all__ = [
    "BudgetPair", "BudgetsSet", "HintsLeft", "PlannerState", "PollCounts", "ShareGiven", "packed", "unpacked",
]  # fmt: skip


class BudgetPair(NamedTuple):
    """Polls and bytes per second; None: no limit."""

    budget: float | None
    byte_budget: float | None


class HintsLeft(NamedTuple):
    """Hints about an element that no poll has followed yet."""

    element: int
    channel: str
    hints: int
    moments: Sequence[float] = ()
    """When they came."""


class PollCounts(NamedTuple):
    """Polls since the last sample, those of them that failed, and their bytes."""

    polls: int = 0
    failed: int = 0
    traffic: int = 0


@dataclass(frozen=True, slots=True)
class BudgetsSet:
    """Budgets that a user has set, and those of the settings that they count instead of."""

    budgets: BudgetPair
    instead_of: BudgetPair | None
    """None, as older versions wrote it: whatever the settings say."""

    def kept(self) -> dict[str, bytes]:
        """Return it as `Transaction.keep` takes it."""
        return {"budgets": json.dumps({**self.budgets._asdict(), "instead_of": self.instead_of}).encode()}


class ShareGiven(NamedTuple):
    """The part of a budget that a cell was given; it counts until one with a higher number comes."""

    number: int = 0
    share: float = 1.0

    def kept(self) -> dict[str, bytes]:
        """Return it as `Transaction.keep` takes it."""
        return {"share": json.dumps(self).encode()}


@dataclass(frozen=True, slots=True)
class PlannerState:
    """Where the planner had got to, and what it had learned of all elements together."""

    last_poll: int = 0
    """Number of the last poll that it has heard of."""
    last_edit: int = 0
    """Number of the last edit that it has taken in."""
    price: float = 0.0
    objective: str = "freshness"
    """In whose unit the price is."""
    paid: float = -inf
    """The moment up to which the budget of polls is spent."""
    paid_bytes: float = -inf
    """The same for the budget of bytes."""
    paced: float = -inf
    """The moment before which the highest rate allows no poll."""
    mean_size: float = 1000.0
    """Bytes of a poll of which nothing is known."""
    budgets: BudgetPair | None = None
    """Those that it spends; None if it never ran."""
    hints: Sequence[HintsLeft] = ()
    audit: Mapping[int, str] = field(default_factory=dict)
    """Elements to be polled out of turn, and for which audit."""
    counts: PollCounts = field(default_factory=PollCounts)
    learner: Mapping[str, Any] | None = None
    """What the learner knows of all elements together; None if nothing yet."""
    classes: bytes = b""
    """Which elements are alike, as `ClassTree` writes it; empty if nothing is known yet."""
    rhythm: Mapping[str, Any] | None = None
    """What is known of the hours at which classes change; None if nothing yet."""
    levels: Mapping[str, Any] | None = None
    """How much classes change as a whole, and how surely; None if nothing is known yet."""
    told: Mapping[str, Any] | None = None
    """How far the groups are believed that tell when elements have changed; None if nothing is known yet."""
    channels: Channels = field(default_factory=Channels)
    """How good hints of each channel are."""
    budgets_set: BudgetsSet | None = None
    """What `Mirror.set_budget` has set; the planner only reads it."""
    share: ShareGiven = field(default_factory=ShareGiven)
    """The part of the budget that counts; all of it, unless this is one of several cells."""
    share_taken: int = 0
    """The number of the part by which the planner went last."""

    @classmethod
    def read(cls, kept: Mapping[str, bytes]) -> PlannerState:
        """Return the state from what is kept; what an older version did not write is as at the beginning."""
        found = json.loads(kept.get("planner", b"{}"))
        blank = cls()
        return cls(
            last_poll=found.get("heard", 0),
            last_edit=found.get("edited", 0),
            price=found.get("price", blank.price),
            objective=found.get("objective", blank.objective),
            paid=found.get("paid", blank.paid),
            paid_bytes=found.get("paid_bytes", blank.paid_bytes),
            paced=found.get("paced", blank.paced),
            mean_size=found.get("mean_size", blank.mean_size),
            budgets=BudgetPair(*found["budgets"]) if "budgets" in found else None,
            hints=tuple(HintsLeft(one[0], one[1], one[2], tuple(*one[3:])) for one in found.get("hints", ())),
            audit={int(element): name for element, name in found.get("audit", {}).items()},
            counts=PollCounts(*found.get("counted", ())),
            learner=unpacked(kept["learner"]) if "learner" in kept else None,
            classes=kept.get("classes", b""),
            rhythm=unpacked(kept["rhythm"]) if "rhythm" in kept else None,
            levels=unpacked(kept["levels"]) if "levels" in kept else None,
            told=unpacked(kept["told"]) if "told" in kept else None,
            channels=Channels.read(kept.get("channels", b"")),
            budgets_set=_budgets_set(json.loads(kept.get("budgets", b"{}"))),
            share=ShareGiven(*json.loads(kept.get("share", b"[]"))),
            share_taken=found.get("share", 0),
        )

    def kept(self) -> dict[str, bytes]:
        """Return the state as `Transaction.keep` takes it, without what users have set."""
        position: dict[str, Any] = {
            "heard": self.last_poll,
            "edited": self.last_edit,
            "price": self.price,
            "paid": self.paid if isfinite(self.paid) else 0.0,
            "paid_bytes": self.paid_bytes if isfinite(self.paid_bytes) else 0.0,
            "mean_size": self.mean_size,
            "budgets": self.budgets,
            "hints": [one if one.moments else one[:3] for one in self.hints],
            "audit": self.audit,
            "counted": self.counts,
        }
        if self.objective != PlannerState().objective:
            position["objective"] = self.objective
        if isfinite(self.paced):
            position["paced"] = self.paced
        if self.share_taken:
            position["share"] = self.share_taken
        kept = {"planner": json.dumps(position).encode(), "channels": self.channels.text()}
        if self.classes:
            kept["classes"] = self.classes
        learned = {"learner": self.learner, "rhythm": self.rhythm, "levels": self.levels, "told": self.told}
        return kept | {name: packed(arrays) for name, arrays in learned.items() if arrays is not None}

    def in_force(self, settings: Settings) -> Settings:
        """Return the settings with the budgets that a user has set, unless they have changed after that.

        A cell has its part of them, and of the highest rate.
        """
        changed = self.budgets_set
        said = settings.budget, settings.byte_budget
        if changed is not None and changed.instead_of in (None, said):
            settings = replace(settings, **changed.budgets._asdict())
        if self.share == ShareGiven():
            return settings
        part = self.share.share
        return replace(
            settings,
            budget=None if settings.budget is None else part * settings.budget,
            byte_budget=None if settings.byte_budget is None else part * settings.byte_budget,
            max_rate=None if settings.fastest is None else part * settings.fastest,
        )


def _budgets_set(found: Mapping[str, Any]) -> BudgetsSet | None:
    if not found:
        return None
    said = found.get("instead_of")
    budgets = BudgetPair(found["budget"], found["byte_budget"])
    return BudgetsSet(budgets, None if said is None else BudgetPair(*said))


def packed(arrays: Mapping[str, Any]) -> bytes:
    """Return arrays as bytes: a line of JSON that says what they are, and their numbers."""
    columns = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    head = {name: [array.dtype.str, list(np.shape(arrays[name]))] for name, array in columns.items()}
    return json.dumps(head).encode() + b"\n" + b"".join(array.tobytes() for array in columns.values())


def unpacked(text: bytes) -> dict[str, Any]:
    """Return the arrays that were packed."""
    head, _, rest = text.partition(b"\n")
    found, start = {}, 0
    for name, (kind, shape) in json.loads(head).items():
        count = int(np.prod(shape, dtype=np.int64))
        found[name] = np.frombuffer(rest, kind, count, start).reshape(shape)
        start += count * np.dtype(kind).itemsize
    return found
