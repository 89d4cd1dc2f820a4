"""Rendered polls: how many a second, and memory per page, beside a bare loop of Playwright."""

import asyncio
import os
import tempfile
import time
from pathlib import Path

from benchmarks.startup import _site
from unstale.mirror.settings import Browser, Http, Settings
from unstale.mirror.source import Known, Terms
from unstale.mirror.sources.browser.chromium import _ARGUMENTS
from unstale.mirror.sources.browser.processes import descendants, resident_bytes
from unstale.mirror.sources.browser.source import BrowserSource

_POLLS, _AT_ONCE = 12, 2


async def _ours(addresses: list[str], folder: Path) -> tuple[float, int, int]:
    """Return seconds for all pages, and the memory of the browser with no page and at most."""
    settings = Settings(http=Http(robots=False), browser=Browser(concurrency=_AT_ONCE))
    source = BrowserSource(settings)
    terms = Terms(folder, 10_000_000, 600.0)
    known = [Known(address, {"render": "always"}) for address in addresses]
    await source.poll(known[0], terms)
    empty = source.chromium.memory()
    began = time.perf_counter()
    found = await asyncio.gather(*(source.poll(one, terms) for one in known))
    took = time.perf_counter() - began
    assert all(one.outcome == "changed" for one in found), [one.detail for one in found][:1]
    most = max(source.chromium.most_memory, source.chromium.memory())
    await source.close()
    return took, empty, most


async def _bare(addresses: list[str], executable: str) -> tuple[float, int]:
    """Return seconds for all pages, and the memory at the end, of a plain loop with as many at once."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=executable, args=list(_ARGUMENTS), chromium_sandbox=os.geteuid() != 0
        )
        slots = asyncio.Semaphore(_AT_ONCE)

        async def one(address: str) -> str:
            async with slots:
                context = await browser.new_context()
                page = await context.new_page()
                await page.goto(address)
                await page.wait_for_load_state("networkidle")
                content = await page.content()
                await context.close()
                return content

        await one(addresses[0])
        began = time.perf_counter()
        await asyncio.gather(*map(one, addresses))
        took = time.perf_counter() - began
        memory = resident_bytes(descendants(os.getpid()))
        await browser.close()
    return took, memory


def run() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as name, _site(Path(name)) as (addresses, _):
        pages = addresses[:_POLLS]
        executable = BrowserSource(Settings()).chromium.executable()
        bare, bare_memory = asyncio.run(_bare(pages, executable))
        ours, empty, most = asyncio.run(_ours(pages, Path(name)))
    print(f"rendered polls, {_AT_ONCE} at once, load {os.getloadavg()[0]:.1f}:")
    print(f"  bare Playwright {_POLLS / bare:.2f} a second, {bare_memory / 1e6:.0f} MB at the end")
    print(f"  unstale         {_POLLS / ours:.2f} a second ({bare / ours:.2f} of the bare loop)")
    print(f"  memory: {empty / 1e6:.0f} MB with no page, {(most - empty) / _AT_ONCE / 1e6:.0f} MB per page")
