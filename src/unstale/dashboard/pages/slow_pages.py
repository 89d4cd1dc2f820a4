"""Pages that take long to compute: a browser soon gets one that says so, and that comes again by itself.

After an installation the first look at a mirror compiles for seconds; at a million elements it takes as long
whenever figures are old. Nobody should look at an empty window meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from math import isfinite

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

_KEPT_SECONDS = 30.0
"""For which a page that has become ready is kept for the browser that waits for it."""
_MOST_PAGES = 50
"""That are computed for browsers that come again; requests for more wait for theirs."""


class SlowPages:
    """Answers with a page if it is ready soon, or else with one that says that it is being computed.

    Parameters
    ----------
    patience
        Seconds until the page must be ready; inf: requests wait for their pages.
    waiting
        Returns the page that says so.
    """

    def __init__(self, patience: float, waiting: Callable[[], Response]) -> None:
        self._patience, self._waiting = patience, waiting
        self._pages: dict[str, asyncio.Task[Response]] = {}
        """By address: those that are computed, or that nobody has come again for."""

    async def answer(self, request: Request, page: Callable[[], Awaitable[Response]]) -> Response:
        """Return a page, or one that says that it comes later."""
        if not (isfinite(self._patience) and _is_browser(request)):
            return await page()
        address = f"{request.url.path}?{request.url.query}"
        task = self._pages.get(address)
        if task is None:
            if len(self._pages) >= _MOST_PAGES:
                return await page()
            task = self._pages[address] = asyncio.ensure_future(page())
            task.add_done_callback(partial(self._forget_later, address))
        if not (await asyncio.wait({task}, timeout=self._patience))[0]:
            return self._waiting()
        self._forget(address, task)
        found = task.result()
        return HTMLResponse(found.body, found.status_code)

    def _forget_later(self, address: str, task: asyncio.Task[Response]) -> None:
        """Keep a page that is ready for who comes again, for a while."""
        _ = task.cancelled() or task.exception()  # who comes again is told
        asyncio.get_running_loop().call_later(_KEPT_SECONDS, self._forget, address, task)

    def _forget(self, address: str, task: asyncio.Task[Response]) -> None:
        if self._pages.get(address) is task:
            del self._pages[address]


def _is_browser(request: Request) -> bool:
    """Tell whether a browser asks, which comes again; programs want the page itself."""
    return "text/html" in request.headers.get("accept", "")
