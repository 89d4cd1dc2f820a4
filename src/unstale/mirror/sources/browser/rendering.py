"""One page in the browser: it is opened, waited for, clicked in, and read. All of it has a time limit."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unstale.errors import InvalidInput
from unstale.mirror.secrets import origin
from unstale.mirror.settings import Settings
from unstale.mirror.sources.http.headers import printable

from .chromium import Chromium, user_agent_suffix
from .options import RenderOptions
from .page_headers import send_headers

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page, Request, Response

_SETTLE_SECONDS = 5.0
"""For which a page may go on asking for things before it is read as it is."""
_SELECTOR_SECONDS = 10.0
"""For which a selector is waited for."""
_VIEW = {"width": 1280, "height": 800}
_MOST_STATE_BYTES = 5_000_000
_READ = """(() => {{
  const html = document.documentElement ? document.documentElement.outerHTML : "";
  return html.length > {most} ? null : "<!doctype html>" + html;
}})()"""
_LOGIN_WORDS = ("login", "log-in", "signin", "sign-in", "anmelden", "/auth")


class Unrendered(Exception):  # noqa: N818
    """The page could not be rendered; the message says why in one line."""


@dataclass(slots=True)
class Rendered:
    """What the browser saw."""

    status: int
    status_text: str
    url: str
    """After redirects."""
    body: bytes
    media_type: str
    notes: tuple[str, ...]
    title: str
    seconds: float
    origins: tuple[str, ...] = ()
    """Of all addresses that redirects and scripts have led through, if there are several."""
    pixels: str = ""
    """Digest of the picture, if there is one."""


class PageRenderer:
    """Renders pages in the one browser."""

    def __init__(self, settings: Settings, chromium: Chromium) -> None:
        self._settings, self._chromium = settings, chromium
        self._agent = ""

    async def render(
        self, url: str, options: RenderOptions, *, proxy: str, max_size: int, headers: Mapping[str, str]
    ) -> Rendered:
        """Render a page, or raise `Unrendered`."""
        from playwright.async_api import Error

        began = time.monotonic()
        state = None if options.login is None else self._state(options.login)
        more: dict[str, Any] = {"viewport": _VIEW, "locale": "en-US", "timezone_id": "UTC"}
        if state is not None:
            more["storage_state"] = state
        if not self._settings.http.verify:
            more["ignore_https_errors"] = True
        if self._agent:
            more["user_agent"] = self._agent
        try:
            async with self._chromium.context(proxy, **more) as context:
                page = await self._page(context, url, headers)
                got = await self._read(page, url, options, max_size)
                if options.login is not None and got.status < 400:
                    await self._keep_state(context, options.login)
        except Error as error:
            if self._chromium.killed:
                raise Unrendered(f"the browser was killed: {self._chromium.killed}") from None
            raise Unrendered(_words(error)) from None
        got.seconds = time.monotonic() - began
        return got

    async def _page(self, context: BrowserContext, url: str, headers: Mapping[str, str]) -> Page:
        """Open an empty page that lets nothing else open."""
        page = await context.new_page()
        if not self._agent:
            plain = str(await page.evaluate("navigator.userAgent"))
            self._agent = plain.replace("HeadlessChrome", "Chrome") + user_agent_suffix(
                self._settings.contact
            )
        tasks: set[asyncio.Task[None]] = set()

        def close_other(other: Page) -> None:
            if other is not page:
                task = asyncio.ensure_future(_closed(other))
                tasks.add(task)
                task.add_done_callback(tasks.discard)

        context.on("page", close_other)
        if headers:
            await send_headers(page, url, headers)
        return page

    async def _open(self, page: Page, url: str) -> Response:
        """Open a page; return the answer, also if it is an error without a page."""
        from playwright.async_api import Error

        limit = self._settings.browser.seconds
        answers: list[Response] = []

        def note(one: Response) -> None:
            if one.request.is_navigation_request() and one.frame == page.main_frame:
                answers.append(one)

        page.on("response", note)
        try:
            answer = await page.goto(url, wait_until="domcontentloaded", timeout=1000 * limit)
        except Error as error:
            if "Download is starting" in error.message:
                raise Unrendered("it is a download, not a page: add it without browser:") from None
            if "ERR_HTTP_RESPONSE_CODE_FAILURE" not in error.message or not answers:
                raise
            answer = answers[-1]  # an error without a page
        if answer is None:
            raise Unrendered("the browser opened no page")
        return answer

    async def _read(self, page: Page, url: str, options: RenderOptions, max_size: int) -> Rendered:
        answer = await self._open(page, url)
        self._check_login(answer, options)
        notes = []
        if answer.status < 400:
            notes = await self._act(page, options)
        elif options.login is not None and answer.status in {401, 403}:
            raise Unrendered(_expired(options.login, f"the answer was {answer.status}"))
        if options.logged_in is not None and await page.query_selector(options.logged_in) is None:
            raise Unrendered(_expired(options.login, f"{options.logged_in!r} is not on the page"))
        html = await _outer_html(page, max_size)
        if html is None:
            raise Unrendered(f"it has more than {max_size:,} bytes once it is rendered")
        title = printable(str(await page.title()), 300)
        body, kind, pixels = html.encode("utf-8", "replace"), "text/html; charset=utf-8", ""
        if options.screenshot and answer.status < 400:
            body = await page.screenshot(
                full_page=True, animations="disabled", caret="hide", timeout=1000 * _SELECTOR_SECONDS
            )
            kind, pixels = "image/png", hashlib.sha256(body).hexdigest()
        if len(body) > max_size:
            raise Unrendered(f"it has more than {max_size:,} bytes once it is rendered")
        return Rendered(
            answer.status, answer.status_text, page.url, body, kind, tuple(notes), title, 0.0,
            _origins(answer, page), pixels,
        )  # fmt: skip

    async def _act(self, page: Page, options: RenderOptions) -> list[str]:
        """Wait and click as the options say; return what to tell of it."""
        notes = []
        if not await _settled(page):
            notes.append(f"it never settled, and was read after {_SETTLE_SECONDS:g} seconds")
        for selector in options.click:
            await _there(page, selector, "click")
            await page.click(selector, timeout=1000 * _SELECTOR_SECONDS)
            await _settled(page)
        if options.wait is not None:
            await _there(page, options.wait, "wait")
        return notes

    def _check_login(self, answer: Response, options: RenderOptions) -> None:
        """Raise `Unrendered` if the page is a login instead of what was asked for."""
        asked = answer.request
        if options.login is None or asked.redirected_from is None:
            return
        while asked.redirected_from is not None:
            asked = asked.redirected_from
        now = answer.url.lower()
        if any(word in now and word not in asked.url.lower() for word in _LOGIN_WORDS):
            raise Unrendered(_expired(options.login, f"it leads to {printable(answer.url, 200)}"))

    # --- logins

    def _path(self, name: str) -> Path:
        folder = self._settings.browser.logins
        if folder is None:
            raise Unrendered('login needs the folder where logins are: [browser] logins = "logins"')
        return Path(folder) / f"{name}.json"

    def _state(self, name: str) -> dict[str, Any]:
        """Return the saved cookies and storage of a login."""
        path = self._path(name)
        todo = f"save it with: playwright codegen --save-storage={path} URL"
        try:
            with path.open("rb") as file:
                content = file.read(_MOST_STATE_BYTES)
            state = json.loads(content)
            cookies = [(one["name"], float(one.get("expires", -1))) for one in state["cookies"]]
        except FileNotFoundError:
            raise Unrendered(f"there is no login {name!r}: {path} is not there; {todo}") from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise Unrendered(f"{path} is no saved login; {todo}") from None
        now = time.time()
        if cookies and all(0 < expires < now for _, expires in cookies) and not state.get("origins"):
            raise Unrendered(_expired(name, "all its cookies have expired"))
        return dict(state)

    async def _keep_state(self, context: BrowserContext, name: str) -> None:
        """Keep the cookies as they are now, so that a login that is used lives on.

        A page that stores too much does not spoil the login: the one before stays.
        """
        state = await context.storage_state()
        text = json.dumps(state)
        if not (state.get("cookies") or state.get("origins")) or len(text) > _MOST_STATE_BYTES:
            return
        path = self._path(name)
        new = path.with_name(f".{path.name}.{os.getpid()}.new")

        def write() -> None:
            with suppress(OSError):
                with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                new.replace(path)

        await asyncio.to_thread(write)


async def _settled(page: Page) -> bool:
    """Wait until a page asks for nothing more; tell whether it came to that in time."""
    from playwright.async_api import TimeoutError as Late

    try:
        await page.wait_for_load_state("networkidle", timeout=1000 * _SETTLE_SECONDS)
    except Late:
        return False
    return True


async def _there(page: Page, selector: str, name: str) -> None:
    """Wait for a selector, or raise `Unrendered`."""
    from playwright.async_api import Error
    from playwright.async_api import TimeoutError as Late

    try:
        await page.wait_for_selector(selector, state="attached", timeout=1000 * _SELECTOR_SECONDS)
    except Late:
        words = f"the selector {selector!r} finds nothing on the page within {_SELECTOR_SECONDS:g} seconds"
        raise Unrendered(f"{name}: {words}") from None
    except Error as error:
        if "selector" in error.message.lower():
            raise Unrendered(f"{name}: {selector!r} is no CSS selector") from None
        raise


async def _outer_html(page: Page, most: int) -> str | None:
    """Return the page as it is now, read where its own scripts cannot interfere; None if it is too long."""
    session = await page.context.new_cdp_session(page)
    tree = await session.send("Page.getFrameTree")
    frame = tree["frameTree"]["frame"]["id"]
    world = await session.send("Page.createIsolatedWorld", {"frameId": frame, "worldName": "unstale"})
    got = await session.send(
        "Runtime.evaluate",
        {
            "expression": _READ.format(most=most),
            "contextId": world["executionContextId"],
            "returnByValue": True,
        },
    )
    value = got.get("result", {}).get("value")
    return value if isinstance(value, str) else None


async def _closed(page: Page) -> None:
    with suppress(Exception):
        await page.close()


def _origins(answer: Response, page: Page) -> tuple[str, ...]:
    """Return the authors of a page: all origins through which the browser came to it, if several."""
    found = {origin(page.url)}
    asked: Request | None = answer.request
    while asked is not None:
        found.add(origin(asked.url))
        asked = asked.redirected_from
    return tuple(sorted(found)) if len(found) > 1 else ()


def _expired(name: str | None, why: str) -> str:
    return f"the login {name!r} has expired ({why}): save it anew"


def _words(error: Exception) -> str:
    """Return the first line of what the browser says."""
    words = str(getattr(error, "message", "") or error).splitlines()[0]
    return printable(words.removeprefix("Page.goto: "), 300)


def check_logins(settings: Settings) -> None:
    """Raise `InvalidInput` if the folder of logins cannot be used."""
    folder = settings.browser.logins
    if folder is not None and Path(folder).exists() and not Path(folder).is_dir():
        raise InvalidInput(f"[browser] logins must be a folder; {folder} is none")
