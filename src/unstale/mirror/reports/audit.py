"""Audits: a random sample is polled out of turn, to see whether copies are as fresh as the mirror says."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite, nan, sqrt
from typing import Self

import numpy as np

from unstale.errors import InvalidInput
from unstale.mirror.json_values import fields_json
from unstale.mirror.source import Json
from unstale.mirror.store.contract import PollRecord, Transaction
from unstale.policy.knowledge import STANDARD_ERRORS

_AUDITS_KEPT = 100
_MOST_POLLS_READ = 1_000_000
_ANSWERS = frozenset({"changed", "unchanged", "gone"})
"""Outcomes of polls that saw something."""


@dataclass(frozen=True)
class Audit:
    """What a random sample of polls said about the estimates."""

    time: float
    sample: int
    """Polls of the sample that saw something."""
    predicted: float
    """Share of fresh copies that was expected of the sample; nan if no poll saw anything, as the next."""
    true: float
    """Share of them that were."""
    low: float
    """A 90 % interval of the true share of all copies."""
    high: float
    agrees: bool
    """Whether what was expected is within it."""
    failed: int
    """Polls of the sample that saw nothing."""
    gone: int = 0
    """Elements of the sample that were found gone: nobody knew that, so their copies were not fresh."""

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON, as `unstale.mirror.json_values` says."""
        return fields_json(self)


@dataclass
class AuditRequest:
    """Elements that an audit wants to be polled, and what has come of it so far."""

    wanted: set[int]
    """Numbers of elements."""
    after: int
    """Number of the last poll before the request."""
    polls: list[PollRecord] = field(default_factory=list)
    missing: int = 0

    @classmethod
    def make(cls, t: Transaction, sample: int, seed: int | None, now: float) -> Self:
        """Choose a sample, by weight, among elements that have a copy, and ask the planner for polls."""
        if sample < 1:
            raise InvalidInput(f"sample must be at least 1; it is {sample}")
        ids, weights = [np.empty(0, np.int64)], [np.empty(0)]
        for columns in t.load():
            able = np.array([state == "ok" for state in columns.state], bool) & ~np.isnan(columns.last)
            able &= columns.weight > 0
            ids.append(columns.id[able])
            weights.append(columns.weight[able])
        all_ids, all_weights = np.concatenate(ids), np.concatenate(weights)
        if not all_ids.size:
            raise InvalidInput("there is nothing to audit: no element has a copy yet; run the mirror first")
        chosen = np.random.default_rng(seed).choice(
            all_ids, min(sample, all_ids.size), replace=False, p=all_weights / all_weights.sum()
        )
        latest = t.polls(None, 1)
        t.edit([("audit", int(number), now, f"audit {now:.0f}") for number in chosen])
        return cls(set(chosen.tolist()), latest[0].id if latest else 0)

    def look(self, t: Transaction) -> None:
        """Read which polls have been made; elements that have been removed meanwhile are not waited for."""
        found = t.polls(None, _MOST_POLLS_READ, self.after)
        self.polls = [poll for poll in found if not poll.planned and poll.element in self.wanted]
        missing = self.wanted - {poll.element for poll in self.polls}
        there = {int(number) for columns in t.load(sorted(missing)) for number in columns.id}
        self.wanted -= missing - there
        self.missing = len(there)


def audit_of(polls: Sequence[PollRecord], now: float) -> Audit:
    """Return what polls of a random sample say about the estimates.

    The interval is Wilson's, for the share of copies that were fresh.
    """
    saw = [poll for poll in polls if poll.outcome in _ANSWERS and isfinite(poll.predicted)]
    count = len(saw)
    if not count:
        return Audit(now, 0, nan, nan, 0.0, 1.0, agrees=True, failed=len(polls))
    predicted = sum(poll.predicted for poll in saw) / count
    true = sum(poll.outcome == "unchanged" for poll in saw) / count
    z2 = STANDARD_ERRORS**2 / count
    middle = (true + 0.5 * z2) / (1.0 + z2)
    half = sqrt(true * (1.0 - true) * z2 + 0.25 * z2**2) / (1.0 + z2)
    low, high = max(middle - half, 0.0), min(middle + half, 1.0)
    failed, gone = len(polls) - count, sum(poll.outcome == "gone" for poll in saw)
    return Audit(now, count, predicted, true, low, high, low <= predicted <= high, failed, gone)


def with_audit(state: Mapping[str, bytes], audit: Audit) -> dict[str, bytes]:
    """Return what the store keeps of audits, with one more."""
    known = [asdict(one) for one in (*kept_audits(state), audit)][-_AUDITS_KEPT:]
    return {"audits": json.dumps(known).encode()}


def kept_audits(state: Mapping[str, bytes]) -> list[Audit]:
    """Return the last audits, the oldest first, from what the store keeps."""
    if "audits" in state:
        return [Audit(**one) for one in json.loads(state["audits"])]
    return [Audit(**json.loads(state["audit"]))] if "audit" in state else []  # until version 2 only the last
