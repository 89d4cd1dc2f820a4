"""The page on which what is said of an element is edited, bulk edits of several, and undo."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated
from urllib.parse import parse_qs

from fastapi import APIRouter, Form, Request
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from unstale.dashboard.mirror_gateway import MirrorGateway, numbered
from unstale.errors import InvalidInput, MissingExtra
from unstale.mirror.element_edits import ElementEdits
from unstale.mirror.mirror import Mirror
from unstale.mirror.source import Json
from unstale.mirror.store.contract import Element
from unstale.mirror.tags import tags_of
from unstale.policy.element_table import AWAY
from unstale.quantities import duration, show_duration
from unstale.wording import plural

_GIVEN = ("weight", "max_age", "min_interval", "group", "tags", "keep", "keep_for")
_OF_PAGES = ("selector", "change", "threshold", "ignore")
_OF_BROWSER = ("render", "wait", "click")
_TIMES = frozenset({"max_age", "min_interval", "keep_for"})
_MOST_SELECTED = 1000
_BULK = ("weight", "max_age", "keep", "tag", "untag", "pause", "resume", "hint", "remove")


def add_edit_pages(routes: APIRouter, gateway: MirrorGateway, render: Callable[..., Response]) -> None:
    """Add the pages to the routes."""

    async def page(number: int, said: Mapping[str, str] | None = None, complaint: str = "") -> Response:
        element = await gateway.do(lambda mirror: numbered(mirror, number))
        own = element.given.get("options", {})
        fields = {name: shown(name, element.given.get(name)) for name in _GIVEN} | {
            name: shown(name, own.get(name) if isinstance(own, dict) else None)
            for name in (*_OF_PAGES, *_OF_BROWSER)
        }
        fields |= said or {}
        latest = await gateway.do(lambda mirror: edits_of(mirror).latest())
        values = {"element": element, "shown": fields, "complaint": complaint, "latest": latest}
        return render("edit.html", 422 if complaint else 200, **values)

    @routes.get("/elements/{number}/edit")
    async def show(number: int) -> Response:
        return await page(number)

    @routes.post("/elements/{number}/edit")
    async def edit(number: int, request: Request) -> Response:
        body = parse_qs((await request.body()).decode("utf-8", "replace"), keep_blank_values=True)
        said = {name: values[-1] for name, values in body.items()}

        def work(mirror: Mirror) -> None:
            element = there(mirror, number)
            names = (*_OF_PAGES, *(_OF_BROWSER if element.source == "browser" else ()))
            names = names if element.source in {"http", "browser"} else ()
            given = {name: read(name, said[name]) for name in _GIVEN if name in said}
            options = {name: read(name, said[name]) for name in names if name in said}
            if not gateway.trusted:
                _check_clicks(element, options)
            edits_of(mirror).edit([number], mirror.clock.now(), given, options, words=element.key[:200])

        try:
            await gateway.change(work)
        except (InvalidInput, MissingExtra) as error:
            return await page(number, said, str(error))
        return RedirectResponse(f"/elements/{number}?said=edited", 303)

    @routes.post("/undo")
    async def undo(number: Annotated[int, Form()]) -> Response:
        await gateway.change(lambda mirror: edits_of(mirror).undo(number, mirror.clock.now))
        return RedirectResponse("/elements?said=undone", 303)

    @routes.post("/elements/{number}/pause")
    async def pause(number: int) -> Response:
        """Pause an element that is polled, or have one polled again that is not."""
        paused = await gateway.change(lambda mirror: _pause_or_resume(mirror, number))
        return RedirectResponse(f"/elements/{number}?said={'paused' if paused else 'resumed'}", 303)


def add_bulk_edits(routes: APIRouter, gateway: MirrorGateway) -> None:
    """Add what edits all elements that were chosen in the table."""

    @routes.post("/elements/bulk")
    async def bulk(request: Request) -> Response:
        body = parse_qs((await request.body()).decode("utf-8", "replace"))
        numbers = [int(one) for one in body.get("number", []) if one.isdecimal() and len(one) < 19]
        what, text = body.get("what", [""])[-1], body.get("value", [""])[-1]
        if not numbers or len(numbers) > _MOST_SELECTED or what not in _BULK:
            raise HTTPException(422, f"choose from 1 to {_MOST_SELECTED} elements, and what to do with them")

        def work(mirror: Mirror) -> None:
            now, some, edits = mirror.clock.now(), plural(len(numbers), "element"), edits_of(mirror)
            if what in _GIVEN:
                edits.edit(numbers, now, {what: read(what, text)}, {}, words=f"{what} of {some}")
            elif what in {"tag", "untag"}:
                tags = _words(text)
                if not tags:
                    raise InvalidInput("which tag? write it into the field beside")
                side = {"tagged": tags} if what == "tag" else {"untagged": tags}
                edits.edit(numbers, now, {}, {}, **side, words=f"{what} {', '.join(tags)} of {some}")
            elif what == "hint":
                with mirror.store.begin() as t:
                    keys = [one.key for one in t.numbered(numbers).values() if one.state not in AWAY]
                mirror.hint(keys, channel="dashboard")
            else:
                act = {"pause": edits.pause, "resume": edits.resume, "remove": edits.remove}[what]
                act(numbers, now, words=f"{what} {some}")

        try:
            await gateway.change(work)
        except InvalidInput as error:
            raise HTTPException(422, str(error)) from None
        return RedirectResponse(f"/elements?said={'hint' if what == 'hint' else 'edited'}", 303)


def edits_of(mirror: Mirror) -> ElementEdits:
    """Return what edits elements of a mirror."""
    return ElementEdits(mirror.store, mirror.discovery(), mirror.sources, mirror.settings, mirror.elements)


def _pause_or_resume(mirror: Mirror, number: int) -> bool:
    """Pause an element that is polled, or have it polled again; tell whether it is paused now."""
    element, now = there(mirror, number), mirror.clock.now()
    if element.state in AWAY:
        edits_of(mirror).resume([number], now, words=f"resume {element.key[:200]}")
        return False
    edits_of(mirror).pause([number], now, words=f"pause {element.key[:200]}")
    return True


def there(mirror: Mirror, number: int) -> Element:
    """Return an element that was not removed: an edit brings nothing back."""
    element = numbered(mirror, number)
    if element.state == "removed":
        raise InvalidInput(f"{element.key}: it was removed; add it again to change it")
    return element


def _check_clicks(element: Element, options: Mapping[str, Json]) -> None:
    """Raise `InvalidInput` for new clicks in the name of a user: whoever set no token let in all users."""
    before = element.options.get("click")
    clicks = options.get("click")
    own = element.options.keys() & {"login", "headers"}
    if own and clicks and clicks not in (before, [before]):
        raise InvalidInput(
            f"click: the page is opened with {' and '.join(sorted(own))}, and there is no token, so clicks "
            "cannot be set here; there is 'unstale add'"
        )


def _words(text: str) -> list[str]:
    """Return the words of a field, with spaces or commas between them."""
    return text.replace(",", " ").split()


def read(name: str, text: str) -> Json:
    """Read a field; None takes back what was said."""
    text = text.strip()
    if not text:
        return None
    if name in _TIMES:
        return duration(name, text)
    return _READERS[name](text) if name in _READERS else text


def _lines(text: str) -> Json:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _tags(text: str) -> Json:
    return list(tags_of("tags", _words(text)))


def _keep(text: str) -> Json:
    if not text.isdecimal() or len(text) > 9:
        raise InvalidInput(f"keep must be a number of versions, 0 for all; it is {text[:100]!r}")
    return int(text)


def _weight(text: str) -> Json:
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"weight must be a number; it is {text[:100]!r}") from None


_READERS: Mapping[str, Callable[[str], Json]] = {
    "ignore": _lines, "click": _lines, "tags": _tags, "keep": _keep, "weight": _weight,
}  # fmt: skip


def shown(name: str, value: Json) -> str:
    """Return a value as it stands in its field."""
    if value is None:
        return ""
    if isinstance(value, list):
        return (" " if name == "tags" else "\n").join(map(str, value))
    if name in _TIMES and isinstance(value, int | float):
        return show_duration(float(value))
    return f"{value:g}" if isinstance(value, float) else str(value)
