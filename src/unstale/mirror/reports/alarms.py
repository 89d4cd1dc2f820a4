"""Alarms: what a person should know of without looking. Each is told when it begins, and when it is over.

=========  ================================================================================================
overdue    elements were not polled within their ``max_age``, and why
failing    polls of a group fail, time after time
budget     the budget and its reserve are used up, while elements wait
freshness  a rule's ``target`` is not kept
gone       a group has lost most of its elements at once
=========  ================================================================================================

An alarm is over only when the matter is well and truly over, so that none comes and goes. Elements of one
group are one alarm: a host that is down is told once, however many pages it has.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass

import numpy as np

from unstale.mirror.engine.load_policy import MirrorPolicy
from unstale.mirror.source import Json
from unstale.mirror.store.contract import Transaction
from unstale.policy.element_table import DROPPED, FAILING, GONE, NEW, REFUSED, Places
from unstale.quantities import show_duration
from unstale.wording import plural, show_budget

from .first_copies import first_copies, in_reserve
from .gone import lost_groups
from .status import promise_words, why_neglected

_FAILURES = 3
"""Polls of an element that must fail in a row."""
_LATE_FACTOR, _LATE_SECONDS = 1.5, 60.0
"""By which an element must be late: times its ``max_age``, and at least so many seconds more."""
_EMPTY_SHARE, _FILLED_SHARE = 0.01, 0.1
"""Of the reserve: with less it is used up, and with more it is filled again."""
_MOST_GROUPS = 20
"""Groups that may have an alarm of one kind each; more are one alarm."""
_KEPT = 200
"""Alarms that are kept for targets that have not taken them; of older ones they hear no more."""
_STATE = "alarms"

Subject = tuple[str, str]
"""The kind of an alarm, and what it is about: a group, a rule, or nothing."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """Something that has begun, or is over."""

    id: int
    """They grow."""
    time: float
    kind: str
    subject: str
    """The group or the rule that it is about; empty: the mirror."""
    text: str
    over: bool

    @property
    def title(self) -> str:
        """Say what it is in a few words.

        >>> Alarm(1, 0.0, "failing", "http:example.org", "...", over=True).title
        'Over: failing: http:example.org'
        """
        words = f"{self.kind}: {self.subject}" if self.subject else self.kind
        return f"Over: {words}" if self.over else f"Alarm: {words}"

    def to_json(self) -> dict[str, Json]:
        """Return it as webhooks and commands get it."""
        from unstale.mirror.json_values import moment

        told = {name: value for name, value in asdict(self).items() if name not in {"kind", "time"}}
        return {"alarm": self.kind, "time": moment(self.time), **told}


def alarms_now(
    policy: MirrorPolicy, t: Transaction, now: float, standing: Collection[Subject]
) -> dict[Subject, str]:
    """Return what is wrong now, with words; what ``standing`` names, until it is truly over."""
    if policy.in_turn.on:
        return {}
    found = {("gone", one.name): str(one) for one in lost_groups(policy)}
    found |= _failing(policy, t, now, standing)
    found |= _overdue(policy, t, now, standing)
    found |= _budget(policy, now, standing)
    return found | _freshness(policy, now, standing)


def _failing(
    policy: MirrorPolicy, t: Transaction, now: float, standing: Collection[Subject]
) -> dict[Subject, str]:
    table = policy.table
    failing = np.flatnonzero(table.wanted & np.isin(table["state"], [FAILING, REFUSED]))
    sizes = np.bincount(table["group"][table.wanted])
    found: dict[Subject, str] = {}
    for group, own in _by_group(policy, failing):
        subject = ("failing", policy.limits.group(group).name)
        if (table["failures"][own] >= _FAILURES).any() or subject in standing:
            known = plural(int(sizes[group]), "element")
            told = f"{own.size:,} of {known} of {subject[1]} cannot be polled"
            found[subject] = f"{told}. {_example(policy, t, own, now)}"
    return _together("failing", "polls of {} groups fail: is the network down?", found, standing)


def _overdue(
    policy: MirrorPolicy, t: Transaction, now: float, standing: Collection[Subject]
) -> dict[Subject, str]:
    table = policy.table
    limited = np.flatnonzero(table.wanted & np.isfinite(table["max_age"]))
    limited = limited[~np.isin(table["state"][limited], [GONE, DROPPED])]
    late = limited[table.since(limited, now) > table["max_age"][limited]]
    found: dict[Subject, str] = {}
    for group, own in _by_group(policy, late):
        subject = ("overdue", policy.limits.group(group).name)
        since, longest = table.since(own, now), table["max_age"][own].astype(float)
        very_late = since > np.maximum(_LATE_FACTOR * longest, longest + _LATE_SECONDS)
        if very_late.any() or subject in standing:
            worst = int(np.argmax(since / longest))
            told = (
                f"{plural(own.size, 'element')} of {subject[1]} should have been polled by now: the latest "
                f"was polled {_long(since[worst])} ago, and should be each {_long(longest[worst])}"
            )
            found[subject] = f"{told}. {_example(policy, t, own[[worst]], now)}"
    return _together("overdue", "elements of {} groups should have been polled by now", found, standing)


def _by_group(policy: MirrorPolicy, places: Places) -> Iterator[tuple[int, Places]]:
    """Go through the groups of elements, with the places of each."""
    if not places.size:
        return
    owner = policy.table["group"][places]
    order = np.argsort(owner, kind="stable")
    groups, starts = np.unique(owner[order], return_index=True)
    yield from zip(groups.tolist(), np.split(places[order], starts[1:]), strict=True)


def _together(
    kind: str, words: str, found: dict[Subject, str], standing: Collection[Subject]
) -> dict[Subject, str]:
    """Return one alarm if very many groups have the same one, beside those that stand already."""
    new = [subject for subject in found if subject not in standing]
    if len(new) <= _MOST_GROUPS and (kind, "") not in standing:
        return found
    if not new:
        return found
    kept = {subject: text for subject, text in found.items() if subject in standing}
    return kept | {(kind, ""): f"{words.format(f'{len(new):,}')}. For example: {found[new[0]]}"}


def _example(policy: MirrorPolicy, t: Transaction, places: Places, now: float) -> str:
    """Name the element that matters most, and say why it is not polled."""
    table = policy.table
    place = int(places[np.argmax(table["weight"][places])])
    element = t.numbered([int(table["id"][place])]).get(int(table["id"][place]))
    if element is None:
        return ""
    plain = int(table["state"][place]) not in {NEW, FAILING, REFUSED}
    window = int(table["window"][place])
    hours = table.hours[window] if window else None
    if plain and hours is not None and not bool(np.all(hours.is_open(np.array([now])))):
        why = "its windows allow no poll now"
    elif plain and not policy.limits.group(int(table["group"][place])).blocked > now:
        why = "the budget and the limits of its group leave no room for it"
    else:
        why = why_neglected(policy, place, element, now)
    return f"{element.key}: {why}."


def _budget(policy: MirrorPolicy, now: float, standing: Collection[Subject]) -> dict[Subject, str]:
    reserve = in_reserve(policy, now)
    subject = ("budget", "")
    limit = _FILLED_SHARE if subject in standing else _EMPTY_SHARE
    if reserve is None or reserve.level > limit:
        return {}
    waiting = first_copies(policy, now)
    table = policy.table
    able = np.flatnonzero(table.present & (table["not_before"] <= now))
    worths = policy.known.worths(able, table.since(able, now))
    late = int(np.count_nonzero(worths > 3.0 * policy.price)) if policy.price > 0 else 0
    if waiting is None and not late and subject not in standing:
        return {}
    first = 0 if waiting is None else waiting.total - waiting.done
    todo = [f"{plural(first, 'element')} without a first copy"] if first else []
    todo += [f"{plural(late, 'element')} worth far more than the price"] if late else []
    budget = show_budget(policy.limits.budget, policy.limits.byte_budget)
    words = f", with {' and '.join(todo)}" if todo else ""
    return {
        subject: f"The reserve is used up, so polls go on at {budget}{words}. Raise [mirror] budget, make "
        "max_age longer, or remove what nobody needs."
    }


def _freshness(policy: MirrorPolicy, now: float, standing: Collection[Subject]) -> dict[Subject, str]:
    found: dict[Subject, str] = {}
    table = policy.table
    for promise in policy.promises.look(now):
        subject = ("freshness", promise.terms.rule)
        if not promise.kept:
            found[subject] = promise_words(promise)
            continue
        copied = table.present & (table["state"] != NEW)  # first copies are told of by themselves
        places = np.flatnonzero(copied & (table["terms"] == table.terms.index(promise.terms)))
        weights = table["weight"][places].astype(float) * table["reads"][places]
        share = policy.known.share(places, weights, now)
        least = share.value if subject in standing else share.high
        if places.size and least < promise.terms.target:
            found[subject] = (
                f"{100 * share.value:.0f} % ({100 * share.low:.0f} to {100 * share.high:.0f} %) of copies "
                f"of {promise.terms.rule} are fresh; the target is {100 * promise.terms.target:.0f} %. The "
                "budget can keep it on average"
            )
    return found


def _long(seconds: float | np.floating) -> str:
    """Return a time in words, without more digits than anybody wants.

    >>> _long(7261.3)
    '2 hours'
    """
    unit = next((one for one in (86400.0, 3600.0, 60.0) if seconds >= 2 * one), 1.0)
    return show_duration(round(seconds / unit) * unit) if np.isfinite(seconds) else "never"


class AlarmLog:
    """The alarms that stand, and the latest that have begun or ended, as the store keeps them."""

    def __init__(self, kept: Mapping[str, bytes]) -> None:
        said = json.loads(kept.get(_STATE, b"{}"))
        self._next = int(said.get("next", 1))
        self.standing: dict[Subject, str] = {
            (kind, about): text for kind, about, text in said.get("standing", [])
        }
        """With the words with which they began."""
        self.latest = [Alarm(**one) for one in said.get("latest", [])]
        """In the order of their numbers."""

    @property
    def last(self) -> int:
        """Number of the last one; 0 if there was none."""
        return self._next - 1

    def after(self, number: int) -> list[Alarm]:
        """Return those after one."""
        return [one for one in self.latest if one.id > number]

    def news(self, found: Mapping[Subject, str], now: float) -> list[Alarm]:
        """Take in what is wrong now; return what has begun and what is over."""
        new = [(subject, text, False) for subject, text in found.items() if subject not in self.standing]
        over = [
            (subject, f"This is over: {text}", True)
            for subject, text in self.standing.items()
            if subject not in found
        ]
        told = []
        for (kind, about), text, is_over in [*over, *new]:
            told.append(Alarm(self._next, now, kind, about, text, is_over))
            self._next += 1
        self.standing = {subject: self.standing.get(subject, text) for subject, text in found.items()}
        self.latest = [*self.latest, *told][-_KEPT:]
        return told

    def to_keep(self) -> dict[str, bytes]:
        """Return what the store is to keep."""
        standing = [[kind, about, text] for (kind, about), text in self.standing.items()]
        said = {"next": self._next, "standing": standing, "latest": [asdict(one) for one in self.latest]}
        return {_STATE: json.dumps(said, ensure_ascii=False).encode()}
