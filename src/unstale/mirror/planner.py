"""The planner: what the store says, made into what to poll, and what polls saw, made into what is known.

It works inside one transaction of the store at a time. What it keeps in memory can be had from the store
again; if a transaction fails, it is thrown away and read again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .agenda import Agenda, backoff
from .channels import Channels
from .history import sampled
from .rows import FAILING, Places, Rows
from .settings import Settings
from .store import Edit, Lease, Sample, Transaction

__all__ = ["Planner", "budgets", "load_agenda", "packed", "unpacked"]

_LEAD = 6.0
"""Seconds that a transaction may be begun before the first poll that it hands out, at most."""
_AT_ONCE = 100_000
"""Polls that are heard of at once."""
_READS_EVERY, _READS_HALF_LIFE = 600.0, 7 * 86400.0
"""Seconds between two looks at what has been read, and in which reads count half."""


def budgets(settings: Settings, state: Mapping[str, bytes]) -> Settings:
    """Return the settings with the budgets that were set since, unless settings have changed after that."""
    changed = json.loads(state.get("budgets", b"{}"))
    if changed.pop("instead_of", said := [settings.budget, settings.byte_budget]) != said:
        return settings
    return replace(settings, **changed)


def load_agenda(settings: Settings, t: Transaction, only: int | None = None) -> tuple[Agenda, dict[str, Any]]:
    """Read from a store all that the planner needs; return it, and where the planner had got to.

    With ``only``, the number of an element, of elements that one alone is read: in a moment, whatever their
    number.
    """
    state = t.state()
    kept = json.loads(state.get("planner", b"{}"))
    shared = unpacked(state["learner"]) if "learner" in state else None
    rows = Rows()
    counts = t.count()
    total = sum(counts.values()) - counts.get("removed", 0)
    rows.reserve(total if only is None else 1, shared)
    start = 0
    for columns in t.load() if only is None else t.load([only]):
        rows.fill(start, columns)
        start += columns.id.size
    rows.leave_out(start)  # others may add and remove elements meanwhile
    agenda = Agenda(
        budgets(settings, state),
        rows=rows,
        channels=Channels.read(state.get("channels", b"")),
        price=kept.get("price", 0.0),
        mean_size=kept.get("mean_size", 1000.0),
    )
    agenda.others = max(total - len(rows), 0)
    agenda.pace.know(t.groups())
    agenda.pace.paid = kept.get("paid", -np.inf)
    agenda.pace.paid_bytes = kept.get("paid_bytes", -np.inf)
    for element, channel, hints in kept.get("hints", []):
        if rows.has([element])[0]:
            place = rows.places([element])
            rows["hints"][place], rows["channel"][place] = hints, agenda.channels.number(channel)
    agenda.audit = {int(element): name for element, name in kept.get("audit", {}).items()}
    return agenda, kept


class Planner:
    """Decides what is handed out; see `Agenda` for how."""

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
        self.agenda, kept = load_agenda(settings, t)
        self._heard, self._edited = kept.get("heard", 0), kept.get("edited", 0)
        self._counted = kept.get("counted", [0, 0, 0])
        self._next_reads = 0.0
        self._kept = b""
        self.more = False
        self._dirty: Places | None = None
        """Where rows have changed since they were saved; None if nothing has been taken in."""
        self._busy = np.empty(0, np.int64)
        self._mend(t, now, self.agenda.tick if ahead is None else ahead, shift)

    def _mend(self, t: Transaction, now: float, ahead: float, shift: float) -> None:
        """Mend moments that are others now, or cannot be: the time has been set."""
        rows, pace = self.agenda.rows, self.agenda.pace
        if (wrong := rows.mend(now, backoff)).size:
            t.save(rows.columns(wrong))
        failing = set(np.unique(rows["group"][rows["state"] == FAILING]).tolist())
        if changed := pace.set_back(now, ahead + _LEAD, failing, shift):
            t.pay(changed)

    def rehearse(self, now: float) -> None:
        """Choose once and forget it, so that all code is loaded and compiled when it matters."""
        agenda = self.agenda
        places = np.arange(min(len(agenda.rows), 2))
        agenda.worths(places, agenda.rows.since(places, now))
        agenda.fresh(places, now)
        sampled(agenda, now, (0, 0, 0))

    def take_in(
        self, t: Transaction, now: float, sample: Callable[[Agenda, Sequence[int]], Sample] | None = None
    ) -> None:
        """Take in what has happened since the last time, before the next polls are chosen.

        ``sample`` says how the mirror does, if that is to be kept; it gets the polls since the last time,
        those of them that failed, their bytes. It takes a while, so it is not a matter of `plan`.
        """
        self._edit(t, now)
        rescaled = self.agenda.rescaled()  # before anything is learned, so that it does not fade at once
        self._dirty = self._listen(t)
        if rescaled:
            self._dirty = np.arange(len(self.agenda.rows))
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

        ``more`` tells whether the budget allows for more. If nothing was taken in before, it is now.
        """
        agenda = self.agenda
        if self._dirty is None:
            self.take_in(t, now)
        self._see_leased(t)
        if agenda.settings.importance == "reads" and now >= self._next_reads:
            self._count_reads(t, now)
        agenda.pace.crowd = crowd
        leases = agenda.choose(now, end, room)
        assert self._dirty is not None  # noqa: S101
        places, self._dirty = np.unique(self._dirty).astype(np.intp), None
        if leases:
            t.release(leases, worker=worker, expires=expires)
            self._busy = np.union1d(self._busy, [lease.element for lease in leases])
        self._keep(t, leases, places)
        self.more = bool(leases) and agenda.pace.free(now) < end
        return leases

    @property
    def edited(self) -> int:
        """Number of the last edit that has been taken in, and will be by whoever is planner next."""
        return self._edited

    def _sample(self, t: Transaction, sample: Callable[[Agenda, Sequence[int]], Sample]) -> None:
        """Keep how the mirror does, with the polls since this was last done."""
        t.sample(sample(self.agenda, self._counted))
        self._counted = [0, 0, 0]

    def _listen(self, t: Transaction) -> Places:
        """Hear what polls saw that has not been heard yet."""
        places = [np.empty(0, np.intp)]
        more = True
        while more:
            heard = t.heard(self._heard, _AT_ONCE)
            if heard.poll.size:
                places.append(self.agenda.hear(heard))
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
            self._take_up(t, sorted({edit.subject for edit in edits if edit.kind == "element"}))
            self.agenda.pace.know(t.groups())
            self._other_edits(t, edits, now)

    def _take_up(self, t: Transaction, ids: Sequence[int]) -> None:
        """Read elements that are new or have changed; those that are not there are removed."""
        if not ids:
            return
        found: set[int] = set()
        for columns in t.load(ids):
            if columns.id.size:
                self.agenda.rows.take_up(columns)
                found.update(columns.id.tolist())
        self.agenda.rows.drop([i for i in ids if i not in found])

    def _other_edits(self, t: Transaction, edits: Sequence[Edit], now: float) -> None:
        for edit in edits:
            if edit.kind == "hint":
                self.agenda.hint(edit.subject, edit.channel, edit.time or now)
            elif edit.kind == "audit":
                self.agenda.audit[edit.subject] = edit.channel
            elif edit.kind == "settings":
                self.agenda.settings = budgets(self.settings, t.state())
                pace = self.agenda.pace
                pace.budget, pace.byte_budget = self.agenda.settings.budget, self.agenda.settings.byte_budget
                self.agenda.rows.look_again()

    def _see_leased(self, t: Transaction) -> None:
        """See which polls are handed out, by the store."""
        rows = self.agenda.rows
        leased = t.leased()
        rows["busy"][rows.places(self._busy)] = False
        self._busy = np.array(sorted(rows.known([element for element, _, _ in leased])), np.int64)
        rows["busy"][rows.places(self._busy)] = True
        self.agenda.pace.out(group for _, group, _ in leased)

    def _count_reads(self, t: Transaction, now: float) -> None:
        """Let what is read often matter more; reads fade."""
        self._next_reads = now + _READS_EVERY
        sums: dict[int, float] = {}
        for element, hour, count in t.reads(now - 8.0 * _READS_HALF_LIFE):
            sums[element] = sums.get(element, 0.0) + count * 2.0 ** ((hour - now) / _READS_HALF_LIFE)
        if sums:
            self.agenda.read(sums)

    def _keep(self, t: Transaction, leases: list[Lease], dirty: Places) -> None:
        """Write what has been learned and decided."""
        agenda, rows = self.agenda, self.agenda.rows
        groups = {lease.group for lease in leases} | set(np.unique(rows["group"][dirty]).tolist())
        paid = {number: agenda.pace.groups[number].paid for number in groups if number in agenda.pace.groups}
        if paid := {number: moment for number, moment in paid.items() if np.isfinite(moment)}:
            t.pay(paid)
        if dirty.size:
            t.save(rows.columns(dirty))
        hinted = np.flatnonzero(rows["hints"])
        names = agenda.channels.names
        position = {
            "heard": self._heard,
            "edited": self._edited,
            "price": agenda.price,
            "paid": _finite(agenda.pace.paid),
            "paid_bytes": _finite(agenda.pace.paid_bytes),
            "mean_size": agenda.mean_size,
            "budgets": [agenda.settings.budget, agenda.settings.byte_budget],
            "hints": [
                [int(rows["id"][i]), names[int(rows["channel"][i])], int(rows["hints"][i])]
                for i in hinted[:10_000].tolist()
            ],
            "audit": agenda.audit,
            "counted": self._counted,
        }
        text = json.dumps(position).encode()
        if text != self._kept:
            t.keep(
                {"planner": text, "learner": packed(rows.learner.shared), "channels": agenda.channels.text()}
            )
            self._kept = text


def _finite(moment: float) -> float:
    return moment if np.isfinite(moment) else 0.0


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
