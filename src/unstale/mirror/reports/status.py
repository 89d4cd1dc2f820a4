"""What the mirror knows of itself: how fresh it is, and why each element is polled when it is."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf, isfinite, nan, sqrt

import numpy as np
from scipy import special

from unstale.arguments import Floats
from unstale.mirror.engine.planner_state import BudgetPair, BudgetsSet, PlannerState
from unstale.mirror.engine.policy import MirrorPolicy, load_policy
from unstale.mirror.settings import Settings
from unstale.mirror.store.contract import Element, PollRecord, Transaction, Version
from unstale.policy import PATIENCE
from unstale.policy.element_table import FAILING, GONE, NEW, REFUSED, REMOVED, Places
from unstale.quantities import show_duration, show_number

from .samples import SURE, Share, ages, mean, mean_age
from .what_if import SAMPLE, bought

__all__ = [
    "Audit",
    "Explanation",
    "GroupStatus",
    "Neglected",
    "Share",
    "Status",
    "ages",
    "audits",
    "explain",
    "explanation_of",
    "judged",
    "status",
]

_DAY = 86400.0
_AUDITS = 100
"""Audits that are kept."""


@dataclass(frozen=True)
class GroupStatus:
    """How a group does."""

    name: str
    elements: int
    polls: int
    """In the last day, as the following."""
    failed: int
    traffic: int
    freshness: float
    blocked_until: float
    why: str
    spacing: float
    fastest: float
    """Polls per second that its spacing allows."""


@dataclass(frozen=True)
class Neglected:
    """An element that gets less than one would think, and why."""

    key: str
    last: float
    why: str
    since: float


@dataclass(frozen=True)
class Audit:
    """What a random sample of polls said about the estimates."""

    time: float
    sample: int
    predicted: float
    """Share of fresh copies that was expected of the sample."""
    true: float
    low: float
    """A 90 % interval of the true share of all copies."""
    high: float
    agrees: bool
    """Whether what was expected is within it."""
    failed: int
    """Polls of the sample that saw nothing."""


@dataclass(frozen=True)
class Status:
    """How the mirror does."""

    now: float
    elements: Mapping[str, int]
    freshness: Share
    age: float
    predicted: float
    price: float
    budget: float | None
    byte_budget: float | None
    polls: Mapping[str, int]
    span: float
    """Seconds in which polls and bytes were counted: the last day, or less if the mirror is younger."""
    spent: float
    traffic: float
    overdue: int
    groups: Sequence[GroupStatus]
    neglected: Sequence[Neglected]
    trouble: Sequence[str]
    running: bool
    workers: int
    changes: int
    audit: Audit | None = None
    instead_of: tuple[float | None, float | None] | None = None
    """The budgets that the settings say, of polls and of bytes, if others were set since."""

    @property
    def budgets(self) -> dict[str, float | None]:
        """Of polls and of bytes, per second."""
        return {"budget": self.budget, "byte_budget": self.byte_budget}


@dataclass(frozen=True)
class Explanation:
    """Why an element is polled when it is."""

    element: Element
    rate: float
    low: float
    high: float
    hopeless: float
    half_life: float
    fresh: float
    weight: float
    size: float
    worth: float
    price: float
    next_poll: float
    why: str
    hints: int
    reads: int
    polls: Sequence[PollRecord]
    versions: Sequence[Version]


def due(policy: MirrorPolicy, places: Places, now: float) -> Floats:
    """Return when elements will be worth the price of today; inf if never."""
    table = policy.table
    low, high = np.full(places.size, -2.0), np.full(places.size, 10.0)  # seconds, as powers of ten
    for _ in range(40):
        middle = 0.5 * (low + high)
        enough = policy.worths(places, 10.0**middle) >= policy.price
        high, low = np.where(enough, middle, high), np.where(enough, low, middle)
    wait = np.where(high >= 10.0 - 1e-6, inf, 10.0**high)
    wait = np.minimum(wait, np.minimum(table["max_age"][places].astype(float), PATIENCE * policy.round))
    wait = np.maximum(wait, table["min_interval"][places])
    last = np.where(np.isnan(table["last"][places]), -inf, table["last"][places])
    moment = np.maximum(np.maximum(last + wait, table["not_before"][places]), policy.limits.next(now))
    return np.where(table["state"][places] == REMOVED, inf, moment)


def status(policy: MirrorPolicy, planner: PlannerState, t: Transaction, now: float) -> Status:
    """Return how the mirror does, by what `load_policy` has read."""
    table = policy.table
    places = np.flatnonzero(table.wanted)
    fresh = policy.fresh(places, now)
    weights = table["weight"][places].astype(float) * table["reads"][places]
    tally = t.tally(now - _DAY)
    outcomes: dict[str, int] = {}
    for _, outcome, count, _ in tally:
        outcomes[outcome] = outcomes.get(outcome, 0) + count
    begun = float(table["added"].min()) if len(table) else now
    span = max(min(now - begun, _DAY), 60.0)
    workers = [worker for worker in t.workers(now) if not dead(worker)]
    state = t.state()
    said = BudgetPair(policy.limits.budget, policy.limits.byte_budget)
    used = (planner.budgets or said) if workers else said
    trouble = ["the budget has been changed since the mirror was started; restart it"] if used != said else []
    return Status(
        now=now,
        elements=t.count(),
        freshness=mean(fresh, weights),
        age=mean_age(policy, places, weights, now),
        predicted=bought(policy, places, now),
        price=policy.price,
        budget=used[0],
        byte_budget=used[1],
        polls=outcomes,
        span=span,
        spent=sum(outcomes.values()) / span,
        traffic=sum(size for _, _, _, size in tally) / span,
        overdue=_overdue(policy, places, now),
        groups=_groups(policy, t, places, fresh=fresh, weights=weights, now=now),
        neglected=_neglected(policy, t, now),
        trouble=trouble,
        running=bool(workers),
        workers=len(workers),
        changes=outcomes.get("changed", 0),
        audit=audits(state)[-1] if audits(state) else None,
        instead_of=_instead_of(planner.budgets_set, said),
    )


def _instead_of(changed: BudgetsSet | None, used: BudgetPair) -> BudgetPair | None:
    """Return the budgets of the settings, if others have been set since and are used."""
    if changed is None or changed.budgets != used or changed.instead_of == used:
        return None
    return changed.instead_of


def dead(worker: str) -> bool:
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


def overview(policy: MirrorPolicy, now: float) -> dict[str, object]:
    """Return what can be told in a moment, from what the planner has in memory."""
    places = np.flatnonzero(policy.table.wanted)
    if places.size > SAMPLE:
        places = np.random.default_rng(0).choice(places, SAMPLE, replace=False)
    weights = policy.table["weight"][places].astype(float) * policy.table["reads"][places]
    share = mean(policy.fresh(places, now), weights)
    return {
        "elements": int(np.count_nonzero(policy.table.wanted)),
        "freshness": share.value,
        "low": share.low,
        "high": share.high,
        "price": policy.price,
        "next": policy.limits.next(now),
    }


def _overdue(policy: MirrorPolicy, places: Places, now: float) -> int:
    """Return how many elements are worth far more than the price."""
    if policy.price <= 0:
        return 0
    table = policy.table
    able = places[(table["not_before"][places] <= now) & ~np.isnan(table["last"][places])]
    values = policy.worths(able, table.since(able, now))
    late = table.since(able, now) > 1.5 * table["max_age"][able]
    return int(np.count_nonzero((values > 3.0 * policy.price) | late))


def _groups(
    policy: MirrorPolicy, t: Transaction, places: Places, *, fresh: Floats, weights: Floats, now: float
) -> list[GroupStatus]:
    """Return how groups do, those with most elements first."""
    owner = policy.table["group"][places]
    size = int(owner.max(initial=0)) + 1
    counts = np.bincount(owner, minlength=size)
    heavy = np.bincount(owner, weights, minlength=size)
    sums = np.bincount(owner, weights * fresh, minlength=size)
    seen: dict[str, list[int]] = {}
    for name, outcome, polls, traffic in t.tally(now - _DAY):
        row = seen.setdefault(name, [0, 0, 0])
        row[0] += polls
        row[1] += polls if outcome in {"failed", "refused"} else 0
        row[2] += traffic
    found = []
    for group in t.groups():
        if group.id < size and counts[group.id]:
            polls, failed, traffic = seen.get(group.name, [0, 0, 0])
            value = float(sums[group.id] / heavy[group.id]) if heavy[group.id] > 0 else nan
            limits = policy.limits.group(group.id)
            found.append(
                GroupStatus(
                    name=group.name,
                    elements=int(counts[group.id]),
                    polls=polls,
                    failed=failed,
                    traffic=traffic,
                    freshness=value,
                    blocked_until=group.blocked_until,
                    why=group.why,
                    spacing=limits.spacing,
                    fastest=limits.fastest,
                )
            )
    return sorted(found, key=lambda one: (-one.elements, one.name))


def _neglected(policy: MirrorPolicy, t: Transaction, now: float, most: int = 20) -> list[Neglected]:
    """Return elements that are polled less than one would think: those that matter most first."""
    table = policy.table
    state, wanted = table["state"], table.wanted
    blocked = np.zeros(int(table["group"].max(initial=0)) + 1, np.bool_)
    for number, group in policy.limits.groups():
        if number < blocked.size:
            blocked[number] = group.blocked > now or group.paid > now + 60.0
    patience = max(10.0 * policy.round, 3600.0)
    since = table.since(np.arange(len(table)), now)
    odd = wanted & (np.isin(state, [FAILING, REFUSED]) | blocked[table["group"]] | (since > patience))
    never = (state == GONE) & (table["last"] - table["added"] < _DAY)  # maybe there never was such a thing
    odd = (odd & (state != GONE)) | (wanted & never)
    places = np.flatnonzero(odd)
    places = places[np.argsort(-table["weight"][places] * since[places], kind="stable")][:most]
    found = []
    for place in places.tolist():
        element = next(iter(t.elements(int(table["id"][place]) - 1, 1)), None)
        if element is not None and element.id == int(table["id"][place]) and _odd(element):
            why = _why_neglected(policy, place, element, now)
            found.append(Neglected(element.key, element.last, why, float(since[place])))
    return found


def _odd(element: Element) -> bool:
    """Tell whether something is wrong with an element: what was there and is gone is not."""
    return element.state != "gone" or element.version is None


def _why_neglected(  # noqa: PLR0911  (one sentence for each reason)
    policy: MirrorPolicy, place: int, element: Element, now: float
) -> str:
    """Say why an element gets so little."""
    table = policy.table
    group = policy.limits.group(int(table["group"][place]))
    state = int(table["state"][place])
    if state == REFUSED:
        return element.detail or "the source refuses it"
    if state == GONE:
        return f"it was never there: {element.detail}; check its key"
    if state == FAILING:
        times = "1 failure" if element.failures == 1 else f"{element.failures} failures in a row"
        return (
            f"{times}: {element.detail}; tried again in {show_duration(max(element.not_before - now, 1.0))}"
        )
    if group.blocked > now:
        return f"{group.name} asked to wait for {show_duration(group.blocked - now)} more: {group.why}"
    if group.paid > now + 60.0:
        return f"polls of {group.name} fail, so it is left alone for {show_duration(group.paid - now)}"
    if state == NEW:
        return "it waits for its first poll"
    law = table.learner.law(table.since(np.array([place]), now), np.array([place]))
    rate = float(np.asarray(law.rate)[0]) * _DAY
    return f"a poll is worth less than the price: it seems to change {show_number(rate)} times a day"


def explain(settings: Settings, t: Transaction, element: Element, now: float) -> Explanation:
    """Return why an element is polled when it is."""
    return explanation_of(load_policy(settings, t, element.id)[0], t, element, now)


def explanation_of(policy: MirrorPolicy, t: Transaction, element: Element, now: float) -> Explanation:
    """Return why an element is polled when it is, by an policy that has been read."""
    table = policy.table
    reads = sum(count for _, _, count in t.reads(now - 30 * _DAY, element.id))
    polls, versions = t.polls(element.id, 20), t.versions(element=element.id, limit=20, latest_first=True)
    if not table.has([element.id])[0]:
        return Explanation(
            element, nan, nan, nan, nan, nan, nan, element.weight, element.size, 0.0, policy.price, inf,
            "It was removed, so it is polled no more.", 0, reads, polls, versions,
        )  # fmt: skip
    at = table.places([element.id])
    since = table.since(at, now)
    law, hope = table.learner.outlook(since, at)
    shape, scale = float(np.asarray(law.shape)[0]), float(np.asarray(law.scale)[0])
    moment = float(due(policy, at, now)[0])
    value = inf if np.isnan(table["last"][at][0]) else float(policy.worths(at, since)[0])
    low, high = (float(special.gammaincinv(shape, share)) * scale for share in (0.05, 0.95))
    return Explanation(
        element=element,
        rate=shape * scale,
        low=low,
        high=high,
        hopeless=1.0 - float(hope[0]),
        half_life=float(table.learner.half_life[0]),
        fresh=float(policy.fresh(at, now)[0]) if element.version is not None else 0.0,
        weight=float(table["weight"][at][0]) * float(table["reads"][at][0]),
        size=float(policy.sizes(at)[0]),
        worth=value,
        price=policy.price,
        next_poll=moment,
        why=_why(policy, int(at[0]), element, value=value, moment=moment, now=now),
        hints=int(table["hints"][at][0]),
        reads=reads,
        polls=polls,
        versions=versions,
    )


def _why(  # noqa: C901, PLR0911, PLR0912  (one sentence for each reason)
    policy: MirrorPolicy, place: int, element: Element, *, value: float, moment: float, now: float
) -> str:
    """Say why the next poll comes when it does."""
    table = policy.table
    group = policy.limits.group(int(table["group"][place]))
    state = int(table["state"][place])
    if state == NEW:
        return "It has no copy yet: new elements are polled first, as far as half of the budget goes."
    if state == REFUSED:
        return f"It must not be polled ({element.detail}); that is looked at again from time to time."
    if state == FAILING:
        return f"Its last polls failed ({element.detail}), so it is tried again later and later."
    if state == GONE and element.version is None:
        return f"It is not there ({element.detail}), and never was since it was added."
    if state == GONE:
        return "It is gone at its source. The last copy stays, and it is looked for less and less often."
    if group.blocked > now:
        return f"Its group, {group.name}, asked to wait: {group.why}."
    if table["window"][place] and not _is_open(policy, place, now):
        return f"It is polled only at certain times: {element.windows}."
    wait = moment - (element.last if isfinite(element.last) else now)
    if wait >= float(table["max_age"][place]) * 0.999:
        return f"Its max_age of {show_duration(float(table['max_age'][place]))} demands a poll then."
    if 0 < wait <= float(table["min_interval"][place]) * 1.001:
        return f"Its min_interval of {show_duration(wait)} allows no earlier poll."
    _, hope = table.learner.outlook(table.since(np.array([place]), now), np.array([place]))
    if hope[0] < 0.5:
        return (
            "It seems to change all the time, so no copy of it stays fresh: it is polled now and then only."
        )
    if wait >= 0.999 * PATIENCE * policy.round:
        return "It is polled now and then whatever that seems to be worth."
    if not isfinite(moment):
        return "A poll will never be worth the price: it changes so often that a copy is stale again at once."
    if value >= policy.price:
        return "A poll is worth the price now, so it is next in line."
    share = show_number(100 * value / policy.price)
    return f"The worth of a poll reaches the price then; now it is {share} % of it."


def _is_open(policy: MirrorPolicy, place: int, now: float) -> bool:
    """Tell whether the windows of an element allow polls now."""
    hours = policy.table.hours[int(policy.table["window"][place])]
    return hours is None or bool(hours.is_open(now))


def judged(polls: Sequence[PollRecord], now: float) -> Audit:
    """Return what polls of a random sample say about the estimates.

    The interval is Wilson's, for the share of copies that were fresh.
    """
    saw = [poll for poll in polls if poll.outcome in {"changed", "unchanged"} and isfinite(poll.predicted)]
    count = len(saw)
    if not count:
        return Audit(now, 0, nan, nan, 0.0, 1.0, agrees=True, failed=len(polls))
    predicted = sum(poll.predicted for poll in saw) / count
    true = sum(poll.outcome == "unchanged" for poll in saw) / count
    z2 = SURE**2 / count
    middle = (true + 0.5 * z2) / (1.0 + z2)
    half = sqrt(true * (1.0 - true) * z2 + 0.25 * z2**2) / (1.0 + z2)
    low, high = max(middle - half, 0.0), min(middle + half, 1.0)
    return Audit(now, count, predicted, true, low, high, low <= predicted <= high, len(polls) - count)


def kept(audit: Audit, state: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return what is to be kept of an audit, together with those before."""
    known = [asdict(one) for one in (*audits(state), audit)][-_AUDITS:]
    return {"audits": json.dumps(known).encode()}


def audits(state: Mapping[str, bytes]) -> list[Audit]:
    """Return the last audits, the oldest first, from what is kept."""
    if "audits" in state:
        return [Audit(**one) for one in json.loads(state["audits"])]
    return [Audit(**json.loads(state["audit"]))] if "audit" in state else []  # until version 2 only the last
