"""Draw the pictures of the dashboard: a mirror of an imaginary web, in simulated time, and Chromium.

    .venv/bin/python docs/dashboard_pictures.py [FOLDER] [--wide 1280] [--only overview] [--phone]

needs Chromium (``apt install chromium``) and writes docs/pictures/PAGE-light.png and PAGE-dark.png.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import uvicorn
from PIL import Image
from playwright.sync_api import sync_playwright

from unstale import Mirror
from unstale.dashboard.app import create_app
from unstale.dashboard.guard import AccessRules
from unstale.dashboard.mirror_gateway import MirrorGateway
from unstale.mirror.clock import SimulatedClock
from unstale.mirror.settings import GroupLimit, Settings
from unstale.mirror.source import Found, Json, Known, New

DAY = 86400.0
START = 1_793_000_000.0
DAYS = 4.0
BUDGET = 2400 / DAY
HEIGHTS = {"overview": 1080, "element": 1080}
HOSTS = ("news.example", "docs.example", "shop.example", "data.example", "blog.example")
_WORDS = (
    "The council has moved the vote on the harbour bridge to Thursday.",
    "Rain is expected along the coast until the evening.",
    "Version {n} of the manual corrects the chapter on valves.",
    "The price of the blue kettle is {price} euros.",
    "Ferries run every {minutes} minutes on weekdays.",
    "A reader asked whether the old mill can be visited; it can, on Sundays.",
    "The data of the third quarter have been revised by {share} per cent.",
    "Tickets for the concert are sold out.",
)


class ImaginaryWeb:
    """Pages that change at rates of their own; a source of a mirror."""

    def __init__(self, clock: SimulatedClock, count: int, seed: int = 7) -> None:
        rng = np.random.default_rng(seed)
        self.clock = clock
        self.keys = [
            f"https://{HOSTS[n % len(HOSTS)]}/{('a', 'guide', 'item', 'table', 'post')[n % 5]}/{n:03d}"
            for n in range(count)
        ]
        rates = rng.lognormal(np.log(4.0 / DAY), 1.6, count)
        rates[0] = 8.0 / DAY
        self.changes = {
            key: START - 30 * DAY + np.cumsum(rng.exponential(1 / rate, int(rate * 40 * DAY) + 20))
            for key, rate in zip(self.keys, rates, strict=True)
        }
        self.weights = np.minimum(40.0 / np.arange(1, count + 1) ** 0.8, 12.0)
        rng.shuffle(self.weights[1:])

    def version(self, key: str) -> int:
        """Return the version of now."""
        return int(np.searchsorted(self.changes[key], self.clock.now()))

    def content(self, key: str, version: int) -> bytes:
        """Return a page as it is in some version."""
        rng = np.random.default_rng([version // 3, len(key), int(key[-3:])])
        lines = [_WORDS[n] for n in rng.permutation(len(_WORDS))[:6]]
        lines[version % 6] = _WORDS[version % len(_WORDS)]
        filled = [
            line.format(n=version, price=19 + version % 7, minutes=10 + version % 15, share=version % 9)
            for line in lines
        ]
        title = f"{key.split('/')[3].title()} {key[-3:]}"
        body = "".join(f"<p>{line}</p>\n" for line in filled)
        return (
            f"<html><head><title>{title}</title></head><body><h1>{title}</h1>\n{body}</body></html>".encode()
        )

    def key(self, text: str, _: Mapping[str, Json]) -> str:
        """Return the key."""
        return text

    def group(self, key: str, _: Mapping[str, Json]) -> str:
        """Return the host."""
        return f"http:{key.split('/')[2]}"

    async def poll(self, known: Known, _: Mapping[str, Json]) -> Found:
        """Answer a poll."""
        await asyncio.sleep(0)
        number = int(known.key[-3:])
        if number % 131 == 13:
            raise OSError("the server closed the connection")
        if number % 50 == 8 and self.clock.now() > START + (DAYS - 0.02) * DAY:
            return Found("failed", "429 Too Many Requests", wait=1800.0)
        body = self.content(known.key, self.version(known.key))
        meta = {"title": f"{known.key.split('/')[3].title()} {known.key[-3:]}"}
        return Found(
            "changed", "200 OK", body=body, media_type="text/html", traffic=len(body) + 320, meta=meta
        )

    async def close(self) -> None:
        """Let go of nothing."""


def build(folder: Path, count: int = 400, days: float = DAYS) -> tuple[Mirror, ImaginaryWeb]:
    """Run a mirror of the imaginary web for some days, in simulated time."""
    clock = SimulatedClock(START)
    web = ImaginaryWeb(clock, count)
    mirror = Mirror(
        folder / "mirror.db",
        settings=Settings(
            budget=BUDGET, groups=(GroupLimit("http:*", spacing=30.0, concurrency=4),), keep=50
        ),
        clock=clock,
        sources={"http": web},  # type: ignore[dict-item]
        tick=300.0,
        sample_every=900.0,
    )
    for key, weight in zip(web.keys, web.weights, strict=True):
        mirror.add_many([New(key, "http")], {"weight": float(weight)})
    for part in range(4):
        mirror.run(START + days * DAY * (part + 1) / 4.4)
        if part:
            mirror.audit(50, seed=part + 10)
    mirror.run(START + days * DAY)
    now = clock.now()
    with mirror.store.begin() as t:
        t.alive("elsewhere:1:picture", now, now + DAY)
        t.read({number: 3 * (400 - number) // 40 for number in range(1, 200)}, now - 3600.0)
    return mirror, web


@contextmanager
def served(mirror: Mirror) -> Iterator[str]:
    """Serve the dashboard of a mirror on loopback."""
    app = create_app(MirrorGateway(mirror), AccessRules())
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(10)


def small(png: bytes) -> bytes:
    """Return a picture with so many colours that nobody misses one."""
    picture = Image.open(io.BytesIO(png)).convert("RGB").quantize(128, dither=Image.Dither.NONE)
    out = io.BytesIO()
    picture.save(out, "PNG", optimize=True)
    return out.getvalue()


def pages(mirror: Mirror) -> dict[str, str]:
    """Return what is drawn: names, and addresses."""
    with mirror.store.begin() as t:
        element = t.elements(0, 1)[0].id
        version = t.versions(element=element, limit=1, latest_first=True)[0].id
    return {
        "overview": "/?span=week",
        "what-if": "/what-if?budget=4000/day",
        "elements": "/elements?sort=weight&down=1",
        "element": f"/elements/{element}",
        "changes": "/changes",
        "version": f"/elements/{element}/versions/{version}",
        "docs": "/docs",
    }


def main() -> None:
    """Draw what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parent / "pictures")
    parser.add_argument("--only", default="overview,what-if,element,elements,changes")
    parser.add_argument("--wide", type=int, default=1280)
    parser.add_argument("--schemes", default="light,dark")
    parser.add_argument("--whole", action="store_true", help="the whole page, however long")
    parser.add_argument("--keep", type=Path, help="a folder with a mirror from before, or for one")
    given = parser.parse_args()
    browser_path = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser_path is None:
        parser.error("there is no Chromium; install it: apt install chromium")
    folder = given.keep or Path(tempfile.mkdtemp()) / "my-mirror"
    folder.mkdir(exist_ok=True)
    if (folder / "mirror.db").exists():
        clock = SimulatedClock(START + DAYS * DAY)
        web = ImaginaryWeb(clock, 400)
        settings = replace(Settings(), budget=BUDGET)
        mirror = Mirror(folder / "mirror.db", settings=settings, clock=clock, sources={"http": web})  # type: ignore[dict-item]
    else:
        folder.mkdir(parents=True, exist_ok=True)
        mirror, _ = build(folder)
    given.folder.mkdir(parents=True, exist_ok=True)
    addresses = pages(mirror)
    with served(mirror) as root, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        for scheme in given.schemes.split(","):
            context = browser.new_context(
                viewport={"width": given.wide, "height": 780},
                color_scheme=scheme,
            )
            page = context.new_page()
            for name in given.only.split(","):
                if given.wide > 600:
                    page.set_viewport_size({"width": given.wide, "height": HEIGHTS.get(name, 860)})
                page.goto(root + addresses[name], wait_until="networkidle")
                if name == "changes":
                    page.evaluate(
                        "document.querySelectorAll('details').forEach((d, n) => { d.open = n < 2 })"
                    )
                page.wait_for_timeout(200)
                png = small(page.screenshot(full_page=given.whole))
                (given.folder / f"{name}-{scheme}.png").write_bytes(png)
                wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
                told = f", {wide} px too wide" if wide > 0 else ""
                sys.stdout.write(f"{name}-{scheme}.png: {len(png):,} bytes{told}\n")
            context.close()
        browser.close()
    if given.keep is None:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
