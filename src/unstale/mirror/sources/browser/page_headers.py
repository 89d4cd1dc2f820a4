"""The headers of a page go to its origin, and nowhere else, whatever the page or its server leads to.

Each request is held by the browser and looked at here, each hop of its redirects anew. Playwright's own
interception sees the first hop alone, and sends what was added to it to wherever a redirect leads.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from unstale.mirror.secrets import origin

if TYPE_CHECKING:
    from playwright.async_api import Page


async def send_headers(page: Page, url: str, headers: Mapping[str, str]) -> None:
    """Let a page that will be opened send headers to its own origin.

    What another origin has chosen gets none: a hop after a hop elsewhere, and all requests once the page
    itself is one of another origin.
    """
    from playwright.async_api import Error

    session = await page.context.new_cdp_session(page)
    tree = await session.send("Page.getFrameTree")
    main, own = tree["frameTree"]["frame"]["id"], origin(url)
    trusted: set[str] = set()
    """Numbers of requests that had the headers."""
    at_home = True

    async def held(event: dict[str, Any]) -> None:
        nonlocal at_home
        asked, before = event["request"], event.get("redirectedRequestId")
        there = origin(asked["url"]) == own
        if event.get("frameId") == main and event.get("resourceType") == "Document":
            at_home = at_home and there
        more: dict[str, Any] = {}
        if at_home and there and (before is None or before in trusted):
            trusted.add(event["requestId"])
            names = {name.lower() for name in headers}
            kept = {name: text for name, text in asked["headers"].items() if name.lower() not in names}
            pairs = {**kept, **headers}.items()
            more["headers"] = [{"name": name, "value": text} for name, text in pairs]
        with suppress(Error):  # the page may be gone
            await session.send("Fetch.continueRequest", {"requestId": event["requestId"], **more})

    session.on("Fetch.requestPaused", held)
    await session.send("Fetch.enable", {"patterns": [{"urlPattern": "*"}]})
