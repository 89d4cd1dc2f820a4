"""The pages for people. All of them are whole before any script runs."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Annotated
from urllib.parse import urlencode

import jinja2
from fastapi import APIRouter, Depends, Form, Request
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse, Response

from unstale.dashboard.api import edits
from unstale.dashboard.api.reference import operations
from unstale.dashboard.guard import csrf_token
from unstale.dashboard.mirror_gateway import MirrorGateway, numbered
from unstale.mirror.config.file import WATCHED
from unstale.mirror.differences.pictures import is_picture
from unstale.mirror.mirror import Mirror
from unstale.mirror.reports.explain import Explanation
from unstale.mirror.reports.status import live_workers
from unstale.mirror.reports.what_if import WhatIf
from unstale.mirror.source import Json
from unstale.mirror.store.contract import SORTS, STATES, Element, Transaction, Version
from unstale.wording import show_budget

from . import differences, figures, filters
from .diff_html import difference_html
from .edit_element import add_bulk_edits, add_edit_pages, edits_of
from .messages import add_message_pages
from .noise import add_noise_pages
from .rules import add_rule_pages
from .slow_pages import SlowPages
from .what_if_values import what_if_values

SPANS = {"hour": 3600.0, "day": 86400.0, "week": 7 * 86400.0, "month": 30 * 86400.0, "year": 365 * 86400.0}
_ELEMENTS_PER_PAGE, _CHANGES_PER_PAGE = 50, 30
_MOST_BYTES, _MOST_BYTES_IN_A_LIST = 50_000_000, 2_000_000
"""Of versions whose difference is shown, on a page of its own and in the list of changes."""
_LATEST_CHANGES, _LOOKED_AT_VERSIONS = 5, 100
"""That the overview shows, and versions that it looks at for them."""
_OLD_SECONDS = 10.0
"""After which the overview says of when it is."""


def router(gateway: MirrorGateway) -> APIRouter:
    """Return the routes of all pages."""
    routes = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)
    render = _Templates(filters.mirror_name(gateway.mirror.store.url))
    slow = SlowPages(gateway.patience, lambda: render("waiting.html"))
    _overview(routes, gateway, render, slow)
    _what_if(routes, gateway, render, slow)
    _elements(routes, gateway, render, slow)
    _element(routes, gateway, render, slow)
    _edits(routes, gateway, render)
    _changes(routes, gateway, render)
    add_message_pages(routes, gateway, render)
    add_noise_pages(routes, gateway, render)
    add_edit_pages(routes, gateway, render)
    add_bulk_edits(routes, gateway)
    add_rule_pages(routes, gateway, render)
    return routes


class _Templates:
    """Templates, and what all of them use."""

    def __init__(self, name: str) -> None:
        self._templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(Path(__file__).parents[1] / "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters.update(filters.FILTERS)
        self._templates.globals.update(
            csrf=csrf_token,
            unstale_version=version_of("unstale"),
            mirror_name=name,
            start="unstale watch" if name == WATCHED else "unstale run",
        )

    def __call__(self, template: str, code: int = 200, /, **values: object) -> HTMLResponse:
        """Return a page."""
        return HTMLResponse(self._templates.get_template(template).render(values), code)


def _overview(routes: APIRouter, gateway: MirrorGateway, render: _Templates, slow: SlowPages) -> None:
    async def values(span: str) -> dict[str, object]:
        if span not in SPANS:
            raise HTTPException(404, f"span must be one of {', '.join(SPANS)}")
        view = await gateway.view()
        status = view.status
        since = status.now - SPANS[span]
        kept = await gateway.kept(f"samples {span}", lambda mirror: mirror.samples(since))
        samples = figures.up_to_now(kept, status)
        present = len(samples) > 0 and samples[-1].time == status.now
        audits = await gateway.kept("audits", lambda mirror: mirror.audits())
        numbers = {}
        if status.neglected:
            keys = [one.key for one in status.neglected]
            numbers = await gateway.do(lambda mirror: _numbers(mirror, keys))
        limited = [g for g in status.groups if g.blocked_until > status.now or g.failed]
        now, said = gateway.mirror.clock.now(), status.instead_of
        return {
            "status": status,
            "now": now,
            "latest": await gateway.kept("latest changes", _latest_changes),
            "old": now - status.now > _OLD_SECONDS,
            "counted": filters.window(status.span),
            "new": status.elements.get("new", 0),
            "made": sum(status.polls.values()),
            "span": span,
            "spans": list(SPANS),
            "chart": figures.freshness(samples, audits, status.now),
            "small": figures.small_multiples(samples, gateway.mirror.settings.objective, present=present),
            "objective": gateway.mirror.settings.objective,
            "policy": gateway.mirror.settings.policy,
            "instead_of": show_budget(said.budget, said.byte_budget) if said else "",
            "outcomes": figures.outcomes(dict(status.polls)),
            "next_polls": view.next_polls,
            "limited": limited[:20],
            "groups": [g for g in status.groups if g not in limited][:8],
            "numbers": numbers,
            "only_host": status.groups[0].name if len(status.groups) == 1 else "",
            "total": sum(count for state, count in status.elements.items() if state != "removed"),
            "truth": next((s.beside["true"] for s in reversed(samples) if "true" in s.beside), None),
        }

    @routes.get("/")
    async def overview(request: Request, span: str = "day") -> Response:
        async def page() -> Response:
            return render("overview.html", **await values(span))

        return await slow.answer(request, page)

    @routes.get("/fragments/overview")
    async def overview_fragment(span: str = "day") -> Response:
        return render("_overview.html", **await values(span))


def _latest_changes(mirror: Mirror) -> list[Version]:
    """Return the latest changes; first copies are none."""
    with mirror.store.begin() as t:
        found = t.versions(limit=_LOOKED_AT_VERSIONS, latest_first=True)
    return [one for one in found if not one.first][:_LATEST_CHANGES]


def _numbers(mirror: Mirror, keys: list[str]) -> dict[str, int]:
    with mirror.store.begin() as t:
        return {key: element.id for key, element in t.find(keys).items()}


# --- what if


@dataclass(frozen=True)
class _WhatIfQuery:
    """What is tried, as the address of the page says."""

    budget: str = ""
    freshness: str = ""
    objective: str = ""
    said: str = ""
    ideas: str = ""

    async def values(self, gateway: MirrorGateway) -> dict[str, object]:
        """Return what it would buy."""
        if self.objective not in {"", "freshness", "age", gateway.mirror.settings.objective}:
            raise HTTPException(404, "objective must be freshness, age, or that of the mirror")
        return await what_if_values(gateway, self.budget, self.freshness, self.objective)


def _what_if(routes: APIRouter, gateway: MirrorGateway, render: _Templates, slow: SlowPages) -> None:
    @routes.get("/what-if")
    async def what_if(request: Request, asked: Annotated[_WhatIfQuery, Depends()]) -> Response:
        async def page() -> Response:
            found = await asked.values(gateway)
            wrong = found["complaint"] and found["what_if"] is not None
            if found["what_if"] is not None:
                found["ideas"] = await (gateway.ideas() if asked.ideas else gateway.ideas_at_once())
            return render("what_if.html", 422 if wrong else 200, said=asked.said, **found)

        return await slow.answer(request, page)

    @routes.get("/fragments/what-if")
    async def what_if_fragment(asked: Annotated[_WhatIfQuery, Depends()]) -> Response:
        return render("_what_if.html", **await asked.values(gateway))

    @routes.get("/what-if/apply")
    async def ask(budget: str) -> Response:
        found = await what_if_values(gateway, budget)
        if found["tried"] is None:
            raise HTTPException(422, str(found["complaint"]) or "budget is missing")
        return render("apply.html", **found)

    @routes.post("/what-if/apply")
    async def apply(budget: Annotated[str, Form()]) -> Response:
        found = await what_if_values(gateway, budget)
        what_if, amount = found["what_if"], found["tried"]
        if not isinstance(what_if, WhatIf) or not isinstance(amount, float):
            raise HTTPException(422, str(found["complaint"]) or "budget is missing")
        await gateway.change(lambda mirror: mirror.set_budget(*what_if.split(amount)))
        return RedirectResponse("/what-if?said=applied", 303)


# --- elements


@dataclass(frozen=True)
class _ElementQuery:
    """Which elements a page shows, as its address says."""

    search: str = ""
    state: str = ""
    group: str = ""
    tag: str = ""
    sort: str = "key"
    page: int = 1
    down: bool = False
    said: str = ""

    def link(self, **other: object) -> str:
        """Return the address of the same page but for this."""
        given = {name: getattr(self, name) for name in ("search", "state", "group", "tag", "sort")}
        told = {**given, "down": "1" if self.down else "", **other}
        new = {name: str(value) for name, value in told.items() if value}
        if new.get("sort") == "key" and "down" not in new:
            del new["sort"]
        return "/elements" + (f"?{urlencode(new)}" if new else "")


def _elements(routes: APIRouter, gateway: MirrorGateway, render: _Templates, slow: SlowPages) -> None:
    @routes.get("/elements")
    async def elements(request: Request, asked: Annotated[_ElementQuery, Depends()]) -> Response:
        return await slow.answer(request, lambda: table(asked))

    async def table(
        asked: _ElementQuery = _ElementQuery(),
        *,
        complaint: str = "",
        key: str = "",
        weight: str = "",
    ) -> Response:
        found, total, page = await gateway.do(lambda mirror: _on_page(mirror, asked))
        status = await gateway.status()
        return render(
            "elements.html",
            422 if complaint else 200,
            found=found,
            copies=await gateway.freshness_of(found),
            total=total,
            now=gateway.mirror.clock.now(),
            counts=status.elements,
            groups=[one.name for one in status.groups[:200]],
            tags=await gateway.kept("tags", _tags),
            latest=await gateway.do(lambda mirror: edits_of(mirror).latest()) if asked.said else None,
            states=STATES,
            sorts=SORTS,
            pages=max(-(-total // _ELEMENTS_PER_PAGE), 1),
            first=(page - 1) * _ELEMENTS_PER_PAGE + 1,
            link=asked.link,
            complaint=complaint,
            key=key,
            new_weight=weight,
            **vars(asked) | {"page": page},
        )

    @routes.post("/elements/add")
    async def add(key: Annotated[str, Form()], weight: Annotated[str, Form()] = "") -> Response:
        try:
            amount = float(weight) if weight.strip() else None
        except ValueError:
            complaint = f"weight must be a number; it is {weight!r}"
            return await table(complaint=complaint, key=key, weight=weight)
        given: dict[str, Json] = {} if amount is None else {"weight": amount}

        def work(mirror: Mirror) -> tuple[str, int]:
            done = edits.add(mirror, [(key.strip(), given)], trusted=gateway.trusted)
            if done.refused:
                return done.refused[0][1], 0
            with mirror.store.begin() as t:
                found = edits.find(t, mirror, [key.strip()])[0]
            return "", 0 if found is None else found.id

        complaint, number = await gateway.change(work)
        if complaint:
            return await table(complaint=complaint, key=key, weight=weight)
        return RedirectResponse(f"/elements/{number}?said=added" if number else "/elements", 303)


def _tags(mirror: Mirror) -> list[str]:
    """Return all tags, of which the page offers a choice."""
    with mirror.store.begin() as t:
        return t.tags()


def _on_page(mirror: Mirror, asked: _ElementQuery) -> tuple[list[Element], int, int]:
    """Return the elements on a page, how many there are, and the page: the last, if beyond it."""

    def look(page: int) -> tuple[list[Element], int, int]:
        chosen = (asked.search, asked.state, asked.group, asked.sort)
        start = (page - 1) * _ELEMENTS_PER_PAGE
        found, total = mirror.page(
            *chosen, tag=asked.tag, descending=asked.down, offset=start, limit=_ELEMENTS_PER_PAGE
        )
        return found, total, page

    found, total, page = look(min(max(asked.page, 1), 10**9))
    return look(-(-total // _ELEMENTS_PER_PAGE)) if total and not found else (found, total, page)


def _element(routes: APIRouter, gateway: MirrorGateway, render: _Templates, slow: SlowPages) -> None:
    @routes.get("/elements/{number}")
    async def element(request: Request, number: int, said: str = "") -> Response:
        def work(mirror: Mirror) -> tuple[Explanation, float, bool]:
            now = mirror.clock.now()
            with mirror.store.begin() as t:
                running = bool(live_workers(t, now))
            explanation = mirror.explain(numbered(mirror, number).key)
            _ = explanation.law  # which takes a while, so it is fitted in this thread
            return explanation, now, running

        async def page() -> Response:
            explanation, now, running = await gateway.do(work)
            return render(
                "element.html",
                explanation=explanation,
                element=explanation.element,
                now=now,
                running=running,
                said=said,
                polls=figures.polls(explanation, now, running=running),
                worth=figures.worth(explanation, now, running=running),
                rhythm=figures.rhythm(explanation),
            )

        return await slow.answer(request, page)

    @routes.get("/elements/{number}/versions/{version}")
    async def version(number: int, version: int) -> Response:
        def work(mirror: Mirror) -> dict[str, object]:
            found = numbered(mirror, number)
            with mirror.store.begin() as t:
                versions = t.versions(element=number, limit=10_000, latest_first=True)
            at = next((n for n, one in enumerate(versions) if one.id == version), None)
            if at is None:
                raise HTTPException(404, f"There is no version {version} of this element, or no more.")
            before = versions[at + 1] if at + 1 < len(versions) else None
            return {
                "element": found,
                "version": versions[at],
                "before": before,
                "after": versions[at - 1] if at else None,
                "latest": at == 0,
                "pictures": before is not None
                and all(is_picture(one.media_type) for one in (before, versions[at])),
                "difference": _difference(mirror, before, versions[at], lines=2000, largest=_MOST_BYTES),
                "now": mirror.clock.now(),
            }

        return render("version.html", **await gateway.do(work))

    @routes.get("/elements/{number}/versions/{version}/difference.png")
    async def picture(number: int, version: int) -> Response:
        def work(mirror: Mirror) -> bytes:
            with mirror.store.begin() as t:
                new = next(
                    (one for one in t.versions(version - 1, 1, element=number) if one.id == version), None
                )
                old = None if new is None else differences.before(t, new)
            told = None if old is None or new is None else differences.picture(mirror, old, new)
            if told is None:
                raise HTTPException(404, "There are no two pictures that could be compared.")
            return told

        return Response(await gateway.do(work), media_type="image/png")


def _difference(mirror: Mirror, old: Version | None, new: Version, *, lines: int, largest: int) -> object:
    """Return what is different, as HTML; None if there is nothing to compare, or too much."""
    told = None if old is None else differences.between(mirror, old, new, lines=lines, largest=largest)
    return None if told is None else difference_html(told)


def _edits(routes: APIRouter, gateway: MirrorGateway, render: _Templates) -> None:
    @routes.post("/elements/{number}/hint")
    async def hint(number: int) -> Response:
        await gateway.change(lambda mirror: mirror.hint([numbered(mirror, number).key], channel="dashboard"))
        return RedirectResponse(f"/elements/{number}?said=hint", 303)

    @routes.get("/elements/{number}/remove")
    async def ask(number: int) -> Response:
        return render("remove.html", element=await gateway.do(lambda mirror: numbered(mirror, number)))

    @routes.post("/elements/{number}/remove")
    async def remove(number: int) -> Response:
        def work(mirror: Mirror) -> None:
            key = numbered(mirror, number).key
            edits_of(mirror).remove([number], mirror.clock.now(), words=f"remove {key[:200]}")

        await gateway.change(work)
        return RedirectResponse("/elements?said=edited", 303)


# --- changes, and the reference of the API


def _changes(routes: APIRouter, gateway: MirrorGateway, render: _Templates) -> None:
    @routes.get("/changes")
    async def changes(before: int = 0) -> Response:
        def work(mirror: Mirror) -> tuple[list[dict[str, object]], float, int]:
            with mirror.store.begin() as t:
                found = _latest(t, before)
                more = found[_CHANGES_PER_PAGE].id + 1 if len(found) > _CHANGES_PER_PAGE else 0
                shown_ones = found[:_CHANGES_PER_PAGE]
                pairs = [(one, differences.before(t, one)) for one in shown_ones]
            rows = [
                {
                    "version": new,
                    "before": old,
                    "difference": _difference(mirror, old, new, lines=40, largest=_MOST_BYTES_IN_A_LIST),
                }
                for new, old in pairs
            ]
            return rows, mirror.clock.now(), more

        rows, now, more = await gateway.do(work)
        return render("changes.html", rows=rows, now=now, more=more, before=before)

    @routes.get("/docs")
    async def docs(request: Request) -> Response:
        document = request.app.openapi()
        return render("docs.html", document=document, operations=operations(document))


def _latest(t: Transaction, before: int) -> list[Version]:
    """Return the latest versions, or those before one of them; the latest first, and one more than shown."""
    found = t.versions(limit=1, latest_first=True)
    top = found[0].id if found else 0
    top = min(top, before - 1) if before > 0 else top
    width = 4 * _CHANGES_PER_PAGE
    rows: list[Version] = []
    while top > 0 and len(rows) <= _CHANGES_PER_PAGE:
        start = max(top - width, 0)
        some = [one for one in t.versions(start, width) if one.id <= top]
        rows += some[::-1]
        top, width = start, width * 4
    return rows[: _CHANGES_PER_PAGE + 1]
