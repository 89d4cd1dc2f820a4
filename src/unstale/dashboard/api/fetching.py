"""``/api/leases``, ``/api/outcomes`` and ``/api/contents``: polls for fetchers of others."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, HTTPException, Request
from fastapi import Path as PathParameter
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse, Response

from unstale.dashboard.guard import BEARER_PLACE
from unstale.dashboard.mirror_gateway import LARGEST_NUMBER, MirrorGateway
from unstale.mirror.engine.fetch_outcomes import FetchOutcome
from unstale.mirror.engine.fetchers import (
    LONGEST_LEASE_SECONDS,
    MOST_LEASES,
    FetchDesk,
    LeaseRequest,
    Reported,
    ReportRequest,
    TakenLeases,
)
from unstale.mirror.json_values import moment, number
from unstale.mirror.source import Json
from unstale.mirror.sources.http.links import MOST_LINKS
from unstale.mirror.store.contract import Lease

from .content_upload import receive_content
from .fetch_queue import FetchQueue
from .models import problems
from .waiting_contents import WaitingContents

_MOST_UPLOADS = 8
"""Contents that come in at the same time; others wait."""
_RAW_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
_Fetcher = Annotated[str, Field(min_length=1, max_length=60, pattern=r"^[A-Za-z0-9._-]+$")]
_Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_Name = Annotated[str, Field(min_length=1, max_length=2048)]
_Validators = dict[Annotated[str, Field(max_length=100)], Annotated[str, Field(max_length=2000)]]
_Moment = Annotated[float, Field(ge=0, le=1e11, allow_inf_nan=False)]
_Seconds = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


class LeaseWish(BaseModel):
    """Polls that a fetcher wants to make."""

    model_config = ConfigDict(extra="forbid")
    fetcher: _Fetcher = Field(description="The name of who asks; the same when it reports.")
    count: int = Field(100, ge=1, le=MOST_LEASES, description="How many, at most.")
    seconds: float = Field(
        60.0,
        ge=1,
        le=LONGEST_LEASE_SECONDS,
        description="For how long they are its own.",
    )
    groups: Annotated[list[_Name], Field(max_length=100)] | None = Field(
        None, description="Of these groups only, such as http:example.org; null: of all."
    )
    each: int | None = Field(
        None, ge=1, le=MOST_LEASES, description="How many of each group, at most; null: no matter."
    )


class LeasedPoll(BaseModel):
    """A poll that was planned and paid for."""

    element: int = Field(description="Number of the element.")
    slot: float = Field(description="When it may begin, in seconds since 1970; tells this lease from others.")
    late: float | None = Field(
        description="Seconds after slot from which on it must not begin any more, for limits of its group; "
        "null: it may begin at any time."
    )
    key: str = Field(description="Its address.")
    group: str = Field(description="Name of its group, most often a host.")
    source: str = Field(description="What kind of element it is: http, feed, sitemap, file, sql, ...")
    validators: dict[str, Any] = Field(description="What the last report gave: ETag and the like.")
    fingerprint: str | None = Field(description="Of what was seen last; null: nothing yet.")
    predicted: float | None = Field(description="Probability that nothing has changed; null: not seen yet.")


class Leases(BaseModel):
    """Polls that are the fetcher's now."""

    leases: list[LeasedPoll]
    until: datetime = Field(description="When they are its own no more.")


class PollOutcome(BaseModel):
    """What a fetcher saw of an element."""

    model_config = ConfigDict(extra="forbid")
    element: int = Field(ge=1, le=LARGEST_NUMBER, description="Number of the element.")
    slot: _Moment = Field(description="As in the lease.")
    outcome: Literal["changed", "unchanged", "gone", "failed"] = Field(description="What was seen.")
    fingerprint: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        None, description="With changed: a digest of what counts, if the content stays with the fetcher."
    )
    content: str | None = Field(None, description="With changed: the content in base64, for a copy.")
    digest: _Digest | None = Field(
        None, description="SHA-256 of the content, here or put to /api/contents/ before, in hexadecimal."
    )
    began: _Moment | None = Field(None, description="When it began; null: when it might.")
    seconds: _Seconds = Field(0.0, description="How long it took.")
    traffic: int = Field(0, ge=0, le=10**12, description="Bytes that it moved.")
    detail: str = Field("", max_length=300, description="Words for people.")
    media_type: str = Field("application/octet-stream", max_length=200, description="Of the content.")
    validators: Annotated[_Validators, Field(max_length=10)] | None = Field(
        None, description="For the next poll, such as an ETag; null: those of the last report stay."
    )
    modified: _Moment | None = Field(None, description="When it changed last, as the other side says.")
    stays: _Seconds | None = Field(None, description="Seconds for which it stays, as is promised.")
    wait: Annotated[float, Field(ge=0, le=86400)] | None = Field(
        None, description="Seconds for which nobody may poll its whole group (Retry-After)."
    )
    links: list[_Name] = Field(
        default_factory=list,
        max_length=MOST_LINKS,
        description="Addresses that the page links to; they become elements if its option links says so.",
    )


class PollOutcomesReport(BaseModel):
    """What a fetcher saw."""

    model_config = ConfigDict(extra="forbid")
    fetcher: _Fetcher = Field(description="The name under which it has taken the leases.")
    outcomes: list[PollOutcome] = Field(
        min_length=1, max_length=MOST_LEASES, description="In any order, each of another element."
    )


class RefusedOutcome(BaseModel):
    """An outcome that was not recorded."""

    element: int = Field(description="Number of the element.")
    why: str = Field(description="In words, for people.")


class RecordedOutcomes(BaseModel):
    """What became of a report."""

    recorded: int = Field(description="How many were recorded.")
    again: int = Field(description="Reported before, and recorded then.")
    refused: list[RefusedOutcome] = Field(description="What was not recorded, and why.")


class StoredContent(BaseModel):
    """Content that is here now."""

    digest: str = Field(description="SHA-256, in hexadecimal.")
    size: int = Field(description="Bytes.")


def router(gateway: MirrorGateway) -> APIRouter:
    """Return the routes."""
    routes = APIRouter()

    def described(model: type[BaseModel]) -> dict[str, Any]:
        responses = problems(
            edit=True,
            on409='The mirror polls itself: it does not say `fetch = "elsewhere"`; or there is no lease that '
            "content could be for.",
            on429="Too much content waits for outcomes that name it.",
        )
        return {"response_model": model, "responses": responses, "tags": ["fetchers"]}

    def check_that_others_fetch() -> None:
        """Refuse strangers where workers of the mirror poll: they could take polls away, or forge copies."""
        if gateway.mirror.settings.fetch != "elsewhere":
            raise HTTPException(409, 'this mirror polls itself; say fetch = "elsewhere" in mirror.toml')

    mirror = gateway.mirror
    discovery = mirror.discovery()
    desk = FetchDesk(mirror.store, mirror.copies, mirror.settings, mirror.clock, discovery)
    queue = FetchQueue(gateway, desk)
    uploads, waiting = asyncio.Semaphore(_MOST_UPLOADS), WaitingContents(gateway)

    @routes.post("/api/leases", **described(Leases))
    async def leases(wish: LeaseWish) -> Response:
        """Take polls that are due; what is not reported in time is planned again."""
        check_that_others_fetch()
        asked = LeaseRequest(wish.fetcher, wish.count, wish.seconds, wish.groups, wish.each)
        taken = await queue.ask(asked)
        assert isinstance(taken, TakenLeases)  # noqa: S101
        found = [_lease_json(one, taken.groups) for one in taken.leases]
        return JSONResponse({"leases": found, "until": moment(taken.until)})

    @routes.post("/api/outcomes", **described(RecordedOutcomes))
    async def outcomes(told: PollOutcomesReport) -> Response:
        """Record what a fetcher saw: each outcome by itself, in one transaction."""
        check_that_others_fetch()
        some = [_outcome(one) for one in told.outcomes]
        done = await queue.ask(ReportRequest(told.fetcher, some))
        assert isinstance(done, Reported)  # noqa: S101
        refused = [{"element": element, "why": why} for element, why in done.refused]
        not_recorded = {element for element, _ in done.refused}
        waiting.reported(one.digest for one in some if one.digest and one.element not in not_recorded)
        return JSONResponse({"recorded": done.recorded, "again": done.again, "refused": refused})

    @routes.put("/api/contents/{digest}", openapi_extra=_RAW_BODY, **described(StoredContent))
    async def put_content(
        digest: Annotated[str, PathParameter(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the body.")],
        request: Request,
    ) -> Response:
        """Hand over content that is too large for an outcome, which then names it by its digest.

        There is one for each lease at most; what no outcome names is deleted after an hour.
        """
        check_that_others_fetch()
        largest, token = mirror.settings.max_size, request.scope[BEARER_PLACE]
        async with uploads:
            most = min(int(request.headers.get("content-length", largest)), largest)
            there = await gateway.do(lambda mirror: mirror.copies.has(digest))  # an answer may have been lost
            if not there:
                await waiting.check_room(token, most)
            with waiting.coming(token, digest, most):
                path = await receive_content(request, mirror.copies, digest, largest)
                _, size = await gateway.do(lambda mirror: mirror.copies.put(path))
            if not there or waiting.has(digest):
                waiting.keep(token, digest, size)
        return JSONResponse({"digest": digest, "size": size})

    return routes


def _lease_json(lease: Lease, groups: Mapping[int, str]) -> dict[str, Json]:
    """Return a lease without options, which may hold secrets."""
    slot, known = lease.slot, lease.known
    return {
        "element": int(slot.element), "slot": float(slot.start), "late": number(slot.late), "key": known.key,
        "group": groups.get(slot.group, ""), "source": lease.source,
        "validators": dict(known.validators), "fingerprint": known.fingerprint,
        "predicted": number(slot.predicted),
    }  # fmt: skip


def _outcome(told: PollOutcome) -> FetchOutcome:
    content = None
    if told.content is not None:
        try:
            content = b64decode(told.content, validate=True)
        except (NotBase64, ValueError):
            raise HTTPException(422, f"outcomes: content of element {told.element} is no base64") from None
    return FetchOutcome(
        told.element, told.slot, told.outcome, told.fingerprint, content, told.digest, told.began,
        told.seconds, told.traffic, told.detail, told.media_type, told.validators, told.modified,
        told.stays, told.wait, tuple(told.links),
    )  # fmt: skip
