"""The planner: steps 1, 2 and 8 of a poll.

It hears what polls saw and learns from it (8), asks the policy what to poll next (1), and hands out slots,
which are paid for in the same transaction (2). It works inside one transaction of the store at a time. What
it keeps in memory can be had from the store again; if a transaction fails, the worker throws the planner away
and reads another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf

import numpy as np

from unstale.mirror.reports.readers import hours_read, profile_of_reads
from unstale.mirror.settings import Settings
from unstale.mirror.store.contract import Edit, Lease, Sample, Slot, Transaction
from unstale.policy.element_table import FAILING, GONE, Places
from unstale.policy.learning_policy import STEPS_PER_ROUND

from .link_importance import page_rank
from .load_policy import MirrorPolicy, backoff, know_groups, load_policy
from .planner_state import BudgetPair, HintsLeft, PlannerState, PollCounts
from .rehearsal import rehearse

__all__ = ["Planner"]

_SHORTEST_TICK_SECONDS, _LONGEST_TICK_SECONDS = 0.1, 5.0
"""Between two choices, at least and at most."""
_LONGEST_LEAD_SECONDS = 6.0
"""By which a transaction may begin before the first poll that it hands out, at most."""
_POLLS_AT_ONCE = 100_000
"""Polls that the planner hears of at once."""
_HINTED_ELEMENTS_KEPT = 10_000
"""Elements whose hints are kept, at most."""
_LARGE_BYTES, _KEEP_LARGE_SECONDS = 100_000, 60.0
"""What is known of many classes is written once in a while; a planner that crashes loses so much of it."""
_COUNT_READS_SECONDS = 600.0
"""Between two looks at what has been read."""


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
        self._loaded = t.last_edit()
        """Number of the last edit before all elements and groups were read."""
        self.policy, state = load_policy(settings, t)
        self.last_edit = state.last_edit
        """Number of the last edit that this planner has taken in; the next planner goes on from there."""
        self.more_to_come = False
        """Whether the budget allows for more polls than were handed out last."""
        self.budget_spent = False
        """Whether the budget allows for no poll beyond those that were handed out last."""
        self.last_poll, self._counts = state.last_poll, state.counts
        """Number of the last poll that it has learned from, and what it has counted."""
        self._last_heard = state.last_poll
        self.spent = 0.0
        """What the polls that it has heard of have cost, in the unit of the budget."""
        self._share = state.share.number
        self._count_reads_at = 0.0
        self._kept: dict[str, bytes] = {}
        """What was written of the state last."""
        self._kept_large = -inf
        """When large parts of it were written last."""
        self._dirty: Places | None = None
        """Where rows have changed since they were saved; None if nothing has been taken in."""
        self._busy = np.empty(0, np.int64)
        """Numbers of elements that are handed out."""
        self._mend(t, now, self.tick if ahead is None else ahead, shift)

    @property
    def tick(self) -> float:
        """Seconds between two choices."""
        return float(
            np.clip(self.policy.round / STEPS_PER_ROUND, _SHORTEST_TICK_SECONDS, _LONGEST_TICK_SECONDS)
        )

    def _mend(self, t: Transaction, now: float, ahead: float, shift: float) -> None:
        """Mend moments that are others now, or cannot be: the clock was set (see `unstale.mirror.clock`)."""
        table, limits = self.policy.table, self.policy.limits
        if (wrong := table.mend(now, backoff)).size:
            t.save(table.columns(wrong))
        failing = set(np.unique(table["group"][table["state"] == FAILING]).tolist())
        largest = float(self.settings.max_size)
        changed = limits.set_back(
            now, ahead + _LONGEST_LEAD_SECONDS, largest=largest, failing=failing, shift=shift
        )
        if changed := {number: moment for number, moment in changed.items() if np.isfinite(moment)}:
            t.pay(changed)

    def rehearse(self, now: float) -> None:
        """Choose once and forget it, so that all code is loaded and compiled when it matters."""
        rehearse(self.policy, now)

    def take_in(
        self,
        t: Transaction,
        now: float,
        sample: Callable[[MirrorPolicy, PollCounts], Sample] | None = None,
    ) -> None:
        """Take in what has happened since the last time, before the next polls are chosen.

        ``sample`` says how the mirror does, if that is to be kept; it gets the counts of polls since the
        last time. It takes a while, so it is not a matter of `plan`.
        """
        self._edit(t, now)
        # Before anything is learned, so that it does not fade at once. Rows in the store say under which
        # round they were written, so they are not written anew.
        self.policy.rescaled()
        self._dirty = self._listen(t, now)
        if sample is not None:
            t.sample(sample(self.policy, self._counts))
            self._counts = PollCounts()

    def plan(
        self,
        t: Transaction,
        now: float,
        *,
        end: float,
        room: int,
        crowd: Mapping[int, float] | None = None,
        worker: str = "",
        expires: float = 0.0,
        leased: Sequence[tuple[int, int, str]] | None = None,
    ) -> list[Lease]:
        """Hand out polls that begin before ``end``, and write what has been learned.

        Parameters
        ----------
        room
            polls to hand out, at most
        crowd
            of groups, how many polls may be handed out for each that may run (see `RateLimits.crowd`)
        worker, expires
            who gets all of them at once, and until when; without one they are for any worker to take
        leased
            what is handed out, if the caller has asked the store already

        Returns the leases of the worker. If nothing was taken in before, it is now.
        """
        policy = self.policy
        if self._dirty is None:
            self.take_in(t, now)
        self._see_handed_out(t.leased() if leased is None else leased)
        if self.settings.importance != "weights" and now >= self._count_reads_at:
            self._weigh(t, now)
        policy.limits.crowd(crowd or {})
        slots = self._slots(now, end, room)
        assert self._dirty is not None  # noqa: S101
        places, self._dirty = np.unique(self._dirty).astype(np.intp), None
        leases: list[Lease] = []
        if slots:
            if worker:
                leases = t.hand_to(worker, slots, expires)
            else:
                t.hand_out(slots)
            self._busy = np.union1d(self._busy, [slot.element for slot in slots])
        self._keep(t, slots, places, now)
        self.budget_spent = policy.limits.next(now) >= end or (
            policy.limits.reserve > 0 and not policy.more_wanted
        )
        self.more_to_come = bool(slots) and not self.budget_spent
        return leases

    def _slots(self, now: float, end: float, room: int) -> list[Slot]:
        """Choose polls: of each element one, since the store hands out no more at a time."""
        policy, table = self.policy, self.policy.table
        chosen = policy.choose(now, end, room=room)
        places = chosen.places
        elements, groups, last = table["id"][places], table["group"][places], table["last"][places]
        columns = (  # in the order of the fields of `Slot`
            elements,
            chosen.start,
            chosen.late,
            groups,
            np.where(
                np.isnan(last) | (table["state"][places] == GONE),
                np.nan,
                np.nan if policy.in_turn.on else policy.known.fresh(places, now),
            ),
            ~np.isin(elements, list(policy.audit)),
            policy.known.sizes(places),
            last,
            policy.limits.spacings(groups),
            policy.limits.concurrencies(groups),
        )
        return [Slot(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]

    def _listen(self, t: Transaction, now: float) -> Places:
        """Hear what polls saw that has not been heard yet."""
        places = [np.empty(0, np.intp)]
        more = True
        while more:
            heard = t.heard(self._last_heard, _POLLS_AT_ONCE)
            if heard.poll.size:
                # What was recorded before the clock was set back, and not heard of, is no later than now.
                seen = replace(heard, time=np.minimum(heard.time, now))
                places.append(self.policy.hear(seen))
                self._last_heard = int(heard.poll[-1])
                before = self._counts
                self._counts = PollCounts(
                    polls=before.polls + heard.poll.size,
                    failed=before.failed + sum(one in {"failed", "refused"} for one in heard.outcome),
                    traffic=before.traffic + int(heard.traffic.sum()),
                )
                self.spent += float(self.policy.limits.costs(heard.traffic.astype(float)).sum())
            more = heard.poll.size == _POLLS_AT_ONCE
        if not self.policy.in_turn.waiting:
            self.last_poll = self._last_heard
        return np.concatenate(places)

    def _edit(self, t: Transaction, now: float) -> None:
        """Take in what others have edited."""
        while edits := t.edits(self.last_edit, loaded=self._loaded):
            self.last_edit = edits[-1].id
            groups = {edit.subject for edit in edits if edit.kind == "group"}
            groups |= self._take_up(t, sorted({edit.subject for edit in edits if edit.kind == "element"}))
            if groups:
                know_groups(self.policy, self.settings, t.groups(sorted(groups)))
            self._other_edits(t, edits, now)
        self.last_edit = max(self.last_edit, self._loaded)

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
            elif edit.kind == "told":
                self.policy.told_times.wait(edit.subject, edit.time)
            elif edit.kind == "read":
                self.policy.on_read.ask(edit.subject, edit.time, edit.time + self.settings.reads.wait)
            elif edit.kind == "audit":
                self.policy.audit[edit.subject] = edit.channel
            elif edit.kind == "settings":
                state = PlannerState.read(t.state())
                changed, self._share = state.in_force(self.settings), state.share.number
                self.policy.limits.change_budget(now, changed.budget, changed.byte_budget)
                self.policy.limits.max_rate = changed.fastest
                self.policy.table.look_again()

    def _see_handed_out(self, leased: Sequence[tuple[int, int, str]]) -> None:
        """Take in which polls are handed out."""
        table = self.policy.table
        table["busy", table.places(self._busy)] = False
        self._busy = np.array(sorted(table.known([element for element, _, _ in leased])), np.int64)
        table["busy", table.places(self._busy)] = True
        self.policy.limits.hand_out(group for _, group, _ in leased)

    def _weigh(self, t: Transaction, now: float) -> None:
        """Let what is read often matter more, or what many links lead to; reads fade."""
        self._count_reads_at = now + _COUNT_READS_SECONDS
        if self.settings.importance == "links":
            elements, ranks = page_rank(*t.links())
            if elements.size:
                self.policy.read(dict(zip(elements.tolist(), ranks.tolist(), strict=True)))
            return
        profile, _ = profile_of_reads(t, self.settings.reads, now)
        if profile is not None:
            self.policy.read(dict(zip(profile.keys, profile.accesses.tolist(), strict=True)))
        self.policy.read_by_hour(levels if (levels := hours_read(t, self.settings.reads, now)).size else None)

    def _keep(self, t: Transaction, slots: list[Slot], dirty: Places, now: float) -> None:
        """Write what has been learned and decided."""
        table, limits = self.policy.table, self.policy.limits
        groups = {slot.group for slot in slots} | set(np.unique(table["group"][dirty]).tolist())
        if paid := limits.paid_of(groups):
            t.pay(paid)
        if dirty.size:
            t.save(table.columns(dirty))
        kept = self._state().kept()
        changed = {name: value for name, value in kept.items() if value != self._kept.get(name)}
        if any(len(value) > _LARGE_BYTES for value in changed.values()):
            if 0.0 <= now - self._kept_large < _KEEP_LARGE_SECONDS:
                changed = {name: value for name, value in changed.items() if len(value) <= _LARGE_BYTES}
            else:
                self._kept_large = now
        if changed:
            t.keep(changed)
            self._kept |= changed

    def _state(self) -> PlannerState:
        """Return what the next planner has to know."""
        policy, table, limits = self.policy, self.policy.table, self.policy.limits
        hinted = table.places(table.known(sorted(policy.hinted.waiting))[:_HINTED_ELEMENTS_KEPT])
        names = policy.known.channels.names
        return PlannerState(
            last_poll=self.last_poll,
            last_edit=self.last_edit,
            price=policy.price,
            objective=self.settings.worths_by,
            paid=limits.paid,
            paid_bytes=limits.paid_bytes,
            paced=limits.paced,
            mean_size=policy.known.mean_size,
            budgets=BudgetPair(limits.budget, limits.byte_budget),
            hints=[
                HintsLeft(
                    int(table["id"][i]),
                    names[int(table["channel"][i])],
                    int(table["hints"][i]),
                    policy.hinted.waiting[int(table["id"][i])],
                )
                for i in hinted.tolist()
            ],
            audit=policy.audit,
            counts=self._counts,
            learner=table.learner.shared,
            classes=table.tree.text() if table.learner.class_count > 1 or table.tree.trials else b"",
            rhythm=None
            if (clocks := policy.known.clocks) is None
            else {**clocks.state(), **clocks.moved(table)},
            levels={
                **policy.known.levels.state(),
                **policy.known.errors.state(),
                **policy.known.recalibration.state(),
            },
            told={**policy.told_times.state(), **policy.known.expiries.state()},
            channels=policy.known.channels,
            share_taken=self._share,
        )
