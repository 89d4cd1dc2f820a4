"""``/api``: what the mirror knows, as `unstale.mirror.json_values` writes it, and what can be said to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import UTC
from typing import Annotated, Any, Literal

from fastapi import APIRouter, HTTPException, Path, Query
from pydantic import BaseModel
from starlette.responses import JSONResponse, Response

from unstale.dashboard.mirror_gateway import LARGEST_NUMBER, MirrorGateway, numbered
from unstale.dashboard.pages.differences import before, between
from unstale.mirror.json_values import as_json, element_json, fields_json, moment, number, version_json
from unstale.mirror.mirror import Mirror
from unstale.mirror.reports.explain import POLLS_TOLD
from unstale.mirror.reports.ideas import TrialChoice
from unstale.mirror.reports.status import TOP, Budgets
from unstale.mirror.source import Json
from unstale.mirror.store.contract import Element, Version

from . import edits, models
from .models import problems

_Number = Annotated[int, Path(ge=1, le=LARGEST_NUMBER, description="Number of the element.")]
_Limit = Annotated[int, Query(ge=1, le=1000, description="How many, at most.")]
_Offset = Annotated[int, Query(ge=0, le=10**9, description="How many to skip.")]
_STATES = Literal["", "new", "ok", "gone", "failing", "refused", "removed", "dropped", "paused", "archived"]
_SORTS = Literal["key", "last", "weight", "state", "added"]
_MOST_EXPLAINED_AT_A_TIME = 2
"""Each takes memory, and a second of a processor."""
_NO_ELEMENT = "There is no such element."


def _described(model: type[BaseModel], tag: str, *, edit: bool = False, **failures: str) -> dict[str, Any]:
    """Return how an answer is described: it is sent as it is, and not made anew from the description."""
    return {"response_model": model, "responses": problems(edit=edit, **failures), "tags": [tag]}


def router(gateway: MirrorGateway) -> APIRouter:
    """Return the routes."""
    routes = APIRouter()
    _add_status(routes, gateway)
    _add_elements(routes, gateway)
    _add_versions(routes, gateway)
    _add_budgets(routes, gateway)
    _add_edits(routes, gateway)
    return routes


def _add_status(routes: APIRouter, gateway: MirrorGateway) -> None:
    @routes.get("/api/status", **_described(models.Status, "mirror"))
    async def status(
        top: Annotated[
            int, Query(ge=0, le=1000, description="How many groups and neglected elements.")
        ] = TOP,
    ) -> Response:
        """Tell how fresh the mirror is, what it spends, and what is neglected."""
        return JSONResponse((await gateway.status()).to_json(top))

    @routes.get("/api/groups", **_described(models.GroupList, "mirror"))
    async def groups(limit: _Limit = 100, offset: _Offset = 0) -> Response:
        """Tell how groups do, those with most elements first."""
        found = (await gateway.status()).groups
        return JSONResponse({"groups": as_json(list(found[offset : offset + limit])), "total": len(found)})

    @routes.get("/api/samples", **_described(models.Samples, "mirror"))
    async def samples(
        span: Annotated[
            float, Query(ge=0, le=1e10, allow_inf_nan=False, description="Seconds back.")
        ] = 86400.0,
        limit: Annotated[int, Query(ge=1, le=2000, description="How many, at most.")] = 500,
    ) -> Response:
        """Tell how the mirror did, at moments that are evenly spread."""
        found = await gateway.do(lambda mirror: mirror.samples(mirror.clock.now() - span, limit))
        return JSONResponse({"samples": as_json(found)})


def _add_elements(routes: APIRouter, gateway: MirrorGateway) -> None:
    one_at_a_time = asyncio.Semaphore(_MOST_EXPLAINED_AT_A_TIME)

    @routes.get("/api/elements", **_described(models.ElementPage, "elements"))
    async def elements(
        *,
        search: Annotated[str, Query(max_length=2048, description="A part of the key.")] = "",
        key: Annotated[str, Query(max_length=2048, description="The whole key.")] = "",
        state: Annotated[
            _STATES, Query(description="Those in this state; removed and archived ones only so.")
        ] = "",
        group: Annotated[str, Query(max_length=2048, description="Those of this group.")] = "",
        tag: Annotated[str, Query(max_length=60, description="Those with this tag.")] = "",
        sort: Annotated[_SORTS, Query(description="By what.")] = "key",
        descending: Annotated[bool, Query(description="The other way round.")] = False,
        offset: _Offset = 0,
        limit: _Limit = 50,
    ) -> Response:
        """Find elements: search, filter, sort, page through them."""

        def look(mirror: Mirror) -> tuple[list[Element], int]:
            if key:
                with mirror.store.begin() as t:
                    found = [one for one in edits.find(t, mirror, [key]) if one is not None]
                return found[offset : offset + limit], len(found)
            return mirror.page(
                search, state, group, sort, tag=tag, descending=descending, offset=offset, limit=limit
            )

        some, total = await gateway.do(look)
        known = await gateway.freshness_of(some)
        listed: list[Json] = [
            element_json(one)
            | {name: number(getattr(known.get(one.id), name, None)) for name in ("fresh", "rate")}
            for one in some
        ]
        return JSONResponse({"elements": listed, "total": total, "offset": offset})

    @routes.get("/api/elements/{element}", **_described(models.Explanation, "elements", on404=_NO_ELEMENT))
    async def explain(
        element: _Number,
        polls: Annotated[
            int, Query(ge=0, le=500, description="How many polls and versions, at most.")
        ] = POLLS_TOLD,
    ) -> Response:
        """Tell why an element is polled when it is, and what its polls saw."""

        def look(mirror: Mirror) -> dict[str, Json]:
            return mirror.explain(numbered(mirror, element).key).to_json(polls)

        async with one_at_a_time:
            return JSONResponse(await gateway.do(look))


def _add_versions(routes: APIRouter, gateway: MirrorGateway) -> None:
    @routes.get(
        "/api/elements/{element}/versions", **_described(models.Versions, "elements", on404=_NO_ELEMENT)
    )
    async def versions(element: _Number, limit: _Limit = 100) -> Response:
        """Return the versions of an element that are kept, the latest first."""

        def look(mirror: Mirror) -> list[Version]:
            number = numbered(mirror, element).id
            with mirror.store.begin() as t:
                return t.versions(element=number, limit=limit, latest_first=True)

        return JSONResponse({"versions": as_json(await gateway.do(look))})

    @routes.get(
        "/api/elements/{element}/difference",
        **_described(
            models.Difference,
            "elements",
            on404="There is no such element or version.",
            on409="They cannot be compared.",
        ),
    )
    async def difference(
        element: _Number,
        new: Annotated[
            int | None,
            Query(ge=1, le=LARGEST_NUMBER, description="Number of a version; default: the latest."),
        ] = None,
        old: Annotated[
            int | None,
            Query(ge=1, le=LARGEST_NUMBER, description="Number of another; default: the one before."),
        ] = None,
        lines: Annotated[int, Query(ge=1, le=5000, description="About how many, at most.")] = 200,
    ) -> Response:
        """Tell what is different between two versions, for people to read."""

        def look(mirror: Mirror) -> dict[str, Json]:
            number = numbered(mirror, element).id
            with mirror.store.begin() as t:
                later = _version(t.versions, number, new)
                earlier = before(t, later) if old is None else _version(t.versions, number, old)
            if earlier is None:
                raise HTTPException(404, f"there is no version before {later.id}")
            told = between(mirror, earlier, later, lines=lines)
            if told is None:
                raise HTTPException(409, "a version is too large to be compared, or its copy is lost")
            return {"old": version_json(earlier), "new": version_json(later), "difference": told}

        return JSONResponse(await gateway.do(look))

    @routes.get("/api/changes", **_described(models.Changes, "changes"))
    async def changes(
        after: Annotated[
            int,
            Query(
                ge=-1,
                le=LARGEST_NUMBER,
                description="Number of the last one seen; -1: none of those that there are, only `next`.",
            ),
        ] = 0,
        limit: _Limit = 100,
    ) -> Response:
        """Return changes in the order in which they were recorded."""

        def last(mirror: Mirror) -> int:
            with mirror.store.begin() as t:
                return next((one.id for one in t.versions(limit=1, latest_first=True)), 0)

        if after < 0:
            return JSONResponse({"changes": [], "next": await gateway.do(last)})
        found = await gateway.do(lambda mirror: mirror.changes(after, limit))
        return JSONResponse({"changes": as_json(found), "next": found[-1].id if found else after})


def _add_budgets(routes: APIRouter, gateway: MirrorGateway) -> None:
    @routes.get("/api/what-if", **_described(models.WhatIf, "budgets"))
    async def what_if(
        objective: Annotated[
            str | None,
            Query(max_length=100, description="freshness, age, or that of the mirror, which is the default."),
        ] = None,
    ) -> Response:
        """Tell what other budgets would buy, by the optimal plan and by two others."""
        found = await gateway.what_if(objective or gateway.mirror.settings.objective)
        return JSONResponse(found.to_json())

    @routes.get("/api/ideas", **_described(models.Ideas, "budgets"))
    async def ideas(asked: Annotated[models.TrialQuery, Query()]) -> Response:
        """Tell what ideas of the papers would buy for the elements of this mirror; nothing is changed."""
        choice = TrialChoice(**asked.model_dump())
        found = await (gateway.ideas() if choice.nothing else gateway.do(lambda mirror: mirror.ideas(choice)))
        return JSONResponse(fields_json(found))

    @routes.get("/api/budget-for", **_described(models.BudgetFor, "budgets"))
    async def budget_for(
        freshness: Annotated[
            float, Query(ge=0, lt=1, allow_inf_nan=False, description="The share of copies to be fresh.")
        ],
    ) -> Response:
        """Tell the smallest budget that buys a freshness."""
        demand = await gateway.demand("freshness")
        needed = await gateway.do(lambda _: demand.budget_for(freshness))
        return JSONResponse({"freshness": freshness, "budget": number(needed), "unit": demand.unit})

    @routes.post("/api/budget", **_described(models.Budgets, "budgets", edit=True))
    async def set_budget(budget: models.Budget) -> Response:
        """Set the budgets, which count from now on, also for one who runs the mirror now."""
        if not budget.model_fields_set:
            raise HTTPException(422, "budget or byte_budget must be given")
        status, given = await gateway.status(), budget.model_dump(exclude_unset=True)
        new = Budgets(**{"budget": status.budget, "byte_budget": status.byte_budget} | given)
        if new.budget is None and new.byte_budget is None:
            raise HTTPException(422, "a mirror needs a budget of polls or of bytes; this would leave none")
        await gateway.change(lambda mirror: mirror.set_budget(new.budget, new.byte_budget))
        return JSONResponse(new.to_json())


def _add_edits(routes: APIRouter, gateway: MirrorGateway) -> None:
    async def hint(hints: models.Hints) -> Response:
        """Say that elements may have changed."""
        said = hints.time
        if said is not None and said.tzinfo is None:
            said = said.replace(tzinfo=UTC)
        time = gateway.mirror.clock.now() if said is None else said.timestamp()
        count = await gateway.change(lambda mirror: edits.hint(mirror, hints.keys, time), forget=False)
        return JSONResponse({"hinted": count, "time": moment(time)})

    for path in ("/hints", "/api/hints"):
        routes.add_api_route(
            path,
            hint,
            methods=["POST"],
            name="hint" if path == "/hints" else "api_hint",
            **_described(models.Hinted, "elements", edit=True),
        )

    @routes.post("/api/elements", **_described(models.Added, "elements", edit=True))
    async def add(news: models.NewElements) -> Response:
        """Add pages, feeds and sitemaps; or change what is said of them."""
        wishes = [(new.key, new.model_dump(exclude={"key"}, exclude_none=True)) for new in news.elements]
        done = await gateway.change(lambda mirror: edits.add(mirror, wishes, trusted=gateway.trusted))
        return JSONResponse(done.to_json())

    @routes.delete(
        "/api/elements/{element}", **_described(models.Removed, "elements", edit=True, on404=_NO_ELEMENT)
    )
    async def remove(
        element: _Number,
        forget: Annotated[bool, Query(description="Its copies and history, too.")] = False,  # noqa: FBT002
    ) -> Response:
        """Remove an element: it is polled no more."""

        def work(mirror: Mirror) -> int:
            return mirror.remove([numbered(mirror, element).key], forget=forget)

        count = await gateway.change(work)
        return JSONResponse({"removed": count, "forgotten": forget})

    for verb, act in (("pause", Mirror.pause), ("resume", Mirror.resume)):

        def work_of(act: Callable[[Mirror, Iterable[str]], int]) -> Callable[[int], Any]:
            async def work(element: _Number) -> Response:
                count = await gateway.change(lambda mirror: act(mirror, [numbered(mirror, element).key]))
                return JSONResponse({"changed": count})

            return work

        endpoint = work_of(act)
        endpoint.__doc__ = {
            "pause": "Let nobody poll an element until it is resumed.",
            "resume": "Have an element polled again that was paused or archived.",
        }[verb]
        routes.add_api_route(
            f"/api/elements/{{element}}/{verb}",
            endpoint,
            methods=["POST"],
            name=f"api_{verb}",
            **_described(models.Paused, "elements", edit=True, on404=_NO_ELEMENT),
        )


def _version(versions: Callable[..., list[Version]], element: int, number: int | None) -> Version:
    """Return a version of an element: the latest, or another."""
    if number is None:
        found = versions(element=element, limit=1, latest_first=True)
    else:
        found = [one for one in versions(number - 1, 1, element=element) if one.id == number]
    if not found:
        what = "no copy yet" if number is None else f"no version {number}"
        raise HTTPException(404, f"element number {element} has {what}")
    return found[0]
