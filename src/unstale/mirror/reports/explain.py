"""Why an element is polled when it is: what is known of it, what a poll is worth, when the next one comes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, isfinite, nan

import numpy as np
import scipy

from unstale.arguments import Floats
from unstale.errors import InvalidInput
from unstale.estimation import fit_polls
from unstale.mirror.engine.load_policy import MirrorPolicy
from unstale.mirror.json_values import as_json, fields_json, moment, number
from unstale.mirror.settings import Settings
from unstale.mirror.source import Json
from unstale.mirror.store.contract import Element, PollRecord, Transaction, Version
from unstale.policy.element_table import DROPPED, FAILING, GONE, NEW, REFUSED, REMOVED, Places
from unstale.quantities import show_duration, show_number
from unstale.wording import distance, plural, show_rate

from .polled_for import polled_for
from .rhythm import own_clock, own_words, rhythm_of, rhythm_words

POLLS_TOLD = 10
"""Polls and versions in the JSON of an explanation, unless another number is asked for."""
_DAY_SECONDS = 86400.0
_READS_SECONDS = 30 * _DAY_SECONDS
_RHYTHM_AHEAD_SECONDS = 14 * _DAY_SECONDS
"""How far ahead the next poll by a rhythm is looked for."""
_MOST_POLLS, _MOST_VERSIONS = 500, 200
_WORTHS_SHOWN = 121
"""Moments for which it is worked out what a poll is worth."""
_WORTHS_PAST_NEXT_POLL, _WORTHS_SHORTEST_SECONDS = 2.5, 5.0
"""They span so many times the wait for the next poll, and so many seconds at least."""
_FEWEST_CHANGES_FOR_LAW = 20


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why an element is polled when it is, and what its polls saw."""

    element: Element
    why: str
    """The reason, in a sentence."""
    rate: float
    """Changes per second, as estimated; nan if it was removed."""
    low: float
    """A 90 % interval of the rate."""
    high: float
    alike: str
    """To which elements it is alike, and how these change, in words; empty if all are of one class."""
    hopeless: float
    """Probability that it changes all the time, so that no poll helps."""
    rhythm: str
    """At which hours of the day or of the week it changes, in words; empty if that is always the same."""
    rhythm_levels: Floats
    """Changes in each hour of the day, or of the week from Thursday on, times the mean; UTC."""
    stays_until: float
    """Until when its source promises that it stays as it is; nan if it does not."""
    promises_kept: float
    """How far promises of its group are believed: 1 less the changes that come all the same, as a share."""
    half_life: float
    """Seconds in which what polls saw comes to count half."""
    fresh: float
    """Probability that the copy is fresh; nan if there is none, or if the element is known to be gone."""
    weight: float
    """With how often its copy is read, if that counts."""
    size: float
    """Bytes that a poll takes, as expected."""
    worth: float
    """Of a poll now, per unit of budget; inf without a copy."""
    price: float
    """What a poll must be worth, per unit of budget."""
    next_poll: float
    """When the worth reaches the price; inf: never."""
    hints: int
    """Since the last poll."""
    reads: int
    """Of its copy, in the last 30 days."""
    reads_per_day: float
    """In the last 30 days, or since it was added."""
    worths: tuple[Floats, Floats]
    """Moments from now on, and what a poll would be worth; none if that cannot be told."""
    polls: Sequence[PollRecord]
    """The latest first."""
    versions: Sequence[Version]
    """The latest first."""
    named_by: str = ""
    """What led to it: a link of a page, a list or a folder, in words; empty if a user added it."""
    turn: str = ""
    """Which replica polled it last and whose turn it is, in words; empty without replicas."""
    polled_for: Mapping[str, str] = field(default_factory=dict)
    """What mirror.toml says of how it is polled, by name and in words: its objective, a target, ..."""

    @cached_property
    def law(self) -> tuple[str | None, str]:
        """Name of the law that fits its changes best, and how sure that is; or None, and why.

        It is fitted when it is first asked for, which takes about a second.
        """
        saw = [p for p in reversed(self.polls) if p.outcome in {"changed", "unchanged"} and p.elapsed > 0]
        changed = [poll.outcome == "changed" for poll in saw]
        if sum(changed) < _FEWEST_CHANGES_FOR_LAW:
            seen = f"{plural(sum(changed), 'change')} {'has' if sum(changed) == 1 else 'have'} been seen"
            return None, f"{seen}; from {_FEWEST_CHANGES_FOR_LAW} on a law can be told"
        try:
            found = fit_polls([poll.elapsed for poll in saw], changed)
        except InvalidInput:  # every poll saw a change
            return None, "every poll saw a change, so nothing is known of the time between changes"
        return found.best.name, f"{100 * found.best.weight:.0f} % sure, among {len(found)} laws"

    def to_json(self, polls: int = POLLS_TOLD) -> dict[str, Json]:
        """Return it as JSON, as `json_values` says, with so many polls and versions at most."""
        name, law_why = self.law
        times, worths = (column.tolist() for column in self.worths)
        return fields_json(self) | {
            "law": name,
            "law_why": law_why,
            "worths": [
                {"time": moment(time), "worth": number(worth)}
                for time, worth in zip(times, worths, strict=True)
            ],
            "polls": as_json(list(self.polls[:polls])),
            "versions": as_json(list(self.versions[:polls])),
        }


def due(policy: MirrorPolicy, places: Places, now: float) -> Floats:
    """Return when elements will be worth the price of today; inf if never."""
    table = policy.table
    low, high = np.full(places.size, -2.0), np.full(places.size, 10.0)  # seconds, as powers of ten
    factors = policy.replicas.factors(places)
    for _ in range(40):
        middle = 0.5 * (low + high)
        enough = policy.known.worths(places, 10.0**middle) * factors >= policy.price
        high, low = np.where(enough, middle, high), np.where(enough, low, middle)
    last = np.where(np.isnan(table["last"][places]), -inf, table["last"][places])
    if policy.replicas.count > 1:
        last = np.where(np.isfinite(last), np.maximum(last, table["elsewhere"][places]), last)
    wait = np.where(high >= 10.0 - 1e-6, inf, 10.0**high)
    if not policy.known.timed:
        start = np.where(np.isfinite(last), last, now)
        wait = table.after(places, start, wait) - start
    wait = _by_the_clock(policy, places, wait, last, now)
    patience = policy.patience.times(places, policy.round)
    wait = np.minimum(wait, np.minimum(table["max_age"][places].astype(float), patience))
    wait = np.maximum(wait, table["min_interval"][places])
    moment = np.maximum(np.maximum(last + wait, table["not_before"][places]), policy.limits.next(now))
    return np.where(np.isin(table["state"][places], (REMOVED, DROPPED)), inf, moment)


def _by_the_clock(policy: MirrorPolicy, places: Places, wait: Floats, last: Floats, now: float) -> Floats:
    """Return the waits, but those of elements that are polled by a rhythm to when that says."""
    since = np.maximum(np.where(np.isfinite(last), last, now), now)
    moments = policy.known.next_polls(places, since, policy.price, _RHYTHM_AHEAD_SECONDS)
    timed = np.isfinite(moments) & np.isfinite(last)
    return np.where(timed, moments - np.where(timed, last, 0.0), wait)


def explain(
    policy: MirrorPolicy, t: Transaction, element: Element, now: float, settings: Settings | None = None
) -> Explanation:
    """Return why an element is polled when it is, by a policy that has read it, alone or among others."""
    table = policy.table
    reads = sum(count for _, _, count in t.reads(now - _READS_SECONDS, element.id))
    days = min(max(now - element.added, _DAY_SECONDS), _READS_SECONDS) / _DAY_SECONDS
    polls = t.polls(element.id, _MOST_POLLS)
    versions = t.versions(element=element.id, limit=_MOST_VERSIONS, latest_first=True)
    if not table.has([element.id])[0]:
        return Explanation(
            element=element, why="It was removed, so the mirror polls it no more.", rate=nan, low=nan,
            high=nan, alike="", hopeless=nan, rhythm="", rhythm_levels=np.empty(0), stays_until=nan,
            promises_kept=nan,
            half_life=nan, fresh=nan, weight=element.weight, size=element.size, worth=0.0, price=policy.price,
            next_poll=inf, hints=0, reads=reads, reads_per_day=reads / days,
            worths=(np.empty(0), np.empty(0)), polls=polls, versions=versions,
        )  # fmt: skip
    at = table.places([element.id])
    gone = bool(table["state"][at][0] == GONE)
    since = table.since(at, now)
    law, hope = policy.known.outlook(at, now)
    promised = element.last + float(table["stays"][at][0]) if table["stays"][at][0] > 0 else nan
    shape, scale = float(np.asarray(law.shape)[0]), float(np.asarray(law.scale)[0])
    next_poll, levels = float(due(policy, at, now)[0]), rhythm_of(policy, at)
    worked = since if policy.known.timed else table.worked_since(at, now)
    worked = policy.replicas.since(at, worked, now)
    value = inf if np.isnan(table["last"][at][0]) else float(policy.known.worths(at, worked)[0])
    value *= float(np.broadcast_to(policy.replicas.factors(at), 1)[0])
    if table["state"][at][0] == DROPPED:
        value = 0.0
    rate, low, high = (
        shape * scale,
        *(float(scipy.special.gammaincinv(shape, q)) * scale for q in (0.05, 0.95)),
    )
    if (own := own_clock(policy, at)) is not None:
        per_second = 1.0 / (own.period_days * _DAY_SECONDS)
        rate = per_second * own.hits / (own.hits + own.misses)
        low, high = (
            per_second * float(scipy.special.betaincinv(own.hits, own.misses, q)) for q in (0.05, 0.95)
        )
    return Explanation(
        element=element,
        why=_why(policy, int(at[0]), element, value=value, moment=next_poll, now=now),
        rate=rate,
        low=low,
        high=high,
        alike=_alike(policy, at),
        hopeless=1.0 - float(hope[0]),
        rhythm=rhythm_words(levels) if own is None else own_words(own),
        rhythm_levels=levels,
        stays_until=promised,
        promises_kept=1.0 - float(policy.known.expiries.speeds(at)[0]) if promised > 0 else nan,
        half_life=float(table.learner.half_life[table.learner.classes_of(at)[0]]),
        fresh=nan if element.version is None or gone else float(policy.known.fresh(at, now)[0]),
        weight=float(table["weight"][at][0]) * float(table["reads"][at][0]),
        size=float(policy.known.sizes(at)[0]),
        worth=value,
        price=policy.price,
        next_poll=next_poll,
        hints=int(table["hints"][at][0]),
        reads=reads,
        reads_per_day=reads / days,
        worths=_worths(policy, int(at[0]), nan if gone else element.last, next_poll, now),
        polls=polls,
        versions=versions,
        named_by=_named_by(t, element),
        turn=_turn(policy, int(at[0]), now),
        polled_for=polled_for(policy, Settings() if settings is None else settings, at, element),
    )


def _named_by(t: Transaction, element: Element) -> str:
    """Say what led to an element."""
    via = None if element.via is None else t.numbered([element.via]).get(element.via)
    if via is None:
        return "" if element.via is None else "something that was removed since"
    return f"a link of {via.key}" if via.source == "http" else via.key


def _turn(policy: MirrorPolicy, place: int, now: float) -> str:
    """Say which replica polled an element last, and whose turn it is."""
    turns, table = policy.replicas, policy.table
    if turns.count == 1:
        return ""
    mine = f"this one is replica {turns.number} of {turns.count}"
    elsewhere, last = float(table["elsewhere"][place]), float(table["last"][place])
    if not isfinite(elsewhere):
        return f"no other replica has told of a poll; {mine}"
    other = int(table["replica"][place])
    if np.isnan(last) or elsewhere > last:
        due_one, whom = other % turns.count + 1, f"replica {other}"
        when = elsewhere
    else:
        due_one, whom, when = turns.number % turns.count + 1, "this replica", last
    ago = f"{whom} polled it last, {distance(when, now)}"
    if due_one == turns.number:
        return f"{ago}, so it is the turn of this one; {mine}"
    return f"{ago}, so it is the turn of replica {due_one}, and this one steps in later; {mine}"


def _alike(policy: MirrorPolicy, at: Places) -> str:
    """Say of which class an element is, and why that is one."""
    table = policy.table
    if not table.tree.any:
        return ""
    number = int(table.learner.classes_of(at)[0])
    one, rates = table.tree.classes[number], np.asarray(table.learner.prior.rate)
    assert one is not None  # noqa: S101
    typical = f"{plural(one.elements, 'element')} with about {show_rate(float(rates[number]))} each"
    if not number:
        return f"{typical}, of no narrower class"
    above = f"{table.tree.name(one.parent) or 'others'}: {show_rate(float(rates[one.parent]))}"
    return f"{table.tree.name(number)}, {typical} ({above})"


def _worths(
    policy: MirrorPolicy, place: int, last: float, next_poll: float, now: float
) -> tuple[Floats, Floats]:
    """Return what a poll is worth over the coming time, past the next poll."""
    if np.isnan(last):
        return np.empty(0), np.empty(0)
    span = max(_WORTHS_PAST_NEXT_POLL * (next_poll - now), 0.5 * (now - last), _WORTHS_SHORTEST_SECONDS)
    span = min(span, 60 * _DAY_SECONDS) if isfinite(span) else 7 * _DAY_SECONDS
    times = now + np.linspace(0.0, span, _WORTHS_SHOWN)
    return times, policy.known.worths(np.full(_WORTHS_SHOWN, place), np.maximum(times - last, 0.0))


def _why(  # noqa: C901, PLR0911, PLR0912  (one sentence for each reason)
    policy: MirrorPolicy, place: int, element: Element, *, value: float, moment: float, now: float
) -> str:
    """Say why the next poll comes when it does."""
    table = policy.table
    group = policy.limits.group(int(table["group"][place]))
    state = int(table["state"][place])
    if state == NEW:
        return "It has no copy yet. The mirror polls new elements first, with up to half of the budget."
    if state == DROPPED:
        return (
            "There is no room for its copy: others are worth more for their bytes. The mirror polls it when "
            "a reader asks for it, or when there is room again."
        )
    if state == REFUSED:
        return f"The mirror must not poll it ({element.detail}). It asks again about once a day."
    if state == FAILING:
        return f"Its last polls failed ({element.detail}), so the mirror tries it less and less often."
    if state == GONE and element.version is None:
        return f"It is not there ({element.detail}), and never was since you added it."
    if state == GONE:
        return (
            "It is gone at its source. The last copy stays, and the mirror looks for it less and less often."
        )
    if group.blocked > now:
        return f"Its group, {group.name}, asked to wait: {group.why}."
    if table["window"][place] and not _is_open(policy, place, now):
        return f"The mirror polls it only at certain times: {element.windows}."
    wait = moment - (element.last if isfinite(element.last) else now)
    if wait >= float(table["max_age"][place]) * 0.999:
        return f"Its max_age of {show_duration(float(table['max_age'][place]))} demands a poll then."
    if 0 < wait <= float(table["min_interval"][place]) * 1.001:
        return f"Its min_interval of {show_duration(wait)} allows no earlier poll."
    _, hope = policy.known.outlook(np.array([place]), now)
    if hope[0] < 0.5:
        return (
            "It seems to change all the time, so no copy of it stays fresh. The mirror polls it only now "
            "and then."
        )
    waited = wait >= 0.999 * float(policy.patience.times(np.array([place]), policy.round)[0])
    if waited and not value >= policy.price:
        return "Its turn comes now and then, whatever a poll of it seems to be worth."
    if not isfinite(moment):
        return (
            "A poll will never be worth the price: the element changes so often that a copy is stale again "
            "at once."
        )
    if value >= policy.price:
        return "A poll of it is worth the price now, so it is next in line."
    share = show_number(100 * value / policy.price)
    return f"The mirror polls it when that is worth the price; now a poll is worth {share} % of the price."


def _is_open(policy: MirrorPolicy, place: int, now: float) -> bool:
    """Tell whether the windows of an element allow polls now."""
    hours = policy.table.hours[int(policy.table["window"][place])]
    return hours is None or bool(hours.is_open(now))
