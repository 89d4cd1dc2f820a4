"""What the API takes, and a description of what it gives, for OpenAPI.

The answers themselves are made by `mirror.json_values`; a test insists that they are as described here,
member for member. What is not known is null.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

State = Literal["new", "ok", "gone", "failing", "refused", "removed", "dropped", "paused", "archived"]
Share = Annotated[float | None, Field(ge=0, le=1)]


class ErrorAnswer(BaseModel):
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
    return {status: {"model": ErrorAnswer, "description": text} for status, text in sorted(told.items())}


# --- how the mirror does


class Interval(BaseModel):
    """A share with a 90 % interval."""

    value: Share = Field(description="The share, from 0 to 1.")
    low: Share = Field(description="Lower end of the interval.")
    high: Share = Field(description="Upper end of the interval.")


class GroupStatus(BaseModel):
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


class GroupList(BaseModel):
    """Groups, those with most elements first."""

    groups: list[GroupStatus]
    total: int = Field(description="Groups in all.")


class Neglected(BaseModel):
    """An element that gets less than one would think."""

    key: str
    last: datetime | None = Field(description="Last poll that saw something.")
    since: float | None = Field(description="Seconds since then, or since it was added.")
    why: str = Field(description="The reason, in words.")


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
    gone: int = Field(description="Elements that were found gone, so that their copies were not fresh.")


class Budgets(BaseModel):
    """Budgets of polls and of bytes."""

    budget: float | None = Field(description="Polls per second; null: no limit by polls.")
    byte_budget: float | None = Field(description="Bytes per second; null: no limit by bytes.")


class InReserve(BaseModel):
    """What a budget has in reserve."""

    span: float = Field(description="Seconds of which unspent budget is kept, at most.")
    level: Share = Field(description="Share of it that is there: 1 if it is full, 0 if it is empty.")
    polls: float | None = Field(description="Polls that it pays for, beyond the budget.")
    traffic: float | None = Field(description="Bytes that it pays for.")


class FirstCopies(BaseModel):
    """Elements that have been polled for the first time, of all."""

    done: int = Field(description="Elements that have been polled.")
    total: int = Field(description="All elements.")
    seconds: float | None = Field(description="Until all have been, about; null if nobody can tell.")


class ReaderFreshness(BaseModel):
    """How fresh the copies are that a user reads."""

    user: str = Field(description="A name, or a hash of what named the user.")
    reads: float = Field(description="How many there were; they fade.")
    weight: float = Field(description="How much the user counts.")
    freshness: Share = Field(description="By how often the user reads each copy.")


class ComposedFreshness(BaseModel):
    """How fresh something is that is made from several elements."""

    name: str = Field(description="As the configuration names it.")
    parts: int = Field(description="Elements that it is made from.")
    freshness: Share = Field(
        description="Probability that all of them are fresh, or one of them if that suffices."
    )
    needs: Literal["all", "one"] = Field(description="How many of them must be fresh.")


class TargetFreshness(BaseModel):
    """What a rule promises, and how far that is kept."""

    rule: str = Field(description="The pattern of its elements.")
    elements: int = Field(description="How many these are.")
    target: Share = Field(description="Share of them that should be fresh.")
    freshness: Share | None = Field(description="Share that is fresh now.")
    expected: Share = Field(description="Share that is fresh on average, with what it gets.")
    gets: float = Field(description="Polls per second.")
    needs: float | None = Field(description="Polls per second that would keep it; null: none would.")
    kept: bool = Field(description="Whether the budget can keep it.")


class ReplicaHeard(BaseModel):
    """Another mirror of the same elements, with which this one takes turns."""

    number: int = Field(description="Which one it is.")
    last: datetime | None = Field(description="When it told of a poll last; null if it never did.")


class RoomTaken(BaseModel):
    """How much room copies take, if they may have only so much."""

    space: int = Field(description="Bytes that all copies may have together.")
    taken: int = Field(description="Bytes that they have, with old versions.")
    dropped: int = Field(description="Elements whose copies were dropped.")


class Status(BaseModel):
    """How the mirror does."""

    now: datetime | None = Field(description="When that was so.")
    running: bool = Field(description="Whether somebody polls.")
    starting: bool = Field(description="Whether those who run it plan their start, and do not poll yet.")
    workers: int = Field(description="Processes that poll.")
    elements: dict[str, int] = Field(description="How many there are in each state.")
    freshness: Interval = Field(description="Weighted share of copies that are fresh now, as estimated.")
    predicted: Share = Field(description="Freshness that the budget buys on average, by the plan.")
    age: float | None = Field(description="Weighted mean of the expected ages of copies, in seconds.")
    price: float | None = Field(description="What a poll must be worth, per unit of budget.")
    budget: float | None = Field(description="Polls per second; null: no limit by polls.")
    byte_budget: float | None = Field(description="Bytes per second; null: no limit by bytes.")
    span: float = Field(
        description="Seconds in which polls are counted: the last day, or less if the mirror is younger."
    )
    spent: float | None = Field(description="Polls per second, in that time.")
    traffic: float | None = Field(description="Bytes per second, in that time.")
    polls: dict[str, int] = Field(description="Polls of that time by outcome.")
    changes: int = Field(description="Changes seen in that time.")
    overdue: int = Field(description="Elements that are worth far more than the price.")
    groups: list[GroupStatus] = Field(description="Those with most elements first; all are in /api/groups.")
    group_count: int = Field(description="How many groups there are.")
    neglected: list[Neglected] = Field(description="Those that matter most first.")
    trouble: list[str] = Field(description="What is wrong, in words.")
    audit: Audit | None = Field(description="The last one.")
    instead_of: Budgets | None = Field(description="What the configuration says, if others were set since.")
    reserve: InReserve | None = Field(description="What is in reserve; null if nothing is kept.")
    perceived: Share = Field(description="Freshness of the copies that are read, by how often each is.")
    readers: list[ReaderFreshness] = Field(description="The same by user, if users are told apart.")
    composed: list[ComposedFreshness] = Field(
        description="How fresh that is which is made from several elements."
    )
    targets: list[TargetFreshness] = Field(description="What rules promise, and how far that is kept.")
    replicas: list[ReplicaHeard] = Field(description="The other replicas, if there are any.")
    room: RoomTaken | None = Field(description="How much room copies take; null if there is no limit.")
    first_copies: FirstCopies | None = Field(
        description="How far it is with first copies; null if no element waits for its first poll."
    )


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
    via: int | None = Field(description="Number of the feed or sitemap that named it; null: a user did.")
    weight: float = Field(description="How much its freshness matters, compared with others.")
    max_age: float | None = Field(description="Seconds within which it must be polled.")
    min_interval: float = Field(description="Seconds between two polls, at least.")
    jitter: float = Field(description="Share by which intervals vary.")
    windows: str = Field(description="When it may be polled; empty: at any time.")
    terms: str = Field(
        description="Its own objective, and the target and pattern of its rule: a list in JSON, or empty."
    )
    keep: int | None = Field(description="Versions that are kept of it, 0: all; null: as of others.")
    keep_for: float | None = Field(description="Seconds for which its versions are kept; null: for ever.")
    tags: list[str] = Field(description="Words by which people find it.")
    size: float | None = Field(description="Bytes that a poll takes, on average.")
    moved: str | None = Field(description="Where it is now for good.")
    copy_path: str = Field(description="Where its copy is served.")


class ListedElement(Element):
    """An element, and what is known of its copy."""

    fresh: Share = Field(description="Probability that its copy is fresh; null if there is none.")
    rate: float | None = Field(description="Changes per second, as estimated.")


class ElementPage(BaseModel):
    """Some of the elements."""

    elements: list[ListedElement]
    total: int = Field(description="How many there are that fit.")
    offset: int = Field(description="How many come before these.")


class Poll(BaseModel):
    """What is kept of a poll."""

    id: int = Field(description="Its number; they grow.")
    element: int = Field(description="Number of the element.")
    time: datetime | None = Field(description="Its start.")
    outcome: str = Field(description="new, changed, unchanged, gone, failed or refused.")
    elapsed: float | None = Field(description="Seconds since the last poll that saw something.")
    seconds: float | None = Field(description="How long it took.")
    traffic: int = Field(description="Bytes.")
    detail: str = Field(description="What happened, in words.")
    version: int | None = Field(description="Number of the version that it brought.")
    planned: bool = Field(description="False for those of an audit.")
    predicted: Share = Field(description="Probability, before the poll, that the copy was fresh.")


class Version(BaseModel):
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


class Versions(BaseModel):
    """Versions of an element, the latest first."""

    versions: list[Version]


class Changes(BaseModel):
    """Changes, in the order in which they were recorded."""

    changes: list[Version]
    next: int = Field(description="Give it as `after` to go on.")


class Difference(BaseModel):
    """What is different between two versions."""

    old: Version
    new: Version
    difference: str = Field(
        description="Of text, a unified difference of lines; of tables of databases, of rows."
    )


class Worth(BaseModel):
    """What a poll is worth at a moment."""

    time: datetime | None
    worth: float | None = Field(description="Per unit of budget, as the price.")


class Explanation(BaseModel):
    """Why an element is polled when it is."""

    element: Element = Field(description="The element itself.")
    why: str = Field(description="The reason, in a sentence.")
    rate: float | None = Field(description="Changes per second, as estimated.")
    low: float | None = Field(description="A 90 % interval of the rate.")
    high: float | None = Field(description="Its upper end.")
    alike: str = Field(
        description="To which elements it is alike, and how these change; empty if all are of one class."
    )
    hopeless: Share = Field(description="Probability that it changes all the time, so that no poll helps.")
    stays_until: datetime | None = Field(
        description="Until when its source promises that it stays as it is; null if it does not."
    )
    promises_kept: Share = Field(description="How far such promises of its group are believed.")
    rhythm: str = Field(description="At which hours it changes, in words; empty if at all alike.")
    rhythm_levels: list[float | None] = Field(
        description="Changes in each hour of the day, or of the week from Thursday on, times the mean; UTC."
    )
    half_life: float | None = Field(description="Seconds in which what polls saw comes to count half.")
    fresh: Share = Field(description="Probability that the copy is fresh; null if there is none.")
    weight: float | None = Field(description="With how often its copy is read, if that counts.")
    size: float | None = Field(description="Bytes that a poll takes, as expected.")
    worth: float | None = Field(description="Of a poll now; null without a copy: more than any price.")
    price: float | None = Field(description="What a poll must be worth, per unit of budget.")
    next_poll: datetime | None = Field(description="When the worth reaches the price; null: never.")
    hints: int = Field(description="Since the last poll.")
    reads: int = Field(description="Of its copy, in the last 30 days.")
    reads_per_day: float | None = Field(description="In the last 30 days, or since it was added.")
    named_by: str = Field(description="What led to it: a link of a page, a list; empty if a user added it.")
    turn: str = Field(
        description="Which replica polled it last, and whose turn it is; empty without replicas."
    )
    polled_for: dict[str, str] = Field(
        description="What mirror.toml says of how it is polled, by name and in words: an objective, a "
        "target, what it is a part of, readers, hints."
    )
    law: str | None = Field(description="Name of the law that fits its changes best.")
    law_why: str = Field(description="How sure that is, or why it cannot be told.")
    worths: list[Worth] = Field(description="Over the coming time.")
    polls: list[Poll] = Field(description="The latest first.")
    versions: list[Version] = Field(description="The latest first.")


# --- budgets


class Bought(BaseModel):
    """What a budget buys: freshness, or age in seconds."""

    budget: float = Field(description="Polls or bytes per second.")
    optimal: float | None = Field(description="By the optimal plan.")
    uniform: float | None = Field(description="If all elements are polled equally often.")
    proportional: float | None = Field(
        description="If they are polled in proportion to how often they change."
    )


class WhatIf(BaseModel):
    """What other budgets would buy."""

    objective: str = Field(
        description="Of the values: freshness, age in seconds, or the cost of the mirror's own objective."
    )
    unit: Literal["polls", "bytes"] = Field(description="What budgets count, per second.")
    present: float = Field(description="The budget of today, per second.")
    present_value: float | None = Field(description="What it buys.")
    byte_budget: float | None = Field(
        description="Bytes per second of today, if there is such a budget beside one of polls."
    )
    points: list[Bought]


class Idea(BaseModel):
    """Something that could be otherwise, and what that buys on average."""

    name: str = Field(description="What it is.")
    key: str = Field(description="What mirror.toml says then; empty if it says nothing of it.")
    freshness: Share = Field(description="Share of copies that are fresh.")
    age: float | None = Field(description="Mean age of copies, in seconds; null if it is not worked out.")
    kept: Share = Field(description="Share of the elements that have room for a copy.")


class ComposedIdea(BaseModel):
    """How fresh something is that is made from several elements, and all elements with it."""

    name: str = Field(description="Its name; `as tried` for what was asked for.")
    parts: int = Field(description="From how many elements it is made.")
    by_themselves: Share = Field(description="How fresh it is if its parts are polled for themselves.")
    as_one: Share = Field(description="How fresh it is if it is planned as one.")
    others_by_themselves: Share = Field(description="Share of copies that are fresh in the first case.")
    others: Share = Field(description="Share of copies that are fresh in the second.")


class Ideas(BaseModel):
    """What ideas of the papers would buy for the elements of the mirror."""

    as_it_is: Idea = Field(description="What is bought as it is.")
    ideas: list[Idea] = Field(description="The usual ideas, one by one.")
    tried: Idea | None = Field(description="What was asked for, all of it together; null: nothing.")
    composed: list[ComposedIdea] = Field(
        description="What is made from several elements, and what was asked for of that kind."
    )


class TrialQuery(BaseModel):
    """What is tried; what is left out stays as it is."""

    model_config = ConfigDict(extra="forbid")

    budget: float | None = Field(
        None, gt=0, le=1e6, allow_inf_nan=False, description="Times the budget of today."
    )
    objective: str | None = Field(None, max_length=100, description="As in mirror.toml.")
    policy: Literal["optimal", "uniform", "proportional"] | None = Field(
        None, description="How the budget is shared."
    )
    order: Literal["fixed", "random", "purely-random"] | None = Field(
        None, description="How polls are spread over time."
    )
    replicas: int = Field(1, ge=1, le=100, description="Mirrors that take turns, each with its budget.")
    space: float | None = Field(None, gt=0, le=1e18, allow_inf_nan=False, description="Bytes for all copies.")
    elements: int | None = Field(None, ge=1, le=10**12, description="How many elements there are.")
    expiry: bool = Field(default=True, description="Whether Cache-Control and Expires are believed.")
    hints: float | None = Field(
        None, ge=0, le=1, allow_inf_nan=False, description="Share of changes that come with a hint."
    )
    jitter: float = Field(0.0, ge=0, le=1, allow_inf_nan=False, description="By which share intervals vary.")
    composed: tuple[Annotated[str, Field(max_length=2048)], ...] = Field(
        (), max_length=100, description="Patterns of the keys of elements from which something is made."
    )


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
    time: datetime = Field(description="When these changed, as far as is known.")


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
    keep: int | None = Field(None, ge=0, le=10**9, description="Versions that are kept of it; 0: all.")
    keep_for: float | None = Field(
        None, ge=1, le=1e12, allow_inf_nan=False, description="Seconds for which its versions are kept."
    )
    tags: list[str] | None = Field(None, max_length=50, description="Words by which people find it.")


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
    withheld: int = Field(0, description="How many get no secrets of rules, since a file named them.")


class Paused(BaseModel):
    """What was paused or resumed."""

    changed: int = Field(description="How many elements are another way now.")


class Removed(BaseModel):
    """What was removed."""

    removed: int = Field(description="How many elements.")
    forgotten: bool = Field(description="Whether their copies and history are deleted, too.")
