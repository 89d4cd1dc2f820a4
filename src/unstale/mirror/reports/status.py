"""How the mirror does: how fresh it is, what it spends, how its groups do, and what is neglected."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isinf, nan

import numpy as np

from unstale.arguments import Floats
from unstale.mirror.engine.discovery_limits import told_left_out
from unstale.mirror.engine.load_policy import MirrorPolicy
from unstale.mirror.engine.planner_state import BudgetPair, BudgetsSet, PlannerState
from unstale.mirror.engine.replica_files import last_told
from unstale.mirror.json_values import as_json, fields_json
from unstale.mirror.settings import Settings
from unstale.mirror.source import Json
from unstale.mirror.store.contract import Element, Transaction
from unstale.policy.element_table import AWAY, DROPPED, FAILING, GONE, NEW, REFUSED, Places
from unstale.policy.knowledge import Share
from unstale.policy.promises import Promise
from unstale.quantities import show_duration, show_number
from unstale.wording import plural

from .audit import Audit, kept_audits
from .first_copies import FirstCopies, InReserve, first_copies, in_reserve
from .freshness import mean_age
from .gone import lost_groups
from .readers import ReaderFreshness, perceived
from .what_if import MOST_ELEMENTS, freshness_bought
from .windows import window_trouble

TOP = 10
"""Groups, and neglected elements, in the JSON of a status, unless another number is asked for."""
STARTING = ":starting"
"""End of the name under which a worker is there that plans its start."""
TOLD_SKEW_SECONDS = 1.0
"""By which a clock must differ from that of the database for that to be told."""
_DAY_SECONDS = 86400.0
_MOST_NEGLECTED = 20
_LONG_BLOCK_SECONDS = 60.0
"""A group that has to wait longer than that for its next poll is held up."""


@dataclass(frozen=True)
class Budgets:
    """Budgets of a mirror, per second; None: no limit."""

    budget: float | None
    """Polls."""
    byte_budget: float | None

    def to_json(self) -> dict[str, Json]:
        """Return them as JSON."""
        return fields_json(self)


@dataclass(frozen=True)
class GroupStatus:
    """How a group does."""

    name: str
    elements: int
    polls: int
    """In the last day, as the following."""
    failed: int
    traffic: int
    """Bytes."""
    freshness: float
    """Weighted mean probability that its copies are fresh; nan if none counts, or is in the sample."""
    blocked_until: float
    """Nobody polls it before; nan if nothing is to be waited for."""
    why: str
    """It is blocked."""
    spacing: float
    """Seconds between the starts of two polls."""
    fastest: float
    """Polls per second that its spacing allows; inf: any."""


@dataclass(frozen=True)
class Neglected:
    """An element that gets less than one would think, and why."""

    key: str
    last: float
    """Start of the last poll that saw something; nan if there was none."""
    why: str
    since: float
    """Seconds since then, or since it was added."""


@dataclass(frozen=True)
class ComposedFreshness:
    """How fresh something is that is made from several elements."""

    name: str
    parts: int
    freshness: float
    """Probability that all of its parts are fresh, or one of them if that suffices."""
    needs: str = "all"
    """``all`` parts, or ``one`` of them."""


@dataclass(frozen=True)
class TargetFreshness:
    """What a rule promises, and how far that is kept."""

    rule: str
    """The pattern of its elements."""
    elements: int
    target: float
    """Share of them that should be fresh."""
    freshness: float
    """Share that is fresh now."""
    expected: float
    """Share that is fresh on average, with what it gets."""
    gets: float
    """Polls per second."""
    needs: float
    """Polls per second that would keep it; inf if none would."""
    kept: bool
    """Whether the budget can keep it."""


@dataclass(frozen=True)
class ReplicaHeard:
    """Another mirror of the same elements, with which this one takes turns."""

    number: int
    last: float
    """When it told of a poll last; nan if it never did."""


@dataclass(frozen=True)
class RoomTaken:
    """How much room copies take, if they may have only so much."""

    space: int
    """Bytes that all copies may have together."""
    taken: int
    """Bytes that they have, with old versions."""
    dropped: int
    """Elements whose copies were dropped."""


@dataclass(frozen=True)
class Status:
    """How the mirror does."""

    now: float
    running: bool
    """Whether somebody polls."""
    workers: int
    """Processes that poll."""
    elements: Mapping[str, int]
    """How many there are in each state."""
    freshness: Share
    """Weighted share of copies that are fresh now, as estimated; of very many elements, by a sample.

    What is known to be gone has no part in it, nor in what the plan buys and in the age.
    """
    predicted: float
    """Freshness that the budget buys on average, by the plan."""
    age: float
    """Weighted mean of the expected ages of copies, in seconds."""
    price: float
    """What a poll must be worth, per unit of budget."""
    budget: float | None
    """Polls per second."""
    byte_budget: float | None
    """Bytes per second."""
    span: float
    """Seconds in which polls and bytes were counted: the last day, or less if the mirror is younger."""
    spent: float
    """Polls per second, in that time."""
    traffic: float
    """Bytes per second, in that time."""
    polls: Mapping[str, int]
    """Of that time, by outcome."""
    changes: int
    """Seen in that time."""
    overdue: int
    """Elements that are worth far more than the price."""
    groups: Sequence[GroupStatus]
    """Those with most elements first."""
    neglected: Sequence[Neglected]
    """Those that matter most first."""
    trouble: Sequence[str]
    audit: Audit | None = None
    """The last one."""
    instead_of: Budgets | None = None
    """What the settings say, if other budgets were set since."""
    reserve: InReserve | None = None
    """What is in reserve; None if nothing is kept."""
    starting: bool = False
    """Whether those who run it plan their start, and do not poll yet."""
    first_copies: FirstCopies | None = None
    """How far it is with first copies; None if no element waits for its first poll."""
    perceived: float = nan
    """Freshness of the copies that are read, by how often each is; nan if none is."""
    readers: Sequence[ReaderFreshness] = ()
    """The same by user, if users are told apart: the most active first."""
    composed: Sequence[ComposedFreshness] = ()
    """How fresh that is which is made from several elements."""
    targets: Sequence[TargetFreshness] = ()
    """What rules promise."""
    room: RoomTaken | None = None
    """How much room copies take; None if there is no limit."""
    replicas: Sequence[ReplicaHeard] = ()
    """The other replicas, if there are any."""

    def to_json(self, top: int = TOP) -> dict[str, Json]:
        """Return it as JSON, as `unstale.mirror.json_values` says.

        There are so many groups and neglected elements at most; ``group_count`` says how many groups there
        are.
        """
        return fields_json(self) | {
            "groups": as_json(list(self.groups[:top])),
            "group_count": len(self.groups),
            "neglected": as_json(list(self.neglected[:top])),
        }


def status(
    policy: MirrorPolicy, planner: PlannerState, t: Transaction, now: float, settings: Settings | None = None
) -> Status:
    """Return how the mirror does, by what `load_sample` has read.

    If that is a sample of the elements, freshness, age and what is overdue are estimates by it; counts, and
    which elements are neglected, are of all.
    """
    table = policy.table
    looked_at = table["id"][table.present]
    losses = lost_groups(policy)
    if policy.others:
        _take_up_neglected(policy, t, now)
    places = table.places(looked_at)
    fresh = policy.known.fresh(places, now)
    weights = table["weight"][places].astype(float) * table["reads"][places]
    tally = t.tally(now - _DAY_SECONDS)
    outcomes: dict[str, int] = {}
    for _, outcome, count, _ in tally:
        outcomes[outcome] = outcomes.get(outcome, 0) + count
    begun = t.first_added()
    span = max(min(now - (now if begun is None else begun), _DAY_SECONDS), 60.0)
    workers = live_workers(t, now)
    state = t.state()
    said = BudgetPair(policy.limits.budget, policy.limits.byte_budget)
    on_its_way = planner.share.number != planner.share_taken
    used = said if not workers or on_its_way or planner.budgets in {None, said} else planner.budgets
    trouble = ["the budget has been changed since the mirror was started; restart it"] if used != said else []
    skews = [(one, ahead) for one, ahead in t.skews(now).items() if abs(ahead) > TOLD_SKEW_SECONDS]
    trouble += [f"{skew_words(one, ahead)}; let NTP set it" for one, ahead in skews]
    trouble += told_left_out(state)
    trouble += [str(one) for one in losses]
    trouble += window_trouble(policy, now)
    promises = policy.promises.look(now)
    trouble += [promise_words(one) for one in promises if not one.kept]
    trouble += longest_ages_trouble(policy)
    audits = kept_audits(state)
    settings, counts = Settings() if settings is None else settings, t.count()
    seen_by_readers, readers = perceived(policy, t, settings.reads, now)
    room = None
    if settings.space is not None:
        room = RoomTaken(settings.space, t.room_taken(), counts.get("dropped", 0))
    return Status(
        now=now,
        running=bool(workers),
        workers=len(workers),
        elements=counts,
        freshness=policy.known.share(places, weights, now),
        predicted=freshness_bought(policy, places, now),
        age=mean_age(policy, places, weights, now),
        price=policy.price,
        budget=used[0],
        byte_budget=used[1],
        span=span,
        spent=sum(outcomes.values()) / span,
        traffic=sum(size for _, _, _, size in tally) / span,
        polls=outcomes,
        changes=outcomes.get("changed", 0),
        overdue=_overdue(policy, places, now),
        groups=_groups(policy, t, tally, places, fresh=fresh, weights=weights, now=now),
        neglected=_neglected(policy, t, now),
        trouble=trouble,
        audit=audits[-1] if audits else None,
        instead_of=_instead_of(planner.budgets_set, said),
        reserve=in_reserve(policy, now),
        first_copies=first_copies(policy, now, _first_polls(t, counts) if policy.others else None),
        perceived=seen_by_readers,
        readers=readers,
        composed=[
            ComposedFreshness(name, *one, "one" if name in policy.composed.one_suffices else "all")
            for name, one in policy.composed.freshness(now).items()
        ],
        targets=[_target(policy, one, now) for one in promises],
        room=room,
        replicas=[ReplicaHeard(*one) for one in last_told(settings.replicas)],
        starting=bool(workers) and all(name.endswith(STARTING) for name in workers),
    )


def _target(policy: MirrorPolicy, promise: Promise, now: float) -> TargetFreshness:
    """Return how far a promise is kept."""
    table = policy.table
    number = table.terms.index(promise.terms)
    places = np.flatnonzero(table.present & (table["terms"] == number))
    weights = table["weight"][places].astype(float) * table["reads"][places]
    return TargetFreshness(
        rule=promise.terms.rule,
        elements=promise.elements,
        target=promise.terms.target,
        freshness=policy.known.share(places, weights, now).value,
        expected=promise.fresh,
        gets=promise.gets,
        needs=promise.needs,
        kept=promise.kept,
    )


def _first_polls(t: Transaction, counts: Mapping[str, int]) -> tuple[int, int]:
    """Return how many elements wait for their first poll, and how many there are, of those that are wanted.

    What has no weight is never polled, so it is new if it is there at all.
    """
    wanted = sum(t.group_sizes().values())
    unwanted = sum(count for state, count in counts.items() if state not in AWAY) - wanted
    return max(counts.get("new", 0) - unwanted, 0), wanted


def promise_words(promise: Promise) -> str:
    """Say that a target is out of reach, what it would need and what it gets."""
    wanted = f"the target of {show_number(100 * promise.terms.target)} % for {promise.terms.rule}"
    gets = f"{show_number(86400.0 * promise.gets)} polls a day make {100 * promise.fresh:.0f} %"
    if not promise.gets > 0:
        gets = "other targets, of fewer elements, take all of the budget that is for targets"
    if isinf(promise.needs):
        return f"{wanted} is out of reach: no budget buys it, and {gets}; lower the target"
    needs = f"{show_number(86400.0 * promise.needs)} polls a day"
    return f"{wanted} is out of reach: it needs {needs}, and {gets}; raise the budget, or lower the target"


def longest_ages_trouble(policy: MirrorPolicy) -> list[str]:
    """Say what budget it takes that no copy becomes older than its ``max_age``, if there is less."""
    table = policy.table
    limited = np.flatnonzero(table.present & np.isfinite(table["max_age"]))
    if not limited.size:
        return []
    often = 1.0 / table["max_age"][limited].astype(float)
    everyone = (table.present_count + policy.others) / max(table.present_count, 1)
    costs = policy.limits.costs(policy.known.sizes(limited))
    unit = float(policy.limits.costs(np.array([policy.known.mean_size]))[0])
    needs = everyone * float(often @ costs) / unit
    if needs <= (rate := policy.limits.rate(policy.known.mean_size)):
        return []
    told = f"max_age of {plural(round(everyone * limited.size), 'element')} is out of reach"
    needed, made = show_number(86400.0 * needs), show_number(86400.0 * rate)
    return [f"{told}: it needs {needed} polls a day, and the budget has {made}; raise the budget, or max_age"]


def _instead_of(changed: BudgetsSet | None, used: BudgetPair) -> Budgets | None:
    """Return the budgets of the settings, if others have been set since and are used."""
    before = None if changed is None or changed.budgets != used else changed.instead_of
    return None if before is None or before == used else Budgets(*before)


def live_workers(t: Transaction, now: float) -> list[str]:
    """Return the workers that poll, without those that are known to have died."""
    return [worker for worker in t.workers(now) if not _has_died(worker)]


def _has_died(worker: str) -> bool:
    """Tell whether a worker is known to have died: it was on this machine, and has no process any more."""
    host, _, rest = worker.partition(":")
    number = rest.partition(":")[0]
    if host != socket.gethostname() or not number.isdigit():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def skew_words(whose: str, ahead: float) -> str:
    """Say by how much a clock differs from that of the database.

    >>> skew_words("this machine", -20.0)
    "the clock of this machine is 20 seconds behind the database's, by which the mirror goes"
    """
    by = f"{show_duration(float(round(abs(ahead))))} {'ahead of' if ahead > 0 else 'behind'}"
    return f"the clock of {whose} is {by} the database's, by which the mirror goes"


def overview(policy: MirrorPolicy, now: float) -> dict[str, object]:
    """Return what can be told in a moment, from what the planner has in memory."""
    first = first_copies(policy, now)
    told: dict[str, object] = {
        "first_copies": None if first is None else fields_json(first),
        "elements": policy.table.wanted_count,
        "gone": policy.table.wanted_count - policy.table.present_count,
        "next": policy.limits.next(now),
    }
    if policy.in_turn.on:  # how fresh copies are is not to be asked yet
        return told
    places = np.flatnonzero(policy.table.present)
    if places.size > MOST_ELEMENTS:
        places = np.random.default_rng(0).choice(places, MOST_ELEMENTS, replace=False)
    weights = policy.table["weight"][places].astype(float) * policy.table["reads"][places]
    share = policy.known.share(places, weights, now)
    return told | {
        "freshness": share.value,
        "low": share.low,
        "high": share.high,
        "price": policy.price,
    }


def _overdue(policy: MirrorPolicy, places: Places, now: float) -> int:
    """Return how many elements are worth far more than the price; of a sample, as many of all."""
    if policy.price <= 0:
        return 0
    table = policy.table
    able = places[(table["not_before"][places] <= now) & ~np.isnan(table["last"][places])]
    able = able[table["state"][able] != DROPPED]
    values = policy.known.worths(able, table.since(able, now))
    late = table.since(able, now) > 1.5 * table["max_age"][able]
    found = np.count_nonzero((values > 3.0 * policy.price) | late)
    return round(found * (places.size + policy.others) / max(places.size, 1))


def _groups(
    policy: MirrorPolicy,
    t: Transaction,
    tally: Sequence[tuple[str, str, int, int]],
    places: Places,
    *,
    fresh: Floats,
    weights: Floats,
    now: float,
) -> list[GroupStatus]:
    """Return how groups do, those with most elements first."""
    owner = policy.table["group"][places]
    counts = t.group_sizes()
    size = max(int(owner.max(initial=0)), *counts, 0) + 1
    heavy = np.bincount(owner, weights, minlength=size)
    sums = np.bincount(owner, weights * fresh, minlength=size)
    seen: dict[str, list[int]] = {}
    for name, outcome, polls, traffic in tally:
        row = seen.setdefault(name, [0, 0, 0])
        row[0] += polls
        row[1] += polls if outcome in {"failed", "refused"} else 0
        row[2] += traffic
    found = []
    for group in t.groups():
        if counts.get(group.id):
            polls, failed, traffic = seen.get(group.name, [0, 0, 0])
            value = float(sums[group.id] / heavy[group.id]) if heavy[group.id] > 0 else nan
            limits = policy.limits.group(group.id)
            blocked = group.blocked_until > now
            found.append(
                GroupStatus(
                    name=group.name,
                    elements=counts[group.id],
                    polls=polls,
                    failed=failed,
                    traffic=traffic,
                    freshness=value,
                    blocked_until=group.blocked_until if blocked else nan,
                    why=group.why if blocked else "",
                    spacing=limits.spacing,
                    fastest=limits.fastest,
                )
            )
    return sorted(found, key=lambda one: (-one.elements, one.name))


def _patience(policy: MirrorPolicy) -> float:
    """Return the seconds after which an element that was not polled is neglected."""
    return max(10.0 * policy.round, 3600.0)


def _take_up_neglected(policy: MirrorPolicy, t: Transaction, now: float) -> None:
    """Read elements that may be neglected, of all there are, beside those of the sample."""
    blocked = [
        number
        for number, group in policy.limits.groups()
        if group.blocked > now or group.paid > now + _LONG_BLOCK_SECONDS
    ]
    ids = t.neglected(now=now, before=now - _patience(policy), groups=blocked, count=2 * _MOST_NEGLECTED)
    for columns in t.load(ids):
        policy.table.take_up(columns)


def _neglected(policy: MirrorPolicy, t: Transaction, now: float) -> list[Neglected]:
    """Return elements that are polled less than one would think: those that matter most first."""
    table = policy.table
    state = table["state"]
    wanted = table.wanted & (state != DROPPED)
    blocked = np.zeros(int(table["group"].max(initial=0)) + 1, np.bool_)
    for number, group in policy.limits.groups():
        if number < blocked.size:
            blocked[number] = group.blocked > now or group.paid > now + _LONG_BLOCK_SECONDS
    patience = _patience(policy)
    since = table.since(np.arange(len(table)), now)
    odd = wanted & (np.isin(state, [FAILING, REFUSED]) | blocked[table["group"]] | (since > patience))
    never = (state == GONE) & (
        table["last"] - table["added"] < _DAY_SECONDS
    )  # maybe there never was such a thing
    odd = (odd & (state != GONE)) | (wanted & never)
    places = np.flatnonzero(odd)
    places = places[np.argsort(-table["weight"][places] * since[places], kind="stable")][:_MOST_NEGLECTED]
    found = []
    known = t.numbered(table["id"][places].tolist())
    for place in places.tolist():
        element = known.get(int(table["id"][place]))
        if element is not None and element.state != "removed" and _odd(element):
            why = why_neglected(policy, place, element, now)
            found.append(Neglected(element.key, element.last, why, float(since[place])))
    return found


def _odd(element: Element) -> bool:
    """Tell whether something is wrong with an element: what was there and is gone is not."""
    return element.state != "gone" or element.version is None


def why_neglected(  # noqa: PLR0911  (one sentence for each reason)
    policy: MirrorPolicy, place: int, element: Element, now: float
) -> str:
    """Say why an element gets so little."""
    table = policy.table
    group = policy.limits.group(int(table["group"][place]))
    state = int(table["state"][place])
    if state == REFUSED:
        return element.detail or "the source refuses it"
    if state == GONE:
        todo = "remove it, or add where it went" if "redirects to" in element.detail else "check its key"
        return f"it was never there: {element.detail}; {todo}"
    if state == FAILING:
        times = plural(element.failures, "failure") + (" in a row" if element.failures > 1 else "")
        return (
            f"{times}: {element.detail}; tried again in {show_duration(max(element.not_before - now, 1.0))}"
        )
    if group.blocked > now:
        return f"{group.name} is left alone for {show_duration(group.blocked - now)} more: {group.why}"
    if group.paid > now + _LONG_BLOCK_SECONDS:
        return f"polls of {group.name} fail, so it is left alone for {show_duration(group.paid - now)}"
    if state == NEW:
        return "it waits for its first poll"
    law, _ = policy.known.outlook(np.array([place]), now)
    rate = float(np.asarray(law.rate)[0]) * _DAY_SECONDS
    return f"a poll is worth less than the price: it seems to change {show_number(rate)} times a day"
