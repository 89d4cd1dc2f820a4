"""``/api``: what the mirror knows, as JSON, and what can be said to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC
from typing import Annotated, Literal

from fastapi import APIRouter, HTTPException, Path, Query

from unstale.dashboard.mirror_gateway import Place, numbered
from unstale.dashboard.pages.differences import before, between
from unstale.mirror.mirror import Mirror
from unstale.mirror.reports.element import Portrait, portrait
from unstale.mirror.store.contract import Element, Version

from . import edits, models
from .models import problems

__all__ = ["router"]

_MOST = 2**62
_Number = Annotated[int, Path(ge=1, le=_MOST, description="Number of the element.")]
_Limit = Annotated[int, Query(ge=1, le=1000, description="How many, at most.")]
_STATES = Literal["", "new", "ok", "gone", "failing", "refused", "removed"]
_SORTS = Literal["key", "last", "weight", "state", "added"]
_PROSPECT = 15.0
"""Seconds for which it is kept what other budgets would buy."""


_NO_ELEMENT = "There is no such element."


def router(place: Place) -> APIRouter:
    """Return the routes."""
    routes = APIRouter()
    _add_status(routes, place)
    _add_elements(routes, place)
    _add_versions(routes, place)
    _add_budgets(routes, place)
    _add_edits(routes, place)
    return routes


def _add_status(routes: APIRouter, place: Place) -> None:
    @routes.get("/api/status", responses=problems(), tags=["mirror"])
    async def status() -> models.Status:
        """Tell how fresh the mirror is, what it spends, and what is neglected."""
        return models.Status.of(await place.status())

    @routes.get("/api/groups", responses=problems(), tags=["mirror"])
    async def groups(
        limit: _Limit = 100,
        offset: Annotated[int, Query(ge=0, le=10**9, description="How many to skip.")] = 0,
    ) -> models.Groups:
        """Tell how groups do, those with most elements first."""
        got = await place.status()
        some = [models.Group.of(group, got.now) for group in got.groups[offset : offset + limit]]
        return models.Groups(groups=some, total=len(got.groups))

    @routes.get("/api/samples", responses=problems(), tags=["mirror"])
    async def samples(
        span: Annotated[
            float, Query(ge=0, le=1e10, allow_inf_nan=False, description="Seconds back.")
        ] = 86400.0,
        limit: Annotated[int, Query(ge=1, le=2000, description="How many, at most.")] = 500,
    ) -> models.Samples:
        """Tell how the mirror did, at moments that are evenly spread."""
        found = await place.do(lambda mirror: mirror.samples(mirror.clock.now() - span, limit))
        return models.Samples(samples=[models.Sample.of(sample) for sample in found])


def _add_elements(routes: APIRouter, place: Place) -> None:
    one_at_a_time = asyncio.Semaphore(2)  # each takes memory for all elements

    @routes.get("/api/elements", responses=problems(), tags=["elements"])
    async def elements(
        *,
        search: Annotated[str, Query(max_length=2048, description="A part of the key.")] = "",
        key: Annotated[str, Query(max_length=2048, description="The whole key.")] = "",
        state: Annotated[_STATES, Query(description="Those in this state; removed ones only so.")] = "",
        group: Annotated[str, Query(max_length=2048, description="Those of this group.")] = "",
        sort: Annotated[_SORTS, Query(description="By what.")] = "key",
        descending: Annotated[bool, Query(description="The other way round.")] = False,
        offset: Annotated[int, Query(ge=0, le=10**9, description="How many to skip.")] = 0,
        limit: _Limit = 50,
    ) -> models.Elements:
        """Find elements: search, filter, sort, page through them."""

        def look(mirror: Mirror) -> tuple[list[Element], int]:
            if key:
                with mirror.store.begin() as t:
                    found = [one for one in edits.find(t, mirror, [key]) if one is not None]
                return found[offset : offset + limit], len(found)
            return mirror.page(search, state, group, sort, descending=descending, offset=offset, limit=limit)

        some, total = await place.do(look)
        glances = await place.glances(one.id for one in some)
        told = [models.Element.of(one, glances.get(one.id)) for one in some]
        return models.Elements(elements=told, total=total, offset=offset)

    @routes.get("/api/elements/{element}", responses=problems(on404=_NO_ELEMENT), tags=["elements"])
    async def explain(element: _Number) -> models.Explanation:
        """Tell why an element is polled when it is, and what its polls saw."""

        def look(mirror: Mirror) -> Portrait:
            found = numbered(mirror, element)
            with mirror.store.begin() as t:
                return portrait(mirror.settings, t, found, mirror.clock.now())

        async with one_at_a_time:
            return models.Explanation.of(await place.do(look))


def _add_versions(routes: APIRouter, place: Place) -> None:
    @routes.get("/api/elements/{element}/versions", responses=problems(on404=_NO_ELEMENT), tags=["elements"])
    async def versions(element: _Number, limit: _Limit = 100) -> models.Versions:
        """Return the versions of an element that are kept, the latest first."""

        def look(mirror: Mirror) -> list[Version]:
            number = numbered(mirror, element).id
            with mirror.store.begin() as t:
                return t.versions(element=number, limit=limit, latest_first=True)

        return models.Versions(versions=[models.Change.of(one) for one in await place.do(look)])

    @routes.get(
        "/api/elements/{element}/difference",
        responses=problems(on404="There is no such element or version.", on409="They cannot be compared."),
        tags=["elements"],
    )
    async def difference(
        element: _Number,
        new: Annotated[
            int | None, Query(ge=1, le=_MOST, description="Number of a version; default: the latest.")
        ] = None,
        old: Annotated[
            int | None, Query(ge=1, le=_MOST, description="Number of another; default: the one before.")
        ] = None,
        lines: Annotated[int, Query(ge=1, le=5000, description="About how many, at most.")] = 200,
    ) -> models.Difference:
        """Tell what is different between two versions, for people to read."""

        def look(mirror: Mirror) -> models.Difference:
            number = numbered(mirror, element).id
            with mirror.store.begin() as t:
                later = _version(t.versions, number, new)
                earlier = before(t, later) if old is None else _version(t.versions, number, old)
            if earlier is None:
                raise HTTPException(404, f"there is no version before {later.id}")
            told = between(mirror, earlier, later, lines=lines)
            if told is None:
                raise HTTPException(409, "a version is too large to be compared, or its copy is lost")
            return models.Difference(
                old=models.Change.of(earlier), new=models.Change.of(later), difference=told
            )

        return await place.do(look)

    @routes.get("/api/changes", responses=problems(), tags=["changes"])
    async def changes(
        after: Annotated[int, Query(ge=0, le=_MOST, description="Number of the last one seen.")] = 0,
        limit: _Limit = 100,
    ) -> models.Changes:
        """Return changes in the order in which they were recorded."""
        found = await place.do(lambda mirror: mirror.changes(after, limit))
        last = found[-1].id if found else after
        return models.Changes(changes=[models.Change.of(one) for one in found], next=last)


def _add_budgets(routes: APIRouter, place: Place) -> None:
    @routes.get("/api/prospect", responses=problems(), tags=["budgets"])
    async def prospect(
        objective: Annotated[
            Literal["freshness", "age"] | None, Query(description="Default: that of the mirror.")
        ] = None,
    ) -> models.Prospect:
        """Tell what other budgets would buy, by the optimal plan and by two others."""
        chosen = objective or place.mirror.settings.objective
        market = await place.market(chosen)
        got = await place.kept(f"prospect {chosen}", lambda _: market.prospect(), fresh_for=_PROSPECT)
        return models.Prospect.of(got)

    @routes.get("/api/budget-for", responses=problems(), tags=["budgets"])
    async def budget_for(
        freshness: Annotated[
            float, Query(ge=0, lt=1, allow_inf_nan=False, description="The share of copies to be fresh.")
        ],
    ) -> models.BudgetFor:
        """Tell the smallest budget that buys a freshness."""
        market = await place.market("freshness")
        needed = await place.do(lambda _: market.budget_for(freshness))
        return models.BudgetFor(freshness=freshness, budget=models.number(needed), unit=market.unit)

    @routes.post("/api/budget", responses=problems(edit=True), tags=["budgets"])
    async def set_budget(budget: models.Budget) -> models.Budgets:
        """Set the budgets, which count from now on, also for one who runs the mirror now."""
        if not budget.model_fields_set:
            raise HTTPException(422, "budget or byte_budget must be given")
        now = (await place.status()).budgets | budget.model_dump(exclude_unset=True)
        if now["budget"] is None and now["byte_budget"] is None:
            raise HTTPException(422, "a mirror needs a budget of polls or of bytes; this would leave none")
        await place.change(lambda mirror: mirror.set_budget(**now))
        return models.Budgets(**now)


def _add_edits(routes: APIRouter, place: Place) -> None:
    async def hint(hints: models.Hints) -> models.Hinted:
        """Say that elements may have changed."""
        said = hints.time
        if said is not None and said.tzinfo is None:
            said = said.replace(tzinfo=UTC)
        time = None if said is None else said.timestamp()
        count = await place.change(lambda mirror: edits.hint(mirror, hints.keys, time), forget=False)
        return models.Hinted(hinted=count)

    for path in ("/hints", "/api/hints"):
        routes.add_api_route(
            path,
            hint,
            methods=["POST"],
            response_model=models.Hinted,
            responses=problems(edit=True),
            name="hint" if path == "/hints" else "api_hint",
            tags=["elements"],
        )

    @routes.post("/api/elements", responses=problems(edit=True), tags=["elements"])
    async def add(news: models.NewElements) -> models.Added:
        """Add pages, feeds and sitemaps; or change what is said of them."""
        wishes = [(new.key, new.model_dump(exclude={"key"}, exclude_none=True)) for new in news.elements]
        done = await place.change(lambda mirror: edits.add(mirror, wishes, trusted=place.trusted))
        return models.Added(
            added=done.added,
            known=done.known,
            changed=done.changed,
            refused=[models.Refused(key=key, why=why) for key, why in done.refused],
        )

    @routes.delete(
        "/api/elements/{element}", responses=problems(edit=True, on404=_NO_ELEMENT), tags=["elements"]
    )
    async def remove(
        element: _Number,
        forget: Annotated[bool, Query(description="Its copies and history, too.")] = False,  # noqa: FBT002
    ) -> models.Removed:
        """Remove an element: it is polled no more."""

        def work(mirror: Mirror) -> int:
            return mirror.remove([numbered(mirror, element).key], forget=forget)

        count = await place.change(work)
        return models.Removed(removed=count)


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
