"""One Chromium for all polls: started when it is needed, watched, and killed when it hangs or grows.

Each poll has a context of its own (cookies, storage, cache), and a proxy of its own through which all goes.
A poll that is over closes its context. If that does not work in time, or all processes together have more
memory than they may, the whole browser is killed; polls that were in it fail, and the next one starts it
again. Nothing else of the mirror waits for any of it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unstale.errors import InvalidInput, need
from unstale.mirror.settings import Settings

from .processes import descendants, kill, resident_bytes

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_START_SECONDS, _CLOSE_SECONDS = 60.0, 5.0
_LOOK_SECONDS = 1.0
"""Between two looks at the memory of the browser."""
_POLLS_PER_BROWSER = 1000
"""After which it is started anew, as browsers only ever grow."""
_ARGUMENTS = (
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-domain-reliability",
    "--disable-sync",
    "--disable-gpu",
    "--no-first-run",
    "--no-pings",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--js-flags=--max-old-space-size=512",
)
_NOWHERE = "http://127.0.0.1:9"
"""The proxy of whatever belongs to no poll."""


class BrowserKilled(Exception):  # noqa: N818
    """The browser was killed while a poll was in it; the message says why."""


class Chromium:
    """The browser of a mirror, in one event loop at a time."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings.browser
        self.slots = asyncio.Semaphore(self._settings.concurrency)
        """A poll takes one before its time begins to count."""
        self._starting = asyncio.Lock()
        self._driver: Any = None
        self._browser: Browser | None = None
        self._root = 0
        """The process that all others of the browser go back to."""
        self._watching: asyncio.Task[None] | None = None
        self._polls = 0
        self._open = 0
        self.killed = ""
        """Why it was killed last."""
        self.most_memory = 0
        """Bytes that it had at most, as far as was looked."""

    @asynccontextmanager
    async def context(self, proxy: str, **options: Any) -> AsyncIterator[BrowserContext]:  # noqa: ANN401
        """Give a poll a place of its own in the browser; it has taken one of the slots."""
        browser = await self._started()
        self._open += 1
        context = None
        try:
            context = await browser.new_context(
                proxy={"server": proxy, "bypass": "<-loopback>"},
                accept_downloads=False,
                service_workers="block",
                **options,
            )
            yield context
        finally:
            self._open -= 1
            if context is not None:
                await self._close_context(context)

    async def _close_context(self, context: BrowserContext) -> None:
        """Close a context; kill the browser if it does not."""
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await context.close()
        except TimeoutError:
            await self.kill("it hung")
        except Exception:  # noqa: BLE001, S110  (it has gone already)
            pass

    async def _started(self) -> Browser:
        async with self._starting:
            old = self._polls >= _POLLS_PER_BROWSER and not self._open
            if self._browser is not None and (old or not self._browser.is_connected()):
                await self._stop()
            self._polls += 1
            if self._browser is None:
                await self._start()
            browser = self._browser
            assert browser is not None  # noqa: S101  (it was started)
            return browser

    async def _start(self) -> None:
        need("playwright", extra="browser", needed_for="rendered pages")
        from playwright.async_api import async_playwright

        executable, before = self.executable(), set(descendants(os.getpid()))
        async with asyncio.timeout(_START_SECONDS):
            self._driver = await async_playwright().start()
            self._browser = await self._driver.chromium.launch(
                executable_path=executable,
                headless=True,
                args=list(_ARGUMENTS),
                chromium_sandbox=not hasattr(os, "geteuid") or os.geteuid() != 0,
                proxy={"server": _NOWHERE, "bypass": "<-loopback>"},
                env={
                    name: os.environ[name]
                    for name in ("HOME", "PATH", "TMPDIR", "LANG")
                    if name in os.environ
                },
            )
        new = [one for one in descendants(os.getpid()) if one not in before]
        self._root = next((one for one in new if b"run-driver" in _command(one)), 0)
        self._polls, self.killed = 1, ""
        self._watching = asyncio.create_task(self._watch())

    def executable(self) -> str:
        """Return the browser of the system, or raise `InvalidInput`."""
        named = self._settings.executable
        found = shutil.which(named) if named else next(filter(None, map(shutil.which, _NAMES)), None)
        if found is None:
            todo = "install Chromium, or name a browser with [browser] executable"
            raise InvalidInput(
                f"there is no browser {named!r}; {todo}" if named else f"there is no Chromium; {todo}"
            )
        return found

    async def _watch(self) -> None:
        """Kill the browser when it has too much memory."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            size = await asyncio.to_thread(self.memory)
            self.most_memory = max(self.most_memory, size)
            if size > self._settings.memory:
                await self.kill(f"it had more than {self._settings.memory / 1e6:,.0f} MB of memory")
                return

    def memory(self) -> int:
        """Return the bytes that the browser has in memory."""
        return resident_bytes(descendants(self._root)) if self._root else 0

    async def kill(self, why: str) -> None:
        """Kill the browser; the next poll starts it again."""
        self.killed = why
        if self._root:
            kill(await asyncio.to_thread(descendants, self._root))
        await self._stop()

    async def _stop(self) -> None:
        browser, driver, root = self._browser, self._driver, self._root
        watching, self._watching = self._watching, None
        self._browser, self._driver, self._root = None, None, 0
        if watching is not None and watching is not asyncio.current_task():
            watching.cancel()
        with suppress(Exception):
            async with asyncio.timeout(_CLOSE_SECONDS):
                if browser is not None:
                    await browser.close()
        with suppress(Exception):
            async with asyncio.timeout(_CLOSE_SECONDS):
                if driver is not None:
                    await driver.stop()
        if root:
            kill([*descendants(root), root])

    async def close(self) -> None:
        """End the browser."""
        async with self._starting:
            await self._stop()


def _command(process: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes()
    return b""


def user_agent_suffix(contact: str | None) -> str:
    """Return what is added to the name by which the browser presents itself."""
    return f" unstale/{version('unstale')}" + (f" (+{contact})" if contact else "")
