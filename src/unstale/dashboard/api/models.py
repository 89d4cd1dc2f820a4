"""What the API takes and gives. What is not known is null."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from math import isfinite
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from unstale.dashboard.pages.glance import Glance
from unstale.mirror.reports import (
    element as portrait,
)
from unstale.mirror.reports import (
    status as insight,
)
from unstale.mirror.reports import (
    what_if as prospect,
)
from unstale.mirror.store import contract as store

from .copy_headers import copy_path

__all__ = [
    "Added", "Budget", "BudgetFor", "Change", "Changes", "Difference", "Element", "Elements", "Explanation",
    "Group", "Groups", "Health", "Hinted", "Hints", "NewElements", "Problem", "Prospect", "Removed", "Sample",
    "Samples", "Status", "Versions", "moment", "number", "problems",
]  # fmt: skip

State = Literal["new", "ok", "gone", "failing", "refused", "removed"]
Share = Annotated[float | None, Field(ge=0, le=1)]


def number(value: float | None) -> float | None:
    """Return a number, or None for what JSON cannot hold.

    >>> number(1.5), number(float("nan")), number(None)
    (1.5, None, None)
    """
    return float(value) if value is not None and isfinite(value) else None


def moment(seconds: float | None) -> datetime | None:
    """Return a moment, from seconds since 1970; None if it cannot be.

    >>> moment(0.0).isoformat(), moment(1e300)
    ('1970-01-01T00:00:00+00:00', None)
    """
    if seconds is None or not -6e10 < seconds < 2.5e11:  # years 70 to 9892
        return None
    return datetime.fromtimestamp(seconds, UTC)


def _plain(value: object) -> Any:  # noqa: ANN401  (JSON)
    """Return JSON without numbers that JSON cannot hold."""
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return number(value) if isinstance(value, float) else value


class Problem(BaseModel):
    """What is wrong."""

    error: str = Field(description="In words, for people.")


_PROBLEMS = {
    400: "The request is malformed.",
    401: "A token is needed.",
    414: "The address is too long.",
    421: "This server does not go by the name that was asked for.",
    422: "A value cannot be used.",
    503: "The store cannot be read now.",
}
_PROBLEMS_OF_EDITS = {
    403: "The request comes from another site.",
    408: "The body came too slowly.",
    413: "The body is too large.",
    415: "The body is not JSON.",
}


def problems(*, edit: bool = False, **said: str) -> dict[int | str, dict[str, Any]]:
    """Return how requests may fail, for their description: in ways that all share, and ``on404="..."``.

    >>> sorted(problems(on404="There is none."))
    [400, 401, 404, 413, 414, 421, 422, 503]
    """
    told = _PROBLEMS | {413: "The body is too large."} | (_PROBLEMS_OF_EDITS if edit else {})
    told |= {int(name.removeprefix("on")): text for name, text in said.items()}
    return {status: {"model": Problem, "description": text} for status, text in sorted(told.items())}


# --- how the mirror does


class Interval(BaseModel):
    """A share with a 90 % interval."""

    value: Share = Field(description="The share, from 0 to 1.")
    low: Share = Field(description="Lower end of the interval.")
    high: Share = Field(description="Upper end of the interval.")

    @classmethod
    def of(cls, share: insight.Share) -> Interval:
        """Tell it."""
        return cls(value=number(share.value), low=number(share.low), high=number(share.high))


class Group(BaseModel):
    """How a group does."""

    name: str
    elements: int = Field(description="How many it has.")
    polls: int = Field(description="In the last day, as failed and traffic.")
    failed: int = Field(description="Polls that failed or were refused.")
    traffic: int = Field(description="Bytes.")
    freshness: Share = Field(description="Weighted mean probability that its copies are fresh.")
    blocked_until: datetime | None = Field(
        description="Nobody polls it before; null if nothing is to be waited for."
    )
    why: str = Field(description="Why it is blocked.")
    spacing: float = Field(description="Seconds between the starts of two polls.")
    fastest: float | None = Field(description="Polls per second that the spacing allows; null: any.")

    @classmethod
    def of(cls, one: insight.GroupStatus, now: float) -> Group:
        """Tell it."""
        until = moment(one.blocked_until) if one.blocked_until > now else None
        return cls(
            name=one.name, elements=one.elements, polls=one.polls, failed=one.failed, traffic=one.traffic,
            freshness=number(one.freshness), blocked_until=until, why=one.why if until else "",
            spacing=one.spacing, fastest=number(one.fastest),
        )  # fmt: skip


class Groups(BaseModel):
    """Groups, those with most elements first."""

    groups: list[Group]
    total: int = Field(description="Groups in all.")


class Neglected(BaseModel):
    """An element that gets less than one would think."""

    key: str
    last: datetime | None = Field(description="Last poll that saw something.")
    since: float | None = Field(description="Seconds since then, or since it was added.")
    why: str


class Audit(BaseModel):
    """What a random sample of polls said about the estimates."""

    time: datetime | None
    sample: int = Field(description="Polls that saw something.")
    predicted: Share = Field(description="Share of fresh copies that was expected.")
    true: Share = Field(description="Share of them that were.")
    low: Share = Field(description="A 90 % interval of the share of all copies.")
    high: Share = Field(description="Its upper end.")
    agrees: bool = Field(description="Whether what was expected is within the interval.")
    failed: int = Field(description="Polls that saw nothing.")

    @classmethod
    def of(cls, one: insight.Audit) -> Audit:
        """Tell it."""
        return cls(
            time=moment(one.time), sample=one.sample, predicted=number(one.predicted), true=number(one.true),
            low=number(one.low), high=number(one.high), agrees=one.agrees, failed=one.failed,
        )  # fmt: skip


class Budgets(BaseModel):
    """Budgets of polls and of bytes."""

    budget: float | None = Field(description="Polls per second; null: no limit by polls.")
    byte_budget: float | None = Field(description="Bytes per second; null: no limit by bytes.")


class Status(BaseModel):
    """How the mirror does."""

    now: datetime | None
    running: bool = Field(description="Whether somebody polls.")
    workers: int = Field(description="Processes that poll.")
    elements: dict[str, int] = Field(description="How many there are in each state.")
    freshness: Interval = Field(description="Weighted share of copies that are fresh now, as estimated.")
    predicted: Share = Field(description="Freshness that the budget buys on average, by the plan.")
    age: float | None = Field(description="Weighted mean of the expected ages of copies, in seconds.")
    price: float | None = Field(description="What a poll must be worth, per unit of budget.")
    budget: float | None = Field(description="Polls per second; null: no limit by polls.")
    byte_budget: float | None = Field(description="Bytes per second; null: no limit by bytes.")
    spent: float | None = Field(description="Polls per second, in the last day.")
    traffic: float | None = Field(description="Bytes per second, in the last day.")
    polls: dict[str, int] = Field(description="Polls of the last day by outcome.")
    changes: int = Field(description="Changes seen in the last day.")
    overdue: int = Field(description="Elements that are worth far more than the price.")
    neglected: list[Neglected]
    groups: int = Field(description="How many there are; see /api/groups.")
    trouble: list[str]
    audit: Audit | None = Field(description="The last one.")
    instead_of: Budgets | None = Field(description="What the configuration says, if others were set since.")

    @classmethod
    def of(cls, one: insight.Status) -> Status:
        """Tell it."""
        neglected = [
            Neglected(key=n.key, last=moment(n.last), since=number(n.since), why=n.why) for n in one.neglected
        ]
        return cls(
            now=moment(one.now), running=one.running, workers=one.workers, elements=dict(one.elements),
            freshness=Interval.of(one.freshness), predicted=number(one.predicted), age=number(one.age),
            price=number(one.price), budget=number(one.budget), byte_budget=number(one.byte_budget),
            spent=number(one.spent), traffic=number(one.traffic), polls=dict(one.polls), changes=one.changes,
            overdue=one.overdue, neglected=neglected, groups=len(one.groups), trouble=list(one.trouble),
            audit=None if one.audit is None else Audit.of(one.audit),
            instead_of=None if one.instead_of is None else Budgets(
                budget=number(one.instead_of[0]), byte_budget=number(one.instead_of[1])
            ),
        )  # fmt: skip


class Sample(BaseModel):
    """How the mirror did at a moment."""

    time: datetime | None
    freshness: Interval
    age: float | None = Field(description="Mean expected age of copies, in seconds.")
    predicted: Share = Field(description="Freshness that the budget buys on average.")
    price: float | None = Field(description="What a poll had to be worth, per unit of budget.")
    polls: int = Field(description="Since the sample before, as failed and traffic.")
    failed: int = Field(description="Polls that failed or were refused.")
    traffic: int = Field(description="Bytes.")
    beside: dict[str, float | None] = Field(description="What else was measured, by name.")

    @classmethod
    def of(cls, one: store.Sample) -> Sample:
        """Tell it."""
        return cls(
            time=moment(one.time),
            freshness=Interval(value=number(one.freshness), low=number(one.low), high=number(one.high)),
            age=number(one.age), predicted=number(one.predicted), price=number(one.price), polls=one.polls,
            failed=one.failed, traffic=one.traffic,
            beside={name: number(value) for name, value in one.beside.items()},
        )  # fmt: skip


class Samples(BaseModel):
    """How the mirror did, in the order of time."""

    samples: list[Sample]


class Health(BaseModel):
    """Whether the mirror can be used."""

    status: Literal["ok", "trouble"]
    running: bool = Field(description="Whether somebody polls.")
    detail: str = Field(description="What is wrong, in words.")


# --- elements


class Element(BaseModel):
    """An element."""

    id: int = Field(description="Its number.")
    key: str
    source: str
    group: str
    state: State
    detail: str = Field(description="Of the last poll, in words.")
    added: datetime | None
    last: datetime | None = Field(description="Start of the last poll that saw something.")
    not_before: datetime | None = Field(description="It is not polled before; null if it may be.")
    failures: int = Field(description="Polls in a row that saw nothing.")
    version: int | None = Field(description="Number of the latest version.")
    weight: float = Field(description="How much its freshness matters, compared with others.")
    max_age: float | None = Field(description="Seconds within which it must be polled.")
    min_interval: float = Field(description="Seconds between two polls, at least.")
    jitter: float = Field(description="Share by which intervals vary.")
    windows: str = Field(description="When it may be polled; empty: at any time.")
    size: float | None = Field(description="Bytes that a poll takes, on average.")
    moved: str | None = Field(description="Where it is now for good.")
    copy_path: str = Field(description="Where its copy is served.")
    fresh: Share = Field(
        None, description="Probability that its copy is fresh; null: see the element itself."
    )
    rate: float | None = Field(None, description="Changes per second, as estimated.")

    @classmethod
    def of(cls, one: store.Element, glance: Glance | None = None) -> Element:
        """Tell it; not what its source is told, which may be secret."""
        return cls(
            id=one.id, key=one.key, source=one.source, group=one.group, state=one.state, detail=one.detail,
            added=moment(one.added), last=moment(one.last), not_before=moment(one.not_before or None),
            failures=one.failures, version=one.version, weight=one.weight, max_age=number(one.max_age),
            min_interval=one.min_interval, jitter=one.jitter, windows=one.windows, size=number(one.size),
            moved=one.moved, copy_path=copy_path(one.key),
            fresh=None if glance is None else number(glance.fresh),
            rate=None if glance is None else number(glance.rate),
        )  # fmt: skip


class Elements(BaseModel):
    """Some of the elements."""

    elements: list[Element]
    total: int = Field(description="How many there are that fit.")
    offset: int = Field(description="How many come before these.")


class Poll(BaseModel):
    """What is kept of a poll."""

    id: int = Field(description="Its number; they grow.")
    time: datetime | None
    outcome: str
    elapsed: float | None = Field(description="Seconds since the last poll that saw something.")
    seconds: float | None = Field(description="How long it took.")
    traffic: int = Field(description="Bytes.")
    detail: str
    version: int | None = Field(description="Number of the version that it brought.")
    planned: bool = Field(description="False for those of an audit.")
    predicted: Share = Field(description="Probability, before the poll, that the copy was fresh.")

    @classmethod
    def of(cls, one: store.PollRecord) -> Poll:
        """Tell it."""
        return cls(
            id=one.id, time=moment(one.time), outcome=one.outcome, elapsed=number(one.elapsed),
            seconds=number(one.seconds), traffic=one.traffic, detail=one.detail, version=one.version,
            planned=one.planned, predicted=number(one.predicted),
        )  # fmt: skip


class Change(BaseModel):
    """A version of a copy, which is a change unless it is the first."""

    id: int = Field(description="Numbers of versions grow, so the last one seen says where to go on.")
    element: int = Field(description="Number of the element.")
    key: str
    time: datetime | None = Field(description="Start of the poll that saw it.")
    digest: str = Field(description="SHA-256 of the content, in hexadecimal.")
    size: int = Field(description="Bytes.")
    media_type: str
    modified: datetime | None = Field(description="When the content changed, as the source says.")
    first: bool = Field(description="Whether it is the first version: a new element, not a change.")
    meta: dict[str, Any] = Field(description="What else the source says: title, rows, status, headers.")
    copy_path: str = Field(description="Where this version is served.")

    @classmethod
    def of(cls, one: store.Version) -> Change:
        """Tell it."""
        return cls(
            id=one.id, element=one.element, key=one.key, time=moment(one.time), digest=one.digest,
            size=one.size, media_type=one.media_type, modified=moment(one.modified), first=one.first,
            meta=_plain(one.meta), copy_path=f"{copy_path(one.key)}?version={one.id}",
        )  # fmt: skip


class Versions(BaseModel):
    """Versions of an element, the latest first."""

    versions: list[Change]


class Changes(BaseModel):
    """Changes, in the order in which they were recorded."""

    changes: list[Change]
    next: int = Field(description="Give it as `after` to go on.")


class Difference(BaseModel):
    """What is different between two versions."""

    old: Change
    new: Change
    difference: str = Field(description="Of text, a unified difference of lines; of tables, of rows.")


class Worth(BaseModel):
    """What a poll is worth at a moment."""

    time: datetime | None
    worth: float | None = Field(description="Per unit of budget, as the price.")


class Explanation(BaseModel):
    """Why an element is polled when it is."""

    element: Element
    why: str
    rate: float | None = Field(description="Changes per second, as estimated.")
    low: float | None = Field(description="A 90 % interval of the rate.")
    high: float | None = Field(description="Its upper end.")
    hopeless: Share = Field(description="Probability that it changes all the time, so that no poll helps.")
    half_life: float | None = Field(description="Seconds in which what polls saw comes to count half.")
    fresh: Share = Field(description="Probability that the copy is fresh.")
    weight: float | None = Field(description="With how often its copy is read, if that counts.")
    size: float | None = Field(description="Bytes that a poll takes, as expected.")
    worth: float | None = Field(description="Of a poll now; null without a copy: more than any price.")
    price: float | None = Field(description="What a poll must be worth, per unit of budget.")
    next_poll: datetime | None = Field(description="When the worth reaches the price; null: never.")
    hints: int = Field(description="Since the last poll.")
    reads: int = Field(description="Of its copy, in the last 30 days.")
    reads_per_day: float | None = Field(description="In the last 30 days, or since it was added.")
    law: str | None = Field(description="Name of the law that fits its changes best.")
    law_why: str = Field(description="How sure that is, or why it cannot be told.")
    worths: list[Worth] = Field(description="Over the coming time.")
    polls: list[Poll] = Field(description="The latest first.")
    versions: list[Change] = Field(description="The latest first.")

    @classmethod
    def of(cls, drawn: portrait.Portrait) -> Explanation:
        """Tell it."""
        one = drawn.explanation
        times, worths = (array.tolist() for array in drawn.worths)
        return cls(
            element=Element.of(one.element), why=one.why, rate=number(one.rate), low=number(one.low),
            high=number(one.high), hopeless=number(one.hopeless), half_life=number(one.half_life),
            fresh=number(one.fresh), weight=number(one.weight), size=number(one.size),
            worth=number(one.worth), price=number(one.price), next_poll=moment(one.next_poll),
            hints=one.hints, reads=one.reads, reads_per_day=number(drawn.reads_per_day), law=drawn.law,
            law_why=drawn.why, polls=[Poll.of(poll) for poll in drawn.polls],
            worths=[Worth(time=moment(t), worth=number(w)) for t, w in zip(times, worths, strict=True)],
            versions=[Change.of(version) for version in drawn.versions],
        )  # fmt: skip


# --- budgets


class Bought(BaseModel):
    """What a budget buys: freshness, or age in seconds."""

    budget: float = Field(description="Polls or bytes per second.")
    optimal: float | None = Field(description="By the optimal plan.")
    uniform: float | None = Field(description="If all elements are polled equally often.")
    proportional: float | None = Field(
        description="If they are polled in proportion to how often they change."
    )


class Prospect(BaseModel):
    """What other budgets would buy."""

    objective: Literal["freshness", "age"] = Field(description="What is told: freshness, or age in seconds.")
    unit: Literal["polls", "bytes"] = Field(description="What budgets count, per second.")
    present: float = Field(description="The budget of today, per second.")
    present_value: float | None = Field(description="What it buys.")
    points: list[Bought]

    @classmethod
    def of(cls, one: prospect.Prospect) -> Prospect:
        """Tell it."""
        columns = (
            one.budgets.tolist(),
            one.optimal.tolist(),
            one.uniform.tolist(),
            one.proportional.tolist(),
        )
        points = [
            Bought(budget=b, optimal=number(o), uniform=number(u), proportional=number(p))
            for b, o, u, p in zip(*columns, strict=True)
        ]
        return cls(
            objective="age" if one.objective == "age" else "freshness", unit=one.unit, present=one.present,
            present_value=number(one.present_value), points=points,
        )  # fmt: skip


class BudgetFor(BaseModel):
    """What a freshness costs."""

    freshness: Share = Field(description="What was asked for, from 0 to 1.")
    budget: float | None = Field(description="The smallest that buys it, per second; null: none does.")
    unit: Literal["polls", "bytes"] = Field(description="What it counts.")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


_Amount = Annotated[float, Field(ge=1e-9, le=1e12, allow_inf_nan=False)]


class Budget(_Strict):
    """Budgets to be set; what is left out stays."""

    budget: _Amount | None = Field(None, description="Polls per second; null: no limit by polls.")
    byte_budget: _Amount | None = Field(None, description="Bytes per second; null: no limit by bytes.")


# --- what is said from outside

_Key = Annotated[str, Field(min_length=1, max_length=2048)]


class Hints(_Strict):
    """Elements that may have changed."""

    keys: list[_Key] = Field(min_length=1, max_length=1000)
    time: datetime | None = Field(None, description="When they changed, as far as is known; null: now.")


class Hinted(BaseModel):
    """What became of hints."""

    hinted: int = Field(description="Elements that they were about.")


class NewElement(_Strict):
    """A page, a feed or a sitemap."""

    key: _Key = Field(description="Its address; `feed:` or `sitemap:` before it says that it is one.")
    weight: float | None = Field(
        None, ge=0, le=1e30, allow_inf_nan=False, description="How much it matters; others have 1."
    )
    max_age: float | None = Field(
        None, ge=1, le=1e12, allow_inf_nan=False, description="Seconds within which it must be polled."
    )
    min_interval: float | None = Field(
        None, ge=0, le=1e12, allow_inf_nan=False, description="Seconds between two polls, at least."
    )
    jitter: float | None = Field(
        None, ge=0, le=1, allow_inf_nan=False, description="Share by which intervals vary."
    )
    windows: str | None = Field(None, max_length=500, description="When it may be polled.")


class NewElements(_Strict):
    """Elements to be added; of those that are there already, what is said counts from now on."""

    elements: list[NewElement] = Field(min_length=1, max_length=1000)


class Refused(BaseModel):
    """What could not be added."""

    key: str
    why: str


class Added(BaseModel):
    """What became of elements that were to be added."""

    added: int = Field(description="How many are new.")
    known: int = Field(description="There already.")
    changed: int = Field(description="Of those, how many of which something else is said now.")
    refused: list[Refused]


class Removed(BaseModel):
    """What was removed."""

    removed: int = Field(description="How many elements.")
