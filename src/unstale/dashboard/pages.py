"""The pages for people. All of them are whole before any script runs."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version as version_of
from math import inf, isfinite
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

import jinja2
from fastapi import APIRouter, Form, Request
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse, Response

from .. import quantities
from ..errors import InvalidInput, NoAnswer
from ..mirror.difference import difference
from ..mirror.mirror import Mirror
from ..mirror.portrait import Portrait
from ..mirror.prospect import Prospect
from ..mirror.store import SORTS, STATES, Element, Version
from . import figures, shown
from .coming import coming
from .guard import csrf_token
from .marked import marked
from .place import Place
from .reference import operations

__all__ = ["router"]

SPANS = {"hour": 3600.0, "day": 86400.0, "week": 7 * 86400.0, "month": 30 * 86400.0, "year": 365 * 86400.0}
_PAGE = 50
_CHANGES = 30
_LARGEST_DIFFERENCE = 2_000_000
"""Bytes of versions whose difference is shown in the list of changes; on its own page, more."""
_MOST = 2**62


def router(place: Place) -> APIRouter:
    """Return the routes of all pages."""
    routes = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)
    look = _Look()
    _overview(routes, place, look)
    _what_if(routes, place, look)
    _elements(routes, place, look)
    _element(routes, place, look)
    _edits(routes, place, look)
    _changes(routes, place, look)
    return routes


class _Look:
    """Templates, and what all of them use."""

    def __init__(self) -> None:
        self._templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters.update(shown.FILTERS)
        self._templates.globals.update(csrf=csrf_token, unstale_version=version_of("unstale"))

    def __call__(self, template: str, code: int = 200, /, **values: object) -> HTMLResponse:
        """Return a page."""
        return HTMLResponse(self._templates.get_template(template).render(values), code)


def _overview(routes: APIRouter, place: Place, look: _Look) -> None:
    async def values(span: str) -> dict[str, object]:
        if span not in SPANS:
            raise HTTPException(404, f"span must be one of {', '.join(SPANS)}")
        status = await place.status()
        since = status.now - SPANS[span]
        samples = await place.kept(f"samples {span}", lambda mirror: mirror.samples(since))
        audits = await place.kept("audits", lambda mirror: mirror.audits())
        numbers = {}
        if status.neglected:
            keys = [one.key for one in status.neglected]
            numbers = await place.do(lambda mirror: _numbers(mirror, keys))
        limited = [g for g in status.groups if g.blocked_until > status.now or g.failed]
        return {
            "status": status,
            "now": status.now,
            "span": span,
            "spans": list(SPANS),
            "chart": figures.freshness(samples, audits, status.now),
            "small": figures.small_multiples(samples),
            "outcomes": figures.outcomes(dict(status.polls)),
            "coming": await coming(place),
            "limited": limited[:20],
            "groups": [g for g in status.groups if g not in limited][:8],
            "numbers": numbers,
            "total": sum(count for state, count in status.elements.items() if state != "removed"),
            "demo": any(sample.beside for sample in samples[-1:]),
        }

    @routes.get("/")
    async def overview(span: str = "day") -> Response:
        return look("overview.html", **await values(span))

    @routes.get("/fragments/overview")
    async def overview_fragment(span: str = "day") -> Response:
        return look("_overview.html", **await values(span))


def _numbers(mirror: Mirror, keys: list[str]) -> dict[str, int]:
    with mirror.store.begin() as t:
        return {key: element.id for key, element in t.find(keys).items()}


# --- what if


def _what_if(routes: APIRouter, place: Place, look: _Look) -> None:
    async def tried(budget: str, freshness: str, objective: str) -> dict[str, object]:
        """Return what a budget would buy; what cannot be understood is told in ``complaint``."""
        status = await place.status()
        found: dict[str, Any] = {
            "status": status, "budget": budget.strip(), "freshness": freshness.strip(), "complaint": "",
            "objective": objective, "prospect": None, "tried": None, "chart": None,
        }  # fmt: skip
        if objective not in {"", "freshness", "age"}:
            raise HTTPException(404, "objective must be freshness or age")
        chosen = objective or place.mirror.settings.objective
        try:
            prospect = await place.kept(
                f"prospect {chosen}", lambda mirror: mirror.prospect(objective=chosen), fresh_for=15.0
            )
        except (InvalidInput, NoAnswer) as error:
            return found | {"complaint": str(error)}
        amount = None
        try:
            if found["freshness"]:
                share = quantities.share("freshness", _with_percent(found["freshness"]))
                amount = await place.do(lambda mirror: mirror.budget_for(share))
                if not isfinite(amount):
                    found["complaint"] = (
                        f"No budget makes {shown.percent(share)} of this mirror fresh: some elements change "
                        "so often, or are so limited, that no polling keeps up."
                    )
                    amount = None
            elif found["budget"]:
                amount = _amount(found["budget"], prospect)
        except (InvalidInput, NoAnswer) as error:
            found["complaint"] = str(error)
        if amount is not None:
            prospect = await place.do(lambda mirror: _wide_enough(mirror, prospect, amount))
        return found | _verdict(prospect, amount)

    @routes.get("/what-if")
    async def what_if(budget: str = "", freshness: str = "", objective: str = "", said: str = "") -> Response:
        values = await tried(budget, freshness, objective)
        return look(
            "what_if.html", 422 if values["complaint"] and values["prospect"] else 200, said=said, **values
        )

    @routes.get("/fragments/what-if")
    async def what_if_fragment(budget: str = "", freshness: str = "", objective: str = "") -> Response:
        return look("_what_if.html", **await tried(budget, freshness, objective))

    @routes.get("/what-if/apply")
    async def ask(budget: str) -> Response:
        values = await tried(budget, "", "")
        if values["tried"] is None:
            raise HTTPException(422, str(values["complaint"]) or "budget is missing")
        return look("apply.html", **values)

    @routes.post("/what-if/apply")
    async def apply(budget: Annotated[str, Form()]) -> Response:
        values = await tried(budget, "", "")
        prospect, amount = values["prospect"], values["tried"]
        if not isinstance(prospect, Prospect) or not isinstance(amount, float):
            raise HTTPException(422, str(values["complaint"]) or "budget is missing")
        await place.do(lambda mirror: mirror.set_budget(*prospect.split(amount)))
        place.forget()
        return RedirectResponse("/what-if?said=applied", 303)


def _with_percent(text: str) -> str:
    """Take a plain number above 1 for per cent: in a form there is no other reading."""
    try:
        return f"{text}%" if 1 < float(text) <= 100 else text
    except ValueError:
        return text


def _amount(text: str, prospect: Prospect) -> float:
    """Read a budget, per second; a plain number has the unit that the page shows."""
    unit = shown.amount_unit(prospect.present)
    plain = text.replace(",", "").replace(" ", "")
    try:
        given = quantities.flow(
            "budget", f"{float(plain):g}{'B' if prospect.unit == 'bytes' else ''}/{unit.name}"
        )
    except ValueError:
        given = quantities.flow("budget", text.replace(",", ""))
    if given.kind != prospect.unit:
        example = "1000/day" if prospect.unit == "polls" else "20MB/h"
        raise InvalidInput(
            f"budget must be in {prospect.unit}, as that of this mirror is, such as {example}; it is {text!r}"
        )
    amount = given.amount / given.unit.seconds
    if not amount > 0:
        raise InvalidInput(f"budget must be above 0; it is {text!r}")
    return amount


def _wide_enough(mirror: Mirror, prospect: Prospect, amount: float) -> Prospect:
    """Return a prospect with this budget in it, however far from the present that is."""
    import numpy as np

    low, high = float(prospect.budgets[0]), float(prospect.budgets[-1])
    if low <= amount <= high:
        return prospect
    low, high = min(low, amount / 2), max(high, amount * 2)
    if not (low > 1e-90 and high < 1e90):
        raise InvalidInput("budget is too far from anything that can be planned")
    return mirror.prospect(objective=prospect.objective, budgets=np.geomspace(low, high, 41))


def _verdict(prospect: Prospect, amount: float | None) -> dict[str, object]:
    """Return the figures that the words of the page are made of."""
    at = prospect.present if amount is None else amount
    buys = figures.bought(prospect, at)
    unit = shown.amount_unit(prospect.present)
    more = figures.bought(prospect, at * 1.1)
    return {
        "prospect": prospect,
        "fresh": prospect.objective == "freshness",
        "tried": amount,
        "at": at,
        "buys": buys,
        "times": at / prospect.present,
        "gain": buys - prospect.present_value,
        "more": more - buys,
        "uniform": figures.budget_of(prospect, buys, "uniform"),
        "proportional": figures.budget_of(prospect, buys, "proportional"),
        "exact": f"{at * unit.seconds:.6g}{'B' if prospect.unit == 'bytes' else ''}/{unit.name}",
        "present_exact": f"{prospect.present * unit.seconds:.6g}",
        "low_exact": f"{float(prospect.budgets[0]) * unit.seconds:.6g}",
        "high_exact": f"{float(prospect.budgets[-1]) * unit.seconds:.6g}",
        "unit": unit.name,
        "chart": figures.what_if(prospect, amount),
    }


# --- elements


def _elements(routes: APIRouter, place: Place, look: _Look) -> None:
    @routes.get("/elements")
    async def elements(
        search: str = "",
        state: str = "",
        group: str = "",
        sort: str = "key",
        page: int = 1,
        *,
        down: bool = False,
        said: str = "",
    ) -> Response:
        return await table(search, state, group, sort, page, down=down, said=said)

    async def table(
        search: str = "",
        state: str = "",
        group: str = "",
        sort: str = "key",
        page: int = 1,
        *,
        down: bool = False,
        said: str = "",
        complaint: str = "",
        key: str = "",
        weight: str = "",
    ) -> Response:
        page = min(max(page, 1), 10**9)
        found, total = await place.do(
            lambda mirror: mirror.page(
                search=search,
                state=state,
                group=group,
                sort=sort,
                descending=down,
                offset=(page - 1) * _PAGE,
                limit=_PAGE,
            )  # fmt: skip
        )
        status = await place.status()
        given = {"search": search, "state": state, "group": group, "sort": sort, "down": "1" if down else ""}

        def link(**other: object) -> str:
            new = {name: str(value) for name, value in {**given, **other}.items() if value}
            if new.get("sort") == "key" and "down" not in new:
                del new["sort"]
            return "/elements" + (f"?{urlencode(new)}" if new else "")

        return look(
            "elements.html",
            422 if complaint else 200,
            found=found,
            total=total,
            now=status.now,
            counts=status.elements,
            groups=[one.name for one in status.groups[:200]],
            states=STATES,
            sorts=SORTS,
            page=page,
            pages=max(-(-total // _PAGE), 1),
            first=(page - 1) * _PAGE + 1,
            link=link,
            down=down,
            said=said,
            complaint=complaint,
            key=key,
            new_weight=weight,
            **{name: given[name] for name in ("search", "state", "group", "sort")},
        )

    @routes.post("/elements/add")
    async def add(key: Annotated[str, Form()], weight: Annotated[str, Form()] = "") -> Response:
        try:
            amount = float(weight) if weight.strip() else None
        except ValueError:
            complaint = f"weight must be a number; it is {weight!r}"
            return await table(complaint=complaint, key=key, weight=weight)
        try:
            element = await place.do(lambda mirror: mirror.add(key.strip(), weight=amount))
        except InvalidInput as error:
            return await table(complaint=str(error), key=key, weight=weight)
        place.forget()
        return RedirectResponse(f"/elements/{element.id}?said=added", 303)


def _numbered(mirror: Mirror, number: int) -> Element:
    with mirror.store.begin() as t:
        found = t.numbered([number]).get(number) if 0 < number < _MOST else None
    if found is None:
        raise HTTPException(404, f"There is no element number {number} in this mirror.")
    return found


def _element(routes: APIRouter, place: Place, look: _Look) -> None:
    @routes.get("/elements/{number}")
    async def element(number: int, said: str = "") -> Response:
        def work(mirror: Mirror) -> tuple[Portrait, float]:
            return mirror.portrait(_numbered(mirror, number).key), mirror.clock.now()

        portrait, now = await place.do(work)
        return look(
            "element.html",
            portrait=portrait,
            why=portrait.explanation,
            element=portrait.explanation.element,
            now=now,
            said=said,
            polls=figures.polls(portrait, now),
            worth=figures.worth(portrait, now),
        )

    @routes.get("/elements/{number}/versions/{version}")
    async def version(number: int, version: int) -> Response:
        def work(mirror: Mirror) -> dict[str, object]:
            found = _numbered(mirror, number)
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
                "difference": None
                if before is None
                else _difference(mirror, before, versions[at], lines=2000),
                "now": mirror.clock.now(),
            }

        return look("version.html", **await place.do(work))


def _difference(mirror: Mirror, old: Version, new: Version, *, lines: int) -> object:
    """Return what is different, as HTML."""
    try:
        contents = mirror.copies.read(old.digest), mirror.copies.read(new.digest)
    except (OSError, InvalidInput) as error:
        return marked(f"the copy cannot be read: {error}")
    return marked(difference(*contents, new.media_type, lines=lines))


def _edits(routes: APIRouter, place: Place, look: _Look) -> None:
    @routes.post("/elements/{number}/hint")
    async def hint(number: int) -> Response:
        await place.do(lambda mirror: mirror.hint([_numbered(mirror, number).key], channel="dashboard"))
        place.forget()
        return RedirectResponse(f"/elements/{number}?said=hint", 303)

    @routes.get("/elements/{number}/remove")
    async def ask(number: int) -> Response:
        return look("remove.html", element=await place.do(lambda mirror: _numbered(mirror, number)))

    @routes.post("/elements/{number}/remove")
    async def remove(number: int) -> Response:
        await place.do(lambda mirror: mirror.remove([_numbered(mirror, number).key]))
        place.forget()
        return RedirectResponse("/elements?said=removed", 303)


# --- changes, and the reference of the API


def _changes(routes: APIRouter, place: Place, look: _Look) -> None:
    @routes.get("/changes")
    async def changes(before: int = 0) -> Response:
        def work(mirror: Mirror) -> tuple[list[Mapping[str, object]], float, int]:
            with mirror.store.begin() as t:
                found = _latest(t, before)
                more = found[_CHANGES].id + 1 if len(found) > _CHANGES else 0
                shown_ones = found[:_CHANGES]
                pairs = [(one, _previous(t, one)) for one in shown_ones]
            rows = [
                {"version": new, "before": old, "difference": _brief(mirror, old, new)} for new, old in pairs
            ]
            return rows, mirror.clock.now(), more

        rows, now, more = await place.do(work)
        return look("changes.html", rows=rows, now=now, more=more, before=before)

    @routes.get("/docs")
    async def docs(request: Request) -> Response:
        document = request.app.openapi()
        return look("docs.html", document=document, operations=operations(document))


def _latest(t: Any, before: int) -> list[Version]:  # noqa: ANN401  (a Transaction)
    """Return the latest versions, or those before one of them; the latest first, and one more than shown."""
    found: list[Version] = t.versions(limit=1, latest_first=True)
    top = found[0].id if found else 0
    top = min(top, before - 1) if before > 0 else top
    width, rows = 4 * _CHANGES, []
    while top > 0 and len(rows) <= _CHANGES:
        start = max(top - width, 0)
        some = [one for one in t.versions(start, width) if one.id <= top]
        rows += some[::-1]
        top, width = start, width * 4
    return rows[: _CHANGES + 1]


def _previous(t: Any, version: Version) -> Version | None:  # noqa: ANN401
    if version.first:
        return None
    found: list[Version] = t.versions(element=version.element, limit=200, latest_first=True)
    return next((one for one in found if one.id < version.id), None)


def _brief(mirror: Mirror, old: Version | None, new: Version) -> object:
    if old is None or max(old.size, new.size) > _LARGEST_DIFFERENCE:
        return None
    return _difference(mirror, old, new, lines=40)
