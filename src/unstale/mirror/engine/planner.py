"""The planner: what the store says, made into what to poll, and what polls saw, made into what is known.

It works inside one transaction of the store at a time. What it keeps in memory can be had from the store
again; if a transaction fails, it is thrown away and read again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from unstale.mirror.reports.samples import sampled
from unstale.mirror.settings import Settings
from unstale.mirror.store.contract import Edit, Lease, Sample, Transaction
from unstale.policy.element_table import FAILING, Places
from unstale.policy.learning_policy import STEPS

from .policy import MirrorPolicy, backoff, budgets, know_groups, load_policy, packed

__all__ = ["Planner"]

_SHORTEST_TICK, _LONGEST_TICK = 0.1, 5.0
"""Seconds between two choices, at least and at most."""

_LEAD = 6.0
"""Seconds that a transaction may be begun before the first poll that it hands out, at most."""
_AT_ONCE = 100_000
"""Polls that are heard of at once."""
_HINTS_KEPT = 10_000
"""Elements whose hints are kept, at most."""
_READS_EVERY, _READS_HALF_LIFE = 600.0, 7 * 86400.0
"""Seconds between two looks at what has been read, and in which reads count half."""


class Planner:
    """Decides what is handed out; see `LearningPolicy` for how."""

    def __init__(
        self,
        settings: Settings,
        t: Transaction,
        now: float,
        *,
        ahead: float | None = None,
        shift: float = 0.0,
    ) -> None:
        """``ahead``: for how many seconds polls are handed out; ``shift``: by how much time was set."""
        self.settings = settings
        self.policy, kept = load_policy(settings, t)
        self._heard, self._edited = kept.get("heard", 0), kept.get("edited", 0)
        self._counted = kept.get("counted", [0, 0, 0])
        self._next_reads = 0.0
        self._kept = b""
        self.more, self.spent = False, False
        """Whether the budget allows for more polls than were handed out last; and whether for none."""
        self._dirty: Places | None = None
        """Where rows have changed since they were saved; None if nothing has been taken in."""
        self._busy = np.empty(0, np.int64)
        self._mend(t, now, self.tick if ahead is None else ahead, shift)

    @property
    def tick(self) -> float:
        """Seconds between two choices."""
        return float(np.clip(self.policy.round / STEPS, _SHORTEST_TICK, _LONGEST_TICK))

    def _mend(self, t: Transaction, now: float, ahead: float, shift: float) -> None:
        """Mend moments that are others now, or cannot be: the time has been set."""
        table, limits = self.policy.table, self.policy.limits
        if (wrong := table.mend(now, backoff)).size:
            t.save(table.columns(wrong))
        failing = set(np.unique(table["group"][table["state"] == FAILING]).tolist())
        largest = float(self.settings.max_size)
        changed = limits.set_back(now, ahead + _LEAD, largest=largest, failing=failing, shift=shift)
        if changed := {number: moment for number, moment in changed.items() if np.isfinite(moment)}:
            t.pay(changed)

    def rehearse(self, now: float) -> None:
        """Choose once and forget it, so that all code is loaded and compiled when it matters."""
        policy = self.policy
        places = np.arange(min(len(policy.table), 2))
        policy.worths(places, policy.table.since(places, now))
        policy.fresh(places, now)
        sampled(policy, now, (0, 0, 0))

    def take_in(
        self,
        t: Transaction,
        now: float,
        sample: Callable[[MirrorPolicy, Sequence[int]], Sample] | None = None,
    ) -> None:
        """Take in what has happened since the last time, before the next polls are chosen.

        ``sample`` says how the mirror does, if that is to be kept; it gets the polls since the last time,
        those of them that failed, their bytes. It takes a while, so it is not a matter of `plan`.
        """
        self._edit(t, now)
        rescaled = self.policy.rescaled()  # before anything is learned, so that it does not fade at once
        self._dirty = self._listen(t)
        if rescaled:
            self._dirty = np.arange(len(self.policy.table))
        if sample is not None:
            self._sample(t, sample)

    def plan(
        self,
        t: Transaction,
        now: float,
        *,
        end: float,
        room: int,
        crowd: Mapping[int, float],
        worker: str = "",
        expires: float = 0.0,
    ) -> list[Lease]:
        """Hand out polls before ``end``: all of them to a worker, if named. Returns those.

        If nothing was taken in before, it is now.
        """
        policy = self.policy
        if self._dirty is None:
            self.take_in(t, now)
        self._see_leased(t)
        if self.settings.importance == "reads" and now >= self._next_reads:
            self._count_reads(t, now)
        policy.limits.crowd(crowd)
        leases = self._leases(now, end, room)
        assert self._dirty is not None  # noqa: S101
        places, self._dirty = np.unique(self._dirty).astype(np.intp), None
        if leases:
            t.release(leases, worker=worker, expires=expires)
            self._busy = np.union1d(self._busy, [lease.element for lease in leases])
        self._keep(t, leases, places)
        self.spent = policy.limits.next(now) >= end
        self.more = bool(leases) and not self.spent
        return leases

    def _leases(self, now: float, end: float, room: int) -> list[Lease]:
        """Choose polls: of each element one, since the store hands out no more at a time."""
        policy, table = self.policy, self.policy.table
        chosen = policy.choose(now, end, room=room)
        places = chosen.places
        fresh = np.where(np.isnan(table["last"][places]), np.nan, policy.fresh(places, now))
        columns = (table["id"][places], chosen.start, chosen.late, table["group"][places], fresh,
                   policy.sizes(places), table["last"][places])  # fmt: skip
        return [
            Lease(element, slot, late, group, fresh, element not in policy.audit, size, last=last)
            for element, slot, late, group, fresh, size, last in zip(
                *(column.tolist() for column in columns), strict=True
            )
        ]

    @property
    def edited(self) -> int:
        """Number of the last edit that has been taken in, and will be by whoever is planner next."""
        return self._edited

    def _sample(self, t: Transaction, sample: Callable[[MirrorPolicy, Sequence[int]], Sample]) -> None:
        """Keep how the mirror does, with the polls since this was last done."""
        t.sample(sample(self.policy, self._counted))
        self._counted = [0, 0, 0]

    def _listen(self, t: Transaction) -> Places:
        """Hear what polls saw that has not been heard yet."""
        places = [np.empty(0, np.intp)]
        more = True
        while more:
            heard = t.heard(self._heard, _AT_ONCE)
            if heard.poll.size:
                places.append(self.policy.hear(heard))
                self._heard = int(heard.poll[-1])
                self._counted[0] += heard.poll.size
                self._counted[1] += sum(outcome in {"failed", "refused"} for outcome in heard.outcome)
                self._counted[2] += int(heard.traffic.sum())
            more = heard.poll.size == _AT_ONCE
        return np.concatenate(places)

    def _edit(self, t: Transaction, now: float) -> None:
        """Take in what others have edited."""
        while edits := t.edits(self._edited):
            self._edited = edits[-1].id
            groups = {edit.subject for edit in edits if edit.kind == "group"}
            groups |= self._take_up(t, sorted({edit.subject for edit in edits if edit.kind == "element"}))
            if groups:
                know_groups(self.policy, self.settings, t.groups(sorted(groups)))
            self._other_edits(t, edits, now)

    def _take_up(self, t: Transaction, ids: Sequence[int]) -> set[int]:
        """Read elements that are new or have changed; return groups that are new with them.

        Those that are not there are removed.
        """
        found: set[int] = set()
        groups: set[int] = set()
        for columns in t.load(ids) if ids else ():
            self.policy.table.take_up(columns)
            found.update(columns.id.tolist())
            groups.update(self.policy.limits.unknown(np.unique(columns.group).tolist()))
        self.policy.table.drop([i for i in ids if i not in found])
        return groups

    def _other_edits(self, t: Transaction, edits: Sequence[Edit], now: float) -> None:
        for edit in edits:
            if edit.kind == "hint":
                self.policy.hint(edit.subject, edit.channel, edit.time or now)
            elif edit.kind == "audit":
                self.policy.audit[edit.subject] = edit.channel
            elif edit.kind == "settings":
                changed = budgets(self.settings, t.state())
                self.policy.limits.change_budget(now, changed.budget, changed.byte_budget)
                self.policy.table.look_again()

    def _see_leased(self, t: Transaction) -> None:
        """See which polls are handed out, by the store."""
        table = self.policy.table
        leased = t.leased()
        table["busy"][table.places(self._busy)] = False
        self._busy = np.array(sorted(table.known([element for element, _, _ in leased])), np.int64)
        table["busy"][table.places(self._busy)] = True
        self.policy.limits.hand_out(group for _, group, _ in leased)

    def _count_reads(self, t: Transaction, now: float) -> None:
        """Let what is read often matter more; reads fade."""
        self._next_reads = now + _READS_EVERY
        sums: dict[int, float] = {}
        for element, hour, count in t.reads(now - 8.0 * _READS_HALF_LIFE):
            sums[element] = sums.get(element, 0.0) + count * 2.0 ** ((hour - now) / _READS_HALF_LIFE)
        if sums:
            self.policy.read(sums)

    def _keep(self, t: Transaction, leases: list[Lease], dirty: Places) -> None:
        """Write what has been learned and decided."""
        policy, table, limits = self.policy, self.policy.table, self.policy.limits
        groups = {lease.group for lease in leases} | set(np.unique(table["group"][dirty]).tolist())
        if paid := limits.paid_of(groups):
            t.pay(paid)
        if dirty.size:
            t.save(table.columns(dirty))
        hinted = table.places(table.known(sorted(policy.hinted))[:_HINTS_KEPT])
        names = policy.channels.names
        position = {
            "heard": self._heard,
            "edited": self._edited,
            "price": policy.price,
            "paid": _finite(limits.paid),
            "paid_bytes": _finite(limits.paid_bytes),
            "mean_size": policy.mean_size,
            "budgets": [limits.budget, limits.byte_budget],
            "hints": [
                [int(table["id"][i]), names[int(table["channel"][i])], int(table["hints"][i])]
                for i in hinted.tolist()
            ],
            "audit": policy.audit,
            "counted": self._counted,
        }
        text = json.dumps(position).encode()
        if text != self._kept:
            t.keep(
                {"planner": text, "learner": packed(table.learner.shared), "channels": policy.channels.text()}
            )
            self._kept = text


def _finite(moment: float) -> float:
    return moment if np.isfinite(moment) else 0.0
